"""What NumPy's functions and the methods of arrays say in a law: one term where they can be one, else a LawError.

In: calls with terms among their arguments. Out: terms that mean what NumPy computes, on all arrays that fit them. A
term has no rank: axes are counted from the end, or are attribute variables, and reductions keep theirs
(``keepdims=True``, which goes without saying where they are variables).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from eqfuse.errors import LawError
from eqfuse.ops import elementwise
from eqfuse.rewrites.language.numpy_calls import FUNCTION_TERMS, METHOD_TERMS, PROPERTY_TERMS, UFUNC_TERMS
from eqfuse.rewrites.language.term import Attr, Computation, Term, apply

# axes, shapes, dtypes ------------------------------------------------------------------------------------------------


def _is_variable(value: Any) -> bool:
    return isinstance(value, Attr | Computation)


def _are_ints(values: Any) -> bool:
    return all(type(v) is int for v in values)


def _axis(axis: Any) -> Any:
    return axis if _is_variable(axis) else _axes(axis)[0]


def _axes(axis: Any) -> Any:
    if _is_variable(axis):
        return axis
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    if not _are_ints(axes) or any(a >= 0 for a in axes):
        raise LawError(f"axis={axis!r}: a tensor of a law has no rank. Count from the end, -1, or use p of attrs('p')")
    return tuple(sorted(axes))


def _kept(axis: Any, keepdims: Any) -> Any:
    """The axes of a reduction, which stay with extent 1."""
    axes = _axes(axis)
    if keepdims is not True and not _is_variable(axes):
        raise LawError(f"a reduction over {axis!r} keeps its axes in a law: say keepdims=True")
    return axes


def _shape(shape: tuple) -> Any:
    value = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if _is_variable(value):
        return value
    if not isinstance(value, Sequence) or not _are_ints(value) or any(n < 0 for n in value):
        raise LawError(f"a shape of {value!r}: write whole numbers, s of attrs('s') or computed(shape, x)")
    return tuple(value)


def _dtype(dtype: Any) -> Any:
    return dtype if _is_variable(dtype) else np.dtype(dtype)


# functions that are also methods -------------------------------------------------------------------------------------


def _reduction(op: str) -> Callable[..., Term]:
    def call(x: Any, axis: Any = None, *, keepdims: Any = False) -> Term:
        return apply(op, x, attrs=(_kept(axis, keepdims),))

    return call


def _running(op: str) -> Callable[..., Term]:
    def call(x: Any, axis: Any = None) -> Term:
        return apply(op, x, attrs=(_axis(axis),))

    return call


def _sorting(op: str) -> Callable[..., Term]:
    def call(x: Any, axis: Any = -1, *, stable: Any = False) -> Term:
        return apply(op, x, attrs=(_axis(axis), bool(stable)))

    return call


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Term:
    low, high = ([b for b in pair if b is not None] for pair in ((a_min, min), (a_max, max)))
    if not (low or high) or len(low) > 1 or len(high) > 1:
        raise LawError(f"a clip of {x} has one or two bounds, each said once")
    above = apply("maximum", x, *low) if low else x
    return apply("minimum", above, *high) if high else above


def _round(x: Any, decimals: Any = 0) -> Term:
    if decimals != 0:
        raise LawError(f"rounding {x} to {decimals} decimals is no operator; write np.round(x * 10.0) / 10.0")
    return apply("round", x)


def _transpose(x: Any, *axes: Any) -> Term:
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    if _is_variable(order):
        return apply("transpose", x, attrs=(order,))
    if not order or not isinstance(order, Sequence) or not _are_ints(order):
        raise LawError(f"a transpose by {order!r}: name all axes, (1, 0), or take p of attrs('p'); x.T is of matrices")
    return apply("transpose", x, attrs=(tuple(a % len(order) for a in order),))


def _reshape(x: Any, *shape: Any) -> Term:
    return apply("reshape", x, attrs=(_shape(shape),))


def _astype(x: Any, dtype: Any) -> Term:
    return apply("cast", x, attrs=(_dtype(dtype),))


def _view(x: Any, dtype: Any) -> Term:
    return apply("bitcast", x, attrs=(_dtype(dtype),))


def _take(x: Any, indices: Any, axis: Any = None) -> Term:
    return apply("take", x, indices, attrs=(_axis(axis),))


def _conj(x: Any) -> Term:
    return apply("conj", x)


_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
METHOD_TERMS |= {
    **{op: _reduction(op) for op in _REDUCTIONS},
    "cumsum": _running("cumsum"), "cumprod": _running("cumprod"), "argsort": _sorting("argsort"),
    "clip": _clip, "round": _round, "transpose": _transpose, "reshape": _reshape, "astype": _astype, "view": _view,
    "take": _take, "conj": _conj, "conjugate": _conj,
}  # fmt: skip


def _matrix_transpose(x: Any) -> Term:
    """Of matrices, of which alone the term is."""
    return apply("transpose", x, attrs=((1, 0),))


PROPERTY_TERMS |= {
    "T": _matrix_transpose, "mT": _matrix_transpose, "real": partial(apply, "real"), "imag": partial(apply, "imag"),
}  # fmt: skip


# functions -----------------------------------------------------------------------------------------------------------


def _where(condition: Any, x: Any, y: Any) -> Term:
    return apply("where", condition, x, y)


def _concatenate(arrays: Sequence[Any], axis: Any = 0) -> Term:
    return apply("concat", *arrays, attrs=(_axis(axis),))


def _flip(m: Any, axis: Any = None) -> Term:
    return apply("flip", m, attrs=(_axes(axis),))


def _broadcast_to(array: Any, shape: Any) -> Term:
    return apply("broadcast_to", array, attrs=(_shape((shape,) if not isinstance(shape, int) else ((shape,),)),))


def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Term:
    return apply("take_along_axis", arr, indices, attrs=(_axis(axis),))


def _permuted(a: Any, axes: Any = None) -> Term:
    return _transpose(a, *(() if axes is None else (axes,)))


def _reshaped(a: Any, shape: Any) -> Term:
    return _reshape(a, shape)


def _of_one(op: str) -> Callable[..., Term]:
    def call(x: Any) -> Term:
        return apply(op, x)

    return call


FUNCTION_TERMS |= {
    **{getattr(np, op): METHOD_TERMS[op]
       for op in (*_REDUCTIONS, "cumsum", "cumprod", "argsort", "clip", "round", "take")},
    np.amax: METHOD_TERMS["max"], np.amin: METHOD_TERMS["min"], np.around: _round, np.astype: _astype,
    np.sort: _sorting("sort"), np.where: _where, np.concatenate: _concatenate, np.flip: _flip,
    np.broadcast_to: _broadcast_to, np.take_along_axis: _take_along_axis,
    np.transpose: _permuted, np.reshape: _reshaped,
    np.matrix_transpose: _matrix_transpose, np.linalg.matrix_transpose: _matrix_transpose,
    np.real: _of_one("real"), np.imag: _of_one("imag"), np.linalg.inv: _of_one("inv"), np.linalg.det: _of_one("det"),
}  # fmt: skip


def _positive(x: Any) -> Any:
    return x


_DUPLICATES = ("exp2", "expm1", "log1p", "cbrt")  # which SciPy has, too
UFUNC_TERMS |= {ufunc: partial(apply, name) for name, ufunc in elementwise.UFUNCS.items()}
UFUNC_TERMS |= {getattr(scipy.special, name): partial(apply, name) for name in _DUPLICATES}
UFUNC_TERMS |= {
    np.matmul: partial(apply, "matmul"), np.positive: _positive, np.divmod: divmod, np._core.umath.clip: _clip,  # type: ignore[attr-defined]
}  # fmt: skip
