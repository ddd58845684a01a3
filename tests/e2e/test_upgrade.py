"""Processes of an older version and of this one serve together: a router and workers of different versions, failover from
one version to the other and back, and an upgrade of one worker after the other, all beside streams. Each stream has exactly
the tokens that the older version alone gives, and none fails; the longest pause of a client is printed, and at the end nobody
holds a block.

BATON_OLD_BINARY names the older binary, of the same protocol and fingerprint: commit 2bbe765 is one, which knows no moves, no
block reports, no orders to drain and no biases. BATON_TEST_SEED draws other requests.
"""

import contextlib
import os
import random
import signal
import subprocess

import grpc
import pytest

from certificates import Authority
from client import Client
from cluster import BINARY, RoleProcess, run_baton, wait_until
from streams import Streams, await_no_block_held, draw_requests, learn_answers

OLD_BINARY = os.environ.get("BATON_OLD_BINARY", "")
SEED = int(os.environ.get("BATON_TEST_SEED", "20261125"))
STREAMS = 24
REQUESTS = 32
JOIN_S = 60
END_S = 60
# What a reader that was lost may still read is kept for its lease of about 16 s.
HELD_S = 60
SIZES = ("--threads", 1, "--kv-memory", "256MiB")

pytestmark = [
    pytest.mark.skipif(os.environ.get("BATON_FULL_TESTS") != "1", reason="it takes a minute: BATON_FULL_TESTS=1 runs it"),
    pytest.mark.skipif(not OLD_BINARY, reason="BATON_OLD_BINARY names no binary of an older version"),
]


class Processes:
    """A router and workers of either version, which end with the test."""

    def __init__(self, stack, router_binary, authority=None):
        """With an authority of certificates: over TLS."""
        self._stack, self._authority = stack, authority
        operator = authority.issue("operator", "client") if authority else None
        self.client_flags = operator.flags if operator else ()
        self.router = self._start(router_binary, "router", "--grpc-port", 0)
        self.client = stack.enter_context(
            Client(self.router.target, grpc.ssl_channel_credentials(**operator.read()) if operator else None))
        self.workers = []

    def _start(self, binary, role, *args):
        process = RoleProcess(role, *args, *(self._authority.issue(role).flags if self._authority else ()))
        process.client_flags = self.client_flags
        process.command[0] = binary
        return self._stack.enter_context(process)

    def add(self, binary, role):
        """Returns when the router lists the worker."""
        worker = self._start(binary, role, "--router", self.router.cluster_target, *SIZES)
        self.workers.append(worker)
        self.await_serving()
        return worker

    def await_serving(self):
        pids = {worker.pid for worker in self.workers}
        serving = lambda: {worker["pid"] for worker in self.router.workers() if worker["state"] == "serving"}
        wait_until(lambda: serving() == pids, JOIN_S, f"{pids} to serve")

    def await_no_block_held(self):
        """A router of the older version keeps no ledger, and its workers report no blocks, but they say how many they use."""
        old = {worker.pid for worker in self.workers if worker.command[0] == OLD_BINARY}
        if self.router.command[0] != OLD_BINARY and not old:
            return await_no_block_held(self.router.target, len(self.workers), self.client_flags)
        self.router.await_idle(HELD_S)

    def kill(self, worker):
        self.workers.remove(worker)
        worker.kill()
        self.await_serving()

    def end(self, worker):
        """By SIGTERM."""
        self.workers.remove(worker)
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(END_S) == 0, worker.log()
        self.await_serving()

    def drain(self, worker):
        """By `baton drain`."""
        said = run_baton("drain", worker.target, "--target", self.router.target, *self.client_flags)
        assert said.returncode == 0 and "has left after" in said.stdout, said.stderr
        self.workers.remove(worker)
        assert worker.process.wait(END_S) == 0, worker.log()
        self.await_serving()


@pytest.fixture(params=["plain text", "TLS"])
def authority(request, tmp_path):
    if request.param == "plain text":
        return None
    if "--tls-cert" not in subprocess.run([OLD_BINARY, "decode-worker", "--help"], capture_output=True, text=True).stdout:
        pytest.skip(f"{OLD_BINARY} knows no TLS")
    return Authority(tmp_path)


@pytest.fixture(scope="module")
def requests(prose_ids):
    """With what the older version alone answers."""
    print(f"BATON_TEST_SEED={SEED}")
    drawn = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    with contextlib.ExitStack() as stack:
        processes = Processes(stack, OLD_BINARY)
        for role in ("prefill-worker", "decode-worker"):
            processes.add(OLD_BINARY, role)
        learn_answers(processes.client, drawn)
    return drawn


def assert_good(streams, processes):
    assert not streams.problems, (len(streams.problems), streams.problems[:3])
    assert len(streams.pauses_s) >= STREAMS
    print(streams.pauses())
    processes.await_no_block_held()


@pytest.mark.parametrize("router_binary, worker_binary", [(OLD_BINARY, BINARY), (BINARY, OLD_BINARY)],
                         ids=["old router", "old workers"])
def test_a_router_and_workers_of_different_versions_serve_and_fail_over(requests, router_binary, worker_binary):
    with contextlib.ExitStack() as stack:
        processes = Processes(stack, router_binary)
        for role in ("prefill-worker", "decode-worker") * 2:
            processes.add(worker_binary, role)
        prefill, decode, _, other_decode = processes.workers
        with Streams(processes.client, requests, STREAMS) as streams:
            processes.kill(decode)
            processes.add(worker_binary, "decode-worker")
            processes.kill(prefill)
            processes.add(worker_binary, "prefill-worker")
            processes.end(other_decode)
        assert_good(streams, processes)
        refused = run_baton("drain", processes.workers[0].target, "--target", processes.router.target)
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused.stderr
        assert ("knows no drains: it is a router of a former version" if router_binary == OLD_BINARY else
                "is of a version that takes no order to drain: send its process SIGTERM instead") in refused.stderr


def test_streams_go_on_at_workers_of_the_other_version_in_both_directions(requests, authority):
    with contextlib.ExitStack() as stack:
        processes = Processes(stack, BINARY, authority)
        for binary in (OLD_BINARY, BINARY):
            for role in ("prefill-worker", "decode-worker"):
                processes.add(binary, role)
        old, new = processes.workers[1], processes.workers[3]
        (_, group), = {(worker["model"], worker["group"]) for worker in processes.router.workers()}
        assert group == "A"
        with Streams(processes.client, requests, STREAMS) as streams:
            processes.kill(old)
            old = processes.add(OLD_BINARY, "decode-worker")
            processes.kill(new)
            new = processes.add(BINARY, "decode-worker")
            # One that knows moves has a worker to move to that does not, and the other way round.
            processes.end(new)
            processes.add(BINARY, "decode-worker")
            processes.end(old)
        assert_good(streams, processes)


def test_a_bias_is_served_by_the_workers_that_know_it(requests):
    forced = {"max_tokens": 8, "ignore_eos": True, "logit_bias": [{"id": 4321, "bias": 100}]}
    with contextlib.ExitStack() as stack:
        processes = Processes(stack, BINARY)
        for binary in (OLD_BINARY, BINARY):
            for role in ("prefill-worker", "decode-worker"):
                processes.add(binary, role)
        with Streams(processes.client, requests, STREAMS) as streams:
            for _ in range(REQUESTS):
                assert processes.client.generate("Once", forced).token_ids == [4321] * 8
            processes.end(processes.workers[3])
            with pytest.raises(grpc.RpcError) as refused:
                processes.client.generate("Once", forced)
        assert_good(streams, processes)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "are of a version that does not know its logit_bias" in refused.value.details()


def test_an_upgrade_of_one_worker_after_the_other_fails_no_stream(requests, authority):
    with contextlib.ExitStack() as stack:
        processes = Processes(stack, BINARY, authority)
        for role in ("prefill-worker", "decode-worker") * 2:
            processes.add(OLD_BINARY, role)
        with Streams(processes.client, requests, STREAMS) as streams:
            for former, role in zip(list(processes.workers), ("prefill-worker", "decode-worker") * 2):
                processes.add(BINARY, role)
                processes.end(former)
            # All of them know the order by now.
            for former in list(processes.workers[:2]):
                processes.add(BINARY, former.command[1])
                processes.drain(former)
        assert_good(streams, processes)
        # Nobody was asked for a capability that he did not have.
        for process in (processes.router, *processes.workers):
            assert "PERMISSION_DENIED" not in process.log() and "does not count" not in process.log()
