"""Workers are killed, or stopped for a while, or the router is killed, while streams run, and no client sees more of
it than a pause: every stream ends with exactly the tokens, the log-probabilities and the text that it has where
nothing fails. BATON_TEST_SEED draws other requests and victims; with BATON_FULL_TESTS=1 there are more of both."""

import concurrent.futures
import os
import random
import signal
import time

import pytest

from client import Client
from cluster import ALL_LOG_BYTES, Cluster, stopped, wait_until
from collector import attributes, grpc_collector
from history import Call, router_problems
from streams import STREAM_TIMEOUT_S, Request, Streams, await_no_block_held, draw_requests, learn_answers, run

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
# With --state-dir. How long its successor serves before it is killed as well. The journal has requests, not outputs, so a
# request that no router comes to the end of begins anew each time, and 16 routers are the most that take one up.
ROUTER_FAULTS = 12 if FULL else 2
ROUTER_SERVES_S = (1, 15) if FULL else (1, 3)
ROUTER_RETURN_TIMEOUT_S = 60
# From a fault of its decode worker until the router gives a stream's attempt up, and the next one begins: a connection breaks
# at once, and silence is one after 1.5 s. A neighbour on the machine may keep the router from its core.
GIVEN_UP_WITHIN_S = {"killed": 1, "stopped": 2} if FULL else {"killed": 3, "stopped": 4}
TIMED_FAULTS = 10 if FULL else 3
TIMED_PROMPT_TOKENS, TIMED_OUTPUT_TOKENS, TOKENS_BEFORE = 40, 400, 16


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
        check(cluster, streams)
        print(f"{FAULTS} faults ({fault.__name__}): {streams.pauses()}")
        assert not (problems := router_problems(streams.calls, cluster.log(ALL_LOG_BYTES))), problems[:3]


def check(cluster, streams):
    assert not streams.problems, (len(streams.problems), streams.problems[:3])
    assert len(streams.calls) >= STREAMS
    await_no_block_held(cluster.target, WORKERS)


def test_streams_outlive_their_router_with_exactly_the_same_tokens(prose_ids, tmp_path):
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED + 1)
    requests = draw_requests(rng, prose_ids, REQUESTS)
    with Cluster(*ROLES, "--state-dir", tmp_path / "state") as cluster, Client(cluster.target) as client:
        learn_answers(client, requests)
        with Streams(client, requests, STREAMS, kept=True) as streams:
            for _ in range(ROUTER_FAULTS):
                time.sleep(rng.uniform(*ROUTER_SERVES_S))
                cluster.restart_router(ROUTER_RETURN_TIMEOUT_S)
        # What a killed router did not write any more is in no log, so the histories of the clients are all there is.
        check(cluster, streams)
        assert streams.resumes >= STREAMS, "the router died too late to matter"
        print(f"{ROUTER_FAULTS} killed routers: {streams.pauses()}; {streams.resumes} tries to resume")


def decoder_of_the_only_stream(cluster):
    """Pid of the decode worker that runs something."""
    return wait_until(lambda: next((worker["pid"] for worker in cluster.workers()
                                    if worker["role"] == "decode" and worker["running"]), None),
                      RETURN_TIMEOUT_S, "a decode worker that runs a stream")


def seconds_to_the_next_attempt(spans, number, since_ns):
    """Of request `number`, as its trace says. The router begins the next attempt in the step in which it gives one up."""
    trace = spans.wait_for_traces(number)
    (root,) = (span for one in trace.values() for span in one
               if span.name == "baton.request" and span.end_time_unix_nano > since_ns)
    (attempt,) = (span for span in trace[root.trace_id] if span.name == "baton.attempt")
    assert attributes(root)["baton.attempts"] == 2
    return (attempt.end_time_unix_nano - since_ns) / 1e9


@pytest.mark.parametrize("fault", GIVEN_UP_WITHIN_S)
def test_a_stream_s_next_attempt_begins_within_the_time_of_its_fault(prose_ids, fault):
    sampling = {"max_tokens": TIMED_OUTPUT_TOKENS, "ignore_eos": True}
    request = Request(prose_ids[:TIMED_PROMPT_TOKENS], sampling, [])
    given_up_s, pauses_s = [], []
    with grpc_collector() as (endpoint, spans), concurrent.futures.ThreadPoolExecutor(1) as pool, \
            Cluster(*ROLES, env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}) as cluster, \
            Client(cluster.target) as client:
        learn_answers(client, [request])
        for number in range(TIMED_FAULTS):
            await_all(cluster)
            call = Call(request.expected.content(), STREAM_TIMEOUT_S)
            running = pool.submit(run, client, request, "", call)
            wait_until(lambda: len(call.values("token")) >= TOKENS_BEFORE, RETURN_TIMEOUT_S, "the first tokens")
            pid = decoder_of_the_only_stream(cluster)
            since_ns = time.time_ns()
            if fault == "killed":
                os.kill(pid, signal.SIGKILL)
                answer = running.result()
            else:
                with stopped(pid):
                    answer = running.result()
            assert answer.error is None and answer.content() == request.expected.content(), answer.error
            # One is that of the oracle's request.
            given_up_s.append(seconds_to_the_next_attempt(spans, number + 2, since_ns))
            pauses_s.append(answer.longest_pause_s)
    print(f"{fault}, {len(given_up_s)} times: the next attempt after {min(given_up_s):.2f} to {max(given_up_s):.2f} s, the next "
          f"token after at most {max(pauses_s):.2f} s")
    assert max(given_up_s) < GIVEN_UP_WITHIN_S[fault]
    assert fault == "killed" or min(given_up_s) > 1, "it was no silence"
