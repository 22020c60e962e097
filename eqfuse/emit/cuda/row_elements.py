"""Elements of rows that are reduced, from one pass to the next. In: a row or reduce body. Out: the statements of a
thread for one element, or for each of several neighbours. Next stop: `row.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from eqfuse.dtypes import BFLOAT16
from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.row_blocks import RowBlocks
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role


class RowElements(Elements):
    """Elements over `(row, col)`, of which a thread reads neighbours at once: of a row, or of as many `rows` side by
    side, each of which has its own of every value of a row. The values `kept` stay in registers (`held`) from
    one pass to the next, the rest is computed again."""

    def __init__(
        self, parameters: Parameters, indices: Indices, kept: frozenset[Node], blocks: RowBlocks
    ) -> None:
        super().__init__(parameters, indices)
        self.kept = kept
        width = self.vector_width = blocks.width
        self.fast = "row" if blocks.side_by_side else "col"
        self.rows = width if blocks.side_by_side else 1  # each with values of its own
        self.arrays: dict[str, str] = {}  # those values, by name, and their declarations
        self.row_vectors: dict[tuple[str, str], str] = {}  # neighbours that stay the same along their rows
        self.row_reads: list[str] = []  # the statements that read those of this pass
        if self.rows > 1:
            self.changes = re.compile(r"\b(i|col|t\d+|[rk]\d+v(_\d+)?)\b")
        self.place = f"k * {width} + v" if width > 1 else "k"  # of an element among those of a thread
        self.reciprocals: dict[str, str] = {}
        self.results: dict[Node, tuple[str, Index]] = {}
        self.computed: dict[tuple[Node, Index], tuple[str, list[str]]] = {}
        self.held: dict[tuple[Node, Index], str] = {}
        self.row_index = "[v]" if self.rows > 1 else ""  # of the rows side by side

    def declared(self, kind: str, name: str, varies: bool) -> list[str]:
        if self.rows == 1 or varies:
            return super().declared(kind, name, varies)
        array = name.removesuffix("[v]")
        self.arrays[array] = f"{kind.removeprefix('const ')} {array}[{self.rows}];"
        return []

    def new_name(self, varies: bool) -> str:
        name = super().new_name(varies)
        return name if self.rows == 1 or varies else f"{name}[v]"

    def define(self, kind: str, name: str, text: str, varies: bool) -> None:
        if self.rows == 1 or varies:
            super().define(kind, name, text, varies)
            return
        self.declared(kind, name, varies)
        self.outer.append(f"{name} = {text};")

    def vector(self, array: str, first: str) -> str:
        if self.rows == 1 or self.changes.search(first):
            return super().vector(array, first)
        if (array, first) not in self.row_vectors:
            name = self.row_vectors[array, first] = f"{array}s{len(self.row_vectors)}"
            self.row_reads.append(self.read_vector(array, first, name))
        return self.row_vectors[array, first]

    def once(self) -> list[str]:
        """The statements of whole rows."""
        return [*self.row_reads, *self.of_rows(self.outer)]

    def of_rows(self, lines: list[str]) -> list[str]:
        """`lines`, for each of the rows side by side."""
        if self.rows == 1 or not lines:
            return lines
        each = [f"const {self.parameters.integer} row = row_ + v;", *lines]
        return ["#pragma unroll", f"for (int v = 0; v < {self.rows}; v++) {{", *(f"    {line}" for line in each), "}"]

    def next_pass(self) -> None:
        for key, name in self.inner_memo.items():
            self.computed.setdefault(key, (name, self.inner))
        self.inner_memo = {}
        self.inner, self.outer, self.vectors, self.row_reads = [], [], {}, []
        self.short_here = {name for name in self.short_here if name.startswith("s")}

    def forget(self, reductions: Collection[Node]) -> None:
        """What was made of `reductions`, which have become those of whole rows."""
        below = set(reductions)
        for n in topological([n for n, _ in self.outer_memo]):
            if any(a in below for a in n.args):
                below.add(n)
        self.outer_memo = {key: name for key, name in self.outer_memo.items() if key[0] not in below}

    def earlier(self, n: Node, index: Index) -> str | None:
        if n.row.role is Role.REDUCTION:
            name, reduced_index = self.results[n]
            if reduced_index != index:
                raise UnsupportedOp(f"the cuda target cannot read {n.op} of another row")
            return name
        if (n, index) not in self.held:
            if n not in self.kept or (n, index) not in self.computed:
                return None
            name, lines = self.computed[n, index]
            self.held[n, index] = f"h{len(self.held)}"
            lines.append(f"h{len(self.held) - 1}[{self.place}] = {name};")
        name = f"t{self.count}"
        self.count += 1
        self.inner.append(f"{ops.computing_type(n.dtype)} {name} = {self.held[n, index]}[{self.place}];")
        self.inner_memo[n, index] = name
        return name

    def expression(self, n: Node, values: list[str]) -> str:
        """A row is divided by one number by way of its reciprocal, which takes a third of the instructions."""
        divides = n.op == "divide" and ops.computing_type(n.dtype) == "float"
        if not divides or self.changes.search(values[1]) or not self.changes.search(values[0]):
            return super().expression(n, values)
        if values[1] not in self.reciprocals:
            self.reciprocals[values[1]] = self.new_name(False)
            self.define("const float", self.reciprocals[values[1]], f"1.0f / {values[1]}", False)
        quotient = "eqf_quotient" if n.dtype != BFLOAT16 else "eqf_short_quotient"
        return f"{quotient}({values[0]}, {values[1]}, {self.reciprocals[values[1]]})"
