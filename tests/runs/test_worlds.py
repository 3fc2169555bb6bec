"""What happens to clients, in whole runs: who is drawn, drops out, straggles, is late; simulated seconds and bytes.

Usage: test_worlds.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import math, os, random, subprocess, unittest

from runs import DEADLINE, SOUNDER, RunCase, merged
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

ON_CARD = "emulated" in os.path.basename(SOUNDER)
SMALL = ["--data", "synthetic:1x8x8:600:100", "--model", "conv 3 3; pool 2; relu; dropout 0.2; linear 10", "--batch-size", "10",
         "--clients", "12", "--partition", "dirichlet", "--alpha", "0.3", "--quiet", "--device", "cuda" if ON_CARD else "cpu"]
# Everything at once.
WORLD = ["--clients-per-round", "5", "--sampling", "power-of-choice candidates=8", "--drop-out", "0.2", "--stragglers",
         "0.4 work=partial", "--local-epochs", "4", "--over-selection", "1.4", "--deadline", "6", "--client-time",
         "lognormal noise=0.3", "--down-bandwidth", "2000", "--up-bandwidth", "1000", "--rounds", "6"]
KINDS = ["uniform", "poisson", "by-size", "power-of-choice", "cyclic", "available"]


class WorldCase(RunCase):
    def run_world(self, run, *options, **more):
        self.train(*SMALL, *options, "--out", run, **more)
        return self.rounds(run)

    def cohorts(self, run):
        """By round: the clients that trained, with their records."""
        cohorts = {entry["round"]: {} for entry in self.rounds(run)}
        for entry in self.metrics(run):
            if entry["type"] == "client":
                cohorts[entry["round"]][entry["client"]] = entry
        return cohorts

    def model_bytes(self, run):
        return 4 * self.metrics(run)[-1]["parameters"]

    def simulated(self, run):
        keys = ("clients_drawn", "clients_trained", "clients_dropped_out", "clients_straggling", "clients_late", "abandoned",
                "simulated_seconds_total", "down_bytes_total", "up_bytes_total")
        return [[entry[key] for key in keys] for entry in self.rounds(run)]


class World(WorldCase):
    def test_the_number_of_clients_grows_as_the_schedule_says(self):
        cohort = ["--clients-per-round", "10", "--rounds", "6"]
        for schedule, sizes in ("linear first=2 rounds=5", [2, 4, 6, 8, 10, 10]), ("step first=3 every=2 factor=1.5", [3, 3, 4, 4, 6, 6]):
            with self.subTest(schedule):
                name = schedule.split()[0]
                for workers in "1", "3":
                    rounds = self.run_world(f"{name}-{workers}", *cohort, "--cohort-schedule", schedule, "--workers", workers)
                    self.assertEqual([entry["clients_drawn"] for entry in rounds], sizes)
                self.assertEqual(self.model(name + "-1"), self.model(name + "-3"))
                self.run_world(name + "-parts", *cohort, "--cohort-schedule", schedule, "--rounds", "2")
                self.train("--resume", name + "-parts", "--rounds", "6")
                self.assertEqual(self.model(name + "-parts"), self.model(name + "-1"))
        self.run_world("all", *cohort, "--cohort-schedule", "linear first=10 rounds=2")
        self.run_world("plain", *cohort)
        self.assertEqual(self.model("all"), self.model("plain"))
        # A smaller cohort has the first of the clients that the larger one draws.
        for few, many in zip(self.cohorts("linear-1").values(), self.cohorts("plain").values()):
            self.assertLessEqual(set(few), set(many))
        for words, sentence in ((["--algorithm", "krum"], "--cohort-schedule first=2: combine krum of --algorithm needs at least 5 updates"),
                                (["--algorithm", "dp-fedavg"], "its noise is that of cohorts of one size"),
                                (["--algorithm", "fedbuff"], "its clients begin one after the other"),
                                (["--sampling", "cyclic"], "groups of unlike sizes would leave clients out; take uniform"),
                                (["--clients-per-round", "1"], "--cohort-schedule: first=2: needs at most --clients-per-round, to which it grows (1)"),
                                (["--cohort-schedule", "step first=1", "--algorithm", "secagg"], "the sum of one client is its update, which nothing hides; write first=2 or more")):
            _, err = self.train(*SMALL, *cohort, "--cohort-schedule", "step first=2", *words, "--out", "refused", code=64)
            self.assertIn(sentence, err)

    @unittest.skipIf(ON_CARD, "masks are for the CPU alone")
    def test_masks_of_a_single_client_are_doubted(self):
        for clients, doubted in ("1", True), ("2", False):
            _, err = self.train(*SMALL, "--clients", "4", "--clients-per-round", clients, "--algorithm", "secagg", "--rounds", "1", "--out", clients)
            self.assertEqual("hides nothing from the server in rounds of one client; give --clients 2 or more" in err, doubted, err)

    def test_a_world_in_which_nothing_happens_has_the_bits_of_fedavg(self):
        cohort = ["--clients-per-round", "5", "--rounds", "2"]
        self.run_world("plain", *cohort)
        for number, options in enumerate((
                ["--sampling", "uniform", "--drop-out", "0", "--stragglers", "0", "--over-selection", "1"],
                ["--sampling", "available probability=1"], ["--deadline", "1000"],
                ["--client-time", "lognormal", "--up-bandwidth", "1e6"])):
            with self.subTest(options):
                self.run_world(str(number), *cohort, *options)
                self.assertEqual(self.model(str(number)), self.model("plain"))

    def test_the_cohort_is_the_same_for_another_training_and_shares_sum_to_1(self):
        for kind in KINDS:
            if kind == "power-of-choice":
                continue  # which looks at what was trained
            with self.subTest(kind):
                sampling = "available probability=0.7" if kind == "available" else kind
                options = ["--sampling", sampling, "--clients-per-round", "5", "--drop-out", "0.2", "--rounds", "4"]
                self.run_world(kind, *options)
                self.run_world(kind + "-other", *options, "--lr", "0.1", "--local-epochs", "2")
                cohorts, others = self.cohorts(kind), self.cohorts(kind + "-other")
                self.assertEqual({r: set(c) for r, c in cohorts.items()}, {r: set(c) for r, c in others.items()})
                for members in cohorts.values():
                    if members:
                        self.assertAlmostEqual(sum(entry["share"] for entry in members.values()), 1, places=8) # as many digits are written

    def test_seconds_and_bytes_are_those_of_who_started_and_who_handed_in(self):
        rounds = self.run_world("run", "--clients-per-round", "6", "--drop-out", "0.3", "--stragglers", "0.5", "--rounds", "5",
                                "--client-time", "constant mean=2", "--down-bandwidth", "1000", "--up-bandwidth", "500")
        model = self.model_bytes("run")
        seconds = 2 + model / 1000 + (model + 16) / 500
        down = up = time = 0
        for entry in rounds:
            trained = entry["clients_trained"]
            self.assertEqual(entry["clients_drawn"], 6)
            self.assertEqual(entry["clients_straggling"], 3)
            self.assertLessEqual(trained, 6 - max(3, entry["clients_dropped_out"]))
            self.assertEqual(entry["down_bytes"], 6 * model)
            self.assertEqual(entry["up_bytes"], trained * (model + 16))
            self.assertAlmostEqual(entry["simulated_seconds"], seconds if trained else 0, places=5)
            down, up, time = down + entry["down_bytes"], up + entry["up_bytes"], time + entry["simulated_seconds"]
            self.assertEqual((entry["down_bytes_total"], entry["up_bytes_total"]), (down, up))
            self.assertAlmostEqual(entry["simulated_seconds_total"], time, places=5)
        self.assertTrue(any(entry["clients_dropped_out"] for entry in rounds))

    def test_over_selection_keeps_as_many_as_wanted_and_the_bytes_of_the_late_count(self):
        rounds = self.run_world("run", "--clients-per-round", "5", "--over-selection", "1.5", "--client-time", "exponential", "--rounds", "4")
        model = self.model_bytes("run")
        for entry in rounds:
            self.assertEqual((entry["clients_drawn"], entry["clients_trained"], entry["clients_late"]), (8, 5, 3))
            self.assertEqual(entry["down_bytes"], 8 * model)
            self.assertEqual(entry["up_bytes"], 8 * (model + 16))
        rounds = self.run_world("part", "--clients", "60", "--clients-per-round", "25", "--over-selection", "2.2", "--client-time", "exponential", "--rounds", "1")
        self.assertEqual(rounds[0]["clients_drawn"], 55)  # in binary 2.2 * 25 is a little more

    def test_partial_work_is_samples_of_fewer_epochs(self):
        self.run_world("run", "--stragglers", "0.5 work=partial", "--local-epochs", "4", "--rounds", "3")
        sizes = {}
        for members in self.cohorts("run").values():
            slow = [entry for entry in members.values() if entry["epochs"] < 4]
            self.assertEqual(len(slow), 6)
            for client, entry in members.items():
                self.assertIn(entry["epochs"], (1, 2, 3, 4))
                self.assertEqual(sizes.setdefault(client, entry["samples"] / entry["epochs"]), entry["samples"] / entry["epochs"])

    def test_a_client_that_does_all_epochs_learns_the_same_whoever_straggles(self):
        options = ["--clients-per-round", "4", "--local-epochs", "3", "--rounds", "1"]
        self.run_world("all", *options)
        self.run_world("some", *options, "--stragglers", "0.5 work=partial")
        all_of_them, some = self.cohorts("all")[1], self.cohorts("some")[1]
        whole = [client for client, entry in some.items() if entry["epochs"] == 3]
        self.assertEqual(len(whole), 2)
        for client in whole:
            self.assertEqual(all_of_them[client]["loss"], some[client]["loss"])

    def test_an_empty_round_leaves_the_model_as_it_was_and_says_so(self):
        out, _ = self.train(*[option for option in SMALL if option != "--quiet"], "--clients-per-round", "1", "--sampling", "poisson",
                            "--rounds", "12", "--out", "run")
        rounds = self.rounds("run")
        empty = [entry for entry in rounds if entry["clients_trained"] == 0]
        self.assertTrue(empty and len(empty) < 12)
        for entry in empty:
            self.assertIsNone(entry["train_loss"])
            self.assertEqual(entry["samples"], 0)
            if entry["round"] > 1:
                self.assertEqual(entry["test_loss"], rounds[entry["round"] - 2]["test_loss"])
        self.assertEqual(out.count("nobody arrived"), len(empty))

    def test_a_run_in_which_nobody_ever_arrives_says_so_at_its_end(self):
        _, err = self.train(*SMALL, "--client-time", "constant", "--deadline", "0.4", "--rounds", "3", "--out", "run")
        self.assertIn("warning: no client arrived in any of the 3 rounds since round 0: the model has learned nothing in them", err)

    def test_a_round_in_which_too_few_are_in_time_is_lost(self):
        rounds = self.run_world("run", "--client-time", "exponential", "--deadline", "0.4", "--rounds", "1")
        self.assertTrue(rounds[0]["abandoned"])
        self.assertEqual(rounds[0]["clients_trained"], 0)
        self.assertEqual(rounds[0]["simulated_seconds"], 0.4)

    @unittest.skipIf(ON_CARD, "server rounds-mean is for the CPU alone")
    def test_a_round_without_a_step_leaves_the_mean_of_rounds_the_model(self):
        """Of weights that have become zeros every loss would be that of guessing."""
        for seed, first in (("3", True), ("1", False)):
            rounds = self.run_world(seed, "--clients-per-round", "1", "--sampling", "poisson", "--algorithm", "server rounds-mean",
                                    "--model", "linear 10", "--rounds", "6", "--seed", seed, "--lr", "0.001")
            self.assertEqual(rounds[0]["clients_trained"] == 0, first)
            self.assertIn(0, [entry["clients_trained"] for entry in rounds])
            losses = [entry["test_loss"] for entry in rounds]
            for before, after in zip(losses, losses[1:]):
                self.assertNotAlmostEqual(after, math.log(10), places=6)
                self.assertAlmostEqual(after, before, delta=0.05)

    def test_power_of_choice_takes_the_largest_losses_and_pays_for_the_others(self):
        """With all clients as candidates, the first round's are those with the largest loss of the first model."""
        rounds = self.run_world("all", "--rounds", "1", "--lr", "1e-30", "--momentum", "0", "--model", "linear 10")
        losses = sorted((-entry["loss"], client) for client, entry in self.cohorts("all")[1].items())
        self.run_world("choice", "--rounds", "1", "--lr", "1e-30", "--momentum", "0", "--model", "linear 10", "--clients-per-round", "4",
                       "--sampling", "power-of-choice candidates=12")
        entry, model = self.rounds("choice")[0], self.model_bytes("choice")
        self.assertEqual(sorted(self.cohorts("choice")[1]), sorted(client for _, client in losses[:4]))
        self.assertEqual(entry["down_bytes"], 12 * model)
        self.assertEqual(entry["up_bytes"], 12 * 16 + 4 * (model + 16))
        self.assertEqual({member["share"] for member in self.cohorts("choice")[1].values()}, {0.25})

    def test_power_of_choice_by_one_batch_is_that_by_all_data_where_all_data_is_one_batch(self):
        choice = ["--rounds", "4", "--clients-per-round", "3", "--sampling"]
        for size, same in (("600", True), ("4", False)):
            whole = self.run_world("data" + size, *choice, "power-of-choice candidates=12", "--batch-size", size)
            part = self.run_world("batch" + size, *choice, "power-of-choice candidates=12 by=batch", "--batch-size", size)
            self.assertEqual([entry["down_bytes"] for entry in whole], [entry["down_bytes"] for entry in part])
            drawn = [[sorted(members) for members in self.cohorts(run + size).values()] for run in ("data", "batch")]
            self.assertEqual(drawn[0] == drawn[1], same)

    def test_power_of_choice_by_the_last_training_takes_those_who_never_trained_and_then_the_largest_losses(self):
        rounds = self.run_world("last", "--rounds", "4", "--clients-per-round", "4", "--sampling",
                                "power-of-choice candidates=12 by=last")
        cohorts = self.cohorts("last")
        known = {client: entry["loss"] for number in (1, 2, 3) for client, entry in cohorts[number].items()}
        self.assertEqual(len(known), 12)
        self.assertEqual(sorted(cohorts[4]), sorted(sorted(known, key=lambda client: -known[client])[:4]))
        self.assertEqual([entry["down_bytes"] for entry in rounds], 4 * [4 * self.model_bytes("last")])
        self.run_world("resumed", "--rounds", "2", "--clients-per-round", "4", "--sampling",
                       "power-of-choice candidates=12 by=last")
        self.train("--resume", "resumed", "--rounds", "4", "--quiet")
        self.assertEqual(self.model("resumed"), self.model("last"))

    def test_clients_drift_together_each_at_its_round_or_there_and_back_and_the_test_set_with_them(self):
        views = {"none": ["--drift", "pixels round=7"], "labels": ["--drift", "labels round=3"], "pixels": ["--drift", "pixels round=3 period=2"],
                 "classes": ["--drift", "classes round=3"], "gradual": ["--drift", "labels round=2 change=gradual period=3"],
                 "recurrent": ["--drift", "pixels round=2 change=recurrent period=2"]}
        concepts = {"none": [0] * 6, "labels": [0, 0, 1, 1, 1, 1], "pixels": [0, 0, 1, 1, 2, 2], "classes": [0, 0, 1, 1, 1, 1],
                    "gradual": [0, 1, 1, 1, 1, 1], "recurrent": [0, 1, 1, 0, 0, 1]}
        models = {}
        plain = self.run_world("plain", "--rounds", "6") and self.model("plain")
        for name, options in views.items():
            with self.subTest(name):
                rounds = self.run_world(name, *options, "--rounds", "6", "--workers", "1")
                self.assertEqual([entry["concept"] for entry in rounds], concepts[name])
                models[name] = self.model(name)
                self.run_world(name + "-3", *options, "--rounds", "4", "--workers", "3")
                self.train("--resume", name + "-3", "--rounds", "6", "--quiet")
                self.assertEqual(self.model(name + "-3"), models[name])
        self.assertEqual(models["none"], plain)
        self.assertEqual(len(set(models.values())), len(models))
        if ON_CARD: # a replay computes on the CPU
            return
        replayed = subprocess.run([SOUNDER, "replay", "gradual", "--round", "4", "--client", "5"], cwd=self.folder.name, text=True,
                                  capture_output=True, timeout=DEADLINE)
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertIn("as in the run", replayed.stdout)

    def test_clients_that_drift_in_classes_hold_what_the_next_one_held(self):
        self.run_world("run", "--rounds", "4", "--drift", "classes round=3")
        before, after = [{client: entry["samples"] for client, entry in self.cohorts("run")[number].items()} for number in (2, 3)]
        self.assertEqual(after, {client: before[(client + 1) % 12] for client in before})

    def test_noise_of_features_grows_with_the_clients_number_and_leaves_the_first_as_it_is(self):
        losses = {}
        for name, options in (("plain", []), ("zero", ["--client-noise", "gaussian 0"]), ("gaussian", ["--client-noise", "gaussian 0.5"]),
                              ("block", ["--client-noise", "block 0.5"])):
            self.run_world(name, *options, "--rounds", "1", "--model", "linear 10")
            losses[name] = {client: entry["loss"] for client, entry in self.cohorts(name)[1].items()}
        self.assertEqual(self.model("zero"), self.model("plain"))
        self.assertAlmostEqual(losses["gaussian"][0], losses["plain"][0], places=5)
        for client in range(1, 12):
            self.assertNotAlmostEqual(losses["gaussian"][client], losses["plain"][client], places=5)
        for client in range(12):
            self.assertNotAlmostEqual(losses["block"][client], losses["plain"][client], places=5)

    def test_all_of_it_at_once_has_the_same_bits_for_any_number_of_workers_after_kills_and_resume(self):
        self.run_world("1", *WORLD, "--workers", "1")
        self.run_world("3", *WORLD, "--workers", "3")
        self.assertEqual(self.model("1"), self.model("3"))
        self.assertEqual(self.simulated("1"), self.simulated("3"))
        self.assertTrue(any(row[2] for row in self.simulated("1")) and any(row[4] for row in self.simulated("1")))
        for attempt in range(10):  # one that is over before a worker was seen says nothing
            killed = f"killed-{attempt}"
            process = self.start(*SMALL, *WORLD, "--workers", "3", "--on-worker-death", "respawn", "--out", killed)
            kills = self.kill_workers_during(process, 0.004, random.Random(1), 60)
            self.finish(process)
            self.assertEqual(self.model(killed), self.model("1"))
            if kills > 0:
                break
        self.assertGreater(kills, 0)
        shorter = WORLD[:-1] + ["3"]
        self.run_world("resumed", *shorter, "--workers", "2")
        self.train("--resume", "resumed", "--rounds", "6", "--quiet")
        self.assertEqual(self.model("resumed"), self.model("1"))
        self.assertEqual(self.simulated("resumed"), self.simulated("1"))

    def test_two_nodes_draw_and_choose_as_one(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        self.run_world("one", *WORLD, "--workers", "2")
        subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *merged(*SMALL, *WORLD, "--workers", "1", "--out", self.path("two"))],
                       env=ENVIRONMENT, check=True, timeout=DEADLINE, stdout=subprocess.DEVNULL)
        self.assertEqual(self.model("one"), self.model("two"))
        self.assertEqual(self.simulated("one"), self.simulated("two"))

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def test_a_file_says_how_long_each_client_takes(self):
        pace = self.write("pace", "# client, microseconds, bytes\n" + "".join(f"{k}, {1000 * (k + 1)}, {0 if k else 500}\n" for k in range(12)))
        rounds = self.run_world("run", "--client-time", "file:" + pace, "--clients-per-round", "1", "--sampling", "cyclic",
                                "--local-epochs", "2", "--rounds", "12")
        model = self.model_bytes("run")
        for k, entry in enumerate(rounds):
            (client,) = self.cohorts("run")[k + 1]
            self.assertEqual(client, k)
            seconds = self.cohorts("run")[k + 1][client]["samples"] * (k + 1) / 1000 + (0 if k else (2 * model + 16) / 500)
            self.assertAlmostEqual(entry["simulated_seconds"], seconds, places=5)

    def test_a_file_says_when_clients_are_there_and_the_clock_waits_for_the_next(self):
        trace = self.write("trace", "3 0 2\n4 0 1\n\n7 10 11.5\n")
        rounds = self.run_world("run", "--sampling", "available:" + trace, "--clients-per-round", "2", "--rounds", "6",
                                "--workers", "2")
        self.assertEqual([sorted(self.cohorts("run")[r]) for r in range(1, 7)], [[3, 4], [3], [], [7], [7], []])
        self.assertEqual([entry["simulated_seconds_total"] for entry in rounds], [1, 2, 10, 11, 12, 12])
        self.run_world("resumed", "--sampling", "available:" + trace, "--clients-per-round", "2", "--rounds", "3")
        self.train("--resume", "resumed", "--rounds", "6", "--quiet")
        self.assertEqual(self.model("resumed"), self.model("run"))
        self.write("trace", "3 0 3\n")
        _, err = self.train("--resume", "resumed", "--rounds", "7", code=65)
        self.assertIn("--sampling available is not what the run began with", err)

    def test_the_clock_waits_for_no_other_client_while_one_is_there(self):
        rounds = self.run_world("run", "--sampling", "available probability=0.5:" + self.write("trace", "3 0 1000\n4 500 1000\n"), "--rounds", "8")
        self.assertEqual({entry["simulated_seconds"] for entry in rounds if entry["clients_drawn"] == 0}, {0})
        self.assertLess(rounds[-1]["simulated_seconds_total"], 8)

    @unittest.skipIf(ON_CARD, "server rounds-mean is for the CPU alone")
    def test_learned_weights_of_clients_without_samples_go_to_the_others(self):
        self.run_world("run", "--data", "synthetic:1x8x8:120:60", "--clients", "24", "--partition", "dirichlet form=plain minimum=0", "--alpha", "0.05", "--drift", "classes round=2 period=1",
                       "--algorithm", "afl", "--rounds", "4")
        for members in self.cohorts("run").values():
            self.assertLess(len(members), 24)
            self.assertAlmostEqual(sum(entry["share"] for entry in members.values()), 1, 6)

    def test_a_file_that_does_not_fit_is_refused_with_its_line(self):
        for text, sentence in (("0 1 2\n1 x 2\n", ":2: not a number from 0 on"), ("0 1\n", ":1: fewer than three numbers"),
                               ("0 1 2 3 4 5\n", ":1: more than five numbers"), ("0 1 2 3\n1 1 2\n", ":2: not as many numbers as the lines before"),
                               ("0 1 2 1e10\n", ":1: more than 10^9 watts"), ("12 1 2\n", ":1: no number of a client"),
                               ("0.5 1 2\n", ":1: no number of a client"), ("0 1 2\n0 1 2\n", ":2: a second line of this client"),
                               ("0 1 2\n", "client 1 has no line"), ("0 -1 2\n", ":1: not a number"), ("0 inf 2\n", ":1: not a number")):
            _, err = self.train(*SMALL, "--client-time", "file:" + self.write("bad", text), "--out", "none", code=65)
            self.assertIn(sentence, err)
        _, err = self.train(*SMALL, "--client-time", "file", code=64)
        self.assertIn("--client-time file: needs a file; write file:FILE", err)
        _, err = self.train(*SMALL, "--sampling", "available:" + self.path("missing"), code=66)
        self.assertIn("missing cannot be opened", err)

    def test_what_algorithms_without_cohorts_cannot_do_is_refused(self):
        for algorithm in ("ssgd", "hogwild"):
            for option in (["--sampling", "poisson"], ["--drop-out", "0.1"], ["--client-time", "lognormal"]):
                _, err = self.train("--algorithm", algorithm, *option, code=64)
                self.assertEqual(err, f"sounder: error: {' '.join(option)}: only used with an --algorithm with rounds (not ssgd, hogwild); add that or leave "
                                      f"{option[0]} out\n")


if __name__ == "__main__":
    unittest.main(argv=["test_worlds.py"] + __import__("sys").argv[2:], verbosity=2)
