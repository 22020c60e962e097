"""The loops of a part of a product: what a block of an operand is copied from, or what is made of a block of sums.

In: `Loops` over rows and columns, of which a function does the blocks that it is given. Out: lines of C, the parameters
that say which. Next stop: `writer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import braced
from eqfuse.emit.c.lines import Lines
from eqfuse.emit.c.loops import Loops
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.table import Counts
from eqfuse.ir.graph import Node
from eqfuse.ir.views import leaf_chain


class BlockLines(Lines):
    """`incoming`: elements of buffers, by the input that stands for them; `stored`: where outputs are kept that are no
    results of the kernel. Both are written over `row` and `column`, places within the block."""

    def __init__(
        self, loops: Loops, rounds: bool, parameters: Parameters, incoming: Mapping[Node, str], kept: Sequence[str] = ()
    ) -> None:
        super().__init__(loops, loops.forms[0], rounds, parameters, Counts(), [])
        self.incoming, self.kept = incoming, kept

    def kernel(self) -> list[str]:
        inside: list[str] = []
        for number in range(len(self.form.passes)):
            before, after = self.around(number)
            lines = self.of_pass(number)
            inside += [*self.declared(number), *before, *lines, *after]
        lines = [*self.held_lines(), *inside]
        if self.down not in (*self.nest.inside, self.nest.vector):
            lines = braced(self.loop_head(self.down), lines)
        return [*self.top, *lines]

    @property
    def down(self) -> int:
        """The dimension of rows."""
        return len(self.nest.dims) - 2

    @property
    def block_ends(self) -> list[str]:
        """The names of the first row and column of a block, and of those behind its last."""
        return [f"{AXES[d]}_{end}" for d in (self.down, self.down + 1) for end in ("begin", "end")]

    def block(self) -> list[str]:
        """What a call of the function says: an index in each outer dimension, and which rows and columns."""
        names = AXES[: self.down]
        for d in (self.down, self.down + 1):
            names += [f"{AXES[d]}_begin", f"{AXES[d]}_end"] * (self.nest.dims[d].blocks > 1)
        return names

    def element(self, n: Node, place: str = "") -> tuple[str, str]:
        leaf, _ = leaf_chain(n)
        if leaf not in self.incoming:
            return super().element(n, place)
        text = self._within(self.incoming[leaf])
        if leaf.dtype.kind == "b":
            return f"{text} != 0", ""
        if leaf.dtype.kind in "iu":
            return f"({ops.computing_type(leaf.dtype)}){text}", ""
        return ("", ops.value_kept(leaf.dtype, text)) if self.rounds and ops.is_half(leaf.dtype) else (text, "")

    def _in_block(self, text: str, n: Node) -> str:
        return text  # what is read across is copied here, to the block of an operand

    def stored(self, j: int, place: str) -> str:
        if not self.kept:
            return super().stored(j, place)
        return f"{self._within(self.kept[j])} = {self.value(self.schedule.body.outputs[j], place)};"

    def _is_full(self, j: int) -> bool:
        output, last = self.schedule.body.outputs[j], self.schedule.space[-1]
        return not self.reduced or output.shape[-1] == last != 1

    def _within(self, text: str) -> str:
        """`text` at the element of the loops, counted from the first of the block."""
        row, column = (self._local(d) for d in (self.down, self.down + 1))
        return text.format(row=row, column=column)

    def _local(self, d: int) -> str:
        name, dim = AXES[d], self.nest.dims[d]
        if dim.extent == 1:
            return "0"
        return f"({name} - {name}_begin)" if dim.blocks > 1 else name
