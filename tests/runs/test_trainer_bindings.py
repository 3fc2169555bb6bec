"""The commands around trainers: the record of their files, sounder eval, replay and diff, several nodes, and runs from Python.

Usage: test_trainer_bindings.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import json, os, sys, unittest

from runs import SOUNDER, parse_safetensors
from test_nodes import NodesCase, can_run as why_no_nodes
from trainers import JOB, NUMPY, PACKAGE, TrainerCase

sys.path.insert(0, PACKAGE)
os.environ["SOUNDER"] = SOUNDER
import sounder


class Records(TrainerCase):
    def hashed(self, run):
        return self.metrics(run)[0]["trainer_xxh3"]

    def test_the_hash_is_of_the_program_and_its_own_modules(self):
        os.makedirs(self.path("lib", "site-packages"))
        self.write("trainer.py", NUMPY.replace("import numpy as np, sounder", "import numpy as np, sounder, helper; sys.path.append('lib/site-packages'); import foreign"))
        for path in ("helper.py", "lib/site-packages/foreign.py", "other.py"):
            with open(self.path(path), "w") as file:
                file.write("x = 1\n")
        self.run_with("first")
        self.run_with("again")
        self.assertRegex(self.hashed("first"), "^[0-9a-f]{16}$")
        self.assertEqual(self.hashed("again"), self.hashed("first"))
        for path in ("lib/site-packages/foreign.py", "other.py"):
            with open(self.path(path), "a") as file:
                file.write("x = 2\n")
        self.run_with("foreign")
        self.assertEqual(self.hashed("foreign"), self.hashed("first"))
        with open(self.path("helper.py"), "a") as file:
            file.write("x = 2\n")
        self.run_with("helper")
        self.assertNotEqual(self.hashed("helper"), self.hashed("first"))

    def test_diff_names_another_program(self):
        self.run_with("first")
        self.write("trainer.py", NUMPY.replace("velocity = {}", "velocity = {}; turn.lr /= 2"))
        self.run_with("other")
        out, _ = self.call("diff", "first", "other", code=1)
        self.assertRegex(out, f"the files of its trainer .XXH3.: {self.hashed('first')}, {self.hashed('other')}")

    def test_a_run_is_resumed_with_its_own_program_unless_it_is_named_again(self):
        self.run_with("run")
        self.write("trainer.py", NUMPY + "# a comment\n")
        _, err = self.train("--resume", "run", "--rounds", "3", "--quiet", code=65)
        self.assertRegex(err, "the files of its trainer are not what the run began with .XXH3 [0-9a-f]{16} then, [0-9a-f]{16} now.; give them back, "
                              "or name the program again to continue with other bits: --trainer '")
        _, err = self.train("--resume", "run", "--rounds", "3", "--quiet", "--trainer", f"{sys.executable} trainer.py")
        self.assertIn("continues with other files of its trainer", err)
        _, err = self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.assertEqual(err, "")
        self.assertEqual(len(self.rounds("run")), 4)

    def test_a_resumed_run_finds_its_program_from_any_folder(self):
        self.run_with("whole", "--rounds", "3")
        self.run_with("parts")
        os.mkdir(self.path("elsewhere"))
        self.call("train", "--resume", self.path("parts"), "--rounds", "3", "--quiet", folder="elsewhere")
        self.assertEqual(self.model("parts"), self.model("whole"))
        starts = [row for row in self.metrics("parts") if row["type"] == "start"]
        self.assertEqual({os.path.realpath(row["trainer_folder"]) for row in starts}, {os.path.realpath(self.folder.name)})

    def test_words_of_other_programs_lead_to_the_trainer(self):
        for word in ("client-app", "script", "entry-point", "train-fn"):
            _, err = self.train(*JOB, f"--{word}", "python3 trainer.py", "--out", "none", code=64)
            self.assertIn(f"--{word}: unknown option; did you mean --trainer?", err)


@unittest.skipIf(why_no_nodes(), why_no_nodes())
class Nodes(NodesCase, TrainerCase):
    OPTIONS = [*JOB, "--workers", "1", "--trainer", f"{sys.executable} trainer.py"]

    def test_two_nodes_have_the_bits_of_one(self):
        for name, algorithm in (("fedavg", "fedavg"), ("scaffold", "scaffold")):
            self.run_with(f"one-{name}", "--algorithm", algorithm)
            self.train_nodes(2, *self.OPTIONS, "--algorithm", algorithm, "--out", f"two-{name}")
            self.assertEqual(self.bits(f"two-{name}"), self.bits(f"one-{name}"))

    def test_another_program_on_another_node_is_refused(self):
        with open(self.path("other.py"), "w") as file:
            file.write("x = 1\n")
        self.write("trainer.py", NUMPY.replace("import numpy as np, sounder", "import numpy as np, sounder\nif os.environ.get('OMPI_COMM_WORLD_RANK') == '1': import other"))
        err = self.refused(2, *self.OPTIONS, "--out", "run", codes=(65, 69))
        self.assertIn("the files of the trainer on node 1 are not those of node 0; give all nodes the same program", err)


class Replays(TrainerCase):
    def test_a_client_is_trained_again_by_a_trainer_of_its_own(self):
        for name, algorithm in (("fedavg", "fedavg"), ("scaffold", "scaffold")):
            self.run_with(name, "--algorithm", algorithm, "--inspect-updates", "--checkpoint-every", "1", "--rounds", "3")
            os.makedirs(self.path("elsewhere"), exist_ok=True)
            for line in [row for row in self.metrics(name) if row["type"] == "client"][4:10:3]:
                out, _ = self.call("replay", self.path(name), "--round", str(line["round"]), "--client", str(line["client"]), folder="elsewhere")
                self.assertIn(f"as in the run: XXH3 of the weights {line['weights_xxh3']}\n", out)
                self.assertRegex(out, r"40 samples, 1 epoch, 4 steps, loss [\d.]+, length of the update")
        out, _ = self.call("replay", "fedavg", "--round", "1", "--client", "0", "--out", "update.safetensors")
        with open(self.path("update.safetensors"), "rb") as file:
            self.assertEqual(sorted(parse_safetensors(file.read())[1]), ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"])

    def test_another_program_and_a_fault_are_named(self):
        self.run_with("run", "--trainer-option", "fault=raise once=true")
        os.remove(self.path("spoilt"))
        _, err = self.call("replay", "run", "--round", "1", "--client", "1", code=69)
        self.assertIn("the trainer of run: ValueError: the loss has no bottom", err)
        self.write("trainer.py", NUMPY + "# other\n")
        _, err = self.call("replay", "run", "--round", "1", "--client", "0", code=65)
        self.assertIn("the files of its trainer are not what the run began with", err)
        self.assertNotIn("starts the trainer", err)


class Evaluations(TrainerCase):
    def test_a_saved_model_is_evaluated_by_its_trainer(self):
        self.run_with("run")
        os.mkdir(self.path("elsewhere"))
        last = self.rounds("run")[-1]
        model, trainer = os.path.join("run", "model.safetensors"), ["--trainer", f"{sys.executable} trainer.py"]
        for arguments, folder in (((self.path("run"),), "elsewhere"), ((model, *trainer), "."), (("run", *trainer), ".")):
            out, err = self.call("eval", *arguments, "--json", folder=folder)
            told = json.loads(out)
            self.assertEqual(err, "" if "--trainer" in arguments else f"sounder: starts the trainer of {self.path('run')}: {sys.executable} trainer.py\n")
            self.assertAlmostEqual(told["test_loss"], last["test_loss"], 6)
            self.assertEqual((told["test_accuracy"], told["samples"]), (last["test_accuracy"], 60))
        out, _ = self.call("eval", "run")
        self.assertRegex(out, r"test loss [\d.]+  accuracy \d+/60")

    def test_what_an_evaluation_needs_is_said(self):
        self.run_with("run")
        model = os.path.join("run", "model.safetensors")
        _, err = self.call("eval", model, code=64)
        self.assertIn(f"was trained by a program, which alone knows the net; name it with --trainer '{sys.executable} trainer.py'", err)
        for option in (["--confusion"], ["--predictions", "p.csv"]):
            _, err = self.call("eval", "run", *option, code=64)
            self.assertIn("the trainer does not give: let it call turn.answers(scores) once per batch of a test, or leave them out", err)
        _, err = self.call("eval", "run", "--trainer", "true", code=69)
        self.assertIn("--trainer true: it ended with exit code 0", err)
        self.write("wider.py", NUMPY.replace("(12, 64)", "(13, 64)").replace("zeros(12)", "zeros(13)").replace("(10, 12)", "(10, 13)"))
        _, err = self.call("eval", "run", "--trainer", f"{sys.executable} wider.py", code=65)
        self.assertIn("fc1.weight", err)


class FromPython(TrainerCase):
    OPTIONS = {"data": "synthetic:1x8x8:160:60", "clients": 4, "batch_size": 10, "rounds": 2, "workers": 1}

    def setUp(self):
        super().setUp()
        self.write("trainer.py", NUMPY.replace("np.float32(turn.lr)", "np.float32(turn.lr * turn.options.get('factor', 1))"))
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder.name)

    def test_a_trainer_is_a_path_a_list_or_a_command_and_has_options(self):
        for name, trainer in (("path", "trainer.py"), ("list", [sys.executable, "trainer.py"]), ("command", f"{sys.executable} trainer.py")):
            run = sounder.train(name, trainer=trainer, trainer_options={"factor": 2, "warm": True, "word": "a"}, algorithm="scaffold", **self.OPTIONS)
            self.assertIn("trainer-option: factor=2 warm=true word=a\n", run.config)
        self.assertEqual(self.bits("path"), self.bits("list"))
        self.assertEqual(self.bits("path"), self.bits("command"))
        plain = sounder.train("plain", trainer="trainer.py", **self.OPTIONS)
        self.assertNotEqual(self.bits("plain"), self.bits("path"))
        self.assertAlmostEqual(plain.evaluate()["test_accuracy"], plain.rows("round")[-1]["test_accuracy"])

    def test_a_sweep_has_options_of_the_trainer_as_a_dimension(self):
        runs = sounder.sweep("sweep", {"trainer_options": [{"factor": 1}, {"factor": 2, "warm": True}], "seed": [1, 2]}, trainer="trainer.py", **self.OPTIONS)
        self.assertEqual([(values["trainer_options"], values["seed"]) for values, _ in runs],
                         [("factor=1", 1), ("factor=1", 2), ("factor=2 warm=true", 1), ("factor=2 warm=true", 2)])
        sounder.train("alone", trainer="trainer.py", trainer_options={"factor": 2, "warm": True}, seed=2, **self.OPTIONS)
        self.assertEqual([row["model_xxh3"] for row in runs[3][1].rows("round")], self.bits("alone"))

    def test_no_options_of_the_trainer_are_a_choice_of_a_sweep(self):
        runs = sounder.sweep("sweep", {"trainer_options": [{}, {"factor": 2}]}, trainer="trainer.py", **self.OPTIONS)
        self.assertEqual([values["trainer_options"] for values, _ in runs], [" ", "factor=2"])
        sounder.train("plain", trainer="trainer.py", trainer_options={}, **self.OPTIONS)
        self.assertEqual([row["model_xxh3"] for row in runs[0][1].rows("round")], self.bits("plain"))
        with self.assertRaisesRegex(sounder.Error, "trainer_option and trainer_options are the same option"):
            sounder.train("both", trainer="trainer.py", trainer_options={"factor": 1}, trainer_option="factor=2", **self.OPTIONS)
        with self.assertRaisesRegex(sounder.Error, "trainer_option and trainer_options are the same option"):
            sounder.sweep("both", {"trainer_options": [{"factor": 1}]}, trainer="trainer.py", trainer_option="factor=2", **self.OPTIONS)

    def test_a_sweep_of_the_program_repeats_the_option(self):
        words = ["--data", "synthetic:1x8x8:160:60", "--clients", "4", "--rounds", "1", "--trainer", f"{sys.executable} trainer.py", "--out", "sweep"]
        out, _ = self.call("sweep", *words, "--trainer-option", "factor=1", "--trainer-option", "factor=2 warm=true")
        self.assertRegex(out, r"\nfactor=1 .*\nfactor=2 warm=true ")
        _, err = self.train(*words[:-2], "--trainer-option", "warm", "--out", "none", code=64)
        self.assertIn("write NAME=VALUE, several with blanks between them, and in a sweep the option once per choice", err)

    def test_what_is_no_program_is_refused_with_what_to_do(self):
        for options, sentence in (({"trainer": lambda net, turn: None}, "a run starts a program, so write it to a file"),
                                  ({"trainer": "trainer.py", "trainer_options": {"word": "a b"}}, "'word=a b' has a blank"),
                                  ({"trainer": "absent.py"}, "there is no program absent.py")):
            with self.assertRaisesRegex(sounder.Error, sentence):
                sounder.train("none", **options, **self.OPTIONS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
