"""A complete llama model of some hundred kilobytes with random weights, for engines that compute slowly.

Its tokenizer has a token for each byte and no merges: the byte b is FIRST_BYTE_TOKEN + b.
"""

import random
import struct

EOS, BOS, FIRST_BYTE_TOKEN = 0, 1, 2
NORMAL_TOKEN, CONTROL_TOKEN = 1, 3
VOCABULARY = 258
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, CONTEXT = 2, 64, 2, 1, 32, 96, 2048
# Numbers of GGUF: types of values, types of tensors.
U32, I32, F32_VALUE, STRING, ARRAY = 4, 5, 6, 8, 9
F32, Q8_0, BF16 = 0, 8, 30
ALIGNMENT = 32
VALUES_OF_A_BLOCK = 32


def _string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def printable(byte):
    """GPT-2's character for a byte: the byte itself if it is printable, else one from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in plain:
        return chr(byte)
    return chr(256 + sum(1 for other in range(byte) if other not in plain))


def _metadata():
    tokens = ["<|end|>", "<|start|>", *map(printable, range(256))]
    kinds = [CONTROL_TOKEN, CONTROL_TOKEN] + [NORMAL_TOKEN] * 256
    numbers = {"block_count": LAYERS, "context_length": CONTEXT, "embedding_length": HIDDEN, "feed_forward_length": FFN,
               "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "rope.dimension_count": HEAD_DIM}
    return [("general.architecture", STRING, _string("llama")),
            ("general.name", STRING, _string("tiny llama")),
            *((f"llama.{name}", U32, struct.pack("<I", value)) for name, value in numbers.items()),
            ("llama.rope.freq_base", F32_VALUE, struct.pack("<f", 10000)),
            ("llama.attention.layer_norm_rms_epsilon", F32_VALUE, struct.pack("<f", 1e-5)),
            ("tokenizer.ggml.model", STRING, _string("gpt2")),
            ("tokenizer.ggml.pre", STRING, _string("smollm")),
            ("tokenizer.ggml.tokens", ARRAY, _array(STRING, [_string(token) for token in tokens])),
            ("tokenizer.ggml.token_type", ARRAY, _array(I32, [struct.pack("<i", kind) for kind in kinds])),
            ("tokenizer.ggml.merges", ARRAY, _array(STRING, [])),
            ("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", BOS)),
            ("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", EOS))]


def _data(kind, count, amplitude, draws):
    if kind == F32:
        return struct.pack(f"<{count}f", *(1 + amplitude * draws.uniform(-1, 1) for _ in range(count)))
    if kind == BF16:
        return b"".join(struct.pack("<f", amplitude * draws.uniform(-1, 1))[2:] for _ in range(count))
    return b"".join(struct.pack(f"<e{VALUES_OF_A_BLOCK}b", amplitude / 127,
                                *(draws.randint(-127, 127) for _ in range(VALUES_OF_A_BLOCK)))
                    for _ in range(count // VALUES_OF_A_BLOCK))


def _tensors():
    """Name, type, columns, rows. Norms have no rows."""
    yield "token_embd.weight", BF16, HIDDEN, VOCABULARY
    yield "output_norm.weight", F32, HIDDEN, 0
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", F32, HIDDEN, 0
        yield f"{block}.attn_q.weight", Q8_0, HIDDEN, HEADS * HEAD_DIM
        yield f"{block}.attn_k.weight", Q8_0, HIDDEN, KV_HEADS * HEAD_DIM
        yield f"{block}.attn_v.weight", Q8_0, HIDDEN, KV_HEADS * HEAD_DIM
        yield f"{block}.attn_output.weight", Q8_0, HEADS * HEAD_DIM, HIDDEN
        yield f"{block}.ffn_norm.weight", F32, HIDDEN, 0
        yield f"{block}.ffn_gate.weight", Q8_0, HIDDEN, FFN
        yield f"{block}.ffn_up.weight", Q8_0, HIDDEN, FFN
        yield f"{block}.ffn_down.weight", Q8_0, FFN, HIDDEN


def write_tiny_model(path, seed=1):
    """Writes the GGUF file and returns its path. The same seed gives the same bytes."""
    draws = random.Random(seed)
    infos, data = b"", b""
    tensors = list(_tensors())
    for name, kind, columns, rows in tensors:
        sizes = (columns, rows) if rows else (columns,)
        infos += _string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += _data(kind, columns * max(rows, 1), 0.1 if kind == F32 else columns ** -0.5, draws)
        data += bytes(-len(data) % ALIGNMENT)
    metadata = _metadata()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(key) + struct.pack("<I", kind) + value for key, kind, value in metadata) + infos
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
    return path
