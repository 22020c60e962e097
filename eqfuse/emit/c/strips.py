"""Values that neighbours share: computed once for a strip of a row, or for rows to come, and read by each of them.

In: the form of a map, and its nest. Out: its `Strip`s. Next stop: `rates.py`, `lines.py`.
The difference of two fluxes, the stages of a stencil, or a separable filter compute one expression at several shifts of
the indices. Where that is dear, a loop before computes it for a strip of the row, and a little beyond its ends; where
rows share it, for the rows that later ones read too, of which the last few are kept. The values stay in a near cache.
They have the same bits: they are computed by the same operators.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from eqfuse.dtypes import kind
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Nest
from eqfuse.emit.c.passes import Strip, is_gather, is_known_number, is_load, is_reduction, is_scan, needed
from eqfuse.emit.c.rates import MOVED, additions
from eqfuse.ir.graph import Node

LENGTH = 512  # elements of a strip
STRIP_REACH = 64  # elements from the first place at which a value is needed to the last, at most
STRIP_ROWS = 8  # rows from the first one at which a value is needed to the last, at most
STRIPS_BYTES = 128 << 10  # bytes of all strips, at most
CHUNK_ROWS = 64  # a chunk, in which the first rows are computed before others, has one row of as many at least
MOST_STRIPS = 8  # strips of a kernel
OPERATORS_TRIED = 20_000  # operators that are looked at to find what is worth a strip, about
WORTH_A_STRIP = 0.8  # of the work without strips: what is left where they are used


class Shift(NamedTuple):
    """How far a place lies from another, in rows and in elements of a row; None: it is the same everywhere."""

    rows: int | None
    along: int | None


NOWHERE = Shift(None, None)


def with_strips(form: Form, nest: Nest) -> list[Form]:
    """`form` with those of its values in strips that save much of its work, if there are such. Where it has several
    cells, these are values of the largest, which has a form of its own then."""
    first = form
    if len(form.reads) > 1:
        first = replace(form, reads=form.reads[:1], numbers=form.numbers[:1], boxes=form.boxes[:1])
    if not _may_have_strips(first, nest):
        return [form]
    whole, places = _Choice(first, nest, ()), _Places(first, nest)
    groups = [near for rows in (0, STRIP_ROWS) if (near := places.groups(rows))]
    best = min([_chosen(whole, near) for near in groups], key=lambda choice: choice.work, default=whole)
    if best is whole or best.work > WORTH_A_STRIP * whole.work:
        return [form]
    (only,) = form.passes
    nodes, taken = best.computed(form.body.outputs)
    largest = replace(first, passes=(replace(only, nodes=nodes, taken=taken),), strips=best.strips)
    others = replace(form, reads=form.reads[1:], numbers=form.numbers[1:], boxes=form.boxes[1:])
    return [largest, *[others] * bool(others.reads)]


def _may_have_strips(form: Form, nest: Nest) -> bool:
    """Is it a loop over independent elements of rows, or of one row, that reads an array at several places?"""
    long_map = not nest.inside and not nest.reduced and len(_ends(form, nest, nest.vector)) >= STRIP_REACH
    several = len({read.leaf for read in form.arrays.values()}) < len(form.arrays)
    return long_map and several and not any(is_reduction(n) or is_scan(n) or is_gather(n) for n in form.body.nodes)


def _chosen(whole: _Choice, groups: Sequence[_Group]) -> _Choice:
    """`whole` with those of `groups` that save work."""
    best = whole
    for group in groups[: 1 + OPERATORS_TRIED // len(whole.form.body.nodes)]:
        more = replace(best, groups=(*best.groups, group))
        if len(best.groups) < MOST_STRIPS and more.work < best.work:
            best = more.without_idle()
    return best


def _ends(form: Form, nest: Nest, d: int) -> range:
    """The indices along dimension `d` of the cell."""
    (box,) = form.boxes
    low, high = box[nest.dims[d].axes[0]] if nest.dims[d].axes else (0, 1)
    step = math.prod([box[axis][1] for axis in nest.dims[d].axes[1:]])
    return range(low * step, high * step)


def _rows_of(nest: Nest) -> int | None:
    """The dimension that rows are counted along, if there is one alone."""
    return nest.counted[0] if len(nest.dims) == 2 and len(nest.counted) == 1 else None


@dataclass(frozen=True, eq=False)
class _Group:
    """Nodes that compute alike, and the place of each; `order`: behind those of all that they are computed from."""

    places: Mapping[Node, Shift]
    order: int


class _Places:
    """Which nodes compute alike, but for the place where they do."""

    def __init__(self, form: Form, nest: Nest) -> None:
        self._form, self._nest = form, nest
        self._numbers: dict[Any, int] = {}
        self._alike: dict[Node, tuple[int, Shift]] = {}  # a number of what is computed, and where
        for n in form.body.nodes:
            self._alike[n] = self._load(n) if is_load(n) else self._operator(n)

    def groups(self, rows: int) -> list[_Group]:
        """Those of several places near one another, but those within another; first what most is computed for."""
        members: dict[int, list[tuple[Shift, Node]]] = defaultdict(list)
        for n, (number, shift) in self._alike.items():
            if shift.along is not None and not is_load(n) and kind(n.dtype) != "c":
                members[number].append((shift, n))
        groups = [
            _Group({n: shift for shift, n in near}, number)
            for number, placed in members.items()
            if len(placed) > 1
            for near in _near(sorted(placed, key=lambda each: (each[0].rows or 0, each[0].along)), rows)
        ]
        if not groups:
            return []
        group_of = {n: g for g in groups for n in g.places}
        readers: dict[Node, set[_Group | None]] = {n: {None} for n in self._form.body.outputs}
        for n in self._form.body.nodes:
            for a in n.args:
                readers.setdefault(a, set()).add(group_of.get(n))
        return sorted([g for g in groups if not _is_within(g, readers)], key=lambda g: -g.order)

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _load(self, n: Node) -> tuple[int, Shift]:
        read = self._form.arrays.get(n)
        if is_known_number(n) or read is None:
            return self._number(n), NOWHERE
        steps, counted, rest = self._nest.steps(read.access), _rows_of(self._nest), read.access.offset
        rows = along = None
        if counted is not None and (step := steps[counted]):
            near = min(STRIP_REACH, abs(step) // 2)  # places a little before the first element of a row are of that row
            rows = (rest + (near if step > 0 else -near)) // step
            rest -= rows * step
        if steps[self._nest.vector]:
            along, rest = divmod(rest, steps[self._nest.vector])
        return self._number((read.leaf, steps, rest)), Shift(rows, along)

    def _operator(self, n: Node) -> tuple[int, Shift]:
        args = [self._alike[a] for a in n.args]
        first = _first([shift for _, shift in args])
        apart = tuple([(number, _from(first, shift)) for number, shift in args])
        return self._number((n.op, n.attrs, n.dtype, apart)), first


def _first(places: Sequence[Shift]) -> Shift:
    """The least row and the least element of a row of any of `places`."""
    rows = along = None
    for row, element in places:
        if row is not None and (rows is None or row < rows):
            rows = row
        if element is not None and (along is None or element < along):
            along = element
    return Shift(rows, along)


def _from(first: Shift, shift: Shift) -> Shift:
    rows = None if shift.rows is None or first.rows is None else shift.rows - first.rows
    along = None if shift.along is None or first.along is None else shift.along - first.along
    return Shift(rows, along)


def _is_within(group: _Group, readers: Mapping[Node, Collection[_Group | None]]) -> bool:
    """Does one other group alone read all of `group`, at as many places?"""
    read_by = set().union(*[readers[n] for n in group.places])
    (one, *others) = read_by
    return not others and one is not None and len(one.places) == len(group.places)


def _near(placed: Sequence[tuple[Shift, Node]], rows: int) -> list[list[tuple[Shift, Node]]]:
    """`placed` nodes, in ascending order, as groups of several places within reach."""
    groups: list[list[tuple[Shift, Node]]] = []
    for shift, n in placed:
        if not groups or not _in_reach([*[other for other, _ in groups[-1]], shift], rows):
            groups.append([])
        groups[-1].append((shift, n))
    return [group for group in groups if group[0][0] != group[-1][0]]


def _in_reach(places: Sequence[Shift], rows: int) -> bool:
    spans = [max(each) - min(each) for each in zip(*[(s.rows or 0, s.along or 0) for s in places], strict=True)]
    return spans[0] <= rows and spans[1] <= STRIP_REACH


@dataclass(frozen=True, eq=False)
class _Choice:
    """A form with `groups` in strips."""

    form: Form
    nest: Nest
    groups: tuple[_Group, ...]

    @cached_property
    def _kept(self) -> set[Node]:
        return {n for g in self.groups for n in g.places}

    def computed(self, roots: Iterable[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """What is loaded or computed for `roots`, in the order of the body, and what is read from strips."""
        return needed(self.form.body, roots, self._kept)

    def without_idle(self) -> _Choice:
        """Without groups that save nothing beside the others."""
        for group in self.groups:
            fewer = replace(self, groups=tuple([g for g in self.groups if g is not group]))
            if fewer.work <= self.work:
                return fewer.without_idle()
        return self

    @cached_property
    def work(self) -> float:
        """What an element costs in additions; infinite where the strips take too much memory, or would be made of
        what no array has."""
        if self._kept_bytes > STRIPS_BYTES or not all(self._is_inside(strip) for strip in self.strips):
            return math.inf
        cost = self._work(*self.computed(self.form.body.outputs))
        return cost + sum((self._work(s.nodes, s.taken) + MOVED) * s.turns for s in self.strips)

    def _work(self, nodes: Iterable[Node], taken: Collection[Node]) -> float:
        cost: float = MOVED * len(taken)
        for n in nodes:
            if not is_load(n) and self.nest.vector in self.form.varying[n]:
                cost += additions(n.op, n.args[0].dtype, not self.form.varying[n.args[-1]])[0]
        return cost

    @property
    def _kept_bytes(self) -> int:
        return sum((s.rows + 1) * s.width * max(4, s.value.dtype.itemsize) for s in self.strips)

    def _is_inside(self, strip: Strip) -> bool:
        """Does every array have what `strip` reads of it?"""
        along = _ends(self.form, self.nest, self.nest.vector)
        ends = {self.nest.vector: (along[0] - strip.before, along[-1] + strip.ahead)}
        for d in range(len(self.nest.dims)):
            indices = _ends(self.form, self.nest, d)
            ends.setdefault(d, (indices[0], indices[-1] + strip.rows))
        for read in (self.form.arrays[n] for n in strip.nodes if n in self.form.arrays):
            each = [[step * end for end in ends[d]] for d, step in enumerate(self.nest.steps(read.access))]
            low, high = (read.access.offset + sum(map(end, each)) for end in (min, max))
            if low < 0 or high >= read.leaf.type.size:
                return False
        return True

    @cached_property
    def strips(self) -> tuple[Strip, ...]:
        """Those that are read, each behind those that it reads."""
        region: dict[Node, tuple[int, int, int]] = {}  # of nodes in strips: rows and elements ahead, elements before
        for n in self.computed(self.form.body.outputs)[1]:
            region[n] = 0, 0, 0
        strips: list[tuple[Node, dict[Node, tuple[int, int]], tuple[int, int, int]]] = []
        for g in sorted(self.groups, key=lambda g: -g.order):
            places = {n: (shift.rows or 0, shift.along or 0) for n, shift in g.places.items() if n in region}
            if not places:
                continue
            value = min(places, key=places.__getitem__)
            shifts = {n: (place[0] - places[value][0], place[1] - places[value][1]) for n, place in places.items()}
            mine = (
                max(region[n][0] + rows for n, (rows, _) in shifts.items()),
                max(region[n][1] + along for n, (_, along) in shifts.items()),
                max(region[n][2] - along for n, (_, along) in shifts.items()),
            )
            for n in self.computed(value.args)[1]:
                region[n] = tuple(map(max, region.get(n, mine), mine))  # type: ignore[assignment]
            strips.append((value, shifts, mine))
        by_rows = any(rows for *_, (rows, _, _) in strips)
        return tuple([self._strip(value, shifts, *mine, by_rows) for value, shifts, mine in reversed(strips)])

    def _strip(
        self, value: Node, shifts: Mapping[Node, tuple[int, int]], rows: int, ahead: int, before: int, by_rows: bool
    ) -> Strip:
        nodes, taken = self.computed(value.args)
        extent = len(_ends(self.form, self.nest, self.nest.vector))
        length = extent if by_rows else min(LENGTH, extent)
        counted = _rows_of(self.nest)
        chunk = 1 if counted is None else -(-len(_ends(self.form, self.nest, counted)) // CHUNK_ROWS)
        turns = (length + ahead + before) / length * (chunk + rows) / chunk
        return Strip(value, (*nodes, value), taken, shifts, length, before, ahead, rows, turns)
