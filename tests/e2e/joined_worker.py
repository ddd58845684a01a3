"""A process that has joined a router as a worker, and does nothing of what it is told."""

import contextlib
import threading

import grpc

from internal_messages import hello_like

JOIN = "/baton.internal.v1.ClusterService/Join"
JOIN_TIMEOUT_S = 60
HEARTBEAT_S = 0.2
# A channel of its own, so that it shows its own certificate.
OWN_CHANNEL = [("grpc.use_local_subchannel_pool", 1)]


class JoinedWorker:
    """`with JoinedWorker(channel, messages, hello) as worker:` stays a member of the router that `channel` leads to, and
    keeps the starts that it is sent. The end of the body closes the channel. `messages` are internal_messages."""

    def __init__(self, channel, messages, hello):
        self._channel, self._message = channel, messages("WorkerMessage")
        self._joined, self._ended = threading.Event(), threading.Event()
        self.membership, self.capability_key, self.starts = b"", None, []
        join = channel.stream_stream(JOIN, request_serializer=lambda message: message.SerializeToString(),
                                     response_deserializer=messages("RouterMessage").FromString)
        self._call = join(self._says(hello))
        self._thread = threading.Thread(target=self._listens)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._call.cancel()
        self._thread.join()
        self._channel.close()

    def _says(self, hello):
        yield self._message(hello=hello)
        self._joined.wait(JOIN_TIMEOUT_S)
        while not self._ended.wait(HEARTBEAT_S):
            yield self._message(membership=self.membership, load={"free_blocks": 1_000})

    def _listens(self):
        with contextlib.suppress(grpc.RpcError):
            for message in self._call:
                if message.HasField("accepted"):
                    self.membership = message.accepted.membership
                    self._joined.set()
                if message.HasField("capability_key"):
                    self.capability_key = message.capability_key
                self.starts.extend(message.starts)


def former_worker(target, messages, model, features):
    """A worker of a former version, which knows these features of the protocol."""
    worker = {"role": "mixed", "incarnation": bytes(range(16)).hex(), "address": "127.0.0.1:1", "model": model,
              "fingerprint": "that of a former version"}
    return JoinedWorker(grpc.insecure_channel(target, OWN_CHANNEL), messages, hello_like(worker, features=features))
