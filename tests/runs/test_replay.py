"""One client of one round, trained again.

Usage: test_replay.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, signal, statistics, struct, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, RunCase, parse_safetensors, wait_until

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; dropout 0.2; linear 10", "--batch-size", "10",
         "--clients", "6", "--quiet", "--device", "cpu"]


class Replay(RunCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("tmp"))

    def tearDown(self):
        self.assertEqual(os.listdir(self.path("tmp")), [])  # whatever happened
        super().tearDown()

    def run_small(self, run, *options):
        self.train(*SMALL, *options, "--out", run)

    def replay(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "replay", *map(str, arguments)], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True,
                              env=dict(os.environ, TMPDIR=self.path("tmp")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def clients(self, run, round):
        return [line for line in self.metrics(run) if line["type"] == "client" and line["round"] == round]

    def test_every_client_comes_out_as_in_the_run_from_its_first_round_to_its_last(self):
        self.run_small("run", "--rounds", "4", "--workers", "3", "--partition", "dirichlet", "--alpha", "0.3",
                       "--clients-per-round", "3", "--sampling", "power-of-choice candidates=5", "--stragglers",
                       "0.4 work=partial", "--local-epochs", "3", "--weight-decay", "0.01",
                       "--lr-schedule", "exponential")
        for round in (1, 3, 4):
            for line in self.clients("run", round):
                told = self.replay("run", "--round", round, "--client", line["client"])
                self.assertIn(f"as in the run: XXH3 of the weights {line['weights_xxh3']}\n", told)
                # The last two checkpoints are kept, so that only the third round needs the first two.
                self.assertEqual("rounds 1 to 2 are trained again" in told, round == 3)

    def test_a_client_that_keeps_something_from_turn_to_turn_comes_out_as_well(self):
        self.run_small("run", "--rounds", "4", "--algorithm", "scaffold", "--clients-per-round", "4", "--momentum", "0")
        for line in self.clients("run", 4) + self.clients("run", 1):
            told = self.replay("run", "--round", line["round"], "--client", line["client"])
            self.assertIn(f"as in the run: XXH3 of the weights {line['weights_xxh3']}\n", told)

    def test_attackers_come_out_as_they_were_trained(self):
        for attack in ("label-flip", "sign-flip"):
            self.run_small(attack, "--rounds", "2", "--attack", attack, "--attackers", "1,4")
            for line in self.clients(attack, 2)[:3]:
                told = self.replay(attack, "--round", 2, "--client", line["client"])
                self.assertIn(f"as in the run: XXH3 of the weights {line['weights_xxh3']}\n", told)

    def rewrite(self, run, lines):
        with open(self.path(run, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def test_without_a_fingerprint_the_loss_is_compared(self):
        """As a card notes it. Of so many clients, some losses would round to another ninth digit than their tenth does."""
        self.run_small("run", "--clients", "40", "--rounds", "2")
        self.rewrite("run", [{key: value for key, value in line.items() if key != "weights_xxh3"} for line in self.metrics("run")])
        for line in self.clients("run", 2):
            self.assertIn("as in the run: loss ", self.replay("run", "--round", 2, "--client", line["client"]))

    def test_the_file_holds_the_update_and_the_loss_of_every_step(self):
        """Of a single client the update is the step of the model, as far as single precision goes."""
        still = ["--clients", "1", "--rounds", "1"]
        self.run_small("before", *still, "--lr", "1e-30", "--momentum", "0")
        self.run_small("run", *still)
        self.replay("run", "--round", 1, "--client", 0, "--out", "update.safetensors")
        with open(self.path("update.safetensors"), "rb") as file:
            blob = file.read()
        (length,) = struct.unpack("<Q", blob[:8])
        header = json.loads(blob[8 : 8 + length])
        begin, end = header.pop("losses")["data_offsets"]
        losses = struct.unpack(f"<{(end - begin) // 8}d", blob[8 + length + begin : 8 + length + end])
        self.assertEqual(len(losses), 40)
        self.assertAlmostEqual(statistics.fmean(losses), self.clients("run", 1)[0]["loss"], places=8)
        def tensors(run):
            with open(self.path(run, "model.safetensors"), "rb") as file:
                return parse_safetensors(file.read())[1]
        before, after = tensors("before"), tensors("run")
        self.assertEqual(set(header) - {"__metadata__"}, set(after))
        for name, (shape, values) in after.items():
            begin, end = header[name]["data_offsets"]
            update = struct.unpack(f"<{(end - begin) // 4}f", blob[8 + length + begin : 8 + length + end])
            self.assertEqual(header[name]["shape"], shape)
            for new, old, step in zip(values, before[name][1], update):
                self.assertAlmostEqual(new - old, step, delta=1e-6)

    def test_a_client_that_began_twice_from_one_model_is_replayed_in_its_last_turn(self):
        self.run_small("run", "--clients", "4", "--clients-per-round", "3", "--client-time", "lognormal deviation=2",
                       "--rounds", "10", "--algorithm", "fedbuff K=3")
        turns = [(line["round"], line["client"]) for line in self.metrics("run") if line["type"] == "client" and line.get("visit")]
        self.assertTrue(turns)
        for number, client in turns[:2]:
            self.assertIn("as in the run: XXH3", self.replay("run", "--round", number, "--client", client))

    def test_another_result_than_the_runs_is_an_error_that_names_both(self):
        self.run_small("run", "--rounds", "1")
        lines = self.metrics("run")
        for line in lines:
            if line["type"] == "client" and line["client"] == 2:
                right, line["weights_xxh3"] = line["weights_xxh3"], "0123456789abcdef"
        self.rewrite("run", lines)
        self.assertIn(f"client 2 of round 1: XXH3 of the weights is {right}, the run noted 0123456789abcdef; it computed with ",
                      self.replay("run", "--round", 1, "--client", 2, code=65))
        self.replay("run", "--round", 1, "--client", 3)

    def test_its_folder_goes_however_it_ends(self):
        self.run_small("run", "--rounds", "3", "--local-epochs", "1000")
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen([SOUNDER, "replay", "run", "--round", "1", "--client", "0"], cwd=self.folder.name, stdout=subprocess.DEVNULL,
                                       env=dict(os.environ, TMPDIR=self.path("tmp")))
            self.started.append(process)
            self.assertTrue(wait_until(lambda: os.listdir(self.path("tmp"))))
            process.send_signal(number)
            self.assertEqual(process.wait(DEADLINE), -number)
            self.assertTrue(wait_until(lambda: not os.listdir(self.path("tmp"))), number)

    def test_what_cannot_be_replayed_is_refused(self):
        self.run_small("run", "--rounds", "1", "--clients-per-round", "1")
        absent = ({0, 1, 2, 3, 4, 5} - {line["client"] for line in self.clients("run", 1)}).pop()
        self.assertIn(f"--client {absent}: did not train in round 1 of run", self.replay("run", "--round", 1, "--client", absent, code=64))
        self.assertIn("did not train in round 2", self.replay("run", "--round", 2, "--client", 0, code=64))
        self.assertIn("needs a run, a round and a client", self.replay("run", "--round", 1, code=64))
        self.assertIn("none cannot be opened", self.replay("none", "--round", 1, "--client", 0, code=66))
        self.run_small("ssgd", "--rounds", "1", "--algorithm", "ssgd")
        self.replay("ssgd", "--round", 1, "--client", 0, code=64)


if __name__ == "__main__":
    unittest.main(argv=["test_replay.py"] + sys.argv[2:], verbosity=2)
