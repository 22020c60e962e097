"""The innermost loops of a product: a tile of sums in registers, one vector of a row of the right operand at a time.

In: extents and a type of sums. Out: `Tile`, and the text of its function. Next stop: `blocks.py`.
A tile is `rows` of the left operand by `vectors` of the right one; each step takes one term of all its sums.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MOST_ROWS, MOST_VECTORS = 12, 8
LATENCY = 8  # independent sums that keep the multipliers busy: 4 cycles of latency, on two of them
FETCH = 2  # cycles of a vector of the right operand
HINDERED = 0.125
# Sums, and vectors beside them, for which there are registers: 32 of 512 bits, and on ARM, else 16.
_MANY, _FEW = 30, 15
_NAME = re.compile(r"tile_(\d+)_(\d+)_(\d+)")

# The type of sums, by the dtype of a product: what the names of its functions end in.
_SUMS = {
    **dict.fromkeys(("float32", "float16"), "float32"), "float64": "float64",
    **dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"), "uint32"),
    **dict.fromkeys(("int64", "uint64"), "uint64"),
}  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """`lanes`: elements of a vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def cycles(self) -> float:
        """Of one term, in multiplications of a vector: sums that depend on each other wait, and so do multiplications
        for vectors that come from a level-2 cache; part of that is never hidden."""
        loads = FETCH * self.vectors + self.rows / 2
        return max(self.rows * self.vectors, LATENCY, loads) + HINDERED * loads

    def function(self, suffix: str) -> str:
        return f"eqf_tile_{self.rows}_{self.vectors}_{self.lanes}_{suffix}"


def sums_dtype(dtype: np.dtype) -> np.dtype | None:
    """The dtype of the sums of a product of `dtype`: integers wrap around in an unsigned one. None where NumPy computes
    it."""
    found = _SUMS.get(dtype.name)
    return np.dtype(found) if found else None


def terms(tile: Tile, rows: int, columns: int) -> float:
    """Cycles of one term of `rows` x `columns` sums by `tile`."""
    return -(-rows // tile.rows) * -(-columns // tile.columns) * tile.cycles


@lru_cache(maxsize=1024)
def tile_for(rows: int, columns: int, vector_bytes: int, itemsize: int, within: bool) -> Tile:
    """The tile by which `rows` x `columns` sums take the fewest cycles; of equals the largest. `within`: it has no more
    columns than there are."""
    registers = _MANY if vector_bytes == 64 or platform.machine() in ("aarch64", "arm64") else _FEW
    lanes = vector_bytes // itemsize
    while lanes > columns:
        lanes //= 2
    found = [
        Tile(high, wide, lanes)
        for high in range(1, min(MOST_ROWS, rows) + 1)
        for wide in range(1, MOST_VECTORS + 1)
        if high * wide + wide <= registers and (wide == 1 or (wide - (not within)) * lanes < columns + within)
    ]
    return min(found, key=lambda t: (terms(t, rows, columns), -t.rows * t.columns))


def text(name: str, computed: str, suffix: str) -> str | None:
    """The function `name` on values of the C type `computed`; None where it is not one of these.

    It makes sums of `depth` terms of left x right, and adds them to those that are there if these are `more`; `ar`,
    `ak`: steps of the left operand by row and term; `bk`: of the right one by term; `cr`: of sums by row. What a
    compiler may contract to one rounding, it may here."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    rows, vectors, lanes = map(int, found.groups())
    size = lanes * (8 if suffix.endswith("64") else 4)
    return _TEXT.format(T=computed, name=f"eqf_{name}_{suffix}", R=rows, V=vectors, L=lanes, size=size)


_TEXT = """__attribute__((noinline, optimize("fp-contract=fast")))
void {name}(long depth, const {T} *restrict a, long ar, long ak,
        const {T} *restrict b, long bk, {T} *restrict c, long cr, int more) {{
#if defined(__clang__)
    #pragma clang fp contract(fast)
#endif
    typedef {T} vector __attribute__((vector_size({size}), aligned(sizeof({T})), may_alias));
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
            right[j] = *(const vector *)(b + k * bk + j * {L});
        #pragma GCC unroll {R}
        for (int i = 0; i < {R}; i++)
            #pragma GCC unroll {V}
            for (int j = 0; j < {V}; j++)
                sums[i][j] += a[i * ar + k * ak] * right[j];
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
