"""Which addresses a running cluster listens on."""

import contextlib
import ipaddress
import os
import pathlib
import struct

import pytest

from client import Client
from cluster import BINARY, Cluster, RoleProcess, await_workers, children_of

LISTENING = "0A"
LOOPBACK, OTHER_LOOPBACK = "127.0.0.1", "127.0.0.2"
PROMPT = "The capital of France is"
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


def listening_processes(cluster, workers):
    """{pid: addresses} of the workers and of the others."""
    workers = set(workers)
    assert len(workers) == 2
    all_of = {pid: listening_addresses(pid) for pid in {cluster.pid, *children_of(cluster.pid)} | workers}
    return ({pid: addresses for pid, addresses in all_of.items() if pid in workers},
            {pid: addresses for pid, addresses in all_of.items() if pid not in workers})


# The ports of a worker are gRPC's and the admin port, and UCX's for reading and for serving or another transport's own.
@pytest.mark.parametrize("transport, bind, ports", [
    ("auto", LOOPBACK, 4), ("tcp", LOOPBACK, 4), ("tcp", OTHER_LOOPBACK, 4), ("grpc", LOOPBACK, 3),
    pytest.param("nccl", LOOPBACK, 3, marks=pytest.mark.skipif(
        not NCCL.exists(), reason="this build has no stand-in of NCCL"))])
def test_serve_listens_on_the_bound_address_alone(transport, bind, ports):
    """Only the router is bound to it. The workers stay on loopback, where nobody but their own router reaches them."""
    env = {"BATON_NCCL_LIBRARY": str(NCCL)} if transport == "nccl" else {}
    with Cluster("--threads", 1, "--transport", transport, "--bind", bind, env=env) as cluster, \
            Client(cluster.target) as client:
        # Sockets that are opened for the first hand-off count as well.
        client.generate(PROMPT, {"max_tokens": 2})
        workers, others = listening_processes(cluster, [worker["pid"] for worker in cluster.workers()])
    assert all(len(addresses) >= ports and set(addresses) == {LOOPBACK} for addresses in workers.values()), workers
    assert {address for addresses in others.values() for address in addresses} == {bind}, others


# UCX takes any loopback address for the first one of the loopback interface (kvtransfer/transports/ucx/tcp_device.h).
@pytest.mark.parametrize("transport, expected", [
    ("auto", [LOOPBACK] * 2 + [OTHER_LOOPBACK] * 2), ("tcp", [LOOPBACK] * 2 + [OTHER_LOOPBACK] * 2),
    ("grpc", [OTHER_LOOPBACK] * 3)])
def test_each_role_listens_on_the_address_that_it_is_bound_to(transport, expected):
    bind = ("--bind", OTHER_LOOPBACK, "--grpc-port", 0, "--admin-port", 0)
    with RoleProcess("router", *bind) as router, contextlib.ExitStack() as stack:
        pids = [stack.enter_context(RoleProcess(f"{role}-worker", *bind, "--router", router.cluster_target, "--transport",
                                                transport, "--threads", 1)).pid for role in ("prefill", "decode")]
        await_workers(router, len(pids))
        with Client(router.target) as client:
            client.generate(PROMPT, {"max_tokens": 2})
        workers, others = listening_processes(router, pids)
    assert all(sorted(addresses) == expected for addresses in workers.values()), workers
    assert {address for addresses in others.values() for address in addresses} == {OTHER_LOOPBACK}, others
