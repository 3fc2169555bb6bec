"""Runs that are resumed: as often as one likes, from whatever a kill leaves, and from folders that come from elsewhere.

SOUNDER_EXHAUSTIVE=1 in the environment: every algorithm whose clients keep something, fifty times.

Usage: test_resume.py PATH_OF_SOUNDER [unittest arguments]
"""
import hashlib, json, os, resource, shlex, shutil, struct, subprocess, sys, unittest

from runs import SANITIZED, SOUNDER, RunCase, sha256

TINY = ["--data", "synthetic:1x4x4:96:24", "--model", "linear classes", "--clients", "4", "--batch-size", "8", "--quiet"]
STATEFUL = {"scaffold": [], "feddyn": [], "local-sgd": ["--momentum", "0.9"], "post-local-sgd": ["--momentum", "0.9"], "easgd": [], "eamsgd": ["--momentum", "0.9"],
            "ditto": [], "pfedme": [], "apfl": [], "moon": [], "fedper": [], "fedrep": [], "fedbn": [], "local-only": [], "top-k": [], "ef-sgd": [], "powersgd": [],
            "fedavg": ["--client-optimizer-state", "keep", "--momentum", "0.9"]}
# fedper and its kind want a layer that stays with the client, fedbn a normalisation, and powersgd a matrix.
LAYERS = ["--model", "linear 6; layernorm; relu; linear classes"]
EXHAUSTIVE = os.environ.get("SOUNDER_EXHAUSTIVE") == "1"


def checkpoint_path(run, round_number):
    return os.path.join(run, "checkpoints", f"round-{round_number:06d}.safetensors")


def forge(path, name, change):
    """Changes a tensor's bytes in a checkpoint and makes its checksum right again, as somebody may who gives a folder away."""
    with open(path, "rb") as file:
        blob = bytearray(file.read())
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    begin, end = (8 + length + offset for offset in header[name]["data_offsets"])
    blob[begin:end] = change(bytes(blob[begin:end]))
    place = blob.find(header["__metadata__"]["sha256"].encode())
    blob[place : place + 64] = b"0" * 64
    blob[place : place + 64] = hashlib.sha256(blob).hexdigest().encode()
    with open(path, "wb") as file:
        file.write(blob)


class Chains(RunCase):
    def resume_one_by_one(self, algorithm, options, rounds):
        run = [*TINY, *LAYERS, "--algorithm", algorithm, *options]
        self.train(*run, "--workers", "2", "--rounds", str(rounds), "--out", f"calm-{algorithm}")
        self.train(*run, "--workers", "1", "--rounds", "1", "--out", algorithm)
        for rounds_wanted in range(2, rounds + 1):
            self.train("--resume", algorithm, "--rounds", str(rounds_wanted), "--quiet", "--workers", str(1 + rounds_wanted % 2))
        self.assertEqual(self.bits(algorithm), self.bits(f"calm-{algorithm}"), algorithm)
        self.assertEqual(self.model(algorithm), self.model(f"calm-{algorithm}"), algorithm)

    def test_a_run_whose_clients_keep_something_is_resumed_any_number_of_times(self):
        for algorithm, options in (STATEFUL if EXHAUSTIVE else {"scaffold": []}).items():
            with self.subTest(algorithm):
                self.resume_one_by_one(algorithm, options, 51 if EXHAUSTIVE else 9)
                self.assertTrue(os.path.exists(self.path(algorithm, "clients.kept")), algorithm)

    def test_a_run_goes_on_from_the_checkpoint_before_after_any_number_of_resumes(self):
        self.train(*TINY, "--algorithm", "scaffold", "--rounds", "8", "--out", "calm")
        self.train(*TINY, "--algorithm", "scaffold", "--rounds", "1", "--out", "run")
        for rounds in range(2, 9):
            self.train("--resume", "run", "--rounds", str(rounds), "--quiet")
        with open(checkpoint_path(self.path("run"), 8), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
        _, err = self.train("--resume", "run", "--quiet")
        self.assertIn("round-000008.safetensors: damaged", err)
        self.assertEqual(self.model("run"), self.model("calm"))


class OtherFormats(RunCase):
    def test_a_run_of_another_format_is_refused_by_every_command_with_the_version_that_reads_it(self):
        self.train(*TINY, "--rounds", "1", "--out", "run")
        with open(self.path("run", "config.yaml"), "a") as file:
            file.write("option-of-that-version: 3\n")
        with open(self.path("run", "metrics.jsonl")) as file:
            start, *rest = file
        with open(self.path("run", "metrics.jsonl"), "w") as file:
            file.writelines([start.replace('"schema":1,"sounder":"0.1.0"', '"schema":7,"sounder":"9.2.1"'), *rest])
        shutil.copytree(self.path("run"), self.path("other"))
        refused = "run: the run has format 7, and this program reads format 1; use Sounder 9.2.1, which wrote it"
        for words in (("train", "--resume", "run"), ("eval", "run"), ("replay", "run", "--round", "1", "--client", "0"), ("diff", "run", "other"),
                      ("export", "run", "--client", "0", "--out", "client.safetensors"), ("top", "run", "--once"), ("worth", "run")):
            with self.subTest(words[0]):
                self.assertEqual(self.call(*words, code=65)[1], f"sounder: error: {refused}\n")
        for words in (("runs", "run", "other"), ("report", "run", "--out", "page.html")):
            with self.subTest(words[0]):
                self.assertIn(f"run is left out: {refused}\n", self.call(*words, code=66)[1])


class Beginnings(RunCase):
    def test_a_run_that_was_killed_before_it_began_can_be_begun_again(self):
        os.makedirs(self.path("run", "checkpoints"))
        with open(self.path("run", "clients.kept"), "wb") as file:
            os.truncate(file.fileno(), 1 << 20)
        self.train(*TINY, "--algorithm", "scaffold", "--rounds", "1", "--out", "run")
        os.makedirs(self.path("other"))
        with open(self.path("other", "clients.kept"), "wb") as file:
            file.write(b"somebody's")
        _, err = self.train(*TINY, "--algorithm", "scaffold", "--rounds", "1", "--out", "other", code=64)
        self.assertIn("other holds clients.kept, which a new run would write over", err)


    @unittest.skipIf(SANITIZED, "frames are larger with sanitizers")
    def test_a_small_stack_is_enough(self):
        """Batch systems set limits of 2 MB."""
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (3 << 19, 3 << 19))
        self.finish(self.start(*TINY, "--rounds", "1", "--out", "run", preexec_fn=limit))
        self.finish(self.start("--resume", "run", "--rounds", "2", "--quiet", preexec_fn=limit))
        for command in (["eval", "run", "--confusion"], ["replay", "run", "--round", "2", "--client", "0"], ["runs", "run"]):
            subprocess.run([SOUNDER, *command], cwd=self.folder.name, check=True, timeout=60, capture_output=True, preexec_fn=limit)


class Ends(RunCase):
    """Between the last checkpoint and the last line of the record."""

    def setUp(self):
        super().setUp()
        self.train(*TINY, "--rounds", "2", "--out", "run")
        self.old_model = self.path("old.safetensors")
        shutil.copy(self.path("run", "model.safetensors"), self.old_model)
        self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.summary = self.metrics("run")[-1]
        self.right = self.model("run")

    def cut_summary(self):
        with open(self.path("run", "metrics.jsonl")) as file:
            lines = file.readlines()
        with open(self.path("run", "metrics.jsonl"), "w") as file:
            file.writelines(lines[:-1])

    def expect_made_up_for(self):
        self.train("--resume", "run", "--quiet")
        self.assertEqual(self.model("run"), self.right)
        lines = self.metrics("run")
        self.assertEqual([line["type"] for line in lines].count("summary"), 1)
        self.assertEqual([line["round"] for line in lines if line["type"] == "round"], [1, 2, 3, 4])
        for key in ("type", "rounds", "test_accuracy", "test_loss", "model_sha256"):
            self.assertEqual(lines[-1][key], self.summary[key])
        with open(self.path("run", "metrics.jsonl"), "rb") as file:
            before = file.read()
        self.train("--resume", "run", "--quiet")  # now there is nothing left to do
        with open(self.path("run", "metrics.jsonl"), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_the_model_of_fewer_rounds_is_replaced(self):
        self.cut_summary()
        shutil.copy(self.old_model, self.path("run", "model.safetensors"))
        self.expect_made_up_for()

    def test_a_missing_summary_is_written(self):
        self.cut_summary()
        self.expect_made_up_for()

    def test_a_model_that_is_not_that_of_the_summary_is_replaced(self):
        shutil.copy(self.old_model, self.path("run", "model.safetensors"))
        self.expect_made_up_for()

    def test_dead_links_of_a_run_that_has_ended_go_with_the_next_resume(self):
        os.makedirs(self.path("run", "live"))
        os.symlink("/proc/1/fd/999", self.path("run", "live", "control"))
        self.train("--resume", "run", "--quiet")
        self.assertFalse(os.path.exists(self.path("run", "live")))


class Disks(RunCase):
    def test_what_clients_keep_on_the_disk_already_takes_no_more_room(self):
        os.mkdir(self.path("disk"))
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3400k", "tmpfs", self.path("disk")], stderr=subprocess.DEVNULL)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs is not permitted here")
        run = ["--model", "linear 200; linear classes", "--algorithm", "scaffold", "--clients", "90", "--clients-per-round", "6"]
        try:
            self.train(*TINY, *run, "--rounds", "20", "--out", "disk/run")
            self.train("--resume", "disk/run", "--rounds", "21", "--quiet")
            with open(self.path("disk", "more"), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, os.statvfs(self.path("disk")).f_bavail * 4096 - (100 << 10))
            os.truncate(self.path("disk", "run", "clients.kept"), 4096)
            _, err = self.train("--resume", "disk/run", "--rounds", "22", "--quiet", code=74)
            self.assertRegex(err, r"keep takes up to 2\.5 MB more in disk/run, where [\d.]+ MB are free; make room, or take fewer --rounds")
        finally:
            subprocess.run(["umount", self.path("disk")], check=True)


class LastLines(RunCase):
    """What a run says at its end about going on, taken at its word."""

    def last_line(self, *arguments):
        return self.train(*[argument for argument in TINY if argument != "--quiet"], *arguments)[0].splitlines()[-1]

    def expect_to_go_on(self, run, *arguments):
        line = self.last_line(*arguments, "--out", run)
        self.assertTrue(line.startswith("go on: sounder train "), line)
        before = len(self.rounds(run))
        self.assertEqual(self.train("--resume", run)[0].splitlines()[-1], line)  # nothing is done, and the same said
        self.train(*shlex.split(line)[4:], "--quiet")
        self.assertGreater(len(self.rounds(run)), before)

    def test_its_command_goes_on(self):
        self.expect_to_go_on("run's folder", "--rounds", "1")
        self.expect_to_go_on("patience", "--rounds", "9", "--patience", "1", "--lr", "1e-9")
        self.expect_to_go_on("target", "--rounds", "9", "--target", "accuracy=0.01", "--stop-at-target")
        self.expect_to_go_on("all", "--rounds", "2", "--target", "accuracy=0.01", "--eval-every", "2", "--stop-at-target", "--patience", "1", "--lr", "1e-9")

    def test_where_nothing_can_go_on_the_reason_stands_there(self):
        for place, (options, why) in enumerate(((["--lr-schedule", "cosine"], "--rounds 4: the cosine of the learning rate ends with round 2; "),
                                                 (["--algorithm", "dp-fedavg epsilon=8"], "--rounds 4: the noise spends epsilon in 2 rounds, "),
                                                 (["--algorithm", "dp-ftrl epsilon=8", "--sampling", "cyclic"], "--rounds 4: the noise spends epsilon in 2 rounds, "),
                                                 (["--algorithm", "asgd", "--clock", "real"], "--clock real: a run cannot go on in it; "),
                                                 (["--algorithm", "asgd", "--clock", "replay:3/schedule.csv"], "3/schedule.csv: has the updates of 2 rounds, "))):
            line = self.last_line(*options, "--rounds", "2", "--out", str(place))
            self.assertIn("cannot go on: " + why, line)

    def test_a_run_on_the_real_clock_that_is_stopped_leaves_its_model(self):
        process = self.start(*[argument for argument in TINY if argument != "--quiet"], "--algorithm", "asgd", "--clock", "real", "--workers", "1",
                             "--rounds", "1000000", "--eval-every", "0", "--out", "run", stdout=subprocess.DEVNULL)
        self.wait_for_round("run", 1)
        self.assertRegex(self.stop(process), r"stopped by signal 15 after round \d+, the last")
        self.assertEqual(self.metrics("run")[-1]["rounds"], len(self.rounds("run")))
        self.assertEqual(self.metrics("run")[-1]["model_sha256"], self.model("run"))

    def test_a_run_that_ends_early_evaluates_its_clients(self):
        for name, goal in (("patience", ["--patience", "1", "--lr", "1e-9"]), ("target", ["--target", "accuracy=0.01", "--stop-at-target"])):
            self.train(*TINY, *goal, "--rounds", "30", "--eval-clients-every", "30", "--out", name)
            last = self.rounds(name)[-1]["round"]
            self.assertLess(last, 30)
            self.assertEqual([line["round"] for line in self.metrics(name) if line["type"] == "clients_evaluation"], [last])

    def test_goals_that_no_test_can_reach_are_refused(self):
        for goal in (["--patience", "1"], ["--target", "accuracy=0.5", "--stop-at-target"]):
            _, err = self.train(*TINY, *goal, "--eval-every", "0", "--out", "no", code=64)
            self.assertIn(f"{goal[-1] if len(goal) > 2 else goal[0]}: with --eval-every 0 only the last round is tested", err)


class FoldersFromElsewhere(RunCase):
    def setUp(self):
        super().setUp()
        self.train(*TINY, "--algorithm", "scaffold", "--clients-per-round", "2", "--rounds", "1", "--out", "gift")
        self.kept, self.victim = self.path("gift", "clients.kept"), self.path("victim")
        with open(self.victim, "wb") as file:
            file.write(bytes(os.path.getsize(self.kept)))
        self.before = sha256(self.victim)

    def test_nothing_is_written_through_a_link_in_the_place_of_what_clients_keep(self):
        rows = lambda table: struct.pack("<I", 1) + bytes(len(table) - 4)  # no row is compared before one is written
        forge(checkpoint_path(self.path("gift"), 1), "sounder.kept", rows)
        for link, sentence in ((os.symlink, "gift/clients.kept is a link, which is not followed"), (os.link, "gift/clients.kept has another name")):
            os.remove(self.kept)
            link(self.victim, self.kept)
            _, err = self.train("--resume", "gift", "--rounds", "3", "--quiet", code=64)
            self.assertIn(sentence, err)
            self.assertEqual(sha256(self.victim), self.before)
        os.remove(self.kept)
        os.symlink(self.path("nothing"), self.kept)
        self.train("--resume", "gift", "--rounds", "3", "--quiet", code=64)
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_links_to_the_shared_memory_are_not_made_in_another_folder(self):
        os.makedirs(self.path("other"))
        shutil.copy(self.victim, self.path("other", "control"))
        os.symlink(self.path("other"), self.path("gift", "live"))
        _, err = self.train("--resume", "gift", "--rounds", "3", "--quiet", code=73)
        self.assertIn("gift/live", err)
        self.assertEqual(os.listdir(self.path("other")), ["control"])

    def test_a_table_that_no_run_has_written_is_refused_before_it_is_used(self):
        shutil.copytree(self.path("gift"), self.path("whole"))
        for change, sentence in ((lambda table: struct.pack("<I", 100000) + table[4:], "it says that 100000 rows are in use"),
                                 (lambda table: struct.pack("<II", 2, 0x7FFFFFFF) + table[8:], "it gives client 0 the row 2147483647"),
                                 (lambda table: struct.pack("<III", 2, 1, 1) + table[12:], "it gives client 1 the row 1, which another client has")):
            shutil.rmtree(self.path("gift"))
            shutil.copytree(self.path("whole"), self.path("gift"))
            forge(checkpoint_path(self.path("gift"), 1), "sounder.kept", change)
            os.truncate(self.kept, 100000 * 4096)
            _, err = self.train("--resume", "gift", "--rounds", "3", "--quiet", code=65)
            self.assertIn("the checkpoint of round 1 has a wrong table of clients.kept: " + sentence, err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
