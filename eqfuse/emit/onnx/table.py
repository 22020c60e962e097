"""The table of ONNX exports: one row per operator, a function from values to a value, or a reason why there is none.

In: rows, from the files beside this one. Out: the nodes of an operator. Used by `emit/onnx/model.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from eqfuse.emit.onnx.body import Builder, OnnxValue
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops import fft, linalg, statistics
from eqfuse.ops.special import SPECIAL_UFUNCS

NodeWriter = Callable[..., OnnxValue]  # of a body, a node, the values of its arguments, and its attributes
F = TypeVar("F", bound=NodeWriter)
Ints = Sequence[int]
Pads = Sequence[tuple[int, int]]
Range = tuple[int, int, int]
ONNX_WRITERS: dict[str, NodeWriter] = {}


def writer_of(*names: str) -> Callable[[F], F]:
    """Make the decorated function how the operators `names` are written."""

    def add(function: F) -> F:
        ONNX_WRITERS.update(dict.fromkeys(names, function))
        return function

    return add


def onnx_value(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    """The value of `n` for `args`. UnsupportedOp names the operator that ONNX cannot express."""
    try:
        if any(t.dtype.kind == "c" for t in (*n.args, n)):
            raise UnsupportedOp("ONNX has no complex numbers")
        if n.op not in ONNX_WRITERS:
            missing = "the table of ONNX exports (eqfuse/emit/onnx/table.py) has no row for it"
            raise UnsupportedOp(NOT_EXPORTED.get(n.op, missing))
        value = ONNX_WRITERS[n.op](b, n, args, *n.attrs)
    except UnsupportedOp as error:
        types = ", ".join(str(a.type) for a in n.args)
        error.args = (f"{n.op}({types}) cannot be written as ONNX: {error}",)
        raise
    assert value.dtype == n.dtype, f"the row {n.op!r} gives {value.dtype}, not {n.dtype}"
    return value


# ---- what ONNX cannot express

NOT_EXPORTED = {
    **dict.fromkeys({op.name for op in linalg.ROWS} - {"det"}, "ONNX has no solvers and no decompositions"),
    **dict.fromkeys((op.name for op in fft.ROWS), "ONNX has no complex numbers"),
    **dict.fromkeys((op.name for op in statistics.ROWS), "ONNX has no order statistics and no histograms"),
    **dict.fromkeys(SPECIAL_UFUNCS, "ONNX has no special functions but erf"),
    **dict.fromkeys(("cumprod", "accumulate", "reduceat", "fold"), "ONNX has no scan but sums"),
    **dict.fromkeys(("bitcast", "signbit", "copysign", "nextafter", "ldexp", "bitwise_count"),
                    "ONNX of opset 21 cannot read the bits of a number"),
    **dict.fromkeys(("gcd", "lcm"), "ONNX has no arithmetic of divisors"),
    **dict.fromkeys(("partition", "argpartition", "lexsort", "searchsorted", "digitize", "isin", "convolve",
                     "correlate", "interp"), "ONNX has no such operator"),
    "pure_callback": "a function of yours is code, and ONNX holds none",
    "erfc": "ONNX has erf alone, and 1 - erf(x) has no digits left where x is large",
}  # fmt: skip
