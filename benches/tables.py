"""How the comparison with greedy fusion is printed: tables by device, of search times, and of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from eqfuse.benches.ablations import ABLATIONS
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.benches.measured import Measurement
from eqfuse.benches.subjects import SUBJECTS
from eqfuse.summary import duration

if TYPE_CHECKING:
    from eqfuse.benches.greedy import Prediction

GREEDY_NOTE = """\
×: greedy over joint; no maps: greedy of kernels without index maps, gathers and scans over joint; over each: \
materialise/duplicate/priority/depth over joint. wanted: what the suite predicts \
over fusers of one reduction a kernel that fuse nothing before a product. Here priority does both, as Inductor does, \
and duplicate writes several results, as XLA does: where that reaches the better plan, nothing more is to be gained."""
NOTE = """\
Comparable: the graphs, and what is timed: from the graph to the chosen program. Not comparable: the machines; TASO \
and TENSAT price operators by times measured before on one GPU, eqfuse whole kernels by a model; they choose among \
operators, eqfuse among operators, kernels and what is computed twice; equal layers are searched once here. Theirs are \
the seconds published with TENSAT, which has none for the corrected BERT, for transformers and for Mirage's kernels."""


def _table(title: str, headings: Sequence[str], left: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), title=Text(f"\n{title}", style="bold"))
    table.title_justify = "left"
    for i, heading in enumerate(headings):
        justify = "left" if not i or heading in left else "right"
        table.add_column(heading, justify=justify, no_wrap=heading not in left)  # type: ignore[arg-type]
    return table


def predicted(device: str, rows: Sequence[Prediction]) -> Table:
    """Predicted times of all ablations, at full size."""
    textbook = any(row.verdict for row in rows)
    wanted = ["wanted"] if textbook else []
    headings = ["", "operators", *ABLATIONS, "which", "×", "no maps", "over each", *wanted, "gap", "search"]
    table = _table(f"predicted on {device}", [*headings, *(["verdict"] if textbook else [])], ("which", "verdict"))
    table.caption, table.caption_justify = Text(GREEDY_NOTE if textbook else ""), "left"
    for row in rows:
        choices, id = row.choices, row.subject.id
        gap = "" if choices.gap is None else f"{100 * choices.gap:.2f} %"
        joint = choices.ablation("joint")
        cells = [id, str(row.operators), *(duration(choices.ablation(name).seconds) for name in ABLATIONS)]
        cells += [choices.ablation("greedy").extractor.removeprefix("greedy-"), f"{choices.factor:.2f}"]
        cells.append(f"{choices.unmapped.seconds / joint.seconds:.2f}")
        cells.append("/".join(f"{choices.by[name].seconds / joint.seconds:.3g}" for name in ABLATIONS["greedy"]))
        if textbook:
            cells.append(f"{GRAPHS[id].factor:.2f}" if id in GRAPHS else "")
        cells += [gap, f"{row.saturation + joint.search:.2f} s"]
        table.add_row(*cells, *([row.verdict] if textbook else []))
    return table


def searched(rows: Sequence[Prediction]) -> Table | str:
    """Seconds of search, beside those of TASO and TENSAT."""
    rows = [row for row in rows if row.subject.group == "networks"]
    if not rows:
        return ""
    headings = ("", "operators", "e-graph nodes", "saturation", "extraction", "eqfuse", "TENSAT", "TASO")
    table = _table("search, seconds", headings)
    for row in rows:
        extraction = row.choices.ablation("joint").search
        times = [row.saturation, extraction, row.saturation + extraction]
        theirs = row.subject.searched
        cells = [f"{t:.2f}" for t in times] + (["", ""] if theirs is None else [f"{theirs[1]:g}", f"{theirs[0]:g}"])
        table.add_row(row.subject.id, f"{row.operators:,}", f"{row.nodes:,}", *cells)
    table.caption, table.caption_justify = Text(NOTE), "left"
    return table


def measured(rows: Sequence[Measurement]) -> Table:
    """Medians on this CPU, of each ablation's fastest plan. "same": it runs the same kernels as the joint one.

    ×: call by call against the fastest greedy plan, which the quotient of two medians is not.
    """
    headings = ("", *ABLATIONS, "×", "95 of 100", "predicted ×", "plans", "sizes")
    table = _table("measured on this CPU", headings, ("sizes",))
    for row in rows:
        joint = row.ablations["joint"]
        cells = [
            "same" if place == joint and name != "joint" else duration(row.plans[place].measured)
            for name, place in row.ablations.items()
        ]
        greedy = row.plans[row.ablations["greedy"]]
        factor = "same plan" if row.same else f"{row.factor:.2f}"
        interval = "" if row.same else f"{row.joint.low:.2f}–{row.joint.high:.2f}"
        wanted = "" if row.same else f"{greedy.predicted / row.plans[joint].predicted:.2f}"
        table.add_row(row.id, *cells, factor, interval, wanted, str(len(row.plans)), SUBJECTS[row.id].sizes)
    return table


def summary(figures: dict[str, Any]) -> str:
    """The figures that the comparison is judged by, a line each."""
    lines = [""]
    for name, row in figures["devices"].items():
        costlier = ", ".join(row["costlier_than_greedy"]) or "none"
        line = f"{name}: joint costlier than the best greedy: {costlier} of {row['rows']}"
        lines += [line, *_means(row["factors"])]
        if gap := row["largest_gap"]:
            worst = f"{100 * gap['gap']:.2f} % ({gap['id']})"
            lines.append(f"  largest gap to the optimum: {worst}, of {gap['of']} programs")
    if row := figures.get("measured"):
        ratios = row["slower_than_greedy"].items()
        slower = ", ".join(f"{id} {r['times']:.2f} ({r['low']:.2f}–{r['high']:.2f})" for id, r in ratios) or "none"
        lines += [
            f"measured: slower than the fastest greedy plan by more than 3 %: {slower} of {row['rows']}",
            "  wanted over the suite: joint ≥ 1.3",
            *_means(row["factors"]),
            *(
                f"predicted against measured, {name}: Spearman {a['spearman']:.3f} over {a['plans']} plans, wanted "
                f"≥ 0.9; {a['right']} of {a['pairs']} pairs of plans of one program in the right order; off by "
                f"{a['error']:.2f}× in geometric mean"
                for name, a in row["agreement"].items()
            ),
        ]
    return "\n".join(lines)


def _means(factors: Mapping[str, Mapping[str, float]]) -> list[str]:
    """By group: how many times faster than the best greedy plan each ablation is, in geometric mean."""
    groups = next(iter(factors.values()))
    return [f"  {g}, times faster: " + ", ".join(f"{name} {by[g]:.2f}" for name, by in factors.items()) for g in groups]
