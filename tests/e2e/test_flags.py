"""Flag, environment and YAML are one set of values for every command. cli_test has the rules in small."""

import json

import pytest

from cluster import Cluster, RoleProcess, run_baton, wait_until

JOIN_TIMEOUT_S = 60
BLOCK_KIB = 360
MODEL_COMMANDS = [("serve",), ("router", "--grpc-port", 0), ("prefill-worker",), ("inspect",), ("tokenize", "--text", "x"),
                  ("detokenize", "--token-ids", "1"), ("bench", "engine"), ("bench", "router")]


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda command: command[0])
def test_every_command_takes_its_model_from_flag_environment_and_file(command, tmp_path):
    config = tmp_path / "baton.yaml"
    config.write_text(f"model: {tmp_path}/of-file.gguf\n")
    nested = "BENCH_" + command[1].upper() + "_" if command[0] == "bench" else ""
    environment = {f"BATON_ARG_{nested}MODEL": f"{tmp_path}/of-environment.gguf"}
    for expected, args, env in [("of-file", ("--config", config), {}),
                                ("of-environment", ("--config", config), environment),
                                ("of-flag", ("--config", config, "--model", tmp_path / "of-flag.gguf"), environment)]:
        result = run_baton(*command, *args, env=env, timeout_s=30)
        assert result.returncode == 1 and f"{expected}.gguf" in result.stderr, result.stderr


def test_one_file_serves_router_workers_and_clients(tmp_path):
    config = tmp_path / "baton.yaml"
    common = "model: smollm2-135m-instruct\nthreads: 1\nlog-level: debug\nrouter:\n  grpc-port: 0\n  max-queued-jobs: 9\n"
    config.write_text(common)
    with RoleProcess("router", "--config", config) as router:
        worker = f"  router: {router.cluster_target}\n  kv-memory: "
        config.write_text(f"{common}target: {router.target}\nprefill-worker:\n{worker}36MiB\ndecode-worker:\n{worker}72MiB\n"
                          "generate:\n  max-tokens: 4\n  prompt: The capital of France is\n  json: true\n")
        with RoleProcess("prefill-worker", "--config", config), RoleProcess("decode-worker", "--config", config):
            blocks = lambda: {worker["role"]: worker["total_blocks"] for worker in router.workers()}
            wait_until(lambda: len(blocks()) == 2, JOIN_TIMEOUT_S, "both workers")
            assert blocks() == {"prefill": 36 * 1024 // BLOCK_KIB, "decode": 72 * 1024 // BLOCK_KIB}
            # BATON_ARG_MODEL names the model, which clients do not load: it is no name to ask a router for.
            result = run_baton("generate", "--config", config, env={"BATON_ARG_MODEL": "elsewhere.gguf"})
            assert result.returncode == 0, result.stderr
            assert "Paris" in json.loads(result.stdout)["text"]


def test_serve_gives_each_role_its_section(tmp_path):
    config = tmp_path / "baton.yaml"
    config.write_text("threads: 1\nserve:\n  kv-memory: 72MiB\nprefill-worker:\n  kv-memory: 36MiB\n  grpc-port: 1\n")
    with Cluster(env={"BATON_ARG_CONFIG": str(config)}) as cluster:
        assert {worker["role"]: worker["total_blocks"] for worker in cluster.workers()} == {
            "prefill": 36 * 1024 // BLOCK_KIB, "decode": 72 * 1024 // BLOCK_KIB}


def test_every_process_logs_json_when_it_is_told_to():
    with Cluster("--threads", 1, "--kv-memory", "72MiB", "--log-format", "json") as cluster:
        wait_until(lambda: "joined" in cluster.log(), JOIN_TIMEOUT_S, "a line of the router")
        cluster.stop()
        lines = [json.loads(line) for line in cluster.log().splitlines()]
        assert {line["role"] for line in lines} >= {"router", "prefill-worker", "decode-worker"}, lines
        assert all({"time", "level", "role", "message"} <= set(line) for line in lines), lines


def test_version_is_a_flag_too():
    assert run_baton("--version").stdout == run_baton("version").stdout


def test_usage_names_the_program():
    assert "baton generate [OPTIONS]" in run_baton("generate", "--help").stdout
    assert "baton bench serve [OPTIONS]" in run_baton("bench", "serve", "--help").stdout


def test_no_help_writes_a_number_with_an_exponent():
    for command in ("serve", "generate", "bench serve", "bench engine", "bench router", "router", "mixed-worker"):
        assert "e+0" not in run_baton(*command.split(), "--help").stdout, command


@pytest.mark.parametrize("command", ["router", "mixed-worker"])
@pytest.mark.parametrize("bind", ["no.such.host.invalid", "192.0.2.1", "127.0.0.1:50051"])
def test_a_wrong_host_is_not_called_a_wrong_port(command, bind):
    result = run_baton(command, "--bind", bind, "--grpc-port", 0, timeout_s=60)
    assert result.returncode == 1, result.stderr
    last = result.stderr.splitlines()[-1]
    assert "--bind" in last and bind in last and "port is in use" not in last, result.stderr
