"""Two machines in one: network and IPC namespaces of their own, joined by a cable. Without the right to make namespaces, two
loopback addresses."""

import contextlib
import os
import pathlib
import subprocess

from cluster import Cluster, wait_until

LINK = "cable"
LOOPBACK = ("127.0.0.2", "127.0.0.3")


class Machine:
    """`address` is its own; `environment` is what its commands see besides PATH."""

    def __init__(self, prefix, address, holder=None):
        self.prefix, self.address, self._holder = prefix, address, holder
        self.environment = {}

    @property
    def is_isolated(self):
        return self._holder is not None

    def command(self, line):
        """The words that run a line of shell on this machine, as the process that is started."""
        return [*self.enter(), "bash", "-c", line]

    def enter(self):
        """The words before those of a program that is to run on this machine."""
        return ["nsenter", f"--target={self._holder.pid}", "--net", "--ipc", "--mount", "--"] if self.is_isolated else []

    def variables(self):
        return {**os.environ, "PATH": f"{self.prefix}/bin:{os.environ['PATH']}", **self.environment}

    def run(self, line):
        """Runs a line of shell to its end, which has to be a good one, and returns its stdout."""
        result = subprocess.run(self.command(line), env=self.variables(), capture_output=True, text=True, timeout=60,
                                check=False)
        assert result.returncode == 0, f"{line}: {result.stderr}"
        return result.stdout


class MachineProcess(Cluster):
    """A line of shell that starts a process of Baton and prints `ready`."""

    def __init__(self, machine, line):
        super().__init__()
        # The shell becomes the process, so that signals reach it.
        self.command = machine.command(f"exec env {line}")
        self.env = machine.variables()


def hold_namespaces():
    """A process that has ended, or has namespaces of its own until it is killed."""
    # UCX reads in /sys which network devices there are.
    script = "mount -t sysfs sysfs /sys && exec sleep infinity"
    holder = subprocess.Popen(["unshare", "--net", "--ipc", "--mount", "bash", "-c", script],
                              stderr=subprocess.DEVNULL)
    program = pathlib.Path(f"/proc/{holder.pid}/comm")
    wait_until(lambda: holder.poll() is not None or program.read_text() == "sleep\n", 10, "namespaces")
    return holder


def _connect(machines, holders):
    ends = [f"name {LINK} netns {holder.pid}" for holder in holders]
    subprocess.run(f"ip link add {ends[0]} type veth peer {ends[1]}".split(), check=True, stderr=subprocess.DEVNULL)
    for machine in machines:
        machine.run(f"ip address add {machine.address}/24 dev {LINK} && ip link set {LINK} up && ip link set lo up")
    # UCX does not see a device whose link is not up yet, which the kernel notices a little later.
    for machine in machines:
        wait_until(lambda: machine.run(f"cat /sys/class/net/{LINK}/operstate") == "up\n", 10, "the link")


@contextlib.contextmanager
def two_machines(prefixes, addresses):
    """Machines of these addresses where namespaces can be made, else of LOOPBACK."""
    holders = [hold_namespaces() for _ in prefixes] if os.geteuid() == 0 else []
    try:
        machines = [Machine(*parts) for parts in zip(prefixes, addresses, holders)]
        try:
            if not machines or any(holder.poll() is not None for holder in holders):
                raise OSError("no namespaces")
            _connect(machines, holders)
        except (OSError, subprocess.CalledProcessError):
            machines = [Machine(*parts) for parts in zip(prefixes, LOOPBACK)]
        yield machines
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
