"""Devices that fail, hang, are short of memory, or whose process is stopped, on an emulated driver (test_cuda_emulated.py):
the cluster goes on, and each stream has the tokens of one worker that nothing befalls."""

import collections
import os
import pathlib
import random
import re
import signal
import time
import urllib.error
import urllib.request

import grpc
import pytest

from client import Background, Client
from cluster import BINARY, Cluster, children_of, is_running, run_baton, stopped, wait_until
from streams import await_no_block_held
from tiny_model import CONTEXT, write_tiny_model

LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"
# Without the interpreter's checks, which test_cuda_emulated.py has.
EMULATED = {"LD_LIBRARY_PATH": str(DRIVER), "BATON_PTX_CHECKS": "0"}
FOUND = "emulated CUDA device: "
WORKER = ("--threads", 1, "--kv-memory", "4MiB", "--admin-port", 0)
PAIR = ("--prefill", 1, "--decode", 2, *WORKER, "--local-prefill-tokens", 0)
TWO_PAIRS = ("--prefill", 2, "--decode", 2, *WORKER, "--local-prefill-tokens", 0)
SEED = 20261128
VOCABULARY = 256
PROMPT_LENGTHS = (5, 16, 33, 70)
CHUNK_TOKENS = 32
SHORT, LONG = 8, 120
# Role of the worker, what is planted (tests/ptx/planted_faults.h), and what its one line says of it.
FAILURES = (("decode", "illegal_address", "CUDA_ERROR_ILLEGAL_ADDRESS", "report this line as a bug"),
            ("prefill", "ecc_uncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE", "nvidia-smi -q says where"))
TIMEOUT_S = 90
# A worker that is in one step for longer is given up. The rest is for a machine that others load.
STALL_S, SLACK_S = 30, 40
# Times all requests.
FLOOD = 6
QUEUE = 12

if not (LIBRARIES / "baton/libbaton_cuda.so").exists() or not (DRIVER / "libcuda.so.1").exists():
    pytest.skip("this build has no CUDA plug-in or no emulated driver", allow_module_level=True)


def draw_requests(max_tokens):
    rng = random.Random(SEED + max_tokens)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(length)] for length in PROMPT_LENGTHS]
    sampled = {"temperature": 1.0, "seed": SEED}
    return [(prompt, {"max_tokens": max_tokens, "ignore_eos": True, **(sampled if number % 2 else {})})
            for number, prompt in enumerate(prompts)]


LONG_REQUESTS, SHORT_REQUESTS = draw_requests(LONG), draw_requests(SHORT)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    print(f"seed {SEED}")
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def cuda_cluster(model, *args, faults=None):
    planted = {} if faults is None else {"BATON_PTX_FAULTS": str(faults)}
    return Cluster("--model", model, "--device", "cuda", "--chunk-tokens", CHUNK_TOKENS, *args, env={**EMULATED, **planted})


@pytest.fixture(scope="module")
def expected(model):
    """Request -> its tokens by one worker, which hands nothing over."""
    with cuda_cluster(model, "--mixed", 1, *WORKER) as cluster, Client(cluster.target) as client:
        tokens = {repr(request): client.generate(*request).token_ids for request in LONG_REQUESTS + SHORT_REQUESTS}
        assert "cuda-sm80-bf16-v1/" in cluster.log() and FOUND not in cluster.log(), cluster.log()
    return tokens


@pytest.fixture(scope="module")
def attacked(model, tmp_path_factory):
    """A cluster, a client of it, and the folder of its faults."""
    faults = tmp_path_factory.mktemp("faults")
    with cuda_cluster(model, *PAIR, "--max-queued-jobs", QUEUE, faults=faults) as cluster, Client(cluster.target) as client:
        yield cluster, client, faults


def plant(faults, pid, word):
    (faults / "new").write_text(word)
    os.replace(faults / "new", faults / str(pid))


def start(client, requests):
    return [Background(client, *request, tenant=str(number)) for number, request in enumerate(requests)]


def start_running(client, requests):
    streams = start(client, requests)
    for stream in streams:
        stream.wait_running()
    return streams


def check(streams, requests, expected):
    for stream, request in zip(streams, requests):
        generation = stream.result(TIMEOUT_S)
        assert generation.error is None, generation.error
        assert generation.token_ids == expected[repr(request)], request


def await_whole(cluster, count, without=()):
    """Until so many workers serve, none of which has a pid of `without`."""
    def pids():
        return [worker["pid"] for worker in cluster.workers() if worker["state"] == "serving"]

    wait_until(lambda: len(pids()) == count and not set(without) & set(pids()), TIMEOUT_S, f"{count} workers")


def worker_of(cluster, role, busy=False):
    """Of those that hold blocks, where the worker is to be busy."""
    return wait_until(lambda: next((worker for worker in cluster.workers()
                                    if worker["role"] == role and (worker["used_blocks"] or not busy)), None),
                      TIMEOUT_S, f"a {role} worker")


def losses(cluster, reason):
    text = urllib.request.urlopen(f"http://{cluster.admin}/metrics", timeout=5).read().decode()
    found = re.findall(rf'^baton_worker_losses_total\{{.*reason="{reason}".*\}} (\d+)', text, re.MULTILINE)
    return sum(map(int, found))


def test_a_device_that_fails_ends_its_worker_with_one_line_and_changes_no_token(attacked, expected):
    cluster, client, faults = attacked
    for number, (role, word, error, advice) in enumerate(FAILURES, 1):
        running = start_running(client, LONG_REQUESTS)
        victim = worker_of(cluster, role, busy=role == "decode")["pid"]
        plant(faults, victim, word)
        late = start(client, SHORT_REQUESTS)
        check(running, LONG_REQUESTS, expected)
        check(late, SHORT_REQUESTS, expected)
        await_whole(cluster, 3, without=[victim])
        lines = [line for line in cluster.log().splitlines() if "CUDA" in line and "failed" in line]
        assert len(lines) == number, cluster.log()
        assert f" error {role}-worker CUDA device 0 (PTX interpreter) has failed, so this process ends: " in lines[-1], lines
        assert error in lines[-1] and advice in lines[-1], lines
        assert losses(cluster, "fault") == number
    assert "check failed" not in cluster.log(), cluster.log()
    await_no_block_held(cluster.target, 3)


def test_a_device_that_hangs_loses_its_worker_within_its_bound_and_the_others_go_on(model, expected, tmp_path):
    with cuda_cluster(model, *TWO_PAIRS, faults=tmp_path) as cluster, Client(cluster.target) as client:
        running = start_running(client, LONG_REQUESTS)
        victims = [worker_of(cluster, "decode", busy=True), worker_of(cluster, "prefill")]
        began = time.monotonic()
        for victim in victims:
            plant(tmp_path, victim["pid"], "hang")
        # More prompts than one prefill worker is given, so that the other one gets some.
        late = start(client, SHORT_REQUESTS)
        wait_until(lambda: losses(cluster, "stalled") == len(victims), STALL_S + SLACK_S, "the loss of both workers")
        lost_s = time.monotonic() - began
        check(running, LONG_REQUESTS, expected)
        check(late, SHORT_REQUESTS, expected)
        print(f"lost after {lost_s:.1f} s, all streams had ended after {time.monotonic() - began:.1f} s")
        assert lost_s >= STALL_S
        assert cluster.log().count("its engine has been in one step for") >= len(victims), cluster.log()
        for victim in victims:
            assert is_running(victim["pid"]), "it hangs, and is not dead"
            with pytest.raises(urllib.error.HTTPError) as unhealthy:
                urllib.request.urlopen(f"http://{victim['admin']}/healthz", timeout=5)
            assert "in one step" in unhealthy.value.read().decode()
        check(start(client, SHORT_REQUESTS), SHORT_REQUESTS, expected)
        # As the supervisor does to a worker that is out of service for a minute.
        for victim in victims:
            os.kill(victim["pid"], signal.SIGKILL)
        await_whole(cluster, 4, without=[victim["pid"] for victim in victims])
        check(start(client, SHORT_REQUESTS), SHORT_REQUESTS, expected)
        await_no_block_held(cluster.target, 4)


def test_a_device_without_room_for_the_kv_is_one_error(model):
    result = run_baton("mixed-worker", "--router", "127.0.0.1:1", "--model", model, "--device", "cuda", "--kv-memory", "9GiB",
                       "--threads", 1, env=EMULATED)
    assert result.returncode == 1, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith(FOUND)]
    assert "device memory" in line and "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" in line, line


def test_a_stopped_worker_of_a_device_costs_a_pause_and_no_token(attacked, expected):
    cluster, client, _ = attacked
    pids = sorted(worker["pid"] for worker in cluster.workers())
    for role in ("decode", "prefill"):
        running = start_running(client, LONG_REQUESTS)
        victim = worker_of(cluster, role, busy=role == "decode")["pid"]
        silent = losses(cluster, "silent")
        with stopped(victim):
            late = start(client, SHORT_REQUESTS)
            wait_until(lambda: losses(cluster, "silent") > silent, TIMEOUT_S, f"the loss of the {role} worker")
            check(running, LONG_REQUESTS, expected)
        check(late, SHORT_REQUESTS, expected)
        await_whole(cluster, 3)
    assert sorted(worker["pid"] for worker in cluster.workers()) == pids, "a stopped worker is not a dead one"
    await_no_block_held(cluster.target, 3)


def test_a_flood_of_prompts_is_served_or_refused_and_leaves_nothing(attacked, expected):
    cluster, client, _ = attacked
    endless = ([1] * CONTEXT, {"max_tokens": 1})
    requests = (LONG_REQUESTS + SHORT_REQUESTS + [endless]) * FLOOD
    streams = [Background(client, *request, tenant="flood") for request in requests]
    outcomes = collections.Counter()
    for stream, request in zip(streams, requests):
        generation = stream.result(TIMEOUT_S)
        if generation.error is None:
            assert generation.token_ids == expected[repr(request)], request
            outcomes["served"] += 1
        else:
            wanted = grpc.StatusCode.INVALID_ARGUMENT if request is endless else grpc.StatusCode.RESOURCE_EXHAUSTED
            assert generation.error.code() == wanted and not generation.token_ids, generation.error
            outcomes[wanted.name] += 1
    print(dict(outcomes))
    assert set(outcomes) == {"served", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}, outcomes
    await_whole(cluster, 3)
    await_no_block_held(cluster.target, 3)
    check(start(client, SHORT_REQUESTS), SHORT_REQUESTS, expected)
    assert len(children_of(cluster.pid)) == 4 and FOUND not in cluster.log(), cluster.log()
