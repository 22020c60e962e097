"""``where`` on many elements: masked copies are fast where the condition seldom changes, passes without branches where
it does; NumPy's own takes up to ten times as long then.
"""

from __future__ import annotations

import numpy as np

from eqfuse.emit.numpy.cost.figures import LEAST_ROWS, NARROW_COPY

SELDOM = 32  # elements from one change of the condition to the next, on average, from which on masked copies are faster
_ONE = {n: np.array(1, f"i{n}") for n in (1, 2, 4, 8)}


def choose_between(condition: np.ndarray, yes: np.ndarray, no: np.ndarray, buffer: np.ndarray, out: np.ndarray) -> None:
    """`yes` where `condition` and else `no` into `out`, which may be `yes` or `no` itself.

    `buffer`: integers as wide as the result, one per element of the condition.
    """
    if not condition.size:
        return
    changes = _changes(condition, buffer)
    if changes * SELDOM > condition.size:
        _blend(condition, yes, no, buffer, out)
    elif changes == 0:
        chosen = yes if condition[(0,) * condition.ndim] else no
        if chosen is not out:
            np.copyto(out, chosen)
    elif out is yes:
        reverse = buffer.view(np.bool_)[..., : condition.shape[-1]]
        np.logical_not(condition, reverse)
        _replace(out, no, reverse)
    else:
        if out is not no:
            np.copyto(out, no)
        _replace(out, yes, condition)


def _changes(condition: np.ndarray, buffer: np.ndarray) -> int:
    """How often the condition changes from one element in memory to the next; many times where it has gaps."""
    if not (condition.flags.c_contiguous and buffer.flags.c_contiguous):
        return condition.size
    flat = condition.reshape(-1)
    changed = buffer.reshape(-1).view(np.bool_)[: flat.size - 1]
    np.not_equal(flat[1:], flat[:-1], changed)
    return int(np.count_nonzero(changed))


def _blend(condition: np.ndarray, yes: np.ndarray, no: np.ndarray, buffer: np.ndarray, out: np.ndarray) -> None:
    """Bit by bit, without branches."""
    integers = buffer.dtype
    np.copyto(buffer, condition, "unsafe")
    keeps = out is no
    if keeps:
        np.subtract(buffer, _ONE[integers.itemsize], buffer)
    else:
        np.negative(buffer, buffer)
    yes, no, out = yes.view(integers), no.view(integers), out.view(integers)
    np.bitwise_xor(yes, no, out)
    np.bitwise_and(out, buffer, out)
    np.bitwise_xor(out, yes if keeps else no, out)


def _replace(out: np.ndarray, by: np.ndarray, where: np.ndarray) -> None:
    """A masked copy: column by column where one element of `where` stands for a short row."""
    if out.ndim < 2 or not 1 < out.shape[-1] <= NARROW_COPY or where.shape[-1] > 1 or where.size < LEAST_ROWS:
        np.copyto(out, by, where=where)
        return
    for q in range(out.shape[-1]):
        np.copyto(out[..., q], by[..., min(q, by.shape[-1] - 1)] if by.ndim else by, where=where[..., 0])
