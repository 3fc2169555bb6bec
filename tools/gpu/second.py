"""The stages of gpu-check's second command."""
import os, re, shutil, signal, time

from first import free_mib, same_bits
from session import FAILED, SKIPPED, says


def workers_of(run=r"\d+"):
    """Living workers of a run's process, or of all. Not every kernel lists children, and one child keeps the MPS daemon."""
    found = says("sh", "-c", "cat /proc/[0-9]*/stat; true")
    return set(map(int, re.findall(rf"^(\d+) \(sounder:w.*\) [^ZX] {run} ", found, re.M)))


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def start_and_wait(session, *options):
    """A run of four workers in its second round."""
    process, run = session.start(*session.plan["model"], *session.plan["accuracy"], *session.plan["long"], "--clients", session.plan["clients"], *options)
    if not wait_until(lambda: process.poll() is not None or says("grep", '"type":"round"', os.path.join(run, "metrics.jsonl")), 60):
        raise RuntimeError("round 1 never came")
    time.sleep(0.05)
    return process, run


def check_memory(session, name, before):
    back = wait_until(lambda: free_mib() >= before - session.plan["steady"])
    session.check(f"{name}: the GPU's memory is back", back if before else SKIPPED, f"{free_mib()} of {before} MiB")


def kill_a_worker(session, *options):
    """What the run has printed, and its model."""
    process, run = start_and_wait(session, "--on-worker-death", "respawn", *options)
    for victim in list(workers_of(process.pid))[:1]:
        os.kill(victim, signal.SIGKILL)
    said, metrics = session.end_of(process, run)
    return said, metrics[-1]["model_sha256"]


def kills(session):
    """Without MPS, which is where deaths are promised to be survived."""
    before = free_mib()
    for algorithm in ("fedavg", "ssgd"):
        options = ["--mps", "off", "--algorithm", algorithm]
        expected = session.end_of(*start_and_wait(session, *options))[1][-1]["model_sha256"]
        said, model = kill_a_worker(session, *options)
        session.check(f"{algorithm}: kill -9 of a worker in a step: the run ends with the same bits", "was killed by signal 9" in said and model == expected)
        check_memory(session, f"{algorithm}: kill -9 of a worker", before)
    process, run = start_and_wait(session, *options)
    workers = workers_of(process.pid)
    process.kill()
    process.communicate()
    session.check("kill -9 of the parent: no worker is left", bool(workers) and wait_until(lambda: not workers & workers_of()))
    check_memory(session, "kill -9 of the parent", before)
    _, metrics = session.end_of(session.open(session.program(), "train", "--resume", run), run)
    session.check("kill -9 of the parent: --resume ends with the same bits", metrics[-1]["model_sha256"] == expected)


def speed(session, model, workers, launch, mps):
    """Samples/s of the best of three rounds, for the first captures graphs. A run that fails does not end the stage."""
    options = ["--model", model, "--workers", str(workers), "--clients", session.plan["speed_clients"], "--models-per-launch", str(launch), "--mps", mps]
    try:
        _, metrics = session.end_of(*session.start(*options, "--batch-size", "32", "--rounds", "3", "--eval-every", "0", "--checkpoint-every", "0"))
    except RuntimeError as error:
        return session.check(f"whole rounds of {model}, {workers} workers, {launch} models, --mps {mps}", FAILED, str(error))
    best = max(entry["samples_per_second"] for entry in metrics if entry["type"] == "round")
    session.row("rounds", model=model, workers=workers, models_per_launch=launch, mps=mps == "start", partition="preset", samples_per_second=best)


def mps(session):
    if not shutil.which("nvidia-cuda-mps-control"):
        return session.check("MPS starts", SKIPPED, "there is no nvidia-cuda-mps-control")
    said, _ = session.end_of(*session.start(*session.plan["short"], "--workers", "2", "--clients", "2", "--mps", "start"))
    session.check("MPS starts, and ends", "has not ended" not in said, said[-300:])
    for model, workers, launch in session.plan["speed"]:
        if workers > 1:
            speed(session, model, workers, launch, "start")
    try:  # last, since it may leave the service in pieces: README promises nothing here, the report says what happened
        said, _ = kill_a_worker(session, "--mps", "start", "--hang-seconds", "10")
        outcome = "survived" if "was killed by signal 9" in said else "no worker was killed"
    except RuntimeError as error:
        outcome = str(error).splitlines()[-1]
    session.check("kill -9 of a worker with MPS", outcome == "survived" or SKIPPED, outcome)


def rounds(session):
    """Whole runs: their bits, their accuracy, their speed."""
    for algorithm, noise in session.plan["noise"].items():
        if algorithm != "hogwild":
            same_bits(session, algorithm)
        for workers in ("1", "4"):
            options = ["--algorithm", algorithm, *session.plan["model"], *session.plan["accuracy"], "--workers", workers,
                       *([] if algorithm == "hogwild" else ["--clients", "4"])]
            gpu, cpu = (session.end_of(*session.start(*options, device=device))[1][-1]["test_accuracy"] for device in ("cuda", "cpu"))
            session.check(f"{algorithm} of {workers}: accuracy as on the CPU", abs(gpu - cpu) <= noise, f"{gpu:.2%} and {cpu:.2%}")
    for cell in session.plan["speed"]:
        speed(session, *cell, "off")


def default(session):
    """What a user gets who asks for nothing."""
    said, metrics = session.end_of(*session.start("--log-level", "info", *session.plan["default"], device="auto"))
    session.say(said)
    session.check("--device auto takes the GPU", metrics[-1]["device"] != "cpu", metrics[-1]["device"])
    session.check("without a wish one worker trains", bool(re.search(r"\b1 worker\b", said)))
    measured = re.search(r"a worker takes (\d+) MiB of the GPU, (\d+) MiB of them .*\(planned: \d+ and (\d+)\)", said)
    taken, context, planned = map(int, measured.groups()) if measured else (0, 0, 0)
    session.check("the plan for a worker's context suffices", bool(measured) and context <= planned, measured[0] if measured else "it was not measured")
    session.row("context", worker_mib=taken, context_mib=context, planned_mib=planned)
