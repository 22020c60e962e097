"""Cut a graph at its waists, so that each distinct piece is saturated and mapped once.

In: a `Graph`. Out: the distinct pieces, and where each is used. Next stop: `egraph.saturate`.
A waist is a point where one computed tensor carries everything that comes after it. The cut is taken where fusion has
least to lose: behind a tensor that is stored anyway because several operators, or only products, read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.ir import Graph, Literal, Node, input_node, node
from eqfuse.ops import Role, row

SEGMENT_OPERATORS = 24  # fewer are not worth a segment of their own


@dataclass(frozen=True)
class Use:
    """One place where a distinct segment stands: the original nodes behind its inputs and outputs, in order."""

    segment: int
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


def segments(graph: Graph) -> tuple[list[Graph], list[Use]]:
    """The distinct segments of `graph` in order of first use, and all uses in the order they run."""
    distinct: dict[Graph, int] = {}
    uses = []
    for outputs, boundary in _pieces(graph):
        piece, inputs = canonical(outputs, boundary)
        uses.append(Use(distinct.setdefault(piece, len(distinct)), inputs, outputs))
    return list(distinct), uses


def whole(graph: Graph) -> tuple[list[Graph], list[Use]]:
    """`graph` as one segment."""
    piece, inputs = canonical(graph.outputs, set())
    return [piece], [Use(0, inputs, graph.outputs)]


def _pieces(graph: Graph) -> list[tuple[tuple[Node, ...], set[Node]]]:
    """(outputs, nodes to stop at) of each piece."""
    known = _known(graph)
    last_use: dict[Node, int] = dict.fromkeys(graph.outputs, len(graph.nodes))
    readers: dict[Node, list[Node]] = {}
    for at, n in enumerate(graph.nodes):
        for a in n.args:
            last_use[a] = max(last_use.get(a, 0), at)
            readers.setdefault(a, []).append(n)
    outputs = set(graph.outputs)
    live: set[Node] = set()
    cuts: list[Node] = []
    operators = 0
    total = sum(n not in known for n in graph.operators)
    for at, n in enumerate(graph.nodes):
        if n in known or n.op == "input":
            continue
        live.add(n)
        live.difference_update([a for a in n.args if last_use[a] == at])
        operators += 1
        total -= 1
        long_enough = operators >= SEGMENT_OPERATORS <= total
        if long_enough and live == {n} and n not in outputs and _stored_anyway(n, readers[n]):
            cuts.append(n)
            operators = 0
    boundary: set[Node] = set()
    pieces: list[tuple[tuple[Node, ...], set[Node]]] = []
    for cut in cuts:
        pieces.append(((cut,), set(boundary)))
        boundary = boundary | {cut}
    pieces.append((graph.outputs, boundary))
    return pieces


def _stored_anyway(n: Node, readers: list[Node]) -> bool:
    if row(n.op).role is Role.VIEW:
        return False
    products = all(row(r.op).role in (Role.CONTRACTION, Role.WINDOW, Role.UPDATE, Role.LIBRARY) for r in readers)
    return products or len(readers) > 1


def _known(graph: Graph) -> set[Node]:
    """Nodes that depend on constants alone."""
    known: set[Node] = set()
    for n in graph.nodes:
        if n.op == "const" or (n.op == "input" and n.attrs[2]) or (n.args and all(a in known for a in n.args)):
            known.add(n)
    return known


def canonical(outputs: tuple[Node, ...], boundary: set[Node]) -> tuple[Graph, tuple[Node, ...]]:
    """The piece with its inputs numbered in order of first use, and large constants turned into known inputs."""
    new: dict[Node, Node] = {}
    inputs: list[Node] = []
    stack = list(reversed(outputs))
    while stack:
        n = stack[-1]
        if n in new:
            stack.pop()
            continue
        literal = n.attrs[0] if n.op == "const" else None
        large = isinstance(literal, Literal) and n.type.size > 1
        if n in boundary or n.op == "input" or large:
            known = large or (n.op == "input" and n.attrs[2])
            new[n] = input_node(f"i{len(inputs)}", n.type, bool(known))
            inputs.append(n)
        elif missing := [a for a in n.args if a not in new]:
            stack.extend(reversed(missing))
        else:
            new[n] = n if isinstance(literal, Literal) else node(n.op, (new[a] for a in n.args), n.attrs)
    return Graph(tuple(new[i] for i in inputs), tuple(new[o] for o in outputs)), tuple(inputs)
