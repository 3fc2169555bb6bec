"""Trainers: a program of the user's trains the clients; everything else stays as it is with the engine.

Usage: test_trainer.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, shutil, signal, sys, time, unittest

from runs import ECHO_SECONDS, SLOWED, alive, children_of, descendants_of, parse_safetensors, wait_until
from trainers import FAULTS, HANG_SECONDS, JOB, LAYERS, NUMPY, PACKAGE, TORCH, TrainerCase, np, patience, sleepers, torch


class Trainers(TrainerCase):
    # The engine's weights ---------------------------------------------------------------------------------------------

    def test_a_trainer_gives_the_weights_of_the_engine_with_every_algorithm(self):
        given = self.start_weights()
        begin = self.weights("start")
        for algorithm in ("fedavg", "fedprox mu=0.1", "scaffold", "feddyn", "fednova", "fedadam", "qfedavg", "median", "fltrust",
                          "fedbuff K=2", "local-sgd steps=3"):
            with self.subTest(algorithm=algorithm):
                name = algorithm.split()[0]
                fresh = ["--client-optimizer-state", "fresh"] if name == "local-sgd" else []  # a trainer's is, unless it says otherwise
                self.train(*JOB, *given, *fresh, "--model", LAYERS, "--algorithm", algorithm, "--quiet", "--out", f"engine-{name}")
                self.run_with(f"trainer-{name}", *given, "--algorithm", algorithm)
                engine, own = self.weights(f"engine-{name}"), self.weights(f"trainer-{name}")
                self.assertEqual(list(engine), list(own))
                far = sum(((engine[key] - own[key]) ** 2).sum() for key in engine) ** 0.5
                update = sum(((engine[key] - begin[key]) ** 2).sum() for key in engine) ** 0.5
                self.assertLess(far, 1e-5 * update)
                ours, theirs = self.rounds(f"trainer-{name}")[-1], self.rounds(f"engine-{name}")[-1]
                self.assertAlmostEqual(ours["test_loss"], theirs["test_loss"], 4)
                self.assertEqual(ours["test_accuracy"], theirs["test_accuracy"])

    def test_the_bits_do_not_depend_on_workers_nor_on_a_resume(self):
        for workers in ("1", "2", "3"):
            self.run_with(f"workers-{workers}", "--workers", workers)
        self.assertEqual(len({self.model(f"workers-{workers}") for workers in "123"}), 1)
        self.run_with("whole", "--rounds", "4", "--algorithm", "scaffold")
        self.run_with("parts", "--rounds", "2", "--algorithm", "scaffold")
        self.train("--resume", "parts", "--rounds", "4", "--quiet")
        self.assertEqual(self.model("parts"), self.model("whole"))

    # Faults -----------------------------------------------------------------------------------------------------------

    def test_a_fault_costs_a_turn_and_no_bit(self):
        self.run_with("sound")
        for fault, sentence in FAULTS:
            with self.subTest(fault=fault):
                self.forget_fault()
                _, err = self.run_with(fault, *patience(fault), "--trainer-option", f"fault={fault} once=true")
                self.assertIn("client 1: its trainer failed in round 1", err)
                self.assertIn(sentence, err)
                self.assertEqual(self.bits(fault), self.bits("sound"))

    def test_a_mistake_that_another_trainer_would_make_again_ends_the_run_at_once(self):
        for fault, algorithm, sentence in (("no-correct", "scaffold", "never called turn.correct()"),
                                           ("forget", "fedavg", "was not handed in")):
            with self.subTest(fault=fault):
                _, err = self.run_with(fault, "--algorithm", algorithm, "--trainer-option", f"fault={fault}", code=69)
                self.assertIn(sentence, err)
                self.assertNotIn("another one has done the turn again", err)

    def test_weights_that_are_not_finite_are_named(self):
        _, err = self.run_with("nan", "--trainer-option", "fault=nan")
        self.assertIn("client 1: update refused: a weight of fc2.bias became nan", err)
        self.assertTrue(all(np.isfinite(value).all() for value in self.weights("nan").values()))

    def test_killed_trainers_and_workers_cost_no_bit(self):
        self.run_with("calm", "--rounds", "6")
        for victims in (self.trainers, lambda process: children_of(process.pid)):
            process = self.start(*JOB, "--rounds", "6", "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "slow=0.02",
                                 "--quiet", "--out", "storm", "--on-worker-death", "respawn")
            self.wait_for_round("storm", 1)
            found = wait_until(lambda: victims(process))
            self.assertTrue(found)
            os.kill(found[0], signal.SIGKILL)
            self.finish(process)
            self.assertEqual(self.bits("storm"), self.bits("calm"))
            shutil.rmtree(self.path("storm"))

    def test_nothing_of_a_wrapper_is_left_behind(self):
        wrapper = self.write_wrapper("trainer.py")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = self.start(*JOB, "--rounds", "1000", "--trainer", wrapper, "--quiet", "--out", f"run-{int(number)}",
                                 "--trainer-start", "each")
            self.wait_for_round(f"run-{int(number)}", 1)
            below = descendants_of(process.pid)
            self.assertTrue(sleepers(below))
            if number == signal.SIGKILL:  # of a worker: its trainer's group ends, the run does not
                worker = children_of(process.pid)[0]
                below = descendants_of(worker)
                self.assertGreaterEqual(len(below), 3)
                self.assertTrue(sleepers(below))
                os.kill(worker, signal.SIGKILL)
                self.assertTrue(wait_until(lambda: not any(map(alive, below))), below)
                number, below = signal.SIGTERM, descendants_of(process.pid)
            self.stop(process, number)
            self.assertTrue(wait_until(lambda: not any(map(alive, below))), [pid for pid in below if alive(pid)])

    def test_a_second_signal_ends_trainers_and_their_children_at_once(self):
        process = self.start(*JOB, "--trainer", self.write_wrapper("trainer.py"), "--trainer-option", "fault=hang once=true", "--quiet",
                             "--out", "run")
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("spoilt"))))
        below = descendants_of(process.pid)
        self.assertTrue(sleepers(below))
        process.send_signal(signal.SIGINT)
        time.sleep(2 * ECHO_SECONDS)
        self.assertIsNone(process.poll(), "the first signal only asks")
        process.send_signal(signal.SIGINT)
        self.finish(process, 128 + signal.SIGINT)
        self.assertTrue(wait_until(lambda: not any(map(alive, below))), [pid for pid in below if alive(pid)])

    def test_a_program_may_take_longer_to_start_than_a_turn_may_be_silent(self):
        self.write("slow.py", f"import time\ntime.sleep({2 * SLOWED})\n" + NUMPY)
        _, err = self.run_with("slow", "--hang-seconds", HANG_SECONDS, script="slow.py")
        self.assertEqual(err, "")

    # Refusals ---------------------------------------------------------------------------------------------------------

    def test_what_does_not_go_with_a_trainer_is_refused_by_name(self):
        for arguments, name in ((["--algorithm", "ssgd"], "schedule lockstep"), (["--algorithm", "hogwild"], "hogwild"), (["--algorithm", "pfedme"], "personal moreau"),
                                (["--algorithm", "easgd"], "local elastic"), (["--algorithm", "fedrep"], "personal alternate"),
                                (["--algorithm", "optimizer adam"], "optimizer adam"), (["--algorithm", "optimizer sgd nesterov=yes"], "the optimizer is the trainer's"),
                                (["--client-optimizer-state", "keep"], "client-optimizer-state"),
                                (["--model", "lenet"], "model"), (["--random-crop", "2"], "random-crop"), (["--random-flip"], "random-flip"),
                                (["--label-smoothing", "0.1"], "label-smoothing")):
            with self.subTest(arguments=arguments):
                self.assertIn(name, self.refused(*arguments))
        self.assertIn("NAME=VALUE", self.refused("--trainer-option", "warm"))

    def test_a_program_that_is_none_is_named_before_the_run_begins(self):
        for command, code, sentence in (("no-such-program x", 66, "no program no-such-program"), ("./trainer.py", 66, "trainer.py"),
                                        ("python3 'x", 64, "list of words"), ("true", 69, "exit code 0"), (f"{sys.executable} none.py", 69, "exit code 2")):
            with self.subTest(command=command):
                _, err = self.train(*JOB, "--trainer", command, "--quiet", "--out", "none", code=code)
                self.assertIn(sentence, err)
                self.assertFalse(os.path.exists(self.path("none")))

    def test_a_resumed_run_wants_the_net_that_it_began_with(self):
        self.run_with("run")
        self.write("trainer.py", NUMPY.replace("(12, 64)", "(13, 64)").replace("zeros(12)", "zeros(13)").replace("(10, 12)", "(10, 13)"))
        _, err = self.train("--resume", "run", "--rounds", "3", "--quiet", code=65)
        self.assertIn("run", err)

    def test_the_record_says_what_trained(self):
        self.run_with("run", "--trainer-option", "temperature=0.5", "--trainer-threads", "2")
        with open(self.path("run", "config.yaml")) as file:
            config = file.read()
        for line in ("trainer: ", "trainer-option: temperature=0.5", "trainer-threads: 2"):
            self.assertIn(line, config)
        self.assertNotIn("\nmodel: ", config)
        start = self.metrics("run")[0]
        self.assertEqual(start["trainer"], f"{sys.executable} trainer.py")
        self.assertEqual(os.path.realpath(start["trainer_folder"]), os.path.realpath(self.folder.name))
        out, _ = self.train(*JOB, "--rounds", "1", "--trainer", f"{sys.executable} -u ./trainer.py", "--out", "told")
        self.assertIn("trainer.py 910 weights", out)

    def test_the_package_is_found_where_the_program_was_built(self):
        with open(self.path("plain.py"), "w") as file:
            file.write(NUMPY.replace("sys.path.insert(0, PACKAGE)", "print(sys.path[1:3])"))
        os.mkdir(self.path("mine"))
        self.train(*JOB, "--trainer", f"{sys.executable} plain.py", "--rounds", "1", "--quiet", "--out", "run", env={**os.environ, "PYTHONPATH": self.path("mine")})
        with open(self.path("run", "trainer.log")) as log:
            self.assertIn(str([self.path("mine"), PACKAGE]), log.readline())  # the user's folders come first

    # PyTorch ----------------------------------------------------------------------------------------------------------

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_module_is_served(self):
        self.write("net.py", TORCH + "sounder.serve(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)), train, test)\n")
        for workers in ("1", "2"):
            self.run_with(f"module-{workers}", "--algorithm", "scaffold", "--workers", workers, script="net.py")
        self.assertEqual(self.model("module-1"), self.model("module-2"))
        self.assertIn("2.running_mean", self.weights("module-1"))
        self.assertNotIn("2.num_batches_tracked", self.weights("module-1"))
        sys.path.insert(0, PACKAGE)
        import sounder
        nn = torch.nn
        made = sounder.Run(self.path("module-1")).load_into(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)))
        for name, value in self.weights("module-1").items():
            self.assertTrue(np.array_equal(made.state_dict()[name].numpy().reshape(-1), value.reshape(-1)), name)
        self.assertRaisesRegex(sounder.Error, "1.weight: of shape", sounder.Run(self.path("module-1")).load_into, nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.Linear(9, 10)))

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_a_frozen_body_stays_and_one_that_moves_is_named(self):
        body = '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10)
        for part in (self.body, self.norm):
            part.requires_grad_(False)
    def forward(self, x):
        return self.head(self.norm(self.body(x.flatten(1))))
'''
        self.write("moves.py", TORCH + body + "sounder.serve(Net, train, test)\n")
        self.write("stays.py", TORCH + body + "    def train(self, mode=True):\n        super().train(mode); self.norm.eval(); return self\n"
                   "sounder.serve(Net, train, test)\n")
        _, err = self.run_with("moves", script="moves.py", code=69)
        self.assertIn("norm.running_mean changed in a turn and does not travel", err)
        self.run_with("stays", script="stays.py")
        self.assertEqual(list(self.weights("stays")), ["head.weight", "head.bias"])

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_tied_weights_travel_once_and_a_number_is_a_tensor(self):
        self.write("tied.py", TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.again.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
    def forward(self, x):
        return self.out(torch.tanh(self.again(torch.tanh(self.first(x.flatten(1)))))) * self.scale
sounder.serve(Net, train, test)
''')
        self.run_with("tied", script="tied.py")
        names = list(self.weights("tied"))
        self.assertIn("scale", names)
        self.assertNotIn("again.weight", names)
        with open(self.path("tied", "model.safetensors"), "rb") as file:
            self.assertEqual(parse_safetensors(file.read())[1]["scale"][0], [])

    # Sizes ------------------------------------------------------------------------------------------------------------

    def test_thousands_of_tensors_and_long_names_travel(self):
        self.write("many.py", '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
net = {f"base_model.model.encoder.layer.attention.self.query.lora_A.default.weight.{i:05d}": np.zeros(2, np.float32) for i in range(4000)}
for turn in sounder.turns(net):
    for x, y in turn.batches():
        turn.add(0.0, len(y), hits=0)
    if turn.trains:
        for value in net.values(): value += 1
    turn.hand_in()
''')
        self.run_with("many", "--rounds", "1", script="many.py")
        weights = self.weights("many")
        self.assertEqual(len(weights), 4000)
        self.assertTrue(all((value == 1).all() for value in weights.values()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
