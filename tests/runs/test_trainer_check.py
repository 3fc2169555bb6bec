"""--check-trainer and sounder.check find turns that do not repeat, and name the cause; loops that others own are corrected, too.

Usage: test_trainer_check.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, sys, threading, time, unittest

from trainers import JOB, LAYERS, NUMPY, PACKAGE, TORCH, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)
import sounder

NET = "lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))"


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

    def test_counters_and_memories_are_named(self):
        program = """
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
net, steps, memory, twin = {"w": np.zeros((10, 64), np.float32)}, 0, [], np.zeros(3)
def train(net, turn):
    global steps
    for x, y in turn.batches():
        turn.correct({"w": np.zeros_like(net["w"])})
        BEFORE
        net["w"] -= np.float32(0.01 * (steps + len(memory) + twin[0]))
        turn.add(0.1, len(y))
def test(net, turn):
    for x, y in turn.batches(): turn.add(0.1, len(y), hits=0)
sounder.serve(net, train, test)
"""
        for name, line in (("steps", "steps += 1"), ("memory", "memory.append(float(x.mean()))"), ("twin", "twin[0] += 1")):
            with self.subTest(name=name):
                self.assertIn(f"the second time: it uses {name} of before the turn", self.found(name, program.replace("BEFORE", line)))

    def test_a_test_that_trains_is_found(self):
        moves = NUMPY.replace("    fault = spoil(turn)", "    seen = globals().get('seen', 0) + (not turn.trains)\n    fault = spoil(turn)").replace(
            "np.float32(turn.lr)", "np.float32(turn.lr + seen)")
        self.assertIn("client 0 trains to another fc1.weight after a test: a test changes what a training uses", self.found("moves", moves))

    def test_a_metric_that_is_never_reset_is_found(self):
        # Its value of the same samples twice is that of these samples once: only another test between shows that it remembers.
        program = NUMPY.replace("for turn in sounder.turns(net):", "seen = []\nfor turn in sounder.turns(net, whole_test=True):").replace(
            "            turn.add(loss, len(y), hits", "            seen.extend(y)\n            turn.metric(mean=np.mean(seen))\n            turn.add(loss, len(y), hits")
        self.assertIn("the same weights have another mean when they are tested after another test: begin each test with nothing", self.found("remembers", program))
        _, err = self.run_with("plain", "--rounds", "1", script="remembers.py")
        self.assertEqual((err.count("tested the same weights to other figures when it was asked again"), err.count("warning")), (1, 1), err)

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

    def test_an_array_that_a_test_replaces_is_the_rounds_again_in_the_next_training(self):
        self.run_with("in-place", "--workers", "1")
        self.check("replaced", NUMPY.replace("            _, share, loss = ahead(x, y)\n", "            net['fc1.weight'] = net['fc1.weight'] / 2\n            _, share, loss = ahead(x, y)\n"), "--workers", "1")
        self.assertEqual(self.bits("replaced"), self.bits("in-place"))


@unittest.skipUnless(torch, "there is no PyTorch")
class ChecksOfModules(Checking):
    def check(self, *arguments, code=0):
        return super().check(*arguments, "--workers", "1", code=code)

    def run_alone(self, run, program):
        self.write(f"{run}.py", program)
        self.run_with(run, "--workers", "1", script=f"{run}.py")

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
        self.assertIn("client 0 trains to another 1.weight the second time: it uses heads of before the turn",
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
        self.run_alone("all", tied + "sounder.serve(Net, train, test)\n")
        self.run_alone("named", tied + "sounder.serve(Net, train, test, exchange='*')\n")
        self.assertEqual(self.bits("named"), self.bits("all"))

    def test_a_tensor_that_is_replaced_is_named_and_one_with_other_memory_travels(self):
        plain = TORCH + f"sounder.serve({NET}, train, test)\n"
        self.run_alone("plain", plain)
        self.run_alone("memory", plain.replace("        turn.add(loss, len(y))", "        net[1].weight.data = net[1].weight.data.clone()\n        turn.add(loss, len(y))"))
        self.assertEqual(self.bits("memory"), self.bits("plain"))
        _, err = self.check("replaced", plain.replace("    optimizer =", "    net[1] = nn.Linear(64, 8)\n    optimizer ="), code=69)
        self.assertIn("1 was replaced by another module in a turn", err)
        _, err = self.check("renewed", plain.replace("    optimizer =", "    net[1].weight = nn.Parameter(net[1].weight.detach() / 2)\n    optimizer ="), code=69)
        self.assertIn("1.weight was replaced by another tensor in a turn", err)


@unittest.skipUnless(torch, "there is no PyTorch")
class ChecksFromPython(unittest.TestCase):
    """sounder.check forks this process, as that of a notebook."""

    def check(self, spoil=lambda net, turn, optimizer: optimizer, correct=True, tested=lambda turn, y: None, **options):
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
                tested(turn, y)

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

    def test_a_tensor_that_rests_in_a_turn_must_stay_as_it_is(self):
        def add(net, turn, optimizer):
            with torch.no_grad():
                net[3].bias.add_(1)
            return optimizer

        self.check(still=True)
        self.check(add)
        with self.assertRaisesRegex(sounder.Error, "a client trains 3.bias in a turn in which it rests: leave the tensors of turn.still as they are"):
            self.check(add, still=True)

    def test_a_process_that_says_nothing_is_killed_and_the_threads_of_this_one_are_named(self):
        def hang(net, turn, optimizer):
            time.sleep(1000)

        with self.assertRaisesRegex(sounder.Error, "has said nothing for 0.5 s; (give more hang_seconds|it is a fork of this process)"):
            self.check(hang, hang_seconds=0.5)
        thread = threading.Event()
        waiter = threading.Thread(target=thread.wait)
        waiter.start()
        try:
            with self.assertRaisesRegex(sounder.Error, r"it is a fork of this process, which is a bad start, since it has \d+ threads: .* --check-trainer in a run"):
                self.check(hang, hang_seconds=0.5)
        finally:
            thread.set()
            waiter.join()
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)

    def test_a_net_has_the_classes_of_all_samples(self):
        def make(data):
            self.assertEqual((data.classes, data.shape), (5, (1, 1, 1)))
            return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, data.classes))

        def train(net, turn):
            for x, y in turn.batches():
                net.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                turn.correct()
                torch.optim.SGD(net.parameters(), lr=turn.lr).step()
                turn.add(0, len(y))

        sounder.check(make, train, lambda net, turn: None, (np.arange(100.0), np.arange(100) // 20), still=True)

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

        def renew(net, turn, optimizer):
            net[3] = torch.nn.Linear(4, 3)
            return optimizer

        seen = []

        def remember(turn, y):
            seen.extend(y.tolist())
            turn.metric(classes=np.mean(seen))

        with self.assertRaisesRegex(sounder.Error, "another classes when they are tested after another test"):
            self.check(tested=remember)

        with self.assertRaisesRegex(sounder.Error, "3 was replaced by another module in a turn"):
            self.check(renew, exchange="1.*")
        with self.assertRaisesRegex(sounder.Error, "device=cuda: a dict of arrays has no device"):
            sounder.check({"w": np.zeros(4, np.float32)}, None, None, (np.zeros((8, 4)), np.zeros(8, int)), device="cuda")
        with self.assertRaisesRegex(sounder.Error, "data: 1 samples; give at least 2"):
            sounder.check(None, None, None, (np.zeros((1, 4)), [1]))


class Clipping(TrainerCase):
    def test_gradients_that_are_corrected_and_then_clipped_give_the_weights_of_the_engine(self):
        clip = ["--clip-grad-norm", "0.05"]
        self.write("trainer.py", NUMPY.replace("            turn.correct(slope)\n", "            turn.correct(slope)\n"
                   "        norm = sum((part ** 2).sum() for part in slope.values()) ** 0.5\n"
                   "        for part in slope.values(): part *= min(1, turn.clip / (norm + 1e-6))\n"))
        start = self.start_weights()
        for algorithm in ("fedavg", "fedprox mu=1"):
            given = [*start, "--algorithm", algorithm, *clip]
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
        self.assert_near("whole", "halves")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
