"""The passes of a kernel that reduces rows: which reductions each makes, what it loads, what threads hold in between.

In: a row or reduce body. Out: `Passes`. `kinds/cuda/rows.py` prices with it, `emit/cuda/row.py` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape


@dataclass(frozen=True)
class IterationSpace:
    """The full iteration space, which axes are reduced, and the sizes of both halves."""

    shape: Shape
    axes: tuple[int, ...]

    def half(self, reduced: bool) -> list[int]:
        return [a for a in range(len(self.shape)) if (a - len(self.shape) in self.axes) is reduced]

    def extents(self, reduced: bool) -> Shape:
        return tuple(self.shape[a] for a in self.half(reduced))

    @property
    def reduced_shape(self) -> Shape:
        return tuple(1 if a - len(self.shape) in self.axes else n for a, n in enumerate(self.shape))

    def wide(self, reduced: bool) -> list[int]:
        return [a for a in self.half(reduced) if self.shape[a] != 1]

    def is_full(self, n: Node) -> bool:
        """Has `n` an element for every element of the space, and not one for every row?"""
        return n.shape == self.shape and self.shape != self.reduced_shape


def space_of(body: Graph) -> IterationSpace:
    reductions = [n for n in body.nodes if row(n.op).role is Role.REDUCTION]
    found = {IterationSpace(n.args[0].shape, n.attr("axes")) for n in reductions}
    if len(found) != 1:
        raise UnsupportedOp("a cuda row or reduce kernel has reductions over one set of axes of one space")
    return found.pop()


def levels(body: Graph) -> tuple[tuple[Node, ...], ...]:
    """Reductions by the pass that can compute them: each needs the passes before it."""
    level: dict[Node, int] = {}
    passes: list[list[Node]] = []
    for n in body.nodes:
        level[n] = max((level[a] for a in n.args), default=0)
        if row(n.op).role is Role.REDUCTION:
            if level[n] == len(passes):
                passes.append([])
            passes[level[n]].append(n)
            level[n] += 1
    return tuple(map(tuple, passes))


@dataclass(frozen=True)
class Passes:
    """`loads`: by pass, the last of which writes, the values that it takes from memory. `held`: values that differ
    along a row and that a thread keeps in registers for later passes."""

    loads: tuple[tuple[Node, ...], ...]
    held: tuple[Node, ...]


def passes_of(body: Graph, space: IterationSpace, reductions: tuple[tuple[Node, ...], ...], hold: str) -> Passes:
    """`hold`: what later passes need again is kept in registers ("values"), only what is read from memory ("reads"), or
    "nothing" is. The rest is read and computed again."""
    varies = _varying(body, space)
    loads: list[tuple[Node, ...]] = []
    held: dict[Node, None] = {}
    once: set[Node] = set()  # values of a whole row that are at hand
    done: set[Node] = set()  # values of single elements that an earlier pass had
    for roots in (*((r.args[0] for r in level) for level in reductions), body.outputs):
        kept = {n for n in done if hold == "values" or (hold == "reads" and _is_load(n))}
        met, taken = _met(roots, once | kept, varies)
        loads.append(tuple(n for n in met if _is_load(n)))
        held |= dict.fromkeys(n for n in taken if n in varies)
        done |= {n for n in met if n in varies}
        once |= {n for n in met if n not in varies}
    return Passes(tuple(loads), tuple(held))


def _met(roots: Iterable[Node], ready: set[Node], varies: set[Node]) -> tuple[list[Node], list[Node]]:
    """What must be loaded or computed for `roots`, and what of `ready` they take. Results of reductions are at hand."""
    met: dict[Node, None] = {}
    taken: dict[Node, None] = {}
    stack = [_plain(n) for n in roots]
    while stack:
        n = stack.pop()
        if n in met or row(n.op).role is Role.REDUCTION or (n.op == "const" and n.type.size == 1):
            continue
        if n in ready:
            taken[n] = None
            continue
        met[n] = None
        if not _is_load(n):
            stack.extend(_plain(a) for a in n.args)
    return list(met), list(taken)


def _plain(n: Node) -> Node:
    """`n`, or the value that it repeats."""
    while n.op == "broadcast_to":
        (n,) = n.args
    return n


def _is_load(n: Node) -> bool:
    """Does `n` stand at the edge of the elementwise work: an array, or a view of what is computed for it alone?"""
    return n.op in ("input", "const") or row(n.op).role is Role.VIEW


def values_behind(held: Iterable[Node]) -> frozenset[Node]:
    """What stands at the places of `held`: behind views, what they look at."""
    found = []
    for n in held:
        while row(n.op).role is Role.VIEW:
            n = n.args[0]
        found.append(n)
    return frozenset(found)


def _varying(body: Graph, space: IterationSpace) -> set[Node]:
    """The values that differ from one element of a row to the next."""
    reduced = {a - len(space.shape) for a in space.wide(True)}
    for n in body.nodes:
        if n not in _found:
            _found[n] = _axes(n, _found)
    return {n for n in body.nodes if not reduced.isdisjoint(_found[n])}


_found: WeakKeyDictionary[Node, frozenset[int]] = WeakKeyDictionary()  # `_axes` of nodes


def _axes(n: Node, of: Mapping[Node, frozenset[int]]) -> frozenset[int]:
    """The axes, counted from the end, along which the elements of `n` differ."""
    role, long = row(n.op).role, frozenset(a for a in range(-n.type.rank, 0) if n.type.extent(a) != 1)
    if role is Role.ELEMENTWISE:
        return frozenset().union(*(of[a] for a in n.args))
    if role is Role.REDUCTION:
        return of[n.args[0]] & long
    if role is not Role.VIEW:
        return long
    source = of[n.args[0]]
    if n.op == "transpose":
        order = n.attr("axes")
        return frozenset(i - len(order) for i, a in enumerate(order) if a - len(order) in source)
    if n.op in ("slice", "flip", "broadcast_to"):
        return source & long
    return long if source else frozenset()
