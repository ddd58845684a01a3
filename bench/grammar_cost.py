#!/usr/bin/env python3
"""Measures what structured output costs the streams of a worker: the time of each token with a grammar beside that without.

    python3 bench/grammar_cost.py build/release/bin/baton
    python3 bench/grammar_cost.py build/release/bin/baton --grammars strings --new --pairs 24 --json >result.json

`baton bench serve` loads one cluster without and with a grammar in turn, with the same prompts, and every second pair begins
with the grammar. All streams of a run begin together, and the figure is their mean time per output token behind the first
one (TPOT). A grammar cannot end before --output-tokens, so the runs of a pair make equally many tokens; the tokens
themselves differ, because that is what a grammar is for.

All pairs have the same grammar, and a run before them has it too, so the worker knows most masks that they need. With --new
every pair has a grammar of its own: then compiling it and the first mask in each of its places count as well, and so they
do the more the shorter --output-tokens are.

- `strings`: a JSON Schema of a list of objects with strings of any length, numbers and lists;
- `lengths`: the same with a `maxLength`, where each length has masks of its own;
- `text`: a regular expression that allows any text of at least so many characters, which it counts.

The table has the median ratio of a pair with its 95 % interval, which rests on the ranks of the pairs alone and needs six
of them. The exit status is 0 when the upper ends of all intervals are below --limit, else 1. Run it on an idle machine: the
load generator, the router and the worker share its cores.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from paired_ratios import median_interval  # noqa: E402
from serving import BatonServer, load  # noqa: E402

# No object of the list has fewer tokens, by far.
LEAST_TOKENS_OF_ITEM = 4
# Few tokens have more characters, and only those of blanks.
CHARACTERS_OF_TOKEN = 16


def list_schema(number, output_tokens, text):
    members = {f"name_{number}": text, "age": {"type": "integer", "minimum": 0, "maximum": 150},
               "tags": {"type": "array", "items": text, "minItems": 1}, "colour": {"enum": ["red", "green", "blue"]}}
    schema = {"type": "array", "minItems": output_tokens // LEAST_TOKENS_OF_ITEM + 1,
              "items": {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}}
    return ["--json-schema", json.dumps(schema)]


def any_text(number, output_tokens):
    return ["--regex", f"(.|\\n){{{CHARACTERS_OF_TOKEN * output_tokens + number},}}"]


GRAMMARS = {
    "strings": lambda number, tokens: list_schema(number, tokens, {"type": "string"}),
    "lengths": lambda number, tokens: list_schema(number, tokens, {"type": "string", "maxLength": 40}),
    "text": any_text,
}


def run(binary, server, flags, output_tokens, seed):
    """Milliseconds per output token."""
    result = load(binary, server, [*flags, "--seed", seed])
    expected = result["num_prompts"] * output_tokens
    if result["failed"] or result["total_output_tokens"] != expected:
        raise RuntimeError(f"{result['failed']} requests failed, and {result['total_output_tokens']} tokens came instead of "
                           f"{expected}: {result['error_counts']}")
    return result["mean_tpot_ms"]


def run_pairs(args, server, name):
    """[(without, with the grammar), ...]: milliseconds per output token."""
    flags = ["--concurrency", args.concurrency, "--requests", args.concurrency, "--warmup", 0, "--prompt-tokens",
             args.prompt_tokens, "--output-tokens", args.output_tokens]
    run(args.binary, server, [*flags, *GRAMMARS[name](0, args.output_tokens)], args.output_tokens, args.pairs)
    pairs = []
    for number in range(args.pairs):
        grammar = GRAMMARS[name](number + 1 if args.new else 0, args.output_tokens)
        pair = {}
        for is_free in (True, False) if number % 2 == 0 else (False, True):
            pair[is_free] = run(args.binary, server, flags if is_free else [*flags, *grammar], args.output_tokens, number)
        pairs.append((pair[True], pair[False]))
        print(f"grammar_cost: {name}, pair {number + 1}/{args.pairs}: {pair[True]:.2f} and {pair[False]:.2f} ms a token",
              file=sys.stderr, flush=True)
    return pairs


def summarize(pairs, limit_percent):
    """What pairs of times per token without and with a grammar say."""
    ratios = [grammar / free for free, grammar in pairs]
    low, high, is_interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "is_interval_of_95": is_interval,
            "below_limit": is_interval and 100 * (high - 1) < limit_percent,
            "free_tpot_ms": statistics.median(free for free, _ in pairs),
            "grammar_tpot_ms": statistics.median(grammar for _, grammar in pairs), "pairs": pairs}


def table(found, limit_percent):
    lines = [("grammar", "pairs", "without, ms a token", "with, ms", "with / without", f"below {1 + limit_percent / 100:g}")]
    for name, of in found.items():
        verdict = ("yes" if of["below_limit"] else "no") if of["is_interval_of_95"] else "too few pairs"
        lines.append((name, str(len(of["pairs"])), f"{of['free_tpot_ms']:.2f}", f"{of['grammar_tpot_ms']:.2f}",
                      f"{of['ratio']:.3f} [{of['low']:.3f}, {of['high']:.3f}]", verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def measure(args):
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(
            BatonServer(args.binary, args.model, args.threads, ["--prefill", 0, "--decode", 0, "--mixed", 1],
                        Path(folder) / "log")) as server:
        return {name: summarize(run_pairs(args, server, name), args.limit) for name in args.grammars}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--threads", type=int, default=1, help="of the worker [1]")
    parser.add_argument("--grammars", nargs="+", choices=list(GRAMMARS), default=["strings", "lengths"])
    parser.add_argument("--new", action="store_true", help="every pair has a grammar that the worker has never seen")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--output-tokens", type=int, default=256)
    parser.add_argument("--limit", type=float, default=5, help="per cent of the time of a token [5]")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args)
    print(json.dumps(found) if args.json else table(found, args.limit))
    return 0 if all(of["below_limit"] for of in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
