"""Views inside kernel bodies move onto the arrays that are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.emit.numpy.kernels import NumpyKernel, emit_kernel
from eqfuse.emit.numpy.schedule import in_tiles
from eqfuse.emit.numpy.source import straight_kernel
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ir.views import computes, leaf_chain, push_views, strides_after
from eqfuse.ops import Role
from tests.support.kernels import CPU, add, body, data, kernel, mul, number, read, reduced
from tests.support.some import some


def transposed(x: Node, *axes: int) -> Node:
    return node("transpose", (x,), (axes,))


@st.composite
def viewed_bodies(draw: st.DrawFn) -> Node:
    """Elementwise work on broadcast operands with views in between."""
    x = add(read(0, (3, 4, 2)), node("exp", (read(1, (4, 1)),)))
    for _ in range(draw(st.integers(1, 5))):
        rank = len(x.shape)
        kind = draw(st.sampled_from(["transpose", "slice", "flip", "broadcast", "units", "column", "scalar"]))
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
        elif kind == "units" and rank < 5:
            axis = draw(st.integers(0, rank))
            kept = tuple(n for n in x.shape if n != 1)
            x = node("reshape", (x,), (draw(st.sampled_from([(*x.shape[:axis], 1, *x.shape[axis:]), kept or (1,)])),))
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
        if n.row.role is Role.VIEW:
            assert not leaf_chain(n)[0].args
    arrays = data(graph)
    for got, wanted in zip(evaluate(pushed, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("axis", [-2, -1])
def test_no_element_of_joined_arrays_is_an_empty_array(axis: int) -> None:
    x = read(0, (3, 4))
    joined = mul(node("concat", (add(x, x), x), (axis,)), number(2))
    inside, outside = [(0, n, 1) for n in joined.shape], [(n, n, 1) for n in joined.shape]
    for none in (0, 1):
        ranges = tuple(outside[i] if i == none else inside[i] for i in range(2))
        graph = body([x], node("slice", (joined,), (ranges,)))
        (got,), (wanted,) = (evaluate(g, data(graph)) for g in (push_views(graph), graph))
        assert got.shape == wanted.shape and 0 in got.shape


@st.composite
def values_read_twice(draw: st.DrawFn) -> Graph:
    """A body whose values are read whole and through views, some of them complex, some between bounds."""
    dtype = draw(st.sampled_from([np.float32, np.float64, np.complex64]))
    x = read(0, (6, 6), dtype)
    values = [add(x, x)]
    for _ in range(draw(st.integers(1, 6))):
        a, b = (draw(st.sampled_from(values)) for _ in range(2))
        view = draw(st.sampled_from([
            lambda a: transposed(a, 1, 0), lambda a: node("flip", (a,), ((-1,),)), lambda a: a,
            lambda a: node("reshape", (transposed(node("reshape", (a,), ((2, 3, 6),)), 2, 1, 0),), ((6, 6),)),
            lambda a: node("broadcast_to", (node("slice", (a,), (((1, 2, 1), (0, 6, 1)),)),), ((6, 6),)),
        ]))  # fmt: skip
        if a.dtype.kind == "c":
            part = node(draw(st.sampled_from(["real", "imag"])), (view(a),))
            values.append(node("complex", (part, node("imag", (b,)))))
        elif draw(st.booleans()):
            values.append(node("minimum", (node("maximum", (a, number(0, dtype))), number(1, dtype))))
        values.append(draw(st.sampled_from([add, mul]))(values[-1], view(b)))
    outputs = [*draw(st.lists(st.sampled_from(values), min_size=1, max_size=2)), values[-1]]
    return body([x], *outputs, transposed(outputs[0], 1, 0))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(values_read_twice())
def test_whole_arrays_are_read_through_views_of_them(graph):
    source = straight_kernel(graph)
    arrays = data(graph)
    outs = [np.empty(o.shape, o.dtype) for o in graph.outputs]
    NumpyKernel(source.text(), source, in_tiles(graph, 1, (), 1, 1)).run(outs, arrays)
    for got, wanted in zip(outs, evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


STEPS = 16  # which make 65,536 chains of two views each


def neighbours(v):
    return np.maximum((v[:-1] + v[1:]) / 2, v[:-1])


def mirrored(v):
    return np.tanh(v - v[::-1]) + v


def pyramid(v):
    square = np.sqrt(v[:, None] * v)
    while len(square) > 1:
        square = (square[:-1, :-1] + square[1:, :-1] * square[:-1, 1:] + square[1:, 1:]) / 3
    return square[0]


@pytest.mark.parametrize("size", some([STEPS + 1, STEPS + 2, 200_000], 3))
@pytest.mark.parametrize("step", [neighbours, mirrored])
def test_a_value_read_through_two_views_at_each_step_is_no_work_for_each_of_their_chains(step, size):
    def steps(v):
        for _ in range(STEPS):
            v = step(v)
        return v

    x = np.random.default_rng(0).random(size)
    program = ef.compile(steps, x, laws="none")
    assert program.source().count("\n") < STEPS * 20
    np.testing.assert_allclose(program(x), steps(x), rtol=1e-9)


def test_a_pyramid_of_squares_is_one_statement_for_each_operator():
    x = np.random.default_rng(0).random(8)
    program = ef.compile(pyramid, x, laws="none")
    assert program.source().count("\n") < 8 * 20
    np.testing.assert_allclose(program(x), pyramid(x), rtol=1e-9)


@pytest.mark.parametrize("op", ["exp", "tanh"])
def test_neighbours_of_a_small_array_are_computed_once(op):
    x = read(0, (100,))
    e = node(op, (x,))
    wide = [node("slice", (e,), (((k, 98 + k, 1),),)) for k in range(3)]
    source = emit_kernel(kernel("map", body([x], add(add(*wide[:2]), wide[2]))), CPU).source
    assert source.count(f"{op}(") == 1


def test_a_reshape_moves_when_every_argument_is_whole_or_one_number():
    x, y = read(0, (6, 4)), read(1, (1, 1))
    r = node("reshape", (mul(add(x, number(1)), y),), ((8, 3),))
    pushed = push_views(body([x, y], r))
    assert [n.op for n in pushed.nodes if n.row.role is Role.VIEW] == ["reshape", "reshape"]
    with pytest.raises(UnsupportedOp, match="reshape"):
        push_views(body([x, z := read(1, (4,))], node("reshape", (add(x, z),), ((8, 3),))))


def test_transposes_become_one_or_none():
    x, y = read(0, (3, 4, 2)), read(1, (4, 2, 3))
    there, back = (1, 2, 0), (2, 0, 1)
    once = add(transposed(x, *there), y)
    pushed = push_views(body([x, y], add(x, transposed(once, *back)), transposed(once, *there)))
    chains = {leaf_chain(a) for n in pushed.computations for a in n.args if not computes(a)}
    assert all(len(chain) <= 1 for _, chain in chains)
    assert any(leaf is x and not chain for leaf, chain in chains)


def test_an_axis_flipped_twice_is_as_it_was():
    x, y = read(0, (3, 4)), read(1, (3, 4))
    both = node("flip", (add(node("flip", (x,), ((-2, -1),)), y),), ((-1,),))
    (total,) = push_views(body([x, y], both)).outputs
    assert [leaf_chain(a)[1][0].attr("axes") for a in total.args] == [(-2,), (-1,)]
    once = node("flip", (add(node("flip", (x,), ((-1,),)), y),), ((-1,),))
    assert push_views(body([x, y], once)).outputs[0].args[0] is x


def test_what_is_computed_of_an_array_with_or_without_axes_of_1_in_front_is_one_value():
    x, row_of_means = read(0, (6, 4)), read(1, (1, 4))
    bare = add(x, node("reshape", (row_of_means,), ((4,),)))
    column = transposed(node("reshape", (row_of_means,), ((1, 4),)), 1, 0)
    pushed = push_views(body([x, row_of_means], bare, transposed(add(transposed(x, 1, 0), column), 1, 0)))
    assert pushed.outputs == (add(x, row_of_means),) * 2
    outer = add(read(0, (4,)), node("reshape", (read(1, (4,)),), ((1, 4),)))
    assert push_views(body([*outer.args[:1], *outer.args[1].args], outer)).outputs == (outer,)


def test_a_view_of_a_reduction_is_refused():
    x = read(0, (6, 4))
    with pytest.raises(UnsupportedOp, match="transpose of the result of sum"):
        push_views(body([x], transposed(reduced("sum", x), 1, 0)))


def test_a_view_is_free_when_strides_can_express_it():
    x = read(0, (6, 4))
    t = transposed(x, 1, 0)
    assert strides_after(x.type, leaf_chain(t)[1]) is not None
    assert strides_after(x.type, leaf_chain(node("reshape", (t,), ((24,),)))[1]) is None


def test_a_reshape_to_rank_0_reaches_leaves_of_every_rank() -> None:
    def program(x, one):
        return x * (np.ones((1, 1)) * one * 3).reshape(())

    x, one = np.arange(5.0), np.array([2.0])
    np.testing.assert_array_equal(ef.compile(program, x, one)(x, one), program(x, one))
