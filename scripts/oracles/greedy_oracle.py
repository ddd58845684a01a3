#!/usr/bin/env python3
"""Writes the oracles of Baton's `fp32` mode: what Hugging Face transformers in float32 makes of the same GGUF file.

    python greedy_oracle.py MODEL.gguf tests/data/greedy/MODEL.json [tests/data/greedy/MODEL-logits.json]

The first file, for each of `cases`:
    name, text (raw prompt, special tokens parsed) and for chats also messages, ids (prompt tokens, BOS if the model adds it)
    tokens    the 48 greedy tokens; an end token is a token like any other, generation goes on after it
    top2      the two best ids at each position; the first is the token itself, but for an exact tie
    top2_logits, gaps (best logit minus second best), logprobs (of the token, natural logarithm)

How to test with it, at a threshold of 0.001 (`tie_gap`):
    1. Generate greedily with ignore_eos: tokens equal `tokens` up to, not including, the first position whose gap is
       below the threshold. There rounding may choose either of two.
    2. Teacher-forced: feed ids + tokens; at every position whose gap is at or above the threshold the argmax is the
       reference token.
Logits here come from one forward pass over ids + tokens. `noise` is how far the reference disagrees with itself when it
decodes over a KV cache instead: the largest absolute difference of a logit. The threshold is well above it.

The second file, to find where an engine goes wrong: for three prompts the last position's logits at 64 ids, the logsumexp
over the vocabulary, -log p of every prompt token from the second on, and what every layer leaves at the last position
(norm and first values; entry 0 is the embedding, the last is after the final norm).
"""

import json
import sys

import torch

import greedy_prompts
import reference
import tokenizer_oracle

TOKENS = 48
TIE_GAP = 0.001
SPOT_CHECKS = ["english", "code_cpp", "chat_turns"]
SPOT_IDS = list(range(5, 49152, 768))


def rounded(values, digits=5):
    return [round(float(v), digits) for v in values]


def render_chat(metadata, messages):
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens = metadata["ggml.tokens"]
    special = {
        "bos_token": tokens[metadata["ggml.bos_token_id"]],
        "eos_token": tokens[metadata["ggml.eos_token_id"]],
    }
    rendered, _ = render_jinja_template(
        conversations=[messages], chat_template=metadata["chat_template"], add_generation_prompt=True, **special
    )
    return rendered[0]


@torch.inference_mode()
def greedy(model, ids):
    """The greedy tokens and the logits that chose them, decoded one by one over a KV cache."""
    tokens, rows, cache, step = [], [], None, torch.tensor([ids])
    for _ in range(TOKENS):
        out = model(step, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        rows.append(out.logits[0, -1])
        tokens.append(int(rows[-1].argmax()))
        step = torch.tensor([[tokens[-1]]])
    return tokens, torch.stack(rows)


def make_case(model, ids):
    tokens, decoded = greedy(model, ids)
    forced = reference.logits(model, ids + tokens[:-1])[len(ids) - 1 :]
    best = forced.topk(2, dim=-1)
    gaps = best.values[:, 0] - best.values[:, 1]
    chosen = torch.tensor(tokens)
    # A reference that contradicts itself where there is no tie is useless.
    assert torch.all((best.indices[:, 0] == chosen) | (gaps < TIE_GAP / 2))
    logprobs = forced.log_softmax(-1)[torch.arange(TOKENS), chosen]
    case = {
        "ids": ids,
        "tokens": tokens,
        "top2": best.indices.tolist(),
        "top2_logits": [rounded(row) for row in best.values],
        "gaps": rounded(gaps),
        "logprobs": rounded(logprobs),
    }
    return case, float((forced - decoded).abs().max())


@torch.inference_mode()
def spot_check(model, ids):
    out = model(torch.tensor([ids]), output_hidden_states=True)
    logits = out.logits[0]
    nll = -logits[:-1].log_softmax(-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    last = [h[0, -1] for h in out.hidden_states]
    assert torch.allclose(model.lm_head(last[-1]), logits[-1], atol=1e-3), "the last entry is not the head's input"
    return {
        "ids": ids,
        "logits": rounded(logits[-1][SPOT_IDS]),
        "logsumexp": round(float(logits[-1].logsumexp(-1)), 5),
        "nll": rounded(nll),
        "layers": [{"norm": round(float(h.norm()), 5), "first": rounded(h[:8])} for h in last],
    }


def write(path, content):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(content, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


def main():
    path, target = sys.argv[1:3]
    model, tokenizer, start = reference.load(path)
    metadata = tokenizer_oracle.read_metadata(path)
    prompts = [{"name": name, "text": text} for name, text in greedy_prompts.texts().items()]
    for name, messages in greedy_prompts.CHATS.items() if "chat_template" in metadata else []:
        prompts.append({"name": name, "messages": messages, "text": render_chat(metadata, messages)})
    cases, checks, noise = [], [], 0.0
    for prompt in prompts:
        ids = start + reference.encode(tokenizer, prompt["text"])
        case, difference = make_case(model, ids)
        noise = max(noise, difference)
        cases.append({**prompt, **case})
        ties = sum(gap < TIE_GAP for gap in case["gaps"])
        print(
            f"{prompt['name']}: {len(ids)} tokens, {ties} ties, {difference:.1e}",
            repr(tokenizer.decode(case["tokens"])),
        )
        if prompt["name"] in SPOT_CHECKS:
            checks.append({"name": prompt["name"], **spot_check(model, ids)})
    about = f"{reference.versions()}; made by scripts/oracles/greedy_oracle.py, which says how to use it"
    oracle = {"about": about, "tie_gap": TIE_GAP, "noise": float(f"{noise:.2g}"), "cases": cases}
    write(target, oracle)
    if len(sys.argv) > 3:
        write(sys.argv[3], {"about": about, "vocabulary_ids": SPOT_IDS, "cases": checks})
    print(f"{len(cases)} cases, noise {noise:.1e}")


if __name__ == "__main__":
    main()
