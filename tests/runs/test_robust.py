"""Robust rules in whole runs: what stands in the record, rounds with too few updates, several nodes.

Usage: test_robust.py PATH_OF_SOUNDER [unittest arguments]
"""
import sys, unittest

from runs import SANITIZED
from test_nodes import NodesCase, can_run as why_no_nodes

TASK = ["--data", "synthetic:1x8x8:400:60", "--model", "conv 3 3; pool 2; relu; linear 10", "--clients", "10", "--batch-size", "10",
        "--rounds", "3", "--eval-every", "0", "--device", "cpu", "--quiet"]
LARGE = ["--data", "synthetic:1x28x28:200:60", "--model", "2nn", "--clients", "20", "--rounds", "2", "--eval-every", "0", "--device", "cpu",
         "--quiet"]  # products of so many updates are large enough for OpenBLAS


class Robust(NodesCase):
    def shares(self, run):
        """Round -> client -> share."""
        rounds = {}
        for line in self.metrics(run):
            if line["type"] == "client":
                rounds.setdefault(line["round"], {})[line["client"]] = line["share"]
        return rounds

    def test_the_clients_that_a_rule_picks_stand_in_the_record(self):
        for algorithm, count in (("krum byzantine=2", 1), ("multi-krum byzantine=2", 6), ("multi-krum chosen=3", 3), ("bulyan byzantine=1", 8)):
            with self.subTest(algorithm):
                run = algorithm.replace(" ", "-")
                self.train(*TASK, "--algorithm", algorithm, "--out", run)
                shares = self.shares(run)
                for entry in self.rounds(run):
                    chosen = entry["clients_chosen"]
                    self.assertEqual(len(chosen), count)
                    self.assertEqual(chosen, sorted(chosen))
                    self.assertEqual({client: share for client, share in shares[entry["round"]].items() if share},
                                     {client: round(1 / count, 10) for client in chosen})

    def test_a_mixed_choice_is_a_share_of_each_update_in_it(self):
        self.train(*TASK, "--algorithm", "mix buckets size=2; combine krum", "--out", "run")
        for number, shares in self.shares("run").items():
            self.assertEqual(sorted(share for share in shares.values() if share), [0.5, 0.5])
        self.train(*TASK, "--algorithm", "median", "--out", "median")
        self.assertNotIn("clients_chosen", self.rounds("median")[0])

    def test_a_round_in_which_too_few_updates_arrive_leaves_the_model(self):
        _, err = self.train(*TASK, "--drop-out", "0.5", "--rounds", "6", "--algorithm", "krum byzantine=2", "--out", "run")
        before = None
        few = 0
        for entry in self.rounds("run"):
            if 0 < entry["clients_trained"] < 7:
                few += 1
                self.assertIn(f"round {entry['round']}: the updates of {entry['clients_trained']} clients are too few for combine krum; "
                              "the model stays", err)
                self.assertEqual(entry["clients_chosen"], [])
                if before:
                    self.assertEqual(entry["model_xxh3"], before)
            else:
                self.assertNotEqual(entry["model_xxh3"], before)
            before = entry["model_xxh3"]
        self.assertGreater(few, 0)
        self.assertLess(few, 6)

    @unittest.skipIf(SANITIZED, "what travels is the same in test_zoo")
    def test_several_nodes_have_the_bits_of_one_alone(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        for number, algorithm in enumerate(("trimmed", "mix nearest 2; combine krum 3", "bulyan 4", "centered-clipping 0.05 steps=2",
                                            "mix buckets 2; combine median")):
            with self.subTest(algorithm):
                self.train(*LARGE, "--algorithm", algorithm, "--workers", "2", "--out", f"alone-{number}")
                self.train_nodes(3, *LARGE, "--algorithm", algorithm, "--workers", "1", "--out", f"on-three-{number}")
                self.assertEqual(self.model(f"on-three-{number}"), self.model(f"alone-{number}"))

    def test_openblas_multiplies_where_products_are_large(self):
        self.train(*LARGE, "--algorithm", "krum 3", "--out", "with")
        self.assertIn("OpenBLAS", self.metrics("with")[0]["blas"])
        small = [*TASK, "--algorithm", "krum 3"]
        self.train(*small, "--out", "small")
        self.assertEqual(self.metrics("small")[0]["blas"], "")  # too few to load it


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
