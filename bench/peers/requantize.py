#!/usr/bin/env python3
"""Rewrites the weights of a GGUF file in another quantization, for peers that cannot read the original one.

    python requantize.py FROM.gguf TO.gguf Q8_0|Q4_0|BF16

F32 and F16 tensors stay as they are, and for Q8_0 and Q4_0 those of these two types; the others are dequantized and
quantized anew. Metadata is copied. Q8_0 keeps the values of Q4_1 nearly exactly; Q4_0 and BF16 lose a little, which
matters to text but not to speed.
"""

import os
import sys

import gguf
from gguf.quants import dequantize, quantize

FLOATS = {gguf.GGMLQuantizationType[name] for name in ("F32", "F16")}
INTEGERS = {gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_0")}
FILE_TYPES = {"Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
              "BF16": gguf.LlamaFileType.MOSTLY_BF16}


def copy_metadata(reader, writer, file_type):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue  # the writer adds its own
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = int(file_type) if field.name == "general.file_type" else field.contents()
        writer.add_key_value(field.name, value, kind, sub_type=element)


def requantize(source, target, name):
    wanted = gguf.GGMLQuantizationType[name]
    kept = FLOATS | INTEGERS if wanted in INTEGERS else FLOATS
    reader = gguf.GGUFReader(source)
    part = target + ".part"
    writer = gguf.GGUFWriter(part, arch=reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer, FILE_TYPES[name])
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if kind not in kept:
            data, kind = quantize(dequantize(data, kind), wanted), wanted
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(part, target)


if __name__ == "__main__":
    requantize(*sys.argv[1:])
