"""`ef.xp.linalg`: the standard's linear algebra, which is NumPy's but for one default."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import (  # noqa: F401  the namespace is its names
    cholesky,
    cross,
    det,
    diagonal,
    eigh,
    eigvalsh,
    inv,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_rank,
    matrix_transpose,
    outer,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """NumPy's default tolerance is a constant, the standard's grows with the matrix and its precision."""
    return np.linalg.pinv(x, rtol=rtol)
