"""Floods: while clients send what the router refuses, or open what they do not use, the others are served as before.

BATON_FULL_TESTS=1 runs the sizes that a service must stand; otherwise a tenth of them shows the same in seconds.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import pytest

from client import Client, read_stream
from cluster import Cluster, children_of, run_baton, wait_until

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
KIB, MIB = 1 << 10, 1 << 20
PROMPT = "The capital of France is"
# The largest message that the router takes.
MESSAGE_BYTES = 4 * MIB
# (count, bytes) of each kind.
FLOODS = {
    "large_prompts": ("prompts", 200 if FULL else 20, MIB),
    "prompts": ("prompts", 2_000 if FULL else 100, 100 * KIB),
    "detokenize": ("detokenize", 20 if FULL else 2, MESSAGE_BYTES - KIB),
    "silent": ("silent", 500 if FULL else 100, 0),
    "unread": ("unread", 300 if FULL else 30, 0),
}
# What is refused, and what a flood may hear when it is served.
EXPECTED = {"OK", "OPEN", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
# Without a flood beside it, an ordinary request has its first token within 50 ms on the smallest machine. A request may
# wait for the small ones that were accepted before it, and the machine for a loaded neighbour.
SLACK_S = 0.25 if FULL else 1.0
# First tokens of the ordinary client that are waited for beside streams that nobody reads.
UNREAD_FIRST_TOKENS = 5
# It takes 20 ms at the most on a free machine.
STATUS_LIMIT_S = 1.0 if FULL else 4.0
GROWTH_LIMIT_BYTES = 20 * MIB
# The router looks at its memory once a second (cli/heap_trim.h).
SETTLES_WITHIN_S = 2.5
FLOOD_CLIENT = pathlib.Path(__file__).with_name("flood_client.py")
MIXED = ("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1)


class Flood:
    """A flood_client process. `with` leaves once it has ended; its requests are on their way from the beginning."""

    def __init__(self, target, kind, count, size):
        self.process = subprocess.Popen([sys.executable, str(FLOOD_CLIENT), kind, target, str(count), str(size)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.outcomes = None

    def __enter__(self):
        assert self.process.stdout.readline().strip() == "started", self.process.poll()
        return self

    def finish(self):
        out, _ = self.process.communicate(timeout=180)
        self.outcomes = json.loads(out.splitlines()[-1])["outcomes"]

    def __exit__(self, exc_type, *_):
        if exc_type is None and self.outcomes is None:
            self.finish()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


class Ordinary:
    """A client that sends one request after the other, on a thread, and another that asks for the status."""

    def __init__(self, cluster):
        self.ttft_s, self.status_s, self.errors = [], [], []
        self._cluster = cluster
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._generate, self._ask_status)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _generate(self):
        with Client(self._cluster.target) as client:
            while not self._stopping.is_set() or len(self.ttft_s) < 5:
                began = time.monotonic()
                seen = []
                generation = read_stream(client.start(client.generate_request(PROMPT, {"max_tokens": 3})),
                                         lambda _: seen.append(time.monotonic()))
                if generation.error is not None or "Paris" not in generation.text:
                    self.errors.append(generation)
                    return
                self.ttft_s.append(seen[0] - began)

    def _ask_status(self):
        with Client(self._cluster.target) as client:
            while not self._stopping.is_set() or not self.status_s:
                began = time.monotonic()
                client.call("baton.v1.AdminService", "GetStatus", timeout_s=30)
                self.status_s.append(time.monotonic() - began)
                time.sleep(0.02)


def names(cluster):
    return sorted((worker["pid"], worker["incarnation"]) for worker in cluster.workers())


def router_rss(cluster):
    router = next(pid for pid in children_of(cluster.pid)
                  if b"\0router\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
    status = pathlib.Path(f"/proc/{router}/status").read_text()
    return next(int(line.split()[1]) * KIB for line in status.splitlines() if line.startswith("VmRSS:"))


def settled_rss(cluster):
    """The router's memory once it had time to give back what is free: the requests that happen to be under way at once
    differ from flood to flood."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    least = router_rss(cluster)
    while time.monotonic() < deadline:
        time.sleep(0.1)
        least = min(least, router_rss(cluster))
    return least


def flood(cluster, kind):
    """Runs one flood beside an ordinary client; returns both."""
    with Flood(cluster.target, *FLOODS[kind]) as running, Ordinary(cluster) as ordinary:
        if FLOODS[kind][0] in ("silent", "unread"):
            time.sleep(1.0)
        if kind == "unread":
            wait_until(lambda: ordinary.errors or len(ordinary.ttft_s) >= UNREAD_FIRST_TOKENS, 120, "first tokens")
        running.finish()
    return running, ordinary


def seconds_of_work(cluster, kind):
    """How long the requests of a flood take that are accepted: none of the others, which are refused or no requests."""
    if kind != "unread":
        return 0.0
    began = time.monotonic()
    with Flood(cluster.target, "read", *FLOODS[kind][1:]) as running:
        running.finish()
    assert running.outcomes == {"OK": FLOODS[kind][1]}, running.outcomes
    return time.monotonic() - began


@pytest.fixture(scope="module")
def flooded():
    with Cluster(*MIXED) as cluster:
        yield cluster


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_leaves_the_others_served(flooded, kind):
    with Ordinary(flooded) as idle:
        time.sleep(0.5)
    before = names(flooded)
    work_s = seconds_of_work(flooded, kind)
    running, ordinary = flood(flooded, kind)
    assert set(running.outcomes) <= EXPECTED, running.outcomes
    assert sum(running.outcomes.values()) == FLOODS[kind][1], running.outcomes
    assert not ordinary.errors, ordinary.errors[0].error
    idle_s, flooded_s = statistics.median(idle.ttft_s), statistics.median(ordinary.ttft_s)
    print(f"{kind}: {running.outcomes}; first token after {idle_s * 1e3:.0f} ms idle, {flooded_s * 1e3:.0f} ms and at most "
          f"{max(ordinary.ttft_s) * 1e3:.0f} ms of {len(ordinary.ttft_s)} beside it, where {work_s:.1f} s of work were accepted; "
          f"status at most {max(ordinary.status_s) * 1e3:.0f} ms of {len(ordinary.status_s)}")
    # Beside work that was accepted, every request counts: the first one waits for nearly all of that work.
    assert (max(ordinary.ttft_s) if work_s > 0 else flooded_s) <= 2 * idle_s + work_s + SLACK_S
    assert max(ordinary.status_s) < STATUS_LIMIT_S
    assert names(flooded) == before, "a worker was lost"
    assert "lost" not in flooded.log()
    result = run_baton("status", "--target", flooded.target)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("kind", ["large_prompts", "prompts", "detokenize"])
def test_a_second_equal_flood_takes_no_more_memory(flooded, kind):
    flood(flooded, kind)
    first = settled_rss(flooded)
    flood(flooded, kind)
    second = settled_rss(flooded)
    print(f"{kind}: {first / MIB:.0f} MiB after the first flood, {second / MIB:.0f} MiB after the second")
    assert second - first < GROWTH_LIMIT_BYTES


def test_many_clients_that_start_at_once_all_connect(flooded):
    """Each is a process with a connection of its own, beside workers that are busy."""
    count = 40
    with Flood(flooded.target, "unread", 16, 0):
        began = time.monotonic()
        command = [flooded.command[0], "generate", "--target", flooded.target, "--prompt", PROMPT, "--max-tokens", "1"]
        clients = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                   for _ in range(count)]
        errors = [client.communicate(timeout=120)[1].decode() for client in clients]
    failed = [error for client, error in zip(clients, errors) if client.returncode != 0]
    print(f"{count} clients at once: {time.monotonic() - began:.1f} s")
    assert not failed, failed


def test_clients_in_a_row_all_connect(flooded):
    count = 500 if FULL else 20
    with Flood(flooded.target, "unread", 16, 0):
        for _ in range(count):
            result = run_baton("generate", "--target", flooded.target, "--prompt", PROMPT, "--max-tokens", 1)
            assert result.returncode == 0, result.stderr
