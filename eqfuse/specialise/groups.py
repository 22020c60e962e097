"""Calls of one function that differ in their extents alone, for `ef.jit(dynamic=…)`.

In: the first call, and what `dynamic` says. Out: a `Version` for the shapes of each further call. With ``dynamic=True``
the first shapes are compiled for as they are; extents that differ in a later call become symbols, and where a symbol
turns out to be two, or a fixed extent changes, there is a new family with more symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqfuse.ops.types import Shape
from eqfuse.specialise.calls import FunctionCall
from eqfuse.specialise.family import Family
from eqfuse.specialise.symbolic import declared, generalised
from eqfuse.specialise.versions import Version

Dynamic = bool | Mapping[str, Sequence[int | str | None]]
Shapes = Sequence[Shape | None]

PATTERNS = 8  # with named symbols: combinations of the other extents; the oldest go first


class CallGroup:
    """The families of plans for calls that nest alike and have equal dtypes and ranks."""

    def __init__(self, call: FunctionCall, dynamic: Dynamic, options: Mapping[str, Any]) -> None:
        self._call, self._dynamic, self._options = call, dynamic, options
        self._seen: list[Shapes] = []  # with ``dynamic=True``: calls that no pattern before them fitted
        self._families: list[Family] = []

    def make(self, call: FunctionCall) -> Version:
        """The program for arrays of the shapes and layouts that `call` has."""
        self._call.take_numbers(call.leaves)
        shapes, layouts = call.shapes, call.layouts
        for family in self._families:
            if family.pattern.misfit(shapes) is None:
                return family.make(family.pattern.sizes(shapes), layouts)
        seen = [*self._seen, shapes]
        family = self._family(seen)
        version = family.make(family.pattern.sizes(shapes), layouts)
        if self._dynamic is True:
            self._families, self._seen = [family], seen
        else:
            self._families = [*self._families, family][-PATTERNS:]
        return version

    def __str__(self) -> str:
        return "\n".join(str(family) for family in self._families)

    def _family(self, seen: Sequence[Shapes]) -> Family:
        """The family whose pattern the last shapes fit, and with ``dynamic=True`` all the others too."""
        call = self._call
        name = getattr(call.fn, "__qualname__", repr(call.fn))
        if isinstance(self._dynamic, Mapping):
            pattern = declared(call.names, call.dtypes, seen[-1], self._dynamic)
            return Family(name, pattern, call.trace, self._options)
        pattern = generalised(call.names, call.dtypes, seen)
        return Family(name, pattern, call.trace, self._options, [pattern.sizes(shapes) for shapes in seen])
