"""Requests that outlive their calls and their router: killed in the midst of streams, it comes back with its journal, and
clients get exactly the rest of what they would have had."""

import concurrent.futures
import os
import pathlib
import threading
import time
import urllib.request

import grpc
import pytest

from client import Client, violated_fields
from cluster import Cluster, RoleProcess, run_baton, wait_until

STREAMS = 24 if os.environ.get("BATON_FULL_TESTS") == "1" else 6
KILLS = 5 if os.environ.get("BATON_FULL_TESTS") == "1" else 2
# A killed router is back within seconds, and its workers rejoin within seconds.
BACK_TIMEOUT_S = 60
# Longer than a router takes to come back.
RETENTION_MS = 60_000
SHORT_RETENTION_MS = 3_000
# Of a step. With it a stream takes a second or more on the fastest machine, so that the router dies in its midst.
SLOW_STEPS = {"BATON_TEST_DELAYS": "step=8"}
PROMPT = "The capital of France is"
LONG = {"max_tokens": 120, "ignore_eos": True}


class KeptStream:
    """A stream that resumes whenever it breaks. `resumes` counts how often it did."""

    def __init__(self, client, prompt, sampling, **fields):
        self._client = client
        self._stream = client.start(client.generate_request(prompt, sampling, **(fields or {"resumable": True})))
        self.accepted = self.finished = None
        self.token_ids, self.text = [], ""
        self.resumes = 0

    def _read(self, until):
        for response in self._stream:
            if response.HasField("accepted"):
                assert self.accepted is None or self.accepted == response.accepted, "the job is another one"
                self.accepted = response.accepted
            elif response.HasField("finished"):
                self.finished = response.finished
            else:
                for token in response.output.tokens:
                    assert token.index == len(self.token_ids), "output tokens out of order"
                    self.token_ids.append(token.id)
                self.text += response.output.text
            if until is not None and len(self.token_ids) >= until:
                return

    def read(self, until=None):
        """To the end, or until there are so many tokens."""
        deadline = time.monotonic() + BACK_TIMEOUT_S
        while self.finished is None and (until is None or len(self.token_ids) < until):
            try:
                self._read(until)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, f"{error.code()}: {error.details()}"
                assert self.accepted is not None and time.monotonic() < deadline
                time.sleep(0.1)
                self.resumes += 1
                self._stream = self._client.resume(self.accepted.job_id, len(self.token_ids), len(self.text.encode()))
        return self

    def leave(self):
        self._stream.cancel()


def refusal(stream):
    with pytest.raises(grpc.RpcError) as error:
        list(stream)
    return error.value


def metrics(admin):
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("journal") / "state"


@pytest.fixture(scope="module")
def cluster(state_dir):
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1, "--state-dir", state_dir, "--state-retention-ms",
                 RETENTION_MS, env=SLOW_STEPS) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster.target) as connected:
        yield connected


def test_streams_survive_a_killed_router_with_exactly_their_tokens(cluster, client):
    requests = [(f"{PROMPT} {number}", {**LONG, "temperature": 0.8 * (number % 2), "seed": number})
                for number in range(STREAMS)]
    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        expected_ones = list(pool.map(lambda request: client.generate(*request, tenant="oracle"), requests))
    streams = [KeptStream(client, prompt, sampling) for prompt, sampling in requests]
    # All have begun, and none is near its end.
    for stream in streams:
        stream.read(until=4)
    threads = [threading.Thread(target=stream.read) for stream in streams]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        cluster.restart_router(BACK_TIMEOUT_S)
    for thread in threads:
        thread.join(BACK_TIMEOUT_S)
    for stream, expected in zip(streams, expected_ones):
        assert stream.token_ids == expected.token_ids
        assert stream.text == expected.text
        assert stream.finished is not None and stream.finished.job_id == stream.accepted.job_id
        assert stream.finished.usage.output_tokens == len(expected.token_ids)
    assert sum(stream.resumes > 0 for stream in streams) >= STREAMS // 2, "the router died too late to matter"


def test_the_command_resumes_by_itself(cluster):
    flags = ("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 200, "--ignore-eos", "--seed", 7)
    expected = run_baton(*flags)
    results = []
    thread = threading.Thread(target=lambda: results.append(run_baton(*flags, "--idempotency-key", "command")))
    thread.start()
    admin = cluster.admin
    wait_until(lambda: 'baton_journal_jobs{state="running"} 1' in metrics(admin), 30, "the job")
    cluster.restart_router(BACK_TIMEOUT_S)
    thread.join(BACK_TIMEOUT_S)
    assert results[0].returncode == 0, results[0].stderr
    assert results[0].stdout == expected.stdout


def test_a_key_joins_the_running_job_and_gets_the_result_also_of_a_router_that_was_killed(cluster, client):
    expected = client.generate(PROMPT, LONG).token_ids
    first = KeptStream(client, PROMPT, LONG, idempotency_key="k").read(until=2)
    second = KeptStream(client, PROMPT, LONG, idempotency_key="k").read(until=2)
    assert second.accepted == first.accepted
    first.leave()
    assert second.read().token_ids == expected
    cluster.restart_router(BACK_TIMEOUT_S)
    third = KeptStream(client, PROMPT, LONG, idempotency_key="k").read()
    assert third.accepted == first.accepted and third.resumes == 0
    assert third.token_ids == expected and third.text == second.text
    # The same clock readings: it was not computed again.
    assert third.finished == second.finished
    error = refusal(client.start(client.generate_request(PROMPT, {**LONG, "max_tokens": 5}, idempotency_key="k")))
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS and "idempotency_key" in error.details()


def test_the_files_are_private_and_erased_when_the_time_is_over(tmp_path):
    secret = "a key that can be found in the file"
    folder = tmp_path / "state"

    def is_there():
        return any(secret.encode() in path.read_bytes() for path in folder.iterdir())
    state = ("--state-dir", folder, "--state-retention-ms", SHORT_RETENTION_MS)
    with RoleProcess("router", "--grpc-port", 0, *state) as router, \
            RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1), \
            Client(router.target) as client:
        stream = KeptStream(client, PROMPT, {"max_tokens": 3}, idempotency_key=secret).read()
        assert is_there()
        files = [path for path in folder.iterdir() if path.is_file()]
        assert folder.stat().st_mode & 0o777 == 0o700
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in files) and files
        wait_until(lambda: not is_there(), 30, "the end of its retention")
        assert refusal(client.resume(stream.accepted.job_id, 0)).code() == grpc.StatusCode.NOT_FOUND


def test_what_resume_cannot_do_is_said(client):
    stream = KeptStream(client, PROMPT, {"max_tokens": 3}).read()
    job_id = stream.accepted.job_id
    for arguments, code, field in [(("00" * 16, 0), grpc.StatusCode.NOT_FOUND, None),
                                   (("nonsense", 0), grpc.StatusCode.INVALID_ARGUMENT, "job_id"),
                                   ((job_id, 4), grpc.StatusCode.INVALID_ARGUMENT, "next_index"),
                                   ((job_id, -1), grpc.StatusCode.INVALID_ARGUMENT, "next_index"),
                                   ((job_id, 0, -1), grpc.StatusCode.INVALID_ARGUMENT, "text_bytes")]:
        error = refusal(client.resume(*arguments))
        assert error.code() == code and (field is None or violated_fields(error) == [field]), arguments
    # A request that did not ask to be kept is not told an id before its end, and cannot be resumed with that one.
    plain = client.generate(PROMPT, {"max_tokens": 3})
    assert refusal(client.resume(plain.finished.job_id, 0)).code() == grpc.StatusCode.NOT_FOUND


def test_a_file_that_cannot_be_the_journal_is_one_line_and_stays_as_it_is(tmp_path, state_dir, cluster):
    def router(folder):
        return run_baton("router", "--grpc-port", 0, "--state-dir", folder, timeout_s=60)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "journal.sqlite").write_bytes(b"this is no database\n" * 500)
    for folder, words in [(damaged, "move the file away"), (pathlib.Path("/proc/nowhere"), "name a folder"),
                          # The cluster's router has it.
                          (state_dir, "another router uses it")]:
        result = router(folder)
        assert result.returncode == 1
        line = result.stderr.strip().splitlines()[-1]
        assert line.startswith("baton: ") and f"--state-dir: {folder}" in line and words in line, result.stderr
    assert (damaged / "journal.sqlite").read_bytes() == b"this is no database\n" * 500


def test_without_a_journal_jobs_are_kept_as_long_as_the_router_lives():
    with RoleProcess("router", "--grpc-port", 0) as router, \
            RoleProcess("mixed-worker", "--router", router.cluster_target, "--threads", 1):
        with Client(router.target) as client:
            stream = KeptStream(client, PROMPT, LONG).read(until=2)
            stream.leave()
            rest = list(client.resume(stream.accepted.job_id, 2))
            assert rest[-1].finished.usage.output_tokens == LONG["max_tokens"]
            assert "--state-dir" in refusal(client.resume("00" * 16, 0)).details()
