"""Results that pass by the caches: those of a kernel whose arrays exceed the last one.

In: loops over a space, the bytes of a kernel. Out: which results a kernel streams, and the text of what does so. Next
stop: `lines.py`. A line of memory is read before it is written, if a cache takes it; where all of it is written at once
past the caches, a copy moves two bytes where it moved three. Results are computed into a buffer of some cache lines,
and from there streamed. On one and two cores of a Zen 4 maps of 64 MB and more take 0.6 to 0.8 times as long so, and
maps that fit in its 32 MB twice as long. Written for x86, where all compilers know the instruction.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

from eqfuse.cost.device import Device
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Access, Nest
from eqfuse.emit.c.passes import is_scan
from eqfuse.ir.graph import Graph
from eqfuse.ops.types import Shape

HAS_STREAM = platform.machine().lower() in ("x86_64", "amd64")
STAGE_BYTES = 2048  # of the buffer of a result: parts of lines at its ends cost little, and it stays in a level-1 cache
LEAST_ROW = 1024  # bytes of a row that is streamed
STREAMED_SHARE = 1 / 8  # of the last cache that a result takes up, at least

STREAM = """#if defined(__AVX512F__)
#define EQF_WIDE 64
#elif defined(__AVX__)
#define EQF_WIDE 32
#else
#define EQF_WIDE 16
#endif
static void eqf_stream(void *restrict to, const void *restrict from, long bytes) {
    typedef long long wide __attribute__((vector_size(EQF_WIDE), may_alias));
    typedef long long loose __attribute__((vector_size(EQF_WIDE), aligned(1), may_alias));
    char *const written = to;
    const char *const read = from;
    long i = -(__UINTPTR_TYPE__)to % EQF_WIDE;
    i = i < bytes ? i : bytes;
    __builtin_memcpy(written, read, i);
    for (; i + EQF_WIDE <= bytes; i += EQF_WIDE) {
        wide *const place = (wide *)(written + i);
        const wide value = *(const loose *)(read + i);
#if defined(__clang__)
        __builtin_nontemporal_store(value, place);
#elif EQF_WIDE == 64
        __builtin_ia32_movntdq512(place, value);
#elif EQF_WIDE == 32
        __builtin_ia32_movntdq256(place, value);
#else
        __builtin_ia32_movntdq(place, value);
#endif
    }
    __builtin_memcpy(written + i, read + i, bytes - i);
}
"""
FENCE = "__builtin_ia32_sfence();"  # what was streamed is written before another thread is told that it is


def exceeds_caches(read: int, written: int, device: Device) -> bool:
    """Are results of a kernel better written past the caches?"""
    return HAS_STREAM and len(device.levels) > 1 and read + written > device.levels[-2][0]


def streamed_results(
    body: Graph, space: Shape, nest: Nest, forms: Sequence[Form], written: Sequence[Access], read: int, device: Device
) -> frozenset[int]:
    """The numbers of the outputs that loops which read so many bytes stream: large ones whose rows lie in one piece."""
    if not exceeds_caches(read, sum(o.type.nbytes for o in body.outputs), device):
        return frozenset()
    if nest.by_columns or nest.is_of_short_rows or any(map(is_scan, body.nodes)):
        return frozenset()
    least = STREAMED_SHARE * device.levels[-2][0]
    large = {
        j for j, (o, access) in enumerate(zip(body.outputs, written, strict=True))
        if o.shape == space and o.type.nbytes >= least and nest.runs.step(access) == 1
        and nest.runs.extent * o.dtype.itemsize >= LEAST_ROW
    }  # fmt: skip
    reduced = {j for form in forms for p in form.passes if p.reductions for j in p.outputs}
    return frozenset(large - reduced)
