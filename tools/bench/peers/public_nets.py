"""Thirty public nets, fixed before they were measured: torchvision's, and those that federated papers and tutorials write by hand.

NETS has for each name what goes in (the shape of a sample, or TOKENS steps of words) and a function that makes the module.
"""
import torch
from torch import nn
from torch.nn import functional as F

WORDS, TOKENS, CLASSES = 80, 80, 10


def vision(name, **options):
    """A net of torchvision, which is imported only to make it."""
    def make():
        from torchvision import models
        return getattr(models, name)(weights=None, num_classes=CLASSES, **options)
    return make


def resnet18_cifar():
    net = vision("resnet18")()
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


def resnet9():
    def block(ins, outs):
        return [nn.Conv2d(ins, outs, 3, 1, 1), nn.GroupNorm(8, outs), nn.ReLU()]
    layers = [*block(3, 64), *block(64, 128), nn.MaxPool2d(2), *block(128, 256), nn.MaxPool2d(2), nn.Conv2d(256, 512, 3, 1, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(2048, CLASSES))


def two_convolutions(channels, side):
    """A residual net's block on its last maps, by itself."""
    layers = [nn.Conv2d(channels, channels, 3, 1, 1), nn.ReLU(), nn.Conv2d(channels, channels, 3, 1, 1), nn.ReLU()]
    return lambda: nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, CLASSES))


def cnn1d():
    return nn.Sequential(nn.Conv1d(6, 32, 5), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(32, 64, 5), nn.BatchNorm1d(64), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class ResidualMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(100, 256), nn.Linear(256, CLASSES)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Recurrent(nn.Module):
    """LEAF's next character: an embedding, recurrent layers, a linear layer on the last step."""

    def __init__(self, kind, units, layers, both_ways=False):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.recurrent = kind(32, units, layers, batch_first=True, bidirectional=both_ways)
        self.head = nn.Linear(units * (1 + both_ways), WORDS)

    def forward(self, x):
        steps, _ = self.recurrent(self.embedding(x))
        return self.head(steps[:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.embedding, self.encoder = nn.Embedding(WORDS, 64), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, WORDS)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)).mean(1))


class TextCnn(nn.Module):
    """Kim 2014: windows of 3, 4 and 5 words."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, 100), nn.Linear(300, WORDS)
        self.windows = nn.ModuleList(nn.Conv1d(100, 100, width) for width in (3, 4, 5))

    def forward(self, x):
        x = self.embedding(x).transpose(1, 2)
        return self.head(torch.cat([F.adaptive_max_pool1d(F.relu(window(x)), 1).flatten(1) for window in self.windows], 1))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. 2021: patches of 4x4, a class token, learnt positions; four blocks of 128."""

    def __init__(self, width=128):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 65, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class CausalAttention(nn.Module):
    """nanoGPT's."""

    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head, self.n_embd = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, width

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), CausalAttention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGpt(nn.Module):
    """Karpathy's, two blocks of 128: the next character after TOKENS."""

    def __init__(self, width=128):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, width), nn.Embedding(TOKENS, width)
        self.h = nn.ModuleList(GptBlock(width, 4) for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, x):
        _, t = x.size()
        x = self.wte(x) + self.wpe(torch.arange(0, t, dtype=torch.long))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x)[:, -1])


class UNet(nn.Module):
    """Ronneberger et al. 2015 with two levels and transposed convolutions; its map of classes is averaged into one label an image."""

    def __init__(self):
        super().__init__()

        def twice(ins, outs):
            return nn.Sequential(nn.Conv2d(ins, outs, 3, 1, 1), nn.ReLU(), nn.Conv2d(outs, outs, 3, 1, 1), nn.ReLU())
        self.down1, self.down2, self.bottom, self.pool = twice(3, 32), twice(32, 64), twice(64, 128), nn.MaxPool2d(2)
        self.up2, self.join2 = nn.ConvTranspose2d(128, 64, 2, 2), twice(128, 64)
        self.up1, self.join1 = nn.ConvTranspose2d(64, 32, 2, 2), twice(64, 32)
        self.head = nn.Conv2d(32, CLASSES, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(self.pool(first))
        x = self.bottom(self.pool(second))
        x = self.join2(torch.cat([self.up2(x), second], 1))
        x = self.join1(torch.cat([self.up1(x), first], 1))
        return self.head(x).mean((2, 3))


class DeepFm(nn.Module):
    """Guo et al. 2017: every column is a word of WORDS; pairs of columns by sums, and two hidden layers."""

    def __init__(self, columns=TOKENS, width=8):
        super().__init__()
        self.single, self.pairs = nn.Embedding(WORDS, 1), nn.Embedding(WORDS, width)
        self.deep = nn.Sequential(nn.Linear(columns * width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, WORDS))

    def forward(self, x):
        rows = self.pairs(x)
        squares = 0.5 * (rows.sum(1) ** 2 - (rows ** 2).sum(1)).sum(1, keepdim=True)
        return self.deep(rows.flatten(1)) + self.single(x).sum(1) + squares


def tabular():
    return nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES))


NETS = {
    "resnet18": ((3, 32, 32), vision("resnet18")),
    "resnet18-cifar": ((3, 32, 32), resnet18_cifar),
    "resnet50": ((3, 64, 64), vision("resnet50")),
    "resnet9-groupnorm": ((3, 32, 32), resnet9),
    "vgg11-bn": ((3, 32, 32), vision("vgg11_bn")),
    "alexnet": ((3, 64, 64), vision("alexnet")),
    "squeezenet": ((3, 64, 64), vision("squeezenet1_1")),
    "densenet121": ((3, 32, 32), vision("densenet121")),
    "mobilenet-v2": ((3, 32, 32), vision("mobilenet_v2")),
    "mnasnet": ((3, 32, 32), vision("mnasnet1_0")),
    "shufflenet-v2": ((3, 32, 32), vision("shufflenet_v2_x1_0")),
    "efficientnet-b0": ((3, 32, 32), vision("efficientnet_b0")),
    "convnext-tiny": ((3, 32, 32), vision("convnext_tiny")),
    "conv512-1x1": ((512, 1, 1), two_convolutions(512, 1)),
    "conv512-2x2": ((512, 2, 2), two_convolutions(512, 2)),
    "conv512-4x4": ((512, 4, 4), two_convolutions(512, 4)),
    "conv128-16x16": ((128, 16, 16), two_convolutions(128, 16)),
    "unet": ((3, 32, 32), UNet),
    "vit-class-token": ((3, 32, 32), VisionTransformer),
    "cnn1d": ((6, 128), cnn1d),
    "mlp-tabular": ((100,), tabular),
    "mlp-residual": ((100,), ResidualMlp),
    "deepfm": (TOKENS, DeepFm),
    "lstm-2x256": (TOKENS, lambda: Recurrent(nn.LSTM, 256, 2)),
    "lstm-1x100": (TOKENS, lambda: Recurrent(nn.LSTM, 100, 1)),
    "gru-2x128": (TOKENS, lambda: Recurrent(nn.GRU, 128, 2)),
    "bigru-128": (TOKENS, lambda: Recurrent(nn.GRU, 128, 1, both_ways=True)),
    "textcnn": (TOKENS, TextCnn),
    "transformer": (TOKENS, Encoder),
    "nanogpt": (TOKENS, NanoGpt),
}
