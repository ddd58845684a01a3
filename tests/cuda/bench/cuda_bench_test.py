"""cuda_bench on an emulated device: the figures, what is left out and why, and what ends it.

The environment names the program (CUDA_BENCH), the folder of the emulated driver (EMULATED_CUDA), the stand-in of
cuBLASLt (CUBLASLT_STAND_IN) and a library that is none (NOT_CUBLASLT).
"""
import json
import os
import subprocess
import unittest

STAND_IN = os.environ["CUBLASLT_STAND_IN"]
FOUND = "emulated CUDA device: "


def run(*args, library=STAND_IN, driver=os.environ["EMULATED_CUDA"], **more):
    env = {**os.environ, "BATON_CUBLASLT_LIBRARY": library, "LD_LIBRARY_PATH": driver, **more}
    return subprocess.run([os.environ["CUDA_BENCH"], *args], env=env, capture_output=True, text=True, timeout=240,
                          check=False)


class CudaBench(unittest.TestCase):
    def report(self, *args, **kwargs):
        result = run("--shape", "tiny", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(FOUND, result.stderr)
        return json.loads(result.stdout)

    def test_measures_every_part_beside_its_yardstick(self):
        report = self.report()
        self.assertEqual(report["device"]["name"], "PTX interpreter")
        self.assertEqual(report["left_out"], [])
        figures = {}
        for figure in report["figures"]:
            self.assertGreater(figure["value"], 0)
            figures.setdefault(figure["part"], []).append(figure)
        memory = max(figure["value"] for figure in figures["memory"])
        peak = max(figure["value"] for figure in figures["cublaslt"])
        self.assertEqual([figure["way"] for figure in figures["memory"]], ["read", "copy"])
        self.assertEqual([figure["rows"] for figure in figures["cublaslt"]], [16, 40])
        self.assertEqual([(figure["weights"], figure["batch"]) for figure in figures["decode"]],
                         [(weights, batch) for weights in ("bf16", "int8", "int4") for batch in (1, 3)])
        self.assertEqual([(figure["weights"], figure["tokens"]) for figure in figures["prefill"]],
                         [(weights, tokens) for weights in ("bf16", "int8", "int4") for tokens in (16, 40)])
        [digest] = figures["digest"]
        # Keys and values of 2 layers with 2 heads of 32 elements, 16 tokens to a block.
        self.assertEqual((digest["blocks"], digest["block_bytes"]), (3, 2 * 2 * 2 * 32 * 2 * 16))
        self.assertEqual((digest["limit"], digest["bound"]), (memory, "memory"))
        self.assertAlmostEqual(digest["block_bytes"] / digest["block_us"] / 1e3 / digest["value"], 1)
        for figure in figures["decode"]:
            self.assertEqual((figure["limit"], figure["bound"]), (memory, "memory"))
            self.assertAlmostEqual(figure["bytes"] / figure["step_ms"] / 1e6 / figure["value"], 1)
        for figure in figures["prefill"]:
            self.assertEqual((figure["limit"], figure["bound"]), (peak, "cublaslt"))

    def test_says_by_name_that_cublaslt_is_a_stand_in_and_agrees_with_the_kernels(self):
        cublaslt = self.report("--quick")["cublaslt"]
        self.assertIs(cublaslt["stand_in"], True)
        self.assertEqual(cublaslt["library"], STAND_IN)
        self.assertLess(cublaslt["largest_difference"], 0.005)

    def test_ends_with_an_error_where_cublaslt_and_the_kernel_disagree(self):
        result = run("--shape", "tiny", "--quick", BATON_STAND_IN_CUBLASLT_FAULT="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the products of cuBLASLt and of the engine's kernel differ by", result.stderr)
        self.assertGreater(json.loads(result.stdout)["cublaslt"]["largest_difference"], 1)

    def test_without_cublaslt_its_figures_are_left_out_by_name(self):
        for library, why in (("/nonexistent/libcublasLt.so.13", "/nonexistent/libcublasLt.so.13"),
                             (os.environ["NOT_CUBLASLT"], "has no cublasLtGetVersion")):
            report = self.report("--quick", library=library)
            self.assertEqual(len(report["left_out"]), 1)
            self.assertTrue(report["left_out"][0].startswith("cublaslt: "), report["left_out"])
            self.assertIn(why, report["left_out"][0])
            self.assertNotIn("cublaslt", report)
            for figure in report["figures"]:
                self.assertNotEqual(figure["part"], "cublaslt")
                self.assertEqual("share_of_limit" in figure, figure["part"] in ("decode", "digest"))

    def test_ends_where_there_is_no_driver_or_no_such_device(self):
        result = run("--shape", "tiny", driver="/nonexistent")
        if result.returncode != 0:  # Else the machine has a driver of its own.
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("no CUDA driver on this machine", result.stderr)
        result = run("--shape", "tiny", "--device", "7")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("no CUDA device 7", result.stderr)

    def test_refuses_what_it_does_not_know(self):
        for args in (("--shape", "huge"), ("--fast",), ("--device", "x"), ("--shape",)):
            result = run(*args)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn("usage: cuda_bench", result.stderr)


if __name__ == "__main__":
    unittest.main()
