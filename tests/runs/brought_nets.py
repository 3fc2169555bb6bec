"""Which nets of torchvision and timm sounder.layers reads, and whether Sounder trains them as PyTorch does: images of 32x32, ten classes,
whole batches of 16, no dropout. Prints a table; no test, since it needs both packages and minutes.

usage: brought_nets.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [--steps 20] [NET ...]
"""
import os, sys, tempfile

import numpy as np
import torch

os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import sounder

TORCHVISION = ("resnet18 resnet34 resnext50_32x4d wide_resnet50_2 vgg11 vgg11_bn squeezenet1_1 mobilenet_v2 mobilenet_v3_small mnasnet1_0 "
               "shufflenet_v2_x0_5 densenet121 efficientnet_b0 convnext_tiny regnet_y_400mf").split()
TIMM = ("resnet10t resnet18 seresnet18 resnetv2_50 mobilenetv2_050 mobilenetv3_small_050 mnasnet_small efficientnet_lite0 tinynet_e "
        "regnetx_002 regnety_002 lcnet_050 vit_tiny_patch16_224 convnext_atto").split()
LR, SAMPLES, SHAPE = 0.001, 16, (3, 32, 32)


def make(library, name):
    torch.manual_seed(1)
    if library == "torchvision":
        import torchvision
        return torchvision.models.get_model(name, num_classes=10)
    import timm
    return timm.create_model(name, num_classes=10, **({"img_size": 32, "patch_size": 4} if name.startswith("vit") else {}))


def prepared(library, name, smooth):
    """Without dropout. smooth: with functions that have no bends, where a last bit decides which side a value takes."""
    net = make(library, name)
    for module in net.modules():
        for rate in ("p", "drop_prob", "drop_rate"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
        for part, own in list(module.named_children()) if smooth else ():
            if type(own).__name__ in ("ReLU", "ReLU6", "Hardswish"):
                setattr(module, part, torch.nn.SiLU())
    return net


def samples():
    rng = np.random.default_rng(2)
    y = np.arange(SAMPLES) % 10
    means = rng.normal(0, 1, (10, 3, 8, 8))
    return (np.kron(means[y], np.ones((4, 4))) + rng.normal(0, 0.5, (SAMPLES, *SHAPE))).astype(np.float32), y


def in_torch(net, x, y, steps, kind):
    """The weights' changes, one vector."""
    net = net.to(kind).train()
    before = [weight.detach().clone() for weight in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x).to(kind)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
    return torch.cat([(weight.detach() - old).double().flatten() for weight, old in zip(net.parameters(), before)])


def apart(one, other):
    return ((one - other).norm() / other.norm()).item()


def trained(library, name, text, steps, folder, smooth):
    """The weights' changes by a run, one vector, and by PyTorch in single and in double precision."""
    net, path = prepared(library, name, smooth), os.path.join(folder, f"{library}-{name}-{smooth}")
    x, y = samples()
    run = sounder.train(path, data=sounder.write_data(path + ".npz", train=(x, y), test=(x, y)), model=text, init=sounder.write_weights(path + ".safetensors", net),
                        clients=1, rounds=steps, batch_size=SAMPLES, local_epochs=1, lr=LR, workers=1, eval_every=steps)
    before = [weight.detach().clone() for weight in net.parameters()]
    run.load_into(net)
    mine = torch.cat([(weight.detach() - old).double().flatten() for weight, old in zip(net.parameters(), before)])
    return mine, *(in_torch(prepared(library, name, smooth), x, y, steps, kind) for kind in (torch.float32, torch.float64))


def compare(library, name, steps, folder):
    words = []
    try:
        for smooth, what in ((False, "as it is"), (True, "with SiLU for ReLU")):
            text = sounder.layers(prepared(library, name, smooth))
            mine, single, double = trained(library, name, text, steps, folder, smooth)
            words.append(f"{what} {apart(mine, single):.0e} of the update (float32 and float64 in PyTorch: {apart(single, double):.0e})")
    except sounder.Error as refusal:
        return f"refused: {refusal}"
    return f"{text.count(';') + 1} layers, {len(text)} bytes: " + ", ".join(words)


def main(words):
    steps = 20
    if "--steps" in words:
        at = words.index("--steps")
        steps = int(words[at + 1])
        del words[at:at + 2]
    torch.set_num_threads(2)
    read, nets = 0, [("torchvision", name) for name in TORCHVISION] + [("timm", name) for name in TIMM]
    with tempfile.TemporaryDirectory(prefix="sounder-nets-") as folder:
        for library, name in nets:
            if not words or name in words:
                line = compare(library, name, steps, folder)
                read += not line.startswith("refused")
                print(f"{library} {name}: {line}", flush=True)
    print(f"{read} read")


main(sys.argv[3:])
