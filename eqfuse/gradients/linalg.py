"""Derivatives of solvers and decompositions. Where LAPACK reads one triangle of a matrix, the matrix is taken to be
symmetric (Hermitian), and so are its change and its gradient, as in JAX.

`h` is the conjugate transpose, `swapped` the transpose alone. Parts of a decomposition lie in one vector, as
`ops/linalg.py` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import (
    Expr,
    cast,
    complex_of,
    conj,
    f,
    filled,
    imag,
    real,
    reshape,
    sum_over,
    summed_to,
    swapped,
    where,
    zeros_like,
)
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, joint, refused
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.linalg import PART_SHAPES, lower_half


def h(x: Expr) -> Expr:
    return conj(swapped(x))


def _solve(a: Expr, b: Expr) -> Expr:
    return Expr(node("solve", (a.node, b.node)))


def _matrix(values: np.ndarray, like: Expr) -> Expr:
    return Expr(const(values, like.dtype))


def _unit(like: Expr) -> Expr:
    return _matrix(np.eye(like.shape[-1]), like)


def _diagonal(x: Expr) -> Expr:
    """The diagonals of square matrices."""
    return reshape(sum_over(x * _unit(x), [-1]), x.shape[:-1])


def _diagonal_of_product(a: Expr, b: Expr) -> Expr:
    """The diagonals of ``h(a) @ b``, without the rest."""
    return reshape(sum_over(conj(a) * b, [-2]), (*b.shape[:-2], b.shape[-1]))


def _row(x: Expr) -> Expr:
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def _column(x: Expr) -> Expr:
    return reshape(x, (*x.shape, 1))


def _symmetric(x: Expr) -> Expr:
    return (x + h(x)) * 0.5


def _parts(n: Node) -> list[Expr]:
    """The parts of the decomposition `n`."""
    shapes = PART_SHAPES[n.op]([a.type for a in n.args], n.attrs)
    parts, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        parts.append(reshape(Expr(tidy.slice_(n, [(start, stop, 1)])), shape))
        start = stop
    return parts


def _packed(parts: Sequence[Expr], n: Node) -> Node:
    """`parts` as `n` holds its own."""
    flat = [cast(reshape(p, (p.node.type.size,)), n.dtype).node for p in parts]
    return tidy.concat(flat, -1)


# ---- solvers


def _solve_tangent(n: Node, d: Changes) -> Node | None:
    da, db = d
    if da is None:
        return None if db is None else n.over([n.args[0], db])
    moved = -(Expr(da) @ Expr(n))
    return _solve(Expr(n.args[0]), moved if db is None else Expr(db) + moved).node


def _solve_transpose(n: Node, _position: int, ct: Expr) -> Expr:
    return summed_to(_solve(swapped(Expr(n.args[0])), ct), n.args[1].shape)


def _inverse_tangent(n: Node, d: Changes) -> Node | None:
    return None if d[0] is None else (-(Expr(n) @ Expr(d[0]) @ Expr(n))).node


def _inverse_triangle_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    lower = Expr(d[0]) * _matrix(np.tri(n.shape[-1]), Expr(n))
    return (-(Expr(n) @ lower @ Expr(n))).node


def _inverse(a: Expr) -> Expr:
    """NaN of singular matrices, which `inv` refuses."""
    return _parts(node("inv_slogdet", (a.node,)))[0]


def _inverse_triangle(lower: Expr) -> Expr:
    return Expr(node("inv_triangular", (lower.node,)))


# ---- determinants


def _change_of_log(inverse: Expr, change: Node) -> Expr:
    """What the logarithm of the determinant changes by: the trace of the inverse times the change of the matrix."""
    products = swapped(inverse) * Expr(change)
    return reshape(sum_over(products, [-2, -1]), products.shape[:-2])


def _changes_of_slogdet(inverse: Expr, sign: Expr, change: Node) -> list[Expr]:
    of_log = _change_of_log(inverse, change)
    if sign.dtype.kind != "c":
        return [zeros_like(sign.node), of_log]
    part = real(of_log)
    return [sign * complex_of(zeros_like(part.node), imag(of_log)), part]


def _inv_slogdet_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    inverse, sign, _ = _parts(n)
    return _packed([-(inverse @ Expr(d[0]) @ inverse), *_changes_of_slogdet(inverse, sign, d[0])], n)


def _cofactors(n: Node) -> Node:
    """Of regular matrices: only these have second derivatives where the order is above 3."""
    _, inverse, det = map(Expr, n.args)
    return (_column(_row(det)) * swapped(inverse)).node


def _turned(a: Expr, rows: int, columns: int) -> Expr:
    """`a` from so many rows and columns on; those before come last."""
    for axis, start in ((-2, rows), (-1, columns)):
        whole = [(0, extent, 1) for extent in a.shape]
        parts = []
        for ends in ((start, a.shape[axis]), (0, start)):
            ranges = list(whole)
            ranges[axis] = (*ends, 1)
            parts.append(tidy.slice_(a.node, ranges))
        a = Expr(tidy.concat(parts, axis))
    return a


def _small_cofactors(a: Expr) -> Expr:
    """Of matrices of three rows or fewer, by products of their elements."""
    order = a.shape[-1]
    if order < 3:
        signs = 2 * np.eye(order) - 1
        return filled(1, a.node.type) if order == 1 else _turned(a, 1, 1) * _matrix(signs, a)
    return _turned(a, 1, 1) * _turned(a, 2, 2) - _turned(a, 1, 2) * _turned(a, 2, 1)


def _det_changes(n: Node, d: Changes, _changes: Any) -> tuple[list[Node | None], dict[Node, Node]]:
    """Of larger matrices the value is that of the factors of which the inverse, which the derivative needs, is made."""
    assert d[0] is not None
    instead: dict[Node, Node] = {}
    if 0 < n.args[0].shape[-1] <= 3:
        cofactors = _small_cofactors(Expr(n.args[0]))
    else:
        inverse, sign, log = _parts(node("inv_slogdet", n.args))
        instead[n] = (sign * f("exp", log)).node
        cofactors = Expr(node("cofactors", (n.args[0], inverse.node, instead[n])))
    return [reshape(sum_over(cofactors * Expr(d[0]), [-2, -1]), n.shape).node], instead


def _slogdet_changes(n: Node, d: Changes, _changes: Any) -> tuple[list[Node | None], dict[Node, Node]]:
    assert d[0] is not None
    whole = node("inv_slogdet", n.args)
    inverse, sign, _ = _parts(whole)
    instead = tidy.slice_(whole, [(inverse.node.type.size, whole.type.size, 1)])
    return [_packed(_changes_of_slogdet(inverse, sign, d[0]), n)], {n: instead}


def _cholesky_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    upper = n.attr("upper")
    factor = h(Expr(n)) if upper else Expr(n)
    change = Expr(node("cholesky_change", (factor.node, d[0])))
    return (h(change) if upper else change).node


def _cholesky_change(n: Node) -> Node:
    factor, change = map(Expr, n.args)
    inverse, halved = _inverse_triangle(factor), _matrix(lower_half(n), factor)
    return (factor @ (halved * (inverse @ _symmetric(change) @ h(inverse)))).node


def _cholesky_cotangent(n: Node) -> Node:
    factor, cotangent = map(Expr, n.args)
    inverse, halved = _inverse_triangle(factor), _matrix(lower_half(n), factor)
    return _symmetric(swapped(inverse) @ (halved * (swapped(factor) @ cotangent)) @ conj(inverse)).node


def _of_factor(op: str) -> Callable[[Node, int, Expr], Expr]:
    def transpose(n: Node, _position: int, ct: Expr) -> Expr:
        return Expr(node(op, (n.args[0], ct.node)))

    return transpose


# ---- eigenvalues and singular values


def _gaps(values: Expr) -> Expr:
    """One over the differences of `values`, j less i; NaN where two of them are the same, whose vectors are any of a
    plane."""
    gap = _row(values) - _column(values)
    none = gap.equals(0)
    of_same = _matrix(np.where(np.eye(values.shape[-1], dtype=bool), 0, np.nan), values)
    return where(none, of_same, 1 / where(none, 1, gap))


def _eigh_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    values, vectors = _parts(n)
    turned = h(vectors) @ _symmetric(Expr(d[0])) @ vectors
    return _packed([_diagonal(turned), vectors @ (_gaps(values) * turned)], n)


def _eigvalsh_changes(n: Node, d: Changes, _changes: Any) -> tuple[list[Node | None], dict[Node, Node]]:
    """The values are those that come with the vectors, which the derivative needs."""
    assert d[0] is not None
    values, vectors = _parts(node("eigh", n.args, n.attrs))
    return [real(_diagonal_of_product(vectors, _symmetric(Expr(d[0])) @ vectors)).node], {n: real(values).node}


def _eigvals_changes(n: Node, d: Changes, _changes: Any) -> tuple[list[Node | None], dict[Node, Node]]:
    assert d[0] is not None
    if n.dtype.kind != "c":
        raise NoDerivative("of real matrices whose eigenvalues are real: pass a complex matrix")
    values, vectors = _parts(node("eig", n.args))
    return [_diagonal_of_product(h(_inverse(vectors)), Expr(d[0]) @ vectors).node], {n: values.node}


def _svd_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    rows, columns = n.args[0].shape[-2:]
    if n.attr("full_matrices") and rows != columns:
        raise NoDerivative("of full_matrices, which are not determined by the matrix: pass full_matrices=False")
    (u, s, vh), da = _parts(n), Expr(d[0])
    v = h(vh)
    turned = h(u) @ da @ v
    squares = _gaps(s * s)
    left, right = turned * _row(s), _column(s) * turned
    inverse = where(s.equals(0), 0, 1 / where(s.equals(0), 1, s))
    phase = (turned - h(turned)) * 0.5 * (_unit(turned) * _row(inverse)) if n.dtype.kind == "c" else None
    inside = squares * (left + h(left))
    du = u @ (inside if phase is None else inside + phase)
    dv = v @ (squares * (right + h(right)))
    if rows > columns:
        moved = da @ v
        du = du + (moved - u @ (h(u) @ moved)) * _row(inverse)
    if columns > rows:
        moved = h(da) @ u
        dv = dv + (moved - v @ (h(v) @ moved)) * _row(inverse)
    return _packed([du, real(_diagonal(turned)), h(dv)], n)


def _svdvals_changes(n: Node, d: Changes, _changes: Any) -> tuple[list[Node | None], dict[Node, Node]]:
    assert d[0] is not None
    u, values, vh = _parts(node("svd", n.args, (False,)))
    return [real(_diagonal_of_product(u, Expr(d[0]) @ h(vh))).node], {n: real(values).node}


def _first_columns(x: Expr, count: int) -> Expr:
    return Expr(tidy.slice_(x.node, [*((0, extent, 1) for extent in x.shape[:-1]), (0, count, 1)]))


def _qr_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    rows, columns = n.args[0].shape[-2:]
    if n.attr("mode") == "raw" or (n.attr("mode") == "complete" and rows > columns):
        raise NoDerivative("it has one by mode='reduced'")
    q, r = _parts(n)
    order = min(rows, columns)
    scaled = _first_columns(Expr(d[0]), order) @ swapped(_inverse_triangle(swapped(_first_columns(r, order))))
    turned = h(q) @ scaled
    lower = turned * _matrix(np.tri(order, k=-1), turned)
    rotation = lower - h(lower)
    if n.dtype.kind == "c":
        rotation = rotation + _unit(turned) * (turned - h(turned)) * 0.5
    dq = q @ (rotation - turned) + scaled
    dr = (turned - rotation) @ r if rows >= columns else h(dq) @ Expr(n.args[0]) + h(q) @ Expr(d[0])
    return _packed([dq, dr], n)


# ---- what small singular values count as 0 in, whose rank is taken to stay


def _pinv_tangent(n: Node, d: Changes) -> Node | None:
    """Golub and Pereyra, 1973: free of singular vectors, which are not determined where values are equal."""
    if d[0] is None:
        return None
    a, p, da = Expr(n.args[0]), Expr(n), Expr(d[0])
    in_range = p @ h(p) @ (h(da) - h(da) @ a @ p)
    in_kernel = (h(da) - p @ a @ h(da)) @ h(p) @ p
    return (in_range + in_kernel - p @ da @ p).node


def _least_squares_tangent(n: Node, d: Changes) -> Node | None:
    """The solution is the pseudo-inverse times `b`: what it changes by has few columns where `b` has few."""
    if d[0] is None and d[1] is None:
        return None
    a, b, rcond = map(Expr, n.args)
    p, (x, residuals, rank, values) = Expr(node("pinv", (a.node, rcond.node))), _parts(n)
    of_right = zeros_like(b.node) if d[1] is None else Expr(d[1])
    of_values = zeros_like(values.node)
    dx = p @ of_right
    if d[0] is not None:
        da, rest, dual = Expr(d[0]), b - a @ x, h(p) @ x
        of_right = of_right - da @ x
        bent = h(da) @ dual
        dx = p @ (of_right + h(p) @ (h(da) @ rest) - a @ bent) + bent
        u, _, vh = _parts(node("svd", (a.node,), (False,)))
        of_values = real(_diagonal_of_product(u, da @ h(vh)))
    squares = sum_over(real(conj(b - a @ x) * of_right), [-2]) * 2
    of_residuals = squares if residuals.node.type.size else residuals
    return _packed([dx, of_residuals, zeros_like(rank.node), of_values], n)


# ---- what is a formula of others


def _absolute(x: Expr) -> Expr:
    return f("abs", x)


def _norm(x: Expr, order: str) -> Expr:
    """The norm of matrices that ``np.linalg.cond`` knows as `order`."""
    if order == "fro":
        return f("sqrt", sum_over(f("square", _absolute(x)), (-2, -1)))
    if order in ("nuc", "2", "2.0", "-2", "-2.0"):
        values = _row(Expr(node("svdvals", (x.node,))))
        reduction = "sum" if order == "nuc" else "min" if order.startswith("-") else "max"
        return Expr(tidy.reduce(reduction, values.node, [-1]))
    sums = sum_over(_absolute(x), [-2 if "1" in order else -1])
    return Expr(tidy.reduce("min" if order.startswith("-") else "max", sums.node, [-2, -1]))


def _condition(n: Node) -> Node:
    a, order = Expr(n.args[0]), n.attr("order")
    return reshape(_norm(a, order) * _norm(_inverse(a), order), n.shape).node


ROWS: dict[str, DerivativeRow] = {
    "solve": DerivativeRow(_solve_tangent, transpose=_solve_transpose, linear=(1,)),
    "inv": DerivativeRow(_inverse_tangent),
    "cholesky": DerivativeRow(_cholesky_tangent),
    "cholesky_change": DerivativeRow(formula=_cholesky_change, transpose=_of_factor("cholesky_cotangent"), linear=(1,)),
    "cholesky_cotangent": DerivativeRow(
        formula=_cholesky_cotangent, transpose=_of_factor("cholesky_change"), linear=(1,)
    ),
    "inv_triangular": DerivativeRow(_inverse_triangle_tangent),
    "inv_slogdet": DerivativeRow(_inv_slogdet_tangent),
    "cofactors": DerivativeRow(formula=_cofactors),
    "det": DerivativeRow(several=_det_changes),
    "slogdet": DerivativeRow(several=_slogdet_changes),
    "eigh": DerivativeRow(_eigh_tangent),
    "eigvalsh": DerivativeRow(several=_eigvalsh_changes),
    "eig": refused("vectors have no one length and phase; np.linalg.eigvals and np.linalg.eigh have one"),
    "eigvals": DerivativeRow(several=_eigvals_changes),
    "svd": DerivativeRow(_svd_tangent),
    "svdvals": DerivativeRow(several=_svdvals_changes),
    "qr": DerivativeRow(_qr_tangent),
    "pinv": DerivativeRow(_pinv_tangent),
    "cond": DerivativeRow(formula=_condition),
    "lstsq": DerivativeRow(_least_squares_tangent),
    "full_rank": joint({0: lambda n, ct: ct}, (0,)),
}
