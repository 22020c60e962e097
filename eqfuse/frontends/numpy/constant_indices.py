"""What known indices select along an axis, as pieces: slices, slices reversed, and repeated elements.

In: an array and constant indices. Out: the pieces joined, where they are few, so that kernels read them where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Node

CONSTANT_PIECES = 8  # pieces; more are gathered one element after the other

SliceRun = tuple[int, int, int]  # the first place, the step to the next, and how many there are


def picked(x: Node, places: np.ndarray, axis: int) -> Node | None:
    """``np.take(x, places, axis)`` for places from 0 on along the negative `axis`; None where it has many pieces."""
    runs: list[SliceRun] = []
    for run in _runs(places.tolist()):
        runs.append(run)
        if len(runs) > CONSTANT_PIECES:
            return None
    return tidy.concat([_piece(x, run, axis) for run in runs], axis) if runs else None


def _runs(places: Sequence[int]) -> Iterator[SliceRun]:
    """`places` as runs of equal steps, two of which are neighbours or alike."""
    start = 0
    while start < len(places):
        end = start + 1
        step = places[end] - places[start] if end < len(places) else 1
        while end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        if end - start == 2 and abs(step) > 1:
            end = start + 1
        yield places[start], step if end - start > 1 else 1, end - start
        start = end


def _piece(x: Node, run: SliceRun, axis: int) -> Node:
    first, step, count = run
    low = first + min(step, 0) * (count - 1)
    taken = (low, first + 1, 1) if not step else (low, low + abs(step) * (count - 1) + 1, abs(step))
    ranges = [(0, n, 1) for n in x.shape]
    ranges[axis] = taken
    piece = tidy.slice_(x, tuple(ranges))
    if step < 0:
        return tidy.flip(piece, (axis,))
    position = x.type.rank + axis
    return piece if step else tidy.broadcast_to(piece, (*x.shape[:position], count, *x.shape[position + 1 :]))
