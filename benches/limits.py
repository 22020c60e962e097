"""How near to the limits of a CPU a program comes: the roofline of a whole program, and a plot of it.

In: a plan, and what a call of it took. Out: `Roofline`, the least that a call can take on that device by its profile; a
PNG file, which needs matplotlib. After Williams, Waterman, Patterson, "Roofline" (CACM 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.roofline import work
from eqfuse.errors import EqfuseError
from eqfuse.ops import Role
from eqfuse.plan.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFF = 1.5  # times that a price may be off before it is flagged


@dataclass(frozen=True)
class Roofline:
    """`memory`: seconds to read each argument once and write each result, by the bandwidth of the level that holds them
    all. `compute`: seconds of the plan's operators, each at the rate its vectors were measured at, products at that of
    BLAS. By these figures no call of the plan takes less than the larger, whatever lies between its kernels."""

    memory: float
    compute: float
    bytes: int
    flops: int

    @property
    def seconds(self) -> float:
        return max(self.memory, self.compute)


def roofline_of(plan: Plan) -> Roofline:
    """On the plan's own device. What a loop computes counts as priced."""
    moved = sum(plan.types[v].nbytes for v in {*plan.inputs, *plan.outputs})
    compute = 0.0
    for kernel in plan.kernels:
        if kernel.inner:
            compute += kernel.price.seconds
            continue
        for n in kernel.body.operators:
            types = [a.type for a in n.args]
            if n.row.role is Role.PIECES:  # which readers take where they lie
                continue
            done = work(n.op, n.attrs, n.type, types, plan.device)
            product = n.row.role is Role.CONTRACTION
            rate = plan.device.contraction_flops(types[0].dtype.name) if product else 0
            compute += done.flops / rate if product else done.seconds
    flops = sum(k.price.flops for k in plan.kernels)
    return Roofline(moved / plan.device.bandwidth(moved), compute, moved, flops)


def flag(price: float) -> str:
    """Of a price that is so many times what was measured."""
    return "" if 1 / OFF <= price <= OFF else "!"


def new_figure(width: float, height: float) -> Figure:
    """Of so many inches. EqfuseError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EqfuseError("plots need matplotlib: pip install 'eqfuse[plot]'") from None
    return Figure((width, height))


def draw(figure: Figure, path: Path, device: Device, rows: Sequence[dict[str, Any]]) -> None:
    """A roofline of `device` and on it each of `rows`: its name, its flops, its bytes and the seconds of its call."""
    axes = figure.subplots()
    intensities = [max(row["flops"], 1) / row["bytes"] for row in rows]
    across = np.geomspace(min([0.1, *intensities]) / 2, max([10.0, *intensities]) * 2, 100)
    peak = device.contraction_flops("float32")
    for capacity, rate in device.levels:
        last = (capacity, rate) == device.levels[-1]
        label = f"{'memory' if last else f'up to {capacity / 2**20:,.0f} MiB'}: {rate / 1e9:,.0f} GB/s"
        axes.loglog(across, np.minimum(across * rate, peak) / 1e9, linewidth=1, label=label)
    vectors = device.scalar_rate("float32")
    for rate, label in ((peak, "products"), (vectors, "additions or multiplications in vectors")):
        axes.axhline(rate / 1e9, color="black", linewidth=0.5, linestyle=":")
        axes.annotate(f"{label}: {rate / 1e9:,.0f} Gflop/s", (across[0], rate / 1e9), fontsize=7, va="bottom")
    for size, marker in zip(dict.fromkeys(row["size"] for row in rows), "osv^", strict=False):
        chosen = [(x, row) for x, row in zip(intensities, rows, strict=True) if row["size"] == size]
        rates = [row["flops"] / row["taken"] / 1e9 for _, row in chosen]
        axes.plot([x for x, _ in chosen], rates, marker, markersize=4, label=size)
        for (x, row), rate in zip(chosen, rates, strict=True):
            axes.annotate(row["name"], (x, rate), fontsize=6, xytext=(3, 2), textcoords="offset points")
    axes.set_xlabel("flops a byte of arguments and results")
    axes.set_ylabel("Gflop/s")
    axes.set_title(f"{device.name}, {device.threads} threads")
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=120, bbox_inches="tight")
