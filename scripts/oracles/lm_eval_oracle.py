#!/usr/bin/env python3
"""Writes tests/data/lm_eval/MODEL.json: what lm-eval makes of the tasks in tests/e2e/lm_eval_tasks with Hugging Face
transformers in float32.

    python lm_eval_oracle.py MODEL.gguf tests/data/lm_eval/MODEL.json

Environment: requirements.txt beside this file, and lm-eval 0.4.13.
"""

import json
import pathlib
import sys

import lm_eval
import transformers
import yaml
from lm_eval.models.huggingface import HFLM

import reference

TASKS = pathlib.Path(__file__).resolve().parents[2] / "tests/e2e/lm_eval_tasks"


def evaluate(model, task, **more):
    config = yaml.safe_load((TASKS / f"{task}.yaml").read_text())
    config["dataset_kwargs"] = {"data_files": {"test": str(TASKS / "capitals.json")}}
    results = lm_eval.simple_evaluate(model=model, tasks=[config], log_samples=True, bootstrap_iters=0, **more)
    (samples,) = results["samples"].values()
    (metrics,) = results["results"].values()
    return samples, metrics


def main():
    path, target = sys.argv[1:]
    model, tokenizer, _ = reference.load(path)
    special = json.loads(tokenizer.to_str())["added_tokens"]
    end = next(token["content"] for token in special if token["content"] == "<|im_end|>")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)
    wrapped = HFLM(pretrained=model, tokenizer=fast, batch_size=1)
    samples, metrics = evaluate(wrapped, "capitals")
    choices = []
    for sample in samples:
        for (context, continuation), (likelihood, is_greedy) in zip(
                (tuple(argument.values()) if isinstance(argument, dict) else argument
                 for argument in (sample["arguments"].values() if isinstance(sample["arguments"], dict)
                                  else sample["arguments"])), sample["filtered_resps"]):
            choices.append({"context": context, "continuation": continuation, "likelihood": round(float(likelihood), 5),
                            "is_greedy": str(is_greedy) == "True"})
    oracle = {
        "about": f"lm-eval {lm_eval.__version__}, {reference.versions()}; made by scripts/oracles/lm_eval_oracle.py",
        "acc": metrics["acc,none"],
        "choices": choices,
    }
    with open(target, "w", encoding="utf-8") as out:
        json.dump(oracle, out, indent=1)
        out.write("\n")
    print(metrics)


if __name__ == "__main__":
    main()
