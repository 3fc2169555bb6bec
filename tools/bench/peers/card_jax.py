"""JAX on a card: MODELS clients at once by jax.vmap, steps in a row by lax.scan, everything in the card's memory, fp32; a line for each
of --nets. As a federated simulation is written in JAX in forty lines. Needs no PyTorch.
"""
import argparse, json, time

import jax
import jax.numpy as jnp
from jax import lax, random

STEPS = 16  # of one call
NETS = {"softmax": ["linear 10"], "2nn": ["linear 200", "relu", "linear 200", "relu", "linear 10"],
        "lenet": ["conv 10 5 VALID", "pool", "relu", "conv 20 5 VALID", "dropout", "pool", "relu", "linear 50", "relu", "dropout", "linear 10"],
        "cnn": ["conv 32 5 SAME", "relu", "pool", "conv 64 5 SAME", "relu", "pool", "linear 512", "relu", "linear 10"]}


def layer_shapes(net):
    """Weight and bias shapes of each layer with parameters, for samples of 1x28x28."""
    channels, side, features = 1, 28, None
    for layer in NETS[net]:
        kind, *numbers = layer.split()
        if kind == "conv":
            out, kernel = int(numbers[0]), int(numbers[1])
            yield (out, channels, kernel, kernel), (out,)
            channels, side = out, side if numbers[2] == "SAME" else side - kernel + 1
        elif kind == "pool":
            side //= 2
        elif kind == "linear":
            features = features or channels * side * side
            yield (features, int(numbers[0])), (int(numbers[0]),)
            features = int(numbers[0])


def start(net, key):
    weights = []
    for weight, bias in layer_shapes(net):
        key, one, two = random.split(key, 3)
        bound = (weight[0] if len(weight) == 2 else weight[1] * weight[2] * weight[3]) ** -0.5
        weights.append((random.uniform(one, weight, minval=-bound, maxval=bound), random.uniform(two, bias, minval=-bound, maxval=bound)))
    return weights


def logits(net, weights, x, key):
    weights = iter(weights)
    for number, layer in enumerate(NETS[net]):
        kind, *numbers = layer.split()
        if kind == "conv":
            weight, bias = next(weights)
            x = lax.conv_general_dilated(x, weight, (1, 1), numbers[2]) + bias[:, None, None]
        elif kind == "pool":
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        elif kind == "relu":
            x = jax.nn.relu(x)
        elif kind == "dropout":  # of whole channels where there are some
            shape = x.shape[:2] + (1,) * (x.ndim - 2)
            x = jnp.where(random.bernoulli(random.fold_in(key, number), 0.5, shape), 2 * x, 0)
        else:
            weight, bias = next(weights)
            x = x.reshape(len(x), -1) @ weight + bias
    return x


def loss(weights, net, x, y, key):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits(net, weights, x, key)), y[:, None], 1))


def training(net, images, labels, lr, momentum):
    """STEPS steps of all models as one compiled call."""
    def step(state, drawn):
        weights, speeds = state
        chosen, key = drawn
        x = (images[chosen].astype(jnp.float32) / 255 - 0.1307) / 0.3081
        slopes = jax.grad(loss)(weights, net, x, labels[chosen], key)
        speeds = jax.tree.map(lambda speed, slope: momentum * speed + slope, speeds, slopes)
        return (jax.tree.map(lambda weight, speed: weight - lr * speed, weights, speeds), speeds), None

    def epoch(weights, speeds, chosen, keys):
        return lax.scan(step, (weights, speeds), (chosen, keys))[0]

    return jax.jit(jax.vmap(epoch), donate_argnums=(0, 1))


def measure(options, net, batch, models):
    key = random.PRNGKey(1)
    images = random.randint(key, (options.samples, 1, 28, 28), 0, 256, dtype=jnp.uint8)
    labels = random.randint(key, (options.samples,), 0, 10)
    weights = jax.vmap(lambda one: start(net, one))(random.split(key, models))
    speeds = jax.tree.map(jnp.zeros_like, weights)
    chosen = random.randint(key, (models, STEPS, batch), 0, options.samples)
    keys = jax.vmap(lambda one: random.split(one, STEPS))(random.split(key, models))
    train = training(net, images, labels, 0.01, 0.5)
    weights, speeds = jax.block_until_ready(train(weights, speeds, chosen, keys))
    calls = max(2, options.samples // (models * STEPS * batch))
    begin = time.perf_counter()
    for _ in range(calls):
        weights, speeds = train(weights, speeds, chosen, keys)
    jax.block_until_ready(weights)
    seconds, samples = time.perf_counter() - begin, calls * models * STEPS * batch
    print(json.dumps({"jax": jax.__version__, "peer": "JAX, vmap and scan", "net": net, "batch": batch, "models": models, "seconds": seconds,
                      "samples": samples, "samples_per_second": samples / seconds}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=["jax"], default="jax")
    parser.add_argument("--nets", nargs="+", default=["lenet:64:32"], metavar="NET:BATCH:MODELS")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    jax.config.update("jax_platforms", options.device)
    jax.config.update("jax_default_matmul_precision", "float32")
    for text in options.nets:
        net, batch, models = text.split(":")
        measure(options, net, int(batch), int(models))


if __name__ == "__main__":
    main()
