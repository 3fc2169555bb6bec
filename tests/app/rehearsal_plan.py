"""The jobs of tools/gpu-check on the emulated GPU, which is some ten thousand times slower: SOUNDER_GPU_PLAN names this file. What is not here is
as in tools/gpu/plan.py.
"""
PLAN = {
    "data": "synthetic:1x8x8:160:60",
    "model": ["--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "16"],
    "default": ["--model", "softmax"],
    "clients": "4",
    "short": ["--data", "synthetic:1x4x4:32:8", "--model", "linear 10", "--rounds", "1", "--batch-size", "16"],
    "noise": {"fedavg": 0.2, "ssgd": 0.2, "hogwild": 0.3},  # of 60 samples
    "doctor": ["--samples", "100"],
    "sanitized_steps": ["softmax:2:4"],
    "bench": [["--steps", "2", "--runs", "2", "--rows", "50", "--copy-mib", "1", "--batches", "4", *options] for options in
              (["--nets", "softmax,lenet", "--shape", "1x16x16", "--models", "1,2"], ["--nets", "2nn", "--models", "2"],
               ["--nets", "softmax", "--models", "2", "--costs"])],
    "peers": [("eager", "fp32", "softmax:10:1"), ("graph", "fp32", "softmax:10:1"), ("vmap", "fp32", "softmax:10:4 lenet:10:2"), ("jax", "fp32", "softmax:10:4 lenet:10:2")],
    "names": {"transformer": "linear 4 each; attention 2; mean; linear classes"},
    "nets_bench": [["--steps", "1", "--runs", "1", "--rows", "20", "--copy-mib", "1", "--batches", "4", "--nets", "transformer", "--shape", "1x8x4", "--models", "1"]],
    "nets_peers": [("graph", "bf16", "2nn:10:1"), ("processes", "default", "softmax:10:2")],
    "unequal": [("softmax", 1, 4, "dirichlet alpha=0.1")],
    "peer_options": ["--samples", "400", "--device", "cpu"],
    "profile": ["softmax:2:4"],
    "speed_clients": "8",
    "speed": [("softmax", 1, 4), ("softmax", 2, 2)],
}
