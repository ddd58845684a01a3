"""Traces of a real cluster, as a real collector gets them. BATON_FULL_TESTS=1 sends 500 requests instead of 60."""

import concurrent.futures
import contextlib
import os
import statistics
import threading
import time

import grpc
import pytest

from client import Client, read_stream
from cluster import Cluster, RoleProcess, wait_until
from collector import attributes, duration_ms, grpc_collector, http_collector, root_of
from http_api import post

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
REQUESTS = 500 if FULL else 60
AT_ONCE = 16
PHASES = ("baton.queue", "baton.admission", "baton.prefill", "baton.transfer", "baton.decode", "baton.network")
PAIR = ("--threads", 1)
MIXED = ("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1)
# Spans leave at once, so that a test need not wait for them.
PROMPTLY = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
PROMPT = "The capital of France is"
PARENT = "00-{:032x}-{:016x}-01"
# A delay, and what the same work may differ by in two clusters: on a machine of one's own, and on a slow one beside others.
DELAY_MS, TOLERANCE_MS = (50, 2) if FULL else (150, 60)
# Of the network phase, its median and P99, and of what a client waits longer than its trace in the median. They take 0.3, 0.6
# and 2 ms; a phase that had the work of another would be longer than the others.
NETWORK_MS, NETWORK_P99_MS, CLIENT_MS = (1, 10, 5) if FULL else (10, 100, 50)


def environment(endpoint, **more):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **PROMPTLY, **more}


def phases_of(spans):
    """The phases of a trace in their order; each lies beneath the root."""
    root = root_of(spans)
    by_name = {span.name: span for span in spans}
    phases = [by_name[name] for name in PHASES]
    assert all(span.parent_span_id == root.span_id for span in phases)
    return phases


def is_contiguous(spans):
    root, phases = root_of(spans), phases_of(spans)
    starts = [span.start_time_unix_nano for span in phases] + [root.end_time_unix_nano]
    ends = [root.start_time_unix_nano] + [span.end_time_unix_nano for span in phases]
    whole_ms = duration_ms(root)
    gap_ms = sum(abs(start - end) for start, end in zip(starts, ends)) / 1e6
    return gap_ms <= max(2.0, whole_ms / 100)


def traced(client, number, prompt, sampling, cancels=False):
    """Runs a request as a part of trace `number`; (trace id, seconds that the client waited), no time when it left."""
    call, _ = client.method("baton.v1.GenerationService", "Generate")
    began = time.monotonic()
    stream = call(client.generate_request(prompt, sampling), timeout=120,
                  metadata=(("traceparent", PARENT.format(number, number)),))
    generation = read_stream(stream, lambda _: stream.cancel() if cancels else None)
    assert (generation.error is None) != cancels, generation.error
    return number.to_bytes(16, "big"), None if cancels else time.monotonic() - began


def test_the_phases_of_every_request_fill_its_trace(prose_ids):
    with grpc_collector() as (endpoint, spans), Cluster(*PAIR, env=environment(endpoint)) as cluster, \
            Client(cluster.target) as client, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(traced, client, number, prose_ids[7 * number:7 * number + 40 + number % 200],
                            {"max_tokens": 200 if number % 5 == 0 else 24, "ignore_eos": True}, number % 5 == 0)
                for number in range(1, REQUESTS + 1)]
        waited_s = dict(run.result() for run in runs)
        traces = spans.wait_for_traces(REQUESTS)
    assert set(traces) == set(waited_s)
    ok = [trace for trace in traces.values() if attributes(root_of(trace))["baton.outcome"] == "ok"]
    assert len(ok) == sum(1 for seconds in waited_s.values() if seconds is not None)
    assert sum(map(is_contiguous, traces.values())) >= 0.99 * len(traces)
    for trace_id, trace in traces.items():
        root = root_of(trace)
        assert root.parent_span_id == int.from_bytes(trace_id, "big").to_bytes(8, "big"), "the client's span is kept"
        assert len({span.span_id for span in trace}) == len(trace)
    network_ms = sorted(duration_ms(phases_of(trace)[-1]) for trace in ok)
    p99_ms = network_ms[int(len(network_ms) * 0.99)]
    differences_ms = [1e3 * waited_s[root_of(trace).trace_id] - duration_ms(root_of(trace))
                      for trace in ok]
    print(f"{len(traces)} traces, {len(ok)} served; network P50 {statistics.median(network_ms):.3f} ms, P99 {p99_ms:.3f}; "
          f"the client waited {statistics.median(differences_ms):.2f} ms longer in the median")
    assert statistics.median(network_ms) < NETWORK_MS
    assert p99_ms < NETWORK_P99_MS
    assert abs(statistics.median(differences_ms)) < CLIENT_MS


MESSAGES = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2}
BY_HTTP = {"/v1/completions": {"prompt": PROMPT, "max_tokens": 2}, "/v1/chat/completions": MESSAGES, "/v1/messages": MESSAGES,
           "/v1/responses": {"input": PROMPT, "max_output_tokens": 2}, "/v1/embeddings": {"input": PROMPT}}


def test_a_request_over_http_is_a_part_of_its_clients_trace():
    with grpc_collector() as (endpoint, spans), Cluster(*MIXED, env=environment(endpoint)) as cluster:
        def ask(path, **headers):
            assert post(cluster, path, BY_HTTP[path], headers=headers)[0] == 200, path

        for number, path in enumerate(BY_HTTP, start=1):
            ask(path, traceparent=PARENT.format(number, number), tracestate="vendor=7")
        not_sampled = len(BY_HTTP) + 1
        ask("/v1/completions", traceparent=PARENT.format(not_sampled, not_sampled).removesuffix("1") + "0")
        # It is no parent, so the trace is the router's own.
        ask("/v1/completions", traceparent=PARENT.format(9, 0))
        traces = spans.wait_for_traces(len(BY_HTTP) + 1)
    for number, path in enumerate(BY_HTTP, start=1):
        root = root_of(traces.pop(number.to_bytes(16, "big")))
        assert root.parent_span_id == number.to_bytes(8, "big") and root.trace_state == "vendor=7", path
        assert attributes(root)["baton.outcome"] == "ok", path
    ((trace_id, own),) = traces.items()
    assert int.from_bytes(trace_id, "big") > 9 and not root_of(own).parent_span_id and is_contiguous(own)


def test_what_the_workers_measured_is_in_the_trace(prose_ids):
    with grpc_collector() as (endpoint, spans), Cluster(*PAIR, env=environment(endpoint)) as cluster, \
            Client(cluster.target) as client:
        finished = client.generate(prose_ids[:600], {"max_tokens": 20, "ignore_eos": True}).finished
        (trace,) = spans.wait_for_traces(1).values()
        resource = spans.resources[0]
        workers = {worker["role"]: worker["address"] for worker in cluster.workers()}
    by_name = {span.name: span for span in trace}
    root, compute, read = attributes(root_of(trace)), attributes(by_name["baton.prefill.compute"]), by_name["baton.transfer.read"]
    assert resource["service.name"] == "baton-router"
    assert root["baton.prefill.worker"] == workers["prefill"] and root["baton.decode.worker"] == workers["decode"]
    assert root["gen_ai.usage.input_tokens"] == 600 and root["gen_ai.usage.output_tokens"] == 20
    assert "gen_ai.input.messages" not in root
    # Two chunks of a prefill worker; the first token is its own, the others are steps of decode.
    assert compute["baton.steps"] == 2 and attributes(by_name["baton.decode"])["baton.steps"] == 19
    assert attributes(read)["baton.transfer.bytes"] == finished.transfer.bytes
    assert attributes(read)["baton.transfer.transport"] in ("shm", "tcp")
    assert abs(duration_ms(read) - finished.transfer.read_ms) < 0.01
    assert duration_ms(by_name["baton.prefill.compute"]) <= duration_ms(by_name["baton.prefill"])
    for name, field in zip(PHASES[:5], ("queue_ms", "admission_ms", "prefill_ms", "transfer_ms", "decode_ms")):
        assert abs(duration_ms(by_name[name]) - getattr(finished.timing, field)) < 0.01, name


def test_a_collector_that_speaks_http_gets_the_same_and_content_when_asked():
    with http_collector() as (endpoint, spans, paths):
        env = environment(endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", OTEL_SERVICE_NAME="my-service",
                          BATON_ARG_TRACE_CONTENT="true")
        with Cluster(*MIXED, env=env) as cluster, Client(cluster.target) as client:
            text = client.generate(PROMPT, {"max_tokens": 4}).text
            (trace,) = spans.wait_for_traces(1).values()
    assert set(paths) == {"/v1/traces"}
    assert spans.resources[0]["service.name"] == "my-service"
    root = attributes(root_of(trace))
    assert root["gen_ai.input.messages"] == PROMPT and root["gen_ai.output.messages"] == text
    assert is_contiguous(trace)


def refuse(context):
    context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")


@pytest.mark.parametrize("behaviour", ["gone", "refuses", "hangs"])
def test_a_collector_costs_no_request_whatever_it_does(behaviour):
    is_over = threading.Event()
    with contextlib.ExitStack() as stack:
        endpoint = "http://127.0.0.1:9"
        if behaviour != "gone":
            behave = refuse if behaviour == "refuses" else lambda _: is_over.wait(60)
            endpoint, _ = stack.enter_context(grpc_collector(behave))
            stack.callback(is_over.set)
        env = environment(endpoint, OTEL_BSP_MAX_QUEUE_SIZE="64", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="32",
                          OTEL_EXPORTER_OTLP_TIMEOUT="500", OTEL_BSP_EXPORT_TIMEOUT="1000")
        cluster = stack.enter_context(Cluster(*MIXED, env=env))
        client = stack.enter_context(Client(cluster.target))
        expected = client.generate(PROMPT, {"max_tokens": 4}).token_ids
        for _ in range(30):
            assert client.generate(PROMPT, {"max_tokens": 4}).token_ids == expected


def phase_times_ms(delayed_role=None, point=None):
    """The median time of each phase over 7 requests of one token of each worker, on a cluster of its own."""
    with grpc_collector() as (endpoint, spans), contextlib.ExitStack() as stack:
        env = lambda role: {"BATON_TEST_DELAYS": f"{point}={DELAY_MS}"} if role == delayed_role else {}
        router = stack.enter_context(RoleProcess("router", "--grpc-port", 0,
                                                 env={**environment(endpoint), **env("router")}))
        for role in ("prefill-worker", "decode-worker"):
            stack.enter_context(RoleProcess(role, "--router", router.cluster_target, "--grpc-port", 0, "--threads", 1,
                                            "--no-prefix-cache", env=env(role)))
        wait_until(lambda: len(router.workers()) == 2, 60, "both workers")
        client = stack.enter_context(Client(router.target))
        for _ in range(7):
            client.generate(PROMPT, {"max_tokens": 2, "ignore_eos": True})
        traces = spans.wait_for_traces(7).values()
        return [statistics.median(duration_ms(phases_of(trace)[i]) for trace in traces) for i in range(len(PHASES))]


@pytest.fixture(scope="module")
def usual_ms():
    return phase_times_ms()


@pytest.mark.parametrize("phase, role, point", [
    ("baton.queue", "router", "read"), ("baton.admission", "prefill-worker", "start"),
    ("baton.prefill", "prefill-worker", "step"), ("baton.transfer", "decode-worker", "transfer"),
    ("baton.decode", "decode-worker", "step"), ("baton.network", "router", "finish")])
def test_a_delay_shows_in_its_phase_and_in_no_other(usual_ms, phase, role, point):
    delayed_ms = phase_times_ms(role, point)
    added_ms = dict(zip(PHASES, (delayed - usual for delayed, usual in zip(delayed_ms, usual_ms))))
    print(f"{point} of {role}: " + ", ".join(f"{name} {ms:+.2f} ms" for name, ms in added_ms.items()))
    for name, ms in added_ms.items():
        assert abs(ms - (DELAY_MS if name == phase else 0)) < TOLERANCE_MS, added_ms
