"""How blocks that share rows leave what they have reduced, and how the one that arrives last joins it, in their order,
so that the bits never vary.

In: the schedule of a row kernel whose rows are split. Out: statements. Next stop: `row.py`. Of a cascade, what later
passes give is carried from each part's own maxima and means over to those joined before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.joining import until_last
from eqfuse.emit.cuda.row_elements import RowElements
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.ir.graph import Node, topological
from eqfuse.kinds.cascade import Cascade

BYTES_READ_FIRST = 64  # of parts, before a thread joins the first, at most; twice if it has held values


class SplitRows:
    """`names`: of what a thread has reduced, by reduction. `combine`: the statements that join what threads have of a
    row, by the name of that and its reduction."""

    def __init__(
        self, schedule: RowsSchedule, elements: RowElements, combine: Callable[[str, ops.Reduction], list[str]]
    ) -> None:
        self.schedule, self.elements, self.combine = schedule, elements, combine
        self.names: dict[Node, str] = {}
        self.numbers = {r: j for j, r in enumerate(chain(*schedule.reductions))}
        self.row = "row_" if elements.rows > 1 else "row"
        self.row_member = ".v[v]" if elements.rows > 1 else ""

    def left(self, reductions: Sequence[Node], leader: str) -> list[str]:
        """Leaves the results of a pass over a part, by `leader`, one thread of each row; and puts anchors in their
        place for later passes."""
        places = {n: self._place(n, "(size_t)blockIdx.y") for n in reductions}
        if self.row_member:
            lines = [f"{self._kind(n)} {self._part(n)};" for n in reductions]
            lines += self.elements.of_rows([f"{self._part(n)}{self.row_member} = {self.names[n]};" for n in reductions])
            writes = [f"*{place} = {self._part(n)};" for n, place in places.items()]
        else:
            lines, writes = [], [f"*{place} = {self.names[n]};" for n, place in places.items()]
        lines += [f"if ({leader}) {{", *(f"    {line}" for line in writes), "}"]
        if self.row_member:
            lines = ["{", *(f"    {line}" for line in lines), "}"]
        cascade, anchors = self.schedule.cascade, list[str]()
        for n in reductions if cascade is not None else ():
            if cascade is not None and n in cascade.anchors:
                texts = {cascade.parts[n]: self.names[n], cascade.count: self._count(cascade, "blockIdx.y")}
                anchor_lines, text = self._computed(cascade.anchors[n], texts)
                anchors += ["{", *(f"    {line}" for line in anchor_lines), f"    {self.names[n]} = {text};", "}"]
        return [*lines, *self.elements.of_rows(anchors)]

    def joined(self) -> list[str]:
        lines = until_last("last", "arrived[blockIdx.x]", f"{self.schedule.splits - 1}u")
        for level in self.schedule.reductions:
            lines += self._level(level)
        return lines

    def _level(self, level: Sequence[Node]) -> list[str]:
        """Threads share the parts of a row, and join what each of them has."""
        elements, reads, steps = self.elements, dict[Node, str](), list[str]()
        hows = {n: ops.reduction(n.op, n.args[0].dtype, n.dtype) for n in level}
        lines = elements.of_rows([f"{self.names[n]} = {how.identity};" for n, how in hows.items()])
        for n, how in hows.items():
            share_lines, share = self._share(n, reads)
            step = f"{self.names[n]} = {how.step.format(a=self.names[n], b=share)};"
            steps += ["{", *(f"    {line}" for line in (*share_lines, step)), "}"] if share_lines else [step]
        size = sum([self.elements.rows * max(4, r.dtype.itemsize) for r in reads])
        lines += [
            f"#pragma unroll {max(1, min(4, BYTES_READ_FIRST * (1 + bool(self.schedule.held)) // size))}",
            f"for (int j = lane; j < {self.schedule.splits}; j += {self.schedule.rows.stride}) {{",
            *(f"    const {self._kind(n)} {name} = eqf_fetch({self._place(n, '(size_t)j')});"
              for n, name in reads.items()),
            *(f"    {line}" for line in elements.of_rows(steps)),
            "}",
        ]  # fmt: skip
        return [*lines, *(line for n, how in hows.items() for line in self.combine(self.names[n], how))]

    def _share(self, n: Node, reads: dict[Node, str]) -> tuple[list[str], str]:
        """What part `j` adds to the reduction `n`. `reads`: what is read of the part."""
        cascade = self.schedule.cascade
        if cascade is None or cascade.shares[n] is cascade.parts[n]:
            reads[n] = self._part(n)
            return [], reads[n] + self.row_member
        reads |= {r: self._part(r) for r in cascade.made_of(n)}
        texts = {cascade.wholes[r]: self.names[r] for r in self.numbers}
        texts |= {cascade.parts[r]: name + self.row_member for r, name in reads.items()}
        return self._computed(cascade.shares[n], texts | {cascade.count: self._count(cascade, "j")})

    def _computed(self, root: Node, texts: Mapping[Node, str]) -> tuple[list[str], str]:
        """The statements that compute `root` of what stands in `texts` and of numbers, and its name."""
        names, lines = dict(texts), list[str]()
        for n in topological((root,)):
            if n in names:
                continue
            number = self.elements.parameters.scalar(n)
            if number is None:
                text = ops.expression(n.op, [a.dtype for a in n.args], [names[a] for a in n.args])
                number = f"u{len(lines)}"
                lines.append(f"const {ops.computing_type(n.dtype)} {number} = {text};")
            names[n] = number
        return lines, names[root]

    def _count(self, cascade: Cascade, split: str) -> str:
        """The number of elements of a row in a part."""
        part, splits = self.schedule.per_split, self.schedule.splits
        last = self.schedule.rows.columns - part * (splits - 1)
        return f"({ops.computing_type(cascade.count.dtype)})({split} < {splits - 1} ? {part} : {last})"

    def _part(self, n: Node) -> str:
        return f"p{self.numbers[n]}"

    def _kind(self, n: Node) -> str:
        """The C type of what a thread leaves of the reduction `n`: of one row, or of several."""
        kind = ops.reduction(n.op, n.args[0].dtype, n.dtype).kind
        return f"Several<{kind}, {self.elements.rows}>" if self.row_member else kind

    def _place(self, n: Node, part: str) -> str:
        """Where that lies of `part`."""
        offset = f"{'2 * ' if n.op in ops.PLACES else ''}({part} * {self.schedule.rows.rows} + {self.row})"
        return f"({self._kind(n)}*)(parts{self.numbers[n]} + {offset})"
