"""Where two runs part.

Usage: test_diff.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, pty, re, shutil, subprocess, sys, unittest

from runs import DEADLINE, SANITIZED, SOUNDER, RunCase

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--clients", "6",
         "--rounds", "3", "--quiet", "--device", "cpu"]


class Diff(RunCase):
    def run_small(self, run, *options):
        self.train(*SMALL, *options, "--out", run)

    def diff(self, a, b, code):
        done = subprocess.run([SOUNDER, "diff", a, b], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code < 2 else done.stderr

    def rewrite(self, run, change):
        """Passes every line of the run's metrics through change(line)."""
        lines = self.metrics(run)
        for line in lines:
            change(line)
        with open(self.path(run, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def test_runs_with_other_numbers_of_workers_are_the_same(self):
        self.run_small("1", "--workers", "1")
        self.run_small("3", "--workers", "3")
        self.assertEqual(self.diff("1", "3", 0), "the same model in all 3 rounds that both have done\n")

    def test_a_longer_run_is_the_same_as_far_as_the_shorter_one_goes(self):
        self.run_small("short")
        self.run_small("long", "--rounds", "5")
        self.assertEqual(self.diff("short", "long", 0), "the same model in all 3 rounds that both have done; long has done 2 more\n")
        self.run_small("one", "--rounds", "1")
        self.assertEqual(self.diff("one", "short", 0), "the same model in the one round that both have done; short has done 2 more\n")

    def test_another_option_is_named_with_the_first_client_and_tensor_that_show_it(self):
        self.run_small("a", "--lr", "0.05")
        self.run_small("b", "--lr", "0.06")
        told = self.diff("a", "b", 1)
        self.assertIn("the runs part in round 1\n  client 0: had another loss\n  tensor conv1.weight of the model, and maybe later ones\n", told)
        self.assertTrue(told.endswith("different from the start:\n  --lr: 0.05, 0.06\n"), told)

    def test_other_data_and_another_split_are_named(self):
        self.run_small("a")
        self.run_small("b", "--seed", "2")
        told = self.diff("a", "b", 1)
        for line in ("  --seed: 1, 2\n", "  the data set (XXH3): "):
            self.assertIn(line, told)
        self.run_small("c", "--partition", "iid")
        self.assertIn("  the split of the data (XXH3): ", self.diff("a", "c", 1))

    def test_a_client_that_took_part_in_one_run_alone_is_named(self):
        self.run_small("a", "--clients-per-round", "3")
        self.run_small("b", "--clients-per-round", "3", "--sampling", "cyclic")
        told = self.diff("a", "b", 1)
        self.assertRegex(told, r"round 1\n  client \d: took part in the (first|second) run alone\n")
        self.assertIn("  --sampling: uniform, cyclic shuffle=no\n", told)

    def test_the_lowest_client_that_differs_in_the_first_round_that_does_is_named(self):
        self.run_small("a")
        self.run_small("b")

        def change(line):
            if line.get("round") == 2 and line.get("client") in (5, 3):
                line["weights_xxh3"] = "0123456789abcdef"
            if line["type"] == "round" and line["round"] >= 2:
                line["model_xxh3"] = "0123456789abcdef"
                line["tensors_xxh3"]["fc1.bias"] = "0123456789abcdef"
        self.rewrite("b", change)
        self.assertEqual(self.diff("a", "b", 1), "the runs part in round 2\n  client 3: trained other weights\n"
                                                 "  tensor fc1.bias of the model, and maybe later ones\n"
                                                 "different from the start:\n  nothing that is written down\n")

    def test_texts_of_a_record_do_not_command_the_terminal(self):
        self.run_small("a")
        self.run_small("b")

        def change(line):
            if line["type"] == "start":
                line["device"] = "\x1b[2J\x1b]0;owned\x07\r"
            if line["type"] == "round":
                line["model_xxh3"] = "0123456789abcdef"
                line["tensors_xxh3"] = {"\x1b[31mfc": "0123456789abcdef"}
        self.rewrite("b", change)
        told = self.diff("b", "a", 1)
        self.assertIn("  tensor ?[31mfc of the model", told)
        self.assertIn("  computed with: ?[2J?]0;owned??, ", told)

    def test_long_records_take_little_memory_and_a_terminal_sees_them_go_by(self):
        rounds, clients = 20_000, 4
        for run, last in (("a", "0"), ("b", "1")):
            os.mkdir(self.path(run))
            with open(self.path(run, "config.yaml"), "w") as file:
                file.write("data: nowhere\n")
            with open(self.path(run, "metrics.jsonl"), "w") as file:
                for round in range(1, rounds + 1):
                    for client in range(clients):
                        file.write('{"type":"client","round":%d,"client":%d,"loss":%s}\n' % (round, client, round))
                    file.write('{"type":"round","round":%d,"model_xxh3":"%016x"}\n' % (round, int(last) if round == rounds else round))
        parent, child = pty.openpty()
        little = [] if SANITIZED else ["prlimit", f"--data={8 << 20}"]  # bytes, for two records of 6 MB
        done = subprocess.Popen([*little, SOUNDER, "diff", "a", "b"], cwd=self.folder.name, stdout=subprocess.PIPE, stderr=child, env={**os.environ, "TERM": "xterm"})
        told = done.stdout.read().decode()
        done.wait(timeout=DEADLINE)
        done.stdout.close()
        os.close(child)
        seen = os.read(parent, 65536).decode()
        os.close(parent)
        self.assertEqual((done.returncode, told.splitlines()[:2]), (1, ["the runs part in round 20000", "  no client's record differs: what was made of the updates does"]))
        self.assertEqual(re.findall(r"reading (\w): round (\d+)", seen), [("a", "8192"), ("a", "16384"), ("b", "8192"), ("b", "16384")])

    def test_what_is_no_run_is_refused(self):
        self.run_small("a")
        self.assertIn("none: there is no run; give the folder of one", self.diff("a", "none", 66))
        os.mkdir(self.path("empty"))
        shutil.copy(self.path("a/config.yaml"), self.path("empty/config.yaml"))
        self.assertIn("error: empty/metrics.jsonl tells of no run; give the folder of one", self.diff("a", "empty", 66))
        with open(self.path("empty/metrics.jsonl"), "w") as file:
            file.write('{"type":"start"}\n')
        self.assertIn("error: there is no round that both a and empty have done", self.diff("a", "empty", 66))
        self.assertIn("needs two runs", subprocess.run([SOUNDER, "diff", "a"], cwd=self.folder.name, text=True, capture_output=True).stderr)


if __name__ == "__main__":
    unittest.main(argv=["test_diff.py"] + sys.argv[2:], verbosity=2)
