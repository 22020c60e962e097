"""NumPy kernels: one Python function per kernel of a plan.

In: a `Kernel` and the `Device` it is made for. Out: `NumpyKernel`, readable source and a function. Next: `runtime`.
A body becomes tiles on several threads where that pays, and plain NumPy calls on whole arrays where it does not; shapes
decide, never a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.emit.numpy_library import library_kernel
from eqfuse.emit.numpy_panel import panel_kernel
from eqfuse.emit.numpy_source import Source, straight_kernel
from eqfuse.emit.panel import cut, panel_of, single_thread_seconds, tile_elements
from eqfuse.hardware import Device
from eqfuse.ir import Graph
from eqfuse.ops import Role, row
from eqfuse.plan import Kernel
from eqfuse.threads import pool, scratch
from eqfuse.views import push_views

TILE_FROM = 1.5e-4  # seconds of work on one thread; less is not worth waking others (measured: 50 µs)


@dataclass(frozen=True)
class NumpyKernel:
    """`run(outs, ins)` writes the results of `body` into `outs`, which must not overlap `ins`."""

    source: str
    run: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
    scratch_bytes: int  # of all threads together


_emitted: dict[tuple[str, str, Device], NumpyKernel] = {}


def emit_kernel(kernel: Kernel, device: Device) -> NumpyKernel:
    """The NumPy function of `kernel`; equal kernels share one. UnsupportedOp when the body has no NumPy form."""
    key = (kernel.kind, kernel.body.key, device)
    found = _emitted.get(key)
    if found is None:
        source = _source(kernel.kind, kernel.body, device)
        text, run = source.compile({"share": pool.share, "scratch": scratch.get})
        found = _emitted[key] = NumpyKernel(text, run, source.scratch_bytes)
    return found


def _source(kind: str, body: Graph, device: Device) -> Source:
    if kind in ("library", "view"):
        return library_kernel(body)
    body = push_views(body)
    if single_thread_seconds(body, device) < TILE_FROM or not all(o.type.size for o in body.outputs):
        return straight_kernel(body)
    return _panels(body, device)


def _panels(body: Graph, device: Device) -> Source:
    panel = panel_of(body)
    products = [n for n in body.operators if row(n.op).role is Role.CONTRACTION]
    values = [n for n in body.nodes if row(n.op).role is not Role.LEAF]
    whole = [a for a, w in enumerate(panel.whole) if w]
    row_elements = max(math.prod(panel.dims(n.shape)[a] for a in whole) for n in values)
    target = tile_elements(body, device, live=4)
    chosen = cut(panel, row_elements, target, device.threads, bool(products))
    if chosen is None or chosen.count == 1:
        return straight_kernel(body)
    return panel_kernel(body, panel, chosen, device.threads)
