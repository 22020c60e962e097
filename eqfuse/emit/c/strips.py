"""Values that neighbours along a row share: computed once for a strip of the row, and read by each of them.

In: the form of a map, and its nest. Out: its `Strip`s. Next stop: `rates.py`, `lines.py`.
The difference of two fluxes, or the rows of a separable filter, compute one expression at several shifts of the index
along the loop of vectors. Where that is dear, a loop before computes it for a strip of the row, and a little beyond its
end; the values stay in the nearest cache. They have the same bits: they are computed by the same operators. Of another
element no more is read than is without strips: each value in a strip is that of some element of the space.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from eqfuse.dtypes import kind
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Nest
from eqfuse.emit.c.passes import Strip, is_gather, is_load, is_number, is_reduction, is_scan
from eqfuse.emit.c.rates import MOVED, additions
from eqfuse.ir.graph import Node

LENGTH = 512  # elements of a strip
REACH = 64  # elements from the first place at which a value is needed to the last, at most
MOST = 8  # strips of a kernel, which all stay in the nearest cache
TRIED = 20_000  # operators that are looked at to find what is worth a strip, about
WORTH = 0.8  # of the work without strips: what is left where they are used


def with_strips(form: Form, nest: Nest) -> list[Form]:
    """`form` with those of its values in strips that save much of its work, if there are such. Where it has several
    cells, these are values of the largest, which has a form of its own then."""
    first = replace(form, reads=form.reads[:1], numbers=form.numbers[:1], boxes=form.boxes[:1])
    if not _may_have_strips(first, nest):
        return [form]
    best = whole = _Choice(first, nest, ())
    for group in _Shifts(first, nest).groups()[: 1 + TRIED // len(form.body.nodes)]:
        more = _Choice(first, nest, (*best.groups, group))
        if len(best.groups) < MOST and more.work < best.work:
            best = more.without_idle()
    if best.work > WORTH * whole.work:
        return [form]
    (only,) = form.passes
    nodes, taken = best.computed(form.body.outputs)
    found = replace(first, passes=(replace(only, nodes=nodes, taken=taken),), strips=best.strips)
    others = replace(form, reads=form.reads[1:], numbers=form.numbers[1:], boxes=form.boxes[1:])
    return [found, *[others] * bool(others.reads)]


def _may_have_strips(form: Form, nest: Nest) -> bool:
    """Is it a loop over independent elements of rows, or of one row, that reads an array at several places?"""
    plain = not nest.inside and not nest.reduced and _along(form, nest) >= REACH
    several = len({read.leaf for read in form.arrays.values()}) < len(form.arrays)
    return plain and several and not any(is_reduction(n) or is_scan(n) or is_gather(n) for n in form.body.nodes)


def _along(form: Form, nest: Nest) -> int:
    """The elements of the cell along the loop of vectors."""
    (box,) = form.boxes
    return math.prod([box[axis][1] - box[axis][0] for axis in nest.runs.axes])


@dataclass(frozen=True, eq=False)
class _Group:
    """Nodes that compute alike, by how many elements farther than the first each does; `order`: behind those of all
    that they are computed from."""

    shifts: Mapping[Node, int]
    order: int


class _Shifts:
    """Which nodes compute alike, but for their place along the loop of vectors."""

    def __init__(self, form: Form, nest: Nest) -> None:
        self._form, self._nest = form, nest
        self._numbers: dict[Any, int] = {}
        self._alike: dict[Node, tuple[int, int | None]] = {}  # a number of what is computed, and where
        for n in form.body.nodes:
            self._alike[n] = self._load(n) if is_load(n) else self._operator(n)

    def groups(self) -> list[_Group]:
        """Those of several places near one another, but those within another; first what most is computed for."""
        members: dict[int, list[tuple[int, Node]]] = defaultdict(list)
        for n, (number, at) in self._alike.items():
            if at is not None and not is_load(n) and kind(n.dtype) != "c":
                members[number].append((at, n))
        found = [
            _Group({n: at - near[0][0] for at, n in near}, number)
            for number, placed in members.items()
            for near in _near(sorted(placed, key=lambda each: each[0]))
        ]
        group_of = {n: g for g in found for n in g.shifts}
        readers: dict[Node, set[_Group | None]] = {n: {None} for n in self._form.body.outputs}
        for n in self._form.body.nodes:
            for a in n.args:
                readers.setdefault(a, set()).add(group_of.get(n))
        return sorted([g for g in found if not _is_within(g, readers)], key=lambda g: -g.order)

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _load(self, n: Node) -> tuple[int, int | None]:
        read = self._form.arrays.get(n)
        if is_number(n) or read is None:
            return self._number(n), None
        steps = self._nest.steps(read.access)
        step = steps[self._nest.vector]
        at, rest = divmod(read.access.offset, step) if step else (None, read.access.offset)
        return self._number((read.leaf, steps, rest)), at

    def _operator(self, n: Node) -> tuple[int, int | None]:
        args = [self._alike[a] for a in n.args]
        first = min([at for _, at in args if at is not None], default=None)
        apart = tuple([(number, at if at is None or first is None else at - first) for number, at in args])
        return self._number((n.op, n.attrs, n.dtype, apart)), first


def _is_within(group: _Group, readers: Mapping[Node, Collection[_Group | None]]) -> bool:
    """Does one other group alone read all of `group`, at as many places?"""
    read_by = set().union(*[readers[n] for n in group.shifts])
    (one, *others) = read_by
    return not others and one is not None and len(one.shifts) == len(group.shifts)


def _near(placed: Sequence[tuple[int, Node]]) -> list[list[tuple[int, Node]]]:
    """`placed` nodes, in ascending order, as groups of several places within reach."""
    groups: list[list[tuple[int, Node]]] = []
    for at, n in placed:
        if not groups or at - groups[-1][0][0] > REACH:
            groups.append([])
        groups[-1].append((at, n))
    return [group for group in groups if group[-1][0] > group[0][0]]


def _cone(roots: Iterable[Node], kept: Collection[Node]) -> tuple[dict[Node, None], dict[Node, None]]:
    """What must be loaded or computed for `roots` where `kept` are at hand, and those of `kept` that are read."""
    met: dict[Node, None] = {}
    taken: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in kept:
            taken[n] = None
        elif n not in met:
            met[n] = None
            if not is_load(n):
                stack += n.args
    return met, taken


def _work(cone: tuple[Collection[Node], Collection[Node]], form: Form, nest: Nest) -> float:
    """What an element costs in additions."""
    met, taken = cone
    found: float = MOVED * len(taken)
    for n in met:
        if not is_load(n) and nest.vector in form.varying[n]:
            found += additions(n.op, n.args[0].dtype, not form.varying[n.args[-1]])[0]
    return found


@dataclass(frozen=True, eq=False)
class _Choice:
    """A form with `groups` in strips."""

    form: Form
    nest: Nest
    groups: tuple[_Group, ...]
    _kept: set[Node] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._kept.update(*[g.shifts for g in self.groups])

    def computed(self, roots: Iterable[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """What is loaded or computed for `roots`, in the order of the body, and what is read from strips."""
        met, taken = _cone(roots, self._kept)
        return tuple([n for n in self.form.body.nodes if n in met]), tuple(taken)

    def without_idle(self) -> _Choice:
        """Without groups that save nothing beside the others."""
        for group in self.groups:
            fewer = _Choice(self.form, self.nest, tuple([g for g in self.groups if g is not group]))
            if fewer.work <= self.work:
                return fewer.without_idle()
        return self

    @cached_property
    def work(self) -> float:
        """What an element costs in additions."""
        found = _work(_cone(self.form.body.outputs, self._kept), self.form, self.nest)
        for strip in self.strips:
            own = _work((strip.nodes, strip.taken), self.form, self.nest) + MOVED
            found += own * strip.turns
        return found

    @cached_property
    def strips(self) -> tuple[Strip, ...]:
        """Those that are read, each behind those that it reads."""
        ahead: dict[Node, int] = dict.fromkeys(_cone(self.form.body.outputs, self._kept)[1], 0)  # of nodes in strips
        found: list[Strip] = []
        for g in sorted(self.groups, key=lambda g: -g.order):
            read = {n: shift for n, shift in g.shifts.items() if n in ahead}
            if not read:
                continue
            nearest = min(read, key=read.__getitem__)
            shifts = {n: shift - read[nearest] for n, shift in read.items()}
            behind = max(shifts[n] + ahead[n] for n in shifts)
            nodes, taken = self._of(nearest)
            for n in taken:
                ahead[n] = max(ahead.get(n, 0), behind)
            found.append(Strip(nearest, nodes, taken, shifts, min(LENGTH, _along(self.form, self.nest)), behind))
        return tuple(reversed(found))

    def _of(self, value: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        nodes, taken = self.computed(value.args)
        return (*nodes, value), taken
