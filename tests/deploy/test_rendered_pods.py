"""What the chart would run is run: the pods of a release, as rendered, on this machine. They serve, and lose no request when
pods are evicted and when a deployment starts its pods again."""

import concurrent.futures
import json
import os
import pathlib
import re
import urllib.request

import pytest
import yaml

import containers
import pods
from client import Client, Load, Oracle
from cluster import run_baton, tokenize_prose, wait_until
from connections import Watch, listening_ports
from installation import install
from policies import Party, Policies
from quantities import number_of
from rendering import NAMESPACE, Release

VALUES = yaml.safe_load(pathlib.Path(__file__).with_name("rendered_pods.yaml").read_text())
STARTUP_TIMEOUT_S = 60
WAIT_S = 20
WORKERS = ("prefill", "decode", "mixed")
EVICTIONS = 6
PROMPT_TOKENS = 256
KV_BYTES_PER_TOKEN = 23_040


def model_store():
    home = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share"
    return pathlib.Path(os.environ.get("BATON_MODEL_STORE") or pathlib.Path(home) / "baton/models")


def role_of(pod):
    return pod.pod.labels["app.kubernetes.io/component"]


class Deployed:
    """A release whose pods run, one of each role."""

    def __init__(self, kubelet, release, runtime):
        self.kubelet, self.release, self.is_isolated = kubelet, release, runtime.is_isolated
        self.templates = {pod.command.removesuffix("-worker"): pod for pod in release.pods}
        self.watch = Watch(kubelet)
        self.ended_workers = 0

    def start(self, *roles):
        return self.kubelet.create(*(self.templates[role] for role in roles))

    def pod(self, role):
        (found,) = [pod for pod in self.kubelet.pods if role_of(pod) == role]
        return found

    @property
    def target(self):
        router = self.pod("router")
        return f"{router.address}:{router.pod.flag('grpc-port')}"

    def workers(self):
        """Of the router's status, by their addresses."""
        result = run_baton("status", "--target", self.target, "--json")
        assert result.returncode == 0, result.stderr
        return {worker["address"].rpartition(":")[0]: worker for worker in json.loads(result.stdout)["workers"]}

    def delete(self, worker, **how):
        self.ended_workers += 1
        return self.kubelet.delete(worker, **how)

    def await_members(self, running):
        """Until the router's workers are exactly these pods."""
        wait_until(lambda: set(self.workers()) == {pod.address for pod in running}, WAIT_S, "the members")

    def await_work_of(self, pod):
        wait_until(lambda: self.workers()[pod.address]["used_blocks"] > 0, WAIT_S, f"a request at {pod.name}")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pods")
    install(folder / "image")
    (folder / "hosts").touch()
    release = Release(VALUES)
    with containers.runtime() as runtime, pods.Kubelet(
            runtime, release, folder / "image", {"models": model_store()}, folder / "hosts") as kubelet:
        running = Deployed(kubelet, release, runtime)
        (router,) = running.start("router")
        if runtime.is_isolated:
            running.watch.start()
        wait_until(lambda: router.answers["readiness"] > 0, STARTUP_TIMEOUT_S, "the router to start")
        running.ready_without_workers = router.is_ready
        running.names_without_workers = (folder / "hosts").read_text().split()
        running.start(*WORKERS)
        kubelet.await_ready(kubelet.pods, STARTUP_TIMEOUT_S)
        yield running
        if runtime.is_isolated:
            running.watch.stop()


@pytest.fixture(scope="module")
def client(deployed):
    with Client(deployed.target) as connected:
        yield connected


@pytest.fixture(scope="module")
def load(deployed, client):
    """Makes loads whose answers are known. Prompts are long and answers short, so that requests wait for every worker that
    computes prompts, and a worker that decodes always expects some."""
    ids = tokenize_prose()
    requests = [(ids[begin:begin + PROMPT_TOKENS], {"max_tokens": tokens, "ignore_eos": True, "temperature": 1.0, "seed": 7})
                for begin, tokens in ((0, 12), (600, 20), (1200, 6))]
    oracle = Oracle(client)
    return lambda: Load(client, oracle, requests, streams=6)


def test_the_router_answers_clients_of_http(deployed):
    router = deployed.pod("router")
    with urllib.request.urlopen(f"http://{router.address}:{router.pod.flag('http-port')}/v1/models", timeout=WAIT_S) as answer:
        assert [model["id"] for model in json.load(answer)["data"]] == ["smollm2-135m-instruct"]


def test_it_says_what_it_runs_in(deployed, capsys):
    with capsys.disabled():
        print("\npods have namespaces of their own" if deployed.is_isolated
              else "no namespaces: pods are processes at loopback addresses, with --transport tcp")


def test_a_router_without_workers_lives_and_is_not_ready_but_workers_find_it(deployed):
    assert not deployed.ready_without_workers
    assert "demo-baton-cluster" in deployed.names_without_workers
    assert "demo-baton-router" not in deployed.names_without_workers


def test_the_test_of_helm_really_generates(deployed):
    template = deployed.templates["generate"]
    code, log = deployed.kubelet.complete(template, WAIT_S)
    assert code == 0, log
    answer = json.loads(log)
    assert len(answer["token_ids"]) == VALUES.get("test", {}).get("maxTokens", 8)
    assert "Paris" in answer["text"]


def test_processes_have_the_rights_that_their_security_context_names(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces the processes are this test's own kind")
    for pod in deployed.kubelet.pods:
        status = dict(re.findall(r"(\w+):\s*(.*)", pathlib.Path(f"/proc/{pod.container.pid}/status").read_text()))
        assert set(status["Uid"].split()) == {"65532"} and status["NSpid"].split()[-1] == "1"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1"
        assert pod.container.execute(["touch", "/opt/file"], WAIT_S) != 0
        assert pod.container.execute(["touch", "/tmp/file"], WAIT_S) == 0


@pytest.mark.parametrize("role", WORKERS)
def test_an_evicted_pod_ends_its_streams_and_no_request_fails(deployed, load, role):
    with load() as running:
        # A pod that has nothing to do just when it is told to end shows nothing: the next one is evicted too.
        for _ in range(EVICTIONS):
            evicted = deployed.pod(role)
            termination = evict(deployed, evicted)
            assert_drained(evicted, termination)
            if open_calls(termination) > 0:
                break
        else:
            pytest.fail(f"{EVICTIONS} pods had nothing to drain:\n{termination.log}")
    assert not running.stop() and running.finished > 0
    deployed.await_members([pod for pod in deployed.kubelet.pods if pod is not deployed.pod("router")])


def evict(deployed, pod):
    deployed.await_work_of(pod)
    # A ReplicaSet starts the replacement when a pod is told to end, and the pod serves on by its preStop.
    (replacement,) = deployed.start(role_of(pod))
    termination = deployed.delete(pod, before_signal=lambda: deployed.await_work_of(pod))
    deployed.kubelet.await_ready([replacement], STARTUP_TIMEOUT_S)
    return termination


def assert_drained(pod, termination):
    log = termination.log
    assert not termination.was_killed and termination.exit_code == 0, log
    assert termination.seconds < pod.pod.spec["terminationGracePeriodSeconds"]
    assert "drained in" in log and " cut " not in log, log


def open_calls(termination):
    """How many calls a worker had when it was told to end."""
    return int(re.search(r"draining: .* open calls: (\d+)", termination.log)[1])


def test_deployments_start_their_pods_again_all_at_once_and_no_request_fails(deployed, load):
    with load() as running, concurrent.futures.ThreadPoolExecutor() as others:
        old = [deployed.pod(role) for role in WORKERS]
        for pod in old:
            deployed.await_work_of(pod)
        new = deployed.start(*WORKERS)
        endings = []
        # maxSurge 1, maxUnavailable 0: an old pod ends when the new one of its deployment is ready.
        for before, after in zip(old, new):
            deployed.kubelet.await_ready([after], STARTUP_TIMEOUT_S)
            endings.append(others.submit(deployed.delete, before))
        terminations = [ending.result() for ending in endings]
    for pod, termination in zip(old, terminations):
        assert_drained(pod, termination)
    assert sum(map(open_calls, terminations)) > 0, "there was nothing to drain"
    assert not running.stop() and running.finished > 0
    deployed.await_members(new)


def test_workers_left_by_draining_and_no_pod_would_have_been_killed(deployed):
    assert not [problem for pod in deployed.kubelet.pods for problem in pod.problems]
    assert {"liveness", "readiness"} <= {kind for pod in deployed.kubelet.pods for kind, count in pod.answers.items() if count}
    router = deployed.pod("router")
    with urllib.request.urlopen(f"http://{router.address}:{router.pod.flag('admin-port')}/metrics", timeout=WAIT_S) as page:
        losses = re.findall(r'^baton_worker_losses_total{(.*)} (\d+)', page.read().decode(), re.MULTILINE)
    left = {labels: int(count) for labels, count in losses if int(count) > 0}
    assert sum(left.values()) == deployed.ended_workers and all('reason="drained"' in labels for labels in left), left


def test_kv_crossed_the_network_between_pods(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces there is no interface to count at")
    (line,) = [line for line in deployed.pod("decode").table("dev") if line.strip().startswith("eth0:")]
    assert int(line.split(":")[1].split()[0]) > PROMPT_TOKENS * KV_BYTES_PER_TOKEN


def test_pods_listen_at_the_ports_that_the_chart_names_alone(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces the machine's own ports are among them")
    for pod in deployed.kubelet.pods:
        open_ports = listening_ports(pod)
        assert open_ports and open_ports <= pod.pod.listens, pod.name


def test_every_connection_that_was_made_is_one_that_the_policies_allow(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces pods share their addresses with this test")
    policies = Policies(deployed.release.of_kind("NetworkPolicy"), NAMESPACE)
    party = lambda address: Party(NAMESPACE, deployed.watch.labels.get(address, {}), address)
    seen = {one for one in deployed.watch.seen if one[0] != containers.NODE_ADDRESS}
    role = lambda address: deployed.watch.labels[address]["app.kubernetes.io/component"]
    kinds = {(role(source), role(target)) for source, target, _ in seen}
    assert {("prefill", "router"), ("decode", "router"), ("mixed", "router"), ("decode", "prefill")} <= kinds
    for source, target, port in seen:
        assert policies.allow(party(source), party(target), port), f"{role(source)} -> {role(target)}:{port}"


def test_processes_stay_far_below_the_limit_of_their_memory(deployed):
    for pod in deployed.kubelet.pods:
        status = pathlib.Path(f"/proc/{pod.container.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
        assert peak < 0.8 * number_of(pod.pod.main["resources"]["limits"]["memory"]), pod.name


def test_workers_find_a_router_that_starts_anew_by_its_name(deployed):
    if not deployed.is_isolated:
        pytest.skip("without namespaces an address stands for the name")
    former = deployed.pod("router")
    termination = deployed.kubelet.delete(former)
    assert termination.exit_code == 0 and not termination.was_killed, termination.log
    (router,) = deployed.start("router")
    assert router.address != former.address
    deployed.kubelet.await_ready([router], WAIT_S)
    code, log = deployed.kubelet.complete(deployed.templates["generate"], WAIT_S)
    assert code == 0, log
