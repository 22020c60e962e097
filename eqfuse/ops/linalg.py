"""Rows of numpy.linalg: solvers and decompositions, each one library call.

A node has one output. A decomposition gives its parts raveled and joined in one vector, in the order NumPy returns
them; `parts` says which shapes they have, and the front-end takes the vector apart by views.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.row import Op, PriceClass, Role, Types, need
from eqfuse.ops.types import Shape, TensorType


def packed(*parts: Any) -> np.ndarray:
    """`parts` raveled and joined, in their common dtype."""
    return np.concatenate([np.ravel(p) for p in parts])


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _matrices(op: str, types: Types, square: bool = True) -> tuple[Shape, int, int]:
    """Leading axes, rows and columns of the first argument."""
    t = types[0]
    need(t.dtype.kind in "fc" and real_dtype(t.dtype).itemsize in (4, 8), op, types, "LAPACK knows single and double")
    need(all(t.dtype == other.dtype for other in types), op, types, "cast the arguments to one dtype first")
    need(t.rank >= 2, op, types, "it needs two axes or more")
    *batch, m, n = t.shape
    need(m == n or not square, op, types, "the last two axes must be square")
    return tuple(batch), m, n


def solve_parts(types: Types, _attrs: tuple) -> list[Shape]:
    batch, m, _ = _matrices("solve", types)
    b = types[1]
    need(b.rank >= 2 and b.shape[-2] == m, "solve", types, f"the right side needs {m} rows")
    try:
        return [(*np.broadcast_shapes(batch, b.shape[:-2]), m, b.shape[-1])]
    except ValueError:
        need(False, "solve", types, "the leading axes do not broadcast")
        raise


def svd_parts(types: Types, attrs: tuple) -> list[Shape]:
    batch, m, n = _matrices("svd", types, square=False)
    k, (full_matrices,) = min(m, n), attrs
    return [(*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)]


def eigh_parts(types: Types, _attrs: tuple) -> list[Shape]:
    batch, n, _ = _matrices("eigh", types)
    return [(*batch, n), (*batch, n, n)]


def slogdet_parts(types: Types, _attrs: tuple) -> list[Shape]:
    batch, _, _ = _matrices("slogdet", types)
    return [batch, batch]


def inv_slogdet_parts(types: Types, _attrs: tuple) -> list[Shape]:
    batch, n, _ = _matrices("inv_slogdet", types)
    return [(*batch, n, n), batch, batch]


def qr_parts(types: Types, attrs: tuple) -> list[Shape]:
    batch, m, n = _matrices("qr", types, square=False)
    k, (mode,) = min(m, n), attrs
    if mode == "raw":
        return [(*batch, n, m), (*batch, k)]
    inner = m if mode == "complete" else k
    return [(*batch, m, inner), (*batch, inner, n)]


def lstsq_parts(types: Types, _attrs: tuple) -> list[Shape]:
    """Solution, residuals (NaN where NumPy gives none), rank, singular values."""
    _, m, n = _matrices("lstsq", types[:2], square=False)
    a, b, rcond = types
    need(a.rank == b.rank == 2 and b.shape[0] == m, "lstsq", types, "it takes two matrices with equal rows")
    need(rcond.shape == () and rcond.dtype == np.float64, "lstsq", types, "rcond must be a float64 scalar")
    return [(n, b.shape[1]), (b.shape[1] if m > n else 0,), (), (min(m, n),)]


PART_SHAPES: dict[str, Callable[[Types, tuple], list[Shape]]] = {
    "svd": svd_parts, "eigh": eigh_parts, "eig": eigh_parts, "slogdet": slogdet_parts, "qr": qr_parts,
    "lstsq": lstsq_parts, "inv_slogdet": inv_slogdet_parts,
}  # fmt: skip


def _packed_rule(op: str) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        shapes = PART_SHAPES[op](types, attrs)
        need(op != "eig" or types[0].dtype.kind == "c", op, types, "the eigenvalues of real matrices have no one dtype")
        return TensorType(types[0].dtype, (sum(math.prod(s) for s in shapes),))

    return rule


def _like_solve(types: Types, attrs: tuple) -> TensorType:
    return TensorType(types[0].dtype, solve_parts(types, attrs)[0])


def _square(op: str) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, _attrs: tuple) -> TensorType:
        _matrices(op, types)
        return types[0]

    return rule


def _with_factor(op: str) -> Callable[[Types, tuple], TensorType]:
    """Of a matrix that goes with a triangular factor of its shape."""

    def rule(types: Types, _attrs: tuple) -> TensorType:
        _matrices(op, types)
        need(types[0] == types[1], op, types, "the arguments must have one type")
        return types[1]

    return rule


def _per_matrix(op: str, real: bool, square: bool, values: bool) -> Callable[[Types, tuple], TensorType]:
    """One number for each matrix; or `values`, one for each row or column, whichever are fewer."""

    def rule(types: Types, _attrs: tuple) -> TensorType:
        batch, m, n = _matrices(op, types, square)
        dtype = types[0].dtype
        return TensorType(real_dtype(dtype) if real else dtype, (*batch, min(m, n)) if values else batch)

    return rule


def _cubic(factor: float) -> Callable[[Types, TensorType, tuple], int]:
    def flops(types: Types, out: TensorType, _attrs: tuple) -> int:
        *batch, m, n = types[0].shape
        return int(factor * math.prod(batch) * m * n * min(m, n)) + out.size

    return flops


def _solve_flops(types: Types, out: TensorType, attrs: tuple) -> int:
    return _cubic(2 / 3)(types, out, attrs) + 2 * out.size * types[0].shape[-1]


def _do_svd(a: np.ndarray, full_matrices: bool) -> np.ndarray:
    return packed(*np.linalg.svd(a, full_matrices))


def _do_svdvals(a: np.ndarray) -> np.ndarray:
    return np.linalg.svd(a, compute_uv=False)


def _do_eigh(a: np.ndarray, triangle: str) -> np.ndarray:
    return packed(*np.linalg.eigh(a, triangle))  # type: ignore[call-overload]


def _do_eig(a: np.ndarray) -> np.ndarray:
    return packed(*np.linalg.eig(a))


def _do_qr(a: np.ndarray, mode: str) -> np.ndarray:
    return packed(*np.linalg.qr(a, mode))  # type: ignore[call-overload]


def _do_slogdet(a: np.ndarray) -> np.ndarray:
    return packed(*np.linalg.slogdet(a))


def inverse_of_triangle(a: np.ndarray) -> np.ndarray:
    """Of the lower one, NaN where that is singular. Pivots would leave rounding errors in the other one."""
    singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(-1)[..., None, None]
    regular = np.where(singular, np.eye(a.shape[-1], dtype=a.dtype), a) if singular.any() else a
    inverse: np.ndarray = np.tril(np.linalg.inv(np.tril(regular)))
    return np.where(singular, np.nan, inverse).astype(a.dtype, copy=False) if singular.any() else inverse


def inverse_and_slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of matrices that have no inverse, NaN in its place."""
    sign, log = np.linalg.slogdet(a)
    singular = (sign == 0)[..., None, None]
    if not singular.any():
        return np.linalg.inv(a), sign, log
    regular = np.linalg.inv(np.where(singular, np.eye(a.shape[-1], dtype=a.dtype), a))
    return np.where(singular, np.nan, regular).astype(a.dtype, copy=False), sign, log


def _do_inv_slogdet(a: np.ndarray) -> np.ndarray:
    return packed(*inverse_and_slogdet(a))


def _do_cofactors(a: np.ndarray, inverse: np.ndarray, det: np.ndarray) -> np.ndarray:
    """What the determinants `det` change by with each element. Where there is no inverse, which is NaN, singular
    vectors tell it: it is 0 but where one singular value alone is 0."""
    cofactors: np.ndarray = det[..., None, None] * inverse.mT
    singular = (det == 0) & np.isnan(inverse).any((-2, -1))
    if not singular.any():
        return cofactors
    u, s, vh = np.linalg.svd(a[singular])
    order = a.shape[-1]
    others = np.where(s[:, :-1] > order * np.finfo(s.dtype).eps * s[:, :1], s[:, :-1], 0).prod(-1)
    scale = np.linalg.det(u) * np.linalg.det(vh) * others
    cofactors[singular] = scale[:, None, None] * u[:, :, -1:].conj() * vh[:, -1:, :].conj()
    return cofactors


def _cofactors(types: Types, _attrs: tuple) -> TensorType:
    batch, _, _ = _matrices("cofactors", types)
    need(types[1] == types[0] and types[2].shape == batch, "cofactors", types, "of matrices, inverses and determinants")
    return types[0]


def _pinv(types: Types, _attrs: tuple) -> TensorType:
    a, rcond = types
    batch, m, n = _matrices("pinv", (a,), square=False)
    need(rcond.dtype == np.float64, "pinv", types, "rcond must be of float64")
    try:
        shape = np.broadcast_shapes(batch, rcond.shape)
    except ValueError:
        need(False, "pinv", types, "the leading axes do not broadcast")
        raise
    need(shape == batch, "pinv", types, "one limit, or one of each matrix")
    return TensorType(a.dtype, (*batch, n, m))


def _do_pinv(a: np.ndarray, rcond: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(a, rcond)


def _do_cholesky(a: np.ndarray, upper: bool) -> np.ndarray:
    return np.linalg.cholesky(a, upper=upper)


def lower_half(like: Any) -> np.ndarray:
    """1 below the diagonal, 1/2 on it, 0 above."""
    order = like.shape[-1]
    return (np.tri(order, k=-1) + np.eye(order) / 2).astype(like.dtype)


def _hermitian(a: np.ndarray) -> np.ndarray:
    return (a + a.mT.conj()) / 2


def _do_cholesky_change(factor: np.ndarray, change: np.ndarray) -> np.ndarray:
    """What the lower `factor` of a matrix changes by where the matrix changes by the Hermitian part of `change`."""
    inverse = inverse_of_triangle(factor)
    return factor @ (lower_half(factor) * (inverse @ _hermitian(change) @ inverse.mT.conj()))


def _do_cholesky_cotangent(factor: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    """The transpose of that, in `change`."""
    inverse = inverse_of_triangle(factor)
    return _hermitian(inverse.mT @ (lower_half(factor) * (factor.mT @ cotangent)) @ inverse.conj())


def _do_cond(a: np.ndarray, order: str) -> np.ndarray:
    return np.asarray(np.linalg.cond(a, order if order in ("fro", "nuc") else float(order)))  # type: ignore[arg-type]


def _do_lstsq(a: np.ndarray, b: np.ndarray, rcond: np.ndarray) -> np.ndarray:
    x, residuals, rank, s = np.linalg.lstsq(a, b, float(rcond))
    if residuals.size == 0 and a.shape[0] > a.shape[1]:
        residuals = np.full(b.shape[1], np.nan, s.dtype)
    return packed(x, residuals, np.asarray(rank, s.dtype), s).astype(a.dtype, copy=False)


def _do_full_rank(residuals: np.ndarray, rank: np.ndarray, wanted: int) -> np.ndarray:
    if int(rank) != wanted:
        raise np.linalg.LinAlgError(
            f"lstsq: the matrix has rank {int(rank)}, not {wanted}, so NumPy would return no residuals; their number "
            "must not depend on data: use the solution without them"
        )
    return residuals


def _full_rank(types: Types, _attrs: tuple) -> TensorType:
    return types[0]


def _copied(_types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size


_L = Role.LIBRARY
_PRICE = PriceClass.LINEAR_ALGEBRA
ROWS = [
    Op("solve", _L, 2, (), _like_solve, np.linalg.solve, _solve_flops, _PRICE),
    Op("inv", _L, 1, (), _square("inv"), np.linalg.inv, _cubic(2), _PRICE),
    Op("inv_triangular", _L, 1, (), _square("inv_triangular"), inverse_of_triangle, _cubic(1 / 3), _PRICE),
    Op("inv_slogdet", _L, 1, (), _packed_rule("inv_slogdet"), _do_inv_slogdet, _cubic(2), _PRICE),
    Op("cofactors", _L, 3, (), _cofactors, _do_cofactors, _copied, _PRICE),
    Op("pinv", _L, 2, (), _pinv, _do_pinv, _cubic(13), _PRICE),
    Op("cholesky", _L, 1, ("upper",), _square("cholesky"), _do_cholesky, _cubic(1 / 3), _PRICE),
    Op("cholesky_change", _L, 2, (), _with_factor("cholesky_change"), _do_cholesky_change, _cubic(19 / 3), _PRICE),
    Op("cholesky_cotangent", _L, 2, (), _with_factor("cholesky_cotangent"), _do_cholesky_cotangent, _cubic(1), _PRICE),
    Op("det", _L, 1, (), _per_matrix("det", False, True, False), np.linalg.det, _cubic(2 / 3), _PRICE),
    Op("slogdet", _L, 1, (), _packed_rule("slogdet"), _do_slogdet, _cubic(2 / 3), _PRICE),
    Op("eigh", _L, 1, ("triangle",), _packed_rule("eigh"), _do_eigh, _cubic(10 / 3), _PRICE),
    Op("eigvalsh", _L, 1, ("triangle",), _per_matrix("eigvalsh", True, True, True), np.linalg.eigvalsh,
       _cubic(4 / 3), _PRICE),
    Op("eig", _L, 1, (), _packed_rule("eig"), _do_eig, _cubic(25), _PRICE),
    Op("eigvals", _L, 1, (), _per_matrix("eigvals", False, True, True), np.linalg.eigvals, _cubic(10), _PRICE),
    Op("svd", _L, 1, ("full_matrices",), _packed_rule("svd"), _do_svd, _cubic(12), _PRICE),
    Op("svdvals", _L, 1, (), _per_matrix("svdvals", True, False, True), _do_svdvals, _cubic(4), _PRICE),
    Op("qr", _L, 1, ("mode",), _packed_rule("qr"), _do_qr, _cubic(4), _PRICE),
    Op("cond", _L, 1, ("order",), _per_matrix("cond", True, True, False), _do_cond, _cubic(4), _PRICE),
    Op("lstsq", _L, 3, (), _packed_rule("lstsq"), _do_lstsq, _cubic(10), _PRICE),
    Op("full_rank", _L, 2, ("rank",), _full_rank, _do_full_rank, _copied, _PRICE),
]  # fmt: skip
