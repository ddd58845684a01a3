"""aiperf, a load generator of others, drives the HTTP port for a minute without an error, and measures what `baton bench serve`
measures, within 10 %.

The streams are those of workers that make tokens on a clock, so that neither the engine nor the processor time that the
generators take decides what there is to measure. aiperf brings more than a gigabyte of packages, so the test runs only when
BATON_AIPERF names the Python of an environment with bench/peers/requirements_aiperf.txt, as in test.sh --full.
"""

import json
import os
import pathlib
import subprocess

import pytest

from cluster import SOURCE_DIR, RoleProcess, run_baton
from paced_worker import MODEL, TOKENS_A_SECOND, PacedWorkers

PYTHON = os.environ.get("BATON_AIPERF", "")
SECONDS, CONCURRENCY, PROMPT_TOKENS, OUTPUT_TOKENS = 60, 16, 32, 16
WITHIN = 0.1
STORE = pathlib.Path(os.environ.get("BATON_MODEL_STORE") or
                     pathlib.Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "baton/models")

pytestmark = pytest.mark.skipif(not PYTHON, reason="BATON_AIPERF names the Python of an environment with aiperf")


def by_aiperf(router, folder):
    """(output tokens a second, median of the first token and of the whole answer in milliseconds, requests)"""
    tokenizer = folder / "tokenizer"
    subprocess.run([PYTHON, SOURCE_DIR / "bench/peers/hf_tokenizer.py", STORE / f"{MODEL}.gguf", tokenizer], check=True)
    command = [pathlib.Path(PYTHON).with_name("aiperf"), "profile", "--model", MODEL, "--url", f"http://{router.http}",
               "--endpoint-type", "completions", "--streaming", "--tokenizer", tokenizer, "--use-server-token-count",
               "--concurrency", CONCURRENCY, "--isl", PROMPT_TOKENS, "--isl-stddev", 0, "--osl", OUTPUT_TOKENS,
               "--osl-stddev", 0, "--extra-inputs", "ignore_eos:true", "--benchmark-duration", SECONDS, "--ui", "none",
               "--output-artifact-dir", folder / "results"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    found = json.loads((folder / "results/profile_export_aiperf.json").read_text())
    assert not found["error_summary"] and found["request_error_rate"]["avg"] == 0, found["error_summary"]
    assert found["output_sequence_length"]["min"] == found["output_sequence_length"]["max"] == OUTPUT_TOKENS
    return (found["output_token_throughput"]["avg"], found["time_to_first_token"]["p50"], found["request_latency"]["p50"],
            found["request_count"]["avg"])


def by_baton(router, requests):
    result = run_baton("bench", "serve", "--json", "--backend", "openai", "--base-url", f"http://{router.http}/v1",
                       "--concurrency", CONCURRENCY, "--requests", requests, "--prompt-tokens", PROMPT_TOKENS,
                       "--output-tokens", OUTPUT_TOKENS, timeout_s=300)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["failed"] == 0
    return found["output_throughput"], found["median_ttft_ms"], found["median_e2el_ms"]


def test_aiperf_measures_what_baton_measures(tmp_path):
    with RoleProcess("router", "--grpc-port", 0, "--cluster-port", 0, "--worker-silence-ms", 10_000) as router, \
            PacedWorkers(router, "active"):
        *theirs, requests = by_aiperf(router, tmp_path)
        ours = by_baton(router, int(requests))
    print(f"{requests:.0f} requests at {TOKENS_A_SECOND} tokens/s a stream; output tokens/s, first token and whole answer in "
          f"ms: aiperf {theirs}, baton bench serve {ours}")
    for name, there, here in zip(("output tokens/s", "first token", "whole answer"), theirs, ours, strict=True):
        assert abs(there / here - 1) <= WITHIN, (name, there, here)
