"""sounder launch from outside: what the ranks get, what is printed, how it ends.

Usage: test_launch.py PATH_OF_SOUNDER [unittest arguments]
"""
import collections, os, pty, re, signal, socket, subprocess, sys, time, unittest

from launches import DEADLINE, LaunchTest, lines_of_ranks
from runs import SOUNDER, alive, wait_until


class Launch(LaunchTest):
    def test_every_rank_gets_the_environment_of_torchrun(self):
        script = "env | grep -E '^([A-Z_]*(RANK|WORLD_SIZE)|MASTER_.*|TORCHELASTIC_[MRU].*|TORCH_NCCL.*|ROLE_NAME|OMP_NUM_THREADS)=' | sort"
        out, _ = self.launch(
            *"--nproc-per-node 3 --nnodes=2 --node_rank 1 --master_addr localhost --master-port 29512 --meet-seconds 0".split(),
            *"--max-restarts 2 --role trainer -- sh -c".split(),
            script,
        )
        for local_rank, lines in lines_of_ranks(out).items():
            expected = {
                "LOCAL_RANK": local_rank - 3,
                "RANK": local_rank,
                "GROUP_RANK": 1,
                "ROLE_RANK": local_rank,
                "LOCAL_WORLD_SIZE": 3,
                "WORLD_SIZE": 6,
                "GROUP_WORLD_SIZE": 2,
                "ROLE_WORLD_SIZE": 6,
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": 29512,
                "TORCHELASTIC_RESTART_COUNT": 0,
                "TORCHELASTIC_MAX_RESTARTS": 2,
                "TORCHELASTIC_RUN_ID": "none",
                "TORCHELASTIC_USE_AGENT_STORE": "False",
                "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
                "ROLE_NAME": "trainer",
                "OMP_NUM_THREADS": 1,
            }
            self.assertEqual(dict(line.split("=") for line in lines), {k: str(v) for k, v in expected.items()})
        self.assertEqual(set(lines_of_ranks(out)), {3, 4, 5})

    def test_threads_are_limited_only_among_several_ranks_and_never_against_the_user(self):
        show = ["sh", "-c", "echo threads=$OMP_NUM_THREADS"]
        self.assertEqual(self.launch("-n", "2", *show)[0].count("threads=1\n"), 2)
        self.assertEqual(self.launch("-n", "1", *show)[0], "[0] threads=\n")
        self.assertEqual(self.launch("-n2", *show, OMP_NUM_THREADS="7")[0].count("threads=7\n"), 2)

    def test_standalone_chooses_a_port_and_a_name(self):
        show = ["sh", "-c", "echo $MASTER_ADDR $MASTER_PORT $TORCHELASTIC_RUN_ID"]
        address, port, run_id = self.launch("--standalone", *show)[0].split()[1:]
        self.assertEqual(address, "127.0.0.1")
        self.assertNotEqual(port, "29500")
        with socket.socket() as server:
            server.bind((address, int(port)))
        self.assertRegex(run_id, "^[0-9a-f]{16}$")
        self.assertNotEqual(self.launch("--standalone", *show)[0].split()[3], run_id)

    def test_the_options_end_where_the_program_begins(self):
        echo = self.write("echo.sh", "printf '%s\\n' \"$*\"\n")
        self.assertEqual(self.launch("-n", "1", "sh", echo, "-n", "7", "--help", "--")[0], "[0] -n 7 --help --\n")
        self.assertEqual(self.launch("-n", "1", "--", "sh", echo, "--", "-m")[0], "[0] -- -m\n")

    def test_a_py_program_runs_under_python_and_a_module_by_its_name(self):
        program = self.write("program.py", "#!/bin/sh\nprint('python', __import__('sys').argv[1:])\n", 0o755)
        self.assertEqual(self.launch(program, "a", "b")[0], "[0] python ['a', 'b']\n")
        self.assertEqual(self.launch("-m", "program", "a", PYTHONPATH=self.folder.name)[0], "[0] python ['a']\n")
        interpreter = self.write("interpreter", '#!/bin/sh\necho "with $*"\n', 0o755)
        self.assertEqual(self.launch(program, PYTHON_EXEC=interpreter)[0], f"[0] with -u {program}\n")
        shell = self.write("shell.py", "#!/bin/sh\necho shell $1\n", 0o755)
        self.assertEqual(self.launch("--no-python", shell, "a")[0], "[0] shell a\n")

    def test_a_program_that_cannot_be_started_is_named_once_and_nothing_is_left(self):
        _, err = self.launch("-n", "3", self.path("nothing"), code=66)
        self.assertRegex(err, r"^sounder: error: \S*/nothing: cannot be started: No such file or directory\n$")
        _, err = self.launch("-n", "3", self.path("nothing.py"), code=66)
        self.assertRegex(err, r"^sounder: error: \S*/nothing.py: cannot be read: No such file or directory\n$")

    def test_a_file_that_is_not_executable_is_a_script_for_python(self):
        program = self.write("program", "print('python', __import__('sys').argv[1:])\n")
        self.assertEqual(self.launch(program, "a")[0], "[0] python ['a']\n")
        _, err = self.launch("--no-python", program, code=66)
        self.assertIn("cannot be started: Permission denied", err)

    def test_stdin_is_empty_and_no_other_descriptor_is_open(self):
        with open(self.write("typed", "something\n")) as typed:
            out, _ = self.launch("-n", "2", "sh", "-c", "cat; echo $(ls /proc/self/fd)", stdin=typed)
        self.assertEqual(sorted(out.splitlines()), ["[0] 0 1 2 3", "[1] 0 1 2 3"])  # 3: the folder that ls reads

    def test_a_rank_that_is_alone_reads_what_is_typed(self):
        script = self.write("debugged.py", "value = 7\nbreakpoint()\nprint('went on')\n")
        with open(self.write("typed", "p value\nc\n")) as typed:
            out, _ = self.launch("--standalone", script, stdin=typed)
        self.assertIn("7", out)
        self.assertIn("went on", out)

    def test_a_rank_that_is_alone_reads_from_the_terminal_and_ctrl_c_reaches_it_once(self):
        script = f"""
            trap 'echo interrupted' INT
            read line; echo "read $line"; touch {self.folder.name}/read
            while :; do sleep 0.05; [ -e {self.folder.name}/end ] && exit 3; done"""
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execv(SOUNDER, [SOUNDER, "launch", "--standalone", "--", "sh", "-c", script])
        try:
            os.write(terminal, b"hello\n")
            self.assertTrue(wait_until(lambda: os.path.exists(self.path("read"))))
            shown = b""
            for key, answer in ((b"", b"[0] read hello"), (b"\x03", b"[0] interrupted")):  # the key throws away what nobody has read
                os.write(terminal, key)
                while answer not in shown:
                    shown += os.read(terminal, 4096)
            self.write("end", "")
            while True:
                try:
                    shown += os.read(terminal, 4096)
                except OSError:  # the launcher has closed it
                    break
        finally:
            os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)
        self.assertIn(b"[0] read hello", shown)
        self.assertEqual(shown.count(b"[0] interrupted"), 1)

    def test_the_output_of_some_ranks_can_be_kept_from_the_console(self):
        out, _ = self.launch("-n", "3", "--local-ranks-filter", "0,2", "sh", "-c", "echo here")
        self.assertEqual(sorted(out.splitlines()), ["[0] here", "[2] here"])

    def test_the_message_in_a_failed_ranks_error_file_is_told(self):
        script = """
            [ $RANK = 1 ] || exec sleep 300
            printf %s '{"message": {"message": "ValueError: no\\n such thing", "extraInfo": {}}}' >$TORCHELASTIC_ERROR_FILE
            exit 5"""
        _, err = self.launch("-n", "2", "sh", "-c", script, code=5)
        self.assertRegex(err, r"rank 1 \(pid \d+\) exited with code 5: ValueError: no  such thing; the other ranks are stopped")

    def test_a_failure_on_several_machines_says_how_the_ranks_were_counted(self):
        _, err = self.launch("-n", "2", "--nnodes", "2", "--node-rank", "0", "--meet-seconds", "0", "false", code=1)
        self.assertIn("WORLD_SIZE is 4 here, --nnodes 2 x 2 ranks: all machines need the same number", err)

    def test_lines_of_many_ranks_never_mix(self):
        program = self.write(
            "lines.py",
            "import os, sys\n"
            "rank = os.environ['RANK']\n"
            "for i in range(300):\n"
            "    for piece in (f'{i} ', rank * (i % 50), f' {rank}', '\\n'):\n"
            "        os.write(1 + i % 2, piece.encode())\n"
            "    os.write(1, (rank * 20000 + '\\n').encode()) if i % 100 == 0 else None\n",
        )
        out, err = self.launch("-n", "4", program)
        for rank in range(4):
            lines = lines_of_ranks(out)[rank]
            self.assertEqual(lines.count(str(rank) * 20000), 3)
            self.assertEqual(
                [line for line in lines if len(line) < 20000],
                [f"{i} {str(rank) * (i % 50)} {rank}" for i in range(0, 300, 2)],
            )
            self.assertEqual(
                lines_of_ranks(err)[rank], [f"{i} {str(rank) * (i % 50)} {rank}" for i in range(1, 300, 2)]
            )

    def test_lines_of_both_streams_never_mix_on_one_terminal(self):
        program = self.write(
            "lines.py",
            "import os\n"
            "for i in range(40):\n"
            "    for stream in (1, 2):\n"
            "        os.write(stream, (str(stream) * (1 if i % 2 else 30000) + '\\n').encode())\n",
        )
        command = [SOUNDER, "launch", "--standalone", "-n", "2", program]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)
        self.assertEqual(run.returncode, 0)
        expected = collections.Counter({length * stream: 20 for length in (1, 30000) for stream in "12"})
        for rank, lines in lines_of_ranks(run.stdout).items():
            self.assertEqual(collections.Counter(lines), expected, f"rank {rank}")

    def when_all_listen(self, ranks, failing):
        """A condition of the ranks' script, behind its trap: true for the rank that shall fail, once all have come so far."""
        return (f": >{self.path('listens')}.$RANK; [ $RANK = {failing} ] && "
                f"until [ $(ls {self.folder.name} | grep -c '^listens') = {ranks} ]; do sleep 0.01; done")

    def test_the_failure_of_a_rank_is_reported_and_stops_the_others(self):
        script = f"""
            trap 'echo asked; exit 0' TERM
            {self.when_all_listen(4, 2)} && {{ echo last words >&2; exit 3; }}
            while :; do sleep 0.05; done"""
        out, err = self.launch("-n", "4", "sh", "-c", script, code=3)
        self.assertEqual(lines_of_ranks(out), {0: ["asked"], 1: ["asked"], 3: ["asked"]})
        self.assertRegex(
            err,
            r"^\[2\] last words\nsounder: error: rank 2 \(pid \d+\) exited with code 3; the other ranks are stopped\n$",
        )

    def test_the_exit_code_is_that_of_the_first_failure_not_of_those_it_brings_about(self):
        script = f"trap 'exit 9' TERM; {self.when_all_listen(4, 1)} && exit 5; while :; do sleep 0.05; done"
        _, err = self.launch("-n", "4", "sh", "-c", script, code=5)
        self.assertEqual(err.count("error:"), 1)
        self.assertIn("rank 1 ", err)

    def test_of_two_failures_the_earlier_one_is_the_cause(self):
        # Both deaths wait for the launcher, who is stopped meanwhile; the later one has the lower rank.
        script = f"""
            echo $$ >{self.folder.name}/pid.$RANK
            echo ready
            while [ ! -e {self.folder.name}/end.$RANK ]; do sleep 0.01; done
            exit $((RANK + 10))"""
        process = self.start("-n", "2", "sh", "-c", script)
        for _ in range(2):  # whoever passes on what both have printed watches both
            self.assertIn("ready", process.stdout.readline())
        pids = [int(text) for text in self.read_files("pid.0", "pid.1")]
        process.send_signal(signal.SIGSTOP)
        for rank in (1, 0):
            self.write(f"end.{rank}", "")
            self.assertTrue(wait_until(lambda: not alive(pids[rank])))
        process.send_signal(signal.SIGCONT)
        _, err = self.finish(process, code=11)
        self.assertIn("rank 1 ", err)

    def test_a_rank_killed_by_a_signal_is_named_with_it(self):
        _, err = self.launch("-n", "2", "sh", "-c", "[ $RANK = 0 ] && kill -SEGV $$; sleep 60", code=128 + 11)
        self.assertRegex(err, r"rank 0 \(pid \d+\) was killed by SIGSEGV; the other ranks are stopped")
        _, err = self.launch("-n", "1", "sh", "-c", "kill -35 $$", code=128 + 35)  # a real-time signal
        self.assertRegex(err, r"rank 0 \(pid \d+\) was killed by signal 35\n")

    def test_who_does_not_listen_to_sigterm_is_killed_after_the_grace_time(self):
        script = f"trap '' TERM; {self.when_all_listen(2, 0)} && exit 7; while :; do sleep 0.05; done"
        _, err = self.launch("-n", "2", "--grace-seconds", "0.2", "sh", "-c", script, code=7)
        self.assertRegex(err, r"warning: rank 1 \(pid \d+\) has not ended within 0.2 s and is killed\n")

    def test_after_a_failure_all_ranks_start_again_as_often_as_allowed(self):
        script = """
            echo attempt $TORCHELASTIC_RESTART_COUNT
            [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0
            [ $RANK = 0 ] && exit 4
            exec sleep 60"""
        out, err = self.launch("-n", "2", "--max-restarts", "3", "sh", "-c", script)
        self.assertEqual(lines_of_ranks(out)[0], ["attempt 0", "attempt 1", "attempt 2"])
        self.assertEqual(err.count("rank 0 "), 2)
        self.assertIn("sounder: warning: restart 2 of 3\n", err)
        out, err = self.launch("-n", "2", "--max-restarts", "1", "sh", "-c", script, code=4)
        self.assertEqual(lines_of_ranks(out)[0], ["attempt 0", "attempt 1"])
        self.assertIn("sounder: warning: restart 1 of 1\n", err)

    def test_logs_get_what_redirects_and_tee_send_there(self):
        script = f"""
            echo out $RANK; echo err $RANK >&2
            touch {self.folder.name}/printed.$TORCHELASTIC_RESTART_COUNT.$RANK
            [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit
            until [ $(ls {self.folder.name}/printed.0.* | wc -l) = 3 ]; do sleep 0.05; done
            exit 1"""
        logs = self.path("some/logs")
        streams = ["--log-dir", logs, "-r", "0:3,1:1", "-t", "2:2"]
        out, err = self.launch("-n", "3", "--max-restarts=1", *streams, "sh", "-c", script)
        self.assertEqual(lines_of_ranks(out), {2: ["out 2", "out 2"]})
        self.assertEqual(err.count("[1] err 1\n"), 2)
        self.assertEqual(err.count("[2] err 2\n"), 2)
        self.assertNotIn("[0]", err)
        (run,) = os.listdir(logs)
        self.assertRegex(run, "^none_......$")
        self.assertIn(f"sounder: the ranks' log files: {logs}/{run}\n", err)
        for attempt in ("attempt_0", "attempt_1"):
            files = {}
            for folder, _, names in os.walk(os.path.join(logs, run, attempt)):
                for name in names:
                    with open(os.path.join(folder, name)) as file:
                        files[os.path.join(os.path.basename(folder), name)] = file.read()
            expected = {"0/stdout.log": "out 0\n", "0/stderr.log": "err 0\n", "1/stdout.log": "out 1\n"}
            self.assertEqual(files, {**expected, "2/stderr.log": "err 2\n"})

    def test_a_log_folder_alone_gets_everything_and_without_one_there_is_one(self):
        out, _ = self.launch("-n", "1", "--log-dir", self.path("logs"), "sh", "-c", "echo a; printf 'no end'")
        self.assertEqual(out, "[0] a\n[0] no end\n")
        (run,) = os.listdir(self.path("logs"))
        with open(self.path(f"logs/{run}/attempt_0/0/stdout.log")) as file:
            self.assertEqual(file.read(), "a\nno end")
        out, err = self.launch("-n", "1", "-r", "3", "sh", "-c", "echo a; echo b >&2")
        self.assertEqual(out, "")
        folder = re.fullmatch(r"sounder: the ranks' log files: (\S+)\n", err).group(1)
        self.assertTrue(folder.startswith(self.folder.name))
        with open(f"{folder}/attempt_0/0/stderr.log") as file:
            self.assertEqual(file.read(), "b\n")
        _, err = self.launch("-n", "1", "--log-dir", "/proc/nowhere", "true", code=73)
        self.assertIn("--log-dir /proc/nowhere: cannot be made", err)
        _, err = self.launch("-n", "1", "--log-dir", self.path("logs"), "--rdzv-id", "a/b", "true", code=64)
        self.assertIn("--rdzv-id a/b: names the folder of the log files, too; give it without /", err)

    def check_handed_on(self, number):
        name = signal.Signals(number).name[3:]
        script = f"""
            trap 'echo got {name}; exit 0' {name}
            echo $$ >{self.folder.name}/{name}.$RANK
            while :; do sleep 0.05; done"""
        process = self.start("-n", "2", "--max-restarts", "5", "sh", "-c", script)
        self.read_files(f"{name}.0", f"{name}.1")
        process.send_signal(number)
        out, err = self.finish(process, code=128 + number)
        self.assertEqual(lines_of_ranks(out), {0: [f"got {name}"], 1: [f"got {name}"]})
        self.assertEqual(err, "")

    def test_signals_are_handed_on_and_decide_the_exit_code(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self.check_handed_on(number)

    def test_the_warnings_of_a_batch_system_are_handed_on_and_nobody_ends(self):
        script = f"""
            trap "echo usr1; echo 1 >{self.folder.name}/usr1.$RANK" USR1; trap 'echo usr2; exit 0' USR2
            echo $$ >{self.folder.name}/pid.$RANK
            while :; do sleep 0.05; done"""
        process = self.start("-n", "2", "sh", "-c", script)
        self.read_files("pid.0", "pid.1")
        process.send_signal(signal.SIGUSR1)
        self.read_files("usr1.0", "usr1.1")
        process.send_signal(signal.SIGUSR2)
        out, err = self.finish(process)
        self.assertEqual(lines_of_ranks(out), {0: ["usr1", "usr2"], 1: ["usr1", "usr2"]})
        self.assertEqual(err, "")

    def test_a_second_signal_kills_at_once(self):
        script = f"""
            trap 'touch {self.folder.name}/asked' INT
            echo $$ >{self.folder.name}/pid
            while :; do sleep 0.05; done"""
        process = self.start("-n", "1", "sh", "-c", script)
        self.read_files("pid")
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("asked"))))
        self.signal_again(process, signal.SIGINT)
        self.finish(process, code=130)

    def signal_again(self, process, number):
        """Until one counts as another request: those that follow the first closely are its echo."""
        def has_ended():
            process.send_signal(number)
            return process.poll() is not None
        self.assertTrue(wait_until(has_ended))

    def test_two_signals_at_once_are_one_request_and_leave_the_ranks_their_time(self):
        """GNU timeout signals its child and then its own process group; two numbers, since the kernel joins signals of one."""
        script = f"""
            trap 'sleep 0.1; echo saved; exit 0' TERM HUP
            echo $$ >{self.folder.name}/pid.$RANK; while :; do sleep 0.02; done"""
        process = self.start("-n", "2", "sh", "-c", script)
        self.read_files("pid.0", "pid.1")
        for number in (signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertIn(process.returncode, (128 + signal.SIGTERM, 128 + signal.SIGHUP), out + err)
        self.assertEqual(sorted(out.splitlines()), ["[0] saved", "[1] saved"])

    def test_a_killed_launcher_leaves_no_rank(self):
        script = f"trap '' TERM HUP INT; echo $$ >{self.folder.name}/pid.$RANK; while :; do sleep 0.05; done"
        process = self.start("-n", "3", "sh", "-c", script)
        pids = [int(text) for text in self.read_files("pid.0", "pid.1", "pid.2")]
        self.assertTrue(all(map(alive, pids)))
        process.kill()
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))))

    def test_what_a_rank_started_ends_with_it(self):
        script = "sleep 300 & echo $!"
        pid = int(self.launch("-n", "1", "sh", "-c", script)[0].split()[1])
        self.assertTrue(wait_until(lambda: not alive(pid)))

    def test_a_daemon_that_keeps_the_pipe_open_does_not_keep_the_launcher(self):
        # It tells its pid when it has a session of its own: the launcher ends what is in the rank's.
        daemon = f"echo $$ >{self.path('pid')}; exec sleep {int(DEADLINE) + 60}"
        out, _ = self.launch("-n", "1", "sh", "-c", f"setsid sh -c '{daemon}' & until [ -s {self.path('pid')} ]; do sleep 0.01; done; echo done")
        self.assertEqual(out, "[0] done\n")
        os.kill(int(self.read_files("pid")[0]), signal.SIGKILL)

    def test_a_reader_that_stands_still_does_not_make_the_launcher_deaf(self):
        script = f"trap '' TERM; echo $$ >{self.folder.name}/pid; exec yes"
        process = self.start("-n", "1", "sh", "-c", script)
        pid = int(self.read_files("pid")[0])
        time.sleep(0.3)  # nobody reads: the pipes and the console fill up; if they have not, the test is only easier
        process.send_signal(signal.SIGTERM)
        self.signal_again(process, signal.SIGINT)
        self.assertTrue(wait_until(lambda: not alive(pid)))

    def test_a_rank_that_the_kernel_has_killed_for_memory_is_told_apart(self):
        # The kernel's count of such kills, in a folder of our own where its is: the rank itself raises it.
        count = "echo oom_kill $1 | tee /sys/fs/cgroup/memory/memory.oom_control >/sys/fs/cgroup/memory.events"
        self.write("count", count)
        script = f"""mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory || exit 77
            sh ./count 3; exec {SOUNDER} launch --standalone -n 1 -- sh -c 'sh ./count 4; kill -KILL $$'"""
        run = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=self.folder.name, capture_output=True, text=True, timeout=DEADLINE)
        if run.returncode in (1, 77):
            self.skipTest("only root may mount over /sys/fs/cgroup")
        self.assertRegex(run.stderr, r"rank 0 \(pid \d+\) was killed by SIGKILL by the kernel, as memory ran out \(fewer ranks need less\)\n")

    def test_when_the_reader_goes_the_ranks_go_on_and_the_launcher_says_so(self):
        # The launcher meets the broken pipe with the first line, while more are to come.
        script = f"""
            until [ -e {self.path('gone')} ]; do sleep 0.01; done
            for i in 1 2 3; do echo $i; sleep 0.2; done; echo done >{self.path('done')}"""
        process = self.start("-n", "1", "sh", "-c", script)
        process.stdout.close()
        self.write("gone", "")
        self.assertEqual(process.wait(timeout=DEADLINE), 74)
        self.assertEqual(self.read_files("done"), ["done\n"])
        self.assertIn("standard output cannot be written: Broken pipe", process.stderr.read())
        process.stdout = open(os.devnull)  # for communicate

    def test_output_that_a_full_disk_swallows_is_an_error_with_its_reason(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([SOUNDER, "launch", "--standalone", "-n", "2", "echo", "lost"], stdout=full,
                                 stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
        self.assertEqual(run.returncode, 74)
        self.assertIn("standard output cannot be written: No space left on device; --log-dir", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
