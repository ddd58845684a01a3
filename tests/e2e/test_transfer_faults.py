"""Bits flip, old bytes come for new ones, and reads fail in the hand-off, on each transport. Every fault that is planted is
found, damaged blocks are read again, and every answer is as it is where nothing fails. BATON_FULL_TESTS=1 sends three times
as many requests."""

import concurrent.futures
import os
import random

import pytest

from client import Client
from cluster import ALL_LOG_BYTES, RDMA_OVER_LOOPBACK, Cluster, wait_until
from streams import draw_requests, learn_answers, run

SEED = 20261125
REQUESTS = 16
ROUNDS = 3 if os.environ.get("BATON_FULL_TESTS") == "1" else 1
MAX_OUTPUT = 12
CLIENTS = 4
FREE_TIMEOUT_S = 20
ROLES = ("--prefill", 1, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0,
         # Every prompt is handed over.
         "--local-prefill-tokens", 0)
DAMAGED = "baton_transfer_damaged_blocks_total"
FAILED = "baton_transfer_failures_total"
# A worker's line for each fault (kvtransfer/test_transfer_faults.h).
PLANTED = "a test has planted a fault in read "
# A fetch that ends early has so many other reads in flight at the most, which nobody looks at (KvSinkOptions).
OTHER_READS = 3


@pytest.fixture(scope="module")
def requests(prose_ids):
    print(f"seed {SEED}")
    drawn = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    for request in drawn:
        request.sampling["max_tokens"] = MAX_OUTPUT
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        learn_answers(client, drawn)
        assert cluster.decoders_count(DAMAGED) == cluster.decoders_count(FAILED) == 0
        assert PLANTED not in cluster.log(ALL_LOG_BYTES)
    # A request that ends with its first token leaves its hand-off in the middle, whatever was read.
    return [request for request in drawn if len(request.expected.tokens) > 1]


def found_all(planted, cluster, fault):
    """Whether the workers say that they have found every fault."""
    damaged, failed = cluster.decoders_count(DAMAGED), cluster.decoders_count(FAILED)
    if fault == "error":
        return failed == planted and damaged == 0
    unseen = OTHER_READS * failed
    # A flipped bit is one damaged block, old bytes are all blocks of a read.
    return planted - unseen <= damaged and (fault == "stale" or damaged <= planted)


@pytest.mark.parametrize("transport", ["shm", "tcp", "rdma", "grpc"])
@pytest.mark.parametrize("fault, counter", [("flip:3", DAMAGED), ("stale:3", DAMAGED), ("error:9", FAILED)])
def test_no_fault_of_a_transfer_shows_in_an_answer(requests, transport, fault, counter):
    with Cluster(*ROLES, "--transport", transport, env={"BATON_TEST_TRANSFER_FAULTS": fault, **RDMA_OVER_LOOPBACK}) as cluster, \
            Client(cluster.target) as client, concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        # A tenant of its own has no prefix in a cache, so that each prompt is read.
        runs = [(request, f"{turn}") for turn in range(ROUNDS) for request in requests]
        for (request, _), answer in zip(runs, pool.map(lambda one: run(client, *one), runs)):
            assert answer.error is None, answer.error
            assert answer.content() == request.expected.content()
        planted, failed = cluster.log(ALL_LOG_BYTES).count(PLANTED), cluster.decoders_count(FAILED)
        print(f"{transport}, {fault}: {len(runs)} answers are right, {planted} faults planted, {counter} "
              f"{cluster.decoders_count(counter)}, {failed} hand-offs failed")
        assert planted >= ROUNDS
        assert found_all(planted, cluster, fault.partition(":")[0])
        wait_until(lambda: not any(worker["used_blocks"] for worker in cluster.workers()), FREE_TIMEOUT_S, "free blocks")
