"""Gradients of random programs (views and writes into them, gathers, loops, matrices) against torch's and JAX's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.support.drawing import EXPLORING, many
from tests.support.random_differentiable import DifferentiableProgram, random_differentiable

PARTS = 2  # of the many programs
REFUSED = 0.06  # the share of programs that torch may refuse: it lets less be written to in place
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _programs(part: int = 0) -> Iterator[DifferentiableProgram]:
    first = int(np.random.default_rng().integers(10**9)) if EXPLORING else 0
    return map(random_differentiable, count(first + part, PARTS))


def _ours(program: DifferentiableProgram) -> list[Any]:
    """Value and gradients, operator by operator."""
    arguments = program.arguments
    value, gradients = ef.value_and_grad(program.build(), tuple(range(len(arguments))))(*arguments)
    return [value, *gradients]


def _alike(program: DifferentiableProgram, results: list[Any], wanted: list[Any]) -> None:
    largest = 1 + max(float(np.abs(w).max()) for w in wanted)
    for f, w in zip(results, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-7, atol=1e-9 * largest, err_msg=program.text)


def _by_torch(programs: Iterator[DifferentiableProgram], wanted: int) -> None:
    pytest.importorskip("torch", reason="the programs are compared with torch's autograd")
    from tests.support.torch_numpy import torch_value_and_gradient

    compared = refused = 0
    while compared < wanted:
        program = next(programs)
        try:
            value, gradients = torch_value_and_gradient(program, program.arguments)
        except (RuntimeError, IndexError):
            refused += 1
            continue
        _alike(program, _ours(program), [value, *gradients])
        compared += 1
    assert refused <= 3 + REFUSED * compared


def test_random_programs_have_the_gradients_that_torch_gives() -> None:
    _by_torch(_programs(), 60)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_programs_have_the_gradients_that_torch_gives(part: int) -> None:
    _by_torch(_programs(part), many(150))


@pytest.mark.slow
def test_compiled_gradients_of_random_programs_are_those_of_the_evaluator() -> None:
    for program in islice(_programs(), 0, many(120), 40):
        arguments = program.arguments
        compiled = ef.compile(ef.value_and_grad(program.build(), tuple(range(len(arguments)))), *arguments)
        value, gradients = compiled(*arguments)
        _alike(program, [value, *gradients], _ours(program))


@pytest.mark.slow
def test_random_programs_have_the_gradients_that_jax_gives() -> None:
    jax = pytest.importorskip("jax", reason="the programs are compared with jax.grad")
    functions = SimpleNamespace(
        softmax=jax.nn.softmax, gelu=partial(jax.nn.gelu, approximate=False), sigmoid=jax.nn.sigmoid,
        scan=jax.lax.scan, fori_loop=jax.lax.fori_loop, cond=jax.lax.cond,
    )  # fmt: skip
    pure = (program for program in _programs() if not program.writes)
    with jax.enable_x64(True):
        for program in islice(pure, many(3)):
            arguments = program.arguments
            function = program.build(jax.numpy, functions)
            differentiated = jax.value_and_grad(function, tuple(range(len(arguments))))
            value, gradients = differentiated(*map(jax.numpy.asarray, arguments))
            _alike(program, _ours(program), [value, *gradients])
