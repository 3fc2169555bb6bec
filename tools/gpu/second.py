"""The stages of gpu-check's second command."""
import os, re, shutil, signal, time

from first import same_bits
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
    process, run = session.start(*session.plan["model"], *session.plan["accuracy"], *session.plan["long"], "--workers", "4", "--clients", session.plan["clients"],
                                 *options)
    if not wait_until(lambda: process.poll() is not None or says("grep", '"type":"round"', os.path.join(run, "metrics.jsonl")), 60):
        raise RuntimeError("round 1 never came")
    time.sleep(0.05)
    return process, run


def free_mib():
    """On all GPUs; 0 if the driver does not tell."""
    return sum(map(int, re.findall(r"^\d+$", says("nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"), re.M)))


def check_memory(session, name, before):
    back = wait_until(lambda: free_mib() >= before - session.plan["steady"])
    session.report.check(f"{name}: the GPU's memory is back", back if before else SKIPPED, f"{free_mib()} of {before} MiB")


def end_of(session, process, run):
    """The log and the model of a run."""
    _, err = session.finish(process, 90)
    return err, session.metrics(run)[-1]["model_sha256"]


def kill_a_worker(session, *options):
    process, run = start_and_wait(session, "--on-worker-death", "respawn", *options)
    for victim in list(workers_of(process.pid))[:1]:
        os.kill(victim, signal.SIGKILL)
    return end_of(session, process, run)


def kills(session):
    """Without MPS, which is where deaths are promised to be survived."""
    before = free_mib()
    for algorithm in ("fedavg", "ssgd"):
        options = ["--mps", "off", "--algorithm", algorithm]
        _, expected = end_of(session, *start_and_wait(session, *options))
        err, model = kill_a_worker(session, *options)
        session.report.check(f"{algorithm}: kill -9 of a worker in a step: the run ends with the same bits", "was killed by signal 9" in err and model == expected)
        check_memory(session, f"{algorithm}: kill -9 of a worker", before)
    process, run = start_and_wait(session, *options)
    workers = workers_of(process.pid)
    process.kill()
    process.communicate()
    session.report.check("kill -9 of the parent: no worker is left", bool(workers) and wait_until(lambda: not workers & workers_of()))
    check_memory(session, "kill -9 of the parent", before)
    _, model = end_of(session, session.open(session.program(), "train", "--resume", run), run)
    session.report.check("kill -9 of the parent: --resume ends with the same bits", model == expected)


def speed(session, model, workers, launch, mps):
    """Samples/s of the best of three rounds, for the first captures graphs. A run that fails does not end the stage."""
    process, run = session.start("--model", model, "--workers", str(workers), "--clients", session.plan["speed_clients"], "--batch-size", "32",
                                 "--models-per-launch", str(launch), "--rounds", "3", "--eval-every", "0", "--checkpoint-every", "0", "--mps", mps)
    code, _, err = session.wait(process)
    if code != 0:
        return session.report.check(f"whole rounds of {model}, {workers} workers, {launch} models, --mps {mps}", FAILED, err[-400:])
    best = max(entry["samples_per_second"] for entry in session.metrics(run) if entry["type"] == "round")
    session.report.row("rounds", model=model, workers=workers, models_per_launch=launch, mps=mps == "start", samples_per_second=best)


def mps(session):
    if not shutil.which("nvidia-cuda-mps-control"):
        return session.report.check("MPS starts", SKIPPED, "there is no nvidia-cuda-mps-control")
    process, _ = session.start(*session.plan["short"], "--workers", "2", "--clients", "2", "--mps", "start")
    code, _, err = session.wait(process)
    session.report.check("MPS starts, and ends", code == 0 and "has not ended" not in err, err[-300:])
    for model, workers, launch in session.plan["speed"] if code == 0 else []:
        if workers > 1:
            speed(session, model, workers, launch, "start")
    try:  # last, since it may leave the service in pieces: README promises nothing here, the report says what happened
        err, _ = kill_a_worker(session, "--mps", "start", "--hang-seconds", "10")
        outcome = "survived" if "was killed by signal 9" in err else "no worker was killed"
    except RuntimeError as error:
        outcome = str(error).splitlines()[-1]
    session.report.check("kill -9 of a worker with MPS", outcome == "survived" or SKIPPED, outcome)


def rounds(session):
    """Whole runs: their bits, their accuracy, their speed."""
    for algorithm, noise in session.plan["noise"].items():
        if algorithm != "hogwild":
            same_bits(session, algorithm)
        for workers in ("1", "4"):
            options = ["--algorithm", algorithm, *session.plan["model"], *session.plan["accuracy"], "--workers", workers,
                       *([] if algorithm == "hogwild" else ["--clients", "4"])]
            gpu, cpu = (session.train(*options, device=device)[-1]["test_accuracy"] for device in ("cuda", "cpu"))
            session.report.check(f"{algorithm} of {workers}: accuracy as on the CPU", abs(gpu - cpu) <= noise, f"{gpu:.2%} and {cpu:.2%}")
    for cell in session.plan["speed"]:
        speed(session, *cell, "off")


def default(session):
    """What a user gets who asks for nothing."""
    process, run = session.start("--log-level", "info", *session.plan["default"], device="auto")
    out, err = session.finish(process)
    session.report.say(out)
    device = session.metrics(run)[-1]["device"]
    session.report.check("--device auto takes the GPU", device != "cpu", device)
    session.report.check("without a wish one worker trains", bool(re.search(r"\b1 worker\b", out)))
    measured = re.search(r"a worker takes (\d+) MiB of the GPU, (\d+) MiB of them .*\(planned: \d+ and (\d+)\)", err)
    taken, context, planned = map(int, measured.groups()) if measured else (0, 0, 0)
    session.report.check("the plan for a worker's context suffices", bool(measured) and context <= planned, measured[0] if measured else "it was not measured")
    session.report.row("context", worker_mib=taken, context_mib=context, planned_mib=planned)


STAGES = {"kills": kills, "mps": mps, "rounds": rounds, "default": default}
