"""Two prefill workers over TCP, one of which is stopped in the middle of a transfer: the transfers from the other one take
no longer than usual."""

import contextlib
import os
import statistics
import threading
import time

from client import Background, Client, read_stream
from cluster import Cluster, stopped, tokenize_prose, wait_until

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
# A prompt is computed in one chunk, so that all of its blocks are read at once and behind it: megabytes, which take so long
# that what the scheduler adds is little beside it.
CHUNK_TOKENS = 2_048
PROMPT_TOKENS = 1_600
CLUSTER = ("--prefill", 2, "--decode", 1, "--threads", 1, "--transport", "tcp", "--chunk-tokens", CHUNK_TOKENS,
           # The router does not give the stopped worker up while it is measured.
           "--worker-silence-ms", 60_000)
# Its prefill takes seconds with one thread, and its blocks are pulled all that time.
LONG_PROMPT_TOKENS = 6_000 if FULL else 4_500
# The first ones set connections up.
WARM_UPS = 2
# Times that a source is stopped, and transfers beside each.
STOPS = 4 if FULL else 1
TRANSFERS = 6 if FULL else 3
# A busy machine makes fewer in that time, and a slow one gets more of it.
MEASURE_LIMIT_S = 4.5
MIN_TRANSFERS = 2
USUAL_FACTOR = 2
# What the scheduler adds to a transfer; outside of the full form the machine may have a loaded neighbour.
SCHEDULER_MS = 10 if FULL else 25


def transfers(client, ids, tenant, count):
    """Yields the times of as many hand-offs, one after the other: of the read, and what it added to its request."""
    for turn in range(count):
        # No prefix is shared, so that every block is transferred.
        prompt = ids[1 + 7 * turn:1 + 7 * turn + PROMPT_TOKENS]
        request = client.generate_request(prompt, {"max_tokens": 2, "ignore_eos": True}, tenant=f"{tenant}-{turn}")
        generation = read_stream(client.start(request))
        assert generation.error is None, generation.error
        assert generation.finished.transfer.bytes > 0
        yield generation.finished.transfer.read_ms, generation.finished.timing.transfer_ms


def transfers_within(client, ids, tenant, limit_s):
    """Those of the same that end in time. They run on a thread, so that the limit holds even when no request ends."""
    times, is_over = [], threading.Event()

    def measure():
        for one in transfers(client, ids, tenant, TRANSFERS):
            if is_over.is_set():
                return
            times.append(one)

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join(limit_s)
    is_over.set()
    return thread, list(times)


def prefill_worker_in_mid_prompt(cluster):
    """The prefill worker some of whose blocks are computed and handed over, and some are not."""
    return next((worker for worker in cluster.workers() if worker["role"] == "prefill"
                 and LONG_PROMPT_TOKENS // 2 < worker["pending_prompt_tokens"] < LONG_PROMPT_TOKENS - 500), None)


def transfers_beside_a_stopped_source(cluster, client, ids, tenant, limit_s):
    half_way = Background(client, (ids * 3)[:LONG_PROMPT_TOKENS], {"max_tokens": 2, "ignore_eos": True}, tenant=tenant)
    source = wait_until(lambda: prefill_worker_in_mid_prompt(cluster), 30, "a prompt that is computed")
    with stopped(source["pid"]):
        thread, beside = transfers_within(client, ids, f"beside-{tenant}", limit_s)
        assert len(beside) >= MIN_TRANSFERS, f"{len(beside)} of {TRANSFERS} transfers within {limit_s} s"
    assert half_way.result(timeout_s=120).error is None
    thread.join()
    return beside


def test_a_prefill_worker_stopped_in_mid_transfer_slows_down_no_other_transfer():
    ids = tokenize_prose()
    with Cluster(*CLUSTER) as cluster, Client(cluster.target) as client:
        list(transfers(client, ids, "warm", WARM_UPS))
        usual, beside = [], []
        # In turns, so that both see the same machine.
        for turn in range(STOPS):
            began = time.monotonic()
            usual += transfers(client, ids, f"usual-{turn}", TRANSFERS)
            limit_s = max(MEASURE_LIMIT_S, time.monotonic() - began)
            beside += transfers_beside_a_stopped_source(cluster, client, ids, f"stop-{turn}", limit_s)
    for name, usual_ms, beside_ms in zip(("read", "added"), zip(*usual), zip(*beside)):
        print(f"{name}: usually {statistics.median(usual_ms):.1f} ms, at most {max(usual_ms):.1f} of {len(usual_ms)}; beside a "
              f"stopped source {statistics.median(beside_ms):.1f} ms, at most {max(beside_ms):.1f} of {len(beside_ms)}")
        # Most transfers add nothing to their request, so twice that leaves no room.
        slack_ms = 0 if FULL and name == "read" else SCHEDULER_MS
        assert statistics.median(beside_ms) <= USUAL_FACTOR * statistics.median(usual_ms) + slack_ms
        assert max(beside_ms) <= USUAL_FACTOR * max(usual_ms) + SCHEDULER_MS
