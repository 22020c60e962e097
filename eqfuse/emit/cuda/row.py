"""Kernels that reduce: one thread group per row of the space, several passes over its columns. In: a row or reduce
body. Out: the statements of one CUDA function, its block and grid. Next stop: `kernels.py`.

Which threads share a row is said by `kinds/rows.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.rows import rows_of
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape

ENOUGH_BLOCKS = 256  # fewer than this, and a reduction is split over several blocks


@dataclass(frozen=True)
class Code:
    """The inside of a function and how it is launched. `parts`: dtypes of the partial results that split blocks leave,
    one per reduction, `splits` × rows elements each; `groups`: how many counters they need. `resident`: blocks that
    registers should leave room for on a multiprocessor."""

    lines: list[str]
    grid: tuple[int, int]
    block: tuple[int, int]
    parts: tuple[np.dtype, ...]
    part_size: int
    groups: int
    resident: int = 1


@dataclass(frozen=True)
class Space:
    """The full iteration space, which axes are reduced, and the sizes of both halves."""

    shape: Shape
    axes: tuple[int, ...]

    def half(self, reduced: bool) -> list[int]:
        return [a for a in range(len(self.shape)) if (a - len(self.shape) in self.axes) is reduced]

    def extents(self, reduced: bool) -> Shape:
        return tuple(self.shape[a] for a in self.half(reduced))

    @property
    def reduced_shape(self) -> Shape:
        return tuple(1 if a - len(self.shape) in self.axes else n for a, n in enumerate(self.shape))

    def wide(self, reduced: bool) -> list[int]:
        return [a for a in self.half(reduced) if self.shape[a] != 1]


class RowElements(Elements):
    """Elements over `(row, col)`. What `hold` says is kept in registers (`held`) from one pass to the next: every value
    that a later one needs, those read from memory alone, or nothing. The rest is computed again."""

    def __init__(self, parameters: Parameters, indices: Indices, hold: str) -> None:
        super().__init__(parameters, indices)
        self.hold = hold
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
        if (n, index) not in self.done or not self._holds(n):
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

    def _holds(self, n: Node) -> bool:
        return self.hold == "values" or (self.hold == "reads" and self.parameters.pointer(n) is not None)


def space_of(body: Graph) -> Space:
    reductions = [n for n in body.nodes if row(n.op).role is Role.REDUCTION]
    found = {Space(n.args[0].shape, n.attrs[0]) for n in reductions}  # type: ignore[arg-type]
    if len(found) != 1:
        raise UnsupportedOp("a cuda row or reduce kernel has reductions over one set of axes of one space")
    return found.pop()


def levels(body: Graph) -> list[list[Node]]:
    """Reductions by the pass that can compute them: each needs the passes before it."""
    level: dict[Node, int] = {}
    passes: list[list[Node]] = []
    for n in body.nodes:
        level[n] = max((level[a] for a in n.args), default=0)
        if row(n.op).role is Role.REDUCTION:
            if level[n] == len(passes):
                passes.append([])
            passes[level[n]].append(n)
            level[n] += 1
    return passes


def emit(body: Graph, parameters: Parameters) -> Code:
    space = space_of(body)
    for hold in ("values", "reads", "nothing"):
        writer = _Writer(body, parameters, space, hold)
        code = writer.write()
        if writer.held_bytes() <= writer.threads.held:
            break
    return code


@dataclass(frozen=True)
class _Pass:
    """Statements once per row, then once per element, then once per row. Later passes add to `inner` what they want
    kept, so a pass becomes text only when all are made."""

    before: list[str]
    inner: list[str]
    after: list[str]


class _Writer:
    def __init__(self, body: Graph, parameters: Parameters, space: Space, hold: str) -> None:
        self.body, self.parameters, self.space = body, parameters, space
        self.threads = rows_of(space.shape, space.axes)
        self.layout, self.block, self.groups = self.threads.layout, self.threads.block, self.threads.groups
        self.rows, self.columns, self.stride = self.threads.rows, self.threads.columns, self.threads.stride
        self.passes = levels(body)
        self.elements = RowElements(parameters, self._indices(), hold)
        self.splits = self._splits()
        self.per_split = -(-self.columns // self.splits)
        self.items = -(-self.per_split // self.stride)

    def held_bytes(self) -> int:
        return sum(self.items * max(n.dtype.itemsize, np.dtype(np.float32).itemsize) for n, _ in self.elements.held)

    def _splits(self) -> int:
        """Split a lone pass over blocks when rows alone would leave the device idle."""
        full = any(self._is_full(o) for o in self.body.outputs)
        if len(self.passes) > 1 or full or self.groups >= ENOUGH_BLOCKS:
            return 1
        return max(1, min(ENOUGH_BLOCKS // self.groups, self.columns // (self.stride * 8)))

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

    def _is_full(self, n: Node) -> bool:
        return n.shape == self.space.shape and (self.columns > 1 or n.shape != self.space.reduced_shape)

    def write(self) -> Code:
        passes: list[_Pass] = []
        for number, reductions in enumerate(self.passes):
            passes.append(self._reducing_pass(number, reductions))
            self.elements.next_pass()
        passes.append(self._writing_pass())
        segments = [line for p in passes for line in (*p.before, *(self._loop(p.inner) if p.inner else ()), *p.after)]
        held = [
            f"{ops.computed(n.dtype)} {name}[{max(1, self.items)}];" for (n, _), name in self.elements.held.items()
        ]
        index = self.parameters.integer
        lane = "threadIdx.y" if self.layout == "column" else "threadIdx.x"
        group = f"({index})blockIdx.x" + {
            "column": " * 32 + threadIdx.x", "block": "", "warp": f" * {self.block[1]} + threadIdx.y",
        }[self.layout]  # fmt: skip
        last = f"min(first + {self.per_split}, ({index}){self.columns})" if self.splits > 1 else f"{self.columns}"
        head = [
            f"const {index} row_or_more = {group};",
            f"const bool live = row_or_more < {self.rows};",
            f"const {index} row = live ? row_or_more : {self.rows - 1};  // spare threads write nothing",
            f"const {index} first = {f'({index})blockIdx.y * {self.per_split}' if self.splits > 1 else '0'};",
            f"const {index} end = {last};",
            f"const int lane = {lane};",
        ]
        if self.layout != "warp":
            widest = max(r.dtype.itemsize for p in self.passes for r in p)
            word = {8: "unsigned long long", 16: "Vec<unsigned, 4>"}.get(widest, "unsigned")
            head.append(f"__shared__ {word} shared[{256 if self.layout == 'column' else 32}];")
        parts = tuple(ops.computed_dtype(r.dtype) for r in self.passes[0]) if self.splits > 1 else ()
        return Code(head + held + segments, (self.groups, self.splits), self.block, parts, self.splits * self.rows,
                    self.groups)  # fmt: skip

    def _loop(self, lines: list[str]) -> list[str]:
        unroll = f"#pragma unroll{'' if self.elements.hold != 'nothing' and self.items <= 64 else ' 4'}"
        index = self.parameters.integer
        turn = "k" if index == "int" else f"({index})k"
        return [
            unroll,
            f"for (int k = 0; k < {self.items}; k++) {{",
            f"    const {index} col = first + {turn} * {self.stride} + lane;",
            "    if (col < end) {",
            *(f"        {line}" for line in lines),
            "    }",
            "}",
        ]

    def _reducing_pass(self, number: int, reductions: list[Node]) -> _Pass:
        before, after, e = [], [], self.elements
        inner, outer = e.inner, e.outer
        for j, n in enumerate(reductions):
            how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
            kind, name = ops.computed(n.dtype), f"a{number}_{j}"
            value = e.value(n.args[0], self.full_index)
            if ops.computed(n.args[0].dtype) != kind:
                value = f"({kind}){value}"
            before.append(f"{kind} {name} = {how.identity};")
            inner.append(f"{name} = {how.step.format(a=name, b=value)};")
            after += self._combine(kind, name, how)
            e.results[n] = (name, self.reduced_index)
        joined = self._join_splits(reductions) if self.splits > 1 else []
        return _Pass(outer + before, inner, [*after, *joined, *self._rounded(reductions)])

    def _rounded(self, reductions: list[Node]) -> list[str]:
        """The results as exact as the program has them."""
        names = [(n, self.elements.results[n][0]) for n in reductions]
        return [f"{name} = {text};" for n, name in names if (text := self.elements.rounded(n, name)) != name]

    def _combine(self, kind: str, name: str, how: ops.Reduction) -> list[str]:
        step = how.step
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
        if kind.startswith("eqf_complex"):
            other = f"eqf_shuffle({name}, step)"
        if kind in ("bool", "signed char", "unsigned char", "short", "unsigned short"):
            other = f"({kind})__shfl_xor_sync(0xffffffffu, (int){name}, step)"
        joined = f"{kind} b = {other}; {name} = {step.format(a=name, b='b')};"
        lines = [f"for (int step = 16; step; step >>= 1) {{ {joined} }}"]
        if self.layout == "block":
            lines += [
                f"{{ {kind}* all = ({kind}*)shared;",
                f"  if (lane % 32 == 0) all[lane / 32] = {name};",
                "  __syncthreads();",
                f"  {name} = all[0];",
                f"  for (int j = 1; j < {self.block[0] // 32}; j++) {name} = {step.format(a=name, b='all[j]')};",
                "  __syncthreads(); }",
            ]
        return lines

    @property
    def leader(self) -> str:
        """One thread of each row."""
        return "live && lane == 0"

    def _join_splits(self, reductions: list[Node]) -> list[str]:
        """The block that arrives last adds up what the others left, in their order, so the bits never vary."""
        lines = [f"if ({self.leader}) {{"]
        for j in range(len(reductions)):
            lines.append(f"    parts{j}[(size_t)blockIdx.y * {self.rows} + row] = a0_{j};")
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
            read = f"__ldcg(&parts{j}[(size_t)j * {self.rows} + row])"
            if n.dtype.kind in "bc":
                read = f"({ops.computed(n.dtype)})parts{j}[(size_t)j * {self.rows} + row]"
            lines.append(f"a0_{j} = {how.identity};")
            lines.append(f"for (int j = 0; j < {self.splits}; j++) a0_{j} = {how.step.format(a=f'a0_{j}', b=read)};")
        return lines

    def _writing_pass(self) -> _Pass:
        e = self.elements
        inner, outer, singles = e.inner, e.outer, []
        for j, output in enumerate(self.body.outputs):
            full = self._is_full(output)
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
