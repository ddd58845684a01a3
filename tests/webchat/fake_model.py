"""A stand-in for a router's HTTP port: serves the files of the web chat, and answers that a test has written."""

import http.server
import json
import pathlib
import queue
import re
import threading

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
PAGE_DIR = SOURCE_DIR / "webchat"
# What all pages share.
WEB_DIR = SOURCE_DIR / "web"
CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
                 ".css": "text/css; charset=utf-8"}
PHASES = {"queue_ms": 1.0, "admission_ms": 2.0, "prefill_ms": 30.0, "transfer_ms": 7.0, "decode_ms": 59.0, "network_ms": 1.0,
          "total_ms": 100.0}
# How long an answer waits for its next piece.
PIECE_TIMEOUT_S = 20


def content_security_policy():
    """The one that the router sends, from the source that says it."""
    header = (SOURCE_DIR / "common/web_asset.h").read_text()
    literals = header.partition("kContentSecurityPolicy[] =")[2].partition(";\n")[0]
    return "".join(re.findall(r'"([^"]*)"', literals))


class FakeModel:
    """`with FakeModel() as model:` serves at model.address until the end of the body. `say` writes a whole answer ahead;
    an answer that nobody wrote ahead takes the pieces of `pieces` until None."""

    def __init__(self):
        self.requests, self.headers, self.left = [], [], threading.Event()
        self.pieces = queue.Queue()
        self._ahead = queue.Queue()
        policy = content_security_policy()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/v1/models":
                    return self.answer(200, "application/json", json.dumps({"data": [{"id": "tiny"}]}).encode())
                name = "index.html" if self.path == "/" else self.path[1:]
                file = next((folder / name for folder in (PAGE_DIR, WEB_DIR) if (folder / name).is_file()), WEB_DIR)
                if file.suffix not in CONTENT_TYPES or not file.is_file():
                    return self.answer(404, "text/plain", b"")
                return self.answer(200, CONTENT_TYPES[file.suffix], file.read_bytes())

            def do_POST(self):
                fake.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                fake.headers.append(dict(self.headers))
                ahead = None if fake._ahead.empty() else fake._ahead.get()
                if isinstance(ahead, tuple):
                    status, message = ahead
                    return self.answer(status, "application/json", json.dumps({"error": {"message": message}}).encode())
                self.begin(200, "text/event-stream")
                try:
                    self.stream(ahead)
                except ConnectionError:
                    fake.left.set()

            def stream(self, ahead):
                pieces = iter(ahead) if ahead is not None else iter(lambda: fake.pieces.get(timeout=PIECE_TIMEOUT_S), None)
                count = 0
                for piece in pieces:
                    if isinstance(piece, Exception):
                        self.event({"error": {"message": str(piece)}})
                        return self.done()
                    count += 1
                    self.event({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
                self.event({"choices": [{"delta": {}, "finish_reason": "stop"}], "phases": PHASES})
                self.event({"choices": [], "usage": {"completion_tokens": count, "prompt_tokens": 5}})
                self.done()

            def done(self):
                self.wfile.write(b"data: [DONE]\n\n")

            def event(self, data):
                self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()

            def begin(self, status, content_type):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Security-Policy", policy)
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()

            def answer(self, status, content_type, body):
                self.begin(status, content_type)
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def say(self, *pieces):
        self._ahead.put(list(pieces))

    def refuse(self, status, message):
        self._ahead.put((status, message))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.pieces.put(None)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
