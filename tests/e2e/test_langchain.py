"""LangChain's client of OpenAI's API against a real cluster: answers, streams, batches and structured output."""

import asyncio

import pydantic
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

from client import Client, read_stream
from cluster import Cluster

MODEL = "smollm2-135m-instruct"
MAX_TOKENS = 24
QUESTION = "What is the capital of France? Answer in one sentence."
CONVERSATION = [SystemMessage("You answer in one sentence."), HumanMessage("Name a fruit."), AIMessage("Banana."),
                HumanMessage("And another one?")]
ROLES = {"system": "system", "human": "user", "ai": "assistant"}


class Person(pydantic.BaseModel):
    """Somebody."""
    # Otherwise an answer might have any number of other members.
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)
    likes_rain: bool


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def options(cluster):
    return {"base_url": f"http://{cluster.http}/v1", "api_key": "none", "model": MODEL, "temperature": 0, "max_retries": 0}


@pytest.fixture(scope="module")
def model(options):
    return ChatOpenAI(**options, max_tokens=MAX_TOKENS)


def of_grpc(cluster, messages):
    with Client(cluster.target) as client:
        request = client.generate_request("", {"max_tokens": MAX_TOKENS})
        for message in messages:
            request.chat.messages.add(role=ROLES[message.type], content=message.content)
        return read_stream(client.start(request))


@pytest.mark.parametrize("messages", [[HumanMessage(QUESTION)], CONVERSATION], ids=["question", "conversation"])
def test_a_chat_is_answered_at_once_and_as_a_stream_as_by_grpc(cluster, model, messages):
    expected = of_grpc(cluster, messages)
    answer = model.invoke(messages)
    assert answer.content == expected.text
    assert answer.usage_metadata["output_tokens"] == len(expected.token_ids)
    assert answer.usage_metadata["input_tokens"] == expected.finished.usage.prompt_tokens
    assert answer.response_metadata["finish_reason"] in ("stop", "length")
    chunks = list(model.stream(messages, stream_usage=True))
    assert "".join(chunk.content for chunk in chunks) == expected.text
    assert len([chunk for chunk in chunks if chunk.content]) > 1
    whole = sum(chunks[1:], chunks[0])
    assert whole.usage_metadata["output_tokens"] == len(expected.token_ids)


def test_a_text_is_gone_on_with(cluster, options):
    with Client(cluster.target) as client:
        expected = client.generate("Once upon a time", {"max_tokens": MAX_TOKENS}).text
    model = OpenAI(**options, max_tokens=MAX_TOKENS)
    assert model.invoke("Once upon a time") == expected
    assert "".join(model.stream("Once upon a time")) == expected


def test_a_chain_and_a_batch_are_answered(model):
    prompt = ChatPromptTemplate.from_messages([("system", "You are brief."), ("user", "Say {word}.")])
    chain = prompt | model | StrOutputParser()
    words = [{"word": word} for word in ("yes", "no", "perhaps", "never")]
    answers = chain.batch(words)
    assert len(answers) == len(words) and all(answers)
    assert asyncio.run(chain.abatch(words)) == answers


def test_a_stop_string_ends_an_answer(model):
    free = model.invoke(QUESTION).content
    stop = free[len(free) // 2:][:3]
    assert model.invoke(QUESTION, stop=[stop]).content == free[:free.index(stop)]


@pytest.mark.parametrize("schema", [Person, Person.model_json_schema()], ids=["class", "JSON Schema"])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_structured_output_obeys_its_schema(options, schema, temperature):
    model = ChatOpenAI(**{**options, "temperature": temperature}, max_tokens=200)
    answer = model.with_structured_output(schema, method="json_schema").invoke("Describe a person whom you know.")
    person = answer if isinstance(answer, Person) else Person(**answer)
    assert 0 <= person.age <= 150 and len(person.name) <= 20


def test_structured_output_comes_as_a_stream(options):
    model = ChatOpenAI(**options, max_tokens=200).with_structured_output(Person.model_json_schema(), method="json_schema")
    *_, last = model.stream("Describe a person whom you know.")
    Person(**last)


def test_json_mode_gives_an_object(options):
    model = ChatOpenAI(**options, max_tokens=200, model_kwargs={"response_format": {"type": "json_object"}})
    assert model.invoke("Describe a person as JSON.").content.startswith("{")


def test_the_responses_api_is_spoken_too(cluster, options):
    model = ChatOpenAI(**options, max_tokens=MAX_TOKENS, use_responses_api=True)
    expected = of_grpc(cluster, [HumanMessage(QUESTION)]).text
    assert model.invoke(QUESTION).text == expected
    assert "".join(chunk.text for chunk in model.stream(QUESTION)) == expected


def test_log_probabilities_come_with_the_answer(options):
    model = ChatOpenAI(**options, max_tokens=4, logprobs=True, top_logprobs=2)
    answer = model.invoke(QUESTION)
    entries = answer.response_metadata["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == answer.content
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
