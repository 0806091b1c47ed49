"""DiT, the diffusion transformer of Peebles and Xie (2022), with adaLN-Zero blocks: a reference to compare with.

Plain PyTorch, written to be read. It predicts the noise that was added to an image and, with `learn_sigma`, the variance of
the step back (diffusion.py). `positions` are learned, or fixed waves as in the published checkpoints.
Letters: B samples, C channels, N tokens (patches), D hidden size, H heads, p patch size.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

from diffusion import bound


@dataclasses.dataclass
class Config:
    hidden_size: int
    depth: int
    num_heads: int
    patch_size: int
    image_size: int
    in_channels: int
    num_classes: int
    mlp_ratio: float = 4.0
    frequency_dim: int = 256
    positions: str = "learned"
    learn_sigma: bool = False

    @property
    def out_channels(self):
        return self.in_channels * (2 if self.learn_sigma else 1)

    @property
    def grid(self):
        return self.image_size // self.patch_size


def plain_attention(q, k, v):
    """softmax(q k^T / sqrt(d)) v, the definition; F.scaled_dot_product_attention fits in its place."""
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def waves(places, width):
    """[n] -> [n, width]: sines, then cosines, of place * 10000^(-i / (width/2))."""
    half = width // 2
    angles = places[:, None].double() / 10000.0 ** (torch.arange(half).double() / half)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def sincos_positions(grid, width):
    """[1, grid * grid, width]: half of the width says in which column a patch lies, half in which row."""
    row, column = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    return torch.cat([waves(column.flatten(), width // 2), waves(row.flatten(), width // 2)], dim=1)[None].float()


def modulate(x_BND, shift_BD, scale_BD):
    return x_BND * (1 + scale_BD[:, None]) + shift_BD[:, None]


def normalised(x_BND):
    """LayerNorm without gain and bias: those come from the condition, through modulate()."""
    return F.layer_norm(x_BND, x_BND.shape[-1:], eps=1e-6)


class PatchEmbedder(nn.Module):
    def __init__(self, config):
        super().__init__()
        p = config.patch_size
        self.proj = nn.Conv2d(config.in_channels, config.hidden_size, kernel_size=p, stride=p)

    def forward(self, images_BCHW):
        return self.proj(images_BCHW).flatten(2).transpose(1, 2)  # patches in row-major order


class TimestepEmbedder(nn.Module):
    def __init__(self, config):
        super().__init__()
        D = config.hidden_size
        self.frequency_dim = config.frequency_dim
        self.mlp = nn.Sequential(nn.Linear(config.frequency_dim, D), nn.SiLU(), nn.Linear(D, D))

    def forward(self, timesteps_B):
        dtype = self.mlp[0].weight.dtype
        angle_dtype = torch.float64 if dtype == torch.float64 else torch.float32  # bf16 can't tell step 998 from 999
        half = self.frequency_dim // 2
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=angle_dtype) / half)
        angles = timesteps_B[:, None].to(angle_dtype) * frequencies
        return self.mlp(torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype))


class LabelEmbedder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding_table = nn.Embedding(config.num_classes + 1, config.hidden_size)  # the last row: no label

    def forward(self, labels_B):
        return self.embedding_table(labels_B)


class Attention(nn.Module):
    def __init__(self, config, attention):
        super().__init__()
        D = config.hidden_size
        self.heads = config.num_heads
        self.attention = attention
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)

    def forward(self, x_BND):
        B, N, D = x_BND.shape
        q, k, v = self.qkv(x_BND).view(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(self.attention(q, k, v).transpose(1, 2).reshape(B, N, D))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        D, inner = config.hidden_size, int(config.hidden_size * config.mlp_ratio)
        self.fc1 = nn.Linear(D, inner)
        self.fc2 = nn.Linear(inner, D)

    def forward(self, x_BND):
        return self.fc2(F.gelu(self.fc1(x_BND), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config, attention):
        super().__init__()
        D = config.hidden_size
        self.attn = Attention(config, attention)
        self.mlp = Mlp(config)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))

    def forward(self, x_BND, condition_BD):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(condition_BD).chunk(6, 1)
        x_BND = x_BND + gate_msa[:, None] * self.attn(modulate(normalised(x_BND), shift_msa, scale_msa))
        return x_BND + gate_mlp[:, None] * self.mlp(modulate(normalised(x_BND), shift_mlp, scale_mlp))


class FinalLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        D = config.hidden_size
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(D, 2 * D))
        self.linear = nn.Linear(D, config.patch_size**2 * config.out_channels)

    def forward(self, x_BND, condition_BD):
        shift, scale = self.adaLN_modulation(condition_BD).chunk(2, 1)
        return self.linear(modulate(normalised(x_BND), shift, scale))


class DiT(nn.Module):
    def __init__(self, config, attention=plain_attention):
        super().__init__()
        self.config = config
        self.x_embedder = PatchEmbedder(config)
        if config.positions == "sincos":
            self.register_buffer("pos_embed", sincos_positions(config.grid, config.hidden_size))
        else:
            self.pos_embed = nn.Parameter(torch.randn(config.grid**2, config.hidden_size) * 0.02)
        self.t_embedder = TimestepEmbedder(config)
        self.y_embedder = LabelEmbedder(config)
        self.blocks = nn.ModuleList(Block(config, attention) for _ in range(config.depth))
        self.final_layer = FinalLayer(config)

    def forward(self, images_BCHW, timesteps_B, labels_B):
        x_BND = self.x_embedder(images_BCHW) + self.pos_embed
        condition_BD = self.t_embedder(timesteps_B) + self.y_embedder(labels_B)
        for block in self.blocks:
            x_BND = block(x_BND, condition_BD)
        return self.unpatchify(self.final_layer(x_BND, condition_BD))

    def unpatchify(self, x_BNK):
        """A token holds its patch as [row, column, channel]: channels last, unlike the kernel of the patch embedding."""
        grid, p, C = self.config.grid, self.config.patch_size, self.config.out_channels
        x = x_BNK.view(-1, grid, grid, p, p, C)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(-1, C, grid * p, grid * p)

    def losses(self, images_BCHW, timesteps_B, labels_B, noise_BCHW):
        """[B]: the mean over channels and pixels of the squared error of the predicted noise, and the bound of sigma."""
        predicted, *sigma = self(images_BCHW, timesteps_B, labels_B).split(self.config.in_channels, dim=1)
        losses = (predicted - noise_BCHW).square().mean(dim=(1, 2, 3))
        return losses + bound(predicted.detach(), sigma[0], images_BCHW, noise_BCHW, timesteps_B) if sigma else losses
