"""What `eqfuse bench cuda` runs: workloads with the shapes and dtypes that they are measured at on a GPU.

In: how large arrays are, how long rows, how wide products. Out: cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eqfuse.benches.corpus import workloads
from eqfuse.benches.corpus.workloads import Shapes

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class GpuCase:
    """`function` of arrays of `shapes`. `flops`: of its products; none where memory is the limit."""

    name: str
    function: Callable[..., Any]
    shapes: Shapes
    dtype: str
    flops: int = 0
    positive: bool = False


@dataclass(frozen=True)
class CaseSizes:
    """`elements` of the largest array of a case, `lengths` of rows, `sides` of products, `places` of sequences. `deep`:
    the terms of a product of few tiles. `images`: how many, their channels and sides."""

    elements: int
    lengths: tuple[int, ...]
    sides: tuple[int, ...]
    places: tuple[int, ...]
    width: int
    deep: int
    images: tuple[tuple[int, int, int], ...]


FULL = CaseSizes(1 << 24, (256, 1024, 4096, 16_384, 32_768, 49_152, 131_072), (64, 512, 4096), (1024, 4096), 1024,
                 1 << 16, ((1, 512, 7), (32, 64, 56)))  # fmt: skip
DRY = CaseSizes(1 << 10, (64,), (32,), (32,), 64, 512, ((1, 64, 5),))


def cases(sizes: CaseSizes) -> list[GpuCase]:
    families = (_maps, _rows, _few_rows, _columns, _turned, _products, _convolutions, _attention, _blocks)
    return [case for family in families for case in family(sizes)]


def _maps(sizes: CaseSizes) -> Iterator[GpuCase]:
    n = sizes.elements
    for dtype in DTYPES:
        yield GpuCase("GELU", workloads.gelu, ((n,),), dtype)
        yield GpuCase("GELU, odd size", workloads.gelu, ((n - 1,),), dtype)
    yield GpuCase("polynomial", workloads.polynomial, ((n,),), "float32")
    yield GpuCase("Black–Scholes", workloads.black_scholes, ((n // 2,),) * 3, "float32", positive=True)
    side = int(n**0.5)
    yield GpuCase("flux-limited stencil", workloads.flux_limited, ((side, side),), "float32")


def _rows(sizes: CaseSizes) -> Iterator[GpuCase]:
    for dtype in DTYPES:
        for n in sizes.lengths:
            rows = max(1, sizes.elements // n)
            yield GpuCase("softmax", workloads.softmax, ((rows, n),), dtype)
            yield GpuCase("layer norm", workloads.layer_norm, ((rows, n), (n,), (n,)), dtype)
            yield GpuCase("RMS norm", workloads.rms_norm, ((rows, n), (n,)), dtype)
            pairs = ((max(1, rows // 2), n),) * 2
            yield GpuCase("cross-entropy", workloads.cross_entropy, pairs, dtype, positive=True)
    short = sizes.elements // 16
    yield GpuCase("softmax of short rows", workloads.softmax, ((short, 16),), "float32")
    yield GpuCase("residual and norm", workloads.residual_norm,
               ((short * 16 // sizes.width, sizes.width),) * 2 + ((sizes.width,),) * 2, "bfloat16")  # fmt: skip


def _few_rows(sizes: CaseSizes) -> Iterator[GpuCase]:
    for rows in (1, 4, 64):
        yield GpuCase("softmax of few rows", workloads.softmax, ((rows, sizes.elements // 64),), "float32")


def _columns(sizes: CaseSizes) -> Iterator[GpuCase]:
    for columns in (64, sizes.width):
        yield GpuCase("statistics of columns", workloads.column_statistics, ((sizes.elements // columns, columns),),
                   "float32")  # fmt: skip


def _turned(sizes: CaseSizes) -> Iterator[GpuCase]:
    side = int(sizes.elements**0.5)
    for dtype in DTYPES:
        yield GpuCase("transposed + map", workloads.turned_sum, ((side, side),) * 2, dtype)
    odd = (side // 2 + 1, 2 * side)
    yield GpuCase("transposed + map", workloads.turned_sum, (odd, odd[::-1]), "float32")


def _products(sizes: CaseSizes) -> Iterator[GpuCase]:
    rows = sizes.sides[-1]
    for dtype in ("float16", "bfloat16", "float32"):
        for depth in sizes.sides:
            shapes = ((rows, depth), (depth, rows), (rows,))
            yield GpuCase("product + GELU", workloads.product_gelu, shapes, dtype, 2 * rows * rows * depth)
        few, deep = sizes.sides[0], sizes.deep
        shapes = ((few, deep), (deep, few), (few,))
        yield GpuCase("deep product + GELU", workloads.product_gelu, shapes, dtype, 2 * few * few * deep)


def _convolutions(sizes: CaseSizes) -> Iterator[GpuCase]:
    """NumPy has none of bfloat16."""
    for dtype in ("float16", "float32"):
        for n, channels, side in sizes.images:
            shapes = ((n, channels, side, side), (channels, channels, 3, 3), (channels, 1, 1))
            flops = 2 * 9 * channels * channels * n * side * side
            yield GpuCase("convolution", workloads.convolution_bias, shapes, dtype, flops)


def _attention(sizes: CaseSizes) -> Iterator[GpuCase]:
    for dtype in ("float16", "bfloat16"):
        for places in sizes.places:
            shapes = ((32, places, 64),) * 3
            yield GpuCase("attention", workloads.narrow_attention, shapes, dtype, 4 * 32 * places * places * 64)


def _blocks(sizes: CaseSizes) -> Iterator[GpuCase]:
    n, d = sizes.places[0], sizes.width
    shapes = ((n, d), (d, 3 * d), (d, d), (d,), (d,), (d, 4 * d), (4 * d,), (4 * d, d))
    for dtype in ("float16", "bfloat16"):
        yield GpuCase("transformer block", workloads.transformer_block, shapes, dtype, 2 * n * d * (12 * d + 2 * n))
