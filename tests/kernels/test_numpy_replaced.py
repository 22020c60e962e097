"""NumPy kernels of arrays with slices replaced, one update after another: boundary conditions in place behind tiles.

The evaluator is the judge, bit for bit; what a schedule says of bytes and calls is what its text does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.device import Device
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.emit.numpy.schedule import NumpySchedule, ReplacedSlices
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify, kind_named
from eqfuse.ops.updates import Ranges
from eqfuse.ops.views import extents_of
from tests.kernels.bodies import DEVICES
from tests.kernels.test_numpy_schedules import check
from tests.support.drawing import many
from tests.support.kernels import CPU, add, body, data, judge, kernel, mul, number, read

F = np.float32


def inside(u: Any) -> Any:
    return u[1:-1, 1:-1] + F(0.1) * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])


def step(u: Any) -> Any:
    v = u.copy()
    v[1:-1, 1:-1] = inside(u)
    return v


def mirrored(u: Any) -> Any:
    v = step(u)
    v[0], v[-1] = v[1], v[-2]
    v[:, 0], v[:, -1] = v[:, 1], v[:, -2]
    return v


def periodic(u: Any) -> Any:
    v = step(u)
    v[0], v[-1] = v[-2], v[1]
    v[:, 0], v[:, -1] = v[:, -2], v[:, 1]
    return v


def extrapolated(u: Any) -> Any:
    v = step(u)
    v[0] = 2 * v[1] - v[2]
    v[:, -1] = np.where(v[:, -2] > 0, v[:, -2], 0)
    return v


def fixed(u: Any) -> Any:
    v = step(u)
    v[0], v[-1], v[:, 0], v[:, -1] = 1, 2, 3, 4
    return v


def ends_swapped(u: Any) -> Any:
    v = step(u)
    v[0], v[-1] = v[-1].copy(), v[0].copy()
    return v


def halves(u: Any) -> Any:
    h = u.shape[1] // 2
    v = np.empty_like(u)
    v[:, :h], v[:, h:] = np.sin(u[:, :h]) * u[:, h:], u[:, :h] + u[:, h:]
    v[0] = 0
    return v


def borders_first(u: Any) -> Any:
    v = np.empty_like(u)
    v[0], v[-1] = np.sin(u[0]), 1
    v[1:-1] = u[1:-1] * np.cos(u[2:])
    v[1:-1, 0] = v[1:-1, 1]
    return v


def written_twice(u: Any) -> Any:
    new = np.exp(u[1:-1])
    v = np.empty_like(u)
    v[1:-1], v[0], v[-1] = new, new[0], new[-1]
    return v


def two_steps(u: Any) -> Any:
    v = step(u)
    v[2:-2, 2:-2] = v[1:-3, 2:-2] + v[3:-1, 2:-2]
    return v


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "the ends are kept": step, "mirrored": mirrored, "periodic": periodic, "extrapolated": extrapolated,
    "fixed": fixed, "the ends are swapped": ends_swapped, "halves, then a row": halves,
    "borders first": borders_first, "one value in three places": written_twice, "a step behind a step": two_steps,
}  # fmt: skip


def schedule_of(graph: Graph, on: Device) -> NumpySchedule:
    state = classify(graph, on)
    assert isinstance(state, State) and state.kind == "map", state
    judge("map", graph, device=on)
    return check("map", graph, data(graph), on)


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_borders_are_replaced_in_place_behind_the_tiles_of_the_inside(name: str, on: Device) -> None:
    tiled = []
    for shape in ((300, 200), (12, 10)):
        schedule = schedule_of(ef.trace(PROGRAMS[name], ef.spec(shape, F)), on)
        assert isinstance(schedule, ReplacedSlices)
        tiled.append(schedule.tiles > 1)
    assert tiled[0] or on is CPU or on.threads == 1


def test_the_tiles_write_into_the_result() -> None:
    graph = ef.trace(mirrored, ef.spec((2048, 2048), F))
    text = judge("map", graph)
    assert "q0 = o0[1:2047, 1:2047]" in text and "y0 = q0[i:j]" in text and "empty(" not in text
    assert str(kind_named("map").schedule(graph, CPU)).endswith("6 more for all, slices replaced in place")


def test_a_value_that_is_read_from_where_another_is_written_is_no_copy_in_place() -> None:
    def swapped(u: Any) -> Any:
        v = step(u)
        w = v.copy()
        w[0], w[-1] = v[-1], v[0]
        return w

    graph = ef.trace(swapped, ef.spec((300, 200), F))
    assert not isinstance(schedule_of(graph, CPU), ReplacedSlices)


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_work_behind_borders_is_in_the_kernel_too(on: Device) -> None:
    for function in (step, mirrored):
        graph = ef.trace(lambda u, function=function: np.tanh(function(u)) + u, ef.spec((300, 200), F))
        assert not isinstance(schedule_of(graph, on), ReplacedSlices)


def test_a_few_slices_of_an_array_in_memory_are_replaced_in_place() -> None:
    x = read(0, (300, 200))
    place = ((0, 1, 1), (0, 200, 1))
    value = node("sin", (node("slice", (x,), (((1, 2, 1), (0, 200, 1)),)),))
    refusal = classify(body([x], node("slice_scatter", (x, value), ((place,),))), CPU)
    assert isinstance(refusal, str) and "in place" in refusal


def test_what_narrow_columns_leave_of_an_array_is_copied_with_them() -> None:
    for width, copies in ((5, 2), (50, 3)):  # the columns on either side, or all at once; then the new one
        x, column = read(0, (40, width)), read(1, (40, 1))
        graph = body([x, column], node("slice_scatter", (x, column), ((((0, 40, 1), (2, 3, 1)),),)))
        emitted = emit_kernel(kernel("library", graph), CPU)
        assert isinstance(emitted.schedule, NumpySchedule) and emitted.schedule.calls == copies
        arrays, out = data(graph), np.empty((40, width), F)
        emitted.run((out,), tuple(arrays))
        np.testing.assert_array_equal(out, evaluate(graph, arrays)[0])


def test_values_that_other_kernels_make_are_written_where_they_stay() -> None:
    x, y = read(0, (300, 200)), read(1, (200, 200))
    places = ((0, 100, 1), (0, 200, 1)), ((100, 300, 1), (0, 200, 1))
    value = node("sin", (node("slice", (x,), (places[0],)),))
    refusal = classify(body([x, y], node("slice_scatter", (x, value, y), (places,))), CPU)
    assert isinstance(refusal, str) and "in memory" in refusal


def shifted_sums(u: Any, v: Any) -> Any:
    total = np.sin(u)
    total[1:] += v[:-1]
    total[:-1] += v[1:]
    total[:, 1:] += v[:, :-1]
    total[:, :-1] += v[:, 1:]
    return total


def sweeps(u: Any, v: Any) -> Any:
    for _ in range(3):
        u = step(u) + v
        u[1:-1, 1:-1] = (u[2:, 1:-1] + u[:-2, 1:-1]) * F(0.5) - v[1:-1, 1:-1]
        u[0] = u[1]
    return u


def kept_for_later(u: Any, v: Any) -> Any:
    total = np.sin(u)
    later = total.copy()
    later[1:] += v[:-1]
    return later, total


@pytest.mark.parametrize("function, over", [(shifted_sums, True), (sweeps, True), (kept_for_later, False)])
def test_an_array_that_nobody_reads_later_is_updated_where_it_lies(function: Callable[..., Any], over: bool) -> None:
    u, v = np.random.default_rng(0).random((2, 300, 200), F)
    program = ef.compile(function, ef.spec(u.shape, F), ef.spec(u.shape, F), target=CPU)
    assert (", over v" in program.source()) == over
    for result, wanted in zip(np.atleast_3d(program(u, v)), np.atleast_3d(function(u.copy(), v)), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


class DrawnUpdates:
    """A chain of updates of an array: values of it as it is, of arrays in memory, and of both."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        rank = int(self.rng.integers(1, 4))
        most = {1: 400, 2: 40, 3: 12}[rank]
        self.shape = tuple(int(n) for n in self.rng.integers(2, most, rank))
        self.arrays = [read(i, self.shape) for i in range(2)]

    def graph(self) -> Graph:
        array = self.arrays[0]
        for _ in range(int(self.rng.integers(1, 4))):
            places = [self.place(bool(self.rng.integers(2))) for _ in range(int(self.rng.integers(1, 4)))]
            array = node("slice_scatter", (array, *[self.value(array, place) for place in places]), (tuple(places),))
        return body(self.arrays, array)

    def place(self, whole: bool) -> Ranges:
        """A slice; of the whole array along some axes."""
        ranges = []
        for extent in self.shape:
            low = int(self.rng.integers(extent))
            high = int(self.rng.integers(low + 1, extent + 1))
            ranges.append((0, extent, 1) if whole and self.rng.integers(2) else (low, high, 1))
        return tuple(ranges)

    def value(self, array: Node, place: Ranges) -> Node:
        extents = extents_of(place)
        way = int(self.rng.integers(8))
        if way == 0:
            zero = const(np.full((), 3, F))
            return node("broadcast_to", (zero,), (extents,))
        pick = [self.moved(self.arrays[int(self.rng.integers(2))], place) for _ in range(2)]
        if way in (1, 2, 3, 4):
            return add(node("negative", (pick[0],)), pick[1])
        if way == 5:
            return pick[0]
        late = self.moved(array, place)
        return late if way == 6 else mul(add(late, number(1.0)), pick[0])

    def moved(self, array: Node, place: Ranges) -> Node:
        """A slice of `array` as large as `place`, somewhere else."""
        cut = []
        for (low, stop, _), extent in zip(place, self.shape, strict=True):
            start = int(self.rng.integers(extent - (stop - low) + 1))
            cut.append((start, start + stop - low, 1))
        return node("slice", (array,), (tuple(cut),))


def check_drawn(seed: int) -> str:
    graph, on = DrawnUpdates(seed).graph(), DEVICES[seed % len(DEVICES)]
    state = classify(graph, on)
    if not isinstance(state, State) or state.kind != "map":
        return "no map"
    schedule = schedule_of(graph, on)
    way = f"{type(schedule).__name__}, {'tiles' if schedule.tiles > 1 else 'whole'}"
    return f"{way}, over the first" if lies_over_the_first(graph, on) else way


def lies_over_the_first(graph: Graph, on: Device) -> bool:
    """May the kernel of `graph` write over the array it updates? Then it is right there too, bit for bit."""
    emitted = emit_kernel(kernel("map", graph), on)
    if not emitted.parts.carries:
        return False
    (wanted,), arrays = evaluate(graph, data(graph)), [array.copy() for array in data(graph)]
    place = arrays[emitted.parts.carries[0]]
    with np.errstate(all="ignore"):
        emitted.run((place,), tuple(arrays))
    np.testing.assert_array_equal(place, wanted)
    return True


def test_updates_one_after_another_are_what_the_evaluator_says() -> None:
    counts = Counter(check_drawn(seed) for seed in range(150))
    ways = {"ReplacedSlices, tiles", "ReplacedSlices, whole", "Tiles, tiles", "WholeArrays, whole"}
    assert counts.keys() >= ways | {"ReplacedSlices, whole, over the first"}


@pytest.mark.slow
def test_many_updates_one_after_another_are_what_the_evaluator_says() -> None:
    for seed in range(1000, 1000 + many(800)):
        check_drawn(seed)
