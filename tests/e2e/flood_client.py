"""Load that a test puts on a router, in a process of its own: python flood_client.py KIND TARGET COUNT [BYTES].

It runs at the lowest priority, prints one JSON object at its end, {"outcomes": {STATUS: COUNT}}, and says "started" once
all its requests are on their way. KINDs:
  prompts     COUNT concurrent Generate calls with a text of BYTES
  detokenize  COUNT calls, one after the other, each with a message of BYTES
  silent      COUNT connections that send nothing; it ends when its stdin does
  unread      COUNT Generate calls whose streams nobody reads; it ends when its stdin does
  read        the same calls, read to their end
  busy        COUNT clients, each of which sends one small request after the other; it ends when its stdin does
"""

import collections
import json
import os
import socket
import sys
import threading

import grpc

NICE = 19
TIMEOUT_S = 120
UNREAD_TOKENS = 64
# Few, so that whoever comes beside such clients soon has its turn.
BUSY_TOKENS = 32
# The client's library reads no further than this by itself.
NO_READ_AHEAD = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
GENERATE = "/baton.v1.GenerationService/Generate"
DETOKENIZE = "/baton.v1.GenerationService/Detokenize"


def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def generate_request(text, max_tokens):
    sampling = varint(9 << 3) + varint(max_tokens) + varint(11 << 3) + varint(1)
    return field(2, text) + field(5, sampling)


def channel(target):
    return grpc.insecure_channel(target, options=[("grpc.max_send_message_length", -1), *NO_READ_AHEAD])


def streaming(target):
    return channel(target).unary_stream(GENERATE)


def outcome(call):
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def prompts(target, count, size):
    generate = streaming(target)
    words = (b"The quick brown fox jumps over the lazy dog. " * (size // 45 + 1))[:size]
    request = generate_request(words, 1)
    calls = [generate(request, timeout=TIMEOUT_S) for _ in range(count)]
    started()
    return collections.Counter(outcome(call) for call in calls)


def detokenize(target, count, size):
    call = channel(target).unary_unary(DETOKENIZE)
    request = field(2, b"\x01" * (size - 6))
    started()
    outcomes = collections.Counter()
    for _ in range(count):
        try:
            call(request, timeout=TIMEOUT_S)
            outcomes["OK"] += 1
        except grpc.RpcError as error:
            outcomes[error.code().name] += 1
    return outcomes


def silent(target, count, _):
    host, port = target.rsplit(":", 1)
    sockets = [socket.create_connection((host, int(port))) for _ in range(count)]
    started()
    sys.stdin.read()
    return collections.Counter({"OPEN": len(sockets)})


def short_streams(target, count):
    generate = streaming(target)
    return [generate(generate_request(b"The capital of France is", UNREAD_TOKENS), timeout=TIMEOUT_S)
            for _ in range(count)]


def unread(target, count, _):
    calls = short_streams(target, count)
    started()
    sys.stdin.read()
    return collections.Counter({"OPEN": len(calls)})


def read(target, count, _):
    calls = short_streams(target, count)
    started()
    return collections.Counter(outcome(call) for call in calls)


def busy(target, count, _):
    generate = streaming(target)
    outcomes, lock, stopping = collections.Counter(), threading.Lock(), threading.Event()

    def serve():
        while not stopping.is_set():
            name = outcome(generate(generate_request(b"The capital of France is", BUSY_TOKENS), timeout=TIMEOUT_S))
            with lock:
                outcomes[name] += 1

    threads = [threading.Thread(target=serve) for _ in range(count)]
    for thread in threads:
        thread.start()
    started()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()
    return outcomes


def started():
    print("started", flush=True)


if __name__ == "__main__":
    os.nice(NICE)
    kind, where, number = sys.argv[1:4]
    size_bytes = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    floods = {"prompts": prompts, "detokenize": detokenize, "silent": silent, "unread": unread, "read": read, "busy": busy}
    result = floods[kind](where, int(number), size_bytes)
    print(json.dumps({"outcomes": result}), flush=True)
    os._exit(0)
