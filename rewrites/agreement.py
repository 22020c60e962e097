"""How exactly the two sides of a law agree on arrays, and whether that is what the law claims.

In: `Case` and arrays. Out: `Comparison`. Next stop: `eqfuse.rewrites.check`, and `shrink` where a law fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.dtypes import epsilon, kind, parts
from eqfuse.ir import Graph, Literal, TensorType
from eqfuse.meaning import evaluate
from eqfuse.ops import Role, row
from eqfuse.rewrites.cases import Case
from eqfuse.rewrites.data import Arrays, layout_of, obeyed
from eqfuse.rewrites.law import APPROXIMATE, EXACT, REASSOCIATES, Exactness


@dataclass(frozen=True)
class Counterexample:
    """Arrays on which the two sides differ."""

    arrays: Arrays
    attributes: dict[str, Any]
    left: np.ndarray
    right: np.ndarray
    graph: Graph

    @property
    def size(self) -> int:
        return sum(a.size + a.ndim for a in self.arrays.values())

    def __str__(self) -> str:
        lines = []
        for name, a in self.arrays.items():
            layout = layout_of(a)
            lines.append(f"  {name} = {TensorType(a.dtype, a.shape)} {a.tolist()}{layout and f' in {layout}'}")
        lines += [f"  {name} = {value}" for name, value in self.attributes.items()]
        return "\n".join([*lines, f"  left side  {self.left.tolist()}", f"  right side {self.right.tolist()}"])

    @property
    def snippet(self) -> str:
        """Python text that prints both sides."""
        lines = ["import numpy as np", "from numpy import inf, nan", "import eqfuse as ef"]
        if any(map(layout_of, self.arrays.values())):
            lines.append("from eqfuse.rewrites.data import laid_out")
        arrays = [_array_text(a) for a in self.arrays.values()]
        lines.append(f'graph = ef.parse("""{self.graph}""")')
        return "\n".join([*lines, f"print(*ef.meaning(graph, {', '.join(arrays)}))"])


def _array_text(a: np.ndarray) -> str:
    """Python text of an array, in its memory layout."""
    text = f'np.array({a.tolist()}, "{a.dtype.name}").reshape({a.shape})'
    return f"laid_out({text}, {layout!r})" if (layout := layout_of(a)) else text


@dataclass(frozen=True, eq=False)
class Comparison:
    """Both sides of `case` on `arrays`: the strictest class in which they agree (None: in none); does the law hold?

    `by_layout`: bits differ, only because NumPy rounds a function otherwise in another memory layout.
    """

    case: Case
    arrays: Arrays
    left: np.ndarray
    right: np.ndarray
    reached: Exactness | None
    holds: bool
    by_layout: bool = False

    @property
    def shows(self) -> Exactness | None:
        """What this says about the law: no less than the claim where the claim says nothing about these data."""
        if self.holds and (self.reached is None or self.reached > self.case.claimed):
            return self.case.claimed
        return self.reached

    @property
    def counterexample(self) -> Counterexample:
        values = {a.name: v.text() if isinstance(v, Literal) else v for a, v in self.case.attributes.items()}
        return Counterexample(self.arrays, values, self.left, self.right, self.case.graph)


def compare(case: Case, arrays: Arrays) -> Comparison | None:
    """Evaluate both sides; None where a guard refuses these data, NumPy does (2 ** -1 in integers), or a NaN's bits are
    read."""
    with np.errstate(all="ignore"):
        if not obeyed(case, arrays):
            return None
        try:
            values = evaluate(case.steps, tuple(arrays.values()))
        except (IndexError, ValueError):
            return None
        by_node = dict(zip(case.steps.outputs, values, strict=True))
        if any(np.isnan(read).any() for read in case.read_bits(by_node)):
            return None
        pairs = case.pairs(by_node)
        scale = 1.0
        for value in values:
            finite = np.abs(parts(value[np.isfinite(value)]).astype(np.float64))
            scale = max(scale, float(finite.max(initial=0.0)))
        found = [agreement(left, right, scale) for left, right in pairs]
        looseness = [len(Exactness) if class_ is None else int(class_) for class_ in found]
        worst = looseness.index(max(looseness))
        (left, right), reached = pairs[worst], found[worst]
        by_layout = reached == REASSOCIATES and all(same_bits(*pair) for pair in _along_memory(case, arrays))
        if by_layout:
            reached = EXACT
        holds = not _binds(case, arrays) or (reached is not None and reached <= case.claimed)
        if case.claimed != EXACT and _ordinary(arrays) and _defined_apart(left, right):
            reached, holds = None, False
    return Comparison(case, arrays, left, right, reached, holds, by_layout)


def _along_memory(case: Case, arrays: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both sides again, every function of elements on contiguous arrays of its own shape.

    NumPy may round a function in one way where it runs along contiguous memory, and in another along strides: that is
    no difference between the sides.
    """
    values = dict(zip(case.graph.inputs, arrays.values(), strict=True))
    for n in case.graph.nodes:
        if n in values:
            continue
        args = [values[a] for a in n.args]
        if row(n.op).role == Role.ELEMENTWISE:
            args = [np.array(np.broadcast_to(a, n.shape), order="C") for a in args]
        values[n] = np.asarray(row(n.op).meaning(*args, *n.attrs))
    return case.pairs(values)


def _binds(case: Case, arrays: Arrays) -> bool:
    """Does what the law claims say anything about these data?

    Bits are always the same bits. Rounding is only comparable where nothing over- or underflows: at moderate numbers,
    and at infinities and NaN (but the empty sum is 0, and no law keeps it so when it is scaled by these). A law that
    may lose these speaks about finite numbers.
    """
    if case.claimed == EXACT or all(kind(n.dtype) not in "fc" for n in case.graph.nodes):
        return True
    empty = any(n.type.size == 0 for n in case.graph.nodes)
    for array in arrays.values():
        if array.dtype.kind == "c" and not np.isfinite(array).all():  # which has no arithmetic to rely on
            return False
        values = parts(array).astype(np.float64)
        finite = np.isfinite(values)
        if (empty or case.claimed == APPROXIMATE) and not finite.all():
            return False
        if (values[finite] * 2 != np.rint(values[finite] * 2)).any() or (np.abs(values[finite]) > 64).any():
            return False
    return True


def _ordinary(arrays: Arrays) -> bool:
    """Are these real numbers of no special kind: neither large nor small, and no multiples of a half?"""
    found = [a for a in arrays.values() if kind(a.dtype) in "fc"]
    return bool(found) and all(
        a.dtype in (np.float32, np.float64) and (2 * a != np.rint(2 * a)).all() and (abs(np.log2(np.abs(a))) < 3).all()
        for a in found
    )


def _defined_apart(left: np.ndarray, right: np.ndarray) -> bool:
    """Is one side NaN where the other is a number? No law may say so of ordinary numbers, however approximate.

    Such laws do not add up: if x and abs(x) both equal sqrt(x) * sqrt(x) where that is defined, an e-graph holds all
    three equal everywhere. A guard must say where both sides are defined.
    """
    if kind(left.dtype) not in "fc":
        return False
    return bool((np.isnan(left) & np.isfinite(right) | np.isfinite(left) & np.isnan(right)).any())


def agreement(left: np.ndarray, right: np.ndarray, scale: float) -> Exactness | None:
    """The strictest class in which `left` and `right` agree, when values as large as `scale` were met on the way."""
    if kind(left.dtype) not in "fc":
        return EXACT if np.array_equal(left, right) else None
    finite_left, finite_right = np.isfinite(left), np.isfinite(right)  # a complex number is finite in both its parts
    both = finite_left & finite_right
    error = np.abs(parts(left[both]).astype(np.float64) - parts(right[both]).astype(np.float64))
    slack = 64 * epsilon(left.dtype) * scale
    if same_bits(left, right):
        return EXACT
    if (error > slack).any():
        return None
    return REASSOCIATES if (finite_left == finite_right).all() else APPROXIMATE


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Are all elements equal, zeros in their sign too? Every NaN is the same NaN."""
    return bool(same_elements(parts(left), parts(right)).all())


def same_elements(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where arrays of real numbers hold the same."""
    if kind(left.dtype) != "f":
        return left == right
    with np.errstate(all="ignore"):  # of float8
        return (left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right)
