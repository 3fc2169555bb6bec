"""FedAvg in JAX on one core, without a test: the rounds of jax_fedavg.py, one line each. The first holds the compilation."""
import json, os, time

os.environ["JAX_PLATFORMS"] = "cpu"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX counts the cores

import jax, numpy as np
from jax import numpy as jnp

import federation
from jax_fedavg import begin, make_round


def main():
    options = federation.options(__doc__, started=0.0)
    x, y = map(jnp.asarray, federation.load(options.data, "train"))
    parts = np.stack(federation.deal(np.asarray(y), options.clients, "iid", 0, options.seed))
    rng, train = np.random.default_rng(options.seed), make_round(options.lr)
    weights = begin(jax.random.PRNGKey(options.seed), options.model)
    for number in range(options.rounds + 1):
        start = time.perf_counter()
        cohort = rng.choice(options.clients, options.clients_per_round, replace=False)
        orders = np.stack([rng.permutation(parts[client]).reshape(-1, options.batch_size) for client in cohort])
        weights = train(weights, x, y, orders, jax.random.split(jax.random.PRNGKey(1000 + number), len(cohort)))
        jax.block_until_ready(weights)
        seconds = time.perf_counter() - start
        print(json.dumps({"peer": "jax", "samples": orders.size, "seconds": seconds, "samples_per_second": orders.size / seconds}),
              flush=True)


if __name__ == "__main__":
    main()
