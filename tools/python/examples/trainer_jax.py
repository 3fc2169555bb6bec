"""JAX trains the clients: gradients of a pure function, compiled once, of a dict of arrays.

    sounder train --trainer "python3 tools/python/examples/trainer_jax.py" --data fashion-mnist --clients 100
"""
import jax
import jax.numpy as jnp
import numpy as np
import sounder

net = {}


def make_net(data):
    rng, inputs = np.random.default_rng(0), int(np.prod(data.shape))
    net.update(hidden=rng.normal(0, inputs**-0.5, (inputs, 32)).astype(np.float32), hidden_bias=np.zeros(32, np.float32),
               out=rng.normal(0, 32**-0.5, (32, data.classes)).astype(np.float32), out_bias=np.zeros(data.classes, np.float32))
    return net


def loss_and_hits(weights, x, y):
    hidden = jnp.tanh(x.reshape(len(x), -1) @ weights["hidden"] + weights["hidden_bias"])
    logs = jax.nn.log_softmax(hidden @ weights["out"] + weights["out_bias"])
    return -logs[jnp.arange(len(y)), y].mean(), (logs.argmax(1) == y).sum()


learn = jax.jit(jax.value_and_grad(loss_and_hits, has_aux=True))  # a batch of another size is compiled once more
evaluate = jax.jit(loss_and_hits)

for turn in sounder.turns(make_net):
    velocity = {name: np.zeros_like(value) for name, value in net.items()}
    for x, y in turn.batches():
        if turn.trains:
            (loss, hits), slopes = learn(net, x, y)
            slopes = {name: np.array(value) for name, value in slopes.items()}  # arrays of JAX cannot change
            turn.correct(slopes)  # what --algorithm adds
            for name, value in net.items():
                velocity[name] = turn.momentum * velocity[name] + slopes[name]
                value -= np.float32(turn.lr) * velocity[name]
        else:
            loss, hits = evaluate(net, x, y)
        turn.add(float(loss), len(y), hits=int(hits))
    turn.hand_in()
