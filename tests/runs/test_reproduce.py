"""Published figures beside ours: `sounder reproduce`.

Usage: test_reproduce.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, subprocess, sys, unittest

from runs import DEADLINE, SOUNDER, RunCase

RECIPE = """\
title: Two algorithms, made up
source: nobody
note: Made for a test.
measure: {measure}
seeds: 5..8
minutes: 0.1
{band}
options:
  data: synthetic:1x8x8:80:40
  model: softmax
  clients: 4
  rounds: 2
  device: cpu
  target: accuracy=0.01
over: [algorithm, lr]
cells:
  - [fedavg, 0.1, {first}, 1]
  - ["server average lr=0.5", 0.2, {second}, ~]
"""


class Reproduce(RunCase):
    def sounder(self, *arguments, code=0):
        done = subprocess.run([SOUNDER, "reproduce", *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def recipe(self, **parts):
        text = RECIPE.format(**{"measure": "accuracy", "band": "within: 2", "first": 50, "second": 50, **parts})
        with open(self.path("own.yaml"), "w") as file:
            file.write(text)
        return text

    def rows(self, **parts):
        self.recipe(**parts)
        return json.loads(self.sounder("own.yaml", "--format", "json"))

    def accuracies(self, algorithm):
        runs = json.loads(subprocess.run([SOUNDER, "runs", "reproduced/own", "--format", "json"], cwd=self.folder.name, text=True,
                                         capture_output=True, check=True).stdout)
        return [run["accuracy_percent"] for run in runs if run["algorithm"] == algorithm]

    def test_every_recipe_is_listed_and_its_runs_are_such_as_train_takes(self):
        names = [line.split()[0] for line in self.sounder().splitlines() if line.startswith("  ") and line[2] != " "]
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "recipes")
        self.assertEqual(sorted(names), sorted(file[:-5] for file in os.listdir(folder) if file.endswith(".yaml")))
        for name in names:
            with self.subTest(name):
                self.assertTrue(all(line.startswith("sounder train ") for line in self.sounder(name, "--dry-run").splitlines()))

    def test_seconds_are_compared_and_nobody_is_judged_by_them(self):
        self.recipe(measure="seconds", first=1000000, second=0.000001)
        told = self.sounder("own.yaml", "--seeds", "1")
        self.assertRegex(told, r"fedavg .* times less")
        self.assertRegex(told, r"server average .* times as long")
        self.assertNotIn("within the band", told)

    def test_figures_stand_beside_each_other_with_mean_deviation_and_verdict(self):
        self.recipe()
        told = self.sounder("own.yaml", "--seeds", "2")
        self.assertIn("of 1 figures within the band", told)  # the other has no deviation
        self.assertIn("Made for a test.", told)
        ours = self.accuracies("fedavg")
        self.assertEqual(len(ours), 2)
        mean, spread = sum(ours) / 2, abs(ours[0] - ours[1]) / 2 ** 0.5
        self.recipe(first=round(mean + 0.5, 3))
        rows = json.loads(self.sounder("own.yaml", "--seeds", "2", "--format", "json"))
        self.assertAlmostEqual(rows[0]["ours"], mean, places=3)
        self.assertAlmostEqual(rows[0]["ours_std"], spread, places=3)
        self.assertEqual([row["runs"] for row in rows], [2, 2])
        self.assertEqual(rows[0]["verdict"], "within")
        self.assertNotIn("verdict", {key for key, value in rows[1].items() if value})
        self.recipe(first=round(mean - 10, 3))
        rows = json.loads(self.sounder("own.yaml", "--seeds", "2", "--format", "json"))
        self.assertEqual(rows[0]["verdict"], "above: 8.2 deviations")  # 10 / (1 sqrt(1 + 1/2))
        # What is done is not done again; another seed is.
        self.assertEqual(self.sounder("own.yaml", "--seeds", "3").count("(done before)"), 4)

    def test_runs_whose_names_are_cut_alike_are_each_counted_once(self):
        text = self.recipe().replace("[fedavg,", '["server average lr=0.5' + 200 * "0" + '",')
        with open(self.path("own.yaml"), "w") as file:
            file.write(text)
        self.sounder("own.yaml", "--seeds", "2")
        rows = json.loads(self.sounder("own.yaml", "--seeds", "2", "--format", "json"))
        self.assertGreater(rows[0]["ours_std"], 0)

    def test_rounds_to_a_target_are_judged_by_their_factor(self):
        self.recipe(measure="rounds-to-target", band="times: 2", first=1, second=3)
        self.sounder("own.yaml", "--seeds", "1")
        rows = json.loads(self.sounder("own.yaml", "--seeds", "1", "--format", "json"))
        self.assertEqual([row["verdict"] for row in rows], ["within", "below: 3.0 times"])

    def test_texts_of_a_recipe_do_not_control_the_terminal(self):
        with open(self.path("own.yaml"), "w") as file:
            file.write(RECIPE.format(measure="accuracy", band="within: 2", first=1, second=3).replace("source: nobody", 'source: "no\\x1b]0;body\\x07\\nat all"'))
        self.assertIn("published: no?]0;body? at all\n", self.sounder("own.yaml", "--seeds", "1"))

    def test_runs_that_do_not_reach_the_target_are_told(self):
        with open(self.path("own.yaml"), "w") as file:
            file.write(RECIPE.format(measure="rounds-to-target", band="times: 2", first=1, second=3).replace("accuracy=0.01", "accuracy=1"))
        self.assertIn("\n4 runs have no figure: they are not done, or have not reached the target\n", self.sounder("own.yaml", "--seeds", "2"))

    def test_what_is_no_recipe_is_refused_with_its_line(self):
        for change, line, sentence in (
                (("clients: 4", "clients: many"), 11, "--clients many"), (("clients: 4", "clintes: 4"), 11, "there is no such option"),
                (("seeds: 5..8", "seeds: 8..5"), 5, "seeds: needs a range"), (("measure: accuracy", "measure: beauty"), 4, "measure: accuracy, best"),
                (("0.1, 50, 1]", "0.1, 50]"), 17, "a cell has a value"), (("0.1, 50, 1]", "0.1, many, 1]"), 17, "a number is needed"), (("[fedavg, 0.1,", "[[fedavg], 0.1,"), 17, "a text or a number is needed here"),
                (("over: [algorithm, lr]", "over: [algorithm, lr"), 16, "did not find expected"), (("within: 2", ""), 1, "a number is needed"),
                (("over: [algorithm, lr]", "over: [algorithm, rounds]"), 15, "this option is set twice"), (("clients: 4", "seed: 4"), 11, "seeds: sets the seed")):
            with self.subTest(change):
                text = self.recipe()
                self.assertIn(change[0], text)
                with open(self.path("own.yaml"), "w") as file:
                    file.write(text.replace(*change))
                told = self.sounder("own.yaml", code=65)
                self.assertIn(f"recipe own.yaml, line {line}: ", told)
                self.assertIn(sentence, told)
        for text, sentence in (("", "own.yaml is empty"), ("# nothing\n", "a recipe has title, options, cells"),
                               ("- a list\n", "a recipe has title, options, cells")):
            with open(self.path("own.yaml"), "w") as file:
                file.write(text)
            self.assertIn(sentence, self.sounder("own.yaml", code=65))
        self.assertIn("there is no such recipe", self.sounder("none", code=64))
        self.assertIn("cannot be opened", self.sounder("none.yaml", code=66))
        self.recipe()
        self.assertIn("--seeds 5: the publication has 4", self.sounder("own.yaml", "--seeds", "5", code=64))


if __name__ == "__main__":
    unittest.main(argv=["test_reproduce.py"] + sys.argv[2:], verbosity=2)
