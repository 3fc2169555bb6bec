"""sounder launch from outside: what the ranks get, what is printed, how it ends.

Usage: test_launch.py PATH_OF_SOUNDER [unittest arguments], for example `Gloo` for the runs of PyTorch's process groups
Every launch is a child with a deadline. Ranks tell what they see by printing it, and that they live by their pid.
"""
import collections, os, pty, re, signal, socket, subprocess, sys, tempfile, time, unittest

from runs import SLOWED, SOUNDER, alive, wait_until

DEADLINE = 180 * SLOWED  # importing PyTorch four times on a busy machine takes most of a minute


def lines_of_ranks(text):
    """{rank: [line, ...]} of the lines "[rank] line"; a line of another form is an error."""
    lines = collections.defaultdict(list)
    for line in text.splitlines():
        rank, content = re.fullmatch(r"\[(\d+)\] (.*)", line).groups()
        lines[int(rank)].append(content)
    return dict(lines)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-launch-")
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self, *arguments, **settings):
        # What a shell in the background or under nohup ignores, its children would ignore, too.
        def listen():
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
        environment = {key: value for key, value in os.environ.items()
                       if key != "OMP_NUM_THREADS" and not key.startswith(("PET_", "TORCH")) and not key.endswith(("RANK", "WORLD_SIZE"))}
        more = {"stdin": settings.pop("stdin", subprocess.DEVNULL)}
        environment.update(settings, TMPDIR=self.folder.name)
        process = subprocess.Popen(
            [SOUNDER, "launch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
            preexec_fn=listen, **more
        )
        self.started.append(process)
        return process

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def launch(self, *arguments, code=0, **settings):
        return self.finish(self.start(*arguments, **settings), code)

    def read_files(self, *names):
        """The contents of files that the ranks are writing, once all are there; for ranks that do not end."""
        self.assertTrue(wait_until(lambda: all(os.path.exists(self.path(name)) for name in names)), names)
        contents = []
        for name in names:
            self.assertTrue(wait_until(lambda: os.path.getsize(self.path(name)) > 0), name)
            with open(self.path(name)) as file:
                contents.append(file.read())
        return contents


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
            os.write(terminal, b"\x03")
            shown = b""
            while b"[0] interrupted" not in shown:
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
        command = [SOUNDER, "launch", "-n", "2", program]
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
        process.send_signal(signal.SIGINT)
        self.finish(process, code=130)

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
        out, _ = self.launch("-n", "1", "sh", "-c", f"setsid sleep 30 & echo $! >{self.folder.name}/pid; echo done")
        self.assertEqual(out, "[0] done\n")
        os.kill(int(self.read_files("pid")[0]), signal.SIGKILL)

    def test_a_reader_that_stands_still_does_not_make_the_launcher_deaf(self):
        script = f"trap '' TERM; echo $$ >{self.folder.name}/pid; exec yes"
        process = self.start("-n", "1", "sh", "-c", script)
        pid = int(self.read_files("pid")[0])
        time.sleep(0.3)  # nobody reads: the pipes and the console fill up; if they have not, the test is only easier
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertTrue(wait_until(lambda: not alive(pid)))
        self.assertTrue(wait_until(lambda: process.poll() is not None))

    def test_when_the_reader_goes_the_ranks_go_on_and_the_launcher_says_so(self):
        script = f"until [ -e {self.path('gone')} ]; do sleep 0.01; done; for i in 1 2 3; do echo $i; done; echo done >{self.path('done')}"
        process = self.start("-n", "1", "sh", "-c", script)
        process.stdout.close()
        self.write("gone", "")
        self.assertEqual(process.wait(timeout=DEADLINE), 74)
        self.assertEqual(self.read_files("done"), ["done\n"])
        self.assertIn("standard output cannot be written: Broken pipe", process.stderr.read())
        process.stdout = open(os.devnull)  # for communicate

    def test_output_that_a_full_disk_swallows_is_an_error_with_its_reason(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([SOUNDER, "launch", "-n", "2", "echo", "lost"], stdout=full, stderr=subprocess.PIPE,
                                 text=True, timeout=DEADLINE)
        self.assertEqual(run.returncode, 74)
        self.assertIn("standard output cannot be written: No space left on device; --log-dir", run.stderr)


class Meeting(LaunchTest):
    """Launchers of several nodes, all of them on this machine."""

    def setUp(self):
        super().setUp()
        self.port = free_port()

    def node(self, rank, *arguments, **settings):
        """One that touches a file where it starts a rank."""
        program = ["sh", "-c", f"echo $RANK of $WORLD_SIZE; : >{self.path(f'started-{rank}')}"]
        return self.start(*f"--node-rank {rank} --master-addr 127.0.0.1 --master-port {self.port}".split(), *arguments, *program, **settings)

    def connect(self):
        """To node 0, as soon as it waits."""
        connected = []

        def try_it():
            try:
                connected.append(socket.create_connection(("127.0.0.1", self.port)))
            except OSError:
                pass
            return connected
        self.assertTrue(wait_until(try_it))
        return connected[0]

    def end(self, nodes, code, sentence):
        for process in nodes:
            _, err = self.finish(process, code)
            self.assertRegex(err, rf"^sounder: error: {sentence}\n$")
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("started")], [])

    def test_ranks_start_when_the_launchers_of_all_nodes_are_there(self):
        late = [self.node(rank, "-n", "2", "--nnodes", "3") for rank in (2, 0)]
        time.sleep(0.3)
        self.assertEqual(os.listdir(self.folder.name), [])
        for process, first in zip([*late, self.node(1, "-n", "2", "--nnodes", "3")], (4, 0, 2)):
            out, _ = self.finish(process)
            self.assertEqual(sorted(out.splitlines()), [f"[{rank}] {rank} of 6" for rank in (first, first + 1)])

    def test_launchers_that_were_not_started_alike_end_with_a_sentence_that_names_both(self):
        for first, second, sentence in (
                ("-n 2 --nnodes 2", "-n 1 --nnodes 2", r"--nnodes 2 --nproc-per-node 2, but node 1 \(127.0.0.1\) with --nnodes 2 --nproc-per-node 1"),
                ("-n 1 --nnodes 2", "-n 1 --nnodes 3", r"--nnodes 2 --nproc-per-node 1, but node 1 \(127.0.0.1\) with --nnodes 3 --nproc-per-node 1"),
                ("-n 1 --nnodes 3", "-n 1 --nnodes 2", r"--nnodes 3 --nproc-per-node 1, but node 1 \(127.0.0.1\) with --nnodes 2 --nproc-per-node 1")):
            with self.subTest(sentence):
                nodes = [self.node(0, *first.split()), self.node(1, *second.split())]
                self.end(nodes, 64, f"node 0 was started with {sentence}; give all the same")

    def test_two_launchers_of_one_number_end_and_so_does_the_third(self):
        nodes = [self.node(rank, "--nnodes", "4") for rank in (0, 2, 2)]
        self.end(nodes, 64, r"--node-rank 2: two launchers were started with it \(127.0.0.1 and 127.0.0.1\); number them")

    def test_who_waits_in_vain_says_for_whom(self):
        self.end([self.node(rank, "--nnodes", "3", "--meet-seconds", "1") for rank in (0,)], 75,
                 "--nnodes 3: node 1 has not come within 1 s; start `sounder launch --nnodes 3 --node-rank 1` there, or raise --meet-seconds")
        self.end([self.node(1, "--nnodes", "3", "--meet-seconds", "0.5")], 75, r"--nnodes 3 --master-addr 127.0.0.1 --master-port \d+: node 0 "
                 "was not there within 0.5 s; start `sounder launch --nnodes 3 --node-rank 0` there, or raise --meet-seconds")

    def test_strangers_at_the_port_are_sent_away(self):
        first = self.node(0, "--nnodes", "2")
        strangers = [self.connect() for _ in range(3)]
        strangers[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        strangers[1].sendall(b"sounder launch: node 1 of 2 with 1 ranks and more\n")
        for process in (first, self.node(1, "--nnodes", "2")):
            self.finish(process)
        for stranger in strangers:
            stranger.close()

    def test_silent_strangers_do_not_keep_a_launcher_out(self):
        first = self.node(0, "--nnodes", "3")
        strangers = [self.connect() for _ in range(2 * 16 + 3)]  # twice as many as there are places
        strangers[0].settimeout(DEADLINE)
        self.assertEqual(strangers[0].recv(1), b"")  # the oldest made room
        strangers[-1].setblocking(False)
        self.assertRaises(BlockingIOError, strangers[-1].recv, 1)  # ... for the youngest
        for process in (first, self.node(1, "--nnodes", "3"), self.node(2, "--nnodes", "3")):
            self.finish(process)
        for stranger in strangers:
            stranger.close()

    def test_a_stranger_that_says_nothing_is_sent_away_while_there_is_room(self):
        first = self.node(0, "--nnodes", "2")
        with self.connect() as stranger:
            stranger.sendall(b"sounder launch: node")  # and never the rest
            stranger.settimeout(DEADLINE)
            self.assertEqual(stranger.recv(1), b"")
        self.assertIsNone(first.poll())
        first.kill()

    def in_own_hosts(self, *command):
        """The same command where /etc/hosts is a file of ours."""
        return ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.path("hosts"), *command]

    def test_a_name_of_node_0_that_is_not_known_yet_is_waited_for(self):
        self.write("hosts", "")
        if subprocess.run(self.in_own_hosts("true"), capture_output=True).returncode != 0:
            self.skipTest("no namespace for an /etc/hosts of its own")
        self.write("hosts", "127.0.0.1 sounder-node-0.invalid\n")
        if subprocess.run(self.in_own_hosts("getent", "ahosts", "sounder-node-0.invalid"), capture_output=True).returncode != 0:
            self.skipTest("names are not looked up in /etc/hosts here")
        self.write("hosts", "")
        launch = f"launch --nnodes 2 --node-rank 1 --master-addr sounder-node-0.invalid --master-port {self.port}".split()

        def start(*arguments):
            self.started.append(subprocess.Popen(self.in_own_hosts(SOUNDER, *launch, *arguments, "true"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            return self.started[-1]
        _, err = self.finish(start("--meet-seconds", "0.3"), 69)
        self.assertRegex(err, r"^sounder: error: --master-addr sounder-node-0.invalid: .* \(asked for 0.3 s: --meet-seconds\); give the name or address of node 0\n$")
        nodes = [start(), self.node(0, "--nnodes", "2")]
        time.sleep(0.5)
        self.assertEqual([process.poll() for process in nodes], [None, None])
        self.write("hosts", "127.0.0.1 sounder-node-0.invalid\n")
        for process in nodes:
            self.finish(process)

    def test_a_port_of_another_program_is_no_place_to_meet(self):
        with socket.create_server(("", self.port)) as other:
            self.end([self.node(0, "--nnodes", "2")], 69, rf"--master-port {self.port}: cannot be opened: Address already in use; give another to all launchers")
            second = self.node(1, "--nnodes", "2", "--meet-seconds", "2")
            connection, _ = other.accept()
            self.assertEqual(connection.recv(1000), b"sounder launch: node 1 of 2 with 1 ranks\n")
            connection.close()
            self.end([second], 75, r".*: who is there has no answer for node 1; start `sounder launch --nnodes 2 --node-rank 0` there, or give another port to all")

    def test_a_signal_ends_the_wait_and_the_others(self):
        first, second = self.node(0, "--nnodes", "3"), self.node(1, "--nnodes", "3")
        self.connect().close()
        first.send_signal(signal.SIGTERM)
        self.finish(first, 128 + signal.SIGTERM)
        if second.poll() is None:  # it had not come yet, and now nobody is there
            second.send_signal(signal.SIGINT)
        second.communicate(timeout=DEADLINE)
        self.assertIn(second.returncode, (75, 128 + signal.SIGINT))
        self.assertEqual(os.listdir(self.folder.name), [])


GLOO = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10 ** dist.get_rank()])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "sum", total.item())
if os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ.get("FAIL_AT") and dist.get_rank() == 2:
    os._exit(3)
dist.barrier()
"""


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True).returncode == 0


class Gloo(LaunchTest):
    @classmethod
    def setUpClass(cls):
        if not has_torch():
            print("skipped: no PyTorch for", sys.executable)
            sys.exit(77)

    def test_four_ranks_of_a_script_sum_over_gloo_also_after_a_restart(self):
        program = self.write("program.py", GLOO)
        arguments = ["-n", "4", "--standalone", "--max-restarts", "1", "--grace-seconds", "5"]
        out, err = self.launch(*arguments, program, PYTHON_EXEC=sys.executable, FAIL_AT="0")
        for rank in range(4):
            expected = f"rank {rank} of 4 local {rank} sum 1111"
            self.assertEqual(lines_of_ranks(out)[rank], [expected, expected])
        self.assertIn("exited with code 3", err)
        self.assertIn("sounder: warning: restart 1 of 1\n", err)

    def test_two_launches_on_one_host_are_two_nodes(self):
        program = self.write("program.py", GLOO)
        port = free_port()
        nodes = [
            self.start(
                *f"-n 2 --nnodes 2 --node-rank {node} --master-addr 127.0.0.1 --master-port {port}".split(),
                *[sys.executable, program],
            )
            for node in (0, 1)
        ]
        for node, process in enumerate(nodes):
            out, _ = self.finish(process)
            expected = {2 * node + i: [f"rank {2 * node + i} of 4 local {i} sum 1111"] for i in (0, 1)}
            self.assertEqual(lines_of_ranks(out), expected)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
