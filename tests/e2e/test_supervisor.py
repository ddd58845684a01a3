"""Processes: who restarts whom, who ends with whom, and how flags, environment and file set them up."""

import os
import pathlib
import signal
import subprocess
import threading

import grpc
import pytest

from client import Client, read_stream
from cluster import BINARY, Cluster, children_of, is_running, run_baton, wait_until

PROMPT = "The capital of France is"
LONG = {"max_tokens": 400, "ignore_eos": True}
MIXED = ("--prefill", 0, "--decode", 0, "--mixed", 1)
RESTART_TIMEOUT_S = 60
END_TIMEOUT_S = 20


class Background:
    """A stream read on a thread of its own."""

    def __init__(self, client, sampling):
        self.stream = client.start(client.generate_request(PROMPT, sampling))
        self.began = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        self.generation = read_stream(self.stream, lambda _: self.began.set())
        self.began.set()

    def wait_running(self):
        assert self.began.wait(60), "no token came"
        assert self._thread.is_alive(), f"the stream ended at once: {self.generation}"

    def result(self, timeout_s=60):
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the stream does not end"
        return self.generation


@pytest.mark.parametrize("role", ["prefill", "decode", "mixed"])
def test_killed_worker_ends_its_stream_and_comes_back(role):
    with Cluster("--threads", 1, *(MIXED if role == "mixed" else ())) as cluster, Client(cluster.target) as client:
        expected = client.generate(PROMPT, {"max_tokens": 8}).token_ids
        victim = next(worker["pid"] for worker in cluster.workers() if worker["role"] == role)
        running = Background(client, LONG)
        running.wait_running()
        os.kill(victim, signal.SIGKILL)
        generation = running.result()
        if role == "prefill":
            # The worker may have done its part already; then nothing is lost.
            assert generation.error is None or generation.error.code() == grpc.StatusCode.UNAVAILABLE
        else:
            assert generation.error is not None and generation.error.code() == grpc.StatusCode.UNAVAILABLE
        if generation.error is not None:
            assert "worker" in generation.error.details()
        wait_until(lambda: restarted(cluster, role, victim), RESTART_TIMEOUT_S, f"a new {role} worker")
        assert client.generate(PROMPT, {"max_tokens": 8}).token_ids == expected
        assert not is_running(victim)


def restarted(cluster, role, old_pid):
    return any(w["role"] == role and w["pid"] != old_pid and w["state"] == "serving" for w in cluster.workers())


def test_killed_router_comes_back_at_its_address():
    with Cluster("--threads", 1, *MIXED) as cluster:
        workers = {worker["pid"] for worker in cluster.workers()}
        (router,) = set(children_of(cluster.pid)) - workers
        os.kill(router, signal.SIGKILL)

        def generates():
            result = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 4,
                               "--timeout-ms", 10_000)
            return result.returncode == 0 and "Paris" in result.stdout

        wait_until(generates, RESTART_TIMEOUT_S, "generation after the router's restart")


def test_children_end_when_the_supervisor_is_killed():
    with Cluster("--threads", 1, "--prefill", 1, "--decode", 1, "--mixed", 1) as cluster:
        children = children_of(cluster.pid)
        assert len(children) == 4, "a router and three workers"
        assert {worker["pid"] for worker in cluster.workers()} < set(children)
        cluster.kill()
        wait_until(lambda: not any(map(is_running, children)), END_TIMEOUT_S, f"the end of {children}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_running_streams(number):
    with Cluster("--threads", 1) as cluster, Client(cluster.target) as client:
        children = children_of(cluster.pid)
        expected = client.generate(PROMPT, LONG).token_ids
        running = Background(client, LONG)
        running.wait_running()
        cluster.signal(number)
        generation = running.result()
        assert generation.error is None, generation.error
        assert generation.token_ids == expected
        assert cluster.process.wait(60) == 0
        assert not any(map(is_running, children))


def test_no_new_request_is_accepted_while_draining():
    with Cluster("--threads", 1) as cluster, Client(cluster.target) as client:
        running = Background(client, LONG)
        running.wait_running()
        cluster.signal(signal.SIGTERM)

        def refused():
            result = run_baton("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 1)
            return result.returncode == 1

        wait_until(refused, END_TIMEOUT_S, "refusal of new requests")
        assert running.result().error is None


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
        workers = [RoleProcess(role, "--router", router.target, "--grpc-port", 0, "--threads", 1)
                   for role in ("prefill-worker", "decode-worker")]
        with workers[0], workers[1]:
            wait_until(lambda: roles(router) == ["decode", "prefill"], RESTART_TIMEOUT_S, "both workers")
            with Client(router.target) as client:
                assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text
            assert workers[0].stop() == 0
            wait_until(lambda: roles(router) == ["decode"], END_TIMEOUT_S, "the worker to leave")


def test_workers_of_different_kv_types_are_never_paired():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        worker = lambda role, kv_dtype: RoleProcess(role, "--router", router.target, "--grpc-port", 0, "--threads", 1,
                                                    "--kv-dtype", kv_dtype)
        with worker("prefill-worker", "int8"), worker("decode-worker", "bf16"):
            wait_until(lambda: roles(router) == ["decode", "prefill"], RESTART_TIMEOUT_S, "both workers")
            assert {w["role"]: w["fingerprint"].split("-")[2] for w in router.workers()} == {
                "prefill": "int8", "decode": "bf16"}
            with pytest.raises(grpc.RpcError) as error:
                client.generate(PROMPT, {"max_tokens": 4})
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE
            assert "equal fingerprints" in error.value.details()
            with worker("decode-worker", "int8"):
                wait_until(lambda: len(roles(router)) == 3, RESTART_TIMEOUT_S, "a worker of the same type")
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
        worker = next(pid for pid in before if b"mixed-worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: [w["incarnation"] for w in cluster.workers()] not in ([], [incarnation]), RESTART_TIMEOUT_S,
                   "a new worker")
        assert not pathlib.Path(f"/proc/{worker}").exists(), "the killed child was not reaped"
        assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


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
        os.kill(self.init_pid, number)


class RoleProcess(Cluster):
    """One role as a process of its own, ended like a cluster."""

    def __init__(self, role, *args):
        super().__init__()
        self.command = [BINARY, role, *map(str, args)]
