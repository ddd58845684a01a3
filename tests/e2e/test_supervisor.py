"""Processes: who restarts whom, who ends with whom, and how flags, environment and file set them up."""

import os
import pathlib
import resource
import signal
import subprocess
import time

import grpc
import pytest

from client import Background, Client
from cluster import BINARY, Cluster, RoleProcess, children_of, is_running, run_baton, wait_until

PROMPT = "The capital of France is"
LONG = {"max_tokens": 200, "ignore_eos": True}
# No test waits for its end. A stream that ends by itself may be over on a fast machine before the test has looked at it.
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
# Three steps of a prefill worker, which take more than half a second on the fastest machine if each is slowed down.
LONG_PROMPT_TOKENS = 1500
SLOW_STEPS = {"BATON_TEST_DELAYS": "step=200"}
MIXED = ("--prefill", 0, "--decode", 0, "--mixed", 1)
RESTART_TIMEOUT_S = 60
END_TIMEOUT_S = 20
# The supervisor kills a worker that the router has not listed for this time.
HUNG_S = 60
# Of a cluster that waits for nothing: far more than a busy machine takes, and less than the drain time-out of 25 s.
PROMPT_END_S = 15


@pytest.mark.parametrize("role", ["decode", "mixed"])
def test_killed_worker_comes_back_and_its_stream_goes_on(role):
    with Cluster("--threads", 1, *(MIXED if role == "mixed" else ())) as cluster, Client(cluster.target) as client:
        expected = client.generate(PROMPT, LONG).token_ids
        victim = cluster.pid_of(role)
        running = Background(client, PROMPT, LONG)
        running.wait_running()
        os.kill(victim, signal.SIGKILL)
        assert_unharmed(running.result(), expected)
        assert_comes_back(cluster, role, victim)


def assert_unharmed(generation, expected):
    assert generation.error is None, generation.error
    assert generation.token_ids == expected


def assert_comes_back(cluster, role, victim):
    wait_until(lambda: restarted(cluster, role, victim), RESTART_TIMEOUT_S, f"a new {role} worker")
    assert not is_running(victim)
    assert "restart at once" in cluster.log(), "it had served"


def test_prefill_worker_killed_while_it_computes_harms_no_stream(prose_ids):
    with Cluster("--threads", 1, env=SLOW_STEPS) as cluster, Client(cluster.target) as client:
        prompt = prose_ids[:LONG_PROMPT_TOKENS]
        expected = client.generate(prompt, {"max_tokens": 3}, tenant="oracle").token_ids
        victim = cluster.pid_of("prefill")
        wait_until(lambda: not any(w["used_blocks"] for w in cluster.workers()), END_TIMEOUT_S, "free blocks")
        computing = Background(client, prompt, {"max_tokens": 3})
        wait_until(lambda: any(w["pid"] == victim and w["used_blocks"] > 0 for w in cluster.workers()), END_TIMEOUT_S,
                   "the prompt's start")
        # Stopped, it can send no first token between the check and its death.
        os.kill(victim, signal.SIGSTOP)
        assert not computing.began.is_set(), "the prompt was computed before the worker could be killed"
        os.kill(victim, signal.SIGKILL)
        assert_unharmed(computing.result(), expected)
        assert_comes_back(cluster, "prefill", victim)


def test_prefill_worker_killed_after_the_hand_off_harms_no_stream():
    with Cluster("--threads", 1) as cluster, Client(cluster.target) as client:
        expected = client.generate(PROMPT, LONG).token_ids
        victim = cluster.pid_of("prefill")
        # The second token comes from the decode worker, which then has the whole prompt.
        running = Background(client, PROMPT, LONG, tokens=2)
        running.wait_running()
        os.kill(victim, signal.SIGKILL)
        assert_unharmed(running.result(), expected)
        assert_comes_back(cluster, "prefill", victim)


def restarted(cluster, role, old_pid):
    return any(w["role"] == role and w["pid"] != old_pid and w["state"] == "serving" for w in cluster.workers())


def test_killed_router_comes_back_at_its_address_and_its_client_hears_that_the_connection_broke():
    with Cluster("--threads", 1, *MIXED) as cluster:
        with subprocess.Popen([BINARY, "generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", "6000",
                               "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout.read(1)
            os.kill(cluster.pid_of("router"), signal.SIGKILL)
            error = running.communicate(timeout=END_TIMEOUT_S)[1].decode()
        assert f"router {cluster.target}: the connection broke" in error

        def generates():
            result = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 4,
                               "--timeout-ms", 10_000)
            return result.returncode == 0 and "Paris" in result.stdout

        wait_until(generates, RESTART_TIMEOUT_S, "generation after the router's restart")


@pytest.mark.skipif(os.environ.get("BATON_FULL_TESTS") != "1", reason="it takes more than a minute: BATON_FULL_TESTS=1 runs it")
def test_a_worker_that_lives_but_is_out_of_service_for_a_minute_is_killed_and_started_again():
    with Cluster("--threads", 1, *MIXED) as cluster:
        hung = cluster.pid_of("mixed")
        router = cluster.pid_of("router")
        # It can open no new connection, so it cannot join the next router.
        resource.prlimit(hung, resource.RLIMIT_NOFILE, (0, 0))
        os.kill(router, signal.SIGKILL)
        end = time.monotonic() + HUNG_S - 10
        while time.monotonic() < end:
            assert is_running(hung), "it was killed too early"
            time.sleep(1)
        wait_until(lambda: restarted(cluster, "mixed", hung), RESTART_TIMEOUT_S, "a new worker")
        assert f"mixed-worker with pid {hung} is alive but out of service for too long: killed" in cluster.log()
        with Client(cluster.target) as client:
            assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


def test_children_end_when_the_supervisor_is_killed():
    with Cluster("--threads", 1, "--prefill", 1, "--decode", 1, "--mixed", 1) as cluster:
        children = children_of(cluster.pid)
        assert len(children) == 4, "a router and three workers"
        assert {worker["pid"] for worker in cluster.workers()} < set(children)
        cluster.kill()
        wait_until(lambda: not any(map(is_running, children)), END_TIMEOUT_S, f"the end of {children}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_running_streams(number):
    # A slow machine may take longer than the usual 25 s to end the stream.
    with Cluster("--threads", 1, "--drain-timeout-ms", 55_000) as cluster, Client(cluster.target) as client:
        children = children_of(cluster.pid)
        expected = client.generate(PROMPT, LONG).token_ids
        running = Background(client, PROMPT, LONG)
        running.wait_running()
        cluster.signal(number)
        generation = running.result()
        assert generation.error is None, generation.error
        assert generation.token_ids == expected
        assert cluster.process.wait(60) == 0
        assert not any(map(is_running, children))


def test_no_new_request_is_accepted_while_draining():
    with Cluster("--threads", 1) as cluster, Client(cluster.target) as client:
        running = Background(client, PROMPT, ENDLESS)
        running.wait_running()
        cluster.signal(signal.SIGTERM)

        def refused():
            result = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 1)
            return result.returncode == 1

        wait_until(refused, END_TIMEOUT_S, "refusal of new requests")
        running.wait_for_more()
        running.cancel()


def test_a_second_signal_ends_the_cluster_at_once():
    with Cluster("--threads", 1) as cluster, Client(cluster.target) as client:
        children = children_of(cluster.pid)
        running = Background(client, PROMPT, ENDLESS)
        running.wait_running()
        cluster.signal(signal.SIGTERM)
        wait_until(lambda: "draining" in cluster.log(), END_TIMEOUT_S, "the router to drain")
        cluster.signal(signal.SIGINT)
        assert cluster.process.wait(PROMPT_END_S) == 1, "requests were cut"
        assert "a second signal came: ending at once" in cluster.log()
        wait_until(lambda: not any(map(is_running, children)), PROMPT_END_S, f"the end of {children}")
        assert running.result().error is not None
        cluster.process.returncode = 0


@pytest.mark.parametrize("role", ["router", "mixed-worker"])
def test_sigterm_while_a_child_loads_ends_the_cluster_at_once(role):
    process = subprocess.Popen([BINARY, "serve", "--grpc-port", "0", "--threads", "1", *map(str, MIXED)],
                               stdout=subprocess.DEVNULL)
    with process:
        try:
            # A stopped child takes as long to load as the test likes. A pause between two looks might be longer than that.
            deadline = time.monotonic() + END_TIMEOUT_S
            while (child := child_of_role(process.pid, role)) is None:
                assert time.monotonic() < deadline, f"the {role} does not start"
            os.kill(child, signal.SIGSTOP)
            children = children_of(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PROMPT_END_S) == 0
            assert not any(map(is_running, children))
        finally:
            process.kill()


def test_sigterm_while_a_worker_loads_ends_it_before_it_is_ready():
    process = subprocess.Popen([BINARY, "mixed-worker", "--grpc-port", "0", "--threads", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    with process:
        threads = pathlib.Path(f"/proc/{process.pid}/task")
        wait_until(lambda: len(list(threads.iterdir())) > 1, END_TIMEOUT_S, "the worker to handle signals")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PROMPT_END_S) == 0
        assert b"ready" not in process.stdout.read()


def child_of_role(pid, role):
    for child in children_of(pid):
        # Until it runs our binary, the child has its parent's command line.
        if pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[1:2] == [role.encode()]:
            return child
    return None


def roles(cluster):
    return sorted(worker["role"] for worker in cluster.workers())


ENVIRONMENT = {"BATON_ARG_GRPC_PORT": "0", "BATON_ARG_PREFILL": "0", "BATON_ARG_DECODE": "0", "BATON_ARG_MIXED": "1",
               "BATON_ARG_THREADS": "1", "BATON_ARG_KV_MEMORY": "36MiB"}


def test_environment_sets_flags():
    with Cluster(env=ENVIRONMENT, grpc_port=None) as cluster:
        assert roles(cluster) == ["mixed"]
        assert cluster.workers()[0]["total_blocks"] == 36 * 1024 // 360
        result = run_baton("generate", "--prompt", PROMPT, "--max-tokens", 4,
                           env={"BATON_ARG_TARGET": cluster.target})
        assert "Paris" in result.stdout, result.stderr


def test_flag_wins_over_environment():
    with Cluster("--mixed", 2, env=ENVIRONMENT) as cluster:
        assert roles(cluster) == ["mixed", "mixed"]


def test_config_file_sets_flags_and_loses_to_environment_and_flag(tmp_path):
    config = tmp_path / "baton.yaml"
    config.write_text("grpc-port: 0\nprefill: 0\ndecode: 0\nmixed: 1\nthreads: 1\nkv-memory: 36MiB\n")
    with Cluster("--config", config, grpc_port=None) as cluster:
        assert roles(cluster) == ["mixed"]
        assert cluster.workers()[0]["total_blocks"] == 36 * 1024 // 360
    with Cluster("--config", config, "--kv-memory", "72MiB", env={"BATON_ARG_MIXED": "2"}, grpc_port=None) as cluster:
        assert roles(cluster) == ["mixed", "mixed"]
        assert {worker["total_blocks"] for worker in cluster.workers()} == {72 * 1024 // 360}


@pytest.mark.parametrize("text", ["no-such-key: 1", "prefill: many", "- a\n- list", "prefill: [1", "prefill: {a: 1}"])
def test_bad_config_file_is_wrong_usage(tmp_path, text):
    config = tmp_path / "baton.yaml"
    config.write_text(text)
    result = run_baton("serve", "--grpc-port", 0, "--config", config, timeout_s=30)
    assert result.returncode == 2, result.stderr
    assert result.stderr


@pytest.mark.parametrize("name", ["BATON_ARG_THREADS", "BATON_ARG_PREFILL"])
def test_bad_environment_value_is_wrong_usage(name):
    result = run_baton("serve", "--grpc-port", 0, env={name: "many"}, timeout_s=30)
    assert result.returncode == 2, result.stderr


def test_roles_run_as_processes_of_their_own(tmp_path):
    """A router starts first and workers join it, as in a deployment. A worker that SIGTERM ends is no longer listed."""
    with RoleProcess("router", "--grpc-port", 0) as router:
        workers = [RoleProcess(role, "--router", router.cluster_target, "--grpc-port", 0, "--threads", 1)
                   for role in ("prefill-worker", "decode-worker")]
        with workers[0], workers[1]:
            wait_until(lambda: roles(router) == ["decode", "prefill"], RESTART_TIMEOUT_S, "both workers")
            with Client(router.target) as client:
                assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text
            assert workers[0].stop() == 0
            wait_until(lambda: roles(router) == ["decode"], END_TIMEOUT_S, "the worker to leave")


def test_workers_of_different_kv_types_are_never_paired():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        worker = lambda role, kv_dtype: RoleProcess(role, "--router", router.cluster_target, "--grpc-port", 0, "--threads", 1,
                                                    "--kv-dtype", kv_dtype)
        with worker("prefill-worker", "int8"), worker("decode-worker", "bf16"):
            wait_until(lambda: roles(router) == ["decode", "prefill"], RESTART_TIMEOUT_S, "both workers")
            assert {w["role"]: w["fingerprint"].split("-")[2] for w in router.workers()} == {
                "prefill": "int8", "decode": "bf16"}
            alone = {w["role"]: (w["group"], w["partners"], w["no_partner"]) for w in router.workers()}
            assert sorted(group for group, _, _ in alone.values()) == ["A", "B"]
            for role, (group, partners, why) in alone.items():
                (missing,) = set(alone) - {role}
                assert partners == 0
                assert why == (f"no {missing} worker with this fingerprint; group {alone[missing][0]}'s differs in kv "
                               "(--kv-dtype)")
            with pytest.raises(grpc.RpcError) as error:
                client.generate(PROMPT, {"max_tokens": 4})
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE
            assert "equal fingerprints" in error.value.details()
            with worker("decode-worker", "int8"):
                wait_until(lambda: len(roles(router)) == 3, RESTART_TIMEOUT_S, "a worker of the same type")
                assert sorted(w["partners"] for w in router.workers()) == [0, 1, 1]
                assert "none: no prefill worker with this fingerprint" in run_baton("status", "--target",
                                                                                    router.target).stdout
                assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


def test_serve_as_pid_1_serves_restarts_its_children_and_ends_on_sigterm():
    """Every container runs its command as process 1 of a PID namespace."""
    if subprocess.run([*AS_PID_1, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let the test make a PID namespace")
    with ContainerCluster("--threads", 1, *MIXED) as cluster, Client(cluster.target) as client:
        assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text
        before = children_of(cluster.init_pid)
        assert len(before) == 2, "the router and the mixed worker"
        incarnation = cluster.workers()[0]["incarnation"]
        # Processes have other pids in the namespace, so the worker is known by its command line.
        worker = child_of_role(cluster.init_pid, "mixed-worker")
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: [w["incarnation"] for w in cluster.workers()] not in ([], [incarnation]), RESTART_TIMEOUT_S,
                   "a new worker")
        assert not pathlib.Path(f"/proc/{worker}").exists(), "the killed child was not reaped"
        assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


def test_serve_as_pid_1_reaps_orphans_that_it_did_not_start():
    if subprocess.run([*AS_PID_1, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let the test make a PID namespace")
    with ContainerCluster("--threads", 1, *MIXED) as cluster:
        own = set(children_of(cluster.init_pid))
        # The shell ends at once, and its child becomes one of process 1.
        subprocess.run(["nsenter", "--target", str(cluster.init_pid), "--user", "--preserve-credentials", "--pid",
                        "sh", "-c", "sleep 3 > /dev/null 2>&1 &"], check=True, timeout=10)
        (orphan,) = set(children_of(cluster.init_pid)) - own
        wait_until(lambda: not pathlib.Path(f"/proc/{orphan}").exists(), END_TIMEOUT_S, "the orphan to be reaped")
        assert set(children_of(cluster.init_pid)) == own


AS_PID_1 = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


class ContainerCluster(Cluster):
    """`baton serve` as process 1 of a PID namespace of its own."""

    def __init__(self, *args):
        super().__init__(*args)
        self.command = [*AS_PID_1, *self.command]

    @property
    def init_pid(self):
        return children_of(self.process.pid)[0]

    def signal(self, number):
        self.ends = True
        os.kill(self.init_pid, number)
