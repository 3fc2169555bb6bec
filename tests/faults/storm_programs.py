"""The programs of storm_trainers.py, one for each KIND of argument: python3 storm_programs.py KIND, as --trainer or --aggregator has it."""
import os, sys

sys.path.insert(0, os.environ["SOUNDER_PACKAGE"])
import numpy as np
import sounder

SAMPLES, CLASSES, INPUTS = 240, 4, 12


def made(samples, seed):
    """Samples of four classes around centres."""
    draw = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    x = np.eye(CLASSES, INPUTS)[y] * 2 + draw.normal(0, 1, (samples, INPUTS))
    return x.astype(np.float32), y


def torch_sets():
    import torch

    return tuple(torch.utils.data.TensorDataset(*map(torch.from_numpy, made(*which))) for which in ((SAMPLES, 1), (60, 2)))


def look(net, batch):
    import torch

    x, y = batch
    out = net(x)
    return dict(loss=torch.nn.functional.cross_entropy(out, y), hits=(out.argmax(1) == y).sum())


def body(*between):
    import torch

    return torch.nn.Sequential(torch.nn.Linear(INPUTS, 8), *between, torch.nn.Tanh(), torch.nn.Linear(8, CLASSES))


def norm(momentum=0.1):
    import torch

    sounder.serve(lambda: body(torch.nn.BatchNorm1d(8, momentum=momentum)), look, data=torch_sets())


def cumulative():
    norm(momentum=None)


def kept():
    import torch

    sounder.serve(body, look, data=torch_sets(), optimizer=torch.optim.AdamW, state=torch.optim.AdamW)


def half():
    sounder.serve(body, look, data=torch_sets(), autocast="bf16", accumulate=2)


def loader():
    sounder.serve(body, look, data=torch_sets(), loader={"num_workers": 1})


def private():
    sounder.serve(body, look, data=torch_sets())


def with_loop(make, train, **words):
    """A loop of the program's own, and the library's tests."""
    import torch

    sets = torch_sets()

    def test(net, turn):
        for batch in turn.loader():
            seen = look(net, batch)
            turn.add(seen["loss"], len(batch[1]), hits=seen["hits"])

    sounder.serve(make, train, test, data=sets, **words)
    return torch


def twin():
    """A teacher that follows the student by a moving average, and teaches it."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.student, self.teacher = body(), body().requires_grad_(False)

        def forward(self, x):
            return self.student(x)

    def train(net, turn):
        optimizer = torch.optim.SGD(net.student.parameters(), lr=turn.lr)
        for batch in turn.loader():
            loss = look(net, batch)["loss"] + (net(batch[0]) - net.teacher(batch[0])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            turn.correct()
            optimizer.step()
            for own, other in zip(net.teacher.parameters(), net.student.parameters()):
                own.data = 0.9 * own.data + 0.1 * other.data
            turn.add(loss, len(batch[1]))

    with_loop(Net, train, exchange="*")


def lora():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = body().requires_grad_(False)
            self.down, self.up = torch.nn.Linear(INPUTS, 2, bias=False), torch.nn.Linear(2, CLASSES, bias=False)
            torch.nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    sounder.serve(Net, look, data=torch_sets(), optimizer=torch.optim.AdamW)


def gan():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.maker, self.judge = torch.nn.Linear(3, INPUTS), torch.nn.Linear(INPUTS, 1)

    def losses(net, x, generator):
        made = net.maker(torch.randn(len(x), 3, generator=generator))
        true, false = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        judged = torch.nn.functional.binary_cross_entropy_with_logits
        return judged(net.judge(x), true) + judged(net.judge(made.detach()), false), judged(net.judge(made), true)

    def train(net, turn):
        makes, judges = (torch.optim.Adam(part.parameters(), lr=turn.lr) for part in (net.maker, net.judge))
        for x, _ in turn.loader():
            for optimizer, which in ((judges, 0), (makes, 1)):
                loss = losses(net, x, turn.generator)[which]
                net.zero_grad()
                loss.backward()
                optimizer.step()
            turn.correct()
            turn.add(loss, len(x))

    def test(net, turn):
        for x, _ in turn.loader():
            turn.add(losses(net, x, turn.generator)[0], len(x))

    sounder.serve(Net, train, test, data=torch_sets())


def foreign():
    """transformers' Trainer."""
    import torch
    from transformers import Trainer

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = body()

        def forward(self, x, labels):
            out = self.layers(x)
            return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}

    rows = [{"x": torch.from_numpy(x), "labels": int(y)} for x, y in zip(*made(SAMPLES, 1))]
    tests = [torch.from_numpy(part) for part in made(60, 2)]

    def train(net, turn):
        own = sorted({int(number) for taken in turn.indices() for number in taken})
        Trainer(net, turn.hf_arguments("scratch", dataloader_pin_memory=False), train_dataset=[rows[i] for i in own], callbacks=[turn.hf()]).train()

    def test(net, turn):
        for taken in turn.indices():
            seen = net(tests[0][taken], tests[1][taken])
            turn.add(seen["loss"], len(taken), hits=(seen["logits"].argmax(1) == tests[1][taken]).sum())

    sounder.serve(Net, train, test, data=torch_sets())


class Rows:
    def __init__(self, samples, seed):
        self.x, self.targets = made(samples, seed)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.x[i], self.targets[i]


def scikit():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    sets = {"train": Rows(SAMPLES, 1), "test": Rows(60, 2)}
    net = {"coef": np.zeros((CLASSES, INPUTS), np.float32), "intercept": np.zeros(CLASSES, np.float32)}

    def train(net, turn):
        model = LogisticRegression(max_iter=2, warm_start=True)
        own = sorted({int(number) for taken in turn.indices() for number in taken})
        model.classes_, model.coef_, model.intercept_ = np.arange(CLASSES), net["coef"].astype(float), net["intercept"].astype(float)
        model.fit(sets["train"].x[own], sets["train"].targets[own])
        net["coef"][...], net["intercept"][...] = model.coef_, model.intercept_
        turn.add(log_loss(sets["train"].targets[own], model.predict_proba(sets["train"].x[own])), len(own))

    def test(net, turn):
        for taken in turn.indices():
            out = sets["test"].x[taken] @ net["coef"].T + net["intercept"]
            turn.add(0.0, len(taken), hits=(out.argmax(1) == sets["test"].targets[taken]).sum())

    sounder.serve(net, train, test, data=(sets["train"], sets["test"]))


def metric():
    """An object that counts over a whole test and is reset at its beginning."""
    import torch

    class Counts:
        def reset(self):
            self.table = np.zeros((CLASSES, CLASSES))

        def update(self, said, true):
            np.add.at(self.table, (true, said), 1)

        def f1(self):
            hits = np.diag(self.table)
            return float((2 * hits / np.maximum(self.table.sum(0) + self.table.sum(1), 1)).mean())

    counts, sets = Counts(), torch_sets()

    def train(net, turn):
        optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr)
        for batch in turn.loader():
            loss = look(net, batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            turn.add(loss, len(batch[1]))

    def test(net, turn):
        counts.reset()
        for batch in turn.loader():
            seen = look(net, batch)
            counts.update(net(batch[0]).argmax(1).numpy(), batch[1].numpy())
            turn.add(seen["loss"], len(batch[1]), hits=seen["hits"])
        turn.metric(f1=counts.f1())

    sounder.serve(body, train, test, data=sets, whole_test=True)


def aggregator():
    """The mean by shares, with a momentum that the run keeps (--aggregator-keeps 1)."""
    def combine(updates, turn):
        turn.state[0] = 0.5 * turn.state[0] + turn.shares @ updates
        return turn.state[0]

    sounder.aggregate(combine)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
