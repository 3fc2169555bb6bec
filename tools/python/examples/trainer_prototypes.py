"""Clients with unlike nets (FedProto): the mean output of each class travels, the nets stay in the clients' state.

    sounder train --trainer "python3 trainer_prototypes.py" --data ... --algorithm "combine mean uniform" \
        --client-optimizer-state keep --eval-clients-every 1

Even clients have 8 hidden units, odd ones 24. The accuracy is that of the clients on their own samples."""
import numpy as np
import sounder
import torch
from torch import nn

WIDTH, PULL = 16, 1.0  # of a prototype; what its distance counts

def net_of(client, data):
    hidden, inputs = (8, 24)[client % 2], int(np.prod(data.shape))
    body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, WIDTH))
    return nn.ModuleList([body, nn.Linear(WIDTH, data.classes)])


def make(data):
    make.data = data
    make.floats = 1 + max(sum(part.numel() for part in net_of(client, data).parameters()) for client in (0, 1))
    return {"sums": np.zeros((data.classes, WIDTH), np.float32), "counts": np.full((data.classes, 1), 1e-6, np.float32)}


def own_net(turn):
    """The client's net. The first float of its state says whether it has had one."""
    net = net_of(turn.client, make.data)
    if turn.state[0]:
        nn.utils.vector_to_parameters(torch.from_numpy(turn.state[1:].copy()), net.parameters())
    return net


def train(shared, turn):
    net, prototypes = own_net(turn), torch.from_numpy(shared["sums"] / shared["counts"])
    known, (body, head) = torch.from_numpy(shared["counts"][:, 0] > 1e-3), net
    optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=0.9)
    shared["sums"][...], shared["counts"][...] = 0, 1e-6
    for x, y in turn.batches():
        y, out = torch.from_numpy(y.astype(np.int64)), body(torch.from_numpy(x))
        loss = nn.functional.cross_entropy(head(out), y) + PULL * (known[y, None] * (out - prototypes[y]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.add.at(shared["sums"], y.numpy(), out.detach().numpy())
        np.add.at(shared["counts"], y.numpy(), 1)
        turn.add(loss.item(), len(y))
    vector = nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
    turn.state[0], turn.state[1 : 1 + len(vector)] = 1, vector


def test(shared, turn):
    body, head = own_net(turn) if turn.part == "client" else (None, None)
    for x, y in turn.batches():
        y = torch.from_numpy(y.astype(np.int64))
        out = head(body(torch.from_numpy(x))) if body else torch.zeros(len(y), make.data.classes)
        turn.add(nn.functional.cross_entropy(out, y).item(), len(y), hits=(out.argmax(1) == y).sum().item())


sounder.serve(make, train, test, state=lambda _: make.floats)
