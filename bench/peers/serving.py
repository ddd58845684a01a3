"""Loads servers with `baton bench serve`: in a closed loop, and in an open loop at rising rates."""

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request

from environments import say

# At its first start, vLLM compiles for minutes.
READY_TIMEOUT_S = 400
STOP_TIMEOUT_S = 60
LOAD_TIMEOUT_S = 900
VOCABULARY = 49152
SLO_TTFT_MS, SLO_TPOT_MS, SLO_SHARE = 1500, 40, 0.9
# Requests per second. A system tries these rates up to the first that it misses. The highest rate that it holds lies
# between that one and the one before: REFINEMENTS times the middle is tried.
REFINEMENTS = 3
RATES = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8, 10]
OPEN_LOOP_S = 30
MIN_REQUESTS = 16
CLOSED = {"concurrency": 16, "prompt_tokens": 256, "output_tokens": 128, "requests": 48}
OPEN = {"prompt_tokens": 512, "output_tokens": 128}
SLOTS = 16


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process. `load_flags` tell `baton bench serve` how to reach it."""

    def __init__(self, command, log):
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class BatonServer(Server):
    def __init__(self, binary, model, threads, roles, log, max_seqs=64, prefix_cache=False):
        cache = [] if prefix_cache else ["--no-prefix-cache"]
        super().__init__([binary, "serve", model, "--threads", threads, "--grpc-port", 0, "--max-seqs", max_seqs,
                          "--kv-memory", "1GiB", *cache, *roles], log)
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"baton serve did not become ready: see {log}")
        ready = json.loads(line.removeprefix("ready "))
        # A load generator needs the authority of a server with certificates, which is a flag of `serve` and of its own.
        tls = ["--tls-ca", roles[roles.index("--tls-ca") + 1]] if "--tls-ca" in roles else []
        self.load_flags = ["--target", ready["grpc"], *tls]
        # For clients of OpenAI's API.
        self.http = ready.get("http")


class OpenAiServer(Server):
    """A server that speaks OpenAI's completions API on `port`. Its stdout goes to the log."""

    def __init__(self, command, port, log):
        super().__init__(["sh", "-c", 'exec "$@" >&2', "sh", *command], log)
        self.load_flags = ["--backend", "openai", "--base-url", f"http://127.0.0.1:{port}/v1", "--vocab-size",
                           VOCABULARY]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.answers(port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError(f"{command[0]} did not become ready: see {log}")
            time.sleep(0.5)

    @staticmethod
    def answers(port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


def llama_server(folder, model, threads, log):
    port = free_port()
    tokens_each = max(sum(s[k] for k in ("prompt_tokens", "output_tokens")) for s in (CLOSED, OPEN)) + 64
    command = [folder / "llama-server", "-m", model, "-t", threads, "-tb", threads, "-np", SLOTS, "-c",
               SLOTS * tokens_each, "-b", 2048, "-ub", 512, "--cache-ram", 0, "--host", "127.0.0.1", "--port", port]
    return OpenAiServer(command, port, log)


def vllm_server(python, model, threads, log):
    port = free_port()
    environment = ["env", "VLLM_CPU_KVCACHE_SPACE=2", f"VLLM_CPU_OMP_THREADS_BIND=0-{threads - 1}"]
    command = [*environment, python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--dtype",
               "bfloat16", "--max-model-len", 4096, "--max-num-batched-tokens", 2048, "--max-num-seqs", 64,
               "--no-enable-prefix-caching", "--host", "127.0.0.1", "--port", port]
    return OpenAiServer(command, port, log)


def load(binary, server, flags, niceness=0):
    command = ["nice", "-n", niceness, binary, "bench", "serve", "--json", *server.load_flags, "--slo-ttft-ms",
               SLO_TTFT_MS, "--slo-tpot-ms", SLO_TPOT_MS, *flags]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LOAD_TIMEOUT_S,
                          check=False)
    if not done.stdout:
        raise RuntimeError(f"baton bench serve failed: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    if not result["completed"]:
        raise RuntimeError(f"no request completed: {done.stderr.strip()}")
    return result


def closed_loop(binary, server, seed):
    return load(binary, server, ["--concurrency", CLOSED["concurrency"], "--requests", CLOSED["requests"],
                                 "--prompt-tokens", CLOSED["prompt_tokens"], "--output-tokens",
                                 CLOSED["output_tokens"], "--seed", seed])


def open_loop(binary, server, rate, seed):
    requests = max(MIN_REQUESTS, round(rate * OPEN_LOOP_S))
    return load(binary, server, ["--request-rate", rate, "--requests", requests, "--prompt-tokens",
                                 OPEN["prompt_tokens"], "--output-tokens", OPEN["output_tokens"], "--seed", seed])


def holds(result):
    return result["failed"] == 0 and result["slo_attainment"] >= SLO_SHARE


def measure_closed(starters, binary, rounds, seed, turn):
    """Returns {name: [result, ...]}. Every round starts and loads the server of each system once."""
    runs = {name: [] for name in starters}
    order = list(starters)
    for number in range(rounds):
        for name in order:
            with turn() as busy, contextlib.closing(starters[name]()) as server:
                result = closed_loop(binary, server, seed + number)
            runs[name].append({**result, "busy_cores_before": busy})
            say(f"serve_16, round {number + 1}/{rounds}, {name}: {result['output_throughput']:.1f} output tokens/s, "
                f"TTFT p50 {result['median_ttft_ms']:.0f} ms, TPOT p50 {result['median_tpot_ms']:.1f} ms")
        order = order[1:] + order[:1]
    return runs


def next_rate(results, rates):
    """The rate to try after `results`: the next of `rates` or, once one is missed, the middle between held and missed.

    None when that is done.
    """
    missed = [r["rate"] for r in results if not holds(r)]
    held = max((r["rate"] for r in results if holds(r)), default=0)
    if not missed:
        return next((rate for rate in rates if rate > held), None)
    refined = sum(r["rate"] not in rates for r in results)
    return (held + min(missed)) / 2 if refined < REFINEMENTS else None


def measure_open(starters, binary, rates, seed, turn):
    """Returns {name: [result, ...]} for the rates that next_rate names. The systems take turns."""
    runs = {name: [] for name in starters}
    while wanted := {name: rate for name in runs if (rate := next_rate(runs[name], rates)) is not None}:
        for name, rate in wanted.items():
            with turn() as busy, contextlib.closing(starters[name]()) as server:
                result = open_loop(binary, server, rate, seed)
            runs[name].append({**result, "rate": rate, "busy_cores_before": busy})
            say(f"open_loop, {name} at {rate:g}/s: {100 * result['slo_attainment']:.0f} % within the objective, TTFT "
                f"p90 {result['p90_ttft_ms']:.0f} ms, TPOT p90 {result['p90_tpot_ms']:.1f} ms")
    return runs
