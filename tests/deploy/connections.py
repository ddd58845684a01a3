"""Which TCP connections there are, by the tables of /proc/net."""

import ipaddress
import struct
import threading

ESTABLISHED, LISTENING = "01", "0A"
MAPPED = "0000000000000000FFFF0000"
PERIOD_S = 0.1


def _endpoint(text):
    """(address, port) of an entry; IPv4 in IPv6 is IPv4."""
    address, _, port = text.rpartition(":")
    address = address.removeprefix(MAPPED)
    if len(address) == 8:
        address = str(ipaddress.IPv4Address(struct.pack("<I", int(address, 16))))
    return address, int(port, 16)


def entries(lines, state):
    """(local, remote) of the entries of a table that are in a state."""
    fields = [line.split() for line in lines]
    return [(_endpoint(one[1]), _endpoint(one[2])) for one in fields if one[3] == state]


def listening_ports(pod):
    return {port for table in ("tcp", "tcp6") for (_, port), _ in entries(pod.table(table), LISTENING)}


class Watch(threading.Thread):
    """Notes all connections of the pods of a kubelet, as (address of the client, address of the server, port), until
    stop()."""

    def __init__(self, kubelet):
        super().__init__(daemon=True)
        self._kubelet, self._stopping = kubelet, threading.Event()
        self.seen = set()
        # Labels by address, also of pods that are gone.
        self.labels = {}

    def run(self):
        while not self._stopping.wait(PERIOD_S):
            for pod in list(self._kubelet.pods):
                self.labels[pod.address] = pod.pod.labels
                try:
                    self._look_at(pod)
                except (FileNotFoundError, ProcessLookupError):
                    # It has just ended.
                    continue

    def _look_at(self, pod):
        listening = listening_ports(pod)
        for table in ("tcp", "tcp6"):
            for (here, port), (there, _) in entries(pod.table(table), ESTABLISHED):
                if port in listening and here != there:
                    self.seen.add((there, here, port))

    def stop(self):
        self._stopping.set()
        self.join()
