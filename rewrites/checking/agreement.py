"""How exactly the two sides of a law agree on arrays, and whether that is what the law claims.

In: `LawCase` and arrays. Out: `Comparison`. Next stop: `check`, and `shrink` where a law fails. The left
side is judged where its running error bound says something; the right side has the whole range of its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import epsilon, kind, real_parts
from eqfuse.ir.evaluate import every_value
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ir.running_errors import errors_of_values
from eqfuse.ops import Role
from eqfuse.ops.approximation import Approximation, ErrorModel, full_range, pairwise, safe_range
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.checking.cases import LawCase
from eqfuse.rewrites.checking.data import Arrays, layout_name, obeyed
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Exactness

GROWTH = 16.0  # of the running error bound, by one law that REASSOCIATES
SLACK = 4.0  # of both bounds, which are of the first order
MODERATE, MODERATE_HALF = 2.0**10, 2.0**3  # products of some such numbers, and their inverses, do not overflow; float16

# the left side is judged where its bound says something, the right side may use the whole range
LEFT_SIDE, RIGHT_SIDE = ErrorModel(safe_range, pairwise, margin=GROWTH), ErrorModel(full_range, pairwise)


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
            layout = layout_name(a)
            lines.append(f"  {name} = {TensorType(a.dtype, a.shape)} {a.tolist()}{layout and f' in {layout}'}")
        lines += [f"  {name} = {value}" for name, value in self.attributes.items()]
        return "\n".join([*lines, f"  left side  {self.left.tolist()}", f"  right side {self.right.tolist()}"])

    @property
    def snippet(self) -> str:
        """Python text that prints both sides."""
        lines = ["import numpy as np", "from numpy import inf, nan", "import eqfuse as ef"]
        if any(map(layout_name, self.arrays.values())):
            lines.append("from eqfuse.rewrites.checking.data import laid_out")
        arrays = [_array_text(a) for a in self.arrays.values()]
        lines.append(f'graph = ef.parse("""{self.graph}""")')
        return "\n".join([*lines, f"print(*ef.meaning(graph, {', '.join(arrays)}))"])


def _array_text(a: np.ndarray) -> str:
    """Python text of an array, in its memory layout."""
    text = f'np.array({a.tolist()}, "{a.dtype.name}").reshape({a.shape})'
    return f"laid_out({text}, {layout!r})" if (layout := layout_name(a)) else text


@dataclass(frozen=True, eq=False)
class Comparison:
    """Both sides of `case` on `arrays`: the strictest class in which they agree (None: in none).

    `by_layout`: bits differ, only because NumPy rounds a function otherwise in another memory layout.
    """

    case: LawCase
    arrays: Arrays
    left: np.ndarray
    right: np.ndarray
    reached: Exactness | None
    by_layout: bool = False

    @property
    def holds(self) -> bool:
        return self.reached is not None and self.reached <= self.case.claimed

    @property
    def counterexample(self) -> Counterexample:
        values = {a.name: v.text() if isinstance(v, Literal) else v for a, v in self.case.attributes.items()}
        return Counterexample(self.arrays, values, self.left, self.right, self.case.graph)


def compare_sides(case: LawCase, arrays: Arrays) -> Comparison | None:
    """Evaluate both sides; None where a guard refuses these data, NumPy does (2 ** -1 in integers), or a NaN's bits are
    read."""
    with np.errstate(all="ignore"):
        if not obeyed(case, arrays):
            return None
        try:
            values = every_value(case.graph, tuple(arrays.values()))
        except (IndexError, ValueError):
            return None
        if any(np.isnan(read).any() for read in case.read_bits(values)):
            return None
        different = [(a, b) for a, b in case.sides if not same_bits(values[a], values[b])]
        if not different:
            return _compared(case, arrays, values, case.sides[0], EXACT)
        data = numbers_of(arrays)
        if case.claimed > EXACT and not data.finite and not all(n.type.size for n in case.graph.nodes):
            return None  # an empty sum is 0, whatever infinity or NaN it is scaled by
        classes = [agreement(*pair, data) for pair in bounds_of(different, values)]
        looseness = [len(Exactness) if class_ is None else int(class_) for class_ in classes]
        worst = looseness.index(max(looseness))
        if classes[worst] == REASSOCIATES and all(same_bits(*pair) for pair in _along_memory(case, arrays)):
            return _compared(case, arrays, values, different[worst], EXACT, by_layout=True)
    return _compared(case, arrays, values, different[worst], classes[worst])


def _compared(
    case: LawCase, arrays: Arrays, values: Mapping[Node, np.ndarray], sides: tuple[Node, Node],
    reached: Exactness | None, by_layout: bool = False,
) -> Comparison:  # fmt: skip
    left, right = sides
    return Comparison(case, arrays, values[left], values[right], reached, by_layout)


def bounds_of(
    sides: Sequence[tuple[Node, Node]], values: Mapping[Node, np.ndarray]
) -> list[tuple[Approximation, Approximation]]:
    """`sides` with their running error bounds. Where the left one says nothing, the right one does not matter."""
    lefts, rights = zip(*sides, strict=True)
    left = errors_of_values(topological(lefts), values, LEFT_SIDE)
    if not any(np.isfinite(left[a].error).any() for a in lefts):
        return [(left[a], Approximation(values[b], np.full((), np.inf))) for a, b in sides]
    right = errors_of_values(topological(rights), values, RIGHT_SIDE)
    return [(left[a], right[b]) for a, b in sides]


@dataclass(frozen=True)
class NumberKinds:
    """What kind of numbers a case is computed on: of all its arrays, or of each element.

    `finite`: no infinities, no NaN. `moderate`: nothing over- or underflows but by an infinity that is given.
    `ordinary`: neither large, nor small, nor a multiple of a half. `distinct`: positive, and none near another or 1, so
    that digits are lost only where the law itself makes it so.
    """

    finite: Any
    moderate: Any
    ordinary: Any
    distinct: bool = False


def numbers_of(arrays: Arrays) -> NumberKinds:
    inexact = [a for a in arrays.values() if kind(a.dtype) in "fc"]
    each = elements_of([real_parts(a) for a in inexact])
    finite, moderate = (all(bool(v.all()) for v in values) for values in (each.finite, each.moderate))
    moderate &= finite or all(kind(a.dtype) == "f" for a in inexact)  # complex infinities have no arithmetic
    ordinary = bool(inexact) and all(bool(v.all()) for v in each.ordinary)
    return NumberKinds(finite, moderate, ordinary, _distinct(inexact))


def _distinct(arrays: Sequence[np.ndarray]) -> bool:
    if not arrays or any(kind(a.dtype) != "f" or not (a > 0).all() for a in arrays):
        return False
    exponents = [np.unique(np.log2(a.astype(np.float64))) for a in arrays if a.size]
    met = np.sort(np.concatenate([*exponents, [0.0]]))
    return bool((np.diff(met) >= 1).all())


def elements_of(arrays: Sequence[np.ndarray]) -> NumberKinds:
    """The same of each element of each array of floating-point numbers, but for what is distinct."""
    wide = [a.astype(np.float64) for a in arrays]
    sizes = [np.abs(a) for a in wide]
    finite = [np.isfinite(a) for a in wide]
    limits = [MODERATE_HALF if a.dtype == np.float16 else MODERATE for a in arrays]
    moderate = [(s == 0) | ~np.isfinite(s) | (s * n >= 1) & (s <= n) for s, n in zip(sizes, limits, strict=True)]
    odd = [(2 * w != np.rint(2 * w)) & (a.dtype.itemsize >= 4) for a, w in zip(arrays, wide, strict=True)]
    ordinary = [o & (s > 1 / 8) & (s < 8) for o, s in zip(odd, sizes, strict=True)]
    return NumberKinds(finite, moderate, ordinary)


def agreement(left: Approximation, right: Approximation, data: NumberKinds) -> Exactness | None:
    """The strictest class in which the two sides agree."""
    if same_bits(left.value, right.value):
        return EXACT
    looser, untrue = disagreement(left, right, data)
    if untrue.any():
        return None
    return APPROXIMATE if looser.any() else REASSOCIATES


def disagreement(left: Approximation, right: Approximation, data: NumberKinds) -> tuple[np.ndarray, np.ndarray]:
    """Where `right` is not as accurate as `left`, and where it is not even equal over the reals.

    The bound of `left` says something where all is in the safe range, that of `right` in the whole range of its dtype.
    """
    distance = np.abs(left.wide - right.wide)
    finite_left, finite_right = np.isfinite(left.wide), np.isfinite(right.wide)
    both, astray = finite_left & finite_right, finite_left != finite_right
    undefined = np.isnan(left.wide) & finite_right | finite_left & np.isnan(right.wide)
    said, bound = np.isfinite(left.error), left.error + rounding(left)
    valid = said & np.isfinite(right.error) & both
    grown = said & both & ((right.error > GROWTH * bound) | (distance > (GROWTH + 1) * bound))
    lost = said & np.isnan(left.wide) & ~np.isnan(right.wide)
    overflown = astray & (data.moderate | said & data.finite)
    restored = valid & data.distinct & (distance > _half_the_digits(left, right)) & (right.error < left.error / GROWTH)
    untrue = valid & (distance > SLACK * (left.error + right.error + rounding(left)))
    return grown | lost | overflown | restored | untrue, untrue & data.finite | undefined & data.ordinary


def _half_the_digits(left: Approximation, right: Approximation) -> Any:
    """What a result is off by that has lost half of its digits; of 16 bits, which are few, all."""
    if left.value.dtype not in (np.float32, np.float64):
        return np.inf
    size = np.maximum(left.magnitude, right.magnitude) + safe_range(left.value.dtype)[0]
    return epsilon(left.value.dtype) ** 0.5 * size


def rounding(approximation: Approximation) -> np.ndarray | float:
    """What rounding the value once is off by; of whole numbers and truth values, nothing."""
    dtype = approximation.value.dtype
    if kind(dtype) not in "fc":
        return 0.0
    least = safe_range(dtype)[0] or float(ml_dtypes.finfo(dtype).smallest_normal)
    return epsilon(dtype) / 2 * approximation.magnitude + least


def _along_memory(case: LawCase, arrays: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Both sides again, every function of elements on contiguous arrays of its own shape.

    NumPy may round a function in one way where it runs along contiguous memory, and in another along strides: that is
    no difference between the sides.
    """
    values: dict[Node, np.ndarray] = dict(zip(case.graph.inputs, arrays.values(), strict=True))
    for n in case.graph.nodes:
        if n in values:
            continue
        args = [values[a] for a in n.args]
        if n.row.role == Role.ELEMENTWISE:
            args = [np.array(np.broadcast_to(a, n.shape), order="C") for a in args]
        values[n] = np.asarray(n.row.meaning(*args, *n.attrs))
    return [(values[a], values[b]) for a, b in case.sides]


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Are all elements equal, zeros in their sign too? Every NaN is the same NaN, also of two complex ones."""
    if left.tobytes() == right.tobytes():
        return True
    same = same_elements(real_parts(left), real_parts(right))
    if left.dtype.kind == "c":
        same = same.all(-1) | np.isnan(left) & np.isnan(right)
    return bool(same.all())


def same_elements(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where arrays of real numbers hold the same."""
    if kind(left.dtype) != "f":
        return left == right
    with np.errstate(all="ignore"):  # of float8
        return (left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right)
