"""Many streams of the HTTP port at once, over workers that make tokens on a clock: what an idle one holds, what the active
ones cost beside it, and that a client which stops reading costs its own stream alone. Then 64 real ones.

BATON_FULL_TESTS=1 opens 2,000 idle streams and 500 active ones; otherwise a tenth of them.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import resource
import selectors
import socket
import statistics
import time

import openai
import pytest

from client import Client
from cluster import LEFT_TIMEOUT_S, Cluster, RoleProcess, wait_until
from paced_worker import FLOOD, IDLE, MODEL, STEP_S, TOKENS_A_SECOND, PacedWorkers
from raw_http import connect

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
IDLE_STREAMS, ACTIVE_STREAMS, MEASURED_S = (2000, 500, 20) if FULL else (200, 50, 3)
REAL_STREAMS = 64
LEAVING_STREAMS = 20
KIB = 1 << 10
# What an idle stream may hold of the router's memory, with its connection, and what all of them may cost of a core.
IDLE_LIMIT_KIB, IDLE_LIMIT_CORES = 32, 0.05
# What the router may hold for a client that stops reading a megabyte a second.
UNREAD_LIMIT_KIB = 16 * KIB
# Of the test and, as its child, of the router.
DESCRIPTORS = 8192


class Streams:
    """Streams that are read as their events come, by one thread and one selector."""

    def __init__(self, router):
        self.address = router.http
        self.selector = selectors.DefaultSelector()
        # Events of each stream by its seed.
        self.events, self.ended = {}, set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def open(self, seed, max_tokens=7000):
        body = json.dumps({"prompt": [100] * 16, "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "seed": seed,
                           "temperature": 1}).encode()
        connection = connect(self.address)
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.setblocking(False)
        self.events[seed] = 0
        self.selector.register(connection, selectors.EVENT_READ, seed)

    def leave(self, seed):
        """Closes a stream in its middle."""
        (key,) = (key for key in self.selector.get_map().values() if key.data == seed)
        self.selector.unregister(key.fileobj)
        key.fileobj.close()

    def read(self, seconds):
        """All that comes in this time."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            for key, _ in self.selector.select(left_s):
                piece = b""
                with contextlib.suppress(OSError):
                    piece = key.fileobj.recv(1 << 16)
                # A piece may end within an event, but never between these bytes and the event's data.
                self.events[key.data] += piece.count(b"data: {")
                if not piece:
                    self.ended.add(key.data)
                    self.selector.unregister(key.fileobj)
                    key.fileobj.close()

    def await_events(self, seeds, least=1, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while any(self.events[seed] < least for seed in seeds):
            assert time.monotonic() < deadline, f"{sum(self.events[seed] < least for seed in seeds)} streams have no token"
            self.read(0.05)


def rss_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def busy_s(pid):
    """Time on a core of all threads of a process."""
    total_ns = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


@pytest.fixture
def router():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
    with RoleProcess("router", "--grpc-port", 0, "--cluster-port", 0, "--max-queued-jobs", 4096, "--worker-silence-ms",
                     10_000) as router:
        yield router


def cores_of(router, streams, seconds):
    began_s, began = busy_s(router.pid), time.monotonic()
    streams.read(seconds)
    return (busy_s(router.pid) - began_s) / (time.monotonic() - began)


def open_in_turn(streams, seeds):
    """Fewer at once than the router's queue holds."""
    for first in range(0, len(seeds), 100):
        for seed in seeds[first:first + 100]:
            streams.open(seed)
        streams.await_events(seeds[first:first + 100])


def test_idle_streams_hold_little_and_cost_nothing_beside_active_ones(router):
    idle = [IDLE + number for number in range(IDLE_STREAMS)]
    active = list(range(ACTIVE_STREAMS))
    with PacedWorkers(router) as workers, Streams(router) as streams:
        # What the first streams of a process allocate is not theirs.
        open_in_turn(streams, [IDLE + IDLE_STREAMS + number for number in range(20)])
        before_kib = rss_kib(router.pid)
        open_in_turn(streams, idle)
        kib = (rss_kib(router.pid) - before_kib) / IDLE_STREAMS
        idle_cores = cores_of(router, streams, MEASURED_S)
        open_in_turn(streams, active)
        counted = dict(streams.events)
        both_cores = cores_of(router, streams, MEASURED_S)
        came = [streams.events[seed] - counted[seed] for seed in active]
        print(f"{IDLE_STREAMS} idle streams: {kib:.1f} KiB each, {idle_cores:.3f} cores in all; with {ACTIVE_STREAMS} active "
              f"ones of {TOKENS_A_SECOND} tokens/s: {both_cores:.3f} cores, "
              f"{both_cores * 1e6 * MEASURED_S / sum(came):.0f} us a token")
        assert not streams.ended
        # A step more or less, and what a loaded machine is late.
        assert all(count >= TOKENS_A_SECOND * MEASURED_S * 0.7 - 2 for count in came), sorted(came)[:10]
        assert all(streams.events[seed] == 1 for seed in idle)
        assert kib < IDLE_LIMIT_KIB
        assert idle_cores < IDLE_LIMIT_CORES
        assert workers.counts()["cancelled"] == 0


def test_a_client_that_leaves_cancels_its_job_within_a_step(router):
    """Also where no token comes, whose writing would show that nobody reads. Workers make a token in each step."""
    leaving = [IDLE + number for number in range(LEAVING_STREAMS)]
    with PacedWorkers(router) as workers, Streams(router) as streams:
        open_in_turn(streams, leaving)
        took_s = []
        for count in range(1, LEAVING_STREAMS + 1):
            began = time.monotonic()
            streams.leave(leaving[count - 1])
            while workers.counts()["cancelled"] < count:
                assert time.monotonic() - began < LEFT_TIMEOUT_S, f"{count - 1} of {count} jobs were cancelled"
            took_s.append(time.monotonic() - began)
        median_s = statistics.median(took_s)
        print(f"a worker heard after {median_s * 1e3:.1f} ms, at most {max(took_s) * 1e3:.1f} ms, that a client had left; a "
              f"step takes {STEP_S * 1e3:.0f} ms")
        assert median_s < STEP_S


def test_a_client_that_stops_reading_loses_its_own_stream_alone(router):
    active = list(range(ACTIVE_STREAMS))
    with PacedWorkers(router) as workers, Streams(router) as streams, socket.socket() as reader:
        open_in_turn(streams, active)
        before_kib = rss_kib(router.pid)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = router.http.rpartition(":")
        reader.connect((host, int(port)))
        body = json.dumps({"prompt": [100] * 16, "max_tokens": 7000, "ignore_eos": True, "stream": True, "seed": FLOOD,
                           "logprobs": 20, "temperature": 1}).encode()
        reader.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        counted, began, most_kib = dict(streams.events), time.monotonic(), 0
        while workers.counts()["cancelled"] == 0:
            assert time.monotonic() - began < 60, "the stream that nobody reads goes on"
            streams.read(0.25)
            most_kib = max(most_kib, rss_kib(router.pid) - before_kib)
        streams.read(2)
        elapsed_s = time.monotonic() - began
        came = [streams.events[seed] - counted[seed] for seed in active]
        print(f"cut after {elapsed_s - 2:.1f} s, at most {most_kib} KiB more; the others got {min(came)} to {max(came)} tokens")
        assert not streams.ended
        assert all(count >= TOKENS_A_SECOND * elapsed_s * 0.7 - 2 for count in came), sorted(came)[:10]
        assert most_kib < UNREAD_LIMIT_KIB
        assert workers.counts()["cancelled"] == 1


def test_64_real_streams_run_through_one_gateway(prose_ids):
    prompts = [prose_ids[number * 30:number * 30 + 24] for number in range(REAL_STREAMS)]
    tokens = 64 if FULL else 8
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, "--max-seqs", REAL_STREAMS) as cluster:
        with Client(cluster.target) as client:
            def by_grpc(prompt):
                return list(client.generate(prompt, {"max_tokens": tokens, "ignore_eos": True}).token_ids)

            with concurrent.futures.ThreadPoolExecutor(REAL_STREAMS) as pool:
                expected = list(pool.map(by_grpc, prompts))

        pid = cluster.pid_of("router")
        before_kib, began_s, began = rss_kib(pid), busy_s(pid), time.monotonic()
        with openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0, timeout=120) as client:
            def by_http(prompt):
                stream = client.completions.create(model=MODEL, prompt=prompt, max_tokens=tokens, stream=True, temperature=0,
                                                   extra_body={"ignore_eos": True, "return_token_ids": True})
                return [id for chunk in stream for id in getattr(chunk.choices[0], "token_ids", None) or []]

            with concurrent.futures.ThreadPoolExecutor(REAL_STREAMS) as pool:
                assert list(pool.map(by_http, prompts)) == expected
        elapsed_s = time.monotonic() - began
        kib, cores = (rss_kib(pid) - before_kib) / REAL_STREAMS, (busy_s(pid) - began_s) / elapsed_s
        print(f"{REAL_STREAMS} streams of {tokens} tokens in {elapsed_s:.1f} s: {kib:.1f} KiB a stream, {cores:.3f} cores of "
              "the router")
        cluster.await_idle()
