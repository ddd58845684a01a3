"""One tenant floods a cluster, and another one's few requests are served as if the first one waited with as few."""

import statistics
import threading

from client import Client
from cluster import Cluster, tokenize_prose, wait_until

# Without a target for first tokens the requests of a tenant are served in order, so that all of a flood wait alike.
ROLES = ("--prefill", 1, "--decode", 1, "--threads", 1, "--max-seqs", 4, "--ttft-target-ms", 0)
FLOOD = 40
REQUESTS = 6
SAMPLING = {"max_tokens": 16, "ignore_eos": True}
PROMPT_TOKENS = 300


def send(client, ids, number, tenant):
    """Milliseconds until the first output."""
    prompt = ids[7 * number:7 * number + PROMPT_TOKENS]
    generation = client.generate(prompt, SAMPLING, tenant=tenant, timeout_s=120)
    assert generation.error is None, generation.error
    return generation.finished.timing.queue_ms


def test_the_requests_of_a_tenant_do_not_wait_behind_the_flood_of_another():
    ids = tokenize_prose()
    waits, few = [], []
    is_over = threading.Event()
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:

        def flood(number):
            while not is_over.is_set():
                waits.append(send(client, ids, number, "flood"))

        threads = [threading.Thread(target=flood, args=(number,)) for number in range(FLOOD)]
        for thread in threads:
            thread.start()
        # Everybody of the flood waits as long as it makes all others wait.
        wait_until(lambda: len(waits) >= 2 * FLOOD, 120, "a flood that waits")
        waits.clear()
        for number in range(REQUESTS):
            few.append(send(client, ids, FLOOD + number, "few"))
        wait_until(lambda: len(waits) >= FLOOD, 120, "requests of the flood beside it")
        is_over.set()
        for thread in threads:
            thread.join()
    print(f"in the queue, median and most: the flood's {statistics.median(waits):.0f} and {max(waits):.0f} ms, the few "
          f"{statistics.median(few):.0f} and {max(few):.0f} ms")
    assert statistics.median(few) < statistics.median(waits) / 2
