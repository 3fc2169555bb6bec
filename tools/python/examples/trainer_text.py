"""Text: a GRU predicts the next character, clients are authors, and the target is a perplexity.

    python3 tools/python/examples/trainer_text.py [FOLDER]        (the authors are modules of Python's library)
"""
import argparse, json, os, shlex, sys, tempfile, typing
import numpy as np
import sounder
import torch
from torch import nn

LENGTH = 33  # characters of a sample


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(128, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 128)

    def forward(self, tokens):
        return self.out(self.gru(self.embed(tokens))[0])


def losses(net, turn):
    for taken in turn.indices():  # characters as they are stored
        text = torch.from_numpy(turn.x[taken].reshape(len(taken), LENGTH).astype(np.int64))
        yield nn.functional.cross_entropy(net(text[:, :-1]).transpose(1, 2), text[:, 1:]), len(taken)


def train(net, turn):
    optimizer = torch.optim.Adam(net.parameters(), lr=turn.lr)
    for loss, samples in losses(net, turn):
        optimizer.zero_grad()
        loss.backward()
        turn.correct()
        optimizer.step()
        turn.add(loss, samples)


def test(net, turn):
    total = 0
    for loss, samples in losses(net, turn):
        turn.add(loss, samples)
        total += float(loss) * samples
    turn.metric(perplexity=np.exp(total / turn.samples))


def start(folder):
    texts = [np.fromfile(module.__file__, np.uint8) % 128 for module in (argparse, json, shlex, tempfile, typing)]
    rows = [text[: len(text) // LENGTH * LENGTH].reshape(-1, LENGTH)[:400] for text in texts]
    x, author = np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    test = np.arange(len(x)) % 10 == 0
    data = sounder.write_data(f"{folder}/text.npz", train=(x[~test], author[~test]), test=(x[test], author[test]), client=author[~test])
    run = sounder.train(f"{folder}/run", data=data, trainer=os.path.abspath(__file__), rounds=10, lr=0.01, target="perplexity<20", stop_at_target=True)
    print([round(row["test_metrics"]["perplexity"], 1) for row in run.rows("round")])


if "SOUNDER_TRAINER" in os.environ:
    sounder.serve(Net, train, test, whole_test=True)
else:
    start(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
