"""Which addresses a running cluster listens on."""

import ipaddress
import os
import pathlib
import struct

from cluster import Cluster, children_of

LISTENING = "0A"


def sockets_of(pid):
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(fd))
        except FileNotFoundError:
            continue
    return {link for link in links if link.startswith("socket:")}


def address_of(kernel_hex):
    """The kernel writes an address as words in the machine's own order. gRPC maps IPv4 ones into IPv6."""
    words = [int(kernel_hex[i:i + 8], 16) for i in range(0, len(kernel_hex), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    return str(getattr(address, "ipv4_mapped", None) or address)


def listening_addresses(pid):
    own = sockets_of(pid)
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in own:
                found.append(address_of(fields[1].partition(":")[0]))
    return found


def test_every_process_listens_on_the_bound_address_alone():
    for transport in ("auto", "tcp"):
        with Cluster("--threads", 1, "--transport", transport) as cluster:
            listening = {pid: listening_addresses(pid) for pid in [cluster.pid, *children_of(cluster.pid)]}
            workers = [worker["pid"] for worker in cluster.workers()]
            assert len(workers) == 2
            # gRPC, and UCX once for reading and once for serving.
            assert all(len(listening[pid]) >= 3 for pid in workers), listening
            assert {address for addresses in listening.values() for address in addresses} == {"127.0.0.1"}
