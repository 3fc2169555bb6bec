"""The stages of gpu-check's first command."""
import csv, importlib.util, io, json, os, re, shutil, sys

from session import ENVIRONMENT, FAILED, SKIPPED, says

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build(session):
    """Everything, where there are the libraries or a kit of them; else bench_card, which needs CMake and nvcc alone."""
    if "sounder" not in session.programs:
        tests = ["on_card"] if says("pkg-config", "--modversion", "cmocka") else []
        if not tests:
            session.say("   cmocka is missing (libcmocka-dev, or a kit), so the build leaves the unit tests out")
        options = ["-DSOUNDER_CUDA=ON", "-DSOUNDER_LESSONS=OFF", "-DSOUNDER_MPI=OFF", f"-DSOUNDER_TESTS={'ON' if tests else 'OFF'}"]
        build_in(session, "build-gpu", ROOT, options, ["sounder", "bench_card", *tests])
    if "bench_card" not in session.programs:
        build_in(session, "build-card", os.path.join(ROOT, "tools", "bench", "card"), [], ["bench_card"])
    for name in ("sounder", "bench_card"):
        session.check(f"{name} is there", name in session.programs, session.programs.get(name, ""))


def build_in(session, name, source, options, targets):
    folder, generator = os.path.join(ROOT, name), [] if shutil.which("make") else ["-G", "Ninja"]
    configure = ["-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *generator, *options]
    for command, seconds in ((configure, 60), (["--build", folder, "--parallel", str(os.cpu_count()), "--target", *targets], 300)):
        session.attempt(f"build of {', '.join(targets)}", FAILED, "cmake", *command, seconds=seconds)
    session.take(folder)


def probe(session):
    """Whether the GPU serves: `sounder doctor` asks the questions."""
    code, out, err = session.wait(session.open(session.program(), "doctor", *session.plan["doctor"]))
    session.say(out)
    session.check("sounder doctor", code == 0, "" if code == 0 else (out + err).strip()[-400:])


def tests(session):
    """Every unit test on the GPU, then whole runs."""
    # One at a time, for some measure the GPU's free memory, or open dozens of contexts.
    jobs = [(os.path.basename(test), [test], 90) for test in session.tests]
    verdicts = session.check_side_by_side(jobs, 1, lambda code, output: {0: True, 77: SKIPPED}.get(code, FAILED))
    if set(verdicts) <= {SKIPPED}:
        session.check("unit tests on the GPU", FAILED if verdicts else SKIPPED, "all were skipped" if verdicts else "the build has none")
    same_bits(session, "fedavg")


def same_bits(session, algorithm):
    options = [*session.plan["model"], *session.plan["accuracy"], "--clients", session.plan["clients"], "--models-per-launch", "2"]
    models = {session.end_of(*session.start("--algorithm", algorithm, *options, "--workers", workers))[1][-1]["model_sha256"] for workers in "1244"}
    session.check(f"{algorithm}: the same bits for 1, 2, 4 workers, and again", len(models) == 1)


def free_mib():
    """On all GPUs; 0 if the driver does not tell."""
    return sum(map(int, re.findall(r"^\d+$", says("nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"), re.M)))


def sanitize(session):
    """compute-sanitizer looks at unit tests that are one process without cuBLAS, a step of each net, and a whole run."""
    tool, units = shutil.which("compute-sanitizer"), [test for name in session.plan["sanitized_tests"] for test in session.tests if name in test]
    if not tool:
        return session.check("compute-sanitizer", SKIPPED, "it is not installed")

    def judge(code, output):
        found = re.findall(r"SUMMARY: (\d+) (?:error|hazard)", output)
        useless = re.search(r"Device not supported|Unable to attach|LibraryNotLoaded", output)
        return SKIPPED if code is None or useless else code == 0 and set(found) == {"0"}

    look = [tool, "--error-exitcode", "9", "--print-limit", "5", "--tool"]
    # With --hang-seconds 0 the worker may take its time to end, and its summary is written when it does.
    run = [session.program(), "train", "--device", "cuda", "--workers", "1", "--hang-seconds", "0", "--out", os.path.join(session.work, "sanitized")]
    jobs = [("memcheck, a run of one worker", [*look, "memcheck", "--target-processes", "all", *run, *session.plan["short"]], 90)]
    jobs += [(f"{checker}, {os.path.basename(unit)}", [*look, checker, unit], 80) for checker in ("racecheck", "memcheck", "synccheck") for unit in units]
    jobs += [(f"{checker}, a step of {net}", [*look, checker, session.program("bench_card"), "--rows", "50", "--one-step", net], 60)
             for net in session.plan["sanitized_steps"] for checker in ("racecheck", "initcheck")]  # kernels that the tests above do not reach
    session.check_side_by_side(jobs, max(1, min(8, free_mib() // 1024)), judge)  # each has a context of 0.6 GiB, a run two


def bench(session):
    """bench_card's grid."""
    bench_of(session, session.plan["bench"])


def bench_of(session, grid):
    """A net may be too large for a small GPU. A report has the name of a net, where the plan gives it one."""
    names = session.plan["names"]
    for number, options in enumerate(grid):
        named = [names.get(word, word) for word in options]
        out = session.attempt("bench", FAILED, session.program("bench_card"), "--json", *named)
        new = ("cost",) if "--costs" in options else ("card", "cell") if number == 0 else ("cell",)
        for entry in map(json.loads, out.splitlines()):
            if entry["type"] in new:
                net = next((name for name, layers in names.items() if layers == entry.get("net")), entry.get("net"))
                session.row(entry["type"], **{**entry, **({"net": net} if net else {})})


def peers(session):
    """Others on the same GPU."""
    peers_of(session, session.plan["peers"])


def peers_of(session, jobs):
    for job, precision, nets in jobs:
        module, script = ("jax", "card_jax.py") if job == "jax" else ("torch", "card.py")
        name = f"peer {job}" if precision == "fp32" else f"peer {job}, {precision}"
        if importlib.util.find_spec(module) is None:
            session.check(name, SKIPPED, f"python3 has no {module}")
            continue
        command = [sys.executable, os.path.join(ROOT, "tools", "bench", "peers", script), *(["--job", job, "--precision", precision] if job != "jax" else []),
                   "--nets", *nets.split(), *session.plan["peer_options"]]
        for line in session.attempt(name, FAILED, *command, environment=ENVIRONMENT).splitlines():
            if line.startswith("{"):
                session.row("peer", **{"job": job, "precision": precision, **json.loads(line)})


METRICS = {"gpu__time_duration.sum": ("us", 1e-3), "dram__bytes.sum": ("MB", 1e-6),
           "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("FMA %", 1), "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps %", 1)}


def kernels_of(listing):
    """ncu's CSV, a line per metric: figures by kernel, in the order of launches."""
    kernels = {}
    for line in csv.DictReader(io.StringIO(listing[listing.find('"ID"'):])) if '"ID"' in listing else []:
        name = re.sub(r"^void |\(anonymous namespace\)::|<unnamed>::", "", line["Kernel Name"])
        figure, factor = METRICS[line["Metric Name"]]
        kernels.setdefault(line["ID"], {"name": re.sub(r"[(<].*", "", name)})[figure] = float(line["Metric Value"].replace(",", "")) * factor
    return list(kernels.values())


def profile(session):
    """Each kernel by the GPU's own counters."""
    if not shutil.which("ncu"):
        return session.check("ncu", SKIPPED, "it is not installed")
    command = ["ncu", "--clock-control", "none", "--launch-count", "60", "--csv", "--print-units", "base", "--metrics", ",".join(METRICS)]
    for step in session.plan["profile"]:
        net, models, batch = step.split(":")
        out = session.attempt(f"ncu, {net}", SKIPPED, *command, session.program("bench_card"), "--rows", "2000", "--one-step", step, seconds=30)
        if out:
            session.check(f"ncu, {net}", bool(kernels_of(out)), "" if kernels_of(out) else out[-300:])
        for kernel in kernels_of(out):
            session.row("kernel", net=net, models=int(models), batch=int(batch), **kernel)
