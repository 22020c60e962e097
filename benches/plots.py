"""Plots of the comparison with greedy fusion: predicted against measured, factors by row, the ablation.

In: rows. Out: PNG files. Needs matplotlib: pip install 'eqfuse[plot]'.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eqfuse.benches.ablations import ABLATIONS
from eqfuse.benches.limits import new_figure
from eqfuse.benches.measured import Measurement, agreement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eqfuse.benches.greedy import Prediction


def draw(folder: Path, predicted: Sequence[Prediction], measured: Sequence[Measurement]) -> list[Path]:
    """Write the plots into `folder` and return their paths."""
    figures = {f"ablation {d}": (new_figure(14, 5), d) for d in dict.fromkeys(p.device for p in predicted)}
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (figure, device) in figures.items():
        _ablation(figure.subplots(), device, [p for p in predicted if p.device == device])
        paths.append(_kept(figure, folder / f"{name.lower().replace(', ', ' ').replace(' ', '-')}.png"))
    if measured:
        scatter = new_figure(6, 6)
        _scatter(scatter.subplots(), measured)
        paths.append(_kept(scatter, folder / "predicted-and-measured.png"))
    return paths


def _kept(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path


def _ablation(axes: Axes, device: str, rows: Sequence[Prediction]) -> None:
    """Bars: how many times faster than the best greedy plan each ablation is by prediction."""
    names = [name for name in ABLATIONS if name != "greedy"]
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        heights = [p.choices.over(name) for p in rows]
        axes.bar(np.arange(len(rows)) + i * width, heights, width, bottom=0, label=name)
    axes.set_yscale("log")
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_xticks(np.arange(len(rows)) + 0.4 - width / 2, [p.subject.id for p in rows], rotation=90, fontsize=7)
    axes.set_ylabel("time of the best greedy plan over the ablation's")
    axes.set_title(f"predicted on {device}")
    axes.legend()


def _scatter(axes: Axes, measured: Sequence[Measurement]) -> None:
    for joint in (False, True):
        plans = [p for row in measured for i, p in enumerate(row.plans) if (i == row.ablations["joint"]) == joint]
        axes.loglog(
            [p.predicted * 1e3 for p in plans], [p.measured * 1e3 for p in plans], "o", markersize=4, alpha=0.7,
            label="joint" if joint else "other plans",
        )  # fmt: skip
    ends = [f(p.predicted * 1e3 for row in measured for p in row.plans) for f in (min, max)]
    axes.plot(ends, ends, color="black", linewidth=0.5)
    axes.set_xlabel("predicted, ms")
    axes.set_ylabel("measured, ms")
    ranking = agreement(measured)
    axes.set_title(f"{ranking.plans} plans, Spearman {ranking.spearman:.3f}")
    axes.legend()
