"""What a target cost: rounds, simulated seconds and bytes in the tables of sounder runs, and as an axis of --svg.

Usage: test_look_costs.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, re, sys, unittest

from test_look import Look
from test_look_figures import Figures

AIM = ["--data", "synthetic-fedprox users=6", "--model", "linear 10", "--batch-size", "10", "--device", "cpu", "--workers", "1", "--rounds", "4",
       "--target", "accuracy=0.05"]


class Costs(Look):
    figure = Figures.figure

    def test_with_a_target_runs_and_sweeps_tell_what_it_cost(self):
        told = self.sounder("sweep", *AIM, "--client-time", "lognormal", "--seed", "1..2", "--out", "s")
        self.assertRegex(told, r"rounds to target +simulated s to target +MB to target ")
        for row in json.loads(self.sounder("runs", "s", "--format", "json")):
            with open(self.path(row["run"], "metrics.jsonl")) as file:
                lines = [json.loads(line) for line in file]
            (then,) = [line for line in lines if line["type"] == "round" and line["round"] == row["rounds_to_target"]]
            self.assertAlmostEqual(row["simulated_seconds_to_target"], then["simulated_seconds_total"], places=5)
            self.assertAlmostEqual(row["megabytes_to_target"], (then["down_bytes_total"] + then["up_bytes_total"]) / 1e6, places=9)

    def test_simulated_seconds_that_are_the_rounds_have_no_column(self):
        self.sounder("train", *AIM, "--out", "run")
        (row,) = json.loads(self.sounder("runs", "run", "--format", "json"))
        self.assertIn("megabytes_to_target", row)
        self.assertNotIn("simulated_seconds_to_target", row)
        self.sounder("train", *AIM[:-1], "accuracy=1", "--out", "missed")  # never reached: no cost
        self.assertNotIn("megabytes_to_target", json.loads(self.sounder("runs", "missed", "--format", "json"))[0])

    def places(self):
        """Where the mean of the drawing has its points, as shares of the distance from the first to the last."""
        texts, paths = self.figure("figures/accuracy.svg")
        (line,) = [[x for x, _ in points] for stroke, points in paths if stroke == "#0072b2" and len(points) == 3]
        return texts, [round((x - line[0]) / (line[-1] - line[0]), 3) for x in line]

    def test_an_axis_of_svg_is_what_rounds_cost(self):
        for seed, sent in ((1, [1, 2, 5]), (2, [3, 4, 7])):  # MB after each round
            self.write_run(f"runs/{seed}", [0.5, 0.6, 0.7], seed=seed)
            path = self.path(f"runs/{seed}/metrics.jsonl")
            with open(path) as file:
                lines = [json.loads(line) for line in file]
            for line in lines:
                if line["type"] == "round":
                    line.update(down_bytes_total=0, up_bytes_total=1000000 * sent[line["round"] - 1], simulated_seconds_total=line["round"] ** 2)
            with open(path, "w") as file:
                file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        for axis, title, middle in (("round", "round", 0.5), ("megabytes", "MB sent, both ways", 0.25), ("simulated", "simulated seconds", 0.375),
                                    ("seconds", "seconds of training and tests", 0.5)):
            self.sounder("report", "runs", "--svg", "figures", "--axis", axis)
            texts, places = self.places()
            self.assertIn(title, texts)
            self.assertEqual(places, [0, middle, 1], axis)
        self.assertIn("0.5", texts)  # 2.25 s in all: ticks between whole numbers
        self.assertIn("--axis: only used with --svg", self.sounder("report", "runs", "--axis", "seconds", code=os.EX_USAGE))
        self.assertIn("--axis mb: ", self.sounder("report", "runs", "--svg", "figures", "--axis", "mb", code=os.EX_USAGE))


del Figures  # its own file runs its tests

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
