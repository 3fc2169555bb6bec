"""What surrounds trainers: a check of their repeatability, the record of their files, sounder eval, replay and diff, and Python.

Usage: test_trainer_bindings.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import json, os, shutil, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, merged, parse_safetensors
from trainers import JOB, LAYERS, NUMPY, PACKAGE, TORCH, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)
os.environ["SOUNDER"] = SOUNDER
import sounder

NET = "lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))"


class BindingCase(TrainerCase):
    def call(self, *arguments, code=None, folder="."):
        """What a command prints, and how it ends."""
        done = subprocess.run([SOUNDER, *arguments], cwd=self.path(folder), text=True, capture_output=True, timeout=DEADLINE)
        if code is not None:
            self.assertEqual(done.returncode, code, f"stdout: {done.stdout}\nstderr: {done.stderr}")
        return done.stdout, done.stderr, done.returncode


class Checking(TrainerCase):
    def check(self, run, program, *arguments, code=0):
        self.write(f"{run}.py", program)
        return self.run_with(run, "--check-trainer", *arguments, script=f"{run}.py", code=code)

    def found(self, run, program, *arguments):
        """The finding; the run trains nevertheless, and its record says that it does not repeat."""
        _, err = self.check(run, program, *arguments)
        self.assertIs(self.metrics(run)[0]["trainer_repeats"], False)
        self.assertEqual(len(self.rounds(run)), 2)
        return err


class Checks(Checking):
    """The mistakes of a careless trainer are found by name."""

    def test_a_careful_trainer_repeats(self):
        for algorithm in ("fedavg", "scaffold"):
            _, err = self.check(algorithm, NUMPY, "--algorithm", algorithm)
            self.assertEqual(err, "")
            self.assertIs(self.metrics(algorithm)[0]["trainer_repeats"], True)
        self.run_with("unchecked")
        self.assertIsNone(self.metrics("unchecked")[0]["trainer_repeats"])
        out, _ = self.train(*JOB, "--trainer", f"{sys.executable} trainer.py", "--check-trainer", "--out", "told")
        self.assertIn("the trainer repeats", out)

    def test_a_check_changes_no_bit(self):
        self.run_with("plain")
        self.check("checked", NUMPY)
        self.assertEqual(self.bits("checked"), self.bits("plain"))

    def test_a_momentum_that_is_kept_is_found(self):
        kept = NUMPY.replace("    velocity = {}\n", "").replace("for turn in sounder", "velocity = {}\nfor turn in sounder")
        self.assertIn("client 0 trains to another fc1.weight the second time: an optimizer, a generator or a tensor that does not travel is kept",
                      self.found("kept", kept))

    def test_random_numbers_of_its_own_are_found(self):
        noise = NUMPY.replace("slope, loss = slopes(x, y)", "slope, loss = slopes(x + own.normal(0, 0.1, x.shape), y)")
        seeded = noise.replace("def ahead", "own = np.random.default_rng(5)\ndef ahead")
        self.assertIn("client 0 trains to another fc1.weight the second time: it uses own (numpy's Generator) of before the turn", self.found("seeded", seeded))
        unseeded = noise.replace("    velocity = {}\n", "    velocity, own = {}, np.random.default_rng()\n")
        self.assertIn("in a fresh process: its random numbers do not come from the turn's seed", self.found("unseeded", unseeded))

    def test_a_test_that_trains_is_found(self):
        moves = NUMPY.replace("    fault = spoil(turn)", "    seen = globals().get('seen', 0) + (not turn.trains)\n    fault = spoil(turn)").replace(
            "np.float32(turn.lr)", "np.float32(turn.lr + seen)")
        self.assertIn("client 0 trains to another fc1.weight after a test: a test changes what a training uses", self.found("moves", moves))

    def test_gradients_that_are_not_corrected_are_found(self):
        _, err = self.check("never", NUMPY.replace("turn.correct(slope)", "pass"), "--algorithm", "fedprox mu=0.1", code=69)
        self.assertIn("never called turn.correct()", err)
        for_nothing = NUMPY.replace("turn.correct(slope)", "turn.correct({name: np.array(value) for name, value in slope.items()})")
        self.assertIn("trains to the same weights whatever the algorithm adds to its gradients: call turn.correct() before each step",
                      self.found("in-vain", for_nothing, "--algorithm", "fedprox mu=0.1"))

    def test_an_array_that_stays_and_moves_is_named(self):
        _, err = self.check("head", NUMPY.replace("sounder.turns(net)", "sounder.turns(net, exchange='fc1.*')"), code=69)
        self.assertIn("fc2.weight changed in a turn and does not travel", err)

    def test_an_array_that_is_replaced_travels_nevertheless(self):
        self.run_with("in-place")
        self.check("replaced", NUMPY.replace("net[name] -= np.float32(turn.lr) * velocity[name]", "net[name] = net[name] - np.float32(turn.lr) * velocity[name]"))
        self.assertEqual(self.bits("replaced"), self.bits("in-place"))


@unittest.skipUnless(torch, "there is no PyTorch")
class ChecksOfModules(Checking):
    def check(self, *arguments, code=0):
        return super().check(*arguments, "--workers", "1", code=code)

    def test_an_optimizer_that_is_kept_is_named(self):
        kept = TORCH.replace("    optimizer = torch", "    global optimizer\n    optimizer = optimizer or torch").replace("def train(", "optimizer = None\ndef train(")
        self.assertIn("client 0 trains to another 1.weight the second time: it uses optimizer (torch's SGD) of before the turn",
                      self.found("kept", kept + f"sounder.serve({NET}, train, test)\n"))

    def test_a_generator_that_is_kept_is_named(self):
        noise = TORCH.replace("net(x), y)\n        optimizer", "net(x + torch.randn(x.shape, generator=own)), y)\n        optimizer")
        _, err = self.check("turns", noise.replace("generator=own", "generator=turn.generator") + f"sounder.serve({NET}, train, test)\n")
        self.assertEqual(err, "")
        self.assertIn("it uses own (torch's Generator) of before the turn",
                      self.found("own", noise.replace("def train(", "own = torch.Generator()\ndef train(") + f"sounder.serve({NET}, train, test)\n"))

    def test_a_head_that_is_kept_is_named(self):
        head = TORCH + f"sounder.serve({NET}, train, test, exchange='1.*')\n"
        _, err = self.check("head", head, code=69)
        self.assertIn("3.weight changed in a turn and does not travel", err)
        hidden = TORCH.replace("    optimizer =", "    if turn.client in heads: net[3].load_state_dict(heads[turn.client])\n    optimizer =").replace(
            "def test(", "    heads[turn.client] = {name: value.clone() for name, value in net[3].state_dict().items()}\n\nheads = {}\ndef test(")
        self.assertIn("client 0 trains to another 1.weight the second time: an optimizer, a generator or a tensor that does not travel is kept",
                      self.found("hidden", hidden + f"sounder.serve({NET}, train, test)\n"))

    def test_weights_that_are_tied_by_their_memory_are_named(self):
        net = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        TIE
    def forward(self, x):
        return self.out(torch.tanh(self.again(torch.tanh(self.first(x.flatten(1))))))
'''
        by_memory = net.replace("TIE", "self.again.weight.data = self.first.weight.data")
        _, err = self.check("memory", TORCH + by_memory + "sounder.serve(Net, train, test)\n", code=69)
        self.assertIn("again.weight is another parameter than first.weight, in the same memory", err)
        tied = TORCH + net.replace("TIE", "self.again.weight = self.first.weight")
        self.check("all", tied + "sounder.serve(Net, train, test)\n")
        self.check("named", tied + "sounder.serve(Net, train, test, exchange='*')\n")
        self.assertEqual(self.bits("named"), self.bits("all"))

    def test_a_tensor_that_is_replaced_is_named_and_one_with_other_memory_travels(self):
        plain = TORCH + f"sounder.serve({NET}, train, test)\n"
        self.check("plain", plain)
        self.check("memory", plain.replace("        turn.add(loss, len(y))", "        net[1].weight.data = net[1].weight.data.clone()\n        turn.add(loss, len(y))"))
        self.assertEqual(self.bits("memory"), self.bits("plain"))
        _, err = self.check("replaced", plain.replace("    optimizer =", "    net[1] = nn.Linear(64, 8)\n    optimizer ="), code=69)
        self.assertIn("1.weight was replaced by another tensor in a turn", err)


class Records(BindingCase):
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
        out, _, code = self.call("diff", "first", "other")
        self.assertEqual(code, 1)
        self.assertRegex(out, f"the trainer's files .XXH3.: {self.hashed('first')}, {self.hashed('other')}")

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
        self.call("train", "--resume", self.path("parts"), "--rounds", "3", "--quiet", code=0, folder="elsewhere")
        self.assertEqual(self.model("parts"), self.model("whole"))
        starts = [row for row in self.metrics("parts") if row["type"] == "start"]
        self.assertEqual({os.path.realpath(row["trainer_folder"]) for row in starts}, {os.path.realpath(self.folder.name)})

    def test_words_of_other_programs_lead_to_the_trainer(self):
        for word in ("client-app", "script", "entry-point", "train-fn"):
            _, err = self.train(*JOB, f"--{word}", "python3 trainer.py", "--out", "none", code=64)
            self.assertIn(f"--{word}: unknown option; did you mean --trainer?", err)


@unittest.skipUnless(shutil.which("mpirun") and os.path.exists(os.path.join(os.path.dirname(SOUNDER), "sounder_mpi.so")), "there is no MPI")
class Nodes(BindingCase):
    def train_nodes(self, run, *arguments, codes=(0,)):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader",
                       "OMPI_MCA_btl_vader_backing_directory": self.folder.name}
        command = ["mpirun", "-np", "2", SOUNDER, "train", *merged(*JOB, "--workers", "1", *arguments), "--trainer", f"{sys.executable} trainer.py", "--out", run]
        done = subprocess.run(command, cwd=self.folder.name, env=environment, text=True, capture_output=True, timeout=DEADLINE)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return done.stderr

    def test_two_nodes_have_the_bits_of_one(self):
        for name, algorithm in (("fedavg", "fedavg"), ("scaffold", "scaffold")):
            self.run_with(f"one-{name}", "--algorithm", algorithm)
            self.train_nodes(f"two-{name}", "--algorithm", algorithm)
            self.assertEqual(self.bits(f"two-{name}"), self.bits(f"one-{name}"))

    def test_another_program_on_another_node_is_refused(self):
        with open(self.path("other.py"), "w") as file:
            file.write("x = 1\n")
        self.write("trainer.py", NUMPY.replace("import numpy as np, sounder", "import numpy as np, sounder\nif os.environ.get('OMPI_COMM_WORLD_RANK') == '1': import other"))
        self.assertIn("the files of the trainer on node 1 are not those of node 0; give all nodes the same program", self.train_nodes("run", codes=(65, 69)))  # mpirun's is that of the node which ends first


class Replays(BindingCase):
    def test_a_client_is_trained_again_by_a_trainer_of_its_own(self):
        for name, algorithm in (("fedavg", "fedavg"), ("scaffold", "scaffold")):
            self.run_with(name, "--algorithm", algorithm, "--inspect-updates", "--checkpoint-every", "1", "--rounds", "3")
            os.makedirs(self.path("elsewhere"), exist_ok=True)
            for line in [row for row in self.metrics(name) if row["type"] == "client"][4:10:3]:
                out, _, _ = self.call("replay", self.path(name), "--round", str(line["round"]), "--client", str(line["client"]), code=0, folder="elsewhere")
                self.assertIn(f"as in the run: XXH3 of the weights {line['weights_xxh3']}\n", out)
                self.assertRegex(out, r"40 samples, 1 epoch, 4 steps, loss [\d.]+, length of the update")
        out, _, _ = self.call("replay", "fedavg", "--round", "1", "--client", "0", "--out", "update.safetensors", code=0)
        with open(self.path("update.safetensors"), "rb") as file:
            self.assertEqual(sorted(parse_safetensors(file.read())[1]), ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"])

    def test_another_program_and_a_fault_are_named(self):
        self.run_with("run", "--trainer-option", "fault=raise once=true")
        os.remove(self.path("spoilt"))
        _, err, _ = self.call("replay", "run", "--round", "1", "--client", "1", code=69)
        self.assertIn("the trainer of run: ValueError: the loss has no bottom", err)
        self.write("trainer.py", NUMPY + "# other\n")
        _, err, _ = self.call("replay", "run", "--round", "1", "--client", "0", code=65)
        self.assertIn("the files of its trainer are not what trained it", err)


class Evaluations(BindingCase):
    def test_a_saved_model_is_evaluated_by_its_trainer(self):
        self.run_with("run")
        os.mkdir(self.path("elsewhere"))
        last = self.rounds("run")[-1]
        model, trainer = os.path.join("run", "model.safetensors"), ["--trainer", f"{sys.executable} trainer.py"]
        for arguments, folder in (((self.path("run"),), "elsewhere"), ((model, *trainer), "."), (("run", *trainer), ".")):
            out, err, _ = self.call("eval", *arguments, "--json", code=0, folder=folder)
            told = json.loads(out)
            self.assertEqual(err, "")
            self.assertAlmostEqual(told["test_loss"], last["test_loss"], 6)
            self.assertEqual((told["test_accuracy"], told["samples"]), (last["test_accuracy"], 60))
        out, _, _ = self.call("eval", "run", code=0)
        self.assertRegex(out, r"test loss [\d.]+  accuracy \d+/60")

    def test_what_an_evaluation_needs_is_said(self):
        self.run_with("run")
        model = os.path.join("run", "model.safetensors")
        _, err, _ = self.call("eval", model, code=64)
        self.assertIn(f"was trained by a program, which alone knows the net; name it with --trainer '{sys.executable} trainer.py'", err)
        for option in (["--confusion"], ["--predictions", "p.csv"]):
            _, err, _ = self.call("eval", "run", *option, code=64)
            self.assertIn("a trainer tells the sums of its tests alone", err)
        _, err, _ = self.call("eval", "run", "--trainer", "true", code=69)
        self.assertIn("--trainer true: it ended with exit code 0", err)
        self.write("wider.py", NUMPY.replace("(12, 64)", "(13, 64)").replace("zeros(12)", "zeros(13)").replace("(10, 12)", "(10, 13)"))
        _, err, _ = self.call("eval", "run", "--trainer", f"{sys.executable} wider.py", code=65)
        self.assertIn("fc1.weight", err)


class FromPython(BindingCase):
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

    def test_a_sweep_of_the_program_repeats_the_option(self):
        words = ["--data", "synthetic:1x8x8:160:60", "--clients", "4", "--rounds", "1", "--trainer", f"{sys.executable} trainer.py", "--out", "sweep"]
        out, _, _ = self.call("sweep", *words, "--trainer-option", "factor=1", "--trainer-option", "factor=2 warm=true", code=0)
        self.assertRegex(out, r"\nfactor=1 .*\nfactor=2 warm=true ")
        _, err = self.train(*words[:-2], "--trainer-option", "warm", "--out", "none", code=64)
        self.assertIn("write NAME=VALUE, several with blanks between them, and in a sweep the option once per choice", err)

    def test_what_is_no_program_is_refused_with_what_to_do(self):
        for options, sentence in (({"trainer": lambda net, turn: None}, "a run starts a program, so write it to a file"),
                                  ({"trainer": "trainer.py", "trainer_options": {"word": "a b"}}, "'word=a b' has a blank"),
                                  ({"trainer": "absent.py"}, "there is no program absent.py")):
            with self.assertRaisesRegex(sounder.Error, sentence):
                sounder.train("none", **options, **self.OPTIONS)


@unittest.skipUnless(torch, "there is no PyTorch")
class ChecksFromPython(unittest.TestCase):
    """sounder.check forks this process, as that of a notebook."""

    def check(self, spoil=lambda net, turn, optimizer: optimizer, correct=True, **options):
        from torch.nn import functional as F
        rng = np.random.default_rng(1)

        def train(net, turn):
            optimizer = spoil(net, turn, torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum))
            for x, y in turn.batches():
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                if correct:
                    turn.correct()
                optimizer.step()
                turn.add(loss, len(y))

        def test(net, turn):
            for x, y in turn.batches():
                turn.add(F.cross_entropy(net(x), y), len(y))

        def make():
            return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 3))

        sounder.check(make, train, test, (rng.normal(size=(50, 6)), rng.integers(0, 3, 50)), **options)

    def test_careful_functions_repeat(self):
        self.check()
        self.check(batch_size=3, exchange=["1.*", "3.*"])

    def test_what_a_client_keeps_with_sounder_is_no_mistake(self):
        def add(net, turn, optimizer):
            with torch.no_grad():
                net[1].weight.add_(turn.state[0])
            turn.state += 1
            return optimizer

        self.check(add, state=1, whole_test=True)

    def test_careless_ones_are_found(self):
        optimizers, numbers = {}, torch.Generator()

        def keep(net, turn, optimizer):
            return optimizers.setdefault("one", optimizer)

        def draw(net, turn, optimizer):
            optimizer.param_groups[0]["lr"] *= float(torch.rand(1, generator=numbers))
            return optimizer

        for spoil, sentence in ((keep, "another 1.weight the second time: it uses torch's SGD of before the turn"),
                                (draw, "another 1.weight the second time: it uses torch's Generator of before the turn")):
            with self.assertRaisesRegex(sounder.Error, sentence):
                self.check(spoil)
        with self.assertRaisesRegex(sounder.Error, "never called turn.correct()"):
            self.check(correct=False)
        with self.assertRaisesRegex(sounder.Error, "3.weight changed in a turn and does not travel"):
            self.check(exchange="1.*")
        with self.assertRaisesRegex(sounder.Error, "data: 1 samples; give at least 2"):
            sounder.check(None, None, None, (np.zeros((1, 4)), [1]))


class Clipping(TrainerCase):
    def test_gradients_that_are_corrected_and_then_clipped_give_the_weights_of_the_engine(self):
        clip = ["--clip-grad-norm", "0.05"]
        self.write("trainer.py", NUMPY.replace("            turn.correct(slope)\n", "            turn.correct(slope)\n"
                   "        norm = sum((part ** 2).sum() for part in slope.values()) ** 0.5\n"
                   "        for part in slope.values(): part *= min(1, turn.clip / (norm + 1e-6))\n"))
        self.train(*JOB, "--model", LAYERS, "--rounds", "1", "--lr", "1e-12", "--quiet", "--out", "start")
        for algorithm in ("fedavg", "fedprox mu=1"):
            given = ["--init", "start/model.safetensors", "--algorithm", algorithm, *clip]
            name = algorithm.split()[0]
            self.train(*JOB, *given, "--model", LAYERS, "--quiet", "--out", f"engine-{name}")
            self.run_with(f"trainer-{name}", *given)
            begin, engine, own = (self.weights(run) for run in ("start", f"engine-{name}", f"trainer-{name}"))
            far = max(np.abs(engine[key] - own[key]).max() for key in engine)
            self.assertLess(far, 1e-5 * max(np.abs(engine[key] - begin[key]).max() for key in engine))


@unittest.skipUnless(torch, "there is no PyTorch")
class LoopsOfOthers(Checking):
    def test_an_optimizer_that_corrects_gives_the_bits_of_a_loop_that_does(self):
        served = f"sounder.serve({NET}, train, test)\n"
        step = "optimizer.zero_grad(); loss.backward(); turn.correct(); optimizer.step()"
        wrapped = TORCH.replace("    for x, y in turn.batches():\n        loss", "    turn.correcting(optimizer)\n    for x, y in turn.batches():\n        loss")
        closure = "def closure():\n            optimizer.zero_grad(); loss.backward(); return loss\n        optimizer.step(closure)"
        for name, program in (("own", TORCH), ("wrapped", wrapped.replace(step, step.replace("turn.correct(); ", ""))), ("closure", wrapped.replace(step, closure))):
            self.write(f"{name}.py", program + served)
            self.run_with(name, "--algorithm", "fedprox mu=0.5", "--workers", "1", script=f"{name}.py")
            self.assertEqual(self.bits(name), self.bits("own"))

    def test_gradients_that_are_summed_over_batches_are_corrected_before_the_step(self):
        whole = TORCH + f"sounder.serve({NET}, train, test)\n"
        halves = whole.replace("        optimizer.zero_grad(); loss.backward(); turn.correct(); optimizer.step()\n",
                               "        optimizer.zero_grad()\n        for part, label in zip(x.chunk(2), y.chunk(2)):\n"
                               "            (F.cross_entropy(net(part), label, reduction='sum') / len(y)).backward()\n        turn.correct(); optimizer.step()\n")
        for name, program in (("whole", whole), ("halves", halves)):
            self.write(f"{name}.py", program)
            self.run_with(name, "--algorithm", "scaffold", "--workers", "1", script=f"{name}.py")
        first, other = self.weights("whole"), self.weights("halves")
        for name in first:
            self.assertLess(np.abs(first[name] - other[name]).max(), 1e-5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
