"""What runs on the emulated card (cards.py) copy between the host and the GPU, and how often they wait for it.

Usage: test_cuda_runs_copies.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import collections, sys, unittest

from cards import CARD, DATA, MODEL, CardCase

LARGE = ["--model", "conv 3 3; relu; linear 30; linear 10"]  # than all that a worker needs beside models

class Copies(CardCase):
    def copies(self, run, *options, **settings):
        """Trains; returns how often each (process, direction, bytes, memory) was copied."""
        self.train(*CARD, *LARGE, *options, "--out", run, env=self.emulated(COPIES=self.path(run + ".copies"), **settings))
        with open(self.path(run + ".copies")) as file:
            return collections.Counter((process, direction, int(number), memory) for process, direction, number, memory in map(str.split, file))

    def model_bytes(self, run):
        return 4 * sum(len(values) for _, values in self.tensors(run).values())

    def test_a_client_that_clips_its_update_moves_no_model_through_the_host(self):
        for number, algorithm in enumerate(("dp-fedavg norm=0.01", "dp-adaptive norm=0.01 count-noise=2", "send clip 0.01")):
            for workers in "1", "2":
                run = f"{number}-{workers}"
                seen = self.copies(run, "--algorithm", algorithm, "--workers", workers)
                large = {copy for copy in seen if copy[0] != "parent" and copy[2] >= self.model_bytes(run)}
                self.assertEqual(large, set(), algorithm)
            self.assertEqual(self.model(f"{number}-1"), self.model(f"{number}-2"))
            self.assertGreater(self.rounds(run)[0]["updates_clipped"], 0)

    def test_of_clipping_clients_only_those_that_attack_move_their_models(self):
        seen = self.copies("run", "--algorithm", "dp-fedavg norm=0.1", "--attack", "sign-flip 2", "--attackers", "1", "--workers", "1", "--rounds", "1")
        for direction in "to-host", "to-gpu":
            self.assertEqual(seen["0", direction, self.model_bytes("run"), "pageable"], 1, seen)

    def test_what_clients_keep_is_copied_to_pinned_memory_and_written_from_there(self):
        """A copy into the mapped file would fault on each of its pages."""
        momentum, keep = ["--momentum", "0"], ["--client-optimizer-state", "keep"]
        for number, words in enumerate((["scaffold", *momentum], ["feddyn", *momentum], ["optimizer adam", "--lr", "0.01", *keep], ["lg-fedavg"])):
            run, plain = f"run-{number}", f"plain-{number}"
            seen = self.copies(run, "--algorithm", *words, "--workers", "1")
            rows = {copy[2:] for copy in seen if copy[:2] == ("0", "to-host") and copy[2] > 2048}
            self.assertEqual({memory for _, memory in rows}, {"pinned"}, words)
            refused = self.copies(plain, "--algorithm", *words, "--workers", "1", FAIL="cudaHostAlloc", FAIL_RANK=0)
            self.assertNotIn("pinned", {copy[3] for copy in refused if copy[0] == "0"})
            self.assertEqual(self.model(run), self.model(plain))

    def test_what_the_server_remembers_is_copied_to_pinned_memory(self):
        for algorithm in "fedadam", "ssgd":
            seen = self.copies(algorithm, "--algorithm", algorithm, "--workers", "1")
            pinned = {copy for copy in seen if copy[0] == "parent" and copy[3] == "pinned"}
            self.assertEqual([(direction, size >= self.model_bytes(algorithm)) for _, direction, size, _ in pinned], [("to-host", True)])
            refused = self.copies(f"plain-{algorithm}", "--algorithm", algorithm, "--workers", "1", FAIL="cudaHostRegister", FAIL_RANK="parent")
            self.assertLessEqual({(*copy[:3], "pageable") for copy in pinned}, set(refused))
            self.assertEqual(self.model(algorithm), self.model(f"plain-{algorithm}"))

    def test_the_only_worker_of_ssgd_waits_for_many_steps_at_once(self):
        steps = 40  # per shard and round
        options = ["--data", DATA, "--model", MODEL, "--clients", "4", "--batch-size", "1", "--rounds", "1", "--algorithm", "ssgd", "--device", "cuda"]
        self.train(*options, "--workers", "2", "--out", "two")
        self.train(*options, "--workers", "1", "--out", "one", env=self.emulated(FAIL=f"cudaStreamSynchronize:{steps}", FAIL_RANK=0))
        self.assertEqual(self.model("one"), self.model("two"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
