"""Where the values of a graph come from: the user's lines, for those of derivatives the lines that are differentiated.

In: a function, traced while `noting`. Out: by node its `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from eqfuse.ir.graph import CodePlace, Node, substitute, topological


class Origin(NamedTuple):
    """`place`: the user's. `operator`: the one that is differentiated there, of a value of its derivative."""

    place: CodePlace | None
    operator: str | None = None


_noted: ContextVar[dict[Node, Origin] | None] = ContextVar("_noted", default=None)


@contextmanager
def noting() -> Iterator[dict[Node, Origin]]:
    """Origins are noted meanwhile."""
    token = _noted.set({})
    try:
        origins = _noted.get()
        assert origins is not None
        yield origins
    finally:
        _noted.reset(token)


def note_places(places: Mapping[Node, CodePlace | None], outputs: Sequence[Node]) -> None:
    """`places` are where values were made; others below `outputs` were made on the way to one that has a place."""
    noted = _noted.get()
    if noted is None:
        return
    for value, place in places.items():
        if place is not None:
            noted.setdefault(value, Origin(place))
    for n in reversed(topological(outputs)):
        if n in noted:
            for a in n.args:
                noted.setdefault(a, noted[n])


def note_derived(source: Node, derivatives: Iterable[Node | None], program: Iterable[Node]) -> None:
    """`derivatives`, down to what is `program`, are for the derivative of `source`."""
    noted = _noted.get()
    if noted is None:
        return
    origin = noted.get(source, Origin(None))
    stops = set(program)
    stack = [m for m in derivatives if m is not None]
    while stack:
        m = stack.pop()
        if m not in stops and m not in noted:
            noted[m] = Origin(origin.place, origin.operator or source.op)
            stack += m.args


def note_instead(values: dict[Node, Node]) -> None:
    """Nodes over the keys of `values` are now nodes over these."""
    noted = _noted.get()
    if noted:
        for n, new in zip(list(noted), substitute(noted, values), strict=True):
            noted.setdefault(new, noted[n])
