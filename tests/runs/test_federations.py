"""Whole runs on made-up federations, whose results are known.

Usage: test_federations.py PATH_OF_SOUNDER [unittest arguments]; of the program on the emulated card, all of it on that
"""
import os, sys, unittest

from runs import SOUNDER, RunCase, parse_safetensors

DEVICE = ["--device", "cuda" if "emulated" in os.path.basename(SOUNDER) else "cpu"]

A, B, SAMPLES = (1.0, 4.0, 0.5), (0.0, 3.0, -2.0), (2, 4, 2)
QUADRATICS = ["--data", "quadratics a=1,4,0.5 b=0,3,-2 samples=2,4,2", "--model", "linear 1", "--batch-size", "64", "--lr", "0.1",
              "--momentum", "0", "--eval-every", "0", "--checkpoint-every", "0", *DEVICE]


class Federations(RunCase):
    def weight(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            tensors = parse_safetensors(file.read())[1]
        return tensors["fc1.weight"][1][0], tensors["fc1.bias"][1][0]

    def assert_ends_at(self, run, shares):
        weight, bias = self.weight(run)
        self.assertAlmostEqual(weight, sum(v * b for v, b in zip(shares, B)) / sum(shares), delta=1e-5)
        self.assertAlmostEqual(bias, 0, delta=1e-5)

    def test_fedavg_of_quadratics_ends_where_theory_says(self):
        steps = 5
        self.train(*QUADRATICS, "--local-epochs", str(steps), "--rounds", "300", "--workers", "2", "--out", "run")
        self.assert_ends_at("run", [n * (1 - (1 - 0.1 * a) ** steps) for n, a in zip(SAMPLES, A)])

    def test_one_local_step_and_ssgd_find_the_optimum_of_the_sum(self):
        self.train(*QUADRATICS, "--rounds", "300", "--workers", "1", "--out", "fedavg")
        self.train(*QUADRATICS, "--rounds", "300", "--workers", "3", "--algorithm", "ssgd", "--out", "ssgd")
        for run in ("fedavg", "ssgd"):
            self.assert_ends_at(run, [n * a for n, a in zip(SAMPLES, A)])

    def test_hogwild_with_one_worker_takes_quadratics_too(self):
        self.train(*QUADRATICS, "--rounds", "300", "--workers", "1", "--algorithm", "hogwild", "--out", "run")
        self.assert_ends_at("run", [n * a for n, a in zip(SAMPLES, A)])

    def test_clients_are_the_users_and_the_run_can_go_on(self):
        self.train(*QUADRATICS, "--rounds", "2", "--workers", "2", "--out", "part")
        self.train("--resume", "part", "--rounds", "4")
        self.train(*QUADRATICS, "--rounds", "4", "--workers", "1", "--out", "whole")
        self.assertEqual(self.model("part"), self.model("whole"))
        clients = {line["client"] for line in self.metrics("whole") if line["type"] == "client"}
        self.assertEqual(clients, {0, 1, 2})

    def test_fcube_is_learned_and_the_federations_of_the_papers_run(self):
        self.train(*DEVICE, "--data", "fcube", "--model", "linear 16; relu; linear 2", "--rounds", "20", "--lr", "0.1", "--workers", "2", "--out",
                   "cube")
        self.assertGreater(self.rounds("cube")[-1]["test_accuracy"], 0.95)
        for data, users in (("synthetic-fedprox alpha=1 beta=1", 30), ("synthetic-feddyn", 20), ("synthetic-leaf users=40", 40)):
            run = data.split()[0]
            self.train(*DEVICE, "--data", data, "--model", "softmax", "--rounds", "5", "--batch-size", "10", "--workers", "2", "--out", run)
            rounds = self.rounds(run)
            self.assertLess(rounds[-1]["train_loss"], rounds[0]["train_loss"])
            self.assertEqual(len({line["client"] for line in self.metrics(run) if line["type"] == "client"}), users)

    def test_what_does_not_fit_is_refused(self):
        _, err = self.train(*QUADRATICS, "--clients", "2", "--out", "run", code=64)
        self.assertIn("the data set has 3 users, and there are 2 clients", err)
        _, err = self.train(*QUADRATICS, "--partition", "dirichlet", "--out", "run", code=64)
        self.assertIn("deals by class, and the data set has targets", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
