"""Synchronous workers that average every round, as published scripts do it: a process a worker and round, a DataLoader
with per-sample transforms, models in shared memory, a barrier, the mean in the parent.

Reports each round (samples_per_second over the whole round, processes included) and the cold start: from --started
until a worker has its first batch. With --rounds 0 the workers end after that first batch.
"""
import time

import torch
import torch.multiprocessing as processes
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from common import NETS, arguments, average_into, evaluate, load_normalised, say, sgd
from images import CHAIN, Images


def work(rank, options, model, samples, barrier, first_batch):
    torch.set_num_threads(1)
    torch.manual_seed(options.seed + rank)
    optimizer = sgd(options, model)
    model.train()
    for x, y in DataLoader(samples, batch_size=options.batch_size, shuffle=True):
        with first_batch.get_lock():
            first_batch.value = min(first_batch.value, time.monotonic())
        if options.rounds == 0:
            break
        optimizer.zero_grad()
        functional.nll_loss(model(x), y).backward()
        optimizer.step()
    barrier.wait()


def run_round(options, shared, local, parts, barrier, first_batch):
    for model in local:
        model.load_state_dict(shared.state_dict())
    workers = [
        processes.Process(target=work, args=(rank, options, local[rank], parts[rank], barrier, first_batch))
        for rank in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    average_into(shared, local)


def contiguous_parts(samples, count):
    """Equal runs; the last takes the remainder."""
    size = len(samples) // count
    ends = [size * part for part in range(count)] + [len(samples)]
    return [Subset(samples, range(first, end)) for first, end in zip(ends, ends[1:])]


def main():
    options = arguments(__doc__, rounds=3)
    processes.set_start_method("spawn")
    torch.manual_seed(options.seed)
    train = Subset(Images(options.data, "train"), range(options.samples))
    parts = contiguous_parts(train, options.workers)
    shared = NETS[options.model]()
    local = [NETS[options.model]().share_memory() for _ in parts]
    barrier, first_batch = processes.Barrier(options.workers), processes.Value("d", float("inf"))
    test = load_normalised(options.data, "t10k") if options.rounds else None
    for number in range(max(options.rounds, 1)):
        start = time.perf_counter()
        run_round(options, shared, local, parts, barrier, first_batch)
        seconds = time.perf_counter() - start
        if options.rounds == 0:
            break
        loss, accuracy = evaluate(shared, *test)
        say(peer="seed", round=number + 1, test_loss=loss, test_accuracy=accuracy, seconds=seconds,
            samples=len(train), samples_per_second=len(train) / seconds, transforms=CHAIN)
    say(peer="seed", cold_start_seconds=first_batch.value - options.started)


if __name__ == "__main__":
    main()
