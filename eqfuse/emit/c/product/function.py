"""Functions that work on blocks, and the lines that find which block is one's own.

In: names of blocks and buffers, lines. Out: text of C. Next stop: `writer.py`, and that of windows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.writer import CHUNK_PARAMETERS, definition, used

PARAMETERS = "void *const *arrays"


@dataclass(frozen=True)
class Function:
    """A function that works on a block: the names that say which, the buffers that it is given, its lines."""

    name: str
    block: list[str]
    buffers: list[str]
    lines: list[str]

    def call(self, block: Sequence[str] | None = None) -> str:
        arguments = self.block if block is None else block
        return f"{self.name}({', '.join(['arrays', *arguments, *self.buffers])});"

    def text(self, fetched: dict[str, str], computed: str) -> str:
        parameters = [PARAMETERS, *(f"long {x}" for x in self.block), *(f"{computed} *{x}" for x in self.buffers)]
        head = f"static void {self.name}({', '.join(parameters)})"
        return definition(head, [*used(fetched, self.lines), *self.lines])


def functions_text(
    chunks: Mapping[str, Sequence[str]], functions: Sequence[Function], parameters: Parameters, computed: str
) -> str:
    """`functions`, and behind them those that run one of several `chunks`: by name their lines."""
    fetched = parameters.fetched()
    texts = [f.text(fetched, computed) for f in functions]
    for name, lines in chunks.items():
        texts.append(definition(f"static void {name}({CHUNK_PARAMETERS})", [*used(fetched, lines), *lines]))
    return "".join(texts)


def sum_text(*terms: str | tuple[str, int]) -> str:
    """A sum of names, some times a number, without those that are 0."""
    total = ""
    for term in terms:
        name, times = (term, 1) if isinstance(term, str) else term
        if name == "0" or not times:
            continue
        text = name if abs(times) == 1 else f"{name} * {abs(times)}"
        total += f" {'-' if times < 0 else '+'} {text}" if total else text
    return total


def decoded(what: str, counts: Sequence[tuple[str, int]]) -> list[str]:
    """The lines that find the index in each dimension from that of all."""
    lines, step = [], math.prod(count for _, count in counts)
    whole = step
    for name, count in counts:
        step //= count
        text = what if step == 1 else f"{what} / {step}"
        text += "" if step * count == whole else f" % {count}"
        lines.append(f"const long {name} = {text if count > 1 else 0};")
    return lines


def block_bounds(name: str, number: str, block: int, extent: int) -> list[str]:
    """The lines that find the first index of a block, and the one after its last."""
    whole = f"{name}_begin + {block}"
    end = whole if extent % block == 0 else f"{whole} < {extent} ? {whole} : {extent}"
    return [f"const long {name}_begin = {number} * {block};", f"const long {name}_end = {end};"]
