"""What is done with whole rows between two products, if it can be done tile by tile.

In: a body with two products. Out: `Rows`, or UnsupportedOp. A row between may be reduced to its maximum, and to the sum
of exponentials of its distances from it; what is multiplied next may be divided by this sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, depends_on, node
from eqfuse.ops import Role

EXPONENTIALS = ("exp", "exp2")


@dataclass(frozen=True)
class SoftmaxRows:
    """`weights`: what the second product multiplies, not yet divided by `total`. `top`: the maximum of `scores`, from
    which `shift` is made; `total`: the sum of `terms`, which grow by `function` of `scale` times as much as `shift`
    falls. `divided`: the result of the second product is then divided by `total`. Without reductions, all but
    `weights` are missing."""

    weights: Node
    scores: Node | None = None
    top: Node | None = None
    shift: Node | None = None
    terms: Node | None = None
    total: Node | None = None
    function: str = ""
    scale: Node | None = None
    divided: bool = False


def rows_between(body: Graph, first: Node, weights: Node) -> SoftmaxRows:
    reductions = body.of_role(Role.REDUCTION)
    if not reductions:
        return SoftmaxRows(weights)
    if [n.op for n in reductions] != ["max", "sum"] or any(n.attr("axes") != (-1,) for n in reductions):
        raise UnsupportedOp("between two products a kernel reduces rows to a maximum and a sum of exponentials")
    top, total = reductions
    if top.args[0].shape != first.shape or total.args[0].shape != first.shape:
        raise UnsupportedOp("a kernel of two products reduces rows of the first")
    exponential = total.args[0]
    while exponential.op == "cast":
        (exponential,) = exponential.args
    function, scale, shift = _exponential(exponential, top)
    below = _undivided(weights, total)
    if not _only_through(below or weights, exponential, (first, top, total)) or depends_on(top.args[0], total):
        raise UnsupportedOp("what a kernel multiplies next is in proportion to the exponentials")
    scores, terms = top.args[0], total.args[0]
    return SoftmaxRows(below or weights, scores, top, shift, terms, total, function, scale, below is not None)


def _exponential(n: Node, top: Node) -> tuple[str, Node | None, Node]:
    """The function whose value `n` is; by what the distance from the maximum is scaled before; that maximum, as it is
    subtracted."""
    if n.op in EXPONENTIALS:
        (distance,) = n.args
        scale = None
        if distance.op == "multiply" and (parts := _scaled(distance)) is not None:
            distance, scale = parts
        if distance.op == "subtract":
            score, shift = distance.args
            if made_alike(score, shift, top):
                return n.op, scale, shift
    raise UnsupportedOp("a kernel of two products adds up exponentials of distances from the maximum")


def _scaled(n: Node) -> tuple[Node, Node] | None:
    """What a product with a positive number multiplies, and the number."""
    for value, number in (n.args, n.args[::-1]):
        if number.number is not None and number.number > 0:
            return value, number
    return None


def made_alike(score: Node, subtracted: Node, top: Node) -> bool:
    """Is `subtracted` made of the maximum as `score` is of what it is the maximum of, and grows with it?"""
    while subtracted is not top:
        if score.op != subtracted.op or score.attrs != subtracted.attrs:
            return False
        if score.op == "cast":
            (score,), (subtracted,) = score.args, subtracted.args
            continue
        parts = [_scaled(n) if n.op == "multiply" else None for n in (score, subtracted)]
        if parts[0] is None or parts[1] is None or parts[0][1] is not parts[1][1]:
            return False
        score, subtracted = parts[0][0], parts[1][0]
    return score is top.args[0]


def _undivided(n: Node, total: Node) -> Node | None:
    """`n` without the division by `total`; None where there is none that could be done later."""
    if n.op == "divide" and _is(n.args[1], total):
        return n.args[0]
    if n.op == "multiply":
        for one, other in (n.args, n.args[::-1]):
            if other.op == "reciprocal" and _is(other.args[0], total):
                return one
            if (numerator := _undivided(one, total)) is not None:
                return node("multiply", (numerator, other))
    if n.op == "cast" and n.dtype.kind in "fV":
        (inside,) = n.args
        numerator = _undivided(inside, total)
        return numerator and node("cast", (numerator,), n.attrs)
    return None


def _is(n: Node, total: Node) -> bool:
    while n.op == "cast":
        (n,) = n.args
    return n is total


def _only_through(n: Node, terms: Node, others: tuple[Node, ...]) -> bool:
    """Is `n` made of `terms` alone, by casts and by products with what depends on none of `others`?"""
    while n is not terms:
        if n.op == "cast":
            (n,) = n.args
        elif n.op == "multiply" and sum(any(depends_on(a, r) for r in others) for a in n.args) == 1:
            (n,) = (a for a in n.args if any(depends_on(a, r) for r in others))
        else:
            return False
    return True
