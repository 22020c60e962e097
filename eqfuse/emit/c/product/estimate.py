"""What a product costs about in tiles of our own, by its extents alone: what the search goes by before schedules.

In: the extents of a product. Out: seconds. Next stop: `eqfuse/emit/c/estimates.py`; `schedule.py` has the price.
"""

from __future__ import annotations

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.c.device import vector_bytes
from eqfuse.emit.c.product.blocks import UNIT_ROWS, heights
from eqfuse.emit.c.product.schedule import OPERAND_COPIED, tile_rate
from eqfuse.emit.c.product.tile import MOST_DOTS, RegisterTile, dots_for, register_tile, terms
from eqfuse.ops.types import TensorType


def product_seconds(out: TensorType, depth: int, dtype: np.dtype, device: Device) -> float:
    """Seconds of all threads for a product that gives `out`, of sums of `depth` terms in `dtype`."""
    size, (down, across) = dtype.itemsize, out.shape[-2:]
    high = min(down, UNIT_ROWS)
    blocks = heights(down, high)
    tiles = [register_tile(high, blocks, across, vector_bytes(), size, True)]
    if across <= MOST_DOTS:
        tiles.append(dots_for(high, blocks, across, vector_bytes(), size, False))

    outer = out.size // (down * across)

    def cycles(tile: RegisterTile) -> float:
        return terms(tile, blocks, across) / tile.cycles * tile.called(depth, outer > 1)

    multiplied = outer * min(map(cycles, tiles)) * 2 * (vector_bytes() // size) / tile_rate(dtype, device)
    copied = out.size * OPERAND_COPIED / device.scalar_rate("float32")
    return multiplied / device.threads + copied
