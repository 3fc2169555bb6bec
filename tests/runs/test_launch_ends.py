"""How the processes below `sounder launch` stop, continue and end: ranks, and what ranks have started.

Usage: test_launch_ends.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, select, signal, subprocess, sys, unittest

from launches import DEADLINE, LaunchTest, lines_of_ranks
from runs import SOUNDER, alive, state_of, wait_until


class Ends(LaunchTest):
    def around(self, program, name="program"):
        """A rank that is a shell around the program, which it waits for."""
        return ["sh", "-c", f"sh {self.write(name + '.sh', program)}; :"]

    def listen(self, *traps):
        """A program of a rank that says its pid when it listens, and waits."""
        return "\n".join([*traps, f"echo $$ >{self.path('pid')}.$RANK", "while :; do sleep 0.02; done"])

    def test_a_program_behind_a_shell_has_its_time_of_grace(self):
        program = self.listen("trap 'sleep 0.1; echo saved; exit 0' TERM HUP INT")
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(number.name):
                process = self.start("-n", "2", *self.around(program))
                self.read_files("pid.0", "pid.1")
                process.send_signal(number)
                out, err = self.finish(process, 128 + number)
                self.assertEqual((sorted(out.splitlines()), err), (["[0] saved", "[1] saved"], ""))
                for rank in (0, 1):
                    os.remove(self.path(f"pid.{rank}"))

    def test_a_program_behind_a_shell_that_does_not_end_is_killed_after_the_grace_time(self):
        process = self.start("-n", "1", "--grace-seconds", "0.3", *self.around(self.listen("trap '' TERM")))
        pid = int(self.read_files("pid.0")[0])
        process.send_signal(signal.SIGTERM)
        _, err = self.finish(process, 128 + signal.SIGTERM)
        self.assertRegex(err, r"warning: rank 0 \(pid \d+\) has not ended within 0.3 s and is killed\n")
        self.assertFalse(alive(pid))

    def test_a_warning_goes_through_a_shell_to_the_program_and_ends_no_rank_that_does_not_listen(self):
        program = self.listen(f"""[ $RANK = 0 ] && trap "echo usr1; : >{self.path('heard')}" USR1""")
        process = self.start("-n", "2", *self.around(program))
        self.read_files("pid.0", "pid.1")
        process.send_signal(signal.SIGUSR1)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("heard"))))
        process.send_signal(signal.SIGTERM)
        out, err = self.finish(process, 128 + signal.SIGTERM)
        self.assertEqual((lines_of_ranks(out), err), ({0: ["usr1"]}, ""))

    def test_what_has_made_a_process_group_of_its_own_is_asked_and_ends_with_the_ranks(self):
        """As GNU timeout does; that rank 1 fails ends rank 0's."""
        saver = self.write("saver.sh", self.listen(f"trap ': >{self.path('saved')}; exit 0' TERM"))
        script = f"""
            [ $RANK = 0 ] && {{ timeout 300 sh {saver}; :; }}
            until [ -s {self.path('pid')}.0 ]; do sleep 0.02; done; exit 3"""
        self.launch("-n", "2", "sh", "-c", script, code=3)
        self.assertTrue(os.path.exists(self.path("saved")))
        deaf = self.write("deaf.sh", self.listen("trap '' TERM"))
        os.remove(self.path("pid.0"))
        self.launch("-n", "2", "--grace-seconds", "0.2", "sh", "-c", script.replace(saver, deaf), code=3)
        self.assertFalse(alive(int(self.read_files("pid.0")[0])))

    def test_what_a_rank_that_succeeds_leaves_in_another_process_group_ends(self):
        out, _ = self.launch("-n", "1", "sh", "-c", "timeout 300 sleep 299 & echo $!")
        self.assertFalse(alive(int(out.split()[1])))

    def test_what_was_there_before_the_launcher_stays(self):
        script = f"sleep 300 & echo $! >{self.path('before')}; exec {SOUNDER} launch --standalone true"
        subprocess.run(["sh", "-c", script], timeout=DEADLINE, check=True)
        pid = int(self.read_files("before")[0])
        self.assertTrue(alive(pid))
        os.kill(pid, signal.SIGKILL)

    def test_as_the_first_process_of_a_container_the_launcher_leaves_no_zombies(self):
        container = ["unshare", "-rpf", "--mount-proc"]
        if subprocess.run([*container, "true"], capture_output=True).returncode != 0:
            self.skipTest("no PID namespace of its own without root")
        script = """
            for i in 1 2 3 4 5; do (sleep 0.01 &); done
            for i in $(seq 500); do
                sleep 0.02; left=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') [SZ] 1 ')
                [ $left = 1 ] && exit 0
            done; exit 9"""  # the only child that the first process has left is this rank
        run = subprocess.run([*container, SOUNDER, "launch", "--standalone", "sh", "-c", script], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_a_stopped_rank_continues_to_end(self):
        process = self.start("-n", "1", "--grace-seconds", "86400", "sh", "-c",
                             f"trap 'echo ends; exit 0' TERM; echo $$ >{self.path('pid')}; kill -STOP $$; while :; do sleep 0.02; done")
        pid = int(self.read_files("pid")[0])
        self.assertTrue(wait_until(lambda: state_of(pid) == "T"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process, 128 + signal.SIGTERM)[0], "[0] ends\n")

    def test_ctrl_z_stops_the_ranks_and_fg_continues_them(self):
        # No shell, which may be stopped between vfork and exec of a command and then is not in the state of a stopped process.
        process = self.start("-n", "2", "sh", "-c", f"echo $$ >{self.path('pid')}.$RANK; exec sleep 300", preexec_fn=os.setpgrp)
        ranks = [int(text) for text in self.read_files("pid.0", "pid.1")]
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: {state_of(pid) for pid in (process.pid, *ranks)} == {"T"}))
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: "T" not in [state_of(pid) for pid in (process.pid, *ranks)]))
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)

    def test_a_prompt_of_a_lone_rank_shows_before_its_line_ends(self):
        process = self.start("-n", "1", "sh", "-c", "printf 'name? '; read name; echo \"hello $name\"; printf 'bye'", stdin=subprocess.PIPE)
        self.assertTrue(select.select([process.stdout], [], [], DEADLINE)[0])
        self.assertEqual(os.read(process.stdout.fileno(), 100), b"[0] name? ")
        out, _ = process.communicate("you\n", timeout=DEADLINE)
        self.assertEqual(out, "hello you\n[0] bye\n")

    def test_a_program_that_is_not_found_is_looked_for_with_a_hint(self):
        self.write("here.sh", "#!/bin/sh\n", 0o755)
        _, err = self.launch("here.sh", code=66, cwd=self.folder.name)
        self.assertEqual(err, "sounder: error: here.sh: cannot be started: No such file or directory in PATH; write it with its folder: ./here.sh\n")
        _, err = self.launch("there.sh", code=66, cwd=self.folder.name)
        self.assertEqual(err, "sounder: error: there.sh: cannot be started: No such file or directory in PATH\n")
        lost = self.write("lost.sh", "#!/nothing\n", 0o755)
        _, err = self.launch(lost, code=66)
        self.assertEqual(err, f"sounder: error: {lost}: cannot be started: No such file or directory: the interpreter in its first line, or its loader\n")

    def test_a_container_without_dev_null_is_named(self):
        container = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$@"', "sh"]
        if subprocess.run([*container, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace of its own without root")
        run = subprocess.run([*container, SOUNDER, "launch", "--standalone", "-n", "2", "true"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((run.returncode, run.stderr), (71, "sounder: error: cannot open /dev/null, the stdin of rank 0: No such file or directory\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
