"""Updates of arrays by slices of any step, alone and many at once: every element holds the last value written to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.ops import row
from eqfuse.ops.updates import meeting, uncovered
from eqfuse.ops.views import extents_of
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.gpu import program_on

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


BASES, LAWS = st.sampled_from(("nothing", "argument", "computed")), st.sampled_from(("none", "all"))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(slices(), BASES, LAWS)
def test_values_computed_for_slices_are_found_there(drawn: Any, base: str, laws: str) -> None:
    check(DEVICES["cpu"], drawn, base, laws)


@pytest.mark.slow
@needs_compiler
@settings(max_examples=8, deadline=None)
@given(slices(), BASES, LAWS)
def test_values_that_c_computes_for_slices_are_found_there(drawn: Any, base: str, laws: str) -> None:
    check(C, drawn, base, laws)


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
@settings(max_examples=12, deadline=None)
@given(slices(), BASES, LAWS)
def test_values_that_cuda_computes_for_slices_are_found_there(drawn: Any, base: str, laws: str) -> None:
    check(DEVICES["a100"], drawn, base, laws)


def check(device: ef.Device, drawn: Any, base: str, laws: str) -> None:
    shape, written = drawn

    def program(x: Any) -> Any:
        result = {"nothing": np.zeros(shape), "argument": x.copy(), "computed": x * 0.5}[base]
        for i, ranges in enumerate(written):
            key = tuple(slice(*r) for r in ranges)
            result[key] = np.sin(x[key]) + i if i % 3 else -result[key]
        return result

    x = np.random.default_rng(0).standard_normal(shape)
    compiled = ef.compile(program, x, laws=laws, extractor="greedy-priority", target=device)
    if device.kind == "gpu":
        compiled = program_on(compiled.plan, EmulatedGpu())
    np.testing.assert_allclose(compiled(x), program(x), rtol=1e-12)


def heat(u: Any) -> Any:
    new = u.copy()
    new[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    new[0], new[-1] = new[1], new[-2]
    return new


@needs_compiler
def test_a_stencil_and_its_borders_are_one_kernel_which_is_left_where_little_is_replaced() -> None:
    def ends(u: Any) -> Any:
        new = u.copy()
        new[:2], new[-2:] = np.sin(u[:2]), np.cos(u[-2:])
        return new

    x = np.random.default_rng(0).standard_normal((300, 400))
    for device in (C, DEVICES["a100"]):
        assert [k.kind for k in ef.compile(heat, x, target=device).plan.kernels] == ["map"]
        assert "library" in [k.kind for k in ef.compile(ends, x, target=device).plan.kernels]
    np.testing.assert_array_equal(ef.compile(heat, x, target=C, numerics="strict")(x), heat(x))


def turned_pairs(x: Any) -> Any:
    y, angle = np.zeros((len(x), x.shape[1] + 1)), np.arange(len(x))[:, None] * 0.01
    even, odd = x[:, ::2], x[:, 1::2]
    y[:, :-1:2] = even * np.exp(-angle) - odd * angle
    y[:, 1::2] = odd * np.exp(-angle) + even * angle
    return y


def in_thirds(x: Any) -> Any:
    y = np.zeros_like(x)
    for k in range(3):
        y[k::3, 1:] = np.tanh(x[k::3, :-1]) + k
    return y


def quick_functions(x: Any) -> Any:
    y = np.zeros_like(x)
    y[:, ::2] = np.sin(x[:, ::2] * 100) * x[:, 1::2]
    return y


@needs_compiler
@pytest.mark.parametrize("fn", [turned_pairs, in_thirds])
def test_c_writes_slices_with_gaps_where_they_stay(fn: Any) -> None:
    x = np.random.default_rng(0).standard_normal((300, 400))
    compiled = ef.compile(fn, x, target=C)
    np.testing.assert_allclose(compiled(x), fn(x), rtol=1e-11, atol=1e-12)
    assert compiled.peak_bytes < x.nbytes // 20 and ", into v" in compiled.source()


@needs_compiler
def test_kernels_alike_that_write_slices_with_gaps_are_one() -> None:
    """Each may refuse a place."""

    def program(a: Any, b: Any, i: Any) -> Any:
        u, v = np.zeros((400, 800)), np.zeros((400, 800))
        u[:, :300], v[:, :300] = np.take(a, i, axis=1) * 2 + 1, np.take(b, i, axis=1) * 2 + 1
        return u, v

    a, b = np.random.default_rng(0).standard_normal((2, 400, 500))
    places = np.arange(300)
    compiled = ef.compile(program, a, b, places, target=C, extractor="greedy-materialise")
    assert compiled.source().count(", into v") == 2 and compiled.source().count("_800_1(void *self") == 1
    for ours, wanted in zip(compiled(a, b, places), program(a, b, places), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    with pytest.raises(IndexError):
        compiled(a, b, places + 400)


@needs_compiler
def test_functions_that_are_tried_quickly_first_write_what_lies_together() -> None:
    """Whether arrays lie apart is asked of whole ones."""
    x = np.random.default_rng(0).standard_normal((300, 400))
    compiled = ef.compile(quick_functions, x, target=C)
    np.testing.assert_allclose(compiled(x), quick_functions(x), rtol=1e-11, atol=1e-12)
    assert ", into v" not in compiled.source()


def test_slices_that_fill_one_anothers_gaps_leave_nothing() -> None:
    shape = (7, 12)
    assert uncovered(shape, (((0, 7, 1), (0, 12, 2)), ((0, 7, 1), (1, 12, 2)))) == ()
    assert uncovered(shape, tuple([((k, 7, 3), (0, 12, 1)) for k in (2, 0, 1)])) == ()
    assert uncovered(shape, (((0, 7, 1), (0, 12, 3)), ((0, 7, 1), (1, 12, 3)))) == (((0, 7, 1), (0, 12, 1)),)
    assert uncovered(shape, (((0, 7, 2), (0, 12, 2)), ((1, 7, 2), (1, 12, 2)))) == (((0, 7, 1), (0, 12, 1)),)
    assert uncovered(shape, (((0, 7, 1), (0, 10, 2)), ((0, 7, 1), (1, 10, 2)))) == (((0, 7, 1), (10, 12, 1)),)


@given(slices())
def test_what_slices_leave_uncovered_is_held_by_the_boxes_that_are_copied(drawn: Any) -> None:
    shape, written = drawn
    seen = np.zeros(shape, int)
    for ranges in uncovered(shape, tuple(written)):
        seen[tuple(slice(*r) for r in ranges)] += 1
    covered = np.zeros(shape, bool)
    for ranges in written:
        covered[tuple(slice(*r) for r in ranges)] = True
    assert (seen <= 1).all()
    assert ((seen == 1) | covered).all()


@given(slices())
def test_slices_are_known_to_meet_however_many_they_are(drawn: Any) -> None:
    shape, few = drawn
    for written in (few, few * 17):
        seen, met = np.zeros(shape, bool), []
        for ranges in written:
            part = seen[tuple(slice(*r) for r in ranges)]
            met.append(bool(part.any()))
            part[...] = True
        answers = meeting(shape, written)
        assert all(a or not m for a, m in zip(answers, met, strict=True))
        assert answers == met or len(written) <= 16, "some are only thought to meet"


@given(slices())
def test_every_element_of_an_update_comes_from_the_last_piece_that_has_it(drawn: Any) -> None:
    shape, few = drawn
    for written in (few, few * 17):
        types = (shape, *[extents_of(ranges) for ranges in written])
        last = np.zeros(shape, int)
        for number, ranges in enumerate(written, 1):
            last[tuple(slice(*r) for r in ranges)] = number
        left = np.full(shape, -1)
        for piece in row("slice_scatter").pieces(types, (tuple(written),)):
            for box in piece.boxes:
                part = left[tuple(slice(*r) for r in box)]
                part[part < 0] = piece.argument
        assert (left == last).all()


@pytest.mark.parametrize("device", [DEVICES["cpu"], pytest.param(C, marks=needs_compiler)])
def test_what_is_read_after_an_update_of_its_copy_is_what_it_was(device: ef.Device) -> None:
    def program(x: Any) -> Any:
        before = np.sort(x, axis=1)
        after = before.copy()
        after[0, 3:5] = -1.0
        columns = np.sort(after, axis=0)
        return columns[:2] + before[:2], np.cumsum(before * columns[0], axis=1)

    x = np.random.default_rng(0).standard_normal((50, 60))
    for ours, wanted in zip(ef.compile(program, x, target=device)(x), program(x), strict=True):
        np.testing.assert_array_equal(ours, wanted)
