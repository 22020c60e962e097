"""Running values along rows: each thread scans what it holds, threads pass on their sums, and so do blocks that share a
row, each of which waits for all before it. What is added is added in one order, whoever comes first.

In: the schedule of a kernel that scans. Out: statements. Next stop: `row.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.row_elements import RowElements
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.ir.graph import Node


class Scans:
    """`combine`: the statements that join what threads have of a row, by the name of that and its reduction. The
    values of a scan stay in an array of each thread; block `tile` takes part `tile / groups` of its rows."""

    def __init__(
        self, schedule: RowsSchedule, elements: RowElements, combine: Callable[[str, ops.Reduction], list[str]]
    ) -> None:
        self.schedule, self.elements, self.combine = schedule, elements, combine
        self.rows, self.splits, self.width = schedule.rows, schedule.splits, schedule.rows.width
        self.turns = schedule.turns
        self.names = {n: f"scanned{j}" for j, n in enumerate(schedule.scans)}
        self.shares = bool(self.names) and self.splits > 1
        self.by_columns = self.rows.side_by_side
        self.lanes = self.rows.block[1] if self.by_columns else min(32, self.rows.block[0])  # that scan at once

    def begun(self) -> list[str]:
        """Which part of which rows this block takes: of earlier parts, earlier blocks. What it marks it as."""
        if not self.shares:
            return []
        return [
            "__shared__ unsigned begun[2];",
            "if (threadIdx.x == 0 && threadIdx.y == 0) {",
            f"    begun[0] = atomicInc(arrived, {self.rows.groups * self.splits - 1}u);",
            "    begun[1] = arrived[1 + begun[0]] ^ 1u;  // each launch turns all marks over",
            "}",
            "__syncthreads();",
            "const unsigned tile = begun[0], done = begun[1];",
            f"const unsigned part = tile / {self.rows.groups}, group = tile % {self.rows.groups};",
        ]

    @property
    def shared(self) -> int:
        """How many values pass through shared memory at once."""
        threads = math.prod(self.rows.block)
        return threads * self.width if self.by_columns else 32 + self.turns * threads // 32

    def before(self, n: Node) -> list[str]:
        """What stands where the row has ended."""
        if self.schedule.whole:
            return []
        items, identity = self.schedule.items, ops.scanned_reduction(n).identity
        return ["#pragma unroll", f"for (int k = 0; k < {items}; k++) {self.names[n]}[k] = {identity};"]

    def step(self, n: Node, value: str) -> str:
        """Adds an element to those of its thread before it, as far as they lie side by side."""
        how, name, place = ops.scanned_reduction(n), self.names[n], self.elements.place
        value = how.begun.format(value=value)
        if self.by_columns:
            first, earlier = "k", f"{name}[{place} - {self.width}]"
        elif self.width > 1:
            first, earlier = "v", f"{name}[{place} - 1]"
        else:
            return f"{name}[{place}] = {value};"
        return f"{name}[{place}] = {first} ? {how.step.format(a=earlier, b=value)} : {value};"

    def after(self, scans: Sequence[Node], more: bool) -> list[str]:
        """Adds what stands before each thread's elements to them. `more`: another pass needs the shared memory."""
        scan = self._columns if self.by_columns else self._warp if self.rows.layout == "warp" else self._block
        all_lines = []
        for n in scans:
            lines = scan(n, ops.scanned_reduction(n))
            lines += ["__syncthreads();"] * (scan != self._warp and (more or n is not scans[-1]))
            all_lines += ["{", *(f"    {line}" for line in lines), "}"]
        return all_lines

    def _warp(self, n: Node, how: ops.Reduction) -> list[str]:
        iteration = [
            *self._scanned_lanes(how, f"{self.names[n]}[k * {self.width} + {self.width - 1}]"),
            f"{how.kind} before = {how.step.format(a='sum', b='own')};",
            *self._added(n, how, "before"),
            f"sum = {how.step.format(a='sum', b=self._from(how, 'all', self.lanes - 1))};",
        ]
        return [f"{how.kind} sum = {how.identity};", *self._each_turn(iteration)]

    def _block(self, n: Node, how: ops.Reduction) -> list[str]:
        warps, lane = self.rows.block[0] // 32, "lane % 32"
        place = f"every[k * {warps} + lane / 32"
        left = [
            *self._scanned_lanes(how, f"{self.names[n]}[k * {self.width} + {self.width - 1}]", lane),
            "mine[k] = own;",
            f"if ({lane} == 31) {place}] = all;",
        ]
        warp = [
            f"{how.kind} value = {lane} < {warps} ? every[k * {warps} + {lane}] : {how.identity};",
            *self._scanned_lanes(how, "value", lane),
            f"if ({lane} < {warps}) every[k * {warps} + {lane}] = all;",
        ]
        last = f"every[k * {warps} + {warps - 1}]"
        iteration = [
            f"{how.kind} before = lane < 32 ? sum : {how.step.format(a='sum', b=f'{place} - 1]')};",
            f"before = {how.step.format(a='before', b='mine[k]')};",
            *self._added(n, how, "before"),
            f"sum = {how.step.format(a='sum', b=last)};",
        ]
        whole = [f"total = {how.step.format(a='total', b=last)};"]
        return [
            f"{how.kind}* every = ({how.kind}*)(shared + 32);  // behind what joins the parts",
            f"{how.kind} mine[{self.turns}];",
            *self._each_turn(left),
            "__syncthreads();",
            f"for (int k = lane / 32; k < {self.turns}; k += {warps}) {{", *(f"    {line}" for line in warp), "}",
            "__syncthreads();",
            f"{how.kind} sum = {how.identity};",
            *([f"{how.kind} total = {how.identity};", *self._each_turn(whole), *self._earlier_parts(n, how)]
              if self.splits > 1 else []),
            *self._each_turn(iteration),
        ]  # fmt: skip

    def _columns(self, n: Node, how: ops.Reduction) -> list[str]:
        name, w, index = self.names[n], self.width, self.elements.row_index
        across = self.rows.block[0]
        vector = f"Vec<{how.kind}, {w}>"
        joined = [
            f"if (j == lane) before{index} = total{index};",
            f"total{index} = {how.step.format(a=f'total{index}', b='other.v[v]' if index else 'other.v[0]')};",
        ]
        added = [f"before{index} = {how.step.format(a=f'sum{index}', b=f'before{index}')};"] if self.splits > 1 else []
        each = self._over([f"{self._register} = {self._kept(n, how, f'before{index}', self._register)};"])
        return [
            f"{vector}* every = ({vector}*)shared;",
            f"{vector} mine;",
            *self._over([f"mine.v[{'v' if index else 0}] = {name}[{(self.turns - 1) * w}{' + v' if index else ''}];"]),
            f"every[lane * {across} + threadIdx.x] = mine;",
            "__syncthreads();",
            *[f"{how.kind} {x}{f'[{w}]' if index else ''};" for x in ("before", "total", *["sum"] * (self.splits > 1))],
            *self._over([f"total{index} = {how.identity};"]),
            "#pragma unroll 4",
            f"for (int j = 0; j < {self.lanes}; j++) {{",
            f"    const {vector} other = every[j * {across} + threadIdx.x];",
            *(f"    {line}" for line in self._over(joined)),
            "}",
            *([*self._over([f"sum{index} = {how.identity};"]), *self._earlier_parts(n, how), *self._over(added)]
              if self.splits > 1 else []),
            *self._each_turn([line.replace("h?", name) for line in each]),
        ]  # fmt: skip

    @property
    def _register(self) -> str:
        return f"h?[k * {self.width}{' + v' if self.elements.row_index else ''}]"

    def _earlier_parts(self, n: Node, how: ops.Reduction) -> list[str]:
        """Leaves the `total` of this part for later ones, and joins those of all parts before it in `sum`."""
        number, groups, index = self.schedule.scans.index(n), self.rows.groups, self.elements.row_index
        kind = f"Several<{how.kind}, {self.width}>" if index else how.kind
        row = "row_" if index else "row"
        mark = f"arrived + {1 + number * groups * self.splits}"

        def place(part: str) -> str:
            return f"({kind}*)(parts{number} + ((size_t){part} * {self.rows.rows} + {row}))"

        left = [*([f"{kind} left;", *self._over(["left.v[v] = total[v];"])] if index else []),
                f"*{place('part')} = {'left' if index else 'total'};"]  # fmt: skip
        step = f"sum{index} = {how.step.format(a=f'sum{index}', b='earlier.v[v]' if index else 'earlier')};"
        return [
            "if (live && lane == 0) {", *(f"    {line}" for line in left), "}",
            *(["__syncthreads();"] if self.by_columns else []),  # else thread 0 has left what it marks
            "if (threadIdx.x == 0 && threadIdx.y == 0) {",
            "    __threadfence();",
            f"    atomicExch({mark} + tile, done);",
            "}",
            f"for (unsigned j = lane; j < part; j += {self.rows.stride}) {{",
            f"    while (*(volatile unsigned*)({mark} + j * {groups} + group) != done) __nanosleep(40);",
            "    __threadfence();",
            f"    const {kind} earlier = eqf_fetch({place('j')});",
            *(f"    {line}" for line in self._over([step])),
            "}",
            *self.combine(f"sum{index}", how),
        ]  # fmt: skip

    def _scanned_lanes(self, how: ops.Reduction, value: str, lane: str = "lane") -> list[str]:
        """`all`: what the lanes up to this one have together; `own`: what those before it have."""
        other = self._up(how, "all", "step")
        return [
            f"{how.kind} all = {value};",
            "#pragma unroll",
            f"for (int step = 1; step < {self.lanes}; step <<= 1) {{",
            f"    const {how.kind} other = {other};",
            f"    if ({lane} >= step) all = {how.step.format(a='other', b='all')};",
            "}",
            f"{how.kind} own = {self._up(how, 'all', '1')};",
            f"if ({lane} == 0) own = {how.identity};",
        ]

    def _up(self, how: ops.Reduction, name: str, by: str) -> str:
        return self._shuffled(how, f"__shfl_up_sync(0xffffffffu, {{}}, {by}, {self.lanes})", name)

    def _from(self, how: ops.Reduction, name: str, lane: int) -> str:
        return self._shuffled(how, f"__shfl_sync(0xffffffffu, {{}}, {lane}, {self.lanes})", name)

    @staticmethod
    def _shuffled(how: ops.Reduction, call: str, name: str) -> str:
        small = how.kind in ("bool", "signed char", "unsigned char", "short", "unsigned short")
        return f"({how.kind}){call.format(f'(int){name}')}" if small else call.format(name)

    def _added(self, n: Node, how: ops.Reduction, before: str) -> list[str]:
        place = f"{self.names[n]}[k * {self.width}{' + i' if self.width > 1 else ''}]"
        line = f"{place} = {self._kept(n, how, before, place)};"
        return ["#pragma unroll", f"for (int i = 0; i < {self.width}; i++) {line}"] if self.width > 1 else [line]

    def _kept(self, n: Node, how: ops.Reduction, before: str, value: str) -> str:
        return self.elements.rounded(n, how.step.format(a=before, b=value))

    def _over(self, lines: list[str]) -> list[str]:
        """`lines`, for each of the rows side by side."""
        if not self.elements.row_index or not lines:
            return lines
        return ["#pragma unroll", f"for (int v = 0; v < {self.width}; v++) {{", *(f"    {x}" for x in lines), "}"]

    def _each_turn(self, lines: list[str]) -> list[str]:
        return ["#pragma unroll", f"for (int k = 0; k < {self.turns}; k++) {{", *(f"    {x}" for x in lines), "}"]
