"""sounder sweep: many runs from one command.

Usage: test_sweep.py PATH_OF_SOUNDER [unittest arguments]
"""
import fcntl, json, os, re, resource, shlex, shutil, signal, statistics, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, RunCase, alive, children_of, end_with_the_test, state_of, wait_until

BASE = ["--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--clients", "4",
        "--device", "cpu"]
LEARNED = ["--data", "synthetic-fedprox users=6", "--model", "linear 10", "--batch-size", "10", "--device", "cpu"]
SMALL = [*BASE, "--rounds", "2"]


class Sweep(RunCase):
    def sweep(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "sweep", *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def plan(self, *arguments):
        """The values of the runs, run by run, without what is the same in all of them."""
        lines = self.sweep(*arguments, "--dry-run", "--out", "s").splitlines()
        self.assertFalse(os.path.exists(self.path("s")))
        return [re.search(r"--out=s/([^' ]*)", line).group(1) for line in lines]

    def runs_of(self, sweep):
        return sorted(name for name in os.listdir(self.path(sweep)) if name != "sweep.yaml")

    def accuracy(self, run):
        return self.rounds(run)[-1]["test_accuracy"]

    # What is run -----------------------------------------------------------------------------------------------------

    def test_every_value_is_tried_with_every_other_and_each_run_is_that_of_train(self):
        out = self.sweep(*SMALL, "--partition", "dirichlet", "--seed", "1..2", "--alpha", "0.1,10", "--out", "s")
        self.assertTrue(out.startswith("4 runs (seed 2 x alpha 2), "), out)
        names = [f"seed={seed},alpha={alpha}" for seed in (1, 2) for alpha in ("0.1", "10")]
        self.assertEqual(self.runs_of("s"), sorted(names))
        for name in names:
            self.assertRegex(out, rf"(?m)^\[\d/4\] {re.escape(name)}  {100 * self.accuracy('s/' + name):.2f}%  \d")
        self.train(*SMALL, "--partition", "dirichlet", "--seed", "2", "--alpha", "0.1", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/seed=2,alpha=0.1"))
        finals = [100 * self.accuracy(f"s/seed={seed},alpha=10") for seed in (1, 2)]
        self.assertRegex(out, rf"(?m)^10 +2 +2 +{statistics.mean(finals):.2f} ± {statistics.stdev(finals):.2f} ")
        self.assertIn("\nlook: sounder report s    sounder runs s --by alpha\n4 of 4 runs are done, 0 failed, ", out)

    def test_runs_that_are_still_getting_better_at_their_end_are_told(self):
        slow = ["--data", "quadratics a=1,4 b=0,1", "--clients", "2", "--model", "linear 1", "--seed", "1,2"]
        told = "2 of 2 runs were best in the last fifth of their rounds: more --rounds may change the order\n"
        self.assertIn(told, self.sweep(*slow, "--lr", "0.001", "--rounds", "10", "--out", "rising"))
        self.assertNotIn("more --rounds", self.sweep(*slow, "--lr", "0.5", "--rounds", "200", "--out", "settled"))
        self.assertNotIn("more --rounds", self.sweep(*slow, "--lr", "0.001", "--rounds", "4", "--out", "few"))

    def test_several_values_are_lists_ranges_repetitions_and_braces(self):
        self.assertEqual(self.plan(*SMALL, "--lr", "0.1,0.2", "--seed", "3..4"),
                         ["lr=0.1,seed=3", "lr=0.1,seed=4", "lr=0.2,seed=3", "lr=0.2,seed=4"])
        self.assertEqual(self.plan(*SMALL, "--seed", "1..2,7", "--seed", "9"), ["seed=1", "seed=2", "seed=7", "seed=9"])
        self.assertEqual(self.plan(*SMALL, "--algorithm", "fedavg,fedprox"), ["algorithm=fedavg", "algorithm=fedprox"])
        self.assertEqual(self.plan(*SMALL, "--algorithm", "fedprox mu={0.1,1}; combine mean {uniform,samples}")[1:3],
                         ["algorithm=fedprox-mu=0.1--combine-mean-samples", "algorithm=fedprox-mu=1--combine-mean-uniform"])
        self.assertEqual(self.plan("--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--momentum", "0"), ["run"])
        most = str(2 ** 64 - 1)
        self.assertEqual(self.plan(*SMALL, "--seed", f"{most}..{most},1"), [f"seed={most}", "seed=1"])

    def test_lists_of_an_experiment_are_axes_and_the_folder_keeps_the_sweep(self):
        with open(self.path("exp.yaml"), "w") as file:
            file.write("data: synthetic:1x8x8:400:100\nmodel: softmax\nclients: 4\nrounds: 1\nseed: [1..2, 5]\nlr:\n- 0.1\n- 0.2\n"
                       "algorithm: [fedavg, 'fedprox mu={0.1,1}']\n")
        names = [f"seed={seed},lr={lr},algorithm={a}" for seed in (1, 2, 5) for lr in ("0.1", "0.2") for a in ("fedavg", "fedprox-mu=0.1", "fedprox-mu=1")]
        self.assertEqual(self.plan("exp.yaml"), names)
        typed = ["exp.yaml", "--lr", "0.3", "--algorithm", "fedavg"]  # the command line wins
        self.sweep(*typed, "--show", "accuracy_percent", "--out", "s")
        with open(self.path("s/sweep.yaml")) as file:
            head, *lines = file.read().splitlines()
        self.assertTrue(head.endswith("sounder sweep THIS_FILE --show accuracy_percent --out ANOTHER_FOLDER"), head)
        self.assertEqual(set(lines), {"data: synthetic:1x8x8:400:100", "model: softmax", "clients: 4", "rounds: 1", "algorithm: fedavg", "lr: 0.3", "seed: [1, 2, 5]"})
        self.assertIn("3 of 3 runs are done", self.sweep("s/sweep.yaml", "--out", "s"))
        self.assertIn("(done before)", self.sweep("s/sweep.yaml", "--out", "s"))
        for arguments, sentence in ((["exp.yaml", "--lr", "1", "--algorithm", "fedavg"], "exp.yaml:5: seed: a list of values, as sounder sweep takes them; give one value, here or as --seed"),):
            _, err = self.call("train", *arguments, "--out", "r", code=64)
            self.assertIn(sentence, err)
        self.train("exp.yaml", "--lr", "0.3", "--algorithm", "fedavg", "--seed", "2", "--out", "r")
        self.assertEqual(self.model("r"), self.model("s/seed=2"))
        for line, sentence in (("lr: []", "an empty list"), ("lr: [[1]]", "a list"), ("lr: &a [1]", "an anchor"), ("lr: [0.1, x]", "--lr x: needs a number"), ("quiet: [true]", "quiet: is about one process")):
            with open(self.path("wrong.yaml"), "w") as file:
                file.write(line + "\n")
            _, err = self.call("sweep", "wrong.yaml", "--out", "w", code=64)
            self.assertIn(sentence, err)

    def test_means_are_over_folds_and_over_what_over_names(self):
        with open(self.path("t.csv"), "w") as file:
            print("a,b,label", *(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(60)), sep="\n", file=file)
        common = ["--model", "softmax", "--clients", "2", "--rounds", "2", "--algorithm", "fedavg,fedprox"]
        out = self.sweep("--data", "t.csv fold={1,2,3}/3", *common, "--seed", "1,2", "--against", "fedavg", "--out", "s")
        self.assertEqual(self.runs_of("s"),
                         sorted([f"fold={k}-3,algorithm={a},seed={s}" for k in (1, 2, 3) for a in ("fedavg", "fedprox") for s in (1, 2)]))
        finals = [100 * self.accuracy(f"s/fold={k}-3,algorithm=fedavg,seed={s}") for k in (1, 2, 3) for s in (1, 2)]
        self.assertRegex(out, rf"(?m)^fedavg +6 +2 +{statistics.mean(finals):.2f} ± {statistics.stdev(finals):.2f} ")
        self.assertIn("mean ± standard deviation over: data, seed\n", out)
        self.assertRegex(out, r"(?m)^fedprox +6 .*(equal|not distinguishable)$")
        self.assertIn("minus that of algorithm fedavg with the same seed and data", out)
        (row,) = json.loads(self.call("runs", "s", "--against", "fedavg", "--format", "json")[0])
        self.assertEqual(row["pairs"], 6)
        out = self.sweep("--data", "t.csv test-seed={1,2,3}", *common, "--over", "data", "--out", "r")
        self.assertRegex(out, r"(?m)^fedavg +3 ")
        self.assertIn("sounder runs r --against fedavg --over data\n", out)
        (row,) = json.loads(self.call("runs", "r", "--against", "fedavg", "--over", "data", "--format", "json")[0])
        self.assertEqual(row["pairs"], 3)
        self.assertEqual({row["verdict"] for row in json.loads(self.call("runs", "r", "--against", "fedavg", "--format", "json")[0])}, {"too few seeds"})
        for arguments, sentence in ((["sweep", "--data", "t.csv", "--over", "lr"], "--over lr: has one value in this sweep"), (["runs", "r", "--over", "data"], "--over: only used with --against"),
                                    (["runs", "r", "--against", "fedavg", "--over", "sed"], "--over sed: unknown")):
            _, err = self.call(*arguments, code=64)
            self.assertIn(sentence, err)

    def test_commands_of_a_plan_are_whole_and_a_shell_reads_them_as_they_are_meant(self):
        net = "conv 3 3; pool 2; " + 300 * "relu; " + "linear 8; " + 100 * "relu; " + "linear 10"
        self.assertGreater(len(net), 2048)
        arguments = [*SMALL, "--model", net, "--out", "it's here"]
        (line,) = self.sweep(*(arguments[:2] + arguments[4:]), "--dry-run").splitlines()
        words = shlex.split(line)
        self.assertIn("--model=" + net, words)
        self.assertIn("--out=it's here/run", words)

    def test_values_that_are_lists_have_semicolons_between_them(self):
        weights = ["--data", "synthetic:1x6x6:40:20", "--model", "softmax", "--clients", "2", "--rounds", "1"]
        self.assertEqual(self.plan(*weights, "--class-weights", ",".join("1" * 10)), ["run"])  # one weight alone is no value
        self.assertEqual(self.plan(*weights, "--client-weights", "1,2;2,1"), ["client-weights=1,2", "client-weights=2,1"])
        self.assertEqual(self.plan(*weights, "--client-weights", "1,2", "--client-weights", "2,1"), ["client-weights=1,2", "client-weights=2,1"])
        self.assertEqual(self.plan(*weights, "--freeze", "fc1.bias,fc1.w*;", "--lr", "0.1,0.2"), ["lr=0.1", "lr=0.2"])
        attack = [*("10" if word == "2" else word for word in weights), "--attack", "sign-flip"]
        self.assertEqual(self.plan(*attack, "--attackers", "0.1,0.2"), ["attackers=0.1", "attackers=0.2"])
        self.assertEqual(self.plan(*attack, "--attackers", "1,3;2"), ["attackers=1,3", "attackers=2"])
        for option, value in (("--attackers", "1,3"), ("--without", "1,3"), ("--freeze", "fc1.weight,fc1.bias")):
            _, err = self.call("sweep", *attack, option, value, "--out", "s", code=64)
            self.assertIn(f"{option} {value}: one list, or several values; a sweep has semicolons between them: \"{value};\" is one, \"{value.replace(',', ';')}\" several", err)
        _, err = self.call("sweep", *weights, "--class-weights", ";1,2", "--out", "s", code=64)
        self.assertIn("--class-weights: a value is missing before a semicolon", err)
        self.assertFalse(os.path.exists(self.path("s")))

    def test_a_line_before_it_says_what_the_runs_that_wait_will_take(self):
        line = r"(?m)^plan: (\d+) runs, (\d+) at a time: about (\d+\.\d) s and (\d+\.\d) MB, if all are like (.*)$"

        def says(*arguments):
            out = self.sweep(*SMALL, *arguments)
            return re.findall(line, out)
        self.assertEqual(says("--lr", "0.1", "--out", "one"), [])  # run
        (told,) = says("--lr", "0.1,0.2,0.3", "--parallel", "2", "--out", "s")
        self.assertEqual((told[0], told[1], told[4]), ("3", "2", "lr=0.1"))
        self.assertEqual(self.runs_of("s"), ["lr=0.1", "lr=0.2", "lr=0.3"])
        self.assertEqual(says("--lr", "0.1,0.2,0.3", "--out", "s"), [])  # they are done
        shutil.rmtree(self.path("s/lr=0.2"))
        shutil.rmtree(self.path("s/lr=0.3"))
        self.assertEqual(says("--lr", "0.1,0.2,0.3", "--out", "s")[0][4], "lr=0.2")
        with open(self.path("quiet.yaml"), "w") as file:
            file.write("quiet: true\n")
        self.assertEqual(says("quiet.yaml", "--lr", "0.1,0.2", "--out", "quiet"), [])

    def test_no_turn_for_that_line_touches_a_run_that_is_continued(self):
        self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s")
        for run in ("s/lr=0.1", "s/lr=0.2"):  # as if they had been killed in the second round
            with open(self.path(run, "metrics.jsonl")) as file:
                lines = file.readlines()
            with open(self.path(run, "metrics.jsonl"), "w") as file:
                file.writelines(line for line in lines if '"round":2' not in line and '"summary"' not in line)
            os.remove(self.path(run, "model.safetensors"))
            os.remove(self.path(run, "checkpoints/round-000002.safetensors"))
        out = self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s")
        self.assertNotIn("plan: ", out)
        self.assertEqual([sum(line["type"] == "start" for line in self.metrics(run)) for run in ("s/lr=0.1", "s/lr=0.2")], [2, 2])

    def test_a_list_takes_values_together_and_a_draw_some_of_the_grid(self):
        self.assertEqual(self.plan(*SMALL, "--search", "list", "--lr", "0.1,0.2", "--seed", "3,4"), ["lr=0.1,seed=3", "lr=0.2,seed=4"])
        self.assertEqual(self.plan(*SMALL, "--search", "list", "--lr", "0.1,0.1,0.2", "--seed", "3,4,3"), ["lr=0.1,seed=3", "lr=0.1,seed=4", "lr=0.2,seed=3"])
        grid = self.plan(*SMALL, "--lr", "0.1,0.2,0.3", "--seed", "1..9")
        drawn = self.plan(*SMALL, "--lr", "0.1,0.2,0.3", "--seed", "1..9", "--search", "random", "--number", "5")
        self.assertEqual((len(set(drawn)), set(drawn) - set(grid), len(grid)), (5, set(), 27))
        self.assertNotEqual(drawn, grid[:5])
        self.assertEqual(drawn, self.plan(*SMALL, "--lr", "0.1,0.2,0.3", "--seed", "1..9", "--search", "random", "--number", "5"))

    def test_parts_share_a_grid(self):
        grid = self.plan(*SMALL, "--lr", "0.1,0.2,0.3", "--seed", "1..3")
        parts = [self.plan(*SMALL, "--lr", "0.1,0.2,0.3", "--seed", "1..3", "--part", f"{part}/2") for part in (1, 2)]
        self.assertEqual(parts, [grid[0::2], grid[1::2]])

    # Successive halving --------------------------------------------------------------------------------------------------

    def test_halving_leaves_the_worse_behind_and_ends_with_the_run_of_train(self):
        """1e-6 learns nothing; rounds 1, 3, 9 for 5, 2 and 1 of the values, each with both seeds, on one cosine."""
        arguments = [*LEARNED, "--lr-schedule", "cosine", "--lr", "1e-6,0.05,2e-6,3e-6,4e-6", "--seed", "1..2", "--search", "halving",
                     "--out", "s"]
        out = self.sweep(*arguments, "--rounds", "9")
        self.assertEqual(re.findall(r"(?m)^to round .*", out), ["to round 1: 5 of 5, a run for each seed",
                         "to round 3: 2 of 5, a run for each seed", "to round 9: 1 of 5, a run for each seed"])
        self.assertIn("\n2 of 2 runs are done, 0 failed, ", out)
        self.assertIn("\n8 runs were left behind after fewer rounds\n", out)
        self.assertIn("\nmean ± standard deviation over: seed, rounds\n", out)  # all have one cosine
        done = {run: len(self.rounds(f"s/{run}")) for run in self.runs_of("s")}
        self.assertEqual(sorted(done.values()), [1] * 6 + [3] * 2 + [9] * 2)
        self.assertEqual((done["lr=0.05,seed=1"], done["lr=0.05,seed=2"]), (9, 9))
        self.train(*LEARNED, "--rounds", "9", "--lr-schedule", "cosine", "--lr", "0.05", "--seed", "2", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/lr=0.05,seed=2"))
        again = self.sweep(*arguments, "--rounds", "9")
        self.assertEqual({run: len(self.rounds(f"s/{run}")) for run in done}, done)
        self.assertEqual(again.count("(done before)"), 10 + 4 + 2)

    def test_tables_after_halving_tell_rounds_and_pair_equal_ones_alone(self):
        out = self.sweep(*LEARNED, "--algorithm", "fedavg,fedprox", "--lr", "0.05,1e-6,2e-6", "--seed", "1..3", "--search", "halving", "--rounds", "9",
                         "--show", "test_loss", "--out", "s")
        self.assertRegex(out, r"(?m)^algorithm +lr +n +rounds +test loss$")
        note = "runs of different --rounds, as --search halving leaves them: compare only lines of equal rounds\n"
        self.assertIn(note, out)
        self.assertNotIn(note, self.call("runs", "s", "--by", "rounds,lr")[0])
        told = self.call("runs", "s", "--against", "fedavg", "--by", "lr")[0]  # 9 rounds of one, 3 of the other
        self.assertIn("left out: 3 pairs of runs of different --rounds\n", told)
        self.assertNotRegex(told, r"(?m)^0\.05 +fedprox +3")
        self.assertIn("runs of different --rounds are no pairs; --search halving ends most runs early", self.call("runs", "s", "--against", "fedavg")[0])

    def test_halving_of_runs_without_classes_goes_by_the_loss(self):
        self.sweep("--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--momentum", "0", "--lr", "1e-6,0.1", "--rounds", "3",
                   "--search", "halving", "--out", "s")
        self.assertEqual([len(self.rounds(f"s/lr={lr}")) for lr in ("1e-6", "0.1")], [1, 3])

    def test_halving_judges_a_run_that_has_reached_its_target_by_its_last_test(self):
        self.sweep("--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--momentum", "0", "--lr", "1e-6,0.1", "--rounds", "9",
                   "--target", "loss=7", "--stop-at-target", "--search", "halving", "--out", "s")
        self.assertEqual([len(self.rounds(f"s/lr={lr}")) for lr in ("1e-6", "0.1")], [3, 2])

    def test_halving_judges_runs_that_are_done_by_a_test_before_if_that_round_has_none(self):
        arguments = [*LEARNED, "--workers", "1", "--rounds", "9", "--eval-every", "2", "--lr", "0.0001,0.001,0.03", "--out", "s"]
        self.sweep(*arguments)
        self.assertIn("[1/1] lr=0.03  ", self.sweep(*arguments, "--search", "halving"))

    def test_a_run_that_was_killed_between_its_last_round_and_its_model_gets_that(self):
        for search in ([], ["--search", "halving"]):
            out = f"s{len(search)}"
            run = out + "/lr=0.1"
            arguments = ["--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--lr", "1e-6,0.1", "--out", out, *search]
            self.sweep(*arguments, "--rounds", "3")
            right = self.model(run)
            with open(self.path(run, "model.safetensors"), "r+b") as file:  # as if it were that of fewer rounds
                file.seek(-1, os.SEEK_END)
                file.write(b"?")
            with open(self.path(run, "metrics.jsonl")) as file:
                lines = file.readlines()
            with open(self.path(run, "metrics.jsonl"), "w") as file:
                file.writelines(lines[:-1])
            self.sweep(*arguments, "--rounds", "3")
            self.assertEqual(self.model(run), right)
            self.assertEqual(self.metrics(run)[-1]["type"], "summary")

    def test_halving_that_was_killed_decides_as_if_it_had_not_been(self):
        arguments = [*LEARNED, "--lr", "1e-6,0.05,2e-6", "--rounds", "200", "--search", "halving", "--parallel", "1", "--out", "s"]
        process = subprocess.Popen([SOUNDER, "sweep", *arguments], cwd=self.folder.name, stdout=subprocess.DEVNULL)
        self.started.append(process)
        self.wait_for_round("s/lr=0.05", 70)
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: "running" not in subprocess.run([SOUNDER, "runs", "s"], cwd=self.folder.name, capture_output=True, text=True).stdout))
        self.sweep(*arguments)
        self.assertEqual([len(self.rounds(f"s/lr={lr}")) for lr in ("1e-6", "0.05", "2e-6")], [66, 200, 66])

    def test_halving_judges_no_run_by_its_death(self):
        """A killed run continues; one that is killed again, as by the memory killer, ends the search before the next rung, and the same command goes on."""
        arguments = ["--data", "synthetic:1x4x4:400:100", "--model", "linear classes", "--clients", "4", "--batch-size", "4", "--device", "cpu", "--lr", "0.0001,0.1",
                     "--rounds", "300", "--search", "halving", "--parallel", "1", "--out"]
        for kills in (0, 1, 2):
            out = f"s{kills}"
            process = subprocess.Popen([SOUNDER, "sweep", *arguments, out], cwd=self.folder.name, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.started.append(process)
            for kill in range(kills):
                self.wait_for_round(f"{out}/lr=0.1", 3 + 30 * kill)
                with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                    os.kill(int(file.read().split()[-1]), signal.SIGKILL)
            told, err = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 137 if kills == 2 else 0, told + err)
            self.assertEqual("\nto round 300: 1 of 2" in told, kills < 2, told)
            if kills == 1:
                self.assertIn("lr=0.1  killed by SIGKILL; it continues\n", told)
            if kills == 2:
                self.assertIn("\nthe search stops here, since lr=0.1 has failed for a reason that is not in its values\n", told)
                self.assertIn("\nto continue, repeat the command with --out s2\n", told)
                self.sweep(*arguments, out)
            self.assertEqual([len(self.rounds(f"{out}/lr={lr}")) for lr in ("0.0001", "0.1")], [100, 300])
            self.assertEqual(self.model(f"{out}/lr=0.1"), self.model("s0/lr=0.1"))

    def test_an_experiment_file_says_what_all_runs_have(self):
        with open(self.path("exp.yaml"), "w") as file:
            file.write('data: synthetic:1x8x8:400:100\nmodel: "linear 10"\nclients: 3\nrounds: 1\n')
        self.sweep("exp.yaml", "--lr", "0.1,0.2", "--out", "s")
        self.train("exp.yaml", "--lr", "0.2", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/lr=0.2"))

    def write_data(self):
        os.mkdir(self.path("mine"))
        for name, count in (("train", 400), ("test", 100)):
            with open(self.path("mine", name + ".csv"), "w") as file:
                file.write("a,b,c,label\n" + "".join(f"{i % 7},{i % 5},{i % 3},{i % 2}\n" for i in range(count)))

    def test_all_runs_have_one_copy_of_the_data_which_is_read_once(self):
        self.write_data()
        arguments = ["--data", "mine", "--model", "linear 2", "--clients", "4", "--device", "cpu", "--rounds", "3"]
        process = subprocess.Popen([SOUNDER, "sweep", *arguments, "--lr", "0.01,0.1", "--seed", "1..3", "--parallel", "1", "--out", "s"],
                                   cwd=self.folder.name, text=True, stdout=subprocess.PIPE)
        self.started.append(process)
        self.wait_for_round("s/lr=0.01,seed=1", 1)
        os.rename(self.path("mine"), self.path("elsewhere"))
        out, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("\n6 of 6 runs are done, 0 failed, ", out)
        os.rename(self.path("elsewhere"), self.path("mine"))
        again = self.sweep(*arguments, "--lr", "0.01,0.1", "--seed", "1..3", "--out", "s")  # their record has the full path
        self.assertEqual(again.count("(done before)"), 6)
        self.train(*arguments, "--lr", "0.1", "--seed", "3", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/lr=0.1,seed=3"))
        self.assertEqual(self.metrics("alone")[0]["data_xxh3"], self.metrics("s/lr=0.1,seed=3")[0]["data_xxh3"])

    def test_all_warnings_of_a_run_are_told(self):
        os.mkdir(self.path("mine"))
        for name in ("train", "test"):
            with open(self.path("mine", name + ".csv"), "w") as file:
                file.write("id,a,b,label\n" + "".join(f"{i},{i * i % 7},{i % 2 * 3},{i % 2 * 2}\n" for i in range(200)))
        _, err = self.call("sweep", "--data", "mine", "--model", "linear 2", "--clients", "2", "--device", "cpu", "--rounds", "1", "--out", "s")
        self.assertIn("run: sounder: warning: mine: column b alone says the answer", err)
        self.assertIn("run: sounder: warning: mine: column id has another whole number in each row", err)
        many = ["--data", "quadratics a=1,4 b=0,1", "--model", "linear 1", "--clients", "2", "--workers", "1", "--device", "cpu", "--lr", "1.3", "--rounds", "300"]
        _, alone = self.train(*many, "--quiet", "--out", "alone")
        self.assertGreater(len(alone), 10000)
        self.assertEqual(self.call("sweep", *many, "--out", "many")[1].replace("run: ", ""), alone)

    def test_data_made_of_the_seed_are_made_anew_for_each(self):
        arguments = ["--data", "synthetic-fedprox", "--model", "linear 10", "--rounds", "1", "--momentum", "0"]
        self.sweep(*arguments, "--seed", "1..2", "--lr", "0.01,0.1", "--out", "s")
        self.train(*arguments, "--seed", "2", "--lr", "0.1", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/seed=2,lr=0.1"))
        self.assertNotEqual(*[self.metrics(f"s/seed={seed},lr=0.1")[0]["data_xxh3"] for seed in (1, 2)])

    # What is there already -------------------------------------------------------------------------------------------

    def test_a_sweep_that_was_interrupted_has_the_tables_of_one_that_was_not(self):
        """The end of a cosine and the rounds of a budget follow from --rounds, and are not written out by a process that resumes."""
        arguments = [*LEARNED, "--rounds", "3", "--lr-schedule", "cosine", "--algorithm", "dp-fedavg epsilon=8", "--lr", "0.01,0.05", "--seed", "1..3", "--out", "s"]
        self.sweep(*arguments)

        def told():
            runs = json.loads(self.call("runs", "s", "--format", "json")[0])
            return [{key: value for key, value in run.items() if "second" not in key} for run in runs], self.call("runs", "s", "--against", "0.05")[0]
        before = told()
        self.assertRegex(before[1], r"(?m)^ *0\.01 +3 ")
        for run in ("s/lr=0.01,seed=1", "s/lr=0.05,seed=2"):
            with open(self.path(run, "metrics.jsonl")) as file:
                lines = file.readlines()
            with open(self.path(run, "metrics.jsonl"), "w") as file:
                file.writelines(lines[:-1])
            os.remove(self.path(run, "checkpoints/round-000003.safetensors"))
            os.remove(self.path(run, "model.safetensors"))
        self.assertEqual(self.sweep(*arguments).count("(done before)"), 4)
        self.assertEqual(told(), before)

    def test_what_is_done_is_not_done_again_and_more_rounds_go_on(self):
        arguments = [*SMALL, "--lr", "0.1,0.2", "--out", "s"]
        self.sweep(*arguments)
        before = self.metrics("s/lr=0.1")
        out = self.sweep(*arguments)
        self.assertEqual(out.count("(done before)"), 2)
        self.assertEqual(self.metrics("s/lr=0.1"), before)
        self.assertEqual(self.sweep(*arguments, "--dry-run").count("  # done\n"), 2)
        self.sweep(*BASE, "--rounds", "4", "--lr", "0.1,0.2", "--out", "s")
        self.train(*BASE, "--rounds", "4", "--lr", "0.1", "--out", "alone")
        self.assertEqual(self.model("alone"), self.model("s/lr=0.1"))
        self.assertEqual(len([line for line in self.metrics("s/lr=0.1") if line["type"] == "start"]), 2)

    def test_runs_that_patience_has_ended_are_done_until_they_get_more_of_it(self):
        arguments = ["--data", "quadratics a=1,4 b=0,3", "--model", "linear 1", "--momentum", "0", "--lr", "0.5,0.6", "--rounds", "60"]
        rounds = lambda: [len(self.rounds(f"s/lr={lr}")) for lr in ("0.5", "0.6")]
        self.sweep(*arguments, "--patience", "2", "--out", "s")
        few = rounds()
        self.assertLess(max(few), 60)
        self.assertEqual(self.sweep(*arguments, "--patience", "2", "--out", "s").count("(done before)"), 2)
        self.assertIn("s/lr=0.5 holds a run with another --patience", self.sweep(*arguments, "--out", "s", code=64))
        self.assertNotIn("(done before)", self.sweep(*arguments, "--patience", "9", "--out", "s"))
        self.assertEqual(rounds(), [done + 7 for done in few])

    def test_runs_with_other_options_are_not_taken_for_these(self):
        self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s")
        told = self.sweep(*SMALL, "--lr", "0.1,0.2", "--momentum", "0.9", "--out", "s", code=64)
        self.assertIn("error: s/lr=0.1 holds a run with another --momentum; give the sweep another --out", told)
        told = self.sweep("--data", "synthetic:1x8x8:500:100", *SMALL[2:], "--lr", "0.1,0.2", "--out", "s", code=64)
        self.assertIn("error: s/lr=0.1 holds a run with another --data; give the sweep another --out", told)

    def test_a_run_that_was_killed_before_its_first_line_is_begun_again(self):
        """Its cohort follows from the clients and was not recorded yet; another cohort is another run nevertheless."""
        arguments = [*SMALL, "--new-clients", "1", "--lr", "0.1,0.2", "--out", "s"]
        self.sweep(*arguments)
        right, torn = self.model("s/lr=0.1"), b'{"type":"start","ti'
        for record in (None, b"", torn):
            for name in os.listdir(self.path("s/lr=0.1")):
                if name != "config.yaml":
                    shutil.rmtree(self.path("s/lr=0.1", name)) if os.path.isdir(self.path("s/lr=0.1", name)) else os.remove(self.path("s/lr=0.1", name))
            if record is not None:
                with open(self.path("s/lr=0.1/metrics.jsonl"), "wb") as file:
                    file.write(record)
            if record == torn:
                told = self.sweep(*arguments, "--clients-per-round", "2", code=64)
                self.assertIn("error: s/lr=0.1 holds a run with another --clients-per-round; give the sweep another --out", told)
            out = self.sweep(*arguments)
            self.assertIn("\n2 of 2 runs are done, 0 failed, ", out)
            self.assertEqual((out.count("(done before)"), self.model("s/lr=0.1")), (1, right))

    def test_runs_of_other_contents_of_a_file_are_refused_by_its_name(self):
        self.write_data()
        lines = lambda by: "".join(f"{client} {1 + client * by}\n" for client in range(4))
        with open(self.path("weights"), "w") as file:
            file.write(lines(1))
        base = ["--data", "mine", "--model", "linear 2", "--clients", "4", "--device", "cpu", "--rounds", "1", "--workers", "1"]
        self.train(*base, "--out", "begin")
        self.train(*base, "--lr", "0.5", "--out", "other")
        words = [*base, "--init", "begin/model.safetensors", "--client-weights", "file:weights", "--out", "s"]
        self.sweep(*words, "--seed", "1..2")
        def exchanged(path, content, said):
            with open(self.path(path), "rb") as file:
                before = file.read()
            with open(self.path(path), "wb") as file:
                file.write(content(before))
            told = self.sweep(*words, "--seed", "1..3", code=64)
            self.assertRegex(told, said)
            self.assertFalse(os.path.exists(self.path("s/seed=3")))
            with open(self.path(path), "wb") as file:
                file.write(before)
        hashes = "XXH3 [0-9a-f]{16} then, [0-9a-f]{16} now\\)"
        exchanged("mine/train.csv", lambda text: text.replace(b"0,0,0,0", b"0,0,0,1", 1),
                  rf"error: s/seed=1: the data set is not what the run began with \(mine and --init begin/model.safetensors: {hashes}; give it back, or give another --out")
        exchanged("weights", lambda text: lines(2).encode(), rf"s/seed=1: the file of --client-weights is not what the run began with \(weights: {hashes}")
        with open(self.path("other/model.safetensors"), "rb") as file:
            other = file.read()
        exchanged("begin/model.safetensors", lambda text: other,
                  rf"s/seed=1: the model of --init is not what the run began with \(begin/model.safetensors: {hashes}")
        self.assertEqual(self.sweep(*words, "--seed", "1..3").count("(done before)"), 2)

    def test_the_table_is_of_the_runs_of_its_command(self):
        self.sweep(*SMALL, "--lr", "0.1,0.2", "--seed", "1..2", "--out", "s")
        self.assertRegex(self.sweep(*SMALL, "--lr", "0.1", "--seed", "3..4", "--out", "s"), r"(?m)^fedavg +2 +2 ")

    def test_a_sweep_with_one_axis_more_or_in_another_order_trains_and_counts_nothing_twice(self):
        seeds = ["--seed", "1..2", "--out", "s"]
        self.sweep(*SMALL, *seeds)
        grown = self.sweep(*SMALL, *seeds, "--algorithm", "fedavg,median")
        self.assertEqual(grown.count("(done before)"), 2)
        turned = self.sweep(*SMALL, "--algorithm", "median,fedavg", *seeds)
        self.assertEqual(turned.count("(done before)"), 4)
        self.assertEqual(self.runs_of("s"), ["seed=1", "seed=1,algorithm=median", "seed=2", "seed=2,algorithm=median"])
        for out in grown, turned:
            self.assertRegex(out, r"(?m)^fedavg +2 +2 ")
            self.assertRegex(out, r"(?m)^median +2 +2 ")
        self.assertRegex(self.sweep(*SMALL, *seeds, "--quiet"), r"^algorithm .*\nfedavg +2 +2 [^\n]*\nmean [^\n]*\nlook: [^\n]*\n$")

    def test_a_default_that_asks_for_nothing_is_no_axis_where_an_algorithm_has_no_use_for_it(self):
        out = self.sweep(*SMALL, "--algorithm", "fedavg,pfedme", "--momentum", "0", "--seed", "1..2", "--out", "s")
        self.assertIn("mean ± standard deviation over: seed\n", out)

    def test_a_run_of_defaults_alone_is_taken_up(self):
        self.train(*BASE[:4], "--out", "s/run")
        with open(self.path("s/run/config.yaml"), "w") as file:  # the default data would take a minute
            file.write("seed: 1\n")
        with open(self.path("s/run/metrics.jsonl"), "r+") as file:  # nor are its contents compared
            text = file.read().replace('"data_xxh3"', '"was_xxh3"')
            file.seek(0)
            file.truncate()
            file.write(text)
        self.assertEqual(self.sweep("--dry-run", "--out", "s"), "sounder train --resume=s/run --rounds=3  # done\n")

    def test_runs_of_more_rounds_are_not_taken_for_these(self):
        self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s")
        told = self.sweep(*BASE, "--rounds", "1", "--lr", "0.1,0.2", "--out", "s", code=64)
        self.assertIn("error: s/lr=0.1 holds a run of 2 rounds; give the sweep another --out, or --rounds 2", told)

    def test_it_goes_on_after_a_run_that_fails_and_tries_that_again(self):
        arguments = [*BASE, "--rounds", "30", "--weight-decay", "1", "--lr", "1000,0.01", "--out", "s"]
        out = self.sweep(*arguments, code=70)
        self.assertRegex(out, r"(?m)^\[\d/2\] lr=1000  failed \(70\): .*lower --lr")
        self.assertIn("\n1 of 2 runs are done, 1 failed, ", out)
        self.assertIn("\nto continue, repeat the command with --out s\n", out)
        again = self.sweep(*arguments, code=70)
        self.assertEqual((again.count("(done before)"), again.count("failed (70)")), (1, 1))
        self.assertRegex(self.sweep(*arguments, "--quiet", code=70), r"(?m)^sounder: warning: lr=1000 failed \(70\): .*lower --lr")

    def test_a_run_of_another_process_is_left_to_it(self):
        self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s")
        os.remove(self.path("s/lr=0.1/model.safetensors"))
        folder = os.open(self.path("s/lr=0.1"), os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        out = self.sweep(*SMALL, "--lr", "0.1,0.2", "--out", "s", code=75)
        os.close(folder)
        self.assertIn("\n1 of 2 runs are done, 0 failed, ", out)
        self.assertIn("\n1 of them run in another process, and were left to it\n", out)
        self.assertIn("\nto continue, repeat the command with --out s\n", out)

    def test_equal_sweeps_at_once_share_the_runs_and_none_fails(self):
        command = [SOUNDER, "sweep", *BASE, "--rounds", "10", "--lr", "0.1,0.2,0.3,0.4", "--out", "s"]
        sweeps = [subprocess.Popen(command, cwd=self.folder.name, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(3)]
        told = [sweep.communicate(timeout=DEADLINE)[0] for sweep in sweeps]
        for sweep, out in zip(sweeps, told):
            self.assertIn(" runs are done, 0 failed, ", out)
            self.assertEqual(sweep.returncode, 75 if "were left to it" in out else 0, out)
        self.assertIn(0, [sweep.returncode for sweep in sweeps], "the last to end has seen all of them done")
        self.assertEqual([len(self.rounds(f"s/lr={lr}")) for lr in ("0.1", "0.2", "0.3", "0.4")], [10] * 4)

    # What the system refuses, what kills runs --------------------------------------------------------------------------

    def test_where_the_system_has_too_few_processes_fewer_runs_are_side_by_side(self):
        user = 61234  # who has no other process
        if os.geteuid() != 0 or not os.access(SOUNDER, os.X_OK):
            self.skipTest("only root may take another user's limits")
        os.chown(self.folder.name, user, user)
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
            os.setuid(user)
        try:
            done = subprocess.run([SOUNDER, "sweep", *SMALL, "--workers", "1", "--seed", "1..4", "--parallel", "4", "--out", "s"], text=True,
                                  cwd=self.folder.name, env={"HOME": self.folder.name}, preexec_fn=limit, capture_output=True, timeout=DEADLINE)
        except PermissionError:
            self.skipTest("another user may not start this build")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 of 4 runs are done, 0 failed", done.stdout)
        self.assertRegex(done.stderr, r"seed=\d: .*Resource temporarily unavailable.*; no more than \d at once from here on\n")

    def test_a_run_that_is_killed_fails_by_its_signal(self):
        process, children = self.start_long("--parallel", "2")
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, out.count("  failed (137): killed by SIGKILL\n")), (137, 2), out + err)

    def test_one_of_several_that_mpirun_has_started_does_its_part_or_nothing(self):
        os.environ["OMPI_COMM_WORLD_SIZE"] = "2"
        self.addCleanup(os.environ.pop, "OMPI_COMM_WORLD_SIZE")
        sentence = "mpirun or srun has started it 2 times (OMPI_COMM_WORLD_SIZE), and each would do the same; start it once"
        told = self.sweep(*SMALL, "--seed", "1..2", "--out", "s", code=64)
        self.assertIn(f"sounder sweep: {sentence}, or have each do its part (--part K/N)\n", told)
        for command in ("eval", "report", "reproduce", "worth"):
            done = subprocess.run([SOUNDER, command, "s"], cwd=self.folder.name, text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (64, f"sounder: error: sounder {command}: {sentence}\n"))
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assertIn("1 of 1 runs are done, 0 failed", self.sweep(*SMALL, "--seed", "1..2", "--part", "2/2", "--out", "s"))

    # Signals -----------------------------------------------------------------------------------------------------------

    def long(self, *options, rounds="1000000"):
        return [*BASE, "--rounds", rounds, "--lr", "0.1,0.2", *options, "--out", "s"]

    def start_long(self, *options, until=2, before=lambda: None):
        """On one core, for as many runs of two as options allow."""
        process = subprocess.Popen(["taskset", "-c", str(min(os.sched_getaffinity(0))), SOUNDER, "sweep", *self.long(*options)],
                                   cwd=self.folder.name, text=True, start_new_session=True,
                                   preexec_fn=lambda: (end_with_the_test(), before()), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        for run in ("s/lr=0.1", "s/lr=0.2"):
            self.wait_for_round(run, until)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            return process, [int(pid) for pid in file.read().split()]

    def test_a_signal_has_the_runs_save_and_the_same_command_goes_on_to_the_same_bits(self):
        most = 0
        for _ in range(2):  # the second time it is the same command that goes on
            process, children = self.start_long("--parallel", "2", until=most + 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 130, out + err)
            self.assertIn("stopping: the runs finish their rounds and save", err)
            self.assertIn("to continue, repeat the command with --out s", out)
            self.assertFalse(any(alive(child) for child in children))
            for run in ("s/lr=0.1", "s/lr=0.2"):
                done = self.rounds(run)[-1]["round"]
                self.assertTrue(os.path.exists(self.path(run, "checkpoints", f"round-{done:06}.safetensors")))
                most = max(most, done)
        out = self.sweep(*self.long("--parallel", "2", rounds=str(most + 2)))
        self.assertIn("\n2 of 2 runs are done, 0 failed, ", out)
        self.train(*BASE, "--rounds", str(most + 2), "--lr", "0.2", "--quiet", "--out", "alone")
        self.assertEqual(self.bits("alone"), self.bits("s/lr=0.2"))
        self.assertEqual(self.model("alone"), self.model("s/lr=0.2"))

    def test_ctrl_z_stops_the_runs_and_their_workers_too_and_fg_continues_them(self):
        # A process group of the test's session, which the kernel lets Ctrl-Z stop.
        process = subprocess.Popen([SOUNDER, "sweep", *self.long("--parallel", "2", "--workers", "1")], cwd=self.folder.name, text=True,
                                   preexec_fn=lambda: (end_with_the_test(), os.setpgrp()), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        for run in ("s/lr=0.1", "s/lr=0.2"):
            self.wait_for_round(run, 1)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            runs = [int(pid) for pid in file.read().split()]
        everyone = [process.pid, *runs, *(worker for pid in runs for worker in children_of(pid))]
        self.assertEqual(len(everyone), 5)
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: {state_of(pid) for pid in everyone} == {"T"}))
        process.send_signal(signal.SIGCONT)
        self.wait_for_more_rounds("s/lr=0.2", 2)
        self.stop(process, signal.SIGINT)

    def test_a_signal_to_all_processes_of_a_job_counts_once_although_the_sweep_hands_it_on(self):
        process, children = self.start_long("--parallel", "2", "--checkpoint-every", "0")
        for pid in (*children, process.pid):  # as batch systems do
            os.kill(pid, signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 143, out + err)
        for run in ("s/lr=0.1", "s/lr=0.2"):
            done = self.rounds(run)[-1]["round"]
            self.assertEqual(os.listdir(self.path(run, "checkpoints")), [f"round-{done:06}.safetensors"], err)

    def test_the_signals_of_batch_systems_stop_it_and_one_that_was_ignored_from_the_start_does_not(self):
        process, _ = self.start_long("--parallel", "2")
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, "to continue, repeat the command" in out), (128 + signal.SIGUSR1, True), out + err)
        process, _ = self.start_long("--parallel", "2", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)  # as nohup's
        self.wait_for_more_rounds("s/lr=0.1", 3)
        self.assertIsNone(process.poll())

    def test_two_runs_share_a_core_and_a_killed_sweep_leaves_neither_behind(self):
        process, children = self.start_long()
        self.assertEqual(len(children), 2)
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: not any(alive(child) for child in children)))

    # Refusals ----------------------------------------------------------------------------------------------------------

    def test_refusals_name_option_value_and_what_to_write_and_begin_nothing(self):
        for arguments, code, sentence in [
            ([], 64, "sounder sweep: needs an experiment or options; write sounder sweep EXPERIMENT.yaml --seed 1..5"),
            (["--seed", "1,,2"], 64, "--seed: a value is missing between the commas"),
            (["--seed", "5..1"], 64, "--seed 5..1: needs a range that rises"),
            (["--lr", "0.1,fast"], 64, "--lr fast: needs a number"),
            (["--lr", "0.1,0.1"], 64, "--lr: has the value 0.1 twice"),
            (["--lr", "0.1,0.2,1e-1"], 64, "--lr: has the value 1e-1 twice"),
            (["--sed", "1..5"], 64, "--sed: unknown option; did you mean --seed?"),
            (["--resume", "s"], 64, "--resume: is of single runs; the same sweep with --out FOLDER continues it"),
            (["--algorithm", "fedprox mu={0.1"], 64, "braces are for values, such as mu={0.01,0.1}"),
            (["--algorithm", "fedprox,fedprx"], 64, "(run algorithm=fedprx)"),
            (["--alpha", "0.1,1", "--partition", "iid"], 64, "--alpha"),
            (["--seed", "1..200", "--lr", "0.1,0.2,0.3", "--batch-size", "1..20"], 64, "the grid has more than 10000 runs"),
            (["--search", "list", "--seed", "1..3", "--lr", "0.1,0.2"], 64, "--search list: --seed has 3 values and --lr has 2; a list needs as many of each, or one"),
            (["--search", "random", "--seed", "1..3"], 64, "--search random: needs --number, from 1 to the grid's 3 runs"),
            (["--number", "2", "--seed", "1..3"], 64, "--number: only used with --search random"),
            (["--seed", "1..3", "--part", "4/3"], 64, "--part 4/3: needs a number and how many there are, from 1/N to N/N"),
            (["--seed", "1..3", "--part", "4/4"], 64, "--part 4/4: the sweep has fewer runs"),
            (["--seed", "1..3", "--part", "1/2", "--search", "halving"], 64, "--part: does not go with --search halving"),
            (["--rounds", "3,9", "--search", "halving"], 64, "--search halving: all runs need the same --rounds"),
            (["--algorithm", "fedasync", "--clock", "real", "--lr", "0.1,0.2", "--search", "halving"], 64, "--clock real: does not go with --search halving"),
            (["-", "--seed", "1..3"], 64, "-: every run reads the experiment anew"),
            (["none.yaml", "--seed", "1..3"], 66, "none.yaml"),
            (["--data", "none.npz", "--seed", "1..3"], 66, "no data set none.npz"),
        ]:
            with self.subTest(arguments):
                told = self.sweep(*arguments, code=code)
                self.assertEqual(told.count("sounder: error: "), 1, told)
                self.assertIn(sentence, told)
                self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    unittest.main(argv=["test_sweep.py"] + sys.argv[2:], verbosity=2)
