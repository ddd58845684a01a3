"""Routers and workers that find each other through a real etcd, and what befalls it, or one of them."""

import contextlib
import time
import urllib.request

import pytest

from certificates import Authority
from client import Background, Client, Oracle
from cluster import RoleProcess, await_workers, run_baton, stopped, wait_until
from etcd import PREFIX, Etcd

ROUTER = ("--grpc-port", 0, "--cluster-port", 0, "--admin-port", "off")
WORKER = ("--threads", 1, "--kv-memory", "256MiB", "--admin-port", "off")
ROLES = ("prefill-worker", "decode-worker")
PROMPT_TOKENS = 120
SHORT = {"max_tokens": 12, "ignore_eos": True}
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
JOIN_TIMEOUT_S = 60
# An entry of a process that says nothing stays for 10 s; etcd looks twice a second.
EXPIRY_TIMEOUT_S = 40
# An entry whose process has ended in good order does not wait for that.
REVOKED_TIMEOUT_S = 8
# A request waits for so long at a router that knows of no worker.
NO_WORKER_WAIT_S = 2


class Fleet:
    """An etcd, routers and two workers. The workers are started first, because they wait for routers."""

    def __init__(self, stack, files=None):
        self.stack = stack
        self.etcd = stack.enter_context(Etcd(files))
        self.flags = ["--etcd", self.etcd.target]
        if files:
            self.flags += ["--etcd-ca", files.ca, "--etcd-cert", files.cert, "--etcd-key", files.key]
        self.workers = {role: stack.enter_context(self.worker(role)) for role in ROLES}
        self.etcd.await_keys("workers", len(ROLES), JOIN_TIMEOUT_S)

    def worker(self, role):
        return RoleProcess(role, *self.flags, *WORKER, awaits_ready=False)

    def router(self, *flags):
        return self.stack.enter_context(RoleProcess("router", *self.flags, *ROUTER, *flags))

    def client(self, router):
        return self.stack.enter_context(Client(router.target))


@pytest.fixture
def fleet():
    with contextlib.ExitStack() as stack:
        yield Fleet(stack)


def test_workers_find_routers_that_come_later_and_stay_when_one_drains(fleet, prose_ids):
    prompt = prose_ids[:PROMPT_TOKENS]
    first = fleet.router()
    await_workers(first, len(ROLES))
    for worker in fleet.workers.values():
        worker.await_ready()
    expected = Oracle(fleet.client(first)).tokens(prompt, SHORT)
    second = fleet.router()
    await_workers(second, len(ROLES))
    assert len(fleet.etcd.keys("routers")) == 2
    goes_on = Background(fleet.client(second), prompt, ENDLESS)
    goes_on.wait_running()
    assert first.stop() == 0
    fleet.etcd.await_keys("routers", 1, REVOKED_TIMEOUT_S)
    goes_on.wait_for_more()
    assert fleet.client(second).generate(prompt, SHORT).token_ids == expected
    assert goes_on.cancel().token_ids[:len(expected)] == expected
    await_workers(second, len(ROLES))
    # A worker that ends by itself takes its entry back too.
    worker = fleet.workers["prefill-worker"]
    assert worker.stop() == 0
    fleet.etcd.await_keys("workers", 1, REVOKED_TIMEOUT_S)


def test_a_new_router_makes_requests_wait_for_workers_that_are_announced(fleet, prose_ids):
    prompt = prose_ids[:PROMPT_TOKENS]
    announced = fleet.etcd.entries("workers")
    for worker in fleet.workers.values():
        assert worker.stop() == 0
    wait_until(lambda: not fleet.etcd.keys("workers"), EXPIRY_TIMEOUT_S, "no worker is announced")
    # The entries of workers that take their time to join, and under no lease, however long this machine takes.
    for key, value in announced.items():
        fleet.etcd.put(key, value)
    router = fleet.router()
    waits = Background(fleet.client(router), prompt, SHORT)
    until = time.monotonic() + 2 * NO_WORKER_WAIT_S
    while time.monotonic() < until:
        assert waits.is_running(), waits.generation
    workers = [fleet.stack.enter_context(fleet.worker(role)) for role in ROLES]
    generation = waits.result()
    assert generation.error is None, generation
    assert generation.token_ids == Oracle(fleet.client(router)).tokens(prompt, SHORT)
    # Without an entry nobody is waited for.
    for worker in workers:
        assert worker.stop() == 0
    for key in announced:
        fleet.etcd.delete(key)
    refused = Background(fleet.client(fleet.router()), prompt, SHORT).result()
    assert refused.error is not None and "no workers" in refused.error.details(), refused


def test_an_etcd_that_dies_stops_nothing_and_one_without_memory_is_told_again(fleet, prose_ids):
    prompt = prose_ids[:PROMPT_TOKENS]
    router = fleet.router()
    await_workers(router, len(ROLES))
    client = fleet.client(router)
    expected = Oracle(client).tokens(prompt, SHORT)
    stream = Background(client, prompt, ENDLESS)
    stream.wait_running()
    fleet.etcd.kill()
    stream.wait_for_more()
    assert client.generate(prompt, SHORT).token_ids == expected
    fleet.etcd.forget_everything()
    fleet.etcd.start()
    fleet.etcd.await_keys("workers", len(ROLES), JOIN_TIMEOUT_S)
    fleet.etcd.await_keys("routers", 1, JOIN_TIMEOUT_S)
    second = fleet.router()
    await_workers(second, len(ROLES))
    assert fleet.client(second).generate(prompt, SHORT).token_ids == expected
    assert len(router.workers()) == len(ROLES)
    assert stream.cancel().token_ids[:len(expected)] == expected


def test_a_killed_or_stopped_process_is_forgotten_and_announces_itself_when_it_goes_on(fleet, prose_ids):
    router = fleet.router()
    await_workers(router, len(ROLES))
    dead = fleet.workers["decode-worker"]
    dead.kill()
    with stopped(router.pid):
        fleet.etcd.await_keys("workers", 1, EXPIRY_TIMEOUT_S)
        wait_until(lambda: not fleet.etcd.keys("routers"), EXPIRY_TIMEOUT_S, "a stopped router is forgotten")
        fleet.stack.enter_context(fleet.worker("decode-worker"))
        fleet.etcd.await_keys("workers", 2, JOIN_TIMEOUT_S)
    fleet.etcd.await_keys("routers", 1, JOIN_TIMEOUT_S)
    await_workers(router, len(ROLES))
    assert len(fleet.client(router).generate(prose_ids[:PROMPT_TOKENS], SHORT).token_ids) == SHORT["max_tokens"]


def test_entries_that_somebody_else_writes_or_deletes_harm_nobody(fleet, prose_ids):
    prompt = prose_ids[:PROMPT_TOKENS]
    router = fleet.router()
    await_workers(router, len(ROLES))
    client = fleet.client(router)
    expected = Oracle(client).tokens(prompt, SHORT)
    fleet.etcd.put(f"{PREFIX}/routers/garbage", "no json")
    fleet.etcd.put(f"{PREFIX}/routers/huge", "x" * 20_000)
    fleet.etcd.put(f"{PREFIX}/workers/garbage", '{"hello":{"incarnation":"AAAA","total_blocks":-1}}')
    model = router.status()["model"]
    for number in range(30):
        fleet.etcd.put(f"{PREFIX}/routers/0-{number}", f'{{"cluster":"127.0.0.1:{number + 1}","model":"{model}"}}')
    (own,) = (key for key in fleet.etcd.keys("routers") if len(key) > 40)
    fleet.etcd.delete(own)
    # The router writes its entry again.
    wait_until(lambda: own in fleet.etcd.keys("routers"), JOIN_TIMEOUT_S, "the router is announced again")
    for _ in range(3):
        assert client.generate(prompt, SHORT).token_ids == expected
    assert len(router.workers()) == len(ROLES)
    for worker in fleet.workers.values():
        assert worker.process.poll() is None


def test_an_etcd_with_tls_that_asks_for_certificates(tmp_path):
    files = Authority(tmp_path).issue()
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, files)
        router = stack.enter_context(RoleProcess("router", *fleet.flags, "--grpc-port", 0, "--cluster-port", 0))
        await_workers(router, len(ROLES))
        with urllib.request.urlopen(f"http://{router.admin}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        assert "baton_etcd_connected 1" in lines and "baton_etcd_entries 3" in lines


@pytest.mark.parametrize("command, said", [
    (("decode-worker", "--etcd", "127.0.0.1:1", "--router", "127.0.0.1:2"), "--router"),
    (("decode-worker", "--etcd", "a:1,a:1"), "not a list"),
    (("router", "--etcd", "127.0.0.1:1", "--etcd-prefix", "baton/"), "not a prefix"),
    (("router", "--etcd", "127.0.0.1:1", "--bind", "0.0.0.0"), "--advertise"),
    (("router", "--etcd", "127.0.0.1:1", "--etcd-cert", "a.pem", *ROUTER), "--etcd-ca is missing"),
    (("router", "--etcd", "127.0.0.1:1", "--etcd-ca", "/nowhere.pem", *ROUTER), "--etcd-ca /nowhere.pem: "),
    (("router", "--etcd", "127.0.0.1:1", "--etcd-ca", "/dev/null", *ROUTER), "this is no file"),
    (("decode-worker", "--etcd", "127.0.0.1:1", "--etcd-ca", __file__, *WORKER), "expected certificates in PEM"),
])
def test_wrong_flags_are_named_in_one_line(command, said):
    result = run_baton(*command)
    assert result.returncode != 0 and said in result.stderr, result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""
