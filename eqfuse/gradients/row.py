"""What one row of the table of derivatives holds, and the ways in which families write their rows.

A row linearises its operator: `tangent(n, d)` is the change of the node `n` where its arguments change by `d`, as a
node that is linear in these. It is written in operators that have a `transpose`: `transpose(n, position, ct)` is what
the cotangent `ct` of `n`, a node linear in its argument `position`, is for that argument. Complex numbers are pairs of
reals, and the pairing that a transpose keeps is the real part of ``sum(x * y)``, without a conjugate, as JAX has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eqfuse.gradients.expr import Expr, filled, product, spread_to, sum_of
from eqfuse.ir.graph import Node
from eqfuse.ops.types import TensorType

Changes = Sequence[Node | None]  # of the arguments; None where one does not change
Tangent = Callable[[Node, Changes], Node | None]
Transpose = Callable[[Node, int, Expr], Expr | None]  # None: the argument has no part in it
Partial = Callable[..., Expr | float]
Transposes = Mapping[int, Callable[[Node, Expr], Expr | None]]  # by argument


Several = Callable[[Node, Changes, Callable[..., list[Node | None]]], tuple[Sequence[Node | None], Mapping[Node, Node]]]
TransposeSeveral = Callable[[Node, Mapping[int, Expr], set[int], Callable[..., list[Node]]], dict[int, Expr]]


class NoDerivative(Exception):
    """Raised by a row for an argument in which there is no derivative; says why, without the line."""


@dataclass(frozen=True)
class DerivativeRow:
    """How an operator is differentiated: by its `tangent`, or as the `formula` is that it equals, in other operators.

    One with several results, or one that its derivative gives beside other things, has `several`: the changes of each
    result, and nodes with what takes their place; and `transpose_several`: from cotangents by result to those of the
    arguments that are asked for. Both get the function that does the same for graphs, for those in its attributes.
    `part` says which result of such a one the operator takes.
    `linear`: the arguments in which it is linear, those of a product one at a time; None: all of them. `refuses`: why
    it has no derivative in any argument. `jumps`: is its derivative zero wherever it has one?
    """

    tangent: Tangent = lambda _n, _d: None
    formula: Callable[[Node], Node] | None = None
    transpose: Transpose | None = None
    linear: tuple[int, ...] | None = ()
    several: Several | None = None
    transpose_several: TransposeSeveral | None = None
    part: Callable[[Node], int] | None = None
    refuses: str | None = None
    jumps: bool = False


def refused(why: str) -> DerivativeRow:
    """Of an operator that has no derivative here."""

    def tangent(_n: Node, _d: Changes) -> Node | None:
        raise NoDerivative(why)

    return DerivativeRow(tangent, refuses=why)


def zero_derivative() -> DerivativeRow:
    """Of an operator whose result changes by jumps alone, or is no number that changes: its derivative is zero."""
    return DerivativeRow(jumps=True)


def by_partials(*partials: Partial | str | None) -> DerivativeRow:
    """Of an elementwise operator: its derivative in each argument, from the result and all arguments; None where that
    is zero, a text where there is none."""

    def tangent(n: Node, d: Changes) -> Node | None:
        terms = []
        for partial, change in zip(partials, d, strict=True):
            if change is None or partial is None:
                continue
            if isinstance(partial, str):
                raise NoDerivative(partial)
            slope = partial(Expr(n), *map(Expr, n.args))
            terms.append(product(slope, Expr(change)))
        return spread_to(sum_of(terms), n.shape).node if terms else None

    return DerivativeRow(tangent)


def joint(transposes: Transposes | Transpose, places: Sequence[int] | None = None) -> DerivativeRow:
    """Of an operator that is linear in the arguments at `places` together (all, where None): where some of them change,
    it is applied to the changes, with zeros for the others."""

    def tangent(n: Node, d: Changes) -> Node | None:
        linear = range(len(n.args)) if places is None else places
        if all(d[i] is None for i in linear):
            return None
        args = [a if i not in linear else _change(d[i], a.type) for i, a in enumerate(n.args)]
        return n.over(args)

    return DerivativeRow(tangent, transpose=_transpose(transposes), linear=None if places is None else tuple(places))


def _change(change: Node | None, type: TensorType) -> Node:
    return filled(0, type).node if change is None else change


def each(transposes: Transposes) -> DerivativeRow:
    """Of an operator that is linear in each of the arguments that `transposes` has, as a product is."""

    def tangent(n: Node, d: Changes) -> Node | None:
        terms = []
        for i in transposes:
            change = d[i]
            if change is not None:
                terms.append(Expr(n.over([change if position == i else a for position, a in enumerate(n.args)])))
        return sum_of(terms).node if terms else None

    return DerivativeRow(tangent, transpose=_transpose(transposes), linear=tuple(transposes))


def _transpose(transposes: Transposes | Transpose) -> Transpose:
    if not isinstance(transposes, Mapping):
        return transposes
    table = transposes

    def transpose(n: Node, position: int, ct: Expr) -> Expr | None:
        return table[position](n, ct)

    return transpose
