"""FedAvg with virtual clients in memory: one process, one thread, one client of the cohort after the other, one local
model that is reused, a running mean. McMahan's benchmark: 100 clients, 10 a round, one local epoch, batches of 10.
"""
import time

import torch

from common import NETS, arguments, evaluate, load_normalised, say, sgd, train_steps


@torch.no_grad()
def copy_into(target, source):
    for to, value in zip(target.parameters(), source.parameters()):
        to.copy_(value)


@torch.no_grad()
def add_weighted(sums, model, share):
    for total, value in zip(sums, model.parameters()):
        total.add_(value, alpha=share)


def run_round(options, shared, local, images, labels, parts):
    """Returns the samples trained."""
    cohort = torch.randperm(options.clients)[: options.clients_per_round].tolist()
    total = sum(len(parts[client]) for client in cohort)
    sums = [torch.zeros_like(parameter) for parameter in shared.parameters()]
    for client in cohort:
        part = parts[client]
        copy_into(local, shared)
        order = part[torch.randperm(len(part))]
        train_steps(local, sgd(options, local), images, labels, order, options.batch_size)
        add_weighted(sums, local, len(part) / total)
    with torch.no_grad():
        for parameter, mean in zip(shared.parameters(), sums):
            parameter.copy_(mean)
    return total


def main():
    options = arguments(__doc__, model="2nn", batch_size=10)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = load_normalised(options.data, "train")
    test = load_normalised(options.data, "t10k")
    parts = torch.randperm(len(labels)).tensor_split(options.clients)
    shared, local = NETS[options.model](), NETS[options.model]()
    for number in range(options.rounds):
        start = time.perf_counter()
        samples = run_round(options, shared, local, images, labels, parts)
        seconds = time.perf_counter() - start
        loss, accuracy = evaluate(shared, *test)
        say(peer="fedavg", round=number + 1, test_loss=loss, test_accuracy=accuracy, seconds=seconds, samples=samples,
            samples_per_second=samples / seconds)


if __name__ == "__main__":
    main()
