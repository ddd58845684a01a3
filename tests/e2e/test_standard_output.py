"""Results that could not be written are a failure, on a full disk and behind a closed pipe."""

import os
import subprocess

import pytest

from cluster import BINARY

CLUSTER_ARGS = ("--threads", 1, "--mixed", 1, "--prefill", 0, "--decode", 0, "--kv-memory", "36MiB")
OFFLINE = [("version",), ("--version",), ("--help",), ("serve", "--help"), ("inspect",), ("inspect", "--json"), ("models",),
           ("models", "--json"),
           ("tokenize", "--text", "x"), ("tokenize", "--text", "x", "--json"), ("detokenize", "--token-ids", "1,2")]
SHORT = ("--prompt", "Once", "--max-tokens", 4)
ONLINE = [("status",), ("status", "--json"), ("generate", *SHORT), ("generate", *SHORT, "--json"),
          ("generate", *SHORT, "--jsonl"),
          ("bench", "serve", "--requests", 1, "--warmup", 0, "--prompt-tokens", 8, "--output-tokens", 2, "--json")]


def run_to(stdout, args, **kwargs):
    # The interpreter ignores SIGPIPE; a shell, and what subprocess starts, does not.
    return subprocess.run([BINARY, *map(str, args)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          timeout=60, check=False, restore_signals=True, **kwargs)


def run_to_full_disk(args):
    with open("/dev/full", "wb") as full:
        return run_to(full, args)


def run_to_closed_pipe(args):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return run_to(writing, args)
    finally:
        os.close(writing)


def assert_fails(args):
    result = run_to_full_disk(args)
    last = result.stderr.decode().splitlines()[-1:]
    assert result.returncode == 1, (args, result)
    assert last == ["baton: cannot write to standard output: No space left on device"], (args, result)
    result = run_to_closed_pipe(args)
    assert result.returncode == 1, (args, result)
    assert b"Broken pipe" not in result.stderr, "who closed the pipe knows"


@pytest.mark.parametrize("args", OFFLINE, ids=" ".join)
def test_a_command_without_a_router_fails(args):
    assert_fails(args)


@pytest.mark.parametrize("args", ONLINE, ids=lambda args: " ".join(map(str, args)))
def test_a_command_of_a_router_fails(cluster, args):
    assert_fails((*args, "--target", cluster.target))


def test_serve_ends_when_its_ready_line_cannot_be_written():
    result = run_to_full_disk(("serve", "--grpc-port", 0, *CLUSTER_ARGS))
    assert result.returncode == 1
    assert result.stderr.decode().splitlines()[-1] == "baton: cannot write to standard output: No space left on device"


def test_generation_ends_when_nobody_reads_it(cluster):
    """A long answer is not computed to its end for a reader that has gone."""
    result = run_to_closed_pipe(("generate", "--target", cluster.target, "--prompt", "Once", "--max-tokens", 4000,
                                 "--ignore-eos"))
    assert result.returncode == 1


def test_a_closed_standard_output_is_an_error():
    result = subprocess.run(["sh", "-c", '"$0" version >&-', BINARY], stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1 and b"cannot write to standard output" in result.stderr
