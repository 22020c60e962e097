"""Functions of deep learning that NumPy lacks, for arrays, traced arrays and law patterns alike.

In: NumPy arrays (computed at once), tracers (recorded) or patterns (built). Each is written in operators of the table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from eqfuse.dtypes import NARROW_FLOATS
from eqfuse.errors import ShapeError
from eqfuse.ops import row


def apply(op: str, args: Sequence[Any], attrs: tuple = ()) -> Any:
    """The operator `op` on arrays, or on whatever defines ``__eqfuse_apply__(op, args, attrs)``."""
    for arg in args:
        hook = getattr(type(arg), "__eqfuse_apply__", None)
        if hook is not None:
            return hook(op, args, attrs)
    return row(op).meaning(*args, *attrs)


def stopped(x: Any) -> Any:
    """`x`, on which what is computed of it does not depend: a shift, which a derivative takes for a constant."""
    hook = getattr(type(x), "__eqfuse_stopped__", None)
    return x if hook is None else hook(x)


def _bounded(op: str, x: Any, bound: Callable[[np.dtype], float]) -> Any:
    """`x`; where a derivative is made of it, its "maximum" or "minimum" with a bound of its dtype, beyond which what is
    computed of `x` overflows: the derivative would be infinity times zero."""
    hook = getattr(type(x), "__eqfuse_differentiated__", None)
    if hook is None or not hook() or x.dtype.kind != "f":
        return x
    return apply(op, (x, bound(x.dtype)))


def _most_negative(dtype: np.dtype) -> float:
    """The least whole number x of which exp(-x) is finite."""
    return float(-math.floor(math.log(np.finfo(dtype).max)))


F = TypeVar("F", bound=Callable[..., Any])


def _in_float32(function: F) -> F:
    """`function`, which of floats of 8 or 16 bits is computed in float32: its steps would overflow in their own dtype,
    or leave it (SciPy's erf of float16 is float64, and a Python number takes bfloat16 to float32)."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(type(x), "dtype") or x.dtype not in NARROW_FLOATS:  # patterns have none
            return function(x, *args, **kwargs)
        result = np.result_type(*(a.dtype for a in (x, *args, *kwargs.values()) if hasattr(a, "dtype")))
        return function(x.astype(np.float32), *args, **kwargs).astype(result)

    return call  # type: ignore[return-value]


@_in_float32
def erf(x: Any) -> Any:
    """The error function, element by element; shape and dtype of the floats `x`."""
    return apply("erf", (x,))


@_in_float32
def erfc(x: Any) -> Any:
    """1 - erf(x) without cancellation, element by element; shape and dtype of the floats `x`."""
    return apply("erfc", (x,))


def relu(x: Any) -> Any:
    """The larger of each element of `x` and 0; shape and dtype of `x`. NaN stays NaN."""
    return apply("maximum", (x, 0))


def relu6(x: Any) -> Any:
    """Each element of `x` held between 0 and 6; shape and dtype of `x`. NaN stays NaN."""
    return apply("minimum", (relu(x), 6))


@_in_float32
def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """x where x > 0, else `slope` · x; shape and dtype of the floats `x`."""
    return apply("where", (x > 0, x, x * slope))


@_in_float32
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else `alpha` · (exp(x) - 1); shape and dtype of the floats `x`."""
    falling = _bounded("minimum", x, lambda dtype: 0.0)
    return apply("where", (x > 0, x, apply("expm1", (falling,)) * alpha))


@_in_float32
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), element by element; shape and dtype of the floats `x`."""
    x = _bounded("maximum", x, _most_negative)
    return 1 / (apply("exp", (-x,)) + 1)


@_in_float32
def silu(x: Any) -> Any:
    """x · sigmoid(x), also called swish; shape and dtype of the floats `x`."""
    x = _bounded("maximum", x, _most_negative)
    return x / (apply("exp", (-x,)) + 1)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow; shape and dtype of the floats `x`."""
    return apply("logaddexp", (x, 0))


def tanh(x: Any) -> Any:
    """As np.tanh; shape of `x`."""
    return apply("tanh", (x,))


def exp(x: Any) -> Any:
    """As np.exp; shape of `x`."""
    return apply("exp", (x,))


def log(x: Any) -> Any:
    """As np.log: NaN below 0, -inf at 0; shape of `x`."""
    return apply("log", (x,))


def sqrt(x: Any) -> Any:
    """As np.sqrt: NaN below 0; shape of `x`."""
    return apply("sqrt", (x,))


def maximum(x: Any, y: Any) -> Any:
    """As np.maximum: the larger of two broadcast arrays, NaN where either is."""
    return apply("maximum", (x, y))


def minimum(x: Any, y: Any) -> Any:
    """As np.minimum: the smaller of two broadcast arrays, NaN where either is."""
    return apply("minimum", (x, y))


def where(condition: Any, x: Any, y: Any) -> Any:
    """As np.where of three arguments: `x` where `condition` holds, else `y`, all broadcast."""
    return apply("where", (condition, x, y))


@_in_float32
def gelu(x: Any, approximate: str = "none") -> Any:
    """x · Φ(x) by erf, or by tanh (``approximate="tanh"``), in shape and dtype of `x`. ValueError: another word."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (apply("tanh", (inner,)) + 1)
    if approximate != "none":
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1)


def _axes(x: Any, axis: int | Sequence[int]) -> tuple[int, ...]:
    """Negative, ascending. Patterns have no rank, so laws count their axes from the right."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a if a < 0 else a - x.ndim for a in axes))


def softmax_in_steps(x: Any, axis: int | Sequence[int] = -1) -> Any:
    """As ONNX defines softmax: each step is rounded to the dtype of `x`."""
    axes = _axes(x, axis)
    e = apply("exp", (x - stopped(apply("max", (x,), (axes,))),))
    return e / apply("sum", (e,), (axes,))


@_in_float32
def softmax(x: Any, axis: int | Sequence[int] = -1) -> Any:
    """exp(x) / sum(exp(x)) over `axis`, without overflow; shape and dtype of the floats `x`."""
    return softmax_in_steps(x, axis)


@_in_float32
def log_softmax(x: Any, axis: int | Sequence[int] = -1) -> Any:
    """log(softmax(x)) over `axis`, without overflow or cancellation; shape and dtype of the floats `x`."""
    axes = _axes(x, axis)
    shifted = x - stopped(apply("max", (x,), (axes,)))
    return shifted - apply("log", (apply("sum", (apply("exp", (shifted,)),), (axes,)),))


@_in_float32
def logsumexp(x: Any, axis: int | Sequence[int] = -1) -> Any:
    """log(sum(exp(x))) over `axis`, without overflow; the axis stays with extent 1."""
    axes = _axes(x, axis)
    top = stopped(apply("max", (x,), (axes,)))
    return top + apply("log", (apply("sum", (apply("exp", (x - top,)),), (axes,)),))


@_in_float32
def layer_norm(x: Any, scale: Any = None, shift: Any = None, axis: int | Sequence[int] = -1, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(var + eps) over `axis`, times `scale`, plus `shift`, which broadcast against `x`."""
    axes = _axes(x, axis)
    n = math.prod(x.shape[a] for a in axes)
    centred = x - apply("sum", (x,), (axes,)) / n
    variance = apply("sum", (centred * centred,), (axes,)) / n
    return _affine(centred / apply("sqrt", (variance + eps,)), scale, shift)


@_in_float32
def rms_norm(x: Any, scale: Any = None, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> Any:
    """x / sqrt(mean(x²) + eps) over `axis`, times `scale`, which broadcasts against `x`."""
    axes = _axes(x, axis)
    n = math.prod(x.shape[a] for a in axes)
    return _affine(x / apply("sqrt", (apply("sum", (x * x,), (axes,)) / n + eps,)), scale, None)


def _affine(x: Any, scale: Any, shift: Any) -> Any:
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


@_in_float32
def batch_norm(x: Any, mean: Any, variance: Any, scale: Any, shift: Any, eps: float = 1e-5) -> Any:
    """Inference-time batch norm of ``x[n, c, *spatial]``. ShapeError unless the four others are of shape ``[c]``."""
    mean, variance = _of_channels(mean, x, "mean"), _of_channels(variance, x, "variance")
    scale, shift = _of_channels(scale, x, "scale"), _of_channels(shift, x, "shift")
    return (x - mean) / apply("sqrt", (variance + eps,)) * scale + shift


def _of_channels(v: Any, x: Any, what: str) -> Any:
    """A number for each channel, axis 1 of `x`, in a shape that is repeated over the other axes."""
    if np.shape(v) != x.shape[1:2]:
        raise ShapeError(f"the {what} of {x.shape[1]} channels has the shape {np.shape(v)} instead of {x.shape[1:2]}")
    return np.reshape(v, (-1,) + (1,) * (x.ndim - 2))


def _per_axis(value: int | Sequence[int], spatial: int) -> tuple[int, ...]:
    return (value,) * spatial if isinstance(value, int) else tuple(value)


def _padding(value: Any, spatial: int) -> tuple[tuple[int, int], ...]:
    """(before, after) per axis, from one int, one int per axis, or pairs."""
    each = (value,) * spatial if isinstance(value, int) else tuple(value)
    return tuple((p, p) if isinstance(p, int) else (p[0], p[1]) for p in each)


def conv(
    x: Any, weight: Any, bias: Any = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of ``x[n, c, *spatial]`` with ``weight[o, c / groups, *kernel]``, plus ``bias[o]``.

    `stride` and `dilation`: a number, or one for each spatial axis. `padding`, of zeros: a number, or for each spatial
    axis a number or a pair (before, after). ShapeError where channels and groups, or the bias, do not fit.
    """
    spatial = x.ndim - 2
    attrs = (_per_axis(stride, spatial), _padding(padding, spatial), _per_axis(dilation, spatial), groups)
    y = apply("conv", (x, weight), attrs)
    return y if bias is None else y + _of_channels(bias, y, "bias")


def max_pool(x: Any, window: Any, *, stride: Any = None, padding: Any = 0) -> Any:
    """The largest value of each window over the spatial axes of ``x[n, c, *spatial]``; padding never counts.

    `window`, `stride` (by default the window) and `padding` as in `conv`.
    """
    return apply("window_max", (x,), _window(x, window, stride, padding))


@_in_float32
def avg_pool(x: Any, window: Any, *, stride: Any = None, padding: Any = 0) -> Any:
    """The mean of each window over the spatial axes of ``x[n, c, *spatial]``; padding counts as zeros.

    `window`, `stride` (by default the window) and `padding` as in `conv`.
    """
    extents, *rest = _window(x, window, stride, padding)
    return apply("window_sum", (x,), (extents, *rest)) / math.prod(extents)


def _window(x: Any, window: Any, stride: Any, padding: Any) -> tuple:
    spatial = x.ndim - 2
    extents = _per_axis(window, spatial)
    return extents, extents if stride is None else _per_axis(stride, spatial), _padding(padding, spatial)
