"""What is measured of a model beside accuracy and loss, on which samples, and which model is kept for it.

Usage: test_measured.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import csv, hashlib, json, math, os, pathlib, random, re, struct, sys, unittest, zipfile

from runs import SOUNDER, RunCase, parse_safetensors
from test_data import npy

DEVICE = ["--device", "cuda" if "emulated" in os.path.basename(SOUNDER) else "cpu"]

# Accuracy goes up and down from round to round.
RESTLESS = ["--data", "synthetic:1x8x8:400:100", "--model", "softmax", "--clients", "4", "--workers", "1", *DEVICE, "--lr", "0.5"]


class BestModel(RunCase):
    def best_of(self, run):
        with open(self.path(run, "best.safetensors"), "rb") as file:
            return file.read()

    def accuracy_of(self, run):
        return json.loads(self.call("eval", f"{run}/best.safetensors", "--json")[0])["test_accuracy"]

    def test_the_best_model_is_that_of_the_best_round(self):
        out, _ = self.train(*RESTLESS, "--rounds", "12", "--patience", "4", "--out", "run")
        curve = [line["test_accuracy"] for line in self.rounds("run")]
        best = curve.index(max(curve)) + 1
        self.assertLess(best, len(curve))
        self.assertIn(f"best: run/best.safetensors  round {best}, {100 * max(curve):.2f}%\n", out)
        self.assertEqual(self.accuracy_of("run"), max(curve))
        self.train(*RESTLESS, "--rounds", str(best), "--quiet", "--out", "until")
        self.assertEqual(self.best_of("run"), self.best_of("until"))
        self.assertEqual(self.model("until"), hashlib.sha256(self.best_of("run")).hexdigest())

    def test_a_resumed_run_keeps_the_best_model_of_all_its_processes(self):
        whole = [*RESTLESS, "--quiet", "--rounds"]
        self.train(*whole, "12", "--out", "whole")
        curve = [line["test_accuracy"] for line in self.rounds("whole")]
        best = curve.index(max(curve)) + 1
        for cut in {best, min(best + 1, 11)}:
            self.train(*whole, str(cut), "--checkpoint-every", "5", "--out", f"part{cut}")
            self.train("--resume", f"part{cut}", "--rounds", "12", "--quiet")
            self.assertEqual(self.best_of(f"part{cut}"), self.best_of("whole"), cut)

    def test_a_final_model_that_is_the_best_has_both_names(self):
        out, _ = self.train(*RESTLESS, "--rounds", "1", "--out", "run")
        self.assertNotIn("best:", out)
        self.assertTrue(os.path.samefile(self.path("run", "model.safetensors"), self.path("run", "best.safetensors")))

    @unittest.skipIf("cuda" in DEVICE, "several models are for the CPU alone")
    def test_of_several_models_the_tested_one_of_the_best_round_is_kept(self):
        task = ["--data", "synthetic:1x4x4:96:24", "--model", "linear classes", "--batch-size", "8", "--clients", "3", *DEVICE, "--lr", "0.5",
                "--algorithm", "ifca", "--seed", "4", "--validation", "0.2", "--quiet"]
        self.train(*task, "--rounds", "8", "--out", "run")
        last = self.metrics("run")[-1]
        self.assertLess(last["best_round"], 8)
        self.assertEqual(self.rounds("run")[-1]["clients_by_cluster"], [0, 3])  # the model of the shared weights is not the one that is tested
        self.train(*task, "--rounds", str(last["best_round"]), "--out", "until")
        self.assertEqual(self.model("until"), hashlib.sha256(self.best_of("run")).hexdigest())
        kept = json.loads(self.call("eval", "run/best.safetensors", "--json")[0])
        self.assertAlmostEqual(last["best_model_test_loss"], kept["test_loss"], 6)
        self.assertNotAlmostEqual(last["test_loss"], kept["test_loss"], 2)

    def test_a_file_of_that_name_is_not_written_over(self):
        os.makedirs(self.path("run"))
        with open(self.path("run", "best.safetensors"), "w") as file:
            file.write("mine")
        _, err = self.train(*RESTLESS, "--rounds", "1", "--out", "run", code=64)
        self.assertIn("run holds best.safetensors, which a new run would write over", err)


# Rounds are tested on a tenth of the training samples.
VALIDATED = [*RESTLESS[:-2], "--lr", "0.1", "--validation", "0.1", "--partition", "iid"]


class Validation(RunCase):
    def samples_of(self, run):
        return {line["client"]: line["samples"] for line in self.metrics(run) if line["type"] == "client"}

    def test_rounds_are_tested_on_samples_of_no_client_and_the_test_set_at_the_end(self):
        out, _ = self.train(*VALIDATED, "--rounds", "12", "--patience", "3", "--out", "runs/a")
        lines, summary = self.rounds("runs/a"), self.metrics("runs/a")[-1]
        self.assertIn("synthetic: 360 training + 40 validation + 100 test samples", out)
        self.assertEqual(sum(self.samples_of("runs/a").values()), 360)
        self.assertEqual(self.metrics("runs/a")[0]["figure"], "validation_accuracy")
        self.assertFalse([line for line in lines if "test_loss" in line or "test_accuracy" in line])
        curve = [line["validation_accuracy"] for line in lines]
        self.assertTrue(all((40 * value).is_integer() for value in [round(40 * value, 6) / 40 for value in curve]))
        best = curve.index(max(curve)) + 1
        self.assertEqual((summary["best_validation_accuracy"], summary["best_round"]), (max(curve), best))
        self.assertEqual(len(curve), best + 3)
        final = json.loads(self.call("eval", "runs/a", "--json")[0])
        kept = json.loads(self.call("eval", "runs/a/best.safetensors", "--json")[0])
        self.assertAlmostEqual(summary["test_loss"], final["test_loss"], places=8)
        self.assertEqual(summary["test_accuracy"], final["test_accuracy"])
        self.assertAlmostEqual(summary["best_model_test_loss"], kept["test_loss"], places=8)
        self.assertEqual(summary["best_model_test_accuracy"], kept["test_accuracy"])
        self.assertRegex(out, rf"(?m)^{100 * final['test_accuracy']:.2f}% on the test set after {len(curve)} rounds \(validation {100 * curve[-1]:.2f}%\), ")
        self.assertIn(f"round {best}, validation {100 * max(curve):.2f}%, test {100 * kept['test_accuracy']:.2f}%\n", out)
        (row,) = json.loads(self.call("runs", "--format", "json")[0])
        for key, value in (("accuracy_percent", final["test_accuracy"]), ("best_model_test_percent", kept["test_accuracy"]),
                           ("best_validation_percent", max(curve)), ("validation_accuracy_percent", curve[-1])):
            self.assertAlmostEqual(row[key], 100 * value, places=4, msg=key)
        screen = self.call("top", "--once", "runs/a")[0]
        self.assertIn(f"validation accuracy {100 * curve[-1]:.2f}%  best {100 * max(curve):.2f}% in round {best}  validation loss {lines[-1]['validation_loss']:.4f}", screen)
        scalars = b"".join(path.read_bytes() for path in pathlib.Path(self.path("runs/a/tensorboard")).iterdir())
        tags = {tag.decode() for tag in re.findall(rb"[a-z]+/validation_[a-z0-9_]+", scalars)}
        of_classes = {"accuracy/validation_macro_f1", "accuracy/validation_balanced_accuracy"} if "cpu" in DEVICE else set()
        self.assertEqual(tags, {"accuracy/validation_accuracy", "loss/validation_loss"} | of_classes)
        self.call("report", "runs/a", "-o", "report.html")
        told = self.data_of("report.html")["runs"][0]
        self.assertEqual((told["figure"], len(told["rounds"]["validation_loss"])), ("validation_accuracy", len(curve)))
        self.call("report", "runs/a", "--svg", "svg")
        self.assertIn("validation-accuracy.svg", os.listdir(self.path("svg")))

    def test_the_same_samples_are_held_out_for_any_number_of_workers_and_after_a_resume(self):
        self.train(*VALIDATED, "--rounds", "6", "--quiet", "--out", "whole")
        self.train(*VALIDATED, "--rounds", "3", "--quiet", "--workers", "2", "--out", "part")
        self.train("--resume", "part", "--rounds", "6", "--quiet")
        keep = ("validation_loss", "validation_accuracy", "test_loss", "best_validation_accuracy", "best_round", "model_sha256")
        self.assertEqual([self.metrics("part")[-1][key] for key in keep], [self.metrics("whole")[-1][key] for key in keep])
        self.train(*VALIDATED, "--rounds", "6", "--quiet", "--seed", "2", "--out", "other")
        self.assertNotEqual(self.model("other"), self.model("whole"))

    def test_a_saved_partition_has_no_sample_of_the_validation_set(self):
        data = ["--data", "synthetic:1x8x8:400:100", "--clients", "4", "--partition", "iid"]
        self.call("partition", *data, "--validation", "0.1", "--save", "without.txt")
        self.call("partition", *data, "--save", "all.txt")
        self.train(*VALIDATED, "--rounds", "2", "--quiet", "--out", "dealt")
        self.train(*VALIDATED[:-1], "file:without.txt", "--rounds", "2", "--quiet", "--out", "file")
        self.assertEqual(self.model("file"), self.model("dealt"))
        _, err = self.train(*VALIDATED[:-1], "file:all.txt", "--rounds", "2", "--quiet", "--out", "refused", code=64)
        self.assertRegex(err, r"all\.txt has sample \d+, which belongs to the validation set; save it again with `sounder partition` and these data, --validation 0.1, --seed 1, --save")

    def test_target_and_halving_go_by_the_validation_set(self):
        self.train(*VALIDATED, "--rounds", "6", "--quiet", "--out", "run")
        curve = [line["validation_loss"] for line in self.rounds("run")]
        target = sorted(curve)[2]
        out, _ = self.train(*VALIDATED, "--rounds", "6", "--target", f"loss={target + 1e-6:.6f}", "--stop-at-target", "--out", "target")
        self.assertEqual(len(self.rounds("target")), next(i for i, value in enumerate(curve) if value <= target + 1e-6) + 1)
        self.assertRegex(out, r"(?m)^loss \d+\.\d{4} on the test set after")
        _, err = self.train(*VALIDATED, "--target", "test-accuracy=0.5", "--out", "refused", code=64)
        self.assertIn("with a validation set the test set is used only at the end; take accuracy", err)
        _, err = self.train(*RESTLESS, "--target", "validation-loss=0.5", "--out", "refused", code=64)
        self.assertIn("there is no validation set; give --validation 0.1", err)
        out = "".join(self.call("sweep", *VALIDATED, "--algorithm", "fedavg,fedprox", "--search", "halving", "--rounds", "3", "--out", "sweep"))
        self.assertIn("validation %", out)

    def write_arrays(self, name, kind="<f4", without=(), **more):
        """200 training samples, the last 40 of them once more as a validation set, and 60 test samples; 4 classes."""
        def of(first, count):
            chance = random.Random(7)
            rows = [(i % 4, [chance.gauss(i % 4, 1) for _ in range(3)]) for i in range(first + count)][first:]
            values = struct.pack(f"<{3 * count}f", *(x for _, row in rows for x in row)) if kind == "<f4" else bytes(int(40 * abs(x)) % 256 for _, row in rows for x in row)
            return npy(kind, (count, 3), values), npy("|u1", (count,), bytes(label for label, _ in rows))
        arrays = {}
        for split, part in (("train", of(0, 200)), ("test", of(300, 60)), ("validation", of(160, 40))):
            arrays[f"x_{split}"], arrays[f"y_{split}"] = part
        arrays.update(more)
        with zipfile.ZipFile(self.path(name), "w") as file:
            for array, blob in arrays.items():
                if array not in without:
                    file.writestr(f"{array}.npy", blob)
        return ["--data", name, "--model", "linear 4", "--clients", "4", "--workers", "1", "--partition", "iid", "--lr", "0.1", "--rounds", "4", "--quiet"]

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def test_a_data_set_may_have_a_validation_set_of_its_own(self):
        alone = ("x_validation", "y_validation")
        for kind in ("<f4", "|u1"):
            mine, plain = self.write_arrays(f"{kind[1:]}.npz", kind), self.write_arrays(f"plain-{kind[1:]}.npz", kind, without=alone)
            self.train(*mine, "--out", f"{kind[1:]}/mine")
            self.train(*plain, "--out", f"{kind[1:]}/plain")
            self.assertEqual(self.tensors(f"{kind[1:]}/mine"), self.tensors(f"{kind[1:]}/plain"))  # no client has a sample of it
            line, summary = self.rounds(f"{kind[1:]}/mine")[-1], self.metrics(f"{kind[1:]}/mine")[-1]
            self.assertAlmostEqual(summary["test_loss"], self.metrics(f"{kind[1:]}/plain")[-1]["test_loss"], places=9)
            told = json.loads(self.call("eval", f"{kind[1:]}/mine/model.safetensors", "--json", "--data", self.validation_as_test(f"{kind[1:]}.npz"))[0])
            self.assertAlmostEqual(line["validation_loss"], told["test_loss"], places=6)
            self.assertEqual(line["validation_accuracy"], told["test_accuracy"])
        (row,) = json.loads(self.call("data", "f4.npz", "--format", "json")[0])
        self.assertEqual((row["train"], row["validation"], row["test"]), (200, 40, 60))
        out = self.call("train", *self.write_arrays("f4.npz")[:-1], "--target", "validation-accuracy=0.9", "--out", "target")[0]
        self.assertIn("f4.npz: 200 training + 40 validation + 60 test samples", out)
        self.train("--resume", "target", "--rounds", "5", "--quiet")
        _, err = self.train(*self.write_arrays("f4.npz"), "--validation", "0.1", "--out", "refused", code=64)
        self.assertIn("f4.npz has a validation set of its own (x_validation, 40 samples); leave one out", err)

    def validation_as_test(self, name):
        with zipfile.ZipFile(self.path(name)) as file, zipfile.ZipFile(self.path("swapped.npz"), "w") as swapped:
            for array in ("x_train", "y_train", "x_test", "y_test"):
                swapped.writestr(f"{array}.npy", file.read(f"{array.replace('test', 'validation')}.npy"))
        return "swapped.npz"

    def test_wrong_arrays_of_a_validation_set_are_refused(self):
        for more, without, sentence in (
                ({}, ("x_train", "x_test"), "a validation set, but only labels of the others; leave it out, or give x_train and x_test, too"),
                ({}, ("y_validation",), "only one of x_validation and y_validation; give both, or leave both out"),
                ({"x_validation": npy("<f4", (40, 2), bytes(320))}, (), "x_validation: of type <f4 and shape (40, 2), and the training set's of type <f4 and shape (200, 3)"),
                ({"y_validation": npy("|u1", (39,), bytes(39))}, (), "y_validation: of shape (39), for 40 samples; give one number for each sample"),
                ({"y_validation": npy("<f4", (40,), bytes(160))}, (), "y_validation: of type <f4")):
            _, err = self.train(*self.write_arrays("wrong.npz", without=without, **more), "--out", "refused", code=65)
            self.assertIn(sentence, err)

    def test_users_keep_their_samples_beside_a_validation_set(self):
        users = npy("|u1", (200,), bytes(i // 50 for i in range(200)))
        data = self.write_arrays("users.npz", client_train=users)
        self.train(*data[:4], "--workers", "1", "--lr", "0.1", "--rounds", "2", "--quiet", "--out", "run")
        self.assertEqual(self.samples_of("run"), {0: 50, 1: 50, 2: 50, 3: 50})

    def test_a_personal_run_is_told_by_the_clients_own_models_beside_a_validation_set(self):
        out, _ = self.train(*VALIDATED, "--algorithm", "local-only", "--client-test", "0.2", "--rounds", "4", "--out", "run")
        lines, summary = self.rounds("run"), self.metrics("run")[-1]
        self.assertEqual(self.metrics("run")[0]["figure"], "personal_accuracy")
        self.assertRegex(out, rf"(?m)^personal {100 * summary['personal_accuracy']:.2f}% after 4 rounds, ")
        self.assertLessEqual({"validation_loss", "personal_accuracy"}, set(lines[-1]))
        self.assertIn("test_accuracy", summary)

    def test_targets_and_engines_without_rounds_have_a_validation_set_too(self):
        for options in (["--algorithm", "hogwild"], ["--algorithm", "ssgd"], ["--algorithm", "fedbuff"], ["--algorithm", "scaffold"]):
            clients = ["--clients", "1"] if options[1] in ("hogwild", "ssgd") else []
            self.train(*RESTLESS, *clients, "--validation", "0.25", "--rounds", "3", *options, "--quiet", "--out", options[1])
            for line in self.rounds(options[1]):
                self.assertTrue(round(100 * line["validation_accuracy"], 6).is_integer(), options)
            self.assertIn("test_accuracy", self.metrics(options[1])[-1])
        data = ["--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--lr", "0.1"]
        out, _ = self.train(*data, "--validation", "0.5", "--rounds", "3", "--out", "targets")
        summary = self.metrics("targets")[-1]
        self.assertEqual(self.metrics("targets")[0]["figure"], "validation_loss")
        self.assertLessEqual({"validation_rmse", "validation_r2", "test_rmse", "test_r2"}, set(summary))
        self.assertRegex(out, r"(?m)^loss .* on the test set after 3 rounds \(validation loss ")


def by_hand(rows, classes):
    """Recalls, balanced accuracy and macro F1 as scikit-learn defines them, of (label, prediction)."""
    recalls, scores = [], []
    for label in range(classes):
        right = sum(a == b == label for a, b in rows)
        samples, predicted = sum(a == label for a, _ in rows), sum(b == label for _, b in rows)
        recalls.append(right / samples if samples else None)
        if samples + predicted:
            scores.append(2 * right / (samples + predicted))
    known = [value for value in recalls if value is not None]
    return recalls, sum(known) / len(known), sum(scores) / len(scores)


class Figures(RunCase):
    def write_table(self, folder, first, rows):
        os.makedirs(self.path(folder), exist_ok=True)
        for name, count in rows:
            chance = random.Random(name)
            with open(self.path(folder, name), "w") as file:
                file.write(f"{first},x,y\n")
                for i in range(count):
                    x, y = chance.gauss(0, 1), chance.gauss(0, 1)
                    value = int(i % 50 == 0) if first == "label" else 3 * x + chance.gauss(0, 1)
                    file.write(f"{value},{x + (2 * value if first == 'label' else 0)},{y}\n")
        return ["--data", folder, "--model", "linear 2" if first == "label" else "linear 1", "--clients", "4", "--workers", "2", "--partition", "iid"]

    def predictions(self, model):
        self.call("eval", model, "--predictions", "answers.csv")
        with open(self.path("answers.csv")) as file:
            return list(csv.DictReader(file))

    def test_figures_of_classes_are_those_of_the_predictions(self):
        self.train(*RESTLESS, "--lr", "0.1", "--rounds", "3", "--quiet", "--out", "run")
        rows = [(int(row["label"]), int(row["prediction"])) for row in self.predictions("run")]
        recalls, balanced, f1 = by_hand(rows, 10)
        told, summary = json.loads(self.call("eval", "run", "--json")[0]), self.metrics("run")[-1]
        for of in (told, summary):
            self.assertEqual([round(value, 6) for value in of["test_accuracy_by_class"]], [round(value, 6) for value in recalls])
            self.assertAlmostEqual(of["test_balanced_accuracy"], balanced, places=8)
            self.assertAlmostEqual(of["test_macro_f1"], f1, places=8)
            self.assertNotIn("test_auc", of)
        out = self.call("eval", "run")[0]
        self.assertIn(f"  balanced {100 * balanced:.2f}%  macro F1 {100 * f1:.2f}%  ", out)
        self.assertIn(f"\nby class  0: {100 * recalls[0]:.2f}%  1: {100 * recalls[1]:.2f}%", out)

    def test_a_minority_shows_in_macro_f1_and_patience_may_go_by_it(self):
        data = self.write_table("rare", "label", (("train.csv", 1000), ("test.csv", 300)))
        out, _ = self.train(*data, "--rounds", "40", "--lr", "0.05", "--patience-by", "macro-f1", "--patience", "25", "--out", "runs/a")
        lines, summary = self.rounds("runs/a"), self.metrics("runs/a")[-1]
        self.assertEqual(self.metrics("runs/a")[0]["figure"], "test_macro_f1")
        self.assertTrue([line for line in lines if line["test_accuracy"] > 0.97 and line["test_macro_f1"] < 0.5], lines)
        curve = [line["test_macro_f1"] for line in lines]
        self.assertEqual((summary["best_macro_f1"], summary["best_round"]), (max(curve), curve.index(max(curve)) + 1))
        self.assertRegex(out, r"(?m)^round 1/40 .*  macro F1 48\.")
        self.assertRegex(out, r"(?m)^macro F1 \d+\.\d\d% after ")
        rows = self.predictions("runs/a")
        score = lambda row: float(row["probability"]) if row["prediction"] == "1" else 1 - float(row["probability"])
        ones, zeros = ([score(row) for row in rows if row["label"] == label] for label in "10")
        area = sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros) / (len(ones) * len(zeros))
        self.assertAlmostEqual(summary["test_auc"], area, delta=2e-3)  # probabilities near 0 have few digits
        (row,) = json.loads(self.call("runs", "--format", "json")[0])
        self.assertAlmostEqual(row["best_macro_f1_percent"], 100 * max(curve), places=4)
        self.assertNotIn("best_percent", row)
        self.call("report", "runs/a", "-o", "report.html")
        self.assertEqual(self.data_of("report.html")["runs"][0]["figure"], "test_macro_f1")
        self.call("report", "runs/a", "--svg", "svg")
        self.assertIn("macro-f1.svg", os.listdir(self.path("svg")))
        out, _ = self.train(*data, "--rounds", "4", "--validation", "0.2", "--target", "auc=0.5", "--out", "validated")
        self.assertEqual(self.metrics("validated")[0]["figure"], "validation_auc")
        self.assertRegex(out, r"(?m)^AUC \d+\.\d\d% on the test set after 4 rounds \(validation AUC ")

    def test_targets_have_a_mean_distance_and_no_figure_of_classes(self):
        data = self.write_table("line", "target", (("train.csv", 200), ("test.csv", 60)))
        self.train(*data, "--rounds", "3", "--lr", "0.1", "--quiet", "--out", "run")
        rows = self.predictions("run")
        distance = sum(abs(float(row["target"]) - float(row["prediction"])) for row in rows) / len(rows)
        self.assertAlmostEqual(self.metrics("run")[-1]["test_mae"], distance, places=5)
        self.assertAlmostEqual(json.loads(self.call("eval", "run", "--json")[0])["test_mae"], distance, places=5)
        self.assertIn(f", MAE {distance:.4f}", self.call("eval", "run")[0])
        self.assertIn("test_mae", json.loads(self.call("runs", "run", "--format", "json")[0])[0])
        _, err = self.train(*data, "--patience-by", "macro-f1", "--out", "refused", code=64)
        self.assertIn("have targets, no classes, and so a model no macro F1; write loss", err)

    def test_figures_are_those_of_any_number_of_workers(self):
        for workers in ("1", "2"):
            self.train("--data", "synthetic:1x8x8:400:1300", *RESTLESS[2:], "--workers", workers, "--rounds", "2", "--quiet", "--out", workers)
        keep = ("test_macro_f1", "test_balanced_accuracy", "test_accuracy_by_class")
        self.assertEqual(*([self.metrics(run)[-1][key] for key in keep] for run in "12"))

    def test_a_figure_that_a_run_does_not_have_is_refused(self):
        for options, sentence in (
                (["--patience-by", "auc"], "an AUC is of two classes, and synthetic has 10; take balanced-accuracy or macro-f1"),
                (["--patience-by", "macro-f2"], "only the tests of a --trainer have figures of their own; did you mean macro-f1?"),
                (["--patience-by", "macro-f1", "--target", "loss=0.5"], "the run is about one figure, and --target loss=0.5 names another"),
                (["--patience-by", "validation-loss"], "there is no validation set; give --validation 0.1"),
                (["--patience-by", "personal-loss"], "trains no models of the clients' own")):
            _, err = self.train(*RESTLESS, *options, "--out", "refused", code=64)
            self.assertIn(sentence, err)


class ClassWeights(RunCase):
    ROWS = [(int(i % 5 == 0), (float(i % 7) - 3, float(i % 3) - 1 + (i % 5 == 0))) for i in range(60)]

    def write(self):
        os.makedirs(self.path("rare"), exist_ok=True)
        for name in ("train.csv", "test.csv"):
            with open(self.path("rare", name), "w") as file:
                file.write("label,x,y\n" + "".join(f"{label},{x},{y}\n" for label, (x, y) in self.ROWS))
        return ["--data", "rare", "--model", "linear 2", "--clients", "1", "--workers", "1", "--device", "cpu", "--rounds", "1", "--quiet"]

    def weights(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            tensors = parse_safetensors(file.read())[1]
        return [list(tensors["fc1.weight"][1]), list(tensors["fc1.bias"][1])]

    def step(self, weights, of_class, rate):
        """A step of PyTorch's CrossEntropyLoss(weight=of_class) and SGD on all samples."""
        (matrix, bias), total = weights, sum(of_class[label] for label, _ in self.ROWS)
        slopes, slope = [0.0] * 4, [0.0] * 2
        for label, x in self.ROWS:
            logits = [matrix[2 * k] * x[0] + matrix[2 * k + 1] * x[1] + bias[k] for k in range(2)]
            sums = sum(math.exp(logit) for logit in logits)
            for k in range(2):
                off = of_class[label] / total * (math.exp(logits[k]) / sums - (k == label))
                slope[k] += off
                for i in range(2):
                    slopes[2 * k + i] += off * x[i]
        return [[a - rate * b for a, b in zip(matrix, slopes)], [a - rate * b for a, b in zip(bias, slope)]]

    def test_a_step_is_pytorchs_with_these_weights(self):
        data = self.write()
        self.train(*data, "--lr", "1e-30", "--batch-size", "60", "--out", "begin")
        begin, ones = self.weights("begin"), sum(label for label, _ in self.ROWS)
        cases = {"0.25,3": (0.25, 3), "balanced": (30 / (60 - ones), 30 / ones), "1,1": (1, 1)}
        for text, of_class in cases.items():
            self.train(*data, "--lr", "0.5", "--batch-size", "60", "--class-weights", text, "--out", text)
            for found, expected in zip(self.weights(text), self.step(begin, of_class, 0.5)):
                for a, b in zip(found, expected):
                    self.assertAlmostEqual(a, b, delta=2e-6, msg=text)
        self.train(*data, "--lr", "0.5", "--batch-size", "60", "--out", "none")
        self.assertEqual(self.weights("none"), self.weights("1,1"))
        losses = {run: self.rounds(run)[0]["train_loss"] for run in ("none", "balanced")}
        self.assertEqual(losses["none"], losses["balanced"])  # of the same model, shown without weights

    def test_balanced_weights_find_a_minority(self):
        data = [*self.write()[:-3], "--rounds", "30", "--lr", "0.1", "--batch-size", "10", "--quiet"]
        self.train(*data, "--out", "plain")
        self.train(*data, "--class-weights", "balanced", "--out", "balanced")
        recall = {run: self.metrics(run)[-1]["test_accuracy_by_class"][1] for run in ("plain", "balanced")}
        self.assertGreater(recall["balanced"], recall["plain"] + 0.2, recall)
        self.train("--resume", "balanced", "--rounds", "31", "--quiet")

    def test_weights_that_do_not_fit_are_refused(self):
        data = self.write()
        for options, sentence in (
                (["--class-weights", "1,2,3"], "3 weights, and rare has 2 classes; write balanced, or one for each class"),
                (["--class-weights", "1,0"], "the weight of class 1 is no number above 0"), (["--class-weights", "even"], "the weight of class 0 is no number above 0"),
                (["--class-weights", "balanced", "--label-smoothing", "0.1"], "a sample then belongs to several classes"),
                (["--class-weights", "balanced", "--algorithm", "ssgd"], "an --algorithm with rounds (not ssgd, hogwild)")):
            _, err = self.train(*data, *options, "--out", "refused", code=64)
            self.assertIn(sentence, err)


class Show(RunCase):
    def table(self, *arguments):
        return json.loads(self.call("runs", "runs", "--format", "json", *arguments)[0])

    def test_a_table_has_the_figures_that_show_names(self):
        for seed in "12":
            self.train(*RESTLESS, "--rounds", "2", "--eval-clients-every", "2", "--inspect-updates", "--seed", seed, "--quiet", "--out", f"runs/{seed}")
        keys = ["test_macro_f1", "accuracy_worst_tenth", "test_accuracy_by_class.3", "clients_drawn", "accuracy_percent", "update_length_mean"]
        rows = self.table("--show", ",".join(keys))
        for row, seed in zip(rows, "12"):
            self.assertEqual(list(row), ["run", "state", "seed", *keys])
            lines, summary = self.metrics(f"runs/{seed}"), self.metrics(f"runs/{seed}")[-1]
            clients = [line for line in lines if line["type"] == "clients_evaluation"][-1]
            expected = [summary["test_macro_f1"], clients["accuracy_worst_tenth"], summary["test_accuracy_by_class"][3], 4,
                        100 * summary["test_accuracy"], self.rounds(f"runs/{seed}")[-1]["update_length_mean"]]
            for key, value in zip(keys, expected):
                self.assertAlmostEqual(row[key], value, places=6, msg=key)
        (mean,) = self.table("--by", "algorithm", "--show", "test_macro_f1")
        self.assertAlmostEqual(mean["test_macro_f1"], sum(row["test_macro_f1"] for row in rows) / 2, places=9)
        self.assertEqual(list(mean), ["algorithm", "runs", "test_macro_f1", "test_macro_f1_std"])
        for show, sentence in (("test_macro_f2", "the last lines of no run have a number of that name; did you mean test_macro_f1?"),
                               ("figure", "the last lines of no run have a number of that name"), ("test_accuracy_by_class", "is no single number; of a list or a group name one"), ("test_accuracy_by_class.three", "the last lines of no run have a number of that name"), ("test_loss,test_loss", "named twice"), (",", "needs a name")):
            _, err = self.call("runs", "runs", "--show", show, code=64)
            self.assertIn(sentence, err)

    def test_a_sweep_ends_with_these_figures_and_with_the_usual_ones_if_a_name_is_wrong(self):
        sweep = ["sweep", *RESTLESS[:-2], "--lr", "0.1,0.2", "--rounds", "2", "--out", "sweep", "--show"]
        out, _ = self.call(*sweep, "test_macro_f1")
        self.assertIn("lr   n  test_macro_f1\n", out)
        out, err = self.call(*sweep, "test_f1")
        self.assertIn("accuracy %", out)
        self.assertIn("--show test_f1: the last lines of no run", err)


if __name__ == "__main__":
    unittest.main(argv=["test_measured.py"] + sys.argv[2:], verbosity=2)
