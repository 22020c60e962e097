"""ONNX normalisations and losses.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, dtype_of, need_shape, one_of, operator
from eqfuse.functions import apply


def _per_channel(v: Any, x: Any) -> Any:
    """The vector `v` as it meets the channels of ``x[n, c, *spatial]``."""
    return v.reshape((-1,) + (1,) * (x.ndim - 2))


@operator("BatchNormalization", since=14)
def batch_normalization(
    x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:  # fmt: skip
    if not training_mode:
        return f.batch_norm(x, mean, variance, scale, shift, epsilon)
    axes = (0, *range(2, x.ndim))
    now, spread = lazy.mean(x, axes), lazy.var(x, axes)
    running = (old * momentum + new * (1 - momentum) for old, new in ((mean, now), (variance, spread)))
    return f.batch_norm(x, now, spread, scale, shift, epsilon), *running


@operator("BatchNormalization", since=7)
def batch_normalization_at_inference(
    x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    spatial: int = 1,
) -> Any:  # fmt: skip
    if not spatial:
        raise UnsupportedOp("BatchNormalization per element: convert the model to opset 9 or later")
    return f.batch_norm(x, mean, variance, scale, shift, epsilon)


@operator("BatchNormalization", since=6)
def batch_normalization_for_test(
    x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, is_test: int = 0,
    momentum: float = 0.9, spatial: int = 1,
) -> Any:  # fmt: skip
    if not is_test or not spatial:
        raise UnsupportedOp("BatchNormalization of opset 6 for training, or per element: convert the model")
    return f.batch_norm(x, mean, variance, scale, shift, epsilon)


@operator("InstanceNormalization", since=6)
def instance_normalization(x: Any, scale: Any, shift: Any, *, epsilon: float = 1e-5) -> Any:
    axes = tuple(range(2, x.ndim))
    return f.layer_norm(x, _per_channel(scale, x), _per_channel(shift, x), axes, epsilon)


@operator("LayerNormalization", since=17)
def layer_normalization(
    x: Any, scale: Any, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """Mean and deviation are computed in the dtype `stash_type`."""
    wide = x.astype(dtype_of(stash_type))
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    y = f.layer_norm(wide, None, None, axes, epsilon).astype(x.dtype) * scale
    y = y if shift is None else y + shift
    if outputs == 1:
        return y
    n = math.prod(x.shape[a] for a in axes)
    mean = lazy.sum(wide, axes, keepdims=True) / n
    centred = wide - mean
    return y, mean, 1 / lazy.sqrt(lazy.sum(centred * centred, axes, keepdims=True) / n + epsilon)


@operator("RMSNormalization", since=23)
def rms_normalization(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    return f.rms_norm(x.astype(dtype_of(stash_type)), None, axes, epsilon).astype(x.dtype) * scale


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Any, scale: Any, shift: Any, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    normal = _by_group(x.astype(dtype_of(stash_type)), num_groups, epsilon).astype(x.dtype)
    flat = normal.reshape(x.shape[0], x.shape[1], -1)
    return (flat * scale.reshape(1, -1, 1) + shift.reshape(1, -1, 1)).reshape(x.shape)


@operator("GroupNormalization", since=18)
def group_normalization_by_group(x: Any, scale: Any, shift: Any, *, num_groups: int, epsilon: float = 1e-5) -> Any:
    """Version 18 has one scale per group."""
    normal = _by_group(x, num_groups, epsilon)
    return (normal * scale.reshape(1, -1, 1) + shift.reshape(1, -1, 1)).reshape(x.shape)


def _by_group(x: Any, groups: int, epsilon: float) -> Any:
    return f.layer_norm(x.reshape(x.shape[0], groups, -1), None, None, -1, epsilon)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Any, *, axes: tuple[int, ...] = (0, 2, 3)) -> Any:
    centred = x - lazy.mean(x, axes, keepdims=True)
    return centred / (lazy.sqrt(lazy.mean(centred * centred, axes, keepdims=True)) + 1e-9)


@operator("LpNormalization")
def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """A vector of zeros stays one."""
    one_of(p, (1, 2), "p")
    total = lazy.sum(np.abs(x) if p == 1 else x * x, axis, keepdims=True)
    norm = total if p == 1 else lazy.sqrt(total)
    return f.where(norm == 0, 0, x / f.where(norm == 0, 1, norm))


@operator("LRN")
def lrn(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """Divided by what the squares of neighbouring channels sum to."""
    before = (size - 1) // 2
    squares = lazy.moveaxis(x * x, 1, -1)
    sums = apply("window_sum", (squares,), ((size,), (1,), ((before, size - 1 - before),)))
    return x / (lazy.moveaxis(sums, -1, 1) * (alpha / size) + bias) ** beta


# ---- losses


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    """-x[n, target[n, …], …], times the target's weight."""
    need_shape(target, (x.shape[0], *x.shape[2:]), "the target")
    need_shape(weight, x.shape[1:2], "the weight")
    kept = None if ignore_index is None else target != ignore_index
    safe = target if kept is None else f.where(kept, target, 0)
    loss = -lazy.squeeze(lazy.take_along_axis(x, lazy.expand_dims(safe, 1), 1), 1)
    weights = None if weight is None else lazy.take(weight, safe, 0)
    if kept is not None:
        weights = kept.astype(x.dtype) if weights is None else f.where(kept, weights, 0)
    if weights is not None:
        loss = loss * weights if kept is None else f.where(kept, loss * weights, 0)
    if one_of(reduction, ("none", "sum", "mean"), "reduction") == "none":
        return loss
    total = lazy.sum(loss)
    if reduction == "sum":
        return total
    return total / (lazy.sum(weights) if weights is not None else math.prod(loss.shape))


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    scores: Any, labels: Any, weights: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:
    logarithms = f.log_softmax(scores, 1)
    loss = negative_log_likelihood(logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss, logarithms


