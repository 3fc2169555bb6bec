"""Trainers that fail in rare ways: turns of any length, programs that say too much or nothing, and what is said of it.

Usage: test_trainer_faults.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import os, signal, sys, time, unittest

from runs import SLOWED, children_of, is_worker, state_of, wait_until
from trainers import HANG_SECONDS, JOB, NUMPY, TrainerCase

COUNTS = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
net = {"w": np.zeros(8, np.float32)}
for turn in sounder.turns(net):
    for x, y in turn.batches():
        turn.add(0.0, len(y), hits=0)
        if turn.trains: net["w"] += 1
    turn.hand_in()
'''

# Client 1 says something a hundred times a second, client 2 as often as it can, for longer than --hang-seconds.
TALKS = NUMPY.replace("    fault = spoil(turn)\n", f'''    fault = spoil(turn)
    end = time.monotonic() + {3 * SLOWED}
    while turn.trains and turn.client in (1, 2) and turn.round == 1 and not turn.rehearsal and time.monotonic() < end:
        turn._line.socket.sendall(b'{{"progress":1}}\\n' * (1 if turn.client == 1 else 4096))
        time.sleep(0.01 if turn.client == 1 else 0)
''')

# The server's own training has a number that no client has.
ROOT = NUMPY.replace("    velocity = {}\n", '''    velocity = {}
    if turn.trains and turn.client == 4: raise ValueError("no root")
''')

STAYS_SILENT = NUMPY.replace("import numpy as np, sounder\n", '''import numpy as np, sounder
package = sys.modules[sounder.turns.__module__]
package._be_nursery = lambda *_: time.sleep(1000)
''')


class Faults(TrainerCase):
    def test_a_turn_has_as_many_steps_as_its_schedule_says(self):
        self.write("counts.py", COUNTS)
        for name, algorithm in (("downpour", "downpour steps=1000"), ("buffered", "schedule buffered K=1 steps=1000"), ("rounds", "local-sgd steps=1000")):
            with self.subTest(algorithm=algorithm):
                self.run_with(name, "--algorithm", algorithm, "--momentum", "0", "--rounds", "1", script="counts.py")
                self.assertTrue((self.weights(name)["w"] == 1000).all())

    def test_a_trainer_that_says_much_is_no_worker_that_hangs(self):
        self.run_with("quiet")
        self.write("talks.py", TALKS)
        _, err = self.run_with("talks", "--hang-seconds", HANG_SECONDS, script="talks.py")
        self.assertEqual(err, "")
        self.assertEqual(self.bits("talks"), self.bits("quiet"))

    def test_the_servers_own_training_is_named_as_such(self):
        self.write("root.py", ROOT)
        _, err = self.run_with("root", "--algorithm", "fltrust", script="root.py", code=69)
        self.assertIn("sounder: error: --trainer, the server's own training in round 1: ValueError: no root", err)
        self.assertNotIn("client 0", err)

    def test_an_only_worker_whose_trainer_always_fails_ends_the_run(self):
        _, err = self.run_with("alone", "--workers", "1", "--algorithm", "scaffold", "--trainer-option", "fault=no-correct", code=69)
        self.assertEqual(err.count("sounder: "), 1, err)  # beside its exception
        self.assertRegex(err.splitlines()[-1], "^sounder: error: --trainer, client .* never called turn.correct")

    def test_the_threads_of_trainers_are_not_those_of_workers(self):
        process = self.start(*JOB, "--rounds", "1000", "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "slow=0.1", "--quiet",
                             "--out", "run", env={**os.environ, "OMP_NUM_THREADS": "7"})
        self.wait_for_round("run", 1)
        def threads(pid):
            with open(f"/proc/{pid}/environ", "rb") as file:
                told = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
            return told.get(b"OMP_NUM_THREADS"), told.get(b"MKL_NUM_THREADS")
        self.assertEqual([threads(pid) for pid in children_of(process.pid) if is_worker(pid)], 2 * [(b"7", os.environb.get(b"MKL_NUM_THREADS"))])
        self.assertEqual(threads(self.nursery(process)[0]), (b"1", b"1"))
        self.stop(process)

    def test_ctrl_z_stops_trainers_too_and_costs_no_turn(self):
        self.run_with("calm", "--rounds", "4")
        for start in ("fork", "each"):
            with self.subTest(start=start):
                # A process group of the test's session, which the kernel lets Ctrl-Z stop.
                process = self.start(*JOB, "--rounds", "4", "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "slow=0.3", "--quiet",
                                     "--trainer-start", start, "--hang-seconds", f"{2 * SLOWED:g}", "--out", start, start_new_session=False, preexec_fn=os.setpgrp)
                self.wait_for_round(start, 1)
                programs = [*self.trainers(process), *(self.nursery(process) if start == "fork" else [])]
                self.assertEqual(len(programs), 3 if start == "fork" else 2)
                process.send_signal(signal.SIGTSTP)
                self.assertTrue(wait_until(lambda: {state_of(pid) for pid in programs} == {"T"}), [state_of(pid) for pid in programs])
                time.sleep(2.5 * SLOWED)  # longer than a trainer may be silent
                process.send_signal(signal.SIGCONT)
                _, err = self.finish(process)
                self.assertNotIn("another one", err)
                self.assertEqual(self.bits(start), self.bits("calm"))

    # Nurseries --------------------------------------------------------------------------------------------------------

    def test_a_nursery_that_never_says_whether_it_forks_ends_the_run(self):
        self.write("silent.py", STAYS_SILENT)
        _, err = self.run_with("silent", "--hang-seconds", HANG_SECONDS, script="silent.py", code=69)
        self.assertIn(f"has not said anything for {HANG_SECONDS} s", err)

    def test_the_last_rounds_say_how_long_a_round_of_a_trainer_takes(self):
        process = self.start(*JOB, "--rounds", "50", "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "slow=0.3", "--quiet",
                             "--out", "run")
        self.wait_for_round("run", 2)
        self.assertRegex(self.stop(process), r"finishing round \d+, about \d s; again")

    def test_a_nursery_that_hangs_is_followed_by_another_with_the_same_bits(self):
        self.run_with("calm", "--rounds", "6")
        process = self.start(*JOB, "--rounds", "6", "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "slow=0.05", "--quiet",
                             "--out", "hangs", "--hang-seconds", f"{2 * SLOWED:g}", "--on-worker-death", "respawn")
        self.wait_for_round("hangs", 1)
        os.kill(self.nursery(process)[0], signal.SIGSTOP)
        found = wait_until(lambda: self.trainers(process))
        self.assertTrue(found)
        os.kill(found[0], signal.SIGKILL)
        _, err = self.finish(process)
        self.assertIn(f"the nursery of trainers has ended: it has not said anything for {2 * SLOWED:g} s", err)
        self.assertEqual(self.bits("hangs"), self.bits("calm"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
