"""What runs on the emulated card (cards.py) compute: the bits, beside the CPU's, and what is told of them.

Usage: test_cuda_runs_results.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, pty, re, select, signal, subprocess, sys, unittest

from cards import CARD, DATA, MODEL, TINY, CardCase
from runs import DEADLINE, ENDLESS, SOUNDER


class Results(CardCase):
    def client_figures(self, run):
        return sorted((entry["round"], entry["client"], *(value for name, value in sorted(entry.items()) if "loss" in name or "accuracy" in name))
                      for entry in self.metrics(run) if entry["type"] == "client_evaluation")

    def test_losses_are_those_of_the_cpu_and_bits_do_not_depend_on_workers_launches_or_repetition(self):
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                options = ["--algorithm", algorithm, "--local-epochs", "2", "--momentum", "0.8", "--weight-decay", "0.01"]
                self.train(*TINY, *options, "--device", "cpu", "--out", "cpu-" + algorithm)
                models = set()
                for number, (workers, launch) in enumerate(((1, 4), (1, 1), (2, 2), (4, 1), (2, 3), (2, 3))):
                    run = f"{algorithm}-{number}"
                    self.train(*CARD, *options, "--workers", str(workers), "--models-per-launch", str(launch), "--out", run)
                    models.add(self.model(run))
                self.assertEqual(len(models), 1)
                for cpu, card in zip(self.rounds("cpu-" + algorithm), self.rounds(run)):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
                    self.assertAlmostEqual(cpu["test_loss"], card["test_loss"], delta=1e-4)
                    self.assertAlmostEqual(cpu["test_accuracy"], card["test_accuracy"], delta=0.04)
                    self.assertEqual(cpu["samples"], card["samples"])
                self.assertLess(self.rounds(run)[-1]["train_loss"], self.rounds(run)[0]["train_loss"])

    def test_clients_of_different_sizes_share_a_launch(self):
        options = ["--clients", "7", "--partition", "dirichlet", "--alpha", "0.2", "--clients-per-round", "5", "--batch-size", "7"]
        self.train(*TINY, *options, "--device", "cpu", "--out", "cpu")
        for workers, launch in ((1, 5), (2, 2)):
            self.train(*CARD, *options, "--workers", str(workers), "--models-per-launch", str(launch), "--out", str(workers))
        self.assertEqual(self.model("1"), self.model("2"))
        for cpu, card in zip(self.rounds("cpu"), self.rounds("1")):
            self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)

    def test_what_attackers_and_codes_make_of_updates_is_made_on_the_host_as_on_the_cpu(self):
        options = ["--clients", "5", "--rounds", "2", "--batch-size", "7"]
        for number, words in enumerate((["fedavg", "--attack", "sign-flip 2"], ["fedavg", "--attack", "gaussian"], ["median", "--attack", "alie 3"],
                                        ["norm-bound 0.01; send qsgd"], ["send clip 0.01; send top-k 0.5", "--attack", "scaled 9"],
                                        ["dp-fedavg norm=0.1", "--attack", "free-rider"])):
            words = [*options, "--algorithm", *words, *(["--attackers", "1,3"] if "--attack" in words else [])]
            with self.subTest(words):
                self.train(*TINY, *words, "--device", "cpu", "--out", f"cpu-{number}")
                self.train(*CARD, "--workers", "1", *words, "--out", f"one-{number}")
                self.train(*CARD, "--workers", "2", "--models-per-launch", "2", *words, "--out", f"two-{number}")
                self.assertEqual(self.model(f"one-{number}"), self.model(f"two-{number}"))
                for cpu, card in zip(self.rounds(f"cpu-{number}"), self.rounds(f"one-{number}")):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-3)
                    self.assertAlmostEqual(cpu["test_loss"], card["test_loss"], delta=1e-3)
                    self.assertEqual([cpu.get(key) for key in ("attackers", "up_bytes", "epsilon")], [card.get(key) for key in ("attackers", "up_bytes", "epsilon")])
        _, err = self.train(*CARD, *options, "--attack", "scaled 1000000", "--attackers", "4", "--lr", "10", "--out", "far", "--rounds", "1", "--quiet")
        self.assertRegex(err, "client 4: update refused: its attack scaled made [-0-9.e+]+ of a weight of ")
        self.assertEqual(self.rounds("far")[0]["updates_refused"], 1)

    def test_batch_norms_and_what_is_frozen_of_them_are_those_of_the_cpu(self):
        options = ["--model", "conv 3 3; batchnorm; relu; linear 9; batchnorm; linear 10", "--clients", "5", "--momentum", "0.8", "--weight-decay", "0.01"]
        for number, more in enumerate((["--local-epochs", "2"], ["--freeze", "norm1.running_var,norm2.weight,norm2.running_mean"], ["--algorithm", "fedprox"])):
            with self.subTest(more):
                self.train(*TINY, *options, *more, "--device", "cpu", "--out", f"cpu-{number}")
                for workers in "1", "3":
                    self.train(*CARD, *options, *more, "--workers", workers, "--out", f"{workers}-{number}")
                self.assertEqual(self.model(f"1-{number}"), self.model(f"3-{number}"))
                cpu, card = (self.tensors(f"{run}-{number}") for run in ("cpu", "1"))
                for name in cpu:
                    for expected, actual in zip(cpu[name][1], card[name][1]):
                        self.assertAlmostEqual(expected, actual, delta=1e-4, msg=name)
                for cpu, card in zip(self.rounds(f"cpu-{number}"), self.rounds(f"1-{number}")):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
                    self.assertAlmostEqual(cpu["test_loss"], card["test_loss"], delta=1e-4)

    def test_steps_that_need_the_whole_gradient_are_those_of_the_cpu(self):
        """Adam's epsilon is large enough that gradients near zero, which round differently, make no whole steps."""
        options = ["--clients", "5", "--local-epochs", "2", "--batch-size", "7"]
        for number, more in enumerate((["--algorithm", "fedavg; optimizer adam eps=0.01", "--lr", "0.01"],
                                       ["--algorithm", "fedprox mu=0.1; optimizer adamw eps=0.01", "--lr", "0.01", "--clip-grad-norm", "0.5"],
                                       ["--algorithm", "fedavg; optimizer sgd nesterov=yes", "--momentum", "0.8", "--weight-decay", "0.01"],
                                       ["--algorithm", "scaffold", "--clip-grad-norm", "0.3", "--momentum", "0"],
                                       ["--clip-grad-norm", "0.3", "--momentum", "0.8", "--freeze", "fc1.weight"])):
            with self.subTest(more):
                self.train(*TINY, *options, *more, "--device", "cpu", "--out", f"cpu-{number}")
                self.train(*CARD, *options, *more, "--workers", "1", "--models-per-launch", "5", "--out", f"one-{number}")
                self.train(*CARD, *options, *more, "--workers", "3", "--models-per-launch", "5", "--out", f"three-{number}")
                self.assertEqual(self.model(f"one-{number}"), self.model(f"three-{number}"))
                cpu, card = (self.tensors(f"{run}-{number}") for run in ("cpu", "one"))
                for name in cpu:
                    for expected, actual in zip(cpu[name][1], card[name][1]):
                        self.assertAlmostEqual(expected, actual, delta=1e-4, msg=name)

    def test_clipped_and_frozen_steps_of_one_model_are_those_of_the_cpu(self):
        for number, (workers, more) in enumerate(((("1",), ["hogwild", "--clip-grad-norm", "0.3", "--momentum", "0.8"]),
                                                  (("1",), ["hogwild update=atomic", "--clip-grad-norm", "0.3", "--freeze", "conv1.bias"]),
                                                  (("1", "3"), ["ssgd", "--freeze", "conv1.weight,fc1.bias", "--momentum", "0.8"]))):
            options = ["--data", DATA, "--model", MODEL, "--batch-size", "16", "--rounds", "3", "--lr", "0.1", "--algorithm", *more]
            with self.subTest(more):
                options += ["--clients", "4"] if more[0] == "ssgd" else []
                self.train(*options, "--device", "cpu", "--workers", "1", "--out", f"cpu-{number}")
                for count in workers:
                    self.train(*options, "--device", "cuda", "--workers", count, "--out", f"{count}-{number}")
                    self.assertEqual(self.model(f"{count}-{number}"), self.model(f"1-{number}"))
                cpu, card = (self.tensors(f"{run}-{number}") for run in ("cpu", "1"))
                for name in cpu:
                    for expected, actual in zip(cpu[name][1], card[name][1]):
                        self.assertAlmostEqual(expected, actual, delta=1e-4, msg=name)

    def test_crops_and_flips_are_those_of_the_cpu(self):
        options = ["--clients", "5", "--random-crop", "2", "--random-flip", "--local-epochs", "2"]
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                more = [*options, "--algorithm", algorithm]
                self.train(*TINY, *more, "--device", "cpu", "--out", "cpu-" + algorithm)
                self.train(*CARD, *more, "--workers", "2", "--models-per-launch", "2", "--out", algorithm)
                for cpu, card in zip(self.rounds("cpu-" + algorithm), self.rounds(algorithm)):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)

    def test_what_one_worker_shuffles_in_advance_is_what_it_trains(self):
        """Of several workers none takes clients in advance."""
        options = [*CARD, "--clients", "7", "--local-epochs", "3", "--eval-clients-every", "1", "--finetune-epochs", "2"]
        seen = []
        for workers, launch in (("3", "2"), ("1", "2"), ("1", "7")):
            run = workers + "-" + launch
            self.train(*options, "--workers", workers, "--models-per-launch", launch, "--out", run)
            seen.append((self.model(run), self.client_figures(run)))
            self.assertTrue(seen[-1][1])
        self.assertEqual(seen[1:], seen[:-1])

    def test_the_order_of_threads_on_the_card_changes_nothing(self):
        models = set()
        for order in ("forward", "reversed", "shuffled"):
            self.train(*CARD, "--workers", "2", "--out", order, env=self.emulated(ORDER=order))
            models.add(self.model(order))
        self.assertEqual(len(models), 1)

    def test_when_the_card_reads_pageable_memory_changes_nothing(self):
        """What a copy reads late must still be what it was when the copy was queued."""
        two = ["--models-per-launch", "2"]
        for number, words in enumerate((["fedavg", "--lr-schedule", "exponential gamma=0.5", *two], ["ssgd", "--partition", "dirichlet alpha=0.3", *two],
                                        ["scaffold", *two], ["feddyn"], ["dp-fedavg norm=0.1"], ["fedavg; send top-k 0.5"], ["krum", "--clients", "5"], ["hogwild", "--clients", "1"],
                                        ["fedavg", "--eval-clients-every", "1", "--finetune-epochs", "2", *two],
                                        ["fedavg", "--client-noise", "gaussian 0.3", "--drift", "labels round=2", *two],
                                        ["fedavg", "--attack", "backdoor 1", "--attackers", "1,3", *two])):
            seen = []
            for pageable in "early", "late":
                run = f"{pageable}-{number}"
                self.train(*CARD, "--workers", "1", "--algorithm", *words, "--out", run, env=self.emulated(PAGEABLE=pageable))
                seen.append((self.model(run), [entry["train_loss"] for entry in self.rounds(run)], self.client_figures(run)))
            self.assertEqual(seen[0], seen[1], words)

    def test_hogwild_of_one_worker_is_that_of_the_cpu_and_of_several_counts_every_update(self):
        options = ["--data", DATA, "--model", MODEL, "--batch-size", "16", "--rounds", "3", "--algorithm"]
        for update in ("plain", "atomic"):
            with self.subTest(update):
                one, several = f"{update}-1", f"{update}-3"
                self.train(*options, f"hogwild update={update}", "--device", "cpu", "--workers", "1", "--out", update + "-cpu")
                for workers, run in (("1", one), ("3", several)):
                    self.train(*options, f"hogwild update={update}", "--device", "cuda", "--workers", workers, "--out", run)
                for cpu, card in zip(self.rounds(update + "-cpu"), self.rounds(one)):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
                    self.assertEqual((card["updates"], card["staleness"]), (10, [10]))
                for entry in self.rounds(several):
                    self.assertEqual((entry["updates"], sum(entry["staleness"])), (30, 30))
                    self.assertEqual(entry["samples"], 480)

    def test_the_heading_the_metrics_and_the_summary_name_the_card(self):
        out, _ = self.train(*CARD, "--workers", "2", "--out", "run")
        self.assertRegex(out, r"^Sounder .* 2 workers, 4 clients, Emulated card\n.*\nsamples of 1x8x8 .*\n"
                              r"device: Emulated card \(GPU 0\), 2 workers take turns \(no MPS\), 2 models a launch\n")
        self.assertEqual({entry["device"] for entry in [*self.rounds("run"), self.summary("run")]}, {"Emulated card"})
        _, err = self.train(*CARD, "--workers", "2", "--quiet", "--log-level", "info", "--out", "quiet")
        self.assertIn("2 workers take turns", err)

    def test_eval_on_the_card_prints_the_accuracy_of_the_run(self):
        self.train(*CARD, "--workers", "1", "--out", "run")
        expected = f"{round(60 * self.summary('run')['test_accuracy'])}/60"
        for device in ("cuda", "cpu"):
            result = subprocess.run([SOUNDER, "eval", self.path("run/model.safetensors"), "--data", DATA, "--device", device],
                                    text=True, stdout=subprocess.PIPE, timeout=DEADLINE, env=self.emulated(), check=True)
            self.assertIn(f"accuracy {expected} ", result.stdout)
            self.assertIn("Emulated card" if device == "cuda" else "cpu", result.stdout)
        result = subprocess.run([SOUNDER, "eval", self.path("run/model.safetensors"), "--data", DATA, "--device", "cuda"],
                                text=True, stderr=subprocess.PIPE, timeout=DEADLINE, env=self.emulated(DEVICES=0))
        self.assertEqual(result.returncode, 69, result.stderr)

    def test_samples_are_counted_as_progress_while_a_round_runs(self):
        """Without it a healthy worker is killed when its round lasts longer than --hang-seconds."""
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                screen, terminal = pty.openpty()
                process = self.start(*CARD, "--workers", "4", "--local-epochs", "100000", "--algorithm", algorithm, "--out", algorithm,
                                     env=self.emulated() | {"TERM": "xterm"}, stderr=terminal)
                os.close(terminal)
                seen = ""
                while not re.search(r"  [1-9][\d,]* samples/s", seen):
                    self.assertTrue(select.select([screen], [], [], DEADLINE)[0], seen)
                    seen += os.read(screen, 65536).decode()
                    self.assertLess(seen.count(" samples/s"), 100, seen)
                process.kill()
                process.wait()
                os.close(screen)

    def test_live_weights_are_those_of_the_last_round(self):
        process = self.start(*CARD, "--workers", "2", *ENDLESS, "--out", "run")
        self.wait_for_round("run", 2)
        with open(self.path("run/live/global.safetensors"), "rb") as live:
            first = live.read()
        self.wait_for_round("run", 4)
        with open(self.path("run/live/global.safetensors"), "rb") as live:
            self.assertNotEqual(first, live.read())
        self.stop(process)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
