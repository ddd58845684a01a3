"""Names that a process asks for while the network loses questions."""

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from cluster import BINARY, Cluster, wait_until

SERVER = pathlib.Path(__file__).with_name("name_server.py")
# Nothing listens there. The name has a domain, so that no other name is tried first.
TARGET = "router.example.:1"
WITH_SERVER = ('ip link set lo up && echo "nameserver 127.0.0.1" > "$1/resolv.conf" && '
               'mount --bind "$1/resolv.conf" /etc/resolv.conf && exec "${@:2}" > "$1/times"')


def may_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--net", "true"], check=False,
                                                stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="this user cannot make namespaces")


@contextlib.contextmanager
def name_server(folder, loses):
    """The words that run a command where the only name server is the one that loses questions."""
    command = ["unshare", "--mount", "--net", "bash", "-c", WITH_SERVER, "bash", folder, sys.executable, SERVER, loses]
    server = subprocess.Popen(command)
    try:
        times = folder / "times"
        wait_until(lambda: times.exists() and times.read_text().startswith("ready\n"), 10, "a name server")
        yield ["nsenter", f"--target={server.pid}", "--mount", "--net", "--"]
    finally:
        server.kill()
        server.wait()


def environment():
    return {name: value for name, value in os.environ.items() if name != "RES_OPTIONS"}


def test_a_question_that_is_lost_is_asked_again_after_a_second(tmp_path):
    with name_server(tmp_path, loses="question") as there:
        result = subprocess.run([*there, BINARY, "health", "--target", TARGET], capture_output=True, text=True,
                                timeout=60, env=environment(), check=False)
    assert "Connection refused" in result.stderr, result.stderr
    _, first_s, *_, last_s = (tmp_path / "times").read_text().split()
    # The resolver's own time is 5 s.
    assert 0.5 < float(last_s) - float(first_s) < 4.5


def test_a_worker_asks_from_another_port_where_all_questions_from_one_are_lost(tmp_path):
    with name_server(tmp_path, loses="port") as there:
        worker = Cluster()
        worker.command = [*there, BINARY, "prefill-worker", "--router", TARGET, "--threads", "1"]
        worker.env = environment()
        worker.awaits_ready = False
        with worker:
            wait_until(lambda: "cannot reach the router" in worker.log(), 20, "a complaint")
            assert "Connection refused" in worker.log()
