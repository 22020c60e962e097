"""Alike computations that need nothing of one another, as one on arrays with an axis more.

In: a graph in which many pieces are joined, or written into one array, or a chain that adds them up. Out: the same,
computed for all pieces at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.rows import Batch, depending
from eqfuse.frontends.rolling.alignment import Alignment, Misalignment
from eqfuse.frontends.rolling.chains import FEWEST_STEPS
from eqfuse.frontends.rolling.loops import ATTEMPTS, Steps
from eqfuse.frontends.rolling.rows import Range, even, joined_rows, moving
from eqfuse.ir.graph import Graph, Node, node, topological
from eqfuse.ops import TABLE
from eqfuse.summary import count

_REDUCTION = {r.joined_by: name for name, r in TABLE.items() if r.joined_by in ("add", "maximum", "minimum")}
StepRun = tuple[range, Node]  # pieces that are alike, and all of them in one array
StepLimit = Callable[[range], range]


def made_together(graph: Graph) -> tuple[Graph, list[str]]:
    """`graph`, where pieces that are joined or written into one array are made together; and what is, in words."""
    new: dict[Node, Node] = {}
    said: list[str] = []
    for n in graph.nodes:
        args = [new[a] for a in n.args]
        rewrite = _REWRITES.get(n.op) if len(args) >= FEWEST_STEPS else None
        joined = None if rewrite is None else rewrite(n, args)
        new[n] = joined[0] if joined is not None else n if args == [*n.args] else n.over(args)
        said += [f"{count(len(run), 'alike piece')} are computed at once" for run in (joined[1] if joined else ())]
    return replace(graph, outputs=tuple([new[o] for o in graph.outputs])), said


def _joined(n: Node, pieces: Sequence[Node]) -> tuple[Node, list[range]] | None:
    runs = _runs(pieces)
    if not runs:
        return None
    axis: int = n.attr("axis")
    parts: list[Node] = []
    start = 0
    for run, rows in runs:
        parts += [*pieces[start : run.start], joined_rows(rows, n.type.rank + axis)]
        start = run.stop
    return tidy.concat([*parts, *pieces[start:]], axis), [run for run, _ in runs]


def _written(n: Node, args: Sequence[Node]) -> tuple[Node, list[range]] | None:
    base, *pieces = args
    ranges: Sequence[tuple[Range, ...]] = n.attr("slices")

    def in_order(run: range) -> range:
        """Those of the run that are written side by side."""
        good = even(ranges[run.start : run.stop])
        if len(good) < FEWEST_STEPS or ranges[run.start + good.start] == ranges[run.start + good.start + 1]:
            return range(0)
        axis, distance, width = moving(ranges[run.start + good.start :])
        fits = width == 1 or (abs(distance) == width and ranges[run.start][axis][2] == 1)
        return good if fits else range(0)

    runs = _runs(pieces, in_order)
    if not runs:
        return None
    parts: list[Node] = []
    places: list[tuple[Range, ...]] = []
    start = 0
    for run, rows in runs:
        axis, distance, width = moving(ranges[run.start :])
        ends = ranges[run.start][axis], ranges[run.stop - 1][axis]
        along = min(r[0] for r in ends), max(r[1] for r in ends), abs(distance) if width == 1 else 1
        whole = tuple([along if i == axis else r for i, r in enumerate(ranges[run.start])])
        parts += [*pieces[start : run.start], joined_rows(rows, axis, distance < 0)]
        places += [*ranges[start : run.start], whole]
        start = run.stop
    return tidy.slice_scatter(base, [*parts, *pieces[start:]], [*places, *ranges[start:]]), [run for run, _ in runs]


_REWRITES = {"concat": _joined, "slice_scatter": _written}


def _runs(pieces: Sequence[Node], limit: StepLimit | None = None) -> list[StepRun]:
    """Runs of `pieces` that are made together, each within what `limit` leaves of it, in order."""
    runs: list[StepRun] = []
    left = [range(len(pieces))]
    while left:
        among = left.pop()
        run = among
        for _ in range(ATTEMPTS):
            good = range(len(run)) if limit is None else limit(run)
            if len(good) == len(run) >= FEWEST_STEPS:
                rows = _aligned(pieces[run.start : run.stop])
                if isinstance(rows, Node):
                    runs.append((run, rows))
                    left += [range(among.start, run.start), range(run.stop, among.stop)]
                    break
                good = rows
            run = run[good.start : good.stop]
            if len(run) < FEWEST_STEPS:
                break
    return sorted(runs, key=lambda each: each[0].start)


def _aligned(pieces: Sequence[Node]) -> Node | range:
    """`pieces` as rows of one array, or which of them might be."""
    try:
        alignment = Alignment(tuple(pieces))
    except Misalignment as why:
        return why.good
    return _batched(alignment, alignment.nodes[alignment.root]) or range(0)


def _batched(aligned: Alignment, value: Node) -> Node | None:
    """What `value` is in all steps, in one array; None where it is the same in all, or cannot be computed so."""
    varies = depending([value], aligned.rows)
    if value not in varies:
        return None
    batch = Batch(aligned.rows, set())
    for n in topological([value]):
        if n in varies and n not in batch.arrays:
            batch.add(n)
    return batch.arrays.get(value)


def as_reduction(steps: Steps, graph: Graph, exactly: bool) -> dict[Node, Node] | None:
    """What stands for the last value of a chain that adds up what its steps compute, or finds the largest of it.

    None where a step does more, or where another order of the sum might be told, and the result is wanted `exactly`.
    """
    values = steps.root
    last, (update,) = values[-1], steps.step([values])
    op = _REDUCTION.get(update.op)
    carry = steps.earlier(values, 1)
    others = [a for a in update.args if a is not carry]
    exact = update.op != "add" or update.dtype.kind in "iu"
    if op is None or len(others) != 1 or steps.reads(graph) != [last] or len(steps.carries) > 1 or exactly > exact:
        return None
    (term,) = others
    if carry in topological([term]) or term.type != update.type or steps.on_windows:
        return None
    rows = _batched(steps.aligned, term)
    if rows is None:
        return None
    total = node(op, (rows,), ((-rows.type.rank,),))
    if total.dtype != update.dtype:
        return None
    return {last: node(update.op, (steps.begun(values, 1), tidy.reshape(total, update.shape)))}
