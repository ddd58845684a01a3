#!/usr/bin/env python3
"""Writes one model in both formats with the libraries' own writers, and asks transformers what it generates.

    python hf_directory.py MODEL.gguf OUT bfloat16|float16|float32 [--greedy]

OUT/hf is a Hugging Face directory by save_pretrained, in shards; OUT/model.gguf holds the same weights in the same type,
written with the `gguf` package: its metadata is that of MODEL.gguf. --greedy prints what transformers generates in float32
from OUT/hf, as JSON. Then `baton generate --token-ids ... --ignore-eos --json` from either must say the same in fp32
numerics. Environment: requirements.txt beside this file.
"""

import json
import os
import sys

import gguf
import numpy as np
import torch
import transformers

import reference
import tokenizer_oracle

PROMPT = "The relay race is won by the team whose baton"
NEW_TOKENS = 32
SHARD_BYTES = "100MB"

FILE_TYPES = {
    "float32": (torch.float32, gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "float16": (torch.float16, gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bfloat16": (torch.bfloat16, gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
}


def permute(rows, heads):
    """The inverse of reference.unpermute: the two halves of each head interleaved, as GGUF keeps them."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def plain_model(loaded, dtype):
    """The same weights in a model that does not remember its GGUF file, which would not save."""
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.load_state_dict(loaded.state_dict())
    return model.to(dtype).eval()


def write_directory(model, tokenizer, metadata, folder):
    model.save_pretrained(folder, max_shard_size=SHARD_BYTES)
    tokens = metadata["ggml.tokens"]
    special = {
        name: tokens[metadata[f"ggml.{key}"]]
        for name, key in (("bos_token", "bos_token_id"), ("eos_token", "eos_token_id"), ("pad_token", "padding_token_id"))
        if f"ggml.{key}" in metadata
    }
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=metadata.get("chat_template"), **special
    )
    fast.save_pretrained(folder)


def copy_metadata(source, writer):
    for name, field in source.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub_type = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub_type)


def write_gguf(state, config, source, file_type, path):
    _, tensor_type, llama_type = FILE_TYPES[file_type]
    writer = gguf.GGUFWriter(path, "llama")
    copy_metadata(source, writer)
    writer.add_file_type(llama_type)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for tensor in source.tensors:
        rows = state[reference.huggingface_name(tensor.name)].float().numpy()
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            rows = permute(rows, heads[kind])
        data = gguf.quants.quantize(np.ascontiguousarray(rows), tensor_type)
        writer.add_tensor(tensor.name, data, raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.inference_mode()
def greedy(folder):
    """Loads the directory alone, as anyone would."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer(PROMPT)["input_ids"]
    ids = torch.tensor([prompt])
    for _ in range(NEW_TOKENS):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
    return {"prompt": prompt, "token_ids": ids[0, len(prompt) :].tolist()}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--greedy"]
    path, out, file_type = arguments
    dtype = FILE_TYPES[file_type][0]
    os.makedirs(out, exist_ok=True)
    folder = os.path.join(out, "hf")
    loaded, tokenizer = reference.load(path)
    model = plain_model(loaded, dtype)
    write_directory(model, tokenizer, tokenizer_oracle.read_metadata(path), folder)
    write_gguf(model.state_dict(), model.config, gguf.GGUFReader(path), file_type, os.path.join(out, "model.gguf"))
    if "--greedy" in sys.argv:
        print(json.dumps(greedy(folder)))


if __name__ == "__main__":
    main()
