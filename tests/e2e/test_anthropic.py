"""Anthropic's own Python client against the HTTP port of a real cluster, and raw HTTP where that client sends no such
thing."""

import asyncio
import json
import os
import re

import anthropic
import pytest

import raw_http
from cluster import SOURCE_DIR, Cluster
from http_api import documented_fields, post
from pages import blocks_of

MODEL = "smollm2-135m-instruct"
PAGE = "docs/anthropic.md"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
# In `extra_body`, because the client's own types have no such field any more.
GREEDY = {"temperature": 0}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--max-queued-jobs", 8, "--max-seqs", 8) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    return anthropic.Anthropic(base_url=f"http://{cluster.http}", api_key="none", max_retries=0)


def test_a_message_is_answered_at_once_and_as_a_stream_alike(client):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 20, "extra_body": GREEDY}
    whole = client.messages.create(**asked)
    assert whole.id == f"msg_{whole._request_id}"  # pylint: disable=protected-access
    assert whole.role == "assistant" and whole.type == "message" and whole.model == MODEL
    assert whole.stop_reason in ("end_turn", "max_tokens") and whole.stop_sequence is None
    with client.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert "".join(pieces) == whole.content[0].text == message.content[0].text
    assert len(pieces) > 1
    assert message.stop_reason == whole.stop_reason
    assert message.usage.output_tokens == whole.usage.output_tokens
    count = lambda usage: usage.input_tokens + usage.cache_read_input_tokens
    assert count(message.usage) == count(whole.usage)
    assert count(whole.usage) == client.messages.count_tokens(model=MODEL, messages=QUESTION).input_tokens


def test_many_streams_run_at_once(cluster):
    async def run():
        async with anthropic.AsyncAnthropic(base_url=f"http://{cluster.http}", api_key="none", max_retries=0) as client:
            async def one(number):
                async with client.messages.stream(model=MODEL, max_tokens=16, extra_body=GREEDY,
                                                  messages=[{"role": "user", "content": f"Number {number}"}]) as stream:
                    return await stream.get_final_text()
            return await asyncio.gather(*map(one, range(8)))

    texts = asyncio.run(run())
    assert asyncio.run(run()) == texts and len(set(texts)) > 1


def test_a_stop_sequence_ends_the_text_and_is_named(client):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 16, "extra_body": GREEDY}
    free = client.messages.create(**asked).content[0].text
    stop = free[len(free) // 2:][:3]
    answer = client.messages.create(**asked, stop_sequences=["never said", stop])
    assert answer.content[0].text == free[:free.index(stop)]
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == stop
    with client.messages.stream(**asked, stop_sequences=["never said", stop]) as stream:
        assert stream.get_final_message().stop_sequence == stop


@pytest.mark.skipif(os.environ.get("BATON_FULL_TESTS") != "1", reason="a full context takes long: BATON_FULL_TESTS=1 runs it")
def test_a_full_context_ends_an_answer_that_asks_for_more(client):
    filler = " word" * 8100
    answer = client.messages.create(model=MODEL, max_tokens=8192, messages=[{"role": "user", "content": filler}],
                                    extra_body=GREEDY, timeout=60)
    assert answer.stop_reason in ("model_context_window_exceeded", "end_turn")
    assert answer.usage.output_tokens < 100


def test_errors_are_those_that_the_client_knows(client):
    with pytest.raises(anthropic.BadRequestError) as wrong:
        client.messages.create(model=MODEL, messages=QUESTION, max_tokens=5, extra_body={"temperature": -1})
    assert wrong.value.body["error"]["type"] == "invalid_request_error"
    assert wrong.value.body["error"]["message"].startswith("temperature: ")
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="another", messages=QUESTION, max_tokens=5)
    with pytest.raises(anthropic.BadRequestError) as too_long:
        client.messages.create(model=MODEL, messages=[{"role": "user", "content": " word" * 9000}], max_tokens=5)
    assert too_long.value.body["error"]["message"].startswith("prompt is too long: messages: ")
    with pytest.raises(anthropic.NotFoundError) as no_path:
        client.messages.batches.list()
    assert no_path.value.body["type"] == "error"


# Each has a Host, and "x" stands for the path.
@pytest.mark.parametrize("status, lines", [
    (404, "POST xx HTTP/1.1"), (405, "GET x HTTP/1.1"), (413, "POST x HTTP/1.1\r\nContent-Length: 99999999"),
    (417, "POST x HTTP/1.1\r\nContent-Length: 2\r\nExpect: patience"), (421, "POST x HTTP/1.1\r\nHost: an.example"),
    (431, f"POST x HTTP/1.1\r\nA: {'a' * 40_000}"), (501, "POST x HTTP/1.1\r\nTransfer-Encoding: gzip"),
    (505, "POST x HTTP/2.5"),
], ids=lambda value: str(value) if isinstance(value, int) else "")
def test_what_http_refuses_has_the_type_that_the_page_says(cluster, status, lines):
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)` \|", (SOURCE_DIR / PAGE).read_text(), re.MULTILINE)
    types = {int(each): kind for row, kind in rows for each in row.split(", ")}
    assert {400, 401, 403, 429, 500, 504, 529} <= types.keys()
    host = "" if "Host" in lines else f"\r\nHost: {cluster.http}"
    asked = lines.replace(" x", " /v1/messages", 1) + host + "\r\n\r\n"
    (response,) = raw_http.talk(cluster.http, [asked.encode()]).responses
    error = json.loads(response.body)
    assert response.status == status and error["error"]["message"]
    if status in (431, 505):
        assert status not in types and "code" in error["error"], "its path is not known"
    else:
        assert error["type"] == "error" and error["error"]["type"] == types[status]


def test_a_stream_that_its_client_leaves_ends_its_request(cluster, client):
    with client.messages.stream(model=MODEL, messages=[{"role": "user", "content": "Tell a long story."}],
                                max_tokens=4000) as stream:
        next(iter(stream.text_stream))
    cluster.await_idle()


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of(PAGE, SOURCE_DIR) if block.language == "python")
    assert "http://127.0.0.1:8000" in example.text
    exec(compile(example.text.replace("127.0.0.1:8000", cluster.http), PAGE, "exec"), {})
    assert capsys.readouterr().out.strip()


SCHEMA = {"type": "json_schema", "schema": {"type": "boolean"}}
# A value of each field that asks for something, and one that asks for nothing.
VALUES = {"messages": QUESTION, "model": MODEL, "max_tokens": 1, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "seed": 1,
          "stop_sequences": ["x"], "stream": False, "metadata": {"user_id": "me"}, "thinking": {"type": "adaptive"},
          "tools": [{"name": "x", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"}, "mcp_servers": [{}],
          "output_config": {"format": SCHEMA}, "output_format": SCHEMA, "speed": "fast"}
NOTHING = {"thinking": {"type": "disabled"}, "mcp_servers": [], "speed": "standard"}
BASES = {"messages": ("/v1/messages", {"messages": QUESTION, "max_tokens": 1}),
         "count": ("/v1/messages/count_tokens", {"messages": QUESTION})}


def test_every_field_of_the_page_does_what_the_page_says(cluster):
    asked = 0
    for name, endpoint, what in documented_fields(PAGE, BASES):
        path, base = BASES[endpoint]
        status, _, answer = post(cluster, path, {**base, name: VALUES.get(name, "x")})
        if what == "refused":
            assert status == 400 and answer["error"]["message"] == f"{name}: not supported yet", (name, endpoint, answer)
            assert post(cluster, path, {**base, name: NOTHING.get(name)})[0] == 200, (name, endpoint)
        else:
            assert status == 200, (name, endpoint, answer)
        asked += 1
    assert asked > 30
    for path, base in BASES.values():
        status, _, answer = post(cluster, path, {**base, "temprature": 1})
        assert status == 400 and answer["error"]["message"] == "temprature: this field is not known"


def test_what_a_web_page_could_send_without_asking_is_refused(cluster):
    status, _, error = post(cluster, "/v1/messages", {"max_tokens": 1, "messages": QUESTION}, content_type="text/plain")
    assert status == 400 and "Content-Type" in error["error"]["message"] and error["type"] == "error"
