"""A container engine for tests: Debian's Podman, as root, without a daemon and without systemd.

Everything that it makes, containers, images, networks and mounts, lies in a folder and in namespaces of its own, and
goes with them. Only the Debian that images are based on is kept, in BATON_CACHE_DIR: it takes half a minute to make.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

from cluster import wait_until

CACHE_DIR = pathlib.Path(os.environ.get("BATON_CACHE_DIR") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "baton")
BASE = "localhost/debian:12-slim"
# Like the published image: without documentation, and without perl, which the merging of /usr would need.
MMDEBSTRAP = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=usr-is-merged",
              "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--dpkgopt=path-exclude=/usr/share/doc/*",
              "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--dpkgopt=path-exclude=/usr/share/man/*",
              "--dpkgopt=path-exclude=/usr/share/info/*", "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm"]
# The Debian of a machine.
MACHINE = "localhost/machine:12"
MACHINE_DOCKERFILE = f"""\
FROM {BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd \\
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
"""
PROGRAMS = ("podman", "crun", "mmdebstrap", "nsenter", "unshare", "ip")

CONTAINERS_CONF = """\
[containers]
# There are no cgroups that could be delegated to it, and no right to raise limits.
cgroups = "disabled"
default_ulimits = ["nofile={nofile}:{nofile}", "nproc=32768:32768"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
MAX_DESCRIPTORS = 1 << 16
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{graph}"
runroot = "{folder}/run"
[storage.options]
additionalimagestores = [{stores}]
"""


def reason_for_none():
    """Why this machine cannot run containers; empty where it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if os.geteuid() != 0:
        return "only root can make the namespaces"
    if missing:
        return f"there is no {', '.join(missing)}"
    made = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "this user cannot make namespaces"


class Namespaces:
    """A mount namespace and a network of its own, which has nothing but a loopback."""

    # Podman's runtime wants cgroups of one version.
    SCRIPT = "umount /sys/fs/cgroup/unified 2>/dev/null; ip link set lo up && exec sleep infinity"

    def __enter__(self):
        self._holder = subprocess.Popen(["unshare", "--mount", "--net", "bash", "-c", self.SCRIPT])
        comm = pathlib.Path(f"/proc/{self._holder.pid}/comm")
        wait_until(lambda: comm.read_text() == "sleep\n", 10, "namespaces")
        return self

    def __exit__(self, *unused):
        self._holder.kill()
        self._holder.wait()

    def enter(self, *kinds):
        return ["nsenter", f"--target={self._holder.pid}", *(f"--{kind}" for kind in kinds), "--"]


class Engine:
    """Podman with images and containers below a folder. `stores` are folders of images that it only reads."""

    def __init__(self, namespaces, folder, graph=None, stores=()):
        self.folder = pathlib.Path(folder)
        self.machine_tree = None
        self._namespaces = namespaces
        self.folder.mkdir(parents=True, exist_ok=True)
        stores = ", ".join(f'"{store}"' for store in stores)
        texts = {"containers.conf": CONTAINERS_CONF.format(folder=self.folder,
                                                           nofile=min(os.sysconf("SC_OPEN_MAX"), MAX_DESCRIPTORS)),
                 "storage.conf": STORAGE_CONF.format(folder=self.folder, graph=graph or self.folder / "graph",
                                                     stores=stores)}
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        # The caches that a Dockerfile mounts lie in TMPDIR.
        (self.folder / "temporary").mkdir(exist_ok=True)
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "temporary"),
                            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
                            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf")}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.podman("rm", "--all", "--force", "--time", "0", check=False)
        self.podman("network", "prune", "--force", check=False)
        self._end_monitors()

    def _end_monitors(self):
        """Podman's monitor of a command that its socket ran in a container would stay for 5 minutes, and then make the
        folder anew."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, ProcessLookupError):
                if (entry / "comm").read_text() == "conmon\n" and str(self.folder) in (entry / "cmdline").read_text():
                    os.kill(int(entry.name), signal.SIGKILL)

    def enter(self, *command):
        """The words that run a command where containers and their published ports are."""
        return [*self._namespaces.enter("mount", "net"), *map(str, command)]

    def enter_mounts(self, *command):
        """The same, with the network of this machine."""
        return [*self._namespaces.enter("mount"), *map(str, command)]

    def podman(self, *words, check=True):
        """Runs Podman to its end."""
        return self._run(self.enter("podman", *words), check, timeout_s=300)

    def _run(self, command, check, timeout_s):
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout_s,
                                check=False)
        assert not check or result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        return result

    def inspect(self, kind, name):
        return json.loads(self.podman(kind, "inspect", name).stdout)[0]

    def build(self, context, dockerfile, tag, *words, target=None, **arguments):
        """Builds an image, with the network of this machine."""
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        options += ["--target", target] if target else []
        # The format is BuildKit's, which has a health check, unlike OCI's.
        command = ["podman", "build", "--isolation=chroot", "--format=docker", "--pull=never", "--file", dockerfile,
                   "--tag", tag, *options, *words, context]
        self._run(self.enter_mounts(*command), check=True, timeout_s=3_600)

    def pin_bridges(self):
        """Keeps each bridge the address that it has. Otherwise it takes another one when a container comes or goes, and
        for about 8 s the containers send what they ask the name server to the old one. Docker pins its own."""
        links = self._run(self.enter("ip", "-json", "link", "show", "type", "bridge"), check=True, timeout_s=20)
        for link in json.loads(links.stdout):
            command = self.enter("ip", "link", "set", link["ifname"], "address", link["address"])
            self._run(command, check=True, timeout_s=20)

    def image_bytes(self, name):
        return self.inspect("image", name)["Size"]

    def container(self, name):
        return Container(self, name)


class Container:
    """One that was started, by its name."""

    def __init__(self, engine, name):
        self._engine, self.name = engine, name

    @property
    def state(self):
        return self._engine.inspect("container", self.name)["State"]

    @property
    def pid(self):
        """Of its first process, as this machine counts."""
        return self.state["Pid"]

    def log(self):
        result = self._engine.podman("logs", self.name)
        return result.stdout + result.stderr

    def execute(self, *words, check=True):
        return self._engine.podman("exec", self.name, *words, check=check)

    def is_healthy(self):
        """Runs its health check, for which the engine has no timer here."""
        return self._engine.podman("healthcheck", "run", self.name, check=False).returncode == 0

    def await_healthy(self, timeout_s=60):
        wait_until(lambda: self.is_healthy() or not self.state["Running"], timeout_s, f"{self.name} is healthy")
        assert self.state["Running"], self.log()

    def stop(self):
        """SIGTERM; returns the exit code."""
        self._engine.podman("stop", "--time", 40, self.name)
        return self.state["ExitCode"]


def _make_base(engine, folder, target):
    archive = folder / "base.tar"
    subprocess.run([*MMDEBSTRAP, archive], check=True, capture_output=True)
    engine.podman("import", archive, BASE)
    archive.unlink()
    (folder / "Dockerfile").write_text(MACHINE_DOCKERFILE)
    engine.build(folder, folder / "Dockerfile", MACHINE)
    tree = engine.podman("image", "mount", MACHINE).stdout.strip()
    subprocess.run(engine.enter_mounts("cp", "--archive", tree, target), check=True)


def _bases(namespaces, folder):
    """The folder in the cache that has an image store with BASE, `images`, and the tree of a machine, `machine`."""
    recipe = hashlib.sha256(repr([MMDEBSTRAP, MACHINE_DOCKERFILE]).encode()).hexdigest()[:12]
    kept = CACHE_DIR / f"debian-12-{recipe}"
    kept.mkdir(parents=True, exist_ok=True)
    with open(kept / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "complete").exists():
            shutil.rmtree(kept / "machine", ignore_errors=True)
            with Engine(namespaces, folder, graph=kept / "images") as engine:
                _make_base(engine, folder, kept / "machine")
            (kept / "complete").touch()
    return kept


@contextlib.contextmanager
def container_engine(folder):
    """An Engine that has BASE, and the tree of a fresh machine as `machine_tree`."""
    try:
        with Namespaces() as namespaces:
            kept = _bases(namespaces, folder / "base")
            with Engine(namespaces, folder / "engine", stores=[kept / "images"]) as engine:
                engine.machine_tree = kept / "machine"
                yield engine
    finally:
        # Hundreds of megabytes, of which pytest would keep those of the last runs.
        shutil.rmtree(folder)
