"""Which addresses a running cluster listens on."""

import ipaddress
import os
import pathlib
import struct

import pytest

from client import Client
from cluster import BINARY, Cluster, children_of

LISTENING = "0A"
NCCL = pathlib.Path(BINARY).resolve().parents[1] / "tests" / "libbaton_nccl_stand_in.so"


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


@pytest.mark.parametrize("transport, bind, sockets", [
    ("auto", "127.0.0.1", 3), ("tcp", "127.0.0.1", 3), ("tcp", "127.0.0.2", 3), ("grpc", "127.0.0.2", 2),
    pytest.param("nccl", "127.0.0.1", 2, marks=pytest.mark.skipif(
        not NCCL.exists(), reason="this build has no stand-in of NCCL"))])
def test_every_process_listens_on_the_bound_address_alone(transport, bind, sockets):
    """A worker has at least so many `sockets`: gRPC's, and UCX's for reading and for serving, or the other transport's own."""
    env = {"BATON_NCCL_LIBRARY": str(NCCL)} if transport == "nccl" else {}
    with Cluster("--threads", 1, "--transport", transport, "--bind", bind, env=env) as cluster, \
            Client(cluster.target) as client:
        # Sockets that are opened for the first hand-off count as well.
        client.generate("The capital of France is", {"max_tokens": 2})
        listening = {pid: listening_addresses(pid) for pid in [cluster.pid, *children_of(cluster.pid)]}
        workers = [worker["pid"] for worker in cluster.workers()]
        assert len(workers) == 2
        assert all(len(listening[pid]) >= sockets for pid in workers), listening
        assert {address for addresses in listening.values() for address in addresses} == {bind}
