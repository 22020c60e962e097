"""SciPy's distributions, which draw from a generator that each of them holds.

In: what `scipy.stats` has, once it is imported, and distributions with fixed parameters. Out: the traced generators
that stand in for theirs, and what draws from those. Used by `stand_ins.py`.
"""

from __future__ import annotations

import copy
import sys
import types
from functools import cache, lru_cache
from typing import Any

from eqfuse.frontends.numpy.random import GENERATORS, TracedGenerator

ReplacedNames = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # a namespace; some of it; what stands for that

_HELD = "_random_state"


def drawing() -> list[ReplacedNames]:
    """The attributes of the distributions that `scipy.stats` has, their generators, and what stands in for these."""
    stats = sys.modules.get("scipy.stats")
    return [] if stats is None else [(held, *_stand_in(held[_HELD])) for held in _holders(stats, len(vars(stats)))]


@cache
def _holders(stats: types.ModuleType, _names: int) -> list[dict[str, Any]]:
    """The attributes of all that holds a generator in `stats`, which has so many names."""
    return [vars(value) for value in list(vars(stats).values()) if _generator(value) is not None]


@lru_cache(16)
def _stand_in(generator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attribute with `generator`, which a hundred distributions share, and with what stands in for it."""
    return {_HELD: generator}, {_HELD: TracedGenerator(generator, generator)}


def frozen(value: Any) -> Any:
    """If `value` is a distribution with fixed parameters, one like it that draws from a traced generator."""
    if not type(value).__module__.startswith("scipy.stats."):
        return None
    for name in ("dist", "_dist"):
        inner = getattr(value, "__dict__", {}).get(name)
        generator = _generator(inner)
        if generator is not None:
            distribution, drawn = copy.copy(value), copy.copy(inner)
            vars(drawn)[_HELD] = TracedGenerator(generator, generator)
            vars(distribution)[name] = drawn
            return distribution
    return None


def _generator(value: Any) -> Any:
    held = None if isinstance(value, type) else getattr(value, "__dict__", {}).get(_HELD)
    return held if issubclass(type(held), GENERATORS) else None
