"""How large the jobs of tools/gpu-check are on a GPU. A stage has twice the seconds that it took on an H100 with 16 cores, where it has run on one."""

FIRST = {"build": 60, "probe": 10, "tests": 60, "sanitize": 80, "bench": 40, "peers": 150, "profile": 20}
SECOND = {"kills": 120, "mps": 60, "rounds": 190, "default": 10}
THIRD = {"nets": 360, "unequal": 30}  # has run on none yet

ONE_CLIENT, CLIENTS = "lenet:64:1 2nn:10:1 cnn:10:1", "2nn:10:100 lenet:64:32 cnn:10:10"
# A transformer of four layers of width 128 over 64 places; peers/card.py has the same in PyTorch.
LAYER = "attention 4; add {0}0; layernorm each as {0}1; linear 256 each; relu; linear 128 each; add {0}1; layernorm each"
TRANSFORMER = "linear 128 each; positions as a0; " + " as {}0; ".join(map(LAYER.format, "abcd")).format(*"bcd") + "; mean; linear classes"
SHAPES = {"resnet20": "3x32x32", "resnet18": "3x32x32", "char-lstm": "1x1x80", "transformer": "1x64x16"}

PLAN = {
    "data": "synthetic",
    "model": ["--model", "lenet"],
    "accuracy": ["--lr", "0.05", "--momentum", "0.5", "--rounds", "3"],
    "default": [],
    "clients": "8",
    "long": ["--local-epochs", "20", "--workers", "4"],
    "short": ["--data", "synthetic:1x28x28:256:64", "--model", "lenet", "--rounds", "1", "--batch-size", "16"],
    "noise": {"fedavg": 0.02, "ssgd": 0.02, "hogwild": 0.06},
    "doctor": [],
    "sanitized_tests": ("test_cuda_twins", "test_cuda_conv", "test_cuda_ops", "test_cuda_aggregate", "test_cuda_rounds", "test_cuda_rules"),  # no cuBLAS
    "sanitized_steps": ["lenet:3:10", "2nn:3:10", "cnn:2:10"],
    "bench": [["--nets", "lenet,2nn", "--batches", "10,64", "--models", "1,8,32,128"], ["--nets", "2nn", "--batches", "10", "--models", "100"],
              ["--nets", "cnn", "--batches", "10", "--models", "1,10,100"], ["--nets", "cifar-cnn", "--batches", "10", "--models", "10,50"],
              ["--nets", "char-lstm", "--shape", "1x1x80", "--batches", "10", "--models", "1,10"],
              ["--nets", "2nn,cnn", "--batches", "10", "--models", "100", "--momentum", "0"],
              ["--nets", "2nn,cnn", "--batches", "10", "--models", "100", "--tf32", "on"],
              *(["--nets", net, "--batches", batch, "--models", models, "--costs"] for net, batch, models in
                (("lenet", "64", "32"), ("2nn", "10", "100"), ("cnn", "10", "10")))],
    "peers": [("eager", "fp32", ONE_CLIENT), ("graph", "fp32", ONE_CLIENT), ("vmap", "fp32", CLIENTS), ("jax", "fp32", CLIENTS)],
    "names": {"transformer": TRANSFORMER},  # of nets that the program knows by their layers alone
    "nets_bench": [["--nets", net, "--shape", SHAPES[net], "--batches", batches, "--models", models, *options] for net, batches, models, options in
                   (("resnet20", "10", "1,50", []), ("resnet18", "10,64", "1,10", []), ("char-lstm", "10", "1,10", []), ("transformer", "10", "1,10", []),
                    ("resnet20", "10", "50", ["--costs"]), ("char-lstm", "10", "10", ["--costs"]))],
    "nets_peers": [("graph", "fp32", "resnet20:10:1 resnet18:10:1 resnet18:64:1 char-lstm:10:1 transformer:10:1"),
                   ("graph", "default", "resnet20:10:1 resnet18:10:1 resnet18:64:1 cnn:10:1"),
                   ("graph", "bf16", "resnet20:10:1 resnet18:10:1 resnet18:64:1 char-lstm:10:1 transformer:10:1"),
                   ("compile", "default", "resnet20:10:1 resnet18:64:1 transformer:10:1"), ("compile", "bf16", "resnet20:10:1 resnet18:64:1"),
                   ("processes", "default", "resnet20:10:4 resnet20:10:8 2nn:10:8")],
    "peer_options": ["--samples", "60000", "--device", "cuda"],
    "profile": ["lenet:32:64", "2nn:100:10", "cnn:10:10"],
    "speed_clients": "512",
    "speed": [(model, workers, launch) for model in ("lenet", "2nn", "cnn") for workers, launch in ((1, 128), (1, 32), (2, 64), (4, 32), (16, 8))],
    "unequal": [("2nn", 1, 100, "iid"), ("2nn", 1, 100, "dirichlet alpha=0.1"), ("cnn", 1, 10, "iid"), ("cnn", 1, 10, "dirichlet alpha=0.1")],
    "steady": 64,  # MiB by which the GPU's free memory may differ after a kill: the driver's own move
}
