#!/usr/bin/env python3
"""Compares the speed of two builds of Baton in alternating pairs.

    python3 bench/compare_builds.py OLD/bin/baton NEW/bin/baton
    python3 bench/compare_builds.py OLD NEW --figures prefill_512 serve_16 --pairs 4 --json >result.json

In each pair both builds measure the same figure, one right after the other; every second pair begins with the new
build. The ratio of a pair is the time that the new build takes over the time of the old one: 1.02 means that the new
build is 2 % slower. The table shows the median of all ratios and its 95 % interval, which rests on the ranks of the
ratios alone. Such an interval needs six pairs; with fewer, the table shows the smallest and the largest ratio.

CPU time is given per 1,000 tokens. For prefill and decode it is the time of the whole process, loading included. For
serve_16 it is the time of the router's and the workers' threads without the kernel threads, whose time varies with the
machine: the busiest threads of each worker, --threads of them, count as its kernel threads.

Two shares of serve_16 hardly vary with the speed of the machine, so that they show a cost of less than 1 % where times
cannot: how much of the servers' CPU time is spent besides the kernel threads, and how much of the cores' time is idle.
While kernels run the same instructions for a token, the throughput falls by about as many per cent as the two shares
grow by points, and by more where kernel threads wait for one that was interrupted. `valgrind --tool=callgrind` counts
the instructions of `baton bench engine`.

--old-flags and --new-flags compare two ways to serve, with one build for both. They are for the figures of a served
cluster, serve_16 and router_*. With --tls-ca among them the load generator speaks TLS:

    python3 bench/compare_builds.py BATON BATON --figures serve_16 --new-flags="--tls-cert C --tls-key K --tls-ca CA"
    python3 bench/compare_builds.py BATON BATON --figures serve_16 --old-flags="--transport tcp" --new-flags="--transport grpc"

router_N is the CPU time of the router's process for a token of N concurrent streams, router_idle the share of a core
that the router takes while its workers have nothing to do.

A figure is not slower when the upper end of its interval is below 1.03. When the interval is too wide to tell, that is
when it also reaches below 1.03, CPU time decides by the same rule. The exit status is 0 when no figure is slower. It
is 1 when one is, when that cannot be told, or when a measurement failed; 2 is wrong usage. What was measured until a
failure, Ctrl-C or SIGTERM is shown.

Run it on an idle machine. The load generator is the old build's for both, at nice 19; the result states its own cost.
"""

import argparse
import contextlib
import json
import os
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from core_time import busy_ns, core_ticks, cpu_of_processes_s, idle_share  # noqa: E402
from paired_ratios import compare, median_interval, table, verdict  # noqa: E402
from serving import CLOSED, BatonServer, load  # noqa: E402

ENGINE_TIMEOUT_S = 600
PREFILL_TOKENS, PREFILL_ROUNDS = 512, 5
DECODE_CONTEXT, DECODE_STEPS, DECODE_ROUNDS = 32, 128, 3
GENERATOR_NICENESS = 19
# Short prompts, so that nearly all the work of the router is for output tokens.
ROUTER_PROMPT_TOKENS, ROUTER_OUTPUT_TOKENS, ROUTER_MIN_REQUESTS = 32, 96, 8
IDLE_S = 5
# A failed measurement is repeated: on a busy machine the generator, at its niceness, may not connect in time.
ATTEMPTS, PAUSE_S = 3, 5


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def bench_engine(binary, options, flags):
    """The figures of one call, and the CPU seconds that its process took."""
    command = [binary, "bench", "engine", "--json", "--read-mib", 16, "--model", options.model, "--threads",
               options.threads, *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=ENGINE_TIMEOUT_S,
                          check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{binary} bench engine failed: {done.stderr.strip()}")
    return json.loads(done.stdout)["figures"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_cpu(times, cpu_s, tokens):
    return {"times": times, "cpu_ms_per_1000_tokens": 1e6 * cpu_s / tokens}


def measure_prefill(binary, options, seed):
    figures, cpu_s = bench_engine(binary, options, ["--only", "prefill", "--prefill", PREFILL_TOKENS, "--chunk-tokens",
                                                    PREFILL_TOKENS, "--decode", 1, "--rounds", PREFILL_ROUNDS,
                                                    "--seed", seed])
    # One round more warms up.
    return with_cpu({"prefill_512": time_of(figures[0])}, cpu_s, PREFILL_TOKENS * (PREFILL_ROUNDS + 1))


def measure_decode(streams):
    def measure_streams(binary, options, seed):
        figures, cpu_s = bench_engine(binary, options, ["--only", "decode", "--decode", streams, "--context",
                                                        DECODE_CONTEXT, "--decode-steps", DECODE_STEPS, "--rounds",
                                                        DECODE_ROUNDS, "--seed", seed])
        tokens = DECODE_ROUNDS * streams * (DECODE_CONTEXT + DECODE_STEPS)
        return with_cpu({f"decode_{streams}": time_of(figures[0])}, cpu_s, tokens)

    return measure_streams


def measure_handoff(binary, options, _seed):
    figures, _ = bench_engine(binary, options, ["--only", "handoff"])
    return {"times": {f"handoff_{figure['kind']}": time_of(figure) for figure in figures if "digests" not in figure}}


def measure_serve(binary, options, seed):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "serve.log"
        with contextlib.closing(BatonServer(binary, options.model, options.threads, options.roles, log)) as server:
            before, cores_before = busy_ns(server.process.pid), core_ticks()
            loaded = load(options.old, server,
                          ["--concurrency", CLOSED["concurrency"], "--requests", options.serve_requests,
                           "--prompt-tokens", CLOSED["prompt_tokens"], "--output-tokens", CLOSED["output_tokens"],
                           "--seed", seed], niceness=GENERATOR_NICENESS)
            idle = idle_share(cores_before, core_ticks())
            cpu = cpu_of_processes_s(before, busy_ns(server.process.pid), options.threads or os.cpu_count()).values()
    if loaded["failed"]:
        raise RuntimeError(f"{loaded['failed']} of the requests to {binary} failed")
    times = {"serve_16": {"value": loaded["output_throughput"], "unit": "tokens/s"},
             "serve_16_ttft": {"value": loaded["median_ttft_ms"], "unit": "ms"},
             "serve_16_tpot": {"value": loaded["median_tpot_ms"], "unit": "ms"}}
    tokens = loaded["total_input_tokens"] + loaded["total_output_tokens"]
    kernels_s, others_s = (sum(spent) for spent in zip(*cpu))
    shares = {"besides_kernels": 100 * others_s / (kernels_s + others_s), "idle": idle}
    return {**with_cpu(times, others_s, tokens), "generator_cores": loaded["generator_cores"], "shares": shares}


def measure_router(streams):
    def measure_streams(binary, options, seed):
        with router_under_test(binary, options, max_seqs=max(streams, 64)) as server:
            load(options.old, server, router_load(1, 8, seed), niceness=GENERATOR_NICENESS)
            before = router_ns(server)
            loaded = load(options.old, server, router_load(streams, ROUTER_OUTPUT_TOKENS, seed),
                          niceness=GENERATOR_NICENESS)
            spent_ns = router_ns(server) - before
        if loaded["failed"]:
            raise RuntimeError(f"{loaded['failed']} of the requests to {binary} failed")
        return {"times": {f"router_{streams}": {"value": spent_ns / 1e3 / loaded["total_output_tokens"], "unit": "us"}}}

    return measure_streams


def measure_idle_router(binary, options, _seed):
    with router_under_test(binary, options, max_seqs=64) as server:
        begin, before = time.monotonic(), router_ns(server)
        time.sleep(IDLE_S)
        spent_s, elapsed_s = (router_ns(server) - before) / 1e9, time.monotonic() - begin
    return {"times": {"router_idle": {"value": 100 * spent_s / elapsed_s, "unit": "% of a core"}}}


@contextlib.contextmanager
def router_under_test(binary, options, max_seqs):
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "serve.log"
        server = BatonServer(binary, options.model, options.threads, options.roles, log, max_seqs)
        with contextlib.closing(server):
            yield server


def router_load(streams, output_tokens, seed):
    return ["--concurrency", streams, "--requests", max(streams, ROUTER_MIN_REQUESTS), "--prompt-tokens",
            ROUTER_PROMPT_TOKENS, "--output-tokens", output_tokens, "--warmup", 0, "--seed", seed]


def router_ns(server):
    return sum(sum(threads.values()) for (is_worker, _), threads in busy_ns(server.process.pid).items()
               if not is_worker)


MEASURES = {
    "prefill_512": measure_prefill,
    "decode_1": measure_decode(1),
    "decode_32": measure_decode(32),
    "serve_16": measure_serve,
    "handoff": measure_handoff,
    "router_1": measure_router(1),
    "router_16": measure_router(16),
    "router_64": measure_router(64),
    "router_192": measure_router(192),
    "router_idle": measure_idle_router,
}
# How the names of figures begin that are measured at a cluster.
SERVED = ("serve_", "router_")
TIME_UNITS = ("ms", "us", "% of a core")


def time_of(figure):
    return {"value": figure["value"], "unit": figure["unit"]}


def as_time(entry):
    return entry["value"] if entry["unit"] in TIME_UNITS else 1 / entry["value"]


def summarize(pairs):
    """One row per figure of the runs {measure: [(old run, new run), ...]}."""
    rows = []
    for runs in filter(None, pairs.values()):
        cpu = None
        if "cpu_ms_per_1000_tokens" in runs[0][0]:
            cpu = compare([tuple(run["cpu_ms_per_1000_tokens"] for run in pair) for pair in runs])
        for name, first in runs[0][0]["times"].items():
            wall = compare([tuple(as_time(run["times"][name]) for run in pair) for pair in runs])
            for label in ("old", "new"):
                if first["unit"] not in TIME_UNITS:
                    wall[label] = 1 / wall[label]
            rows.append({"figure": name, "unit": first["unit"], "time": wall, "cpu_ms_per_1000_tokens": cpu,
                         "verdict": verdict(wall, cpu)})
    return rows


def summarize_shares(runs):
    """One row per share of the pairs `runs` of serve_16, with the difference in points."""
    rows = []
    for name in runs[0][0]["shares"] if runs else ():
        pairs = [(old["shares"][name], new["shares"][name]) for old, new in runs]
        differences = [new - old for old, new in pairs]
        low, high, is_interval = median_interval(differences)
        rows.append({"share": name, "unit": "%", "old": statistics.median(old for old, _ in pairs),
                     "new": statistics.median(new for _, new in pairs), "difference": statistics.median(differences),
                     "low": low, "high": high, "is_interval_of_95": is_interval, "pairs": pairs})
    return rows


def share_line(row):
    """One sentence of a row of summarize_shares. The table above it explains the brackets."""
    of = {"besides_kernels": "The servers spent {} % of their CPU time besides the kernel threads",
          "idle": "The cores were idle for {} % of the time"}[row["share"]]
    shares = of.format(f"{row['old']:.2f} -> {row['new']:.2f}")
    return f"{shares}: {row['difference']:+.2f} points [{row['low']:+.2f}, {row['high']:+.2f}]."


def side_of(options, label):
    """The options of one side of a pair, whose roles have its flags of serve as well."""
    binary, flags = (options.old, options.old_flags) if label == "old" else (options.new, options.new_flags)
    return binary, argparse.Namespace(**{**vars(options), "roles": [*options.roles, *flags]})


def measure(name, label, options, seed):
    binary, options = side_of(options, label)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return MEASURES[name](binary, options, seed)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            say(f"{name}, {label}, attempt {attempt} of {ATTEMPTS}: {error}")
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_S)


def measure_pairs(options, runs):
    """Adds to {measure: [(old run, new run), ...]}. Figures take turns, so that each sees the machine at all times."""
    for number in range(options.pairs):
        for name in options.figures:
            pair = {}
            for label in ("old", "new") if number % 2 == 0 else ("new", "old"):
                pair[label] = measure(name, label, options, options.seed + number)
                shown = ", ".join(f"{key} {entry['value']:.4g} {entry['unit']}"
                                  for key, entry in pair[label]["times"].items())
                say(f"pair {number + 1}/{options.pairs}, {label}: {shown}")
            runs[name].append((pair["old"], pair["new"]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the baton binary to compare with")
    parser.add_argument("new", help="the baton binary under test")
    parser.add_argument("--figures", nargs="+", choices=list(MEASURES), default=list(MEASURES), metavar="FIGURE",
                        help=f"which to measure, from {', '.join(MEASURES)} (all)")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of each figure (12)")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a model file, directory or store name")
    parser.add_argument("--threads", type=int, default=0, help="kernel threads of each process; 0: one a core (0)")
    parser.add_argument("--serve-requests", type=int, default=CLOSED["requests"],
                        help=f"requests of one run of serve_16 ({CLOSED['requests']})")
    parser.add_argument("--roles", default="--prefill 1 --decode 1", type=str.split,
                        help='flags of serve that set the workers ("--prefill 1 --decode 1")')
    for label in ("old", "new"):
        parser.add_argument(f"--{label}-flags", default=[], type=shlex.split,
                            help=f"further flags of serve for the {label} build, of the figures of a served cluster")
    parser.add_argument("--seed", type=int, default=1, help="of the first pair's prompts; each pair adds one (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all pairs, not the table")
    options = parser.parse_args()
    if options.pairs < 1 or options.threads < 0 or options.serve_requests < 1:
        parser.error("--pairs and --serve-requests are at least 1, --threads at least 0")
    if (options.old_flags or options.new_flags) and not all(name.startswith(SERVED) for name in options.figures):
        parser.error(f"--old-flags and --new-flags are for the --figures that begin with {' or '.join(SERVED)}")
    for binary in (options.old, options.new):
        if not os.access(binary, os.X_OK):
            parser.error(f"{binary} is not an executable file")
    return options


def main():
    options = parse_arguments()
    # Without this, SIGTERM would leave the servers under test behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs = {name: [] for name in options.figures}
    complete = False
    try:
        measure_pairs(options, runs)
        complete = True
    except (RuntimeError, subprocess.TimeoutExpired, KeyboardInterrupt):
        say("ended early: these are the pairs until then")
    rows = summarize(runs)
    generator = [run["generator_cores"] for pair in runs.get("serve_16", []) for run in pair]
    generator_cores = statistics.median(generator) if generator else None
    shares = summarize_shares(runs.get("serve_16", []))
    if options.json:
        about = {key: getattr(options, key)
                 for key in ("old", "new", "old_flags", "new_flags", "model", "threads", "seed")}
        print(json.dumps({**about, "complete": complete, "generator_cores": generator_cores, "figures": rows,
                          "shares": shares}))
    elif rows:
        print(table(rows))
        print("".join(share_line(row) + "\n" for row in shares), end="")
        if generator:
            print(f"The load generator took {generator_cores:.2f} cores (median).")
    return 0 if complete and all(row["verdict"].startswith("not slower") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
