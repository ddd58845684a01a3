"""docs/api_compatibility.md says of every endpoint and field what becomes of it at Baton: here each row is asked of a real
cluster, and each endpoint and field that the gateway's sources name has to have a row."""

import dataclasses
import functools
import json
import re
import urllib.error
import urllib.request

import pytest

import test_anthropic
import test_openai
import test_responses
from cluster import SOURCE_DIR, Cluster
from http_api import post

PAGE = SOURCE_DIR / "docs/api_compatibility.md"
MODEL = test_openai.MODEL
QUESTION = test_openai.QUESTION
PROMPT = "The capital of France is"
COMPLETIONS, CHAT, RESPONSES, MESSAGES, COUNT, EMBEDDINGS, TOKENIZE, DETOKENIZE = (
    "POST /v1/completions", "POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages",
    "POST /v1/messages/count_tokens", "POST /v1/embeddings", "POST /tokenize", "POST /detokenize")

# A request of each endpoint, to which the field of a row is added.
BASES = {
    COMPLETIONS: {"prompt": PROMPT, "max_tokens": 1},
    CHAT: {"messages": QUESTION, "max_tokens": 1},
    RESPONSES: {"input": "x", "max_output_tokens": 1},
    MESSAGES: {"messages": QUESTION, "max_tokens": 1},
    COUNT: {"messages": QUESTION},
    EMBEDDINGS: {"input": PROMPT},
    TOKENIZE: {"prompt": PROMPT},
    DETOKENIZE: {"tokens": [504, 3575]},
}
# A value of each field that asks for something; of any other, "x" does.
VALUES = {
    COMPLETIONS: {**test_openai.VALUES, "logprobs": 1},
    CHAT: {**test_openai.VALUES, "logprobs": True, "top_logprobs": 1},
    RESPONSES: {**test_responses.VALUES, "top_logprobs": 1},
    MESSAGES: test_anthropic.VALUES,
    COUNT: test_anthropic.VALUES,
    EMBEDDINGS: {"input": "x", "model": MODEL, "encoding_format": "base64", "dimensions": 576, "pooling": "mean",
                 "add_special_tokens": False, "priority": 2, "normalize": False},
    TOKENIZE: {"prompt": "x", "model": MODEL, "add_special_tokens": False},
    DETOKENIZE: {"tokens": [1], "model": MODEL},
}
# What a field needs beside it.
BESIDE = {
    (CHAT, "top_logprobs"): {"logprobs": True},
    (RESPONSES, "top_logprobs"): {"include": [test_responses.LOGPROBS]},
}
# The answer is a stream, which tests below ask for.
STREAMED = {(COMPLETIONS, "stream_options"), (CHAT, "stream_options")}

# Which endpoints a table of rules in the gateway's sources is of.
RULES = {
    "kCommonFields": (COMPLETIONS, CHAT), "kCompletionsFields": (COMPLETIONS,), "kChatFields": (CHAT,),
    "kResponsesFields": (RESPONSES,), "kPromptFields": (MESSAGES, COUNT), "kAnswerFields": (MESSAGES,),
    "kEmbeddingsFields": (EMBEDDINGS,), "kTokenizeFields": (TOKENIZE,), "kDetokenizeFields": (DETOKENIZE,),
}
# Rules of what is inside of a field, and of KServe's parameters, whose table test_grpc_tables.py walks.
NOT_OF_A_REQUEST = {"kFields", "kItemFields", "kType", "kMember", "kSchemaFields", "kSamplingRules", "kMessageFields",
                    "kAssistantFields", "kToolFields", "kSpeakerFields", "kStreamFields"}


@dataclasses.dataclass(frozen=True)
class Row:
    endpoint: str
    field: str
    # "read", "ignored", or "400".
    use: str
    # Of a refused field: what the error calls it, and the JSON that asks for nothing.
    param: str | None
    nothing: str | None


def tables():
    """Section -> lines of its table, without the two of its head."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        found[title.strip()] = [line for line in text.splitlines() if line.startswith("|")][2:]
    return found


def parse(endpoint, line):
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(cells) == 8, line
    said = re.fullmatch(r"(read|ignored|400)(?: `([\w.\[\]]+)`)?(?:, but for `(.+)`)?", cells[1])
    assert said and (said[1] == "400") == (said[2] is not None), line
    return Row(endpoint, cells[0].strip("`"), said[1], said[2], said[3])


TABLES = tables()
ROWS = [parse(endpoint, line) for endpoint in BASES for line in TABLES[endpoint]]
# Of the members of a chat's fields, which test_openapi.py asks for.
WITHIN_CHAT = [parse(CHAT, line) for line in TABLES[f"Within {CHAT}"]]


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster:
        yield cluster


def ask(cluster, endpoint, **fields):
    """(status, body) of the base request with these fields."""
    status, _, body = post(cluster, endpoint.partition(" ")[2], {**BASES[endpoint], **fields})
    return status, body


def names_the_field(endpoint, body, param):
    if endpoint in (MESSAGES, COUNT):
        return body["error"]["message"].startswith(f"{param}: ")
    return body["error"]["param"] == param and body["error"]["message"].startswith(f"{param}: ")


# ---- What the page says is what the server does.


@pytest.mark.parametrize("endpoint", BASES)
def test_every_row_is_what_the_server_does(cluster, endpoint):
    for row in (row for row in ROWS if row.endpoint == endpoint and (endpoint, row.field) not in STREAMED):
        beside = BESIDE.get((endpoint, row.field), {})
        status, body = ask(cluster, endpoint, **{**beside, row.field: VALUES[endpoint].get(row.field, "x")})
        if row.use != "400":
            assert status == 200, (row, body)
            continue
        assert status == 400 and names_the_field(endpoint, body, row.param), (row, status, body)
        if row.nothing is not None:
            status, body = ask(cluster, endpoint, **{row.field: json.loads(row.nothing)})
            assert status == 200, (row, body)


@pytest.mark.parametrize("endpoint", BASES)
def test_null_stands_for_a_field_that_is_left_out(cluster, endpoint):
    known = {field for rules in source_rules().values() for field in rules}
    for row in (row for row in ROWS if row.endpoint == endpoint and row.field not in BASES[endpoint]):
        status, body = ask(cluster, endpoint, **{row.field: None})
        if row.use == "400" and not is_ruled(row):
            assert status == 400 and names_the_field(endpoint, body, row.param), (row, body)
        else:
            assert row.field in known and status == 200, (row, body)


def request(cluster, method, path):
    """The status."""
    asked = urllib.request.Request(f"http://{cluster.http}{path}", b"{}" if method == "POST" else None,
                                   {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def http_endpoints():
    """(method, path) -> what the page says of Baton."""
    found = {}
    for line in TABLES["Endpoints"]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 8, line
        if match := re.fullmatch(r"`(GET|POST) (/\S*)`", cells[0]):
            found[match[1], match[2]] = cells[1]
        else:
            assert cells[0].startswith("gRPC `"), line
    return found


def test_every_endpoint_is_there_or_is_not(cluster):
    for (method, path), said in http_endpoints().items():
        status = request(cluster, method, path)
        if said.startswith("404"):
            assert status == 404, (path, status)
        else:
            assert said.startswith("yes") and status in (200, 400), (path, status)


# ---- Nothing is missing from the page.


@functools.cache
def source_rules():
    """Name of a table of rules -> field -> (use, the JSON that asks for nothing)."""
    found = {}
    for source in (SOURCE_DIR / "gateway").glob("*.cc"):
        for name, body in re.findall(r"constexpr FieldRule (k\w+)\[\] = \{(.*?)\};", source.read_text(), re.DOTALL):
            fields = {}
            for field, use, nothing in re.findall(
                    r'\{"(\w+)"(?:,\s*FieldUse::(\w+))?(?:,\s*(R"\(.*?\)"|"(?:[^"\\]|\\.)*"))?\}', body):
                raw = nothing.removeprefix('R"(').removesuffix(')"') if nothing.startswith("R") else nothing.strip('"')
                fields[field] = (use or "kRead", raw or "null")
            assert len(fields) == len(re.findall(r'(?<!\()\{"', body)), f"{source.name}: a rule of {name} was not understood"
            found[name] = {**found.get(name, {}), **fields}
    return found


def is_ruled(row):
    return any(row.field in source_rules()[name] for name, endpoints in RULES.items() if row.endpoint in endpoints)


def test_every_rule_of_the_gateway_has_a_row_that_says_the_same():
    rows = {(row.endpoint, row.field): row for row in ROWS}
    assert len(rows) == len(ROWS), "a field has two rows"
    rules = source_rules()
    unknown = rules.keys() - RULES.keys() - NOT_OF_A_REQUEST
    assert not unknown, f"name the endpoints of these tables of rules in RULES: {unknown}"
    assert RULES.keys() <= rules.keys()
    for name, endpoints in RULES.items():
        for field, (use, nothing) in rules[name].items():
            for endpoint in endpoints:
                row = rows.get((endpoint, field))
                assert row is not None, f"docs/api_compatibility.md has no row for {field} of {endpoint}"
                assert row.use == {"kRead": "read", "kIgnored": "ignored", "kUnbuilt": "400"}[use], (row, use)
                if use == "kUnbuilt":
                    assert json.loads(row.nothing or "null") == json.loads(nothing), (row, nothing)


def test_every_route_of_the_gateway_has_a_row():
    paths = {path for _, path in http_endpoints()}
    base = re.search(r'kMessagesPath\[\] = "([^"]+)"', (SOURCE_DIR / "gateway/anthropic_request.h").read_text())[1]
    routes = {base}
    for source in (SOURCE_DIR / "gateway").glob("*_service.cc"):
        for path in re.findall(r'"(/[\w/]+)"', source.read_text()):
            routes.add(base + path if path == "/count_tokens" else path)
    assert len(routes) > 8
    assert routes <= paths, routes - paths


# ---- What is read has an effect, where that is simple to see.

GREEDY = {"temperature": 0}
SAMPLED = {"temperature": 1.5, "seed": 5, "max_tokens": 16, "ignore_eos": True}


def choice(cluster, endpoint, **fields):
    status, body = ask(cluster, endpoint, **{"return_token_ids": True, **fields})
    assert status == 200, body
    return body["choices"][0]


def text_of(endpoint, found):
    return found["text"] if endpoint == COMPLETIONS else found["message"]["content"]


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT])
def test_fields_of_sampling_have_an_effect(cluster, endpoint):
    ids = lambda **fields: choice(cluster, endpoint, **fields)["token_ids"]
    greedy = ids(**GREEDY, max_tokens=16, ignore_eos=True)
    sampled = ids(**SAMPLED)
    assert len(greedy) == len(sampled) == 16 and greedy != sampled
    assert ids(**SAMPLED) == sampled
    assert ids(**{**SAMPLED, "seed": 6}) != sampled
    for field, value in (("top_k", 1), ("top_p", 0.000001), ("min_p", 1)):
        assert ids(**SAMPLED, **{field: value}) == greedy, field
    for field, value in (("repetition_penalty", 1.8), ("frequency_penalty", 2), ("presence_penalty", 2)):
        assert ids(**GREEDY, max_tokens=64, ignore_eos=True, **{field: value}) != ids(
            **GREEDY, max_tokens=64, ignore_eos=True), field
    assert greedy[0] not in ids(**GREEDY, max_tokens=16, logit_bias={str(greedy[0]): -100})
    assert ids(**GREEDY, max_tokens=3, ignore_eos=True) == greedy[:3]
    stopped = choice(cluster, endpoint, **GREEDY, max_tokens=16, ignore_eos=True, stop_token_ids=[greedy[4]])
    assert stopped["finish_reason"] == "stop" and len(stopped["token_ids"]) <= 5
    later = ids(**GREEDY, max_tokens=16, ignore_eos=True, stop_token_ids=[greedy[4]], min_tokens=12)
    assert len(later) >= 12


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT])
def test_fields_of_the_answer_have_an_effect(cluster, endpoint):
    free = choice(cluster, endpoint, **GREEDY, max_tokens=16, ignore_eos=True)
    text = text_of(endpoint, free)
    stop = text[len(text) // 2:][:3]
    assert text_of(endpoint, choice(cluster, endpoint, **GREEDY, max_tokens=16, stop=stop)) == text[:text.index(stop)]
    status, body = ask(cluster, endpoint)
    assert status == 200 and "token_ids" not in body["choices"][0] and not body["choices"][0].get("logprobs")
    assert "phases" not in body and body["model"] == MODEL
    assert ask(cluster, endpoint, return_phases=True)[1]["phases"]["prefill_ms"] >= 0
    assert choice(cluster, endpoint, **BESIDE.get((endpoint, "top_logprobs"), {}),
                  **({"logprobs": 2} if endpoint == COMPLETIONS else {"top_logprobs": 2}))["logprobs"]
    for field, value in (("response_format", {"type": "json_object"}), ("structured_outputs", {"json_object": True})):
        assert text_of(endpoint, choice(cluster, endpoint, max_tokens=12, **{field: value})).startswith("{"), field
    red = choice(cluster, endpoint, max_tokens=12, structured_outputs={"choice": ["red", "blue"]})
    assert text_of(endpoint, red) in ("red", "blue")
    assert ask(cluster, endpoint, model="another")[0] == 404
    assert ask(cluster, endpoint, request_id="mine-7")[1]["id"].endswith("-mine-7")
    assert len(ask(cluster, endpoint, n=3)[1]["choices"]) == 3
    if endpoint == CHAT:
        assert len(choice(cluster, endpoint, max_completion_tokens=3, max_tokens=9, ignore_eos=True)["token_ids"]) == 3


def stream(cluster, endpoint, **fields):
    """The data of the events."""
    asked = urllib.request.Request(f"http://{cluster.http}{endpoint.partition(' ')[2]}",
                                   json.dumps({**BASES[endpoint], "stream": True, **fields}).encode(),
                                   {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in answer.read().decode().splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT])
def test_streams_come_in_events_with_what_their_options_ask_for(cluster, endpoint):
    plain = stream(cluster, endpoint)
    assert plain[-1] == "[DONE]" and not any(json.loads(each).get("usage") for each in plain[:-1])
    with_usage = stream(cluster, endpoint, stream_options={"include_usage": True})
    assert json.loads(with_usage[-2])["usage"]["completion_tokens"] == 1
    status, body = ask(cluster, endpoint, stream_options={"include_usage": True})
    assert status == 400 and names_the_field(endpoint, body, "stream_options")


def test_fields_of_responses_have_an_effect(cluster):
    def answer(**fields):
        status, body = ask(cluster, RESPONSES, **fields)
        assert status == 200, body
        return body

    text = lambda body: body["output"][0]["content"][0]["text"]
    greedy = text(answer(**GREEDY, max_output_tokens=16))
    sampled = {"temperature": 1.5, "seed": 5, "max_output_tokens": 16}
    assert text(answer(**sampled)) != greedy and text(answer(**sampled)) == text(answer(**sampled))
    for field, value in (("top_k", 1), ("top_p", 0.000001), ("min_p", 1)):
        assert text(answer(**sampled, **{field: value})) == greedy, field
    assert text(answer(**GREEDY, max_output_tokens=16, instructions="Answer in German, as a pirate.")) != greedy
    cut = answer(max_output_tokens=2)
    assert cut["usage"]["output_tokens"] == 2 and cut["incomplete_details"]["reason"] == "max_output_tokens"
    assert text(answer(max_output_tokens=12, text={"format": {"type": "json_object"}})).startswith("{")
    assert answer(metadata={"a": "b"})["metadata"] == {"a": "b"}
    included = answer(include=[test_responses.LOGPROBS], top_logprobs=2)["output"][0]["content"][0]["logprobs"]
    assert len(included) == 1 and len(included[0]["top_logprobs"]) == 2
    assert json.loads(stream(cluster, RESPONSES)[-1])["type"] in ("response.completed", "response.incomplete")


def test_fields_of_messages_have_an_effect(cluster):
    def answer(**fields):
        status, body = ask(cluster, MESSAGES, **fields)
        assert status == 200, body
        return body

    text = lambda body: body["content"][0]["text"]
    greedy = text(answer(**GREEDY, max_tokens=16))
    sampled = {"temperature": 1.5, "seed": 5, "max_tokens": 16}
    assert text(answer(**sampled)) != greedy and text(answer(**sampled)) == text(answer(**sampled))
    for field, value in (("top_k", 1), ("top_p", 0.000001)):
        assert text(answer(**sampled, **{field: value})) == greedy, field
    assert text(answer(**GREEDY, max_tokens=16, system="Answer in German, as a pirate.")) != greedy
    assert answer(max_tokens=2)["usage"]["output_tokens"] == 2
    stop = greedy[len(greedy) // 2:][:3]
    stopped = answer(**GREEDY, max_tokens=16, stop_sequences=[stop])
    assert text(stopped) == greedy[:greedy.index(stop)] and stopped["stop_sequence"] == stop
    for field in ("output_config", "output_format"):
        value = test_anthropic.VALUES[field]
        assert text(answer(max_tokens=12, **{field: value})) in ("true", "false"), field
    assert json.loads(stream(cluster, MESSAGES)[-1])["type"] == "message_stop"
    shorter = ask(cluster, COUNT)[1]["input_tokens"]
    assert ask(cluster, COUNT, system="A system prompt that is much longer than the one of the template, which has a few "
                                      "words only, and which therefore counts more tokens.")[1]["input_tokens"] > shorter
