"""logit_bias on real processes: the same tokens by gRPC, OpenAI's client and the command line, also where a worker or the
router is killed in the midst of them, and never from a worker that does not know it."""

import contextlib
import json

import grpc
import openai
import pytest

from client import Client
from cluster import Cluster, RoleProcess, await_workers, run_baton, wait_until
from internal_messages import internal_messages
from joined_worker import former_worker
from killed import BACK_TIMEOUT_S, tokens_through_a_killed_router, tokens_through_a_killed_worker

MODEL = "smollm2-135m-instruct"
PROMPT = "The capital of France is"
PROMPT_TOKENS = 30
# Long enough to be seen running in the status.
LONG_TOKENS = 250
# Every feature of a worker before logit_bias.
FORMER_FEATURES = 63


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster("--prefill", 1, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB",
                 "--state-dir", tmp_path_factory.mktemp("journal") / "state") as running:
        yield running


@pytest.fixture(scope="module")
def openai_client(cluster):
    return openai.OpenAI(base_url=f"http://{cluster.http}/v1", api_key="none", max_retries=0)


def grpc_form(biases):
    return [{"id": token, "bias": bias} for token, bias in biases.items()]


def openai_form(biases):
    return {str(token): bias for token, bias in biases.items()}


def bans_of(tokens):
    """Bans every second one of the tokens."""
    return {token: -100 for token in sorted(set(tokens))[::2]}


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "top_p": 0.9, "seed": 7}])
def test_openais_client_and_grpc_give_the_same_tokens(client, openai_client, prose_ids, sampling):
    for number in range(4):
        prompt = prose_ids[number * PROMPT_TOKENS:(number + 1) * PROMPT_TOKENS]
        free = client.generate(prompt, {"max_tokens": 16, **sampling}).token_ids
        biases = {**bans_of(free), 260: 2.5, 28: -1}
        expected = client.generate(prompt, {"max_tokens": 16, **sampling, "logit_bias": grpc_form(biases)}).token_ids
        assert expected != free
        assert not set(expected) & {token for token, bias in biases.items() if bias == -100}
        answer = openai_client.completions.create(model=MODEL, prompt=prompt, max_tokens=16, **sampling,
                                                  logit_bias=openai_form(biases), extra_body={"return_token_ids": True})
        assert answer.choices[0].token_ids == expected


def test_a_forced_token_is_every_output_and_a_banned_one_none(client):
    free = client.generate(PROMPT, {"max_tokens": 8}).token_ids
    for temperature in (0, 1):
        forced = client.generate(PROMPT, {"max_tokens": 8, "ignore_eos": True, "temperature": temperature, "seed": 1,
                                          "logit_bias": [{"id": 4321, "bias": 100}]})
        assert forced.token_ids == [4321] * 8
    banned = client.generate(PROMPT, {"max_tokens": 8, "logit_bias": [{"id": free[0], "bias": -100}]}).token_ids
    assert banned[0] != free[0] and free[0] not in banned
    # One output needs no decode worker.
    assert client.generate(PROMPT, {"max_tokens": 1, "logit_bias": [{"id": 4321, "bias": 100}]}).token_ids == [4321]
    nothing = grpc_form({token: 0 for token in free})
    assert client.generate(PROMPT, {"max_tokens": 8, "logit_bias": nothing}).token_ids == free


def test_log_probabilities_are_those_without_the_bias(client):
    def first_output(**more):
        sampling = {"max_tokens": 1, "logprobs": 3, **more}
        (output,) = (response.output for response in client.start(client.generate_request(PROMPT, sampling))
                     if response.HasField("output") and response.output.tokens)
        return output.tokens[0]

    free = first_output()
    second = free.top_logprobs[1]
    biased = first_output(logit_bias=[{"id": free.id, "bias": -100}])
    assert (biased.id, biased.logprob) == (second.id, second.logprob)
    assert list(biased.top_logprobs) == list(free.top_logprobs)


def test_the_command_line_takes_biases():
    with Cluster("--mixed", 1, "--prefill", 0, "--decode", 0, "--threads", 1) as cluster:
        def generate(*flags):
            return run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 4, "--json",
                             *flags)

        forced = generate("--logit-bias", "4321=100", "--logit-bias", "5=-100")
        assert json.loads(forced.stdout)["token_ids"] == [4321] * 4, forced.stderr
        assert json.loads(generate("--logit-bias", "4321=100,5=-2.5").stdout)["token_ids"] == [4321] * 4
        for wrong in ("4321", "x=1", "4321=", "=1", "4321=much", "1.5=1"):
            refused = generate("--logit-bias", wrong)
            assert refused.returncode != 0 and "--logit-bias" in refused.stderr and wrong in refused.stderr, refused.stderr
        refused = generate("--logit-bias", "5=101")
        assert refused.returncode == 1 and "token 5 " in refused.stderr, refused.stderr


@pytest.mark.parametrize(("biases", "names"), [
    ({"49152": 1}, "49152"), ({"-1": 1}, "-1"), ({"5": 101}, "token 5 "), ({"five": 1}, "five"), ({"05": 1}, "05"),
    ({"5": "1"}, "token 5 "), ([5], "object"), ({str(token): 1 for token in range(1025)}, "1024"),
], ids=["too large", "negative", "above", "a word", "a zero in front", "a string", "a list", "too many"])
def test_openais_client_is_told_what_is_wrong(openai_client, biases, names):
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=1,
                                              logit_bias=biases)
    assert refused.value.param == "logit_bias" and names in refused.value.message, refused.value.message


@pytest.fixture(scope="module")
def long_request(client):
    """A long request with biases that matter, and what it gives where nothing fails."""
    sampling = {"max_tokens": LONG_TOKENS, "ignore_eos": True, "temperature": 0.9, "seed": 3}
    free = client.generate(PROMPT, sampling).token_ids
    sampling["logit_bias"] = grpc_form(bans_of(free))
    expected = client.generate(PROMPT, sampling, tenant="oracle").token_ids
    assert len(expected) == LONG_TOKENS and expected != free
    assert not set(expected) & {bias["id"] for bias in sampling["logit_bias"]}
    return sampling, expected


def test_a_killed_worker_changes_no_token(cluster, client, long_request):
    sampling, expected = long_request
    assert tokens_through_a_killed_worker(cluster, client, PROMPT, sampling) == expected


def test_a_killed_router_changes_no_token_of_a_kept_request(cluster, client, long_request):
    sampling, expected = long_request
    assert tokens_through_a_killed_router(cluster, client, PROMPT, sampling) == expected


def test_a_worker_that_does_not_know_it_gets_none(tmp_path):
    sampling = {"max_tokens": 4, "ignore_eos": True, "logit_bias": [{"id": 4321, "bias": 100}]}
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(RoleProcess("router", "--grpc-port", 0))
        former = stack.enter_context(former_worker(router.cluster_target, internal_messages(tmp_path), MODEL, FORMER_FEATURES))
        await_workers(router, 1)
        client = stack.enter_context(Client(router.target))
        with pytest.raises(grpc.RpcError) as refused:
            client.generate(PROMPT, sampling)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "of which 1 are of a version that does not know its logit_bias" in refused.value.details()
        assert not former.starts
        # What it does know comes to it.
        plain = client.start(client.generate_request(PROMPT, {"max_tokens": 4}))
        wait_until(lambda: former.starts, BACK_TIMEOUT_S, "a request without a bias")
        plain.cancel()
        stack.enter_context(RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1,
                                        "--kv-memory", "256MiB"))
        await_workers(router, 2)
        for _ in range(4):
            assert client.generate(PROMPT, sampling).token_ids == [4321] * 4
        assert len(former.starts) == 1
