"""Chains of constants: what adds or multiplies one constant after another does so once, before the search.

In: a graph and laws. Out: the graph in which those of the laws by which two constants meet were applied to long chains,
until none applies. The search would keep every way to bracket them: a chain of n is n^2 nodes, each with a constant of
its own. Next stop: `egraph.saturate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqfuse.extract.programs.replacement import GraphFacts, replaced, replacements
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ops.literal import Literal
from eqfuse.rewrites import Law
from eqfuse.summary import count

LONG_CHAIN = 8  # constants of a chain that is not left to the search
MEET = (
    "subtract_known", "known_terms_meet", "known_factors_meet", "known_divisors_meet", "known_factor_meets_divisor",
    "rounded_factors_meet", "rounded_factor_meets_divisor",
)  # fmt: skip

_GROUPS = {"add": "sum", "subtract": "sum", "multiply": "product", "divide": "product"}
_EITHER = ("add", "multiply")  # whose constant may stand on either side


def constants_met(graph: Graph, laws: Sequence[Law]) -> Graph:
    """`graph` with its long chains of constants folded, as far as `laws` allow; what was done stands in `rolled`."""
    wanted = {law.name: law for law in laws if law.name in MEET}
    before, written = None, GraphFacts(graph)
    members = _long(written) if wanted else set()
    while members and written is not before:
        before = written
        for name in MEET:
            changes = replacements(written, wanted[name], {"add", "multiply"}) if name in wanted else {}
            changes = {n: _with_numbers(replacement) for n, replacement in changes.items() if n in members}
            if changes:
                met, new = replaced(written.graph, changes)
                members = {new[n] for n in members if n in new}
                written = GraphFacts(met)
    gone = len(graph.operators) - len(written.graph.operators)
    if gone <= 0:
        return graph
    note = f"{count(gone, 'constant')} met others of one sum or product"
    return replace(written.graph, rolled=(*(graph.rolled or ()), note))


def _with_numbers(n: Node) -> Node:
    """`n`, whose constants that are computed from numbers are numbers: the laws ask whether they were rounded."""
    return n.over([_number(a) if a.args and all(x.op == "const" for x in a.args) else a for a in n.args])


def _number(n: Node) -> Node:
    if any(a.type.size != 1 for a in n.args):
        return n
    (value,) = evaluate(Graph((), (n,)), [])
    return node("const", (), (Literal(value),))


def _long(written: GraphFacts) -> set[Node]:
    """The nodes of chains in which at least `LONG_CHAIN` constants are added, or multiplied, one after another."""
    below: dict[Node, Node] = {}
    length: dict[Node, int] = {}
    for n in written.graph.nodes:
        varying = [a for a in n.args if a not in written.constants]
        if n.op in _GROUPS and len(varying) == 1 and (n.op in _EITHER or varying[0] is n.args[0]):
            (x,) = varying
            below[n] = x
            length[n] = 1 + (length.get(x, 0) if _GROUPS.get(x.op) == _GROUPS[n.op] else 0)
    members: set[Node] = set()
    for n in reversed(length):
        if length[n] >= LONG_CHAIN or n in members:
            members.add(n)
            if length[n] > 1:
                members.add(below[n])
    return members
