"""The CuPy call of every library operator. In: an operator's name. Out: text over `cupy` and the arguments' names.

{0}, {1}: arguments; {all}: every argument; {values}: every attribute; others by the names in the operator's row.
What CuPy does not have, or has with other results than NumPy, runs on the host, and says so in the text: its arguments
are copied there and its result back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from eqfuse.emit.cuda.scheduling.host import HOST
from eqfuse.ops import TABLE
from eqfuse.ops.host_function import host_function

LIBRARY_CALLS = {
    "sliding_window": "sliding_window({0}, {windows})",
    "cumsum": "cupy.cumsum({0}, {axis})", "cumprod": "cupy.cumprod({0}, {axis})",
    "sort": "cupy.sort({0}, {axis})", "argsort": "cupy.argsort({0}, {axis})",
    "partition": "cupy.sort({0}, {axis})", "argpartition": "cupy.argsort({0}, {axis})",  # CuPy's misplaces NaNs
    "searchsorted": "cupy.searchsorted({0}, {1}, {side!r})",
    "digitize": "cupy.digitize(*alike({0}, {1}), {right})", "isin": "cupy.isin(*alike({0}, {1}))",
    "median": "median({0}, {axes}, False)", "nanmedian": "median({0}, {axes}, True)",
    "convolve": "convolve({0}, {1}, {mode!r})", "correlate": "correlate({0}, {1}, {mode!r})",
    "solve": "solve({0}, {1})", "inv": "cupy.linalg.inv({0})", "det": "cupy.linalg.det({0})",
    "inv_triangular": "inv_triangular({0})",
    "inv_slogdet": "packed(cupy.linalg.inv({0}), *cupy.linalg.slogdet({0}))",
    "pinv": "pinv({0}, {1})",
    "slogdet": "packed(*cupy.linalg.slogdet({0}))", "eigh": "packed(*cupy.linalg.eigh({0}, {triangle!r}))",
    "eigvalsh": "cupy.linalg.eigvalsh({0}, {triangle!r})", "svd": "packed(*cupy.linalg.svd({0}, {full_matrices}))",
    "svdvals": "cupy.linalg.svd({0}, compute_uv=False)", "qr": "packed(*cupy.linalg.qr({0}, {mode!r}))",
    **{name: f"cupy.fft.{name}({{0}}, {{n}}, {{axis}}, {{norm!r}})" for name in ("fft", "ifft", "rfft", "irfft")},
}  # fmt: skip
ON_HOST = "on_host({op!r}, [{all}], [{values}])"
LIBRARY_CALLS |= dict.fromkeys(HOST, ON_HOST)


def helpers(cupy: ModuleType) -> dict[str, Any]:
    """The functions beside CuPy's own that the calls name."""

    def product(a: Any, b: Any, out: Any = None) -> Any:
        return cupy.matmul(a, b, out=out)

    def packed(*parts: Any) -> Any:
        return cupy.concatenate([cupy.ravel(p) for p in parts])

    def sliding_window(x: Any, windows: tuple[tuple[int, int], ...]) -> Any:
        extents = list(x.shape)
        for axis, n in windows:
            extents[axis] -= n - 1
        shape = (*extents, *(n for _, n in windows))
        strides = (*x.strides, *(x.strides[axis] for axis, _ in windows))
        return cupy.lib.stride_tricks.as_strided(x, shape, strides)

    def alike(a: Any, b: Any) -> tuple[Any, Any]:
        """Both in the dtype in which NumPy compares them."""
        dtype = np.result_type(a.dtype, b.dtype)
        return a.astype(dtype), b.astype(dtype)

    def solve(a: Any, b: Any) -> Any:
        """CuPy does not broadcast."""
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        whole = (cupy.broadcast_to(m, batch + m.shape[-2:]) for m in (a, b))
        return cupy.linalg.solve(*whole)

    def inv_triangular(a: Any) -> Any:
        order = cupy.arange(a.shape[-1])
        above = order[:, None] < order
        return cupy.where(above, 0, cupy.linalg.inv(cupy.where(above, 0, a))).astype(a.dtype)

    def median(x: Any, axes: tuple[int, ...], ignore: bool) -> Any:
        """The middle of sorted values, NaNs last; with `ignore`, of those before them. CuPy's takes a NaN for the
        largest number, which lies below infinity."""
        kept = [a for a in range(x.ndim) if a - x.ndim not in axes]
        rows = cupy.transpose(x, (*kept, *(a % x.ndim for a in axes)))
        rows = cupy.sort(cupy.reshape(rows, (*(x.shape[a] for a in kept), -1)), -1)
        rows = rows.astype({"e": "f", "f": "f", "F": "F", "D": "D"}.get(rows.dtype.char, "d"))
        missing = cupy.isnan(rows).sum(axis=-1, keepdims=True)
        count = rows.shape[-1] - missing if ignore else rows.shape[-1] + 0 * missing
        low, high = (cupy.take_along_axis(rows, cupy.maximum(i, 0), -1) for i in ((count - 1) // 2, count // 2))
        middle = cupy.where(count % 2 == 1, low, (low + high) / 2)
        middle = cupy.where((count == 0) | ((missing > 0) & (not ignore)), np.nan, middle)
        return cupy.reshape(middle, tuple(1 if a not in kept else n for a, n in enumerate(x.shape)))

    def convolve(a: Any, v: Any, mode: str) -> Any:
        """Sums of shifted products. CuPy's is a Fourier transform, which spreads a NaN and the error of the largest."""
        return _slid(cupy, *((a, v) if a.size >= v.size else (v, a)), mode, 0)

    def correlate(a: Any, v: Any, mode: str) -> Any:
        turned = cupy.flip(v.conj(), (0,))
        return _slid(cupy, a, turned, mode, 0) if a.size >= v.size else _slid(cupy, turned, a, mode, 1 - a.size % 2)

    return {
        "product": product, "packed": packed, "sliding_window": sliding_window, "alike": alike, "solve": solve,
        "inv_triangular": inv_triangular, "median": median, "convolve": convolve, "correlate": correlate,
        "on_host": _on_host(cupy), "pinv": _pinv(cupy), "scatter": _scatter(cupy), "host_function": host_function,
    }  # fmt: skip


def _pinv(cupy: ModuleType) -> Callable[..., Any]:
    def pinv(a: Any, rcond: Any) -> Any:
        u, s, vh = cupy.linalg.svd(a, False)
        large = s > rcond[..., None] * s[..., :1]
        inverse = cupy.where(large, 1 / cupy.where(large, s, 1), 0).astype(a.dtype)
        return cupy.matmul(vh.conj().swapaxes(-1, -2) * inverse[..., None, :], u.conj().swapaxes(-1, -2))

    return pinv


def _slid(cupy: ModuleType, long: Any, short: Any, mode: str, later: int) -> Any:
    """`short`, at every place along `long`; of places in the middle, `later` says which of two."""
    dtype = np.result_type(long.dtype, short.dtype)
    work = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    long, short, n = long.astype(work), short.astype(work), long.size
    sums = cupy.zeros(n + short.size - 1, work)
    for i in range(short.size):
        sums[i : i + n] += long * short[i]
    if mode == "same":
        start = (short.size - 1) // 2 + later
        sums = sums[start : start + n]
    return (sums[short.size - 1 : n] if mode == "valid" else sums).astype(dtype)


def _scatter(cupy: ModuleType) -> Callable[[Any, Any, Any, int, str], None]:
    def scatter(out: Any, indices: Any, values: Any, axis: int, mode: str) -> None:
        """`values` written into `out` at `indices` along `axis`, or joined to what is there by `mode`."""
        indices, lead = indices.astype("int64"), out.ndim + axis
        if mode == "set":
            set_last(out, indices, values, lead)
            return
        where = (*[slice(None)] * lead, indices)
        if mode in ("maximum", "minimum"):
            (cupy.maximum if mode == "maximum" else cupy.minimum).at(out, where, values)
        else:  # for 64 bits CuPy adds unsigned integers alone, whose bits are the same
            unsigned = "uint64" if out.dtype == np.int64 else out.dtype
            values = values if mode == "add" else -values
            cupy.add.at(out.view(unsigned), where, values.view(unsigned))

    def set_last(out: Any, indices: Any, values: Any, lead: int) -> None:
        """Of values for one place NumPy takes the last, CuPy any: each takes the last one's."""
        if indices.size > 1:
            last = cupy.zeros(out.shape[lead], "uint64")  # 1 for the first value; 0: none
            shape, indices = (*out.shape[:lead], indices.size, *out.shape[lead + 1 :]), cupy.ravel(indices)
            cupy.maximum.at(last, indices, cupy.arange(1, indices.size + 1, dtype="uint64"))
            numbers = cupy.take(last, indices).astype("int64") - 1
            values = cupy.take(cupy.reshape(values, shape), numbers, lead)
        if indices.size:
            out[(*[slice(None)] * lead, indices)] = values

    return scatter


def _on_host(cupy: ModuleType) -> Callable[[str, list, list], Any]:
    def call(op: str, arguments: Sequence[Any], attrs: Sequence[Any]) -> Any:
        return cupy.asarray(TABLE[op].meaning(*map(cupy.asnumpy, arguments), *attrs))

    return call
