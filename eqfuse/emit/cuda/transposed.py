"""Maps by tiles, some of whose arrays lie with another axis fastest. In: a map body and its schedule. Out: the
statements of one CUDA function. Next stop: `cuda.emit_kernel`.

Values that lie so are computed by threads that are neighbours along their own fast axis, and kept in shared memory; the
rest, and the results, by threads that are neighbours along the last one. `row`, `col`: places along the two axes; `z`:
along all others; `v`: which of its elements a thread is at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.map import LINE_THREADS, TilesSchedule
from eqfuse.ir.graph import Node

STARTS = {"row": "top", "col": "left"}


class _TileElements(Elements):
    changes = re.compile(r"\b(z|v|row|col|t\d+)\b")  # of a tile: what only the block decides is computed with the rest

    def __init__(self, parameters: Parameters, indices: Indices) -> None:
        super().__init__(parameters, indices)
        self.kept: dict[tuple[Node, Index], str] = {}  # in shared memory

    def keep(self, n: Node, index: Index, place: str) -> None:
        self.kept[n, index] = place
        self.name(n, index, ops.value_read(n.dtype, place))

    def stored(self, n: Node, index: Index) -> str:
        return self.kept.get((n, index)) or super().stored(n, index)


@dataclass(frozen=True)
class _Result:
    """`text` goes to the `place` of each element; where there is a `first`, to that of several neighbours at once."""

    kind: str
    text: str
    place: str
    first: str


def tiles_lines(schedule: TilesSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    shape, axis, integer, side = parameters.body.outputs[0].shape, schedule.axis, parameters.integer, schedule.side
    down, across = -(-shape[axis] // side), -(-shape[-1] // side)
    kinds = [ops.stored(n.dtype) for n in schedule.transposed]
    read, write = _places(schedule)
    reading, index = _elements(parameters, schedule, "row")
    kept = [_Result(kind, reading.stored(n, index[-n.type.rank :]), f"tile{j}{read}", _first_kept(schedule, j))
            for j, (n, kind) in enumerate(zip(schedule.transposed, kinds, strict=True))]  # fmt: skip
    writing, index = _elements(parameters, schedule, "col")
    for j, n in enumerate(schedule.transposed):
        writing.keep(n, index[-n.type.rank :], f"tile{j}{write}")
    results = []
    for j, o in enumerate(parameters.body.outputs):
        flat = writing.indices.join(index, o.shape)
        first = f"w{j} + " + re.sub(r"\bcol\b", "col_", flat) if schedule.at_once[1] else ""
        results.append(_Result(ops.stored(o.dtype), writing.stored(o, index), f"w{j}[{flat}]", first))
    before, after = _pass(schedule, writing, "col", shape, results)
    return [
        *(f"__shared__ __align__(16) {kind} tile{j}[{side}][{schedule.line(n)}];"
          for j, (n, kind) in enumerate(zip(schedule.transposed, kinds, strict=True))),
        f"const {integer} z = blockIdx.x / {down * across};",
        f"const {integer} top = blockIdx.x / {across} % {down} * {side}, left = blockIdx.x % {across} * {side};",
        *reading.outer,
        "{",
        *(f"    {line}" for lines in _pass(schedule, reading, "row", shape, kept) for line in lines),
        "}",
        *writing.outer,
        *before,
        "__syncthreads();",
        *after,
    ]  # fmt: skip


def _elements(parameters: Parameters, schedule: TilesSchedule, fast: str) -> tuple[_TileElements, Index]:
    """Elements at `(z, row, col)`, and that index."""
    shape, axis, elements = parameters.body.outputs[0].shape, schedule.axis, _TileElements(parameters, Indices())
    others = [a for a in range(len(shape) - 1) if a != len(shape) + axis]
    index = [""] * len(shape)
    for a, text in zip(others, elements.indices.split("z", tuple(shape[a] for a in others)), strict=True):
        index[a] = text
    index[axis], index[-1] = "row", "col"
    elements.fast = fast
    elements.vector_width = schedule.width if schedule.at_once[fast == "col"] else 1
    return elements, tuple(index)


def _places(schedule: TilesSchedule) -> tuple[str, str]:
    """Where in a tile, [column][row], a thread keeps element `v` of what it reads, and finds that of what it writes.
    Where both are done at once, each line has its rows in an order of its own: no two threads then meet in one bank."""
    width, swapped = schedule.width, all(schedule.at_once)
    line, row = f"threadIdx.x / {LINE_THREADS}", f"threadIdx.x % {LINE_THREADS} * {width}"
    each = f"[threadIdx.x / {schedule.side} + v * {LINE_THREADS}]", f"[threadIdx.x % {schedule.side}]"
    read = f"[{line}][{row} + v]" if schedule.at_once[0] else "".join(each)
    write = f"[{row} + v][{line}{f' ^ {row}' if swapped else ''}]" if schedule.at_once[1] else "".join(reversed(each))
    return read, write


def _first_kept(schedule: TilesSchedule, j: int) -> str:
    """Where a thread keeps all that it reads at once."""
    if not all(schedule.at_once):
        return ""
    line, place = f"threadIdx.x / {LINE_THREADS}", f"threadIdx.x % {LINE_THREADS}"
    return f"&tile{j}[{line}][({place} ^ {line} / {schedule.width} % {LINE_THREADS}) * {schedule.width}]"


def _pass(
    schedule: TilesSchedule, elements: Elements, fast: str, shape: tuple[int, ...], results: list[_Result]
) -> tuple[list[str], list[str]]:
    """The statements by which the threads of a block compute `results` of a tile, side by side along `fast`: those that
    may come before all threads have met, and the rest."""
    width, side, integer = schedule.width, schedule.side, elements.parameters.integer
    slow = "col" if fast == "row" else "row"
    extents = {"row": shape[schedule.axis], "col": shape[-1]}
    at_once = schedule.at_once[fast == "col"]
    tests = [f"{a}{'_' if at_once and a == fast else ''} < {n}" for a, n in extents.items() if n % side]
    test = f"if ({' && '.join(tests)}) {{" if tests else "{"
    inner = [*elements.inner, *(f"{f'x{j}.v[v]' if r.first else r.place} = {r.text};" for j, r in enumerate(results))]
    loop = ["#pragma unroll", f"for (int v = 0; v < {width}; v++) {{"]
    if not at_once:
        where = (f"{fast} = {STARTS[fast]} + threadIdx.x % {side}, "
                 f"{slow} = {STARTS[slow]} + threadIdx.x / {side} + v * {LINE_THREADS}")  # fmt: skip
        return [], [*loop, f"    const {integer} {where};", f"    {test}", *(f"        {line}" for line in inner),
                    "    }", "}"]  # fmt: skip
    where = (f"{slow} = {STARTS[slow]} + threadIdx.x / {LINE_THREADS}, "
             f"{fast}_ = {STARTS[fast]} + threadIdx.x % {LINE_THREADS} * {width}")  # fmt: skip
    together = [(f"Vec<{r.kind}, {width}>", f"x{j}", r.first) for j, r in enumerate(results) if r.first]
    lines = [
        *(f"{kind} {name};" for kind, name, _ in together),
        *loop, f"    const {integer} {fast} = {fast}_ + v;", *(f"    {line}" for line in inner), "}",
        *(f"*({kind}*)({first}) = {name};" for kind, name, first in together),
    ]  # fmt: skip
    before, reads = [f"const {integer} {where};"], elements.read_at_once()
    if not tests:
        return [*before, *reads], lines
    return before, [test, *(f"    {line}" for line in (*reads, *lines)), "}"]
