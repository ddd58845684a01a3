"""A cluster whose cores are all busy loses no worker and no stream. BATON_LOAD_S is how long; 0, the default outside
BATON_FULL_TESTS=1, skips the test."""

import os
import random
import time
import urllib.request

import pytest

from client import Client, Load, Oracle
from cluster import Cluster

LOAD_S = int(os.environ.get("BATON_LOAD_S") or (600 if os.environ.get("BATON_FULL_TESTS") == "1" else 0))
STREAMS = 48
REQUESTS = 12
LOOK_EVERY_S = 1
# So long that no request is refused because it might be late, however slow others make the machine.
REQUEST_TIMEOUT_S = 900


def losses(cluster):
    """{labels: count} of the memberships that ended."""
    with urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    counts = dict(line.rsplit(" ", 1) for line in lines if line.startswith("baton_worker_losses_total{"))
    assert counts, "the router counts losses"
    return {labels: count for labels, count in counts.items() if float(count) > 0}


# Each worker has a kernel thread per core; with three workers, two of them decode beside one that prefills.
@pytest.mark.skipif(LOAD_S == 0, reason="it takes minutes: BATON_LOAD_S=seconds or BATON_FULL_TESTS=1 runs it")
@pytest.mark.parametrize("roles", [("--prefill", 1, "--decode", 1), ("--prefill", 1, "--decode", 1, "--mixed", 1)],
                         ids=["pair", "pair_and_mixed"])
def test_no_worker_is_falsely_lost_at_full_load(prose_ids, roles):
    rng = random.Random(20261123)
    requests = []
    for _ in range(REQUESTS):
        length = rng.choice([8, 60, 300, 900])
        start = rng.randrange(len(prose_ids) - length)
        requests.append((prose_ids[start:start + length], {"max_tokens": rng.choice([1, 16, 80]), "ignore_eos": True}))
    with Cluster(*roles) as cluster, Client(cluster.target) as client:
        incarnations = lambda: sorted(worker["incarnation"] for worker in cluster.workers())
        before = incarnations()
        assert len(before) == len(roles) / 2
        with Load(client, Oracle(client), requests, STREAMS, timeout_s=REQUEST_TIMEOUT_S) as load:
            end = time.monotonic() + LOAD_S
            while time.monotonic() < end:
                assert incarnations() == before
                time.sleep(LOOK_EVERY_S)
            problems = load.stop()
        assert not problems, problems
        # A worker that was lost may have come back as a member since.
        assert losses(cluster) == {}
        print(f"{load.finished} streams in {LOAD_S} s")
