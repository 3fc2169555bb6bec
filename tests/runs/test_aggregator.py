"""Aggregators: a program of the user's combines the updates of a round; everything else stays as it is.

Usage: test_aggregator.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import json, os, shutil, signal, subprocess, sys, time, unittest

from trainers import HANG_SECONDS, LAYERS, NUMPY, PACKAGE, TrainerCase, patience, sleepers
from runs import BEYOND_ANY_MACHINE, DEADLINE, ECHO_SECONDS, NOISE_KEY, SOUNDER, alive, children_of, command_line, descendants_of, wait_until

JOB = ["--data", "synthetic:1x8x8:160:60", "--clients", "5", "--batch-size", "10", "--lr", "0.05", "--rounds", "3", "--workers", "2",
       "--quiet"]
EXAMPLE = os.path.join(PACKAGE, "examples", "aggregator.py")
os.environ["PYTHONPATH"] = PACKAGE
os.environ["SOUNDER"] = SOUNDER

# Remembers half of every update and adds noise. The second word of the command spoils round 2; `once` only the first time.
# Rounds in `held` wait for a file.
RULE = '''
import json, os, signal, sys, time
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

fault, once, held = sys.argv[1] if len(sys.argv) > 1 else "", "once" in sys.argv, (2, 5) if "held" in sys.argv else ()

def combine(updates, turn):
    half = turn.shares @ updates / 2
    step = half + turn.state[0] + 1e-4 * turn.random.normal(size=half.shape)
    turn.state[0] = half
    while turn.round in held and not os.path.exists(f"round-{turn.round}"):
        time.sleep(0.01)
    if turn.round == 2 and fault and not (once and os.path.exists("spoilt")):
        open("spoilt", "w").close()
        socket = turn._line.socket
        if fault == "die": os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hang": time.sleep(1000)
        if fault == "words": socket.sendall(b"this is no JSON\\n"); time.sleep(1000)
        if fault == "other-turn": turn._line.send(turn=77); time.sleep(1000)
        if fault == "close": socket.close(); time.sleep(1000)
        if fault == "raise": raise ValueError("these updates are odd")
        if fault == "nan": step[3] = np.nan
        if fault == "far": step[3] = 1e9
        if fault == "shape": step = step[:-1]
        if fault == "nothing": return None
        if fault == "write": updates -= 1
        if fault == "tensors": return {"fc1.weight": step}
        if fault == "turned": return {**turn.named(step), "fc2.weight": turn.named(step)["fc2.weight"].T}
    return step

sounder.aggregate(combine)
'''


class Aggregators(TrainerCase):
    def setUp(self):
        super().setUp()
        self.write("rule.py", RULE)

    def combine(self, run, command, *arguments, keeps=1, code=0, model=LAYERS):
        net = ["--model", model] if model else []
        return self.train(*JOB, *net, "--aggregator", f"{sys.executable} {command}", "--aggregator-keeps", str(keeps), "--out", run, *arguments, code=code)

    def example(self, run, rule, *arguments, keeps=0):
        return self.train(*JOB, "--model", LAYERS, "--aggregator", f"{sys.executable} {EXAMPLE} {rule}", "--aggregator-keeps", str(keeps), "--out", run, *arguments)

    def program(self, process):
        """The aggregator's own process, not its guard."""
        (pid,) = [pid for pid in descendants_of(process.pid) if command_line(pid)[1:2] == [b"rule.py"]]
        return pid

    def test_a_plan_counts_the_programs_and_leaves_nothing_of_them(self):
        given = os.listdir(self.path("."))
        out, _ = self.train(*(word for word in JOB if word != "--quiet"), "--trainer", f"{sys.executable} trainer.py", "--aggregator", f"{sys.executable} rule.py",
                            "--aggregator-keeps", "1", "--out", "run", "--plan")
        self.assertRegex(out, r"(?m)^private memory  parent [\d.]+ MB, 2 workers of [\d.]+ MB with a trainer of [\d.]+ MB each, "
                              r"the program that they are forks of [\d.]+ MB, the aggregator [\d.]+ MB$")
        self.assertIn("samples in ", out)
        self.assertEqual(os.listdir(self.path(".")), given)

    # The rules' weights -----------------------------------------------------------------------------------------------

    def test_the_example_has_the_weights_of_our_own_rules(self):
        for name, own, keeps, more in (("median", "median", 0, []), ("fedadam", "fedadam", 2, []),
                                       ("median", "median", 0, ["--attack", "alie", "--attackers", "0.2"]),
                                       ("fedadam", "fedadam", 2, ["--partition", "dirichlet", "--clients-per-round", "3", "--drop-out", "0.2"]),
                                       ("median", "fedprox mu=0.1; combine median", 0, ["--momentum", "0.9"])):
            with self.subTest(name=name, more=more):
                base = "fedprox mu=0.1" if "fedprox" in own else "fedavg"
                self.example("theirs", name, "--algorithm", base, *more, keeps=keeps)
                self.train(*JOB, "--model", LAYERS, "--algorithm", own, "--out", "ours", *more)
                self.assert_near("theirs", "ours", 1e-6)
                shutil.rmtree(self.path("theirs")), shutil.rmtree(self.path("ours"))

    def test_the_example_runs_as_its_first_lines_say(self):
        done = subprocess.run([sys.executable, EXAMPLE, self.folder.name], text=True, timeout=DEADLINE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertRegex(done.stdout, r"^fedadam: loss \d\.\d+, accuracy \d+\.\d+%\nmedian: loss \d\.\d+, accuracy \d+\.\d+%\n$")

    def test_the_server_rule_of_the_algorithm_steps_by_the_update(self):
        self.write("mean.py", "import sys; sys.path.insert(0, PACKAGE); import sounder\nsounder.aggregate(lambda updates, turn: turn.shares @ updates)\n")
        self.combine("theirs", "mean.py", "--algorithm", "fedavgm", "--partition", "dirichlet", keeps=0)
        self.train(*JOB, "--model", LAYERS, "--algorithm", "fedavgm", "--partition", "dirichlet", "--out", "ours")
        self.assert_near("theirs", "ours", 1e-6)

    def test_refused_updates_and_parts_that_stay_with_clients_are_left_out(self):
        for name, more in (("refused", ["--trainer", f"{sys.executable} trainer.py", "--trainer-option", "fault=nan"]),
                           ("personal", ["--model", "linear 12; groupnorm 3; tanh; linear classes", "--algorithm", "fedbn"]),
                           ("frozen", ["--model", LAYERS, "--freeze", "fc1*", "--algorithm", "top-k"])):
            with self.subTest(name=name):
                more += ["--partition", "dirichlet"]
                _, err = self.train(*JOB, "--aggregator", f"{sys.executable} {EXAMPLE} mean", "--out", f"their-{name}", *more)
                self.assertEqual("client 1: update refused" in err, name == "refused")
                self.train(*JOB, "--out", f"our-{name}", *more)
                self.assert_near(f"their-{name}", f"our-{name}", 1e-6)

    def test_updates_are_in_the_order_of_clients_with_what_the_run_knows_of_them(self):
        self.write("tell.py", """
import sys
sys.path.insert(0, PACKAGE)
import json, numpy as np, sounder
def combine(updates, turn):
    with open("told", "a") as file:
        file.write(json.dumps([turn.round, turn.lr, turn.clients.tolist(), turn.samples.tolist(), turn.steps.tolist(), turn.shares.tolist(),
                               turn.losses.tolist(), np.linalg.norm(updates, axis=1).tolist()]) + "\\n")
    mean = turn.named(turn.shares @ updates)
    assert list(mean) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"] and mean["fc2.weight"].shape == (10, 12)
    return mean
sounder.aggregate(combine)
""")
        self.combine("run", "tell.py", "--partition", "dirichlet", "--clients-per-round", "4", "--inspect-updates", keeps=0)
        with open(self.path("told")) as file:
            told = [json.loads(line) for line in file]
        rows = [row for row in self.metrics("run") if row["type"] == "client"]
        for number, lr, clients, samples, steps, shares, losses, lengths in told:
            own = sorted((row for row in rows if row["round"] == number), key=lambda row: row["client"])
            self.assertEqual(clients, [row["client"] for row in own])
            self.assertEqual(samples, [row["samples"] for row in own])
            self.assertEqual(steps, [-(-row["samples"] // 10) for row in own])
            self.assertAlmostEqual(lr, 0.05)
            for mine, key in ((shares, "share"), (losses, "loss"), (lengths, "update_length")):
                for value, row in zip(mine, own):
                    self.assertAlmostEqual(value, row[key], delta=1e-5 * abs(row[key]))
        self.assertEqual(len(told), 3)

    # Bits -------------------------------------------------------------------------------------------------------------

    def test_the_bits_do_not_depend_on_workers_nor_on_a_resume(self):
        for workers in "123":
            self.combine(f"workers-{workers}", "rule.py", "--workers", workers, "--partition", "dirichlet")
        self.assertEqual(len({self.model(f"workers-{workers}") for workers in "123"}), 1)
        self.combine("parts", "rule.py", "--rounds", "1", "--partition", "dirichlet")
        self.call("train", "--resume", self.path("parts"), "--rounds", "3", "--quiet", folder="/")
        self.assertEqual(self.model("parts"), self.model("workers-1"))

    def test_it_combines_the_updates_of_trainers(self):
        for workers in "12":
            self.combine(f"workers-{workers}", "rule.py", "--workers", workers, "--trainer", f"{sys.executable} trainer.py", model=None)
        self.assertEqual(self.model("workers-1"), self.model("workers-2"))

    def test_it_gets_the_figures_of_trainers(self):
        hand_in = '    if fault != "forget":'
        self.assertIn(hand_in, NUMPY)
        self.write("measures.py", NUMPY.replace(hand_in, "    if turn.trains and turn.client != 2: turn.metric(number=turn.client)\n" + hand_in))
        self.write("tell.py", """
import sys; sys.path.insert(0, PACKAGE)
import sounder
def combine(updates, turn):
    with open("told", "a") as file:
        print({name: values.tolist() for name, values in turn.metrics.items()}, file=file)
    return turn.shares @ updates
sounder.aggregate(combine)
""")
        self.combine("run", "tell.py", "--trainer", f"{sys.executable} measures.py", "--rounds", "2", model=None, keeps=0)
        with open(self.path("told")) as file:
            self.assertEqual(file.read(), 2 * "{'number': [0.0, 1.0, nan, 3.0, 4.0]}\n")

    def test_more_metrics_of_trainers_than_there_may_be_are_no_fault_of_the_aggregator(self):
        hand_in = '    if fault != "forget":'
        self.write("many.py", NUMPY.replace(hand_in, '    if turn.trains: turn.metric(**{f"of{turn.client}.{i}": 1.0 for i in range(10)})\n' + hand_in))
        _, err = self.combine("run", "rule.py", "--trainer", f"{sys.executable} many.py", model=None, code=65)
        self.assertRegex(err, r"--trainer, all turns of a phase: of\d\.\d is a metric too many; there may be 32")
        self.assertNotIn("aggregator", err)

    def test_a_fault_costs_a_try_and_no_bit(self):
        self.combine("sound", "rule.py")
        for fault, sentence in (("die", "killed by signal 9"), ("hang", f"has not said anything for {HANG_SECONDS} s"), ("words", "JSON"),
                                ("other-turn", "answered turn 77"), ("close", "closed its socket"), ("raise", "ValueError: these updates are odd"),
                                ("nan", "made nan of the update of weight 3 of fc1.weight"), ("far", "may change by less than")):
            with self.subTest(fault=fault):
                self.forget_fault()
                _, err = self.combine(fault, f"rule.py {fault} once", *patience(fault))
                self.assertIn("the aggregator failed in round 2: ", err)
                self.assertIn(sentence, err)
                self.assertEqual(self.bits(fault), self.bits("sound"))

    def test_killed_aggregators_and_workers_cost_no_bit(self):
        self.combine("calm", "rule.py", "--rounds", "8")
        for victim in (self.program, lambda process: max(children_of(process.pid))):
            process = self.start(*JOB, "--model", LAYERS, "--rounds", "8", "--aggregator", f"{sys.executable} rule.py x held", "--aggregator-keeps", "1",
                                 "--out", "storm", "--on-worker-death", "respawn")
            for number in (2, 5):
                self.wait_for_round("storm", number - 1)
                os.kill(victim(process), signal.SIGKILL)
                with open(self.path(f"round-{number}"), "w"):
                    pass
            self.finish(process)
            self.assertEqual(self.bits("storm"), self.bits("calm"))
            shutil.rmtree(self.path("storm")), os.remove(self.path("round-2")), os.remove(self.path("round-5"))

    # Faults that end the run ------------------------------------------------------------------------------------------

    def test_a_second_fault_in_a_round_ends_the_run_with_one_sentence(self):
        for fault, sentence in (("die", "it was killed by signal 9"), ("raise", "ValueError: these updates are odd"), ("nan", "it made nan of")):
            with self.subTest(fault=fault):
                _, err = self.combine(fault, f"rule.py {fault}", code=69)
                self.assertEqual(err.count("error: "), 1)
                self.assertIn(f"error: --aggregator, round 2: {sentence}", err)
                self.assertIn(f"; what it printed is in {os.path.join(fault, 'trainer.log')}", err)
                self.assertEqual(len(self.rounds(fault)), 1)
                os.remove(self.path("spoilt"))

    def test_a_mistake_that_would_be_made_again_ends_the_run_at_once(self):
        for fault, sentence in (("shape", "combine returned an array of shape (909,); return one of shape (910,)"),
                                ("nothing", "combine returned nothing"), ("tensors", "combine returned a dict without fc1.bias"),
                                ("turned", "combine returned a dict with fc2.weight of shape (12, 10); return one of shape (10, 12)")):
            with self.subTest(fault=fault):
                _, err = self.combine(fault, f"rule.py {fault}", code=69)
                self.assertIn(f"--aggregator, round 2: {sentence}", err)
                self.assertNotIn("another one", err)

    def test_the_updates_of_the_run_cannot_be_written(self):
        _, err = self.combine("write", "rule.py write", code=69)
        self.assertIn("read-only", err)

    def test_a_run_that_ended_by_its_aggregator_goes_on_with_a_better_one(self):
        self.combine("sound", "rule.py")
        self.combine("broken", "rule.py raise", code=69)
        self.write("rule.py", RULE.replace("turn.round == 2", "False"))
        _, err = self.train("--resume", "broken", "--quiet", code=65)
        self.assertIn("the files of its aggregator are not what the run began with", err)
        self.assertIn("continue with other bits: --aggregator ", err)
        _, err = self.train("--resume", "broken", "--quiet", "--aggregator", f"{sys.executable} rule.py raise")
        self.assertIn("broken continues with other files of its aggregator, whose results may differ", err)
        self.assertEqual(self.model("broken"), self.model("sound"))
        self.write("rule.py", RULE.replace("/ 2", "/ 3"))
        self.combine("third", "rule.py")
        out, _ = self.call("diff", "sound", "third", code=1)
        self.assertIn("the files of its aggregator (XXH3)", out)

    def test_an_aggregator_that_is_named_again_is_found_in_the_folder_of_the_resume(self):
        self.combine("whole", "rule.py")
        self.combine("run", "rule.py", "--rounds", "1")
        os.mkdir(self.path("elsewhere"))
        shutil.move(self.path("rule.py"), self.path("elsewhere/rule.py"))
        self.train("--resume", "run", "--rounds", "3", "--quiet", code=65)
        self.call("train", "--resume", "../run", "--rounds", "3", "--quiet", "--aggregator", f"{sys.executable} rule.py", folder="elsewhere")
        self.assertEqual(self.model("run"), self.model("whole"))

    def test_options_reach_the_program_and_are_the_runs(self):
        self.write("scaled.py", "import sys; sys.path.insert(0, PACKAGE); import sounder\nsounder.aggregate(lambda updates, turn: turn.options['scale'] * (turn.shares @ updates))\n")
        for scale in ("0.5", "1"):
            self.combine(f"run-{scale}", "scaled.py", "--aggregator-option", f"scale={scale} note=x", "--rounds", "1", keeps=0)
        self.train(*JOB, "--model", LAYERS, "--rounds", "1", "--out", "plain")
        self.assert_near("run-1", "plain", 1e-6)
        one, half, first = (self.weights(run) for run in ("run-1", "run-0.5", "plain"))
        self.assertTrue(any(abs(one[name] - half[name]).max() > 1e-4 for name in one))
        self.train("--resume", "run-0.5", "--rounds", "2", "--quiet")
        self.combine("whole", "scaled.py", "--aggregator-option", "scale=0.5 note=x", "--rounds", "2", keeps=0)
        self.assertEqual(self.model("run-0.5"), self.model("whole"))
        self.assertIn('"scale": write NAME=VALUE', self.combine("refused", "scaled.py", "--aggregator-option", "scale", keeps=0, code=64)[1])
        _, err = self.call("train", "--data", "synthetic:1x8x8:40:10", "--aggregator", "x", "--aggregator-option", "a=1", "--aggregator-option", "b=2", code=64)
        self.assertIn('given twice; give all of it at once: --aggregator-option "a=1 b=2"', err)

    def test_the_check_finds_what_an_aggregator_remembers(self):
        for name, line, finding in (("careful", "turn.random.normal(size=1)", "the aggregator repeats: after another round, in a fresh process"),
                                    ("remembers", "seen.append(0) or len(seen)", "fc1.weight of the same updates after another round: it remembers something that --resume loses"),
                                    ("draws", "np.random.default_rng().normal(size=1)", "fc1.weight of the same updates in a fresh process: its random numbers do not")):
            with self.subTest(name=name):
                self.write(f"{name}.py", "import sys; sys.path.insert(0, PACKAGE); import numpy as np, sounder\nseen = []\n"
                           f"sounder.aggregate(lambda updates, turn: turn.shares @ updates + 1e-4 * ({line}))\n")
                words = [word for word in JOB if word != "--quiet"]
                out, err = self.train(*words, "--model", LAYERS, "--aggregator", f"{sys.executable} {name}.py", "--check-trainer", "--rounds", "1", "--out", name)
                self.assertIn(finding, out + err)
        self.combine("unchecked", "careful.py", "--rounds", "1", keeps=0)
        self.assertEqual(self.model("careful"), self.model("unchecked"))  # the run begins as if it had not been checked

    def test_other_files_end_the_run_when_the_program_starts_again(self):
        for name in ("rule.py", "helper.py"):
            with self.subTest(name=name):
                self.write("helper.py", "HALF = 2\n")
                self.write("rule.py", RULE.replace("import numpy as np, sounder", "import numpy as np, sounder\nsys.path.insert(0, os.getcwd())\nimport helper")
                           .replace('if fault == "die": ', f'if fault == "die": open({name!r}, "a").write("# other\\n"); '))
                _, err = self.combine(f"run-{name}", "rule.py die once", code=69)
                self.assertIn("--aggregator, round 2: its files are not what the run began with (XXH3 ", err)
                os.remove(self.path("spoilt"))

    def test_a_program_that_is_none_is_named_before_the_first_round(self):
        self.write("trainer-only.py", "import sys; sys.path.insert(0, PACKAGE); import sounder\nsounder.serve(dict, None, None)\n")
        for command, code, sentence in (("no-such-program x", 66, "--aggregator: there is no program no-such-program"),
                                        ("python3 'x", 64, "--aggregator python3 'x: is no list of words"),
                                        (f"{sys.executable} none.py", 69, "exit code 2"),
                                        (f"{sys.executable} trainer-only.py", 69, "the program is a trainer: name it with --trainer")):
            with self.subTest(command=command):
                _, err = self.train(*JOB, "--model", LAYERS, "--aggregator", command, "--out", "none", code=code)
                self.assertIn(sentence, err)
                self.assertFalse(os.path.exists(self.path("none")))
        _, err = self.train(*JOB, "--trainer", f"{sys.executable} rule.py", "--out", "none", code=69)
        self.assertIn("the program is an aggregator: name it with --aggregator", err)

    def test_what_it_prints_is_in_the_log(self):
        self.write("talks.py", RULE.replace("def combine(updates, turn):", "def combine(updates, turn):\n    print(('round %d' % turn.round) * 9999)"))
        out, err = self.combine("talks", "talks.py")
        self.assertEqual((out, err), ("", ""))
        with open(self.path("talks", "trainer.log")) as file:
            text = file.read()
        self.assertEqual(text.count("aggregator: round 1round 1"), text.count("aggregator: round 3round 3"))
        self.assertIn("aggregator: round 3round 3", text)
        _, err = self.combine("broken", "rule.py raise", code=69)
        self.assertIn("ValueError: these updates are odd\n", err)

    def test_nothing_of_a_wrapper_is_left_behind(self):
        wrapper = self.write_wrapper("rule.py")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = self.start(*JOB, "--model", LAYERS, "--rounds", "1000", "--aggregator", wrapper, "--aggregator-keeps", "1",
                                 "--out", f"run-{int(number)}")
            self.wait_for_round(f"run-{int(number)}", 1)
            below = descendants_of(process.pid)
            self.assertTrue(sleepers(below))
            if number == signal.SIGKILL:
                process.kill()
                self.finish(process, -signal.SIGKILL)
            else:
                self.stop(process, number)
            self.assertTrue(wait_until(lambda: not any(map(alive, below))), [pid for pid in below if alive(pid)])

    def test_a_second_signal_ends_a_run_whose_aggregator_is_busy(self):
        process = self.start(*JOB, "--model", LAYERS, "--aggregator", f"{sys.executable} rule.py hang", "--aggregator-keeps", "1", "--out", "run")
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("spoilt"))))
        below = descendants_of(process.pid)
        process.send_signal(signal.SIGINT)
        time.sleep(2 * ECHO_SECONDS)
        self.assertIsNone(process.poll(), "the first signal only asks")
        process.send_signal(signal.SIGINT)
        self.finish(process, 128 + signal.SIGINT)
        self.assertTrue(wait_until(lambda: not any(map(alive, below))))

    # Refusals and records ---------------------------------------------------------------------------------------------

    def test_what_does_not_go_with_an_aggregator_is_refused_by_name(self):
        for arguments, name in ((["--algorithm", "median"], "combine median"), (["--algorithm", "fednova"], "combine nova"),
                                (["--algorithm", "mix buckets; combine median"], "combine median"), (["--algorithm", "secagg"], "secagg"),
                                (["--algorithm", "scaffold"], "scaffold"), (["--algorithm", "ssgd"], "schedule lockstep"),
                                (["--algorithm", "hogwild", "--workers", "5"], "schedule wild"), (["--algorithm", "fedbuff"], "schedule buffered"),
                                (["--algorithm", "fedbuff", "--clock", "real"], "schedule buffered"),
                                (["--client-optimizer-state", "average", "--momentum", "0.5"], "client-optimizer-state")):
            with self.subTest(arguments=arguments):
                _, err = self.combine("refused", "rule.py", *arguments, code=64)
                self.assertIn("aggregator", err)
                self.assertIn(name, err)
        _, err = self.example_refused("fedadam", "--algorithm", "fedadam")
        self.assertIn("its program has a server rule of its own, and --algorithm has server adam", err)
        _, err = self.train(*JOB, "--aggregator-keeps", "2", "--out", "refused", code=64)
        self.assertIn("only used with --aggregator", err)

    def test_updates_that_no_machine_has_room_for_are_refused_with_the_numbers(self):
        _, err = self.combine("run", "rule.py", *BEYOND_ANY_MACHINE, model=None, keeps=0, code=71)
        self.assertRegex(err, r"--aggregator \S+ rule.py has the updates of 30000 clients side by side, which take 192\d{6}\.\d MB, "
                              r"where \d+\.\d MB are available; lower --clients-per-round")

    def example_refused(self, rule, *arguments):
        return self.train(*JOB, "--model", LAYERS, "--aggregator", f"{sys.executable} {EXAMPLE} {rule}", "--aggregator-keeps", "2", "--out", "refused",
                          *arguments, code=64)

    def test_noise_joins_the_update_and_epsilon_is_not_told(self):
        private = ["--algorithm", "dp-fedavg norm=0.1 noise=0.01", "--noise-key", NOISE_KEY, "--sampling", "poisson", "--clients-per-round", "4"]
        self.example("theirs", "mean", *private)
        out, _ = self.train(*JOB[:-1], "--model", LAYERS, "--aggregator", f"{sys.executable} {EXAMPLE} mean", *private, "--out", "told")
        self.assertEqual(out.count("epsilon is not told"), 1)
        self.assertIsNone(self.rounds("theirs")[-1]["epsilon"])
        self.train(*JOB, "--model", LAYERS, *private, "--out", "ours")
        self.assert_near("theirs", "ours", 1e-6)
        repeats = [word for word in private if word not in ("--noise-key", NOISE_KEY)]
        for run, rule in (("first", "mean"), ("again", "mean"), ("other", "mean other")):  # the example reads one word
            self.example(run, rule, *repeats)
        self.assertEqual(self.model("first"), self.model("again"))
        self.assertNotEqual(self.model("first"), self.model("other"))  # the word might be a number of the rule's

    def test_the_record_says_what_combined(self):
        self.combine("run", "rule.py", "--trainer-threads", "2")
        with open(self.path("run", "config.yaml")) as file:
            config = file.read()
        for line in ("\naggregator: ", "\naggregator-keeps: 1", "\ntrainer-threads: 2"):
            self.assertIn(line, config)
        start = self.metrics("run")[0]
        self.assertEqual(start["aggregator"], f"{sys.executable} rule.py")
        self.assertEqual(os.path.realpath(start["aggregator_folder"]), os.path.realpath(self.folder.name))
        out, _ = self.train(*JOB[:-1], "--model", LAYERS, "--aggregator", f"{sys.executable} -u ./rule.py", "--aggregator-keeps", "1", "--out", "told")
        self.assertIn("fedavg with rule.py, ", out)

    def test_an_aggregator_is_a_dimension_of_a_sweep_and_an_option_of_train(self):
        code = f"""
import sys
sys.path.insert(0, {PACKAGE!r})
import sounder
same = dict(data="synthetic:1x8x8:160:60", model="softmax", clients=5, rounds=2)
both = sounder.sweep("both", {{"aggregator": [f"{{sys.executable}} {EXAMPLE} {{rule}}" for rule in ("mean", "median")]}}, **same)
print(len(both), len({{run.rows("summary")[-1]["model_sha256"] for _, run in both}}))
run = sounder.train("one", aggregator=[sys.executable, {EXAMPLE!r}, "mean"], **same)
print(run.rows("summary")[-1]["model_sha256"] in {{run.rows("summary")[-1]["model_sha256"] for _, run in both}})
"""
        done = subprocess.run([sys.executable, "-c", code], cwd=self.folder.name, text=True, timeout=DEADLINE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.stdout, "2 2\nTrue\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
