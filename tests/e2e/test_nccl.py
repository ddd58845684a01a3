"""KV over `--transport nccl`, with a stand-in of NCCL's C interface (tests/nccl): the tokens of other transports, whatever NCCL
reports or keeps to itself and whoever dies; and what a worker says where there is no NCCL that it can use."""

import concurrent.futures
import os
import pathlib
import signal

import pytest

from certificates import Authority
from client import Client
from cluster import ALL_LOG_BYTES, BINARY, SOURCE_DIR, Cluster, await_workers, run_baton, wait_until
from streams import Streams, await_no_block_held, learned_requests, run

SEED = 20261126
REQUESTS = 12
ROUNDS = 2
MAX_OUTPUT = 12
CLIENTS = 4
STREAMS = 8
WORKERS = 3
RETURN_TIMEOUT_S = 90
DAMAGED = "baton_transfer_damaged_blocks_total"
FAILED = "baton_transfer_failures_total"
# The stand-in's line for each.
FLIPPED = "the stand-in of NCCL has flipped a bit"
ROLES = ("--prefill", 1, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0,
         # Every prompt is handed over.
         "--local-prefill-tokens", 0)
STAND_IN = pathlib.Path(BINARY).resolve().parents[1] / "tests" / "libbaton_nccl_stand_in.so"
REAL = [path for path in map(pathlib.Path, ("/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2"))
        if path.exists()]


def nccl_cluster(fault=""):
    return Cluster(*ROLES, "--transport", "nccl",
                   env={"BATON_NCCL_LIBRARY": str(STAND_IN), "BATON_STAND_IN_NCCL_FAULT": fault})


@pytest.fixture(scope="module")
def requests(prose_ids):
    print(f"seed {SEED}")
    drawn = learned_requests(SEED, prose_ids, REQUESTS, (*ROLES, "--transport", "shm"), max_tokens=MAX_OUTPUT)
    # A request that ends with its first token leaves its hand-off in the middle, whatever was read.
    return [request for request in drawn if len(request.expected.tokens) > 1]


# Each hand-off moves a megabyte or two.
@pytest.mark.parametrize("fault, counter", [("", None), ("bit-flip:2000000", DAMAGED),
                                            ("network-error:9000000", FAILED)])
def test_tokens_are_those_of_shared_memory(requests, fault, counter):
    # The hand-offs of a communicator fail together, so several at a time could fail one request more often than it is tried.
    # With several, the bytes of the others could also bring each read of one block to where the next bit flips.
    clients = 1 if fault else CLIENTS
    with nccl_cluster(fault) as cluster, Client(cluster.target) as client, \
            concurrent.futures.ThreadPoolExecutor(clients) as pool:
        # At its start a worker measures the transport with bytes that mean nothing.
        flipped_before = cluster.log(ALL_LOG_BYTES).count(FLIPPED)
        # A tenant of its own has no prefix in a cache, so that each prompt is read.
        runs = [(request, f"{turn}") for turn in range(ROUNDS) for request in requests]
        for (request, _), answer in zip(runs, pool.map(lambda one: run(client, *one), runs)):
            assert answer.error is None, answer.error
            assert answer.content() == request.expected.content()
        moved = cluster.decoders_count("baton_transfers_total", transport="nccl")
        print(f"{moved} hand-offs over NCCL's stand-in, {cluster.decoders_count(counter) if counter else 'no'} faults")
        assert moved >= len(runs) // 2 and moved == cluster.decoders_count("baton_transfers_total")
        assert counter is None or cluster.decoders_count(counter) > 0
        if counter == DAMAGED:
            flipped = cluster.log(ALL_LOG_BYTES).count(FLIPPED) - flipped_before
            print(f"{flipped} bits flipped")
            assert flipped == cluster.decoders_count(DAMAGED) and cluster.decoders_count(FAILED) == 0
        await_no_block_held(cluster.target, WORKERS)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_streams_outlive_a_killed_worker_with_exactly_the_same_tokens(requests, role):
    with nccl_cluster() as cluster, Client(cluster.target) as client:
        with Streams(client, requests, STREAMS) as streams:
            wait_until(lambda: cluster.decoders_count("baton_transfers_total", transport="nccl") >= STREAMS,
                       RETURN_TIMEOUT_S, "hand-offs")
            pid = next(worker["pid"] for worker in cluster.workers() if worker["role"] == role)
            os.kill(pid, signal.SIGKILL)
            await_workers(cluster, WORKERS, RETURN_TIMEOUT_S, gone=pid)
            moved = cluster.decoders_count("baton_transfers_total", transport="nccl")
            wait_until(lambda: cluster.decoders_count("baton_transfers_total", transport="nccl") >= moved + STREAMS,
                       RETURN_TIMEOUT_S, "hand-offs after the fault")
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        await_no_block_held(cluster.target, WORKERS)


def test_with_certificates_only_the_bytes_are_in_plain_text(tmp_path):
    issued = Authority(tmp_path).issue("router", "prefill-worker", "decode-worker", "client")
    with Cluster(*ROLES, "--transport", "nccl", "--insecure-kv-transport", *issued.flags,
                 env={"BATON_NCCL_LIBRARY": str(STAND_IN)}) as cluster:
        result = run_baton("generate", "--target", cluster.target, "--tls-ca", issued.ca, "--prompt",
                           "The capital of France is", "--max-tokens", 8)
        assert result.returncode == 0 and "Paris" in result.stdout, result.stderr


@pytest.mark.parametrize("library, says", [
    ("/nonexistent/libnccl.so.2", "cannot load NCCL"),
    (SOURCE_DIR / "LICENSE", "cannot load NCCL"),
    ("libm.so.6", "is not NCCL"),
    *((path, "is in host memory") for path in REAL[:1])])
def test_worker_without_an_nccl_that_it_can_use_says_so_in_a_line(library, says):
    refused = run_baton("prefill-worker", "--router", "127.0.0.1:9", "--threads", 1, "--transport", "nccl",
                        env={"BATON_NCCL_LIBRARY": str(library)})
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert "--transport nccl" in last and says in last and str(library) in last, refused.stderr
