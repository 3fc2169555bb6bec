"""What clients see on the emulated card (cards.py) is what they see on the CPU: numbers and targets, marks and false labels, drifts, noise.

Usage: test_cuda_runs_samples.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import json, os, random, struct, sys, unittest, zipfile

from cards import CardCase
from test_data import npy


class Samples(CardCase):
    def write_table(self, folder, column, rows):
        """train.csv and test.csv with this column and three numbers."""
        os.mkdir(self.path(folder))
        for name, part in (("train", rows[:-30]), ("test", rows[-30:])):
            with open(self.path(folder, name + ".csv"), "w") as file:
                file.write(f"{column},a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in part))

    def compare(self, name, *options):
        """Trains on the CPU and on the card: one and three workers have the same bits there, the CPU's but for rounding."""
        self.train(*options, "--workers", "2", "--device", "cpu", "--out", name + "-cpu")
        for workers in "1", "3":
            self.train(*options, "--workers", workers, "--models-per-launch", "2", "--device", "cuda", "--out", f"{name}-{workers}")
        self.assertEqual(self.model(name + "-1"), self.model(name + "-3"))
        cpu, card = (self.tensors(f"{name}-{run}") for run in ("cpu", "1"))
        for tensor in cpu:
            for expected, actual in zip(cpu[tensor][1], card[tensor][1]):
                self.assertAlmostEqual(expected, actual, delta=1e-4, msg=tensor)
        for cpu, card in zip(self.rounds(name + "-cpu"), self.rounds(name + "-1"), strict=True):
            self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
            self.assertAlmostEqual(cpu["test_loss"], card["test_loss"], delta=1e-4)

    def test_tables_of_numbers_with_classes_or_targets_train_and_are_evaluated_as_on_the_cpu(self):
        chance = random.Random(3)
        rows = [[chance.gauss(0, 1) for _ in range(3)] for _ in range(131)] # no multiple of the batch
        self.write_table("classes", "label", [(i % 3, *row) for i, row in enumerate(rows)])
        self.write_table("targets", "target", [(row[0] - 2 * row[1] + 1, *row) for row in rows])
        common = ["--clients", "4", "--clients-per-round", "3", "--rounds", "3", "--batch-size", "8", "--local-epochs", "2", "--lr", "0.05"]
        for name, model, more in (("classes", "linear 9; relu; linear 3", ["--partition", "dirichlet alpha=0.5"]),
                                  ("targets", "linear 5; tanh; linear 1", ["--momentum", "0.5", "--algorithm", "fedprox"])):
            with self.subTest(name):
                options = ["--data", name, "--model", model, *common, *more, "--eval-clients-every", "1"]
                self.compare(name, *options)
                told = [json.loads(self.call("eval", name + "-1", "--json", "--device", device)[0]) for device in ("cpu", "cuda")]
                self.assertEqual([each["device"].startswith("Emulated") for each in told], [False, True])
                for figure in ("test_loss", "test_rmse" if name == "targets" else "test_accuracy"):
                    self.assertAlmostEqual(told[0][figure], told[1][figure], delta=1e-6)
                clients = [[(entry["client"], entry["loss"]) for entry in self.metrics(f"{name}-{run}") if entry["type"] == "client_evaluation"] for run in ("cpu", "1")]
                self.assertEqual(len(clients[0]), 12)
                for (one, cpu), (other, card) in zip(*map(sorted, clients), strict=True):
                    self.assertEqual(one, other)
                    self.assertAlmostEqual(cpu, card, delta=1e-3)

    def test_weights_of_classes_and_binary_cross_entropy_are_those_of_the_cpu(self):
        chance = random.Random(3)
        self.write_table("classes", "label", [(i % 3, *(chance.gauss(0, 1) for _ in range(3))) for i in range(131)])
        with zipfile.ZipFile(self.path("many.npz"), "w") as archive:
            for part, count in ("train", 101), ("test", 30):
                x = [chance.gauss(0, 1) for _ in range(3 * count)]
                archive.writestr(f"x_{part}.npy", npy("<f4", (count, 3), struct.pack(f"<{3 * count}f", *x)))
                archive.writestr(f"y_{part}.npy", npy("|u1", (count, 3), bytes(v > k / 4 for k in range(3) for v in x[k::3])))
        common = ["--model", "linear 9; relu; linear classes", "--clients", "4", "--clients-per-round", "3", "--rounds", "3", "--batch-size", "8", "--lr", "0.2",
                  "--eval-clients-every", "1", "--patience", "9", "--patience-by", "macro-f1"]
        figures = ("test_loss", "test_accuracy", "test_macro_f1")
        for name, options, told in (("weights", ["--data", "classes", "--class-weights", "0.5,3,1", "--partition", "dirichlet alpha=0.5"], figures),
                                    ("ones", ["--data", "classes", "--loss", "bce"], figures), ("many", ["--data", "many.npz"], (*figures, "test_label_accuracy"))):
            with self.subTest(name):
                self.compare(name, *options, *common)
                where = [json.loads(self.call("eval", name + "-1", "--json", "--device", device)[0]) for device in ("cpu", "cuda")]
                for figure in told:
                    for found in (where[1], self.rounds(name + "-1")[-1]):
                        self.assertAlmostEqual(found[figure], where[0][figure], delta=1e-5, msg=figure)
        self.train("--data", "classes", *common, "--device", "cuda", "--out", "plain")
        self.assertNotIn(self.model("plain"), (self.model("weights-1"), self.model("ones-1")))

    def test_outputs_that_are_no_numbers_are_no_hits_of_binary_cross_entropy(self):
        chance = random.Random(3)
        self.write_table("far", "label", [*((i % 3, *(chance.gauss(0, 1) for _ in range(3))) for i in range(80)), *((i % 3, 3e38, 3e38, -3e38) for i in range(30))])
        for device in "cpu", "cuda":
            self.train("--data", "far", "--model", "linear 9 as a; mul a; linear classes", "--loss", "bce", "--clients", "2", "--rounds", "1", "--lr", "0.02",
                       "--quiet", "--device", device, "--out", device)
            self.assertAlmostEqual(self.rounds(device)[0]["test_accuracy"], 10 / 30, places=6)  # the first class is taken

    def compare_views(self, *views):
        """On images of two channels and on a table, with clients of different sizes that are tested and fine-tuned, too."""
        chance = random.Random(3)
        self.write_table("table", "label", [(i % 3, *(chance.gauss(0, 1) for _ in range(3))) for i in range(131)])
        images = ["--data", "synthetic:2x7x6:160:60", "--model", "conv 3 3; relu; linear 10"]
        common = ["--clients", "5", "--rounds", "4", "--batch-size", "7", "--partition", "dirichlet alpha=0.4", "--client-test", "0.2", "--eval-clients-every", "2",
                  "--finetune-epochs", "1"]
        losses = set()
        for number, options in enumerate(views):
            with self.subTest(options):
                task = ["--data", "table", "--model", "linear 3"] if "table" in options else images
                self.compare(str(number), *task, *common, *[word for word in options if word != "table"])
                seen = [[(entry["round"], entry["model"], entry["client"], entry["samples"], entry["loss"]) for entry in self.metrics(f"{number}-{run}")
                         if entry["type"] == "client_evaluation"] for run in ("cpu", "1", "3")]
                self.assertEqual(sorted(seen[1]), sorted(seen[2]))
                for (*one, cpu), (*other, card) in zip(*map(sorted, seen[:2]), strict=True):
                    self.assertEqual(one, other)
                    self.assertAlmostEqual(cpu, card, delta=1e-3)
                cpu, card = ([(entry.get("concept"), entry.get("attack_success"), entry.get("attackers")) for entry in self.rounds(f"{number}-{run}")] for run in ("cpu", "1"))
                self.assertEqual(cpu, card)
                by_class = [self.summary(f"{number}-{run}").get("test_accuracy_by_class") for run in ("cpu", "1")]
                self.assertEqual(by_class[0], by_class[1])
                self.assertIsNotNone(by_class[0])
                losses.add(self.rounds(f"{number}-1")[-1]["train_loss"])
        self.assertEqual(len(losses), len(views)) # each view shows

    def test_false_labels_and_marks_are_those_of_the_cpu(self):
        attackers = ["--attackers", "0,3"]
        self.compare_views([], ["--attack", "label-flip from=1 to=4", *attackers], ["--attack", "label-flip", "--algorithm", "multi-krum chosen=3", *attackers],
                           ["--attack", "backdoor 3 size=2 fraction=0.3", *attackers], ["--attack", "backdoor 3 size=2 factor=3", "--random-flip", *attackers],
                           ["table", "--attack", "label-flip", *attackers])

    def test_drifts_are_those_of_the_cpu(self):
        self.compare_views([], ["--drift", "labels round=2 period=1"], ["--drift", "classes round=2"], ["--drift", "pixels round=2 period=1 step=3"],
                           ["--drift", "labels round=2 change=gradual period=3", "--attack", "label-flip", "--attackers", "1,4"],
                           ["--drift", "classes round=2", "--attack", "backdoor 1", "--attackers", "1"], ["table", "--drift", "labels round=2"])

    def test_a_launch_has_room_for_samples_that_two_clients_hold_in_a_gradual_drift(self):
        options = ["--data", "synthetic:1x4x4:400:60", "--model", "softmax", "--clients", "4", "--partition", "exponential", "--rounds", "2", "--batch-size", "8", "--seed", "2",
                   "--drift", "classes round=1 period=2 change=gradual"]
        for device, workers in (("cpu", "2"), ("cuda", "1")):
            self.train(*options, "--device", device, "--workers", workers, "--out", device)
        for cpu, card in zip(self.rounds("cpu"), self.rounds("cuda"), strict=True):
            self.assertEqual(cpu["samples"], card["samples"])
            self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
        self.assertGreater(self.rounds("cuda")[0]["samples"], 400)

    def test_noise_is_that_of_the_cpu(self):
        self.compare_views([], ["--client-noise", "gaussian 0.4"], ["--client-noise", "block 0.7"], ["table", "--client-noise", "gaussian 0.4"],
                           ["--client-noise", "gaussian 0.4", "--drift", "pixels round=3", "--algorithm", "fedprox"])

    def test_a_validation_set_that_is_larger_than_all_that_clients_train_on_drifts_with_the_test_set(self):
        options = ["--data", "synthetic:1x8x8:3000:60", "--model", "softmax", "--clients", "3", "--rounds", "3", "--validation", "0.9", "--drift", "labels round=2"]
        for device, workers in (("cpu", "2"), ("cuda", "1")):
            self.train(*options, "--device", device, "--workers", workers, "--out", device)
        for figure in "validation_loss", "test_loss", "best_model_test_loss":
            self.assertAlmostEqual(self.summary("cpu")[figure], self.summary("cuda")[figure], delta=1e-4)

    def test_lockstep_takes_targets_too(self):
        self.write_table("targets", "target", [(i % 7 / 7, i % 5 / 5, i % 3 / 3, 1) for i in range(90)])
        self.compare("ssgd", "--data", "targets", "--model", "linear 1", "--clients", "3", "--rounds", "3", "--batch-size", "8", "--lr", "0.1", "--algorithm", "ssgd")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
