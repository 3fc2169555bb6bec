"""The plain mean of --slots models of --parameters floats on one thread, written over the global model."""
import statistics
import time

import torch

from common import arguments, say

REPEATS = 7


@torch.no_grad()
def mean_of(target, models):
    """In place, without a temporary: PyTorch at its best."""
    torch.mul(models[0], 1 / len(models), out=target)
    for model in models[1:]:
        target.add_(model, alpha=1 / len(models))


def main():
    options = arguments(__doc__)
    torch.set_num_threads(1)
    models = [torch.rand(options.parameters) for _ in range(options.slots)]
    target = torch.zeros(options.parameters)
    mean_of(target, models)  # warm up
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        mean_of(target, models)
        seconds.append(time.perf_counter() - start)
    say(peer="averaging", slots=options.slots, parameters=options.parameters, seconds=statistics.median(seconds))


if __name__ == "__main__":
    main()
