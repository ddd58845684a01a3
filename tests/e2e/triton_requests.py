"""Requests of Triton's own client to the model of a cluster, and what it answers."""

import contextlib
import dataclasses
import json
import queue

import numpy
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

MODEL = "smollm2-135m-instruct"
TIMEOUT_S = 120
RETURNS = {"finish_reason": "return_finish_reason", "num_input_tokens": "return_num_input_tokens",
           "num_output_tokens": "return_num_output_tokens", "token_ids": "return_token_ids"}
# What costs more.
LOGPROBS = {"logprobs": "return_logprobs", "cumulative_logprob": "return_cumulative_logprob"}


def text_tensor(name, text):
    tensor = triton.InferInput(name, [1], "BYTES")
    tensor.set_data_from_numpy(numpy.array([text.encode() if isinstance(text, str) else text], dtype=object))
    return tensor


def bool_tensor(name, value):
    tensor = triton.InferInput(name, [1], "BOOL")
    tensor.set_data_from_numpy(numpy.array([value], dtype=bool))
    return tensor


def inputs_of(prompt, sampling=None, stream=False, excludes_input=True, returns=tuple(RETURNS)):
    """As the clients of Triton's vLLM backend send them."""
    inputs = [text_tensor("text_input", prompt), bool_tensor("stream", stream),
              bool_tensor("exclude_input_in_output", excludes_input)]
    if sampling is not None:
        inputs.append(text_tensor("sampling_parameters", json.dumps(sampling)))
    return inputs + [bool_tensor((RETURNS | LOGPROBS)[output], True) for output in returns]


@dataclasses.dataclass
class Answer:
    """What the responses to one request said together."""
    text: str = ""
    token_ids: list = dataclasses.field(default_factory=list)
    counted: int = 0
    input_tokens: object = None
    finish: object = None
    responses: int = 0
    is_final: bool = False
    error: object = None

    def add(self, result):
        self.responses += 1
        assert not self.is_final, "a response after the final one"
        response = result.get_response()
        parameters = response.parameters
        self.is_final = "triton_final_response" in parameters and parameters["triton_final_response"].bool_param
        if not response.outputs:
            return
        self.text += result.as_numpy("text_output")[0].decode()
        if (ids := result.as_numpy("token_ids")) is not None:
            self.token_ids += [int(id) for id in ids]
        if (count := result.as_numpy("num_output_tokens")) is not None:
            self.counted += int(count[0])
        if (count := result.as_numpy("num_input_tokens")) is not None:
            self.input_tokens = int(count[0])
        if (finish := result.as_numpy("finish_reason")) is not None:
            self.finish = finish[0].decode()


class Outputs:
    """What the responses to a request for several outputs said together, with everything that can be asked for."""

    def __init__(self, count):
        self.count, self.is_final = count, False
        self.texts, self.finishes, self.cumulative = [""] * count, [None] * count, [0.0] * count
        self.token_ids, self.logprobs = [[] for _ in range(count)], [[] for _ in range(count)]

    def add(self, result):
        response = result.get_response()
        assert not self.is_final, "a response after the final one"
        self.is_final = response.parameters["triton_final_response"].bool_param
        if not response.outputs:
            return
        of_each = {name: result.as_numpy(name) for name in ("text_output", "finish_reason", "num_output_tokens", *LOGPROBS)}
        assert {array.shape for array in of_each.values()} == {(self.count,)}
        ids = result.as_numpy("token_ids").tolist()
        for i in range(self.count):
            count = int(of_each["num_output_tokens"][i])
            self.texts[i] += of_each["text_output"][i].decode()
            self.finishes[i] = of_each["finish_reason"][i].decode()
            self.cumulative[i] = float(of_each["cumulative_logprob"][i])
            self.token_ids[i] += ids[:count]
            # None where the request does not say how many likely tokens it wants.
            places = json.loads(of_each["logprobs"][i])
            assert places is None or len(places) == count
            self.logprobs[i] += places or []
            ids = ids[count:]
        assert not ids, "ids of no output"


def infer(client, prompt, sampling=None, **fields):
    """The answer of ModelInfer."""
    answer = Answer()
    answer.add(client.infer(MODEL, inputs_of(prompt, sampling, **fields), client_timeout=TIMEOUT_S))
    return answer


class Stream:
    """A stream of the client, whose responses it tells apart by the ids of their requests."""

    def __init__(self, client, **fields):
        self.client, self.fields = client, fields
        self.events = queue.Queue()
        self.answers = {}

    def __enter__(self):
        self.client.start_stream(callback=lambda result, error: self.events.put((result, error)), **self.fields)
        return self

    def __exit__(self, *_):
        self.client.stop_stream(cancel_requests=True)

    def ask(self, request_id, inputs, answer=None, **fields):
        self.answers[request_id] = answer or Answer()
        self.client.async_stream_infer(MODEL, inputs, request_id=request_id, enable_empty_final_response=True, **fields)

    def take(self):
        """The next response; raises the error of the next request that failed."""
        result, error = self.events.get(timeout=TIMEOUT_S)
        if error is not None:
            raise error
        self.answers[result.get_response().id].add(result)
        return result

    def finish(self, request_id):
        while not self.answers[request_id].is_final:
            self.take()
        return self.answers[request_id]


@contextlib.contextmanager
def refused():
    """The error of the body is in the list."""
    errors = []
    try:
        yield errors
    except InferenceServerException as error:
        errors.append(error)
    assert errors, "it was not refused"
