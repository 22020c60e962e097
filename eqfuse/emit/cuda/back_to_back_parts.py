"""The inner products of `back_to_back.py`: of a block's rows and a tile of columns, and of that and the last operand.

In: a `BackToBackSchedule`, which way round the operands lie in shared memory. Out: `BackToBackParts`, lines of C.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.multiply import BANKED, Multiply
from eqfuse.emit.cuda.scheduling.back_to_back import BackToBackSchedule
from eqfuse.ir.graph import Node

Transposed = dict[str, bool]


@dataclass(frozen=True)
class BackToBackParts:
    """In shared memory, as `stored`, lie the block's `qs` [rows][terms], and as `buffers` tiles `ks` [terms][columns]
    and `vs` [columns][results], each the other way round where `transposed`. `hold`: what follows when `qs` has come. A
    thread has `counts` rows `a` and groups `b` of `group` columns `v` of the first product: `one` is that of row `m`,
    column `n`. Threads whose lanes differ in `lanes` have the others of the same rows. `scale`: multiplies what it has
    of row `a` of the second product by `rescale`. `result`: where that is at the end."""

    stored: str
    buffers: int
    transposed: Transposed
    declarations: list[str]
    hold: list[str]
    first: list[str]
    second: list[str]
    counts: tuple[int, int]
    group: int
    one: str
    m: str
    n: str
    lanes: tuple[int, ...]
    scale: list[str]
    result: Multiply


def parts_on_tensor_cores(schedule: BackToBackSchedule, transposed: Transposed) -> BackToBackParts:
    """Each warp has 16 rows, whose fragments it holds. What a lane has of the first product is laid out as its part of
    the left operand of the second."""
    kept, t, (deep, wide) = schedule.second.operands[0], schedule.tiles, schedule.on_chip
    kind, pad = ops.stored(kept.dtype), BANKED // kept.dtype.itemsize
    sizes = {x: _size(extents, transposed[x], pad)
             for x, extents in (("q", (t.rows, deep)), ("k", (deep, t.columns)), ("v", (t.columns, wide)))}  # fmt: skip
    behind = 2 * sizes["k"][0] * sizes["k"][1]  # `qs` lies where the tiles come, and is in registers before they do
    most = max(behind + 2 * sizes["v"][0] * sizes["v"][1], sizes["q"][0] * sizes["q"][1])
    low, high, mixed, middle = "lane % 16", "lane / 16 * 8", "lane / 16 * 8 + lane % 8", "lane / 8 % 2 * 8"
    q = f"c + {mixed}][warp * 16 + {middle}" if transposed["q"] else f"warp * 16 + {low}][c + {high}"
    k, v = (f"j * 16 + {mixed}][c + {middle}" if transposed[x] else f"c + {low}][j * 16 + {high}" for x in "kv")
    way = {"q": str(transposed["q"]).lower(), **{x: str(not transposed[x]).lower() for x in "kv"}}
    pairs = ", ".join(_pair(kept, f"s[c / 8 + {h}]", first) for h in (0, 1) for first in (0, 2))

    return BackToBackParts(
        kind, 2, transposed,
        [
            f"__shared__ __align__(16) {kind} memory[{most}];",
            f"{kind}(*qs)[{sizes['q'][1]}] = ({kind}(*)[{sizes['q'][1]}])memory;",
            _tiles("ks", kind, sizes["k"], "memory"),
            _tiles("vs", kind, sizes["v"], f"(memory + {behind})"),
            "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
            f"unsigned left[{deep // 16}][4];",
            f"float sums[{wide // 8}][4] = {{}};",
        ],
        [
            "#pragma unroll",
            f"for (int c = 0; c < {deep}; c += 16) eqf_ldmatrix<{way['q']}>(left[c / 16], &qs[{q}]);",
            "__syncthreads();",
        ],
        [
            f"float s[{t.columns // 8}][4] = {{}};",
            "#pragma unroll",
            f"for (int c = 0; c < {deep}; c += 16) {{",
            *_multiplied(kind, t.columns, way["k"], f"ks[now][{k}]", "s", "left[c / 16]"),
            "}",
        ],
        [
            "#pragma unroll",
            f"for (int c = 0; c < {t.columns}; c += 16) {{",
            f"    const unsigned x[4] = {{{pairs}}};",
            *_multiplied(kind, wide, way["v"], f"vs[now][{v}]", "sums", "x"),
            "}",
        ],
        (2, t.columns // 8), 2, "s[b][a * 2 + v]", "warp * 16 + a * 8 + lane / 4", "b * 8 + lane % 4 * 2 + v", (2, 1),
        ["#pragma unroll",
         f"for (int j = 0; j < {wide // 8}; j++) {{ sums[j][a * 2] *= rescale; sums[j][a * 2 + 1] *= rescale; }}"],
        Multiply(kind, (False, False), [], [], (2, wide // 8), 2, "warp * 16 + a * 8 + lane / 4",
                 "b * 8 + lane % 4 * 2", "sums[b][a * 2 + v]"),
    )  # fmt: skip


def _multiplied(kind: str, extent: int, transposed: str, place: str, sums: str, left: str) -> list[str]:
    """Adds to `sums` what the fragment `left` gives with each 16 columns, of `extent`, of the tile that begins at
    `place`."""
    return [
        "    #pragma unroll",
        f"    for (int j = 0; j < {extent // 16}; j++) {{",
        "        unsigned y[4];",
        f"        eqf_ldmatrix<{transposed}>(y, &{place});",
        f"        eqf_mma<{kind}>({sums}[2 * j], {left}, y);",
        f"        eqf_mma<{kind}>({sums}[2 * j + 1], {left}, y + 2);",
        "    }",
    ]


def parts_on_cores(schedule: BackToBackSchedule) -> BackToBackParts:
    """Sixteen threads share `high` rows: each has columns side by side of the first product, which pass through shared
    memory, and groups of four columns of the second."""
    t, (deep, wide) = schedule.tiles, schedule.on_chip
    high, across = t.rows // 16, t.columns // 16
    groups = wide // 64
    return BackToBackParts(
        "float", 1, {"q": True, "k": False, "v": False},
        [
            f"__shared__ __align__(16) float qs[{deep}][{t.rows + 4}], ks[1][{deep}][{t.columns + 4}];",
            f"__shared__ __align__(16) float vs[1][{t.columns}][{wide + 4}], weights[{t.columns}][{t.rows + 4}];",
            "const int right = threadIdx.x % 16, down = threadIdx.x / 16;",
            f"float sums[{high}][{groups * 4}] = {{}};",
        ],
        [],
        [
            f"float s[{high}][{across}] = {{}};",
            "#pragma unroll 4",
            f"for (int c = 0; c < {deep}; c++) {{",
            f"    const Vec<float, {high}> x = *(const Vec<float, {high}>*)&qs[c][down * {high}];",
            f"    const Vec<float, {across}> y = *(const Vec<float, {across}>*)&ks[0][c][right * {across}];",
            "    #pragma unroll",
            f"    for (int j = 0; j < {high}; j++)",
            "        #pragma unroll",
            f"        for (int l = 0; l < {across}; l++) s[j][l] = fma(x.v[j], y.v[l], s[j][l]);",
            "}",
        ],
        [
            "#pragma unroll",
            f"for (int j = 0; j < {high}; j++)",
            "    #pragma unroll",
            f"    for (int l = 0; l < {across}; l++) weights[right * {across} + l][down * {high} + j] = s[j][l];",
            "__syncwarp();  // the threads that share rows are in one warp",
            "#pragma unroll 4",
            f"for (int c = 0; c < {t.columns}; c++) {{",
            f"    const Vec<float, {high}> x = *(const Vec<float, {high}>*)&weights[c][down * {high}];",
            "    #pragma unroll",
            f"    for (int b = 0; b < {groups}; b++) {{",
            "        const Vec<float, 4> y = *(const Vec<float, 4>*)&vs[0][c][(b * 16 + right) * 4];",
            "        #pragma unroll",
            f"        for (int j = 0; j < {high}; j++)",
            "            #pragma unroll",
            "            for (int l = 0; l < 4; l++) sums[j][b * 4 + l] = fma(x.v[j], y.v[l], sums[j][b * 4 + l]);",
            "    }",
            "}",
        ],
        (high, across), 1, "s[a][b]", f"down * {high} + a", f"right * {across} + b", (8, 4, 2, 1),
        ["#pragma unroll", f"for (int j = 0; j < {groups * 4}; j++) sums[a][j] *= rescale;"],
        Multiply("float", (False, False), [], [], (high, groups), 4, f"down * {high} + a", "(b * 16 + right) * 4",
                 "sums[a][b * 4 + v]"),
    )  # fmt: skip


def _size(extents: tuple[int, int], transposed: bool, pad: int) -> tuple[int, int]:
    slow, fast = reversed(extents) if transposed else extents
    return slow, fast + pad


def _tiles(name: str, kind: str, size: tuple[int, int], memory: str) -> str:
    shape = f"{kind}(*{{}})[{size[0]}][{size[1]}]"
    return f"{shape.format(name)} = ({shape.format('')}){memory};"


def _pair(n: Node, fragment: str, first: int) -> str:
    """Two neighbours of a fragment in one register."""
    word = n.dtype.name.removeprefix("float16") or "half"
    low, high = (f"(unsigned)__{word}_as_ushort({ops.value_kept(n.dtype, f'{fragment}[{first + i}]')})" for i in (0, 1))
    return f"{low} | {high} << 16"
