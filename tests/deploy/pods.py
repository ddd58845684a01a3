"""A small kubelet: it starts pods as their specs say, probes them, and ends them by preStop, SIGTERM and, after the grace
period, SIGKILL. Names of services lead to the pods that are ready, as a cluster's DNS says it."""

import dataclasses
import http.client
import itertools
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cluster import wait_until
from containers import ContainerSpec, Mount
from quantities import number_of
from rendering import selects
from secret_volumes import SecretVolume

TICK_S = 0.05


class Probe:
    """A probe of a container: call `is_due`, then `ask`. `execute` runs a command in the container."""

    def __init__(self, spec, container, address, execute):
        self._spec, self._address, self._execute = spec, address, execute
        self._ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.threshold = spec.get("failureThreshold", 3)
        self._period_s, self._timeout_s = spec.get("periodSeconds", 10), spec.get("timeoutSeconds", 1)
        self._next = time.monotonic() + spec.get("initialDelaySeconds", 0)
        self.failures = 0
        self.succeeded = False
        self._actions = {"grpc": self._by_grpc, "httpGet": self._by_http, "tcpSocket": self._by_tcp,
                         "exec": self._by_command}

    @property
    def has_failed(self):
        return self.failures >= self.threshold

    def is_due(self):
        return time.monotonic() >= self._next

    def ask(self):
        self._next = time.monotonic() + self._period_s
        (ask, action), = [(ask, self._spec[kind]) for kind, ask in self._actions.items() if kind in self._spec]
        self.succeeded = ask(action)
        self.failures = 0 if self.succeeded else self.failures + 1

    def _by_grpc(self, action):
        with grpc.insecure_channel(f"{self._address}:{action['port']}") as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(service=action.get("service", "")), timeout=self._timeout_s)
            except grpc.RpcError:
                return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    def _by_tcp(self, action):
        try:
            with socket.create_connection((self._address, self._port_of(action)), timeout=self._timeout_s):
                return True
        except OSError:
            return False

    def _by_command(self, action):
        try:
            return self._execute(action["command"], self._timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False

    def _port_of(self, action):
        return self._ports.get(action["port"], action["port"])

    def _by_http(self, action):
        port = self._port_of(action)
        connection = http.client.HTTPConnection(self._address, port, timeout=self._timeout_s)
        try:
            connection.request("GET", action["path"])
            return 200 <= connection.getresponse().status < 400
        except OSError:
            return False
        finally:
            connection.close()


class RunningPod:
    """A pod with one container. `problems` are what a kubelet would have killed it for."""

    def __init__(self, name, pod, sandbox):
        self.name, self.pod, self._sandbox = name, pod, sandbox
        self.address = sandbox.address
        self.container = None
        self.is_ready = self.is_deleted = False
        self.problems = []
        self.secret_volumes = []
        # How many answers, good or bad, each probe has got.
        self.answers = {"startup": 0, "liveness": 0, "readiness": 0}
        self._stopping = threading.Event()
        self._prober = None

    def start(self, container, on_change):
        self.container = container
        if self.pod.is_long_lived:
            self._prober = threading.Thread(target=self._probe, args=(on_change,), daemon=True)
            self._prober.start()

    def table(self, name):
        return self._sandbox.table(name)

    def _probe(self, on_change):
        probes = {kind: Probe(self.pod.main[f"{kind}Probe"], self.pod.main, self.address, self.container.execute)
                  for kind in ("startup", "liveness", "readiness")}
        startup, liveness, readiness = probes.values()
        while not self._stopping.wait(TICK_S) and not self.problems:
            # Until it has started, a pod is asked nothing else.
            for kind, probe in probes.items():
                if (kind == "startup") != startup.succeeded and probe.is_due():
                    probe.ask()
                    self.answers[kind] += 1
            # A pod that is told to end may stop answering.
            if self.container.exit_code() is not None and not self.is_deleted:
                self.problems.append(f"it ended with {self.container.exit_code()}")
            elif startup.has_failed or (liveness.has_failed and not self.is_deleted):
                self.problems.append("it does not answer its startup or liveness probe")
            is_ready = readiness.succeeded or (self.is_ready and not readiness.has_failed)
            if is_ready != self.is_ready:
                self.is_ready = is_ready
                on_change()

    def close(self):
        self._stopping.set()
        if self._prober is not None:
            self._prober.join()
        if self.container is not None:
            self.container.close()
        self._sandbox.close()


@dataclasses.dataclass
class Termination:
    exit_code: int
    seconds: float
    was_killed: bool
    log: str


class Kubelet:
    """`claims` are folders by the names of PersistentVolumeClaims; `image` is what stands for the image of all pods. `secrets`
    are the keys and bytes of each Secret, by its name."""

    def __init__(self, runtime, release, image, claims, hosts_file, secrets=None):
        self._runtime, self._release, self._image, self._claims = runtime, release, image, claims
        self._hosts_file = hosts_file
        self._secrets = dict(secrets or {})
        self._folder = tempfile.TemporaryDirectory(prefix="baton-volumes-")
        self._hosts_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.pods = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in list(self.pods):
            self._remove(pod)
        self._folder.cleanup()

    def change_secret(self, name, data):
        """Volumes of running pods have the new data when this returns."""
        self._secrets[name] = data
        for volume in [volume for pod in self.pods for volume in pod.secret_volumes if volume.secret == name]:
            volume.write(data)

    def create(self, *templates):
        """Starts pods. All have their addresses before the first of them runs."""
        created = [RunningPod(f"{template.owner[1]}-{next(self._numbers)}", template, self._runtime.sandbox())
                   for template in templates]
        self.pods += created
        self._publish()
        for pod in created:
            pod.start(self._runtime.start(self._spec_of(pod), pod._sandbox), self._publish)
        return created

    def await_ready(self, pods, timeout_s):
        def ready():
            problems = [f"{pod.name}: {problem}\n{pod.container.log()}" for pod in pods for problem in pod.problems]
            assert not problems, "\n".join(problems)
            return all(pod.is_ready for pod in pods)
        try:
            wait_until(ready, timeout_s, "all pods to be ready")
        except AssertionError:
            print(*(f"{pod.name}:\n{pod.container.log()}" for pod in pods if not pod.is_ready), sep="\n")
            raise

    def complete(self, template, timeout_s):
        """Runs a pod that ends by itself; returns its exit code and log."""
        (pod,) = self.create(template)
        code = pod.container.wait(timeout_s)
        log = pod.container.log()
        self._remove(pod)
        return code, log

    def delete(self, pod, before_signal=lambda: None):
        """Ends a pod as the API server's users know it, and returns how it went. `before_signal` is called between preStop
        and SIGTERM."""
        began = time.monotonic()
        deadline = began + pod.pod.spec["terminationGracePeriodSeconds"]
        pod.is_deleted = True
        self._publish()
        hook = pod.pod.main.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            code = pod.container.execute(hook["exec"]["command"], deadline - began)
            assert code == 0, f"{pod.name}: preStop ended with {code}"
        elif "sleep" in hook:
            time.sleep(hook["sleep"]["seconds"])
        before_signal()
        pod.container.signal(signal.SIGTERM)
        code = pod.container.wait(deadline - time.monotonic())
        termination = Termination(code, time.monotonic() - began, code is None, pod.container.log())
        self._remove(pod)
        return termination

    def _remove(self, pod):
        self.pods.remove(pod)
        pod.close()

    def _publish(self):
        """What the names of services lead to."""
        lines = ["127.0.0.1 localhost"]
        for service in self._release.of_kind("Service"):
            name, spec = service["metadata"]["name"], service["spec"]
            names = [name, f"{name}.{self._release.namespace}", f"{name}.{self._release.namespace}.svc"]
            lines += [f"{pod.address} {' '.join(names)}" for pod in self.pods
                      if selects(spec["selector"], pod.pod.labels) and not pod.is_deleted
                      and (pod.is_ready or spec.get("publishNotReadyAddresses"))]
        text = "".join(f"{line}\n" for line in lines).encode()
        # Readers see the file before or after, and never an empty one.
        with self._hosts_lock, open(self._hosts_file, "r+b") as file:
            file.write(text)
            file.truncate()

    def _spec_of(self, pod):
        spec, container = pod.pod.spec, pod.pod.main
        environment = self._environment_of(pod)
        both = {**spec.get("securityContext", {}), **container["securityContext"]}
        return ContainerSpec(
            command=[_expand(word, environment) for word in container["command"] + container["args"]],
            environment=environment,
            mounts=self._mounts_of(pod), user=both["runAsUser"], group=both["runAsGroup"],
            groups=[both["runAsGroup"], *([both["fsGroup"]] if "fsGroup" in both else [])],
            read_only_root=both.get("readOnlyRootFilesystem", False),
            may_gain_privileges=both.get("allowPrivilegeEscalation", True),
            keeps_capabilities="ALL" not in both.get("capabilities", {}).get("drop", ()),
            image=self._image, hosts_file=self._hosts_file)

    def _environment_of(self, pod):
        fields = {"status.podIP": pod.address, "metadata.name": pod.name, "metadata.namespace": self._release.namespace}
        environment = {"HOSTNAME": pod.name}
        for one in pod.pod.main.get("env", ()):
            source = one.get("valueFrom", {})
            environment[one["name"]] = (fields[source["fieldRef"]["fieldPath"]] if source
                                        else _expand(one["value"], environment))
        return environment

    def _mounts_of(self, pod):
        volumes = {volume["name"]: volume for volume in pod.pod.spec.get("volumes", ())}
        mounts = []
        for mount in pod.pod.main.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if "secret" in volume:
                mounts.append(Mount(mount["mountPath"], self._secret_volume(pod, volume).folder, read_only=True))
                continue
            claim = volume.get("persistentVolumeClaim")
            source = os.path.join(self._claims[claim["claimName"]], mount.get("subPath", "")) if claim else None
            size = int(number_of(volume["emptyDir"]["sizeLimit"])) if "emptyDir" in volume else 0
            assert source or size, f"{pod.name}: this kubelet knows no volume like {volume}"
            mounts.append(Mount(mount["mountPath"], source, size, mount.get("readOnly", False)))
        return mounts

    def _secret_volume(self, pod, volume):
        folder = pathlib.Path(self._folder.name) / pod.name / volume["name"]
        source = volume["secret"]
        made = SecretVolume(folder, source, pod.pod.spec["securityContext"].get("fsGroup"), self._secrets[source["secretName"]])
        pod.secret_volumes.append(made)
        return made


def _expand(text, environment):
    """$(NAME) becomes the variable's value, and $$ a dollar. Unknown names stay as they are."""
    return re.sub(r"\$\$|\$\((\w+)\)",
                  lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]), text)
