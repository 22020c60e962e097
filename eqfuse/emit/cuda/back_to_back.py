"""Two products with work on whole rows between them, the matrix between on chip. In: a back_to_back body and its
schedule. Out: the statements of one CUDA function. Next stop: `cuda.emit_kernel`.

A block keeps a tile of rows of the first product and goes over its columns, tile by tile, as
`scheduling/back_to_back.py` has it. Tiles of both right operands lie in shared memory, where the next ones come by
asynchronous copies while these are multiplied (`back_to_back_parts.py`). Names are those of `contract.py`: `m`, `n`,
`k` of the product at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.emit.cuda.back_to_back_parts import BackToBackParts, parts_on_cores, parts_on_tensor_cores
from eqfuse.emit.cuda.element import Parameters
from eqfuse.emit.cuda.operands import Matrix, places_of
from eqfuse.emit.cuda.scheduling.back_to_back import BackToBackSchedule
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.tiles import Sums, epilogue, first_of, neighbour, of_neighbours, run_as_it_lies
from eqfuse.ir.graph import Node

AtHand = dict[Node, tuple[str, str]]  # what a value is called, and its text where that is not yet at hand
CUDA_INFINITY = "__int_as_float(0x7f800000)"


def back_to_back_lines(schedule: BackToBackSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    return _Writer(parameters, schedule).write()


class _Writer:
    def __init__(self, parameters: Parameters, schedule: BackToBackSchedule) -> None:
        self.schedule, self.rows, self.integer = schedule, schedule.rows, parameters.integer
        self.first, self.second = places_of(schedule.first), places_of(schedule.second)
        self.product, self.tiles = schedule.first.product, schedule.tiles
        self.q, self.k, self.v = self.first.left(), self.first.right(), self.second.right()
        transposed = {"q": self.q.fast != "k", "k": self.k.fast == "k", "v": self.v.fast == "k"}
        self.parts: BackToBackParts = (
            parts_on_tensor_cores(schedule, transposed) if schedule.tensor else parts_on_cores(schedule)
        )
        self.elements = Sums(parameters, {schedule.first.node: "sum"})

    def write(self) -> list[str]:
        t, parts, columns = self.tiles, self.parts, self.product.columns
        deep, wide = self.schedule.on_chip
        rows, depth, results = self.product.rows, self.product.depth, self.schedule.second.product.columns
        fill_q = self._fill("q", self.q, {"m": ("row", t.rows, rows), "k": ("0", deep, depth)}, False)
        fill_k = self._fill("k", self.k, {"k": ("0", deep, depth), "n": ("ahead", t.columns, columns)}, True)
        fill_v = self._fill("v", self.v, {"k": ("ahead", t.columns, columns), "n": ("0", wide, results)}, True)
        between, finish = self._between(), self._finish()
        fill = [*fill_k, *fill_v, *(["eqf_commit();"] if self.schedule.tensor else [])]
        down = -(-rows // t.rows)
        return [
            *([f"const {self.integer} z = blockIdx.x / {down};"] if self.product.batch > 1 else []),
            f"const {self.integer} row = ({self.integer})(blockIdx.x % {down}) * {t.rows}, column = 0;",
            *parts.declarations,
            *self._statistics(),
            *self.elements.outer,
            *fill_q,
            *(["eqf_commit();", "eqf_wait<0>();"] if self.schedule.tensor else []),
            "__syncthreads();",
            *parts.hold,
            *(self._pipelined(fill, between) if parts.buffers == 2 else self._sequential(fill, between)),
            *finish,
        ]

    def _pipelined(self, fill: list[str], between: list[str]) -> list[str]:
        """The loop over tiles, the next one under way while one is multiplied."""
        columns, step = self.product.columns, self.tiles.columns
        more = [f"    {line}" for line in fill]
        return [
            f"for ({self.integer} ahead = 0, step = -1; step * {step} < {columns}; step++, ahead += {step}) {{",
            "    const int now = step & 1;",
            "    eqf_wait<0>();",
            "    __syncthreads();",
            f"    if (ahead < {columns}) {{",
            *(f"    {line}" for line in more),
            "    }",
            "    if (step < 0) continue;",
            f"    const {self.integer} start = step * {step};",
            *(f"    {line}" for line in (*self.parts.first, *between, *self.parts.second)),
            "}",
        ]

    def _sequential(self, fill: list[str], between: list[str]) -> list[str]:
        columns, step = self.product.columns, self.tiles.columns
        return [
            f"for ({self.integer} start = 0; start < {columns}; start += {step}) {{",
            f"    const {self.integer} ahead = start;",
            "    __syncthreads();",
            *(f"    {line}" for line in fill),
            "    __syncthreads();",
            *(f"    {line}" for line in (*self.parts.first, *between, *self.parts.second)),
            "}",
        ]

    def _fill(self, name: str, matrix: Matrix, extents: dict[str, tuple[str, int, int]], tile: bool) -> list[str]:
        """A tile of an operand into shared memory, zeros outside of the matrix. `extents`: where the tile starts, its
        extent, and that of the matrix."""
        e, parts, width = self.elements, self.parts, matrix.neighbours
        e.start(matrix, width)
        text = e.stored(matrix.node, matrix.index) if self.schedule.tensor else e.value(matrix.node, matrix.index)
        (s_start, s_extent, s_limit), (f_start, f_extent, f_limit) = extents[matrix.slow], extents[matrix.fast]
        buffer = f"{name}s" + ("" if not tile else "[now ^ 1]" if parts.buffers == 2 else "[0]")
        natural = list(extents)  # the order of the indices in memory that is not transposed
        along = (matrix.fast == natural[1]) != parts.transposed[name]
        first = first_of(matrix.fast, width)
        inside = f"{matrix.slow} < {s_limit} && {first} < {f_limit}"
        start = run_as_it_lies(e, matrix, text) if along and self._has_access(matrix) else ""
        if start:
            move = [f"eqf_copy_async(&{buffer}[slow][fast], {start}, {inside});"]
        else:
            keep = f"*(Vec<{parts.stored}, {width}>*)&{buffer}[slow][fast] = next;"
            if not along or width == 1:
                subscript = "[slow][fast + u]" if along else "[fast + u][slow]"
                keep = f"for (int u = 0; u < {width}; u++) {buffer}{subscript} = next.v[u];"
            move = [
                f"Vec<{parts.stored}, {width}> next = {{}};",
                f"if ({inside}) {{",
                *(f"    {x}" for x in of_neighbours(e, matrix, width, [f"next.v[{neighbour(width)}] = {text};"])),
                "}",
                keep,
            ]
        threads, runs = self.tiles.threads, f_extent // width
        return [
            "#pragma unroll 4",
            f"for (int g = threadIdx.x; g < {s_extent * runs}; g += {threads}) {{",
            f"    const int slow = g / {runs}, fast = g % {runs} * {width};",
            f"    const {self.integer} {matrix.slow} = {s_start} + slow, {first} = {f_start} + fast;",
            *(f"    {line}" for line in move),
            "}",
        ]

    def _has_access(self, matrix: Matrix) -> bool:
        """Does an asynchronous copy of 16 bytes take a run of the operand?"""
        return self.schedule.tensor and matrix.neighbours * matrix.node.dtype.itemsize == ACCESS

    def _statistics(self) -> list[str]:
        """Of the thread's rows so far: the maximum, and its part of the sum."""
        high = self.parts.counts[0]
        if self.rows.top is None:
            return []
        return [
            f"float top[{high}], total[{high}] = {{}};",
            "#pragma unroll",
            f"for (int a = 0; a < {high}; a++) top[a] = -{CUDA_INFINITY};",
        ]

    def _between(self) -> list[str]:
        """The work on the tile between the products: what the second one multiplies takes the place of the first."""
        rows, parts = self.rows, self.parts
        lines = [f"const {self.integer} m = min(row + {parts.m}, ({self.integer}){self.product.rows - 1});"]
        first = self.schedule.first.node
        rounded = self.elements.rounded(first, parts.one)
        if rows.top is None:
            lines += self._each({first: ("sum", rounded)}, [(f"{parts.one} = {{}};", rows.weights, "0.0f")])
        else:
            assert rows.scores is not None and rows.shift is not None and rows.terms is not None
            lines.append("float best = top[a];")
            kept = [(f"{parts.one} = {{}};", rows.scores, f"-{CUDA_INFINITY}")]
            lines += self._each({first: ("sum", rounded)}, kept, f"best = eqf_max<float>(best, {parts.one});")
            at_hand: AtHand = {rows.scores: ("score", parts.one), rows.shift: ("shift", "")}
            wanted = [("total[a] += {};", rows.terms, "0.0f"), (f"{parts.one} = {{}};", rows.weights, "0.0f")]
            lines += self._shifted()
            lines += self._each(at_hand, wanted)
        return ["#pragma unroll", f"for (int a = 0; a < {parts.counts[0]}; a++) {{", *(f"    {x}" for x in lines), "}"]

    def _each(self, at_hand: AtHand, wanted: Sequence[tuple[str, Node, str]], last: str = "") -> list[str]:
        """Statements for each column of the thread's in row `a`: `wanted` are (statement, value, what it is beyond the
        last column); `at_hand`: the values that have names, and as what."""
        e, parts, columns = self.elements, self.parts, self.product.columns
        e.at_hand = {n: name for n, (name, _) in at_hand.items()}
        matrix = self.first.result()
        e.start(matrix, 1)
        values = [(form, e.value(n, matrix.index), beyond) for form, n, beyond in wanted]
        ragged = columns % self.tiles.columns
        stores = [form.format(f"n_ < {columns} ? {text} : {beyond}" if ragged else text)
                  for form, text, beyond in values]  # fmt: skip
        place = f"start + {parts.n}"
        names = [f"const float {name} = {text};" for name, text in at_hand.values() if text]
        inside = [
            f"const {self.integer} n_ = {place}, n = min(n_, ({self.integer}){columns - 1});" if ragged
            else f"const {self.integer} n = {place};",
            *names, *of_neighbours(e, matrix, 1, stores), *([last] if last else []),
        ]  # fmt: skip
        return [
            "#pragma unroll",
            f"for (int b = 0; b < {parts.counts[1]}; b++)",
            "    #pragma unroll",
            f"    for (int v = 0; v < {parts.group}; v++) {{",
            *(f"        {line}" for line in inside),
            "    }",
        ]

    def _shifted(self) -> list[str]:
        """The maximum so far is that of the row; what was summed up below another one is scaled."""
        rows, parts, e = self.rows, self.parts, self.elements
        assert rows.top is not None and rows.shift is not None
        across = "".join(f" best = eqf_max<float>(best, __shfl_xor_sync(0xffffffffu, best, {x}));" for x in parts.lanes)
        e.start(self.first.result(), 1)
        values = []
        for name in ("top[a]", "best"):
            e.at_hand, e.inner_memo = {rows.top: name}, {}
            values.append(e.value(rows.shift, self.first.result().index))
        before, after = values
        distance = f"{before} - shift"
        if rows.scale is not None:
            distance = f"({distance}) * {e.value(rows.scale, ())}"
        return [
            across.strip(),
            *e.inner,
            f"const float shift = {after} == -{CUDA_INFINITY} ? 0.0f : {after};"
            "  // nothing is left of a row of -infinity",
            f"const float rescale = {rows.function}f({distance});",
            "top[a] = best;",
            "total[a] *= rescale;",
            *parts.scale,
        ]

    def _finish(self) -> list[str]:
        """The sums of whole rows, then what follows the second product."""
        e, rows, parts = self.elements, self.rows, self.parts
        second = self.schedule.second
        e.at_hand = {second.node: "sum"}
        lines = []
        if rows.top is not None:
            assert rows.total is not None
            e.at_hand |= {rows.top: "top[a]", rows.total: "total[a]"}
            added = "".join(f" total[a] += __shfl_xor_sync(0xffffffffu, total[a], {x});" for x in parts.lanes)
            whole = f" total[a] = {e.rounded(rows.total, 'total[a]')};"
            lines = ["#pragma unroll", f"for (int a = 0; a < {parts.counts[0]}; a++) {{{added}{whole} }}"]
        limits = {"m": second.product.rows, "n": second.product.columns}
        result = parts.result
        divided = f"{result.sums} / total[a]" if rows.divided else result.sums
        return [*lines, *epilogue(e, self.second.result(), result, self.schedule.width, limits, divided)]
