"""Joint choice of algebra, fusion and recomputation against greedy fusion: by prediction, and on this CPU's clock.

Run: eqfuse bench greedy [--predict] [--quick] [--json FILE] [--plots DIR] [name…], where a name is a graph, or one of
suite, controls, index maps, pairs, scans, interplay and networks. With --quick and no name: ten graphs (QUICK), an
A100 and this CPU. Beside each: the best greedy plan without index maps, gathers, scans and sums by index ("no maps").
Ablations, on one price and one emitter: greedy (the best of four fusers, no algebra); greedy + pass (the same behind a
fixed-order algebraic pass); algebra only (cheapest operators first, then the best greedy fusion); fusion only (our
extraction of the program as written); joint. The exit status tells whether the joint choice was never costlier by
prediction and every answer right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from eqfuse.benches import tables
from eqfuse.benches.ablations import ABLATIONS, Choices, choices
from eqfuse.benches.measured import Measurement, agreement, geometric_mean, measure
from eqfuse.benches.shortfalls import verdict
from eqfuse.benches.subjects import SUBJECTS, Subject
from eqfuse.benches.timing import machine
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import datasheet, profile
from eqfuse.cost.targets import device_for
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import EqfuseError
from eqfuse.show.progress import progress

TEXTBOOK = "A100, textbook"  # the device of the suite's predicted factors
QUICK = ("G2", "G7", "G12", "N1", "N9", "M1", "P2", "S1", "J15", "BERT of TENSAT")  # of every group, some with a gain
SECONDS = 4.0  # of timing, for one program
SLOWER = 1.03  # how much slower than the best greedy plan a joint one may be


@dataclass(frozen=True)
class Prediction:
    """One program on one device. `saturation`: seconds, of the one space all its devices and ablations share.

    `verdict`: against the factor that the suite predicts at full size on its own device.
    """

    subject: Subject
    device: str
    operators: int
    nodes: int
    saturation: float
    choices: Choices
    verdict: str

    def to_json(self) -> dict[str, Any]:
        ablations = {
            name: {"extractor": c.extractor, "seconds": c.seconds, "kernels": c.kernels, "search_seconds": c.search}
            for name, c in self.choices.ablations().items()
        }
        return {
            "id": self.subject.id, "group": self.subject.group, "device": self.device, "operators": self.operators,
            "egraph_nodes": self.nodes, "saturation_seconds": self.saturation, "ablations": ablations,
            "extractors": {name: c.seconds for name, c in self.choices.by.items()},
            "unmapped": self.choices.unmapped.seconds, "factor": self.choices.factor, "gap": self.choices.gap,
            "verdict": self.verdict,
        }  # fmt: skip


def devices() -> dict[str, Device]:
    gpus = {"A100": profile("a100"), "H200": profile("h200")}
    return {TEXTBOOK: datasheet("a100"), **gpus, "this CPU": device_for("cpu")}


def predictions(subject: Subject, on: dict[str, Device], quick: bool) -> Iterator[Prediction]:
    """What every ablation is predicted to take, at full size; with `quick` at a small one, and without the optimum.

    Networks are not asked for the optimum either: that takes ten seconds for each distinct segment.
    """
    graph = subject.small() if quick else subject.full()
    space = saturate(graph)
    for name, where in on.items():
        ablations = choices(space, where, exact=not quick and subject.group != "networks")
        judged = verdict(subject.id, ablations) if name == TEXTBOOK and not quick else ""
        yield Prediction(subject, name, len(graph.operators), space.n_nodes, space.seconds, ablations, judged)


def selected(names: Sequence[str]) -> list[Subject]:
    """The subjects with one of `names` as their name or group; all for none. EqfuseError for an unknown name."""
    choices = {s.id for s in SUBJECTS.values()} | {s.group for s in SUBJECTS.values()}
    if unknown := [n for n in names if n not in choices]:
        raise EqfuseError(f"no graph or group is named {unknown[0]!r}; there are {', '.join(sorted(choices))}")
    return [s for s in SUBJECTS.values() if not names or {s.id, s.group} & set(names)]


def summary(predicted: Sequence[Prediction], measured: Sequence[Measurement]) -> dict[str, Any]:
    """The figures that the comparison is judged by."""
    figures: dict[str, Any] = {"devices": {}}
    for name in dict.fromkeys(p.device for p in predicted):
        rows = [p for p in predicted if p.device == name]
        gaps = {p.subject.id: p.choices.gap for p in rows if p.choices.gap is not None}
        worst = max(gaps, key=gaps.__getitem__, default=None)
        figures["devices"][name] = {
            "rows": len(rows),
            "costlier_than_greedy": [p.subject.id for p in rows if p.choices.factor < 1 - 1e-9],
            "factors": {name: _factors({p.subject.id: p.choices.over(name) for p in rows}) for name in ABLATIONS},
            "largest_gap": None if worst is None else {"id": worst, "gap": gaps[worst], "of": len(gaps)},
        }
    if measured:
        networks = [m for m in measured if SUBJECTS[m.id].group == "networks"]
        ranked = {"suite and controls": [m for m in measured if m not in networks], "networks": networks}
        figures["measured"] = {
            "rows": len(measured),
            "factors": {name: _factors({m.id: m.over(name) for m in measured}) for name in ABLATIONS},
            "slower_than_greedy": {m.id: asdict(m.joint) for m in measured if m.factor * SLOWER < 1},
            "agreement": {name: asdict(agreement(rows)) for name, rows in ranked.items() if rows},
        }
    return figures


def _factors(by: Mapping[str, float]) -> dict[str, float]:
    """Geometric means by group of how many times faster than the best greedy plans the rows are."""
    groups = dict.fromkeys(SUBJECTS[id].group for id in by)
    return {g: geometric_mean([f for id, f in by.items() if SUBJECTS[id].group == g]) for g in groups}


def _json(predicted: Sequence[Prediction], measured: Sequence[Measurement], figures: dict[str, Any]) -> str:
    times = [asdict(m) | {"sizes": SUBJECTS[m.id].sizes, "factor": m.factor, "same": m.same} for m in measured]
    whole: dict[str, Any] = {"date": str(date.today()), "machine": machine(), "summary": figures}
    whole |= {"predicted": [p.to_json() for p in predicted], "measured": times}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="eqfuse bench greedy", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--predict", action="store_true", help="predictions only, nothing is timed")
    quick = "small sizes, short runs, no optimum; where no names are given, a part of the graphs and devices"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rows to FILE")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also draw the rows into DIR (extra `plot`)")
    parser.add_argument("names", nargs="*", metavar="name", help="a graph (G7, NasRNN …), suite, controls or networks")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 190)
    subjects, on = selected(options.names), devices()
    if options.quick and not options.names:
        subjects, on = [SUBJECTS[id] for id in QUICK], {name: on[name] for name in ("A100", "this CPU")}
        console.print(f"a part, at small sizes: {', '.join(QUICK)}; on {' and '.join(on)}", highlight=False)
    console.print(machine(), highlight=False)
    predicted: list[Prediction] = []
    with progress(len(subjects)) as display:
        for subject in subjects:
            display.step(f"predicting {subject.id}")
            predicted += predictions(subject, on, options.quick)
    for name in on:
        console.print(tables.predicted(name, [p for p in predicted if p.device == name]))
    console.print(tables.searched([p for p in predicted if p.device == "A100"]))
    measured = []
    if not options.predict:
        with progress(len(subjects)) as display:
            for subject in subjects:
                display.step(f"measuring {subject.id}")
                graph = subject.small() if options.quick else subject.fits()
                measured.append(measure(subject.id, graph, 0.1 if options.quick else SECONDS))
        console.print(tables.measured(measured))
    figures = summary(predicted, measured)
    console.print(tables.summary(figures), highlight=False)
    if options.json:
        options.json.write_text(_json(predicted, measured, figures), encoding="utf-8")
    if options.plots:
        from eqfuse.benches.plots import draw

        for path in draw(options.plots, predicted, measured):
            console.print(f"drawn: {path}", highlight=False)
    return int(any(d["costlier_than_greedy"] for d in figures["devices"].values()))


if __name__ == "__main__":
    sys.exit(main())
