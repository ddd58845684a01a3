#!/usr/bin/env python3
"""Takes the pictures of the dashboard that the pages show.

take_pictures.py [TARGET] [--out FOLDER] [--scenario NAME]: TARGET is HOST:PORT of a router's admin port. Without it
the pictures show a cluster of their own, the binary of BATON_BINARY under load, or with --scenario a synthetic one.
Writes dashboard-dark.png, -light.png, -requests.png and -phone.png.
"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import time

from browser import browser
from fake_events import SOURCE_DIR, FakeRouter, start_scenario

sys.path.insert(0, str(SOURCE_DIR / "tests/e2e"))
from cluster import BINARY, Cluster  # noqa: E402

# More than are served until the last picture is taken.
LOAD = ("--requests", "2000", "--concurrency", "8", "--prompt-tokens", "160", "--output-tokens", "80", "--warmup", "0")
LOAD_S = 70
# (name, width, height, phone, theme, the section at the top or nothing)
PICTURES = (
    ("dark", 1440, 1000, False, "dark", None),
    ("light", 1440, 1000, False, "light", None),
    ("requests", 1440, 1000, False, "dark", "#requests"),
    ("phone", 390, 844, True, "dark", None),
)


def take(page, target, folder, name, width, height, phone, theme, section):
    page.prefer(prefers_color_scheme=theme)
    page.open(target, width, height, phone, 2 if phone else 1)
    page.wait(lambda: page.js("return window.batonDebug?.received().snapshotAt ?? 0"), "a snapshot")
    # Two more snapshots, so that rates and the course of the transfers are there.
    first = page.js("return batonDebug.received().snapshotAt")
    page.wait(lambda: page.js("return batonDebug.received().snapshotAt") >= first + 2_000, "two more snapshots")
    if section:
        page.show(section)
    page.frames(5)
    file = folder / f"dashboard-{name}.png"
    page.driver.save_screenshot(str(file))
    print(f"{file}: {file.stat().st_size / 1024:.0f} KiB")


@contextlib.contextmanager
def cluster_under_load():
    """Yields the admin port of a real cluster, once its last minute is full."""
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1) as cluster:
        load = subprocess.Popen([BINARY, "bench", "serve", "--target", cluster.target, *LOAD],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(LOAD_S)
            yield cluster.admin
        finally:
            load.terminate()
            load.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", nargs="?", help="HOST:PORT of a router's admin port")
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE_DIR / "docs/pictures")
    parser.add_argument("--scenario", help="of a synthetic cluster")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        target = arguments.target
        if target is None and arguments.scenario is None:
            target = stack.enter_context(cluster_under_load())
        elif target is None:
            router = stack.enter_context(FakeRouter())
            stack.enter_context(start_scenario(router, arguments.scenario))
            target = router.address
        page = stack.enter_context(browser())
        for picture in PICTURES:
            take(page, target, arguments.out, *picture)


if __name__ == "__main__":
    main()
