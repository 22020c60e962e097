"""NumPy kernels: one Python function per kernel of a plan.

In: a `Kernel` and the `Device` it is made for. Out: `NumpyKernel`, readable source and a function. Next: `runtime`.
A body becomes tiles on several threads where that pays, and plain NumPy calls on whole arrays where it does not; shapes
decide, never a clock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.conv import conv_kernel
from eqfuse.emit.numpy.library import library_kernel, turning_kernel
from eqfuse.emit.numpy.ops import WINDOWED
from eqfuse.emit.numpy.panel import panel_kernel
from eqfuse.emit.numpy.reduce import reduce_kernel, reductions_last, worth_it
from eqfuse.emit.numpy.source import Source, straight_kernel
from eqfuse.emit.numpy.tiling import cut, grain, panel_of, tile_elements, whole_seconds, worth_tiling
from eqfuse.emit.numpy.window import window_kernel
from eqfuse.ir.graph import Graph
from eqfuse.ir.views import TooOften, computes, push_views
from eqfuse.kinds import kind_named
from eqfuse.machine.threads import pool, scratch
from eqfuse.ops import Role, row
from eqfuse.plan.memory import ALIGNMENT, Needs
from eqfuse.plan.plan import Kernel


@dataclass(frozen=True, eq=False)
class NumpyKernel:
    """`run(outs, ins)` writes the results of `body` into `outs`, which must not overlap `ins`.

    The `parts` of an inline kernel may stand in a program's function instead.
    """

    source: str
    parts: Source

    @property
    def needs(self) -> Needs:
        """The memory that it takes."""
        parts = self.parts
        rooms = sum(-(-t.nbytes // ALIGNMENT) * ALIGNMENT for t in parts.rooms.values())
        return Needs(rooms, parts.scratch_bytes, parts.threads, parts.temporary_bytes, parts.held_bytes)

    @cached_property
    def run(self) -> Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]:
        names = {"__builtins__": {}, **self.parts.names, "share": pool.share}
        names |= {"scratch": scratch.take, "keep": scratch.give}
        exec(compile(self.source, "<eqfuse kernel>", "exec"), names)
        run: Any = names["run"]
        return run


KEPT = 1024  # kernels that later programs may share; the oldest go first
_emitted: dict[tuple[str, str, Device, bool], NumpyKernel] = {}
_lock = threading.RLock()


def emit_kernel(kernel: Kernel, device: Device, gaps: bool = False) -> NumpyKernel:
    """The NumPy function of `kernel`; equal kernels share one. UnsupportedOp when the body has no NumPy form.

    `gaps`: its result will have gaps between its rows, where NumPy is slower, so that it writes each element once.
    """
    key = (kernel.kind, kernel.body.key, device, gaps)
    found = _emitted.get(key)
    if found is None:
        source = _source(kernel.kind, kernel.body, device, gaps)
        found = NumpyKernel(source.text(), source)
        with _lock:
            _emitted[key] = found
            while len(_emitted) > KEPT:
                del _emitted[next(iter(_emitted))]
    return found


def _source(kind: str, body: Graph, device: Device, gaps: bool) -> Source:
    own = kind_named(kind).numpy
    if own is not None:
        return own(body, device)
    computed = any(computes(n) for n in body.nodes)
    if kind in ("library", "view") and computed and not any(n.op in WINDOWED for n in body.nodes):
        return library_kernel(body)
    try:
        pushed = push_views(body)
    except TooOften:
        return straight_kernel(body)
    whole = _for_whole_arrays(body, pushed, device)
    tiled = worth_tiling(pushed, whole_seconds(whole, device), device)
    if not tiled or not all(o.type.size for o in body.outputs):
        return straight_kernel(whole)
    if not computed:
        return turning_kernel(pushed, device)
    return _panels(pushed, device, gaps)


def _for_whole_arrays(body: Graph, pushed: Graph, device: Device) -> Graph:
    """Of `body` and itself with views `pushed`, which may repeat work, what NumPy computes faster on whole arrays."""
    if sum(map(computes, pushed.nodes)) <= sum(map(computes, body.nodes)):
        return pushed
    return min(pushed, body, key=lambda graph: whole_seconds(graph, device))


def _panels(body: Graph, device: Device, gaps: bool) -> Source:
    for n in body.operators:
        if n.op == "conv":
            return conv_kernel(body, n, device)
        if row(n.op).role is Role.WINDOW:
            return window_kernel(body, n, device)
    panel = panel_of(body)
    products = [n for n in body.operators if row(n.op).role is Role.CONTRACTION]
    values = [n for n in body.nodes if row(n.op).role is not Role.LEAF]
    whole = [a for a, w in enumerate(panel.whole) if w]
    depth = max((n.args[0].shape[-1] for n in products), default=0)  # the rows of a left operand pass the cache too
    row_elements = max(depth, *(math.prod(panel.dims(n.shape)[a] for a in whole) for n in values))
    target = tile_elements(body, device)
    reductions = reductions_last(body)
    alone = sum(map(computes, body.nodes)) == 1
    if reductions and not products and worth_it(panel, target, device.threads, alone):
        return reduce_kernel(body, reductions, panel, target, device.threads)
    if panel.short_rows() and not products:
        panel = panel.flip()
    chosen = cut(panel, row_elements, target, device.threads, depth, grain(body))
    if chosen is None or chosen.count == 1:
        return straight_kernel(body)
    return panel_kernel(body, panel, chosen, device.threads, gaps)
