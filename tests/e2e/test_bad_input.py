"""Every bad input gives one clear error, and the service goes on serving."""

import json
import socket

import grpc
import pytest

from client import GENERATION, Client, error_detail, read_stream, violated_fields
from cluster import Cluster, run_baton, wait_until

PROMPT = "The capital of France is"
CONTEXT_LENGTH = 8192
VOCAB_SIZE = 49152
# kMaxMessageBytes and kMaxPromptBytes of common/limits.h.
MESSAGE_LIMIT_BYTES = 4 << 20
PROMPT_LIMIT_BYTES = 1 << 20
NAN = float("nan")
INFINITY = float("inf")
# Room for 96 blocks, each of 16 tokens and 360 KiB.
SMALL_POOL = "34MiB"
SMALL_POOL_TOKENS = 96 * 16


@pytest.fixture(autouse=True)
def still_serves(client):
    """After each bad input the service gives the right answer, and holds no block of the refused request."""
    yield
    assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


def refuse(client, *args, **fields):
    with pytest.raises(grpc.RpcError) as raised:
        client.generate(*args, **fields)
    assert raised.value.details(), "an error without a word"
    assert "\n" not in raised.value.details()
    return raised.value


def assert_names_field(error, field):
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error.details()
    assert violated_fields(error) == [field], error.details()


@pytest.mark.parametrize("prompt", ["", []], ids=["text", "token_ids"])
def test_empty_prompt(client, prompt):
    assert_names_field(refuse(client, prompt), "prompt")


def test_no_prompt_at_all(client):
    error = read_stream(client.start(b"")).error
    assert_names_field(error, "prompt")


def test_chat_without_messages(client):
    request_class = client.message("baton.v1.GenerateRequest")
    assert_names_field(read_stream(client.start(request_class(chat={}))).error, "chat.messages")


def test_prompt_over_the_context(client):
    error = refuse(client, [1] * CONTEXT_LENGTH)
    assert_names_field(error, "prompt")
    assert str(CONTEXT_LENGTH) in error.details()


def test_text_over_its_limit(client):
    assert_names_field(refuse(client, "a" * (PROMPT_LIMIT_BYTES + 1)), "text")


@pytest.mark.parametrize(("field", "value"), [
    ("temperature", -1.0), ("temperature", NAN), ("temperature", INFINITY), ("top_k", -1), ("top_p", 0.0),
    ("top_p", -0.5), ("top_p", 1.5), ("top_p", NAN), ("min_p", -0.1), ("min_p", 1.1), ("min_p", NAN),
    ("repetition_penalty", 0.0), ("repetition_penalty", -1.0), ("repetition_penalty", NAN),
    ("frequency_penalty", -2.5), ("frequency_penalty", 2.5), ("frequency_penalty", NAN),
    ("presence_penalty", -2.5), ("presence_penalty", 2.5), ("presence_penalty", NAN),
    ("max_tokens", 0), ("max_tokens", -1), ("min_tokens", -1), ("logprobs", -1), ("logprobs", 21),
])
def test_sampling_value_out_of_range(client, field, value):
    assert_names_field(refuse(client, PROMPT, {field: value}), f"sampling.{field}")


@pytest.mark.parametrize("stop_token_ids", [[-1], [VOCAB_SIZE], [1] * 65], ids=["negative", "too large", "too many"])
def test_bad_stop_token_ids(client, stop_token_ids):
    assert_names_field(refuse(client, PROMPT, {"stop_token_ids": stop_token_ids}), "sampling.stop_token_ids")


@pytest.mark.parametrize(("biases", "names"), [
    ([(-1, 1)], "-1"), ([(5, 1), (VOCAB_SIZE, 1)], str(VOCAB_SIZE)), ([(5, 1), (6, 1), (5, 2)], "token 5 "),
    ([(5, 100.5)], "token 5 "), ([(5, -101)], "token 5 "), ([(5, NAN)], "token 5 "), ([(5, INFINITY)], "token 5 "),
    ([(token, 1) for token in range(1025)], "1024"),
], ids=["negative", "too large", "twice", "above", "below", "nan", "endless", "too many"])
def test_bad_logit_bias(client, biases, names):
    error = refuse(client, PROMPT, {"logit_bias": [{"id": token, "bias": bias} for token, bias in biases]})
    assert_names_field(error, "sampling.logit_bias")
    assert names in error.details()


@pytest.mark.parametrize("token_id", [-1, VOCAB_SIZE, 2**31 - 1, -2**31])
def test_token_id_out_of_range(client, token_id):
    error = refuse(client, [1, token_id, 2])
    assert_names_field(error, "token_ids")
    assert str(token_id) in error.details()


def test_detokenize_token_id_out_of_range(client):
    with pytest.raises(grpc.RpcError) as raised:
        client.call(GENERATION, "Detokenize", token_ids=[VOCAB_SIZE])
    assert_names_field(raised.value, "token_ids")


def test_invalid_utf8_on_the_wire(client):
    # Field 2, `text`, is a proto3 string: 0xff is never UTF-8.
    error = read_stream(client.start(b"\x12\x03a\xffb")).error
    assert error is not None and error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)


def test_bytes_that_are_no_message(client):
    assert read_stream(client.start(b"\xff" * 64)).error is not None


@pytest.mark.parametrize("stop", [["x"] * 10_000, [""], ["x" * 257]], ids=["10,000", "empty", "too long"])
def test_bad_stop_strings(client, stop):
    assert_names_field(refuse(client, PROMPT, stop=stop), "stop")


def test_message_at_and_over_the_size_limit(client):
    wrapping_bytes = client.generate_request("a" * MESSAGE_LIMIT_BYTES).ByteSize() - MESSAGE_LIMIT_BYTES
    at_limit = "a" * (MESSAGE_LIMIT_BYTES - wrapping_bytes)
    assert_names_field(refuse(client, at_limit), "text")
    error = refuse(client, at_limit + "a")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error_detail(error, "RetryInfo") is None, "sending the message again does not help"
    assert "larger than max" in error.details()


def test_unknown_model_name(client):
    error = refuse(client, PROMPT, model="no-such-model")
    assert error.code() == grpc.StatusCode.NOT_FOUND
    assert "no-such-model" in error.details() and "smollm2-135m-instruct" in error.details()


def test_unknown_method_is_unimplemented(client):
    call = client.channel.unary_unary(f"/{GENERATION}/NoSuchMethod", request_serializer=bytes,
                                      response_deserializer=bytes)
    with pytest.raises(grpc.RpcError) as raised:
        call(b"", timeout=10)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("mixed", [False, True], ids=["separate", "mixed"])
def test_prompt_larger_than_the_whole_pool(mixed):
    roles = ("--prefill", 0, "--decode", 0, "--mixed", 1) if mixed else ()
    with Cluster("--threads", 1, "--kv-memory", SMALL_POOL, *roles) as small, Client(small.target) as client:
        error = refuse(client, [5] * (SMALL_POOL_TOKENS + 16), {"max_tokens": 4}, timeout_s=20)
        assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT), error.details()
        if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            assert error_detail(error, "RetryInfo") is None, "no retry can help"
        assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


def test_more_requests_than_the_queue_holds():
    with Cluster("--threads", 1, "--max-seqs", 1, "--max-queued-jobs", 1) as small, Client(small.target) as client:
        running = client.start(client.generate_request(PROMPT, {"max_tokens": 4000, "ignore_eos": True}))
        next(iter(running))
        # One of the requests waits, and the others are refused meanwhile.
        waiting = [client.start(client.generate_request(PROMPT, {"max_tokens": 4})) for _ in range(8)]
        refused = wait_until(lambda: [stream for stream in waiting if stream.done()], 30, "a refusal")
        for stream in refused:
            assert stream.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, stream.details()
            assert error_detail(stream, "RetryInfo").retry_delay.ListFields(), "no word on when to come again"
        running.cancel()
        ends = [read_stream(stream).error for stream in waiting if stream not in refused]
        assert None in ends, "nobody was served after the wait"
        assert all(end is None or end.code() == grpc.StatusCode.RESOURCE_EXHAUSTED for end in ends)
        assert "Paris" in client.generate(PROMPT, {"max_tokens": 4}).text


# ---- The command line: exit codes, and one line that says what is wrong.


def fail(exit_code, *args, words=(), **kwargs):
    result = run_baton(*args, **kwargs)
    assert result.returncode == exit_code, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert str(word) in result.stderr
    return result.stderr


@pytest.fixture
def refused_port():
    """A bound port at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_cli_router_that_is_not_there(refused_port):
    target = f"127.0.0.1:{refused_port}"
    fail(1, "generate", "--target", target, "--prompt", "x", words=[target])
    fail(1, "status", "--target", target, "--json", words=[target])


def test_cli_invalid_utf8_in_a_prompt_file(cluster, tmp_path):
    file = tmp_path / "prompt.bin"
    file.write_bytes(b"ab\xff\xfe\xc3")
    fail(1, "generate", "--target", cluster.target, "--prompt-file", file, "--max-tokens", 2, words=["UTF-8"])


def test_cli_bad_values_of_a_request(cluster):
    target = ("--target", cluster.target)
    fail(1, "generate", *target, "--prompt", PROMPT, "--top-p", "2", words=["top_p"])
    fail(1, "generate", *target, "--prompt", PROMPT, "--temperature", "nan", words=["temperature"])
    fail(1, "generate", *target, "--prompt", PROMPT, "--max-tokens", "0", words=["max_tokens: must be from 1 to 1048576, not 0"])
    fail(1, "generate", *target, "--prompt", "", words=["prompt"])
    fail(1, "generate", *target, "--prompt", PROMPT, "--model", "no-such", words=["no-such"])
    fail(1, "generate", *target, "--token-ids", "1,x", words=["'x'"])
    fail(1, "generate", *target, "--token-ids", f"1,{VOCAB_SIZE}", words=[VOCAB_SIZE])


def test_cli_lines_have_the_digest_of_the_prompt_only_when_asked(cluster):
    command = ("generate", "--target", cluster.target, "--prompt", PROMPT, "--max-tokens", 2)
    last = lambda *flags: json.loads(run_baton(*command, *flags).stdout.splitlines()[-1])
    assert "kv_digest" not in last("--jsonl")
    assert len(last("--jsonl", "--kv-digest")["kv_digest"]) == 32
    assert len(last("--json")["kv_digest"]) == 32, "the contract of --json"


def test_cli_missing_files(cluster, tmp_path):
    missing = tmp_path / "missing"
    fail(1, "generate", "--target", cluster.target, "--prompt-file", missing, words=[missing])
    fail(1, "inspect", f"{missing}.gguf", words=[missing])


def test_cli_missing_model(tmp_path):
    missing = tmp_path / "missing.gguf"
    fail(1, "serve", missing, "--grpc-port", 0, words=[missing])
    fail(1, "serve", "no-such-model", "--grpc-port", 0, words=["no-such-model"])
    fail(1, "tokenize", "--model", "no-such-model", "--text", "x", words=["no-such-model"])


@pytest.mark.parametrize("content", [
    b"", b"GGUF", b"not a model at all", b"GGUF" + b"\xff" * 60,
    b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") * 2 + b"\x00" * 40,
], ids=["empty", "cut", "text", "absurd counts", "zeros"])
def test_cli_damaged_model(tmp_path, content):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(content)
    fail(1, "inspect", damaged, words=[damaged])
    fail(1, "serve", damaged, "--grpc-port", 0, words=[damaged])


def test_cli_port_in_use(cluster):
    port = cluster.target.rpartition(":")[2]
    fail(1, "serve", "--grpc-port", port, words=[port])


@pytest.mark.parametrize("args", [
    ("serve", "--no-such-flag"), ("serve", "--prefill", "-1"), ("serve", "--prefill", "x"), ("serve", "--isa", "mmx"),
    ("serve", "--kv-dtype", "f32"), ("mixed-worker", "--numerics", "fp32", "--kv-dtype", "int8"),
    ("serve", "--kv-memory", "many"), ("serve", "--prefill", "0"), ("generate",), ("no-such-command",), (),
    ("generate", "--prompt", "x", "--token-ids", "1"), ("serve", "--grpc-port", "0", "--config", "/no/such/file.yaml"),
], ids=" ".join)
def test_cli_wrong_usage(args):
    result = run_baton(*args, timeout_s=30)
    assert result.returncode == 2, result.stderr
    assert result.stderr and result.stdout == ""
