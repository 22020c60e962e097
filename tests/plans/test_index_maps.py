"""Programs that join, roll and pad arrays are one kernel on either target, and still what the evaluator says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.extract import chosen_plan
from eqfuse.ir.evaluate import evaluate
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.random_graphs import run_plan, scrambled
from tests.support.some import some

F = np.float32


def roll_step(x):
    return np.sin(x) + F(0.3) * np.roll(x, 1, 1) * x


def fluid_step(u):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
    return u + F(0.1) * around - F(0.05) * u * (np.roll(u, -1, 0) - np.roll(u, 1, 0))


def joined_work(x, y):
    return np.tanh(np.concatenate([np.exp(x), y * 2], 0)) + 1


def stacked(x, y):
    return np.sqrt(np.stack([x * x, y * y], -1) + 1)


def stencil(mode):
    def step(x):
        p = np.pad(x, 1, mode=mode)
        return p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1] - 4 * x

    return step


def rotary(q, c, s):
    h = q.shape[-1] // 2
    return q * c + np.concatenate([-q[..., h:], q[..., :h]], -1) * s


def norm_of_rolled(x):
    r = x + np.roll(x, 3, -1)
    return r / np.sqrt((r * r).mean(-1, keepdims=True) + F(1e-5))


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[tuple[int, ...], ...]]]] = {
    "a roll step": (roll_step, lambda n: ((n, n),)),
    "a fluid step": (fluid_step, lambda n: ((n, n),)),
    "unlike work joined": (joined_work, lambda n: ((n, n), (n, n))),
    "stacked work": (stacked, lambda n: ((n, n), (n, n))),
    **{f"a stencil with a boundary, {mode}": (stencil(mode), lambda n: ((n, n),))
       for mode in ("constant", "edge", "wrap", "reflect", "symmetric")},
    "rotary embedding": (rotary, lambda n: ((4, n, 8, 64), (n, 1, 64), (n, 1, 64))),
    "a norm of what is rolled": (norm_of_rolled, lambda n: ((n, n),)),
}  # fmt: skip


def traced(name: str, n: int) -> ef.Graph:
    function, shapes = PROGRAMS[name]
    return ef.trace(function, *[ef.spec(shape, F) for shape in shapes(n)])


@cache
def saturated(graph: ef.Graph) -> ef.Space:
    """Once for all targets."""
    return ef.saturate(graph)


def kernels(graph: ef.Graph, target: str) -> list[Any]:
    return [k for k in ef.extract(saturated(graph), target=DEVICES[target]).kernels if not k.is_view]


@pytest.mark.parametrize("target", ["cpu", "h200"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_one_kernel(name, target):
    assert len(kernels(traced(name, 1024), target)) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_the_evaluator_says_under_any_prices(name):
    rng = np.random.default_rng(len(name))
    graph = traced(name, 6)
    space = ef.saturate(graph)
    arrays = [rng.standard_normal(n.shape).astype(n.dtype) for n in graph.inputs]
    wanted = evaluate(graph, arrays)
    for target, extractor in zip(("cpu", "a100"), ("flow", "greedy-duplicate")[:: (-1) ** len(name)], strict=True):
        results = run_plan(chosen_plan(space, scrambled(rng, target), extractor), arrays)
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_runs_it(name):
    graph = traced(name, 96)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(n.shape).astype(n.dtype) for n in graph.inputs]
    program = ef.compile(graph, target=DEVICES["cpu"])
    for got, want in zip(program.run(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def embedded(table, places, gain):
    x = table[places]
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + F(1e-5)) * gain


def cross_entropy(x, places):
    most = x.max(-1, keepdims=True)
    total = np.log(np.exp(x - most).sum(-1, keepdims=True)) + most
    return total - np.take_along_axis(x, places[:, None], -1)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_what_is_gathered_by_traced_places_is_read_where_it_lies(target):
    places = ef.spec((1024,), np.int64)
    assert len(kernels(ef.trace(embedded, ef.spec((32000, 256), F), places, ef.spec((256,), F)), target)) == 1
    assert [k.kind for k in kernels(ef.trace(cross_entropy, ef.spec((1024, 4096), F), places), target)] == ["row"]


def diffused(u, ends):
    """A step in space, of which the inside is written into a copy, and after it the borders."""
    inside = (slice(1, -1),) * u.ndim
    laplace = -2 * u.ndim * u[inside]
    for axis in range(u.ndim):
        for near in (slice(2, None), slice(None, -2)):
            laplace = laplace + u[tuple(near if a == axis else slice(1, -1) for a in range(u.ndim))]
    new = u.copy()
    new[inside] = u[inside] + F(0.1) * laplace
    for axis in range(u.ndim) if ends == "copied" else ():
        along = np.moveaxis(new, axis, 0)
        along[0], along[-1] = along[1], along[-2]
    return new


def rotary_pairs(x, c, s):
    new, even, odd = np.empty_like(x), x[..., ::2], x[..., 1::2]
    new[..., ::2] = even * c - odd * s
    new[..., 1::2] = even * s + odd * c
    return new


def by_turns(count, backwards=False):
    def fill(x, y):
        new = np.empty((x.shape[0], count * x.shape[1]), F)
        for i in range(count)[:: -1 if backwards else 1]:
            new[:, i::count] = x * y if i % 2 else x + i * y
        return new

    return fill


def two_by_two(x, y):
    new = np.empty((2 * x.shape[0], 2 * x.shape[1]), F)
    new[::2, ::2], new[::2, 1::2] = x + y, x * y
    new[1::2, ::2], new[1::2, 1::2] = x - y, y - x * y
    return new


FILLED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "a step in space": (lambda u: diffused(u, "kept"), ((40, 40, 40),)),
    "rotary embedding of pairs": (rotary_pairs, ((4, 256, 64), (256, 32), (256, 32))),
    "two by turns": (by_turns(2), ((300, 200), (300, 200))),
    "two by turns, backwards": (by_turns(2, backwards=True), ((300, 200), (300, 200))),
    "three by turns": (by_turns(3), ((300, 200), (300, 200))),
    "four by turns": (by_turns(4), ((300, 200), (300, 200))),
    "two by two": (two_by_two, ((300, 200), (300, 200))),
}


@pytest.mark.parametrize("target", ["c", "h200"])
@pytest.mark.parametrize("name", FILLED)
def test_a_buffer_that_is_filled_by_slices_is_one_kernel(name, target):
    function, shapes = FILLED[name]
    graph = ef.trace(function, *[ef.spec(shape, F) for shape in shapes])
    device = C if target == "c" else DEVICES[target]
    assert [k.kind for k in ef.extract(saturated(graph), target=device).kernels if not k.is_view] == ["map"]


@pytest.mark.parametrize("joined", ["written", "stacked"])
def test_a_rotary_embedding_of_pairs_is_one_kernel_on_numpy(joined):
    def stacked(x, c, s):
        even, odd = x[..., ::2], x[..., 1::2]
        return np.stack([even * c - odd * s, even * s + odd * c], -1).reshape(x.shape)

    function = stacked if joined == "stacked" else rotary_pairs
    graph = ef.trace(function, *[ef.spec(shape, F) for shape in ((8, 2048, 64), (2048, 32), (2048, 32))])
    assert [k.kind for k in kernels(graph, "cpu")] == ["map"]


@pytest.mark.parametrize("extent", some([40, 48, 100], 3))
def test_borders_in_space_that_are_written_one_after_another_are_no_library_calls(extent):
    graph = ef.trace(lambda u: diffused(u, "copied"), ef.spec((extent,) * 3, F))
    assert len(kernels(graph, "h200")) == 1
    assert all(k.kind == "map" for k in ef.extract(saturated(graph), target=C).kernels if not k.is_view)


def stepped(u):
    new = np.empty_like(u)
    new[1:-1, 1:-1] = u[1:-1, 1:-1] + F(0.1) * (u[2:, 1:-1] + u[:-2, 1:-1] - u[1:-1, 2:] * u[1:-1, :-2])
    return new


def fixed(u):
    new = stepped(u)
    new[0], new[-1], new[:, 0], new[:, -1] = 0, 1, 2, 3
    return new


def mirrored(u):
    new = stepped(u)
    new[0], new[-1] = new[1], new[-2]
    new[:, 0], new[:, -1] = new[:, 1], new[:, -2]
    return new


def periodic(u):
    new = stepped(u)
    new[0], new[-1] = new[-2], new[1]
    new[:, 0], new[:, -1] = new[:, -2], new[:, 1]
    return new


def extrapolated(u):
    new = mirrored(u)
    new[0], new[:, -1] = 2 * new[1] - new[2], 0
    return new


def mirrored_in_space(u):
    new = diffused(u, "kept")
    new[0], new[-1] = new[1], new[-2]
    new[:, 0], new[:, -1] = new[:, 1], new[:, -2]
    new[:, :, 0], new[:, :, -1] = new[:, :, 1], new[:, :, -2]
    return new


BORDERS = {
    "fixed": (fixed, (2048, 2048)), "mirrored": (mirrored, (2048, 2048)), "periodic": (periodic, (2048, 2048)),
    "extrapolated": (extrapolated, (2048, 2048)), "kept in space": (lambda u: diffused(u, "kept"), (128, 128, 128)),
    "mirrored in space": (mirrored_in_space, (128, 128, 128)),
    "mirrored on a line": (lambda u: diffused(u, "copied"), (1 << 22,)),
}  # fmt: skip


@pytest.mark.parametrize("name", BORDERS)
def test_a_step_and_its_borders_are_one_kernel_on_numpy(name):
    function, shape = BORDERS[name]
    assert [k.kind for k in kernels(ef.trace(function, ef.spec(shape, F)), "cpu")] == ["map"]


@pytest.mark.parametrize("target", ["numpy", pytest.param("c", marks=needs_compiler)])
@pytest.mark.parametrize("shape", some([(5, 3, 40), (23,), (3, 4), (4, 4, 4, 4)], 4), ids=str)
@pytest.mark.parametrize("ends", ["kept", "copied"])
def test_borders_are_what_numpy_writes(ends, shape, target):
    u = np.random.default_rng(len(shape)).standard_normal(shape).astype(F)
    got = ef.compile(lambda u: diffused(u, ends), u, target=target)(u)
    np.testing.assert_allclose(got, diffused(u, ends), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["numpy", pytest.param("c", marks=needs_compiler)])
@pytest.mark.parametrize("name", [n for n in FILLED if "turns" in n or "two" in n])
def test_turns_are_what_numpy_writes(name, target):
    x, y = np.random.default_rng(0).standard_normal((2, 5, 7)).astype(F)
    function, _ = FILLED[name]
    np.testing.assert_allclose(ef.compile(function, x, y, target=target)(x, y), function(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_steps_are_about_a_kernel_each(target):
    def steps(x):
        for _ in range(4):
            x = roll_step(x)
        return x

    graph = ef.trace(steps, ef.spec((1024, 1024), F))
    assert len(kernels(graph, target)) <= 5


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_dear_work_that_is_rolled_many_times_is_stored(target):
    """Where it is read as it lies, at four places, it would be computed four times."""

    def blurred(x):
        for _ in range(6):
            x = np.sin(np.exp(x))
        return np.roll(x, 1, 0) + np.roll(x, 2, 0) + np.roll(x, 3, 0) + np.roll(x, 4, 0)

    assert len(kernels(ef.trace(blurred, ef.spec((2048, 2048), F)), target)) == 2
