"""What tracing records and what it refuses: a refusal names the user's line and says what to write instead."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy import tracing
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.evaluate import evaluate, meaning
from eqfuse.ir.text import parse
from tests.frontends.agreement import agrees, sample

X = sample((3, 4), "float32")


def operators(fn: Any, *args: Any) -> list[str]:
    return [n.op for n in trace(fn, *args).operators]


# ---- graphs are tidy


def test_reshape_of_reshape_is_one_reshape():
    assert operators(lambda x: x.reshape(2, 6).reshape(-1).reshape(4, 3), X) == ["reshape"]


def test_transposes_compose_and_vanish():
    assert operators(lambda x: x.T.T + x.swapaxes(0, 1).T, X) == ["add"]
    assert operators(lambda x: x.transpose(2, 0, 1).transpose(2, 0, 1), spec((2, 3, 4))) == ["transpose"]


def test_a_view_that_changes_nothing_vanishes():
    view = lambda x: np.broadcast_to(x[:, ::1][...], x.shape).astype(x.dtype).squeeze().reshape(x.shape)  # noqa: E731
    assert operators(view, X) == []
    assert operators(lambda x: x[:, ::-1][:, ::-1], X) == []


def test_a_slice_of_a_slice_is_one_slice():
    graph = trace(lambda x: x[1:9][::2][1:], spec(10))
    assert [n.op for n in graph.operators] == ["slice"]
    assert graph.outputs[0].attrs == (((3, 8, 2),),)


def test_a_new_axis_after_a_reduction_returns_to_the_kept_axis():
    with_new_axis = trace(lambda x: x - x.max(1)[:, None], X)
    assert with_new_axis.outputs == trace(lambda x: x - x.max(1, keepdims=True), X).outputs
    mean = trace(lambda x: x - x.mean(1)[:, None], X)
    assert mean.outputs == trace(lambda x: x - x.mean(1, keepdims=True), X).outputs


def test_equal_work_is_recorded_once():
    assert operators(lambda x: np.exp(x) + np.exp(x), X) == ["exp", "add"]


def test_a_traced_graph_prints_as_text_that_rebuilds_it():
    graph = trace(lambda p: {"y": np.tanh(p["x"] @ p["w"].T).sum(0)}, {"x": X, "w": X})
    assert parse(str(graph)) == graph
    assert [n.attr("name") for n in graph.inputs] == ["p['x']", "p['w']"]


def test_a_closure_array_is_a_constant():
    weight = sample((4, 2), "float32", 1)
    graph = trace(lambda x: x @ weight, X)
    assert len(graph.inputs) == 1
    np.testing.assert_array_equal(meaning(graph, X), X @ weight)


def test_specs_stand_for_arrays():
    graph = trace(lambda x, w: x @ w, spec((8, 3), "float32"), spec((3, 2), np.float32))
    assert str(graph.outputs[0].type) == "float32[8, 2]"


# ---- arguments and results


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


def test_containers_nest_in_and_out():
    def fn(params, xs, *, flag=None):
        y = params["layers"][0].w * xs.a + params["layers"][0].b - xs.b
        return Pair([y], {"sum": y.sum(), "none": flag, "n": 3}), Layer(y, "text")

    args = ({"layers": [Layer(X, X)]}, Pair(X, 2 * X))
    pair, layer = meaning(trace(fn, *args), *args)
    np.testing.assert_array_equal(pair.a[0], X * X + X - 2 * X)
    assert isinstance(pair, Pair) and isinstance(layer, Layer)
    assert pair.b["none"] is None and pair.b["n"] == 3 and layer.b == "text"


def test_keywords_and_positions_are_one_signature():
    graph = trace(lambda x, y, scale=2.0: (x - y) * scale, X, y=2 * X)
    np.testing.assert_array_equal(meaning(graph, X, 2 * X), -2 * X)
    assert len(graph.inputs) == 2  # the default that was not given is a constant


def test_static_arguments_keep_their_values():
    def fn(x, axis, mode, *, power=2):
        return (x**power).sum(axis) if mode == "sum" else x

    graph = trace(fn, X, 1, "sum", power=3, static_argnames=("axis", "mode", "power"))
    assert len(graph.inputs) == 1
    np.testing.assert_allclose(meaning(graph, X, 1, "sum"), (X**3).sum(1), rtol=1e-6)


def test_a_static_argument_may_stand_before_a_traced_one():
    graph = trace(lambda axis, x, *rest: x.sum(axis) + rest[0], 0, X, X[0], static_argnames="axis")
    np.testing.assert_allclose(meaning(graph, 0, X, X[0]), X.sum(0) + X[0])


def test_an_unknown_static_name_is_refused():
    with pytest.raises(TraceError, match="no parameter 'axes'"):
        trace(lambda x, axis: x.sum(axis), X, 0, static_argnames="axes")


def test_arguments_that_nest_differently_are_refused_when_called():
    graph = trace(lambda xs: xs[0] + xs[1], [X, X])
    with pytest.raises(ShapeError, match="nest differently"):
        meaning(graph, [X])


def test_a_function_may_return_constants_and_its_arguments():
    graph = trace(lambda x: (x, np.ones(2), 1.5, np.float32(2)), X)
    same, ones, number, scalar = meaning(graph, X)
    assert number == 1.5 and scalar.dtype == np.float32 and ones.shape == (2,)
    np.testing.assert_array_equal(same, X)


# ---- Python scalars are inputs that give way in promotion


@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("scalar", [3, 0.5, True, -2], ids=repr)
def test_a_python_scalar_argument_promotes_as_numpy_does(scalar, dtype):
    x = sample((2, 3), dtype)
    agrees(lambda a, s: a * s, x, scalar)
    agrees(lambda a, s: np.add(s, a), x, scalar)
    agrees(lambda a, s: a * (s + 1), x, scalar)
    agrees(lambda a, s: a * (s / 2), x, scalar)
    agrees(lambda a, s: np.where(a > s, a, s), x, scalar)
    agrees(lambda a, s: a * np.sqrt(abs(s) + 1), x, scalar)
    agrees(lambda a, s: (a.astype(np.float32) + s) ** 2, x, scalar)
    agrees(lambda a, s: np.clip(a, s, s + 1), x, scalar)


def test_a_program_serves_every_value_of_a_python_scalar():
    graph = trace(lambda x, s: x * s, X, 2.0)
    np.testing.assert_array_equal(meaning(graph, X, 5.0), X * 5.0)


# ---- in-place operators on traced arrays


def test_in_place_operators_keep_the_dtype():
    def fn(x):
        y = x + 1
        alias = y
        y *= 2
        y /= np.float64(3)
        return y, alias

    agrees(fn, X)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: np.broadcast_to(x, (2, 3, 4)).__iadd__(1), "read-only"),
        (lambda x: (x > 0).__iadd__(1), "cannot be cast"),
        (lambda x: (x[0] + 1).__iadd__(x), "does not fit"),
    ],
)
def test_an_in_place_change_that_numpy_or_tracing_cannot_do_is_refused(fn, message):
    with pytest.raises((TraceError, ShapeError), match=message):
        trace(fn, X)


# ---- refusals


def refusal(error: type[Exception], fn: Any, *args: Any) -> str:
    """The message of `error`; its last line must be the line of `fn` that is marked."""
    with pytest.raises(error) as caught:
        trace(fn, *args)
    lines, start = inspect.getsourcelines(fn)
    marked = [start + i for i, text in enumerate(lines) if "# here" in text]
    assert f"{__file__}:{marked[0]}: " in str(caught.value)
    return str(caught.value)


def test_a_branch_on_data_is_refused():
    def fn(x):
        if x.sum() > 0:  # here
            return x
        return -x

    message = refusal(TraceError, fn, X)
    assert "truth value of a traced bool[]" in message and "np.where" in message and "static_argnames" in message


def test_conversions_to_python_numbers_are_refused():
    import math

    def root(x):
        return math.sqrt(x[0, 0])  # here

    def integer(x):
        return int(x[0, 0])  # here

    def size(x, n):
        return np.zeros(n) + x  # here

    def axis(x, n):
        return x.sum(axis=n)  # here

    def item(x):
        return x[0, 0].item()  # here

    def steps(x, n):
        return [x for _ in range(n)]  # here

    assert "math.sqrt" in refusal(TraceError, root, X)
    for fn, args in ((integer, (X,)), (size, (X, 3)), (axis, (X, 1)), (item, (X,)), (steps, (X, 2))):
        refusal(TraceError, fn, *args)


def test_libraries_that_convert_their_arguments_are_refused():
    def convert(x):
        return memoryview(x.__array__())  # here

    assert "np.stack" in refusal(TraceError, convert, X)


def test_unsupported_functions_are_named():
    def save(x):
        return np.savetxt("x", x)  # here

    def distinct(x):
        return np.unique(x)  # here

    def method(x):
        return x.byteswap()  # here

    assert "np.savetxt" in refusal(TraceError, save, X)
    assert "np.sort, and compare neighbours" in refusal(TraceError, distinct, X)
    assert "ndarray.byteswap" in refusal(UnsupportedOp, method, X)


def test_writing_into_an_array_made_outside_is_refused():
    buffer = np.zeros((3, 4), np.float32)

    def out(x):
        return np.add(x, 1, out=buffer)  # here

    def positional(x):
        return np.sum(x, 0, None, buffer[0])  # here

    def assigned(x):
        buffer[0] = x[0]  # here
        return buffer

    refusal(TraceError, assigned, X)
    for fn in (out, positional):
        assert "k = k + y" in refusal(TraceError, fn, X)


def test_shape_errors_are_raised_at_the_users_line():
    def misfit(x):
        y = x + 1
        return y @ x  # here

    def broadcast(x):
        return x + x.T  # here

    def reshape(x):
        return x.reshape(5, -1)  # here

    def axis(x):
        return x.sum(axis=2)  # here

    def bounds(x):
        return x[:, 4]  # here

    def stack(x):
        return np.concatenate([x, x.T])  # here

    def equation(x):
        return np.einsum("ij,jk->ik", x, x)  # here

    for fn in (misfit, broadcast, reshape, axis, bounds, stack, equation):
        refusal(ShapeError, fn, X)


def test_results_whose_shape_depends_on_data_are_refused():
    def mask(x):
        return x[x > 0]  # here

    def lone_where(x):
        return np.where(x > 0)  # here

    assert "np.where(mask, x, fill)" in refusal(TraceError, mask, X)
    refusal(TraceError, lone_where, X)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.array([object()]), "object"),
        (np.array(["a"]), "<U1"),
        (np.zeros(2, [("a", "f4")]), "a"),
        (np.zeros(2, np.longdouble), "longdouble|float128|float96"),
        (np.zeros(2, np.clongdouble), "clongdouble|complex256|complex192"),
        (np.zeros(2, "M8[s]"), "datetime64"),
        (np.zeros(2, ml_dtypes.int4), "int4"),
        (np.zeros(2, ">f4"), "native"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        (np.zeros((1, 1)).view(np.matrix), "matrix"),
        ({1, 2}, "set"),
    ],
    ids=[
        "object",
        "string",
        "structured",
        "longdouble",
        "clongdouble",
        "datetime",
        "int4",
        "byte-swapped",
        "masked",
        "matrix",
        "set",
    ],
)
def test_what_is_no_tensor_is_refused_by_name(value, named):
    with pytest.raises(TraceError, match=named) as caught:
        trace(lambda first, second: first, X, value)
    assert "'second'" in str(caught.value)


def test_a_tracer_is_refused_outside_of_its_trace():
    def outer(x):
        with pytest.raises(TraceError, match="used outside the call that made it"):
            trace(lambda y: y + x, X)
        return x

    trace(outer, X)


def test_an_unrolled_loop_over_elements_is_stopped_with_advice(monkeypatch):
    monkeypatch.setattr(tracing, "MAX_NODES", 1000)

    def loop(x):
        for _ in range(1000):
            x = x + 1  # here
        return x

    assert "array operations" in refusal(TraceError, loop, np.float32(1))


def test_tracing_a_graph_does_not_compute():
    graph = trace(lambda x: np.exp(x) @ x.T, spec((10**6, 10**5), "float32"))
    assert graph.outputs[0].shape == (10**6, 10**6)


def test_the_flat_evaluator_takes_one_array_per_input():
    graph = trace(lambda x, s: x * s, X, 2.0)
    (result,) = evaluate(graph, [X, np.float32(3.0)])
    np.testing.assert_array_equal(result, X * 3)
