"""Requests of HTTP/1.1 that are wrong, ambiguous or too large, and random ones. Each says how many responses it may get."""

import dataclasses
import json
import re

JSON_LINE = b"Content-Type: application/json\r\n"
# In the body of a request: whoever reads the framing otherwise sees a second request.
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADER_LIMIT, BODY_LIMIT = 32 << 10, 8 << 20


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    data: bytes
    # What the responses may be. None: any status that is no failure of the server.
    statuses: tuple | None = (400,)
    # At most so many; a request whose framing is in doubt gets one, and the end.
    most: int = 1
    # Whether a response has to come before the client half-closes.
    is_answered: bool = True
    # Whether the last response has to end the connection.
    closes: bool = True


def post(path, body, lines=b"", version=b"1.1"):
    return (b"POST %s HTTP/%s\r\nHost: localhost\r\n" % (path, version) + JSON_LINE + lines +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def framed(lines, after, version=b"1.1"):
    """A request whose lines say where its body ends."""
    return b"POST /tokenize HTTP/%s\r\nHost: localhost\r\n" % version + JSON_LINE + lines + b"\r\n" + after


def chunk(data, size=None):
    return (b"%x" % len(data) if size is None else size) + b"\r\n" + data + b"\r\n"


COMPLETION = json.dumps({"prompt": "Once", "max_tokens": 1}).encode()
STREAMED = json.dumps({"prompt": "Once", "max_tokens": 3, "stream": True}).encode()
MESSAGE = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
TOKENIZED = json.dumps({"prompt": "Once upon a time"}).encode()
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Requests that are right, from which the random ones are made.
VALID = (
    GET, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
    post(b"/v1/completions", COMPLETION), post(b"/v1/completions", STREAMED), post(b"/v1/chat/completions", MESSAGE),
    post(b"/v1/messages", MESSAGE), post(b"/tokenize", TOKENIZED, b"X-Request-Id: abc\r\ntraceparent: 00-" + b"1" * 32 + b"-" +
                                         b"2" * 16 + b"-01\r\n"),
    framed(b"Transfer-Encoding: chunked\r\n", chunk(TOKENIZED[:9]) + chunk(TOKENIZED[9:]) + b"0\r\nX-Trailer: a\r\n\r\n"),
    post(b"/tokenize", TOKENIZED, b"Expect: 100-continue\r\nConnection: close\r\n"), b"HEAD / HTTP/1.0\r\n\r\n",
)


def smuggling():
    """Framings that one end may read otherwise than the other."""
    whole = b"0\r\n\r\n" + SMUGGLED
    length = b"Content-Length: %d\r\n" % len(whole)
    yield Attack("length and chunks", framed(length + b"Transfer-Encoding: chunked\r\n", whole))
    yield Attack("chunks and length", framed(b"Transfer-Encoding: chunked\r\n" + length, whole))
    in_chunks = chunk(SMUGGLED) + b"0\r\n\r\n"
    for coding in (b"xchunked", b"chunked, identity", b"identity", b"gzip", b"chunked;q=1", b"gzip, chunked",
                   b"chunked, chunked", b"chunked,", b",chunked", b"", b"\x0bchunked", b"chunked\x0c", b'"chunked"',
                   b"chunk\xe4d"):
        yield Attack(f"coding {coding!r}", framed(b"Transfer-Encoding: " + coding + b"\r\n", in_chunks), (400, 501))
    for lines in (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                  b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding : chunked\r\n",
                  b"Transfer-Encoding\t: chunked\r\n", b"Transfer\0-Encoding: chunked\r\n",
                  b"X: y\nTransfer-Encoding: chunked\r\n", b"X: y\rTransfer-Encoding: chunked\r\n",
                  b"Transfer-Encoding: chunked\n", b"Transfer-Encoding chunked\r\n", b": chunked\r\n"):
        yield Attack(f"line {lines!r}", framed(lines, in_chunks), (400, 501))
    # A folded line is refused, or read as it was meant to be.
    for lines in (b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding:\r\n\tchunked\r\n",
                  b"X: y\r\n Transfer-Encoding: z\r\nTransfer-Encoding: chunked\r\n",
                  b"TRANSFER-ENCODING:chunked\r\n", b"transfer-encoding: \t cHuNkEd \t \r\n"):
        yield Attack(f"line {lines!r}", framed(lines, in_chunks), closes=False)
    folded = framed(b"", in_chunks).replace(b"Host", b" Transfer-Encoding: chunked\r\nHost")
    yield Attack("a first line that is folded", folded, (400, 501))
    yield Attack("chunks of HTTP/1.0", framed(b"Transfer-Encoding: chunked\r\n", in_chunks, b"1.0"))
    for value in (b"3, 4", b"+3", b"0x3", b"3 3", b"", b"-1", b"99999999999999999999", b"18446744073709551617", b"1e1", b"3;",
                  b"\0003", b"3\x0b", b"three", b"3.0", b"3_0", b"\xc2\xb3"):
        yield Attack(f"length {value!r}", framed(b"Content-Length: " + value + b"\r\n", b"{}\n" + SMUGGLED), (400, 413))
    yield Attack("two lengths", framed(b"Content-Length: 3\r\nContent-length: 4\r\n", b"{}\n" + SMUGGLED))
    body = b"{" + SMUGGLED
    same = b"Content-Length: %d\r\n" % len(body)
    yield Attack("the same length twice", framed(same + same, body), closes=False)
    yield Attack("a length of HTTP/0.9", b"POST /tokenize\r\nContent-Length: 3\r\n\r\n" + SMUGGLED, (400, 505))


def chunks():
    """Chunked bodies that are broken, or odd."""
    lines = b"Transfer-Encoding: chunked\r\n"
    for size in (b"-5", b"0x5", b" 5", b"+5", b"", b"g", b"FFFFFFFFFFFFFFFF1", b"5\n", b"5 5", b"5,5", b"\0005", b"5\r", b";a"):
        yield Attack(f"chunk size {size!r}", framed(lines, chunk(SMUGGLED[:5], size) + SMUGGLED), (400, 413))
    for size in (b"FFFFFFFFFFFFFFFF", b"7FFFFFFFFFFFFFFF", b"%x" % (BODY_LIMIT + 1)):
        yield Attack(f"chunk size {size!r}", framed(lines, chunk(SMUGGLED[:5], size)), (400, 413))
    for extension in (b";a", b";a=b", b';a="b c"', b";a;b;c=d", b" ; a = b"):
        body = chunk(SMUGGLED, b"%x" % len(SMUGGLED) + extension) + b"0\r\n\r\n"
        yield Attack(f"extension {extension!r}", framed(lines, body), closes=False)
    for extension in (b";" + b"a" * (2 * HEADER_LIMIT), b';a="' + b"b" * (2 * HEADER_LIMIT), b";a" * HEADER_LIMIT):
        body = chunk(SMUGGLED, b"%x" % len(SMUGGLED) + extension)
        yield Attack(f"extension of {len(extension)} bytes {extension[:4]!r}", framed(lines, body), (400, 431))
    yield Attack("leading zeros", framed(lines, chunk(SMUGGLED, b"%064x" % len(SMUGGLED)) + b"0\r\n\r\n"), closes=False)
    yield Attack("no line end behind a chunk", framed(lines, b"5\r\n{    0\r\n\r\n" + SMUGGLED))
    yield Attack("more than the chunk has", framed(lines, chunk(SMUGGLED, b"5") + b"0\r\n\r\n"))
    yield Attack("many chunks", framed(lines, (b"1;" + b"x" * 20 + b"\r\n \r\n") * 20_000 + b"0\r\n\r\n"), closes=False)
    for trailer in (b"X: y\r\n", b"Host: other\r\n", b"Authorization: Bearer x\r\n", b"Connection: close\r\n"):
        yield Attack(f"trailer {trailer!r}", framed(lines, chunk(SMUGGLED) + b"0\r\n" + trailer + b"\r\n"), closes=False)
    for trailer in (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"no colon\r\n", b" folded\r\n",
                    b"X: " + b"y" * (2 * HEADER_LIMIT) + b"\r\n", b"X: y\r\n" * 20_000):
        body = chunk(SMUGGLED) + b"0\r\n" + trailer + b"\r\n"
        yield Attack(f"trailer {trailer[:40]!r} of {len(trailer)}", framed(lines, body), (400, 431))


def heads():
    """Request lines and headers."""
    line = lambda first, lines=b"Host: localhost\r\n": first + b"\r\n" + lines + b"\r\n"
    for first in (b"", b"GET", b"GET /health", b" GET /health HTTP/1.1", b"GET  /health HTTP/1.1", b"GET /health  HTTP/1.1",
                  b"GET /health HTTP/1.1 ", b"GET\t/health\tHTTP/1.1", b"GET /health HTTP/1", b"GET /health HTTP/01.1",
                  b"GET /health http/1.1", b"GET /health HTTP/1.1x", b"GET /hea\0lth HTTP/1.1", b"GET \x80\xff HTTP/1.1",
                  b"G(T /health HTTP/1.1", b"GET health HTTP/1.1", b"GET /hea lth HTTP/1.1", b"GET /health HTTP/1.1\n",
                  b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 64, b"{\"prompt\": 1}",
                  b"GET //health\\..\\ HTTP/1.1 HTTP/1.1"):
        yield Attack(f"request line {first!r}", line(first), (400, 404, 505))
    for version in (b"0.9", b"1.2", b"2.0", b"3.0", b"9.9"):
        yield Attack(f"version {version!r}", line(b"GET /health HTTP/" + version), (400, 505))
    yield Attack("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 64, (400, 505))
    for lines in (b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: localhost, localhost\r\n", b"Host: local host\r\n",
                  b"Host: other.example\r\n", b"Host: \r\n", b"Host: localhost@other\r\n", b"Host: localhost:99999999\r\n",
                  b"Host: localhost\0\r\n", b"Host: [::1\r\n"):
        yield Attack(f"host {lines!r}", line(b"GET /health HTTP/1.1", lines), (400, 421), closes=False)
    for target, statuses in ((b"http://other.example/health", (400, 421)), (b"http://localhost/health", (200,)),
                             (b"*", (400, 404, 405)), (b"localhost:80", (400, 404, 405)), (b"/../../etc/passwd", (400, 404)),
                             (b"/%00", (400, 404)), (b"/health?", (200,)), (b"/health#x", (400, 404)),
                             (b"/" + b"a" * 20_000, (404,))):
        yield Attack(f"target {target[:40]!r}", line(b"GET " + target + b" HTTP/1.1"), statuses, closes=False)
    for method in (b"OPTIONS", b"TRACE", b"CONNECT", b"DELETE", b"get", b"X" * 100, b"POST"):
        yield Attack(f"method {method[:20]!r}", line(method + b" /health HTTP/1.1"), (400, 405), closes=False)
    for more in (b"no colon\r\n", b": empty\r\n", b"X y: z\r\n", b"X\0: z\r\n", b"X: a\0b\r\n", b"X: a\nY: b\r\n",
                 b"X: a\r\r\n", b"\x80: z\r\n"):
        yield Attack(f"field {more!r}", line(b"GET /health HTTP/1.1", b"Host: localhost\r\n" + more))
    for more in (b"X: \xff\xfe\r\n",
                 b"Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
                 b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Expect: 100-continue\r\n",
                 b"Connection: close, keep-alive\r\n", b"Content-Length: 0\r\n", b"X-Request-Id: \xff" + b"a" * 500 + b"\r\n",
                 b"traceparent: x\r\n", b"Authorization: \x01\r\n"):
        yield Attack(f"field {more[:40]!r}", line(b"GET /health HTTP/1.1", b"Host: localhost\r\n" + more), (200, 400),
                     closes=False)
    yield Attack("another expectation", post(b"/tokenize", TOKENIZED, b"Expect: 200-ok\r\n"), (417,))


def floods():
    """More than the server takes. It may cut a client that sends on behind its refusal, whose response then is lost."""
    line = lambda first, lines: first + b"\r\nHost: localhost\r\n" + lines + b"\r\n"
    for name, data in (("many fields", line(b"GET /health HTTP/1.1", b"X: y\r\n" * 20_000)),
                       ("a long field", line(b"GET /health HTTP/1.1", b"X: " + b"y" * (4 * HEADER_LIMIT) + b"\r\n")),
                       ("a long name", line(b"GET /health HTTP/1.1", b"X" * (4 * HEADER_LIMIT) + b": y\r\n")),
                       ("a long target", line(b"GET /" + b"a" * (4 * HEADER_LIMIT) + b" HTTP/1.1", b"")),
                       ("a long method", line(b"G" * (4 * HEADER_LIMIT) + b" / HTTP/1.1", b"")),
                       ("folds", line(b"GET /health HTTP/1.1", b"X: y\r\n" + b" z\r\n" * 40_000)),
                       ("spaces", line(b"GET /health HTTP/1.1", b"X:" + b" " * (4 * HEADER_LIMIT) + b"\r\n")),
                       ("nothing but line ends", b"\r\n" * (2 * HEADER_LIMIT)),
                       ("nothing but letters", b"a" * (8 * HEADER_LIMIT))):
        yield Attack(name, data, (400, 431))
    too_long = b"Content-Length: %d\r\n" % (BODY_LIMIT + 1)
    yield Attack("a length that is too large", framed(too_long, b""), (413,))
    yield Attack("a body that is too large", framed(too_long, b" " * (BODY_LIMIT + 1)), (413,), is_answered=False)
    too_much = chunk(b" " * (1 << 20)) * 9
    yield Attack("chunks that are too much", framed(b"Transfer-Encoding: chunked\r\n", too_much), (413,), is_answered=False)


def pipelines():
    """Several requests on one connection, some of which are none."""
    for count in (1, 5, 100):
        yield Attack(f"{count} and garbage", GET * count + b"garbage\r\n\r\n" + GET, (200, 400), most=count + 1)
    each = post(b"/tokenize", TOKENIZED) + GET + post(b"/v1/completions", STREAMED) + GET
    yield Attack("answers of each kind", each + b"\0\r\n\r\n", (200, 400), most=5)
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    yield Attack("garbage behind the last one", last + GET * 3 + b"x" * 5000, (200,))
    yield Attack("garbage behind a body", post(b"/tokenize", TOKENIZED) + b"\r\n\r\n\r\n}{", (200, 400), most=2)
    with_body = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED
    yield Attack("a body that nobody wants", b"GET /none" + with_body, (404,))
    yield Attack("a body of a GET", b"GET /health" + with_body, (200, 400), closes=False)


GROUPS = (smuggling, chunks, heads, floods, pipelines)


TOKENS = (b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\t", b",", b";", b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n",
          b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n",
          b"HTTP/1.1", b"GET / HTTP/1.1\r\n", b"\xff\xff", b"9" * 20, b'"', b"[" * 50, b"{}", b"\\u0000", b"%00", b"A" * 3000)


def mutated(rng):
    """A request that was right, or several, with some random changes."""
    data = bytearray(b"".join(rng.choices(VALID, k=rng.choice((1, 1, 1, 2, 3)))))
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 64)))
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.choice((1, 4, 100)))
        elif kind == 5:
            numbers = list(re.finditer(rb"\d+", bytes(data)))
            if numbers:
                number, others = rng.choice(numbers), (b"0", b"-1", b"1", b"255", b"4294967296", b"1e9", b"007", b"0x10")
                data[number.start():number.end()] = rng.choice(others)
        else:
            del data[at + rng.randrange(200):]
    return bytes(data)


def in_pieces(rng, data):
    """The data, cut at random places; most often not at all."""
    if rng.random() < 0.6 or len(data) < 2:
        return [data]
    cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.choice((1, 2, 10)))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)])]
