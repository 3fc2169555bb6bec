"""What tools/gpu-check works with: the card, the report, and the runs of the program under test."""
import glob, json, os, shutil, signal, subprocess, sys, tempfile, time

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


class Report:
    def __init__(self, folder, minutes):
        self.folder, self.end = folder, time.monotonic() + 60 * minutes
        self.data = {"checks": [], "speed": [], "peers": [], "comparisons": []}
        self.text = open(os.path.join(folder, "report.txt"), "w", buffering=1)

    def left(self):
        return self.end - time.monotonic()

    def say(self, line=""):
        print(line, flush=True)
        self.text.write(line + "\n")

    def check(self, name, passed, detail="", seconds=0.0):
        word = {True: "ok", False: "FAILED", None: "skipped"}[passed]
        self.say(f"{word:8}{name}{': ' if detail else ''}{detail}{f'  ({seconds:.1f} s)' if seconds else ''}")
        self.data["checks"].append({"name": name, "passed": passed, "detail": detail, "seconds": seconds})
        self.write()  # whoever ends this before its end shall have what there is

    def write(self):
        with open(os.path.join(self.folder, "report.json"), "w") as file:
            json.dump(self.data, file, indent=1)

    def failed(self):
        return [check["name"] for check in self.data["checks"] if check["passed"] is False]


class Session:
    """The program under test, its runs, and the time there is."""

    def __init__(self, report, program, sizes, data):
        self.report, self.program, self.sizes, self.data = report, program, sizes, data
        self.work = tempfile.mkdtemp(prefix="gpu-check-")
        self.count = 0

    def limit(self, seconds):
        return max(1.0, min(seconds, self.report.left()))

    def start(self, *options, device="cuda", data=None, before=()):
        self.count += 1
        run = os.path.join(self.work, f"{self.count:03}")
        command = [*before, self.program, "train", "--device", device, *([] if "--data" in options else ["--data", data or self.data]),
                   *options, "--out", run]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        return process, run

    def finish(self, process, seconds=60):
        """Returns what it wrote to stdout and stderr; raises when it failed."""
        try:
            out, err = process.communicate(timeout=self.limit(seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise RuntimeError(f"not done after {seconds} s")
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}: {(err.strip() or out.strip())[-400:]}")
        return out, err

    def train(self, *options, seconds=60, **more):
        """A finished run's metrics."""
        process, run = self.start(*options, **more)
        self.finish(process, seconds)
        return self.metrics(run)

    @staticmethod
    def metrics(run):
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file]
