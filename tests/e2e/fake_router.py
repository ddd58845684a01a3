"""A router that answers what a test tells it to, for what no real one says."""

import concurrent.futures
import threading

import grpc

from client import GENERATION

PATIENCE_S = 30


class FakeRouter:
    """`with FakeRouter(client) as router:` serves the client API at router.target. `client` knows its messages."""

    def __init__(self, client):
        self._message = lambda name: client.message(f"baton.v1.{name}")
        # Each is a list of texts, which come as one answer, or a text, which is an error's message, or None: nothing comes
        # until the client leaves.
        self.answers = []
        # What has been asked.
        self.requests = []
        self.is_asked = threading.Event()

    def __enter__(self):
        request = self._message("GenerateRequest")
        handlers = {
            "Generate": grpc.unary_stream_rpc_method_handler(self._generate, request.FromString,
                                                             lambda message: message.SerializeToString()),
            "ListModels": grpc.unary_unary_rpc_method_handler(self._list, self._message("ListModelsRequest").FromString,
                                                              lambda message: message.SerializeToString()),
            "Tokenize": grpc.unary_unary_rpc_method_handler(self._tokenize, self._message("TokenizeRequest").FromString,
                                                            lambda message: message.SerializeToString())}
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(GENERATION, handlers)])
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(grace=0).wait()

    def _generate(self, request, context):
        self.requests.append(request)
        answer = self.answers.pop(0)
        self.is_asked.set()
        if answer is None:
            left = threading.Event()
            if context.add_callback(left.set):
                left.wait(PATIENCE_S)
            return
        if isinstance(answer, str):
            context.abort(grpc.StatusCode.OUT_OF_RANGE, answer)
        response = self._message("GenerateResponse")
        for index, text in enumerate(answer):
            yield response(output={"text": text, "tokens": [{"index": index, "id": 1}]})
        yield response(finished={"reason": 1, "usage": {"output_tokens": len(answer)}})

    def _list(self, _request, _context):
        return self._message("ListModelsResponse")(models=[{"name": "m", "context_length": 1024}])

    def _tokenize(self, request, _context):
        return self._message("TokenizeResponse")(token_ids=[1] * len(request.chat.messages))
