"""Derivatives of the products, which are linear in each operand."""

from __future__ import annotations

from eqfuse.gradients.row import Row, each
from eqfuse.gradients.terms import Term, reshape, summed_to, swapped, transpose
from eqfuse.ir.graph import Node


def _rows(x: Term) -> Term:
    """A stack of matrices as one, of all their rows."""
    return reshape(x, (x.node.type.size // max(x.shape[-1], 1), x.shape[-1]))


def _columns(x: Term) -> Term:
    """A stack of matrices as one, of all their columns."""
    r = x.rank
    moved = transpose(x, (r - 2, *range(r - 2), r - 1))
    return reshape(moved, (x.shape[-2], x.node.type.size // max(x.shape[-2], 1)))


def _one_matrix(x: Node) -> bool:
    return x.type.rank == 2


def _left(n: Node, ct: Term) -> Term:
    a, b = n.args
    if _one_matrix(a) and not _one_matrix(b) and n.type.size:
        return _columns(ct) @ swapped(_columns(Term(b)))
    return summed_to(ct @ swapped(Term(b)), a.shape)


def _right(n: Node, ct: Term) -> Term:
    a, b = n.args
    if _one_matrix(b) and not _one_matrix(a) and n.type.size:
        return swapped(_rows(Term(a))) @ _rows(ct)
    return summed_to(swapped(Term(a)) @ ct, b.shape)


ROWS: dict[str, Row] = {
    "matmul": each({0: _left, 1: _right}),
}
