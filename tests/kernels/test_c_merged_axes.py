"""Products of windows: operands whose rows or columns are several axes of an array are copied as a kernel multiplies
them, and stored nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c.product.merged_axes import Digit, merged_axes_of
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ir.views import leaf_chain
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, judge, product
from tests.support.kernels import body, data, number, read

pytestmark = needs_compiler


def windows(x: Node, reach: tuple[int, int], order: tuple[int, ...], rows: int) -> Node:
    """`x`, of four axes, as windows in an `order` of their six axes, of which some are `rows`, the others columns."""
    seen = node("sliding_window", (x,), (((-2, reach[0]), (-1, reach[1])),))
    turned = node("transpose", (seen,), (order,))
    extents = turned.shape
    return node("reshape", (turned,), ((int(np.prod(extents[:rows])), int(np.prod(extents[rows:]))),))


def turned(x: Node) -> Node:
    return node("transpose", (x,), ((1, 0),))


def matmul(x: Node, y: Node) -> Node:
    return node("matmul", (x, y))


IMAGES, SMALL = (3, 5, 13, 20), (2, 3, 9, 8)
ORDERS = [((1, 2, 3, 0, 4, 5), 3), ((0, 4, 5, 1, 2, 3), 3), ((5, 1, 0, 2, 4, 3), 2), ((1, 0, 4, 2, 3, 5), 5)]


def products() -> list[Graph]:
    graphs = []
    for dtype in ("float32", "float64"):
        for order, rows in ORDERS:
            for shape, reach in ((IMAGES, (11, 17)), (IMAGES, (2, 3)), (SMALL, (9, 8)), (SMALL, (1, 5))):
                x = read(0, shape, dtype)
                left = windows(x, reach, order, rows)
                y, z = read(1, (left.shape[1], 37), dtype), read(1, (41, left.shape[0]), dtype)
                thin = read(1, (left.shape[1], 2), dtype)
                graphs += [body([x, y], matmul(left, y)), body([x, thin], matmul(left, thin))]
                graphs.append(body([x, z], matmul(z, left)))
                graphs.append(body([x, z], matmul(turned(left), turned(z))))
        images = read(0, SMALL, dtype)
        line = read(0, (2, 3, 1, 8), dtype)
        for shown in (node("flip", (images,), ((-3, -1),)), node("broadcast_to", (line,), (SMALL,))):
            left = node("reshape", (node("transpose", (shown,), ((1, 0, 2, 3),)),), ((SMALL[1], SMALL[0] * 72),))
            y = read(1, (left.shape[1], 37), dtype)
            leaf = leaf_chain(left)[0]
            graphs += [body([leaf, y], matmul(left, y)), body([leaf, y], matmul(turned(y), turned(left)))]
        both = windows(images, (3, 4), (1, 2, 3, 0, 4, 5), 3)
        graphs.append(body([images], matmul(both, turned(both))))
        graphs.append(body([images], node("maximum", (matmul(both, turned(both)), number(0, dtype)))))
    return graphs


@pytest.mark.slow
def test_products_of_windows_are_what_they_mean() -> None:
    graphs = products()
    judge([product(g) for g in graphs], graphs, [data(g) for g in graphs])


def test_windows_are_counted_by_the_axes_that_they_are_made_of() -> None:
    x = read(0, (2, 3, 6, 8))
    axes = merged_axes_of(windows(x, (4, 5), (1, 2, 3, 0, 4, 5), 3))
    assert axes is not None and axes.leaf is x and axes.first == 0
    assert axes.rows == (Digit(3, 48), Digit(3, 8), Digit(4, 1))
    assert axes.columns == (Digit(2, 144), Digit(4, 8), Digit(5, 1))


def test_what_strides_express_is_no_windows() -> None:
    x = read(0, (6, 8))
    assert merged_axes_of(x) is merged_axes_of(turned(x)) is merged_axes_of(node("reshape", (x,), ((3, 16),))) is None


def test_the_gradient_of_a_convolution_stores_no_windows() -> None:
    x, w = ef.spec((8, 16, 32, 32), np.float32), ef.spec((24, 16, 3, 3), np.float32)
    gradient = ef.grad(lambda w, x: (ef.conv(x, w, padding=1) ** 2).sum())
    program = ef.compile(gradient, w, x, target=C)
    assert program.peak_bytes < 9 * 4 * np.prod(x.shape)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=spec.shape).astype(np.float32) for spec in (w, x)]
    wanted = gradient(*[a.astype(np.float64) for a in arrays])
    np.testing.assert_allclose(program(*arrays), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
