"""Whole runs on several nodes with a card each: of the program on the emulated card, under mpirun on this host.

Usage: test_cuda_nodes.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
Exits with 77 where there is no mpirun or sounder was built without MPI.
"""
import os, random, signal, sys, unittest

from runs import SLOWED, SOUNDER
from test_nodes import ENVIRONMENT, NodesCase, can_run

TINY = ["--data", "synthetic:1x8x8:160:60", "--model", "conv 3 3; pool 2; relu; dropout 0.2; linear 10", "--batch-size", "16",
        "--clients", "8", "--rounds", "2"]
CARD = [*TINY, "--device", "cuda"]


class CudaNodes(NodesCase):
    def setUp(self):
        super().setUp()
        ENVIRONMENT["CUDA_MPS_PIPE_DIRECTORY"] = self.path("no-mps")

    def start(self, *arguments, **more):
        return super().start(*arguments, **{"env": ENVIRONMENT, **more})

    def test_the_same_bits_for_any_number_of_nodes_and_workers(self):
        cases = {"all": ["--momentum", "0.8"],
                 "sampled": ["--rounds", "3", "--clients", "12", "--clients-per-round", "5", "--partition", "dirichlet", "--alpha",
                             "0.3", "--batch-size", "7"]}
        for name, options in cases.items():
            with self.subTest(name):
                self.train(*CARD, *options, "--workers", "4", "--out", f"{name}-1")
                for nodes, workers in ((2, 2), (4, 1)):
                    run = f"{name}-{nodes}"
                    self.train_nodes(nodes, *CARD, *options, "--workers", str(workers), "--out", run)
                    self.assertEqual(self.model(run), self.model(f"{name}-1"), f"{nodes} nodes of {workers}")
                    for one, several in zip(self.rounds(f"{name}-1"), self.rounds(run)):
                        for key in ("train_loss", "test_loss", "test_accuracy", "samples"):
                            self.assertEqual(one[key], several[key], key)

    def test_the_same_bits_while_workers_of_all_nodes_are_killed(self):
        options = [*CARD, "--local-epochs", "20", "--rounds", "4"]
        self.train(*options, "--workers", "2", "--out", "calm")
        for attempt in range(10):  # one that is over before a worker was seen says nothing
            storm = f"storm-{attempt}"
            process = self.start_nodes(2, *options, "--workers", "2", "--on-worker-death", "respawn", "--out", storm)
            kills = self.kill_workers_of_nodes(process, 0.3 * SLOWED, random.Random(7), most=4)
            self.finish(process)
            self.assertEqual(self.model("calm"), self.model(storm))
            if kills > 0:
                break
        self.assertGreater(kills, 0)

    def test_a_lost_node_ends_the_run_with_a_sentence_and_it_resumes_with_other_numbers_of_nodes(self):
        options = [*CARD, "--local-epochs", "4"]
        process = self.start_nodes(2, *options, "--rounds", "500", "--workers", "1", "--out", "torn")
        err = self.lose(process, "torn", signal.SIGKILL)
        self.assertRegex(err, r"sounder: node \d: error: node 1 \(process \d+ on \S+\) is lost: it has died; --resume")
        done = len(self.rounds("torn"))
        self.train_nodes(3, "--resume", "torn", "--workers", "1", "--rounds", str(done + 1))
        self.train("--resume", "torn", "--workers", "2", "--rounds", str(done + 2))
        self.train(*options, "--rounds", str(done + 2), "--workers", "1", "--out", "calm")
        self.assertEqual(self.model("calm"), self.model("torn"))

    def test_nodes_whose_cards_cannot_serve_all_take_the_cpu(self):
        self.train(*TINY, "--device", "cpu", "--out", "cpu")
        for broken in ("IPC=off", "MODE=exclusive", f"MEMORY_BYTES={250 << 20}"):
            process = self.start_nodes(2, *TINY, "--workers", "1", "--out", broken, wrapper=("env", "SOUNDER_EMULATED_" + broken))
            out, _ = self.finish(process)
            self.assertEqual(out.count("device: the CPU, for "), 1, out)
            self.assertEqual(out.count("Sounder "), 1, out)
            self.assertEqual(self.model("cpu"), self.model(broken))

    def test_lockstep_over_nodes_is_for_their_cpus(self):
        options = [*TINY, "--algorithm", "ssgd", "--workers", "1"]
        err = self.refused(2, *options, "--device", "cuda", "--out", "run")
        self.assertIn("schedule lockstep of --algorithm on several nodes is for the CPU alone; use --device cpu", err)
        self.assertFalse(os.path.exists(self.path("run")))
        out, _ = self.train_nodes(2, *options, "--device", "auto", "--gpu", "0", "--out", "run")
        self.assertRegex(out, "device: the CPU, for schedule lockstep of --algorithm on several nodes is for the CPU alone\n")
        self.train(*options, "--device", "cpu", "--out", "cpu")
        self.assertEqual(self.model("cpu"), self.model("run"))

    def test_nodes_with_and_without_a_card_are_refused(self):
        arguments = ["-np", "1", SOUNDER, "train", *TINY, "--device", "auto", "--workers", "1", "--out", "run"]
        process = self.start_command(["mpirun", *arguments, ":", "-x", "SOUNDER_EMULATED_DEVICES=0", *arguments])
        _, err = process.communicate(timeout=60 * SLOWED)
        self.assertRegex(err, r"sounder: node \d: error: node 1 computes with .* and node 0 with ")
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    if can_run():
        print(f"skipped: {can_run()}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
