"""The text of the function that joins the results of parts of rows, in their order, so that threads change no bit. Of a
cascade, results of later passes are first carried over from each part's own maxima and means to those joined.

In: a `LoopsSchedule` whose rows are split. Out: lines of C. Next stop: `writer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import Elements, braced
from eqfuse.emit.c.nest import AXES, aligned
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import is_load, is_reduction
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.emit.c.table import Counts
from eqfuse.ir.graph import Node, topological
from eqfuse.ir.view_strides import contiguous
from eqfuse.kinds.cascade import Cascade


class Joining(Elements):
    """All is computed in loops over the kept dimensions."""

    def __init__(self, schedule: LoopsSchedule, rounds: bool, parameters: Parameters) -> None:
        super().__init__(schedule, schedule.forms[0], rounds, parameters, Counts(), [])

    def place(self, n: Node) -> str:
        return "unit"

    def lines(self) -> list[str]:
        lines: list[str] = []
        for p in self.form.passes:
            if p.reductions and self.schedule.cascade is not None:
                lines += self._carried(p.reductions, self.schedule.cascade)
            lines += self._in_pairs(p.reductions) if p.reductions else []
        self.names = {key: name for key, name in self.names.items() if key[1] == "top"}
        return [*lines, *self._loops(self._results())]

    def _results(self) -> list[str]:
        """The lines that make of what is joined what the program has; results of full size have been written."""
        lines: list[str] = []
        for n in self.schedule.reductions:
            self._finish(n, lines)
        outputs = self.form.body.outputs  # each of the whole space, where arrays are joined of pieces
        joined = [j for j, o in enumerate(self.schedule.body.outputs) if o.shape != self.schedule.space]
        self._compute(self._needed([outputs[j] for j in joined]), lines)
        return [*lines, *[self.stored(j, "unit") for j in joined]]

    def _needed(self, roots: Sequence[Node]) -> list[Node]:
        """What is loaded or computed for `roots` after all reductions, in order."""
        met: set[Node] = set()
        stack = [*roots]
        while stack:
            n = stack.pop()
            if n not in met and not is_reduction(n) and (n, "unit") not in self.names:
                met.add(n)
                stack += [] if is_load(n) else n.args
        return [n for n in topological(roots) if n in met]

    def _compute(self, nodes: Sequence[Node], lines: list[str]) -> None:
        for n in nodes:
            if n in self.form.arrays:
                self.enter(n, "unit", lines, *self.element(n))
            elif not is_load(n):
                self.enter(n, "unit", lines, *self.computed(n, "unit"))

    def _loops(self, lines: list[str]) -> list[str]:
        """Over the kept dimensions."""
        for d in reversed(range(len(self.nest.dims))):
            if d not in self.reduced:
                name = AXES[d]
                lines = braced(f"for (long {name} = 0; {name} < {self.nest.dims[d].extent}; {name}++)", lines)
        return lines

    def _carried(self, reductions: Sequence[Node], cascade: Cascade) -> list[str]:
        """The loops that make of what parts give what they add to the whole; earlier reductions are joined before."""
        lines: list[str] = []
        self.names = {(cascade.count, "unit"): "count"}
        for r in self.schedule.reductions:
            self.names[cascade.parts[r], "unit"] = f"p{self.number(r)}[{self._place(r, 'part')}]"
            self.names[cascade.wholes[r], "unit"] = f"p{self._joined(r)}[{self._place(r)}]"
        shares = [cascade.shares[r] for r in reductions]
        self._compute(self._needed(shares), lines)
        for r, share in zip(reductions, shares, strict=True):
            lines.append(f"p{self._joined(r)}[{self._place(r, 'part')}] = {self.value(share, 'unit')};")
        kind = ops.computing_type(cascade.count.dtype)
        begin = [f"const {kind} count = {self.count_of_part()};"]
        return braced(f"for (long part = 0; part < {self.schedule.parts}; part++)", [*begin, *self._loops(lines)])

    def _joined(self, r: Node) -> int:
        """The number of the array in which results of parts are joined."""
        return self.number(r) + (len(self.schedule.reductions) if self.schedule.cascade is not None else 0)

    def _place(self, r: Node, part: str = "") -> str:
        rows, row = r.type.size, self.index(aligned(0, contiguous(r.shape), r.shape, self.schedule.space))
        if rows == 1:
            return part or "0"
        return f"{rows} * {part} + {row}" if part else row

    def _in_pairs(self, reductions: Sequence[Node]) -> list[str]:
        """Parts are joined to their neighbours, pairs to pairs, until the first has all."""
        parts, rows = self.schedule.parts, reductions[0].type.size
        steps = []
        for n in reductions:
            j, (how, _, _) = self._joined(n), self.reduction(n)
            places = ("{} * part + row", "{} * (part + apart) + row") if rows > 1 else ("part", "part + apart")
            a, b = (f"p{j}[{place.format(rows)}]" for place in places)
            steps.append(f"{a} = {how.step.format(a=a, b=b)};")
        if rows > 1:
            steps = ["#pragma omp simd", *braced(f"for (long row = 0; row < {rows}; row++)", steps)]
        pairs = braced(f"for (long part = 0; part + apart < {parts}; part += 2 * apart)", steps)
        return braced(f"for (long apart = 1; apart < {parts}; apart *= 2)", pairs)

    def _finish(self, n: Node, lines: list[str]) -> None:
        """Make of what the first part has the result of one reduction."""
        _, _, name = self.reduction(n)
        joined = f"p{self._joined(n)}[{self._place(n)}]"
        lines.append(f"const {ops.computing_type(n.dtype)} {name} = {self.as_stored(n, joined)};")
        self.results[n] = name
