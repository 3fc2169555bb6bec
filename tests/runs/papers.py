"""Algorithms in a few lines of NumPy, written from the papers: what test_references.py compares whole runs with.

Softmax regression on full batches, so that the order of samples cannot matter; five rounds of three clients of unequal size.
"""
import statistics

import numpy as np

import noise_streams

SIZES, SIDE, CLASSES, ROUNDS, STEPS, LR, MOMENTUM = [40, 25, 10], 5, 4, 5, 3, 0.2, 0.5
SHARES = {"samples": lambda n: n, "uniform": lambda n: 1, "sqrt": np.sqrt, "log": lambda n: np.log10(1 + n)}


class Client:
    """Full-batch training of softmax regression in double, as PyTorch's SGD has its momentum."""

    def __init__(self, x, y):
        self.x, self.y = np.hstack([x, np.ones((len(x), 1))]), np.eye(CLASSES)[y]
        self.n = len(x)

    def gradient(self, w):
        z = self.x @ w
        p = np.exp(z - z.max(1, keepdims=True))
        return self.x.T @ (p / p.sum(1, keepdims=True) - self.y) / self.n

    def loss(self, w):
        z = self.x @ w
        return np.mean(np.log(np.exp(z).sum(1)) - (z * self.y).sum(1))

    def train(self, w, pull=0.0, anchor=None, shift=0.0, momentum=MOMENTUM, steps=STEPS):
        start, v = w, np.zeros_like(w)
        for _ in range(steps):
            g = self.gradient(w) + pull * (w - start) + shift
            v = momentum * v + g
            w = w - LR * v
        return w - start


def mean(clients, updates, weights="samples"):
    shares = np.array([SHARES[weights](c.n) for c in clients], dtype=float)
    return sum(s * d for s, d in zip(shares / shares.sum(), updates))


def averaged(step=lambda w, d, state: w + d, weights="samples", pull=0.0):
    def run(w, clients):
        state = {"t": 0}
        for _ in range(ROUNDS):
            state["t"] += 1
            w = step(w, mean(clients, [c.train(w, pull) for c in clients], weights), state)
        return w
    return run


def momentum_step(beta, lr, nesterov=False):
    def step(w, d, s):
        s["v"] = beta * s.get("v", 0) + d
        return w + lr * (d + beta * s["v"] if nesterov else s["v"])
    return step


def adaptive(kind, lr, tau=1e-3, b1=0.9, b2=0.99, start=None, correction="no"):
    """Algorithm 2 of Reddi and others; with a correction of both moments for their start, as in Adam."""
    begins = start if start is not None else tau * tau if correction == "no" else 0

    def step(w, d, s):
        V = s.get("V", begins)
        if kind == "adagrad":
            s["V"] = V + d * d
            return w + lr * d / (np.sqrt(s["V"]) + tau)
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * d
        s["V"] = b2 * V + (1 - b2) * d * d if kind == "adam" else V - (1 - b2) * d * d * np.sign(V - d * d)
        t = s["t"] + (correction == "flower")  # Flower's exponents are a round ahead
        c1, c2 = (1, 1) if correction == "no" else (1 - b1 ** t, 1 - b2 ** t)
        grown = tau / np.sqrt(c2) if correction in ("folded", "flower") else tau  # both divisions are in the rate
        return w + lr * (s["m"] / c1) / (np.sqrt(s["V"] / c2) + grown)
    return step


def flower(w, clients):
    """Flower's FedAdam, whose exponents are a round ahead and whose second moment begins at zero."""
    m = v = np.zeros_like(w)
    for t in range(1, ROUNDS + 1):
        d = mean(clients, [c.train(w) for c in clients])
        m, v = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d * d
        w = w + 0.1 * np.sqrt(1 - 0.99 ** (t + 1)) / (1 - 0.9 ** (t + 1)) * m / (np.sqrt(v) + 1e-3)
    return w


def torchs_adam(lr):
    """torch.optim.Adam on the server, whose gradient is the negative mean update."""
    def run(w, clients):
        m = v = np.zeros_like(w)
        for t in range(1, ROUNDS + 1):
            d = mean(clients, [c.train(w) for c in clients])
            m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
            w = w + lr * m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
        return w
    return run


def robust(combine):
    def run(w, clients):
        for _ in range(ROUNDS):
            w = w + combine(np.array([c.train(w) for c in clients]))
        return w
    return run


def krum(d):
    """Of three updates, none of which is byzantine: the one that is nearest to another."""
    flat = d.reshape(len(d), -1)
    apart = [sorted(np.sum((a - b) ** 2) for b in flat)[1] for a in flat]
    return d[int(np.argmin(apart))]


def nearest(d, f):
    """Every update becomes the mean of the n - f nearest to it."""
    return np.array([np.mean(sorted(d, key=lambda b: np.sum((a - b) ** 2))[: len(d) - f], axis=0) for a in d])


def weiszfeld(d):
    shares = np.array(SIZES) / sum(SIZES)
    z = sum(s * u for s, u in zip(shares, d))
    for _ in range(4):
        b = [s / max(1e-5, np.linalg.norm(z - u)) for s, u in zip(shares, d)]
        z = sum(x * u for x, u in zip(b, d)) / sum(b)
    return z


def fltrust(root):
    """The server trains on every so many-th sample."""
    def run(w, clients):
        x, y = np.vstack([c.x for c in clients])[:, :-1], np.vstack([c.y for c in clients]).argmax(1)
        own = [i * len(x) // root for i in range(root)]
        server = Client(x[own], y[own])
        for _ in range(ROUNDS):
            g, d = server.train(w), [c.train(w) for c in clients]
            trust = [max(0, np.sum(u * g) / np.linalg.norm(u) / np.linalg.norm(g)) for u in d]
            w = w + sum(t * np.linalg.norm(g) / np.linalg.norm(u) * u for t, u in zip(trust, d)) / sum(trust)
        return w
    return run


def centered(radius, steps):
    def run(w, clients):
        v = np.zeros_like(w)
        for _ in range(ROUNDS):
            d = [c.train(w) for c in clients]
            for _ in range(steps):
                v = v + np.mean([(u - v) * min(1, radius / np.linalg.norm(u - v)) for u in d], axis=0)
            w = w + v
        return w
    return run


def nova(w, clients):
    a = (STEPS - MOMENTUM * (1 - MOMENTUM ** STEPS) / (1 - MOMENTUM)) / (1 - MOMENTUM)
    for _ in range(ROUNDS):  # as many steps for all: tau_eff sum p d / a
        w = w + a * mean(clients, [c.train(w) / a for c in clients])
    return w


def scaffold(option):
    def run(w, clients):
        c, own = np.zeros_like(w), [np.zeros_like(w) for _ in clients]
        for _ in range(ROUNDS):
            updates = [k.train(w, shift=c - ck, momentum=0) for k, ck in zip(clients, own)]
            after = [k.gradient(w) for k in clients] if option == "I" else [ck - c - d / (STEPS * LR) for ck, d in zip(own, updates)]
            w = w + sum(updates) / len(clients)
            c = c + sum(new - old for new, old in zip(after, own)) / len(clients)
            own = after
        return w
    return run


def feddyn(alpha):
    def run(w, clients):
        gradients, h = [np.zeros_like(w) for _ in clients], np.zeros_like(w)  # the paper's: of the linear terms
        for _ in range(ROUNDS):
            updates = [c.train(w, pull=alpha, shift=-g, momentum=0) for c, g in zip(clients, gradients)]
            gradients = [g - alpha * d for g, d in zip(gradients, updates)]
            h = h - alpha / len(clients) * sum(updates)
            w = w + sum(updates) / len(clients) - h / alpha
        return w
    return run


def dga(beta):
    def run(w, clients):
        for _ in range(ROUNDS):
            updates, weights = [], []
            for client in clients:
                own, v, losses = w, np.zeros_like(w), []
                for _ in range(STEPS):
                    losses.append(client.loss(own))
                    v = MOMENTUM * v + client.gradient(own)
                    own = own - LR * v
                updates.append(own - w)
                weights.append(-beta * np.mean(losses))
            weights = np.exp(np.array(weights) - max(weights))
            w = w + sum(f * d for f, d in zip(weights, updates)) / sum(weights)
        return w
    return run


def simplex(v):
    """The nearest point whose coordinates are not negative and sum to 1, by bisection on what all lose."""
    low, high = min(v) - 1, max(v)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - low, 0)


def afl(gamma, mean_of_rounds):
    def run(w, clients):
        weights, models = np.full(len(clients), 1 / len(clients)), []
        for _ in range(ROUNDS):
            losses = np.array([c.loss(w) for c in clients])
            w = w + sum(f * c.train(w) for f, c in zip(weights, clients))
            weights = simplex(weights + gamma * losses)
            models.append(w)
        return np.mean(models, axis=0) if mean_of_rounds else w
    return run


def pfedme(lam, steps, lr):
    def run(w, clients):
        for _ in range(ROUNDS):
            updates = []
            for client in clients:
                x = theta = w  # as the authors' set_parameters
                for _ in range(STEPS):
                    for _ in range(steps):
                        theta = theta - lr * (client.gradient(theta) + lam * (theta - x))
                    x = x - LR * lam * (x - theta)
                updates.append(x - w)
            w = w + mean(clients, updates)
        return w
    return run


def averaged_momentum(w, clients):
    v = np.zeros_like(w)
    for _ in range(ROUNDS):
        ends = []
        for client in clients:
            own, momentum = w, v
            for _ in range(STEPS):
                momentum = MOMENTUM * momentum + client.gradient(own)
                own = own - LR * momentum
            ends.append((own - w, momentum))
        w = w + mean(clients, [d for d, _ in ends])
        v = mean(clients, [m for _, m in ends])
    return w


def local_sgd(steps, warmup=0):
    def run(w, clients):
        kept = [np.zeros_like(w) for _ in clients]
        for t in range(ROUNDS):
            ends = []
            for k, client in enumerate(clients):
                own = w
                for _ in range(1 if t < warmup else steps):
                    kept[k] = MOMENTUM * kept[k] + client.gradient(own)
                    own = own - LR * kept[k]
                ends.append(own)
            w = np.mean(ends, axis=0)
        return w
    return run


def elastic(alpha, steps, nesterov=False):
    def run(c, clients):
        x, v = [c] * len(clients), [np.zeros_like(c)] * len(clients)
        for _ in range(ROUNDS):
            gifts = [alpha * (own - c) for own in x]
            for k, client in enumerate(clients):
                for step in range(steps):
                    if nesterov:  # EAMSGD's Algorithm 2
                        v[k] = MOMENTUM * v[k] - LR * client.gradient(x[k] + MOMENTUM * v[k])
                    else:
                        v[k] = MOMENTUM * v[k] - LR * client.gradient(x[k])
                    x[k] = x[k] + v[k] - (gifts[k] if step == 0 else 0)
            c = c + sum(gifts)
        return c
    return run


def async_elastic(alpha, steps, nesterov=False):
    """Each client meets the centre as its steps end, in the order of the schedule, and goes on with what that leaves it."""
    def run(versions, clients, jobs):
        c, x, v, gift = versions[0], [versions[0]] * len(clients), [np.zeros_like(versions[0])] * len(clients), [0] * len(clients)
        for k in [int(j["client"]) for j in sorted(jobs, key=lambda j: int(j["applied"] or 10 ** 9))][:ROUNDS * 3]:
            for step in range(steps):
                v[k] = MOMENTUM * v[k] - LR * clients[k].gradient(x[k] + MOMENTUM * v[k] if nesterov else x[k])
                x[k] = x[k] + v[k] - (gift[k] if step == 0 else 0)
            gift[k] = alpha * (x[k] - c)
            c = c + gift[k]
        return c
    return run


def late(trust=lambda s: 1, mixes=False, turn=0.0, lr=1.0, pull=0.0, steps=STEPS, momentum=MOMENTUM):
    """By the schedule that a run has written: who began from which version, and which step the update is part of."""
    def run(versions, clients, jobs):
        jobs = [(int(j["client"]), int(j["start"]), int(j["applied"])) for j in jobs if j["applied"]]
        for version in range(ROUNDS * 3):
            w, d = versions[version], 0
            due = [(k, start) for k, start, applied in jobs if applied == version]
            for k, start in due:
                update = clients[k].train(versions[start], pull, momentum=momentum, steps=steps)
                g, moved = -update / LR, w - versions[start]
                update = versions[start] + update - w if mixes else update - LR * turn * g * g * moved
                d = d + trust(version - start) * update / len(due)
            versions.append(w + lr * d)
        return versions[-1]
    return run


def reach(m, s, known, limit, distance):
    """As far as m - g s goes, by bisection."""
    fits = lambda g: distance([np.sum((m - g * s - u) ** 2) for u in known]) <= limit
    low, high = 0, 1
    while fits(high):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return m - low * s


def shejwalkar(distance):
    return lambda d, known: reach(known.mean(0), known.std(0), known, max(distance([np.sum((u - v) ** 2) for v in known]) for u in known), distance)


class Mimic:
    """The furthest of the first round is copied for good."""

    def __init__(self):
        self.victim = None

    def __call__(self, d, known):
        if self.victim is None:
            flat = (known - known.mean(0)).reshape(len(known), -1)
            self.victim = int(np.argmax(np.abs(np.linalg.svd(flat, full_matrices=False)[0][:, 0])))
        return known[self.victim]


def alie(z):
    return lambda d, known: known.mean(0) - z * known.std(0)


# What attackers, the last two of five clients, make of all updates and of those that they know; a class: begun anew by each run.
FORGED = {
    "alie": alie(statistics.NormalDist().inv_cdf(2 / 3)), "alie 1.5": alie(1.5), "alie z=-2 knowledge=own": alie(-2),
    "ipm": lambda d, known: -0.5 * known.mean(0), "ipm 3": lambda d, known: -3 * known.mean(0),
    "min-max": shejwalkar(max), "min-max knowledge=own": shejwalkar(max), "min-sum": shejwalkar(sum), "min-sum knowledge=own": shejwalkar(sum),
    "mimic": Mimic, "mimic 1": lambda d, known: known[1],
}

def philox(key, counter):
    c, k, mask = list(counter), list(key), 2 ** 32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def normals(purpose, a, b, count, seed=1):
    """The first of a stream of base/rng.h, by Box and Muller."""
    key, unit = philox((seed, 0), (purpose, a, b, 0))[:2], lambda high, low: ((high << 32 | low) >> 12) + 0.5
    words = [philox(key, (i, 1, 0, 0)) for i in range(count)]
    return np.array([np.sqrt(-2 * np.log(unit(*w[:2]) / 2 ** 52)) * np.cos(2 * np.pi * unit(*w[2:]) / 2 ** 52) for w in words])


def powersgd(rank, feedback=True, compress=30):
    def run(w, clients):
        left, kept = [np.zeros_like(w) for _ in clients], [None] * len(clients)
        for t in range(ROUNDS):
            sent = []
            for k, client in enumerate(clients):
                p = client.train(w) + left[k]  # the last row are biases, which are sent as they are
                m = p[:-1].T
                q = kept[k] if kept[k] is not None else normals(compress, t + 1, k, rank * m.shape[1]).reshape(rank, -1).T
                basis = np.linalg.qr(m @ q)[0]
                q = m.T @ basis
                sent.append(np.vstack([(basis @ q.T).T, p[-1:]]))
                left[k], kept[k] = (p - sent[k], q) if feedback else (left[k], None)
            w = w + mean(clients, sent)
        return w
    return run


def dp_sgd(clip, noise, batch, draw=46, hide=47):
    """Abadi and others 2016, as Opacus has it, with --noise-key: each sample is drawn with one probability, and its gradient clipped."""
    def step(w, client, key):
        chance, drawn = min(1, batch / client.n), noise_streams.words(draw, *key, client.n // 4 + 1)
        total = np.zeros_like(w)
        for i in range(client.n):
            if drawn[i // 4, i % 4] < 2 ** 32 * chance:
                z = client.x[i] @ w
                p = np.exp(z - z.max())
                gradient = np.outer(client.x[i], p / p.sum() - client.y[i])
                total += gradient * min(1, clip / (np.linalg.norm(gradient) + 1e-6))
        drawn = noise_streams.normals(hide, *key, w.size) if noise else np.zeros(w.size)
        total += clip * noise * np.vstack([drawn[:-CLASSES].reshape(CLASSES, -1).T, drawn[-CLASSES:]])
        return total / min(batch, client.n)

    def train(w, client, t, k):
        start, v = w, np.zeros_like(w)
        for s in range(STEPS * -(-client.n // batch)):
            v = MOMENTUM * v + step(w, client, (t + 1, k, s))
            w = w - LR * v
        return w - start

    def run(w, clients):
        for t in range(ROUNDS):
            w = w + mean(clients, [train(w, client, t, k) for k, client in enumerate(clients)])
        return w
    return run


def coded(code):
    """Codes that draw nothing, with what they leave over, on each of the two tensors."""
    def run(w, clients):
        left = [np.zeros_like(w) for _ in clients]
        for _ in range(ROUNDS):
            sent = []
            for k, client in enumerate(clients):
                p = client.train(w) + left[k]
                sent.append(np.vstack([code(p[:-1]), code(p[-1:])]))
                left[k] = p - sent[k]
            w = w + mean(clients, sent)
        return w
    return run


def largest(share):
    return lambda x: np.where(np.abs(x) >= np.sort(np.abs(x).reshape(-1))[-int(np.ceil(share * x.size))], x, 0)


ALGORITHMS = {
    "fedavg": averaged(), "fedavg weights=uniform": averaged(weights="uniform"), "fedavg weights=sqrt": averaged(weights="sqrt"),
    "fedavg weights=log": averaged(weights="log"), "server average lr=0.5": averaged(lambda w, d, s: w + 0.5 * d),
    "fedavgm beta=0.8 lr=0.7": averaged(momentum_step(0.8, 0.7)),
    "fedavgm beta=0.8 nesterov=yes": averaged(momentum_step(0.8, 1, True)),
    "fedadagrad": averaged(adaptive("adagrad", 0.1)), "fedadagrad tau=0.1": averaged(adaptive("adagrad", 0.1, 0.1)),
    "fedadam": averaged(adaptive("adam", 0.1)),
    "fedyogi": averaged(adaptive("yogi", 0.01)),
    **{f"fedyogi bias-correction={c}": averaged(adaptive("yogi", 0.01, correction=c)) for c in ("yes", "folded", "flower")},
    "fedyogi bias-correction=flower start=0.01": averaged(adaptive("yogi", 0.01, start=0.01, correction="flower")),
    "bmuf": averaged(momentum_step(1 - 1 / 3, 1)),
    "fedprox mu=0.3": averaged(pull=0.3), "fednova": nova,
    "afl": afl(0.1, True), "combine afl gamma=3": afl(3, False),
    "dga": dga(1), "dga beta=5": dga(5), "dga beta=1000": dga(1000),
    "median": robust(lambda d: np.median(d, axis=0)), "trimmed 0.34": robust(lambda d: np.sort(d, axis=0)[1:-1].mean(axis=0)),
    "krum 0": robust(krum), "mix nearest 1; combine trimmed 0": robust(lambda d: nearest(d, 1).mean(axis=0)),
    "mix nearest 1; combine mean uniform": robust(lambda d: nearest(d, 1).mean(axis=0)),
    "mix nearest 1; combine median": robust(lambda d: np.median(nearest(d, 1), axis=0)),
    "rfa": robust(weiszfeld), "centered-clipping radius=0.3": centered(0.3, 1), "centered-clipping radius=0.3 steps=3": centered(0.3, 3),
    "fltrust 30": fltrust(30), "fltrust root=7": fltrust(7),
    "powersgd rank=2": powersgd(2), "powersgd rank=1": powersgd(1), "powersgd feedback=no": powersgd(2, False), "powersgd rank=9": averaged(),
    "top-k 0.3 per=tensor": coded(largest(0.3)), "ef-sgd per=tensor": coded(lambda x: np.where(x < 0, -1, 1) * np.abs(x).mean()),
    "signsgd lr=0.05": robust(lambda d: 0.05 * np.sign(np.sign(d).sum(axis=0))),
    "norm-bound 0.4": robust(lambda d: np.mean([u * min(1, 0.4 / np.linalg.norm(u)) for u in d], axis=0)),
}
DP_SGD = {"clip=2 noise=0": 100, "clip=0.3 noise=0": 100, "clip=1 noise=0.7": 100, "clip=1 noise=0": 8, "clip=0.5 noise=1.1": 8}  # batches of
THEIRS = {  # what tools/from.md gives for other frameworks' optimizers
    "fedadam lr=0.1 tau=0.001 bias-correction=flower start=0": flower,
    "fedyogi lr=0.01 start=0": averaged(adaptive("yogi", 0.01, start=0)),
    "fedadagrad lr=0.1 start=0": averaged(adaptive("adagrad", 0.1, start=0)),
    "server adam lr=0.1 beta2=0.999 tau=1e-8 bias-correction=yes": torchs_adam(0.1),
    "fedavgm beta=0.9": averaged(momentum_step(0.9, 1)), "fedprox mu=0.1": averaged(pull=0.1),
}
DATA_PARALLEL = {  # what it gives for DistributedDataParallel: the optimizer of torch.optim on the mean gradient
    "schedule rounds steps=1; combine mean uniform; server adam lr=0.001 beta2=0.999 tau=1e-8 bias-correction=yes": ("Adam", {"lr": 0.001}),
    "schedule rounds steps=1; combine mean uniform; server momentum beta=0.9 lr=0.1 nesterov=yes": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
}
WITHOUT_MOMENTUM = {"scaffold": scaffold("II"), "scaffold option=I": scaffold("I"), "feddyn alpha=0.1": feddyn(0.1)}
BY_STEPS = {"easgd steps=3": elastic(0.3, 3), "easgd alpha=0.5 steps=2": elastic(0.5, 2), "eamsgd alpha=0.2 steps=4": elastic(0.2, 4, True),
            "local-sgd": local_sgd(4), "local-sgd steps=7": local_sgd(7), "post-local-sgd steps=3 warmup=2": local_sgd(3, 2)}
LATE = {"fedbuff K=2": late(lambda s: (1 + s) ** -0.5), "fedbuff K=2; stale hinge a=2 b=1": late(lambda s: 1 if s <= 1 else 1 / (2 * (s - 1) + 1)),
        "fedasync": late(lambda s: (1 + s) ** -0.5, mixes=True, lr=0.6, pull=0.005),
        "asgd": late(steps=1), "downpour steps=2": late(steps=2), "staleness-aware": late(lambda s: 1 / max(s, 1), steps=1),
        "async-easgd steps=3": async_elastic(0.3, 3), "async-eamsgd alpha=0.2 steps=4": async_elastic(0.2, 4, True),
        "dc-asgd": late(turn=0.04, steps=1), "dc-asgd lambda=20": late(turn=20, steps=1), "dc-asgd lambda=3; server average lr=0.7": late(turn=3, steps=1, lr=0.7)}
