"""Runs of the program `sounder` on NumPy's arrays and PyTorch's modules.

    data = sounder.write_data("mine.npz", train=(x_train, y_train), test=(x_test, y_test))
    run = sounder.train("runs/a", data=data, model=sounder.layers(net), clients=10, partition="dirichlet", alpha=0.1, rounds=5)
    run.rows("round")[-1]["test_accuracy"]
    run.load_into(net)

Nothing is done here that the command line cannot do: options are those of `sounder train`, with _ for -. The program is
found by $SOUNDER, or on the PATH. Needs NumPy; torch and pandas only where their objects are given or asked for. Whatever
the program refuses arrives as sounder.Error with its sentence.
"""
from .command import Error, program
from .data import from_partitions, write_data
from .nets import layers, write_weights
from .runs import Run, resume, start, sweep, train

__all__ = ["Error", "Run", "from_partitions", "layers", "program", "resume", "start", "sweep", "train", "write_data", "write_weights"]
