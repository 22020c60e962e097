"""torch's fused attention on the CPU, and its gradient.

In: calls of rows from `nodes.py`. Out: traced arrays. torch's own decomposition has not the results that its gradient
reads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.torch.table import aten, insist, wide, wide_product


def _scores(q: Any, k: Any, is_causal: bool, mask: Any, scale: float | None) -> Any:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = wide_product(q, lazy.swapaxes(k, -1, -2)) * factor
    if mask is not None:
        scores = scores + mask.astype(scores.dtype)
    if is_causal:
        scores = f.where(np.tri(q.shape[-2], k.shape[-2], dtype=np.bool_), scores, -math.inf)
    return scores


@aten("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Any:  # fmt: skip
    insist(not dropout_p, "attention with dropout")
    scores = _scores(query, key, is_causal, attn_mask, scale)
    if attn_mask is None:
        weights, total = f.softmax_in_steps(scores, -1), f.logsumexp(scores, -1)[..., 0]
    else:
        top = lazy.max(scores, axis=-1, keepdims=True)
        hidden = lazy.equal(top, -math.inf)  # rows that see nothing are zero
        parts = np.exp(scores - f.where(hidden, 0, top))
        sums = lazy.sum(parts, axis=-1, keepdims=True)
        weights = parts / f.where(hidden, 1, sums)
        total = (top + np.log(f.where(hidden, 1, sums)))[..., 0]
    return wide_product(weights, value), total


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    insist(not dropout_p, "attention with dropout")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _scores(query, key, is_causal, attn_mask, scale)
    total = logsumexp.astype(scores.dtype)[..., None]
    weights = np.exp(scores - (total if attn_mask is None else f.where(lazy.equal(total, -math.inf), 0, total)))
    grad, out = grad_out.astype(wide(grad_out.dtype)), out.astype(wide(out.dtype))
    of_value = wide_product(lazy.swapaxes(weights, -1, -2), grad)
    of_weights = wide_product(grad, lazy.swapaxes(value, -1, -2))
    of_scores = weights * (of_weights - lazy.sum(grad * out, axis=-1, keepdims=True)) * factor
    return wide_product(of_scores, key), wide_product(lazy.swapaxes(of_scores, -1, -2), query), of_value
