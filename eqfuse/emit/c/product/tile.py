"""The innermost loops of a product: a tile of sums in registers, one vector of a row of the right operand at a time.

In: extents and a type of sums. Out: `Tile`, and the text of its function. Next stop: `blocks.py`.
A tile is `rows` of the left operand by `vectors` of the right one; each step takes one term of all its sums. Of few
columns it takes dot products: vectors lie along the terms, those of the left operand where it lies in memory. Of few
rows it takes some terms at once of one vector after another: the right operand is then read in as many streams, from
one end of its rows to the other.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from eqfuse.cost.work import LINE

MOST_ROWS, MOST_VECTORS = 12, 8  # of a tile
INDEPENDENT_SUMS = 12  # that keep the multipliers busy: 4 cycles of latency on two of them, and some more
CALLED = 20  # cycles to call the function of a tile
# Of small products one after another a core begins the next ones while sums wait, as long as it holds so many
# instructions; then to call a function takes less. A Zen 5 takes 2.5 ns for each 2 x 2 x 2 of many.
INSTRUCTIONS_HELD, CALLED_AHEAD = 256, 6
FETCH = 2  # cycles of a vector of the right operand
# The same of a part of a cache line, and columns from which on, where the panel of a tile is beyond a level-1 cache: on
# a Zen 4 with 256-bit vectors 32 rows of 1280 by 1280 x 1000 take 1.04 ms by 4 x 24, and 0.86 by 6 x 16.
FAR_TERMS, NEAR_TERMS = 4, 16
HINDERED = 0.125  # of the cycles of loads: never hidden under multiplications
# Sums, and vectors beside them, for which there are registers: 32 of 512 bits, and on ARM, else 16.
_MANY, _FEW = 30, 15
LANES_ADDED = 12  # cycles to add the lanes of a vector
MOST_DOTS = 16  # columns of dot products
DOT_ROWS = 4  # of them: more streams of memory at once are slower
DOT_SUMS = 8  # vectors of sums that keep the multipliers busy, at least
# Bytes from which on rows that are beyond a level-2 cache are read side by side. What follows shorter ones has none of
# them in time: on one core of a Zen 5, 40,000 x 256 by a vector takes 3.4 ms by four rows at once, 1.3 one by one;
# 50,000 x 200 by five 5.6 and 3.4.
SIDE_BY_SIDE = 4096
STREAM_ROWS = 12  # rows whose sums are kept in memory while the right operand streams by, at most
STREAMS = 8  # rows of the right operand that stream by at once
STREAMED = 1.3  # cycles of a vector of sums then, as factors do not stay in registers
_NAME = re.compile(r"(tile|dots|taps|flow)_(\d+)_(\d+)_(\d+)")

# The type of sums, by the dtype of a product: what the names of its functions end in.
_SUMS = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), "float32"), "float64": "float64",
    **dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"), "uint32"),
    **dict.fromkeys(("int64", "uint64"), "uint64"),
}  # fmt: skip


@dataclass(frozen=True)
class RegisterTile:
    """`lanes`: elements of a vector. `dots`: vectors lie along the terms; `taps`: terms of the right operand lie where
    a table says, those of the left one after another; `streams`: terms that are taken at once, over all columns of a
    block, whose sums are in memory; `lines`: each vector is a whole cache line."""

    rows: int
    vectors: int
    lanes: int
    dots: bool = False
    taps: bool = False
    streams: int = 0
    lines: bool = False

    @property
    def columns(self) -> int:
        return self.vectors if self.dots else self.vectors * self.lanes

    @property
    def cycles(self) -> float:
        """Of one term, in multiplications of a vector: sums that depend on each other wait, and so do multiplications
        for vectors that come from a level-2 cache; part of that is never hidden."""
        far, near = (self.rows, self.vectors) if self.dots else (self.vectors, self.rows / 2)
        if self.streams:
            near = 2 * self.rows / self.streams
        far_apart = self.columns > NEAR_TERMS and not (self.dots or self.taps or self.lines)
        fetch = FAR_TERMS if far_apart else FETCH
        loads = fetch * far + near
        if self.streams:
            return max(STREAMED * self.rows, loads) + HINDERED * loads
        if self.dots:
            waiting = INDEPENDENT_SUMS / dot_terms(self.rows, self.vectors)
            return (max(self.rows * self.vectors, waiting, loads) + HINDERED * loads) / self.lanes
        return max(self.rows * self.vectors, INDEPENDENT_SUMS, loads) + HINDERED * loads

    def called(self, depth: float, apart: bool) -> float:
        """Cycles of a call for sums of `depth` terms; of one product of several that lie `apart`, or of one alone."""
        both, turns = self.rows * self.vectors, depth / (self.lanes if self.dots else 1)
        operands = self.rows + self.vectors
        if apart and not self.streams and turns * (both + operands) <= INSTRUCTIONS_HELD:
            return turns * max(both, operands / 2) + self.ending / 2 + CALLED_AHEAD
        return depth * self.cycles + CALLED + self.ending

    @property
    def ending(self) -> float:
        """Cycles to store the sums."""
        return (LANES_ADDED if self.dots else 2) * self.rows * self.vectors

    def function(self, suffix: str) -> str:
        name = "dots" if self.dots else "taps" if self.taps else "flow" if self.streams else "tile"
        return f"eqf_{name}_{self.rows}_{self.streams or self.vectors}_{self.lanes}_{suffix}"


@lru_cache(maxsize=64)
def sums_dtype(dtype: np.dtype) -> np.dtype | None:
    """The dtype of the sums of a product of `dtype`: integers wrap around in an unsigned one. None where NumPy computes
    it."""
    name = _SUMS.get(dtype.name)
    return np.dtype(name) if name else None


def terms(tile: RegisterTile, heights: Sequence[tuple[int, int]], columns: int) -> float:
    """Cycles of one term of the sums by `tile`. `heights`: rows of blocks, and how many there are of so many."""
    down = sum(-(-rows // tile.rows) * count for rows, count in heights)
    return down * -(-columns // tile.columns) * tile.cycles


@lru_cache(maxsize=1024)
def register_tile(
    rows: int, heights: tuple[tuple[int, int], ...], columns: int, vector_bytes: int, itemsize: int, within: bool
) -> RegisterTile:
    """The tile, of `rows` at most, by which sums take the fewest cycles; of equals the largest. `within`: it has no
    more columns than there are."""
    lanes = vector_bytes // itemsize
    while lanes > columns:
        lanes //= 2
    tiles = [
        RegisterTile(high, wide, lanes, lines=lanes * itemsize >= LINE)
        for high, wide in tile_forms(rows, vector_bytes)
        if wide == 1 or (wide - (not within)) * lanes < columns + within
    ]
    return min(tiles, key=lambda t: (terms(t, heights, columns), -t.rows * t.columns))


@lru_cache(maxsize=1024)
def dots_for(
    rows: int, heights: tuple[tuple[int, int], ...], columns: int, vector_bytes: int, itemsize: int, overlaps: bool
) -> RegisterTile:
    """The tile of dot products that does so, whose columns divide those that there are, unless the last one `overlaps`
    the one before."""
    lanes = vector_bytes // itemsize
    tiles = [RegisterTile(high, wide, lanes, True) for high, wide in tile_forms(min(rows, DOT_ROWS), vector_bytes)
             if columns % wide == 0 or (overlaps and wide < columns)]  # fmt: skip
    return min(tiles, key=lambda t: (terms(t, heights, columns), -t.rows * t.columns))


def stream_for(rows: int, vector_bytes: int, itemsize: int) -> RegisterTile:
    """The tile of few `rows` by which the right operand streams."""
    return RegisterTile(-(-rows // -(-rows // STREAM_ROWS)), 1, vector_bytes // itemsize, streams=STREAMS)


def tile_forms(rows: int, vector_bytes: int) -> list[tuple[int, int]]:
    """Rows and vectors of a tile for which there are registers."""
    registers = _MANY if vector_bytes == 64 or platform.machine() in ("aarch64", "arm64") else _FEW
    both = product(range(1, min(MOST_ROWS, rows) + 1), range(1, MOST_VECTORS + 1))
    return [(high, wide) for high, wide in both if high * wide + wide <= registers]


def tile_function(name: str, computed: str, suffix: str) -> str | None:
    """The function `name` on values of the C type `computed`; None where it is not one of these.

    It makes sums of `depth` terms of left x right, and adds them to those that are there if these are `more`; `ar`,
    `ak`: steps of the left operand by row and term; `bk`: of the right one by term, or of dot products by column; `at`:
    where its terms lie; `cr`: of sums by row; `columns`: how many of them stream by, at least a vector, and `apart`:
    where their sums are made if there are some already. What a compiler may contract to one rounding, it may here."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    form, *extents = match.groups()
    rows, vectors, lanes = map(int, extents)
    item = 8 if suffix.endswith("64") else 4
    template = _HEAD + {"dots": _DOTS, "flow": _FLOW}.get(form, _TILE)
    by = {"tile": ("", "long ar, long ak", "long bk", "k * ak", "k * bk"),
          "taps": ("", "long ar", "const int *restrict at", "k", "at[k]"),
          "dots": ("", "long ar, long ak", "long bk", "", ""),
          "flow": ("long columns, {T} *apart, ", "long ar, long ak", "long bk", "", "")}[form]  # fmt: skip
    steps = dict(zip(("extent", "left", "right", "ak", "bk"), by, strict=True))
    steps["extent"] = steps["extent"].format(T=computed)
    types = {"T": computed, "integer": "long long" if item == 8 else "int", "size": lanes * item}
    if form == "dots":
        types |= _halves(lanes, computed) | {"U": dot_terms(rows, vectors)}
    return template.format(**types, **steps, name=f"eqf_{name}_{suffix}", R=rows, V=vectors, L=lanes)


def dot_terms(rows: int, columns: int) -> int:
    """Vectors of terms that dot products take at once, so that enough sums do not wait for each other."""
    return -(-DOT_SUMS // (rows * columns))


def _halves(lanes: int, computed: str) -> dict[str, str]:
    """The text that adds the lanes of a vector, half to half, and that of the types of these halves."""
    halves = [lanes >> n for n in range(1, lanes.bit_length() - 1)]
    attributes = f"aligned(sizeof({computed})), may_alias"
    declared = "typedef {0} half{1} __attribute__((vector_size({1} * sizeof({0})), {2}));"
    line = " " * 12 + "const half{0} sum{0} = ((const half{0} *)&sum{1})[0] + ((const half{0} *)&sum{1})[1];"
    return {
        "halves": "".join(f"\n    {declared.format(computed, n, attributes)}" for n in halves),
        "added": "\n".join(line.format(n, 2 * n) for n in halves),
    }


_HEAD = """__attribute__((noinline, optimize("fp-contract=fast")))
void {name}(long depth, {extent}const {T} *restrict a, {left}, const {T} *restrict b, {right},
        {T} *restrict c, long cr, int more) {{
#if defined(__clang__)
    #pragma clang fp contract(fast)
#endif
    typedef {T} vector __attribute__((vector_size({size}), aligned(sizeof({T})), may_alias));"""
_TILE = """
    vector sums[{R}][{V}];
    #pragma GCC unroll {R}
    for (int i = 0; i < {R}; i++)
        #pragma GCC unroll {V}
        for (int j = 0; j < {V}; j++)
            sums[i][j] = (vector){{0}};
    for (long k = 0; k < depth; k++) {{
        vector right[{V}];
        #pragma GCC unroll {V}
        for (int j = 0; j < {V}; j++)
            right[j] = *(const vector *)(b + {bk} + j * {L});
        #pragma GCC unroll {R}
        for (int i = 0; i < {R}; i++)
            #pragma GCC unroll {V}
            for (int j = 0; j < {V}; j++)
                sums[i][j] += a[i * ar + {ak}] * right[j];
    }}
    #pragma GCC unroll {R}
    for (int i = 0; i < {R}; i++)
        #pragma GCC unroll {V}
        for (int j = 0; j < {V}; j++) {{
            vector *const sum = (vector *)(c + i * cr + j * {L});
            if (more)
                sums[i][j] += *sum;
            *sum = sums[i][j];
        }}
}}"""
_DOTS = """{halves}
    vector sums[{R}][{V}][{U}];
    #pragma GCC unroll {R}
    for (int i = 0; i < {R}; i++)
        #pragma GCC unroll {V}
        for (int j = 0; j < {V}; j++)
            #pragma GCC unroll {U}
            for (int u = 0; u < {U}; u++)
                sums[i][j][u] = (vector){{0}};
    long whole = 0;
    for (; whole + {U} * {L} <= depth; whole += {U} * {L})
        #pragma GCC unroll {U}
        for (int u = 0; u < {U}; u++)
            #pragma GCC unroll {R}
            for (int i = 0; i < {R}; i++) {{
                const vector left = *(const vector *)(a + i * ar + whole + u * {L});
                #pragma GCC unroll {V}
                for (int j = 0; j < {V}; j++)
                    sums[i][j][u] += left * *(const vector *)(b + j * bk + whole + u * {L});
            }}
    for (; whole + {L} <= depth; whole += {L})
        #pragma GCC unroll {R}
        for (int i = 0; i < {R}; i++) {{
            const vector left = *(const vector *)(a + i * ar + whole);
            #pragma GCC unroll {V}
            for (int j = 0; j < {V}; j++)
                sums[i][j][0] += left * *(const vector *)(b + j * bk + whole);
        }}
    #pragma GCC unroll {R}
    for (int i = 0; i < {R}; i++)
        #pragma GCC unroll {V}
        for (int j = 0; j < {V}; j++) {{
            #pragma GCC unroll {U}
            for (int u = 1; u < {U}; u++)
                sums[i][j][0] += sums[i][j][u];
            const vector sum{L} = sums[i][j][0];
{added}
            {T} sum = sum2[0] + sum2[1];
            for (long k = whole; k < depth; k++)
                sum += a[i * ar + k] * b[j * bk + k];
            c[i * cr + j] = more ? c[i * cr + j] + sum : sum;
        }}
}}"""
_FLOW = """
    typedef {integer} mask __attribute__((vector_size({size})));
    mask kept;  // the lanes of the last vector that the one before it does not have
    for (int lane = 0; lane < {L}; lane++)
        kept[lane] = lane < {L} - columns % {L} ? 0 : -1;
    {T} *const made = more ? apart : c;
    for (int i = 0; i < {R}; i++)
        __builtin_memset(made + i * cr, 0, columns * sizeof *made);
    long k = 0;
    for (; k + {V} <= depth; k += {V}) {{
        vector left[{R}][{V}];
        #pragma GCC unroll {R}
        for (int i = 0; i < {R}; i++)
            #pragma GCC unroll {V}
            for (int t = 0; t < {V}; t++)
                left[i][t] = a[i * ar + (k + t) * ak] - (vector){{0}};
        for (long j = 0; j < columns; j += {L}) {{
            const long at = j + {L} <= columns ? j : columns - {L};
            vector sums[{R}];
            #pragma GCC unroll {R}
            for (int i = 0; i < {R}; i++)
                sums[i] = (vector){{0}};
            #pragma GCC unroll {V}
            for (int t = 0; t < {V}; t++) {{
                const vector right = *(const vector *)(b + (k + t) * bk + at);
                #pragma GCC unroll {R}
                for (int i = 0; i < {R}; i++)
                    sums[i] += left[i][t] * right;
            }}
            if (at < j)
                #pragma GCC unroll {R}
                for (int i = 0; i < {R}; i++)
                    sums[i] = (vector)((mask)sums[i] & kept);
            #pragma GCC unroll {R}
            for (int i = 0; i < {R}; i++)
                *(vector *)(made + i * cr + at) += sums[i];
        }}
    }}
    for (; k < depth; k++)
        for (int i = 0; i < {R}; i++)
            for (long j = 0; j < columns; j++)
                made[i * cr + j] += a[i * ar + k * ak] * b[k * bk + j];
    if (more)
        for (int i = 0; i < {R}; i++)
            for (long j = 0; j < columns; j++)
                c[i * cr + j] += made[i * cr + j];
}}"""
