"""Trainers start as forks of one program or each by itself, survive deaths of everything, and leave output but no process behind.

Usage: test_trainer_nursery.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
SOUNDER_STORM_SEED=N: another order of what the storm kills, and when; a failed storm prints its own.
"""
import os, random, re, resource, signal, socket, sys, time, unittest
from types import SimpleNamespace

from runs import DEADLINE, ECHO_SECONDS, alive, children_of, descendants_of, is_worker, wait_until
from trainers import FAULTS, JOB, NUMPY, PACKAGE, SLEEPER, THREAD, TORCH, TrainerCase, is_guard, np, parent_of, patience, sleepers, torch

sys.path.insert(0, PACKAGE)
from sounder.trainer.link import Line
from sounder.trainer.nursery import Nursery as Forks

WRAPPER = SLEEPER + "{python} -c 'import subprocess; subprocess.Popen([\"setsid\", \"sleep\", \"1001\"])'\n{python} {script}\n"

# A trainer that has processes of its own while it trains: a pool, and a loader that leaves the process group.
LOADERS = '''
import multiprocessing, subprocess
def work(number):
    return number
def with_loaders(turn):
    if turn.trains and not turn.rehearsal:
        pool = multiprocessing.Pool(2)
        pool.map(work, range(4))
        subprocess.Popen(["setsid", "sleep", "1002"])
'''


class Nursery(TrainerCase):
    def begin(self, run, *arguments, script="trainer.py", command=None, slow=0.02, rounds=6):
        command = command or f"{sys.executable} {script}"
        return self.start(*JOB, "--trainer", command, "--trainer-option", f"slow={slow}", "--rounds", str(rounds), "--quiet", "--out", run,
                          "--on-worker-death", "respawn", *arguments)

    def log(self, run):
        with open(self.path(run, "trainer.log")) as file:
            return file.read()

    def gone(self, pids):
        self.assertTrue(wait_until(lambda: not any(map(alive, pids))), [pid for pid in pids if alive(pid)])

    # Forks ------------------------------------------------------------------------------------------------------------

    def test_forks_and_starts_of_their_own_give_the_same_bits_on_any_number_of_workers(self):
        for start in ("fork", "each"):
            for workers in ("1", "2", "3"):
                self.run_with(f"{start}-{workers}", "--trainer-start", start, "--workers", workers, "--algorithm", "scaffold")
        self.assertEqual(len({self.model(f"{start}-{workers}") for start in ("fork", "each") for workers in "123"}), 1)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_forks_of_pytorch_give_the_same_bits_with_products_that_are_worth_threads(self):
        self.write("net.py", TORCH + "sounder.serve(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.BatchNorm1d(512), "
                   "nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), train, test)\n")
        for start, workers in (("fork", "1"), ("fork", "2"), ("each", "2")):
            self.run_with(f"{start}-{workers}", "--trainer-start", start, "--workers", workers, "--rounds", "1", "--batch-size", "40",
                          script="net.py")
        self.assertEqual(self.model("fork-1"), self.model("each-2"))
        self.assertEqual(self.model("fork-2"), self.model("each-2"))

    def test_the_program_runs_once_and_rehearses_a_turn_of_two_batches_twice_and_a_test_in_halves(self):
        self.write("trainer.py", "print('starts')\n" + NUMPY.replace("    velocity = {}", "    velocity = {}\n    print(turn.rehearsal, turn.client, turn.samples)"))
        self.run_with("fork")
        self.assertEqual(self.log("fork").splitlines()[:3], ["nursery: starts"] + 2 * ["nursery: True 0 20"])
        self.assertEqual(self.log("fork").count("starts"), 1)
        self.assertEqual(re.findall(r"nursery: True None (\d+)", self.log("fork")), 3 * ["30"])
        self.run_with("each", "--trainer-start", "each")
        self.assertEqual(sorted(line for line in self.log("each").splitlines() if "starts" in line),
                         ["nursery: starts", "rank 0: starts", "rank 1: starts"])
        self.assertEqual(sorted(line for line in self.log("each").splitlines() if "True" in line),
                         2 * ["nursery: True 0 20"] + 3 * ["nursery: True None 30"] + ["rank 0: True 0 20", "rank 1: True 0 20"])

    def test_what_a_program_keeps_from_turn_to_turn_is_named_before_round_1(self):
        serve = "\nsounder.serve({'w': np.zeros(2, np.float32)}, train, test)\n"
        for name, first, body in (("counter", "seen = [0]", "seen[0] += 1; net['w'] += seen[0]"), ("draws", "rng = np.random.default_rng(1)", "net['w'] += rng.random()")):
            self.write("keeps.py", f"import sys\nsys.path.insert(0, PACKAGE)\nimport numpy as np, sounder\n{first}\ndef train(net, turn):\n    {body}\n    turn.add(1.0, 20)\n"
                       f"def test(net, turn):\n    turn.add(1.0, turn.samples)" + serve)
            _, err = self.run_with(name, "--rounds", "1", script="keeps.py")
            wanted = {"counter": "seen", "draws": "rng (numpy's Generator)"}[name]
            self.assertRegex(err, rf"warning: --trainer .*keeps.py trained a rehearsed turn \(client 0\) to other weights when it was asked again: it uses {re.escape(wanted)} of before")
            self.assertEqual(err.count("warning"), 1)

    def test_a_program_that_cannot_be_forked_starts_for_each_worker_and_says_why(self):
        obstacles = {"threads": (THREAD, "has 2 threads"),
                     "children": ("import subprocess\nsubprocess.Popen(['sleep', '1003'])\n", "has processes of its own")}
        self.run_with("sound")
        for name, (text, sentence) in obstacles.items():
            with self.subTest(name=name):
                self.write("obstacle.py", text + NUMPY)
                _, err = self.run_with(name, "--log-level", "info", script="obstacle.py")
                self.assertIn("--trainer-start each, because the trainer cannot be forked: it " + sentence, err)
                self.assertEqual(self.bits(name), self.bits("sound"))

    def test_a_program_that_fails_in_its_rehearsal_ends_the_run_with_its_exception(self):
        self.write("fails.py", NUMPY.replace("    velocity = {}", "    velocity = no_such_name"))
        _, err = self.run_with("fails", script="fails.py", code=69)
        self.assertIn("in its rehearsal (client 0): NameError: name 'no_such_name' is not defined; what it printed is in fails/trainer.log", err)
        self.assertIn("Traceback (most recent call last)", err)
        self.assertEqual(os.listdir(self.path("fails")), ["trainer.log"])
        self.run_with("fails")  # the folder is free

    def test_a_program_that_needs_a_whole_client_rehearses_with_one(self):
        self.write("whole.py", NUMPY.replace("    velocity = {}", "    velocity = {}\n    if turn.trains: assert turn.samples > 20, 'too few samples'"))
        self.run_with("sound")
        _, err = self.run_with("whole", script="whole.py")
        self.assertEqual((err, self.bits("whole")), ("", self.bits("sound")))
        self.assertEqual(self.log("whole").count("AssertionError: too few samples"), 1)

    def test_a_program_that_wants_its_test_whole_rehearses_none_if_a_part_fails(self):
        self.write("whole.py", NUMPY.replace("turns(net)", "turns(net, whole_test=True)").replace("    velocity = {}", "    velocity = {}\n    if not turn.trains: assert turn.samples == len(turn.y)"))
        self.run_with("sound")
        _, err = self.run_with("whole", script="whole.py")
        self.assertEqual((err, self.bits("whole")), ("", self.bits("sound")))

    def test_the_nursery_closes_what_it_does_not_understand_and_a_fork_says_itself_what_goes_wrong(self):
        requests, asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own, parent = socket.socketpair()
        fork, worker = socket.socketpair()
        desk = SimpleNamespace(weights=np.zeros(4, np.float32), parts={"weights": 0, "bytes": 4096})
        nursery = Forks(requests.detach(), Line(own.detach()), desk)
        before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(asking, [b'{"other":1}'], [0, 1])
        self.assertFalse(nursery._answer())
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        pid = os.fork()
        if pid == 0:
            try:  # a socket cannot be mapped as a desk
                nursery._become(os.getppid(), fork.detach(), os.dup(2), asking.fileno(), os.dup(2))
            except OSError as problem:
                nursery.line.send(error=str(problem))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        fork.close()
        self.assertIn(b"a trainer's desk cannot be mapped", worker.recv(1000))
        nursery.line.socket.close()
        self.assertEqual(parent.recv(1000), b"")
        for end in (nursery.requests, asking, parent, worker):
            end.close()

    def test_a_log_that_another_program_made_is_not_deleted(self):
        os.makedirs(self.path("run"))
        for text in ("", "precious\n"):
            for arguments in (["--trainer", f"{sys.executable} trainer.py"], ["--model", "linear 10"]):
                with open(self.path("run/trainer.log"), "w") as file:
                    file.write(text)
                self.train(*JOB, *arguments, "--init", "nowhere", "--out", "run", code=66)
                with open(self.path("run/trainer.log")) as file:
                    self.assertTrue(file.read().startswith(text))

    # Deaths -----------------------------------------------------------------------------------------------------------

    def test_a_dead_nursery_is_followed_by_another_with_the_same_bits(self):
        self.run_with("calm", "--rounds", "6")
        process = self.begin("storm")
        self.wait_for_round("storm", 1)
        first = self.nursery(process)
        self.assertEqual(len(first), 1)
        forks = self.trainers(process)
        self.assertTrue(forks)
        self.kill(first)
        self.gone(forks)
        _, err = self.finish(process)
        self.assertIn("the nursery of trainers has ended", err)
        self.assertEqual(self.bits("storm"), self.bits("calm"))

    def test_a_nursery_that_dies_three_times_in_a_row_is_given_up_with_the_same_bits(self):
        self.run_with("calm", "--rounds", "20")
        process = self.begin("run", "--log-level", "info", rounds=20, slow=0.1)
        self.wait_for_round("run", 1)
        def each():
            self.kill(self.nursery(process))
            return any(is_guard(pid) and is_worker(parent_of(pid)) for pid in descendants_of(process.pid))
        self.assertTrue(wait_until(each))
        _, err = self.finish(process)
        self.assertIn("--trainer-start each, because the trainer cannot be forked", err)
        self.assertEqual(self.bits("run"), self.bits("calm"))

    def test_a_storm_over_everything_and_a_resume_cost_no_bit(self):
        seed = int(os.environ.get("SOUNDER_STORM_SEED", "1"))
        draw, said = random.Random(seed), []
        self.run_with("calm", "--rounds", "12")
        process = self.begin("storm", rounds=12, slow=0.15)
        self.wait_for_round("storm", 1)
        victims = {"trainer": self.trainers, "worker": lambda process: children_of(process.pid), "nursery": self.nursery,
                   "guard": lambda process: [pid for pid in descendants_of(process.pid) if is_guard(pid)], "parent": lambda process: [process.pid]}
        end = time.monotonic() + 12
        while time.monotonic() < end and process.poll() is None:
            time.sleep(draw.uniform(0.1, 0.8))
            kind = draw.choice(["trainer"] * 4 + ["worker"] * 2 + ["nursery", "guard", "parent"])
            found = victims[kind](process)
            below = descendants_of(process.pid)
            if found and self.kill([draw.choice(found)]):
                said.append(kind)
                if kind == "parent":
                    said.append(process.communicate(timeout=DEADLINE)[1])
                    self.gone(below)
                    process = self.start("--resume", "storm", "--quiet")
        self.assertTrue(said, f"seed {seed}: the run ended before anything was killed")
        said.append(process.communicate(timeout=DEADLINE)[1])
        for _ in range(3):  # a client that was hit too often has ended the run
            if not os.path.exists(self.path("storm", "model.safetensors")):
                said.append(self.start("--resume", "storm", "--quiet").communicate(timeout=DEADLINE)[1])
        self.assertTrue(os.path.exists(self.path("storm", "model.safetensors")), (seed, said))
        self.assertEqual(self.bits("storm"), self.bits("calm"), (seed, said))

    def test_the_record_has_each_fault_and_the_restarts_of_a_round(self):
        self.run_with("run", "--trainer-option", "fault=exit once=true")
        faults = [line for line in self.metrics("run") if line["type"] == "trainer_fault"]
        self.assertEqual([(line["round"], line["client"], line["what"]) for line in faults],
                         [(1, 1, "it ended with exit code 3 and without an answer")])
        self.assertGreaterEqual(faults[0]["seconds"], 0)
        self.assertEqual([line["trainer_restarts"] for line in self.rounds("run")], [1, 0])
        self.train("--resume", "run", "--rounds", "3", "--quiet")
        self.assertEqual(len([line for line in self.metrics("run") if line["type"] == "trainer_fault"]), 1)

    def test_a_trainer_that_is_killed_from_outside_gets_more_tries_than_one_that_fails(self):
        self.run_with("calm", "--rounds", "1")
        self.write("waits.py", NUMPY.replace("    velocity = {}\n", """    velocity = {}
    if turn.client == 1 and turn.trains:
        with open("begun", "a") as file:
            file.write("x")
        if os.path.getsize("begun") <= 3: time.sleep(1000)
"""))
        process = self.begin("killed", "--workers", "1", script="waits.py", rounds=1)
        for number in (1, 2, 3):
            self.assertTrue(wait_until(lambda: os.path.exists(self.path("begun")) and os.path.getsize(self.path("begun")) == number))
            trainers = self.kill(self.trainers(process), signal.SIGTERM)
            self.assertEqual(len(trainers), 1)
            self.gone(trainers)
        self.finish(process)
        self.assertEqual([(line["round"], line["client"]) for line in self.metrics("killed") if line["type"] == "trainer_fault"], 3 * [(1, 1)])
        self.assertEqual(self.bits("killed"), self.bits("calm"))

    # What is left behind ----------------------------------------------------------------------------------------------

    def end(self, process, how):
        """Ends the run, and returns what was below it."""
        below = descendants_of(process.pid)
        if how == "interrupt":
            self.stop(process, signal.SIGINT)
        elif how == "twice":
            process.send_signal(signal.SIGINT)
            time.sleep(1.5 * ECHO_SECONDS)
            self.assertIsNone(process.poll(), "the first signal only asks")
            process.send_signal(signal.SIGINT)
            self.finish(process, 128 + signal.SIGINT)
        elif how == "group":  # as a batch system ends a job: every process of it
            self.kill([process.pid, *below], signal.SIGTERM)
            self.finish(process, 128 + signal.SIGTERM)
        elif how == "parent":
            process.kill()
            self.finish(process, -signal.SIGKILL)
        else:
            self.assertTrue(self.kill(children_of(process.pid)[:1]))
            self.stop(process, signal.SIGTERM)
        return below

    def test_wrappers_and_loaders_leave_no_process_behind(self):
        self.write("loaders.py", NUMPY.replace("for turn in sounder.turns(net):", LOADERS + "\nfor turn in sounder.turns(net):\n    with_loaders(turn)"))
        with open(self.path("run.sh"), "w") as file:
            file.write(WRAPPER.format(python=sys.executable, script="loaders.py"))
        for start in ("fork", "each"):
            for how in ("interrupt", "twice", "group", "worker", "parent"):
                with self.subTest(start=start, how=how):
                    run = f"{start}-{how}"
                    slow = 1000 if how == "twice" else 0.1  # the first signal waits for the turns, the second does not
                    process = self.begin(run, "--trainer-start", start, command="sh run.sh", rounds=1000, slow=slow)
                    if how == "twice":
                        self.assertTrue(wait_until(lambda: len(sleepers(descendants_of(process.pid), 1002)) == 2), "no turn of two")
                    else:
                        self.wait_for_round(run, 1)
                        self.assertTrue(wait_until(lambda: len(descendants_of(process.pid)) >= 12))
                    self.gone(self.end(process, how))
                    self.gone(descendants_of(os.getpid()))
        self.run_with("whole", script="loaders.py")
        self.gone(descendants_of(os.getpid()))

    # Output -----------------------------------------------------------------------------------------------------------

    def test_what_trainers_print_is_in_the_log_line_by_line_with_its_rank(self):
        self.write("talks.py", NUMPY.replace("    velocity = {}", "    velocity = {}\n    print('one', end=' '); print('two'); print('error', file=sys.stderr)\n"
                   "    if turn.round == 2: os.write(1, b'no end')"))
        out, err = self.run_with("run", script="talks.py")
        self.assertEqual((out, err), ("", ""))
        lines = self.log("run").splitlines()
        self.assertTrue(all(line.startswith(("nursery: ", "rank 0: ", "rank 1: ")) for line in lines), lines)
        self.assertEqual(sum(line.endswith("one two") for line in lines), 5 + 2 * 5)  # five rehearsals
        self.train("--resume", "run", "--rounds", "3", "--quiet")
        self.assertGreater(len(self.log("run").splitlines()), len(lines))

    def test_the_last_exception_is_shown_when_a_trainer_ends_the_run(self):
        _, err = self.run_with("run", "--trainer-option", "fault=raise", code=69)
        self.assertEqual(len(re.findall(r"(?m)^rank \d: Traceback \(most recent call last\)", err)), 1, err)
        self.assertEqual(err.count("sounder: error: "), 1, err)
        self.assertNotIn(PACKAGE, err)  # the user's lines alone
        self.assertRegex(err, r"rank \d: ValueError: the loss has no bottom\nsounder: error: .*\n$")
        self.assertIn("what it printed is in run/trainer.log", err)
        self.assertEqual(self.log("run").count("ValueError: the loss has no bottom"), 2)

    def test_no_library_says_farewell(self):
        farewell = "class Farewell:\n    def __del__(self, write=__import__('os').write): write(2, b'leaked function\\n' * 40)\nfarewell = Farewell()\n"
        self.write("trainer.py", farewell + "import atexit, os\natexit.register(lambda: print('its own end'))\n" + NUMPY)
        for start in ("fork", "each"):
            self.run_with(start, "--trainer-start", start)
            self.assertNotIn("leaked", self.log(start))
            self.assertIn("its own end", self.log(start))
        _, err = self.run_with("fails", "--trainer-option", "fault=raise", code=69)
        self.assertNotIn("leaked", err)
        self.assertRegex(err, r"rank \d: ValueError: the loss has no bottom\nsounder: error: .*\n$")
        self.assertEqual((err.count("ValueError: "), err.count("warning")), (2, 0), err)  # the exception, and the sentence

    def test_a_full_disk_under_the_log_is_one_warning(self):
        self.write("talks.py", NUMPY.replace("    velocity = {}", "    velocity = {}\n    if turn.trains and not turn.rehearsal: print(('x' * 99 + '\\n') * 60000)"))
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.run_with("sound")
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, limit[1]))
        try:
            _, err = self.run_with("full", script="talks.py")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assertEqual(err.count("trainer.log cannot be written"), 1)
        self.assertTrue(self.log("full").endswith("\n"))
        self.assertEqual(self.bits("full"), self.bits("sound"))

    # Faults -----------------------------------------------------------------------------------------------------------

    def test_a_fault_that_repeats_ends_the_run_with_its_sentence(self):
        for fault, sentence in FAULTS:
            with self.subTest(fault=fault):
                _, err = self.run_with(fault, *patience(fault), "--trainer-option", f"fault={fault}", code=69)
                self.assertRegex(err.splitlines()[-1], rf"error: --trainer, client 1 in round 1: .*{sentence}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
