"""The fastest plain loop on one core: one process, one thread, the whole data set in memory as normalised floats.

Trains --samples samples a round and then evaluates the 10,000 test images; reports both rates.
"""
import time

import torch

from common import NETS, arguments, evaluate, layers_of, load_normalised, say, sgd, train_steps

WARM_UP_BATCHES = 20


def main():
    options = arguments(__doc__)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = load_normalised(options.data, "train")
    test = load_normalised(options.data, "t10k")
    model = layers_of(options.layers, images.shape[1:]) if options.layers else NETS[options.model]()
    optimizer = sgd(options, model)
    warm_up = torch.randperm(len(labels))[: WARM_UP_BATCHES * options.batch_size]
    train_steps(model, optimizer, images, labels, warm_up, options.batch_size)
    evaluate(model, *(tensor[:1000] for tensor in test))
    for number in range(options.rounds):
        start = time.perf_counter()
        order = torch.randperm(len(labels))[: options.samples]
        train_steps(model, optimizer, images, labels, order, options.batch_size)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        loss, accuracy = evaluate(model, *test)
        evaluation_seconds = time.perf_counter() - start
        say(peer="tuned", model=options.layers or options.model, round=number + 1, test_loss=loss, test_accuracy=accuracy,
            seconds=seconds, samples=len(order), samples_per_second=len(order) / seconds,
            evaluated_per_second=len(test[1]) / evaluation_seconds)


if __name__ == "__main__":
    main()
