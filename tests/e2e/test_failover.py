"""Workers are killed, or stopped for a while, or the router is killed, while streams run, and no client sees more of
it than a pause: every stream ends with exactly the tokens, the log-probabilities and the text that it has where
nothing fails. BATON_TEST_SEED draws other requests and victims; with BATON_FULL_TESTS=1 there are more of both."""

import os
import random
import signal
import time

import pytest

from client import Client
from cluster import ALL_LOG_BYTES, Cluster, await_workers, stopped
from history import router_problems
from streams import Streams, await_no_block_held, learned_requests

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261124"))
STREAMS = 300 if FULL else 24
REQUESTS = 60 if FULL else 16
FAULTS = 30 if FULL else 6
# Of a worker that is stopped. It is lost after 1.5 s.
STOPPED_S = (1, 20) if FULL else (1, 4)
ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--access-log")
WORKERS = 4
FAULT_EVERY_S = 2
RETURN_TIMEOUT_S = 90
# With --state-dir. How long a router serves before it is killed as well. The journal has requests, not outputs, so a request
# that no router comes to the end of begins anew each time, and 16 routers are the most that take one up.
ROUTER_FAULTS = 30 if FULL else 2
ROUTER_SERVES_S = (1, 30) if FULL else (1, 3)
ROUTER_RETURN_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def requests(prose_ids):
    return learned_requests(SEED, prose_ids, REQUESTS, ROLES)


def kill_one(cluster, rng, _):
    """Returns when its successor serves."""
    pid = rng.choice(cluster.workers())["pid"]
    os.kill(pid, signal.SIGKILL)
    await_workers(cluster, WORKERS, RETURN_TIMEOUT_S, gone=pid)


def stop_one(cluster, rng, number):
    """Every second one goes on after a while, the others are killed while they are stopped. Returns when all serve."""
    pid = rng.choice(cluster.workers())["pid"]
    goes_on = number % 2 == 0
    with stopped(pid):
        time.sleep(rng.uniform(*STOPPED_S))
        if not goes_on:
            os.kill(pid, signal.SIGKILL)
    await_workers(cluster, WORKERS, RETURN_TIMEOUT_S, gone=None if goes_on else pid)


@pytest.mark.parametrize("fault", [kill_one, stop_one])
def test_streams_outlive_their_workers_with_exactly_the_same_tokens(requests, fault):
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        with Streams(client, requests, STREAMS) as streams:
            for number in range(FAULTS):
                next_fault = time.monotonic() + FAULT_EVERY_S
                fault(cluster, rng, number)
                time.sleep(max(0, next_fault - time.monotonic()))
        check(cluster, streams)
        print(f"{FAULTS} faults ({fault.__name__}): {streams.pauses()}")
        assert not (problems := router_problems(streams.calls, cluster.log(ALL_LOG_BYTES))), problems[:3]


def check(cluster, streams):
    assert not streams.problems, (len(streams.problems), streams.problems[:3])
    assert len(streams.calls) >= STREAMS
    await_no_block_held(cluster.target, WORKERS)


def test_streams_outlive_their_router_with_exactly_the_same_tokens(requests, tmp_path):
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED + 1)
    with Cluster(*ROLES, "--state-dir", tmp_path / "state") as cluster, Client(cluster.target) as client:
        with Streams(client, requests, STREAMS, kept=True) as streams:
            for _ in range(ROUTER_FAULTS):
                time.sleep(rng.uniform(*ROUTER_SERVES_S))
                cluster.restart_router(ROUTER_RETURN_TIMEOUT_S)
        # What a killed router did not write any more is in no log, so the histories of the clients are all there is.
        check(cluster, streams)
        assert streams.resumes >= STREAMS, "the router died too late to matter"
        print(f"{ROUTER_FAULTS} killed routers: {streams.pauses()}; {streams.resumes} tries to resume")
