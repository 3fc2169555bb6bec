"""Synchronous SGD with PyTorch's own means: DistributedDataParallel over gloo, a process a worker, one thread each,
every worker's part of the data in memory. The clock starts when every worker is ready.
"""
import tempfile
import time

import torch
import torch.multiprocessing as processes
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from common import NETS, arguments, evaluate, load_normalised, say, sgd, train_steps


def work(rank, options, images, labels, meeting):
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.workers)
    model = DistributedDataParallel(NETS[options.model]())
    optimizer = sgd(options, model)
    part = torch.arange(options.samples).tensor_split(options.workers)[rank]
    part = part[: options.samples // options.workers]  # equal parts: everybody takes the same number of steps
    distributed.barrier()
    start = time.perf_counter()
    for _ in range(options.rounds):
        train_steps(model, optimizer, images, labels, part[torch.randperm(len(part))], options.batch_size)
    distributed.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        total = len(part) * options.workers * options.rounds
        loss, accuracy = evaluate(model.module, *load_normalised(options.data, "t10k"))
        say(peer="ssgd", workers=options.workers, test_loss=loss, test_accuracy=accuracy, seconds=seconds,
            samples=total, samples_per_second=total / seconds)
    distributed.destroy_process_group()


def main():
    options = arguments(__doc__)
    images, labels = (tensor.share_memory_() for tensor in load_normalised(options.data, "train"))
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(work, (options, images, labels, f"{folder}/meeting"), nprocs=options.workers)


if __name__ == "__main__":
    main()
