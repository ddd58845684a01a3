"""Who may connect to whom, as the NetworkPolicies of a release say together: what serving needs, and nothing else."""

import itertools

import pytest

from policies import Party, Policies
from rendering import NAMESPACE, Release, release_of, value_sets

SETS = {name: values for name, values in value_sets().items() if values.get("networkPolicy", {}).get("enabled", True)}
# These values keep the default for `clients`: every pod of the namespace.
OPEN_SETS = [name for name, values in SETS.items() if "clients" not in values.get("networkPolicy", {})]
READERS = {"decode-worker", "mixed-worker"}
CLIENT_PORTS = {("router", "grpc-port"), ("router", "http-port")}
UNUSED_PORT = 22


def policies_of(release):
    return Policies(release.of_kind("NetworkPolicy"), NAMESPACE)


def is_needed(source, target, port):
    """Between two pods of a release."""
    if target.command == "router":
        if port == int(target.flag("cluster-port")):
            return source.command.endswith("-worker")
        return port == int(target.flag("grpc-port")) and source.command == "generate"
    if not target.is_long_lived:
        return False
    return source.command in READERS and (port == int(target.flag("grpc-port")) or port in target.transfer_ports)


def client_ports(router):
    return {int(router.flag(name)) for name in ("grpc-port", "http-port")}


@pytest.mark.parametrize("name", SETS)
def test_pods_of_a_release_reach_what_they_need_of_each_other_and_nothing_else(name):
    release = release_of(name)
    policies = policies_of(release)
    needed = 0
    for source, target in itertools.product(release.pods, repeat=2):
        ends = Party(NAMESPACE, source.labels), Party(NAMESPACE, target.labels)
        for port in [*(target.listens if target.is_long_lived else ()), UNUSED_PORT]:
            what = f"{source.owner} -> {target.owner}:{port}"
            expected = is_needed(source, target, port)
            # Each end by itself, because the other may be one that the policies do not know.
            assert policies.lets_out(*ends, port) == expected, what
            is_client = name in OPEN_SETS and target.command == "router" and port in client_ports(target)
            assert policies.lets_in(*ends, port) == (expected or is_client), what
            needed += expected
    assert needed > 0


@pytest.mark.parametrize("name", OPEN_SETS)
def test_clients_of_the_namespace_reach_the_routers_ports_for_clients_alone(name):
    assert reached_by(name, Party(NAMESPACE, {"app": "client"})) == CLIENT_PORTS


@pytest.mark.parametrize("name", SETS)
def test_monitoring_reaches_admin_ports_alone(name):
    release = release_of(name)
    admin = {(pod.command, "admin-port") for pod in release.serving_pods}
    assert reached_by(name, Party("monitoring", {"app": "prometheus"})) == admin


@pytest.mark.parametrize("name", [one for one in OPEN_SETS if one != "inference-pool"])
def test_strangers_reach_nothing(name):
    assert reached_by(name, Party("elsewhere", {"app.kubernetes.io/name": "baton"})) == set()
    assert reached_by(name, Party("elsewhere", {}, "203.0.113.7")) == set()


def test_listed_clients_are_the_only_ones():
    allowed = CLIENT_PORTS
    assert reached_by("full", Party("applications", {"example.com/uses": "baton"})) == allowed
    assert reached_by("full", Party("elsewhere", {}, "192.0.2.1")) == allowed
    assert reached_by("full", Party("elsewhere", {}, "192.0.2.129")) == set()
    assert reached_by("full", Party("applications", {})) == set()
    assert reached_by("full", Party(NAMESPACE, {})) == set()
    assert reached_by("inference-pool", Party("gateways", {})) == allowed


def test_no_clients_means_nobody_and_not_everybody():
    release = Release({"networkPolicy": {"clients": [], "monitoring": [], "dns": [], "modelSource": []}})
    assert reached_in(release, Party(NAMESPACE, {})) == set()
    assert reached_in(release, Party("monitoring", {})) == set()
    for pod in release.pods:
        assert not policies_of(release).allow(Party(NAMESPACE, pod.labels), Party("kube-system", {}), 53, "UDP")


def reached_by(name, party):
    return reached_in(release_of(name), party)


def reached_in(release, party):
    """(subcommand, flag of the port) of what a party outside of the release reaches."""
    policies = policies_of(release)
    flags = ("grpc-port", "http-port", "cluster-port", "admin-port", "transfer-ports")
    return {(pod.command, flag) for pod in release.serving_pods for flag in flags if pod.flag(flag)
            for port in (pod.transfer_ports if flag == "transfer-ports" else [int(pod.flag(flag))])
            if policies.allow(party, Party(NAMESPACE, pod.labels), port)}


@pytest.mark.parametrize("name", SETS)
def test_pods_reach_name_servers_the_models_source_the_collector_and_the_etcd_and_nothing_else_outside(name):
    values, release = SETS[name], release_of(name)
    policies = policies_of(release)
    system = "openshift-dns" if name == "restricted" else "kube-system"
    dns_port = 5353 if name == "restricted" else 53
    internet = Party("elsewhere", {}, "2001:db8::1" if name == "ipv6" else "203.0.113.7")
    fetches = values.get("model", {}).get("source", "fetch") == "fetch"
    for pod in release.pods:
        source = Party(NAMESPACE, pod.labels)
        for protocol in ("TCP", "UDP"):
            assert policies.allow(source, Party(system, {}), dns_port, protocol)
        assert policies.allow(source, internet, 443) == (fetches and pod.is_long_lived)
        assert not policies.allow(source, internet, 80)
        stored = policies.allow(source, Party("storage", {}), 8080)
        assert stored == (name == "model-download" and pod.is_long_lived)
        collected = policies.allow(source, Party("observability", {}), 4317)
        assert collected == (name == "full" and pod.command == "router")
        assert policies.allow(source, Party("infra", {}), 2379) == (name == "etcd" and pod.is_long_lived)


def test_a_release_without_policies_says_so_in_its_notes():
    release = Release({"networkPolicy": {"enabled": False}})
    assert not release.of_kind("NetworkPolicy")
    assert "there is no authentication" in release.notes
    assert "there is no authentication" not in Release({}).notes


@pytest.mark.parametrize("endpoint, port", [
    ("http://collector:4317", 4317), ("http://collector", 80), ("https://collector", 443),
    ("https://collector.example.com:8443/path", 8443), ("http://[2001:db8::1]:4318", 4318)])
def test_the_collectors_port_is_that_of_its_url(endpoint, port):
    release = Release({"tracing": {"enabled": True, "endpoint": endpoint}, "networkPolicy": {"modelSource": []}})
    (router,) = [pod for pod in release.pods if pod.command == "router"]
    policies = policies_of(release)
    allowed = [one for one in (80, 443, 4317, 4318, 8443)
               if policies.allow(Party(NAMESPACE, router.labels), Party("observability", {}), one)]
    assert allowed == [port]
