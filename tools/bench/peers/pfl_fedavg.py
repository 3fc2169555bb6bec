"""FedAvg in Apple's pfl-research (SimulatedBackend), one thread of PyTorch a process.

torchrun --standalone --nproc-per-node 2 pfl_fedavg.py ... shares the cohort between two processes (gloo).
"""
import os

os.environ.setdefault("PFL_PYTORCH_DEVICE", "cpu")

import numpy as np, torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops.selector import get_framework_module
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional

import federation
from common import NETS, arrays_of, evaluate, federated_tensors


class Classifier(torch.nn.Module):
    """What pfl asks of a model."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def loss(self, x, y, eval=False):
        self.train()
        return functional.nll_loss(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        return {"loss": Weighted(functional.nll_loss(self.net(x), y, reduction="sum").item(), len(y))}


class Test(TrainingProcessCallback):
    def __init__(self, images, labels):
        self.images, self.labels, self.times, self.accuracy = images, labels, [], 0

    def on_train_begin(self, *, model):
        self.times.append(federation.now())
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        _, self.accuracy = evaluate(model.pytorch_model.net, self.images, self.labels)
        self.times.append(federation.now())
        return False, Metrics()


def main():
    options = federation.options(__doc__)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    x, y = federated_tensors(options.data, "train")
    parts = [torch.from_numpy(part) for part in
             federation.deal(y.numpy(), options.clients, options.partition, options.alpha, options.seed)]

    def user(number):
        order = parts[number][torch.randperm(len(parts[number]))]
        return Dataset((x[order], y[order]), user_id=str(number))

    users = FederatedDataset(user, get_user_sampler("minimize_reuse", list(range(options.clients))))
    net = Classifier(NETS[options.model]())
    model = PyTorchModel(net, local_optimizer_create=torch.optim.SGD, central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0))
    backend = SimulatedBackend(training_data=users, val_data=users, postprocessors=[WeightByDatapoints()])
    test = Test(*federated_tensors(options.data, "t10k"))
    FederatedAveraging().run(
        NNAlgorithmParams(central_num_iterations=options.rounds, evaluation_frequency=10**9,
                          train_cohort_size=options.clients_per_round, val_cohort_size=0),
        backend, model, NNTrainHyperParams(local_num_epochs=options.epochs, local_learning_rate=options.lr, local_batch_size=options.batch_size),
        NNEvalHyperParams(local_batch_size=1000), callbacks=[test])
    if get_framework_module().distributed.global_rank == 0:
        federation.say("pfl", test.times, test.accuracy, arrays_of(net.net))


if __name__ == "__main__":
    main()
