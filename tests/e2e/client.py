"""A generic client: it knows service and method names; messages come from the server's own descriptors."""

import dataclasses
import itertools
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from cluster import wait_until

GENERATION = "baton.v1.GenerationService"
CALL_TIMEOUT_S = 120
# Above the server's own limit, so that the server is the one that refuses.
MAX_MESSAGE_BYTES = 64 << 20
# More than may have been on their way when something happened to a stream.
GOES_ON_TOKENS = 100


@dataclasses.dataclass
class Generation:
    """Everything that a stream delivered. `error` is None or the RpcError that ended it."""
    token_ids: list = dataclasses.field(default_factory=list)
    text: str = ""
    finished: object = None
    error: object = None
    pieces: int = 0
    # The indices of the tokens with the label of other numerics, which a router of a former version does not know.
    other_numerics: list = dataclasses.field(default_factory=list)

    @property
    def kv_digest(self):
        return self.finished.kv_digest


class Client:
    def __init__(self, target, credentials=None, service_config=None, options=()):
        """Without credentials: in plain text. `options` are further arguments of the channel."""
        options = [
            *options,
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            # Clients of one test process share no connection.
            ("grpc.use_local_subchannel_pool", 1),
            *([("grpc.service_config", service_config)] if service_config else []),
        ]
        self.channel = (grpc.secure_channel(target, credentials, options) if credentials else
                        grpc.insecure_channel(target, options))
        self.reflection = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.reflection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def method(self, service, name):
        """(callable, request class) of a method."""
        descriptor = self.pool.FindServiceByName(service).methods_by_name[name]
        request = message_factory.GetMessageClass(descriptor.input_type)
        response = message_factory.GetMessageClass(descriptor.output_type)
        make = self.channel.unary_stream if descriptor.server_streaming else self.channel.unary_unary
        # Bytes are sent as they are, because tests of malformed requests write their own.
        serialize = lambda value: value if isinstance(value, bytes) else value.SerializeToString()
        call = make(f"/{service}/{name}", request_serializer=serialize, response_deserializer=response.FromString)
        return call, request

    def call(self, service, name, /, timeout_s=CALL_TIMEOUT_S, **fields):
        call, request = self.method(service, name)
        return call(request(**fields), timeout=timeout_s)

    def generate_request(self, prompt, sampling=None, **fields):
        """`prompt` is text, or a list of token ids."""
        _, request_class = self.method(GENERATION, "Generate")
        if isinstance(prompt, str):
            fields["text"] = prompt
        else:
            fields["token_ids"] = {"ids": prompt}
        return request_class(sampling=sampling or {}, **fields)

    def start(self, request, timeout_s=CALL_TIMEOUT_S):
        """The stream of a Generate call; `request` is a message or raw bytes."""
        call, _ = self.method(GENERATION, "Generate")
        return call(request, timeout=timeout_s)

    def resume(self, job_id, next_index, text_bytes=None, timeout_s=CALL_TIMEOUT_S):
        """The rest of the stream of a kept job."""
        call, request = self.method(GENERATION, "Resume")
        fields = {} if text_bytes is None else {"text_bytes": text_bytes}
        return call(request(job_id=job_id, next_index=next_index, **fields), timeout=timeout_s)

    def generate(self, prompt, sampling=None, timeout_s=CALL_TIMEOUT_S, **fields):
        """Runs to the end; raises the RpcError of a stream that fails."""
        generation = read_stream(self.start(self.generate_request(prompt, sampling, **fields), timeout_s))
        if generation.error is not None:
            raise generation.error
        return generation


def read_stream(stream, on_output=None):
    """Reads to the end and checks the order: outputs with indices from 0 without a gap, then one `finished`."""
    generation = Generation()
    try:
        for response in stream:
            assert generation.finished is None, "a message after `finished`"
            if response.HasField("finished"):
                generation.finished = response.finished
                continue
            for token in response.output.tokens:
                assert token.index == len(generation.token_ids), "output tokens out of order"
                generation.token_ids.append(token.id)
                if getattr(token, "other_numerics", False):
                    generation.other_numerics.append(token.index)
            generation.text += response.output.text
            generation.pieces += 1
            if on_output is not None:
                on_output(generation)
    except grpc.RpcError as error:
        generation.error = error
    else:
        assert generation.finished is not None, "a stream ended well without `finished`"
    return generation


class Background:
    """A stream read on a thread of its own. It counts as running when `tokens` of its tokens have come."""

    def __init__(self, client, prompt, sampling, tokens=1, **fields):
        self._tokens = tokens
        self._received = 0
        self.stream = client.start(client.generate_request(prompt, sampling, **fields))
        self.began = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        self.generation = read_stream(self.stream, self._on_output)
        self.began.set()

    def _on_output(self, generation):
        self._received = len(generation.token_ids)
        if self._received >= self._tokens:
            self.began.set()

    def wait_running(self):
        assert self.began.wait(60), "no token came"
        assert self._thread.is_alive(), f"the stream ended at once: {self.generation}"

    def is_running(self):
        return self._thread.is_alive()

    def received(self):
        """How many tokens have come."""
        return self._received

    def wait_for_more(self, tokens=GOES_ON_TOKENS):
        """Returns when so many more tokens have come."""
        enough = self._received + tokens
        wait_until(lambda: self._received >= enough or not self.is_running(), 60, f"{tokens} more tokens of the stream")
        assert self._received >= enough, f"the stream ended: {self.generation}"

    def cancel(self):
        """Ends a stream that runs, and returns what it has delivered. How long that is depends on the machine alone."""
        self.stream.cancel()
        generation = self.result()
        assert generation.error is not None and generation.error.code() == grpc.StatusCode.CANCELLED, generation.error
        return generation

    def result(self, timeout_s=60):
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the stream does not end"
        return self.generation


class Oracle:
    """The right tokens of requests, from runs of their own for another tenant, so that no prefix is shared."""

    def __init__(self, client):
        self._client = client
        self._known = {}

    def tokens(self, prompt, sampling):
        key = repr((prompt, sorted(sampling.items())))
        if key not in self._known:
            self._known[key] = self._client.generate(prompt, sampling, tenant="oracle").token_ids
        return self._known[key]


class Load:
    """Closed-loop clients: each sends one of `requests`, (prompt, sampling), after another until stop().

    A stream may end with its right tokens or, after some of them, with one of `allowed_codes` and a reason. Everything
    else is in `problems`, which stop() returns. `errors` counts the streams that failed as allowed.
    """

    RETRY_S = 0.05

    def __init__(self, client, oracle, requests, streams, allowed_codes=(), timeout_s=CALL_TIMEOUT_S):
        self._client = client
        self._timeout_s = timeout_s
        self._allowed = allowed_codes
        self._requests = [(*request, oracle.tokens(*request)) for request in requests]
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.finished = 0
        self.errors = 0
        self.problems = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(streams)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Waits for the streams that run."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self.problems

    def _run(self, number):
        for turn in itertools.count(number):
            if self._stopping.is_set():
                return
            prompt, sampling, expected = self._requests[turn % len(self._requests)]
            request = self._client.generate_request(prompt, sampling)
            generation = read_stream(self._client.start(request, self._timeout_s))
            self._judge(generation, expected)
            if generation.error is not None:
                self._stopping.wait(self.RETRY_S)

    def _judge(self, generation, expected):
        error = generation.error
        tokens = generation.token_ids
        right = tokens == expected if error is None else tokens == expected[:len(tokens)]
        with self._lock:
            if not right:
                self.problems.append(f"tokens {tokens} instead of {expected}, {error}")
            elif error is None:
                self.finished += 1
            elif error.code() in self._allowed and error.details():
                self.errors += 1
            else:
                self.problems.append(f"{error.code()}: {error.details()} after {len(tokens)} tokens")


def _rpc_detail_classes():
    """google.rpc.Status, BadRequest and RetryInfo, as far as the tests read them (google/rpc/error_details.proto)."""
    field = descriptor_pb2.FieldDescriptorProto

    def message(parent, name, *fields):
        result = parent.add(name=name)
        for number, (field_name, kind, type_name) in enumerate(fields, start=1):
            repeated = kind < 0
            result.field.add(name=field_name, number=number, type=abs(kind), type_name=type_name,
                             label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL)
        return result

    file = descriptor_pb2.FileDescriptorProto(name="test/rpc_details.proto", package="google.rpc", syntax="proto3")
    message(file.message_type, "Any", ("type_url", field.TYPE_STRING, None), ("value", field.TYPE_BYTES, None))
    message(file.message_type, "Status", ("code", field.TYPE_INT32, None), ("message", field.TYPE_STRING, None),
            ("details", -field.TYPE_MESSAGE, ".google.rpc.Any"))
    bad = message(file.message_type, "BadRequest",
                  ("field_violations", -field.TYPE_MESSAGE, ".google.rpc.BadRequest.FieldViolation"))
    message(bad.nested_type, "FieldViolation", ("field", field.TYPE_STRING, None),
            ("description", field.TYPE_STRING, None))
    message(file.message_type, "Duration", ("seconds", field.TYPE_INT64, None), ("nanos", field.TYPE_INT32, None))
    message(file.message_type, "RetryInfo", ("retry_delay", field.TYPE_MESSAGE, ".google.rpc.Duration"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"google.rpc.{name}"))
            for name in ("Status", "BadRequest", "RetryInfo")}


_DETAILS = _rpc_detail_classes()


def error_detail(error, name):
    """The google.rpc detail `name` (BadRequest, RetryInfo) of an RpcError, or None."""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in _DETAILS["Status"].FromString(value).details:
            if detail.type_url == f"type.googleapis.com/google.rpc.{name}":
                return _DETAILS[name].FromString(detail.value)
    return None


def violated_fields(error):
    detail = error_detail(error, "BadRequest")
    return [violation.field for violation in detail.field_violations] if detail is not None else []
