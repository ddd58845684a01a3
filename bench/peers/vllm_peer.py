#!/usr/bin/env python3
"""vLLM on the CPU, as a child of run.py in its own environment; the protocol is that of openvino_peer.py.

    python vllm_peer.py MODEL_FOLDER THREADS SEED
"""

import json
import os
import sys
import time

THREADS = int(sys.argv[2])
# Set before vLLM is imported. vLLM must run in one process, because its own step loop is timed.
os.environ.update(VLLM_CPU_KVCACHE_SPACE="2", VLLM_CPU_OMP_THREADS_BIND=f"0-{THREADS - 1}",
                  VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")

import numpy as np  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

FIRST_ORDINARY_ID, VOCABULARY = 17, 49152
STEP_TOKENS = 2048


class Peer:
    def __init__(self, model, seed):
        self.engine = LLM(model=model, dtype="bfloat16", max_model_len=4096, enable_prefix_caching=False,
                          max_num_batched_tokens=STEP_TOKENS, max_num_seqs=64, disable_log_stats=True).llm_engine
        self.rng = np.random.default_rng(seed)
        self.requests = 0

    def generate(self, streams, prompt_tokens, new_tokens):
        params = SamplingParams(max_tokens=new_tokens, temperature=0, ignore_eos=True)
        prompts = [self.rng.integers(FIRST_ORDINARY_ID, VOCABULARY, prompt_tokens).tolist() for _ in range(streams)]
        made = {}
        begin = time.perf_counter()
        for ids in prompts:
            made[str(self.requests)] = 0
            self.engine.add_request(str(self.requests), {"prompt_token_ids": ids}, params)
            self.requests += 1
        first = 0
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                made[output.request_id] = len(output.outputs[0].token_ids)
            if not first and all(made.values()):
                first = time.perf_counter()
                assert new_tokens == 1 or max(made.values()) == 1, "a prompt batch did not fit one step"
        last = time.perf_counter()
        assert list(made.values()) == [new_tokens] * streams, made
        return {"first_s": first - begin, "rest_s": last - first}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM prints to stdout
    peer = Peer(sys.argv[1], int(sys.argv[3]))
    peer.generate(32, 32, 4)
    for line in sys.stdin:
        print(json.dumps(peer.generate(*map(int, line.split()))), file=answers, flush=True)


if __name__ == "__main__":
    main()
