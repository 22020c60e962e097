"""The CuPy call of every library operator. In: an operator's name. Out: text over `cupy` and the arguments' names.

{0}, {1}: arguments; {all}: every argument; {values}: every attribute; others by the names in the operator's row.
What CuPy does not have runs on the host, and says so in the text: its arguments are copied there and its result back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from eqfuse.ops import TABLE

LIBRARY_CALLS = {
    "sliding_window": "sliding_window({0}, {windows})",
    "cumsum": "cupy.cumsum({0}, {axis})", "cumprod": "cupy.cumprod({0}, {axis})",
    "sort": "cupy.sort({0}, {axis})", "argsort": "cupy.argsort({0}, {axis})",
    "partition": "cupy.partition({0}, {kth}, {axis})", "argpartition": "cupy.argpartition({0}, {kth}, {axis})",
    "searchsorted": "cupy.searchsorted({0}, {1}, {side!r})", "digitize": "cupy.digitize({0}, {1}, {right})",
    "isin": "cupy.isin({0}, {1})",
    "median": "cupy.median({0}, axis={axes}, keepdims=True)",
    "nanmedian": "cupy.nanmedian({0}, axis={axes}, keepdims=True)",
    "convolve": "cupy.convolve({0}, {1}, {mode!r})", "correlate": "cupy.correlate({0}, {1}, {mode!r})",
    "solve": "cupy.linalg.solve({0}, {1})", "inv": "cupy.linalg.inv({0})", "det": "cupy.linalg.det({0})",
    "slogdet": "packed(*cupy.linalg.slogdet({0}))", "eigh": "packed(*cupy.linalg.eigh({0}, {triangle!r}))",
    "eigvalsh": "cupy.linalg.eigvalsh({0}, {triangle!r})", "svd": "packed(*cupy.linalg.svd({0}, {full_matrices}))",
    "svdvals": "cupy.linalg.svd({0}, compute_uv=False)", "qr": "packed(*cupy.linalg.qr({0}, {mode!r}))",
    **{name: f"cupy.fft.{name}({{0}}, {{n}}, {{axis}}, {{norm!r}})" for name in ("fft", "ifft", "rfft", "irfft")},
}  # fmt: skip
ON_HOST = (
    "accumulate", "reduceat", "fold", "lexsort", "quantile", "percentile", "nanquantile", "nanpercentile", "nanargmax",
    "nanargmin", "histogram", "histogram_bin_edges", "bincount", "interp", "cholesky", "cond", "lstsq", "full_rank",
    "eig", "eigvals",
)  # fmt: skip
LIBRARY_CALLS |= {name: f"on_host({name!r}, [{{all}}], [{{values}}])" for name in ON_HOST}


def helpers(cupy: ModuleType) -> dict[str, Any]:
    """The functions beside CuPy's own that the calls name."""

    def packed(*parts: Any) -> Any:
        return cupy.concatenate([cupy.ravel(p) for p in parts])

    def sliding_window(x: Any, windows: tuple[tuple[int, int], ...]) -> Any:
        extents = list(x.shape)
        for axis, n in windows:
            extents[axis] -= n - 1
        shape = (*extents, *(n for _, n in windows))
        strides = (*x.strides, *(x.strides[axis] for axis, _ in windows))
        return cupy.lib.stride_tricks.as_strided(x, shape, strides)

    return {"packed": packed, "sliding_window": sliding_window, "on_host": _on_host(cupy)}


def _on_host(cupy: ModuleType) -> Callable[[str, list, list], Any]:
    download = getattr(cupy, "asnumpy", np.asarray)

    def call(op: str, arguments: list, attrs: list) -> Any:
        return cupy.asarray(TABLE[op].meaning(*map(download, arguments), *attrs))

    return call
