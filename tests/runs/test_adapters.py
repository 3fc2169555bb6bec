"""Low-rank adapters: means of products beside NumPy, and PEFT's folders in and out.

Usage: test_adapters.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import importlib.util, os, sys, unittest

from trainers import PACKAGE, TrainerCase, np

sys.path.insert(0, PACKAGE)
from sounder.safetensors import read_safetensors, write_safetensors

RANK, IN, OUT, CLIENTS = 3, 8, 6, 4
A, B, BASE = "x.lora_A.default.weight", "x.lora_B.default.weight", "x.base_layer.weight"

# Clients move their factors by random numbers of their own; one has a lower rank.
DRAWS = '''
def moved(weights, client, round):
    rng = np.random.default_rng([round, client])
    new = {name: weights[name].astype(np.float64) for name in (A, B)}
    rank = RANK - (client == 1)
    for name in (A, B):
        step = rng.normal(0, 0.3, new[name].shape)
        (step[rank:] if name == A else step[:, rank:])[...] = 0
        new[name] += step
    return {name: value.astype(np.float32) for name, value in new.items()}
'''
TRAINER = f'''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
RANK, A, B, BASE = {RANK}, "{A}", "{B}", "{BASE}"
{DRAWS}
rng = np.random.default_rng(5)
net = {{BASE: rng.normal(0, 1, SHAPE), A: rng.normal(0, 0.5, ({RANK}, {IN})), B: np.zeros(({OUT}, {RANK})), "head": np.zeros(2)}}

def train(net, turn):
    turn.rank(RANK - (turn.client == 1))
    for name, value in moved(net, turn.client, turn.round).items():
        net[name] = value
    net["head"] = net["head"] + np.float32(turn.client)
    turn.add(0.0, turn.samples)

def test(net, turn):
    turn.add(float((net[B] @ net[A]).sum()), turn.samples)

sounder.serve({{name: value.astype(np.float32) for name, value in net.items()}}, train, test, exchange=EXCHANGE)
'''
LORA = '''
import sys
sys.path.insert(0, PACKAGE)
import peft, sounder, torch
from torch import nn

def base():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))

def make():
    return peft.get_peft_model(base(), peft.LoraConfig(r=2, lora_alpha=4, target_modules=["0"], modules_to_save=["2"]))

def look(net, batch):
    x, y = batch
    out = net(x.flatten(1))
    return dict(loss=nn.functional.cross_entropy(out, y), hits=(out.argmax(1) == y).sum())

sounder.serve(make, look, optimizer=torch.optim.AdamW)
'''
exec(DRAWS)


class Adapters(TrainerCase):
    def setUp(self):
        super().setUp()
        self.write_net("adapters.py")

    def write_net(self, name, shape=(OUT, IN), exchange=None):
        self.write(name, TRAINER.replace("SHAPE", repr(shape)).replace("EXCHANGE", repr(exchange)))

    def run_adapters(self, run, algorithm, *arguments, script="adapters.py", code=0):
        return self.train("--trainer", f"{sys.executable} {script}", "--data", "synthetic:1x1x2:100:10", "--clients", str(CLIENTS), "--partition", "dirichlet", "--alpha", "0.5", "--rounds", "2",
                          "--algorithm", algorithm, "--quiet", "--out", run, *arguments, code=code)

    def by_hand(self, run, how, scale=2.0):
        """The weights after the run's rounds, in doubles; the factors of svd are only known by their product."""
        rng = np.random.default_rng(5)
        weights = {BASE: rng.normal(0, 1, (OUT, IN)).astype(np.float32), A: rng.normal(0, 0.5, (RANK, IN)).astype(np.float32), B: np.zeros((OUT, RANK), np.float32)}
        clients, sizes = zip(*[(row["client"], row["samples"]) for row in self.clients(run)])
        shares = np.array(sizes) / sum(sizes)
        for number in (1, 2):
            begun = [{name: value.copy() for name, value in weights.items()} for _ in clients]
            begun[1][A][RANK - 1:], begun[1][B][:, RANK - 1:] = 0, 0
            own = [moved(weights_of, client, number) for weights_of, client in zip(begun, clients)]
            product = sum(share * one[B].astype(np.float64) @ one[A] for share, one in zip(shares, own))
            mean = {name: sum(share * one[name].astype(np.float64) for share, one in zip(shares, own)) for name in (A, B)}
            if how == "exact":
                weights[BASE] = (weights[BASE] + scale * (product - mean[B] @ mean[A])).astype(np.float32)
            if how == "svd":
                u, s, v = np.linalg.svd(product)
                signs = np.sign(v[np.arange(RANK), np.abs(v[:RANK]).argmax(1)])
                mean = {A: signs[:, None] * v[:RANK], B: signs * u[:, :RANK] * s[:RANK]}
            weights.update({name: value.astype(np.float32) for name, value in mean.items()})
        return weights, product

    def clients(self, run):
        rows = [row for row in self.metrics(run) if row["type"] == "client" and row["round"] == 1]
        return sorted(rows, key=lambda row: row["client"])

    def compare(self, run, how):
        told, _ = read_safetensors(self.path(run, "model.safetensors"))
        weights, product = self.by_hand(run, how)
        for name in (A, B, BASE):
            np.testing.assert_allclose(told[name], weights[name], rtol=0, atol=2e-6, err_msg=f"{how} {name}")
        return told, product

    def test_names_of_ffa_lora_join_those_of_freeze_that_end_like_them(self):
        self.train("--data", "synthetic:1x2x2:40:10", "--model", "linear 3; relu; linear classes", "--clients", "2", "--rounds", "1", "--algorithm", "ffa-lora names=*bias",
                   "--freeze", "fc1.*bias", "--out", "ends")
        self.train("--resume", "ends", "--rounds", "2")
        with open(self.path("ends", "config.yaml")) as file:
            self.assertIn("fc1.*bias,*bias", [line.split(": ")[1].strip().strip('"') for line in file if line.startswith("freeze: ")])

    def test_an_absent_client_is_in_no_mean_of_products(self):
        for how, text in (("exact", "combine adapters how=exact scale=2"), ("svd", "combine adapters how=svd")):
            self.run_adapters(how, text, "--without", "3", "--workers", "2")
            self.compare(how, how)

    def test_means_of_products_are_those_of_numpy_for_any_number_of_workers(self):
        for how, text in (("mean", "combine adapters"), ("exact", "combine adapters how=exact scale=2"), ("svd", "combine adapters how=svd")):
            with self.subTest(how=how):
                self.run_adapters(how, text, "--workers", "1")
                told, product = self.compare(how, how)
                if how == "exact":
                    first = np.random.default_rng(5).normal(0, 1, (OUT, IN))
                    self.assertGreater(np.abs(told[BASE] - first).max(), 0.01)
                if how == "svd":  # by what no factors of this rank can reach
                    least = np.sqrt((np.linalg.svd(product, compute_uv=False)[RANK:] ** 2).sum())
                    self.assertAlmostEqual(np.linalg.norm(told[B].astype(np.float64) @ told[A] - product), least, 5)
        for how, text in (("exact", "fedex-lora scale=2"), ("svd", "flexlora")):  # by their names, in two parts
            self.run_adapters(f"{how}-1", text, "--rounds", "1", "--workers", "3")
            self.train("--resume", f"{how}-1", "--rounds", "2", "--workers", "2", "--quiet")
            self.assertEqual(self.model(how), self.model(f"{how}-1"))
        self.run_adapters("plain", "fedavg")
        self.assertEqual(self.model("plain"), self.model("mean"))

    def test_one_factor_stays_as_it_was_or_with_its_client(self):
        self.run_adapters("ffa", "ffa-lora", "--client-weights", "1,1,1,1", "--rounds", "1")
        self.run_adapters("fedsa", "fedsa-lora", "--client-weights", "1,1,1,1", "--rounds", "1")
        self.run_adapters("freeze", "fedavg", "--freeze", "*lora_A*", "--client-weights", "1,1,1,1", "--rounds", "1")
        ffa, fedsa = (read_safetensors(self.path(run, "model.safetensors"))[0] for run in ("ffa", "fedsa"))
        rng = np.random.default_rng(5)
        first = {BASE: rng.normal(0, 1, (OUT, IN)), A: rng.normal(0, 0.5, (RANK, IN)), B: np.zeros((OUT, RANK))}
        begun = [{name: value.astype(np.float32) for name, value in first.items()} for _ in range(CLIENTS)]
        begun[1][A][RANK - 1:] = 0
        own = [moved(begun[client], client, 1) for client in range(CLIENTS)]
        mean = {name: np.mean([one[name].astype(np.float64) for one in own], axis=0) for name in (A, B)}
        np.testing.assert_allclose(ffa[B], mean[B], atol=1e-6)
        np.testing.assert_array_equal(ffa[A], first[A].astype(np.float32))
        np.testing.assert_allclose(fedsa[A], mean[A], atol=1e-6)
        np.testing.assert_array_equal(fedsa[B], 0)
        self.assertEqual(self.model("ffa"), self.model("freeze"))
        self.train("--resume", "ffa", "--rounds", "2", "--quiet")
        self.assertEqual(self.rounds("ffa")[-1]["round"], 2)

    def test_a_base_that_is_stored_the_other_way_round_gets_the_same(self):
        self.write_net("turned.py", (IN, OUT))
        for script in ("turned.py", "adapters.py"):
            self.run_adapters(script[:-3], "combine adapters how=exact scale=2", "--rounds", "1", script=script)
        turned, straight = (read_safetensors(self.path(run, "model.safetensors"))[0] for run in ("turned", "adapters"))
        first = np.random.default_rng(5).normal(0, 1, OUT * IN).astype(np.float32)
        np.testing.assert_array_equal(turned[A], straight[A])
        np.testing.assert_allclose(turned[BASE] - first.reshape(IN, OUT), (straight[BASE] - first.reshape(OUT, IN)).T, atol=1e-6)

    def test_a_folder_of_peft_begins_a_run(self):
        os.mkdir(self.path("adapter"))
        rng = np.random.default_rng(1)
        given = {A: rng.normal(0, 1, (RANK, IN)), B: rng.normal(0, 1, (OUT, RANK)), BASE: rng.normal(0, 1, (OUT, IN)), "head": np.arange(2.0)}
        given = {name: value.astype(np.float32) for name, value in given.items()}
        write_safetensors(self.path("adapter", "adapter_model.safetensors"), [(name.replace(".default", ""), value) for name, value in given.items()])
        self.run_adapters("begun", "personal tensors names=*", "--rounds", "1", "--init", "adapter")  # nothing reaches the server
        told, _ = read_safetensors(self.path("begun", "model.safetensors"))
        for name, value in given.items():
            np.testing.assert_array_equal(told[name], value)
        self.run_adapters("next", "personal tensors names=*", "--rounds", "1", "--init", "begun")  # a run's folder
        self.assertEqual(self.model("begun"), self.model("next"))
        os.mkdir(self.path("empty"))
        self.assertIn("--init empty: the folder has neither adapter_model.safetensors", self.run_adapters("no", "fedavg", "--init", "empty", code=66)[1])

    @unittest.skipUnless(importlib.util.find_spec("peft"), "there is no PEFT")
    def test_an_exported_adapter_loads_in_peft_with_equal_logits_and_begins_a_run(self):
        import torch
        from peft import PeftModel
        self.write("lora.py", LORA)
        names = {"torch": torch, "peft": __import__("peft"), "nn": torch.nn}
        exec(LORA[LORA.index("def base"):LORA.index("def look")], names)
        self.train("--trainer", f"{sys.executable} lora.py", "--data", "synthetic:1x1x8:60:20", "--clients", "3", "--rounds", "2", "--lr", "0.1", "--quiet", "--out", "lora")
        self.assertEqual(self.call("export", "lora", "--peft", "adapter")[0], "adapter: adapter\n")
        self.assertIn("has files already", self.call("export", "lora", "--peft", "adapter", code=64)[1])
        trained, x = read_safetensors(self.path("lora", "model.safetensors"))[0], torch.linspace(-1, 1, 40).reshape(5, 8)
        net = names["make"]()
        for name, tensor in net.named_parameters():
            if name in trained:
                tensor.data.copy_(torch.from_numpy(trained[name].copy()))
        loaded = PeftModel.from_pretrained(names["base"](), self.path("adapter"))
        self.assertTrue(torch.equal(net(x), loaded(x)))
        self.assertGreater((net(x) - names["base"]()(x)).abs().max(), 1e-3)
        self.train("--trainer", f"{sys.executable} lora.py", "--data", "synthetic:1x1x8:60:20", "--clients", "3", "--rounds", "1", "--algorithm", "personal tensors names=*", "--init", "adapter",
                   "--quiet", "--out", "again")
        self.assertEqual({name: value.tobytes() for name, value in read_safetensors(self.path("again", "model.safetensors"))[0].items()},
                         {name: value.tobytes() for name, value in trained.items()})
        self.train("--data", "synthetic:1x1x8:60:20", "--rounds", "1", "--model", "softmax", "--quiet", "--out", "engine")
        self.assertIn("was trained by the engine", self.call("export", "engine", "--peft", "no", code=64)[1])

    def test_what_has_no_pairs_or_no_base_is_refused(self):
        self.write_net("bare.py", exchange=["*lora_*"])
        self.write("square.py", TRAINER.replace("SHAPE", f"({IN}, {IN})").replace(f"({OUT}, {RANK})", f"({IN}, {RANK})").replace("EXCHANGE", "None"))
        self.write_net("half.py", exchange=["*lora_A*"])
        for script, algorithm, sentence in (("adapters.py", "combine adapters how=exact", "by what is B A multiplied in the net? Write scale=2"),
                                            ("bare.py", "combine adapters how=exact scale=2", f"{BASE} does not travel"),
                                            ("square.py", "combine adapters how=exact scale=2", f"{BASE} is square"),
                                            ("half.py", "combine adapters how=svd", f"{A} has no {B} beside it"),
                                            ("trainer.py", "combine adapters", "no tensor of the net has lora_A in its name"),
                                            ("adapters.py", "combine adapters how=svd; personal tensors names=*lora_B*", f"{B} does not reach the server"),
                                            ("adapters.py", "combine adapters how=svd; server momentum", "its products are exact where the server takes the mean as it is"),
                                            ("adapters.py", "combine adapters weights=told", "it weighs products of factors before the sum")):
            with self.subTest(script=script, algorithm=algorithm):
                self.assertIn(sentence, self.run_adapters("refused", algorithm, script=script, code=64)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
