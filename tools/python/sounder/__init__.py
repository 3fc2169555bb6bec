"""Runs of the program `sounder` on NumPy's arrays, PyTorch's modules and ONNX's files.

    data = sounder.write_data("mine.npz", train=(x_train, y_train), test=(x_test, y_test))
    run = sounder.train("runs/a", data=data, model=sounder.layers(net), clients=10, partition="dirichlet", alpha=0.1, rounds=5)
    run.rows("round")[-1]["test_accuracy"]
    run.load_into(net)
    run.export_onnx("net.onnx")

net is a torch.nn.Module, or for layers and write_weights the path of a file NET.onnx. Options are those of `sounder train`, with _
for -. The program is found by $SOUNDER, or on the PATH. Needs NumPy; torch, pandas, onnx, wandb and mlflow only where their objects
or files are given or asked for. Whatever the program refuses arrives as sounder.Error with its sentence.
"""
from .aggregator import aggregate
from .command import Error, program
from .dashboards import to_mlflow, to_wandb
from .data import from_partitions, write_data
from .nets import layers, write_weights
from .onnx_write import export_onnx
from .referee import Verdict, referee
from .runs import Run, plan, resume, start, sweep, train
from .seeds import seed_of_run
from .tokens import BPE, library_texts, write_tokens
from .trainer import check, serve, turns

seed_of_run()

__all__ = ["BPE", "Error", "Run", "Verdict", "aggregate", "check", "export_onnx", "from_partitions", "layers", "library_texts", "plan", "program", "referee", "resume", "serve", "start", "sweep", "to_mlflow", "to_wandb", "train", "turns", "write_data", "write_tokens", "write_weights"]
