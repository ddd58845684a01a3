"""Two workers that share all cores of the machine, one of which is stopped while it holds them."""

import os
import statistics
import threading
import time

from client import Background, Client, read_stream
from cluster import Cluster, stopped, tokenize_prose, wait_until

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
STOPS, STOPPED_S, RUNS_S = (4, 3, 0.1) if FULL else (1, 4, 0)
PERIOD_S = 0.02
# What the scheduler adds to a gap. Outside of the full form the machine may have a loaded neighbour as well.
SLACK_S = 0.005 if FULL else 0.03
# Gaps of the stream alone, which show how long a step usually takes.
USUAL_GAPS = 200
# The first step waits for the 20 ms of silence after which a holder counts as stopped, or for the 100 ms after which one
# does that is stopped while it is next. A decode worker that waited for the holder would stall for STOPPED_S.
STALL_S = 0.3 if FULL else 1
# It takes both cores of a machine several times faster than ours half a second.
LONG_PROMPT_TOKENS = 4_500


def gaps_between(times):
    return sorted(later - earlier for earlier, later in zip(times, times[1:]))


def p99_of(gaps):
    return gaps[int(0.99 * (len(gaps) - 1))]


def test_a_stopped_holder_of_the_cores_costs_decode_no_more_than_a_period():
    ids = tokenize_prose()
    arrivals = []
    with Cluster("--prefill", 1, "--decode", 1, "--worker-silence-ms", 60_000, "--decode-period-ms",
                 round(1e3 * PERIOD_S)) as cluster, Client(cluster.target) as client:
        # It has more tokens than it can send before it is cancelled.
        decoding = client.start(client.generate_request(ids[:20], {"max_tokens": 8_000, "ignore_eos": True}))
        reader = threading.Thread(target=read_stream, args=(decoding, lambda _: arrivals.append(time.monotonic())))
        reader.start()
        wait_until(lambda: len(arrivals) > USUAL_GAPS, 60, "a stream that decodes")
        usual = gaps_between(arrivals[:USUAL_GAPS])
        pid = cluster.pid_of("prefill")
        prefilling = Background(client, (ids[100:] * 2)[:LONG_PROMPT_TOKENS], {"max_tokens": 1})
        # Its blocks are in use from the first chunk on, which the next heartbeat says.
        wait_until(lambda: any(w["pid"] == pid and w["used_blocks"] > 0 for w in cluster.workers()), 60, "the long prompt")
        stops = []
        for _ in range(STOPS):
            with stopped(pid):
                assert not prefilling.began.is_set(), "the long prompt is still computed"
                began = time.monotonic()
                time.sleep(STOPPED_S)
                stops.append((began, time.monotonic()))
            time.sleep(RUNS_S)
        decoding.cancel()
        reader.join()
        assert prefilling.result(timeout_s=120).error is None
    gaps = sorted(gap for began, ended in stops
                  for gap in gaps_between([began, *(at for at in arrivals if began < at < ended), ended]))
    for name, of in (("median", statistics.median), ("P99", p99_of)):
        print(f"{name} of {len(gaps)} gaps beside the stopped holder {1e3 * of(gaps):.1f} ms, usually {1e3 * of(usual):.1f}")
    print(f"the longest ones {[round(1e3 * gap, 1) for gap in gaps[-3:]]} ms")
    assert statistics.median(gaps) <= statistics.median(usual) + PERIOD_S + SLACK_S
    assert not FULL or p99_of(gaps) <= p99_of(usual) + PERIOD_S + SLACK_S
    assert gaps[-1] < STALL_S
