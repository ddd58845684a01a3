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
from lm_eval.models.huggingface import HFLM

import reference
import tokenizer_oracle

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests/e2e/lm_eval_tasks"))

from evaluation import evaluate  # noqa: E402


def main():
    path, target = sys.argv[1:]
    model, tokenizer, _ = reference.load(path)
    special = json.loads(tokenizer.to_str())["added_tokens"]
    end = next(token["content"] for token in special if token["content"] == "<|im_end|>")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, pad_token=end)
    fast.chat_template = tokenizer_oracle.read_metadata(path)["chat_template"]
    wrapped = HFLM(pretrained=model, tokenizer=fast, batch_size=1)
    oracle = {
        "about": f"lm-eval {lm_eval.__version__}, {reference.versions()}; made by scripts/oracles/lm_eval_oracle.py",
        **evaluate("chats", model=wrapped, apply_chat_template=True),
        **evaluate("capitals", model=wrapped),
    }
    with open(target, "w", encoding="utf-8") as out:
        json.dump(oracle, out, indent=1)
        out.write("\n")
    print(oracle["acc"], oracle["exact_match"], oracle["answers"])


if __name__ == "__main__":
    main()
