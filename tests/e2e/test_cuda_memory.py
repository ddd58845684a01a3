"""--gpu-memory-utilization on an emulated CUDA device (test_cuda_emulated.py), whose memory BATON_PTX_MEMORY_MIB sets: a worker
sizes its KV pool by what weights, scratch and driver leave, and workers of one `serve` divide the device."""

import pathlib
import re

import pytest

from client import Client
from cluster import BINARY, Cluster, run_baton
from tiny_model import write_tiny_model

LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"
DEVICE_MIB = 96
# Of the tiny model: two layers of K and V of one head, 16 tokens of 32 values of two bytes.
BLOCK_BYTES = 2 * 2 * 1 * 16 * 32 * 2
MIXED = ("--prefill", 0, "--decode", 0, "--mixed", 1)
FLAG = "--gpu-memory-utilization"
DECIDED = re.compile(rf"a KV pool of [\d.]+ MiB, (\d+) blocks, by {FLAG} ([\d.]+): of the ([\d.]+) MiB of cuda:0"
                     r"(?:, divided among (\d+) workers,)? it gives this worker ([\d.]+) MiB, of which weights, scratch and driver "
                     r"take ([\d.]+) MiB")

if not (LIBRARIES / "baton/libbaton_cuda.so").exists() or not (DRIVER / "libcuda.so.1").exists():
    pytest.skip("this build has no CUDA plug-in or no emulated driver", allow_module_level=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def environment(memory_mib=DEVICE_MIB, **more):
    return {"LD_LIBRARY_PATH": str(DRIVER), "BATON_PTX_CHECKS": "0", "BATON_PTX_MEMORY_MIB": str(memory_mib), **more}


def cuda_cluster(model, *args, device="cuda", env=None):
    return Cluster("--model", model, "--device", device, "--threads", 1, "--chunk-tokens", 32, "--max-seqs", 8, *args,
                   env=env or environment())


def worker(model, *args, env=None):
    """A worker that ends before it looks for its router."""
    return run_baton("mixed-worker", "--router", "127.0.0.1:9", "--model", model, *args, env=env or environment())


def blocks_of(cluster):
    return [one["total_blocks"] for one in cluster.workers()]


def check_decision(line, share, sharing):
    """What the worker says is what it did: its share, less what it holds, in whole blocks."""
    blocks, said_share, total, divided, given, taken = line
    assert float(said_share) == share and float(total) == DEVICE_MIB and divided == (str(sharing) if sharing > 1 else ""), line
    assert abs(float(given) - share * DEVICE_MIB / sharing) < 0.1 and float(taken) > 0, line
    assert abs(int(blocks) * BLOCK_BYTES / 2**20 - (float(given) - float(taken))) < 0.2, line


def test_a_worker_fills_its_share_of_the_device_and_says_so_once(model):
    with cuda_cluster(model, *MIXED) as cluster, Client(cluster.target) as client:
        assert len(client.generate([5, 6, 7], {"max_tokens": 4, "ignore_eos": True}).token_ids) == 4
        lines = DECIDED.findall(cluster.log())
        assert len(lines) == 1, cluster.log()
        check_decision(lines[0], 0.9, 1)
        assert blocks_of(cluster) == [int(lines[0][0])]


def test_workers_of_one_serve_never_take_more_than_the_share_together(model):
    env = environment(BATON_ARG_GPU_MEMORY_UTILIZATION="0.5")
    with cuda_cluster(model, "--prefill", 1, "--decode", 1, device="auto", env=env) as cluster:
        lines = DECIDED.findall(cluster.log())
        assert len(lines) == 2, cluster.log()
        for line in lines:
            check_decision(line, 0.5, 2)
        assert sorted(blocks_of(cluster)) == sorted(int(line[0]) for line in lines)
        held = sum(int(line[0]) * BLOCK_BYTES / 2**20 + float(line[5]) for line in lines)
        assert held <= 0.5 * DEVICE_MIB + 0.2


def test_a_size_that_is_given_decides(model):
    with cuda_cluster(model, *MIXED, "--kv-memory", "1MiB") as cluster:
        assert blocks_of(cluster) == [2**20 // BLOCK_BYTES]
        assert not DECIDED.search(cluster.log()), cluster.log()


def test_a_share_that_holds_no_sequence_is_an_error_that_says_what_to_do(model):
    result = worker(model, "--device", "cuda", FLAG, "0.001")
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and f"{FLAG} 0.001: of the {DEVICE_MIB}.0 MiB of cuda:0" in last, result.stderr
    assert "give a larger share, a smaller model, fewer --chunk-tokens, or fewer workers on the device" in last


def test_a_device_without_room_for_the_pool_is_an_error_that_names_the_flags(model):
    result = worker(model, "--device", "cuda", "--kv-memory", f"{DEVICE_MIB}MiB")
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and "CUDA_ERROR_OUT_OF_MEMORY" in last, result.stderr
    assert f"ask for less (--kv-memory, {FLAG})" in last, result.stderr


@pytest.mark.parametrize("where", ["flags", "file", "environment"])
def test_a_share_and_a_size_exclude_each_other(model, where, tmp_path):
    config = tmp_path / "baton.yaml"
    config.write_text("gpu-memory-utilization: 0.5\nkv-memory: 4MiB\n")
    args, env = {"flags": ((FLAG, "0.5", "--kv-memory", "4MiB"), {}),
                 "file": (("--config", config), {}),
                 "environment": ((FLAG, "0.5"), {"BATON_ARG_KV_MEMORY": "4MiB"})}[where]
    for command in (("serve", "--grpc-port", 0), ("mixed-worker",)):
        result = run_baton(*command, "--model", model, *args, env=environment(**env))
        assert result.returncode == 2 and FLAG in result.stderr and "--kv-memory" in result.stderr, result.stderr
