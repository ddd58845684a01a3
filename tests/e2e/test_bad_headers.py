"""Headers that made versions of gRPC abort or drop connections (CVE-2023-1428, CVE-2023-32732): the router lives on."""

import contextlib
import socket
import struct

from client import Client
from cluster import RoleProcess

DATA, HEADERS, SETTINGS, CONTINUATION = 0, 1, 4, 9
END_STREAM, END_HEADERS = 1, 4
FRAME_BYTES = 16_000
REQUEST = [(":method", "POST"), (":path", "/baton.v1.AdminService/GetStatus"), (":authority", "x"),
           ("content-type", "application/grpc")]
HOSTILE = [
    [(":scheme", "http"), ("te", "x")],
    [(":scheme", "ftp"), ("te", "trailers")],
    [(":scheme", "http"), ("te", "trailers"), ("grpclb_client_stats", "x")],
    [(":scheme", "http"), ("te", "trailers"), ("grpc-timeout", "x"), ("grpc-previous-rpc-attempts", "x")],
    [(":scheme", "http"), ("te", "trailers"), ("x-bin", "A=A!")],
    [(":scheme", "http"), ("te", "trailers"), ("grpc-trace-bin", "A")],
]


def integer(value, prefix=127):
    """An integer of HPACK with seven bits in its first byte."""
    if value < prefix:
        return bytes([value])
    encoded, value = bytes([prefix]), value - prefix
    while value >= 128:
        encoded, value = encoded + bytes([value % 128 + 128]), value // 128
    return encoded + bytes([value])


def literal(name, value):
    return b"\0" + b"".join(integer(len(text)) + text.encode() for text in (name, value))


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def send_call(target, headers):
    """What the server answers first."""
    host, _, port = target.rpartition(":")
    block = b"".join(literal(*header) for header in headers)
    parts = [block[i:i + FRAME_BYTES] for i in range(0, len(block), FRAME_BYTES)]
    frames = [frame(HEADERS if i == 0 else CONTINUATION,
                    (END_STREAM if i == 0 else 0) | (END_HEADERS if i == len(parts) - 1 else 0), 1, part)
              for i, part in enumerate(parts)]
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + b"".join(frames))
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer
    return b""


def test_no_header_ends_the_router():
    with RoleProcess("router", "--grpc-port", 0) as router:
        assert b"grpc-status" in send_call(router.target, [(":scheme", "http"), ("te", "trailers"), *REQUEST])
        for hostile in HOSTILE:
            for padding in (0, 8_000, 9_000, 20_000, 200_000):
                for headers in ([*REQUEST, *hostile, ("pad", "p" * padding)], [*hostile, *REQUEST, ("pad", "p" * padding)]):
                    for target in (router.target, router.cluster_target):
                        send_call(target, headers)
            with Client(router.target) as client:
                assert client.call("baton.v1.AdminService", "GetStatus").model, hostile
