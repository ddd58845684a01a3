"""Tests of what mutants.py reads: headers of patches, lists of tests, output of GoogleTest."""
import pathlib
import tempfile
import unittest
import unittest.mock

import mutants

DIFF = """diff --git a/x.cc b/x.cc
--- a/x.cc
+++ b/x.cc
@@ -2,3 +2,3 @@
 two
-three
+drei
 four
"""


def read(header):
    return mutants.read_mutant("folder/name", None, header + DIFF)


class Mutants(unittest.TestCase):
    def test_a_header_says_what_is_broken_and_which_tests_see_it(self):
        mutant = read("# A step is\n# left out.\n# test: a_test --gtest_filter=A*\n# test: b_test\n# env: SEEDS=2\n")
        self.assertEqual(mutant.what, "A step is left out.")
        self.assertEqual(mutant.tests, [["a_test", "--gtest_filter=A*"], ["b_test"]])
        self.assertEqual(mutant.env, {"SEEDS": "2"})
        self.assertEqual(mutant.folder, "folder")

    def test_a_patch_may_say_how_long_a_test_that_does_not_hang_takes_at_most(self):
        self.assertEqual(read("# Words.\n# limit: 30\n").limit_s, 30)
        self.assertEqual(read("# Words.\n").limit_s, mutants.TEST_TIMEOUT_S)
        for limit in ("soon", "0", "-1", "121"):
            with self.assertRaises(ValueError):
                read(f"# Words.\n# limit: {limit}\n")

    def test_a_test_that_hangs_is_ended_with_its_processes_whatever_they_ignore(self):
        # A process that is left would hold the output, and run() would wait for it.
        hanging = "trap '' TERM; sleep 600 & wait; sleep 600"
        with unittest.mock.patch.object(mutants, "KILL_AFTER_S", 0.2):
            result = mutants.run(mutants.within(0.2, ["sh", "-c", hanging]), "/")
        self.assertEqual(mutants.state_of(result.returncode), "hang")
        states = [mutants.state_of(mutants.run(mutants.within(60, ["sh", "-c", f"exit {code}"]), "/").returncode)
                  for code in (0, 1)]
        self.assertEqual(states, ["passed", "killed"])

    def test_each_folder_of_patches_has_tests_or_its_patches_name_them(self):
        self.assertIn(["cuda_kernels_test"], mutants.default_tests("cuda"))
        self.assertIn(["cuda_runner_test"], mutants.default_tests("cuda"))
        self.assertEqual(mutants.default_tests("no such folder"), [])
        self.assertTrue(all(mutant.tests for mutant in mutants.load("*")))

    def test_a_patch_must_say_what_is_broken(self):
        for header in ("", "# test: a_test\n", "# Words.\n# env: SEEDS\n"):
            with self.assertRaises(ValueError):
                read(header)

    def test_a_survivor_is_good_only_where_the_patch_says_why(self):
        good = lambda header, state: mutants.Verdict(read(header), state).is_good
        self.assertFalse(good("# Words.\n", "survived"))
        self.assertTrue(good("# Words.\n# equivalent: nobody looks\n", "survived"))
        self.assertFalse(good("# Words.\n# equivalent: nobody looks\n", "killed"))
        self.assertTrue(good("# Words.\n", "hang"))
        for state in ("stale", "no build"):
            self.assertFalse(good("# Words.\n# equivalent: nobody looks\n", state))

    def test_the_tests_of_a_folder_are_read_from_its_cmake_file(self):
        cmake = "baton_test(a_test\n  SRCS a.cc)\n# baton_test(no)\nbaton_test(b_test SRCS b.cc)\n"
        self.assertEqual(mutants.tests_of_folder(cmake), ["a_test", "b_test"])

    def test_failed_cases_are_named_once(self):
        output = ("[ RUN      ] A.One\n[  FAILED  ] A.One (3 ms)\n[ RUN      ] B/A.Two/x\n"
                  "[  FAILED  ] B/A.Two/x, where GetParam() = 1 (3 ms)\n[  FAILED  ] 2 tests, listed below:\n"
                  "[  FAILED  ] A.One\n")
        self.assertEqual(mutants.who_failed(output), "A.One, B/A.Two/x")

    def test_a_process_that_ends_by_itself_names_the_case_that_ran(self):
        self.assertEqual(mutants.who_failed("[ RUN      ] A.One\n[       OK ] A.One\n[ RUN      ] A.Two\nCHECK failed"),
                         "A.Two")

    def test_the_simulators_seeds_are_shown(self):
        self.assertEqual(mutants.who_failed("[ RUN      ] A.One\nfound after 17 seeds\n[  FAILED  ] A.One (3 ms)"),
                         "A.One (after 17 seeds)")

    def test_a_patch_applies_while_the_lines_beside_it_stand_and_can_be_taken_out_again(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "m.patch").write_text("# Words.\n" + DIFF)
            mutant = mutants.read_mutant("folder/m", root / "m.patch", (root / "m.patch").read_text())
            file = root / "x.cc"
            for before, applies in (("one\ntwo\nthree\nfour\n", True), ("new\none\ntwo\nthree\nfour\n", True),
                                    ("one\ntwo\n3\nfour\n", False)):
                file.write_text(before)
                self.assertEqual(mutants.apply(mutant, root), applies)
                self.assertEqual(file.read_text(), before.replace("three", "drei") if applies else before)
                if applies:
                    self.assertTrue(mutants.apply(mutant, root, "--reverse"))
                    self.assertEqual(file.read_text(), before)


if __name__ == "__main__":
    unittest.main()
