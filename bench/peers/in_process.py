"""Measures prefill and decode inside each system's own process: the same shapes, in turns.

A shape is (streams, prompt tokens, new tokens). Prefill is all prompt tokens over the time to the first token of the
last prompt; decode is all tokens after the first of each stream over the time they took.
"""

import contextlib
import json
import os
import signal
import subprocess

from environments import say

SHAPES = {
    "prefill_512": (1, 512, 1),
    "prefill_8x2048": (8, 2048, 1),
    "decode_1": (1, 32, 128),
    "decode_32": (32, 32, 256),
}
TITLES = {
    "prefill_512": "prefill, 512 tokens",
    "prefill_8x2048": "prefill, 8 x 2,048 tokens",
    "decode_1": "decode, 1 stream",
    "decode_32": "decode, 32 streams",
}
# On a shared machine, measurements of a second or two differ by half, so these parts have this many times the rounds.
TIMES_THE_ROUNDS = {"prefill_512": 3, "decode_1": 3}
MEASURE_TIMEOUT_S = 300
END_TIMEOUT_S = 30


def tokens_per_s(shape, first_s, rest_s):
    streams, prompt_tokens, new_tokens = shape
    return streams * prompt_tokens / first_s if new_tokens == 1 else streams * (new_tokens - 1) / rest_s


class Child:
    """A peer in a child process that stays up between rounds, so that its model is compiled once.

    It is stopped while others are measured, because threads of some peers spin when they have nothing to do.
    """

    def __init__(self, python, script, model, threads, seed):
        command = [str(word) for word in (python, script, model, threads, seed)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      start_new_session=True)
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        """Sends a signal to the child and to its own children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    def measure(self, shape):
        self.signal(signal.SIGCONT)
        try:
            return self.run(shape)
        finally:
            self.signal(signal.SIGSTOP)

    def run(self, shape):
        self.child.stdin.write(" ".join(map(str, shape)) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError("the peer ended; its message is above")
        answer = json.loads(line)
        return tokens_per_s(shape, answer["first_s"], answer["rest_s"])

    def close(self):
        self.signal(signal.SIGCONT)
        self.child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(timeout=END_TIMEOUT_S)
        self.signal(signal.SIGKILL)
        self.child.wait()


class LlamaCpp:
    """llama.cpp's own benchmark of batches. It leaves sampling out, which is to its advantage."""

    def __init__(self, folder, model, threads):
        self.command = [folder / "llama-batched-bench", "-m", model, "-t", threads, "-tb", threads, "-b", 2048,
                        "-ub", 512, "--output-format", "jsonl"]

    def measure(self, shape):
        streams, prompt_tokens, new_tokens = shape
        lengths = ["-npp", prompt_tokens, "-ntg", new_tokens, "-npl", streams,
                   "-c", streams * (prompt_tokens + new_tokens)]
        done = subprocess.run([str(word) for word in self.command + lengths], check=True, capture_output=True,
                              text=True, timeout=MEASURE_TIMEOUT_S)
        result = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
        return result["speed_pp"] if new_tokens == 1 else result["speed_tg"]

    def close(self):
        pass


class Baton:
    """`baton bench engine`: with scheduling and greedy sampling."""

    CHUNK_TOKENS = 512

    def __init__(self, binary, model, threads):
        self.command = [binary, "bench", "engine", "--json", "--model", model, "--threads", threads, "--rounds", 1,
                        "--read-mib", 64]

    def measure(self, shape):
        streams, prompt_tokens, new_tokens = shape
        if new_tokens == 1:
            lengths = ["--only", "prefill", "--prefill", f"{streams}x{prompt_tokens}", "--chunk-tokens",
                       self.CHUNK_TOKENS]
        else:
            lengths = ["--only", "decode", "--decode", streams, "--context", prompt_tokens, "--decode-steps",
                       new_tokens - 1]
        done = subprocess.run([str(word) for word in self.command + lengths], check=True, capture_output=True,
                              text=True, timeout=MEASURE_TIMEOUT_S)
        return json.loads(done.stdout)["figures"][0]["value"]

    def close(self):
        pass


def measure(systems, part, rounds, turn):
    """Tokens per second of every system, round by round. The order changes. `turn` guards each measurement."""
    runs = {name: [] for name in systems}
    order = list(systems)
    rounds *= TIMES_THE_ROUNDS.get(part, 1)
    for number in range(rounds):
        for name in order:
            with turn() as busy:
                value = systems[name].measure(SHAPES[part])
            runs[name].append({"tokens_per_s": round(value, 2), "busy_cores_before": busy})
            say(f"{part}, round {number + 1}/{rounds}, {name}: {value:.1f} tokens/s ({busy} cores busy before)")
        order = order[1:] + order[:1]
    return runs
