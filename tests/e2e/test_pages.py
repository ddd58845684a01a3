"""README.md and the pages below docs/, walked by a user who types every command that they show, in their order.

A command that no rule here knows is a failure: give it a rule that runs it, or a reason why none can. The test prints
what became of each.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from cluster import BINARY, SOURCE_DIR, Cluster, run_baton
from etcd import Etcd
from pages import blocks_of, code_spans, commands_of, prose_of

CLUSTER_ARGS = ("--threads", 1)
PAGES = ["README.md", "SECURITY.md", *sorted(str(page.relative_to(SOURCE_DIR)) for page in (SOURCE_DIR / "docs").rglob("*.md"))]
COMMAND_TIMEOUT_S = 60
BACKGROUND = re.compile(r"([A-Z_]+=\S+ )*baton (serve|router|(prefill|decode|mixed)-worker)\b")

# The tests' stand-ins for what a page leaves open (addresses, files), for ports that others may use, and for sizes that
# take minutes.
STAND_INS = [
    ("--bind 0.0.0.0", "--bind 127.0.0.1"), ("--bind ADDRESS", "--bind 127.0.0.1"), ("ROUTER:50050", "{cluster}"),
    ("ROUTER_A:50050,ROUTER_B:50050", "{cluster}"), ("ETCD:2379", "{etcd}"),
    ("--grpc-port 50051", "--grpc-port 0"), ("--cluster-port 50050", "--cluster-port 0"),
    ("--grpc-port 50061", "--grpc-port 0"), ("--grpc-port 50062", "--grpc-port 0"),
    ("--requests 64 --concurrency 16 --prompt-tokens 256 --output-tokens 128",
     "--requests 4 --concurrency 2 --prompt-tokens 32 --output-tokens 8"), ("--streams 10000", "--streams 100"),
    (" DIR", " {model}"), ("http://127.0.0.1:9464/", "http://{admin}/"), ("client/example.py", "client/example.py {target}"),
    ("./client/talk", "./client/talk {target}"),
]

# Why a command is not run here: a pattern of the whole command, and the reason.
SKIPPED = [
    (r"\./scripts/quickstart\.sh .*", "it sets up and builds this tree, which has been done to run this test"),
    (r"\./scripts/test\.sh", "this test is a part of it"),
    (r"python3 -m venv venv|venv/bin/pip install grpcio grpcio-status grpcio-tools",
     "setup.sh has made the environment that stands for venv, of scripts/test_requirements.txt"),
    (r"cmake --install .*|scripts/(package|install)\.sh.*", "test_install.py runs it"),
    (r"baton (fetch-model|pull).*", "it would download a model; test_install.py and test_models.py run it"),
    (r"baton drain .*", "it would end a worker of the cluster that the other commands need; test_drain_command.py runs it"),
    (r"lm_eval .*", "test_lm_eval.py runs a small task of its own"),
    (r"baton bench engine", "it measures for minutes; test_bench.py runs it in small"),
    (r"python3 bench/peers/run\.py .*", "it installs the peers and measures for an hour"),
    (r"python3 bench/compare_builds\.py .*", "it compares two builds for minutes; compare_builds_test.py tests it"),
    (r"python3 bench/gateway_cost\.py .*", "it measures for minutes; gateway_cost_test.py tests it"),
    (r"BATON_JSON_SCHEMA_SUITE=.*", "it downloads the suite; test.sh --full runs it"),
    (r"python3 bench/grammar_cost\.py .*", "it measures for minutes; grammar_cost_test.py tests it, and test_bench.py runs it in small"),
    (r"python3 bench/scrape_cost\.py .*", "it measures for minutes; scrape_cost_test.py tests it"),
    (r"python3 scripts/plot_performance\.py", "it would write into the tree; the test performance_plot runs it"),
]

# Pages that need more than one machine, or another one, have tests of their own.
WALKED_ELSEWHERE = {"docs/several_machines.md": "test_several_machines.py walks this page",
                    "docs/containers.md": "tests/deploy/test_images.py walks this page",
                    "docs/kubernetes.md": "it needs a cluster of Kubernetes; tests/deploy/test_kubernetes_page.py reads it, and "
                                          "test_rendered_pods.py runs the pods",
                    "docs/security.md": "test_tls.py walks this page",
                    "docs/systemd.md": "tests/deploy/test_units.py walks this page"}

# What a command must have printed, by its beginning.
PRINTED = [
    ("build/release/bin/baton generate", r"\w+"), ("build/release/bin/baton chat", r"\w+"),
    ("build/release/bin/baton status", r"(?s)prefill.*decode|decode.*prefill"),
    ("baton bench serve", r"TTFT"), ("baton bench router", r"us a token"),
    ("curl http://127.0.0.1:9464/metrics", r"vllm:time_to_first_token_seconds"),
    ("curl http://127.0.0.1:9464/readyz", r"ok\n"),
    ("baton inspect", r"servable +yes"), ("baton tokenize", r"^\d+\t"),
    ("venv/bin/python client/example.py", r"(?s)Paris.*\nName a fruit\. .*Banana.*\nAnd another one\? .*"
                                          r"\nCANCELLED: .*\nDEADLINE_EXCEEDED: .*"
                                          r"\nINVALID_ARGUMENT: .* \(field: sampling\.top_p\)\n"),
    ("./client/talk", r"(?s)Paris.*\nName a fruit\. .*Banana.*\nAnd another one\? .*\nerror 1: .*\nerror 4: .*"
                      r"\nerror 3: .* \(field: sampling\.top_p\)\n"),
]
TYPED = {"build/release/bin/baton chat": b"Hello!\n/exit\n"}


class Walk:
    """A folder like a clone's with its build, a cluster, and what the pages have started since."""

    def __init__(self, folder, cluster, etcd):
        self.folder = folder
        self.names = {"target": cluster.target, "admin": cluster.admin, "cluster": None, "etcd": etcd.target,
                      "model": self._model()}
        self.running = contextlib.ExitStack()
        (folder / "build/release").mkdir(parents=True)
        (folder / "build/release/bin").symlink_to(pathlib.Path(BINARY).parent)
        (folder / "proto").symlink_to(SOURCE_DIR / "proto")
        (folder / "venv").symlink_to(sys.prefix)
        self.env = {"BATON_ARG_TARGET": cluster.target, "BATON_ARG_BENCH_SERVE_TARGET": cluster.target,
                    "BATON_ARG_BENCH_ROUTER_SECONDS": "1", "BATON_ARG_GRPC_PORT": "0", "PYTHONDONTWRITEBYTECODE": "1",
                    "PATH": f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"}

    @staticmethod
    def _model():
        store = os.environ.get("BATON_MODEL_STORE") or (
            pathlib.Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "baton/models")
        return str(pathlib.Path(store) / "smollm2-135m-instruct.gguf")

    def filled_in(self, text):
        for word, stand_in in STAND_INS:
            text = text.replace(word, stand_in)
        return text.format(**self.names) if "{" in text else text

    def run(self, command):
        """What became of it, in words."""
        text = self.filled_in(command.text)
        if not BACKGROUND.match(text):
            self.run_to_its_end(command, text)
        elif BACKGROUND.match(text)[2] == "serve":
            # It would run until Ctrl-C: SIGTERM drains it, and its exit code is 0.
            with self.server(text):
                pass
        else:
            # Of the processes of one cluster each needs those before it.
            server = self.running.enter_context(self.server(text))
            self.names["cluster"] = server.cluster_target if " router " in text else self.names["cluster"]
        return "ran" if text == command.text else f"ran as: {text}"

    def server(self, text):
        server = Cluster(env=self.env)
        server.command = ["bash", "-c", f"exec env {text}"]
        return server

    def run_to_its_end(self, command, text):
        result = subprocess.run(["bash", "-c", text], cwd=self.folder, env={**os.environ, **self.env},
                                input=TYPED.get(command.text, b""), capture_output=True, timeout=COMMAND_TIMEOUT_S,
                                check=False)
        where = f"{command.page}:{command.line}: {text}"
        assert result.returncode == 0, f"{where}\n{result.stderr.decode()}"
        for begin, pattern in PRINTED:
            if command.text.startswith(begin):
                assert re.search(pattern, result.stdout.decode()), f"{where} printed\n{result.stdout.decode()}"


def reason_to_skip(command):
    if command.page in WALKED_ELSEWHERE:
        return WALKED_ELSEWHERE[command.page]
    return next((reason for pattern, reason in SKIPPED if re.fullmatch(pattern, command.text)), None)


# Its commands run its programs, by their languages; the programs of other pages run in the tests of their APIs.
CLIENT_PAGE = "docs/api.md"
PROGRAMS = {"python": "client/example.py", "cpp": "client/talk.cc"}


def is_known(command):
    programs = ("baton ", "build/release/bin/baton ", "mkdir -p client", "venv/bin/python ", "protoc ", "c++ ",
                "./client/talk", "curl http://127.0.0.1:")
    return BACKGROUND.match(command.text) or command.text.startswith(programs)


@pytest.fixture
def etcd():
    with Etcd() as etcd:
        yield etcd


def test_every_command_of_the_pages_runs_or_has_a_reason_not_to(cluster, etcd, tmp_path, capsys):
    walk, table, unknown = Walk(tmp_path, cluster, etcd), [], []
    with walk.running:
        for page in PAGES:
            for block in blocks_of(page, SOURCE_DIR):
                if block.language in PROGRAMS and page == CLIENT_PAGE:
                    (tmp_path / PROGRAMS[block.language]).write_text(block.text)
                for command in commands_of(block) if block.language == "sh" else ():
                    reason = reason_to_skip(command)
                    if reason is not None:
                        outcome = f"skipped: {reason}"
                    elif is_known(command):
                        outcome = walk.run(command)
                    else:
                        outcome = "unknown"
                        unknown.append(command)
                    table.append((f"{page}:{command.line}", command.text, outcome))
            walk.running.close()
    ran = sum(outcome.startswith("ran") for _, _, outcome in table)
    with capsys.disabled():
        print(f"\n{ran} commands of the pages ran, {len(table) - ran} did not:")
        for where, text, outcome in table:
            print(f"  {where:24} {text}\n{'':26} {outcome}")
    assert not unknown, f"neither run nor listed with a reason: {unknown}"
    assert ran > 0


def test_a_command_that_no_rule_knows_is_found_out(tmp_path):
    (tmp_path / "page.md").write_text("Text.\n```sh\nbaton serve   # one\n\nmake me --out 'a # b' \\\n  now\n```\n")
    (block,) = blocks_of("page.md", tmp_path)
    serve, other = commands_of(block)
    assert (serve.line, serve.text, other.line, other.text) == (3, "baton serve", 5, "make me --out 'a # b' now")
    assert is_known(serve) and not is_known(other) and reason_to_skip(other) is None


def test_blocks_have_a_language_that_says_what_they_are():
    for page in PAGES:
        for block in blocks_of(page, SOURCE_DIR):
            assert block.language in ("", "sh", "python", "cpp", "text", "yaml", "json", "ini", "promql"), f"{page}:{block.line}"
            assert block.language or "baton " not in block.text, f"{page}:{block.line}: are these commands?"


def known_flags():
    """The flags of every command, as --help has them."""
    flags = set()
    waiting = [()]
    while waiting:
        command = waiting.pop()
        text = run_baton(*command, "--help").stdout
        flags |= set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
        _, _, subcommands = text.partition("Subcommands:")
        waiting += [(*command, name) for name in re.findall(r"^  (\S+)  ", subcommands, re.M)]
    return flags


def test_flags_that_the_pages_name_exist():
    others = {"--prefix",  # etcdctl
              "--full", "--rounds", "--only", "--out", "--table", "--seed"}  # test.sh, bench/peers/run.py
    others |= {"--build-arg", "--cap-drop", "--cpus", "--cpuset-cpus", "--gpus", "--ipc", "--pid", "--read-only",
               "--stop-timeout"}  # docker
    others |= {"--wait"}  # helm
    others |= {"--shape", "--quick"}  # cuda_bench
    others |= {"--new"}  # bench/grammar_cost.py
    known = known_flags() | others
    assert {"--prompt", "--kv-memory", "--request-rate", "--streams"} <= known, "the help has another form"
    for page in PAGES:
        texts = code_spans(page, SOURCE_DIR) + [c.text for b in blocks_of(page, SOURCE_DIR) if b.language == "sh"
                                                for c in commands_of(b)]
        # What begins otherwise is another program's.
        ours = [text for text in texts if re.match(r"--|(build/release/bin/)?baton ", text)]
        named = {flag for text in ours for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text)}
        assert named <= known, f"{page}: {named - known}"


def test_links_of_the_pages_lead_to_files():
    for page in [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md"]:
        folder = (SOURCE_DIR / page).parent
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose_of(page, SOURCE_DIR)):
            assert "://" in link or (folder / link).exists(), f"{page}: {link}"


def test_tests_that_the_page_of_failures_names_exist():
    page = (SOURCE_DIR / "docs/failures.md").read_text()
    sources = "".join(path.read_text() for folder in ("common", "router", "engine", "kvtransfer", "worker", "decode_worker",
                                                      "simulator", "discovery", "cli") for path in (SOURCE_DIR / folder).rglob("*_test.cc"))
    named = re.findall(r"`(\w+)\.(\w+)`", page)
    assert len(named) > 20
    for suite, name in named:
        assert re.search(rf"^TEST(_F|_P)?\({suite}, {name}\)", sources, re.MULTILINE), f"{suite}.{name}"
    for file, function in re.findall(r"`(test_\w+\.py)::(\w+)`", page):
        assert f"\ndef {function}(" in (SOURCE_DIR / "tests/e2e" / file).read_text(), f"{file}::{function}"
