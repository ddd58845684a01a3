"""TLS on every gRPC channel: who gets in with which certificate, and that new files are used without a restart."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import grpc
import pytest

from certificates import ALL, Authority
from client import Client
from cluster import BINARY, SOURCE_DIR, Cluster, RoleProcess, children_of, run_baton, wait_until
from internal_messages import hello_like, internal_messages
from joined_worker import JOIN, JOIN_TIMEOUT_S, OWN_CHANNEL, JoinedWorker
from pages import shell_commands

PROMPT = "The capital of France is"
RELOAD_TIMEOUT_S = 20
OK, UNAVAILABLE = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE
DENIED, UNAUTHENTICATED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED

GENERATE = "/baton.v1.GenerationService/Generate"
STATUS = "/baton.v1.AdminService/GetStatus"
DRAIN = "/baton.v1.AdminService/DrainWorker"
FETCH = "/baton.internal.v1.KvService/Fetch"
READ = "/baton.internal.v1.KvReadService/Read"
PAIR = "/baton.internal.v1.KvPairService/Pair"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
NONE = "/nobody.knows/This"
HEALTH = "grpc.health.v1.Health"
# Of each kind of port, the methods and who may call them, as groups of who is shown in the test.
AT_PORTS_INSIDE = {CHECK: "any certificate", WATCH: "any certificate", REFLECTION: "inside", NONE: "inside"}
CALLS = {
    "clients": {DRAIN: "operator", **{path: "everybody" for path in (
        *(f"/baton.v1.GenerationService/{name}" for name in ("Generate", "Resume", "Tokenize", "Detokenize", "ListModels")),
        *(f"/baton.v1.AdminService/{name}" for name in ("GetStatus", "GetLedger", "GetDrain")),
        *(f"/inference.GRPCInferenceService/{name}" for name in (
            "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelInfer",
            "ModelStreamInfer", "RepositoryIndex")),
        *(f"/vllm.grpc.engine.VllmEngine/{name}" for name in (
            "Generate", "HealthCheck", "Abort", "GetModelInfo", "GetServerInfo", "GetLoads")),
        CHECK, WATCH, REFLECTION, NONE)}},
    "cluster": {JOIN: "workers", STATUS: "inside", **AT_PORTS_INSIDE, CHECK: "inside", WATCH: "inside"},
    "worker": {FETCH: "readers", **AT_PORTS_INSIDE},
    "kv": {READ: "readers", **AT_PORTS_INSIDE},
    "pair": {PAIR: "readers", **AT_PORTS_INSIDE},
}
# In the table of a port that does not serve them: services of other ports, and one that no port has.
NOT_SERVED = {"clients": {NONE}, "worker": {NONE}, "cluster": {STATUS, CHECK, WATCH, NONE}, "kv": {CHECK, WATCH, NONE},
              "pair": {CHECK, WATCH, NONE}}
# What Baton calls at others, and does not serve.
FOREIGN_FOLDERS = ("etcd", "opentelemetry")
STAND_IN_OF_NCCL = pathlib.Path(BINARY).resolve().parents[1] / "tests" / "libbaton_nccl_stand_in.so"


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def other_ca(ca):
    return Authority(ca.folder, "other")


@pytest.fixture(scope="module")
def parts(ca):
    """A router and a worker of each role, with a certificate each that has its role alone."""
    client = ca.issue("client")
    with contextlib.ExitStack() as stack:
        router = RoleProcess("router", "--grpc-port", 0, *ca.issue("router").flags)
        router.client_flags = client.flags
        stack.enter_context(router)
        workers = {}
        for role in ("prefill-worker", "decode-worker"):
            worker = RoleProcess(role, "--router", router.cluster_target, "--threads", 1, "--admin-port", "off",
                                 *ca.issue(role).flags)
            workers[role] = stack.enter_context(worker)
        yield router, workers, client


def credentials(issued):
    return grpc.ssl_channel_credentials(**issued.read())


def outcome(target, path, channel_credentials, timeout_s=10):
    """The status of a call whose one message is empty; OK also for a service that did not mind it."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with (grpc.secure_channel(target, channel_credentials, options) if channel_credentials else
          grpc.insecure_channel(target, options)) as channel:
        call = channel.stream_stream(path)(iter([b""]), timeout=timeout_s)
        try:
            next(call)
            return OK
        except StopIteration:
            return OK
        except grpc.RpcError as error:
            return error.code()
        finally:
            call.cancel()


def is_let_in(code):
    return code not in (UNAVAILABLE, DENIED, UNAUTHENTICATED)


def methods_at(target, issued):
    """Paths of all methods of the services that the port says it has. Nothing describes the methods of health."""
    with Client(target, credentials(issued)) as client:
        services = {name: client.pool.FindServiceByName(name).methods if name != HEALTH else None
                    for name in client.reflection.get_services()}
    return {path for name, methods in services.items()
            for path in ((CHECK, WATCH) if methods is None else (f"/{name}/{method.name}" for method in methods))}


def services_of_the_protos():
    """Names of all services that a process of Baton may serve."""
    names = set()
    for file in (SOURCE_DIR / "proto").rglob("*.proto"):
        if file.relative_to(SOURCE_DIR / "proto").parts[0] not in FOREIGN_FOLDERS:
            text = file.read_text()
            package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
            names |= {f"{package[1]}.{name}" for name in re.findall(r"^service (\w+)", text, re.MULTILINE)}
    return names


def other_port_of(worker):
    """Beside its gRPC port a worker has the one of its transport."""
    (port,) = {port for _, port in listening_ports([worker.pid])} - {int(worker.target.rpartition(":")[2])}
    return f"127.0.0.1:{port}"


def test_every_call_of_every_service_is_for_its_roles_alone(ca, other_ca, parts):
    """Who has no capability, or another job's, is another test's matter, the next but one: it lies inside a message, behind
    the certificates of this one, and counts only at a source that holds the attempt."""
    router, workers, _ = parts
    roles = ("router", "prefill-worker", "decode-worker", "mixed-worker", "client", "operator")
    issued = {role: ca.issue(role) for role in roles}
    shown = {role: credentials(one) for role, one in issued.items()}
    shown["no role"] = credentials(ca.issue())
    shown["other domain"] = credentials(ca.issue(*roles, domain="else.where"))
    shown["expired"] = credentials(ca.issue(*roles, days=-1))
    other = other_ca.issue(*roles)
    # It trusts the cluster's authority, which does not trust its own.
    shown["other authority"] = grpc.ssl_channel_credentials(**{**other.read(), "root_certificates": ca.cert.read_bytes()})
    shown["no certificate"] = grpc.ssl_channel_credentials(root_certificates=ca.cert.read_bytes())
    shown["plain text"] = None

    # Certificates are optional at the clients' port; whoever shows one that does not count is cut off all the same.
    cut = {"expired", "other authority", "plain text"}
    everybody = set(shown) - cut
    readers = {"decode-worker", "mixed-worker"}
    roles_of = {"everybody": everybody, "any certificate": everybody - {"no certificate"}, "operator": {"operator"},
                "readers": readers, "workers": readers | {"prefill-worker"},
                "inside": readers | {"prefill-worker", "router", "operator"}}
    with RoleProcess("prefill-worker", "--router", router.cluster_target, "--threads", 1, "--admin-port", "off", "--transport",
                     "nccl", "--insecure-kv-transport", *ca.issue("prefill-worker").flags,
                     env={"BATON_NCCL_LIBRARY": str(STAND_IN_OF_NCCL)}) as over_nccl:
        wait_until(lambda: len(router.workers()) == 3, JOIN_TIMEOUT_S, "all workers")
        owner = workers["prefill-worker"]
        targets = {"clients": router.target, "cluster": router.cluster_target, "worker": owner.target,
                   "kv": other_port_of(owner), "pair": other_port_of(over_nccl)}
        assert set(targets) == set(CALLS)
        for port, calls in CALLS.items():
            served = methods_at(targets[port], issued["operator"])
            assert served == set(calls) - NOT_SERVED[port], f"{port}: {served ^ (set(calls) - NOT_SERVED[port])}"
        known = {path.split("/")[1] for calls in CALLS.values() for path in calls}
        assert services_of_the_protos() <= known, services_of_the_protos() - known
        wrong = []
        for port, calls in CALLS.items():
            for path, allowed in calls.items():
                for name, channel_credentials in shown.items():
                    code = outcome(targets[port], path, channel_credentials)
                    may = name in roles_of[allowed]
                    refusal = (UNAVAILABLE if name in cut or (name == "no certificate" and port != "clients") else
                               UNAUTHENTICATED if name == "no certificate" else DENIED)
                    if is_let_in(code) != may or (not may and code != refusal):
                        wrong.append((port, path, name, code))
        assert not wrong, wrong


def listening_ports(pids):
    """(pid, port) of every TCP port of IPv4 on which one of the processes listens."""
    inodes = {}
    for pid in pids:
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes[os.readlink(entry)] = pid
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            pid = inodes.get(f"socket:[{fields[9]}]")
            if fields[3] == "0A" and pid is not None:
                found.add((pid, int(fields[1].rpartition(":")[2], 16)))
    return found


# The router has three listeners, of which one speaks HTTP, and each worker one, and over gRPC another one for its KV.
@pytest.mark.parametrize("transport, listening", [("auto", 5), ("grpc", 7)])
def test_no_listener_of_a_cluster_speaks_in_plain_text(ca, transport, listening):
    issued = ca.issue(*ALL)
    with Cluster("--threads", 1, *issued.flags, "--admin-port", "off", "--transport", transport) as cluster:
        pids = [cluster.pid, *children_of(cluster.pid)]
        listeners = listening_ports(pids)
        assert len(pids) == 4 and len(listeners) == listening, listeners
        for _, port in listeners:
            target = f"127.0.0.1:{port}"
            for path in (CHECK, GENERATE, JOIN, FETCH, READ):
                assert outcome(target, path, None) == UNAVAILABLE, (target, path)
            # Not even the preface of HTTP/2 is answered in the clear.
            with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
                raw.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
                with contextlib.suppress(ConnectionResetError):
                    answer = raw.recv(100)
                    # A TLS alert, or nothing.
                    assert not answer or answer[0] == 21, answer
        client = ca.issue("client")
        result = run_baton("generate", "--target", cluster.target, "--tls-ca", client.ca, "--prompt", PROMPT,
                           "--max-tokens", 8)
        assert result.returncode == 0 and "Paris" in result.stdout, result.stderr
        plain = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT)
        assert plain.returncode == 1


class Reader(JoinedWorker):
    """A process with the certificate of a decode worker."""

    def __init__(self, target, shown, messages, hello):
        super().__init__(grpc.secure_channel(target, shown, OWN_CHANNEL), messages, hello)
        self._messages, self._shown, self._fingerprint = messages, shown, hello["fingerprint"]

    def capability(self, start):
        return self._messages("Capability")(terms=start.decode.capability, key=self.capability_key)

    def fetch(self, start, capability):
        """How the source answers this attempt's Fetch; OK when it grants it."""
        request = self._messages("FetchRequest")(
            open=dict(key=start.job.key, source_incarnation=start.decode.prefill_incarnation.hex(),
                      fingerprint=self._fingerprint, lease_ms=1_000, secret=start.job.secret, capability=capability))
        answered = threading.Event()

        def says():
            yield request
            # Its own end would close the stream.
            answered.wait(JOIN_TIMEOUT_S)

        with grpc.secure_channel(start.decode.prefill_target, self._shown, OWN_CHANNEL) as channel:
            call = channel.stream_stream(FETCH, request_serializer=lambda message: message.SerializeToString())(
                says(), timeout=JOIN_TIMEOUT_S)
            try:
                next(call)
                return OK, ""
            except grpc.RpcError as error:
                return error.code(), error.details()
            finally:
                answered.set()
                call.cancel()


def test_a_fetch_needs_the_capability_of_its_own_attempt(ca, tmp_path):
    """A decode worker that was taken over knows its own attempts' secrets, and those that it got to see by other ways."""
    messages = internal_messages(tmp_path)
    with contextlib.ExitStack() as stack:
        router = RoleProcess("router", "--grpc-port", 0, "--admin-port", "off", *ca.issue("router").flags)
        client = ca.issue("client")
        router.client_flags = client.flags
        stack.enter_context(router)
        owner = stack.enter_context(RoleProcess("prefill-worker", "--router", router.cluster_target, "--threads", 1,
                                                "--admin-port", "off", *ca.issue("prefill-worker").flags))
        (known,) = router.workers()
        hello = hello_like({**known, "role": "decode"}, incarnation=bytes(range(16)), target="127.0.0.1:1", features=31)
        reader = stack.enter_context(Reader(router.cluster_target, credentials(ca.issue("decode-worker")), messages, hello))
        wait_until(lambda: len(router.workers()) == 2, JOIN_TIMEOUT_S, "the reader to join")
        connected = stack.enter_context(Client(router.target, credentials(client)))
        calls = [connected.start(connected.generate_request(PROMPT, {"max_tokens": 8})) for _ in range(2)]
        wait_until(lambda: len(reader.starts) >= 2, JOIN_TIMEOUT_S, "two attempts")
        mine, other = reader.starts[:2]
        right = reader.capability(mine)
        changed, unsigned = messages("Capability")(), messages("Capability")()
        changed.CopyFrom(right)
        changed.terms.terms = right.terms.terms.replace(mine.job.key.job.encode(), other.job.key.job.encode())
        unsigned.CopyFrom(right)
        unsigned.key.chain = ca.issue("decode-worker").cert.read_text()
        wrong = {
            "none": (b"", "shows no capability"),
            "another job's": (reader.capability(other).SerializeToString(), "is for job " + other.job.key.job),
            "changed": (changed.SerializeToString(), "was changed"),
            "of a worker's certificate": (unsigned.SerializeToString(), "without the role router"),
            "truncated": (right.SerializeToString()[:-40], "its capability"),
            "garbage": (b"\xff" * 100, "its capability is none"),
        }
        for what, (capability, why) in wrong.items():
            code, details = reader.fetch(mine, capability)
            assert code == DENIED and why in details, (what, code, details)
        assert reader.fetch(mine, right.SerializeToString()) == (OK, "")
        # The first reader is still there, or was lost.
        code, details = reader.fetch(mine, right.SerializeToString())
        assert code in (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.CANCELLED), details
        assert "does not count: its capability" in owner.log()
        for call in calls:
            call.cancel()


def test_tokens_over_tls_are_those_of_plain_text_and_go_from_prefill_to_decode(ca, parts):
    router, workers, client = parts
    wait_until(lambda: len(router.workers()) == 2, JOIN_TIMEOUT_S, "both workers")
    with Client(router.target, credentials(client)) as connected:
        generation = connected.generate(PROMPT, {"max_tokens": 16})
    with Cluster("--threads", 1) as plain, Client(plain.target) as connected:
        assert generation.token_ids == connected.generate(PROMPT, {"max_tokens": 16}).token_ids
    for process in (router, *workers.values()):
        assert "plain text" not in process.log()


def test_a_worker_does_not_join_under_a_role_that_its_certificate_does_not_carry(ca, parts, tmp_path):
    router = parts[0]
    wrong = run_baton("mixed-worker", "--router", router.cluster_target, "--threads", 1, *ca.issue("decode-worker").flags,
                      timeout_s=60)
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1, wrong.stderr
    assert "the certificate needs a URI spiffe://TRUST-DOMAIN/baton/ROLE for mixed-worker" in wrong.stderr


def hello(role):
    """WorkerMessage.hello of worker.proto: version of the protocol, incarnation, role, model."""
    model = b"smollm2-135m-instruct"
    body = b"\x08\x03" + b"\x1a\x10" + bytes(range(16)) + bytes([0x28, role]) + bytes([0x3a, len(model)]) + model
    return bytes([0x12, len(body)]) + body


def test_a_hello_states_no_role_but_that_of_its_certificate(ca, parts):
    """What a worker that was taken over would say, to be given what others get."""
    router = parts[0]
    roles = {"prefill-worker": 1, "decode-worker": 2, "mixed-worker": 3}
    for own in roles:
        shown = credentials(ca.issue(own))
        for stated, number in roles.items():
            with grpc.secure_channel(router.cluster_target, shown, OWN_CHANNEL) as channel:
                call = channel.stream_stream(JOIN)(iter([hello(number)]), timeout=10)
                with contextlib.suppress(grpc.RpcError):
                    for _ in call:
                        pass
                assert (call.code() == DENIED) == (own != stated), (own, stated, call.details())
    assert {worker["role"] for worker in router.workers()} <= {"prefill", "decode"}


def test_a_worker_joins_no_router_without_the_role(ca):
    """Another process of the cluster, such as a stolen worker, cannot pose as the router."""
    impostor = ca.issue("router", domain="else.where")
    with RoleProcess("router", "--grpc-port", 0, *impostor.flags) as router:
        with RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1,
                         *ca.issue("mixed-worker").flags, awaits_ready=False) as worker:
            wait_until(lambda: "cannot reach the router" in worker.log(), JOIN_TIMEOUT_S, "a complaint")
            assert not worker.said_ready()


def test_certificates_are_renewed_without_a_restart(ca, tmp_path):
    """All processes go over to another authority, while requests are served."""
    issued = ca.issue(*ALL)
    first, second = ca.cert.read_bytes(), Authority(tmp_path, "second")
    renewed = second.issue(*ALL)
    with Cluster("--threads", 1, "--admin-port", "off", *issued.flags) as cluster:
        trusts_first = grpc.ssl_channel_credentials(root_certificates=first)
        trusts_second = grpc.ssl_channel_credentials(root_certificates=second.cert.read_bytes())
        assert is_let_in(outcome(cluster.target, CHECK, trusts_first))
        # A file that is not whole changes nothing.
        whole = issued.cert.read_bytes()
        issued.cert.write_bytes(whole[:len(whole) // 2])
        wait_until(lambda: cluster.log().count("the former certificate stays in use") >= 4, RELOAD_TIMEOUT_S,
                   "an error of each process")
        assert is_let_in(outcome(cluster.target, CHECK, trusts_first))
        # `ca.cert` is the file of --tls-ca, which other tests read.
        try:
            issued.replace_by(renewed)
            wait_until(lambda: is_let_in(outcome(cluster.target, CHECK, trusts_second)), RELOAD_TIMEOUT_S,
                       "the new certificate")
            assert outcome(cluster.target, CHECK, trusts_first) == UNAVAILABLE
            wait_until(lambda: cluster.log().count("new connections use the new certificate") >= 4, RELOAD_TIMEOUT_S,
                       "a line of each process")
            before = children_of(cluster.pid)
            victim = min(set(before) - {max(before)})
            result = run_baton("generate", "--target", cluster.target, "--tls-ca", issued.ca, "--prompt", PROMPT,
                               "--max-tokens", 8)
            assert result.returncode == 0 and "Paris" in result.stdout, result.stderr
            # The supervisor has seen the router and both workers all the time.
            assert victim in children_of(cluster.pid)
            assert "killed" not in cluster.log() and "ended with" not in cluster.log()
        finally:
            ca.cert.write_bytes(first)


@pytest.mark.parametrize("command", ["serve", "router", "mixed-worker"])
def test_wrong_files_are_an_error_of_one_line(ca, other_ca, tmp_path, command):
    issued, other, expired = ca.issue(*ALL), other_ca.issue(*ALL), ca.issue(*ALL, days=-1)
    open_key = tmp_path / "open.key"
    open_key.write_bytes(issued.key.read_bytes())
    open_key.chmod(0o644)
    none = tmp_path / "none.pem"

    def flags(cert=issued.cert, key=issued.key, authority=issued.ca):
        return ("--tls-cert", cert, "--tls-key", key, "--tls-ca", authority)

    for given, expected in [
            (flags(cert=none), f"--tls-cert {none}: No such file or directory"),
            (flags(key=none), f"--tls-key {none}: No such file or directory"),
            (flags(authority=none), f"--tls-ca {none}: No such file or directory"),
            (flags(key=other.key), f"--tls-key {other.key}: this is not the key of the certificate in --tls-cert"),
            (flags(key=open_key), f"--tls-key {open_key}: everybody on this host may use it (mode 0644); run chmod o-rwx"),
            (flags(cert=issued.key), f"--tls-cert {issued.key}: expected certificates in PEM"),
            (flags(cert=expired.cert, key=expired.key), f"--tls-cert {expired.cert}: the certificate has expired on"),
            (flags(cert=other.cert, key=other.key), "has issued the certificate"),
            (flags()[:2], "--tls-key is missing: --tls-cert, --tls-key and --tls-ca belong together")]:
        began = time.monotonic()
        result = run_baton(command, "--grpc-port", 0, *given, timeout_s=60)
        assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
        assert expected in result.stderr and time.monotonic() - began < 30


def test_kv_in_plain_text_needs_a_flag_of_its_own(ca):
    issued = ca.issue(*ALL)
    for transport in ("tcp", "rdma", "nccl"):
        refused = run_baton("prefill-worker", "--router", "127.0.0.1:9", "--threads", 1, "--transport", transport,
                            *issued.flags)
        assert refused.returncode == 1
        assert f"--transport {transport} sends KV in plain text" in refused.stderr.splitlines()[-1]
        assert "allow it with --insecure-kv-transport" in refused.stderr.splitlines()[-1]
    with Cluster("--threads", 1, "--transport", "tcp", "--insecure-kv-transport", "--admin-port", "off",
                 *issued.flags) as cluster:
        result = run_baton("generate", "--target", cluster.target, "--tls-ca", issued.ca, "--prompt", PROMPT,
                           "--max-tokens", 8)
        assert result.returncode == 0 and "Paris" in result.stdout, result.stderr


def test_clients_show_a_certificate_where_the_router_asks_for_one(ca):
    client, worker, bare = ca.issue("client"), ca.issue("decode-worker"), ("--tls-ca", ca.cert)
    with RoleProcess("router", "--grpc-port", 0, "--tls-client-auth", "require", *ca.issue("router").flags) as router:
        for command in ("status", "health"):
            args = (command, "--target", router.target, *(("--service", "baton.v1.AdminService") if command == "health"
                                                          else ()))
            assert run_baton(*args, *client.flags).returncode == 0
            assert run_baton(*args, *bare).returncode == 1
        denied = run_baton("status", "--target", router.target, *worker.flags)
        assert denied.returncode == 1 and "PERMISSION_DENIED" in denied.stderr
        named = run_baton("status", "--target", f"localhost:{router.target.rpartition(':')[2]}", *client.flags,
                          "--tls-server-name", "no.such.name")
        assert named.returncode == 1



def test_only_an_operator_drains_a_worker(ca):
    issued = ca.issue(*ALL)
    with Cluster("--threads", 1, "--admin-port", "off", *issued.flags) as cluster:
        cluster.client_flags = issued.flags
        (pid,) = (worker["pid"] for worker in cluster.workers() if worker["role"] == "prefill")
        drain = ("drain", pid, "--target", cluster.target)
        for flags, expected in [(("--tls-ca", ca.cert), "UNAUTHENTICATED: show a certificate of the cluster's authority; "
                                                        "--tls-cert and --tls-key name one of the role operator"),
                                (ca.issue("client").flags, "PERMISSION_DENIED: the certificate does not carry the role operator"),
                                (issued.flags, "PERMISSION_DENIED: the certificate does not carry the role operator")]:
            refused = run_baton(*drain, *flags)
            assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused.stderr
            assert expected in refused.stderr
        assert pid in {worker["pid"] for worker in cluster.workers()}
        drained = run_baton(*drain, *ca.issue("operator").flags)
        assert drained.returncode == 0 and "has left after" in drained.stdout, drained.stderr


def test_the_commands_of_the_page_run_in_their_order(tmp_path):
    with contextlib.ExitStack() as running:
        cluster = None
        for text in shell_commands("docs/security.md", SOURCE_DIR):
            if text.startswith("baton serve"):
                running.close()
                cluster = Cluster()
                cluster.command = ["bash", "-c", f"cd {tmp_path} && exec {BINARY}{text.removeprefix('baton')} --threads 1 "
                                   "--grpc-port 0 --admin-port off"]
                running.enter_context(cluster)
                continue
            if text.startswith(("baton generate", "baton status")):
                text += f" --target {cluster.target}"
            result = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                                    env={**os.environ, "PATH": f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"},
                                    check=False)
            assert result.returncode == 0, f"{text}\n{result.stderr}"
    assert cluster is not None


def test_what_needs_tls_says_so():
    for flags, expected in [(("--api-keys", "/dev/null"), "--api-keys needs TLS"),
                            (("--tls-client-auth", "require"), "--tls-client-auth require needs TLS")]:
        result = run_baton("router", "--grpc-port", 0, *flags, timeout_s=60)
        assert result.returncode == 1 and expected in result.stderr and result.stderr.count("\n") == 1
    result = run_baton("status", "--target", "127.0.0.1:9", env={"BATON_API_KEY": "secret-key"})
    assert result.returncode == 1 and "give --tls-ca FILE as well" in result.stderr and "secret-key" not in result.stderr
