"""Prices of products in C: of small ones, of which a core begins the next while it waits for the sums of one."""

from __future__ import annotations

import pytest

from eqfuse.emit.c.product.tile import RegisterTile, tile_forms
from eqfuse.ir.graph import node
from eqfuse.kinds import kind_named
from tests.support.c_target import C
from tests.support.kernels import body, read

ALONE = C.one_thread()
DEPTHS = range(1, 200)


@pytest.mark.parametrize("dots", [False, True])
def test_a_small_product_among_others_takes_no_longer_than_one_alone(dots: bool) -> None:
    for rows, vectors in tile_forms(12, 64):
        tile = RegisterTile(rows, vectors, 8, dots)
        among, alone = ([tile.called(depth, apart) for depth in DEPTHS] for apart in (True, False))
        assert all(a <= b for a, b in zip(among, alone, strict=True)), tile
        assert among == sorted(among), f"{tile}: more terms take less time"


def seconds(count: int, extent: int) -> float:
    """Beyond the launch, of so many products of square matrices."""
    x, w = read(0, (count, extent, extent)), read(1, (count, extent, extent))
    schedule = kind_named("contract").schedule(body([x, w], node("matmul", (x, w))), ALONE)
    return schedule.price(ALONE).seconds - ALONE.launch_seconds


@pytest.mark.parametrize("extent", [2, 3, 4, 8])
def test_many_small_products_cost_less_than_as_many_alone(extent: int) -> None:
    assert seconds(1000, extent) < 0.8 * 1000 * seconds(1, extent)
