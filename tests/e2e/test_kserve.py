"""Triton's own client against the gRPC port of a real cluster, and raw messages where that client sends no such thing."""

import asyncio
import json
import queue
import re
import threading
import urllib.request

import grpc
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

from certificates import ALL, Authority
from client import Client
from cluster import LEFT_TIMEOUT_S, SOURCE_DIR, Cluster, RoleProcess, wait_until
from pages import blocks_of
from test_api_keys import Keys, code_of, credentials
from triton_requests import (LOGPROBS, MODEL, RETURNS, TIMEOUT_S, Answer, Outputs, Stream, infer, inputs_of, refused,
                             text_tensor)

SERVICE = "/inference.GRPCInferenceService/"
METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelInfer",
           "ModelStreamInfer", "RepositoryIndex")
PROMPTS = ["The capital of France is", "Once upon a time", "Ünïcödé and 日本語:", "def fibonacci(n):", "1, 2, 3,"]
SEEDED = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
# Longer than any test waits.
ENDLESS = {"max_tokens": 8000, "ignore_eos": True}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--max-seqs", 16) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with triton.InferenceServerClient(cluster.target) as client:
        yield client


@pytest.fixture(scope="module")
def own(cluster):
    with Client(cluster.target) as own:
        yield own


def gauge(cluster, name):
    with urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=10) as page:
        return float(re.search(rf"^{name} (\S+)$", page.read().decode(), re.M)[1])


def await_idle(cluster, timeout_s=LEFT_TIMEOUT_S):
    wait_until(lambda: gauge(cluster, "baton_client_streams") == 0, timeout_s, "no request of a client is open")
    cluster.await_idle(timeout_s)


def test_the_server_and_its_model_describe_themselves(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready(MODEL) and client.is_model_ready(MODEL, "1")
    assert not client.is_model_ready("another") and not client.is_model_ready(MODEL, "2")
    assert client.get_server_metadata().name == "baton"
    metadata = client.get_model_metadata(MODEL)
    assert metadata.name == MODEL and list(metadata.versions) == ["1"]
    inputs = {tensor.name: (tensor.datatype, list(tensor.shape)) for tensor in metadata.inputs}
    assert inputs["text_input"] == ("BYTES", [1]) and inputs["stream"] == ("BOOL", [1])
    config = client.get_model_config(MODEL).config
    assert config.model_transaction_policy.decoupled and config.max_batch_size == 0
    assert {tensor.name for tensor in config.input if not tensor.optional} == {"text_input"}
    assert [tensor.name for tensor in config.output] == [tensor.name for tensor in metadata.outputs]
    index = client.get_model_repository_index().models
    assert [(model.name, model.version, model.state) for model in index] == [(MODEL, "1", "READY")]
    for call in (client.get_model_metadata, client.get_model_config):
        with refused() as errors:
            call("another")
        assert errors[0].status() == "StatusCode.NOT_FOUND"


def test_what_is_not_served_says_so(client):
    with refused() as errors:
        client.get_inference_statistics()
    assert errors[0].status() == "StatusCode.UNIMPLEMENTED"


def test_numbers_that_are_strings_are_numbers(client, own):
    expected = own.generate(PROMPTS[2], {"max_tokens": 16, "temperature": 1, "seed": 11, "top_k": 5})
    for stream in (False, True):
        sampling = {"temperature": "1.0", "seed": "11", "max_tokens": "16", "top_k": "5"}
        with Stream(client) as requests:
            requests.ask("s", inputs_of(PROMPTS[2], sampling, stream=stream))
            assert requests.finish("s").token_ids == list(expected.token_ids)


def test_a_whole_answer_begins_with_its_prompt_unless_that_is_excluded(client):
    excluded = infer(client, PROMPTS[2], {"temperature": 0})
    assert infer(client, PROMPTS[2], {"temperature": 0}, excludes_input=False).text == PROMPTS[2] + excluded.text
    # Left out, it is false, as with Triton's backend.
    answer = client.infer(MODEL, [text_tensor("text_input", PROMPTS[2]),
                                  text_tensor("sampling_parameters", '{"temperature": 0}')])
    assert answer.as_numpy("text_output")[0].decode() == PROMPTS[2] + excluded.text
    assert answer.as_numpy("finish_reason") is None


def test_a_stream_has_responses_as_the_tokens_come(client):
    with Stream(client) as stream:
        stream.ask("s", inputs_of(PROMPTS[1], {"max_tokens": 24, "ignore_eos": True}, stream=True))
        answer = stream.finish("s")
    assert answer.responses > 8 and answer.counted == 24 and answer.finish == "length"


def test_a_stream_without_the_flag_has_no_empty_response(client):
    events = []
    client.start_stream(callback=lambda result, error: events.append((result, error)))
    client.async_stream_infer(MODEL, inputs_of(PROMPTS[1], {"max_tokens": 5, "ignore_eos": True}, stream=True, returns=()))
    client.stop_stream()
    assert events and all(error is None and result.get_response().outputs for result, error in events)


def choices_of(own, prompt, sampling, count):
    """(text, tokens) of each choice, by Baton's own gRPC."""
    texts, tokens = [""] * count, [[] for _ in range(count)]
    for response in own.start(own.generate_request(prompt, sampling, choices=count)):
        if response.HasField("output"):
            texts[response.output.choice] += response.output.text
            tokens[response.output.choice] += response.output.tokens
    return texts, tokens


def outputs_of(client, prompt, sampling, count, stream, **fields):
    with Stream(client) as requests:
        requests.ask("s", inputs_of(prompt, sampling, stream=stream, returns=(*RETURNS, *LOGPROBS), **fields), Outputs(count))
        return requests.finish("s")


# Between a float32 and its six digits in JSON.
TOLERANCE = 1e-5


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_log_probabilities_are_those_of_batons_own_grpc(client, own, stream):
    sampling = {"max_tokens": 24, "logprobs": 2, "ignore_eos": True, **SEEDED}
    _, (tokens,) = choices_of(own, PROMPTS[0], sampling, 1)
    got = outputs_of(client, PROMPTS[0], sampling, 1, stream)
    assert got.token_ids == [[token.id for token in tokens]]
    for token, place in zip(tokens, got.logprobs[0], strict=True):
        likely = [each.id for each in token.top_logprobs]
        # The token comes first, as in vLLM's dictionaries.
        assert list(place) == list(dict.fromkeys(map(str, [token.id, *likely])))
        assert place[str(token.id)]["rank"] == (likely.index(token.id) + 1 if token.id in likely else None)
        assert place[str(token.id)]["logprob"] == pytest.approx(token.logprob, rel=TOLERANCE, abs=TOLERANCE)
        for rank, each in enumerate(token.top_logprobs, 1):
            assert place[str(each.id)]["rank"] == rank
            assert place[str(each.id)]["logprob"] == pytest.approx(each.logprob, rel=TOLERANCE, abs=TOLERANCE)
    assert {token.id in [each.id for each in token.top_logprobs] for token in tokens} == {False, True}
    own_texts = [place[str(token.id)]["decoded_token"] for token, place in zip(tokens, got.logprobs[0])]
    assert got.texts == ["".join(own_texts)]
    assert got.cumulative[0] == pytest.approx(sum(token.logprob for token in tokens), rel=1e-6)


def test_log_probabilities_without_a_count_of_likely_tokens_are_a_sum_alone(client, own):
    sampling = {"max_tokens": 8, "temperature": 0}
    _, (tokens,) = choices_of(own, PROMPTS[1], sampling | {"logprobs": 0}, 1)
    for stream in (False, True):
        got = outputs_of(client, PROMPTS[1], sampling, 1, stream)
        assert got.logprobs == [[]] and len(got.token_ids[0]) == len(tokens)
        assert got.cumulative[0] == pytest.approx(sum(token.logprob for token in tokens), rel=1e-6)
    (plain,) = client.infer(MODEL, inputs_of(PROMPTS[1], sampling, returns=("logprobs",))).as_numpy("logprobs")
    assert plain == b"null"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_several_outputs_are_the_choices_of_batons_own_grpc(client, own, stream):
    sampling = {"max_tokens": 24, "logprobs": 0, **SEEDED}
    texts, tokens = choices_of(own, PROMPTS[2], sampling, 4)
    got = outputs_of(client, PROMPTS[2], {**sampling, "n": 4}, 4, stream)
    assert got.token_ids == [[token.id for token in each] for each in tokens] and len(set(map(tuple, got.token_ids))) > 1
    assert got.texts == texts and set(got.finishes) <= {"stop", "length"}
    for sum_of, places, each in zip(got.cumulative, got.logprobs, tokens):
        assert sum_of == pytest.approx(sum(token.logprob for token in each), rel=1e-6)
        assert [place[str(token.id)]["logprob"] for place, token in zip(places, each, strict=True)] == pytest.approx(
            [token.logprob for token in each], rel=TOLERANCE, abs=TOLERANCE)
    if not stream:
        echoed = client.infer(MODEL, inputs_of(PROMPTS[2], {**sampling, "n": 4}, excludes_input=False))
        assert [text.decode() for text in echoed.as_numpy("text_output")] == [PROMPTS[2] + text for text in texts]


def test_request_parameters_are_sampling_parameters(client, own):
    expected = own.generate(PROMPTS[0], {"max_tokens": 9, **SEEDED})
    answer = client.infer(MODEL, inputs_of(PROMPTS[0]), parameters={"max_tokens": 9, **SEEDED}, priority=2, timeout=10**9)
    assert answer.as_numpy("token_ids").tolist() == list(expected.token_ids)


def test_stop_strings_and_logit_bias_are_those_of_batons_own_grpc(client, own):
    free = infer(client, PROMPTS[1], {"temperature": 0, "max_tokens": 16})
    stop = free.text[len(free.text) // 2:][:3]
    stopped = infer(client, PROMPTS[1], {"temperature": 0, "max_tokens": 16, "stop": [stop]})
    assert stopped.text == free.text[:free.text.index(stop)] and stopped.finish == "stop"
    bias = {str(free.token_ids[0]): -100}
    expected = own.generate(PROMPTS[1], {"max_tokens": 4, "logit_bias": [{"id": free.token_ids[0], "bias": -100}]})
    assert infer(client, PROMPTS[1], {"max_tokens": 4, "logit_bias": bias}).token_ids == list(expected.token_ids)


def test_named_outputs_come_alone(client):
    answer = client.infer(MODEL, inputs_of(PROMPTS[0], returns=()), outputs=[triton.InferRequestedOutput("num_output_tokens")])
    assert [output.name for output in answer.get_response().outputs] == ["num_output_tokens"]


def test_many_requests_of_one_stream_and_many_streams_are_answered_alike(cluster, own):
    prompts = [f"Number {number}:" for number in range(12)]
    sampling = {"max_tokens": 12, "ignore_eos": True, "temperature": 0}
    expected = [list(own.generate(prompt, sampling).token_ids) for prompt in prompts]
    with triton.InferenceServerClient(cluster.target) as client, Stream(client) as stream:
        for number, prompt in enumerate(prompts):
            stream.ask(str(number), inputs_of(prompt, sampling, stream=number % 2 == 0))
        for number in range(len(prompts)):
            stream.finish(str(number))
        assert [stream.answers[str(number)].token_ids for number in range(len(prompts))] == expected

    async def run():
        async with triton_aio.InferenceServerClient(cluster.target) as client:
            async def ask(prompt):
                async def requests():
                    yield {"model_name": MODEL, "inputs": inputs_of(prompt, sampling, stream=True)}
                answer = Answer()
                async for result, error in client.stream_infer(requests()):
                    assert error is None, error
                    answer.add(result)
                return answer.token_ids
            streams = await asyncio.gather(*map(ask, prompts))
            wholes = await asyncio.gather(*(client.infer(MODEL, inputs_of(prompt, sampling)) for prompt in prompts))
            return streams, [whole.as_numpy("token_ids").tolist() for whole in wholes]

    streams, wholes = asyncio.run(run())
    assert streams == expected and wholes == expected


def test_an_error_of_a_stream_is_a_message_and_the_stream_goes_on(client):
    with Stream(client) as stream:
        stream.ask("wrong", inputs_of(PROMPTS[0], {"top_p": 2}, stream=True))
        with refused() as errors:
            stream.take()
        assert errors[0].message().startswith("INVALID_ARGUMENT: top_p: ")
        stream.ask("unbuilt", inputs_of(PROMPTS[0], {"best_of": 2}, stream=True))
        with refused() as errors:
            stream.take()
        assert errors[0].message() == "UNIMPLEMENTED: best_of: not supported yet"
        stream.ask("right", inputs_of(PROMPTS[0], {"max_tokens": 3}, stream=True))
        assert stream.finish("right").counted == 3


def test_an_error_of_model_infer_is_the_status_of_its_call(client):
    for sampling, status, field in [({"top_p": 2}, "INVALID_ARGUMENT", "top_p"), ({"best_of": 2}, "UNIMPLEMENTED", "best_of"),
                                    ({"n": 0}, "INVALID_ARGUMENT", "n"), ({"n": 129}, "INVALID_ARGUMENT", "n"),
                                    ({"logprobs": 21}, "INVALID_ARGUMENT", "logprobs"),
                                    ({"logprobs": -1}, "INVALID_ARGUMENT", "logprobs"),
                                    ({"prompt_logprobs": 1}, "UNIMPLEMENTED", "prompt_logprobs"),
                                    ({"tempreature": 2}, "INVALID_ARGUMENT", "tempreature"),
                                    ({"lora_name": "x"}, "UNIMPLEMENTED", "lora_name")]:
        with refused() as errors:
            infer(client, PROMPTS[0], sampling)
        assert errors[0].status() == f"StatusCode.{status}" and errors[0].message().startswith(f"{field}: ")
    with refused() as errors:
        infer(client, "word " * 9000)
    assert errors[0].message().startswith("text_input: ")
    with refused() as errors:
        infer(client, b"\xff\xfe")
    assert errors[0].message().startswith("text_input: ")
    with refused() as errors:
        client.infer("another", inputs_of(PROMPTS[0]))
    assert errors[0].status() == "StatusCode.NOT_FOUND"
    with refused() as errors:
        client.infer(MODEL, inputs_of(PROMPTS[0], stream=True))
    assert "ModelStreamInfer" in errors[0].message()
    with refused() as errors:
        client.infer(MODEL, inputs_of(PROMPTS[0]), sequence_id=5)
    assert errors[0].status() == "StatusCode.UNIMPLEMENTED"


def raw_call(channel, message, timeout_s=60):
    call = channel.unary_unary(SERVICE + "ModelInfer", response_deserializer=pb.ModelInferResponse.FromString)
    return call(message if isinstance(message, bytes) else message.SerializeToString(), timeout=timeout_s)


def garbage():
    """Messages that the client's library cannot make, by what is wrong with them."""
    def message(raw, datatype="BYTES", shape=(1,), name="text_input", contents=None):
        request = pb.ModelInferRequest(model_name=MODEL, raw_input_contents=raw)
        tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
        if contents is not None:
            tensor.contents.bytes_contents.append(contents)
        return request

    good = b"\x02\0\0\0hi"
    yield "no inputs", pb.ModelInferRequest(model_name=MODEL)
    yield "a size that is too large", message([b"\x03\0\0\0hi"])
    yield "a size that is far too large", message([b"\xff\xff\xff\xffhi"])
    yield "a size that is too small", message([b"\x01\0\0\0hi"])
    yield "half a size", message([b"\x02\0"])
    yield "two elements", message([good + good])
    yield "two raw contents", message([good, good])
    yield "both contents", message([good], contents=b"hi")
    yield "another type", message([good], datatype="INT64")
    yield "no type", message([good], datatype="")
    yield "another shape", message([good], shape=(1, 1))
    yield "a negative shape", message([good], shape=(-1,))
    yield "an endless shape", message([good], shape=(2**62, 2**62))
    yield "an unknown input", message([good], name="text")
    yield "no UTF-8", message([b"\x02\0\0\0\xff\xfe"])
    yield "no message", b"\xff" * 100
    yield "a name that is no UTF-8", b"\x0a\x02\xff\xfe"
    yield "deep JSON", inputs_message(sampling="[" * 100_000)


def inputs_message(prompt=b"hi", sampling=None):
    request = pb.ModelInferRequest(model_name=MODEL)
    for name, value in (("text_input", prompt), ("sampling_parameters", sampling)):
        if value is not None:
            request.inputs.add(name=name, datatype="BYTES", shape=[1])
            value = value.encode() if isinstance(value, str) else value
            request.raw_input_contents.append(len(value).to_bytes(4, "little") + value)
    return request


@pytest.mark.parametrize("what, message", list(garbage()), ids=[what for what, _ in garbage()])
def test_garbage_is_refused(cluster, what, message):
    with grpc.insecure_channel(cluster.target) as channel:
        with pytest.raises(grpc.RpcError) as error:
            raw_call(channel, message)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT, (what, error.value)
        stream = channel.stream_stream(SERVICE + "ModelStreamInfer",
                                       response_deserializer=pb.ModelStreamInferResponse.FromString)
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        answers = list(stream(iter([raw, inputs_message().SerializeToString()]), timeout=60))
        errors = [answer for answer in answers if answer.error_message]
        assert len(errors) == 1 and errors[0].error_message.startswith("INVALID_ARGUMENT: "), answers
        assert len(answers) == 2, "the other request of the stream was not answered"


def test_a_message_beyond_the_bound_is_refused_and_the_largest_one_is_read(cluster):
    options = [("grpc.max_send_message_length", 64 << 20)]
    with grpc.insecure_channel(cluster.target, options) as channel:
        with pytest.raises(grpc.RpcError) as error:
            raw_call(channel, inputs_message(b"x" * (5 << 20)))
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as error:
            raw_call(channel, inputs_message(b"x" * ((4 << 20) - 1000)))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.value.details().startswith("text_input: ")
        assert raw_call(channel, inputs_message()).outputs


def test_a_stream_that_its_client_leaves_ends_its_requests(cluster, client):
    with Stream(client) as stream:
        for number in range(4):
            stream.ask(str(number), inputs_of(f"Number {number}", ENDLESS, stream=number > 0))
        stream.take()
    await_idle(cluster)


def test_a_request_that_is_left_before_its_answer_ends_too(cluster, client):
    with pytest.raises(InferenceServerException):
        client.infer(MODEL, inputs_of("Endless", ENDLESS), client_timeout=0.5)
    call = client.async_infer(MODEL, inputs_of("Endless", ENDLESS), callback=lambda result, error: None)
    wait_until(lambda: gauge(cluster, "baton_client_streams") >= 1, 30, "the request")
    call.cancel()
    await_idle(cluster)


def test_a_thousand_streams_that_are_left_in_the_middle_leave_nothing(cluster, own):
    request = pb.ModelInferRequest(model_name=MODEL)
    request.CopyFrom(inputs_message(b"Once", json.dumps(ENDLESS)))
    request.inputs.add(name="stream", datatype="BOOL", shape=[1])
    request.raw_input_contents.append(b"\1")
    raw = request.SerializeToString()
    held = threading.Event()

    def requests():
        yield raw
        held.wait(TIMEOUT_S)

    channels = [grpc.insecure_channel(cluster.target, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(4)]
    calls = [channels[number % 4].stream_stream(SERVICE + "ModelStreamInfer")(iter([raw]) if number % 2 else requests(),
                                                                              timeout=TIMEOUT_S)
             for number in range(1000)]
    wait_until(lambda: gauge(cluster, "baton_client_streams") >= 100, 60, "streams")
    for call in calls[::2]:
        call.cancel()
    for channel in channels:
        channel.close()
    held.set()
    await_idle(cluster, 60)
    assert own.generate(PROMPTS[0], {"max_tokens": 4}).token_ids


def streamed_message(max_tokens):
    request = inputs_message(b"Once", json.dumps({"max_tokens": max_tokens, "ignore_eos": True, "temperature": 0}))
    for name in ("stream", "return_token_ids"):
        request.inputs.add(name=name, datatype="BOOL", shape=[1])
        request.raw_input_contents.append(b"\1")
    return request


def test_a_slow_reader_gets_all_of_its_output(cluster):
    """It reads nothing until the output, which is larger than all that the connection takes, is made."""
    request = streamed_message(500)
    options = [("grpc.http2.lookahead_bytes", 1 << 10), ("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(cluster.target, options) as channel:
        call = channel.stream_stream(SERVICE + "ModelStreamInfer",
                                     response_deserializer=pb.ModelStreamInferResponse.FromString)
        stream = call(iter([request.SerializeToString()]), timeout=TIMEOUT_S)
        busy = lambda: any(worker["used_blocks"] for worker in cluster.workers())
        wait_until(busy, 60, "the request in the status")
        wait_until(lambda: not busy(), TIMEOUT_S, "the end of the request")
        answer = Answer()
        for response in stream:
            assert not response.error_message
            answer.add(triton.InferResult(response.infer_response))
    assert len(answer.token_ids) == 500
    assert answer.responses < 500, "nothing was merged"


def test_nobody_is_ready_while_no_worker_is_there(tmp_path):
    with RoleProcess("router", "--grpc-port", 0, "--cluster-port", 0) as router, \
            triton.InferenceServerClient(router.target) as client:
        assert client.is_server_live()
        assert not client.is_server_ready() and not client.is_model_ready(MODEL)
        assert [model.state for model in client.get_model_repository_index().models] == ["UNAVAILABLE"]
        assert client.get_model_metadata(MODEL).name == MODEL
        with RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1):
            wait_until(client.is_server_ready, 60, "readiness")
            assert client.is_model_ready(MODEL)
            assert infer(client, PROMPTS[0], {"max_tokens": 2}).counted == 2
        wait_until(lambda: not client.is_model_ready(MODEL), 60, "the end of the readiness")


def test_a_drain_lets_a_stream_end_and_refuses_later_requests():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster, \
            triton.InferenceServerClient(cluster.target) as client, Stream(client) as stream:
        stream.ask("runs", inputs_of("Once", {"max_tokens": 200, "ignore_eos": True}, stream=True))
        stream.take()
        cluster.signal(15)
        wait_until(lambda: "draining" in cluster.log(), 20, "the drain")
        stream.ask("late", inputs_of("Once", stream=True))
        errors = []
        while not stream.answers["runs"].is_final:
            try:
                stream.take()
            except InferenceServerException as error:
                errors.append(error.message())
        assert stream.answers["runs"].counted == 200
        assert [error.split(":")[0] for error in errors] in ([], ["UNAVAILABLE"])


def test_a_client_that_reads_late_gets_the_end_of_its_answer_from_a_router_that_drains():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster, \
            grpc.insecure_channel(cluster.target) as channel:
        stream = channel.stream_stream(SERVICE + "ModelStreamInfer",
                                       response_deserializer=pb.ModelStreamInferResponse.FromString)
        sent = queue.Queue()
        sent.put(streamed_message(20).SerializeToString())
        call = stream(iter(sent.get, None), timeout=TIMEOUT_S)
        wait_until(lambda: cluster.status()["running_jobs"], 20, "the request")
        cluster.signal(15)
        wait_until(lambda: "still open" in cluster.log() or "drained" in cluster.log(), 20, "the end of the request")
        sent.put(None)
        answer = Answer()
        for response in call:
            answer.add(triton.InferResult(response.infer_response))
        assert len(answer.token_ids) == 20


def test_a_client_that_keeps_its_call_open_does_not_keep_a_router_that_drains():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster, \
            triton.InferenceServerClient(cluster.target) as client, Stream(client) as stream:
        stream.ask("first", inputs_of("Once", {"max_tokens": 2}, stream=True))
        stream.finish("first")
        cluster.signal(15)
        assert cluster.process.wait(timeout=20) == 0
        assert "1 calls that bring requests are still open" in cluster.log()


def test_every_method_needs_a_key_where_keys_are_required(tmp_path):
    issued, keys = Authority(tmp_path).issue(*ALL), Keys(tmp_path)
    right = keys.keys["alice"]
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, *issued.flags, "--api-keys", keys.path) as cluster:
        cluster.client_flags = issued.flags
        for method in METHODS:
            path = SERVICE + method
            assert code_of(cluster.target, path, credentials(issued)) == grpc.StatusCode.UNAUTHENTICATED, path
            assert code_of(cluster.target, path, credentials(issued, right + "x")) == grpc.StatusCode.UNAUTHENTICATED, path
            assert code_of(cluster.target, path, credentials(issued, right)) != grpc.StatusCode.UNAUTHENTICATED, path
        with triton.InferenceServerClient(cluster.target, ssl=True, root_certificates=str(issued.ca)) as client:
            headers = {"authorization": f"Bearer {right}"}
            assert client.is_server_ready(headers=headers)
            with refused() as errors:
                client.is_server_ready()
            assert errors[0].status() == "StatusCode.UNAUTHENTICATED"
            answer = client.infer(MODEL, inputs_of(PROMPTS[0], {"max_tokens": 2}), headers=headers)
            assert answer.as_numpy("num_output_tokens")[0] == 2
            with Stream(client, headers=headers) as stream:
                stream.ask("s", inputs_of(PROMPTS[0], {"max_tokens": 2}, stream=True))
                assert stream.finish("s").counted == 2
            # A prefix is shared within a tenant alone, which shows whose the requests are.
            with Client(cluster.target, credentials(issued, right)) as alice, \
                    Client(cluster.target, credentials(issued, keys.keys["bob"])) as bob:
                text = "A sentence that is long enough for a few blocks of the cache. " * 8
                client.infer(MODEL, inputs_of(text, {"max_tokens": 1}), headers=headers)
                assert bob.generate(text, {"max_tokens": 1}).finished.usage.cached_prompt_tokens == 0
                assert alice.generate(text, {"max_tokens": 1}).finished.usage.cached_prompt_tokens > 0


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of("docs/kserve.md", SOURCE_DIR) if block.language == "python")
    assert "127.0.0.1:50051" in example.text
    exec(compile(example.text.replace("127.0.0.1:50051", cluster.target), "docs/kserve.md", "exec"), {})
    assert "Paris" in capsys.readouterr().out
