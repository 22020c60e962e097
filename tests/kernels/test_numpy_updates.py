"""Updates of arrays by slices of any step, alone and many at once: every element holds the last value written to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.ops.updates import uncovered

Ranges = tuple[tuple[int, int, int], ...]


def a_slice(draw: st.DrawFn, shape: tuple[int, ...]) -> Ranges:
    ranges = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        step = draw(st.sampled_from((1, 1, 2, 3)))
        length = len(range(start, draw(st.integers(start + 1, n)), step))
        ranges.append((start, start + (length - 1) * step + 1, step if length > 1 else 1))
    return tuple(ranges)


@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Ranges]]:
    """A shape, and slices of it: some by chance, or the cells of a grid."""
    shape = draw(st.sampled_from(((7,), (4, 5), (12, 9), (3, 2, 4))))
    if draw(st.booleans()):
        return shape, [a_slice(draw, shape) for _ in range(draw(st.integers(1, 4)))]
    edges = [range(0, n, draw(st.integers(1, n))) for n in shape[:2]]
    cells: list[Ranges] = [()]
    for n, starts in zip(shape, edges, strict=False):
        cells = [(*cell, (start, min(start + starts.step, n), 1)) for cell in cells for start in starts]
    rest = tuple((0, n, 1) for n in shape[2:])
    return shape, [(*cell, *rest) for cell in draw(st.permutations(cells))[: draw(st.integers(1, 30))]]


@settings(max_examples=60, deadline=None)
@given(slices(), st.sampled_from(("nothing", "argument", "computed")), st.sampled_from(("none", "all")))
def test_values_computed_for_slices_are_found_there(drawn: Any, base: str, laws: str) -> None:
    shape, written = drawn

    def program(x: Any) -> Any:
        made = {"nothing": np.zeros(shape), "argument": x.copy(), "computed": x * 0.5}[base]
        for i, ranges in enumerate(written):
            key = tuple(slice(*r) for r in ranges)
            made[key] = np.sin(x[key]) + i if i % 3 else -made[key]
        return made

    x = np.random.default_rng(0).standard_normal(shape)
    compiled = ef.compile(program, x, laws=laws, extractor="greedy-priority")
    np.testing.assert_allclose(compiled(x), program(x), rtol=1e-12)


@given(slices())
def test_what_slices_leave_uncovered_is_held_by_the_boxes_that_are_copied(drawn: Any) -> None:
    shape, written = drawn
    seen = np.zeros(shape, int)
    for ranges in uncovered(shape, written):
        seen[tuple(slice(*r) for r in ranges)] += 1
    covered = np.zeros(shape, bool)
    for ranges in written:
        covered[tuple(slice(*r) for r in ranges)] = True
    assert (seen <= 1).all()
    assert ((seen == 1) | covered).all()
