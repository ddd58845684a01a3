"""`baton ledger` on real processes: it names the requests that run, is empty when nothing runs, whatever has died before, and
finds a leak that a test has planted, as the metric and the router's log do."""

import json
import os
import re
import signal
import urllib.request

import pytest

from client import Client
from cluster import Cluster, run_baton, wait_until

ROLES = ("--prefill", 1, "--decode", 1, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0)
# With slow steps they run for a minute on the fastest machine, which is several reports of the workers.
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
SLOW_STEPS = {"BATON_TEST_DELAYS": "step=10"}
SHORT = {"max_tokens": 4, "ignore_eos": True}
PROMPT_TOKENS = 120
STREAMS = 3
# A worker reports every 5 s.
REPORT_TIMEOUT_S = 30
# An orphan is one after 35 s.
ORPHAN_TIMEOUT_S = 90
RETURN_TIMEOUT_S = 60


def ledger(cluster):
    """The exit code, and what the command says."""
    result = run_baton("ledger", "--target", cluster.target, "--json")
    assert result.returncode in (0, 1) and not result.stderr, (result.returncode, result.stderr)
    return result.returncode, json.loads(result.stdout)


def orphaned_by_metric(cluster):
    """{role: blocks}, as the router's admin port says."""
    text = urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=5).read().decode()
    found = re.findall(r'^baton_worker_orphaned_blocks\{.*role="(\w+)".*\} (\d+)', text, re.MULTILINE)
    return {role: int(blocks) for role, blocks in found}


def assert_books_balance(said):
    for worker in said["workers"]:
        held = sum(holder["own_blocks"] for holder in worker["holders"])
        assert worker["held_blocks"] == held, worker
        assert worker["free_blocks"] + worker["cached_blocks"] + held == worker["total_blocks"], worker
        assert worker["unaccounted_blocks"] == 0, worker


def named_by(said, role, hold):
    """{job: blocks} that workers of the role hold so."""
    return {holder["job"]: holder["blocks"] for worker in said["workers"] if worker["role"] == role
            for holder in worker.get("holders", ()) if holder["hold"] == hold}


def said_of_all(cluster, workers):
    """What the command says once every worker has reported."""
    _, said = ledger(cluster)
    return said if [worker["reported"] for worker in said["workers"]] == [True] * workers else None


def empty(cluster, workers):
    said = said_of_all(cluster, workers)
    return said if said and not any(worker["held_blocks"] for worker in said["workers"]) else None


def assert_clean(cluster, workers):
    said = wait_until(lambda: empty(cluster, workers), RETURN_TIMEOUT_S, "a ledger without holders")
    assert_books_balance(said)
    assert said["orphaned_blocks"] == 0 and said["open_calls"] == 0, said
    assert ledger(cluster)[0] == 0
    assert set(orphaned_by_metric(cluster).values()) == {0}


def test_the_ledger_names_the_requests_that_run_and_is_empty_after_them_and_after_a_death(prose_ids):
    with Cluster(*ROLES, env=SLOW_STEPS) as cluster, Client(cluster.target) as client:
        wait_until(lambda: said_of_all(cluster, 2), REPORT_TIMEOUT_S, "the first reports")
        prompts = [prose_ids[i * PROMPT_TOKENS:(i + 1) * PROMPT_TOKENS] for i in range(STREAMS)]
        streams = [client.start(client.generate_request(prompt, ENDLESS)) for prompt in prompts]
        for stream in streams:
            next(iter(stream))
        decoding = wait_until(lambda: len(jobs := named_by(ledger(cluster)[1], "decode", "decoding")) == STREAMS
                              and jobs, REPORT_TIMEOUT_S, "a report of all streams")
        code, said = ledger(cluster)
        assert code == 0 and said["orphaned_blocks"] == 0
        assert_books_balance(said)
        (decode,) = (worker for worker in said["workers"] if worker["role"] == "decode")
        assert decode["open_calls"] == STREAMS
        assert {holder["verdict"] for holder in decode["holders"]} == {"called"}
        assert all(holder["held_ms"] > 0 and holder["attempt"] >= 1 for holder in decode["holders"])
        # A prompt of 120 tokens alone takes 8 blocks.
        assert all(blocks >= 8 for blocks in decoding.values()), decoding
        result = run_baton("ledger", "--target", cluster.target)
        assert result.returncode == 0 and all(job in result.stdout for job in decoding), result.stdout
        assert "no orphans at 2 workers" in result.stdout
        # The streams go on elsewhere, which is the same worker started anew, and none is lost or orphaned.
        os.kill(cluster.pid_of("decode"), signal.SIGKILL)
        again = wait_until(lambda: len(jobs := named_by(ledger(cluster)[1], "decode", "decoding")) == STREAMS and jobs,
                           RETURN_TIMEOUT_S, "the same streams at the next worker")
        assert again.keys() == decoding.keys()
        for stream in streams:
            stream.cancel()
        assert_clean(cluster, 2)


@pytest.mark.parametrize("leak", ["job", "sequence"])
def test_a_planted_leak_is_found_by_the_command_the_metric_and_the_log(prose_ids, leak):
    roles = (*ROLES, "--drain-timeout-ms", 500)
    with Cluster(*roles, env={"BATON_TEST_LEAK": leak}) as cluster, Client(cluster.target) as client:
        wait_until(lambda: said_of_all(cluster, 2), REPORT_TIMEOUT_S, "the first reports")
        assert ledger(cluster)[0] == 0
        assert client.generate(prose_ids[:PROMPT_TOKENS], SHORT).error is None
        wait_until(lambda: ledger(cluster)[0] == 1, ORPHAN_TIMEOUT_S, "the leak")
        said = ledger(cluster)[1]
        assert_books_balance(said)
        assert said["workers_with_orphans"] == 1 and said["open_calls"] == 0
        (decode,) = (worker for worker in said["workers"] if worker["role"] == "decode")
        (orphan,) = decode["holders"]
        assert orphan["verdict"] == "orphan" and orphan["hold"] == {"job": "ended", "sequence": "unowned"}[leak]
        assert orphan["blocks"] == decode["orphaned_blocks"] == said["orphaned_blocks"] >= 8
        result = run_baton("ledger", "--target", cluster.target)
        assert result.returncode == 1 and orphan["job"] in result.stdout, result.stdout
        assert "start these workers anew" in result.stdout
        wait_until(lambda: orphaned_by_metric(cluster) == {"prefill": 0, "decode": orphan["blocks"]}, REPORT_TIMEOUT_S,
                   "the metric")
        line = (r"decode worker \S+ \(pid \d+\) holds KV blocks that nobody will give back: "
                rf"{orphan['blocks']} of 1 attempt without a call, such as {orphan['job']}")
        wait_until(lambda: re.search(line, cluster.log()), REPORT_TIMEOUT_S, "the router's line")
