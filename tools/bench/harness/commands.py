"""Commands that yield figures: whole runs of sounder, sounder_bench, and the PyTorch peers. Each is a child with a
deadline, in a process group of its own that is killed with everything it started when it fails or we are interrupted.
"""
import contextlib, json, os, signal, subprocess, tempfile, threading, time

from .cores import CoreCount
from .machine import BUILD

PEERS = os.path.join(os.path.dirname(__file__), "..", "peers")
DEADLINE_SECONDS = 900
# How the libraries of peers are told how many threads to start. PyTorch's set_num_threads does not reach an OpenBLAS with threads of its
# own, which Debian's PyTorch multiplies with: it took every core of the machine.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
MOMENTUM = 0.5  # of both sides, where a row says no other; as sounder_bench train has it


class Failed(Exception):
    """One sentence: which command failed, and its last words."""


class OutOfTime(Failed):
    """The time of the whole bench is over."""


class TimeLimit:
    """How long the whole bench may take: without end until it is started."""

    def __init__(self):
        self.end = float("inf")

    def start(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0, self.end - time.monotonic())


def finish(process, name, limit):
    """Waits for a command; its standard output. Whatever happens, nothing of it is left running."""
    seconds = min(DEADLINE_SECONDS, limit.left())
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        if limit.left() == 0:
            raise OutOfTime(f"{name}: left out, the time is over") from None
        raise Failed(f"{name}: not done after {seconds:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise Failed(f"{name}: exit {process.returncode}: {last}")
    return output


def environment_with(more):
    """The shell's, without what it says to BLAS libraries: it would hold for one side of a row alone, where the other sets its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "MKL_", "BLIS_", "OMP_", "GOTO_"))}
    return {**inherited, **more}


def start(command, environment):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                            env=environment_with(environment))


def run(command, limit, environment={}, watch=None, cores=None):
    """JSON lines that a command prints. watch: called with its pid while it runs, about 50 times a second. cores: how many it may keep
    busy; with more its figures would be of another row, and it has failed."""
    process, count = start(command, environment), CoreCount()
    name = os.path.basename(command[1] if command[1:] and command[1].endswith(".py") else command[0])
    watches = [(watch, 0.02)] if watch else [(count, 0.2)] if cores else []
    done = threading.Event()
    watchers = [threading.Thread(target=watch_until, args=(call, seconds, process.pid, done)) for call, seconds in watches]
    for watcher in watchers:
        watcher.start()
    try:
        output = finish(process, name, limit)
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
    if cores and count.is_more_than(cores):
        raise Failed(f"{name}: kept {count.most():.1f} cores busy, where its row has {cores}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def watch_until(watch, seconds, pid, done):
    while not done.wait(seconds):
        watch(pid)


def cores_of(options):
    """Of a run with so many workers: one each, and with several one more for their parent's own work meanwhile."""
    workers = options.get("workers", 1)
    return workers if workers == 1 else workers + 1


def peer_environment():
    """What makes PyTorch as fast as it can be on one core a process, which is what every row says. By default glibc maps and unmaps its large tensors in every step; and an
    OpenBLAS that is older than the processor (Debian's, which Debian's PyTorch multiplies with) takes it for another."""
    environment = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
                   "MALLOC_TOP_PAD_": str(1 << 28), **dict.fromkeys(THREAD_VARIABLES, "1")}
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    for flag, core in (("avx512bw", "SkylakeX"), ("avx2", "Haswell")):
        if flag in flags:
            return {"OPENBLAS_CORETYPE": core, **environment}
    return environment


def option_words(options):
    """{"batch_size": 10} as ["--batch-size", "10"]; None: without the option."""
    return [word for name, value in options.items() if value is not None for word in (f"--{name.replace('_', '-')}", str(value))]


class Programs:
    """How the programs are called: which data, and where runs may write."""

    def __init__(self, data, folder):
        self.data = data
        self.folder = folder  # temporary; runs go there
        self.limit = TimeLimit()
        self.peer_data = data
        if os.path.isdir(data) is False and not data.startswith("synthetic"):
            self.peer_data = find_named(data)

    def _train_command(self, out, options):
        words = ["--data", options.pop("data", self.data), "--quiet", "--checkpoint-every", "0", "--eval-every", "0", "--out", out]
        return [os.path.join(BUILD, "sounder"), "train", *words, *option_words({"momentum": MOMENTUM, **options})]

    @contextlib.contextmanager
    def _run_folder(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield os.path.join(folder, "run")

    def train(self, environment={}, watch=None, **options):
        """Objects of metrics.jsonl of one `sounder train`."""
        with self._run_folder() as out:
            run(self._train_command(out, options), self.limit, environment, watch, cores_of(options))
            return read_metrics(out)

    def train_at_once(self, count, **options):
        """The same for `count` independent runs side by side: a list of their objects."""
        with contextlib.ExitStack() as stack:
            outs = [stack.enter_context(self._run_folder()) for _ in range(count)]
            runs = [start(self._train_command(out, options), {}) for out in outs]
            for process in runs:
                stack.callback(kill_group, process)
            for process in runs:
                finish(process, "sounder", self.limit)
            return [read_metrics(out) for out in outs]

    def sweep(self, seeds, rates, **options):
        """Seconds of one `sounder sweep`: a run for each seed and learning rate."""
        with self._run_folder() as out:
            begin = time.monotonic()
            run([os.path.join(BUILD, "sounder"), "sweep", "--data", self.data, "--out", out, *option_words({"momentum": MOMENTUM, **options}),
                 "--seed", ",".join(map(str, seeds)), "--lr", ",".join(map(str, rates))], self.limit)
            return time.monotonic() - begin

    def runs_in_turn(self, seeds, rates, **options):
        """Seconds of the same runs by a `sounder train` each."""
        with self._run_folder() as out:
            begin = time.monotonic()
            for seed in seeds:
                for rate in rates:
                    run([os.path.join(BUILD, "sounder"), "train", "--data", self.data, "--quiet", "--out", f"{out}/{seed}-{rate}",
                         *option_words({"momentum": MOMENTUM, **options, "seed": seed, "lr": rate})], self.limit)
            return time.monotonic() - begin

    def micro(self, name, **options):
        """The figures of one micro-benchmark."""
        if name in ("train", "evaluate"):
            options = {"data": self.data, **options}
        cores = options.get("ranks", 2 if name == "group" else 1)
        return run([os.path.join(BUILD, "sounder_bench"), name, *option_words(options)], self.limit, cores=cores)[0]

    def peer(self, torch, name, watch=None, **options):
        """JSON objects that a PyTorch peer prints."""
        cores = 2 if name == "group" else cores_of(options)
        options = {"data": self.peer_data, "started": time.monotonic(), "momentum": MOMENTUM, **options}
        environment = {} if watch else peer_environment()  # who looks at their memory shall see what is usual
        return run([torch.python, os.path.join(PEERS, f"{name}.py"), *option_words(options)], self.limit, environment, watch, cores)


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def read_metrics(out):
    with open(os.path.join(out, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def find_named(name):
    """The folder of a named data set, looked for where sounder looks."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    parents = [os.environ.get("SOUNDER_DATA"), os.path.join(cache, "sounder"), "/usr/share/datasets"]
    for parent in filter(None, parents):
        folder = os.path.join(parent, name)
        if os.path.isdir(folder):
            return folder
    raise SystemExit(f"bench: no data set {name}; install dataset-fashion-mnist, or give --data FOLDER|synthetic")


def rate_of_rounds(objects):
    """Training samples a second over all rounds of a run."""
    rounds = [line for line in objects if "samples_per_second" in line]
    return sum(line["samples"] for line in rounds) / sum(line["seconds"] for line in rounds)


def summary_of(objects):
    return next(line for line in objects if line.get("type") == "summary")


class PeakPrivateMemory:
    """Largest private memory, in bytes, that any child of a process ever had; called again and again while it runs."""

    def __init__(self):
        self.bytes = 0

    def __call__(self, pid):
        with contextlib.suppress(OSError):  # a process may end while we look
            children = read_text(f"/proc/{pid}/task/{pid}/children").split()
            own = read_text(f"/proc/{pid}/cmdline")
            for child in children:
                with contextlib.suppress(OSError):
                    # Until a child has become another program its memory is its parent's.
                    if read_text(f"/proc/{child}/cmdline") != own:
                        self.bytes = max(self.bytes, private_bytes(child))


def read_text(path):
    with open(path) as file:
        return file.read()


def private_bytes(pid):
    """Pages that no other process maps, in mappings that nobody could share: the part of a shared data set that this
    process alone has touched so far is not its own."""
    kilobytes, shared = 0, False
    for line in read_text(f"/proc/{pid}/smaps").splitlines():
        words = line.split()
        if not words[0].endswith(":"):  # a mapping's first line: addresses, permissions, ...
            shared = words[1].endswith("s")
        elif not shared and words[0] in ("Private_Clean:", "Private_Dirty:"):
            kilobytes += int(words[1])
    return 1024 * kilobytes
