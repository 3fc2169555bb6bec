"""Runs that others named, and machines without memory: what sounder runs and sounder report make of them.

Usage: test_look_hostile.py PATH_OF_SOUNDER [unittest arguments]
"""
import csv, io, json, os, re, struct, subprocess, sys, unittest

from runs import DEADLINE, SANITIZED, SOUNDER
import test_look
from test_look import Look

FAILING_CALL = os.path.join(os.path.dirname(SOUNDER), "tests", "libfailing_call.so")
NAMES = ["=1+2", "+a", "-1", "@x", "a\nb\x1b[31m", "<script>*x*`y`_z_|&amp;", "\"q\" it's --alpha ~^\\", "$(touch OWNED)", "[x", os.fsdecode(b"m\xfcnchen")]


class Names(Look):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("runs"))
        for seed, name in enumerate(NAMES):
            self.write_run(os.path.join("runs", name), [0.5, 0.75], seed=seed, data="nowhere")
        self.shown = [re.sub(r"[\n\x1b]", "?", name.encode(errors="surrogateescape").decode(errors="replace")) for name in NAMES]

    def runs(self, form):
        # from within the folder: the name is all of the cell
        done = subprocess.run([SOUNDER, "runs", *(os.path.join(".", name) if name[0] in "-" else name for name in NAMES), "--format", form], text=True,
                              cwd=self.path("runs"), capture_output=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout), form)
        return done.stdout

    def test_text_has_a_line_a_run_whatever_is_in_the_name(self):
        lines = self.runs("text").splitlines()
        self.assertEqual(len(lines), 1 + len(NAMES))
        for name in self.shown:
            self.assertEqual(sum(f"{name} " in line for line in lines), 1, name)

    def test_json_has_numbers_where_a_value_is_one(self):
        values = {"0.5": 0.5, "1e-05": 1e-05, "12": 12, "9223372036854775808": "9223372036854775808", "012": "012", "1.": "1.", "5e": "5e", "true": True, "nan": "nan"}
        for value in values:
            self.write_run("typed/" + value, [0.5], data=f'"{value}"')
        told = json.loads(subprocess.run([SOUNDER, "runs", *values, "--format", "json"], cwd=self.path("typed"), text=True, capture_output=True, timeout=DEADLINE).stdout)
        self.assertEqual(sorted(map(repr, (row["data"] for row in told))), sorted(map(repr, values.values())))
        self.assertEqual({row["run"] for row in told}, set(values))  # the name of a folder stays one

    def test_names_of_metrics_are_no_markup_and_command_no_terminal(self):
        metric = "\x1b[31mx,|<b>\n"
        self.write_record("run", [{"type": "start"}, {"type": "round", "round": 1, "test_metrics": {metric: 0.5}}])
        for form in ("text", "csv", "md", "latex", "json"):
            told = self.sounder("runs", "run", "--format", form)
            self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", told), form)
            if form == "csv":
                self.assertEqual(len({len(row) for row in csv.reader(io.StringIO(told))}), 1)
            if form == "md":
                self.assertIn(r"| ?\[31mx,\|&lt;b\>? |", told.splitlines()[0])

    def test_json_has_the_names_as_they_are_but_for_bad_utf8(self):
        told = {row["run"] for row in json.loads(self.runs("json"))}
        self.assertEqual({name for name in told if not name.startswith("./")} | {"-1"},
                         {name.encode(errors="surrogateescape").decode(errors="replace") for name in NAMES})

    def test_a_spreadsheet_computes_nothing_from_csv(self):
        rows = list(csv.reader(io.StringIO(self.runs("csv"))))
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        cells = {row[0] for row in rows[1:]}
        self.assertLessEqual({"'=1+2", "'+a", "'@x", "a?b?[31m", "[x"}, cells)
        self.assertEqual([cell for cell in cells if cell[0] in "=+@"], [])

    def test_markdown_and_latex_show_no_markup_of_a_name(self):
        markdown, latex = self.runs("md"), self.runs("latex")
        self.assertIn(r"| &lt;script\>\*x\*\`y\`\_z\_\|&amp;amp; |", markdown)
        self.assertEqual(len(markdown.splitlines()), 2 + len(NAMES))
        self.assertIn(r"\textless{}script\textgreater{}{*}x{*}\textasciigrave{}y\textasciigrave{}\_z\_\textbar{}\&amp; & finished", latex)
        self.assertIn(r"{\ttfamily\char34}q{\ttfamily\char34} it{\ttfamily\char39}s -{}-alpha \textasciitilde{}\textasciicircum{}\textbackslash{} &", latex)
        self.assertIn("\n{[}x & finished", latex)

    def test_a_report_holds_all_names_and_its_commands_are_quoted(self):
        with open(self.path("chart.js"), "w") as file:
            file.write("window.Chart = null;")
        self.sounder("report", "runs", "-o", "page.html", SOUNDER_CHART_JS=self.path("chart.js"))
        runs = self.data_of("page.html")["runs"]
        self.assertEqual(len(runs), len(NAMES))
        paths = set()
        for run in runs:
            self.assertIsNone(re.search(r"[\x00-\x1f\x7f]", run["evaluate"]), run["path"])
            done = subprocess.run(["bash", "-c", run["evaluate"].replace("sounder eval", "printf %s").split(" > ")[0]], capture_output=True, timeout=DEADLINE,
                                  cwd=self.folder.name)
            paths.add(os.fsdecode(done.stdout).replace("--confusion--json", ""))
        self.assertEqual(paths, {"runs/" + name for name in NAMES})
        self.assertFalse(os.path.exists(self.path("OWNED")))

    def test_a_long_value_is_not_cut_in_the_middle_of_a_letter(self):
        for shift in range(3):
            long = "x" * shift + "é" * 120
            self.write_run(f"long/{shift}/a", [0.5], data=long)
            self.write_run(f"long/{shift}/b", [0.5], data="plain")
            told = self.sounder("report", f"long/{shift}", "--svg", f"figures-{shift}")
            self.assertIn("accuracy.svg", told)
            self.sounder("report", f"long/{shift}/a", "-o", f"{shift}.html", SOUNDER_CHART_JS=self.chart())
            with open(self.path(f"{shift}.html")) as file:
                self.assertIn(long, file.read())

    def chart(self):
        with open(self.path("chart.js"), "w") as file:
            file.write("window.Chart = null;")
        return self.path("chart.js")


class Commands(Look):
    def paste(self, text, pattern):
        """Runs in a shell what follows the pattern in the text, as somebody would who copies it."""
        (command,) = re.findall(pattern, text)
        with open(self.path("chart.js"), "w") as file:
            file.write("window.Chart = null;")
        done = subprocess.run(["bash", "-c", command.replace("sounder", SOUNDER, 1)], text=True, cwd=self.folder.name, capture_output=True, timeout=DEADLINE,
                              env={**os.environ, "SOUNDER_CHART_JS": self.path("chart.js")})
        self.assertEqual(done.returncode, 0, command + ": " + done.stderr)
        self.assertFalse(os.path.exists(self.path("OWNED")))
        return done.stdout

    def test_what_is_proposed_can_be_pasted_whatever_the_folder_is_called(self):
        small = ["--data", "synthetic:1x4x4:64:8", "--model", "linear classes", "--clients", "2", "--workers", "1", "--rounds", "2"]
        for folder in ("my 'run' $(touch OWNED)", "-x"):
            with self.subTest(folder):
                told = self.sounder("train", *small, f"--out={folder}")
                self.assertIn("after 4 rounds", self.paste(told, r"go on: (.*)"))
                proposed = self.sounder("train", *small, f"--out={folder}", code=64).replace(", or give", " --rounds 6\n")
                self.assertIn("after 6 rounds", self.paste(proposed.replace("--resume", "sounder train --resume"), r"continue it with (.*)"))
                told = self.sounder("sweep", *small, "--seed", "1,2", f"--out=s{folder}")
                self.assertIn("report.html: 2 runs", self.paste(told, r"look: (sounder report .*?)    "))
                self.assertIn("accuracy", self.paste(told, r"    (sounder runs .*)"))


@unittest.skipIf(SANITIZED, "sanitizers have an allocator of their own, in which no call can be made to fail")
@unittest.skipUnless(os.path.exists(FAILING_CALL), "built without the library that makes calls fail")
class Memory(Look):
    train_small = test_look.Report.train_small

    def output(self, arguments, fault, **environment):
        if os.path.exists(self.path("page.html")):
            os.remove(self.path("page.html"))
        done = subprocess.run([SOUNDER, *arguments], cwd=self.folder.name, timeout=DEADLINE, capture_output=True,
                              env={**os.environ, "LD_PRELOAD": FAILING_CALL, "SOUNDER_FAULT": fault, "SOUNDER_CHART_JS": self.path("chart.js"), **environment})
        try:
            with open(self.path("page.html"), "rb") as file:
                told = file.read()
        except FileNotFoundError:
            told = done.stdout
        return done.returncode, re.sub(rb"written [^\"]*", b"", told), done.stderr

    def test_without_memory_there_is_a_sentence_or_all_of_the_output(self):
        with open(self.path("chart.js"), "w") as file:
            file.write("window.Chart = null;" + 200_000 * " ")
        self.train_small("run", "--eval-clients-every", "2")
        with open(self.path("run", "eval.json"), "w") as file:
            file.write(self.sounder("eval", "run", "--confusion", "--json"))
        samples = 400 if os.environ.get("SOUNDER_EXHAUSTIVE") == "1" else 30
        for arguments in (["report", "run", "-o", "page.html"], ["runs", "run", "--format", "json"], ["partition", "run/config.yaml", "--json"]):
            with open(self.path("counts"), "wb") as file:
                file.write(bytes(8))
            code, whole, err = self.output(arguments, "parent:alloc:0:0", SOUNDER_FAULT_COUNT=self.path("counts"))
            self.assertEqual(code, 0, err)
            with open(self.path("counts"), "rb") as file:
                (count,) = struct.unpack("<q", file.read())
            for place in range(1, count + 1, max(1, count // samples)):
                with self.subTest(arguments[0], place=place):
                    code, told, err = self.output(arguments, f"parent:alloc:{place}:12")
                    if code == 0:
                        self.assertEqual(told, whole)
                    else:
                        self.assertEqual(code, 71)
                        self.assertRegex(err, rb"^sounder: error: .*memory")


if __name__ == "__main__":
    unittest.main(argv=["test_look_hostile.py"] + sys.argv[2:], verbosity=2)
