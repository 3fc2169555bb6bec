"""Flower apps run as they are, to the weights of Flower's own strategies.

Usage: test_flower.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no flwr)
Flower's side is its ServerApp and strategy with a Grid that calls the ClientApp here, one client after the other: neither Ray nor a network.
"""
import importlib.util, logging, os, signal, sys, tomllib, unittest

try:
    import flwr.app  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; pip install flwr torch scikit-learn, and run it with that Python")
    sys.exit(77)
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import flower_apps
from runs import wait_until
from trainers import PACKAGE, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)
CLIENTS = 4
logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


EXPORTED = '''
import sys
sys.path.append(PACKAGE)
import numpy as np, sounder

def train(net, turn):
    for x, y in turn.batches():
        x = x.reshape(len(x), -1) * np.float32(turn.options.get("scale", 1))
        out = np.exp(x @ net["w"])
        slope = out / out.sum(1, keepdims=True) - np.eye(10, dtype=np.float32)[y]
        gradient = {"w": x.T @ slope / len(y)}
        turn.correct(gradient)
        net["w"] -= np.float32(turn.lr) * gradient["w"]
        turn.add(1.0, len(y))

def test(net, turn):
    turn.add(float(np.abs(net["w"]).sum()), turn.samples)

sounder.serve(lambda data: {"w": np.full((int(np.prod(data.shape)), data.classes), 0.01, np.float32)}, train, test)
'''


class Local(Grid):
    """Nodes in this process, which keep their states."""

    def __init__(self, app, config):
        self.app, self.config, self.states = app, config, [RecordDict() for _ in range(CLIENTS)]

    def get_node_ids(self):
        return list(range(CLIENTS))

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            node = message.metadata.dst_node_id
            context = Context(run_id=1, node_id=node, node_config={"partition-id": node, "num-partitions": CLIENTS}, state=self.states[node], run_config=self.config)
            yield self.app(message, context)

    run = None

    def set_run(self, run):
        pass

    create_message = push_messages = pull_messages = set_run


class Flower(TrainerCase):
    def flower(self, app, run, *arguments, code=0):
        return self.call("flower", app, "--python", sys.executable, "--clients", str(CLIENTS), "--quiet", "--out", run, *arguments, code=code)

    def by_flower(self, app):
        """The weights of Flower's strategy."""
        name = os.path.basename(app)
        with open(os.path.join(app, "pyproject.toml"), "rb") as file:
            config = tomllib.load(file)["tool"]["flwr"]["app"]["config"]
        sys.path.insert(0, app)
        os.environ["FLOWER_RESULT"] = self.path(f"{name}.npz")
        try:
            for module in [one for one in sys.modules if one.split(".")[0] == name]:
                del sys.modules[module]
            server, client = (importlib.import_module(f"{name}.{part}_app").app for part in ("server", "client"))
            server(Local(client, config), Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config))
            return np.load(os.environ["FLOWER_RESULT"]), importlib.import_module(f"{name}.task").first_weights()
        finally:
            sys.path.remove(app)
            del os.environ["FLOWER_RESULT"]

    def compare(self, name, strategy=None, most=1e-6):
        app = flower_apps.write(self.path("."), name, strategy)
        self.flower(app, name)
        theirs, first = self.by_flower(app)
        ours = self.weights(name)
        first = first if isinstance(first, dict) else dict(zip(map(str, range(len(first))), first))
        update = max(abs(theirs[one].astype(np.float64) - np.asarray(first[one], np.float64)).max() for one in ours)
        self.assertGreater(update, 1e-2)
        for one in ours:
            self.assertLess(abs(ours[one].astype(np.float64) - theirs[one].reshape(-1)).max(), most * update, one)

    def test_weights_are_those_of_flowers_strategies(self):
        for name in ("numpyapp", "stateapp"):
            self.compare(name)
        last = self.rounds("stateapp")[-1]
        self.assertEqual((last["samples"], last["test_metrics"]["app/samples"]), (sum((20 + 10 * k) * 4 // 5 for k in range(CLIENTS)), 5.0))

    def test_nets_of_torch_and_models_of_scikit_learn_train(self):
        for name, module in (("pytorchapp", "torch"), ("sklearnapp", "sklearn"), ("transformerapp", "torch")):
            if importlib.util.find_spec(module):
                self.compare(name, most=3e-6 if name == "transformerapp" else 1e-6)  # of weights near 1, of whose float32 an ulp is 1.2e-7

    def test_kills_and_a_resume_end_with_the_same_bits(self):
        app = flower_apps.write(self.path("."), "stateapp")
        self.flower(app, "whole", "--rounds", "30")
        process = self.start("--trainer", f"{sys.executable} -m sounder.flower {app}", "--data", f"clients:{CLIENTS}", "--algorithm", "combine mean told",
                             "--client-optimizer-state", "keep", "--rounds", "30", "--checkpoint-every", "1", "--workers", "1", "--quiet", "--out", "killed")
        self.assertTrue(wait_until(lambda: len(self.rounds_so_far("killed")) >= 3, 60))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.train("--resume", "killed", "--workers", "2", "--quiet")
        self.assertEqual(self.bits("whole"), self.bits("killed"))

    def test_a_run_leaves_as_an_app_whose_server_gets_the_weights_of_the_run(self):
        config = ["--data", "synthetic:1x1x4:90:30", "--clients", str(CLIENTS), "--partition", "dirichlet", "--rounds", "3", "--lr", "0.1", "--trainer", f"{sys.executable} own.py", "--quiet"]
        self.write("own.py", EXPORTED)
        for name, algorithm in (("mean", "fedavg"), ("prox", "fedprox mu=0.7"), ("momentum", "fedavgm beta=0.5")):
            with self.subTest(name):
                self.train(*config, "--algorithm", algorithm, "--trainer-option", "scale=2", "--out", name)  # a batch has all of a client's samples
                self.assertIn("Flower app: ", self.call("export", name, "--flower", f"{name}-app")[0])
                theirs, first = self.by_exported(self.path(f"{name}-app"))
                ours = self.weights(name)["w"]
                update = abs(theirs - first).max()
                self.assertGreater(update, 1e-2)
                self.assertLess(abs(ours - theirs.reshape(-1)).max(), 3e-6 * update)  # an ulp of these weights is 1e-6 of it
        self.assertIn("name a new folder", self.call("export", "mean", "--flower", "mean-app", code=73)[1])
        self.train(*config, "--algorithm", "scaffold", "--rounds", "1", "--out", "scaffold")
        self.assertIn('"scaffold" is no strategy of Flower\'s', self.call("export", "scaffold", "--flower", "no", code=64)[1])
        self.train(*config, "--drop-out", "0.5", "--rounds", "1", "--out", "drops")
        self.assertIn("--drop-out 0.5 of the run has no equal", self.call("export", "drops", "--flower", "no", code=64)[1])

    def by_exported(self, app):
        """The weights of the app's server, and those with which it began."""
        with open(os.path.join(app, "pyproject.toml"), "rb") as file:
            config = tomllib.load(file)["tool"]["flwr"]["app"]["config"]
        config["result"] = os.path.join(app, "result.npz")
        for module in [one for one in sys.modules if one.split(".")[0] == "federation_app"]:
            del sys.modules[module]
        sys.path.insert(0, app)
        try:
            server, client = (importlib.import_module(f"federation_app.{part}_app").app for part in ("server", "client"))
            server(Local(client, config), Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config))
        finally:
            sys.path.remove(app)
        return np.load(config["result"])["w"], np.load(os.path.join(app, "federation", "round-000000.npz"))["weights/w"]

    def test_what_is_not_known_is_refused_in_one_sentence(self):
        own = "type('Own', (FedAvg,), {})()"
        app = flower_apps.write(self.path("own"), "numpyapp", own)
        self.assertIn('the strategy Own is not known here', self.flower(app, "own", code=64)[1])
        self.flower(app, "named", "--algorithm", "combine mean told", "--rounds", "1")
        for arguments, sentence in ((["--lr", "0.1"], "--lr: the app's clients train as its run_config says"), (["--trainer-option", "lr=1"], "run_config has no lr"),
                                    (["--clients", "0"], "needs a whole number from 1")):
            self.assertIn(sentence, self.flower(app, "own", *arguments, code=64)[1])
        self.assertIn("names no Flower app", self.flower(self.path("."), "own", code=64)[1])
        texts = flower_apps.write(self.path("texts"), "stateapp")
        task = os.path.join(texts, "stateapp", "client_app.py")
        with open(task) as file:
            text = file.read()
        with open(task, "w") as file:
            file.write(text.replace('"wide": 2**40 + 1', '"wide": 2**40 + 1}); context.state["said"] = __import__("flwr.app").app.ConfigRecord({"word": "x"'))
        self.assertIn("context.state['said']['word'] is of <U1", self.flower(texts, "texts", code=69)[1])

    def test_any_algorithm_corrects_the_steps_of_an_app(self):
        if torch is None or not importlib.util.find_spec("torch"):
            self.skipTest("no torch")
        app = flower_apps.write(self.path("."), "pytorchapp")
        self.flower(app, "prox", "--rounds", "1", "--algorithm", "local prox mu=0.3; combine mean told")
        self.flower(app, "plain", "--rounds", "1")
        self.flower(app, "scaffold", "--rounds", "2", "--algorithm", "scaffold")
        with open(os.path.join(app, "pytorchapp", "task.py")) as file:
            text = file.read()
        with open(os.path.join(app, "pytorchapp", "task.py"), "w") as file:  # the same term in the app's own loss
            file.write(text.replace("    net.train()\n", "    net.train()\n    begun = [p.detach().clone() for p in net.parameters()]\n").replace(
                "            loss.backward()\n", "            (loss + 0.15 * sum(((p - b) ** 2).sum() for p, b in zip(net.parameters(), begun))).backward()\n"))
        self.flower(app, "own", "--rounds", "1")
        self.assert_near("prox", "own", 1e-6)
        self.assertGreater(max(abs(self.weights("prox")[one] - self.weights("plain")[one]).max() for one in self.weights("prox")), 1e-4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
