#!/usr/bin/env python3
"""Speed of OpenVINO GenAI's ContinuousBatchingPipeline on the CPU; run.py starts it in its own environment.

    python openvino_peer.py MODEL.gguf THREADS SEED

Reads lines from stdin; for each, `round`, measures once and answers with one line of JSON on stdout: tokens per second.
    prefill_512_tokens_per_s   512 / time from the request to its first token
    decode_1_tokens_per_s      1 stream, 32 tokens in, 128 out, timed after the first token
    decode_32_tokens_per_s     32 streams, 32 tokens in, 256 out each, timed after the step that made the first tokens
Prompts are random ids, new for every run; prefix caching is off; tokens are greedy and end tokens do not stop a stream.
The step budget lets each prompt batch run as one step, which is this peer's best.
"""

import json
import sys
import time

import numpy as np
import openvino
import openvino_genai

FIRST_ORDINARY_ID, VOCABULARY = 17, 49152
PREFILL_TOKENS, PROMPT_TOKENS = 512, 32
STEP_TOKENS = 1024  # 32 streams of 32 tokens
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
        """Seconds to the first token of every stream, and from there to the last."""
        begin = time.perf_counter()
        handles = self.start(streams, prompt_tokens, new_tokens)
        self.pipeline.step()
        first = time.perf_counter()
        assert all(handle.can_read() for handle in handles), "a prompt batch did not fit one step"
        steps = 1
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            steps += 1
        last = time.perf_counter()
        assert steps == new_tokens, f"{steps} steps for {new_tokens} tokens"
        made = [sum(len(o.generated_ids) for o in handle.read_all()) for handle in handles]
        assert made == [new_tokens] * streams, made
        return first - begin, last - first

    def measure(self):
        prefill_s, _ = self.generate(1, PREFILL_TOKENS, 1)
        _, one_s = self.generate(1, PROMPT_TOKENS, 128)
        _, many_s = self.generate(32, PROMPT_TOKENS, 256)
        return {
            "prefill_512_tokens_per_s": PREFILL_TOKENS / prefill_s,
            "decode_1_tokens_per_s": 127 / one_s,
            "decode_32_tokens_per_s": 32 * 255 / many_s,
        }


def main():
    model, threads, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    peer = Peer(model, threads, seed)
    peer.generate(1, PREFILL_TOKENS, 2)
    peer.generate(32, PROMPT_TOKENS, 8)
    for line in sys.stdin:
        assert line.strip() == "round"
        print(json.dumps(peer.measure()), flush=True)


if __name__ == "__main__":
    main()
