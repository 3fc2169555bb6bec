"""Text: a GRU predicts the next token under DiLoCo, clients are authors, and the target is a perplexity.

    python3 tools/python/examples/trainer_text.py [FOLDER]        (the authors are modules of Python's library)
"""
import os, sys, tempfile
import sounder
import torch
from torch import nn

TOKENS = 320


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(TOKENS, 24), nn.Linear(48, TOKENS)
        self.gru = nn.GRU(24, 48, batch_first=True)

    def forward(self, tokens):
        return self.out(self.gru(self.embed(tokens))[0])


def losses(net, turn):
    for x, y in turn.batches():  # rows of tokens, and the token that follows each row
        x = x.flatten(1)
        targets = torch.cat([x[:, 1:], y[:, None]], 1)
        yield nn.functional.cross_entropy(net(x).transpose(1, 2), targets), len(x), x.numel()


def train(net, turn):
    optimizer = turn.keep(torch.optim.AdamW(net.parameters(), lr=turn.lr))
    for loss, samples, tokens in losses(net, turn):
        optimizer.zero_grad()
        loss.backward()
        turn.correct()
        optimizer.step()
        turn.add(loss, samples, tokens=tokens)


def test(net, turn):
    for loss, samples, tokens in losses(net, turn):
        turn.add(loss, samples, tokens=tokens)


def start(folder):
    texts = sounder.library_texts(["argparse", "json.decoder", "shlex", "tempfile", "typing"], most_bytes=12_000)
    data = sounder.write_tokens(f"{folder}/text.npz", texts, sounder.BPE.learn(texts.values(), TOKENS), length=32)
    run = sounder.train(f"{folder}/run", data=data, trainer=os.path.abspath(__file__), algorithm="diloco H=10",
                        rounds=10, lr=0.01, client_optimizer_state="keep", target="perplexity<70", stop_at_target=True)
    rounds = run.rows("round")
    print([round(row["test_metrics"]["perplexity"], 1) for row in rounds], rounds[-1]["tokens_total"], "tokens")


if "SOUNDER_TRAINER" in os.environ:
    sounder.serve(Net, train, test, state=torch.optim.AdamW)
else:
    start(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
