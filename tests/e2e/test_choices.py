"""Several outputs of one prompt: each is what a request of its own with the same seed gives, and the prompt is computed
once."""

import json
import os
import re
import signal
import urllib.request

import grpc
import openai
import pytest

from client import Client
from cluster import Cluster, await_workers, run_baton, wait_until

MODEL = "smollm2-135m-instruct"
CHOICES = 3
SAMPLING = {"temperature": 0.9, "top_p": 0.95, "seed": 2**40, "max_tokens": 40, "ignore_eos": True}


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1, "--max-seqs", 8) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster.target) as client:
        yield client


def single(client, prompt, index, **sampling):
    """The output that a request of its own gives."""
    return client.generate(prompt, {**SAMPLING, **sampling, "seed": SAMPLING["seed"] + index})


def choices_of(stream, count=CHOICES, on_output=lambda tokens: None):
    """(token ids, text, finish reason) of each choice, and `finished`. Nothing may follow the end of a choice."""
    tokens, texts, reasons, finished = [[] for _ in range(count)], [""] * count, [0] * count, None
    for response in stream:
        assert finished is None
        if response.HasField("finished"):
            finished = response.finished
            continue
        output = response.output
        assert not reasons[output.choice]
        for token in output.tokens:
            assert token.index == len(tokens[output.choice])
            tokens[output.choice].append(token.id)
        texts[output.choice] += output.text
        reasons[output.choice] = output.finish_reason
        on_output(tokens)
    assert all(reasons)
    return tokens, texts, finished


def ask(client, prompt, **sampling):
    return client.start(client.generate_request(prompt, {**SAMPLING, **sampling}, choices=CHOICES))


def test_each_choice_is_what_a_request_with_its_seed_gives(client, prose_ids):
    prompt = prose_ids[:300]
    expected = [single(client, prompt, i) for i in range(CHOICES)]
    assert len({tuple(each.token_ids) for each in expected}) == CHOICES
    tokens, texts, finished = choices_of(ask(client, prompt))
    assert tokens == [each.token_ids for each in expected]
    assert texts == [each.text for each in expected]
    assert finished.usage.prompt_tokens == 300 and finished.usage.output_tokens == 40 * CHOICES
    assert finished.seed == SAMPLING["seed"]


def total(cluster, role, counter):
    """The sum of a counter over the workers of a role."""
    values = []
    for worker in cluster.workers():
        if worker["role"] == role:
            with urllib.request.urlopen(f"http://{worker['admin']}/metrics", timeout=10) as page:
                values += re.findall(rf"^{counter}(?:{{.*}})? (\S+)$", page.read().decode(), re.M)
    return sum(map(float, values))


def test_the_prompt_is_computed_and_moved_once(cluster, client, prose_ids):
    def counters():
        return (total(cluster, "prefill", "baton_prefix_cache_hits_total"),
                total(cluster, "decode", "baton_transfer_bytes_total"))

    before = counters()
    client.generate(prose_ids[2000:2480], SAMPLING)
    after_one = counters()
    choices_of(ask(client, prose_ids[1000:1480]))
    found, moved = (now - then for now, then in zip(counters(), after_one))
    assert found >= (CHOICES - 1) * (480 - 32), "the prompts of the others come out of the cache"
    assert moved < 1.3 * (after_one[1] - before[1]), "and their workers have them"


def test_choices_survive_a_worker_that_is_killed(cluster, client, prose_ids):
    prompt = prose_ids[3000:3100]
    expected = [single(client, prompt, i, max_tokens=120).token_ids for i in range(CHOICES)]
    killed = []

    def kill(tokens):
        if killed or min(map(len, tokens)) < 20:
            return
        busy = [worker["pid"] for worker in cluster.workers() if worker["role"] == "decode" and worker["used_blocks"]]
        killed.extend(busy[:1])
        os.kill(killed[0], signal.SIGKILL)

    tokens, _, _ = choices_of(ask(client, prompt, max_tokens=120), on_output=kill)
    assert killed and tokens == expected
    await_workers(cluster, 3)


def test_a_request_whose_client_does_not_read_is_paused_and_has_the_same_tokens(cluster, client, prose_ids):
    count, sampling = 32, {**SAMPLING, "max_tokens": 80}
    # What the network holds is little beside log-probabilities, so that the router soon holds half of what may wait.
    request = client.generate_request(prose_ids[:40], {**sampling, "logprobs": 20}, choices=count)
    expected, _, _ = choices_of(client.start(request), count)
    with Client(cluster.target, options=[("grpc.http2.bdp_probe", 0)]) as slow:
        stream = slow.start(request)
        wait_until(lambda: cluster.status()["paused_jobs"] > 0, 60, "the request is paused")
        wait_until(lambda: not any(worker["used_blocks"] for worker in cluster.workers()), 30, "it holds no blocks")
        assert single(client, "Once upon a time", 0).token_ids, "others are served meanwhile"
        tokens, _, _ = choices_of(stream, count)
    assert tokens == expected
    assert cluster.status()["paused_jobs"] == 0


def test_a_client_that_leaves_frees_all_choices(cluster, client, prose_ids):
    stream = ask(client, prose_ids[:50], max_tokens=8000)
    next(iter(stream))
    stream.cancel()
    cluster.await_idle()


def test_a_kept_job_has_one_choice(client):
    with pytest.raises(grpc.RpcError) as refused:
        list(client.start(client.generate_request("x", SAMPLING, choices=2, resumable=True)))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def api(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


def openai_fields():
    return {"model": MODEL, "n": CHOICES, "temperature": 0.9, "top_p": 0.95, "seed": SAMPLING["seed"], "max_tokens": 24,
            "extra_body": {"ignore_eos": True, "return_token_ids": True}}


@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_openais_client_gets_its_choices_whole_and_as_a_stream(client, api, kind):
    if kind == "chat":
        create = api.chat.completions.create
        asked = {**openai_fields(), "messages": [{"role": "user", "content": "Tell me a story."}], "logprobs": True}
        text_of, piece_of = lambda choice: choice.message.content, lambda choice: choice.delta.content or ""
    else:
        create = api.completions.create
        asked = {**openai_fields(), "prompt": "Once upon a time", "logprobs": 1}
        text_of, piece_of = lambda choice: choice.text, lambda choice: choice.text
    whole = create(**asked)
    assert [choice.index for choice in whole.choices] == list(range(CHOICES))
    assert whole.usage.completion_tokens == 24 * CHOICES
    assert len({tuple(choice.token_ids) for choice in whole.choices}) == CHOICES
    if kind == "completions":
        for choice in whole.choices:
            expected = single(client, "Once upon a time", choice.index, max_tokens=24)
            assert (choice.token_ids, choice.text) == (expected.token_ids, expected.text)
            assert choice.logprobs.text_offset[0] == 0 and len(choice.logprobs.tokens) == 24
    texts, reasons, usage = [""] * CHOICES, [None] * CHOICES, None
    for chunk in create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert reasons[choice.index] is None
            texts[choice.index] += piece_of(choice)
            reasons[choice.index] = choice.finish_reason
    assert texts == [text_of(choice) for choice in whole.choices]
    assert reasons == ["length"] * CHOICES and usage.completion_tokens == 24 * CHOICES


@pytest.mark.parametrize("stream", [False, True])
def test_several_prompts_are_answered_in_their_order(client, api, prose_ids, stream):
    prompts = [prose_ids[:40], prose_ids[100:120], prose_ids[200:300]]
    asked = {**openai_fields(), "n": 2, "prompt": prompts}
    expected = [single(client, prompt, i, max_tokens=24).text for prompt in prompts for i in range(2)]
    texts = [""] * 6
    answers = api.completions.create(**asked, stream=True) if stream else [api.completions.create(**asked)]
    for answer in answers:
        for choice in answer.choices:
            texts[choice.index] += choice.text
    assert texts == expected


def test_the_command_line_prints_one_choice_after_the_other(cluster):
    flags = ["generate", "--target", cluster.target, "--prompt", "Once upon a time", "-n", "2", "--seed", "7",
             "--temperature", "0.9", "--max-tokens", "8", "--ignore-eos"]
    choices = json.loads(run_baton(*flags, "--json").stdout)["choices"]
    assert [len(choice["token_ids"]) for choice in choices] == [8, 8]
    text = run_baton(*flags).stdout
    assert text == f"--- choice 0 ---\n{choices[0]['text']}\n--- choice 1 ---\n{choices[1]['text']}\n"
