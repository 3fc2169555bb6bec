"""Whole runs of synchronous SGD: buckets, and one batch over all workers.

Usage: test_ssgd.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, random, signal, sys, unittest

from runs import SLOWED, RunCase, children_of, parse_safetensors, wait_until

# 676 * 400 weights fill the first bucket; the convolution before them makes a second one.
TWO_BUCKETS = ["--data", "synthetic:1x28x28:1600:200", "--model", "conv 4 3; relu; pool 2; dropout 0.5; linear 400; relu; linear 10",
               "--algorithm", "ssgd", "--clients", "6", "--batch-size", "32", "--rounds", "2"]
WHOLE_BATCH = ["--data", "synthetic:1x28x28:250:100", "--model", "lenet", "--algorithm", "ssgd", "--rounds", "1", "--local-epochs",
               "2"]
GLOBAL_BATCH = [*WHOLE_BATCH, "--algorithm", "ssgd batch=global"]


class Ssgd(RunCase):
    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return {name: values for name, (_, values) in parse_safetensors(file.read())[1].items()}

    def assert_close(self, run, other):
        a, b = self.tensors(run), self.tensors(other)
        for name in a:
            worst = max(abs(x - y) for x, y in zip(a[name], b[name]))
            self.assertLess(worst, 1e-6, name)

    def test_the_same_bits_for_1_to_6_workers_and_two_buckets(self):
        for workers in "123456":
            self.train(*TWO_BUCKETS, "--workers", workers, "--out", workers)
        self.assertEqual(len({self.model(workers) for workers in "123456"}), 1)

    def test_the_same_bits_while_workers_are_killed_between_two_buckets(self):
        self.train(*TWO_BUCKETS, "--workers", "2", "--out", "calm")
        process = self.start(*TWO_BUCKETS, "--workers", "4", "--on-worker-death", "respawn", "--out", "storm")
        self.kill_workers_during(process, 0.3 * SLOWED, random.Random(3), most=5)
        self.finish(process)
        self.assertEqual(self.model("calm"), self.model("storm"))

    def test_a_killed_worker_is_replaced_while_the_run_goes_on(self):
        process = self.start(*TWO_BUCKETS, "--rounds", "100000", "--workers", "2", "--on-worker-death", "respawn", "--out", "run")
        self.wait_for_round("run", 1)
        before = children_of(process.pid)
        os.kill(before[0], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: len(set(children_of(process.pid)) - {before[0]}) == 2, 60), "nobody came in its place")
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=143)

    def test_the_metrics_say_which_worker_computed_a_shard(self):
        self.train(*TWO_BUCKETS, "--workers", "2", "--out", "run")
        ranks = {entry["rank"] for entry in self.metrics("run") if entry["type"] == "client"}
        self.assertEqual(ranks, {0, 1})

    def test_the_time_in_gradient_sync_is_hidden_or_exposed(self):
        out, _ = self.train(*TWO_BUCKETS, "--workers", "2", "--out", "run")
        self.assertRegex(out, r"round 1/2 .*  sync \d+\.\d\d s \(\d+\.\d\d hidden\)")
        for entry in self.rounds("run"):
            total, hidden = entry["synchronising_seconds"], entry["synchronising_hidden_seconds"]
            self.assertEqual((len(total), len(hidden)), (2, 2))
            for rank in range(2):
                self.assertGreater(total[rank], hidden[rank])
            self.assertGreater(sum(hidden), 0)  # bucket 0 is summed by whoever is done with it
            self.assertAlmostEqual(entry["gradient_sync_seconds"], sum(total) / 2)
            self.assertAlmostEqual(entry["gradient_sync_exposed_seconds"],
                                   entry["gradient_sync_seconds"] - entry["gradient_sync_hidden_seconds"])

    def test_a_global_batch_gives_the_model_of_one_worker_with_the_whole_batch(self):
        # 250 samples: the last batch has 58, which no number of shards below divides.
        self.train(*WHOLE_BATCH, "--workers", "1", "--clients", "1", "--out", "whole")
        for clients, workers in (("2", "2"), ("4", "2"), ("5", "3"), ("1", "1")):
            run = f"{clients}-{workers}"
            self.train(*GLOBAL_BATCH, "--clients", clients, "--workers", workers, "--out", run)
            self.assert_close("whole", run)
            self.assertEqual([entry["samples"] for entry in self.rounds(run)], [500])
        self.assertEqual(self.model("whole"), self.model("1-1"))
        self.assertNotEqual(self.model("whole"), self.model("4-2"), "then nothing was split")
        self.train(*WHOLE_BATCH, "--clients", "4", "--workers", "2", "--out", "own-batches")
        with self.assertRaises(AssertionError):
            self.assert_close("whole", "own-batches")

    def test_more_shards_than_samples_in_a_global_batch_leave_some_idle(self):
        arguments = ["--batch-size", "3"]
        self.train(*WHOLE_BATCH, *arguments, "--workers", "1", "--clients", "1", "--out", "whole")
        self.train(*GLOBAL_BATCH, *arguments, "--workers", "2", "--clients", "5", "--out", "split")
        self.assert_close("whole", "split")

    def test_a_global_batch_is_of_ssgd_and_has_no_partition(self):
        _, err = self.train("--algorithm", "fedavg batch=global", "--out", "run", code=64)
        self.assertIn('fedavg has no number "batch"', err)
        _, err = self.train("--algorithm", "ssgd batch=global", "--partition", "iid", "--out", "run", code=64)
        self.assertIn("--partition iid: only used with clients that have samples of their own", err)

    def test_a_global_batch_goes_on_from_its_checkpoint_to_the_same_bits(self):
        arguments = [*GLOBAL_BATCH, "--clients", "4", "--workers", "2"]
        self.train(*arguments, "--rounds", "3", "--out", "calm")
        self.train(*arguments, "--rounds", "2", "--out", "torn")
        self.train("--resume", "torn", "--rounds", "3", "--workers", "3")
        self.assertEqual(self.model("calm"), self.model("torn"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
