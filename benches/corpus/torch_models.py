"""Eight models as torch.nn.Modules with random weights, each with an example of its input: `eqfuse bench cpu --models`.

Standard in form; language models are narrower and shorter than the published ones, so that a process holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Model:
    """`build` makes the module, `example` its input of so many images, sentences or sequences."""

    name: str
    build: Callable[[], nn.Module]
    example: Callable[[int], Tensor]


def _images(extent: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randn(batch, 3, extent, extent)


def _tokens(length: int, words: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randint(0, words, (batch, length))


def _conv(
    channels: int, filters: int, window: int, stride: int = 1, groups: int = 1, clamp: Any = None
) -> nn.Sequential:
    """A convolution, batch norm, and what clamps."""
    conv = nn.Conv2d(channels, filters, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(filters), *([clamp()] if clamp else []))


class Residual(nn.Module):
    """x + inside(x), or beside(x) + inside(x), and what clamps it."""

    def __init__(self, inside: nn.Module, beside: nn.Module | None = None, clamp: bool = False) -> None:
        super().__init__()
        self.inside, self.beside, self.clamp = inside, beside or nn.Identity(), clamp

    def forward(self, x: Tensor) -> Tensor:
        y = self.beside(x) + self.inside(x)
        return torch.relu(y) if self.clamp else y


def resnet18() -> nn.Module:
    def block(channels: int, filters: int, stride: int) -> nn.Module:
        inside = nn.Sequential(_conv(channels, filters, 3, stride, clamp=nn.ReLU), _conv(filters, filters, 3))
        return Residual(inside, _conv(channels, filters, 1, stride) if stride > 1 else None, clamp=True)

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [block(a, b, b // a) for a, b in pairwise(widths)]
    stem = [_conv(3, 64, 7, 2, clamp=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mobilenet_v2() -> nn.Module:
    def block(channels: int, filters: int, stride: int, times: int) -> nn.Module:
        wide = channels * times
        widen = [_conv(channels, wide, 1, clamp=nn.ReLU6)] if times > 1 else []
        inside = nn.Sequential(*widen, _conv(wide, wide, 3, stride, wide, nn.ReLU6), _conv(wide, filters, 1))
        return Residual(inside) if stride == 1 and channels == filters else inside

    layers: list[nn.Module] = [_conv(3, 32, 3, 2, clamp=nn.ReLU6)]
    channels = 32
    for times, filters, count, stride in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ]:  # fmt: skip
        for i in range(count):
            layers.append(block(channels, filters, 1 if i else stride, times))
            channels = filters
    end = [_conv(320, 1280, 1, clamp=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *end)


class UNet(nn.Module):
    """Four levels, whose convolutions come in pairs."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128, 256)) -> None:
        super().__init__()

        def pair(channels: int, filters: int) -> nn.Module:
            return nn.Sequential(_conv(channels, filters, 3, clamp=nn.ReLU), _conv(filters, filters, 3, clamp=nn.ReLU))

        steps = list(pairwise(widths))
        self.first, self.last = pair(3, widths[0]), nn.Conv2d(widths[0], 2, 1)
        self.down = nn.ModuleList(pair(a, b) for a, b in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(steps))
        self.join = nn.ModuleList(pair(2 * a, a) for a, _ in reversed(steps))

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.enter(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        return self.leave(y.transpose(1, 2).reshape(batch, length, width))


def _perceptron(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def _block(width: int, heads: int, causal: bool = False) -> nn.Module:
    """Norms come first, as in GPT-2 and in ViT."""
    attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads, causal))
    return nn.Sequential(Residual(attention), Residual(nn.Sequential(nn.LayerNorm(width), _perceptron(width))))


class Embedding(nn.Module):
    """Words and their places."""

    def __init__(self, words: int, length: int, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.words(tokens) + self.places


def gpt2() -> nn.Module:
    blocks = [_block(512, 8, causal=True) for _ in range(6)]
    return nn.Sequential(Embedding(8192, 64, 512), *blocks, nn.LayerNorm(512), nn.Linear(512, 8192, bias=False))


def bert_mini() -> nn.Module:
    def block(width: int, heads: int) -> nn.Module:  # norms come last
        attention = [Residual(Attention(width, heads, False)), nn.LayerNorm(width)]
        return nn.Sequential(*attention, Residual(_perceptron(width)), nn.LayerNorm(width))

    return nn.Sequential(Embedding(8192, 128, 256), nn.LayerNorm(256), *[block(256, 4) for _ in range(4)])


class ViT(nn.Module):
    """ViT-Ti/16."""

    def __init__(self, width: int = 192, heads: int = 3, depth: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.places = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(197, width))
        self.blocks = nn.Sequential(*[_block(width, heads) for _ in range(depth)], nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


class LSTM(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x)[0])


class ChannelNorm(nn.Module):
    """Layer norm over the channels of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """ConvNeXt-A."""

    def block(width: int) -> nn.Module:
        window = nn.Conv2d(width, width, 7, padding=3, groups=width)
        wide = [nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)]
        return Residual(nn.Sequential(window, ChannelNorm(width), *wide))

    widths, depths = [40, 80, 160, 320], [2, 2, 6, 2]
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if i:
            layers += [ChannelNorm(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
        layers += [block(width) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(320), nn.Linear(320, 1000))


MODELS = [
    Model("ResNet-18", resnet18, _images(224)), Model("MobileNetV2", mobilenet_v2, _images(224)),
    Model("U-Net", UNet, _images(128)), Model("GPT-2", gpt2, _tokens(64, 8192)),
    Model("LSTM", LSTM, lambda batch: torch.randn(batch, 64, 256)), Model("ViT", ViT, _images(224)),
    Model("BERT-mini", bert_mini, _tokens(128, 8192)), Model("ConvNeXt", convnext, _images(224)),
]  # fmt: skip


def drawn(model: Model) -> nn.Module:
    """The module for inference, with weights that neither let its signal die nor grow."""
    torch.manual_seed(0)
    module = model.build().eval()
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(part.weight)
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            nn.init.uniform_(part.running_mean, -0.1, 0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.0)
            nn.init.uniform_(part.bias, -0.1, 0.1)
    return module
