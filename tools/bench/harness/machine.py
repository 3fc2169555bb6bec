"""What the figures depend on: machine, versions, and which PyTorch there is to compare with."""
import datetime, os, platform, re, shutil, subprocess, time
from dataclasses import dataclass

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.path.join(ROOT, "build")
INSTALLED_TORCH = os.path.join(BUILD, "bench-torch", "bin", "python")  # where install-torch puts it
PEERS_TORCH = os.path.join(BUILD, "bench-peers", "bin", "python")  # and install-peers


@dataclass(frozen=True)
class Torch:
    python: str  # path of the interpreter
    version: str
    jax: str = ""  # its version, where the interpreter has it, too

    @property
    def label(self):
        return f"PyTorch {self.version}"

    @property
    def order(self):
        return [int(number) for number in re.findall(r"\d+", self.version)[:3]]


def output_of(*command):
    """First line of a command's output, or None where it does not run."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.splitlines()
    return lines[0].strip() if result.returncode == 0 and lines else None


def find_torches(named, say):
    """Every interpreter that can import torch, newest release first, one per version. `named`: those the user gave,
    which must work; those of install-torch and install-peers may fail, which is said."""
    found = {}
    wanted = named + [path for path in [os.environ.get("SOUNDER_BENCH_TORCH")] if path]
    usual = [PEERS_TORCH, INSTALLED_TORCH,  # the peers' has JAX, too
             shutil.which("python3"), "/usr/bin/python3", "/usr/local/bin/python3"]
    for python in wanted + [path for path in usual if path and os.path.exists(path)]:
        version = output_of(python, "-c", "import numpy, PIL, torch; print(torch.__version__)")
        if version is None and python in wanted:
            raise SystemExit(f"bench: {python} cannot import numpy, PIL and torch; name another interpreter")
        if version is None and python in (INSTALLED_TORCH, PEERS_TORCH):
            say(f"{python} cannot import torch; left out")
        if version is not None:
            found.setdefault(version, Torch(python, version, output_of(python, "-c", "import jax; print(jax.__version__)") or ""))
    return sorted(found.values(), key=lambda torch: torch.order, reverse=True)


def build_release():
    """Brings build/ up to date, with what CMake needs to say only if it fails."""
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release", "--target", "sounder", "sounder_bench", "empty_turn"]):
        result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{result.stdout}\nbench: `{' '.join(command)}` failed")


def cpu_model():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def cached(name):
    """A variable of the Release build's CMakeCache.txt."""
    with open(os.path.join(BUILD, "CMakeCache.txt")) as file:
        for line in file:
            match = re.match(rf"{name}:\w+=(.*)", line)
            if match:
                return match.group(1)
    return None


def busy_share(seconds=1.0):
    """Share of all cores' time that others use while we sleep. Above a few percent, figures are an impression only."""

    def times():
        with open("/proc/stat") as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all, idle or waiting for a disk

    (total, idle), _, (total_after, idle_after) = times(), time.sleep(seconds), times()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def memory_gigabytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def describe(torches, isa):
    """Facts in the order in which they are printed."""
    commit = output_of("git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=10")
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{memory_gigabytes():.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "others' work before": f"{100 * busy_share():.0f}% of the cores",
        "sounder": " ".join(filter(None, [output_of(os.path.join(BUILD, "sounder"), "--version"), commit, isa])),
        "compiler": output_of(cached("CMAKE_C_COMPILER"), "--version"),
        "PyTorch": ", ".join(torch.version for torch in torches) or "none",
    }
