"""Workers are killed, or stopped for a while, while streams run, and no client sees more of it than a pause: every stream
ends with exactly the tokens, the log-probabilities and the text that it has where nothing fails. BATON_TEST_SEED draws other
requests and victims; with BATON_FULL_TESTS=1 there are more of both."""

import os
import random
import signal
import statistics
import time

import pytest

from client import Client
from cluster import Cluster, stopped, wait_until
from streams import Streams, draw_requests, learn_answers

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261124"))
STREAMS = 300 if FULL else 24
REQUESTS = 60 if FULL else 16
FAULTS = 30 if FULL else 6
# Of a worker that is stopped. It is lost after 1.5 s.
STOPPED_S = (1, 20) if FULL else (1, 4)
ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB")
WORKERS = 4
FAULT_EVERY_S = 2
RETURN_TIMEOUT_S = 30
FREE_TIMEOUT_S = 20


def serving(cluster):
    return [worker for worker in cluster.workers() if worker["state"] == "serving"]


def await_all(cluster, gone=None):
    def all_serve():
        now = serving(cluster)
        return len(now) == WORKERS and all(worker["pid"] != gone for worker in now)

    wait_until(all_serve, RETURN_TIMEOUT_S, f"{WORKERS} workers that serve" + (f", none of them {gone}" if gone else ""))


def kill_one(cluster, rng, _):
    """Returns when its successor serves."""
    pid = rng.choice(serving(cluster))["pid"]
    os.kill(pid, signal.SIGKILL)
    await_all(cluster, gone=pid)


def stop_one(cluster, rng, number):
    """Every second one goes on after a while, the others are killed while they are stopped. Returns when all serve."""
    pid = rng.choice(serving(cluster))["pid"]
    goes_on = number % 2 == 0
    with stopped(pid):
        time.sleep(rng.uniform(*STOPPED_S))
        if not goes_on:
            os.kill(pid, signal.SIGKILL)
    await_all(cluster, gone=None if goes_on else pid)


@pytest.mark.parametrize("fault", [kill_one, stop_one])
def test_streams_outlive_their_workers_with_exactly_the_same_tokens(prose_ids, fault):
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    requests = draw_requests(rng, prose_ids, REQUESTS)
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        learn_answers(client, requests)
        with Streams(client, requests, STREAMS) as streams:
            for number in range(FAULTS):
                next_fault = time.monotonic() + FAULT_EVERY_S
                fault(cluster, rng, number)
                time.sleep(max(0, next_fault - time.monotonic()))
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert len(streams.pauses_s) >= STREAMS
        pauses = sorted(streams.pauses_s)
        print(f"{len(pauses)} streams, {FAULTS} faults ({fault.__name__}); longest pause of a stream: median {statistics.median(pauses):.2f} s, "
              f"P99 {pauses[int(0.99 * (len(pauses) - 1))]:.2f}, most {pauses[-1]:.2f}")
        wait_until(lambda: not any(worker["used_blocks"] for worker in serving(cluster)), FREE_TIMEOUT_S, "free blocks")
