"""What the cells of one form read from different places: a table of numbers, with a row for each cell.

In: a form, and where kernels find arrays. Out: names and lines of C. Next stop: `element.py`.
Names: q: arrays; o: where an array begins; s: strides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from eqfuse.emit.c import ops
from eqfuse.emit.c.cells import Read
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Nest
from eqfuse.emit.c.parameters import Parameters
from eqfuse.ir.graph import Node


@dataclass
class Counts:
    """How many names of each letter there are."""

    used: dict[str, int] = field(default_factory=dict)

    def name(self, letter: str) -> str:
        self.used[letter] = self.used.get(letter, -1) + 1
        return f"{letter}{self.used[letter]}"


@dataclass
class Table:
    """`columns`: by name, how it is declared, and what it is in each cell: a number, or the name of an array."""

    form: Form
    nest: Nest
    parameters: Parameters
    counts: Counts
    columns: dict[str, tuple[str, list[int | str]]] = field(default_factory=dict)
    names: dict[tuple[Node, object], str] = field(default_factory=dict)

    def array(self, n: Node) -> str:
        """The array, or the number, that `n` is read from."""
        declared = f"const {ops.ctype(n.dtype).stored} *{{name}} = arrays[{{value}}];"
        return self._varying(n, "q", lambda read: self.parameters.leaf(read.leaf), "q", declared)

    def offset(self, n: Node) -> int | str:
        return self._varying(n, "o", lambda read: read.access.offset, "o", _NUMBER)

    def steps(self, n: Node) -> list[int | str]:
        """The strides of `n` along each dimension."""
        return [self._varying(n, d, self._step(d), "s", _NUMBER) for d in range(len(self.nest.dims))]

    def _step(self, d: int) -> Callable[[Read], int]:
        dim = self.nest.dims[d]
        return lambda read: dim.step(read.access)

    def _varying(self, n: Node, key: object, quantity: Callable[[Read], Any], letter: str, declared: str) -> Any:
        values = self.form.by_cell(n, quantity)
        if all(value == values[0] for value in values):
            return values[0]
        if (n, key) not in self.names:
            name = self.names[n, key] = self.counts.name(letter)
            self.columns[name] = declared, values
        return self.names[n, key]

    def lines(self, words: Collection[str], is_one_of_many: bool) -> list[str]:
        """The lines that look up those of the names `words` that are columns; the first number of a row is that of the
        form, if there are several."""
        return [
            declared.format(name=name, value=f"cell[{i}]")
            for i, (name, (declared, _)) in enumerate(self.columns.items(), is_one_of_many)
            if name in words
        ]

    def rows(self, arrays: list[str]) -> dict[int, list[int]]:
        """By cell, what the columns are; `arrays`: the names of all that the kernel reads and writes, in order."""
        columns = [values for _, values in self.columns.values()]
        return {
            number: [arrays.index(v) if isinstance(v, str) else v for v in row]
            for number, row in zip(self.form.numbers, zip(*columns, strict=True), strict=True)
        } if columns else {number: [] for number in self.form.numbers}  # fmt: skip


_NUMBER = "const long {name} = {value};"
