"""Containers on this machine, as a container runtime starts them: namespaces for the pod's network and IPC and for each
container's processes and files, a root of its own, and the user and rights that the security context names. What a
runtime has besides is a seccomp profile and limits of memory and CPU.

Where namespaces cannot be made, Loopback starts the same commands as plain processes, each with a loopback address of its
own.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile

from cluster import children_of, wait_until

CLONE_NEWNET = 0x40000000
BRIDGE = "pods"
NETWORK = "10.244.0.{}"
NODE_ADDRESS = NETWORK.format(1)
DEVICES = ("null", "zero", "full", "random", "urandom")
# Where the script below builds the root of a container, in a mount namespace of its own.
ROOT = pathlib.Path("/mnt")
START_TIMEOUT_S = 20
# A child that its test cannot end any more, because that was killed, ends too.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


def _run(line):
    subprocess.run(line.split(), check=True, capture_output=True)


class NodeNetwork:
    """The network of a node, as a namespace into which this process moves: the pods hang on a bridge in it. OSError or
    CalledProcessError when this machine does not allow it."""

    def __init__(self):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._last = 1

    def __enter__(self):
        self._former = os.open("/proc/self/ns/net", os.O_RDONLY)
        if self._libc.unshare(CLONE_NEWNET) != 0:
            os.close(self._former)
            raise OSError(ctypes.get_errno(), "no network namespace")
        try:
            _run("ip link set lo up")
            _run(f"ip link add {BRIDGE} type bridge")
            _run(f"ip address add {NODE_ADDRESS}/24 dev {BRIDGE}")
            _run(f"ip link set {BRIDGE} up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._libc.setns(self._former, CLONE_NEWNET)
        os.close(self._former)

    def connect(self, pid):
        """Gives the namespace of a process an interface with a new address, which it returns."""
        self._last += 1
        address, cable = NETWORK.format(self._last), f"pod{self._last}"
        _run(f"ip link add {cable} type veth peer name eth0 netns {pid}")
        _run(f"ip link set {cable} master {BRIDGE} up")
        inside = f"nsenter --target={pid} --net"
        _run(f"{inside} ip address add {address}/24 dev eth0")
        _run(f"{inside} ip link set eth0 up")
        _run(f"{inside} ip link set lo up")
        # UCX does not see a device whose link is not up yet, which the kernel notices a little later.
        state = [*inside.split(), "ip", "-brief", "link", "show", "eth0"]
        wait_until(lambda: " UP " in subprocess.run(state, capture_output=True, text=True, check=True).stdout,
                   START_TIMEOUT_S, "the link of a pod")
        return address


class Sandbox:
    """What the containers of a pod share: a network and IPC."""

    def __init__(self, network):
        self._holder = subprocess.Popen([*WITH_PARENT, "unshare", "--net", "--ipc", "sleep", "infinity"])
        program = pathlib.Path(f"/proc/{self._holder.pid}/comm")
        try:
            wait_until(lambda: self._holder.poll() is not None or program.read_text() == "sleep\n", START_TIMEOUT_S,
                       "the namespaces of a pod")
            if self._holder.poll() is not None:
                raise OSError("no namespaces")
            self.address = network.connect(self._holder.pid)
        except BaseException:
            self.close()
            raise

    def enter(self):
        """The words before a command that runs in the sandbox."""
        return ["nsenter", f"--target={self._holder.pid}", "--net", "--ipc", "--"]

    def table(self, name):
        """The lines of a table of /proc/net as the sandbox sees it."""
        return pathlib.Path(f"/proc/{self._holder.pid}/net/{name}").read_text().splitlines()

    def close(self):
        self._holder.kill()
        self._holder.wait()


@dataclasses.dataclass
class Mount:
    """`source` is a path of this machine, or None for an empty directory of `size_bytes`."""
    target: str
    source: object = None
    size_bytes: int = 0
    read_only: bool = False


@dataclasses.dataclass
class ContainerSpec:
    command: list
    environment: dict
    mounts: list
    user: int
    group: int
    groups: list
    read_only_root: bool
    may_gain_privileges: bool
    keeps_capabilities: bool
    # What stands for the image: the files of an installation, beside /usr of this machine.
    image: pathlib.Path
    hosts_file: pathlib.Path

    def as_user(self):
        """The words before a command that runs as the container's user, with its environment alone."""
        words = ["setpriv", f"--reuid={self.user}", f"--regid={self.group}", f"--groups={','.join(map(str, self.groups))}"]
        if not self.keeps_capabilities:
            words += ["--bounding-set=-all", "--inh-caps=-all"]
        if not self.may_gain_privileges:
            words.append("--no-new-privs")
        pairs = {"PATH": "/opt/baton/bin:/usr/bin:/bin", **self.environment}
        return [*words, "env", "-i", *(f"{name}={value}" for name, value in pairs.items())]

    def script(self):
        """A shell script that builds the container's root and becomes its process."""
        lines = ["set -eu", f"mount -t tmpfs -o mode=755 root {ROOT}", f"cd {ROOT}",
                 "mkdir usr etc proc sys dev opt opt/baton",
                 "for one in bin sbin lib lib64; do ln -s usr/$one $one; done",
                 "cp /etc/ld.so.cache etc/", "echo 'hosts: files' > etc/nsswitch.conf", "touch etc/hosts",
                 "mount -t proc proc proc", "mount -t sysfs sysfs sys"]
        lines += [f"touch dev/{one}; mount --bind /dev/{one} dev/{one}" for one in DEVICES]
        bound = [Mount("/usr", "/usr", read_only=True), Mount("/opt/baton", self.image, read_only=True),
                 Mount("/etc/hosts", self.hosts_file, read_only=True)]
        for mount in bound + self.mounts:
            lines += self._mount(mount)
        if self.read_only_root:
            lines.append(f"mount -o remount,ro {ROOT}")
        lines.append(f"exec chroot {ROOT} {shlex.join([*self.as_user(), *self.command])}")
        return "\n".join(lines)

    def _mount(self, mount):
        target = shlex.quote(str(ROOT / mount.target.lstrip("/")))
        if mount.source is None:
            return [f"mkdir -p {target}",
                    f"mount -t tmpfs -o size={mount.size_bytes},mode=1777 empty {target}"]
        lines = [f"[ -e {target} ] || mkdir -p {target}", f"mount --bind {shlex.quote(str(mount.source))} {target}"]
        return lines + ([f"mount -o remount,bind,ro {target}"] if mount.read_only else [])


class Process:
    """A container's first process."""

    def __init__(self, words, environment=None):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen([*WITH_PARENT, *words], env=environment, stdin=subprocess.DEVNULL,
                                         stdout=self._log, stderr=self._log)
        self.pid = self._process.pid

    def exit_code(self):
        """None while it runs."""
        return self._process.poll()

    def log(self):
        return os.pread(self._log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, timeout_s):
        """The exit code, or None after the time-out."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(max(0, timeout_s))
        return None

    def execute(self, command, timeout_s):
        """Runs a command beside the process, as `kubectl exec` does, and returns its exit code."""
        return subprocess.run(self._beside(command), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                              timeout=timeout_s, check=False).returncode

    def close(self):
        if self.exit_code() is None:
            self.signal(signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        self._log.close()


class Container(Process):
    """Its first process is the command itself, as process 1 of its namespace."""

    def __init__(self, spec, sandbox):
        self._spec = spec
        super().__init__([*sandbox.enter(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--", "bash", "-c",
                          spec.script()])
        wait_until(lambda: self.exit_code() is not None or children_of(self.pid), START_TIMEOUT_S, "a container")
        # What was started waits for the process in the namespace, which is the one to signal.
        self.pid = next(iter(children_of(self.pid)), self.pid)

    def _beside(self, command):
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--ipc", "--pid", "--root", "--wdns=/", "--"]
        return [*enter, *self._spec.as_user(), *command]


class Namespaces:
    """The container runtime."""
    is_isolated = True

    def __init__(self):
        self._network = NodeNetwork()

    def __enter__(self):
        self._network.__enter__()
        return self

    def __exit__(self, *_):
        self._network.__exit__()

    def sandbox(self):
        return Sandbox(self._network)

    def start(self, spec, sandbox):
        return Container(spec, sandbox)


@dataclasses.dataclass
class LoopbackAddress:
    """What stands for a sandbox where there are no namespaces."""
    address: str

    def close(self):
        pass


class PlainProcess(Process):
    def __init__(self, spec, sandbox):
        self._spec, self._sandbox = spec, sandbox
        self._variables = {**spec.environment, "PATH": f"{spec.image}/bin:{os.environ['PATH']}"}
        words = self._translated(spec.command)
        # KV in plain text needs a flag of its own beside TLS.
        has_tls = any(word.startswith("--tls-cert=") for word in words)
        super().__init__(words + (["--transport=tcp"] if "-worker" in words[1] and not has_tls else []), self._variables)

    def _translated(self, command):
        """The command with the addresses and paths that it has outside of a container."""
        spec, sandbox = self._spec, self._sandbox
        names = {name: address for address, *names in map(str.split, spec.hosts_file.read_text().splitlines())
                 for name in names}
        words = []
        for word in command:
            flag, equals, value = word.partition("=")
            host, colon, port = value.partition(":")
            if flag == "--bind":
                value = sandbox.address
            elif colon and host in names:
                value = f"{names[host]}:{port}"
            elif flag == "--target" and host == "127.0.0.1":
                value = f"{sandbox.address}:{port}"
            for mount in spec.mounts:
                if mount.source is not None and value.startswith(f"{mount.target}/"):
                    value = f"{mount.source}{value.removeprefix(mount.target)}"
            # A range of ports that is enough for one pod is not enough for all of them together.
            if flag != "--transfer-ports":
                words.append(f"{flag}{equals}{value}")
        return words

    def _beside(self, command):
        return ["env", *(f"{name}={value}" for name, value in self._variables.items()),
                *self._translated(command)]


class Loopback:
    """What is left where namespaces cannot be made."""
    is_isolated = False

    def __init__(self):
        self._last = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def sandbox(self):
        self._last += 1
        return LoopbackAddress(f"127.0.1.{self._last}")

    def start(self, spec, sandbox):
        return PlainProcess(spec, sandbox)


@contextlib.contextmanager
def runtime():
    """Namespaces where they can be made, else Loopback."""
    with Namespaces() if _can_isolate() else Loopback() as chosen:
        yield chosen


def _can_isolate():
    try:
        with Namespaces() as tried:
            tried.sandbox().close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
