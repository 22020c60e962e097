"""Alike computations that need nothing of one another, as one on arrays with an axis more.

In: a graph in which many pieces are joined, or written into one array, or a chain that adds them up. Out: the same,
computed for all pieces at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.rows import Batch, Rows, depending
from eqfuse.frontends.rolling.alignment import Alignment, Misalignment, without_reshapes
from eqfuse.frontends.rolling.chains import FEWEST_STEPS
from eqfuse.frontends.rolling.loops import ATTEMPTS, Steps
from eqfuse.frontends.rolling.rows import Range, even, evenly, joined_rows, moving
from eqfuse.ir.graph import Graph, Node, node, substitute, substitute_into, topological
from eqfuse.ops import TABLE
from eqfuse.summary import count

_REDUCTION = {r.joined_by: name for name, r in TABLE.items() if r.joined_by in ("add", "maximum", "minimum")}
FEWEST_OF_MANY = 4  # pieces that are made together in a loop that shrinks or grows, as most of the others are
FEW_RUNS = 3  # that are told apart
StepRun = tuple[range, Node]  # pieces that are alike, and all of them in one array
StandIns = dict[Node, Node]  # nodes of a graph, and what is read in their place
StepLimit = Callable[[range], range]


def made_together(graph: Graph) -> tuple[Graph, list[str]]:
    """`graph`, where pieces that are joined or written into one array are made together; and what is, in words. Who
    reads a piece, or what is computed for it, reads a row of what is computed for all."""
    stand_ins: StandIns = {}
    said: list[str] = []
    for n in graph.nodes:
        rewrite = _REWRITES.get(n.op) if len(n.args) >= FEWEST_STEPS else None
        rewritten = None if rewrite is None else rewrite(n, stand_ins)
        if rewritten is not None:
            stand_ins[n], runs = rewritten
            said += _told([len(run) for run, _ in runs])
    return replace(graph, outputs=substitute(graph.outputs, stand_ins)) if said else graph, said


def _told(lengths: Sequence[int]) -> list[str]:
    """In words, of how many pieces runs of these lengths are."""
    if len(lengths) > FEW_RUNS:
        return [f"{count(sum(lengths), 'alike piece')} are computed in {len(lengths)} runs, each at once"]
    return [f"{count(length, 'alike piece')} are computed at once" for length in lengths]


def _joined(n: Node, stand_ins: StandIns) -> tuple[Node, list[StepRun]] | None:
    runs = _runs_of(n.args, [range(len(n.args))], stand_ins)
    if not runs:
        return None
    pieces, axis = substitute(n.args, stand_ins), n.attr("axis")
    parts: list[Node] = []
    start = 0
    for run, rows in runs:
        parts += [*pieces[start : run.start], joined_rows(rows, n.type.rank + axis)]
        start = run.stop
    return tidy.concat([*parts, *pieces[start:]], axis), runs


def _written(n: Node, stand_ins: StandIns) -> tuple[Node, list[StepRun]] | None:
    written: Sequence[tuple[Range, ...]] = n.attr("slices")
    order = _by_source(substitute(n.args[1:], stand_ins), written)
    values, ranges = [n.args[1 + i] for i in order], [written[i] for i in order]

    def in_order(run: range) -> range:
        """Those of the run that are written side by side."""
        good = even(ranges[run.start : run.stop])
        if len(good) < 2 or ranges[run.start + good.start] == ranges[run.start + good.start + 1]:
            return range(0)
        axis, distance, width = moving(ranges[run.start + good.start :])
        fits = width == 1 or (abs(distance) == width and ranges[run.start][axis][2] == 1)
        return good if fits else range(0)

    runs = _runs_of(values, evenly(ranges), stand_ins, in_order)
    if not runs:
        return None
    base, *pieces = substitute([n.args[0], *values], stand_ins)
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
    return tidy.slice_scatter(base, [*parts, *pieces[start:]], [*places, *ranges[start:]]), runs


def _by_source(pieces: Sequence[Node], ranges: Sequence[tuple[Range, ...]]) -> list[int]:
    """The places of `pieces` in the order in which they are written: those that are slices of one array one after
    another, as what loops give of their steps is, where none lies over another."""
    order: list[int] = []
    start = 0
    for _, alike in itertools.groupby(ranges, key=_extents):
        stretch = range(start, start + len([*alike]))
        start = stretch.stop
        if not _are_apart(ranges[stretch.start : stretch.stop]):
            order += stretch
            continue
        by_source: dict[Any, list[int]] = {}
        for i in stretch:
            taken = without_reshapes(pieces[i])
            by_source.setdefault(taken.args if taken.op == "slice" else None, []).append(i)
        by_source.pop(None, None)
        many = {i for members in by_source.values() if len(members) >= FEWEST_STEPS for i in members}
        order += [i for i in stretch if i not in many]
        order += [i for members in by_source.values() for i in members if i in many]
    return order


def _extents(ranges: tuple[Range, ...]) -> tuple[tuple[int, int], ...]:
    return tuple([(len(range(*r)), r[2]) for r in ranges])


def _are_apart(ranges: Sequence[tuple[Range, ...]]) -> bool:
    """Do slices of the same extents surely share no place? They do not where they are tiles of one grid."""
    widths = np.array([stop - start for start, stop, _ in ranges[0]])
    starts = np.array([[start for start, _, _ in r] for r in ranges])
    return len({*map(tuple, starts)}) == len(starts) and not ((starts - starts[0]) % widths).any()


_REWRITES = {"concat": _joined, "slice_scatter": _written}


def _runs_of(
    pieces: Sequence[Node], stages: Sequence[range], stand_ins: StandIns, limit: StepLimit | None = None
) -> list[StepRun]:
    """Runs of `pieces` that are made together, in order. What later `stages` read of earlier ones are rows of these, by
    what is added to `stand_ins`."""
    runs: list[StepRun] = []
    fewest = FEWEST_OF_MANY if sum(len(stage) >= FEWEST_STEPS for stage in stages) > 1 else FEWEST_STEPS
    for stage in stages:
        if len(stage) < fewest:
            continue
        new = dict(stand_ins)
        built = dict(zip(stage, substitute_into(new, pieces[stage.start : stage.stop]), strict=True))
        rows: StandIns = {}
        runs += _runs(built, stage, fewest, limit, rows)
        stand_ins |= {n: rows[value] for n, value in new.items() if value in rows}
    return runs


def _runs(
    pieces: Mapping[int, Node], among: range, fewest: int, limit: StepLimit | None, rows_of: StandIns
) -> list[StepRun]:
    """Runs of the `pieces` numbered `among` that are made together, `fewest` at least, each within what `limit` leaves
    of it, in order. To `rows_of` are added those of what is computed."""
    runs: list[StepRun] = []
    left = [among]
    while left:
        among = left.pop()
        run = among
        for _ in range(ATTEMPTS):
            good = range(len(run)) if limit is None else limit(run)
            if len(good) == len(run) >= fewest:
                rows = _aligned([pieces[i] for i in run], rows_of)
                if isinstance(rows, Node):
                    runs.append((run, rows))
                    left += [range(among.start, run.start), range(run.stop, among.stop)]
                    break
                good = rows
            run = run[good.start : good.stop]
            if len(run) < fewest:
                break
    return sorted(runs, key=lambda each: each[0].start)


def _aligned(pieces: Sequence[Node], rows_of: StandIns) -> Node | range:
    """`pieces` as rows of one array, or which of them might be."""
    try:
        alignment = Alignment(tuple(pieces))
    except Misalignment as why:
        return why.good
    piece = alignment.nodes[alignment.root]
    arrays = _batched(alignment, piece)
    if piece not in arrays:
        return range(0)
    for values, n in alignment.nodes.items():
        if n in arrays and values[0].row.computes:
            rows_of |= {value: _row(arrays[n], step) for step, value in enumerate(values)}
    return arrays[piece]


def _row(rows: Node, number: int) -> Node:
    _, *shape = rows.shape
    return tidy.reshape(tidy.slice_(rows, [(number, number + 1, 1), *[(0, n, 1) for n in shape]]), tuple(shape))


def _batched(aligned: Alignment, value: Node) -> Rows:
    """What is computed for `value` in all steps, in one array each: not what is the same in all, or cannot be computed
    so."""
    if not aligned.rows:
        return {}
    varies = depending([value], aligned.rows)
    batch = Batch(aligned.rows, set())
    for n in topological([value]):
        if n in varies and n not in batch.arrays:
            batch.add(n)
    return batch.arrays


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
    rows = _batched(steps.aligned, term).get(term)
    if rows is None:
        return None
    total = node(op, (rows,), ((-rows.type.rank,),))
    if total.dtype != update.dtype:
        return None
    return {last: node(update.op, (steps.begun(values, 1), tidy.reshape(total, update.shape)))}
