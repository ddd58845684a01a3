"""Bytes to a server of HTTP/1.1 and what it makes of them, for requests that no client library would send."""

import contextlib
import dataclasses
import re
import select
import socket
import time

SEND_BYTES = 1 << 16
STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*")


@dataclasses.dataclass
class Response:
    status: int
    # By small names.
    headers: dict
    body: bytes

    @property
    def closes(self):
        return self.headers.get("connection") == "close"


@dataclasses.dataclass
class Outcome:
    responses: list
    # What came behind the last whole response.
    rest: bytes
    # The server closed before the client had half-closed.
    closed: bool
    seconds: float

    @property
    def statuses(self):
        return [response.status for response in self.responses]


class Stuck(AssertionError):
    """A connection that neither answers nor ends."""


def _chunked(text):
    """(body, what follows), or None where the last chunk is not there yet."""
    body = b""
    while True:
        size, line_end, text = text.partition(b"\r\n")
        if not line_end:
            return None
        assert re.fullmatch(rb"[0-9a-fA-F]{1,8}", size), size
        count = int(size, 16)
        if len(text) < count + 2:
            return None
        assert text[count:count + 2] == b"\r\n", text[count:count + 2]
        body, text = body + text[:count], text[count + 2:]
        if count == 0:
            return body, text


def parse(text, closed=False):
    """(whole responses, the rest). AssertionError for what is no response. `closed`: nothing else comes."""
    responses = []
    while text:
        head, head_end, after = text.partition(b"\r\n\r\n")
        if not head_end:
            break
        line, *fields = head.split(b"\r\n")
        match = STATUS_LINE.fullmatch(line)
        assert match, f"no status line: {line[:200]!r}"
        if match[1] == b"100":
            text = after
            continue
        headers = {}
        for field in fields:
            name, colon, value = field.decode("latin-1").partition(": ")
            assert colon and re.fullmatch(r"[A-Za-z0-9-]+", name) and name.lower() not in headers, field
            headers[name.lower()] = value
        if headers.get("transfer-encoding") == "chunked":
            read = _chunked(after)
            if read is None:
                break
            body, text = read
        elif "content-length" in headers:
            count = int(headers["content-length"])
            if len(after) < count:
                break
            body, text = after[:count], after[count:]
        elif closed:
            body, text = after, b""
        else:
            break
        responses.append(Response(int(match[1]), headers, body))
    return responses, text


def connect(address, timeout_s=10):
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def receive_to_end(connection, timeout_s, got=b""):
    """All until the server closes, in whatever way. Stuck if it does not."""
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([connection], [], [], left_s)[0]:
            raise Stuck(f"no end within {timeout_s} s after {got[-200:]!r}")
        try:
            piece = connection.recv(SEND_BYTES)
        except OSError:
            return got
        if not piece:
            return got
        got += piece


def talk(address, pieces, wants=1, patience_s=0.3, end_s=10):
    """Sends the pieces, reads until `wants` responses are there, the server has closed or nothing has happened for
    `patience_s`; then half-closes and reads to the end, which has to come within `end_s`."""
    began = time.monotonic()
    pending = [memoryview(piece) for piece in pieces if piece]
    got, closed = b"", False
    with connect(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        while not closed and (pending or len(parse(got)[0]) < wants):
            readable, writable, _ = select.select([connection], [connection] if pending else [], [], patience_s)
            if not readable and not writable:
                break
            try:
                if readable:
                    piece = connection.recv(SEND_BYTES)
                    got, closed = got + piece, not piece
                elif writable:
                    sent = connection.send(pending[0][:SEND_BYTES])
                    pending[0] = pending[0][sent:]
                    if not pending[0]:
                        pending.pop(0)
            except BlockingIOError:
                pass
            except OSError:
                closed = True
        if not closed:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            got = receive_to_end(connection, end_s, got)
    responses, rest = parse(got, closed=True)
    return Outcome(responses, rest, closed, time.monotonic() - began)


def ask(address, request, timeout_s=60):
    """The one response to a request that behaves."""
    outcome = talk(address, [request], patience_s=timeout_s)
    assert len(outcome.responses) == 1 and not outcome.rest, outcome
    return outcome.responses[0]
