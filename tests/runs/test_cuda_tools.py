"""sounder sweep and tools/slurm on the emulated card (cards.py), on a machine of sixteen cores (many_cores.c).

Usage: test_cuda_tools.py PATH_OF_SOUNDER_EMULATED PATH_OF_TOOLS [unittest arguments]
"""
import os, subprocess, sys, unittest
from datetime import datetime

from cards import TINY, CardCase
from runs import DEADLINE, SOUNDER, merged

TOOLS = os.path.abspath(sys.argv[2])
LIBRARY = os.path.join(os.path.dirname(SOUNDER), "tests", "libmany_cores.so")
RUNS = [f"s/seed={seed}" for seed in range(1, 5)]


class Tools(CardCase):
    def sweep(self, *arguments, **settings):
        done = subprocess.run([SOUNDER, "sweep", *merged(*TINY, "--seed", "1..4", "--rounds", "3", *arguments), "--out", "s"], cwd=self.folder.name,
                              env={**self.emulated(**settings), "LD_PRELOAD": LIBRARY}, text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("\n4 of 4 runs are done, 0 failed, ", done.stdout)
        return done.stdout

    def places(self):
        return {(start["device"], start["workers"]) for start in (self.metrics(run)[0] for run in RUNS)}

    def most_at_once(self):
        """By the times of the first lines and the last ones, which are within the processes' lives."""
        lives = [[datetime.fromisoformat(line["time"].rstrip("Z")) for line in (self.metrics(run)[0], self.metrics(run)[-1])] for run in RUNS]
        return max(sum(begin <= moment <= end for begin, end in lives) for moment, _ in lives)

    def test_runs_on_a_card_have_one_worker_each_and_no_more_than_two_are_side_by_side(self):
        self.sweep("--rounds", "10")
        self.assertEqual(self.places(), {("Emulated card", 1)})
        self.assertLessEqual(self.most_at_once(), 2)

    def test_a_resumed_run_is_not_believed_to_be_where_an_earlier_process_trained(self):
        self.sweep(DEVICES=0)
        self.sweep("--rounds", "60")
        begun = [[line for line in self.metrics(run) if line["type"] == "start"] for run in RUNS]
        self.assertEqual([[start["device"] == "Emulated card" for start in starts] for starts in begun], [[False, True]] * 4)
        lives = [(starts[-1]["time"], self.metrics(run)[-1]["time"]) for run, starts in zip(RUNS, begun)]
        self.assertLessEqual(max(sum(begin <= moment <= end for begin, end in lives) for moment, _ in lives), 2)

    def test_the_user_may_want_more_workers_or_runs_on_a_card(self):
        self.sweep("--workers", "2", "--parallel", "4")
        self.assertEqual(self.places(), {("Emulated card", 2)})

    def test_where_the_card_is_missing_or_not_wanted_runs_divide_the_cores(self):
        out = self.sweep("--device", "cpu")
        cores = int(out.split(", ")[1].split()[0])  # a container may have fewer than sixteen
        alone = self.model(RUNS[3])
        self.assertEqual({workers for _, workers in self.places()}, {max(cores // 4, 1)})
        os.rename(self.path("s"), self.path("cpu"))
        self.sweep(DEVICES=0)
        self.assertEqual({workers for _, workers in self.places()}, {max(cores // 4, 1)})
        self.assertEqual(self.model(RUNS[3]), alone)

    # Slurm, whose srun is a stand-in ---------------------------------------------------------------------------------

    def test_a_job_of_slurm_has_one_worker_on_a_card_and_one_for_each_of_its_cores_on_the_cpu(self):
        with open(self.path("srun"), "w") as file:
            file.write('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nSLURM_STEP_NUM_TASKS=1 exec "$@"\n')
        os.chmod(file.name, 0o755)
        for device, workers in (("auto", 1), ("cpu", 2)):
            environment = {**self.emulated(), "PATH": self.folder.name + ":" + os.environ["PATH"], "SOUNDER": SOUNDER, "LD_PRELOAD": LIBRARY,
                           "SLURM_JOB_ID": device, "SLURM_CPUS_PER_TASK": "2"}
            done = subprocess.run(["bash", os.path.join(TOOLS, "slurm", "train.sbatch"), *TINY, "--device", device], cwd=self.folder.name,
                                  env=environment, text=True, capture_output=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.metrics(f"runs/slurm-{device}")[0]["workers"], workers)


if __name__ == "__main__":
    unittest.main(argv=["test_cuda_tools.py"] + sys.argv[3:], verbosity=2)
