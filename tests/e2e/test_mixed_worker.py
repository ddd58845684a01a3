"""A mixed worker, whose phases share the blocks of one pool."""

import threading

from client import Client, read_stream
from cluster import Cluster, tokenize_prose

# 102 blocks of 16 tokens.
SMALL_POOL = ("--prefill", 0, "--decode", 0, "--mixed", 1, "--kv-memory", "36MiB")


def test_a_request_of_one_token_gets_the_blocks_that_a_finished_one_gives_back():
    ids = tokenize_prose()
    with Cluster(*SMALL_POOL) as cluster, Client(cluster.target) as client:
        # 88 blocks for the prompt, up to 98 with the output.
        stream = client.start(client.generate_request(ids[:1_400], {"max_tokens": 150, "ignore_eos": True}))
        began = threading.Event()
        generations = []
        reader = threading.Thread(target=lambda: generations.append(read_stream(stream, lambda _: began.set())))
        reader.start()
        assert began.wait(60), "no token came"
        # 25 blocks, which are free only once the first request has ended.
        waiting = client.generate(ids[2_000:2_400], {"max_tokens": 1}, timeout_s=60)
        reader.join()
        assert generations[0].error is None
        assert len(waiting.token_ids) == 1
        assert client.generate(ids[:20], {"max_tokens": 2, "ignore_eos": True}, timeout_s=60).error is None
