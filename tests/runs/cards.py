"""What the tests of whole runs on a card share: of the program on the emulated card (tests/emulator), in several processes as
on a real one.
"""
import os

from runs import RunCase, parse_safetensors

DATA = "synthetic:1x8x8:160:60"
MODEL = "conv 3 3; pool 2; relu; dropout 0.2; linear 10"
TINY = ["--data", DATA, "--model", MODEL, "--batch-size", "16", "--clients", "4", "--rounds", "2"]
CARD = [*TINY, "--device", "cuda"]
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


class CardCase(RunCase):
    def emulated(self, **settings):
        """The environment of a run; settings as emulator.h has them, without SOUNDER_EMULATED_."""
        environment = {name: value for name, value in os.environ.items() if name not in LOCAL_RANKS}
        environment["CUDA_MPS_PIPE_DIRECTORY"] = self.path("no-mps")
        environment.update({f"SOUNDER_EMULATED_{name}": str(value) for name, value in settings.items()})
        return environment

    def start(self, *arguments, **more):
        more.setdefault("env", self.emulated())
        return super().start(*arguments, **more)

    def summary(self, run):
        entry = self.metrics(run)[-1]
        self.assertEqual(entry["type"], "summary")
        return entry

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def has_one_sentence(self, err):
        lines = [line for line in err.splitlines() if line.startswith("sounder: error:")]
        self.assertEqual(len(lines), 1, err)
        return lines[0]
