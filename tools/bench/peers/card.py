"""PyTorch on a card, eager, with everything in the card's memory.

--job eager: one process a worker, each with a model of its own and all samples, as scripts train on one card today; samples/s of
all together, from when the last is warm to when the last is done. --job fedavg: fedavg.py's loop, on the card.
"""
import time

import torch
import torch.multiprocessing as processes

from common import NETS, arguments, load_normalised, say, sgd, train_steps
from fedavg import run_round

WARM_UP_STEPS = 20


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


def work(rank, options, barrier):
    try:
        train_between(rank, options, barrier)
    except BaseException:
        barrier.abort()  # or the others would wait for ever
        raise


def train_between(rank, options, barrier):
    torch.set_num_threads(1)
    torch.manual_seed(options.seed + rank)
    images, labels = (tensor.to(options.device) for tensor in load_normalised(options.data, "train"))
    model = NETS[options.model]().to(options.device)
    optimizer = sgd(options, model)
    order = torch.randperm(len(labels), device=options.device)[: options.samples]
    train_steps(model, optimizer, images, labels, order[: WARM_UP_STEPS * options.batch_size], options.batch_size)
    wait_for(options.device)
    barrier.wait()
    train_steps(model, optimizer, images, labels, order, options.batch_size)
    wait_for(options.device)
    barrier.wait()


def eager(options):
    processes.set_start_method("spawn")
    barrier = processes.Barrier(options.workers + 1)
    workers = [processes.Process(target=work, args=(rank, options, barrier)) for rank in range(options.workers)]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.join()
    samples = options.samples * options.workers
    say(peer=f"eager {options.model}, {options.workers} processes", seconds=seconds, samples=samples,
        samples_per_second=samples / seconds)


def fedavg(options):
    torch.manual_seed(options.seed)
    images, labels = (tensor.to(options.device)[: options.samples] for tensor in load_normalised(options.data, "train"))
    parts = [part.to(options.device) for part in torch.randperm(len(labels)).tensor_split(options.clients)]
    shared, local = (NETS[options.model]().to(options.device) for _ in range(2))
    run_round(options, shared, local, images, labels, parts)
    wait_for(options.device)
    start = time.perf_counter()
    samples = run_round(options, shared, local, images, labels, parts)
    wait_for(options.device)
    seconds = time.perf_counter() - start
    say(peer=f"fedavg of {options.model}, {options.clients_per_round} clients a round", seconds=seconds, samples=samples,
        samples_per_second=samples / seconds)


def main():
    options = arguments(__doc__, data="synthetic", extra=[("--job", ["eager", "fedavg"]), ("--device", ["cuda", "cpu"])])
    {"eager": eager, "fedavg": fedavg}[options.job](options)


if __name__ == "__main__":
    main()
