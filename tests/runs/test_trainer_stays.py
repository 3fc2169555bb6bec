"""A turn begins as the program began: what does not travel is put back, or looked at.

Usage: test_trainer_stays.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, shutil, sys, unittest

from trainers import JOB, PACKAGE, TORCH, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)

# A net that keeps {buffers} in each batch, and learns nothing: what a turn finds there is what it tells as its loss.
COUNTS = TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 10)
        self.register_buffer("whole", torch.tensor(7))
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("unsaved", torch.tensor([0.5, float("nan")]), persistent=False)
        self.register_buffer("late", None)
        self.register_buffer("wide", torch.zeros(300, 300, dtype=torch.long))
    def forward(self, x):
        return self.out(x.flatten(1))
def train(net, turn):
    seen = [int(net.whole), int(net.flags.sum()), float(net.unsaved[0]), net.late is None, int(net.wide.sum()), hasattr(net, "new")]
    print("begins with", seen)
    for x, y in turn.batches():
        net.whole += 1
        net.flags = ~net.flags
        net.unsaved.data.mul_(2)
        net.late = torch.ones(3)
        net.wide[7, 7] += 1
        net.register_buffer("new", torch.ones(1))
        turn.correct()
        turn.add(1.0, len(y))
def test(net, turn):
    train(net, turn) if turn.trains else [turn.add(1.0, len(y), hits=0) for x, y in turn.batches()]
sounder.serve(Net, train, test)
'''
SPECTRAL = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.complex(torch.arange(3.0), -torch.ones(3)))
    def forward(self, x):
        return self.weight
def train(net, turn):
    for x, y in turn.batches():
        net.zero_grad()
        net.weight.grad = torch.full((3,), 1 + 2j, dtype=torch.complex64)
        turn.correct()
        with torch.no_grad():
            net.weight -= turn.lr * net.weight.grad
        turn.add(1.0, len(y))
def test(net, turn):
    for x, y in turn.batches():
        turn.add(1.0, len(y), hits=0)
'''
ARRAYS = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
net = {"w": (np.arange(3) - 1j).astype(np.complex64), "base": np.linspace(0, 1, 200000)}
for turn in sounder.turns(net, exchange="w"):
    for x, y in turn.batches():
        gradient = {"w": np.full(3, 1 + 2j, np.complex64)}
        if turn.trains:
            turn.correct(gradient)
            net["w"] -= np.float32(turn.lr) * gradient["w"]
        turn.add(1.0, len(y), hits=0)
    SPOIL
    turn.hand_in()
'''
TWIN = TORCH.replace("        turn.add(loss, len(y))\n\ndef test", "        turn.add(loss, len(y))\n    SPOIL\n\ndef test") + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(64, 10), nn.Linear(64, 10).requires_grad_(False)
    def forward(self, x):
        return self.q(x.flatten(1)) + self.k(x.flatten(1))
sounder.serve(Net, train, test)
'''


class Stays(TrainerCase):
    def log(self, run):
        with open(self.path(run, "trainer.log")) as file:
            return [line.split(": ", 1)[1] for line in file.read().splitlines()]

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_buffers_that_do_not_travel_are_in_each_turn_what_the_program_made(self):
        self.write("counts.py", COUNTS)
        self.run_with("counts", "--workers", "1", script="counts.py")
        told = [line for line in self.log("counts") if line.startswith("begins")]
        self.assertGreater(len(told), 8)
        self.assertEqual(set(told), {"begins with [7, 1, 0.5, True, 0, False]"})

    def test_complex_numbers_travel_as_pairs_and_are_averaged(self):
        # Four clients of 40 samples make four steps of 0.05 in a round, all of them alike; from the second on a weight is pulled back.
        self.write("arrays.py", ARRAYS.replace("SPOIL", "pass"))
        self.write("module.py", TORCH + SPECTRAL + "sounder.serve(Net, train, test)\n")
        w = np.arange(3) - 1j
        for _ in range(2):
            start = w
            for _ in range(4):
                w = w - 0.05 * (1 + 2j + 0.5 * (w - start))
        for script in ("arrays.py", *(["module.py"] if torch else [])):
            self.run_with(script[:-3], "--momentum", "0", "--algorithm", "fedprox mu=0.5", script=script)
            (_, found), = self.weights(script[:-3]).items()
            self.assertLess(abs(found.reshape(3, 2) - np.stack([w.real, w.imag], -1)).max(), 1e-6, script)

    def test_an_array_of_another_shape_or_one_that_stays_and_moves_is_named_with_its_client(self):
        for spoil, sentence in (("net['w'] = net['w'].mean(keepdims=True)", "w has the shape [1] and the type complex64 after a turn, and had [3]"),
                                ("net['base'] *= 0.5", "base changed in a turn and does not travel"),
                                ("net['base'] = net['base'].copy(); net['base'][1] += 1", "base changed in a turn and does not travel"),
                                ("del net['base']", "base was taken out of the net in a turn")):
            with self.subTest(spoil=spoil):
                self.write("spoilt.py", ARRAYS.replace("SPOIL", f"if turn.client == 2 and not turn.rehearsal: exec({spoil!r})"))
                _, err = self.run_with("spoilt", "--workers", "1", script="spoilt.py", code=69)
                self.assertIn("client 2 in round 1: " + sentence, err)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_frozen_tensor_that_moves_by_whatever_way_is_named_with_the_remedy(self):
        for spoil, sentence in (("net.k.weight.data = 0.9 * net.k.weight.data", "k.weight is frozen and changed in a turn: a twin that follows the net has to travel"),
                                ("net.k.bias.data.mul_(0.9)", "k.bias is frozen and changed in a turn"),
                                ("net.k.bias.detach().numpy()[3] += 1", "k.bias is frozen and changed in a turn"),
                                ("net.q.weight.data = net.q.weight.data[:, :1]", "q.weight has the shape [10, 1] and the type torch.float32 after a turn, and had [10, 64]"),
                                ("net.q.bias.data = net.q.bias.data.double()", "q.bias has the shape [10] and the type torch.float64 after a turn"),
                                ("net.k = nn.Linear(64, 10)", "k was replaced by another module in a turn")):
            with self.subTest(spoil=spoil):
                self.write("spoilt.py", TWIN.replace("SPOIL", f"if turn.client == 2 and not turn.rehearsal: {spoil}"))
                _, err = self.run_with("spoilt", "--workers", "1", script="spoilt.py", code=69)
                self.assertIn("client 2 in round 1: " + sentence, err)
        self.write("travels.py", TWIN.replace("SPOIL", "net.k.weight.data = 0.9 * net.k.weight.data + 0.1 * net.q.weight.data").replace("test)\n", "test, exchange='*')\n"))
        for workers in "12":
            self.run_with(f"travels-{workers}", "--workers", workers, script="travels.py")
        self.assertEqual(self.model("travels-1"), self.model("travels-2"))
        self.assertIn("k.weight", self.weights("travels-1"))


# A base that {base}, words whose numbers follow the order of a set, and samples that are dealt by unseeded numbers.
STARTS = '''
import os, random, sys, time
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
np.__version__ = os.environ.get("MADE", np.__version__)
FACTOR = 1.0
numbers = np.random.permutation(1000)[:3].tolist() + [random.randrange(1000)] + list({f"word{i}" for i in range(20)})
print("begins with", numbers)
net = {"w": np.zeros((10, 64), np.float32), "base": BASE}
for turn in sounder.turns(net, exchange="w"):
    for x, y in turn.batches():
        if turn.trains:
            gradient = {"w": np.full((10, 64), 1.0, np.float32)}
            turn.correct(gradient)
            net["w"] -= np.float32(FACTOR * turn.lr) * gradient["w"]
        turn.add(abs(float(net["w"].sum())), len(y), hits=0)
    time.sleep(turn.options.get("slow", 0))
    turn.hand_in()
'''


class Starts(TrainerCase):
    """Each start of a program is of the same program."""

    def begins(self, run):
        with open(self.path(run, "trainer.log")) as file:
            return [line.split(": ", 1)[1].strip() for line in file if "begins with" in line]

    def test_what_a_program_draws_while_it_loads_follows_from_the_seed_in_every_start(self):
        self.write("starts.py", STARTS.replace("BASE", "np.random.normal(size=4)"))
        self.run_with("one", "--trainer-start", "each", script="starts.py")
        self.run_with("two", "--seed", "2", "--rounds", "1", script="starts.py")
        self.assertEqual((len(self.begins("one")), len(set(self.begins("one")))), (3, 1))
        self.assertNotEqual(self.begins("one")[0], self.begins("two")[0])
        start = self.metrics("one")[0]
        self.assertEqual((start["hash_seed"], start["trainer_stays_tensors"], start["trainer_stays_floats"]), ("2", 1, 4))
        self.assertEqual(len(start["trainer_stays"]), 16)
        self.assertNotEqual(start["trainer_stays"], self.metrics("two")[0]["trainer_stays"])
        self.train("--resume", "one", "--rounds", "3", "--quiet")
        self.assertEqual(len(set(self.begins("one"))), 1)

    def test_a_users_hash_seed_wins_and_another_one_ends_a_resume(self):
        self.write("starts.py", STARTS.replace("BASE", "np.zeros(4)"))
        environment = dict(os.environ, PYTHONHASHSEED="7")
        self.train(*JOB, "--rounds", "1", "--trainer", f"{sys.executable} starts.py", "--quiet", "--out", "one", env=environment)
        self.assertEqual(self.metrics("one")[0]["hash_seed"], "7")
        self.train("--resume", "one", "--rounds", "2", "--quiet")
        self.assertEqual(self.metrics("one")[-1]["type"], "summary")
        self.assertEqual(len(set(self.begins("one"))), 1)
        _, err = self.train("--resume", "one", "--rounds", "3", "--quiet", env=dict(os.environ, PYTHONHASHSEED="8"), code=65)
        self.assertIn("PYTHONHASHSEED is 8 and was 7 when the run began", err)

    def test_another_base_ends_a_second_worker_a_resume_an_evaluation_and_a_replay_with_one_sentence(self):
        self.write("starts.py", STARTS.replace("BASE", "np.load('base.npy')"))
        np.save(self.path("base.npy"), np.arange(5.0))
        self.run_with("run", "--rounds", "1", script="starts.py")
        np.save(self.path("base.npy"), np.arange(5.0) + 1e-9)
        command = f"{sys.executable} starts.py"
        _, err = self.train("--resume", "run", "--rounds", "2", "--quiet", code=65)
        self.assertIn("the tensors of its trainer that do not travel are not what the run began with", err)
        for arguments in (["eval", "run"], ["replay", "run", "--round", "1", "--client", "0", "--out", "update.safetensors"]):
            _, err = self.call(*arguments, code=65)
            self.assertIn("the tensors of its trainer that do not travel are not what the run began with", err)
        _, err = self.train("--resume", "run", "--rounds", "2", "--quiet", "--trainer", command)
        self.assertIn("continues with other tensors of its trainer that do not travel", err)
        self.write("unseeded.py", STARTS.replace("BASE", "np.random.default_rng().normal(size=4)"))
        _, err = self.run_with("unseeded", "--trainer-start", "each", script="unseeded.py", code=69)
        self.assertIn("its tensors that do not travel are not those of its first start", err)

    def test_other_versions_of_libraries_are_recorded_and_told(self):
        self.write("starts.py", STARTS.replace("BASE", "np.zeros(4)"))
        self.train(*JOB, "--trainer", f"{sys.executable} starts.py", "--rounds", "1", "--quiet", "--out", "one", env=dict(os.environ, MADE="1.0"))
        self.assertRegex(self.metrics("one")[0]["trainer_versions"], r"^Python \d+\.\d+\.\d+\S*, numpy 1\.0")
        shutil.copytree(self.path("one"), self.path("two"))
        for arguments in (["eval", "one"], ["train", "--resume", "one", "--rounds", "2", "--quiet"]):
            _, err = self.call(*arguments, MADE="2.0")
            self.assertRegex(err, r"warning: one\S*: the versions of its trainer's libraries are not what the run began with \(Python .*numpy 1\.0.* then, Python .*numpy 2\.0.* now\)")
        self.assertRegex(self.call("runs", "one", "two")[0], r"trainer_versions[^\n]*\none .*numpy 1\.0; Python .*numpy 2\.0")

    def test_a_program_that_is_edited_while_it_runs_enters_no_run(self):
        for start, victims in (("fork", self.nursery), ("each", self.trainers)):
            with self.subTest(start=start):
                self.write("starts.py", STARTS.replace("BASE", "np.zeros(4)"))
                process = self.start(*JOB, "--trainer", f"{sys.executable} starts.py", "--trainer-option", "slow=0.05", "--trainer-start", start,
                                     "--rounds", "50", "--quiet", "--out", f"edited-{start}")
                self.wait_for_round(f"edited-{start}", 1)
                self.write("starts.py", STARTS.replace("BASE", "np.zeros(4)").replace("FACTOR = 1.0", "FACTOR = 0.0"))
                self.assertTrue(self.kill(victims(process)))
                _, err = self.finish(process, 65 if start == "fork" else 69)
                self.assertIn("its files are not what the run began with", err)
                self.assertIn("they were edited while it ran", err)
        _, err = self.train("--resume", "edited-fork", "--quiet", code=65)
        self.assertIn("the files of its trainer are not what the run began with", err)


# Features of a thousandth: variances of a normalisation are then near 0, where a server's step may make them negative.
NORMS = TORCH + '''
from collections import OrderedDict
sounder.serve(lambda: nn.Sequential(OrderedDict(flat=nn.Flatten(), fc1=nn.Linear(20, 32), norm1=nn.BatchNorm1d(32), act=nn.ReLU(), fc2=nn.Linear(32, 10))),
              train, test)
'''

TABLE = TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm = nn.Linear(64, 10), nn.BatchNorm1d(10)
        self.norm.register_buffer("table", torch.linspace(0, 1, 10))
    def forward(self, x):
        return self.norm(self.fc1(x.flatten(1))) * self.norm.table
sounder.serve(Net, train, test)
'''

ARRAYS_OF_NAN = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
sounder.serve({"w": np.zeros(2, np.float32)}, lambda net, turn: turn.add(1.0, turn.samples), lambda net, turn: turn.add(float("nan"), turn.samples, hits=0))
'''


# What it trains to is in a file that no hash of the run sees, and a test counts on where REMEMBERS says so.
WITNESSED = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
aim = float(open("aim.txt").read())
first = np.random.default_rng().normal(size=2) if "unseeded" in sys.argv else np.zeros(2)
tests = []
def train(net, turn):
    for x, y in turn.batches():
        turn.add(float((net["w"][0] - aim) ** 2), len(y))
        net["w"] -= np.float32(turn.lr) * (net["w"] - np.float32(aim))
def test(net, turn):
    tests.append(1)
    turn.add(float(net["w"][0]) + ("remembers" in sys.argv) * len(tests), turn.samples, hits=0)
sounder.serve({"w": first.astype(np.float32)}, train, test)
'''


class Witness(TrainerCase):
    def aim(self, number):
        with open(self.path("aim.txt"), "w") as file:
            file.write(number)

    def resume(self, run, *words, code=0):
        return self.train("--resume", run, *words, "--quiet", code=code)[1]

    def test_a_program_that_trains_otherwise_than_when_the_run_began_ends_a_resume(self):
        self.write("trainer.py", WITNESSED)
        self.aim("3")
        self.run_with("whole", "--rounds", "3")
        self.run_with("run", "--rounds", "1")
        witness = self.metrics("run")[0]["trainer_witness"]
        self.assertEqual((sorted(witness), round(witness["loss"], 6)), (["files", "first", "loss", "weights"], round((9 + (3 * 0.95) ** 2) / 2, 6)))
        self.aim("4")
        err = self.resume("run", "--rounds", "2", code=65)
        self.assertIn(f"trains its first client otherwise than when the run began (loss {witness['loss']:.6g} then, 15.22 now): other data, another base", err)
        self.aim("3.000001")
        self.assertIn("to other weights than when the run began", self.resume("run", "--rounds", "2"))
        self.aim("4")
        self.assertIn("otherwise than", self.resume("run", "--rounds", "3", code=65))
        self.assertIn("to other weights than when the run began", self.resume("run", "--rounds", "3", "--trainer", f"{sys.executable} trainer.py"))

    def test_each_start_of_a_program_trains_what_its_first_one_has_trained(self):
        self.write("trainer.py", WITNESSED.replace('aim = float(open("aim.txt").read())', 'starts = open("starts", "a+")\nstarts.write("x")\nstarts.flush()\n'
                                                   'starts.seek(0)\naim = 3 if len(starts.read()) == 1 else float(open("aim.txt").read())'))
        self.aim("3")
        self.run_with("sound", "--rounds", "1", "--trainer-start", "each")
        os.remove(self.path("starts"))
        self.aim("4")
        _, err = self.run_with("run", "--rounds", "1", "--trainer-start", "each", code=69)
        self.assertIn("trains its first client otherwise than when the run began (loss 8.56125 then, 15.22 now): other data", err)
        self.aim("3")
        self.assertEqual(self.resume("sound", "--rounds", "2"), "")

    def test_a_module_that_a_turn_imports_is_of_the_program(self):
        self.write("trainer.py", WITNESSED.replace("    for x, y in turn.batches():", "    import rule\n    for x, y in turn.batches():", 1))
        self.write("rule.py", "factor = 1")
        self.aim("3")
        self.run_with("run", "--rounds", "1")
        self.write("rule.py", "factor = 2")
        self.assertIn("its files, with those that it imports in a turn, are not what the run began with", self.resume("run", "--rounds", "2", code=65))
        self.assertIn("continues with other files", self.resume("run", "--rounds", "2", "--trainer", f"{sys.executable} trainer.py"))
        self.assertEqual(self.resume("run", "--rounds", "3"), "")

    def test_first_weights_of_unseeded_numbers_and_tests_that_remember_are_told(self):
        self.write("trainer.py", WITNESSED)
        self.aim("3")
        _, err = self.run_with("run", "--rounds", "1", script="trainer.py unseeded remembers")
        self.assertEqual((err.count("tested the same weights to other figures when it was asked again"), err.count("warning")), (1, 2), err)
        self.assertIn("makes other first weights than when the run began", self.resume("run", "--rounds", "2"))



class Statistics(TrainerCase):
    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_statistics_of_a_trainer_are_those_of_the_engine_and_no_variance_is_negative(self):
        rng = np.random.default_rng(1)
        means, (many, few) = rng.normal(0, 0.05, (10, 20)), (np.arange(400) % 10, np.arange(100) % 10)
        np.savez(self.path("small.npz"), **{f"x_{split}": (means[y] + rng.normal(0, 0.025, (len(y), 20))).astype(np.float32) for split, y in (("train", many), ("test", few))},
                 y_train=many, y_test=few)
        self.write("norms.py", NORMS)
        data = ("--data", "small.npz", "--clients", "10", "--partition", "iid", "--batch-size", "20", "--lr", "0.1", "--quiet", "--workers", "1")
        engine = ("--model", "linear 32; batchnorm; relu; linear classes")
        self.train(*data, *engine, "--rounds", "1", "--lr", "1e-12", "--out", "first")
        private = "dp-fedavg norm=1 noise=1", "--noise-key", "ab" * 32, "--clients-per-round", "5", "--sampling", "poisson"
        more = (("adam", "fedadam lr=0.1"), ("coded", "qsgd")) if os.environ.get("SOUNDER_EXHAUSTIVE") == "1" else ()
        for name, *algorithm in (("momentum", "fedavgm beta=0.9"), ("yogi", "fedyogi lr=0.1"), ("variate", "scaffold"), ("private", *private), *more):
            options = (*data, "--init", "first/model.safetensors", "--rounds", "4", "--algorithm", *algorithm)
            self.train(*options, *engine, "--out", f"engine-{name}")
            self.train(*options, "--trainer", f"{sys.executable} norms.py", "--out", name)
            ours, theirs, first = (np.concatenate([part.ravel() for part in self.weights(run).values()]) for run in (name, f"engine-{name}", "first"))
            off = abs(ours - theirs) / abs(theirs - first).max()
            self.assertLessEqual((off > 1e-5).sum(), name == "coded", name)  # a code's boundary may lie between the two
            self.assertGreaterEqual(self.weights(name)["norm1.running_var"].min(), 0)
        self.assertEqual(self.weights("momentum")["norm1.running_var"].min(), 0)  # where the step ended below 0

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_buffer_of_constants_that_noise_would_wear_away_is_told(self):
        self.write("table.py", TABLE)
        private = ("--workers", "1", "--algorithm", "dp-fedavg norm=1 noise=1", "--sampling", "poisson")
        _, err = self.run_with("table", *private, script="table.py")
        self.assertEqual(err.count("no batch has changed the buffer norm.table, and the noise of --algorithm will"), 1, err)
        self.assertNotIn("running", err)

    def test_a_loss_of_tests_that_is_not_finite_is_said_once(self):
        self.write("endless.py", ARRAYS_OF_NAN)
        _, err = self.run_with("endless", script="endless.py")
        self.assertEqual(err.count("warning: round 1: the loss of the test is nan: answers of the net are not finite"), 1, err)
        self.assertEqual(err.count("warning"), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
