"""NumPy's products that are ufuncs of whole vectors and matrices, with the ufuncs' keywords.

In: ufunc calls on tracers. Out: the products of `contractions.py`, on operands whose axes stand where they belong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy.contractions import conjugate, matmul
from eqfuse.frontends.numpy.manipulation import expand_dims, moveaxis, squeeze
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.ufuncs import to_loop
from eqfuse.ops.numpy_names import title


def _vecdot(a: Tracer, b: Tracer) -> Tracer:
    return wrap(squeeze(matmul(expand_dims(conjugate(a), -2), expand_dims(b, -1)), (-2, -1)).node)


def _matvec(a: Tracer, b: Tracer) -> Tracer:
    return squeeze(matmul(a, expand_dims(b, -1)), -1)


def _vecmat(a: Tracer, b: Tracer) -> Tracer:
    return squeeze(matmul(expand_dims(conjugate(a), -2), b), -2)


def _generalised(ufunc: np.ufunc, product: Callable[[Tracer, Tracer], Tracer], ranks: tuple[int, ...]) -> None:
    """Register `product`, which takes and gives `ranks` last axes, as the meaning of `ufunc`."""

    def call(
        x1: Any, x2: Any, /, *, axes: Any = None, axis: int | None = None, keepdims: bool = False, order: str = "K",
        subok: bool = True, **chosen: Any,
    ) -> Tracer:  # fmt: skip
        operands = [lift(x1), lift(x2)]
        if (axis is not None or keepdims) and ufunc is not np.vecdot:
            raise ShapeError(f"{title(ufunc)} takes neither axis= nor keepdims=; use axes=")
        if axis is not None:
            axes = [(axis,), (axis,), ()]
        if any(x.ndim < (1 if ufunc is np.matmul else rank) for x, rank in zip(operands, ranks, strict=False)):
            left, right = operands
            raise ShapeError(f"{title(ufunc)} of shapes {left.shape} and {right.shape}: an operand lacks axes")
        if chosen:
            operands, _ = to_loop(ufunc, tuple(operands), **chosen)
        if axes is None and not keepdims:
            return product(*operands)
        if axes is None:
            axes = [range(-min(rank, x.ndim), 0) for rank, x in zip(ranks, operands, strict=False)]
        places = [tuple(a) if np.iterable(a) else (a,) for a in axes]
        operands = [moveaxis(x, p, range(-len(p), 0)) for x, p in zip(operands, places, strict=False)]
        result = product(*operands)
        if len(places) > 2 and places[2]:
            result = moveaxis(result, range(-len(places[2]), 0), places[2])
        return expand_dims(result, places[0]) if keepdims else result

    TRACED_UFUNCS[ufunc] = call


_generalised(np.matmul, matmul, (2, 2, 2))
_generalised(np.vecdot, _vecdot, (1, 1, 0))
_generalised(np.matvec, _matvec, (2, 1, 1))
_generalised(np.vecmat, _vecmat, (1, 2, 1))
