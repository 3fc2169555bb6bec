"""A trainer whose turns do nothing, for rows of what a turn itself costs: empty_turn.py numpy|torch WEIGHTS.

With torch, a turn makes an optimizer, as one that trains would.
"""
import sys

import sounder

form, weights = sys.argv[1], int(sys.argv[2])
if form == "numpy":
    import numpy

    net = {"weight": numpy.zeros(weights, numpy.float32)}
else:
    import torch

    net = torch.nn.ParameterDict({"weight": torch.zeros(weights)})

for turn in sounder.turns(net):
    if turn.trains and form == "torch":
        torch.optim.SGD(net.parameters(), lr=turn.lr)
    turn.add(0.0, turn.samples, hits=0)
    turn.hand_in()
