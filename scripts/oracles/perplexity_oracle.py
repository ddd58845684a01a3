#!/usr/bin/env python3
"""Writes tests/data/prose/MODEL.json: the perplexity of a text under Hugging Face transformers in float32.

    python perplexity_oracle.py MODEL.gguf tests/data/prose/english.txt tests/data/prose/MODEL.json

The file is encoded whole, as UTF-8 and without a BOS token, then cut into windows of 1,024 tokens; the last is shorter.
Where the model adds BOS, it is the first of each window's tokens (`start`). A window knows nothing of the ones before it. Each is scored from its second token on: nll is the sum of -log p (natural
logarithm) of these tokens given the window's tokens before them, and perplexity = exp(sum of nll / sum of scored).
"""

import json
import math
import sys

import torch

import reference

WINDOW = 1024


@torch.inference_mode()
def window_nll(model, ids):
    total = 0.0
    # In parts: a window's logits over a large vocabulary fill gigabytes as doubles.
    for logits, targets in zip(reference.logits(model, ids)[:-1].split(64), torch.tensor(ids[1:]).split(64)):
        total += float(-logits.double().log_softmax(-1)[torch.arange(len(targets)), targets].sum())
    return total


def main():
    path, text_path, target = sys.argv[1:]
    model, tokenizer, start = reference.load(path)
    with open(text_path, encoding="utf-8", newline="") as text:
        ids = reference.encode(tokenizer, text.read())
    windows = []
    step = WINDOW - len(start)
    for begin in range(0, len(ids), step):
        window = start + ids[begin : begin + step]
        windows.append({"begin": begin, "scored": len(window) - 1, "nll": round(window_nll(model, window), 4)})
    scored = sum(w["scored"] for w in windows)
    oracle = {
        "about": f"{reference.versions()}; made by scripts/oracles/perplexity_oracle.py, which says how it is counted",
        "window": WINDOW,
        "start": start,
        "tokens": len(ids),
        "scored": scored,
        "perplexity": round(math.exp(sum(w["nll"] for w in windows) / scored), 5),
        "windows": windows,
        "ids": ids,
    }
    with open(target, "w", encoding="utf-8") as out:
        json.dump(oracle, out, separators=(",", ":"))
        out.write("\n")
    print({k: v for k, v in oracle.items() if k != "ids"})


if __name__ == "__main__":
    main()
