"""Links with a delay, and targets at which nobody listens."""

import json
import socket
import time

import pytest

from client import Client
from cluster import RoleProcess, run_baton, wait_until
from slow_link import SlowLink

CLUSTER_ARGS = ("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1)
PROMPT = "The capital of France is"
DELAY_S = 0.2
STAYS_S = 2


@pytest.fixture(scope="module")
def link(cluster):
    with SlowLink(cluster.target, DELAY_S) as running:
        yield running


def test_the_command_line_is_served_over_a_link_whose_handshake_takes_400_ms(link):
    result = run_baton("generate", "--target", link.address, "--prompt", PROMPT, "--max-tokens", 4, "--json")
    assert result.returncode == 0, result.stderr
    assert "Paris" in json.loads(result.stdout)["text"]


def test_status_is_shown_over_a_link_whose_handshake_takes_400_ms(link):
    result = run_baton("status", "--target", link.address, "--json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["workers"]) == 1


def test_a_link_with_delay_changes_no_token(cluster, link):
    sampling = {"max_tokens": 16, "temperature": 1.0, "seed": 5}
    with Client(cluster.target) as near, Client(link.address) as far:
        assert far.generate(PROMPT, sampling).token_ids == near.generate(PROMPT, sampling).token_ids


def test_a_worker_behind_a_link_with_delay_joins_stays_and_serves(cluster):
    sampling = {"max_tokens": 16, "temperature": 1.0, "seed": 5}
    with Client(cluster.target) as client:
        expected = client.generate(PROMPT, sampling).token_ids
    with RoleProcess("router", "--grpc-port", 0) as router, SlowLink(router.cluster_target, DELAY_S) as link:
        with RoleProcess("mixed-worker", "--router", link.address, "--grpc-port", 0, "--threads", 1):
            wait_until(router.workers, 20, "the worker")
            with Client(router.target) as client:
                end = time.monotonic() + STAYS_S
                while time.monotonic() < end:
                    assert client.generate(PROMPT, sampling, timeout_s=10).token_ids == expected
            assert router.log().count("joined:") == 1


@pytest.mark.parametrize("command", [("status",), ("generate", "--prompt", PROMPT)], ids=["status", "generate"])
def test_a_target_at_which_nobody_listens_is_told_at_once(command):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        target = "127.0.0.1:%d" % unused.getsockname()[1]
    began = time.monotonic()
    result = run_baton(*command, "--target", target)
    assert result.returncode == 1
    # Far more than a busy machine takes, and less than a wait for a router would.
    assert time.monotonic() - began < 5, "refused connections are no reason to wait"
    assert target in result.stderr and "is `baton serve` running there?" in result.stderr, result.stderr
