"""Random numbers inside a traced function: drawn at each call, in the function's order, from the caller's generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from numpy.random import default_rng, rand
from scipy.stats import multivariate_normal

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


@pytest.mark.parametrize("maker", [default_rng, np.random.RandomState, lambda: np.random.default_rng(None)])
def test_a_generator_without_a_seed_draws_anew_at_each_call(maker: Any) -> None:
    function = ef.jit(lambda x: x + maker().normal(size=4))
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
    maker = SOURCES[source]
    with pytest.raises(ef.TraceError, match="takes its seed from the system"):
        ef.trace(lambda x: x + maker(None).normal(size=4), X)
    np.testing.assert_array_equal(ef.jit(lambda x: x + maker(3).normal(size=4))(X), X + maker(3).normal(size=4))


@pytest.mark.parametrize("maker", [default_rng, np.random.RandomState, *SOURCES.values()])
def test_a_seed_that_is_traced_is_refused_with_what_to_do(maker: Any) -> None:
    with pytest.raises(ef.TraceError, match="seed of a random generator is a traced value: name the argument"):
        ef.trace(lambda x, seed: x + maker(seed).normal(size=4), X, 7)
    known = ef.jit(lambda x, seed: x + maker(seed).normal(size=4), static_argnames="seed")
    np.testing.assert_array_equal(known(X, 7), X + maker(7).normal(size=4))


def test_classes_of_generators_are_themselves_in_a_traced_function() -> None:
    def program(x: Any) -> Any:
        generators = np.random.RandomState(3), np.random.PCG64(3), np.random.default_rng(3)
        kinds = np.random.RandomState, np.random.PCG64, np.random.Generator
        return x + sum(map(isinstance, generators, kinds))

    np.testing.assert_array_equal(ef.jit(program)(X), X + 3)
    assert np.random.RandomState is type(np.random.RandomState(0))


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


def using(holder: Any) -> Any:
    return lambda x: x + holder.held()


HOLDERS = [
    lambda held: Holder(held), lambda held: type("Kind", (), {"held": staticmethod(held)}),
    lambda held: SimpleNamespace(held=held),
]  # fmt: skip
HELD = [
    *(lambda held, holder=holder: using(holder(held)) for holder in HOLDERS),
    lambda held: lambda x: x + held(),
    lambda held: lambda x, held=held: x + held(),
    lambda held: partial(lambda held, x: x + held(), held),
    lambda held: partial(lambda x, held: x + held(), held=held),
    lambda held: lambda x, holder={"a": [held]}: x + holder["a"][0](),
    lambda held: lambda x, holder=(1, ("a", held)): x + holder[1][1](),
]
DRAWN = {
    "Python's module": random.random, "Python's global generator": random._inst.random,
    "a new Python generator": lambda: random.Random().gauss(0, 1), "the system": lambda: random.SystemRandom().random(),
    "NumPy's global generator": np.random.normal, "the same": np.random.mtrand._rand.normal,
    "a new generator": lambda: np.random.default_rng().normal(),
    "a new old one": lambda: np.random.RandomState().normal(),
    "a method": default_rng(5).normal, "a method of Python's": random.Random(5).gauss,
    "a method of an old one": np.random.RandomState(5).normal,
}  # fmt: skip


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("held", range(len(HELD)))
def test_numbers_are_drawn_anew_at_each_call_wherever_the_function_that_draws_is_held(held: int, drawn: str) -> None:
    function = ef.jit(HELD[held](DRAWN[drawn]), target="numpy")
    assert not np.array_equal(function(X), function(X))


@pytest.mark.parametrize("maker", [np.random.default_rng, np.random.RandomState, random.Random, random.SystemRandom])
@pytest.mark.parametrize("held", range(len(HELD)))
def test_makers_of_generators_may_be_held_anywhere(held: int, maker: Any) -> None:
    source = HELD[held](maker)
    function = ef.jit(lambda x: x + source(Nothing()).uniform(0, 1), target="numpy")
    assert not np.array_equal(function(X), function(X))


class Nothing:
    """To which anything may be added."""

    def __add__(self, other: Any) -> Any:
        return other


@pytest.mark.parametrize("maker", [default_rng, np.random.RandomState, random.Random])
@pytest.mark.parametrize("held", range(len(HELD)))
def test_generators_held_anywhere_give_the_numbers_of_the_plain_function(held: int, maker: Any) -> None:
    ours, numpys = maker(3), maker(3)
    function = ef.jit(HELD[held](lambda: _drawn_by(ours)), target="numpy")
    plain = HELD[held](lambda: _drawn_by(numpys))
    for _ in range(3):
        np.testing.assert_array_equal(function(X), plain(X))
    assert type(ours) is maker or isinstance(ours, np.random.Generator)


def _drawn_by(generator: Any) -> Any:
    return generator.uniform(1, 2)


def test_generators_within_containers_and_objects_are_drawn_from_at_each_call() -> None:
    def using(holder: Holder) -> Any:
        return lambda x: x + holder.held[0]["rng"].normal(size=4) + holder.held[1][0].random()

    def new_holder() -> Holder:
        return Holder([{"rng": default_rng(4)}, (random.Random(5),)])

    ours = new_holder()
    function, plain = ef.jit(using(ours)), using(new_holder())
    for _ in range(3):
        np.testing.assert_array_equal(function(X), plain(X))
    assert type(ours.held[0]["rng"]) is np.random.Generator
    assert type(ours.held[1][0]) is random.Random


def test_a_generator_is_of_its_class_and_equal_to_itself_while_it_is_traced() -> None:
    local, known = default_rng(1), random.Random(1)
    table = {local: 2.0, known: 3.0}

    def function(x: Any, rng: Any) -> Any:
        kinds = isinstance(local, np.random.Generator), isinstance(rng, np.random.RandomState)
        return x * table[local] * table[known] + sum(kinds) + isinstance(known, random.Random) + (local == rng)

    np.testing.assert_array_equal(
        ef.jit(function)(X, np.random.RandomState(0)), function(X, np.random.RandomState(0))
    )


def test_a_jitted_function_within_a_traced_one_draws_at_each_call() -> None:
    local = default_rng(6)
    inner = ef.jit(lambda rng: rng.normal(size=4))
    nothing = ef.jit(lambda: local.normal(size=4))

    def function(x: Any, rng: Any) -> Any:
        return x + inner(rng) + nothing()

    jitted, rng, again, numpys = ef.jit(function), default_rng(7), default_rng(6), default_rng(7)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(X, rng), X + numpys.normal(size=4) + again.normal(size=4))


@pytest.mark.parametrize("name", ["choice", "choices", "sample", "shuffle", "seed", "getstate"])
def test_what_pythons_generators_draw_that_is_no_number_is_refused_by_name(name: str) -> None:
    with pytest.raises(ef.UnsupportedOp, match=rf"Random\.{name} cannot be traced: draw from a NumPy generator"):
        ef.trace(lambda x, rng: x + getattr(rng, name)([1, 2, 3]), X, random.Random(0))
    with pytest.raises(ef.TraceError, match="uniform with traced parameters: Python's generators"):
        ef.trace(lambda x, rng, high: x + rng.uniform(0, high), X, random.Random(0), 2.0)


def test_a_generator_that_a_library_makes_without_a_seed_is_refused() -> None:
    hidden = vars(np.random)["default_rng"]
    library = eval("lambda: made().normal()", {"made": hidden, "__name__": "scipy.stats"})
    with pytest.raises(ef.TraceError, match="takes its seed from the system"):
        ef.trace(lambda x: x + library(), X)


FROZEN, FROZEN_PAIR = scipy.stats.gamma(2.0, scale=0.5), multivariate_normal(np.zeros(2), np.eye(2))


@pytest.mark.parametrize("drawn", [
    lambda: scipy.stats.norm.rvs(size=4), lambda: scipy.stats.poisson.rvs(3.0, size=4), lambda: FROZEN.rvs(4),
    lambda: FROZEN_PAIR.rvs(2), lambda: multivariate_normal.rvs(np.ones(3)), lambda: scipy.stats.expon(scale=2).rvs(),
])  # fmt: skip
def test_scipys_distributions_draw_at_each_call_what_they_draw_without_a_trace(drawn: Callable[[], Any]) -> None:
    generators = [scipy.stats.norm._random_state, FROZEN.dist._random_state]
    rows = []
    for function in (drawn, ef.jit(drawn)):
        np.random.seed(5)
        rows.append([function() for _ in range(3)])
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-14)
    assert generators == [scipy.stats.norm._random_state, FROZEN.dist._random_state]


def test_scipys_distributions_take_traced_parameters_and_generators() -> None:
    def noisy(x: Any, rng: Any) -> Any:
        return scipy.stats.norm.rvs(loc=x, size=x.shape, random_state=rng)

    np.testing.assert_allclose(ef.jit(noisy)(X, default_rng(1)), noisy(X, default_rng(1)), rtol=1e-14)


@pytest.mark.parametrize("maker", [
    lambda: default_rng(0), lambda: np.random.RandomState(0), lambda: np.random.Generator(np.random.PCG64(0)),
])  # fmt: skip
@pytest.mark.parametrize("drawn", [
    lambda x, rng: rng.shuffle(x), lambda x, rng: rng.shuffle(x.T), lambda x, rng: rng.permutation(x),
    lambda x, rng: rng.choice(x[0], 2), lambda x, rng: rng.normal(x, 0.5), lambda x, rng: rng.uniform(x, x + 1),
    lambda x, rng: float(rng.normal()) * x, lambda x, rng: x if rng.random() > 0.5 else -x,
    lambda x, rng: rng.bytes(1)[0] + x, lambda x, rng: x[(rng.shuffle(rows := [0, 1, 2]), rows)[1]],
])  # fmt: skip
def test_a_generator_seeded_inside_takes_traced_arrays(maker: Callable[[], Any], drawn: Callable[..., Any]) -> None:
    def function(x: Any) -> Any:
        return drawn(x, maker())

    changed, wanted = X.copy(), X.copy()
    result, plain = ef.jit(function)(changed), function(wanted)
    assert np.array_equal(changed, wanted)
    assert (result is None) == (plain is None)
    if result is not None:
        np.testing.assert_allclose(result, plain)


def test_what_a_seeded_generator_draws_can_be_written_to() -> None:
    def function(x: Any) -> Any:
        noise = default_rng(0).random(4)
        noise[0] = x.sum()
        noise += x[1]
        return noise

    np.testing.assert_allclose(ef.jit(function)(X), function(X))


def test_a_loop_does_not_draw_the_same_at_each_step_from_a_generator_made_before_it() -> None:
    def noisy(x: Any) -> Any:
        rng = default_rng(0)
        return ef.fori_loop(0, 3, lambda i, carry: carry + rng.normal(), x)

    with pytest.raises(ef.TraceError, match="drawn in the body of a loop"):
        ef.trace(noisy, X)


def test_what_a_random_state_refuses_is_refused() -> None:
    for call, error in (
        (lambda x, rng: rng.choice(x, 2), ValueError), (lambda x, rng: rng.shuffle(x, axis=1), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            call(X.copy(), np.random.RandomState(0))
        with pytest.raises(error):
            ef.trace(call, X, np.random.RandomState(0))
