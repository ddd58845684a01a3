"""python3 -m unittest gateway_cost_test: what given pairs say."""

import unittest

import gateway_cost

PAIRS = [((100.0, 5.0), (99.0, 5.1))] * 6 + [((100.0, 5.0), (50.0, 9.0))]


class GatewayCostTest(unittest.TestCase):
    def test_the_median_of_the_pairs_counts_and_not_a_pair_that_was_disturbed(self):
        found = gateway_cost.summarize(PAIRS)
        self.assertAlmostEqual(found["throughput_ratio"]["median"], 0.99)
        self.assertAlmostEqual(found["added_ttft_ms"]["median"], 0.1)
        self.assertTrue(found["added_ttft_ms"]["is_interval_of_95"])
        self.assertEqual(found["http"]["median_ttft_ms"], 5.1)
        self.assertIn("ratio 0.990", gateway_cost.table(found))

    def test_few_pairs_have_no_interval(self):
        self.assertFalse(gateway_cost.summarize(PAIRS[:5])["throughput_ratio"]["is_interval_of_95"])


if __name__ == "__main__":
    unittest.main()
