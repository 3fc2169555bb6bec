"""What is measured of a run, against the same figures computed here from the lines of single clients.

Usage: test_evaluation.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import csv, json, os, statistics, subprocess, unittest, zipfile

from runs import DEADLINE, SOUNDER, RunCase, merged, parse_safetensors
from test_data import npy
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

ON_CARD = "emulated" in os.path.basename(SOUNDER)
SMALL = ["--data", "synthetic:1x8x8:600:200", "--model", "conv 3 3; pool 2; relu; dropout 0.2; linear 10", "--batch-size", "10",
         "--clients", "11", "--partition", "dirichlet", "--alpha", "0.3", "--lr", "0.05", "--quiet", "--device", "cuda" if ON_CARD else "cpu"]


def quantile(values, part):
    place = part * (len(values) - 1)
    below = min(int(place), len(values) - 2)
    return values[below] + (values[below + 1] - values[below]) * (place - below)


class Evaluation(RunCase):
    def run_small(self, run, *options):
        self.train(*SMALL, *options, "--out", run)
        return self.metrics(run)

    def of_type(self, run, kind):
        return [{key: value for key, value in entry.items() if key != "time"} for entry in self.metrics(run) if entry["type"] == kind]

    def test_figures_over_clients_follow_from_the_lines_of_the_clients(self):
        self.run_small("run", "--rounds", "4", "--eval-clients-every", "2", "--finetune-epochs", "3")
        lines, sums = self.of_type("run", "client_evaluation"), self.of_type("run", "clients_evaluation")
        self.assertEqual([(entry["round"], entry["model"]) for entry in sums],
                         [(2, "global"), (2, "fine-tuned"), (4, "global"), (4, "fine-tuned")])
        for entry in sums:
            clients = [line for line in lines if (line["round"], line["model"]) == (entry["round"], entry["model"])]
            self.assertEqual([line["client"] for line in clients], list(range(11)))
            values = sorted(line["accuracy"] for line in clients)
            samples = sum(line["samples"] for line in clients)
            self.assertEqual((entry["clients"], entry["samples"]), (11, samples))
            for line in clients:
                self.assertAlmostEqual(line["accuracy"], line["hits"] / line["samples"], places=9)
            expected = {
                "accuracy_by_samples": sum(line["hits"] for line in clients) / samples,
                "loss_by_samples": sum(line["loss"] * line["samples"] for line in clients) / samples,
                "accuracy_mean": statistics.fmean(values),
                "accuracy_variance_percent2": 1e4 * statistics.pvariance(values),
                "accuracy_worst_tenth": statistics.fmean(values[:2]),  # 10% of 11, rounded up
                "accuracy_best_tenth": statistics.fmean(values[-2:]),
                "accuracy_jain": sum(values) ** 2 / (11 * sum(value * value for value in values)),
            }
            for key, value in expected.items():
                self.assertAlmostEqual(entry[key], value, delta=1e-8 * (1 + abs(value)), msg=key)
            for part, value in zip((0, .1, .25, .5, .75, .9, 1), entry["accuracy_quantiles"]):
                self.assertAlmostEqual(value, quantile(values, part), places=9)

    def test_a_client_is_tested_on_what_it_holds_out_and_never_trains_on(self):
        options = ["--rounds", "2", "--eval-clients-every", "2", "--finetune-epochs", "2"]
        self.run_small("whole", *options)
        self.run_small("run", *options, "--client-test", "0.25")
        sizes = {line["client"]: line["samples"] for line in self.of_type("whole", "client")}
        trained = {line["client"]: line["samples"] for line in self.of_type("run", "client")}
        lines = self.of_type("run", "client_evaluation")
        self.assertEqual({line["data"] for line in lines}, {"client's held-out samples"})
        self.assertEqual({line["data"] for line in self.of_type("whole", "client_evaluation")}, {"client's training samples"})
        self.assertEqual({line["model"] for line in lines}, {"global", "fine-tuned"})
        self.assertEqual(trained, {client: size * 3 // 4 for client, size in sizes.items()})
        self.assertTrue(lines)
        for line in lines:
            self.assertEqual(line["samples"], sizes[line["client"]] - trained[line["client"]])
        self.run_small("none", *options, "--client-test", "0")
        self.assertEqual(self.model("none"), self.model("whole"))

    def write_users(self, name):
        """Three users; the test samples of user 1 have other classes than its training samples, user 2 has none."""
        def split(users, count, off):
            labels = [i % 4 for i in range(count)]
            pixels = b"".join(bytes(255 if i == label else i % 7 for i in range(16)) for label in labels)
            told = [(label + 1) % 4 if user in off else label for label, user in zip(labels, users)]
            return npy("|u1", (count, 4, 4), pixels), npy("|u1", (count,), bytes(told)), npy("|u1", (count,), bytes(users))
        x_train, y_train, client_train = split([i % 3 for i in range(120)], 120, ())
        x_test, y_test, client_test = split([0] * 8 + [1] * 20, 28, (1,))
        with zipfile.ZipFile(self.path(name), "w") as archive:
            for key, array in {"x_train": x_train, "y_train": y_train, "client_train": client_train,
                               "x_test": x_test, "y_test": y_test, "client_test": client_test}.items():
                archive.writestr(key + ".npy", array)

    def test_a_client_of_users_with_test_samples_is_tested_on_those(self):
        self.write_users("users.npz")
        options = ["--data", "users.npz", "--model", "linear 4", "--rounds", "3", "--lr", "0.5", "--device", "cuda" if ON_CARD else "cpu"]
        out, _ = self.train(*options, "--eval-clients-every", "3", "--finetune-epochs", "1", "--workers", "1", "--out", "run")
        self.assertIn("clients have 28 test samples of their own, 1 of 3 clients have none\n", out)
        lines = self.of_type("run", "client_evaluation")
        self.assertEqual({(line["model"], line["client"], line["data"], line["samples"], line["accuracy"]) for line in lines},
                         {(model, *client) for model in ("global", "fine-tuned")
                          for client in ((0, "client's test samples", 8, 1.0), (1, "client's test samples", 20, 0.0))})
        self.assertEqual([(line["clients"], line["clients_untested"]) for line in self.of_type("run", "clients_evaluation")], [(2, 1)] * 2)
        self.assertAlmostEqual(self.rounds("run")[-1]["test_accuracy"], 8 / 28, places=9)
        out, _ = self.train(*options, "--partition", "leaf fraction=0.6", "--workers", "3", "--eval-clients-every", "3", "--out", "part")
        self.assertIn("users.npz: 72 of 120 training + 28 test samples  ->", out)
        self.assertRegex(out, r"clients have (8|20) test samples of their own(, 1 of 2 clients have none)?; the global test takes all 28\n")
        _, err = self.train(*options, "--partition", "grouped-natural-id size=2", "--workers", "3", "--client-test", "0.2", "--out", "groups")
        self.assertEqual(len({line["client"] for line in self.of_type("groups", "client")}), 2)
        self.assertIn("--client-test 0.2 holds samples out on which nothing is tested", err)
        self.train(*options, "--client-test", "0.5", "--eval-clients-every", "3", "--out", "held")
        self.assertEqual({line["data"] for line in self.of_type("held", "client_evaluation")}, {"client's held-out samples"})

    def test_a_model_fits_its_client_better_after_its_training_and_training_is_not_disturbed(self):
        plain = self.run_small("plain", "--rounds", "3")
        self.run_small("run", "--rounds", "3", "--eval-clients-every", "1", "--finetune-epochs", "5")
        self.assertEqual(self.model("plain"), self.model("run"))
        by_model = {"global": [], "fine-tuned": []}
        for entry in self.of_type("run", "clients_evaluation"):
            by_model[entry["model"]].append(entry["loss_by_samples"])
        self.assertTrue(all(after < before for before, after in zip(by_model["global"], by_model["fine-tuned"])), by_model)

    def test_clients_are_evaluated_the_same_by_any_number_of_workers_and_nodes(self):
        options = ["--rounds", "2", "--eval-clients-every", "2", "--finetune-epochs", "2"]
        self.run_small("1", *options, "--workers", "1")
        self.run_small("3", *options, "--workers", "3")
        self.assertEqual(self.of_type("1", "client_evaluation"), self.of_type("3", "client_evaluation"))
        if why_no_nodes():
            return
        subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *merged(*SMALL, *options), "--workers", "1", "--out", self.path("nodes")],
                       env=ENVIRONMENT, check=True, timeout=DEADLINE, stdout=subprocess.DEVNULL)
        self.assertEqual(self.of_type("1", "client_evaluation"), self.of_type("nodes", "client_evaluation"))

    def test_lengths_of_updates_are_measured_and_differ_as_little_as_one_client_can(self):
        for workers in "13":
            self.run_small(workers, "--rounds", "2", "--inspect-updates", "--workers", workers)
        self.assertEqual([[entry[key] for key in ("round", "client", "update_length", "weights_xxh3")] for entry in self.of_type("1", "client")],
                         [[entry[key] for key in ("round", "client", "update_length", "weights_xxh3")] for entry in self.of_type("3", "client")])
        for entry in self.rounds("1"):
            clients = [line for line in self.of_type("1", "client") if line["round"] == entry["round"]]
            lengths = [line["update_length"] for line in clients]
            squares = sum(line["share"] * line["update_length"] ** 2 for line in clients)
            square = squares - entry["update_dispersion"]  # of the mean update
            self.assertAlmostEqual(entry["update_length_mean"], statistics.fmean(lengths), places=7)
            self.assertAlmostEqual(entry["update_length_most"], max(lengths), places=8)
            self.assertAlmostEqual(entry["gradient_diversity"], squares / square, places=5)
            self.assertGreater(entry["gradient_diversity"], 1)
        self.run_small("one", "--rounds", "2", "--inspect-updates", "--clients", "1")
        for entry in self.rounds("one"):
            self.assertAlmostEqual(entry["gradient_diversity"], 1, places=6)
            self.assertAlmostEqual(entry["update_dispersion"], 0, places=6)
        self.run_small("free", "--rounds", "2")
        self.assertEqual(self.model("free"), self.model("1"))
        self.assertTrue(all(line["update_length"] is None for line in self.of_type("free", "client")))

    def test_the_length_of_the_mean_is_that_of_the_step_of_the_model(self):
        """From the weights themselves: the model before the first round and behind it."""
        def weights(run):
            with open(self.path(run, "model.safetensors"), "rb") as file:
                return [value for _, values in parse_safetensors(file.read())[1].values() for value in values]
        still = ["--lr", "1e-30", "--momentum", "0", "--rounds", "1"]
        self.run_small("before", *still)
        self.run_small("after", "--rounds", "1", "--inspect-updates")
        square = sum((a - b) ** 2 for a, b in zip(weights("after"), weights("before")))
        clients = self.of_type("after", "client")
        squares = sum(line["share"] * line["update_length"] ** 2 for line in clients)
        self.assertAlmostEqual(self.rounds("after")[0]["update_dispersion"], squares - square, delta=1e-5 * squares)

    def evaluate(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "eval", *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_files_of_answers_replace_none_of_another_kind_wait_for_no_reader_and_are_no_formulas(self):
        with open(self.path("data.csv"), "w") as file:
            file.write("x,label\n" + "".join(f"{k},\"{('=cmd|calc!A1', '-1', '+a,b')[k % 3]}\"\n" for k in range(60)))
        self.train("--data", "data.csv", "--model", "linear classes", "--clients", "2", "--rounds", "1", "--workers", "1", "--device", "cpu", "--out", "run")
        for option in ("--predictions", "--confusion-file"):
            self.evaluate("run", option, "answers.csv")
            self.evaluate("run", option, "answers.csv")
            with open(self.path("answers.csv")) as file:
                cells = {cell for row in csv.reader(file) for cell in row}
            self.assertLessEqual({"'=cmd|calc!A1", "-1", "'+a,b"}, cells)
            os.remove(self.path("answers.csv"))
            self.assertIn("data.csv is a file of another kind, which would be lost", self.evaluate("run", option, "data.csv", code=73))
        os.mkfifo(self.path("pipe"))
        self.assertIn("pipe is a pipe that no program reads", self.evaluate("run", "--predictions", "pipe", code=73))

    def test_the_confusion_of_classes_is_that_of_the_predictions_and_sums_to_the_hits(self):
        last = self.run_small("run", "--rounds", "3")[-1]
        device = ["--device", "cuda" if ON_CARD else "cpu"]
        told = json.loads(self.evaluate("run", "--json", "--confusion", "--predictions", "each.csv", *device))
        self.assertAlmostEqual(told["test_loss"], last["test_loss"], places=6)
        self.assertEqual(told["test_accuracy"], last["test_accuracy"])
        with open(self.path("each.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["sample"]) for row in rows], list(range(200)))
        confusion = [[0] * 10 for _ in range(10)]
        for row in rows:
            confusion[int(row["label"])][int(row["prediction"])] += 1
            self.assertTrue(0.1 <= float(row["probability"]) <= 1)
        self.assertEqual([told["confusion"][str(label)] for label in range(10)], confusion)
        self.assertEqual(sum(confusion[label][label] for label in range(10)), told["hits"])
        self.assertEqual(sum(map(sum, confusion)), told["samples"])
        table = self.evaluate("run", "--confusion", *device).splitlines()[2:]
        self.assertEqual([[int(word) for word in line.split()[1:]] for line in table], confusion)

    def test_what_eval_alone_takes_is_no_option_of_train_and_a_file_that_cannot_be_made_is_named(self):
        _, err = self.train("--confusion", code=64)
        self.assertIn("--confusion: an option of `sounder eval`; leave it out", err)
        self.run_small("run", "--rounds", "1")
        self.assertIn("none/each.csv cannot be made", self.evaluate("run", "--predictions", "none/each.csv", "--device", "cuda" if ON_CARD else "cpu", code=73))
        os.remove(self.path("run/model.safetensors"))  # as if the run had been killed
        self.assertIn("run has no model.safetensors, which a run writes at its end; finish it with sounder train --resume run, or give one of its checkpoints",
                      self.evaluate("run", code=66))

    def accuracies(self, run):
        return [entry["test_accuracy"] for entry in self.rounds(run)]

    def test_the_way_to_a_target_is_that_to_the_first_round_which_reaches_it(self):
        self.run_small("free", "--rounds", "8")
        curve = self.accuracies("free")
        target = sorted(curve)[5] - 0.001
        first = next(i for i, value in enumerate(curve) if value >= target)
        self.assertGreater(first, 0)
        self.run_small("run", "--rounds", "8", "--target", f"accuracy={target}")
        summary, entry = self.metrics("run")[-1], self.rounds("run")[first]
        best = max(curve[:first])
        self.assertEqual(summary["rounds_to_target"], first + 1)
        self.assertAlmostEqual(summary["rounds_to_target_interpolated"], first + (target - best) / (curve[first] - best), places=6)
        self.assertEqual(summary["up_bytes_to_target"], entry["up_bytes_total"])
        self.assertEqual(summary["down_bytes_to_target"], entry["down_bytes_total"])
        self.assertEqual(summary["simulated_seconds_to_target"], entry["simulated_seconds_total"])
        self.assertEqual(summary["best_accuracy"], max(curve))
        self.assertEqual(summary["best_round"], curve.index(max(curve)) + 1)
        self.assertEqual(self.model("run"), self.model("free"))

    def test_a_run_stops_at_its_target_with_the_model_of_that_round(self):
        self.run_small("free", "--rounds", "8")
        curve = self.accuracies("free")
        target = sorted(curve)[5] - 0.001
        first = next(i for i, value in enumerate(curve) if value >= target) + 1
        self.run_small("run", "--rounds", "8", "--target", f"accuracy={target}", "--stop-at-target")
        self.assertEqual(self.accuracies("run"), curve[:first])
        self.run_small("short", "--rounds", str(first))
        self.assertEqual(self.model("run"), self.model("short"))
        out, _ = self.train("--resume", "run", "--quiet=false")
        self.assertIn(f"has done its {first} round", out)
        self.train("--resume", "run", "--stop-at-target=false", "--quiet")  # and goes on when asked to
        self.assertEqual(self.model("run"), self.model("free"))
        self.assertEqual(self.metrics("run")[-1]["rounds_to_target"], first)

    def test_an_unreached_target_is_null(self):
        summary = self.run_small("run", "--rounds", "1", "--target", "accuracy=1")[-1]
        self.assertIsNone(summary["rounds_to_target"])
        self.assertIsNone(summary["up_bytes_to_target"])

    def test_ssgd_has_a_target_too_but_no_bytes_of_clients_and_data_without_classes_have_none(self):
        small = ["--data", "synthetic:1x8x8:200:500", "--model", "linear 10", "--quiet", "--rounds", "1", "--clients", "2"]
        small += ["--device", "cuda" if ON_CARD else "cpu"]
        self.train(*small, "--algorithm", "ssgd", "--target", "accuracy=1e-9", "--out", "run")
        summary = self.metrics("run")[-1]
        self.assertEqual(summary["rounds_to_target"], 1)
        self.assertIsNone(summary["up_bytes_to_target"])
        if not ON_CARD:
            quadratic = ["--data", "quadratics a=1 b=1", "--model", "linear 1"]
            _, err = self.train(*quadratic, "--target", "accuracy=0.9", code=64)
            self.assertIn("have targets, no classes, and so a model no accuracy; write loss=VALUE, or end the run with --patience", err)
            out, _ = self.train(*quadratic, "--lr", "1e-30", "--patience", "2", "--rounds", "20", "--out", "patient")
            self.assertIn("the loss has not been better since round 1: patience ends\n", out)
            self.assertEqual(len(self.rounds("patient")), 3)

    def test_patience_ends_a_run_that_gets_no_better_also_across_a_resume(self):
        options = ["--lr", "1e-30", "--momentum", "0"]  # the first test is as good as all others
        self.run_small("run", *options, "--rounds", "20", "--patience", "3")
        self.assertEqual(len(self.rounds("run")), 4)
        self.run_small("resumed", *options, "--rounds", "2", "--patience", "3")
        self.train("--resume", "resumed", "--rounds", "20", "--quiet")
        self.assertEqual(len(self.rounds("resumed")), 4)


if __name__ == "__main__":
    unittest.main(argv=["test_evaluation.py"] + __import__("sys").argv[2:], verbosity=2)
