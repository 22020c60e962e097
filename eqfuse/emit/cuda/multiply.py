"""The inner loop of a tiled product: one tile of terms from shared memory into the sums of a thread or a warp.

In: a `Tile`, which way round its operands lie in shared memory, their dtype. Out: `Multiply`, lines of C.
Next stop: `contract.py`, which fills shared memory before and reads the sums after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqfuse.emit.cuda import ops
from eqfuse.kinds.product import Tile

BANKED = 16  # bytes that each row of shared memory is longer than its data, so that columns lie in different banks


@dataclass(frozen=True)
class Multiply:
    """`stored`: the C type in shared memory. Buffers `a` and `b` are [2][terms][rows or columns], or the other way
    round where `transposed`. The sums of a thread are `sums`, over a < `counts[0]`, b < `counts[1]`, v < `group`: those
    of row `m` and of `group` columns from `n` on. `stages`: buffers of each operand, one of which is multiplied while
    the others are filled. `asynchronous`: the lines begin to multiply, and `finish` awaits it, before threads wait for
    each other."""

    stored: str
    transposed: tuple[bool, bool]
    declarations: list[str]
    lines: list[str]
    counts: tuple[int, int]
    group: int
    m: str
    n: str
    sums: str
    stages: int = 2
    asynchronous: bool = False
    finish: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        """Which buffer is multiplied in this step; `next`, where `place` names it: which is filled."""
        return "const int now = step & 1;"

    def place(self, name: str, slow: str, fast: str) -> str:
        """Where the next tile of operand `name` has an element."""
        return f"{name}[now ^ 1][{slow}][{fast}]"


def multiply_on_cores(tile: Tile, dtype: np.dtype, group: int) -> Multiply:
    """Each thread multiplies a column of `a` by a row of `b`, both in registers, term by term."""
    kind = ops.computing_type(dtype)
    rows, columns = tile.part
    across, down = tile.columns // columns, tile.rows // rows
    vector = f"Vec<{kind}, {group}>"
    declarations = [
        f"__shared__ __align__(16) {kind} a[2][{tile.depth}][{tile.rows + group}];",
        f"__shared__ __align__(16) {kind} b[2][{tile.depth}][{tile.columns + group}];",
        f"const int right = threadIdx.x % {across}, down = threadIdx.x / {across};",
        f"{kind} sums[{rows}][{columns}] = {{}};",
    ]
    lines = [
        "#pragma unroll",
        f"for (int k = 0; k < {tile.depth}; k++) {{",
        f"    {vector} x[{rows // group}], y[{columns // group}];",
        "    #pragma unroll",
        f"    for (int j = 0; j < {rows // group}; j++) "
        f"x[j] = *(const {vector}*)&a[now][k][(j * {down} + down) * {group}];",
        "    #pragma unroll",
        f"    for (int j = 0; j < {columns // group}; j++) "
        f"y[j] = *(const {vector}*)&b[now][k][(j * {across} + right) * {group}];",
        "    #pragma unroll",
        f"    for (int j = 0; j < {rows}; j++)",
        "        #pragma unroll",
        f"        for (int l = 0; l < {columns}; l++) "
        f"sums[j][l] = fma(x[j / {group}].v[j % {group}], y[l / {group}].v[l % {group}], sums[j][l]);",
        "}",
    ]
    return Multiply(
        kind, (False, False), declarations, lines, (rows, columns // group), group,
        f"(a / {group} * {down} + down) * {group} + a % {group}", f"(b * {across} + right) * {group}",
        f"sums[a][b * {group} + v]",
    )  # fmt: skip


def multiply_on_tensor_cores(tile: Tile, dtype: np.dtype, transposed: tuple[bool, bool]) -> Multiply:
    """Each warp multiplies fragments of 16 x 16 by 16 x 8 by `mma.m16n8k16`, whose layouts PTX defines: a lane holds
    the sums of rows lane / 4 and 8 further, columns 2 (lane % 4) and the next. `ldmatrix` takes four 8 x 8 matrices
    from either way round."""
    kind = ops.stored(dtype)
    pad = BANKED // dtype.itemsize
    rows, columns = tile.part
    across = tile.columns // columns

    def buffer(name: str, extent: int, swapped: bool) -> str:
        slow, fast = (extent, tile.depth) if swapped else (tile.depth, extent)
        return f"__shared__ __align__(16) {kind} {name}[2][{slow}][{fast + pad}];"

    declarations = [
        buffer("a", tile.rows, transposed[0]),
        buffer("b", tile.columns, transposed[1]),
        f"const int lane = threadIdx.x % 32, right = threadIdx.x / 32 % {across} * {columns}, "
        f"down = threadIdx.x / {32 * across} * {rows};",
        f"float sums[{rows // 16}][{columns // 8}][4] = {{}};",
    ]
    # lanes 8 j to 8 j + 7 give the rows of matrix j: those of `a` in the order (rows, terms) 0 0, 8 0, 0 8, 8 8;
    # those of `b` in the order (columns, terms) 0 0, 0 8, 8 0, 8 8
    low, high = "lane % 16", "lane / 16 * 8"
    mixed, middle = "lane / 16 * 8 + lane % 8", "lane / 8 % 2 * 8"
    across_a, across_b = (str(not t).lower() for t in transposed)
    a = f"down + j * 16 + {low}][k + {high}" if transposed[0] else f"k + {mixed}][down + j * 16 + {middle}"
    b = f"right + j * 16 + {mixed}][k + {middle}" if transposed[1] else f"k + {low}][right + j * 16 + {high}"
    lines = [
        "#pragma unroll",
        f"for (int k = 0; k < {tile.depth}; k += 16) {{",
        f"    unsigned x[{rows // 16}][4], y[{columns // 16}][4];",
        "    #pragma unroll",
        f"    for (int j = 0; j < {rows // 16}; j++) eqf_ldmatrix<{across_a}>(x[j], &a[now][{a}]);",
        "    #pragma unroll",
        f"    for (int j = 0; j < {columns // 16}; j++) eqf_ldmatrix<{across_b}>(y[j], &b[now][{b}]);",
        "    #pragma unroll",
        f"    for (int j = 0; j < {rows // 16}; j++)",
        "        #pragma unroll",
        f"        for (int l = 0; l < {columns // 8}; l++) eqf_mma<{kind}>(sums[j][l], x[j], &y[l / 2][l % 2 * 2]);",
        "}",
    ]
    return Multiply(
        kind, transposed, declarations, lines, (rows // 8, columns // 8), 2,
        "down + a * 8 + lane / 4", "right + b * 8 + lane % 4 * 2", "sums[a / 2][b][a % 2 * 2 + v]",
    )  # fmt: skip
