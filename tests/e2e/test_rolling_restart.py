"""Every worker is told to end, one after the other, while streams run: running requests move to the other workers with
their KV, and no client sees a failure, another token or more than a short pause. BATON_TEST_SEED draws other requests."""

import os
import signal

import pytest

from client import Background, Client
from cluster import ALL_LOG_BYTES, Cluster, RoleProcess, await_workers, wait_until
from history import router_problems
from streams import Streams, await_no_block_held, learned_requests

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261124"))
STREAMS = 96 if FULL else 24
REQUESTS = 60 if FULL else 16
ROUNDS = 6 if FULL else 1
SPLIT = ("--prefill", 2, "--decode", 2)
MIXED = ("--mixed", 2)
SIZES = ("--threads", 1, "--kv-memory", "256MiB", "--access-log")
# Of the whole fleet, the router too.
FLEET_ROUNDS = 2
# A worker drains, ends, and its successor loads the model beside streams that run.
RESTART_TIMEOUT_S = 90
WAIT_S = 20
PROMPT = "The capital of France is"
LONG = {"max_tokens": 200, "ignore_eos": True}
# No test waits for its end.
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
# Of a step of decode. With it a stream of LONG takes two seconds on the fastest machine, so that it still runs once its
# worker has drained.
SLOW_STEPS = {"BATON_TEST_DELAYS": "step=10"}


@pytest.fixture(scope="module")
def requests(prose_ids):
    return learned_requests(SEED, prose_ids, REQUESTS, (*SPLIT, *SIZES))


def restart_workers(cluster, rounds):
    """One after the other. Returns when the successor of the last one serves."""
    count = len(cluster.workers())
    for _ in range(rounds):
        for worker in cluster.workers():
            os.kill(worker["pid"], signal.SIGTERM)
            await_workers(cluster, count, RESTART_TIMEOUT_S, gone=worker["pid"])


@pytest.mark.parametrize("roles", [SPLIT, MIXED], ids=["split", "mixed"])
def test_a_rolling_restart_fails_no_request_and_changes_no_token(requests, roles):
    print(f"BATON_TEST_SEED={SEED}")
    # Workers that move what runs, and, to compare the pauses, workers that cut it at once, so that it is computed again. A
    # request that is cut before it gets on, three times in a row, fails.
    for name, timeout_ms in (("moved", 25_000), ("computed again", 1))[:2 if FULL else 1]:
        with Cluster(*roles, *SIZES, "--drain-timeout-ms", timeout_ms) as cluster, Client(cluster.target) as client:
            workers = len(cluster.workers())
            with Streams(client, requests, STREAMS) as streams:
                restart_workers(cluster, ROUNDS)
            print(f"{name}: {ROUNDS * workers} restarts, {streams.pauses()}")
            assert len(streams.calls) >= STREAMS
            await_no_block_held(cluster.target, workers)
            assert not streams.problems or name != "moved", (len(streams.problems), streams.problems[:3])
            assert not (problems := router_problems(streams.calls, cluster.log(ALL_LOG_BYTES))), problems[:3]


@pytest.mark.skipif(not FULL, reason="it takes minutes: BATON_FULL_TESTS=1 runs it")
def test_a_rolling_restart_of_the_fleet_and_its_router_fails_no_kept_request(requests, tmp_path):
    with Cluster(*SPLIT, *SIZES, "--state-dir", tmp_path / "state") as cluster, Client(cluster.target) as client:
        workers = len(cluster.workers())
        with Streams(client, requests, STREAMS, kept=True) as streams:
            for _ in range(FLEET_ROUNDS):
                restart_workers(cluster, 1)
                cluster.restart_router(RESTART_TIMEOUT_S, in_order=True)
        print(f"{FLEET_ROUNDS * (workers + 1)} restarts: {streams.pauses()}; {streams.resumes} tries to resume")
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        await_no_block_held(cluster.target, workers)


def worker(router, role, *args, env=None):
    return RoleProcess(role, "--router", router.cluster_target, "--threads", 1, *args, env=env)


def test_a_stream_keeps_its_digest_and_its_tokens_when_it_moves():
    sampling = LONG | {"logprobs": 2, "temperature": 1.0, "seed": 5, "repetition_penalty": 1.1}
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "prefill-worker"), worker(router, "decode-worker", env=SLOW_STEPS) as one, \
                worker(router, "decode-worker", env=SLOW_STEPS) as other:
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
            # It runs on where it went, whose next heartbeat says so.
            wait_until(lambda: busy() == [goes_on.pid], WAIT_S, "the stream at the other worker alone")
            generation = running.result()
            assert generation.error is None, generation.error
            assert generation.token_ids == expected.token_ids
            assert generation.kv_digest == expected.kv_digest != ""


def test_a_stream_stays_until_its_end_where_nobody_else_has_its_fingerprint():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "mixed-worker") as one:
            wait_until(lambda: len(router.workers()) == 1, WAIT_S, "a worker")
            expected = client.generate(PROMPT, LONG).token_ids
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            with worker(router, "mixed-worker", "--numerics", "fp32"):
                wait_until(lambda: len(router.workers()) == 2, WAIT_S, "two workers")
                one.signal(signal.SIGTERM)
                wait_until(lambda: "draining" in one.log(), WAIT_S, "the drain")
                running.wait_for_more()
                assert one.process.poll() is None, "its stream has not ended"
                tokens = running.cancel().token_ids
                assert one.process.wait(WAIT_S) == 0, one.log()
            common = min(len(tokens), len(expected))
            assert tokens[:common] == expected[:common]
            assert "cut" not in one.log(), one.log()
            assert "requests that went on elsewhere: 0" in one.log(), one.log()
