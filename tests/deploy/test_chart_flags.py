"""The flags that the chart gives, and those that it lets people set, are the binary's."""

import pytest

from cluster import run_baton
from flags import flags_of
from rendering import chart, release_of, value_sets

WORKERS = ("prefill-worker", "decode-worker", "mixed-worker")
# Of the binary's flags, those that a pod has no use for.
LEFT_OUT = {
    "state-dir": "a router that moves to another node would need a volume that goes with it",
    "config": "everything is given as flags, which win over a file",
    "admin-bind": "the admin port listens where the others do",
    "http-hosts": "a port that listens on all addresses may be asked by every name",
    "http-metrics": "Prometheus asks the admin port, which no client of the service reaches",
    "device": "workers compute on the CPU, which is what a pod without a device gets by itself",
    "admin-hosts": "people go to the router's admin port alone, which has this flag when the values name hosts",
}
# Where the chart allows less than the binary: with 0 threads a worker takes as many as its node has cores.
NARROWER = {"threads": (1, 256), "chunk-tokens": (0, 8192)}


def given():
    """(subcommand, flag) of all that the chart renders."""
    return {(pod.command, arg.removeprefix("--").partition("=")[0]) for name in value_sets()
            for pod in release_of(name).pods for arg in pod.main["args"] if arg.startswith("--")}


def settable(kind):
    return chart().schema["definitions"][f"{kind}Flags"]["properties"]


def own(command):
    """Flags that the chart gives itself."""
    return {flag for its_command, flag in given() if its_command == command}


def test_the_binary_knows_every_flag_that_the_chart_gives():
    assert len(given()) > 50
    assert not {(command, flag) for command, flag in given() if flag not in flags_of(command)}


def test_the_binary_knows_every_flag_of_the_probes():
    commands = {tuple(pod.main["readinessProbe"]["exec"]["command"]) for name in value_sets()
                for pod in release_of(name).serving_pods if "exec" in pod.main["readinessProbe"]}
    assert len(commands) >= 3
    for program, subcommand, *args in commands:
        assert program == "baton"
        assert {arg.removeprefix("--").partition("=")[0] for arg in args} <= set(flags_of(subcommand))


@pytest.mark.parametrize("command", ["router", *WORKERS])
def test_every_flag_of_the_binary_is_given_by_the_chart_or_can_be_set(command):
    known = set(flags_of(command))
    allowed = set(settable("router" if command == "router" else "worker"))
    assert allowed <= known
    assert known - allowed - own(command) - set(LEFT_OUT) == set()


def test_a_share_of_a_gpu_keeps_its_fraction():
    shares = {pod.flag("gpu-memory-utilization") for pod in release_of("rdma-gpu").pods if pod.command in WORKERS}
    assert shares == {"0.85"}


@pytest.mark.parametrize("command", ["router", *WORKERS])
def test_the_schema_allows_the_values_that_the_binary_takes(command):
    compared = 0
    for name, rule in settable("router" if command == "router" else "worker").items():
        flag = flags_of(command)[name]
        if "$ref" in rule:
            rule = chart().schema["definitions"][rule["$ref"].rpartition("/")[2]]
        if flag.choices:
            assert rule["enum"] == flag.choices, name
        elif name in NARROWER or flag.range:
            assert (rule["minimum"], rule["maximum"]) == NARROWER.get(name, flag.range), name
        elif flag.is_share:
            assert (rule["type"], rule["exclusiveMinimum"], rule["maximum"]) == ("number", 0, 1), name
        else:
            assert rule.get("type") == ("boolean" if not flag.values else "string"), name
        compared += 1
    assert compared >= 4


def test_clients_show_certificates_as_the_binary_lets_them():
    rule = chart().schema["properties"]["tls"]["properties"]["clientAuth"]["enum"]
    assert rule == flags_of("router")["tls-client-auth"].choices


def test_values_of_the_model_are_those_that_the_binary_takes():
    model = chart().schema["properties"]["model"]["properties"]
    for value, flag in {"numerics": "numerics", "weights": "weights", "kvDtype": "kv-dtype"}.items():
        assert model[value]["enum"] == flags_of("decode-worker")[flag].choices


def test_models_that_can_be_fetched_are_those_that_the_binary_knows():
    names = chart().schema["properties"]["model"]["properties"]["fetch"]["properties"]["name"]["enum"]
    assert f"{{{','.join(names)}}}" in run_baton("fetch-model", "--help").stdout


def test_the_longest_drain_that_the_schema_allows_is_the_binarys():
    drain = chart().schema["definitions"]["pod"]["properties"]["drain"]["properties"]["timeoutMs"]
    assert (drain["minimum"], drain["maximum"]) == flags_of("router")["drain-timeout-ms"].range
