"""The Array API standard 2024.12 as data: every function's parameters as they may be passed, and a sample call.

Positional parameters stand before ``/``, those by keyword behind ``*``, as the standard writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CONSTANTS = "e inf nan newaxis pi"
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan "
    "log log10 log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan "
    "tanh trunc"
)
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow remainder subtract"
)

FUNCTIONS = """
__array_namespace_info__()
arange(start, /, stop, step, *, dtype, device)
asarray(obj, /, *, dtype, device, copy)
empty(shape, *, dtype, device)
empty_like(x, /, *, dtype, device)
eye(n_rows, n_cols, /, *, k, dtype, device)
from_dlpack(x, /, *, device, copy)
full(shape, fill_value, *, dtype, device)
full_like(x, /, fill_value, *, dtype, device)
linspace(start, stop, /, num, *, dtype, device, endpoint)
meshgrid(a, b, /, *, indexing)
ones(shape, *, dtype, device)
ones_like(x, /, *, dtype, device)
tril(x, /, *, k)
triu(x, /, *, k)
zeros(shape, *, dtype, device)
zeros_like(x, /, *, dtype, device)
astype(x, dtype, /, *, copy, device)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(a, b, /)
clip(x, /, min, max)
take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes)
vecdot(x1, x2, /, *, axis)
broadcast_arrays(a, b, /)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis)
expand_dims(x, /, *, axis)
flip(x, /, *, axis)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis)
reshape(x, /, shape, *, copy)
roll(x, /, shift, *, axis)
squeeze(x, /, axis)
stack(arrays, /, *, axis)
tile(x, repetitions, /)
unstack(x, /, *, axis)
argmax(x, /, *, axis, keepdims)
argmin(x, /, *, axis, keepdims)
count_nonzero(x, /, *, axis, keepdims)
nonzero(x, /)
searchsorted(x1, x2, /, *, side, sorter)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis, descending, stable)
sort(x, /, *, axis, descending, stable)
cumulative_prod(x, /, *, axis, dtype, include_initial)
cumulative_sum(x, /, *, axis, dtype, include_initial)
max(x, /, *, axis, keepdims)
mean(x, /, *, axis, keepdims)
min(x, /, *, axis, keepdims)
prod(x, /, *, axis, dtype, keepdims)
std(x, /, *, axis, correction, keepdims)
sum(x, /, *, axis, dtype, keepdims)
var(x, /, *, axis, correction, keepdims)
all(x, /, *, axis, keepdims)
any(x, /, *, axis, keepdims)
diff(x, /, *, axis, n, prepend, append)
linalg.cholesky(x, /, *, upper)
linalg.cross(x1, x2, /, *, axis)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims, ord)
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol)
linalg.qr(x, /, *, mode)
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes)
linalg.trace(x, /, *, offset, dtype)
linalg.vecdot(x1, x2, /, *, axis)
linalg.vector_norm(x, /, *, axis, keepdims, ord)
fft.fft(x, /, *, n, axis, norm)
fft.ifft(x, /, *, n, axis, norm)
fft.fftn(x, /, *, s, axes, norm)
fft.ifftn(x, /, *, s, axes, norm)
fft.rfft(x, /, *, n, axis, norm)
fft.irfft(x, /, *, n, axis, norm)
fft.rfftn(x, /, *, s, axes, norm)
fft.irfftn(x, /, *, s, axes, norm)
fft.hfft(x, /, *, n, axis, norm)
fft.ihfft(x, /, *, n, axis, norm)
fft.fftfreq(n, /, *, d, dtype, device)
fft.rfftfreq(n, /, *, d, dtype, device)
fft.fftshift(x, /, *, axes)
fft.ifftshift(x, /, *, axes)
"""

# x: float64[3, 4]; n: int32[3, 4]; m: positive definite float64[4, 4]; v: ascending float64[6]
Call = Callable[[Any, Any, Any, Any, Any], Any]

CALLS: dict[str, Call] = {
    "arange": lambda xp, x, n, m, v: x + xp.arange(4, dtype=xp.float32) + xp.arange(1, 9, 2),
    "asarray": lambda xp, x, n, m, v: xp.asarray(x, dtype=xp.float32, copy=True) + xp.asarray([1.0, 2, 3, 4]),
    "empty": lambda xp, x, n, m, v: x + 0 * xp.ones_like(xp.empty((3, 4), dtype=xp.float64)),
    "empty_like": lambda xp, x, n, m, v: xp.ones_like(xp.empty_like(x, dtype=xp.float32)),
    "eye": lambda xp, x, n, m, v: x + xp.eye(3, 4, k=1, dtype=xp.float32),
    "full": lambda xp, x, n, m, v: x + xp.full((3, 4), 2.5, dtype=xp.float32),
    "full_like": lambda xp, x, n, m, v: xp.full_like(n, 7) + xp.full_like(x, 0.5, dtype=xp.float32),
    "linspace": lambda xp, x, n, m, v: x + xp.linspace(0.0, 1.0, 4, endpoint=False, dtype=xp.float64),
    "meshgrid": lambda xp, x, n, m, v: xp.meshgrid(v, x[0, :], indexing="ij"),
    "ones": lambda xp, x, n, m, v: n + xp.ones((3, 1), dtype=xp.int16),
    "ones_like": lambda xp, x, n, m, v: xp.ones_like(n, dtype=xp.float32),
    "tril": lambda xp, x, n, m, v: xp.tril(x, k=1),
    "triu": lambda xp, x, n, m, v: xp.triu(n, k=-1),
    "zeros": lambda xp, x, n, m, v: n + xp.zeros((3, 4), dtype=xp.uint8),
    "zeros_like": lambda xp, x, n, m, v: xp.zeros_like(x) + n,
    "astype": lambda xp, x, n, m, v: xp.astype(x, xp.int32, copy=True),
    "can_cast": lambda xp, x, n, m, v: xp.can_cast(n, xp.float64) and not xp.can_cast(x, xp.float32),
    "finfo": lambda xp, x, n, m, v: x + float(xp.finfo(x).max > xp.finfo(xp.float32).max),
    "iinfo": lambda xp, x, n, m, v: xp.iinfo(n).bits,
    "isdtype": lambda xp, x, n, m, v: xp.isdtype(n.dtype, ("integral", xp.float64)),
    "result_type": lambda xp, x, n, m, v: xp.result_type(x, n) == xp.float64,
    "clip": lambda xp, x, n, m, v: (xp.clip(x, 0, 1.5), xp.clip(n, min=-(10**12), max=2), xp.clip(x, n - 1, n + 1)),
    "take": lambda xp, x, n, m, v: xp.take(x, xp.asarray([0, 2, 2]), axis=1),
    "take_along_axis": lambda xp, x, n, m, v: xp.take_along_axis(x, xp.argmin(x, axis=1, keepdims=True), axis=1),
    "matmul": lambda xp, x, n, m, v: xp.matmul(x, m),
    "matrix_transpose": lambda xp, x, n, m, v: xp.matrix_transpose(x) + n.mT,
    "tensordot": lambda xp, x, n, m, v: xp.tensordot(x, m, axes=((1,), (0,))) + xp.tensordot(x, m, axes=1),
    "vecdot": lambda xp, x, n, m, v: (xp.vecdot(x, x), xp.vecdot(x, x, axis=0)),
    "broadcast_arrays": lambda xp, x, n, m, v: xp.broadcast_arrays(x, n[:1, :]),
    "broadcast_to": lambda xp, x, n, m, v: xp.broadcast_to(x, (2, 3, 4)),
    "concat": lambda xp, x, n, m, v: (xp.concat([x, n], axis=1), xp.concat((x, m), axis=None)),
    "expand_dims": lambda xp, x, n, m, v: (xp.expand_dims(x, axis=-1), xp.expand_dims(n, axis=0)),
    "flip": lambda xp, x, n, m, v: (xp.flip(x), xp.flip(x, axis=(0, 1)), xp.flip(n, axis=1)),
    "moveaxis": lambda xp, x, n, m, v: xp.moveaxis(x[None, ...], 0, 2),
    "permute_dims": lambda xp, x, n, m, v: xp.permute_dims(x, (1, 0)),
    "repeat": lambda xp, x, n, m, v: (xp.repeat(x, 2), xp.repeat(n, 3, axis=1)),
    "reshape": lambda xp, x, n, m, v: xp.reshape(x, (2, -1), copy=True),
    "roll": lambda xp, x, n, m, v: (xp.roll(x, 5), xp.roll(x, (1, -1), axis=(0, 1))),
    "squeeze": lambda xp, x, n, m, v: xp.squeeze(x[None, ...], 0) + xp.squeeze(x[:, :1], axis=1)[:, None],
    "stack": lambda xp, x, n, m, v: xp.stack([x, n], axis=-1),
    "tile": lambda xp, x, n, m, v: xp.tile(x, (2, 1, 3)),
    "unstack": lambda xp, x, n, m, v: xp.unstack(x, axis=1),
    "argmax": lambda xp, x, n, m, v: (xp.argmax(x), xp.argmax(x, axis=1, keepdims=True)),
    "argmin": lambda xp, x, n, m, v: xp.argmin(n, axis=0),
    "count_nonzero": lambda xp, x, n, m, v: (xp.count_nonzero(n), xp.count_nonzero(n, axis=1, keepdims=True)),
    "nonzero": lambda xp, x, n, m, v: xp.nonzero(x),
    "searchsorted": lambda xp, x, n, m, v: xp.searchsorted(v, x[0, :], side="right"),
    "where": lambda xp, x, n, m, v: xp.where(x > 0, x, n),
    "unique_all": lambda xp, x, n, m, v: xp.unique_all(n),
    "unique_counts": lambda xp, x, n, m, v: xp.unique_counts(n),
    "unique_inverse": lambda xp, x, n, m, v: xp.unique_inverse(n),
    "unique_values": lambda xp, x, n, m, v: xp.unique_values(n),
    "argsort": lambda xp, x, n, m, v: (xp.argsort(n), xp.argsort(n, axis=0, descending=True, stable=True)),
    "sort": lambda xp, x, n, m, v: (xp.sort(x), xp.sort(n, axis=0, descending=True), xp.sort(x, stable=False)),
    "cumulative_prod": lambda xp, x, n, m, v: (xp.cumulative_prod(x, axis=1), xp.cumulative_prod(v)),
    "cumulative_sum": lambda xp, x, n, m, v: (
        xp.cumulative_sum(v), xp.cumulative_sum(n, axis=1, dtype=xp.float64, include_initial=True),
    ),
    "max": lambda xp, x, n, m, v: (xp.max(x), xp.max(x, axis=(0, 1), keepdims=True)),
    "mean": lambda xp, x, n, m, v: (xp.mean(x, axis=0), xp.mean(x, keepdims=True)),
    "min": lambda xp, x, n, m, v: xp.min(n, axis=-1, keepdims=True),
    "prod": lambda xp, x, n, m, v: (xp.prod(x), xp.prod(n, axis=1, dtype=xp.float64, keepdims=True)),
    "std": lambda xp, x, n, m, v: (xp.std(x), xp.std(x, axis=1, correction=1.0, keepdims=True)),
    "sum": lambda xp, x, n, m, v: (xp.sum(n), xp.sum(x, axis=(0,), dtype=xp.float32, keepdims=True)),
    "var": lambda xp, x, n, m, v: (xp.var(x), xp.var(x, axis=1, correction=1, keepdims=True)),
    "all": lambda xp, x, n, m, v: (xp.all(n < 4, axis=0), xp.all(x == x, keepdims=True)),
    "any": lambda xp, x, n, m, v: (xp.any(n > 2, axis=(0,)), xp.any(x)),
    "diff": lambda xp, x, n, m, v: (
        xp.diff(x), xp.diff(n, axis=0, n=2), xp.diff(v, prepend=xp.zeros(1), append=v[:2]),
    ),
    "linalg.cholesky": lambda xp, x, n, m, v: (xp.linalg.cholesky(m), xp.linalg.cholesky(m, upper=True)),
    "linalg.cross": lambda xp, x, n, m, v: xp.linalg.cross(x[:, :3], x[:, 1:], axis=-1),
    "linalg.det": lambda xp, x, n, m, v: xp.linalg.det(m),
    "linalg.diagonal": lambda xp, x, n, m, v: xp.linalg.diagonal(x, offset=1),
    "linalg.eigh": lambda xp, x, n, m, v: xp.linalg.eigh(m).eigenvalues,
    "linalg.eigvalsh": lambda xp, x, n, m, v: xp.linalg.eigvalsh(m),
    "linalg.inv": lambda xp, x, n, m, v: xp.linalg.inv(m),
    "linalg.matmul": lambda xp, x, n, m, v: xp.linalg.matmul(x, m),
    "linalg.matrix_norm": lambda xp, x, n, m, v: xp.linalg.matrix_norm(x, keepdims=True, ord="fro"),
    "linalg.matrix_power": lambda xp, x, n, m, v: xp.linalg.matrix_power(m, 3),
    "linalg.matrix_rank": lambda xp, x, n, m, v: xp.linalg.matrix_rank(x, rtol=1e-10),
    "linalg.matrix_transpose": lambda xp, x, n, m, v: xp.linalg.matrix_transpose(x),
    "linalg.outer": lambda xp, x, n, m, v: xp.linalg.outer(v, x[0, :]),
    "linalg.pinv": lambda xp, x, n, m, v: xp.linalg.pinv(x, rtol=1e-12),
    "linalg.qr": lambda xp, x, n, m, v: xp.abs(xp.linalg.qr(x, mode="complete").R),
    "linalg.slogdet": lambda xp, x, n, m, v: tuple(xp.linalg.slogdet(m)),
    "linalg.solve": lambda xp, x, n, m, v: (xp.linalg.solve(m, x.T), xp.linalg.solve(m, x[0, :])),
    "linalg.svd": lambda xp, x, n, m, v: xp.linalg.svd(x, full_matrices=False).S,
    "linalg.svdvals": lambda xp, x, n, m, v: xp.linalg.svdvals(x),
    "linalg.tensordot": lambda xp, x, n, m, v: xp.linalg.tensordot(x, m, axes=1),
    "linalg.trace": lambda xp, x, n, m, v: xp.linalg.trace(n, offset=1, dtype=xp.float64),
    "linalg.vecdot": lambda xp, x, n, m, v: xp.linalg.vecdot(x, x, axis=-1),
    "linalg.vector_norm": lambda xp, x, n, m, v: (
        xp.linalg.vector_norm(x), xp.linalg.vector_norm(x, axis=1, keepdims=True, ord=1),
    ),
    "fft.fft": lambda xp, x, n, m, v: xp.real(xp.fft.fft(x, n=6, axis=0, norm="ortho")),
    "fft.ifft": lambda xp, x, n, m, v: xp.imag(xp.fft.ifft(x)),
    "fft.fftn": lambda xp, x, n, m, v: xp.abs(xp.fft.fftn(x, s=(3, 5), axes=(0, 1))),
    "fft.ifftn": lambda xp, x, n, m, v: xp.real(xp.fft.ifftn(x)),
    "fft.rfft": lambda xp, x, n, m, v: xp.real(xp.fft.rfft(x)),
    "fft.irfft": lambda xp, x, n, m, v: xp.fft.irfft(xp.fft.rfft(x), n=4),
    "fft.rfftn": lambda xp, x, n, m, v: xp.abs(xp.fft.rfftn(x)),
    "fft.irfftn": lambda xp, x, n, m, v: xp.fft.irfftn(xp.fft.rfftn(x), s=(3, 4), axes=(0, 1)),
    "fft.hfft": lambda xp, x, n, m, v: xp.fft.hfft(x, n=6),
    "fft.ihfft": lambda xp, x, n, m, v: xp.real(xp.fft.ihfft(x)),
    "fft.fftfreq": lambda xp, x, n, m, v: x + xp.fft.fftfreq(4, d=0.5, dtype=xp.float32),
    "fft.rfftfreq": lambda xp, x, n, m, v: v[:3] + xp.fft.rfftfreq(4, d=0.5),
    "fft.fftshift": lambda xp, x, n, m, v: xp.fft.fftshift(x, axes=1),
    "fft.ifftshift": lambda xp, x, n, m, v: xp.fft.ifftshift(x),
}  # fmt: skip
