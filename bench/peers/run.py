#!/usr/bin/env python3
"""Baton's engine beside OpenVINO GenAI: same model, cores and shapes, in turns. Needs only Python's standard library.

    bench/peers/run.py [--rounds 5] [--threads 2] [--out results.json]

Makes the peer's own environment and its copies of the model (Q8_0 and Q4_0: it cannot read Q4_1) below
${BATON_CACHE_DIR:-~/.cache/baton}/peers, then measures round by round, who goes first changing with each:
    prefill     a prompt of 512 tokens, to its first token
    decode_1    1 stream behind a prompt of 32 tokens, 128 steps
    decode_32   32 streams behind prompts of 32 tokens, 256 steps
Prints a Markdown table of medians and the ratio to the faster of the peer's two copies; --out takes every run.
Baton's figures come from `engine_bench`: the engine alone, which neither samples nor schedules. The peer's include
both. `busy_cores` is what other processes took just before a measurement: figures of a busy machine are worth little.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(
    os.environ.get("BATON_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "baton"
)
STORE = Path(
    os.environ.get("BATON_MODEL_STORE")
    or Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "baton/models"
)
PEERS = CACHE / "peers"
MODEL = "smollm2-135m-instruct"
PEER_TYPES = ["Q8_0", "Q4_0"]
FIGURES = {"prefill": "prefill, 512 tokens", "decode_1": "decode, 1 stream", "decode_32": "decode, 32 streams"}
# One call of engine_bench for each figure, with the shape that the peer runs.
OUR_SHAPES = {
    "prefill": ["--prompt", "512", "--decode", "1"],
    "decode_1": ["--prompt", "32", "--decode", "128"],
    "decode_32": ["--prompt", "32", "--decode", "256"],
}
IDLE_SAMPLE_S = 1.0
QUIET_CORES = 0.2
MEASURE_TIMEOUT_S = 600


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def make_environment(name):
    """A virtual environment that holds what requirements_NAME.txt asks for; returns its Python."""
    wanted, folder = HERE / f"requirements_{name}.txt", PEERS / name
    stamp, python = folder / ".requirements", folder / "bin/python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        say(f"creating the environment of {name}")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", wanted]
        subprocess.run(install, check=True)
        stamp.write_text(wanted.read_text())
    return python


def make_copy(python, source, kind):
    target = PEERS / f"{source.stem}.{kind}.gguf"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        say(f"requantizing {source.name} to {kind}")
        subprocess.run([python, HERE / "requantize.py", source, target, kind], check=True)
    return target


def cpu_ticks():
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), sum(fields) - fields[3] - fields[4]


def busy_cores():
    total, busy = cpu_ticks()
    time.sleep(IDLE_SAMPLE_S)
    total_after, busy_after = cpu_ticks()
    return round((busy_after - busy) / max(1, total_after - total) * (os.cpu_count() or 1), 2)


def wait_until_quiet(limit_s):
    """What other processes take, once that is little or `limit_s` seconds have passed."""
    deadline = time.monotonic() + limit_s
    while (busy := busy_cores()) > QUIET_CORES and time.monotonic() < deadline:
        pass  # busy_cores itself takes a second
    return busy


class OpenVino:
    """A child process that stays up between rounds, so its model is compiled once."""

    def __init__(self, python, model, threads, seed):
        command = [python, HERE / "openvino_peer.py", model, str(threads), str(seed)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self):
        self.child.stdin.write("round\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("peers: error: openvino_peer.py ended; its message is above")
        return figures(json.loads(line))

    def close(self):
        self.child.stdin.close()
        self.child.wait(timeout=60)


class Baton:
    def __init__(self, binary, model, threads):
        self.command = [binary, "--model", model, "--threads", str(threads), "--repeat", "1", "--json"]

    def measure(self):
        out = {}
        for name, shape in OUR_SHAPES.items():
            done = subprocess.run(self.command + shape, check=True, capture_output=True, timeout=MEASURE_TIMEOUT_S)
            out[name] = figures(json.loads(done.stdout))[name]
        return out

    def close(self):
        pass


def figures(result):
    """{"prefill": 1, ...} of an object whose keys are like `prefill_512_tokens_per_s`."""
    found = {}
    for name in FIGURES:
        keys = [k for k in result if k.startswith(name + "_") and "tokens_per_s" in k]
        if len(keys) != 1:
            raise SystemExit(f"peers: error: no single {name} figure among {sorted(result)}")
        found[name] = result[keys[0]]
    return found


def measure_rounds(systems, rounds, wait_s):
    runs = []
    order = list(systems)
    for number in range(rounds):
        for name in order:
            busy = wait_until_quiet(wait_s)
            values = systems[name].measure()
            runs.append({"round": number, "system": name, "busy_cores": busy, **values})
            shown = ", ".join(f"{k} {v:.0f}" for k, v in values.items())
            say(f"round {number + 1}/{rounds}, {name}: {shown} tokens/s ({busy} cores busy before)")
        order = order[1:] + order[:1]
    return runs


def summarize(runs, systems):
    summary = {}
    for system in systems:
        rows = [run for run in runs if run["system"] == system]
        summary[system] = {}
        for name in FIGURES:
            values = [run[name] for run in rows]
            summary[system][name] = {
                "median": round(statistics.median(values), 2),
                "best": round(max(values), 2),
                "worst": round(min(values), 2),
            }
    return summary


def ratios(summary):
    """Baton's median over the better median of the peer's copies."""
    if "Baton" not in summary:
        return {}
    peers = [system for system in summary if system != "Baton"]
    out = {}
    for name in FIGURES:
        best = max(summary[peer][name]["median"] for peer in peers)
        out[name] = round(summary["Baton"][name]["median"] / best, 3)
    return out


def table(summary, ratio):
    heads = ["tokens/s, median (best)", *summary, *(["ratio to the faster peer"] if ratio else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for name, title in FIGURES.items():
        cells = [f"{s[name]['median']:.1f} ({s[name]['best']:.1f})" for s in summary.values()]
        if ratio:
            cells.append(f"{ratio[name]:.2f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def parse_arguments():
    parser = argparse.ArgumentParser(description="Baton's engine beside OpenVINO GenAI")
    parser.add_argument("--model", type=Path, default=STORE / f"{MODEL}.gguf", help="the GGUF file that Baton serves")
    parser.add_argument("--engine-bench", type=Path, default=ROOT / "build/release/bin/engine_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of each system")
    parser.add_argument("--wait-s", type=float, default=0, help="longest wait for a quiet machine, each measurement")
    parser.add_argument("--types", nargs="+", choices=PEER_TYPES, default=PEER_TYPES, help="the peer's copies")
    parser.add_argument("--peer-only", action="store_true", help="leave Baton out")
    parser.add_argument("--seed", type=int, help="of the peer's prompts; drawn and printed when not given")
    parser.add_argument("--out", type=Path, help="JSON with every run")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    if not arguments.model.is_file():
        parser.error(f"no model at {arguments.model}: run scripts/fetch_model.sh {MODEL}")
    if not arguments.peer_only and not arguments.engine_bench.is_file():
        parser.error(f"no {arguments.engine_bench}: run scripts/build.sh, or give --peer-only")
    return arguments


def main():
    arguments = parse_arguments()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    say(f"seed {seed}")
    python = make_environment("openvino")
    copies = {kind: make_copy(python, arguments.model, kind) for kind in arguments.types}
    with contextlib.ExitStack() as stack:
        systems = {}
        if not arguments.peer_only:
            systems["Baton"] = Baton(arguments.engine_bench, arguments.model, arguments.threads)
        for i, (kind, copy) in enumerate(copies.items()):
            peer = OpenVino(python, copy, arguments.threads, seed + i)
            stack.callback(peer.close)
            systems[f"OpenVINO {kind}"] = peer
        runs = measure_rounds(systems, arguments.rounds, arguments.wait_s)
    summary = summarize(runs, systems)
    ratio = ratios(summary)
    print(table(summary, ratio))
    if arguments.out:
        versions = (HERE / "requirements_openvino.txt").read_text().split()
        about = {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "threads": arguments.threads,
            "seed": seed,
            "peer": versions,
        }
        results = {"about": about, "tokens_per_s": summary, "ratio": ratio, "runs": runs}
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
