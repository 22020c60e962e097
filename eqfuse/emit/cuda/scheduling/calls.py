"""The schedule of library calls on a GPU: what CuPy has, one operator after another.

In: a body. Out: `CallsSchedule`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work, touches
from eqfuse.dtypes import BFLOAT16
from eqfuse.emit.cuda.scheduling.host import host_seconds, on_host, uncounted
from eqfuse.emit.cuda.scheduling.map import map_schedule
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, unless_empty
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.product import (
    Product,
    library_seconds,
    narrowed,
    product_of,
    product_of_node,
    widened_product,
)
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS

INTO = ("matmul", "concat", "take", *UFUNCS)  # on the device, CuPy writes their results where they are wanted
# CuPy's functions that one operator takes, where it is not one
CUPY_LAUNCHES = {"isin": 3, "digitize": 3, "pad": 2, "median": 23, "nanmedian": 22}
SCATTER_LAUNCHES = {"set": 9, "subtract": 3}  # by mode, the array in its place; the others take two


@dataclass(frozen=True, kw_only=True)
class CallsSchedule(CudaSchedule):
    """Calls of CuPy's, one after another. `placed`: results that they write where they are wanted, where others are
    copied to. `host`: operators that run on the host, which takes `host_seconds`. `temporary`: bytes that calls leave
    for one another. `widened`: the 16-bit operands of a product of float32 that is all there is, and `product` itself:
    cuBLAS reads them as they are."""

    placed: tuple[Node, ...]
    host: tuple[Node, ...]
    host_seconds: float
    temporary: int
    widened: tuple[Node, ...] = ()
    product: Product | None = None

    @property
    def between(self) -> int:
        return self.temporary

    @property
    def blocks(self) -> float:
        """The library's own."""
        return math.inf

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        price = super().price(device, work)
        return price and replace(price, seconds=price.seconds + self.host_seconds)

    def compute_seconds(self, work: Work, device: Device) -> float:
        if self.product:
            return library_seconds(self.product, device)
        return 0.0 if self.host else work.seconds

    def details(self) -> list[str]:
        if self.product:
            return [f"products of {self.product.dtype} by cuBLAS, summed in float32"]
        return [f"on the host: {', '.join(n.op for n in self.host)}"] if self.host else []


@unless_empty
def calls_schedule(body: Graph, device: Device) -> CudaSchedule:
    """One call for each operator; a gather that is too large for them is a map."""
    if any(n.row.role is Role.GATHER and uncounted(n) for n in body.nodes):
        return map_schedule(body, device)
    if node := widened_product(body, device):
        operands = narrowed(node, device)
        return CallsSchedule(
            bytes_read(body, operands), tuple(o.type.nbytes for o in body.outputs), len(body.outputs),
            placed=(body.outputs[0],), host=(), host_seconds=0.0, temporary=0,
            widened=operands, product=product_of_node(node, device),
        )  # fmt: skip
    working = body.computations
    host = tuple(n for n in working if on_host(n))
    placed = tuple(n for n in dict.fromkeys(body.outputs) if _is_placed(n) and n not in host)
    copies = len(body.outputs) - len(placed)
    temporary = sum(n.type.nbytes for n in working if n not in placed)
    temporary += sum(_unrolled(n, device) for n in working if n.op == "conv")
    started = [n for n in working if n not in host]
    return CallsSchedule(
        _read(body, started), tuple(o.type.nbytes for o in body.outputs), sum(map(launches, started)) + copies,
        placed=placed, host=host, host_seconds=sum(map(host_seconds, host)), temporary=temporary,
    )  # fmt: skip


def _is_placed(n: Node) -> bool:
    return n.op in INTO or n.row.role is Role.UPDATE


def launches(n: Node) -> int:
    """What the call of `n` starts on the device, or those that the emitter writes for it; more inside of CuPy
    and of the libraries below it is their own."""
    called = _launches(n)
    if n.row.role in (Role.LIBRARY, Role.PIECES, Role.REDUCTION, Role.SCAN):  # few of CuPy's know bfloat16
        small = sum(a.dtype == BFLOAT16 for a in n.args)
        called += small + (n.dtype == BFLOAT16 and small > 0)
    return called


def _launches(n: Node) -> int:
    if n.op == "scatter":
        mode, count = n.attr("mode"), n.args[1].type.size
        return 1 + (min(count, 1) + 1 if mode == "set" and count < 2 else SCATTER_LAUNCHES.get(mode, 2))
    if n.op in ("convolve", "correlate"):  # a product, a sum and its place for each element of the shorter one
        return 4 + 3 * min(a.type.size for a in n.args) + (n.op == "correlate" and n.dtype.kind == "c")
    if n.op == "slice_scatter":
        return len(n.args)  # a copy, then each value
    if n.op == "conv":
        return int(n.attr("groups")) + 2 + _padded(n.attr("padding"))
    if n.op in ("window_max", "window_sum"):
        return 1 + _padded(n.attr("padding"))
    return CUPY_LAUNCHES.get(n.op, 1)


def _padded(widths: Any) -> bool:
    return any(map(any, widths))


def _unrolled(n: Node, device: Device) -> int:
    """Bytes that a convolution by calls writes and reads on the way."""
    return product_of(n.op, n.attrs, [a.type for a in n.args], n.type, device).unrolled // 2


def _read(body: Graph, working: list[Node]) -> tuple[int, ...]:
    """Bytes read of every input. Of what a gather or an update looks into, those that it touches."""
    copied = [o for o in body.outputs if o.row.role in (Role.VIEW, Role.LEAF)]
    sizes = bytes_read(body, [*(a for n in working for a in n.args), *copied])
    most = {n.args[0]: touches(n.op, n.attrs, n.args[0].type, n.type) for n in working
            if n.row.role in (Role.GATHER, Role.UPDATE) and n.args[0] not in n.args[1:]}  # fmt: skip
    return tuple(min(nbytes, most.get(n, nbytes)) for n, nbytes in zip(body.inputs, sizes, strict=True))
