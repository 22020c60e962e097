"""The six kernels of Mirage's benchmarks (benchmark/*.py). Nothing is known before a call, as there.

In: sizes; `b` is the batch. Out: rows of `networks.NETWORKS`. Half precision at full size, float32 where a CPU runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.benches.corpus.network import Layers, Network, Weights
from eqfuse.benches.corpus.suite import floats
from eqfuse.functions import rms_norm, silu


def gated_perceptron(rows: int, width: int, bits: int) -> Layers:
    def kernel(_: Weights, x: Any, w1: Any, w2: Any) -> Any:
        return silu(x @ w1) * (x @ w2)

    return kernel, [floats(bits, rows, width), *[floats(bits, width, width)] * 2]


def _weighted(q: Any, k: Any, v: Any) -> Any:
    """Attention without the maximum, as Mirage writes it."""
    e = np.exp(q @ k)
    return (e / e.sum(axis=-1, keepdims=True)) @ v


def _attention_types(b: int, rows: int, keys: int, bits: int) -> list:
    return [floats(bits, 2 * b, rows, 64), floats(bits, 2 * b, 64, keys), floats(bits, 2 * b, keys, 64)]


def grouped_query_attention(b: int, rows: int, keys: int, bits: int) -> Layers:
    return lambda _, q, k, v: _weighted(q, k, v), _attention_types(b, rows, keys, bits)


def normed_attention(b: int, rows: int, keys: int, bits: int) -> Layers:
    """Mirage's file norms the values, not the keys."""
    return lambda _, q, k, v: _weighted(rms_norm(q), k, rms_norm(v)), _attention_types(b, rows, keys, bits)


def low_rank(rows: int, inner: int, width: int, rank: int, bits: int) -> Layers:
    def kernel(_: Weights, x: Any, w: Any, a: Any, b: Any) -> Any:
        return x @ w + (x @ a) @ b

    shapes = ((rows, inner), (inner, width), (inner, rank), (rank, width))
    return kernel, [floats(bits, *shape) for shape in shapes]


def normed_transformer(rows: int, width: int, bits: int) -> Layers:
    """One residual step of nGPT, with root mean squares for its norms, as Mirage has it."""

    def kernel(_: Weights, h: Any, x: Any, alpha: Any) -> Any:
        return rms_norm(x + alpha * (rms_norm(h) + x))

    return kernel, [floats(bits, rows, width)] * 3


def normed_product(rows: int, inner: int, width: int, bits: int) -> Layers:
    return lambda _, x, w: rms_norm(x) @ w, [floats(bits, rows, inner), floats(bits, inner, width)]


def _row(id: str, build: Any, full: dict[str, int], small: dict[str, int], fits: dict[str, int]) -> Network:
    return Network(f"Mirage {id}", build, "Mirage", full | {"bits": 16}, small | {"bits": 32}, fits | {"bits": 32})


_ATTENTION = {"b": 1, "rows": 256, "keys": 4096}
NETWORKS = (
    _row("gated MLP", gated_perceptron, {"rows": 8, "width": 4096}, {"rows": 3, "width": 6}, {}),
    _row("GQA", grouped_query_attention, _ATTENTION, {"b": 1, "rows": 4, "keys": 8}, {"b": 4}),
    _row("QKNorm GQA", normed_attention, _ATTENTION, {"b": 1, "rows": 4, "keys": 8}, {"b": 4}),
    _row("LoRA", low_rank, {"rows": 16, "inner": 256, "width": 4096, "rank": 16},
         {"rows": 3, "inner": 4, "width": 6, "rank": 2}, {"rows": 1024}),
    _row("nTrans", normed_transformer, {"rows": 8, "width": 4096}, {"rows": 3, "width": 6}, {"rows": 1024}),
    _row("RMSNorm MatMul", normed_product, {"rows": 2, "inner": 4096, "width": 6144},
         {"rows": 3, "inner": 6, "width": 4}, {"rows": 512, "inner": 1024}),
)  # fmt: skip
