"""Clients that never train (--new-clients): nobody draws them, and they are tested beside the others.

Usage: test_new_clients.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import json, os, random, subprocess, unittest

from runs import DEADLINE, NOISE_KEY, SOUNDER, RunCase, merged
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

ON_CARD = "emulated" in os.path.basename(SOUNDER)
CLASSES, WIDTH, EACH = 4, 8, 60
TASK = ["--model", "softmax", "--partition", "natural-id", "--batch-size", "10", "--lr", "0.1", "--rounds", "5", "--quiet", "--client-test", "0.25",
        "--tensorboard=false", "--device", "cuda" if ON_CARD else "cpu"]


class NewClients(RunCase):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        centers = [[draw.gauss(0, 1) for _ in range(WIDTH)] for _ in range(CLASSES)]
        def row(client):
            label = draw.randrange(CLASSES)
            return ",".join([f"{center + draw.gauss(0, 1.2):.3f}" for center in centers[label]] + [str(label), str(client)])
        head = ",".join([f"x{i}" for i in range(WIDTH)] + ["label", "client"])
        sizes = [EACH] * 8 + [3 * EACH] * 2  # the mean of the eight is not that of the ten
        rows, tests = [row(client) for client, size in enumerate(sizes) for _ in range(size)], [row(0) for _ in range(200)]
        for folder, clients in (("ten", 10), ("eight", 8)):
            os.mkdir(self.path(folder))
            for name, lines in (("train", rows[:sum(sizes[:clients])]), ("test", tests)):
                with open(self.path(folder, name + ".csv"), "w") as file:
                    file.write("\n".join([head, *lines]) + "\n")

    def one(self, run, *options, code=0):
        return self.train(*merged(*TASK, *options), "--out", run, code=code)

    def hits_of(self, run, *models):
        """(client, hits) of the last tests of single clients."""
        lines = [entry for entry in self.metrics(run) if entry["type"] == "client_evaluation" and entry["model"] in models]
        return {(entry["model"], entry["client"]): entry["hits"] for entry in lines if entry["round"] == lines[-1]["round"]}

    def test_they_are_never_drawn_and_the_others_are_as_if_they_were_all(self):
        kinds = [["--clients-per-round", "3"], ["--sampling", "poisson", "--clients-per-round", "3"], ["--algorithm", "scaffold", "--clients-per-round", "3"], ["--algorithm", "feddyn scaled=yes", "--clients-per-round", "3"],
                 ["--algorithm", "dp-fedavg noise=0.3", "--noise-key", NOISE_KEY, "--sampling", "poisson", "--clients-per-round", "4"], ["--sampling", "by-size", "--clients-per-round", "3"],
                 ["--sampling", "cyclic shuffle=yes", "--clients-per-round", "3"], ["--sampling", "available probability=0.6", "--clients-per-round", "3"],
                 ["--sampling", "power-of-choice", "--clients-per-round", "3"]]
        if not ON_CARD:
            kinds += [["--algorithm", "fedbuff K=2", "--clients-per-round", "4", "--client-time", "lognormal"], ["--algorithm", "afl"], ["--algorithm", "easgd"]]
        for number, options in enumerate(kinds):
            with self.subTest(options):
                self.one(f"ten{number}", "--data", "ten", "--new-clients", "8,9", *options)
                self.one(f"eight{number}", "--data", "eight", *options)
                self.assertEqual(self.bits(f"ten{number}"), self.bits(f"eight{number}"))
                self.assertFalse([entry for entry in self.metrics(f"ten{number}") if entry["type"] == "client" and entry["client"] > 7])
                keys = ("epsilon", "clients_drawn")
                self.assertEqual(*([[entry.get(key) for key in keys] for entry in self.rounds(run + str(number))] for run in ("ten", "eight")))

    def test_without_clients_a_run_is_that_of_the_others_whatever_its_rule_counts(self):
        kinds = [["--algorithm", "scaffold"], ["--algorithm", "feddyn scaled=yes"], ["--class-weights", "balanced"], ["--deadline", "1", "--client-time", "lognormal"],
                 ["--algorithm", "dp-adaptive noise=0 count-noise=0"]]
        if not ON_CARD:
            kinds += [["--algorithm", "easgd"], ["--algorithm", "secagg threshold=0.9"], ["--sampling", "power-of-choice by=last"]]
        keys = ("test_loss", "down_bytes", "up_bytes", "simulated_seconds", "clients_drawn", "clients_dropped_out", "abandoned")
        for number, options in enumerate(kinds):
            with self.subTest(options):
                self.one(f"ten{number}", "--data", "ten", "--without", "8,9", "--eval-clients-every", "1", *options)
                self.one(f"eight{number}", "--data", "eight", "--eval-clients-every", "1", *options)
                self.assertEqual(self.bits(f"ten{number}"), self.bits(f"eight{number}"))
                self.assertEqual(*([[entry.get(key) for key in keys] for entry in self.rounds(run + str(number))] for run in ("ten", "eight")))
                self.assertEqual(*([{**entry, "time": 0} for entry in self.metrics(run + str(number)) if entry["type"] == "clients_evaluation"]
                                   for run in ("ten", "eight")))

    def test_their_tests_are_those_of_the_same_model_on_their_samples(self):
        every = ["--eval-clients-every", "1", "--finetune-epochs", "2", "--data", "ten"]
        self.one("new", *every, "--new-clients", "2,5")
        self.one("absent", *every, "--without", "2,5")  # all are drawn, so that the model is the same
        self.assertEqual(self.model("new"), self.model("absent"))
        told, absent = self.hits_of("new", "new", "new-fine-tuned", "global", "fine-tuned"), self.hits_of("absent", "global", "fine-tuned")
        self.assertEqual({key: hits for key, hits in told.items() if not key[0].startswith("new")}, absent)  # absent ones are not tested
        for client in (2, 5) if not ON_CARD else ():
            self.assertEqual(told["new", client], json.loads(self.call("eval", "absent", "--client", str(client), "--json")[0])["hits"])
        self.assertEqual({key for key in told if key[0].startswith("new")}, {(model, client) for model in ("new", "new-fine-tuned") for client in (2, 5)})
        last, size = self.rounds("new")[-1], EACH * 0.25
        self.assertAlmostEqual(last["new_clients_accuracy"], (told["new", 2] + told["new", 5]) / 2 / size)
        self.assertAlmostEqual(last["new_clients_finetuned_accuracy"], (told["new-fine-tuned", 2] + told["new-fine-tuned", 5]) / 2 / size)
        self.assertEqual(self.metrics("new")[-1]["new_clients_accuracy"], last["new_clients_accuracy"])

    def test_a_share_is_chosen_by_the_seed_and_a_resumed_run_has_the_same(self):
        out, _ = self.train(*[word for word in merged(*TASK, "--data", "ten", "--new-clients", "0.3", "--finetune-epochs", "1") if word != "--quiet"], "--out", "whole")
        self.assertIn("7 of 10 clients", out)
        self.assertRegex(out, r"after 5 rounds, [0-9.]+ s  new clients [0-9.]+%, [0-9.]+% fine-tuned\n")
        self.one("part", "--data", "ten", "--new-clients", "0.3", "--finetune-epochs", "1", "--rounds", "2")
        self.train("--resume", "part", "--rounds", "5")
        self.assertEqual(self.model("part"), self.model("whole"))
        self.assertEqual(self.hits_of("part", "new"), self.hits_of("whole", "new"))
        self.one("other", "--data", "ten", "--new-clients", "0.3", "--seed", "2")
        self.assertNotEqual({client for _, client in self.hits_of("other", "new")}, {client for _, client in self.hits_of("whole", "new")})
        self.assertIn("has 0.3", self.train("--resume", "part", "--rounds", "6", "--new-clients", "0.2", code=64)[1])
        (row,) = json.loads(self.call("runs", "whole", "--format", "json")[0])
        self.assertAlmostEqual(row["new_clients_percent"], 100 * self.rounds("whole")[-1]["new_clients_accuracy"])

    @unittest.skipIf(ON_CARD or why_no_nodes(), "on the CPU, where mpirun is")
    def test_two_nodes_have_the_bits_and_tests_of_one(self):
        options = merged(*TASK, "--data", "ten", "--new-clients", "0.3", "--finetune-epochs", "1", "--clients-per-round", "4", "--workers", "1")
        self.train(*options, "--out", "one")
        subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *options, "--out", "two"], cwd=self.folder.name, check=True, capture_output=True,
                       env=ENVIRONMENT, timeout=DEADLINE)
        keys = ("model_xxh3", "new_clients_loss", "new_clients_finetuned_loss")
        self.assertEqual(*([[entry[key] for key in keys] for entry in self.rounds(run)] for run in ("one", "two")))

    @unittest.skipIf(ON_CARD, "refused before a device is found")
    def test_what_leaves_none_to_train_or_shows_their_samples_is_refused(self):
        for options, sentence in ((["--new-clients", "0-9"], "those are all 10 clients, and none would train; lower it"),
                                  (["--new-clients", "11"], "needs a part of the clients, with a point: 0.2, or clients from 0 to 9: 3,7"),
                                  (["--new-clients", "0.05"], "of 10 clients that is none"),
                                  (["--new-clients", "0.5", "--clients-per-round", "6"], "there are only 5 clients beside the new ones"),
                                  (["--new-clients", "0.5", "--algorithm", "ssgd"], "only used with an --algorithm with rounds"),
                                  (["--new-clients", "0.5", "--algorithm", "fltrust"], "its server trains on samples of all clients"),
                                  (["--new-clients", "0.5", "--drift", "classes"], "take labels or pixels"),
                                  (["--new-clients", "5-9", "--without", "all", "--algorithm", "fedbuff"],
                                   "schedule buffered would wait for ever: 0 clients can arrive, and it needs 1; leave more in"),
                                  (["--new-clients", "2,5-7", "--attackers", "5-6", "--attack", "sign-flip"],
                                   "all of them are new clients (--new-clients 2,5-7), which never train; name others")):
            with self.subTest(options):
                self.assertIn(sentence, self.one("refused", "--data", "ten", *options, code=64)[1])
        _, err = self.one("trained-on", "--data", "ten", "--client-test", "0", "--partition", "iid", "--clients", "10", "--new-clients", "0.2", "--finetune-epochs", "1")
        self.assertIn("fine-tuned on the samples that they are tested on; give --client-test 0.2", err)


if __name__ == "__main__":
    unittest.main(argv=[__file__, *__import__("sys").argv[2:]])
