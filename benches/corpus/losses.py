"""Losses to train by, each written once for every library: NumPy traced by eqfuse, JAX, torch and HIPS autograd.

In: a `Library`. Out: `Training`: a function of parameters and data, in the first `count` of whose arguments it is
differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Library:
    """What losses are written with: `np` has exp, log, sqrt, tanh and where; the rest is named differently."""

    np: Any
    relu: Callable[[Any], Any]
    amax: Callable[[Any], Any]  # along the last axis, which stays
    swap: Callable[[Any], Any]  # of the last two axes
    erf: Callable[[Any], Any] | None = None
    conv: Callable[[Any, Any], Any] | None = None  # "same" convolution of images
    pool: Callable[[Any], Any] | None = None  # largest of 2 x 2


def _cross_entropy(lib: Library, scores: Any, labels: Any) -> Any:
    shifted = scores - lib.amax(scores)
    return (lib.np.log(lib.np.exp(shifted).sum(-1)) - (shifted * labels).sum(-1)).mean()


def perceptron(lib: Library, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> Any:
    h = lib.relu(x @ w1 + b1)
    return _cross_entropy(lib, lib.relu(h @ w2 + b2) @ w3 + b3, labels)


def block(lib: Library, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any, x: Any, y: Any) -> Any:
    """Attention of one head and a perceptron with SiLU, each after a layer norm and beside a shortcut."""

    def normed(x: Any) -> Any:
        centred = x - x.mean(-1)[..., None]
        return centred / lib.np.sqrt((centred * centred).mean(-1)[..., None] + 1e-5)

    h = normed(x)
    scores = (h @ wq) @ lib.swap(h @ wk) * x.shape[-1] ** -0.5
    weights = lib.np.exp(scores - lib.amax(scores))
    x = x + (weights / weights.sum(-1)[..., None]) @ (h @ wv) @ wo
    h = normed(x) @ w1
    return ((x + (h / (1 + lib.np.exp(-h))) @ w2 - y) ** 2).mean()


def convolution(lib: Library, w: Any, gain: Any, shift: Any, v: Any, x: Any, labels: Any) -> Any:
    """Convolution, batch norm by the batch's own means, ReLU, pooling, and a linear layer."""
    assert lib.conv is not None and lib.pool is not None
    h = lib.conv(x, w)
    centred = h - h.mean((0, 2, 3))[None, :, None, None]
    scale = gain / lib.np.sqrt((centred * centred).mean((0, 2, 3)) + 1e-5)
    h = lib.pool(lib.relu(centred * scale[None, :, None, None] + shift[None, :, None, None]))
    return _cross_entropy(lib, h.mean((2, 3)) @ v, labels)


def lstm_cell(lib: Library, wx: Any, wh: Any, b: Any, x: Any, h: Any, c: Any, y: Any) -> Any:
    n = h.shape[-1]
    gates = x @ wx + h @ wh + b
    i, f, o = (1 / (1 + lib.np.exp(-gates[:, k * n : (k + 1) * n])) for k in range(3))
    return ((o * lib.np.tanh(f * c + i * lib.np.tanh(gates[:, 3 * n :])) - y) ** 2).mean()


def factorisation(lib: Library, u: Any, v: Any, ratings: Any, mask: Any) -> Any:
    return (mask * (u @ v - ratings) ** 2).sum() + 0.01 * ((u * u).sum() + (v * v).sum())


def greeks(lib: Library, spot: Any, volatility: Any, strike: Any, years: Any) -> Any:
    """The value of calls by Black and Scholes, whose gradient holds their deltas and vegas."""
    assert lib.erf is not None
    root = volatility * lib.np.sqrt(years)
    d = (lib.np.log(spot / strike) + (0.02 + 0.5 * volatility * volatility) * years) / root
    phi, psi = 0.5 * (1 + lib.erf(d * 0.70710678)), 0.5 * (1 + lib.erf((d - root) * 0.70710678))
    return (spot * phi - strike * lib.np.exp(-0.02 * years) * psi).sum()


def logistic(lib: Library, w: Any, b: Any, x: Any, y: Any) -> Any:
    z = x @ w + b
    return (lib.relu(z) - z * y + lib.np.log(1 + lib.np.exp(-lib.np.abs(z)))).mean() + 0.01 * (w * w).sum()


def vocabulary(lib: Library, h: Any, w: Any, labels: Any) -> Any:
    return _cross_entropy(lib, h @ w, labels)


@dataclass(frozen=True)
class Training:
    """`count`: the arguments in which `loss` is differentiated. Those at `labels` have a one in each row."""

    name: str
    loss: Callable[..., Any]
    count: int
    shapes: tuple[Shape, ...]
    labels: int | None = None
    positive: bool = False

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        arrays = []
        for i, shape in enumerate(self.shapes):
            if i == self.labels:
                arrays.append(np.eye(shape[-1])[rng.integers(shape[-1], size=shape[0])])
            elif self.positive:
                arrays.append(rng.uniform(0.5, 1.5, shape))
            else:
                arrays.append(rng.normal(size=shape) / (np.sqrt(shape[-2]) if i < self.count and len(shape) > 1 else 1))
        return [a.astype(np.float32) for a in arrays]


TRAINING = [
    Training(
        "perceptron", perceptron, 6,
        ((256, 512), (512,), (512, 512), (512,), (512, 10), (10,), (1024, 256), (1024, 10)), 7,
    ),
    Training("transformer block", block, 6, (*((256, 256),) * 4, (256, 1024), (1024, 256), *((4, 256, 256),) * 2)),
    Training(
        "conv, batch norm", convolution, 4, ((32, 16, 3, 3), (32,), (32,), (32, 10), (16, 16, 32, 32), (16, 10)), 5
    ),
    Training("LSTM cell", lstm_cell, 3, ((256, 1024), (256, 1024), (1024,), *((256, 256),) * 4)),
    Training("matrix factorisation", factorisation, 2, ((2000, 32), (32, 1500), *((2000, 1500),) * 2)),
    Training("Black-Scholes Greeks", greeks, 2, ((1_000_000,),) * 4, positive=True),
    Training("logistic regression", logistic, 2, ((200,), (), (50_000, 200), (50_000,))),
    Training("linear, cross-entropy", vocabulary, 2, ((512, 256), (256, 16384), (512, 16384)), 2),
]  # fmt: skip
