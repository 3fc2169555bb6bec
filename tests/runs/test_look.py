"""The commands that look at runs: sounder runs, sounder report.

Usage: test_look.py PATH_OF_SOUNDER [unittest arguments]
"""
import csv, fcntl, io, json, os, pty, re, resource, shutil, statistics, struct, subprocess, sys, termios, unittest

from runs import DEADLINE, SMALL, SOUNDER, RunCase


CHART_JS = "/usr/share/javascript/chart.js/chart.min.js"
CHROMIUM = shutil.which("chromium")

# Run in the page: every figure as it stands there, and as it is saved.
PROBE = """<script>
const tell = (figure) => {
  const { width, height } = figure.canvas, pixels = figure.canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const colours = new Set(new Uint32Array(pixels.buffer)), svg = new DOMParser().parseFromString(figure.svg(), "image/svg+xml");
  return { name: figure.name, colours: colours.size, paths: svg.querySelectorAll("path").length, texts: [...svg.querySelectorAll("text")].map((t) => t.textContent),
           broken: svg.querySelectorAll("parsererror").length, png: figure.png().length, rows: figure.rows(), missing: document.querySelectorAll(".missing").length };
};
let told;
try { told = sounderFigures.map(tell); } catch (error) { told = String(error.stack); }
document.body.textContent = "TOLD" + JSON.stringify(told) + "DLOT";
</script>"""


def told_of_pages(log):
    """(message, source) of each console line in a browser's log, without those of the browser's own pages."""
    lines = re.findall(r'CONSOLE\(\d+\)\] "(.*?)", source: (\S*) \(\d+\)', log, re.S)
    return [(message, source) for message, source in lines if not source.startswith(("chrome", "devtools"))]


class Look(RunCase):
    def sounder(self, *arguments, code=0, **environment):
        out, err = self.call(*arguments, code=code, **environment)
        return out if code == 0 else err

    def write_run(self, name, accuracies, finished=True, reached=None, nodes=1, **options):
        """A run folder as a run would have left it, without the run."""
        lines = [{"type": "start", "time": "2026-11-22T01:18:15.123Z", "nodes": nodes, "workers": 2, "clients": 10, "clients_per_round": 5}]
        for round, accuracy in enumerate(accuracies, 1):
            lines.append({"type": "client", "round": round, "client": 0, "loss": 1.0})
            lines.append({"type": "round", "round": round, "train_loss": 2.0 / round, "test_loss": 1.0 / round, "test_accuracy": accuracy,
                          "seconds": 0.5, "eval_seconds": 0.25, "samples": 30000, "workers_lost": 0, "simulated_seconds_total": round,
                          "down_bytes_total": 1000000 * round, "up_bytes_total": 500000 * round})
        if finished:
            lines.append({"type": "summary", "rounds": len(accuracies), "rounds_to_target": reached})
        self.write_record(name, lines, **options)

    def write_record(self, name, lines, **options):
        options = {"data": "nowhere", **options}  # a report would else divide the default data for each run
        os.makedirs(self.path(name))
        with open(self.path(name, "config.yaml"), "w") as file:
            file.writelines(f"{key.replace('_', '-')}: {value}\n" for key, value in options.items())
        with open(self.path(name, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


class Runs(Look):
    def test_runs_of_several_nodes_say_how_many(self):
        self.write_run("a", [0.5], nodes=3)
        self.assertRegex(self.sounder("runs", "a"), r"^run  state     rounds  nodes .*\na    finished       1      3 ")
        self.write_run("b", [0.5])
        self.assertRegex(self.sounder("runs", "a", "b"), r"\nb    finished       1      1 ")
        self.assertNotIn("nodes", self.sounder("runs", "b"))
        self.sounder("report", "a")
        with open(self.path("a/report.html")) as file:
            self.assertIn("on 3 machines", file.read())

    def write_sweep(self):
        """Two values of alpha, three seeds of each."""
        self.final = {"0.1": [0.70, 0.75, 0.71], "10": [0.85, 0.86, 0.84]}
        for alpha, finals in self.final.items():
            for seed, final in enumerate(finals, 1):
                self.write_run(f"sweep/{alpha}-{seed}", [0.5, 0.9, final], partition="dirichlet", alpha=alpha, seed=seed)

    def test_runs_are_listed_with_the_options_in_which_they_differ(self):
        self.write_sweep()
        self.write_run("sweep/deep/down/last", [0.25], finished=False, partition="contiguous", seed=1)
        rows = json.loads(self.sounder("runs", "sweep", "--format", "json"))
        self.assertEqual([row["run"] for row in rows],
                         ["sweep/0.1-1", "sweep/0.1-2", "sweep/0.1-3", "sweep/10-1", "sweep/10-2", "sweep/10-3", "sweep/deep/down/last"])
        self.assertEqual(set(rows[0]), {"run", "state", "alpha", "partition", "seed", "rounds", "accuracy_percent", "best_percent",
                                        "test_loss", "seconds", "samples_per_second", "megabytes_sent"})
        first, last = rows[0], rows[-1]
        self.assertEqual((first["alpha"], first["seed"], first["state"], last["alpha"], last["state"]), (0.1, 1, "finished", None, "stopped"))
        self.assertEqual((first["rounds"], first["accuracy_percent"], first["best_percent"]), (3, 70, 90))
        self.assertEqual((first["seconds"], first["samples_per_second"], first["megabytes_sent"]), (2.25, 40000, 4.5))
        self.assertAlmostEqual(first["test_loss"], 1 / 3)

    def test_the_text_has_a_line_a_run_and_columns_that_stand_below_their_titles(self):
        self.write_sweep()
        lines = self.sounder("runs", "sweep").splitlines()
        self.assertEqual(len(lines), 7)
        self.assertRegex(lines[0], r"^run +state +seed +alpha +rounds  accuracy %  best %  test loss  MB sent  seconds  samples/s$")
        self.assertRegex(lines[1], r"^sweep/0.1-1  finished  1 +0.1 +3 +70.00 +90.00 +0.3333 +4.5 +2.25 +40,000$")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_by_gives_mean_and_standard_deviation_over_the_rest(self):
        self.write_sweep()
        self.write_run("sweep/cut", [0.1], finished=False, partition="dirichlet", alpha="0.1", seed=4)
        told = self.sounder("runs", "sweep", "--by", "alpha")
        lines = told.splitlines()
        self.assertRegex(lines[0], r"^alpha +n +rounds +accuracy %")
        self.assertRegex(lines[1], r"^0\.1 +3 +3 +72\.00 ± 2\.65 +90\.00 ± 0\.00 ")
        self.assertRegex(lines[2], r"^10 +3 +3 +85\.00 ± 1\.00 ")
        self.assertEqual(lines[3:], ["mean ± standard deviation over: seed", "left out, for it is not finished: 1 of 7 runs"])
        for row in json.loads(self.sounder("runs", "sweep", "--by", "alpha", "--format", "json")):
            finals = [100 * value for value in self.final[f"{row['alpha']:g}"]]
            self.assertAlmostEqual(row["accuracy_percent"], statistics.mean(finals))
            self.assertAlmostEqual(row["accuracy_percent_std"], statistics.stdev(finals))

    def test_runs_that_differ_in_their_rounds_have_one_column_of_them(self):
        for rounds in (2, 3):
            self.write_run(f"runs/{rounds}", rounds * [0.5], rounds=rounds)
        self.assertEqual([row["rounds"] for row in json.loads(self.sounder("runs", "--format", "json"))], [2, 3])
        for show in ([], ["--show", "rounds,test_loss"]):
            rows = json.loads(self.sounder("runs", "--by", "rounds", "--format", "json", *show))
            self.assertEqual([(row["rounds"], row["runs"]) for row in rows], [(2, 1), (3, 1)])
        for show in ("test_loss", "rounds,test_loss"):  # other figures leave the option
            rows = json.loads(self.sounder("runs", "--show", show, "--format", "json"))
            self.assertEqual([row["rounds"] for row in rows], [2, 3])

    def test_a_run_that_is_named_twice_counts_once(self):
        self.write_run("runs/a", [0.5])
        self.write_run("runs/b", [0.75], seed=2)
        (row,) = json.loads(self.sounder("runs", "runs/b/", "runs", "./runs/b", "--by", "model", "--format", "json"))
        self.assertEqual((row["runs"], row["accuracy_percent"]), (2, 62.5))

    def test_equal_values_have_no_deviation(self):
        for seed in range(7):
            self.write_run(f"runs/{seed}", [0.77184], seed=seed)
        (row,) = csv.DictReader(io.StringIO(self.sounder("runs", "--by", "model", "--format", "csv")))
        self.assertEqual((row["accuracy_percent"], row["accuracy_percent_std"], row["rounds_std"], row["megabytes_sent_std"]), ("77.184", "0", "0", "0"))
        self.assertRegex(self.sounder("runs", "--by", "model"), r"\nlenet  7       1  77\.18 ± 0\.00 .*  1\.5  ")

    def test_every_key_of_the_table_can_be_shown_and_a_figure_is_that_of_the_last_test(self):
        more = {f"m{number}": 0.25 for number in range(8)}
        rounds = [{"type": "round", "round": round, "test_metrics": {"f1.macro": value, **more}, "test_macro_f1": value} for round, value in ((1, 0.75), (2, 0.5))]
        self.write_record("run", [{"type": "start", "figure": "test_metrics.f1.macro"}, *rounds, {"type": "round", "round": 3, "test_macro_f1": None}])
        (row,) = json.loads(self.sounder("runs", "run", "--format", "json"))
        self.assertEqual((row["test_metrics.f1.macro"], row["best_test_metrics.f1.macro"]), (0.5, 0.75))
        self.assertLessEqual({"test_metrics." + name for name in more}, set(row))
        for key in row.keys() - {"run", "state"}:
            self.assertEqual(json.loads(self.sounder("runs", "run", "--format", "json", "--show", key))[0][key], row[key])
        self.assertEqual(json.loads(self.sounder("runs", "run", "--format", "json", "--show", "test_macro_f1"))[0]["test_macro_f1"], 0.5)
        self.assertIn("no run have a number of that name", self.sounder("runs", "run", "--show", "best_test_metrics.recall", code=64))

    def test_groups_are_in_the_order_of_their_numbers_and_one_run_has_no_deviation(self):
        for clients in ("100", "9", "20"):
            self.write_run(f"runs/{clients}", [0.5], clients=clients)
        rows = list(csv.DictReader(io.StringIO(self.sounder("runs", "--by", "clients", "--format", "csv"))))
        self.assertEqual([(row["clients"], row["runs"], row["accuracy_percent"], row["accuracy_percent_std"]) for row in rows],
                         [("9", "1", "50", ""), ("20", "1", "50", ""), ("100", "1", "50", "")])

    def test_rounds_to_the_target_are_averaged_over_those_that_reached_it(self):
        for seed, reached in ((1, 10), (2, 14), (3, None)):
            self.write_run(f"runs/{seed}", [0.5], reached=reached, target="accuracy=0.4", seed=seed)
        (row,) = json.loads(self.sounder("runs", "--by", "model", "--format", "json"))
        self.assertEqual((row["rounds_to_target"], row["reached_target"], row["runs"]), (12, 2, 3))

    def test_a_count_that_followed_from_the_workers_is_the_one_that_the_run_had(self):
        self.write_run("runs/a", [0.5])
        self.write_run("runs/b", [0.5], clients=4)
        self.assertEqual([row["clients"] for row in json.loads(self.sounder("runs", "--format", "json"))], [10, 4])

    def test_tables_for_spreadsheets_documents_and_papers_escape_what_they_have_to(self):
        self.write_run("runs/a", [0.5, 0.25], algorithm='"fedprox mu=0.1; combine mean uniform"', model='"linear 10, relu|x"')
        self.write_run("runs/b_1", [0.5, 0.75])
        (a, b) = csv.DictReader(io.StringIO(self.sounder("runs", "--format", "csv")))
        self.assertEqual((a["model"], a["algorithm"], b["run"]), ("linear 10, relu|x", "fedprox mu=0.1; combine mean uniform", "runs/b_1"))
        markdown = self.sounder("runs", "--format", "md").splitlines()
        self.assertEqual(len(markdown), 4)
        self.assertEqual(markdown[1].replace("-", "").replace(":", ""), "|" * markdown[1].count("|"))
        self.assertIn(r"| linear 10, relu\|x |", markdown[2])
        latex = self.sounder("runs", "--by", "algorithm", "--format", "latex")
        self.assertTrue(latex.startswith("\\begin{tabular}{l") and latex.endswith("\\bottomrule\n\\end{tabular}\n"), latex)
        self.assertIn(r"accuracy \%", latex)
        self.assertIn(r"runs/b\_1 & finished", self.sounder("runs", "--format", "latex"))

    def table_on_a_terminal(self, columns):
        """The lines of `sounder runs`; one read may give a part of them."""
        (parent, child) = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([SOUNDER, "runs"], cwd=self.folder.name, stdout=child, timeout=DEADLINE, check=True)
        os.close(child)
        table = b""
        try:
            while piece := os.read(parent, 65536):
                table += piece
        except OSError:  # all ends of the terminal are closed
            pass
        os.close(parent)
        return table.decode().splitlines()

    def test_a_table_is_no_wider_than_the_terminal_and_keeps_its_numbers(self):
        for seed in (1, 2):
            self.write_run(f"runs/a-rather-long-name-of-a-folder-{seed}", [0.5 + seed / 8], seed=seed, algorithm='"fedprox mu=0.1; optimizer sgd"')
        lines = self.table_on_a_terminal(100)
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertEqual(lines[3:], ["run: … is runs/", "no room for: seconds, samples/s"])
        self.assertRegex(lines[1], r"^…a-rather-long-name-of-a-folder-1  finished  1 +\d+ +62\.50 ")

    def test_columns_for_which_there_is_no_room_are_named_instead_of_broken(self):
        self.write_run("runs/a", [0.5])
        lines = self.table_on_a_terminal(40)
        self.assertEqual(lines, ["run     rounds  accuracy %  best %", "runs/a       1       50.00   50.00",
                                 "no room for: state, test loss, MB sent, seconds, samples/s"])

    def test_a_run_that_runs_says_so(self):
        process = self.start(*SMALL, "--workers", "1", "--rounds", "5000", "--out", "runs/now")
        self.wait_for_round("runs/now", 2)
        (row,) = json.loads(self.sounder("runs", "--format", "json"))
        self.assertEqual(row["state"], "running")
        self.assertGreaterEqual(row["rounds"], 2)
        process.kill()
        process.communicate()
        (row,) = json.loads(self.sounder("runs", "runs/now", "--format", "json"))
        self.assertEqual(row["state"], "stopped")
        self.train("--resume", "runs/now", "--rounds", str(row["rounds"] + 1))
        (row,) = json.loads(self.sounder("runs", "runs/now/", "--format", "json"))
        self.assertEqual((row["run"], row["state"]), ("runs/now", "finished"))

    def test_what_cannot_be_understood_is_named_and_left_out(self):
        self.write_run("runs/good", [0.5])
        self.write_run("runs/newer", [0.5], option_of_tomorrow=1)
        done = subprocess.run([SOUNDER, "runs"], cwd=self.folder.name, text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2))
        self.assertRegex(done.stderr, r"^sounder: warning: runs/newer is left out: runs/newer/config.yaml:2: option-of-tomorrow: unknown option")

    def test_refusals_name_what_to_write_instead(self):
        self.assertIn("error: runs cannot be opened: No such file", self.sounder("runs", code=66))
        os.mkdir(self.path("runs"))
        self.assertIn("error: runs holds no run; give the folder of one", self.sounder("runs", code=66))
        self.write_run("runs/a", [0.5], finished=False)
        self.assertIn("error: --by alpa: unknown option; did you mean", self.sounder("runs", "--by", "alpa", code=64))
        self.assertIn("error: --by quiet: is about one process", self.sounder("runs", "--by", "quiet", code=64))
        self.assertIn("error: none of the 1 runs is finished", self.sounder("runs", "--by", "seed", code=66))
        self.assertRegex(self.sounder("runs", "--format", "xml", code=64), "--format xml: .*text, csv, md, latex or json")
        self.assertIn("error: --bye: unknown option; did you mean --by?", self.sounder("runs", "--bye", "seed", code=64))
        self.assertIn("error: ru: unknown command; did you mean runs?", self.sounder("ru", code=64))
        self.assertIn("Usage: sounder runs [FOLDER ...]", self.sounder("runs", "--help"))
        self.assertEqual(self.sounder("help", "runs"), self.sounder("runs", "-h"))


class Report(Look):
    def setUp(self):
        super().setUp()
        self.charts = {}
        if not os.path.exists(CHART_JS):
            with open(self.path("chart.js"), "w") as file:
                file.write("window.Chart = null;")
            self.charts = {"SOUNDER_CHART_JS": self.path("chart.js")}

    def report(self, *arguments, code=0):
        return self.sounder("report", *arguments, code=code, **self.charts)

    def data_of(self, page):
        with open(self.path(page)) as file:
            self.page = file.read()
        return super().data_of(page)

    def train_small(self, run, *options):
        self.train("--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--clients",
                   "6", "--rounds", "4", "--workers", "2", "--device", "cpu", *options, "--out", run)

    def test_the_page_holds_what_the_run_told(self):
        self.train_small("run", "--partition", "dirichlet", "--alpha", "0.1", "--eval-clients-every", "2", "--target", "accuracy=0.9")
        with open(self.path("run", "eval.json"), "w") as file:
            file.write(self.sounder("eval", "run", "--confusion", "--json"))
        self.assertRegex(self.report("run"), r"^run/report.html: 1 run, \d+ kB; open it in a browser\n$")
        (run,), lines = self.data_of("run/report.html")["runs"], self.metrics("run")
        rounds = [line for line in lines if line["type"] == "round"]
        for key in ("round", "train_loss", "test_accuracy", "seconds", "up_bytes_total"):
            for told, line in zip(run["rounds"][key], rounds, strict=True):
                self.assertAlmostEqual(told, line[key], delta=1e-5 * abs(line[key]))
        for index, line in enumerate(rounds):
            losses = sorted(client["loss"] for client in lines if client["type"] == "client" and client["round"] == line["round"])
            self.assertAlmostEqual(run["rounds"]["loss_low"][index], (losses[0] + losses[1]) / 2, places=4)
        last = [line for line in lines if line["type"] == "clients_evaluation"][-1]
        (fairness,) = run["fairness"]
        self.assertEqual((fairness["model"], fairness["round"], len(fairness["accuracies"])), ("global", 4, 6))
        self.assertAlmostEqual(fairness["worst"], last["accuracy_worst_tenth"], places=5)
        partition = json.loads(self.sounder("partition", "run/config.yaml", "--json"))
        self.assertEqual(run["classes"]["counts"], partition["counts"])
        hits = sum(run["confusion"][c][c] for c in range(10))
        self.assertAlmostEqual(hits / 100, rounds[-1]["test_accuracy"])
        self.assertEqual(sum(map(sum, run["confusion"])), 100)
        self.assertEqual(run["clients"]["times"], [4] * 6)
        self.assertEqual(run["target"], 0.9)
        self.assertEqual(run["classes"]["clients"], list(range(6)))
        facts = {name: value for value, name in self.data_of("run/report.html")["facts"]}
        self.assertEqual((facts["rounds"], facts["clients a round"], facts["to the target"]), ("4", "6 of 6", "not reached"))

    def test_each_model_that_clients_are_tested_with_has_columns_and_a_fairness(self):
        self.train_small("run", "--algorithm", "ditto", "--new-clients", "2", "--finetune-epochs", "1", "--client-test", "0.1", "--eval-clients-every", "4")
        models = {line["model"] for line in self.metrics("run") if line["type"] == "clients_evaluation"}
        self.assertEqual(models, {"personal", "global", "fine-tuned", "new", "new-fine-tuned"})
        rows = json.loads(self.sounder("runs", "run", "--clients", "--format", "json"))
        self.assertLessEqual({f"{model}_loss" for model in models}, set(rows[0]))
        self.report("run")
        (run,) = self.data_of("run/report.html")["runs"]
        columns = [key.removesuffix("_loss") for key in rows[0] if key.removesuffix("_loss") in models]
        self.assertEqual([told["model"] for told in run["fairness"]], columns)

    def test_the_command_in_the_page_repeats_the_run(self):
        self.train_small("run", "--partition", "dirichlet", "--alpha", "0.1", "--algorithm", "fedprox mu=0.5; combine mean uniform")
        with open(self.path("run", "metrics.jsonl"), "a") as file:  # of no client that there can be: left out
            file.write('{"type":"client","round":1,"client":-1,"loss":1}\n{"type":"client","round":1,"client":1000000,"loss":1}\n')
        self.report("run", "-o", "page.html")
        (run,) = self.data_of("page.html")["runs"]
        self.assertEqual(len(run["clients"]["times"]), 6)
        command = run["repeat"].splitlines()[0]
        self.assertIn(" --algorithm 'fedprox mu=0.5; combine mean uniform' ", command)
        subprocess.run(command.replace("sounder", SOUNDER, 1) + " --out again --quiet", shell=True, cwd=self.folder.name, check=True, timeout=DEADLINE)
        self.assertEqual(self.model("again"), self.model("run"))
        with open(self.path("run", "config.yaml")) as file:
            self.assertEqual(run["config"], file.read())

    def test_the_page_needs_nothing_but_itself(self):
        self.write_run("runs/a</script><b>", [0.5, 0.75], data="nowhere")
        self.report("runs", "--out", "page.html")
        (run,) = self.data_of("page.html")["runs"]
        self.assertEqual(run["path"], "runs/a</script><b>")
        self.assertIn("the run's data is not at hand", run["classes"]["why"])
        self.assertEqual(self.page.count("</script>"), 4)
        self.assertEqual(re.findall(r"(?:src|href)=\W?\w+:", self.page), ['href="data:'])
        self.assertLess(len(self.page), 600_000)

    def test_runs_that_differ_in_the_seed_alone_are_one_group(self):
        for alpha in ("0.1", "10"):
            for seed in (1, 2):
                self.write_run(f"runs/{alpha}-{seed}", [0.5, 0.75], partition="dirichlet", alpha=alpha, seed=seed, workers=seed)
        self.report("runs/0.1-1", "runs/0.1-2", "runs/10-1", "runs/10-2", "-o", "page.html")
        data = self.data_of("page.html")
        self.assertEqual([run["group"] for run in data["runs"]], ["alpha 0.1", "alpha 0.1", "alpha 10", "alpha 10"])
        self.assertEqual(data["table"]["columns"][:5], ["run", "state", "seed", "workers", "alpha"])
        self.assertEqual(data["table"]["rows"][3][:5], ["runs/10-2", "finished", "2", "2", "10"])

    def test_a_long_run_is_thinned_and_keeps_its_last_round(self):
        self.write_run("runs/long", [0.5] * 4000 + [0.625])
        self.report("runs/long")
        (run,) = self.data_of("runs/long/report.html")["runs"]
        self.assertLessEqual(len(run["rounds"]["round"]), 501)
        self.assertEqual((run["rounds"]["round"][-1], run["rounds"]["test_accuracy"][-1], len(run["waits"])), (4001, 0.625, len(run["rounds"]["round"])))

    def test_a_long_run_keeps_its_tests_and_the_seconds_of_all_rounds(self):
        rounds = [{"type": "round", "round": round, "train_loss": 1, "seconds": 1} for round in range(1, 1208)]
        for line in rounds[99::100]:
            line.update(test_loss=0.5, test_accuracy=0.5, eval_seconds=0.5)
        self.write_record("run", [{"type": "start"}, *rounds])
        self.report("run")
        (run,) = self.data_of("run/report.html")["runs"]
        told = run["rounds"]
        self.assertEqual([round for round, loss in zip(told["round"], told["test_loss"]) if loss is not None], list(range(100, 1201, 100)))
        self.assertEqual((told["round"][-1], told["seconds_total"][-1]), (1207, 1207 + 12 * 0.5))
        self.assertIn(len(told["round"]), range(250, 502))

    def test_a_report_is_in_the_folder_of_its_run_however_long_the_path_is(self):
        self.write_run("run", [0.5])
        deep = os.path.join(*["x" * 200] * 12)
        os.makedirs(self.path(deep))
        os.rename(self.path("run"), self.path(deep, "run"))
        self.report(os.path.join(deep, "run"))
        self.assertEqual(sorted(os.listdir(self.path(deep, "run"))), ["config.yaml", "metrics.jsonl", "report.html"])

    def test_only_an_earlier_report_is_written_over(self):
        self.write_run("run", [0.5])
        self.report("run", "-o", "page.html")
        self.report("run", "-o", "page.html")
        with open(self.path("thesis.html"), "w") as file:
            file.write("mine")
        self.assertIn("error: thesis.html is there already and is no report; give another -o FILE", self.report("run", "-o", "thesis.html", code=73))
        self.assertIn("error: no/page.html cannot be created: No such file", self.report("run", "-o", "no/page.html", code=73))
        self.assertIn("is a folder; give a file, such as run/report.html", self.report("run", "-o", "run/", code=64))
        with open(self.path("thesis.html")) as file:
            self.assertEqual(file.read(), "mine")
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["config.yaml", "metrics.jsonl"])

    def test_what_is_missing_is_named_with_what_to_do(self):
        self.write_run("run", [0.5])
        told = self.sounder("report", "run", code=69, SOUNDER_CHART_JS="/nowhere/chart.js")
        self.assertIn("error: a report needs Chart.js, and /nowhere/chart.js is not there; install Debian's libjs-chart.js", told)
        self.assertIn("error: sounder report: needs a run; write sounder report RUN ...", self.report(code=64))
        self.assertIn("error: nothing cannot be opened", self.report("nothing", code=66))
        self.assertIn("Usage: sounder report RUN ...", self.report("--help"))

    @unittest.skipUnless(CHROMIUM and os.path.exists(CHART_JS), "there is no chromium, or no libjs-chart.js: no browser has opened the page")
    def test_a_browser_draws_every_figure_without_an_error(self):
        for seed in ("1", "2"):
            self.train_small(f"runs/{seed}", "--seed", seed, "--partition", "dirichlet", "--alpha", "0.1", "--eval-clients-every", "2",
                             "--algorithm", "dp-fedavg norm=0.5 noise=1 delta=1e-5")
        with open(self.path("runs", "1", "eval.json"), "w") as file:
            file.write(self.sounder("eval", "runs/1", "--confusion", "--json"))
        self.report("runs")
        told = {figure["name"]: figure for figure in self.browse("runs/report.html")}
        self.assertEqual(set(told), {"accuracy", "loss", "classes", "clients", "fairness", "confusion", "time", "waits", "privacy"})
        for name, figure in told.items():
            self.assertGreater(figure["colours"], 8, name)
            self.assertGreater(figure["paths"], 10, name)
            self.assertGreater(len(figure["texts"]), 5, name)
            self.assertGreater(figure["png"], 3000, name)
            self.assertEqual(figure["broken"], 0, name)
        self.assertEqual(told["accuracy"]["missing"], 0)
        finals = [self.rounds(f"runs/{seed}")[-1]["test_accuracy"] for seed in "12"]
        last = told["accuracy"]["rows"][-1]
        self.assertEqual((last[1], last[5]), (4, 2))
        self.assertAlmostEqual(last[3], statistics.mean(finals), places=5)
        self.assertIn("test accuracy", told["accuracy"]["texts"])
        self.assertEqual(len(told["classes"]["rows"]), 7)
        self.assertEqual([row[1] for row in told["privacy"]["rows"][1:]], [float(f"{line['epsilon']:.6g}") for line in self.rounds("runs/1")])

    def test_what_the_browser_logs_about_itself_is_no_error_of_the_page(self):
        head = "[7:7:1125/120000.0:INFO:CONSOLE(3)] "
        own = head + '"Slow network is detected. See https://x.example for\\nmore", source: chrome://new-tab-page/ (3)\n'
        page = head + '"Uncaught TypeError: 2\nis no chart", source: file:///tmp/probed.html (12)\n'
        self.assertEqual(told_of_pages("noise\n" + own + page + own), [("Uncaught TypeError: 2\nis no chart", "file:///tmp/probed.html")])

    def processor_seconds(self, place):
        """Of all the browser's processes, from its start to the page's end: other work on the machine makes them hardly more."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.path('chromium')}", "--dump-dom", place],
                              text=True, capture_output=True, timeout=DEADLINE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout

    @unittest.skipUnless(CHROMIUM and os.path.exists(CHART_JS), "there is no chromium, or no libjs-chart.js: no browser has opened the page")
    def test_a_page_of_20_runs_of_200_rounds_takes_a_browser_less_than_a_second(self):
        for seed in range(20):
            self.write_run(f"runs/{seed}", [1 - (round + seed) ** -0.5 for round in range(2, 202)], seed=seed, lr=(seed // 5 + 1) / 100)
        self.report("runs", "-o", "page.html")
        self.processor_seconds("about:blank")  # makes the profile
        empty = self.processor_seconds("about:blank")[0]
        whole = float("inf")
        for _ in range(10):  # what else the machine does can only add to it
            taken, told = self.processor_seconds("file://" + self.path("page.html"))
            self.assertGreater(told.count("<canvas"), 2)
            whole = min(whole, taken)
            if whole - empty < 1:
                break
        self.assertLess(whole - empty, 1)

    def browse(self, page):
        with open(self.path(page)) as file:
            text = file.read()
        with open(self.path("probed.html"), "w") as file:
            file.write(text.replace("</body>", PROBE + "</body>"))
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.path('chromium')}",
                               "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", "file://" + self.path("probed.html")],
                              text=True, capture_output=True, timeout=DEADLINE)
        self.assertEqual(told_of_pages(done.stderr), [])
        (told,) = re.findall(r"TOLD(.*)DLOT", done.stdout, re.S)
        told = json.loads(told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        self.assertIsInstance(told, list, told)
        return told


if __name__ == "__main__":
    unittest.main(argv=["test_look.py"] + sys.argv[2:], verbosity=2)
