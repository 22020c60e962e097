"""The price of a NumPy schedule: what its calls, its tiles and its bytes take.

In: a `NumpySchedule` and the `Device` that it was made for. Out: `Price`. The search estimates the same from a `State`
(`tiles.py`), by the same costs of operators; here calls, tiles and bytes are those that are made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound
from eqfuse.cost.price import Price
from eqfuse.cost.work import LINE, NO_JUMPS, Jumps, Work, gaps, rows_apart, total_work
from eqfuse.emit.numpy.cost.calls import work_of_gaps
from eqfuse.emit.numpy.cost.tiles import left_in_tiles, on_whole_arrays, seconds_in_tiles, spilled
from eqfuse.emit.numpy.tiling import copy_work, node_work
from eqfuse.emit.numpy.transpose_copy import run_axis
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes, leaf_chain, strides_after
from eqfuse.ops import Role

if TYPE_CHECKING:
    from eqfuse.emit.numpy.schedule import NumpySchedule, ReplacedSlices


def schedule_price(schedule: NumpySchedule, device: Device) -> Price:
    """What the kernel of `schedule` costs."""
    body, read, written = schedule.tiled_body, sum(schedule.reads) + schedule.gaps, sum(schedule.writes)
    work = _body_work(body, schedule, device)
    traffic, left = read + written, 0.0
    if schedule.tiles == 1 and not schedule.calls_per_tile:
        seconds = on_whole_arrays(work, traffic, device)
    else:
        work, left = spilled(work, *_row_between_products(body), device), _left_operand_seconds(schedule, device)
        seconds = seconds_in_tiles(
            work.seconds, schedule.calls_per_tile * schedule.tiles, schedule.calls_once, traffic, left, device
        )
        seconds += _beside_calls(schedule.after_tiles, device)
    seconds += device.launch_seconds
    memory = device.memory_seconds(traffic) + left
    flops = work.flops + sum(node_work(n, device).flops for n in schedule.after_tiles)
    return Price(seconds, read, written, flops, bound(seconds, memory, work.seconds))


def replaced_price(schedule: ReplacedSlices, device: Device) -> Price:
    """What slices that are replaced cost: values in tiles, then all else on one thread."""
    read, written = sum(schedule.reads) + schedule.gaps, sum(schedule.writes)
    work = _body_work(schedule.tiled_body, schedule, device)
    calls = schedule.calls_per_tile * schedule.tiles
    seconds = seconds_in_tiles(work.seconds, calls, 0, read + written, 0.0, device) if schedule.stage else 0.0
    seconds += schedule.calls_once * device.call_seconds + _beside_calls(schedule.after_tiles, device)
    seconds += sum(nbytes / device.single.bandwidth(nbytes) for nbytes in schedule.bytes_assigned if nbytes)
    memory = device.memory_seconds(read + written)
    seconds = max(seconds, memory) + device.launch_seconds
    flops = work.flops + sum(node_work(n, device).flops for n in schedule.after_tiles)
    return Price(seconds, read, written, flops, bound(seconds, memory, work.seconds))


def _beside_calls(nodes: Iterable[Node], device: Device) -> float:
    """What `nodes` take on whole arrays, the time to call NumPy aside."""
    return sum(max(0.0, node_work(n, device).whole - device.call_seconds) for n in nodes)


def _body_work(body: Graph, schedule: NumpySchedule, device: Device) -> Work:
    """The work of the operators of `body`, of copies of pieces, of arrays with gaps, and of arrays across the axis that
    they lie along."""
    together = [Work(0, n.type.size * device.element_seconds("concat", n.dtype.name), 0) for n in schedule.copied]
    gathered = schedule.gathered
    together += [work_of_gaps(n.type.size, n.dtype.itemsize, device) for n in gathered]
    steps = {n: [_steps(a, n) for a in n.args if a not in gathered] for n in body.computations}
    works = (node_work(n, device, sum(jumps, NO_JUMPS)) for n, jumps in steps.items())
    return total_work([*works, *together, *copy_work(body, device)])


def _steps(n: Node, reader: Node) -> Jumps:
    """Elements of an array behind views that `reader` reads one by one, with gaps between, or each from a cache line of
    its own."""
    if computes(n) or run_axis(n) is not None:
        return NO_JUMPS
    leaf, chain = leaf_chain(n)
    strides = strides_after(leaf.type, chain) if leaf.op == "input" else None
    steps = [abs(s) for extent, s in zip(n.shape, strides or (), strict=True) if extent > 1] if strides else []
    if strides is None or not steps:
        return NO_JUMPS
    far = n.type.size if steps[-1] * n.dtype.itemsize >= LINE else 0
    if reader.op == "matmul":
        return Jumps(far, 0, rows_apart(n.shape, strides) if strides[-1] == 1 < n.shape[-1] else 0)
    if reader.row.role is not Role.ELEMENTWISE:
        return Jumps(far)
    rows = rows_apart(n.shape, strides) if n.shape == reader.shape else 0
    return Jumps(far, gaps(steps[-1], n.type, reader.type), rows)


def _products(body: Graph) -> list[Node]:
    return [n for n in body.nodes if n.op == "matmul"]


def _row_between_products(body: Graph) -> tuple[int, int]:
    """Elements of a row between two products, and bytes of each."""
    products = _products(body)
    return (products[-1].args[0].shape[-1], products[-1].dtype.itemsize) if len(products) > 1 else (0, 0)


def _left_operand_seconds(schedule: NumpySchedule, device: Device) -> float:
    """What it takes that tiles of the left operand of a product, which the kernel computes, exceed a cache."""
    products = _products(schedule.body)
    if len(products) != 1 or not computes(products[0].args[0]):
        return 0.0
    left = products[0].args[0]
    rows = math.prod(schedule.tile[:-1])
    return left_in_tiles(left.type.nbytes, rows * left.shape[-1] * left.dtype.itemsize, device)
