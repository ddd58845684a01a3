"""A mixed worker, whose phases share the blocks of one pool."""

import contextlib
import threading
import time

from client import Client, Load, Oracle, read_stream
from cluster import Cluster, RoleProcess, tokenize_prose, wait_until

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


def test_a_large_prompt_is_served_although_small_ones_keep_coming():
    ids = tokenize_prose()
    # Different lengths, so that two or more of these are at work at any time and the worker is never idle by itself.
    small = [(ids[start:start + 100], {"max_tokens": 20 + start // 100, "ignore_eos": True})
             for start in (1_000, 2_000, 3_000)]
    # 40 blocks fit beside the small ones, but not with the headroom that the worker keeps for its prompts.
    large = (ids[:640], {"max_tokens": 2, "ignore_eos": True})
    with Cluster(*SMALL_POOL) as cluster, Client(cluster.target) as client:
        oracle = Oracle(client)
        expected = oracle.tokens(*large)
        with Load(client, oracle, small, 5) as load:
            wait_until(lambda: load.finished >= 2, 60, "the load")
            assert client.generate(*large, timeout_s=30).token_ids == expected
            before = load.finished
            wait_until(lambda: load.finished >= before + 2, 60, "the load to go on")
            problems = load.stop()
        assert not problems, problems


def test_a_prompt_that_waits_for_the_one_worker_it_fits_keeps_nobody_from_the_others():
    """A client with prompts as large as the larger pool, and one whose prompts fit both."""
    ids = tokenize_prose()
    large = (ids[:800], {"max_tokens": 150, "ignore_eos": True})
    with RoleProcess("router", "--grpc-port", 0) as router, contextlib.ExitStack() as workers:
        for kv_memory in ("24MiB", "12MiB"):
            workers.enter_context(RoleProcess("mixed-worker", "--router", router.cluster_target, "--grpc-port", 0,
                                              "--threads", 1, "--kv-memory", kv_memory))
        wait_until(lambda: len(router.workers()) == 2, 60, "both workers")
        waits_s = []
        with Client(router.target) as client, Load(client, Oracle(client), [large], 3) as load:
            began = time.monotonic()
            while load.finished < 2:
                asked = time.monotonic()
                client.generate(ids[2_000:2_010], {"max_tokens": 1}, timeout_s=60)
                waits_s.append(time.monotonic() - asked)
            large_s = (time.monotonic() - began) / 2
            problems = load.stop()
        assert not problems, problems
    # The larger worker is never free for a small prompt before a large one has ended there, so that all small ones would wait
    # for that. A busy machine may hold up some of them.
    waited_s = sorted(waits_s)[int(0.9 * (len(waits_s) - 1))]
    assert len(waits_s) >= 10 and waited_s < large_s / 4, (
        f"of {len(waits_s)} small prompts one in ten waited {waited_s:.2f} s or longer; a large one took {large_s:.2f} s")
