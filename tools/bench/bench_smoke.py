"""Every micro-benchmark on tiny sizes: does it run, and do its figures parse and make sense? No timing is judged.

Usage: bench_smoke.py PATH_OF_SOUNDER_BENCH [unittest arguments]
"""
import json, os, subprocess, sys, unittest

SOUNDER_BENCH = os.path.abspath(sys.argv[1])
DATA = ["--data", "synthetic:1x28x28:200:100"]


def run(*words):
    return subprocess.run([SOUNDER_BENCH, *words], capture_output=True, text=True, timeout=100)


class Benchmarks(unittest.TestCase):
    def figures(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1)
        figures = json.loads(lines[0])
        self.assertEqual(figures["bench"], words[0])
        return figures

    def test_training_reports_a_rate_and_a_finite_loss_for_every_net(self):
        for model in "lenet", "softmax", "2nn", "cnn":
            figures = self.figures("train", *DATA, "--model", model, "--batch", "10", "--samples", "25")
            self.assertEqual((figures["model"], figures["batch"], figures["samples"]), (model, 10, 25))
            self.assertGreater(figures["samples_per_second"], 0)
            self.assertTrue(0 < figures["loss"] < 20)

    def test_training_learns(self):
        few = self.figures("train", *DATA, "--model", "2nn", "--batch", "200", "--samples", "200")
        many = self.figures("train", *DATA, "--model", "2nn", "--batch", "10", "--samples", "200")
        self.assertLess(many["loss"], few["loss"])

    def test_each_line_that_comes_in_is_answered_with_a_batch(self):
        result = subprocess.run([SOUNDER_BENCH, "train-asked", *DATA, "--model", "softmax", "--batch", "30"],
                                input="\n" * 20, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(answers), 20)
        self.assertTrue(all(answer["seconds"] > 0 for answer in answers))
        self.assertLess(answers[-1]["loss"], answers[0]["loss"])

    def test_builds_in_turn_are_compared_batch_by_batch(self):
        turns = os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns")
        result = subprocess.run([turns, "--turns", "3", *DATA, "--model", "softmax", SOUNDER_BENCH, SOUNDER_BENCH],
                                capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 3)
        refused = subprocess.run([turns, SOUNDER_BENCH, "nowhere"], capture_output=True, text=True, timeout=100)
        self.assertEqual(refused.returncode, 69)
        self.assertIn("nowhere", refused.stderr)

    def test_a_sample_count_beyond_the_data_set_is_cut_to_it(self):
        self.assertEqual(self.figures("train", *DATA, "--model", "softmax", "--samples", "1000")["samples"], 200)

    def test_evaluation_counts_hits_among_its_samples(self):
        figures = self.figures("evaluate", *DATA, "--samples", "90")
        self.assertEqual(figures["samples"], 90)
        self.assertTrue(0 <= figures["hits"] <= 90)

    def test_linear_reports_the_rates_of_three_products_computed_in_two_ways(self):
        sizes = ["--inputs", "70", "--outputs", "30", "--batch", "5", "--seconds", "0.01"]
        figures = self.figures("linear", *sizes)
        self.assertEqual((figures["inputs"], figures["outputs"], figures["samples"]), (70, 30, 5))
        self.assertTrue(figures["blas"].startswith("OpenBLAS "))
        for product in "forward", "input", "weight":
            for way in "own", "blas":
                self.assertGreater(figures[f"{product}_{way}_gflop_per_second"], 0)

    def test_server_rules_are_measured_beside_the_average_and_others_refused(self):
        for rule in "momentum", "adam", "yogi":
            figures = self.figures("server-rules", "--rule", rule, "--slots", "2", "--parameters", "1001", "--seconds", "0.01")
            self.assertEqual((figures["rule"], figures["slots"], figures["parameters"]), (rule, 2, 1001))
            self.assertAlmostEqual(figures["ratio"], figures["seconds"] / figures["average_seconds"], places=1)
        for rule in "scaffold", "adamm":
            result = run("server-rules", "--rule", rule)
            self.assertEqual(result.returncode, 64)
            self.assertIn(f"--rule {rule}: there is no such server rule", result.stderr)

    def test_averaging_reports_the_bytes_of_its_formula(self):
        for slots, parameters in (4, 2000), (3, 1001), (16, 5000):
            sizes = ["--slots", str(slots), "--parameters", str(parameters), "--seconds", "0.01"]
            figures = self.figures("averaging", *sizes)
            self.assertEqual(figures["bytes"], (8 * slots + 4 + 4) * parameters)
            self.assertAlmostEqual(figures["share"], figures["bound_seconds"] / figures["seconds"], places=2)

    def test_robust_rules_are_measured(self):
        for rows, parameters in (3, 100), (20, 3001):
            figures = self.figures("rows", "--slots", str(rows), "--parameters", str(parameters), "--seconds", "0.01")
            self.assertEqual((figures["rows"], figures["parameters"]), (rows, parameters))
            for figure in "median_values_per_second", "trimmed_values_per_second", "krum_seconds", "krum_over_blas":
                self.assertGreater(figures[figure], 0)

    def test_both_barriers_are_measured_for_few_and_for_many_ranks(self):
        for ranks in "2", "8":
            figures = self.figures("barrier", "--ranks", ranks, "--waits", "20")
            self.assertEqual(figures["ranks"], int(ranks))
            self.assertGreater(figures["nanoseconds"], 0)
            self.assertGreater(figures["pthread_nanoseconds"], 0)

    def test_groups_of_few_and_of_many_ranks_are_measured(self):
        for ranks in "2", "5":
            figures = self.figures("group", "--ranks", ranks, "--waits", "20", "--bytes", "100000")
            self.assertEqual((figures["ranks"], figures["bytes"]), (int(ranks), 100000))
            for kind in "all_reduce", "small_all_reduce", "one_way":
                self.assertGreater(figures[f"{kind}_microseconds"], 0)

    def test_what_it_cannot_do_is_refused_in_one_sentence(self):
        for words, named in [
            (["nonsense"], "nonsense: unknown benchmark"),
            (["train", "--batch", "0"], "--batch 0"),
            (["train", "--speed", "1"], "--speed: unknown option"),
            (["train", "--batch"], "--batch: needs a value"),
            (["averaging", "--slots", "1000"], "--slots 1000"),
            (["averaging", "--seconds", "nan"], "--seconds nan"),
            (["barrier", "--ranks", "1"], "--ranks 1"),
            (["rows", "--slots", "2"], "--slots 2"),
            (["group", "--ranks", "251"], "--ranks 251"),
        ]:
            result = run(*words)
            self.assertEqual(result.returncode, 64, words)
            self.assertIn(named, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
