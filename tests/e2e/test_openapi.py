"""GET /openapi.json says what is served: the gateway's own rules and the answers of a real cluster agree with it, and
schemathesis, which makes requests of it, finds no failure of the server.

BATON_FULL_TESTS=1 makes 1,000 requests an operation, of a drawn seed, which is printed and which BATON_OPENAPI_SEED repeats;
otherwise 5 of one seed.
"""

import json
import os
import random
import re
import subprocess
import sys
import urllib.request

import jsonschema
import pytest

import test_api_table as table
from cluster import SOURCE_DIR, Cluster
from request_members import Asker, least_object, names_in_the_sources, places, variants

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = 20261126
EXAMPLES = 1000 if FULL else 5
FILE = SOURCE_DIR / "openapi/openapi.json"
# A generated request asks for no more, because a long answer shows nothing else. One that leaves the bound out to see what
# becomes of it has all of the context.
MOST_TOKENS = 3
WHOLE_CONTEXT_S = 300
LENGTHS = {"CompletionRequest": "max_tokens", "ChatRequest": "max_completion_tokens", "ResponsesRequest": "max_output_tokens",
           "MessagesRequest": "max_tokens"}
NOT_BUILT = {"description": "Not built"}
ANYTHING = [5, "x", [5], {"x": 5}, True]
ANY_ID, VOCABULARY = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, 49152
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def document(cluster):
    with urllib.request.urlopen(f"http://{cluster.http}/openapi.json", timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


def operation(document, endpoint):
    method, _, path = endpoint.partition(" ")
    return document["paths"][path][method.lower()]


def request_schema(document, endpoint):
    return operation(document, endpoint)["requestBody"]["content"]["application/json"]["schema"]


def validator(document, schema):
    return jsonschema.Draft202012Validator({**schema, "components": document["components"]})


def resolved(document, schema):
    return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def test_the_file_is_what_is_served(document):
    assert json.loads(FILE.read_text()) == document
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_paths_are_those_of_the_page(document):
    served = {f"{method} {path}" for (method, path), said in table.http_endpoints().items() if said.startswith("yes")}
    assert {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item} == served


@pytest.mark.parametrize("endpoint", table.BASES)
def test_the_fields_are_those_of_the_page(document, endpoint):
    """A row that is read or ignored makes a request that the document allows, a refused one a request that it does not."""
    check = validator(document, request_schema(document, endpoint))
    properties = resolved(document, request_schema(document, endpoint))["properties"]
    ruled = set()
    for row in (row for row in table.ROWS if row.endpoint == endpoint):
        asked = {**table.BASES[endpoint], row.field: table.VALUES[endpoint].get(row.field, "x")}
        if (endpoint, row.field) in table.STREAMED:
            asked[row.field] = {"include_usage": True}
        assert check.is_valid(asked) == (row.use != "400"), (row, [error.message for error in check.iter_errors(asked)])
        if row.use == "400" and row.nothing is not None:
            assert check.is_valid({**table.BASES[endpoint], row.field: json.loads(row.nothing)}), row
        if row.use != "400" or table.is_ruled(row):
            ruled.add(row.field)
    assert properties.keys() == ruled


@pytest.mark.parametrize("endpoint", table.BASES)
def test_every_member_within_a_request_is_one_that_the_server_knows(cluster, document, endpoint):
    asker = Asker(cluster)
    found = [place for place in places(document, endpoint, request_schema(document, endpoint)) if place.path]
    for place in found:
        unknown = [member for member in place.schema["properties"] if not asker.takes_member(document, place, member)]
        assert not unknown, f"{place}: the server does not take {unknown}"
    assert bool(found) == (endpoint not in (table.EMBEDDINGS, table.TOKENIZE, table.DETOKENIZE))


# The server is asked for every name that its sources have in quotes, in every object of a request.
@pytest.mark.parametrize("endpoint", table.BASES)
def test_every_member_that_the_server_knows_is_in_the_document(cluster, document, endpoint):
    asker, names = Asker(cluster), names_in_the_sources()
    assert {"tool_calls", "cache_control", "continuous_usage_stats", "annotations"} <= names
    for place in places(document, endpoint, request_schema(document, endpoint)):
        known = [name for name in sorted(names - place.schema["properties"].keys())
                 if asker.knows_member(document, place, name)]
        assert not known, f"{place}: the document has no {known}"


def listed(path):
    """Whatever the place in a list is."""
    return re.sub(r"\[\d+\]", "[]", path)


def is_built(document, schema):
    return not all(each.get("description", "").startswith(NOT_BUILT["description"]) for each in variants(document, schema))


def refuses_some(asker, document, place, member):
    """Whether a request that would run is refused for one of the values."""
    base, served = least_object(document, place.schema), {"model": table.MODEL, "max_tokens": 1}
    return any(asker.ask(place.endpoint, {**place.put({**base, member: value}), **served})[0] == 400 for value in ANYTHING)


# What is within the fields of a chat.
@pytest.mark.parametrize("row", table.WITHIN_CHAT, ids=lambda row: row.field)
def test_a_row_of_the_page_is_what_the_server_does_with_the_member(cluster, document, row):
    asker = Asker(cluster)
    holder, _, member = row.field.rpartition(".")
    there = [place for place in places(document, table.CHAT, request_schema(document, table.CHAT))
             if listed(place.path) == holder]
    if row.use == "400":
        for place in there:
            status, body = asker.ask(table.CHAT, place.put({**least_object(document, place.schema), member: "x"}))
            assert status == 400 and listed(body["error"]["param"]) == row.param, (str(place), body)
        assert there and (row.nothing is None or any(
            asker.takes_value(document, place, member, json.loads(row.nothing)) for place in there))
        return
    having = [place for place in there if is_built(document, place.schema["properties"].get(member, NOT_BUILT))]
    assert any(asker.takes_member(document, place, member) for place in having)
    takes_anything = all(any(asker.takes_value(document, place, member, value) for place in having) for value in ANYTHING)
    if row.use == "ignored":
        assert takes_anything
    else:
        assert not takes_anything or any(refuses_some(asker, document, place, member) for place in having)


def test_every_member_within_a_chat_has_a_row(document):
    rows = {row.field for row in table.WITHIN_CHAT}
    members = {f"{listed(place.path)}.{member}" for place in places(document, table.CHAT, request_schema(document, table.CHAT))
               if place.path for member in place.schema["properties"]}
    assert len(rows) == len(table.WITHIN_CHAT) and members <= rows, members - rows


@pytest.mark.parametrize("endpoint", [table.CHAT, table.RESPONSES, table.MESSAGES])
def test_its_examples_are_answered(cluster, document, endpoint):
    content = operation(document, endpoint)["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        validator(document, content["schema"]).validate(example["value"])
        assert Asker(cluster).ask(endpoint, example["value"])[0] == 200, example


@pytest.mark.parametrize("endpoint", table.BASES)
def test_answers_and_errors_have_the_form_that_it_gives_them(cluster, document, endpoint):
    responses = operation(document, endpoint)["responses"]
    named = document["components"]["responses"]
    schema_of = lambda response: named[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
    more = {"return_token_ids": True, "return_phases": True} if endpoint in (table.COMPLETIONS, table.CHAT) else {}
    for fields in (more, {"never": 1}, {"model": "another"}):
        status, body = table.ask(cluster, endpoint, **fields)
        assert str(status) in responses, (fields, status)
        schema = schema_of(responses[str(status)])["content"]["application/json"]["schema"]
        validator(document, schema).validate(body)


def with_ids_of_the_model(schema):
    """Token ids below the size of its vocabulary, which the document does not know; else most requests would be refused."""
    if isinstance(schema, list):
        return [with_ids_of_the_model(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == ANY_ID:
        return {**schema, "maximum": VOCABULARY - 1}
    return {name: with_ids_of_the_model(each) for name, each in schema.items()}


def test_requests_that_schemathesis_makes_of_it_find_no_failure(cluster, document, tmp_path):
    document = with_ids_of_the_model(document)
    for name, field in LENGTHS.items():
        schema = document["components"]["schemas"][name]
        schema["properties"][field] = {"type": "integer", "minimum": 1, "maximum": MOST_TOKENS}
        schema["required"] = sorted({*schema["required"], field})
    described = tmp_path / "openapi.json"
    described.write_text(json.dumps(document))
    seed = os.environ.get("BATON_OPENAPI_SEED") or str(random.randrange(1 << 32) if FULL else SEED)
    print(f"BATON_OPENAPI_SEED={seed}")
    result = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", str(described), "--url", f"http://{cluster.http}", "--seed", seed,
         "--max-examples", str(EXAMPLES), "--checks", CHECKS, "--request-timeout", str(WHOLE_CONTEXT_S), "--workers", "4", "--no-color",
         "--header", "Authorization: Bearer none"],
        capture_output=True, text=True, timeout=3000, check=False, cwd=tmp_path)
    print(result.stdout[-6000:])
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert cluster.pid_of("router")
