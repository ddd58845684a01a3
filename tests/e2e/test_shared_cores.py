"""Two workers that share all cores of the machine, one of which is stopped while it holds them."""

import threading
import time

from client import Background, Client, read_stream
from cluster import Cluster, stopped, tokenize_prose, wait_until

STOPPED_S = 4
# More than a step, a period and the silence after which a holder counts as stopped, and what a busy machine adds.
STALL_S = 0.25


def test_a_stopped_holder_of_the_cores_costs_decode_no_more_than_a_period():
    ids = tokenize_prose()
    arrivals = []
    with Cluster("--prefill", 1, "--decode", 1, "--worker-silence-ms", 60_000) as cluster, Client(cluster.target) as client:
        # It has more tokens than it can send before it is cancelled.
        decoding = client.start(client.generate_request(ids[:20], {"max_tokens": 8_000, "ignore_eos": True}))
        reader = threading.Thread(target=read_stream, args=(decoding, lambda _: arrivals.append(time.monotonic())))
        reader.start()
        wait_until(lambda: len(arrivals) > 20, 60, "a stream that decodes")
        prefilling = Background(client, ids[100:3_100], {"max_tokens": 1})
        time.sleep(0.3)
        assert not prefilling.began.is_set(), "the long prompt is still computed"
        with stopped(cluster.pid_of("prefill")):
            began = time.monotonic()
            time.sleep(STOPPED_S)
            ended = time.monotonic()
        decoding.cancel()
        reader.join()
        assert prefilling.result().error is None
    times = [began] + [at for at in arrivals if began < at < ended] + [ended]
    gaps = sorted(later - earlier for earlier, later in zip(times, times[1:]))
    print(f"{len(times) - 2} tokens while the holder was stopped, gaps up to {gaps[-3:]} s")
    assert gaps[-1] < STALL_S
