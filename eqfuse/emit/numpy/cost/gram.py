"""Gram products, of a matrix and its own transpose: BLAS computes one triangle, which NumPy then mirrors.

In: the `Work` of a product. Out: that of a Gram product, on whole arrays. Used by `emit/numpy/tiling.py`.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.cost.work import Work
from eqfuse.emit.numpy.cost.figures import BLAS, GRAM, GRAM_ROWS
from eqfuse.ir.graph import Node


def is_gram(n: Node) -> bool:
    """Is it a product of which BLAS computes half?"""
    if n.op != "matmul" or n.dtype.name not in BLAS or n.shape[-1] < GRAM_ROWS:
        return False
    swapped = (*range(n.type.rank - 2), n.type.rank - 1, n.type.rank - 2)
    return any(t.op == "transpose" and t.args[0] is x and t.attrs == (swapped,) for t, x in (n.args, n.args[::-1]))


def gram_work(product: Work, n: Node, device: Device) -> Work:
    mirrored = device.element_seconds("take", n.dtype.name) * device.threads * n.type.size
    return product._replace(whole=GRAM * product.whole + mirrored, shared=GRAM * product.shared)
