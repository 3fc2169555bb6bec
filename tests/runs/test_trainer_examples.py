"""The example programs of trainers do what they say, in at most 60 lines each.

Usage: test_trainer_examples.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE PATH_OF_THE_EXAMPLE_IN_C [unittest arguments]
(exit 77: skipped, there is no NumPy)
"""
import glob, importlib.util, json, os, re, shlex, shutil, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER
from trainers import JOB, PACKAGE, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)
import sounder

EXAMPLE_IN_C = os.path.abspath(sys.argv[3])
EXAMPLES = os.path.join(PACKAGE, "examples")
MOST_LINES = 60
CC = shutil.which(os.environ.get("CC", "cc"))
os.environ["PYTHONPATH"] = PACKAGE
os.environ["SOUNDER"] = SOUNDER
EASY = ["--data", "synthetic:1x8x8:400:100", "--rounds", "3", "--lr", "0.1", "--momentum", "0"]


class Examples(TrainerCase):
    def run_example(self, name, run, *arguments):
        return self.train(*JOB, *EASY, "--quiet", "--trainer", f"{sys.executable} {shlex.quote(os.path.join(EXAMPLES, name))}", "--out", run, *arguments)

    def test_each_has_at_most_sixty_lines_and_begins_with_what_it_shows(self):
        programs = glob.glob(os.path.join(EXAMPLES, "trainer*"))
        self.assertGreaterEqual(len(programs), 3)
        for path in programs:
            with open(path) as file, self.subTest(program=os.path.basename(path)):
                lines = file.read().split("\n")
                self.assertLessEqual(len(lines) - 1, MOST_LINES)
                self.assertRegex(lines[0], r'^("""|// )[A-Z].{30,}')

    def test_softmax_in_c_gives_the_weights_that_it_gives_in_numpy(self):
        for algorithm in ("fedavg", "fedprox mu=0.1", "scaffold", "fednova"):
            with self.subTest(algorithm=algorithm):
                name = algorithm.split()[0]
                self.run_example("trainer_numpy.py", f"numpy-{name}", "--algorithm", algorithm)
                self.train(*JOB, *EASY, "--quiet", "--trainer", shlex.quote(EXAMPLE_IN_C), "--algorithm", algorithm, "--out", f"c-{name}")
                for tensor in self.weights(f"numpy-{name}").values():
                    self.assertGreater(np.abs(tensor).max(), 1e-2)
                self.assert_near(f"numpy-{name}", f"c-{name}")
                for here, there in zip(self.rounds(f"numpy-{name}"), self.rounds(f"c-{name}")):
                    self.assertAlmostEqual(here["test_loss"], there["test_loss"], 4)
                    self.assertEqual(here["test_accuracy"], there["test_accuracy"])

    def test_softmax_in_c_sees_what_its_clients_see(self):
        for name, arguments in (("noise", ["--client-noise", "gaussian sigma=0.3"]), ("attack", ["--attack", "label-flip", "--attackers", "0.5"])):
            self.run_example("trainer_numpy.py", f"numpy-{name}", *arguments)
            self.train(*JOB, *EASY, "--quiet", "--trainer", shlex.quote(EXAMPLE_IN_C), *arguments, "--out", f"c-{name}")
            self.assert_near(f"numpy-{name}", f"c-{name}")

    def test_softmax_in_c_repeats_its_bits_with_another_number_of_workers(self):
        for workers in ("1", "3"):
            self.train(*JOB, *EASY, "--quiet", "--trainer", shlex.quote(EXAMPLE_IN_C), "--workers", workers, "--out", f"workers-{workers}")
        self.assertEqual(self.model("workers-1"), self.model("workers-3"))

    def compile(self, name, *changes):
        """The example in C with these changes, (old, new), by the engine's names of tensors."""
        with open(os.path.join(EXAMPLES, "trainer.c")) as file:
            text = file.read()
        for old, new in (('\\"weight\\"', '\\"fc1.weight\\"'), ('\\"bias\\"', '\\"fc1.bias\\"'), *changes):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        with open(self.path(f"{name}.c"), "w") as file:
            file.write(text)
        os.makedirs(self.path("include", "sounder", "io"), exist_ok=True)
        shutil.copy(os.path.join(PACKAGE, "..", "..", "src", "io", "trainer.h"), self.path("include", "sounder", "io"))
        subprocess.run([CC, "-O1", "-Wall", "-Wextra", "-Werror", "-I", self.path("include"), "-o", self.path(name), self.path(f"{name}.c"), "-lm"],
                       check=True, timeout=DEADLINE)

    def compare_with_engine(self, program, *arguments, told=()):
        """Both begin from one file."""
        easy = [*JOB, "--data", "synthetic:1x8x8:400:100", "--lr", "0.1", "--quiet"]
        if not os.path.exists(self.path("start")):
            self.train(*easy, "--rounds", "1", "--lr", "1e-12", "--model", "softmax", "--out", "start")
        given = [*easy, "--init", "start/model.safetensors", "--rounds", "3", *arguments]
        run = "-".join(word for word in arguments if word.isalnum())
        self.train(*given, "--model", "softmax", "--out", f"engine-{run}")
        for workers in ("1", "3"):
            self.train(*given, "--trainer", f"./{program}", *told, "--workers", workers, "--out", f"{run}-{workers}")
        self.assertEqual(self.model(f"{run}-1"), self.model(f"{run}-3"))
        self.assert_near(f"{run}-1", f"engine-{run}")

    def test_softmax_in_c_refuses_targets_and_labels_without_samples(self):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(40, 6))
        for name, train in (("targets", (x, x[:, 0])), ("labels", (None, np.arange(40) % 4))):
            data = sounder.write_data(self.path(f"{name}.npz"), train, train)
            _, err = self.train("--data", data, "--clients", "2", "--rounds", "1", "--trainer", shlex.quote(EXAMPLE_IN_C), "--out", name, code=69)
            self.assertIn("this trainer needs samples with classes", err)

    @unittest.skipUnless(CC, "there is no C compiler")
    def test_a_trainer_in_c_keeps_the_optimizer_of_a_client_as_the_engine_does(self):
        self.compile("keeps", ('\\"views\\":1}\\n", k, n, k)', '\\"views\\":1,\\"state\\":%zu}\\n", k, n, k, count)'),
                     ("        for (trainer_begin(&run, line);", """        float none[count], momentum = (float)trainer_number(line, "momentum", 0), *velocity;
        trainer_begin(&run, line);
        velocity = run.state ? run.state : memset(none, 0, sizeof none);
        for (;"""), ("run.weights[w] -= (float)lr * (gradient[w] * mean + (float)pull * run.weights[w] + run.added[w]);",
                     "velocity[w] = momentum * velocity[w] + gradient[w] * mean + (float)pull * run.weights[w] + run.added[w], run.weights[w] -= (float)lr * velocity[w];"))
        for state in ("keep", "fresh"):
            self.compare_with_engine("keeps", "--clients-per-round", "3", "--client-optimizer-state", state)
        self.assertNotEqual(self.model("3-keep-1"), self.model("3-fresh-1"))

    @unittest.skipUnless(CC, "there is no C compiler")
    def test_a_trainer_in_c_tells_how_far_its_steps_go(self):
        """It says that it has made one step, of another optimizer than SGD."""
        self.compile("travels", (".steps = steps,", ".steps = 1,"),
                     ("travel = lr", "travel = trainer_number(options, \"options.tell\", 0) * lr"),
                     ("    run = trainer_run(line);\n", "    run = trainer_run(line);\n    char *options = strdup(line);\n"))
        for algorithm in ("fednova", "scaffold"):
            self.compare_with_engine("travels", "--momentum", "0", "--partition", "dirichlet", "--alpha", "1", "--algorithm", algorithm, told=("--trainer-option", "tell=1"))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_adapters_learn_and_travel_and_their_body_does_not(self):
        self.run_example("trainer_adapters.py", "adapters", "--lr", "0.2", "--rounds", "4", "--workers", "1", "--algorithm", "scaffold")
        losses = [row["train_loss"] for row in self.rounds("adapters")]
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(list(self.weights("adapters")), ["body.0.down.weight", "body.0.up.weight", "body.2.down.weight", "body.2.up.weight", "head.weight", "head.bias"])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_cnn_with_batch_norm_and_an_augmentation_starts_its_own_run(self):
        told = subprocess.run([sys.executable, os.path.join(EXAMPLES, "trainer.py"), self.folder.name], text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(told.returncode, 0, told.stderr)
        accuracies = [float(number) for number in re.findall(r"accuracy ([\d.]+)%", told.stdout)]
        self.assertEqual(len(accuracies), 8)
        self.assertGreater(accuracies[-1], 50)  # of four classes
        self.assertIn("1.running_mean", self.weights("run"))

    def blobs(self, classes, spread=0.3):
        """Samples of 6 numbers around a centre for each class, and the options of a run on them in which sums travel."""
        rng = np.random.default_rng(3)
        centres, y = rng.normal(0, 1.2, (classes, 6)), rng.integers(0, classes, 400)
        x = (centres[y] + rng.normal(0, spread, (400, 6))).astype(np.float32)
        data = sounder.write_data(self.path(f"blobs-{classes}.npz"), (x[:320], y[:320]), (x[320:], y[320:]))
        return x[:320], ["--data", data, "--algorithm", "combine mean uniform", "--batch-size", "500", "--partition", "dirichlet"]

    def test_sums_of_clients_make_the_centres_of_all_samples(self):
        x, options = self.blobs(4)
        self.run_example("trainer_kmeans.py", "first", *options, "--rounds", "1", "--trainer-option", "clusters=3")
        self.run_example("trainer_kmeans.py", "last", *options, "--rounds", "4", "--trainer-option", "clusters=3", "--clients", "5")
        first, last = (self.weights(run) for run in ("first", "last"))
        centres = (first["sums"].reshape(3, 6) / first["counts"].reshape(3, 1)).astype(np.float64)
        for _ in range(3):  # Lloyd's steps
            nearest = ((x[:, None] - centres) ** 2).sum(2).argmin(1)
            centres = np.stack([x[nearest == k].mean(0, dtype=np.float64) for k in range(3)])
        np.testing.assert_allclose(last["sums"].reshape(3, 6) / last["counts"].reshape(3, 1), centres, atol=1e-4)

    def test_histograms_of_clients_make_the_trees_of_all_samples(self):
        _, options = self.blobs(2, 1.5)
        for clients in ("1", "5"):
            self.run_example("trainer_trees.py", f"trees-{clients}", *options, "--rounds", "6", "--clients", clients)
        one, five = (self.weights(f"trees-{clients}")["trees"] for clients in ("1", "5"))
        self.assertEqual(np.count_nonzero(np.abs(one.reshape(-1, 4)).sum(1)), 5)
        np.testing.assert_allclose(one, five, atol=1e-4)
        self.assertGreater(self.rounds("trees-5")[-1]["test_accuracy"], 0.7)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_clients_with_unlike_nets_share_prototypes(self):
        _, options = self.blobs(4)
        for workers in ("1", "2"):
            self.run_example("trainer_prototypes.py", workers, *options, "--batch-size", "10", "--rounds", "4", "--client-optimizer-state", "keep", "--eval-clients-every", "4",
                             "--workers", workers)
        self.assertEqual(self.model("1"), self.model("2"))
        self.assertEqual(self.weights("1")["sums"].size, 4 * 16)
        tests = [row for row in self.metrics("1") if row["type"] == "clients_evaluation"]
        self.assertGreater(tests[-1]["accuracy_mean"], 0.8)

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "there is no Optuna")
    def test_optuna_prunes_runs_that_train(self):
        told = subprocess.run([sys.executable, os.path.join(EXAMPLES, "optuna_search.py"), self.folder.name], text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(told.returncode, 0, told.stderr)
        states = re.findall("COMPLETE|PRUNED", told.stdout)
        self.assertEqual(len(states), 8)
        self.assertIn("PRUNED", states)
        whole = [self.rounds(f"trial-{number}")[-1] for number, state in enumerate(states) if state == "COMPLETE"]
        self.assertEqual({row["round"] for row in whole}, {40})
        self.assertEqual(float(told.stdout.split("]")[1].split()[0]), round(min(row["test_loss"] for row in whole), 4))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_clients_keep_their_heads(self):
        unequal = ["--workers", "1", "--partition", "pathological classes=2", "--client-test", "0.2", "--lr", "0.2", "--rounds", "4"]
        self.run_example("trainer_head.py", "own", "--algorithm", "personal tensors names=head.*", *unequal)
        self.run_example("trainer_head.py", "shared", "--algorithm", "fedavg", *unequal, "--eval-clients-every", "4")
        personal = self.rounds("own")[-1]["personal_loss"]
        self.assertLess(personal, 1.5)  # of two classes, where one model for all knows ten
        self.assertLess(self.rounds("own")[-1]["up_bytes"], self.rounds("shared")[-1]["up_bytes"])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_contrastive_loss_has_no_accuracy_and_metrics_of_its_own(self):
        self.run_example("trainer_contrastive.py", "run", "--batch-size", "20", "--lr", "0.2", "--workers", "1", "--trainer-option", "temperature=0.4")
        last = self.rounds("run")[-1]
        self.assertNotIn("test_accuracy", last)
        self.assertLess(last["train_loss"], self.rounds("run")[0]["train_loss"])
        self.assertLess(last["test_metrics"]["uniformity"], 0)
        result = json.loads(self.call("eval", "run", "--json")[0])
        self.assertNotIn("test_accuracy", result)
        self.assertAlmostEqual(result["test_metrics"]["uniformity"], last["test_metrics"]["uniformity"], 6)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_text_is_trained_to_a_perplexity(self):
        told = subprocess.run([sys.executable, os.path.join(EXAMPLES, "trainer_text.py"), self.folder.name], text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(told.returncode, 0, told.stderr)
        perplexities = json.loads(told.stdout[: told.stdout.index("]") + 1])
        self.assertLess(perplexities[-1], 70)
        self.assertGreaterEqual(perplexities[-2], 70)
        self.assertEqual(self.metrics("run")[-1]["target"], "perplexity<70")
        self.assertEqual(self.metrics("run")[-1]["tokens_to_target"], self.rounds("run")[-1]["tokens_total"])

    @unittest.skipUnless(importlib.util.find_spec("peft") and importlib.util.find_spec("transformers"), "there is no PEFT, or no transformers")
    def test_an_adapter_on_a_frozen_gpt_2_trains_and_leaves_for_peft(self):
        told = subprocess.run([sys.executable, os.path.join(EXAMPLES, "trainer_lora.py"), self.folder.name], text=True, capture_output=True, timeout=3 * DEADLINE)
        self.assertEqual(told.returncode, 0, told.stderr)
        perplexities = json.loads(told.stdout)
        self.assertLess(perplexities[-1], perplexities[0])
        self.assertEqual(len(self.weights("run")), 4)  # two layers' factors

    @unittest.skipUnless(importlib.util.find_spec("lightning"), "there is no Lightning")
    def test_a_lightning_module_learns(self):
        told = subprocess.run([sys.executable, os.path.join(EXAMPLES, "trainer_lightning.py"), self.folder.name], text=True, capture_output=True, timeout=3 * DEADLINE)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertGreater(json.loads(told.stdout)[-1], 80)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "there is no JAX")
    def test_jax_learns(self):
        self.run_example("trainer_jax.py", "jax", "--algorithm", "scaffold")
        losses = [row["train_loss"] for row in self.rounds("jax")]
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
