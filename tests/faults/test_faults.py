"""Every call that can fail fails once: in the parent and in the workers, while a run begins and while one is resumed.

However it ends, nothing is lost or falsified in silence: exit code 0 comes with the bits, the metrics and the configuration
of an undisturbed run; any other code is a documented one with a sentence, 71 if it was memory, and the run can then be
resumed (or begun again) to the same bits. No process and no half-written file is left.

The test takes a sample of all places at which a call can fail; all of them with SOUNDER_EXHAUSTIVE=1 in the environment,
which prints the figures (some thousand runs); SOUNDER_FAULT_KIND is a regular expression for some of them, such as
"ssgd:new:parent:alloc" or "resumed:.*:open".

Usage: test_faults.py PATH_OF_SOUNDER PATH_OF_FAILING_CALL [unittest arguments]
"""
import errno, glob, json, os, random, re, shutil, signal, struct, subprocess, sys, unittest

FAILING_CALL = os.path.abspath(sys.argv[2])
del sys.argv[2]
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runs"))
from runs import SLOWED, SOUNDER, RunCase, figures, sha256

TASK = ["--data", "synthetic:1x8x8:64:32", "--model", "conv 2 3; relu; linear 10", "--quiet"]
ALGORITHMS = {
    "fedavg": ["--clients", "4", "--workers", "2"],
    "scaffold": ["--algorithm", "scaffold", "--clients", "4", "--workers", "2"],
    "ssgd": ["--algorithm", "ssgd", "--clients", "4", "--workers", "2"],
    "hogwild": ["--algorithm", "hogwild", "--workers", "1"],  # with one it has bits
}
ROUNDS, BEFORE = 3, 2  # a resumed run has done so many
DOCUMENTED = {64, 65, 66, 69, 70, 71, 73, 74, 75}
REASONS = {
    "alloc": ["ENOMEM"], "mmap": ["ENOMEM"], "open": ["EMFILE", "EIO"], "read": ["EIO"], "pread": ["EIO"], "write": ["ENOSPC", "EIO"],
    "fsync": ["EIO"], "fdatasync": ["EIO"], "ftruncate": ["EIO"], "fstat": ["EIO"], "flock": ["EIO"], "mkdirat": ["ENOSPC"], "renameat": ["EIO"],
    "unlinkat": ["EIO"], "symlinkat": ["ENOSPC"], "readdir": ["EIO"], "pipe2": ["EMFILE"], "poll": ["ENOMEM", "EINTR"],
    "eventfd": ["EMFILE"], "signalfd": ["EMFILE"], "pidfd_open": ["EMFILE"], "waitpid": ["ECHILD"], "memfd_create": ["EMFILE"],
    "lseek": ["EINVAL"], "posix_fallocate": ["ENOSPC"], "close": ["EIO"], "fcntl": ["EINVAL"], "clone": ["EAGAIN"],
}
MEMORY = {"ENOMEM", "EMFILE"}
SAMPLE = 70
EXHAUSTIVE = os.environ.get("SOUNDER_EXHAUSTIVE") == "1"


def facts(folder):
    """What does not depend on the time, or on deaths: the model, the figures of the metrics, the configuration."""
    with open(os.path.join(folder, "config.yaml")) as file:
        config = file.read()
    told = [{key: value for key, value in line.items() if key not in ("workers_lost", "node")} for line in figures(folder)]
    return sha256(os.path.join(folder, "model.safetensors")), told, config


class Faults(RunCase):
    def setUp(self):
        super().setUp()
        self.expected, self.cases, self.wrong = {}, [], []
        for algorithm, options in ALGORITHMS.items():
            self.train(*TASK, *options, "--rounds", str(ROUNDS), "--out", f"calm-{algorithm}")
            self.train(*TASK, *options, "--rounds", str(BEFORE), "--out", f"begun-{algorithm}")
            # As if it had been killed before its end.
            os.remove(self.path(f"begun-{algorithm}", "model.safetensors"))
            self.expected[algorithm] = facts(self.path(f"calm-{algorithm}"))

    def command(self, algorithm, resumes):
        if resumes:
            return ["--resume", "run", "--rounds", str(ROUNDS), "--quiet"]
        return [*TASK, *ALGORITHMS[algorithm], "--rounds", str(ROUNDS), "--out", "run"]

    def run_with(self, algorithm, resumes, fault, **environment):
        shutil.rmtree(self.path("run"), ignore_errors=True)
        if resumes:
            shutil.copytree(self.path(f"begun-{algorithm}"), self.path("run"))
        process = self.start(*self.command(algorithm, resumes),
                             env={**os.environ, "LD_PRELOAD": FAILING_CALL, "SOUNDER_FAULT": fault, **environment})
        try:
            _, err = process.communicate(timeout=30 * SLOWED)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "hang", ""
        finally:
            self.started.remove(process)
        return process.returncode, err

    def count(self, algorithm, resumes, who, call):
        counts = self.path("counts")
        with open(counts, "wb") as file:
            file.write(bytes(8))
        code, err = self.run_with(algorithm, resumes, f"{who}:{call}:0:0", SOUNDER_FAULT_COUNT=counts)
        self.assertEqual(code, 0, err)
        with open(counts, "rb") as file:
            return struct.unpack("<q", file.read())[0]

    def judge_end(self, algorithm, who, reason, code, err):
        """Yields what is wrong with how a run ended."""
        if code == 0:
            try:
                if facts(self.path("run")) != self.expected[algorithm]:
                    yield "success with another result"
            except (OSError, ValueError, KeyError, IndexError) as error:
                yield f"success without a result: {error!r}"
            return
        if code not in DOCUMENTED:
            yield f"code {code}"
        elif reason in MEMORY and code not in ((71,) if who == "parent" else (69, 71)):  # 69: all workers have died of it
            yield f"code {code} for {reason}"
        if not err.strip().splitlines()[-1:] or not err.strip().splitlines()[-1].startswith("sounder: error: "):
            yield "no sentence at the end"

    def judge_after(self, algorithm):
        """Yields what is wrong with what it left."""
        if glob.glob(self.path("run", "**", ".*partial"), recursive=True):
            yield "a half-written file is left"
        resumes = os.path.exists(self.path("run", "config.yaml"))
        process = self.start(*self.command(algorithm, resumes))
        _, err = process.communicate(timeout=60 * SLOWED)
        self.started.remove(process)
        if process.returncode != 0:
            yield f"cannot be {'resumed' if resumes else 'begun again'}: {process.returncode}: {err.strip()}"
        elif facts(self.path("run"))[:2] != self.expected[algorithm][:2]:
            yield f"{'resumed' if resumes else 'begun again'} to another result"

    def try_case(self, algorithm, resumes, who, call, reason, place):
        code, err = self.run_with(algorithm, resumes, f"{who}:{call}:{place}:{getattr(errno, reason)}")
        wrong = list(self.judge_end(algorithm, who, reason, code, err))
        if code != 0:
            wrong += self.judge_after(algorithm)
        self.cases.append(code)
        if wrong:
            name = f"{algorithm}{' resumed' if resumes else ''}: {who}: {call} {place} with {reason}"
            self.wrong.append(f"{name}: code {code}: {'; '.join(wrong)}: {err.strip()}")
            if EXHAUSTIVE:
                print(self.wrong[-1], flush=True)

    def kinds(self):
        for algorithm in ALGORITHMS:
            for resumes in (False, True):
                for who in ("parent", "worker"):
                    for call in REASONS:
                        yield algorithm, resumes, who, call

    def test_a_call_that_fails_is_told_or_changes_nothing(self):
        chooser = random.Random(1)
        wanted = os.environ.get("SOUNDER_FAULT_KIND", "")
        kinds = [kind for kind in self.kinds() if re.search(wanted, "{}:{}:{}:{}".format(kind[0], ["new", "resumed"][kind[1]], *kind[2:]))]
        if not EXHAUSTIVE:  # allocations are most of the places, so they are half of the sample
            allocations = [kind for kind in kinds if kind[3] == "alloc"]
            kinds = [*chooser.sample(kinds, SAMPLE // 2), *(chooser.choice(allocations) for _ in range(SAMPLE // 2))]
        counts = {}
        for kind in kinds:
            if kind not in counts:
                counts[kind] = self.count(*kind)
            places = range(1, counts[kind] + 1)
            for reason in REASONS[kind[3]]:
                # Each with a chooser of its own: how often a process polls or reads depends on timing, and would move all later ones.
                for place in places if EXHAUSTIVE else random.Random(f"{kind} {reason}").sample(places, min(1, len(places))):
                    self.try_case(*kind, reason, place)
        codes = {code: self.cases.count(code) for code in sorted(set(self.cases), key=str)}
        print(f"{len(self.cases)} cases, {len(self.wrong)} wrong, codes {codes}", flush=True)
        self.assertFalse(self.wrong, "\n" + "\n".join(self.wrong))
        self.assertGreater(len(codes), 1, "no call failed")

    def test_a_record_that_cannot_be_synced_leaves_no_checkpoint(self):
        """Otherwise a power loss could leave a checkpoint of rounds that the record lacks."""
        code, err = self.run_with("fedavg", False, f"parent:fdatasync:2:{errno.EIO}")
        self.assertEqual(code, 74)
        self.assertIn("run/metrics.jsonl cannot be synced: Input/output error", err)
        self.assertEqual(os.listdir(self.path("run", "checkpoints")), ["round-000001.safetensors"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
