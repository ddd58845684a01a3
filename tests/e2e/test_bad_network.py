"""Router and workers on machines of their own, joined by a network that is slow, loses packets, or is cut between
some of them. Every stream ends with its tokens or, before its deadline, with one error that says why; when the
network is whole, the cluster serves at once, and no block is held. BATON_FULL_TESTS=1 takes minutes; otherwise only
the partition of a pair is tried, over UCX."""

import contextlib
import os
import pathlib
import random
import time

import grpc
import pytest

from client import Client
from cluster import ALL_LOG_BYTES, BINARY, await_workers
from history import router_problems
from lossy_network import CannotMakeNetwork, lossy_network
from machines import MachineProcess
from streams import Streams, await_no_block_held, draw_requests, learn_answers

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261125"))
STREAMS = 12 if FULL else 4
REQUESTS = 12 if FULL else 4
# The router's machine is the first.
ROUTER, PREFILL, DECODE = 0, (1, 2), (3, 4)
SIZES = "--threads 1 --kv-memory 128MiB"
WAIT_S = 30
DEADLINE_S = 60
SERVES_WITHIN_S = 2
PROMPT = "The capital of France is"
# Of a request that meets the fault several times in a row.
ALLOWED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
BAD_LINK = {"delay_ms": 50, "jitter_ms": 20, "loss": 0.02}
BAD_LINK_S = 40 if FULL else 10
ONE_WAY_S = 5
PAIR_S = 15 if FULL else 5


def one_way(machine):
    return {"cut": [(ROUTER, machine)]}


def pair(prefill, decode):
    return {"cut": [(prefill, decode), (decode, prefill)]}


FAULTS = {
    "slow_and_lossy": [(BAD_LINK, BAD_LINK_S)],
    "deaf_to_the_router": [(one_way(DECODE[0]), ONE_WAY_S), (one_way(PREFILL[0]), ONE_WAY_S)],
    "pair": [(pair(PREFILL[0], DECODE[0]), PAIR_S)],
    "slow_lossy_and_cut": [(BAD_LINK | pair(PREFILL[0], DECODE[0]), BAD_LINK_S),
                           (BAD_LINK | one_way(DECODE[1]), ONE_WAY_S)],
}
CASES = [(fault, transport) for transport in ("tcp", "grpc") for fault in FAULTS] if FULL else [("pair", "tcp")]


@contextlib.contextmanager
def cluster_on(network, transport):
    """The router's process, when all workers serve."""
    with contextlib.ExitStack() as stack:
        machines = network.machines
        router = stack.enter_context(MachineProcess(
            machines[ROUTER], f"baton router --bind {machines[ROUTER].address} --access-log"))
        for role, places in ("prefill", PREFILL), ("decode", DECODE):
            for place in places:
                stack.enter_context(MachineProcess(
                    machines[place], f"baton {role}-worker --router {router.cluster_target} --transport {transport} "
                    f"--bind {machines[place].address} --grpc-port 50061 {SIZES}"))
        await_workers(router, len(PREFILL + DECODE), WAIT_S)
        yield router


@pytest.fixture(scope="module")
def network():
    try:
        made = lossy_network(pathlib.Path(BINARY).parents[1], len((ROUTER, *PREFILL, *DECODE)), SEED)
        stack = contextlib.ExitStack()
        entered = stack.enter_context(made)
    except CannotMakeNetwork as error:
        pytest.skip(str(error))
    with stack:
        yield entered


@pytest.mark.parametrize("fault, transport", CASES)
def test_every_stream_ends_with_its_tokens_or_one_error_and_a_healed_network_serves_at_once(prose_ids, network, fault,
                                                                                            transport):
    print(f"\nBATON_TEST_SEED={SEED}")
    requests = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    with cluster_on(network, transport) as router, Client(router.target) as client:
        learn_answers(client, requests)
        expected = client.generate(PROMPT, {"max_tokens": 4}).token_ids
        try:
            with Streams(client, requests, STREAMS, allowed_codes=ALLOWED, timeout_s=DEADLINE_S) as streams:
                for settings, seconds in FAULTS[fault]:
                    lost = network.set(**settings)
                    time.sleep(seconds)
                    lost = network.heal() - lost
                    healed = time.monotonic()
                    assert lost > 0, "no packet met the fault"
                    assert client.generate(PROMPT, {"max_tokens": 4}, timeout_s=SERVES_WITHIN_S).token_ids == expected
                    served_s = time.monotonic() - healed
                    await_workers(router, len(PREFILL + DECODE), WAIT_S)
                    print(f"{fault}: {lost} packets lost; served {served_s:.2f} s after it, all workers "
                          f"{time.monotonic() - healed:.2f} s")
        finally:
            network.heal()
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        await_no_block_held(router.target, len(PREFILL + DECODE))
        assert not (problems := router_problems(streams.calls, router.log(ALL_LOG_BYTES))), problems[:3]
        print(f"{fault} over {transport}: {streams.pauses()}")
