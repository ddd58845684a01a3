"""`baton inspect` of the models that Baton serves: sizes first, everything for programs, and what fits."""

import json
import math
import os
import pathlib

import pytest

from cluster import run_baton

MIB = 1 << 20
GIB = 1 << 30
DATA_DIR = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share")
STORE_DIR = pathlib.Path(os.environ.get("BATON_MODEL_STORE") or DATA_DIR / "baton/models")


def inspect(*args):
    result = run_baton("inspect", *args)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize(("model", "parameters", "token_bytes", "beyond", "context_bytes"), [
    # 30 layers of K and V, 3 heads of 64, 2 bytes each; 8192 tokens of them.
    ("smollm2-135m-instruct", 134_515_008, 23_040, 23_040, 180 * MIB),
    # 18 layers of one head of 256. 15 of them keep a window of 512 and a chunk of 256 tokens, the others all 32768.
    ("gemma-3-270m", 268_098_176, 18_432, 3_072, 32_768 * 3_072 + 768 * 15_360),
])
def test_json_has_the_sizes_of_a_real_model(model, parameters, token_bytes, beyond, context_bytes):
    facts = json.loads(inspect(model, "--json", "--memory", "8GiB"))
    assert facts["servable"] is True and facts["reason"] is None
    assert facts["parameters"] == parameters
    assert facts["parameters"] == sum(math.prod(tensor["shape"]) for tensor in facts["tensors"])
    assert [need["kv_dtype"] for need in facts["memory"]] == ["bf16", "int8", "f32"]
    bf16 = facts["memory"][0]
    assert bf16["kv_bytes_per_token"] == token_bytes
    assert bf16["kv_bytes_per_token_beyond_window"] == beyond
    assert bf16["kv_bytes_per_full_context"] == context_bytes
    left = 8 * GIB - bf16["weight_bytes"]
    assert bf16["fits"]["full_contexts"] == left // context_bytes
    assert 0 <= left - bf16["fits"]["tokens"] * token_bytes < 16 * token_bytes
    assert facts["config"]["rms_norm_eps"] in (1e-05, 1e-06), "numbers are as people write them"
    assert len(facts["weights_digest"]) == 32 and facts["metadata"]["general.architecture"] == facts["architecture"]


def test_text_lists_tensors_and_metadata_only_when_asked():
    assert "blk.0." not in inspect() and "general.license" not in inspect()
    assert "blk.0.attn_q.weight" in inspect("--tensors")
    assert "general.license" in inspect("--metadata")


def test_a_cut_model_is_one_line_that_names_it(tmp_path):
    whole = STORE_DIR / "smollm2-135m-instruct.gguf"
    cut = tmp_path / "cut.gguf"
    with whole.open("rb") as file:
        cut.write_bytes(file.read(whole.stat().st_size // 16))
    result = run_baton("inspect", cut)
    assert result.returncode == 1 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert str(cut) in result.stderr and "ends at byte" in result.stderr


def test_memory_that_is_no_size_is_wrong_usage():
    result = run_baton("inspect", "--memory", "much")
    assert result.returncode == 2 and "much" in result.stderr
