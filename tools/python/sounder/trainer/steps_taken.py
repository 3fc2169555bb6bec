"""What a turn's steps were, for algorithms that divide by them: whether they were those of SGD with the turn's numbers, and the mean of the gradients
as the program has computed them, which SCAFFOLD keeps where they were others."""
import numpy as np

NEAR = 1e-2  # of what SGD would have moved: further away the steps were others


class StepsTaken:
    """Made at a turn's first step. At each step gather sees the gradients ({name: gradient}) before anything is added to them, step after
    that. SGD is computed beside the program, on some numbers of each tensor (net.sample).

    told     the turn's line
    keeps    the mean of the gradients is wanted
    """

    def __init__(self, net, told, keeps):
        self.net, self.keeps, self.count = net, keeps, 0
        self.lr, self.momentum, self.weight_decay, self.clip = (told[name] for name in ("lr", "momentum", "weight_decay", "clip"))
        self.floats, self.sums = net.sums() if keeps else (None, {})
        self.first = net.sample(net.weights())
        self.velocity, self.travelled = np.zeros_like(self.first), np.zeros_like(self.first)
        self.told_none = False

    def gather(self, gradients):
        self.count += 1
        self.told_none |= not gradients  # a net of arrays, where nothing is added
        if self.keeps:
            self.net.add_up(self.sums, gradients)

    def step(self, gradients):
        norm = self.net.norm(gradients) if self.clip else 0.0
        direction = self.net.sample(gradients) * (self.clip / norm if norm > self.clip else 1.0)
        if self.weight_decay:
            direction += self.weight_decay * self.net.sample(self.net.weights())
        self.velocity = self.momentum * self.velocity + direction
        self.travelled += self.lr * self.velocity

    def were_sgd(self):
        """Also where that cannot be told. Each step rounds a weight once."""
        moved = self.first - self.net.sample(self.net.weights())
        spare = self.count * self.net.rounding() * np.linalg.norm(self.first)
        return self.told_none or bool(np.linalg.norm(moved - self.travelled) <= NEAR * np.linalg.norm(self.travelled) + spare)

    def mean(self):
        """(parameters) float32: a tensor without a gradient has zeros."""
        floats = self.floats.cpu().numpy() if hasattr(self.floats, "cpu") else self.floats
        return floats / np.float32(self.count)
