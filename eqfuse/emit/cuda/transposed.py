"""Maps by tiles, some of whose arrays lie with another axis fastest. In: a map body and its schedule. Out: the
statements of one CUDA function. Next stop: `cuda.emit_kernel`.

Values that lie so are computed by threads that are neighbours along their own fast axis, and kept in shared memory; the
rest, and the results, by threads that are neighbours along the last one. `row`, `col`: places along the two axes; `z`:
along all others; `v`: which row of the tile a thread is at.
"""

from __future__ import annotations

import re

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.map import TILE, TilesSchedule


class _TileElements(Elements):
    changes = re.compile(r"\b(z|v|row|col|t\d+)\b")  # of a tile: what only the block decides is computed with the rest


def emit(schedule: TilesSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    shape, axis, integer = parameters.body.outputs[0].shape, schedule.axis, parameters.integer
    kinds = [ops.computed(n.dtype) for n in schedule.transposed]
    down, across = -(-shape[axis] // TILE), -(-shape[-1] // TILE)
    reading, index = _elements(parameters, schedule)
    kept = []
    for j, n in enumerate(schedule.transposed):
        kept.append(f"tile{j}[v][threadIdx.x] = {reading.value(n, index[-n.type.rank :])};")
    writing, index = _elements(parameters, schedule)
    for j, n in enumerate(schedule.transposed):
        writing.name(n, index[-n.type.rank :], f"tile{j}[threadIdx.x][v]")
    stores = []
    for j, o in enumerate(parameters.body.outputs):
        text = ops.store(o.dtype, writing.value(o, index))
        stores.append(f"w{j}[{writing.indices.join(index, o.shape)}] = {text};")
    return [
        *(f"__shared__ {kind} tile{j}[{TILE}][{TILE + 1}];" for j, kind in enumerate(kinds)),
        f"const {integer} z = blockIdx.x / {down * across};",
        f"const {integer} top = blockIdx.x / {across} % {down} * {TILE}, left = blockIdx.x % {across} * {TILE};",
        *reading.outer,
        *_each("row = top + threadIdx.x, col = left + v", schedule, shape, [*reading.inner, *kept], integer),
        "__syncthreads();",
        *writing.outer,
        *_each("row = top + v, col = left + threadIdx.x", schedule, shape, [*writing.inner, *stores], integer),
    ]


def _elements(parameters: Parameters, schedule: TilesSchedule) -> tuple[Elements, Index]:
    """Elements at `(z, row, col)`, and that index."""
    shape, axis, indices = parameters.body.outputs[0].shape, schedule.axis, Indices()
    others = [a for a in range(len(shape) - 1) if a != len(shape) + axis]
    index = [""] * len(shape)
    for a, text in zip(others, indices.split("z", tuple(shape[a] for a in others)), strict=True):
        index[a] = text
    index[axis], index[-1] = "row", "col"
    return _TileElements(parameters, indices), tuple(index)


def _each(place: str, schedule: TilesSchedule, shape: tuple[int, ...], lines: list[str], integer: str) -> list[str]:
    """`lines` for each of the elements of the tile that a thread takes."""
    return [
        "#pragma unroll",
        f"for (int v = threadIdx.y; v < {TILE}; v += {schedule.block[1]}) {{",
        f"    const {integer} {place};",
        f"    if (row < {shape[schedule.axis]} && col < {shape[-1]}) {{",
        *(f"        {line}" for line in lines),
        "    }",
        "}",
    ]
