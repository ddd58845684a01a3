"""Two workers that share all cores of the machine, one of which is stopped while it holds them."""

import threading
import time

from client import Background, Client, read_stream
from cluster import Cluster, stopped, tokenize_prose, wait_until

STOPPED_S = 4
# More than a step, a period and the silence after which a holder counts as stopped, which take 35 ms together, and what a
# busy machine adds. A decode worker that waited for the holder would stall for STOPPED_S.
STALL_S = 1
# It takes both cores of a machine several times faster than ours half a second.
LONG_PROMPT_TOKENS = 4_500


def test_a_stopped_holder_of_the_cores_costs_decode_no_more_than_a_period():
    ids = tokenize_prose()
    arrivals = []
    with Cluster("--prefill", 1, "--decode", 1, "--worker-silence-ms", 60_000) as cluster, Client(cluster.target) as client:
        # It has more tokens than it can send before it is cancelled.
        decoding = client.start(client.generate_request(ids[:20], {"max_tokens": 8_000, "ignore_eos": True}))
        reader = threading.Thread(target=read_stream, args=(decoding, lambda _: arrivals.append(time.monotonic())))
        reader.start()
        wait_until(lambda: len(arrivals) > 20, 60, "a stream that decodes")
        pid = cluster.pid_of("prefill")
        prefilling = Background(client, (ids[100:] * 2)[:LONG_PROMPT_TOKENS], {"max_tokens": 1})
        # Its blocks are in use from the first chunk on, which the next heartbeat says.
        wait_until(lambda: any(w["pid"] == pid and w["used_blocks"] > 0 for w in cluster.workers()), 60, "the long prompt")
        with stopped(pid):
            assert not prefilling.began.is_set(), "the long prompt is still computed"
            began = time.monotonic()
            time.sleep(STOPPED_S)
            ended = time.monotonic()
        decoding.cancel()
        reader.join()
        assert prefilling.result(timeout_s=120).error is None
    times = [began] + [at for at in arrivals if began < at < ended] + [ended]
    gaps = sorted(later - earlier for earlier, later in zip(times, times[1:]))
    print(f"{len(times) - 2} tokens while the holder was stopped, gaps up to {gaps[-3:]} s")
    assert gaps[-1] < STALL_S
