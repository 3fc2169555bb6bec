"""sounder launch --watch: which rank holds up the others.

Usage: test_launch_watch.py PATH_OF_SOUNDER PATH_OF_LATE_RANK [unittest arguments]
"""
import os, re, shutil, signal, sys, time, unittest

from launches import LaunchTest
from runs import computed_seconds, wait_until

LATE_RANK = os.path.abspath(sys.argv[2])
GDB = shutil.which("gdb")
WATCH = ["--standalone", "--watch", "0.6"]
PEERS = """
import os, socket, sys, time
rank, folder = int(os.environ["RANK"]), sys.argv[1]
place = os.path.join(folder, "peers")
if rank == 0:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        peers = [server.accept()[0] for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
        for peer in peers:
            peer.recv(1)
        for peer in peers:
            peer.send(b"!")
else:
    with socket.socket(socket.AF_UNIX) as peer:
        while peer.connect_ex(place):
            time.sleep(0.01)
        if rank == 1:
            SOMETHING
        peer.send(b"!")
        peer.recv(1)
"""


def told(err):
    """The lines of the watch, without those of stacks."""
    return [line for line in err.splitlines() if line.startswith("sounder: watch: ") and not re.match(r"sounder: watch: rank \d+:", line)]


class Watch(LaunchTest):
    def peers(self, something, *options):
        script = self.write("peers.py", PEERS.replace("SOMETHING", something))
        _, err = self.launch("-n", "3", *WATCH, *options, script, self.folder.name, PYTHON_EXEC=sys.executable)
        return err

    def test_a_rank_that_sleeps_is_named_with_its_place_and_its_stack(self):
        err = self.peers("time.sleep(3)\n            end = time.time() + 2\n            while time.time() < end: pass")
        lines = told(err)
        self.assertRegex(err, r"watch: rank 1 \(pid \d+\) has neither run nor read for \d s: it (sleeps in clock_nanosleep|waits in select)\n")
        self.assertTrue(any(re.search(r"watch: meanwhile (each of ranks 0, 2|rank [02]) receives from a socket", line) for line in lines), err)
        self.assertTrue(any(re.search(r"watch: rank 1 continues after \d s", line) for line in lines), err)
        self.assertNotRegex(err, r"rank [02] \(pid \d+\) has")
        self.assertRegex(err, r"watch: rank 1:   (#\d+ .*nanosleep|its stack cannot be read|    .* \(peers.py:\d+\))" if GDB else r"watch: for the stack of rank 1 install gdb")

    def test_a_rank_that_computes_is_named_while_the_others_wait(self):
        err = self.peers("end = time.time() + 3\n            while time.time() < end: pass")
        self.assertRegex(err, r"watch: rank 1 \(pid \d+\) runs, with \d+% of a core, while the others wait\n")
        self.assertNotRegex(err, r"rank [02] \(pid \d+\) has")

    def test_a_rank_that_reads_is_not_still(self):
        read = "end = time.time() + 2\n            while time.time() < end: time.sleep(0.05), os.read(os.open('/dev/zero', 0), 8192)"
        self.assertNotRegex(self.peers(read), r"rank 1 \(pid \d+\) has neither")

    def test_a_stopped_rank_below_a_shell_is_named(self):
        process = self.start("-n", "2", *WATCH, "sh", "-c", 'sleep 60 & echo $! > pid$RANK; wait', cwd=self.folder.name)
        pids = [int(text) for text in self.read_files("pid0", "pid1")]
        os.kill(pids[1], signal.SIGSTOP)
        os.set_blocking(process.stderr.fileno(), False)
        told = []

        def is_told():
            try:
                told.append(os.read(process.stderr.fileno(), 65536).decode())
            except BlockingIOError:
                pass
            return re.search(rf"watch: rank 1 \(pid {pids[1]}\) has neither run nor read for \d s: it is stopped, by SIGSTOP or SIGTSTP\n", "".join(told))
        self.assertTrue(wait_until(is_told), told)
        os.kill(process.pid, signal.SIGTERM)
        self.finish(process, 143)

    @unittest.skipUnless(GDB, "there is no debugger")
    def test_a_launcher_that_ends_its_ranks_sleeps_while_they_take_their_time(self):
        process = self.start("-n", "1", *WATCH, "sh", "-c", "trap '' TERM; sleep 60")

        def is_looked_at():
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                return len(file.read().split()) == 2  # the rank and the debugger
        self.assertTrue(wait_until(is_looked_at))
        process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not is_looked_at()))
        computed = computed_seconds(process.pid)
        time.sleep(1)
        self.assertLess(computed_seconds(process.pid) - computed, 0.1)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 143)

    def test_a_group_of_the_library_tells_which_call_is_missing(self):
        _, err = self.launch("-n", "3", *WATCH, "sh", "-c", f"{LATE_RANK} 2 3; exit $?")
        self.assertRegex(err, r"watch: rank 2 \(pid \d+\) has not made call 3, all_reduce of 10 f32 \(sum\), and has neither run nor read for \d s: "
                              r"it sleeps in clock_nanosleep\n")
        if GDB:
            self.assertRegex(err, r"watch: rank 2:   #\d+ .*prepare_batch")

    def test_nothing_is_said_of_ranks_that_work_or_without_the_option(self):
        busy = "import time\nend = time.time() + 1.5\nwhile time.time() < end: pass"
        self.assertNotIn("watch", self.launch("-n", "2", *WATCH, sys.executable, "-c", busy)[1])
        self.assertNotIn("watch", self.launch("-n", "2", "--standalone", "sleep", "1.5")[1])

    def test_a_standstill_of_all_ranks_is_told_as_one(self):
        _, err = self.launch("-n", "2", *WATCH, sys.executable, "-c", "import socket; a, b = socket.socketpair(); a.settimeout(2)\ntry: a.recv(1)\nexcept OSError: pass")
        named = {int(rank) for rank in re.findall(r"watch: rank (\d) \(pid \d+\) has neither run nor read for \d s: it waits in poll", err)}
        self.assertEqual(named, {0, 1})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
