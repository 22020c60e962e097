"""What stands for random generators that a traced function makes: their seeds are known, or they draw at each call.

In: seeds, or none. Out: generators, and `TracedGenerator`s where there is no seed. Used by `stand_ins.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.dispatch import are_constant
from eqfuse.frontends.numpy.promotion import holds_tracer
from eqfuse.frontends.numpy.random import GENERATORS, SeededGenerator, TracedGenerator
from eqfuse.frontends.numpy.tracing import current, untraced
from eqfuse.ir.accepted import constant_of

_GENERATOR, _STATE, _BITS, _PYTHONS = np.random.Generator, np.random.RandomState, np.random.PCG64, random.Random
_SYSTEMS = random.SystemRandom
_RANDBITS = np.random.bit_generator.randbits  # type: ignore[attr-defined]


def default_rng(seed: Any = None) -> Any:
    """np.random.default_rng; without a seed, one that draws at each call."""
    if isinstance(seed, (TracedGenerator, *GENERATORS)):
        return seed
    with untraced() if seed is None else nullcontext():
        generator = _GENERATOR(seed if isinstance(seed, np.random.BitGenerator) else _BITS(_known_seed(seed)))
    return TracedGenerator(generator, generator) if seed is None else SeededGenerator(generator)


def _generator(bits: Any) -> Any:
    return SeededGenerator(_GENERATOR(bits))


def _random_state(seed: Any = None) -> Any:
    constant_seed = seed if isinstance(seed, np.random.BitGenerator) else _known_seed(seed)
    with untraced():
        generator = _STATE(constant_seed)
    return TracedGenerator(generator, generator) if seed is None else SeededGenerator(generator)


def _pythons(seed: Any = None) -> Any:
    generator = _PYTHONS(_known_seed(seed))
    return TracedGenerator(generator, generator) if seed is None else generator


def _systems(*_: Any) -> Any:
    generator = _SYSTEMS()
    return TracedGenerator(generator, generator)


def system_bits(count: int) -> int:
    """What NumPy takes a seed from where none is given; refused while tracing."""
    if current() is not None:
        raise TraceError(_FROM_SYSTEM.format("a random generator without a seed"))
    bits: int = _RANDBITS(count)
    return bits


def _known_seed(seed: Any) -> Any:
    if not holds_tracer(seed):
        return seed
    if not are_constant(((seed,), {})):
        raise TraceError(
            "the seed of a random generator is a traced value: name the argument in static_argnames, or pass the "
            "generator itself as an argument"
        )
    return constant_of(seed, "the seed of a random generator")


_FROM_SYSTEM = (
    "{} takes its seed from the system, and a program would draw the same numbers at every call: use "
    "np.random.default_rng(), or pass a generator as an argument"
)
_SEEDS = ("seed", "entropy", "key")  # by name


class _SeededClass(type):
    """The class of stand-ins for classes whose instances hold random bits: of those without a seed each call of a
    program would have the same."""

    _real: Any
    _maker: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return (cls._real if current() is None else cls._maker)(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._real)


def _seeded(real: type, maker: Callable[..., Any] | None = None) -> _SeededClass:
    """The stand-in for `real`, which makes instances by `maker`, or refuses those without a seed."""

    def refusing(*args: Any, **kwargs: Any) -> Any:
        if all(seed is None for seed in (*args[:1], *(kwargs.get(name) for name in _SEEDS))):
            raise TraceError(_FROM_SYSTEM.format(f"np.random.{real.__name__}()"))
        arguments, named = [*map(_known_seed, args)], {name: _known_seed(value) for name, value in kwargs.items()}
        with untraced():  # some take bits from the system beside what they are given
            return real(*arguments, **named)

    return _SeededClass(real.__name__, (), {"_real": real, "_maker": staticmethod(maker or refusing)})


_SOURCES = (
    np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.SeedSequence,
)  # fmt: skip
SEEDED = {real: _seeded(real) for real in _SOURCES} | {
    _GENERATOR: _seeded(_GENERATOR, _generator),
    _STATE: _seeded(_STATE, _random_state),
    _PYTHONS: _seeded(_PYTHONS, _pythons),
    _SYSTEMS: _seeded(_SYSTEMS, _systems),
}
