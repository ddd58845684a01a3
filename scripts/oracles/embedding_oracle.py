#!/usr/bin/env python3
"""Writes tests/data/embeddings/MODEL.json: embeddings of texts under Hugging Face transformers in float32.

    python embedding_oracle.py MODEL.gguf tests/data/embeddings/MODEL.json

An embedding is the last hidden state of the last token, or the mean of those of all tokens, divided by its length. Where the
model adds BOS, that is one of the tokens.
"""

import json
import sys

import torch

import reference

TEXTS = [
    "The cat sleeps on the warm mat.",
    "A kitten is napping on a rug.",
    "The central bank raised interest rates.",
    "def add(a, b):\n    return a + b\n",
    "Été à Paris: 42 € pour un café ☕ et un croissant.",
    "x",
]


def rounded(vector):
    return [round(value, 5) for value in (vector / vector.norm()).tolist()]


@torch.inference_mode()
def embed(model, ids):
    states = model.model(torch.tensor([ids])).last_hidden_state[0].double()
    return {"last": rounded(states[-1]), "mean": rounded(states.mean(0))}


def main():
    path, target = sys.argv[1:]
    model, tokenizer, start = reference.load(path)
    texts = []
    for text in TEXTS:
        ids = start + reference.encode(tokenizer, text)
        texts.append({"text": text, "tokens": len(ids), **embed(model, ids)})
    about = f"{reference.versions()}; made by scripts/oracles/embedding_oracle.py, which says what they are"
    with open(target, "w", encoding="utf-8") as out:
        json.dump({"about": about, "texts": texts}, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
