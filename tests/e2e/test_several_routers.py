"""Two routers over the same workers: each serves exact tokens, and what befalls one of them does not touch the other's."""

import concurrent.futures
import contextlib
import json
import time

import grpc
import pytest

from client import Background, Client, Oracle
from cluster import RoleProcess, await_workers, run_baton, stopped, wait_until

ROUTER = ("--grpc-port", 0, "--cluster-port", 0, "--admin-port", "off")
WORKER = ("--threads", 1, "--kv-memory", "256MiB", "--admin-port", "off")
ROLES = ("prefill-worker", "decode-worker")
PROMPT_TOKENS = 150
SHORT = {"max_tokens": 12, "ignore_eos": True}
LONG = {"max_tokens": 150, "ignore_eos": True}
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
JOIN_TIMEOUT_S = 60
# A worker reports its blocks every 5 s.
REPORT_TIMEOUT_S = 60
PAUSE_S = 7


def ledger(router):
    result = run_baton("ledger", "--target", router.target, "--json")
    assert result.returncode == 0, "orphans: " + result.stdout + result.stderr
    said = json.loads(result.stdout)
    for worker in said["workers"]:
        if worker["reported"]:
            own = sum(holder["own_blocks"] for holder in worker["holders"])
            assert worker["unaccounted_blocks"] == 0 and worker["held_blocks"] == own, worker
    return said


def await_no_blocks(router):
    def none_held():
        workers = ledger(router)["workers"]
        return all(worker["reported"] and worker["held_blocks"] + worker["other_routers_blocks"] == 0
                   for worker in workers)

    wait_until(none_held, REPORT_TIMEOUT_S, "a ledger of workers that hold nothing")


class Fleet:
    """Two routers and their workers, ended in the order that a service is ended."""

    def __init__(self, stack):
        self.stack = stack
        self.routers = [stack.enter_context(RoleProcess("router", *ROUTER)) for _ in range(2)]
        targets = ",".join(router.cluster_target for router in self.routers)
        self.workers = {role: stack.enter_context(RoleProcess(role, "--router", targets, *WORKER)) for role in ROLES}
        for router in self.routers:
            await_workers(router, len(ROLES))

    def client(self, number):
        return self.stack.enter_context(Client(self.routers[number].target))

    def start_again(self, number):
        """A router with the addresses of one that was killed."""
        gone = self.routers[number]
        ports = [target.rpartition(":")[2] for target in (gone.target, gone.cluster_target)]
        router = RoleProcess("router", "--grpc-port", ports[0], "--cluster-port", ports[1], "--admin-port", "off",
                             "--http-port", "off")
        self.routers[number] = self.stack.enter_context(router)
        await_workers(router, len(ROLES))


@pytest.fixture(scope="module")
def fleet():
    with contextlib.ExitStack() as stack:
        yield Fleet(stack)


def prompts_of(prose_ids, count):
    return [prose_ids[i * PROMPT_TOKENS:(i + 1) * PROMPT_TOKENS] for i in range(count)]


def test_requests_at_both_routers_get_exact_tokens_at_once(fleet, prose_ids):
    clients = [fleet.client(number) for number in range(2)]
    oracle = Oracle(clients[0])
    requests = [(client, prompt) for prompt in prompts_of(prose_ids, 6) for client in clients]
    expected = [oracle.tokens(prompt, SHORT) for _, prompt in requests]
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        got = list(pool.map(lambda one: one[0].generate(one[1], SHORT).token_ids, requests))
    assert got == expected


def test_a_killed_router_ends_its_own_streams_alone_and_its_blocks_are_given_back(fleet, prose_ids):
    dies, stays = fleet.client(0), fleet.client(1)
    prompts = prompts_of(prose_ids, 3)
    expected = Oracle(stays).tokens(prompts[2], LONG)
    lost = Background(dies, prompts[0], ENDLESS)
    lost.wait_running()
    endless = Background(stays, prompts[1], ENDLESS)
    endless.wait_running()

    def both_shown():
        return [worker for worker in ledger(fleet.routers[1])["workers"] if worker["role"] == "decode" and
                worker["reported"] and len(worker["holders"]) == 1 and worker["other_routers_blocks"] > 0]

    wait_until(both_shown, REPORT_TIMEOUT_S, "one holder of this router, and blocks of the other's")
    exact = Background(stays, prompts[2], LONG)
    exact.wait_running()
    fleet.routers[0].kill()
    assert exact.result().token_ids == expected
    assert lost.result().error is not None
    assert endless.is_running()
    endless.stream.cancel()
    endless.result()
    await_no_blocks(fleet.routers[1])
    fleet.start_again(0)
    assert fleet.client(0).generate(prompts[0], SHORT).token_ids == Oracle(stays).tokens(prompts[0], SHORT)
    await_no_blocks(fleet.routers[0])


def test_a_stopped_router_holds_up_nobody_and_serves_on_afterwards(fleet, prose_ids):
    stops, goes_on = fleet.client(0), fleet.client(1)
    prompts = prompts_of(prose_ids, 2)
    expected = [Oracle(goes_on).tokens(prompt, LONG) for prompt in prompts]
    waits = Background(stops, prompts[0], LONG)
    waits.began.wait(60)
    with stopped(fleet.routers[0].pid):
        until = time.monotonic() + PAUSE_S
        while time.monotonic() < until:
            assert goes_on.generate(prompts[1], LONG).token_ids == expected[1]
    waited = waits.result()
    # Its worker may have been lost to this router alone, as after every pause under load.
    assert waited.token_ids == expected[0] or waited.error.code() == grpc.StatusCode.UNAVAILABLE, waited
    await_workers(fleet.routers[0], len(ROLES))
    assert stops.generate(prompts[1], LONG).token_ids == expected[1]


def test_a_drain_ordered_at_one_router_is_a_drain_for_all(fleet):
    worker = fleet.workers["decode-worker"]
    result = run_baton("drain", worker.target, "--target", fleet.routers[1].target)
    assert result.returncode == 0, result.stdout + result.stderr
    assert worker.process.wait(timeout=60) == 0
    worker.ends = True
    for router in fleet.routers:
        wait_until(lambda: [one["role"] for one in router.workers()] == ["prefill"], JOIN_TIMEOUT_S,
                   "the worker has left every router")


@pytest.mark.parametrize("routers", ["", "a:1,", "a:1,a:1", ",".join(f"a:{port}" for port in range(1, 18))])
def test_a_list_that_names_no_routers_is_refused_in_one_line(routers):
    result = run_baton("decode-worker", "--router", routers)
    assert result.returncode == 2 and "--router" in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1
