"""Five Flower apps in the documented form, with made-up data: write(FOLDER, NAME) makes the folder of one, as `flwr new` lays it out."""
import os

PROJECT = '''[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = ["flwr[simulation]>=1.41", "numpy"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 5
fraction-evaluate = 1.0
local-epochs = 1
learning-rate = 0.1
batch-size = 20
'''

# Clients have 20, 30, 40, ... samples of three classes.
DATA = '''
import numpy as np

def load_data(partition_id: int, num_partitions: int):
    rng = np.random.default_rng(partition_id)
    centers = np.random.default_rng(99).normal(0, 1, (3, 8))
    y = rng.integers(0, 3, 20 + 10 * partition_id)
    x = (centers[y] + rng.normal(0, 1, (len(y), 8))).astype(np.float32)
    cut = len(y) * 4 // 5
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])
'''

SERVER = '''
import os
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx
from {name}.task import first_weights

app = ServerApp()

@app.main()
def main(grid: Grid, context: Context) -> None:
    """Main entry point for the ServerApp."""
    fraction_evaluate: float = context.run_config["fraction-evaluate"]
    num_rounds: int = context.run_config["num-server-rounds"]
    lr: float = context.run_config["learning-rate"]
    arrays = ArrayRecord(first_weights())
    strategy = {strategy}
    result = strategy.start(grid=grid, initial_arrays=arrays, train_config=ConfigRecord({{"lr": lr}}), num_rounds=num_rounds)
    if "FLOWER_RESULT" in os.environ:
        np.savez(os.environ["FLOWER_RESULT"], **{{name: array.numpy() for name, array in result.arrays.items()}})
'''
FEDAVG = "FedAvg(fraction_train=1.0, fraction_evaluate=fraction_evaluate, min_train_nodes=4, min_evaluate_nodes=4, min_available_nodes=4)"

# The ClientApp of `flwr new`'s PyTorch template: model, data and device are made in each call.
TORCH_CLIENT = '''
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from {name}.task import Net, load_data
from {name}.task import test as test_fn
from {name}.task import train as train_fn

app = ClientApp()

@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model.to(device)
    partition_id = context.node_config["partition-id"]
    num_partitions = context.node_config["num-partitions"]
    trainloader, _ = load_data(partition_id, num_partitions)
    train_loss = train_fn(model, trainloader, context.run_config["local-epochs"], msg.content["config"]["lr"], device)
    model_record = ArrayRecord(model.state_dict())
    metrics = {{"train_loss": train_loss, "num-examples": len(trainloader.dataset)}}
    metric_record = MetricRecord(metrics)
    content = RecordDict({{"arrays": model_record, "metrics": metric_record}})
    return Message(content=content, reply_to=msg)

@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model.to(device)
    partition_id = context.node_config["partition-id"]
    num_partitions = context.node_config["num-partitions"]
    _, valloader = load_data(partition_id, num_partitions)
    eval_loss, eval_acc = test_fn(model, valloader, device)
    metrics = {{"eval_loss": eval_loss, "eval_acc": eval_acc, "num-examples": len(valloader.dataset)}}
    metric_record = MetricRecord(metrics)
    content = RecordDict({{"metrics": metric_record}})
    return Message(content=content, reply_to=msg)
'''
TORCH_TASK = DATA.replace("load_data", "arrays_of") + '''
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    """Model."""
    def __init__(self):
        super().__init__()
        LAYERS

def first_weights():
    torch.manual_seed(3)
    return Net().state_dict()

def load_data(partition_id: int, num_partitions: int):
    sets = [TensorDataset(torch.from_numpy(x), torch.from_numpy(y)) for x, y in arrays_of(partition_id, num_partitions)]
    return DataLoader(sets[0], batch_size=20), DataLoader(sets[1], batch_size=20)

def train(net, trainloader, epochs, lr, device):
    """Train the model on the training set."""
    net.to(device)
    criterion = torch.nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    running_loss = 0.0
    for _ in range(epochs):
        for images, labels in trainloader:
            optimizer.zero_grad()
            loss = criterion(net(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
    return running_loss / len(trainloader)

def test(net, testloader, device):
    """Validate the model on the test set."""
    net.to(device)
    criterion = torch.nn.CrossEntropyLoss()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for images, labels in testloader:
            outputs = net(images.to(device))
            loss += criterion(outputs, labels).item()
            correct += (torch.max(outputs.data, 1)[1] == labels).sum().item()
    return loss / len(testloader), correct / len(testloader.dataset)
'''
NET = '''self.fc1, self.norm, self.fc2 = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.norm(self.fc1(x))))'''
TRANSFORMER = '''self.enter, self.out = nn.Linear(1, 8), nn.Linear(8, 3)
        self.body = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.out(self.body(self.enter(x[..., None])).mean(1))'''

# The ClientApp of `flwr new`'s NumPy template, with a step that depends on the data.
NUMPY_CLIENT = '''
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from {name}.task import load_data, slope

app = ClientApp()

@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    ndarrays = msg.content["arrays"].to_numpy_ndarrays()
    (x, y), _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = 0.0
    BEGIN
    for _ in range(context.run_config["local-epochs"]):
        gradients, loss, _ = slope(ndarrays, x, y)
        ndarrays = [array - np.float32(msg.content["config"]["lr"]) * gradient for array, gradient in zip(ndarrays, gradients)]
    END
    model_record = ArrayRecord(ndarrays)
    metric_record = MetricRecord({{"train-loss": float(loss), "num-examples": len(x), "shares": [1.0, 2.0]}})
    return Message(content=RecordDict({{"arrays": model_record, "metrics": metric_record}}), reply_to=msg)

@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    ndarrays = msg.content["arrays"].to_numpy_ndarrays()
    _, (x, y) = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    _, loss, accuracy = slope(ndarrays, x, y)
    turns = float(context.state["own"]["turns"]) if "own" in context.state else 0.0
    metric_record = MetricRecord({{"loss": float(loss), "accuracy": float(accuracy), "num-examples": len(x), "samples": turns}})
    return Message(content=RecordDict({{"metrics": metric_record}}), reply_to=msg)
'''
NUMPY_TASK = DATA + '''
def first_weights():
    return [np.zeros((8, 3), np.float32), np.zeros(3, np.float32)]

def slope(ndarrays, x, y):
    out = x @ ndarrays[0] + ndarrays[1]
    share = np.exp(out - out.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    loss, accuracy = -np.log(share[np.arange(len(y)), y]).mean(), (share.argmax(1) == y).mean()
    share[np.arange(len(y)), y] -= 1
    return [x.T @ share / len(y), share.mean(0)], loss, accuracy
'''
# A client keeps its momentum and how often it has trained.
BEGIN = '''if "own" not in context.state:
        context.state["own"] = MetricRecord({{"turns": 0, "wide": 2**40 + 1}})
        context.state["momentum"] = ArrayRecord([np.zeros_like(array) for array in ndarrays])
    assert context.state["own"]["wide"] == 2**40 + 1
    momentum = context.state["momentum"].to_numpy_ndarrays()'''
END = '''momentum = [np.float32(0.5) * old + new - before for old, new, before in zip(momentum, ndarrays, msg.content["arrays"].to_numpy_ndarrays())]
    ndarrays = [before + step for before, step in zip(msg.content["arrays"].to_numpy_ndarrays(), momentum)]
    context.state["momentum"] = ArrayRecord(momentum)
    context.state["own"]["turns"] += 1'''

SKLEARN_CLIENT = NUMPY_CLIENT.replace("load_data, slope", "fitted, load_data, slope").replace("BEGIN", "").replace("END", "").replace(
    '''        gradients, loss, _ = slope(ndarrays, x, y)
        ndarrays = [array - np.float32(msg.content["config"]["lr"]) * gradient for array, gradient in zip(ndarrays, gradients)]
''', "        ndarrays, loss = fitted(ndarrays, x, y)\n")
SKLEARN_TASK = NUMPY_TASK + '''
from sklearn.linear_model import SGDClassifier

def fitted(ndarrays, x, y):
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01, random_state=1, max_iter=1, tol=None)
    model.partial_fit(x[:1].astype(np.float64), y[:1], classes=np.arange(3))
    model.coef_, model.intercept_ = np.ascontiguousarray(ndarrays[0].T, np.float64), ndarrays[1].astype(np.float64)
    model.partial_fit(x.astype(np.float64), y)
    new = [model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)]
    return new, slope(new, x, y)[1]
'''
APPS = {
    "pytorchapp": (TORCH_CLIENT, TORCH_TASK.replace("LAYERS", NET), FEDAVG),
    "numpyapp": (NUMPY_CLIENT.replace("BEGIN", "").replace("END", ""), NUMPY_TASK, FEDAVG.replace("FedAvg(", "FedAdam(eta=0.05, ")),
    "sklearnapp": (SKLEARN_CLIENT, SKLEARN_TASK, FEDAVG),
    "transformerapp": (TORCH_CLIENT, TORCH_TASK.replace("LAYERS", TRANSFORMER), FEDAVG),
    "stateapp": (NUMPY_CLIENT.replace("BEGIN", BEGIN).replace("END", END), NUMPY_TASK, FEDAVG.replace("FedAvg(", "FedProx(proximal_mu=0.5, ")),
}


def write(folder, name, strategy=None):
    """The folder of the app, which is its name in `folder`."""
    client, task, usual = APPS[name]
    package = os.path.join(folder, name, name)
    os.makedirs(package)
    files = {os.path.join(folder, name, "pyproject.toml"): PROJECT.format(name=name), os.path.join(package, "__init__.py"): "",
             os.path.join(package, "server_app.py"): SERVER.format(name=name, strategy=strategy or usual),
             os.path.join(package, "client_app.py"): client.format(name=name), os.path.join(package, "task.py"): task}
    for path, text in files.items():
        with open(path, "w") as file:
            file.write(text)
    return os.path.join(folder, name)
