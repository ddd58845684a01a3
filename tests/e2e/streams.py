"""Streams that compare all that a client gets, token for token, with what it gets where nothing fails."""

import concurrent.futures
import dataclasses
import itertools
import json
import random
import statistics
import threading
import time
import uuid

import grpc

from client import Client
from cluster import Cluster, run_baton, wait_until
from history import Call, problems_of

STREAM_TIMEOUT_S = 600
# A kept job that gets no message for so long has failed; a router that was killed is back within seconds.
RESUME_TIMEOUT_S = 120
RESUME_EVERY_S = 0.1
# A worker reports every 5 s, and keeps what a lost reader may still read for its lease of about 16 s.
LEDGER_TIMEOUT_S = 60


@dataclasses.dataclass
class Request:
    prompt: list
    sampling: dict
    stop: list
    expected: object = None


@dataclasses.dataclass
class Answer:
    # (index, id, log-probability, likely tokens) of each.
    tokens: list = dataclasses.field(default_factory=list)
    text: str = ""
    finish: object = None
    error: object = None
    job_id: str = ""
    resumes: int = 0
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


def _read(stream, answer, call, last):
    """Reads until the stream ends or breaks. `last` holds when the last output came."""
    for response in stream:
        now = time.monotonic()
        # A router of an older version may not know all of these.
        event = response.WhichOneof("event")
        if event == "accepted":
            answer.job_id = response.accepted.job_id
            call.note("accepted", answer.job_id, now)
            continue
        answer.longest_pause_s, last[0] = max(answer.longest_pause_s, now - (last[0] or now)), now
        if event == "finished":
            answer.finish = response.finished.reason
            call.note("finished", (response.finished.job_id, answer.finish, response.finished.usage.output_tokens), now)
            continue
        for token in response.output.tokens:
            likely = [(one.id, one.logprob) for one in token.top_logprobs]
            answer.tokens.append((token.index, token.id, token.logprob, likely))
            call.note("token", (token.index, answer.tokens[-1]), now)
        answer.text += response.output.text
        call.note("text", response.output.text, now)


def run(client, request, tenant, call=None, key="", timeout_s=STREAM_TIMEOUT_S):
    """Runs a request to its end, and notes in `call` what comes. With a key its job is kept: whenever the router is not
    there, it goes on where it was, or is sent again where no answer has come."""
    answer, last = Answer(), [None]
    call = call or Call(None, timeout_s)
    # A router of an older version may not know the field.
    kept = {"idempotency_key": key} if key else {}
    message = client.generate_request(request.prompt, request.sampling, stop=request.stop, tenant=tenant, **kept)
    call.note("sent")
    stream = client.start(message, timeout_s)
    while True:
        try:
            _read(stream, answer, call, last)
            return answer
        except grpc.RpcError as error:
            waited_s = time.monotonic() - next(at for at, kind, _ in reversed(call.events) if kind != "resumed")
            if not key or error.code() != grpc.StatusCode.UNAVAILABLE or waited_s > RESUME_TIMEOUT_S:
                answer.error = error
                call.note("failed", (error.code(), error.details()))
                return answer
        time.sleep(RESUME_EVERY_S)
        answer.resumes += 1
        call.note("resumed", len(answer.tokens))
        stream = (client.resume(answer.job_id, len(answer.tokens), len(answer.text.encode()), timeout_s)
                  if answer.job_id else client.start(message, timeout_s))


def learn_answers(client, requests):
    """What is expected from here on: call it where nothing fails."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for request, answer in zip(requests, pool.map(lambda one: run(client, one, "oracle"), requests)):
            assert answer.error is None, answer.error
            request.expected = answer


def learned_requests(seed, prose_ids, count, roles, max_tokens=None):
    """So many requests, drawn by the seed, with the answers of a cluster of these roles in which nothing fails. `max_tokens`:
    instead of what is drawn."""
    requests = draw_requests(random.Random(seed), prose_ids, count)
    if max_tokens is not None:
        for request in requests:
            request.sampling["max_tokens"] = max_tokens
    with Cluster(*roles) as cluster, Client(cluster.target) as client:
        learn_answers(client, requests)
    return requests


class Streams:
    """Clients that send one request after another until they are stopped. What is not as expected is in `problems`.

    `kept`: their jobs outlive the router, and they resume. `allowed_codes`: an error of these is no problem.
    """

    def __init__(self, client, requests, streams, kept=False, allowed_codes=(), timeout_s=STREAM_TIMEOUT_S):
        self._client, self._requests = client, requests
        self._kept, self._allowed, self._timeout_s = kept, allowed_codes, timeout_s
        self._stopping = threading.Event()
        self.problems, self.pauses_s, self.calls = [], [], []
        self.errors = self.resumes = 0
        # How many streams each client has ended.
        self._ended = [0] * streams
        self._lock = threading.Lock()
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
            call = Call(request.expected.content(), self._timeout_s)
            answer = run(self._client, request, "", call, uuid.uuid4().hex if self._kept else "", self._timeout_s)
            with self._lock:
                self.calls.append(call)
                self.problems += problems_of(call, self._allowed)
                self.pauses_s.append(answer.longest_pause_s)
                self.errors += answer.error is not None
                self.resumes += answer.resumes
                self._ended[number] += 1

    def await_turn(self, timeout_s):
        """Until each client has ended the stream that it has now."""
        before = list(self._ended)
        wait_until(lambda: all(now > then for now, then in zip(self._ended, before)), timeout_s,
                   "a stream of each client")

    def pauses(self):
        """In words: how many streams, and their longest pauses."""
        pauses = sorted(self.pauses_s)
        p99_s = pauses[int(0.99 * (len(pauses) - 1))]
        return (f"{len(pauses)} streams, {self.errors} errors; longest pause of a stream: median "
                f"{statistics.median(pauses):.2f} s, P99 {p99_s:.2f}, most {pauses[-1]:.2f}")


def await_no_block_held(target, workers, client_flags=()):
    """Returns when so many workers say that nothing holds a block of theirs, and the router that no call is open."""
    def nothing_held():
        result = run_baton("ledger", "--target", target, "--json", *client_flags)
        if result.returncode != 0:
            return False
        said = json.loads(result.stdout)
        return (said["open_calls"] == said["orphaned_blocks"] == 0 and len(said["workers"]) == workers and
                all(one["reported"] and one["held_blocks"] == 0 for one in said["workers"]))

    wait_until(nothing_held, LEDGER_TIMEOUT_S, "a ledger without holders")
