"""What is measured of a model beside accuracy and loss, on which samples, and which model is kept for it.

Usage: test_measured.py PATH_OF_SOUNDER [unittest arguments]
"""
import hashlib, json, os, sys, unittest

from runs import RunCase

# Accuracy goes up and down from round to round.
RESTLESS = ["--data", "synthetic:1x8x8:400:100", "--model", "softmax", "--clients", "4", "--workers", "1", "--lr", "0.5"]


class BestModel(RunCase):
    def best_of(self, run):
        with open(self.path(run, "best.safetensors"), "rb") as file:
            return file.read()

    def accuracy_of(self, run):
        return json.loads(self.call("eval", f"{run}/best.safetensors", "--json")[0])["test_accuracy"]

    def test_the_best_model_is_that_of_the_best_round(self):
        out, _ = self.train(*RESTLESS, "--rounds", "12", "--patience", "4", "--out", "run")
        curve = [line["test_accuracy"] for line in self.rounds("run")]
        best = curve.index(max(curve)) + 1
        self.assertLess(best, len(curve))
        self.assertIn(f"best: run/best.safetensors  round {best}, {100 * max(curve):.2f}%\n", out)
        self.assertEqual(self.accuracy_of("run"), max(curve))
        self.train(*RESTLESS, "--rounds", str(best), "--quiet", "--out", "until")
        self.assertEqual(self.best_of("run"), self.best_of("until"))
        self.assertEqual(self.model("until"), hashlib.sha256(self.best_of("run")).hexdigest())

    def test_a_resumed_run_keeps_the_best_model_of_all_its_processes(self):
        whole = [*RESTLESS, "--quiet", "--rounds"]
        self.train(*whole, "12", "--out", "whole")
        curve = [line["test_accuracy"] for line in self.rounds("whole")]
        best = curve.index(max(curve)) + 1
        for cut in {best, min(best + 1, 11)}:
            self.train(*whole, str(cut), "--checkpoint-every", "5", "--out", f"part{cut}")
            self.train("--resume", f"part{cut}", "--rounds", "12", "--quiet")
            self.assertEqual(self.best_of(f"part{cut}"), self.best_of("whole"), cut)

    def test_a_final_model_that_is_the_best_has_both_names(self):
        out, _ = self.train(*RESTLESS, "--rounds", "1", "--out", "run")
        self.assertNotIn("best:", out)
        self.assertTrue(os.path.samefile(self.path("run", "model.safetensors"), self.path("run", "best.safetensors")))

    def test_a_file_of_that_name_is_not_written_over(self):
        os.makedirs(self.path("run"))
        with open(self.path("run", "best.safetensors"), "w") as file:
            file.write("mine")
        _, err = self.train(*RESTLESS, "--rounds", "1", "--out", "run", code=64)
        self.assertIn("run holds best.safetensors, which a new run would write over", err)


if __name__ == "__main__":
    unittest.main(argv=["test_measured.py"] + sys.argv[2:], verbosity=2)
