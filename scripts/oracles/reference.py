"""The reference model of the oracles: Hugging Face transformers in float32, from the same GGUF file that Baton serves.

`load` lets transformers dequantize the file and then checks every tensor, bit for bit, against the `gguf` package, with
what the conversion to GGUF did undone: the order of Llama's q and k rows, the 1 added to Gemma's norms. So a mistake of the
loader cannot pass as a reference.
Environment: requirements.txt beside this file.
"""

import os
from typing import NamedTuple

import numpy as np
import torch
import transformers
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer

import tokenizer_oracle

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
GEMMA_LAYER_NAMES = {
    **LAYER_NAMES,
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def versions():
    return f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32 on CPU"


def is_gemma(model):
    return model.config.model_type.startswith("gemma")


def huggingface_name(gguf_name, layer_names):
    parts = gguf_name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{layer_names[parts[2]]}.weight"
    return TOP_NAMES[parts[0]] + ".weight"


def unpermute(rows, heads):
    """GGUF keeps the two halves of each head interleaved; transformers keeps them one after the other."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def check_weights(model, path):
    state = model.state_dict()
    layer_names, heads = GEMMA_LAYER_NAMES, {}
    if not is_gemma(model):
        layer_names = LAYER_NAMES
        heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    checked = set()
    for tensor in GGUFReader(path).tensors:
        want = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            want = unpermute(want, heads[kind])
        if is_gemma(model) and kind.endswith("norm"):
            want = want - np.float32(1)
        name = huggingface_name(tensor.name, layer_names)
        got = state[name].numpy()
        assert got.dtype == np.float32 and np.array_equal(got, want), f"{tensor.name} differs from {name}"
        checked.add(name)
    # The embedding serves as head where the file has no head of its own.
    missing = set(state) - checked - {"lm_head.weight"}
    assert not missing, f"not in the file: {sorted(missing)}"
    if "lm_head.weight" not in checked:
        assert torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])


class Reference(NamedTuple):
    """A float32 transformers model on CPU, a tokenizer of the `tokenizers` library, the ids before every text: BOS or none."""

    model: transformers.PreTrainedModel
    tokenizer: Tokenizer
    start: list


def load(path):
    folder, file = os.path.split(os.path.abspath(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    check_weights(model, path)
    metadata = tokenizer_oracle.read_metadata(path)
    start = [metadata["ggml.bos_token_id"]] if metadata.get("ggml.add_bos_token") else []
    return Reference(model, tokenizer_oracle.build_tokenizer(path, metadata), start)


def encode(tokenizer, text):
    """Token ids of a text, without BOS."""
    return tokenizer.encode(text, add_special_tokens=False).ids


@torch.inference_mode()
def logits(model, ids):
    """Logits, [len(ids), vocabulary] float32, computed without a cache."""
    return model(torch.tensor([ids])).logits[0].float()
