"""FedAvg in JAX on the CPU, a round compiled as a whole: lax.scan over clients and over their steps. Equal shares only.

The strongest peer for small nets: XLA trains 2nn as fast as Sounder does. The first round holds the compilation.
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax, numpy as np
from jax import lax, numpy as jnp

import federation

SHAPES = {"2nn": [(784, 200), (200, 200), (200, 10)], "lenet": [(5, 5, 1, 10), (5, 5, 10, 20), (320, 50), (50, 10)]}


def begin(key, model):
    """PyTorch's default: uniform in +-1/sqrt(inputs), biases too."""
    weights = []
    for shape in SHAPES[model]:
        bound = np.prod(shape[:-1]) ** -0.5
        key, of_weight, of_bias = jax.random.split(key, 3)
        weights.append((jax.random.uniform(of_weight, shape, minval=-bound, maxval=bound),
                        jax.random.uniform(of_bias, shape[-1:], minval=-bound, maxval=bound)))
    return weights


def convolve(x, weight, bias):
    return lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias


def pool(x):
    n, rows, columns, channels = x.shape
    return x.reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))


def drop(x, key, shape):
    return x if key is None else x * jax.random.bernoulli(key, 0.5, shape) * 2


def forward(weights, x, key=None):
    """key: of dropout; None: a test."""
    keys = (None, None) if key is None else jax.random.split(key)
    if len(weights) == 4:
        x = jax.nn.relu(pool(convolve(x[..., None], *weights[0])))
        x = convolve(x, *weights[1])
        x = jax.nn.relu(pool(drop(x, keys[0], (len(x), 1, 1, x.shape[3]))))
    x = x.reshape(len(x), -1)
    for weight, bias in weights[-3 if len(weights) == 3 else -2 : -1]:
        x = jax.nn.relu(x @ weight + bias)
    if len(weights) == 4:
        x = drop(x, keys[1], x.shape)
    return x @ weights[-1][0] + weights[-1][1]


def loss(weights, x, y, key):
    return -jnp.take_along_axis(jax.nn.log_softmax(forward(weights, x, key)), y[:, None], 1).mean()


def make_round(lr):
    def client(weights, x, y, order, key):
        def step(weights, at):
            batch, key = at
            slope = jax.grad(loss)(weights, x[batch], y[batch], key)
            return jax.tree.map(lambda w, g: w - lr * g, weights, slope), None
        return lax.scan(step, weights, (order, jax.random.split(key, len(order))))[0]

    @jax.jit
    def train(weights, x, y, orders, keys):
        def one(total, at):
            return jax.tree.map(jnp.add, total, client(weights, x, y, *at)), None
        total, _ = lax.scan(one, jax.tree.map(jnp.zeros_like, weights), (orders, keys))
        return jax.tree.map(lambda w: w / len(orders), total)
    return train


def main():
    options = federation.options(__doc__)
    if options.partition != "iid" or options.epochs != 1:
        raise SystemExit("jax_fedavg.py: --partition iid (it would compile clients of other sizes again) and --epochs 1 alone")
    x, y = map(jnp.asarray, federation.load(options.data, "train"))
    test_x, test_y = map(jnp.asarray, federation.load(options.data, "t10k"))
    parts = np.stack(federation.deal(np.asarray(y), options.clients, "iid", 0, options.seed))
    rng, train = np.random.default_rng(options.seed), make_round(options.lr)
    accuracy = jax.jit(lambda weights: (forward(weights, test_x).argmax(1) == test_y).mean())
    weights, times = begin(jax.random.PRNGKey(options.seed), options.model), [federation.now()]
    for number in range(options.rounds):
        cohort = rng.choice(options.clients, options.clients_per_round, replace=False)
        orders = np.stack([rng.permutation(parts[client]).reshape(-1, options.batch_size) for client in cohort])
        weights = train(weights, x, y, orders, jax.random.split(jax.random.PRNGKey(1000 + number), len(cohort)))
        hits = float(accuracy(weights))
        times.append(federation.now())
    federation.say("jax", times, hits)


if __name__ == "__main__":
    main()
