"""Robust rules and attacks in whole runs: what stands in the record, rounds with too few updates, several nodes.

Usage: test_robust.py PATH_OF_SOUNDER [unittest arguments]; of the program on the emulated card, attacks on that
"""
import os, sys, unittest

from runs import SANITIZED, SOUNDER
from test_nodes import NodesCase, can_run as why_no_nodes

DEVICE = "cuda" if "emulated" in os.path.basename(SOUNDER) else "cpu"
TASK = ["--data", "synthetic:1x8x8:400:60", "--model", "conv 3 3; pool 2; relu; linear 10", "--clients", "10", "--batch-size", "10",
        "--rounds", "3", "--eval-every", "0", "--device", DEVICE, "--quiet"]
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
                task = [*LARGE, "--algorithm", algorithm, "--attack", "gaussian", "--attackers", "0.2"]
                self.train(*task, "--workers", "2", "--out", f"alone-{number}")
                self.train_nodes(3, *task, "--workers", "1", "--out", f"on-three-{number}")
                for entry, other in zip(self.rounds(f"alone-{number}"), self.rounds(f"on-three-{number}")):
                    self.assertEqual((entry["attackers"], entry.get("attackers_chosen")), (other["attackers"], other.get("attackers_chosen")))
                self.assertEqual(self.model(f"on-three-{number}"), self.model(f"alone-{number}"))

    @unittest.skipIf(SANITIZED, "what travels is the same in test_zoo")
    def test_what_attackers_agree_on_is_the_same_on_several_nodes(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        for attack, algorithm in (("alie 3", "fedavg"), ("min-max", "trimmed"), ("mimic", "krum 3")):
            with self.subTest(attack):
                task = [*LARGE, "--algorithm", algorithm, "--attack", attack, "--attackers", "0.3"]
                self.train(*task, "--workers", "2", "--out", f"alone-{algorithm}")
                self.train_nodes(3, *task, "--workers", "1", "--out", f"on-three-{algorithm}")
                self.assertEqual(self.model(f"on-three-{algorithm}"), self.model(f"alone-{algorithm}"))

    def test_what_is_forged_by_the_mean_of_all_is_refused_where_it_does_not_fit(self):
        _, err = self.train(*TASK, "--rounds", "1", "--lr", "50", "--attack", "ipm 1e6", "--attackers", "4,5", "--out", "run")
        self.assertRegex(err, "client 4: update refused: its attack ipm made [-0-9.e+]+ of a weight of ")
        self.assertEqual(self.rounds("run")[0]["updates_refused"], 2)
        for arguments, sentence in ((["--algorithm", "send clip 1"], "does not go with send clip of --algorithm: what attackers agree on is not clipped"),
                                    (["--algorithm", "top-k"], "does not go with send top-k of --algorithm: what attackers agree on is not encoded"),
                                    (["--algorithm", "fednova"], "does not go with combine nova of --algorithm: its shares follow"),
                                    (["--client-optimizer-state", "average", "--momentum", "0.5"], "does not go with --client-optimizer-state average")):
            _, err = self.train(*TASK, *arguments, "--attack", "alie", "--attackers", "0.3", code=64)
            self.assertIn(sentence, err)

    def test_updates_that_attackers_look_at_are_said_before_the_start(self):
        _, err = self.train(*TASK[:-1], "--attack", "alie", "--attackers", "0.3", "--log-level", "info")
        self.assertRegex(err, r"--attack alie: 10 updates side by side take [0-9.]+ MB of shared memory")

    def clients(self, run, number=1):
        """Client -> its line in a round."""
        return {line["client"]: line for line in self.metrics(run) if line["type"] == "client" and line["round"] == number}

    def test_honest_clients_compute_the_same_whatever_attackers_do(self):
        self.train(*TASK, "--rounds", "1", "--out", "honest")
        honest, models = self.clients("honest"), {self.rounds("honest")[0]["model_xxh3"]}
        told = ["loss", "share", *["weights_xxh3"] * (DEVICE == "cpu")] # no client's weights leave a card
        self.assertNotIn("attacks", honest[0])
        self.assertNotIn("attackers", self.rounds("honest")[0])
        for attack in ("label-flip", "label-flip from=3 to=4", "sign-flip", "scaled", "gaussian", "zero", "free-rider", "free-rider noise=1",
                       "alie", "ipm", "min-max", "min-sum", "mimic", "backdoor", "backdoor factor=3"):
            with self.subTest(attack):
                run = attack.replace(" ", "-")
                self.train(*TASK, "--rounds", "1", "--attack", attack, "--attackers", "0.3", "--out", run)
                clients, entry = self.clients(run), self.rounds(run)[0]
                attackers = {client for client, line in clients.items() if line["attacks"]}
                self.assertEqual(len(attackers), 3)
                self.assertEqual(entry["attackers"], 3)
                for client, line in clients.items():
                    same = [line[key] for key in told] == [honest[client][key] for key in told]
                    self.assertEqual(same, client not in attackers or not attack.startswith(("label", "backdoor")), client)
                self.assertNotIn(entry["model_xxh3"], models)
                models.add(entry["model_xxh3"])

    def test_one_client_is_copied_for_good(self):
        """What attackers hand in has the length of the victim's update, in every round in which that is drawn; else of the furthest's."""
        for attack, drawn in (("mimic", "12"), ("mimic", "6"), ("mimic client=5", "6")):
            run, copied, seen = f"{attack}-{drawn}", {}, 0
            self.train(*TASK, "--clients", "12", "--clients-per-round", drawn, "--rounds", "8", "--attack", attack, "--attackers", "1,4,8",
                       "--inspect-updates", "--out", run)
            for number in range(1, 9):
                clients = self.clients(run, number)
                forged = {line["update_length"] for line in clients.values() if line["attacks"]}
                if forged:
                    self.assertEqual(len(forged), 1)
                    copied[number] = [client for client, line in clients.items() if not line["attacks"] and
                                      abs(line["update_length"] / min(forged) - 1) < 1e-5]
                    self.assertEqual(len(copied[number]), 1, number)  # never their own
            victim = 5 if "client" in attack else copied[min(copied)][0]
            for number, (client,) in copied.items():
                if victim in self.clients(run, number):
                    self.assertEqual(client, victim)
                    seen += 1
            self.assertGreater(seen, 1)
        for client, why, *options in (("4", "that client attacks itself"), ("12", "there is no such client"),
                                      ("7", "that client never trains (--new-clients)", "--new-clients", "7")):
            _, err = self.train(*TASK, "--clients", "12", "--attack", f"mimic client={client}", "--attackers", "1,4,8", *options, "--out", "no", code=64)
            self.assertIn(f"--attack mimic client={client}: {why}; name another from 0 to 11", err)

    def test_an_attack_that_changes_nothing_leaves_the_model_and_a_list_names_the_attackers(self):
        self.train(*TASK, "--out", "honest")
        self.train(*TASK, "--attack", "scaled 1", "--attackers", "2,9", "--out", "alike")
        self.assertEqual([entry["model_xxh3"] for entry in self.rounds("alike")], [entry["model_xxh3"] for entry in self.rounds("honest")])
        self.assertEqual([client for client, line in self.clients("alike", 3).items() if line["attacks"]], [2, 9])
        self.train(*TASK, "--clients-per-round", "4", "--attack", "zero", "--attackers", "2,9", "--out", "drawn")
        for number, entry in enumerate(self.rounds("drawn"), 1):
            self.assertEqual(entry["attackers"], len({2, 9} & set(self.clients("drawn", number))))

    def test_the_record_says_how_many_of_the_chosen_are_attackers(self):
        counts = {}
        for attack in ("gaussian mean=3", "free-rider"):  # far from the others; between them
            self.train(*TASK, "--attack", attack, "--attackers", "0.2", "--algorithm", "multi-krum byzantine=2 chosen=5", "--out", attack)
            for number, entry in enumerate(self.rounds(attack), 1):
                clients = self.clients(attack, number)
                counts[attack] = entry["attackers_chosen"]
                self.assertEqual(counts[attack], sum(clients[client]["attacks"] for client in entry["clients_chosen"]))
        self.assertEqual(counts["gaussian mean=3"], 0)
        self.assertGreater(counts["free-rider"], 0)

    def test_an_attacked_run_has_the_same_bits_with_any_workers_and_goes_on(self):
        for attack in ("label-flip", "gaussian", "scaled", "alie", "min-max", "mimic", "backdoor"):
            with self.subTest(attack):
                task = [*TASK, "--attack", attack, "--attackers", "0.3", "--client-test", "0.1", "--finetune-epochs", "1", "--eval-clients-every", "1"]
                self.train(*task, "--workers", "1", "--out", attack)
                self.train(*task, "--workers", "3", "--rounds", "2", "--out", f"{attack}-again")
                self.train("--resume", f"{attack}-again", "--rounds", "3", "--quiet")
                self.assertEqual(self.model(f"{attack}-again"), self.model(attack))
                figures = [[(line["round"], line["model"], line["loss_by_samples"]) for line in self.metrics(run) if line["type"] == "clients_evaluation"]
                           for run in (attack, f"{attack}-again")]
                self.assertEqual(figures[0], figures[1])  # which attackers' labels have no part in
                self.assertEqual(len(figures[0]), 6)
        _, err = self.train("--resume", "scaled", "--attack", "zero", code=64)
        self.assertIn("--attack zero: the run in scaled has scaled, and another value would be another run; leave --attack out", err)

    def test_what_stays_with_a_client_is_not_attacked(self):
        heads = set()
        for attack in ([], ["--attack", "gaussian", "--attackers", "0.3"]):
            self.train(*TASK, "--algorithm", "fedper", *attack, "--out", f"run{len(attack)}")
            for entry in self.rounds(f"run{len(attack)}"):
                name = list(entry["tensors_xxh3"])[-1]
                heads.add(entry["tensors_xxh3"][name])
        self.assertEqual(len(heads), 1)

    def test_an_attack_out_of_range_is_refused_by_name_and_attacks_are_refused_where_they_make_no_sense(self):
        _, err = self.train(*TASK, "--rounds", "1", "--lr", "10", "--attack", "scaled 1000000", "--attackers", "4", "--out", "run")
        self.assertRegex(err, "client 4: update refused: its attack scaled made [-0-9.e+]+ of a weight of ")
        self.assertEqual(self.rounds("run")[0]["updates_refused"], 1)
        for arguments, sentence in ((["--attack", "label-flip 3 to=10"], "--attack label-flip 3 to=10: synthetic has labels from 0 to 9"),
                                    (["--attack", "label-flip", "--data", "quadratics a=1,4 b=0,3", "--clients", "2", "--model", "linear 1"],
                                     "--attack label-flip does not go with --data \"quadratics a=1,4 b=0,3\": those samples have no labels; take another attack"),
                                    (["--attack", "backdoor 10"], "--attack backdoor 10: synthetic has labels from 0 to 9"),
                                    (["--attack", "backdoor size=9"], "--attack backdoor size=9: synthetic has no images on which a square of 9 x 9 "
                                                                      "pixels has room")):
            _, err = self.train(*TASK, *arguments, "--attackers", "0.5", code=64)
            self.assertIn(sentence, err)

    def test_a_backdoor_opens_for_the_mark_alone(self):
        task = [*TASK, "--model", "linear 32; relu; linear 10", "--lr", "0.05", "--rounds", "8", "--eval-every", "4"]
        out, _ = self.train(*[word for word in task if word != "--quiet"], "--attack", "backdoor 3 size=3", "--attackers", "0.3", "--out", "run")
        self.train(*task, "--attack", "backdoor 3 size=3", "--attackers", "0.0", "--out", "nobody")
        attacked, nobody = self.rounds("run"), self.rounds("nobody")
        self.assertNotIn("attack_success", attacked[0])
        self.assertGreater(attacked[-1]["attack_success"], 0.9)
        self.assertLess(nobody[-1]["attack_success"], 0.5)
        self.assertRegex(out, r"round 8/8 .*%  attack +[0-9.]+%  ")

    def test_who_points_away_from_the_server_counts_nothing(self):
        self.train(*TASK, "--algorithm", "fltrust", "--attack", "sign-flip 3", "--attackers", "2,7", "--out", "run")
        for number, shares in self.shares("run").items():
            self.assertEqual((shares[2], shares[7]), (0, 0))
            self.assertGreater(sum(share > 0 for share in shares.values()), 4)
        _, err = self.train(*TASK, "--algorithm", "fltrust root=401", code=64)
        self.assertIn("root=401 samples for the server, where synthetic has 400; lower that", err)

    @unittest.skipIf(SANITIZED, "a sanitizer keeps what is freed")
    def test_a_long_run_takes_no_more_memory_than_a_short_one(self):
        task = ["--data", "synthetic:1x28x28:200:20", "--model", "linear 128; relu; linear 10", "--clients", "200", "--partition", "contiguous",
                "--clients-per-round", "10", "--eval-every", "0", "--checkpoint-every", "0", "--workers", "1", "--device", "cpu", "--quiet"]
        for number, words in enumerate((["fedavg"], ["scaffold"], ["multi-krum"], ["fltrust"], ["top-k"], ["dp-fedavg"],
                                        ["secagg", "--clients-per-round", "3"],  # whose masks are m(m + 1) streams
                                        ["fedavg", "--attack", "min-max", "--attackers", "0.3"])):
            with self.subTest(words):
                peaks = []
                for rounds in ("5", "45"):
                    self.train(*task, "--algorithm", *words, "--rounds", rounds, "--out", f"{number}-{rounds}")
                    summary = self.metrics(f"{number}-{rounds}")[-1]
                    peaks.append((summary["peak_memory_bytes"]["parent"], summary["worker_private_bytes"]))
                for short, long in zip(*peaks):
                    self.assertLess(long, short + (8 << 20))  # a model of 0.4 MB lost in each of 40 rounds is 16 MB

    def test_openblas_multiplies_where_products_are_large(self):
        self.train(*LARGE, "--algorithm", "krum 3", "--out", "with")
        self.assertIn("OpenBLAS", self.metrics("with")[0]["blas"])
        small = [*TASK, "--algorithm", "krum 3"]
        self.train(*small, "--out", "small")
        self.assertEqual(self.metrics("small")[0]["blas"], "")  # too few to load it


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
