"""A turn is what its function was asked for: when its answer leaves, what it may say, and which samples the client sees.

Usage: test_trainer_turns.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import importlib.util, json, shutil, sys, unittest

from trainers import JOB, NUMPY, PACKAGE, TORCH, TrainerCase, np, torch

# Each batch of a training takes 1 from each weight; TAIL is what the function does after its loop.
COUNTS = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
def train(net, turn):
    for x, y in turn.batches():
        net["w"] -= 1
        turn.add(1.0, len(y))
    TAIL
def test(net, turn):
    for x, y in turn.batches():
        turn.add(1.0, len(y), hits=HITS)
sounder.serve({"w": np.zeros(3, np.float32)}, train, test, state=2)
'''
BY_NUMBER = NUMPY.replace("for x, y in turn.batches():", "for x, y in ((DATA.enter(turn.x[i]), turn.y[i]) for i in turn.indices()):").replace(
    "for turn in sounder.turns(net):", "for turn in sounder.turns(net):\n    DATA = turn._data")
NET = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.table, self.out = nn.Embedding(16, 8, sparse=SPARSE), nn.Linear(8, 10)\n" \
      "    def forward(self, x):\n        return self.out(self.table((x.flatten(1)[:, :5].abs() * 7).long().clamp(0, 15)).mean(1))\nsounder.serve(Net, train, test)\n"

# Samples of the program's own, whose labels are their numbers modulo 4. It has seen a sample where its weight says so.
COUNTED = '''
import os, sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
class Set:
    def __init__(self, samples):
        self.targets, self.writer = np.arange(samples) % MODULUS, ["ab"[i % 2] for i in range(samples)]
    def __len__(self): return len(self.targets)
    def __getitem__(self, i): return i, self.targets[i]
def train(net, turn):
    for taken in turn.indices():
        net["seen"][taken] += turn.client + 1
        turn.add(1.0, len(taken))
def test(net, turn):
    for taken in turn.indices():
        turn.add(float(net["seen"].sum()), len(taken))
sounder.serve({"seen": np.zeros(LENGTH, np.float32)}, train, test, data=(Set(LENGTH), Set(12)) WORDS)
'''
# One program, whose loop is the library's or that of TORCH; both see the same samples.
LOOKS = TORCH + '''
import os
class Set(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.targets = torch.arange(samples) % 10
        self.x = torch.nn.functional.one_hot(self.targets, 64) + torch.randn(samples, 64, generator=torch.Generator().manual_seed(samples))
    def __len__(self): return len(self.targets)
    def __getitem__(self, i): return {"x": self.x[i], "y": self.targets[i]}
sets = Set(160), Set(60)
def look(net, batch):
    out = net(batch["x"])
    tokens = batch["y"].float().sum() + 1
    return dict(loss=F.cross_entropy(out, batch["y"]), hits=(out.argmax(1) == batch["y"]).sum(), first=out[0, 0].detach() * 0 + 2,
                **({"weight": tokens} if "WEIGHS" in os.environ else {}))
def pairs(turn):
    return ((batch["x"], batch["y"]) for batch in turn.loader())
sounder.Turn = sounder.trainer.turn.Turn
Net = lambda: nn.Sequential(nn.Linear(64, 16), nn.Tanh() if "PLAIN" in os.environ else nn.BatchNorm1d(16), nn.Linear(16, 10))
if os.environ["BY"] == "hf":
    from transformers import Trainer
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()
        def forward(self, x, y):
            out = self.net(x)
            return {"loss": F.cross_entropy(out, y), "logits": out}
    def train_by(net, turn):
        own = [sets[0][number] for number in sorted({int(number) for taken in turn.own() for number in taken})]
        Trainer(net, turn.hf_arguments("scratch", optim="sgd"), train_dataset=own, callbacks=[turn.hf()]).train()
    sounder.serve(Loss, train_by, lambda net, turn: [turn.add(net(**batch)["loss"], len(batch["y"])) for batch in turn.loader()], data=sets)
elif os.environ["BY"] == "lightning":
    import lightning.pytorch
    class Module(lightning.pytorch.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()
        def training_step(self, batch, number):
            return F.cross_entropy(self.net(batch["x"]), batch["y"])
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 100)]
    def train_by(net, turn):
        turn.lightning().fit(net, turn.loader(each_epoch=True))
    sounder.serve(Module, train_by, lambda net, turn: [turn.add(F.cross_entropy(net.net(batch["x"]), batch["y"]), len(batch["y"])) for batch in turn.loader()], data=sets)
elif os.environ["BY"] == "hand":
    sounder.Turn.batches = pairs
    sounder.serve(Net, train, test, data=sets)
else:
    sounder.serve(Net, look, data=sets, accumulate=int(os.environ["BY"]), autocast=os.environ.get("CAST"), schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 100))
'''

# Each client draws the weights to its own number by a loss whose gradient is (1 + number) * (w - number), by an optimizer of its own.
DRAWN = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
def slope(w, client):
    return (1 + client) * (w - client)
def numpy_train(net, turn):
    m, v, momentum = np.zeros(3), np.zeros(3), np.zeros(3)
    for t, (x, y) in enumerate(turn.batches(), 1):
        g = {"w": slope(net["w"], turn.client).astype(np.float64)}
        turn.add(1.0, len(y))
        turn.correct(g)
        if turn.options["by"] == "adam":
            m, v = 0.9 * m + 0.1 * g["w"], 0.999 * v + 0.001 * g["w"] ** 2
            net["w"] -= 0.1 * m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
        else:
            if turn.clip: g["w"] *= min(1, turn.clip / np.linalg.norm(g["w"]))
            momentum = turn.momentum * momentum + g["w"] + turn.weight_decay * net["w"]
            net["w"] -= turn.lr * momentum
    if turn.options.get("tells"): turn.hand_in(steps=t)
def test(net, turn):
    for x, y in turn.batches():
        turn.add(1.0, len(y), hits=0)
def torch_train(net, turn):
    optimizer = torch.optim.Adam([net.w], lr=0.1)
    for x, y in turn.batches():
        optimizer.zero_grad()
        ((1 + turn.client) * (net.w - turn.client) ** 2 / 2).sum().backward()
        turn.correct(); turn.add(1.0, len(y)); optimizer.step()
if "torch" in sys.argv:
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
    sounder.serve(Net, torch_train, test)
sounder.serve({"w": np.array([0.5, -1, 2], np.float32)}, numpy_train, test)
'''


def scaffold_by_adam(rounds):
    """The weights of DRAWN's four clients, with four steps each and control variates that are means of gradients."""
    w, common, kept = np.array([0.5, -1, 2]), np.zeros(3), np.zeros((4, 3))
    for _ in range(rounds):
        ends, before = [], kept.copy()
        for client in range(4):
            own, m, v, gradients = w.copy(), np.zeros(3), np.zeros(3), []
            for t in range(1, 5):
                gradients.append((1 + client) * (own - client))
                g = gradients[-1] + common - before[client]
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                own -= 0.1 * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            ends.append(own)
            kept[client] = np.mean(gradients, 0)
        common, w = common + (kept - before).mean(0), np.mean(ends, 0)
    return w


class Turns(TrainerCase):
    def test_scaffold_keeps_mean_gradients_after_other_steps_than_sgds(self):
        self.write("drawn.py", DRAWN)
        for kind in ("numpy", "torch") if torch else ("numpy",):
            _, err = self.run_with(kind, "--algorithm", "scaffold", "--trainer-option", "by=adam", "--rounds", "5", script=f"drawn.py {kind}")
            np.testing.assert_allclose(self.weights(kind)["w"], scaffold_by_adam(5), rtol=0, atol=1e-5)
            self.assertNotIn("steps", err)

    def test_plain_sgd_keeps_the_bits_of_its_steps_and_fednova_says_what_it_cannot_know(self):
        self.write("drawn.py", DRAWN)
        given = ["--clip-grad-norm", "2", "--weight-decay", "0.01"]
        for name, options in (("seen", "by=sgd"), ("told", "by=sgd tells=1")):
            _, err = self.run_with(name, "--algorithm", "scaffold", *given, "--trainer-option", options, script="drawn.py")
            self.assertEqual(err, "")
        self.assertEqual(self.model("seen"), self.model("told"))
        _, err = self.run_with("nova-adam", "--algorithm", "fednova", "--trainer-option", "by=adam", script="drawn.py")
        self.assertEqual(err.count("known for SGD alone; say turn.hand_in(travel=...)"), 1, err)

    def test_what_follows_hand_in_reaches_no_run(self):
        self.write("tail.py", COUNTS.replace("TAIL", "turn.state = [3, 4]; turn.hand_in(steps=4); net['w'] *= 100; turn.state[:] = 9").replace("HITS", "0"))
        self.run_with("tail", script="tail.py")  # 4 clients of 40 samples: 4 batches a round, two rounds
        self.assertEqual(self.weights("tail")["w"].tolist(), [-8, -8, -8])

    def test_a_function_that_fails_after_hand_in_has_no_result(self):
        self.write("fails.py", COUNTS.replace("TAIL", "turn.hand_in(); assert turn.rehearsal, 'after'").replace("HITS", "0"))
        _, err = self.run_with("fails", script="fails.py", code=69)
        self.assertIn("AssertionError: after", err)

    def test_epochs_have_ends_and_a_training_may_have_batches_of_another_size(self):
        told = "    print('epochs', [[len(y) for _, y in epoch] for epoch in turn.each_epoch()], [len(y) for _, y in turn.batches(25)])\n    for x, y"
        self.write("epochs.py", COUNTS.replace("    for x, y", told, 1).replace("TAIL", "pass").replace("HITS", "0"))
        self.run_with("epochs", "--batch-size", "15", "--local-epochs", "2", "--rounds", "1", script="epochs.py")
        with open(self.path("epochs", "trainer.log")) as file:
            seen = {line.split("epochs ")[1].strip() for line in file if line.startswith("rank")}
        self.assertEqual(seen, {"[[15, 15, 10], [15, 15, 10]] [25, 15, 25, 15]"})

    def test_a_figure_of_parts_of_a_test_is_told_once(self):
        for whole in (False, True):
            self.write("parts.py", COUNTS.replace("TAIL", "pass").replace("HITS", "0)\n    turn.metric(f1=0.5").replace("state=2", f"whole_test={whole}"))
            _, err = self.call("train", "--trainer", f"{sys.executable} parts.py", "--data", "synthetic:1x4x4:40:1200", "--clients", "2", "--rounds", "2", "--quiet",
                               "--out", str(whole))
            self.assertEqual(err.count("f1 of turn.metric is the mean over parts of the test, 500 samples each"), int(not whole), err)

    def test_threads_of_tokenizers_are_named_with_their_variable(self):
        thread = "import ctypes, types, sys\nlibc = ctypes.CDLL(None)\nsys.modules['tokenizers'] = types.ModuleType('tokenizers')\n" \
                 "libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.cast(libc.pause, ctypes.c_void_p), None)\n"
        self.write("threads.py", thread + NUMPY)
        sentence = "cannot be forked: its threads are those of tokenizers: set TOKENIZERS_PARALLELISM=false"
        _, err = self.run_with("threads", "--rounds", "1", script="threads.py")
        self.assertEqual(err.count(sentence), 1, err)

    def test_options_that_no_turn_has_read_are_told_and_refused_as_an_axis(self):
        reads = "    turn.lr, turn.clip, turn.options.get('width')\n    for x, y"
        self.write("reads.py", COUNTS.replace("    for x, y", reads, 1).replace("TAIL", "pass").replace("HITS", "0"))
        given = ["--clip-grad-norm", "1", "--local-epochs", "2", "--trainer-option", "width=3 widht=4"]
        _, err = self.run_with("reads", *given, script="reads.py")
        self.assertEqual(err.count("no turn has read --momentum 0.5 (turn.momentum), --trainer-option widht=4 (turn.options) so far"), 1, err)
        out = self.call("sweep", *JOB, "--trainer", f"{sys.executable} reads.py", "--momentum", "0,0.9", "--lr", "0.1,0.2", "--out", "sweep", code=64)
        self.assertIn("--momentum: the sweep compares its values, and no turn of the trainer has read turn.momentum", str(out))
        self.call("sweep", *JOB, "--trainer", f"{sys.executable} reads.py", "--lr", "0.1,0.2", "--quiet", "--out", "other")

    def test_counts_that_are_no_whole_numbers_are_refused_by_name(self):
        for tail, hits, sentence in (("pass", "0.93", "hits=0.93 is no whole number"), ("turn.hand_in(steps=2.5)", "0", "steps=2.5 is no whole number"),
                                     ("turn.add(1.0, 0.5)", "0", "samples=0.5 is no whole number"),
                                     ("turn.state = np.zeros(3)", "0", "turn.state has the shape [2] and was given [3]")):
            with self.subTest(tail=tail):
                self.write("part.py", COUNTS.replace("TAIL", tail).replace("HITS", hits))
                _, err = self.run_with("part", script="part.py", code=69)
                self.assertIn(sentence, err)

    def test_epochs_squared_and_a_state_that_is_not_kept_are_told_once(self):
        twice = COUNTS.replace("    for x, y in turn.batches():\n        net", "    for _ in range(turn.epochs):\n     for x, y in turn.batches():\n        net")
        self.write("twice.py", twice.replace("TAIL", "pass").replace("HITS", "0"))
        _, err = self.run_with("twice", "--local-epochs", "3", script="twice.py")
        self.assertEqual(err.count("trained on 360 samples and the turn has 120 in its 3 epochs"), 1, err)
        self.assertEqual(err.count("the trainer wants 2 floats of each client kept"), 1, err)

    def test_a_state_that_is_assigned_is_there_in_the_clients_next_turn(self):
        tail = "print('state', turn.state.tolist()); turn.state = turn.state + [1, 2]"
        self.write("state.py", COUNTS.replace("TAIL", tail).replace("HITS", "0"))
        self.run_with("state", "--client-optimizer-state", "keep", script="state.py")
        with open(self.path("state", "trainer.log")) as file:
            seen = sorted(line.split("state ")[1].strip() for line in file if line.startswith("rank"))
        self.assertEqual(seen, 4 * ["[0.0, 0.0]"] + 4 * ["[1.0, 2.0]"])

    def test_each_part_of_a_large_test_of_a_client_begins_with_its_weights(self):
        self.write("adapts.py", COUNTS.replace("net[\"w\"] -= 1", "pass").replace("TAIL", "net['w'] += 1").replace(
            "turn.add(1.0, len(y), hits=HITS)", "turn.add(float(net['w'][0]), len(y))\n    net['w'] += 5").replace("state=2", "state=0"))
        self.train("--trainer", f"{sys.executable} adapts.py", "--data", "synthetic:1x4x4:2400:60", "--clients", "2", "--client-test", "0.5", "--rounds", "1",
                   "--finetune-epochs", "1", "--eval-clients-every", "1", "--quiet", "--out", "run")
        told = {line["model"]: line["loss_mean"] for line in self.metrics("run") if line["type"] == "clients_evaluation"}
        self.assertEqual(told["fine-tuned"], 2.0, told)  # 600 samples are two parts

    def test_samples_by_number_are_those_that_the_client_sees(self):
        self.write("number.py", BY_NUMBER)
        plain = None
        for name, options in (("plain", []), ("flip", ["--attack", "label-flip", "--attackers", "0.5"]), ("noise", ["--client-noise", "gaussian sigma=0.5"]),
                              ("drift", ["--drift", "labels round=2"])):
            with self.subTest(name=name):
                self.run_with(f"batches-{name}", *options)
                self.run_with(f"number-{name}", *options, script="number.py")
                self.assertEqual(self.bits(f"number-{name}"), self.bits(f"batches-{name}"))
                plain = plain or self.bits("batches-plain")
                self.assertEqual(self.bits(f"number-{name}") == plain, name == "plain")

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_schedulers_take_a_corrected_optimizer_before_and_after_it_is_one(self):
        # Half the rate from the third of four steps on; both orders train to the same weights.
        body = TORCH.replace("turn.correct(); optimizer.step()", "optimizer.step(); scheduler.step()")
        make = "torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)\n"
        before = body.replace("    for x, y in turn.batches():\n        loss", f"    scheduler = {make}    turn.correcting(optimizer)\n    for x, y in turn.batches():\n        loss", 1)
        after = body.replace("    for x, y in turn.batches():\n        loss", f"    scheduler = torch.optim.lr_scheduler.StepLR(turn.correcting(optimizer), 2, 0.5)\n    for x, y in turn.batches():\n        loss", 1)
        for name, text in (("before", before), ("after", after)):
            self.write(f"{name}.py", text + "sounder.serve(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), train, test)\n")
            self.run_with(name, "--algorithm", "fedprox mu=0.5", script=f"{name}.py")
        self.assertEqual(self.bits("before"), self.bits("after"))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_sparse_gradients_train_to_the_weights_of_dense_ones(self):
        for sparse in (True, False):
            self.write(f"{sparse}.py", TORCH + NET.replace("SPARSE", str(sparse)))
            self.run_with(str(sparse), "--algorithm", "fedprox mu=0.5", script=f"{sparse}.py")
        self.assert_near("True", "False", 1e-6)

# Clients whose samples the program has: client k has 10 k + 1 of them, and moves the weight by k + 1. What it keeps is how often it trained.
CLIENTS = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

def train(net, turn):
    (client,), = turn.own()
    turn.state += 1
    net["w"] += client + 1
    turn.add(float(client), 10 * client + 1)
def test(net, turn):
    for batch in turn.own():
        for client in batch:
            turn.add(turn.state[0], 10 * client + 1, hits=client, own=10.0 * client + 1)
sounder.serve({"w": np.zeros(3, np.float32)}, train, test, state=1)
'''


class ToldClients(TrainerCase):
    """--data clients:N, combine mean told."""

    def told(self, run, *arguments, code=0):
        return self.train("--trainer", f"{sys.executable} told.py", "--data", "clients:4", "--rounds", "3", "--client-optimizer-state", "keep",
                          "--algorithm", "combine mean told", "--quiet", "--out", run, *arguments, code=code)

    def test_samples_that_trainers_tell_weigh_updates_and_tests(self):
        self.write("told.py", CLIENTS)
        shares = np.array([1, 11, 21, 31])
        step = (shares * np.arange(1, 5)).sum() / shares.sum()
        self.told("one", "--workers", "1")
        self.assertLess(abs(self.weights("one")["w"] - 3 * step).max(), 1e-6)
        last = self.rounds("one")[-1]
        self.assertEqual((last["samples"], last["test_loss"], last["test_accuracy"]), (64, 3, 6 / 64))  # the state is there in tests
        self.assertAlmostEqual(last["train_loss"], (shares * np.arange(4)).sum() / 64)
        self.assertAlmostEqual(last["test_metrics"]["own"], (shares * shares).sum() / 64)
        self.told("two", "--workers", "2", "--rounds", "1")
        self.train("--resume", "two", "--rounds", "3", "--quiet")
        self.assertEqual(self.model("one"), self.model("two"))
        self.told("some", "--clients-per-round", "2", "--rounds", "1")
        out, _ = self.call("eval", "one", "--json")
        self.assertEqual(json.loads(out)["samples"], 64)

    def test_what_nobody_tells_is_refused(self):
        self.write("told.py", CLIENTS.replace("10 * client + 1, hits", "0, hits"))
        self.assertIn("its test of a client added 0 samples", self.told("none", code=69)[1])
        for arguments, sentence in ((["--algorithm", "combine mean told"], "a trainer tells the samples of its clients"),
                                    (["--data", "clients:4"], "labels without samples"), (["--data", "clients:x"], "needs a whole number")):
            self.assertIn(sentence, self.train("--data", "synthetic:1x8x8:40:10", "--out", "refused", *arguments, code=64)[1])


class OwnData(TrainerCase):
    """Programs with Datasets: no --data, and one function that looks at a batch."""

    def start(self, run, *options, code=0, script="own.py", batch="10", **environment):
        return self.call("train", "--trainer", f"{sys.executable} {script}", "--quiet", "--rounds", "2", "--batch-size", batch, *options, "--out", run,
                         code=code, XDG_CACHE_HOME=self.path("cache"), **environment)

    def own(self, length=40, modulus=4, words=""):
        self.write("own.py", COUNTED.replace("LENGTH", str(length)).replace("MODULUS", str(modulus)).replace("WORDS", words))

    def test_each_client_trains_its_samples_of_the_programs_own_data(self):
        self.own()
        self.start("run", "--clients", "4")
        self.assertEqual(self.weights("run")["seen"].tolist(), [(1 + i // 10) / 2 for i in range(40)])  # two rounds, each a quarter of it
        self.own(words=", client='writer'")
        self.start("users")
        self.assertEqual(self.weights("users")["seen"].tolist(), 20 * [1.0, 2.0])

    def test_other_samples_than_the_run_began_with_end_it_with_a_sentence(self):
        self.own()
        self.start("run", "--clients", "4")
        again = ("--trainer", f"{sys.executable} own.py", "--resume", "run", "--rounds", "3", "--quiet")
        self.own(length=41)
        self.assertIn("the program's train set has 41 samples, the run's data 40", self.call("train", *again, code=69)[1])
        self.own(modulus=5)
        self.assertIn("the labels of the program's train set are not those with which the run began", self.call("train", *again, code=69)[1])
        self.own()
        shutil.rmtree(self.path("cache"))  # the program is asked again
        self.call("train", *again, XDG_CACHE_HOME=self.path("cache"))
        self.assertIn("leave --data out", self.start("both", "--data", "synthetic:1x8x8:40:12", "--clients", "4", code=69)[1])
        self.assertIn("does not say that it reads samples as clients see them", self.start("flip", "--clients", "4", "--attack", "label-flip", "--attackers", "1", code=64)[1])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_the_librarys_loop_is_that_by_hand_and_accumulates_to_larger_batches(self):
        self.write("own.py", LOOKS)
        common = ("--clients", "4", "--lr", "0.05", "--momentum", "0.5", "--algorithm", "fedprox mu=0.1")
        self.start("hand", *common, "--workers", "1", BY="hand")
        self.start("look", *common, "--workers", "2", BY="1", WEIGHS="yes")
        self.assertEqual(self.bits("look"), self.bits("hand"))
        last, by_hand = self.rounds("look")[-1], self.rounds("hand")[-1]
        self.assertEqual((last["test_loss"], last["test_accuracy"]), (by_hand["test_loss"], by_hand["test_accuracy"]))
        self.assertEqual(last["test_metrics"]["first"], 2.0)
        self.assertGreater(last["test_metrics"]["weighted_loss"], 0)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_accumulated_batches_make_one_step_and_bf16_computes_in_it(self):
        self.write("own.py", LOOKS)
        common = ("--rounds", "1", "--clients", "4", "--lr", "0.5", "--seed", "1", "--quiet")
        for run, batch, by, cast in (("two", "20", "2", {}), ("cast", "40", "1", {"CAST": "bf16"})):  # one step of all 40 samples
            self.call("train", "--trainer", f"{sys.executable} own.py", *common, "--batch-size", batch, "--out", run, BY=by, PLAIN="yes", **cast,
                      XDG_CACHE_HOME=self.path("cache"))
        labels = torch.arange(160) % 10
        x = torch.nn.functional.one_hot(labels, 64) + torch.randn(160, 64, generator=torch.Generator().manual_seed(160))

        def by_hand(cast):
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
            for first in range(0, 160, 40):
                with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    loss = torch.nn.functional.cross_entropy(net(x[first : first + 40]), labels[first : first + 40])
                (loss / 4).backward()
            return np.concatenate([(weight - 0.5 * weight.grad).detach().numpy().ravel() for weight in net.parameters()])

        two, cast = (np.concatenate([part.ravel() for part in self.weights(run).values()]) for run in ("two", "cast"))
        np.testing.assert_allclose(two, by_hand(False), rtol=0, atol=1e-6)
        self.assertLess(10 * abs(cast - by_hand(True)).max(), abs(cast - by_hand(False)).max())

    def compare_loops(self, by, other, *words):
        """One batch has all samples of a client, so that its order is of no matter."""
        self.write("own.py", LOOKS)
        for run in (other, by):
            self.start(run, "--clients", "4", "--lr", "0.05", "--local-epochs", "3", "--algorithm", "scaffold", *words, batch="40", BY=run, PLAIN="yes")
        ours, theirs = (np.concatenate([part.ravel() for part in self.weights(run).values()]) for run in (by, other))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
        first, second = ([(line["samples"], round(line["train_loss"], 5)) for line in self.rounds(run)] for run in (by, other))
        self.assertEqual(first, second)

    @unittest.skipUnless(torch and importlib.util.find_spec("transformers"), "there is no transformers")
    def test_a_trainer_of_transformers_steps_as_a_loop_by_hand(self):
        self.compare_loops("hf", "hand")

    @unittest.skipUnless(torch and importlib.util.find_spec("lightning"), "there is no Lightning")
    def test_a_trainer_of_lightning_steps_as_the_loop_of_the_library_and_corrects_before_it_clips(self):
        self.compare_loops("lightning", "1", "--clip-grad-norm", "0.3")

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_kept_optimizer_continues_as_if_it_had_never_ended(self):
        sys.path.insert(0, PACKAGE)
        from sounder.trainer.keeping import KeptOptimizer, floats_of
        for make in (lambda p: torch.optim.AdamW(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
            whole, parts = (torch.nn.Linear(3, 2) for _ in range(2))
            parts.load_state_dict(whole.state_dict())
            floats, one = np.zeros(floats_of(parts, type(make(whole.parameters()))), np.float32), make(whole.parameters())
            for turn in range(3):
                two = make(parts.parameters())
                kept = KeptOptimizer(two, floats)
                for batch in range(2):
                    for net, optimizer in ((whole, one), (parts, two)):
                        optimizer.zero_grad()
                        net(torch.full((1, 3), turn + batch + 1.0)).pow(2).sum().backward()
                        optimizer.step()
                kept.save()
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters())))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
