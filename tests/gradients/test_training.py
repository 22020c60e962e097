"""`ef.train_step`: loss, gradients and update as one function."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 6)).astype(np.float32)
Y = np.tanh(X @ RNG.normal(size=(6, 2))).astype(np.float32)
PARAMS = {
    "w": [RNG.normal(size=(6, 8)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)],
    "b": np.zeros(2, np.float32),
}


def loss(params: Any, x: Any, y: Any) -> Any:
    first, second = params["w"]
    return np.mean((np.tanh(x @ first) @ second + params["b"] - y) ** 2)


def by_hand(optimiser: Any, steps: int) -> list[np.ndarray]:
    """The same in double precision, array by array, as the papers write it."""
    params = [x.astype(np.float64) for x in (PARAMS["b"], *PARAMS["w"])]
    m, v = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    for t in range(1, steps + 1):
        g = ef.grad(loss)({"w": params[1:], "b": params[0]}, X.astype(np.float64), Y.astype(np.float64))
        for i, gi in enumerate([g["b"], *g["w"]]):
            if isinstance(optimiser, ef.sgd):
                m[i] = optimiser.momentum * m[i] + gi
                params[i] = params[i] - optimiser.rate * m[i]
            else:
                m[i] = optimiser.b1 * m[i] + (1 - optimiser.b1) * gi
                v[i] = optimiser.b2 * v[i] + (1 - optimiser.b2) * gi**2
                mean, square = m[i] / (1 - optimiser.b1**t), v[i] / (1 - optimiser.b2**t)
                params[i] = params[i] - optimiser.rate * mean / (np.sqrt(square) + optimiser.eps)
    return params


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", [ef.sgd(0.1), ef.sgd(0.05, momentum=0.9), ef.adam(0.01)])
def test_steps_are_those_of_the_papers(optimiser: Any) -> None:
    step = ef.jit(ef.train_step(loss, optimiser), target="numpy")
    params, state, losses = PARAMS, optimiser.init(PARAMS), []
    for _ in range(5):
        value, params, state = step(params, state, X, Y)
        losses.append(value)
    assert losses[-1] < losses[0] and losses[0] == pytest.approx(float(loss(PARAMS, X, Y)), rel=1e-5)
    for parameter, wanted in zip([params["b"], *params["w"]], by_hand(optimiser, 5), strict=True):
        assert parameter.dtype == np.float32
        np.testing.assert_allclose(parameter, wanted, rtol=1e-3, atol=1e-5)


def test_a_step_is_a_plain_function_too_and_carries_aux() -> None:
    step = ef.train_step(lambda p, x: ((p * x).sum(), {"seen": x.shape[0]}), ef.sgd(0.5), has_aux=True)
    (value, aux), params, state = step(np.ones(3), (), np.arange(3.0))
    assert (value, aux, state) == (3.0, {"seen": 3}, ())
    np.testing.assert_array_equal(params, [1.0, 0.5, 0.0])
    with pytest.raises(ef.EqfuseError, match=r"0\.1 is no optimiser"):
        ef.train_step(loss, 0.1)


@pytest.mark.slow
def test_updates_of_alike_parameters_share_kernels() -> None:
    params = [np.ones((16, 16), np.float32)] * 2
    adam = ef.adam()

    def deep(params: Any, x: Any) -> Any:
        for w in params:
            x = np.tanh(x @ w)
        return x.sum()

    def kernels(fn: Any, *args: Any) -> int:
        return int(ef.compile(fn, *args, target="numpy").report.n_kernels)

    x = np.ones((4, 16), np.float32)
    alone = kernels(ef.value_and_grad(deep), params, x)
    together = kernels(ef.train_step(deep, adam), params, adam.init(params), x)
    assert together - alone <= len(params) + 1, "one for the three results of each, and the step's"


OPTIMISERS = [ef.sgd(0.1), ef.sgd(0.1, momentum=0.5), ef.adam(0.2, b1=0.5)]
PAIRS = list(product([3.0, np.float16(3), np.full(2, 3 - 2j), {"a": np.zeros(0), "b": [2.0, None]}], OPTIMISERS))


@pytest.mark.parametrize(
    "way, start, optimiser", [(ef.jit if i % 2 else lambda f: f, *pair) for i, pair in enumerate(PAIRS)]
)
def test_parameters_of_every_type_are_moved_downhill(way: Any, start: Any, optimiser: Any) -> None:
    def far(p: Any) -> Any:
        return np.sum(np.abs(p - 1) ** 2) if not isinstance(p, dict) else far(p["b"][0]) + far(p["a"])

    step, params, state = way(ef.train_step(far, optimiser)), start, optimiser.init(start)
    for _ in range(40):
        value, params, state = step(params, state)
    assert value < 1e-2
    if isinstance(start, (np.ndarray, np.generic)):
        assert params.dtype == start.dtype and params.shape == start.shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_adam_moves_narrow_parameters_as_wide_ones(dtype: str) -> None:
    params = np.array([1.0, -1.0, 0.5]).astype(np.dtype(dtype))
    weights, adam = np.array([1e-2, 1.0, 0.0]), ef.adam(0.125)
    ends = []
    for p in (params, params.astype(np.float32)):
        step, state = ef.jit(ef.train_step(lambda p: (p * weights.astype(p.dtype)).sum(), adam)), adam.init(p)
        for _ in range(3):
            _, p, state = step(p, state)
        ends.append(p)
    assert ends[0].dtype == dtype and ends[0][2] == params[2], "a gradient of 0 moves nothing"
    np.testing.assert_allclose(ends[0].astype(np.float32), ends[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("optimiser", OPTIMISERS[1:])
def test_a_state_of_other_parameters_is_refused(optimiser: Any) -> None:
    for state in ((), optimiser.init(PARAMS["w"])):
        with pytest.raises(ef.TraceError, match=r"the state of ef.* nests as .*: the first state is init\(params\)"):
            ef.train_step(loss, optimiser)(PARAMS, state, X, Y)
    with pytest.raises(ef.EqfuseError, match="is no optimiser"):
        ef.train_step(loss, type(optimiser))


@pytest.mark.slow
def test_a_batch_is_given_by_position_or_by_name_and_may_nest() -> None:
    def weighted(params: Any, batch: Any, *, state: Any = None, scale: float = 1.0) -> Any:
        squares = (np.tanh(batch["x"] @ params["w"][0]) @ params["w"][1] + params["b"] - batch["y"]) ** 2
        return np.mean(squares if state is None else squares * state) * scale

    sgd, batch = ef.sgd(0.1), {"x": X, "y": Y}
    plain = ef.train_step(weighted, sgd)
    wanted = plain(PARAMS, (), batch)
    assert wanted[0] == pytest.approx(float(loss(PARAMS, X, Y)), rel=1e-5)
    for step in (plain, ef.jit(plain, target="numpy"), ef.jit(plain, target="numpy", static_argnames="scale")):
        value, params, _ = step(PARAMS, (), batch=batch, state=2 * np.ones_like(Y), scale=0.5)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-5)
        np.testing.assert_allclose(params["b"], wanted[1]["b"], rtol=1e-4, atol=1e-7)
    with pytest.raises(ef.EqfuseError, match="missing a required argument: 'batch'"):
        plain(PARAMS, (), data=batch)
