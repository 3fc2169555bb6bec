"""What tests of whole runs have in common: every run is a child with a deadline, in a process group that is killed when the
test ends; nothing may be left behind. The program under test is the first argument of the test script."""
import hashlib, json, os, signal, subprocess, sys, tempfile, time, unittest

SOUNDER = os.path.abspath(sys.argv[1])
SLOWED = float(os.environ.get("SOUNDER_TEST_SLOWDOWN", "1"))  # sanitizers take longer
DEADLINE = 120 * SLOWED


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def is_worker(pid):
    """False for what a sanitizer starts as the parent's child at its end."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[1:2] == [b"worker"]
    except OSError:
        return False


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [child for child in map(int, file.read().split()) if is_worker(child)]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def in_shared_memory():
    """Names in /dev/shm, without those of Python and OpenMPI programs that may run beside us."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("sem.mp-", "torch_", "psm_", "vader_segment"))}


def wait_until(condition, seconds=30.0):
    end = time.monotonic() + seconds * SLOWED
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


class RunsCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-runs-")
        self.started = []
        self.shm_before = in_shared_memory()

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.assertEqual(in_shared_memory() - self.shm_before, set(), "left in /dev/shm")
        self.folder.cleanup()

    def path(self, *parts):
        return os.path.join(self.folder.name, *parts)

    def start(self, *arguments, **more):
        process = subprocess.Popen([SOUNDER, "train", *arguments], cwd=self.folder.name, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.started.append(process)
        return process

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, f"stdout: {out}\nstderr: {err}")
        return out, err

    def train(self, *arguments, code=0, **more):
        return self.finish(self.start(*arguments, **more), code)

    def metrics(self, run):
        with open(self.path(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file]

    def rounds(self, run):
        return [entry for entry in self.metrics(run) if entry["type"] == "round"]

    def model(self, run):
        return sha256(self.path(run, "model.safetensors"))

    def wait_for_round(self, run, number):
        def done():
            try:
                return any(entry["round"] >= number for entry in self.rounds(run))
            except (OSError, ValueError):
                return False
        self.assertTrue(wait_until(done, 60), f"round {number} never came")

    def kill_workers_during(self, process, every_seconds, chooser):
        kills = 0
        while process.poll() is None:
            time.sleep(every_seconds)
            workers = children_of(process.pid)
            if workers:
                try:
                    os.kill(chooser.choice(workers), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        return kills
