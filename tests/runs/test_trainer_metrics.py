"""Figures of a trainer's own: in the record and in every table, as a run's target, and tests without hits or in one turn.

Usage: test_trainer_metrics.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import json, math, os, re, subprocess, sys, unittest

from trainers import JOB, PACKAGE, TrainerCase
from runs import DEADLINE
from test_nodes import NodesCase, can_run as why_no_nodes

# A softmax with metrics; options say whether tests count hits, and what goes wrong.
METRICS = '''
import math, sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

net = {"w": np.random.default_rng(1).normal(0, 0.1, (10, 64)).astype(np.float32), "b": np.zeros(10, np.float32)}

def ahead(x):
    out = x @ net["w"].T + net["b"]
    share = np.exp(out - out.max(1, keepdims=True))
    return share / share.sum(1, keepdims=True)

for turn in sounder.turns(net, whole_test=WHOLE):
    options, total, batches = turn.options, 0.0, 0
    for x, y in turn.batches():
        x = x.reshape(len(x), -1)
        share = ahead(x)
        loss = -np.log(share[np.arange(len(y)), y]).mean()
        total, batches = total + loss * len(y), batches + 1
        if turn.trains:
            share[np.arange(len(y)), y] -= 1
            slopes = {"w": share.T @ x / len(y), "b": share.mean(0)}
            turn.correct(slopes)
            for name in net:
                net[name] -= np.float32(turn.lr) * slopes[name]
            turn.add(loss, len(y), size=float(len(y)))
            continue
        right = share.argmax(1) == y
        with_hits = options.get("hits", True) and not (options.get("fault") == "some-batches" and batches == 2)
        with_hits = with_hits and not (options.get("fault") == "some-turns" and len(turn.x) > 500 and turn.samples < 500)
        with_hits = with_hits and not (options.get("fault") == "some-marked" and turn._told["viewed"] and turn._told["count"] < 300)
        turn.add(loss, len(y), recall=right.mean(), **({"hits": right.sum()} if with_hits else {}))
    if not turn.trains:
        turn.metric(perplexity=math.exp(total / turn.samples))
        turn.metric(turns=1.0 if options.get("fault") != "infinite" else math.inf)
        if options.get("fault") == "name": turn.metric(**{"top 5": 1})
        if options.get("fault") == "accuracy": turn.metric(accuracy=1)
        if options.get("fault") == "many": turn.metric(**{f"m{i}": i for i in range(40)})
        if options.get("fault") == "no-number": turn.metric(auc="high")
        if options.get("fault") == "twice": turn.metric(recall=1)
    turn.hand_in()
'''
TESTED = ["--data", "synthetic:1x8x8:160:1200", "--momentum", "0"]  # three chunks of a test
MARKED = ["--attack", "backdoor target=3 fraction=0.3 size=2", "--attackers", "1"]
NO_HITS = ["--trainer-option", "hits=false"]


class TrainerMetrics(NodesCase, TrainerCase):
    def setUp(self):
        super().setUp()
        self.write("trainer.py", METRICS.replace("WHOLE", "False"))
        self.write("whole.py", METRICS.replace("WHOLE", "True"))

    def run_job(self, run, *arguments, script="trainer.py", code=0):
        return self.train(*JOB, *TESTED, "--trainer", f"{sys.executable} {script}", "--out", run, *arguments, code=code)

    def report(self, *runs):
        self.call("report", *runs, "-o", "report.html")
        return self.data_of("report.html")

    def lines(self, run, kind):
        return [line for line in self.metrics(run) if line["type"] == kind]

    def same(self, *runs):
        """What the runs' records have of tests and clients is equal, figure by figure."""
        def told(run):
            rounds = [[line.get(key) for key in ("test_loss", "test_accuracy", "test_metrics", "train_metrics", "model_xxh3")]
                      for line in self.lines(run, "round")]
            return rounds, [line.get("metrics") for line in sorted(self.lines(run, "client"), key=lambda line: (line["round"], line["client"]))]
        for run in runs[1:]:
            self.assertEqual(told(runs[0]), told(run))

    # Record -----------------------------------------------------------------------------------------------------------

    def test_metrics_are_means_over_the_samples_with_the_same_bits_for_any_number_of_workers(self):
        for workers in ("1", "2", "3"):
            self.run_job(f"of-{workers}", "--workers", workers, "--quiet", "--eval-clients-every", "2")
        self.same("of-1", "of-2", "of-3")
        last, (start, *_) = self.rounds("of-1")[-1], self.metrics("of-1")
        self.assertEqual(set(last["test_metrics"]), {"perplexity", "recall", "turns"})
        self.assertAlmostEqual(last["test_metrics"]["recall"], last["test_accuracy"], places=9)
        self.assertEqual(last["test_metrics"]["turns"], 1)
        self.assertGreater(last["test_metrics"]["perplexity"], math.exp(last["test_loss"]))  # a mean over three turns
        self.assertEqual(last["train_metrics"], {"size": 10})
        self.assertEqual(start["tensors"], 2)
        for client in self.lines("of-1", "client"):
            self.assertEqual(client["metrics"], {"size": 10})
            self.assertEqual(client["steps"], 4)
            self.assertTrue(0 < client["trainer_seconds"] <= client["seconds"])
        of_clients = self.lines("of-1", "clients_evaluation")[-1]
        self.assertAlmostEqual(of_clients["metrics"]["recall"], of_clients["accuracy_by_samples"], places=9)
        self.assertEqual(self.metrics("of-1")[-1]["test_metrics"], last["test_metrics"])

    def test_metrics_of_a_client_are_those_of_the_training_whose_loss_it_has(self):
        told = METRICS.replace("    turn.hand_in()\n", "    if turn.trains and turn.samples: turn.metric(own_loss=total / turn.samples, epochs=turn.epochs)\n    turn.hand_in()\n")
        self.write("told.py", told.replace("WHOLE", "False"))
        for run, more in (("plain", []), ("ditto", ["--algorithm", "ditto lambda=0.5 epochs=3"])):
            self.run_job(run, "--quiet", *more, script="told.py")
        self.same("plain", "ditto")
        for client in self.lines("ditto", "client"):
            self.assertAlmostEqual(client["metrics"]["own_loss"], client["loss"], places=6)
            self.assertEqual(client["metrics"]["epochs"], 1)

    @unittest.skipIf(why_no_nodes(), why_no_nodes())
    def test_metrics_of_several_nodes_are_those_of_one(self):
        clients = ["--clients", "5", "--quiet"]
        self.write("some.py", METRICS.replace("WHOLE", "False").replace("size=float(len(y))", "**({'number': float(turn.client)} if turn.client in (1, 4) else {})"))
        self.train_nodes(2, *JOB, *TESTED, *clients, "--workers", "1", "--trainer", f"{sys.executable} some.py", "--out", "two")
        self.run_job("one", *clients, script="some.py")
        self.same("one", "two")
        numbers = [(line["client"], line["metrics"]["number"]) for line in self.lines("two", "client") if line.get("metrics")]
        self.assertEqual({client for client, _ in numbers}, {1, 4})  # nodes gather the metrics of these jobs alone
        self.assertTrue(all(client == number for client, number in numbers))

    def test_metrics_are_in_the_terminal_the_tables_the_page_tensorboard_and_python(self):
        out, _ = self.run_job("runs/a")
        last = self.rounds("runs/a")[-1]["test_metrics"]
        self.assertIn(f"  perplexity {last['perplexity']:.4f}  recall {last['recall']:.4f}  turns 1.0000  ", out)
        (row,) = json.loads(self.call("runs", "--format", "json")[0])
        self.assertAlmostEqual(row["test_metrics.perplexity"], last["perplexity"], places=3)
        self.assertNotIn("best_test_metrics.perplexity", row)
        details = self.report("runs/a")
        self.assertEqual(details["title"].split(" on ")[0], "fedavg of trainer.py")
        drawn = details["runs"][0]["rounds"]["test_metrics.perplexity"]
        self.assertEqual([round(value, 3) for value in drawn], [round(line["test_metrics"]["perplexity"], 3) for line in self.rounds("runs/a")])
        text = b""
        for name in os.listdir(self.path("runs/a", "tensorboard")):
            with open(self.path("runs/a", "tensorboard", name), "rb") as file:
                text += file.read()
        for tag in (b"test_metrics/perplexity", b"train_metrics/size", b"clients_metrics/size"):
            self.assertIn(tag, text)
        told = subprocess.run([sys.executable, "-c", "import sounder; print(sounder.Run('runs/a').rows('round')[-1]['test_metrics']['recall'])"],
                              cwd=self.folder.name, env={**os.environ, "PYTHONPATH": PACKAGE}, text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(float(told.stdout), last["recall"], told.stderr)

    def test_long_names_and_names_of_other_columns_keep_columns_of_their_own(self):
        names = ["a" * 63 + "a", "a" * 63 + "b", "rounds", "lr"]
        self.write("named.py", METRICS.replace("    turn.hand_in()\n", f"    if not turn.trains: turn.metric(**{{name: i for i, name in enumerate({names})}})\n    turn.hand_in()\n").replace("WHOLE", "False"))
        for rate in ("0.1", "0.2"):
            self.run_job(f"runs/{rate}", "--quiet", "--lr", rate, "--target", f"{names[0]}>5", script="named.py")
        for row in json.loads(self.call("runs", "--format", "json")[0]):
            self.assertEqual([row[f"test_metrics.{name}"] for name in names], [0, 1, 2, 3])
            self.assertEqual(row[f"best_test_metrics.{names[0]}"], 0)
            self.assertEqual((row["rounds"], str(row["lr"])), (len(self.rounds("runs/0.1")), row["run"].split("/")[-1]))

    def test_a_metric_that_is_not_finite_is_null_and_the_run_goes_on(self):
        self.run_job("run", "--quiet", "--trainer-option", "fault=infinite")
        self.assertIsNone(self.rounds("run")[-1]["test_metrics"]["turns"])

    def test_bad_metrics_end_the_run_with_a_sentence(self):
        for fault, sentence in (("name", 'a metric cannot be named "top 5": a name is a letter, then letters, digits and _ - . / @'),
                                ("accuracy", "a metric cannot be named accuracy, a figure that runs have already"),
                                ("many", "is a metric too many; there may be 32"), ("no-number", "the metric auc is no number"),
                                ("twice", "the metric recall was given both to turn.add and to turn.metric"),
                                ("some-batches", "turn.add was given hits= in ")):
            with self.subTest(fault=fault):
                _, err = self.run_job(fault, "--quiet", "--batch-size", "2", "--trainer-option", f"fault={fault}", code=69)
                self.assertIn(sentence, err)
                self.assertNotIn("another one has done the turn again", err)
        _, err = self.run_job("some-turns", "--quiet", "--trainer-option", "fault=some-turns", code=65)
        self.assertIn("counts hits in some turns, and none in those of 200 of 1200 samples; give hits= to every turn.add of a test, or to none", err)

    def test_a_backdoor_has_no_success_in_tests_without_hits_and_some_hits_are_refused(self):
        out, _ = self.run_job("none", *MARKED, *NO_HITS)
        self.assertNotRegex(out, r"(?m)^round .* attack ")
        self.assertFalse([line for line in self.rounds("none") if "attack_success" in line])
        out, _ = self.run_job("hits", *MARKED)
        self.assertIn("  attack ", out)
        _, err = self.run_job("some", *MARKED, "--quiet", "--trainer-option", "fault=some-marked", code=65)
        self.assertIn("--trainer: its test counts hits in some turns, and none in those of ", err)

    # Target -----------------------------------------------------------------------------------------------------------

    def test_a_metric_is_the_figure_that_a_run_is_about(self):
        self.run_job("free", "--quiet", "--rounds", "4", "--lr", "0.2")
        curve = [line["test_metrics"]["perplexity"] for line in self.rounds("free")]
        goal = sorted(curve)[1]  # reached by the second best test, or the best
        first = next(i for i, value in enumerate(curve) if value <= goal) + 1
        out, _ = self.run_job("runs/a", "--rounds", "4", "--lr", "0.2", "--target", f"perplexity<{goal}", "--stop-at-target")
        self.assertIn(f"round {first} reaches the target perplexity<{goal}", out)
        self.assertRegex(out, rf"(?m)^perplexity {curve[first - 1]:.4f} after {first} round")
        start, summary = self.metrics("runs/a")[0], self.metrics("runs/a")[-1]
        self.assertEqual((start["figure"], start["lower_is_better"]), ("test_metrics.perplexity", True))
        self.assertEqual((summary["rounds_to_target"], summary["best_metric"]), (first, min(curve[:first])))
        self.assertEqual(summary["target"], f"perplexity<{goal}")
        (row,) = json.loads(self.call("runs", "runs", "--format", "json")[0])
        self.assertAlmostEqual(row["best_test_metrics.perplexity"], min(curve[:first]), places=3)
        self.assertNotIn("best_percent", row)
        (run,) = self.report("runs/a")["runs"]
        self.assertEqual((run["figure"], run["lower_is_better"]), ("test_metrics.perplexity", True))
        self.assertAlmostEqual(run["target"], goal, places=4)
        self.assertIn("metric.svg", self.call("report", "runs/a", "--svg", "svg")[0])
        self.assertIn(f"perplexity {curve[first - 1]:.4f}  best", self.call("top", "--once", "runs/a")[0])
        self.train("--resume", "runs/a", "--stop-at-target=false", "--quiet")
        self.assertEqual(self.metrics("runs/a")[-1]["best_metric"], min(curve))
        self.assertEqual(self.model("runs/a"), self.model("free"))

    def test_patience_and_a_sweep_go_by_the_metric(self):
        out, _ = self.run_job("run", "--rounds", "6", "--lr", "1e-30", "--target", "recall>0.99", "--patience", "2")
        self.assertIn("the recall has not been better since round 1: patience ends", out)
        jobs = ["--data", "synthetic:1x8x8:160:60", "--clients", "4", "--batch-size", "10", "--workers", "1", "--trainer", f"{sys.executable} trainer.py"]
        for target, kept, word in (("perplexity<2", "1e-9", "perplexity "), ("accuracy=0.9", "0.3", "")):  # a large rate has more hits and perplexity
            out = self.call("sweep", *jobs, "--lr", "1e-9,0.3", "--search", "halving", "--rounds", "3", "--target", target, "--out", f"sweep-{kept}")[0]
            self.assertRegex(out, rf"\[1/1\] lr={re.escape(kept)}  {word}\d")
            self.assertIn("best perplexity" if word else "best %", out)

    def test_a_target_that_the_tests_do_not_have_ends_the_run_at_the_first(self):
        _, err = self.run_job("run", "--quiet", "--target", "auc>0.9", code=64)
        self.assertIn("--target auc>0.9: the trainer's test reports perplexity, recall, turns; take one of these, or give turn.add(..., auc=...)", err)
        _, err = self.run_job("run", "--quiet", "--target", "accuracy=0.9", *NO_HITS, code=64)
        self.assertIn("--target accuracy=0.9: the trainer's test counts no hits; give turn.add(..., hits=...), or take loss=VALUE", err)
        _, err = self.run_job("run", "--quiet", "--target", "recall=0.9", code=64)
        self.assertIn("write \"recall>0.9\" (this or more) or \"recall<0.9\" (this or less)", err)

    def test_client_accuracy_as_target_tests_the_clients_each_time(self):
        out, _ = self.run_job("run", "--target", "client-accuracy=0.01", "--stop-at-target")
        last = self.rounds("run")[-1]
        self.assertIn("round 1 reaches the target of 1%", out)
        self.assertEqual(self.metrics("run")[0]["figure"], "client_accuracy")
        self.assertTrue(0 < last["client_accuracy"] <= 1 and last["client_loss"] > 0)
        self.assertEqual(self.metrics("run")[-1]["best_client_accuracy"], last["client_accuracy"])
        (of_clients,) = self.lines("run", "clients_evaluation")
        self.assertEqual((of_clients["model"], of_clients["accuracy_mean"]), ("global", last["client_accuracy"]))

    # No hits ----------------------------------------------------------------------------------------------------------

    def test_a_test_without_hits_has_no_accuracy_and_the_run_goes_by_the_loss(self):
        out, _ = self.run_job("runs/a", *NO_HITS, "--rounds", "3", "--lr", "0.2", "--eval-every", "2", "--eval-clients-every", "3")
        self.assertNotIn("%", re.sub(r"(?m)^round .*%\|.*", "", out))
        self.assertRegex(out, r"(?m)^loss \d\.\d{4} after 3 rounds")
        for line in self.metrics("runs/a"):
            if line["type"] != "start":
                self.assertNotIn("accuracy", " ".join(key for key in line if line[key] is not None))
        summary = self.metrics("runs/a")[-1]
        self.assertEqual(summary["best_loss"], min(line["test_loss"] for line in self.rounds("runs/a") if line["test_loss"]))
        (row,) = json.loads(self.call("runs", "--format", "json")[0])
        self.assertAlmostEqual(row["best_loss"], summary["best_loss"], places=3)
        self.assertFalse({"accuracy_percent", "best_percent"} & set(row))
        self.assertIn([f"{summary['test_loss']:.4f}", "loss"], self.report("runs/a")["facts"])
        self.assertIn("loss", self.call("top", "--once", "runs/a")[0])
        self.train("--resume", "runs/a", "--rounds", "5", "--quiet")
        self.assertEqual(self.metrics("runs/a")[-1]["best_loss"], min(line["test_loss"] for line in self.rounds("runs/a") if line["test_loss"]))
        self.assertEqual(self.lines("runs/a", "start")[-1]["figure"], "test_loss")

    def test_patience_goes_by_the_loss_without_hits(self):
        out, _ = self.run_job("run", *NO_HITS, "--rounds", "6", "--lr", "1e-30", "--patience", "2")
        self.assertIn("the loss has not been better since round 1: patience ends", out)

    def test_eval_tells_metrics_and_no_accuracy_that_is_not_there(self):
        for run, script, more in (("counts", "trainer.py", []), ("none", "whole.py", NO_HITS)):
            self.run_job(run, "--quiet", *more, script=script)
            last, told = self.rounds(run)[-1], json.loads(self.call("eval", run, "--json")[0])
            self.assertEqual("test_accuracy" in told, not more)
            for key in ("test_loss", "test_accuracy"):
                self.assertAlmostEqual(told.get(key, 0), last.get(key, 0), places=6)
            for name, value in last["test_metrics"].items():
                self.assertAlmostEqual(told["test_metrics"][name], value, places=6)
        self.assertRegex(self.call("eval", "none")[0], r"^test loss \d\.\d{4}  perplexity [\d.]+  recall [\d.]+  turns 1.0000  ")

    # A test in one turn -----------------------------------------------------------------------------------------------

    def test_a_whole_test_is_one_turn_with_the_same_bits_for_any_number_of_workers(self):
        for workers in ("1", "3"):
            self.run_job(f"whole-{workers}", "--workers", workers, "--quiet", script="whole.py")
        self.same("whole-1", "whole-3")
        last = self.rounds("whole-1")[-1]
        self.assertAlmostEqual(last["test_metrics"]["perplexity"], math.exp(last["test_loss"]), places=4)
        self.run_job("chunks", "--quiet")
        chunks = self.rounds("chunks")[-1]
        self.assertEqual(chunks["model_xxh3"], last["model_xxh3"])
        self.assertAlmostEqual(chunks["test_loss"], last["test_loss"], places=5)

    def test_a_whole_test_of_a_small_training_set_with_large_batches_fits(self):
        self.run_job("run", "--quiet", "--data", "synthetic:1x8x8:40:1200", "--batch-size", "1000", script="whole.py")
        self.assertEqual(self.rounds("run")[-1]["test_metrics"]["turns"], 1)

    # What it is called ------------------------------------------------------------------------------------------------

    def test_no_page_calls_a_trainer_s_run_by_a_model_of_the_engine(self):
        self.run_job("runs/a", "--quiet")
        self.run_job("runs/b", "--quiet", "--lr", "0.1")
        self.train("--data", "synthetic:1x8x8:160:60", "--clients", "4", "--rounds", "1", "--model", "softmax", "--quiet", "--out", "runs/c")
        for told in (self.call("diff", "runs/a", "runs/b", code=1)[0], self.call("top", "--once", "runs/a")[0], self.call("runs", "runs/a", "runs/b")[0],
                     json.dumps(self.report("runs/a", "runs/b"))):
            self.assertNotIn("lenet", told)
        self.assertNotIn("lenet", self.call("runs")[0])
        self.assertNotIn("lenet", self.call("diff", "runs/a", "runs/c", code=1)[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
