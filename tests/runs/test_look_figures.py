"""Figures for a paper: sounder report --svg, drawn by the program itself.

Usage: test_look_figures.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, re, subprocess, sys, unittest, xml.etree.ElementTree

from runs import DEADLINE
from test_look import CHART_JS, CHROMIUM, Look

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"`touch OWNED` $(touch OWNED) 'q' \\\\ \\\"d\\\" <b>&amp;</text>]]> münchen 中\""  # as YAML reads it

PROBE = """<script>
const labels = (name) => sounderFigures[0].chart.scales[name].ticks.map((tick) => tick.label);
document.body.textContent = "TOLD" + JSON.stringify({ accuracy: labels("y"), rounds: labels("x"), width: innerWidth, wide: document.documentElement.scrollWidth,
  lefts: sounderFigures.map((figure) => Math.round(figure.element.getBoundingClientRect().left)) }) + "DLOT";
</script>"""


class Figures(Look):
    def figure(self, *place):
        """The parts of a drawing, which a parser of XML has to read: its texts and its paths' commands with their numbers."""
        self.drawing = xml.etree.ElementTree.parse(self.path(*place))
        texts = ["".join(text.itertext()) for text in self.drawing.iter(SVG + "text")]
        paths = [(path.get("stroke"), [tuple(map(float, point.split())) for point in re.findall(r"[ML]([-\d.e+]+ [-\d.e+]+)", path.get("d"))])
                 for path in self.drawing.iter(SVG + "path")]
        return texts, paths

    def test_three_figures_are_drawn_without_any_other_program(self):
        for seed, final in ((1, 0.75), (2, 0.25)):
            self.write_run(f"runs/{seed}", [0.5, final], seed=seed, data="synthetic:1x8x8:400:100", clients=7, target="accuracy=0.8")
        self.assertEqual(self.sounder("report", "runs", "--svg", "paper/figures", PATH="/nowhere"), "paper/figures: accuracy.svg, loss.svg, classes.svg\n")
        self.assertEqual(sorted(os.listdir(self.path("paper/figures"))), ["accuracy.svg", "classes.svg", "loss.svg"])
        texts, paths = self.figure("paper/figures/accuracy.svg")
        self.assertLessEqual({"round", "accuracy on the test samples, %", "target: 80 %", "0", "1", "2"}, set(texts))
        numbers = [float(text) for text in texts if re.fullmatch(r"[\d.]+", text)]
        self.assertLessEqual(max(numbers), 100)
        (mean,) = [points for stroke, points in paths if stroke == "#0072b2" and len(points) == 2 and points[0][0] != points[1][0] and points[0][0] > 62]
        self.assertEqual(mean[0][1], mean[1][1])  # the mean is 50 % in both rounds
        (band,) = [points for stroke, points in paths if stroke is None]
        height = 250 / (max(numbers[3:]) - min(numbers[3:]))  # pixels of one per cent, after the rounds 0, 1, 2
        self.assertAlmostEqual(abs(band[0][1] - band[-1][1]), 0, places=3)
        self.assertAlmostEqual(abs(band[1][1] - band[2][1]), 2 * 35.3553 * height, places=1)
        texts, _ = self.figure("paper/figures/classes.svg")
        self.assertLessEqual({"class", "client", "samples", *"0123456"}, set(texts))
        self.assertFalse(os.path.exists(self.path("runs/report.html")))

    def test_runs_about_every_figure_give_every_drawing(self):
        figures = ["test_metrics.recall", *(f"{of}_{what}" for of in ("personal", "client", "test", "validation") for what in ("accuracy", "loss")),
                   *(f"{of}_{what}" for of in ("test", "validation") for what in ("balanced_accuracy", "macro_f1", "auc"))]
        for number, figure in enumerate(figures, 1):
            value = {"test_metrics": {"recall": 0.5}} if "." in figure else {figure: 0.5}
            self.write_record(f"runs/{number}", [{"type": "start", "figure": figure}, {"type": "round", "round": 1, "test_loss": 1, **value}],
                              data="synthetic:1x8x8:400:100", clients=7, lr=number)
        told = self.sounder("report", "runs", "--svg", "figures").removeprefix("figures: ").strip().split(", ")
        self.assertEqual((sorted(told), len(told)), (sorted(os.listdir(self.path("figures"))), len(figures) + 1))

    def test_a_mean_over_runs_of_other_lengths_is_over_all_runs_of_that_round(self):
        for seed, rounds, accuracy in ((1, 401, 0.25), (2, 1203, 0.75)):
            self.write_run(f"runs/{seed}", rounds * [accuracy], seed=seed, data="nowhere")
        self.sounder("report", "runs", "--svg", "figures")
        _, paths = self.figure("figures/accuracy.svg")
        (curve,) = [points for stroke, points in paths if stroke == "#0072b2" and len(points) > 300]
        self.assertEqual(len({y for _, y in curve}), 2)  # 50 %, and 75 % after round 401

    def test_classes_that_are_too_many_to_draw_are_not_none(self):
        os.mkdir(self.path("many"))
        for name in ("train", "test"):
            with open(self.path("many", name + ".csv"), "w") as file:
                file.write("x0,label\n" + "".join(f"{i},{i % 257}\n" for i in range(514)))
        self.write_run("run", [0.5], data="many")
        self.assertIn("classes.svg is left out: the data has more than 256 classes", self.call("report", "run", "--svg", "figures")[1])

    def test_runs_with_a_validation_set_show_their_losses_on_that(self):
        rounds = [{"type": "round", "round": round, "validation_loss": 1 / round, "validation_accuracy": 0.5} for round in (1, 2)]
        for seed in (1, 2):
            self.write_record(f"runs/{seed}", [{"type": "start", "figure": "validation_accuracy"}, *rounds], seed=seed, data="nowhere")
        self.assertEqual(self.sounder("report", "runs", "--svg", "figures"), "figures: validation-accuracy.svg, validation-loss.svg\n")
        self.assertEqual(self.sounder("report", "runs/1", "--svg", "one"), "one: validation-accuracy.svg, loss.svg\n")

    def test_a_target_of_the_loss_is_in_the_drawing_of_the_loss(self):
        self.write_run("run", [0.5, 0.75, 0.8])
        with open(self.path("run/config.yaml"), "a") as file:
            file.write("target: loss=0.4\n")
        with open(self.path("run/metrics.jsonl")) as file:
            lines = file.read()
        with open(self.path("run/metrics.jsonl"), "w") as file:
            file.write(lines.replace('"type":"start"', '"type":"start","figure":"test_loss"'))
        self.sounder("report", "run", "--svg", "figures")
        self.assertIn("target: 0.4", self.figure("figures/loss.svg")[0])

    def test_no_label_runs_a_command_or_breaks_the_drawing(self):
        self.write_run("runs/a", [0.5, 0.75], data=HOSTILE)
        self.write_run("runs/b", [0.5, 0.25], data="plain")
        self.sounder("report", "runs", "--svg", "figures")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["figures", "runs"])
        self.assertEqual(sorted(os.listdir(self.path("figures"))), ["accuracy.svg", "loss.svg"])
        texts, _ = self.figure("figures/accuracy.svg")
        (label,) = [text for text in texts if "touch" in text]
        self.assertTrue(label.startswith("data `touch OWNED` $(touch OWNED) 'q' \\ \"d\" <b>&amp;"), label)
        with open(self.path("figures/accuracy.svg")) as file:
            self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", file.read()))

    def test_one_run_shows_its_training_and_how_its_clients_spread(self):
        self.write_run("run", [0.5, 0.75, 0.8])
        with open(self.path("run/metrics.jsonl")) as file:
            lines = file.read()
        with open(self.path("run/metrics.jsonl"), "w") as file:
            file.write(re.sub(r'(\{"type":"client".*"client":)0(.*\n)', r'\g<0>\g<1>1,"loss":3.0}\n', lines))
        self.sounder("report", "run", "--svg", "figures")
        texts, paths = self.figure("figures/loss.svg")
        self.assertLessEqual({"training", "test", "loss"}, set(texts))
        (band,) = [points for stroke, points in paths if stroke is None]
        self.assertEqual(len(band), 6)

    def test_figures_of_an_earlier_report_are_replaced_and_of_others_are_not(self):
        self.write_run("run", [0.5], data="synthetic:1x8x8:400:100")
        self.write_run("elsewhere", [0.5], data="nowhere")
        self.sounder("report", "run", "--svg", "figures")
        self.sounder("report", "run", "--svg", "figures")
        self.assertEqual(self.sounder("report", "elsewhere", "--svg", "figures"), "figures: accuracy.svg, loss.svg\n")
        self.assertFalse(os.path.exists(self.path("figures/classes.svg")))  # it showed another run's data
        self.assertRegex(self.call("report", "elsewhere", "--svg", "figures")[1], r"^sounder: warning: classes.svg is left out: the run's data is not at hand \(")
        self.assertIn("error: --against: is a table of the page, which --svg alone does not write; add --out FILE",
                      self.sounder("report", "run", "--svg", "figures", "--against", "lr=0.1", code=64))
        with open(self.path("figures/loss.svg"), "w") as file:
            file.write("<svg>mine</svg>")
        self.assertIn("error: figures holds another loss.svg; give another --svg FOLDER", self.sounder("report", "run", "--svg", "figures", code=73))
        self.write_run("begun", [], data="nowhere")
        self.assertIn("error: the runs have no round yet that could be drawn", self.sounder("report", "begun", "--svg", "more", code=66))

    @unittest.skipUnless(CHROMIUM and os.path.exists(CHART_JS), "there is no chromium, or no libjs-chart.js: no browser has opened the page")
    def test_the_page_has_such_axes_too_and_fits_a_phone(self):
        for seed, final in ((1, 1.0), (2, 0.9), (3, 1.0)):
            self.write_run(f"runs/{seed}-{'long' * 40}", [0.5] * 150 + [final] * 37, seed=seed)
        self.sounder("report", "runs", "-o", "page.html")
        with open(self.path("page.html")) as file:
            page = file.read()
        with open(self.path("probed.html"), "w") as file:
            file.write(page.replace("</body>", PROBE + "</body>"))
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.path('chromium')}", "--window-size=500,900",
                               "--virtual-time-budget=10000", "--dump-dom", "file://" + self.path("probed.html")], text=True, capture_output=True, timeout=DEADLINE)
        (told,) = re.findall(r"TOLD(.*)DLOT", done.stdout, re.S)
        told = json.loads(told)
        self.assertEqual(told["accuracy"], ["50", "60", "70", "80", "90", "100"])
        self.assertEqual(told["rounds"], ["0", "50", "100", "150"])
        self.assertEqual(len(set(told["lefts"])), 1)  # one below the other
        self.assertLessEqual(told["wide"], told["width"])


if __name__ == "__main__":
    unittest.main(argv=["test_look_figures.py"] + sys.argv[2:], verbosity=2)
