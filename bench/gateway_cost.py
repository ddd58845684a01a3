#!/usr/bin/env python3
"""Measures what it costs a client that it speaks OpenAI's API by HTTP instead of Baton's own gRPC.

    python3 bench/gateway_cost.py build/release/bin/baton
    python3 bench/gateway_cost.py build/release/bin/baton --pairs 24 --concurrency 1 --output-tokens 1 --json >result.json

`baton bench serve` loads one cluster by gRPC and by HTTP in turn, with the same requests, and every second pair begins with
HTTP. The table has both medians of the output tokens a second and of the time to the first token, and the median ratio or
difference of a pair with its 95 % interval. The interval rests on the ranks of the pairs alone, and needs six of them.

Run it on an idle machine: the load generator, the router and the workers share its cores.
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

VOCABULARY = 49152


class ByHttp:
    """The same server, as a client of OpenAI's API reaches it."""

    def __init__(self, http):
        self.load_flags = ["--backend", "openai", "--base-url", f"http://{http}/v1", "--vocab-size", VOCABULARY]


def run_pair(binary, ways, flags, number):
    """(by gRPC, by HTTP) of one pair: output tokens a second and milliseconds to the first token."""
    results = {}
    for way in ("grpc", "http") if number % 2 == 0 else ("http", "grpc"):
        result = load(binary, ways[way], [*flags, "--seed", number])
        if result["failed"]:
            raise RuntimeError(f"{result['failed']} requests failed by {way}")
        results[way] = (result["output_throughput"], result["median_ttft_ms"])
    return results["grpc"], results["http"]


def summarize(pairs):
    """What pairs of (throughput, first token) by gRPC and by HTTP say."""
    ratios = [http[0] / grpc[0] for grpc, http in pairs]
    added_ms = [http[1] - grpc[1] for grpc, http in pairs]
    found = {"pairs": len(pairs)}
    for name, values in (("throughput_ratio", ratios), ("added_ttft_ms", added_ms)):
        low, high, is_interval = median_interval(values)
        found[name] = {"median": statistics.median(values), "low": low, "high": high, "is_interval_of_95": is_interval}
    for index, way in enumerate(("grpc", "http")):
        found[way] = {"output_throughput": statistics.median(pair[index][0] for pair in pairs),
                      "median_ttft_ms": statistics.median(pair[index][1] for pair in pairs)}
    return found


def table(found):
    ratio, added = found["throughput_ratio"], found["added_ttft_ms"]
    return "\n".join([
        f"{found['pairs']} pairs               gRPC       HTTP",
        f"  output tokens/s   {found['grpc']['output_throughput']:8.1f}   {found['http']['output_throughput']:8.1f}   "
        f"ratio {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]",
        f"  first token, ms   {found['grpc']['median_ttft_ms']:8.2f}   {found['http']['median_ttft_ms']:8.2f}   "
        f"added {added['median']:.2f} ms [{added['low']:.2f}, {added['high']:.2f}]"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--threads", type=int, default=1, help="of the worker [1]")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--requests", type=int, default=32, help="of each run [32]")
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    flags = ["--concurrency", args.concurrency, "--requests", args.requests, "--prompt-tokens", args.prompt_tokens,
             "--output-tokens", args.output_tokens]
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(
            BatonServer(args.binary, args.model, args.threads, ["--prefill", 0, "--decode", 0, "--mixed", 1],
                        Path(folder) / "log")) as server:
        ways = {"grpc": server, "http": ByHttp(server.http)}
        pairs = [run_pair(args.binary, ways, flags, number) for number in range(args.pairs)]
    found = summarize(pairs)
    print(json.dumps(found) if args.json else table(found))


if __name__ == "__main__":
    main()
