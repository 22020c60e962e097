"""Derivatives of the transforms, which are linear. The matrix of a transform is symmetric, so its transpose is itself
between arrays cut or padded the other way round."""

from __future__ import annotations

import numpy as np

from eqfuse.gradients.row import Row, joint
from eqfuse.gradients.terms import Term, cast, conj
from eqfuse.gradients.windows import fitted
from eqfuse.ir.graph import Node, const, node

_INVERSE_SCALE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _along(x: Term, axis: int, extent: int) -> Term:
    """`x` cut or padded with zeros to `extent` along `axis`."""
    after = [0] * x.rank
    after[axis] = extent - x.shape[axis]
    return fitted(x, [0] * x.rank, after)


def _like(x: Term, n: Node) -> Term:
    """`x` as a cotangent of the argument of `n`: real, where that is."""
    return cast(x, n.args[0].dtype)


def _same(n: Node, ct: Term) -> Term:
    axis = n.attr("axis")
    made = Term(node(n.op, (ct.node,), n.attrs))
    return _like(_along(made, axis, n.args[0].shape[axis]), n)


def _real_transform(n: Node, ct: Term) -> Term:
    extent, axis, norm = n.attr("n"), n.attr("axis"), n.attr("norm")
    whole = _along(ct, axis, extent)
    made = Term(node("fft", (whole.node,), (extent, axis, norm)))
    return _like(_along(made, axis, n.args[0].shape[axis]), n)


def _to_real(n: Node, ct: Term) -> Term:
    extent, axis, norm = n.attr("n"), n.attr("axis"), n.attr("norm")
    made = conj(Term(node("rfft", (ct.node,), (extent, axis, _INVERSE_SCALE[norm]))))
    half = made.shape[axis]
    times = np.full(half, 2.0)  # each row but the first, and the middle one, stands for two
    times[0] = 1
    if extent % 2 == 0:
        times[-1] = 1
    weights = times.reshape((half,) + (1,) * (-axis - 1))
    made = made * Term(const(weights, made.dtype))
    return _like(_along(made, axis, n.args[0].shape[axis]), n)


ROWS: dict[str, Row] = {
    "fft": joint({0: _same}),
    "ifft": joint({0: _same}),
    "rfft": joint({0: _real_transform}),
    "irfft": joint({0: _to_real}),
}
