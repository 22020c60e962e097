"""The passes of a kernel that reduces rows: which reductions each makes, what it loads, what threads hold in between.

In: a row or reduce body. Out: `Passes`. `emit/cuda/scheduling/row.py` prices with it, `emit/cuda/row.py` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain, zip_longest
from weakref import WeakKeyDictionary, WeakValueDictionary

from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.kinds.elements import elements_read
from eqfuse.ops import Role
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

    @property
    def is_by_columns(self) -> bool:
        """Does a kept axis lie fastest, so that rows lie side by side?"""
        kept, reduced = self.wide(False), self.wide(True)
        return bool(kept and reduced) and kept[-1] > reduced[-1]

    def is_full(self, n: Node) -> bool:
        """Has `n` an element for every element of the space, and not one for every row?"""
        return n.shape == self.shape and self.shape != self.reduced_shape


def space_of(reductions: Iterable[Node]) -> IterationSpace:
    spaces = {(n.args[0].shape, _over(n)) for n in reductions}
    if len(spaces) != 1:
        raise UnsupportedOp("a cuda row or reduce kernel has reductions over one set of axes of one space")
    return IterationSpace(*spaces.pop())


def _over(n: Node) -> tuple[int, ...]:
    axes: tuple[int, ...] = (n.attr("axis"),) if n.row.role is Role.SCAN else n.attr("axes")
    return axes


def levels(body: Graph) -> tuple[tuple[Node, ...], ...]:
    """Reductions and scans by the pass that can compute them: each needs the passes before it."""
    return _merged([_with_itself(o) for o in body.outputs])


@dataclass(frozen=True, slots=True)
class _PassFacts:
    """Of one value: the axes, counted from the end, along which its elements differ; and the reductions below it, by
    the pass that can compute them."""

    axes: frozenset[int]
    levels: tuple[tuple[Node, ...], ...]


_facts: WeakKeyDictionary[Node, _PassFacts] = WeakKeyDictionary()


def _facts_of(n: Node) -> _PassFacts:
    stack = [n]
    while n not in _facts:
        top = stack[-1]
        missing = [a for a in top.args if a not in _facts]
        if missing:
            stack += missing
            continue
        stack.pop()
        axes = _axes(top, [_facts[a].axes for a in top.args])
        _facts[top] = _PassFacts(axes, _merged([_with_itself(a) for a in top.args]))
    return _facts[n]


def _with_itself(n: Node) -> tuple[tuple[Node, ...], ...]:
    """The reductions of `n`, by pass."""
    below = _facts_of(n).levels
    return (*below, (n,)) if n.row.role in (Role.REDUCTION, Role.SCAN) else below


def _merged(several: list[tuple[tuple[Node, ...], ...]]) -> tuple[tuple[Node, ...], ...]:
    some = [levels for levels in several if levels]
    if len(some) < 2:
        return some[0] if some else ()
    return tuple([tuple(dict.fromkeys(chain(*same))) for same in zip_longest(*some, fillvalue=())])


@dataclass(frozen=True, eq=False)
class Passes:
    """What the first passes of a kernel do. `held`: values that differ along a row and that a thread keeps in registers
    for later passes. `once`, `done`: values of a whole row, and of single elements, that were at hand. `elements`: how
    many are read of each array, all passes together. `taken`: those of `held` that the last pass needs. `before`: all
    but the last."""

    held: tuple[Node, ...]
    once: frozenset[Node]
    done: frozenset[Node]
    elements: dict[Node, int]
    taken: tuple[Node, ...]
    before: Passes | None

    @property
    def alive(self) -> list[tuple[Node, ...]]:
        """Of `held`, what is kept from each pass to the next, the last first."""
        wanted = dict[Node, None]()
        between, last = [], self
        while last.before is not None:
            wanted |= dict.fromkeys(last.taken)
            last = last.before
            between.append(tuple([n for n in wanted if n in last.done]))
        return between

    @property
    def inputs_apart(self) -> frozenset[Node]:
        """The arrays of which single elements are read, and not one for a whole row."""
        loads = [n for n in self.done if _is_load(n)]
        return frozenset(n for n in topological(loads) if n.op == "input")


# Many bodies begin with the same passes: those of bodies that are in use, by what they do
_shared: WeakValueDictionary[tuple, Passes] = WeakValueDictionary()


def passes_of(body: Graph, space: IterationSpace, reductions: tuple[tuple[Node, ...], ...], hold: str) -> Passes:
    """One pass for each level of `reductions`, then one that writes. `hold`: what later passes need again is kept in
    registers ("values"), only what is read from memory ("reads"), or "nothing" is. The rest is read and computed again.
    """
    reduced = frozenset(a - len(space.shape) for a in space.wide(True))
    passes: Passes | None = None
    for level in reductions:
        key = (passes, level, hold)
        following = _shared.get(key)
        if following is None:
            following = _shared[key] = _next(passes, [r.args[0] for r in level], reduced, hold)
        passes = following
    return _next(passes, body.outputs, reduced, hold)


def _next(before: Passes | None, roots: Iterable[Node], reduced: frozenset[int], hold: str) -> Passes:
    """The passes `before`, and one more that computes `roots`."""
    once: frozenset[Node] = before.once if before else frozenset()
    done: frozenset[Node] = before.done if before else frozenset()
    kept = done if hold == "values" else {n for n in done if hold == "reads" and _is_load(n)}
    ready = once | kept
    new = _united([_region(_without_broadcast(n), reduced) for n in roots])
    taken: list[Node] = []
    if not ready.isdisjoint(new.apart) or not ready.isdisjoint(new.once):
        met, taken = _met(roots, ready)
        apart = frozenset([n for n in met if n in new.apart])
        new = _Reads(frozenset(met) - apart, apart, new.loads.intersection(met))
    again = tuple([n for n in taken if not reduced.isdisjoint(_facts_of(n).axes)])
    held = dict.fromkeys(before.held if before else ()) | dict.fromkeys(again)
    elements = dict(before.elements) if before else {}
    for n, count in elements_read(set(new.loads)).items():
        elements[n] = elements.get(n, 0) + count
    return Passes(tuple(held), once | new.once, done | new.apart, elements, again, before)


@dataclass(frozen=True, slots=True)
class _Reads:
    """What must be loaded or computed for some values, results of reductions at hand: values of a whole row, and those
    `apart`, of single elements. `loads`: those of them that are loaded."""

    once: frozenset[Node]
    apart: frozenset[Node]
    loads: frozenset[Node]


_NOTHING = _Reads(frozenset(), frozenset(), frozenset())
# Of the arguments of a value, all together: a value that stood in its own entry would never be freed
_regions: WeakKeyDictionary[Node, dict[frozenset[int], _Reads]] = WeakKeyDictionary()


def _region(root: Node, reduced: frozenset[int]) -> _Reads:
    """Of one value; where axes `reduced` differ, elements are apart."""
    stack = [root]
    while stack:
        n = stack[-1]
        regions = _regions.setdefault(n, {})
        if reduced in regions:
            stack.pop()
            continue
        args = () if _is_load(n) or _is_at_hand(n) else [_without_broadcast(a) for a in n.args]
        missing = [a for a in args if reduced not in _regions.get(a, ())]
        if missing:
            stack += missing
            continue
        stack.pop()
        regions[reduced] = _united([r for a in args for r in (_own(a, reduced), _regions[a][reduced])])
    return _united([_own(root, reduced), _regions[root][reduced]])


def _own(n: Node, reduced: frozenset[int]) -> _Reads:
    """Of `n` without its arguments."""
    if _is_at_hand(n):
        return _NOTHING
    own, none = frozenset([n]), frozenset[Node]()
    is_apart = not reduced.isdisjoint(_facts_of(n).axes)
    return _Reads(none if is_apart else own, own if is_apart else none, own if _is_load(n) else none)


def _united(regions: list[_Reads]) -> _Reads:
    if len(regions) == 1:
        return regions[0]
    each = [(r.once, r.apart, r.loads) for r in regions]
    return _Reads(*[frozenset().union(*same) for same in zip(*each, strict=True)]) if each else _NOTHING


def _is_at_hand(n: Node) -> bool:
    """Is `n` the result of a reduction or a scan, or a number?"""
    return n.row.role in (Role.REDUCTION, Role.SCAN) or n.number is not None


def _met(roots: Iterable[Node], ready: Set[Node]) -> tuple[list[Node], list[Node]]:
    """What must be loaded or computed for `roots`, and what of `ready` they take. Results of reductions are at hand."""
    met: dict[Node, None] = {}
    taken: dict[Node, None] = {}
    stack = [_without_broadcast(n) for n in roots]
    while stack:
        n = stack.pop()
        if n in met or _is_at_hand(n):
            continue
        if n in ready:
            taken[n] = None
            continue
        met[n] = None
        if not _is_load(n):
            stack += [_without_broadcast(a) for a in n.args]
    return list(met), list(taken)


def _without_broadcast(n: Node) -> Node:
    """`n`, or the value that it repeats."""
    while n.op == "broadcast_to":
        (n,) = n.args
    return n


def _is_load(n: Node) -> bool:
    """Does `n` stand at the edge of the elementwise work: an array, or an index map of what is computed for it
    alone?"""
    return n.row.maps or not n.row.computes


def values_behind(held: Iterable[Node]) -> frozenset[Node]:
    """What stands at the places of `held`: behind views, what they look at."""
    values = []
    for n in held:
        while n.row.role is Role.VIEW:
            n = n.args[0]
        values.append(n)
    return frozenset(values)


def _axes(n: Node, arguments: Sequence[frozenset[int]]) -> frozenset[int]:
    """The axes, counted from the end, along which the elements of `n` differ; `arguments`: those of its arguments."""
    role, long = n.row.role, frozenset(a for a in range(-n.type.rank, 0) if n.type.extent(a) != 1)
    if role is Role.ELEMENTWISE:
        return frozenset().union(*arguments)
    if role is Role.REDUCTION:
        return arguments[0] & long
    if role is not Role.VIEW:
        return long
    source, places = arguments[0], n.index_map
    if places is None:
        return long if source else frozenset()
    return long & {axis - n.type.rank for a in source for axis, _ in places[a].terms}
