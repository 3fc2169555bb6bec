"""Personal models of whole runs against the same algorithm in a few lines of NumPy, written from the papers.

Usage: test_personal_references.py PATH_OF_SOUNDER [unittest arguments]. Exits with 77 without Debian's NumPy and PyTorch.
"""
import json, sys, unittest

from papers import CLASSES, Client, LR, mean, ROUNDS, STEPS
from runs import parse_safetensors
from test_references import FullBatch, np


def apfl(w, clients, alpha, decay, adapts, weight_decay=0.0):
    """Returns the shared model and the loss of each client's own model on its samples."""
    own, alphas = [w] * len(clients), [alpha] * len(clients)
    for _ in range(ROUNDS):
        updates = []
        for k, client in enumerate(clients):
            shared, v, a = w, own[k], alphas[k]
            for _ in range(STEPS):
                at_mixture = client.gradient(a * v + (1 - a) * shared)
                alphas[k] = np.clip(a - LR * (np.sum((v - shared) * at_mixture) + decay * a), 0, 1) if adapts else a
                v = v - LR * (a * at_mixture + weight_decay * v)
                shared = shared - LR * (client.gradient(shared) + weight_decay * shared)
                a = alphas[k]
            own[k] = v
            updates.append(shared - w)
        w = w + mean(clients, updates)
    return w, [c.loss(a * v + (1 - a) * w) for c, v, a in zip(clients, own, alphas)]


def ifca(models, clients, rounds):
    """Returns the models, each client's one by number, and its loss there."""
    best = lambda client: int(np.argmin([client.loss(w) for w in models]))
    for _ in range(rounds):
        chosen = [best(client) for client in clients]
        updates = [client.train(models[m], momentum=0) for client, m in zip(clients, chosen)]
        for m in set(chosen):
            own = [k for k, c in enumerate(chosen) if c == m]
            models[m] = models[m] + mean([clients[k] for k in own], [updates[k] for k in own])
    chosen = [best(client) for client in clients]
    return models, chosen, [c.loss(models[m]) for c, m in zip(clients, chosen)]


def moon(layers, clients, mu, tau):
    """layers: of a net of two, with the bias as last row."""
    ones = lambda x: np.hstack([x, np.ones((len(x), 1))])
    represent = lambda w, c: np.maximum(c.x @ w[0], 0)
    last = [None] * len(clients)
    for _ in range(ROUNDS):
        updates = []
        for k, c in enumerate(clients):
            w = list(layers)
            for _ in range(STEPS):
                z = represent(w, c)
                p = np.exp(ones(z) @ w[1])
                logits = (p / p.sum(1, keepdims=True) - c.y) / c.n
                to_z = logits @ w[1][:-1].T
                if last[k]:
                    near, far = represent(layers, c), represent(last[k], c)
                    length = lambda u: np.linalg.norm(u, axis=1, keepdims=True)
                    cosine = lambda u: (z * u).sum(1, keepdims=True) / (length(z) * length(u))
                    slope = lambda u: (u / length(u) - cosine(u) * z / length(z)) / length(z)
                    to_z += mu / tau / (1 + np.exp((cosine(near) - cosine(far)) / tau)) * (slope(far) - slope(near)) / c.n
                gradients = c.x.T @ (to_z * (z > 0)), ones(z).T @ logits
                w = [v - LR * g for v, g in zip(w, gradients)]
            last[k] = w
            updates.append([v - g for v, g in zip(w, layers)])
        layers = [w + mean(clients, [u[i] for u in updates]) for i, w in enumerate(layers)]
    return layers


class Personal(FullBatch):
    def losses(self, run):
        lines = [line for line in self.metrics(run) if line["type"] == "client_evaluation" and line["model"] == "personal"]
        return [line["loss"] for line in lines if line["round"] == ROUNDS]

    def run_personal(self, run, algorithm, *options):
        self.run_it(run, algorithm, "--lr", str(LR), "--rounds", str(ROUNDS), "--local-epochs", str(STEPS), "--eval-clients-every", str(ROUNDS),
                    *options)
        return self.losses(run)

    def check_losses(self, actual, expected, begin):
        for found, wanted, first in zip(actual, expected, begin, strict=True):
            self.assertLess(abs(found - wanted), 1e-5 * abs(first - wanted))

    def test_mixtures_and_their_shares_are_those_of_apfl(self):
        start = self.start_weights()
        begin = [client.loss(start) for client in self.clients]
        for number, (text, numbers, options) in enumerate((
                ("apfl", (0.5, 0.02, True), []), ("apfl alpha=0.9 decay=0", (0.9, 0, True), []), ("apfl alpha=0.25 adapts=no", (0.25, 0, False), []),
                ("apfl alpha=1 decay=0.5", (1, 0.5, True, 0.01), ["--weight-decay", "0.01"]))):
            with self.subTest(text):
                shared, expected = apfl(start, self.clients, *numbers)
                actual = self.run_personal(f"apfl-{number}", text, "--workers", str(1 + number % 3), *options)
                self.check_losses(actual, expected, begin)
                self.check(text, self.weights(f"apfl-{number}"), shared, start)

    def test_a_share_of_all_is_training_alone_and_a_share_of_nothing_the_global_model(self):
        alone = self.run_personal("alone", "local-only")
        self.check_losses(self.run_personal("own", "apfl alpha=1 adapts=no"), alone, [1 + loss for loss in alone])
        for line in (lines := [line for line in self.metrics("own") if line["type"] == "clients_evaluation"]):
            self.assertEqual(line["clients_never_trained"] if line["model"] == "personal" else 0, 0)
        self.run_personal("none", "apfl alpha=0 adapts=no")
        figures = {line["model"]: line["loss_mean"] for line in self.metrics("none") if line["type"] == "clients_evaluation"}
        self.assertEqual(len(lines), 2)
        self.assertEqual(figures["personal"], figures["global"])

    def test_own_models_are_the_same_with_any_workers_and_after_a_resume(self):
        for algorithm in "apfl", "fedbabu epochs=2", "ifca clusters=3":
            with self.subTest(algorithm):
                name = algorithm.split()[0]
                net = ["--model", "linear 6; relu; linear classes"]
                expected = self.run_personal(f"{name}-one", algorithm, *net, "--workers", "1")
                self.assertEqual(self.run_personal(f"{name}-three", algorithm, *net, "--workers", "3"), expected)
                self.run_personal(f"{name}-parts", algorithm, *net, "--rounds", "2")
                self.train("--resume", f"{name}-parts", "--rounds", str(ROUNDS), "--quiet")
                self.assertEqual(self.losses(f"{name}-parts"), expected)

    def test_clusters_and_their_models_are_those_of_ifca(self):
        seed = ["--seed", "4"]  # with which not all clients take one model
        models = [f"cluster-{m}" for m in range(3)]
        self.run_it("begin", "ifca clusters=3", "--lr", "1e-30", "--rounds", "1", *seed)
        start = [self.weights("begin", name) for name in models]
        self.assertGreater(np.linalg.norm(start[1] - start[2]), 0.1)
        begin = [client.loss(start[0]) + 1 for client in self.clients]
        expected, chosen, losses = ifca(list(start), self.clients, ROUNDS)
        self.assertGreater(len(set(chosen)), 1)
        for workers in "1", "2":
            actual = self.run_personal("run" + workers, "ifca clusters=3", "--workers", workers, *seed)
            self.check_losses(actual, losses, begin)
            for name, wanted, first in zip(models, expected, start):
                error = np.linalg.norm(self.weights("run" + workers, name) - wanted)
                self.assertLessEqual(error, 1e-5 * (np.linalg.norm(wanted - first) or 1), name)
            lines = self.metrics("run" + workers)
            self.assertEqual([line["cluster"] for line in lines if line["type"] == "client_evaluation" and line["model"] == "personal"], chosen)
            counts = [chosen.count(m) for m in range(3)]
            self.assertEqual([line["clients_by_cluster"] for line in lines if line["type"] == "clients_evaluation" and line["model"] == "personal"], [counts])
            self.assertEqual(sum(line["clients_by_cluster"][0] for line in lines if line["type"] == "round"),
                             sum(line["cluster"] == 0 for line in lines if line["type"] == "client"))

    def test_the_model_of_the_largest_cluster_is_the_one_that_is_tested_and_written(self):
        largest_of = set()
        for seed in "1", "2", "3", "4":
            run = f"largest-{seed}"
            self.run_personal(run, "ifca clusters=3", "--seed", seed)
            self.run_personal(f"{run}-parts", "ifca clusters=3", "--seed", seed, "--rounds", "2")
            self.train("--resume", f"{run}-parts", "--rounds", str(ROUNDS), "--quiet")
            rounds = [line for line in self.metrics(run) if line["type"] == "round"]
            counts = rounds[-1]["clients_by_cluster"]
            largest = counts.index(max(counts))
            largest_of.add(largest)
            tested = json.loads(self.call("eval", f"{run}/model.safetensors", "--data", self.path("data"), "--json")[0])
            self.assertAlmostEqual(rounds[-1]["test_loss"], tested["test_loss"], 6)
            for name in run, f"{run}-parts":
                self.assertTrue(np.array_equal(self.weights(name, "model"), self.weights(name, f"cluster-{largest}")))
            self.assertEqual(self.model(run), self.model(f"{run}-parts"))
        self.assertGreater(len(largest_of), 1, "with these seeds the first cluster is always the largest")

    def test_a_cluster_without_clients_stays_and_the_record_hashes_all_models(self):
        task = ["--data", "synthetic:1x4x4:96:24", "--clients", "3", "--batch-size", "8", "--model", "linear classes", "--algorithm", "ifca", "--quiet"]
        for rounds in "1", "3":
            self.train(*task, "--rounds", rounds, "--out", rounds)
        lines = [line for line in self.metrics("3") if line["type"] == "round"]
        self.assertEqual([line["clients_by_cluster"] for line in lines], [[0, 3]] * 3)
        self.assertTrue(np.array_equal(self.weights("1", "cluster-0"), self.weights("3", "cluster-0")))
        self.assertEqual(len({line["model_xxh3"] for line in lines}), 3)
        self.assertEqual(len({line["tensors_xxh3"]["fc1.weight"] for line in lines}), 3)

    def layers(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            tensors = {name: np.array(values).reshape(shape) for name, (shape, values) in parse_safetensors(file.read())[1].items()}
        return [np.vstack([tensors[f"fc{l}.weight"].T, tensors[f"fc{l}.bias"][None]]) for l in (1, 2)]

    def test_representations_are_drawn_and_pushed_as_in_moon(self):
        net = ["--model", "linear 20; relu; linear classes", "--rounds", str(ROUNDS), "--local-epochs", str(STEPS)]
        self.run_net("begin", "fedavg", "--lr", "1e-30", *net)
        start, found = self.layers("begin"), {}
        for number, (algorithm, mu, tau) in enumerate((("moon", 1, 0.5), ("moon mu=5 tau=0.2", 5, 0.2), ("moon mu=0", 0, 1))):
            with self.subTest(algorithm):
                for workers in "1", "3":
                    run = f"moon-{number}-{workers}"
                    self.run_net(run, algorithm, "--lr", str(LR), "--workers", workers, *net)
                    found[number, workers] = self.model(run)
                for actual, expected, first in zip(self.layers(run), moon(start, self.clients, mu, tau), start):
                    self.check(algorithm, actual, expected, first)
        self.run_net("fedavg", "fedavg", "--lr", str(LR), *net)
        self.assertEqual(found[2, "1"], self.model("fedavg"))
        self.assertEqual(len(set(found.values())), 3)
        self.run_net("parts", "moon", "--lr", str(LR), *net, "--rounds", "2")
        self.train("--resume", "parts", "--rounds", str(ROUNDS), "--quiet")
        self.assertEqual(self.model("parts"), found[0, "1"])
        for model in "linear classes", "linear 8; relu; linear 4; relu":
            _, err = self.run_net("refused", "moon", "--model", model, code=64)
            self.assertIn("a representation is what enters the net's last layer, which must be linear, after a layer that learns", err)

    def test_a_fixed_head_without_a_body_that_learns_is_refused(self):
        _, err = self.run_net("refused", "fedbabu", "--model", "linear 8; relu; linear classes", "--freeze", "fc1.*", code=64)
        self.assertIn("nothing would be trained; leave one, or take fedper", err)
        _, err = self.run_net("refused", "fedbabu layers=2", "--model", "linear 8; relu; linear classes", code=64)
        self.assertIn("personal fixed-head layers=2: no module is left to be trained; lower it, or take a net of more", err)

    def test_models_of_clusters_need_unlike_beginnings(self):
        self.run_it("one", "fedavg", "--lr", "0.1", "--rounds", "1")
        _, err = self.train("--data", self.path("data"), "--model", f"linear {CLASSES}", "--algorithm", "ifca", "--init", self.path("one", "model.safetensors"), code=64)
        self.assertIn("the models of 2 clusters would be equal and stay so; leave --init out", err)

    def test_fedbabu_tests_a_model_that_is_fine_tuned_for_the_client(self):
        options = ["--model", "linear 7; relu; linear classes", "--local-epochs", "1", "--rounds", str(ROUNDS)]
        self.run_personal("all", "fedbabu epochs=4", "--finetune-epochs", "4", *options)
        figures = {line["model"]: line["loss_mean"] for line in self.metrics("all") if line["type"] == "clients_evaluation"}
        self.assertEqual(figures["personal"], figures["fine-tuned"])
        tuned = self.run_personal("head", "fedbabu epochs=4 tunes=head", *options)
        with open(self.path("head", "model.safetensors"), "rb") as file:
            tensors = {name: np.array(values).reshape(shape) for name, (shape, values) in parse_safetensors(file.read())[1].items()}
        for client, loss in zip(self.clients, tuned, strict=True):
            seen = np.maximum(client.x[:, :-1] @ tensors["fc1.weight"].T + tensors["fc1.bias"], 0)
            of_head, w = Client(seen, client.y.argmax(1)), np.vstack([tensors["fc2.weight"].T, tensors["fc2.bias"][None]])
            self.assertAlmostEqual(loss, of_head.loss(w + of_head.train(w, momentum=0, steps=4)), delta=1e-5)
        self.assertNotAlmostEqual(figures["personal"], np.mean(tuned), delta=1e-3)


if __name__ == "__main__":
    unittest.main(argv=["test_personal_references.py"] + sys.argv[2:], verbosity=2)
