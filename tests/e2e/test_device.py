"""--device: the CPU where no device can be used, and one line about what is missing where one was asked for.

No test needs a device. A driver is played by a library of that name, which says that it sees one.
"""

import pathlib
import re
import shutil
import subprocess

import pytest

from cluster import BINARY, SOURCE_DIR, Cluster, RoleProcess, run_baton

NO_DRIVER = "no CUDA driver on this machine"
PLUGIN = pathlib.Path(BINARY).resolve().parent.parent / "lib/baton/libbaton_cuda.so"
# A bench of a moment.
BENCH = ("bench", "engine", "--only", "decode", "--decode", "1", "--decode-steps", "1", "--rounds", "1", "--context", "4",
         "--read-mib", "1", "--threads", "1")
SERVERS = [("serve", "--grpc-port", 0), ("prefill-worker",), ("decode-worker",), ("mixed-worker",)]
DRIVER_SOURCE = "int cuInit(unsigned flags) { return 0; }\nint cuDeviceGetCount(int* count) { *count = %d; return %d; }\n"
# The three first members of DevicePluginTable, and no function that anybody calls.
PLUGIN_SOURCE = """
struct table { unsigned interface; const char* version; const char* build; void* load; };
static const struct table the_table = {%d, "%s", "%s", 0};
const struct table* BatonDevicePlugin(void) { return &the_table; }
"""
# As plug-ins were before they had an id.
OLD_PLUGIN_SOURCE = """
struct table { unsigned interface; const char* version; void* load; };
static const struct table the_table = {1, "0.1.0", 0};
const struct table* BatonDevicePlugin(void) { return &the_table; }
"""
OTHER_ID = "0123456789abcdef"
BUILD_ID = SOURCE_DIR / "cmake/build_id.cmake"
FLAG = "--gpu-memory-utilization"


def library(path, source):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    path.with_suffix(".c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, path.with_suffix(".c")], check=True)
    return path


def driver(folder, devices=1, error=0):
    """The environment in which the machine has a driver."""
    folder.mkdir(exist_ok=True)
    library(folder / "libcuda.so.1", DRIVER_SOURCE % (devices, error))
    return {"LD_LIBRARY_PATH": str(folder)}


@pytest.fixture(scope="module")
def with_driver(tmp_path_factory):
    return driver(tmp_path_factory.mktemp("driver"))


def one_error(result):
    assert result.returncode == 1, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def has_driver():
    return NO_DRIVER not in run_baton(*BENCH, "--device", "cuda", timeout_s=120).stderr


@pytest.mark.parametrize("command", [BENCH, *SERVERS], ids=lambda command: "-".join(command[:2] if command is BENCH else command[:1]))
def test_cuda_without_a_driver_is_one_error(command):
    if has_driver():
        pytest.skip("this machine has a driver")
    assert one_error(run_baton(*command, "--device", "cuda:1")).endswith(f"--device cuda:1: {NO_DRIVER}")


def test_a_device_has_a_known_name():
    for name in ("gpu", "cuda:", "cuda:-1", "cuda:256", "cuda:x"):
        result = run_baton(*BENCH, "--device", name)
        assert result.returncode == 2 and f"not auto, cpu, cuda or cuda:N: {name}" in result.stderr, result.stderr


def serves_on_the_cpu_and_says_why_once(why, *flags, env=None):
    """A cluster that may take any device, and has none that it can use."""
    with Cluster("--threads", 1, "--kv-memory", "72MiB", *flags, env=env) as cluster:
        result = run_baton("generate", "--target", cluster.target, "--prompt", "The capital of France is",
                           "--max-tokens", 2)
        assert result.returncode == 0 and "Paris" in result.stdout, result.stderr
        cluster.stop()
        assert cluster.log().count(": computing on the CPU") == cluster.log().count(why) == 1, cluster.log()


def test_auto_serves_on_the_cpu_and_says_why_once():
    if has_driver():
        pytest.skip("this machine has a driver")
    serves_on_the_cpu_and_says_why_once(NO_DRIVER)


def test_a_worker_says_it_for_itself_unless_it_was_told_to_take_the_cpu():
    with RoleProcess("router", "--grpc-port", 0) as router:
        for device, count in (("auto", 1), ("cpu", 0)):
            with RoleProcess("mixed-worker", "--router", router.cluster_target, "--device", device, "--threads", 1,
                             "--kv-memory", "36MiB") as worker:
                assert worker.log().count(": computing on the CPU") == count, worker.log()


def test_a_driver_that_fails_or_sees_no_device_is_named(tmp_path):
    none = driver(tmp_path / "none", devices=0)
    assert "the CUDA driver sees no device" in one_error(run_baton(*BENCH, "--device", "cuda", env=none))
    broken = driver(tmp_path / "broken", error=999)
    assert "the CUDA driver does not start: its error 999" in one_error(run_baton(*BENCH, "--device", "cuda", env=broken))
    (tmp_path / "other").mkdir()
    library(tmp_path / "other/libcuda.so.1", "int other;\n")
    other = {"LD_LIBRARY_PATH": str(tmp_path / "other")}
    assert "is no CUDA driver" in one_error(run_baton(*BENCH, "--device", "cuda", env=other))


def test_a_device_refuses_what_it_does_not_compute(with_driver):
    for flags in (("--numerics", "fp32"), ("--kv-dtype", "int8")):
        line = one_error(run_baton(*BENCH, "--device", "cuda", *flags, env=with_driver))
        assert f"{' '.join(flags)} is computed on the CPU alone" in line


def damaged_plugins(folder):
    """Name -> (file, what is said of it)."""
    text = folder / "text.so"
    text.write_text("no library at all\n" * 10)
    whole = library(folder / "whole.so", PLUGIN_SOURCE % (2, "0.0.0", OTHER_ID))
    cut = folder / "cut.so"
    cut.write_bytes(whole.read_bytes()[:-1000])
    begun = folder / "begun.so"
    begun.write_bytes(whole.read_bytes()[:40])
    later = library(folder / "later.so", PLUGIN_SOURCE % (3, "0.1.0", OTHER_ID))
    earlier = library(folder / "earlier.so", OLD_PLUGIN_SOURCE)
    another = library(folder / "another.so", PLUGIN_SOURCE % (2, "0.1.0", OTHER_ID))
    foreign = library(folder / "foreign.so", "int nothing;\n")
    empty = folder / "empty.so"
    empty.touch()
    return {
        "absent": (folder / "absent.so", f"the CUDA plug-in is not installed: no {folder}/absent.so"),
        "text": (text, "is damaged: it is no library"),
        "folder": (folder, "is damaged: it is no library"),
        "empty": (empty, "is damaged: it is no library"),
        "begun": (begun, "is damaged: it is no library"),
        "cut": (cut, "is damaged: it has "),
        "of another version": (whole, "is of version 0.0.0 (interface 2), this program of"),
        "of another interface": (later, "is of version 0.1.0 (interface 3), this program of"),
        "of an interface without an id": (earlier, "is of version 0.1.0 (interface 1), this program of"),
        "of another build": (another, f"is of another build of version 0.1.0 ({OTHER_ID}) than this program ("),
        "foreign": (foreign, "is no plug-in of Baton"),
    }


def test_a_plugin_that_cannot_be_used_is_one_error_and_auto_takes_the_cpu(tmp_path, with_driver):
    for name, (path, message) in damaged_plugins(tmp_path).items():
        env = {**with_driver, "BATON_CUDA_PLUGIN": str(path)}
        line = one_error(run_baton(*BENCH, "--device", "cuda", env=env))
        assert message in line and str(path) in line and "--device cuda: " in line, name
    env = {**with_driver, "BATON_CUDA_PLUGIN": str(tmp_path / "cut.so")}
    result = run_baton(*BENCH, "--json", env=env, timeout_s=120)
    assert result.returncode == 0 and '"device":"cpu"' in result.stdout, result.stderr
    assert "cut.so is damaged" in result.stdout and ": computing on the CPU" in result.stdout


@pytest.mark.parametrize("name", ["absent", "text", "cut", "of another version", "of another build"])
def test_auto_serves_on_the_cpu_beside_a_plugin_that_cannot_be_used_and_says_why_once(name, tmp_path, with_driver):
    path, message = damaged_plugins(tmp_path)[name]
    env = {**with_driver, "BATON_CUDA_PLUGIN": str(path)}
    serves_on_the_cpu_and_says_why_once(message, "--device", "auto", env=env)


def test_a_worker_of_its_own_serves_on_the_cpu_beside_a_plugin_of_another_build(tmp_path, with_driver):
    path, message = damaged_plugins(tmp_path)["of another build"]
    with RoleProcess("router", "--grpc-port", 0) as router:
        with RoleProcess("mixed-worker", "--router", router.cluster_target, "--device", "auto", "--threads", 1, "--kv-memory",
                         "36MiB", env={**with_driver, "BATON_CUDA_PLUGIN": str(path)}) as worker:
            result = run_baton("generate", "--target", router.target, "--prompt", "The capital of France is",
                               "--max-tokens", 2)
            assert result.returncode == 0 and "Paris" in result.stdout, result.stderr
            worker.stop()
            assert worker.log().count(message) == worker.log().count(": computing on the CPU") == 1, worker.log()


def test_auto_serves_on_the_cpu_beside_a_driver_that_sees_no_device(tmp_path):
    serves_on_the_cpu_and_says_why_once("the CUDA driver sees no device", env=driver(tmp_path / "none", devices=0))


def id_of(folder, headers, built_by="gcc 12"):
    """The id of a build with these headers, name -> text."""
    for name, text in headers.items():
        (folder / name).write_text(text)
    output = folder / "build_id.cc"
    subprocess.run(["cmake", f"-DOUTPUT={output}", f"-DROOT={folder}", f"-DFILES={';'.join(headers)}", f"-DBUILT_BY={built_by}",
                    "-P", BUILD_ID], check=True)
    return re.search(r'return "([0-9a-f]{16})"', output.read_text())[1]


def test_the_id_of_a_build_follows_from_its_headers_and_its_compiler_alone(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    headers = {"a.h": "int a;\n", "b.h": "int b;\n"}
    ids = [id_of(here, headers), id_of(here, {**headers, "b.h": "long b;\n"}), id_of(here, {"a.h": headers["a.h"]}),
           id_of(here, {"a.h": headers["a.h"], "c.h": headers["b.h"]}), id_of(here, headers, built_by="gcc 13")]
    assert len(set(ids)) == len(ids)
    assert id_of(there, headers) == ids[0]


@pytest.mark.parametrize("command", SERVERS, ids=lambda command: command[0])
def test_a_share_of_a_device_is_refused_where_the_cpu_computes(command):
    line = one_error(run_baton(*command, "--device", "cpu", FLAG, "0.5"))
    assert f"{FLAG} is of a device (--device cpu): give the size of the pool with --kv-memory" in line
    if not has_driver():
        assert f"{FLAG} is of a device ({NO_DRIVER}: computing on the CPU)" in one_error(run_baton(*command, FLAG, "0.5"))


@pytest.mark.parametrize("share", ["0", "-0.1", "1.01", "nan", "90%"])
def test_a_share_is_above_0_and_up_to_1(share):
    result = run_baton("serve", "--grpc-port", 0, f"{FLAG}={share}")
    assert result.returncode == 2 and "a number above 0 and up to 1" in result.stderr, result.stderr


def test_the_plugin_of_this_build_loads_and_finds_what_the_driver_lacks(with_driver):
    if not PLUGIN.exists():
        pytest.skip("this build has no plug-in: there was no nvcc")
    line = one_error(run_baton(*BENCH, "--device", "cuda", env=with_driver))
    assert "the CUDA driver is too old: it has no cuDriverGetVersion" in line
    whole = PLUGIN.read_bytes()
    assert b"BatonDevicePlugin" in whole


def test_a_plugin_of_this_build_that_was_cut_off_is_one_error(tmp_path, with_driver):
    if not PLUGIN.exists():
        pytest.skip("this build has no plug-in: there was no nvcc")
    whole = PLUGIN.read_bytes()
    for part in (0.1, 0.5, 0.999):
        cut = tmp_path / "libbaton_cuda.so"
        cut.write_bytes(whole[:int(len(whole) * part)])
        line = one_error(run_baton(*BENCH, "--device", "cuda", env={**with_driver, "BATON_CUDA_PLUGIN": str(cut)}))
        assert "is damaged: it has " in line


def test_the_version_says_what_was_run_and_what_was_not():
    lines = run_baton("version").stdout.splitlines()
    assert lines[1] in ("CUDA: compiled and checked on emulation; not yet run on a GPU", "CUDA: left out of this build")
