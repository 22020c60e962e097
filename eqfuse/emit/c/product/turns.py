"""Products whose panels of a right operand are copied a part at a time: units are done in turns of some columns, or of
some terms.

In: `ProductParts`, blocks. Out: `ProductBlocks` in turns. Next stop: `schedule.py`, which prices them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.emit.c.product.blocks import EVEN_UNITS, ProductBlocks, outer_of, product_blocks, product_units
from eqfuse.emit.c.product.parts import ProductParts

NEAR_PANELS = 1 << 20  # bytes of panels that are made at a time, if there are units enough
TURN_SECONDS = 5e-4  # of a turn, at least: threads wait for one another at its ends


def in_turns(parts: ProductParts, blocks: ProductBlocks, device: Device, seconds: float) -> ProductBlocks:
    """`blocks` in as many turns as let the panels of one stay near, where each has work enough for all threads: a part
    of `seconds`, in units of which all have as many."""
    (step, *others), across = blocks.steps, -(-parts.out[-1] // blocks.columns)
    if others or not step.in_panels or parts.rights[0].is_of_constants:
        return blocks
    *_, terms, _ = parts.rights[0].space
    nbytes = math.prod(dim.extent for dim in outer_of(parts, 0)) * terms * parts.out[-1] * parts.dtype.itemsize
    units, turns = product_units(parts, blocks), 1
    for more in range(2, across + 1):
        if nbytes <= NEAR_PANELS * turns or seconds < TURN_SECONDS * more * device.threads:
            break
        each = units // more
        if across % more == 0 and (each % device.threads == 0 or each >= EVEN_UNITS * device.threads):
            turns = more
    return replace(blocks, turns=turns)


def in_turns_of_terms(
    parts: ProductParts, device: Device, seconds: float, panel_bytes: int
) -> ProductBlocks | None:
    """Blocks in turns of so many terms that the panels of one stay near, and turns are no shorter than they may; None
    where a product has no use for them, whose panels take so many bytes without."""
    left = parts.lefts[0]
    if panel_bytes <= NEAR_PANELS:
        return None
    if len(parts.products) > 1 or left.reduces or len(left.body.outputs) > 1 or parts.rights[0].is_of_constants:
        return None
    blocks = product_blocks(parts, device, seconds, at_once=False)
    (step,), (*_, terms, across) = blocks.steps, parts.rights[0].space
    if not step.in_panels or step.tile.dots or step.depth == terms:
        return None
    outer = math.prod(dim.extent for dim in outer_of(parts, 0))
    near = NEAR_PANELS // (outer * step.depth * across * parts.dtype.itemsize)
    long = math.ceil(TURN_SECONDS * device.threads * terms / step.depth / seconds)
    each = step.depth * max(1, near, long)
    return replace(blocks, turns=-(-terms // each), turn_terms=each) if each < terms else None
