"""Three real programs, written as anyone would write them in NumPy, with seeded arguments.

In: sizes (the defaults are the published ones). Out: an `Example`, which the demo, the benchmarks and the tests run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import erf

from eqfuse.functions import conv, max_pool

Build = Callable[[DTypeLike], tuple[Callable[..., Any], tuple[Any, ...]]]


@dataclass(frozen=True)
class Example:
    """One program: `build(dtype)` gives the function and its arguments, the same numbers in every dtype."""

    name: str
    summary: str
    build: Build

    def precise(self) -> Any:
        """What the program returns when everything is computed in float64."""
        function, arguments = self.build(np.float64)
        return function(*arguments)


def layer_norm(x: Any, gain: Any, shift: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def self_attention(x: Any, p: dict[str, Any], heads: int) -> Any:
    batch, tokens, width = x.shape

    def split(name: str) -> Any:
        y = x @ p[name]["weight"] + p[name]["bias"]
        return y.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    q, k, v = split("query"), split("key"), split("value")
    scores = q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5
    mixed = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
    return mixed @ p["out"]["weight"] + p["out"]["bias"]


def attention_block(x: Any, p: dict[str, Any], heads: int) -> Any:
    """A pre-norm transformer block: attention and a GELU perceptron, each behind a layer norm, both residual."""
    x = x + self_attention(layer_norm(x, **p["norm1"]), p, heads)
    h = gelu(layer_norm(x, **p["norm2"]) @ p["up"]["weight"] + p["up"]["bias"])
    return x + h @ p["down"]["weight"] + p["down"]["bias"]


def transformer(batch: int = 8, tokens: int = 512, width: int = 768, heads: int = 12, blocks: int = 1) -> Example:
    def build(dtype: DTypeLike) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rng = np.random.default_rng(0)

        def normal(scale: float, *shape: int) -> np.ndarray:
            return (rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)

        def linear(n: int, m: int) -> dict[str, np.ndarray]:
            return {"weight": normal(n**-0.5, n, m), "bias": normal(0.1, m)}

        def norm() -> dict[str, np.ndarray]:
            return {"gain": 1 + normal(0.1, width), "shift": normal(0.1, width)}

        def parameters() -> dict[str, Any]:
            square = {name: linear(width, width) for name in ("query", "key", "value", "out")}
            return square | {
                "up": linear(width, 4 * width), "down": linear(4 * width, width), "norm1": norm(), "norm2": norm()
            }  # fmt: skip

        def transformer_block(x: Any, layers: list[dict[str, Any]]) -> Any:
            for p in layers:
                x = attention_block(x, p, heads)
            return x

        return transformer_block, (normal(1.0, batch, tokens, width), [parameters() for _ in range(blocks)])

    title = "transformer block" if blocks == 1 else f"{blocks} transformer blocks"
    return Example(title, f"batch {batch}, sequence {tokens}, width {width}, {heads} heads, GELU", build)


def black_scholes(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> dict[str, Any]:
    """Prices and Greeks of European options."""

    def phi(z: Any) -> Any:
        return 0.5 + 0.5 * erf(z / 1.4142135623730951)

    root = np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / (volatility * root)
    d2 = d1 - volatility * root
    discounted = strike * np.exp(-rate * years)
    density = np.exp(-0.5 * d1**2) / 2.5066282746310002
    decay = -spot * density * volatility / (2 * root)
    return {
        "call": spot * phi(d1) - discounted * phi(d2),
        "put": discounted * phi(-d2) - spot * phi(-d1),
        "delta": phi(d1),
        "gamma": density / (spot * volatility * root),
        "vega": spot * density * root,
        "theta": decay - rate * discounted * phi(d2),
        "rho": years * discounted * phi(d2),
    }


def options(count: int = 4_000_000) -> Example:
    def build(dtype: DTypeLike) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rng = np.random.default_rng(0)
        bounds = ((50, 150), (50, 150), (0.1, 2), (0.0, 0.1), (0.1, 0.5))
        columns = ((rng.random(count, np.float32) * np.float32(b - a) + np.float32(a)).astype(dtype) for a, b in bounds)
        return black_scholes, tuple(columns)

    return Example("Black–Scholes", f"prices and Greeks of {count:,} options", build)


def convolution(batch: int = 64, channels: int = 32, filters: int = 64, size: int = 56) -> Example:
    """Weights and statistics are constants of the function, as in a model that is ready to be used."""

    def build(dtype: DTypeLike) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rng = np.random.default_rng(0)

        def normal(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape, np.float32)

        x = normal(batch, channels, size, size).astype(dtype)
        weight = (normal(filters, channels, 3, 3) * np.float32(0.06)).astype(dtype)
        per_filter = (filters, 1, 1)
        gain, shift, mean = (normal(*per_filter).astype(dtype) for _ in range(3))
        variance = (np.square(normal(*per_filter)) + np.float32(0.5)).astype(dtype)

        def convolution_block(x: Any) -> Any:
            y = conv(x, weight, padding=1)
            y = (y - mean) / np.sqrt(variance + 1e-5) * gain + shift
            return max_pool(np.maximum(y, 0), 2)

        return convolution_block, (x,)

    title = "Conv → BatchNorm → ReLU → MaxPool"
    return Example(title, f"3×3, {channels}→{filters} channels on {batch}×{channels}×{size}×{size}, pool 2", build)


def full_size_programs() -> list[Example]:
    """The three programs at their published sizes."""
    return [transformer(), options(), convolution()]


def small_programs() -> list[Example]:
    """The same three in a few milliseconds."""
    return [
        transformer(batch=2, tokens=64, width=96, heads=4),
        options(count=100_000),
        convolution(batch=4, channels=8, filters=16, size=28),
    ]
