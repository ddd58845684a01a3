#!/usr/bin/env python3
"""ik_llama.cpp on the CPU, as a child of run.py in its own environment; the protocol is that of openvino_peer.py.

    python ik_peer.py MODEL.gguf THREADS SEED

Weights are repacked for this processor. Attention is flash attention where a batch holds one stream; the library aborts
on batches of several with it. Every batch goes straight to llama_decode; the next token of a stream is taken greedily
from its logits.
"""

import ctypes
import json
import os
import sys
import time

import numpy as np
from ik_llama_cpp import _ctypes_api as api

FIRST_ORDINARY_ID = 17
BATCH_TOKENS, MICRO_BATCH_TOKENS = 2048, 512
CONTEXT_TOKENS = 20480
MAX_STREAMS = 64


class Peer:
    def __init__(self, path, threads, seed):
        api.llama_backend_init()
        model_options = api.llama_model_default_params()
        model_options.repack_tensors = True
        self.model = api.llama_model_load_from_file(path.encode(), model_options)
        assert self.model, f"cannot load {path}"
        self.contexts = {flash: self.make_context(threads, flash) for flash in (False, True)}
        self.context = None
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch = api.llama_batch_init(BATCH_TOKENS, 0, 1)
        self.rng = np.random.default_rng(seed)

    def make_context(self, threads, flash):
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = CONTEXT_TOKENS, BATCH_TOKENS, MICRO_BATCH_TOKENS
        options.n_seq_max = MAX_STREAMS
        options.n_threads = options.n_threads_batch = threads
        options.flash_attn = flash
        context = api.llama_init_from_model(self.model, options)
        assert context, "cannot make a context"
        return context

    def decode(self, rows):
        """Runs (token, position, stream, wants logits) rows; the greedy tokens of those that want logits."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, stream, wanted) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, stream
            self.batch.logits[i] = wanted
        assert api.llama_decode(self.context, self.batch) == 0, "llama_decode failed"
        return [self.greedy(i) for i, row in enumerate(rows) if row[3]]

    def greedy(self, row):
        logits = api.llama_get_logits_ith(self.context, row)
        address = ctypes.cast(logits, ctypes.c_void_p).value
        return int(np.frombuffer((ctypes.c_float * self.vocabulary).from_address(address), np.float32).argmax())

    def generate(self, streams, prompt_tokens, new_tokens):
        prompts = self.rng.integers(FIRST_ORDINARY_ID, self.vocabulary, (streams, prompt_tokens)).tolist()
        self.context = self.contexts[streams == 1 or (new_tokens == 1 and prompt_tokens % BATCH_TOKENS == 0)]
        api.llama_kv_cache_clear(self.context)
        begin = time.perf_counter()
        rows = [(token, position, stream, position + 1 == prompt_tokens)
                for stream, prompt in enumerate(prompts) for position, token in enumerate(prompt)]
        tokens = []
        for at in range(0, len(rows), BATCH_TOKENS):
            tokens += self.decode(rows[at:at + BATCH_TOKENS])
        first = time.perf_counter()
        for step in range(new_tokens - 1):
            tokens = self.decode([(token, prompt_tokens + step, stream, True) for stream, token in enumerate(tokens)])
        return {"first_s": first - begin, "rest_s": time.perf_counter() - first}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library prints to stdout
    peer = Peer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    peer.generate(32, 32, 4)
    for line in sys.stdin:
        print(json.dumps(peer.generate(*map(int, line.split()))), file=answers, flush=True)


if __name__ == "__main__":
    main()
