"""Runs on the emulated card (cards.py) whose workers or parent die, stand still or are sent signals.

Usage: test_cuda_runs_deaths.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, random, signal, sys, unittest

from cards import CARD, TINY, CardCase
from runs import DIVERGING, ENDLESS, SANITIZED, SLOWED, SOUNDER, alive, children_of, segments_are_freed, wait_until


class Deaths(CardCase):
    def compare_with_a_calm_run(self, run, options):
        """That has as many rounds."""
        self.train(*options, "--rounds", str(len(self.rounds(run))), "--workers", "2", "--quiet", "--out", "calm-" + run)
        self.assertEqual(self.bits("calm-" + run), self.bits(run))

    def test_the_same_bits_while_workers_are_killed(self):
        for algorithm, every, most in (("fedavg", 0.15, 12), ("ssgd", 0.6, 4)):
            with self.subTest(algorithm):
                options = [*CARD, "--algorithm", algorithm, "--local-epochs", "2"]
                process = self.start(*options, *ENDLESS, "--workers", "3", "--on-worker-death", "respawn", "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[0], signal.SIGKILL)
                self.kill_workers_during(process, every * SLOWED, random.Random(3), most=most)
                self.wait_for_deaths(algorithm, 1)
                self.stop(process)
                self.compare_with_a_calm_run(algorithm, options)

    def test_the_only_worker_is_replaced_with_the_same_bits(self):
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                options = [*CARD, "--algorithm", algorithm]
                process = self.start(*options, *ENDLESS, "--workers", "1", "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[0], signal.SIGKILL)
                self.wait_for_deaths(algorithm, 1)
                self.wait_for_more_rounds(algorithm, 1)
                self.assertRegex(self.stop(process), "rank 0 was killed by signal 9")
                self.compare_with_a_calm_run(algorithm, options)

    def test_the_survivors_do_a_dead_workers_jobs(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                clients = "3" if algorithm == "hogwild" else "4"
                options = [*CARD, "--clients", clients, "--algorithm", algorithm]
                process = self.start(*options, *ENDLESS, "--workers", "3", "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[1], signal.SIGKILL)
                self.wait_for_deaths(algorithm, 1)
                self.assertRegex(self.stop(process), r"rank \d was killed by signal 9")
                if algorithm != "hogwild":
                    self.compare_with_a_calm_run(algorithm, options)

    @unittest.skipIf(SANITIZED, "a single step takes as long as the worker may stand still")
    def test_a_worker_that_trains_or_tests_clients_for_long_is_not_killed_as_hung(self):
        """Sixty steps take longer than --hang-seconds, which a step does not."""
        options = ["--model", "conv 16 5; relu; linear 10", "--batch-size", "64", "--clients", "4", "--rounds", "1", "--device", "cuda", "--workers", "1"]
        for number, more in enumerate((["synthetic:1x16x16:16640:64"], ["synthetic:1x16x16:60000:64", "--client-test", "0.95", "--eval-clients-every", "1"])):
            _, err = self.train(*options, "--hang-seconds", str(2 * SLOWED), "--out", str(number), "--data", *more)
            self.assertNotIn("is killed", err)

    def ended_workers(self, *options, **emulated):
        """The ranks that end by themselves, as a library in their processes notes."""
        library = os.path.join(os.path.dirname(SOUNDER), "tests", "libexit_witness.so")
        witness = self.path("ends-" + options[-1])
        self.train(*TINY, *options, env={**self.emulated(**emulated), "LD_PRELOAD": library, "SOUNDER_EXIT_WITNESS": witness})
        with open(witness) as file:
            return sorted(words[2] for words in map(str.split, file) if words[1] == "worker")

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime wants to be preloaded first")
    def test_workers_end_in_order_when_a_run_ends_so_that_who_looks_at_them_sees_them_end(self):
        for device in ("cuda", "cpu"):
            for algorithm in ("fedavg", "ssgd", "hogwild"):
                clients = "3" if algorithm == "hogwild" else "4"
                # Who watches over hangs kills a worker that gets no processor for a second at the end.
                self.assertEqual(self.ended_workers("--device", device, "--clients", clients, "--algorithm", algorithm, "--workers", "3",
                                                    "--hang-seconds", "0", "--out", f"{device}-{algorithm}"), ["0", "1", "2"])

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime wants to be preloaded first")
    def test_many_workers_have_the_time_that_the_end_of_their_contexts_takes(self):
        ended = self.ended_workers("--device", "cuda", "--workers", "6", "--out", "run", RESET_MILLISECONDS=1500, MEMORY_BYTES=8 << 30)
        self.assertEqual(ended, [str(rank) for rank in range(6)])

    def test_a_stopped_worker_is_killed_and_the_others_go_on(self):
        process = self.start(*CARD, "--workers", "2", *ENDLESS, "--hang-seconds", str(5 * SLOWED), "--out", "run")
        self.wait_for_round("run", 1)
        os.kill(children_of(process.pid)[0], signal.SIGSTOP)
        self.wait_for_deaths("run", 1)
        self.assertRegex(self.stop(process), r"rank \d has made no progress for .* and is killed")

    def test_killing_the_parent_leaves_nothing_and_the_run_resumes_to_the_same_bits(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                workers = ["--workers", "1", "--clients", "1"] if algorithm == "hogwild" else ["--workers", "2"]
                options = [*CARD, *workers, "--algorithm", algorithm]
                process = self.start(*options, *ENDLESS, "--out", algorithm)
                self.wait_for_round(algorithm, 2)
                children = children_of(process.pid)
                process.kill()
                process.communicate()
                self.assertTrue(wait_until(lambda: not any(alive(child) for child in children)), "a worker lives on")
                self.assertTrue(segments_are_freed())
                rounds = ["--rounds", str(len(self.rounds_so_far(algorithm)) + 2)]
                self.train("--resume", algorithm, *rounds)
                self.train(*options, *rounds, "--out", "calm-" + algorithm)
                self.assertEqual(self.model("calm-" + algorithm), self.model(algorithm))

    def test_a_run_goes_on_where_there_is_no_card_any_more(self):
        self.train(*CARD, "--workers", "2", "--tf32", "--algorithm", "ssgd", "--out", "run")
        self.train("--resume", "run", "--rounds", "3", "--device", "cpu", env=self.emulated(DEVICES=0))
        self.assertEqual([entry["device"] for entry in self.rounds("run")], ["Emulated card", "Emulated card", "cpu"])

    def test_the_first_signal_finishes_the_round_and_the_second_ends_the_run_at_once(self):
        process = self.start(*CARD, "--workers", "2", *ENDLESS, "--out", "run")
        self.wait_for_round("run", 1)
        self.assertIn("--resume run", self.stop(process, signal.SIGINT))
        process = self.start(*CARD, "--workers", "2", "--local-epochs", "100000", "--out", "long")
        self.end_at_once(process)

    def test_updates_that_are_not_finite_are_refused_by_name(self):
        _, err = self.train(*CARD, "--workers", "2", *DIVERGING, "--local-epochs", "4", "--out", "run", code=70)
        self.assertRegex(err, r"client \d: update refused: a weight of \w+\.\w+ became")
        self.assertRegex(self.has_one_sentence(err), "round 1: the updates of all clients were refused.*lower --lr")
        for algorithm in ("hogwild", "ssgd"):
            _, err = self.train(*CARD, "--algorithm", algorithm, "--workers", "4", *DIVERGING, "--local-epochs", "4", "--out",
                                algorithm, code=70)
            self.assertIn("lower --lr", self.has_one_sentence(err))

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
