"""Structured output on real processes: answers that match by construction, the same by every API, also where a worker or
the router is killed in the midst of them, and never from a worker that does not know grammars."""

import concurrent.futures
import contextlib
import json
import os
import random
import re
import typing

import anthropic
import grpc
import jsonschema
import openai
import pydantic
import pytest

import random_schemas
from client import Client, read_stream
from cluster import Cluster, RoleProcess, await_workers, run_baton
from internal_messages import internal_messages
from joined_worker import former_worker
from killed import tokens_through_a_killed_router, tokens_through_a_killed_worker

MODEL = "smollm2-135m-instruct"
PROMPT = "The capital of France is"
QUESTION = [{"role": "user", "content": "Describe a person whom you know, as JSON."}]
# Every feature of a worker before grammars.
FORMER_FEATURES = 127
SEEDS = range(4)
FULL = os.environ.get("BATON_FULL_TESTS") == "1"

# Each is bounded, so that an answer of MAX_TOKENS is never cut.
MAX_TOKENS = 400
SHORT = {"type": "string", "maxLength": 20}
SCHEMAS = [
    {"type": "object", "properties": {"name": SHORT, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", "blue", 3, None]}, "minItems": 2, "maxItems": 5},
    {"type": "object", "properties": {"tags": {"type": "array", "items": SHORT, "maxItems": 3},
                                      "inner": {"type": "object", "properties": {"yes": {"type": "boolean"}},
                                                "required": ["yes"], "additionalProperties": False}},
     "required": ["inner"], "additionalProperties": False},
    {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}, {"const": {"a": [1, "é"]}}]},
    {"$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/leaf"}, "right": {"$ref": "#/$defs/leaf"}},
                        "required": ["left", "right"], "additionalProperties": False},
               "leaf": {"type": "integer", "minimum": -5, "maximum": 1000}}, "$ref": "#/$defs/tree"},
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB",
                 "--state-dir", tmp_path_factory.mktemp("journal") / "state") as running:
        yield running


@pytest.fixture(scope="module")
def openai_client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


def response_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def choose(client, grammar, **sampling):
    return client.generate(PROMPT, {"max_tokens": MAX_TOKENS, **sampling, "grammar": grammar})


@pytest.mark.parametrize("schema", SCHEMAS, ids=["object", "list", "nested", "any of", "reference"])
def test_every_answer_is_what_the_schema_describes(client, openai_client, schema):
    for seed in SEEDS:
        sampling = {"temperature": 1.2, "seed": seed}
        answer = openai_client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=MAX_TOKENS, **sampling,
                                                       response_format=response_format(schema))
        assert answer.choices[0].finish_reason == "stop"
        text = answer.choices[0].message.content
        jsonschema.validate(json.loads(text), schema)
        request = client.generate_request("", {"max_tokens": MAX_TOKENS, **sampling,
                                               "grammar": {"json_schema": json.dumps(schema)}})
        for message in QUESTION:
            request.chat.messages.add(**message)
        assert read_stream(client.start(request)).text == text, "gRPC and HTTP give the same"


def test_answers_to_random_schemas_are_valid_and_seldom_cut(client):
    seed = int(os.environ.get("BATON_SCHEMA_SEED", "22"))
    rng, count = random.Random(seed), 300 if FULL else 25
    schemas = [random_schemas.schema(rng) for _ in range(count)]
    print(f"seed {seed}")

    def ask(number):
        sampling = {"temperature": 1.0, "seed": number, "max_tokens": MAX_TOKENS,
                    "grammar": {"json_schema": json.dumps(schemas[number])}}
        return client.generate(f"JSON of the {number}th kind:\n", sampling)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(count)))
    cut = 0
    for number, answer in enumerate(answers):
        if len(answer.token_ids) == MAX_TOKENS:
            cut += 1
            continue
        jsonschema.validate(json.loads(answer.text), schemas[number])
    print(f"{count} schemas, {cut} answers cut")
    assert cut <= count // 10


def test_openais_client_parses_its_own_types(openai_client):
    class Person(pydantic.BaseModel):
        name: typing.Annotated[str, pydantic.Field(max_length=20)]
        colour: typing.Literal["red", "blue"]
        children: typing.Annotated[list[int], pydantic.Field(max_length=3)]

    answer = openai_client.chat.completions.parse(model=MODEL, messages=QUESTION, max_tokens=MAX_TOKENS,
                                                  response_format=Person)
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_json_mode_gives_an_object(openai_client):
    for seed in SEEDS:
        answer = openai_client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=200, temperature=0.7,
                                                       seed=seed, response_format={"type": "json_object"})
        text = answer.choices[0].message.content
        if answer.choices[0].finish_reason == "stop":
            assert isinstance(json.loads(text), dict)
        else:
            assert text.startswith("{")


def test_anthropics_client_gives_the_same(cluster, client):
    anthropic_client = anthropic.Anthropic(base_url=f"http://{cluster.http}", api_key="none", max_retries=0)
    answer = anthropic_client.messages.create(
        model=MODEL, messages=QUESTION, max_tokens=MAX_TOKENS,
        extra_body={"temperature": 0, "output_config": {"format": {"type": "json_schema", "schema": SCHEMAS[0]}}})
    jsonschema.validate(json.loads(answer.content[0].text), SCHEMAS[0])
    request = client.generate_request("", {"max_tokens": MAX_TOKENS, "grammar": {"json_schema": json.dumps(SCHEMAS[0])}})
    for message in QUESTION:
        request.chat.messages.add(**message)
    assert read_stream(client.start(request)).text == answer.content[0].text


def test_a_regular_expression_a_choice_and_a_grammar(client, openai_client):
    for seed in SEEDS:
        sampling = {"temperature": 1.5, "seed": seed}
        regex = choose(client, {"regex": r"[A-Z][a-z]{1,5}(-\d{2}){2}"}, **sampling)
        assert re.fullmatch(r"[A-Z][a-z]{1,5}(-\d{2}){2}", regex.text), regex.text
        choice = choose(client, {"choice": {"texts": ["Paris, of course", "Lyon", "münchen"]}}, **sampling)
        assert choice.text in ("Paris, of course", "Lyon", "münchen")
        ebnf = choose(client, {"ebnf": 'root ::= "<" word ("," word){0,3} ">"\nword ::= [a-c] [0-9]{1,2}'}, **sampling)
        assert re.fullmatch(r"<[a-c][0-9]{1,2}(,[a-c][0-9]{1,2}){0,3}>", ebnf.text), ebnf.text
        answer = openai_client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=MAX_TOKENS, **sampling,
                                                  extra_body={"structured_outputs": {"choice": ["Lyon", "Paris"]}})
        assert answer.choices[0].text in ("Lyon", "Paris") and answer.choices[0].finish_reason == "stop"


def test_the_smallest_outputs(client):
    # One output needs no decode worker.
    assert client.generate(PROMPT, {"max_tokens": 1, "grammar": {"choice": {"texts": ["A", "B"]}}}).text in ("A", "B")
    empty = choose(client, {"regex": ""})
    assert empty.text == "" and len(empty.token_ids) == 1


def test_log_probabilities_are_those_without_the_grammar(client):
    def first_output(**more):
        sampling = {"max_tokens": 1, "logprobs": 3, **more}
        (output,) = (response.output for response in client.start(client.generate_request(PROMPT, sampling))
                     if response.HasField("output") and response.output.tokens)
        return output.tokens[0]

    free, digits = first_output(), first_output(grammar={"regex": "[0-9]{8}"})
    assert digits.id != free.id and digits.logprob < free.logprob
    assert list(digits.top_logprobs) == list(free.top_logprobs)


def test_gemmas_vocabulary_of_pieces():
    with Cluster("gemma-3-270m", "--mixed", 1, "--prefill", 0, "--decode", 0, "--threads", 1, "--kv-memory", "256MiB") as cluster:
        with Client(cluster.target) as client:
            for seed in SEEDS:
                for schema in (SCHEMAS[0], SCHEMAS[2]):
                    answer = choose(client, {"json_schema": json.dumps(schema)}, temperature=1.0, seed=seed)
                    jsonschema.validate(json.loads(answer.text), schema)


def test_the_command_line_takes_grammars(cluster):
    def generate(*flags):
        return run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 60, "--json", *flags)

    def text(*flags):
        done = generate(*flags)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["text"]

    assert re.fullmatch(r"\d{4}", text("--regex", r"\d{4}"))
    assert text("--choice", "Paris", "--choice", "Rome, Italy") in ("Paris", "Rome, Italy")
    jsonschema.validate(json.loads(text("--json-schema", json.dumps(SCHEMAS[1]))), SCHEMAS[1])
    assert text("--ebnf", 'root ::= "a" [xyz]')[0] == "a"
    assert text("--json-object")[0] == "{"
    both = generate("--regex", "a", "--json-object")
    assert both.returncode == 2 and "--regex" in both.stderr, both.stderr
    for refused in ("(a", "(?=a)b"):
        wrong = generate("--regex", refused)
        assert wrong.returncode == 1 and "grammar" in wrong.stderr and "--target" not in wrong.stderr, wrong.stderr


@pytest.mark.parametrize(("fields", "param"), [
    ({"response_format": response_format({"type": "strange"})}, "response_format"),
    ({"response_format": response_format({"type": "integer", "multipleOf": 7})}, "response_format"),
    ({"extra_body": {"structured_outputs": {"regex": "(?<=a)b"}}}, "structured_outputs"),
    ({"extra_body": {"structured_outputs": {"regex": "(.*a.{12})"}}}, "structured_outputs"),
    ({"extra_body": {"structured_outputs": {"grammar": "root ::= root"}}}, "structured_outputs"),
    ({"extra_body": {"structured_outputs": {"regex": "a"}, "ignore_eos": True}}, "ignore_eos"),
    ({"extra_body": {"structured_outputs": {"regex": "a"}, "min_tokens": 3}}, "min_tokens"),
], ids=["no schema", "unsupported", "look-behind", "huge", "endless", "ignore_eos", "min_tokens"])
def test_what_cannot_be_obeyed_is_refused_by_name(openai_client, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=5, **fields)
    assert refused.value.param == param, refused.value.message


# Long enough to be seen running in the status.
LONG = {"max_tokens": 300, "temperature": 1.0, "seed": 3,
        "grammar": {"json_schema": json.dumps({"type": "array", "minItems": 60, "items": {
            "anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 12}, {"type": "boolean"}]}})}}


@pytest.fixture(scope="module")
def long_output(client):
    tokens = client.generate(PROMPT, LONG, tenant="oracle").token_ids
    assert len(tokens) > 150
    return tokens


def test_a_killed_worker_changes_no_token(cluster, client, long_output):
    assert tokens_through_a_killed_worker(cluster, client, PROMPT, LONG) == long_output


def test_a_killed_router_changes_no_token_of_a_kept_request(cluster, client, long_output):
    assert tokens_through_a_killed_router(cluster, client, PROMPT, LONG) == long_output


def test_a_worker_that_does_not_know_grammars_gets_none(tmp_path):
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(RoleProcess("router", "--grpc-port", 0))
        former = stack.enter_context(former_worker(router.cluster_target, internal_messages(tmp_path), MODEL,
                                                   FORMER_FEATURES))
        await_workers(router, 1)
        client = stack.enter_context(Client(router.target))
        with pytest.raises(grpc.RpcError) as refused:
            client.generate(PROMPT, {"max_tokens": 4, "grammar": {"regex": "a+"}})
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "of which 1 are of a version that does not know its grammar" in refused.value.details()
        assert not former.starts
