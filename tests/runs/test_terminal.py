"""What a person at a terminal, and a shell's pipe, see of a run: the moving line, the answer to Ctrl-C, lost outputs.

Usage: test_terminal.py PATH_OF_SOUNDER [unittest arguments]
"""
import fcntl, os, pty, re, resource, select, signal, struct, subprocess, sys, termios, time, unittest

from runs import (DEADLINE, ECHO_SECONDS, ENDLESS, OWN_SESSION, SANITIZED, SLOWED, SMALL, SOUNDER, TEST, TRAIN, RunCase, children_of,
                  merged, state_of, wait_until)

LONG = [*SMALL, "--workers", "2", "--local-epochs", "5000" if SANITIZED else "1000"]  # a round of minutes


class Terminal(RunCase):
    def start_on_terminal(self, *arguments, command="train", term="xterm", columns=80, **more):
        """A run on a terminal of its own, whose screen self.read_until reads."""
        environment = {**os.environ, **more.pop("env", {}), "TERM": term or ""}
        if term is None:
            del environment["TERM"]
        self.screen, terminal = pty.openpty()
        self.addCleanup(os.close, self.screen)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([SOUNDER, command, *merged(*arguments)], cwd=self.folder.name, env=environment, **OWN_SESSION,
                                   **{"stdin": terminal, "stdout": terminal, "stderr": terminal, **more})
        os.close(terminal)
        self.started.append(process)
        self.seen = ""
        return process

    def read_until(self, pattern, seconds=60):
        """Reads the screen until the pattern is seen; None: to its end."""
        end = time.monotonic() + seconds * SLOWED
        while pattern is None or not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.screen], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"{pattern} was never seen, but: {self.seen}")
            try:
                self.seen += os.read(self.screen, 65536).decode()
            except OSError:  # everybody has closed the terminal
                self.assertIsNone(pattern, f"{pattern} was never seen, but: {self.seen}")
                return self.seen
        return self.seen

    # The moving line -------------------------------------------------------------------------------------------------

    def test_a_line_moves_within_the_terminals_width_and_leaves_nothing_behind(self):
        moves = r"(round 1/1[^\r\n]*?)\x1b\[K\r"
        for columns in (40, 80):
            # Long enough for several of the five looks a second, also where nothing else runs.
            process = self.start_on_terminal(*SMALL, "--workers", "2", "--local-epochs", "15", "--rounds", "1", "--out", str(columns),
                                             columns=columns)
            self.read_until(None)
            self.assertEqual(process.wait(DEADLINE), 0)
            moving = re.findall(moves, self.seen)
            self.assertTrue(moving, self.seen)
            self.assertLess(max(map(len, moving)), columns)
            self.assertRegex(self.seen, r"\r\x1b\[Kround 1/1  loss \d")

    def test_a_sweep_has_one_line_that_moves_and_says_when_it_ends(self):
        process = self.start_on_terminal(*SMALL, "--rounds", "8", "--seed", "1..2", "--workers", "1", "--out", "sweep",
                                         command="sweep", columns=60)
        self.read_until(None)
        self.assertEqual(process.wait(DEADLINE), 0)
        moving = re.findall(r"(\d of 2 done[^\r\n]*?)\x1b\[K\r", self.seen)
        self.assertRegex("\n".join(moving), r"(?m)^\d of 2 done, (1 runs|2 run): (\d+% ?)+ ETA \d+ s$")
        self.assertLess(max(map(len, moving)), 60)
        self.assertRegex(self.seen, r"\r\x1b\[K\[1/2\]")

    def test_a_terminal_that_obeys_no_escapes_gets_none(self):
        for term in ("dumb", "", None):
            process = self.start_on_terminal(*SMALL, "--workers", "2", "--local-epochs", "5", "--rounds", "1", "--out",
                                             f"run-{term}", term=term)
            self.read_until(None)
            self.assertEqual(process.wait(DEADLINE), 0)
            self.assertNotIn("\x1b", self.seen)
            self.assertNotIn("[#", self.seen)
            self.assertRegex(self.seen, r"round 1/1  loss \d")

    def test_the_moving_line_stays_on_the_terminal_when_stdout_goes_elsewhere(self):
        with open(self.path("log"), "w") as log:
            process = self.start_on_terminal(*SMALL, "--workers", "2", "--local-epochs", "15", "--rounds", "1", "--out", "run",
                                             stdout=log)
        self.read_until(r"round 1/1  \[")
        self.assertEqual(process.wait(DEADLINE), 0)
        with open(self.path("log")) as log:
            text = log.read()
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"\nround 1/1  loss \d")

    def test_many_workers_are_counted(self):
        process = self.start_on_terminal(*LONG, "--clients", "20", "--workers", "17", "--out", "run", columns=120)
        self.read_until(r"ranks 17 T\b")
        process.kill()

    def test_the_fixed_lines_fit_into_79_columns(self):
        out, _ = self.train(*SMALL, "--workers", "2", "--out", "run")
        self.assertLessEqual(max(map(len, out.splitlines())), 79, out)
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^Sounder \d+\.\d+\.\d+: fedavg, lenet 21,840 weights, 2 workers, 8 clients, \w+$")
        self.assertRegex(lines[1], rf"^synthetic\S*: {TRAIN:,} training \+ {TEST:,} test samples  ->  run$")
        self.assertRegex(lines[-1], r"^go on: sounder train --resume run --rounds 6$")
        out, _ = self.train(*SMALL, "--clients", "1", "--workers", "1", "--rounds", "1", "--out", "one")
        self.assertIn(" 1 worker, 1 client, ", out)
        self.assertRegex(out, r"\n\d+\.\d\d% after 1 round, ")

    # Help and errors -------------------------------------------------------------------------------------------------

    def test_help_is_wrapped_to_the_terminal_and_to_80_columns_elsewhere(self):
        for topic in ([], ["train"], ["train", "-h"], ["eval"], ["launch"], ["nodes"], ["models"]):
            words = None
            for columns, least, most in ((76, 55, 76), (80, 60, 80), (200, 60, 100), (None, 60, 80)):
                if columns:
                    self.start_on_terminal(*topic, command="help", columns=columns, env={"PAGER": "cat"})
                    lines = self.read_until(None).split("\r\n")
                else:
                    lines = subprocess.run([SOUNDER, "help", *topic], capture_output=True, text=True).stdout.split("\n")
                self.assertLessEqual(max(map(len, lines)), most, topic)
                self.assertGreater(max(map(len, lines)), least, topic)
                words = words or " ".join(lines).split()
                self.assertEqual(words, " ".join(lines).split(), "only blanks differ")

    def test_help_that_is_longer_than_the_screen_goes_through_a_pager(self):
        def shown(*topic, **more):
            self.start_on_terminal(*topic, command="help", **more)
            return self.read_until(None).split("\r\n")
        plain = shown("train", env={"PAGER": "cat"})
        self.assertGreater(len(plain), 24)
        marked = ["> " + line for line in plain[:-1]] + [""]
        mark = "sed 's/^/> /'"
        self.assertEqual(shown("train", env={"PAGER": mark}), marked)
        self.assertEqual(shown("train", env={"PAGER": "false", "SOUNDER_PAGER": mark}), marked)
        self.assertEqual(shown("train", env={"PAGER": mark, "SOUNDER_PAGER": ""}), plain)
        self.assertEqual(shown("train", env={"PAGER": mark}, term="dumb"), plain)
        self.assertEqual(shown("train", env={"PAGER": "head -n 1"}), [plain[0], ""])  # who leaves early has seen enough
        self.assertEqual([line for line in shown("train", env={"PAGER": "/nowhere/pager"}) if "/nowhere" not in line], plain)
        self.assertEqual(shown("train", "-h", env={"PAGER": mark})[0][:6], "Usage:")  # it fits
        out = subprocess.run([SOUNDER, "help", "train"], env={**os.environ, "PAGER": mark}, capture_output=True, text=True).stdout
        self.assertEqual(out.split("\n"), plain)

    def test_an_error_is_red_on_a_terminal_unless_colours_are_not_wanted(self):
        for wish, coloured in (("", True), ("1", False)):
            os.environ["NO_COLOR"] = wish
            self.start_on_terminal("--rounds", "0")
            self.assertEqual("\x1b[31merror:\x1b[0m --rounds 0" in self.read_until(None), coloured, self.seen)
        del os.environ["NO_COLOR"]

    def test_a_mistake_in_a_text_is_shown_on_a_terminal_alone(self):
        data = ["--data", "synthetic:1x8x8:64:16"]
        for option, text, word in (("--model", "conv 10 5; foo 3; relu", "foo"), ("--algorithm", "fedavg; server adm", "adm"),
                                   ("--partition", "dirichlet alhpa=3", "alhpa=3"), ("--attack", "sign-flip 3 4", "4"),
                                   ("--data", "synthetic-fedprox alhpa=3", "alhpa=3")):
            with self.subTest(option):
                self.start_on_terminal(*data, option, text)
                lines = self.read_until(None).split("\r\n")
                at = lines[1].index(word)
                self.assertEqual((lines[1][:2 + len(text)], lines[2:]), ("  " + text, [" " * at + "^" * len(word), ""]), lines)
                _, err = self.train(*data, option, text, "--quiet", code=64)
                self.assertEqual(err.count("\n"), 1)

    # Signals ---------------------------------------------------------------------------------------------------------

    def test_ctrl_c_is_answered_at_once(self):
        process = self.start_on_terminal(*LONG, "--out", "run")
        self.read_until(r"round 1/3  \[\S*\]  +\d+%  [1-9]")
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does; workers have a group of their own
        self.read_until(r"Ctrl-C: finishing round 1, about (\d+ s|\d+:\d\d:\d\d); again: stop now and lose it\r\n")
        self.assertIsNone(process.poll())
        self.assertEqual(self.seen.count("again: stop now"), 1)
        time.sleep(ECHO_SECONDS)
        os.killpg(process.pid, signal.SIGINT)
        self.read_until(None)
        self.assertEqual(process.wait(DEADLINE), 128 + signal.SIGINT)

    def test_ctrl_z_stops_the_workers_too_and_fg_continues_them(self):
        # A process group of the test's session, which the kernel lets Ctrl-Z stop.
        process = self.start(*SMALL, "--workers", "2", *ENDLESS, "--out", "run", start_new_session=False, preexec_fn=os.setpgrp)
        self.wait_for_round("run", 1)
        everyone = [process.pid, *children_of(process.pid)]
        self.assertEqual(len(everyone), 3)
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: {state_of(pid) for pid in everyone} == {"T"}))
        process.send_signal(signal.SIGCONT)
        self.wait_for_more_rounds("run", 2)
        self.stop(process)

    def test_the_signals_of_batch_systems_and_of_a_closed_terminal_end_a_run_as_term_does(self):
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            with self.subTest(number.name):
                process = self.start(*SMALL, "--workers", "2", "--rounds", "500", "--out", number.name)
                self.wait_for_round(number.name, 1)
                process.send_signal(number)
                _, err = self.finish(process, 128 + number)
                self.assertIn(f"--resume {number.name}", err)
                self.assertFalse(os.path.lexists(self.path(number.name, "live")))

    def test_a_signal_that_was_ignored_from_the_start_stays_ignored(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            process = self.start(*SMALL, "--data", "synthetic:1x28x28:400:100", "--workers", "2", *ENDLESS, "--out", number.name,
                                 preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            self.wait_for_round(number.name, 1)
            process.send_signal(number)
            self.wait_for_more_rounds(number.name, 2)  # heard, it would end the run behind the round under way
            self.stop(process)

    # Lost outputs ----------------------------------------------------------------------------------------------------

    def test_a_lost_stdout_is_a_warning_and_the_run_goes_on(self):
        self.train(*SMALL, "--workers", "2", "--out", "calm")
        read, write = os.pipe()
        os.close(read)
        for run, stdout, reason in (("pipe", write, "Broken pipe"), ("full", os.open("/dev/full", os.O_WRONLY), "No space left")):
            result = subprocess.run([SOUNDER, "train", *SMALL, "--workers", "2", "--out", run], cwd=self.folder.name, text=True,
                                    stdout=stdout, stderr=subprocess.PIPE, timeout=DEADLINE)
            os.close(stdout)
            self.assertEqual(result.returncode, 0, result.stderr)
            told = [line for line in result.stderr.splitlines() if not line.startswith(("reading the ", "setting up the ", "starting the "))]
            self.assertRegex("\n".join(told), rf"^sounder: warning: standard output cannot be written any more \({reason}[^\n]*\Z")
            self.assertEqual(self.model("calm"), self.model(run))

    def test_a_slow_reader_of_a_pipe_that_others_have_made_non_blocking_loses_nothing(self):
        tiny = ["--data", "synthetic:1x8x8:64:16", "--model", "linear classes", "--workers", "1", "--out", "run"]
        for command, lines in ((["help", "train"], 100), (["train", *tiny, "--rounds", "120"], 120)):
            read, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
            os.set_blocking(write, False)
            process = subprocess.Popen([SOUNDER, *command], cwd=self.folder.name, stdout=write, stderr=write, **OWN_SESSION)
            self.started.append(process)
            waiting = lambda: struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, b"1234"))[0]
            self.assertTrue(wait_until(lambda: process.poll() is not None or waiting() > 3500))
            self.assertIsNone(process.poll(), "it has ended, although nobody has read what it says")
            self.assertFalse(os.get_blocking(write), "the mode is of all who share the pipe")
            os.close(write)
            with open(read) as pipe:
                told = pipe.read()
            self.assertEqual(process.wait(DEADLINE), 0, told)
            self.assertGreater(told.count("\n"), lines)
            self.assertNotIn("cannot be written", told)

    def test_a_file_that_may_not_grow_is_a_failure_with_a_sentence(self):
        process = self.start(*SMALL, "--workers", "2", "--rounds", "500", "--out", "run")
        self.wait_for_round("run", 1)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (20480, 20480))
        _, err = self.finish(process, 74)
        self.assertRegex(err, "sounder: error: .*File too large")

    def test_help_and_pictures_keep_within_a_narrow_terminal(self):
        for columns in (44, 64):
            for command, *arguments in (["help"], ["train", "-h"], ["help", "dial"], ["runs", "-h"],
                                        ["partition", "--data", "synthetic:1x4x4:64:8", "--clients", "3"]):
                with self.subTest(command, columns=columns):
                    self.start_on_terminal(*arguments, command=command, columns=columns, env={"SOUNDER_PAGER": ""})
                    lines = self.read_until(None).splitlines()
                    self.assertGreater(len(lines), 8)
                    self.assertEqual([line for line in lines if len(line) > columns], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
