"""Runs without some clients (--without): the same run in which these never arrive, by every algorithm that has a name.

Usage: test_without.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import os, unittest

import test_zoo
from runs import NOISE_KEY, SANITIZED, SOUNDER, RunCase, merged

ON_CARD = "emulated" in os.path.basename(SOUNDER)
TASK = ["--data", "synthetic:1x8x8:240:60", "--model", "conv 3 3; groupnorm 3; pool 2; relu; linear 10", "--batch-size", "10", "--quiet", "--tensorboard=false", "--lr", "0.05",
        "--seed", "3", "--device", "cuda" if ON_CARD else "cpu"]
SOME = [*TASK, "--clients", "8", "--clients-per-round", "2", "--rounds", "6"]
REFUSED = {"fltrust": "its server trains on samples of all clients", **dict.fromkeys(("hogwild", "ssgd"), "only used with an --algorithm with rounds"),
           **dict.fromkeys(("flexlora", "fedex-lora"), "no tensor of the net has lora_A in its name"),
           **dict.fromkeys(("async-easgd", "async-eamsgd"), "with schedule buffered its clients all arrive; leave the option out")}
# Rules that need more updates than two, or all clients in each round.
FEWEST = dict.fromkeys(("krum", "multi-krum", "bulyan", "trimmed", "afl", "dp-adaptive"), "8")
REPLICAS = ("easgd", "eamsgd")  # a replica's first gift is nothing

COUNTING = ("scaffold", "feddyn", "easgd", "eamsgd", "dp-fedavg", "dp-adaptive", "dp-ftrl")  # by the clients that can arrive, from round 1 on
UNMOVED = ("local-only", "krum")  # whose clients send nothing; which has chosen others


def is_private(algorithm):
    return algorithm.startswith(("dp-", "local-dp"))


class Without(RunCase):
    def one(self, run, *options, code=0):
        return self.train(*merged(*SOME, *options), "--out", run, code=code)[1]

    def trained(self, run):
        """(round, client) of all that trained."""
        return [(entry["round"], entry["client"]) for entry in self.metrics(run) if entry["type"] == "client"]

    def options(self, algorithm):
        more = test_zoo.MORE.get(algorithm, [])
        fewest = ["--clients-per-round", FEWEST[algorithm]] if algorithm in FEWEST else []
        momentum = [] if algorithm.startswith(test_zoo.STILL) else ["--momentum", "0.5"]
        noise = ["--noise-key", NOISE_KEY] if is_private(algorithm) else []  # else no two runs share their noise
        return [*momentum, "--algorithm", test_zoo.NUMBERS.get(algorithm, algorithm), *more, *fewest, *noise]

    def check(self, name, options, absent, whole, part):
        """All bits are those of the run with them up to the first round in which one of them trains, if the rule counts no clients; then they differ."""
        self.one(whole, *options)
        self.one(part, *options, "--without", ",".join(map(str, absent)))
        first = min((number for number, client in self.trained(whole) if client in absent), default=None)
        self.assertIsNotNone(first, f"{name}: none of {absent} was drawn; take others")
        bits, bits_without = self.bits(whole), self.bits(part)
        if name not in COUNTING:
            self.assertEqual(bits_without[:first - 1], bits[:first - 1])
        self.assertFalse([client for _, client in self.trained(part) if client in absent])
        if name not in UNMOVED:
            self.assertNotEqual(bits_without, bits)
        if name not in test_zoo.LATE:
            self.assertEqual([pair for pair in self.trained(whole) if pair[1] not in absent], self.trained(part))
        if name not in (*test_zoo.LATE, *REPLICAS, *UNMOVED):
            self.assertNotEqual(bits_without[first - 1], bits[first - 1])

    def test_all_bits_are_those_of_the_run_with_them_until_one_of_them_is_drawn_by_every_algorithm(self):
        for number, algorithm in enumerate(test_zoo.zoo()[::6 if SANITIZED else 3 if ON_CARD else 1]):
            with self.subTest(algorithm):
                options = self.options(algorithm)
                if ON_CARD and (algorithm, "card") in test_zoo.REASONS:
                    continue  # for the CPU alone, as test_zoo says
                if algorithm in REFUSED:
                    words = merged(*SOME, *options, "--without", "1,4", *(["--clients-per-round", "8"] if algorithm.startswith("async") else []))
                    err = self.train(*words, "--out", f"r{number}", code=64)[1]
                    self.assertIn(REFUSED[algorithm], err)
                    continue
                self.check(algorithm, options, (1, 4), f"w{number}", f"p{number}")

    def test_draws_of_every_sampling_stay_the_same_and_ranges_name_clients(self):
        for number, sampling in enumerate(("poisson", "by-size", "cyclic", "available probability=0.7")):
            with self.subTest(sampling):
                self.check(sampling, ["--sampling", sampling, "--clients-per-round", "4", "--drop-out", "0.2"], (2, 3, 4), f"w{number}", f"p{number}")
        self.one("list", "--without", "2,3,4")
        self.one("range", "--without", "2-4")
        self.assertEqual(self.bits("list"), self.bits("range"))
        self.assertEqual(sum(entry["clients_drawn"] for entry in self.rounds("list")), len(self.trained("list")))  # their places are empty
        self.assertEqual(sum(entry["down_bytes"] for entry in self.rounds("list")) / self.rounds("list")[0]["down_bytes"],
                         len(self.trained("list")) / self.rounds("list")[0]["clients_drawn"])

    def test_a_resumed_run_goes_on_without_them(self):
        self.one("whole", "--without", "1,4-5")
        self.one("part", "--without", "1,4-5", "--rounds", "3")
        self.train("--resume", "part", "--rounds", "6")
        self.assertEqual(self.model("part"), self.model("whole"))
        err = self.train("--resume", "part", "--rounds", "7", "--without", "1", code=64)[1]
        self.assertIn("the run in part has 1,4-5", err)

    def test_without_all_clients_the_model_stays_as_it_began(self):
        self.assertEqual(self.one("none", "--without", "all"), "")
        self.assertEqual(len(set(self.bits("none"))), 1)
        self.assertIn("would wait for ever: 0 clients can arrive, and it needs 1; leave more in", self.one("late", "--without", "all", "--algorithm", "fedasync", "--device", "cpu", code=64))

    @unittest.skipIf(ON_CARD, "refused before a device is found")
    def test_what_is_no_client_and_what_says_itself_who_arrives_is_refused(self):
        for options, sentence in ((["--without", "0-7"], "--without 0-7: those are all 8 clients that could train; leave one in, or give --without all"),
                                  (["--without", "2-7", "--new-clients", "0-1"], "--without 2-7: those are all 6 clients that could train"),
                                  (["--without", "8"], "--without 8: needs clients from 0 to 7: 3,7 or 3-7"),
                                  (["--without", "5-3"], "--without 5-3: needs clients from 0 to 7"),
                                  (["--without", "1,"], "--without 1,: needs clients from 0 to 7"),
                                  (["--without", "1", "--algorithm", "fedbuff", "--clock", "real"], "take --clock simulated"),
                                  (["--without", "0-5", "--algorithm", "fedbuff K=4 twice=no", "--clients-per-round", "6"],
                                   "2 clients can arrive, and it needs 4; leave more in, lower K, or take twice=yes"),
                                  (["--drop-out", "1", "--algorithm", "fedbuff"], "--drop-out 1: no client would arrive, and schedule buffered waits for one"),
                                  (["--without", "1", "--algorithm", "fltrust"], "its server trains on samples of all clients"),
                                  (["--without", "1", "--drift", "classes"], "take labels or pixels")):
            with self.subTest(options):
                self.assertIn(sentence, self.one("refused", *options, code=64))


if __name__ == "__main__":
    unittest.main(argv=[__file__, *__import__("sys").argv[2:]])
