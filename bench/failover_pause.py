#!/usr/bin/env python3
"""Measures how long a stream pauses when its decode worker is lost, and when its sequence moves with its KV.

    python3 bench/failover_pause.py build/release/bin/baton
    python3 bench/failover_pause.py build/release/bin/baton --prompts 100 2000 --rounds 9 --json >result.json

A cluster has one prefill and two decode workers. In a round of a prompt's length, one stream runs, and after --after of
its tokens the worker that decodes it is killed (`lost`: the prompt and the outputs are computed again elsewhere) or ended
by SIGTERM (`moved`: the other worker pulls the KV that is there). The pause is the longest time between two tokens. The
difference of both is about what a copy of the KV on a second worker, kept all the time, could save at a failure.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from serving import BatonServer  # noqa: E402

ROLES = ["--prefill", 1, "--decode", 2]
KINDS = {"lost": signal.SIGKILL, "moved": signal.SIGTERM}
READY_TIMEOUT_S = 60
# Any ids of the vocabulary do, because only times are measured.
FIRST_ID, IDS = 1000, 20000


def say(text):
    print(f"failover_pause: {text}", file=sys.stderr, flush=True)


def decode_workers(binary, server):
    """The decode workers that serve, as `baton status` has them."""
    done = subprocess.run([binary, "status", *server.load_flags, "--json"], capture_output=True, text=True, check=True)
    workers = json.loads(done.stdout)["workers"]
    return [one for one in workers if one["role"] == "decode" and one["state"] == "serving"]


def wait_for_workers(binary, server):
    deadline = time.monotonic() + READY_TIMEOUT_S
    while len(decode_workers(binary, server)) < 2:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the decode workers did not serve again within {READY_TIMEOUT_S} s")
        time.sleep(0.1)


def busy_worker(binary, server):
    (busy,) = [one for one in decode_workers(binary, server) if one["running"] > 0]
    return busy


def pause_ms(binary, server, options, prompt_tokens, number, end):
    """The longest time between two tokens of a stream whose worker gets the signal `end`."""
    ids = ",".join(str(FIRST_ID + (number * 7919 + i * 104729) % IDS) for i in range(prompt_tokens))
    command = [binary, "generate", *server.load_flags, "--token-ids", ids, "--max-tokens", options.output_tokens,
               "--ignore-eos", "--jsonl"]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as client:
        arrivals = []
        for line in client.stdout:
            if "token_ids" not in json.loads(line):
                continue
            arrivals.append(time.monotonic())
            if len(arrivals) == options.after:
                os.kill(busy_worker(binary, server)["pid"], end)
    if client.returncode != 0 or len(arrivals) <= options.after:
        raise RuntimeError(f"the stream ended with exit code {client.returncode} after {len(arrivals)} messages")
    return 1e3 * max(after - before for before, after in zip(arrivals[1:], arrivals[2:]))


def measure(binary, options):
    pauses_ms = {kind: {tokens: [] for tokens in options.prompts} for kind in KINDS}
    with tempfile.NamedTemporaryFile(prefix="baton-pause-") as log, contextlib.closing(
            BatonServer(binary, options.model, options.threads, ROLES, log.name,
                        prefix_cache=not options.no_prefix_cache)) as server:
        for number in range(options.rounds):
            for tokens in options.prompts:
                for kind, end in KINDS.items():
                    wait_for_workers(binary, server)
                    pauses_ms[kind][tokens].append(pause_ms(binary, server, options, tokens, number, end))
                say(f"round {number + 1}/{options.rounds}, {tokens} tokens: " +
                    ", ".join(f"{kind} {pauses_ms[kind][tokens][-1]:.0f} ms" for kind in KINDS))
    return pauses_ms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the baton binary under test")
    parser.add_argument("--prompts", nargs="+", type=int, default=[100, 500, 2000], help="tokens of each prompt")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each prompt (7)")
    parser.add_argument("--output-tokens", type=int, default=300, help="tokens of a stream (300)")
    parser.add_argument("--after", type=int, default=50, help="the worker ends after so many messages (50)")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a model file, directory or store name")
    parser.add_argument("--threads", type=int, default=0, help="kernel threads of each worker; 0: one a core (0)")
    parser.add_argument("--no-prefix-cache", action="store_true", help="a prompt is computed as if it had never been")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all pauses, not the table")
    return parser.parse_args()


def main():
    options = parse_arguments()
    pauses_ms = measure(options.binary, options)
    if options.json:
        print(json.dumps(pauses_ms))
        return
    print("prompt  " + "".join(f"{kind + ', median (most), ms':>28}" for kind in KINDS))
    for tokens in options.prompts:
        print(f"{tokens:<8}" + "".join(f"{statistics.median(ms):>20.0f} ({max(ms):.0f})"
                                       for ms in (pauses_ms[kind][tokens] for kind in KINDS)))


if __name__ == "__main__":
    main()
