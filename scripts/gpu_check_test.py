"""Tests of `gpu_check.sh run`, over programs that only say something."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("gpu_check.sh")
TESTED = "[       OK ] A.B (1 ms)\n[  SKIPPED ] A.C (0 ms)\n[       OK ] A.D (2 ms)\n"
PROGRAMS = {
    "cuda_fragments": 'printf "device X" > "$1/X-sm90.golden"; echo \'{"differences":[]}\'; echo a note >&2',
    "cuda_kernels_test": f"printf '{TESTED}'",
    "cuda_runner_test": f"printf '{TESTED}'",
    "cuda_bench": 'echo "{\\"figures\\":[],\\"flags\\":\\"$*\\",\\"libraries\\":\\"$LD_LIBRARY_PATH\\"}"; echo a line >&2',
}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "packed"
        self.tools = pathlib.Path(temporary.name) / "tools"
        for folder in (self.folder, self.tools):
            folder.mkdir()
        for name, text in PROGRAMS.items():
            self.write(self.folder / name, text)

    @staticmethod
    def write(path, text):
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run_check(self, *flags, **env):
        """The exit code and the object."""
        # A machine may have a compute-sanitizer of its own.
        path = f"{self.tools}:/usr/bin:/bin"
        result = subprocess.run([SCRIPT, "run", self.folder, *flags], env={"PATH": path, **env}, capture_output=True,
                                text=True, timeout=60, check=False)
        self.assertEqual(result.stderr, "")
        return result.returncode, json.loads(result.stdout)

    def test_puts_results_counts_and_files_together(self):
        code, found = self.run_check("--quick")
        self.assertEqual(code, 0)
        self.assertEqual(list(found), ["cuda_fragments", "cuda_kernels_test", "cuda_runner_test", "cuda_bench",
                                       "cuda_bench_smollm2", "compute-sanitizer"])
        self.assertEqual(found["cuda_fragments"]["result"], {"differences": []})
        self.assertEqual((found["cuda_runner_test"]["passed"], found["cuda_runner_test"]["skipped"]), (2, 1))
        self.assertEqual(found["cuda_bench"]["result"]["flags"], "--quick")
        self.assertEqual(found["cuda_bench_smollm2"]["result"]["flags"], "--shape smollm2-135m --quick")
        self.assertEqual(found["cuda_bench"]["result"]["libraries"], f"{self.folder}/lib:/usr/local/cuda/lib64")
        self.assertEqual(found["compute-sanitizer"], "not installed")
        self.assertEqual((self.folder / "X-sm90.golden").read_text(), "device X")
        self.assertEqual((self.folder / "cuda_bench.log").read_text(), "a line\n")
        self.assertEqual((self.folder / "cuda_kernels_test.log").read_text(), TESTED)

    def test_fails_where_a_program_fails_and_goes_on(self):
        self.write(self.folder / "cuda_bench", "echo no device >&2; exit 1")
        self.write(self.folder / "cuda_kernels_test", "exit 7")
        code, found = self.run_check()
        self.assertEqual(code, 1)
        self.assertEqual((found["cuda_bench"]["rc"], found["cuda_bench"]["result"]), (1, None))
        self.assertEqual((found["cuda_kernels_test"]["rc"], found["cuda_kernels_test"]["passed"]), (7, 0))
        self.assertEqual(found["cuda_runner_test"]["rc"], 0)

    def test_runs_the_kernels_under_every_tool_of_compute_sanitizer(self):
        self.write(self.tools / "compute-sanitizer", '[ "$2" != racecheck ] || exit 9; "${@: -1}"')
        code, found = self.run_check()
        self.assertEqual(code, 1)
        self.assertEqual([found[tool]["rc"] for tool in ("memcheck", "racecheck", "initcheck")], [0, 9, 0])
        self.assertEqual(found["memcheck"]["passed"], 2)
        self.assertNotIn("compute-sanitizer", found)

    def test_stops_what_takes_too_long_and_begins_nothing_after_that(self):
        self.write(self.folder / "cuda_kernels_test", "exec sleep 50")
        code, found = self.run_check(BATON_GPU_CHECK_SECONDS="1")
        self.assertEqual(code, 1)
        self.assertEqual(found["cuda_kernels_test"]["rc"], 124)
        self.assertEqual((found["cuda_bench"]["rc"], found["cuda_bench"]["result"]), (124, None))


if __name__ == "__main__":
    unittest.main()
