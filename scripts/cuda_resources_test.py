"""Tests of cuda_resources.py."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import cuda_resources

ENTRY = """ptxas info    : Compiling entry function '{kernel}' for '{arch}'
ptxas info    : Function properties for {kernel}
    {spills} bytes stack frame, {spills} bytes spill stores, {spills} bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 512 bytes smem, 376 bytes cmem[0]
"""


# Where the table goes, and a row for the test of each kernel.
PAGE = "\n".join(["Before.", cuda_resources.BEGIN, cuda_resources.END, cuda_resources.PROOFS, "",
                  *(f"| `{kernel}` | definition, not `others` |" for kernel in cuda_resources.launches()), "", "## After", "After.", ""])


def report(spilling=""):
    return "ptxas info    : 0 bytes gmem\n" + "".join(
        ENTRY.format(kernel=kernel, arch=arch, spills=8 if kernel == spilling else 0)
        for arch in ("sm_80", "sm_90") for kernel in cuda_resources.launches())


class CudaResources(unittest.TestCase):
    def run_over(self, text, *options):
        """What is printed, and the exit's message or None."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report"
            path.write_text(text)
            out = io.StringIO()
            argv = ["cuda_resources.py", *options, str(path)]
            with unittest.mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out):
                try:
                    cuda_resources.main()
                except SystemExit as end:
                    return out.getvalue(), end.code
            return out.getvalue(), None

    def run_with_page(self, page, text, *options, version="V13.0.1"):
        """The same over a page of its own, and that page afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gpu.md"
            path.write_text(page)
            with unittest.mock.patch.object(cuda_resources, "PAGE", path), unittest.mock.patch.object(
                    cuda_resources, "version_of", lambda nvcc: version):
                return *self.run_over(text, *options), path.read_text()

    def test_every_kernel_has_a_row(self):
        text, end = self.run_over(report())
        self.assertIsNone(end)
        self.assertEqual(len(text.splitlines()), 2 + len(cuda_resources.launches()))
        self.assertIn("| `embed` | 96 | 0 | 512 + 0 | 128 |", text)

    def test_where_architectures_differ_both_stand_there(self):
        text, _ = self.run_over(report().replace("Used 96 registers", "Used 80 registers", 1))
        self.assertIn("| `embed` | 80 / 96 | 0 | 512 + 0 | 128 |", text)

    def test_a_spill_fails_and_names_the_kernel(self):
        text, end = self.run_over(report("argmax"))
        self.assertIn("argmax (sm_80), argmax (sm_90)", end)
        self.assertIn("| `argmax` | 96 | 16 |", text)

    def test_a_page_that_was_written_is_right_until_the_report_changes(self):
        _, end, page = self.run_with_page(PAGE, report(), "--write")
        self.assertIsNone(end)
        self.assertTrue(page.startswith("Before.\n") and page.endswith("After.\n"), page)
        self.assertEqual(self.run_with_page(page, report(), "--write")[2], page)
        self.assertIsNone(self.run_with_page(page, report(), "--check")[1])
        changed = report().replace("96 registers", "97 registers")
        self.assertIn("--write", self.run_with_page(page, changed, "--check")[1])
        # Another compiler gives other figures.
        said, end, _ = self.run_with_page(page, changed, "--check", version="V13.1.0")
        self.assertIsNone(end)
        self.assertIn("nvcc V13.0.1", said)

    def test_a_page_without_the_table_or_without_a_kernel_s_proof_fails(self):
        self.assertIn("has lost the lines", self.run_with_page("Nothing.\n", report(), "--check")[1])
        page = self.run_with_page(PAGE.replace("`embed`", "`other`"), report(), "--write")[2]
        end = self.run_with_page(page, report(), "--check")[1]
        self.assertIn("embed, other", end)

    def test_a_kernel_that_is_missing_or_unknown_fails(self):
        self.assertIn("embed", self.run_over(report().replace("'embed'", "'other'"))[1])
        self.assertIn("other", self.run_over(report().replace("'embed'", "'other'"))[1])

    def test_the_bound_is_littles_law_below_the_bandwidth(self):
        # 96 registers of 128 threads: 5 blocks.
        blocks, in_flight, bandwidth = cuda_resources.bound_of(96, 0, 128, 2048)
        self.assertEqual((blocks, in_flight), (5, 10240))
        self.assertAlmostEqual(bandwidth, 132 * 10240 / 600e-9)
        # Shared memory allows 2 blocks, whose bytes exceed what the memory gives.
        self.assertEqual(cuda_resources.bound_of(32, 100 * 1024, 128, 65536), (2, 131072, 4.8e12))

    def test_stages_of_products_are_as_long_as_the_kernels_say(self):
        table = cuda_resources.launches()
        self.assertEqual([table["product_" + name][1] for name in ("bf16", "int8", "int4")], [98304, 73728, 55296])


if __name__ == "__main__":
    unittest.main()
