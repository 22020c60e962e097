"""numpy.linalg: solvers and decompositions as library calls, and what NumPy composes of them. (`norms` has the norms.)

In: array-function calls on tracers. Out: tracers. A decomposition is one node, however many of its parts are used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.linalg._linalg import EighResult, EigResult, QRResult, SlogdetResult, SVDResult

from eqfuse.errors import DtypeError, MatrixError, ShapeError, TraceError
from eqfuse.frontends.numpy import contractions, manipulation, reductions
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.unpack import unpack
from eqfuse.ir.graph import node
from eqfuse.ops.linalg import PART_SHAPES, real_dtype


def _inexact(function: str, *values: Any) -> list[Tracer]:
    """`values` in the dtype in which numpy.linalg computes: single only when all are."""
    arrays = [lift(v) for v in values]
    for x in arrays:
        if x.dtype == np.float16:
            raise DtypeError(f"np.linalg.{function}: array type {x.dtype.name} is unsupported in linalg")
    single = all(x.dtype.kind in "fc" and real_dtype(x.dtype).itemsize == 4 for x in arrays)
    word = ("c8" if single else "c16") if any(x.dtype.kind == "c" for x in arrays) else "f4" if single else "f8"
    return [x.astype(np.dtype(word)) for x in arrays]


def _matrices(function: str, x: Tracer, square: bool = True) -> Tracer:
    if x.ndim < 2:
        raise MatrixError(f"np.linalg.{function}: {x.ndim}-dimensional array given, it must be at least 2-dimensional")
    if square and x.shape[-1] != x.shape[-2]:
        raise MatrixError(f"np.linalg.{function}: the last 2 dimensions of {x.shape} must be square")
    return x


def _parts(op: str, args: Sequence[Tracer], attrs: tuple = ()) -> list[Tracer]:
    packed = node(op, [a.node for a in args], attrs)
    return unpack(packed, PART_SHAPES[op]([a.node.type for a in args], attrs))


def _adjoint(x: Tracer) -> Tracer:
    """The conjugate transpose."""
    return lazy.matrix_transpose(x.conj())


# ---- solving


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Tracer:
    a, b = _inexact("solve", a, b)
    _matrices("solve", a)
    if b.ndim == 0:
        raise ShapeError("np.linalg.solve: the right side is a scalar")
    vector = b.ndim == 1
    right = b.reshape(-1, 1) if vector else b
    solution = wrap(node("solve", (a.node, right.node)))
    return solution.reshape(solution.shape[:-1]) if vector else solution


@implements(np.linalg.inv)
def inv(a: Any) -> Tracer:
    (x,) = _inexact("inv", a)
    return wrap(node("inv", (_matrices("inv", x).node,)))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tracer:
    a, b = lift(a), lift(b)
    if axes is not None:
        order = list(range(a.ndim))
        for k in axes:
            order.remove(k)
            order.append(k)
        a = lazy.transpose(a, order)
    shape = a.shape[b.ndim :]
    size = math.prod(shape)
    if a.size != size**2:
        raise ShapeError("np.linalg.tensorsolve: prod(a.shape[b.ndim:]) must equal prod(a.shape[:b.ndim])")
    return solve(a.reshape(size, size), b.reshape(-1)).reshape(shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Tracer:
    x = lift(a)
    if ind <= 0:
        raise ShapeError("np.linalg.tensorinv: Invalid ind argument")
    rows = math.prod(x.shape[:ind])
    return inv(x.reshape(rows, -1)).reshape((*x.shape[ind:], *x.shape[:ind]))


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    """The residuals of an overdetermined system exist only if its rank is full: asked for, that is checked."""
    a, b = _inexact("lstsq", a, b)
    vector = b.ndim == 1
    right = b.reshape(-1, 1) if vector else b
    if a.ndim != 2 or right.ndim != 2 or a.shape[0] != right.shape[0]:
        raise MatrixError(f"np.linalg.lstsq takes two matrices with equal rows, not {a.shape} and {b.shape}")
    m, n = a.shape
    cut = np.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    limit = lift(cut).astype(np.float64)
    x, residuals, rank, s = _parts("lstsq", (a, right, limit))
    residuals = residuals.real
    count = rank.real.astype(np.int32)
    if m > n:
        residuals = wrap(node("full_rank", (residuals.node, count.node), (n,)))
    return x.reshape(n) if vector else x, residuals, count, s.real


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Tracer:
    (x,) = _inexact("pinv", a)
    if rcond is not None and rtol is not np._NoValue:
        raise ShapeError("np.linalg.pinv: rtol and rcond cannot both be set")
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else rtol
    if rcond is None:
        rcond = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    if 0 in x.shape[-2:]:
        return lift(np.empty((*x.shape[:-2], x.shape[-1], x.shape[-2]), lift(a).dtype))
    limit = lift(rcond).astype(np.float64)
    if not hermitian:
        batch = np.broadcast_shapes(x.shape[:-2], limit.shape)
        whole = lazy.broadcast_to(x, (*batch, *x.shape[-2:]))
        return wrap(node("pinv", (_matrices("pinv", whole, square=False).node, limit.node)))
    u, s, vt = svd(x.conj(), False, hermitian=True)
    large = s > limit[..., None] * reductions.max(s, -1, keepdims=True)
    inverse = elementwise("where", large, 1 / elementwise("where", large, s, 1), 0).astype(s.dtype)
    product = lazy.matmul(lazy.matrix_transpose(vt), inverse[..., None] * lazy.matrix_transpose(u))
    return product.astype(x.dtype) if product.dtype != x.dtype else product


# ---- decompositions


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Tracer:
    (x,) = _inexact("cholesky", a)
    return wrap(node("cholesky", (_matrices("cholesky", x).node,), (bool(upper),)))


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise ShapeError(f"np.linalg: UPLO must be 'L' or 'U', not {UPLO!r}")
    return UPLO.upper()


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    (x,) = _inexact("eigh", a)
    w, v = _parts("eigh", (_matrices("eigh", x),), (_triangle(UPLO),))
    return EighResult(w.real, v)  # type: ignore[arg-type]


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Tracer:
    (x,) = _inexact("eigvalsh", a)
    return wrap(node("eigvalsh", (_matrices("eigvalsh", x).node,), (_triangle(UPLO),)))


def _complex(function: str, a: Any) -> Tracer:
    (x,) = _inexact(function, a)
    if x.dtype.kind != "c":
        raise TraceError(
            f"np.linalg.{function} of a real matrix gives real or complex values, as the data decides. Use "
            f"np.linalg.{function}h if the matrix is symmetric, or .astype(complex) first"
        )
    return _matrices(function, x)


@implements(np.linalg.eig)
def eig(a: Any) -> Any:
    return EigResult(*_parts("eig", (_complex("eig", a),)))  # type: ignore[arg-type]


@implements(np.linalg.eigvals)
def eigvals(a: Any) -> Tracer:
    return wrap(node("eigvals", (_complex("eigvals", a).node,)))


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    (x,) = _inexact("svd", a)
    _matrices("svd", x, square=hermitian)
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    if not compute_uv:
        return wrap(node("svdvals", (x.node,)))
    u, s, vh = _parts("svd", (x,), (bool(full_matrices),))
    return SVDResult(u, s.real, vh)  # type: ignore[arg-type]


def _hermitian_svd(x: Tracer, compute_uv: bool) -> Any:
    """Singular values are the sizes of the eigenvalues; NumPy sorts them the same way."""
    if not compute_uv:
        return lazy.sort(abs(eigvalsh(x)))[..., ::-1]
    w, u = eigh(x)
    sign, s = elementwise("copysign", 1.0, w), abs(w)  # a sign of 0 would leave a row of zeros
    order = lazy.argsort(s)[..., ::-1]
    sign, s = (lazy.take_along_axis(part, order, -1) for part in (sign, s))
    u = lazy.take_along_axis(u, lazy.broadcast_to(order[..., None, :], u.shape), -1)
    return SVDResult(u, s, _adjoint(u * sign[..., None, :]))  # type: ignore[arg-type]


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Tracer:
    return svd(x, compute_uv=False)


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    (x,) = _inexact("qr", a)
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ShapeError(f"np.linalg.qr: Unrecognized mode {mode!r}: reduced, complete, r or raw")
    _matrices("qr", x, square=False)
    if mode == "r":
        k = min(x.shape[-2:])
        return lazy.triu(_r_of_raw(_parts("qr", (x,), ("raw",))[0], k))
    q, r = _parts("qr", (x,), (mode,))
    return (q, r) if mode == "raw" else QRResult(q, r)  # type: ignore[arg-type]


def _r_of_raw(h: Tracer, k: int) -> Tracer:
    return lazy.matrix_transpose(h)[..., :k, :]


# ---- numbers of matrices


@implements(np.linalg.det)
def det(a: Any) -> Tracer:
    (x,) = _inexact("det", a)
    return wrap(node("det", (_matrices("det", x).node,)))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    (x,) = _inexact("slogdet", a)
    sign, logarithm = _parts("slogdet", (_matrices("slogdet", x),))
    return SlogdetResult(sign, logarithm.real)


@implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Tracer:
    (a,) = _inexact("cond", x)
    if 0 in a.shape[-2:]:
        raise ShapeError("np.linalg.cond: cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = svd(_matrices("cond", a, square=False), compute_uv=False)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        unknown = reductions.any_(elementwise("isnan", a), (-2, -1))
        infinite = elementwise("isnan", ratio) & ~unknown
        return elementwise("where", infinite, math.inf, ratio)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise ShapeError(f"np.linalg.cond: Invalid norm order {p!r} for matrices")
    return wrap(node("cond", (_matrices("cond", a).node,), (str(p),)))


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tracer:
    if rtol is not None and tol is not None:
        raise ShapeError("np.linalg.matrix_rank: tol and rtol cannot both be set")
    x = lift(A)
    if x.ndim < 2:
        return (~reductions.all_(x == 0)).astype(np.int64)
    s = svd(x, compute_uv=False, hermitian=hermitian)
    if tol is None:
        share = max(x.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else lift(rtol)[..., None]
        limit = reductions.max(s, -1, keepdims=True, initial=0) * share
    else:
        limit = lift(tol)[..., None]
    return reductions.count_nonzero(s > limit, -1)


# ---- products


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Tracer:
    x = _matrices("matrix_power", lift(a))
    n = operator.index(n)
    if n == 0:
        one = lift(np.eye(x.shape[-2], dtype=x.dtype))
        return manipulation.broadcast_to(one, x.shape).copy()
    if n < 0:
        x, n = inv(x), -n
    if n == 1:
        return x
    if n == 3:
        return lazy.matmul(lazy.matmul(x, x), x)
    square, result = None, None
    while n > 0:
        square = x if square is None else lazy.matmul(square, square)
        n, bit = divmod(n, 2)
        if bit:
            result = square if result is None else lazy.matmul(result, square)
    assert result is not None
    return result


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: None = None) -> Tracer:
    """In the order that costs least; a vector stands for a row at the left end and for a column at the right one."""
    parts = [lift(a) for a in arrays]
    if len(parts) < 2:
        raise ShapeError("np.linalg.multi_dot: Expecting at least two arrays.")
    inner = all(p.ndim == 2 for p in parts[1:-1])
    if not inner or any(p.ndim not in (1, 2) for p in (parts[0], parts[-1])):
        raise ShapeError("np.linalg.multi_dot takes matrices, and vectors at both ends")
    for left, right in pairwise(parts):
        if left.shape[-1] != right.shape[0]:  # which einsum would repeat, if it is 1
            raise ShapeError(f"np.linalg.multi_dot: shapes {left.shape} and {right.shape} are not aligned")
    from opt_einsum import get_symbol

    letters = [get_symbol(i) for i in range(len(parts) + 1)]
    terms = [first + second for first, second in pairwise(letters)]
    if parts[0].ndim == 1:
        terms[0] = terms[0][1]
    if parts[-1].ndim == 1:
        terms[-1] = terms[-1][0]
    ends = (letters[0] if parts[0].ndim == 2 else "") + (letters[-1] if parts[-1].ndim == 2 else "")
    return contractions.einsum(",".join(terms) + "->" + ends, *parts)


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tracer:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = lift(a), lift(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ShapeError("np.cross: At least one array has zero dimension")
    a, b = manipulation.moveaxis(a, axisa, -1), manipulation.moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ShapeError(f"np.cross: incompatible dimensions {a.shape[-1]} and {b.shape[-1]} (must be 2 or 3)")
    (a0, a1, *a2), (b0, b1, *b2) = ([x[..., i] for i in range(x.shape[-1])] for x in (a, b))
    last = a0 * b1 - a1 * b0
    if not a2 and not b2:
        return last
    first = a1 * b2[0] if b2 else None
    second = -(a0 * b2[0]) if b2 else None
    if a2:
        first = -(a2[0] * b1) if first is None else first - a2[0] * b1
        second = a2[0] * b0 if second is None else a2[0] * b0 - a0 * b2[0]
    components = lazy.stack(lazy.broadcast_arrays(first, second, last), -1)
    return manipulation.moveaxis(components, -1, axisc)


@implements(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tracer:
    x1, x2 = lift(x1), lift(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError(f"np.linalg.cross takes vectors of 3 along axis {axis}, not {x1.shape} and {x2.shape}")
    return cross(x1, x2, axis=axis)


@implements(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tracer:
    a, b = lift(x1), lift(x2)
    a, b = (manipulation.moveaxis(x, axis, -1) for x in (a, b))
    return lazy.vecdot(a, b)


@implements(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Tracer:
    return manipulation.diagonal(x, offset, -2, -1)


@implements(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tracer:
    return contractions.trace(x, offset, -2, -1, dtype)
