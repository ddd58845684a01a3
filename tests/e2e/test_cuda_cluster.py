"""Clusters whose workers compute on an emulated CUDA device (test_cuda_emulated.py): KV goes from device to device through the
host, over every transport, and whatever befalls a worker, each stream has the tokens of a worker that hands nothing over."""

import os
import pathlib
import random
import signal

import pytest

from client import Background, Client
from cluster import BINARY, Cluster, wait_until
from streams import await_no_block_held
from tiny_model import write_tiny_model

LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"
# Without the interpreter's checks, which test_cuda_emulated.py has.
EMULATED = {"LD_LIBRARY_PATH": str(DRIVER), "BATON_PTX_CHECKS": "0"}
FOUND = "emulated CUDA device: "
WORKER = ("--threads", 1, "--kv-memory", "4MiB", "--admin-port", 0)
PAIR = ("--prefill", 1, "--decode", 2, *WORKER, "--local-prefill-tokens", 0)
WORKERS = 3
SEED = 20261127
VOCABULARY = 256
# Below, at and beyond the end of a block, and in several chunks.
PROMPT_LENGTHS = (3, 16, 17, 40, 90)
CHUNK_TOKENS = 32
SAMPLED = {"temperature": 1.0, "seed": 7}
SHORT = {"max_tokens": 8, "ignore_eos": True}
LONG = {"max_tokens": 120, "ignore_eos": True}
RETURN_TIMEOUT_S = 60

if not (LIBRARIES / "baton/libbaton_cuda.so").exists() or not (DRIVER / "libcuda.so.1").exists():
    pytest.skip("this build has no CUDA plug-in or no emulated driver", allow_module_level=True)


def draw_requests():
    rng = random.Random(SEED)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(length)] for length in PROMPT_LENGTHS]
    return [(prompt, {**SHORT, **how}) for prompt in prompts for how in ({}, SAMPLED)]


REQUESTS = draw_requests()
LONG_REQUESTS = [(prompt, {**LONG, **SAMPLED}) for prompt, _ in REQUESTS[::2]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    print(f"seed {SEED}")
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def cuda_cluster(model, *args):
    return Cluster("--model", model, "--device", "cuda", "--chunk-tokens", CHUNK_TOKENS, *args, env=EMULATED)


@pytest.fixture(scope="module")
def expected(model):
    """Request -> its tokens by one worker, which hands nothing over."""
    with cuda_cluster(model, "--mixed", 1, *WORKER) as cluster, Client(cluster.target) as client:
        tokens = {repr(request): client.generate(*request).token_ids for request in REQUESTS + LONG_REQUESTS}
        assert "cuda-bf16-v1/" in cluster.log() and FOUND not in cluster.log(), cluster.log()
    assert len({tuple(one) for one in tokens.values()}) > len(tokens) / 2, "the tiny model says the same to everybody"
    return tokens


@pytest.mark.parametrize("transport", ["shm", "tcp", "grpc"])
def test_kv_of_a_device_is_handed_over_to_a_device(model, expected, transport):
    with cuda_cluster(model, *PAIR, "--transport", transport) as cluster, Client(cluster.target) as client:
        streams = [Background(client, *request, tenant=str(number)) for number, request in enumerate(REQUESTS)]
        for request, stream in zip(REQUESTS, streams):
            assert stream.result().token_ids == expected[repr(request)], request
        assert cluster.decoders_count("baton_transfers_total", transport=transport) == len(REQUESTS)
        assert cluster.decoders_count("baton_transfer_damaged_blocks_total") == 0
        await_no_block_held(cluster.target, WORKERS)
        assert FOUND not in cluster.log(), cluster.log()


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_streams_outlive_a_killed_worker_with_exactly_the_same_tokens(model, expected, role):
    with cuda_cluster(model, *PAIR) as cluster, Client(cluster.target) as client:
        streams = [Background(client, *request) for request in LONG_REQUESTS]
        for stream in streams:
            stream.wait_running()
        pid = next(worker["pid"] for worker in cluster.workers() if worker["role"] == role)
        os.kill(pid, signal.SIGKILL)
        for request, stream in zip(LONG_REQUESTS, streams):
            assert stream.result().token_ids == expected[repr(request)], request
        wait_until(lambda: sum(worker["state"] == "serving" for worker in cluster.workers()) == WORKERS, RETURN_TIMEOUT_S,
                   "all workers")
        await_no_block_held(cluster.target, WORKERS)


def test_a_drained_worker_hands_its_running_streams_over_with_the_same_tokens(model, expected):
    with cuda_cluster(model, *PAIR) as cluster, Client(cluster.target) as client:
        streams = [Background(client, *request) for request in LONG_REQUESTS]
        for stream in streams:
            stream.wait_running()
        pid = next(worker["pid"] for worker in cluster.workers() if worker["role"] == "decode")
        os.kill(pid, signal.SIGTERM)
        for request, stream in zip(LONG_REQUESTS, streams):
            assert stream.result().token_ids == expected[repr(request)], request
