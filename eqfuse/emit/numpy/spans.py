"""Which part of a piece a tile takes, where pieces of a joined array meet along the axis that tiles cut.

In: a body with views on leaves only, and its `Panel`. Out: the `Span` of every value that is computed in a
piece. Used by `stage`, and by `tile`, which writes their bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from eqfuse.emit.numpy.tiling import Panel
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes

Bounds = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Span:
    """Of a piece that lies at places `start` to `start` + `extent` of the block's axis, or of that of the span
    `outer`: the places that the tile takes, counted from the beginning of the piece."""

    number: int
    start: int
    extent: int
    outer: Span | None

    @property
    def bounds(self) -> Bounds:
        return f"i{self.number}", f"j{self.number}"


@dataclass(frozen=True, eq=False)
class Spans:
    """`by_value`: the span of values that are not computed over the tile's own block; `pieces`: of a concatenation
    along the block's axis, those of its pieces."""

    by_value: dict[Node, Span]
    pieces: dict[Node, tuple[Span, ...]]

    def reads(self, n: Node, index: int) -> Span | None:
        """The span over which `n` reads its argument `index`."""
        return self.pieces[n][index] if n in self.pieces else self.by_value.get(n)

    def lines(self, block: Bounds, without: Collection[Node]) -> Iterator[str]:
        """Lines for the bounds of all spans but those `without`, of outer ones first."""
        for span in (s for n, spans in self.pieces.items() if n not in without for s in spans):
            low, high = span.outer.bounds if span.outer else block
            stop = span.start + span.extent
            for name, text in zip(span.bounds, (low, high), strict=True):
                shifted = f"{text} - {span.start}" if span.start else text
                yield f"{name} = 0 if {text} < {span.start} else {span.extent} if {text} > {stop} else {shifted}"


NONE = Spans({}, {})


def seams(body: Graph, panel: Panel) -> dict[Node, int]:
    """The axis of the panel along which the pieces of each joined array of `body` meet."""
    joins = [n for n in body.nodes if n.op == "concat"]
    return {n: panel.kept([n.attr("axis")])[0] for n in joins}


def spans(body: Graph, panel: Panel, block: int, loops: Collection[int] = ()) -> Spans | None:
    """The spans of `body` along the axis `block`; None where its tiles cannot be cut at seams, as one value lies in two
    pieces, or as pieces meet along `loops`."""
    met = seams(body, panel)
    if any(axis in loops for axis in met.values()):
        return None
    if block not in met.values():
        return NONE
    span_of: dict[Node, Span | None] = dict.fromkeys([o for o in body.outputs if computes(o)])
    pieces: dict[Node, tuple[Span, ...]] = {}
    for n in reversed(body.nodes):
        if n not in span_of:
            continue
        outer = span_of[n]
        inner: tuple[Span | None, ...] = (outer,) * len(n.args)
        if met.get(n) == block and _varies(n, panel, block):
            pieces[n] = inner = _pieces(n, outer, sum(map(len, pieces.values())))
        for a, span in zip(n.args, inner, strict=True):
            own = span if _varies(a, panel, block) else None
            if computes(a) and span_of.setdefault(a, own) is not own:
                return None
    return Spans({n: span for n, span in span_of.items() if span is not None}, pieces)


def _varies(n: Node, panel: Panel, axis: int) -> bool:
    return panel.dims(n.shape)[axis] > 1


def _pieces(n: Node, outer: Span | None, first: int) -> tuple[Span, ...]:
    pieces: list[Span] = []
    start = 0
    for a in n.args:
        extent = a.type.extent(n.attr("axis"))
        pieces.append(Span(first + len(pieces), start, extent, outer))
        start += extent
    return tuple(pieces)
