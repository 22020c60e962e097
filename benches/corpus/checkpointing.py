"""Training graphs of the kinds that papers on checkpointing use: a chain, residual blocks, a U-Net with its long
shortcuts. Value and gradient, whose activations wait to be read in reverse order.

In: sizes. Out: a NumPy function and its arguments, for the tests and benchmarks of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.training_steps import TrainingStep, normal


def _gradient(loss: Any, rows: int, width: int, shapes: list[tuple[int, int]]) -> TrainingStep:
    rng = np.random.default_rng(0)
    data = normal(rng, rows, width), normal(rng, rows, width)
    return ef.value_and_grad(loss, tuple(range(2, 2 + len(shapes)))), (*data, *(normal(rng, *s) for s in shapes))


def chain(layers: int = 16, rows: int = 4096, width: int = 64) -> TrainingStep:
    """Layers of alike size, one behind the other."""

    def loss(x: Any, y: Any, *weights: Any) -> Any:
        for w in weights:
            x = np.maximum(x @ w, 0)
        return ((x - y) ** 2).sum()

    return _gradient(loss, rows, width, [(width, width)] * layers)


def residual(blocks: int = 8, rows: int = 4096, width: int = 64) -> TrainingStep:
    """Blocks of two products, each beside a shortcut."""

    def loss(x: Any, y: Any, *weights: Any) -> Any:
        for first, second in zip(weights[::2], weights[1::2], strict=True):
            x = x + np.tanh(x @ first) @ second
        return ((x - y) ** 2).sum()

    return _gradient(loss, rows, width, [(width, 2 * width), (2 * width, width)] * blocks)


def u_net(levels: int = 3, rows: int = 8192, width: int = 64) -> TrainingStep:
    """Half as many rows at each level, and up again, where the values of the way down are added."""

    def loss(x: Any, y: Any, *weights: Any) -> Any:
        left, kept = iter(weights), []
        for _ in range(levels):
            kept.append(np.tanh(x @ next(left)))
            x = kept[-1].reshape(-1, 2, width).mean(1)
        x = np.tanh(x @ next(left))
        while kept:
            x = np.tanh((np.repeat(x, 2, axis=0) + kept.pop()) @ next(left))
        return ((x - y) ** 2).sum()

    return _gradient(loss, rows, width, [(width, width)] * (2 * levels + 1))
