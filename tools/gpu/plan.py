"""How large the jobs of tools/gpu-check are on a GPU. A stage has twice the seconds that it took on an H100 with 16 cores, where it has run on one."""

FIRST = {"build": 60, "probe": 10, "tests": 60, "sanitize": 80, "bench": 40, "peers": 150, "profile": 20}
SECOND = {"kills": 120, "mps": 60, "rounds": 190, "default": 10}

ONE_CLIENT, CLIENTS = "lenet:64:1 2nn:10:1 cnn:10:1", "2nn:10:100 lenet:64:32 cnn:10:10"
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
    "peers": [("eager", ONE_CLIENT), ("graph", ONE_CLIENT), ("vmap", CLIENTS), ("jax", CLIENTS)],
    "peer_options": ["--samples", "60000", "--device", "cuda"],
    "profile": ["lenet:32:64", "2nn:100:10", "cnn:10:10"],
    "speed_clients": "512",
    "speed": [(model, workers, launch) for model in ("lenet", "2nn", "cnn") for workers, launch in ((1, 128), (1, 32), (2, 64), (4, 32), (16, 8))],
    "steady": 64,  # MiB by which the GPU's free memory may differ after a kill: the driver's own move
}
