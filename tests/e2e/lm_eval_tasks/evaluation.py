"""What lm-eval makes of the tasks beside this file: a module for scripts/oracles/lm_eval_oracle.py, and a program for
test_lm_eval.py, which runs it in lm-eval's own environment:

    evaluation.py RESULT.json '{"model": "local-completions", "task": "capitals", "model_args": {...}}'
"""

import json
import pathlib
import sys

import lm_eval
import yaml

TASKS = pathlib.Path(__file__).resolve().parent


def choices_of(sample):
    """What the model says of each choice of a question."""
    arguments = sample["arguments"].values() if isinstance(sample["arguments"], dict) else sample["arguments"]
    for argument, (likelihood, is_greedy) in zip(arguments, sample["filtered_resps"], strict=True):
        context, continuation = argument.values() if isinstance(argument, dict) else argument
        yield {"context": context, "continuation": continuation, "likelihood": round(float(likelihood), 5),
               "is_greedy": str(is_greedy) == "True"}


def evaluate(task, **more):
    """Of the task `capitals` its accuracy, `acc`, and all `choices`; of `chats` the share of right answers, `exact_match`, and
    all `answers`, as they were given. `more` goes to lm_eval.simple_evaluate."""
    config = yaml.safe_load((TASKS / f"{task}.yaml").read_text())
    config["dataset_kwargs"] = {"data_files": {"test": str(TASKS / "capitals.json")}}
    results = lm_eval.simple_evaluate(tasks=[config], log_samples=True, bootstrap_iters=0, **more)
    (samples,) = results["samples"].values()
    (metrics,) = results["results"].values()
    samples.sort(key=lambda sample: sample["doc_id"])
    if config["output_type"] == "generate_until":
        (score,) = (value for name, value in metrics.items() if name.startswith("exact_match,"))
        return {"exact_match": score, "answers": [sample["resps"][0][0] for sample in samples]}
    return {"acc": metrics["acc,none"], "choices": [choice for sample in samples for choice in choices_of(sample)]}


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(json.dumps(evaluate(**json.loads(sys.argv[2]))), encoding="utf-8")
