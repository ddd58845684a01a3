"""KV over `--transport rdma`, by the calls that UCX has for adapters, over loopback: the tokens of other transports, whoever
is killed, and one line where no adapter is."""

import pathlib
import random

import pytest

from client import Client
from cluster import RDMA_OVER_LOOPBACK, Cluster, await_workers, kill_busy, run_baton, wait_until
from streams import Streams, await_no_block_held, draw_requests, learn_answers

SEED = 20261129
ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0,
         # Every prompt is handed over.
         "--local-prefill-tokens", 0)
WORKERS = 4
REQUESTS = 8
STREAMS = 6
TIMEOUT_S = 90


@pytest.fixture(scope="module")
def requests(prose_ids):
    print(f"seed {SEED}")
    drawn = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        learn_answers(client, drawn)
    return drawn


def test_streams_have_the_tokens_of_other_transports_whoever_is_killed(requests):
    with Cluster(*ROLES, "--transport", "rdma", env=RDMA_OVER_LOOPBACK) as cluster, Client(cluster.target) as client:
        with Streams(client, requests, STREAMS) as streams:
            for role in ("prefill", "decode"):
                handed_over = cluster.decoders_count("baton_transfers_total", transport="rdma")
                wait_until(lambda: cluster.decoders_count("baton_transfers_total", transport="rdma") > handed_over,
                           TIMEOUT_S, "a hand-off over RDMA")
                kill_busy(cluster, role)
                streams.await_turn(TIMEOUT_S)
            await_workers(cluster, WORKERS, TIMEOUT_S)
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        await_no_block_held(cluster.target, WORKERS)
        print(streams.pauses())


@pytest.mark.skipif(pathlib.Path("/sys/class/infiniband").exists(), reason="this machine has an adapter")
def test_a_worker_without_an_adapter_says_so_in_a_line():
    refused = run_baton("prefill-worker", "--router", "127.0.0.1:9", "--threads", 1, "--transport", "rdma")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert "--transport rdma: UCX finds no InfiniBand or RoCE adapter" in last, refused.stderr
    assert "choose auto, shm, tcp, grpc or nccl" in last
