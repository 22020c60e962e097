"""NumPy statements, one rule per operator: text that computes a node into a named array.

In: a node and the names of its operands and result. Out: lines of Python, and the functions they call (`NAMES`).
Users' names and constants never reach this text: operands are names that the emitter has made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.emit.numpy.erf import erf as fast_erf
from eqfuse.emit.numpy.transpose_copy import blocks_of, copy_transposed
from eqfuse.emit.numpy.where import choose
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops import TABLE, Role, row
from eqfuse.ops.elementwise import UFUNCS, complex_array
from eqfuse.ops.types import Shape

# the ufunc that a reduction repeats, and that joins two partial results
JOINS = {name: op.joined_by for name, op in TABLE.items() if op.joined_by is not None}

WINDOWED = ("conv", "window_max", "window_sum")  # small ones run by their meaning

NAMES: dict[str, Any] = {
    "fast_erf": fast_erf, "choose": choose, "copy_transposed": copy_transposed, "blocks_of": blocks_of,
    "clip": np._core.umath.clip, "einsum": np._core.multiarray.c_einsum,  # type: ignore[attr-defined]
    **UFUNCS, "vecdot": np.vecdot, "matmul": np.matmul, "dot": np.dot, "copyto": np.copyto, "where": np.where,
    "argmax": np.argmax, "argmin": np.argmin, "complex_array": complex_array,
    "empty": np.empty, "broadcast_to": np.broadcast_to, "flip": np.flip, "ascontiguousarray": np.ascontiguousarray,
    "divmod": divmod, "min": min, "slice": slice, "range": range, "iter": iter, "every": slice(None),
    **{name: row(name).meaning for name in (*WINDOWED, "sliding_window")},
}  # fmt: skip

ONE_RUN = ("isnan", "isinf", "isfinite", "signbit")  # NumPy 2.4 writes wrong answers where the result has gaps

CHOOSE_FROM = 2048  # elements; below, a masked copy is faster than looking at the condition first


def into(n: Node, args: Sequence[str], out: str, axes: tuple[int, ...] = ()) -> str:
    """The statement that computes `n` of `args` into the array `out`. `axes`: those reduced, from the left."""
    if n.op == "minimum" and len(args) == 3:
        return f"clip({', '.join(args)}, {out})"
    if n.op in UFUNCS:
        keyword = "out=" if n.op in ("maximum", "minimum") else ""  # NumPy wants no third positional argument there
        return f"{n.op}({', '.join(args)}, {keyword}{out})"
    if n.op == "cast":
        return f"copyto({out}, {args[0]}, 'unsafe')"
    if n.op in ("real", "imag"):
        return f"copyto({out}, {args[0]}.{n.op})"
    if n.op == "complex":
        return f"complex_array({args[0]}, {args[1]}, {out})"
    if n.op in JOINS:
        return f"{JOINS[n.op]}.reduce({args[0]}, {axes}, None, {out}, True)"
    if n.op in ("argmax", "argmin"):
        return f"{n.op}({args[0]}, {axes[0]}, {out}, keepdims=True)"
    if n.op == "matmul":
        return f"matmul({args[0]}, {args[1]}, {out})"
    if n.op in WINDOWED:
        return f"copyto({out}, {n.op}({', '.join([*args, *map(repr, n.attrs)])}))"
    raise UnsupportedOp(f"the NumPy emitter (eqfuse/emit/numpy/ops.py) has no statement for {n.op!r} inside a kernel")


def whole_product(n: Node, args: Sequence[str], out: str) -> str:
    """The product of whole arrays into `out`, which has no gaps. For two matrices ``dot`` takes half the time to call
    BLAS, and calls it for operands of any strides; but one element it takes for a factor, and 0 * NaN to be 0. A stack
    times one matrix is one product: ``matmul`` would read that matrix for each of the stack.
    """
    left, right = args
    if n.dtype.char not in "fdFD" or not one_product(n) or 1 in (n.args[0].type.size, n.args[1].type.size):
        return f"matmul({left}, {right}, {out})"
    if len(n.args[0].shape) > 2:
        left, out = f"{left}.reshape({folded(n.args[0])})", f"{out}.reshape({folded(n)})"
    if len(n.args[1].shape) > 2:
        right = f"{right}.reshape({folded(n.args[1])})"
    return f"dot({left}, {right}, {out})"


def one_product(n: Node) -> bool:
    """Is the matrix product `n` one of two matrices, the leading axes of its left operand taken as rows?

    (A matrix of one element is none: ``dot`` scales the other by it, and takes 0 * NaN to be 0.)
    """
    of_matrices = math.prod(n.args[1].shape[:-2]) == 1 and n.shape[:-1] == n.args[0].shape[:-1]
    return of_matrices and n.type.size > 0 and all(a.type.size > 1 for a in n.args)


def folded(n: Node) -> Shape:
    """The shape of `n` as one matrix."""
    return (math.prod(n.shape[:-1]), n.shape[-1])


def fresh(n: Node, args: Sequence[str], name: str, dtype: str) -> str:
    """The statement that computes `n` of `args` into a new array `name`; `dtype` names the result's dtype."""
    if n.op == "minimum" and len(args) == 3:
        return f"{name} = clip({', '.join(args)})"
    if n.op in UFUNCS or n.op in ("where", "matmul"):
        return f"{name} = {n.op}({', '.join(args)})"
    if n.op == "cast":
        return f"{name} = {args[0]}.astype({dtype})"
    if n.op in ("real", "imag"):
        return f"{name} = {args[0]}.{n.op}.copy()"  # else it would lie in memory that is written again
    if n.op == "complex":
        return f"{name} = complex_array({args[0]}, {args[1]})"
    if n.op in JOINS:
        return f"{name} = {JOINS[n.op]}.reduce({args[0]}, {n.attrs[0]}, None, None, True)"
    if n.op in WINDOWED:
        return f"{name} = {n.op}({', '.join([*args, *map(repr, n.attrs)])})"
    if n.op in ("argmax", "argmin"):
        return f"{name} = {n.op}({args[0]}, {n.attrs[0][0]}, keepdims=True)"  # type: ignore[index]
    raise UnsupportedOp(f"the NumPy emitter (eqfuse/emit/numpy/ops.py) has no statement for {n.op!r} inside a kernel")


def masked_copy(args: Sequence[str], out: str) -> list[str]:
    """``where`` into `out`, which may be the third operand but not the second."""
    condition, yes, no = args
    lines = [] if out == no else [f"copyto({out}, {no})"]
    return [*lines, f"copyto({out}, {yes}, where={condition})"]


def view_text(name: str, view: Node) -> str:
    """The expression that takes the view operator `view` of the array `name`."""
    (attr,) = view.attrs
    if view.op == "transpose":
        return f"{name}.transpose({attr})"
    if view.op == "reshape":
        return f"{name}.reshape({attr})"
    if view.op == "broadcast_to":
        return f"broadcast_to({name}, {attr})"
    if view.op == "slice":
        assert isinstance(attr, tuple)
        steps = (f"{start}:{stop}" + (f":{step}" if step != 1 else "") for start, stop, step in attr)
        return f"{name}[{', '.join(steps)}]" if attr else name
    if view.op == "flip":
        return f"flip({name}, {attr})"
    if view.op == "sliding_window":
        return f"sliding_window({name}, {attr})"
    raise UnsupportedOp(f"the NumPy emitter (eqfuse/emit/numpy/ops.py) has no row for the view {view.op!r}")


def computes(n: Node) -> bool:
    """Is `n` neither a leaf nor a view?"""
    return row(n.op).role not in (Role.LEAF, Role.VIEW)
