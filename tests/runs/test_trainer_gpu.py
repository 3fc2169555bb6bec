"""Trainers whose nets are on a GPU. Where there is none, another part of the CPU's memory plays it: the same copies, the same forks.

Usage: test_trainer_gpu.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no PyTorch)
"""
import sys, unittest
from types import SimpleNamespace
from unittest import mock

from trainers import PACKAGE, TORCH, TrainerCase, np, torch

sys.path.insert(0, PACKAGE)
if torch:
    from sounder.trainer.kept import _things
    from sounder.trainer.torch_gpu import _pin
    from sounder.trainer.torch_net import TorchNet

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

    def test_a_net_that_its_program_has_put_on_several_devices_stays_there(self):
        for asked, device in ((None, "cpu"), ("meta", "meta")):
            split = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False, device="meta"), torch.nn.BatchNorm1d(2))
            net = TorchNet(split, device=asked)
            net.attach(SimpleNamespace(weights=np.zeros(12, np.float32), shift=None), net.tensors())
            net.place()
            self.assertEqual({tensor.device.type for tensor in split[1].parameters()}, {device})
            self.assertIs(net.parts["1.running_mean"], split[1].running_mean)
        self.assertEqual(TorchNet(torch.nn.Linear(2, 2), device="cpu").device.type, "cpu")

    def test_memory_that_the_driver_does_not_register_is_copied_all_the_same(self):
        asked = []
        refuse = SimpleNamespace(cudaHostRegister=lambda begin, count, flags: asked.append((begin, count)) or 1)
        memory = np.zeros(64, np.float32)
        with mock.patch.object(torch.cuda, "is_available", lambda: True), mock.patch.object(torch.cuda, "cudart", lambda: refuse), \
                mock.patch.object(torch, "ones", side_effect=RuntimeError("CUDA error: part of the range is registered already")) as kernel:
            _pin([memory[:20], memory[32:]], "cpu")
        self.assertEqual(asked, [(memory.ctypes.data, memory.nbytes)])
        self.assertEqual(kernel.call_count, 1)

    def test_generators_of_gpus_are_seeded_in_every_turn_and_kept_from_none(self):
        of_gpu, of_program = held = [torch.Generator(), torch.Generator()]  # the collector, which is asked, knows lists
        with mock.patch.object(torch.cuda, "default_generators", (of_gpu,)):
            found = {id(thing) for thing in _things()}
        self.assertEqual(found & {*map(id, held)}, {id(of_program)})

    @unittest.skipUnless(torch and torch.cuda.is_available(), "there is no GPU")
    def test_a_net_on_a_gpu_trains_and_repeats_its_bits(self):
        self.write("trainer.py", NET.replace(".to(torch.bfloat16)", "").replace(".float()", "") + SERVE.replace("test)", "test, device='cuda')"))
        for algorithm in ("fedavg", "scaffold"):
            for name, more in (("fork", ()), ("again", ("--workers", "1")), ("each", ("--trainer-start", "each"))):
                self.run_with(f"{algorithm}-{name}", "--algorithm", algorithm, *more)
                self.assertEqual(self.model(f"{algorithm}-{name}"), self.model(f"{algorithm}-fork"))


if __name__ == "__main__":
    if torch is None:
        print("skipped: there is no PyTorch")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
