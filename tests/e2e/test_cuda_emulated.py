"""The program and its CUDA plug-in on an emulated device: a libcuda.so.1 over the interpreter of PTX (tests/ptx), which runs
the PTX of the plug-in's own fat binary, looks for races and bad accesses, and names them on stderr.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from cluster import BINARY, run_baton
from tiny_model import write_tiny_model

LIBRARIES = pathlib.Path(BINARY).resolve().parent.parent / "lib"
DRIVER = LIBRARIES / "emulated_cuda"
PLUGIN = LIBRARIES / "baton/libbaton_cuda.so"
EMULATED = {"LD_LIBRARY_PATH": str(DRIVER)}
CUDA_FINGERPRINT = re.compile(r"cuda-sm80-bf16-v1/kv:2x1x32-bf16-v\d+/weights:[0-9a-f]{32}/probe:[0-9a-f]{32}")
BENCH = ("bench", "engine", "--decode-steps", 4, "--rounds", 1, "--context", 20, "--read-mib", 1, "--threads", 1)
DECODE = ("--only", "decode", "--decode", 1)
FOUND = "emulated CUDA device: "
# The sticky error of a launch that went wrong.
LAUNCH_FAILED = 719
# Loads a kernel that stores behind the end of four bytes, launches it, and prints what the driver answers to that and then.
OVERRUN = r"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
address = ctypes.c_uint64()
text = b".version 9.0\n.target sm_80\n.address_size 64\n.entry overrun(.param .u64 at) { .reg .b64 %rd<2>; .reg .b32 %r<2>;"
text += b" ld.param.u64 %rd1, [at]; mov.u32 %r1, 7; st.global.u32 [%rd1+4], %r1; ret; }"
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"overrun") == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4)) == 0
values = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(address), ctypes.c_void_p))
launched = cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, values, None)
print(launched, cuda.cuStreamSynchronize(None), cuda.cuStreamSynchronize(None))
"""

if not PLUGIN.exists() or not (DRIVER / "libcuda.so.1").exists():
    pytest.skip("this build has no CUDA plug-in or no emulated driver", allow_module_level=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def bench(model, *args, env=None):
    result = run_baton(*BENCH, "--model", model, "--json", *args, env={**EMULATED, **(env or {})})
    assert result.returncode == 0 and FOUND not in result.stderr, result.stderr
    return json.loads(result.stdout)


def one_error(result):
    assert result.returncode == 1, result.stderr
    lines = [line for line in result.stderr.splitlines() if not line.startswith(FOUND)]
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_the_engine_decodes_on_the_device_with_numerics_of_its_own(model):
    report = bench(model, "--device", "cuda", "--only", "decode", "--decode", "1,3")
    assert report["device"] == "cuda:0" and CUDA_FINGERPRINT.fullmatch(report["fingerprint"]), report
    assert report["numerics"] == "cuda-bf16" and "memory" not in report, report
    assert [figure["streams"] for figure in report["figures"]] == [1, 3]
    for figure in report["figures"]:
        assert figure["value"] > 0
        print(f"{figure['name']}: {figure['value']:.0f} {figure['unit']}")


def test_the_device_reads_long_prompts_in_chunks(model):
    report = bench(model, "--device", "cuda:0", "--only", "prefill", "--prefill", "40,2x20", "--chunk-tokens", 16,
                   "--decode", 1)
    assert [figure["part"] for figure in report["figures"]] == ["prefill", "prefill"], report


def test_the_table_names_the_device_and_its_numerics(model):
    result = run_baton(*BENCH, *DECODE, "--model", model, "--device", "cuda", env=EMULATED)
    assert result.returncode == 0, result.stderr
    assert "tiny, cuda:0, cuda-bf16, bf16 KV" in result.stdout and "resident" not in result.stdout, result.stdout


def test_auto_takes_the_device(model):
    report = bench(model, *DECODE)
    assert report["device"] == "cuda:0" and "device_reason" not in report, report


def test_the_probe_of_the_fingerprint_depends_on_neither_threads_nor_checks_of_the_emulation(model):
    variants = ({}, {"BATON_PTX_HOST_THREADS": "3"}, {"BATON_PTX_CHECKS": "0"})
    assert len({bench(model, "--device", "cuda", *DECODE, env=env)["fingerprint"] for env in variants}) == 1


def test_a_device_that_is_not_there_is_one_error(model):
    line = one_error(run_baton(*BENCH, *DECODE, "--model", model, "--device", "cuda:1", env=EMULATED))
    assert "there is no CUDA device 1: the driver sees 1" in line


@pytest.mark.parametrize("variable", ["BATON_CUDA_OVERLAP", "BATON_CUDA_STEPS_AHEAD", "BATON_CUDA_LAYER_EVENTS"])
def test_what_an_operator_may_switch_off_is_0_or_1(model, variable):
    result = run_baton(*BENCH, *DECODE, "--model", model, "--device", "cuda", env={**EMULATED, variable: "no"})
    assert f"{variable} is 0 or 1, and not no" in one_error(result)


def test_the_device_decodes_without_steps_ahead(model):
    report = bench(model, "--device", "cuda", *DECODE, env={"BATON_CUDA_STEPS_AHEAD": "0"})
    assert [figure["value"] > 0 for figure in report["figures"]] == [True], report


@pytest.mark.parametrize("variable, value, range_of_it", [("BATON_PTX_HOST_THREADS", "0", "from 1 to 64"),
                                                          ("BATON_PTX_CHECKS", "yes", "from 0 to 1"),
                                                          ("BATON_PTX_MEMORY_MIB", "0", "from 1 to 65536")])
def test_the_emulated_driver_does_not_start_with_a_wrong_variable(model, variable, value, range_of_it):
    result = run_baton(*BENCH, *DECODE, "--model", model, "--device", "cuda", env={**EMULATED, variable: value})
    assert "the CUDA driver does not start: its error 1" in one_error(result)
    assert f"{FOUND}{variable} is {range_of_it}, and not {value}" in result.stderr


def test_what_the_interpreter_finds_is_written_once_and_the_device_stays_failed():
    result = subprocess.run([sys.executable, "-c", OVERRUN], env=EMULATED, capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["0", str(LAUNCH_FAILED), str(LAUNCH_FAILED)]
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{FOUND}overrun:") and "out of bounds" in lines[0], result.stderr
