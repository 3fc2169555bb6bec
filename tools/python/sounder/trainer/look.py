"""The library's own loop: look(net, batch) looks at one batch, in training and in tests, and gives what it saw by name.

    def look(net, batch):
        x, y = batch
        out = net(x)
        return dict(loss=F.cross_entropy(out, y), hits=(out.argmax(1) == y).sum())

loss is the mean over the batch. hits, samples, tokens and weight are optional; other names are figures of the user's own.
"""
import contextlib
import inspect

from ..command import Error
from .samples import loader

OF_OPTIONS = ("lr", "momentum", "weight_decay")


def _moved(batch, device):
    """Tensors of a batch, in whatever tuples, lists and dicts, on the net's device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)({name: _moved(part, device) for name, part in batch.items()})
    if isinstance(batch, (list, tuple)):
        parts = [_moved(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


class Look:
    """optimizer: a class, or a function of the parameters, that takes what it knows of lr, momentum and weight_decay. accumulate: batches per
    step. autocast: "bf16". schedule: a function of the optimizer, and of the turn's steps if it takes two, that makes a scheduler of
    torch's. words: of the DataLoader."""

    def __init__(self, function, own, optimizer, accumulate, autocast, schedule, words):
        if not isinstance(accumulate, int) or accumulate < 1:
            raise Error(f"serve(..., accumulate={accumulate!r}): give how many batches make one step, from 1")
        if autocast not in (None, "bf16"):
            raise Error(f"serve(..., autocast={autocast!r}): there is \"bf16\", which needs no scaled gradients")
        self.function, self.own, self.make = function, own, optimizer
        self.accumulate, self.autocast, self.schedule, self.words = accumulate, autocast, schedule, words or {}

    def _optimizer(self, net, turn):
        import torch

        make = self.make or torch.optim.SGD
        try:
            known = inspect.signature(make).parameters
        except ValueError:  # built in
            known = OF_OPTIONS
        given = {name: getattr(turn, name) for name in OF_OPTIONS if name in known}
        optimizer = make([parameter for parameter in net.parameters() if parameter.requires_grad], **given)
        return optimizer if turn.state is None else turn.keep(optimizer)

    def _scheduler(self, optimizer, steps):
        if not self.schedule:
            return None
        return self.schedule(optimizer, steps) if len(inspect.signature(self.schedule).parameters) > 1 else self.schedule(optimizer)

    def _batches(self, turn):
        """Batches on the net's device, each with the number of its samples."""
        counts = [len(taken) for taken in turn.indices()]
        batches = loader(turn, self.own, False, self.words) if self.own else turn.batches()
        for count, batch in zip(counts, batches):
            yield count, _moved(batch, turn.device) if turn.device is not None else batch

    def _see(self, net, batch, turn):
        import torch

        cast = torch.autocast(torch.device(turn.device).type, torch.bfloat16) if self.autocast else contextlib.nullcontext()
        with cast:
            seen = self.function(net, batch)
        if not isinstance(seen, dict) or "loss" not in seen:
            raise Error(f"the function that looks at a batch gave {type(seen).__name__}: give a dict with loss, as dict(loss=..., hits=...)")
        return dict(seen)

    def _add(self, turn, seen, count):
        """To the turn. weight: what the loss and the own figures are a mean over, as a text's tokens."""
        loss, weight = seen.pop("loss"), seen.pop("weight", None)
        hits, answers = seen.pop("hits", None), seen.pop("answers", None)
        if answers is not None:
            turn.answers(answers)
        turn.add(loss, seen.pop("samples", count), hits, weight=weight, **seen)

    def train(self, net, turn):
        import torch

        optimizer = self._optimizer(net, turn)
        learn = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        ends = turn.steps
        scheduler = self._scheduler(optimizer, -(-ends // self.accumulate))
        weights = 0.0
        for number, (count, batch) in enumerate(self._batches(turn), 1):
            seen = self._see(net, batch, turn)
            weight = float(seen.get("weight", count)) if self.accumulate > 1 else 1.0
            (seen["loss"] if weight == 1.0 else seen["loss"] * weight).backward()
            weights += weight
            self._add(turn, seen, count)
            if number % self.accumulate and number < ends:
                continue
            for parameter in learn if self.accumulate > 1 else ():
                if parameter.grad is not None:
                    parameter.grad /= weights
            turn.correct()
            if turn.clip:
                torch.nn.utils.clip_grad_norm_(learn, turn.clip)
            optimizer.step()
            if scheduler:
                scheduler.step()
            optimizer.zero_grad()
            weights = 0.0

    def test(self, net, turn):
        for count, batch in self._batches(turn):
            self._add(turn, self._see(net, batch, turn), count)
