"""Hogwild as PyTorch's mnist_hogwild example does it: one model in shared memory, a process a worker, no locks, every
worker trains all the data through a DataLoader with per-sample transforms; momentum is private to a process.

The clock starts when every worker is ready, so that the start of the interpreters does not count, and ends with the
last of them. Each worker trains --samples samples a round.
"""
import time

import torch
import torch.multiprocessing as processes
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from common import NETS, arguments, evaluate, load_normalised, say, sgd
from images import CHAIN, Images


def work(rank, options, model, samples, ready):
    torch.set_num_threads(1)
    torch.manual_seed(options.seed + rank)
    optimizer = sgd(options, model)
    model.train()
    loader = DataLoader(samples, batch_size=options.batch_size, shuffle=True)
    ready.wait()
    for _ in range(options.rounds):
        for x, y in loader:
            optimizer.zero_grad()
            functional.nll_loss(model(x), y).backward()
            optimizer.step()


def main():
    options = arguments(__doc__)
    processes.set_start_method("spawn")
    torch.manual_seed(options.seed)
    samples = Subset(Images(options.data, "train"), range(options.samples))
    model = NETS[options.model]().share_memory()
    ready = processes.Barrier(options.workers + 1)
    workers = [
        processes.Process(target=work, args=(rank, options, model, samples, ready)) for rank in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    total = len(samples) * options.rounds * options.workers
    loss, accuracy = evaluate(model, *load_normalised(options.data, "t10k"))
    say(peer="hogwild", workers=options.workers, test_loss=loss, test_accuracy=accuracy, seconds=seconds,
        samples=total, samples_per_second=total / seconds, transforms=CHAIN)


if __name__ == "__main__":
    main()
