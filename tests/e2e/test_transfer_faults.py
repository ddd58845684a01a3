"""Bits flip, old bytes come for new ones, and reads fail in the hand-off, on each transport. Every damaged block is found and
read again, and every answer is as it is where nothing fails."""

import concurrent.futures
import random

import pytest

from client import Client
from cluster import Cluster, wait_until
from streams import draw_requests, learn_answers, run

SEED = 20261125
REQUESTS = 16
ROUNDS = 3
MAX_OUTPUT = 12
CLIENTS = 4
FREE_TIMEOUT_S = 20
ROLES = ("--prefill", 1, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0,
         # Every prompt is handed over.
         "--local-prefill-tokens", 0)
DAMAGED = "baton_transfer_damaged_blocks_total"
FAILED = "baton_transfer_failures_total"


@pytest.fixture(scope="module")
def requests(prose_ids):
    print(f"seed {SEED}")
    drawn = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    for request in drawn:
        request.sampling["max_tokens"] = MAX_OUTPUT
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        learn_answers(client, drawn)
        assert cluster.decoders_count(DAMAGED) == cluster.decoders_count(FAILED) == 0
    return drawn


@pytest.mark.parametrize("transport", ["shm", "tcp", "grpc"])
@pytest.mark.parametrize("fault, counter", [("flip:3", DAMAGED), ("stale:3", DAMAGED), ("error:9", FAILED)])
def test_no_fault_of_a_transfer_shows_in_an_answer(requests, transport, fault, counter):
    with Cluster(*ROLES, "--transport", transport, env={"BATON_TEST_TRANSFER_FAULTS": fault}) as cluster, \
            Client(cluster.target) as client, concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        # A tenant of its own has no prefix in a cache, so that each prompt is read.
        runs = [(request, f"{turn}") for turn in range(ROUNDS) for request in requests]
        for (request, _), answer in zip(runs, pool.map(lambda one: run(client, *one), runs)):
            assert answer.error is None, answer.error
            assert answer.content() == request.expected.content()
        faults = cluster.decoders_count(counter)
        print(f"{transport}, {fault}: {len(runs)} answers are right, {counter} {faults}")
        assert faults >= len(runs) // 16
        wait_until(lambda: not any(worker["used_blocks"] for worker in cluster.workers()), FREE_TIMEOUT_S, "free blocks")
