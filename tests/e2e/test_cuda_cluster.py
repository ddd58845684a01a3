"""Clusters whose workers compute on an emulated CUDA device (test_cuda_emulated.py): KV goes from device to device by CUDA IPC
or by a stand-in of NCCL (tests/nccl), or through the host over every other transport, and whatever befalls a worker, each
stream has the tokens of a worker that hands nothing over."""

import os
import pathlib
import random
import signal

import pytest

from client import Background, Client
from cluster import ALL_LOG_BYTES, BINARY, Cluster, await_workers, stopped, wait_until
from streams import await_no_block_held
from test_transfer_faults import PLANTED
from tiny_model import write_tiny_model

LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"
STAND_IN = pathlib.Path(BINARY).resolve().parents[1] / "tests" / "libbaton_nccl_stand_in.so"
# Without the interpreter's checks, which test_cuda_emulated.py has.
EMULATED = {"LD_LIBRARY_PATH": str(DRIVER), "BATON_PTX_CHECKS": "0", "BATON_NCCL_LIBRARY": str(STAND_IN)}
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
# A worker that is silent for 1.5 s is lost.
STOPPED_S = (0.05, 1.0)
STOPS_OF_EACH = 2

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


def cuda_cluster(model, *args, **env):
    return Cluster("--model", model, "--device", "cuda", "--chunk-tokens", CHUNK_TOKENS, *args, env={**EMULATED, **env})


def expect_answers(cluster, client, expected):
    streams = [Background(client, *request, tenant=str(number)) for number, request in enumerate(REQUESTS)]
    for request, stream in zip(REQUESTS, streams):
        assert stream.result().token_ids == expected[repr(request)], request
    await_no_block_held(cluster.target, WORKERS)
    assert FOUND not in cluster.log(), cluster.log()


@pytest.fixture(scope="module")
def expected(model):
    """Request -> its tokens by one worker, which hands nothing over."""
    with cuda_cluster(model, "--mixed", 1, *WORKER) as cluster, Client(cluster.target) as client:
        tokens = {repr(request): client.generate(*request).token_ids for request in REQUESTS + LONG_REQUESTS}
        assert "cuda-sm80-bf16-v1/" in cluster.log() and FOUND not in cluster.log(), cluster.log()
    assert len({tuple(one) for one in tokens.values()}) > len(tokens) / 2, "the tiny model says the same to everybody"
    return tokens


# Between devices, and not through the host.
DIRECT = pytest.mark.parametrize("transport, path", [("auto", "cuda_ipc"), ("nccl", "nccl")])


@pytest.mark.parametrize("transport, path", [("auto", "cuda_ipc"), ("shm", "cuda_ipc"), ("tcp", "tcp"), ("grpc", "grpc"),
                                             ("nccl", "nccl")])
def test_kv_of_a_device_is_handed_over_to_a_device(model, expected, transport, path):
    with cuda_cluster(model, *PAIR, "--transport", transport) as cluster, Client(cluster.target) as client:
        expect_answers(cluster, client, expected)
        assert cluster.decoders_count("baton_transfers_total", transport=path) == len(REQUESTS)
        assert cluster.decoders_count("baton_transfer_damaged_blocks_total") == 0
        early = cluster.decoders_count("baton_transfer_early_bytes_total", transport=path)
        print(f"{path}: {early} of {cluster.decoders_count('baton_transfer_bytes_total')} bytes read within their steps")
        assert early > 0
        assert ("by CUDA IPC" in cluster.log()) == (path == "cuda_ipc"), cluster.log()


def test_kv_is_read_after_its_step_where_the_source_is_told_so(model, expected):
    with cuda_cluster(model, *PAIR, BATON_CUDA_LAYER_EVENTS="0") as cluster, Client(cluster.target) as client:
        expect_answers(cluster, client, expected)
        assert cluster.decoders_count("baton_transfers_total") == len(REQUESTS)
        assert cluster.decoders_count("baton_transfer_early_bytes_total") == 0


def test_kv_goes_through_the_host_where_the_driver_shares_no_memory_and_the_log_says_so(model, expected):
    with cuda_cluster(model, *PAIR, BATON_PTX_IPC="0") as cluster, Client(cluster.target) as client:
        expect_answers(cluster, client, expected)
        assert cluster.decoders_count("baton_transfers_total", transport="tcp") == len(REQUESTS)
        assert "KV goes through the host: other processes cannot read the memory of this device" in cluster.log()
        assert "cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED" in cluster.log(), cluster.log()


@DIRECT
@pytest.mark.parametrize("fault", ["flip:3", "stale:3"])
def test_every_block_that_is_damaged_on_the_way_to_a_device_is_found_and_read_again(model, expected, fault, transport, path):
    with cuda_cluster(model, *PAIR, "--transport", transport, BATON_TEST_TRANSFER_FAULTS=fault) as cluster, \
            Client(cluster.target) as client:
        expect_answers(cluster, client, expected)
        planted = cluster.log(ALL_LOG_BYTES).count(PLANTED)
        damaged = cluster.decoders_count("baton_transfer_damaged_blocks_total", transport=path)
        print(f"{path}, {fault}: {planted} faults planted, {damaged} damaged blocks")
        assert planted > 0 and cluster.decoders_count("baton_transfer_failures_total") == 0
        # A block that is read in two parts can have a flipped bit in each. Old bytes are all blocks of a read.
        assert damaged >= planted // 2 and (damaged <= planted or fault.startswith("stale"))


@DIRECT
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_streams_outlive_a_killed_worker_with_exactly_the_same_tokens(model, expected, role, transport, path):
    with cuda_cluster(model, *PAIR, "--transport", transport) as cluster, Client(cluster.target) as client:
        streams = [Background(client, *request) for request in LONG_REQUESTS]
        for stream in streams:
            stream.wait_running()
        wait_until(lambda: cluster.decoders_count("baton_transfers_total", transport=path) > 0, RETURN_TIMEOUT_S, "a hand-off")
        pid = next(worker["pid"] for worker in cluster.workers() if worker["role"] == role)
        os.kill(pid, signal.SIGKILL)
        for request, stream in zip(LONG_REQUESTS, streams):
            assert stream.result().token_ids == expected[repr(request)], request
        await_workers(cluster, WORKERS, RETURN_TIMEOUT_S)
        await_no_block_held(cluster.target, WORKERS)


@DIRECT
def test_prompts_whose_source_is_killed_are_read_from_its_successor(model, expected, transport, path):
    with cuda_cluster(model, *PAIR, "--transport", transport) as cluster, Client(cluster.target) as client:
        streams = [Background(client, *request, tenant=str(number)) for number, request in enumerate(REQUESTS)]
        assert streams[0].began.wait(60), "no token came"
        os.kill(cluster.pid_of("prefill"), signal.SIGKILL)
        for request, stream in zip(REQUESTS, streams):
            assert stream.result().token_ids == expected[repr(request)], request
        # Their names are new, and so is the memory that is opened.
        before = cluster.decoders_count("baton_transfers_total", transport=path)
        for request in REQUESTS:
            assert client.generate(*request, tenant="another").token_ids == expected[repr(request)], request
        assert cluster.decoders_count("baton_transfers_total", transport=path) - before == len(REQUESTS)
        await_no_block_held(cluster.target, WORKERS)


@DIRECT
def test_workers_that_are_stopped_for_moments_in_the_midst_of_hand_offs_change_no_token(model, expected, transport, path):
    rng = random.Random(SEED)
    with cuda_cluster(model, *PAIR, "--transport", transport) as cluster, Client(cluster.target) as client:
        for number, role in enumerate(("prefill", "decode") * STOPS_OF_EACH):
            # Of tenants that no cache knows: every prompt is computed and handed over.
            streams = [Background(client, *request, tenant=f"{number}.{place}") for place, request in enumerate(REQUESTS)]
            assert streams[0].began.wait(RETURN_TIMEOUT_S), "no token came"
            with stopped(rng.choice([worker["pid"] for worker in cluster.workers() if worker["role"] == role])):
                streams[-1].began.wait(rng.uniform(*STOPPED_S))
            for request, stream in zip(REQUESTS, streams):
                assert stream.result().token_ids == expected[repr(request)], request
        early = cluster.decoders_count("baton_transfer_early_bytes_total", transport=path)
        print(f"{path}: {early} of {cluster.decoders_count('baton_transfer_bytes_total')} bytes read within their steps")
        assert early > 0 and cluster.decoders_count("baton_transfer_damaged_blocks_total") == 0
        # On a busy machine such a silence may be long enough to lose one, which joins anew.
        await_workers(cluster, WORKERS, RETURN_TIMEOUT_S)
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
