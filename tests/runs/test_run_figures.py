"""The figure that a run is about, by name, wherever a run is looked at: clients' own models, a regression, users with
test samples of their own.

Usage: test_run_figures.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, random, re, unittest

from runs import RunCase

PERSONAL = ["--data", "synthetic:1x4x4:400:100", "--model", "linear 10", "--clients", "10", "--workers", "1", "--partition",
            "pathological classes=2", "--client-test", "0.3", "--algorithm", "local-only", "--batch-size", "5", "--lr", "0.1"]


class RunFigure(RunCase):
    def look(self, *arguments, code=0):
        return "".join(self.call(*arguments, code=code))

    def table(self, *arguments):
        return json.loads(self.look("runs", *arguments, "--format", "json"))

    def report(self, *runs):
        self.look("report", *runs, "-o", "report.html")
        return self.data_of("report.html")

    def scalars(self, run):
        """Tags in the event files, by TensorBoard's names: a tag is plain text in them."""
        text = b""
        for name in os.listdir(self.path(run, "tensorboard")):
            with open(self.path(run, "tensorboard", name), "rb") as file:
                text += file.read()
        return {tag.decode() for tag in re.findall(rb"[a-z]+/(?:personal|test)_[a-z0-9]+", text)}

    def write_targets(self):
        """A line with a little noise: y = 100 x."""
        os.makedirs(self.path("line"))
        for name, count in (("train.csv", 120), ("test.csv", 40)):
            chance = random.Random(name)
            with open(self.path("line", name), "w") as file:
                file.write("target,x\n")
                for x in [chance.uniform(-1, 1) for _ in range(count)]:
                    file.write(f"{100 * x + chance.gauss(0, 1)},{x}\n")
        return ["--data", "line", "--model", "linear 1", "--clients", "4", "--workers", "1", "--partition", "iid"]

    def write_users(self):
        """LEAF's JSON: three users, of whom one has other labels in its test samples than in those it trains on."""
        for split, count in (("train", 20), ("test", 6)):
            users = {}
            for user in range(3):
                labels = [i % 2 for i in range(count)]
                told = [1 - label if (split, user) == ("test", 2) else label for label in labels]
                users[f"u{user}"] = {"x": [[4.0 * label - 2, 1.0] for label in labels], "y": told}
            os.makedirs(self.path("leaf", split))
            with open(self.path("leaf", split, "all.json"), "w") as file:
                json.dump({"users": list(users), "num_samples": [count] * 3, "user_data": users}, file)
        return ["--data", "leaf", "--model", "linear 2", "--workers", "1", "--lr", "0.5"]

    def test_a_run_may_be_about_the_clients_that_are_served_worst(self):
        for of, algorithm, model in (("client", "afl", "global"), ("personal", "local-only", "personal")):
            out, _ = self.train(*PERSONAL[:-6], "--algorithm", algorithm, "--lr", "0.1", "--rounds", "3", "--target", f"{of}-worst-tenth=0.01", "--out", of)
            lines = self.metrics(of)
            rounds = [line[f"{of}_worst_tenth"] for line in lines if line["type"] == "round"]
            tested = [line["accuracy_worst_tenth"] for line in lines if line["type"] == "clients_evaluation" and line["model"] == model]
            self.assertEqual((rounds, len(rounds)), (tested, 3))
            self.assertLess(rounds[-1], next(line["accuracy_mean"] for line in reversed(lines) if line["type"] == "clients_evaluation"))
            self.assertEqual(lines[-1][f"best_{of}_worst_tenth"], max(rounds))
            self.assertEqual(lines[0]["figure"], f"{of}_worst_tenth")
            self.assertAlmostEqual(self.table(of)[0][f"{of}_worst_tenth_percent"], 100 * rounds[-1])
            self.assertIn(f"{100 * rounds[-1]:.2f}% after 3 rounds", out)

    def test_a_run_may_be_about_how_unequally_the_clients_are_served(self):
        out, _ = self.train(*PERSONAL[:-6], "--algorithm", "local-only", "--lr", "0.1", "--rounds", "3", "--patience-by", "personal-deviation", "--out", "spread")
        lines = self.metrics("spread")
        rounds = [line["personal_deviation"] for line in lines if line["type"] == "round"]
        variances = [line["accuracy_variance_percent2"] for line in lines if line["type"] == "clients_evaluation" and line["model"] == "personal"]
        self.assertEqual((len(rounds), lines[0]["figure"]), (3, "personal_deviation"))
        for deviation, variance in zip(rounds, variances, strict=True):
            self.assertAlmostEqual(deviation, variance ** 0.5 / 100)
        self.assertGreater(min(rounds), 0)
        self.assertEqual(lines[-1]["best_personal_deviation"], min(rounds))
        self.assertIn(f"deviation of personal accuracy {100 * rounds[-1]:.2f}% after 3 rounds", out)
        self.assertAlmostEqual(self.table("spread")[0]["personal_deviation_percent"], 100 * rounds[-1])

    def test_a_personal_run_is_told_by_the_accuracy_of_the_clients_own_models(self):
        out, _ = self.train(*PERSONAL, "--rounds", "4", "--clients-per-round", "5", "--seed", "3", "--out", "runs/a")
        lines, summary = self.metrics("runs/a"), self.metrics("runs/a")[-1]
        clients = [line for line in lines if line["type"] == "clients_evaluation"]
        last = clients[-1]["accuracy_mean"]
        self.assertEqual([line["model"] for line in clients], ["personal"] * 4)
        self.assertFalse([line for line in lines if line["type"] == "client_evaluation"])  # not asked for
        self.assertEqual(lines[0]["figure"], "personal_accuracy")
        self.assertEqual([line["personal_accuracy"] for line in self.rounds("runs/a")], [line["accuracy_mean"] for line in clients])
        trained, never = set(), []
        for number in range(1, 5):
            trained |= {line["client"] for line in lines if line["type"] == "client" and line["round"] == number}
            never.append(10 - len(trained))
        self.assertEqual([line["clients_never_trained"] for line in clients], never)
        self.assertIn(f"personal {100 * clients[0]['accuracy_mean']:.2f}% ({never[0]} of 10 clients never trained)", out)
        self.assertRegex(out, rf"(?m)^personal {100 * last:.2f}% after 4 rounds")
        self.assertEqual((summary["personal_accuracy"], summary["best_personal_accuracy"]), (last, max(line["accuracy_mean"] for line in clients)))
        (row,) = self.table("runs")
        self.assertAlmostEqual(row["personal_accuracy_percent"], 100 * last, places=4)
        self.assertAlmostEqual(row["worst_tenth_percent"], 100 * clients[-1]["accuracy_worst_tenth"], places=4)
        self.assertNotIn("best_percent", row)
        report = self.report("runs/a")
        self.assertIn([f"{100 * last:.2f}%", "personal accuracy"], report["facts"])
        self.assertEqual((report["runs"][0]["figure"], len(report["runs"][0]["rounds"]["personal_accuracy"])), ("personal_accuracy", 4))
        self.look("report", "runs/a", "--svg", "svg")
        self.assertIn("personal-accuracy.svg", os.listdir(self.path("svg")))
        with open(self.path("svg/loss.svg")) as file:  # not that of the global model alone, whose head nobody trains
            self.assertIn(">personal</text>", file.read())
        self.assertNotIn("accuracy.svg", os.listdir(self.path("svg")))
        self.assertLessEqual({"accuracy/personal_accuracy", "loss/personal_loss"}, self.scalars("runs/a"))
        self.assertIn(f"personal accuracy {100 * last:.2f}%  best", self.look("top", "--once", "runs/a"))

    def test_patience_target_and_halving_go_by_the_clients_own_models(self):
        """The global model of local-only never changes: by its figure all of this ends at once, or keeps the first."""
        self.train(*PERSONAL, "--rounds", "6", "--patience", "3", "--eval-clients-every", "5", "--lr", "0.02", "--quiet", "--out", "run")
        curve = [line["personal_accuracy"] for line in self.rounds("run")]
        self.assertEqual(len({line["test_accuracy"] for line in self.rounds("run")}), 1)
        self.assertGreater(len(curve), 4)
        fairness = {of["model"]: (of["round"], len(of["accuracies"])) for of in self.report("run")["runs"][0]["fairness"]}
        self.assertEqual(fairness, {"global": (len(curve), 10), "personal": (len(curve), 10)})
        with open(self.path("run/metrics.jsonl"), "a") as file:  # the next round's test, which tells of no single client
            print(json.dumps({"type": "clients_evaluation", "round": len(curve) + 1, "model": "personal", "accuracy_mean": 0.5}), file=file)
        self.assertEqual({of["model"]: (of["round"], len(of["accuracies"])) for of in self.report("run")["runs"][0]["fairness"]}, fairness)
        target = curve[2] - 0.001
        out, _ = self.train(*PERSONAL, "--rounds", "6", "--lr", "0.02", "--target", f"accuracy={target}", "--stop-at-target", "--out", "target")
        first = next(i for i, value in enumerate(curve) if value >= target) + 1
        self.assertIn(f"round {first} reaches the target of", out)
        self.assertEqual(len(self.rounds("target")), first)
        out = self.look("sweep", *PERSONAL[:-2], "--lr", "0.0001,0.1", "--search", "halving", "--rounds", "3", "--out", "sweep")
        self.assertIn("[1/1] lr=0.1  personal ", out)
        self.assertIn("personal %", out)
        out = self.look("sweep", *[word for word in PERSONAL if word not in ("--algorithm", "local-only")], "--algorithm", "fedavg,local-only",
                        "--search", "halving", "--rounds", "3", "--out", "mixed", code=64)
        self.assertIn("are not judged by the same figure", out)

    def test_a_resumed_personal_run_remembers_its_best_with_any_number_of_workers(self):
        whole = [*PERSONAL, "--rounds", "4", "--quiet"]
        self.train(*whole, "--out", "whole")
        self.train(*whole, "--rounds", "2", "--workers", "2", "--out", "part")
        self.train("--resume", "part", "--rounds", "4", "--quiet")
        keep = ("personal_accuracy", "personal_loss", "best_personal_accuracy", "best_round")
        self.assertEqual([self.metrics("part")[-1][key] for key in keep], [self.metrics("whole")[-1][key] for key in keep])

    def test_a_regression_is_told_by_its_loss(self):
        targets = self.write_targets()
        out, _ = self.train(*targets, "--rounds", "5", "--lr", "0.1", "--out", "runs/a")
        last = self.rounds("runs/a")[-1]
        self.assertIn("line: 120 training + 40 test samples, targets: squared loss  ->", out)
        self.assertAlmostEqual(last["test_rmse"] ** 2, last["test_loss"], delta=1e-6 * last["test_loss"])
        self.assertNotIn("test_accuracy", last)
        self.assertRegex(out, rf"(?m)^loss {last['test_loss']:.4f} \(RMSE {last['test_rmse']:.4f}, R2 {last['test_r2']:.4f}\) after 5 rounds")
        (row,) = self.table("runs")
        self.assertFalse({"accuracy_percent", "best_percent"} & set(row))
        self.assertAlmostEqual(row["best_loss"], min(line["test_loss"] for line in self.rounds("runs/a")), places=3)
        self.assertAlmostEqual(row["test_r2"], last["test_r2"], places=3)
        self.assertIn([f"{last['test_loss']:.4f}", "loss"], self.report("runs/a")["facts"])
        self.assertLessEqual({"loss/test_loss", "loss/test_rmse", "loss/test_r2"}, self.scalars("runs/a"))
        out = self.look("sweep", *targets, "--lr", "0.001,0.1", "--search", "halving", "--rounds", "3", "--out", "sweep")
        self.assertIn("[1/1] lr=0.1  loss ", out)
        told = json.loads(self.look("eval", "runs/a", "--json"))
        self.assertAlmostEqual(told["test_rmse"], last["test_rmse"], places=4)
        self.assertNotIn("test_accuracy", told)
        out, _ = self.train(*targets, "--rounds", "1", "--eval-clients-every", "1", "--out", "clients")
        self.assertRegex(out, r"  RMSE [0-9.]+  clients [0-9.]+ \(worst tenth [0-9.]+\)  ")
        (line,) = [line for line in self.metrics("clients") if line["type"] == "clients_evaluation"]
        self.assertNotIn("accuracy_mean", line)
        self.assertLessEqual(line["loss_best_tenth"], line["loss_mean"])
        self.assertLessEqual(line["loss_mean"], line["loss_worst_tenth"])
        self.assertEqual(self.report("clients")["runs"][0]["fairness"], [])  # a figure of accuracies

    def test_users_of_leaf_are_told_by_their_own_test_samples(self):
        options = self.write_users()
        out, _ = self.train(*options, "--rounds", "3", "--eval-clients-every", "3", "--out", "runs/a")
        self.assertIn("clients have 18 test samples of their own\n", out)
        self.assertIn("  66.67%  clients 66.67% (worst tenth 0.00%)  ", out)
        lines = [line for line in self.metrics("runs/a") if line["type"] == "client_evaluation"]
        self.assertEqual([(line["data"], line["samples"], line["accuracy"]) for line in lines],
                         [("client's test samples", 6, 1.0), ("client's test samples", 6, 1.0), ("client's test samples", 6, 0.0)])
        (row,) = self.table("runs")
        self.assertEqual(row["worst_tenth_percent"], 0)
        out, _ = self.train(*options, "--rounds", "3", "--algorithm", "fedper", "--out", "personal")
        self.assertRegex(out, r"(?m)^personal 66\.67% after 3 rounds")

    def test_columns_of_privacy_and_attacks_are_there_when_runs_have_them(self):
        small = ["--data", "synthetic:1x4x4:200:50", "--model", "linear 10", "--clients", "4", "--workers", "1", "--rounds", "1", "--quiet"]
        self.train(*small, "--out", "plain/a")
        self.assertFalse({"epsilon", "attack_success_percent", "worst_tenth_percent"} & set(self.table("plain")[0]))
        self.train(*small, "--algorithm", "dp-fedavg norm=1 noise=1", "--out", "runs/private")
        self.train(*small, "--attack", "backdoor target=1 size=1", "--attackers", "0", "--out", "runs/attacked")
        attacked, private = self.table("runs")
        self.assertAlmostEqual(private["epsilon"], self.rounds("runs/private")[-1]["epsilon"], places=2)
        self.assertAlmostEqual(attacked["attack_success_percent"], 100 * self.rounds("runs/attacked")[-1]["attack_success"], places=2)

    def test_a_sweep_of_private_runs_ends_with_a_table_of_epsilon(self):
        small = ["--data", "synthetic:1x4x4:200:50", "--model", "linear 10", "--clients", "4", "--rounds", "2", "--seed", "1..2"]
        for key, axis, figure in (("algorithm", "dp-fedavg norm=1 noise={1,4}", "epsilon"), ("dp-sgd", "clip=1 noise={1,4}", "sample epsilon")):
            out = self.look("sweep", *small, "--" + key, axis, "--out", key)
            lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
            (head,) = [line for line in lines if line[0] == key]
            told = {}
            for name in os.listdir(self.path(key)):
                if os.path.isdir(self.path(key, name)):
                    told.setdefault(re.search(r"noise=(\d)", name)[1], set()).add(self.rounds(f"{key}/{name}")[-1][figure.replace(" ", "_")])
            for noise, (value,) in told.items():
                (row,) = [line for line in lines if f"noise={noise}" in line[0] and len(line) == len(head)]
                self.assertEqual(float(row[head.index(figure)].split()[0]), round(value, 3), out)
            self.assertGreater(min(told["1"]), max(told["4"]))

    def test_a_run_says_between_which_federations_its_epsilon_is_and_warns_of_a_large_delta(self):
        small = ["--data", "synthetic:1x4x4:200:50", "--model", "linear 10", "--clients", "4", "--workers", "1", "--rounds", "1"]
        out, err = self.train(*small, "--algorithm", "dp-fedavg norm=1 noise=1 delta=0.25", "--out", "all")
        self.assertIn("epsilon is told at delta 0.25, between federations in which one client is replaced by another\n", out)
        self.assertIn("delta=0.25 of --algorithm is not below one in 4, as many as there are clients", err)
        out, err = self.train(*small, "--algorithm", "dp-fedavg norm=1 noise=1 delta=0.2", "--sampling", "poisson", "--out", "poisson")
        self.assertIn("one client joins or leaves\n", out)
        self.assertEqual(err, "")
        for cohorts, difference in (("poisson", "joins or leaves"), ("fixed", "is replaced by another")):
            told = self.look("privacy", "--sampling-rate", "0.1", "--rounds", "1", "--noise", "1", "--cohorts", cohorts)
            self.assertIn(f"between federations in which one client {difference}\n", told)


if __name__ == "__main__":
    unittest.main(argv=["test_run_figures.py"] + __import__("sys").argv[2:], verbosity=2)
