"""Shared fixtures. A failing test shows what the live clusters wrote to stderr."""

import os

import pytest

from client import Client
from cluster import BINARY, Cluster, tokenize_prose


def pytest_configure(config):
    if not os.access(BINARY, os.X_OK):
        raise pytest.UsageError("BATON_BINARY must name the baton binary to test")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for cluster in Cluster.live:
            report.sections.append((" ".join(cluster.command), cluster.log()))


@pytest.fixture(scope="session")
def prose_ids():
    return tokenize_prose()


@pytest.fixture(scope="module")
def cluster(request):
    """One prefill and one decode worker, unless the module says otherwise in CLUSTER_ARGS."""
    with Cluster(*getattr(request.module, "CLUSTER_ARGS", ("--threads", 1))) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster.target) as connected:
        yield connected
