"""The tables of docs/kserve.md and docs/vllm_grpc.md: they have every method and field of the messages that tritonclient and
smg-grpc-proto bring, and no other, and of each they say what a real cluster does with it."""

import dataclasses
import json
import re

import grpc
import pytest
import tritonclient.grpc as triton
from google.protobuf import descriptor_pb2
from smg_grpc_proto import vllm_engine_pb2 as vllm
from smg_grpc_proto import vllm_engine_pb2_grpc as vllm_grpc
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2 as kserve
from tritonclient.grpc import service_pb2_grpc as kserve_grpc
from tritonclient.utils import InferenceServerException

from client import Client, violated_fields
from cluster import SOURCE_DIR, Cluster
from triton_requests import MODEL, bool_tensor, infer, text_tensor

ENGINE, INFERENCE = "vllm.grpc.engine.VllmEngine", "inference.GRPCInferenceService"
IDS = [504, 3575, 282, 4649, 314]
PROMPT = "The capital of France is"
TIMEOUT_S = 60


@dataclasses.dataclass(frozen=True)
class Row:
    # What stands in backquotes in the first cell.
    names: tuple
    cells: tuple

    @property
    def use(self):
        """"read", "accepted" or "refused"."""
        return re.match(r"\w+", self.cells[-1])[0]

    @property
    def status(self):
        """With which the row refuses."""
        found = re.search(r"refused with ([A-Z_]+)", self.cells[-1])
        return found[1] if found else "UNIMPLEMENTED"

    @property
    def nothing(self):
        """The value that asks for nothing, as JSON; None where any value asks."""
        found = re.search(r"refused, unless it is (\w+)", self.cells[-1])
        return None if found is None else "[]" if found[1] == "empty" else found[1]


def table_of(page, head):
    """The rows of the page's table whose first cell of the head this is."""
    text = (SOURCE_DIR / page).read_text()
    (body,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = []
    for line in body.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split(" |"))
        rows.append(Row(tuple(re.findall(r"`([^`]+)`", cells[0])), cells))
    return rows


def by_name(rows):
    named = {name: row for row in rows for name in row.names}
    assert len(named) == sum(len(row.names) for row in rows), "a name has two rows"
    return named


def fields_of_other_requests(page):
    """(message, field) -> row. A row names its fields, `of`, and then its messages."""
    found = {}
    for row in table_of(page, "field of another request"):
        fields, messages = (re.findall(r"`(\w+)`", part) for part in row.cells[0].split(" of "))
        found |= {(message, field): row for message in messages for field in fields}
    return found


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def channel(cluster):
    with grpc.insecure_channel(cluster.target) as channel:
        yield channel


@pytest.fixture(scope="module")
def engine(channel):
    return vllm_grpc.VllmEngineStub(channel)


@pytest.fixture(scope="module")
def inference(channel):
    return kserve_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture(scope="module")
def client(cluster):
    with triton.InferenceServerClient(cluster.target) as client:
        yield client


# ---- Nothing is missing from the pages, and the numbers on the wire are the clients'.


def on_the_wire(message):
    """Field -> how it is written."""
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    return {field.name: (field.number, field.type, field.label, field.type_name) for field in proto.field}


def assert_is_a_part_of(message, real):
    theirs = on_the_wire(real)
    for name, form in on_the_wire(message).items():
        assert theirs.get(name) == form, (message.full_name, name, form, theirs.get(name))
    for nested in message.nested_types:
        assert_is_a_part_of(nested, real.nested_types_by_name[nested.name])


@pytest.mark.parametrize("page, service, module", [("docs/vllm_grpc.md", ENGINE, vllm), ("docs/kserve.md", INFERENCE, kserve)])
def test_methods_and_messages_are_a_part_of_the_clients_own(cluster, channel, page, service, module):
    real = module.DESCRIPTOR.services_by_name[service.rpartition(".")[2]]
    with Client(cluster.target) as reflecting:
        served = reflecting.pool.FindServiceByName(service)
        methods = {method.name for method in served.methods}
        assert methods == set(by_name(table_of(page, "method"))) and methods < set(real.methods_by_name)
        for method in served.methods:
            for message, theirs in ((method.input_type, real.methods_by_name[method.name].input_type),
                                    (method.output_type, real.methods_by_name[method.name].output_type)):
                assert message.full_name == theirs.full_name
        messages = served.file.message_types_by_name
        assert len(messages) > 15
        for name, message in messages.items():
            # The model's configuration is in another file of Triton's.
            found = module.DESCRIPTOR.message_types_by_name.get(name)
            if found is None and module is kserve:
                found = model_config_pb2.DESCRIPTOR.message_types_by_name[name]
            assert_is_a_part_of(message, found)
    for name in set(real.methods_by_name) - methods:
        with pytest.raises(grpc.RpcError) as error:
            list(channel.unary_stream(f"/{service}/{name}")(b"", timeout=TIMEOUT_S))
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED, name


def test_every_field_of_a_request_has_a_row():
    page = "docs/vllm_grpc.md"
    assert set(by_name(table_of(page, "field"))) - {"original_text"} == set(vllm.GenerateRequest.DESCRIPTOR.fields_by_name)
    assert set(by_name(table_of(page, "field of `sampling_params`"))) == set(vllm.SamplingParams.DESCRIPTOR.fields_by_name)
    page = "docs/kserve.md"
    request = kserve.ModelInferRequest.DESCRIPTOR
    assert set(by_name(table_of(page, "field of `ModelInferRequest`"))) == set(request.fields_by_name)
    inside = {name: row for row in table_of(page, "field of an input or output") for name in row.names}
    assert {name.rpartition(".")[2] for name in inside if name.startswith("inputs.contents.")} == set(
        kserve.InferTensorContents.DESCRIPTOR.fields_by_name)
    rows = by_name(table_of(page, "field of `ModelInferRequest`"))
    for tensors, nested in (("inputs", "InferInputTensor"), ("outputs", "InferRequestedOutputTensor")):
        read = set(re.findall(r"`(\w+)`", rows[tensors].cells[1]))
        refused = {name.split(".")[1] for name in inside if re.fullmatch(rf"{tensors}\.\w+", name)}
        assert read | refused == set(request.nested_types_by_name[nested].fields_by_name) and not read & refused


@pytest.mark.parametrize("page, service, module", [("docs/vllm_grpc.md", ENGINE, vllm), ("docs/kserve.md", INFERENCE, kserve)])
def test_every_field_of_another_request_has_a_row(page, service, module):
    methods = module.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods_by_name
    served = {methods[name].input_type for name in by_name(table_of(page, "method"))}
    fields = {(message.name, field) for message in served for field in message.fields_by_name
              if message.name not in ("GenerateRequest", "ModelInferRequest")}
    assert fields == set(fields_of_other_requests(page))


# ---- vLLM's engine: what the page says is what the server does.

# A value of each field that asks for something.
REQUEST_VALUES = {
    "request_id": "r", "tokenized": vllm.TokenizedInput(input_ids=IDS, original_text="x"), "text": PROMPT,
    "sampling_params": vllm.SamplingParams(max_tokens=1), "stream": True, "kv_transfer_params": vllm.KvTransferParams(),
    "kv_transfer_params_json": "{}", "data_parallel_rank": 1, "mm_inputs": vllm.MultimodalInputs(),
    "extra_mm_inputs": [vllm.MultimodalInputs()], "media_refs": vllm.MediaRefs(),
}
SAMPLING_VALUES = {
    "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "frequency_penalty": 0.1, "presence_penalty": 0.1,
    "repetition_penalty": 1.1, "max_tokens": 2, "min_tokens": 1, "stop": ["x"], "stop_token_ids": [5],
    "skip_special_tokens": True, "spaces_between_special_tokens": True, "ignore_eos": True, "n": 2, "logprobs": 1,
    "prompt_logprobs": 1, "seed": 1, "include_stop_str_in_output": True, "logit_bias": {5: 1.0}, "truncate_prompt_tokens": 5,
    "grammar_from_first_token": True, "json_schema": '{"type": "integer"}', "regex": "[0-9]", "grammar": 'root ::= "a"',
    "structural_tag": "{}", "json_object": True, "choice": vllm.ChoiceConstraint(choices=["a", "b"]),
}


def generate(engine, fields=None, sampling=None):
    """All responses."""
    # What `fields` has beside it in its `oneof` would be lost.
    prompt = {} if {"text", "tokenized"} & set(fields or {}) else {"tokenized": vllm.TokenizedInput(input_ids=IDS)}
    request = {"sampling_params": vllm.SamplingParams(**{"max_tokens": 1, "temperature": 0, **(sampling or {})}), **prompt,
               **(fields or {})}
    return list(engine.Generate(vllm.GenerateRequest(**request), timeout=TIMEOUT_S))


@pytest.mark.parametrize("head, prefix, values", [("field", "", REQUEST_VALUES),
                                                  ("field of `sampling_params`", "sampling_params.", SAMPLING_VALUES)],
                         ids=["request", "sampling"])
def test_what_becomes_of_each_field_of_generate(engine, head, prefix, values):
    ask = lambda name, value: generate(engine, **{"sampling" if prefix else "fields": {name: value}})
    plain = [list(response.complete.output_ids) for response in generate(engine)]
    for name, row in by_name(table_of("docs/vllm_grpc.md", head)).items():
        if name not in values:
            assert name == "original_text"
            continue
        if row.use == "refused":
            with pytest.raises(grpc.RpcError) as error:
                ask(name, values[name])
            assert error.value.code() == grpc.StatusCode[row.status] and violated_fields(error.value) == [prefix + name], name
            if row.nothing is None:
                continue
            values = {**values, name: json.loads(row.nothing)}
        answer = ask(name, values[name])
        assert answer[-1].HasField("complete"), (name, answer)
        if row.use == "accepted" or row.nothing is not None:
            assert [list(response.complete.output_ids) for response in answer] == plain, name


def test_what_becomes_of_each_field_of_the_engines_other_requests(engine):
    rows = fields_of_other_requests("docs/vllm_grpc.md")
    assert {key: row.use for key, row in rows.items()} == {
        ("AbortRequest", "request_ids"): "read", ("GetLoadsRequest", "dp_rank"): "read",
        ("GetLoadsRequest", "include"): "accepted"}
    # test_vllm_grpc.py aborts requests.
    assert engine.GetLoads(vllm.GetLoadsRequest(dp_rank=0, include=["core"]), timeout=TIMEOUT_S).loads
    assert not engine.GetLoads(vllm.GetLoadsRequest(dp_rank=1), timeout=TIMEOUT_S).loads


def names_set_in(message):
    return {field.name for field, _ in message.ListFields()}


def test_answers_of_the_engine_have_what_the_page_says_and_nothing_else(engine):
    got = {"GetModelInfoResponse": engine.GetModelInfo(vllm.GetModelInfoRequest(), timeout=TIMEOUT_S),
           "HealthCheckResponse": engine.HealthCheck(vllm.HealthCheckRequest(), timeout=TIMEOUT_S),
           "GetServerInfoResponse": engine.GetServerInfo(vllm.GetServerInfoRequest(), timeout=TIMEOUT_S),
           "AbortResponse": engine.Abort(vllm.AbortRequest(), timeout=TIMEOUT_S),
           "GetLoadsResponse": engine.GetLoads(vllm.GetLoadsRequest(), timeout=TIMEOUT_S)}
    (got["SchedulerLoad"],) = got["GetLoadsResponse"].loads
    fields = {"stream": True, "tokenized": vllm.TokenizedInput(input_ids=IDS * 8)}
    greedy = {"max_tokens": 8, "logprobs": 1, "ignore_eos": True}
    generate(engine, fields, greedy)
    # The second time, its prompt comes from the cache. The text that it answers ends it.
    *chunks, last = generate(engine, fields, {**greedy, "max_tokens": 64, "stop": [" ", "\n", "a", "e", "."]})
    # A whole answer has the log-probabilities, which chunks have otherwise; only several outputs have an index that is not 0.
    prompts = {**greedy, "prompt_logprobs": 1}
    others = [*generate(engine, fields, prompts), *generate(engine, {"tokenized": fields["tokenized"]}, prompts),
              *generate(engine, fields, {**greedy, "n": 2})]
    responses = [*chunks, last, *others]
    got["GenerateStreamChunk"] = [response.chunk for response in responses if response.HasField("chunk")]
    got["GenerateComplete"] = [response.complete for response in responses if response.HasField("complete")]
    rows = by_name(table_of("docs/vllm_grpc.md", "message"))
    assert set(rows) == set(got)
    for message, row in rows.items():
        has, empty = (set(re.findall(r"`(\w+)`", cell)) for cell in row.cells[1:])
        assert not has & empty and has | empty == set(vllm.DESCRIPTOR.message_types_by_name[message].fields_by_name), message
        messages = got[message] if isinstance(got[message], list) else [got[message]]
        said = set().union(*map(names_set_in, messages))
        assert said <= has, (message, said - has)
        # What is 0 looks as if it were not there: nothing runs.
        if message not in ("GetServerInfoResponse", "SchedulerLoad"):
            assert said == has, (message, has - said)


# ---- KServe: what the page says is what the server does.

# A value of each parameter that asks for something.
PARAMETERS = {
    "max_tokens": 1, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "seed": 1, "stop": "x", "stop_token_ids": [5],
    "ignore_eos": True, "min_tokens": 1, "repetition_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1,
    "logit_bias": {"5": 1}, "add_special_tokens": False, "n": 2, "best_of": 2, "logprobs": 1, "prompt_logprobs": 1,
    "use_beam_search": True, "length_penalty": 2.0, "early_stopping": True, "bad_words": ["x"], "detokenize": False,
    "include_stop_str_in_output": True, "skip_special_tokens": False, "spaces_between_special_tokens": False,
    "truncate_prompt_tokens": 5, "guided_decoding": {}, "structured_outputs": {"choice": ["a", "b"]}, "logits_processors": [1],
    "lora_name": "x", "extra_args": {},
}


def status_of(call, name):
    """The name of the status of a call that is refused because of that field, or None of one that is answered."""
    try:
        call()
    except (InferenceServerException, grpc.RpcError) as error:
        code, said = ((error.status().removeprefix("StatusCode."), error.message())
                      if isinstance(error, InferenceServerException) else (error.code().name, error.details()))
        assert code == "NOT_FOUND" or said.startswith(f"{name}: "), (name, said)
        return code
    return None


def request_of(**fields):
    """A raw request whose prompt is in the contents of its input."""
    request = kserve.ModelInferRequest(**{"model_name": MODEL, **fields})
    tensor = request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(PROMPT.encode())
    sampling = request.inputs.add(name="sampling_parameters", datatype="BYTES", shape=[1])
    sampling.contents.bytes_contents.append(b'{"max_tokens": 1, "temperature": 0}')
    return request


def test_what_becomes_of_each_sampling_parameter(client):
    rows = by_name(table_of("docs/kserve.md", "parameter"))
    assert set(rows) == set(PARAMETERS)
    ask = lambda name, value: status_of(lambda: infer(client, PROMPT, {"max_tokens": 1, name: value}), name)
    for name, row in rows.items():
        assert ask(name, PARAMETERS[name]) == {"read": None, "refused": "UNIMPLEMENTED"}[row.use], name
        if row.nothing is not None:
            assert ask(name, json.loads(row.nothing)) is None, name
    assert ask("tempreature", 1) == "INVALID_ARGUMENT"


def test_what_becomes_of_each_parameter_of_the_protocol(inference):
    rows = by_name(table_of("docs/kserve.md", "parameter of the protocol's own"))
    values = {"priority": 2, "timeout": 10**9, "triton_enable_empty_final_response": True, "sequence_id": 5,
              "sequence_start": True, "sequence_end": True}
    prefixes = {"sequence_", "triton_"}
    assert set(rows) == values.keys() | prefixes
    values |= {prefix + "x": 1 for prefix in prefixes}
    for name, value in values.items():
        request = request_of()
        if isinstance(value, bool):
            request.parameters[name].bool_param = value
        else:
            request.parameters[name].int64_param = value
        row = rows.get(name) or rows[name.removesuffix("x")]
        wanted = "UNIMPLEMENTED" if row.use == "refused" else None
        assert status_of(lambda: inference.ModelInfer(request, timeout=TIMEOUT_S), name) == wanted, name


def test_the_tensors_are_those_of_the_models_metadata_and_the_others_are_refused(client):
    metadata = client.get_model_metadata(MODEL)
    for head, tensors in (("input", metadata.inputs), ("output", metadata.outputs)):
        rows = by_name(table_of("docs/kserve.md", head))
        served = {name: row.cells[1] for name, row in rows.items() if not row.cells[2].startswith("refused")}
        assert served == {tensor.name: tensor.datatype for tensor in tensors}
        for name, row in rows.items():
            if name in served:
                continue
            inputs, outputs = [text_tensor("text_input", PROMPT)], None
            if head == "output":
                outputs = [triton.InferRequestedOutput(name)]
            else:
                inputs.append(bool_tensor(name, True) if row.cells[1] == "BOOL" else text_tensor(name, "x"))
            assert status_of(lambda: client.infer(MODEL, inputs, outputs=outputs), name) == row.status == "UNIMPLEMENTED", name
            if row.nothing is not None:
                assert status_of(lambda: client.infer(MODEL, [inputs[0], bool_tensor(name, False)]), name) is None, name
    unknown = [text_tensor("text_input", PROMPT), text_tensor("unknown", "x")]
    assert status_of(lambda: client.infer(MODEL, unknown), "unknown") == "INVALID_ARGUMENT"


def test_what_becomes_of_each_field_of_model_infer(inference):
    rows = by_name(table_of("docs/kserve.md", "field of `ModelInferRequest`"))
    ask = lambda request, name="": status_of(lambda: inference.ModelInfer(request, timeout=TIMEOUT_S), name)
    assert rows.keys() == set(kserve.ModelInferRequest.DESCRIPTOR.fields_by_name)
    assert all(row.use == "read" for row in rows.values())
    assert ask(request_of(model_name="another")) == rows["model_name"].status == "NOT_FOUND"
    assert ask(request_of(model_version="2")) == rows["model_version"].status == "NOT_FOUND"
    assert ask(request_of(model_name="", model_version="1")) is None
    assert inference.ModelInfer(request_of(id="mine"), timeout=TIMEOUT_S).id == "mine"
    raw = request_of(raw_input_contents=[b"\x02\0\0\0hi", b"\x02\0\0\0{}"])
    for tensor in raw.inputs:
        tensor.ClearField("contents")
    assert ask(raw) is None


# An element of each field of a tensor's contents.
CONTENTS = {"bool_contents": True, "int_contents": 1, "int64_contents": 1, "uint_contents": 1, "uint64_contents": 1,
            "fp32_contents": 1.0, "fp64_contents": 1.0, "bytes_contents": b"x"}


def test_what_becomes_of_each_field_of_a_tensor(inference):
    ask = lambda request, name: status_of(lambda: inference.ModelInfer(request, timeout=TIMEOUT_S), name)
    for name, row in by_name(table_of("docs/kserve.md", "field of an input or output")).items():
        if name == "inputs.parameters":
            request = request_of()
            request.inputs[0].parameters["shared_memory_region"].string_param = "x"
            assert ask(request, "text_input") == row.status == "UNIMPLEMENTED"
        elif name == "outputs.parameters":
            request = request_of()
            request.outputs.add(name="text_output").parameters["classification"].int64_param = 1
            assert ask(request, "outputs.parameters.classification") == row.status == "UNIMPLEMENTED"
        else:
            field = name.rpartition(".")[2]
            request = request_of()
            if field == "bool_contents":
                request.inputs.add(name="return_token_ids", datatype="BOOL", shape=[1])
            elif field != "bytes_contents":
                request.inputs[-1].ClearField("contents")
            if field != "bytes_contents":
                getattr(request.inputs[-1].contents, field).append(CONTENTS[field])
            assert ask(request, "sampling_parameters") == (None if row.use == "read" else row.status), name


def test_what_becomes_of_each_field_of_the_other_requests(inference):
    rows = fields_of_other_requests("docs/kserve.md")
    for message, call in (("ModelMetadataRequest", inference.ModelMetadata), ("ModelConfigRequest", inference.ModelConfig)):
        for fields in ({"name": "another"}, {"version": "2"}):
            (field,) = fields
            asked = getattr(kserve, message)(**fields)
            assert status_of(lambda: call(asked, timeout=TIMEOUT_S), "") == rows[message, field].status == "NOT_FOUND"
    for fields in ({"name": "another"}, {"version": "2"}):
        assert not inference.ModelReady(kserve.ModelReadyRequest(**fields), timeout=TIMEOUT_S).ready
    named = kserve.RepositoryIndexRequest(repository_name="x")
    assert status_of(lambda: inference.RepositoryIndex(named, timeout=TIMEOUT_S), "repository_name") == rows[
        "RepositoryIndexRequest", "repository_name"].status == "INVALID_ARGUMENT"
    assert inference.RepositoryIndex(kserve.RepositoryIndexRequest(ready=True), timeout=TIMEOUT_S).models
