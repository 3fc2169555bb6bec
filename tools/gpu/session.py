"""What tools/gpu-check works with: the card, the report, and commands with a deadline."""
import glob, json, os, signal, subprocess, sys, tempfile, time

# Of CUDA's and the driver's programs and of cuBLAS, where PATH and the loader's own list may lack them.
CUDA_PROGRAMS = ("/usr/local/cuda/bin", "/usr/local/nvidia/bin")
CUDA_LIBRARIES = ("/usr/local/nvidia/lib64", "/usr/local/cuda/lib64",
                  *{os.path.dirname(file) for entry in sys.path for file in glob.glob(f"{entry}/nvidia/*/lib/libcublas.so.*")})
ENVIRONMENT = dict(os.environ)  # PyTorch's: it brings CUDA libraries of its own
SKIPPED, FAILED = None, False  # of a check; True: passed


class Card:
    """The first card, by the driver's own interface; asked in a process of its own, so that no context stays."""

    QUESTION = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
def ask(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code: raise SystemExit(f"{name} failed with {code}")
def attribute(number):
    ask("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value
ask("cuInit", 0)
value, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
name, free, total = ctypes.create_string_buffer(128), ctypes.c_size_t(), ctypes.c_size_t()
ask("cuDeviceGet", ctypes.byref(device), 0)
ask("cuDeviceGetName", name, 128, device)
ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
ask("cuCtxSetCurrent", context)
ask("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print(json.dumps({"name": name.value.decode(), "multiprocessors": attribute(16), "kilohertz": attribute(13),
                  "compute_capability": f"{attribute(75)}.{attribute(76)}", "free_bytes": free.value, "bytes": total.value}))
"""

    @staticmethod
    def ask():
        """A dictionary, or the sentence that says what is missing."""
        answer = subprocess.run([sys.executable, "-c", Card.QUESTION], text=True, capture_output=True)
        if answer.returncode == 0:
            return json.loads(answer.stdout)
        return answer.stderr.strip().splitlines()[-1] if answer.stderr.strip() else "the driver says nothing"


class OutOfTime(RuntimeError):
    """The stage's time is over; what it has found so far counts."""


class Report:
    """report.txt as it grows, report.json whenever something was found: whoever ends this early has what there is."""

    def __init__(self, folder, stages):
        self.folder = folder
        self.data = {"schema": 2, "date": time.strftime("%Y-%m-%d"), "stages": {stage: {"state": "not begun"} for stage in stages},
                     "checks": [], "rows": []}
        self.text = open(os.path.join(folder, "report.txt"), "w", buffering=1)
        self.stage, self.end = None, float("inf")

    def begin(self, stage, seconds):
        self.stage, self.began, self.end = stage, time.monotonic(), time.monotonic() + seconds
        self.data["stages"][stage] = {"state": "running", "budget_seconds": seconds}
        self.say(f"\n== {stage} (at most {seconds:.0f} s)")

    def finish(self, state):
        self.data["stages"][self.stage].update(state=state, seconds=round(time.monotonic() - self.began, 1))
        self.say(f"-- {self.stage}: {state}, {time.monotonic() - self.began:.0f} s")
        self.end = float("inf")
        self.write()

    def left(self):
        return self.end - time.monotonic()

    def say(self, line=""):
        print(line, flush=True)
        self.text.write(line + "\n")

    def check(self, name, passed, detail="", seconds=0.0):
        word = {True: "ok", False: "FAILED", None: "skipped"}[passed]
        self.say(f"{word:8}{name}{': ' if detail else ''}{detail}{f'  ({seconds:.1f} s)' if seconds else ''}")
        self.data["checks"].append({"stage": self.stage, "name": name, "passed": passed, "detail": detail, "seconds": seconds})
        self.write()
        return passed

    def row(self, kind, line, **figures):
        """A figure for people and, under `kind`, for gpu-report."""
        self.say(line)
        self.data["rows"].append({"stage": self.stage, "kind": kind, **figures})
        self.write()

    def write(self):
        with open(os.path.join(self.folder, "report.json.new"), "w") as file:
            json.dump(self.data, file, indent=1)
        os.replace(file.name, os.path.join(self.folder, "report.json"))

    def failed(self):
        return [check["name"] for check in self.data["checks"] if check["passed"] is False]


class Session:
    """The programs under test, their runs, and the time there is. plan: a dictionary of plans.py."""

    def __init__(self, report, plan, data):
        self.report, self.plan, self.data = report, plan, data
        self.programs = {}  # sounder, bench_card; the folder of the tests
        self.card = {}
        self.work = tempfile.mkdtemp(prefix="gpu-check-")
        self.count = 0

    @property
    def program(self):
        if "sounder" not in self.programs:
            raise RuntimeError("there is no sounder: it could not be built here (see the stage build; --kit or --build help)")
        return self.programs["sounder"]

    def limit(self, seconds):
        if self.report.left() <= 1:
            raise OutOfTime("the stage's time is over")
        return min(seconds * self.options.patience, self.report.left())

    def open(self, command, environment=None):
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment)

    def finish(self, process, seconds=60):
        """Returns what it wrote to stdout and stderr; raises when it failed."""
        limit = self.limit(seconds)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise OutOfTime(f"not done after {limit:.0f} s")
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}: {(err.strip() or out.strip())[-400:]}")
        return out, err

    def run(self, *command, seconds=60, environment=None):
        return self.finish(self.open(list(command), environment), seconds)

    def start(self, *options, device="cuda", before=()):
        self.count += 1
        run = os.path.join(self.work, f"{self.count:03}")
        data = [] if "--data" in options else ["--data", self.data]
        return self.open([*before, self.program, "train", "--device", device, *data, *options, "--out", run]), run

    def train(self, *options, seconds=60, **more):
        """A finished run's metrics."""
        process, run = self.start(*options, **more)
        self.finish(process, seconds)
        return self.metrics(run)

    @staticmethod
    def metrics(run):
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file]

    @staticmethod
    def speed(entries):
        """Samples/s of the best round: the first captures graphs."""
        return max(entry["samples_per_second"] for entry in entries if entry["type"] == "round")


def side_by_side(session, jobs, at_once, done):
    """Runs commands (name, command, seconds), so many at a time; done(name, returncode or None, output, seconds) as each ends."""
    waiting, running = list(jobs), []
    try:
        while waiting or running:
            while waiting and len(running) < at_once and session.report.left() > 2:
                name, command, seconds = waiting.pop(0)
                output = tempfile.TemporaryFile("w+")
                process = subprocess.Popen(command, text=True, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                running.append((name, process, output, time.monotonic(), seconds))
            for job in list(running):
                name, process, output, begun, seconds = job
                elapsed, over = time.monotonic() - begun, session.report.left() <= 2
                if process.poll() is None and elapsed < seconds and not over:
                    continue
                code = process.poll()
                if code is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                running.remove(job)
                output.seek(0)
                done(name, code, output.read(), elapsed)
            if session.report.left() <= 2:
                for name, *_ in waiting:
                    done(name, None, "the stage's time was over before it began", 0)
                return
            time.sleep(0.05)
    finally:
        for _, process, *_ in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
