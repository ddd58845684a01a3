"""A network of several machines in one, whose packets are late, lost or cut between pairs, because the machine's
kernel may have no netem. Each machine has namespaces of its own and a TUN device; a process of its own moves their
packets. TCP and UCX see what a bad cable would show them.

    with lossy_network(prefix, 3) as network: ... network.machines[0].address; network.set(delay_ms=50, loss=0.02)

This process reaches all machines too, over a device that is neither slow nor lossy. CannotMakeNetwork where the
rights or the kernel's TUN are not there. Run as a program, it is the process that moves the packets.
"""

import collections
import contextlib
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

NAME = "batontest"
SUBNET = "198.51.100"
# Jumbo frames, so that a hand-over over a link that loses packets takes seconds and not minutes.
MTU_BYTES = 9000
MAX_PACKET_BYTES = 1 << 16
TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001
IP_VERSION = 4
IP_DESTINATION = slice(16, 20)
# What the links hold at most; a packet beyond is lost, as in a full queue.
MAX_HELD_PACKETS = 20_000
# Of packets that are read from one device before others and the clock have their turn.
MAX_BURST = 64


class CannotMakeNetwork(Exception):
    pass


def address_of(number):
    return f"{SUBNET}.{number + 1}"


def _open_tun(number):
    """The descriptor and the name of a new device of this process's network namespace."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"{NAME}{number}"
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22s", name.encode(), IFF_TUN_NO_PI, b""))
    return descriptor, name


class LossyNetwork:
    """`machines` as of `machines.Machine`."""

    def __init__(self, machines, mover):
        self.machines = machines
        self._mover = mover
        self._settings = {"delay_ms": 0, "jitter_ms": 0, "loss": 0, "cut": []}

    def set(self, **settings):
        """From now on: `delay_ms` +- `jitter_ms` and the share `loss` between machines; `cut` is (from, to) by number.
        Returns how many packets have been lost until now."""
        self._settings |= settings
        self._mover.stdin.write(json.dumps(self._settings).encode() + b"\n")
        self._mover.stdin.flush()
        return int(self._mover.stdout.readline())

    def heal(self):
        return self.set(delay_ms=0, jitter_ms=0, loss=0, cut=[])


@contextlib.contextmanager
def lossy_network(prefix, count, seed):
    from machines import Machine, hold_namespaces

    def run(*words):
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CannotMakeNetwork(f"{' '.join(words)}: {result.stderr.strip()}")

    with contextlib.ExitStack() as stack:
        if os.geteuid() != 0:
            raise CannotMakeNetwork("only root makes namespaces")
        try:
            devices = [_open_tun(number) for number in range(count + 1)]
        except OSError as error:
            raise CannotMakeNetwork(f"/dev/net/tun: {error}") from None
        for descriptor, _ in devices:
            stack.callback(os.close, descriptor)
        holders = []
        for _ in range(count):
            holder = hold_namespaces()
            stack.callback(holder.wait)
            stack.callback(holder.kill)
            if holder.poll() is not None:
                raise CannotMakeNetwork("no namespaces")
            holders.append(holder)
        machines = [Machine(prefix, address_of(number), holder) for number, holder in enumerate(holders)]
        for number, (_, name) in enumerate(devices):
            inside = []
            if number < count:
                run("ip", "link", "set", name, "netns", str(holders[number].pid))
                inside = machines[number].enter()
            run(*inside, "ip", "address", "add", f"{address_of(number)}/24", "dev", name)
            run(*inside, "ip", "link", "set", name, "mtu", str(MTU_BYTES), "up")
            if inside:
                run(*inside, "ip", "link", "set", "lo", "up")
        descriptors = [descriptor for descriptor, _ in devices]
        mover = subprocess.Popen([sys.executable, __file__, str(seed), *map(str, descriptors)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, pass_fds=descriptors)
        stack.callback(mover.wait)
        stack.callback(mover.kill)
        yield LossyNetwork(machines, mover)


class _Mover:
    def __init__(self, seed, descriptors):
        self._rng = random.Random(seed)
        self._descriptors = descriptors
        # The last one is not a machine of the network, but the process that tests it.
        self._outside = len(descriptors) - 1
        self._by_address = {socket.inet_aton(address_of(number)): number for number in range(len(descriptors))}
        self._settings = collections.defaultdict(int, cut=set())
        self._held = []
        self._count = 0
        self.lost = 0

    def configure(self, line):
        settings = json.loads(line)
        self._settings = {**settings, "cut": {tuple(pair) for pair in settings["cut"]}}

    def _due_s(self, source, sink):
        """When a packet arrives; None: never."""
        if (source, sink) in self._settings["cut"]:
            return None
        if self._outside in (source, sink):
            return time.monotonic()
        if self._rng.random() < self._settings["loss"]:
            return None
        jitter_ms = self._settings["jitter_ms"]
        return time.monotonic() + max(0, self._settings["delay_ms"] + self._rng.uniform(-jitter_ms, jitter_ms)) / 1e3

    def read(self, descriptor):
        source = self._descriptors.index(descriptor)
        for _ in range(MAX_BURST):
            try:
                packet = os.read(descriptor, MAX_PACKET_BYTES)
            except OSError:
                # There is none, or the device's machine is gone.
                return
            if packet[0] >> 4 != IP_VERSION:
                continue
            sink = self._by_address.get(packet[IP_DESTINATION])
            due_s = None if sink is None or len(self._held) >= MAX_HELD_PACKETS else self._due_s(source, sink)
            self.lost += due_s is None
            if due_s is not None:
                self._count += 1
                heapq.heappush(self._held, (due_s, self._count, sink, packet))

    def send_due(self):
        """Seconds until the next packet is due, or None."""
        while self._held and self._held[0][0] <= time.monotonic():
            _, _, sink, packet = heapq.heappop(self._held)
            # A device that is gone or full loses the packet.
            with contextlib.suppress(OSError):
                os.write(self._descriptors[sink], packet)
        return max(0.0, self._held[0][0] - time.monotonic()) if self._held else None


def _move(seed, descriptors):
    mover = _Mover(seed, descriptors)
    poll = select.epoll()
    for descriptor in [*descriptors, sys.stdin.fileno()]:
        poll.register(descriptor, select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll(mover.send_due()):
            if descriptor != sys.stdin.fileno():
                mover.read(descriptor)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            mover.configure(line)
            print(mover.lost, flush=True)


if __name__ == "__main__":
    _move(int(sys.argv[1]), [int(word) for word in sys.argv[2:]])
