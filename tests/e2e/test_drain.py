"""Drains: what runs when a process is told to end has the drain time-out to end, is then cut with a reason, and a second
signal cuts it at once."""

import contextlib
import os
import re
import signal
import urllib.error
import urllib.request

import grpc
import pytest

from client import Background, Client
from cluster import Cluster, RoleProcess, await_workers, stopped, wait_until

PROMPT = "The capital of France is"
# No test waits for its end. A stream that ends by itself may be over on a fast machine before the test has looked at it.
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
SHORT = {"max_tokens": 8}
WAIT_S = 20
# Of a process that waits for nothing: far more than a busy machine takes, and less than the drain time-out of 25 s.
PROMPT_END_S = 15
DRAIN_MS = 100
DRAIN_TIMEOUT = ("--drain-timeout-ms", DRAIN_MS)


def worker(router, *args):
    return RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1, *args)


@contextlib.contextmanager
def ends_with(process, exit_code):
    """For the body's end: the process has ended with that code. A cluster fixture expects 0."""
    yield
    assert process.process.wait(PROMPT_END_S) == exit_code, process.log()
    process.process.returncode = 0


def is_ready(process):
    """Whether the admin port says so."""
    try:
        with urllib.request.urlopen(f"http://{process.admin}/readyz", timeout=10) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return False


def assert_right(client, tokens):
    """They are what the endless prompt gives where nothing happens."""
    assert client.generate(PROMPT, ENDLESS | {"max_tokens": len(tokens)}).token_ids == tokens


def assert_cut(generation, process):
    """The stream has one error, whose request the log of `process` names."""
    assert generation.error is not None, "the stream was not cut"
    assert generation.error.code() == grpc.StatusCode.UNAVAILABLE
    said = re.search(r"request ([0-9a-f]{32}) did not end within the drain time-out of 100 ms and was cut",
                     generation.error.details())
    assert said is not None, generation.error.details()
    assert f"the drain time-out of 100 ms is over: cut 1 request: {said[1]}" in process.log(), process.log()


def test_a_worker_that_drains_ends_its_streams_while_another_gets_the_new_requests():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router) as one, worker(router) as other:
            await_workers(router, 2)
            # The router learns what a worker holds by heartbeats.
            busy = lambda: [w["pid"] for w in router.workers() if w["used_blocks"] > 0]
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            pid = wait_until(busy, WAIT_S, "the worker of the stream to say so")[0]
            draining, free = (one, other) if one.pid == pid else (other, one)
            draining.signal(signal.SIGTERM)
            # The log remembers what the list of workers shows for some milliseconds: a stream that moves at once lets the
            # worker go at once.
            wait_until(lambda: f"(pid {draining.pid}) is draining" in router.log(), WAIT_S, "the router to hear of it")
            short = client.generate(PROMPT, SHORT).token_ids
            with ends_with(draining, 0):
                running.wait_for_more()
            running.wait_for_more()
            tokens = running.cancel().token_ids
            assert tokens[:len(short)] == short
            assert_right(client, tokens)
            assert "cut" not in draining.log() and "drained in" in draining.log()
            wait_until(lambda: [w["pid"] for w in router.workers()] == [free.pid], WAIT_S, "the drained worker to be gone")


def test_a_workers_time_out_cuts_its_stream_which_goes_on_at_the_next_worker():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, *DRAIN_TIMEOUT) as draining:
            await_workers(router, 1)
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            with ends_with(draining, 0):
                draining.signal(signal.SIGTERM)
            assert re.search(r"the drain time-out of 100 ms is over: cut 1 request: [0-9a-f]{32}", draining.log())
        assert running.is_running(), "the stream did not wait for the next worker"
        with worker(router):
            running.wait_for_more()
            assert_right(client, running.cancel().token_ids)


def test_the_routers_time_out_cuts_its_stream_with_a_reason():
    with RoleProcess("router", "--grpc-port", 0, *DRAIN_TIMEOUT) as router, Client(router.target) as client:
        with worker(router):
            await_workers(router, 1)
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            with ends_with(router, 0):
                router.signal(signal.SIGTERM)
                generation = running.result()
            assert_cut(generation, router)
            assert "the router is shutting down" in generation.error.details()


def test_serve_hands_its_time_out_on():
    with Cluster("--threads", 1, *DRAIN_TIMEOUT) as cluster, Client(cluster.target) as client:
        running = Background(client, PROMPT, ENDLESS)
        running.wait_running()
        with ends_with(cluster, 0):
            cluster.signal(signal.SIGTERM)
            generation = running.result()
        assert_cut(generation, cluster)


@pytest.mark.parametrize("who", ["router", "worker"])
def test_a_second_signal_ends_a_single_process_at_once(who):
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client, worker(router) as working:
        await_workers(router, 1)
        running = Background(client, PROMPT, ENDLESS)
        running.wait_running()
        process = router if who == "router" else working
        wait_until(lambda: is_ready(process), WAIT_S, f"the {who} to be ready")
        process.signal(signal.SIGTERM)
        wait_until(lambda: "draining" in process.log(), WAIT_S, f"the {who} to drain")
        assert process.process.poll() is None, "the stream keeps it"
        assert is_ready(process) is False
        with ends_with(process, 1):
            process.signal(signal.SIGINT)
        assert "a second signal came: ending at once" in process.log()
        if who == "worker":
            assert running.is_running(), "the stream does not wait for another worker"
            running.stream.cancel()
        assert running.result().error is not None


@pytest.mark.skipif(os.environ.get("BATON_FULL_TESTS") != "1", reason="it takes ten seconds: BATON_FULL_TESTS=1 runs it")
@pytest.mark.parametrize("role", ["router", "decode"])
def test_serve_kills_a_child_that_does_not_end_and_says_so(role):
    with Cluster("--threads", 1, *DRAIN_TIMEOUT) as cluster:
        pid = cluster.pid_of(role)
        with stopped(pid):
            cluster.signal(signal.SIGTERM)
            assert cluster.process.wait(WAIT_S) == 1
        assert f"with pid {pid} did not end within the drain time-out and 5000 ms: killed" in cluster.log()
        cluster.process.returncode = 0
