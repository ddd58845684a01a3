"""Collectors of OTLP as a test fixture: real servers over gRPC and HTTP, with the messages of opentelemetry-proto."""

import concurrent.futures
import contextlib
import http.server
import threading

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from cluster import wait_until


class Spans:
    """What a collector has received. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._spans, self._resources = [], []

    def add(self, request):
        with self._lock:
            for resource in request.resource_spans:
                self._resources.append({one.key: one.value.string_value for one in resource.resource.attributes})
                for scope in resource.scope_spans:
                    self._spans.extend(scope.spans)

    @property
    def resources(self):
        with self._lock:
            return list(self._resources)

    def traces(self):
        """Spans by trace id; of each trace a list."""
        traces = {}
        with self._lock:
            for span in self._spans:
                traces.setdefault(span.trace_id, []).append(span)
        return traces

    def wait_for_traces(self, count, timeout_s=30):
        wait_until(lambda: len(self.traces()) >= count, timeout_s, f"{count} traces, not {len(self.traces())}")
        return self.traces()


class _GrpcService(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, spans, behave):
        self._spans, self._behave = spans, behave

    def Export(self, request, context):
        self._behave(context)
        self._spans.add(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@contextlib.contextmanager
def grpc_collector(behave=lambda context: None):
    """Yields (endpoint, Spans). `behave` may abort or delay a call."""
    spans = Spans()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_GrpcService(spans, behave), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", spans
    finally:
        server.stop(None)


@contextlib.contextmanager
def http_collector():
    """Yields (endpoint, Spans, paths): the base endpoint, and the paths that were posted to."""
    spans, paths = Spans(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            spans.add(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", spans, paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def root_of(spans):
    (root,) = (span for span in spans if span.name == "baton.request")
    return root


def duration_ms(span):
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
