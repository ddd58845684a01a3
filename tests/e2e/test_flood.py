"""Floods: while clients send what the router refuses, or open what they do not use, the others are served as before.

BATON_FULL_TESTS=1 runs the sizes that a service must stand; otherwise a tenth of them shows the same in seconds.
"""

import concurrent.futures
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
# So many requests show what an idle cluster takes.
IDLE_REQUESTS = 200 if FULL else 40
# What every first token may take beyond twice an idle cluster's. The full form runs on a machine of its own; others may have
# a loaded neighbour.
SLACK_S = 0.0 if FULL else 1.0
# First tokens of the ordinary client that are waited for beside streams that nobody reads.
UNREAD_FIRST_TOKENS = 5
# It takes 50 ms on a free machine, its start included.
STATUS_LIMIT_S = 1.0 if FULL else 4.0
STATUS_EVERY_S = 0.2
GROWTH_LIMIT_BYTES = 20 * MIB
# The router looks at its memory once a second (cli/heap_trim.h).
SETTLES_WITHIN_S = 2.5 if FULL else 1.5
FLOOD_CLIENT = pathlib.Path(__file__).with_name("flood_client.py")
MIXED = ("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1)
# More clients than the decode batch has places, on a prefill and a decode worker with a kernel thread for every core.
PLACES, BUSY_CLIENTS = 8, 24
# Jobs that run together end together, and on a loaded machine it takes their clients a moment to ask again.
IDLE_LOOKS = 0.02 if FULL else 0.2
BUSY = ("--max-seqs", PLACES)


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
    """A client that sends one request after the other on a thread, and runs `baton status` again and again on another."""

    def __init__(self, cluster):
        # Seconds that each took, by when it began.
        self.ttft_s, self.status_s, self.errors = {}, {}, []
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

    def await_first_tokens(self, count):
        wait_until(lambda: self.errors or len(self.ttft_s) >= count, 120, "first tokens")

    def _generate(self):
        with Client(self._cluster.target) as client:
            request = client.generate_request(PROMPT, {"max_tokens": 3})
            while not self._stopping.is_set() or not self.ttft_s:
                began = time.monotonic()
                seen = []
                generation = read_stream(client.start(request), lambda _: seen.append(time.monotonic()))
                if generation.error is not None or "Paris" not in generation.text:
                    self.errors.append(generation.error or generation.text)
                    return
                self.ttft_s[began] = seen[0] - began

    def _ask_status(self):
        while not self._stopping.is_set():
            began = time.monotonic()
            result = run_baton("status", "--target", self._cluster.target)
            self.status_s[began] = time.monotonic() - began
            if result.returncode != 0:
                self.errors.append(result.stderr)
                return
            self._stopping.wait(STATUS_EVERY_S)


class Jobs:
    """How many jobs the router has, looked at all the time, and how much of the cores its workers take."""

    LOOK_EVERY_S = 0.05

    def __init__(self, cluster):
        self.counts = []
        self._target, self._pids = cluster.target, [worker["pid"] for worker in cluster.workers()]
        self._stopping = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1)

    def __enter__(self):
        self._began, self._cpu_s = time.monotonic(), self._workers_cpu_s()
        self._looking = self._pool.submit(self._look)
        return self

    def __exit__(self, *_):
        self.cores = (self._workers_cpu_s() - self._cpu_s) / (time.monotonic() - self._began)
        self._stopping.set()
        self._pool.shutdown()
        self._looking.result()

    def _workers_cpu_s(self):
        stats = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")

    def _look(self):
        with Client(self._target) as client:
            while not self._stopping.wait(self.LOOK_EVERY_S):
                status = client.call("baton.v1.AdminService", "GetStatus", timeout_s=30)
                self.counts.append(status.running_jobs + status.queued_jobs)


@contextlib.contextmanager
def saturated_cluster():
    """More jobs are there than the decode batch has places, so the workers take what cores the clients leave."""
    def is_busy():
        status = cluster.status()
        return status["running_jobs"] + status["queued_jobs"] > PLACES

    with Cluster(*BUSY) as cluster, Flood(cluster.target, "busy", BUSY_CLIENTS, 0) as load:
        wait_until(is_busy, 60, "a busy cluster")
        with Jobs(cluster) as jobs:
            yield cluster
        load.finish()
    print(f"{load.outcomes} beside them; {min(jobs.counts)} jobs at least in {len(jobs.counts)} looks; the workers took "
          f"{jobs.cores:.2f} of {os.cpu_count()} cores")
    assert set(load.outcomes) == {"OK"}, load.outcomes
    free = sum(count <= PLACES for count in jobs.counts)
    assert free <= IDLE_LOOKS * len(jobs.counts), f"free places in {free} of {len(jobs.counts)} looks"


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
    """Runs one flood beside an ordinary client; returns both, and when the flood had ended."""
    with Flood(cluster.target, *FLOODS[kind]) as running, Ordinary(cluster) as ordinary:
        if FLOODS[kind][0] in ("silent", "unread"):
            time.sleep(1.0)
        if kind == "unread":
            ordinary.await_first_tokens(UNREAD_FIRST_TOKENS)
        running.finish()
        ended = time.monotonic()
    return running, ordinary, ended


def seconds_of_work(kind):
    """How long the requests of a flood take that are accepted: none of the others, which are refused or no requests."""
    if kind != "unread":
        return 0.0
    # On a cluster that sees no flood.
    with Cluster(*MIXED) as cluster:
        began = time.monotonic()
        with Flood(cluster.target, "read", *FLOODS[kind][1:]) as running:
            running.finish()
        assert running.outcomes == {"OK": FLOODS[kind][1]}, running.outcomes
        return time.monotonic() - began


def check_flood(cluster, kind, idle_s, work_s):
    """Every request of an ordinary client is served in time beside a flood, as is every `baton status`."""
    before = names(cluster)
    running, ordinary, ended = flood(cluster, kind)
    assert set(running.outcomes) <= EXPECTED, running.outcomes
    assert sum(running.outcomes.values()) == FLOODS[kind][1], running.outcomes
    assert not ordinary.errors, ordinary.errors[0]
    ttft_s, status_s = (list(took.values()) for took in (ordinary.ttft_s, ordinary.status_s))
    beside = [sum(began < ended for began in took) for took in (ordinary.ttft_s, ordinary.status_s)]
    limit_s = 2 * idle_s + work_s + SLACK_S
    print(f"{kind}: {running.outcomes}; first token after {idle_s * 1e3:.0f} ms idle (P99), "
          f"{statistics.median(ttft_s) * 1e3:.0f} ms and at most {max(ttft_s) * 1e3:.0f} ms of {beside[0]} beside it, where "
          f"{work_s:.1f} s of work were accepted; `baton status` at most {max(status_s) * 1e3:.0f} ms of {beside[1]}")
    assert min(beside) > 0, "the flood ended before anybody met it"
    late = sum(took > limit_s for took in ttft_s)
    assert late == 0, f"{late} of {len(ttft_s)} requests waited longer than {limit_s:.2f} s"
    assert max(status_s) < STATUS_LIMIT_S
    assert names(cluster) == before, "a worker was lost"
    assert "lost" not in cluster.log()


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_leaves_the_others_served_and_a_second_one_takes_no_more_memory(kind):
    """Each kind on a cluster of its own, so that its first flood is the first of all."""
    work_s = seconds_of_work(kind)
    with Cluster(*MIXED) as cluster:
        # Its commands start processes, which takes a share of the cores without a flood as beside one.
        with Ordinary(cluster) as idle:
            idle.await_first_tokens(IDLE_REQUESTS)
        assert not idle.errors, idle.errors[0]
        idle_s = sorted(idle.ttft_s.values())[int(0.99 * (IDLE_REQUESTS - 1))]
        rss = []
        for _ in range(2):
            check_flood(cluster, kind, idle_s, work_s)
            rss.append(settled_rss(cluster))
        print(f"{kind}: {rss[0] / MIB:.0f} MiB after the first flood, {rss[1] / MIB:.0f} MiB after the second")
        assert rss[1] - rss[0] < GROWTH_LIMIT_BYTES


def test_many_clients_that_start_at_once_beside_a_saturated_cluster_all_connect():
    """Each is a process with a connection of its own."""
    count = 40
    with saturated_cluster() as cluster:
        began = time.monotonic()
        command = [cluster.command[0], "generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", "2"]
        clients = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                   for _ in range(count)]
        errors = [client.communicate(timeout=120)[1].decode() for client in clients]
        print(f"{count} clients at once: {time.monotonic() - began:.1f} s")
    failed = [error for client, error in zip(clients, errors) if client.returncode != 0]
    assert not failed, failed


def test_clients_in_a_row_beside_a_saturated_cluster_all_connect():
    count = 500 if FULL else 6
    with saturated_cluster() as cluster:
        began = time.monotonic()
        for _ in range(count):
            result = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 2)
            assert result.returncode == 0, result.stderr
        print(f"{count} clients in a row: {(time.monotonic() - began) / count:.2f} s each")
