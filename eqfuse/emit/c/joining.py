"""The text of the function that joins the results of parts of rows, in their order, so that threads change no bit.

In: a `LoopsSchedule` whose rows are split. Out: lines of C. Next stop: `writer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import Elements, loop
from eqfuse.emit.c.nest import NAMES, aligned
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import is_load
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.emit.c.table import Counts
from eqfuse.ir.graph import Node
from eqfuse.ir.view_strides import contiguous


class Joining(Elements):
    """All is computed in loops over the kept dimensions."""

    def __init__(self, schedule: LoopsSchedule, rounds: bool, parameters: Parameters) -> None:
        super().__init__(schedule, schedule.forms[0], rounds, parameters, Counts(), [])

    def place(self, n: Node) -> str:
        return "unit"

    def lines(self) -> list[str]:
        reducing, *rest = self.form.passes
        lines: list[str] = []
        for n in reducing.reductions:
            self._finish(n, lines)
        for p in rest:
            for n in p.nodes:
                if n in self.form.arrays:
                    self.enter(n, "unit", lines, *self.element(n))
                elif not is_load(n):
                    self.enter(n, "unit", lines, *self.computed(n, "unit"))
            lines += [self.stored(j, "unit") for j in p.outputs]
        for d in reversed(range(len(self.nest.dims))):
            if d not in self.reduced:
                name = NAMES[d]
                lines = loop(f"for (long {name} = 0; {name} < {self.nest.dims[d].extent}; {name}++)", lines)
        return [*self._in_pairs(reducing.reductions), *lines]

    def _in_pairs(self, reductions: Sequence[Node]) -> list[str]:
        """Parts are joined to their neighbours, pairs to pairs, until the first has all."""
        parts, rows = self.schedule.parts, reductions[0].type.size
        steps = []
        for n in reductions:
            j, (how, _, _) = self.number(n), self.reduction(n)
            places = ("{} * part + row", "{} * (part + apart) + row") if rows > 1 else ("part", "part + apart")
            a, b = (f"p{j}[{place.format(rows)}]" for place in places)
            steps.append(f"{a} = {how.step.format(a=a, b=b)};")
        if rows > 1:
            steps = ["#pragma omp simd", *loop(f"for (long row = 0; row < {rows}; row++)", steps)]
        pairs = loop(f"for (long part = 0; part + apart < {parts}; part += 2 * apart)", steps)
        return loop(f"for (long apart = 1; apart < {parts}; apart *= 2)", pairs)

    def _finish(self, n: Node, lines: list[str]) -> None:
        """Make of what the first part has the result of one reduction."""
        j, (_, _, name) = self.number(n), self.reduction(n)
        row = self.index(aligned(0, contiguous(n.shape), n.shape, self.schedule.space))
        lines.append(f"const {ops.computed(n.dtype)} {name} = {self.as_stored(n, f'p{j}[{row}]')};")
        self.results[n] = name
