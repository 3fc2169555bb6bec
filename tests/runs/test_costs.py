"""What a run lacks and costs: clients that never arrived, joules.

Usage: test_costs.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, RunCase, wait_until

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "softmax", "--clients", "20", "--clients-per-round", "5", "--device", "cpu"]


class Costs(RunCase):
    def said(self, *arguments, code=0, **environment):
        done = subprocess.run([SOUNDER, *map(str, arguments)], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rounds(self, run):
        return [line for line in self.metrics(run) if line["type"] == "round"]

    def summary(self, run):
        return self.metrics(run)[-1]


class Budget(Costs):
    def test_a_run_ends_after_the_round_that_reaches_its_budget_and_a_resumed_one_with_the_same(self):
        world = [*SMALL, "--up-bandwidth", 1e5, "--client-time", "lognormal", "--quiet", "--eval-every", 7]
        self.said("train", *world, "--rounds", 6, "--out", "free")
        each = self.rounds("free")
        seconds, sent = each[3]["simulated_seconds_total"], each[4]["down_bytes_total"] + each[4]["up_bytes_total"]
        self.said("train", *world, "--rounds", 50, "--out", "run", "--until", f"simulated-seconds={seconds}")
        self.assertEqual((len(self.rounds("run")), self.summary("run")["rounds"]), (4, 4))
        self.assertIsNotNone(self.rounds("run")[-1]["test_accuracy"])  # which --eval-every would leave out
        told = self.said("train", "--resume", "run", "--until", f"bytes={sent} joules=5", code=64)
        self.assertIn("--until joules=5: no client's watts are known", told)
        self.said("train", "--resume", "run", "--until", f"bytes={sent}")
        self.assertIn("has done its 5 rounds", self.said("train", "--resume", "run", "--quiet=false"))
        self.assertEqual([line["model_xxh3"] for line in self.rounds("run")], [line["model_xxh3"] for line in each[:5]])
        told = self.said("train", *SMALL, "--rounds", 3, "--until", "seconds=0.000001", "--out", "wall")
        self.assertIn("so that the run does not repeat", told)
        self.assertIn("round 1 reaches seconds=0.000001: the run ends", told)
        self.assertIn("2 rounds did not reach --until bytes=1e12", self.said("train", *SMALL, "--rounds", 2, "--until", "bytes=1e12", "--out", "far"))
        for until, why in (("1e6", "write it as NAME=VALUE"), ("tokens=5", "only a --trainer counts tokens"), ("byte=5", "did you mean bytes?")):
            self.assertIn(why, self.said("train", *SMALL, "--rounds", 2, "--until", until, code=64))
        self.assertIn("needs --rounds", self.said("train", *SMALL, "--until", "bytes=5", code=64))


class Retime(Costs):
    def rows(self, run, *options):
        return json.loads(self.said("retime", run, *options, "--format", "json"))

    def test_other_links_and_speeds_are_those_of_fresh_runs_to_the_microsecond(self):
        job = [*SMALL, "--rounds", 4, "--quiet", "--seed", 3, "--drop-out", 0.2, "--target", "loss=9"]
        links, times = (100, 2e3, 3e4, 4e5, 5e6, 6e7), ("constant", "lognormal mean=2", "lognormal-per-sample mean=0.01 noise=0.2")
        kinds = (["--stragglers", "0.4 work=partial", "--local-epochs", 3], ["--algorithm", "scaffold", "--down-bandwidth", 1000], ["--algorithm", "streaming-diloco H=6 fragments=1"])
        for kind, time in zip(kinds, times):
            self.said("train", *job, *kind, "--out", kind[1])
            own, *rows = self.rows(kind[1], "--up-bandwidth", ",".join(map(str, links)), "--client-time", time)
            self.assertEqual(own["simulated_seconds"], self.rounds(kind[1])[-1]["simulated_seconds_total"])
            self.assertEqual([row["up-bandwidth"] for row in rows], list(links))
            for link, row in list(zip(links, rows))[:: 1 if kind is kinds[0] else 5]:
                fresh = f"{kind[1]}-{link}"
                self.said("train", *job, *kind, "--up-bandwidth", link, "--client-time", time, "--out", fresh)
                told = self.summary(fresh)
                self.assertEqual(row["simulated_seconds"], self.rounds(fresh)[-1]["simulated_seconds_total"])
                self.assertEqual(row["simulated_seconds_to_target"], told["simulated_seconds_to_target"])
                self.assertEqual(told["model_sha256"], self.summary(kind[1])["model_sha256"])
                self.assertEqual(self.rows(fresh)[0], row)  # what a run tells of itself
            self.assertTrue(0 < rows[0]["utilisation_percent"] < rows[-1]["utilisation_percent"] <= 100)

    def test_utilisation_is_the_training_of_all_clients_by_all_their_seconds(self):
        self.said("train", *SMALL, "--rounds", 2, "--quiet", "--up-bandwidth", 2616, "--out", "run")  # 2,600 bytes of weights and 16 of a report
        self.assertEqual(self.rounds("run")[0]["client_up_bytes"], 2616)
        (row,) = self.rows("run")
        self.assertEqual((row["simulated_seconds"], row["utilisation_percent"]), (4, 50))

    def test_runs_that_the_clock_decides_are_refused_by_name(self):
        with open(self.path("there.csv"), "w") as file:
            file.writelines(f"{client} 0 1000\n" for client in range(20))
        for options, why in ((["--algorithm", "fedbuff K=2"], "schedule buffered of its --algorithm"), (["--deadline", 9], "its --deadline"),
                             (["--over-selection", 1.2], "its --over-selection"), (["--sampling", "available:there.csv"], "its --sampling available:FILE")):
            self.said("train", *SMALL, "--rounds", 1, "--quiet", *options, "--out", f"run{options[0]}")
            self.assertIn(why, self.said("retime", f"run{options[0]}", "--up-bandwidth", 5, code=64))
        self.said("train", *SMALL[:4], "--workers", 2, "--algorithm", "hogwild", "--rounds", 1, "--quiet", "--out", "wild")
        self.assertIn("draws no clients", self.said("retime", "wild", code=64))
        self.said("train", *SMALL, "--rounds", 2, "--quiet", "--out", "edited")
        with open(self.path("edited", "metrics.jsonl")) as file:
            text = file.read()
        with open(self.path("edited", "metrics.jsonl"), "w") as file:
            file.write(text.replace('"simulated_seconds":1.0', '"simulated_seconds":1.5').replace('"simulated_seconds":1,', '"simulated_seconds":1.5,'))
        self.assertIn("took 1.500000 simulated seconds by its record and 1.000000", self.said("retime", "edited", code=65))


class Missing(Costs):
    def missing(self, run):
        return [line["round"] for line in self.rounds(run) if line["clients_trained"] < line["clients_drawn"]]

    def test_the_end_tells_how_many_clients_never_arrived_and_in_which_rounds(self):
        told = self.said("train", *SMALL, "--rounds", 6, "--drop-out", 0.2, "--out", "run")
        lines = self.rounds("run")
        dropped = sum(line["clients_dropped_out"] for line in lines)
        self.assertGreater(dropped, 0)
        rounds = ", ".join(map(str, self.missing("run")))
        self.assertIn(f"\n{dropped} of 30 drawn clients never arrived ({dropped} dropped out); round{'s' * (',' in rounds)} {rounds}\n", told)

    def test_a_run_that_is_resumed_tells_of_all_its_rounds(self):
        self.said("train", *SMALL, "--rounds", 3, "--drop-out", 0.4, "--out", "run")
        told = self.said("train", "--resume", "run", "--rounds", 4)
        self.assertIn(" of 20 drawn clients never arrived (", told)
        self.assertIn(f"; rounds {', '.join(map(str, self.missing('run')))}\n", told)

    def test_every_cause_is_named(self):
        told = self.said("train", *SMALL, "--rounds", 20, "--drop-out", 0.1, "--deadline", 1, "--client-time", "lognormal", "--out", "run")
        lines = self.rounds("run")
        causes = [sum(line[key] for line in lines) for key in ("clients_dropped_out", "clients_late")]
        lost = sum(line["clients_drawn"] - line["clients_dropped_out"] - line["clients_late"] for line in lines if line["abandoned"])
        missing = sum(line["clients_drawn"] - line["clients_trained"] for line in lines)
        self.assertIn(f"\n{missing} of 100 drawn clients never arrived ({causes[0]} dropped out, {causes[1]} late, {lost} lost as too few others arrived); "
                      "rounds ", told)
        self.assertRegex(told, r"; rounds (\d+, ){7}\d+ and \d+ more\n")
        told = self.said("train", *SMALL, "--rounds", 2, "--stragglers", 0.4, "--out", "stragglers")
        self.assertRegex(told, r"\n(\d) of 10 drawn clients never arrived \(\1 straggled\); rounds")

    def test_nothing_is_said_if_all_arrive(self):
        for options in ([], ["--stragglers", "0.4 work=partial", "--local-epochs", "2"], ["--algorithm", "hogwild", "--clients-per-round", "20"]):
            options = options if "hogwild" not in options else ["--algorithm", "hogwild", "--clients", "2", "--clients-per-round", "2", "--workers", "2"]
            words = SMALL if "hogwild" not in options else SMALL[:4] + SMALL[-2:]
            self.assertNotIn("never arrived", self.said("train", *words, *options, "--rounds", 2, "--out", f"run{len(options)}"))


class Joules(Costs):
    def setUp(self):
        super().setUp()
        self.write("clients", "".join(f"{k} {1000 * (1 + k % 3)} {10 ** (4 + k % 3)} {2 + k % 2} 1.5\n" for k in range(20)))

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def energy(self, run):
        return [(line["training_joules"], line["link_joules"]) for line in self.rounds(run)]

    def test_rounds_have_the_joules_of_their_clients_and_totals_survive_a_resumption(self):
        told = self.said("train", *SMALL, "--client-time", "file:clients", "--rounds", 4, "--out", "run")
        for number, (training, links) in enumerate(self.energy("run"), 1):
            clients = [line["client"] for line in self.metrics("run") if line["type"] == "client" and line["round"] == number]
            self.assertAlmostEqual(training, sum((2 + k % 2) * 1e-6 * 1000 * (1 + k % 3) * 20 for k in clients))  # 20 samples each
            self.assertAlmostEqual(links, sum(1.5 * (2600 + 2616) / 10 ** (4 + k % 3) for k in clients))
        last = self.rounds("run")[-1]
        self.assertAlmostEqual(last["training_joules_total"], sum(training for training, _ in self.energy("run")))
        self.assertAlmostEqual(last["link_joules_total"], sum(links for _, links in self.energy("run")))
        self.assertIn(f"\nsimulated energy: {last['training_joules_total']:.4g} J of training, {last['link_joules_total']:.4g} J of links\n", told)
        self.said("train", *SMALL, "--client-time", "file:clients", "--rounds", 2, "--out", "resumed")
        self.said("train", "--resume", "resumed", "--rounds", 4)
        self.assertEqual(self.energy("resumed"), self.energy("run"))
        self.assertEqual(self.rounds("resumed")[-1]["link_joules_total"], last["link_joules_total"])

    def test_a_buffered_run_counts_each_training_once(self):
        self.said("train", *SMALL, "--client-time", "file:clients", "--algorithm", "fedbuff K=3", "--rounds", 5, "--out", "run")
        drawn = sum(line["clients_drawn"] for line in self.rounds("run"))
        trained = [line["client"] for line in self.metrics("run") if line["type"] == "client"]
        self.assertEqual(len(trained), drawn)
        self.assertAlmostEqual(self.rounds("run")[-1]["training_joules_total"], sum((2 + k % 2) * 1e-6 * 1000 * (1 + k % 3) * 20 for k in trained))

    def test_links_cost_joules_for_candidates_losses_and_masks_too(self):
        link = lambda k, sent: 1.5 * sent / 10 ** (4 + k % 3)
        for run, options in (("chosen", ["--sampling", "power-of-choice candidates=20"]), ("weighed", ["--algorithm", "qfedavg"])):
            self.said("train", *SMALL, "--client-time", "file:clients", *options, "--rounds", 2, "--out", run)
            for number, (_, links) in enumerate(self.energy(run), 1):
                trained = [line["client"] for line in self.metrics(run) if line["type"] == "client" and line["round"] == number]
                asked = range(20) if run == "chosen" else trained
                self.assertAlmostEqual(links, sum(link(k, 2600 + 16) for k in asked) + sum(link(k, 2600 + 16) for k in trained))
        self.said("train", *SMALL, "--client-time", "file:clients", "--algorithm", "secagg", "--rounds", 1, "--out", "masked")
        trained = [line["client"] for line in self.metrics("masked") if line["type"] == "client"]
        sent = self.rounds("masked")[0]["up_bytes"] / len(trained)  # with a message to each neighbour, for its masks
        self.assertAlmostEqual(self.energy("masked")[0][1], sum(link(k, 2600 + sent) for k in trained))

    def test_tables_and_figures_have_joules_and_their_cost_to_the_target(self):
        self.said("sweep", *SMALL, "--client-time", "file:clients", "--rounds", 3, "--target", "accuracy=0.01", "--seed", "1..2", "--out", "s")
        for row in json.loads(self.said("runs", "s", "--format", "json")):
            rounds = self.rounds(row["run"])
            total = lambda line: line["training_joules_total"] + line["link_joules_total"]
            self.assertAlmostEqual(row["joules"], total(rounds[-1]))
            self.assertAlmostEqual(row["joules_to_target"], total(rounds[row["rounds_to_target"] - 1]))
        self.said("report", "s", "--svg", "figures", "--axis", "joules")
        with open(self.path("figures", "accuracy.svg")) as file:
            self.assertIn("simulated joules, training and links", file.read())

    def test_without_watts_there_are_no_joules(self):
        self.write("paces", "".join(f"{k} 1000 0\n" for k in range(20)))
        told = self.said("train", *SMALL, "--client-time", "file:paces", "--rounds", 2, "--out", "run")
        self.assertNotIn("energy", told)
        self.assertNotIn("training_joules", self.rounds("run")[0])
        self.assertNotIn("joules", json.loads(self.said("runs", "run", "--format", "json"))[0])


class Measured(Costs):
    """A stand-in for /sys/class/powercap: the sandbox of a test has no counters."""

    def counter(self, number, name, microjoules, wrap=262143328850):
        folder = self.path("powercap", f"intel-rapl:{number}")
        os.makedirs(folder, exist_ok=True)
        for file, text in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", wrap)):
            with open(os.path.join(folder, file), "w") as out:
                out.write(f"{text}\n")

    def test_the_joules_are_in_the_summary_the_table_and_the_last_lines(self):
        self.counter("0", "package-0", 1_000_000)
        self.counter("0:0", "core", 5_000_000)  # a part of the package
        self.counter("0:1", "dram", 9_000_000, wrap=10_000_000)
        self.counter("1", "psys", 1_000_000)  # all of it again
        self.counter("2", "package-1", 9_000_000, wrap=0)  # does not say where it begins again
        process = subprocess.Popen([SOUNDER, "train", *SMALL, "--rounds", "100000", "--target", "loss=0.0001", "--measure-energy", "--checkpoint-every", "0",
                                    "--patience", "300", "--out", "run"], cwd=self.folder.name, text=True, stdout=subprocess.PIPE,
                                   env={**os.environ, "SOUNDER_POWERCAP": self.path("powercap")})
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("run", "metrics.jsonl")) and len(self.rounds("run")) > 2))
        for counter in (("0", "package-0", 3_500_000), ("0:0", "core", 7_000_000), ("0:1", "dram", 500_000, 10_000_000), ("1", "psys", 8_000_000),
                        ("2", "package-1", 1_000_000, 0)):
            self.counter(*counter)
        told, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("\nmeasured energy: 4 J of this machine, other programs included\n", told)  # 2.5 + (10 - 9 + 0.5)
        self.assertAlmostEqual(self.summary("run")["measured_joules"], 4)
        self.assertAlmostEqual(json.loads(self.said("runs", "run", "--format", "json"))[0]["measured_joules"], 4)

    def test_a_machine_without_counters_trains_and_says_why_nothing_is_measured(self):
        os.mkdir(self.path("powercap"))
        told = self.said("train", *SMALL, "--rounds", 1, "--measure-energy", "--out", "run", SOUNDER_POWERCAP=self.path("powercap"))
        self.assertIn("warning: --measure-energy: nothing is measured: ", told)
        self.assertIn("/powercap has no counter of a processor; most virtual machines have none\n", told)
        self.assertNotIn("measured_joules", self.summary("run"))
        self.assertNotIn("measure", self.said("train", *SMALL, "--rounds", 1, "--out", "other"))

    @unittest.skipIf(os.geteuid() == 0, "root may read every file")
    def test_counters_that_may_not_be_read_are_told_with_a_remedy(self):
        self.counter("0", "package-0", 1)
        os.chmod(self.path("powercap", "intel-rapl:0", "energy_uj"), 0)
        told = self.said("train", *SMALL, "--rounds", 1, "--measure-energy", "--out", "run", SOUNDER_POWERCAP=self.path("powercap"))
        self.assertIn("/intel-rapl:*/energy_uj: Permission denied; chmod a+r these files", told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
