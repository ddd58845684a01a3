"""Every command with every flag that names a file, given what is no such file: one line, an exit code, never an abort.

The last test holds the table against the help of the program, so that a new flag that names a file gets its row.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess

import pytest

from cluster import BINARY, run_baton

HUGE_BYTES = 64 << 30
# Nobody listens there: what a command is told about its files comes before it looks for a router.
NO_ROUTER = ("--target", "127.0.0.1:1")
MODEL_COMMANDS = ["serve", "router", "prefill-worker", "decode-worker", "mixed-worker", "inspect",
                  "tokenize", "detokenize", "bench engine", "bench router"]
OTHER_COMMANDS = ["generate", "chat", "status", "ledger", "drain", "health", "bench serve", "fetch-model", "pull", "models",
                  "models remove", "api-key",
                  "version"]
# What a command cannot do without. What it has by default, such as --model, is left to it.
NEEDED = {"tokenize": ("--text", "x"), "detokenize": ("--token-ids", "1"), "generate": ("--prompt", "x"),
          "serve": ("--grpc-port", 0), "router": ("--grpc-port", 0), "api-key": ("tenant",),
          "drain": ("1",), "models remove": ("x",)}

BAD = ("directory", "missing", "unreadable", "empty", "huge")
# An empty file is a fine one there: no flags, no text, a prompt that the model's beginning token may make whole, a file
# that is about to be written. The last is also true of a huge one.
EMPTY_IS_FINE = {"--config", "--prompt-file", "--file", "--plot"}
HUGE_IS_FINE = {"--plot"}
# The commands stop at these before they do anything, as at any wrong flag.
USAGE = {"--config"}
FLAGS = ([(command, "--config") for command in MODEL_COMMANDS + OTHER_COMMANDS] +
         [(command, "--model") for command in MODEL_COMMANDS] +
         [("generate", "--prompt-file"), ("generate", "--token-ids-file"), ("generate", "--messages"),
          ("tokenize", "--file"), ("bench serve", "--trace"), ("bench serve", "--plot")])
# Flags of groups of which one is to be given.
ALONE = {"--prompt-file", "--token-ids-file", "--messages", "--file"}


@pytest.fixture(scope="module")
def unprivileged():
    """What to put before a command so that it cannot read files without permission; root can, unless it drops that."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        return None
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory, unprivileged):
    folder = tmp_path_factory.mktemp("bad")
    files = {kind: folder / f"{kind}.gguf" for kind in BAD}
    files["directory"].mkdir()
    files["unreadable"].write_text("x")
    files["unreadable"].chmod(0)
    files["empty"].touch()
    with open(files["huge"], "wb") as huge:
        huge.truncate(HUGE_BYTES)
    # Of a file to be written, the folder is missing.
    files["missing folder"] = folder / "missing" / "file.svg"
    yield files
    files["unreadable"].chmod(0o600)


def is_read_anyway(path, unprivileged):
    return unprivileged is None or subprocess.run([*unprivileged, "cat", path], capture_output=True,
                                                  check=False).returncode == 0


def run_with(command, flag, path, unprivileged):
    needed = () if flag in ALONE else NEEDED.get(command, ())
    router = NO_ROUTER if command in ("generate", "bench serve") else ()
    args = [*command.split(), *needed, *router, flag, path]
    return subprocess.run([*(unprivileged or []), BINARY, *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)


def complaint(command, flag, kind, path, unprivileged):
    """What is wrong with how the command takes the file; empty if nothing is."""
    result = run_with(command, flag, path, unprivileged)
    stderr = result.stderr.decode()
    expected = 2 if flag in USAGE else 1
    if result.returncode == expected and len(stderr.splitlines()) == 1 and str(path) in stderr and not result.stdout:
        return ""
    return f"{command} {flag} {kind}: exit code {result.returncode}, {len(stderr.splitlines())} lines: {stderr!r}"


@pytest.mark.parametrize("kind", BAD)
def test_every_command_says_in_one_line_what_is_wrong_with_a_file(kind, bad_files, unprivileged):
    if kind == "unreadable" and is_read_anyway(bad_files[kind], unprivileged):
        pytest.skip("this user reads files without permission")
    fine = {"empty": EMPTY_IS_FINE, "huge": HUGE_IS_FINE}.get(kind, set())
    rows = [(command, flag) for command, flag in FLAGS if flag not in fine]

    def path_of(flag):
        return bad_files["missing folder" if (kind, flag) == ("missing", "--plot") else kind]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(lambda row: complaint(*row, kind, path_of(row[1]), unprivileged), rows))
    assert not list(filter(None, complaints)), "\n".join(filter(None, complaints))


def test_an_empty_config_and_an_empty_text_are_fine(bad_files):
    assert run_baton("version", "--config", bad_files["empty"]).returncode == 0
    result = run_baton("tokenize", "--file", bad_files["empty"], "--json")
    assert (result.returncode, result.stdout) == (0, '{"token_ids":[]}\n'), result.stderr


@pytest.mark.parametrize("path", ["x" * 5000, "/proc/self/mem", "/dev/full/x", "a\nb"], ids=["long", "mem", "device", "line"])
def test_odd_paths_end_in_one_line_too(path):
    for command in ("inspect", "tokenize --text x --model", "tokenize --file", "version --config"):
        result = run_baton(*command.split(), path)
        assert result.returncode in (1, 2) and len(result.stderr.splitlines()) == 1, (command, result.stderr)


def test_a_folder_that_has_gone_is_an_error(tmp_path):
    result = subprocess.run(["sh", "-c", 'rmdir "$PWD" && exec "$0" inspect x.gguf', BINARY], cwd=tmp_path,
                            capture_output=True, check=False)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr


def commands_of(*words):
    text = run_baton(*words, "--help").stdout
    return re.findall(r"^  ([a-z-]+) ", text.partition("Subcommands:")[2], re.MULTILINE)


def test_the_table_has_every_flag_whose_help_speaks_of_a_file():
    commands = [name for name in commands_of() if name != "bench"] + [f"bench {name}" for name in commands_of("bench")]
    found = set()
    for command in commands:
        text = run_baton(*command.split(), "--help").stdout
        # An option's help may go on in further lines, which are indented more.
        for option in re.split(r"\n  (?=\S)", text):
            names = [name for name in re.findall(r"--[a-z][a-z-]*", option.split("  ")[0])]
            if names and re.search(r"\bfile\b", option, re.IGNORECASE) and "FILE" != names[0]:
                found.add((command, names[0]))
    missing = found - set(FLAGS)
    # They speak of a file, but take none. What is wrong with certificates and keys, test_tls.py, test_api_keys.py and
    # test_etcd.py show.
    elsewhere = ("--weights", "--served-model-name", "--tls-cert", "--tls-key", "--tls-ca", "--api-keys", "--api-key-file",
                 "--etcd-ca", "--etcd-cert", "--etcd-key")
    missing -= {(command, flag) for command, flag in missing if flag in elsewhere}
    assert not missing, f"give these a row: {sorted(missing)}"
