"""A generic client: it knows service and method names; messages come from the server's own descriptors."""

import dataclasses

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

GENERATION = "baton.v1.GenerationService"
CALL_TIMEOUT_S = 120
# Above the server's own limit, so that the server is the one that refuses.
MAX_MESSAGE_BYTES = 64 << 20


@dataclasses.dataclass
class Generation:
    """Everything that a stream delivered. `error` is None or the RpcError that ended it."""
    token_ids: list = dataclasses.field(default_factory=list)
    text: str = ""
    finished: object = None
    error: object = None
    pieces: int = 0

    @property
    def kv_digest(self):
        return self.finished.kv_digest


class Client:
    def __init__(self, target):
        self.channel = grpc.insecure_channel(target, options=[
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            # Clients of one test process share no connection.
            ("grpc.use_local_subchannel_pool", 1),
        ])
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
            generation.text += response.output.text
            generation.pieces += 1
            if on_output is not None:
                on_output(generation)
    except grpc.RpcError as error:
        generation.error = error
    else:
        assert generation.finished is not None, "a stream ended well without `finished`"
    return generation


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
