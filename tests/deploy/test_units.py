"""The Debian package on a fresh Debian with systemd: how long it takes to install and how large it is, and what its
units do, in their sandbox, with the real model."""

import re
import time

import pytest

import engine
import machine
from cluster import SOURCE_DIR, run_baton, wait_until
from installation import make_package
from pages import shell_commands
from test_install import MODEL, STORE

UNITS = ("baton", "baton-router", "baton-worker@prefill", "baton-worker@decode", "baton-worker@mixed")
# In tenths of what `systemd-analyze security` prints: 1.4 of 10. What is missing is what a server needs: the network,
# compiled code in its own memory (PCRE2), and the processes that it shares memory with.
MAX_EXPOSURE = 15
CONFIG = "/etc/baton/baton.yaml"
PAGE = shell_commands("docs/systemd.md", SOURCE_DIR)
PROMPT = ("--prompt", "The capital of France is", "--max-tokens", 4)
KV_POOL_BYTES = 256 << 20
FLAGS = "threads: 1\nkv-memory: 256MiB\n"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A machine with the package, which has not booted; and the package."""
    reason = engine.reason_for_none() or machine.reason_for_none()
    if reason:
        pytest.skip(f"{reason}: no machine is made, so the units do not run")
    package = make_package(tmp_path_factory.mktemp("package"))
    with engine.container_engine(tmp_path_factory.mktemp("engine")) as made:
        one = machine.Machine(made, tmp_path_factory.mktemp("machine"))
        one.install(package)
        yield one, package


@pytest.fixture(scope="module")
def host(fresh):
    with fresh[0].booted((STORE / f"{MODEL}.gguf").resolve()) as running:
        yield running


@pytest.fixture
def quiet(host):
    """No unit runs, before and after; and the flags are those of the package but for sizes."""
    host.run("bash", "-c", f"cat > {CONFIG}", bytes_in=FLAGS.encode())
    yield host
    host.run("systemctl", "stop", "baton*")
    host.run("systemctl", "reset-failed")


def first_token_ms(host):
    began = time.monotonic()
    result = host.run("baton", "generate", "--json", *PROMPT, user=machine.NOBODY)
    assert "Paris" in result.stdout
    return (time.monotonic() - began) * 1e3


def test_root_installs_the_package_alone_and_another_user_generates(fresh, quiet, capsys):
    one, package = fresh
    began = time.monotonic()
    quiet.run("systemctl", "start", "baton")
    started_s = time.monotonic() - began
    assert quiet.show("baton", "StatusText") == "serves at 127.0.0.1:50051"
    took_ms = first_token_ms(quiet)
    with capsys.disabled():
        print(f"\npackage {package.stat().st_size / 1e6:.1f} MB; installed with what it depends on in "
              f"{one.install_s:.1f} s, {one.added_bytes() / 1e6:.0f} MB; `systemctl start` took {started_s:.1f} s; "
              f"another user's first answer came after {took_ms:.0f} ms")


def test_the_pages_commands_for_one_machine_do_what_it_says(quiet):
    *one_machine, _, _, _ = PAGE
    assert len(one_machine) == 4
    outputs = [quiet.run("bash", "-c", command.removeprefix("sudo ")).stdout for command in one_machine]
    assert "active (running)" in outputs[2]
    assert "Paris" in outputs[3]
    quiet.run("systemctl", "disable", "--now", "baton")


def test_units_are_without_fault_and_nobody_enables_them(host):
    names = [f"{unit}.service" for unit in UNITS]
    assert host.run("systemd-analyze", "verify", *names).stderr == ""
    assert {host.run("systemctl", "is-enabled", name, check=False).stdout for name in names} == {"disabled\n"}
    for name in names:
        host.run("systemd-analyze", "security", "--no-pager", f"--threshold={MAX_EXPOSURE}", name)


def test_systemd_waits_for_longer_than_a_drain(host):
    for unit, command in zip(UNITS, ("serve", "router", "prefill-worker", "decode-worker", "mixed-worker")):
        (drain_ms,) = re.findall(r"--drain-timeout-ms [^\n]*\]=(\d+)", run_baton(command, "--help").stdout)
        # The margins of docs/serving.md: 5 s for what hangs, and as much for the workers of `serve`.
        margin_s = 10 if command == "serve" else 5
        timeout_us = host.show(unit, "TimeoutStopUSec")
        assert parse_s(timeout_us) >= int(drain_ms) / 1e3 + margin_s, unit


def parse_s(span):
    """Of systemd's own notation, such as `1min 30s`."""
    units = {"min": 60, "s": 1, "ms": 1e-3}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(min|ms|s)", span))


def test_a_unit_runs_with_no_right_but_to_serve(quiet):
    quiet.run("systemctl", "start", "baton")
    pid = quiet.show("baton", "MainPID")
    status = quiet.run("cat", f"/proc/{pid}/status").stdout
    assert re.findall(r"^Cap(?:Prm|Eff|Bnd):\t(\S+)", status, re.M) == ["0" * 16] * 3
    assert re.search(r"^NoNewPrivs:\t1$", status, re.M) and re.search(r"^Seccomp:\t2$", status, re.M)
    (uid,) = set(re.search(r"^Uid:\t(.*)$", status, re.M)[1].split("\t"))
    # Of the range that systemd gives to users who exist while a unit runs.
    assert 61184 <= int(uid) <= 65519
    processes = quiet.run("systemctl", "show", "--value", "--property=TasksCurrent", "baton").stdout
    assert int(processes) > 3
    for folder in ("/etc/baton", "/usr/bin", "/var/lib/baton/models"):
        touched = quiet.run("nsenter", f"--target={pid}", "--mount", "touch", f"{folder}/file", check=False)
        assert "Read-only file system" in touched.stderr
    quiet.run("systemctl", "stop", "baton")
    assert quiet.show("baton", "Result") == "success"


def test_workers_of_two_units_hand_kv_over_through_shared_memory(quiet):
    quiet.run("systemctl", "start", "baton-worker@prefill", "baton-worker@decode")
    assert quiet.show("baton-worker@prefill", "ActiveState") == "active", "a worker's unit does not wait for a router"
    quiet.run("systemctl", "start", "baton-router")
    wait_until(lambda: quiet.run("baton", "health", check=False).returncode == 0, 30, "the cluster serves")
    first_token_ms(quiet)
    lines = [line.split() for line in quiet.run("cat", "/proc/sysvipc/shm").stdout.splitlines()[1:]]
    attached = sorted(int(line[6]) for line in lines if int(line[3]) > KV_POOL_BYTES // 2)
    assert attached == [1, 2], "the decode worker maps the pool of the prefill worker"


def test_wrong_flags_end_a_unit_for_good_and_the_journal_says_why(quiet):
    quiet.run("bash", "-c", f"echo 'no-such-flag: 1' >> {CONFIG}")
    assert quiet.run("systemctl", "start", "baton", check=False).returncode != 0
    assert quiet.show("baton", "ExecMainStatus") == "2"
    assert quiet.show("baton", "NRestarts") == "0"
    assert "no-such-flag" in quiet.journal("baton")


def test_a_unit_that_is_killed_starts_again(quiet):
    quiet.run("systemctl", "start", "baton-router")
    first = quiet.show("baton-router", "MainPID")
    quiet.run("systemctl", "kill", "--signal=KILL", "baton-router")
    wait_until(lambda: quiet.show("baton-router", "MainPID") not in ("0", first), 30, "a new process")


def test_a_unit_that_fails_is_tried_again_without_end(host):
    for unit in UNITS:
        assert host.show(unit, "Restart") == "on-failure" and host.show(unit, "StartLimitIntervalUSec") == "0", unit


def test_an_upgrade_keeps_flags_and_what_runs_and_removing_ends_it(fresh, quiet):
    _, package = fresh
    quiet.run("systemctl", "start", "baton-router")
    before = quiet.show("baton-router", "MainPID")
    quiet.run("bash", "-c", "cat > /tmp/baton.deb", bytes_in=package.read_bytes())
    quiet.run("dpkg", "--install", "/tmp/baton.deb")
    assert quiet.run("cat", CONFIG).stdout == FLAGS
    assert quiet.show("baton-router", "MainPID") == before

    quiet.run("systemctl", "enable", "baton-router")
    quiet.run("dpkg", "--remove", "baton")
    assert quiet.run("cat", CONFIG).stdout == FLAGS
    assert quiet.run("bash", "-c", f"kill -0 {before}", check=False).returncode != 0
    quiet.run("dpkg", "--purge", "baton")
    left = quiet.run("find", "/etc", "/usr", "/lib/systemd", "-name", "*baton*", "-not", "-path", "*/dpkg/*").stdout
    assert left == ""
    quiet.run("dpkg", "--install", "/tmp/baton.deb")
