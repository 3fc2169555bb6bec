"""sounder top: a run on the screen, in a pseudo-terminal and as text.

Usage: test_top.py PATH_OF_SOUNDER [unittest arguments]
"""
import fcntl, json, os, pty, re, select, shutil, signal, struct, subprocess, sys, termios, unittest

from runs import DEADLINE, OWN_SESSION, SOUNDER, RunCase, children_of, wait_until

LONG = ["--data", "synthetic:1x8x8:400:100", "--model", "linear 10", "--clients", "4", "--rounds", "1000000", "--workers", "2",
        "--checkpoint-every", "0", "--device", "cpu", "--quiet"]
MODULE = os.path.join(os.path.dirname(SOUNDER), "sounder_top.so")


class Top(RunCase):
    def top(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "top", *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def write_run(self, name, rounds, begun="2026-11-22T01:18:15.123Z"):
        os.makedirs(self.path(name))
        with open(self.path(name, "config.yaml"), "w") as file:
            file.write("data: somewhere\nmodel: lenet\nrounds: 8\nseed: 7\n")
        lines = [{"type": "start", "time": begun, "workers": 2}]
        for round in range(1, rounds + 1):
            for client in range(5):
                lines.append({"type": "client", "round": round, "client": client, "rank": client % 2, "samples": 10 * client, "seconds": client / 8})
            lines.append({"type": "round", "round": round, "train_loss": 2 / round, "test_loss": 1 / round, "test_accuracy": round / 10,
                          "seconds": 2, "eval_seconds": 1, "samples": 100, "samples_per_second": 50, "barrier_wait_seconds": [0.5, 0],
                          "workers_lost": int(round == 2), "updates_refused": 0, "down_bytes_total": 2e6, "up_bytes_total": 5e5, "simulated_seconds_total": 33})
        with open(self.path(name, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.write('{"type":"round","round":')  # the next line, under way

    def test_one_screen_tells_how_far_how_good_and_who(self):
        self.write_run("run", 4)
        lines = self.top("run", "--once").splitlines()
        self.assertEqual(lines[0], "sounder top  run  fedavg lenet somewhere seed 7")
        self.assertEqual(lines[1], "round 4/8 [" + 14 * "#" + 14 * "." + "]  50%  stopped  12 s")
        self.assertEqual(lines[2], "accuracy 40.00%  best 40.00% in round 4  test loss 0.2500  training 0.5000")
        self.assertEqual(lines[3:5], [" accuracy   -*@", " test loss @-."])
        self.assertRegex(lines[7], r"^   0  - +25\.0% +3 +80$")  # clients 0, 2, 4: 60 samples in 0.75 s
        self.assertRegex(lines[8], r"^   1  - +0\.0% +2 +80$")
        self.assertEqual(lines[10:], ["slowest clients  #4 0.500 s (40)  #3 0.375 s (30)  #2 0.250 s (20)",
                                      "50 samples/s  workers lost 1  updates refused 0", "sent 2.5 MB, both ways  simulated 33 s"])

    def test_a_round_in_which_nobody_arrived_has_no_training_loss(self):
        self.write_run("run", 0)
        with open(self.path("run/metrics.jsonl"), "w") as file:
            for number, loss in ((1, 0.75), (2, None)):
                file.write(json.dumps({"type": "round", "round": number, "train_loss": loss, "test_loss": 0.5, "test_accuracy": 0.5}) + "\n")
        self.assertRegex(self.top("run", "--once"), r"(?m)^accuracy 50.00%  best 50.00% in round 1  test loss 0.5000$")

    def test_tests_before_another_figure_are_not_judged_by_it(self):
        self.write_run("run", 2)
        def round(number, accuracy, loss):
            line = {"type": "round", "round": number, "train_loss": 1, "test_loss": loss, "seconds": 1, "barrier_wait_seconds": [0]}
            return {**line, "test_accuracy": accuracy} if accuracy else line
        def write(figures):
            with open(self.path("run/metrics.jsonl"), "w") as file:
                for start, rounds in figures:
                    file.writelines(json.dumps(line) + "\n" for line in [{"type": "start", "figure": start, "workers": 1}, *rounds])
            return self.top("run", "--once")
        told = write([("test_accuracy", [round(1, 0.9, 0.5)]), ("test_loss", [round(2, 0.8, 0.6)])])
        self.assertIn("loss 0.6000  best 0.6000 in round 2", told)
        told = write([("test_loss", [round(1, 0.1, 0.5)]), ("test_accuracy", [])])  # no test yet
        self.assertNotIn("best", told)
        told = write([("test_accuracy", [round(1, None, 0.5)]), ("test_accuracy", [round(2, None, 0.6)])])  # no hits: the loss
        self.assertIn("loss 0.6000  best 0.5000 in round 1", told)

    def once_in(self, columns, run):
        """The lines that --once prints on a terminal so wide."""
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([SOUNDER, "top", run, "--once"], cwd=self.folder.name, stdout=child, timeout=DEADLINE, check=True)
        os.close(child)
        told = b""
        try:
            while piece := os.read(parent, 65536):
                told += piece
        except OSError:  # everybody has closed the terminal
            pass
        os.close(parent)
        return told.decode().splitlines()

    def test_a_narrow_terminal_shows_all_figures_and_no_broken_letter(self):
        self.write_run("läuft", 400)
        lines = self.once_in(40, "läuft")
        self.assertLessEqual(max(map(len, lines)), 40)
        self.assertEqual(lines[0], "sounder top  läuft  fedavg lenet somewhe")
        self.assertRegex(lines[1], r"^round 400/8 (\[#+\])? *5000%  stopped  0:20:00$")
        self.assertEqual(" ".join(" ".join(lines[2:5]).split()), "accuracy 4000.00% best 4000.00% in round 400 test loss 0.0025 training 0.0050")
        self.assertIn("updates refused 0", lines)
        self.assertLessEqual(max(map(len, self.once_in(9, "läuft"))), 9)

    def test_clients_of_other_nodes_are_no_ranks_of_this_machine(self):
        self.write_run("run", 0)
        lines = [{"type": "start", "workers": 1, "nodes": 3}]
        lines += [{"type": "client", "round": 1, "client": client, "node": client % 3, "rank": 0, "samples": 10, "seconds": 1} for client in range(7)]
        lines += [{"type": "round", "round": 1, "seconds": 2, "barrier_wait_seconds": [0.5]}]
        with open(self.path("run/metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        told = self.top("run", "--once")
        self.assertRegex(told, r"(?m)^rank  now     waited  clients .*\n   0  - +25.0% +3 .*\n2 other nodes +4$")

    def test_without_a_name_it_is_the_run_that_runs_or_the_last_that_began(self):
        self.write_run("runs/a", 1, "2026-11-22T03:00:00.000Z")
        self.write_run("runs/b", 1, "2026-11-22T02:00:00.000Z")
        told = self.top("--once")
        self.assertIn("sounder top  runs/a  ", told)
        self.assertIn("\nno run below runs/ is running; sounder top FOLDER shows one elsewhere\n", told)
        folder = os.open(self.path("runs/b"), os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        told = self.top("--once")
        os.close(folder)
        self.assertIn("sounder top  runs/b  ", told)
        self.assertIn("  running  ", told)
        self.assertNotIn("no run below", told)

    def test_a_killed_worker_is_gone_and_the_others_have_memory(self):
        process = self.start(*LONG, "--out", "run")
        self.wait_for_round("run", 2)
        self.assertRegex(self.top("run", "--once"), r"(?m)^   1  (runs|waits) .* MB +\d+\.\d s( +#\d)?$")
        for pid in children_of(process.pid):
            with open(f"/proc/{pid}/cmdline") as file:
                if file.read().split("\0")[2] == "1":
                    os.kill(pid, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: re.search(r"(?m)^   1  GONE ", self.top("run", "--once"))))
        self.assertRegex(self.top("run", "--once"), r"(?m)^   0  (runs|waits) ")

    def test_the_jobs_of_the_phase_and_who_trains_which_client_are_seen_as_they_go(self):
        process = self.start("--data", "synthetic:1x28x28:4000:100", "--model", "2nn", "--batch-size", "10", "--clients", "4", "--rounds",
                             "100000", "--workers", "2", "--checkpoint-every", "0", "--device", "cpu", "--quiet", "--out", "run")
        self.wait_for_round("run", 1)
        for seen in r"^round \d+ trains: [0-4] of 4 done$", r"^   0 .* s  #[0-3]$", r"^   1 .* s  #[0-3]$":
            self.assertTrue(wait_until(lambda: re.search("(?m)" + seen, self.top("run", "--once"))), seen)
        process.kill()
        process.wait()
        self.assertNotIn(" trains: ", self.top("run", "--once"))

    @unittest.skipUnless(os.path.exists(MODULE), "built without ncurses: there is no screen")
    def test_the_screen_follows_the_run_and_leaves_the_terminal_as_it_was(self):
        process = self.start(*LONG, "--out", "run")
        self.wait_for_round("run", 2)
        for key, rows, columns in ((b"q", 24, 80), (b"\x03", 10, 40)):
            with self.subTest(key):
                parent, child = pty.openpty()
                fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                before = termios.tcgetattr(child)
                top = subprocess.Popen([SOUNDER, "top", "run"], cwd=self.folder.name, stdin=child, stdout=child, **OWN_SESSION,
                                       env={**os.environ, "TERM": "xterm"})
                self.started.append(top)
                self.seen = b""
                rounds = lambda: [int(number) for number in re.findall(rb"round (\d+)/1000000", self.read(parent))]
                self.assertTrue(wait_until(lambda: rounds() and b"q quits" in self.seen))
                self.assertRegex(self.seen, rb"\d%")
                shown = len(self.seen)
                self.assertTrue(wait_until(lambda: len(self.read(parent)) > shown + 20))  # what changes is drawn anew
                os.write(parent, key)
                self.assertEqual(top.wait(timeout=DEADLINE), 0)
                self.assertTrue(wait_until(lambda: b"\x1b[?1049l" in self.read(parent)))  # back to what was there before
                self.assertEqual(termios.tcgetattr(child), before)
                os.close(parent)
                os.close(child)
        self.assertIsNone(process.poll(), "the run goes on")

    @unittest.skipUnless(os.path.exists(MODULE) and shutil.which("bash"), "there is no screen, or no shell with job control")
    def test_ctrl_z_leaves_the_screen_to_the_shell_until_fg(self):
        self.write_run("run", 4)
        shell, parent = pty.fork()
        if shell == 0:
            os.chdir(self.folder.name)
            os.execvpe("bash", ["bash", "--norc", "-i"], {"PATH": os.environ["PATH"], "TERM": "xterm", "PS1": "ready> ", "HOME": self.folder.name})
        self.addCleanup(os.close, parent)
        self.addCleanup(lambda: (os.kill(shell, signal.SIGKILL), os.waitpid(shell, 0)))
        fcntl.ioctl(parent, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""
        def answer(typed, expected):
            self.seen = b""
            os.write(parent, typed)
            self.assertTrue(wait_until(lambda: expected in self.read(parent)), self.seen)
        answer(f"{SOUNDER} top run\n".encode(), b"q quits")
        answer(b"\x1a", b"Stopped")
        answer(b"fg\n", b"q quits")
        answer(b"q", b"ready> ")

    def read(self, parent):
        while select.select([parent], [], [], 0)[0]:
            self.seen += os.read(parent, 65536)
        return self.seen

    def test_the_folder_of_a_sweep_is_a_line_for_each_run(self):
        self.write_run("sweep/lr=0.1", 4)
        self.write_run("sweep/" + 30 * "x" + ",seed=2", 8)
        os.makedirs(self.path("sweep/none"))
        lines = self.top("sweep/", "--once").splitlines()
        self.assertEqual(lines, ["sounder top  sweep  2 runs: 0 finished, 0 running, 2 neither",
                                 f"{'lr=0.1':29} [#####.....]  50%  stopped   40.00%", "~" + 21 * "x" + ",seed=2 [##########] 100%  stopped   80.00%"])
        self.start(*LONG, "--out", "sweep/now")
        wait_until(lambda: re.search(r"(?m)^now +\[.*running .*ETA", self.top("sweep", "--once")))
        self.assertTrue(self.top("sweep", "--once").splitlines()[1].startswith("now"))

    def test_only_the_screen_loads_ncurses(self):
        told = subprocess.run(["ldd", SOUNDER], text=True, capture_output=True).stdout
        self.assertNotIn("curses", told)

    def test_refusals_name_what_to_write_instead(self):
        self.assertIn("error: runs cannot be opened", self.top("--once", code=66))
        self.assertIn("error: none: there is no run; give the folder of one (train's --out)", self.top("none", "--once", code=66))
        self.write_run("run", 1)
        self.assertIn("error: sounder top: needs one run alone", self.top("run", "run", code=64))
        self.assertIn("--onc: unknown option; did you mean --once?", self.top("run", "--onc", code=64))
        self.assertRegex(self.top("run", code=69), "error: (sounder top needs a terminal|the screen of sounder top cannot be loaded).*; sounder top --once prints")
        os.remove(self.path("run/metrics.jsonl"))
        self.assertIn("error: run/metrics.jsonl cannot be read", self.top("run", "--once", code=66))


if __name__ == "__main__":
    unittest.main(argv=["test_top.py"] + sys.argv[2:], verbosity=2)
