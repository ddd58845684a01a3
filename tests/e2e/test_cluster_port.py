"""The port on which workers join: who is served where, what health says, and how a worker leaves."""

import threading

import grpc
import pytest

from client import Client
from cluster import wait_until
from test_supervisor import RoleProcess

PROMPT = "The capital of France is"
JOIN_TIMEOUT_S = 60
SERVING, NOT_SERVING = 1, 2


def call(target, method, request):
    """A unary call whose messages are bytes."""
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        return channel.unary_unary(method)(request, timeout=10)


def health(target, service):
    """grpc.health.v1.HealthCheckResponse.status, which is field 1 of a message as `service` is of the other."""
    request = b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
    response = call(target, "/grpc.health.v1.Health/Check", request)
    assert response[0] == 8 and len(response) == 2
    return response[1]


def mixed_worker(router_target):
    return RoleProcess("mixed-worker", "--router", router_target, "--grpc-port", 0, "--threads", 1)


def test_health_says_whether_requests_can_be_served_now():
    service = "baton.v1.GenerationService"
    with RoleProcess("router", "--grpc-port", 0) as router:
        assert health(router.target, "") == SERVING
        assert health(router.target, service) == NOT_SERVING
        with mixed_worker(router.cluster_target) as worker:
            wait_until(lambda: health(router.target, service) == SERVING, JOIN_TIMEOUT_S, "a router that can serve")
            assert health(worker.target, "") == SERVING
        assert health(router.target, service) == NOT_SERVING, "no worker is left"


def test_workers_and_clients_have_a_port_each():
    with RoleProcess("router", "--grpc-port", 0) as router:
        assert router.cluster_target != router.target
        with pytest.raises(grpc.RpcError) as error:
            call(router.cluster_target, "/baton.v1.AdminService/GetStatus", b"")
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
        # A worker that names the clients' port says so instead of asking for ever without a word.
        with mixed_worker(router.target) as worker:
            wait_until(lambda: "cannot join the router at " + router.target in worker.log(), JOIN_TIMEOUT_S, "an error")
            assert health(worker.target, "") == NOT_SERVING
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
                wait_until(lambda: len(router.workers()) == 1, 5, "the worker to leave")
            finally:
                stopping.set()
                for thread in threads:
                    thread.join()
            assert not problems, problems
            assert "is draining" in router.log() and "left" in router.log()
