"""The stages of gpu-check's first command, most valuable first: probe, build, tests, sanitize, bench, peers, profile."""
import csv, glob, importlib.util, io, json, os, re, shutil, subprocess, sys, time

from session import ENVIRONMENT, FAILED, SKIPPED, OutOfTime, side_by_side

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(ROOT, "tools", "bench", "peers")


# probe: what this machine is ------------------------------------------------------------------------------------------

def says(*command, line=0):
    """A line of what a program prints; None where it is missing."""
    try:
        out = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10).stdout.strip()
        return out.splitlines()[line] if out else ""
    except (OSError, subprocess.TimeoutExpired):
        return None


def has_pidfd():
    try:
        os.close(os.pidfd_open(os.getpid()))
        return True
    except OSError:
        return False


def probe(session):
    report, shm = session.report, os.statvfs("/dev/shm")
    kernel = os.uname().release
    smi = says("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,mig.mode.current", "--format=csv,noheader")
    facts = {"kernel": kernel, "runtime": "gVisor" if kernel == "4.4.0" else "Linux", "machine": os.uname().machine, "cores": len(os.sched_getaffinity(0)),
             "shared_memory_bytes": shm.f_bsize * shm.f_bavail, "pidfd": has_pidfd(), "nvidia_smi": smi,
             "nvcc": says("nvcc", "--version", line=-1), "cmake": says("cmake", "--version"), "cc": says("cc", "-dumpfullversion"),
             "python": sys.version.split()[0], "torch": importlib.util.find_spec("torch") is not None,
             "jax": importlib.util.find_spec("jax") is not None,
             "programs": {name: shutil.which(name) for name in ("compute-sanitizer", "ncu", "nsys", "nvidia-cuda-mps-control")}}
    report.data["machine"] = facts
    report.data["card"] = session.card
    for name, value in {**facts, **{f"card: {key}": value for key, value in session.card.items()}}.items():
        report.say(f"   {name:32} {value}")
    report.check("pidfds", facts["pidfd"], "" if facts["pidfd"] else "this kernel has no pidfd_open, which sounder watches its workers with")
    if facts["runtime"] == "gVisor":
        report.say("   gVisor: compute-sanitizer and ncu do not work here; unit tests and bench_card do")


# build ----------------------------------------------------------------------------------------------------------------

def kit_environment(kit):
    """What a build needs to find the libraries of `gpu-pack --kit`."""
    if not kit:
        return None
    return {**os.environ, "PKG_CONFIG_PATH": os.path.join(kit, "lib", "pkgconfig"), "CMAKE_PREFIX_PATH": kit,
            "PATH": os.path.join(kit, "bin") + ":" + os.environ["PATH"]}


def cmake(session, source, folder, options, targets, environment):
    session.run("cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *options, seconds=60, environment=environment)
    session.run("cmake", "--build", folder, "--parallel", str(os.cpu_count()), "--target", *targets, seconds=300, environment=environment)


def build(session):
    """bench_card first, which needs nothing but nvcc; then, where there are the libraries or a kit of them, all."""
    given, kit = session.options.build, session.options.kit
    for folder in filter(None, [given]):
        for name in ("sounder", "bench_card"):
            if os.path.exists(os.path.join(folder, name)):
                session.programs[name] = os.path.join(folder, name)
        session.programs["tests"] = os.path.join(folder, "tests", "on_card")
    if "bench_card" not in session.programs:
        attempt_build(session, "bench_card by itself", os.path.join(ROOT, "tools", "bench", "card"), "build-card", [], ["bench_card"], None)
    if "sounder" not in session.programs:
        options = ["-DSOUNDER_CUDA=ON", "-DSOUNDER_LESSONS=OFF", "-DSOUNDER_MPI=OFF", "-DSOUNDER_TESTS=ON"]
        folder = attempt_build(session, "sounder and its tests", ROOT, "build-gpu", options, ["sounder", "on_card"], kit_environment(kit))
        session.programs["tests"] = os.path.join(folder, "tests", "on_card")
    for name in ("sounder", "bench_card"):
        session.report.check(f"{name} is there", True if name in session.programs else FAILED, session.programs.get(name, ""))


def attempt_build(session, what, source, name, options, targets, environment):
    folder, begin = os.path.join(session.options.work or ROOT, name), time.monotonic()
    try:
        cmake(session, source, folder, options, targets, environment)
    except (RuntimeError, OSError) as error:
        session.report.check(f"build of {what}", FAILED, str(error)[-500:], time.monotonic() - begin)
        return folder
    for program in ("sounder", "bench_card"):
        if os.path.exists(os.path.join(folder, program)):
            session.programs.setdefault(program, os.path.join(folder, program))
    session.report.check(f"build of {what}", True, folder, time.monotonic() - begin)
    return folder


# tests: every unit test on the card, then whole runs -----------------------------------------------------------------

def tests_of(session):
    return sorted(path for path in glob.glob(os.path.join(session.programs.get("tests", ""), "*")) if os.access(path, os.X_OK) and os.path.isfile(path))


def tests(session):
    def done(name, code, output, seconds):
        passed = {0: True, 77: SKIPPED}.get(code, FAILED)
        session.report.check(name, passed, "" if passed else ("not done in time: " if code is None else "") + output[-500:], seconds)

    found = tests_of(session)
    if not found:
        session.report.check("unit tests on the card", SKIPPED, "the build has none")
    side_by_side(session, [(os.path.basename(test), [test], 90) for test in found], session.plan["at_once"], done)
    models = []
    for workers in ("1", "2", "2"):
        options = [*session.plan["accuracy"], "--clients", str(session.plan["clients"]), "--models-per-launch", "2", "--workers", workers]
        models.append(session.train(*options)[-1]["model_sha256"])
        session.report.check(f"a run with {workers} worker{'s' * (workers != '1')}", True)
    session.report.check("fedavg: the same bits in repeated runs", models[1] == models[2])
    session.report.check("fedavg: the same bits for 1 and 2 workers", True if models[0] == models[1] else SKIPPED,
                         "" if models[0] == models[1] else "they differ, which is no promise on a card")


# sanitize: unit tests, which are one process without cuBLAS, and one whole run ----------------------------------------

def sanitize(session):
    tool = shutil.which("compute-sanitizer")
    wanted = {name + suffix for name in session.plan["sanitized_tests"] for suffix in ("", "_cuda")}
    units = [test for test in tests_of(session) if os.path.basename(test) in wanted]
    if not tool or not units:
        return session.report.check("compute-sanitizer", SKIPPED, "it is not installed" if not tool else "there are no unit tests")

    def done(name, code, output, seconds):
        useless = re.search(r"Device not supported|Unable to attach|LibraryNotLoaded", output)
        passed = SKIPPED if code is None or useless else code == 0 and "ERROR SUMMARY: 0 errors" in output
        session.report.check(name, passed, "" if passed else ("not done in time" if code is None else output[-400:]), seconds)

    common = [tool, "--error-exitcode", "9", "--print-limit", "5"]
    jobs = [(f"{checker}, {os.path.basename(unit)}", [*common, "--tool", checker, unit], 60)
            for checker in ("memcheck", "racecheck", "synccheck") for unit in units]
    # With --hang-seconds 0 the worker may take its time to end, and its summary is written when it does.
    run = [*common, "--tool", "memcheck", "--target-processes", "all", session.program, "train", "--device", "cuda", "--workers", "1", "--hang-seconds",
           "0", "--out", os.path.join(session.work, "sanitized"), *session.plan["short"]]
    side_by_side(session, [*jobs, ("memcheck, a run of one worker", run, 90)], session.plan["at_once"], done)


# bench: bench_card's grid ---------------------------------------------------------------------------------------------

def bench_card(session):
    if "bench_card" not in session.programs:
        raise RuntimeError("there is no bench_card: it could not be built here")
    return session.programs["bench_card"]


def bench(session):
    report, card_said = session.report, False
    for options in session.plan["bench"]:
        out, _ = session.run(bench_card(session), "--json", *session.plan["bench_common"], *options, seconds=60)
        for entry in map(json.loads, out.splitlines()):
            if entry["type"] == "card" and not card_said:
                card_said = True
                report.row("card", f"{entry['name']}: copies {entry['copy_bytes_per_second'] / 1e9:,.0f} GB/s, peak "
                           f"{entry['peak_operations_per_second'] / 1e12:.1f} TFLOP/s", **entry)
                report.say(f"{'net':10} {'batch':>5} {'models':>6} {'tf32':5} {'momentum':>8} {'kernels':>7} {'us/step':>10} {'samples/s':>12} {'copy':>6} {'peak':>6}")
            elif entry["type"] == "cell":
                report.row("cell", f"{entry['net']:10} {entry['batch']:5} {entry['models']:6} {str(entry['tf32']):5} {entry['momentum']:8g} {entry['kernels']:7} "
                           f"{entry['microseconds_a_step']:10.1f} {entry['samples_per_second']:12,.0f} {100 * entry['of_copy_bandwidth']:5.1f}% "
                           f"{100 * entry['of_peak']:5.1f}%", **entry)
    for net, batch, models in session.plan["costs"]:
        out, _ = session.run(bench_card(session), "--json", *session.plan["bench_common"], "--nets", net, "--batches", batch, "--models", models, "--costs")
        report.say(f"parts of a step of {net}, batch {batch}, {models} models:")
        for entry in map(json.loads, out.splitlines()):
            if entry["type"] == "cost":
                report.row("cost", f"   {entry['part']:28} {entry['microseconds']:9.1f} us {entry['bytes'] / 1e6:9.1f} MB "
                           f"{100 * entry['of_copy_bandwidth']:5.1f}% of copy {100 * entry['of_peak']:5.1f}% of peak", **entry)


# peers: others on the same card, a process each -----------------------------------------------------------------------

def peers(session):
    report = session.report
    for job, nets, seconds in session.plan["peers"]:
        module, script = ("jax", "card_jax.py") if job == "jax" else ("torch", "card.py")
        if importlib.util.find_spec(module) is None:
            report.check(f"peer {job}", SKIPPED, f"python3 has no {module}")
            continue
        command = [sys.executable, os.path.join(PEERS, script), "--job", job, "--nets", *nets.split(), "--samples", session.plan["peer_samples"],
                   "--device", session.plan["peer_device"]]
        process = session.open(command, ENVIRONMENT)
        try:
            out, _ = session.finish(process, seconds)
        except (RuntimeError, OutOfTime) as error:
            out = ""
            report.check(f"peer {job}", SKIPPED if isinstance(error, OutOfTime) else FAILED, str(error).splitlines()[-1])
        for entry in (json.loads(line) for line in out.splitlines() if line.startswith("{")):
            ours = next((row for row in report.data["rows"] if row["kind"] == "cell" and not row["tf32"] and row["net"] == entry["net"]
                         and row["batch"] == entry["batch"] and row["models"] == entry["models"]), None)
            ratio = ours["samples_per_second"] / entry["samples_per_second"] if ours else None
            report.row("peer", f"{entry['net']:10} batch {entry['batch']:4} models {entry['models']:4} {entry['peer']:36} {entry['samples_per_second']:12,.0f} samples/s"
                       + (f"; sounder {ratio:.1f}x" if ratio else ""), job=job, ratio=ratio, **entry)


# profile: each kernel by the card's own counters ----------------------------------------------------------------------

METRICS = {"gpu__time_duration.sum": ("us", 1e-3), "dram__bytes.sum": ("MB", 1e-6),
           "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": ("FMA %", 1), "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps %", 1)}
UNITS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def kernels_of(listing):
    """ncu's CSV, a line a metric: figures by kernel, in the order of launches."""
    at = listing.find('"ID"')
    kernels = {}
    for line in csv.DictReader(io.StringIO(listing[at:])) if at >= 0 else []:
        name = line["Kernel Name"].replace("void ", "").replace("(anonymous namespace)::", "")
        kernel = kernels.setdefault(line["ID"], {"name": re.sub(r"[(<].*", "", name)})
        name, factor = METRICS.get(line["Metric Name"], (None, 1))
        if name:
            kernel[name] = float(line["Metric Value"].replace(",", "")) * UNITS.get(line["Metric Unit"], 1) * factor
    return list(kernels.values())


def profile(session):
    tool = shutil.which("ncu")
    if not tool:
        return session.report.check("ncu", SKIPPED, "it is not installed")
    for net, models, batch in session.plan["profile"]:
        command = [tool, "--clock-control", "none", "--launch-count", "60", "--csv", "--metrics", ",".join(METRICS), bench_card(session), "--rows", "2000",
                   "--one-step", f"{net}:{models}:{batch}"]
        try:
            out, _ = session.run(*command, seconds=30)
        except OutOfTime:
            raise
        except RuntimeError as error:
            session.report.check(f"ncu, {net}", SKIPPED, str(error)[-300:])
            continue
        kernels = kernels_of(out)
        session.report.check(f"ncu, {net}", bool(kernels), "" if kernels else out[-300:])
        for kernel in kernels:
            session.report.row("kernel", f"   {kernel['name']:28} " + " ".join(f"{kernel.get(name, 0):9.1f} {name}" for name, _ in METRICS.values()), net=net,
                               models=models, batch=batch, **kernel)


STAGES = {"probe": probe, "build": build, "tests": tests, "sanitize": sanitize, "bench": bench, "peers": peers, "profile": profile}
