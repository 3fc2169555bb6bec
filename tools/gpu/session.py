"""What tools/gpu-check works with: the programs under test, commands with a deadline, and the report."""
import concurrent.futures, glob, json, os, signal, subprocess, tempfile, time

import tables

ENVIRONMENT = dict(os.environ)  # PyTorch's: it brings CUDA libraries of its own
SKIPPED, FAILED = None, False  # of a check; True: passed


class OutOfTime(Exception):
    """The stage's time is over; the report has what it found."""


def says(*command):
    """What a program prints; empty where it is missing or fails."""
    try:
        return subprocess.run(command, text=True, capture_output=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


class Session:
    """folder gets report.txt as it grows, and report.json after every finding, so that an interrupted command leaves a report."""

    def __init__(self, folder, plan, options):
        self.folder, self.plan, self.options = folder, plan, options
        self.programs, self.tests = {}, []  # sounder and bench_card; unit tests
        self.work = tempfile.mkdtemp(prefix="gpu-check-")
        self.end, self.stage, self.kind = float("inf"), None, None
        self.report = {"schema": 2, "date": time.strftime("%Y-%m-%d"), "stages": {}, "checks": [], "rows": []}
        self.text = open(os.path.join(folder, "report.txt"), "w", buffering=1)

    def say(self, text):
        print(text, flush=True)
        self.text.write(text + "\n")

    def check(self, name, passed, detail="", seconds=0.0):
        word = {True: "ok", False: "FAILED", None: "skipped"}[passed]
        self.kind = None
        self.say(f"{word:8}{name}{': ' if detail else ''}{detail}{f'  ({seconds:.1f} s)' if seconds else ''}")
        self.report["checks"].append({"stage": self.stage, "name": name, "passed": passed, "detail": detail, "seconds": seconds})
        self.write()

    def row(self, kind, **figures):
        """A row of a table of tables.py."""
        self.say(tables.line(kind, figures) if kind == self.kind else f"{tables.head(kind)}\n{tables.line(kind, figures)}")
        self.kind = kind
        self.report["rows"].append({"stage": self.stage, "kind": kind, **figures})
        self.write()

    def write(self):
        with open(os.path.join(self.folder, "report.json.new"), "w") as file:
            json.dump(self.report, file, indent=1)
        os.replace(file.name, os.path.join(self.folder, "report.json"))

    def take(self, build):
        """Adds the programs of a build folder that no other has given."""
        for name in ("sounder", "bench_card"):
            path = os.path.join(build, name)
            if os.access(path, os.X_OK) and (name != "sounder" or "cuda" in says(path, "--version")):
                self.programs.setdefault(name, path)
        if not self.tests and os.path.dirname(self.programs.get("sounder", "")) == build:
            self.tests = sorted(glob.glob(os.path.join(build, "tests", "on_card", "test_*")))

    def program(self, name="sounder"):
        if name not in self.programs:
            raise RuntimeError(f"there is no {name}: it could not be built here (see the stage build; --kit or --build help)")
        return self.programs[name]

    def open(self, *command, environment=None):
        if time.monotonic() >= self.end:
            raise OutOfTime("the stage's time is over")
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment)

    def wait(self, process, seconds=60):
        """Its exit code, stdout and stderr; None for the code if it was not done in time."""
        left, limit = self.end - time.monotonic(), seconds * self.options.patience
        try:
            out, err = process.communicate(timeout=max(0, min(limit, left)))
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            if left < limit:
                raise OutOfTime(f"{os.path.basename(process.args[0])} was not done after {left:.0f} s")
            return None, out, f"not done after {limit:.0f} s: {err}"

    def attempt(self, check, failed, *command, seconds=60, environment=None):
        """What a command prints; a failed check and nothing if it fails."""
        code, out, err = self.wait(self.open(*command, environment=environment), seconds)
        if code == 0:
            return out
        self.check(check, failed, f"{' '.join(command)[-80:]}: exit code {code}: {(err.strip() or out.strip())[-400:]}")
        return ""

    def start(self, *options, device="cuda"):
        run = os.path.join(tempfile.mkdtemp(dir=self.work), "run")
        data = [] if "--data" in options else ["--data", self.plan["data"]]
        return self.open(self.program(), "train", "--device", device, *data, *options, "--out", run), run

    def end_of(self, process, run, seconds=90):
        """What a run has printed, and its metrics."""
        code, out, err = self.wait(process, seconds)
        if code != 0:
            raise RuntimeError(f"exit code {code}: {(err.strip() or out.strip())[-400:]}")
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return out + err, [json.loads(line) for line in file]

    def check_side_by_side(self, jobs, at_once, judge):
        """Checks commands (name, command, seconds) by judge(code, output), in their order, and returns the verdicts. The code of a late one is None."""
        def work(job):
            begun, (_, command, seconds) = time.monotonic(), job
            try:
                code, out, err = self.wait(self.open(*command), seconds)
            except OutOfTime as error:
                code, out, err = None, "", str(error)
            return code, out + err, time.monotonic() - begun

        verdicts = []
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for (name, *_), (code, output, seconds) in zip(jobs, pool.map(work, jobs)):
                verdicts.append(judge(code, output))
                self.check(name, verdicts[-1], "" if verdicts[-1] else ("not done in time: " if code is None else "") + output[-500:], seconds)
        return verdicts
