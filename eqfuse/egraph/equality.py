"""Whether two graphs over the same inputs compute the same: node for node, or by laws that egglog applies.

In: two graphs and laws. Out: an `Equality`, or None. Used by `specialise.plan_transfer`
and `extract.cover_transfer`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from eqfuse.budget import Allowance
from eqfuse.egraph.callbacks import Fold
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.saturate import reachable
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.rewrites import Law

PROOF_ROUNDS = 6  # of the rules, at most
NODES = 20_000  # of the e-graph, at most
PROOF_SECONDS = 2.0  # of processor time of this thread


@dataclass(frozen=True)
class Equality:
    """Two graphs found equal after `rounds` rounds in which `laws` matched; `folds` are the constants computed."""

    rounds: int
    laws: tuple[Law, ...]
    folds: Sequence[Fold] = field(repr=False)


def equality(a: Graph, b: Graph, laws: Sequence[Law], rounds: int = PROOF_ROUNDS) -> Equality | None:
    """How `a` and `b` are equal, or None when `rounds` rounds of `laws` do not show it."""
    if a.outputs == b.outputs:
        return Equality(0, (), ())
    search = _Search([(a, b)], laws)
    for done in range(rounds + 1):
        if all(search.held()):
            return Equality(done, tuple(search.matched), search.engine.folds())
        if done == rounds or not search.round():
            break
    return None


def equalities(pairs: Sequence[tuple[Graph, Graph]], laws: Sequence[Law], rounds: int) -> list[bool]:
    """Which of `pairs` `rounds` rounds of `laws` show to be equal, all of them in one e-graph."""
    if not laws or all(a.outputs == b.outputs for a, b in pairs):
        return [a.outputs == b.outputs for a, b in pairs]
    search = _Search(pairs, laws)
    held = search.held()
    for _ in range(rounds):
        if all(held) or not search.round():
            break
        held = search.held()
    return held


class _Search:
    """An e-graph that holds pairs of graphs, and the laws that matched in it so far."""

    def __init__(self, pairs: Sequence[tuple[Graph, Graph]], laws: Sequence[Law]) -> None:
        graphs = [g for pair in pairs for g in pair]
        stands = _stands([n for g in graphs for n in g.nodes])
        self._outputs = [(substitute(a.outputs, stands), substitute(b.outputs, stands)) for a, b in pairs]
        outputs = tuple([o for a, b in self._outputs for o in (*a, *b)])
        both = Graph(tuple(dict.fromkeys([*(i for g in graphs for i in g.inputs), *stands.values()])), outputs)
        rules = reachable(both, laws)
        self._law_of = {rule.name: rule.law for rule in rules}
        nodes = (*both.inputs, *both.nodes)
        self.engine = Engine(nodes, rules)
        self.engine.add(nodes)
        self.engine.load(rules)
        self._allowance = Allowance(time.thread_time() + PROOF_SECONDS)
        self.matched: dict[Law, None] = {}

    def held(self) -> list[bool]:
        """Which pairs are found equal by now."""
        name = self.engine.name
        pairs = [(name(m), name(o)) for a, b in self._outputs for m, o in zip(a, b, strict=True)]
        flags = iter(self.engine.same(pairs))
        return [all(list(islice(flags, len(a)))) for a, _ in self._outputs]

    def round(self) -> bool:
        """Apply the laws once more. Is there room and time for another round?"""
        if self._allowance.spent():
            return False
        report = self.engine.round(NODES - self.engine.size, self._allowance)
        self.matched |= {self._law_of[name]: None for name in report.matches if name in self._law_of}
        return not self.engine.cut


def _stands(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Known inputs for the large constants of `nodes`, so that egglog computes nothing with them."""
    large = dict.fromkeys(n for n in nodes if n.op == "const" and n.type.size > 1)
    return {n: input_node(f"constant {i}", n.type, True) for i, n in enumerate(large)}
