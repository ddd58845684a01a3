"""A request that kills each worker which computes it kills two and then ends, and is refused from there on. Nobody else
sees more of it than a pause."""

import re
import urllib.request

import grpc
import pytest

from client import Client
from cluster import Cluster, wait_until
from streams import Streams, learned_requests, run

ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB", "--admin-port", 0)
STREAMS = 8
SEED = 20261124
RETURN_TIMEOUT_S = 90


@pytest.fixture(scope="module")
def requests(prose_ids):
    return learned_requests(SEED, prose_ids, 8, ROLES)


def ids_of(request):
    return {*request.prompt, *(token[1] for token in request.expected.tokens)}


def poison_of(requests, where):
    """A request, and a token of its prompt or of its outputs that none of the other requests has."""
    for request in requests:
        others = set().union(*(ids_of(other) for other in requests if other is not request))
        # The last output is not computed with.
        tokens = request.prompt[:-1] if where == "prompt" else [token[1] for token in request.expected.tokens[2:-1]]
        own = [token for token in tokens if token not in others and (where == "prompt" or token not in request.prompt)]
        if own:
            return request, own[0]
    raise AssertionError("all tokens are shared")


def losses(cluster):
    """{reason: workers lost}."""
    text = urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=5).read().decode()
    found = re.findall(r'^baton_worker_losses_total\{.*reason="(\w+)".*\} (\d+)', text, re.MULTILINE)
    counts = {}
    for reason, count in found:
        counts[reason] = counts.get(reason, 0) + int(count)
    return {reason: count for reason, count in counts.items() if count}


def all_serve(cluster):
    return sum(worker["state"] == "serving" for worker in cluster.workers()) == 4


@pytest.mark.parametrize("kind, where", [("abort", "prompt"), ("segv", "output"), ("overflow", "prompt")])
def test_a_poison_kills_two_workers_and_no_bystander_is_refused(requests, kind, where):
    poison, token = poison_of(requests, where)
    bystanders = [request for request in requests if request is not poison]
    with Cluster(*ROLES, env={"BATON_TEST_FAULT": f"{kind}:{token}"}) as cluster, Client(cluster.target) as client:
        with Streams(client, bystanders, STREAMS) as streams:
            wait_until(lambda: len(streams.pauses_s) >= STREAMS // 2, RETURN_TIMEOUT_S, "streams that end well")
            answer = run(client, poison, tenant="")
            assert answer.error is not None and answer.error.code() == grpc.StatusCode.INTERNAL, answer
            # What it got before is right.
            assert answer.tokens == poison.expected.tokens[:len(answer.tokens)]
            wait_until(lambda: all_serve(cluster), RETURN_TIMEOUT_S, "successors of the two workers")
            again = run(client, poison, tenant="")
            assert again.error is not None and again.error.code() == grpc.StatusCode.INTERNAL, again
            ended = len(streams.pauses_s)
            wait_until(lambda: len(streams.pauses_s) > ended + STREAMS, RETURN_TIMEOUT_S, "streams after it")
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert losses(cluster) == {"fault": 2}, cluster.log()
        print(f"{kind} in {where}: 2 workers died, {len(answer.tokens)} outputs, longest pause of another stream "
              f"{max(streams.pauses_s):.2f} s; {answer.error.details()}")
        wait_until(lambda: not any(worker["used_blocks"] for worker in cluster.workers()), RETURN_TIMEOUT_S,
                   "free blocks")
