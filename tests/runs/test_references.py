"""Whole runs against other code: the same algorithm in a few lines of NumPy, written from the papers, and the optimizers
of torch.optim. The error is measured against what the training changed.

Usage: test_references.py PATH_OF_SOUNDER [unittest arguments]. Exits with 77 without Debian's NumPy and PyTorch.
"""
import csv, json, os, struct, subprocess, sys, unittest

try:
    import numpy as np, torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from papers import (ALGORITHMS, averaged_momentum, BY_STEPS, CLASSES, Client, DATA_PARALLEL, dp_sgd, DP_SGD, FORGED, LATE, LR, mean, MOMENTUM, pfedme,
                    ROUNDS, SIDE, SIZES, STEPS, THEIRS, WITHOUT_MOMENTUM)
from papers_diloco import ASYNC_DILOCO, DILOCO, failing, RATE, ROUNDS as DILOCO_ROUNDS, STREAMING
from runs import DEADLINE, NOISE_KEY, SOUNDER, RunCase, parse_safetensors


def idx(path, array):
    with open(path, "wb") as file:
        file.write(struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=LR, momentum=MOMENTUM, weight_decay=0.01),
    "sgd nesterov=yes": lambda p: torch.optim.SGD(p, lr=LR, momentum=MOMENTUM, weight_decay=0.01, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=LR, weight_decay=0.01),
    "adam beta1=0.7 beta2=0.9 eps=1e-4": lambda p: torch.optim.Adam(p, lr=LR, betas=(0.7, 0.9), eps=1e-4, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=LR, weight_decay=0.01),
}


class FullBatch(RunCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        labels = random.integers(0, CLASSES, sum(SIZES)).astype(np.uint8)
        labels[:CLASSES] = range(CLASSES)
        pixels = (random.random((CLASSES, SIDE, SIDE))[labels] * 160 + random.random((len(labels), SIDE, SIDE)) * 90).astype(np.uint8)
        os.mkdir(self.path("data"))
        for name, count in (("train", len(labels)), ("t10k", 8)):
            idx(self.path("data", name + "-images-idx3-ubyte"), pixels[:count])
            idx(self.path("data", name + "-labels-idx1-ubyte"), labels[:count])
        x, y = ((pixels / 255 - 0.1307) / 0.3081).reshape(len(labels), -1), labels
        ends = np.cumsum(SIZES)
        self.clients = [Client(x[e - n:e], y[e - n:e]) for n, e in zip(SIZES, ends)]

    def weights(self, run, model="model"):
        with open(self.path(run, model + ".safetensors"), "rb") as file:
            tensors = {name.split(".")[1]: np.array(values).reshape(shape) for name, (shape, values) in
                       parse_safetensors(file.read())[1].items()}
        return np.vstack([tensors["weight"].T, tensors["bias"][None]])

    def run_net(self, run, algorithm, *options, sizes=SIZES, code=0):
        return self.train("--data", self.path("data"), "--model", f"linear {CLASSES}", "--clients", str(len(sizes)),
                          "--partition", "size sizes=" + ",".join(map(str, sizes)), "--batch-size", "100", "--eval-every", "0",
                          "--device", "cpu", "--quiet", "--algorithm", algorithm, *options, "--out", run, code=code)

    def run_it(self, run, algorithm, *options, sizes=SIZES):
        self.run_net(run, algorithm, *options, sizes=sizes)
        return self.weights(run)

    def start_weights(self):
        return self.run_it("start", "fedavg", "--lr", "1e-30", "--rounds", "1")

    def check(self, name, actual, expected, start):
        error = np.linalg.norm(actual - expected) / np.linalg.norm(expected - start)
        self.assertLessEqual(error, 1e-5, name)

    def compare(self, algorithms, momentum, *options):
        start = self.start_weights()
        for number, (algorithm, reference) in enumerate(algorithms.items()):
            with self.subTest(algorithm):
                actual = self.run_it(f"{number}-{momentum}", algorithm, "--lr", str(LR), "--rounds", str(ROUNDS), *options,
                                     *([] if momentum is None else ["--momentum", str(momentum)]))
                self.check(algorithm, actual, reference(start, self.clients), start)


class References(FullBatch):
    def test_algorithms_are_those_of_the_papers(self):
        self.compare(ALGORITHMS, MOMENTUM, "--local-epochs", str(STEPS))

    def test_steps_that_hide_each_sample_are_those_of_the_paper(self):
        start = self.start_weights()
        for text, batch in DP_SGD.items():
            with self.subTest(text, batch=batch):
                clip, noise = (float(part.split("=")[1]) for part in text.split())
                actual = self.run_it(f"{text} {batch}", "fedavg", "--lr", str(LR), "--momentum", str(MOMENTUM), "--rounds", str(ROUNDS), "--local-epochs",
                                     str(STEPS), "--dp-sgd", text, "--noise-key", NOISE_KEY, "--batch-size", str(batch))
                self.check(text, actual, dp_sgd(clip, noise, batch)(start, self.clients), start)

    def test_several_labels_per_sample_are_trained_as_by_torch(self):
        random = np.random.default_rng(3)
        x, y = random.normal(size=(120, 6)).astype("f4"), (random.random((120, 5)) < 0.3).astype("u1")
        np.savez(self.path("many.npz"), x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
        run = ["--data", "many.npz", "--model", "linear 7; relu; linear classes", "--clients", "1", "--batch-size", "80", "--momentum", "0.5", "--device", "cpu", "--quiet"]
        self.train(*run, "--lr", "1e-30", "--rounds", "1", "--out", "begin")
        net = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5)).double()
        begin, loss_of = self.tensors("begin"), torch.nn.BCEWithLogitsLoss()
        for parameter, value in zip(net.parameters(), begin):
            parameter.data = torch.tensor(value)
        inputs, labels = torch.tensor(x.astype("f8")), torch.tensor(y.astype("f8"))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.5)
        for _ in range(20):
            optimizer.zero_grad()
            loss_of(net(inputs[:80]), labels[:80]).backward()
            optimizer.step()
        self.train(*run, "--lr", "0.5", "--rounds", "1", "--local-epochs", "20", "--out", "run")
        for name, actual, expected, start in zip("abcd", self.tensors("run"), net.parameters(), begin):
            self.check(name, actual, expected.detach().numpy(), start)
        with open(self.path("run", "metrics.jsonl")) as file:
            told = [line for line in map(json.loads, file) if line["type"] == "round"][-1]
        self.assertAlmostEqual(told["test_loss"], loss_of(net(inputs[80:]), labels[80:]).item(), places=5)

    def test_classes_are_trained_by_binary_cross_entropy_as_by_torch(self):
        start = self.start_weights()
        x, y = (torch.tensor(np.vstack([getattr(client, part) for client in self.clients])) for part in "xy")
        w = torch.tensor(start, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=LR, momentum=MOMENTUM)
        for _ in range(STEPS):
            optimizer.zero_grad()
            torch.nn.BCEWithLogitsLoss()(x @ w, y).backward()
            optimizer.step()
        actual = self.run_it("bce", "fedavg", "--loss", "bce", "--lr", str(LR), "--momentum", str(MOMENTUM), "--local-epochs", str(STEPS), "--rounds", "1",
                             sizes=[sum(SIZES)])
        self.check("bce", actual, w.detach().numpy(), start)

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return [np.array(values, dtype="f8").reshape(shape) for shape, values in parse_safetensors(file.read())[1].values()]

    def test_the_texts_for_users_of_other_frameworks_are_their_optimizers(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "from.md")) as file:
            table = file.read()
        for algorithm in [*THEIRS, *DATA_PARALLEL]:
            self.assertIn(f'"{algorithm}"', table)
        self.compare(THEIRS, MOMENTUM, "--local-epochs", str(STEPS))

    def test_the_texts_for_users_of_data_parallel_training_are_torchs_optimizers_on_the_mean_gradient(self):
        start = self.start_weights()
        for number, (algorithm, (name, options)) in enumerate(DATA_PARALLEL.items()):
            with self.subTest(algorithm):
                w = torch.tensor(start, requires_grad=True)
                optimizer = getattr(torch.optim, name)([w], **options)
                for _ in range(ROUNDS * 3):
                    w.grad = torch.tensor(np.mean([c.gradient(w.detach().numpy()) for c in self.clients], axis=0))
                    optimizer.step()
                actual = self.run_it(f"parallel-{number}", algorithm, "--lr", "1", "--rounds", str(ROUNDS * 3))
                self.check(algorithm, actual, w.detach().numpy(), start)

    def test_the_two_steps_of_personal_moreau_are_those_of_pfedme(self):
        self.compare({"pfedme lambda=2 steps=3 lr=0.1": pfedme(2, 3, 0.1)}, None, "--local-epochs", str(STEPS))

    def test_momenta_are_averaged_as_weights_are(self):
        start = self.start_weights()
        for workers in "1", "3":
            actual = self.run_it(f"momenta-{workers}", "fedavg", "--lr", str(LR), "--momentum", str(MOMENTUM), "--rounds", str(ROUNDS),
                                 "--local-epochs", str(STEPS), "--client-optimizer-state", "average", "--workers", workers)
            self.check(workers, actual, averaged_momentum(start, self.clients), start)

    def test_clients_count_what_the_user_says(self):
        start, given = self.start_weights(), [1, 4, 0.5]
        with open(self.path("given.txt"), "w") as file:
            file.writelines(f"{client} {weight}\n" for client, weight in enumerate(given))
        options = ["--lr", str(LR), "--rounds", str(ROUNDS), "--local-epochs", str(STEPS)]
        expected = start
        for _ in range(ROUNDS):
            updates = [client.train(expected, momentum=0) for client in self.clients]
            expected = expected + sum(w * d for w, d in zip(given, updates)) / sum(given)
        for number, (weights, workers) in enumerate((("1,4,0.5", "1"), ("file:" + self.path("given.txt"), "3"))):
            self.check(weights, self.run_it(f"given-{number}", "fedavg", "--client-weights", weights, "--workers", workers, *options), expected, start)
        self.assertEqual(self.model("given-0"), self.model("given-1"))
        self.run_it("parts", "fedavg", "--client-weights", "1,4,0.5", *options, "--rounds", "2")
        self.train("--resume", "parts", "--rounds", str(ROUNDS), "--quiet")
        self.assertEqual(self.model("parts"), self.model("given-0"))
        self.run_it("samples", "fednova", "--client-weights", ",".join(map(str, SIZES)), *options)
        self.run_it("usual", "fednova", *options)
        self.assertEqual(self.model("samples"), self.model("usual"))
        with open(self.path("given.txt"), "a") as file:
            file.write("3 1\n")
        for words, sentence in ((["fedavg", "--client-weights", "1,4"], "--client-weights: a list of 2, but there are 3 clients; give each a number"),
                                (["fedavg", "--client-weights", "file:" + self.path("given.txt")], ":4: no number of a client, which are below --clients"),
                                (["median", "--client-weights", "1,4,1"], "--client-weights 1,4,1 does not go with combine median of --algorithm: its clients do not count by their samples"),
                                (["qfedavg", "--client-weights", "1,4,1"], "add combine mean samples")):
            _, err = self.run_net("refused", *words, code=65 if "file:" in words[-1] else 64)
            self.assertIn(sentence, err)
        self.run_it("sampled", "scaffold; combine mean samples", "--client-weights", "1,4,0.5", *options)

    def test_algorithms_with_vectors_that_clients_keep_are_those_of_the_papers(self):
        self.compare(WITHOUT_MOMENTUM, 0, "--local-epochs", str(STEPS))

    def test_algorithms_that_count_steps_are_those_of_the_papers(self):
        self.compare(BY_STEPS, MOMENTUM)

    def test_late_updates_count_as_in_the_papers(self):
        start = self.start_weights()
        for number, (algorithm, reference) in enumerate(LATE.items()):
            with self.subTest(algorithm):
                run = f"late-{number}"
                once = algorithm.startswith(("asgd", "staleness-aware", "dc-asgd"))  # a step from a fresh start knows no momentum
                actual = self.run_it(run, algorithm, "--lr", str(LR), *([] if once else ["--momentum", str(MOMENTUM)]), "--rounds",
                                     str(ROUNDS * 3), "--client-time", "lognormal", *(["--local-epochs", str(STEPS)] if algorithm.startswith("fed") else []))
                self.check(algorithm, actual, reference([start], self.clients, self.jobs(run)), start)

    def test_replicas_of_adamw_are_those_of_diloco_and_its_family(self):
        start = self.start_weights()
        for number, (algorithm, reference) in enumerate({**DILOCO, **ASYNC_DILOCO}.items()):
            with self.subTest(algorithm):
                run, late = f"diloco-{number}", algorithm in ASYNC_DILOCO
                actual = self.run_it(run, algorithm, "--lr", str(RATE), "--rounds", str(DILOCO_ROUNDS * (len(SIZES) if late else 1)),
                                     *(["--client-time", "lognormal"] if late else []))
                self.check(algorithm, actual, reference([start], self.clients, self.jobs(run)) if late else reference(start, self.clients), start)

    def test_fragments_travel_and_are_mixed_as_in_streaming_diloco(self):
        from torch.nn import Linear, ReLU, Sequential
        run = ["--data", self.path("data"), "--model", "linear 6; relu; linear 5; relu; linear 4", "--clients", "3", "--partition",
               "size sizes=" + ",".join(map(str, SIZES)), "--batch-size", "100", "--eval-every", "0", "--device", "cpu", "--quiet"]
        self.train(*run, "--lr", "1e-30", "--rounds", "1", "--out", "begin")
        net = Sequential(Linear(25, 6), ReLU(), Linear(6, 5), ReLU(), Linear(5, 4)).double()
        start = self.tensors("begin")
        for parameter, value in zip(net.parameters(), start):
            parameter.data = torch.tensor(value)
        for number, (algorithm, reference) in enumerate(STREAMING.items()):
            with self.subTest(algorithm):
                out, expected = f"streaming-{number}", reference(net, self.clients, DILOCO_ROUNDS)
                self.train(*run, "--lr", str(RATE), "--algorithm", algorithm, "--rounds", str(DILOCO_ROUNDS), "--out", out)
                self.check(algorithm, *(np.concatenate([np.asarray(value).ravel() for value in values]) for values in (self.tensors(out), expected, start)))

    def test_clients_fail_when_the_seed_says_and_lose_what_they_keep(self):
        keys = ("clients_trained", "clients_failed", "clients_down", "simulated_seconds", "useful_seconds", "replica_seconds")
        start = self.start_weights()
        for state, mtbf, repair in (("lost", 5, 1.5), ("kept", 5, 1.5), ("lost", 0.7, 2)):
            with self.subTest(state=state, mtbf=mtbf):
                run, (expected, told) = f"{state}-{mtbf}", failing(3, mtbf, repair, state == "lost")(start, self.clients, 15)
                actual = self.run_it(run, "local-sgd steps=3", "--lr", str(LR), "--momentum", str(MOMENTUM), "--rounds", "15",
                                     "--failures", f"mtbf={mtbf} repair={repair} state={state}")
                self.check(run, actual, expected, start)
                with open(self.path(run, "metrics.jsonl")) as file:
                    rounds = [line for line in map(json.loads, file) if line["type"] == "round"]
                for line, of in zip(rounds, told):
                    np.testing.assert_allclose([line[key] for key in keys], of, atol=1e-6)
                self.assertAlmostEqual(rounds[-1]["useful_seconds_total"] / rounds[-1]["replica_seconds_total"], sum(of[4] for of in told) / sum(of[5] for of in told))

    def jobs(self, run):
        with open(self.path(run, "schedule.csv")) as file:
            jobs = list(csv.DictReader(file))
        self.assertGreater(max(int(j["applied"]) - int(j["start"]) for j in jobs if j["applied"]), 1)
        return jobs

    def test_what_attackers_agree_on_is_that_of_the_papers(self):
        sizes = [20, 20, 15, 10, 10]
        x, y = np.vstack([c.x for c in self.clients])[:, :-1], np.vstack([c.y for c in self.clients]).argmax(1)
        clients = [Client(x[e - n:e], y[e - n:e]) for n, e in zip(sizes, np.cumsum(sizes))]
        start = self.start_weights()
        mean = lambda d: sum(n * u for n, u in zip(sizes, d)) / sum(sizes)
        for attack, rule in FORGED.items():
            for number, (algorithm, combine) in enumerate({"fedavg": mean, "median": lambda d: np.median(d, axis=0)}.items()):
                with self.subTest(attack, algorithm=algorithm):
                    w, forge = start, rule() if isinstance(rule, type) else rule
                    for _ in range(ROUNDS):
                        d = np.array([c.train(w) for c in clients])
                        d[3:] = forge(d, d[3:] if "own" in attack else d[:3])
                        w = w + combine(d)
                    actual = self.run_it(f"{attack.replace(' ', '-')}-{number}", algorithm, "--attack", attack, "--attackers", "3,4", "--lr", str(LR),
                                         "--momentum", str(MOMENTUM), "--rounds", str(ROUNDS), "--local-epochs", str(STEPS), sizes=sizes)
                    self.check(attack, actual, w, start)

    def test_a_backdoor_is_trained_on_marked_images_and_its_success_is_that_of_marked_test_images(self):
        start, square, target = self.start_weights(), np.zeros((SIDE, SIDE), dtype=bool), 1
        square[:2, :2] = True
        mark = lambda x: np.where(square.reshape(-1), (1 - 0.1307) / 0.3081, x)
        x, y = self.clients[0].x[:, :-1], self.clients[0].y
        clients, w = [Client(mark(x), np.full(len(x), target)), *self.clients[1:]], start
        for _ in range(ROUNDS):
            d = [c.train(w) for c in clients]
            w = w + mean(clients, [4 * d[0], *d[1:]])
        actual = self.run_it("run", "fedavg", "--attack", "backdoor 1 fraction=1 size=2 factor=4", "--attackers", "0", "--lr", str(LR), "--momentum",
                             str(MOMENTUM), "--rounds", str(ROUNDS), "--local-epochs", str(STEPS), "--eval-every", "1")
        self.check("backdoor", actual, w, start)
        others = [i for i in range(8) if y[i].argmax() != target]  # the test images are the first of the training images
        taken = (np.hstack([mark(x[others]), np.ones((len(others), 1))]) @ actual).argmax(1) == target
        self.assertEqual(self.rounds("run")[-1]["attack_success"], taken.mean())
        evaluate = lambda *more: subprocess.run([SOUNDER, "eval", self.path("run"), "--device", "cpu", *more], text=True, capture_output=True,
                                                check=True, timeout=DEADLINE).stdout
        self.assertEqual(json.loads(evaluate("--json"))["attack_success"], taken.mean())
        out = evaluate()
        self.assertIn(f"attack success {taken.sum()}/{len(others)} ", out)

    def test_optimizers_are_those_of_pytorch(self):
        start = self.start_weights()
        x = torch.tensor(np.vstack([c.x for c in self.clients]))
        y = torch.tensor(np.vstack([c.y for c in self.clients])).argmax(1)
        for number, (name, make) in enumerate(OPTIMIZERS.items()):
            for clip in (0, 0.3):
                with self.subTest(name, clip=clip):
                    w = torch.tensor(start, requires_grad=True)
                    optimizer = make([w])
                    for _ in range(20):
                        optimizer.zero_grad()
                        torch.nn.functional.cross_entropy(x @ w, y).backward()
                        if clip:
                            torch.nn.utils.clip_grad_norm_([w], clip)
                        optimizer.step()
                    momentum = ["--momentum", str(MOMENTUM)] if name.startswith("sgd") else []
                    actual = self.run_it(f"o{number}-{clip}", f"optimizer {name}", "--clients", "1", "--partition", "contiguous", *momentum,
                                         "--lr", str(LR), "--rounds", "1", "--local-epochs", "20", "--weight-decay", "0.01",
                                         "--clip-grad-norm", str(clip))
                    self.check(name, actual, w.detach().numpy(), start)


if __name__ == "__main__":
    unittest.main(argv=["test_references.py"] + sys.argv[2:], verbosity=2)
