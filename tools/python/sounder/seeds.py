"""Seeds of the generators that programs draw from without making one."""
import os
import random
import sys

import numpy as np

APART = 0x517CC1B727220A95  # the numbers of the net that is made later with the run's seed are others


def seed_all(seed):
    """Those of random, of NumPy, and of torch if the program has it."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def seed_of_run():
    """`import sounder` in a program of a run: what it shuffles and splits while it loads is the same in each of its starts. torch that is
    imported later begins with a seed of its own, which is always the same. A program that seeds itself afterwards keeps its seeds."""
    seed = os.environ.get("SOUNDER_SEED")
    if seed:
        seed_all((int(seed) + APART) % (1 << 64))
