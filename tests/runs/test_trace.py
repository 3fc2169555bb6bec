"""--trace FILE: what a viewer of Chrome's trace format gets to see.

Usage: test_trace.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, signal, sys, unittest

from runs import DATA, ENDLESS, SMALL, TEST, RunCase, children_of, named, read_trace


class Trace(RunCase):
    def test_every_job_appears_once_on_the_track_of_its_worker(self):
        self.train(*SMALL, "--workers", "3", "--trace", "trace.json", "--out", "run")
        tracks = read_trace(self.path("trace.json"))
        jobs = named(tracks, "client")
        expected = sorted((entry["round"], entry["client"], entry["rank"]) for entry in self.metrics("run")
                          if entry["type"] == "client")
        self.assertEqual(len(expected), 3 * 8)
        self.assertEqual(sorted((job["args"]["round"], job["args"]["client"], job["args"]["rank"]) for job in jobs), expected)
        for job in jobs:
            self.assertEqual(job["tid"], job["args"]["rank"] + 1)
        self.assertEqual(sorted((chunk["args"]["round"], chunk["args"]["first_sample"]) for chunk in named(tracks, "test")),
                         [(round, first) for round in (1, 2, 3) for first in range(0, TEST, 500)])

    def test_the_parent_shows_its_rounds_and_what_they_consist_of(self):
        self.train(*SMALL, "--workers", "2", "--eval-every", "2", "--trace", "trace.json", "--out", "run")
        parent = read_trace(self.path("trace.json"))[0, 0]
        by_time = sorted(parent, key=lambda span: (span["ts"], -span["dur"]))
        rest = ["train", "average", "evaluate", "checkpoint"]
        self.assertEqual([span["cat"] for span in by_time],
                         ["round", "train", "average", "checkpoint", "round", *rest, "round", *rest])

    def test_a_worker_shows_its_phases_and_its_waits_at_the_barrier(self):
        self.train(*SMALL, "--workers", "2", "--trace", "trace.json", "--out", "run")
        tracks = read_trace(self.path("trace.json"))
        for rank in range(2):
            for category in ("train", "evaluate"):
                self.assertEqual([span["args"]["round"] for span in tracks[0, rank + 1] if span["cat"] == category], [1, 2, 3])
            self.assertGreaterEqual(len([span for span in tracks[0, rank + 1] if span["cat"] == "barrier"]), 6)

    def test_ssgd_shows_each_gradient_and_each_sum_of_a_bucket(self):
        # 676 * 400 weights fill the first bucket; the convolution before them makes a second one.
        model = "conv 4 3; relu; pool 2; linear 400; relu; linear 10"
        self.train("--data", "synthetic:1x28x28:512:100", "--model", model, "--algorithm", "ssgd", "--clients", "4",
                   "--workers", "2", "--rounds", "2", "--trace", "trace.json", "--out", "run")
        tracks = read_trace(self.path("trace.json"))
        steps = 512 // 4 // 64
        for rank in range(2):
            for round in (1, 2):
                spans = [span for span in tracks[0, rank + 1] if span["args"]["round"] == round]
                self.assertEqual([span["args"]["step"] for span in spans if span["cat"] == "gradient"], list(range(steps)))
        sums = named(tracks, "sum bucket")
        self.assertEqual(len(sums), 2 * steps * 2 * 2)  # rounds, steps, buckets, slices
        self.assertEqual({span["args"]["bucket"] for span in sums}, {0, 1})

    def test_hogwild_and_a_resumed_run_can_be_traced_too(self):
        self.train("--data", DATA, "--algorithm", "hogwild", "--workers", "2", "--rounds", "1", "--trace", "one.json", "--out",
                   "run")
        self.assertEqual(len(named(read_trace(self.path("one.json")), "client")), 2)
        self.train("--resume", "run", "--rounds", "2")
        self.assertEqual(len(named(read_trace(self.path("one.json")), "client")), 2, "written over without being asked")
        self.train("--resume", "run", "--rounds", "3", "--trace", "three.json")
        self.assertEqual([span["args"]["round"] for span in named(read_trace(self.path("three.json")), "client")], [3, 3])

    def test_the_trace_is_whole_although_workers_die(self):
        process = self.start(*SMALL, "--workers", "3", *ENDLESS, "--on-worker-death", "respawn", "--trace", "trace.json",
                             "--out", "run")
        self.wait_for_round("run", 1)
        for worker in children_of(process.pid)[:2]:
            os.kill(worker, signal.SIGKILL)
        self.wait_for_deaths("run", 2)
        self.stop(process)
        shown = [span for span in read_trace(self.path("trace.json"))[0, 0] if span["cat"] == "round"]
        self.assertEqual(len(shown), len(self.rounds("run")))

    def test_a_trace_does_not_change_the_bits(self):
        self.train(*SMALL, "--workers", "2", "--out", "plain")
        self.train(*SMALL, "--workers", "2", "--trace", "trace.json", "--out", "traced")
        self.assertEqual(self.model("plain"), self.model("traced"))

    def test_a_trace_that_cannot_be_written_is_said(self):
        _, err = self.train(*SMALL, "--workers", "1", "--trace", "nowhere/trace.json", "--out", "run", code=73)
        self.assertIn("--trace nowhere/trace.json: cannot be written", err)
        _, err = self.train(*SMALL, "--workers", "1", "--trace", "/dev/full", "--out", "full", code=74)
        self.assertIn("--trace /dev/full: cannot be written: No space left", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
