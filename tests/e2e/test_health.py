"""Failures that end no process: a pair of workers that cannot reach each other, and a worker that is alive and slow.
Streams stay right, and new requests stay away from both."""

import contextlib
import re
import time
import urllib.request

import pytest

from client import Client
from cluster import Cluster, RoleProcess, wait_until
from streams import Streams, learned_requests

SEED = 20261124
STREAMS = 6
TIMEOUT_S = 120
PAIR_ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0)
# Streams that end after the pair is known. A quarter of them would meet it.
STREAMS_AFTER = 60
# Trials of the pair come after about 1, 2, 4, 8, 16, 32, 60 and 60 s.
MAX_TRIALS = 8
STEP_DELAY_MS = 400
WATCHED_S = 6


@pytest.fixture(scope="module")
def requests(prose_ids):
    return learned_requests(SEED, prose_ids, 8, PAIR_ROLES, max_tokens=20)


def failed_attempts(cluster):
    text = urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=5).read().decode()
    return int(re.search(r'^baton_attempts_total\{.*outcome="lost".*\} (\d+)', text, re.MULTILINE)[1])


def worker_at(cluster, address):
    return next(worker for worker in cluster.workers() if worker["address"] == address)


def await_streams(streams, count):
    ended = len(streams.pauses_s)
    wait_until(lambda: len(streams.pauses_s) >= ended + count, TIMEOUT_S, f"{count} streams")


def test_a_pair_that_cannot_reach_each_other_gets_trials_alone_and_serves_again_when_it_can(requests, tmp_path):
    partition = tmp_path / "partition"
    partition.write_text("")
    environment = {"BATON_TEST_PARTITION": str(partition)}
    with Cluster(*PAIR_ROLES, env=environment) as cluster, Client(cluster.target) as client:
        workers = cluster.workers()
        source = next(worker for worker in workers if worker["role"] == "prefill")
        reader = next(worker for worker in workers if worker["role"] == "decode")
        with Streams(client, requests, STREAMS) as streams:
            await_streams(streams, STREAMS)
            assert failed_attempts(cluster) == 0
            partition.write_text(f"{reader['pid']} {source['address']}\n")
            wait_until(lambda: worker_at(cluster, reader["address"])["bad_partners"] == [source["address"]], TIMEOUT_S,
                       "the failed pair in the status")
            await_streams(streams, STREAMS)
            known = failed_attempts(cluster)
            await_streams(streams, STREAMS_AFTER)
            after = failed_attempts(cluster) - known
            assert known <= STREAMS + MAX_TRIALS, "each stream met the pair at most once before it was known"
            assert after <= MAX_TRIALS, f"{after} of {STREAMS_AFTER} streams met the pair"
            both = [worker_at(cluster, worker["address"]) for worker in (source, reader)]
            assert [worker["state"] for worker in both] == ["serving", "serving"]
            assert [worker["trouble"] for worker in both] == [None, None], "it is nobody's fault but the pair's"
            partition.write_text("")
            wait_until(lambda: not worker_at(cluster, reader["address"])["bad_partners"], TIMEOUT_S,
                       "a trial that goes well")
        # An attempt is counted when its request ends.
        assert failed_attempts(cluster) >= 1
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        log = cluster.log()
        assert log.count(f"from prefill worker {source['address']} to decode worker {reader['address']} fail") == 1, log
        print(f"{known} attempts failed before the pair was known, then {after} trials of {STREAMS_AFTER} streams")


def test_a_worker_that_is_ten_times_slower_than_its_peers_gets_trials_alone(requests):
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(RoleProcess("router", "--grpc-port", 0, "--admin-port", 0))
        common = ("--router", router.cluster_target, "--grpc-port", 0, "--threads", 1, "--kv-memory", "256MiB")
        stack.enter_context(RoleProcess("prefill-worker", *common))
        for _ in range(2):
            stack.enter_context(RoleProcess("decode-worker", *common))
        delay = {"BATON_TEST_DELAYS": f"step={STEP_DELAY_MS}"}
        slow = stack.enter_context(RoleProcess("decode-worker", *common, env=delay))
        wait_until(lambda: len(router.workers()) == 4, TIMEOUT_S, "all workers")
        slow_address = next(worker["address"] for worker in router.workers() if worker["pid"] == slow.pid)
        client = stack.enter_context(Client(router.target))
        with Streams(client, requests, STREAMS) as streams:
            wait_until(lambda: worker_at(router, slow_address)["trouble"] == "slow", TIMEOUT_S, "its ejection")
            # What was on its way to it at the ejection may begin to run there only now.
            streams.await_turn(TIMEOUT_S)
            wait_until(lambda: worker_at(router, slow_address)["running"] <= 1, TIMEOUT_S, "the end of its streams")
            ended, running = len(streams.pauses_s), []
            end = time.monotonic() + WATCHED_S
            while time.monotonic() < end:
                workers = router.workers()
                running.append(sum(worker["running"] for worker in workers if worker["address"] == slow_address))
                assert [worker["trouble"] for worker in workers if worker["address"] != slow_address] == [None] * 3
                time.sleep(0.1)
            served = len(streams.pauses_s) - ended
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert max(running) <= 1, "one trial at a time"
        assert worker_at(router, slow_address)["state"] == "serving"
        assert served >= STREAMS, "the others serve on"
        assert router.log().count("is much slower than its peers") == 1, router.log()
        print(f"{served} streams ended in {WATCHED_S} s, and the slow worker ran at most {max(running)} at once")


def canaries(cluster, outcome):
    text = urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=5).read().decode()
    return int(re.search(rf'^baton_canary_total\{{outcome="{outcome}"\}} (\d+)', text, re.MULTILINE)[1])


def test_a_link_that_dies_while_idle_is_found_and_freed_by_canaries_and_no_request_meets_it(requests, tmp_path):
    partition = tmp_path / "partition"
    partition.write_text("")
    environment = {"BATON_TEST_PARTITION": str(partition)}
    flags = ("--canary-interval-ms", 500)
    with Cluster(*PAIR_ROLES, *flags, env=environment) as cluster, Client(cluster.target) as client:
        pairs = 4
        wait_until(lambda: canaries(cluster, "ok") >= 2 * pairs, TIMEOUT_S, "canaries of all pairs")
        assert canaries(cluster, "failed") == canaries(cluster, "wrong_answer") == 0
        workers = cluster.workers()
        source = next(worker for worker in workers if worker["role"] == "prefill")
        reader = next(worker for worker in workers if worker["role"] == "decode")
        partition.write_text(f"{reader['pid']} {source['address']}\n")
        wait_until(lambda: worker_at(cluster, reader["address"])["bad_partners"] == [source["address"]], TIMEOUT_S,
                   "the failed pair in the status")
        with Streams(client, requests, STREAMS) as streams:
            await_streams(streams, STREAMS_AFTER)
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert failed_attempts(cluster) == 0, "a request met the pair"
        partition.write_text("")
        wait_until(lambda: not worker_at(cluster, reader["address"])["bad_partners"], TIMEOUT_S,
                   "a canary that frees it")
        assert canaries(cluster, "failed") >= 1
        assert canaries(cluster, "wrong_answer") == 0
        log = cluster.log()
        assert log.count(f"from prefill worker {source['address']} to decode worker {reader['address']} fail") == 1, log
        assert "a canary met" in log
        assert failed_attempts(cluster) == 0, "no request freed it"
