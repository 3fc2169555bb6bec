"""Steps that hide each sample (--dp-sgd): epsilon, the same bits for any workers, and what does not go with them. test_references.py has
the steps themselves.

Usage: test_dp_sgd.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, re, signal, statistics, sys, unittest

from runs import RunCase, children_of

DATA = ["--data", "synthetic:1x8x8:600:100", "--model", "linear 16; relu; linear classes", "--clients", "6", "--device", "cpu"]
UNEVEN = [*DATA, "--partition", "size sizes=10,40,50,100,150,250", "--batch-size", "20", "--local-epochs", "2", "--lr", "0.2"]
PRIVATE = ["--dp-sgd", "clip=1 noise=1.1"]


class DpSgd(RunCase):
    def spent(self, samples, steps, noise=1.1, batch=20, delta="1e-5"):
        told, _ = self.call("privacy", "--sampling-rate", str(min(1, batch / samples)), "--rounds", str(steps), "--noise", str(noise), "--delta", delta)
        return float(re.match(r"epsilon ([0-9.e+]+) at", told)[1])

    def test_epsilon_is_that_of_the_client_that_has_spent_most(self):
        out, _ = self.train(*UNEVEN, *PRIVATE, "--clients-per-round", "2", "--rounds", "8", "--workers", "2", "--out", "run")
        self.assertIn("epsilon of samples is told at delta 1e-05, between data sets in which one sample of a client joins or leaves\n", out)
        sizes, steps = [10, 40, 50, 100, 150, 250], [0] * 6
        clients = [line for line in self.metrics("run") if line["type"] == "client"]
        for line in self.rounds("run"):
            for client in [each["client"] for each in clients if each["round"] == line["round"]]:
                steps[client] += 2 * -(-sizes[client] // 20)
            worst = max(self.spent(size, count) for size, count in zip(sizes, steps) if count)
            self.assertAlmostEqual(line["sample_epsilon"], worst, delta=1e-5 * worst)
            self.assertIn(f"epsilon of samples {worst:.3g}", out)
        self.assertEqual(line["sample_delta"], 1e-5)
        # Batches have as many samples as --batch-size in the mean.
        drawn = [line["samples"] / 2 / sizes[line["client"]] for line in clients if line["client"] > 0]
        self.assertAlmostEqual(statistics.mean(drawn), 1, delta=0.15)
        self.assertGreater(len(set(drawn)), 3)

    def test_the_value_of_opacus_and_of_the_tutorials(self):
        """1% of the samples a step, noise 1.1: Opacus' accountant says 5.632 after 10,000 steps."""
        self.train("--data", "synthetic:1x2x2:1000:20", "--model", "linear classes", "--clients", "1", "--workers", "1", "--device", "cpu", "--batch-size", "10",
                   "--local-epochs", "100", "--rounds", "1", *PRIVATE, "--quiet", "--out", "run")
        self.assertAlmostEqual(self.rounds("run")[0]["sample_epsilon"], 5.63199, delta=1e-5)

    def test_noise_has_its_deviation(self):
        run = ["--data", "synthetic:1x28x28:40:10", "--model", "linear classes", "--clients", "1", "--workers", "1", "--device", "cpu", "--batch-size", "40",
               "--lr", "1", "--rounds", "1", "--inspect-updates", "--quiet"]
        lengths = {}
        for noise in (0, 3, 50):
            self.train(*run, "--dp-sgd", f"clip=0.01 noise={noise}", "--out", str(noise))
            lengths[noise] = [line for line in self.metrics(str(noise)) if line["type"] == "client"][0]["update_length"]
        self.assertLessEqual(lengths[0], 0.01 + 1e-6)
        for noise in (3, 50):  # 7,850 weights
            self.assertAlmostEqual(lengths[noise] / (0.01 * noise / 40 * 7850 ** 0.5), 1, delta=0.04)
        self.assertIsNone(self.rounds("0")[0]["sample_epsilon"])

    def test_bits_are_those_of_any_workers_and_of_a_resumed_and_a_wounded_run(self):
        private = [*UNEVEN, *PRIVATE, "--clients-per-round", "4", "--momentum", "0.5", "--model", "linear 16; dropout 0.5; relu; linear classes", "--quiet"]
        self.train(*private, "--rounds", "6", "--workers", "1", "--out", "whole")
        for workers in ("2", "3"):
            self.train(*private, "--rounds", "6", "--workers", workers, "--out", workers)
            self.assertEqual(self.bits(workers), self.bits("whole"))
        self.train(*private, "--rounds", "3", "--workers", "2", "--out", "part")
        self.train("--resume", "part", "--rounds", "6", "--quiet")
        self.assertEqual(self.model("part"), self.model("whole"))
        told = lambda run: [line["sample_epsilon"] for line in self.rounds(run)]
        self.assertEqual(told("part"), told("whole"))
        process = self.start(*private, "--rounds", "300", "--workers", "3", "--on-worker-death", "respawn", "--out", "wounded")
        self.wait_for_round("wounded", 1)
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        self.wait_for_deaths("wounded", 1)
        self.wait_for_round("wounded", 6)
        self.stop(process)
        self.assertEqual(self.bits("wounded")[:6], self.bits("whole"))
        self.train("--resume", "wounded", "--rounds", str(len(self.rounds("wounded")) + 1), "--quiet")
        _, err = self.train("--resume", "part", "--dp-sgd", "clip=1 noise=2", "--rounds", "7", code=64)
        self.assertIn("--dp-sgd", err)
        self.call("replay", "whole", "--round", "2", "--client", str([line for line in self.metrics("whole") if line["type"] == "client" and line["round"] == 2][0]["client"]))

    def test_a_round_whose_step_draws_no_sample_says_so_and_still_moves_the_model(self):
        options = [*DATA, *PRIVATE, "--algorithm", "local-sgd steps=1", "--batch-size", "1", "--clients-per-round", "1", "--rounds", "8"]
        out, _ = self.train(*options, "--out", "empty")
        empty = [line["round"] for line in self.rounds("empty") if line["samples"] == 0]
        self.assertTrue(empty)
        self.assertEqual(out.count("no sample was drawn"), len(empty))
        self.assertNotIn("nobody arrived", out)
        self.assertEqual(len(set(self.bits("empty"))), 8)

    def test_frozen_tensors_get_no_noise(self):
        self.train(*UNEVEN, *PRIVATE, "--freeze", "fc1*", "--rounds", "2", "--quiet", "--out", "frozen")
        hashes = [line["tensors_xxh3"] for line in self.rounds("frozen")]
        self.assertEqual(hashes[0]["fc1.weight"], hashes[1]["fc1.weight"])
        self.assertNotEqual(hashes[0]["fc2.weight"], hashes[1]["fc2.weight"])

    def test_tables_sweeps_and_the_report_show_epsilon_without_asking(self):
        self.call("sweep", *UNEVEN, "--dp-sgd", "clip=1 noise={1,2}", "--dp-sgd", "none", "--rounds", "2", "--out", "sweep")
        rows = json.loads(self.call("runs", "sweep", "--format", "json")[0])
        found = {row["dp-sgd"]: row.get("sample_epsilon") for row in rows}
        self.assertIsNone(found.pop("none"))
        self.assertEqual(len(found), 2)
        values = [found[key] for key in sorted(found)]
        self.assertGreater(values[0], values[1])
        table, _ = self.call("runs", "sweep")
        self.assertIn("sample epsilon", table)
        self.call("report", "sweep")
        told = [run["rounds"].get("sample_epsilon", []) for run in self.data_of("sweep/report.html")["runs"]]
        self.assertEqual(sorted(len([value for value in of_run if value]) for of_run in told), [0, 2, 2])

    def test_what_does_not_go_with_it_is_refused(self):
        for options, sentence in (
                (["--model", "conv 4 3; batchnorm; relu; linear classes"], "a batchnorm mixes the samples of a batch; normalise with groupnorm"),
                (["--algorithm", "ditto"], "the second model makes steps that do not count"), (["--algorithm", "fedrep"], "the steps of the head do not count"), (["--algorithm", "fedbabu"], "the steps of the head do not count"),
                (["--algorithm", "ifca"], "the choice of a model by its loss is not private"), (["--algorithm", "qfedavg"], "losses of clients are not private"), (["--sampling", "power-of-choice"], "losses of clients are not private"),
                (["--algorithm", "scaffold option=I"], "its clients also hand on a gradient that is not private"),
                (["--class-weights", "balanced"], "the gradient of a sample alone has no weight"),
                (["--finetune-epochs", "1", "--eval-clients-every", "1"], "the steps of fine-tuning do not count"),
                (["--algorithm", "ssgd"], "only used with an --algorithm with rounds")):
            with self.subTest(options):
                _, err = self.train(*UNEVEN, *PRIVATE, *options, "--out", "refused", code=64)
                self.assertIn(sentence, err)
                self.assertEqual(err.count("\n"), 1, err)
        for text, sentence in (("clip=1", "--dp-sgd DP-SGD: needs its noise; write clip=X noise=X [delta=1e-05]"), ("clip=0 noise=1", "--dp-sgd clip=0: needs a number from 1e-09"), ("strong", "strong: no such form of DP-SGD"),
                               ("clip=0 noise=1", "clip=0: needs a number from 1e-09 to 1000000")):
            self.assertIn(sentence, self.train(*UNEVEN, "--dp-sgd", text, code=64)[1])

    def test_what_goes_with_it_trains(self):
        for number, options in enumerate((["--algorithm", "scaffold"], ["--algorithm", "fedper"], ["--algorithm", "fedbuff K=2"], ["--algorithm", "optimizer adam"],
                                          ["--algorithm", "dp-fedavg norm=0.5 noise=1"], ["--client-noise", "gaussian"], ["--drift", "pixels"],
                                          ["--attack", "backdoor", "--attackers", "0"], ["--random-crop", "1"], ["--algorithm", "fedprox"],
                                          ["--model", "conv 4 3; groupnorm 2; relu; linear classes"], ["--stragglers", "0.5 work=partial"])):
            with self.subTest(options):
                self.train(*UNEVEN, *PRIVATE, *options, "--rounds", "2", "--quiet", "--out", str(number))
                self.assertGreater(self.rounds(str(number))[-1]["sample_epsilon"], 1)


if __name__ == "__main__":
    unittest.main(argv=["test_dp_sgd.py"] + sys.argv[2:], verbosity=2)
