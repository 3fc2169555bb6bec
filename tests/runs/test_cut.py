"""Runs that were killed at any line of their record, or between two files: what the next process makes of them is the run that was left alone.

SOUNDER_EXHAUSTIVE=1 in the environment: every line of every kind of run; otherwise those from the last checkpoint but one on.

Usage: test_cut.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, re, shutil, signal, sys, unittest

from runs import RunCase, figures, sha256

RUN = ["--data", "synthetic:1x4x4:120:40", "--model", "linear 6; relu; linear classes", "--clients", "4", "--batch-size", "8", "--rounds", "3",
       "--lr", "0.05", "--workers", "1", "--device", "cpu", "--quiet"]
# Figures that a process after the last round has to find again, and options that --resume derives from others.
KINDS = {
    "fedbabu": ["--algorithm", "fedbabu", "--client-test", "0.2", "--finetune-epochs", "1", "--eval-clients-every", "2"],
    "new clients": ["--new-clients", "2", "--client-test", "0.2", "--finetune-epochs", "2", "--clients", "6", "--lr-schedule", "cosine"],
    "validation": ["--validation", "0.2", "--patience", "2", "--patience-by", "macro-f1", "--eval-every", "1"],
    "budget": ["--algorithm", "dp-fedavg epsilon=8", "--clients-per-round", "3", "--without", "1"],
    "clusters": ["--algorithm", "ifca", "--client-test", "0.2", "--clients-per-round", "3"],
    "kept": ["--algorithm", "scaffold", "--clients-per-round", "2", "--drop-out", "0.2", "--target", "loss=2.3", "--eval-every", "2"],
    "buffered": ["--algorithm", "fedbuff K=2", "--client-time", "lognormal mean=2", "--lr-schedule", "cosine minimum=0.001"],
    "attacked": ["--attack", "label-flip", "--attackers", "0.3", "--algorithm", "ditto", "--client-test", "0.2"],
}
EXHAUSTIVE = os.environ.get("SOUNDER_EXHAUSTIVE") == "1"


class Cuts(RunCase):
    def lines(self, run):
        with open(self.path(run, "metrics.jsonl"), "rb") as file:
            return file.readlines()

    def outcome(self, run):
        """All that a run leaves, without its clocks."""
        with open(self.path(run, "config.yaml")) as file:
            config = file.read()
        models = {name: sha256(self.path(run, name)) for name in os.listdir(self.path(run)) if name.endswith(".safetensors")}
        folders = {name for name in os.listdir(self.path(run)) if name not in models}
        return {"record": figures(self.path(run)), "config": config, "models": models, "files": folders, "checkpoints": sorted(os.listdir(self.path(run, "checkpoints")))}

    def cut(self, run, lines, torn, checkpoints, keeps_model):
        """The folder of a process that was killed there: the last line may be torn, and files that it would have written later are missing."""
        shutil.rmtree(self.path("cut"), ignore_errors=True)
        shutil.copytree(self.path(run), self.path("cut"))
        with open(self.path("cut", "metrics.jsonl"), "wb") as file:
            file.writelines([*lines, torn])
        if checkpoints == 3 and keeps_model:  # the writer of the last one was killed before it removed the one before the others
            shutil.copy(self.path("cut", "checkpoints", "round-000002.safetensors"), self.path("cut", "checkpoints", "round-000001.safetensors"))
        for name in os.listdir(self.path("cut", "checkpoints")):
            if int(re.search(r"\d+", name)[0]) > checkpoints:
                os.remove(self.path("cut", "checkpoints", name))
        for name in os.listdir(self.path("cut")):
            if name.endswith(".safetensors") and name != "best.safetensors" and not keeps_model:
                os.remove(self.path("cut", name))

    def deaths(self, lines):
        """(lines that are left, torn rest, checkpoints that are left, whether the model is): each moment at which a kill leaves something else."""
        for count in range(len(lines)):
            rounds = sum(b'"type":"round"' in line[:20] for line in lines[:count])
            torn = lines[count][:len(lines[count]) // 2] if count % 2 else b""
            if rounds != 1 or EXHAUSTIVE:  # from round 1 on all is as from the start, since no checkpoint of it is left
                yield lines[:count], torn, rounds, False
            if rounds == 3 and b'"type":"round"' in lines[count - 1][:20]:
                yield lines[:count], b"", 2, False  # before the checkpoint of the last round
                yield lines[:count], b"", 3, True  # before the summary

    def test_a_kill_at_any_line_changes_no_figure_no_file_and_no_option(self):
        for kind, options in KINDS.items():
            self.train(*RUN, *options, "--out", kind)
            right, lines = self.outcome(kind), self.lines(kind)
            self.assertEqual(sum(line["type"] == "round" for line in right["record"]), 3, kind)
            for death in self.deaths(lines):
                if len(death[0]) < 4 and kind != "budget" and not EXHAUSTIVE:
                    continue  # from the start, which one kind of run shows
                with self.subTest(kind, lines=len(death[0]), checkpoint=death[2]):
                    self.cut(kind, *death)
                    _, err = self.train("--resume", "cut", "--quiet")
                    self.assertNotIn("has only", err)
                    self.assertEqual(self.outcome("cut"), right)
                    clocks = [line["seconds_total"] for line in map(json.loads, self.lines("cut")) if line["type"] == "round"]
                    self.assertEqual(clocks, sorted(clocks))
                    self.assertGreater(self.metrics("cut")[-1]["seconds"], clocks[-1])

    def test_a_signal_before_the_last_test_leaves_the_summary_to_the_next_process(self):
        """A batch system ends a job that was killed at its end, and that it has begun again, once more."""
        self.train(*RUN, "--out", "run")
        right = self.outcome("run")
        self.cut("run", self.lines("run")[:-1], b"", 3, False)

        def with_a_signal_that_waits():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)
        _, err = self.finish(self.start("--resume", "cut", "--quiet", preexec_fn=with_a_signal_that_waits), 128 + signal.SIGTERM)
        self.assertIn("stopped by signal 15 after round 3; continue with: sounder train --resume cut\n", err)
        self.assertNotIn(b'"summary"', b"".join(self.lines("cut")))
        self.assertFalse(os.path.exists(self.path("cut", "model.safetensors")))
        self.train("--resume", "cut", "--quiet")
        self.assertEqual(self.outcome("cut"), right)

    def test_rounds_that_a_power_loss_took_from_the_record_are_told(self):
        self.train(*RUN, "--out", "run")
        self.cut("run", self.lines("run")[:1], b"", 3, False)
        _, err = self.train("--resume", "cut", "--rounds", "4", "--quiet")
        self.assertIn("cut/metrics.jsonl has only 0 of the 3 rounds that the checkpoint has", err)
        self.assertEqual(([line["round"] for line in self.rounds("cut")], self.metrics("cut")[-1]["seconds"]), ([4], None))
        self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.assertEqual(self.model("cut"), self.model("run"))

    def test_a_resumed_run_adds_the_seconds_and_joules_of_its_processes_or_tells_none(self):
        for file, text in (("name", "package-0"), ("energy_uj", "1000000"), ("max_energy_range_uj", "262143328850")):
            os.makedirs(self.path("powercap", "intel-rapl:0"), exist_ok=True)
            with open(self.path("powercap", "intel-rapl:0", file), "w") as out:
                out.write(text + "\n")
        os.environ["SOUNDER_POWERCAP"] = self.path("powercap")
        self.addCleanup(os.environ.pop, "SOUNDER_POWERCAP")
        self.train(*RUN, "--measure-energy", "--out", "run")
        lines = self.lines("run")
        for before in ({"measured_joules_total": 1000, "seconds_total": 5000}, {}):
            last = {key: value for key, value in json.loads(lines[-2]).items() if key not in ("measured_joules_total", "seconds_total")}
            self.cut("run", [*lines[:-2], json.dumps({**last, **before}).encode() + b"\n"], b"", 3, False)
            self.train("--resume", "cut", "--rounds", "4", "--quiet")
            summary = self.metrics("cut")[-1]
            self.assertEqual(summary.get("measured_joules"), before.get("measured_joules_total"))
            self.assertEqual(summary["seconds"] and summary["seconds"] // 5000, before and 1 or None)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
