"""Rows too long for a tile of which later reductions need earlier ones: parts of them, each reduced by itself, and what
joins these. And rows in whole, of which tiles compute what they are reduced to.

In: a body with views on leaves alone; to be cut, its reductions form a cascade (`eqfuse/kinds/cascade.py`). Out:
`Parts`. Next stop: `scheduling.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.emit.numpy.ops import JOINS
from eqfuse.ir.graph import Graph, Node, const, input_node, node, substitute
from eqfuse.ir.views import computes
from eqfuse.kinds.cascade import Cascade, cascade_of
from eqfuse.ops import Role
from eqfuse.ops.types import Shape, TensorType

SHORTEST_PART = 8  # a part has an eighth of the elements that a tile has room for, at least


@dataclass(frozen=True)
class Parts:
    """`body` gives the results of all reductions by parts, rows of their own, or of whole rows; `rest` makes of these
    what the program has, where `stands` stand for them."""

    body: Graph
    rest: Graph
    stands: tuple[Node, ...]


def in_parts(body: Graph, most: int) -> Parts | None:
    """`body` by parts of up to `most` elements of a row; None where it is not cut so."""
    reductions = body.of_role(Role.REDUCTION)
    if not reductions or any(n.attr("axes") != (-1,) or n.op not in JOINS for n in reductions):
        return None
    extent, shape = reductions[0].args[0].shape[-1], reductions[0].shape
    length = _length(extent, most)
    roles = {n.row.role for n in body.computations}
    if not length or roles != {Role.REDUCTION, Role.ELEMENTWISE} or any(o.shape != shape for o in body.outputs):
        return None
    cascade = cascade_of(body)
    return None if cascade is None else _parts(body, reductions, cascade, length)


def of_whole_rows(body: Graph) -> Parts | None:
    """`body` with what tiles need not compute apart: what is made of the results of reductions, an element for each,
    and read by nothing larger. None where that is nothing, or not all that the body has."""
    reductions = body.of_role(Role.REDUCTION)
    if not reductions or any(o.shape != reductions[0].shape for o in body.outputs):
        return None
    shape, later = reductions[0].shape, set[Node]()
    readers: dict[Node, list[Node]] = {n: [] for n in body.nodes}
    for n in body.nodes:
        for a in n.args:
            readers[a].append(n)
    for n in reversed(body.computations):
        small = n.shape == shape and n.row.role in (Role.ELEMENTWISE, Role.GATHER)
        if small and all(a.shape == shape or not computes(a) for a in n.args) and later.issuperset(readers[n]):
            later.add(n)
    if not later:
        return None
    results = dict.fromkeys(a for n in body.nodes if n in later for a in n.args if computes(a) and a not in later)
    results |= dict.fromkeys(o for o in body.outputs if o not in later)
    stands = {n: input_node(f"rows {k}", n.type) for k, n in enumerate(results)}
    rest = Graph(body.inputs, substitute(body.outputs, stands))
    return Parts(Graph(body.inputs, tuple(results)), rest, tuple(stands.values()))


def _length(extent: int, most: int) -> int:
    """The longest part of a row, as long as the others; 0 where there is none that is long enough."""
    longest = next((length for length in range(min(most, extent // 2), 0, -1) if extent % length == 0), 0)
    return longest if longest * SHORTEST_PART >= most else 0


def _parts(body: Graph, reductions: Sequence[Node], cascade: Cascade, length: int) -> Parts:
    extent = reductions[0].args[0].shape[-1]
    count = const(length, cascade.count.dtype)
    counterparts: dict[Node, Node] = {}  # what stands in a part for each value; of a reduction, what others need of it
    results: list[Node] = []
    for n in body.nodes:
        if not computes(n):
            counterparts[n] = _by_parts(n, extent, length)
        elif n in reductions:
            reduction = n.over([counterparts[a] for a in n.args])
            results.append(reduction)
            bindings = {cascade.parts[n]: reduction, cascade.count: count}
            counterparts[n] = substitute((cascade.anchors[n],), bindings)[0] if n in cascade.anchors else reduction
        else:
            counterparts[n] = n.over([counterparts[a] for a in n.args])
    stands = tuple([
        input_node(f"parts {k}", TensorType(n.dtype, (*n.shape[:-1], extent // length)))
        for k, n in enumerate(reductions)
    ])  # fmt: skip
    bindings = {cascade.parts[n]: stand for n, stand in zip(reductions, stands, strict=True)} | {cascade.count: count}
    wholes: dict[Node, Node] = {}
    for n in reductions:
        (share,) = substitute((cascade.shares[n],), bindings)
        wholes[n] = bindings[cascade.wholes[n]] = n.over((share,))
    rest = Graph(body.inputs, substitute(body.outputs, wholes))
    return Parts(Graph(body.inputs, tuple(results)), rest, stands)


def _by_parts(n: Node, extent: int, length: int) -> Node:
    """A leaf behind its views, with the axis of parts before the last one."""
    if not n.shape:
        return n
    last = (extent // length, length) if n.shape[-1] == extent else (1, n.shape[-1])
    shape: Shape = (*n.shape[:-1], *last)
    return node("reshape", (n,), (shape,))
