"""Derivatives of the transforms, which are linear. The matrix of a transform is symmetric, so its transpose is itself
between arrays cut or padded the other way round."""

from __future__ import annotations

import numpy as np

from eqfuse.gradients.expr import Expr, cast, conj
from eqfuse.gradients.row import DerivativeRow, joint
from eqfuse.gradients.windows import framed
from eqfuse.ir.graph import Node, const, node

_INVERSE_SCALE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _along(x: Expr, axis: int, extent: int) -> Expr:
    """`x` cut or padded with zeros to `extent` along `axis`."""
    after = [0] * x.rank
    after[axis] = extent - x.shape[axis]
    return framed(x, [0] * x.rank, after)


def _like(x: Expr, n: Node) -> Expr:
    """`x` as a cotangent of the argument of `n`: real, where that is."""
    return cast(x, n.args[0].dtype)


def _same(n: Node, ct: Expr) -> Expr:
    axis = n.attr("axis")
    transform = Expr(n.over((ct.node,)))
    return _like(_along(transform, axis, n.args[0].shape[axis]), n)


def _real_transform(n: Node, ct: Expr) -> Expr:
    extent, axis, norm = n.attr("n"), n.attr("axis"), n.attr("norm")
    whole = _along(ct, axis, extent)
    transform = Expr(node("fft", (whole.node,), (extent, axis, norm)))
    return _like(_along(transform, axis, n.args[0].shape[axis]), n)


def _to_real(n: Node, ct: Expr) -> Expr:
    extent, axis, norm = n.attr("n"), n.attr("axis"), n.attr("norm")
    transform = conj(Expr(node("rfft", (ct.node,), (extent, axis, _INVERSE_SCALE[norm]))))
    half = transform.shape[axis]
    times = np.full(half, 2.0)  # each row but the first, and the middle one, stands for two
    times[0] = 1
    if extent % 2 == 0:
        times[-1] = 1
    weights = times.reshape((half,) + (1,) * (-axis - 1))
    transform = transform * Expr(const(weights, transform.dtype))
    return _like(_along(transform, axis, n.args[0].shape[axis]), n)


ROWS: dict[str, DerivativeRow] = {
    "fft": joint({0: _same}),
    "ifft": joint({0: _same}),
    "rfft": joint({0: _real_transform}),
    "irfft": joint({0: _to_real}),
}
