"""Samples that each have several labels: rows of zeros and ones in y, and binary cross-entropy. test_references.py has the steps.

Usage: test_labels.py PATH_OF_SOUNDER [unittest arguments]
"""
import csv, json, math, os, random, struct, sys, unittest, zipfile

from runs import RunCase
from test_data import npy

LABELS = 4


def rows_of(count, seed):
    """Label k applies where number k is large, and the last one nearly always."""
    draw = random.Random(seed)
    x = [[draw.gauss(0, 1) for _ in range(LABELS)] for _ in range(count)]
    return x, [[int(v[k] > (0.3, 0.6, 0, -2)[k]) for k in range(LABELS)] for v in x]


class Labels(RunCase):
    def write(self, name="many.npz", kind="|u1", change=lambda y: y):
        with zipfile.ZipFile(self.path(name), "w") as archive:
            for part, count in (("train", 240), ("test", 80)):
                x, y = rows_of(count, part)
                flat = [v for row in change(y) for v in row]
                code = {"|u1": "B", "<i8": "q", "<f4": "f", "|b1": "B"}[kind]
                archive.writestr(f"x_{part}.npy", npy("<f4", (count, LABELS), struct.pack(f"<{count * LABELS}f", *(v for row in x for v in row))))
                archive.writestr(f"y_{part}.npy", npy(kind, (count, len(flat) // count), struct.pack(f"<{len(flat)}{code}", *flat)))
        return ["--data", name, "--model", "linear classes", "--clients", "3", "--partition", "iid", "--workers", "1", "--lr", "2", "--batch-size", "20",
                "--device", "cpu"]

    def test_figures_are_those_of_the_predictions(self):
        out, _ = self.train(*self.write(), "--rounds", "4", "--eval-clients-every", "4", "--out", "run")
        self.assertIn("many.npz: 240 training + 80 test samples, 4 labels each: binary cross-entropy  ->  run", out)
        told = json.loads(self.call("eval", "run", "--json", "--predictions", "answers.csv")[0])
        with open(self.path("answers.csv")) as file:
            rows = list(csv.DictReader(file))
        said = [[(int(row[f"label_{k}"]), int(row[f"prediction_{k}"]), float(row[f"probability_{k}"])) for k in range(LABELS)] for row in rows]
        self.assertEqual([[label for label, _, _ in row] for row in said], rows_of(80, "test")[1])
        loss = [-math.log(p if label else 1 - p) for row in said for label, _, p in row]
        by_label = [sum(row[k][0] == row[k][1] for row in said) / 80 for k in range(LABELS)]
        f1 = [2 * sum(row[k][0] and row[k][1] for row in said) / sum(row[k][0] + row[k][1] for row in said) for k in range(LABELS)]
        expected = {"test_loss": sum(loss) / len(loss), "test_accuracy": sum(all(a == b for a, b, _ in row) for row in said) / 80,
                    "test_label_accuracy": sum(by_label) / LABELS, "test_macro_f1": sum(f1) / LABELS}
        last, summary = self.rounds("run")[-1], self.metrics("run")[-1]
        for key, value in expected.items():
            for where in (told, last, summary):
                self.assertAlmostEqual(where[key], value, places=6, msg=key)
        for where in (told, summary):
            for found, value in zip(where["test_accuracy_by_label"], by_label):
                self.assertAlmostEqual(found, value, places=9)
        self.assertEqual(self.metrics("run")[0]["loss"], "binary cross-entropy")
        self.assertIn(f"  {100 * last['test_accuracy']:.2f}%  labels {100 * last['test_label_accuracy']:.2f}%  clients ", out)
        (row,) = json.loads(self.call("runs", "run", "--format", "json")[0])
        self.assertAlmostEqual(row["label_accuracy_percent"], 100 * last["test_label_accuracy"], places=6)
        self.assertIn("by label  0: ", self.call("eval", "run")[0])
        self.assertGreater(last["test_accuracy"], self.rounds("run")[0]["test_accuracy"])

    def test_a_sigmoid_before_that_of_the_loss_is_told(self):
        quick = [*self.write(), "--rounds", "1", "--quiet", "--out"]
        self.assertNotIn("sigmoid", self.train(*quick, "run")[1])
        self.assertIn("--model: its last layer is sigmoid, and so begins the loss", self.train(*quick, "other", "--model", "linear 4; sigmoid")[1])

    def test_numbers_of_any_type_give_the_same_bits_with_any_workers_and_resumed(self):
        for kind in ("|u1", "|b1", "<i8", "<f4"):
            self.train(*self.write(f"{kind[1:]}.npz", kind), "--rounds", "4", "--patience", "9", "--patience-by", "macro-f1", "--quiet", "--out", kind[1:])
            self.assertEqual(self.bits(kind[1:]), self.bits("u1"))
        self.train(*self.write(), "--workers", "2", "--rounds", "2", "--quiet", "--out", "part")
        self.train("--resume", "part", "--rounds", "4", "--quiet")
        self.assertEqual(self.bits("part"), self.bits("u1"))

    def test_rows_with_a_single_one_are_classes(self):
        one_hot = lambda y: [[int(k == (2 * row[0] + row[1])) for k in range(LABELS)] for row in y]
        out, _ = self.train(*self.write("hot.npz", change=one_hot), "--rounds", "1", "--out", "run")
        self.assertNotIn("labels each", out)
        self.assertEqual(self.metrics("run")[0]["loss"], "cross-entropy")

    def test_classes_may_have_binary_cross_entropy_too(self):
        classes = ["--data", "synthetic:1x6x6:400:80", "--model", "linear classes", "--clients", "3", "--lr", "1", "--device", "cpu", "--rounds", "3"]
        out, _ = self.train(*classes, "--workers", "1", "--loss", "bce", "--out", "run")
        self.assertIn("80 test samples, classes: binary cross-entropy  ->  run", out)
        self.train(*classes, "--workers", "2", "--loss", "bce", "--quiet", "--out", "two")
        self.assertEqual(self.bits("two"), self.bits("run"))
        self.assertEqual(self.metrics("run")[0]["loss"], "binary cross-entropy")
        last = self.rounds("run")[-1]
        for what in ("run", "run/model.safetensors"):  # which says so
            told = json.loads(self.call("eval", what, "--json", "--predictions", "answers.csv")[0])
            self.assertAlmostEqual(told["test_loss"], last["test_loss"], places=6)
            self.assertEqual(told["test_accuracy"], last["test_accuracy"])
        with open(self.path("answers.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertLess(min(float(row["probability"]) for row in rows), 0.2)  # of its own, and no share of ten
        hits = [row["label"] == row["prediction"] for row in rows]
        self.assertEqual(sum(hits) / len(hits), last["test_accuracy"])
        self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.train(*self.write(), "--loss", "bce", "--rounds", "1", "--quiet", "--out", "said")
        self.train(*self.write(), "--rounds", "1", "--quiet", "--out", "unsaid")
        self.assertEqual(self.bits("said"), self.bits("unsaid"))
        for options, sentence in ((["--label-smoothing", "0.1"], "its labels are 0 or 1 and count alike; leave that out"),
                                  (["--class-weights", "balanced"], "its labels are 0 or 1 and count alike; leave that out")):
            self.assertIn(sentence, self.train(*classes, "--loss", "bce", *options, "--out", "refused", code=64)[1])

    def test_what_does_not_go_with_several_labels_is_refused(self):
        data = self.write()
        for options, sentence in ((["--label-smoothing", "0.1"], "those samples have no classes"), (["--class-weights", "balanced"], "have no classes"),
                                  (["--partition", "dirichlet"], "deals by class"), (["--patience", "2", "--patience-by", "auc"], "have several labels each, and so a model no AUC; take macro-f1"),
                                  (["--attack", "label-flip", "--attackers", "0"], "does not go with --data"),
                                  (["--trainer", "python3 own.py"], "have several labels each, which a trainer is not given")):
            with self.subTest(options):
                without = data[:2] + data[4:] if options[0] == "--trainer" else data
                self.assertIn(sentence, self.train(*without, *options, "--rounds", "2", "--out", "refused", code=64)[1])
        self.train(*data, "--rounds", "1", "--quiet", "--out", "run")
        self.assertIn("have several labels each; leave out --confusion", self.call("eval", "run", "--confusion", code=64)[1])
        self.assertIn("run has no federation to export, because of samples with several labels each",
                      self.call("export", "run", "--federation", "files", code=64)[1])
        self.assertFalse(os.path.exists(self.path("files")))
        tables = self.write("two.npz", "<f4", lambda y: [[2 * v for v in row] for row in y])
        self.assertIn("is not one-hot", self.train(*tables, code=65)[1])
        out, _ = self.call("partition", "--data", "many.npz", "--clients", "3")
        self.assertNotIn("classes 0 to 3", out)
        self.assertIn("rows of labels", self.call("data", "many.npz")[0])


if __name__ == "__main__":
    unittest.main(argv=["test_labels.py"] + sys.argv[2:], verbosity=2)
