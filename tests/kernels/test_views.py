"""Views inside kernel bodies move onto the arrays that are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.errors import UnsupportedOp
from eqfuse.ir import Node, node
from eqfuse.meaning import evaluate
from eqfuse.ops import Role, row
from eqfuse.views import free_view, leaf_chain, push_views
from tests.kernels.numpy_cases import add, body, data, mul, number, read, reduced


def transposed(x: Node, *axes: int) -> Node:
    return node("transpose", (x,), (axes,))


@st.composite
def viewed_bodies(draw: st.DrawFn) -> Node:
    """Elementwise work on broadcast operands with views in between."""
    x = add(read(0, (3, 4, 2)), node("exp", (read(1, (4, 1)),)))
    for _ in range(draw(st.integers(1, 5))):
        rank = len(x.shape)
        kind = draw(st.sampled_from(["transpose", "slice", "flip", "broadcast", "column", "scalar"]))
        if kind == "transpose":
            x = transposed(x, *draw(st.permutations(range(rank))))
        elif kind == "slice":
            ranges = []
            for n in x.shape:
                start = draw(st.integers(0, n))
                ranges.append((start, draw(st.integers(start, n)), draw(st.integers(1, 2))))
            x = node("slice", (x,), (tuple(ranges),))
        elif kind == "flip":
            x = node("flip", (x,), (tuple(a for a in range(-rank, 0) if draw(st.booleans())),))
        elif kind == "broadcast" and rank < 5:
            x = node("broadcast_to", (x,), ((2, *x.shape),))
        elif kind == "column":
            x = mul(x, read(len(x.shape) + 5 + x.shape[-1], (x.shape[-1],)))
        else:
            x = add(x, number(2))
    return x


@settings(max_examples=200, deadline=None)
@given(viewed_bodies())
def test_pushed_views_stand_on_leaves_and_mean_the_same(x):
    inputs = [n for n in body([], x).nodes if n.op == "input"]
    graph = body(inputs, x, mul(x, x))
    pushed = push_views(graph)
    for n in pushed.nodes:
        if row(n.op).role is Role.VIEW:
            assert not leaf_chain(n)[0].args
    arrays = data(graph)
    for got, wanted in zip(evaluate(pushed, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_reshape_moves_when_every_argument_is_whole_or_one_number():
    x, y = read(0, (6, 4)), read(1, (1, 1))
    r = node("reshape", (mul(add(x, number(1)), y),), ((8, 3),))
    pushed = push_views(body([x, y], r))
    assert [n.op for n in pushed.nodes if row(n.op).role is Role.VIEW] == ["reshape", "reshape"]
    with pytest.raises(UnsupportedOp, match="reshape"):
        push_views(body([x, z := read(1, (4,))], node("reshape", (add(x, z),), ((8, 3),))))


def test_a_view_of_a_reduction_is_refused():
    x = read(0, (6, 4))
    with pytest.raises(UnsupportedOp, match="transpose of the result of sum"):
        push_views(body([x], transposed(reduced("sum", x), 1, 0)))


def test_a_view_is_free_when_strides_can_express_it():
    x = read(0, (6, 4))
    t = transposed(x, 1, 0)
    assert free_view(x.type, leaf_chain(t)[1])
    assert not free_view(x.type, leaf_chain(node("reshape", (t,), ((24,),)))[1])


def test_a_reshape_to_rank_0_reaches_leaves_of_every_rank() -> None:
    def program(x, one):
        return x * (np.ones((1, 1)) * one * 3).reshape(())

    x, one = np.arange(5.0), np.array([2.0])
    np.testing.assert_array_equal(ef.compile(program, x, one)(x, one), program(x, one))
