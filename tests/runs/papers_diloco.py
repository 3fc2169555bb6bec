"""DiLoCo's family in NumPy, written from the papers, for test_references.py: replicas step by AdamW on full batches."""
import numpy as np

import papers

ROUNDS, RATE = 7, 0.02


class Replica:
    """A client with AdamW's moments, which stay from turn to turn, as torch.optim.AdamW has them with its decay of 0.01."""

    def __init__(self, client, w):
        self.client, self.w, self.m, self.v, self.t = client, w, 0, 0, 0

    def steps(self, count):
        for _ in range(count):
            g, self.t = self.client.gradient(self.w), self.t + 1
            self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g * g
            self.w = self.w * (1 - 0.01 * RATE) - RATE * self.m / (1 - 0.9 ** self.t) / (np.sqrt(self.v / (1 - 0.999 ** self.t)) + 1e-8)
        return self.w


def nesterov(v, d):
    """The momentum after a step, and the step."""
    v = 0.9 * v + d
    return v, 0.7 * (d + 0.9 * v)


def diloco(steps):
    def run(w, clients):
        replicas, v = [Replica(client, w) for client in clients], 0
        for _ in range(ROUNDS):
            for replica in replicas:
                replica.w = w
            v, step = nesterov(v, np.mean([replica.steps(steps) - w for replica in replicas], axis=0))
            w = w + step
        return w
    return run


def async_diloco(steps):
    """Liu and others 2024, Algorithm 3, with as many arrivals per step of the momentum as there are replicas, whose AdamW begins anew."""
    def run(versions, clients, jobs):
        own, momentum, waits, count = {}, 0, 0, len(clients)
        for number, job in enumerate(sorted((j for j in jobs if j["applied"]), key=lambda j: int(j["applied"]))[:ROUNDS * count], 1):
            begun = versions[int(job["start"])]
            d = Replica(clients[int(job["client"])], begun).steps(steps) - begun
            waits, step = waits + d, 0.7 * d / count
            if number % count == 0:
                momentum, waits = 0.9 * momentum + waits / count, 0
                step = step + 0.7 * 0.9 * momentum
            versions.append(versions[-1] + step)
        return versions[-1]
    return run


def each_tensor(code):
    """Of the net's two tensors, as the engine has them: weights by class, then biases."""
    def run(x):
        return np.vstack([code(x[:-1].T.ravel()).reshape(x[:-1].T.shape).T, code(x[-1])])
    return run


def float4(x):
    values = np.abs(x).max() * np.array([0, *2.0 ** np.arange(-6, 1)])
    return np.copysign(values[len(values) - 1 - np.argmin(np.abs(np.abs(x)[..., None] - values[::-1]), axis=-1)], x)


def sparse(share, chunk, bits=2):
    def run(x):
        sent = np.zeros_like(x)
        for first in range(0, len(x), chunk):
            part = x[first:first + chunk]
            places = np.argsort(-np.abs(part), kind="stable")[:int(np.ceil(share * len(part)))]
            values = np.abs(part).max() * np.linspace(-1, 1, 2 ** bits)
            sent[first + places] = values[np.abs(part[places, None] - values).argmin(axis=1)]
        return sent
    return run


def fed_back(code, decay, steps, shares=None):
    """SparseLoCo: what is not sent joins the next update, and the mean of what is sent is the step."""
    def run(w, clients):
        replicas, left = [Replica(client, w) for client in clients], [0] * len(clients)
        for _ in range(ROUNDS):
            sent = []
            for k, replica in enumerate(replicas):
                replica.w = w
                given = decay * left[k] + replica.steps(steps) - w
                sent.append(code(given))
                left[k] = given - sent[k]
            w = w + np.mean(sent, axis=0)
        return w
    return run


DILOCO = {
    "diloco H=4": diloco(4),
    "sparseloco H=3 share=0.3 chunk=16 per=tensor": fed_back(each_tensor(sparse(0.3, 16)), 0.95, 3),
    "sparseloco H=2 share=0.2 bits=4 decay=0.5 per=tensor": fed_back(each_tensor(sparse(0.2, 4096, 4)), 0.5, 2),
    "sparseloco H=3; send float4 feedback=yes decay=0.5": fed_back(each_tensor(float4), 0.5, 3),
}
ASYNC_DILOCO = {"async-diloco H=3": async_diloco(3)}


def streaming(steps, delay, mix, of):
    """Streaming DiLoCo, of a net of torch's in double: fragment number of[t] has tensor t, and of them one travels in each round."""
    def run(net, clients, rounds):
        import torch
        tensors, count = [p.detach() for p in net.parameters()], max(of) + 1
        replicas, momentum = [Streamer(net, client) for client in clients], [0 for _ in tensors]
        for number in range(rounds):
            begin, end = number * steps // count, (number + 1) * steps // count
            for replica in replicas:
                for step in range(end - begin + 1):
                    if number > 0 and step == delay:  # what the server has made of the fragment that was given last
                        for t in (t for t in range(len(of)) if of[t] == (number - 1) % count):
                            replica.w[t] = mix * replica.w[t] + (1 - mix) * tensors[t]
                    if step < end - begin:
                        replica.step()
            for t in (t for t in range(len(of)) if of[t] == number % count):
                momentum[t], moved = nesterov(momentum[t], torch.stack([replica.w[t] - tensors[t] for replica in replicas]).mean(0))
                tensors[t] = tensors[t] + moved
        return tensors
    return run


class Streamer:
    """A replica of a net of torch's, which steps by AdamW on a full batch."""

    def __init__(self, net, client):
        import torch
        self.net, self.w, self.m, self.v, self.t = net, [p.detach() for p in net.parameters()], 0, 0, 0
        self.x, self.y = torch.tensor(client.x[:, :-1]), torch.tensor(client.y.argmax(1))

    def step(self):
        import torch
        own = [w.clone().requires_grad_() for w in self.w]
        names = [name for name, _ in self.net.named_parameters()]
        loss = torch.nn.functional.cross_entropy(torch.nn.utils.stateless.functional_call(self.net, dict(zip(names, own)), (self.x,)), self.y)
        g, self.t = torch.autograd.grad(loss, own), self.t + 1
        self.m = [0.9 * m + 0.1 * h for m, h in zip(self.m or [0] * len(g), g)]
        self.v = [0.999 * v + 0.001 * h * h for v, h in zip(self.v or [0] * len(g), g)]
        self.w = [w * (1 - 0.01 * RATE) - RATE * m / (1 - 0.9 ** self.t) / ((v / (1 - 0.999 ** self.t)).sqrt() + 1e-8)
                  for w, m, v in zip(self.w, self.m, self.v)]


THIRDS, HALVES, WHOLE = [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1], [0] * 6  # by module: 156, 35 and 24 weights
STREAMING = {
    "streaming-diloco H=7": streaming(7, 2, 0.5, THIRDS), "streaming-diloco H=6 delay=0": streaming(6, 0, 0, THIRDS),
    "streaming-diloco H=9 delay=1 mix=0.2 fragments=2": streaming(9, 1, 0.2, HALVES),
    "streaming-diloco H=4 delay=4 mix=0.7 fragments=1": streaming(4, 4, 0.7, WHOLE),
}


def lives(client, mtbf, repair, seed=1, purpose=20, stream=2):
    """When a client fails and when it works again, in microseconds, without an end (rules/world/failures.h)."""
    key, at, number = papers.philox((seed, 0), (purpose, 0, client, stream))[:2], 0, 0
    while True:
        high, low = papers.philox(key, (number, 0, 0, 0))[:2]
        at += 1 + round(-1e6 * mtbf * np.log1p(-(high << 21 | low >> 11) / 2 ** 53))
        yield at, at + round(1e6 * repair)
        at, number = at + round(1e6 * repair), number + 1


def failing(steps, mtbf, repair, lost):
    """local-sgd, turns of a second, with what its rounds tell."""
    def run(w, clients, rounds):
        kept, told, now = [np.zeros_like(w) for _ in clients], [], 0
        for _ in range(rounds):
            times = [[next(life) for _ in range(60)] for life in (lives(k, mtbf, repair) for k in range(len(clients)))]
            up = [k for k in range(len(clients)) if not any(fails <= now < over for fails, over in times[k])]
            ends = {k: min([fails - now for fails, _ in times[k] if fails > now] + [10 ** 6]) for k in up}
            arrived = [k for k in up if ends[k] == 10 ** 6]
            for_all = max(ends.values()) if up else min(over for of in times for fails, over in of if fails <= now < over) - now
            moved = []
            for k in arrived:
                own = w
                for _ in range(steps):
                    kept[k] = papers.MOMENTUM * kept[k] + clients[k].gradient(own)
                    own = own - papers.LR * kept[k]
                moved.append(own)
            w = np.mean(moved, axis=0) if moved else w
            for k in range(len(clients)):
                if lost and any(now < fails <= now + for_all for fails, _ in times[k]):
                    kept[k] = np.zeros_like(w)
            now += for_all
            told.append((len(arrived), len(up) - len(arrived), len(clients) - len(up), for_all / 1e6, len(arrived), len(clients) * for_all / 1e6))
        return w, told
    return run
