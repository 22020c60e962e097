"""Rows in parts: so that few long rows occupy all threads, and so that parts stay near while passes go over them.

In: a nest of loops and the body that they run. Out: `Split`, the same for any number of threads. Next stop:
`schedule.py`; what joins the parts is written by `joining.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.cost.work import LINE
from eqfuse.emit.c.cells import is_map
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.loops import HELD
from eqfuse.emit.c.nest import TILE, Nest
from eqfuse.emit.c.ops import PLACES
from eqfuse.emit.c.passes import is_load, is_reduction
from eqfuse.emit.c.rates import near_bytes
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.cascade import Cascade, cascade_of
from eqfuse.ops.types import Shape

UNIT_COLUMNS = 2048  # columns of a unit of few rows: memory is read line after line
ROW_PARTS = 64  # of rows that are split among units, at most, where all of a row is near
ELEMENTS_OF_A_PART = 1 << 14  # elements of a part at least
SHORT_PART = 1 << 10  # elements of a part at least, where it is one that stays near
FEW_UNITS = 16  # fewer units than these are split, however many threads there are: sums do not depend on them


@dataclass(frozen=True)
class Split:
    """The loops; a reduced dimension of which units take blocks, if one is split; how parts are joined where later
    reductions need earlier ones."""

    nest: Nest
    dimension: int | None = None
    cascade: Cascade | None = None


def split_of(
    nest: Nest, body: Graph, space: Shape, stage: dict[Node, int], forms: Sequence[Form], itemsize: int, device: Device
) -> Split:
    """`stage`: by value, the passes before it. `itemsize`: bytes of an element in all arrays together."""
    several, reduced = max(stage.values()) > 1, [d for d, dim in enumerate(nest.dims) if dim.reduced]
    whole = Split(with_few_columns(nest, itemsize, device) if nest.by_columns and several else nest)
    beside = [o for o in body.outputs if not stage[o]]
    joined = [o for o in body.outputs if stage[o]]
    leaves = all(o.shape == space for o in beside) and all(o.shape != space for o in joined)
    if not reduced or not joined or not leaves or any(n.op in PLACES for n in body.nodes) or _maps_after(joined):
        return whole
    if not several:
        return whole if nest.units >= FEW_UNITS else _among_units(nest, reduced)
    if beside:
        return whole
    is_near = near_bytes(whole.nest, forms) <= device.l2_bytes // 2
    if (is_near and whole.nest.units >= FEW_UNITS) or any(map(is_map, body.nodes)):
        return whole
    cascade = cascade_of(body)
    return whole if cascade is None else _near(nest, reduced, forms, cascade, device) or whole


def _among_units(nest: Nest, reduced: Sequence[int]) -> Split:
    """Few long rows of one pass."""
    unsplit = nest
    if nest.by_columns:
        nest = of_width(nest, UNIT_COLUMNS)
    outer = [i for i in reduced if i != nest.vector and nest.dims[i].extent >= FEW_UNITS]
    d = max(outer or reduced, key=lambda i: nest.dims[i].extent)  # loops of vectors stay long
    block = -(-nest.dims[d].extent // max(1, _parts(nest, d)))
    if d == nest.vector:
        block = -(-block // LINE) * LINE
    return Split(unsplit) if block >= nest.dims[d].extent else Split(_in_blocks(nest, d, block), d)


def _near(nest: Nest, reduced: Sequence[int], forms: Sequence[Form], cascade: Cascade, device: Device) -> Split | None:
    """Rows in parts that stay near from pass to pass; None where these would be too short."""
    if nest.by_columns:
        nest = of_width(nest, TILE)
    outer = [d for d in reduced if d != nest.vector]
    d = max(outer, key=lambda i: nest.dims[i].extent) if nest.by_columns else min(outer, default=nest.vector)
    near = device.l2_bytes // (4 if d == nest.vector else 2)  # along a row the next part is fetched ahead
    most = near // max(1, near_bytes(_in_blocks(nest, d, 1), forms))
    if not most and d != nest.vector:
        d, most = nest.vector, device.l2_bytes // 4 // max(1, near_bytes(_in_blocks(nest, nest.vector, 1), forms))
    parts = _parts(nest, d) if nest.units < FEW_UNITS else 1
    block = min(most, -(-nest.dims[d].extent // max(1, parts)))
    if d == nest.vector:
        block = block // LINE * LINE
    elif block:
        block = -(-nest.dims[d].extent // -(-nest.dims[d].extent // block))
    blocked = _in_blocks(nest, d, block) if block else nest
    elements = math.prod([blocked.dims[i].block for i in {*blocked.inside, blocked.vector}])
    is_short = elements < SHORT_PART or block >= nest.dims[d].extent
    return None if not block or is_short else Split(blocked, d, cascade)


def _parts(nest: Nest, d: int) -> int:
    """Into how many parts rows are split so that threads share them."""
    return min(ROW_PARTS, nest.elements // (ELEMENTS_OF_A_PART * nest.units), nest.dims[d].extent)


def _in_blocks(nest: Nest, d: int, block: int) -> Nest:
    return replace(nest, dims=(*nest.dims[:d], replace(nest.dims[d], block=block), *nest.dims[d + 1 :]))


def with_few_columns(nest: Nest, itemsize: int, device: Device) -> Nest:
    """The nest with as few columns to a unit as let its elements, of `itemsize` bytes in all arrays together, stay near
    from pass to pass; none narrower than a few cache lines."""
    rows = max(1, math.prod(nest.dims[d].extent for d in nest.inside))
    most = min(device.l2_bytes // (2 * itemsize * rows), HELD // (8 * rows))
    return of_width(nest, max(LINE, min(nest.runs.block, most // LINE * LINE)))


def of_scans(nest: Nest, again: bool, itemsize: int, device: Device) -> Nest:
    """The nest in as many units as threads share well, where columns are scanned; `again`: in several passes."""
    if not nest.by_columns:
        return nest
    if again:
        nest = with_few_columns(nest, itemsize, device)
    units = nest.units // nest.runs.blocks
    return of_width(nest, max(LINE, min(nest.runs.block, nest.runs.extent * units // FEW_UNITS // LINE * LINE)))


def of_width(nest: Nest, block: int) -> Nest:
    """The nest with `block` columns to a unit."""
    dims = [replace(x, block=min(x.extent, block)) if d == nest.vector else x for d, x in enumerate(nest.dims)]
    return replace(nest, dims=tuple(dims))


def _maps_after(outputs: Sequence[Node]) -> bool:
    """Is what is made of the results of reductions joined of pieces, or gathered?"""
    met: set[Node] = set()
    stack = [o for o in outputs if not is_reduction(o)]
    while stack:
        n = stack.pop()
        if n not in met and not is_load(n):
            met.add(n)
            stack += [a for a in n.args if not is_reduction(a)]
    return any(map(is_map, met))
