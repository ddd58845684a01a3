"""A complete llama model of some hundred kilobytes as a Hugging Face directory whose matrices are FP8, and its twin of floats.

Its tokenizer is that of tiny_model.py.
"""

import json
import random
import struct

from tiny_model import BOS, EOS, VOCABULARY, printable

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, CONTEXT = 2, 160, 5, 1, 32, 192, 512
# The last blocks of a matrix are smaller.
BLOCK = 128
# What scales a checkpoint has.
LAYOUTS = ("tensor", "channel", "block")
NAN = 0x7f
# The last matrix of the last layer.
DOWN = f"model.layers.{LAYERS - 1}.mlp.down_proj"


def _value_of(byte):
    """What an element of FP8 stands for: a sign, 4 bits of exponent, 3 of mantissa."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    size = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -size if byte & 0x80 else size


VALUES = [_value_of(byte) for byte in range(256)]


def _f32(value):
    return struct.pack("<f", value)


def _bf16(value):
    """Of an f32, rounded to nearest even."""
    bits = struct.unpack("<I", _f32(value))[0]
    return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)


def _as_f32(value):
    return struct.unpack("<f", _f32(value))[0]


def _matrices():
    """Name, rows, columns."""
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for name, rows, columns in (("q", HIDDEN, HIDDEN), ("k", KV_HEADS * HEAD_DIM, HIDDEN),
                                    ("v", KV_HEADS * HEAD_DIM, HIDDEN), ("o", HIDDEN, HIDDEN)):
            yield f"{prefix}.self_attn.{name}_proj", rows, columns
        for name, rows, columns in (("gate", FFN, HIDDEN), ("up", FFN, HIDDEN), ("down", HIDDEN, FFN)):
            yield f"{prefix}.mlp.{name}_proj", rows, columns


def _plain_tensors(draws):
    """Embedding and norms: name, shape, values."""
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN], [draws.uniform(-0.1, 0.1) for _ in range(VOCABULARY * HIDDEN)]
    names = ["model.norm.weight"]
    for layer in range(LAYERS):
        names += [f"model.layers.{layer}.{part}_layernorm.weight" for part in ("input", "post_attention")]
    for name in names:
        yield name, [HIDDEN], [draws.uniform(0.9, 1.1) for _ in range(HIDDEN)]


def _scales_of(layout, rows, columns, draws):
    """Shape of the scales, rows and columns that share one, and their values, which are f32 (of channels bf16)."""
    size = 2 * columns ** -0.5 / 448
    per_row, per_column = {"tensor": (rows, columns), "channel": (1, columns), "block": (BLOCK, BLOCK)}[layout]
    shape = [-(-rows // per_row), -(-columns // per_column)]
    values = [_as_f32(size * draws.uniform(0.5, 1.5)) for _ in range(shape[0] * shape[1])]
    if layout == "channel":
        values = [struct.unpack("<f", b"\0\0" + _bf16(value))[0] for value in values]
    return ([1] if layout == "tensor" else shape), per_row, per_column, values


def _tensors(layout, twin, seed):
    """Name -> type, shape, bytes. `twin` is F32 or BF16, or None for FP8 itself."""
    draws = random.Random(seed)
    tensors = {name: ("F32", shape, struct.pack(f"<{len(values)}f", *values))
               for name, shape, values in _plain_tensors(draws)}
    for name, rows, columns in _matrices():
        shape, per_row, per_column, scales = _scales_of(layout, rows, columns, draws)
        # Any element of the upper half, of either sign, and now and then any but NaN.
        elements = bytes(0x80 * draws.randrange(2) + (draws.randrange(0x7f) if draws.random() < 0.1 else
                                                      draws.randrange(0x40, 0x78)) for _ in range(rows * columns))
        if twin is None:
            kind, pack = ("BF16", _bf16) if layout == "channel" else ("F32", _f32)
            tensors[f"{name}.weight"] = ("F8_E4M3", [rows, columns], elements)
            suffix = "weight_scale_inv" if layout == "block" else "weight_scale"
            tensors[f"{name}.{suffix}"] = (kind, shape, b"".join(map(pack, scales)))
            continue
        of_row = -(-columns // per_column)
        pack = _f32 if twin == "F32" else _bf16
        values = (VALUES[byte] * scales[i // columns // per_row * of_row + i % columns // per_column]
                  for i, byte in enumerate(elements))
        tensors[f"{name}.weight"] = (twin, [rows, columns], b"".join(map(pack, values)))
    return tensors


def _quantization_config(layout):
    if layout == "channel":
        weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
        activations = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
        return {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
                "kv_cache_scheme": None,
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}}}
    blocks = {"weight_block_size": [BLOCK, BLOCK]} if layout == "block" else {}
    return {"quant_method": "fp8", "activation_scheme": "dynamic", **blocks}


def _tokenizer():
    added = [{"id": EOS, "content": "<|end|>", "special": True, "normalized": False},
             {"id": BOS, "content": "<|start|>", "special": True, "normalized": False}]
    pre = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}]
    return {"version": "1.0", "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre}, "post_processor": None,
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {printable(byte): 2 + byte for byte in range(256)}, "merges": []}}


def _safetensors(tensors):
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_tiny_fp8(folder, layout, twin=None, seed=1, change=None):
    """Writes the directory and returns its path. With `twin`, F32 or BF16, its matrices are what FP8 and scales stand for.

    `change` gets the tensors (name -> type, shape, bytes) before they are written.
    """
    tensors = _tensors(layout, twin, seed)
    if change is not None:
        change(tensors)
    config = {"model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": FFN, "vocab_size": VOCABULARY,
              "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": True, "bos_token_id": BOS, "eos_token_id": EOS}
    if twin is None:
        config["quantization_config"] = _quantization_config(layout)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|start|>", "eos_token": "<|end|>"}))
    (folder / "model.safetensors").write_bytes(_safetensors(tensors))
    return folder
