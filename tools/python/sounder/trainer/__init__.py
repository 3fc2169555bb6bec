"""A client's training in a program of your own: `sounder train --trainer "python3 trainer.py"` starts it and asks it for turns.

    def train(net, turn):
        optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum)
        for x, y in turn.batches():
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            turn.correct()
            optimizer.step()
            turn.add(loss, len(y))

    sounder.serve(Net, train, test)

serve and turns are the whole interface; turn.py documents what a turn offers. link.py speaks with the worker, tensors.py and
torch_net.py place the net's tensors in the memory that the worker shares.
"""
from .check import check
from .serve import serve, turns

__all__ = ["check", "serve", "turns"]
