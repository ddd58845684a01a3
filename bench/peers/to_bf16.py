#!/usr/bin/env python3
"""Writes a GGUF model as a Hugging Face folder in bf16.

    python to_bf16.py FROM.gguf TO_FOLDER
"""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main(source, target):
    folder, name = os.path.split(source)
    part = target + ".part"
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16,
                                                 quantization_config=GgufConfig(dequantize=True))
    # The model is dense now and must be saved as such.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16).save_pretrained(part)
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(part)
    os.replace(part, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
