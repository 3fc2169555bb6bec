"""sounder eval tells what a trainer's net answers for each sample, as it does of the engine's.

Usage: test_trainer_evaluation.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE PATH_OF_THE_EXAMPLE_IN_C [unittest arguments]
(exit 77: skipped, there is no NumPy)
"""
import csv, json, os, shlex, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER
from trainers import JOB, TORCH, TrainerCase, np, torch

EXAMPLE_IN_C = os.path.abspath(sys.argv[3])
EASY = [*JOB, "--data", "synthetic:1x8x8:400:100", "--rounds", "3", "--lr", "0.1", "--model", "softmax", "--quiet", "--out", "engine"]

SOFTMAX = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

net = {"fc1.weight": np.zeros((10, 64), np.float32), "fc1.bias": np.zeros(10, np.float32)}
for turn in sounder.turns(net, whole_test=WHOLE):
    assert ("answers" in turn._desk.parts) == turn.options.get("wanted", True)
    for x, y in turn.batches():
        out = x.reshape(len(x), -1) @ net["fc1.weight"].T + net["fc1.bias"]
        share = np.exp(out - out.max(1, keepdims=True))
        loss = -np.log(share[np.arange(len(y)), y] / share.sum(1)).mean()
        turn.add(loss, len(y), hits=(out.argmax(1) == y).sum())
        turn.answers(ANSWER)
    turn.hand_in()
'''

LINE = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

net = {"fc1.weight": np.zeros((1, 2), np.float32), "fc1.bias": np.zeros(1, np.float32)}
for turn in sounder.turns(net):
    for x, y in turn.batches():
        out = (x.reshape(len(x), -1) @ net["fc1.weight"].T + net["fc1.bias"]).reshape(-1)
        turn.add(((out - y) ** 2).mean(), len(y))
        turn.answers(ANSWER)
    turn.hand_in()
'''


class Answers(TrainerCase):
    def eval(self, *arguments, code=0):
        out, err = self.call("eval", *arguments, code=code)
        return out if code == 0 else err

    def eval_model(self, program, *arguments, code=0):
        return self.eval("engine/model.safetensors", "--data", self.data, "--trainer", program, *arguments, code=code)

    def program(self, text, answer="out", whole="False"):
        self.write("answers.py", text.replace("ANSWER", answer).replace("WHOLE", whole))
        return f"{sys.executable} answers.py"

    def rows(self, path):
        with open(self.path(path)) as file:
            return list(csv.DictReader(file))

    def train_engine(self):
        self.data = "synthetic:1x8x8:400:1100"
        self.train(*EASY, "--data", self.data)
        return json.loads(self.eval("engine", "--json", "--confusion", "--predictions", "engine.csv"))

    def compare(self, engine, told):
        """The same class for each sample, with a probability within rounding."""
        self.assertEqual(told["confusion"], engine["confusion"])
        self.assertEqual(told["hits"], engine["hits"])
        here, there = self.rows("own.csv"), self.rows("engine.csv")
        self.assertEqual(len(here), 1100)
        for own, other in zip(here, there):
            self.assertEqual([own[key] for key in ("sample", "label", "prediction")], [other[key] for key in ("sample", "label", "prediction")])
            self.assertAlmostEqual(float(own["probability"]), float(other["probability"]), 5)

    def test_a_trainers_answers_are_told_as_the_engines(self):
        engine = self.train_engine()
        self.assertGreater(len({row["prediction"] for row in self.rows("engine.csv")}), 3)
        wanted = ["--json", "--confusion", "--predictions", "own.csv"]
        for whole in ("False", "True"):  # 500, 500 and 100 samples a turn, or all of them
            self.compare(engine, json.loads(self.eval_model(self.program(SOFTMAX, whole=whole), *wanted)))
        table = self.eval_model(self.program(SOFTMAX), "--confusion").splitlines()[2:]
        self.assertEqual([[int(word) for word in line.split()[1:]] for line in table], [engine["confusion"][str(label)] for label in range(10)])
        self.eval_model(self.program(SOFTMAX), "--json", "--trainer-option", "wanted=false")

    def test_a_program_in_c_writes_its_answers_to_the_desk(self):
        self.data = "synthetic:1x8x8:400:100"
        self.train(*EASY[: EASY.index("--model")], "--quiet", "--trainer", shlex.quote(EXAMPLE_IN_C), "--out", "run")
        told = json.loads(self.eval("run", "--json", "--confusion", "--predictions", "own.csv"))
        self.assertEqual(sum(told["confusion"][str(label)][label] for label in range(10)), told["hits"])
        self.assertEqual(told["test_accuracy"], self.rounds("run")[-1]["test_accuracy"])
        self.assertEqual(sum(sum(row) for row in told["confusion"].values()), 100)
        for row in self.rows("own.csv"):
            self.assertTrue(0.1 <= float(row["probability"]) <= 1)

    def report(self):
        self.call("report", "run", "-o", "page.html")
        return self.data_of("page.html")["runs"][0]

    def test_the_report_says_how_to_have_the_confusion_of_a_trainers_net_and_then_has_it(self):
        self.train(*EASY[: EASY.index("--model")], "--quiet", "--trainer", shlex.quote(EXAMPLE_IN_C), "--out", "run")
        told = self.report()
        self.assertNotIn("confusion", told)
        subprocess.run(told["evaluate"].replace("sounder", shlex.quote(SOUNDER), 1), shell=True, cwd=self.folder.name, check=True, timeout=DEADLINE)
        confusion = self.report()["confusion"]
        self.assertAlmostEqual(sum(confusion[label][label] for label in range(10)) / 100, self.rounds("run")[-1]["test_accuracy"])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_module_hands_over_its_tensors_whatever_their_type(self):
        engine = self.train_engine()
        net = "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.fc1 = nn.Linear(64, 10)\n    def forward(self, x):\n        return self.fc1(x.flatten(1))\n"
        for kind in ("out", "out.double().requires_grad_()"):
            self.write("answers.py", TORCH.replace("        out = net(x)\n", f"        out = net(x); turn.answers({kind})\n") + net + "sounder.serve(Net, train, test)\n")
            self.compare(engine, json.loads(self.eval_model(f"{sys.executable} answers.py", "--json", "--confusion", "--predictions", "own.csv")))
        self.write("answers.py", TORCH.replace("        out = net(x)\n", "        out = net(x); turn.answers(out.argmax(1))\n") + net + "sounder.serve(Net, train, test)\n")
        self.assertIn("turn.answers was given the shape (500,); give (samples, 10), one score per class", self.eval_model(f"{sys.executable} answers.py", "--confusion", code=65))

    def test_what_is_no_answer_for_each_sample_is_refused_in_one_sentence(self):
        self.train_engine()
        for answer, code, sentence in (("out[:, :4]", 65, "turn.answers was given the shape (500, 4); give (samples, 10), one score per class"),
                                       ("out.argmax(1)", 65, "turn.answers was given the shape (500,); give (samples, 10), one score per class"),
                                       ("out[1:]", 65, "turn.answers was given 499 of the turn's 500 samples; call it once per batch"),
                                       ("np.repeat(out, 2, 0)", 65, "turn.answers was given 1000 samples in a turn of 500; call it once per batch"),
                                       ("out[:0]", 64, "--confusion, --confusion-file and --predictions need the net's answers, which the trainer does not give: let it call "
                                                       "turn.answers(scores) once per batch of a test, or leave them out")):
            for option in (["--confusion"], ["--predictions", "own.csv"]):
                err = self.eval_model(self.program(SOFTMAX, answer), *option, code=code)
                self.assertIn(sentence, err)
                self.assertEqual(len([line for line in err.splitlines() if line.startswith("sounder: ")]), 1, err)
        self.assertFalse(os.path.exists(self.path("own.csv")))

    def test_the_numbers_that_are_predicted_for_targets_are_written(self):
        os.mkdir(self.path("line"))
        rng = np.random.default_rng(1)
        for name, count in (("train.csv", 120), ("test.csv", 40)):
            x = rng.normal(0, 1, (count, 2))
            np.savetxt(self.path("line", name), np.column_stack([x @ [1.5, -2.0] + 0.25, x]), delimiter=",", header="target,a,b", comments="")
        self.data = "line"
        self.train("--data", "line", "--model", "linear 1", "--clients", "4", "--workers", "1", "--partition", "iid", "--rounds", "2", "--quiet", "--out", "engine")
        told = json.loads(self.eval("engine", "--json", "--predictions", "engine.csv"))
        engine = self.rows("engine.csv")
        off = np.array([float(row["target"]) - float(row["prediction"]) for row in engine])
        self.assertAlmostEqual(float(np.sqrt((off * off).mean())), told["test_rmse"], 4)
        for answer in ("out", "out.reshape(-1, 1)"):
            own = json.loads(self.eval_model(self.program(LINE, answer), "--json", "--predictions", "own.csv"))
            self.assertAlmostEqual(own["test_rmse"], told["test_rmse"], 4)
            for here, there in zip(self.rows("own.csv"), engine):
                self.assertEqual((here["sample"], here["target"]), (there["sample"], there["target"]))
                self.assertAlmostEqual(float(here["prediction"]), float(there["prediction"]), 4)
        for subject in (["engine"], ["engine/model.safetensors", "--data", "line", "--trainer", self.program(LINE)]):
            self.assertIn("the samples of line have targets, no classes; leave out --confusion and --confusion-file", self.eval(*subject, "--confusion", code=64))
        self.assertIn("turn.answers was given the shape (10, 2); give (samples,), the predicted targets",
                      self.eval_model(self.program(LINE, "np.zeros((10, 2))"), "--predictions", "own.csv", code=65))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
