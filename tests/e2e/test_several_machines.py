"""docs/several_machines.md, walked: the commands as printed, on two machines that have a copy of Baton each."""

import contextlib
import json
import re

import pytest

from cluster import SOURCE_DIR, Cluster, run_baton, wait_until
from installation import install
from machines import LINK, MachineProcess, two_machines

PAGE = (SOURCE_DIR / "docs/several_machines.md").read_text()
ADDRESSES = ("192.0.2.1", "192.0.2.2")
PORTS = {8000, 50050, 50051, 50061, 50062, 9464, 9465, 9466, *range(50100, 50200)}
PROMPT_TOKENS = 320
KV_BYTES_PER_TOKEN = 23_040
LISTENING = "0A"


def commands():
    """(where, line) of each command of the page, in its order."""
    blocks = re.findall(r"^```sh\n# on (.+)\n((?:.+\n)+?)```$", PAGE, re.MULTILINE)
    return [(where, line) for where, lines in blocks for line in lines.splitlines()]


def is_process(line):
    return re.search(r"\bbaton (router|\S+-worker) ", line) is not None


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    prefixes = [folder / "first", folder / "second"]
    for prefix in prefixes:
        install(prefix)
    with two_machines(prefixes, ADDRESSES) as running:
        for machine in running:
            machine.environment = {"BATON_ARG_THREADS": "1", "BATON_ARG_KV_MEMORY": "128MiB"}
            if not machine.is_isolated:
                machine.environment["BATON_ARG_TRANSPORT"] = "tcp"
        yield dict(zip(ADDRESSES, running))


def on(machines, line):
    """The line, with the addresses that the machines really have."""
    for printed, machine in machines.items():
        line = line.replace(printed, machine.address)
    return line


@pytest.fixture(scope="module")
def started(machines):
    """The page's processes run."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(MachineProcess(machines[where], on(machines, line)))
                   for where, line in commands() if is_process(line)]
        assert len(running) == 3
        status = on(machines, f"baton status --json --target {ADDRESSES[0]}:50051")
        client = machines[ADDRESSES[1]]
        wait_until(lambda: len(json.loads(client.run(status))["workers"]) == 2, 60, "two workers")
        yield running


def received_bytes(machine):
    """Over the cable."""
    (line,) = [line for line in machine.run("cat /proc/net/dev").splitlines() if line.strip().startswith(f"{LINK}:")]
    return int(line.split(":")[1].split()[0])


def test_every_other_command_of_the_page_runs_as_printed(started, machines):
    checked = set()
    for where, line in commands():
        if is_process(line) or line.startswith("sudo apt-get install "):
            # test_install.py installs the package.
            continue
        for machine in machines.values() if where == "both" else [machines[where]]:
            output = machine.run(on(machines, line))
            if " status " in line:
                for address, port in zip(ADDRESSES, (50061, 50062)):
                    assert f"{machines[address].address}:{port}" in output
            elif " generate " in line:
                assert "Paris" in output
        checked.add(re.search(r"\bbaton (\S+)", line)[1])
    assert checked == {"fetch-model", "status", "generate"}


def test_kv_crosses_the_network_and_the_tokens_are_those_of_one_machine(started, machines, prose_ids, tmp_path):
    ids = tmp_path / "ids"
    ids.write_text(",".join(map(str, prose_ids[:PROMPT_TOKENS])))
    arguments = ["--token-ids-file", str(ids), "--max-tokens", "16", "--temperature", "1", "--seed", "7", "--json",
                 "--kv-digest"]
    client = machines[ADDRESSES[1]]
    before = received_bytes(client) if client.is_isolated else 0
    target = on(machines, f"{ADDRESSES[0]}:50051")
    there = json.loads(client.run(f"baton generate --target {target} {' '.join(arguments)}"))
    if client.is_isolated:
        assert received_bytes(client) - before > PROMPT_TOKENS * KV_BYTES_PER_TOKEN
    with Cluster("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1) as alone:
        result = run_baton("generate", "--target", alone.target, *arguments)
        assert result.returncode == 0, result.stderr
        here = json.loads(result.stdout)
    assert there["token_ids"] == here["token_ids"]
    assert there["kv_digest"] == here["kv_digest"]


def listening(machine):
    tables = machine.run("cat /proc/net/tcp /proc/net/tcp6").splitlines()
    fields = [line.split() for line in tables]
    return {int(one[1].rpartition(":")[2], 16) for one in fields if one[3] == LISTENING}


def test_nothing_listens_on_a_port_that_the_page_does_not_name(started, machines):
    if not machines[ADDRESSES[0]].is_isolated:
        pytest.skip("without namespaces the machine's own ports are among them")
    for machine in machines.values():
        ports = listening(machine)
        assert ports <= PORTS
        # gRPC, and UCX for reading and for serving.
        assert len(ports) >= 3
