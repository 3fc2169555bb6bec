"""Whole runs on a card: of the program on the emulated card (tests/emulator), in several processes as on a real one.

Usage: test_cuda_runs.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, pty, random, re, select, signal, subprocess, sys, unittest

from runs import (DEADLINE, SANITIZED, SLOWED, SOUNDER, RunCase, alive, children_of, in_shared_memory, parse_safetensors,
                  wait_until)

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = "synthetic:1x8x8:160:60"
MODEL = "conv 3 3; pool 2; relu; dropout 0.2; linear 10"
TINY = ["--data", DATA, "--model", MODEL, "--batch-size", "16", "--clients", "4", "--rounds", "2"]
CARD = [*TINY, "--device", "cuda"]
GIBIBYTE = 1 << 30
DIVERGING = ["--lr", "1000", "--weight-decay", "1"]


class CardCase(RunCase):
    def emulated(self, **settings):
        """The environment of a run; settings as emulator.h has them, without SOUNDER_EMULATED_."""
        environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
        environment["CUDA_MPS_PIPE_DIRECTORY"] = self.path("no-mps")
        environment.update({f"SOUNDER_EMULATED_{name}": str(value) for name, value in settings.items()})
        return environment

    def start(self, *arguments, **more):
        more.setdefault("env", self.emulated())
        return super().start(*arguments, **more)

    def summary(self, run):
        entry = self.metrics(run)[-1]
        self.assertEqual(entry["type"], "summary")
        return entry

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def has_one_sentence(self, err):
        lines = [line for line in err.splitlines() if line.startswith("sounder: error:")]
        self.assertEqual(len(lines), 1, err)
        return lines[0]


class Results(CardCase):
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
        _, err = self.train(*CARD, *options, "--attack", "label-flip", "--attackers", "1", code=64)
        self.assertIn("--attack label-flip and backdoor are for the CPU alone; use --device cpu", err)
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
        """Adam's epsilon is large enough that slopes near zero, which round differently, make no whole steps."""
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
            figures = sorted((entry["round"], entry["client"], *(value for name, value in sorted(entry.items()) if "loss" in name or "accuracy" in name))
                             for entry in self.metrics(run) if entry["type"] == "client_evaluation")
            self.assertTrue(figures)
            seen.append((self.model(run), figures))
        self.assertEqual(seen[1:], seen[:-1])

    def test_the_order_of_threads_on_the_card_changes_nothing(self):
        models = set()
        for order in ("forward", "reversed", "shuffled"):
            self.train(*CARD, "--workers", "2", "--out", order, env=self.emulated(ORDER=order))
            models.add(self.model(order))
        self.assertEqual(len(models), 1)

    def test_hogwild_of_one_worker_is_that_of_the_cpu_and_of_several_counts_every_update(self):
        options = ["--data", DATA, "--model", MODEL, "--batch-size", "16", "--algorithm", "hogwild", "--rounds", "3"]
        for update in ("plain", "atomic"):
            with self.subTest(update):
                one, several = f"{update}-1", f"{update}-3"
                self.train(*options, "--hogwild-update", update, "--device", "cpu", "--workers", "1", "--out", update + "-cpu")
                for workers, run in (("1", one), ("3", several)):
                    self.train(*options, "--hogwild-update", update, "--device", "cuda", "--workers", workers, "--out", run)
                for cpu, card in zip(self.rounds(update + "-cpu"), self.rounds(one)):
                    self.assertAlmostEqual(cpu["train_loss"], card["train_loss"], delta=1e-4)
                    self.assertEqual((card["updates"], card["staleness"]), (10, [10]))
                for entry in self.rounds(several):
                    self.assertEqual((entry["updates"], sum(entry["staleness"])), (30, 30))
                    self.assertEqual(entry["samples"], 480)

    def test_the_heading_the_metrics_and_the_summary_name_the_card(self):
        out, _ = self.train(*CARD, "--workers", "2", "--out", "run")
        self.assertRegex(out, r"^Sounder .* 2 workers, 4 clients, Emulated card\n.*\n"
                              r"device: Emulated card \(card 0\), 2 workers take turns \(no MPS\), 2 models a launch\n")
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
        process = self.start(*CARD, "--workers", "2", "--rounds", "40", "--out", "run")
        self.wait_for_round("run", 2)
        with open(self.path("run/live/global.safetensors"), "rb") as live:
            first = live.read()
        self.wait_for_round("run", 4)
        with open(self.path("run/live/global.safetensors"), "rb") as live:
            self.assertNotEqual(first, live.read())
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)


class Deaths(CardCase):
    def test_the_same_bits_while_workers_are_killed(self):
        for algorithm, every in (("fedavg", 0.15), ("ssgd", 0.6)):
            with self.subTest(algorithm):
                options = [*CARD, "--algorithm", algorithm, "--local-epochs", "2", "--rounds", "8"]
                self.train(*options, "--workers", "2", "--out", "calm-" + algorithm)
                process = self.start(*options, "--workers", "3", "--on-worker-death", "respawn", "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[0], signal.SIGKILL)
                self.kill_workers_during(process, every * SLOWED, random.Random(3), most=20)
                self.finish(process)
                self.assertGreater(sum(entry["workers_lost"] for entry in self.rounds(algorithm)), 0)
                self.assertEqual(self.model("calm-" + algorithm), self.model(algorithm))

    def test_the_survivors_do_a_dead_workers_jobs(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                clients = "3" if algorithm == "hogwild" else "4"
                options = [*CARD, "--clients", clients, "--algorithm", algorithm, "--rounds", "6"]
                process = self.start(*options, "--workers", "3", "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[1], signal.SIGKILL)
                _, err = self.finish(process)
                self.assertRegex(err, r"rank \d was killed by signal 9")
                if algorithm != "hogwild":
                    self.train(*options, "--workers", "2", "--out", "calm-" + algorithm)
                    self.assertEqual(self.model("calm-" + algorithm), self.model(algorithm))

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime wants to be preloaded first")
    def test_workers_end_in_order_when_a_run_ends_so_that_who_looks_at_them_sees_them_end(self):
        library = os.path.join(os.path.dirname(SOUNDER), "tests", "libexit_witness.so")
        for device in ("cuda", "cpu"):
            for algorithm in ("fedavg", "ssgd", "hogwild"):
                clients = "3" if algorithm == "hogwild" else "4"
                witness = self.path(f"ends-{device}-{algorithm}")
                environment = {**self.emulated(), "LD_PRELOAD": library, "SOUNDER_EXIT_WITNESS": witness}
                self.train(*TINY, "--device", device, "--clients", clients, "--algorithm", algorithm, "--workers", "3", "--out",
                           f"{device}-{algorithm}", env=environment)
                with open(witness) as file:
                    ended = [line.split()[1:3] for line in file if line.split()[1] == "worker"]
                self.assertEqual(sorted(ended), [["worker", "0"], ["worker", "1"], ["worker", "2"]])

    def test_a_stopped_worker_is_killed_and_the_others_go_on(self):
        process = self.start(*CARD, "--workers", "2", "--rounds", "6", "--hang-seconds", str(2 * SLOWED), "--out", "run")
        self.wait_for_round("run", 1)
        os.kill(children_of(process.pid)[0], signal.SIGSTOP)
        _, err = self.finish(process)
        self.assertRegex(err, r"rank \d has made no progress for .* and is killed")

    def test_killing_the_parent_leaves_nothing_and_the_run_resumes_to_the_same_bits(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                workers = ["--workers", "1", "--clients", "1"] if algorithm == "hogwild" else ["--workers", "2"]
                options = [*CARD, *workers, "--algorithm", algorithm, "--rounds", "5"]
                self.train(*options, "--out", "calm-" + algorithm)
                process = self.start(*options, "--out", algorithm)
                self.wait_for_round(algorithm, 2)
                children = children_of(process.pid)
                process.kill()
                process.communicate()
                self.assertTrue(wait_until(lambda: not any(alive(child) for child in children)), "a worker lives on")
                self.assertEqual(in_shared_memory() - self.shm_before, set())
                self.train("--resume", algorithm)
                self.assertEqual(self.model("calm-" + algorithm), self.model(algorithm))

    def test_a_run_goes_on_where_there_is_no_card_any_more(self):
        self.train(*CARD, "--workers", "2", "--tf32", "--algorithm", "ssgd", "--out", "run")
        self.train("--resume", "run", "--rounds", "3", "--device", "cpu", env=self.emulated(DEVICES=0))
        self.assertEqual([entry["device"] for entry in self.rounds("run")], ["Emulated card", "Emulated card", "cpu"])

    def test_the_first_signal_finishes_the_round_and_the_second_ends_the_run_at_once(self):
        process = self.start(*CARD, "--workers", "2", "--rounds", "50", "--out", "run")
        self.wait_for_round("run", 1)
        process.send_signal(signal.SIGINT)
        _, err = self.finish(process, 128 + signal.SIGINT)
        self.assertIn("--resume run", err)
        process = self.start(*CARD, "--workers", "2", "--local-epochs", "1000", "--out", "long")
        self.end_at_once(process)

    def test_updates_that_are_not_finite_are_refused_by_name(self):
        _, err = self.train(*CARD, "--workers", "2", *DIVERGING, "--local-epochs", "4", "--out", "run", code=70)
        self.assertRegex(err, r"client \d: update refused: a weight of \w+\.\w+ became")
        self.assertRegex(self.has_one_sentence(err), "round 1: the updates of all clients were refused.*lower --lr")
        for algorithm in ("hogwild", "ssgd"):
            _, err = self.train(*CARD, "--algorithm", algorithm, "--workers", "4", *DIVERGING, "--local-epochs", "4", "--out",
                                algorithm, code=70)
            self.assertIn("lower --lr", self.has_one_sentence(err))


class Failures(CardCase):
    SHORT = ["--data", "synthetic:1x4x4:32:8", "--model", "relu; linear 10", "--batch-size", "8", "--clients", "2",
             "--rounds", "2", "--device", "cuda", "--workers", "2"]

    def calls(self):
        """Call numbers to fail: all of the beginning, then ever fewer."""
        number, step = 1, 1.0
        while True:
            yield int(number)
            number, step = number + step, step * 1.3

    def test_a_workers_failing_call_costs_the_run_that_worker_alone(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                options = [*self.SHORT, "--algorithm", algorithm]
                self.train(*options, "--out", "calm-" + algorithm)
                failures = 0
                for number in self.calls():
                    run = f"{algorithm}-{number}"
                    _, err = self.train(*options, "--out", run, env=self.emulated(FAIL=number, FAIL_RANK=1))
                    if algorithm != "hogwild":
                        self.assertEqual(self.model("calm-" + algorithm), self.model(run), f"call {number}")
                    if "rank 1 exited with code" not in err:
                        break
                    self.assertRegex(err, r"rank 1 exited with code (69|71)( while starting)?: \S")
                    failures += 1
                self.assertGreater(failures, 10)

    def test_every_order_of_samples_that_is_not_copied_in_lockstep_is_noticed(self):
        options = [*self.SHORT, "--clients", "4", "--local-epochs", "2", "--rounds", "1", "--algorithm", "ssgd"]
        self.train(*options, "--out", "calm")
        for number in range(1, 11):  # of two epochs, each two orders and the gradients of two steps
            _, err = self.train(*options, "--out", str(number), env=self.emulated(FAIL=f"cudaMemcpyAsync:{number}", FAIL_RANK=1))
            self.assertRegex(err, r"rank 1 exited with code (69|71)( while starting)?: \S", f"copy {number}")
            self.assertEqual(self.model("calm"), self.model(str(number)), f"copy {number}")

    def test_a_failing_kernel_ends_the_worker_and_a_replacement_takes_over(self):
        self.train(*CARD, "--workers", "2", "--out", "calm")
        for kernel in (1, 30, 60):
            _, err = self.train(*CARD, "--workers", "2", "--out", str(kernel), env=self.emulated(FAIL=f"kernel:{kernel}", FAIL_RANK=0))
            self.assertRegex(err, "rank 0 exited with code 69: ")
            self.assertEqual(self.model("calm"), self.model(str(kernel)))

    def test_the_parents_failing_call_ends_the_run_with_a_sentence_and_loses_no_round(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                options = [*self.SHORT, "--algorithm", algorithm, "--checkpoint-every", "0"]
                failures = resumed = 0
                for number in self.calls():
                    run = f"{algorithm}-{number}"
                    process = self.start(*options, "--out", run, env=self.emulated(FAIL=number, FAIL_RANK="parent"))
                    out, err = process.communicate(timeout=DEADLINE)
                    if process.returncode == 0:
                        break
                    failures += 1
                    self.assertIn(process.returncode, (69, 71), err)
                    self.has_one_sentence(err)
                    self.assertEqual(in_shared_memory() - self.shm_before, set())
                    if "is saved; continue with" in err:
                        self.train("--resume", run)
                        resumed += 1
                    elif not os.path.exists(self.path(run, "config.yaml")):
                        self.assertFalse(os.path.exists(self.path(run)), "an empty folder is left behind")
                self.assertGreater(failures, 10)
                self.assertGreater(resumed, 0)

    def test_what_a_failing_parent_saved_resumes_to_the_same_bits(self):
        options = [*self.SHORT, "--rounds", "4", "--checkpoint-every", "0"]
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                self.train(*options, "--algorithm", algorithm, "--out", "calm-" + algorithm)
                _, err = self.train(*options, "--algorithm", algorithm, "--out", algorithm, code=69,
                                    env=self.emulated(FAIL="cudaGraphLaunch:2", FAIL_RANK="parent"))
                self.assertRegex(err, "round [123] is saved; continue with: sounder train --resume " + algorithm)
                self.train("--resume", algorithm)
                self.assertEqual(self.model("calm-" + algorithm), self.model(algorithm))

    def test_a_fault_that_every_replacement_meets_ends_the_run_after_three(self):
        for kernel, when in ((30, "go on"), (1, "start|go on")):
            _, err = self.train(*CARD, "--workers", "1", "--on-worker-death", "respawn", "--out", str(kernel), code=69,
                                env=self.emulated(FAIL=f"kernel:{kernel}", FAIL_RANK=0))
            self.assertEqual(err.count("rank 0 exited with code 69"), 3, err)
            self.assertRegex(err.splitlines()[-1], f"^sounder: error: worker 0 cannot ({when}): .*illegal memory access")

    def test_a_replacement_is_of_another_generation_so_that_queued_work_of_the_dead_is_shut_out(self):
        for algorithm in ("fedavg", "hogwild"):
            clients = "2" if algorithm == "hogwild" else "4"
            process = self.start(*CARD, "--clients", clients, "--algorithm", algorithm, "--workers", "2", "--rounds", "6",
                                 "--on-worker-death", "respawn", "--log-level", "debug", "--out", algorithm)
            self.wait_for_round(algorithm, 1)
            os.kill(children_of(process.pid)[1], signal.SIGKILL)
            _, err = self.finish(process)
            self.assertEqual(sorted(re.findall(r"rank (\d)\W.*generation (\d+) on the card", err)), [("0", "0"), ("1", "0"), ("1", "1")])

    def test_without_managed_memory_the_host_sees_the_model_all_the_same(self):
        for algorithm in ("fedavg", "ssgd"):
            options = [*CARD, "--algorithm", algorithm, "--workers", "2", "--log-level", "info"]
            _, err = self.train(*options, "--out", "managed-" + algorithm)
            self.assertNotIn("pinned memory", err)
            _, err = self.train(*options, "--out", algorithm, env=self.emulated(MANAGED="off"))
            self.assertIn("GPU 0 has no managed memory that card and host may use at the same time", err)
            self.assertEqual(self.model("managed-" + algorithm), self.model(algorithm))

    def test_what_a_worker_takes_of_the_card_is_measured(self):
        _, err = self.train(*CARD, "--workers", "2", "--log-level", "info", "--out", "run", env=self.emulated(CONTEXT_BYTES=300 << 20))
        taken, context = map(int, re.search(r"a worker takes (\d+) MiB of the card, (\d+) MiB of them for its context", err).groups())
        self.assertGreaterEqual(taken, context)
        self.assertAlmostEqual(context, 300, delta=5)

    def test_where_ipc_does_not_work_the_run_ends_with_a_remedy(self):
        for policy in ("continue", "respawn", "abort"):
            _, err = self.train(*CARD, "--workers", "2", "--on-worker-death", policy, "--out", policy, code=69,
                                env=self.emulated(IPC="off"))
            self.assertIn("CUDA IPC", err)
            self.assertFalse(os.path.exists(self.path(policy)))

    def test_too_little_memory_is_refused_with_the_numbers_and_what_would_fit(self):
        _, err = self.train(*CARD, "--workers", "4", "--out", "run", code=71, env=self.emulated(MEMORY_BYTES=3 * GIBIBYTE // 2))
        self.assertRegex(self.has_one_sentence(err),
                         r"--workers 4: with 1 models a launch they need [\d.]+ GiB on Emulated card \(contexts 2.50, .*\), but "
                         r"1\.\d+ of its 1.50 GiB are free: 2 workers would fit")
        _, err = self.train(*CARD, "--workers", "1", "--out", "run", code=71, env=self.emulated(MEMORY_BYTES=GIBIBYTE // 4))
        self.assertIn("not even one worker fits", err)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_the_card_has_its_memory_back_whoever_was_killed(self):
        environment = self.emulated(CARD=self.path("card"), MEMORY_BYTES=7 * GIBIBYTE // 4, CONTEXT_BYTES=300 << 20)  # one run fits
        for victim in ("worker", "parent"):
            process = self.start(*CARD, "--workers", "2", "--rounds", "60", "--out", victim, env=environment)
            self.wait_for_round(victim, 1)
            _, err = self.train(*CARD, "--workers", "2", "--out", "refused", env=environment, code=71)
            self.assertIn("GiB are free", self.has_one_sentence(err))
            workers = children_of(process.pid)
            os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
            if victim == "worker":
                self.finish(process)
            process.communicate()
            self.assertTrue(wait_until(lambda: not any(alive(worker) for worker in workers)))
            self.train(*CARD, "--workers", "2", "--out", "after-" + victim, env=environment)

    def test_without_a_wish_launches_are_as_large_as_memory_allows(self):
        options = [*CARD, "--model", "linear 1000; linear 10", "--clients", "16", "--workers", "1", "--rounds", "1"]
        out, _ = self.train(*options, "--batch-size", "160", "--out", "run", env=self.emulated(MEMORY_BYTES=800 << 20))
        self.assertLess(int(re.search(r"(\d+) models a launch", out).group(1)), 16)


class Options(CardCase):
    def test_without_a_card_auto_trains_on_the_cpu_and_says_why_in_one_line_where_a_card_was_asked_for(self):
        self.train(*TINY, "--device", "cpu", "--workers", "2", "--out", "cpu")
        for missing in ({"DEVICES": 0}, {"DRIVER": 0}):
            for wish, lines in (([], 0), (["--gpu", "0"], 1)):
                run = f"{missing}-{lines}"
                out, err = self.train(*TINY, *wish, "--workers", "2", "--out", run, env=self.emulated(**missing))
                self.assertEqual(err, "")
                self.assertEqual(len([line for line in out.splitlines() if line.startswith("device: the CPU, for ")]), lines, out)
                self.assertEqual(self.model("cpu"), self.model(run))
        self.assertEqual(self.train(*TINY, "--workers", "2", "--quiet", "--out", "quiet", env=self.emulated(DEVICES=0)), ("", ""))

    def test_float_samples_are_for_the_cpu_which_auto_takes(self):
        options = ["--data", "fcube samples=100", "--model", "linear 2", "--rounds", "1", "--workers", "1"]
        _, err = self.train(*options, "--device", "cuda", "--out", "run", code=64)
        self.assertIn("--data fcube: its samples are float numbers, which are for the CPU alone; use --device cpu",
                      self.has_one_sentence(err))
        self.train(*options, "--out", "auto")
        self.assertEqual(self.summary("auto")["device"], "cpu")

    def test_what_waits_or_keeps_replicas_is_for_the_cpu_alone(self):
        for algorithm, sentence in (("hogwild bound=1", "schedule wild with steps or a bound is for the CPU alone"),
                                    ("hogwild steps=2", "schedule wild with steps or a bound is for the CPU alone"),
                                    ("easgd", "local elastic is for the CPU alone")):
            _, err = self.train("--data", DATA, "--model", MODEL, "--momentum", "0", "--algorithm", algorithm, "--device", "cuda", "--out", "no", code=64)
            self.assertIn(sentence, self.has_one_sentence(err))

    def test_without_a_card_cuda_is_refused_and_nothing_is_left(self):
        for missing in ({"DEVICES": 0}, {"DRIVER": 0}):
            _, err = self.train(*CARD, code=69, env=self.emulated(**missing))
            self.has_one_sentence(err)
            self.assertFalse(os.path.exists(self.path("runs")) and os.listdir(self.path("runs")))

    def test_gpu_and_local_rank_choose_the_card(self):
        for options, local_rank, card in ((["--gpu", "1"], "0", 1), ([], "2", 2), ([], "4", 1), ([], None, 0), (["--gpu", "0"], "2", 0)):
            environment = self.emulated(DEVICES=3)
            if local_rank:
                environment["LOCAL_RANK"] = local_rank
            run = f"run-{options}-{local_rank}"
            out, _ = self.train(*CARD, "--workers", "1", *options, "--out", run, env=environment)
            self.assertIn(f"(card {card})", out)
        _, err = self.train(*CARD, "--gpu", "3", "--out", "none", code=69, env=self.emulated(DEVICES=3))
        self.assertIn("3", self.has_one_sentence(err))

    def test_a_run_without_options_takes_one_worker_and_with_mps_a_few(self):
        cores = len(os.sched_getaffinity(0))
        free = [option for pair in zip(TINY[::2], TINY[1::2]) if pair[0] != "--clients" for option in pair]
        out, _ = self.train(*free, "--out", "run")
        self.assertRegex(out, rf"^Sounder .* 1 worker, {cores} clients?, Emulated card\n")
        out, _ = self.train(*free, "--algorithm", "ssgd", "--out", "ssgd")
        self.assertRegex(out, rf"^Sounder .* 1 worker, {cores} clients?, Emulated card\n")
        out, _ = self.train(*free, "--algorithm", "hogwild", "--hogwild-data", "shard", "--out", "hogwild")
        self.assertRegex(out, r"^Sounder .* 1 worker, 1 client, Emulated card\n")
        self.assertEqual(self.rounds("hogwild")[-1]["samples"], 160)
        out, _ = self.train(*free, "--clients", "8", "--mps", "start", "--out", "mps", env=self.fake_mps())
        self.assertRegex(out, rf"^Sounder .* {4 if cores >= 8 else 2} workers, 8 clients, Emulated card\n")
        self.train("--resume", "run", "--rounds", "3", "--workers", "2")  # who asks for more gets them
        self.assertEqual(len(self.rounds("run")[-1]["barrier_wait_seconds"]), 2)

    def test_more_workers_than_mps_serves_are_refused(self):
        """And the daemon that was started for them is gone, though its folder is taken away at once."""
        _, err = self.train(*TINY, "--clients", "70", "--workers", "60", "--device", "cuda", "--mps", "start", "--out", "run", code=64,
                            env=self.fake_mps())
        self.assertIn("--workers 60: MPS serves at most 60 processes on a card at a time", self.has_one_sentence(err))
        self.assertEqual(self.processes_of(self.path("bin")), [])

    @staticmethod
    def processes_of(folder):
        """Command lines that name the folder."""
        lines = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    lines.append(file.read())
            except OSError:
                continue  # it has ended meanwhile
        return [line for line in lines if folder.encode() in line]

    def test_tf32_trains(self):
        self.train(*CARD, "--workers", "1", "--tf32", "--out", "run")
        with open(self.path("run/config.yaml")) as file:
            self.assertIn("tf32: true", file.read())

    def test_a_configuration_of_a_card_serves_the_cpu(self):
        self.train(*TINY, "--workers", "2", "--out", "run")
        self.train("run/config.yaml", "--device", "cpu", "--out", "again")
        _, err = self.train("run/config.yaml", "--device", "cpu", "--mps", "off", "--out", "refused", code=64)
        self.assertIn("--mps off: only used with --device cuda", self.has_one_sentence(err))

    def fake_mps(self):
        """A folder with a stand-in for NVIDIA's control program, and an environment that finds it."""
        folder = self.path("bin")
        os.makedirs(folder, exist_ok=True)
        link = os.path.join(folder, "nvidia-cuda-mps-control")
        if not os.path.exists(link):
            os.symlink(os.path.join(HERE, "fake_mps_control.py"), link)
        environment = self.emulated()
        environment["PATH"] = folder + ":" + environment["PATH"]
        del environment["CUDA_MPS_PIPE_DIRECTORY"]
        return environment

    def has_ended(self, run):
        def quiet():
            try:
                with open(self.path(run, "mps/log/control.log")) as file:
                    return file.read().endswith("quit\n") and not os.path.exists(self.path(run, "mps/pipe"))
            except OSError:
                return False
        return wait_until(quiet)

    def test_mps_start_keeps_a_daemon_for_the_run_and_no_longer(self):
        out, _ = self.train(*CARD, "--workers", "2", "--mps", "start", "--out", "run", env=self.fake_mps())
        self.assertIn("2 workers work side by side (MPS, started for this run)", out)
        self.assertTrue(self.has_ended("run"))
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self.start(*CARD, "--workers", "2", "--mps", "start", "--rounds", "50", "--out", number.name, env=self.fake_mps())
            self.wait_for_round(number.name, 1)
            self.assertTrue(os.path.exists(self.path(number.name, "mps/pipe/control")))
            process.send_signal(number)
            process.communicate(timeout=DEADLINE)
            self.assertTrue(self.has_ended(number.name), number.name)

    def test_a_daemon_that_is_slow_to_quit_is_named_and_delays_a_stopped_run_but_briefly(self):
        warning = r"sounder: warning: --mps start: \S+ has not ended within {} s; .*: echo quit \| CUDA_MPS_PIPE_DIRECTORY={}/mps/pipe nvidia-"
        environment = {**self.fake_mps(), "FAKE_MPS_HOLD": self.path("hold")}
        with open(self.path("hold"), "w"):
            pass
        options = [*CARD, "--workers", "2", "--mps", "start"]
        runs = {run: self.start(*options, *more, "--out", run, env=environment) for run, more in
                (("calm", []), ("ended", []), ("stopped", ["--local-epochs", "1000"]))}
        def trained():
            try:
                return {self.metrics(run)[-1]["type"] for run in ("calm", "ended")} == {"summary"}
            except (OSError, ValueError, IndexError):
                return False
        self.assertTrue(wait_until(trained))
        runs["ended"].send_signal(signal.SIGTERM)
        said = {"stopped": self.end_at_once(runs["stopped"]), "calm": self.finish(runs["calm"])[1], "ended": runs["ended"].communicate()[1]}
        for run, seconds in (("calm", 10), ("ended", 2), ("stopped", 2)):
            self.assertRegex(said[run], warning.format(seconds, re.escape(self.path(run))))
        os.unlink(self.path("hold"))
        self.assertTrue(all(map(self.has_ended, runs)))

    def test_a_running_mps_is_used_unless_it_is_not_wanted(self):
        environment = self.fake_mps()
        environment["CUDA_MPS_PIPE_DIRECTORY"] = self.path("pipe")
        environment["CUDA_MPS_LOG_DIRECTORY"] = self.path("log")
        os.makedirs(self.path("pipe")), os.makedirs(self.path("log"))
        control = os.path.join(self.path("bin"), "nvidia-cuda-mps-control")
        subprocess.run([control, "-d"], env=environment, check=True)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("pipe/control"))))
        try:
            for use, words in (("auto", "side by side (MPS),"), ("start", "side by side (MPS),"), ("off", "take turns (no MPS)")):
                out, _ = self.train(*CARD, "--workers", "2", "--mps", use, "--out", use, env=environment)
                self.assertIn(words, out)
        finally:
            subprocess.run([control], input="quit\n", text=True, env=environment, check=True)

    def test_mps_that_cannot_be_started_is_refused(self):
        _, err = self.train(*CARD, "--mps", "start", "--out", "run", code=69)
        self.assertIn("no nvidia-cuda-mps-control in PATH", self.has_one_sentence(err))
        long = "x" * 100
        _, err = self.train(*CARD, "--mps", "start", "--out", long, code=64, env=self.fake_mps())
        self.assertIn("too long a path for a socket", self.has_one_sentence(err))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
