"""Maps that share nothing, in one launch on a GPU: which do, that they compute what they did, and at what price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.cuda.scheduling.side_by_side import side_by_side_schedule
from eqfuse.kinds import kind_named
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
RNG = np.random.default_rng(4)
F = np.float32
SHAPES = ((64, 33), (33,), (33, 17), (17,), (5, 1, 7), ())


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype(F) for shape in shapes]


def adam(parameters: Any, gradients: Any, means: Any, squares: Any) -> Any:
    results = []
    for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
        m = F(0.9) * m + F(0.1) * g
        v = F(0.999) * v + F(0.001) * g * g
        results.append((p - F(0.01) * m / (np.sqrt(v) + F(1e-6)), m, v))
    return results


def on_gpu(fn: Any, *args: Any) -> Any:
    return ef.compile(fn, *args, target="cuda:h100")


def flat(results: Any) -> list[Any]:
    return [a for r in results for a in flat(r)] if isinstance(results, (list, tuple)) else [results]


def check(program: Any, fn: Any, *args: Any) -> None:
    for got, wanted in zip(flat(program_on(program.plan, EmulatedGpu())(*args)), flat(fn(*args)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)
        assert np.shape(got) == np.shape(wanted)


@emulated
@pytest.mark.parametrize("shapes", [SHAPES, ((16, 16),) * 5], ids=["unlike", "alike"])
def test_updates_of_parameters_are_one_launch(shapes: tuple[tuple[int, ...], ...]) -> None:
    args = drawn(*shapes), drawn(*shapes), drawn(*shapes), [np.abs(a) for a in drawn(*shapes)]
    program = on_gpu(adam, *args)
    assert [k.kind for k in program.report.kernels] == ["side_by_side"]
    check(program, adam, *args)


@pytest.mark.slow
@emulated
def test_many_updates_take_as_many_launches_as_their_arrays_need() -> None:
    shapes = tuple((n, 3) for n in range(1, 16))
    args = drawn(*shapes), drawn(*shapes), drawn(*shapes), [np.abs(a) for a in drawn(*shapes)]
    program = on_gpu(adam, *args)
    arrays = [len(k.reads) + len(k.writes) for k in program.plan.kernels if not k.is_view]
    assert sum(arrays) == 15 * 7 and len(arrays) == 2
    assert max(arrays) <= program.plan.device.max_arguments
    check(program, adam, *args)


@emulated
def test_maps_of_views_constants_and_other_dtypes_stand_beside_each_other() -> None:
    table = RNG.normal(size=(9, 4)).astype(F)

    def several(x: Any, y: Any, n: Any) -> Any:
        first = x.T + table[:4, :].ravel()[: x.shape[0]] * 2
        return first, np.tanh(y)[:, None] * F(3), n * 2 + 1, np.roll(y, 2), n > 3, table[:, ::2] * y[1]

    args = *drawn((4, 7), (11,)), np.arange(13)
    program = on_gpu(several, *args)
    assert "side_by_side" in [k.kind for k in program.report.kernels]
    check(program, several, *args)


@emulated
def test_a_map_that_another_needs_runs_before_it() -> None:
    def through(x: Any, w: Any, y: Any) -> Any:
        first = np.tanh(x)  # the second map needs it, by a product; the third needs neither
        return first, np.exp(first @ w) * 2, np.sin(y), np.cos(np.sin(y) @ w[:2]) + 1

    args = drawn((5, 6), (6, 9), (3, 2))
    program = on_gpu(through, *args)
    check(program, through, *args)
    done: set[int] = set(program.plan.inputs)
    for k in program.plan.kernels:
        assert done.issuperset(k.reads)
        done |= {*k.writes}


def test_maps_that_take_longer_than_their_launch_stay_apart() -> None:
    def two(x: Any, y: Any) -> Any:
        return np.tanh(x), np.exp(y)

    report = on_gpu(two, *(ef.spec(shape, F) for shape in ((4000, 4000), (3000, 3000)))).report
    assert [k.kind for k in report.kernels] == ["map", "map"]


def test_one_launch_is_priced_below_those_that_it_replaces() -> None:
    args = [drawn(*SHAPES) for _ in range(4)]
    device = on_gpu(adam, *args).plan.device
    alone = [on_gpu(adam, *([a[i]] for a in args)).report for i in range(len(SHAPES))]
    together = on_gpu(adam, *args).report
    assert together.predicted_seconds < sum(r.predicted_seconds for r in alone) - 4 * device.launch_seconds
    assert together.bytes_moved == sum(r.bytes_moved for r in alone)


def test_its_schedule_reads_and_writes_what_its_maps_do() -> None:
    program = on_gpu(adam, *[drawn((300, 200), (77,)) for _ in range(4)])
    (kernel,) = program.plan.kernels
    schedule = side_by_side_schedule(kernel.body, program.plan.device)
    assert schedule == kind_named(kernel.kind).schedule(kernel.body, program.plan.device)
    assert schedule.grid == (sum(part.schedule.grid[0] for part in schedule.parts), 1) and len(schedule.parts) == 2
    assert schedule.reads == tuple(n.type.nbytes for n in kernel.body.inputs)
    assert schedule.writes == tuple(n.type.nbytes for n in kernel.body.outputs)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_targets_without_such_kernels_have_none(target: str) -> None:
    program = ef.compile(adam, *[drawn((4, 3), (3,)) for _ in range(4)], target=target)
    assert {k.kind for k in program.report.kernels} == {"map"}


@emulated
def test_a_plan_with_such_a_kernel_serves_other_sizes_and_is_read_again(tmp_path: Any) -> None:
    def updated(x: Any, y: Any) -> Any:
        return np.tanh(x) * 2, np.exp(y) + 1

    program = ef.compile(updated, ef.spec(("n", 3), F), ef.spec(("m",), F), target="cuda:h100")
    for n, m in ((4, 5), (9, 2), (1, 30)):
        sized = program.at(n=n, m=m)
        assert [k.kind for k in sized.report.kernels] == ["side_by_side"]
    assert "0 compiled anew" in str(program._family)
    args = drawn((4, 3), (5,))
    fixed = on_gpu(updated, *args)
    fixed.save(tmp_path / "beside.eqf")
    check(ef.load(tmp_path / "beside.eqf"), updated, *args)
