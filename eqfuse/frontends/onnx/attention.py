"""ONNX attention and rotary embedding.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import dtype_of, matrix_product, one_of, operator


@operator("Attention", since=23)
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> Any:
    """softmax(q kᵀ scale + bias) v per head, the new keys and values behind the past ones."""
    one_of(qk_matmul_output_mode, (0, 1, 2, 3), "qk_matmul_output_mode")
    flat = q.ndim == 3
    if flat:
        q, k, v = (_heads(x, n) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    if past_key is not None:
        k, v = lazy.concatenate((past_key, k), 2), lazy.concatenate((past_value, v), 2)
    keys, values = k, v
    if q.shape[1] % k.shape[1]:
        raise ShapeError(f"{q.shape[1]} heads of queries share no {k.shape[1]} heads of keys")
    if q.shape[1] != k.shape[1]:
        k, v = (lazy.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    factor = np.asarray(math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)).astype(q.dtype)
    scores = matrix_product(q * factor, lazy.swapaxes(k * factor, -1, -2))
    shown = scores
    if softcap > 0:
        scores = lazy.tanh(scores / softcap) * softcap
        shown = scores if qk_matmul_output_mode == 1 else shown
    past = 0 if past_key is None else past_key.shape[2]
    bias = _bias(q, keys, mask, past, lengths, is_causal, left_window_size, right_window_size)
    if bias is not None:
        scores = scores + bias
    if qk_matmul_output_mode == 2:
        shown = scores
    wide = scores if softmax_precision is None else scores.astype(dtype_of(softmax_precision))
    weights = f.softmax_in_steps(wide)
    if bias is not None:
        never = np.asarray(-math.inf).astype(q.dtype)
        masked = lazy.max(bias, -1, keepdims=True) == never  # such a row attends to nothing
        value = masked.constant_value()
        if value is None or value.any():
            weights = f.where(masked, 0, weights)
    weights = weights.astype(q.dtype)
    if qk_matmul_output_mode == 3:
        shown = weights
    y = matrix_product(weights, v)
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return y, keys, values, shown


def _heads(x: Any, heads: int | None) -> Any:
    """[batch, sequence, heads · size] as [batch, heads, sequence, size]."""
    if not heads:
        raise ShapeError("inputs of rank 3 need q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def _bias(q: Any, k: Any, mask: Any, past: int, lengths: Any, causal: int, left: int, right: int) -> Any:
    """What is added to the scores: minus infinity where a query must not look. None where nothing is."""
    queries, length = q.shape[2], k.shape[2]
    zero, never = (np.asarray(n).astype(q.dtype) for n in (0, -math.inf))
    parts = []
    if mask is not None:
        bias = f.where(mask, zero, never) if mask.dtype.kind == "b" else mask
        if mask.shape[-1] < length:
            widths = [(0, 0)] * (mask.ndim - 1) + [(0, length - mask.shape[-1])]
            bias = lazy.pad(bias, widths, constant_values=-math.inf)
        parts.append(bias)
    keys: Any = np.arange(length)
    own: Any = np.arange(queries).reshape(-1, 1) + past  # the queries' places among the keys
    if lengths is not None:
        own = np.arange(queries).reshape(1, 1, -1, 1) + (lengths - queries).reshape(-1, 1, 1, 1)
        keys = keys.reshape(1, 1, 1, -1)
    if causal:
        parts.append(lazy.where(own < keys, never, zero))
    if left >= 0:
        parts.append(lazy.where(own - keys <= left, zero, never))
    if right >= 0:
        parts.append(lazy.where(keys - own <= right, zero, never))
    if lengths is not None:
        inside = lazy.where(np.arange(length) < lengths.reshape(-1, 1), np.float32(0), np.float32(-math.inf))
        parts.append(inside.reshape(-1, 1, 1, length).astype(q.dtype))
    return lift(sum(parts[1:], parts[0])) if parts else None


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Any:
    """Pairs of elements turned by an angle that depends on the position in the sequence."""
    shape = x.shape
    if x.ndim == 3:
        x = _heads(x, num_heads)
    size = rotary_embedding_dim or x.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    if positions is not None:
        cos, sin = lazy.take(cos, positions, 0), lazy.take(sin, positions, 0)
    cos, sin = lazy.expand_dims(cos, 1), lazy.expand_dims(sin, 1)
    first = turned[..., 0::2] if interleaved else turned[..., : size // 2]
    second = turned[..., 1::2] if interleaved else turned[..., size // 2 :]
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    if interleaved:
        turned = lazy.stack((real, imaginary), -1).reshape(turned.shape)
    else:
        turned = lazy.concatenate((real, imaginary), -1)
    y = lazy.concatenate((turned, rest), -1) if rest.shape[-1] else turned
    return y if len(shape) == 4 else y.transpose(0, 2, 1, 3).reshape(shape)
