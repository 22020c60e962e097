"""Tiled products with elementwise work before and after them. In: a contract body and its schedule. Out: the statements
of one CUDA function. Next stop: `cuda.emit_kernel`.

A block computes one tile of the result (`Tile` of `kinds/product.py`). Tiles of both operands come into one of two
buffers in shared memory while the other is multiplied (`multiply.py`; into three of `wgmma.py`): by asynchronous copies
of 16 bytes where tensor cores take them as they lie, else through registers; the prologue is computed on the way, the
epilogue on the finished sums. Blocks that share the terms of a tile join their sums before it (`split_products.py`).
`m`, `n`: row and column of the result; `k`: term of a sum; `i`: place in an array; with `_`, the first of several
neighbours.
"""

from __future__ import annotations

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Parameters
from eqfuse.emit.cuda.multiply import Multiply, multiply_on_cores, multiply_on_tensor_cores
from eqfuse.emit.cuda.operands import Matrix, places_of
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule, group_of
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.split_products import SplitProduct
from eqfuse.emit.cuda.tiles import Sums, epilogue, first_of, neighbour, of_neighbours, run_as_it_lies
from eqfuse.emit.cuda.wgmma import multiply_by_wgmma
from eqfuse.ir.graph import Graph
from eqfuse.kinds.product import WARP

WORDS = {4: "unsigned", 8: "uint2", 16: "uint4"}  # by bytes, of what is only moved: else 16-bit numbers are taken apart


def product_lines(schedule: ProductSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    return _Writer(parameters.body, parameters, schedule).write()


class _Writer:
    def __init__(self, body: Graph, parameters: Parameters, schedule: ProductSchedule) -> None:
        self.body, self.parameters, self.schedule, self.node = body, parameters, schedule, schedule.node
        self.product, self.tile, self.tensor = schedule.product, schedule.tile, schedule.tensor
        (self.threads, _) = schedule.block
        self.elements = Sums(parameters, {self.node: "sum"})
        self.integer = parameters.integer
        self.runs: dict[str, str] = {}  # C types of what threads read of operands that pass through registers
        self.limits = {"m": self.product.rows, "n": self.product.columns, "k": self.product.depth}
        self.extents = {"m": self.tile.rows, "n": self.tile.columns, "k": self.tile.depth}
        self.places = places_of(schedule)
        self.left, self.right = self.places.left(), self.places.right()
        self.multiply = self._multiply((self.left.fast == "k", self.right.fast == "k"))

    def write(self) -> list[str]:
        multiply = self.multiply
        operands = (("a", self.left, multiply.transposed[0]), ("b", self.right, multiply.transposed[1]))
        loads = [line for name, matrix, _ in operands for line in self._load(name, matrix)]
        keeps = [line for name, matrix, transposed in operands for line in self._keep(name, matrix, transposed)]
        result, width = self.places.result(), self.schedule.width
        ragged = {x: self.limits[x] for x in "mn" if self.limits[x] % self.extents[x]}
        finish = epilogue(self.elements, result, multiply, width, ragged, multiply.sums)
        down, across = (max(1, -(-self.limits[x] // self.extents[x])) for x in "mn")
        deep, (terms, begin, end) = self.tile.depth, self._terms()
        reached, ahead = f"{'begin + ' if terms else ''}step * {deep}", multiply.stages - 1
        joined = SplitProduct(self.schedule, multiply, ops.computing_type(self.node.dtype)).joined()
        return [
            *self._where(down, across),
            *terms,
            *multiply.declarations,
            *(f"{self.runs[name]} next_{name}[{self._turns(x)}];" for name, x, _ in operands if name in self.runs),
            *self.elements.outer,
            f"for ({self.integer} step = -{ahead}, ahead = {begin}; {reached} < {end}; step++, ahead += {deep}) {{",
            *(f"    {line}" for line in self._step(loads, keeps, end)),
            "}",
            *joined,
            *finish,
        ]

    def _step(self, loads: list[str], keeps: list[str], end: str) -> list[str]:
        """Multiplies one tile of either operand while threads ask for another, or, asynchronously, before they do."""
        multiply, copies = self.multiply, len(self.runs) < 2
        commit, wait = ["eqf_commit();"] * copies, [f"eqf_wait<{multiply.stages - 2}>();"] * copies
        multiplied = _within("if (step >= 0)", multiply.lines)
        if multiply.asynchronous:  # every step commits, were it no copies: groups are counted
            moved = [*multiplied, *_within(f"if (ahead < {end})", [*loads, *keeps]), *commit]
        else:
            asked, kept = (_within(f"if (ahead < {end})", lines) for lines in ([*loads, *commit], keeps))
            moved = [*asked, *multiplied, *(kept if keeps else [])]
        return [multiply.stage, *moved, *wait, *multiply.finish, "__syncthreads();"]

    def _multiply(self, transposed: tuple[bool, bool]) -> Multiply:
        if self.tile.by_wgmma:
            return multiply_by_wgmma(self.tile, self.schedule.operands[0].dtype, transposed)
        if self.tensor:
            return multiply_on_tensor_cores(self.tile, self.schedule.operands[0].dtype, transposed)
        return multiply_on_cores(self.tile, self.node.dtype, group_of(self.node, self.tensor))

    def _where(self, down: int, across: int) -> list[str]:
        """The entry of the batch, the first row and column of this block's tile."""
        lines = [f"const {self.integer} z = blockIdx.x / {down * across};"] if self.product.batch > 1 else []
        wide = "" if self.integer == "int" else f"({self.integer})"
        high = self.schedule.high
        across_text = "within / high" if not wide else "(within / high)"
        return [
            *lines,
            f"const int tile = blockIdx.x % {down * across}, band = tile / {high * across} * {high};",
            f"const int high = min({down} - band, {high}), within = tile % {high * across};",
            f"const {self.integer} row = {wide}(band + within % high) * {self.tile.rows};",
            f"const {self.integer} column = {wide}{across_text} * {self.tile.columns};",
        ]

    def _terms(self) -> tuple[list[str], str, str]:
        """What says which terms this block takes, the first of them and the end."""
        depth, part = self.product.depth, self.schedule.tiling.part
        if self.schedule.tiling.splits == 1:
            return [], "0", f"{depth}"
        wide = "" if self.integer == "int" else f"({self.integer})"
        limits = f"begin = part * {wide}{part}, end = min(begin + {part}, {wide}{depth})"
        return ["int part = blockIdx.y;", f"const {self.integer} {limits};"], "begin", "end"

    def _turns(self, matrix: Matrix) -> int:
        return self.extents[matrix.slow] * self.extents[matrix.fast] // matrix.neighbours // self.threads

    def _each(self, matrix: Matrix, body: list[str]) -> list[str]:
        """`body` for each run of neighbours that this thread moves: `slow`, `fast` in the tile, number `u`. Where it
        moves several of one `slow`, or of one `fast`, the text says so: compilers do not see it in a division."""
        width, threads, turns = matrix.neighbours, self.threads, self._turns(matrix)
        across = self.extents[matrix.fast] // width
        each = f" * {width}" if width > 1 else ""
        if width == 1 and across % WARP == 0:  # of one `slow`, as what it takes to find an element is shared
            times = across // WARP
            slow = f"threadIdx.x / {WARP} * {turns // times} + u / {times}"
            where = [f"const int slow = {slow}, fast = threadIdx.x % {WARP} + u % {times} * {WARP};"]
        elif threads % across == 0:
            slow = f"threadIdx.x / {across} + u * {threads // across}"
            where = [f"const int slow = {slow}, fast = threadIdx.x % {across}{each};"]
        else:
            where = [
                f"const int g = threadIdx.x + u * {threads};",
                f"const int slow = g / {across}, fast = g % {across}{each};",
            ]
        return [
            "#pragma unroll",
            f"for (int u = 0; u < {turns}; u++) {{",
            *(f"    {line}" for line in (*where, *body)),
            "}",
        ]

    def _load(self, name: str, matrix: Matrix) -> list[str]:
        """The operand's next tile into `next_…`; zeros outside of the matrix."""
        width, e, into = matrix.neighbours, self.elements, f"next_{name}[u]"
        e.start(matrix, width)
        text = e.stored(matrix.node, matrix.index) if self.tensor else e.value(matrix.node, matrix.index)
        start = {"m": "row", "n": "column", "k": "ahead"}
        s, f = matrix.slow, matrix.fast
        first, lies = first_of(f, width), run_as_it_lies(e, matrix, text) if self.tensor else ""
        places = f"const {self.integer} {s} = {start[s]} + slow, {first} = {start[f]} + fast;"
        if lies and width * matrix.node.dtype.itemsize == ACCESS:
            inside, place = " & ".join(self._limits(matrix)) or "true", self.multiply.place(name, "slow", "fast")
            return self._each(matrix, [places, f"eqf_copy_async(&{place}, {lies}, {inside});"])
        self.runs[name] = WORDS[width * matrix.node.dtype.itemsize] if lies else f"Vec<{self.multiply.stored}, {width}>"
        if lies:
            lines = [f"{into} = *(const {self.runs[name]}*)({lies});"]
        else:
            lines = of_neighbours(e, matrix, width, [f"{into}.v[{neighbour(width)}] = {text};"])
        if limits := self._limits(matrix):
            lines = [f"if ({' & '.join(limits)}) {{", *(f"    {line}" for line in lines), "}"]
        return self._each(matrix, [f"{into} = {{}};", places, *lines])

    def _limits(self, matrix: Matrix) -> list[str]:
        """What holds for elements of the matrix alone; a whole condition, without branches between loads."""
        first = first_of(matrix.fast, matrix.neighbours)
        names = ((matrix.slow, matrix.slow), (matrix.fast, first))
        limits = [f"({x} < {self.limits[n]})" for n, x in names if self.limits[n] % self.extents[n]]
        return limits + [f"({condition})" for condition in matrix.valid]

    def _keep(self, name: str, matrix: Matrix, transposed: bool) -> list[str]:
        """`next_…` into the buffer that is filled."""
        if name not in self.runs:
            return []
        width, place = matrix.neighbours, self.multiply.place
        along = transposed == (matrix.fast == "k")
        if width == 1:
            element = place(name, "slow", "fast") if along else place(name, "fast", "slow")
            return self._each(matrix, [f"{element} = next_{name}[u].v[0];"])
        if along:
            return self._each(matrix, [f"*({self.runs[name]}*)&{place(name, 'slow', 'fast')} = next_{name}[u];"])
        return self._each(matrix, [
            "#pragma unroll",
            f"for (int v = 0; v < {width}; v++) {place(name, 'fast + v', 'slow')} = next_{name}[u].v[v];",
        ])  # fmt: skip


def _within(condition: str, lines: list[str]) -> list[str]:
    return [f"{condition} {{", *(f"    {line}" for line in lines), "}"]
