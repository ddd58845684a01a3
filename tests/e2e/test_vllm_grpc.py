"""The stubs of smg-grpc-proto, with which routers call vLLM's engine, against the gRPC port of a real cluster."""

import collections
import concurrent.futures
import dataclasses
import re
import urllib.request

import grpc
import pytest
from smg_grpc_proto import vllm_engine_pb2 as pb
from smg_grpc_proto import vllm_engine_pb2_grpc as pb_grpc

from certificates import ALL, Authority
from client import Client, violated_fields
from cluster import LEFT_TIMEOUT_S, SOURCE_DIR, Cluster, RoleProcess, wait_until
from pages import blocks_of
from test_api_keys import Keys, code_of, credentials

SERVICE = "/vllm.grpc.engine.VllmEngine/"
SERVED = ("Generate", "HealthCheck", "Abort", "GetModelInfo", "GetServerInfo", "GetLoads")
NOT_SERVED = ("Embed", "FlushCache", "StartProfile", "StopProfile", "GetTokenizer", "SubscribeKvEvents")
PROMPT_TOKENS = 30
TIMEOUT_S = 120
# Longer than any test waits.
ENDLESS = {"max_tokens": 8000, "ignore_eos": True}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--max-seqs", 16) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def engine(cluster):
    with grpc.insecure_channel(cluster.target) as channel:
        yield pb_grpc.VllmEngineStub(channel)


@pytest.fixture(scope="module")
def own(cluster):
    with Client(cluster.target) as own:
        yield own


@pytest.fixture(scope="module")
def prompts(prose_ids):
    return [prose_ids[i * PROMPT_TOKENS:(i + 1) * PROMPT_TOKENS] for i in range(6)]


def gauge(cluster, name):
    with urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=10) as page:
        return float(re.search(rf"^{name} (\S+)$", page.read().decode(), re.M)[1])


def request_of(ids, sampling=None, stream=True, request_id="r", **fields):
    return pb.GenerateRequest(request_id=request_id, tokenized=pb.TokenizedInput(input_ids=ids), stream=stream,
                              sampling_params=pb.SamplingParams(**(sampling or {})), **fields)


@dataclasses.dataclass
class Output:
    """What the messages of one index said."""
    ids: list = dataclasses.field(default_factory=list)
    logprobs: list = dataclasses.field(default_factory=list)
    input_logprobs: object = None
    complete: object = None

    def add(self, response):
        assert self.complete is None, "a message after `complete`"
        message = getattr(response, response.WhichOneof("response"))
        self.logprobs += message.output_logprobs.token_logprobs
        if message.HasField("input_logprobs"):
            assert self.input_logprobs is None and not self.ids
            self.input_logprobs = message.input_logprobs
        if response.HasField("complete"):
            self.complete = message
        else:
            self.ids += message.token_ids


def read_outputs(call):
    """index -> Output"""
    outputs = collections.defaultdict(Output)
    for response in call:
        outputs[getattr(response, response.WhichOneof("response")).index].add(response)
    return dict(outputs)


def read(call):
    """(ids of the chunks, complete)"""
    ids, complete = [], None
    for response in call:
        assert complete is None, "a message after `complete`"
        if response.HasField("chunk"):
            ids += response.chunk.token_ids
            assert response.chunk.completion_tokens == len(response.chunk.token_ids)
        else:
            complete = response.complete
    return ids, complete


def generate(engine, ids, sampling=None, **fields):
    return read(engine.Generate(request_of(ids, sampling, **fields), timeout=TIMEOUT_S))


def test_a_prompt_that_has_run_before_comes_from_the_cache(engine, prompts):
    for stream in (True, False):
        generate(engine, prompts[0], {"max_tokens": 1, "temperature": 0}, stream=stream)
    assert generate(engine, prompts[0], {"max_tokens": 1, "temperature": 0})[1].cached_tokens > 0


def test_log_probabilities_are_those_of_batons_own_grpc(engine, own, prompts):
    sampling = {"max_tokens": 4, "temperature": 0, "logprobs": 2}
    tokens = [t for r in own.start(own.generate_request(prompts[0], sampling)) if r.HasField("output") for t in r.output.tokens]
    complete = generate(engine, prompts[0], sampling, stream=False)[1]
    assert list(complete.output_logprobs.token_ids) == [token.id for token in tokens]
    assert list(complete.output_logprobs.token_logprobs) == [token.logprob for token in tokens]
    for top, token in zip(complete.output_logprobs.top_logprobs, tokens, strict=True):
        assert list(top.token_ids) == [likely.id for likely in token.top_logprobs]
        assert list(top.values) == [likely.logprob for likely in token.top_logprobs]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_several_outputs_are_the_choices_of_batons_own_grpc(engine, own, prompts, stream):
    count, sampling = 5, {"max_tokens": 24, "temperature": 0.9, "top_p": 0.95, "seed": 77, "logprobs": 1}
    free = own.generate(prompts[3], sampling)
    stop = free.text[len(free.text) // 2:][:3]
    expected = [([], []) for _ in range(count)]
    for response in own.start(own.generate_request(prompts[3], sampling, choices=count, stop=[stop])):
        if response.HasField("output"):
            expected[response.output.choice][0].extend(token.id for token in response.output.tokens)
            expected[response.output.choice][1].extend(token.logprob for token in response.output.tokens)
    outputs = read_outputs(engine.Generate(request_of(prompts[3], {**sampling, "n": count, "stop": [stop]}, stream=stream),
                                           timeout=TIMEOUT_S))
    assert sorted(outputs) == list(range(count)) and (stream or list(outputs) == list(range(count)))
    assert [list(outputs[i].complete.output_ids) for i in range(count)] == [ids for ids, _ in expected]
    assert [outputs[i].logprobs for i in range(count)] == [logprobs for _, logprobs in expected]
    assert [outputs[i].ids for i in range(count)] == [ids if stream else [] for ids, _ in expected]
    assert len({tuple(ids) for ids, _ in expected}) > 1
    reasons = {output.complete.finish_reason for output in outputs.values()}
    assert outputs[0].complete.matched_stop_str == stop and reasons <= {"stop", "length"}
    assert all(output.complete.prompt_tokens == PROMPT_TOKENS for output in outputs.values())


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("top", [0, 3])
def test_log_probabilities_of_prompts_are_those_of_batons_own_grpc(engine, own, prompts, stream, top):
    sampling = {"max_tokens": 3, "temperature": 0, "prompt_logprobs": top, "logprobs": 0}
    tokens = [token for response in own.start(own.generate_request(prompts[4], sampling))
              if response.HasField("output") for token in response.output.prompt.tokens]
    (output,) = read_outputs(engine.Generate(request_of(prompts[4], sampling, stream=stream), timeout=TIMEOUT_S)).values()
    got = output.input_logprobs
    assert list(got.token_ids) == [token.id for token in tokens] == prompts[4]
    assert not got.token_logprobs[0].HasField("value") and all(each.HasField("value") for each in got.token_logprobs[1:])
    assert [each.value for each in got.token_logprobs[1:]] == [token.logprob for token in tokens[1:]]
    assert len(got.top_logprobs) == (PROMPT_TOKENS if top else 0)
    for likely, token in zip(got.top_logprobs, tokens):
        assert list(zip(likely.token_ids, likely.values)) == [(each.id, each.logprob) for each in token.top_logprobs]
    assert len(output.logprobs) == 3
    assert output.complete.HasField("input_logprobs") != stream


def test_each_of_several_outputs_has_the_log_probabilities_of_the_prompt(engine, prompts):
    sampling = {"max_tokens": 2, "temperature": 1, "seed": 3, "prompt_logprobs": 1}
    outputs = read_outputs(engine.Generate(request_of(prompts[2], {**sampling, "n": 3}), timeout=TIMEOUT_S))
    (alone,) = read_outputs(engine.Generate(request_of(prompts[2], sampling), timeout=TIMEOUT_S)).values()
    assert len(outputs) == 3 and list(alone.input_logprobs.token_ids) == prompts[2]
    assert all(output.input_logprobs == alone.input_logprobs for output in outputs.values())


def test_stop_strings_stop_tokens_and_biases_are_those_of_batons_own_grpc(engine, own, prompts):
    free = own.generate(prompts[1], {"max_tokens": 16, "ignore_eos": True})
    stop = free.text[len(free.text) // 2:][:4]
    expected = own.generate(prompts[1], {"max_tokens": 16, "ignore_eos": True}, stop=[stop])
    base = {"max_tokens": 16, "ignore_eos": True, "temperature": 0}
    complete = generate(engine, prompts[1], base | {"stop": ["@@@@", stop]})[1]
    assert complete.finish_reason == "stop" and complete.matched_stop_str == stop
    assert list(complete.output_ids) == list(expected.token_ids)
    banned = free.token_ids[0]
    biased = own.generate(prompts[1], {"max_tokens": 4, "logit_bias": [{"id": banned, "bias": -100}]})
    complete = generate(engine, prompts[1], {"max_tokens": 4, "temperature": 0, "logit_bias": {banned: -100}})[1]
    assert list(complete.output_ids) == list(biased.token_ids) and banned not in complete.output_ids
    complete = generate(engine, prompts[1], base | {"stop_token_ids": [free.token_ids[3]]})[1]
    assert complete.finish_reason == "stop" and len(complete.output_ids) <= 4


def test_constraints_are_those_of_batons_own_grpc(engine, own, prompts):
    for sampling, grammar in (({"regex": "[A-Z][a-z]{2,9}"}, {"regex": "[A-Z][a-z]{2,9}"}),
                              ({"choice": pb.ChoiceConstraint(choices=["red", "blue"])}, {"choice": {"texts": ["red", "blue"]}})):
        expected = own.generate(prompts[2], {"max_tokens": 16, "grammar": grammar})
        complete = generate(engine, prompts[2], {"max_tokens": 16, "temperature": 0, **sampling})[1]
        assert list(complete.output_ids) == list(expected.token_ids) and complete.finish_reason == "stop"


def test_many_streams_run_at_once(engine, own, prompts):
    sampling = {"max_tokens": 20, "temperature": 0, "ignore_eos": True}
    expected = [list(own.generate(prompt, {"max_tokens": 20, "ignore_eos": True}).token_ids) for prompt in prompts] * 4
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = pool.map(lambda ids: generate(engine, ids, sampling)[0], prompts * 4)
        assert list(answers) == expected


def test_an_aborted_request_ends_and_leaves_nothing(cluster, engine, prompts):
    calls = {name: engine.Generate(request_of(prompts[0], ENDLESS, request_id=name), timeout=TIMEOUT_S) for name in "ab"}
    first = {name: next(call) for name, call in calls.items()}
    assert all(response.HasField("chunk") for response in first.values())
    engine.Abort(pb.AbortRequest(request_ids=["a", "nobody's"]), timeout=20)
    ids, complete = read(calls["a"])
    assert complete.finish_reason == "abort"
    assert list(complete.output_ids) == [*first["a"].chunk.token_ids, *ids]
    assert next(calls["b"]).HasField("chunk"), "the other one goes on"
    engine.Abort(pb.AbortRequest(request_ids=["b"]), timeout=20)
    assert read(calls["b"])[1].finish_reason == "abort"
    cluster.await_idle()


def test_all_outputs_of_an_aborted_request_end_and_leave_nothing(cluster, engine, prompts):
    call = engine.Generate(request_of(prompts[0], {**ENDLESS, "n": 3}, request_id="several"), timeout=TIMEOUT_S)
    outputs = collections.defaultdict(Output)
    while len(outputs) < 3:
        response = next(call)
        outputs[response.chunk.index].add(response)
    engine.Abort(pb.AbortRequest(request_ids=["several"]), timeout=20)
    for response in call:
        outputs[getattr(response, response.WhichOneof("response")).index].add(response)
    assert sorted(outputs) == [0, 1, 2]
    for output in outputs.values():
        assert output.complete.finish_reason == "abort" and list(output.complete.output_ids) == output.ids != []
    cluster.await_idle()


@pytest.mark.parametrize("outputs", [1, 4])
def test_a_stream_that_its_client_leaves_ends_its_request(cluster, engine, prompts, outputs):
    for stream in (True, False):
        call = engine.Generate(request_of(prompts[0], ENDLESS | {"n": outputs}, stream=stream), timeout=TIMEOUT_S)
        wait_until(lambda: gauge(cluster, "baton_client_streams") == 1, 30, "the request")
        call.cancel()
        wait_until(lambda: gauge(cluster, "baton_client_streams") == 0, LEFT_TIMEOUT_S, "no request of a client is open")
    cluster.await_idle()


@pytest.mark.parametrize("fields, sampling, code, field", [
    ({}, {"top_p": 2}, "INVALID_ARGUMENT", "sampling_params.top_p"),
    ({}, {"logprobs": -1}, "INVALID_ARGUMENT", "sampling_params.logprobs"),
    ({}, {"seed": -1}, "INVALID_ARGUMENT", "sampling_params.seed"),
    ({}, {"n": 129}, "INVALID_ARGUMENT", "sampling_params.n"),
    ({}, {"structural_tag": "{}"}, "UNIMPLEMENTED", "sampling_params.structural_tag"),
    ({}, {"regex": "(a"}, "INVALID_ARGUMENT", "sampling_params.constraint"),
    ({}, {"prompt_logprobs": -1}, "INVALID_ARGUMENT", "sampling_params.prompt_logprobs"),
    ({}, {"prompt_logprobs": 21}, "INVALID_ARGUMENT", "sampling_params.prompt_logprobs"),
    ({}, {"truncate_prompt_tokens": 5}, "UNIMPLEMENTED", "sampling_params.truncate_prompt_tokens"),
    ({"kv_transfer_params_json": "{}"}, {}, "UNIMPLEMENTED", "kv_transfer_params_json"),
    ({"mm_inputs": pb.MultimodalInputs()}, {}, "UNIMPLEMENTED", "mm_inputs"),
    ({"data_parallel_rank": 1}, {}, "UNIMPLEMENTED", "data_parallel_rank"),
])
def test_what_is_wrong_or_not_built_is_refused_by_name(engine, fields, sampling, code, field):
    with pytest.raises(grpc.RpcError) as error:
        generate(engine, [1, 2, 3], sampling, **fields)
    assert error.value.code() == grpc.StatusCode[code]
    assert violated_fields(error.value) == [field]


@pytest.mark.parametrize("ids", [[], [49152], [2**31], [1] * 9000], ids=["none", "unknown", "negative", "too many"])
def test_prompts_that_no_model_takes_are_refused(engine, ids):
    with pytest.raises(grpc.RpcError) as error:
        generate(engine, ids)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_garbage_is_refused(cluster):
    with grpc.insecure_channel(cluster.target) as channel:
        for raw in (b"\xff" * 100, b"\x0a\x02\xff\xfe", b"\x12\x80\x80\x80\x80\x10"):
            with pytest.raises(grpc.RpcError) as error:
                list(channel.unary_stream(SERVICE + "Generate")(raw, timeout=20))
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(SERVICE + "Abort")(b"\x0a\x02\xff\xfe", timeout=20)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_the_engine_describes_itself(cluster, engine):
    assert engine.HealthCheck(pb.HealthCheckRequest(), timeout=20).healthy
    model = engine.GetModelInfo(pb.GetModelInfoRequest(), timeout=20)
    assert model.served_model_name == "smollm2-135m-instruct" and model.is_generation
    assert (model.max_context_length, model.vocab_size, model.model_type) == (8192, 49152, "llama")
    assert list(model.eos_token_ids) == [2]
    server = engine.GetServerInfo(pb.GetServerInfoRequest(), timeout=20)
    assert server.server_type == "vllm-grpc" and server.uptime_seconds > 0 and server.block_size == 16


def test_loads_are_those_of_the_cluster(cluster, engine, prompts):
    wait_until(lambda: engine.GetLoads(pb.GetLoadsRequest(), timeout=20).loads[0].num_total_reqs == 0, 30, "an idle cluster")
    calls = [engine.Generate(request_of(prompts[0], ENDLESS), timeout=TIMEOUT_S) for _ in range(3)]
    load = lambda: engine.GetLoads(pb.GetLoadsRequest(), timeout=20).loads[0]
    wait_until(lambda: load().num_running_reqs == 3 and load().num_used_tokens > 0, 30, "three running requests")
    assert 0 < load().token_usage < 1 and load().max_total_num_tokens > load().num_used_tokens
    assert engine.GetServerInfo(pb.GetServerInfoRequest(), timeout=20).active_requests == 3
    assert not engine.GetLoads(pb.GetLoadsRequest(dp_rank=1), timeout=20).loads
    for call in calls:
        call.cancel()


def test_it_is_not_healthy_while_no_worker_is_there():
    with RoleProcess("router", "--grpc-port", 0, "--cluster-port", 0) as router, \
            grpc.insecure_channel(router.target) as channel:
        assert not pb_grpc.VllmEngineStub(channel).HealthCheck(pb.HealthCheckRequest(), timeout=20).healthy


@pytest.mark.parametrize("method", NOT_SERVED)
def test_other_methods_are_not_implemented(cluster, method):
    with grpc.insecure_channel(cluster.target) as channel:
        with pytest.raises(grpc.RpcError) as error:
            list(channel.unary_stream(SERVICE + method)(b"", timeout=20))
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_every_method_needs_a_key_where_keys_are_required(tmp_path, prompts):
    issued, keys = Authority(tmp_path).issue(*ALL), Keys(tmp_path)
    alice, bob = keys.keys["alice"], keys.keys["bob"]
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, *issued.flags, "--api-keys", keys.path) as cluster:
        cluster.client_flags = issued.flags
        for method in SERVED + NOT_SERVED:
            path = SERVICE + method
            assert code_of(cluster.target, path, credentials(issued)) == grpc.StatusCode.UNAUTHENTICATED, path
            assert code_of(cluster.target, path, credentials(issued, alice)) != grpc.StatusCode.UNAUTHENTICATED, path
        with grpc.secure_channel(cluster.target, credentials(issued, alice)) as alices, \
                grpc.secure_channel(cluster.target, credentials(issued, bob)) as bobs:
            call = pb_grpc.VllmEngineStub(alices).Generate(request_of(prompts[0], ENDLESS), timeout=TIMEOUT_S)
            next(call)
            # The name of a request is its tenant's.
            pb_grpc.VllmEngineStub(bobs).Abort(pb.AbortRequest(request_ids=["r"]), timeout=20)
            for _ in range(20):
                assert next(call).HasField("chunk")
            pb_grpc.VllmEngineStub(alices).Abort(pb.AbortRequest(request_ids=["r"]), timeout=20)
            assert read(call)[1].finish_reason == "abort"


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of("docs/vllm_grpc.md", SOURCE_DIR) if block.language == "python")
    assert "127.0.0.1:50051" in example.text
    exec(compile(example.text.replace("127.0.0.1:50051", cluster.target), "docs/vllm_grpc.md", "exec"), {})
    assert "length" in capsys.readouterr().out
