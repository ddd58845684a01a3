"""`baton bench`: the load generator against a local cluster, the engine's figures in small."""

import contextlib
import http.server
import json
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree

import pytest

from cluster import BINARY, SOURCE_DIR, run_baton, wait_until

CLUSTER_ARGS = ("--kv-memory", "64MiB", "--threads", 1)
REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS = 8, 24, 6
LATENCIES = [f"{statistic}_{name}_ms" for statistic in ("mean", "median", "std", "p90", "p99")
             for name in ("ttft", "tpot", "itl", "e2el")]


def bench_serve(*args):
    result = run_baton("bench", "serve", "--json", *args)
    return result, json.loads(result.stdout) if result.stdout else None


def load_flags(target):
    return ["--target", target, "--requests", REQUESTS, "--prompt-tokens", PROMPT_TOKENS, "--output-tokens",
            OUTPUT_TOKENS, "--seed", 5]


def test_a_closed_loop_counts_every_request_and_token(cluster, tmp_path):
    plot = tmp_path / "latency.svg"
    result, report = bench_serve(*load_flags(cluster.target), "--concurrency", 4, "--records", "--plot", plot)
    assert result.returncode == 0, result.stderr
    assert (report["completed"], report["failed"]) == (REQUESTS, 0)
    assert report["total_input_tokens"] == REQUESTS * PROMPT_TOKENS
    assert report["total_output_tokens"] == REQUESTS * OUTPUT_TOKENS
    assert report["output_lens"] == [OUTPUT_TOKENS] * REQUESTS
    assert report["max_concurrent_requests"] == 4
    assert report["output_throughput"] == pytest.approx(report["total_output_tokens"] / report["duration"])
    for key in LATENCIES:
        assert report[key] >= 0, key
    assert 0 < report["median_ttft_ms"] <= report["p99_ttft_ms"] <= 1e3 * report["duration"]
    for ttft, gaps, e2el in zip(report["ttfts"], report["itls"], report["e2els"]):
        assert ttft + sum(gaps) <= e2el + 1e-6
    assert result.stderr == ""  # no progress line where there is no terminal
    assert report["cluster"] == {"prefill": 1, "decode": 1, "mixed": 0} and report["interrupted"] is False
    words = "\n".join(xml.etree.ElementTree.parse(plot).getroot().itertext())
    for text in ("1 prefill and 1 decode worker at", "closed loop, 4 in flight, 24 tokens in, 6 out", "TTFT (ms)",
                 "P99 "):
        assert text in words


def test_an_open_loop_follows_its_trace_and_counts_goodput(cluster, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,in,out\n0,16,2\n0.05,32,4\n0.1,16,1\n")
    flags = ["--target", cluster.target, "--trace", trace, "--warmup", 0, "--records"]
    result, report = bench_serve(*flags, "--slo-ttft-ms", 100000, "--slo-tpot-ms", 100000)
    assert result.returncode == 0, result.stderr
    assert report["input_lens"] == [16, 32, 16] and report["output_lens"] == [2, 4, 1]
    assert report["start_times_ms"] == pytest.approx([0, 50, 100])
    assert report["slo_attainment"] == 1 and report["request_goodput"] == pytest.approx(report["request_throughput"])
    _, strict = bench_serve(*flags, "--slo-ttft-ms", 1e-3)
    assert strict["slo_attainment"] == 0 and strict["request_goodput"] == 0


def test_outputs_match_a_grammar_which_may_end_them(cluster):
    flags = ["--target", cluster.target, "--requests", 2, "--prompt-tokens", 8, "--output-tokens", 12, "--warmup", 0,
             "--records"]
    result, report = bench_serve(*flags, "--choice", "a")
    assert result.returncode == 0, result.stderr
    # The choice and the end token.
    assert report["grammar"] == "choice" and report["output_lens"] == [2, 2]
    result, report = bench_serve(*flags, "--regex", "[0-9]{200}")
    assert result.returncode == 0 and report["output_lens"] == [12, 12], result.stderr
    assert "12 out that match a grammar (regex)" in run_baton("bench", "serve", *flags, "--regex", "[0-9]{200}").stdout
    assert bench_serve(*flags)[1]["grammar"] is None


def test_a_grammar_is_refused_where_it_would_be_ignored(openai_url):
    result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--regex", "a")
    assert result.returncode == 1 and report is None and "--backend" in result.stderr
    assert OpenAiStub.seen == []


def test_what_grammars_cost_is_measured_on_equally_many_tokens():
    script = SOURCE_DIR / "bench/grammar_cost.py"
    done = subprocess.run([sys.executable, script, BINARY, "--grammars", "strings", "lengths", "text", "--new", "--pairs", "2",
                           "--concurrency", "2", "--output-tokens", "12", "--json"], capture_output=True, text=True,
                          timeout=120, check=False)
    # Two pairs prove nothing, so the exit status is 1.
    assert done.returncode == 1 and done.stdout, done.stderr
    for name, found in json.loads(done.stdout).items():
        assert len(found["pairs"]) == 2 and found["ratio"] > 0, name


def test_when_all_requests_failed_there_are_errors_and_neither_latencies_nor_a_plot(cluster, tmp_path):
    too_long = ["--target", cluster.target, "--requests", 2, "--warmup", 0, "--prompt-tokens", 100000, "--plot",
                tmp_path / "latency.svg"]
    result, report = bench_serve(*too_long)
    assert result.returncode == 1
    assert (report["completed"], report["failed"], report["median_ttft_ms"]) == (0, 2, None)
    assert [error["count"] for error in report["error_counts"]] == [2]
    assert "2 of 2 requests failed" in result.stderr and len(result.stderr.splitlines()) == 1
    shown = run_baton("bench", "serve", *too_long)
    assert shown.returncode == 1 and "2 x INVALID_ARGUMENT: prompt" in shown.stdout
    assert "TTFT" not in shown.stdout and "0.00 requests/s" not in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_plot_that_cannot_be_written_fails_before_anything_is_sent(openai_url, tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "latency.svg"):
        result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--requests", 2, "--plot", path)
        assert result.returncode == 1 and report is None
        assert f"--plot: cannot write {path}: " in result.stderr and len(result.stderr.splitlines()) == 1
    assert OpenAiStub.seen == []


def test_an_existing_plot_survives_a_run_that_fails(tmp_path):
    plot = tmp_path / "latency.svg"
    plot.write_text("of yesterday")
    assert bench_serve("--target", "127.0.0.1:9", "--plot", plot)[0].returncode == 1
    assert plot.read_text() == "of yesterday"


def interrupted(flags, number, has_begun):
    """Sends the signal to a bench once has_begun() and returns its exit code, stdout and stderr."""
    # A shell that starts the tests in the background makes its children ignore SIGINT.
    process = subprocess.Popen(["env", "--default-signal=INT", BINARY, "bench", "serve", *map(str, flags)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(has_begun, 60, "the load has begun")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_load_and_reports_what_was_measured(openai_url, number, tmp_path):
    plot = tmp_path / "latency.svg"
    # With one request in flight, all before the one that is held have ended.
    OpenAiStub.answered_at_most = 3
    flags = ["--backend", "openai", "--base-url", openai_url, "--requests", 1000, "--concurrency", 1, "--warmup", 0,
             "--prompt-tokens", 2, "--output-tokens", 4, "--json", "--plot", plot]
    code, stdout, stderr = interrupted(flags, number, lambda: OpenAiStub.held.acquire(blocking=False))
    report = json.loads(stdout)
    assert code == -number  # as the signal itself would have ended it: 128 + number to a shell
    assert report["interrupted"] is True and report["failed"] == 0
    assert (report["completed"], report["cut"], report["not_sent"]) == (3, 1, 996)
    assert report["median_ttft_ms"] > 0
    assert "interrupted after" in stderr and len(stderr.splitlines()) == 1
    assert "interrupted" in plot.read_text()


def test_ctrl_c_cuts_the_streams_of_baton(cluster):
    flags = ["--target", cluster.target, "--requests", 2, "--concurrency", 2, "--warmup", 0, "--prompt-tokens", 16,
             "--output-tokens", 2000]

    def running():
        return any(worker["running"] for worker in cluster.workers())

    # Both have been sent, and run until the signal.
    both = lambda: any(worker["running"] == 2 for worker in cluster.workers() if worker["role"] == "decode")
    code, stdout, _ = interrupted(flags, signal.SIGINT, both)
    assert code == -signal.SIGINT
    assert "INTERRUPTED" in stdout and "0 completed, 0 failed, 2 cut, 0 not sent" in stdout
    wait_until(lambda: not running(), 30, "the workers end what was cut")


def test_nobody_listening_ends_with_1_and_says_what_to_do():
    for flags in (["--target", "127.0.0.1:9"], ["--backend", "openai", "--base-url", "http://127.0.0.1:9/v1"]):
        result, report = bench_serve(*flags)
        assert result.returncode == 1 and report is None
        assert "127.0.0.1:9" in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("flags", [["--prompt-tokens", "0"], ["--output-tokens", "9:3"], ["--request-rate", "-1"],
                                   ["--backend", "soap"], ["--base-url", "https://a/v1"], ["--concurrency", "99999"],
                                   ["--trace", "x", "--request-rate", "1"]])
def test_wrong_usage_ends_with_2(flags):
    assert run_baton("bench", "serve", *flags).returncode == 2


class OpenAiStub(http.server.BaseHTTPRequestHandler):
    """A completions server that streams `max_tokens` pieces, cut across chunks; prompts of one token fail. Requests
    beyond `answered_at_most` are counted in `held` and never answered. `connections` has the clients' ports; with
    `hangs_up` each of them serves one request, although no header says so. The answer to request `cut` ends in its
    midst, together with the connection."""

    protocol_version = "HTTP/1.1"
    seen = []
    answered_at_most = None
    held = threading.Semaphore(0)
    connections = set()
    hangs_up = False
    cut = None

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, json.dumps({"data": [{"id": "stub-model"}]}).encode())

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        OpenAiStub.seen.append((self.path, request))
        OpenAiStub.connections.add(self.client_address)
        self.close_connection = OpenAiStub.hangs_up
        if len(request["prompt"]) == 1:
            self.answer(400, b'{"error": {"message": "too short"}}')
            return
        if OpenAiStub.answered_at_most is not None and len(OpenAiStub.seen) > OpenAiStub.answered_at_most:
            OpenAiStub.held.release()
            with contextlib.suppress(ConnectionError):
                self.rfile.read(1)  # until the client leaves
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [{"choices": [{"text": f"t{i}", "finish_reason": None}]} for i in range(request["max_tokens"])]
        events.append({"choices": [{"text": "", "finish_reason": "length"}]})
        events.append({"choices": [], "usage": {"completion_tokens": request["max_tokens"]}})
        stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
        is_cut = OpenAiStub.cut == len(OpenAiStub.seen)
        if is_cut:
            stream, self.close_connection = stream[:len(stream) // 2], True
        for at in range(0, len(stream), 37):
            piece = stream[at:at + 37]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if not is_cut:
            self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def openai_url():
    OpenAiStub.seen, OpenAiStub.answered_at_most, OpenAiStub.held = [], None, threading.Semaphore(0)
    OpenAiStub.connections, OpenAiStub.hangs_up, OpenAiStub.cut = set(), False, None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OpenAiStub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_openai_server_is_loaded_with_token_ids(openai_url):
    result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--vocab-size", 100, "--requests",
                                 REQUESTS, "--concurrency", 3, "--prompt-tokens", "2:9", "--output-tokens", 5,
                                 "--warmup", 0, "--records")
    assert result.returncode == 0, result.stderr
    assert report["model_id"] == "stub-model" and report["completed"] == REQUESTS
    assert report["output_lens"] == [5] * REQUESTS and [len(gaps) for gaps in report["itls"]] == [4] * REQUESTS
    assert sorted(len(request["prompt"]) for _, request in OpenAiStub.seen) == sorted(report["input_lens"])
    for path, request in OpenAiStub.seen:
        assert path == "/v1/completions" and request["stream"] and request["ignore_eos"]
        assert all(0 <= token < 100 for token in request["prompt"])


@pytest.mark.parametrize("hangs_up", [False, True])
def test_an_openai_servers_connections_are_used_again_until_it_closes_them(openai_url, hangs_up):
    OpenAiStub.hangs_up = hangs_up
    result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--requests", REQUESTS,
                                 "--concurrency", 2, "--prompt-tokens", "2:9", "--output-tokens", 3, "--warmup", 0)
    assert result.returncode == 0 and report["completed"] == REQUESTS, result.stderr
    assert len(OpenAiStub.seen) == REQUESTS, "none is sent twice"
    assert hangs_up or len(OpenAiStub.connections) <= 2


def test_an_answer_that_is_cut_counts_as_failed_and_is_not_asked_for_again(openai_url):
    OpenAiStub.cut = 3
    result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--requests", REQUESTS,
                                 "--concurrency", 1, "--prompt-tokens", "2:9", "--output-tokens", 9, "--warmup", 0)
    assert (report["completed"], report["failed"]) == (REQUESTS - 1, 1), result.stderr
    assert len(OpenAiStub.seen) == REQUESTS and "cannot read from" in result.stderr
    assert len(OpenAiStub.connections) == 2, "the others are sent on the connection of those before them"


def test_an_openai_servers_refusal_is_told(openai_url):
    result, report = bench_serve("--backend", "openai", "--base-url", openai_url, "--requests", 2, "--prompt-tokens", 1,
                                 "--warmup", 0)
    assert result.returncode == 1 and report["failed"] == 2
    assert "HTTP 400" in result.stderr and "too short" in result.stderr


def test_the_same_seed_sends_the_same_requests(openai_url):
    flags = ["--backend", "openai", "--base-url", openai_url, "--requests", 4, "--prompt-tokens", "2:40",
             "--output-tokens", "1:9", "--warmup", 0]
    sent = []
    for seed in (1, 1, 2):
        OpenAiStub.seen = []
        assert bench_serve(*flags, "--seed", seed)[0].returncode == 0
        sent.append([request for _, request in OpenAiStub.seen])
    assert sent[0] == sent[1] != sent[2]


def test_engine_figures_are_shares_of_measured_limits():
    result = run_baton("bench", "engine", "--json", "--threads", 1, "--rounds", 1, "--read-mib", 64, "--prefill",
                       "32,2x16", "--chunk-tokens", 16, "--decode", "1,2", "--decode-steps", 4)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    limits = report["limits"]
    for key in ("read_gb_per_s", "memcpy_gb_per_s", "barrier_us"):
        assert limits[key] >= 0, key
    assert limits["read_gb_per_s"] > 0 and limits["threads"] == 1
    assert all(rate["gmac_per_s"] > 0 for rate in limits["instructions"])
    parts = [figure["part"] for figure in report["figures"]]
    assert {"prefill", "decode", "attention", "handoff", "scheduling"} == set(parts)
    memory = report["memory"]
    assert report["load_s"] > 0 and memory["weight_bytes"] > 90e6
    assert memory["other_bytes"] == memory["resident_bytes"] - memory["weight_bytes"] - memory["kv_pool_bytes"]
    # The process holds nothing as large as the weights twice.
    assert 0 < memory["other_bytes"] < 150 << 20
    assert parts.count("prefill") == 2 and parts.count("decode") == 2
    for figure in report["figures"]:
        assert figure["value"] > 0, figure
        if figure["part"] in ("prefill", "decode"):
            # The machine may be busier while a limit is measured than while the figure is: no upper bound here.
            assert figure["share_of_limit"] == pytest.approx(figure["value"] / figure["limit"]), figure
            assert figure["bound"] in ("memory", "compute"), figure


def test_a_file_without_float_matrices_is_told_and_left_alone():
    flags = ["bench", "engine", "--json", "--threads", 1, "--rounds", 1, "--read-mib", 16, "--only", "prefill",
             "--prefill", 16]
    plain = run_baton(*flags)
    result = run_baton(*flags, "--weights", "int8")
    assert plain.returncode == result.returncode == 0, result.stderr
    assert plain.stderr == "" and "no float matrices" in result.stderr and len(result.stderr.splitlines()) == 1
    assert json.loads(result.stdout)["fingerprint"] == json.loads(plain.stdout)["fingerprint"]


def test_engine_bench_refuses_what_it_cannot_measure():
    assert run_baton("bench", "engine", "--prefill", "0").returncode == 2
    assert run_baton("bench", "engine", "--only", "everything").returncode == 2
    assert run_baton("bench", "engine", "--weights", "int5").returncode == 2
    assert run_baton("bench").returncode == 2
    too_long = run_baton("bench", "engine", "--only", "prefill", "--prefill", "60000", "--read-mib", 16)
    assert too_long.returncode == 1 and "context" in too_long.stderr
