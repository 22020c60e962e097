"""Sums and products of many terms, in one order each: associativity and commutativity without their growth.

In: the nodes of a program. Out: `LAWS`, and pairs of equal nodes for the e-graph. Rewriting step by step makes a node
for each way to bracket and order the terms, 120 of four. Instead every chain of the program gets one other form, where
that saves work or where another chain has the same terms: what is known first, then what is small, then in the order of
the program; inverses (the y of x - y) last. So constants meet, and small terms before they are broadcast.

A sum of floating-point numbers in another order may cancel what the program adds up exactly, such as 1 + (y - z) with
large y and z, and compensated sums and rounding idioms rest on the order: that is APPROXIMATE.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from operator import mul

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ir.graph import Node, node, topological
from eqfuse.ops.approximation import safe_range
from eqfuse.rewrites.language.constants import is_number_of
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    apply,
    guard,
    over_complex,
    over_float16,
    tensors,
)

x, y, z = tensors("x y z")
LONGEST_CHAIN = 64  # terms; each node that is new to the e-graph costs it a table
IN_RANGE = 4  # factors: in any order their products stay in range, where those of the program stay in the safe range

whole = guard("x is whole", lambda x: kind(x.dtype) in "biu", x)

LAWS = [
    *over_complex(
        [Law("sums_in_one_order", x + (y - z), (x + y) - z, exactness=APPROXIMATE, chain=("add", "subtract"))],
        APPROXIMATE,
    ),
    Law("whole_sums_in_one_order", x + (y - z), (x + y) - z, (whole,), EXACT, chain=("add", "subtract")),
    *over_complex(over_float16(
        [Law("products_in_one_order", x * (y / z), (x * y) / z, exactness=REASSOCIATES, chain=("multiply", "divide"))],
        "products_in_one_order",
    ), REASSOCIATES),
    *over_complex([Law("many_factors_in_one_order", x * (y / z), (x * y) / z, exactness=APPROXIMATE,
                       chain=("multiply", "divide"))], APPROXIMATE),
    *(Law(f"{op}_in_one_order", apply(op, x, apply(op, y, z)), apply(op, apply(op, x, y), z),
          exactness=REASSOCIATES if op in ("maximum", "minimum") else EXACT, chain=(op,))  # of equal zeros, either
      for op in ("maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor")),
]  # fmt: skip


def reordered(law: Law, nodes: Sequence[Node], constants: set[Node]) -> list[tuple[Node, Node]]:
    """(chain, the same in one order) for every chain among `nodes` (arguments first) that `law` is about and improves.

    `constants`: those that are computed when the program is built.
    """
    assert law.chain is not None
    place = {n: i for i, n in enumerate(nodes)}
    inner = {a for n in nodes if n.op in law.chain for a in n.args if a.op in law.chain and a.type == n.type}
    chains = []
    for n in nodes:
        if n.op in law.chain and n not in inner and n not in constants and _about(law, n):
            terms = _terms(n, law.chain)
            if not 2 < len(terms) <= LONGEST_CHAIN:
                continue
            if (wanted := _in_order(n, terms, law, constants, place)) is not None:
                chains.append((n, wanted))
    met = Counter(frozenset(Counter(terms).items()) for _, terms in chains)
    pairs = []
    for n, terms in chains:
        other = _comb(terms, law.chain)
        if other is None or other is n or other.type != n.type:
            continue
        shared = met[frozenset(Counter(terms).items())] > 1
        if shared or _work([other], law.chain, constants) < _work([n], law.chain, constants):
            pairs.append((n, other))
    return pairs


def _about(law: Law, n: Node) -> bool:
    return law.claims([n.dtype]) is not None and all(g.predicate(n.type) for g in law.when)


Terms = list[tuple[Node, bool]]  # a term, and whether it is inverse


def _terms(root: Node, chain: tuple[str, ...]) -> Terms:
    """What the chain below `root` adds and takes away."""
    terms: Terms = []
    stack = [(root, False)]
    while stack and len(terms) <= LONGEST_CHAIN:
        n, inverse = stack.pop()
        if n.op in chain and all(a.dtype == root.dtype for a in n.args):  # not where truth is taken of numbers
            right = inverse != (n.op != chain[0])
            stack += [(n.args[1], right), (n.args[0], inverse)]
        else:
            terms.append((n, inverse))
    return terms


def _in_order(n: Node, terms: Terms, law: Law, constants: set[Node], place: dict[Node, int]) -> Terms | None:
    """The terms of `n` in the one order. Of many floating-point factors only numbers are moved, to the front, unless
    `law` lets products overflow; None where there are none, or where their products might leave the range."""
    limited = law.chain == ("multiply", "divide") and law.claims([n.dtype]) is REASSOCIATES and kind(n.dtype) in "fc"
    numbers = sorted((t for t in terms if _is_number(t[0])), key=lambda t: t[1])
    if len(terms) <= IN_RANGE or not limited:
        exact = not limited or _meet_exactly(n.dtype, [t for t in numbers if not t[1]])
        order = sorted(terms, key=lambda t: (t[1], t[0] not in constants, t[0].type.size, place[t[0]]))
        return order if exact else None
    least, largest = safe_range(n.dtype)
    exponents = [math.log2(_size(n)) * (-1 if inverse else 1) for n, inverse in numbers]
    within = all(math.log2(least) < e < math.log2(largest) for e in accumulate(reversed(exponents)))
    if not numbers or not within or not _meet_exactly(n.dtype, numbers):
        return None
    return [*numbers, *(t for t in terms if not _is_number(t[0]))]


def _meet_exactly(dtype: np.dtype, numbers: Terms) -> bool:
    """Is nothing rounded where these factors stand together?"""
    if dtype.kind == "c":
        return True
    sizes = [Fraction(_size(n)) for n, _ in numbers]
    factors = [1 / size if inverse else size for size, (_, inverse) in zip(sizes, numbers, strict=True)]
    return all(is_number_of(dtype, product) for product in accumulate(factors, mul))


def _is_number(n: Node) -> bool:
    """Is it a number, and neither 0 nor infinite?"""
    return n.number is not None and math.isfinite(size := _size(n)) and size > 0


def _size(constant: Node) -> float:
    return float(abs(constant.literal.array.item()))


def _comb(terms: Terms, chain: tuple[str, ...]) -> Node | None:
    """The terms one after another; None where all are inverse."""
    (first, inverse), *rest = terms
    if inverse:
        return None
    for term, inverse in rest:
        first = node(chain[1] if inverse else chain[0], (first, term))
    return first


def _work(roots: Iterable[Node], chain: tuple[str, ...], constants: set[Node]) -> int:
    """Elements that the nodes of a chain compute at every call."""
    done: set[Node] = set()
    once = set(constants)
    for n in topological(roots):
        if n.op in chain and n not in once:
            (once if once.issuperset(n.args) else done).add(n)
    return sum(n.type.size for n in done)
