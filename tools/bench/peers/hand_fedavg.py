"""FedAvg as a PyTorch script has it by hand: processes, forked once, that share the global weights and a sum of updates each, and a barrier."""
import torch
import torch.multiprocessing as mp

import federation
from common import NETS, arrays_of, evaluate, federated_tensors, train_steps


def exchanged(model):
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]


@torch.no_grad()
def load(model, weights):
    for tensor, value in zip(exchanged(model), weights.split([tensor.numel() for tensor in exchanged(model)])):
        tensor.copy_(value.view_as(tensor))


@torch.no_grad()
def flat(model):
    return torch.cat([tensor.reshape(-1) for tensor in exchanged(model)])


def train_own(rank, options, data, parts, weights, total, barrier):
    """A process: of each round's cohort, every `processes`-th client."""
    torch.set_num_threads(1)
    x, y = (part.to(options.device) for part in data)
    model = NETS[options.model]().to(options.device)
    for number in range(options.rounds):
        torch.manual_seed(1000 * number + options.seed)
        cohort = torch.randperm(options.clients)[: options.clients_per_round].tolist()
        everything = sum(len(parts[client]) for client in cohort)
        barrier.wait()  # the weights of this round are there
        total.zero_()
        for client in cohort[rank :: options.processes]:
            torch.manual_seed((options.seed * options.rounds + number) * options.clients + client)
            load(model, weights.to(options.device))
            optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
            for _ in range(options.epochs):
                train_steps(model, optimizer, x, y, parts[client][torch.randperm(len(parts[client]))], options.batch_size)
            total.add_(flat(model).cpu(), alpha=len(parts[client]) / everything)
        barrier.wait()  # the sums are there


def main():
    options = federation.options(__doc__, device="cpu")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    data, test = federated_tensors(options.data, "train"), federated_tensors(options.data, "t10k")
    parts = [torch.from_numpy(part) for part in
             federation.deal(data[1].numpy(), options.clients, options.partition, options.alpha, options.seed)]
    model = NETS[options.model]()
    weights, barrier = flat(model).share_memory_(), mp.get_context("fork").Barrier(options.processes + 1)
    totals = [torch.zeros_like(weights).share_memory_() for _ in range(options.processes)]
    processes = [mp.get_context("fork").Process(target=train_own, args=(rank, options, data, parts, weights, total, barrier), daemon=True)
                 for rank, total in enumerate(totals)]
    for process in processes:
        process.start()
    model, test = model.to(options.device), [part.to(options.device) for part in test]  # no fork can share a GPU
    times, accuracy = [federation.now()], 0
    for _ in range(options.rounds):
        barrier.wait()
        barrier.wait()
        weights.copy_(sum(totals))
        load(model, weights.to(options.device))
        _, accuracy = evaluate(model, *test)
        times.append(federation.now())
    federation.say("hand", times, accuracy, arrays_of(model.cpu()))


if __name__ == "__main__":
    main()
