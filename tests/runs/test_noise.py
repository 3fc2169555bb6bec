"""The noise of private runs is used once: two runs that differ in an option share none, and with --noise-key system only the key, which is
in the checkpoints alone, removes it.

Usage: test_noise.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, shutil, stat, subprocess, sys, unittest

import numpy as np

from noise_streams import normals
from runs import NOISE_KEY, SOUNDER, RunCase, merged, parse_safetensors
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

RNG_DP_NOISE = 31
TASK = ["--data", "synthetic:1x8x8:160:40", "--model", "linear 150; relu; linear classes", "--clients", "8", "--rounds", "1", "--workers", "1", "--device", "cpu",
        "--seed", "7", "--quiet", "--tensorboard=false"]  # 11,260 weights
RULES = {"dp-fedavg noise=50 norm=0.1": [], "dp-ftrl noise=50 norm=0.1": ["--sampling", "cyclic"], "local-dp multiplier=50 norm=0.1": [],
         "fedavg": ["--dp-sgd", "clip=0.1 noise=50", "--batch-size", "20"]}
COHORT = ("clients_drawn", "clients_trained", "samples", "train_loss", "up_bytes", "down_bytes", "updates_clipped", "simulated_seconds")


class Noise(RunCase):
    def weights(self, run, *options):
        self.train(*merged(*TASK, *options), "--out", run)
        return self.flat(os.path.join(run, "model.safetensors"))

    def flat(self, *path):
        with open(self.path(*path), "rb") as file:
            blob = file.read()
        return np.frombuffer(blob[8 + int.from_bytes(blob[:8], "little"):], "<f4").astype(float)

    def notes(self, *path):
        with open(self.path(*path), "rb") as file:
            return parse_safetensors(file.read())[0]

    def told(self, run, kind, key):
        return [line.get(key) for line in self.metrics(run) if line["type"] == kind]

    def test_two_runs_that_differ_in_one_option_share_no_noise(self):
        """Their difference has the deviation of two noises, sqrt(2) of one; an option that changes nothing leaves all bits."""
        for number, (rule, more) in enumerate(RULES.items()):
            name = str(number)
            plain = [word.replace("=50", "=0") for word in ("--algorithm", rule, *more)]
            first = self.weights(name, "--algorithm", rule, *more)
            deviation = np.std(first - self.weights(name + "-plain", *plain))
            self.assertGreater(deviation, 5e-4, rule)
            for other, option in (("without", ["--without", "3"]), ("smooth", ["--label-smoothing", "0.001"])):
                with self.subTest(rule, option=option):
                    apart = np.std(first - self.weights(f"{name}-{other}", "--algorithm", rule, *more, *option))
                    # The mean of seven clients has more noise than that of eight: each one's own, or one for all.
                    more_noise = 1 if other == "smooth" else 8 / 7 if rule.startswith(("local-dp", "fedavg")) else 64 / 49
                    self.assertAlmostEqual(apart / deviation / (1 + more_noise) ** 0.5, 1, delta=0.02)
            np.testing.assert_array_equal(first, self.weights(name + "-same", "--algorithm", rule, *more, "--workers", "3", "--eval-every", "0"))
            self.assertNotIn("sounder.seed", self.notes(name, "model.safetensors"))
            self.assertNotIn("sounder.seed", self.notes(name, "checkpoints", "round-000001.safetensors"))
        self.train(*merged(*TASK, "--out", "open"))
        self.assertEqual(self.notes("open", "model.safetensors")["sounder.seed"], "7")

    def test_the_noise_is_that_of_the_data_and_the_noise_level_of_the_rounds_but_not_of_rounds_added_later(self):
        algorithm = ["--algorithm", "dp-fedavg norm=0.1 epsilon=1"]
        one = self.weights("one", *algorithm)
        self.weights("two", *algorithm, "--rounds", "2")
        noisier = [line["noise"] for run in ("one", "two") for line in self.rounds(run)][:2]
        self.assertLess(noisier[0], noisier[1])
        self.train(*merged(*TASK, *algorithm, "--rounds", "2", "--privacy-rounds", "4", "--out", "whole"))
        self.train(*merged(*TASK, *algorithm, "--privacy-rounds", "4", "--out", "part"))
        self.train("--resume", "part", "--rounds", "2", "--workers", "2", "--quiet")
        self.assertEqual(self.model("part"), self.model("whole"))
        other = self.weights("other", *algorithm, "--data", "synthetic:1x8x8:161:40")
        deviation = self.rounds("one")[0]["noise"] * 0.1 / 8
        self.assertAlmostEqual(np.std(one - other) / deviation / 2 ** 0.5, 1, delta=0.03)

    def test_the_noise_is_that_of_a_file_s_content_and_of_the_numbers_beside_its_name(self):
        for name, last in (("here.csv", 1), ("there.csv", 1), ("other.csv", 2)):
            with open(self.path(name), "w") as file:
                file.writelines(f"{client} {1 if client < 7 else last} 1 1\n" for client in range(8))
        drawn = {name: self.weights(str(number), "--algorithm", "local-dp", "--client-time", f"file noise={noise}:{name}")
                 for number, (name, noise) in enumerate([("here.csv", 0.5), ("there.csv", 0.5), ("other.csv", 0.5)])}
        np.testing.assert_array_equal(drawn["here.csv"], drawn["there.csv"])
        for other in (drawn["other.csv"], self.weights("noisier", "--algorithm", "local-dp", "--client-time", "file noise=0.6:here.csv")):
            self.assertGreater(np.abs(drawn["here.csv"] - other).max(), 1e-4)

    def test_who_has_the_key_removes_the_noise_and_who_has_all_but_the_key_does_not(self):
        algorithm = ["--algorithm", "dp-fedavg noise=50 norm=0.1"]
        plain = self.weights("plain", "--algorithm", "dp-fedavg noise=0 norm=0.1")
        deviation = 50 * 0.1 / 8
        noise = lambda key: deviation * normals(RNG_DP_NOISE, 1, 0, 0, plain.size, key)
        given = self.weights("given", *algorithm, "--noise-key", NOISE_KEY)
        self.assertLess(np.abs(given - plain - noise(NOISE_KEY)).max(), 1e-5)
        drawn = self.weights("drawn", *algorithm, "--noise-key", "system")
        again = self.weights("again", *algorithm, "--noise-key", "system")
        self.assertAlmostEqual(np.std(drawn - again) / deviation / 2 ** 0.5, 1, delta=0.02)  # the same options, seed and data
        self.assertIn("different from the start:\n  the noise: with --noise-key system each run draws its own\n", self.call("diff", "drawn", "again", code=1)[0])
        key = "".join(f"{int(word):016x}" for word in self.notes("drawn", "checkpoints", "round-000001.safetensors")["sounder.noise_key"].split())
        self.assertEqual(len(key), 64)
        self.assertLess(np.abs(drawn - plain - noise(key)).max(), 1e-5)
        for guess in (NOISE_KEY, f"{7:064x}", f"{int(key, 16) ^ 1:064x}", f"{int(key, 16) ^ 1 << 255:064x}"):
            self.assertGreater(np.std(drawn - plain - noise(guess)), 1.38 * deviation)
        # The key is in the checkpoints, which are the owner's alone, and in no other file.
        for folder, _, files in os.walk(self.path("drawn")):
            for file in files:
                with open(os.path.join(folder, file), "rb") as opened:
                    holds = self.notes("drawn", "checkpoints", "round-000001.safetensors")["sounder.noise_key"].split()[0].encode() in opened.read()
                self.assertEqual(holds, "checkpoints" in folder, file)
        for run in ("drawn", "given", "plain"):
            self.assertEqual(stat.S_IMODE(os.stat(self.path(run, "checkpoints", "round-000001.safetensors")).st_mode), 0o600)

    def test_a_secret_run_repeats_by_resume_with_any_workers_and_hides_its_draws(self):
        secret = ["--algorithm", "dp-fedavg noise=1", "--noise-key", "system", "--sampling", "poisson", "--clients-per-round", "4"]
        self.weights("run", *secret, "--rounds", "2")
        for workers in ("1", "2", "3"):
            shutil.copytree(self.path("run"), self.path("copy" + workers))
            self.train("--resume", "copy" + workers, "--rounds", "4", "--workers", workers, "--quiet")
        self.assertEqual(len({self.model("copy" + workers) for workers in "123"}), 1)
        open_run = [word for word in secret if word not in ("--noise-key", "system")]
        self.weights("open", *open_run, "--rounds", "2")
        self.assertEqual(self.told("run", "round", "epsilon"), self.told("open", "round", "epsilon"))
        self.assertEqual(self.told("run", "client", "client"), [])
        for key in COHORT:
            self.assertEqual(self.told("run", "round", key), [None, None], key)
            self.assertIsNotNone(self.told("open", "round", key)[0], key)
        _, err = self.call("replay", "run", "--round", "1", "--client", "1", code=64)
        self.assertIn("with --noise-key system the noise and the private draws of a round are secret", err)
        for file in os.listdir(self.path("copy1", "checkpoints")):
            os.remove(self.path("copy1", "checkpoints", file))
        _, err = self.train("--resume", "copy1", "--rounds", "5", code=66)
        self.assertIn("which alone had the key of its noise (--noise-key system); give another --out", err)
        _, err = self.train(*merged(*TASK, *secret, "--trace", "t.json", "--out", "no"), code=64)
        self.assertIn("--trace: says which clients were drawn", err)

    def test_the_batches_of_a_secret_run_are_hidden_and_its_cohorts_are_not(self):
        private = ["--dp-sgd", "clip=1 noise=1", "--batch-size", "5", "--noise-key", "system"]
        one, other = self.weights("one", *private, "--dp-sgd", "clip=1 noise=0"), self.weights("other", *private, "--dp-sgd", "clip=1 noise=0")
        self.assertGreater(np.abs(one - other).max(), 1e-4)  # without noise: other samples were drawn
        self.weights("run", *private)
        self.assertEqual(sorted(self.told("run", "client", "client")), list(range(8)))
        for key in ("loss", "samples"):
            self.assertEqual(set(self.told("run", "client", key)), {None})

    def test_two_nodes_have_the_noise_of_one(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        on_two = lambda *words: subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *words], cwd=self.folder.name, env=ENVIRONMENT, check=True,
                                               capture_output=True, timeout=120)
        for number, (rule, more) in enumerate([("dp-ftrl", ["--sampling", "cyclic"]), ("secagg", []), ("local-dp", []), ("fedavg", ["--dp-sgd", "clip=1 noise=1"])]):
            for key in ([], ["--noise-key", NOISE_KEY]):
                words = merged(*TASK, "--rounds", "2", "--algorithm", rule, *more, *key)
                self.train(*words, "--out", f"one{number}{len(key)}")
                on_two(*words, "--out", f"two{number}{len(key)}")
                self.assertEqual(self.model(f"two{number}{len(key)}"), self.model(f"one{number}{len(key)}"))
        # A key of the system is node 0's, and repeats from the checkpoint on any number of nodes.
        secret = ["--algorithm", "dp-fedavg noise=1", "--sampling", "poisson", "--clients-per-round", "4", "--noise-key", "system"]
        on_two(*merged(*TASK, *secret), "--out", "secret")
        shutil.copytree(self.path("secret"), self.path("copy"))
        on_two("--resume", "secret", "--rounds", "3", "--quiet")
        self.train("--resume", "copy", "--rounds", "3", "--workers", "2", "--quiet")
        self.assertEqual(self.model("secret"), self.model("copy"))
        self.assertEqual(self.told("secret", "client", "client"), [])

    def test_an_export_has_the_noise_of_its_run(self):
        for name, rule in (("cohorts", "dp-fedavg noise=50 norm=0.1"), ("updates", "local-dp multiplier=50 norm=0.1")):
            self.train(*merged(*TASK, "--algorithm", rule, "--rounds", "2", "--out", name))
            out, err = self.call("export", name, "--federation", name + "-files")
            self.assertEqual((out.count("the model of every round is the run's, to the bit"), err), (1, ""), name)
        self.train(*merged(*TASK, "--algorithm", "dp-fedavg", "--noise-key", "system", "--out", "secret"))
        _, err = self.call("export", "secret", "--federation", "no", code=64)
        self.assertIn("secret has no federation to export, because of --noise-key system", err)

    def test_the_screen_says_what_the_noise_repeats_from(self):
        spoken = [word for word in TASK if word != "--quiet"]
        for option, sentence in (([], "the noise repeats from --seed; to publish this model, train it with --noise-key system\n"),
                                 (["--noise-key", NOISE_KEY], "the noise repeats from --noise-key; to publish this model, train it with --noise-key system\n"),
                                 (["--noise-key", "system"], "the noise does not repeat: its key is in the checkpoints alone")):
            out, _ = self.train(*spoken, "--algorithm", "dp-fedavg", *option, "--out", str(len(sentence)))
            self.assertEqual((out.count("the noise "), out.count(sentence)), (1, 1))
            self.assertLess(out.index(sentence), out.index("epsilon ", out.index("round 1/1")))
        drawn = ["--algorithm", "dp-fedavg", "--sampling", "poisson", "--clients-per-round", "4"]
        for name, private in (("cohort", drawn), ("batch", ["--dp-sgd", "clip=1 noise=1"])):
            for key, said in (([], 1), (["--noise-key", "system"], 0)):  # what the record hides, the screen hides
                line = next(line for line in self.train(*spoken, *private, *key, "--out", f"{name}{said}")[0].splitlines() if line.startswith("round 1/1"))
                self.assertEqual((line.count("  loss "), line.count("/s  "), line.count("  test "), line.count("  epsilon ")), (said, said, 1, 1), line)
        out, _ = self.train(*spoken, "--algorithm", "local-dp", "--without", "2", "--out", "part")
        self.assertIn("epsilons add up: this model and one of a run with the clients --without 2 spend both\n", out)
        out, _ = self.train(*spoken, "--out", "open")
        self.assertNotIn("noise", out)
        for key in ("12", "SYSTEM", NOISE_KEY + "0"):
            _, err = self.train(*TASK, "--algorithm", "dp-fedavg", "--noise-key", key, "--out", "no", code=64)
            self.assertIn(f"--noise-key {key}: needs system, or 64 hexadecimal digits", err)
        _, err = self.train(*TASK, "--noise-key", "system", "--out", "no", code=64)
        self.assertIn("--noise-key", err)

    def test_tables_of_private_runs_say_that_epsilons_add_up(self):
        private = [word for word in TASK if word not in ("--quiet", "--seed", "7")]
        sentence = "epsilons add up: each of 2 runs has its own"
        for _ in range(2):  # what is done is not done again, whatever its key
            out, _ = self.call("sweep", *private, "--algorithm", "dp-fedavg", "--noise-key", "system", "--seed", "1,2", "--out", "sweep")
            self.assertEqual(out.count(sentence), 1)
        self.assertIn("2 of 2 runs are done", out)
        out, _ = self.call("runs", "sweep", "--by", "algorithm")
        self.assertIn(sentence, out)
        out, _ = self.call("sweep", *private, "--seed", "1,2", "--out", "open")
        self.assertNotIn("epsilon", out)
        out, _ = self.call("runs", "sweep", "open", "--against", "fedavg")
        self.assertIn(sentence, out)
        self.train(*merged(*TASK, "--algorithm", "dp-fedavg", "--clients", "3", "--out", "run"))
        out, _ = self.call("worth", "run", "--samples", "0", "--out", "worth")
        self.assertIn("epsilons add up: each of 3 runs spends that of run, and a table of all their values spends the sum\n", out)

    def test_a_sample_whose_gradient_is_not_finite_counts_as_0(self):
        """With it no update was accepted, which tells that the sample is there."""
        random = np.random.default_rng(2)
        x, y = random.normal(0, 1, (40, 6)).astype("f4"), random.integers(0, 3, 40)
        bad = x.copy()
        bad[7] = 3e38  # of client 0
        for name, samples in (("good", x), ("bad", bad)):
            np.savez(self.path(name + ".npz"), x_train=samples, y_train=y, x_test=x[:10], y_test=y[:10])
            self.train("--data", f"./{name}.npz", "--model", "linear 8; relu; linear classes", "--clients", "2", "--rounds", "2", "--workers", "1", "--batch-size", "20",
                       "--dp-sgd", "clip=1 noise=0", "--device", "cpu", "--quiet", "--out", name)
            self.assertEqual([line["updates_refused"] for line in self.rounds(name)], [0, 0])
        self.assertFalse(any(self.told("bad", "client", "refused")))
        self.assertLess(np.abs(self.flat("good", "model.safetensors") - self.flat("bad", "model.safetensors")).max(), 0.01)


if __name__ == "__main__":
    unittest.main(argv=["test_noise.py"] + sys.argv[2:], verbosity=2)
