"""How long a stream's next attempt takes to begin after its decode worker was killed, or stopped."""

import concurrent.futures
import os
import signal
import time

import pytest

from client import Client
from cluster import Cluster, await_workers, stopped, wait_until
from collector import attributes, grpc_collector
from history import Call
from streams import STREAM_TIMEOUT_S, Request, learn_answers, run

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB")
WORKERS = 4
RETURN_TIMEOUT_S = 90
# From a fault of its decode worker until the router gives a stream's attempt up, and the next one begins: a connection breaks
# at once, and silence is one after 1.5 s. A neighbour on the machine may keep the router from its core.
GIVEN_UP_WITHIN_S = {"killed": 1, "stopped": 2} if FULL else {"killed": 3, "stopped": 4}
FAULTS = 10 if FULL else 3
PROMPT_TOKENS, OUTPUT_TOKENS, TOKENS_BEFORE = 40, 400, 16


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
    request = Request(prose_ids[:PROMPT_TOKENS], {"max_tokens": OUTPUT_TOKENS, "ignore_eos": True}, [])
    given_up_s, pauses_s = [], []
    with grpc_collector() as (endpoint, spans), concurrent.futures.ThreadPoolExecutor(1) as pool, \
            Cluster(*ROLES, env={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}) as cluster, \
            Client(cluster.target) as client:
        learn_answers(client, [request])
        for number in range(FAULTS):
            await_workers(cluster, WORKERS, RETURN_TIMEOUT_S)
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
