"""What the look at a frozen base costs after each turn: look_at_base.py. GPT-2's shapes, 124 M weights in 148 tensors.

Prints milliseconds, the median of 300: of the look, and of putting buffers back before a turn.
"""
import statistics
import time

import torch
from torch import nn

from sounder.trainer.torch_stays import TorchStays

WIDTH, LAYERS, WORDS, PLACES = 768, 12, 50257, 1024


def base():
    """Parameters alone: the look never runs the net."""
    def layer():
        return nn.ModuleDict({"ln_1": nn.LayerNorm(WIDTH), "attn": nn.Linear(WIDTH, 3 * WIDTH), "proj": nn.Linear(WIDTH, WIDTH),
                              "ln_2": nn.LayerNorm(WIDTH), "up": nn.Linear(WIDTH, 4 * WIDTH), "down": nn.Linear(4 * WIDTH, WIDTH)})
    parts = {"words": nn.Embedding(WORDS, WIDTH), "places": nn.Embedding(PLACES, WIDTH), "end": nn.LayerNorm(WIDTH)}
    return nn.ModuleDict({**parts, **{f"layer{i}": layer() for i in range(LAYERS)}}).requires_grad_(False)


def median_ms(act):
    seconds = []
    for _ in range(300):
        begin = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(seconds)


torch.set_num_threads(1)
stays = TorchStays(base(), set())
assert stays.moved(False) is None
print(f"{stays.floats:,} weights in {len(stays.frozen)} tensors: look {median_ms(lambda: stays.moved(False)):.2f} ms, "
      f"buffers put back {median_ms(stays.put_back):.2f} ms")
