"""The inner loop of a tiled product by `wgmma`: warpgroups of 128 threads multiply, on the tensor cores of compute
capability 9.0, what lies in shared memory as it lies there, asynchronously. NVRTC compiles it for sm_90a alone.

In: a `Tile`, which way round its operands lie in memory, their dtype. Out: `WarpgroupMultiply`, and the text that
stands before kernels which have one. Next stop: `contract.py`.

Both operands are kept in rows of 128 bytes, 64 numbers along the axis that memory has side by side; of more than 64,
the first of all rows, then the next ones. The eight pieces of 16 bytes of a row are exchanged by the number of the row,
so that pieces below one another lie in different banks. PTX ("Matrix descriptor" and "Strides" of wgmma.mma_async)
calls that the 128-byte swizzle, K-major where a row holds terms, else MN-major. Threads write through the generic proxy
and tensor cores read through the asynchronous one, hence a fence of proxies between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.multiply import Multiply
from eqfuse.emit.cuda.scheduling.contract import SWIZZLE_BYTES, WGMMA_STAGES
from eqfuse.kinds.product import WARP, WARPGROUP, Tile

MMA_ROWS, MMA_COLUMNS, MMA_TERMS = 64, 128, 16  # of one instruction
MMA_SUMS = MMA_COLUMNS // 2  # of a thread
ROW_NUMBERS, ROW_BYTES = 64, 128  # numbers of a row in shared memory
DESCRIPTOR_UNIT = 16  # bytes, in which descriptors count


@dataclass(frozen=True, kw_only=True)
class WarpgroupMultiply(Multiply):
    """`size`: numbers of a buffer of each operand, which holds the first 64 along its faster axis in `slow` rows."""

    size: dict[str, int]
    slow: dict[str, int]

    @property
    def stage(self) -> str:
        n = WGMMA_STAGES
        return f"const int now = (step + {n}) % {n}, next = (step + {n - 1}) % {n};"

    def place(self, name: str, slow: str, fast: str) -> str:
        return f"{name}[next * {self.size[name]} + eqf_swizzled<{self.slow[name]}>({slow}, {fast})]"


def multiply_by_wgmma(tile: Tile, dtype: np.dtype, transposed: tuple[bool, bool]) -> WarpgroupMultiply:
    """Each warpgroup multiplies 64 rows by 128 columns. A lane has the sums of rows lane / 4 and 8 further of the 16 of
    its warp, of columns 2 (lane % 4) and the next of every eight. A tile has as many terms as a row has numbers: so
    the rows or columns of a warpgroup start as many rows further as they are numbers, whichever way they lie."""
    assert tile.depth == ROW_NUMBERS
    kind, across = ops.stored(dtype), tile.columns // MMA_COLUMNS
    extents = {"a": tile.rows, "b": tile.columns}
    size = {name: extent * tile.depth for name, extent in extents.items()}
    slow, leading, further = dict[str, int](), dict[str, int](), dict[str, int]()
    for name, of_terms in zip(extents, transposed, strict=True):
        slow[name] = extents[name] if of_terms else tile.depth
        leading[name] = 1 if of_terms else slow[name] * ROW_BYTES // DESCRIPTOR_UNIT
        further[name] = MMA_TERMS * (dtype.itemsize if of_terms else ROW_BYTES) // DESCRIPTOR_UNIT
    declarations = [
        "EQF_DYN_SHARED(unsigned char, buffers);",
        f"{kind}* const a = ({kind}*)(buffers + (-eqf_shared_address(buffers) & {SWIZZLE_BYTES - 1}));",
        f"{kind}* const b = a + {WGMMA_STAGES * size['a']};",
        f"const int lane = threadIdx.x % {WARP}, right = threadIdx.x / {WARPGROUP} % {across} * {MMA_COLUMNS}, "
        f"down = threadIdx.x / {WARPGROUP * across} * {MMA_ROWS};",
        f"float sums[{MMA_SUMS}] = {{}};",
    ]
    lines = [
        f"const unsigned long long x = eqf_matrix<{leading['a']}>(a + now * {size['a']} + down * {ROW_NUMBERS}), "
        f"y = eqf_matrix<{leading['b']}>(b + now * {size['b']} + right * {ROW_NUMBERS});",
        "eqf_wgmma_fence();",
        "#pragma unroll",
        f"for (int k = 0; k < {tile.depth // MMA_TERMS}; k++) "
        f"eqf_wgmma<{kind}, {int(not transposed[0])}, {int(not transposed[1])}>"
        f"(sums, x + k * {further['a']}, y + k * {further['b']});",
        "eqf_wgmma_commit();",
    ]
    return WarpgroupMultiply(
        kind, transposed, declarations, lines, (2, MMA_COLUMNS // 8), 2,
        f"down + threadIdx.x / {WARP} % 4 * 16 + a * 8 + lane / 4", "right + b * 8 + lane % 4 * 2",
        "sums[b * 4 + a * 2 + v]", WGMMA_STAGES, asynchronous=True,
        finish=("eqf_publish();", "eqf_wgmma_wait<0>(sums);"), size=size, slow=slow,
    )  # fmt: skip


_OPERANDS = ", ".join(f"%{i}" for i in range(MMA_SUMS))
_SUMS = ", ".join(f'"+f"(d[{i}])' for i in range(MMA_SUMS))
WGMMA = f"""// Where an element of an operand lies that is kept for wgmma, in `rows` rows of {ROW_NUMBERS} numbers each
template <unsigned rows> static __device__ __forceinline__ unsigned eqf_swizzled(unsigned slow, unsigned fast) {{
    return (fast / {ROW_NUMBERS} * rows + slow) * {ROW_NUMBERS} + (fast / 8 ^ slow) % 8 * 8 + fast % 8;
}}
#ifndef EQF_ON_CPU  // the emulator has these of its own
static __device__ __forceinline__ unsigned eqf_shared_address(const void* at) {{
    return (unsigned)__cvta_generic_to_shared(at);
}}
static __device__ __forceinline__ void eqf_publish() {{ asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }}
static __device__ __forceinline__ void eqf_wgmma_fence() {{ asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }}
static __device__ __forceinline__ void eqf_wgmma_commit() {{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}}
template <int later> static __device__ __forceinline__ void eqf_wgmma_wait(float* d) {{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(later) : "memory");
    #pragma unroll
    for (int i = 0; i < {MMA_SUMS}; i++) asm volatile("" : "+f"(d[i]) :: "memory");  // nobody reads them before
}}
template <class T, bool a_turned, bool b_turned>
static __device__ __forceinline__ void eqf_wgmma(float* d, unsigned long long a, unsigned long long b);
#define EQF_WGMMA(T, word, a_turned, b_turned) \
    template <> __device__ __forceinline__ void eqf_wgmma<T, a_turned, b_turned>( \
        float* d, unsigned long long a, unsigned long long b) {{ \
        asm volatile("wgmma.mma_async.sync.aligned.m64n{MMA_COLUMNS}k16.f32." word "." word " " \
                     "{{{_OPERANDS}}}, %{MMA_SUMS}, %{MMA_SUMS + 1}, 1, 1, 1, %{MMA_SUMS + 2}, %{MMA_SUMS + 3};" \
                     : {_SUMS} \
                     : "l"(a), "l"(b), "n"(a_turned), "n"(b_turned)); \
    }}
#define EQF_WGMMAS(T, word) \
    EQF_WGMMA(T, word, 0, 0) EQF_WGMMA(T, word, 0, 1) EQF_WGMMA(T, word, 1, 0) EQF_WGMMA(T, word, 1, 1)
EQF_WGMMAS(__half, "f16") EQF_WGMMAS(__nv_bfloat16, "bf16")
#endif
// The descriptor of an operand, in units of {DESCRIPTOR_UNIT} bytes: where it starts, how far from there the next
// {ROW_NUMBERS} numbers of a row lie, if there are more, and how far the next eight rows; last the mode of the swizzle
template <unsigned leading> static __device__ __forceinline__ unsigned long long eqf_matrix(const void* first) {{
    const unsigned start = (eqf_shared_address(first) & 0x3ffff) / {DESCRIPTOR_UNIT};
    const unsigned stride = {8 * ROW_BYTES // DESCRIPTOR_UNIT};
    return start | (unsigned long long)leading << 16 | (unsigned long long)stride << 32 | 1ull << 62;
}}
"""
