"""Where the values of a graph come from: the user's lines, for those of derivatives the lines that are differentiated.

In: a function, traced while `noting`. Out: `Origins`, which has the `Origin` of a node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from eqfuse.ir.graph import CodePlace, Node, input_node, made_over, substitute, topological
from eqfuse.ops.types import TensorType


class Origin(NamedTuple):
    """`place`: the user's. `operator`: the one that is differentiated there, of a value of its derivative."""

    place: CodePlace | None
    operator: str | None = None


class Origins:
    """`noted`: those of some nodes. `made_of`: by node another one, of which it was made over other values."""

    def __init__(self) -> None:
        self.noted: dict[Node, Origin] = {}
        self.made_of: dict[Node, Node] = {}

    def note(self, n: Node, origin: Origin) -> None:
        """Notes the `origin` of `n`, unless one is known, or `n` was made of a derivative's value."""
        if n not in self.noted:
            before = self.origin_of(n)
            self.noted[n] = origin if before is None or before.operator is None else before

    def origin_of(self, n: Node) -> Origin | None:
        """The origin of `n`, or of what it was made of."""
        seen: set[Node] = set()
        while n not in self.noted:
            seen.add(n)
            before = self.made_of.get(n)
            if before is None or before in seen:
                return None
            n = before
        return self.noted[n]


_origins: ContextVar[Origins | None] = ContextVar("_origins", default=None)
_serial = itertools.count()


@contextmanager
def noting() -> Iterator[Origins]:
    """Origins are noted meanwhile."""
    origins = Origins()
    token, over = _origins.set(origins), made_over.set(origins.made_of)
    try:
        yield origins
    finally:
        _origins.reset(token)
        made_over.reset(over)


def is_noting() -> bool:
    return _origins.get() is not None


def body_inputs(names: Iterable[str], types: Iterable[TensorType]) -> list[Node]:
    """The inputs of the body of a loop or a branch. While origins are noted no two bodies have one in common, as alike
    steps of two loops would be the same nodes."""
    mark = f" of loop {next(_serial)}" if is_noting() else ""
    return [input_node(name + mark, t) for name, t in zip(names, types, strict=True)]


def note_places(places: Mapping[Node, CodePlace | None], outputs: Sequence[Node]) -> None:
    """`places` are where values were made; others below `outputs` were made on the way to one that has a place."""
    origins = _origins.get()
    if origins is None:
        return
    for value, place in places.items():
        if place is not None:
            origins.note(value, Origin(place))
    for n in reversed(topological(outputs)):
        if n in origins.noted:
            for a in n.args:
                origins.note(a, origins.noted[n])


def note_derived(source: Node, derivatives: Iterable[Node | None], program: Iterable[Node]) -> None:
    """`derivatives`, down to what is `program`, are for the derivative of `source`."""
    origins = _origins.get()
    if origins is None:
        return
    origin = origins.origin_of(source) or Origin(None)
    stops = set(program)
    stack = [m for m in derivatives if m is not None]
    while stack:
        m = stack.pop()
        if m not in stops and m not in origins.noted:
            origins.noted[m] = Origin(origin.place, origin.operator or source.op)
            stack += m.args


def note_instead(values: dict[Node, Node]) -> None:
    """Nodes over the keys of `values` are now nodes over these."""
    origins = _origins.get()
    if origins is not None and origins.noted:
        for n, new in zip(list(origins.noted), substitute(origins.noted, values), strict=True):
            origins.noted.setdefault(new, origins.noted[n])
