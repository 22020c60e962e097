"""What the choices of a body ask for: of `where(m, a, b)` the value `a` is asked for where `m` is true, `b` elsewhere.

In: a body. Out: the conditions under which each value is asked for. Used where a target computes less than all.
"""

from __future__ import annotations

from collections.abc import Collection

from eqfuse.ir.graph import Graph, Node

Conditions = frozenset[tuple[Node, bool]]


def asked_for(body: Graph, differing: Collection[Node]) -> dict[Node, Conditions]:
    """By value, of those `differing` from element to element, what must be true or false wherever someone reads it: the
    conditions that all who read it have in common."""
    asked: dict[Node, Conditions] = dict.fromkeys(body.outputs, frozenset())
    for n in reversed(body.nodes):
        for i, a in enumerate(n.args if n in asked else ()):
            by_choice = n.op == "where" and i > 0 and n.args[0] in differing
            conditions = asked[n] | {(n.args[0], i == 1)} if by_choice else asked[n]
            asked[a] = asked[a] & conditions if a in asked else conditions
    return {n: conditions for n, conditions in asked.items() if n in differing}


def in_order(conditions: Conditions, body: Graph) -> tuple[tuple[Node, bool], ...]:
    """The same in every process."""
    position = {n: i for i, n in enumerate(body.nodes)}
    return tuple(sorted(conditions, key=lambda each: (position[each[0]], each[1])))
