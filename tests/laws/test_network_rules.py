"""Which layers the book proves equal: contractions, convolutions, pooling, softmax and norms, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqfuse.budget import Budget
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import avg_pool, conv, layer_norm, log_softmax, max_pool, relu, rms_norm, softmax
from eqfuse.rewrites import admitted, laws_named
from tests.support.meeting import meet

F = np.float32
rng = np.random.default_rng(0)


def known(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(F)


W, W2, BIAS, GAIN = known(6, 5), known(5, 3), known(6), known(6)
FILTERS, NEXT, POINTS, MORE_POINTS = known(4, 3, 3, 3), known(5, 4, 3, 3), known(5, 4, 1, 1), known(4, 3, 1, 1)
PER_CHANNEL = known(3, 1, 1)
A, B, IMAGE = (4, 6), (6, 5), (2, 3, 6, 6)
T = np.transpose


def rows(*parts: Any) -> Any:
    return np.concatenate(parts, axis=0)


def columns(*parts: Any) -> Any:
    return np.concatenate(parts, axis=1)


CONTRACTIONS = {
    "low-rank update, applied by its factors": (
        lambda x, w, u, v: x @ (w + u @ v), lambda x, w, u, v: x @ w + (x @ u) @ v, A, B, (6, 1), (1, 5)),
    "low-rank update on the left": (
        lambda x, w, u, v: (w + u @ v) @ x, lambda x, w, u, v: w @ x + u @ (v @ x), (6, 3), (5, 6), (5, 1), (1, 6)),
    "outer product": (lambda x, y: x[:, None] @ y[None], lambda x, y: np.outer(x, y), (4,), (5,)),
    "matrix times vector": (lambda x, v: x @ v, lambda x, v: (x * v).sum(1), A, (6,)),
    "weighted sum": (lambda x, v: (x * v).sum(1, keepdims=True), lambda x, v: x @ v.reshape(6, 1), A, (6,)),
    "weights against a product": (
        lambda x, u, v: (x * (u @ v)).sum(), lambda x, u, v: ((x @ T(v)) * u).sum(), (6, 5), (6, 1), (1, 5)),
    "trace is cyclic": (lambda x, y: np.trace(x @ y), lambda x, y: np.trace(y @ x), A, (6, 4)),
    "gram matrices are symmetric": (lambda x: T(T(x) @ x), lambda x: T(x) @ x, A),
    "einsum of three": (
        lambda x, y, z: np.einsum("ij,jk,kl->il", x, y, z), lambda x, y, z: x @ (y @ z), A, B, (5, 3)),
    "einsum that sums all": (lambda x, y: np.einsum("ij,jk->", x, y), lambda x, y: (x @ y).sum(), A, B),
    "einsum of heads": (
        lambda q, k: np.einsum("bhqd,bhkd->bhqk", q, k), lambda q, k: q @ k.transpose(0, 1, 3, 2), (2, 3, 4, 5),
        (2, 3, 6, 5)),
    "recurrent cell": (
        lambda h, x, w: columns(h, x) @ w, lambda h, x, w: h @ w[:4] + x @ w[4:], (3, 4), (3, 6), (10, 5)),
    "projections side by side": (
        lambda x, q, k, v: x @ columns(q, k, v), lambda x, q, k, v: columns(x @ q, x @ k, x @ v), A, B, B, (6, 3)),
    "blocks": (
        lambda a, b, c, d: rows(columns(a, b), columns(c, d)) @ rows(a, c),
        lambda a, b, c, d: rows(a @ a + b @ c, c @ a + d @ c), (3, 3), (3, 4), (4, 3), (4, 4)),
}  # fmt: skip

CONVOLUTIONS = {
    "one point of kernel is a product": (
        lambda x, w: conv(x, w), lambda x, w: (w.reshape(5, 3) @ x.reshape(2, 3, 36)).reshape(2, 5, 6, 6), IMAGE,
        (5, 3, 1, 1)),
    "a kernel as large as the image is a product": (
        lambda x, w: conv(x, w).reshape(2, 5), lambda x, w: x.reshape(2, 108) @ T(w.reshape(5, 108)), IMAGE,
        (5, 3, 6, 6)),
    "zeros around the image": (
        lambda x, w: conv(np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2))), w), lambda x, w: conv(x, w, padding=(1, 2)),
        IMAGE, (4, 3, 3, 3)),
    "one image, two sets of filters": (
        lambda x, v, w: columns(conv(x, v), conv(x, w)), lambda x, v, w: conv(x, rows(v, w)), IMAGE, (4, 3, 3, 3),
        (5, 3, 3, 3)),
    "residual branches that share their filters": (
        lambda x, y, w: conv(x, w) + conv(y, w), lambda x, y, w: conv(x + y, w), IMAGE, IMAGE, (4, 3, 3, 3)),
}  # fmt: skip

POOLING = {
    "relu6 and pooling": (
        lambda x: max_pool(np.minimum(relu(x), 6), 2), lambda x: np.minimum(relu(max_pool(x, 2)), 6), IMAGE),
    "a monotone function and pooling": (lambda x: max_pool(np.tanh(x), 2), lambda x: np.tanh(max_pool(x, 2)), IMAGE),
    "a positive scale and pooling": (lambda x: max_pool(x * 3, 2), lambda x: max_pool(x, 2) * 3, IMAGE),
    "largest of largest": (lambda x: max_pool(max_pool(x, 2), 3), lambda x: max_pool(x, 6), IMAGE),
    "pooling over all": (
        lambda x: avg_pool(x, 6).reshape(2, 3), lambda x: x.mean((2, 3)), IMAGE),
    "a mean is a convolution": (
        lambda x: conv(x, np.full((3, 1, 2, 2), 0.25, F), stride=2, groups=3), lambda x: avg_pool(x, 2), IMAGE),
    "means add up": (lambda x, y: avg_pool(x, 2) + avg_pool(y, 2), lambda x, y: avg_pool(x + y, 2), IMAGE, IMAGE),
}  # fmt: skip

NORMALISED = {
    "cross-entropy picks before it subtracts": (
        lambda x: np.take_along_axis(log_softmax(x), LABELS, -1),
        lambda x: np.take_along_axis(x - x.max(-1, keepdims=True), LABELS, -1)
        - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)), A),
    "root mean square by its reciprocal": (
        lambda x: rms_norm(x, GAIN), lambda x: x * (1 / np.sqrt((x * x).mean(-1, keepdims=True) + F(1e-6))) * GAIN, A),
    "attention: the scale on the queries or on the scores": (
        lambda q, k, v: softmax((q * F(0.5)) @ T(k)) @ v, lambda q, k, v: softmax((q @ T(k)) * F(0.5)) @ v, A, A, A),
    "attention: heads merged by hand": (
        lambda q, k: np.einsum("qhd,khd->hqk", q, k), lambda q, k: q.transpose(1, 0, 2) @ k.transpose(1, 2, 0),
        (4, 2, 3), (5, 2, 3)),
}  # fmt: skip
LABELS = np.array([[1], [5], [0], [2]])
MASK = np.tri(4, 6, dtype=bool)

APPROXIMATE = {
    "softmax of a shifted row": (lambda x, c: softmax(x + c), lambda x, c: softmax(x), A, (4, 1)),
    "log-softmax of a shifted row": (lambda x, c: log_softmax(x + c), lambda x, c: log_softmax(x), A, (4, 1)),
    "layer norm of a shifted row": (lambda x, c: layer_norm(x + c), lambda x, c: layer_norm(x), A, (4, 1)),
    "softmax without its shift": (
        lambda x: softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), A),
    "log-softmax is the log of softmax": (lambda x: np.log(softmax(x)), log_softmax, A),
    "what is masked weighs nothing": (
        lambda x: np.exp(np.where(MASK, x, -np.inf)).sum(-1), lambda x: np.where(MASK, np.exp(x), 0).sum(-1), A),
    "a kernel in a frame of zeros": (
        lambda x, w: conv(x, np.pad(w, ((0, 0), (0, 0), (1, 1), (1, 1))), padding=1), lambda x, w: conv(x, w), IMAGE,
        (4, 3, 1, 1)),
    "two blocks of exponentials about one maximum": (
        lambda x, y: np.exp(columns(x, y) - columns(x, y).max(1, keepdims=True)).sum(1, keepdims=True),
        lambda x, y: block(x) * np.exp(top(x) - np.maximum(top(x), top(y)))
        + block(y) * np.exp(top(y) - np.maximum(top(x), top(y))), A, (4, 3)),
    "online softmax over two blocks of keys": (
        lambda x, y, v, w: softmax(columns(x, y)) @ rows(v, w),
        lambda x, y, v, w: online(x, y, v, w), A, (4, 3), (6, 5), (3, 5)),
}  # fmt: skip


def top(x: Any) -> Any:
    return x.max(1, keepdims=True)


def block(x: Any) -> Any:
    return np.exp(x - top(x)).sum(1, keepdims=True)


def online(x: Any, y: Any, v: Any, w: Any) -> Any:
    """Each block about its own maximum, brought to the common one when the second arrives."""
    m = np.maximum(top(x), top(y))
    first, second = np.exp(x - top(x)), np.exp(y - top(y))
    a, b = np.exp(top(x) - m), np.exp(top(y) - m)
    total = first.sum(1, keepdims=True) * a + second.sum(1, keepdims=True) * b
    return ((first @ v) * a + (second @ w) * b) / total


FOLDED = {
    "scale into the next layer": (lambda x: (x * GAIN) @ W, "matmul", A),
    "scale into the convolution after it": (lambda x: conv(x * PER_CHANNEL, FILTERS), "conv", IMAGE),
    "points into the convolution before them": (lambda x: conv(conv(x, FILTERS, padding=1), POINTS), "conv", IMAGE),
    "points into the convolution after them": (
        lambda x: conv(conv(x, MORE_POINTS), NEXT, stride=2), "conv", IMAGE),
    "two linear layers": (lambda x: (x @ W) @ W2, "matmul", A),
}  # fmt: skip

SHIFTED = {
    "affine layer into the next": (lambda x: (x * GAIN + BIAS) @ W, "matmul", A),
    "shift into the next layer": (lambda x: (x - F(3)) @ W, "matmul", A),
    "batch norm into the convolution after it": (lambda x: conv(x * PER_CHANNEL + F(2), FILTERS), "conv", IMAGE),
    "dequantised operand": (lambda x: ((x - F(3)) * F(0.5)) @ W, "matmul", A),
}  # fmt: skip


@pytest.mark.parametrize("layer, op, shape", FOLDED.values(), ids=FOLDED)
def test_known_weights_meet_when_the_program_is_built(layer: Callable, op: str, shape: tuple[int, ...]) -> None:
    assert meets_weights(layer, op, shape, "reassociate")


@pytest.mark.parametrize("layer, op, shape", SHIFTED.values(), ids=SHIFTED)
def test_a_shift_that_may_cancel_goes_through_known_weights_only_by_approximation(
    layer: Callable, op: str, shape: tuple[int, ...]
) -> None:
    assert meets_weights(layer, op, shape, "approximate")
    assert not meets_weights(layer, op, shape, "reassociate")


def meets_weights(layer: Callable, op: str, shape: tuple[int, ...], numerics: str) -> bool:
    """Whether one product of the input itself and known weights is left, plus at most something known."""
    graph = trace(layer, spec(shape, F))
    segment = saturate_segment(graph, admitted(laws_named("all"), numerics), Budget(seconds=30))
    classes, (image,) = segment.classes, segment.inputs
    sums = [n.args for n in classes[segment.roots[0]].nodes if n.op == "add"]
    sums = [args for args in sums if any(classes[a].constant for a in args)]
    products = [n for c in [segment.roots[0], *sum(sums, ())] for n in classes[c].nodes if n.op == op]
    return any(n.args[0] == image and classes[n.args[1]].constant for n in products)


@pytest.mark.parametrize("rule", CONTRACTIONS.values(), ids=CONTRACTIONS)
def test_products_meet(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_meet(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", POOLING.values(), ids=POOLING)
def test_pooling_meets(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", NORMALISED.values(), ids=NORMALISED)
def test_normalised_forms_meet(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", APPROXIMATE.values(), ids=APPROXIMATE)
def test_unsafe_forms_meet_when_approximation_is_allowed(rule: tuple) -> None:
    assert meet(*rule, numerics="approximate")


def test_products_that_share_an_operand_are_one_product_by_name() -> None:
    """Queries, keys and values of one input; two layers of equal size; two convolutions of one image."""
    cases = [
        (lambda x, q, k, v: (x @ q, x @ k, x @ v), (A, B, B, (6, 3)), "matmul"),
        (lambda x, y, w: (x @ w, y @ w), (A, (3, 6), B), "matmul"),
        (lambda x, y, v, w: (x @ v, y @ w), (A, A, B, B), "matmul"),
        (lambda x, v, w: (conv(x, v), conv(x, w)), (IMAGE, (4, 3, 3, 3), (5, 3, 3, 3)), "conv"),
    ]
    for function, shapes, op in cases:
        graph = trace(function, *(spec(s, F) for s in shapes))
        segment = saturate_segment(graph, admitted(laws_named(["all", "grouping"]), "reassociate"), Budget(seconds=30))
        assert segment.stop_reason == "saturated"
        common = set.intersection(*(_below(segment, root) for root in segment.roots))
        assert any(n.op == op for c in common for n in segment.classes[c].nodes)


def _below(segment: Any, root: int) -> set[int]:
    """The classes that a form of `root` made of slices and reshapes alone ends in."""
    ends, waiting = set(), [root]
    while waiting:
        for n in segment.classes[waiting.pop()].nodes:
            if n.op in ("slice", "reshape") and n.args[0] not in ends:
                ends.add(n.args[0])
                waiting.append(n.args[0])
    return ends
