"""Every API gives the tokens that Baton's own gRPC gives: 40 prompts of many kinds, each greedy and seeded.

BATON_FULL_TESTS=1 asks for each answer both whole and as a stream; otherwise one way of sampling is streamed, the other is not.
"""

import concurrent.futures
import dataclasses
import functools
import os

import anthropic
import grpc
import openai
import pytest
import tritonclient.grpc as triton
from smg_grpc_proto import vllm_engine_pb2 as vllm
from smg_grpc_proto import vllm_engine_pb2_grpc as vllm_grpc

from client import GENERATION, Client, read_stream
from cluster import Cluster
from prompts_of_many_kinds import ALL
from triton_requests import MODEL, Stream, infer, inputs_of

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
TIMEOUT_S = 120
STOPPED = 1  # FINISH_REASON_STOP
# Prompts that are asked for at once.
AT_ONCE = 8
# Fields of sampling that an API knows beside those that all have.
OPENAI = {"min_p": 0.05, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": -0.2}


@dataclasses.dataclass
class Answer:
    """What an API says of an answer; None for what it does not say."""
    token_ids: list | None = None
    text: str | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    stopped: bool | None = None


class Own:
    """The right answers, by Baton's own gRPC. Each is computed once."""

    def __init__(self, target):
        self.client = Client(target)

    def answer(self, prompt, sampling):
        """`prompt` is text, a list of token ids, or a tuple of messages."""
        return self._answer(tuple(prompt) if isinstance(prompt, list) else prompt, tuple(sorted(sampling.items())))

    @functools.lru_cache(maxsize=None)
    def _answer(self, prompt, sampling):
        is_chat = isinstance(prompt, tuple) and isinstance(prompt[0], tuple)
        request = self.client.generate_request("" if is_chat else list(prompt) if isinstance(prompt, tuple) else prompt,
                                               dict(sampling))
        if is_chat:
            for role, content in prompt:
                request.chat.messages.add(role=role, content=content)
        generation = read_stream(self.client.start(request))
        assert generation.error is None, generation.error
        return Answer(list(generation.token_ids), generation.text, len(generation.token_ids),
                      generation.finished.usage.prompt_tokens, generation.finished.reason == STOPPED)

    def rendered(self, messages):
        """Token ids of a chat."""
        chat = {"messages": [{"role": role, "content": content} for role, content in messages]}
        return list(self.client.call(GENERATION, "Tokenize", chat=chat).token_ids)

    def tokenized(self, text):
        return list(self.client.call(GENERATION, "Tokenize", text=text).token_ids)

    def detokenized(self, ids):
        return self.client.call(GENERATION, "Detokenize", token_ids=ids).text


class Apis:
    """One client of each API. The methods below ask: (prompt, sampling, stream) to an Answer."""

    def __init__(self, cluster):
        self.openai = openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
        self.anthropic = anthropic.Anthropic(base_url=f"http://{cluster.http}", api_key="none", max_retries=0,
                                             timeout=TIMEOUT_S)
        self.target = cluster.target
        self.channel = grpc.insecure_channel(cluster.target)
        self.vllm = vllm_grpc.VllmEngineStub(self.channel)

    def completions(self, prompt, sampling, stream):
        return self._choices(self.openai.completions.create, {"prompt": prompt}, sampling, stream,
                             lambda choice: choice.text, lambda choice: choice.text)

    def chat(self, prompt, sampling, stream):
        return self._choices(self.openai.chat.completions.create, {"messages": messages_of(prompt)}, sampling, stream,
                             lambda choice: choice.message.content, lambda choice: choice.delta.content)

    @staticmethod
    def _choices(create, prompt, sampling, stream, text_of, delta_of):
        asked = {"model": MODEL, **prompt, "extra_body": {**sampling, "return_token_ids": True}}
        if not stream:
            answer = create(**asked)
            choice = answer.choices[0]
            return Answer(list(choice.token_ids), text_of(choice), answer.usage.completion_tokens,
                          answer.usage.prompt_tokens, choice.finish_reason == "stop")
        whole = Answer([], "")
        for chunk in create(**asked, stream=True, stream_options={"include_usage": True}):
            for choice in chunk.choices:
                whole.text += delta_of(choice) or ""
                whole.token_ids += getattr(choice, "token_ids", None) or []
                whole.stopped = choice.finish_reason == "stop"
            if chunk.usage is not None:
                whole.tokens, whole.prompt_tokens = chunk.usage.completion_tokens, chunk.usage.prompt_tokens
        return whole

    def responses(self, prompt, sampling, stream):
        fields = {**sampling, "max_output_tokens": sampling["max_tokens"]}
        del fields["max_tokens"]
        asked = {"model": MODEL, "input": messages_of(prompt), "extra_body": fields}
        if not stream:
            answer = self.openai.responses.create(**asked)
        else:
            *events, last = self.openai.responses.create(**asked, stream=True)
            answer = last.response
            assert answer.output_text == "".join(each.delta for each in events if each.type == "response.output_text.delta")
        return Answer(None, answer.output_text, answer.usage.output_tokens, answer.usage.input_tokens,
                      answer.status == "completed")

    def messages(self, prompt, sampling, stream):
        messages = messages_of(prompt)
        system = {"system": messages.pop(0)["content"]} if messages[0]["role"] == "system" else {}
        fields = {name: value for name, value in sampling.items() if name != "max_tokens"}
        asked = {"model": MODEL, "messages": messages, "max_tokens": sampling["max_tokens"], "extra_body": fields, **system}
        if not stream:
            answer = self.anthropic.messages.create(**asked)
        else:
            with self.anthropic.messages.stream(**asked) as events:
                text = "".join(events.text_stream)
                answer = events.get_final_message()
            assert "".join(block.text for block in answer.content) == text
        usage = answer.usage
        return Answer(None, "".join(block.text for block in answer.content), usage.output_tokens,
                      usage.input_tokens + usage.cache_read_input_tokens, answer.stop_reason == "end_turn")

    def kserve(self, prompt, sampling, stream):
        with triton.InferenceServerClient(self.target) as client:
            if not stream:
                answer = infer(client, prompt, sampling)
            else:
                with Stream(client) as requests:
                    requests.ask("one", inputs_of(prompt, sampling, stream=True))
                    answer = requests.finish("one")
        return Answer(answer.token_ids, answer.text, answer.counted, answer.input_tokens, answer.finish == "stop")

    def engine(self, prompt, sampling, stream):
        source = ({"text": prompt} if isinstance(prompt, str) else {"tokenized": vllm.TokenizedInput(input_ids=prompt)})
        request = vllm.GenerateRequest(request_id="r", stream=stream, sampling_params=vllm.SamplingParams(**sampling), **source)
        *chunks, last = self.vllm.Generate(request, timeout=TIMEOUT_S)
        complete = last.complete
        if stream:
            assert [id for chunk in chunks for id in chunk.chunk.token_ids] == list(complete.output_ids)
        else:
            assert not chunks
        return Answer(list(complete.output_ids), None, complete.completion_tokens, complete.prompt_tokens,
                      complete.finish_reason == "stop")


def messages_of(prompt):
    """A text is what the user says."""
    chat = (("user", prompt),) if isinstance(prompt, str) else prompt
    return [{"role": role, "content": content} for role, content in chat]


# How an API takes prompts: chats (a text is one message then), token ids (so are chats, once rendered), or texts alone (of
# a chat, the text that its tokens stand for). And which fields of sampling it has beside those of all.
APIS = {
    "completions": ("ids", OPENAI),
    "chat": ("chats", OPENAI),
    "responses": ("chats", {"min_p": 0.05}),
    "messages": ("chats", {}),
    "kserve": ("texts", OPENAI),
    "engine": ("ids", OPENAI),
}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--max-seqs", 16) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def own(cluster):
    own = Own(cluster.target)
    with own.client:
        yield own


@pytest.fixture(scope="module")
def apis(cluster):
    apis = Apis(cluster)
    with apis.channel, apis.openai, apis.anthropic:
        yield apis


def prompt_for(own, takes, asked):
    """What is asked in that form, or None where the form has no such thing."""
    if takes == "chats":
        return asked.messages or ((("user", asked.text),))
    if asked.messages is None:
        return asked.text
    ids = own.rendered(asked.messages)
    if takes == "ids":
        return ids
    # A user who spells a special token has said a text that tokens of a text cannot say.
    text = own.detokenized(ids)
    return text if own.tokenized(text) == ids else None


def more_sampling(known, number):
    """Every third request has one of the fields that not all APIs know."""
    names = sorted(known)
    if not names or number % 3 != 0:
        return {}
    name = names[number // 3 % len(names)]
    return {name: known[name]}


@pytest.mark.parametrize("name", APIS)
def test_each_api_gives_the_tokens_of_batons_own_grpc(own, apis, name):
    takes, known = APIS[name]

    def ask(number):
        asked = ALL[number]
        prompt = prompt_for(own, takes, asked)
        if prompt is None:
            return 0
        sampling = {**asked.sampling, **more_sampling(known, number)}
        expected = own.answer(prompt, sampling)
        # Two numbers are of the same prompt, and texts and chats take turns.
        for stream in (False, True) if FULL else ((number // 4 + number) % 2 == 0,):
            answer = getattr(apis, name)(prompt, sampling, stream)
            for field in dataclasses.fields(Answer):
                said = getattr(answer, field.name)
                assert said is None or said == getattr(expected, field.name), (name, str(asked), stream, field.name)
            assert answer.token_ids is not None or answer.text is not None
        return 1

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        counted = sum(pool.map(ask, range(len(ALL))))
    # Of one prompt alone, asked in two ways, an API that takes texts has no form.
    assert counted >= len(ALL) - 2 and len(ALL) == 80


def test_the_prompts_give_answers_of_every_kind(own):
    """Otherwise the test above would say little: some answers end by themselves, most differ, and not all are ASCII."""
    answers = [own.answer(prompt_for(own, "chats", asked), asked.sampling) for asked in ALL]
    assert 0 < sum(answer.stopped for answer in answers) < len(answers)
    assert len({answer.text for answer in answers}) > len(answers) // 2
    assert any(not answer.text.isascii() for answer in answers)
    assert max(answer.prompt_tokens for answer in answers) > 10 * min(answer.prompt_tokens for answer in answers)
