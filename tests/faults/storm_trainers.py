"""A storm for trainers: programs of fourteen kinds, whose processes are killed at random moments, in runs that are resumed.

Each kind (storm_programs.py) is trained undisturbed by 1, 2 and 4 workers, by forks and by a start of each trainer, and in two parts;
then again and again while a trainer, its nursery, a worker, the aggregator or the run itself is killed with signal 9. All have one model,
and no process is left. Kinds whose library the interpreter lacks are named and left out.

Usage: storm_trainers.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [--runs N] [--seed S] [--only KIND] [--python PROGRAM]    N disturbed runs of each kind
"""
import argparse, collections, json, os, random, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "runs"))
from runs import OWN_SESSION, SOUNDER, alive, descendants_of, new_folder, sha256, wait_until

ROUNDS, PATIENCE = 4, 600
TASK = ["--clients", "4", "--batch-size", "10", "--lr", "0.05", "--quiet", "--hang-seconds", "300"]
# What a kind needs beside its program: a library, and options.
KINDS = {"norm": ["torch"], "cumulative": ["torch"], "twin": ["torch"], "lora": ["torch"], "gan": ["torch"], "half": ["torch"], "loader": ["torch"],
         "foreign": ["transformers"], "scikit": ["sklearn"], "kept": ["torch", "--client-optimizer-state", "keep"], "metric": ["torch"],
         "private": ["torch", "--algorithm", "dp-fedavg norm=1 noise=0.1", "--sampling", "poisson", "--clients-per-round", "3"],
         "scaffold": ["torch", "--algorithm", "scaffold"], "aggregator": ["torch", "--aggregator-keeps", "1"]}
PROGRAM_OF = {"scaffold": "lora", "aggregator": "private"}  # the trainer of a kind that is no program of its own


class Wrong(Exception):
    """Not what the storm should have left."""


class Storm:
    def __init__(self, folder, python, package):
        self.folder, self.python, self.counts = folder, python, collections.Counter()
        self.environment = {**os.environ, "SOUNDER_PACKAGE": os.path.abspath(package), "PYTHONDONTWRITEBYTECODE": "1"}

    def task(self, kind):
        program = f"{self.python} {HERE}/storm_programs.py"
        aggregates = ["--aggregator", f"{program} aggregator"] if kind == "aggregator" else []
        return [*TASK, *KINDS[kind][1:], "--trainer", f"{program} {PROGRAM_OF.get(kind, kind)}", *aggregates]

    def start(self, *words):
        self.counts["processes"] += 1
        return subprocess.Popen([SOUNDER, "train", *words], cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True, **OWN_SESSION)

    def model(self, run):
        with open(os.path.join(self.folder, run, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        if lines[-1]["type"] != "summary" or lines[-1]["model_sha256"] != sha256(os.path.join(self.folder, run, "model.safetensors")):
            raise Wrong("its model is not that of its summary")
        return lines[-1]["model_sha256"]

    def calm(self, run, *words):
        _, err = self.start(*words).communicate(timeout=PATIENCE)
        if "error" in err:
            raise Wrong(err)
        return self.model(run)

    def disturb(self, process, chooser):
        """Kills processes of the run until its own is dead, or enough are."""
        for _ in range(chooser.randint(1, 3)):
            time.sleep(chooser.uniform(0.2, 4))
            found = [process.pid] if chooser.random() < 0.3 else descendants_of(process.pid)
            if process.poll() is not None or not found:
                return
            try:
                os.kill(chooser.choice(found), signal.SIGKILL)
                self.counts["kills"] += 1
            except ProcessLookupError:
                continue

    def disturbed(self, kind, run, chooser):
        words, seen = [*self.task(kind), "--rounds", str(ROUNDS), "--out", run, "--workers", str(chooser.choice((1, 2, 4))),
                       "--trainer-start", chooser.choice(("fork", "fork", "each"))], set()
        for tries in range(6):
            process = self.start(*words)
            if tries < 3:
                self.disturb(process, chooser)
            seen |= set(descendants_of(process.pid))
            _, err = process.communicate(timeout=PATIENCE)
            if process.returncode == 0:
                break
            self.counts["resumes"] += 1
            begun = os.path.exists(os.path.join(self.folder, run, "config.yaml"))
            words = ["--resume", run, "--workers", str(chooser.choice((1, 2, 4))), "--quiet"] if begun else words
        else:
            raise Wrong(f"never came to its end: {err}")
        if not wait_until(lambda: not any(map(alive, seen))):
            raise Wrong("a process lives on")
        return self.model(run)

    def runs_of(self, kind, number, chooser):
        """(name, model) of each."""
        task = self.task(kind)
        for workers in ("1", "2", "4"):
            yield workers, self.calm(f"w{workers}", *task, "--rounds", str(ROUNDS), "--workers", workers, "--out", f"w{workers}")
        yield "each", self.calm("each", *task, "--rounds", str(ROUNDS), "--workers", "2", "--trainer-start", "each", "--out", "each")
        self.calm("parts", *task, "--rounds", str(ROUNDS // 2), "--workers", "2", "--out", "parts")
        yield "parts", self.calm("parts", "--resume", "parts", "--rounds", str(ROUNDS), "--workers", "1", "--quiet")
        for i in range(number):
            yield f"disturbed {i}", self.disturbed(kind, f"run-{i}", chooser)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("sounder")
    arguments.add_argument("package")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", action="append")
    arguments.add_argument("--python", default=sys.executable)
    given = arguments.parse_args()
    wrong, runs, began = 0, 0, time.monotonic()
    counts = collections.Counter()
    for kind in given.only or KINDS:
        if subprocess.run([given.python, "-c", f"import {KINDS[kind][0]}"], stderr=subprocess.DEVNULL).returncode:
            print(f"{kind}: left out, there is no {KINDS[kind][0]}", flush=True)
            continue
        folder, models = new_folder("sounder-storm-"), {}
        storm = Storm(folder.name, given.python, given.package)
        try:
            for name, model in storm.runs_of(kind, given.runs, random.Random(f"{given.seed}/{kind}")):
                models[name] = model
        except (Wrong, OSError, subprocess.TimeoutExpired) as why:
            wrong += 1
            print(f"{kind}: {why}", flush=True)
        runs += len(models)
        wrong += len(set(models.values())) > 1
        print(f"{kind}: {len(models)} runs, {', '.join(sorted({model[:12] for model in models.values()}))}"
              + (f" {models}" if len(set(models.values())) > 1 else ""), flush=True)
        counts += storm.counts
        folder.cleanup()
    print(f"{runs} runs, {wrong} wrong; {dict(counts)}; {time.monotonic() - began:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
