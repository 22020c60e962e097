"""Kernels that reduce: one thread group per row of the space, several passes over its columns. In: a row or reduce
body and its schedule. Out: the statements of one CUDA function. Next stop: `cuda.emit_kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.scheduling.passes import values_behind
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role, row


class RowElements(Elements):
    """Elements over `(row, col)`. The values `kept` stay in registers (`held`) from one pass to the next, the rest is
    computed again."""

    def __init__(self, parameters: Parameters, indices: Indices, kept: frozenset[Node]) -> None:
        super().__init__(parameters, indices)
        self.kept = kept
        self.results: dict[Node, tuple[str, Index]] = {}
        self.done: dict[tuple[Node, Index], tuple[str, list[str]]] = {}
        self.held: dict[tuple[Node, Index], str] = {}

    def next_pass(self) -> None:
        for key, name in self.inner_memo.items():
            self.done.setdefault(key, (name, self.inner))
        self.inner_memo = {}
        self.inner, self.outer = [], []
        self.short_here = {name for name in self.short_here if name.startswith("s")}

    def earlier(self, n: Node, index: Index) -> str | None:
        if row(n.op).role is Role.REDUCTION:
            name, at = self.results[n]
            if at != index:
                raise UnsupportedOp(f"the cuda target cannot read {n.op} of another row")
            return name
        if n not in self.kept or (n, index) not in self.done:
            return None
        if (n, index) not in self.held:
            name, lines = self.done[n, index]
            self.held[n, index] = f"h{len(self.held)}"
            lines.append(f"h{len(self.held) - 1}[k] = {name};")
        name = f"t{self.count}"
        self.count += 1
        self.inner.append(f"{ops.computed(n.dtype)} {name} = {self.held[n, index]}[k];")
        self.inner_memo[n, index] = name
        return name


def emit(schedule: RowsSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    return _Writer(parameters.body, parameters, schedule).write()


@dataclass(frozen=True)
class _Pass:
    """Statements once per row, then once per element, then once per row. Later passes add to `inner` what they want
    kept, so a pass becomes text only when all are made."""

    before: list[str]
    inner: list[str]
    after: list[str]


class _Writer:
    def __init__(self, body: Graph, parameters: Parameters, schedule: RowsSchedule) -> None:
        self.body, self.parameters, self.schedule, self.space = body, parameters, schedule, schedule.space
        rows = schedule.rows
        self.layout, self.block, self.rows, self.columns = rows.layout, rows.block, rows.rows, rows.columns
        self.splits = schedule.splits
        self.elements = RowElements(parameters, self._indices(), values_behind(schedule.held))

    def _indices(self) -> Indices:
        indices = Indices()
        shape, kept, reduced = self.space.shape, self.space.wide(False), self.space.wide(True)
        self.at = [""] * len(shape)
        for name, half in (("row", False), ("col", True)):
            for a, text in zip(self.space.half(half), indices.split(name, self.space.extents(half)), strict=True):
                self.at[a] = text
        full = tuple(self.at)
        if not kept or not reduced:
            indices.know(full, shape, "col" if reduced else "row")
        elif kept[-1] < reduced[0]:
            indices.know(full, shape, f"(row * {self.columns} + col)")
        elif reduced[-1] < kept[0]:
            indices.know(full, shape, f"(col * {self.rows} + row)")
        self.full_index = full
        self.reduced_index = tuple("0" if n == 1 else t for t, n in zip(full, self.space.reduced_shape, strict=True))
        return indices

    def write(self) -> list[str]:
        passes: list[_Pass] = []
        for number, reductions in enumerate(self.schedule.reductions):
            passes.append(self._reducing_pass(number, reductions))
            self.elements.next_pass()
        passes.append(self._writing_pass())
        segments = [line for p in passes for line in (*p.before, *(self._loop(p.inner) if p.inner else ()), *p.after)]
        items = max(1, self.schedule.items)
        held = [f"{ops.computed(n.dtype)} {name}[{items}];" for (n, _), name in self.elements.held.items()]
        index = self.parameters.integer
        lane = "threadIdx.y" if self.layout == "column" else "threadIdx.x"
        group = f"({index})blockIdx.x" + {
            "column": " * 32 + threadIdx.x", "block": "", "warp": f" * {self.block[1]} + threadIdx.y",
        }[self.layout]  # fmt: skip
        part = self.schedule.per_split
        last = f"min(first + {part}, ({index}){self.columns})" if self.splits > 1 else f"{self.columns}"
        head = [
            f"const {index} row_or_more = {group};",
            f"const bool live = row_or_more < {self.rows};",
            f"const {index} row = live ? row_or_more : {self.rows - 1};  // spare threads write nothing",
            f"const {index} first = {f'({index})blockIdx.y * {part}' if self.splits > 1 else '0'};",
            f"const {index} end = {last};",
            f"const int lane = {lane};",
        ]
        if self.layout != "warp":
            every = [r for level in self.schedule.reductions for r in level]
            widest = max(16 if r.op in ops.PLACES else r.dtype.itemsize for r in every)
            word = {8: "unsigned long long", 16: "Vec<unsigned, 4>"}.get(widest, "unsigned")
            head.append(f"__shared__ {word} shared[{256 if self.layout == 'column' else 32}];")
        return head + held + segments

    def _loop(self, lines: list[str]) -> list[str]:
        schedule = self.schedule
        unroll = f"#pragma unroll{'' if schedule.unrolled else ' 4'}"
        index = self.parameters.integer
        turn = "k" if index == "int" else f"({index})k"
        if not schedule.whole:
            lines = ["if (col < end) {", *(f"    {line}" for line in lines), "}"]
        return [
            unroll,
            f"for (int k = 0; k < {schedule.items}; k++) {{",
            f"    const {index} col = first + {turn} * {schedule.rows.stride} + lane;",
            *(f"    {line}" for line in lines),
            "}",
        ]

    def _reducing_pass(self, number: int, reductions: Sequence[Node]) -> _Pass:
        before, after, e = [], [], self.elements
        inner, outer = e.inner, e.outer
        for j, n in enumerate(reductions):
            how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
            name, value = f"a{number}_{j}", e.value(n.args[0], self.full_index)
            before.append(f"{how.kind} {name} = {how.identity};")
            inner.append(f"{name} = {how.step.format(a=name, b=how.begun.format(value=value, at='col'))};")
            after += self._combine(name, how)
            e.results[n] = (how.result.format(a=name), self.reduced_index)
        joined = self._join_splits(reductions) if self.splits > 1 else []
        return _Pass(outer + before, inner, [*after, *joined, *self._rounded(reductions)])

    def _rounded(self, reductions: Sequence[Node]) -> list[str]:
        """The results as exact as the program has them."""
        names = [(n, self.elements.results[n][0]) for n in reductions]
        return [f"{name} = {text};" for n, name in names if (text := self.elements.rounded(n, name)) != name]

    def _combine(self, name: str, how: ops.Reduction) -> list[str]:
        kind, step = how.kind, how.step
        if self.layout == "column":
            return [
                f"{{ {kind}* all = ({kind}*)shared;",
                f"  all[lane * 32 + threadIdx.x] = {name};",
                "  __syncthreads();",
                f"  {name} = all[threadIdx.x];",
                f"  for (int j = 1; j < 8; j++) {name} = {step.format(a=name, b='all[j * 32 + threadIdx.x]')};",
                "  __syncthreads(); }",
            ]
        other = f"__shfl_xor_sync(0xffffffffu, {name}, step)"
        if kind.startswith("eqf_"):
            other = f"eqf_shuffle({name}, step)"
        if kind in ("bool", "signed char", "unsigned char", "short", "unsigned short"):
            other = f"({kind})__shfl_xor_sync(0xffffffffu, (int){name}, step)"
        joined = f"{kind} b = {other}; {name} = {step.format(a=name, b='b')};"
        lines = [f"for (int step = 16; step; step >>= 1) {{ {joined} }}"]
        if self.layout == "block":
            warps = self.block[0] // 32  # a power of two
            lines += [
                f"{{ {kind}* all = ({kind}*)shared;",
                f"  if (lane % 32 == 0) all[lane / 32] = {name};",
                "  __syncthreads();",
                f"  {name} = all[lane % {warps}];",
                f"  for (int step = {warps // 2}; step; step >>= 1) {{ {joined} }}",
                "  __syncthreads(); }",
            ]
        return lines

    @property
    def leader(self) -> str:
        """One thread of each row."""
        return "live && lane == 0"

    def _join_splits(self, reductions: Sequence[Node]) -> list[str]:
        """The block that arrives last adds up what the others left, in their order, so the bits never vary."""
        lines = [f"if ({self.leader}) {{"]
        for j, n in enumerate(reductions):
            lines.append(f"    {_parts(j, n)}[(size_t)blockIdx.y * {self.rows} + row] = a0_{j};")
        lines += [
            "}",
            "__threadfence();",
            "__shared__ bool last;",
            "__syncthreads();",
            "if (threadIdx.x == 0 && threadIdx.y == 0) "
            f"last = atomicInc(&arrived[blockIdx.x], {self.splits - 1}u) == {self.splits - 1}u;",
            "__syncthreads();",
            "if (!last) return;",
            "__threadfence();",
        ]
        for j, n in enumerate(reductions):
            how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
            read = f"{_parts(j, n)}[(size_t)j * {self.rows} + row]"
            read = f"({how.kind}){read}" if n.dtype.kind in "bc" or n.op in ops.PLACES else f"__ldcg(&{read})"
            lines.append(f"a0_{j} = {how.identity};")
            lines.append(f"for (int j = 0; j < {self.splits}; j++) a0_{j} = {how.step.format(a=f'a0_{j}', b=read)};")
        return lines

    def _writing_pass(self) -> _Pass:
        e = self.elements
        inner, outer, singles = e.inner, e.outer, []
        for j, output in enumerate(self.body.outputs):
            full = self.space.is_full(output)
            if not full and output.shape != self.space.reduced_shape:
                raise UnsupportedOp(f"a cuda row kernel writes shapes {self.space.shape} or {self.space.reduced_shape}")
            index = self.full_index if full else self.reduced_index
            text = ops.store(output.dtype, e.value(output, index))
            statement = f"w{j}[{e.indices.join(index, output.shape)}] = {text};"
            if full:
                inner.append(f"if (live) {statement}" if self.layout != "block" else statement)
            else:
                singles.append(f"if ({self.leader}) {statement}")
        return _Pass(outer, inner, singles)


def _parts(j: int, n: Node) -> str:
    """The array of what blocks leave of the reduction `n`."""
    if n.op not in ops.PLACES:
        return f"parts{j}"
    return f"(({ops.reduction(n.op, n.args[0].dtype, n.dtype).kind}*)parts{j})"
