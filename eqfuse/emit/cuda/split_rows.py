"""How blocks that share rows leave what they have reduced, and how the one that arrives last joins it, in their order,
so that the bits never vary.

In: the schedule of a row kernel whose rows are split. Out: statements. Next stop: `row.py`. Of a cascade, what later
passes give is carried from each part's own maxima and means over to those joined before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Parameters
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.ir.graph import Node, topological
from eqfuse.kinds.cascade import Cascade


class SplitRows:
    """`names`: of what a thread has reduced, by reduction. `leader`: one thread of each row."""

    def __init__(self, schedule: RowsSchedule, parameters: Parameters, leader: str) -> None:
        self.schedule, self.parameters, self.leader = schedule, parameters, leader
        self.names: dict[Node, str] = {}
        self.numbers = {r: j for j, r in enumerate(chain(*schedule.reductions))}

    def left(self, reductions: Sequence[Node]) -> list[str]:
        """Leaves the results of a pass over a part, and puts anchors in their place for later passes."""
        lines = [f"if ({self.leader}) {{"]
        place = f"(size_t)blockIdx.y * {self.schedule.rows.rows} + row"
        lines += [f"    {self._array(n)}[{place}] = {self.names[n]};" for n in reductions]
        lines.append("}")
        cascade = self.schedule.cascade
        for n in reductions if cascade is not None else ():
            if cascade is not None and n in cascade.anchors:
                texts = {cascade.parts[n]: self.names[n], cascade.count: self._count(cascade, "blockIdx.y")}
                made, text = self._computed(cascade.anchors[n], texts)
                lines += ["{", *(f"    {line}" for line in made), f"    {self.names[n]} = {text};", "}"]
        return lines

    def joined(self) -> list[str]:
        splits = self.schedule.splits
        lines = [
            "__threadfence();",
            "__shared__ bool last;",
            "__syncthreads();",
            "if (threadIdx.x == 0 && threadIdx.y == 0) "
            f"last = atomicInc(&arrived[blockIdx.x], {splits - 1}u) == {splits - 1}u;",
            "__syncthreads();",
            "if (!last) return;",
            "__threadfence();",
        ]
        for level in self.schedule.reductions:
            for n in level:
                how, name = ops.reduction(n.op, n.args[0].dtype, n.dtype), self.names[n]
                made, share = self._share(n)
                step = f"{name} = {how.step.format(a=name, b=share)};"
                over = f"for (int j = 0; j < {splits}; j++)"
                lines.append(f"{name} = {how.identity};")
                lines += [f"{over} {{", *(f"    {line}" for line in (*made, step)), "}"] if made else [f"{over} {step}"]
        return lines

    def _share(self, n: Node) -> tuple[list[str], str]:
        """What part `j` adds to the reduction `n`."""
        cascade = self.schedule.cascade
        if cascade is None or cascade.shares[n] is cascade.parts[n]:
            return [], self._read(n)
        texts = {cascade.wholes[r]: self.names[r] for r in self.numbers}
        texts |= {cascade.parts[r]: self._read(r) for r in self.numbers} | {cascade.count: self._count(cascade, "j")}
        return self._computed(cascade.shares[n], texts)

    def _computed(self, root: Node, texts: Mapping[Node, str]) -> tuple[list[str], str]:
        """The statements that compute `root` of what stands in `texts` and of numbers, and its name."""
        names, lines = dict(texts), list[str]()
        for n in topological((root,)):
            if n in names:
                continue
            number = self.parameters.scalar(n)
            if number is None:
                text = ops.expression(n.op, [a.dtype for a in n.args], [names[a] for a in n.args])
                number = f"u{len(lines)}"
                lines.append(f"const {ops.computed(n.dtype)} {number} = {text};")
            names[n] = number
        return lines, names[root]

    def _count(self, cascade: Cascade, split: str) -> str:
        """The number of elements of a row in a part."""
        part, splits = self.schedule.per_split, self.schedule.splits
        last = self.schedule.rows.columns - part * (splits - 1)
        return f"({ops.computed(cascade.count.dtype)})({split} < {splits - 1} ? {part} : {last})"

    def _read(self, n: Node) -> str:
        how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
        read = f"{self._array(n)}[(size_t)j * {self.schedule.rows.rows} + row]"
        return f"({how.kind}){read}" if n.dtype.kind in "bc" or n.op in ops.PLACES else f"__ldcg(&{read})"

    def _array(self, n: Node) -> str:
        """The array of what blocks leave of the reduction `n`."""
        name = f"parts{self.numbers[n]}"
        return f"(({ops.reduction(n.op, n.args[0].dtype, n.dtype).kind}*){name})" if n.op in ops.PLACES else name
