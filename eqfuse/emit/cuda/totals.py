"""What is reduced over all rows of a kernel: each block leaves what its rows add up to, and the one that arrives last
joins that of all, in an order that the shapes decide, so that the bits never vary.

In: the schedule of a kernel of rows with totals. Out: statements. Next stop: `row.py`.
"""

from __future__ import annotations

import math

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.joining import over_block, until_last
from eqfuse.emit.cuda.row_elements import RowElements
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.ir.graph import Node

THREAD = "thread"  # the number of a thread in its block


class _OfTotals(Elements):
    """Values of one element each, made of what has been reduced over all rows."""

    results: dict[Node, str]

    def earlier(self, n: Node, index: Index) -> str | None:
        return self.results.get(n)


class RowTotals:
    """`names`: of what a thread has, by what is reduced over rows, if anything is."""

    def __init__(self, schedule: RowsSchedule, parameters: Parameters) -> None:
        self.schedule, self.parameters = schedule, parameters
        self.hows = {n: ops.reduction(n.op, n.args[0].dtype, n.dtype) for n in schedule.totalled}
        self.names = {n: f"z{k}" for k, n in enumerate(self.hows)}
        self.threads = math.prod(schedule.block)

    @property
    def results(self) -> list[int]:
        """The numbers of the results that are made of totals."""
        totals = self.schedule.totals
        return [] if totals is None else [j for j, o in enumerate(totals.rest.outputs) if o in totals.results]

    def begun(self) -> list[str]:
        return [f"{how.kind} {self.names[n]} = {how.identity};" for n, how in self.hows.items()]

    def of_row(self, elements: RowElements, index: Index, leader: str) -> list[str]:
        """What `leader`, one thread of each row, adds of its row, whose results have this `index`."""
        lines, totals = list[str](), self.schedule.totals
        values = {stand: n for n, stand in totals.stands.items()} if totals else {}
        for n, how in self.hows.items():
            value = how.begun.format(value=elements.value(values[n.args[0]], index), place="row")
            lines.append(f"if ({leader}) {self.names[n]} = {how.step.format(a=self.names[n], b=value)};")
        return lines

    def joined(self) -> list[str]:
        """Leaves what the block has, and joins that of all blocks."""
        if not self.hows:
            return []
        groups = self.schedule.rows.groups
        counter = f"arrived[{groups if self.schedule.splits > 1 else 0}]"
        lines = [f"const int {THREAD} = threadIdx.y * {self.schedule.block[0]} + threadIdx.x;"]
        lines += [line for n in self.hows for line in self._over_block(n)]
        lines.append(f"if ({THREAD} == 0) {{")
        lines += [f"    *{self._place(n, 'blockIdx.x')} = {self.names[n]};" for n in self.hows]
        lines += ["}", *until_last("last_of_all", counter, f"{groups - 1}u")]
        lines += [f"{self.names[n]} = {how.identity};" for n, how in self.hows.items()]
        lines += [f"for (int j = {THREAD}; j < {groups}; j += {self.threads}) {{", *map(self._step, self.hows), "}"]
        lines += [line for n in self.hows for line in self._over_block(n)]
        return [*lines, *self._written()]

    def _over_block(self, n: Node) -> list[str]:
        return over_block(self.names[n], self.hows[n], THREAD, self.threads)

    def _step(self, n: Node) -> str:
        name, left = self.names[n], f"eqf_fetch({self._place(n, 'j')})"
        return f"    {name} = {self.hows[n].step.format(a=name, b=left)};"

    def _place(self, n: Node, group: str) -> str:
        """Where lies what the block `group` leaves of `n`."""
        number = len(self.schedule.workspace) - 1 - len(self.hows) + [*self.hows].index(n)
        return f"({self.hows[n].kind}*)(parts{number} + {'2 * ' if n.op in ops.PLACES else ''}{group})"

    def _written(self) -> list[str]:
        """The results made of totals, which one thread writes."""
        totals, elements = self.schedule.totals, _OfTotals(self.parameters, Indices())
        assert totals is not None
        texts = {n: how.result.format(a=self.names[n]) for n, how in self.hows.items()}
        elements.results = {n: elements.rounded(n, text) for n, text in texts.items()}
        stores = []
        for j in self.results:
            output = totals.rest.outputs[j]
            stores.append(f"w{j}[0] = {elements.stored(output, ('0',) * output.type.rank)};")
        lines = [*elements.outer, *elements.inner, *stores]
        return [f"if ({THREAD} == 0) {{", *(f"    {line}" for line in lines), "}"]
