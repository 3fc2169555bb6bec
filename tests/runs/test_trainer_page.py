"""Trainers and aggregators in what is looked at afterwards: the report, sounder runs, sounder top, and the run's last words.

Usage: test_trainer_page.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import html, json, os, re, subprocess, sys, unittest

from runs import DEADLINE
from test_look import CHART_JS, CHROMIUM, Look, told_of_pages
from trainers import JOB, LAYERS, THREAD, TrainerCase

MEAN = '''
import sys
sys.path.insert(0, PACKAGE)
import sounder
sounder.aggregate(lambda updates, turn: turn.shares @ updates)
'''


class Pages(TrainerCase, Look):
    def faulty(self, run, *arguments):
        """A run in which the first turn of client 1 is done again."""
        return self.train(*JOB, "--trainer", f"{sys.executable} trainer.py", "--trainer-option", "fault=die once=true", "--out", run, *arguments)

    def report(self, *runs):
        self.sounder("report", *runs, "-o", "page.html")
        return self.data_of("page.html")["runs"]

    def rows(self):
        """What a browser shows of the programs: {first cell: the others}."""
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.path('chromium')}",
                               "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", "file://" + self.path("page.html")],
                              text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(told_of_pages(done.stderr), [])
        (section,) = re.findall(r'<section id="programs".*?</section>', done.stdout, re.S)
        rows = [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in re.findall(r"<tr>(.*?)</tr>", section, re.S)]
        return {row[0]: row[1:] for row in rows if row}

    def test_the_report_has_the_trainer_its_faults_and_its_share_of_the_time(self):
        self.faulty("run", "--quiet")
        (told,) = self.report("run")
        trainer = told["trainer"]
        self.assertEqual((trainer["command"], trainer["options"], trainer["threads"]), (f"{sys.executable} trainer.py", "fault=die once=true", 1))
        self.assertEqual((trainer["start"], trainer["asked"], trainer["repeats"], trainer["restarts"]), ("fork", "fork", None, 1))
        (fault,) = trainer["faults"]
        self.assertEqual((fault["round"], fault["client"], fault["what"]), (1, 1, "it was killed by signal 9 (Killed)"))
        clients = [line for line in self.metrics("run") if line["type"] == "client"]
        within, turns = sum(line["trainer_seconds"] for line in clients), sum(line["seconds"] for line in clients)
        workers = sum(2 * line["seconds"] for line in self.rounds("run"))
        self.assertAlmostEqual(trainer["outside"], 1 - within / turns, places=4)
        self.assertAlmostEqual(trainer["in_trainers"], within / workers, places=4)
        self.assertTrue(0 < trainer["outside"] < 1 and 0 < trainer["in_trainers"] < 1, trainer)
        self.assertNotIn("aggregator", told)

    def test_the_summary_has_the_memory_of_a_trainer_and_how_trainers_started(self):
        self.run_with("fork")
        self.run_with("each", "--trainer-start", "each")
        fork, each = (self.metrics(run)[-1] for run in ("fork", "each"))
        self.assertEqual((fork["trainer_start"], each["trainer_start"]), ("fork", "each"))
        self.assertTrue(100_000 < fork["peak_memory_bytes"]["trainer"] < each["peak_memory_bytes"]["trainer"], (fork, each))

    def test_trainers_that_could_not_be_forked_are_told_as_starts_of_their_own(self):
        with open(self.path("trainer.py")) as file:
            text = file.read()
        self.write("threads.py", THREAD + text)
        self.run_with("run", script="threads.py")
        (told,) = self.report("run")
        self.assertEqual((told["trainer"]["start"], told["trainer"]["asked"]), ("each", "fork"))

    def test_a_run_without_a_summary_has_a_page_all_the_same(self):
        self.faulty("run", "--quiet")
        lines = [line for line in self.metrics("run") if line["type"] != "summary"]
        with open(self.path("run/metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (told,) = self.report("run")
        self.assertEqual((told["trainer"]["start"], told["trainer"]["memory_bytes"], told["trainer"]["restarts"]), (None, None, 1))

    def test_a_run_of_the_engine_has_neither_program(self):
        self.train(*JOB, "--model", LAYERS, "--quiet", "--out", "run")
        self.assertFalse({"trainer", "aggregator"} & set(self.report("run")[0]))
        self.assertFalse({"trainer_start"} & set(self.metrics("run")[-1]))
        self.assertNotIn("restarts", self.sounder("runs", "run"))
        self.assertNotIn("restarted", self.sounder("top", "run", "--once"))

    @unittest.skipUnless(CHROMIUM and os.path.exists(CHART_JS), "there is no chromium, or no libjs-chart.js: no browser has opened the page")
    def test_a_browser_shows_both_programs(self):
        self.write("mean.py", MEAN)
        self.faulty("run", "--quiet", "--aggregator", f"{sys.executable} mean.py", "--aggregator-keeps", "2")
        (told,) = self.report("run")
        self.assertEqual(told["aggregator"], {"command": f"{sys.executable} mean.py", "keeps": 2})
        rows = self.rows()
        self.assertEqual(rows["options"], ["fault=die once=true"])
        self.assertEqual(rows["trainers started"], ["as forks of one program"])
        self.assertRegex(rows["restarts"][0], r"^1, each for a turn that was done again: [\d.]+ s lost$")
        self.assertRegex(rows["time outside the trainer"][0], r"^[\d.]+ % of the turns' time; trainers worked in [\d.]+ % of the workers' time in rounds, ")
        self.assertRegex(rows["private memory of a trainer"][0], r"^[\d.]+ MB, the largest at the end$")
        self.assertEqual((rows["1"][0], rows["1"][3]), ("1", "it was killed by signal 9 (Killed)"))
        self.assertEqual((rows["command"], rows["keeps"]), ([f"{sys.executable} mean.py"], ["2 vectors of the model's size"]))

    def test_restarts_are_in_the_last_words_in_the_list_of_runs_and_in_top(self):
        out, _ = self.faulty("faulty")
        self.assertIn("\n1 turn was done again after a fault of the trainer; its output is in faulty/trainer.log\n", out)
        self.assertTrue(os.path.exists(self.path("faulty/trainer.log")))
        out, _ = self.train(*JOB, "--trainer", f"{sys.executable} trainer.py", "--out", "sound")
        self.assertNotIn("done again", out)
        rows = json.loads(self.sounder("runs", "faulty", "sound", "--format", "json"))
        self.assertEqual([row["trainer_restarts"] for row in rows], [1, 0])
        self.assertNotIn("restarts", self.sounder("runs", "sound"))
        self.assertIn("trainers restarted 1", self.sounder("top", "faulty", "--once"))


if __name__ == "__main__":
    unittest.main(argv=["test_trainer_page.py"] + sys.argv[3:], verbosity=2)
