"""/v1/responses of a real cluster by OpenAI's own client: whole answers, streams, formats, and what is refused."""

import asyncio
import json

import jsonschema
import openai
import pytest

from client import Client, read_stream
from cluster import SOURCE_DIR, Cluster
from http_api import documented_fields, post
from pages import blocks_of

MODEL = "smollm2-135m-instruct"
PAGE = "docs/responses.md"
QUESTION = "What is the capital of France? Answer in one sentence."
GREEDY = {"temperature": 0}
LOGPROBS = "message.output_text.logprobs"
SCHEMA = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}}, "required": ["capital"],
          "additionalProperties": False}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


def text_of_grpc(cluster, messages, sampling):
    with Client(cluster.target) as client:
        request = client.generate_request("", sampling)
        for role, content in messages:
            request.chat.messages.add(role=role, content=content)
        return read_stream(client.start(request)).text


def test_an_answer_at_once_and_as_a_stream_are_alike(client):
    asked = {"model": MODEL, "input": QUESTION, "instructions": "Be brief.", "max_output_tokens": 20, **GREEDY}
    whole = client.responses.create(**asked, metadata={"a": "b"})
    with client.responses.stream(**asked) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(pieces) == whole.output_text == streamed.output_text and len(pieces) > 1
    assert whole.id.startswith("resp_") and whole.model == MODEL and whole.metadata == {"a": "b"}
    assert whole.usage.output_tokens == streamed.usage.output_tokens > 0
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    assert whole.status == streamed.status and whole.output[0].status == whole.status


def test_instructions_are_the_first_message_of_the_system(cluster, client):
    whole = client.responses.create(model=MODEL, input=QUESTION, instructions="Be brief.", max_output_tokens=20, **GREEDY)
    assert whole.output_text == text_of_grpc(cluster, [("system", "Be brief."), ("user", QUESTION)], {"max_tokens": 20})


def test_an_answer_that_is_cut_is_incomplete(client):
    cut = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=3, **GREEDY)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    done = client.responses.create(model=MODEL, input="Say hi.", max_output_tokens=400, **GREEDY)
    assert done.status == "completed" and done.incomplete_details is None


def test_a_conversation_goes_on_with_the_answers_as_they_came(cluster, client):
    first = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=30, **GREEDY)
    history = [{"role": "user", "content": QUESTION}, *[item.to_dict() for item in first.output],
               {"role": "user", "content": [{"type": "input_text", "text": "And of "}, {"type": "input_text", "text": "Italy?"}]}]
    second = client.responses.create(model=MODEL, input=history, max_output_tokens=30, **GREEDY)
    assert second.output_text == text_of_grpc(
        cluster, [("user", QUESTION), ("assistant", first.output_text), ("user", "And of Italy?")], {"max_tokens": 30})


def test_formats_are_obeyed(client):
    text = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA}}
    answer = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=200, text=text, **GREEDY)
    jsonschema.validate(json.loads(answer.output_text), SCHEMA)
    assert answer.text.format.type == "json_schema"
    answer = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=50, text={"format": {"type": "json_object"}})
    assert answer.output_text.startswith("{")


def test_log_probabilities_come_where_they_are_asked_for(client):
    asked = {"model": MODEL, "input": QUESTION, "max_output_tokens": 5, "include": [LOGPROBS], "top_logprobs": 2, **GREEDY}
    whole = client.responses.create(**asked).output[0].content[0]
    assert len(whole.logprobs) == 5 and all(len(each.top_logprobs) == 2 for each in whole.logprobs)
    assert "".join(each.token for each in whole.logprobs) == whole.text
    with client.responses.stream(**asked) as stream:
        deltas = [event for event in stream if event.type == "response.output_text.delta"]
    assert [each.logprob for delta in deltas for each in delta.logprobs] == [each.logprob for each in whole.logprobs]
    assert client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=2).output[0].content[0].logprobs == []


def test_many_at_once_by_the_asynchronous_client(cluster):
    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*[client.responses.create(model=MODEL, input=f"Count to {number}.",
                                                                  max_output_tokens=8, **GREEDY) for number in range(16)])

    for number, answer in enumerate(asyncio.run(ask_all())):
        assert answer.output_text == text_of_grpc(cluster, [("user", f"Count to {number}.")], {"max_tokens": 8})


def test_a_stream_left_in_the_middle_ends_its_request(cluster, client):
    stream = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=4000, stream=True,
                                     text={"format": {"type": "json_object"}})
    next(event for event in stream if event.type == "response.output_text.delta")
    stream.close()
    cluster.await_idle()


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="another", input="x")


@pytest.mark.parametrize(("fields", "param"), [
    ({"input": 5}, "input"), ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    ({"input": [{"type": "function_call_output", "call_id": "a", "output": "b"}]}, "input[0].call_id"),
    ({"input": [{"type": "reasoning"}]}, "input[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content"),
    ({"include": ["reasoning.encrypted_content"]}, "include"), ({"top_logprobs": 3}, "top_logprobs"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"), ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"max_output_tokens": 0}, "max_tokens"), ({"metadata": 5}, "metadata"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_is_named(cluster, fields, param):
    status, _, answer = post(cluster, "/v1/responses", {"model": MODEL, "input": "x", "max_output_tokens": 1, **fields})
    assert status == 400 and answer["error"]["param"] == param, answer


# A value of each field that asks for something, and one that asks for nothing.
VALUES = {"input": "x", "model": MODEL, "max_output_tokens": 1, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1,
          "seed": 1, "text": {"format": {"type": "json_object"}}, "include": [LOGPROBS], "metadata": {"a": "b"},
          "stream": False, "priority": 2, "store": True, "parallel_tool_calls": True,
          "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}], "tool_choice": "auto", "max_tool_calls": 1, "reasoning": {"effort": "low"}, "background": True,
          "truncation": "auto"}
NOTHING = {"reasoning": {}, "background": False, "truncation": "disabled"}
BASES = {"responses": ("/v1/responses", {"input": "x", "max_output_tokens": 1})}


def test_every_field_of_the_page_does_what_the_page_says(cluster):
    asked = 0
    for name, endpoint, what in documented_fields(PAGE, BASES):
        path, base = BASES[endpoint]
        more = {"include": [LOGPROBS]} if name == "top_logprobs" else {}
        status, _, answer = post(cluster, path, {**base, **more, name: 1 if more else VALUES.get(name, "x")})
        if what == "refused":
            assert status == 400 and answer["error"]["param"] == name, (name, answer)
            assert post(cluster, path, {**base, name: NOTHING.get(name)})[0] == 200, name
        else:
            assert status == 200, (name, answer)
        asked += 1
    assert asked > 30
    status, _, answer = post(cluster, "/v1/responses", {"input": "x", "temprature": 1})
    assert status == 400 and answer["error"]["param"] == "temprature"


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of(PAGE, SOURCE_DIR) if block.language == "python")
    assert "http://127.0.0.1:8000" in example.text
    exec(compile(example.text.replace("127.0.0.1:8000", cluster.http), PAGE, "exec"), {})
    assert capsys.readouterr().out.strip()
