"""Whole runs of the program, as a user starts them, on small synthetic data.

Usage: test_runs.py PATH_OF_SOUNDER [unittest arguments], for example `Faults`
"""
import json, os, random, re, signal, struct, subprocess, sys, tempfile, time, unittest

from runs import (DATA, DEADLINE, ENDLESS, SANITIZED, SLOWED, SMALL, SOUNDER, TEST, TRAIN, RunCase, alive, children_of, computed_seconds,
                  parse_safetensors, segments_are_freed, segments_held, state_of, wait_until)


def naps(pids):
    """How often they have given up the processor of their own accord."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as file:
            total += int(re.search(r"(?m)^voluntary_ctxt_switches:\s*(\d+)", file.read()).group(1))
    return total


def sleeps_for_half_a_second(pids):
    if any(state_of(pid) != "S" for pid in pids):
        return False
    before = naps(pids)
    time.sleep(0.5)
    return naps(pids) - before < 20 and all(state_of(pid) == "S" for pid in pids)


class Runs(RunCase):
    # What a run gives ------------------------------------------------------------------------------------------------

    def test_a_run_learns_and_leaves_what_the_readme_says(self):
        out, _ = self.train(*SMALL, "--workers", "2", "--rounds", "6", "--lr", "0.1", "--local-epochs", "2", "--out", "run")
        self.assertEqual(len(re.findall(r"^round \d/6  loss \d", out, re.M)), 6, out)
        self.assertRegex(out, r"\nround 6/6 .*  test \d\.\d{4}  +\d+\.\d\d%  ")
        self.assertEqual(sorted(os.listdir(self.path("run"))),
                         ["best.safetensors", "checkpoints", "config.yaml", "metrics.jsonl", "model.safetensors", "tensorboard"])
        self.assertEqual(sorted(os.listdir(self.path("run", "checkpoints"))),
                         ["round-000005.safetensors", "round-000006.safetensors"])
        rounds, summary = self.rounds("run"), self.metrics("run")[-1]
        self.assertGreater(rounds[-1]["test_accuracy"], 0 if SANITIZED else 0.5)
        self.assertLess(rounds[-1]["train_loss"], rounds[0]["train_loss"])
        for entry in rounds:
            self.assertEqual(entry["samples"], 2 * TRAIN)
            self.assertAlmostEqual(entry["samples_per_second"], entry["samples"] / entry["seconds"], delta=1)
            self.assertEqual(len(entry["barrier_wait_seconds"]), 2)
            self.assertEqual(entry["workers_lost"], 0)
        clients = [entry for entry in self.metrics("run") if entry["type"] == "client" and entry["round"] == 1]
        self.assertEqual(sorted(entry["client"] for entry in clients), list(range(8)))
        self.assertEqual(sum(entry["samples"] for entry in clients), 2 * TRAIN)
        self.assertEqual(summary["type"], "summary")
        self.assertEqual(summary["model_sha256"], self.model("run"))
        self.assertEqual(summary["test_accuracy"], rounds[-1]["test_accuracy"])
        self.assertGreater(summary["cold_start_seconds"], 0)
        # What a worker has for itself: for LeNet less than the data set that all of them share.
        self.assertTrue(100_000 < summary["worker_private_bytes"] < summary["peak_memory_bytes"]["parent"], summary)

    def test_eval_of_the_model_and_of_a_checkpoint_prints_the_accuracy_of_the_run(self):
        out, _ = self.train(*SMALL, "--workers", "2", "--out", "run")
        expected = round(TEST / 100 * float(re.search(r"(?m)^(\d+\.\d\d)% after", out)[1]))
        for name in ("model.safetensors", "checkpoints/round-000003.safetensors"):
            result = subprocess.run([SOUNDER, "eval", self.path("run", name), "--data", DATA], text=True,
                                    stdout=subprocess.PIPE, timeout=DEADLINE)
            self.assertEqual(result.returncode, 0)
            self.assertIn(f"accuracy {expected}/{TEST} ", result.stdout)

    def evaluate(self, *arguments, code=0, **more):
        result = subprocess.run([SOUNDER, "eval", *arguments], cwd=self.folder.name, capture_output=True, timeout=DEADLINE, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout.decode(), result.stderr.decode()

    def write_notes(self, run, changes):
        """The run's model, its notes changed (None: taken away)."""
        with open(self.path(run, "model.safetensors"), "rb") as file:
            blob = file.read()
        (length,) = struct.unpack("<Q", blob[:8])
        header = json.loads(blob[8 : 8 + length])
        for key, value in changes.items():
            header["__metadata__"][key] = value
            if value is None:
                del header["__metadata__"][key]
        text = json.dumps(header).encode()
        with open(self.path("changed.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + blob[8 + length:])
        return "changed.safetensors"

    def test_eval_takes_data_and_seed_from_the_run_or_the_file_and_never_guesses(self):
        out, _ = self.train(*SMALL, "--workers", "2", "--seed", "5", "--out", "run")
        expected = f"accuracy {round(TEST * self.rounds('run')[-1]['test_accuracy'])}/{TEST} "
        for subject in ("run", "run/model.safetensors", "run/checkpoints/round-000003.safetensors"):
            self.assertIn(expected, self.evaluate(subject)[0])
        with open(self.path("run/model.safetensors"), "rb") as file:
            notes, _ = parse_safetensors(file.read())
        self.assertEqual((notes["sounder.data"], notes["sounder.seed"], notes["sounder.mean"], notes["sounder.stddev"]),
                         (DATA, "5", "0.1307", "0.3081"))
        silent = self.write_notes("run", {"sounder.data": None})
        _, err = self.evaluate(silent, code=64)
        self.assertIn("changed.safetensors does not say on which data it was trained; name them with --data", err)
        self.assertIn(expected, self.evaluate(silent, "--data", DATA)[0])
        _, err = self.evaluate(self.write_notes("run", {"sounder.seed": "6"}), code=65)
        self.assertIn("was trained on other data", err)
        for classes in ("1e9", "300", "11"):
            _, err = self.evaluate(self.write_notes("run", {"sounder.classes": classes}), code=64)
            self.assertIn(f"was trained for {classes} classes, but --data {DATA} has 10", err)

    def test_what_files_hold_never_reaches_the_terminal_as_a_command(self):
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "run")
        for note in ("conv \x1b]52;c;aGk=\x07", "foo\u009b31m bar", "\x7f"):
            _, err = self.evaluate(self.write_notes("run", {"sounder.model": note}), code=64)
            self.assertTrue(err.startswith("sounder: error: ") and err.endswith("\n"))
            self.assertNotRegex(err[:-1], "[\x00-\x1f\x7f-\x9f]")

    def test_a_named_pipe_is_no_experiment_file_but_a_shells_pipe_is(self):
        os.mkfifo(self.path("pipe.yaml"))
        _, err = self.train("pipe.yaml", code=66)
        self.assertIn("pipe.yaml: a named pipe", err)
        subprocess.run(["bash", "-c", f"'{SOUNDER}' train <(echo 'rounds: 1') {' '.join(SMALL[:-6])} --out run --quiet"], check=True,
                       cwd=self.folder.name, timeout=DEADLINE)

    def test_quiet_prints_nothing(self):
        out, err = self.train(*SMALL, "--workers", "1", "--quiet", "--out", "run")
        self.assertEqual((out, err), ("", ""))

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "it would run on the GPU of this machine")
    def test_who_asks_for_a_gpu_and_gets_the_cpu_is_told_why_in_one_line(self):
        """In a build without CUDA, too. The number of a GPU asks for nothing else."""
        self.assertIn("use --device cpu", self.train(*SMALL, "--workers", "1", "--gpu", "0", "--out", "run", code=69)[1])
        out, err = self.train(*SMALL, "--workers", "1", "--tf32", "--out", "run")
        self.assertEqual(out.count("device: the CPU, for "), 1, out)
        self.assertEqual(err, "")

    def test_evaluation_and_checkpoints_come_when_asked_for_and_after_the_last_round(self):
        self.train(*SMALL, "--workers", "2", "--rounds", "5", "--eval-every", "2", "--checkpoint-every", "3", "--out", "run")
        self.assertEqual([entry["test_accuracy"] is not None for entry in self.rounds("run")],
                         [False, True, False, True, True])
        self.assertEqual(sorted(os.listdir(self.path("run", "checkpoints"))),
                         ["round-000003.safetensors", "round-000005.safetensors"])

    def test_a_run_without_out_makes_a_dated_folder(self):
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--model", "softmax")
        self.assertRegex(os.listdir(self.path("runs"))[0], r"^\d{8}-\d{6}-softmax$")

    def test_an_experiment_file_and_the_command_line_that_wins_over_it(self):
        with open(self.path("experiment.yaml"), "w") as file:
            file.write(f"data: {DATA}\nmodel: 'linear 30; relu; linear 10'\nrounds: 5\nworkers: 2\n")
        self.train("experiment.yaml", "--rounds", "2", "--out", "run")
        self.assertEqual(len(self.rounds("run")), 2)
        self.train("run/config.yaml", "--out", "again")
        self.assertEqual(self.model("run"), self.model("again"))

    def test_live_weights_are_a_safetensors_file_while_the_run_lives(self):
        process = self.start(*SMALL, "--workers", "2", *ENDLESS, "--out", "run")
        self.wait_for_round("run", 1)
        live = self.path("run", "live", "global.safetensors")
        with open(live, "rb") as file:
            notes, tensors = parse_safetensors(file.read())
        self.assertEqual(notes["format"], "pt")
        self.assertEqual(tensors["conv2.weight"][0], [20, 10, 5, 5])
        self.assertEqual(len(tensors["conv2.weight"][1]), 5000)
        self.assertTrue(any(value != 0 for value in tensors["fc2.bias"][1]))
        for worker in children_of(process.pid):  # data set and weights: workers of fedavg cannot write them
            for fd in (6, 7):
                with open(f"/proc/{worker}/fdinfo/{fd}") as file:
                    flags = int(re.search(r"flags:\s*(\d+)", file.read()).group(1), 8)
                self.assertEqual(flags & os.O_ACCMODE, os.O_RDONLY)
        self.stop(process)
        self.assertFalse(os.path.lexists(live))
        self.assertFalse(os.path.lexists(self.path("run", "live")))

    # The same bits ---------------------------------------------------------------------------------------------------

    def test_the_same_bits_for_1_2_3_and_4_workers(self):
        for workers in "1234":
            self.train(*SMALL, "--workers", workers, "--out", workers)
        self.assertEqual(len({self.model(workers) for workers in "1234"}), 1)
        self.train(*SMALL, "--workers", "2", "--seed", "2", "--out", "other")
        self.assertNotEqual(self.model("1"), self.model("other"))

    def test_a_net_wide_enough_for_openblas_has_the_same_bits_for_any_number_of_workers(self):
        wide = ["--data", f"synthetic:1x8x8:{404 if SANITIZED else 1000}:510", "--model", "linear 1030; relu; linear 1030; relu; linear 10",
                "--batch-size", "101", "--clients", "4", "--rounds", "2", "--lr", "0.1"]
        for algorithm in "fedavg", "ssgd":
            for workers in "1234":
                out, _ = self.train(*wide, "--algorithm", algorithm, "--workers", workers, "--out", algorithm + workers)
                said = re.search("^Wide layers multiply through (OpenBLAS .*)$", out, re.M)
                self.assertEqual(self.metrics(algorithm + workers)[0]["blas"], said[1])
            self.assertEqual(len({self.model(algorithm + workers) for workers in "1234"}), 1)
        without = {**os.environ, "SOUNDER_BLAS": "off"}
        out, _ = self.train(*wide, "--workers", "2", "--out", "without", env=without)
        self.assertNotIn("OpenBLAS", out)
        self.assertNotEqual(self.model("fedavg1"), self.model("without"))
        _, err = self.train("--resume", "without", "--rounds", "3", "--workers", "2")
        self.assertIn("multiplied through no OpenBLAS and goes on with OpenBLAS ", err)

    def test_a_net_wide_enough_for_openblas_says_so_where_there_is_none(self):
        os.mkdir(self.path("broken"))
        for name in "libopenblas.so.0", "libopenblas.so":
            with open(self.path("broken", name), "w") as file:
                file.write("no library")
        wide = ["--data", "synthetic:1x8x8:400:100", "--model", "linear 1030; relu; linear 1030; relu; linear 10"]
        environment = {**os.environ, "LD_LIBRARY_PATH": self.path("broken")}
        _, err = self.train(*wide, "--out", "run", code=69, env=environment)
        self.assertRegex(err, "OpenBLAS, which cannot be opened .*; install libopenblas0, or set SOUNDER_BLAS=off")
        self.assertFalse(os.path.exists(self.path("run")))
        self.train(*wide, "--rounds", "1", "--out", "run", env={**environment, "SOUNDER_BLAS": "off"})
        self.train(*SMALL, "--rounds", "1", "--out", "narrow", env=environment)

    def test_ssgd_gives_the_same_bits_for_any_number_of_workers(self):
        arguments = [*SMALL, "--algorithm", "ssgd", "--clients", "4", "--rounds", "2"]
        for workers in "1234":
            self.train(*arguments, "--workers", workers, "--out", workers)
        self.assertEqual(len({self.model(workers) for workers in "1234"}), 1)

    def test_held_out_samples_are_not_trained_on(self):
        small = ["--data", "synthetic:1x9x8:400:100", "--model", "softmax", "--rounds", "2", "--partition", "iid"]
        for algorithm in ("fedavg", "ssgd"):
            self.train(*small, "--clients", "4", "--workers", "2", "--algorithm", algorithm, "--client-test", "0.1", "--out", algorithm)
            self.assertEqual({entry["samples"] for entry in self.rounds(algorithm)}, {360})
        _, err = self.train(*small, "--algorithm", "hogwild", "--client-test", "0.1", "--out", "run", code=64)
        self.assertIn("only used with", err)

    def test_crops_and_flips_change_the_model_and_not_with_the_number_of_workers(self):
        small = ["--data", "synthetic:1x9x8:400:100", "--model", "conv 4 3; relu; linear 10", "--clients", "4", "--rounds", "2"]
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            more = [*small, "--algorithm", algorithm]
            if algorithm == "hogwild":
                more[more.index("--clients") + 1] = "1"
            self.train(*more, "--workers", "1", "--out", algorithm)
            models = set()
            for workers in ("1", "3") if algorithm != "hogwild" else ("1",):
                run = algorithm + workers
                self.train(*more, "--workers", workers, "--random-crop", "2", "--random-flip", "--out", run)
                models.add(self.model(run))
            self.assertEqual(len(models), 1)
            self.assertNotIn(self.model(algorithm), models)
        _, err = self.train(*small, "--random-crop", "8", "--out", "run", code=64)
        self.assertIn("--random-crop 8: images of 9x8 pixels may be cut off completely", err)

    def test_the_same_bits_while_random_workers_are_killed(self):
        arguments = [*SMALL, "--local-epochs", "2"]
        process = self.start(*arguments, "--workers", "4", *ENDLESS, "--on-worker-death", "respawn", "--out", "storm")
        self.kill_workers_during(process, 0.05 * SLOWED, random.Random(1), most=20)
        self.wait_for_deaths("storm", 1)
        self.stop(process)
        self.train(*arguments, "--workers", "2", "--rounds", str(len(self.rounds("storm"))), "--out", "calm")
        self.assertEqual(self.bits("calm"), self.bits("storm"))

    def test_ssgd_gives_the_same_bits_while_workers_are_killed(self):
        arguments = [*SMALL, "--algorithm", "ssgd", "--clients", "4", "--rounds", "4"]
        self.train(*arguments, "--workers", "2", "--out", "calm")
        process = self.start(*arguments, "--workers", "4", "--on-worker-death", "respawn", "--out", "storm")
        kills = self.kill_workers_during(process, 0.4 * SLOWED, random.Random(2), most=20)
        self.finish(process)
        self.assertEqual(self.model("calm"), self.model("storm"))

    def test_the_survivors_do_a_dead_workers_jobs_and_the_bits_stay(self):
        process = self.start(*SMALL, "--workers", "3", *ENDLESS, "--out", "run")
        self.wait_for_round("run", 1)
        for worker in children_of(process.pid)[:2]:
            os.kill(worker, signal.SIGKILL)
        self.wait_for_deaths("run", 2)
        self.assertRegex(self.stop(process), r"rank \d was killed by signal 9")
        self.assertEqual(sum(entry["workers_lost"] for entry in self.rounds("run")), 2)
        self.train(*SMALL, "--workers", "2", "--rounds", str(len(self.rounds("run"))), "--out", "calm")
        self.assertEqual(self.bits("calm"), self.bits("run"))

    def test_the_same_bits_after_the_parent_was_killed_and_the_run_resumed(self):
        for algorithm in ("fedavg", "ssgd"):
            with self.subTest(algorithm):
                arguments = [*SMALL, "--algorithm", algorithm, "--rounds", "8"]
                calm, torn = "calm-" + algorithm, "torn-" + algorithm
                self.train(*arguments, "--workers", "2", "--out", calm)
                process = self.start(*arguments, "--workers", "2", "--out", torn)
                self.wait_for_round(torn, 2)
                process.kill()
                process.communicate()
                self.train("--resume", torn)
                self.assertEqual(self.model(calm), self.model(torn))
                self.assertEqual([entry["round"] for entry in self.rounds(torn)], list(range(1, 9)))

    def test_hogwild_of_one_worker_resumes_to_the_same_bits(self):
        arguments = ["--data", DATA, "--algorithm", "hogwild", "--workers", "1", "--rounds", "6"]
        self.train(*arguments, "--out", "calm")
        process = self.start(*arguments, "--out", "torn")
        self.wait_for_round("torn", 2)
        process.kill()
        process.communicate()
        self.train("--resume", "torn")
        self.assertEqual(self.model("calm"), self.model("torn"))

    # Other algorithms ------------------------------------------------------------------------------------------------

    def test_hogwild_learns_and_counts_every_update(self):
        for update in ("plain", "atomic"):
            for data, passes in (("full", 2), ("shard", 1)):
                with self.subTest(update=update, data=data):
                    run = f"{update}-{data}"
                    self.train("--data", DATA, "--algorithm", f"hogwild update={update} data={data}", "--workers", "2", "--rounds", "4", "--lr", "0.05",
                               "--momentum", "0.5", "--out", run)
                    for entry in self.rounds(run):
                        self.assertEqual(entry["samples"], TRAIN * passes)
                        steps = 2 * -(-TRAIN // (64 if data == "full" else 128))  # of 64 samples, the last one of fewer
                        self.assertEqual(entry["updates"], steps)
                        self.assertEqual(sum(entry["staleness"]), steps)
                    self.assertGreater(self.rounds(run)[-1]["test_accuracy"], 0 if SANITIZED else 0.4)

    def test_hogwild_with_private_steps_makes_fewer_updates_of_the_same_steps(self):
        options = ["--data", DATA, "--rounds", "2"]
        for name in ("hogwild", "hogwild steps=5"):
            self.train(*options, "--model", "linear 10", "--lr", "0.005", "--momentum", "0.5", "--algorithm", name, "--workers", "1",
                       "--out", name)
        plain, private = self.rounds("hogwild")[-1], self.rounds("hogwild steps=5")[-1]
        self.assertAlmostEqual(plain["train_loss"], private["train_loss"], places=4)  # one worker alone adds what it has
        self.assertAlmostEqual(plain["test_loss"], private["test_loss"], places=4)
        self.assertEqual((plain["updates"], private["updates"]), (-(-TRAIN // 64), -(-TRAIN // (5 * 64))))
        self.train(*options, "--algorithm", "hogwild steps=5 bound=1 update=atomic", "--workers", "3", "--rounds", "4",
                   "--lr", "0.05", "--out", "three")
        for entry in self.rounds("three"):
            self.assertEqual((entry["updates"], sum(entry["staleness"])), (3 * private["updates"],) * 2)
        self.assertGreater(self.rounds("three")[-1]["test_accuracy"], 0 if SANITIZED else 0.4)

    def test_a_bound_holds_while_a_worker_lags(self):
        for bound in (0, 3):
            with self.subTest(bound):
                run = f"bound-{bound}"
                process = self.start("--data", DATA, "--algorithm", f"hogwild bound={bound}", "--workers", "3", *ENDLESS,
                                     "--eval-every", "0", "--out", run)
                self.wait_for_round(run, 1)
                lagging = children_of(process.pid)[0]
                for _ in range(3):
                    for what in (signal.SIGSTOP, signal.SIGCONT):
                        os.kill(lagging, what)
                        time.sleep(0.1)
                self.stop(process)
                for entry in self.rounds(run):
                    self.assertLessEqual(len(entry["staleness"]) - 1, 2 * (2 * bound + 1))
                    counts = entry["staleness"]
                    mean = sum(count * others for others, count in enumerate(counts)) / sum(counts)
                    self.assertAlmostEqual(entry["staleness_mean"], mean, places=6)

    def test_who_waits_for_a_bound_or_for_a_client_sleeps_until_it_is_called(self):
        task = ["--data", "synthetic:1x8x8:24000:60", "--rounds", "100000", "--eval-every", "0", "--checkpoint-every", "0", "--quiet", "--device", "cpu"]
        for run, options in (("wild", ["--algorithm", "hogwild bound=0", "--workers", "3", "--model", "linear 64; relu; linear 10"]),
                             ("clock", ["--algorithm", "asgd M=1", "--clock", "real", "--workers", "3", "--clients", "6", "--model", "linear 64; relu; linear 10"])):
            process = self.start(*task, *options, "--out", run)
            self.wait_for_round(run, 1)
            workers = children_of(process.pid)
            # The others come as far as the bound allows; nobody gets another client.
            os.kill(workers[0] if run == "wild" else process.pid, signal.SIGSTOP)
            waiting = workers[1:] if run == "wild" else workers
            self.assertTrue(wait_until(lambda: sleeps_for_half_a_second(waiting)), run)
            process.kill()
            process.communicate()

    def test_a_bound_outlives_dead_workers(self):
        for what in ("respawn", "continue"):
            with self.subTest(what):
                process = self.start("--data", DATA, "--algorithm", "hogwild steps=2 bound=0", "--workers", "3", *ENDLESS,
                                     "--hang-seconds", "0", "--on-worker-death", what, "--out", what)
                self.wait_for_round(what, 1)
                self.kill_workers_during(process, 0.02, random.Random(5), most=12 if what == "respawn" else 2)
                self.wait_for_deaths(what, 1)
                self.wait_for_more_rounds(what, 2)
                self.stop(process)

    def test_ssgd_learns_and_reports_its_synchronisation(self):
        self.train("--data", DATA, "--algorithm", "ssgd", "--workers", "2", "--rounds", "4", "--lr", "0.05", "--momentum", "0.5", "--out", "run")
        for entry in self.rounds("run"):
            self.assertEqual(len(entry["synchronising_seconds"]), 2)
            self.assertGreater(min(entry["synchronising_seconds"]), 0)
        self.assertGreater(self.rounds("run")[-1]["test_accuracy"], 0 if SANITIZED else 0.4)


class Faults(RunCase):
    def test_a_stopped_worker_is_killed_and_the_others_go_on(self):
        for algorithm in ("fedavg", "hogwild", "hogwild steps=3 bound=0", "ssgd"):  # with a bound all others wait for it
            with self.subTest(algorithm):
                process = self.start("--data", DATA, "--algorithm", algorithm, "--workers", "3", *ENDLESS,
                                     "--hang-seconds", str(3 * SLOWED), "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                os.kill(children_of(process.pid)[0], signal.SIGSTOP)
                self.wait_for_deaths(algorithm, 1)
                self.wait_for_more_rounds(algorithm, 2)
                err = self.stop(process)
                self.assertRegex(err, r"rank \d has made no progress for .* and is killed")
                self.assertEqual(sum(entry["workers_lost"] for entry in self.rounds(algorithm)), 1)

    def test_a_worker_that_is_stopped_while_it_waits_for_others_is_killed_when_they_have_reached_it(self):
        process = self.start("--data", "synthetic:1x8x8:24000:60", "--model", "linear 64; relu; linear 10", "--algorithm", "hogwild bound=50",
                             "--workers", "3", *ENDLESS, "--local-epochs", "4" if SANITIZED else "50", "--eval-every", "0", "--checkpoint-every", "0",
                             "--hang-seconds", str(5 * SLOWED), "--out", "run")
        self.wait_for_round("run", 1)
        slowest, stopped, other = children_of(process.pid)
        before = computed_seconds(slowest)
        self.assertTrue(wait_until(lambda: computed_seconds(slowest) > before + 0.2))  # it is in the midst of a round
        os.kill(slowest, signal.SIGSTOP)
        self.assertTrue(wait_until(lambda: sleeps_for_half_a_second([stopped, other])))
        os.kill(stopped, signal.SIGSTOP)
        os.kill(slowest, signal.SIGCONT)  # it passes the one that has stopped, and so does the third: now these two wait
        self.assertTrue(wait_until(lambda: not alive(stopped)), "nobody was taken for the one that hangs")
        self.wait_for_deaths("run", 1)
        self.assertRegex(self.stop(process), r"rank \d has made no progress for .* and is killed")

    def test_a_job_that_kills_every_worker_ends_the_run_instead_of_going_on_for_ever(self):
        process = self.start(*SMALL, "--workers", "2", "--local-epochs", "1000", "--on-worker-death", "respawn", "--log-level",
                             "error", "--out", "run")
        self.signal_workers_until_the_end(process, signal.SIGKILL, 0.001)
        _, err = self.finish(process, 69)
        self.assertRegex(err, r"\d+ workers in a row died and no job was finished")

    def test_abort_ends_the_run_when_a_worker_dies(self):
        process = self.start(*SMALL, "--workers", "2", "--rounds", "500", "--on-worker-death", "abort", "--out", "run")
        self.wait_for_round("run", 1)
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        _, err = self.finish(process, 69)
        self.assertIn("--on-worker-death is abort", err)

    def test_the_only_worker_is_replaced_with_the_same_bits(self):
        for algorithm in ("fedavg", "ssgd", "hogwild"):
            with self.subTest(algorithm):
                options = [*SMALL, "--algorithm", algorithm, "--workers", "1", *(["--clients", "1"] if algorithm == "hogwild" else [])]
                process = self.start(*options, *ENDLESS, "--out", algorithm)
                self.wait_for_round(algorithm, 1)
                self.kill_workers_during(process, 0.1 * SLOWED, random.Random(7), most=3)
                self.wait_for_deaths(algorithm, 1)
                self.assertRegex(self.stop(process), r"rank 0 was killed by signal 9")
                if algorithm != "hogwild":
                    self.train(*options, "--rounds", str(len(self.rounds(algorithm))), "--quiet", "--out", "calm-" + algorithm)
                    self.assertEqual(self.bits("calm-" + algorithm), self.bits(algorithm))

    def test_an_only_worker_that_always_stands_still_ends_the_run_after_three(self):
        process = self.start(*SMALL, "--workers", "1", "--local-epochs", "100000", "--hang-seconds", str(SLOWED), "--out", "run")
        self.signal_workers_until_the_end(process, signal.SIGSTOP, 0.01)
        _, err = self.finish(process, 69)
        # Three in a row, in starts or in rounds: on a slow machine a worker starts in time now and then, and counting begins again.
        self.assertIn(err.count("and is killed"), range(3, 7), err)
        self.assertRegex(err.splitlines()[-1], "^sounder: error: worker 0 cannot (start|go on): it made no progress for ")

    def test_when_all_workers_are_dead_the_run_ends_with_a_sentence(self):
        process = self.start(*SMALL, "--workers", "2", "--rounds", "500", "--out", "run")
        self.wait_for_round("run", 1)
        for worker in children_of(process.pid):
            os.kill(worker, signal.SIGKILL)
        _, err = self.finish(process, 69)
        self.assertRegex(err, "sounder: error: .*all 2 workers")

    def test_files_of_other_programs_in_shared_memory_are_not_taken_for_segments(self):
        handle, foreign = tempfile.mkstemp(prefix="other-program-", dir="/dev/shm")
        os.close(handle)
        self.addCleanup(os.unlink, foreign)  # after tearDown has looked
        process = self.start(*SMALL, *ENDLESS, "--workers", "1", "--out", "run")
        self.wait_for_round("run", 1)
        self.assertGreater(len(segments_held()), 1)
        self.stop(process)
        self.assertTrue(segments_are_freed())

    def test_killing_the_parent_leaves_no_worker_and_no_segment(self):
        for attempt in range(int(os.environ.get("SOUNDER_PARENT_KILLS", "10"))):
            process = self.start(*SMALL, "--workers", "4", "--out", f"run-{attempt}")
            time.sleep(random.Random(attempt).random() * 0.3 * SLOWED)
            workers = children_of(process.pid)
            process.kill()
            process.communicate()
            self.assertTrue(wait_until(lambda: not any(alive(worker) for worker in workers)), "a worker lives on")
            self.assertTrue(segments_are_freed())

    def test_the_first_signal_finishes_the_round_and_the_run_resumes_to_the_same_bits(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                run, calm = number.name, f"calm-{number.name}"
                process = self.start(*SMALL, "--workers", "2", "--rounds", "100000", "--out", run, stdout=subprocess.DEVNULL)
                self.wait_for_round(run, 1)
                self.assertIn(f"--resume {run}", self.stop(process, number))
                done = len(self.rounds(run))
                self.assertTrue(os.path.exists(self.path(run, "checkpoints", f"round-{done:06d}.safetensors")))
                self.train("--resume", run, "--rounds", str(done + 2))
                self.train(*SMALL, "--workers", "2", "--rounds", str(done + 2), "--out", calm)
                self.assertEqual(self.bits(calm), self.bits(run))
                self.assertEqual(self.model(calm), self.model(run))

    def test_a_signal_to_every_process_of_the_run_disturbs_no_worker(self):
        # As batch systems send it.
        process = self.start(*SMALL, "--workers", "2", *ENDLESS, "--out", "run")
        self.wait_for_round("run", 1)
        for pid in [*children_of(process.pid), process.pid]:
            os.kill(pid, signal.SIGTERM)
        _, err = self.finish(process, 128 + signal.SIGTERM)
        self.assertNotIn("was killed", err)
        self.assertEqual(sum(entry["workers_lost"] for entry in self.rounds("run")), 0)

    def test_the_second_signal_ends_the_run_at_once(self):
        process = self.start(*SMALL, "--workers", "2", "--local-epochs", "1000", "--out", "run")
        self.end_at_once(process)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
