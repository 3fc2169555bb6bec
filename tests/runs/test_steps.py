"""How clients step, in whole runs: learning rates by round, optimizers, clipped gradients.

Usage: test_steps.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import math, os, struct, subprocess, unittest

from runs import DEADLINE, SOUNDER, RunCase, merged
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

ON_CARD = "emulated" in os.path.basename(SOUNDER)
SMALL = ["--data", "synthetic:1x8x8:240:60", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--quiet",
         "--device", "cuda" if ON_CARD else "cpu"]
ALGORITHMS = {"fedavg": ["--clients", "4"], "fednova": ["--clients", "4", "--partition", "dirichlet"],
              "ssgd": ["--clients", "2"], "hogwild": ["--workers", "1"]}
SCHEDULES = {
    "step every=2 gamma=0.5": lambda t: 0.1 * 0.5 ** (t // 2),
    "exponential gamma=0.8": lambda t: 0.1 * 0.8 ** t,
    "cosine minimum=0.02": lambda t: 0.02 + 0.08 * (1 + math.cos(math.pi * t / 4)) / 2,
}


class Schedules(RunCase):
    def rates(self, run):
        return [entry["lr"] for entry in self.rounds(run)]

    def run_it(self, run, algorithm, *options):
        workers = [] if algorithm == "hogwild" else ["--workers", "2"]
        self.train(*SMALL, "--algorithm", algorithm, *ALGORITHMS[algorithm], *workers, "--lr", "0.1", *options, "--out", run)

    def test_every_algorithm_follows_the_schedule_and_says_so_in_its_record(self):
        for algorithm in ALGORITHMS:
            for kind, formula in SCHEDULES.items():
                with self.subTest(algorithm=algorithm, schedule=kind):
                    run = f"{algorithm}-{kind}"
                    self.run_it(run, algorithm, "--rounds", "4", "--lr-schedule", kind)
                    for t, rate in enumerate(self.rates(run)):
                        self.assertAlmostEqual(rate, formula(t), places=7)

    def test_a_rate_that_falls_to_nothing_leaves_the_model_as_it_is(self):
        for algorithm in ("fedavg", "scaffold", "fednova", "local prox mu=0.1; combine nova", "qfedavg"):
            with self.subTest(algorithm):
                self.train(*SMALL, "--algorithm", algorithm, "--clients", "4", "--workers", "2", "--lr", "0.1", "--rounds", "7",
                           "--lr-schedule", "exponential gamma=1e-9", "--out", algorithm)
                self.assertEqual(self.rates(algorithm)[-1], 0)
                bits = self.bits(algorithm)
                self.assertEqual(bits[-3:], [bits[-1]] * 3)

    def test_an_error_names_the_rate_of_its_round(self):
        _, err = self.train(*SMALL, "--algorithm", "fedavg", "--clients", "4", "--workers", "2", "--lr", "1000", "--weight-decay", "1", "--warm-up", "2",
                            "--rounds", "4", "--out", "run", code=70)
        self.assertIn("round 1: the updates of all clients were refused as not finite or too large; lower --lr (now 500), or scale the data", err)

    def test_a_share_that_is_no_number_ends_the_run_and_names_what_makes_it(self):
        _, err = self.train("--data", "quadratics a=1,4 b=1e5,9e5", "--model", "linear 1", "--algorithm", "qfedavg q=100", "--clients", "2",
                            "--workers", "1", "--rounds", "1", "--lr", "1e-6", "--quiet", "--out", "run", code=70)
        self.assertRegex(err, r"round 1: what client \d counts by its loss of [0-9.e+]+ is no number; lower q of combine qffl, or --lr")

    def test_a_schedule_that_changes_nothing_has_the_bits_of_a_constant_rate(self):
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm):
                models = set()
                for number, options in enumerate(([], ["--lr-schedule", "exponential gamma=1", "--warm-up", "0"],
                                                  ["--lr-schedule", "step every=1 gamma=1"])):
                    self.run_it(f"{algorithm}-{number}", algorithm, "--rounds", "2", *options)
                    models.add(self.model(f"{algorithm}-{number}"))
                self.assertEqual(len(models), 1)

    def test_a_round_of_a_schedule_is_a_round_with_that_rate(self):
        """Half the rate in the one round of a warm-up of two; the weights move as with half the rate."""
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm):
                self.run_it(algorithm + "-warm", algorithm, "--rounds", "1", "--warm-up", "2")
                self.train(*SMALL, "--algorithm", algorithm, *ALGORITHMS[algorithm], "--lr", "0.05", "--rounds", "1", "--out",
                           algorithm + "-half", *([] if algorithm == "hogwild" else ["--workers", "1"]))
                self.assertEqual(self.weights(algorithm + "-warm"), self.weights(algorithm + "-half"))

    def weights(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            blob = file.read()
        return blob[8 + struct.unpack("<Q", blob[:8])[0]:]

    def test_resume_continues_the_schedule_to_the_same_bits(self):
        for algorithm in ("fedavg", "hogwild", "ssgd"):
            for kind in SCHEDULES:
                with self.subTest(algorithm=algorithm, schedule=kind):
                    end = " rounds=4" if "cosine" in kind else ""
                    options = ["--lr-schedule", kind + end, "--warm-up", "1"]
                    whole, parts = f"{algorithm}-{kind}-whole", f"{algorithm}-{kind}-parts"
                    self.run_it(whole, algorithm, "--rounds", "4", *options)
                    self.run_it(parts, algorithm, "--rounds", "2", *options)
                    self.train("--resume", parts, "--rounds", "4", "--quiet")
                    self.assertEqual(self.model(parts), self.model(whole))
                    self.assertEqual(self.rates(parts), self.rates(whole))

    def test_a_cosine_has_an_end_that_a_resumed_run_cannot_move(self):
        self.run_it("run", "fedavg", "--lr-schedule", "cosine", "--rounds", "2")
        _, err = self.train("--resume", "run", "--rounds", "3", "--quiet", code=64)
        self.assertIn("--rounds 3: the cosine of the learning rate ends with round 2; lower that or begin a run with more "
                      "rounds= in --lr-schedule", err)
        _, err = self.train(*SMALL, "--lr-schedule", "cosine minimum=0.5", "--out", "no", code=64)
        self.assertIn("--lr-schedule: cosine: minimum=0.5: above --lr, which is 0.01; lower it", err)

    @unittest.skipIf(ON_CARD, "nodes are the business of the CPU's runs")
    def test_two_nodes_have_the_rates_of_one(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                options = [*SMALL, "--algorithm", algorithm, *ALGORITHMS[algorithm], "--workers", "1", "--rounds", "3",
                           "--lr-schedule", "cosine", "--warm-up", "1"]
                self.train(*options, "--out", algorithm)
                self.nodes(*options, "--out", algorithm + "-nodes")
                self.assertEqual(self.model(algorithm + "-nodes"), self.model(algorithm))
                self.assertEqual(self.rates(algorithm + "-nodes"), self.rates(algorithm))

    def nodes(self, *arguments):
        result = subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *merged(*arguments)], cwd=self.folder.name, text=True,
                                capture_output=True, env=ENVIRONMENT, timeout=DEADLINE)
        self.assertEqual(result.returncode, 0, result.stderr)


class Optimizers(RunCase):
    OPTIMIZERS = ("sgd nesterov=yes", "adam", "adamw beta1=0.8 beta2=0.99 eps=1e-6")

    def run_it(self, run, algorithm, *options):
        momentum = ["--momentum", "0.5"] if "optimizer sgd" in algorithm else []
        self.train(*SMALL, "--clients", "4", "--partition", "dirichlet", "--rounds", "2", "--algorithm", algorithm, *momentum, *options, "--out", run)
        return self.model(run)

    def test_bits_depend_neither_on_workers_nor_on_nodes_nor_on_resuming(self):
        for number, optimizer in enumerate(self.OPTIMIZERS):
            with self.subTest(optimizer):
                algorithm, clip, run = f"fedprox; optimizer {optimizer}", ["--clip-grad-norm", "0.5"], str(number)
                expected = self.run_it(run, algorithm, *clip, "--workers", "1")
                self.assertEqual(self.run_it(run + "-3", algorithm, *clip, "--workers", "3"), expected)
                self.run_it(run + "-parts", algorithm, *clip, "--rounds", "1")
                self.train("--resume", run + "-parts", "--rounds", "2", "--quiet")
                self.assertEqual(self.model(run + "-parts"), expected)

    def test_numbers_of_an_optimizer_make_a_difference(self):
        models = [self.run_it(str(number), f"optimizer {optimizer}", *more) for number, (optimizer, more) in enumerate((
            ("sgd", []), ("sgd nesterov=yes", []), ("adam", []), ("adam beta1=0.5", []), ("adam beta2=0.5", []), ("adam eps=0.1", []),
            ("adam", ["--weight-decay", "0.01"]), ("adamw", []), ("adamw", ["--weight-decay", "0"]), ("sgd", ["--clip-grad-norm", "0.1"]),
            ("adam", ["--clip-grad-norm", "0.1"])))]
        self.assertEqual(len(set(models)), len(models) - 1)
        self.assertEqual(models[2], models[8])  # without decay AdamW is Adam
        self.assertEqual(self.run_it("same", "optimizer adamw", "--weight-decay", "0.01"), models[7])  # its default

    def test_hogwild_clips_too(self):
        plain = ["--algorithm", "hogwild", "--workers", "1", "--rounds", "1"]
        for run, options in (("plain", []), ("clipped", ["--clip-grad-norm", "0.1"]), ("wide", ["--clip-grad-norm", "1000"])):
            self.train(*SMALL, *plain, *options, "--out", run)
        self.assertEqual(self.model("plain"), self.model("wide"))
        self.assertNotEqual(self.model("plain"), self.model("clipped"))


class Refusals(RunCase):
    def test_what_nothing_would_read_is_refused_with_both_sides(self):
        for algorithm, options, sentence in (
                ("optimizer adam", ["--momentum", "0.9"], "--momentum 0.9: only used with optimizer sgd in --algorithm"),
                ("ssgd", ["--clip-grad-norm", "1"], "--clip-grad-norm 1: only used with another --algorithm than ssgd"),
                ("ssgd; optimizer sgd nesterov=yes", [], "schedule lockstep does not go with optimizer sgd: nesterov=yes"),
                ("hogwild; optimizer adam", [], "schedule wild does not go with optimizer adam"),
                ("scaffold; optimizer adam", [], "local scaffold does not go with optimizer adam"),
                ("fednova; optimizer adamw", [], "combine nova does not go with optimizer adamw")):
            with self.subTest(algorithm):
                _, err = self.train(*SMALL, "--clients", "2", "--algorithm", algorithm, *options, "--out", "no", code=64)
                self.assertIn(sentence, err)

    @unittest.skipUnless(ON_CARD, "of the card")
    def test_the_card_names_what_it_cannot_do(self):
        for options, sentence in ((["--algorithm", "easgd"], "local elastic of --algorithm is for the CPU alone"),
                                  (["--algorithm", "hogwild steps=2"], "schedule wild of --algorithm with steps or a bound is for the CPU alone")):
            _, err = self.train(*SMALL, "--clients", "2", *options, "--out", "no", code=64)
            self.assertIn(sentence, err)


if __name__ == "__main__":
    unittest.main(argv=["test_steps.py"] + __import__("sys").argv[2:], verbosity=2)
