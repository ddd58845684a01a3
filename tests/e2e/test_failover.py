"""Workers are killed while streams run, and no client sees more of it than a pause: every stream ends with exactly the
tokens, the log-probabilities and the text that it has where nothing fails. BATON_TEST_SEED draws other requests and
victims; with BATON_FULL_TESTS=1 there are more of both."""

import concurrent.futures
import dataclasses
import itertools
import os
import random
import signal
import statistics
import threading
import time

import grpc

from client import Client
from cluster import Cluster, wait_until

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = int(os.environ.get("BATON_TEST_SEED", "20261124"))
STREAMS = 300 if FULL else 24
REQUESTS = 60 if FULL else 16
KILLS = 30 if FULL else 6
ROLES = ("--prefill", 2, "--decode", 2, "--threads", 1, "--kv-memory", "256MiB")
WORKERS = 4
KILL_EVERY_S = 2
RETURN_TIMEOUT_S = 30
STREAM_TIMEOUT_S = 600
FREE_TIMEOUT_S = 20


@dataclasses.dataclass
class Request:
    prompt: list
    sampling: dict
    stop: list
    expected: object = None


@dataclasses.dataclass
class Answer:
    # (id, log-probability, likely tokens) of each.
    tokens: list = dataclasses.field(default_factory=list)
    text: str = ""
    finish: object = None
    error: object = None
    # The longest time between two of its messages: the first one may wait for a place.
    longest_pause_s: float = 0.0

    def content(self):
        return self.tokens, self.text, self.finish


def draw_requests(rng, prose_ids):
    requests = []
    for number in range(REQUESTS):
        length = rng.randint(20, 200)
        start = rng.randrange(len(prose_ids) - length)
        sampling = {"max_tokens": rng.randint(40, 150)}
        if number % 2:
            sampling |= {"temperature": 1.0, "top_p": 0.95, "seed": rng.getrandbits(40)}
        if number % 3 == 0:
            sampling |= {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.1}
        if number % 4 == 0:
            sampling |= {"logprobs": 2}
        if number % 5 == 0:
            sampling |= {"ignore_eos": True}
        stop = [rng.choice([" the", ".", " of"])] if number % 6 == 0 else []
        requests.append(Request(prose_ids[start:start + length], sampling, stop))
    return requests


def run(client, request, tenant):
    answer = Answer()
    message = client.generate_request(request.prompt, request.sampling, stop=request.stop, tenant=tenant)
    last = None
    try:
        for response in client.start(message, STREAM_TIMEOUT_S):
            now = time.monotonic()
            answer.longest_pause_s, last = max(answer.longest_pause_s, now - (last or now)), now
            if response.HasField("finished"):
                answer.finish = response.finished.reason
                continue
            answer.text += response.output.text
            for token in response.output.tokens:
                assert token.index == len(answer.tokens), "output tokens out of order"
                likely = [(one.id, one.logprob) for one in token.top_logprobs]
                answer.tokens.append((token.id, token.logprob, likely))
    except grpc.RpcError as error:
        answer.error = error
    return answer


class Streams:
    """Clients that send one request after another until they are stopped."""

    def __init__(self, client, requests):
        self._client, self._requests = client, requests
        self._stopping = threading.Event()
        self.problems, self.pauses_s = [], []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(STREAMS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        for turn in itertools.count(number):
            if self._stopping.is_set():
                return
            request = self._requests[turn % len(self._requests)]
            try:
                answer = run(self._client, request, tenant="")
            except AssertionError as error:
                # It would end this thread alone.
                self.problems.append(str(error))
                return
            self.pauses_s.append(answer.longest_pause_s)
            if answer.error is not None:
                self.problems.append(f"{answer.error.code()}: {answer.error.details()} after {len(answer.tokens)} tokens")
            elif answer.content() != request.expected.content():
                self.problems.append(f"{answer} instead of {request.expected}")


def serving(cluster):
    return [worker for worker in cluster.workers() if worker["state"] == "serving"]


def kill_one(cluster, rng):
    """Returns when its successor serves."""
    before = serving(cluster)
    victim = rng.choice(before)
    os.kill(victim["pid"], signal.SIGKILL)

    def is_back():
        now = serving(cluster)
        return len(now) == WORKERS and all(worker["pid"] != victim["pid"] for worker in now)

    wait_until(is_back, RETURN_TIMEOUT_S, f"a successor of {victim['role']} worker {victim['pid']}")


def test_streams_outlive_their_workers_with_exactly_the_same_tokens(prose_ids):
    print(f"BATON_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    requests = draw_requests(rng, prose_ids)
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for request, answer in zip(requests, pool.map(lambda one: run(client, one, "oracle"), requests)):
                assert answer.error is None, answer.error
                request.expected = answer
        with Streams(client, requests) as streams:
            for _ in range(KILLS):
                next_kill = time.monotonic() + KILL_EVERY_S
                kill_one(cluster, rng)
                time.sleep(max(0, next_kill - time.monotonic()))
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert len(streams.pauses_s) >= STREAMS
        pauses = sorted(streams.pauses_s)
        print(f"{len(pauses)} streams, {KILLS} kills; longest pause of a stream: median {statistics.median(pauses):.2f} s, "
              f"P99 {pauses[int(0.99 * (len(pauses) - 1))]:.2f}, most {pauses[-1]:.2f}")
        wait_until(lambda: not any(worker["used_blocks"] for worker in serving(cluster)), FREE_TIMEOUT_S, "free blocks")
