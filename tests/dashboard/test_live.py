"""The dashboard of a real router: its numbers are those of /metrics.

BATON_DASHBOARD_TARGET=HOST:PORT names the admin port of a router that serves and rests. Without it a cluster of the
binary BATON_BINARY is started, and given something to do.
"""

import os
import re
import urllib.request

import pytest

from fake_events import SOURCE_DIR
from synthetic_cluster import PHASES

TARGET = os.environ.get("BATON_DASHBOARD_TARGET", "")
REQUESTS = 12


def has_admin_port():
    """Whether the binary has what this file tests."""
    from cluster import BINARY, run_baton

    return os.access(BINARY, os.X_OK) and "--admin-port" in run_baton("serve", "--help").stdout


@pytest.fixture(scope="module")
def admin():
    if TARGET:
        yield TARGET
        return
    if not has_admin_port():
        pytest.skip("BATON_BINARY names no binary with an admin port")
    from cluster import Cluster, run_baton

    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--admin-port", 0) as cluster:
        for number in range(REQUESTS):
            prompt = f"Once upon a time there were {number} "
            done = run_baton("generate", "--target", cluster.target, "--prompt", prompt, "--max-tokens", 8 + number)
            assert done.returncode == 0, done.stderr
        yield cluster.admin


def metrics(admin):
    """{name: {labels: value}} of /metrics, with labels as a frozenset of pairs."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = {}
    for line in text.splitlines():
        sample = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
        if sample:
            labels = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2] or ""))
            found.setdefault(sample[1], {})[labels] = float(sample[3])
    return found


def total(samples, **labels):
    return sum(value for found, value in samples.items() if set(labels.items()) <= found)


@pytest.fixture
def live(page, admin):
    """The page, showing at least two snapshots of this router."""
    page.open(admin)
    page.wait(lambda: page.js("return window.batonDebug?.received().snapshotAt ?? 0"), "a snapshot")
    first = page.js("return batonDebug.received().snapshotAt")
    page.wait(lambda: page.js("return batonDebug.received().snapshotAt") > first, "the next snapshot")
    page.frames(3)
    return page


def test_counts_and_gauges_are_those_of_metrics(live, admin):
    scraped = metrics(admin)
    ended = total(scraped["baton_requests_total"])
    live.show("#requests")
    assert live.sizes()["requests"] == min(ended, 10_000)
    live.js("scrollTo(0, 0)")
    live.frames(3)
    assert int(live.text("#tile-running .value")) == total(scraped["vllm:num_requests_running"])
    assert int(live.text("#tile-running .more").split()[0]) == total(scraped["vllm:num_requests_waiting"])
    (model,) = {dict(labels)["model_name"] for labels in scraped["vllm:num_requests_running"]}
    assert live.text("#model") == model


def test_the_worker_cards_are_the_workers_of_metrics(live, admin):
    scraped = metrics(admin)
    live.show("#workers")
    cards = live.js("""
        return [...document.querySelectorAll(".card")].map((card) => [".address", ".role", ".running", ".used"].map(
            (name) => card.querySelector(name).textContent));""")
    blocks = scraped["baton_worker_kv_blocks"]
    addresses = {dict(labels)["worker"] for labels in blocks}
    assert {address for address, *_ in cards} == addresses
    for address, role, running, used in cards:
        assert total(scraped["baton_worker_running"], worker=address, role=role) == int(running)
        share = total(blocks, worker=address, state="used") / total(blocks, worker=address)
        assert float(used.split()[0].lstrip("<")) == pytest.approx(share * 100, abs=0.11)


def test_the_transfer_matrix_has_the_pairs_of_metrics(live, admin):
    scraped = metrics(admin)
    if "baton_transfer_pair_bytes_total" not in scraped:
        pytest.skip("nothing was handed over")
    live.show("#transfers")
    titles = live.js("return [...document.querySelectorAll('#transfer-matrix td[title]')].map((cell) => cell.title)")
    pairs = {
        (dict(labels)["source"], dict(labels)["target"]): value
        for labels, value in scraped["baton_transfer_pair_reads_total"].items()
    }
    shown = [re.match(r"(\S+) to (\S+), since the start: .* in ([\d,]+) reads?$", title) for title in titles]
    assert {(found[1], found[2]): int(found[3].replace(",", "")) for found in shown} == pairs


def test_the_sum_of_each_phase_is_that_of_metrics(live, admin):
    """Of the requests that ended well; their rows are exported as CSV."""
    import csv
    import io

    scraped = metrics(admin)
    live.show("#requests")
    rows = [row for row in csv.DictReader(io.StringIO(live.downloaded("#export-csv")[1])) if row["outcome"] == "ok"]
    if len(rows) != total(scraped["baton_requests_total"], outcome="ok"):
        pytest.skip("the router has forgotten some requests")
    for phase in PHASES:
        seconds = total(scraped["baton_phase_seconds_sum"], phase=phase)
        assert sum(float(row[f"{phase}_ms"]) for row in rows) / 1000 == pytest.approx(
            seconds, rel=1e-3, abs=1e-4
        ), phase
    for column, name in (
        ("ttft_ms", "vllm:time_to_first_token_seconds"),
        ("total_ms", "vllm:e2e_request_latency_seconds"),
    ):
        values = [float(row[column]) for row in rows if row[column]]
        assert len(values) == total(scraped[f"{name}_count"])
        assert sum(values) / 1000 == pytest.approx(total(scraped[f"{name}_sum"]), rel=1e-3, abs=1e-4)
    # The phases of a request are all of its time.
    for row in rows:
        assert sum(float(row[f"{phase}_ms"]) for phase in PHASES) == pytest.approx(float(row["total_ms"]), abs=0.01)


def test_the_page_of_a_real_router_asks_nobody_else_and_says_nothing_on_the_console(live, admin):
    for section in ("phases", "workers", "transfers", "requests", "timeline"):
        live.show(f"#{section}")
    assert live.console() == []
    assert [url for url in live.requested_urls() if not url.startswith((f"http://{admin}/", "data:"))] == []


def test_the_binary_serves_the_files_of_the_source(admin):
    policy = None
    for file in sorted((SOURCE_DIR / "dashboard").glob("*.*")):
        if file.suffix not in (".html", ".js", ".css"):
            continue
        path = "" if file.name == "index.html" else file.name
        with urllib.request.urlopen(f"http://{admin}/{path}", timeout=10) as response:
            assert response.read() == file.read_bytes(), file.name
            policy = response.headers["Content-Security-Policy"]
        assert policy and "script-src 'self'" in policy and "unsafe" not in policy, file.name
