"""From a table with named clients to the table of a paper: names, figures of clients, and tables as narrow as a terminal.

Usage: test_paper.py PATH_OF_SOUNDER [unittest arguments]
"""
import csv, fcntl, io, json, math, os, pty, random, re, statistics, struct, subprocess, sys, termios, unittest

from runs import DEADLINE, SOUNDER, RunCase

WARDS = ["zeta", "beta <b>&", "alpha"]  # their order by bytes is not that of their first rows
TABLE = "wards.csv label=outcome client=ward normalize=yes"


class Paper(RunCase):
    def setUp(self):
        super().setUp()
        chance = random.Random(5)
        with open(self.path("wards.csv"), "w") as file:
            print("age,crp,ward,outcome", file=file)
            for i in range(240):
                age, crp = chance.gauss(60, 15), chance.gauss(0, 1)
                dies = chance.random() < 1 / (1 + math.exp(-(age - 75) / 8 - crp))
                print(f"{age:.1f},{crp:.3f},{WARDS[i * i % 7 % 3]},{'died' if dies else 'alive'}", file=file)

    def run_of(self, out, *more):
        self.train("--data", TABLE, "--model", "softmax", "--rounds", "2", "--eval-clients-every", "1", "--workers", "1", "--quiet",
                   "--out", out, *more)

    def sweep_of(self, out, *more):
        self.call("sweep", "--data", TABLE, "--model", "softmax", "--rounds", "2", "--eval-clients-every", "1", "--workers", "1",
                  "--algorithm", "fedavg", "--algorithm", "fedprox mu=0.1; optimizer sgd", "--seed", "1..3", "--out", out, *more)

    def on_terminal(self, *command, columns=80):
        """The lines of a table in a terminal."""
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([SOUNDER, *command], cwd=self.folder.name, stdout=child, stderr=subprocess.DEVNULL, timeout=DEADLINE, check=True)
        os.close(child)
        text = b""
        try:
            while piece := os.read(parent, 65536):
                text += piece
        except OSError:  # all ends of the terminal are closed
            pass
        os.close(parent)
        return text.decode().splitlines()

    def rows(self, *command):
        return list(csv.DictReader(io.StringIO(self.call(*command, "--format", "csv")[0])))

    # Names ---------------------------------------------------------------------------------------------------------

    def test_clients_keep_the_names_of_their_column(self):
        names = sorted(WARDS)
        self.run_of("one")
        start = self.metrics("one")[0]
        self.assertEqual(start["client_names"], names)
        shown = self.call("partition", "--data", TABLE)[0]
        told = json.loads(self.call("partition", "--data", TABLE, "--json")[0])
        self.assertEqual(told["client_names"], names)
        for name, counts in zip(names, told["counts"]):
            self.assertIn(f"\n{name:<9} {sum(counts):8}", shown)
        rows = self.rows("runs", "one", "--clients")
        self.assertEqual([(row["client"], row["client_number"]) for row in rows], [(name, str(i)) for i, name in enumerate(names)])
        self.assertIn(r"beta \textless{}b\textgreater{}\&", self.call("runs", "one", "--clients", "--format", "latex")[0])
        self.call("worth", "one", "--samples", "0", "--out", "worth")
        worth = self.call("worth", "one", "--samples", "0", "--out", "worth", "--format", "csv")[0]
        self.assertEqual({row["client"] for row in csv.DictReader(io.StringIO(worth))}, set(names))
        self.call("report", "one", "--out", "one.html", "--svg", "svg")
        self.assertEqual(self.data_of("one.html")["runs"][0]["client_names"], names)
        with open(self.path("svg", "clients.svg")) as file:
            dots = file.read()
        self.assertGreater(dots.count("<circle"), 1)
        self.assertIn(">client<", dots)
        with open(self.path("svg", "classes.svg")) as file:
            drawing = file.read()
        for text in ("alpha", "beta &lt;", "zeta", "alive", "died"):
            self.assertIn(f">{text}", drawing)

    def test_the_heading_says_who_the_clients_are_and_who_attacks(self):
        more = ["--data", TABLE, "--model", "softmax", "--rounds", "1", "--workers", "2"]
        counts = json.loads(self.call("partition", "--data", TABLE, "--json")[0])
        least, most = counts["smallest"], counts["largest"]
        self.assertIn(f"\nclients: natural-id, {least} to {most} samples each\n", self.train(*more, "--out", "users")[0])
        self.assertIn("\nclients, as many as workers: dirichlet alpha=0.5, ", self.train(*more, "--partition", "dirichlet", "--alpha", "0.5", "--out", "two")[0])
        attack = ["--partition", "iid", "--clients", "20", "--attack", "sign-flip", "--attackers"]
        self.assertIn("\nattack sign-flip: 1 of 20 clients (4)\n", self.train(*more, *attack, "4", "--out", "one")[0])
        self.assertRegex(self.train(*more, *attack, "0.2", "--out", "part")[0], r"\nattack sign-flip: 4 of 20 clients \(\d+(,\d+|-\d+)+\)\n")

    def test_predictions_name_the_client_and_the_line_of_each_sample(self):
        self.run_of("one")
        self.call("eval", "one", "--predictions", "answers.csv")
        with open(self.path("wards.csv")) as file:
            lines = [line.split(",") for line in file.read().splitlines()]
        with open(self.path("answers.csv")) as file:
            answers = list(csv.DictReader(file))
        self.assertEqual([row["sample"] for row in answers], [str(i) for i in range(48)])
        for row in answers:
            self.assertEqual([row["client"], row["label"]], lines[int(row["line"]) - 1][2:])

    def test_numbers_stay_where_names_are_no_clients_or_private(self):
        self.run_of("private", "--algorithm", "dp-fedavg noise=1")
        self.assertNotIn("client_names", self.metrics("private")[0])
        self.run_of("mixed", "--partition", "iid", "--clients", "3")
        self.assertNotIn("client_names", self.metrics("mixed")[0])
        self.assertEqual([row["client"] for row in self.rows("runs", "mixed", "--clients")], ["0", "1", "2"])


    # Figures of clients --------------------------------------------------------------------------------------------

    def test_clients_have_the_figures_of_their_own_predictions(self):
        self.run_of("one", "--local-epochs", "3", "--lr", "0.5")
        self.call("eval", "one", "--predictions", "answers.csv")
        with open(self.path("answers.csv")) as file:
            answers = list(csv.DictReader(file))
        told = json.loads(self.call("partition", "--data", TABLE, "--json")[0])
        sizes = dict(zip(told["client_names"], told["counts"]))
        def score(row):
            return float(row["probability"]) if row["prediction"] == "died" else 1 - float(row["probability"])
        for row in self.rows("runs", "one", "--clients"):
            own = [answer for answer in answers if answer["client"] == row["client"]]
            right = sum(answer["label"] == answer["prediction"] == "died" for answer in own)
            named = sum(answer[key] == "died" for answer in own for key in ("label", "prediction"))
            ones, zeros = ([score(answer) for answer in own if answer["label"] == label] for label in ("died", "alive"))
            self.assertEqual(row["training_samples"], str(sum(sizes[row["client"]])))
            self.assertEqual(row["global_auc_percent"] == "", not ones)
            if ones:
                auc = sum((one > zero) + (one == zero) / 2 for one in ones for zero in zeros) / (len(ones) * len(zeros))
                self.assertAlmostEqual(float(row["global_f1_percent"]), 100 * 2 * right / named, places=4)
                self.assertAlmostEqual(float(row["global_auc_percent"]), 100 * auc, places=4)
        (summary,) = [entry for entry in self.metrics("one") if entry["type"] == "summary"]
        self.assertEqual(summary["class_names"], ["alive", "died"])
        self.assertAlmostEqual(summary["test_f1"], summary["test_f1_by_class"][1])

    def test_options_of_other_programs_are_answered_with_what_to_write(self):
        base = ["--data", "synthetic:1x8x8:40:20", "--model", "softmax"]
        for arguments, sentence in ((["--epsilon", "8"], '--epsilon: is a number of a kind of privacy; write --algorithm "dp-fedavg epsilon=8"'),
                                    (["--noise", "1"], "--noise: is a number of a kind of privacy"), (["--mu", "0.1"], '--algorithm "fedprox mu=X"'),
                                    (["--server-lr", "1"], "server average lr=X"), (["--cpu"], "--cpu: is written --device cpu"), (["--log", "8"], "written --log-level info"),
                                    (["--nodes", "2"], "said by mpirun or srun"), (["--wandb"], "sounder.to_wandb"), (["--dropout", "0.2"], "a layer of --model"),
                                    (["--save-model", "x"], "write --out FOLDER"), (["--device", "gpu"], "did you mean cuda?"), (["--drop-out", "10%"], "; write 0.1"),
                                    (["--clients-per-round", "10%"], "not a share of them"), (["t.csv"], "t.csv: is data, no experiment file; write --data t.csv"),
                                    (["--lr", "0.1", "0.2"], "0.2: a second value of --lr; sounder sweep takes several with commas: --lr 0.1,0.2")):
            with self.subTest(arguments):
                self.assertIn(sentence, self.call("train", *base, *arguments, code=64)[1])
        with open(self.path("y.yaml"), "w") as file:
            file.write("clients: 10\n  lr: 0.1\n")
        self.assertIn("y.yaml:1: clients 10 lr: needs a whole number from 1 to 1000000; its next line is indented, and so belongs to it", self.call("train", "y.yaml", code=64)[1])
        self.assertRegex(self.train(*base, "--clients", "5", "--rounds", "1", "--algorithm", "local-dp", "--out", "local")[0], r"\nepsilon of each update alone: 10(\.0)? at delta 1e-05, ")
        for arguments, sentence in ((["sweep", *base, "--epsilon", "8"], "dp-fedavg epsilon=8"), (["sweep", *base, "--resume", "s"], "the same sweep with --out FOLDER continues it"),
                                    (["sweep", *base, "--lr", "0.1..0.3"], "write 0.1,0.2,0.3 in a sweep"), (["runs", "one", "--by", "algoritm"], "did you mean algorithm?")):
            with self.subTest(arguments):
                if arguments[0] == "runs":
                    self.train(*base, "--clients", "2", "--rounds", "1", "--out", "one")
                self.assertIn(sentence, self.call(*arguments, code=64)[1])

    def test_the_success_of_an_attack_is_a_picture_and_in_the_title(self):
        self.train("--data", "synthetic:1x8x8:100:50", "--model", "softmax", "--clients", "5", "--rounds", "2", "--attack", "backdoor", "--attackers", "0.2", "--out", "run")
        self.call("report", "run", "--out", "r.html", "--svg", "svg")
        self.assertIn("attack-success.svg", os.listdir(self.path("svg")))
        told = self.data_of("r.html")
        self.assertTrue(told["title"].endswith(" under backdoor"), told["title"])
        self.assertIn("attack_success", told["runs"][0]["rounds"])

    def test_commas_part_algorithms_with_numbers(self):
        out = self.call("sweep", "--data", TABLE, "--model", "softmax", "--algorithm", "fedavg,fedprox mu=0.1, scaffold", "--dry-run", "--out", "s")[0]
        self.assertEqual(re.findall(r"--algorithm=(fedprox mu=0\.1|\S+)", out), ["fedavg", "fedprox mu=0.1", "scaffold"])

    def test_clients_of_a_sweep_have_means_over_seeds_by_algorithm(self):
        self.sweep_of("sweep", "--local-epochs", "2")
        algorithms, names = ["fedavg", "fedprox mu=0.1; optimizer sgd"], sorted(WARDS)
        rows = self.rows("runs", "sweep", "--clients", "--by", "algorithm", "--show", "f1,roc_auc")
        self.assertEqual([(row["client"], row["algorithm"], row["runs"]) for row in rows], [(n, a, "3") for n in names for a in algorithms])
        for row in rows:
            each = []
            for seed in (1, 2, 3):
                (run,) = [folder for folder in os.listdir(self.path("sweep")) if f"seed={seed}" in folder and ("fedavg" in folder) == (row["algorithm"] == "fedavg")]
                each += [float(one["global_f1_percent"]) for one in self.rows("runs", f"sweep/{run}", "--clients") if one["client"] == row["client"]]
            self.assertAlmostEqual(float(row["f1_percent"]), statistics.mean(each), places=4)
            self.assertAlmostEqual(float(row["f1_percent_std"]), statistics.stdev(each), places=4)
        (fedavg, _) = self.rows("runs", "sweep", "--by", "algorithm", "--show", "f1,bacc,f1:alive,f1:died")
        self.assertAlmostEqual(float(fedavg["f1_percent"]), 100 * float(fedavg["f1:died"]), places=4)
        self.assertNotAlmostEqual(float(fedavg["f1:died"]), float(fedavg["f1:alive"]), places=2)
        self.assertIn("no figure of a client's test; with --clients there are accuracy, loss,",
                      self.call("runs", "sweep", "--clients", "--show", "speed", code=64)[1])

    def test_the_page_of_a_sweep_begins_with_means_and_calls_the_best_so(self):
        self.sweep_of("sweep")
        self.call("report", "sweep", "--against", "fedavg", "--out", "page.html")
        data, rows = self.data_of("page.html"), self.rows("runs", "sweep", "--by", "algorithm")
        self.assertEqual(data["means"]["columns"][:4], ["algorithm", "n", "rounds", "accuracy %"])
        self.assertEqual([row[3] for row in data["means"]["rows"]],
                         [f"{float(row['accuracy_percent']):.2f} ± {float(row['accuracy_percent_std']):.2f}" for row in rows])
        self.assertIn("best of all runs and rounds", [name for _, name in data["facts"]])
        self.assertEqual(data["title"], "6 runs on wards.csv")
        self.assertIn("is a web page: write --out page.html", self.call("report", "sweep", "--out", "page.pdf", code=64)[1])

    def test_short_names_of_figures_are_goals_too(self):
        self.assertRegex(self.call("help", "roc_auc")[0], r"(?s)^AUC, a figure .*--show auc.*--target auc=VALUE +--patience-by auc\n")
        for name, key in (("acc", "test_accuracy"), ("bacc", "test_balanced_accuracy"), ("f1", "test_f1"), ("roc_auc", "test_auc")):
            self.run_of(name, "--target", f"{name}=0.99", "--rounds", "1")
            self.assertEqual(self.metrics(name)[0]["figure"], key)

    # Narrow terminals ----------------------------------------------------------------------------------------------

    def test_no_title_and_no_verdict_is_cut_in_80_columns(self):
        self.sweep_of("a-folder-of-sweeps/with-a-long-name")
        one = "a-folder-of-sweeps/with-a-long-name/algorithm=fedavg,seed=1"
        tables = [["runs", "a-folder-of-sweeps"], ["runs", "a-folder-of-sweeps", "--by", "algorithm"],
                  ["runs", "a-folder-of-sweeps", "--by", "algorithm,seed"], ["runs", "a-folder-of-sweeps", "--against", "fedavg"],
                  ["runs", "a-folder-of-sweeps", "--against", "fedavg", "--show", "test_macro_f1"], ["runs", one, "--clients"],
                  ["data", TABLE]]
        for command in tables:
            with self.subTest(command=command):
                wide, narrow = self.call(*command)[0].splitlines(), self.on_terminal(*command)
                titles, kept = (re.split("  +", lines[0].strip()) for lines in (wide, narrow))
                missing = [line.removeprefix("no room for: ").split(", ") for line in narrow if line.startswith("no room for: ")]
                self.assertEqual(sorted(kept + sum(missing, [])), sorted(titles))
                rows = next(i for i, line in enumerate(wide) if not line.strip() or i + 1 == len(wide) or ":" in line)
                self.assertLessEqual(max(map(len, narrow[:max(rows, 1)])), 80)
                if "--against" in command:
                    self.assertEqual([re.split("  +", line)[-1] for line in narrow[:2]], [re.split("  +", line)[-1] for line in wide[:2]])
                if command == tables[0]:
                    self.assertIn("run: … is a-folder-of-sweeps/with-a-long-name/", narrow)
                    self.assertIn("state", missing[0])


if __name__ == "__main__":
    unittest.main(argv=["test_paper.py"] + sys.argv[2:], verbosity=2)
