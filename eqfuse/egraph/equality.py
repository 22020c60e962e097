"""Whether two graphs over the same inputs compute the same: node for node, or by laws that egglog applies.

In: two graphs and laws. Out: an `Equality`, or None. Used by `specialise.plan_transfer`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from eqfuse.budget import Allowance
from eqfuse.egraph.callbacks import Fold
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.saturate import reachable
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.rewrites import Law

ROUNDS = 6
NODES = 20_000
SECONDS = 2.0


@dataclass(frozen=True)
class Equality:
    """Two graphs found equal after `rounds` rounds in which `laws` matched; `folds` are the constants computed."""

    rounds: int
    laws: tuple[Law, ...]
    folds: Sequence[Fold] = field(repr=False)


def equality(a: Graph, b: Graph, laws: Sequence[Law], rounds: int = ROUNDS) -> Equality | None:
    """How `a` and `b` are equal, or None when `rounds` rounds of `laws` do not show it."""
    if a.outputs == b.outputs:
        return Equality(0, (), ())
    stands = _stands((*a.nodes, *b.nodes))
    mine, other = (substitute(g.outputs, stands) for g in (a, b))
    both = Graph((*a.inputs, *stands.values()), (*mine, *other))
    rules = reachable(both, laws)
    law_of = {rule.name: rule.law for rule in rules}
    nodes = (*both.inputs, *both.nodes)
    engine = Engine(nodes, rules)
    engine.add(nodes)
    engine.load(rules)
    allowance = Allowance(time.thread_time() + SECONDS)
    matched: dict[Law, None] = {}
    for done in range(rounds + 1):
        if all(engine.equal(engine.name(m), engine.name(o)) for m, o in zip(mine, other, strict=True)):
            return Equality(done, tuple(matched), engine.folds())
        if done == rounds or allowance.spent():
            break
        report = engine.round(NODES - engine.size, allowance)
        matched |= {law_of[name]: None for name in report.matches if name in law_of}
        if engine.cut:
            break
    return None


def _stands(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Known inputs for the large constants of `nodes`, so that egglog computes nothing with them."""
    large = dict.fromkeys(n for n in nodes if n.op == "const" and n.type.size > 1)
    return {n: input_node(f"constant {i}", n.type, True) for i, n in enumerate(large)}
