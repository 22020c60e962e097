"""How blocks that share the terms of a tile leave their sums, and how the one that arrives last joins those of its
group, in their order, level by level, so that the bits never vary.

In: the schedule of a product whose terms are split, and where a thread has its sums. Out: statements. Next stop:
`contract.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.emit.cuda.joining import until_last
from eqfuse.emit.cuda.multiply import Multiply
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule
from eqfuse.emit.cuda.scheduling.schedule import computed_dtype
from eqfuse.kinds.product import join_levels


class SplitProduct:
    """`kind`: the C type of the sums. `part`, in the text: the number of a block among those of its tile; later, of its
    group."""

    def __init__(self, schedule: ProductSchedule, multiply: Multiply, kind: str) -> None:
        self.multiply, self.vector = multiply, f"Vec<{kind}, {multiply.group}>"
        (self.tiles, _), (self.threads, _) = schedule.grid, schedule.block
        self.levels = join_levels(schedule.tiling.splits)
        self.rows, self.parts = schedule.tile.joined(computed_dtype(schedule.node.dtype).itemsize // 4)

    def joined(self) -> list[str]:
        """All blocks return, but for one of each tile, whose threads then have the sums of all terms."""
        lines, counted = list[str](), 0
        for level, (count, group) in enumerate(self.levels):
            whole = f"{group - 1}u" if count % group == 0 else f"min({group - 1}, {count - 1} - part * {group})"
            counter = f"arrived[{f'{counted} + ' if counted else ''}part * {self.tiles} + blockIdx.x]"
            lines += [
                *self._left(level),
                f"part /= {group};",
                f"const unsigned others{level} = {whole};",
                *until_last(f"last{level}", counter, f"others{level}"),
                *self._added(level, group),
            ]
            counted += self.tiles * -(-count // group)
        return lines

    def _left(self, level: int) -> list[str]:
        """The thread's sums into memory."""
        sums = self._of_neighbours(f"left.v[v] = {self.multiply.sums};")
        return self._of_each([f"{self.vector} left;", *sums, f"*{self._place(level, 'part')} = left;"])

    def _added(self, level: int, group: int) -> list[str]:
        """The thread's sums of all of the group."""
        high, wide = self.multiply.counts
        left = f"const {self.vector} left = eqf_fetch({self._place(level, f'(part * {group} + j)')});"
        return [
            *self._of_each(self._of_neighbours(f"{self.multiply.sums} = 0;")),
            "#pragma unroll",
            f"for (int top = 0; top < {high}; top += {self.rows})",
            f"    #pragma unroll {self.parts}",
            f"    for (int j = 0; j <= others{level}; j++)",
            "        #pragma unroll",
            f"        for (int a = top; a < top + {self.rows}; a++)",
            "            #pragma unroll",
            f"            for (int b = 0; b < {wide}; b++) {{",
            f"                {left}",
            *(f"                {line}" for line in self._of_neighbours(f"{self.multiply.sums} += left.v[v];")),
            "            }",
        ]

    def _place(self, level: int, part: str) -> str:
        """Where a part of that level has the thread's sums `a`, `b`: those of neighbouring threads side by side."""
        high, wide = self.multiply.counts
        run = f"(((size_t){part} * {self.tiles} + blockIdx.x) * {high * wide} + a * {wide} + b) * {self.threads}"
        return f"(({self.vector}*)parts{level} + {run} + threadIdx.x)"

    def _of_each(self, lines: Sequence[str]) -> list[str]:
        """`lines` for each group of sums that the thread has."""
        high, wide = self.multiply.counts
        return [
            "#pragma unroll",
            f"for (int a = 0; a < {high}; a++)",
            "    #pragma unroll",
            f"    for (int b = 0; b < {wide}; b++) {{",
            *(f"        {line}" for line in lines),
            "    }",
        ]

    def _of_neighbours(self, line: str) -> list[str]:
        return ["#pragma unroll", f"for (int v = 0; v < {self.multiply.group}; v++) {line}"]
