"""python3 -m unittest grammar_cost_test: what given pairs say."""

import json
import unittest

import grammar_cost

PAIRS = [(100.0, 103.0)] * 8 + [(100.0, 180.0)]


class GrammarCostTest(unittest.TestCase):
    def test_the_median_of_the_pairs_counts_and_not_a_pair_that_was_disturbed(self):
        found = grammar_cost.summarize(PAIRS, limit_percent=5)
        self.assertAlmostEqual(found["ratio"], 1.03)
        self.assertTrue(found["is_interval_of_95"] and found["below_limit"])
        self.assertIn("1.030 [1.030, 1.030]  yes", grammar_cost.table({"text": found}, 5))

    def test_the_upper_end_of_the_interval_has_to_be_below_the_limit(self):
        self.assertFalse(grammar_cost.summarize(PAIRS, limit_percent=2)["below_limit"])
        mixed = [(100.0, 101.0)] * 5 + [(100.0, 106.0)] * 3
        self.assertFalse(grammar_cost.summarize(mixed, limit_percent=5)["below_limit"])

    def test_few_pairs_prove_nothing(self):
        found = grammar_cost.summarize(PAIRS[:5], limit_percent=5)
        self.assertFalse(found["is_interval_of_95"] or found["below_limit"])
        self.assertIn("too few pairs", grammar_cost.table({"text": found}, 5))

    def test_a_new_grammar_differs_from_those_before(self):
        for name, grammar in grammar_cost.GRAMMARS.items():
            self.assertNotEqual(grammar(0, 128), grammar(1, 128), name)
        _, schema = grammar_cost.GRAMMARS["strings"](3, 128)
        self.assertEqual(json.loads(schema)["minItems"], 33)


if __name__ == "__main__":
    unittest.main()
