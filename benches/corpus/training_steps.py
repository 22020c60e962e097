"""Steps of training, forward and backward by hand: activations wait to be read in reverse order.

In: sizes. Out: a NumPy function and its arguments, for the tests and benchmarks of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

TrainingStep = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def perceptron(layers: int = 4, rows: int = 256, width: int = 96) -> TrainingStep:
    """Loss and gradients of a perceptron with SiLU."""
    rng = np.random.default_rng(0)
    weights = [normal(rng, width, width) for _ in range(layers)]

    def step(x: Any, y: Any, *weights: Any) -> Any:
        h, stored = x, []
        for w in weights:
            z = h @ w
            stored.append((w, h, z))
            h = z / (1 + np.exp(-z))
        loss, g = ((h - y) ** 2).sum(), 2 * (h - y)
        gradients = []
        for w, h, z in reversed(stored):
            s = 1 / (1 + np.exp(-z))
            g = g * (s * (1 + z * (1 - s)))
            gradients.append(h.T @ g)
            g = g @ w.T
        return loss, gradients

    return step, (normal(rng, rows, width), normal(rng, rows, width), *weights)


def attention_block(batch: int = 2, length: int = 128, width: int = 96, heads: int = 4) -> TrainingStep:
    """A transformer block (attention, SiLU perceptron, residuals) and its gradients."""
    rng = np.random.default_rng(0)
    rows, each = batch * length, width // heads
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
    weights = [normal(rng, *shape) for shape in shapes]

    def split(t: Any) -> Any:
        return t.reshape(batch, length, heads, each).transpose(0, 2, 1, 3)

    def joined(t: Any) -> Any:
        return t.transpose(0, 2, 1, 3).reshape(rows, width)

    def step(x: Any, g: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
        q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
        e = q @ k.transpose(0, 1, 3, 2) * np.float32(each**-0.5)
        e = np.exp(e - e.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        o = joined(p @ v)
        y = x + o @ wo
        z = y @ w1
        s = 1 / (1 + np.exp(-z))
        h = z * s
        dh, dw2 = g @ w2.T, h.T @ g
        dz = dh * (s * (1 + z * (1 - s)))
        dy, dw1 = g + dz @ w1.T, y.T @ dz
        do, dwo = split(dy @ wo.T), o.T @ dy
        dv, dp = p.transpose(0, 1, 3, 2) @ do, do @ v.transpose(0, 1, 3, 2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * np.float32(each**-0.5)
        dq, dk, dv = joined(ds @ k), joined(ds.transpose(0, 1, 3, 2) @ q), joined(dv)
        dx = dy + dq @ wq.T + dk @ wk.T + dv @ wv.T
        return y + h @ w2, dx, x.T @ dq, x.T @ dk, x.T @ dv, dwo, dw1, dw2

    return step, (normal(rng, rows, width), normal(rng, rows, width), *weights)
