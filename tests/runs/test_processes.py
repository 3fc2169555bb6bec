"""The processes of a run: what they are called, and what becomes of the run when one cannot start.

Usage: test_processes.py PATH_OF_SOUNDER PATH_OF_STOP_BEFORE_EXEC
"""
import ctypes, os, re, resource, signal, subprocess, sys, unittest

STOPPER = os.path.abspath(sys.argv.pop(2))
from runs import ENDLESS, OWN_SESSION, SMALL, SOUNDER, RunCase, alive, children_of, merged, state_of, wait_until


def stopped_child_of(pid):
    """A child that stands still, and is still what its parent was; None if there is none (yet)."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        return None
    return next((int(child) for child in children if state_of(child) == "T"), None)


class EarlyStops(RunCase):
    """Nobody waits without a deadline for a process that is stopped between its start and its exec."""

    def setUp(self):
        super().setUp()
        self.stopped = []

    def tearDown(self):
        for child in filter(alive, self.stopped):  # it would keep the pipes of a run that has failed
            os.kill(child, signal.SIGKILL)
        super().tearDown()

    def start_stopping(self, nth, *arguments):
        process = subprocess.Popen([STOPPER, str(nth), SOUNDER, *merged(*arguments)], cwd=self.folder.name, text=True,
                                   **OWN_SESSION, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL)
        self.started.append(process)
        child = []
        wait_until(lambda: process.poll() is not None or child.append(stopped_child_of(process.pid)) or child[-1])
        if process.poll() == 77:
            self.skipTest("ptrace is not allowed here")
        self.assertTrue(child and child[-1], "no child was stopped")
        self.stopped.append(child[-1])
        return process, child[-1]

    def test_a_worker_that_is_stopped_before_its_exec_is_killed_as_hung_and_the_others_go_on(self):
        self.train(*SMALL, "--workers", "1", "--out", "calm", "--quiet")
        for nth in (1, 3):
            process, worker = self.start_stopping(nth, "train", *SMALL, "--workers", "3", "--hang-seconds", "3",
                                                  "--out", f"stopped-{nth}")
            _, err = self.finish(process)
            self.assertRegex(err, rf"rank {nth - 1} has made no progress for [0-9.]+ s and is killed")
            self.assertIn(f"rank {nth - 1} was killed by signal 9 (SIGKILL) while starting", err)
            self.assertEqual(self.model(f"stopped-{nth}"), self.model("calm"))
            self.assertFalse(alive(worker))

    def test_signals_end_a_run_whose_worker_is_stopped_before_its_exec(self):
        process, worker = self.start_stopping(2, "train", *SMALL, "--workers", "2", "--hang-seconds", "0", "--out", "run")
        # Signals that come together are one, so that the second is sent until it is heard.
        self.assertTrue(wait_until(lambda: process.poll() is not None or process.send_signal(signal.SIGTERM)))
        process.communicate()
        self.assertIn(process.returncode, (143, -signal.SIGTERM))  # the latter: one more came as it ended
        self.assertFalse(alive(worker))

    def test_a_launcher_ends_though_a_rank_is_stopped_before_its_exec(self):
        process, rank = self.start_stopping(1, "launch", "-n", "2", "--standalone", "--grace-seconds", "86400",
                                            "sleep", "1000")
        process.send_signal(signal.SIGTERM)
        _, err = self.finish(process, code=143)
        self.assertEqual(err, "")  # it was continued, to end of the signal
        self.assertFalse(alive(rank))

    def test_a_launcher_starts_the_others_and_goes_on_with_a_rank_that_continues(self):
        process, rank = self.start_stopping(1, "launch", "-n", "2", "--standalone", "sh", "-c", "echo here; sleep 0.1")
        os.kill(rank, signal.SIGCONT)
        out, _ = self.finish(process)
        self.assertEqual(sorted(out.splitlines()), ["[0] here", "[1] here"])


class Processes(RunCase):
    def test_ps_shows_the_workers_by_their_ranks(self):
        process = self.start(*SMALL, "--rounds", "100000", "--workers", "2", "--out", "run", "--quiet")
        self.wait_for_round("run", 1)

        def names(pid):
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as command:
                return comm.read().strip(), command.read().split("\0")[0]
        self.assertEqual(sorted(map(names, children_of(process.pid))), [("sounder:w0",) * 2, ("sounder:w1",) * 2])
        self.assertEqual(names(process.pid)[0], os.path.basename(SOUNDER)[:15])
        process.kill()

    def test_where_no_replacement_can_be_started_the_others_go_on(self):
        for algorithm in "fedavg", "ssgd":
            run, calm = f"few-{algorithm}", f"calm-{algorithm}"
            process = self.start(*SMALL, "--algorithm", algorithm, *ENDLESS, "--on-worker-death", "respawn", "--workers", "2", "--out", run)
            self.wait_for_round(run, 2)
            used = len(os.listdir(f"/proc/{process.pid}/fd"))
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, used))
            os.kill(children_of(process.pid)[0], signal.SIGKILL)
            self.wait_for_deaths(run, 1)
            self.wait_for_more_rounds(run, 2)
            err = self.stop(process)
            self.assertRegex(err, r"rank [01] cannot be replaced: .*Too many open files.*; the others go on")
            self.assertEqual(err.count("cannot be replaced"), 1, err)
            self.train(*SMALL, "--algorithm", algorithm, "--workers", "1", "--rounds", str(len(self.rounds(run))), "--out", calm)
            self.assertEqual(self.bits(run), self.bits(calm))

    def test_a_worker_waits_for_a_debugger_and_the_run_for_the_worker(self):
        process = self.start(*SMALL, "--workers", "2", "--hang-seconds", "0", "--out", "run", "--quiet",
                             env={**os.environ, "SOUNDER_WAIT_FOR_DEBUGGER": "1"})
        line = process.stderr.readline()
        found = re.search(r"rank 1: warning: waiting for a debugger: gdb -p (\d+), and there: continue", line)
        self.assertTrue(found, line)
        worker = int(found[1])
        self.assertIsNone(process.poll())
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        PTRACE_CONT, PTRACE_SEIZE = 7, 0x4206
        if ptrace(PTRACE_SEIZE, worker, None, None) != 0:
            self.skipTest(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")

        def has_ended():  # what a debugger sees before the parent does
            pid, status = os.waitpid(worker, os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                ptrace(PTRACE_CONT, worker, None, os.WSTOPSIG(status))
            return pid and not os.WIFSTOPPED(status)
        self.assertTrue(wait_until(has_ended))
        self.finish(process)
        self.assertEqual([round_["workers_lost"] for round_ in self.rounds("run")], [0, 0, 0])

    def test_waiting_for_a_debugger_in_a_worker_that_there_is_not_is_refused(self):
        for wish in ("2", "", "one", "-1", "1x"):
            _, err = self.train(*SMALL, "--workers", "2", "--out", f"run-{wish}", code=69,
                                env={**os.environ, "SOUNDER_WAIT_FOR_DEBUGGER": wish})
            self.assertIn(f"SOUNDER_WAIT_FOR_DEBUGGER={wish}: give the rank of a worker, 0 to 1", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
