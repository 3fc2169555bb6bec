"""Runs on the emulated card (cards.py) in which calls of CUDA fail or memory is short.

Usage: test_cuda_runs_failures.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import json, os, re, signal, subprocess, sys, unittest

from cards import CARD, CardCase
from runs import DEADLINE, ENDLESS, SOUNDER, alive, children_of, segments_are_freed, wait_until

GIBIBYTE = 1 << 30


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
                options = [*self.SHORT, "--rounds", "6", "--checkpoint-every", "0", "--algorithm", algorithm]  # a late worker gets no clients at first
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
        options = [*CARD, "--workers", "2", "--rounds", "20"]  # in which either worker launches as many
        self.train(*options, "--out", "calm")
        for kernel in (1, 30, 60):
            _, err = self.train(*options, "--out", str(kernel), env=self.emulated(FAIL=f"kernel:{kernel}", FAIL_RANK=0))
            self.assertRegex(err, "rank 0 exited with code 69: ")
            self.assertEqual(self.model("calm"), self.model(str(kernel)))

    def test_the_parents_failing_call_ends_the_run_with_a_sentence_and_loses_no_round(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                options = [*self.SHORT, "--algorithm", algorithm, "--checkpoint-every", "0"]
                failures = resumed = 0
                for number in self.calls():
                    run = f"{algorithm}-{number}"
                    process = self.start(*options, "--log-level", "info", "--out", run, env=self.emulated(FAIL=number, FAIL_RANK="parent"))
                    out, err = process.communicate(timeout=DEADLINE)
                    if "has no managed memory" in err:  # the run takes another kind
                        self.assertEqual(process.returncode, 0, err)
                        continue
                    if process.returncode == 0:
                        break
                    failures += 1
                    self.assertIn(process.returncode, (69, 71), err)
                    self.has_one_sentence(err)
                    self.assertTrue(segments_are_freed())
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
        for kernel, when, policy in ((30, "go on", "respawn"), (1, "start|go on", "continue")):
            _, err = self.train(*CARD, "--workers", "1", "--on-worker-death", policy, "--out", str(kernel), code=69,
                                env=self.emulated(FAIL=f"kernel:{kernel}", FAIL_RANK=0))
            self.assertEqual(err.count("rank 0 exited with code 69"), 3, err)
            self.assertRegex(err.splitlines()[-1], f"^sounder: error: worker 0 cannot ({when}): .*illegal memory access")

    def test_a_card_that_has_just_what_the_plan_says_serves_every_kind_of_run_to_its_end(self):
        options = ["--data", "synthetic:1x8x8:600:4000", "--model", "conv 4 3; relu; linear 16; relu; linear 10", "--rounds", "3", "--batch-size", "16", "--device", "cuda"]
        best = ["--validation", "0.1", "--lr", "2"]  # of which the first round is the best, and is tested at the end
        kinds = (best, ["--algorithm", "scaffold"], ["--algorithm", "ssgd", "--workers", "2"], ["--algorithm", "hogwild", "--workers", "1"], ["--algorithm", "dp-fedavg"],
                 ["--algorithm", "fedavg; optimizer adam"], ["--algorithm", "krum byzantine=0"], ["--algorithm", "fedper layers=1"], ["--tf32"],
                 ["--patience-by", "macro-f1"], ["--eval-clients-every", "1", "--finetune-epochs", "1"], ["--drift", "labels round=2"])
        for number, more in enumerate(kinds):
            with self.subTest(more):
                more = [*more, *([] if "hogwild" in more else ["--clients", "3"])]
                context = 640 << 20  # as the plan takes it
                out, _ = self.train(*options, *more, "--plan", env=self.emulated(CONTEXT_BYTES=context))
                needed = (float(re.search(r"GPU memory\s+([\d.]+) MiB of ", out)[1]) + 0.05) * (1 << 20)
                run = f"full-{number}"
                self.train(*options, *more, "--out", run, env=self.emulated(CONTEXT_BYTES=context, MEMORY_BYTES=context + int(needed)))  # the parent's, too
                self.assertEqual(self.summary(run)["device"], "Emulated card")
        summary = self.summary("full-0")
        self.assertEqual(summary["best_round"], 1)
        done = subprocess.run([SOUNDER, "eval", self.path("full-0/best.safetensors"), *options[:2], "--device", "cpu", "--json"], stdout=subprocess.PIPE, text=True)
        self.assertAlmostEqual(json.loads(done.stdout)["test_loss"] / summary["best_model_test_loss"], 1, delta=1e-3)

    def test_a_plan_counts_the_sums_that_pass_through_the_host(self):
        def parent(*more):
            out, _ = self.train("--data", "synthetic:1x8x8:400:100", "--model", "linear 2000; relu; linear 10", "--clients", "4", "--rounds", "2", "--workers", "3",
                                "--device", "cuda", "--plan", *more)
            return float(re.search(r"parent ([\d.]+) MB", out)[1])
        sums = 4 * 8 * (64 * 2000 + 2000 + 2000 * 10 + 10) / 1e6  # of three workers and in all
        self.assertAlmostEqual(parent("--algorithm", "dp-fedavg") - parent(), sums, delta=0.3 * sums)

    def test_a_replacement_is_of_another_generation_so_that_queued_work_of_the_dead_is_shut_out(self):
        for algorithm in ("fedavg", "hogwild"):
            clients = "2" if algorithm == "hogwild" else "4"
            with open(self.path(algorithm + ".err"), "w+") as said:
                process = self.start(*CARD, "--clients", clients, "--algorithm", algorithm, "--workers", "2", *ENDLESS,
                                     "--on-worker-death", "respawn", "--log-level", "debug", "--out", algorithm, stderr=said)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[1], signal.SIGKILL)

                def generations():
                    said.seek(0)
                    return sorted(re.findall(r"rank (\d)\W.*generation (\d+) on the GPU", said.read()))
                wait_until(lambda: len(generations()) >= 3)
                self.stop(process)
                self.assertEqual(generations(), [("0", "0"), ("1", "0"), ("1", "1")])

    def test_parent_and_workers_sleep_while_they_wait_for_the_card_where_cores_are_few(self):
        """Whoever does so can fail at it."""
        cores = os.sched_getaffinity(0)
        for process, code in (("parent", 69), (1, 0)):
            for usable in {min(cores)}, cores:
                os.sched_setaffinity(0, usable)
                try:
                    sleeps = len(usable) <= 2
                    _, err = self.train(*CARD, "--workers", "2", "--out", f"{process}-{len(usable)}", code=code if sleeps else 0,
                                        env=self.emulated(FAIL="cudaSetDeviceFlags:1", FAIL_RANK=process))
                finally:
                    os.sched_setaffinity(0, cores)
                self.assertEqual("GPU 0 cannot be used" in err, sleeps, err)

    def test_without_managed_memory_the_host_sees_the_model_all_the_same(self):
        situations = {"off": ("pinned memory", {"MANAGED": "off"}), "refused": ("pinned memory", {"MANAGED": "refused"}),
                      "advice": ("pinned memory", {"FAIL": "cudaMemAdvise:2", "FAIL_RANK": "parent"}),
                      "pinned": ("a copy", {"MANAGED": "refused", "FAIL": "cudaHostAlloc", "FAIL_RANK": "parent"})}
        for algorithm in ("fedavg", "ssgd"):
            options = [*CARD, "--algorithm", algorithm, "--workers", "2", "--log-level", "info"]
            _, err = self.train(*options, "--out", "managed-" + algorithm)
            self.assertNotIn("managed memory", err)
            for name, (kind, settings) in situations.items():
                _, err = self.train(*options, "--out", f"{name}-{algorithm}", env=self.emulated(**settings))
                self.assertIn("GPU 0 has no managed memory that it and the host may use at the same time: the host's view of the "
                              f"model is {kind}", err)
                self.assertEqual(self.model("managed-" + algorithm), self.model(f"{name}-{algorithm}"))

    def test_what_a_worker_takes_of_the_card_is_measured(self):
        _, err = self.train(*CARD, "--workers", "2", "--log-level", "info", "--out", "run", env=self.emulated(CONTEXT_BYTES=300 << 20))
        taken, context = map(int, re.search(r"a worker takes (\d+) MiB of the GPU, (\d+) MiB of them for its context", err).groups())
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
            process = self.start(*CARD, "--workers", "2", *ENDLESS, "--out", victim, env=environment)
            self.wait_for_round(victim, 1)
            _, err = self.train(*CARD, "--workers", "2", "--out", "refused", env=environment, code=71)
            self.assertIn("GiB are free", self.has_one_sentence(err))
            workers = children_of(process.pid)
            os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
            if victim == "worker":
                self.wait_for_deaths(victim, 1)
                self.stop(process)
            process.communicate()
            self.assertTrue(wait_until(lambda: not any(alive(worker) for worker in workers)))
            self.train(*CARD, "--workers", "2", "--out", "after-" + victim, env=environment)

    def test_without_a_wish_launches_are_as_large_as_memory_allows(self):
        options = [*CARD, "--model", "linear 1000; linear 10", "--clients", "16", "--workers", "1", "--rounds", "1"]
        out, _ = self.train(*options, "--batch-size", "160", "--out", "run", env=self.emulated(MEMORY_BYTES=760 << 20))
        self.assertLess(int(re.search(r"(\d+) models a launch", out).group(1)), 16)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
