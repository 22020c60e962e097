"""What NumPy allocates while it computes one operator into an array, beside that array.

In: a node. Out: bytes, as `tracemalloc` counts them (NumPy 2.4): measured over every library operator, and an upper
bound where values decide. What C libraries take for themselves (LAPACK's workspaces, BLAS's packed panels, sorting)
is out of NumPy's sight, and not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from eqfuse.cost.work import rows_apart
from eqfuse.emit.numpy.cholesky import FACTOR_ROWS
from eqfuse.emit.numpy.inverses import FACTORED_ORDER, LAPACK_ORDER, NUMPY_ORDER
from eqfuse.emit.numpy.ops import folded, is_by_dot, right_is_copied
from eqfuse.emit.numpy.orders import order_bytes
from eqfuse.ir.graph import Node, node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import leaf_chain, strides_after
from eqfuse.ops import Role
from eqfuse.ops.types import Shape

NUMPY_BUFFER = 8192  # elements of an operand that a ufunc gathers at a time
SHORT_BUFFER = 512  # the same where `np.setbufsize` was told so
GATHERED_FROM = 4096  # results from which on it is told so: 0.9 us, of the 10 to 100 that it saves
LONG_ROW = 1536  # bytes between two gaps from which on short buffers are faster; of 600 they take half more time
HISTOGRAM_BLOCK = 65536  # elements that np.histogram takes at a time


def temporaries(n: Node) -> int:
    """Bytes that the call of `n` allocates, the result aside."""
    bytes_of = _CALLS.get(n.op)
    return bytes_of(n) if bytes_of else 0


def gathered(n: Node, gaps: Callable[[Node], bool]) -> list[Node]:
    """What the ufunc of `n` gathers in buffers: operands that are repeated, and those, or the result, with `gaps`."""
    if n.row.role is not Role.ELEMENTWISE:
        return []
    return [a for a in n.args if a.type.size > 1 and (a.shape != n.shape or gaps(a))] + [n] * gaps(n)


def has_long_rows(operands: Sequence[Node], shape: Shape) -> bool:
    """Are short buffers faster for these, which a ufunc of `shape` gathers? NumPy 2.4 gathers rows up to half a buffer
    and reads longer ones, some two times as fast, where they lie; but it begins each of them anew."""
    return min((_between_gaps(a, shape) * a.dtype.itemsize for a in operands), default=0) >= LONG_ROW


def _between_gaps(a: Node, shape: Shape) -> int:
    """Elements of `a` that a loop over `shape` reads between two gaps, or until it repeats them."""
    leaf, chain = leaf_chain(a)
    strides = strides_after(leaf.type, chain) if leaf.row.role is Role.LEAF and a.shape == shape else None
    rows = rows_apart(shape, strides) if strides else 0
    return math.prod(shape) // rows if rows else shape[-1] if shape else 1


def lies_apart(n: Node) -> bool:
    """Is `n` a leaf behind views that leave gaps, or another order?"""
    if n.row.role not in (Role.LEAF, Role.VIEW):
        return False
    leaf, chain = leaf_chain(n)
    return strides_after(leaf.type, chain) not in (None, contiguous(n.shape))


def view_copy_bytes(n: Node) -> int:
    """Bytes that NumPy copies to take the views of the leaf `n`: 0 unless a reshape needs another order."""
    leaf, chain = leaf_chain(n)
    return n.type.nbytes if leaf.op != "const" and strides_after(leaf.type, chain) is None else 0


def unreshaped(n: Node) -> Node:
    """The leaf `n` behind its views without the reshapes at the end that copy: those of the place it is copied to,
    which has no gaps, are views."""
    while n.op == "reshape" and view_copy_bytes(n):
        n = n.args[0]
    return n


def for_blas(n: Node) -> bool:
    """Can BLAS read `n`, a leaf behind its views, as a matrix?"""
    leaf, chain = leaf_chain(n)
    strides = strides_after(leaf.type, chain)
    return strides is None or 1 in strides[-2:]


def _product(n: Node) -> int:
    """``np.dot``, which `ops.whole_product` calls, copies matrices that BLAS cannot read; and so does folding."""
    if not is_by_dot(n):
        return 0
    matrices = [a if len(a.shape) == 2 else node("reshape", (a,), (folded(a),)) for a in n.args]
    copied = sum(max(view_copy_bytes(m), 0 if for_blas(m) else m.type.nbytes) for m in matrices)
    return copied + n.args[1].type.nbytes * right_is_copied(n)


def _result(n: Node) -> int:
    return n.type.nbytes


def _fmod(n: Node) -> int:
    """Of floats both magnitudes, and their remainder."""
    return sum(x.type.nbytes for x in (*n.args, n)) if n.dtype.kind == "f" else 0


def _operand(n: Node) -> int:
    return n.args[0].type.nbytes


def _take(n: Node) -> int:
    places = n.args[1].type
    return n.type.nbytes + (8 * places.size if places.dtype.itemsize < 8 else 0)


def _argmax(n: Node) -> int:
    """Another axis than the last, of those that have several indices, is brought to the end."""
    (axis, *others), shape = n.attr("axes"), n.args[0].shape
    return 0 if not others and math.prod(shape[axis:]) == shape[axis] else _operand(n)


def _nanargmax(n: Node) -> int:
    return _operand(n) + n.args[0].type.size + _argmax(n)


def _nanmedian(n: Node) -> int:
    """Rows of less than 600 are sorted as masked arrays."""
    return int(_operand(n) * (3.8 if _row(n) < 600 else 1))


def _by_rows(n: Node) -> int:
    """`nanquantile` goes row by row."""
    return n.type.nbytes + 4 * _row(n) * n.args[0].dtype.itemsize


def _row(n: Node) -> int:
    """Elements that one result is made of."""
    return math.prod([n.args[0].type.extent(a) for a in n.attr("axes")])


def _histogram(n: Node) -> int:
    return min(n.args[0].type.size, HISTOGRAM_BLOCK) * (48 if len(n.args) > 1 else 34)


def _interp(n: Node) -> int:
    x, places = (8 * a.type.size for a in n.args[:2])
    return n.type.nbytes + places + (0 if n.attr("period") is None else x + 2 * places)


def _fft(n: Node) -> int:
    """Real numbers become complex first."""
    return 0 if n.args[0].dtype.kind == "c" else max(2 * _operand(n), n.type.nbytes)


def _conv(n: Node) -> int:
    """The padded image, the columns of one group, and the products."""
    weight = n.args[1].type
    columns = n.shape[0] * math.prod(n.shape[2:]) * math.prod(weight.shape[1:]) * weight.dtype.itemsize
    return _padded(n) + max(columns, n.type.nbytes) + n.type.nbytes


def _window(n: Node) -> int:
    return n.type.nbytes + _padded(n)


def _padded(n: Node) -> int:
    """The padded copy of the operand, where there is padding."""
    x, pads = n.args[0].type, n.attr("padding")
    if not any(p != (0, 0) for p in pads):
        return 0
    lead = math.prod(x.shape[: x.rank - len(pads)])
    extents = (e + a + b for e, (a, b) in zip(x.shape[x.rank - len(pads) :], pads, strict=True))
    return lead * math.prod(extents) * x.dtype.itemsize


def _inv_triangular(n: Node) -> int:
    """NumPy's calls on a stack; LAPACK's copy of one matrix; or a product of halves, and NumPy's copy of its place."""
    order = n.shape[-1]
    if order <= NUMPY_ORDER:
        return 3 * n.type.nbytes
    if order <= LAPACK_ORDER:
        return n.dtype.itemsize * order**2
    return max(n.type.nbytes // 2, n.dtype.itemsize * 2 * LAPACK_ORDER**2)


def _cholesky_cotangent(n: Node) -> int:
    """By the formula three products and two sums; else the parts, of which a quarter is updated at a time, some blocks,
    and conjugates of numbers that have any."""
    order, conjugates = n.shape[-1], n.dtype.kind == "c"
    if order <= FACTOR_ROWS:
        return (5 + conjugates) * n.type.nbytes
    return n.type.nbytes * (5 + 8 * conjugates) // 4 + 6 * (n.type.nbytes // order**2) * FACTOR_ROWS**2


def _inv_slogdet(n: Node) -> int:
    """NumPy's inverse; or LAPACK's factors, their product, and what the inverse of a triangle takes."""
    order = n.args[0].shape[-1]
    return n.type.nbytes if order <= FACTORED_ORDER else n.dtype.itemsize * order**2 * 9 // 4


def _argsort(n: Node) -> int:
    return order_bytes(n.args[0].type, n.attr("axis"), n.attr("stable"))


def _cofactors(n: Node) -> int:
    """The result, and what NumPy copies of the transposed inverse at a time."""
    return n.type.nbytes + n.dtype.itemsize * min(n.type.size, NUMPY_BUFFER)


def _pinv(n: Node) -> int:
    """Singular vectors of both sides, those of the left divided by the values, the conjugate of complex numbers, and
    the result."""
    a = n.args[0]
    k = min(a.shape[-2:])
    vectors = a.type.nbytes // math.prod(a.shape[-2:]) * k * (2 * a.shape[-2] + a.shape[-1])
    return vectors + n.type.nbytes * (1 + (n.dtype.kind == "c"))


_CALLS: dict[str, Callable[[Node], int]] = {
    "fmod": _fmod, "matmul": _product, "take": _take, "argmax": _argmax, "argmin": _argmax,
    "conv": _conv, "window_max": _window, "window_sum": _window,
    **dict.fromkeys((
        "argpartition", "lexsort", "searchsorted", "digitize", "bincount", "inv", "solve", "cholesky", "det",
        "pure_callback",
        "slogdet", "svdvals", "eigvalsh", "histogram_bin_edges", "convolve", "correlate",
    ), _result),
    "argsort": _argsort, "cofactors": _cofactors, "inv_triangular": _inv_triangular, "inv_slogdet": _inv_slogdet,
    "cholesky_change": lambda n: 3 * n.type.nbytes + 16 * n.shape[-1] ** 2,
    "cholesky_cotangent": _cholesky_cotangent,
    "pinv": _pinv,
    **dict.fromkeys(("eigh", "svd", "eig", "eigvals"), lambda n: 2 * n.type.nbytes),
    "qr": lambda n: (3 if n.attr("mode") == "raw" else 2) * n.type.nbytes,
    "cond": lambda n: 2 * _operand(n),
    "lstsq": lambda n: 3 * n.type.nbytes,
    "isin": lambda n: 5 * sum(a.type.nbytes for a in n.args),
    "median": _operand, "nanmedian": _nanmedian,
    **dict.fromkeys(("quantile", "percentile"), lambda n: _operand(n) + 7 * n.type.nbytes),
    **dict.fromkeys(("nanquantile", "nanpercentile"), _by_rows),
    "nanargmax": _nanargmax, "nanargmin": _nanargmax,
    "histogram": _histogram, "interp": _interp, "fft": _fft, "ifft": _fft,
}  # fmt: skip
