"""The folder of a run: who may have it, what it knows of the run, what becomes of it when files are lost or damaged.

Usage: test_run_folders.py PATH_OF_SOUNDER [unittest arguments]
"""
import gzip, os, random, re, shutil, struct, subprocess, sys, unittest

from runs import DATA, DEADLINE, DIVERGING, ENDLESS, SMALL, SOUNDER, RunCase, merged, parse_safetensors, wait_until


def write_packed_data(folder, train=1000, test=500):
    """Random images and labels in the four packed IDX files."""
    random_bytes = random.Random(1)
    os.makedirs(folder)
    for stem, count in (("train", train), ("t10k", test)):
        for kind, extents in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            header = bytes([0, 0, 8, len(extents)]) + struct.pack(f">{len(extents)}I", *extents)
            values = random_bytes.randbytes(28 * 28 * count) if len(extents) == 3 else bytes(i % 10 for i in range(count))
            with gzip.open(os.path.join(folder, f"{stem}-{kind}-ubyte.gz"), "wb", compresslevel=1) as file:
                file.write(header + values)


class RunFolders(RunCase):
    # Whose it is -----------------------------------------------------------------------------------------------------

    def test_a_folder_in_use_and_a_folder_with_a_run_are_refused(self):
        process = self.start(*SMALL, "--workers", "1", "--rounds", "500", "--out", "run")
        self.wait_for_round("run", 1)
        _, err = self.train(*SMALL, "--out", "run", code=64)
        self.assertIn(f"in use by another run (process {process.pid}); wait for it to end, or give another --out", err)
        _, err = self.train("--resume", "run", code=64)
        self.assertRegex(err, r"in use by another run \(process \d+\); wait for it to end\n$")
        process.kill()
        process.communicate()
        _, err = self.train(*SMALL, "--out", "run", code=64)
        self.assertIn("--resume run", err)

    def test_a_new_run_refuses_a_folder_that_holds_any_of_its_names_and_deletes_nothing(self):
        for name in ("metrics.jsonl", "model.safetensors", "schedule.csv", "checkpoints/round-000009.safetensors", "live/mine",
                     "tensorboard/mine"):
            with self.subTest(name):
                folder = name.split("/")[0]
                os.makedirs(os.path.dirname(self.path(folder, name)))
                with open(self.path(folder, name), "w") as file:
                    file.write('{"step":1,"round":5}\nprecious\n')
                _, err = self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", folder, code=64)
                self.assertIn(f"{folder} holds {folder}, which a new run would write over", err)
                with open(self.path(folder, name)) as file:
                    self.assertEqual(file.read(), '{"step":1,"round":5}\nprecious\n')
                self.assertEqual(os.listdir(self.path(folder)), [folder])

    def test_a_folder_that_is_moved_or_removed_ends_the_run_with_a_sentence_and_loses_nothing(self):
        arguments = [*SMALL, "--workers", "1", *ENDLESS]
        process = self.start(*arguments, "--seed", "7", "--out", "twin")
        self.wait_for_round("twin", 1)
        os.rename(self.path("twin"), self.path("moved"))
        self.train(*SMALL, "--workers", "1", "--rounds", "2", "--out", "twin")
        expected = self.model("twin")
        _, err = self.finish(process, 74)
        self.assertRegex(err, "the run folder twin was moved to .*/moved while .* --resume .*/moved")
        self.assertEqual(self.model("twin"), expected, "the other run's model")
        done = self.rounds("moved")[-1]["round"]
        self.train("--resume", "moved", "--rounds", str(done + 1))
        process = self.start(*arguments, "--out", "gone")
        self.wait_for_round("gone", 1)
        gone = self.path("gone")  # once more when the run has just put a file into what was emptied; it makes no folder again
        self.assertTrue(wait_until(lambda: shutil.rmtree(gone, ignore_errors=True) or not os.path.exists(gone)))
        _, err = self.finish(process, 74)
        self.assertIn("error: ", err)
        self.assertFalse(os.path.exists(self.path("gone", "model.safetensors")))

    def test_a_run_that_fails_before_its_first_round_leaves_its_folder_free(self):
        _, err = self.train(*SMALL, "--workers", "1", "--trace", "no/such/folder.json", "--out", "run", code=73)
        self.assertFalse(os.path.exists(self.path("run")))
        os.mkdir(self.path("mine"))
        with open(self.path("mine", "notes.txt"), "w") as file:
            file.write("mine")
        self.train(*SMALL, "--workers", "2", *DIVERGING, "--out", "mine", code=70)
        self.assertEqual(os.listdir(self.path("mine")), ["notes.txt"])
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "mine")

    def test_another_users_folder_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make another user's folder")
        os.mkdir(self.path("theirs"))
        os.chown(self.path("theirs"), 65534, 65534)
        _, err = self.train(*SMALL, "--workers", "1", "--out", "theirs", code=64)
        self.assertIn("theirs belongs to another user (uid 65534)", err)
        self.assertEqual(os.listdir(self.path("theirs")), [])

    def test_programs_that_another_users_run_names_are_not_started_and_those_of_an_own_one_are_told(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make another user's folder")
        self.train("--data", "synthetic:1x4x4:60:20", "--model", "linear classes", "--clients", "2", "--rounds", "2", "--out", "run")
        with open(self.path("program"), "w") as file:
            file.write("#!/bin/sh\ntouch " + self.path("started"))
        os.chmod(self.path("program"), 0o755)
        with open(self.path("run", "config.yaml"), "a") as file:
            file.write(f"trainer: {self.path('program')}\n")
        commands = (["eval", "run"], ["eval", "run", "--client", "1"], ["replay", "run", "--round", "2", "--client", "0"],
                    ["worth", "run", "--samples", "0", "--out", "w"], ["export", "run", "--client", "0"],
                    ["export", "run", "--peft", "p"], ["export", "run", "--flower", "f"])
        for owned in ("run", "run/config.yaml"):
            os.chown(self.path(owned), 65534, 65534)
            for command in commands:
                _, err = self.call(*command, code=64)
                self.assertIn(f"{owned} belongs to another user (uid 65534), and the run in run names a program that would be started", err)
            os.chown(self.path(owned), 0, 0)
        self.assertFalse(os.path.exists(self.path("started")))
        told = subprocess.run([SOUNDER, "eval", "run"], cwd=self.folder.name, capture_output=True, text=True, timeout=60).stderr
        self.assertTrue(told.startswith(f"sounder: starts the trainer of run: {self.path('program')}\n"), told)
        self.assertTrue(os.path.exists(self.path("started")))

    # What a run knows of itself --------------------------------------------------------------------------------------

    def test_a_run_records_what_it_was_and_every_line_has_a_time(self):
        self.train(*SMALL, "--workers", "2", "--rounds", "1", "--out", "run")
        self.train("--resume", "run", "--rounds", "2")
        lines = self.metrics("run")
        first, second = [line for line in lines if line["type"] == "start"]
        self.assertEqual(lines[0], first)
        version = subprocess.run([SOUNDER, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertEqual((first["schema"], first["sounder"], first["workers"], first["clients"], first["rounds_done"]),
                         (1, version, 2, 8, 0))
        self.assertEqual(first["argv"], merged(*SMALL, "--workers", "2", "--rounds", "1", "--out", "run"))
        self.assertEqual((second["argv"], second["rounds_done"]), (["--resume", "run", "--rounds", "2"], 1))
        for key in ("data_xxh3", "partition_xxh3", "run_xxh3"):
            self.assertRegex(first[key], "^[0-9a-f]{16}$")
            self.assertEqual(first[key], second[key])
        times = [line["time"] for line in lines]
        self.assertEqual(times, sorted(times))
        for time_of_day in times:
            self.assertRegex(time_of_day, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_a_configuration_holds_what_was_asked_and_resume_keeps_what_followed(self):
        options = ["--data", DATA, "--model", "softmax", "--workers", "2", "--rounds", "2"]
        self.train(*options, "--out", "run")
        with open(self.path("run", "config.yaml")) as file:
            self.assertRegex(file.read(), r"(?m)^# clients: 2 \(as many as workers, or as the data has users\)$")
        self.train("run/config.yaml", "--clients", "10", "--out", "ten")
        clients = [line["client"] for line in self.metrics("ten") if line["type"] == "client" and line["round"] == 1]
        self.assertEqual(sorted(clients), list(range(10)))
        self.train("--resume", "run", "--workers", "3", "--rounds", "4")
        self.train(*options, "--rounds", "4", "--out", "calm")
        self.assertEqual(self.model("run"), self.model("calm"))

    def test_a_run_goes_on_with_its_own_data_alone(self):
        write_packed_data(self.path("data"))
        self.train(*SMALL, "--data", "data", "--workers", "1", "--rounds", "1", "--out", "run")
        os.mkdir(self.path("elsewhere"))
        os.rename(self.path("run"), self.path("elsewhere", "run"))
        process = subprocess.run([SOUNDER, "train", "--resume", "run", "--rounds", "2", "--quiet"], timeout=DEADLINE,
                                 cwd=self.path("elsewhere"), capture_output=True, text=True)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        labels = self.path("data", "train-labels-idx1-ubyte.gz")
        with gzip.open(labels) as file:
            content = bytearray(file.read())
        content[-1] = 9 - content[-1]
        with gzip.open(labels, "wb") as file:
            file.write(content)
        before = self.model("elsewhere/run")
        _, err = self.train("--resume", "elsewhere/run", "--rounds", "3", code=65)
        self.assertRegex(err, r"the data set is not what the run began with \(XXH3 [0-9a-f]{16} then, [0-9a-f]{16} now\)")
        self.assertEqual(self.model("elsewhere/run"), before)

    def test_another_instruction_set_is_warned_of_with_the_remedy(self):
        environment = {**os.environ, "SOUNDER_ISA": "baseline"}
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "run", env=environment)
        best = self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "best")[0] and self.metrics("best")[0]["device"]
        if best == "baseline":
            self.skipTest("this machine has one instruction set")
        _, err = self.train("--resume", "run", "--rounds", "2")
        self.assertIn("run was computed with baseline and goes on with " + best, err)
        self.assertIn("SOUNDER_ISA=baseline", err)
        self.assertEqual(err.count("warning"), 1)

    def test_checkpoints_of_another_run_are_refused(self):
        self.train(*SMALL, "--workers", "1", "--seed", "7", "--out", "other")
        self.train(*SMALL, "--workers", "1", "--seed", "1", "--rounds", "2", "--out", "run")
        shutil.copy(self.path("other/checkpoints/round-000003.safetensors"), self.path("run/checkpoints"))
        _, err = self.train("--resume", "run", "--rounds", "5", code=65)
        self.assertRegex(err, "run/checkpoints: the checkpoint of round 3 is of another run")
        os.remove(self.path("run/checkpoints/round-000003.safetensors"))
        with open(self.path("run/config.yaml")) as file:
            config = file.read()
        for another in ("momentum: 0.25", ""):  # and what it leaves out is the default, which once was 0.5
            with open(self.path("run/config.yaml"), "w") as file:
                file.write(re.sub("(?m)^momentum: .*$", another, config))
            _, err = self.train("--resume", "run", "--rounds", "5", code=65)
            self.assertIn("is of another run", err)
        self.assertIn("round-000002.safetensors", os.listdir(self.path("run/checkpoints")))

    def test_a_run_without_the_checkpoints_it_had_is_not_begun_anew(self):
        self.train(*SMALL, "--workers", "1", "--out", "run")
        model, metrics = self.model("run"), self.metrics("run")
        shutil.rmtree(self.path("run/checkpoints"))
        _, err = self.train("--resume", "run", "--rounds", "5", code=66)
        self.assertIn("run has done 3 rounds but holds no checkpoint to go on from; give another --out", err)
        self.assertEqual((self.model("run"), self.metrics("run")), (model, metrics))
        os.remove(self.path("run/model.safetensors"))
        self.train("--resume", "run", code=66)

    def test_an_update_that_is_not_finite_is_refused_and_the_model_stays_finite(self):
        _, err = self.train(*SMALL, "--workers", "2", *DIVERGING, "--out", "run", code=70)
        self.assertRegex(err, r"client \d+: update refused: a weight of \w+\.\w+ became")
        self.assertRegex(err, r"error: round 1: the updates of all clients were refused as not finite or too large; lower --lr")
        self.assertNotIn("-nan", err)

    def test_hogwild_and_ssgd_that_diverge_say_so(self):
        for algorithm in ("hogwild", "ssgd"):
            with self.subTest(algorithm):
                _, err = self.train("--data", DATA, "--algorithm", algorithm, "--workers", "2", *DIVERGING, "--out",
                                    algorithm, code=70)
                self.assertIn("lower --lr", err)
        # Thirteen steps, each of which multiplies the weights by -999: the last one leaves a model that nothing has stumbled over.
        _, err = self.train("--data", "synthetic:1x1x1:416:100", "--model", "linear 10", "--algorithm", "hogwild", "--workers", "1",
                            "--rounds", "1", *DIVERGING, "--momentum", "0", "--batch-size", "32", "--out", "one", code=70)
        self.assertIn("round 1: the weights are no longer finite", err)
        self.assertFalse(os.path.exists(self.path("one", "model.safetensors")))

    def test_closed_standard_descriptors_do_no_harm(self):
        self.train(*SMALL, "--workers", "2", "--rounds", "1", "--out", "calm")
        subprocess.run(f"exec '{SOUNDER}' train {' '.join(merged(*SMALL, '--rounds', '1'))} --workers 2 --out closed <&- >&- 2>&-", shell=True,
                       cwd=self.folder.name, timeout=DEADLINE, check=True)
        self.assertEqual(self.model("calm"), self.model("closed"))

    def test_a_finished_run_is_resumed_only_for_more_rounds(self):
        self.train(*SMALL, "--workers", "2", "--rounds", "2", "--out", "run")
        before = self.metrics("run")
        out, _ = self.train("--resume", "run")
        self.assertIn("has done its 2 rounds", out)
        self.assertEqual(self.metrics("run"), before)
        self.train("--resume", "run", "--rounds", "1", code=64)
        self.train("--resume", "run", "--rounds", "3")
        self.train(*SMALL, "--workers", "1", "--rounds", "3", "--out", "calm")
        self.assertEqual(self.model("calm"), self.model("run"))

    def test_damaged_checkpoints_are_passed_over_and_named(self):
        self.train(*SMALL, "--workers", "2", "--rounds", "4", "--out", "run")
        expected = self.model("run")

        def damage(round_number):
            with open(self.path("run", "checkpoints", f"round-{round_number:06d}.safetensors"), "r+b") as file:
                file.seek(3000)
                byte = file.read(1)[0]
                file.seek(3000)
                file.write(bytes([byte ^ 1]))
        damage(4)
        _, err = self.train("--resume", "run")
        self.assertIn("round-000004.safetensors: damaged", err)
        self.assertEqual(self.model("run"), expected)
        damage(3)
        damage(4)
        _, err = self.train("--resume", "run", "--rounds", "5", code=65)
        self.assertRegex(err, "error: run/checkpoints: none of its 2 checkpoints can be used")

    def test_a_run_that_cannot_start_leaves_the_folder_free_for_another_try(self):
        import resource
        out, err = self.train(*SMALL, "--workers", "200", "--out", "run", code=71,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        self.assertRegex(out, "^Sounder .*200 workers", "the heading comes before what may take long")
        self.assertRegex(err, "200 workers need [0-9]+ open files, but the limit is 100")
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "run")

    def test_a_parent_that_is_slow_at_the_start_of_ssgd_counts_every_worker(self):
        # The parent must not take a worker for absent whose report it has not read, though it stands at the barrier.
        if subprocess.run(["which", "strace"], stdout=subprocess.DEVNULL).returncode != 0:
            self.skipTest("there is no strace here to slow the parent down")
        arguments = ["train", "--data", DATA, "--algorithm", "ssgd", "--clients", "4", "--rounds", "1", "--workers"]
        self.train(*arguments[1:], "1", "--out", "calm")
        subprocess.run(["strace", "-o", "/dev/null", "-e", "trace=poll", "-e", "inject=poll:delay_exit=50000", SOUNDER, *arguments,
                        "4", "--out", "slow"], cwd=self.folder.name, timeout=DEADLINE, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})  # a leak check cannot run under strace
        self.assertEqual(self.model("calm"), self.model("slow"))

    def test_a_full_disk_ends_the_run_with_a_sentence_and_valid_predecessors(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=224k", "tmpfs", disk], stderr=subprocess.DEVNULL)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs is not permitted here")
        try:
            _, err = self.train(*SMALL, "--workers", "1", "--rounds", "20", "--out", "disk/run", code=74)
            self.assertRegex(err, "sounder: error: .*checkpoints.*No space left on device")
            names = sorted(os.listdir(self.path("disk/run/checkpoints")))
            self.assertGreaterEqual(len(names), 1)
            for name in names:
                self.assertRegex(name, r"^round-\d{6}\.safetensors$")
                with open(self.path("disk/run/checkpoints", name), "rb") as file:
                    parse_safetensors(file.read())
        finally:
            subprocess.run(["umount", disk], check=True)

    # Packed data -----------------------------------------------------------------------------------------------------

    def packed_run(self, *arguments, out, **counts):
        """The command line and the environment of a run on packed files, with a cache of the test's own."""
        if not os.path.isdir(self.path("packed")):
            write_packed_data(self.path("packed"), **counts)
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache"), "SOUNDER_CACHE": "on"}
        return [*SMALL, "--data", self.path("packed"), "--workers", "2", *arguments, "--out", out], environment

    def unpacked_copy(self):
        (name,) = os.listdir(self.path("cache", "sounder", "unpacked"))
        return self.path("cache", "sounder", "unpacked", name)

    def test_a_second_run_on_packed_data_maps_the_copy_of_the_first_and_gets_the_same_bits(self):
        for run in ("first", "second", "third"):
            arguments, environment = self.packed_run("--log-level", "debug", out=run)
            _, err = self.train(*arguments, env=environment)
            self.assertEqual("unpacked copy of" in err, run != "first", err)
            self.assertEqual(self.model("first"), self.model(run))
        out = subprocess.run([SOUNDER, "eval", "first/model.safetensors", "--data", self.path("packed")], env=environment,
                             cwd=self.folder.name, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
        self.assertIn(f"accuracy {round(500 * self.rounds('first')[-1]['test_accuracy'])}/500", out)

    def test_other_files_with_the_same_size_and_time_are_other_data(self):
        arguments, environment = self.packed_run(out="first")
        labels = self.path("packed", "train-labels-idx1-ubyte.gz")
        with gzip.open(labels) as file:  # plain, as only the images are packed: its size stays the same
            plain = file.read()
        os.remove(labels)

        def write_labels(content):
            with open(labels[:-3], "wb") as file:
                file.write(content)
            os.utime(labels[:-3], ns=(0, 0))
        write_labels(plain)
        self.train(*arguments, env=environment)
        write_labels(plain[:8] + bytes(9 - label for label in plain[8:]))
        arguments, environment = self.packed_run(out="second")
        self.train(*arguments, env=environment)
        arguments, environment = self.packed_run(out="third")
        self.train(*arguments, env={**environment, "SOUNDER_CACHE": "off"})
        self.assertNotEqual(self.model("first"), self.model("second"))
        self.assertEqual(self.model("second"), self.model("third"))

    def test_a_run_goes_on_when_the_copy_that_it_maps_is_deleted(self):
        arguments, environment = self.packed_run("--rounds", "5", out="calm")
        self.train(*arguments, env=environment)
        arguments, environment = self.packed_run("--rounds", "5", out="run")
        process = self.start(*arguments, env=environment)
        self.wait_for_round("run", 1)
        os.remove(self.unpacked_copy())
        self.finish(process)
        self.assertEqual(self.model("calm"), self.model("run"))

    def test_a_run_whose_copy_is_written_to_or_cut_off_ends_with_a_sentence_and_can_be_resumed(self):
        arguments, environment = self.packed_run("--rounds", "1", out="calm")
        self.train(*arguments, env=environment)

        def overwrite(path):
            with open(path, "r+b") as file:
                file.write(b"SNDS")  # the very bytes that stand there: that it was written to is enough
        for damage in (overwrite, lambda path: os.truncate(path, 0)):
            run = damage.__name__.strip("<>")
            arguments, environment = self.packed_run("--rounds", "500", out=run)
            process = self.start(*arguments, env=environment)
            self.wait_for_round(run, 1)
            os.chmod(self.unpacked_copy(), 0o600)
            damage(self.unpacked_copy())
            _, err = self.finish(process, 65)
            self.assertRegex(err, "error: the data set's unpacked copy .* was written to")
            done = self.rounds(run)[-1]["round"]
            self.train("--resume", run, "--rounds", str(done + 1), env=environment)

    def test_a_copy_that_is_cut_off_while_the_model_is_tested_on_it_ends_the_run_with_the_same_sentence(self):
        arguments, environment = self.packed_run("--rounds", "500", "--checkpoint-every", "0", out="run", train=40, test=10000)
        self.train(*arguments, "--rounds", "1", "--out", "calm", env=environment)  # the tests take nearly all of the time
        process = self.start(*arguments, env=environment)
        self.wait_for_round("run", 1)  # training takes a thousandth of the time, so this comes while the model is tested
        os.chmod(self.unpacked_copy(), 0o600)
        os.truncate(self.unpacked_copy(), 0)
        _, err = self.finish(process, 65)
        self.assertRegex(err, "error: the data set's unpacked copy .* was written to")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
