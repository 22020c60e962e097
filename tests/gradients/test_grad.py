"""`ef.grad` and its like on NumPy functions, as JAX's users call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import DtypeError
from tests.support.derivatives import difference

RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=5)


def loss(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x @ w + b) ** 2)


def checked(fn: Any, *args: np.ndarray) -> None:
    """The gradient in every argument, along random directions."""
    gradients = ef.grad(fn, argnums=tuple(range(len(args))))(*args)
    for position, (x, g) in enumerate(zip(args, gradients, strict=True)):
        assert (g.shape, g.dtype) == (x.shape, x.dtype)
        step = np.random.default_rng(position).uniform(-1, 1, x.shape)
        wanted = difference(fn, args, [step if i == position else None for i in range(len(args))])
        np.testing.assert_allclose(np.sum(g * step), wanted, rtol=1e-8, atol=1e-9)


def test_the_gradient_is_that_of_the_function() -> None:
    checked(loss, X, W, B)


def test_argnums_may_be_a_number_or_several_and_count_from_the_end() -> None:
    (only,) = ef.grad(loss, argnums=(1,))(X, W, B)
    w, b = ef.grad(loss, (1, -1))(X, W, B)
    assert (only == w).all() and (ef.grad(loss, 1)(X, W, B) == w).all() and (ef.grad(loss, -1)(X, W, B) == b).all()


def test_value_and_grad_gives_both_and_aux() -> None:
    value, g = ef.value_and_grad(loss)(X, W, B)
    assert value == loss(X, W, B) and (g == ef.grad(loss)(X, W, B)).all()

    def with_aux(x: Any) -> Any:
        return np.sum(x * x), {"doubled": 2 * x, "name": "square", "count": 3}

    (value, aux), g = ef.value_and_grad(with_aux, has_aux=True)(X)
    assert (aux["doubled"] == 2 * X).all() and aux["name"] == "square" and aux["count"] == 3
    assert ef.grad(with_aux, has_aux=True)(X)[1]["count"] == 3 and (g == 2 * X).all()


@dataclass
class Layer:
    w: Any
    b: Any
    rate: float = 1.0


def test_arguments_and_gradients_nest() -> None:
    def nested(params: Any, x: Any) -> Any:
        h = x
        for layer in params["layers"]:
            h = np.tanh(h @ layer.w + layer.b)
        return (h * params["scale"]).sum()

    params = {"layers": [Layer(W, B), Layer(W.T, np.zeros(3))], "scale": 0.5}
    g = ef.grad(nested)(params, X)
    assert isinstance(g["layers"][1], Layer) and g["layers"][1].w.shape == W.T.shape
    assert isinstance(g["scale"], np.float64) and g["layers"][0].rate == 0


def test_gradients_have_gradients() -> None:
    third = ef.grad(ef.grad(ef.grad(lambda x: np.exp(2 * x) + x**4)))
    np.testing.assert_allclose(third(0.3), 8 * np.exp(0.6) + 24 * 0.3, rtol=1e-12)
    mixed = ef.grad(lambda x: x * ef.grad(lambda y: x * y * y)(2.0))  # what is around is a constant for the inner one
    assert mixed(3.0) == 2 * 4 * 3.0
    checked(lambda x: np.sum(ef.grad(lambda y: np.sum(np.sin(y) * x))(x) ** 2), X)


def test_the_three_ways_in_give_one_answer() -> None:
    wanted = ef.grad(loss, (0, 1))(X, W, B)
    for gradients in (
        ef.jit(ef.grad(loss, (0, 1)), target="numpy")(X, W, B),
        ef.compile(ef.grad(loss, (0, 1)), X, W, B, target="numpy")(X, W, B),
        ef.meaning(ef.trace(ef.grad(loss, (0, 1)), ef.spec((4, 3)), ef.spec((3, 5)), ef.spec(5)), X, W, B),
        ef.grad(ef.jit(loss), (0, 1))(X, W, B),
        ef.grad(ef.trace(loss, X, W, B), (0, 1))(X, W, B),
    ):
        for f, w in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-12)


def test_a_program_for_all_sizes_has_a_gradient() -> None:
    program = ef.compile(ef.grad(loss), ef.spec(("n", 3)), ef.spec((3, 5)), ef.spec(5), target="numpy")
    for n in (4, 7, 1):
        x = RNG.normal(size=(n, 3))
        np.testing.assert_allclose(program(x, W, B), ef.grad(loss)(x, W, B), rtol=1e-12)


def test_vjp_gives_the_result_and_a_pullback() -> None:
    def two(x: Any, w: Any) -> Any:
        return {"y": np.sin(x) @ w, "n": (x * x).sum()}

    result, pullback = ef.vjp(two, X, W)
    np.testing.assert_array_equal(result["y"], two(X, W)["y"])
    ct = {"y": RNG.normal(size=(4, 5)), "n": 2.0}
    gx, gw = pullback(ct)
    wx, ww = ef.grad(lambda x, w: np.sum(two(x, w)["y"] * ct["y"]) + 2.0 * two(x, w)["n"], (0, 1))(X, W)
    np.testing.assert_allclose(gx, wx, rtol=1e-12)
    np.testing.assert_allclose(gw, ww, rtol=1e-12)
    np.testing.assert_allclose(ef.jit(pullback, target="numpy")(ct)[0], gx, rtol=1e-12)
    assert "keeps" in repr(pullback) and len(pullback.residuals) > 0
    inside = ef.trace(lambda x, w: ef.vjp(two, x, w)[1](ct), X, W)
    np.testing.assert_allclose(ef.meaning(inside, X, W)[0], gx, rtol=1e-12)


def test_jvp_is_the_change_along_a_direction() -> None:
    dx = RNG.normal(size=X.shape)
    value, change = ef.jvp(lambda x: np.tanh(x @ W), (X,), (dx,))
    np.testing.assert_array_equal(value, np.tanh(X @ W))
    np.testing.assert_allclose(change, difference(lambda x: np.tanh(x @ W), [X], [dx]), rtol=1e-9, atol=1e-10)
    assert ef.jvp(np.sin, (1.0,), (2.0,))[1] == 2 * np.cos(1.0)
    *_, aux = ef.jvp(lambda x: (x, {"half": x / 2}), (X,), (dx,), has_aux=True)
    assert (aux["half"] == X / 2).all()


def test_hessian_vector_products_are_compositions() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) * np.roll(x, 1))

    x, v = RNG.normal(size=5), RNG.normal(size=5)
    forward_over_reverse = ef.jvp(ef.grad(f), (x,), (v,))[1]
    reverse_over_reverse = ef.grad(lambda x: ef.grad(f)(x) @ v)(x)
    np.testing.assert_allclose(forward_over_reverse, reverse_over_reverse, rtol=1e-12)
    np.testing.assert_allclose(forward_over_reverse, difference(lambda x: ef.grad(f)(x), [x], [v]), rtol=1e-8)


def test_numpy_that_writes_in_place_is_differentiated() -> None:
    def in_place(x: Any, w: Any) -> Any:
        out = np.zeros((6, 5))
        out[1:5] = x @ w
        out[2] *= 3
        out[:, ::2] += 1.0
        np.exp(out, out=out)
        out[np.array([0, 0, 4]), 1] = x[:3, 0] ** 2
        np.add.at(out, (np.array([1, 1]), 0), x[0, :2])
        x *= 2  # an argument: the caller's stays as it is
        return (out * out).sum() + x.sum()

    before = X.copy()
    checked(lambda x, w: in_place(x.copy(), w), X, W)
    np.testing.assert_allclose(ef.grad(in_place)(X, W), ef.grad(lambda x, w: in_place(x.copy(), w))(X, W))
    np.testing.assert_array_equal(X, before)


LAYOUTS = (lambda x: x, np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2], lambda x: x[::-1])


@pytest.mark.parametrize("lies", LAYOUTS)
def test_what_is_a_view_of_an_argument_is_one_where_it_is_differentiated(lies: Any) -> None:
    def through_a_view(x: Any) -> Any:
        x.reshape(-1)[1:] *= 2
        return np.sum(x * np.arange(1.0, x.size + 1).reshape(x.shape))

    for gradient in (ef.value_and_grad(through_a_view), ef.jit(ef.value_and_grad(through_a_view))):
        x = lies(X.copy())
        value, g = gradient(x)
        assert (x == lies(X)).all()
        assert np.isclose(np.sum(g * x), value) and np.isclose(value, through_a_view(x))


def test_a_number_that_no_argument_decides_has_zeros_for_its_gradient() -> None:
    value, g = ef.value_and_grad(lambda x: 3.0)(X)
    assert value == 3.0 and (g == np.zeros_like(X)).all()
    assert ef.jvp(lambda x: (x, 3.0), (2.0,), (1.0,)) == ((2.0, 3.0), (1.0, 0.0))
    with pytest.raises(DtypeError, match="int64, which has no gradient"):
        ef.grad(lambda x: 3)(X)


@pytest.mark.parametrize(
    "function, ct, wanted",
    [(lambda x: x, 5.0, 5.0), (lambda x: (x, 3.0), (5.0, 7.0), 5.0), (lambda x: 3.0, 5.0, 0.0), (lambda x: {}, {}, 0)],
)
def test_a_pullback_may_need_nothing_of_the_forward_pass(function: Any, ct: Any, wanted: float) -> None:
    value, pullback = ef.vjp(function, 2.0)
    assert value == function(2.0) and pullback(ct) == (wanted,) and not pullback.residuals


def test_numbers_that_nothing_is_differentiated_in_may_decide_shapes() -> None:
    def f(x: Any, steps: int, *, power: int = 2) -> Any:
        for _ in range(steps):
            x = x * x
        return x.reshape(-1, 2).sum() if power > 1 else x.sum()

    x = np.ones(4)
    np.testing.assert_allclose(ef.grad(f)(x, 3, power=2), 8 * x**7)


def test_functions_may_be_arguments_that_nothing_is_differentiated_in() -> None:
    def f(x: Any, fn: Any, *, graph: Any = None) -> Any:
        return (fn(x) if graph is None else graph(fn(x))).sum()

    cubes = ef.custom_vjp(lambda x: x**3)
    cubes.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x * x * ct,))
    for fn in (np.sin, np.cumsum, ef.gelu, lambda x: x * x, cubes, ef.jit(np.tanh), ef.grad(lambda x: (x**4).sum())):
        np.testing.assert_allclose(ef.grad(f)(B, fn), ef.grad(lambda x, fn=fn: fn(x).sum())(B))
        np.testing.assert_allclose(ef.grad(f)(B, fn=fn, graph=np.exp), ef.grad(lambda x, g=fn: np.exp(g(x)).sum())(B))
    chosen = ef.grad(lambda fs, x: fs["f"](x * fs["n"]).sum(), 1)({"f": np.sin, "n": 2}, B)
    np.testing.assert_allclose(chosen, 2 * np.cos(2 * B))


def test_complex_numbers_follow_the_convention_of_jax() -> None:
    z = np.array([1 + 2j, -0.5 + 0.3j])
    np.testing.assert_allclose(ef.grad(lambda z: np.sum(np.abs(z) ** 2))(z), 2 * z.conj())
    np.testing.assert_allclose(ef.grad(lambda z: np.sum(z * z), holomorphic=True)(z), 2 * z)
    np.testing.assert_allclose(ef.grad(lambda z: np.sum((z * 1j).real * z.imag))(z), -2 * z.imag * -1j)


def test_random_numbers_are_drawn_once_for_both_passes() -> None:
    def dropped(x: Any, rng: Any) -> Any:
        keep = rng.uniform(size=x.shape) < 0.5
        return np.where(keep, x * x, 0).sum()

    g = ef.jit(ef.grad(dropped), target="numpy")(X, np.random.default_rng(1))
    keep = np.random.default_rng(1).uniform(size=X.shape) < 0.5
    np.testing.assert_allclose(g, np.where(keep, 2 * X, 0))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cotangents_of_narrow_floats_are_added_up_in_float32(dtype: str) -> None:
    x, ones = np.array(1.0, dtype), np.full(20_000, 0.1, dtype)
    gradient = ef.grad(lambda x: np.sum((x * ones).astype(np.float32)))(x)
    assert gradient.dtype == dtype and abs(float(gradient) - 2000) < 2

    def read_in_every_step(x: Any) -> Any:
        return ef.scan(lambda c, r: (c, (x * r).astype(np.float32)), np.zeros((), dtype), ones[:6000])[1].sum()

    gradient = ef.grad(read_in_every_step)(x)
    assert gradient.dtype == dtype and abs(float(gradient) - 600) < 1

    def read_thrice(x: Any) -> Any:
        return sum((x * factor).astype(np.float32) for factor in np.array([1, 2048, 0.75], dtype))

    assert ef.grad(read_thrice)(x) == np.array(2049.75, dtype)  # 2048 + 1 is 2048 in float16, where this is 2050

    columns = np.array([1.0, 2.0], dtype)  # NumPy adds float16 one by one across the axis that lies side by side
    gradient = ef.grad(lambda x: np.sum((x * ones[:, None]).astype(np.float32)))(columns)
    assert gradient.dtype == dtype and np.abs(gradient.astype(np.float64) - 2000).max() < 2


def test_what_is_stopped_counts_as_a_constant_for_derivatives_of_every_order() -> None:
    def f(x: Any) -> Any:
        kept = ef.stop_gradient({"y": x * x, "n": 3})
        return (kept["y"] * x).sum() * kept["n"]

    np.testing.assert_allclose(ef.grad(f)(X), 3 * X * X)
    second = ef.grad(lambda x: ef.grad(f)(x).sum())(X)
    np.testing.assert_array_equal(second, np.zeros_like(X))
    assert f(X) == ef.jit(f, target="numpy")(X)
    np.testing.assert_allclose(ef.jvp(f, (X,), (np.ones_like(X),))[1], 3 * (X * X).sum())


def test_the_gradient_of_a_softmax_does_not_go_through_its_shift() -> None:
    for fn in (ef.softmax, ef.log_softmax, ef.logsumexp):
        checked(lambda x, fn=fn: np.sum(fn(x) * np.cos(np.arange(3))), X)
        ops = [n.op for n in ef.trace(ef.grad(lambda x, fn=fn: np.sum(fn(x) ** 2)), X).operators]
        assert "equal" not in ops and ops.count("exp") == 1


@pytest.mark.outside
def test_a_model_is_differentiated_by_position_or_by_name() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 21]>
        layer (float[n, 3] x, float[3, 4] w) => (float y) {
            h = MatMul (x, w) g = Gelu <approximate = "tanh"> (h) y = ReduceSum <keepdims = 0> (g)
        }""")
    graph, x, w = ef.from_onnx(model, n=2), X[:2].astype(np.float32), W[:, :4].astype(np.float32)
    gx, gw = ef.grad(graph, (0, 1))(x, w)
    wanted = ef.grad(lambda x, w: ef.gelu(x @ w, approximate="tanh").sum(), (0, 1))(x, w)
    np.testing.assert_allclose(gx, wanted[0], rtol=1e-5)
    np.testing.assert_allclose(gw, wanted[1], rtol=1e-5)
    np.testing.assert_array_equal(ef.grad(graph)(x, w=w), gx)
