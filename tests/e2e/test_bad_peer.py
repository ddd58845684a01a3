"""Strangers on every port: forged heartbeats, stolen incarnations, garbage and silence. None of them harms the workers,
and clients are served meanwhile with their right tokens."""

import contextlib
import random
import socket
import threading

import grpc
import pytest

from client import Client, Load, Oracle
from cluster import RoleProcess, wait_until
from internal_messages import hello_like, internal_messages, version

PROMPT = "The capital of France is"
JOIN_TIMEOUT_S = 60
CALL_TIMEOUT_S = 20
IDLE_CONNECTIONS = 200
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04" + bytes(5)
# The first bytes of what a peer might send before it falls silent.
GARBAGE = (
    b"", bytes(5_000), random.Random(7).randbytes(5_000), b"GET / HTTP/1.1\r\nHost: baton\r\n\r\n",
    PREFACE[:11],
    # Half of a frame of headers.
    PREFACE + SETTINGS + b"\x00\x40\x00\x01\x04\x00\x00\x00\x01half of the headers",
    # The beginning of a frame of 16 MiB.
    PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    # Data for a stream that nobody opened.
    PREFACE + SETTINGS + b"\x00\x00\x04\x00\x00\x00\x00\x00\x09oops",
)


@pytest.fixture(scope="module")
def router():
    with RoleProcess("router", "--grpc-port", 0) as process:
        yield process


@pytest.fixture(scope="module")
def cluster(router):
    """The router, with a prefill and a decode worker."""
    with contextlib.ExitStack() as workers:
        for role in ("prefill-worker", "decode-worker"):
            workers.enter_context(RoleProcess(role, "--router", router.cluster_target, "--grpc-port", 0, "--threads", 1))
        wait_until(lambda: len(router.workers()) == 2, JOIN_TIMEOUT_S, "both workers")
        yield router


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    return internal_messages(tmp_path_factory.mktemp("proto"))


class Peer:
    """A stream on the cluster port that says what the test likes."""

    def __init__(self, target, messages):
        self._message = messages("WorkerMessage")
        self._channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        self._join = self._channel.stream_stream("/baton.internal.v1.ClusterService/Join",
                                                 request_serializer=lambda message: message.SerializeToString(),
                                                 response_deserializer=messages("RouterMessage").FromString)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()

    def say(self, *lines):
        """Sends messages, then listens: what the router answered, and the error with which it ended the stream."""
        ended = threading.Event()

        def requests():
            yield from (self._message(**line) for line in lines)
            ended.wait(CALL_TIMEOUT_S)

        answers = []
        try:
            for answer in self._join(requests(), timeout=CALL_TIMEOUT_S):
                answers.append(answer)
        except grpc.RpcError as error:
            return answers, error
        finally:
            ended.set()
        raise AssertionError(f"the stream ended well after {answers}")


def facts(cluster):
    """What does not change as long as nobody joins, leaves or drains."""
    names = ("pid", "role", "address", "state", "model", "total_blocks", "incarnation", "fingerprint")
    return sorted(tuple(worker[name] for name in names) for worker in cluster.workers())


@contextlib.contextmanager
def served_and_unchanged(cluster):
    """In the body, streams run all the time and end with their tokens; no worker is lost, and none joins."""
    before = facts(cluster)
    joined = cluster.log().count("joined:")
    with Client(cluster.target) as client:
        with Load(client, Oracle(client), [(PROMPT, {"max_tokens": 8})], 2) as load:
            wait_until(lambda: load.finished > 0, CALL_TIMEOUT_S, "the load")
            yield
            finished = load.finished
            wait_until(lambda: load.finished > finished + 2, CALL_TIMEOUT_S, "the load to go on")
            problems = load.stop()
    assert not problems, problems
    assert facts(cluster) == before
    assert cluster.log().count("joined:") == joined


def test_a_heartbeat_for_somebody_else_s_membership_changes_nothing(cluster, messages):
    load = {"draining": True, "free_blocks": 0, "used_blocks": 1_000, "step_age_ms": 3_600_000}
    with served_and_unchanged(cluster):
        for worker in cluster.workers():
            for membership in (bytes.fromhex(worker["incarnation"]), bytes(16), bytes(range(16)), b"", b"short"):
                with Peer(cluster.cluster_target, messages) as peer:
                    answers, error = peer.say({"membership": membership, "load": load})
                assert not answers
                assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error.details()


def test_a_join_with_another_worker_s_incarnation_is_refused_and_changes_nothing(cluster, messages):
    with served_and_unchanged(cluster):
        for worker in cluster.workers():
            incarnation = bytes.fromhex(worker["incarnation"])
            for resumes in (b"", bytes(range(16)), incarnation):
                hello = hello_like(worker, resumes=resumes)
                with Peer(cluster.cluster_target, messages) as peer:
                    # What it says after the hello is no heartbeat of the victim either.
                    answers, error = peer.say({"hello": hello}, {"membership": incarnation, "load": {"draining": True}})
                assert not answers
                assert error.code() == grpc.StatusCode.ALREADY_EXISTS, error.details()


def test_nothing_that_a_stranger_can_read_names_a_membership(cluster, messages):
    """Whoever knows a worker's membership may speak for it."""
    (worker, *_) = cluster.workers()
    hello = hello_like(worker, incarnation=bytes(range(1, 17)), fingerprint="nobody's")
    with Peer(cluster.cluster_target, messages) as peer:
        # The second message ends the stream.
        (answer, *_), _ = peer.say({"hello": hello}, {"membership": bytes(16)})
    membership = answer.accepted.membership
    assert len(membership) == 16
    assert membership.hex() not in cluster.log() and membership.hex() not in str(cluster.status())


def test_garbage_on_any_port_harms_nobody(cluster):
    targets = [cluster.target, cluster.cluster_target, *(worker["address"] for worker in cluster.workers())]
    with served_and_unchanged(cluster), contextlib.ExitStack() as open_sockets:
        for target in targets:
            for first in GARBAGE:
                host, port = target.rsplit(":", 1)
                peer = open_sockets.enter_context(socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S))
                # The server may have closed the connection already.
                with contextlib.suppress(OSError):
                    peer.sendall(first)


def test_connections_to_the_cluster_port_that_say_nothing_keep_no_worker_out(cluster):
    host, port = cluster.cluster_target.rsplit(":", 1)
    with served_and_unchanged(cluster), contextlib.ExitStack() as open_sockets:
        for _ in range(IDLE_CONNECTIONS):
            open_sockets.enter_context(socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S))
    with contextlib.ExitStack() as open_sockets:
        for _ in range(IDLE_CONNECTIONS):
            open_sockets.enter_context(socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S))
        with RoleProcess("mixed-worker", "--router", cluster.cluster_target, "--grpc-port", 0, "--threads", 1):
            wait_until(lambda: len(cluster.workers()) == 3, CALL_TIMEOUT_S, "a worker that joins meanwhile")
    wait_until(lambda: len(cluster.workers()) == 2, CALL_TIMEOUT_S, "its end")
