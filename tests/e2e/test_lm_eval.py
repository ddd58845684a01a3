"""lm-eval's own models for OpenAI's API against a cluster that computes in fp32: its scores are those that it computes with
Hugging Face transformers from the same weights in float32, by log-likelihoods over /v1/completions and by chats over
/v1/chat/completions. Its tokenizer is the one that the router serves.

lm-eval brings 760 MB of packages, so the test runs only when BATON_LM_EVAL names the Python of an environment with
scripts/lm_eval_requirements.txt, as in test.sh --full. test_prompt_logprobs.py sends what it sends, in every run.
"""

import json
import os
import pathlib
import subprocess

import pytest

from cluster import SOURCE_DIR, Cluster

PYTHON = os.environ.get("BATON_LM_EVAL", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="BATON_LM_EVAL names the Python of an environment with lm-eval")

MODEL = "smollm2-135m-instruct"
ORACLE = json.loads((SOURCE_DIR / f"tests/data/lm_eval/{MODEL}.json").read_text())
PROGRAM = pathlib.Path(__file__).parent / "lm_eval_tasks/evaluation.py"
TIMEOUT_S = 300
# Of a log-likelihood.
TOLERANCE = 5e-4


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB", "--numerics", "fp32") as running:
        yield running


def evaluate(cluster, folder, model, path, task, arguments=None, **more):
    """What evaluation.py says of a task. No data set comes from elsewhere."""
    asked = {"model": model, "task": task, **more,
             "model_args": {"base_url": f"http://{cluster.http}{path}", "model": MODEL, "max_retries": 1, "num_concurrent": 4,
                            **(arguments or {})}}
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder), "OPENAI_API_KEY": "none"}
    done = subprocess.run([PYTHON, PROGRAM, folder / "result.json", json.dumps(asked)], env=env, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize("tokenized", [True, False])
def test_scores_by_log_likelihoods_are_those_of_transformers(cluster, tmp_path, tokenized):
    found = evaluate(cluster, tmp_path, "local-completions", "/v1/completions", "capitals", {"tokenized_requests": tokenized})
    assert found["acc"] == ORACLE["acc"]
    for got, wanted in zip(found["choices"], ORACLE["choices"], strict=True):
        assert {**got, "likelihood": None} == {**wanted, "likelihood": None}
    far = [abs(got["likelihood"] - wanted["likelihood"]) for got, wanted in zip(found["choices"], ORACLE["choices"])]
    print(f"the largest difference of {len(far)} log-likelihoods is {max(far):.6f}")
    assert max(far) < TOLERANCE, far


def test_scores_by_chats_are_those_of_transformers(cluster, tmp_path):
    found = evaluate(cluster, tmp_path, "local-chat-completions", "/v1/chat/completions", "chats", apply_chat_template=True)
    assert found == {name: ORACLE[name] for name in ("exact_match", "answers")}
