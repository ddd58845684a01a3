"""API keys: whose a request is, what is refused without one, and that no key shows up anywhere."""

import pathlib
import threading

import grpc
import pytest

from certificates import ALL, Authority
from client import Client, error_detail, violated_fields
from cluster import Cluster, children_of, run_baton, wait_until

PROMPT = "The capital of France is"
RELOAD_TIMEOUT_S = 20
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def draw_key(tenant):
    """(key, line for --api-keys)"""
    result = run_baton("api-key", tenant)
    assert result.returncode == 0
    key, line = result.stdout.strip(), result.stderr.strip()
    assert line.startswith(f"{tenant}: ") and key not in line and len(key) == 49
    return key, line


class Keys:
    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "keys"
        self.keys, self.lines = {}, {}
        for tenant in ("alice", "bob"):
            self.add(tenant)
        self.write()

    def add(self, tenant):
        self.keys[tenant], self.lines[tenant] = draw_key(tenant)

    def write(self, text=None):
        fresh = self.path.with_suffix(".new")
        fresh.write_text("# test\n" + "\n".join(self.lines.values()) + "\n" if text is None else text)
        fresh.chmod(0o600)
        fresh.rename(self.path)

    def file_of(self, tenant):
        path = self.folder / f"{tenant}.key"
        path.write_text(self.keys[tenant] + "\n")
        path.chmod(0o600)
        return path


@pytest.fixture(scope="module", autouse=True)
def lasting_channel():
    """The close of the last channel of a process ends gRPC's threads, and keeps Python's lock while it waits for them. A
    thread that drops the key of a call needs that lock, so both would wait for ever (github.com/grpc/grpc/pull/42247).
    With this channel no other one is the last."""
    with grpc.insecure_channel("127.0.0.1:1"):
        yield


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls")).issue(*ALL)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def cluster(issued, keys):
    with Cluster("--threads", 1, "--access-log", "--log-level", "debug", *issued.flags, "--api-keys",
                 keys.path) as running:
        # The certificate of the cluster itself opens the status.
        running.client_flags = issued.flags
        yield running


def credentials(issued, key=None):
    """Of a client that shows a key and no certificate."""
    channel = grpc.ssl_channel_credentials(root_certificates=issued.ca.read_bytes())
    return channel if key is None else grpc.composite_channel_credentials(channel, grpc.access_token_call_credentials(key))


def code_of(target, path, channel_credentials, metadata=(), request=b""):
    with grpc.secure_channel(target, channel_credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.stream_stream(path)(iter([request]), timeout=20, metadata=metadata)
        try:
            next(call)
        except StopIteration:
            pass
        except grpc.RpcError as error:
            return error.code()
        finally:
            call.cancel()
        return grpc.StatusCode.OK


def test_a_key_opens_what_is_closed_without_one(cluster, keys, issued):
    paths = ["/baton.v1.GenerationService/Generate", "/baton.v1.GenerationService/Resume",
             "/baton.v1.GenerationService/Tokenize", "/baton.v1.GenerationService/Detokenize",
             "/baton.v1.GenerationService/ListModels",
             "/baton.v1.AdminService/GetStatus", "/nobody.knows/This",
             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"]
    right = keys.keys["alice"]
    wrong = [None, right[:-1], right + "x", right.upper(), "x" * 5000, keys.lines["alice"].split()[1]]
    for path in paths:
        assert code_of(cluster.target, path, credentials(issued, right)) != UNAUTHENTICATED, path
        for key in wrong:
            assert code_of(cluster.target, path, credentials(issued, key)) == UNAUTHENTICATED, (path, key)
        for metadata in ([("authorization", f"Basic {right}")], [("authorization", "Bearer ")],
                         # Two keys: which of them would count?
                         [("authorization", f"Bearer {right}"), ("authorization", f"Bearer {right}")]):
            assert code_of(cluster.target, path, credentials(issued), metadata) == UNAUTHENTICATED, (path, metadata)
    for path in ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"):
        assert code_of(cluster.target, path, credentials(issued)) == grpc.StatusCode.OK
    # A key says whose requests are. It does not make its owner an operator.
    assert code_of(cluster.target, "/baton.v1.AdminService/DrainWorker", credentials(issued, right)) == UNAUTHENTICATED
    # The error says what to do.
    result = run_baton("generate", "--target", cluster.target, "--tls-ca", issued.ca, "--prompt", PROMPT)
    assert result.returncode == 1
    assert result.stderr == ("baton: UNAUTHENTICATED: no API key: send it as the header `authorization: Bearer KEY`; "
                             "--api-key-file or BATON_API_KEY has the key of a command\n")


def test_the_key_says_whose_a_request_is(cluster, keys, issued):
    with Client(cluster.target, credentials(issued, keys.keys["alice"])) as alice, \
            Client(cluster.target, credentials(issued, keys.keys["bob"])) as bob:
        for tenant in ("alice", "bob"):
            with pytest.raises(grpc.RpcError) as error:
                alice.generate(PROMPT, {"max_tokens": 1}, tenant=tenant)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert violated_fields(error.value) == ["tenant"] and error_detail(error.value, "BadRequest") is not None
        # A prefix is shared within a tenant alone, which shows whose the requests are.
        prompt = list(range(1000, 1300))
        cached = lambda client: client.generate(prompt, {"max_tokens": 1}).finished.usage.cached_prompt_tokens
        assert cached(alice) == 0
        assert cached(alice) > 0
        assert cached(bob) == 0
        assert cached(bob) > 0


def test_a_job_that_is_kept_is_its_tenants(cluster, keys, issued):
    with Client(cluster.target, credentials(issued, keys.keys["alice"])) as alice, \
            Client(cluster.target, credentials(issued, keys.keys["bob"])) as bob:
        job_of = lambda client: next(iter(client.start(client.generate_request(
            PROMPT, {"max_tokens": 3}, idempotency_key="k")))).accepted.job_id

        def resume(client, job_id):
            call, request = client.method("baton.v1.GenerationService", "Resume")
            return list(call(request(job_id=job_id), timeout=60))
        job = job_of(alice)
        assert resume(alice, job)[-1].finished.job_id == job
        with pytest.raises(grpc.RpcError) as foreign:
            resume(bob, job)
        with pytest.raises(grpc.RpcError) as unknown:
            resume(bob, "00" * 16)
        assert foreign.value.code() == grpc.StatusCode.NOT_FOUND
        # Nothing tells bob that there is such a job.
        assert foreign.value.details().replace(job, "") == unknown.value.details().replace("00" * 16, "")
        assert job_of(bob) != job and job_of(alice) == job, "a key is its tenant's, too"


def test_commands_take_the_key_from_a_file_or_the_environment(cluster, keys, issued):
    here = ("--target", cluster.target, "--tls-ca", issued.ca)
    generate = ("generate", *here, "--prompt", PROMPT, "--max-tokens", 4)
    assert run_baton(*generate, "--api-key-file", keys.file_of("alice")).returncode == 0
    assert run_baton(*generate, env={"BATON_API_KEY": keys.keys["bob"]}).returncode == 0
    assert run_baton("status", *here, env={"BATON_API_KEY": keys.keys["bob"]}).returncode == 0
    assert run_baton("chat", *here, env={"BATON_API_KEY": keys.keys["bob"]}, stdin=b"Hi\n").returncode == 0
    bench = run_baton("bench", "serve", *here, "--requests", 2, "--prompt-tokens", 16, "--output-tokens", 2,
                      env={"BATON_API_KEY": keys.keys["bob"]})
    assert bench.returncode == 0, bench.stderr
    assert run_baton("health", *here).returncode == 0, "health needs no key"
    wrong = run_baton(*generate, env={"BATON_API_KEY": "wrong"})
    assert wrong.returncode == 1 and "this API key is not known" in wrong.stderr
    opened = keys.file_of("alice")
    opened.chmod(0o644)
    refused = run_baton(*generate, "--api-key-file", opened)
    assert refused.returncode == 1 and "run chmod o-rwx" in refused.stderr and refused.stderr.count("\n") == 1
    spaced = run_baton(*generate, env={"BATON_API_KEY": "two words"})
    assert spaced.returncode == 1 and "two words" not in spaced.stderr


def test_keys_come_and_go_without_a_restart(cluster, keys, issued):
    models = "/baton.v1.GenerationService/ListModels"
    opens = lambda tenant: code_of(cluster.target, models, credentials(issued, keys.keys[tenant])) == grpc.StatusCode.OK
    keys.add("carol")
    assert not opens("carol")
    keys.write()
    wait_until(lambda: opens("carol"), RELOAD_TIMEOUT_S, "the new key")
    keys.write(keys.lines["carol"] + "\nthis is no line\n")
    wait_until(lambda: "the former keys stay in use" in cluster.log(), RELOAD_TIMEOUT_S, "an error")
    assert opens("alice") and opens("carol")
    del keys.lines["carol"]
    keys.write()
    wait_until(lambda: not opens("carol"), RELOAD_TIMEOUT_S, "the end of the key")
    assert opens("alice")


def test_a_flood_without_keys_holds_up_nobody(cluster, keys, issued):
    """Refused before the message is read: large messages without a key cost no work of the router's."""
    stopping = threading.Event()
    refused, others = [], []

    def flood():
        with grpc.secure_channel(cluster.target, credentials(issued), [("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/baton.v1.GenerationService/Tokenize")
            while not stopping.is_set():
                try:
                    call(b"\x12" + b"\xff\xff\x3f" + b"x" * 1_000_000, timeout=20)
                except grpc.RpcError as error:
                    (refused if error.code() == UNAUTHENTICATED else others).append(error.code())

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with Client(cluster.target, credentials(issued, keys.keys["alice"])) as alice:
            for _ in range(5):
                assert alice.generate(PROMPT, {"max_tokens": 4}, timeout_s=60).token_ids
        wait_until(lambda: len(refused) >= 20, 60, "refusals")
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert not others, others[:5]


def test_no_key_shows_up_in_a_log_or_a_command_line(cluster, keys, issued):
    with Client(cluster.target, credentials(issued, keys.keys["alice"])) as alice:
        alice.generate(PROMPT, {"max_tokens": 2})
    pids = [cluster.pid, *children_of(cluster.pid)]
    assert len(pids) == 4
    seen = cluster.log() + "".join(pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    assert str(keys.path) in seen, "the file's name is no secret"
    private = issued.key.read_text().splitlines()[1]
    for secret in [*keys.keys.values(), *(line.split()[1] for line in keys.lines.values()), private]:
        assert secret not in seen


def test_wrong_files_of_keys_are_an_error_of_one_line(issued, tmp_path):
    path = tmp_path / "keys"
    for text, mode, expected in [("", 0o644, "run chmod o-rwx"), ("alice: a-key-in-the-clear\n", 0o600, "line 1: expected"),
                                 (None, 0, "No such file or directory")]:
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
            path.chmod(mode)
        result = run_baton("router", "--grpc-port", 0, *issued.flags, "--api-keys", path, timeout_s=60)
        assert result.returncode == 1 and f"--api-keys {path}: " in result.stderr and expected in result.stderr
        assert "a-key-in-the-clear" not in result.stderr
