"""One turn: a client trains from the round's weights, or a part of the test samples is evaluated."""
import functools
import types

import numpy as np

from ..command import Error
from ..seeds import seed_all
from . import samples
from .kept import Kept
from .steps_taken import StepsTaken

OBEYED = ("epochs", "batch_size", "lr", "momentum", "weight_decay", "clip")


def _detached(value):
    """A tensor without its graph: it is read at the hand-in, so that no batch waits for a card."""
    return value.detach() if hasattr(value, "detach") else value


def _whole(name, value):
    """A count. A share, as the mean over a batch, would count as none."""
    number = float(value)
    if number < 0 or number != int(number):
        raise Error(f"{name}={number:g} is no whole number: give how many there are in the batch, not a mean or a share")
    return int(number)


def _number(name, value):
    try:
        return float(value)
    except (TypeError, ValueError) as problem:
        raise Error(f"the metric {name} is no number: {problem}") from problem


def _option(name):
    """One of the run's options. The run is told that the program reads it."""

    def read(turn):
        turn._line.read(name)
        return turn._told[name]

    def write(turn, value):
        turn._told[name] = value

    return property(read, write)


class Turn:
    """What the worker asks for, and what the trainer answers.

    trains            whether this is a training; otherwise a test without gradients
    part              "train", "test" (of the whole test set), "validation" or "client" (one client's own samples)
    split             "train" or "test": whose numbers indices() gives, as a client may be tested on either
    round, client     from 1, from 0
    epochs batch_size lr momentum weight_decay clip    as the run's options say; lr is this round's
    samples           how many sample numbers the turn has, over all of its epochs
    options           those of --trainer-option
    seed, random, generator    this turn's random numbers: NumPy's Generator, and torch's
    state             with serve(..., state=N): N floats of this client, zeros in its first turn, to be changed in place or assigned; as
                      the turn leaves them the client's next one finds them (its tests have a copy), if the run has --client-optimizer-state keep
    still             names of the tensors that rest in this turn: with fedrep the head is trained first, then the body. A module's parameters
                      need no gradient meanwhile, and its buffers are put back
    x, y              the samples and labels into which indices() points: the whole split as it is stored, or, where the client sees
                      others (--client-noise, --drift, attacks on samples), those of this turn as it sees them
    rehearsal         True in a turn whose result is thrown away
    """

    epochs, batch_size, lr, momentum, weight_decay, clip = (_option(name) for name in OBEYED)

    def __init__(self, told, hello, desk, data, net, line, state):
        self._told, self._desk, self._data, self._net, self._line = told, desk, data, net, line
        self.trains = told["task"] == "train"
        for name in ("part", "split", "round", "client", "seed"):
            setattr(self, name, told[name])
        self.samples = told["count"]
        self.options = hello["options"]
        self.rehearsal = bool(told.get("rehearsal"))
        self._floats = desk.state if told.get("keeps") else np.zeros(state, np.float32)
        self._state = net.state(self._floats) if state else None  # the same memory
        first, end = told.get("still", (0, 0))
        self.still = [name for name, _ in hello["tensors"][first:end]] if end else []
        self.device = net.device
        split = data.splits[told["split"]]
        self.x, self.y = self._view(split) if told.get("viewed") else (split.x, split.y)
        self._losses, self._hits = [], []
        self._metrics, self._of_turn = {}, {}
        self._adds = self._corrects = self._answers = self._tokens = 0
        self._taken = None
        self.handed_in, self._result, self.loaded, self._optimizer = False, [], None, None
        self._kept = Kept() if told.get("check") else None
        self._begin_random()

    def _begin_random(self):
        seed_all(self.seed)
        self.generator = self._net.generator(self.seed)

    @functools.cached_property
    def random(self):  # made when it is asked for: that takes as long as the rest of a short turn's start
        return np.random.default_rng(self.seed)

    def _ends(self, size=None):
        if size is not None and size < 1:
            raise Error(f"turn.batches({size}): a batch has at least one sample")
        for name in ("batch_size", "epochs"):
            self._line.read(name)
        ends = self._desk.part("ends", "u4", self._told["batches"]).tolist()
        if size:
            epoch = max(1, self.samples // self.whole_epochs())
            ends = [min(first + size, begin + epoch) for begin in range(0, self.samples, epoch) for first in range(begin, begin + epoch, size)]
        return zip([0, *ends], ends)

    def whole_epochs(self):
        """Epochs of the batches; 1 in a test, and where a schedule counts steps, which may begin within an epoch."""
        epochs = self._told["epochs"] if self.trains else 1
        return epochs if epochs and self.samples % epochs == 0 and self._told["batches"] % epochs == 0 else 1

    @property
    def state(self):
        return self._state

    @state.setter
    def state(self, value):
        if self._state is None:
            raise Error("turn.state: no client keeps any floats; say how many: sounder.serve(..., state=N)")
        if tuple(np.shape(value)) != tuple(self._state.shape):
            raise Error(f"turn.state has the shape {list(self._state.shape)} and was given {list(np.shape(value))}")
        self._floats[...] = value.detach().cpu().numpy() if hasattr(value, "detach") else value

    def _view(self, split):
        """x and y as the client sees them: rows of the desk, or of labels alone the whole split with the labels that it sees."""
        places = self._desk.part("places", "u4", self.samples)
        rows = int(places.max()) + 1 if self.samples else 0
        labels = self._desk.part("labels", "u2" if split.y.dtype == np.uint16 else "f4", rows)
        if split.x is None:
            y = np.array(split.y)
            y[self._desk.part("order", "u4", self.samples)] = labels[places]
            return None, y
        shape = self._data.shape
        return self._desk.part("samples", self._desk.parts["samples_type"], rows * int(np.prod(shape))).reshape(rows, *shape), labels

    def _numbers(self, part, size):
        for first, end in self._ends(size):
            self.progress()
            yield self._desk.part(part, "u4", self.samples)[first:end].astype(np.int64)

    def indices(self, size=None):
        """For each batch of the turn, in the run's order: the places of its samples in x and y. size: as for batches."""
        viewed = self._told.get("viewed") and self.x is not None
        return self._numbers("places" if viewed else "order", size)

    def own(self, size=None):
        """The same as numbers of the samples in the data set, whatever the client sees."""
        return self._numbers("order", size)

    def batches(self, size=None):
        """The same as (x, y): x as it enters a net, torch's tensors if the net is torch's. With --client-noise, --drift or an attack
        on labels these are the samples as the client sees them. If the run's data are labels alone, x are the samples' numbers, for
        the samples that the program has loaded itself. size: samples of a batch, otherwise --batch-size in training, and in a test ten
        times as many, up to 500."""
        yield from self._batches_of(self.indices(size))

    def each_epoch(self, size=None):
        """The same, with an iterator over the batches of each epoch: for epoch in turn.each_epoch(): for x, y in epoch: ..."""
        batches = list(self.indices(size))
        count = max(1, len(batches) // self.whole_epochs())
        for first in range(0, len(batches), count):
            yield self._batches_of(batches[first : first + count])

    def _batches_of(self, indices):
        if not self._told.get("viewed"):
            for batch in self._net.batches(self._data, self._data.splits[self.split], indices):
                self.progress()  # a GPU gathers the samples of many batches at once
                yield batch
            return
        for taken in indices:
            yield self._net.batch(taken if self.x is None else self._data.enter(self.x[taken]), self.y[taken])

    def correct(self, gradients=None):
        """Adds what the run's algorithm adds to the gradients, once per step: after the last backward pass and unscale_, before
        clipping, as the engine does; nothing with fedavg. With a net of arrays: gradients, {name: array}, are changed in place."""
        self._corrects += 1
        self.progress()
        if self.adds_nothing and not self._told.get("measures"):
            return
        if self._told.get("measures") and not self._taken:
            self._taken = StepsTaken(self._net, self._told, keeps="gradients" in self._desk.parts)
        raw = self._net.gradients(gradients, fills=not self.adds_nothing)
        if self._taken:
            self._taken.gather(raw)
        if not self.adds_nothing:
            self._net.correct(raw, self._told["pull"], self._told.get("shifts"))
        if self._taken:
            self._taken.step(raw)

    @property
    def adds_nothing(self):
        """Whether the run's algorithm leaves the gradients as they are, so that correct() does nothing."""
        return not (self._told.get("shifts") or self._told["pull"])

    def correcting(self, optimizer):
        """Lets the optimizer's step correct the gradients first, for loops that others own. A closure, as Lightning gives to step, makes
        the gradients itself: it is corrected at its end. A loop that clips has clipped by then: what is added stays unclipped, other
        than with correct() before clipping."""
        step = optimizer.step

        def corrected(_, closure=None, *arguments, **named):
            if closure is None:
                self.correct()
                return step(*arguments, **named)

            def corrected_closure():
                loss = closure()
                self.correct()
                return loss

            return step(corrected_closure, *arguments, **named)

        optimizer.step = types.MethodType(corrected, optimizer)  # schedulers of learning rates ask for a method
        return optimizer

    def loader(self, each_epoch=False, **words):
        """A DataLoader over the samples of the turn, in the run's batches, of serve(..., data=): those of all epochs in one
        pass, or with each_epoch those of one, for loops that count epochs themselves. words: of the DataLoader."""
        return samples.loader(self, self.loaded, each_epoch, words)

    def rank(self, rank):
        """The rank of this client's adapters in this turn: what lora_A and lora_B have beyond it is zero, and stays so in training, since neither
        has a gradient without the other. The server's factors keep their own rank (combine adapters how=svd)."""
        if not self.trains and self.part != "client":
            raise Error(f"turn.rank({rank}): the test of the global model is that of its whole rank; say it in trainings and in tests of a client")
        factors = [(name, tensor) for name, tensor in self._net.factors() if "lora_A" in name or "lora_B" in name]
        if not factors or not 1 <= rank <= max(len(tensor) for name, tensor in factors if "lora_A" in name):
            raise Error(f"turn.rank({rank}): the net has {len(factors)} tensors lora_A and lora_B, whose rank is the most")
        for name, tensor in factors:
            (tensor[rank:] if "lora_A" in name else tensor[:, rank:])[...] = 0

    def keep(self, optimizer):
        """A new optimizer gets the state that the client's last one had, and the client keeps what it has at the end of the turn:
        with serve(..., state=torch.optim.AdamW), its class, and --client-optimizer-state keep. Before correcting(optimizer)."""
        from .keeping import KeptOptimizer

        self._optimizer = KeptOptimizer(optimizer, self._floats if self._state is not None else None)
        return optimizer

    def hf(self):
        """A callback for a Trainer of transformers, which corrects before each step, says that it lives, and tells the loss."""
        from .hf import HandsIn

        return HandsIn(self)

    def hf_arguments(self, folder, **words):
        """TrainingArguments of the turn: its rate, epochs, batch size, weight decay, clip and seed. words: others, or in their place."""
        from .hf import arguments

        return arguments(self, folder, words)

    def lightning(self, **words):
        """A Trainer of Lightning for one fit: it trains the turn's epochs, clips as the run says, corrects before each step,
        and adds the losses. words: of the Trainer, others or in their place."""
        from .lightning import trainer

        return trainer(self, words)

    @property
    def steps(self):
        """How many batches the turn has, over all epochs: the steps of a loop that makes one per batch."""
        return self._told["batches"]

    def add(self, loss, samples, hits=None, weight=None, tokens=None, **metrics):
        """One batch: its mean loss, how many samples it had, and how many of them were right: in every batch of a test or
        in none, which then has no accuracy. metrics: figures of your own by name, means over the batch, as recall=0.8.
        weight: what the figures are means over in place of samples; the run then has the loss so weighed, too, as
        weighted_loss. tokens: how many the batch had; the run counts them, weighs by them unless weight says otherwise,
        and has the perplexity, exp(weighted_loss), unless the program has one of its own."""
        self._adds += 1
        self._tokens += 0 if tokens is None else _whole("tokens", tokens)
        weight = tokens if weight is None else weight
        self._losses.append((_detached(loss), _whole("samples", samples)))
        if hits is not None:
            self._hits.append(_detached(hits))
        if weight is not None:
            metrics["weighted_loss"] = loss
        for name, value in metrics.items():
            self._metrics.setdefault(name, []).append((_detached(value), samples if weight is None else float(weight)))
        self._line.progress()

    def answers(self, scores):
        """The net's answers for the next samples of a test, once per batch: one score per class before softmax (samples, classes), or the
        predicted targets (samples). `sounder eval --confusion` and `--predictions` want them; otherwise, and in a training, they are
        dropped."""
        if self.trains:
            return
        shape, classes = tuple(np.shape(scores)), self._data.classes
        numbers = self.y.dtype != np.uint16
        if not shape or shape[1:] != (classes,) and not (numbers and len(shape) == 1):
            wanted = "(samples,), the predicted targets" if numbers else f"(samples, {classes}), one score per class"
            raise Error(f"turn.answers was given the shape {shape}; give {wanted}")
        first, self._answers = self._answers, self._answers + shape[0]
        if self._answers > self.samples:
            raise Error(f"turn.answers was given {self._answers} samples in a turn of {self.samples}; call it once per batch")
        if "answers" in self._desk.parts:
            scores = scores.detach().cpu().float().numpy() if hasattr(scores, "detach") else np.asarray(scores)
            desk = self._desk.part("answers", "f4", self.samples * classes).reshape(self.samples, classes)
            desk[first : self._answers] = scores.reshape(-1, classes)

    def metric(self, **metrics):
        """Figures of the whole turn by name, where no mean over batches is right: metric(perplexity=...). They weigh as much as the
        samples that were added. In the end the run has the mean over all turns: a test in one turn (serve(..., whole_test=True)) keeps
        the number as it is."""
        self._of_turn.update({name: _detached(value) for name, value in metrics.items()})

    def _told_metrics(self, samples):
        """{name: [sum, weight]} of the whole turn."""
        told = {}
        for name, parts in self._metrics.items():
            told[name] = [sum(_number(name, value) * count for value, count in parts), float(sum(count for _, count in parts))]
        for name, value in self._of_turn.items():
            if name in told:
                raise Error(f"the metric {name} was given both to turn.add and to turn.metric; give it to one of them")
            told[name] = [_number(name, value) * samples, float(samples)]
        return told

    def progress(self):
        """A sign of life, for work between two batches that takes longer than --hang-seconds."""
        self._line.progress()

    def hand_in(self, steps=None, travel=None):
        """Ends the turn: the net's weights are the result, whatever the function does to the net afterwards. The worker is answered when
        the function has returned.

        steps: how many steps of SGD with turn.lr and turn.momentum were made; without it, how often correct or add was called.
        travel: for other optimizers, how far a gradient of 1 in every step would have taken a weight, as 0.6 after 60 steps of Adam
        with a rate of 0.01. Both matter to scaffold and fednova alone, which divide by them; without either, scaffold keeps the mean of the
        gradients where the steps were others than SGD's.
        """
        self.end(steps, travel)
        if self.trains:  # a net on a GPU has memory of its own, and the desk has the result already
            held = [self._floats] if getattr(self._net, "gpu", None) else [self._floats, self._desk.weights]
            self._result += [(array, array.copy()) for array in held]

    def answer(self):
        """Sends what end or hand_in has noted, when the program no longer works on the net."""
        for array, result in self._result:
            array[...] = result
        if self._line.reads:
            self._answer["reads"], self._line.reads = self._line.reads, []
        self._line.send(turn=self._told["turn"], **self._answer)

    def end(self, steps=None, travel=None):
        """As hand_in, where nothing follows; nothing if the turn has been handed in."""
        if self.handed_in:
            return
        moved = self._net.moved(whole=bool(self._told.get("check")))
        if moved:
            raise Error(moved)
        made = steps if steps is not None else self._corrects or self._adds
        if self.trains and made and not self._corrects and (self._told.get("shifts") or self._told["pull"]):
            raise Error("the run's algorithm adds to the gradients, and this turn never called turn.correct(): call it once per "
                        "step, before clipping and optimizer.step()")
        if self.trains:
            self._net.store()
        if self._optimizer and self.trains:
            self._optimizer.save()
        samples = int(sum(count for _, count in self._losses))
        answer = {"loss_sum": float(sum(float(loss) * count for loss, count in self._losses)),
                  "samples": samples, "steps": _whole("steps", made) if self.trains else 0}
        if self._tokens:
            answer["tokens"] = self._tokens
        if self.trains and steps is None:
            answer["counted"] = 1
        if self.trains and travel is not None:
            if not 0 < travel < float("inf"):
                raise Error(f"turn.hand_in(travel={travel}): how far a weight travels is a number above 0")
            answer["travel"] = float(travel)
        if self._taken and not self._taken.were_sgd():
            answer["other_steps"] = 1
            if self._taken.keeps and steps is None and travel is None:
                answer["gradients"] = 1
                self._result.append((self._desk.part("gradients", "f4", self._desk.weights.size), self._taken.mean()))
        if not self.trains and 0 < len(self._hits) < self._adds:
            raise Error(f"turn.add was given hits= in {len(self._hits)} of {self._adds} batches; give it in all of them, or in none")
        if self._hits:
            answer["hits"] = sum(_whole("hits", hits) for hits in self._hits)
        if self._answers and self._answers != self.samples:
            raise Error(f"turn.answers was given {self._answers} of the turn's {self.samples} samples; call it once per batch")
        if self._answers and "answers" in self._desk.parts:
            answer["answers"] = self._answers
        if self._kept:
            answer["kept"] = self._kept.used()
        if self.trains and self._told.get("asks_gpu") and getattr(self._net, "gpu", None):
            answer["gpu"] = self._net.gpu.use()
        if self._of_turn and self.part == "test" and self.samples < len(self._data.splits[self.split].y):
            answer["of_part"] = next(iter(self._of_turn))
        metrics = self._told_metrics(samples or self.samples)
        if metrics:
            answer["metrics"] = metrics
        self.handed_in, self._answer = True, answer
