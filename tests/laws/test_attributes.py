"""Laws over attributes: axes, permutations, strides, padding, slices, bound on one side and computed on the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import conv, max_pool
from eqfuse.ops import TABLE
from eqfuse.rewrites import EXACT, REASSOCIATES, Law, apply, attrs, book, bounded, computed, guard, tensors
from eqfuse.rewrites.checking.check import check
from eqfuse.rewrites.language.law import walk

F = np.float32
x, w = tensors("x w")
p, q, s, strides, padding, dilations, groups, window, axis = attrs("p q s strides padding dilations groups window axis")

Pads = tuple[tuple[int, int], ...]


def _padded(padding: Pads) -> Pads:
    return ((0, 0), (0, 0), *padding)


def _none(padding: Pads) -> Pads:
    return ((0, 0),) * len(padding)


def _inverse(p: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(p)), key=p.__getitem__))


def _every(strides: tuple[int, ...], t: Any) -> tuple:
    return tuple((0, n, k) for n, k in zip(t.shape, (1,) * (t.rank - len(strides)) + strides, strict=True))


LAWS = {
    # a padded convolution is a convolution of the padded image
    "padding": Law(
        "padding_apart", apply("conv", x, w, attrs=(strides, padding, dilations, groups)),
        apply("conv", apply("pad", x, 0.0, attrs=(computed(_padded, padding),)), w,
              attrs=(strides, computed(_none, padding), dilations, groups)),
        (bounded("padding pads", lambda padding: any(any(n) for n in padding), padding),), REASSOCIATES, grows=True),
    # a window of one element picks every stride-th
    "strides": Law(
        "window_of_one", apply("window_max", x, attrs=(window, strides, padding)),
        x.slice(computed(_every, strides, x)),
        (guard("window is one element", lambda window: set(window) == {1}, window),), EXACT),
    # the maximum over axes of a transpose is that over the axes it moved
    "axes": Law(
        "axes_moved", x.transpose(p).max(q), x.max(computed(lambda p, q: tuple(sorted(p[a] - len(p) for a in q)), p, q))
        .transpose(p), exactness=EXACT),
    # a permutation and its inverse, read both ways: x is what p made of y
    "permutations": Law(
        "difference_in_any_order", x.transpose(p) - w.transpose(p), (x - w).transpose(p), exactness=EXACT, both=True),
    "inverse": Law(
        "transposed_back", x.transpose(p) + w, (x + w.transpose(computed(_inverse, p))).transpose(p), exactness=EXACT),
    "gather": Law(
        "rows_of_negative", (-x).take(w, axis), -x.take(w, axis), exactness=EXACT, both=True),
}  # fmt: skip


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_over_attributes_is_checked(law: Law) -> None:
    report = check(law)
    assert report.ok and report.cases > 20, report


@pytest.mark.parametrize(
    "law, function, shapes",
    [
        ("padding", lambda a, b: conv(a, b, stride=2, padding=1), [(1, 2, 5, 5), (3, 2, 3, 3)]),
        ("strides", lambda a: max_pool(a, 1, stride=2), [(1, 2, 5, 5)]),
        ("axes", lambda a: np.max(a.T, axis=0, keepdims=True), [(2, 3)]),
        ("permutations", lambda a, b: a.T - b.T, [(2, 3), (2, 3)]),
        ("permutations", lambda a, b: (a - b).T, [(2, 3), (2, 3)]),
        ("inverse", lambda a, b: a.transpose(1, 2, 0) + b, [(2, 3, 4), (3, 4, 2)]),
        ("gather", lambda a: -(a[np.array([1, 0])]), [(2, 3)]),
        ("gather", lambda a: (-a)[np.array([1, 0])], [(2, 3)]),
    ],
)
def test_it_is_used_with_the_attributes_it_computes(law: str, function: Any, shapes: list) -> None:
    checked_above = replace(LAWS[law], check=False)
    space = saturate(trace(function, *(spec(shape, F) for shape in shapes)), laws=[checked_above])
    assert LAWS[law].name in space.laws_fired and space.stop_reason == "saturated"


def test_a_law_cannot_duplicate_a_random_draw() -> None:
    rng = np.random.default_rng(0)
    graph = trace(lambda a: a + rng.standard_normal(3), spec((3,)))
    assert len(graph.inputs) == 2  # what is drawn is an input, so every law sees one tensor, however often it is read
    named = {t.op for law in book() for side in (*law.lefts, *law.rights) for t in walk(side)} - {"variable", "literal"}
    assert named <= TABLE.keys()
    draws = {"random", "normal", "uniform", "standard_normal", "permutation", "shuffle", "choice"}
    assert not draws & TABLE.keys()
