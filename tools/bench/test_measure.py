"""How tools/bench/run goes on when sides fail and when time runs short. Usage: test_measure.py"""
import unittest

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


if __name__ == "__main__":
    unittest.main()
