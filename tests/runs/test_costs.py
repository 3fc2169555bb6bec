"""What a run lacks and costs: clients that never arrived, joules.

Usage: test_costs.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, RunCase

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
