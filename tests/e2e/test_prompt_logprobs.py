"""Log-probabilities of prompts and echo on real processes: the same numbers by gRPC, OpenAI's client and the command line, as
those of the same tokens as outputs, near those of transformers, also where workers are killed, never of a former version."""

import json
import math
import pathlib
import threading
import urllib.request

import grpc
import openai
import pytest

from client import Client
from cluster import Cluster, RoleProcess, await_workers, kill_busy, run_baton
from http_api import post
from internal_messages import internal_messages
from joined_worker import former_worker

MODEL = "smollm2-135m-instruct"
PROSE = json.loads((pathlib.Path(__file__).parents[1] / "data/prose" / f"{MODEL}.json").read_text())
# What lm-eval makes of its tasks with transformers, and the tasks.
LM_EVAL = json.loads((pathlib.Path(__file__).parents[1] / f"data/lm_eval/{MODEL}.json").read_text())
TASKS = json.loads((pathlib.Path(__file__).parent / "lm_eval_tasks/capitals.json").read_text())
# Every feature of a worker before prompt_logprobs.
FORMER_FEATURES = 255
TOLERANCE = 2e-5
# Between two orders of adding float32, in a log-likelihood.
FP32_TOLERANCE = 5e-4


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB", "--chunk-tokens", 64) as running:
        yield running


@pytest.fixture(scope="module")
def openai_client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


def prompt_of(client, prompt, top=0, max_tokens=1, **more):
    """The tokens of the prompt, as the first output has them, and the ids of the output."""
    sampling = {"max_tokens": max_tokens, "prompt_logprobs": top, "ignore_eos": True, **more}
    tokens, output = [], []
    for response in client.start(client.generate_request(prompt, sampling)):
        if not response.HasField("output"):
            continue
        if response.output.HasField("prompt"):
            assert not tokens and not output
            tokens = list(response.output.prompt.tokens)
        output += [token.id for token in response.output.tokens]
    return tokens, output


def bytes_of(tokens):
    """Messages of two clients are of different classes."""
    return [token.SerializeToString() for token in tokens]


def logprobs_of(tokens):
    assert not tokens[0].HasField("logprob")
    return [token.logprob for token in tokens[1:]]


def test_they_are_those_of_the_same_tokens_as_outputs_bit_for_bit(client, prose_ids):
    prompt = prose_ids[:40]
    tokens, _ = prompt_of(client, prompt, top=3)
    assert [token.id for token in tokens] == prompt
    for place in range(1, len(prompt), 3):
        sampling = {"max_tokens": 1, "logprobs": 3, "logit_bias": [{"id": prompt[place], "bias": 100}]}
        responses = client.start(client.generate_request(prompt[:place], sampling))
        forced = next(response.output.tokens[0] for response in responses if response.HasField("output"))
        assert forced.id == prompt[place]
        assert forced.logprob == tokens[place].logprob
        assert [(top.id, top.logprob) for top in forced.top_logprobs] == [(top.id, top.logprob)
                                                                          for top in tokens[place].top_logprobs]
        ranked = [top.id for top in forced.top_logprobs]
        assert tokens[place].rank == ranked.index(forced.id) + 1 if forced.id in ranked else tokens[place].rank > 3


def test_they_depend_neither_on_chunks_nor_on_the_cache_nor_on_what_runs_beside(client, prose_ids):
    prompt = prose_ids[100:400]
    first, _ = prompt_of(client, prompt, top=2)
    busy = [threading.Thread(target=prompt_of, args=(client, prose_ids[n * 50:n * 50 + 150], 1, 40)) for n in range(6)]
    for thread in busy:
        thread.start()
    again = [prompt_of(client, prompt, top=2)[0] for _ in range(3)]
    for thread in busy:
        thread.join()
    assert again == [first] * 3
    with Cluster("--mixed", 1, "--prefill", 0, "--decode", 0, "--threads", 2, "--kv-memory", "128MiB",
                 "--chunk-tokens", 256) as other, Client(other.target) as elsewhere:
        assert bytes_of(prompt_of(elsewhere, prompt, top=2)[0]) == bytes_of(first)
        assert bytes_of(prompt_of(elsewhere, prompt, top=2, max_tokens=20)[0]) == bytes_of(first)


def test_perplexity_of_prose_is_that_of_transformers(client):
    total, count = 0, 0
    step = PROSE["window"] - len(PROSE["start"])
    for begin in range(0, len(PROSE["ids"]), step):
        tokens, _ = prompt_of(client, PROSE["start"] + PROSE["ids"][begin:begin + step])
        total -= sum(logprobs_of(tokens))
        count += len(tokens) - 1
    # `exact` multiplies with rounded activations.
    assert math.exp(total / count) == pytest.approx(PROSE["perplexity"], rel=0.01)


def test_openais_client_gets_the_same_by_echo_and_vllms_list(client, openai_client, prose_ids):
    prompt = prose_ids[:100]
    tokens, output = prompt_of(client, prompt, top=2, max_tokens=4)
    answer = openai_client.completions.create(model=MODEL, prompt=prompt, max_tokens=4, temperature=0, echo=True, logprobs=2,
                                              extra_body={"prompt_logprobs": 1, "return_token_ids": True,
                                                          "ignore_eos": True}).choices[0]
    lists = answer.logprobs
    assert lists.token_logprobs[0] is None and lists.top_logprobs[0] is None
    assert lists.token_logprobs[1:100] == pytest.approx(logprobs_of(tokens), rel=TOLERANCE)
    assert len(lists.tokens) == len(lists.text_offset) == len(lists.token_logprobs) == 104
    assert "".join(lists.tokens) == answer.text
    assert all(answer.text[offset:].startswith(token) for offset, token in zip(lists.text_offset, lists.tokens))
    assert answer.token_ids == output
    entries = answer.prompt_logprobs
    assert entries[0] is None and len(entries) == 100
    for token, entry in zip(tokens[1:], entries[1:]):
        own = entry[str(token.id)]
        assert own["logprob"] == pytest.approx(token.logprob, rel=TOLERANCE) and own["rank"] == token.rank
        best = token.top_logprobs[0]
        assert entry[str(best.id)]["rank"] == 1 and len(entry) == (1 if token.rank == 1 else 2)


def test_an_echo_is_the_text_that_was_sent_also_in_a_stream_and_alone(openai_client):
    text = "The capital of France is"
    whole = openai_client.completions.create(model=MODEL, prompt=text, max_tokens=6, temperature=0)
    echoed = openai_client.completions.create(model=MODEL, prompt=text, max_tokens=6, temperature=0, echo=True)
    assert echoed.choices[0].text == text + whole.choices[0].text
    assert echoed.choices[0].logprobs is None
    stream = openai_client.completions.create(model=MODEL, prompt=text, max_tokens=6, temperature=0, echo=True, stream=True)
    pieces = [chunk.choices[0].text for chunk in stream]
    assert "".join(pieces) == echoed.choices[0].text and pieces[0].startswith(text)
    alone = openai_client.completions.create(model=MODEL, prompt=text, max_tokens=0, echo=True, logprobs=0)
    assert alone.choices[0].text == text and alone.usage.completion_tokens == 0
    assert len(alone.choices[0].logprobs.tokens) == alone.usage.prompt_tokens


def test_each_of_several_choices_has_its_prompt_which_is_computed_once(client, openai_client, prose_ids):
    prompts, count = [prose_ids[:60], prose_ids[200:230]], 3
    for prompt in prompts:
        alone, _ = prompt_of(client, prompt, top=1)
        sampling = {"max_tokens": 6, "prompt_logprobs": 1, "temperature": 0.9, "seed": 5, "ignore_eos": True}
        shown, outputs = {}, {choice: [] for choice in range(count)}
        for response in client.start(client.generate_request(prompt, sampling, choices=count)):
            if response.HasField("output"):
                choice = response.output.choice
                if response.output.HasField("prompt"):
                    assert choice not in shown and not outputs[choice]
                    shown[choice] = bytes_of(response.output.prompt.tokens)
                outputs[choice] += [token.id for token in response.output.tokens]
        assert shown == {choice: bytes_of(alone) for choice in range(count)}
        for choice, ids in outputs.items():
            assert ids == prompt_of(client, prompt, **{**sampling, "seed": 5 + choice})[1]
    asked = {"model": MODEL, "prompt": prompts, "max_tokens": 4, "temperature": 0.9, "seed": 5, "extra_body": {"ignore_eos": True}}
    plain = openai_client.completions.create(**asked, n=count).choices
    echoed = openai_client.completions.create(**asked, n=count, echo=True, logprobs=0).choices
    texts = [client.call("baton.v1.GenerationService", "Detokenize", token_ids=prompt).text for prompt in prompts]
    assert [choice.text for choice in echoed] == [texts[number // count] + choice.text for number, choice in enumerate(plain)]
    assert [len(choice.logprobs.tokens) for choice in echoed] == [64] * count + [34] * count
    streamed = [""] * len(echoed)
    for chunk in openai_client.completions.create(**asked, n=count, echo=True, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in echoed]


def test_a_chat_has_vllms_list(openai_client):
    answer = openai_client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=2,
                                                   extra_body={"prompt_logprobs": 0})
    assert answer.prompt_logprobs[0] is None
    assert len(answer.prompt_logprobs) == answer.usage.prompt_tokens
    assert all(len(entry) == 1 for entry in answer.prompt_logprobs[1:])


def test_what_lm_eval_sends_is_answered_as_it_reads_it(cluster, client, prose_ids):
    """The bodies of its models local-completions and local-chat-completions, 0.4.13; test_lm_eval.py runs these themselves."""
    prompt, context_length = prose_ids[:20], 15
    tokens, _ = prompt_of(client, prompt, top=1)
    text = client.call("baton.v1.GenerationService", "Detokenize", token_ids=prompt).text
    # The last one is a batch of two.
    for sent in ([prompt], text, [prompt, prose_ids[100:140]]):
        status, _, answer = post(cluster, "/v1/completions", {"model": MODEL, "prompt": sent, "temperature": 0, "max_tokens": 1,
                                                              "logprobs": 1, "seed": 1234, "echo": True})
        assert status == 200
        assert len(answer["choices"]) == (len(sent) if isinstance(sent, list) else 1)
        lists = answer["choices"][0]["logprobs"]
        assert sum(lists["token_logprobs"][context_length:-1]) == pytest.approx(
            sum(token.logprob for token in tokens[context_length:]), rel=TOLERANCE)
        greedy = [logprob == max(top.values())
                  for logprob, top in zip(lists["token_logprobs"][1:-1], lists["top_logprobs"][1:-1])]
        assert greedy == [token.rank == 1 for token in tokens[1:]] and any(greedy) and not all(greedy)
    message = {"role": "user", "content": "Name a fruit.", "type": "text"}
    status, _, answer = post(cluster, "/v1/chat/completions", {"messages": [message], "model": MODEL, "max_tokens": 8,
                                                               "temperature": 0, "stop": ["\n"], "seed": 1234})
    assert status == 200 and answer["choices"][0]["message"]["content"]
    with urllib.request.urlopen(f"http://{cluster.http}/tokenizer_info", timeout=60) as info:
        assert json.load(info)["eos_token"] == "<|im_end|>"


def likelihoods_of(cluster, choices):
    """Of each choice, as lm-eval's local-completions asks and reads: its log-likelihood, and whether it is the greedy one."""
    for choice in choices:
        status, _, answer = post(cluster, "/v1/completions",
                                 {"model": MODEL, "prompt": choice["context"] + choice["continuation"], "temperature": 0,
                                  "max_tokens": 1, "logprobs": 1, "echo": True})
        assert status == 200
        lists = answer["choices"][0]["logprobs"]
        begin = lists["text_offset"].index(len(choice["context"]))
        yield sum(lists["token_logprobs"][begin:-1]), all(
            logprob == max(top.values())
            for logprob, top in zip(lists["token_logprobs"][begin:-1], lists["top_logprobs"][begin:-1]))


def test_the_scores_of_lm_evals_tasks_are_those_of_transformers_in_fp32():
    """The requests of local-completions and local-chat-completions, as test_lm_eval.py lets lm-eval itself send them."""
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB", "--numerics", "fp32") as cluster:
        got = list(likelihoods_of(cluster, LM_EVAL["choices"]))
        answers = [post(cluster, "/v1/chat/completions",
                        {"model": MODEL, "messages": [{"role": "user", "content": task["question"], "type": "text"}],
                         "max_tokens": 12, "temperature": 0, "stop": ["\n"], "seed": 1234})[2] for task in TASKS]
    assert [is_greedy for _, is_greedy in got] == [choice["is_greedy"] for choice in LM_EVAL["choices"]]
    far = [abs(likelihood - choice["likelihood"]) for (likelihood, _), choice in zip(got, LM_EVAL["choices"], strict=True)]
    print(f"the largest difference of {len(far)} log-likelihoods is {max(far):.6f}")
    assert max(far) < FP32_TOLERANCE, far
    assert accuracy_of(got) == LM_EVAL["acc"]
    assert [answer["choices"][0]["message"]["content"] for answer in answers] == LM_EVAL["answers"]


def accuracy_of(got):
    """Of TASKS, each with three choices."""
    per_task = [[likelihood for likelihood, _ in got[3 * i:3 * i + 3]] for i in range(len(TASKS))]
    assert len(got) == 3 * len(TASKS)
    right = [max(range(3), key=scores.__getitem__) == task["answer"] for task, scores in zip(TASKS, per_task)]
    return sum(right) / len(right)


def test_rounded_activations_leave_the_scores_of_lm_evals_task_alone(cluster):
    """`exact` multiplies with them."""
    got = list(likelihoods_of(cluster, LM_EVAL["choices"]))
    assert [is_greedy for _, is_greedy in got] == [choice["is_greedy"] for choice in LM_EVAL["choices"]]
    far = [abs(likelihood - choice["likelihood"]) for (likelihood, _), choice in zip(got, LM_EVAL["choices"], strict=True)]
    print(f"the largest difference of {len(far)} log-likelihoods is {max(far):.6f}")
    assert max(far) < 0.5 and sum(far) / len(far) < 0.15, far
    assert accuracy_of(got) == LM_EVAL["acc"]


def test_the_command_line_prints_them(cluster, client, prose_ids):
    prompt = prose_ids[:30]
    tokens, _ = prompt_of(client, prompt, top=1)
    result = run_baton("generate", "--target", cluster.target, "--token-ids", ",".join(map(str, prompt)), "--max-tokens", 1,
                       "--prompt-logprobs", 1, "--echo", "--json")
    printed = json.loads(result.stdout)
    written = client.call("baton.v1.GenerationService", "Detokenize", token_ids=prompt, return_tokens=True).tokens
    assert [entry["token"] for entry in printed["prompt_logprobs"]] == [token.decode() for token in written]
    assert "".join(entry["token"] for entry in printed["prompt_logprobs"]) == printed["prompt_text"]
    assert all("token" in likely for entry in printed["prompt_logprobs"][1:] for likely in entry["top"])
    assert printed["prompt_logprobs"][0] == {"token_id": prompt[0], "token": written[0].decode(), "logprob": None}
    assert [entry["logprob"] for entry in printed["prompt_logprobs"][1:]] == pytest.approx(logprobs_of(tokens))
    assert [entry["rank"] for entry in printed["prompt_logprobs"][1:]] == [token.rank for token in tokens[1:]]
    text = run_baton("generate", "--target", cluster.target, "--prompt", "Once upon", "--max-tokens", 2, "--echo").stdout
    assert text.startswith("Once upon")


def test_what_does_not_go_together_is_refused_by_name(client, prose_ids):
    cases = [({"prompt_logprobs": 1}, {"resumable": True}, "sampling.prompt_logprobs"),
             ({}, {"idempotency_key": "k", "echo": True}, "echo"), ({"prompt_logprobs": 21}, {}, "prompt_logprobs"),
             ({"prompt_logprobs": -1}, {}, "prompt_logprobs")]
    for sampling, fields, name in cases:
        with pytest.raises(grpc.RpcError) as refused:
            client.generate(prose_ids[:5], sampling, **fields)
        assert name in refused.value.details()


def test_a_killed_worker_changes_nothing_of_them(prose_ids):
    prompt = prose_ids[:800]
    with Cluster("--prefill", 2, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB", "--chunk-tokens", 32) as cluster, \
            Client(cluster.target) as client:
        expected = prompt_of(client, prompt, top=1, max_tokens=30)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(prompt_of(client, prompt, top=1, max_tokens=30)))
        asking.start()
        kill_busy(cluster, "prefill")
        asking.join(timeout=120)
        assert answers == [expected]


def test_a_worker_of_a_former_version_gets_no_such_request(tmp_path, prose_ids):
    with RoleProcess("router", "--grpc-port", 0) as router, \
            former_worker(router.cluster_target, internal_messages(tmp_path), MODEL, FORMER_FEATURES) as former, \
            Client(router.target) as client:
        await_workers(router, 1)
        with pytest.raises(grpc.RpcError) as refused:
            prompt_of(client, prose_ids[:5])
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "of which 1 are of a version that does not know its prompt_logprobs" in refused.value.details()
        assert not former.starts
