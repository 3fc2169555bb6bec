"""Trainers: what they learn of their turns' data, and what the run learns of their steps, states and tensors.

Usage: test_trainer_data.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import subprocess, sys, unittest

from runs import DEADLINE
from trainers import JOB, LAYERS, NUMPY, TORCH, TrainerCase, np, torch

# The net of trainers.py, which stops early: client k after `stop` + k steps. It stores what each training began and ended with.
STOPS = NUMPY.replace("    for x, y in turn.batches():\n", '''    begin, taken = {name: value.copy() for name, value in net.items()}, 0
    shift = None if turn._desk.shift is None else turn._desk.shift.copy()
    for x, y in turn.batches():
        if turn.trains and "stop" in turn.options and taken == turn.options["stop"] + turn.client:
            break
        taken += 1
''').replace("        turn.hand_in()\n", '''        if turn.trains:
            np.savez(f"turn-{turn.round}-{turn.client}.npz", steps=taken, samples=turn.samples, shift=shift,
                     begin=np.concatenate([value.ravel() for value in begin.values()]),
                     end=np.concatenate([value.ravel() for value in net.values()]))
        told = turn.options.get("tell")
        if told == "steps": turn.hand_in(steps=taken)
        elif told == "travel": turn.hand_in(travel=turn.lr * sum(sum(turn.momentum ** i for i in range(k + 1)) for k in range(taken)))
        else: turn.hand_in()
''')


class Steps(TrainerCase):
    """A trainer that makes other steps than its turn has batches."""

    def setUp(self):
        super().setUp()
        self.write("stops.py", STOPS)

    def turns(self, number):
        told = [np.load(self.path(f"turn-{number}-{client}.npz"), allow_pickle=True) for client in range(4)]
        return [{name: one[name] for name in one.files} for one in told]

    def reach(self, turn):
        velocity = far = 0
        for _ in range(int(turn["steps"])):
            velocity = 0.5 * velocity + 1
            far += velocity
        return far

    def flat(self, run):
        return np.concatenate([value for value in self.weights(run).values()])

    def test_fednova_divides_by_the_steps_that_were_made(self):
        for tau in ("a", "steps"):
            for stop in ("1", "2"):
                with self.subTest(tau=tau, stop=stop):
                    run = f"nova-{tau}-{stop}"
                    self.run_with(run, "--rounds", "1", "--algorithm", f"fednova tau={tau}", "--partition", "dirichlet", "--alpha", "1",
                                  "--trainer-option", f"stop={stop} tell=steps", script="stops.py")
                    turns = self.turns(1)
                    self.assertGreaterEqual(len({int(turn["steps"]) for turn in turns}), 3)
                    share = np.array([float(turn["samples"]) for turn in turns])
                    share /= share.sum()
                    reach = np.array([self.reach(turn) for turn in turns])
                    effective = (share * (reach if tau == "a" else [int(turn["steps"]) for turn in turns])).sum()
                    update = effective * sum(p / a * (turn["end"].astype(float) - turn["begin"]) for p, a, turn in zip(share, reach, turns))
                    np.testing.assert_allclose(self.flat(run), turns[0]["begin"] + update, atol=1e-6)
                    self.assertEqual({line["client"]: line["steps"] for line in self.metrics(run) if line["type"] == "client"},
                                     {client: int(turn["steps"]) for client, turn in enumerate(turns)})

    def test_scaffold_keeps_the_mean_gradient_of_the_steps_that_were_made(self):
        self.run_with("scaffold", "--algorithm", "scaffold", "--trainer-option", "stop=1 tell=steps", script="stops.py")
        first, second = self.turns(1), self.turns(2)
        kept = [(turn["begin"].astype(float) - turn["end"]) / (0.05 * self.reach(turn)) for turn in first]
        common = sum(kept) / 4
        for own, turn in zip(kept, second):
            np.testing.assert_allclose(turn["shift"], common - own, atol=1e-5)

    def test_a_travel_is_as_good_as_the_steps_and_the_bits_do_not_depend_on_workers(self):
        for algorithm in ("fednova", "scaffold"):
            for tell in ("steps", "travel"):
                for workers in ("1", "2", "3"):
                    self.run_with(f"{algorithm}-{tell}-{workers}", "--algorithm", algorithm, "--workers", workers,
                                  "--trainer-option", f"stop=1 tell={tell}", script="stops.py")
                self.assertEqual(len({self.model(f"{algorithm}-{tell}-{workers}") for workers in "123"}), 1)
            np.testing.assert_allclose(self.flat(f"{algorithm}-steps-1"), self.flat(f"{algorithm}-travel-1"), atol=1e-6)

    def test_steps_that_were_only_counted_are_a_warning_once(self):
        for algorithm, warns in (("scaffold", True), ("fednova", True), ("feddyn", False), ("fedavg", False)):
            _, err = self.run_with(algorithm, "--algorithm", algorithm, "--trainer-option", "stop=1", script="stops.py")
            self.assertEqual(err.count("turn.hand_in(travel=...)"), int(warns), err)
        for told in ("stop=1 tell=steps", "stop=1 tell=travel", "stop=100"):
            _, err = self.run_with(told.replace(" ", "-"), "--algorithm", "scaffold", "--trainer-option", told, script="stops.py")
            self.assertEqual(err, "")

    def test_the_loss_is_that_of_the_samples_that_were_trained_on(self):
        self.run_with("all", "--rounds", "1", "--trainer-option", "stop=1000", script="stops.py")
        self.run_with("early", "--rounds", "1", "--lr", "1e-9", "--trainer-option", "stop=1", script="stops.py")
        losses = [line["loss"] for line in self.metrics("early") if line["type"] == "client"]
        self.assertTrue(all(2 < loss < 3 for loss in losses), losses)  # ln 10 before any step
        self.assertEqual([line["samples"] for line in self.metrics("early") if line["type"] == "client" and line["client"] == 0], [10])


class Views(TrainerCase):
    """Clients that see other samples than the data set has."""

    def test_views_and_attacks_on_samples_are_those_of_the_engine(self):
        given = [*self.start_weights(), "--rounds", "3", "--local-epochs", "2"]
        tests = ["--client-test", "0.25", "--eval-clients-every", "1"]
        for name, view in (("noise", ["--client-noise", "gaussian 0.5"]), ("labels", ["--drift", "labels round=2"]),
                           ("pixels", ["--drift", "pixels round=2"]), ("classes", ["--drift", "classes round=2"]),
                           ("both", ["--client-noise", "gaussian 0.5", "--drift", "pixels round=2"]),
                           ("flip", ["--attack", "label-flip", "--attackers", "1,2"]),
                           ("backdoor", ["--attack", "backdoor target=3 fraction=0.3 size=2", "--attackers", "1"])):
            with self.subTest(view=name):
                self.train(*JOB, *given, *tests, *view, "--model", LAYERS, "--quiet", "--out", f"engine-{name}")
                for workers in ("1", "3"):
                    self.run_with(f"trainer-{name}-{workers}", *given, *tests, *view, "--workers", workers)
                self.assertEqual(self.model(f"trainer-{name}-1"), self.model(f"trainer-{name}-3"))
                self.assert_near(f"trainer-{name}-1", f"engine-{name}")
                for theirs, ours in zip(self.rounds(f"engine-{name}"), self.rounds(f"trainer-{name}-1")):
                    self.assertAlmostEqual(ours["test_loss"], theirs["test_loss"], 4)
                    self.assertEqual(ours.get("attack_success"), theirs.get("attack_success"))
                self.assertEqual("attack_success" in ours, name == "backdoor")
                _, err = self.call("eval", f"trainer-{name}-1")
                self.assertEqual("attack success is not computed with a trainer" in err, name == "backdoor", err)
                theirs, ours = ([line for line in self.metrics(run) if line["type"] == "clients_evaluation"]
                                for run in (f"engine-{name}", f"trainer-{name}-1"))
                self.assertAlmostEqual(ours[-1]["loss_mean"], theirs[-1]["loss_mean"], 4)
        self.assertNotEqual(self.model("trainer-flip-1"), self.model("trainer-labels-1"))

    def test_a_view_that_the_data_set_does_not_allow_is_refused_before_the_trainer_starts(self):
        for arguments, sentence in ((["--attack", "backdoor target=12"], "has labels from 0 to 9"), (["--attack", "backdoor size=20"], "no images"),
                                    (["--client-noise", "gaussian 0.1", "--attack", "backdoor"], "does not go with")):
            _, err = self.train(*JOB, *arguments, "--attackers", "1", "--trainer", "false", "--out", "refused", code=64)
            self.assertIn(sentence, err)

    def test_a_program_that_overlooks_views_is_refused(self):
        self.write("blind.py", "import sys\nsys.path.insert(0, PACKAGE)\nimport sounder.trainer.link as link\nsend = link.Line.send\n"
                   "link.Line.send = lambda self, views=None, **message: send(self, **message)\n" + NUMPY)
        self.run_with("plain", "--rounds", "1", script="blind.py")
        _, err = self.run_with("noise", "--client-noise", "gaussian 0.1", script="blind.py", code=64)
        self.assertIn("--client-noise: the program of --trainer does not say that it reads samples as clients see them", err)


# The net of trainers.py, whose velocity is what the client keeps.
KEEPS = NUMPY.replace("sounder.turns(net)", "sounder.turns(net, state=sum(value.size for value in net.values()))").replace(
    "    velocity = {}\n", '''    velocity, first = {}, 0
    for name, value in net.items():
        velocity[name] = turn.state[first:first + value.size].reshape(value.shape)
        first += value.size
''').replace("velocity[name] = slope[name] + turn.momentum * velocity.get(name, 0)", "velocity[name][...] = slope[name] + turn.momentum * velocity[name]")


class States(TrainerCase):
    """Optimizer states that clients keep."""

    def setUp(self):
        super().setUp()
        self.write("keeps.py", KEEPS)

    def test_a_kept_state_is_that_of_the_engine_and_survives_a_resume(self):
        given = [*self.start_weights(), "--clients-per-round", "3", "--client-optimizer-state"]
        for name, more in (("fedavg", []), ("steps", ["--algorithm", "local-sgd steps=3"])):
            self.train(*JOB, *given, "keep", *more, "--model", LAYERS, "--rounds", "4", "--quiet", "--out", f"engine-{name}")
            for workers in ("1", "3"):
                self.run_with(f"whole-{name}-{workers}", *given, "keep", *more, "--rounds", "4", "--workers", workers, script="keeps.py")
            self.assertEqual(self.model(f"whole-{name}-1"), self.model(f"whole-{name}-3"))
            self.run_with(f"parts-{name}", *given, "keep", *more, script="keeps.py")
            self.train("--resume", f"parts-{name}", "--rounds", "4", "--quiet")
            self.assertEqual(self.model(f"parts-{name}"), self.model(f"whole-{name}-1"))
            client = [line["client"] for line in self.metrics(f"parts-{name}") if line["type"] == "client" and line["round"] == 4][0]
            out, _ = self.call("replay", f"parts-{name}", "--client", str(client), "--round", "4")
            self.assertIn("as in the run", out)
            self.assert_near(f"whole-{name}-1", f"engine-{name}")
        self.run_with("fresh", *given, "fresh", "--rounds", "4", script="keeps.py")
        self.run_with("without", *given[:-1], "--rounds", "4")
        fresh, without = self.weights("fresh"), self.weights("without")
        self.assertTrue(all(np.array_equal(fresh[name], without[name]) for name in fresh))
        self.assertFalse(np.array_equal(fresh["fc1.weight"], self.weights("whole-fedavg-1")["fc1.weight"]))

    def test_a_trainer_that_keeps_nothing_is_told_how(self):
        self.assertIn("sounder.serve(..., state=N)", self.refused("--client-optimizer-state", "keep"))
        self.assertIn("may have no mean; take keep", self.refused("--momentum", "0.5", "--client-optimizer-state", "average"))


# The net of trainers.py on samples of its own, where the run has labels alone.
OWN = NUMPY.replace("for turn in sounder", "own = {split: np.load(f'{split}.npy') for split in ('train', 'test')}\n\nfor turn in sounder").replace(
    "    for x, y in turn.batches():\n", '''    for x, y in turn.batches():
        if turn.x is None: x = own[turn.split][x]
''')


class Labels(TrainerCase):
    """Data of which the run knows the labels alone."""

    def setUp(self):
        super().setUp()
        self.write("own.py", OWN)
        rng = np.random.default_rng(5)
        x = {"train": rng.normal(0, 1, (160, 64)).astype(np.float32), "test": rng.normal(0, 1, (60, 64)).astype(np.float32)}
        y = {f"y_{split}": np.arange(len(x[split])) % 10 for split in x}
        clients = {"client_train": np.arange(160) // 40, "client_test": np.arange(60) // 15}
        for split in x:
            np.save(self.path(f"{split}.npy"), x[split])
        np.savez(self.path("whole.npz"), x_train=x["train"], x_test=x["test"], **y, **clients)
        np.savez(self.path("labels.npz"), **y, **clients)

    def test_labels_alone_are_partitioned_sampled_and_attacked_as_with_samples(self):
        for name, more in (("iid", []), ("dirichlet", ["--partition", "dirichlet", "--alpha", "0.5", "--client-test", "0.2", "--eval-clients-every", "1"]),
                           ("users", ["--partition", "natural-id", "--eval-clients-every", "1"]), ("flip", ["--attack", "label-flip", "--attackers", "1"]),
                           ("drift", ["--drift", "labels round=2", "--algorithm", "scaffold"])):
            with self.subTest(name=name):
                for data in ("whole", "labels"):
                    self.run_with(f"{data}-{name}", "--data", f"{data}.npz", *more, script="own.py")
                whole, labels = self.weights(f"whole-{name}"), self.weights(f"labels-{name}")
                self.assertTrue(all(np.array_equal(whole[key], labels[key]) for key in whole))
                self.assertEqual(*(self.rounds(f"{data}-{name}")[-1]["test_loss"] for data in ("whole", "labels")))
        self.assertNotEqual(self.model("labels-iid"), self.model("labels-flip"))

    def test_the_engine_and_views_of_samples_refuse_labels_alone(self):
        _, err = self.train("--data", "labels.npz", "--clients", "4", "--rounds", "1", code=64)
        self.assertIn("--data labels.npz: labels without samples, for a trainer that has loaded them itself; add --trainer", err)
        for arguments, sentence in ((["--client-noise", "gaussian 0.1"], "labels alone"), (["--attack", "backdoor", "--attackers", "1"], "no images"),
                                    (["--partition", "continuous"], "needs the samples")):
            self.assertIn(sentence, self.refused("--data", "labels.npz", *arguments))
        self.assertIn("y_train and y_test alone for a --trainer", self.refused("--data", "test.npy", code=66))
        self.assertIn("labels alone", self.call("data", "labels.npz")[0])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_write_data_writes_labels_alone_and_numbers_are_tensors(self):
        self.write("write.py", "import sys\nsys.path.insert(0, PACKAGE)\nimport sounder\n"
                   "sounder.write_data('written.npz', (None, [0, 1] * 80), (None, [0, 1] * 30))\n")
        subprocess.run([sys.executable, "write.py"], cwd=self.folder.name, check=True, timeout=DEADLINE)
        self.write("net.py", TORCH.replace("    for x, y in turn.batches():\n", "    for x, y in turn.batches():\n        x = own[turn.split][x]\n")
                   + "own = {split: torch.ones(200, 64) for split in ('train', 'test')}\nsounder.serve(lambda: nn.Linear(64, 2), train, test)\n")
        self.run_with("run", "--data", "written.npz", script="net.py")


class Tensors(TrainerCase):
    """Which tensors travel, and in which type."""

    def test_arrays_that_do_not_travel_stay_and_are_named_if_they_move(self):
        patterns = NUMPY.replace("sounder.turns(net)", "sounder.turns(net, exchange=['fc2.w*', 'fc2.bias'])")
        self.write("moves.py", patterns)
        _, err = self.run_with("moves", script="moves.py", code=69)
        self.assertRegex(err, "fc1.weight changed in a turn and does not travel")
        self.write("stays.py", patterns.replace("        for name in net:\n", "        for name in ('fc2.weight', 'fc2.bias'):\n"))
        for algorithm in ("fedavg", "scaffold"):
            self.run_with(algorithm, "--algorithm", algorithm, script="stays.py")
            self.assertEqual(list(self.weights(algorithm)), ["fc2.weight", "fc2.bias"])
        self.write("wrong.py", NUMPY.replace("sounder.turns(net)", "sounder.turns(net, exchange='lora_*')"))
        _, err = self.run_with("wrong", script="wrong.py", code=69)
        self.assertIn("exchange 'lora_*': no tensor has such a name; there are fc1.weight", err)
        self.write("empty.py", NUMPY.replace("sounder.turns(net)", "sounder.turns({})"))
        self.assertIn("a dict without arrays is no net", self.run_with("empty", script="empty.py", code=69)[1])

    def test_gradients_that_cannot_be_corrected_are_named(self):
        for name, change, sentence in (("named", "{'fc3.weight': slope['fc1.weight']}", "the net has no array fc3.weight"),
                                       ("listed", "{'fc1.bias': slope['fc1.bias'].tolist()}", "which list does not allow; give np.array(gradient)")):
            self.write(f"{name}.py", NUMPY.replace("turn.correct(slope)", f"turn.correct({change})"))
            _, err = self.run_with(name, "--algorithm", "scaffold", script=f"{name}.py", code=69)
            self.assertIn(sentence, err)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_half_precision_is_widened_and_narrowed(self):
        for kind in ("float16", "bfloat16"):
            self.write(f"{kind}.py", TORCH.replace("F.cross_entropy(net(x), y)", "F.cross_entropy(net(x).float(), y)").replace("out = net(x)", "out = net(x).float()") + f'''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow, self.head = nn.Linear(64, 16).to(torch.{kind}), nn.Linear(16, 10)
        self.register_buffer("steps", torch.zeros(3, dtype=torch.long))
    def forward(self, x):
        hidden = F.linear(x.flatten(1), self.narrow.weight.float(), self.narrow.bias.float())
        return self.head(torch.tanh(hidden))
sounder.serve(Net, train, test)
''')
            self.run_with(f"still-{kind}", "--rounds", "1", "--lr", "1e-12", script=f"{kind}.py")
            self.run_with(f"{kind}-1", "--algorithm", "scaffold", "--workers", "1", script=f"{kind}.py")
            still, moved = self.weights(f"still-{kind}"), self.weights(f"{kind}-1")
            self.assertEqual(sorted(still), ["head.bias", "head.weight", "narrow.bias", "narrow.weight"])
            narrowed = torch.tensor(still["narrow.weight"]).to(getattr(torch, kind)).double().numpy()
            self.assertTrue(np.array_equal(narrowed, still["narrow.weight"]), "the initial values are of the narrow type")
            self.assertFalse(np.array_equal(moved["narrow.weight"], still["narrow.weight"]))
        self.run_with("bfloat16-2", "--algorithm", "scaffold", "--workers", "2", script="bfloat16.py")
        self.assertEqual(self.model("bfloat16-1"), self.model("bfloat16-2"))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_half_precision_tensor_that_is_not_trained_stays_as_it_is(self):
        self.write("half.py", TORCH.replace("F.cross_entropy(net(x), y)", "F.cross_entropy(net(x).float(), y)") + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow, self.head = nn.Linear(64, 16).to(torch.bfloat16), nn.Linear(16, 10)
    def forward(self, x):
        hidden = F.linear(x.flatten(1), self.narrow.weight.float(), self.narrow.bias.float())
        return self.head(torch.tanh(hidden if options.get("learns") else hidden.detach()))
def train(net, turn, inner=train):
    options.update(turn.options)
    inner(net, turn)
options = {}
sounder.serve(Net, train, test)
''')
        self.run_with("learns", "--trainer-option", "learns=true", script="half.py")
        self.run_with("rests", "--init", "learns/model.safetensors", script="half.py")
        learns, rests = self.weights("learns"), self.weights("rests")
        narrowed = torch.tensor(learns["narrow.weight"]).to(torch.bfloat16).double().numpy()
        self.assertFalse(np.array_equal(narrowed, learns["narrow.weight"]), "a mean of clients is not of the narrow type")
        for name in ("narrow.weight", "narrow.bias"):
            self.assertTrue(np.array_equal(learns[name], rests[name]), name)
        self.assertFalse(np.array_equal(learns["head.weight"], rests["head.weight"]))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_adapters_travel_alone(self):
        self.write("lora.py", TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(64, 10)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(2, 64) * 0.1), nn.Parameter(torch.zeros(10, 2))
        self.base.requires_grad_(False)
    def forward(self, x):
        return self.base(x.flatten(1)) + x.flatten(1) @ self.lora_a.T @ self.lora_b.T
sounder.serve(Net, train, test, exchange="lora_*")
''')
        self.run_with("lora", script="lora.py")
        self.assertEqual(sorted(self.weights("lora")), ["lora_a", "lora_b"])


class Batches(TrainerCase):
    """How many samples a batch has."""

    def sizes(self, size, kind="not turn.trains"):
        """Of the batches in one run, but for its rehearsal."""
        run = f"sizes-{len(size)}-{len(kind)}"
        self.write("sizes.py", NUMPY.replace("    for x, y in turn.batches():\n", f"""    for x, y in turn.batches({size}):
        if {kind} and not turn.rehearsal: print("batch of", len(y), flush=True)
"""))
        self.run_with(run, "--batch-size", "2", "--rounds", "1", "--workers", "1", script="sizes.py")
        with open(self.path(run, "trainer.log")) as log:
            return [int(line.split()[-1]) for line in log if "batch of" in line]

    def test_those_of_a_test_are_ten_times_as_large_or_as_the_trainer_wishes(self):
        self.assertEqual(self.sizes(""), [20, 20, 20])
        self.assertEqual(self.sizes("None if turn.trains else 25"), [25, 25, 10])

    def test_those_of_a_training_are_the_runs_or_as_the_trainer_wishes(self):
        self.assertEqual(self.sizes("", "turn.trains"), 4 * 20 * [2])
        self.assertEqual(self.sizes("25 if turn.trains else None", "turn.trains"), 4 * [25, 15])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
