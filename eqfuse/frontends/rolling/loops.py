"""A chain of alike steps as a loop operator.

In: a chain of values, and the graph. Out: what the loop gives in place of what its steps compute. The steps of a loop
are what each value of the chain needs that the one before does not; what they compute for steps after them are carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain as joined

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.bodies import closed, stands_for
from eqfuse.frontends.numpy.rows import Rows, products_before
from eqfuse.frontends.rolling.alignment import Alignment, Misalignment, StepValues, begins
from eqfuse.frontends.rolling.chains import FEWEST_STEPS, LOOK_DEPTH
from eqfuse.ir.graph import Graph, Node, const, node, substitute, topological
from eqfuse.ir.loops import loop_results
from eqfuse.ops.loops import INDEX_TYPE
from eqfuse.ops.types import TensorType

ATTEMPTS = 8  # to leave out steps that differ
STAGES = 4  # at most of a step that look alike, as those of a Runge–Kutta method do


class Steps:
    """The alike steps between the values of `chain`, whose first is computed before them. Raises Misalignment."""

    def __init__(self, chain: Sequence[Node]) -> None:
        self.chain = chain
        self.root: StepValues = tuple(chain[1:])
        self.count = len(self.root)
        self.aligned = Alignment(self.root, _first_needed(chain))
        self._delays: dict[StepValues, int] = {}  # of values that later steps read: how much later, at most
        self._begun: dict[tuple[StepValues, int], Node] = {}  # the value of the step that many before the first
        stands = {}
        for values, distance in self.aligned.carried.items():
            stands[values] = self._carry(values, distance)
        self._earlier = {
            (values, back): stands_for([values[0].type])[0]
            for values, farthest in self._delays.items() for back in range(1, farthest + 1)
        }  # fmt: skip
        nodes = self.aligned.nodes
        self._values = {nodes[v]: self._earlier[stands[v]] for v in stands}

    def _carry(self, values: StepValues, distance: int) -> tuple[StepValues, int]:
        where = self.aligned.where
        later = [where.get(n) for n in values[distance:]]
        if not later or later[0] is None:
            raise Misalignment
        producer = later[0][0]
        if any(place != (producer, step) for step, place in enumerate(later)):
            raise Misalignment
        self._delays[producer] = max(self._delays.get(producer, 0), distance)
        for step, n in enumerate(values[:distance]):
            begun = tidy.broadcast_to(n, producer[0].shape)
            if self._begun.setdefault((producer, distance - step), begun) is not begun:
                raise Misalignment(range(1, self.count))
        return producer, distance

    @property
    def operators(self) -> int:
        return self.aligned.operators

    @property
    def on_windows(self) -> bool:
        """Do steps read windows of one array that overlap?"""
        return any(n.op == "sliding_window" for n in topological(self.aligned.rows.values()))

    @property
    def carries(self) -> list[TensorType]:
        return [n.type for n in self._earlier.values()]

    def before(self) -> Node | None:
        """What stands where the first value of the chain reads the value before it, if the step before is alike."""
        value: Node = self.chain[0]
        for arg in self._way():
            if arg >= len(value.args):
                return None
            value = value.args[arg]
        return value

    def _way(self) -> list[int]:
        """The arguments that lead from a value of the chain to the one before it."""
        ways: dict[StepValues, list[int]] = {self.root: []}
        stack = [self.root]
        while stack:
            values = stack.pop()
            for i, arg in enumerate(zip(*(n.args for n in values), strict=True)):
                way = [*ways[values], i]
                if arg in self.aligned.carried and arg[1:] == self.root[:-1]:
                    return way
                if arg not in ways and arg[-1] in self.aligned.where and arg not in self.aligned.carried:
                    ways[arg] = way
                    stack.append(arg)
        raise Misalignment

    def step(self, values: Iterable[StepValues]) -> list[Node]:
        """What a step computes for `values`, over what it is given."""
        return list(substitute([self.aligned.nodes[v] for v in values], self._values))

    def earlier(self, values: StepValues, back: int) -> Node | None:
        """What stands in a step for what the step that many before it made of `values`."""
        return self._earlier.get((values, back))

    def begun(self, values: StepValues, back: int) -> Node:
        """The same in the first step, as it is computed before the loop."""
        return self._begun[values, back]

    def body(self) -> Graph:
        """What a step computes for the steps after it."""
        (body,), _ = closed([("given", n) for n in (*self._earlier.values(), *self.aligned.rows)], [self._after()])
        return body.graph

    def reads(self, graph: Graph) -> list[Node]:
        """The values of the steps that `graph` reads elsewhere."""
        return [values[step] for values, step in self._read(graph)]

    def in_place_of(self, graph: Graph, several: int = 1) -> dict[Node, Node]:
        """For each value of the steps that `graph` reads elsewhere, what the loop gives. Raises Misalignment.

        `several` steps, of which there are a multiple, are one of the loop's.
        """
        read = self._read(graph)
        early = {values for values, step in read if step < self.count - 1}
        stacked = dict.fromkeys(v for v, step in read if v in early and self.count - step > self._delays.get(v, 0))
        results = self._looped([v for v, _ in read if v not in early and v not in self._delays], [*stacked], several)
        replacements = {}
        for values, step in read:
            kept = None if values in stacked else results.get((values, self.count - step))
            replacements[values[step]] = _row(results[values, 0], step) if kept is None else kept
        return replacements

    def _read(self, graph: Graph) -> list[tuple[StepValues, int]]:
        where = self.aligned.where
        outside = [n for n in graph.nodes if n not in where]
        return list(dict.fromkeys(where[a] for a in joined(*(n.args for n in outside), graph.outputs) if a in where))

    def _after(self) -> list[Node]:
        """The carries after a step."""
        computed = dict(zip(self._delays, self.step(self._delays), strict=True))
        return [computed[v] if back == 1 else self._earlier[v, back - 1] for v, back in self._earlier]

    def _looped(
        self, only_last: list[StepValues], stacked: list[StepValues], several: int
    ) -> dict[tuple[StepValues, int], Node]:
        """The loop's results: for values and how many steps before its end they are; all of `stacked` at 0."""
        (index, *unread) = stands_for([INDEX_TYPE, *(v[0].type for v in only_last)])
        carries = [*self._earlier.values(), *unread]
        begun = [*(self._begun[key] for key in self._earlier), *(_nothing(n) for n in unread)]
        after = [*self._after(), *self.step(only_last), *self.step(stacked)]
        outputs, rows = products_before(after, [*carries, index], self.aligned.rows)
        if several > 1:
            outputs, rows = _in_one_step(outputs, carries, rows, several)
        names = [("index", index), *((f"carry {i}", n) for i, n in enumerate(carries))]
        (body,), shared = closed([*names, *((f"row {i}", n) for i, n in enumerate(rows))], [outputs])
        args = [*begun, *rows.values(), *shared]
        if any(n in self.aligned.where for n in topological(args)):
            raise Misalignment(range(1, self.count))
        values = loop_results(node("scan", args, (body, len(carries), len(rows), self.count // several, 0, False)))
        last, stacks = values[: len(carries)], values[len(carries) :]
        kept = zip([*self._earlier, *((v, 1) for v in only_last)], last, strict=True)
        rows_of = [tidy.reshape(x, (self.count, *v[0].shape)) for v, x in zip(stacked, stacks, strict=True)]
        return {**dict(kept), **{(v, 0): x for v, x in zip(stacked, rows_of, strict=True)}}


def _in_one_step(outputs: Sequence[Node], carries: Sequence[Node], rows: Rows, several: int) -> tuple[list[Node], Rows]:
    """`several` steps one after another as one: its carries and the rows that it stacks, and what it reads."""
    taken = dict(zip(stands_for([TensorType(r.dtype, (several, *r.shape)) for r in rows]), rows.items(), strict=True))
    state = list(carries)
    stacks: list[list[Node]] = []
    for step in range(several):
        read = {r: _row(many, step) for many, (r, _) in taken.items()}
        after = substitute(outputs, {**dict(zip(carries, state, strict=True)), **read})
        state = [*after[: len(carries)]]
        stacks.append([tidy.reshape(y, (1, *y.shape)) for y in after[len(carries) :]])
    stacked = [tidy.concat(values, -values[0].type.rank) for values in zip(*stacks, strict=True)]
    split = {many: tidy.reshape(array, (array.shape[0] // several, *many.shape)) for many, (_, array) in taken.items()}
    return [*state, *stacked], split


def _row(stack: Node, step: int) -> Node:
    taken = tidy.slice_(stack, [(step, step + 1, 1), *((0, n, 1) for n in stack.shape[1:])])
    return tidy.reshape(taken, stack.shape[1:])


def _nothing(n: Node) -> Node:
    """A carry that no step reads, before the first."""
    return tidy.broadcast_to(const(0, n.dtype), n.shape)


def steps_of(chain: Sequence[Node]) -> Steps | None:
    """The steps of `chain`, or of the part of it that is alike; None where too few are. A step may have made several of
    its values, one in each stage."""
    for stages in range(1, STAGES + 1):
        steps = _steps_of(chain[(len(chain) - 1) % stages :: stages])
        if steps is not None:
            return steps
    return None


def _steps_of(chain: Sequence[Node]) -> Steps | None:
    for _ in range(ATTEMPTS):
        if len(chain) < FEWEST_STEPS - LOOK_DEPTH:
            return None
        try:
            steps = _longer(Steps(chain))
            return steps if steps.count >= FEWEST_STEPS else None
        except Misalignment as why:
            chain = chain[why.good.start : why.good.stop + 1]
    return None


def _longer(steps: Steps) -> Steps:
    """`steps`, and those before the first that are alike."""
    try:
        while (before := steps.before()) is not None and begins(before, steps.root[-1].type):
            steps = Steps([before, *steps.chain])
    except Misalignment:
        pass
    return steps


def _first_needed(chain: Sequence[Node]) -> dict[Node, int]:
    """For each node that `chain` needs, the first value of it that does, from 0 on."""
    first: dict[Node, int] = {}
    for position, value in enumerate(chain):
        if value in first:
            raise Misalignment
        first[value] = position
        stack = [value]
        while stack:
            for a in stack.pop().args:
                if a not in first:
                    first[a] = position
                    stack.append(a)
    return first
