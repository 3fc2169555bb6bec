"""The stages of gpu-check's second command: kills, mps, rounds, default."""
import os, re, shutil, signal, time

from session import FAILED, SKIPPED, Card, OutOfTime


def state_of(pid):
    """Name, state and parent of a process; not every kernel lists children."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            state, parent = rest.split()[:2]
            return name, state, int(parent)
    except OSError:
        return "", "X", 0


def workers_of(pid):
    """Not all children of a run: the one that keeps its MPS daemon is a shell."""
    children = ((int(entry), *state_of(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return [child for child, name, _, parent in children if parent == pid and name.startswith("sounder:w")]


def is_alive(pid):
    return state_of(pid)[1] not in "ZX"


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def wait_for_round(session, run, number, process):
    def is_there():
        try:
            return process.poll() is not None or any(entry["type"] == "round" and entry["round"] >= number for entry in session.metrics(run))
        except (OSError, ValueError):
            return False
    if not wait_until(is_there, 60):
        raise RuntimeError(f"round {number} never came")


# kills: without MPS, which is where deaths are promised to be survived ------------------------------------------------

def free_memory():
    card = Card.ask()
    return card["free_bytes"] if isinstance(card, dict) else None


def memory_is_back(session, name, before):
    if before is None:
        return session.report.check(f"{name}: the card's memory is back", SKIPPED, "the driver does not tell here")
    back = wait_until(lambda: free_memory() >= before - session.plan["steady"], 10)
    session.report.check(f"{name}: the card's memory is back", back, "" if back else f"{(before - free_memory()) >> 20} MiB are missing")


def kill_a_worker(session, options, algorithm, more=()):
    """The log of a run of which a worker was killed in its second round, and what it came to."""
    process, run = session.start(*options, "--algorithm", algorithm, "--on-worker-death", "respawn", *more)
    wait_for_round(session, run, 1, process)
    time.sleep(0.05)
    victims = workers_of(process.pid)
    if victims:
        os.kill(victims[0], signal.SIGKILL)
    _, err = session.finish(process, 90)
    return err, session.metrics(run)[-1]["model_sha256"]


def kills(session):
    options = [*session.plan["accuracy"], *session.plan["long"], "--workers", "4", "--clients", str(session.plan["clients"]), "--mps", "off"]
    before = free_memory()
    for algorithm in ("fedavg", "ssgd"):
        expected = session.train(*options, "--algorithm", algorithm, seconds=90)[-1]["model_sha256"]
        err, model = kill_a_worker(session, options, algorithm)
        session.report.check(f"{algorithm}: kill -9 of a worker in a step: the run goes on to the same bits", "was killed by signal 9" in err and model == expected)
        memory_is_back(session, f"{algorithm}: kill -9 of a worker", before)
    process, run = session.start(*options, "--algorithm", "ssgd")
    wait_for_round(session, run, 1, process)
    workers = workers_of(process.pid)
    process.kill()
    process.communicate()
    gone = wait_until(lambda: not any(is_alive(worker) for worker in workers), 10)
    session.report.check("kill -9 of the parent: no worker is left", gone and bool(workers))
    memory_is_back(session, "kill -9 of the parent", before)
    session.run(session.program, "train", "--resume", run, seconds=90)
    session.report.check("kill -9 of the parent: --resume goes on to the same bits", session.metrics(run)[-1]["model_sha256"] == expected)


# mps ------------------------------------------------------------------------------------------------------------------

def speed(session, model, workers, launch, *more):
    return session.speed(session.train("--model", model, "--workers", str(workers), "--clients", session.plan["speed_clients"], "--batch-size", "32",
                                       "--models-per-launch", str(launch), "--rounds", "3", "--eval-every", "0", "--checkpoint-every", "0", *more, seconds=45))


def speed_row(session, model, workers, launch, mps):
    try:
        value = speed(session, model, workers, launch, "--mps", "start" if mps else "off")
    except OutOfTime:
        raise
    except RuntimeError as error:
        return session.report.check(f"whole rounds of {model}, {workers} workers, {launch} models{', MPS' if mps else ''}", FAILED, str(error))
    session.report.row("rounds", f"{model:10} {workers:3} workers {launch:4} models {'MPS' if mps else '   '} {value:14,.0f} samples/s", model=model, workers=workers,
                       models_per_launch=launch, mps=mps, samples_per_second=value)


def mps(session):
    if not shutil.which("nvidia-cuda-mps-control"):
        return session.report.check("MPS starts", SKIPPED, "there is no nvidia-cuda-mps-control")
    try:
        session.train(*session.plan["short"], "--workers", "2", "--clients", "2", "--mps", "start")
    except OutOfTime:
        raise
    except RuntimeError as error:
        return session.report.check("MPS starts", FAILED, str(error))
    session.report.check("MPS starts", True)
    for model, workers, launch in session.plan["speed"]:
        if workers > 1:
            speed_row(session, model, workers, launch, True)
    # Last, since it may leave the service in pieces: README promises nothing here, the report says what happened.
    options = [*session.plan["accuracy"], *session.plan["long"], "--workers", "4", "--clients", str(session.plan["clients"])]
    try:
        err, _ = kill_a_worker(session, options, "fedavg", ["--mps", "start", "--hang-seconds", "10"])
        outcome = "survived" if "was killed by signal 9" in err else "no worker was killed"
    except (RuntimeError, OutOfTime) as error:
        outcome = str(error).splitlines()[-1]
    session.report.row("mps_kill", f"kill -9 of a worker with MPS: {outcome}", outcome=outcome)


# rounds: whole runs, their bits, their accuracy, their speed ----------------------------------------------------------

def same_bits(session):
    for algorithm in ("fedavg", "ssgd"):
        models = [session.train("--algorithm", algorithm, *session.plan["accuracy"], "--workers", str(workers), "--clients", str(session.plan["clients"]),
                                "--models-per-launch", "2")[-1]["model_sha256"] for workers in (1, 2, 4, 4)]
        session.report.check(f"{algorithm}: the same bits in repeated runs", models[2] == models[3])
        session.report.check(f"{algorithm}: the same bits for 1, 2, 4 workers", True if len(set(models)) == 1 else SKIPPED,
                             "" if len(set(models)) == 1 else "they differ, which is no promise on a card")


def accuracies(session):
    for algorithm, noise in session.plan["noise"].items():
        cpu = None
        for workers in (1, 4):
            options = ["--algorithm", algorithm, *session.plan["accuracy"], "--workers", str(workers)]
            if algorithm != "hogwild":
                options += ["--clients", "4"]
            card = session.train(*options)[-1]["test_accuracy"]
            if cpu is None or algorithm == "hogwild":  # of the others the CPU's bits are the same for any number of workers
                cpu = session.train(*options, device="cpu")[-1]["test_accuracy"]
            session.report.check(f"{algorithm} of {workers}: accuracy as on the CPU", abs(card - cpu) <= noise, f"{100 * card:.2f}% and {100 * cpu:.2f}%")


def rounds(session):
    same_bits(session)
    accuracies(session)
    for cell in session.plan["speed"]:
        speed_row(session, *cell, False)


# default: what a user gets who asks for nothing -----------------------------------------------------------------------

def default(session):
    process, run = session.start("--log-level", "info", *(["--model", session.plan["accuracy"][1]] if "conv" in session.plan["accuracy"][1] else []), device="auto")
    out, err = session.finish(process)
    heading = out.splitlines()[0] if out else ""
    session.report.say("\n".join(f"   {line}" for line in out.splitlines()))
    entries = session.metrics(run)
    name = entries[-1]["device"]
    session.report.check("--device auto takes the card", name != "cpu", name)
    session.report.check("without a wish one worker trains", bool(re.search(r"\b1 worker\b", heading)), heading)
    session.report.row("default", f"without options: {session.speed(entries):,.0f} samples/s", samples_per_second=session.speed(entries), heading=heading)
    measured = re.search(r"a worker takes (\d+) MiB of the GPU, (\d+) MiB of them .*\(planned: (\d+) and (\d+)\)", err)
    session.report.check("the context of a worker is measured", bool(measured))
    if measured:
        taken, context, _, planned = map(int, measured.groups())
        session.report.row("context", f"a worker takes {taken} MiB, its context {context} MiB (planned {planned})", worker_mib=taken, context_mib=context,
                           planned_mib=planned)
        session.report.check("the plan for a context suffices", context <= planned)


STAGES = {"kills": kills, "mps": mps, "rounds": rounds, "default": default}
