"""What a long stream gives when a process is killed in the midst of it."""

import contextlib
import os
import signal

import grpc

from client import Background
from cluster import await_workers, wait_until

BACK_TIMEOUT_S = 60


def tokens_through_a_killed_worker(cluster, client, prompt, sampling):
    """Kills the decode worker that serves the stream. The cluster is idle before, and whole again afterwards."""
    def busy():
        return [worker["pid"] for worker in cluster.workers() if worker["role"] == "decode" and worker["used_blocks"]]

    count = len(cluster.workers())
    wait_until(lambda: not busy(), 20, "the end of what ran before in the status")
    stream = Background(client, prompt, sampling)
    stream.wait_running()
    os.kill(wait_until(busy, 20, "the stream in the status")[0], signal.SIGKILL)
    assert stream.is_running(), "it ended before its worker"
    generation = stream.result()
    assert generation.error is None, generation.error
    await_workers(cluster, count)
    return generation.token_ids


def tokens_through_a_killed_router(cluster, client, prompt, sampling):
    """Kills the router of a kept request and resumes the request at the next one."""
    got, accepted = [], None
    stream = client.start(client.generate_request(prompt, sampling, resumable=True))
    for response in stream:
        accepted = response.accepted if response.HasField("accepted") else accepted
        got.extend(token.id for token in response.output.tokens)
        if len(got) >= 4:
            break
    cluster.restart_router(BACK_TIMEOUT_S)
    stream.cancel()

    def rest():
        with contextlib.suppress(grpc.RpcError):
            stream = client.resume(accepted.job_id, len(got))
            return [token.id for response in stream for token in response.output.tokens]
        return None

    return got + wait_until(rest, BACK_TIMEOUT_S, "the rest of the stream")
