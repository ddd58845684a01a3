"""What becomes of a gRPC connection whose call is silent: a job of paced workers that has its first token, and then none."""

import concurrent.futures
import time

import grpc
import pytest

from client import Client
from cluster import RoleProcess, wait_until
from paced_worker import IDLE, PacedWorkers
from slow_link import SlowLink

# The router asks a silent client for a sign after 10 s, and waits 5 s for it. A loaded machine takes somewhat longer.
NOTICED_S, LATE_S = 15, 10
# What docs/api.md allows a client, and far more.
ALLOWED_MS, RUDE_MS = 5_000, 500
# Three pings that are allowed, and more than the three strikes of the other client.
SILENCE_S = 17


def start_router():
    return RoleProcess("router", "--grpc-port", 0, "--cluster-port", 0, "--worker-silence-ms", 10_000)


def start_silent(client, timeout_s=60):
    request = client.generate_request([100] * 16, {"max_tokens": 100, "seed": IDLE, "temperature": 1})
    stream = client.start(request, timeout_s)
    assert next(stream).output.tokens
    return stream


def pinging(target, every_ms):
    return Client(target, options=[("grpc.keepalive_time_ms", every_ms), ("grpc.http2.max_pings_without_data", 0)])


def a_client_whose_host_went_silent_is_noticed_and_its_job_is_cancelled():
    with start_router() as router, PacedWorkers(router) as workers, SlowLink(router.target, 0) as link, Client(link.address) as client:
        start_silent(client)
        link.cut()
        cut_at = time.monotonic()
        wait_until(lambda: workers.counts()["cancelled"] == 1, NOTICED_S + LATE_S, "the end of the job")
        # No sooner: a client may be silent for as long as the router's patience.
        assert time.monotonic() - cut_at > NOTICED_S / 2


def a_silent_call_lives_with_a_client_that_pings_as_documented_and_ends_for_one_that_pings_far_more_often():
    with start_router() as router, PacedWorkers(router) as workers, \
            pinging(router.target, ALLOWED_MS) as polite, pinging(router.target, RUDE_MS) as rude:
        lives, ends = start_silent(polite, SILENCE_S), start_silent(rude)
        with pytest.raises(grpc.RpcError, match="Too many pings"):
            next(ends)
        # It lives until its own deadline.
        with pytest.raises(grpc.RpcError) as ended:
            next(lives)
        assert ended.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: workers.counts()["cancelled"] == 2, LATE_S, "the ends of both jobs")


# They mostly wait, and so they wait at the same time.
def test_silent_connections():
    scenarios = (a_client_whose_host_went_silent_is_noticed_and_its_job_is_cancelled,
                 a_silent_call_lives_with_a_client_that_pings_as_documented_and_ends_for_one_that_pings_far_more_often)
    with concurrent.futures.ThreadPoolExecutor(len(scenarios)) as pool:
        for scenario in [pool.submit(scenario) for scenario in scenarios]:
            scenario.result()
