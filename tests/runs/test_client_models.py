"""The model of one client: sounder eval RUN --client K, sounder export RUN --client K.

Usage: test_client_models.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import json, os, random, unittest

import test_zoo
from runs import SANITIZED, SOUNDER, RunCase, merged, parse_safetensors, sha256

ON_CARD = "emulated" in os.path.basename(SOUNDER)
CLASSES, WIDTH, EACH, TESTS, CLIENTS = 4, 8, 60, 30, 6
TASK = ["--data", "own", "--model", "linear 8; layernorm; relu; linear 4", "--batch-size", "10", "--lr", "0.05", "--rounds", "4", "--quiet",
        "--tensorboard=false", "--eval-clients-every", "1", "--clients-per-round", "3", "--device", "cuda" if ON_CARD else "cpu"]
OWN = ["fedper", "fedrep", "lg-fedavg", "fedbn", "ditto", "pfedme", "apfl", "ifca", "fedbabu", "local-only"]


class ClientModels(RunCase):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        def row(client):
            label = draw.randrange(CLASSES)  # each client's classes have centers of their own
            pixels = [random.Random(10 * client + label).gauss(0, 1) + random.Random(label * 100 + i).gauss(0, 1) + draw.gauss(0, 1) for i in range(WIDTH)]
            return ",".join([f"{value:.3f}" for value in pixels] + [str(label), str(client)])
        self.rows = {"train": {client: [row(client) for _ in range(EACH)] for client in range(CLIENTS)},
                     "test": {client: [row(client) for _ in range(TESTS)] for client in range(CLIENTS)}}
        self.write("own", range(CLIENTS))

    def write(self, folder, clients):
        """The samples of these clients."""
        os.mkdir(self.path(folder))
        head = ",".join([f"x{i}" for i in range(WIDTH)] + ["label", "client"])
        for name, rows in self.rows.items():
            with open(self.path(folder, name + ".csv"), "w") as file:
                file.write("\n".join([head] + [line for client in clients for line in rows[client]]) + "\n")

    def last(self, run, model):
        lines = [entry for entry in self.metrics(run) if entry["type"] == "client_evaluation" and entry["model"] == model]
        return {entry["client"]: entry for entry in lines if entry["round"] == lines[-1]["round"]}

    def files(self, run):
        return {name: sha256(os.path.join(folder, name)) for folder, _, names in os.walk(self.path(run)) for name in names}

    def test_a_client_s_own_model_is_as_good_as_the_run_says_on_its_own_samples(self):
        for client in range(CLIENTS):
            self.write(f"of{client}", [client])
        for algorithm in OWN[::3] if SANITIZED else OWN:
            if ON_CARD and (algorithm, "card") in test_zoo.REASONS:
                continue
            with self.subTest(algorithm):
                self.train(*TASK, "--algorithm", algorithm, "--out", algorithm)
                before = self.files(algorithm)
                trained = {entry["client"] for entry in self.metrics(algorithm) if entry["type"] == "client"}
                for client, told in self.last(algorithm, "personal").items():
                    found = json.loads(self.call("eval", algorithm, "--client", str(client), "--json")[0])
                    self.assertEqual((found["client"], found["round"], found["model"], found["samples"]), (client, 4, "personal", TESTS))
                    self.assertEqual(found["data"], "client's test samples")
                    self.assertAlmostEqual(found["loss"], told["loss"], places=4 if ON_CARD else 8)
                    self.assertEqual(self.files(algorithm), before)  # no file of the run has changed
                    if client not in (0, 3):
                        continue
                    out, _ = self.call("export", algorithm, "--client", str(client), "--out", f"{algorithm}-{client}.safetensors")
                    self.assertIn(f"model: {algorithm}-{client}.safetensors\n", out)
                    answer = json.loads(self.call("eval", f"{algorithm}-{client}.safetensors", "--data", f"of{client}", "--json", "--device", "cpu")[0])
                    self.assertAlmostEqual(answer["test_accuracy"], found["accuracy"], places=8)
                    self.assertAlmostEqual(answer["test_loss"], found["loss"], places=6)
                    if not ON_CARD:
                        self.assertEqual(found["hits"], told["hits"])
                    if algorithm not in ("ifca", "fedbabu"):
                        self.assertEqual(found["trained"], client in trained)

    @unittest.skipIf(ON_CARD, "the same code")
    def test_what_is_not_the_client_s_own_is_the_global_model_s(self):
        self.train(*TASK, "--algorithm", "fedper", "--out", "fedper")
        self.train("--resume", "fedper", "--rounds", "5")  # a run can go on after it was looked into
        self.call("export", "fedper", "--client", "2")
        with open(self.path("notes.txt"), "w") as file:
            file.write("an afternoon's work")
        _, err = self.call("export", "fedper", "--client", "2", "--out", "notes.txt", code=73)
        self.assertIn("notes.txt is a file of another kind, which would be lost; name a new file, or remove that one", err)
        _, own = self.tensors("fedper", "client-2.safetensors")
        _, shared = self.tensors("fedper", "model.safetensors")
        self.assertEqual({name for name in own if own[name] != shared[name]}, {name for name in own if name.startswith("fc2")})

    def tensors(self, *path):
        with open(self.path(*path), "rb") as file:
            return parse_safetensors(file.read())

    @unittest.skipIf(ON_CARD, "the same code")
    def test_the_model_that_a_client_keeps_is_the_one_of_its_last_turn(self):
        self.write("of", [3])
        for algorithm, options in (("easgd", ["--clients-per-round", "6"]), ("moon", ["--clients-per-round", "6"])):
            with self.subTest(algorithm):
                task = merged(*TASK, *options, "--algorithm", algorithm)
                self.train(*task, "--out", algorithm)
                self.train(*merged(*task, "--rounds", "3"), "--out", algorithm + "3")
                self.call("replay", algorithm, "--round", "4", "--client", "3", "--out", "update.safetensors")
                self.call("export", algorithm, "--client", "3", "--out", "kept.safetensors")
                (_, before), (_, update), (_, kept) = self.tensors(algorithm + "3", "model.safetensors"), self.tensors("update.safetensors"), self.tensors("kept.safetensors")
                for name, (_, values) in kept.items():
                    for value, was, more in zip(values, before[name][1], update[name][1]):
                        self.assertAlmostEqual(value, was + more, places=5)
                found = json.loads(self.call("eval", algorithm, "--client", "3", "--json")[0])
                self.assertEqual((found["model"], found["trained"]), ("kept", True))
                self.assertNotEqual(found["loss"], self.last(algorithm, "global")[3]["loss"])
                answer = json.loads(self.call("eval", "kept.safetensors", "--data", "of", "--json", "--device", "cpu")[0])
                self.assertEqual(answer["hits"], found["hits"])

    @unittest.skipIf(ON_CARD, "the same code")
    def test_a_loss_that_json_has_no_number_for_is_null(self):
        os.mkdir(self.path("far"))
        for name in ("train", "test"):
            with open(self.path("far", name + ".csv"), "w") as file:
                file.write("x0,target,client\n" + "".join(f"{i / 40 if name == 'train' else 3e38},{100 * i},{i % 2}\n" for i in range(40)))
        self.train("--data", "far", "--model", "linear 1", "--rounds", "2", "--lr", "0.1", "--eval-clients-every", "2", "--quiet", "--device", "cpu", "--out", "run")
        told = self.last("run", "global")[1]
        self.assertIsNone(told["loss"])
        self.assertIn('"samples":20,"loss":null}', self.call("eval", "run", "--client", "1", "--json")[0])

    @unittest.skipIf(ON_CARD, "the same code")
    def test_an_algorithm_without_such_models_tests_the_global_one_and_exports_none(self):
        self.train(*TASK, "--out", "run")
        told = self.last("run", "global")[3]
        out, _ = self.call("eval", "run", "--client", "3")
        self.assertEqual(out, f"client 3 after 4 rounds, the global model: loss {told['loss']:.4f}, {told['hits']} of {TESTS} test samples right: "
                              f"{100 * told['accuracy']:.2f}%\n")
        self.assertIn("--algorithm fedavg trains one model for all clients, which is model.safetensors", self.call("export", "run", "--client", "3", code=64)[1])
        for arguments, sentence, code in ((["eval", "run", "--client", "6"], "--client 6: run has clients from 0 to 5", 64),
                                          (["eval", "run", "--client", "3", "--confusion"], "--client 3 does not go with --confusion", 64),
                                          (["eval", "own", "--client", "3"], "needs the folder of a run, and own has no config.yaml", 66),
                                          (["export", "run", "--client", "3", "--federation", "x"], "leave one out", 64),
                                          (["export", "run", "--out", "x"], "--out x: only used with --client", 64),
                                          (["train", "--client", "3"], "--client", 64)):
            with self.subTest(arguments):
                self.assertIn(sentence, self.call(*arguments, code=code)[1])
        self.train("--data", "own", "--model", "softmax", "--algorithm", "hogwild", "--workers", "1", "--rounds", "1", "--quiet", "--device", "cpu", "--out", "wild")
        with open(self.path("named.csv"), "w") as file:
            file.write("x,label,site\n" + "".join(f"{i % 5},{i % 2},{('Ulm', '10', 'Bonn')[i % 3]}\n" for i in range(60)))
        self.train("--data", "named.csv client=site", "--model", "softmax", "--rounds", "1", "--quiet", "--device", "cpu", "--out", "named")
        for typed, number, shown in (("Bonn", 1, "Bonn"), ("10", 0, "10"), ("2", 2, "Ulm")):
            self.assertEqual(json.loads(self.call("eval", "named", "--client", typed, "--json")[0])["client"], number)
            self.assertIn(f"client {shown} after 1 rounds", self.call("eval", "named", "--client", typed)[0])
        self.assertIn("--client Bon: named has no such client; did you mean Bonn?", self.call("eval", "named", "--client", "Bon", code=64)[1])
        self.assertIn("no client of --algorithm hogwild trains on its own", self.call("eval", "wild", "--client", "0", code=64)[1])


if __name__ == "__main__":
    unittest.main(argv=[__file__, *__import__("sys").argv[2:]])
