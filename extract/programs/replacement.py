"""A law used destructively: in a graph, what it matches is replaced, and the old form is gone.

In: a `Graph` and a law. Out: the `Graph` with the right side wherever the left side stood. The e-graph's own judge
decides every match, so both ways of rewriting are as legal. As in torch.fx's subgraph_rewriter.py, the first match in
topological order wins where matches overlap. Next stop: `extract/`, whose baselines rewrite so before they fuse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from eqfuse.egraph.rules import Rule, compile_law, walk_once
from eqfuse.ir.graph import Graph, Node, node, topological
from eqfuse.ops import Role
from eqfuse.ops.facts import Fact
from eqfuse.ops.ranges import range_of
from eqfuse.rewrites.language.law import LITERAL, VARIABLE, Attr, Law, Term
from eqfuse.rewrites.language.match import construction_order, literal_matches, term_key

Bound = dict[Any, Any]  # the node or attribute value that stands for each variable, and the node for each inner term


class GraphFacts:
    """A graph, and what its matches are judged by."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants: set[Node] = set()  # what is computed when the program is built
        self._facts: dict[Node, Fact] = {}
        self.readers: dict[Node, list[Node]] = {}
        self.by_operator: dict[str, list[Node]] = {}  # the nodes that run at every call, arguments first
        for n in dict.fromkeys((*graph.inputs, *graph.nodes)):
            if self.is_constant(n):
                self.constants.add(n)
            elif n.args:
                self.by_operator.setdefault(n.op, []).append(n)
            self.readers[n] = []
            for a in n.args:
                self.readers[a].append(n)

    def is_constant(self, n: Node) -> bool:
        """Is `n`, over nodes of the graph, computed when the program is built?"""
        if n.op in ("const", "input"):
            return n.is_constant_leaf
        return n in self.constants or (n not in self.readers and all(map(self.is_constant, n.args)))

    def fact(self, n: Node) -> Fact:
        """What is known of the values of `n`, a node of the graph."""
        for m in topological([n]) if n not in self._facts else ():
            if m not in self._facts:
                self._facts[m] = range_of(m.op, m.attrs, [a.type for a in m.args], [self._facts[a] for a in m.args])
        return self._facts[n]


def replacements(written: GraphFacts, law: Law, commutes: Collection[str], backwards: bool = False) -> dict[Node, Node]:
    """What `law`, read from right to left if `backwards`, makes of nodes of the graph: for each, what takes its place.

    `commutes`: the operators whose two arguments a match may find in either order. What is computed when the program is
    built is one constant, whatever it is computed from. A match counts that leaves no more operators and no more flops
    than there were, of those that run at every call and that nothing else reads; a law that is read both ways must
    save flops.
    """
    _, (wanted,), _ = law.directions[backwards]
    nodes = written.by_operator.get(wanted.op)
    if not nodes:
        return {}
    rule = compile_law(law)[backwards]
    substitutes: dict[Node, Node] = {}
    taken: set[Node] = set()
    for n in nodes:
        for bound in _matches([(wanted, n)], {}, commutes):
            inner = _inner(rule, bound)
            apart = taken.isdisjoint(inner) and written.constants.isdisjoint(inner)
            right = _right_side(rule, bound, written) if apart and _guarded(rule, bound, written) else None
            if right is not None and right is not n and _saves(inner, right, written, law.both):
                substitutes[n] = right
                taken.update(inner)
                break
    return substitutes


def forms(written: GraphFacts, law: Law, n: Node, commutes: Collection[str], backwards: bool = False) -> Iterator[Node]:
    """What `law` makes of node `n` of the graph, however it matches there and whether it pays or not."""
    _, (wanted,), _ = law.directions[backwards]
    rule = compile_law(law)[backwards]
    for bound in _matches([(wanted, n)], {}, commutes):
        right = _right_side(rule, bound, written) if _guarded(rule, bound, written) else None
        if right is not None and right is not n:
            yield right


def replaced(graph: Graph, by: Mapping[Node, Node]) -> tuple[Graph, dict[Node, Node]]:
    """`graph` with some of its nodes replaced `by` others over its nodes, and what became of each node."""
    new: dict[Node, Node] = {n: n for n in graph.inputs}
    for n in graph.nodes:
        new[n] = _renewed(by.get(n, n), new)
    return replace(graph, outputs=tuple(new[o] for o in graph.outputs)), new


def _renewed(n: Node, new: Mapping[Node, Node]) -> Node:
    """`n` over what became of the nodes that it is made of."""
    renewed = dict[Node, Node]()
    stack = [n]
    while stack:
        m = stack[-1]
        missing = [a for a in m.args if a not in new and a not in renewed]
        if m in new or m in renewed or not missing:
            renewed[m] = new.get(m) or (m.over([new.get(a) or renewed[a] for a in m.args]) if m.args else m)
            stack.pop()
        else:
            stack += missing
    return renewed[n]


def replaceable(law: Law) -> bool:
    """Can `law` be used so? One term at a time."""
    return len(law.lefts) == 1 and not law.has_procedure


def _matches(wanted: list[tuple[Term, Node]], bound: Bound, commutes: Collection[str]) -> Iterator[Bound]:
    """Every way in which each term of `wanted` can be its node, as extensions of `bound`."""
    if not wanted:
        yield bound
        return
    (term, n), *rest = wanted
    key = term_key(term)
    if key in bound:
        if bound[key] is n:
            yield from _matches(rest, bound, commutes)
        return
    bound = bound | {key: n}
    if term.op == VARIABLE:
        yield from _matches(rest, bound, commutes)
    elif term.op == LITERAL:
        if n.op == "const" and literal_matches(n.literal, term.value):
            yield from _matches(rest, bound, commutes)
    elif n.op == term.op and len(n.args) == len(term.args):
        for pattern, value in zip(term.attrs, n.attrs, strict=True):
            if isinstance(pattern, Attr):
                if bound.setdefault(pattern, value) != value:
                    return
            elif pattern != value:
                return
        orders = {n.args: None, n.args[::-1]: None} if n.op in commutes else {n.args: None}
        for args in orders:
            yield from _matches([*zip(term.args, args, strict=True), *rest], bound, commutes)


def _inner(rule: Rule, bound: Bound) -> list[Node]:
    """The operators matched, the root among them."""
    terms = walk_once(rule.judge.lefts)
    return [bound[t] for t in terms if t.op not in (VARIABLE, LITERAL) and bound[t].op != "const"]


def _guarded(rule: Rule, bound: Bound, written: GraphFacts) -> bool:
    """Do the guards hold that are about the graph? (The judge asks the others.)"""
    for g in rule.law.when:
        nodes = [bound[term_key(t)] for t in g.tensors]
        if g.constant and not written.constants.issuperset(nodes):
            return False
        if g.distinct and len(set(nodes)) < len(nodes):
            return False
        if g.varies and not written.constants.isdisjoint(nodes):
            return False
    return True  # what is `given` stands in the graph, as all that is matched


def _right_side(rule: Rule, bound: Bound, written: GraphFacts) -> Node | None:
    """The right side over the bound nodes; None where the judge declines."""
    match = []
    for what, key in rule.judge.slots:
        if what == "type":
            match.append(bound[term_key(key)].type)
        elif what == "range":
            match.append(written.fact(bound[key]))
        else:
            term, index = key
            match.append(bound[term].attrs[index])
    values = rule.judge(*match)
    if values is None:
        return None
    nodes: dict[Term, Node] = {}
    position = 0
    for term in construction_order(rule.judge.rights):
        attrs = values[position : position + len(term.attrs)]
        position += len(term.attrs) + len(term.args)
        args = (bound[term_key(a)] if a.op == VARIABLE else nodes[a] for a in term.args)
        nodes[term] = node("const" if term.op == LITERAL else term.op, args, attrs)
    (root,) = rule.judge.rights
    return bound[term_key(root)] if root.op == VARIABLE else nodes[root]


def _saves(inner: list[Node], replacement: Node, written: GraphFacts, strictly: bool) -> bool:
    root, *below = inner[::-1]  # readers first
    gone = {root}
    for n in below:
        if n not in written.graph.outputs and gone.issuperset(written.readers[n]):
            gone.add(n)
    added: dict[Node, None] = {}
    stack = [replacement]
    while stack:
        n = stack.pop()
        if n not in written.readers and n not in added and not written.is_constant(n):
            added[n] = None
            stack.extend(n.args)
    (before, work_before), (after, work_after) = _work(gone), _work(tuple(added))
    return after <= before and work_after <= work_before and not (strictly and work_after == work_before)


def _work(nodes: Collection[Node]) -> tuple[int, int]:
    """Operators that compute, and their flops."""
    computing = [n for n in nodes if n.row.role not in (Role.VIEW, Role.LEAF)]
    return len(computing), sum(n.row.flops([a.type for a in n.args], n.type, n.attrs) for n in computing)
