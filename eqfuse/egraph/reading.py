"""Which rules egglog reads, and when: that takes longer than most programs take to saturate.

In: nodes, or an e-graph, and rules. Out: those that can match in it, by its operators and which of them read which.
Used by `engine`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from eqfuse.egraph.declarations import WIDE
from eqfuse.egraph.rules import Edge, Operator, Rule
from eqfuse.ir.graph import Node


def expected(nodes: Collection[Node], rules: Iterable[Rule]) -> list[Rule]:
    """Those of `rules` that `nodes` most likely make use of: all that can match there, and in what rules of one
    operator each make of it. They are read before there are nodes."""
    present = {(n.op, len(n.args)) for n in nodes}
    edges: set[Edge] = {((n.op, len(n.args)), at, (a.op, len(a.args))) for n in nodes for at, a in enumerate(n.args)}
    likely = [rule for rule in rules if rule.edges <= edges]
    for rule in [rule for rule in likely if len(rule.reads) == len(rule.makes) == 1 and present.issuperset(rule.reads)]:
        present.update(rule.makes)
    return [rule for rule in likely if present.issuperset(rule.reads)]


def edges_in(egraph: Any, constructors: Mapping[str, tuple[str, int, int]]) -> Set[Edge]:
    """Which operators read which, in any choice of nodes from the classes. `constructors`: by name, an operator and its
    numbers of attributes and arguments."""
    frozen = egraph.freeze().functions
    heads: dict[Any, set[Operator]] = {}
    read: dict[tuple[Operator, int], set[Any]] = {}
    for name, (op, n_attrs, arity) in constructors.items():
        operator = op, arity
        for r in frozen[name].rows if name in frozen else ():
            heads.setdefault(r.output, set()).add(operator)
            for at, arg in enumerate(r.inputs[n_attrs + arity :] if arity <= WIDE else ()):
                read.setdefault((operator, at), set()).add(arg)
    return {(*place, head) for place, args in read.items() for a in args for head in heads.get(a, ())}
