"""`cmake --install`: what it writes runs where none of the build's folders are within reach."""

import os
import pathlib
import re
import subprocess

from cluster import BINARY, Cluster, children_of


def install(prefix):
    """Installs the build that BINARY belongs to, then moves everything to another place; returns that place."""
    build_dir = pathlib.Path(BINARY).parents[1]
    subprocess.run(["cmake", "--install", build_dir, "--prefix", prefix / "first"], check=True, capture_output=True)
    return (prefix / "first").rename(prefix / "second")


def mapped_files(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}


def test_installed_binary_needs_nothing_of_the_build(tmp_path):
    prefix = install(tmp_path)
    binary = str(prefix / "bin/baton")
    for name in ("LICENSE", "README.md", "docs/serving.md"):
        assert (prefix / "share/doc/baton" / name).is_file()

    # Neither a home folder nor a cache: the loader finds libraries by the binary's own place alone.
    for argument in ("version", "--help"):
        result = subprocess.run([binary, argument], env={}, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr
    dynamic = subprocess.run(["readelf", "-d", binary], check=True, capture_output=True, text=True).stdout
    assert re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic) == ["$ORIGIN/../lib/baton"]

    cluster = Cluster("--threads", 1)
    cluster.command[0] = binary
    with cluster:
        mapped = set().union(*(mapped_files(pid) for pid in children_of(cluster.process.pid)))
    assert {os.path.realpath(path) for path in mapped if "libucp" in path} == {
        os.path.realpath(prefix / "lib/baton/libucp.so.0")}
    assert any(path.endswith("lib/baton/ucx/libuct_cma.so.0") for path in mapped)
