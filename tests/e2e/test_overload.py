"""More requests than the workers can serve: what is accepted is served, the rest is refused at once and told the truth.

BATON_FULL_TESTS=1 sends 0.5 to 3 times the capacity for a minute each; otherwise 0.5, 1 and 3 times for some seconds.
"""

import os
import random
import statistics
import threading
import time

import grpc

from client import Background, Client, error_detail, read_stream
from cluster import Cluster, tokenize_prose, wait_until

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
SEED = 21
ROLES = ("--prefill", 1, "--decode", 1, "--threads", 1, "--max-seqs", 4)
LOADS = (0.5, 1.0, 1.5, 2.0, 3.0) if FULL else (0.5, 1.0, 3.0)
RUN_S = 60 if FULL else 12
PROMPT_TOKENS = 300
# Its length is certain, so the router knows how long an answer takes at the least.
SAMPLING = {"max_tokens": 8, "ignore_eos": True}
# Closed-loop clients that keep the workers busy, to learn what they can serve.
BUSY_CLIENTS = 12
LEARN_S = 8
# Of the best goodput, of what was accepted, and of the modest tenant's requests. A neighbour on the machine that takes a core
# in the middle of a short run weighs more. None that was accepted fails while the workers keep half of their pace.
LEAST_GOODPUT, MOST_FAILED, LEAST_MODEST = (0.75, 0.02, 0.75) if FULL else (0.6, 0.05, 0.6)
# As long as the queue takes for about so many requests.
DEADLINE_REQUESTS = 30
# What a refusal takes of the router's cores, in full, and how many are measured beside how many answers.
REFUSAL_MS = 1
REFUSALS, ANSWERS = (2_000, 100) if FULL else (500, 30)


def retry_after_s(error):
    delay = error_detail(error, "RetryInfo")
    return None if delay is None else delay.retry_delay.seconds + delay.retry_delay.nanos / 1e9


class OpenLoop:
    """Sends `per_second` requests of a tenant at random, each on a thread of its own, whatever the answers are."""

    def __init__(self, client, ids, rng, tenant, per_second, deadline_s):
        self.sent, self.ok, self.refused, self.failed = 0, 0, [], []
        self.ttft_s = []
        self._client, self._ids, self._rng = client, ids, rng
        self._tenant, self._per_second, self._deadline_s = tenant, per_second, deadline_s
        self._lock = threading.Lock()
        self._threads = []

    def run(self, seconds):
        until = time.monotonic() + seconds
        at = time.monotonic()
        while True:
            at += self._rng.expovariate(self._per_second)
            if at >= until:
                break
            time.sleep(max(0.0, at - time.monotonic()))
            begin = self._rng.randrange(len(self._ids) - PROMPT_TOKENS)
            thread = threading.Thread(target=self._send, args=(self._ids[begin:begin + PROMPT_TOKENS],))
            self.sent += 1
            self._threads.append(thread)
            thread.start()
        for thread in self._threads:
            thread.join()

    def _send(self, prompt):
        began, first = time.monotonic(), []
        request = self._client.generate_request(prompt, SAMPLING, tenant=self._tenant)
        generation = read_stream(self._client.start(request, self._deadline_s),
                                 lambda _: first or first.append(time.monotonic()))
        with self._lock:
            if generation.error is None:
                self.ok += 1
                self.ttft_s.append(first[0] - began)
            elif generation.error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and not first:
                took_s = time.monotonic() - began
                # One that was dropped from the queue had been accepted.
                kind = self.failed if "no worker had room in time" in generation.error.details() else self.refused
                kind.append((took_s, retry_after_s(generation.error)))
                if kind is self.failed:
                    print(f"{self._tenant}: dropped after {took_s:.1f} s")
            else:
                self.failed.append((time.monotonic() - began, None))
                print(f"{self._tenant}: {generation.error.code()} after {len(generation.token_ids)} tokens and "
                      f"{time.monotonic() - began:.1f} s: {generation.error.details()}")


def capacity(cluster, client, ids):
    """Requests a second where enough of them wait."""
    done, is_over = [], threading.Event()

    def serve(number):
        while not is_over.is_set():
            begin = 11 * number + 13 * len(done) % (len(ids) // 2)
            client.generate(ids[begin:begin + PROMPT_TOKENS], SAMPLING, tenant="warm")
            done.append(time.monotonic())

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(BUSY_CLIENTS)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(done) >= BUSY_CLIENTS, 120, "answers")
    began, before = time.monotonic(), len(done)
    time.sleep(LEARN_S)
    per_second = (len(done) - before) / (time.monotonic() - began)
    is_over.set()
    for thread in threads:
        thread.join()
    return per_second


def test_goodput_holds_beyond_the_capacity():
    ids = tokenize_prose()
    rng = random.Random(SEED)
    goodput, refusals, rows = {}, [], []
    with Cluster(*ROLES) as cluster, Client(cluster.target) as client:
        per_second = capacity(cluster, client, ids)
        deadline_s = DEADLINE_REQUESTS / per_second
        print(f"\nseed {SEED}, capacity {per_second:.1f} requests/s, deadline {deadline_s:.1f} s")
        for load in LOADS:
            tenants = [OpenLoop(client, ids, random.Random(rng.random()), tenant, share * per_second, deadline_s)
                       for tenant, share in (("hostile", load - 0.2), ("modest", 0.2))]
            threads = [threading.Thread(target=one.run, args=(RUN_S,)) for one in tenants]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            hostile, modest = tenants
            goodput[load] = (hostile.ok + modest.ok) / (time.monotonic() - began)
            refusals += hostile.refused + modest.refused
            rows.append((load, hostile, modest))
            print(f"{load:.1f}: goodput {goodput[load]:.1f}/s; hostile {hostile.sent} sent, {hostile.ok} ok, "
                  f"{len(hostile.refused)} refused, {len(hostile.failed)} failed; modest {modest.sent} sent, {modest.ok} ok, "
                  f"{len(modest.refused)} refused, {len(modest.failed)} failed")
        # The line is worked off, and the cluster serves as if nothing had been.
        began = time.monotonic()
        client.generate(ids[:PROMPT_TOKENS], SAMPLING, timeout_s=60)
        print(f"a request after it took {time.monotonic() - began:.2f} s")
    assert refusals, "nothing was refused"
    took = sorted(took_s for took_s, _ in refusals)
    print(f"refusals: median {statistics.median(took) * 1e3:.1f} ms, of {len(took)}")
    assert all(after_s is not None and after_s >= 0.05 for _, after_s in refusals), "a refusal does not say when to come back"
    assert goodput[LOADS[-1]] >= LEAST_GOODPUT * max(goodput.values()), goodput
    # The router counts on half of the pace, so a neighbour on the machine has to take more than that from what was accepted.
    # Nearly all of the hostile tenant's requests would fail if none were refused.
    for load, hostile, modest in rows:
        failed = len(hostile.failed) + len(modest.failed)
        assert failed <= MOST_FAILED * (hostile.ok + modest.ok + failed), f"{failed} accepted requests failed at {load}"
    # The modest tenant wants less than its share, so it gets nearly all of it.
    _, _, modest = rows[-1]
    assert modest.ok >= LEAST_MODEST * modest.sent, f"{modest.ok} of {modest.sent} requests of the modest tenant"


def test_a_tenant_that_has_used_up_its_tokens_is_told_when_to_come_back():
    with Cluster("--mixed", 1, "--prefill", 0, "--decode", 0, "--threads", 1, "--tenant-tokens-per-second", 20,
                 "--tenant-burst-tokens", 100) as cluster, Client(cluster.target) as client:
        ids = tokenize_prose()
        prompt, sampling = ids[:60], {"max_tokens": 10, "ignore_eos": True}
        # It has been paid for when its first token comes. At its end a slow machine would have given tokens back.
        first = Background(client, prompt, sampling, tenant="a")
        assert first.began.wait(60), "no token came"
        generation = read_stream(client.start(client.generate_request(prompt, sampling, tenant="a")))
        assert generation.error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        after_s = retry_after_s(generation.error)
        # 80 of 100 tokens are used, and 60 are missing.
        assert 0 < after_s <= 3, after_s
        assert first.result().error is None
        client.generate(prompt, sampling, tenant="b")
        time.sleep(after_s)
        client.generate(prompt, sampling, tenant="a")


def cpu_ns(pid):
    """What a process has taken of the cores; threads that have ended included (clock_getcpuclockid)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def test_a_refusal_takes_less_of_the_router_than_an_answer_of_one_token():
    """How long it waits for a core beside the workers is the machine's matter. The dispatcher's own part with a full line is
    in DispatcherAdmissionTest."""
    with Cluster("--mixed", 1, "--prefill", 0, "--decode", 0, "--threads", 1, "--tenant-tokens-per-second", 1,
                 "--tenant-burst-tokens", 70) as cluster, Client(cluster.target) as client:
        ids = tokenize_prose()
        prompt, sampling = ids[:60], {"max_tokens": 1, "ignore_eos": True}
        router = cluster.pid_of("router")

        def per_request_ms(tenants):
            """CPU time of the router, and how each of the requests ended, one after the other."""
            before = cpu_ns(router)
            generations = [read_stream(client.start(client.generate_request(prompt, sampling, tenant=tenant)))
                           for tenant in tenants]
            return (cpu_ns(router) - before) / 1e6 / len(tenants), generations

        # Its tokens are enough again after a minute.
        _, generations = per_request_ms(["spent"])
        assert generations[0].error is None
        refusal_ms, generations = per_request_ms(["spent"] * REFUSALS)
        assert all(retry_after_s(generation.error) > 0 for generation in generations), "not all were refused"
        answer_ms, generations = per_request_ms([f"tenant {number}" for number in range(ANSWERS)])
        assert all(generation.error is None for generation in generations)
    print(f"CPU time of the router: {refusal_ms:.3f} ms a refusal, {answer_ms:.3f} ms an answer of one token")
    assert refusal_ms < answer_ms
    assert not FULL or refusal_ms < REFUSAL_MS
