"""Workers without an engine, in a process of their own: python paced_worker.py CLUSTER_TARGET MODEL WORKERS SLOTS [active].

They join a router as mixed workers and make the tokens of their calls on a clock. Where they are told "active", all streams
are; otherwise the seed of a request says which:
  below 1,000,000           an active stream: TOKENS_A_SECOND tokens each second
  from 1,000,000            an idle stream: its first token, and then none
  from 2,000,000            a flood: FLOOD_TOKENS in each step, with LIKELY likely tokens each
It says "joined" once all have joined, and counts what it is told, one JSON object for each line of its input. A test runs it
as `with PacedWorkers(router) as workers`.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc

from internal_messages import hello_like, internal_messages
from joined_worker import JOIN, OWN_CHANNEL

MODEL = "smollm2-135m-instruct"
WORKERS, SLOTS = 8, 512
TOKENS_A_SECOND = 4
IDLE, FLOOD = 1_000_000, 2_000_000
FLOOD_TOKENS = 300
LIKELY = {"logprob": -1, "top_ids": list(range(100, 120)), "top_logprobs": [-1 - 0.1 * i for i in range(20)]}
STEP_S = 1 / TOKENS_A_SECOND
# A letter in most vocabularies.
TOKEN = 100
LENGTH = 2


class PacedWorker:
    def __init__(self, target, messages, model, slots, all_active=False):
        self._all_active = all_active
        self._message = messages("WorkerMessage")
        self._lock, self._wakes = threading.Condition(), []
        self._calls, self._membership = {}, b""
        self.started = self.cancelled = self.tokens = 0
        hello = {"role": "mixed", "incarnation": uuid.uuid4().hex, "address": "stub:1", "model": model, "fingerprint": "stub"}
        hello = hello_like(hello, max_sequences=slots, total_blocks=slots * 512)
        join = grpc.insecure_channel(target, OWN_CHANNEL).stream_stream(
            JOIN, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages("RouterMessage").FromString)
        self._call = join(self._says(hello))
        threading.Thread(target=self._listens, daemon=True).start()

    @property
    def has_joined(self):
        return bool(self._membership)

    def step(self):
        """The next token of every call that has one, and the load."""
        with self._lock:
            if not self._membership:
                return
            message = self._message(membership=self._membership, load={"free_blocks": 500_000, "running": len(self._calls)})
            for call, state in list(self._calls.items()):
                seed, sent, most = state
                count = 1 if seed < IDLE or sent == 0 else FLOOD_TOKENS if seed >= FLOOD else 0
                for _ in range(min(count, most - sent)):
                    message.tokens.add(call=call, index=state[1], id=TOKEN, finish=LENGTH if state[1] + 1 == most else 0,
                                       **(LIKELY if seed >= FLOOD else {}))
                    state[1] += 1
                    self.tokens += 1
                if state[1] == most:
                    del self._calls[call]
                    message.finished.add(call=call)
                    message.ended.add(call=call)
            self._push(message)

    def _push(self, message):
        self._wakes.append(message)
        self._lock.notify()

    def _says(self, hello):
        yield self._message(hello=hello)
        while True:
            with self._lock:
                while not self._wakes:
                    self._lock.wait()
                message = self._wakes.pop(0)
            yield message

    def _listens(self):
        for said in self._call:
            with self._lock:
                if said.HasField("accepted"):
                    self._membership = said.accepted.membership
                answer = self._message(membership=self._membership)
                for start in said.starts:
                    seed = 0 if self._all_active else start.job.sampling.seed
                    self._calls[start.call] = [seed, 0, start.job.sampling.max_tokens]
                    self.started += 1
                    answer.started.add(call=start.call)
                for call in said.cancels:
                    if self._calls.pop(call, None) is not None:
                        self.cancelled += 1
                        answer.ended.add(call=call, code=grpc.StatusCode.CANCELLED.value[0])
                if answer.started or answer.ended:
                    self._push(answer)


class PacedWorkers:
    """The process, as the test sees it that started it."""

    def __init__(self, router, *more):
        self.process = subprocess.Popen([sys.executable, __file__, router.cluster_target, MODEL, str(WORKERS), str(SLOTS), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        assert self.process.stdout.readline().strip() == "joined", self.process.poll()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def counts(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    target, model, workers, slots = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        messages = internal_messages(pathlib.Path(folder))
    paced = [PacedWorker(target, messages, model, slots, sys.argv[5:] == ["active"]) for _ in range(workers)]
    while not all(worker.has_joined for worker in paced):
        time.sleep(0.01)
    print("joined", flush=True)

    def counts():
        for _ in sys.stdin:
            names = ("started", "cancelled", "tokens")
            print(json.dumps({name: sum(getattr(worker, name) for worker in paced) for name in names}), flush=True)

    threading.Thread(target=counts, daemon=True).start()
    due = time.monotonic()
    while True:
        # The workers' steps are spread evenly.
        for worker in paced:
            due += STEP_S / workers
            time.sleep(max(0.0, due - time.monotonic()))
            worker.step()


if __name__ == "__main__":
    main()
