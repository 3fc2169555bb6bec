"""Trainers: tensors that stay with a client, rest in a turn, or stay as they are.

Usage: test_trainer_parts.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import sys, unittest

from trainers import JOB, LAYERS, NUMPY, TORCH, TrainerCase, np, torch

# The net of trainers.py, which leaves alone what rests in a turn, and has something to do in each.
RESTS = NUMPY.replace("sounder.turns(net)", "sounder.turns(net, still=True)").replace(
    "        for name in net:\n", "        for name in (name for name in net if name not in turn.still):\n").replace(
    "    fault = spoil(turn)\n", "    fault = spoil(turn)\n    assert turn.samples > 0, 'a turn without samples'\n")
RESTS_TORCH = TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(64, 12), nn.Linear(12, 10)
    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))
'''


class Parts(TrainerCase):
    """Tensors that stay with a client, or stay as they are."""

    def last(self, run):
        return self.rounds(run)[-1]

    def test_what_stays_with_a_client_is_that_of_the_engine(self):
        given = [*self.start_weights(), "--rounds", "3", "--clients-per-round", "3", "--client-test", "0.25", "--eval-clients-every", "1", "--finetune-epochs", "1"]
        for name, algorithm in (("head", "fedper"), ("body", "lg-fedavg"), ("names", "personal tensors names=fc2.*"),
                                ("several", 'personal tensors names="fc1.bias,fc2.w*"'), ("all", "local-only"), ("second", "ditto lambda=0.5")):
            with self.subTest(algorithm=algorithm):
                self.train(*JOB, *given, "--model", LAYERS, "--algorithm", algorithm, "--quiet", "--out", f"engine-{name}")
                for workers in ("1", "3"):
                    self.run_with(f"trainer-{name}-{workers}", *given, "--algorithm", algorithm, "--workers", workers)
                self.assertEqual(self.model(f"trainer-{name}-1"), self.model(f"trainer-{name}-3"))
                self.assert_near(f"trainer-{name}-1", f"engine-{name}")
                theirs, ours = self.last(f"engine-{name}"), self.last(f"trainer-{name}-1")
                self.assertAlmostEqual(ours["personal_loss"], theirs["personal_loss"], 4)
                self.assertEqual((ours["down_bytes"], ours["up_bytes"]), (theirs["down_bytes"], theirs["up_bytes"]))
        self.assertEqual(self.model("trainer-head-1"), self.model("trainer-names-1"))

    def test_head_and_body_that_are_trained_in_turn_are_those_of_the_engine(self):
        self.write("arrays.py", RESTS)
        self.write("module.py", RESTS_TORCH + "sounder.serve(Net, train, test, still=True)\n")
        given = [*self.start_weights(), "--rounds", "3", "--clients-per-round", "3", "--client-test", "0.25", "--eval-clients-every", "1"]
        for name, algorithm in (("plain", "fedrep head-epochs=2"), ("pulled", "fedprox mu=0.5; personal alternate head-epochs=1"),
                                ("fixed", "fedbabu epochs=2"), ("tuned", "fedbabu epochs=2 tunes=head")):
            self.train(*JOB, *given, "--model", LAYERS, "--algorithm", algorithm, "--quiet", "--out", f"engine-{name}")
            for script, workers in (("arrays.py", "123"), ("module.py", "13" if torch and name == "plain" else "")):
                runs = [f"{script}-{name}-{count}" for count in workers]
                if not runs:
                    continue
                with self.subTest(algorithm=algorithm, script=script):
                    for run in runs:
                        self.run_with(run, *given, "--algorithm", algorithm, "--workers", run[-1], script=script)
                    self.assertEqual(len({self.model(run) for run in runs}), 1)
                    self.assert_near(runs[0], f"engine-{name}")
                    theirs, ours = self.last(f"engine-{name}"), self.last(runs[0])
                    for figure in ("personal_loss", "train_loss"):
                        self.assertAlmostEqual(ours[figure], theirs[figure], 4)
                    self.assertEqual(ours["up_bytes"], theirs["up_bytes"])

    def test_a_program_that_trains_what_rests_is_stopped_by_its_name(self):
        self.write("heedless.py", NUMPY.replace("sounder.turns(net)", "sounder.turns(net, still=True)"))
        _, err = self.run_with("heedless", "--algorithm", "fedrep", script="heedless.py", code=69)
        self.assertIn("it trained fc1.weight, which rests in this turn: leave the tensors of turn.still as they are", err)
        _, err = self.run_with("whole", "--algorithm", "fedrep layers=2", script="heedless.py", code=64)
        self.assertIn("layers=2: no module is left to be trained after the head; lower it", err)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_the_statistics_of_a_batch_norm_rest_with_its_part(self):
        self.write("norm.py", RESTS_TORCH.replace("nn.Linear(12, 10)\n", "nn.Linear(12, 10)\n        self.norm, self.out = nn.BatchNorm1d(10), nn.Linear(10, 10)\n").replace(
            "return self.fc2(torch.tanh(self.fc1(x.flatten(1))))", "return self.out(self.norm(self.fc2(torch.tanh(self.fc1(x.flatten(1))))))")
            + "sounder.serve(Net, train, test, still=True)\n")
        for workers in "12":
            self.run_with(f"norm-{workers}", "--algorithm", "fedrep head-epochs=2", "--workers", workers, script="norm.py")
        self.assertEqual(self.model("norm-1"), self.model("norm-2"))
        self.assertTrue(self.weights("norm-1")["norm.running_mean"].any(), "the body's turn moves them")

    def test_personal_tensors_survive_a_resume(self):
        for name, algorithm in (("tensors", "personal tensors fc2.*"), ("ditto", "ditto")):
            self.run_with(f"whole-{name}", "--rounds", "4", "--algorithm", algorithm)
            self.run_with(f"parts-{name}", "--algorithm", algorithm)
            self.train("--resume", f"parts-{name}", "--rounds", "4", "--quiet")
            self.assertEqual(self.model(f"parts-{name}"), self.model(f"whole-{name}"))
            self.assertEqual(self.last(f"parts-{name}")["personal_loss"], self.last(f"whole-{name}")["personal_loss"])

    def test_a_fault_in_a_turn_costs_no_bit_of_what_stays(self):
        for name, algorithm in (("tensors", "personal tensors fc2.*"), ("ditto", "ditto")):
            self.run_with(f"sound-{name}", "--algorithm", algorithm)
            self.forget_fault()
            _, err = self.run_with(f"fault-{name}", "--algorithm", algorithm, "--trainer-option", "fault=die once=true")
            self.assertIn("its trainer failed in round 1", err)
            self.assertEqual(self.bits(f"fault-{name}"), self.bits(f"sound-{name}"))
            self.assertEqual(self.last(f"fault-{name}")["personal_loss"], self.last(f"sound-{name}")["personal_loss"])

    def test_names_that_no_tensor_has_are_refused_with_those_that_there_are(self):
        for arguments, sentence in ((["--algorithm", "personal tensors"], "which ones? Write names or patterns"),
                                    (["--algorithm", "personal tensors names=head.*"], '"head.*" fits none of the net\'s tensors; there are fc1.weight, fc1.bias'),
                                    (["--algorithm", "fedper layers=3"], "has only 2 modules"), (["--algorithm", "fedbn"], "personal tensors names=norm*"),
                                    (["--algorithm", "fedrep"], "sounder.serve(..., still=True), or take fedper"), (["--freeze", "head"], "fits none"), (["--freeze", "*"], "every tensor")):
            with self.subTest(arguments=arguments):
                self.assertIn(sentence, self.refused(*arguments))

    def test_frozen_tensors_stay_whatever_the_trainer_does(self):
        self.run_with("free", "--rounds", "1", "--lr", "1e-12")
        self.run_with("frozen", "--freeze", "fc1.*,fc2.bias")
        before, after = self.weights("free"), self.weights("frozen")
        for name in before:
            self.assertEqual(name == "fc2.weight", not np.array_equal(before[name], after[name].astype(before[name].dtype)), name)
        self.assertLess(self.last("frozen")["up_bytes"], self.last("free")["up_bytes"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
