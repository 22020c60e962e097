"""Both sides of every rule the adversarial suite needs end in one class: G7 to G31, N1 to N5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqfuse.benches.corpus.controls import CONTROLS as CONTROL_GRAPHS
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.budget import Budget
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import batch_norm, conv, max_pool, relu, sigmoid, softmax
from tests.support.meeting import meet
from tests.support.some import some

F = np.float32
rng = np.random.default_rng(0)
W = rng.standard_normal((6, 5)).astype(F)
FILTERS = rng.standard_normal((4, 3, 3, 3)).astype(F)
MEAN, SCALE, SHIFT = (rng.standard_normal(4).astype(F) for _ in range(3))
VARIANCE = np.abs(rng.standard_normal(4)).astype(F) + 1


A, B, C, VECTOR, COLUMN, SCALAR = (4, 6), (6, 5), (6, 5), (5, 1), (4, 1), ()
T = np.transpose

RULES = {
    "G7 common left factor": (lambda a, b, c: a @ b + a @ c, lambda a, b, c: a @ (b + c), A, B, C),
    "G7 common right factor": (lambda a, b, c: b @ a + c @ a, lambda a, b, c: (b + c) @ a, (5, 3), B, C),
    "G8 association under a scale": (
        lambda s, a, b, v: (s * (a @ b)) @ v, lambda s, a, b, v: s * (a @ (b @ v)), SCALAR, A, B, VECTOR,
    ),
    "G8 association under a transpose": (
        lambda a, b, v: T(a @ b) @ v, lambda a, b, v: T(b) @ (T(a) @ v), A, B, COLUMN,
    ),
    "G9 attention without softmax": (
        lambda q, k, v: (q @ k.transpose(0, 2, 1)) @ v, lambda q, k, v: q @ (k.transpose(0, 2, 1) @ v),
        (2, 5, 3), (2, 5, 3), (2, 5, 3),
    ),
    "G10 gain into the weights": (lambda x, g: (x * g) @ W, lambda x, g: x @ (g.reshape(-1, 1) * W), A, (6,)),
    "G11 row scale out of a product": (lambda x, r: (x * r) @ W, lambda x, r: (x @ W) * r, A, COLUMN),
    "G11 row divisor out of a product": (lambda x, r: (x / r) @ W, lambda x, r: (x @ W) / r, A, COLUMN),
    "G16 softmax divides after the product": (
        lambda s, v: softmax(s) @ v,
        lambda s, v: (np.exp(s - s.max(-1, keepdims=True)) @ v)
        / np.exp(s - s.max(-1, keepdims=True)).sum(-1, keepdims=True),
        (4, 6), (6, 3),
    ),
    "G18 pool before relu": (lambda x: max_pool(relu(x), 2), lambda x: relu(max_pool(x, 2)), (2, 3, 6, 6)),
    "G19 sum of a product": (
        lambda a, b: (a @ b).sum(), lambda a, b: (a.sum(0, keepdims=True) @ b.sum(1, keepdims=True)).reshape(()), A, B,
    ),
    "G20 mean of a linear layer": (
        lambda x, b: (x @ W + b).mean(0), lambda x, b: (x.mean(0, keepdims=True) @ W + b).reshape(5), A, (5,),
    ),
    "G21 trace of a product": (lambda a, b: np.trace(a @ b), lambda a, b: (a * T(b)).sum(), (4, 6), (6, 4)),
    "G22 transposes cancel": (
        lambda x, b: T(relu(T(x) + b)), lambda x, b: relu(x + b.reshape(-1, 1)), (4, 6), (4,),
    ),
    "G23 slice before the product": (lambda h, w: (h @ w)[1::2], lambda h, w: h[1::2] @ w, A, B),
    "G25 low-rank update": (
        lambda x, w, a, b: x @ w + (x @ a) @ b, lambda x, w, a, b: x @ (w + a @ b), A, B, (6, 2), (2, 5)),
    "slice before elementwise work": (lambda x, y: (x * y + 1)[1:3], lambda x, y: x[1:3] * y + 1, A, (6,)),
    "scale out of a sum": (lambda x, r: (x * r).sum(-1), lambda x, r: x.sum(-1) * r.reshape(4), A, COLUMN),
    "sums merge": (lambda x: x.sum(-1).sum(-1), lambda x: x.sum(), A),
    "two exponents of one base": (lambda x: x**2, lambda x: x * x, A),
    "cube": (lambda x: x**3, lambda x: x * x * x, A),
}  # fmt: skip

EXACT_RULES = {
    "G31 relu of sigmoid": (lambda x: relu(sigmoid(x)), sigmoid, A),
    "G22 transposes cancel through relu": (lambda x: T(relu(T(x))), relu, A),
    "doubling": (lambda x: x * 2, lambda x: x + x, A),
    "cast there and back": (lambda x: x.astype(np.float64).astype(F), lambda x: x, A),
}

APPROXIMATE_RULES = {
    "G29 linear interpolation": (lambda a, b, w: a * (1 - w) + b * w, lambda a, b, w: a + (b - a) * w, A, A, SCALAR),
    "G24 log of softmax": (
        lambda x: np.log(softmax(x)),
        lambda x: (x - x.max(-1, keepdims=True))
        - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)), A,
    ),
    "product of exponentials": (lambda x, y: np.exp(x) * np.exp(y), lambda x, y: np.exp(x + y), A, A),
    "N4 one-pass variance": (
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1, keepdims=True),
        lambda x: (x * x).sum(-1, keepdims=True) - x.mean(-1, keepdims=True) * x.sum(-1, keepdims=True), A,
    ),
}  # fmt: skip

CONTROLS = {
    "N1 batch norm after relu stays": (
        lambda x: batch_norm(relu(conv(x, FILTERS)), MEAN, VARIANCE, SCALE, SHIFT),
        lambda x: relu(batch_norm(conv(x, FILTERS), MEAN, VARIANCE, SCALE, SHIFT)), (2, 3, 6, 6),
    ),
    "N2 no association across softmax": (
        lambda q, k, v: softmax(q @ T(k)) @ v, lambda q, k, v: softmax(q) @ (T(k) @ v), (5, 5), (5, 5), (5, 5),
    ),
    "N5 zero times x stays": (lambda x: x * 0, lambda x: np.zeros(A, F) + (x - x), A),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_both_sides_meet(rule: tuple) -> None:
    assert meet(*rule)


@pytest.mark.parametrize("rule", EXACT_RULES.values(), ids=EXACT_RULES)
def test_both_sides_meet_bit_for_bit(rule: tuple) -> None:
    assert meet(*rule, numerics="strict")


@pytest.mark.parametrize("rule", APPROXIMATE_RULES.values(), ids=APPROXIMATE_RULES)
def test_unsafe_forms_meet_only_when_approximation_is_allowed(rule: tuple) -> None:
    assert meet(*rule, numerics="approximate")
    assert not meet(*rule)


@pytest.mark.parametrize("rule", CONTROLS.values(), ids=CONTROLS)
def test_negative_controls_never_meet(rule: tuple) -> None:
    assert not meet(*rule, numerics="approximate")


def test_batch_norm_folds_into_the_weights_of_the_convolution_before_it() -> None:  # G17
    def layer(x: Any) -> Any:
        return batch_norm(conv(x, FILTERS, padding=1), MEAN, VARIANCE, SCALE, SHIFT)

    (segment,) = saturate(trace(layer, spec((2, 3, 6, 6), F))).segments
    classes = segment.classes
    folded = [
        (image, shift)
        for n in classes[segment.roots[0]].nodes
        if n.op == "add"
        for image, shift in (n.args, n.args[::-1])
        if classes[shift].constant and any(m.op == "conv" and classes[m.args[1]].constant for m in classes[image].nodes)
    ]
    assert folded


@pytest.mark.parametrize("case", some([*GRAPHS.values(), *CONTROL_GRAPHS.values()], 3), ids=lambda case: case.id)
def test_every_graph_of_the_suite_stays_small(case: Case) -> None:
    function, types = case.program(small=case.id == "N11")
    space = saturate(trace(function, *(spec(t.shape, t.dtype) for t in types)), budget=Budget(seconds=60))
    assert space.stop_reason == "saturated"
    assert max(max(s.nodes_per_round) for s in space.segments) <= 3000


def test_reassociating_laws_stay_out_of_strict_numerics() -> None:
    assert not meet(*RULES["G7 common left factor"], numerics="strict")
