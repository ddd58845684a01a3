"""lm-eval's own models for OpenAI's API against a cluster: log-likelihoods of continuations by /v1/completions, which are those
that gRPC gives, and generation by /v1/chat/completions. Its tokenizer is the one that the router serves."""

import importlib.util
import json
import pathlib

import pytest
import yaml

from client import Client
from cluster import Cluster

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None,
    reason="lm-eval is not installed, and is too large for every run: pip install 'lm-eval[api]==0.4.13'; "
           "test_prompt_logprobs.py sends what it sends")

MODEL = "smollm2-135m-instruct"
TASKS = pathlib.Path(__file__).parent / "lm_eval_tasks"
# lm-eval adds numbers of six digits.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB") as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def offline(tmp_path_factory):
    """No data set comes from elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        patch.setenv("OPENAI_API_KEY", "none")
        yield


def evaluate(cluster, model, path, task, arguments=None, **more):
    """The samples of a task of TASKS, and its metrics; `arguments` are the model's."""
    import lm_eval
    config = yaml.safe_load((TASKS / f"{task}.yaml").read_text())
    config["dataset_kwargs"] = {"data_files": {"test": str(TASKS / "capitals.json")}}
    arguments = {"base_url": f"http://{cluster.http}{path}", "model": MODEL, "max_retries": 1, "num_concurrent": 4,
                 **(arguments or {})}
    results = lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=[config], log_samples=True, bootstrap_iters=0,
                                      **more)
    (samples,) = results["samples"].values()
    (metrics,) = results["results"].values()
    return samples, metrics


def likelihood_of(client, context, continuation):
    """The continuation's log-likelihood and whether greedy decoding would give it, by gRPC."""
    tokens = []
    request = client.generate_request(context + continuation, {"max_tokens": 1, "prompt_logprobs": 1})
    for response in client.start(request):
        tokens += response.output.prompt.tokens
    count = len(client.call("baton.v1.GenerationService", "Tokenize", text=context).token_ids)
    return sum(token.logprob for token in tokens[count:]), all(token.rank == 1 for token in tokens[count:])


@pytest.mark.parametrize("tokenized", [True, False])
def test_log_likelihoods_are_those_that_grpc_gives(cluster, tokenized):
    samples, metrics = evaluate(cluster, "local-completions", "/v1/completions", "capitals", {"tokenized_requests": tokenized})
    assert len(samples) == 6
    with Client(cluster.target) as client:
        for sample in samples:
            for argument, response in zip(sample["arguments"].values() if isinstance(sample["arguments"], dict) else
                                          sample["arguments"], sample["filtered_resps"]):
                context, continuation = argument.values() if isinstance(argument, dict) else argument
                likelihood, is_greedy = likelihood_of(client, context, continuation)
                assert float(response[0]) == pytest.approx(likelihood, abs=TOLERANCE)
                assert str(response[1]) == str(is_greedy)
    oracle = json.loads((pathlib.Path(__file__).parents[1] / f"data/lm_eval/{MODEL}.json").read_text())
    assert metrics["acc,none"] == oracle["acc"]


def test_chats_are_gone_on_with(cluster):
    samples, _ = evaluate(cluster, "local-chat-completions", "/v1/chat/completions", "completions", apply_chat_template=True)
    assert len(samples) == 6
    assert all(sample["resps"][0][0].strip() for sample in samples)
