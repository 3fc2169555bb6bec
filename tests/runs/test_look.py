"""The commands that look at runs: sounder runs.

Usage: test_look.py PATH_OF_SOUNDER [unittest arguments]
"""
import csv, fcntl, io, json, os, pty, statistics, struct, subprocess, sys, termios, unittest

from runs import DEADLINE, SMALL, SOUNDER, RunCase


class Look(RunCase):
    def sounder(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def write_run(self, name, accuracies, finished=True, target=None, **options):
        """A run folder as a run would have left it, without the run."""
        os.makedirs(self.path(name))
        with open(self.path(name, "config.yaml"), "w") as file:
            file.writelines(f"{key.replace('_', '-')}: {value}\n" for key, value in options.items())
        lines = [{"type": "start", "time": "2026-11-22T01:18:15.123Z", "workers": 2, "clients": 10, "clients_per_round": 5}]
        for round, accuracy in enumerate(accuracies, 1):
            lines.append({"type": "client", "round": round, "client": 0, "loss": 1.0})
            lines.append({"type": "round", "round": round, "train_loss": 2.0 / round, "test_loss": 1.0 / round, "test_accuracy": accuracy,
                          "seconds": 0.5, "eval_seconds": 0.25, "samples": 30000, "workers_lost": 0, "simulated_seconds_total": round,
                          "down_bytes_total": 1000000 * round, "up_bytes_total": 500000 * round})
        if finished:
            lines.append({"type": "summary", "rounds": len(accuracies), "rounds_to_target": target})
        with open(self.path(name, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


class Runs(Look):
    def write_sweep(self):
        """Two values of alpha, three seeds of each."""
        self.final = {"0.1": [0.70, 0.75, 0.71], "10": [0.85, 0.86, 0.84]}
        for alpha, finals in self.final.items():
            for seed, final in enumerate(finals, 1):
                self.write_run(f"sweep/{alpha}-{seed}", [0.5, 0.9, final], partition="dirichlet", alpha=alpha, seed=seed)

    def test_runs_are_listed_with_the_options_in_which_they_differ(self):
        self.write_sweep()
        self.write_run("sweep/deep/down/last", [0.25], finished=False, partition="contiguous", seed=1)
        rows = json.loads(self.sounder("runs", "sweep", "--format", "json"))
        self.assertEqual([row["run"] for row in rows],
                         ["sweep/0.1-1", "sweep/0.1-2", "sweep/0.1-3", "sweep/10-1", "sweep/10-2", "sweep/10-3", "sweep/deep/down/last"])
        self.assertEqual(set(rows[0]), {"run", "state", "alpha", "partition", "seed", "rounds", "accuracy_percent", "best_percent",
                                        "test_loss", "seconds", "samples_per_second", "megabytes_sent"})
        first, last = rows[0], rows[-1]
        self.assertEqual((first["alpha"], first["seed"], first["state"], last["alpha"], last["state"]), (0.1, 1, "finished", None, "stopped"))
        self.assertEqual((first["rounds"], first["accuracy_percent"], first["best_percent"]), (3, 70, 90))
        self.assertEqual((first["seconds"], first["samples_per_second"], first["megabytes_sent"]), (2.25, 40000, 4.5))
        self.assertAlmostEqual(first["test_loss"], 1 / 3)

    def test_the_text_has_a_line_a_run_and_columns_that_stand_below_their_titles(self):
        self.write_sweep()
        lines = self.sounder("runs", "sweep").splitlines()
        self.assertEqual(len(lines), 7)
        self.assertRegex(lines[0], r"^run +state +seed +alpha +rounds  accuracy %  best %  test loss  MB sent  seconds  samples/s$")
        self.assertRegex(lines[1], r"^sweep/0.1-1  finished  1 +0.1 +3 +70.00 +90.00 +0.3333 +4.5 +2.25 +40,000$")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_by_gives_mean_and_standard_deviation_over_the_rest(self):
        self.write_sweep()
        self.write_run("sweep/cut", [0.1], finished=False, partition="dirichlet", alpha="0.1", seed=4)
        told = self.sounder("runs", "sweep", "--by", "alpha")
        lines = told.splitlines()
        self.assertRegex(lines[0], r"^alpha +n +rounds +accuracy %")
        self.assertRegex(lines[1], r"^0\.1 +3 +3 +72\.00 ± 2\.65 +90\.00 ± 0\.00 ")
        self.assertRegex(lines[2], r"^10 +3 +3 +85\.00 ± 1\.00 ")
        self.assertEqual(lines[3:], ["mean ± standard deviation over: seed", "left out, for it is not finished: 1 of 7 runs"])
        for row in json.loads(self.sounder("runs", "sweep", "--by", "alpha", "--format", "json")):
            finals = [100 * value for value in self.final[f"{row['alpha']:g}"]]
            self.assertAlmostEqual(row["accuracy_percent"], statistics.mean(finals))
            self.assertAlmostEqual(row["accuracy_percent_std"], statistics.stdev(finals))

    def test_groups_are_in_the_order_of_their_numbers_and_one_run_has_no_deviation(self):
        for clients in ("100", "9", "20"):
            self.write_run(f"runs/{clients}", [0.5], clients=clients)
        rows = list(csv.DictReader(io.StringIO(self.sounder("runs", "--by", "clients", "--format", "csv"))))
        self.assertEqual([(row["clients"], row["runs"], row["accuracy_percent"], row["accuracy_percent_std"]) for row in rows],
                         [("9", "1", "50", ""), ("20", "1", "50", ""), ("100", "1", "50", "")])

    def test_rounds_to_the_target_are_averaged_over_those_that_reached_it(self):
        for seed, target in ((1, 10), (2, 14), (3, None)):
            self.write_run(f"runs/{seed}", [0.5], target=target, target_accuracy=0.4, seed=seed)
        (row,) = json.loads(self.sounder("runs", "--by", "model", "--format", "json"))
        self.assertEqual((row["rounds_to_target"], row["reached_target"], row["runs"]), (12, 2, 3))

    def test_a_count_that_followed_from_the_workers_is_the_one_that_the_run_had(self):
        self.write_run("runs/a", [0.5])
        self.write_run("runs/b", [0.5], clients=4)
        self.assertEqual([row["clients"] for row in json.loads(self.sounder("runs", "--format", "json"))], [10, 4])

    def test_tables_for_spreadsheets_documents_and_papers_escape_what_they_have_to(self):
        self.write_run("runs/a", [0.5, 0.25], algorithm='"fedprox mu=0.1; combine mean uniform"', model='"linear 10, relu|x"')
        self.write_run("runs/b_1", [0.5, 0.75])
        (a, b) = csv.DictReader(io.StringIO(self.sounder("runs", "--format", "csv")))
        self.assertEqual((a["model"], a["algorithm"], b["run"]), ("linear 10, relu|x", "fedprox mu=0.1; combine mean uniform", "runs/b_1"))
        markdown = self.sounder("runs", "--format", "md").splitlines()
        self.assertEqual(len(markdown), 4)
        self.assertEqual(markdown[1].replace("-", "").replace(":", ""), "|" * markdown[1].count("|"))
        self.assertIn(r"| linear 10, relu\|x |", markdown[2])
        latex = self.sounder("runs", "--by", "algorithm", "--format", "latex")
        self.assertTrue(latex.startswith("\\begin{tabular}{l") and latex.endswith("\\bottomrule\n\\end{tabular}\n"), latex)
        self.assertIn(r"accuracy \%", latex)
        self.assertIn(r"runs/b\_1 & finished", self.sounder("runs", "--format", "latex"))

    def test_a_table_is_no_wider_than_the_terminal_and_keeps_its_numbers(self):
        for seed in (1, 2):
            self.write_run(f"runs/a-rather-long-name-of-a-folder-{seed}", [0.5 + seed / 8], seed=seed, algorithm='"fedprox mu=0.1; optimizer sgd"')
        (parent, child) = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        subprocess.run([SOUNDER, "runs"], cwd=self.folder.name, stdout=child, timeout=DEADLINE, check=True)
        os.close(child)
        lines = os.read(parent, 65536).decode().splitlines()
        os.close(parent)
        self.assertEqual([len(line) for line in lines], [100, 100, 100])
        self.assertRegex(lines[1], r"^….*-of-a-folder-1  finished .* 62\.50 .* 40,000$")

    def test_a_run_that_runs_says_so(self):
        process = self.start(*SMALL, "--workers", "1", "--rounds", "5000", "--out", "runs/now")
        self.wait_for_round("runs/now", 2)
        (row,) = json.loads(self.sounder("runs", "--format", "json"))
        self.assertEqual(row["state"], "running")
        self.assertGreaterEqual(row["rounds"], 2)
        process.kill()
        process.communicate()
        (row,) = json.loads(self.sounder("runs", "runs/now", "--format", "json"))
        self.assertEqual(row["state"], "stopped")
        self.train("--resume", "runs/now", "--rounds", str(row["rounds"] + 1))
        (row,) = json.loads(self.sounder("runs", "runs/now/", "--format", "json"))
        self.assertEqual((row["run"], row["state"]), ("runs/now", "finished"))

    def test_what_cannot_be_understood_is_named_and_left_out(self):
        self.write_run("runs/good", [0.5])
        self.write_run("runs/newer", [0.5], option_of_tomorrow=1)
        done = subprocess.run([SOUNDER, "runs"], cwd=self.folder.name, text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2))
        self.assertRegex(done.stderr, r"^sounder: warning: runs/newer is left out: runs/newer/config.yaml:1: option-of-tomorrow: unknown option")

    def test_refusals_name_what_to_write_instead(self):
        self.assertIn("error: runs cannot be opened: No such file", self.sounder("runs", code=66))
        os.mkdir(self.path("runs"))
        self.assertIn("error: runs holds no run; give the folder of one", self.sounder("runs", code=66))
        self.write_run("runs/a", [0.5], finished=False)
        self.assertIn("error: --by alpa: unknown option; did you mean", self.sounder("runs", "--by", "alpa", code=64))
        self.assertIn("error: --by quiet: is about one process", self.sounder("runs", "--by", "quiet", code=64))
        self.assertIn("error: none of the 1 runs is finished", self.sounder("runs", "--by", "seed", code=66))
        self.assertRegex(self.sounder("runs", "--format", "xml", code=64), "--format xml: .*text, csv, md, latex or json")
        self.assertIn("error: --bye: unknown option; did you mean --by?", self.sounder("runs", "--bye", "seed", code=64))
        self.assertIn("error: run: unknown command; did you mean runs?", self.sounder("run", code=64))
        self.assertIn("Usage: sounder runs [FOLDER ...]", self.sounder("runs", "--help"))
        self.assertEqual(self.sounder("help", "runs"), self.sounder("runs", "-h"))


if __name__ == "__main__":
    unittest.main(argv=["test_look.py"] + sys.argv[2:], verbosity=2)
