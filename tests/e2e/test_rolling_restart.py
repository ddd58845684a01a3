"""Every worker is told to end, one after the other, while streams run: running requests move to the other workers with
their KV, and no client sees a failure, another token or more than a short pause. BATON_TEST_SEED draws other requests."""

import os
import random
import signal
import statistics

import pytest

from client import Background, Client
from cluster import Cluster, RoleProcess, wait_until
from streams import Streams, draw_requests, learn_answers

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261124"))
STREAMS = 96 if FULL else 24
REQUESTS = 60 if FULL else 16
ROUNDS = 6 if FULL else 2
SPLIT = ("--prefill", 2, "--decode", 2)
MIXED = ("--mixed", 2)
SIZES = ("--threads", 1, "--kv-memory", "256MiB")
# A worker drains, ends, and its successor loads the model beside streams that run.
RESTART_TIMEOUT_S = 90
FREE_TIMEOUT_S = 20
WAIT_S = 20
PROMPT = "The capital of France is"
LONG = {"max_tokens": 300, "ignore_eos": True}


def serving(cluster):
    return [worker for worker in cluster.workers() if worker["state"] == "serving"]


def restart(cluster, pid, count):
    """Returns when the successor serves."""
    os.kill(pid, signal.SIGTERM)

    def is_back():
        now = serving(cluster)
        return len(now) == count and all(worker["pid"] != pid for worker in now)

    wait_until(is_back, RESTART_TIMEOUT_S, f"a successor of {pid}")


def restart_all(cluster, client, requests):
    """Restarts every worker ROUNDS times beside streams. Returns the longest pause of each stream, in order, and what went
    wrong."""
    learn_answers(client, requests)
    count = len(serving(cluster))
    with Streams(client, requests, STREAMS) as streams:
        for _ in range(ROUNDS):
            for worker in serving(cluster):
                restart(cluster, worker["pid"], count)
    assert len(streams.pauses_s) >= STREAMS
    wait_until(lambda: not any(worker["used_blocks"] for worker in serving(cluster)), FREE_TIMEOUT_S, "free blocks")
    return sorted(streams.pauses_s), streams.problems


@pytest.mark.parametrize("roles", [SPLIT, MIXED], ids=["split", "mixed"])
def test_a_rolling_restart_fails_no_request_and_changes_no_token(prose_ids, roles):
    print(f"BATON_TEST_SEED={SEED}")
    requests = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    # Workers that move what runs, and, to compare, workers that cut it at once, so that it is computed again. A request
    # that is cut before it gets on, three times in a row, fails.
    for name, timeout_ms in ("moved", 25_000), ("computed again", 1):
        with Cluster(*roles, *SIZES, "--drain-timeout-ms", timeout_ms) as cluster, Client(cluster.target) as client:
            pauses, problems = restart_all(cluster, client, requests)
            assert not problems or name != "moved", (len(problems), problems[:3])
            print(f"{name}: {len(pauses)} streams, {len(problems)} failed; longest pause of a stream: median {statistics.median(pauses):.2f} s, "
                  f"P99 {pauses[int(0.99 * (len(pauses) - 1))]:.2f}, most {pauses[-1]:.2f}")


def worker(router, role, *args):
    return RoleProcess(role, "--router", router.cluster_target, "--threads", 1, *args)


def test_a_stream_keeps_its_digest_and_its_tokens_when_it_moves():
    sampling = LONG | {"logprobs": 2, "temperature": 1.0, "seed": 5, "repetition_penalty": 1.1}
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "prefill-worker"), worker(router, "decode-worker") as one, \
                worker(router, "decode-worker") as other:
            wait_until(lambda: len(router.workers()) == 3, WAIT_S, "three workers")
            expected = client.generate(PROMPT, sampling, return_kv_digest=True)
            busy = lambda: [w["pid"] for w in router.workers() if w["role"] == "decode" and w["used_blocks"] > 0]
            wait_until(lambda: not busy(), WAIT_S, "the blocks of the first request to be given back")
            running = Background(client, PROMPT, sampling, return_kv_digest=True)
            running.wait_running()
            pid = wait_until(busy, WAIT_S, "the worker of the stream to say so")[0]
            draining, goes_on = (one, other) if one.pid == pid else (other, one)
            draining.signal(signal.SIGTERM)
            assert draining.process.wait(WAIT_S) == 0, draining.log()
            assert "requests that went on elsewhere: 1" in draining.log(), draining.log()
            # It runs on where it went.
            assert busy() == [goes_on.pid]
            generation = running.result()
            assert generation.error is None, generation.error
            assert generation.token_ids == expected.token_ids
            assert generation.kv_digest == expected.kv_digest != ""


def test_a_stream_stays_until_its_end_where_nobody_else_has_its_fingerprint():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "mixed-worker") as one:
            wait_until(lambda: len(router.workers()) == 1, WAIT_S, "a worker")
            expected = client.generate(PROMPT, LONG).token_ids
            running = Background(client, PROMPT, LONG)
            running.wait_running()
            with worker(router, "mixed-worker", "--numerics", "fp32"):
                wait_until(lambda: len(router.workers()) == 2, WAIT_S, "two workers")
                one.signal(signal.SIGTERM)
                generation = running.result()
                assert one.process.wait(WAIT_S) == 0, one.log()
            assert generation.error is None, generation.error
            assert generation.token_ids == expected
            assert "requests that went on elsewhere: 0" in one.log(), one.log()
