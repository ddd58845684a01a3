"""A request's tokens and its prompt's KV depend on prompt, parameters and seed alone, not on how it was served.

Each request of each model runs once in a reference configuration and then in drawn ones; a fifth as many again with int8
KV, which has tokens of its own. BATON_FULL_TESTS=1 runs more requests in more configurations; BATON_TEST_SEED draws others.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import random

import pytest

from client import Client
from cluster import Cluster, tokenize_prose

SEED = int(os.environ.get("BATON_TEST_SEED", "20261107"))
FULL = os.environ.get("BATON_FULL_TESTS") == "1"
CONFIGURATIONS_PER_REQUEST = 3 if FULL else 2
MAX_PROMPT_TOKENS = 1_500
BATCH = 8
OUTPUT_TOKENS = 12
CPU_FLAGS = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}}

SEPARATE = ("--prefill", 1, "--decode", 1)
MIXED = ("--prefill", 0, "--decode", 0, "--mixed", 1)
REFERENCE = (*MIXED, "--threads", 1, "--chunk-tokens", 512, "--no-prefix-cache")


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of the store and what is asked of it."""
    name: str
    requests: int
    # Rows of a sliding layer that lie beyond it do not see the whole prompt. None means that no layer slides.
    window: int | None
    # The scalar kernels define the result; they are slow.
    max_scalar_prompt_tokens: int

    def draw_length(self, rng, number):
        if self.window and number % 4 == 0:
            return rng.randrange(self.window + 1, 2 * self.window)
        return round(MAX_PROMPT_TOKENS ** rng.random())


# Between them the models have weights in Q4_1, Q4_K, Q5_0, Q6_K and Q8_0. In the first every layer sees everything;
# in the second five of six layers slide.
MODELS = [Model("smollm2-135m-instruct", 200 if FULL else 24, window=None, max_scalar_prompt_tokens=48),
          Model("gemma-3-270m", 40 if FULL else 12, window=512, max_scalar_prompt_tokens=24)]


@dataclasses.dataclass(frozen=True)
class Configuration:
    name: str
    args: tuple
    isa: str = "auto"
    prefix_cache: bool = False
    kv_dtype: str = "bf16"

    def command(self, model):
        isa = self.isa if machine_runs(self.isa) else "auto"
        cache = () if self.prefix_cache else ("--no-prefix-cache",)
        return (model.name, *self.args, "--kv-dtype", self.kv_dtype, "--isa", isa, *cache)

    def takes(self, model, prompt):
        return self.isa != "scalar" or len(prompt) <= model.max_scalar_prompt_tokens


@dataclasses.dataclass(frozen=True)
class Request:
    number: int
    prompt: list
    seed: int

    def run(self, client, prompt=None):
        sampling = {"temperature": 0.8, "top_p": 0.95, "seed": self.seed, "max_tokens": OUTPUT_TOKENS,
                    "ignore_eos": True}
        return client.generate(prompt or self.prompt, sampling, return_kv_digest=True)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One request as it is to run in a configuration."""
    request: Request
    alone: bool
    # Number of tokens at the start of the prompt that are sent before it as a request of their own.
    warm_tokens: int


def machine_runs(isa):
    if isa not in CPU_FLAGS:
        return True
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return CPU_FLAGS[isa] <= set(line.split(":")[1].split())
    return False


def draw_configurations(rng):
    chunk = lambda: ("--chunk-tokens", rng.choice([16, 32, 48, 64, 100, 128, 256, 512]))
    return [
        Configuration("separate over shared memory, prefix cache",
                      (*SEPARATE, "--transport", "shm", "--threads", 2, *chunk()), prefix_cache=True),
        Configuration("separate over TCP", (*SEPARATE, "--transport", "tcp", "--threads", 1, *chunk())),
        Configuration("mixed, prefix cache", (*MIXED, "--threads", 2, *chunk()), prefix_cache=True),
        Configuration("separate over shared memory, chunks of 16, avx2",
                      (*SEPARATE, "--transport", "shm", "--threads", 2, "--chunk-tokens", 16), isa="avx2"),
        Configuration("separate over TCP, prefix cache, avx512",
                      (*SEPARATE, "--transport", "tcp", "--threads", 1, *chunk()), isa="avx512", prefix_cache=True),
        Configuration("mixed, scalar", (*MIXED, "--threads", 2, "--chunk-tokens", 16), isa="scalar"),
        Configuration("separate over shared memory, prefix cache, int8 KV",
                      (*SEPARATE, "--transport", "shm", "--threads", 2, *chunk()), prefix_cache=True, kv_dtype="int8"),
        Configuration("separate over TCP, int8 KV",
                      (*SEPARATE, "--transport", "tcp", "--threads", 1, *chunk()), kv_dtype="int8"),
    ]


def draw_requests(rng, model, prose_ids, numbers):
    requests = []
    for number in numbers:
        length = model.draw_length(rng, number)
        start = rng.randrange(len(prose_ids) - length)
        requests.append(Request(number, prose_ids[start:start + length], rng.getrandbits(64)))
    return requests


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.name)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def plan(model):
    """({KV type: requests}, what each configuration runs)."""
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    configurations = draw_configurations(rng)
    prose_ids = tokenize_prose("--model", model.name)
    end = model.requests
    requests = {"bf16": draw_requests(rng, model, prose_ids, range(end)),
                "int8": draw_requests(rng, model, prose_ids, range(end, end + end // 5))}
    drawn = {configuration: [] for configuration in configurations}
    for kv_dtype, of_type in requests.items():
        for request in of_type:
            fitting = [c for c in configurations if c.kv_dtype == kv_dtype and c.takes(model, request.prompt)]
            for configuration in rng.sample(fitting, min(CONFIGURATIONS_PER_REQUEST, len(fitting))):
                warm = rng.randrange(len(request.prompt)) if configuration.prefix_cache and rng.random() < 0.5 else 0
                drawn[configuration].append(Drawn(request, alone=rng.random() < 0.3, warm_tokens=warm))
    return requests, drawn


@pytest.fixture(scope="module")
def reference(model, plan):
    """(token ids, KV digest) of each request in the reference configuration of its KV type, one at a time."""
    results = {}
    for kv_dtype, requests in plan[0].items():
        with Cluster(model.name, *REFERENCE, "--kv-dtype", kv_dtype) as cluster, Client(cluster.target) as client:
            for request in requests:
                generation = request.run(client)
                assert len(generation.token_ids) == OUTPUT_TOKENS and len(generation.kv_digest) == 32
                results[request.number] = (generation.token_ids, generation.kv_digest)
    return results


def run_drawn(client, drawn):
    if drawn.warm_tokens:
        drawn.request.run(client, drawn.request.prompt[:drawn.warm_tokens])
    return drawn.request.run(client)


def run_all(client, items):
    """{request number: generation}. Requests that need not be alone run BATCH at a time."""
    results = {item.request.number: run_drawn(client, item) for item in items if item.alone}
    together = [item for item in items if not item.alone]
    with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
        generations = pool.map(lambda item: run_drawn(client, item), together)
        results.update(zip((item.request.number for item in together), generations))
    return results


def describe_difference(item, results, reference):
    number = item.request.number
    kv = "equal" if results[number].kv_digest == reference[number][1] else "differs"
    return (f"request {number}: {len(item.request.prompt)} prompt tokens, {'alone' if item.alone else 'in a batch'}, "
            f"{item.warm_tokens} warm, KV {kv}")


@pytest.mark.parametrize("index", range(len(draw_configurations(random.Random(SEED)))),
                         ids=[c.name for c in draw_configurations(random.Random(SEED))])
def test_tokens_and_kv_equal_the_reference(model, plan, reference, index):
    configuration, items = list(plan[1].items())[index]
    assert items, "the draw left this configuration out: more requests are needed"
    with Cluster(*configuration.command(model)) as cluster, Client(cluster.target) as client:
        results = run_all(client, items)
    wrong = [describe_difference(item, results, reference) for item in items
             if (results[item.request.number].token_ids, results[item.request.number].kv_digest)
             != reference[item.request.number]]
    command = " ".join(map(str, configuration.command(model)))
    assert not wrong, f"BATON_TEST_SEED={SEED}, {command}: {len(wrong)} of {len(items)} differ: {wrong}"
    hits = sum(results[item.request.number].finished.usage.cached_prompt_tokens >= item.warm_tokens // 16 * 16 > 0
               for item in items)
    wanted = sum(item.warm_tokens >= 16 for item in items)
    assert hits == wanted, f"{hits} prefix hits, {wanted} prompts had been sent in part before"
    if not machine_runs(configuration.isa):
        pytest.skip(f"this machine has no {configuration.isa}: the configuration ran with what it has")


def test_different_seeds_give_different_tokens(reference):
    """The comparison above can fail: requests differ."""
    assert len({tuple(tokens) for tokens, _ in reference.values()}) > len(reference) * 0.9
    assert len({digest for _, digest in reference.values()}) > len(reference) * 0.9
