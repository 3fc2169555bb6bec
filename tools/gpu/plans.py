"""How large the jobs of tools/gpu-check are: on a card, and in a rehearsal on the emulated one, which is some ten thousand times
slower. Everything else is the same code.
"""

# Seconds a stage may take, in the order in which stages run. The first command and the second have 10 minutes at most.
FIRST = {"probe": 25, "build": 75, "tests": 60, "sanitize": 110, "bench": 75, "peers": 140, "profile": 45}  # 530
SECOND = {"kills": 100, "mps": 110, "rounds": 190, "default": 60}  # 460

REAL = {
    "data": "synthetic",
    "accuracy": ["--model", "lenet", "--lr", "0.05", "--momentum", "0.5", "--rounds", "3"],
    "clients": 8,
    "long": ["--local-epochs", "60"],
    "short": ["--data", "synthetic:1x28x28:256:64", "--model", "lenet", "--rounds", "1", "--batch-size", "16"],
    "noise": {"fedavg": 0.02, "ssgd": 0.02, "hogwild": 0.06},
    "sanitized_tests": ["test_cuda_ops", "test_cuda_conv", "test_cuda_aggregate", "test_cuda_rounds", "test_cuda_rules"],  # no cuBLAS
    "bench": [["--nets", "lenet,2nn", "--batches", "10,64", "--models", "1,8,32,128"], ["--nets", "2nn", "--batches", "10", "--models", "100"],
              ["--nets", "cnn", "--batches", "10", "--models", "1,10,100"], ["--nets", "cifar-cnn", "--batches", "10", "--models", "10,50"],
              ["--nets", "2nn,cnn", "--batches", "10", "--models", "100", "--momentum", "0"],
              ["--nets", "2nn,cnn", "--batches", "10", "--models", "100", "--tf32", "on"]],
    "costs": [["lenet", "64", "32"], ["2nn", "10", "100"], ["cnn", "10", "10"]],
    "bench_common": [],
    "peers": [("eager", "lenet:64:1 2nn:10:1 cnn:10:1", 25), ("graph", "lenet:64:1 2nn:10:1 cnn:10:1", 30),
              ("vmap", "2nn:10:100 lenet:64:32 cnn:10:10", 40), ("jax", "2nn:10:100 lenet:64:32 cnn:10:10", 45)],
    "peer_samples": "60000",
    "peer_device": "cuda",
    "profile": [("lenet", 32, 64), ("2nn", 100, 10), ("cnn", 10, 10)],
    "speed_clients": "512",
    "speed": [(model, workers, launch) for model in ("lenet", "2nn", "cnn") for workers, launch in ((1, 128), (1, 32), (2, 64), (4, 32), (16, 8))],
    "at_once": 4,
    "steady": 64 << 20,  # bytes by which the card's free memory may differ after a kill: the driver's own move
}

TINY_NET = "conv 3 3; pool 2; relu; linear 10"
TINY = {
    **REAL,
    "data": "synthetic:1x8x8:160:60",
    "accuracy": ["--model", TINY_NET, "--batch-size", "16", "--lr", "0.05", "--momentum", "0.5", "--rounds", "3"],
    "clients": 4,
    "long": ["--local-epochs", "18"],
    "short": ["--data", "synthetic:1x4x4:32:8", "--model", "linear 10", "--rounds", "1", "--batch-size", "16"],
    "noise": {"fedavg": 0.2, "ssgd": 0.2, "hogwild": 0.3},  # of 60 samples
    "bench": [["--nets", "softmax,lenet", "--shape", "1x16x16", "--batches", "4", "--models", "1,2"], ["--nets", "2nn", "--batches", "4", "--models", "2"]],
    "costs": [["softmax", "4", "2"]],
    "bench_common": ["--steps", "2", "--runs", "2", "--rows", "50", "--copy-mib", "1"],
    "peers": [("eager", "softmax:10:1", 60), ("graph", "softmax:10:1", 60), ("vmap", "softmax:10:4 lenet:10:2", 60), ("jax", "softmax:10:4 lenet:10:2", 60)],
    "peer_samples": "400",
    "peer_device": "cpu",
    "profile": [("softmax", 2, 4)],
    "speed_clients": "8",
    "speed": [("softmax", 1, 4), ("softmax", 2, 2)],
}
