"""python3 -m unittest compare_builds_test: ratios, intervals and verdicts of given runs."""

import argparse
import contextlib
import io
import unittest
import unittest.mock

import compare_builds
from paired_ratios import median_interval


def run(value, unit="tokens/s", cpu=None):
    given = {"times": {"prefill_512": {"value": value, "unit": unit}}}
    return given if cpu is None else {**given, "cpu_ms_per_1000_tokens": cpu}


def row(pairs):
    return compare_builds.summarize({"prefill_512": pairs})[0]


class CompareBuildsTest(unittest.TestCase):
    def test_the_interval_of_twelve_ratios_leaves_out_two_at_each_end(self):
        self.assertEqual(median_interval(list(range(12, 0, -1))), (3, 10, True))

    def test_six_ratios_are_the_fewest_with_an_interval(self):
        self.assertEqual(median_interval([1, 2, 3, 4, 5, 6]), (1, 6, True))
        self.assertEqual(median_interval([1, 2, 3, 4, 5]), (1, 5, False))
        self.assertEqual(median_interval([1]), (1, 1, False))

    def test_fewer_than_six_pairs_have_no_verdict(self):
        self.assertEqual(row([(run(100), run(100))] * 5)["verdict"], "too few pairs")

    def test_half_the_rate_is_twice_the_time(self):
        compared = row([(run(100), run(50))] * 6)
        self.assertEqual(compared["time"]["ratio"], 2)
        self.assertEqual((compared["time"]["old"], compared["time"]["new"]), (100, 50))
        self.assertEqual(compared["verdict"], "slower")

    def test_a_figure_in_ms_is_a_time_already(self):
        self.assertEqual(row([(run(10, "ms"), run(20, "ms"))] * 6)["time"]["ratio"], 2)

    def test_cpu_time_decides_when_the_interval_is_too_wide(self):
        noisy = [(100, 80), (100, 120)] * 6
        equal = row([(run(old, cpu=10), run(new, cpu=10.1)) for old, new in noisy])
        more = row([(run(old, cpu=10), run(new, cpu=12)) for old, new in noisy])
        unknown = row([(run(old), run(new)) for old, new in noisy])
        self.assertEqual([given["verdict"] for given in (equal, more, unknown)],
                         ["not slower (CPU time)", "slower (CPU time)", "cannot tell"])

    def test_shares_differ_by_points_in_the_median_of_pairs(self):
        runs = [({"shares": {"idle": old}}, {"shares": {"idle": old + more}}) for old, more in
                zip((2, 30, 4, 5, 60, 7), (0.1, 0.2, 0.3, 0.3, 0.4, 0.5))]
        row, = compare_builds.summarize_shares(runs)
        self.assertEqual([round(row[key], 6) for key in ("old", "new", "difference", "low", "high")],
                         [6, 6.4, 0.3, 0.1, 0.5])
        self.assertTrue(row["is_interval_of_95"])
        self.assertEqual(compare_builds.share_line(row),
                         "The cores were idle for 6.00 -> 6.40 % of the time: +0.30 points [+0.10, +0.50].")
        self.assertEqual(compare_builds.summarize_shares([]), [])

    def test_each_side_is_served_with_its_own_flags(self):
        options = argparse.Namespace(old="a", new="b", roles=["--mixed", "1"], old_flags=[], new_flags=["--tls-ca", "ca"])
        self.assertEqual([(binary, side.roles) for binary, side in map(
            lambda label: compare_builds.side_of(options, label), ("old", "new"))],
            [("a", ["--mixed", "1"]), ("b", ["--mixed", "1", "--tls-ca", "ca"])])

    def test_flags_of_serve_are_refused_for_figures_without_a_cluster(self):
        for figures, is_wrong in [(["decode_1"], True), (["serve_16", "handoff"], True), (["serve_16", "router_1"], False)]:
            command = ["compare_builds.py", "/bin/true", "/bin/true", "--new-flags=--transport grpc", "--figures", *figures]
            with unittest.mock.patch("sys.argv", command), contextlib.redirect_stderr(io.StringIO()):
                if is_wrong:
                    self.assertRaises(SystemExit, compare_builds.parse_arguments)
                else:
                    self.assertEqual(compare_builds.parse_arguments().new_flags, ["--transport", "grpc"])


if __name__ == "__main__":
    unittest.main()
