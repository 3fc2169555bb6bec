"""What clients are worth (sounder worth): leave-one-out and Shapley values, from runs without some clients.

Usage: test_worth.py PATH_OF_SOUNDER [unittest arguments]
"""
import glob, itertools, json, math, os, random, signal, subprocess, unittest

from runs import DEADLINE, OWN_SESSION, SOUNDER, RunCase, merged, wait_until

CLASSES, WIDTH, EACH = 4, 8, 60
TASK = ["--data", "own", "--model", "softmax", "--partition", "natural-id", "--batch-size", "10", "--lr", "0.1", "--rounds", "4", "--quiet",
        "--device", "cpu"]


class Worth(RunCase):
    def write(self, clients, random_labels=(), flipped=()):
        """CSV: each client has samples of all classes; the labels of some clients are random, of some the mirror image of the right ones."""
        draw = random.Random(1)
        centers = [[draw.gauss(0, 1) for _ in range(WIDTH)] for _ in range(CLASSES)]
        def row(client):
            label = draw.randrange(CLASSES)
            pixels = [center + draw.gauss(0, 1.2) for center in centers[label]]
            told = draw.randrange(CLASSES) if client in random_labels else CLASSES - 1 - label if client in flipped else label
            return ",".join([f"{value:.3f}" for value in pixels] + [str(told), str(client)])
        os.mkdir(self.path("own"))
        head = ",".join([f"x{i}" for i in range(WIDTH)] + ["label", "client"])
        for name, rows in (("train", [row(client) for client in range(clients) for _ in range(EACH)]), ("test", [row(-1) for _ in range(400)])):
            with open(self.path("own", name + ".csv"), "w") as file:
                file.write("\n".join([head, *rows]) + "\n")

    def worth(self, *options, code=0):
        return self.call("worth", *options, code=code)

    def told(self, *options):
        return {row["client"]: row for row in json.loads(self.worth(*options, "--format", "json")[0])}

    def test_values_are_those_of_all_coalitions_of_three_clients(self):
        self.write(3, random_labels=[1])
        self.train(*TASK, "--out", "run")
        value = {}
        for size in range(4):
            for absent in itertools.combinations(range(3), size):
                self.train(*TASK, *(["--without", "all" if size == 3 else ",".join(map(str, absent))] if absent else []), "--out", f"run{absent}")
                value[frozenset(range(3)) - set(absent)] = self.rounds(f"run{absent}")[-1]
        for figure, key, factor, unit in (("accuracy", "test_accuracy", 100, "percent"), ("loss", "test_loss", -1, "loss")):
            of = {those: factor * entry[key] for those, entry in value.items()}
            out, _ = self.worth("run", "--samples", "6", "--figure", figure)
            self.assertIn("from all 8 coalitions, exact", out)
            self.assertTrue(out.endswith("\nfor this seed alone\n"), out)
            told = self.told("run", "--samples", "6", "--figure", figure)
            for client in range(3):
                exact = sum(math.factorial(len(those)) * math.factorial(2 - len(those)) / 6 * (of[those | {client}] - of[those])
                            for those in of if client not in those)
                self.assertAlmostEqual(told[client][f"shapley_{unit}"], exact, places=7)
                self.assertEqual(told[client][f"shapley_standard_error_{unit}"], 0)
                self.assertAlmostEqual(told[client][f"leave_one_out_{unit}"], of[frozenset(range(3))] - of[frozenset(range(3)) - {client}], places=7)
            self.assertAlmostEqual(sum(row[f"shapley_{unit}"] for row in told.values()), of[frozenset(range(3))] - of[frozenset()], places=7)
        sampled = self.told("run", "--samples", "2")  # they sum to the same
        self.assertAlmostEqual(sum(row["shapley_percent"] for row in sampled.values()), sum(row["shapley_percent"] for row in self.told("run", "--samples", "6").values()), places=7)
        self.assertTrue(any(row["shapley_standard_error_percent"] > 0 for row in sampled.values()))

    def test_other_data_than_the_runs_are_refused_by_all_that_train_it_again(self):
        self.write(3)
        self.train(*TASK, "--out", "run")
        with open(self.path("own/train.csv")) as file:
            text = file.read()
        with open(self.path("own/train.csv"), "w") as file:
            file.write(text.replace(",1,0\n", ",2,0\n", 1))
        said = r"error: run: the data set is not what the run began with \(.*XXH3 [0-9a-f]{16} then, [0-9a-f]{16} now\); give it back"
        self.assertRegex(self.worth("run", code=64)[1], said)
        self.assertFalse(os.path.exists(self.path("worth")))
        self.assertRegex(self.call("replay", "run", "--round", "3", "--client", "0", code=65)[1], said)
        self.assertRegex(self.call("export", "run", "--federation", "out", code=65)[1], said)

    def test_a_worthless_and_a_harmful_client_of_ten_are_last(self):
        self.write(10, random_labels=[2], flipped=[6])
        self.train(*TASK, "--out", "run")
        out, _ = self.worth("run", "--samples", "8", "--figure", "loss")
        table = [line.split() for line in out.split("leave-one-out\n")[1].split("\n\n")[0].splitlines()]
        self.assertEqual([line[0] for line in table][-2:], ["2", "6"])
        # As many runs as sounder help worth says: N (clients - 2) + clients + 1, of which one order has no two alike.
        self.assertIn("at most N (clients - 2) + clients + 1 for N orders", " ".join(self.call("help", "worth")[0].split()))
        self.assertEqual(self.worth("run", "--samples", "1", "--dry-run", "--out", "one")[0].count("--without"), 1 * 8 + 10 + 1)
        self.assertLess(float(table[-1][1]), 0)
        self.assertIn("not truncated", out)
        self.assertTrue(out.endswith("for this seed alone: the standard error is over the orders of the clients, not over seeds\n"), out)
        alone, _ = self.worth("run", "--samples", "0", "--figure", "loss")
        self.assertEqual([line.split()[0] for line in alone.split("leave-one-out\n")[1].split("\n\n")[0].splitlines()][-2:], ["2", "6"])

    def test_a_worth_that_was_interrupted_trains_what_is_not_done(self):
        self.write(6)
        self.train(*TASK, "--without", "5", "--out", "run")
        whole, _ = self.worth("run", "--samples", "4", "--out", "whole")
        self.assertNotIn("\n     5  ", whole)  # the run itself is without it
        process = subprocess.Popen([SOUNDER, "worth", "run", "--samples", "4", "--parallel", "1"], cwd=self.folder.name, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **OWN_SESSION)
        self.started.append(process)
        wait_until(lambda: os.path.isdir(self.path("worth", "run")) and len(os.listdir(self.path("worth", "run"))) > 2)
        process.send_signal(signal.SIGINT)
        out, _ = self.finish(process, process.wait(timeout=DEADLINE))
        if process.returncode:  # it was not faster than the signal
            self.assertEqual(process.returncode, 128 + signal.SIGINT)
            self.assertIn("to continue, repeat the command with --out worth/run", out)
            err = self.worth("run", "--samples", "4", "--format", "json", code=64)[1]
            self.assertRegex(err, r"\d+ of \d+ runs in worth/run are not done; sounder worth run --samples 4 --out worth/run does them")
        again, _ = self.worth("run", "--samples", "4")
        self.assertEqual(again.split("\n\n")[1], whole.split("\n\n")[1])

    def test_coalitions_of_scaffold_and_feddyn_are_federations_of_their_own(self):
        """Full batches, so that no draw depends on a client's number: each coalition is trained on data without the other clients."""
        self.write(3)
        full = ["--batch-size", "100", "--local-epochs", "3", "--lr", "0.3"]
        with open(self.path("own", "train.csv")) as file:
            head, *rows = file.read().splitlines()
        for algorithm in ("scaffold", "feddyn"):
            self.train(*merged(*TASK, *full, "--algorithm", algorithm), "--out", algorithm)
            value = {}
            for size in range(4):
                for those in itertools.combinations(range(3), size):
                    folder = f"{algorithm}-of-{''.join(map(str, those))}"
                    kept = [row for row in rows if int(row.rsplit(",", 1)[1]) in those]
                    os.mkdir(self.path(folder + "-data"))
                    with open(self.path(folder + "-data", "train.csv"), "w") as file:
                        file.write("\n".join([head, *(kept or rows)]) + "\n")
                    os.link(self.path("own", "test.csv"), self.path(folder + "-data", "test.csv"))
                    self.train(*merged(*TASK, *full, "--algorithm", algorithm, "--data", folder + "-data", *([] if kept else ["--without", "all"])), "--out", folder)
                    value[frozenset(those)] = -self.rounds(folder)[-1]["test_loss"]
            self.worth(algorithm, "--samples", "6", "--figure", "loss")
            told = self.told(algorithm, "--samples", "6", "--figure", "loss")
            for client in range(3):
                exact = sum(math.factorial(len(those)) * math.factorial(2 - len(those)) / 6 * (value[those | {client}] - value[those])
                            for those in value if client not in those)
                self.assertAlmostEqual(told[client]["shapley_loss"], exact, places=5)

    def test_coalitions_that_are_too_small_for_a_rule_are_counted(self):
        self.write(3)
        self.train(*merged(*TASK, "--algorithm", "krum byzantine=0", "--rounds", "2"), "--out", "run")
        _, err = self.worth("run", "--samples", "6")
        self.assertIn("6 of 7 coalitions learned nothing, since in each round too few of their clients arrived for --algorithm krum byzantine=0", err)
        self.assertEqual([line["abandoned"] for line in self.rounds("run")], [False, False])
        pair = glob.glob(self.path("worth", "run", "*2*"))[0]
        self.assertEqual([line["abandoned"] for line in self.rounds(pair)], [True, True])

    def test_a_run_that_patience_ends_early_has_a_worth(self):
        self.write(2)
        self.train(*TASK, "--lr", "1e-9", "--rounds", "30", "--patience", "1", "--out", "run")
        self.assertLess(len(self.rounds("run")), 30)
        self.assertIn("from all 4 coalitions, exact", self.worth("run")[0])

    def test_what_has_no_worth_is_refused(self):
        self.write(3)
        self.train(*TASK, "--out", "run")
        os.remove(self.path("run", "model.safetensors"))
        for options, sentence in ((["nothing"], "nothing"), (["run", "run"], "one run alone"), (["run", "--figure", "f1"], "needs auto, accuracy or loss")):
            with self.subTest(options):
                self.assertIn(sentence, self.call("worth", *options, code=66 if options == ["nothing"] else 64)[1])
        self.train(*TASK, "--algorithm", "fedasync", "--out", "late")
        self.assertIn("give --samples 0", self.worth("late", code=64)[1])
        self.assertIn("leave-one-out", self.worth("late", "--samples", "0")[0])
        self.train(*TASK, "--algorithm", "fedasync", "--clock", "real", "--out", "real")
        self.assertIn("give one with --clock simulated", self.worth("real", "--samples", "0", code=64)[1])
        self.train(*TASK, "--algorithm", "ssgd", "--out", "steps")
        self.assertIn("only used with an --algorithm with rounds", self.worth("steps", code=64)[1])


if __name__ == "__main__":
    unittest.main(argv=[__file__, *__import__("sys").argv[2:]])
