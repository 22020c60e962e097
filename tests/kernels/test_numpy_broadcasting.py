"""Whatever broadcasts, a kernel gives the evaluator's answer: bodies drawn over shapes, views, kinds and devices."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.graph import node
from eqfuse.kinds import KINDS
from tests.kernels.bodies import DEVICES, Drawn
from tests.kernels.one_answer import Reference, arrays_for
from tests.support.drawing import many
from tests.support.kernels import body, judge, kernel, number, read, reduced, run, scheduled_for

SHORT = ef.Budget(nodes=500, rounds=5)


def drawn(seed: int, draw: type[Drawn] = Drawn) -> tuple[str, ef.Graph, list[np.ndarray], ef.Device, Reference] | None:
    """Kind, body, arrays, device and judge. None where there is no body, or none that NumPy computes."""
    rng = np.random.default_rng(seed)
    drawing = draw(rng, DEVICES[seed % len(DEVICES)])
    kind, graph = drawing.body() or ("view", None)
    if graph is None:
        return None
    arrays = arrays_for(rng, graph)
    try:
        return kind, graph, arrays, drawing.device, Reference(graph, arrays)
    except ValueError:
        return None


def check_kernel(seed: int, draw: type[Drawn] = Drawn) -> str | None:
    """Judge one kernel. Its kind and whether it has tiles."""
    case = drawn(seed, draw)
    if case is None:
        return None
    kind, graph, arrays, device, wanted = case
    before = [a.tobytes() for a in arrays]
    text = f"seed {seed}, a kernel of kind {kind} on {device.name}\n{graph}"
    with np.errstate(all="ignore"):
        assert wanted.agree(run(kind, graph, arrays, device)), text
    assert before == [a.tobytes() for a in arrays], f"it wrote into what it reads: {text}"
    return f"{kind}, tiled" if "share(" in emit_kernel(kernel(kind, graph), device).source else kind


@pytest.mark.parametrize("part", range(3))
def test_kernels_of_every_kind_broadcast_as_numpy_does(part):
    counts = Counter(check_kernel(seed) for seed in range(150 * part, 150 * part + 150))
    fused = [kind for kind in scheduled_for("numpy") if not (KINDS[kind].is_view or KINDS[kind].is_library)]
    assert counts.keys() >= {f"{kind}, tiled" for kind in fused}


@pytest.mark.slow
def test_many_kernels_of_every_kind_broadcast_as_numpy_does():
    for seed in range(10_000, 10_000 + many(300)):
        check_kernel(seed)


def check_program(seed: int, numerics: str) -> None:
    case = drawn(seed)
    if case is not None:
        _, graph, arrays, device, wanted = case
        program = ef.compile(graph, target=device, numerics=numerics, budget=SHORT)
        text = f"seed {seed}, {numerics}, on {device.name}\n{graph}\n{program.plan}"
        assert wanted.agree(program.run(arrays), numerics == "strict"), text


@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
def test_programs_broadcast_as_numpy_does(numerics):
    for seed in range(2000, 2012):
        check_program(seed, numerics)


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
def test_many_programs_broadcast_as_numpy_does(numerics):
    for seed in range(3000, 3000 + many(20)):
        check_program(seed, numerics)


def test_operands_of_higher_rank_than_the_rest_are_read_by_columns():
    x, y = read(0, (640, 2), np.float64), read(1, (1, 1, 1), np.float64)
    assert "for q in range(2):" in judge("map", body([x, y], node("divide", (y, x))))


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_axes_that_an_operand_reads_apart_are_not_merged_across_a_unit_axis(device):
    x, y = read(0, (25, 1, 63, 3)), read(1, (63, 3))
    pooled = node("window_sum", (node("maximum", (x, y)),), ((2,), (2,), ((1, 1),)))
    judge("window", body([x, y], pooled), device=device)
    x, y = read(0, (2, 1, 25)), read(1, (2, 1, 1))
    judge("reduce", body([x, y], reduced("max", node("multiply", (x, y)), -3, -2, -1)), device=device)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite", "signbit"])
def test_numpys_predicates_are_not_written_into_gaps(op, device):
    for shape in ((300, 2), (2, 400, 3), (600, 1), (600,)):
        x = read(0, shape, np.float64)
        arrays = [np.resize([np.nan, 1, -np.inf, -0.0, 5], shape)]
        y, twos = node(op, (x,)), (2,) * len(shape)
        judge("map", body([x], y), arrays, device)
        judge("window", body([x], node("window_max", (y,), (twos, twos, ((1, 1),) * len(shape)))), arrays, device)


def test_nothing_is_lost_in_a_product_with_one_element():
    x, y = read(0, (30, 1)), read(1, (1, 1))
    arrays = [np.full((30, 1), np.nan, np.float32), np.zeros((1, 1), np.float32)]
    judge("contract", body([x, y], node("matmul", (x, y))), arrays)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_a_tile_of_a_convolution_may_read_padding_alone(device):
    x, w = read(0, (1, 2, 640, 1)), read(1, (5, 640, 1, 1))
    image = node("negative", (node("transpose", (x,), ((3, 2, 1, 0),)),))
    convolved = node("conv", (image, w), ((2, 3), ((0, 1), (0, 1)), (1, 1), 1))
    graph = body([x, w], convolved)
    judge("contract", graph, arrays_for(np.random.default_rng(0), graph), device)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_what_all_tiles_share_may_have_two_bounds(device):
    x, y = read(0, (17, 3, 25)), read(1, (2, 17, 3, 25))
    shared = node("minimum", (number(2), node("maximum", (x, number(1)))))
    judge("map", body([x, y], node("maximum", (y, shared))), device=device)
