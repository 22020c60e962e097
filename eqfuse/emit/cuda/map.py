"""Maps: a grid-stride loop over the shape of the results. In: a map body and its schedule. Out: the statements of one
CUDA function. Next stop: `cuda.emit_kernel`.

Neighbours that lie in one row share its number and the first of their columns: what they read next to each other, and
what they compute of it, the compiler then finds to be the same.
"""

from __future__ import annotations

import math
import re

from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.map import MapSchedule


class _MapElements(Elements):
    changes = re.compile(r"\b(i|v|row|col|t\d+)\b")


def map_lines(
    schedule: MapSchedule, parameters: Parameters, block: str = "blockIdx.x", blocks: str = "gridDim.x"
) -> list[str]:
    """The inside of the function, for the thread of `block`, one of so many `blocks`."""
    width, (threads, _) = schedule.width, schedule.block
    size, integer = math.prod(parameters.body.outputs[0].shape), parameters.integer
    start, step = f"({integer}){block} * {threads} + threadIdx.x", f"({integer}){blocks} * {threads}"
    if width == 1:
        elements, stores = _values(parameters, 1)
        inner = [*elements.inner, *(f"w{j}[i] = {text};" for j, text in stores)]
        loop = f"for ({integer} i = {start}; i < {size}; i += {step}) {{"
        return [*elements.outer, loop, *(f"    {line}" for line in inner), "}"]
    whole, rest = divmod(size, width)
    return [*_loop(parameters, width, f"{integer} g = {start}; g < {whole}; g += {step}"),
            *(_rest(parameters, start, whole * width, rest) if rest else [])]  # fmt: skip


def _values(parameters: Parameters, width: int) -> tuple[Elements, list[tuple[int, str]]]:
    """The elements at `i`, of which `width` are read at once, and what is stored there of each output."""
    outputs, elements = parameters.body.outputs, _MapElements(parameters, Indices())
    elements.vector_width = width
    index = _index(elements, outputs[0].shape, width)
    return elements, [(j, elements.stored(o, index)) for j, o in enumerate(outputs)]


def _index(elements: Elements, shape: tuple[int, ...], width: int) -> Index:
    *others, columns = shape or (1,)
    if width == 1 or columns % width or math.prod(others) == 1:
        return elements.indices.split("i", shape)
    index = (*elements.indices.split("row", tuple(others)), "col")
    elements.indices.know(index, shape, "i")
    elements.fast, elements.flat = "col", f"(row * {columns} + col)"
    return index


def _loop(parameters: Parameters, width: int, turns: str) -> list[str]:
    """`width` neighbours a turn."""
    (elements, stores), integer = _values(parameters, width), parameters.integer
    vectors = [f"Vec<{parameters.stored(f'w{j}')}, {width}>" for j, _ in stores]
    first, place = f"i_ = g * {width}", "i = i_ + v"
    inside = [*elements.read_at_once(), *elements.inner, *(text for _, text in stores)]
    if any(re.search(r"\b(row|col|col_)\b", line) for line in inside):
        columns = parameters.body.outputs[0].shape[-1]
        first, place = f"{first}, row = i_ / {columns}, col_ = i_ % {columns}", f"{place}, col = col_ + v"
    return [
        *elements.outer,
        f"for ({turns}) {{",
        f"    const {integer} {first};",
        *(f"    {line}" for line in elements.read_at_once()),
        *(f"    {vector} w{j}v;" for j, vector in enumerate(vectors)),
        "    #pragma unroll",
        f"    for (int v = 0; v < {width}; v++) {{",
        f"        const {integer} {place};",
        *(f"        {line}" for line in elements.inner),
        *(f"        w{j}v.v[v] = {text};" for j, text in stores),
        "    }",
        *(f"    *({vector}*)(w{j} + i_) = w{j}v;" for j, vector in enumerate(vectors)),
        "}",
    ]


def _rest(parameters: Parameters, thread: str, first: int, rest: int) -> list[str]:
    """The elements from `first` on, one each for the first threads."""
    elements, stores = _values(parameters, 1)
    return [
        f"if ({thread} < {rest}) {{",
        f"    const {parameters.integer} i = {thread} + {first};",
        *(f"    {line}" for line in (*elements.outer, *elements.inner)),
        *(f"    w{j}[i] = {text};" for j, text in stores),
        "}",
    ]
