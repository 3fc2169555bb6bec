"""sounder train --plan: what it says a run would take, beside what the run then takes.

Usage: test_plan.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, re, subprocess, sys, time, unittest

from runs import BEYOND_ANY_MACHINE, SANITIZED, SOUNDER, RunCase

SAMPLES = ["--data", "synthetic:1x16x16:2000:500"]
DATA = [*SAMPLES, "--rounds", "3"]
NARROW, WIDE = "conv 8 3 pad 1; relu; pool 2; linear classes", "linear 600; relu; linear 200; relu; linear classes"

# Of each kind of state and engine one: rows, kept state, lengths, second models, waiting updates, lockstep, the wild.
KINDS = {
    "fedavg": [WIDE, "--workers", "3"],
    "scaffold": [WIDE, "--workers", "2", "--clients", "12"],
    "krum byzantine=1": [NARROW, "--workers", "2", "--clients", "9"],
    "ditto": [NARROW, "--workers", "2", "--clients", "4"],
    "fedadam": [WIDE, "--workers", "1", "--clients", "5"],
    "fedbuff": [NARROW, "--workers", "2", "--clients", "6"],
    "ssgd": [WIDE, "--workers", "2", "--clients", "4"],
    "hogwild": [WIDE, "--workers", "2", "--clients", "2"],
}
# A control group of our own: limit and use, where both versions of the kernel's files have them.
GROUP = """mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory &&
for file in memory.max memory/memory.limit_in_bytes; do echo {limit} >/sys/fs/cgroup/$file; done &&
for file in memory.current memory/memory.usage_in_bytes; do echo 0 >/sys/fs/cgroup/$file; done && exec "$@" """


def bytes_of(megabytes):
    return float(megabytes) * 1e6


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return 1024 * int(re.search(r"RssAnon:\s*(\d+)", file.read())[1])
    except (OSError, TypeError):  # it has ended
        return 0


def segments(pid):
    """The bytes of shared memory that the process maps, each segment once."""
    sizes = {}
    try:
        with open(f"/proc/{pid}/maps") as file:
            for fields in (line.split(None, 5) for line in file):
                if "s" in fields[1] and re.match(r"/dev/shm|/memfd:", fields[-1]) and "clients.kept" not in fields[-1]:
                    begin, end = (int(address, 16) for address in fields[0].split("-"))
                    sizes[fields[4]] = end - begin
    except OSError:
        pass
    return sum(sizes.values())


class Plan(RunCase):
    def plan(self, *arguments, code=0):
        out, err = self.train(*arguments, "--plan", code=code)
        return {line[:15].strip(): line[15:].strip() for line in out.splitlines()}, err

    def measure(self, *arguments):
        """The shared memory and the parent's own, at most, while a run goes on."""
        process = self.start(*arguments)
        shared = parent = 0
        while process.poll() is None:
            shared, parent = max(shared, segments(process.pid)), max(parent, anonymous(process.pid))
            time.sleep(0.002)
        self.finish(process, 0)
        return shared, parent

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is larger than the run's")
    def test_the_memory_that_it_says_is_that_of_the_run_within_a_fifth(self):
        for number, (algorithm, (model, *more)) in enumerate(KINDS.items()):
            with self.subTest(algorithm):
                rounds = "12" if model == WIDE else "30"  # long enough to be looked at, on a busy machine, too
                options = [*SAMPLES, "--rounds", rounds, "--algorithm", algorithm, "--model", model, *more]
                said, _ = self.plan(*options)
                shared, parent = self.measure(*options, "--out", str(number))
                worker = next(line for line in self.metrics(str(number)) if line["type"] == "summary")["worker_private_bytes"]
                private = re.match(r"parent ([\d.]+) MB, (\d+) workers? of ([\d.]+) MB$", said["private memory"])
                self.assertAlmostEqual(bytes_of(said["shared memory"].split()[0]), shared, delta=0.02 * shared + 5e4)
                self.assertAlmostEqual(bytes_of(private[1]) / parent, 1, delta=0.2)
                self.assertAlmostEqual(bytes_of(private[3]) / worker, 1, delta=0.2)
                whole = bytes_of(said["in all"].split()[0])
                self.assertAlmostEqual(whole / (shared + parent + int(private[2]) * worker), 1, delta=0.1)
                folder = self.path(str(number))
                files = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names if name != "clients.kept")
                limit = bytes_of(re.match(r"up to ([\d.]+) MB in", said["files"])[1]) + 1e5
                self.assertLess(files, limit)
                model = os.path.getsize(self.path(str(number), "model.safetensors"))
                self.assertAlmostEqual(bytes_of(re.search(r"model and best model ([\d.]+)", said["files"])[1]), model, delta=5e4 + 1)

    def test_it_writes_nothing_trains_nothing_and_says_how_long(self):
        said, err = self.plan(*DATA, "--model", "softmax", "--clients", "20", "--clients-per-round", "5", "--eval-every", "2", "--out", "run")
        self.assertEqual((err, os.listdir(self.path("."))), ("", []))
        self.assertEqual(list(said), ["shared memory", "private memory", "in all", "files", "time"])
        self.assertRegex(said["time"], r"^about \S+ m?s: start \S+ m?s, 3 rounds of \S+ m?s, 2 tests of \S+ m?s \(client \d+: 100 samples in \S+ m?s\)$")
        self.assertIn(" in run: model and best model ", said["files"])

    def test_a_cohort_that_grows_counts_by_its_mean_over_the_rounds(self):
        many = ["--data", "synthetic:1x4x4:2000:50", "--model", "softmax", "--clients", "100", "--rounds", "100"]
        about = lambda *more: float(re.search(r"metrics.jsonl about ([0-9.]+)", self.plan(*many, *more)[0]["files"])[1])
        whole = about()
        self.assertAlmostEqual(about("--cohort-schedule", "linear first=1 rounds=2"), whole, delta=0.1)
        self.assertAlmostEqual(about("--cohort-schedule", "linear first=1 rounds=100"), whole / 2, delta=0.1)

    def test_every_kind_of_client_and_clock_has_a_turn(self):
        small = [*DATA, "--model", "softmax", "--clients", "6", "--workers", "2"]
        for more in (["--algorithm", "fedbuff", "--clock", "real"], ["--algorithm", "fltrust root=100"], ["--algorithm", "ssgd"],
                     ["--sampling", "poisson"], ["--validation", "0.1", "--patience", "2"], ["--attack", "sign-flip", "--attackers", "0"],
                     ["--eval-clients-every", "1", "--finetune-epochs", "1"], ["--client-optimizer-state", "keep", "--momentum", "0.9"]):
            with self.subTest(more):
                said, err = self.plan(*small, *more)
                self.assertEqual(err, "")
                self.assertIn("samples in ", said["time"])

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory is larger than the run's")
    def test_a_run_that_does_not_fit_is_refused_with_the_workers_that_would(self):
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no mount namespace may be made here")
        group = ["unshare", "-m", "sh", "-c", GROUP.format(limit=40 << 20), "sh"]
        options = [*DATA, "--model", WIDE, "--clients", "16"]

        def ask(workers):
            return subprocess.run([*group, SOUNDER, "train", *options, "--workers", str(workers), "--plan"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, cwd=self.path("."))
        done = ask(12)
        if "mount" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 71, done)
        found = re.search(r"error: --workers 12: the run takes about [\d.]+ MB of memory, where [\d.]+ MB are available; take --workers (\d+)$", done.stderr)
        self.assertIn("time ", done.stdout)
        fitting = int(found[1])
        self.assertTrue(0 < fitting < 12)
        self.assertEqual([ask(fitting).returncode, ask(fitting + 1).returncode], [0, 71])

    def test_what_no_machine_could_hold_is_refused_after_the_sizes(self):
        said, err = self.plan(*BEYOND_ANY_MACHINE, "--algorithm", "krum byzantine=1", "--workers", "1", code=71)
        self.assertEqual(list(said), ["shared memory"])
        self.assertIn("lower --clients-per-round or take a smaller --model", err)

    def test_what_a_plan_does_not_go_with_is_refused(self):
        self.train(*DATA, "--model", "softmax", "--clients", "2", "--out", "run")
        for more, sentence in ((["--resume", "run"], "--plan: plans a run from its beginning; leave --resume out, and give run/config.yaml"),
                               ([*DATA, "--quiet"], "--plan: prints what --quiet hides; leave one of the two out")):
            _, err = self.plan(*more, code=64)
            self.assertIn(sentence, err)
        self.plan(self.path("run/config.yaml"))  # the remedy


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
