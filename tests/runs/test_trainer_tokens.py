"""Tokens: what trainers count is in the record, weighs updates and losses, and may end a run; DiLoCo with a PyTorch trainer.

Usage: test_trainer_tokens.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import json, math, os, sys, unittest

from runs import wait_until
from trainers import PACKAGE, TrainerCase, np, torch

# Client k counts k + 1 tokens per sample and moves its weight by k + 1; a test sample of class c has c + 1 tokens and a loss of c / 4.
COUNTS = '''
import sys
sys.path.insert(0, PACKAGE)
import numpy as np, sounder
def train(net, turn):
    net["w"] += turn.client + 1
    for x, y in turn.batches():
        turn.add(1.0, len(y), **({} if turn.options.get("none") else {"tokens": len(y) * (turn.client + 1)}))
def test(net, turn):
    for x, y in turn.batches(1):
        turn.add(float(y[0]) / 4, 1, tokens=int(y[0]) + 1)
sounder.serve({"w": np.zeros(3, np.float32)}, train, test)
'''
JOB = ["--data", "synthetic:1x8x8:160:60", "--clients", "4", "--batch-size", "10", "--partition", "iid", "--quiet"]

# A regression whose AdamW each client keeps; prints nothing, so that the loop by hand below can be the same.
DILOCO = '''
import sys
sys.path.insert(0, PACKAGE)
import time, torch, sounder
from torch.nn import functional as F
def train(net, turn):
    time.sleep(float(turn.options.get("slow", 0)))
    optimizer = turn.keep(torch.optim.AdamW(net.parameters(), lr=turn.lr))
    for x, y in turn.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        turn.add(loss, len(y), tokens=len(y))
def test(net, turn):
    for x, y in turn.batches():
        turn.add(F.cross_entropy(net(x), y), len(y), tokens=len(y))
def make():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 12), torch.nn.Tanh(), torch.nn.Linear(12, 10))
if __name__ == "__main__":
    sounder.serve(make, train, test, state=torch.optim.AdamW)
'''


class TrainerTokens(TrainerCase):
    def run_job(self, run, *arguments, script="counts.py", code=0):
        return self.train(*JOB, "--trainer", f"{sys.executable} {script}", "--out", run, *arguments, code=code)

    def test_tokens_are_counted_weigh_and_end_a_run_with_the_same_bits(self):
        self.write("counts.py", COUNTS)
        common = ("--algorithm", "combine mean tokens", "--rounds", "9", "--target", "perplexity<9", "--eval-every", "1")
        self.run_job("one", *common, "--workers", "1", "--until", "tokens=1000 bytes=1e9")
        rounds = self.rounds("one")
        self.assertEqual([line["tokens"] for line in rounds], [400] * 3)  # 40 samples of 1 + 2 + 3 + 4 tokens; the third round passes 1000
        self.assertEqual([line["tokens_total"] for line in rounds], [400, 800, 1200])
        self.assertGreater(rounds[0]["tokens_per_second"], 0)
        self.assertEqual(sorted(line["tokens"] for line in self.metrics("one") if line["type"] == "client")[::3], [40, 80, 120, 160])
        for number in self.weights("one")["w"]:  # three rounds of (1 + 4 + 9 + 16) / 10
            self.assertAlmostEqual(number, 9.0, places=5)
        last = rounds[-1]
        classes = np.array(self.labels())
        loss = np.sum((classes + 1) * classes / 4) / np.sum(classes + 1)
        self.assertAlmostEqual(last["test_metrics"]["weighted_loss"], loss, places=6)
        self.assertAlmostEqual(last["test_metrics"]["perplexity"], math.exp(loss), places=5)
        self.assertEqual(self.metrics("one")[-1]["tokens_to_target"], 400)
        self.run_job("halves", *common, "--workers", "3", "--until", "tokens=500")
        self.train("--resume", "halves", "--until", "tokens=1000")
        self.assertEqual(self.model("halves"), self.model("one"))
        self.assertEqual(self.rounds("halves")[-1]["tokens_total"], 1200)
        (row,) = json.loads(self.call("runs", "one", "--format", "json")[0])
        self.assertEqual(row["tokens"], 1200)
        self.assertGreater(row["tokens_per_second"], 0)
        self.call("report", "one", "halves", "--svg", "by-tokens", "--axis", "tokens")
        with open(self.path("by-tokens", "metric.svg")) as file:
            self.assertIn("tokens trained", file.read())

    def labels(self):
        """Of the test samples, as a run's predictions have them."""
        self.train("--data", "synthetic:1x8x8:160:60", "--model", "softmax", "--clients", "1", "--rounds", "1", "--quiet", "--out", "engine")
        self.call("eval", "engine", "--predictions", "each.csv")
        with open(self.path("each.csv")) as file:
            head, *lines = [line.strip().split(",") for line in file]
        return [int(line[head.index("label")]) for line in lines]

    def test_a_trainer_that_counts_none_is_refused_where_tokens_are_needed(self):
        self.write("counts.py", COUNTS)
        silent = ("--trainer-option", "none=true", "--rounds", "2")
        _, err = self.run_job("weighs", *silent, "--algorithm", "combine mean tokens", code=69)
        self.assertIn("its training counted no tokens, by which combine mean tokens weighs it: call turn.add(loss, len(y), tokens=...)", err)
        _, err = self.run_job("ends", *silent, "--until", "tokens=5", code=64)
        self.assertIn("--until tokens=5: the trainer counts no tokens; give turn.add(..., tokens=N)", err)
        _, err = self.train(*JOB, "--model", "softmax", "--algorithm", "combine mean tokens", "--out", "no", code=64)
        self.assertIn("a trainer tells the samples of its clients", err)

    # Texts ------------------------------------------------------------------------------------------------------------

    def package(self):
        sys.path.insert(0, PACKAGE)
        import sounder
        return sounder

    def test_byte_pairs_are_those_of_a_loop_by_hand_and_lose_nothing(self):
        texts = list(self.package().library_texts(["shlex", "typing"], 3000).values()) + ["aaaaa bbbb aaaaaaa", "", "é€"]
        bpe = self.package().BPE.learn(texts, 280)
        merged, joined = [list("".join(texts).encode())], []
        for new in range(256, 280):  # texts are joined, as one; of equal counts the lowest pair
            (tokens,) = merged
            counts = {}
            for pair in zip(tokens, tokens[1:]):
                counts[pair] = counts.get(pair, 0) + 1
            best = max(counts, key=lambda pair: (counts[pair], -pair[0], -pair[1]))
            joined.append(best)
            made, at = [], 0
            while at < len(tokens):
                both = tuple(tokens[at : at + 2]) == best
                made.append(new if both else tokens[at])
                at += 2 if both else 1
            merged = [made]
        self.assertEqual(bpe.pairs, joined)
        self.assertEqual(bpe.encode("".join(texts)).tolist(), merged[0])
        self.assertEqual([bpe.decode(bpe.encode(text)) for text in texts], texts)

    def test_texts_are_rows_of_whole_numbers_for_nets_of_layers_and_trainers(self):
        sounder = self.package()
        texts = {name: "".join(chr(97 + (3 * i + len(name)) % 7) for i in range(90)) for name in ("a", "bb", "ccc")}
        with self.assertWarnsRegex(UserWarning, "1 of 4 clients have fewer than 17 tokens and are left out: short"):
            data = sounder.write_tokens(self.path("text.npz"), {**texts, "short": ["xy", "z"]}, length=8)
        arrays = np.load(data)
        self.assertEqual((arrays["x_train"].dtype, arrays["x_train"].shape, int(arrays["vocabulary"][0])), (np.uint16, (30, 8), 256))
        joined = np.frombuffer(texts["bb"].encode(), np.uint8)
        rows = np.concatenate([arrays["x_train"][arrays["client_train"] == 1], arrays["x_test"][arrays["client_test"] == 1]])
        self.assertEqual(rows.ravel().tolist(), joined[:88].tolist())
        self.assertEqual(arrays["y_train"][arrays["client_train"] == 1].tolist(), joined[8:88:8].tolist())
        self.train("--data", "text.npz", "--model", "embedding 256 8; lstm 16 last; linear classes", "--rounds", "2", "--lr", "0.5", "--quiet", "--out", "engine")
        self.assertEqual({line["client"] for line in self.metrics("engine") if line["type"] == "client"}, {0, 1, 2})
        self.write("counts.py", COUNTS.replace("    net[", "    assert turn.own and next(iter(turn.batches()))[0].dtype == np.int64\n    net["))
        self.train("--data", "text.npz", "--rounds", "1", "--quiet", "--trainer", f"{sys.executable} counts.py", "--out", "trainer")
        _, err = self.train("--data", "text.npz", "--quiet", "--trainer", f"{sys.executable} counts.py", "--client-noise", "gaussian sigma=1", "--out", "no", code=64)
        self.assertIn("those samples are tokens, whole numbers; leave it out", err)
        for array, of, why in (("x_train", arrays["x_train"].astype(np.float32), "save x.astype('uint16')"), ("vocabulary", np.array([99]), "all are below 99"),
                               ("vocabulary", np.array([0]), "0; give the number"), ("vocabulary", np.array([1, 2]), "give one number")):
            np.savez(self.path("bad.npz"), **{**arrays, array: of})
            self.assertIn(why, self.train("--data", "bad.npz", "--model", "softmax", "--out", "no", code=65)[1])

    def test_clients_are_documents_files_or_a_column_and_large_vocabularies_have_four_bytes(self):
        sounder, texts = self.package(), ["abcdefgh" * 3, "hgfedcba" * 3, "aabbccdd" * 3]
        os.mkdir(self.path("files"))
        for number, text in enumerate(texts):
            with open(self.path("files", f"{number}.txt"), "w") as file:
                file.write(text)
        table = {"text": texts, "who": ["x", "y", "x"]}
        sets = [np.load(sounder.write_tokens(self.path("set.npz"), of, length=4, **more))
                for of, more in ((texts, {}), (self.path("files"), {}), (table, {"client": "who"}), (texts, {"client": ["x", "y", "x"]}))]
        for one, two in ((0, 1), (2, 3)):
            self.assertTrue(all(np.array_equal(sets[one][name], sets[two][name]) for name in sets[one]))
        self.assertEqual([len(set(of["client_train"])) for of in sets], [3, 3, 2, 2])
        wide = np.load(sounder.write_tokens(self.path("wide.npz"), texts, lambda text: [90_000 + ord(letter) for letter in text], length=4))
        self.assertEqual((wide["x_train"].dtype, set(wide["y_train"]), wide["vocabulary"].tolist()), (np.uint32, {0}, [90_000 + ord("h") + 1]))
        for of, more, why in ((["ab"], {}, "no client has two rows"), (texts, {"client": ["x"]}, "client: 1 for 3 texts"), ("nowhere", {}, "no folder"),
                              (table, {"client": "whose"}, "no columns text and 'whose'"), (texts, {"test": 1}, "a share between 0 and 1")):
            with self.assertRaisesRegex(sounder.Error, why):
                sounder.write_tokens(self.path("no.npz"), of, length=4, **more)

    def test_lines_of_json_are_texts_by_a_template(self):
        sounder = self.package()
        rows = [{"ask": f"{n} plus {n}?", "answer": str(2 * n), "who": "ab"[n % 2]} for n in range(8)]
        path, wanted = self.path("asks.jsonl"), {"client": [row["who"] for row in rows], "length": 4}
        with open(path, "w") as file:
            file.write("\n".join(json.dumps(row) for row in rows) + "\n\n")
        texts = [f"{row['ask']}\n{row['answer']}" for row in rows]
        one = np.load(sounder.write_tokens(self.path("one.npz"), texts, **wanted))
        for template in ("{ask}\n{answer}", lambda row: row["ask"] + "\n" + row["answer"]):
            two = np.load(sounder.write_tokens(self.path("two.npz"), path, length=4, client="who", template=template))
            self.assertTrue(all(np.array_equal(one[name], two[name]) for name in one))
        for words, why in (({}, "line 1: no 'text'; it has ask, answer, who"), ({"template": "{ask}", "client": "whose"}, "line 1: no 'whose'")):
            with self.assertRaisesRegex(sounder.Error, why):
                sounder.write_tokens(self.path("no.npz"), path, length=4, **words)
        with self.assertRaisesRegex(sounder.Error, "template: it is for rows of a .jsonl file"):
            sounder.write_tokens(self.path("no.npz"), texts, length=4, template="{ask}")
        for damaged, why in (('{"ask": 1', "line 2: Expecting"), ("[1]", "line 2: list; give one JSON object per line")):
            with open(path, "w") as file:
                file.write('{"text": "a"}\n' + damaged)
            with self.assertRaisesRegex(sounder.Error, why):
                sounder.write_tokens(self.path("no.npz"), path, length=4)

    @unittest.skipUnless(torch, "there is no PyTorch")
    def test_diloco_is_a_loop_of_adamw_inside_and_nesterovs_sgd_outside(self):
        self.write("diloco.py", DILOCO)
        common = ("--algorithm", "diloco H=6", "--client-optimizer-state", "keep", "--rounds", "3", "--lr", "0.01")
        self.run_job("one", *common, "--workers", "1", script="diloco.py")
        process = self.start(*JOB, "--trainer", f"{sys.executable} diloco.py", "--trainer-option", "slow=0.3", "--out", "killed", *common, "--workers", "2",
                             "--rounds", "2")
        self.wait_for_round("killed", 1)
        for _ in range(2):
            self.kill(wait_until(lambda: self.trainers(process)))
        _, err = self.finish(process)
        self.assertIn("another one", err)
        self.train("--resume", "killed", "--rounds", "3")
        self.assertEqual(self.model("killed"), self.model("one"))
        self.train(*JOB, "--model", "softmax", "--algorithm", "diloco H=6", "--rounds", "4", "--out", "engine")  # whose batches are the same
        self.call("export", "engine", "--federation", "federation")
        last = self.weights("one")
        for name, value in self.by_hand(3).state_dict().items():
            self.assertLess(np.abs(value.numpy().ravel() - last[name].ravel()).max(), 1e-5, name)
        streaming = ("--algorithm", "streaming-diloco H=12 fragments=2", *common[2:])
        self.run_job("streams", *streaming, "--workers", "2", "--rounds", "4", script="diloco.py")
        last = self.weights("streams")
        for name, value in self.by_hand(4, fragments=2, delay=2, mix=0.5).state_dict().items():
            self.assertLess(np.abs(value.numpy().ravel() - last[name].ravel()).max(), 1e-5, name)
        for optimizer in ("diloco; optimizer adamw", "diloco beta2=0.95"):
            _, err = self.run_job("no", "--algorithm", optimizer, script="diloco.py", code=64)
            self.assertIn("the optimizer is the trainer's; leave it out", err)

    def made(self):
        """What makes the net, the samples, and of each round the batches of each client, which the federation's files have."""
        module = {"__name__": "diloco"}
        sys.path.insert(0, PACKAGE)
        with open(self.path("diloco.py")) as file:
            exec(file.read(), module)
        data = np.load(self.path("federation", "data.npz"))
        shape = (-1, 1, 1)
        x = torch.from_numpy((data["x"] * data["scale"].reshape(shape) + data["shift"].reshape(shape)).astype(np.float32))
        return module["make"], x, torch.from_numpy(data["y"].astype(np.int64))

    def batches(self, number):
        turns = np.load(self.path("federation", f"round-{number:06d}.npz"))
        for i, client in enumerate(turns["clients"]):
            order = turns["samples"][turns["first_sample"][i] : turns["first_sample"][i + 1]]
            ends = turns["ends"][turns["first_end"][i] : turns["first_end"][i + 1]]
            yield client, np.split(order.astype(np.int64), (ends - turns["first_sample"][i]).astype(np.int64))[:-1]

    def by_hand(self, rounds, fragments=1, delay=None, mix=0.0):
        """The net after these rounds of four replicas; delay: they train on, and mix the outer step's values in so many steps later."""
        make, x, y = self.made()
        outer_net, kept = make(), {}
        outer = torch.optim.SGD(outer_net.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        layer = lambda number, net: list(net.parameters())[2 * (number % fragments) :][: 2 if fragments > 1 else None]
        for number in range(rounds):
            changes = []
            for client, batches in self.batches(number + 1):
                if client not in kept:
                    net = make()
                    kept[client] = net, torch.optim.AdamW(net.parameters(), lr=0.01)
                net, inner = kept[client]
                for step in range(len(batches) + 1):
                    if number > 0 and step == (delay or 0):
                        for own, new in zip(layer(number - 1, net), layer(number - 1, outer_net)):
                            own.data = mix * own.data + (1 - mix) * new.data
                    if step < len(batches):
                        inner.zero_grad()
                        torch.nn.functional.cross_entropy(net(x[batches[step]]), y[batches[step]]).backward()
                        inner.step()
                changes.append([new.detach() - own.detach() for own, new in zip(layer(number, net), layer(number, outer_net))])
            outer.zero_grad(set_to_none=True)  # what does not travel rests
            for parameter, *of in zip(layer(number, outer_net), *changes):
                parameter.grad = sum(of) / len(of)
            outer.step()
        return outer_net


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
