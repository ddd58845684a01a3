"""The port on which workers join: who is served where, what health, logs and status say, and how a worker leaves."""

import concurrent.futures
import contextlib
import os
import re
import socket
import threading
import time

import grpc
import pytest

from client import Client, read_stream
from cluster import SOURCE_DIR, run_baton, wait_until
from pages import blocks_of
from test_supervisor import RoleProcess

PROMPT = "The capital of France is"
JOIN_TIMEOUT_S = 60
SERVING, NOT_SERVING = 1, 2


def call(target, method, request):
    """A unary call whose messages are bytes."""
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        return channel.unary_unary(method)(request, timeout=10)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


def free_ports(count):
    """The first of as many ports in a row that UCX can take: it takes none whose last connection ended a minute ago. They
    lie below those that the system gives to connections."""
    first = 10_000 + os.getpid() % 20_000
    while True:
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", port))
        except OSError:
            first += 1
            continue
        return first


def health(target, service):
    """grpc.health.v1.HealthCheckResponse.status, which is field 1 of a message as `service` is of the other."""
    request = b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
    response = call(target, "/grpc.health.v1.Health/Check", request)
    assert response[0] == 8 and len(response) == 2
    return response[1]


def mixed_worker(router_target, *args, **options):
    return RoleProcess("mixed-worker", "--router", router_target, "--threads", 1, *args, **options)


def test_health_says_whether_requests_can_be_served_now():
    services = ("", "baton.v1.GenerationService")
    live = "baton.v1.AdminService"
    with RoleProcess("router", "--grpc-port", 0) as router:
        assert [health(router.target, service) for service in (*services, live)] == [NOT_SERVING, NOT_SERVING, SERVING]
        with mixed_worker(router.cluster_target) as worker:
            for service in services:
                wait_until(lambda: health(router.target, service) == SERVING, JOIN_TIMEOUT_S, "a router that can serve")
            assert health(worker.target, "") == SERVING
        assert [health(router.target, service) for service in services] == [NOT_SERVING] * 2, "no worker is left"


def test_a_call_with_the_retries_of_the_page_waits_for_workers():
    (retries,) = [block.text for block in blocks_of("docs/api.md", SOURCE_DIR) if "retryPolicy" in block.text]
    with contextlib.ExitStack() as running:
        router = running.enter_context(RoleProcess("router", "--grpc-port", 0))
        retrying = running.enter_context(Client(router.target, service_config=retries))
        plain = running.enter_context(Client(router.target))
        stream = retrying.start(retrying.generate_request(PROMPT, {"max_tokens": 4}))
        with pytest.raises(grpc.RpcError) as refused:
            plain.generate(PROMPT, {"max_tokens": 4})
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE, "the other call's first attempt has failed before"
        running.enter_context(mixed_worker(router.cluster_target))
        answer = read_stream(stream)
        assert answer.error is None and len(answer.token_ids) == 4


def test_every_client_of_many_that_come_and_go_is_answered():
    with RoleProcess("router", "--grpc-port", 0) as router:
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            answers = list(clients.map(lambda _: health(router.target, "baton.v1.AdminService"), range(1000)))
    assert answers == [SERVING] * 1000


def test_workers_and_clients_have_a_port_each():
    with RoleProcess("router", "--grpc-port", 0) as router:
        assert router.cluster_target != router.target
        with pytest.raises(grpc.RpcError) as error:
            call(router.cluster_target, "/baton.v1.AdminService/GetStatus", b"")
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
        # A worker that names the clients' port says so instead of asking for ever without a word.
        port = free_port()
        with mixed_worker(router.target, "--grpc-port", port, awaits_ready=False) as worker:
            wait_until(lambda: f"the router at {router.target} refuses this worker: no worker can join there: --router "
                       "names the router's --cluster-port" in worker.log(), JOIN_TIMEOUT_S, "an error")
            assert not worker.said_ready()
            assert health(f"127.0.0.1:{port}", "") == NOT_SERVING
            assert router.workers() == []


def test_no_request_is_lost_when_an_idle_worker_is_told_to_end():
    """Requests go on while one of two workers leaves. Those that were placed on it are served."""
    with RoleProcess("router", "--grpc-port", 0) as router:
        with mixed_worker(router.cluster_target) as leaving, mixed_worker(router.cluster_target):
            wait_until(lambda: len(router.workers()) == 2, JOIN_TIMEOUT_S, "both workers")
            problems, stopping = [], threading.Event()

            def ask():
                with Client(router.target) as client:
                    while not stopping.is_set():
                        try:
                            client.generate(PROMPT, {"max_tokens": 1})
                        except grpc.RpcError as error:
                            problems.append(error)

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                assert leaving.stop() == 0
                wait_until(lambda: len(router.workers()) == 1, JOIN_TIMEOUT_S, "the worker to leave")
            finally:
                stopping.set()
                for thread in threads:
                    thread.join()
            assert not problems, problems
            assert "is draining" in router.log() and "left" in router.log()


def test_two_transfer_ports_are_enough_for_a_worker_and_none_left_is_an_error():
    first = free_ports(2)
    ports = ("--transport", "tcp", "--transfer-ports", f"{first}-{first + 1}")
    with RoleProcess("router", "--grpc-port", 0) as router:
        with mixed_worker(router.cluster_target, *ports):
            wait_until(lambda: len(router.workers()) == 1, JOIN_TIMEOUT_S, "the worker to join")
            second = run_baton("mixed-worker", "--router", router.cluster_target, "--threads", 1, *ports)
            assert second.returncode == 1
            assert f"--transfer-ports {first}-{first + 1} has no free port left" in second.stderr


def test_a_worker_of_another_name_is_refused_aloud_on_both_sides_and_joins_under_the_served_name():
    own = "smollm2-135m-instruct"
    with RoleProcess("router", "--grpc-port", 0, "--served-model-name", "house") as router:
        with mixed_worker(router.cluster_target, awaits_ready=False) as refused:
            wait_until(lambda: "refuses this worker" in refused.log(), JOIN_TIMEOUT_S, "the refusal")
            why = (f"this router serves house, the worker has {own}: give the worker the router's --model, or "
                   "--served-model-name house if it has the same model under another file name")
            assert f"the router at {router.cluster_target} refuses this worker: {why}; asking again" in refused.log()
            wait_until(lambda: f"refused mixed worker 127.0.0.1:" in router.log(), JOIN_TIMEOUT_S, "the router's line")
            assert why in router.log()
            status = router.status()
            assert not refused.said_ready() and status["workers"] == [] and not status["serving"]
            (listed,) = status["refused"]
            assert (listed["pid"], listed["model"], listed["why"]) == (refused.pid, own, why)
            text = run_baton("status", "--target", router.target).stdout
            assert "no request can be served until there is a prefill and a decode worker, or a mixed one" in text
            assert f"refused mixed worker {listed['address']} (pid {refused.pid}), asked" in text
            # The router itself has answered, so nobody need ask whether it runs.
            failed = run_baton("generate", "--target", router.target, "--prompt", PROMPT)
            assert failed.returncode == 1 and "no workers for this request" in failed.stderr
            assert "is `baton serve` running there?" not in failed.stderr
        with mixed_worker(router.cluster_target, "--served-model-name", "house") as worker:
            assert f"joined the router at {router.cluster_target}" in worker.log(), "it is ready only as a member"
            (listed,) = router.workers()
            assert (listed["group"], listed["partners"], listed["no_partner"]) == ("A", 1, None)
            assert run_baton("generate", "--target", router.target, "--model", "house", "--prompt", PROMPT,
                             "--max-tokens", 1).returncode == 0
            asked = run_baton("status", "--target", worker.target)
            assert asked.returncode == 1
            assert asked.stderr == (f"baton: {worker.target}: this is a worker of Baton, and clients call its router; "
                                    "--target names the --grpc-port of `baton serve` or `baton router`\n")
            worker.kill()
            loss = (r"mixed worker \S+ \(pid \d+\) is lost after [\d.]+ s as a member, with 0 open calls: its stream "
                    "broke")
            wait_until(lambda: re.search(loss, router.log()), JOIN_TIMEOUT_S, "the loss in the router's log")
        for line in router.log().splitlines():
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d ", line), "a time with its zone"


def test_a_worker_without_a_router_says_so_after_two_seconds_and_is_ready_when_the_router_has_come():
    port = free_port()
    began = time.monotonic()
    with mixed_worker(f"127.0.0.1:{port}", awaits_ready=False) as worker:
        warning = f"cannot reach the router at 127.0.0.1:{port} for "
        wait_until(lambda: warning in worker.log(), JOIN_TIMEOUT_S, "a warning")
        assert time.monotonic() - began >= 2
        assert "Connection refused; is `baton router` running there, and is this its --cluster-port?" in worker.log()
        assert not worker.said_ready()
        with RoleProcess("router", "--grpc-port", 0, "--cluster-port", port) as router:
            worker.await_ready()
            assert re.search(rf"joined the router at 127.0.0.1:{port} after [\d.]+ s", worker.log())
            assert len(router.workers()) == 1
            assert worker.stop() == 0
            assert f"left the router at 127.0.0.1:{port}" in worker.log()
            wait_until(lambda: re.search(r"left after [\d.]+ s as a member", router.log()), JOIN_TIMEOUT_S, "the router's line")
