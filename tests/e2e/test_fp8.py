"""FP8 checkpoints are served with the tokens of their float twins, described, and refused where something is wrong with them."""

import json
import pathlib
import random

import pytest

from client import Client
from cluster import BINARY, Cluster, run_baton
from tiny_fp8 import DOWN, LAYOUTS, NAN, write_tiny_fp8

SEED = 20261201
MIXED = ("--prefill", 0, "--decode", 0, "--mixed", 1, "--device", "cpu", "--threads", 1, "--kv-memory", "4MiB")
PROMPT_LENGTHS = (3, 17, 60)
GREEDY = {"max_tokens": 16, "ignore_eos": True}
BENCH = ("bench", "engine", "--decode-steps", 4, "--rounds", 1, "--context", 20, "--read-mib", 1, "--threads", 1, "--only",
         "decode", "--decode", 1, "--json")
LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"


def tokens_of(model, numerics):
    draws = random.Random(SEED)
    prompts = [[draws.randrange(2, 258) for _ in range(length)] for length in PROMPT_LENGTHS]
    with Cluster("--model", model, "--numerics", numerics, *MIXED) as cluster, Client(cluster.target) as client:
        return [client.generate(prompt, GREEDY).token_ids for prompt in prompts]


# fp32 computes with what an element and its scale stand for, exact with the nearest bf16.
@pytest.mark.parametrize("numerics, twin", [("fp32", "F32"), ("exact", "BF16")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_checkpoint_is_served_with_the_tokens_of_its_float_twin(tmp_path, layout, numerics, twin):
    print(f"seed {SEED}")
    tokens = tokens_of(write_tiny_fp8(tmp_path / "fp8", layout), numerics)
    assert tokens == tokens_of(write_tiny_fp8(tmp_path / "twin", layout, twin=twin), numerics)
    assert len({tuple(one) for one in tokens}) == len(tokens), "the tiny model says the same to everybody"


def test_inspect_says_what_it_is_and_what_it_takes(tmp_path):
    def facts_of(model):
        result = run_baton("inspect", model, "--json")
        assert result.returncode == 0 and result.stderr == "", result.stderr
        return json.loads(result.stdout)

    facts = facts_of(write_tiny_fp8(tmp_path / "fp8", "block"))
    twin = facts_of(write_tiny_fp8(tmp_path / "twin", "block", twin="BF16"))
    assert facts["servable"] is True and facts["parameters"] == twin["parameters"], "scales are no parameters"
    assert facts["tensor_types"]["F8_E4M3"] == 14 and facts["weights_digest"] != twin["weights_digest"]
    weights = {(need["numerics"], need["weights"]): need["weight_bytes"] for need in facts["memory"]}
    assert weights == {(need["numerics"], need["weights"]): need["weight_bytes"] for need in twin["memory"]}
    assert weights["exact", "int8"] < weights["exact", "auto"]


def without_scale(tensors):
    del tensors[f"{DOWN}.weight_scale_inv"]


def with_one_scale(tensors):
    kind, _, content = tensors[f"{DOWN}.weight_scale_inv"]
    tensors[f"{DOWN}.weight_scale_inv"] = (kind, [1], content[:4])


def with_other_type(tensors):
    _, shape, content = tensors[f"{DOWN}.weight"]
    tensors[f"{DOWN}.weight"] = ("F8_E5M2", shape, content)


def with_nan(tensors):
    kind, shape, content = tensors[f"{DOWN}.weight"]
    tensors[f"{DOWN}.weight"] = (kind, shape, content[:-1] + bytes([NAN]))


@pytest.mark.parametrize("change, said", [(without_scale, "blk.1.ffn_down.weight is F8_E4M3 and has no tensor weight_scale"),
                                          (with_one_scale, f"tensor {DOWN}.weight_scale_inv has shape [1], must have [2, 2]"),
                                          (with_other_type, f"tensor {DOWN}.weight is of type F8_E5M2"),
                                          (with_nan, "tensor blk.1.ffn_down.weight has a NaN")])
def test_what_is_wrong_is_one_error_that_names_the_tensor(tmp_path, change, said):
    model = write_tiny_fp8(tmp_path / "fp8", "block", change=change)
    result = run_baton(*BENCH, "--model", model, "--device", "cpu")
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
    assert said in result.stderr and str(model) in result.stderr, result.stderr


@pytest.mark.skipif(not (DRIVER / "libcuda.so.1").exists(), reason="this build has no emulated driver")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_device_computes_it(tmp_path, layout):
    result = run_baton(*BENCH, "--model", write_tiny_fp8(tmp_path / "fp8", layout), "--device", "cuda",
                       env={"LD_LIBRARY_PATH": str(DRIVER)})
    assert result.returncode == 0 and "emulated CUDA device: " not in result.stderr, result.stderr
    assert json.loads(result.stdout)["device"] == "cuda:0"
