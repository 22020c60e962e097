"""What a kernel costs on NumPy: whether its tiles pay, how many there are, and how long they take.

In: the state of a kernel body, its `Work` and its traffic. Out: seconds. Used by `roofline`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import overlapped
from eqfuse.cost.work import Work, total_work
from eqfuse.emit.numpy.cost.calls import transposed_read
from eqfuse.emit.numpy.cost.figures import CLEARLY, DEEP, LIVE, PANEL_ROWS, PRODUCT_BYTES, PRODUCT_ROWS, SPILL

if TYPE_CHECKING:
    from eqfuse.kinds.state import State


def kernel_seconds(state: State, traffic: int, work: Work, device: Device, itemsize: int) -> tuple[float, float, Work]:
    """Seconds of a kernel without its launch, those of its memory traffic, and its work, copies of arrays included."""
    across = [math.prod(state.space)] * state.across(itemsize)
    # alone, a reduction takes the axes in the order in which they lie
    tiled = _tiled(state) and not (across and state.template.only_reduces and work.calls + work.once == 1)
    if state.left is not None:
        across += [math.prod(state.left.shape)] * state.left.across(itemsize)
    if tiled and across:
        work = total_work([work, *[transposed_read(elements, itemsize, device) for elements in across]])
    memory = device.memory_seconds(traffic)
    left = 0.0 if state.left is None else _left_in_tiles(state, itemsize, device)
    work = spilled(work, state.held, itemsize, device)
    if not tiled or not tiles_pay(work, traffic, device) or _is_one_tile(state):
        seconds = on_whole_arrays(work, traffic, device)
    else:
        least = 1 if state.products else _least_tiles(device)  # few rows of a product are not cut
        tiles = max(least, math.ceil(LIVE * itemsize * math.prod(state.space) / device.tile_bytes))
        calls: float = work.calls * tiles
        if device.threads > 1:  # tiles are larger where calls would be short
            lasting = work.seconds * device.threads / device.lasting_seconds
            calls = min(calls, max(work.calls * least, lasting))
        seconds = seconds_in_tiles(work.seconds, calls, work.once, traffic, left, device)
    return seconds, memory + left, work


def on_whole_arrays(work: Work, traffic: int, device: Device) -> float:
    """Seconds of one NumPy call after another on whole arrays. Of a product BLAS takes all threads where that is
    faster."""
    return max(work.whole - work.shared, (device if work.shared else device.single).memory_seconds(traffic))


def seconds_in_tiles(work: float, calls: float, once: int, traffic: int, left: float, device: Device) -> float:
    """Seconds of `calls` in tiles on all threads, which compute for `work` seconds, and of those made `once`.

    `left`: seconds of memory that tiles of a left operand take."""
    if device.threads > 1:
        calls *= device.lock
    seconds = device.dispatch_seconds + (calls / device.threads + once) * device.call_seconds
    # a call waits for what it reads from memory; only the tiles of other threads go on meanwhile
    alone = device.single.memory_seconds(traffic) / device.threads
    return seconds + max(overlapped(device.memory_seconds(traffic) + left, work), work + alone)


def spilled(work: Work, held: int, itemsize: int, device: Device) -> Work:
    """`work` with what it takes that rows of `held` elements, between two products, overflow the nearest cache."""
    return work._replace(seconds=SPILL * work.seconds) if held * itemsize * PANEL_ROWS > device.l2_bytes else work


def product_rows(row: int, depth: int) -> int:
    """The fewest rows of a product that make a tile: of fewer, it spends its time repacking the right operand.

    `row`: elements of the longest row that a tile holds; `depth`: length of the sums."""
    return max(1, min(PRODUCT_ROWS * (2 if depth >= DEEP else 1), PRODUCT_BYTES // (4 * max(row, 1))))


def _least_tiles(device: Device) -> int:
    """The fewest that a kernel is cut into: one thread may be late."""
    return 2 * device.threads if device.threads > 1 else 1


def tiles_pay(work: Work, moved: int, device: Device) -> bool:
    """Are tiles on several threads clearly faster than one NumPy call after another on whole arrays?

    `moved`: bytes that the kernel reads and writes.
    """
    tiles = max(_least_tiles(device), 1 + moved / device.tile_bytes)
    calls = (device.lock * work.calls * tiles / device.threads + work.once) * device.call_seconds
    tiled = device.wake * device.dispatch_seconds + max(work.seconds, moved / device.bandwidth(moved)) + calls
    return work.whole > CLEARLY * tiled


def _tiled(state: State) -> bool:
    """Can the NumPy emitter cut a kernel of `state` into tiles? One row alone it does not."""
    kind = state.template
    return math.prod(state.reduced) > 1 if kind.reduces and kind.has_levels else not kind.is_library


def _is_one_tile(state: State) -> bool:
    """Has the left operand of a product that a kernel computes too few rows for two tiles? BLAS then has the threads,
    and what comes before it one."""
    if state.left is None and not state.held:
        return False
    *stack, rows, depth = state.left.shape if state.left else (*state.space[:-1], state.held)
    return math.prod(stack) == 1 and rows < 2 * product_rows(max(depth, state.space[-1]), depth)


def _left_in_tiles(state: State, itemsize: int, device: Device) -> float:
    assert state.left is not None
    depth, row = state.left.shape[-1], max(state.left.shape[-1], state.space[-1])
    rows = max(product_rows(row, depth), device.tile_bytes // max(2 * itemsize * row, 1))
    return left_in_tiles(itemsize * math.prod(state.left.shape), itemsize * rows * depth, device)


def left_in_tiles(nbytes: int, tile: int, device: Device) -> float:
    """What it takes to write and read the left operand of a product, of `nbytes`, in tiles that exceed the nearest
    cache."""
    return 2 * nbytes * (1 / device.bandwidth(min(tile * device.threads, nbytes)) - 1 / device.bandwidth(0))
