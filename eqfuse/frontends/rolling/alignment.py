"""One step in place of many that are alike.

In: what each step computes. Out: the step as nodes over what differs between steps: rows of arrays, and values of the
steps before. Steps that are not alike are refused, with those that are. Next stop: `loops` and `families`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.bodies import stands_for
from eqfuse.frontends.numpy.rows import Rows
from eqfuse.frontends.rolling.chains import is_small, likeness
from eqfuse.frontends.rolling.moving_places import evenly_moved, in_one_step, overlap_much
from eqfuse.frontends.rolling.rows import even, joined_values, rows_of_slices, stacked
from eqfuse.ir.graph import Node
from eqfuse.ops.types import TensorType

FARTHEST = 4  # steps back that a step may read
MOVING = ("slice", "slice_scatter")  # whose places may differ between steps
JOINED_BYTES = 1 << 16  # at most, of a value computed before the steps that is joined with those of other steps
StepValues = tuple[Node, ...]  # of one place in all steps, in order


class Misalignment(Exception):
    """The steps are not alike. `good`: a run of them that may be."""

    def __init__(self, good: range = range(0)) -> None:
        self.good = good


class Alignment:
    """What the steps compute that have the values of `root`, one each.

    `step`: the steps that need a node, by the first of them, from 1 on; what steps compute for others after them is
    carried. Where nothing is carried there is none. Raises Misalignment.
    """

    def __init__(self, root: StepValues, step: Mapping[Node, int] | None = None) -> None:
        self.count, self.root = len(root), root
        self._step = step
        self.nodes: dict[StepValues, Node] = {}  # what stands for them in the one step
        self.where: dict[Node, tuple[StepValues, int]] = {}  # of what the steps compute: its values, and its step
        self.rows: Rows = {}
        self._row_of: dict[Node, Node] = {}
        self.moves = False  # do steps take or write places of a carry that move?
        self.slides = False  # and are these of one step mostly those of the next?
        self.carried: dict[StepValues, int] = {}  # values of steps before, how many before
        self._align(root)

    @property
    def operators(self) -> int:
        """How many operators a step has."""
        return len({values for values, _ in self.where.values()})

    @property
    def reads_arrays(self) -> bool:
        """Does each step read something of its own that is no constant?"""
        return self.moves or any(array.op != "const" for array in self.rows.values())

    def _align(self, root: StepValues) -> None:
        stack = [root]
        while stack:
            values = stack[-1]
            if values in self.nodes:
                stack.pop()
                continue
            leaf = self._leaf(values)
            if leaf is not None:
                self.nodes[values] = leaf
                continue
            args = list(zip(*(n.args for n in values), strict=True))
            missing = [a for a in args if a not in self.nodes]
            if missing:
                stack.extend(reversed(missing))
                continue
            for step, n in enumerate(values):
                if self.where.setdefault(n, (values, step)) != (values, step):
                    raise Misalignment  # computed in two steps: neither carried nor the same for all
            self.nodes[values] = self._in_one_step(values, [self.nodes[a] for a in args])

    def _in_one_step(self, values: StepValues, args: Sequence[Node]) -> Node:
        first = values[0]
        if first.op == "reshape":
            return tidy.reshape(args[0], first.shape)
        if all(n.attrs == first.attrs for n in values):
            return first.over(args)
        self.moves, self.slides = True, self.slides or overlap_much(values)
        return in_one_step(values, args, self._row)

    def _leaf(self, values: StepValues) -> Node | None:
        """What stands for `values` where the steps do not compute them; None where they do."""
        first = values[0]
        if all(n is first for n in values):
            return first
        if all(n.type == first.type and is_small(n) for n in values):
            return self._row(stacked(values))
        taken = [without_reshapes(n) for n in values]
        if len({(n.op, n.type) for n in taken}) == 1 and taken[0].op == "slice":
            (bases, often), *_ = Counter(n.args for n in taken).most_common()
            if often == len(taken):
                return self._sliced(taken, values)
            if self._step is None and len({n.attrs for n in taken}) > 1:
                raise Misalignment(_longest([n.args == bases for n in taken]))
        kind, distance = self._origin(values)
        if kind == "before":
            return self._row(joined_values(values))
        if kind == "computed":
            return None
        self.carried[values] = distance
        return stands_for([values[-1].type])[0]

    def _row(self, array: Node) -> Node:
        if array not in self._row_of:
            (row,) = stands_for([TensorType(array.dtype, array.shape[1:])])
            self.rows[row], self._row_of[array] = array, row
        return self._row_of[array]

    def _sliced(self, slices: Sequence[Node], values: StepValues) -> Node:
        good = even([n.attr("ranges") for n in slices])
        if len(good) < len(slices):
            raise Misalignment(good)
        rows = rows_of_slices(slices)
        if rows is None:
            raise Misalignment
        return tidy.reshape(self._row(rows), values[0].shape)

    def _origin(self, values: StepValues) -> tuple[str, int]:
        """Where `values` come from, and how many steps before they were computed."""
        keys = [self._key(n, step) for step, n in enumerate(values, 1)]
        common: Any = Counter(keys).most_common(1)[0][0]
        kind, distance = common[0], common[1]
        good = [key == common for key in keys]
        if kind == "carried":
            good[:distance] = [begins(n, common[2]) for n in values[:distance]]
        if kind == "given" or not all(good):
            raise Misalignment(_longest(good))
        if kind == "computed" and values[0].op in MOVING:
            run = evenly_moved(values)
            if len(run) < len(values):
                raise Misalignment(run)
        return kind, int(distance)

    def _key(self, n: Node, step: int) -> Hashable:
        """What `n`, of step `step`, must share with its like in other steps."""
        if self._step is None:
            return "computed", 0, n.op, n.attrs, n.type, len(n.args)
        distance = step - max(self._step.get(n, 0), 0)
        if distance == step and n.args and n.type.nbytes <= JOINED_BYTES:
            return "before", 0, n.type
        if distance == step or distance > FARTHEST:
            return "given", 0, n
        return ("carried", distance, n.type) if distance else ("computed", 0, likeness(n), len(n.args))


def without_reshapes(n: Node) -> Node:
    """What `n` is, but for its shape."""
    while n.op == "reshape":
        (n,) = n.args
    return n


def begins(n: Node, t: TensorType) -> bool:
    """May a carry of type `t` begin as `n`? A constant is spread over it."""
    return n.type == t or (is_small(n) and n.type == TensorType(t.dtype, ()))


def _longest(good: Sequence[bool]) -> range:
    best, begun = range(0), 0
    for step, is_good in enumerate((*good, False)):
        if not is_good:
            best = max(best, range(begun, step), key=len)
            begun = step + 1
    return best
