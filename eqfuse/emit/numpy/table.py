"""The NumPy row of every operator: the text that computes it, and the functions that the text calls.

In: rows of the operator table. Out: `NUMPY_ROWS`. Used by `emit/numpy/ops.py` inside kernels and by
`emit/numpy/library.py` for kernels of one call. Users' names and constants never reach this text: operands are names
that the emitter has made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqfuse.emit.numpy.cholesky import cholesky_change, cholesky_cotangent
from eqfuse.emit.numpy.inverses import inv_slogdet, inv_triangular
from eqfuse.emit.numpy.orders import order
from eqfuse.ops import TABLE, Op, Role
from eqfuse.ops.elementwise import UFUNCS, complex_array
from eqfuse.ops.fft import TRANSFORMS
from eqfuse.ops.host_function import host_function
from eqfuse.ops.types import TensorType

_IN_ATTRIBUTES = {"dtype": np.dtype, "host_function": host_function}  # what their text calls
_windows = TABLE["sliding_window"].meaning


@dataclass(frozen=True)
class NumpyRow:
    """How NumPy computes an operator.

    Templates: {0}, {1}: arguments; {all}: every argument; {out}: the array to write; attributes by their names in the
    operator's row, of which {axes} are those of the array at hand, {dtype} is the name of one, and {ranges} an index.
    """

    into: str | None = None  # the statement that writes into {out}; None where an algorithm of the emitter's does
    new: str | None = None  # the expression of a new array, or of a view; None where there is none
    names: Mapping[str, Any] = field(default_factory=dict)
    one_run: bool = False  # NumPy 2.4 writes wrong answers where the result has gaps
    by_meaning: bool = False  # it copies what the operator's meaning returns
    own_array: bool = False  # and that is a new array without gaps


def _of_ufunc(op: str) -> NumpyRow:
    out = "out={out}" if op in ("maximum", "minimum") else "{out}"  # they take no third positional argument
    one_run = op in ("isnan", "isinf", "isfinite", "signbit", "negative")
    return NumpyRow(f"{op}({{all}}, {out})", f"{op}({{all}})", {op: UFUNCS[op]}, one_run)


def _of_part(op: str) -> NumpyRow:
    # a view would lie in memory that is written again
    return NumpyRow(f"copyto({{out}}, {{0}}.{op})", f"{{0}}.{op}.copy()")


def _of_reduction(op: Op) -> NumpyRow:
    ufunc = op.joined_by
    if ufunc is None:
        call = f"{op.name}({{0}}, {{axes[0]}}"
        return NumpyRow(f"{call}, {{out}}, keepdims=True)", f"{call}, keepdims=True)", {op.name: getattr(np, op.name)})
    call = f"{ufunc}.reduce({{0}}, {{axes}}, None"
    return NumpyRow(f"{call}, {{out}}, True)", f"{call}, None, True)")


def _of_meaning(op: Op) -> NumpyRow:
    call = f"{op.name}({', '.join(['{all}', *(f'{{{name}!r}}' for name in op.attrs)])})"
    return NumpyRow(f"copyto({{out}}, {call})", call, {op.name: op.meaning} | _IN_ATTRIBUTES, by_meaning=True)


def _of_transform(op: str) -> NumpyRow:
    return NumpyRow(f"{op}({{0}}, {{n}}, {{axis}}, {{norm!r}}, {{out}})", names={op: TRANSFORMS[op]})


def _fill_sorted(out: np.ndarray, x: np.ndarray, axis: int, stable: bool) -> None:
    np.copyto(out, x)
    out.sort(axis, "stable" if stable else None)


def _fill_parted(out: np.ndarray, x: np.ndarray, axis: int, kth: tuple[int, ...]) -> None:
    np.copyto(out, x)
    out.partition(kth, axis)


def _fmod(x: Any, y: Any, out: np.ndarray | None = None) -> Any:
    """np.fmod, with its bits. Its own loop takes 28 ns for an element of floats, these calls 11 (NumPy 2.4, EPYC)."""
    if np.result_type(x, y).kind != "f":
        return np.fmod(x, y, out)
    return np.copysign(np.remainder(abs(x), abs(y)), x, out)


NUMPY_VIEWS: dict[str, NumpyRow] = {
    "transpose": NumpyRow(new="{0}.transpose({axes})"),
    "reshape": NumpyRow(new="{0}.reshape({shape})"),
    "broadcast_to": NumpyRow(new="broadcast_to({0}, {shape})", names={"broadcast_to": np.broadcast_to}),
    "slice": NumpyRow(new="{0}{ranges}"),
    "flip": NumpyRow(new="flip({0}, {axes})", names={"flip": np.flip}),
    "sliding_window": NumpyRow(new="sliding_window({0}, {windows})", names={"sliding_window": _windows}),
}
# operators inside kernels; small convolutions and windows run by their meaning
INSIDE: dict[str, NumpyRow] = {
    **{op: _of_ufunc(op) for op in UFUNCS},
    "fmod": replace(_of_ufunc("fmod"), names={"fmod": _fmod}),
    "where": NumpyRow(new="where({all})", names={"where": np.where}),  # into: `masked_copy`, or `where.choose`
    "cast": NumpyRow("copyto({out}, {0}, 'unsafe')", "{0}.astype({dtype})"),
    "real": _of_part("real"),
    "imag": _of_part("imag"),
    "complex": NumpyRow("complex_array({all}, {out})", "complex_array({all})", {"complex_array": complex_array}),
    **{name: _of_reduction(op) for name, op in TABLE.items() if op.role is Role.REDUCTION},
    "concat": NumpyRow(
        "concatenate(({all},), {axis}, {out})", "concatenate(({all},), {axis})", {"concatenate": np.concatenate}
    ),
    "pad": NumpyRow(),  # `ops.replaced_slices`
    "take": NumpyRow("take({all}, {axis}, {out})", "take({all}, {axis})", {"take": np.take}),
    "take_along_axis": NumpyRow(
        "copyto({out}, take_along_axis({all}, {axis}))", "take_along_axis({all}, {axis})",
        {"take_along_axis": np.take_along_axis},
    ),
    "matmul": NumpyRow("matmul({all}, {out})", "matmul({all})", {"matmul": np.matmul}),
    **{name: _of_meaning(TABLE[name]) for name in ("conv", "window_max", "window_sum")},
}
# of numbers, which NumPy's own do in a fraction of the time that a call takes, with the same bits
NUMBERS: dict[str, str] = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}",
    "negative": "-{0}", "square": "{0} * {0}",
}  # fmt: skip


def are_numbers(op: str, out: TensorType, types: Sequence[TensorType]) -> bool:
    """Are these numbers, of which `op` makes one by NumPy's own arithmetic?"""
    return op in NUMBERS and out.dtype.char in "fd" and all(t == out and not t.shape for t in (out, *types))


# operators that are kernels of their own
CALLS: dict[str, NumpyRow] = {
    **{name: _of_meaning(op) for name, op in TABLE.items() if op.role in (Role.LIBRARY, Role.GATHER)},
    "concat": INSIDE["concat"],
    "take": INSIDE["take"],
    "cumsum": NumpyRow("cumsum({0}, {axis}, {out}.dtype, {out})", names={"cumsum": np.cumsum}),
    "cumprod": NumpyRow("cumprod({0}, {axis}, {out}.dtype, {out})", names={"cumprod": np.cumprod}),
    "accumulate": NumpyRow("np.{ufunc}.accumulate({0}, {axis}, None, {out})", names={"np": np}),
    "reduceat": NumpyRow("np.{ufunc}.reduceat({0}, {1}, {axis}, None, {out})", names={"np": np}),
    "fold": NumpyRow("np.{ufunc}.reduce({0}, {axes}, None, {out}, True)", names={"np": np}),
    "sort": NumpyRow("sort({out}, {0}, {axis}, {stable})", names={"sort": _fill_sorted}),
    "argsort": NumpyRow("order({out}, {0}, {axis}, {stable})", names={"order": order}),
    "partition": NumpyRow("partition({out}, {0}, {axis}, {kth})", names={"partition": _fill_parted}),
    **{name: _of_transform(name) for name in TRANSFORMS},
    "inv_triangular": NumpyRow("inv_triangular({0}, {out})", names={"inv_triangular": inv_triangular}),
    "cholesky_change": NumpyRow("cholesky_change({all}, {out})", names={"cholesky_change": cholesky_change}),
    "cholesky_cotangent": NumpyRow("cholesky_cotangent({all}, {out})",
                                   names={"cholesky_cotangent": cholesky_cotangent}),
    "inv_slogdet": NumpyRow("inv_slogdet({0}, {out})", names={"inv_slogdet": inv_slogdet}),
    **{name: replace(_of_meaning(TABLE[name]), own_array=True) for name in ("convolve", "correlate")},
    **dict.fromkeys(("slice_scatter", "pad"), NumpyRow()),  # `library.laid_over`
    "scatter": NumpyRow(),  # `library.scatter`
}
NUMPY_ROWS: dict[str, NumpyRow] = {**NUMPY_VIEWS, **INSIDE, **CALLS}
