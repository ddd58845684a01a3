"""Certificates and API keys of the chart: who sees which Secret, with which rights, and what follows from TLS."""

import copy
import re

import pytest

from rendering import LONG_RELEASE, NAMESPACE, RELEASE, Release, release_of, value_sets
from secret_volumes import mode_of

SETS = [name for name, values in value_sets().items() if values.get("tls", {}).get("enabled")]
OTHERS = [name for name in value_sets() if name not in SETS]
TLS_FLAGS = {"tls-cert": "tls.crt", "tls-key": "tls.key", "tls-ca": "ca.crt"}
ROLES = {"router": "router", "prefill-worker": "prefill-worker", "decode-worker": "decode-worker",
         "mixed-worker": "mixed-worker", "generate": "client"}


def secrets_of(pod):
    """The secret volumes by the folder that the main container sees them in."""
    volumes = {one["name"]: one["secret"] for one in pod.spec.get("volumes", ()) if "secret" in one}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in pod.main.get("volumeMounts", ()) if mount["name"] in volumes}


def file_of(pod, flag):
    """(secret, key) of the file that a flag names, or None without the flag."""
    path = pod.flag(flag)
    if path is None:
        return None
    folder, _, file = path.rpartition("/")
    source = secrets_of(pod)[folder]
    (key,) = [item["key"] for item in source["items"] if item["path"] == file]
    return source["secretName"], key


def test_there_are_sets_with_and_without_tls():
    assert {"tls", "tls-cert-manager", "tls-trusted-network"} <= set(SETS) and len(OTHERS) > 10


def test_with_an_etcd_all_processes_find_each_other_there_by_its_files_and_nowhere_else():
    for pod in release_of("etcd").pods:
        if pod.command == "generate":
            continue
        files = {flag: file_of(pod, flag) for flag in ("etcd-ca", "etcd-cert", "etcd-key")}
        assert files == {"etcd-ca": ("baton-etcd", "ca.crt"), "etcd-cert": ("baton-etcd", "tls.crt"),
                         "etcd-key": ("baton-etcd", "tls.key")}
        assert len(pod.flag("etcd").split(",")) == 3 and pod.flag("etcd-prefix") == "/baton/demo"
        assert pod.flag("router") is None and pod.flag("advertise") == "$(POD_IP)"
    for pod in release_of("minimal").pods:
        assert not [arg for arg in pod.main["args"] if arg.startswith("--etcd")]


@pytest.mark.parametrize("name", OTHERS)
def test_without_tls_nothing_of_it_is_rendered(name):
    release = release_of(name)
    assert not release.of_kind("Certificate")
    for pod in release.pods:
        assert not [arg for arg in pod.main["args"] if arg.startswith("--tls")]
        assert set(secrets_of(pod)) <= {"/etc/baton/etcd"}
    assert {port.get("appProtocol") for one in release.of_kind("Service") for port in one["spec"]["ports"]} == {
        "kubernetes.io/h2c", "http"}


@pytest.mark.parametrize("name", SETS)
def test_every_process_has_certificate_key_and_authorities_from_one_secret(name):
    for pod in release_of(name).serving_pods:
        found = {flag: file_of(pod, flag) for flag in TLS_FLAGS}
        assert {flag: file[1] for flag, file in found.items()} == TLS_FLAGS
        assert len({file[0] for file in found.values()}) == 1


@pytest.mark.parametrize("name", SETS)
def test_secrets_can_be_read_by_the_containers_user_and_are_renewed_in_place(name):
    for pod in release_of(name).pods:
        context = pod.spec["securityContext"]
        assert secrets_of(pod)
        for source in secrets_of(pod).values():
            # The files are root's, and of the group.
            assert mode_of(source, context["fsGroup"]) == 0o440 and context["runAsUser"] != 0
        for mount in pod.main["volumeMounts"]:
            if mount["mountPath"] in secrets_of(pod):
                assert mount["readOnly"] is True and "subPath" not in mount


@pytest.mark.parametrize("name", SETS)
def test_nobody_sees_a_secret_that_is_not_for_it(name):
    release = release_of(name)
    requires = [pod.flag("tls-client-auth") for pod in release.pods if pod.command == "router"] == ["require"]
    for pod in release.pods:
        seen = {(source["secretName"], item["key"]) for source in secrets_of(pod).values() for item in source["items"]}
        used = {file_of(pod, flag) for flag in (*TLS_FLAGS, "api-keys", "api-key-file")} - {None}
        assert seen == used, pod.owner
        if pod.command == "generate":
            assert ("tls-key" in {flag for flag in TLS_FLAGS if pod.flag(flag)}) == requires
        assert (pod.flag("api-keys") is not None) <= (pod.command == "router")
        assert (pod.flag("api-key-file") is not None) <= (pod.command == "generate")


@pytest.mark.parametrize("release_name", [RELEASE, LONG_RELEASE])
def test_certificates_carry_the_role_of_the_processes_that_show_them(release_name):
    release = release_of("tls-cert-manager", release_name)
    certificates = {one["spec"]["secretName"]: one["spec"] for one in release.of_kind("Certificate")}
    shown = {file_of(pod, "tls-cert")[0]: pod.command for pod in release.pods}
    assert set(shown) == set(certificates) and set(shown.values()) == set(ROLES)
    for secret, command in shown.items():
        spec = certificates[secret]
        assert spec["uris"] == [f"spiffe://baton.example.com/baton/{ROLES[command]}"]
        # A process of the cluster is a server to some and a client to others.
        assert set(spec["usages"]) == {"digital signature", "client auth"} | ({"server auth"} if command != "generate" else set())
        assert spec["issuerRef"] == {"name": "internal-ca", "kind": "ClusterIssuer", "group": "cert-manager.io"}
        assert ("dnsNames" in spec) == (command == "router")


@pytest.mark.parametrize("release_name", [RELEASE, LONG_RELEASE])
def test_the_routers_certificate_has_every_name_by_which_it_is_checked(release_name):
    release = release_of("tls-cert-manager", release_name)
    pods = {pod.command: pod for pod in release.pods}
    (spec,) = [one["spec"] for one in release.of_kind("Certificate") if "dnsNames" in one["spec"]]
    host = pods["generate"].flag("target").partition(":")[0]
    expected = {host, f"{host}.{NAMESPACE}", f"{host}.{NAMESPACE}.svc", f"{host}.{NAMESPACE}.svc.cluster.local",
                "baton.example.com"}
    assert set(spec["dnsNames"]) == expected
    probe = pods["router"].main["readinessProbe"]["exec"]["command"]
    assert {f"--tls-server-name={host}"} <= set(probe) and pods["generate"].flag("tls-server-name") == host
    assert f"--tls-server-name {host} " in release.notes


def test_a_name_of_ones_own_is_in_the_certificate_and_checked():
    values = copy.deepcopy(value_sets()["tls-cert-manager"])
    values["tls"]["serverName"] = "llm.example.com"
    release = Release(values)
    (spec,) = [one["spec"] for one in release.of_kind("Certificate") if "dnsNames" in one["spec"]]
    assert "llm.example.com" in spec["dnsNames"]
    assert {pod.flag("tls-server-name") for pod in release.pods if pod.command == "generate"} == {"llm.example.com"}


@pytest.mark.parametrize("name", SETS)
def test_the_router_asks_itself_as_it_asks_clients(name):
    (router,) = [pod for pod in release_of(name).pods if pod.command == "router"]
    given = {arg.partition("=")[0] for arg in router.main["readinessProbe"]["exec"]["command"]}
    assert "--tls-ca" in given
    assert {"--tls-cert", "--tls-key"} & given == (
        {"--tls-cert", "--tls-key"} if router.flag("tls-client-auth") == "require" else set())


def test_a_certificate_of_a_role_goes_before_that_of_all():
    values = {"tls": {"enabled": True, "secretName": "all", "secrets": {"decode": "own"}}}
    secrets = {pod.command: file_of(pod, "tls-cert")[0] for pod in Release(values).serving_pods}
    assert secrets == {"router": "all", "prefill-worker": "all", "decode-worker": "own"}


def test_without_a_test_no_client_needs_a_certificate():
    values = copy.deepcopy(value_sets()["tls-cert-manager"])
    values["test"] = {"enabled": False}
    names = {one["metadata"]["name"] for one in Release(values).of_kind("Certificate")}
    assert names == {f"demo-baton-{role}-tls" for role in ("router", "prefill", "decode", "mixed")}


@pytest.mark.parametrize("name", SETS)
def test_only_admin_ports_are_announced_as_plain(name):
    protocols = {(port["name"], port["appProtocol"]) for one in release_of(name).of_kind("Service")
                 for port in one["spec"]["ports"]}
    assert protocols == {("grpc", "https"), ("http", "https"), ("cluster", "https"), ("admin", "http")}


def test_the_notes_show_what_clients_need():
    for name, flags in (("tls", {"--tls-ca", "--tls-server-name", "--api-key-file"}),
                        ("tls-cert-manager", {"--tls-ca", "--tls-server-name", "--api-key-file", "--tls-cert", "--tls-key"}),
                        ("minimal", set())):
        (line,) = [line for line in release_of(name).notes.splitlines() if line.strip().startswith("baton generate")]
        assert set(re.findall(r"--(?:tls|api)[a-z-]*", line)) == flags


def test_notes_without_policies_say_what_stays_open_with_tls():
    values = {"tls": {"enabled": True, "secretName": "all"}, "networkPolicy": {"enabled": False}}
    notes = " ".join(Release(values).notes.split())
    assert "the admin ports have neither passwords nor encryption" in notes and "there is no authentication" not in notes
