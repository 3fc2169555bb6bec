"""What tests of whole runs share. The importing test is called with the path of sounder as its first argument.

Every run is a child with a deadline, in a process group that is killed when the test ends.
"""
import ctypes, glob, hashlib, json, os, re, select, shutil, signal, struct, subprocess, sys, tempfile, time, unittest

SOUNDER = os.path.abspath(sys.argv[1])
SLOWED = float(os.environ.get("SOUNDER_TEST_SLOWDOWN", "1"))  # qemu takes longer


def is_sanitized(program):
    with open(program, "rb") as file:
        return b"__asan_init" in file.read()


# With sanitizers a sample takes ten times as long: fewer of them make rounds as long as elsewhere, and too few to learn.
SANITIZED = is_sanitized(SOUNDER)
TRAIN, TEST = (400, 300) if SANITIZED else (4000, 1000)
DATA = f"synthetic:1x28x28:{TRAIN}:{TEST}"
NOISE_KEY = "00112233445566778899aabbccddeeff" * 2  # for --noise-key, where runs of other options must share their noise
DEADLINE = 120 * SLOWED
ECHO_SECONDS = 0.6  # a signal closer behind another one is its echo, and no second request
SMALL = ["--data", DATA, "--model", "lenet", "--clients", "8", "--rounds", "3", "--batch-size", "32", "--momentum", "0.5"]

# 192 TB of updates side by side: more than the 128 TiB that a process can address.
BEYOND_ANY_MACHINE = ["--data", "synthetic:1x1x2:30000:60", "--clients", "30000", "--model", "linear 40000; linear 40000; linear 10"]

ENDLESS = ["--rounds", "100000", "--quiet"]  # ended by RunCase.stop; quiet, for nobody reads what it prints meanwhile
DIVERGING = ["--lr", "1000", "--weight-decay", "1"]  # every step multiplies the weights by about -999

# A test that was started in the background, or by nohup, finds signals ignored, and so would the runs that it starts.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, LIBC = 1, 36, ctypes.CDLL(None)


def end_with_the_test():
    """Of a child before its exec: a test that is killed cannot end a run that has no end of its own."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


OWN_SESSION = {"start_new_session": True, "preexec_fn": end_with_the_test}


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def parse_safetensors(blob):
    """The format in a few lines: the header's length, the JSON header, raw tensors."""
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    notes = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = blob[8 + length + begin : 8 + length + end]
        tensors[name] = (entry["shape"], struct.unpack(f"<{len(data) // 4}f", data))
    return notes, tensors


def command_line(pid):
    """[]: it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[:-1]
    except OSError:
        return []


def is_worker(pid):
    """False for what a sanitizer starts as the parent's child at its end."""
    return command_line(pid)[1:2] == [b"worker"]


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [child for child in map(int, file.read().split()) if is_worker(child)]
    except OSError:
        return []


def state_of(pid):
    """R: it runs or wants to, S: it sleeps, Z: it has ended, and so on; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def computed_seconds(pid):
    """Of a processor's time, by all its threads, since it began."""
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def alive(pid):
    return state_of(pid) not in ("Z", "X", None)


# What the test's runs leave behind becomes its child, whoever of them dies: so none is overlooked, and none of others is ours.
LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


def descendants_of(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                children = list(map(int, file.read().split()))
        except OSError:  # a thread that has ended meanwhile
            continue
        for child in children:
            found += [child, *descendants_of(child)]
    return found


def segments_held():
    """(process, segment) of shared memory that what the test has started still holds. Segments have no names: /dev/shm says nothing of them."""
    held = set()
    for pid in descendants_of(os.getpid()):
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                target = os.readlink(path)
            except OSError:  # closed meanwhile
                continue
            if re.fullmatch(r"(/dev/shm/#\d+|/memfd:.*) \(deleted\)", target):
                held.add((pid, target))
    return held


def segments_are_freed():
    return wait_until(lambda: not segments_held())  # a killed process gives its memory back a moment later


def read_trace(path):
    """The complete events of a trace, by track; checks that it is JSON and that the spans of a track nest."""
    def refuse_duplicates(pairs):
        assert len(dict(pairs)) == len(pairs), f"a key stands there twice: {pairs}"
        return dict(pairs)
    with open(path) as file:
        events = json.load(file, object_pairs_hook=refuse_duplicates)
    tracks = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for track, spans in tracks.items():
        open_until = []
        for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
            begin, end = round(span["ts"] * 1000), round(span["ts"] * 1000) + round(span["dur"] * 1000)
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], f"track {track}: {span} begins in another and ends behind it"
            open_until.append(end)
    return tracks


def named(tracks, category):
    return [span for spans in tracks.values() for span in spans if span["cat"] == category]


def wait_until(condition, seconds=30.0):
    """Returns the condition's first answer that is true, or False."""
    end = time.monotonic() + seconds * SLOWED
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    return False


def merged(*arguments):
    """A command line in which an option that comes again takes the place of what it was: a test's defaults, then a case's own."""
    words, places = [], {}
    for i, word in enumerate(arguments):
        if i and arguments[i - 1] in places and not word.startswith("--") and len(words[places[arguments[i - 1]]]) == 1:
            words[places[arguments[i - 1]]].append(word)
        elif word in places:
            words[places[word]] = [word]
        else:
            if word.startswith("--") and "=" not in word:
                places[word] = len(words)
            words.append([word])
    return [word for group in words for word in group]


def new_folder(prefix):
    """In memory, where there is room: a run waits for the disk many times a round."""
    roomy = shutil.disk_usage("/dev/shm").free > 1 << 30
    return tempfile.TemporaryDirectory(prefix="tmp-" + prefix, dir="/dev/shm" if roomy else None)


def is_clock(key):
    """Whether two equal runs may differ in this key of a record: times and what follows from them, memory, the worker that had a job."""
    timed = "second" in key and not key.startswith("simulated")
    return timed or key in ("time", "rank", "peak_memory_bytes", "worker_private_bytes") or key.startswith("measured_joules")


def figures(run):
    """All that the record of the run in this folder says of its rounds and its end, without clocks."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [{key: value for key, value in line.items() if not is_clock(key)} for line in lines if line["type"] != "start"]


class FolderCase(unittest.TestCase):
    """A folder of its own, and processes (started) that end with the test."""

    def setUp(self):
        self.folder = new_folder("sounder-runs-")
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.folder.cleanup()

    def path(self, *parts):
        return os.path.join(self.folder.name, *parts)


class RunCase(FolderCase):
    """Runs in the folder, which leave no shared memory behind."""

    def tearDown(self):
        super().tearDown()
        self.assertTrue(segments_are_freed(), f"still held: {segments_held()}")

    def start(self, *arguments, **more):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([SOUNDER, "train", *merged(*arguments)], cwd=self.folder.name, text=True, **{**OWN_SESSION, **pipes, **more})
        self.started.append(process)
        return process

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, f"stdout: {out}\nstderr: {err}")
        return out, err

    def end_at_once(self, process):
        """In a long first round: a signal, the answer to it, and one more, which ends the run and its workers; what stderr says then."""
        def trains():
            workers = children_of(process.pid)
            return workers and min(map(computed_seconds, workers)) > SLOWED  # a start takes less
        self.assertTrue(wait_until(trains))
        process.send_signal(signal.SIGINT)
        answer = b""
        while b"; again: stop now and lose it" not in answer:
            ready, _, _ = select.select([process.stderr], [], [], DEADLINE)
            piece = os.read(process.stderr.fileno(), 65536) if ready else b""
            self.assertTrue(piece, f"the first signal got no answer, but: {answer}")
            answer += piece
        self.assertIsNone(process.poll(), "the first signal only asks")
        workers = children_of(process.pid)
        time.sleep(ECHO_SECONDS)
        process.send_signal(signal.SIGINT)
        _, err = self.finish(process, 128 + signal.SIGINT)
        self.assertTrue(wait_until(lambda: not any(map(alive, workers))), "a worker lives on")
        return err

    def train(self, *arguments, code=0, **more):
        return self.finish(self.start(*arguments, **more), code)

    def call(self, *arguments, code=0, folder=".", **environment):
        """Another command than train, to its end: its stdout and stderr."""
        done = subprocess.run([SOUNDER, *arguments], cwd=self.path(folder), text=True, timeout=DEADLINE, capture_output=True,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, f"stdout: {done.stdout}\nstderr: {done.stderr}")
        return done.stdout, done.stderr

    def data_of(self, page):
        """The figures that a report's page draws."""
        with open(self.path(page)) as file:
            (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', file.read(), re.S)
        return json.loads(text)

    def metrics(self, run):
        with open(self.path(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file]

    def rounds(self, run):
        return [entry for entry in self.metrics(run) if entry["type"] == "round"]

    def rounds_so_far(self, run):
        """Of a run that may be writing them: without the line under way."""
        try:
            with open(self.path(run, "metrics.jsonl")) as file:
                lines = file.read().split("\n")[:-1]
        except OSError:
            return []
        return [entry for entry in map(json.loads, lines) if entry["type"] == "round"]

    def bits(self, run):
        """What the model was after each round."""
        return [entry["model_xxh3"] for entry in self.rounds(run)]

    def model(self, run):
        return sha256(self.path(run, "model.safetensors"))

    def wait_for_round(self, run, number):
        self.assertTrue(wait_until(lambda: any(entry["round"] >= number for entry in self.rounds_so_far(run)), 120), f"round {number} never came")

    def wait_for_more_rounds(self, run, number):
        self.wait_for_round(run, self.rounds_so_far(run)[-1]["round"] + number)

    def wait_for_deaths(self, run, number):
        """Until so many workers' deaths are in the rounds' records: what became of them has been said by then."""
        self.assertTrue(wait_until(lambda: sum(entry["workers_lost"] for entry in self.rounds_so_far(run)) >= number, 120), "no death was told")

    def stop(self, process, number=signal.SIGTERM):
        """Behind the round under way; what stderr says then."""
        process.send_signal(number)
        return self.finish(process, 128 + number)[1]

    def signal_workers_until_the_end(self, process, number, every_seconds):
        while process.poll() is None:
            for worker in children_of(process.pid):
                try:
                    os.kill(worker, number)
                except ProcessLookupError:
                    pass
            time.sleep(every_seconds)

    def kill_workers_during(self, process, every_seconds, chooser, most=1000000):
        """A round in lockstep starts over with each death: `most` lets it come to an end on a slow machine too."""
        kills = 0
        while process.poll() is None and kills < most:
            time.sleep(every_seconds)
            workers = children_of(process.pid)
            if workers:
                try:
                    os.kill(chooser.choice(workers), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        return kills
