"""How tools/bench/run goes on when sides fail and when time runs short. Usage: test_measure.py"""
import unittest

from harness import readme
from harness.commands import Failed, OutOfTime, TimeLimit
from harness.measure import Row, measure


class Measure(unittest.TestCase):
    def measured(self, *runs, pairs=3, is_late=lambda: False):
        row = Row("row", "title", "unit", list(runs))
        measure(row, pairs, lambda sentence: None, is_late)
        return row

    def ours(self):
        return {"A": 2.0}

    def theirs(self):
        return {"B": 1.0}

    def failing_after(self, runs, problem):
        """theirs, which does so often and then fails."""
        counts = iter(range(runs))

        def run():
            if next(counts, None) is None:
                raise problem("B: no more")
            return self.theirs()
        return run

    def test_every_side_is_measured_in_each_pair(self):
        row = self.measured(self.ours, self.theirs)
        self.assertEqual(row.figures, {"A": [2.0] * 3, "B": [1.0] * 3})
        self.assertEqual(row.ratio_of_medians("B"), 2.0)

    def test_a_side_that_fails_is_left_out_with_a_sentence(self):
        row = self.measured(self.ours, self.failing_after(1, Failed))
        self.assertEqual(row.figures, {"A": [2.0] * 3})
        self.assertEqual(list(row.problems.values()), ["row: B: no more"])

    def test_a_row_whose_subject_fails_is_empty(self):
        self.assertEqual(self.measured(self.failing_after(0, Failed), self.ours).figures, {})
        self.assertEqual(self.measured(self.failing_after(0, OutOfTime), self.ours).figures, {})

    def test_when_the_time_is_over_the_whole_pairs_stay(self):
        row = self.measured(self.ours, self.failing_after(2, OutOfTime))
        self.assertEqual(row.figures, {"A": [2.0] * 2, "B": [1.0] * 2})
        self.assertEqual(row.problems, {})

    def test_a_late_row_does_with_one_pair(self):
        self.assertEqual(self.measured(self.ours, self.theirs, is_late=lambda: True).figures, {"A": [2.0], "B": [1.0]})

    def test_time_is_without_end_until_it_is_limited(self):
        limit = TimeLimit()
        self.assertEqual(limit.left(), float("inf"))
        limit.start(0)
        self.assertEqual(limit.left(), 0)


class Readme(unittest.TestCase):
    def row(self, name, ours, theirs):
        return {"name": name, "title": f"title of {name}", "unit": "s", "figures": {"Sounder": ours, "PyTorch": theirs},
                "ratios_of_medians": {"PyTorch": theirs[0] / ours[0]}}

    def job(self, rounds):
        def side(factor):
            return {"wall": factor, "round": factor / 100, "MB": 100 * factor, "accuracy": 0.5}
        return {"passes": [{"sounder": side(1), "jax": side(factor), "pfl": None} for factor in rounds], "lines": {"jax": 73, "pfl": 70}}

    def test_only_the_table_of_this_machine_is_replaced_and_a_new_one_comes_first(self):
        page = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n<!-- results: two -->\nkept\n<!-- end of results -->\n"
        self.assertEqual(readme.replace_section(page, "one", "new"), page.replace("old", "new"))
        self.assertTrue(readme.replace_section(page, "three", "x").startswith("a\n<!-- results: three -->\nx\n<!-- end of results -->\n\n<!-- results: one"))
        self.assertRaises(ValueError, readme.replace_section, "no place", "one", "new")

    def test_where_there_is_no_lead_is_said_and_stands_out(self):
        rows = [self.row("fast", [1.0], [4.0]), self.row("even", [1.0], [1.0]), self.row("slow", [2.0], [1.0])]
        self.assertEqual(readme.leads_not(rows, {"2nn": self.job([3, 0.5, 0.5])}),
                         ["**Slower**: title of slow (beside PyTorch), 0.50x; wall time of the job 2nn (beside jax), 0.50x; "
                          "a steady round of the job 2nn (beside jax), 0.50x.", "**Only even**: title of even (beside PyTorch), 1.00x."])
        self.assertIn("| title of slow | 2 s | 1 s (PyTorch) | **0.50x** | `--rows slow` |", readme.rows_table(rows))
        self.assertEqual(readme.leads_not(rows[:1], {}), ["**Slower**: nowhere.", "**Only even**: nowhere."])

    def test_the_text_says_how_busy_the_machine_was_and_how_often_it_was_measured(self):
        machine = {"cores": 2, "cpu": "C", "memory": "1 GB", "kernel": "Linux", "date": "2026-11-22T01", "sounder": "s", "others' work before": "1% of the cores",
                   "others' work after": "70% of the cores"}
        measured = {"machine": machine, "rows": [self.row("fast", [1.0, 1.0], [4.0, 4.0])]}
        told = readme.section(measured, {"2nn": self.job([2])}, "PyTorch 2.15.0+cu132")
        self.assertIn("Medians of 2 pairs; **others kept 70% of the cores busy, so these are impressions**.", told)
        self.assertIn("10 rounds), 1 pass, ratios", told)
        machine["others' work after"] = "2% of the cores"
        self.assertIn("; nothing else ran.", readme.section(measured, {}, ""))

    def test_a_side_that_was_not_done_is_left_out_of_its_job(self):
        lines = readme.jobs_table({"2nn": self.job([2, 3])})
        self.assertEqual(lines[2:], ["| 2nn: sounder | 1 |  | 10 |  | 100 |  | 50.0% | a command | `--jobs 2nn` |",
                                     "| jax | 2.5 | 2.50x | 25 | 2.50x | 250 | 2.50x | 50.0% | 73 |  |"])


if __name__ == "__main__":
    unittest.main()
