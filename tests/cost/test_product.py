"""The price of tiled products on a GPU: tiles, waves, prologues computed again, and the library call they rival."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.cost.work import NOTHING
from eqfuse.emit.cuda.scheduling.contract import product_schedule
from eqfuse.extract.kernel_price import priced
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import conv
from eqfuse.kinds.product import (
    PARTS_JOINED,
    Product,
    fastest,
    fastest_tile,
    is_tiled,
    join_levels,
    product_of,
    seconds,
)
from eqfuse.ops.types import TensorType
from tests.plans.test_fusion import kinds, plan

A100, SHEET = DEVICES["a100"], datasheet("a100")


def product(rows: int, columns: int, depth: int, batch: int = 1, dtype: str = "float32") -> Product:
    return Product(dtype, batch, rows, columns, depth, False, 0, 0.0)


def taken(device: Device, function: Any, *shapes: tuple[int, ...], dtype: str = "float32") -> float:
    answer = priced(trace(function, *(spec(s, dtype) for s in shapes)), device)
    assert not isinstance(answer, str), answer
    return answer[1].seconds


def test_bfloat16_is_multiplied_as_it_lies_in_memory_where_tensor_cores_take_it() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(x @ w + b, 0).astype(x.dtype)

    shapes, bfloat16 = ((4096, 512), (512, 1024), (1024,)), np.dtype("bfloat16")
    with_cores = plan(layer, *shapes, device=DEVICES["h100"], dtype=bfloat16)
    multiplied = [k for k in with_cores.kernels if k.kind == "contract"]
    assert len(multiplied) == 1 and all(n.dtype == bfloat16 for n in multiplied[0].body.inputs)
    assert with_cores.seconds < 1.5 * plan(layer, *shapes, device=DEVICES["h100"], dtype=np.float16).seconds
    without = plan(layer, *shapes, device=DEVICES["v100"], dtype=bfloat16)
    assert len(kinds(without)) > 1


def test_a_tiled_product_takes_whole_tiles() -> None:
    assert seconds(product(8192, 8192, 64), A100) == seconds(product(8192 - 127, 8192 - 127, 64), A100)
    assert seconds(product(8192, 8192, 64), A100) < seconds(product(8193, 8192, 64), A100)


def test_tiles_run_in_whole_waves_over_the_multiprocessors() -> None:
    double: dict[str, Any] = {"rows": 64, "columns": 64, "depth": 4096, "dtype": "float64"}
    full = seconds(product(batch=108, **double), A100)
    assert seconds(product(batch=100, **double), A100) == full
    assert seconds(product(batch=109, **double), A100) == pytest.approx(2 * full)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_small_result_takes_small_tiles_and_a_large_one_large_tiles(dtype: str) -> None:
    small, large = (fastest_tile(product(n, n, 1024, dtype=dtype), A100) for n in (256, 8192))
    assert (large.rows, large.columns) == (128, 128) and small.rows * small.columns < 128 * 128


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_blocks_share_the_terms_of_long_sums_where_tiles_leave_the_device_idle(dtype: str) -> None:
    for rows, columns, depth in ((128, 128, 65_536), (64, 64, 16_384)):
        deep = product(rows, columns, depth, dtype=dtype)
        tiles = fastest(deep, A100)
        assert tiles.splits > 16 and (tiles.splits - 1) * tiles.part < depth <= tiles.splits * tiles.part
        assert tiles.seconds < seconds(replace(deep, batch=A100.multiprocessors), A100) / 4
    assert fastest(product(8192, 8192, 65_536, dtype=dtype), A100).splits == 1
    assert fastest(product(64, 64, 32, dtype=dtype), A100).splits == 1
    assert fastest(product(128, 128, 65_536, dtype=dtype), SHEET).splits == 1


def test_what_is_left_of_shared_terms_is_counted_with_the_joining() -> None:
    def layer(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    graph = trace(layer, spec((128, 8192), "float32"), spec((8192, 128), "float32"))
    schedule = product_schedule(graph, A100)
    tile, splits = schedule.tile, schedule.tiling.splits
    left = [count * 128 * 128 * 4 for count, _ in join_levels(splits)]
    assert schedule.bytes_written - 128 * 128 * 4 == schedule.read_between > sum(left) >= splits * 128 * 128 * 4
    assert math.prod(schedule.grid) == splits * (128 // tile.rows) * (128 // tile.columns)
    price, bare = schedule.price(A100, NOTHING), replace(schedule, tiling=replace(schedule.tiling, join=0.0))
    assert price.seconds == pytest.approx(bare.price(A100, NOTHING).seconds + schedule.tiling.join)


def test_parts_are_joined_in_groups_until_one_is_left() -> None:
    assert join_levels(1) == () and join_levels(8) == ((8, 8),) and join_levels(9) == ((9, 3), (3, 3))
    for splits in range(2, 700):
        levels = join_levels(splits)
        counts = [count for count, _ in levels]
        assert counts[0] == splits and all(1 < group <= PARTS_JOINED for _, group in levels)
        assert [-(-count // group) for count, group in levels] == [*counts[1:], 1]


def test_a_right_operand_without_batch_multiplies_one_tall_matrix() -> None:
    types = [TensorType(np.dtype("f4"), s) for s in ((8, 100, 64), (64, 32))]
    contraction = product_of("matmul", (), types, TensorType(np.dtype("f4"), (8, 100, 32)), A100)
    assert (contraction.batch, contraction.rows, contraction.columns, contraction.depth) == (1, 800, 32, 64)


def test_a_convolution_is_the_product_of_filters_and_windows() -> None:
    x, w, y = (TensorType(np.dtype("f4"), s) for s in ((2, 6, 10, 10), (8, 3, 3, 3), (2, 8, 10, 10)))
    contraction = product_of("conv", ((1, 1), ((1, 1), (1, 1)), (1, 1), 2), [x, w], y, A100)
    assert (contraction.batch, contraction.rows, contraction.columns, contraction.depth) == (2, 4, 200, 27)


def test_a_prologue_is_computed_once_for_every_column_of_tiles() -> None:
    """G4: tiles of 128 columns."""
    wide, narrow = (product(4096, n, 4096) for n in (4096, 64))
    assert wide.again(4096 * 4096, SHEET) == 32 and narrow.again(4096 * 4096, SHEET) == 1


def test_a_prologue_of_a_convolution_is_computed_for_every_place_in_the_window() -> None:
    bare = taken(SHEET, lambda x, w: conv(x, w, padding=1), (64, 64, 56, 56), (64, 64, 3, 3))
    before = taken(SHEET, lambda x, w: conv(np.sqrt(np.abs(x)), w, padding=1), (64, 64, 56, 56), (64, 64, 3, 3))
    assert before - bare == pytest.approx(2 * 9 * 64 * 64 * 56 * 56 / SHEET.scalar_rate("float32"), rel=0.05)


def test_work_around_a_product_costs_it_the_librarys_rate() -> None:
    shapes = ((4096, 4096), (4096, 4096))
    call, tiled = taken(A100, np.matmul, *shapes), taken(A100, lambda x, w: -(x @ w), *shapes)
    assert tiled > 1.2 * call
    assert taken(SHEET, lambda x, w: -(x @ w), *shapes) == pytest.approx(taken(SHEET, np.matmul, *shapes), rel=0.01)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_short_sums_take_their_epilogue_and_long_ones_leave_it_to_the_next_kernel(dtype: type) -> None:
    """Work after the product saves one write and one read of it; our own product costs part of the sums' time."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(x @ w + b, 0)

    short, long = (plan(layer, (8192, k), (k, 4096), (4096,), device=A100, dtype=dtype) for k in (64, 4096))
    assert kinds(short) == ["contract"] and kinds(long) == ["contract", "map"]


def test_a_prologue_is_fused_where_few_columns_read_it_and_stored_where_many_do() -> None:
    """N7, G4"""
    for id, wanted in (("G4 N=64", ["contract"]), ("G4 N=4096", ["map", "contract"])):
        function, types = GRAPHS[id].program(small=False)
        assert kinds(plan(function, *(t.shape for t in types), device=SHEET, dtype=np.float16)) == wanted


def test_a_convolution_and_all_that_follows_elementwise_are_one_kernel_on_a_gpu() -> None:
    function, types = GRAPHS["G17"].program(small=False)
    for device in (SHEET, DEVICES["h100"]):
        assert kinds(plan(function, *(t.shape for t in types), device=device)) == ["contract"]


def test_a_lone_convolution_is_whichever_is_cheaper() -> None:
    """Library calls store the windows, which costs most where they are many and the product is small."""
    wide, deep = (((64, 64, 56, 56), (256, 64, 1, 1)), ((32, 256, 14, 14), (256, 256, 3, 3)))
    costlier = []
    for shapes in (wide, deep):
        graph = trace(conv, *(spec(s, "float32") for s in shapes))
        assert is_tiled(graph, DEVICES["h100"]) == (priced(graph, DEVICES["h100"])[0].fused)  # type: ignore[union-attr]
        costlier.append(is_tiled(graph, DEVICES["h100"]))
    assert costlier == [True, False]
