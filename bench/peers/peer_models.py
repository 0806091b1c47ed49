"""The models to compare speed and memory with, as one would write them in PyTorch today.

Llama: heads of 64, two query heads on one key-value head, feed-forward of three times the width, three classes read at
the last token. DiT: the reference of tools/golden with PyTorch's fused attention.
Letters: B samples, T tokens, D hidden size, H heads, K heads of keys and values.
"""

import functools
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "golden"))
import dit

HEAD = 64
CLASSES = 3


def rotary_table(length, head, theta=500000.0):
    frequencies = theta ** -(torch.arange(0, head, 2, dtype=torch.float32) / head)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x_BHTd, cos_Td, sin_Td):
    cos_Td, sin_Td = cos_Td.to(x_BHTd.dtype), sin_Td.to(x_BHTd.dtype)  # under autocast, or fp32 would spread
    left, right = x_BHTd.chunk(2, dim=-1)
    return x_BHTd * cos_Td + torch.cat([-right, left], dim=-1) * sin_Td


class LlamaBlock(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        linear = functools.partial(nn.Linear, bias=False)
        self.attention_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.query = linear(hidden, hidden)
        self.key = linear(hidden, hidden // 2)
        self.value = linear(hidden, hidden // 2)
        self.output = linear(hidden, hidden)
        self.mlp_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.gate = linear(hidden, 3 * hidden)
        self.up = linear(hidden, 3 * hidden)
        self.down = linear(3 * hidden, hidden)

    def attend(self, x_BTD, cos_Td, sin_Td):
        q_BHTd, k_BKTd, v_BKTd = (layer(x_BTD).unflatten(-1, (-1, HEAD)).transpose(1, 2)
                                  for layer in (self.query, self.key, self.value))
        q_BHTd, k_BKTd = rotate(q_BHTd, cos_Td, sin_Td), rotate(k_BKTd, cos_Td, sin_Td)
        # enable_gqa, not repeated keys and values: less memory and no slower.
        mixed = F.scaled_dot_product_attention(q_BHTd, k_BKTd, v_BKTd, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def forward(self, x_BTD, cos_Td, sin_Td):
        x_BTD = x_BTD + self.attend(self.attention_norm(x_BTD), cos_Td, sin_Td)
        y_BTD = self.mlp_norm(x_BTD)
        return x_BTD + self.down(F.silu(self.gate(y_BTD)) * self.up(y_BTD))


class LlamaClassifier(nn.Module):
    def __init__(self, hidden, layers, vocabulary, length):
        super().__init__()
        if hidden % (2 * HEAD):
            raise SystemExit(f"hidden size {hidden}: expected a multiple of {2 * HEAD} (heads of {HEAD}, an even number)")
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.score = nn.Linear(hidden, CLASSES, bias=False)
        for name, table in zip(("cos", "sin"), rotary_table(length, HEAD)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, ids_BT):
        x_BTD = self.embedding(ids_BT)
        for block in self.blocks:
            x_BTD = block(x_BTD, self.cos, self.sin)
        return self.score(self.norm(x_BTD)[:, -1])


def llama(hidden, layers, vocabulary, length, batch, dtype, rank=0, device="cpu"):
    """(model, a function that gives a model's loss on one fixed random batch); ranks have batches of their own"""
    model = LlamaClassifier(hidden, layers, vocabulary, length).to(device, dtype)
    dice = torch.Generator().manual_seed(1 + rank)
    ids = torch.randint(0, vocabulary, (batch, length), generator=dice).to(device)
    labels = torch.randint(0, CLASSES, (batch,), generator=dice).to(device)
    return model, lambda module, reduction="mean": F.cross_entropy(module(ids), labels, reduction=reduction)


def diffusion(hidden, layers, image_size, patch_size, batch, dtype, device="cpu"):
    """(model, a function that gives a model's loss on one fixed random batch)"""
    config = dit.Config(hidden_size=hidden, depth=layers, num_heads=hidden // HEAD, patch_size=patch_size,
                        image_size=image_size, in_channels=3, num_classes=1000)
    model = dit.DiT(config, F.scaled_dot_product_attention).to(device, dtype)
    images, noise = torch.randn(2, batch, 3, image_size, image_size, dtype=dtype).to(device)
    timesteps = torch.randint(0, 1000, (batch,)).to(device)
    labels = torch.randint(0, config.num_classes, (batch,)).to(device)

    def loss(module, reduction="mean"):
        losses_B = module.losses(images, timesteps, labels, noise)
        return losses_B.mean() if reduction == "mean" else losses_B

    return model, loss
