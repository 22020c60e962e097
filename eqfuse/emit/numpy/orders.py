"""Stable orders, for which NumPy compares one by one what it sorts in vector registers where any order will do.

In: an array and an axis. Out: the order of `np.argsort(kind="stable")`, written into an array. Value and place are one
key of 64 bits: sorted keys hold the places. Of doubles, whose last bits make room for the place, rows in which two keys
differ in nothing else are sorted as NumPy does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqfuse.ops.types import TensorType

ORDERED_ELEMENTS = 4096  # below, one call of NumPy's takes less than those here
PIECE = 8192  # elements whose keys are made at a time: 64 KiB stay near
DOUBLES = PIECE  # in a row: of more, some are likely to differ in their last bits alone


def order(out: np.ndarray, x: np.ndarray, axis: int, stable: bool) -> None:
    """Fills `out` with the order of `x` along `axis`."""
    extent = x.shape[axis]
    if not stable or not _has_keys(x.dtype, x.size, extent):
        np.copyto(out, np.argsort(x, axis, "stable" if stable else None))
        return
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1)).reshape(-1, extent)
    in_place = axis in (-1, x.ndim - 1) and out.flags.c_contiguous
    places = out.reshape(rows.shape) if in_place else np.empty(rows.shape, np.int64)
    _fill_by_keys(places, rows)
    if not in_place:
        moved = np.moveaxis(out, axis, -1)
        moved[...] = places.reshape(moved.shape)


def _has_keys(dtype: np.dtype, size: int, extent: int) -> bool:
    if size < ORDERED_ELEMENTS or extent < 2:
        return False
    return dtype.char in "efiI" or (dtype == np.float64 and extent <= DOUBLES)


def _fill_by_keys(places: np.ndarray, rows: np.ndarray) -> None:
    numbers = np.arange(rows.shape[1])
    is_double = rows.dtype == np.float64
    width = (rows.shape[1] - 1).bit_length() if is_double else 32  # bits of the place
    for piece in _pieces(rows.shape):
        keys = places[piece]
        keys[...] = _as_integers(rows[piece])
        if is_double:
            keys &= -1 << width
        else:
            keys <<= width
        keys |= numbers[piece[1]]
    places.sort(-1)
    if not is_double:
        places &= (1 << width) - 1
        return
    for some_rows, _ in _pieces(rows.shape):
        keys = places[some_rows]
        tied = ((keys[:, 1:] ^ keys[:, :-1]) >> width == 0).any(-1)
        keys &= (1 << width) - 1
        if tied.any():
            keys[tied] = np.argsort(rows[some_rows][tied], -1, "stable")


def order_bytes(x: TensorType, axis: int, stable: bool) -> int:
    """What `order` of an array like `x` allocates at most."""
    places = 8 * x.size
    if not stable or not _has_keys(x.dtype, x.size, x.extent(axis)):
        return places
    pieces = 3 * 8 * min(x.size, PIECE)
    return pieces if axis == -1 else x.nbytes + places + pieces


def _pieces(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    rows, extent = max(1, PIECE // shape[1]), min(PIECE, shape[1])
    for row in range(0, shape[0], rows):
        for column in range(0, shape[1], extent):
            yield slice(row, row + rows), slice(column, column + extent)


def _as_integers(x: np.ndarray) -> np.ndarray:
    """Signed integers in the order of `x`: both zeros are the same, and so is every NaN, the last."""
    if x.dtype.kind == "i":
        return x
    if x.dtype.kind == "u":
        return (x ^ x.dtype.type(1 << 31)).view(np.int32)
    bits = (x + x.dtype.type(0)).view(f"i{x.itemsize}")
    top = np.iinfo(bits.dtype).max
    bits ^= (bits >> (8 * x.itemsize - 1)) & top
    is_nan = np.isnan(x)
    if is_nan.any():
        bits[is_nan] = top
    return bits
