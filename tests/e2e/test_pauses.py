"""Processes that are stopped for a while by SIGSTOP, and a link that one end takes for broken and the other does not.

A paused process is not a dead one: nobody restarts it, and seconds after it goes on the cluster is what it was before.
BATON_FULL_TESTS=1 pauses every process for 3, 7 and 20 s, idle and under load. The short set takes 7 s, which is longer
than a router waits for a silent worker.
"""

import concurrent.futures
import os
import time

import grpc
import pytest

from client import Client, Load, Oracle
from cluster import Cluster, RoleProcess, stopped, wait_until
from slow_link import SlowLink

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
PAUSES_S = (3, 7, 20) if FULL else (7,)
PAIR = ("--threads", 1)
MIXED = ("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1)
PROMPT = "The capital of France is"
# To serve, and to list every worker: a free machine needs 0.2 s, and four clusters on a slow one seconds. A lease that had
# to end first takes 15.
SERVES_WITHIN_S = 2 if FULL else 10
WATCHED_S = 2
# A prefill worker keeps the blocks of a decode worker that is gone for its lease and some grace.
LEASE_S = 16
STREAMS = 3
MAX_TOKENS = 24
# A worker was lost, and every stream that it was part of says so.
LOSSES = (grpc.StatusCode.UNAVAILABLE,)


def args_of(role):
    return MIXED if role == "mixed" else PAIR


def wait_serving(client, expected, since):
    """Seconds from `since` to the end of the first request that was served."""
    attempts = []
    while True:
        left_s = since + SERVES_WITHIN_S - time.monotonic()
        assert left_s > 0, f"nothing was served within {SERVES_WITHIN_S} s: {attempts}"
        try:
            assert client.generate(PROMPT, {"max_tokens": 4}, timeout_s=left_s).token_ids == expected
            return time.monotonic() - since
        except grpc.RpcError as error:
            attempts.append(error.details())
            time.sleep(0.05)


def identities(workers):
    return sorted((worker["role"], worker["pid"], worker["incarnation"], worker["state"]) for worker in workers)


def check_whole(cluster, workers, since):
    """Every worker of `workers`, as it was before, is listed once within the same time in which a request is served."""
    left_s = since + SERVES_WITHIN_S - time.monotonic()
    wait_until(lambda: identities(cluster.workers()) == identities(workers), left_s, f"all of {identities(workers)}")
    whole_s = time.monotonic() - since
    assert whole_s < SERVES_WITHIN_S, f"all workers are listed {whole_s:.2f} s after"
    return whole_s


def check_free(cluster):
    def holders():
        status = cluster.status()
        return [w for w in status["workers"] if w["used_blocks"] or w["running"]] + [
            status[name] for name in ("running_jobs", "queued_jobs") if status[name]]

    wait_until(lambda: not holders(), LEASE_S, f"the end of {holders()}")


def pause(cluster, client, role, pause_s):
    """What happened after the end of the pause, in words."""
    expected = client.generate(PROMPT, {"max_tokens": 4}).token_ids
    workers = cluster.workers()
    with stopped(cluster.pid_of(role)):
        time.sleep(pause_s)
    goes_on = time.monotonic()
    served_s = wait_serving(client, expected, goes_on)
    whole_s = check_whole(cluster, workers, goes_on)
    return f"served {served_s:.2f} s and whole {whole_s:.2f} s after"


def pause_idle(role, pause_s):
    with Cluster(*args_of(role)) as cluster, Client(cluster.target) as client:
        words = pause(cluster, client, role, pause_s)
        check_free(cluster)
    return f"{role} idle, {pause_s} s: {words}"


def pause_loaded(role, pause_s, prose_ids):
    requests = [(prose_ids[start:start + 200], {"max_tokens": MAX_TOKENS, "ignore_eos": True})
                for start in range(0, 2_000, 400)]
    with Cluster(*args_of(role)) as cluster, Client(cluster.target) as client:
        workers = identities(cluster.workers())
        with Load(client, Oracle(client), requests, STREAMS, LOSSES) as load:
            wait_until(lambda: load.finished >= 2 * STREAMS, 60, "the load")
            words = pause(cluster, client, role, pause_s)
            before = load.finished
            wait_until(lambda: load.finished >= before + 2 * STREAMS, 60, "the load to go on")
            problems = load.stop()
        assert not problems, problems
        check_free(cluster)
        assert identities(cluster.workers()) == workers
    return f"{role} loaded, {pause_s} s: {words}, {load.finished} streams, {load.errors} cut"


def side_by_side(run, cases):
    """All cases at once, each with a cluster of its own."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        running = {case: pool.submit(run, *case) for case in cases}
        for case, future in running.items():
            error = future.exception()
            print(future.result() if error is None else f"{case[:2]}: {error}")
    failed = [case[:2] for case, future in running.items() if future.exception() is not None]
    assert not failed, failed


@pytest.mark.parametrize("pause_s", PAUSES_S)
def test_a_pause_of_any_process_of_an_idle_cluster_leaves_no_trace(pause_s):
    side_by_side(pause_idle, [(role, pause_s) for role in ("router", "prefill", "decode", "mixed")])


# Two loaded clusters at a time, so that a machine of two cores serves each within its time.
@pytest.mark.parametrize("pause_s", PAUSES_S)
@pytest.mark.parametrize("roles", [("router", "decode"), ("prefill", "mixed")])
def test_a_pause_under_load_costs_no_stream_more_than_an_explicit_error(roles, pause_s, prose_ids):
    side_by_side(pause_loaded, [(role, pause_s, tuple(prose_ids)) for role in roles])


def test_the_late_end_of_a_worker_s_old_connection_does_not_touch_its_new_membership():
    """The worker's connection breaks on its side alone. The router learns that only after the worker has joined anew."""
    with RoleProcess("router", "--grpc-port", 0) as router, SlowLink(router.cluster_target, 0) as link:
        with RoleProcess("mixed-worker", "--router", link.address, "--grpc-port", 0, "--threads", 1) as worker:
            (before,) = wait_until(router.workers, 60, "the worker")
            with Client(router.target) as client:
                expected = client.generate(PROMPT, {"max_tokens": 4}).token_ids
                joined = router.log().count("joined:")
                assert link.orphan() >= 1
                wait_until(lambda: router.log().count("joined:") == joined + 1, 20, "the worker to join anew")
                link.end_orphans()
                end = time.monotonic() + WATCHED_S
                while time.monotonic() < end:
                    assert client.generate(PROMPT, {"max_tokens": 4}).token_ids == expected
                    assert [w["incarnation"] for w in router.workers()] == [before["incarnation"]]
            assert worker.process.poll() is None
