"""Derivatives of the products, which are linear in each operand."""

from __future__ import annotations

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, reshape, summed_to, swapped, transpose
from eqfuse.gradients.row import DerivativeRow, each
from eqfuse.gradients.windows import dilated, framed
from eqfuse.ir.graph import Node, node


def _rows(x: Expr) -> Expr:
    """A stack of matrices as one, of all their rows."""
    return reshape(x, (x.node.type.size // max(x.shape[-1], 1), x.shape[-1]))


def _columns(x: Expr) -> Expr:
    """A stack of matrices as one, of all their columns."""
    r = x.rank
    moved = transpose(x, (r - 2, *range(r - 2), r - 1))
    return reshape(moved, (x.shape[-2], x.node.type.size // max(x.shape[-2], 1)))


def _one_matrix(x: Node) -> bool:
    return x.type.rank == 2


def _left(n: Node, ct: Expr) -> Expr:
    a, b = n.args
    if _one_matrix(a) and not _one_matrix(b) and n.type.size:
        return _columns(ct) @ swapped(_columns(Expr(b)))
    return summed_to(ct @ swapped(Expr(b)), a.shape)


def _right(n: Node, ct: Expr) -> Expr:
    a, b = n.args
    if _one_matrix(b) and not _one_matrix(a) and n.type.size:
        return swapped(_rows(Expr(a))) @ _rows(ct)
    return summed_to(swapped(Expr(a)) @ ct, b.shape)


# ---- convolutions: of the image, one with the kernel reversed; of the kernel, one with the batch as its channels


def _grouped(x: Expr, axis: int, groups: int) -> Expr:
    """`x` with its first `axis` apart into groups, which come first."""
    shape = (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    split = reshape(x, shape)
    return transpose(split, (axis, *(a for a in range(split.rank) if a != axis)))


def _joined(x: Expr, axis: int) -> Expr:
    """`x` whose first axis, of groups, becomes the slower part of `axis` of the rest."""
    order = list(range(1, x.rank))
    moved = transpose(x, (*order[:axis], 0, *order[axis:]))
    shape = moved.shape
    return reshape(moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _reversed_kernel(w: Expr, groups: int) -> Expr:
    """Filters as channels and channels as filters, along axes that run backwards."""
    parts = _grouped(w, 0, groups)
    swapped_parts = transpose(parts, (0, 2, 1, *range(3, parts.rank)))
    return Expr(tidy.flip(_joined(swapped_parts, 0).node, range(2 - w.rank, 0)))


def _image(n: Node, ct: Expr) -> Expr:
    x, w = n.args
    groups = n.attr("groups")
    ones = (1,) * (x.type.rank - 2)
    spread = dilated(ct, n.attr("strides"))
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], n.attr("dilations"), strict=True)]
    before = [r - b for r, (b, _) in zip(reach, n.attr("padding"), strict=True)]
    after = [m + r - s - b for m, r, s, b in zip(x.shape[2:], reach, spread.shape[2:], before, strict=True)]
    padded = framed(spread, before, after)
    attrs = (ones, ((0, 0),) * len(ones), n.attr("dilations"), groups)
    return Expr(node("conv", (padded.node, _reversed_kernel(Expr(w), groups).node), attrs))


def _kernel(n: Node, ct: Expr) -> Expr:
    x, w = n.args
    groups, strides, dilations = n.attr("groups"), n.attr("strides"), n.attr("dilations")
    rest = range(2, x.type.rank)
    images = _grouped(Expr(x), 1, groups)  # groups, batch, channels of one
    images = _joined(transpose(images, (0, 2, 1, *(a + 1 for a in rest))), 1)
    before = [b for b, _ in n.attr("padding")]
    reach = [(k - 1) * d + (m - 1) * s + 1
             for k, d, m, s in zip(w.shape[2:], dilations, n.shape[2:], strides, strict=True)]  # fmt: skip
    after = [r - b - m for r, b, m in zip(reach, before, x.shape[2:], strict=True)]
    kernels = transpose(ct, (1, 0, *rest))
    attrs = (dilations, ((0, 0),) * len(dilations), strides, groups)
    kernel = Expr(node("conv", (framed(images, before, after).node, kernels.node), attrs))
    return transpose(kernel, (1, 0, *rest))


ROWS: dict[str, DerivativeRow] = {
    "matmul": each({0: _left, 1: _right}),
    "conv": each({0: _image, 1: _kernel}),
}
