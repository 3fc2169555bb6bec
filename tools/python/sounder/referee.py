"""A referee for other implementations: somebody's client, or server, on the turns of a run that `sounder export` has written."""
import json
import os
from types import SimpleNamespace

import numpy as np

from .command import Error
from .nets import net_tensors


_ROUNDING, _LEAST_CHANGE = 2e-6, 10  # of a weight: sums in another order; of the run's change, by that


def _array(value):
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value, np.float32)


class _Turn(SimpleNamespace):
    """One client's turn: round, client, epochs, share (what it counts in the mean), lr, count (its samples), and the run's settings:
    batch_size, momentum, nesterov, weight_decay, clip_grad_norm, label_smoothing, loss, algorithm, ..."""

    def batches(self):
        """The batches of all epochs in the run's order: x (float32, as it enters the net; samples, channels, rows, columns) and y."""
        begin = 0
        for end in self._ends:
            samples, begin = self._samples[begin:end], end
            x, y = self._data["x"][samples], self._data["y"][samples]
            if len(self._data["scale"]):
                x = x * self._data["scale"][:, None, None] + self._data["shift"][:, None, None]
            pair = np.asarray(x, np.float32), y.astype(np.float32 if y.dtype == np.float32 else np.int64)
            yield tuple(map(self._net.from_numpy, pair)) if self._net else pair


class Verdict(SimpleNamespace):
    """parted: whether it does. Then round, client (None: the server), tensor, difference, change (the tensor's largest in the run's own
    step), length (of the whole step, by the run's), degrees (between both), others (clients of the round that part) of clients, batches
    (of the turn); turns, steps: how many agree before it; agreement: the largest difference among these, by the tensor's largest change. str() says it."""

    def __bool__(self):
        return not self.parted

    def __str__(self):
        plural = lambda count: "" if count == 1 else "s"
        agreed = f"{self.turns} turn{plural(self.turns)} of clients" + f" and {self.steps} step{plural(self.steps)} of the server" * bool(self.steps)
        agreed += f" agree to within {self.agreement:.2g} of a tensor's largest change" if self.turns + self.steps else ""
        if not self.parted:
            return f"the same federation: {agreed}"
        who = "the server" if self.client is None else f"client {self.client}"
        many = f" ({self.others} of the round's {self.clients} clients do)" * (self.client is not None)
        small = self.client is not None and self.batches > 1 and self.degrees < 2 and abs(self.length - 1) < 0.02
        hint = (f"; so small a difference may be rounding, which {self.batches} steps amplify: take a run with fewer batches per round, or a larger "
                "tolerance") * small
        return (f"parts in round {self.round}, {who}, {self.tensor}{many}: by {self.difference:.3g}, where the run's largest change is "
                f"{self.change:.3g}; the whole step is {self.length:.3g} times as long as the run's, {self.degrees:.3g} degrees off; before, {agreed}{hint}")


def _compare(got, want, begun):
    """(tensor, difference, change, by the change) of the worst tensor, length, degrees, the largest difference by a change."""
    if set(got) != set(want):
        raise Error(f"referee: the weights that came back have {', '.join(sorted(got)) or 'no tensor'}; the run's are {', '.join(sorted(want))}")
    worst, mine, its, agreement = (None, 0.0, 0.0, -1.0), [], [], 0.0
    changes = {name: np.abs(wanted - begun[name]).max(initial=0) for name, wanted in want.items()}
    largest = max(changes.values())
    if largest > 0 and all(change < _LEAST_CHANGE * _ROUNDING * np.abs(want[name]).max(initial=0) for name, change in changes.items()):
        raise Error(f"referee: the run's largest change in a step is {largest:.2g}, which is rounding beside its weights, so that one who does "
                    "nothing would agree; export a run with a larger --lr or more local epochs")
    for name, wanted in want.items():
        array = _array(got[name])
        if array.shape != wanted.shape:
            raise Error(f"referee: {name} came back with shape {array.shape}; the run's has {wanted.shape}")
        difference, change = np.abs(array - wanted).max(initial=0), np.abs(wanted - begun[name]).max(initial=0)
        spare = _ROUNDING * np.abs(wanted).max(initial=0)
        scale = max(change, 0.01 * largest, 1e-30)  # a bias before a normalisation moves by rounding alone
        by = max(difference - spare, 0) / scale if np.isfinite(difference) else np.inf
        worst = max(worst, (name, float(difference), float(change), float(by)), key=lambda one: one[3])
        agreement = max(agreement, float(difference / scale))
        mine.append((array - begun[name]).ravel()), its.append((wanted - begun[name]).ravel())
    mine, its = np.concatenate(mine).astype(float), np.concatenate(its).astype(float)
    lengths = np.linalg.norm(mine), np.linalg.norm(its)
    cosine = mine @ its / max(lengths[0] * lengths[1], 1e-300)
    return worst, lengths[0] / max(lengths[1], 1e-300), float(np.degrees(np.arccos(np.clip(cosine, -1, 1)))), agreement


def _weights(held, kind):
    return {name[len(kind) + 1:]: held[name] for name in held.files if name.startswith(kind + "/")}


def _on_net(train, net):
    """train(net, turn) of a torch.nn.Module as train(weights, turn)."""
    import torch

    tensors = net_tensors(net)

    def on_weights(weights, turn):
        if {name for name, _ in tensors} != set(weights):
            raise Error(f"referee: the run's model has {', '.join(weights)}; this net has {', '.join(name for name, _ in tensors)}")
        with torch.no_grad():
            for name, tensor in tensors:
                tensor.copy_(torch.from_numpy(weights[name]))
        train(net, turn)
        return {name: tensor.detach().clone() for name, tensor in tensors}

    return on_weights


def _read(path):
    """(facts, data) of an exported federation."""
    try:
        with open(os.path.join(path, "federation.json")) as file:
            facts = json.load(file)
    except FileNotFoundError as missing:
        raise Error(f"referee: {path} has no federation.json; write it with sounder export RUN --federation {path}") \
            from missing
    return facts, dict(np.load(os.path.join(path, "data.npz")))


def _turns_of(held, facts, number, data, library):
    """The turns of a round's clients. library: torch, if the samples of their batches are tensors; or None."""
    first, ends, order, turns = held["first_sample"], held["first_end"], held["samples"], []
    for place, client in enumerate(held["clients"].tolist()):
        begin, end = first[place], first[place + 1]
        turns.append(_Turn(**facts, round=number, client=client, epochs=int(held["epochs"][place]),
                           share=float(held["shares"][place]), lr=float(held["lr"]), _net=library,
                           count=int(end - begin), _data=data, _samples=order[begin:end],
                           _ends=held["ends"][ends[place]:ends[place + 1]] - begin))
    return turns


def _copies(weights):
    return {name: array.copy() for name, array in weights.items()}


def _looks(held, begun, turns, train, aggregate):
    """What each client's training, and the server's step, gave beside the run's: (client or None, batches, _compare)."""
    handed = _weights(held, "handed_in")
    clients = [{name: array[place] for name, array in handed.items()} for place in range(len(turns))]
    looks = []
    for turn, own in zip(turns if train else (), clients):
        looks.append((turn.client, len(turn._ends), *_compare(train(_copies(begun), turn), own, begun)))
    if aggregate and turns:
        looks.append((None, 0, *_compare(aggregate(_copies(begun), clients, turns), _weights(held, "weights"), begun)))
    return looks


def _judge(verdict, number, looks, clients, tolerance):
    """Adds a round to the verdict, up to the first look that parts."""
    parts = [look for look in looks if look[2][3] > tolerance and look[0] is not None]
    for client, steps, worst, length, degrees, agreement in looks:
        if worst[3] > tolerance:
            verdict.__dict__.update(parted=True, round=number, client=client, tensor=worst[0], difference=worst[1],
                                    change=worst[2], length=float(length), degrees=degrees, others=len(parts),
                                    clients=clients, batches=steps)
            return
        verdict.turns, verdict.steps = verdict.turns + (client is not None), verdict.steps + (client is None)
        verdict.agreement = max(verdict.agreement, agreement)


def referee(folder, train=None, aggregate=None, net=None, tolerance=1e-3):
    """Where another implementation first parts from a run: a Verdict, which is true if it does not.

    folder: of `sounder export RUN --federation FOLDER`. train(weights, turn) trains one client and returns its weights, a dict of
    arrays or tensors, as `weights` is; with a torch.nn.Module as net, train(net, turn) trains the net in place. Every turn begins with the
    run's own weights, so that a fault is found where it is made. aggregate(weights, handed_in, turns) returns the new global weights
    from those of the run's clients (a list of dicts). Both may be methods of an object that remembers things. tolerance: of a
    difference, by the largest change of the tensor in that step, or a hundredth of the model's."""
    if train and net is not None:
        train = _on_net(train, net)
    path = os.fspath(folder)
    facts, data = _read(path)
    library = __import__("torch") if net is not None else None
    model = _weights(np.load(os.path.join(path, "round-000000.npz")), "weights")
    verdict = Verdict(parted=False, turns=0, steps=0, agreement=0.0)
    for number in range(1, facts["rounds"] + 1):
        held = np.load(os.path.join(path, f"round-{number:06d}.npz"))
        turns = _turns_of(held, facts, number, data, library)
        looks = _looks(held, _weights(held, "begun") or model, turns, train, aggregate)
        _judge(verdict, number, looks, len(turns), tolerance)
        if verdict.parted:
            break
        model = _weights(held, "weights")
    return verdict
