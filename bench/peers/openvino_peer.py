#!/usr/bin/env python3
"""OpenVINO GenAI's ContinuousBatchingPipeline on the CPU, as a child of run.py in its own environment.

    python openvino_peer.py MODEL.gguf THREADS SEED

For each line `STREAMS PROMPT_TOKENS NEW_TOKENS` on stdin it generates once and answers with one line of JSON:
`first_s`, from submission to the first token of every stream, and `rest_s`, from there to the last token of all.
Prompts are random ids, new for every run; prefix caching is off; tokens are greedy and end tokens do not stop a stream.
"""

import json
import sys
import time

import numpy as np
import openvino
import openvino_genai

FIRST_ORDINARY_ID, VOCABULARY = 17, 49152
# One step takes the prompts of 32 short streams, or one long prompt. With this bound the peer is fastest.
STEP_TOKENS = 2048
CACHE_GB = 2


class Peer:
    def __init__(self, model, threads, seed):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = STEP_TOKENS
        scheduler.max_num_seqs = 64
        properties = {"INFERENCE_NUM_THREADS": threads}
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
        self.rng = np.random.default_rng(seed)
        self.requests = 0

    def start(self, streams, prompt_tokens, new_tokens):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = True
        config.do_sample = False
        handles = []
        for _ in range(streams):
            ids = self.rng.integers(FIRST_ORDINARY_ID, VOCABULARY, (1, prompt_tokens), dtype=np.int64)
            handles.append(self.pipeline.add_request(self.requests, openvino.Tensor(ids), config))
            self.requests += 1
        return handles

    def generate(self, streams, prompt_tokens, new_tokens):
        begin = time.perf_counter()
        handles = self.start(streams, prompt_tokens, new_tokens)
        steps = 0
        while not all(handle.can_read() for handle in handles):
            self.pipeline.step()
            steps += 1
        first = time.perf_counter()
        assert new_tokens == 1 or steps == 1, "a prompt batch did not fit one step"
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
        last = time.perf_counter()
        made = [sum(len(output.generated_ids) for output in handle.read_all()) for handle in handles]
        assert made == [new_tokens] * streams, made
        return {"first_s": first - begin, "rest_s": last - first}


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    peer.generate(32, 32, 4)
    for line in sys.stdin:
        print(json.dumps(peer.generate(*map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
