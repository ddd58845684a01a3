"""python3 -m unittest report_test: the tables and ratios of given results."""

import unittest

import report
import run
import serving


def served(rate, share, failed=0):
    latencies = {f"{k}_{name}_ms": 10.0 for k in ("median", "p90", "p99") for name in ("ttft", "tpot", "itl")}
    return {**latencies, "rate": rate, "slo_attainment": share, "failed": failed, "output_throughput": 100 * rate}


ABOUT = {"threads": 2, "seed": 3, "versions": {"Baton": "1"}}


def machine(when, read):
    return {"when": when,
            "limits": {"processor": "P", "cores": 2, "instruction_sets": ["avx2"], "read_gb_per_s": read,
                       "instructions": [{"arithmetic": "int8", "gmac_per_s": 150},
                                        {"arithmetic": "int8", "gmac_per_s": 300}]},
            "attention": [{"name": "prefill of 2048", "unit": "GMAC/s", "value": 50.0}]}


class ReportTest(unittest.TestCase):
    def test_the_ratio_is_to_the_best_median_of_the_peers(self):
        runs = {"Baton": [10, 30, 20], "A": [5, 6, 100], "B": [8, 8, 8]}
        part = {name: [{"tokens_per_s": v} for v in values] for name, values in runs.items()}
        line = report.in_process_lines({"decode_1": part})[-1]
        self.assertEqual(line, "| decode, 1 stream | 20.0 (30.0) | 6.0 (100.0) | 8.0 (8.0) | 2.50 |")

    def test_a_system_that_was_not_measured_has_no_figure(self):
        parts = {"prefill_512": {"Baton": [{"tokens_per_s": 4}], "A": [{"tokens_per_s": 2}]},
                 "decode_1": {"Baton": [{"tokens_per_s": 4}]}}
        self.assertEqual(report.in_process_lines(parts)[-1], "| decode, 1 stream | 4.0 (4.0) | - | - |")

    def test_the_rate_held_is_the_last_within_the_objective(self):
        runs = {"Baton, 1 mixed": [served(1, 1), served(2, 0.9), served(3, 0.89)],
                "A": [served(1, 0.95), served(2, 1, failed=1)], "B": [served(1, 0.2)]}
        lines = report.open_lines(runs)
        self.assertTrue(lines[2].startswith("| Baton, 1 mixed | 2 |"))
        self.assertTrue(lines[3].startswith("| A | 1 |"))
        self.assertTrue(lines[4].startswith("| B | 0 (at 1) |"))
        self.assertEqual(lines[-1], "Rate held over the best peer's: 2.00.")

    def test_the_search_rises_to_the_first_rate_missed_and_then_halves_what_is_left(self):
        results = []
        tried = []
        while (rate := serving.next_rate(results, [0.5, 1, 2, 4])) is not None:
            tried.append(rate)
            results.append(served(rate, 1 if rate < 1.6 else 0.5))
        self.assertEqual(tried, [0.5, 1, 2, 1.5, 1.75, 1.625])
        self.assertEqual(serving.next_rate([served(1, 0.1)], [1, 2]), 0.5)
        self.assertIsNone(serving.next_rate([served(1, 1), served(2, 1)], [1, 2]))

    def test_parts_measured_one_by_one_make_one_table(self):
        results = {"about": ABOUT, "machine": [machine("m, at first", 20.0), machine("m, after serve_16", 30.0)]}
        run.merge(results, "m", "decode_1", {"Baton": [{"tokens_per_s": 4}], "A": [{"tokens_per_s": 2}]})
        run.merge(results, "m", "serve_16", {"Baton": [served(3, 1)], "A": [served(2, 1)]})
        text = report.markdown(results)
        for wanted in ("P, 2 cores, avx2; 2 threads each, seed 3.", "| m, after serve_16 | 30.0 | 300.0 | 50.0 |",
                       "| median | 25.0 | 300.0 | 50.0 |", "| decode, 1 stream | 4.0 (4.0) | 2.0 (2.0) | 2.00 |",
                       "Output throughput over the best peer's: 1.50."):
            self.assertIn(wanted, text)


if __name__ == "__main__":
    unittest.main()
