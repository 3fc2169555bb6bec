"""How tools/bench/run goes on when sides fail and when time runs short. Usage: test_measure.py"""
import importlib.machinery, importlib.util, os, subprocess, sys, unittest, unittest.mock

from harness import readme, record
from harness.commands import Failed, OutOfTime, TimeLimit, peer_environment, run
from harness.cores import CoreCount, processor_seconds
from harness.measure import Row, measure


class Nets(unittest.TestCase):
    nets = importlib.util.module_from_spec(importlib.util.spec_from_loader("nets", importlib.machinery.SourceFileLoader(
        "nets", os.path.join(os.path.dirname(os.path.realpath(__file__)), "nets"))))
    nets.__loader__.exec_module(nets)

    def test_sides_train_in_turn_and_the_median_of_their_pairs_is_taken(self):
        class Side:
            def __init__(self, *seconds):
                self.seconds = iter(seconds)

            def train(self, batches):
                return next(self.seconds)
        measured = self.nets.measure([Side(9, 9, 1.0, 2.0, 4.0), Side(9, 9, 3.0, 2.0, 8.0)], 3)
        self.assertEqual(measured, {"rates": [16, 32 / 3], "ratios": [2.0]})

    def test_a_loser_is_bold_and_what_is_not_read_says_why(self):
        def read(ratio):
            return {"layers": "softmax", "rates": [200.4, 100], "ratios": [ratio]}
        self.assertEqual(self.nets.line_of("a", read(0.964)), "| a | 200 | 100 | **0.96x** | read |")
        self.assertEqual(self.nets.line_of("a", read(1.03)), "| a | 200 | 100 | 1.03x, level | read |")
        self.assertEqual(self.nets.line_of("a", {"refusal": "up: Sounder has no Up; it has others"}), "| a | | | | not read: up: Sounder has no Up |")
        self.assertEqual(self.nets.summary([read(0.9), read(1.5), {"refusal": "no"}]),
                         "2 of 3 are read; of 2 measured 1 are slower, 0 level, 1 at 1.5x or better.")


class Measure(unittest.TestCase):
    def measured(self, *runs, pairs=3, is_late=lambda: False):
        row = Row("row", "title", "unit", list(runs))
        measure(row, pairs, lambda sentence: None, is_late)
        return row

    def ours(self):
        return {"A": 2.0}

    def theirs(self):
        return {"B": 1.0}

    def failing_after(self, runs, problem):
        """theirs, which does so often and then fails."""
        counts = iter(range(runs))

        def run():
            if next(counts, None) is None:
                raise problem("B: no more")
            return self.theirs()
        return run

    def test_every_side_is_measured_in_each_pair(self):
        row = self.measured(self.ours, self.theirs)
        self.assertEqual(row.figures, {"A": [2.0] * 3, "B": [1.0] * 3})
        self.assertEqual(row.ratio_of_medians("B"), 2.0)

    def test_a_side_that_fails_is_left_out_with_a_sentence(self):
        row = self.measured(self.ours, self.failing_after(1, Failed))
        self.assertEqual(row.figures, {"A": [2.0] * 3})
        self.assertEqual(list(row.problems.values()), ["row: B: no more"])

    def test_a_row_whose_subject_fails_is_empty(self):
        self.assertEqual(self.measured(self.failing_after(0, Failed), self.ours).figures, {})
        self.assertEqual(self.measured(self.failing_after(0, OutOfTime), self.ours).figures, {})

    def test_a_row_without_sides_says_which_python_it_lacks(self):
        self.assertEqual(list(self.measured().problems.values()),
                         ["row: left out, since its program runs in a Python with NumPy and PyTorch, and none was found"])

    def test_when_the_time_is_over_the_whole_pairs_stay(self):
        row = self.measured(self.ours, self.failing_after(2, OutOfTime))
        self.assertEqual(row.figures, {"A": [2.0] * 2, "B": [1.0] * 2})
        self.assertEqual(row.problems, {})

    def test_a_late_row_does_with_one_pair(self):
        self.assertEqual(self.measured(self.ours, self.theirs, is_late=lambda: True).figures, {"A": [2.0], "B": [1.0]})

    def test_time_is_without_end_until_it_is_limited(self):
        limit = TimeLimit()
        self.assertEqual(limit.left(), float("inf"))
        limit.start(0)
        self.assertEqual(limit.left(), 0)


class Cores(unittest.TestCase):
    def test_the_busiest_second_counts(self):
        count = CoreCount()
        for tenth in range(31):  # one core, but two from 1.0 to 2.2 s
            count.note(tenth / 10, tenth / 10 + min(max(tenth / 10 - 1, 0), 1.2))
        self.assertAlmostEqual(count.most(), 2)
        self.assertTrue(count.is_more_than(1))
        self.assertFalse(count.is_more_than(2))

    def test_one_core_and_a_short_burst_are_one_core(self):
        count = CoreCount()
        for tenth in range(31):
            count.note(tenth / 10, tenth / 10 + min(max(tenth / 10 - 1, 0), 0.2))
        self.assertFalse(count.is_more_than(1))
        count = CoreCount()
        count.note(0, 0)
        count.note(0.5, 4)
        self.assertEqual(count.most(), 0)  # too short to tell

    def test_threads_and_processes_that_a_command_starts_count_also_when_they_have_ended(self):
        burn = "import time\nwhile time.process_time() < 0.3: pass\n"
        program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\nprint('burnt', flush=True)\n{burn}print('both', flush=True)\ninput()"
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "burnt\n")
            self.assertGreater(processor_seconds(process.pid), 0.28)
            self.assertEqual(process.stdout.readline(), "both\n")
            self.assertGreater(processor_seconds(process.pid), 0.56)
            process.communicate("\n")
        self.assertEqual(processor_seconds(process.pid), 0)

    def test_a_command_on_more_cores_than_its_row_has_is_left_out_with_a_sentence(self):
        class Two(CoreCount):
            def most(self):
                return 1.9
        command = [sys.executable, "-c", "print('{}')"]
        with unittest.mock.patch("harness.commands.CoreCount", Two):
            self.assertEqual(run(command, TimeLimit(), cores=2), [{}])
            with self.assertRaisesRegex(Failed, "kept 1.9 cores busy, where its row has 1"):
                run(command, TimeLimit(), cores=1)

    def test_what_the_shell_says_to_a_blas_library_reaches_no_side(self):
        os.environ["OPENBLAS_CORETYPE"] = "Haswell"
        self.addCleanup(os.environ.pop, "OPENBLAS_CORETYPE")
        command = [sys.executable, "-c", 'import json, os; print(json.dumps({"core": os.environ.get("OPENBLAS_CORETYPE")}))']
        self.assertEqual(run(command, TimeLimit()), [{"core": None}])
        self.assertEqual(run(command, TimeLimit(), {"OPENBLAS_CORETYPE": "SkylakeX"}), [{"core": "SkylakeX"}])

    def test_peers_have_one_thread_a_process_whatever_multiplies_for_them(self):
        environment = peer_environment()
        for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR"):
            self.assertEqual(environment[f"{name}_NUM_THREADS"], "1")
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            if "def main" in text and "import torch" in text and not name.startswith("card"):
                self.assertIn("torch.set_num_threads(1)", text, name)


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")
        loader = importlib.machinery.SourceFileLoader("jobs", path)
        cls.jobs = importlib.util.module_from_spec(importlib.util.spec_from_loader("jobs", loader))
        loader.exec_module(cls.jobs)

    def say(self, *words):
        done = subprocess.run([sys.executable, self.jobs.__file__, *words], text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_processes_in_sessions_of_their_own_count_and_are_killed_also_when_their_parent_has_ended(self):
        rank = "held = b'x' * 60_000_000; import time; print(flush=True); time.sleep(1000)"
        command = f"""
import subprocess, sys, time
for _ in range(2):
    process = subprocess.Popen([sys.executable, '-c', {rank!r}], start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    print(process.pid)
time.sleep(1.5)
"""
        output, _, megabytes = self.jobs.run([sys.executable, "-c", command], {}, 60)
        self.assertGreater(megabytes, 120)
        for pid in map(int, output.split()):
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_a_side_that_fails_says_its_last_words(self):
        fails = "import sys; print('it began', file=sys.stderr); sys.exit('no net is called so')"
        with self.assertRaisesRegex(Failed, "exit 1: no net is called so"):
            self.jobs.run([sys.executable, "-c", fails], {}, 60)
        with self.assertRaisesRegex(Failed, "not done after 0.5 s"):
            self.jobs.run([sys.executable, "-c", "import time; time.sleep(1000)"], {}, 0.5)
        with unittest.mock.patch.object(self.jobs, "ROOT", "/nowhere"), unittest.mock.patch("sys.stderr") as told:
            self.assertEqual(self.jobs.one_pass("2nn", ["sounder"], 60), {"sounder": None})
        self.assertIn("jobs: 2nn, sounder: not done: ", "".join(call.args[0] for call in told.write.mock_calls))

    def test_jobs_and_sides_that_are_none_are_refused_and_a_job_without_the_sides_is_left_out(self):
        for words, sentence in ((["--jobs", "2nm"], "--jobs 2nm: there is none; there are 2nn, "), (["--sides", "sonder"], "--sides sonder: there is none; there are sounder, ")):
            code, _, err = self.say(*words)
            self.assertEqual(code, 2)
            self.assertIn(sentence, err)
        code, out, err = self.say("--jobs", "2nn-torch", "--sides", "jax")
        self.assertEqual((code, out, err), (0, "", "jobs: 2nn-torch is left out: its sides are trainer, trainer-each, hand, pfl-2, flower, blazefl\n"))

    def test_made_data_are_named_as_what_they_are(self):
        self.assertTrue(self.jobs.described("cifar-cnn").endswith("--epochs 2 --batch-size 50 --lr 0.1 --model blazefl-cnn --rounds 5, on made colour images "
                                                                  "(8000 for training, 2000 for tests)"), self.jobs.described("cifar-cnn"))


class Readme(unittest.TestCase):
    def row(self, name, ours, theirs):
        return {"name": name, "title": f"title of {name}", "unit": "s", "figures": {"Sounder": ours, "PyTorch": theirs},
                "ratios_of_medians": {"PyTorch": theirs[0] / ours[0]}}

    def job(self, rounds):
        def side(factor):
            return {"wall": factor, "round": factor / 100, "MB": 100 * factor, "accuracy": 0.5}
        return {"passes": [{"sounder": side(1), "jax": side(factor), "pfl": None} for factor in rounds], "lines": {"jax": 73, "pfl": 70}}

    def test_only_the_table_of_this_machine_is_replaced_and_a_new_one_comes_first(self):
        page = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n<!-- results: two -->\nkept\n<!-- end of results -->\n"
        self.assertEqual(readme.replace_section(page, "one", "new"), page.replace("old", "new"))
        self.assertTrue(readme.replace_section(page, "three", "x").startswith("a\n<!-- results: three -->\nx\n<!-- end of results -->\n\n<!-- results: one"))
        self.assertRaises(ValueError, readme.replace_section, "no place", "one", "new")

    def test_the_front_page_has_seconds_of_whole_jobs(self):
        page = "a\n<!-- whole jobs -->\nold\n<!-- end of whole jobs -->\nb\n"
        told = readme.front_table(page, {"2nn": self.job([8.81])}, 2).splitlines()
        self.assertEqual(told[0:2] + told[-2:], ["a", "<!-- whole jobs -->", "<!-- end of whole jobs -->", "b"])
        self.assertEqual(told[4], "| 2nn, 20 rounds | **1** | 8.8 |  |  |")
        self.assertRaises(ValueError, readme.front_table, "no place", {}, 2)

    def test_where_there_is_no_lead_is_said_and_stands_out(self):
        rows = [self.row("fast", [1.0], [4.0]), self.row("even", [1.0], [1.0]), self.row("slow", [2.0], [1.0])]
        self.assertEqual(readme.leads_not(rows, {"2nn": self.job([3, 0.5, 0.5])}),
                         ["**Slower**: title of slow (beside PyTorch), 0.50x; wall time of the job 2nn (beside jax), 0.50x; "
                          "a steady round of the job 2nn (beside jax), 0.50x.", "**Only even**: title of even (beside PyTorch), 1.00x."])
        self.assertIn("| title of slow | 2 s | 1 s (PyTorch) | **0.50x** | `--rows slow` |", readme.rows_table(rows))
        self.assertEqual(readme.leads_not(rows[:1], {}), ["**Slower**: nowhere.", "**Only even**: nowhere."])

    def test_the_text_says_how_busy_the_machine_was_and_how_often_it_was_measured(self):
        machine = {"cores": 2, "cpu": "C", "memory": "1 GB", "kernel": "Linux", "date": "2026-11-22T01", "sounder": "s", "others' work before": "1% of the cores",
                   "others' work after": "70% of the cores"}
        measured = {"machine": machine, "rows": [self.row("fast", [1.0, 1.0], [4.0, 4.0])]}
        told = readme.section(measured, {"2nn": self.job([2])}, "PyTorch 2.15.0+cu132")
        self.assertIn("Medians of 2 pairs; **others kept 70% of the cores busy, so these are impressions**.", told)
        self.assertIn("10 rounds), 1 pass, ratios", told)
        machine["others' work after"] = "2% of the cores"
        self.assertIn("; nothing else ran.", readme.section(measured, {}, ""))

    def test_a_side_that_was_not_done_is_left_out_of_its_job(self):
        lines = readme.jobs_table({"2nn": self.job([2, 3])})
        self.assertEqual(lines[2:], ["| 2nn: sounder | 1 |  | 10 |  | 100 |  | 50.0% | a command | `--jobs 2nn` |",
                                     "| jax | 2.5 | 2.50x | 25 | 2.50x | 250 | 2.50x | 50.0% | 73 |  |"])


class Record(unittest.TestCase):
    def entry(self, name, ours, *others):
        def line(cells):
            return [*cells, *[""] * (len(record.COLUMNS) - len(cells))]
        return [line([name, "title", "s", "Sounder", ours]), *(line(["", "", "", label, theirs]) for label, theirs in others)]

    def test_a_row_keeps_the_last_figures_of_each_program_beside_it(self):
        page = record.record("# R\n\n## other\n", "M", [self.entry("one", "1", ("PyTorch 1", "5"), ("PyTorch 2+cu", "6")), self.entry("two", "2")])
        page = record.record(page, "M", [self.entry("one", "3", ("PyTorch 2", "7")), self.entry("three", "4")])
        page = record.record(page, "N", [self.entry("one", "8")])
        self.assertEqual([[[line[3:5] for line in entry] for entry in record.read_table(part)] for part in page.split("\n## ")[2:]],
                         [[[["Sounder", "1"], ["PyTorch 1", "5"]], [["Sounder", "3"], ["PyTorch 2", "7"]], [["Sounder", "2"]], [["Sounder", "4"]]],
                          [[["Sounder", "8"]]]])
        self.assertEqual(record.record(page, "M", []), page)


if __name__ == "__main__":
    unittest.main()
