"""Elements of rows that are reduced, from one pass to the next. In: a row or reduce body. Out: the statements of a
thread for one element, or for each of several neighbours. Next stop: `row.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from eqfuse.dtypes import BFLOAT16
from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.holding import Holding
from eqfuse.emit.cuda.scheduling.row_blocks import RowBlocks
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role


@dataclass(frozen=True)
class HeldArray:
    """What a thread keeps from pass to pass: in each turn so many values of C's `kind`, of so many bytes."""

    name: str
    kind: str
    itemsize: int
    per_turn: int


class RowElements(Elements):
    """Elements over `(row, col)`, of which a thread reads neighbours at once: of a row, or of as many `rows` side by
    side, each of which has its own of every value of a row. The values `kept` stay at hand (`held`, `held_vectors`)
    from one pass to the next, as `holding` says; the rest is computed again."""

    def __init__(
        self, parameters: Parameters, indices: Indices, kept: frozenset[Node], holding: Holding, blocks: RowBlocks
    ) -> None:
        super().__init__(parameters, indices)
        self.kept, self.holding, self.blocks = kept, holding, blocks
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
        self.held: dict[tuple[Node, Index], HeldArray] = {}
        self.held_vectors: dict[tuple[str, str], HeldArray] = {}  # as they lie in memory: (array, first place)
        self.kept_together: dict[tuple[str, str], Node] = {}  # of which arrays those are
        self.reads: list[str] = []  # the statements of this pass that read neighbours
        self.read: dict[tuple[str, str], tuple[str, list[str]]] = {}  # by earlier passes: by which name, among which
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
        for place, name in self.vectors.items():
            self.read.setdefault(place, (name, self.reads))
        self.inner_memo = {}
        self.inner, self.outer, self.vectors, self.row_reads, self.reads = [], [], {}, [], []
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
        as_read = self.holding.as_read
        if (n, index) not in self.held:
            if n not in self.kept or (n, index) not in self.computed or self._lies_in_a_vector(n, index):
                return None
            if as_read and self.vector_width != self.blocks.width:
                return None  # in a branch, which not every element takes
            name, lines = self.computed[n, index]
            array = self.hold(n, index, self._held_name())
            lines.append(f"{array.name}[{self.place}] = {ops.value_kept(n.dtype, name) if as_read else name};")
        text = f"{self.held[n, index].name}[{self.place}]"
        name = f"t{self.count}"
        self.count += 1
        text = ops.value_read(n.dtype, text) if as_read else text
        self.inner.append(f"{ops.computing_type(n.dtype)} {name} = {text};")
        self.inner_memo[n, index] = name
        return name

    def hold(self, n: Node, index: Index, name: str) -> HeldArray:
        """Elements of `n` are kept one by one."""
        kind = ops.stored(n.dtype) if self.holding.as_read else ops.computing_type(n.dtype)
        array = self.held[n, index] = HeldArray(name, kind, n.dtype.itemsize, self.blocks.width)
        return array

    def _lies_in_a_vector(self, n: Node, index: Index) -> bool:
        """Has an earlier pass read the neighbours of which `n[index]` is one? Then these are kept together."""
        array = self.parameters.pointer(n) if self.holding.as_read and self.vector_width > 1 else None
        if array is None:
            return False
        place = array, self._first_of_neighbours(self.indices.join(index, n.shape))
        if place in self.read:
            self.kept_together[place] = n
        return place in self.read

    def _held_name(self) -> str:
        return f"h{len(self.held) + len(self.held_vectors)}"

    def held_arrays(self) -> list[HeldArray]:
        return [*self.held.values(), *self.held_vectors.values()]

    def read_at_once(self) -> list[str]:
        self.reads += super().read_at_once()
        return self.reads

    def read_vector(self, array: str, first: str, name: str) -> str:
        place = array, first
        if place not in self.kept_together:
            return super().read_vector(array, first, name)
        kind = f"Vec<{self.parameters.stored(array)}, {self.vector_width}>"
        if place not in self.held_vectors:
            earlier, lines = self.read[place]
            size = self.vector_width * self.kept_together[place].dtype.itemsize
            words = _words(size)
            held = self.held_vectors[place] = HeldArray(self._held_name(), words, size, 1)
            lines.append(f"{held.name}[k] = eqf_same<{words}>({earlier});")
        return f"const {kind} {name} = eqf_kept<{kind}>({self.held_vectors[place].name}[k]);"

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


def _words(size: int) -> str:
    """The C type of so many bytes in whole registers: neighbours of 16 bits would take one each."""
    return {1: "unsigned char", 2: "unsigned short", 4: "unsigned"}.get(size, f"Vec<unsigned, {size // 4}>")
