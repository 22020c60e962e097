"""Random numbers inside a traced function: drawn at each call, in the function's order, from the caller's generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng, rand

import eqfuse as ef

X = np.arange(12.0).reshape(3, 4)
OUTSIDE = default_rng(3)


def draws(x: Any, rng: Any) -> Any:
    noise = rng.normal(size=x.shape)
    return (
        x + noise, noise * 2, rng.integers(0, 10, 3), rng.random(), rng.standard_normal((2, 2), np.float32),
        rng.permutation(x), rng.choice(x, 2), rng.permutation(4), rng.normal(x, 0.5), rng.uniform(x, x + 1),
        rng.exponential(x[0]),
    )  # fmt: skip


def same(got: Any, wanted: Any) -> None:
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-14)
        assert np.asarray(g).dtype == np.asarray(w).dtype


@pytest.mark.parametrize("generator", [default_rng, np.random.RandomState])
def test_a_generator_argument_advances_as_in_numpy(generator):
    def both(x: Any, rng: Any) -> Any:
        return x + rng.normal(size=x.shape), rng.permutation(x), rng.uniform(x, 2.0), rng.choice(x[0], 2)

    function = draws if generator is default_rng else both
    jitted, fused, plain = ef.jit(function), generator(5), generator(5)
    for _ in range(3):
        same(jitted(X, fused), function(X, plain))
    assert fused.normal() == plain.normal()


def test_a_draw_happens_once_however_often_it_is_used():
    def reused(x: Any, rng: Any) -> Any:
        z = rng.normal(size=x.shape)
        return np.sin(z) + x, np.cos(z) * x, z.sum(), x

    program = ef.compile(reused, X, default_rng(0))
    assert sum(n.attr("name").startswith("normal") for n in program.plan.graph.inputs) == 1
    same(program(X, default_rng(1)), reused(X, default_rng(1)))


def test_generators_of_closures_globals_and_the_legacy_one_are_drawn_from_at_each_call():
    local = default_rng(7)

    @ef.jit
    def function(x: Any) -> Any:
        return x + local.normal(), OUTSIDE.random(2), np.random.rand(2), rand(1), np.random.normal(size=2)

    np.random.seed(11)
    first, second = function(X), function(X)
    again, outside = default_rng(7), default_rng(3)
    np.random.seed(11)
    for got in (first, second):
        same(got, (X + again.normal(), outside.random(2), rand(2), rand(1), np.random.normal(size=2)))
    assert isinstance(OUTSIDE, np.random.Generator)
    assert isinstance(local, np.random.Generator)


def test_a_generator_seeded_inside_gives_the_same_numbers_at_each_call():
    @ef.jit
    def function(x: Any) -> Any:
        return x + np.random.default_rng(1).random(4), default_rng(2).permutation(3)

    for _ in range(2):
        same(function(X), (X + default_rng(1).random(4), default_rng(2).permutation(3)))


def test_shuffling_an_argument_reaches_the_caller():
    def function(x: Any, rng: Any) -> None:
        rng.shuffle(x)

    shuffled, wanted = X.copy(), X.copy()
    ef.jit(function)(shuffled, default_rng(4))
    default_rng(4).shuffle(wanted)
    np.testing.assert_array_equal(shuffled, wanted)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ef.TraceError, match="poisson with traced parameters"):
        ef.trace(lambda x, rng: rng.poisson(x), X, default_rng(0))
    with pytest.raises(ef.TraceError, match="out="):
        ef.trace(lambda x, rng: rng.random(out=x), X, default_rng(0))
    with pytest.raises(ef.UnsupportedOp, match="bit_generator"):
        ef.trace(lambda x, rng: rng.bit_generator, X, default_rng(0))
    with pytest.raises(ef.UnsupportedOp, match="seed"):
        ef.trace(lambda x: np.random.seed(0), X)
    with pytest.raises(ef.EqfuseError, match="random"):
        ef.compile(draws, X, default_rng(0)).save(tmp_path / "p")


@pytest.mark.parametrize("made", [default_rng, np.random.RandomState, lambda: np.random.default_rng(None)])
def test_a_generator_without_a_seed_draws_anew_at_each_call(made: Any) -> None:
    function = ef.jit(lambda x: x + made().normal(size=4))
    assert not np.array_equal(function(X), function(X))


SOURCES = {
    "a bit generator": lambda seed: np.random.Generator(np.random.PCG64(seed)),
    "a bit generator, by default_rng": lambda seed: np.random.default_rng(np.random.Philox(seed)),
    "a bit generator of the older kind": lambda seed: np.random.RandomState(np.random.MT19937(seed)),
    "a seed by name": lambda seed: np.random.default_rng(np.random.SeedSequence(entropy=seed)),
    "a key": lambda seed: np.random.Generator(np.random.Philox(key=seed)),
    "a sequence of seeds": lambda seed: np.random.default_rng(np.random.SeedSequence(seed)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_takes_its_seed_from_the_system_is_refused_and_with_a_seed_is_known(source: str) -> None:
    made = SOURCES[source]
    with pytest.raises(ef.TraceError, match="takes its seed from the system"):
        ef.trace(lambda x: x + made(None).normal(size=4), X)
    np.testing.assert_array_equal(ef.jit(lambda x: x + made(3).normal(size=4))(X), X + made(3).normal(size=4))


@pytest.mark.parametrize("made", [default_rng, np.random.RandomState, *SOURCES.values()])
def test_a_seed_that_is_traced_is_refused_with_what_to_do(made: Any) -> None:
    with pytest.raises(ef.TraceError, match="seed of a random generator is a traced value: name the argument"):
        ef.trace(lambda x, seed: x + made(seed).normal(size=4), X, 7)
    known = ef.jit(lambda x, seed: x + made(seed).normal(size=4), static_argnames="seed")
    np.testing.assert_array_equal(known(X, 7), X + made(7).normal(size=4))


def test_classes_of_generators_are_themselves_in_a_traced_function() -> None:
    def program(x: Any) -> Any:
        found = np.random.RandomState(3), np.random.PCG64(3), np.random.default_rng(3)
        kinds = np.random.RandomState, np.random.PCG64, np.random.Generator
        return x + sum(map(isinstance, found, kinds))

    np.testing.assert_array_equal(ef.jit(program)(X), X + 3)
    assert np.random.RandomState is type(np.random.RandomState(0))
