"""Pods with certificates and API keys, as the chart renders them, run on this machine: they become ready by their probes, the
test of helm generates, nobody else gets in, and what changes in a Secret counts without a restart."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import ssl

import pytest
import yaml

import containers
import pods
from certificates import Authority
from cluster import run_baton, wait_until
from connections import listening_ports
from installation import install
from rendering import Release
from test_rendered_pods import model_store

HERE = pathlib.Path(__file__).parent
VALUES = {**yaml.safe_load((HERE / "rendered_pods.yaml").read_text()),
          **yaml.safe_load((HERE / "rendered_tls.yaml").read_text())}
ROLES = ("router", "prefill", "decode")
STARTUP_TIMEOUT_S = 60
WAIT_S = 20


class Issuer:
    """What stands for cert-manager: it makes the Secret of a Certificate."""

    def __init__(self, folder):
        self.authority = Authority(folder)

    def secret_of(self, certificate):
        spec = certificate["spec"]
        roles = [re.fullmatch(r"spiffe://([^/]+)/baton/(.+)", uri) for uri in spec["uris"]]
        issued = self.authority.issue(*(role[2] for role in roles), domain=roles[0][1], subject="/",
                                      hosts=[f"DNS:{name}" for name in spec.get("dnsNames", ())])
        return {"tls.crt": issued.cert.read_bytes(), "tls.key": issued.key.read_bytes(), "ca.crt": issued.ca.read_bytes()}


def api_key(tenant):
    """(key, line of hashes)."""
    result = run_baton("api-key", tenant)
    assert result.returncode == 0, result.stderr
    return result.stdout.encode(), result.stderr.encode()


class Deployed:
    def __init__(self, kubelet, release, issuer, folder):
        self.kubelet, self.release, self.issuer, self._folder = kubelet, release, issuer, folder
        self.templates = {pod.command.removesuffix("-worker"): pod for pod in release.pods}

    @property
    def router(self):
        (found,) = [pod for pod in self.kubelet.pods if pod.pod.command == "router"]
        return found

    @property
    def target(self):
        return f"{self.router.address}:{self.router.pod.flag('grpc-port')}"

    def certificate(self, role):
        return self.release.named("Certificate", f"demo-baton-{role}-tls")

    def run_test(self):
        """(exit code, log) of the pod of `helm test`."""
        return self.kubelet.complete(self.templates["generate"], WAIT_S)

    def generate(self, *flags):
        return run_baton("generate", "--target", self.target, "--prompt", "Hello", "--max-tokens", 1, *flags)

    def client_flags(self, role, *names):
        """The flags of a client outside of the pods, for the keys of a Secret of this role."""
        certificate = self.issuer.secret_of(self.certificate(role))
        flags = ["--tls-server-name", "demo-baton-router"]
        for flag, key in (("--tls-cert", "tls.crt"), ("--tls-key", "tls.key"), ("--tls-ca", "ca.crt")):
            if key in names:
                path = self._folder / f"{role}-{key}"
                path.touch(mode=0o600)
                path.write_bytes(certificate[key])
                flags += [flag, path]
        return flags


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    install(folder / "image")
    (folder / "hosts").touch()
    release, issuer = Release(VALUES), Issuer(folder)
    secrets = {one["spec"]["secretName"]: issuer.secret_of(one) for one in release.of_kind("Certificate")}
    key, line = api_key("alice")
    secrets |= {"api-keys": {"keys": line}, "test-key": {"api-key": key}}
    with containers.runtime() as runtime, pods.Kubelet(runtime, release, folder / "image", {"models": model_store()},
                                                       folder / "hosts", secrets) as kubelet:
        running = Deployed(kubelet, release, issuer, folder)
        running.is_isolated, running.key_line, running.key = runtime.is_isolated, line, key.decode().strip()
        kubelet.create(*(running.templates[role] for role in ROLES))
        kubelet.await_ready(kubelet.pods, STARTUP_TIMEOUT_S)
        yield running


def test_every_pod_is_ready_by_its_probes(deployed):
    for pod in deployed.kubelet.pods:
        assert pod.is_ready and not pod.problems and pod.answers["startup"] > 0, pod.name
    # The admin port of a router that is ready would say so too: what counts here is the port of the clients.
    assert "exec" in deployed.router.pod.main["readinessProbe"] and deployed.router.answers["readiness"] > 0


def test_the_test_of_helm_generates_by_tls_and_with_a_key(deployed):
    code, log = deployed.run_test()
    assert code == 0, log
    assert "Paris" in json.loads(log)["text"]


def test_who_shows_no_certificate_or_no_key_does_not_get_in(deployed):
    assert deployed.generate().returncode == 1
    nameless = deployed.generate(*deployed.client_flags("client", "ca.crt"))
    assert nameless.returncode == 1 and "UNAUTHENTICATED" not in nameless.stderr
    keyless = deployed.generate(*deployed.client_flags("client", "tls.crt", "tls.key", "ca.crt"))
    assert keyless.returncode == 1 and "UNAUTHENTICATED" in keyless.stderr, keyless.stderr


def models_over_http(deployed, key):
    """(status, body), shown to a client of the cluster that has this key."""
    flags = dict(zip(*[iter(deployed.client_flags("client", "tls.crt", "tls.key", "ca.crt"))] * 2))
    context = ssl.create_default_context(cafile=flags["--tls-ca"])
    context.load_cert_chain(flags["--tls-cert"], flags["--tls-key"])
    port = int(deployed.router.pod.flag("http-port"))
    connection = http.client.HTTPConnection(deployed.router.address, port, timeout=WAIT_S)
    connection.sock = context.wrap_socket(socket.create_connection((deployed.router.address, port), WAIT_S),
                                          server_hostname=flags["--tls-server-name"])
    with contextlib.closing(connection):
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, json.load(answer)


def test_clients_of_http_need_the_same_certificate_and_key(deployed):
    status, models = models_over_http(deployed, deployed.key)
    assert status == 200 and [model["id"] for model in models["data"]] == ["smollm2-135m-instruct"]
    assert models_over_http(deployed, "wrong")[0] == 401


def test_workers_serve_kv_at_one_of_the_ports_that_the_chart_names(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces the machine's own ports are among them")
    for pod in deployed.kubelet.pods:
        open_ports = listening_ports(pod)
        assert open_ports <= pod.pod.listens, pod.name
        # UCX would take two.
        assert len(open_ports & set(pod.pod.transfer_ports)) == (0 if pod is deployed.router else 1), pod.name


def served_certificate(deployed):
    """The certificate that the router shows, in DER."""
    flags = deployed.client_flags("client", "tls.crt", "tls.key", "ca.crt")
    files = dict(zip(flags[::2], flags[1::2]))
    context = ssl.create_default_context(cafile=files["--tls-ca"])
    context.load_cert_chain(files["--tls-cert"], files["--tls-key"])
    context.set_alpn_protocols(["h2"])
    host, _, port = deployed.target.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as plain, \
            context.wrap_socket(plain, server_hostname="demo-baton-router") as connection:
        return connection.getpeercert(binary_form=True)


def test_a_renewed_certificate_is_shown_without_a_restart(deployed):
    former, pid = served_certificate(deployed), deployed.router.container.pid
    certificate = deployed.certificate("router")
    renewed = deployed.issuer.secret_of(certificate)
    deployed.kubelet.change_secret(certificate["spec"]["secretName"], renewed)
    expected = ssl.PEM_cert_to_DER_cert(renewed["tls.crt"].decode())
    assert expected != former
    wait_until(lambda: served_certificate(deployed) == expected, WAIT_S, "the new certificate")
    assert deployed.router.container.pid == pid and deployed.router.is_ready and not deployed.router.problems
    code, log = deployed.run_test()
    assert code == 0, log


def test_a_key_that_goes_from_the_secret_opens_no_door_any_more(deployed):
    deployed.kubelet.change_secret("api-keys", {"keys": api_key("bob")[1]})
    wait_until(lambda: deployed.run_test()[0] != 0, WAIT_S, "the key to be refused")
    assert "UNAUTHENTICATED" in deployed.run_test()[1]
    deployed.kubelet.change_secret("api-keys", {"keys": deployed.key_line})
    wait_until(lambda: deployed.run_test()[0] == 0, WAIT_S, "the key to count again")
