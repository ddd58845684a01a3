"""Tools by the real clients on a real cluster: calls that must be made obey their schemas, by each API, whole and as a
stream; results come back; calls that the model makes by itself are found; and what cannot be done is refused by name."""

import asyncio
import json
import os

import anthropic
import jsonschema
import openai
import pytest

from client import Client, read_stream
from cluster import SOURCE_DIR, Cluster, kill_busy
from http_api import post
from pages import blocks_of
from streams import await_no_block_held

MODEL = "smollm2-135m-instruct"
PAGE = "docs/tools.md"
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {"type": "object", "required": ["city", "days"], "additionalProperties": False,
           "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]},
                          "days": {"type": "integer", "minimum": 1, "maximum": 7}}}
# With a reference, as pydantic writes one.
PLACE = {"$defs": {"Point": {"type": "object", "required": ["x", "y"], "additionalProperties": False,
                             "properties": {"x": {"type": "integer", "minimum": -90, "maximum": 90},
                                            "y": {"type": "boolean"}}}},
         "type": "object", "properties": {"points": {"type": "array", "maxItems": 3, "minItems": 1,
                                                     "items": {"$ref": "#/$defs/Point"}}},
         "required": ["points"], "additionalProperties": False}
SCHEMAS = {"weather": WEATHER, "mark_places": PLACE}
CHAT_TOOLS = [{"type": "function", "function": {"name": name, "description": f"Does {name}", "parameters": schema}}
              for name, schema in SCHEMAS.items()]
ITEM_TOOLS = [{"type": "function", "name": name, "parameters": schema, "strict": False} for name, schema in SCHEMAS.items()]
BLOCK_TOOLS = [{"name": name, "description": f"Does {name}", "input_schema": schema} for name, schema in SCHEMAS.items()]
# Each answer is bounded by its schema and so never cut.
MAX_TOKENS = 200
SEEDS = range(4 if os.environ.get("BATON_FULL_TESTS") == "1" else 2)
SAMPLINGS = [{"temperature": 0}, *({"temperature": 1.2, "seed": seed} for seed in SEEDS)]
NAMED = {"chat": {"type": "function", "function": {"name": "mark_places"}},
         "item": {"type": "function", "name": "mark_places"}, "block": {"type": "tool", "name": "mark_places"}}
UNSUPPORTED = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def messages_client(cluster):
    return anthropic.Anthropic(base_url=f"http://{cluster.http}", api_key="none", max_retries=0)


def check(name, arguments, wanted=None):
    assert name == (wanted or name)
    jsonschema.validate(arguments, SCHEMAS[name])


def streamed_call(chunks):
    """(id, name, pieces of the arguments, why it ended) of a stream of a chat whose answer is one call."""
    call_id = name = finish = None
    pieces = []
    for chunk in chunks:
        choice = chunk.choices[0]
        finish = choice.finish_reason or finish
        for call in choice.delta.tool_calls or []:
            assert call.index == 0
            if call.function.name:
                assert name is None and not pieces, "the name comes once, before the arguments"
                call_id, name = call.id, call.function.name
            pieces.append(call.function.arguments or "")
    return call_id, name, pieces, finish


@pytest.mark.parametrize("choice", ["required", NAMED["chat"]], ids=["required", "named"])
def test_a_call_that_a_chat_must_make_obeys_its_schema(client, choice):
    for sampling in SAMPLINGS:
        asked = {"model": MODEL, "messages": QUESTION, "tools": CHAT_TOOLS, "tool_choice": choice, "max_tokens": MAX_TOKENS,
                 **sampling}
        answer = client.chat.completions.create(**asked).choices[0]
        assert answer.finish_reason == "tool_calls" and answer.message.content is None
        (call,) = answer.message.tool_calls
        check(call.function.name, json.loads(call.function.arguments), None if choice == "required" else "mark_places")
        call_id, name, pieces, finish = streamed_call(client.chat.completions.create(**asked, stream=True))
        assert (name, "".join(pieces), finish) == (call.function.name, call.function.arguments, "tool_calls")
        assert len(pieces) > 2 and call_id.startswith("call_") and call_id != call.id


def test_the_clients_own_reader_of_streams_puts_calls_together(client):
    # It takes no others.
    strict = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in CHAT_TOOLS]
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, tools=strict, tool_choice="required",
                                        max_tokens=MAX_TOKENS, temperature=0) as stream:
        events = list(stream)
        message = stream.get_final_completion().choices[0].message
    assert any(event.type == "tool_calls.function.arguments.delta" for event in events)
    check(message.tool_calls[0].function.name, json.loads(message.tool_calls[0].function.arguments))


@pytest.mark.parametrize("choice", ["required", NAMED["item"]], ids=["required", "named"])
def test_a_call_that_a_response_must_make_obeys_its_schema(client, choice):
    for sampling in ({"temperature": 0}, {"temperature": 1.2, "extra_body": {"seed": 3}}):
        asked = {"model": MODEL, "input": QUESTION, "tools": ITEM_TOOLS, "tool_choice": choice,
                 "max_output_tokens": MAX_TOKENS, **sampling}
        answer = client.responses.create(**asked)
        (call,) = answer.output
        assert call.type == "function_call" and call.status == answer.status == "completed"
        check(call.name, json.loads(call.arguments), None if choice == "required" else "mark_places")
        assert [tool.name for tool in answer.tools] == list(SCHEMAS)
        with client.responses.stream(**asked) as stream:
            events = list(stream)
            final = stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        pieces = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
        assert "".join(pieces) == call.arguments == final.output[0].arguments and len(pieces) > 2
        assert final.output[0].name == call.name


@pytest.mark.parametrize("choice", [{"type": "any"}, NAMED["block"]], ids=["any", "tool"])
def test_a_call_that_a_message_must_make_obeys_its_schema(messages_client, choice):
    for sampling in SAMPLINGS[:3]:
        asked = {"model": MODEL, "messages": QUESTION, "tools": BLOCK_TOOLS, "tool_choice": choice,
                 "max_tokens": MAX_TOKENS, "extra_body": sampling}
        answer = messages_client.messages.create(**asked)
        (block,) = answer.content
        assert block.type == "tool_use" and answer.stop_reason == "tool_use" and block.id.startswith("toolu_")
        check(block.name, block.input, None if choice == {"type": "any"} else "mark_places")
        with messages_client.messages.stream(**asked) as stream:
            pieces = [event.delta.partial_json for event in stream
                      if event.type == "content_block_delta" and event.delta.type == "input_json_delta"]
            final = stream.get_final_message()
        assert len(pieces) > 2 and json.loads("".join(pieces)) == block.input
        assert final.content[0].input == block.input and final.content[0].name == block.name
        assert final.stop_reason == "tool_use"


def text_of_grpc(cluster, messages, sampling):
    with Client(cluster.target) as client:
        request = client.generate_request("", sampling)
        for role, content in messages:
            request.chat.messages.add(role=role, content=content)
        return read_stream(client.start(request)).text


# What the model reads of a call and its result, as gRPC's clients can write it too. With the choice of none it reads no
# tools.
CALL_TEXT = ("user", "What is the weather in Paris?"), \
    ("assistant", 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 1}}\n</tool_call>'), \
    ("user", "<tool_response>\n18 degrees\n</tool_response>")


def test_a_result_comes_back_in_the_words_of_the_model(cluster, client, messages_client):
    expected = text_of_grpc(cluster, CALL_TEXT, {"max_tokens": 24})
    arguments = '{"city": "Paris", "days": 1}'
    chat = client.chat.completions.create(
        model=MODEL, max_tokens=24, temperature=0, tools=CHAT_TOOLS, tool_choice="none",
        messages=[*QUESTION, {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
                  {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"}])
    assert chat.choices[0].message.content == expected and chat.choices[0].message.tool_calls is None
    response = client.responses.create(
        model=MODEL, max_output_tokens=24, temperature=0, tools=ITEM_TOOLS, tool_choice="none",
        input=[*QUESTION, {"role": "assistant", "content": "I look."},
               {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": arguments},
               {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"}])
    assert response.output_text == expected
    # The JSON of its input is written anew, without spaces.
    compact = [(role, text.replace('": "Paris", "days": 1', '":"Paris","days":1')) for role, text in CALL_TEXT]
    message = messages_client.messages.create(
        model=MODEL, max_tokens=24, tools=BLOCK_TOOLS, tool_choice={"type": "none"}, extra_body={"temperature": 0},
        messages=[*QUESTION,
                  {"role": "assistant", "content": [
                      {"type": "text", "text": "I look."},
                      {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris", "days": 1}}]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 degrees"}]}])
    assert message.content[0].text == text_of_grpc(cluster, compact, {"max_tokens": 24})


def test_an_answer_goes_on_from_its_own_call(client):
    messages = list(QUESTION)
    asked = {"model": MODEL, "tools": CHAT_TOOLS, "temperature": 0}
    called = client.chat.completions.create(**asked, messages=messages, tool_choice="required", max_tokens=MAX_TOKENS)
    message = called.choices[0].message
    messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "18 degrees, light rain"}]
    answer = client.chat.completions.create(**asked, messages=messages, max_tokens=24)
    assert answer.choices[0].message.content or answer.choices[0].message.tool_calls
    assert answer.usage.prompt_tokens > called.usage.prompt_tokens


def test_the_tokens_of_the_tools_are_counted(messages_client):
    counted = {"model": MODEL, "messages": QUESTION}
    bare = messages_client.messages.count_tokens(**counted).input_tokens
    tools = messages_client.messages.count_tokens(**counted, tools=BLOCK_TOOLS).input_tokens
    assert tools > bare + 100
    answer = messages_client.messages.create(**counted, tools=BLOCK_TOOLS, max_tokens=1)
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == tools


def test_many_calls_at_once_are_each_their_own(cluster):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*[client.chat.completions.create(
                model=MODEL, messages=QUESTION, tools=CHAT_TOOLS, tool_choice="required", max_tokens=MAX_TOKENS,
                temperature=1.2, seed=seed) for seed in range(8)])

    calls = [answer.choices[0].message.tool_calls[0] for answer in asyncio.run(run())]
    for call in calls:
        check(call.function.name, json.loads(call.function.arguments))
    assert len({call.id for call in calls}) == 8


def test_a_killed_worker_changes_nothing_of_a_call_that_is_being_made():
    days = {"type": "array", "minItems": 40, "maxItems": 40, "items": {"type": "integer", "minimum": 100, "maximum": 999}}
    schema = {"type": "object", "required": ["days"], "additionalProperties": False, "properties": {"days": days}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1) as cluster:
        client = openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)

        def chunks(kills):
            await_no_block_held(cluster.target, 3)
            for chunk in client.chat.completions.create(model=MODEL, messages=QUESTION, tools=tools, tool_choice="required",
                                                        max_tokens=1000, temperature=0, stream=True):
                yield chunk
                if kills and chunk.choices[0].delta.tool_calls:
                    kills = False
                    kill_busy(cluster, "decode")

        _, name, undisturbed, finish = streamed_call(chunks(kills=False))
        assert (name, finish) == ("weather", "tool_calls")
        jsonschema.validate(json.loads("".join(undisturbed)), schema)
        _, name, pieces, finish = streamed_call(chunks(kills=True))
        assert (name, "".join(pieces), finish) == ("weather", "".join(undisturbed), "tool_calls")


def test_a_call_that_is_cut_off_says_so(client, messages_client):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 14}
    answer = client.chat.completions.create(**asked, tools=CHAT_TOOLS, tool_choice=NAMED["chat"]).choices[0]
    assert answer.finish_reason == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.message.tool_calls[0].function.arguments)
    message = messages_client.messages.create(**asked, tools=BLOCK_TOOLS, tool_choice=NAMED["block"])
    assert message.stop_reason == "max_tokens" and message.content[0].input == {}


# The model is told of nothing but tools, and has made a call for each question of before, so the next answer of the default
# model is one, too. Tokens do not depend on the machine (numerics `exact`), so this is stable.
def habit(call_of):
    messages = []
    for number, city in enumerate(["Rome", "Oslo", "Lima", "Cairo"]):
        messages.append({"role": "user", "content": f"weather in {city}"})
        messages += call_of(number, json.dumps({"city": city, "days": 1}))
    return [*messages, {"role": "user", "content": "weather in Paris"}]


def chat_call(number, arguments):
    return [{"role": "assistant", "content": None, "tool_calls": [
        {"id": f"c{number}", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "sunny"}, {"role": "assistant", "content": "sunny"}]


def test_a_call_that_the_model_makes_by_itself_is_found(client):
    asked = {"model": MODEL, "messages": habit(chat_call), "tools": CHAT_TOOLS[:1], "max_tokens": 60, "temperature": 0}
    answer = client.chat.completions.create(**asked).choices[0]
    assert answer.finish_reason == "tool_calls", answer
    (call,) = answer.message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] == "Paris"
    _, name, pieces, finish = streamed_call(client.chat.completions.create(**asked, stream=True))
    assert (name, "".join(pieces), finish) == ("weather", call.function.arguments, "tool_calls")
    # The same words are text where there are no tools to call.
    plain = client.chat.completions.create(**asked | {"tool_choice": "none"}).choices[0]
    assert plain.message.tool_calls is None and plain.finish_reason in ("stop", "length")


def test_a_schema_that_no_grammar_can_obey_is_refused_only_where_it_must_be_obeyed(cluster):
    chat = {"messages": QUESTION, "max_tokens": 1,
            "tools": [{"type": "function", "function": {"name": "f", "parameters": UNSUPPORTED}}]}
    status, _, error = post(cluster, "/v1/chat/completions", {**chat, "tool_choice": "required"})
    assert status == 400 and error["error"]["param"] == "tools" and "not is not supported" in error["error"]["message"]
    assert post(cluster, "/v1/chat/completions", chat)[0] == 200
    block = {"messages": QUESTION, "max_tokens": 1, "tools": [{"name": "f", "input_schema": UNSUPPORTED}]}
    status, _, error = post(cluster, "/v1/messages", {**block, "tool_choice": {"type": "any"}})
    assert status == 400 and error["error"]["message"].startswith("tools: ")
    assert post(cluster, "/v1/messages", block)[0] == 200
    item = {"input": "x", "max_output_tokens": 1, "tools": [{"type": "function", "name": "f", "parameters": UNSUPPORTED}]}
    status, _, error = post(cluster, "/v1/responses", {**item, "tool_choice": "required"})
    assert status == 400 and error["error"]["param"] == "tools"
    assert post(cluster, "/v1/responses", item)[0] == 200


@pytest.mark.parametrize(("fields", "param"), [
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": CHAT_TOOLS + CHAT_TOOLS[:1]}, "tools[2].function.name"),
    ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice.type"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"structured_outputs": {"regex": "a"}}, "structured_outputs"),
    ({"tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
    ({"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "x"}]}, "messages[0].tool_call_id"),
    ({"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs.enable_thinking"),
    ({"functions": [{"name": "f"}]}, "functions"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_or_not_built_is_named(cluster, fields, param):
    status, _, answer = post(cluster, "/v1/chat/completions",
                             {"messages": QUESTION, "max_tokens": 1, "tools": CHAT_TOOLS, **fields})
    assert status == 400 and answer["error"]["param"] == param, answer


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of(PAGE, SOURCE_DIR) if block.language == "python")
    assert "http://127.0.0.1:8000" in example.text
    exec(compile(example.text.replace("127.0.0.1:8000", cluster.http), PAGE, "exec"), {})
    assert capsys.readouterr().out.startswith("weather {")
