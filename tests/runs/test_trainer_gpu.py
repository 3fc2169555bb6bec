"""Trainers whose nets are on a GPU. Where there is none, another part of the CPU's memory plays it: the same copies, the same forks.

Usage: test_trainer_gpu.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no PyTorch)
"""
import sys, unittest

from trainers import JOB, TORCH, TrainerCase, torch

# A net with a buffer that travels, a number that does not, and tensors of two types.
NET = TORCH + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Linear(12, 10).to(torch.bfloat16)
    def forward(self, x):
        return self.fc2(torch.relu(self.norm(self.fc1(x.flatten(1)))).to(torch.bfloat16)).float()
'''
PRETENDED = '''
from sounder.trainer import torch_gpu, torch_net
class Elsewhere(torch_net.TorchNet):
    def moves(self):
        return True
    def place(self):
        if not self.gpu:
            print("placed", flush=True)
            self.gpu = torch_gpu.GpuDesk(self)
    def attach(self, desk, tensors):
        super().attach(desk, tensors)
        for tensor in self.parts.values():
            tensor.data = tensor.data.clone()
torch_gpu.MOST_FLOATS, torch_gpu.SHARE_OF_FREE = 64 * 25, SHARE
torch_net.TorchNet = Elsewhere
torch_gpu.GpuDesk.use = lambda desk: {"name": "Pretended GPU", "free": 3 << 30, "bytes": 4 << 30}
'''
SERVE = "sounder.serve(Net, train, test)\n"


class OnGpu(TrainerCase):
    def test_a_net_in_other_memory_trains_to_the_same_bits(self):
        for name, algorithm in (("fedavg", "fedavg"), ("corrected", "scaffold"), ("pulled", "fedprox mu=0.5")):
            self.write("trainer.py", NET + SERVE)
            self.run_with(name, "--algorithm", algorithm)
            for start, share in (("fork", "1"), ("each", "1 << 40")):  # samples that fit, and samples that do not
                with self.subTest(algorithm=algorithm, start=start):
                    self.write("trainer.py", NET + PRETENDED.replace(", SHARE\n", f", {share}\n") + SERVE)
                    self.run_with(f"{name}-{start}", "--algorithm", algorithm, "--trainer-start", start)
                    self.assertEqual(self.model(f"{name}-{start}"), self.model(name))

    def test_a_net_is_placed_in_each_fork_and_never_before(self):
        self.write("trainer.py", NET + PRETENDED.replace(", SHARE\n", ", 1\n") + SERVE)
        self.run_with("forks")
        with open(self.path("forks", "trainer.log")) as log:
            placed = [line for line in log if "placed" in line]
        self.assertEqual(len(placed), 2)
        self.assertFalse([line for line in placed if "nursery" in line])

    def test_a_run_says_how_many_trainers_a_gpu_can_hold(self):
        self.write("trainer.py", NET + PRETENDED.replace(", SHARE\n", ", 1\n") + SERVE)
        _, err = self.run_with("said", "--rounds", "3", "--log-level", "info")
        self.assertEqual(err.count("Pretended GPU: 2 trainers and all other programs hold 1024 MiB, 3072 MiB are free: about 6 more"), 1)

    @unittest.skipUnless(torch and torch.cuda.is_available(), "there is no GPU")
    def test_a_net_on_a_gpu_trains_and_repeats_its_bits(self):
        self.write("trainer.py", NET.replace(".to(torch.bfloat16)", "").replace(".float()", "") + SERVE.replace("test)", "test, device='cuda')"))
        for name, more in (("fork", ()), ("again", ("--workers", "1")), ("each", ("--trainer-start", "each"))):
            self.run_with(name, *more)
            self.assertEqual(self.model(name), self.model("fork"))


if __name__ == "__main__":
    if torch is None:
        print("skipped: there is no PyTorch")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
