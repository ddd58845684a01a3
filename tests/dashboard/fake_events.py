#!/usr/bin/env python3
"""A stand-in for a router's admin port: serves the dashboard's files and a stream of events.

Tests hold a FakeRouter and publish what they like. From the command line it replays a synthetic cluster in real time:
fake_events.py [--port P] [--scenario steady|burst|failing|history|empty|one]
"""

import argparse
import http.server
import json
import pathlib
import queue
import re
import threading
import time

from synthetic_cluster import Shape, SyntheticCluster, shifted

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
DASHBOARD_DIR = SOURCE_DIR / "dashboard"
# What all pages share.
WEB_DIR = SOURCE_DIR / "web"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
MAX_VIEWERS = 8

SCENARIOS = {
    "steady": Shape(),
    "burst": Shape(bursts=((200, 212, 4), (255, 261, 5), (320, 330, 4))),
    "failing": Shape(
        decode=4, losses=((270, 1), (316, 2)), drains=((250, 3),), failure_share=0.02, bursts=((262, 275, 3),)
    ),
    "history": Shape(prefill=4, decode=6, requests_per_s=38, bursts=((180, 190, 2.2), (240, 250, 1.8))),
}
HISTORY_S = 300
LIVE_S = 900


def content_security_policy():
    """The one that the router sends, from the source that says it."""
    header = (SOURCE_DIR / "common/web_asset.h").read_text()
    literals = header.partition("kContentSecurityPolicy[] =")[2].partition(";\n")[0]
    return "".join(re.findall(r'"([^"]*)"', literals))


class FakeRouter:
    """`with FakeRouter() as router:` serves at router.address until the end of the body."""

    def __init__(self, port=0):
        self.history = {"snapshots": [], "requests": []}
        # Answers /events with this status instead of a stream, when set.
        self.refuses_with = None
        # Every path begins with it, as behind a proxy.
        self.prefix = ""
        self.paths = []
        self._streams = []
        self._lock = threading.Lock()
        self._viewer_came = threading.Condition(self._lock)
        self.viewers_seen = 0
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._handler_class())
        self._server.daemon_threads = True
        self._policy = content_security_policy()

    @property
    def address(self):
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.drop()
        self._server.shutdown()
        self._server.server_close()

    def publish(self, event, data):
        """Sends an event to every viewer."""
        text = f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
        with self._lock:
            for stream in self._streams:
                stream.put(text)

    def publish_raw(self, text):
        with self._lock:
            for stream in self._streams:
                stream.put(text.encode())

    def drop(self):
        """Ends every stream, as a router does that ends."""
        with self._lock:
            for stream in self._streams:
                stream.put(None)

    def await_viewer(self, number, timeout_s=10):
        """Until that many streams have been opened since the beginning."""
        with self._viewer_came:
            assert self._viewer_came.wait_for(lambda: self.viewers_seen >= number, timeout_s), f"no viewer {number}"

    def _open_stream(self):
        stream = queue.SimpleQueue()
        with self._viewer_came:
            if self.refuses_with is not None or len(self._streams) >= MAX_VIEWERS:
                return None
            stream.put(f"event: history\ndata: {json.dumps(self.history)}\n\n".encode())
            self._streams.append(stream)
            self.viewers_seen += 1
            self._viewer_came.notify_all()
        return stream

    def _handler_class(self):
        router = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = self.path.removeprefix(router.prefix)
                router.paths.append(path)
                if path == "/events":
                    return self._serve_events()
                name = "index.html" if path == "/" else path[1:]
                file = next((folder / name for folder in (DASHBOARD_DIR, WEB_DIR) if (folder / name).is_file()), WEB_DIR)
                if not re.fullmatch(r"[a-z_]+\.(html|js|css)", name) or not file.is_file():
                    return self._answer(404, "text/plain; charset=utf-8", b"not found")
                return self._answer(200, CONTENT_TYPES[file.suffix], file.read_bytes())

            def _answer(self, status, content_type, body):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", router._policy)
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Cache-Control", "no-cache")
                self.end_headers()
                self.wfile.write(body)

            def _serve_events(self):
                stream = router._open_stream()
                if stream is None:
                    return self._answer(router.refuses_with or 503, "text/plain; charset=utf-8", b"refused")
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    while (text := stream.get()) is not None:
                        self.wfile.write(text)
                except OSError:
                    pass  # The viewer has left.
                finally:
                    with router._lock:
                        router._streams.remove(stream)
                self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler


class Replay:
    """Publishes a synthetic cluster in real time: requests ten times a second, a snapshot every second."""

    def __init__(self, router, cluster, begin_s=HISTORY_S):
        self.router = router
        self.cluster = cluster
        self._begin_s = begin_s
        self._ended = threading.Event()
        # The synthetic second `begin_s` is now.
        self._offset_ms = round(time.time() * 1000 - begin_s * 1000)
        router.history = cluster.history(begin_s, self._offset_ms)

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        last = self._begin_s
        begin = time.monotonic()
        ticks = 0
        while not self._ended.wait(max(0, begin + (ticks + 1) / 10 - time.monotonic())):
            ticks += 1
            now = self._begin_s + ticks / 10
            ended = shifted(self.cluster.between(last, now), self._offset_ms)
            last = now
            with self.router._lock:
                self.router.history["requests"] = (self.router.history["requests"] + ended)[-10_000:]
            if ended:
                self.router.publish("requests", ended)
            if ticks % 10 == 0:
                snapshot = shifted(self.cluster.snapshot(round(now)), self._offset_ms)
                with self.router._lock:
                    kept = self.router.history["snapshots"][-299:]
                    for old in kept:
                        old.pop("workers", None), old.pop("transfers", None)
                    self.router.history["snapshots"] = [*kept, snapshot]
                self.router.publish("snapshot", snapshot)


def start_scenario(router, name):
    """A Replay of the scenario, to be entered; sets the history of the router."""
    if name in ("empty", "one"):
        cluster = SyntheticCluster(Shape(requests_per_s=0.0), LIVE_S)
        if name == "one":
            cluster = SyntheticCluster(Shape(seed=3), 1.0)
            cluster.requests = cluster.requests[:1]
            cluster.requests[0]["end_ms"] = (HISTORY_S - 4) * 1000
        else:
            cluster.requests = []
        cluster.index()
        return Replay(router, cluster)
    return Replay(router, SyntheticCluster(SCENARIOS[name], HISTORY_S + LIVE_S))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=9464)
    parser.add_argument("--scenario", choices=[*SCENARIOS, "empty", "one"], default="steady")
    arguments = parser.parse_args()
    with FakeRouter(arguments.port) as router, start_scenario(router, arguments.scenario):
        print(f"http://{router.address}/", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
