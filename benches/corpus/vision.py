"""Convolutional networks as TASO and TENSAT build them: no batch norm, convolutions with ReLU, SAME padding.

In: sizes. Out: rows of `networks.NETWORKS`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from eqfuse.benches.corpus.network import Layers, Network, Weights
from eqfuse.benches.corpus.suite import floats
from eqfuse.functions import avg_pool, conv, max_pool, relu


def _same(x: Any, kernel: int, stride: int) -> list[tuple[int, int]]:
    """Padding for which an axis of n elements gives ceil(n / stride), the odd one behind."""
    missing = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x.shape[2:]]
    return [(m // 2, m - m // 2) for m in missing]


def _conv(w: Weights, x: Any, filters: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Any:
    weight = w(filters, x.shape[1] // groups, kernel, kernel)
    return conv(x, weight, stride=stride, padding=_same(x, kernel, stride), groups=groups)


def _max(x: Any, kernel: int, stride: int) -> Any:
    return max_pool(x, kernel, stride=stride, padding=_same(x, kernel, stride))


def _mean(x: Any, kernel: int, stride: int) -> Any:
    return avg_pool(x, kernel, stride=stride, padding=_same(x, kernel, stride))


def _bottleneck(w: Weights, x: Any, stride: int, channels: int, widened: int, groups: int) -> Any:
    t = relu(_conv(w, x, channels))
    t = relu(_conv(w, t, channels, 3, stride, groups))
    t = _conv(w, t, widened * channels)
    if stride > 1 or x.shape[1] != widened * channels:
        x = relu(_conv(w, x, widened * channels, 1, stride))
    return relu(x + t)


def _stages(w: Weights, x: Any, blocks: tuple[int, ...], channels: int, widened: int, groups: int) -> Any:
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage and not i else 1
            x = _bottleneck(w, x, stride, channels << stage, widened, groups)
    return x


def _stem(w: Weights, x: Any, channels: int) -> Any:
    return _max(relu(_conv(w, x, channels, 7, 2)), 3, 2)


def resnet(size: int, channels: int, blocks: tuple[int, ...]) -> Layers:
    layers = partial(_stages, blocks=blocks, channels=channels, widened=4, groups=1)
    return layers, [floats(32, 1, channels, size, size)]


def resnext(size: int, channels: int, blocks: tuple[int, ...], groups: int) -> Layers:
    def network(w: Weights, x: Any) -> Any:
        return _stages(w, _stem(w, x, channels // 2), blocks, channels, 2, groups)

    return network, [floats(32, 1, 3, size, size)]


def _separable(w: Weights, x: Any, channels: int, kernel: int, stride: int = 1) -> Any:
    return _conv(w, _conv(w, x, channels, kernel, stride, groups=channels), channels)


def _squeezed(w: Weights, before: Any, now: Any, channels: int) -> tuple[Any, Any]:
    """Both inputs of a cell with `channels` channels and the height and width of the second."""
    now = relu(_conv(w, now, channels))
    larger = before.shape[2] != now.shape[2]
    return relu(_conv(w, before, channels, 3, 2) if larger else _conv(w, before, channels)), now


def _normal_cell(w: Weights, before: Any, now: Any, channels: int) -> Any:
    before, now = _squeezed(w, before, now, channels)
    return np.concatenate(
        [
            _separable(w, now, channels, 3) + now,
            _separable(w, before, channels, 3) + _separable(w, now, channels, 3),
            _mean(now, 3, 1) + before,
            _mean(before, 3, 1) + _mean(before, 3, 1),
            _separable(w, before, channels, 3) + _separable(w, before, channels, 3),
        ],
        axis=1,
    )


def _reduction_cell(w: Weights, before: Any, now: Any, channels: int) -> Any:
    before, now = _squeezed(w, before, now, channels)
    first = _separable(w, before, channels, 7, 2) + _separable(w, now, channels, 5, 2)
    second = _max(now, 3, 2) + _separable(w, before, channels, 7, 2)
    third = _mean(now, 3, 2) + _separable(w, before, channels, 5, 2)
    fourth = _max(now, 3, 2) + _separable(w, first, channels, 3)
    return np.concatenate([first, second, third, fourth, _mean(first, 3, 1) + second], axis=1)


def nasnet(size: int, channels: int, stages: int, cells: int) -> Layers:
    def network(w: Weights, x: Any) -> Any:
        x = _stem(w, x, channels // 2)
        for stage in range(stages):
            before = now = x
            for _ in range(cells):
                before, now = now, _normal_cell(w, before, now, channels << stage)
            x = _reduction_cell(w, before, now, channels << (stage + 1))
        return x

    return network, [floats(32, 1, 3, size, size)]


_TASO = "examples of TASO, networks of TENSAT"
NETWORKS = (
    Network(
        "ResNet-50", resnet, "example of TASO, which starts behind the stem",
        {"size": 56, "channels": 64, "blocks": (3, 4, 6, 3)}, {"size": 8, "channels": 4, "blocks": (2, 1)},
    ),
    Network(
        "ResNeXt-50", resnext, _TASO,
        {"size": 224, "channels": 128, "blocks": (3, 4, 6, 3), "groups": 32},
        {"size": 16, "channels": 8, "blocks": (2, 1), "groups": 4}, searched=(25.3, 0.7),
    ),
    Network(
        "NasNet-A", nasnet, _TASO,
        {"size": 224, "channels": 128, "stages": 3, "cells": 5},
        {"size": 16, "channels": 4, "stages": 1, "cells": 2}, {"size": 112, "stages": 1, "cells": 2}, (1226, 10.6),
    ),
)  # fmt: skip
