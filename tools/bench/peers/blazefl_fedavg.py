"""FedAvg in BlazeFL 2 with its pool of processes and shared memory; each client's samples are a file, as in its own benchmark."""
import os, tempfile
from pathlib import Path

import torch
from blazefl.contrib import FedAvgBaseServerHandler, FedAvgPartitionType, FedAvgProcessPoolClientTrainer
from blazefl.core import IPCMode
from torch.utils.data import DataLoader, TensorDataset

import federation
from common import NETS, arrays_of, federated_tensors


class Selector:
    def select_model(self, model_name):
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
            return NETS[model_name]()


class Files:
    def __init__(self, folder):
        self.folder = folder

    def path(self, type_, cid):
        return os.path.join(self.folder, "test.pkl" if type_ == FedAvgPartitionType.TEST else f"{cid}.pkl")

    def get_dataset(self, type_, cid):
        return torch.load(self.path(type_, cid), weights_only=False)

    def set_dataset(self, type_, cid, dataset):
        torch.save(dataset, self.path(type_, cid))

    def get_dataloader(self, type_, cid, batch_size=None, generator=None):
        testing = type_ == FedAvgPartitionType.TEST
        return DataLoader(self.get_dataset(type_, cid), batch_size=1000 if testing else batch_size, shuffle=not testing, generator=generator)


def main():
    options = federation.options(__doc__)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        x, y = federated_tensors(options.data, "train")
        files = Files(folder)
        for cid, part in enumerate(federation.deal(y.numpy(), options.clients, options.partition, options.alpha, options.seed)):
            files.set_dataset(FedAvgPartitionType.TRAIN, cid, TensorDataset(x[part], y[part]))
        files.set_dataset(FedAvgPartitionType.TEST, None, TensorDataset(*federated_tensors(options.data, "t10k")))
        shared = dict(model_selector=Selector(), model_name=options.model, dataset=files, num_clients=options.clients, device="cpu",
                      batch_size=options.batch_size, seed=options.seed)
        server = FedAvgBaseServerHandler(global_round=options.rounds, sample_ratio=options.clients_per_round / options.clients, **shared)
        trainer = FedAvgProcessPoolClientTrainer(share_dir=Path(folder, "share"), state_dir=Path(folder, "state"), epochs=options.epochs,
                                                 lr=options.lr, num_parallels=options.processes, ipc_mode=IPCMode.SHARED_MEMORY, **shared)
        times, accuracy = [federation.now()], 0
        while not server.if_stop():
            clients = server.sample_clients()
            trainer.local_process(server.downlink_package(), clients)
            for package in trainer.uplink_package():
                server.load(package)
            accuracy = server.get_summary()["server_acc"]
            times.append(federation.now())
        federation.say("blazefl", times, accuracy, arrays_of(server.model))


if __name__ == "__main__":
    main()
