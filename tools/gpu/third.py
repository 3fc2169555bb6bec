"""The stages of gpu-check's third command: nets and clients as people have them."""
import first
from session import FAILED


def nets(session):
    """ResNets, a recurrent net and a transformer, beside PyTorch at our precision and at its own."""
    first.bench_of(session, session.plan["nets_bench"])
    first.peers_of(session, session.plan["nets_peers"])


def unequal(session):
    """Rounds of clients of equal and of unequal sizes: samples/s of the best of three, for the first captures graphs."""
    for model, workers, launch, partition in session.plan["unequal"]:
        options = ["--model", model, "--partition", partition, "--workers", str(workers), "--clients", str(launch), "--models-per-launch", str(launch)]
        try:
            _, metrics = session.end_of(*session.start(*options, "--batch-size", "10", "--rounds", "3", "--eval-every", "0", "--checkpoint-every", "0"))
        except RuntimeError as error:
            session.check(f"rounds of {model}, {partition}", FAILED, str(error))
            continue
        best = max(entry["samples_per_second"] for entry in metrics if entry["type"] == "round")
        session.row("rounds", model=model, workers=workers, models_per_launch=launch, mps=False, partition=partition, samples_per_second=best)
