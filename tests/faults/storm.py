"""A storm: runs whose workers and parents are killed at random moments, and which are resumed until they come to their end.

Each run is of an algorithm that remembers something from round to round. It is begun, disturbed, and resumed by one process
after the other, with other numbers of workers and for more and more rounds. In the end it has the model of an undisturbed run,
and the same model after each of its rounds; no process was refused to go on, and nothing is left: no process, no file of a
writer that was killed, no link to memory that is gone.

The choices follow from the seed, the moments of course not quite. Prints the figures; 1 if anything was wrong.

Usage: storm.py PATH_OF_SOUNDER [--runs N] [--seed S] [--only ALGORITHM]    6 runs; with SOUNDER_EXHAUSTIVE=1, 300
"""
import argparse, collections, json, os, random, shutil, signal, subprocess, sys, time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runs"))
from runs import DEADLINE, OWN_SESSION, SLOWED, SOUNDER, children_of, is_worker, new_folder, sha256, wait_until
from test_resume import STATEFUL

ROUNDS, MOST_PROCESSES = 10, 7
TASK = ["--data", "synthetic:1x4x4:1920:48", "--model", "linear 6; layernorm; relu; linear classes", "--clients", "6", "--batch-size", "4", "--quiet",
        "--on-worker-death", "respawn"]
ALGORITHMS = {**STATEFUL, "fedadam": [], "fedavgm": [], "fedbuff K=2": ["--client-time", "lognormal"],
              "dp-ftrl epsilon=8": ["--sampling", "cyclic", "--privacy-rounds", str(ROUNDS)]}
# (signal, whether a worker gets it): how a process is disturbed; the more frequent, the more often it stands here.
BLOWS = [(signal.SIGKILL, True)] * 4 + [(signal.SIGKILL, False)] * 3 + [(signal.SIGTERM, False)]


class Wrong(Exception):
    """Not what the storm should have left."""


class Storm:
    def __init__(self, folder):
        self.folder, self.expected, self.counts = folder, {}, collections.Counter()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def command(self, run, task, rounds, chooser):
        more = ["--rounds", str(rounds), "--workers", str(chooser.randint(1, 3))]
        if os.path.exists(self.path(run, "config.yaml")):
            self.counts["resumes"] += 1
            return [SOUNDER, "train", "--resume", run, *more, "--quiet"]
        return [SOUNDER, "train", *task, *more, "--out", run]

    def start(self, command):
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **OWN_SESSION)

    def facts(self, run):
        with open(self.path(run, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        if [line["type"] for line in lines].count("summary") != 1 or lines[-1]["type"] != "summary":
            raise Wrong("its record does not end with its only summary")
        if lines[-1]["model_sha256"] != sha256(self.path(run, "model.safetensors")):
            raise Wrong("its model is not that of its summary")
        return lines[-1]["model_sha256"], [(line["round"], line["model_xxh3"]) for line in lines if line["type"] == "round"]

    def undisturbed(self, task):
        key = " ".join(task)
        if key not in self.expected:
            run = f"calm-{len(self.expected)}"
            _, err = self.start([SOUNDER, "train", *task, "--rounds", str(ROUNDS), "--workers", "2", "--out", run]).communicate(timeout=DEADLINE)
            if err:
                raise Wrong(f"undisturbed: {err}")
            self.expected[key] = self.facts(run)
            shutil.rmtree(self.path(run))
        return self.expected[key]

    def disturb(self, process, chooser):
        """The codes with which it may end after that, and the workers that were seen."""
        codes, seen = {0}, set()
        for _ in range(chooser.randint(1, 4)):
            number, is_for_worker = chooser.choice(BLOWS)
            time.sleep(chooser.uniform(0, 0.06) * SLOWED)
            workers = children_of(process.pid)
            seen |= set(workers)
            if process.poll() is not None or (is_for_worker and not workers):
                continue
            try:
                os.kill(chooser.choice(workers) if is_for_worker else process.pid, number)
            except ProcessLookupError:
                continue
            self.counts[f"{number.name} to {'workers' if is_for_worker else 'parents'}"] += 1
            codes |= {69} if is_for_worker else {-number, 128 + number}  # 69: too many of them died for nothing
        return codes, seen

    def run(self, name, chooser):
        algorithm = chooser.choice(list(ALGORITHMS))
        cohort = [] if chooser.random() < 0.6 or "dp-ftrl" in algorithm or "easgd" in algorithm else ["--clients-per-round", "3"]
        task = [*TASK, "--algorithm", algorithm, *ALGORITHMS[algorithm], *cohort]
        expected = self.undisturbed(task)
        task = [*task, "--checkpoint-every", str(chooser.choice((1, 1, 2, 3, 0)))]
        workers, rounds = set(), 0
        for left in reversed(range(chooser.randint(2, MOST_PROCESSES))):
            rounds = ROUNDS if left == 0 else chooser.randint(max(rounds, 1), ROUNDS)
            process = self.start(self.command(name, task, rounds, chooser))
            codes, seen = self.disturb(process, chooser) if left > 0 and chooser.random() < 0.8 else ({0}, set())
            _, err = process.communicate(timeout=DEADLINE)
            workers |= seen
            self.counts["processes"] += 1
            if process.returncode not in codes:
                raise Wrong(f"{algorithm}: ended with {process.returncode}: {err}")
        if self.facts(name) != expected:
            raise Wrong(f"{algorithm}: other bits than undisturbed")
        if not wait_until(lambda: not any(map(is_worker, workers))):
            raise Wrong(f"{algorithm}: a worker lives on")
        left_over = [file for _, folders, files in os.walk(self.path(name)) for file in folders + files if file == "live" or file.endswith(".partial")]
        if left_over:
            raise Wrong(f"{algorithm}: left over: {left_over}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("sounder")
    arguments.add_argument("--runs", type=int, default=300 if os.environ.get("SOUNDER_EXHAUSTIVE") == "1" else 6)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only")
    given = arguments.parse_args()
    if given.only:
        for name in set(ALGORITHMS) - {given.only}:
            del ALGORITHMS[name]
    folder, wrong, began = new_folder("sounder-storm-"), [], time.monotonic()
    storm = Storm(folder.name)
    for number in range(given.runs):
        name = f"run-{number}"
        try:
            storm.run(name, random.Random(f"{given.seed}/{number}"))
        except (Wrong, OSError, subprocess.TimeoutExpired) as why:
            wrong.append(name)
            print(f"{name}: {why}", flush=True)
        shutil.rmtree(storm.path(name), ignore_errors=True)
    folder.cleanup()
    print(f"{given.runs} runs, {len(wrong)} wrong; {dict(storm.counts)}; {time.monotonic() - began:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
