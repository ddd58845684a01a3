"""The objects within the requests of the OpenAPI document, each with a way to ask the server for one of its members."""

import dataclasses
import http.client
import json
import re
from typing import Callable

import test_api_table as table
from cluster import SOURCE_DIR

NOT_KNOWN = "this field is not known"
# Comes to no worker: what reads a request is through with it when the model is looked at.
NO_MODEL = {"model": "another"}
CALL = {"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "x"}}]}
BLOCKS = {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "x", "input": {}}]}
# A list of messages has these before and behind the one in question, so that a result finds its call.
AROUND = {
    (table.CHAT, "messages"): ([CALL], []),
    (table.RESPONSES, "input"): ([{"type": "function_call", "call_id": "x", "name": "x"}], []),
    (table.MESSAGES, "messages"): ([BLOCKS], [{"role": "user", "content": "x"}]),
    (table.COUNT, "messages"): ([BLOCKS], [{"role": "user", "content": "x"}]),
}
# What a request has beside a field.
BESIDE = {
    (table.CHAT, "stream_options"): {"stream": True},
    (table.COMPLETIONS, "stream_options"): {"stream": True},
    (table.CHAT, "tool_choice"): {"tools": [{"type": "function", "function": {"name": "x"}}]},
    (table.RESPONSES, "tool_choice"): {"tools": [{"type": "function", "name": "x"}]},
    (table.MESSAGES, "tool_choice"): {"tools": [{"name": "x", "input_schema": {}}]},
    (table.COUNT, "tool_choice"): {"tools": [{"name": "x", "input_schema": {}}]},
}
# What an object may need beside a member.
BASES = {"structured_outputs": [{}, {"regex": "x"}], "tool_choice": [{"type": "tool"}]}


@dataclasses.dataclass(frozen=True)
class Place:
    endpoint: str
    # As errors name it: "messages[1].tool_calls[0]"; "" is the request itself.
    path: str
    # The schema of the object there.
    schema: dict
    # The request with this object there.
    put: Callable

    def field(self, member):
        return f"{self.path}.{member}" if self.path else member

    def __str__(self):
        return f"{self.endpoint} {self.path} {list(self.schema['properties'])[:2]}"


def variants(document, schema):
    """The schemas of which a value obeys one, without references."""
    if "$ref" in schema:
        yield from variants(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    elif "properties" not in schema and ("anyOf" in schema or "oneOf" in schema):
        for each in schema.get("anyOf") or schema["oneOf"]:
            yield from variants(document, each)
    else:
        yield schema


def least(document, schema):
    """A small value that obeys the schema."""
    return next(values(document, schema))


def least_object(document, schema):
    required = schema["required"] if "required" in schema else schema.get("anyOf", [{}])[0].get("required", [])
    return {name: least(document, schema["properties"][name]) for name in required}


def values(document, schema):
    """A small value of each kind that the schema allows; what is anything is a string."""
    for schema in variants(document, schema):
        if "const" in schema or "enum" in schema:
            yield from schema.get("enum") or [schema["const"]]
            continue
        yield from schema.get("examples", [])
        kinds = schema.get("type", "string")
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "object":
                yield least_object(document, schema) if "properties" in schema else {}
            elif kind == "array":
                yield [least(document, schema["items"])] * max(1, schema.get("minItems", 0))
            elif kind == "boolean":
                yield from (True, False)
            else:
                yield {"string": "x", "null": None}.get(kind, schema.get("minimum", 1))


def within(document, place):
    """The places within a place, and itself."""
    yield place
    base = least_object(document, place.schema)
    for name, schema in place.schema["properties"].items():
        beside = BESIDE.get((place.endpoint, name), {}) if not place.path else {}
        for each in variants(document, schema):
            if "properties" in each:
                put = lambda inner, name=name, beside=beside: place.put({**base, **beside, name: inner})
                yield from within(document, Place(place.endpoint, place.field(name), each, put))
            elif "items" in each:
                before, behind = AROUND.get((place.endpoint, name), ([], [])) if not place.path else ([], [])
                for item in variants(document, each["items"]):
                    if "properties" not in item:
                        continue
                    put = lambda inner, name=name, beside=beside, before=before, behind=behind: place.put(
                        {**base, **beside, name: [*before, inner, *behind]})
                    path = f"{place.field(name)}[{len(before)}]"
                    yield from within(document, Place(place.endpoint, path, item, put))


def places(document, endpoint, schema):
    """Of all objects in the requests of an endpoint, which is one of the table's."""
    request = next(variants(document, schema))
    return list(within(document, Place(endpoint, "", request, lambda fields: {**fields, **NO_MODEL})))


def names_in_the_sources():
    """Every word that what reads the requests could know as the name of a member."""
    names = set()
    for source in (SOURCE_DIR / "gateway").rglob("*.cc"):
        text = source.read_text()
        if "field_reader.h" in text and not source.name.startswith("kserve") and not source.name.endswith("_test.cc"):
            names |= set(re.findall(r'"([a-z][a-z_]*)"', text))
    return names


class Asker:
    """Asks one server, over one connection."""

    def __init__(self, cluster):
        self._connection = http.client.HTTPConnection(cluster.http, timeout=60)

    def ask(self, endpoint, body):
        """(status, parsed body)."""
        method, _, path = endpoint.partition(" ")
        self._connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def takes(self, place, value):
        """Whether the request is read to its end, with this object in it."""
        return self.ask(place.endpoint, place.put(value))[0] == 404

    def takes_value(self, document, place, member, value):
        """Whether it takes the member with this value, beside what the object needs."""
        bases = [least_object(document, place.schema), *BASES.get(place.path, [])]
        return any(self.takes(place, {**base, member: value}) for base in bases)

    def takes_member(self, document, place, member):
        """Whether it takes a value that the schema of the member allows; null only where that is the one thing allowed."""
        allowed = list(values(document, place.schema["properties"][member]))
        given = [value for value in allowed if value is not None] or allowed
        return any(self.takes_value(document, place, member, value) for value in given)

    def knows_member(self, document, place, member):
        """Whether a member that the schema does not have is refused as anything but unknown."""
        status, body = self.ask(place.endpoint, place.put({**least_object(document, place.schema), member: "x"}))
        if status != 400:
            return True
        error = body["error"]
        field, _, what = error["message"].partition(": ")
        # What is wrong in a part of a text is said of the list.
        is_part = "text" in place.schema["properties"] and field == place.path.rpartition("[")[0]
        return not is_part and (field, what) != (place.field(member), NOT_KNOWN)
