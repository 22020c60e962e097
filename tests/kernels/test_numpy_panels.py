"""NumPy kernels over tiles: maps, rows, products with rows around them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.graph import Node, node
from tests.support.kernels import (
    CPU,
    add,
    body,
    cast,
    gelu,
    judge,
    layer_norm,
    mul,
    number,
    read,
    reduced,
    softmax,
)  # fmt: skip

# a slow machine with a small cache: even small bodies are cut into many tiles
TINY = replace(
    CPU, name="tiny", threads=3, l2_bytes=1 << 16,
    elements=tuple((op, tuple((d, 1e-6 if s else 0.0) for d, s in r)) for op, r in CPU.elements),
    flops=tuple((d, 1e6) for d, _ in CPU.flops),
)  # fmt: skip
DEVICES = [CPU, TINY]
SHAPES = [(3000,), (70, 130), (1, 5000), (9000, 1), (3, 40, 50), (2, 3, 4, 500), (5, 1, 7, 1, 300), (1, 1), (), (0, 4)]


@pytest.fixture(params=DEVICES, ids=lambda d: d.name)
def device(request):
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gelu_is_the_same_bit_for_bit_in_tiles(shape, dtype, device):
    x = read(0, shape, dtype)
    judge("map", body([x], gelu(x)), device=device)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_map_may_have_several_outputs_and_read_what_it_writes(shape, device):
    x, y = read(0, shape), read(1, shape)
    s = add(x, y)
    judge("map", body([x, y], s, mul(s, s), node("exp", (mul(s, s),)), s), device=device)


def test_a_map_whose_output_is_what_it_reads_copies(device):
    x = read(0, (200, 300))
    judge(
        "map",
        body([x], x, add(x, x), node("transpose", (node("transpose", (x,), ((1, 0),)),), ((1, 0),))),
        device=device,
    )


def test_broadcast_operands_are_read_at_their_own_shape(device):
    x, b, c, s = read(0, (60, 70, 80)), read(1, (80,)), read(2, (60, 1, 80)), read(3, ())
    k = read(4, (70, 1))
    y = mul(add(x, node("exp", (b,))), add(c, node("tanh", (k,))))
    judge("map", body([x, b, c, s, k], mul(y, add(s, number(2)))), device=device)


def test_views_on_leaves_are_strides(device):
    x = read(0, (64, 48, 10))
    t = node("transpose", (x,), ((1, 2, 0),))
    f = node("flip", (node("slice", (t,), (((0, 48, 2), (0, 10, 1), (3, 64, 1)),)),), ((-1, -3),))
    r = node("reshape", (x,), ((24, 10, 128),))
    judge("map", body([x], gelu(f)), device=device)
    judge("map", body([x], gelu(r)), device=device)


def test_views_between_elementwise_operators_move_to_the_leaves(device):
    x, b = read(0, (64, 48)), read(1, (48,))
    t = node("transpose", (node("exp", (add(x, b),)),), ((1, 0),))
    judge("map", body([x, b], mul(t, node("reshape", (mul(x, x),), ((48, 64),)))), device=device)
    wide = node("broadcast_to", (node("exp", (b,)),), ((64, 48),))
    judge("map", body([x, b], wide, mul(x, wide)), device=device)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(4000,), (60, 90), (7,), ()])
def test_where_takes_exactly_the_chosen_bits(dtype, shape, device):
    c, x, y = read(0, shape, "bool"), read(1, shape, dtype), read(2, shape, dtype)
    z = node("where", (c, x, y))
    judge("map", body([c, x, y], z, node("where", (node("logical_not", (c,)), z, x))), device=device)
    both = node("where", (c, node("maximum", (x, y)), node("minimum", (x, y))))
    judge(
        "map",
        body([c, x, y], node("where", (c, both, number(1, dtype))), node("where", (c, number(0, dtype), x))),
        device=device,
    )


def test_where_chooses_between_nan_and_negative_zero(device):
    x = read(0, (5000,))
    arrays = [np.tile(np.array([np.nan, -0.0, 0.0, np.inf, -1.5], np.float32), 1000)]
    c = node("less", (x, number(0)))
    judge("map", body([x], node("where", (c, node("negative", (x,)), number(-0.0)))), arrays, device)


def test_a_condition_that_is_broadcast_masks_whole_rows(device):
    c, x, k = read(0, (80, 1), "bool"), read(1, (80, 90)), read(2, (90,))
    judge("map", body([c, x, k], node("where", (c, mul(x, x), k))), device=device)
    judge("map", body([c, x, k], node("where", (c, k, number(3)))), device=device)


def test_casts_cut_and_wrap_as_numpy_does(device):
    x = read(0, (70, 90), "float64")
    n = cast(mul(x, number(50, "float64")), "int32")
    judge("map", body([x], cast(n, "float16"), cast(n, "bool"), cast(cast(x, "float32"), "float64")), device=device)


@pytest.mark.parametrize("shape,axes", [
    ((300, 200), (-1,)), ((300, 200), (-2,)), ((20, 30, 40), (-2, -1)), ((20, 30, 40), (-3,)), ((20, 30, 40), (-3, -1)),
    ((20, 30, 40), (-2,)), ((4, 1, 600), (-2,)), ((500, 1), (-1,)), ((2000,), (-1,)), ((1, 3000), (-2, -1)),
    ((3, 5), (-1,)),
])  # fmt: skip
def test_softmax_over_any_axes(shape, axes, device):
    x = read(0, shape)
    judge("row", body([x], softmax(x, *axes)), device=device)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_layer_norm_with_prologue_epilogue_and_row_outputs(dtype, device):
    x, r, g, b = read(0, (4, 50, 96), dtype), read(1, (4, 50, 96), dtype), read(2, (96,), dtype), read(3, (96,), dtype)
    s = add(x, r)
    y = add(mul(layer_norm(s), g), b)
    judge("row", body([x, r, g, b], gelu(y), s, reduced("max", s, -1)), device=device)


def test_rows_of_integers_and_booleans_widen_as_numpy_does(device):
    x = read(0, (300, 70), "int32")
    total = reduced("sum", x, -1)
    odd = node("equal", (node("remainder", (x, number(2, "int32"))), number(1, "int32")))
    judge("row", body([x], total, reduced("any", odd, -1), reduced("argmax", x, -1), reduced("prod", odd, -1),
                      node("subtract", (cast(x, "int64"), total))), device=device)  # fmt: skip


@pytest.mark.parametrize("m,k,n", [(300, 64, 128), (1, 64, 64), (64, 1, 70), (200, 50, 1), (2000, 16, 16)])
def test_a_product_with_prologue_and_epilogue(m, k, n, device):
    x, w, b, r = read(0, (m, k)), read(1, (k, n)), read(2, (n,)), read(3, (m, n))
    y = node("matmul", (node("tanh", (x,)), w))
    judge("contract", body([x, w, b, r], add(gelu(add(y, b)), r)), device=device)
    judge("contract", body([x, w, b, r], softmax(add(node("matmul", (layer_norm(x), w)), b))), device=device)


@pytest.mark.parametrize("m,k,n", [(300, 64, 128), (1, 64, 64), (64, 1, 70), (2000, 16, 3)])
def test_what_follows_a_product_reads_what_its_rows_are_reduced_to(m, k, n, device):
    x, w, b = read(0, (m, k)), read(1, (k, n)), read(2, (n,))
    weights = node("exp", (x,))
    mean = node("divide", (node("matmul", (weights, w)), reduced("sum", weights)))
    judge("contract", body([x, w], mean), device=device)
    scaled = mul(reduced("max", node("abs", (x,))), b)
    judge("contract", body([x, w, b], add(gelu(node("matmul", (layer_norm(x), w))), scaled)), device=device)


def test_a_product_over_batches_reads_each_batch_entry_once(device):
    x, w, v = read(0, (6, 5, 40, 32)), read(1, (6, 1, 32, 24)), read(2, (32, 24))
    judge("contract", body([x, w], gelu(node("matmul", (x, w)))), device=device)
    judge("contract", body([x, v], gelu(node("matmul", (x, v))), node("matmul", (x, v))), device=device)
    one = node("slice", (x,), (((0, 1, 1), (0, 1, 1), (0, 40, 1), (0, 32, 1)),))
    judge("contract", body([x, w], gelu(node("matmul", (one, w)))), device=device)


def test_a_product_of_an_array_with_its_own_transpose(device):
    x = read(0, (200, 64))
    square = read(1, (90, 90))
    judge("contract", body([x], gelu(node("matmul", (x, node("transpose", (x,), ((1, 0),)))))), device=device)
    judge("contract", body([square], gelu(node("matmul", (square, square)))), device=device)


def attention(q: Node, k: Node, v: Node) -> Node:
    swap = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    scores = node("matmul", (q, node("transpose", (k,), (swap,))))
    return node("matmul", (softmax(mul(scores, number(0.125))), v))


@pytest.mark.parametrize("shape", [(4, 200, 64), (2, 3, 100, 16), (300, 32), (5, 1, 8)])
def test_attention_never_stores_the_square(shape, device):
    q, k, v = (read(i, shape) for i in range(3))
    judge("back_to_back", body([q, k, v], attention(q, k, v)), device=device)


def test_attention_on_heads_that_lie_side_by_side(device):
    q, k, v = (read(i, (2, 100, 4, 32)) for i in range(3))
    heads = [node("transpose", (x,), ((0, 2, 1, 3),)) for x in (q, k, v)]
    mask = read(3, (100, 100), "bool")
    swap = node("transpose", (heads[1],), ((0, 1, 3, 2),))
    scores = node("where", (mask, node("matmul", (heads[0], swap)), number(-1e9)))
    e = node("exp", (node("subtract", (scores, reduced("max", scores))),))
    y = node("divide", (node("matmul", (e, heads[2])), reduced("sum", e)))
    judge("back_to_back", body([q, k, v, mask], y), device=device)


def test_arrays_of_any_layout_give_the_same_result(device):
    x, y = read(0, (90, 80)), read(1, (90, 80))
    graph = body([x, y], gelu(add(x, y)))
    rng = np.random.default_rng(1)
    fortran = np.asfortranarray(rng.normal(size=(90, 80)).astype(np.float32))
    strided = rng.normal(size=(180, 240)).astype(np.float32)[::2, ::-3]
    strided.flags.writeable = False
    judge("map", graph, [fortran, strided], device)
    judge("row", body([x, y], softmax(add(x, y))), [fortran, strided], device)
    judge("map", graph, [np.broadcast_to(np.float32(3), (90, 80)), fortran], device)
    judge("map", graph, [fortran, fortran], device)


def test_users_names_never_reach_the_source(device):
    from eqfuse.ir.graph import input_node
    from eqfuse.ops.types import TensorType

    x = input_node('__import__("os").system("x")', TensorType(np.dtype("float32"), (70, 90)))
    assert "import" not in judge("map", body([x], gelu(x)), device=device)


@pytest.mark.parametrize("shape", [(300, 1000), (70, 33), (5, 9000)])
def test_sums_of_products_are_dot_products_that_keep_nan_and_infinity(shape, device):
    x, y = read(0, shape), read(1, shape)
    p = mul(x, y)
    judge("row", body([x, y], node("subtract", (x, reduced("sum", p))), p, reduced("sum", mul(x, x))), device=device)
    a = np.ones(shape, np.float32)
    a[1, 3], a[2, 4] = np.nan, np.inf
    graph = body([x], node("subtract", (number(1), reduced("sum", mul(x, x)))), mul(x, reduced("sum", x)))
    from tests.support.kernels import evaluate, run

    for got, wanted in zip(run("row", graph, [a], device), evaluate(graph, [a]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_erf_is_within_two_units_in_the_last_place(device):
    import scipy.special

    from tests.support.kernels import run

    x = read(0, (200, 500))
    values = np.concatenate(
        [np.linspace(-6, 6, 99990), [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-40, 3.9, 5.0, -4.0]]
    )
    a = values.astype(np.float32).reshape(200, 500)
    (got,) = run("map", body([x], node("erf", (mul(x, number(1)),))), [a], device)
    wanted = scipy.special.erf(a.astype(np.float64))
    assert np.array_equal(np.isnan(got), np.isnan(a))
    assert np.nanmax(np.abs(got)) == 1
    bound = 2 * np.spacing(np.abs(wanted).astype(np.float32))
    assert np.all((np.abs(got - wanted) <= bound) | np.isnan(a))


@pytest.mark.parametrize("shape", [(5000, 4), (40, 50, 3), (3000, 1), (700, 24)])
def test_short_rows_are_worked_on_as_columns(shape, device):
    x, b, c = read(0, shape), read(1, shape[-1:]), read(2, (*shape[:-1], 1))
    y = mul(layer_norm(add(x, b)), c)
    keep = node("greater", (y, number(0)))
    judge("row", body([x, b, c], softmax(x), node("where", (keep, y, c)), reduced("argmax", y), c), device=device)


@pytest.mark.parametrize("shape, scale", [((3000, 700), (700,)), ((700, 3000), (700, 1))])
def test_what_tiles_share_outlives_the_shared_values_that_are_made_of_it(shape, scale):
    def f(x, b):
        s = np.exp(b)
        return x * s + np.sin(s)

    x, b = np.random.default_rng(0).random(shape), np.linspace(0, 1, 700).reshape(scale)
    np.testing.assert_allclose(ef.compile(f, x, b, target="numpy", laws="none")(x, b), f(x, b), rtol=1e-12)


def test_shortest_paths_by_nested_rows_and_columns_give_what_numpy_gives():
    def f(d):
        for k in range(len(d)):
            d = np.minimum(d, d[:, k, None] + d[None, k])
        return d

    d = np.random.default_rng(3).random((7, 7)) ** 3
    program = ef.compile(f, d, target="numpy", laws="none", extractor="greedy-duplicate")
    np.testing.assert_array_equal(program(d), f(d))
