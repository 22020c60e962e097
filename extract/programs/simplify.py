"""The algebraic pass of other systems: laws of the book in a fixed order, each wherever it matches, never undone.

In: a saturated `Segment`. Out: the same with another `graph`, which the e-graph has found equal; fusers then fuse that.
Last, XLA's DotMerger: products of one operand become one, if they are independent and small.
Common subexpressions are one node already, and constants are folded when the program is built. Next stop: `greedy`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.egraph.proof import Derivation
from eqfuse.egraph.space import Segment
from eqfuse.extract.programs.as_written import rewritten
from eqfuse.extract.programs.replacement import GraphFacts, replaceable, replaced, replacements
from eqfuse.ir.graph import Node
from eqfuse.rewrites.procedures.shared_operands import PART_LAWS, shared_parts
from eqfuse.rewrites.simplifier import PASS, SIMPLIFIER

MOST_SWEEPS = 25  # over the whole list; hlo_pass_fix.h stops there too
MERGED = 32 << 20  # bytes of a product that XLA's DotMerger merges with others of one operand (its default)


def simplified(segment: Segment, allowance: Allowance = UNLIMITED) -> Segment:
    """`segment` with its program rewritten by the laws of `PASS` that were admitted when it was saturated, and then
    with products that share an operand merged.

    A step that the e-graph does not find equal, because its budget or the `allowance` ended before, is not taken.
    """
    laws = {law.name: law for law in segment.laws if law.name in SIMPLIFIER and replaceable(law)}
    chosen = [(law, name.endswith("~")) for name in PASS if (law := laws.get(name.removesuffix("~"))) is not None]
    if not chosen:
        return segment
    commutes = {law.name.removesuffix("_commutes") for law in segment.laws if law.name.endswith("_commutes")}
    program = _Rewriting(segment, allowance)
    for _ in range(MOST_SWEEPS):
        before = program.written
        for law, backwards in chosen:
            changes = replacements(program.written, law, commutes, backwards)
            program.take(changes, {law.name, *(f"{op}_commutes" for op in commutes)})
        if program.written is before:
            break
    merged: dict[Node, Node] = {}
    for group in shared_parts(program.written.graph.nodes, program.written.constants):
        if merged.keys().isdisjoint(group) and all(_bytes(n) <= MERGED for n in group):
            merged |= group
    program.take(merged, PART_LAWS)
    graph = program.written.graph
    return segment if graph is segment.graph else rewritten(segment, graph)


class _Rewriting:
    """A program that is rewritten step by step."""

    def __init__(self, segment: Segment, allowance: Allowance) -> None:
        self.written = GraphFacts(segment.graph)
        self._segment, self._allowance = segment, allowance
        self._steps: Derivation | None = None

    def take(self, changes: Mapping[Node, Node], by: Collection[str]) -> None:
        """Replace nodes by what was `changes` for them, where the laws `by` hold it equal."""
        if not changes:
            return
        self._steps = self._steps or Derivation(self._segment, self._allowance)
        held = self._steps.hold(list(changes.items()), by)
        taken = {old: replacement for (old, replacement), holds in zip(changes.items(), held, strict=True) if holds}
        if taken:
            graph, new = replaced(self.written.graph, taken)
            self._steps.take(new)
            self.written = GraphFacts(graph)


def _bytes(n: Node) -> int:
    return n.type.nbytes + sum(a.type.nbytes for a in n.args)
