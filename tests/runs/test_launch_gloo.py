"""PyTorch's process groups in the ranks of `sounder launch`.

Usage: test_launch_gloo.py PATH_OF_SOUNDER [unittest arguments]
"""
import subprocess, sys, unittest

from launches import LaunchTest, free_port, lines_of_ranks

GLOO = """
import os, signal, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10 ** dist.get_rank()])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "sum", total.item(), flush=True)
dist.barrier() # all have printed
if os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ.get("FAIL_AT"):
    if dist.get_rank() == 1:
        os._exit(3)
    while True: # until the launcher ends it: no rank fails of the loss of another before
        signal.pause()
dist.barrier()
"""


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True).returncode == 0


class Gloo(LaunchTest):
    @classmethod
    def setUpClass(cls):
        if not has_torch():
            print("skipped: no PyTorch for", sys.executable)
            sys.exit(77)

    def test_the_ranks_of_a_script_sum_over_gloo_also_after_a_restart(self):
        program = self.write("program.py", GLOO)
        arguments = ["-n", "2", "--standalone", "--max-restarts", "1", "--grace-seconds", "5"]
        out, err = self.launch(*arguments, program, PYTHON_EXEC=sys.executable, FAIL_AT="0")
        for rank in range(2):
            expected = f"rank {rank} of 2 local {rank} sum 11"
            self.assertEqual(lines_of_ranks(out)[rank], [expected, expected])
        self.assertIn("exited with code 3", err)
        self.assertIn("sounder: warning: restart 1 of 1\n", err)

    def test_two_launches_on_one_host_are_two_nodes(self):
        program = self.write("program.py", GLOO)
        port = free_port()
        nodes = [
            self.start(
                *f"-n 2 --nnodes 2 --node-rank {node} --master-addr 127.0.0.1 --master-port {port}".split(),
                *[sys.executable, program],
            )
            for node in (0, 1)
        ]
        for node, process in enumerate(nodes):
            out, _ = self.finish(process)
            expected = {2 * node + i: [f"rank {2 * node + i} of 4 local {i} sum 1111"] for i in (0, 1)}
            self.assertEqual(lines_of_ranks(out), expected)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
