"""Forward and backward pass are one program for the search: few kernels, what they share is computed once, and a
gradient is cheap. No law is made for gradients."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.ir.graph import Graph
from tests.support.c_target import C
from tests.support.some import some

CHEAP = 4  # times the forward pass: the bound of cheap gradients


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -np.mean(np.take_along_axis(ef.log_softmax(logits), labels[:, None], 1))


def normalised(x: Any, scale: Any, shift: Any, wanted: Any) -> Any:
    return np.sum((ef.layer_norm(x, scale, shift) - wanted) ** 2)


def perceptron(params: Any, x: Any, labels: Any) -> Any:
    *hidden, (w, b) = params
    for v, c in hidden:
        x = np.tanh(x @ v + c)
    return cross_entropy(x @ w + b, labels)


def attention(q: Any, k: Any, v: Any, wanted: Any) -> Any:
    weights = ef.softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float32(64)))
    return np.mean((weights @ v - wanted) ** 2)


def array(*shape: int) -> Any:
    return ef.spec(shape, np.float32)


LABELS = ef.spec(1024, np.int64)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], Any, int]] = {  # and the most kernels that value and gradient may take
    "sigmoid": (lambda x: np.sum(ef.sigmoid(x)), (array(1000, 1000),), 0, 2),
    "tanh": (lambda x: np.sum(np.tanh(x)), (array(1000, 1000),), 0, 2),
    "gelu": (lambda x: np.sum(ef.gelu(x)), (array(1000, 1000),), 0, 2),
    "cross-entropy": (cross_entropy, (array(1024, 1000), LABELS), 0, 3),
    "layer norm": (normalised, (array(1024, 768), array(768), array(768), array(1024, 768)), (0, 1, 2), 3),
    "attention": (attention, (array(8, 512, 64),) * 4, (0, 1, 2), 7),
    "perceptron": (
        perceptron,
        ([(array(256, 512), array(512)), (array(512, 512), array(512)), (array(512, 10), array(10))],
         array(1024, 256), LABELS), 0, 15),
    "short rows of running products": (lambda x: np.sum(np.cumprod(x, 1) ** 2), (array(10_000, 10),), 0, 10),
    "rows of running products": (lambda x: np.sum(np.cumprod(x, 1) ** 2), (array(10_000, 40),), 0, 12),
    "long rows of running products": (lambda x: np.sum(np.cumprod(x, 1) ** 2), (array(1000, 1000),), 0, 14),
    "rows of running maxima": (lambda x: np.sum(np.maximum.accumulate(x, 1) ** 2), (array(1000, 1000),), 0, 18),
    "columns of running maxima": (lambda x: np.sum(np.maximum.accumulate(x) ** 2), (array(1000, 1000),), 0, 22),
    "columns of running products": (lambda x: np.sum(np.cumprod(x, 0) ** 2), (array(1000, 1000),), 0, 10),
}  # fmt: skip


@cache
def reports(name: str) -> tuple[Any, Any]:
    """Of the forward pass, and of value and gradient."""
    fn, args, argnums, _ = PROGRAMS[name]
    both = ef.value_and_grad(fn, argnums)
    forward, joint = (ef.compile(f, *args, target=DEVICES["cpu"]).report for f in (fn, both))
    return forward, joint


@pytest.mark.parametrize("name", some(PROGRAMS, 3))
def test_value_and_gradient_cost_at_most_four_forward_passes_in_few_kernels(name: str) -> None:
    forward, both = reports(name)
    assert both.predicted_seconds <= CHEAP * forward.predicted_seconds
    assert both.n_kernels <= PROGRAMS[name][3]


def ops(name: str) -> Counter[str]:
    """The operators of all kernels of value and gradient: what is computed twice counts twice."""
    return Counter(op for kernel in reports(name)[1].kernels for op in kernel.ops)


@pytest.mark.parametrize(
    "name, op, times",
    [("sigmoid", "exp", 1), ("sigmoid", "divide", 1), ("cross-entropy", "exp", 1), ("attention", "exp", 1),
     ("gelu", "erf", 1)],
)
def test_what_forward_and_backward_pass_share_is_computed_once(name: str, op: str, times: int) -> None:
    assert ops(name)[op] == times


def found_equal(f: Any, g: Any, x: Any) -> bool:
    """Does the search put ``f(x)`` and ``g(x)`` into one class?"""
    graph = ef.trace(lambda x: (f(x), g(x)), x)
    space = ef.saturate(Graph(graph.inputs, graph.outputs), numerics="approximate")
    (segment,) = space.segments
    a, b = segment.roots
    return a == b


def slope(f: Any) -> Any:
    return ef.grad(lambda x: np.sum(f(x)))


PAIRS = [
    ("tanh", slope(np.tanh), lambda x: 1 - np.tanh(x) ** 2),
    ("square root", slope(np.sqrt), lambda x: 1 / (2 * np.sqrt(x))),
    ("gaussian", slope(lambda x: np.exp(-x * x)), lambda x: -2 * x * np.exp(-x * x)),
    ("norm", slope(lambda x: np.linalg.norm(x, axis=-1)), lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)),
    ("logsumexp", slope(ef.logsumexp), ef.softmax),
]


@pytest.mark.parametrize("name, f, g", PAIRS, ids=[name for name, *_ in PAIRS])
def test_the_search_finds_the_derivative_that_is_known_of(name: str, f: Any, g: Any) -> None:
    assert found_equal(f, g, array(64, 32))


@pytest.mark.parametrize("f", [ef.sigmoid, np.tanh, ef.gelu, lambda x: np.where(np.abs(x) < 1, x * x / 2, np.abs(x))])
def test_a_sum_and_its_gradient_are_one_compiled_kernel_that_threads_share(f: Any) -> None:
    program = ef.compile(ef.value_and_grad(lambda x: np.sum(f(x))), array(1000, 1000), target=C)
    assert program.report.n_kernels == 1 and "on 4 threads" in str(program.executable.schedules())


@pytest.mark.slow
def test_the_search_for_compiled_kernels_ends_where_a_move_leaves_no_user_of_a_value() -> None:
    x = ef.spec((8, 16), np.float64)
    joint = ef.trace(ef.grad(lambda q, k, v: (ef.softmax(q @ k.T / 4) @ v).sum(), (0, 1, 2)), x, x, x)
    plan = ef.extract(ef.saturate(joint), target=C)
    assert len(plan.kernels) <= 6
