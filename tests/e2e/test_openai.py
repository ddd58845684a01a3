"""OpenAI's own Python client against the HTTP port of a real cluster, and raw HTTP where that client sends no such thing."""

import asyncio
import json
import re
import signal
import socket
import struct
import threading
import urllib.error
import urllib.request

import openai
import pytest

from client import Client
from cluster import LEFT_TIMEOUT_S, SOURCE_DIR, Cluster, kill_busy, run_baton, wait_until
from http_api import documented_fields, post
from pages import blocks_of
from streams import await_no_block_held

MODEL = "smollm2-135m-instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
PROMPT_TOKENS = 30
# Longer than any test waits.
ENDLESS = {"max_tokens": 8000, "extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--max-queued-jobs", 8, "--max-seqs", 8) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def prompts(prose_ids):
    return [prose_ids[i * PROMPT_TOKENS:(i + 1) * PROMPT_TOKENS] for i in range(8)]


def gauge(cluster, name):
    with urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=10) as page:
        return float(re.search(rf"^{name} (\S+)$", page.read().decode(), re.M)[1])


def test_the_served_model_is_listed(client):
    models = client.models.list().data
    assert [model.id for model in models] == [MODEL]
    assert models[0].max_model_len == 8192


def test_a_chat_is_answered_at_once_and_as_a_stream_alike(client):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 20, "extra_body": {"ignore_eos": True}}
    whole = client.chat.completions.create(**asked)
    assert whole.id == f"chatcmpl-{whole._request_id}"  # pylint: disable=protected-access
    named = client.chat.completions.with_raw_response.create(**asked, extra_headers={"X-Request-Id": "mine-7"})
    assert named.headers["x-request-id"] == "mine-7"
    assert whole.choices[0].message.role == "assistant" and whole.choices[0].message.content
    assert whole.usage.completion_tokens == 20 and whole.choices[0].finish_reason == "length"
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 20
    assert len({chunk.id for chunk in chunks}) == 1


def test_every_chunk_has_the_usage_so_far_where_that_is_asked_for(client):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 6, "stream": True, "extra_body": {"ignore_eos": True}}
    chunks = list(client.chat.completions.create(
        **asked, stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts[0] == 0 and counts == sorted(counts) and counts[-2:] == [6, 6]
    assert len({chunk.usage.prompt_tokens for chunk in chunks}) == 1 and chunks[-1].choices == []
    plain = list(client.chat.completions.create(**asked, stream_options={"include_usage": True}))
    assert plain[-1].usage.total_tokens == chunks[-1].usage.total_tokens and not any(chunk.usage for chunk in plain[:-1])


def test_many_streams_run_at_once(cluster, prompts):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0) as client:
            async def one(prompt):
                stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=24, stream=True,
                                                         extra_body={"ignore_eos": True, "return_token_ids": True})
                return [token async for chunk in stream for token in getattr(chunk.choices[0], "token_ids", None) or []]
            return await asyncio.gather(*map(one, prompts))

    with Client(cluster.target) as grpc_client:
        expected = [grpc_client.generate(prompt, {"max_tokens": 24, "ignore_eos": True}).token_ids for prompt in prompts]
    assert asyncio.run(run()) == expected


def test_the_ids_of_the_prompt_come_beside_those_of_the_output(cluster, client, prompts):
    asked = {"model": MODEL, "max_tokens": 3, "extra_body": {"return_token_ids": True}}
    whole = client.completions.create(**asked, prompt=prompts[:2], n=2)
    assert [choice.prompt_token_ids for choice in whole.choices] == [prompts[0], prompts[0], prompts[1], prompts[1]]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**asked, prompt=prompts[0], stream=True)]
    assert [getattr(choice, "prompt_token_ids", None) for choice in chunks] == [prompts[0]] + [None] * (len(chunks) - 1)
    chat = client.chat.completions.create(**asked, messages=QUESTION)
    assert len(chat.prompt_token_ids) == chat.usage.prompt_tokens
    text = post(cluster, "/detokenize", {"tokens": chat.prompt_token_ids})[2]["prompt"]
    assert QUESTION[0]["content"] in text and text.endswith("<|im_start|>assistant\n")
    first, *rest = client.chat.completions.create(**asked, messages=QUESTION, stream=True)
    assert first.prompt_token_ids == chat.prompt_token_ids
    assert not any(getattr(chunk, "prompt_token_ids", None) for chunk in rest)


def test_a_stop_string_ends_the_text_before_it(client):
    free = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=16, temperature=0).choices[0].text
    stop = free[len(free) // 2:][:3]
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=16, temperature=0, stop=[stop])
    assert answer.choices[0].text == free[:free.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_log_probabilities_have_the_form_of_each_endpoint(client):
    text = client.completions.create(model=MODEL, prompt="One two three", max_tokens=4, temperature=0, logprobs=2)
    logprobs = text.choices[0].logprobs
    assert "".join(logprobs.tokens) == text.choices[0].text
    assert logprobs.text_offset == [sum(map(len, logprobs.tokens[:i])) for i in range(4)]
    assert all(len(top) == 2 and top[token] == value for top, token, value in
               zip(logprobs.top_logprobs, logprobs.tokens, logprobs.token_logprobs))
    chat = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=4, temperature=0, logprobs=True,
                                          top_logprobs=3)
    content = chat.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == chat.choices[0].message.content
    assert all(len(entry.top_logprobs) == 3 and entry.top_logprobs[0].logprob >= entry.logprob for entry in content)
    assert bytes(content[0].bytes).decode() == content[0].token


def test_errors_are_those_that_the_client_knows(client):
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=-1)
    assert wrong.value.param == "temperature" and "temperature" in wrong.value.message
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="another", messages=QUESTION)
    with pytest.raises(openai.NotFoundError):
        client.moderations.create(input="x")


@pytest.mark.parametrize("field, ask", [
    ("prompt", lambda client: client.completions.create(model=MODEL, prompt=[1] * 9000)),
    ("messages", lambda client: client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": " word" * 9000}], stream=True)),
    ("input", lambda client: client.responses.create(model=MODEL, input=" word" * 9000)),
    ("input", lambda client: client.embeddings.create(model=MODEL, input=["short", " word" * 9000])),
], ids=["completion", "chat", "response", "embedding"])
def test_a_prompt_beyond_the_context_has_the_code_by_which_clients_shorten_it(client, field, ask):
    with pytest.raises(openai.BadRequestError) as too_long:
        ask(client)
    assert (too_long.value.code, too_long.value.param) == ("context_length_exceeded", field)


# Eight of them run and eight wait. Whoever finds no place hears when to come again.
def test_a_full_queue_refuses_with_the_time_to_come_again(client):
    refused, is_over = [], threading.Event()

    def ask(number):
        try:
            stream = client.completions.create(model=MODEL, prompt=f"Number {number}", stream=True, **ENDLESS)
        except openai.RateLimitError as error:
            refused.append(error.response.headers)
            is_over.set()
            return
        is_over.wait(60)
        stream.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused and all(int(headers["retry-after"]) >= 1 for headers in refused)


def test_a_stream_that_its_client_leaves_ends_its_request(cluster, client):
    stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True, **ENDLESS)
    next(iter(stream))
    assert gauge(cluster, "baton_client_streams") >= 1 and gauge(cluster, "baton_client_connections") >= 1
    stream.close()
    wait_until(lambda: gauge(cluster, "baton_client_streams") == 0, LEFT_TIMEOUT_S, "no stream of a client is open")
    cluster.await_idle()


def test_a_request_that_is_left_before_its_answer_ends_too(cluster, client):
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).completions.create(model=MODEL, prompt="Endless", **ENDLESS)
    cluster.await_idle()


def test_of_the_requests_that_wait_the_lower_priority_goes_first():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, "--max-seqs", 1) as cluster:
        client = openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)
        running = client.completions.create(model=MODEL, prompt="Endless", stream=True, **ENDLESS)
        next(iter(running))
        ended, asking = [], []

        def ask(priority):
            # Each runs for so long that the threads of a loaded machine hear of the ends in their order.
            client.completions.create(model=MODEL, prompt="Once", max_tokens=100,
                                      extra_body={"ignore_eos": True, **({} if priority is None else {"priority": priority})})
            ended.append(priority)

        for count, priority in enumerate((8, 1, None), start=1):
            asking.append(threading.Thread(target=ask, args=(priority,)))
            asking[-1].start()
            wait_until(lambda: cluster.status()["queued_jobs"] == count, 30, f"{count} requests wait")
        running.close()
        for thread in asking:
            thread.join()
        assert ended == [None, 1, 8]


def test_a_drain_waits_for_a_client_that_reads_slowly():
    body = json.dumps({"prompt": "Once", "n": 8, "max_tokens": 150, "stream": True, "ignore_eos": True,
                       "logprobs": 20}).encode()
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1) as cluster, socket.socket() as reader:
        # Its answer is larger than all that the system takes on its way.
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.settimeout(30)
        host, _, port = cluster.http.rpartition(":")
        reader.connect((host, int(port)))
        reader.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = reader.recv(1)
        holds = lambda: any(worker["used_blocks"] for worker in cluster.workers())
        wait_until(holds, 60, "the request in the status")
        wait_until(lambda: not holds(), 60, "the end of the request")
        cluster.signal(signal.SIGTERM)
        wait_until(lambda: "1 answers are still being read" in cluster.log(), 20, "the drain")
        while piece := reader.recv(1 << 16):
            answer += piece
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert answer.count(b'"finish_reason":null') > 1


# Long enough to be seen running in the status.
def test_a_killed_worker_changes_no_token_of_a_stream():
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1) as cluster:
        client = openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)

        def tokens(kills):
            await_no_block_held(cluster.target, 3)
            stream = client.completions.create(model=MODEL, prompt="Once", max_tokens=300, stream=True,
                                               extra_body={"ignore_eos": True, "return_token_ids": True})
            ids = []
            for chunk in stream:
                ids += getattr(chunk.choices[0], "token_ids", None) or []
                if kills and ids:
                    kills = False
                    kill_busy(cluster, "decode")
            return ids

        undisturbed = tokens(kills=False)
        assert len(undisturbed) == 300
        assert tokens(kills=True) == undisturbed


def test_a_port_that_is_in_use_is_named(cluster):
    result = run_baton("router", "--grpc-port", 0, "--http-port", cluster.http.rpartition(":")[2])
    assert result.returncode == 1
    assert "--http-port" in result.stderr.splitlines()[-1]


def test_text_becomes_tokens_and_tokens_text(cluster):
    status, _, tokens = post(cluster, "/tokenize", {"prompt": "Grüße, Welt"})
    assert status == 200 and tokens["count"] == len(tokens["tokens"])
    assert post(cluster, "/detokenize", {"tokens": tokens["tokens"]})[2] == {"prompt": "Grüße, Welt"}
    status, _, error = post(cluster, "/detokenize", {"tokens": [-1]})
    assert status == 400 and error["error"]["param"] == "tokens"


def test_the_example_of_the_page_runs(cluster, capsys):
    example = next(block for block in blocks_of("docs/openai.md", SOURCE_DIR) if block.language == "python")
    assert "http://127.0.0.1:8000/v1" in example.text
    exec(compile(example.text.replace("127.0.0.1:8000", cluster.http), "docs/openai.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_what_a_web_page_could_send_without_asking_is_refused(cluster):
    status, headers, error = post(cluster, "/v1/completions", {"prompt": "x"}, content_type="text/plain")
    assert status == 400 and "Content-Type" in error["error"]["message"]
    assert headers.get("Access-Control-Allow-Origin") is None


def test_metrics_are_served_beside_the_api_where_that_is_asked_for():
    with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, "--http-metrics") as cluster:
        pages = [urllib.request.urlopen(f"http://{address}/metrics", timeout=60) for address in (cluster.http, cluster.admin)]
        names = [set(re.findall(r"^# TYPE (\S+)", page.read().decode(), re.M)) for page in pages]
        assert names[0] == names[1] and "baton_build_info" in names[0]
        assert pages[0].headers["Content-Type"] == pages[1].headers["Content-Type"]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b))


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_embeddings_are_of_the_text_alone_and_place_like_texts_near_each_other(client, pooling):
    texts = ["The cat sleeps on the warm mat.", "A kitten is napping on a rug.", "The central bank raised interest rates."]
    embed = lambda given, **more: client.embeddings.create(model=MODEL, input=given, extra_body={"pooling": pooling}, **more)
    together = embed(texts)
    cat, kitten, bank = (item.embedding for item in together.data)
    assert [item.index for item in together.data] == [0, 1, 2] and len(cat) == 576
    assert together.usage.prompt_tokens == sum(embed(text).usage.prompt_tokens for text in texts)
    # The client asks for base64 where its caller does not say what it wants; numbers have the digits that a float needs.
    for text, expected in zip(texts, (cat, kitten, bank)):
        numbers = embed(text, encoding_format="float").data[0].embedding
        assert struct.pack("576f", *numbers) == struct.pack("576f", *expected)
    assert all(abs(cosine(one, one) - 1) < 1e-6 for one in (cat, kitten, bank))
    assert cosine(cat, kitten) > cosine(cat, bank)
    another = {"last": "mean", "mean": "last"}[pooling]
    other = client.embeddings.create(model=MODEL, input=texts[0], extra_body={"pooling": another})
    assert other.data[0].embedding != cat


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_embeddings_are_those_of_transformers(client, pooling):
    oracle = json.loads((SOURCE_DIR / f"tests/data/embeddings/{MODEL}.json").read_text())
    for text in oracle["texts"]:
        answer = client.embeddings.create(model=MODEL, input=text["text"], extra_body={"pooling": pooling})
        assert answer.usage.prompt_tokens == text["tokens"]
        # `exact` multiplies with rounded activations.
        assert cosine(answer.data[0].embedding, text[pooling]) > 0.998, text["text"]


def test_the_mean_of_a_text_of_many_chunks_is_the_same_again(client, prose_ids):
    long_one = client.embeddings.create(model=MODEL, input=[prose_ids[:700]], extra_body={"pooling": "mean"})
    assert long_one.usage.prompt_tokens == 700
    again = client.embeddings.create(model=MODEL, input=[prose_ids[:700]], extra_body={"pooling": "mean"})
    assert again.data[0].embedding == long_one.data[0].embedding
    first = client.embeddings.create(model=MODEL, input=[prose_ids[:1]], extra_body={"pooling": "mean"}).data[0].embedding
    assert first == client.embeddings.create(model=MODEL, input=[prose_ids[:1]]).data[0].embedding
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=MODEL, input=[prose_ids[:8192] * 2])
    assert "context" in refused.value.message


def test_an_embedding_whose_worker_is_killed_is_that_of_another_worker(prose_ids):
    with Cluster("--prefill", 2, "--decode", 1, "--threads", 1) as cluster:
        url = f"http://{cluster.http}/v1"
        ask = lambda: openai.OpenAI(base_url=url, api_key="none", max_retries=0).embeddings.create(
            model=MODEL, input=[prose_ids[:1500]], extra_body={"pooling": "mean"}).data[0].embedding
        expected, got = ask(), []
        asking = threading.Thread(target=lambda: got.append(ask()))
        asking.start()
        kill_busy(cluster, "prefill")
        asking.join()
        assert got == [expected]


# A value of each field that asks for something.
VALUES = {
    "messages": QUESTION, "prompt": "x", "model": MODEL, "max_tokens": 1, "max_completion_tokens": 1, "temperature": 0.5,
    "top_p": 0.5, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1,
    "seed": 1, "stop": "x", "stop_token_ids": [5], "ignore_eos": True, "min_tokens": 1, "stream": False,
    "return_token_ids": True, "return_phases": True, "add_special_tokens": False, "priority": 2, "user": "me", "store": True, "metadata": {"a": "b"},
    "n": 2, "request_id": "mine-7", "best_of": 2, "logit_bias": {"5": 1, "7": -100.0}, "echo": True, "response_format": {"type": "json_object"},
    "structured_outputs": {"choice": ["a", "b"]}, "prompt_logprobs": 1,
    "use_beam_search": True, "length_penalty": 2, "include_stop_str_in_output": True, "skip_special_tokens": False,
    "spaces_between_special_tokens": False, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto",
    "parallel_tool_calls": False, "modalities": ["audio"], "chat_template_kwargs": {}, "add_generation_prompt": False,
    "continue_final_message": True,
}
NOTHING = {"best_of": 1, "echo": False, "length_penalty": 1, "skip_special_tokens": True}
BASES = {"completions": ("/v1/completions", {"prompt": "x", "max_tokens": 1}),
         "chat": ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 1})}


def test_every_field_of_the_page_does_what_the_page_says(cluster):
    asked = 0
    for name, endpoint, what in documented_fields("docs/openai.md", BASES):
        path, base = BASES[endpoint]
        value = VALUES.get(name, "x")
        more = {}
        if name == "logprobs":
            value = 1 if endpoint == "completions" else True
        if name == "top_logprobs":
            value, more = 1, {"logprobs": True}
        if name == "stream_options":
            # The answer would be a stream.
            continue
        status, _, answer = post(cluster, path, {**base, **more, name: value})
        if what == "refused":
            assert status == 400 and answer["error"]["param"] == name, (name, endpoint, answer)
            nothing = NOTHING.get(name)
            assert post(cluster, path, {**base, name: nothing})[0] == 200, (name, endpoint, nothing)
        else:
            assert status == 200, (name, endpoint, answer)
        asked += 1
    assert asked > 80
    status, _, answer = post(cluster, "/v1/completions", {"prompt": "x", "temprature": 1})
    assert status == 400 and answer["error"]["param"] == "temprature"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"prompt": "\xff"}', b"[" * 100_000, b'{"prompt":[' + b"0," * 600_000],
                         ids=["empty", "cut", "list", "not utf-8", "deep", "many values"])
def test_what_is_no_request_is_refused_and_harms_nobody(cluster, body):
    request = urllib.request.Request(f"http://{cluster.http}/v1/completions", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]["type"] == "invalid_request_error"
