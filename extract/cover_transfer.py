"""Cover transfer: the cover of one segment of a family for the others, which differ from it in extents.

In: a segment, its cover, and the graphs of others of its family. Out: their segments and covers, where there are such:
the kernels are the same operators with the other extents, priced anew. Put back into one another they must be the graph
node for node, or be proved equal to it by egglog with the laws that the first cover rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.egraph.equality import PROOF_ROUNDS, equalities, equality
from eqfuse.egraph.space import Segment, as_written
from eqfuse.errors import ShapeError
from eqfuse.extract.assemble import constant_body
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Cover, Group
from eqfuse.extract.moves.merge import group
from eqfuse.ir.correspondence import Correspondence, NoTransfer
from eqfuse.ir.graph import Graph, Node
from eqfuse.rewrites import Law


@dataclass(frozen=True)
class _SourceKernel:
    """A kernel of the first cover. `nodes`: of its body, and what each is over the inputs of the program."""

    group: Group
    nodes: tuple[tuple[Node, Node], ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True)
class _Alignment:
    """What the results are at other extents, and the nodes of each kernel's body."""

    roots: tuple[Node, ...]
    stands: list[dict[Node, Node]]


class CoverTransfer:
    """Transfers `cover`, of `segment`, to other extents. NoTransfer where it is not found what laws it rests on."""

    def __init__(self, segment: Segment, cover: Cover, laws: Sequence[Law]) -> None:
        cover.settle()
        self.segment, self.cover = segment, cover
        chosen = cover.grammar.segment
        self._values: dict[int, Node] = {
            c: n for c, n in zip(chosen.inputs, segment.graph.inputs, strict=True) if c >= 0
        }
        self._kernels = [self._kernel(chosen, g) for g in cover.groups]
        self._roots = tuple([self._value(chosen, r) for r in chosen.roots])
        rounds = max(PROOF_ROUNDS, segment.rounds)
        proof = equality(segment.graph, Graph(segment.graph.inputs, self._roots), laws, rounds)
        if proof is None:
            raise NoTransfer(f"the proof of the plan takes more than {rounds} rounds of its laws")
        self._laws, self._rounds, self._folds = proof.laws, proof.rounds, proof.folds

    def _value(self, chosen: Segment, eclass: int) -> Node:
        """What stands in a class, over the inputs: it was stored before, or is known when the program is built."""
        if eclass not in self._values:
            body, reads = constant_body(chosen, eclass)
            self._values[eclass] = _over(body, [self._values[c] for c in reads])[body.outputs[0]]
        return self._values[eclass]

    def _kernel(self, chosen: Segment, source: Group) -> _SourceKernel:
        body, reads = self.cover.grammar.body(source.cuts)
        stands = _over(body, [self._value(chosen, c) for c in reads])
        self._values.update({c: stands[o] for c, o in zip(source.outputs, body.outputs, strict=True)})
        return _SourceKernel(source, tuple(stands.items()), body.outputs)

    def to(self, graphs: Sequence[Graph], device: Device) -> list[tuple[Segment, Cover] | None]:
        """The segment and the cover of each of `graphs`; None where it has none of these kernels."""
        aligned = [self._aligned(graph) for graph in graphs]
        pairs = [(graph, Graph(graph.inputs, new.roots)) for graph, new in zip(graphs, aligned, strict=True) if new]
        equal = iter(equalities(pairs, self._laws, self._rounds))
        return [
            self._covered(graph, new, device) if new and next(equal) else None
            for graph, new in zip(graphs, aligned, strict=True)
        ]

    def _aligned(self, graph: Graph) -> _Alignment | None:
        with suppress(NoTransfer, ShapeError):
            new = Correspondence(self.segment.graph, graph)
            new.compute(self._folds)
            stands = [{n: new.node(over) for n, over in k.nodes} for k in self._kernels]
            return _Alignment(tuple([new.node(n) for n in self._roots]), stands)
        return None

    def _covered(self, graph: Graph, new: _Alignment, device: Device) -> tuple[Segment, Cover] | None:
        computed = [n for stands in new.stands for n in stands.values()]
        written = as_written(Graph(graph.inputs, (*new.roots, *computed)))
        segment = replace(
            written, graph=graph, roots=tuple([written.origin[r] for r in new.roots]),
            stop_reason=self.segment.stop_reason, level=self.segment.level, strict=self.segment.strict,
        )  # fmt: skip
        cover = Cover(Grammar(segment, device), segment.roots)
        kernels = zip(self._kernels, new.stands, strict=True)
        groups = [_kernel_of(k.group, k.outputs, stands, cover.grammar) for k, stands in kernels]
        cover.groups = tuple([g for g in groups if g is not None])
        outputs = [c for g in cover.groups for c in g.outputs]
        if len(cover.groups) < len(groups) or len({*outputs} - cover.grammar.free) < len(outputs):
            return None
        cover.cost = sum(g.price.seconds for g in cover.groups)
        cover.level, cover.is_proved = self.cover.level, True
        return segment, cover


def _over(body: Graph, arguments: Sequence[Node]) -> dict[Node, Node]:
    """The nodes of `body`, and what each is over `arguments`."""
    stands = dict(zip(body.inputs, arguments, strict=True))
    for n in body.nodes:
        if n not in stands:
            stands[n] = n.over(stands[a] for a in n.args)
    return stands


def _kernel_of(old: Group, outputs: Sequence[Node], stands: dict[Node, Node], grammar: Grammar) -> Group | None:
    """The kernel `old` over the classes of `grammar`. `stands`: what each node of its body is there. None where the
    device has no such kernel."""
    cuts: dict[Node, Cut] = {}
    for n, over in stands.items():
        eclass = grammar.segment.origin[over]
        (enode,) = grammar.classes[eclass].nodes
        is_leaf = n.op in ("input", "const")
        cut = grammar.leaf(eclass) if is_leaf else grammar.join(eclass, enode, tuple([cuts[a] for a in n.args]))
        if isinstance(cut, str):
            return None
        cuts[n] = cut
    results = tuple([cuts[o] for o in outputs])
    if old.state.is_view and not old.price.seconds:  # a result that costs nothing
        kernel: Group | None = Group(results, results[0].state, results[0].leaves, old.price)
    else:
        kernel = group(grammar, results)
    if kernel is None or kernel.state.kind != old.state.kind:
        return None
    settled = kernel.by_schedule(grammar)
    return settled if settled.price.seconds < math.inf else None
