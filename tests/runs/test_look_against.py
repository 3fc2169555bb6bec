"""Better or luck: sounder runs --against, at the end of a sweep and in the report.

Usage: test_look_against.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, math, os, re, shutil, statistics, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER
from test_look import CHART_JS, CHROMIUM, Look

COVERAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/bench/coverage")
T = {5: 2.776445}  # pairs: 97.5% quantile of Student's distribution


class Against(Look):
    def write_algorithms(self, finals, **options):
        """finals: {algorithm: [accuracy of seed 1, of seed 2, ...]}."""
        for algorithm, values in finals.items():
            for seed, value in enumerate(values, 1):
                self.write_run(f"sweep/{algorithm.replace(' ', '-')}-{seed}", [0.5, value], algorithm=algorithm, seed=seed, **options)

    def rows(self, *arguments):
        return json.loads(self.sounder("runs", "sweep", *arguments, "--format", "json"))

    def test_runs_of_one_seed_are_pairs_and_their_differences_have_students_interval(self):
        finals = {"fedavg": [0.70, 0.60, 0.50, 0.65, 0.55], "scaffold": [0.75, 0.66, 0.54, 0.71, 0.60], "fedprox mu=0.1": [0.69, 0.62, 0.50, 0.66, 0.53]}
        self.write_algorithms(finals)
        rows = {row["algorithm"]: row for row in self.rows("--against", "fedavg")}
        self.assertEqual(set(rows), {"scaffold", "fedprox mu=0.1"})
        for algorithm, row in rows.items():
            differences = [100 * (b - a) for a, b in zip(finals["fedavg"], finals[algorithm])]
            mean, reach = statistics.mean(differences), T[5] * statistics.stdev(differences) / math.sqrt(5)
            for key, value in (("difference", mean), ("difference_low", mean - reach), ("difference_high", mean + reach)):
                self.assertAlmostEqual(row[key], value, places=5)
        self.assertEqual((rows["scaffold"]["verdict"], rows["scaffold"]["pairs"], rows["scaffold"]["sign_test_p"]), ("better", 5, 0.0625))
        self.assertEqual((rows["fedprox mu=0.1"]["verdict"], rows["fedprox mu=0.1"]["sign_test_p"]), ("not distinguishable", 1))
        told = self.sounder("runs", "sweep", "--against", "scaffold")  # the same, seen from the other side
        self.assertRegex(told, r"\nfedavg +5 +-5\.20 +-6\.24 +-4\.16 +0\.062 +worse\n")
        self.assertIn("minus that of algorithm scaffold with the same seed; 95%: Student's interval", told)

    def test_a_lower_loss_is_better(self):
        self.write_algorithms({"fedavg": [0.5] * 3, "scaffold": [0.5] * 3})
        for seed in (1, 2, 3):
            path = self.path(f"sweep/scaffold-{seed}/metrics.jsonl")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace('"test_loss":0.5', f'"test_loss":0.{40 + seed}'))
        for algorithm in ("fedavg", "scaffold"):
            for seed in (1, 2, 3):
                path = self.path(f"sweep/{algorithm}-{seed}/metrics.jsonl")
                with open(path) as file:
                    text = file.read()
                with open(path, "w") as file:
                    file.write(text.replace('"type":"start"', '"type":"start","figure":"test_loss"'))
        (row,) = self.rows("--against", "fedavg")
        self.assertEqual(row["verdict"], "better")
        self.assertAlmostEqual(row["difference"], -0.08)

    def test_too_few_seeds_are_said_in_one_sentence_instead_of_figures(self):
        self.write_algorithms({"fedavg": [0.5, 0.6], "scaffold": [0.6, 0.7, 0.8], "ditto": [0.5]})
        self.assertEqual(self.sounder("runs", "sweep", "--against", "fedavg"),
                         "too few seeds in common with algorithm fedavg for an interval, which needs 3 (such as --seed 1..3): ditto (1); scaffold (2)\n")
        for row in self.rows("--against", "fedavg"):
            self.assertEqual((row["verdict"], row.get("difference")), ("too few seeds", None))

    def test_groups_are_compared_where_all_other_options_are_the_same(self):
        for alpha, gain in (("0.1", 0.1), ("10", 0.0)):
            for seed in (1, 2, 3):
                self.write_run(f"sweep/a-{alpha}-{seed}", [0.5 + 0.01 * seed], algorithm="fedavg", partition="dirichlet", alpha=alpha, seed=seed)
                self.write_run(f"sweep/b-{alpha}-{seed}", [0.5 + 0.01 * seed + gain], algorithm="scaffold", partition="dirichlet", alpha=alpha, seed=seed)
        self.assertEqual([(row["alpha"], row["algorithm"], row["verdict"]) for row in self.rows("--against", "fedavg")],
                         [(0.1, "scaffold", "better"), (10, "scaffold", "equal")])
        self.assertEqual({(row["algorithm"], row["alpha"], row["verdict"]) for row in self.rows("--against", "alpha=0.10")},
                         {("fedavg", 10, "equal"), ("scaffold", 10, "worse")})

    def test_by_leaves_out_what_was_tuned_for_each_algorithm(self):
        for algorithm, lr in (("fedavg", "0.1"), ("scaffold", "0.01")):
            for seed in (1, 2, 3):
                self.write_run(f"sweep/{algorithm}-{seed}", [0.5 + (lr == "0.01") * 0.1 + 0.01 * seed], algorithm=algorithm, lr=lr, seed=seed)
        self.assertEqual({row["verdict"] for row in self.rows("--against", "fedavg")}, {"too few seeds"})
        (row,) = self.rows("--against", "fedavg", "--by", "algorithm")
        self.assertEqual((row["pairs"], row["verdict"]), (3, "better"))

    def test_runs_of_other_data_are_no_pairs_and_a_copy_counts_once(self):
        self.write_algorithms({"fedavg": [0.5, 0.6, 0.7], "scaffold": [0.6, 0.7, 0.8]})
        def begin(name, data, model):
            path = self.path(name, "metrics.jsonl")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace('"type":"start"', f'"type":"start","data_xxh3":"{data}"').replace('"type":"summary"', f'"type":"summary","model_sha256":"{model}"'))
        for name in os.listdir(self.path("sweep")):
            begin(f"sweep/{name}", "0123456789abcdef", name)
        (row,) = self.rows("--against", "fedavg")
        self.assertEqual((row["pairs"], "data_xxh3" in row), (3, False))
        shutil.copytree(self.path("sweep"), self.path("backup"))
        told = self.sounder("runs", "sweep", "backup", "--against", "fedavg")
        self.assertRegex(told, r"\nscaffold +3 ")
        self.assertIn("left out: 6 runs, each of which is another one again\n", told)
        told = self.sounder("runs", "sweep", "backup", "--by", "algorithm")
        self.assertRegex(told, r"\nfedavg +3 +2 +60\.00 ± 10\.00 ")
        self.assertIn("left out: 6 runs, each of which is another one again\n", told)
        self.assertRegex(self.sounder("report", "sweep", "backup", "--svg", "charts"), r"(?s)left out: 6 runs, each of which is another one again\n")
        for seed in (1, 2, 3):
            path = self.path(f"sweep/scaffold-{seed}/metrics.jsonl")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace("0123456789abcdef", "123456789abcdef0"))
        told = self.sounder("runs", "sweep", "--against", "fedavg")
        self.assertIn("which needs 3 (such as --seed 1..3): 123456, scaffold (0)\n", told)
        self.assertIn("data_xxh3: the data set is not the same in all runs; runs that differ in it are no pairs\nleft out: 3 pairs of runs with other inputs\n", told)
        rows = json.loads(self.sounder("runs", "sweep", "--by", "model", "--format", "json"))
        self.assertEqual([(row["data_xxh3"], row["runs"], row["accuracy_percent"]) for row in rows], [("012345", 3, 60), ("123456", 3, 70)])

    def test_show_names_another_figure_to_compare(self):
        self.write_algorithms({"fedavg": [0.5] * 3, "scaffold": [0.6] * 3})
        (row,) = self.rows("--against", "fedavg", "--show", "test_loss")
        self.assertEqual((row["difference"], row["verdict"]), (0, "equal"))
        (row,) = self.rows("--against", "fedavg", "--show", "accuracy_percent")
        self.assertEqual(row["verdict"], "higher")  # nothing says that more of it is better
        self.assertIn("one figure", self.sounder("runs", "sweep", "--against", "fedavg", "--show", "rounds,seconds", code=os.EX_USAGE))

    def test_what_cannot_be_compared_is_refused_with_what_can(self):
        self.write_algorithms({"fedavg": [0.5] * 3, "scaffold": [0.6] * 3})
        refusal = lambda *arguments: self.sounder("runs", *arguments, code=os.EX_USAGE)
        self.assertIn("--against fedavgg: no run has this value; the runs differ in algorithm (fedavg, scaffold)\n", refusal("sweep", "--against", "fedavgg"))
        self.assertIn("do not differ, except in their seeds", refusal("sweep/fedavg-1", "sweep/fedavg-2", "--against", "fedavg"))
        shutil.copytree(self.path("sweep/scaffold-2"), self.path("twin"))
        self.assertRegex(refusal("sweep", "twin", "--against", "fedavg"), "sweep/scaffold-2 and twin have one seed, 2, .* give one")
        for seed in (1, 2):
            self.write_run(f"two/{seed}", [0.5], lr="0.1", partition="dirichlet", alpha="0.1", seed=seed)
            self.write_run(f"two/{seed}b", [0.5], lr="0.2", partition="dirichlet", alpha="0.2", seed=seed)
        self.assertIn("is a value of alpha and of lr; write --against alpha=0.1\n", refusal("two", "--against", "0.1"))

    def test_the_name_of_a_metric_in_a_record_does_not_control_the_terminal(self):
        self.write_algorithms({"fedavg": [0.5] * 3, "scaffold": [0.6] * 3})
        for folder in os.listdir(self.path("sweep")):
            path = self.path("sweep", folder, "metrics.jsonl")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace('"type":"start"', '"type":"start","figure":"test_metrics.\\u001b[31mred"').replace('"test_loss":', '"test_metrics":{"\\u001b[31mred":2.0},"test_loss":'))
        told = self.sounder("runs", "sweep", "--against", "fedavg")
        self.assertIn("difference: ?[31mred in the end", told)
        self.assertNotIn("\x1b", told)

    def test_runs_without_the_figure_and_unfinished_runs_are_left_out_and_counted(self):
        self.write_algorithms({"fedavg": [0.5, 0.5, 0.5, 0.5], "scaffold": [0.6, 0.7, 0.6, 0.6]})
        self.write_run("sweep/cut", [0.9], finished=False, algorithm="scaffold", seed=5)
        path = self.path("sweep/scaffold-4/metrics.jsonl")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace('"test_accuracy":0.6', '"test_accuracy":null').replace('"test_accuracy":0.5', '"test_accuracy":null'))
        told = self.sounder("runs", "sweep", "--against", "fedavg")
        self.assertRegex(told, r"\nscaffold +3 ")
        self.assertIn("left out: 1 pair in which a run has no number for accuracy %\nleft out: 1 run, which is not finished\n", told)

    def test_a_sweep_ends_with_the_comparison_and_names_the_command_for_it(self):
        base = ["--data", "synthetic:1x8x8:400:100", "--model", "softmax", "--clients", "4", "--rounds", "1", "--algorithm", "fedavg,fedprox", "--workers", "1"]
        told = self.sounder("sweep", *base, "--seed", "1..3", "--out", "s")
        self.assertIn("\nlook: sounder report s    sounder runs s --by algorithm    sounder runs s --against fedavg\n", told)
        table = self.sounder("runs", "s", "--against", "fedavg")
        self.assertRegex(table, r"\nfedprox +3 +-?\d")
        self.assertIn(table, self.sounder("sweep", *base, "--seed", "1..3", "--out", "s", "--against", "fedavg"))
        self.assertIn("\ntoo few seeds in common with algorithm fedavg", self.sounder("sweep", *base, "--seed", "1..2", "--out", "two", "--against", "algorithm=fedavg"))

    def test_a_sweep_that_cannot_compare_says_so_before_it_runs(self):
        base = ["sweep", "--data", "synthetic:1x8x8:400:100", "--partition", "dirichlet", "--alpha", "0.1,1", "--lr", "0.1,1", "--seed", "1..3", "--out", "s"]
        for words, said in ((["0.1"], "is a value of alpha and of lr; write --against alpha=0.1"), (["0.5"], "is no value of an option with several values"),
                            (["1..3"], "is no value of"), (["alpha=1", "--search", "halving"], "does not go with --search halving")):
            self.assertIn(f"--against {words[0]}: {said}" if len(words) == 1 else said, self.sounder(*base, "--against", *words, code=os.EX_USAGE))
        self.assertFalse(os.path.exists(self.path("s")))

    @unittest.skipUnless(os.path.exists(CHART_JS), "Chart.js is not installed")
    def test_the_report_has_the_comparison_below_its_table(self):
        self.write_algorithms({"fedavg": [0.5, 0.6, 0.7], "scaffold": [0.61, 0.72, 0.8]}, data="synthetic:1x8x8:400:100", clients=4)
        self.sounder("report", "sweep", "--against", "fedavg")
        with open(self.path("sweep/report.html")) as file:
            page = file.read()
        of = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S).group(1))["against"]
        self.assertEqual([row[:3] for row in of["rows"]], [["scaffold", "3", "11.00"]])
        self.assertIn("Student's interval", of["notes"])
        self.assertIn("--against 0.5: no run has this value", self.sounder("report", "sweep", "--against", "0.5", code=os.EX_USAGE))
        if not CHROMIUM:
            return
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.path('chromium')}", "--dump-dom",
                               f"file://{self.path('sweep/report.html')}"], text=True, timeout=DEADLINE, capture_output=True)
        self.assertRegex(done.stdout, r'<table id="against">.*<td[^>]*>11\.00</td>.*</table>')
        self.assertRegex(done.stdout, r'<p id="against-notes"[^>]*>difference: accuracy %')

    def test_the_script_of_the_intervals_coverage_tells_its_share(self):
        done = subprocess.run([sys.executable, COVERAGE, SOUNDER, "--runs", "12", "--repetitions", "20", "--pairs", "3"], text=True, timeout=DEADLINE,
                              capture_output=True)
        share = float(re.match(r"20 repetitions of 3 pairs from 12 runs: ([\d.]+)% of the intervals hold 0; 0.0% of the sign tests", done.stdout)[1])
        self.assertEqual(done.returncode, not 93 <= share <= 97, done.stderr)
        self.assertGreater(share, 50)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
