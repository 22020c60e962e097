"""Reductions of which later ones need earlier ones, in one pass: every part of a row is reduced by itself, and what it
gives is carried from the maxima and means of the part over to those of the whole.

In: a body. Out: `Cascade`, derived by the laws of `CARRIED`; None where these carry something not over. Next stop: the
schedules of targets, which compute parts and join them. Sources: Milakov and Gimelshein 2018 (online softmax); Chan,
Golub and LeVeque 1979 (moments).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from eqfuse.ir.graph import Graph, Node, const, input_node, node, substitute, topological
from eqfuse.kinds.softmax import EXPONENTIALS, made_alike
from eqfuse.ops import Role
from eqfuse.ops.types import TensorType

Factors = tuple[Node, ...]  # factors, in the order of the body
Sum = dict[Factors, Node | None]  # products of what a part knows, and what each is multiplied by; None: by 1

TOP, BOTTOM, CENTRE = "max", "min", "mean"
NO_EXTREME = {TOP: -np.inf, BOTTOM: np.inf}
NEGATED = {TOP: BOTTOM, BOTTOM: TOP, CENTRE: CENTRE}
HIGHEST_POWER = 4  # of which the moments of two parts are joined


@dataclass(frozen=True)
class Distance:
    """How much further from its origin a value lies in the whole than in the part: its distance from the largest, the
    smallest or the mean value of the row."""

    origin: str
    shift: Node


@dataclass(frozen=True)
class Cascade:
    """`stages`: reductions, by the pass that can compute them. `anchors`: by reduction on which others depend, what
    stands for it within a part; `shares`: by reduction, what a part adds to the whole. Both are made of `parts`, the
    results of reductions in the part, `wholes`, and `count`, the number of elements of a row that the part has."""

    stages: tuple[tuple[Node, ...], ...]
    anchors: Mapping[Node, Node]
    shares: Mapping[Node, Node]
    parts: Mapping[Node, Node]
    wholes: Mapping[Node, Node]
    count: Node

    def made_of(self, r: Node) -> list[Node]:
        """The reductions whose results in a part say what that part adds to `r`."""
        needed = {*topological((self.shares[r],))}
        return [other for other, part in self.parts.items() if part in needed]


def cascade_of(body: Graph) -> Cascade | None:
    """None where reductions do not depend on one another, or a part of one cannot be carried over."""
    below: set[Node] = set()
    stages: dict[Node, int] = {}
    for n in body.nodes:
        stages[n] = max([stages[a] for a in n.args], default=0) + _is_reduction(n)
        if _is_reduction(n) or any(a in below for a in n.args):
            below.add(n)
    reductions = [n for n in body.nodes if _is_reduction(n)]
    last = max([stages[r] for r in reductions], default=0)
    floats = {n.dtype for n in below if n.dtype != np.bool_}
    if last < 2 or len(floats) != 1 or not floats <= {np.dtype(np.float32), np.dtype(np.float64)}:
        return None
    return _CascadeBuilder(body, below, reductions).cascade([stages[r] for r in reductions])


def _is_reduction(n: Node) -> bool:
    return n.row.role is Role.REDUCTION


def _number(n: Node) -> float | None:
    """The number that `n` is, if it is one."""
    return None if n.number is None else float(n.number)


class _CascadeBuilder:
    """`below`: the nodes that depend on reductions; those of them that have no element for each of a row are bases."""

    def __init__(self, body: Graph, below: set[Node], reductions: list[Node]) -> None:
        self.below, self.reductions = below, reductions
        self.positions = {n: i for i, n in enumerate(body.nodes)}
        first = reductions[0]
        self.length = math.prod([first.args[0].shape[a] for a in first.attr("axes")])
        self.parts = {r: input_node(f"part {i}", r.type) for i, r in enumerate(reductions)}
        self.wholes = {r: input_node(f"whole {i}", r.type) for i, r in enumerate(reductions)}
        self.dtype = next(n.dtype for n in below if n.dtype != np.bool_)
        self.count = input_node("count", TensorType(self.dtype, ()))
        self.anchors: dict[Node, Node] = {}
        self.sums = {self.factors(r.args[0]): r for r in reductions if r.op == "sum"}

    def cascade(self, stages: list[int]) -> Cascade | None:
        shares: dict[Node, Node] = {}
        for r, stage in zip(self.reductions, stages, strict=True):
            share = self.parts[r] if stage == 1 else self.share(r)
            if share is None:
                return None
            shares[r] = share
        by_stage = [
            tuple([r for r, own in zip(self.reductions, stages, strict=True) if own == i])
            for i in range(1, max(stages) + 1)
        ]
        return Cascade(tuple(by_stage), self.anchors, shares, self.parts, self.wholes, self.count)

    def share(self, r: Node) -> Node | None:
        """What a part adds to the sum `r`, a sum of products each of which the part knows."""
        terms = self.terms(r.args[0]) if r.op == "sum" else None
        if terms is None:
            return None
        whole = None
        for product, coefficient in terms.items():
            summed = self.summed(product)
            if summed is None:
                return None
            if _number(summed) != 0:
                share = summed if coefficient is None else node("multiply", (coefficient, summed))
                whole = share if whole is None else node("add", (whole, share))
        return whole

    def summed(self, product: Factors) -> Node | None:
        """The sum of `product` over a part: a reduction, a number so many times, or 0 of distances from a mean."""
        if product in self.sums:
            return self.parts[self.sums[product]]
        numbers = [_number(n) for n in product]
        others = [n for n, value in zip(product, numbers, strict=True) if value is None]
        if not others:
            times = math.prod([value for value in numbers if value is not None])
            return self.count if times == 1 else node("multiply", (self.count, self.constant(times)))
        distance = self.distance(others[0]) if len(others) == 1 else None
        return self.constant(0) if distance is not None and distance.origin == CENTRE else None

    def constant(self, value: float) -> Node:
        return const(value, self.dtype)

    # Values in the whole, by those in the part

    def terms(self, n: Node) -> Sum | None:
        """`n` as it is in the whole."""
        if n not in self.below:
            return {self.factors(n): None}
        if self.is_base(n):
            return {(): self.in_whole(n)}
        distance = self.distance(n)
        if distance is not None:
            return {(n,): None, (): distance.shift}
        law = CARRIED.get(n.op)
        return law(self, n) if law is not None else None

    def factors(self, n: Node) -> Factors:
        """Those of a product, as `terms` of products join them."""
        if n in self.below and n.op in ("multiply", "square", "power") and not self.is_base(n):
            factors = [f for a in self.multiplied(n) or () for f in self.factors(a)]
            return tuple(sorted(factors, key=self.positions.__getitem__)) if factors else (n,)
        return (n,)

    def multiplied(self, n: Node) -> tuple[Node, ...] | None:
        """The factors of one product, square or whole power."""
        if n.op == "multiply":
            return n.args
        power = 2.0 if n.op == "square" else _number(n.args[1]) or 0.0
        return (n.args[0],) * int(power) if power in range(2, HIGHEST_POWER + 1) else None

    def ratio(self, n: Node) -> Node | None:
        """What `n` is multiplied by from the part to the whole, if that is all."""
        terms = self.terms(n) or {}
        return terms[self.factors(n)] if [*terms] == [self.factors(n)] else None

    def is_base(self, n: Node) -> bool:
        return n in self.below and n.shape == self.reductions[0].shape

    def in_part(self, base: Node) -> Node:
        means = {r: self.extrapolated(r) if r.op == "sum" else part for r, part in self.parts.items()}
        return substitute((base,), means)[0]

    def in_whole(self, base: Node) -> Node:
        return substitute((base,), dict(self.wholes))[0]

    def extrapolated(self, r: Node) -> Node:
        """What the sum of a part would be if it were as long as the whole."""
        times = node("divide", (self.constant(self.length), self.count))
        return node("multiply", (self.parts[r], times))

    # Distances

    def distance(self, n: Node) -> Distance | None:
        """How `n` is a distance, if it is one: a difference from a base, maybe times a number."""
        if n not in self.below or self.is_base(n):
            return None
        if n.op == "subtract":
            value, base = n.args
            return _negated(self.difference(base, value)) if self.is_base(value) else self.difference(value, base)
        if n.op in ("negative", "cast"):
            inside = self.distance(n.args[0])
            return inside if n.op == "cast" else _negated(inside)
        if n.op not in ("multiply", "divide"):
            return None
        for value, number in (n.args, n.args[::-1])[: 1 + (n.op == "multiply")]:
            times, inside = _number(number), self.distance(value)
            if times and inside is not None:
                origin = inside.origin if times > 0 else NEGATED[inside.origin]
                return Distance(origin, node(n.op, (inside.shift, number)))
        return None

    def difference(self, value: Node, base: Node) -> Distance | None:
        """Of `value` from `base`, the largest, the smallest or the mean of what the value is one of."""
        if value in self.below or not self.is_base(base):
            return None
        extreme, needed = base, [n for n in topological((base,)) if n in self.parts]
        if len(needed) != 1:
            return None
        (r,) = needed
        while extreme.op == "where":  # a maximum that is finite, or else a number
            extreme = extreme.args[1]
        if not (r.op in (TOP, BOTTOM) and made_alike(value, extreme, r)) and not self.is_mean(base, value, r):
            return None
        self.anchors[r] = self.anchor(r)
        shift = node("subtract", (self.in_part(base), self.in_whole(base)))
        return Distance(CENTRE if r.op == "sum" else r.op, shift)

    def is_mean(self, base: Node, value: Node, r: Node) -> bool:
        if r.op != "sum" or r.args[0] is not value or base.op not in ("divide", "multiply"):
            return False
        for summed, number in (base.args, base.args[::-1])[: 1 + (base.op == "multiply")]:
            by = _number(number)
            if summed is r and by:
                return math.isclose(by if base.op == "divide" else 1 / by, self.length, rel_tol=1e-6)
        return False

    def anchor(self, r: Node) -> Node:
        """The anchor of a sum is what it would be in a part as long as the whole; that of a maximum, the maximum, but
        where no element is above the lowest."""
        part = self.parts[r]
        if r.op == "sum":
            return self.extrapolated(r)
        nothing = node("equal", (part, self.constant(NO_EXTREME[r.op])))
        return node("where", (nothing, self.constant(0), part))


def _negated(distance: Distance | None) -> Distance | None:
    """Of the negative of a distance."""
    return distance and Distance(NEGATED[distance.origin], node("negative", (distance.shift,)))


# How values of the whole are made of those of the part, by operator: each a law of the reals, on sums of products.


def _of_product(d: _CascadeBuilder, n: Node) -> Sum | None:
    """(a + x) (b + y) = a b + a y + x b + x y"""
    parts = d.multiplied(n)
    sums = [d.terms(a) for a in parts] if parts is not None else [None]
    whole: Sum = {(): None}
    for terms in sums:
        if terms is None:
            return None
        expansion: Sum = {}
        for left, a in whole.items():
            for right, b in terms.items():
                product = tuple(sorted([*left, *right], key=d.positions.__getitem__))
                _add(expansion, product, _times(a, b), d)
        whole = expansion
    return whole


def _of_negative(d: _CascadeBuilder, n: Node) -> Sum | None:
    ratio = d.ratio(n.args[0])
    return None if ratio is None else {(n,): ratio}


def _of_exponential(d: _CascadeBuilder, n: Node) -> Sum | None:
    """exp(x + y) = exp(x) exp(y), where neither is above 0. Of a part without any element above the lowest, y may be
    above: its sum is 0, and y is bounded so that it stays 0."""
    distance = d.distance(n.args[0])
    if distance is None or distance.origin != TOP:
        return None
    ratio = node("minimum", (n.over((distance.shift,)), d.constant(np.finfo(d.dtype).max)))
    return {(n,): ratio}


def _of_quotient(d: _CascadeBuilder, n: Node) -> Sum | None:
    """(x r) / y = (x / y) r"""
    value, by = n.args
    ratio = None if by in d.below else d.ratio(value)
    return None if ratio is None else {(n,): ratio}


def _of_choice(d: _CascadeBuilder, n: Node) -> Sum | None:
    """A choice between x r and 0 is r times that between x and 0."""
    condition, *values = n.args
    ratios = [None if _number(v) == 0 else d.ratio(v) for v in values]
    zeros = [_number(v) == 0 for v in values]
    if condition in d.below or sum(zeros) != 1:
        return None
    ratio = ratios[zeros.index(False)]
    return None if ratio is None else {(n,): ratio}


def _times(a: Node | None, b: Node | None) -> Node | None:
    return b if a is None else a if b is None else node("multiply", (a, b))


def _add(whole: Sum, product: Factors, coefficient: Node | None, d: _CascadeBuilder) -> None:
    if product in whole:
        one = d.constant(1)
        coefficient = node("add", (whole[product] or one, coefficient or one))
    whole[product] = coefficient


CARRIED: dict[str, Callable[[_CascadeBuilder, Node], Sum | None]] = {
    "multiply": _of_product, "square": _of_product, "power": _of_product,
    "negative": _of_negative, "cast": _of_negative, "divide": _of_quotient, "where": _of_choice,
    **dict.fromkeys(EXPONENTIALS, _of_exponential),
}  # fmt: skip
