"""Stable orders, for which NumPy compares one by one what it sorts in vector registers where any order will do.

In: an array and an axis. Out: the order of `np.argsort(kind="stable")`, written into an array. Of at most 32 bits,
value and place are one key of 64: sorted keys hold the places. Of wider values equal ones are looked for, and their
rows alone sorted as NumPy does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ORDERED_ELEMENTS = 1024  # below, one call of NumPy's takes less than those here
PIECE = 8192  # elements whose keys are made at a time: 64 KiB stay near
WIDE_EXTENT = 1024  # from there on NumPy's is as quick for wide values


def order(out: np.ndarray, x: np.ndarray, axis: int, stable: bool) -> None:
    """Fills `out` with the order of `x` along `axis`."""
    extent = x.shape[axis]
    narrow = x.dtype.char in "efiI"
    wide = x.dtype.char in "dlLqQ" and extent <= WIDE_EXTENT
    if not stable or x.size < ORDERED_ELEMENTS or extent < 2 or not (narrow or wide):
        np.copyto(out, np.argsort(x, axis, "stable" if stable else None))
        return
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1)).reshape(-1, extent)
    in_place = axis in (-1, x.ndim - 1) and out.flags.c_contiguous
    places = out.reshape(rows.shape) if in_place else np.empty(rows.shape, np.int64)
    (_by_keys if narrow else _by_values)(rows, places)
    if not in_place:
        moved = np.moveaxis(out, axis, -1)
        moved[...] = places.reshape(moved.shape)


def _by_keys(rows: np.ndarray, places: np.ndarray) -> None:
    numbers = np.arange(rows.shape[1])
    for piece in _pieces(rows.shape):
        keys = places[piece]
        keys[...] = _as_integers(rows[piece])
        keys <<= 32
        keys |= numbers[piece[1]]
    places.sort(-1)
    places &= (1 << 32) - 1


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


def _by_values(rows: np.ndarray, places: np.ndarray) -> None:
    ordered = np.sort(rows, -1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(-1)
    tied |= ordered[:, -1] != ordered[:, -1]  # NaN, of which there may be several
    if np.count_nonzero(tied) < len(rows) / 2:
        places[...] = np.argsort(rows, -1)
        places[tied] = np.argsort(rows[tied], -1, "stable")
    else:
        places[...] = np.argsort(rows, -1, "stable")
