"""Sums and products of many terms, in one order each: associativity and commutativity without their growth.

In: the nodes of a program. Out: `LAWS`, and pairs of equal nodes for the e-graph. Rewriting step by step makes a node
for each way to bracket and order the terms, 120 of four. Instead every chain of the program gets one other form, where
that saves work or where another chain has the same terms: what is known first, then what is small, then in the order of
the program; inverses (the y of x - y) last. So constants meet, and small terms before they are broadcast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from eqfuse.ir import Node, node, topological
from eqfuse.rewrites.law import EXACT, REASSOCIATES, Law, apply, over_complex, tensors

x, y, z = tensors("x y z")
LONGEST = 64  # terms; each node that is new to the e-graph costs it a table

LAWS = over_complex(
    [
        Law("sums_in_one_order", x + (y - z), (x + y) - z, exactness=REASSOCIATES, chain=("add", "subtract")),
        Law("products_in_one_order", x * (y / z), (x * y) / z, exactness=REASSOCIATES, chain=("multiply", "divide")),
    ],
    REASSOCIATES,
) + [
    Law(f"{op}_in_one_order", apply(op, x, apply(op, y, z)), apply(op, apply(op, x, y), z),
        exactness=REASSOCIATES if op in ("maximum", "minimum") else EXACT, chain=(op,))  # of equal zeros, either
    for op in ("maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor")
]  # fmt: skip


def reordered(law: Law, nodes: Sequence[Node], known: set[Node]) -> list[tuple[Node, Node]]:
    """(chain, the same in one order) for every chain among `nodes` (arguments first) that `law` is about and improves.

    `known`: those that are computed when the program is built.
    """
    assert law.chain is not None
    place = {n: at for at, n in enumerate(nodes)}
    inner = {a for n in nodes if n.op in law.chain for a in n.args if a.op in law.chain and a.type == n.type}
    found = []
    for n in nodes:
        if n.op in law.chain and n not in inner and n not in known and law.claims([n.dtype]) is not None:
            terms = _terms(n, law.chain)
            if 2 < len(terms) <= LONGEST:
                found.append((n, sorted(terms, key=lambda t: (t[1], t[0] not in known, t[0].type.size, place[t[0]]))))
    met = Counter(frozenset(Counter(terms).items()) for _, terms in found)
    pairs = []
    for n, terms in found:
        other = _comb(terms, law.chain)
        if other is None or other is n or other.type != n.type:
            continue
        shared = met[frozenset(Counter(terms).items())] > 1
        if shared or _work([other], law.chain, known) < _work([n], law.chain, known):
            pairs.append((n, other))
    return pairs


Terms = list[tuple[Node, bool]]  # a term, and whether it is inverse


def _terms(root: Node, chain: tuple[str, ...]) -> Terms:
    """What the chain below `root` adds and takes away."""
    terms: Terms = []
    stack = [(root, False)]
    while stack and len(terms) <= LONGEST:
        n, inverse = stack.pop()
        if n.op in chain and all(a.dtype == root.dtype for a in n.args):  # not where truth is taken of numbers
            right = inverse != (n.op != chain[0])
            stack += [(n.args[1], right), (n.args[0], inverse)]
        else:
            terms.append((n, inverse))
    return terms


def _comb(terms: Terms, chain: tuple[str, ...]) -> Node | None:
    """The terms one after another; None where all are inverse."""
    (first, inverse), *rest = terms
    if inverse:
        return None
    for term, inverse in rest:
        first = node(chain[1] if inverse else chain[0], (first, term))
    return first


def _work(roots: Iterable[Node], chain: tuple[str, ...], known: set[Node]) -> int:
    """Elements that the nodes of a chain compute at every call."""
    done: set[Node] = set()
    once = set(known)
    for n in topological(roots):
        if n.op in chain and n not in once:
            (once if once.issuperset(n.args) else done).add(n)
    return sum(n.type.size for n in done)
