"""A run's federation as arrays, and the referee that looks at another implementation on it.

Usage: test_referee.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import importlib.util, json, os, re, subprocess, sys, unittest

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from runs import DEADLINE, SOUNDER, RunCase, parse_safetensors

PACKAGE = os.path.abspath(sys.argv[2])
os.environ["SOUNDER"] = SOUNDER
sys.path.insert(0, PACKAGE)
import sounder

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "softmax", "--batch-size", "8", "--clients", "10", "--clients-per-round", "4",
         "--partition", "dirichlet", "--alpha", "0.5", "--rounds", "3", "--momentum", "0.9", "--lr", "0.05", "--quiet", "--device", "cpu"]


class Softmax:
    """FedAvg's client with NumPy. fault: what it does wrong."""

    def __init__(self, fault=None):
        self.fault, self.kept = fault, {}

    def train(self, weights, turn):
        weight, bias = weights["fc1.weight"], weights["fc1.bias"]
        zeros = [np.zeros_like(weight), np.zeros_like(bias)]
        velocity = self.kept.setdefault(turn.client, zeros) if self.fault == "momentum" else zeros
        for x, y in turn.batches():
            x = x.reshape(len(x), -1)
            scores = x @ weight.T + bias
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            shares[np.arange(len(y)), y] -= 1
            for parameter, speed, gradient in zip((weight, bias), velocity, (shares.T @ x / len(y), shares.mean(0))):
                speed *= np.float32(turn.momentum)
                speed += gradient + np.float32(turn.weight_decay) * parameter
                parameter -= np.float32(turn.lr * (1.01 if self.fault == "rate" else 1)) * speed
        return {"fc1.weight": weight, "fc1.bias": bias}


def average(weights, handed_in, turns):
    total = sum(turn.count / turn.epochs for turn in turns)
    return {name: sum(turn.count / turn.epochs / total * own[name] for turn, own in zip(turns, handed_in)) for name in weights}


class Federation(RunCase):
    def export(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "export", *map(str, arguments)], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def federation(self, *options):
        self.train(*SMALL, *options, "--out", "run")
        self.assertIn("the model of every round is the run's, to the bit", self.export("run", "--federation", "federation"))
        return self.path("federation")

    def arrays(self, name):
        return np.load(self.path("federation", f"{name}.npz"))

    def test_the_files_hold_the_run_and_take_no_more_bytes_than_was_said(self):
        self.train(*SMALL, "--drop-out", "0.3", "--out", "run")
        told = self.export("run", "--federation", "federation")
        most = int(re.search(r"at most (\d+) bytes", told)[1])
        self.assertLess(sum(entry.stat().st_size for entry in os.scandir(self.path("federation"))), most)
        with open(self.path("run", "model.safetensors"), "rb") as file:
            _, tensors = parse_safetensors(file.read())
        for name, (_, values) in tensors.items():
            self.assertEqual(self.arrays("round-000003")[f"weights/{name}"].ravel().tolist(), list(values))
        lines = [line for line in self.metrics("run") if line["type"] == "client"]
        partition, y = self.arrays("partition"), self.arrays("data")["y"]
        self.assertEqual(sorted(partition["samples"]), list(range(400)))
        for number in (1, 2, 3):
            held, told = self.arrays(f"round-{number:06d}"), [line for line in lines if line["round"] == number]
            self.assertEqual(held["clients"].tolist(), [line["client"] for line in told])
            np.testing.assert_allclose(held["shares"], [line["share"] for line in told], rtol=1e-9)
            self.assertEqual(len(held["drawn"]), 4)
            for place, client in enumerate(held["clients"]):
                order = held["samples"][held["first_sample"][place]:held["first_sample"][place + 1]]
                own = partition["samples"][partition["first"][client]:partition["first"][client + 1]]
                self.assertEqual(sorted(order), sorted(own))
                self.assertLess(y[order].max(), 10)
            for name in tensors:
                mean = np.tensordot(held["shares"], held[f"handed_in/{name}"].astype(float), 1)
                np.testing.assert_allclose(held[f"weights/{name}"], mean, rtol=1e-5, atol=1e-7)

    def test_another_implementation_agrees_whatever_happens_to_its_clients(self):
        for options in ([], ["--local-epochs", "2", "--weight-decay", "0.01", "--stragglers", "0.5 work=partial", "--lr-schedule", "exponential"],
                        ["--algorithm", "schedule rounds steps=7", "--momentum", "0"], ["--sampling", "power-of-choice candidates=6"]):
            folder = self.federation(*options)
            verdict = sounder.referee(folder, Softmax().train, average if not options else None)
            self.assertTrue(verdict, f"{options}: {verdict}")
            self.assertEqual((verdict.turns, verdict.steps), (12, 0 if options else 3))
            self.assertLess(verdict.agreement, 1e-5)
            for name in ("run", "federation"):
                subprocess.run(["rm", "-r", self.path(name)], check=True)

    def test_a_fault_is_found_where_it_is_made(self):
        folder = self.federation()
        rounds = [set(np.load(os.path.join(folder, f"round-{number:06d}.npz"))["clients"].tolist()) for number in (1, 2, 3)]
        first = next(number for number in (2, 3) if rounds[number - 1] & set.union(*rounds[:number - 1]))
        verdict = sounder.referee(folder, Softmax("momentum").train, average)
        self.assertFalse(verdict)
        self.assertEqual(verdict.round, first)
        self.assertIn(verdict.client, set.union(*rounds[:first - 1]))
        self.assertIn(f"parts in round {first}, client {verdict.client}, {verdict.tensor} ", str(verdict))
        verdict = sounder.referee(folder, Softmax("rate").train)
        self.assertEqual((verdict.round, verdict.turns, verdict.others, verdict.clients), (1, 0, 4, 4))
        self.assertAlmostEqual(verdict.length, 1.01, places=2)
        equally = lambda weights, handed_in, turns: {name: np.mean([own[name] for own in handed_in], 0) for name in weights}
        verdict = sounder.referee(folder, Softmax().train, equally)
        self.assertEqual((verdict.round, verdict.client, verdict.turns), (1, None, 4))
        self.assertIn("round 1, the server, fc1.", str(verdict))

    def test_what_rules_make_of_an_update_is_what_a_client_hands_in(self):
        for algorithm, changes in (("top-k share=0.1", 65), ("median", 650), ("dp-fedavg norm=0.1 noise=1", 650)):
            self.federation("--algorithm", algorithm, *(["--sampling", "poisson"] if "dp" in algorithm else []))
            held, begun = self.arrays("round-000001"), self.arrays("round-000000")
            for place in range(len(held["clients"])):
                update = np.concatenate([(held[f"handed_in/{name}"][place] - begun[f"weights/{name}"]).ravel() for name in ("fc1.weight", "fc1.bias")])
                self.assertLessEqual(np.count_nonzero(update), changes)
                if "dp" in algorithm:
                    self.assertLess(np.linalg.norm(update), 0.1 + 1e-5)
            if algorithm == "median":
                handed = held["handed_in/fc1.weight"].astype(float)
                np.testing.assert_allclose(held["weights/fc1.weight"], np.median(handed, 0), atol=1e-6)
            for name in ("run", "federation"):
                subprocess.run(["rm", "-r", self.path(name)], check=True)

    def test_the_first_rounds_alone_and_clients_that_keep_something(self):
        self.train(*SMALL, "--algorithm", "scaffold", "--momentum", "0", "--freeze", "fc1.bias", "--out", "run")
        self.assertIn("to the bit", self.export("run", "--federation", "federation", "--rounds", 2))
        self.assertEqual(sorted(os.listdir(self.path("federation"))),
                         ["data.npz", "federation.json", "partition.npz", "round-000000.npz", "round-000001.npz", "round-000002.npz"])
        with open(self.path("federation/federation.json")) as file:
            told = json.load(file)
        self.assertEqual((told["freeze"], told["optimizer_state"]), ("fc1.bias", "fresh"))
        self.assertIn("--rounds 4: the run in run has done 3", self.export("run", "--federation", "more", "--rounds", 4, code=64))
        self.assertIn("has files already; name a new folder", self.export("run", "--federation", "federation", code=73))
        os.rename(self.path("federation/federation.json"), self.path("federation/federation.partial.json"))  # as a kill leaves it
        os.remove(self.path("federation/round-000002.npz"))
        self.assertIn("to the bit", self.export("run", "--federation", "federation", "--rounds", 2))
        self.assertEqual(len(os.listdir(self.path("federation"))), 6)
        with open(self.path("federation/federation.json")) as file:
            self.assertEqual(json.load(file), told)

    def test_runs_without_a_federation_are_refused(self):
        tiny = ["--data", "synthetic:1x8x8:80:20", "--rounds", "1", "--quiet", "--device", "cpu", "--clients", "2", "--workers", "2"]
        for number, (options, why) in enumerate({
                ("--model", "softmax", "--algorithm", "hogwild"): "schedule wild of --algorithm hogwild: its workers write the weights",
                ("--model", "softmax", "--algorithm", "ssgd"): "schedule lockstep of --algorithm ssgd: its clients hand in a gradient",
                ("--model", "softmax", "--algorithm", "fedbuff K=1"): "schedule buffered of --algorithm fedbuff K=1: its clients begin from",
                ("--model", "dropout 0.2; linear 10"): "dropout in --model",
                ("--model", "softmax", "--random-flip"): "--random-flip: images are flipped",
                ("--model", "softmax", "--attack", "sign-flip", "--attackers", "1"): "--attack: attackers hand in",
                ("--model", "softmax", "--client-noise", "gaussian sigma=0.1"): "--client-noise: clients see",
                ("--model", "softmax", "--class-weights", "balanced"): "--class-weights: samples count by weights",
                ("--model", "softmax", "--dp-sgd", "clip=1 noise=1"): "--dp-sgd: each step has noise",
                ("--model", "softmax", "--algorithm", "ifca"): "personal clusters of --algorithm ifca: there is no one global model",
                ("--model", "linear 4; linear 10", "--algorithm", "fedper"): "personal head of --algorithm fedper: a part of the model"}.items()):
            self.train(*tiny, *options, "--out", f"run{number}")
            told = self.export(f"run{number}", "--federation", "federation", code=64)
            self.assertIn(f"run{number} has no federation to export, because of ", told)
            self.assertIn(why, told)
            self.assertFalse(os.path.exists(self.path("federation")))
        self.assertIn("write sounder export RUN --federation FOLDER", self.export("run0", code=64))

    def test_a_run_of_a_program_is_refused_for_that_and_not_for_a_net_that_it_does_not_have(self):
        trainer = f"{sys.executable} {os.path.join(PACKAGE, 'examples', 'trainer_numpy.py')}"
        self.train("--data", "synthetic:1x4x4:80:20", "--rounds", "1", "--quiet", "--device", "cpu", "--clients", "2", "--trainer", trainer, "--out", "run",
                   env=dict(os.environ, PYTHONPATH=PACKAGE))
        told = self.export("run", "--federation", "federation", code=64)
        self.assertIn("run has no federation to export, because of --trainer: the program already is another implementation", told)

    @unittest.skipUnless(SOUNDER.endswith("_emulated"), "needs a program with the emulated GPU")
    def test_a_run_on_a_gpu_is_exported_as_the_cpu_computes_it(self):
        self.train(*SMALL[:-1], "cuda", "--out", "run")
        done = subprocess.run([SOUNDER, "export", "run", "--federation", "federation"], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: round 1 has other bits than in run, which trained on a GPU; the files hold the federation as ", done.stderr)
        self.assertTrue(sounder.referee(self.path("federation"), Softmax().train, average))

    def test_the_referee_says_what_is_missing(self):
        with self.assertRaisesRegex(sounder.Error, "has no federation.json; write it with sounder export RUN --federation"):
            sounder.referee(self.path("nothing"), Softmax().train)
        folder = self.federation()
        with self.assertRaisesRegex(sounder.Error, "the weights that came back have fc1.bias; the run's are fc1.bias, fc1.weight"):
            sounder.referee(folder, lambda weights, turn: {"fc1.bias": weights["fc1.bias"]})
        with self.assertRaisesRegex(sounder.Error, r"fc1.bias came back with shape \(1,\); the run's has \(10,\)"):
            sounder.referee(folder, lambda weights, turn: dict(weights, **{"fc1.bias": np.zeros(1)}))

    def test_steps_of_the_size_of_rounding_are_not_judged(self):
        # Weights that are large beside the steps: one who does nothing would agree with every client.
        self.train(*SMALL, "--lr", "0.5", "--out", "large")
        self.train(*SMALL, "--lr", "1e-7", "--momentum", "0", "--init", "large/model.safetensors", "--out", "run")
        self.export("run", "--federation", "federation")
        with self.assertRaisesRegex(sounder.Error, r"the run's largest change in a step is \d.*e-0\d, which is rounding beside its weights"):
            sounder.referee(self.path("federation"), lambda weights, turn: weights)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_the_example_finds_momentum_kept_between_rounds_in_pytorch(self):
        done = subprocess.run([sys.executable, os.path.join(PACKAGE, "examples", "referee.py")], text=True, timeout=DEADLINE, capture_output=True,
                              env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual(done.returncode, 0, done.stderr)
        good, faulty = done.stdout.splitlines()[1::2]
        self.assertRegex(good, r"the same federation: 20 turns of clients and 4 steps of the server agree to within \S+e-0[67] ")
        self.assertRegex(faulty, r"parts in round 2, client \d, \S+ \(2 of the round's 5 clients do\)")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
