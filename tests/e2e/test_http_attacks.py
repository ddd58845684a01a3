"""The HTTP port under attack: whatever comes, it gets an answer or an end in time, nobody sees a request that was not sent,
nothing fails inside, the others are served as before, and nothing stays behind.

BATON_FULL_TESTS=1 sends random requests for five minutes and waits for the longer time-outs; otherwise it takes seconds. The
seed is printed, and BATON_ATTACK_SEED repeats it. Of a binary with sanitizers no process may have reported anything.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import random
import socket
import struct
import threading
import time

import pytest

from cluster import Cluster, wait_until
from http_attacks import COMPLETION, GET, GROUPS, MESSAGE, STREAMED, in_pieces, mutated, post
from raw_http import ask, connect, parse, receive_to_end, talk

FULL = os.environ.get("BATON_FULL_TESTS") == "1"
RANDOM_S = 300 if FULL else 6
AT_ONCE = 16
# For a response to what has been sent whole, before the client half-closes.
PATIENCE_S = 10
# An answer, or an end, of what needs no waiting: far above what a loaded machine needs, also with a sanitizer.
SOON_S = 20
# docs/openai.md names them.
HEADER_S, BODY_S, IDLE_S = 10, 30, 120
# What a failure of the server looks like; the three are of what is not built, not there, or not spoken. 529 is the 503 of
# Anthropic's API.
FINE_5XX = (501, 503, 505, 529)
STEP_S = 0.5


def with_option(name, option):
    """The environment's options of a sanitizer, and this one."""
    return ":".join(filter(None, (os.environ.get(name), option)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    reports = tmp_path_factory.mktemp("reports")
    # Where sanitizers write; a build without them knows neither variable. A supervisor may end well although a process has
    # reported what it leaked.
    env = {name: with_option(name, f"log_path={reports}/of") for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
    try:
        with Cluster("--prefill", 0, "--decode", 0, "--mixed", 1, "--threads", 1, env=env) as cluster:
            yield cluster
    finally:
        found = [report.read_text() for report in sorted(reports.iterdir())]
        assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def router(cluster):
    return cluster.pid_of("router")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmRSS:"))


@pytest.fixture(autouse=True)
def is_as_before(cluster, router):
    """After each test an ordinary request is served by the same process, and no descriptor is left."""
    assert serves(cluster)
    before = descriptors(router)
    yield
    assert serves(cluster)
    assert cluster.pid_of("router") == router, "the router has ended"
    wait_until(lambda: descriptors(router) <= before, SOON_S, f"{before} descriptors of the router")
    cluster.await_idle(60)


def serves(cluster):
    health = ask(cluster.http, GET)
    answer = ask(cluster.http, post(b"/v1/completions", COMPLETION))
    assert (health.status, answer.status) == (200, 200), (health, answer)
    return True


def judge(name, data, outcome):
    """What no client may ever see."""
    shown = (name, data[:600], outcome.statuses, outcome.rest[:200])
    assert all(status < 500 or status in FINE_5XX for status in outcome.statuses), shown
    assert all(not response.closes for response in outcome.responses[:-1]), shown
    assert not any(b"/smuggled" in response.body for response in outcome.responses), shown


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_what_is_wrong_or_ambiguous_is_refused_and_ends(cluster, group):
    def attack_with(attack):
        outcome = talk(cluster.http, [attack.data], wants=attack.most, patience_s=PATIENCE_S, end_s=SOON_S)
        judge(attack.name, attack.data, outcome)
        shown = (attack.name, outcome.statuses, outcome.rest[:200])
        assert len(outcome.responses) <= attack.most, shown
        assert all(status in attack.statuses for status in outcome.statuses), shown
        assert outcome.responses or not attack.is_answered, shown
        assert not attack.closes or not outcome.responses or outcome.responses[-1].closes, shown

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(attack_with, group()))


def test_an_attack_in_single_bytes_is_answered_alike(cluster):
    """Where a request is cut changes nothing."""
    def both(attack):
        in_bytes = [attack.data[i:i + 1] for i in range(len(attack.data))]
        whole, bytewise = (talk(cluster.http, pieces, wants=attack.most, patience_s=PATIENCE_S, end_s=SOON_S)
                           for pieces in ([attack.data], in_bytes))
        assert whole.statuses == bytewise.statuses, (attack.name, whole.statuses, bytewise.statuses)

    short = [attack for group in GROUPS for attack in group() if len(attack.data) < 2000]
    assert len(short) > 100
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(both, short if FULL else short[::4]))


def drip(cluster, head, byte, limit_s, ends):
    """Sends `byte` after `head` again and again, and notes after how long the server closed."""
    with connect(cluster.http) as connection:
        connection.sendall(head)
        began = time.monotonic()
        connection.settimeout(STEP_S)
        while time.monotonic() - began < limit_s + SOON_S:
            try:
                connection.sendall(byte)
                if not connection.recv(1 << 16):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        ends.append((time.monotonic() - began, limit_s))


def slow_clients(cluster):
    """(head, what it sends on, after how long it is closed)"""
    yield b"GET /health HTTP/1.1\r\n", b"X", HEADER_S
    yield b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n", HEADER_S
    if FULL:
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        yield head + b"Content-Length: 1000\r\n\r\n", b" ", BODY_S
        yield head + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", BODY_S
        yield head + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x", BODY_S
        yield GET, b"", IDLE_S


def attack_at_random(cluster, rng, stop):
    """The number of requests until `stop`."""
    count = 0
    while not stop.is_set():
        data = mutated(rng)
        outcome = talk(cluster.http, in_pieces(rng, data), patience_s=rng.choice((0.0, 0.05, 0.3)), end_s=SOON_S)
        judge("random", data, outcome)
        count += 1
    return count


# The clients that send too slowly are there all the time.
def test_random_requests_and_slow_clients_harm_nobody(cluster, router):
    seed = int(os.environ.get("BATON_ATTACK_SEED") or random.randrange(1 << 32))
    print(f"BATON_ATTACK_SEED={seed}")
    ends, expected = [], list(slow_clients(cluster))
    drips = [threading.Thread(target=drip, args=(cluster, head, byte, limit_s, ends)) for head, byte, limit_s in expected]
    for thread in drips:
        thread.start()
    stop, before_mib, served = threading.Event(), rss_mib(router), 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(attack_at_random, cluster, random.Random(seed + number), stop) for number in range(AT_ONCE)]
        try:
            deadline = time.monotonic() + RANDOM_S
            while time.monotonic() < deadline and not any(task.done() for task in running):
                served += serves(cluster)
        finally:
            stop.set()
        sent = sum(task.result() for task in running)
    for thread in drips:
        thread.join()
    print(f"{sent} random requests beside {served} ordinary ones; {before_mib} MiB before, {rss_mib(router)} MiB after")
    assert sent > RANDOM_S * 5
    assert len(ends) == len(expected)
    for ended_s, limit_s in ends:
        assert limit_s - 1 < ended_s < limit_s + SOON_S / 2, ends


def reset(connection):
    """Ends a connection as a client that crashes does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("data", [b"", b"G", GET[:-2], GET, post(b"/v1/completions", COMPLETION)[:-3],
                                  post(b"/v1/completions", COMPLETION), post(b"/v1/completions", STREAMED),
                                  post(b"/v1/messages", MESSAGE)],
                         ids=["nothing", "a letter", "a header", "a GET", "half a body", "a request", "a stream", "a message"])
def test_half_closed_and_reset_connections_end_soon(cluster, data):
    outcome = talk(cluster.http, [data], wants=0, patience_s=0, end_s=SOON_S)
    assert outcome.seconds < SOON_S and len(outcome.responses) <= 1
    for _ in range(10):
        connection = connect(cluster.http)
        connection.sendall(data)
        reset(connection)


def test_a_client_that_reads_nothing_costs_no_other(cluster):
    """Its pipelined requests wait, within bounds, and end with it."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(connect(cluster.http))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    connection.send(post(b"/v1/completions", STREAMED) * 100)
        for _ in range(5):
            assert serves(cluster)


def test_a_connection_goes_on_after_every_answer_that_lets_it(cluster):
    requests = [GET, post(b"/tokenize", b'{"prompt": 5}'), b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n", post(b"/v1/completions", STREAMED),
                post(b"/v1/messages", MESSAGE)]
    with connect(cluster.http) as connection:
        got = []
        for request in requests * 3:
            connection.sendall(request)
            text = b""
            while not parse(text)[0]:
                piece = connection.recv(1 << 16)
                assert piece, (request, text)
                text += piece
            (response,), rest = parse(text)
            assert not rest
            got.append(response.status)
        connection.shutdown(socket.SHUT_WR)
        assert receive_to_end(connection, SOON_S) == b""
    assert got == [200, 400, 404, 405, 200, 200] * 3
