"""Streams that compare all that a client gets, token for token, with what it gets where nothing fails."""

import concurrent.futures
import dataclasses
import itertools
import threading
import time

import grpc

STREAM_TIMEOUT_S = 600


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


def draw_requests(rng, prose_ids, count):
    requests = []
    for number in range(count):
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


def learn_answers(client, requests):
    """What is expected from here on: call it where nothing fails."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for request, answer in zip(requests, pool.map(lambda one: run(client, one, "oracle"), requests)):
            assert answer.error is None, answer.error
            request.expected = answer


class Streams:
    """Clients that send one request after another until they are stopped. What is not as expected is in `problems`."""

    def __init__(self, client, requests, streams):
        self._client, self._requests = client, requests
        self._stopping = threading.Event()
        self.problems, self.pauses_s = [], []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(streams)]

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
