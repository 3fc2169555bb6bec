"""FedAvg in a simulation of Flower (Ray's backend), one CPU and one thread of PyTorch a client, data in memory of each actor."""
import functools, os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import federation
from common import NETS, arrays_of, evaluate, federated_tensors, train_steps

client_app, server_app = ClientApp(), ServerApp()


@functools.lru_cache
def tensors(folder, split):
    return federated_tensors(folder, split)


@functools.lru_cache
def parts(folder, clients, partition, alpha, seed):
    return federation.deal(tensors(folder, "train")[1].numpy(), clients, partition, alpha, seed)


@functools.lru_cache
def scratch(model):
    torch.set_num_threads(1)
    return NETS[model]()


@client_app.train()
def train(message, context):
    config, model = message.content["config"], scratch(message.content["config"]["model"])
    x, y = tensors(config["data"], "train")
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    own = parts(config["data"], config["clients"], config["partition"], config["alpha"], config["seed"])
    own = torch.from_numpy(own[context.node_config["partition-id"]])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    for _ in range(config["epochs"]):
        train_steps(model, optimizer, x, y, own[torch.randperm(len(own))], config["batch_size"])
    answer = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(own)})}
    return Message(content=RecordDict(answer), reply_to=message)


@server_app.main()
def serve(grid, context):
    options, times, last = federation.options(__doc__), [], [0]
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    model, test = NETS[options.model](), tensors(options.data, "t10k")

    def tested(number, arrays):
        model.load_state_dict(arrays.to_torch_state_dict())
        _, last[0] = evaluate(model, *test)
        times.append(federation.now())
        return MetricRecord({"accuracy": last[0]})

    strategy = FedAvg(fraction_train=options.clients_per_round / options.clients, fraction_evaluate=0.0, min_train_nodes=1,
                      min_available_nodes=options.clients)
    strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=options.rounds, evaluate_fn=tested,
                   train_config=ConfigRecord(vars(options)))
    federation.say("flower", times, last[0], arrays_of(model))


def main():
    resources = {"init_args": {"num_cpus": federation.options(__doc__).processes, "logging_level": "ERROR", "log_to_driver": False},
                 "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=federation.options(__doc__).clients, backend_config=resources)


if __name__ == "__main__":
    import flower_fedavg  # so that Ray's actors find the apps by name, and keep their data from message to message

    flower_fedavg.main()
