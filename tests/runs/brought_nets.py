"""Which nets of torchvision and timm sounder.layers reads, and whether Sounder trains them as PyTorch does: images of 32x32, ten classes,
whole batches of 64, no dropout. Prints a table; no test, since it needs both packages and minutes.

usage: brought_nets.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [--steps 20] [[LIBRARY:]NET ...]
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
# A batch norm of a 1x1 image has as many values as the batch has samples: with 16, channels of nearly one value amplify the last bits
# beyond use. A small rate keeps the 20 steps near each other for the same reason.
LR, SAMPLES, SHAPE = 0.0003, 64, (3, 32, 32)
# Equal: within CLOSE of PyTorch's float32, as a share of the update. Where 20 steps amplify rounding, as far as AS_NEAR times PyTorch's
# own float32 from PyTorch's float64; where PyTorch is MEANINGLESS from itself, that says nothing.
CLOSE, AS_NEAR, MEANINGLESS = 1e-4, 2, 1e-2


def make(library, name):
    torch.manual_seed(1)
    if library == "torchvision":
        import torchvision
        return torchvision.models.get_model(name, num_classes=10)
    import timm
    return timm.create_model(name, num_classes=10, **({"img_size": 32, "patch_size": 4} if name.startswith("vit") else {}))


AS_IT_IS, SMOOTH, SMOOTH_GROUPS = range(3)


def by_groups(norm):
    """A group norm of one group in place of a batch norm, with the function of timm's."""
    groups = torch.nn.GroupNorm(1, norm.num_features, norm.eps)
    return torch.nn.Sequential(groups, norm.act) if hasattr(norm, "act") else groups


def prepared(library, name, change):
    """Without dropout. SMOOTH: with functions that have no bends, where a last bit decides which side a value takes; SMOOTH_GROUPS:
    and with group norms for batch norms."""
    net = make(library, name)
    for module in net.modules():
        for rate in ("p", "drop_prob", "drop_rate"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
        for part, own in list(module.named_children()) if change else ():
            kind = type(own).__name__
            if kind in ("ReLU", "ReLU6", "Hardswish"):
                setattr(module, part, torch.nn.SiLU())
            elif kind.startswith("BatchNorm") and change == SMOOTH_GROUPS:
                for inner, act in own.named_children():
                    if type(act).__name__ in ("ReLU", "ReLU6", "Hardswish"):
                        setattr(own, inner, torch.nn.SiLU())
                setattr(module, part, by_groups(own))
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


def trained(path, net, text, steps):
    """The weights' changes by a run, one vector."""
    x, y = samples()
    run = sounder.train(path, data=sounder.write_data(path + ".npz", train=(x, y), test=(x, y)), model=text, init=sounder.write_weights(path + ".safetensors", net),
                        clients=1, rounds=steps, batch_size=SAMPLES, local_epochs=1, lr=LR, workers=1, eval_every=steps)
    before = [weight.detach().clone() for weight in net.parameters()]
    run.load_into(net)
    return torch.cat([(weight.detach() - old).double().flatten() for weight, old in zip(net.parameters(), before)])


def compared(library, name, steps, folder, change):
    """A cell of the table, and whether the net is equal. PyTorch's double precision is asked only where single precision is not enough."""
    net, (x, y) = prepared(library, name, change), samples()
    mine = trained(os.path.join(folder, f"{library}-{name}-{change}"), net, sounder.layers(net), steps)
    single = in_torch(prepared(library, name, change), x, y, steps, torch.float32)
    if apart(mine, single) <= CLOSE:
        return f"{apart(mine, single):.0e}", True
    double = in_torch(prepared(library, name, change), x, y, steps, torch.float64)
    return (f"{apart(mine, single):.0e} ({apart(mine, double):.0e}, {apart(single, double):.0e})",
            apart(single, double) < MEANINGLESS and apart(mine, double) <= AS_NEAR * apart(single, double))


def compare(library, name, steps, folder):
    """A row of the table, whether the net is read, and whether it is equal: as it is, or with what changes make of it."""
    try:
        text = sounder.layers(prepared(library, name, AS_IT_IS))
    except sounder.Error as refusal:
        return f"refused: {refusal}", False, False
    cells, equal = [], False
    while len(cells) < 3 and not equal:
        cell, equal = compared(library, name, steps, folder, len(cells))
        cells.append(cell)
    return f"{text.count(';') + 1} | {' | '.join([*cells, '', ''][:3])}", True, equal


def main(words):
    steps = 20
    if "--steps" in words:
        at = words.index("--steps")
        steps = int(words[at + 1])
        del words[at:at + 2]
    torch.set_num_threads(1)
    read = same = 0
    nets = [("torchvision", name) for name in TORCHVISION] + [("timm", name) for name in TIMM]
    with tempfile.TemporaryDirectory(prefix="sounder-nets-") as folder:
        for library, name in nets:
            if not words or name in words or f"{library}:{name}" in words:
                row, is_read, is_equal = compare(library, name, steps, folder)
                read, same = read + is_read, same + is_equal
                print(f"| {library} {name} | {row} | {'equal' if is_equal else 'read' if is_read else ''} |", flush=True)
    print(f"{read} read, {same} equal")


main(sys.argv[3:])
