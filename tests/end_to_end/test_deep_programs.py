"""Programs of any depth: no stage of the road takes more of Python's stack for a long program than for a short one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from tests.kernels.test_cuda_deep import few_frames
from tests.support.some import some

FRAMES = 180  # beyond the test's own; every program here has more steps, and twice as many operators
X = np.random.default_rng(0).standard_normal((6, 4))


def one_kernel(x: Any, depth: int) -> Any:
    for i in range(depth):
        x = np.sin(x) if i % 2 else np.cos(x) + 0.5
    return x


def views(x: Any, depth: int) -> Any:
    for _ in range(depth // 2):
        x = x.T.reshape(x.shape)
    return x + 1


def products(x: Any, depth: int) -> Any:
    for _ in range(depth // 2):
        x = np.tanh(x @ x[:4])
    return x


def loop(x: Any, depth: int) -> Any:
    return ef.fori_loop(0, 3, lambda _, carry: one_kernel(carry, depth), x)


def several_results(x: Any, depth: int) -> Any:
    results = []
    for i in range(depth):
        x = x + 1.0 if i % 2 else x * 0.5
        results += [x] * (i % 100 == 0)
    return results


PROGRAMS = (one_kernel, views, products, loop, several_results)


def check(program: Callable[[Any, int], Any], depth: int, folder: Path) -> None:
    """`program` goes from its trace to every form that it is shown, kept and run in."""
    with few_frames(FRAMES):
        graph = ef.trace(lambda x: program(x, depth), X)
        assert ef.parse(str(graph)).key == graph.key
        compiled = ef.compile(graph, target=DEVICES["cpu"])
        on_gpu = ef.compile(graph, target=DEVICES["h100"])
        for variant in (compiled, on_gpu):
            assert str(variant.explain()) and str(variant.report) and variant.source() and repr(variant)
            variant.save(folder / "program")
            assert ef.load(folder / "program").plan.seconds == variant.plan.seconds
        compiled.to_onnx(folder / "model.onnx")
        got = compiled(X)
    np.testing.assert_allclose(got, program(X, depth), rtol=1e-9, atol=1e-12)


@pytest.mark.outside
@pytest.mark.parametrize("program", some(PROGRAMS, 2))
def test_depth_takes_none_of_pythons_stack(program: Callable[[Any, int], Any], tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    check(program, 400, tmp_path)
