"""Which results of a graph have but one value, whatever the order of adding, and whether those at hand agree with them.

In: a graph. Out: arrays for it, and a judge of results. Where a graph adds or multiplies up, its arrays hold small
integers, so that sums are exact in every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqfuse import dtypes
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node

EXACT_INTEGERS = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
ADDING = ("sum", "prod", "matmul", "conv", "window_sum", "cumsum")
# the sign of their zeros depends on NumPy's own order, and these show it
ENDS_IN_ZERO = (*ADDING, "max", "min", "window_max", "fmax", "fmin")
SHOWS_ITS_SIGN = ("divide", "reciprocal", "copysign", "signbit", "atan2", "power")
# NumPy rounds these in another way where an array runs backwards, and those of float16 where it has gaps
BY_LAYOUT = (
    "log10", "sinh", "cosh", "tan", "cbrt", "asinh", "acosh", "log1p", "expm1", "atan2", "power", "hypot", "exp",
    "tanh", "sin", "atan", "erf",
)  # fmt: skip
# a result of these that was rounded in another way is near what it should be
TAME = (
    "input", "const", "transpose", "reshape", "broadcast_to", "slice", "flip", "concat", "add", "subtract", "multiply",
    "square", "negative", "abs", "maximum", "minimum", "fmax", "tanh", "sin", "atan", "hypot", "conj", "max", "min",
    *ADDING,
)  # fmt: skip


def arrays_for(rng: np.random.Generator, graph: Graph) -> list[np.ndarray]:
    """Small integers; where nothing is added up also fractions, zeros of both signs, infinities and NaN."""
    adds = any(n.op in ADDING for n in graph.nodes)
    arrays = []
    for n in graph.inputs:
        array = rng.integers(0 if n.dtype.kind in "ub" else -2, 3, n.shape)
        if not adds and n.dtype.kind not in "iub":
            array = array + rng.normal(size=n.shape)
            special = rng.random(n.shape) < (0.1 if rng.random() < 0.3 else 0)
            array = np.where(special, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], n.shape), array)
        arrays.append(np.asarray(array).astype(n.dtype))
    return arrays


class Reference:
    """What `graph` means for `arrays`. ValueError where NumPy refuses it: a negative power of an integer."""

    def __init__(self, graph: Graph, arrays: Sequence[np.ndarray]) -> None:
        self.graph = graph
        with np.errstate(all="ignore"):
            values = evaluate(Graph(graph.inputs, graph.nodes), arrays)
        self.values = dict(zip(graph.nodes, values, strict=True))
        self.largest = float(np.max([_magnitudes(v).max(initial=1.0) for v in values]))
        self.coarsest = max((dtypes.epsilon(n.dtype) for n in graph.nodes if n.dtype.kind not in "iub"), default=0.0)
        self.exact = self._exact()

    def _exact(self) -> bool:
        ops = {n.op for n in self.graph.nodes}
        if any(n.dtype.kind == "c" for n in self.graph.nodes):  # NumPy rounds x *= y of one element in another way
            return False
        halves = any(n.dtype == np.float16 for n in self.graph.nodes)
        if "erf" in ops or ((halves or "flip" in ops) and not ops.isdisjoint(BY_LAYOUT)):  # NumPy has no erf
            return False
        zeros = any(n.op in ENDS_IN_ZERO and not self.values[n].all() for n in self.graph.nodes)
        if zeros and not ops.isdisjoint(SHOWS_ITS_SIGN):
            return False
        return all(self._adds_exactly(n) for n in self.graph.nodes if n.op in ADDING and n.dtype.kind not in "iub")

    def _adds_exactly(self, n: Node) -> bool:
        args = [_magnitudes(self.values[a]) for a in n.args]
        if n.op == "prod":
            most = float(np.prod(np.maximum(args[0], 1), n.attr("axes")).max(initial=0.0))
        else:
            most = math.prod(float(a.max(initial=0.0)) for a in args) * n.args[0].type.size
        return all(np.array_equal(a, np.floor(a)) for a in args) and most <= EXACT_INTEGERS[n.dtype.name]

    def agree(self, results: Sequence[np.ndarray], exact: bool = True) -> bool:
        """Are these its results? To the bit if `exact`, where they have but one value; else up to rounding."""
        return all(self._agrees(got, n, exact) for got, n in zip(results, self.graph.outputs, strict=True))

    def _agrees(self, got: np.ndarray, n: Node, exact: bool) -> bool:
        wanted = self.values[n]
        if got.dtype != wanted.dtype or got.shape != wanted.shape:
            return False
        if exact and self.exact:
            return _same(got, wanted, any(m.op in ENDS_IN_ZERO for m in self.graph.nodes))
        if not math.isfinite(self.largest) or any(m.op not in TAME for m in self.graph.nodes):
            return True
        near, far = (dtypes.real_parts(v).astype(np.float64) for v in (got, wanted))
        return bool((np.abs(near - far) <= 64 * self.coarsest * self.largest**2).all())


def _magnitudes(array: np.ndarray) -> np.ndarray:
    return np.abs(dtypes.real_parts(array).astype(np.float64))


def _same(got: np.ndarray, wanted: np.ndarray, any_zero: bool) -> bool:
    """The same bits, but for those of a NaN; and, if `any_zero`, for the sign of a zero."""
    if got.tobytes() == np.ascontiguousarray(wanted).tobytes():
        return True
    number = ~np.isnan(wanted)
    same = (got == wanted)[number].all() if any_zero else got[number].tobytes() == wanted[number].tobytes()
    return bool(same and (np.isnan(got) == ~number).all())
