"""Forward and backward pass as two programs, and what lies between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.gradients.partition import POLICIES, computed_again
from eqfuse.ir.graph import Node, input_node, node
from eqfuse.ops.types import TensorType

RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(40, 30)), RNG.normal(size=(30, 20)), RNG.normal(size=20)
PARTITIONS = ("price", *POLICIES)


def layer(x: Any, params: Any, scale: Any) -> Any:
    h = x @ params["w"] + params["b"]
    y = np.tanh(h) * np.exp(-h * h) * scale
    return {"y": y, "norm": (y * y).sum()}


@pytest.mark.slow
def test_every_partition_gives_the_gradient_and_says_what_it_keeps() -> None:
    params = {"w": W, "b": B}
    result, pullback = ef.vjp(lambda x, p: layer(x, p, 2.0), X, params)
    ct = {"y": RNG.normal(size=(40, 20)), "norm": 0.5}
    kept = {}
    for partition in PARTITIONS:
        split = ef.split_vjp(layer, X, params, np.float64(2.0), argnums=(0, 1), partition=partition, target="numpy")
        output, residuals = split.forward(X, params, np.float64(2.0))
        np.testing.assert_allclose(output["y"], result["y"], rtol=1e-10)
        gx, gp = split.backward(residuals, ct)
        wx, wp = pullback(ct)
        for got, wanted in ((gx, wx), (gp["w"], wp["w"]), (gp["b"], wp["b"])):
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-10)
        arguments = [X, W, B]
        apart = [r for r in residuals if not any(r is a for a in arguments) and r.ndim]
        assert sum(r.nbytes for r in apart) <= split.residual_bytes <= sum(r.nbytes for r in apart) + 8
        assert [tuple(r.shape) for r in residuals] == [t.shape for t in split.residuals]
        kept[partition] = split.residual_bytes
    assert kept["recompute_all"] == 0 < kept["min_cut"] <= kept["store_all"]
    assert kept["min_cut"] <= X.shape[0] * W.shape[1] * 8 + 8, "the product, from which the rest is elementwise"
    assert kept["recompute_all"] <= kept["price"]


def test_what_a_checkpoint_marks_is_not_kept() -> None:
    marked = ef.checkpoint(lambda x, w: np.sin(np.cos(x @ w) ** 2))
    split = ef.split_vjp(lambda x, w: marked(x, w).sum(), X, W, partition="store_all", target="numpy")
    _, residuals = split.forward(X, W)
    assert {r.shape for r in residuals} <= {X.shape, W.shape} and split.residual_bytes == 0
    wanted = ef.grad(lambda w: np.sin(np.cos(X @ w) ** 2).sum())(W)
    np.testing.assert_allclose(split.backward(residuals, 1.0)[1], wanted)


def _costs_least(keep: dict[Node, float], again: dict[Node, float], nodes: list[Node], read: list[Node]) -> float:
    """By trying every choice of what is computed again."""
    best = np.inf
    for bits in range(2 ** len(nodes)):
        recomputed = {n for i, n in enumerate(nodes) if bits >> i & 1}
        best = min(best, _cost(keep, again, recomputed, read))
    return float(best)


def _cost(keep: dict[Node, float], again: dict[Node, float], recomputed: set[Node], read: list[Node]) -> float:
    total, seen, stack = 0.0, set(), list(read)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            total += again[n] if n in recomputed else keep[n]
            stack += n.args if n in recomputed else ()
    return total


def test_the_cut_costs_least_of_all_choices() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        nodes: list[Node] = [input_node(f"x{i}", TensorType(np.dtype(np.float64), (3,))) for i in range(2)]
        for _ in range(7):
            a, b = rng.integers(len(nodes), size=2)
            operator = node("multiply", (nodes[a], nodes[b])) if a != b else node("exp", (nodes[a],))
            nodes += [operator] if operator not in nodes else []
        read = [nodes[i] for i in {*rng.integers(len(nodes), size=2).tolist(), len(nodes) - 1}]
        keep = {n: float(rng.integers(1, 9)) if n.args else float(rng.integers(3)) for n in nodes}
        again = {n: float(rng.integers(6)) for n in nodes}
        inner = [n for n in nodes if n.args]
        cut = computed_again(read, keep.__getitem__, again.__getitem__)
        assert _cost(keep, again, cut, read) == _costs_least(keep, again, inner, read)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ef.EqfuseError, match="partition is 'all': it is one of 'price', 'store_all'"):
        ef.split_vjp(np.sin, X, partition="all")
    with pytest.raises(ef.EqfuseError, match="argnums is 3, and sin is called with 1"):
        ef.split_vjp(np.sin, X, argnums=3)
