"""Two prefill workers over TCP, one of which is stopped in the middle of a transfer: the transfers from the other one take
no longer than usual."""

import contextlib
import statistics
import threading
import time

from client import Background, Client, read_stream
from cluster import Cluster, stopped, tokenize_prose, wait_until

CLUSTER = ("--prefill", 2, "--decode", 1, "--threads", 1, "--transport", "tcp",
           # The router does not give the stopped worker up while it is measured.
           "--worker-silence-ms", 60_000)
PROMPT_TOKENS = 600
# Its prefill takes seconds with one thread, and its blocks are pulled all that time.
LONG_PROMPT_TOKENS = 6_000
# The first ones set connections up.
WARM_UPS = 2
TRANSFERS = 6
# A busy machine makes fewer in that time, and a slow one gets more of it.
MEASURE_LIMIT_S = 4.5
MIN_TRANSFERS = 2
USUAL_FACTOR = 2
# A busy machine may leave a thread without a core for this long.
SCHEDULER_MS = 25


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


def test_a_prefill_worker_stopped_in_mid_transfer_slows_down_no_other_transfer():
    ids = tokenize_prose()
    with Cluster(*CLUSTER) as cluster, Client(cluster.target) as client:
        list(transfers(client, ids, "warm", WARM_UPS))
        began = time.monotonic()
        usual = list(transfers(client, ids, "usual", TRANSFERS))
        limit_s = max(MEASURE_LIMIT_S, time.monotonic() - began)
        half_way = Background(client, (ids * 3)[:LONG_PROMPT_TOKENS], {"max_tokens": 2, "ignore_eos": True})
        source = wait_until(lambda: prefill_worker_in_mid_prompt(cluster), 30, "a prompt that is computed")
        with contextlib.ExitStack() as stack:
            stack.enter_context(stopped(source["pid"]))
            thread, beside = transfers_within(client, ids, "beside", limit_s)
            assert len(beside) >= MIN_TRANSFERS, f"{len(beside)} of {TRANSFERS} transfers within {limit_s} s"
        assert half_way.result(timeout_s=120).error is None
        thread.join()
    for name, usual_ms, beside_ms in zip(("read", "added"), zip(*usual), zip(*beside)):
        print(f"{name}: usually {statistics.median(usual_ms):.1f} ms, at most {max(usual_ms):.1f}; beside a stopped source "
              f"{statistics.median(beside_ms):.1f} ms, at most {max(beside_ms):.1f}")
        assert statistics.median(beside_ms) <= USUAL_FACTOR * statistics.median(usual_ms) + SCHEDULER_MS
        assert max(beside_ms) <= USUAL_FACTOR * (max(usual_ms) + SCHEDULER_MS)
