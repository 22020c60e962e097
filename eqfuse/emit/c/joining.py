"""The text of the function that joins the results of parts of rows, in their order, so that threads change no bit.

In: a `LoopsSchedule` whose rows are split. Out: lines of C. Next stop: `writer.py`.
"""

from __future__ import annotations

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import Elements, loop
from eqfuse.emit.c.nest import NAMES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import is_load
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.ir.graph import Node


class Joining(Elements):
    """All is computed in loops over the kept dimensions."""

    def __init__(self, schedule: LoopsSchedule, rounds: bool, parameters: Parameters) -> None:
        super().__init__(schedule, rounds)
        self.parameters = parameters

    def place(self, n: Node) -> str:
        return "unit"

    def lines(self) -> list[str]:
        reducing, *rest = self.schedule.passes
        lines = [line for n in reducing.reductions for line in self._joined(n)]
        for p in rest:
            for n in p.nodes:
                if n in self.schedule.arrays:
                    self.enter(n, "unit", lines, self.element(n))
                elif not is_load(n):
                    self.enter(n, "unit", lines, self.computed(n, "unit"))
            lines += [self.stored(j, "unit") for j in p.outputs]
        for d in reversed(range(len(self.nest.dims))):
            if d not in self.reduced:
                name = NAMES[d]
                lines = loop(f"for (long {name} = 0; {name} < {self.nest.dims[d].extent}; {name}++)", lines)
        return lines

    def _joined(self, n: Node) -> list[str]:
        """The result of one reduction."""
        how, kind, name = self.reduction(n)
        head = f"for (long part = 0; part < {self.schedule.parts}; part++)"
        self.results[n] = self.result(n, name)
        if how.pairwise:
            suffix = self.suffix(n)
            lines = [f"{kind} {name}_sums[{ops.SUMS}];",
                     f"{head} eqf_push_{suffix}({name}_sums, part, {self.part(n)});",
                     f"{kind} {name} = eqf_total_{suffix}({name}_sums, {self.schedule.parts});"]  # fmt: skip
        else:
            step = how.step.format(a=name, b=self.part(n))
            lines = [f"{kind} {name} = {how.identity};", f"{head} {name} = {step};"]
        text = self.as_stored(n, name)
        return lines if text == name else [*lines, f"{name} = {text};"]
