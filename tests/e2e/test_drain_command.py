"""`baton drain WORKER`: a worker leaves in order while streams run, and whatever hinders it is one clear line."""

import contextlib
import os
import random
import re
import signal
import subprocess

import grpc

from client import Background, Client
from cluster import BINARY, Cluster, RoleProcess, await_workers, run_baton, wait_until
from streams import Streams, draw_requests, learn_answers

SEED = int(os.environ.get("BATON_TEST_SEED", "20261125"))
PROMPT = "The capital of France is"
# No test waits for its end. A stream that ends by itself may be over on a fast machine before the test has looked at it.
ENDLESS = {"max_tokens": 6000, "ignore_eos": True}
STREAMS = 8
REQUESTS = 8
WAIT_S = 20
# A successor loads the model beside a stream that runs.
RESTART_TIMEOUT_S = 60
DRAIN_MS = 3000
# More than may have been on their way when a signal was sent.
GOES_ON_MESSAGES = 100


class Place:
    """Stands for a router at an address."""

    def __init__(self, target):
        self.target = target


def worker(router, role, *args):
    return RoleProcess(role, "--router", router.cluster_target, "--threads", 1, "--kv-memory", "256MiB", *args)


def drain(router, name, *flags):
    return run_baton("drain", name, "--target", router.target, *flags)


def refusal_of(router, name, *flags):
    """The one line of a drain that fails."""
    result = drain(router, name, *flags)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, (result.returncode, result.stderr)
    return result.stderr


def assert_right(client, tokens):
    """They are what the endless prompt gives where nothing happens."""
    assert client.generate(PROMPT, ENDLESS | {"max_tokens": len(tokens)}).token_ids == tokens


def busy(router):
    """Pids of the decoding workers that hold something."""
    return [w["pid"] for w in router.workers() if w["role"] != "prefill" and w["used_blocks"] > 0]


def test_one_of_two_workers_of_each_role_leaves_under_load_and_every_stream_keeps_its_tokens(prose_ids):
    print(f"BATON_TEST_SEED={SEED}")
    requests = draw_requests(random.Random(SEED), prose_ids, REQUESTS)
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(RoleProcess("router", "--grpc-port", 0))
        roles = ("prefill-worker", "prefill-worker", "decode-worker", "decode-worker")
        workers = [stack.enter_context(worker(router, role)) for role in roles]
        await_workers(router, 4)
        client = stack.enter_context(Client(router.target))
        learn_answers(client, requests)
        with Streams(client, requests, STREAMS) as streams:
            wait_until(lambda: len(busy(router)) == 2, WAIT_S, "load on both decode workers")
            # It outlives the drain of its worker, whichever that is.
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            for leaving, name in ((workers[2], workers[2].target), (workers[0], str(workers[0].pid))):
                said = drain(router, name)
                assert said.returncode == 0 and not said.stderr, said.stderr
                role = "decode" if leaving is workers[2] else "prefill"
                last = said.stdout.splitlines()[-1]
                assert last.startswith(f"{role} worker {leaving.target} (pid {leaving.pid}) has left after "), said.stdout
                assert "no other worker" not in said.stdout
                assert leaving.process.wait(WAIT_S) == 0, leaving.log()
                log = leaving.log()
                assert "an operator has ordered this worker to drain" in log and "drained in" in log and "cut" not in log
            running.wait_for_more()
            tokens = running.cancel().token_ids
        assert_right(client, tokens)
        assert not streams.problems, (len(streams.problems), streams.problems[:3])
        assert len(streams.pauses_s) >= STREAMS
        left = sorted(w.pid for w in (workers[1], workers[3]))
        wait_until(lambda: sorted(w["pid"] for w in router.workers()) == left, WAIT_S, "the drained workers to be gone")
        assert "is told to drain, as an operator has ordered" in router.log()
        assert " is lost " not in router.log()


def test_names_that_no_worker_has_and_routers_that_do_not_answer_are_one_line_each():
    with RoleProcess("router", "--grpc-port", 0) as router, worker(router, "mixed-worker") as mixed:
        await_workers(router, 1)
        for name in ("nobody", "0", str(router.pid), router.target, mixed.target.replace("127.0.0.1", "127.0.0.2"), "",
                     "a\nb\x1b[31m", "x" * 100_000, "0" * 32):
            line = refusal_of(router, name)
            assert line.startswith('baton: NOT_FOUND: the router has no worker "') and len(line) < 1_000, line
            assert "\x1b" not in line and "name one by its address or pid, as `baton status` prints them" in line
        (listed,) = router.workers()
        assert listed["state"] == "serving"
        assert "`baton serve` running there?" in refusal_of(Place("127.0.0.1:1"), mixed.target)
        assert "this is a worker of Baton, and clients call its router" in refusal_of(mixed, mixed.target)
        assert refusal_of(Place(router.cluster_target), mixed.target)
        for args in ((), (mixed.target, "--timeout-ms", -1), (mixed.target, "--timeout-ms", "soon"), (mixed.target, "other")):
            wrong = run_baton("drain", *args, "--target", router.target)
            assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1, wrong.stderr
        # An incarnation names a process too.
        assert drain(router, listed["incarnation"]).returncode == 0
        assert mixed.process.wait(WAIT_S) == 0
        assert refusal_of(router, mixed.target).startswith("baton: NOT_FOUND: ")


def test_the_last_worker_keeps_its_stream_until_its_time_is_over_and_the_command_says_so():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "mixed-worker", "--drain-timeout-ms", DRAIN_MS) as last:
            await_workers(router, 1)
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            command = subprocess.Popen([BINARY, "drain", last.target, "--target", router.target], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: [w["state"] for w in router.workers()] == ["draining"], WAIT_S, "the drain")
            assert refusal_of(router, last.target) == (
                f"baton: FAILED_PRECONDITION: mixed worker {last.target} (pid {last.pid}) drains already\n")
            said, wrong = command.communicate(timeout=WAIT_S)
            assert command.returncode == 0 and not wrong, wrong
            first, second, *_, end = said.splitlines()
            assert first == ("no other worker of group A serves for prefill and decode: what runs there stays until it ends; "
                             "what has not ended after 3.0 s is cut, and goes on if another such worker joins within a "
                             "minute; new requests fail until one joins")
            assert second == f"mixed worker {last.target} (pid {last.pid}) drains: 1 request left"
            # No earlier than its time is over; how much later depends on the machine.
            left = re.fullmatch(rf"mixed worker {re.escape(last.target)} \(pid {last.pid}\) has left after ([\d.]+) s", end)
            assert left and float(left[1]) >= DRAIN_MS / 1e3, end
            assert last.process.wait(WAIT_S) == 0, last.log()
            assert "the drain time-out of 3000 ms is over: cut 1 request" in last.log()
            assert running.is_running(), "the stream does not wait for another worker"
            running.stream.cancel()
            assert running.result().error.code() == grpc.StatusCode.CANCELLED


def test_a_command_that_does_not_wait_leaves_the_drain_going_and_one_signal_more_cuts_nothing():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "mixed-worker") as last:
            await_workers(router, 1)
            stream = client.start(client.generate_request(PROMPT, ENDLESS))
            next(stream)
            line = refusal_of(router, last.pid, "--timeout-ms", 200)
            assert line == (f"baton: mixed worker {last.target} (pid {last.pid}) has not left within 200 ms, "
                            "1 request left: it goes on draining\n")
            last.signal(signal.SIGTERM)
            for _ in range(GOES_ON_MESSAGES):
                next(stream)
            assert last.process.poll() is None
            last.signal(signal.SIGTERM)
            assert last.process.wait(WAIT_S) == 1
            last.process.returncode = 0
            assert "a second signal came: ending at once" in last.log()
            stream.cancel()


def test_a_worker_that_dies_while_it_drains_is_said_to_be_lost():
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        with worker(router, "mixed-worker") as last:
            await_workers(router, 1)
            running = Background(client, PROMPT, ENDLESS)
            running.wait_running()
            command = subprocess.Popen([BINARY, "drain", str(last.pid), "--target", router.target], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: [w["state"] for w in router.workers()] == ["draining"], WAIT_S, "the drain")
            last.kill()
            _, wrong = command.communicate(timeout=WAIT_S)
            assert command.returncode == 1
            assert wrong == (f"baton: mixed worker {last.target} (pid {last.pid}) was lost before it had drained: "
                             "the worker's stream broke\n")
            assert running.is_running(), "the stream does not wait for another worker"
            running.stream.cancel()


def test_serve_starts_a_successor_of_a_drained_worker_and_the_stream_moves():
    roles = ("--mixed", 2, "--prefill", 0, "--decode", 0)
    with Cluster(*roles, "--threads", 1, "--kv-memory", "256MiB") as cluster, Client(cluster.target) as client:
        running = Background(client, PROMPT, ENDLESS)
        running.wait_running()
        (pid,) = wait_until(lambda: busy(cluster), WAIT_S, "the worker of the stream to say so")
        said = drain(cluster, pid)
        assert said.returncode == 0, said.stderr
        pids = lambda: [w["pid"] for w in cluster.workers() if w["state"] == "serving"]
        wait_until(lambda: len(pids()) == 2 and pid not in pids(), RESTART_TIMEOUT_S, "a successor")
        running.wait_for_more()
        assert_right(client, running.cancel().token_ids)
        assert "requests that went on elsewhere: 1" in cluster.log()
        assert "mixed-worker ended with 0: restart at once" in cluster.log()
