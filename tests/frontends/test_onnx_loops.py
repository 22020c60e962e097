"""ONNX control flow and recurrent layers as loops: against onnxruntime's answer, or the same model unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import TraceError
from eqfuse.frontends.onnx import loops, recurrent
from eqfuse.ops.loops import LOOPS

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
pytestmark = pytest.mark.outside

F = np.float32
X = np.arange(4, dtype=F)


def model(text: str) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')


def operators(graph: ef.Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op in LOOPS]


def test_a_branch_on_data_is_a_choice():
    graph = ef.from_onnx(model("""main (float[4] x, bool c) => (float[4] y) { y = If (c) <
        then_branch = yes () => (float[4] a) { a = Neg (x) },
        else_branch = no () => (float[4] b) { b = Exp (x) }
    > }"""))  # fmt: skip
    assert operators(graph) == ["if_else"]
    for c in (True, False):
        np.testing.assert_allclose(ef.meaning(graph, X, np.array(c)), -X if c else np.exp(X), rtol=1e-6)


def test_branches_of_different_shapes_are_refused_with_their_node():
    with pytest.raises(ef.EqfuseError, match=r"(?s)If node that makes 'y'.*float32\[4\] by true_fun"):
        ef.from_onnx(model("""main (float[4] x, bool c) => (float[N] y) { y = If (c) <
            then_branch = yes () => (float[4] a) { a = Neg (x) },
            else_branch = no () => (float[8] b) { b = Concat <axis = 0> (x, x) }
        > }"""))  # fmt: skip


STEP = """body = step (int64 i, bool c, float[4] before) => (bool d, float[4] after, float[4] shown) {
    d = Identity (c)
    f = CastLike (i, before)
    half = Constant <value_float: float = 0.5> ()
    less = Mul (before, half)
    after = Add (less, f)
    shown = Neg (after)
}"""


def stepped(count: int) -> tuple[np.ndarray, np.ndarray]:
    v, shown = X, []
    for i in range(count):
        v = v * F(0.5) + F(i)
        shown.append(-v)
    return v, np.stack(shown)


@pytest.mark.parametrize(("count", "kinds"), [(3, []), (20, ["scan"])])
def test_a_loop_of_many_known_steps_stays_one(count: int, kinds: list[str]):
    text = f"main (float[4] x) => (float[4] y, float[{count}, 4] all) <int64 n = {{{count}}}, bool go = {{1}}>"
    graph = ef.from_onnx(model(f"{text} {{ y, all = Loop (n, go, x) < {STEP} > }}"))
    assert operators(graph) == kinds
    for got, wanted in zip(ef.meaning(graph, X), stepped(count), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_loop_whose_steps_depend_on_data_runs_until_it_ends():
    graph = ef.from_onnx(model("""main (float[4] x, int64 n, bool go) => (float[4] y) { y = Loop (n, go, x) <
        body = step (int64 i, bool c, float[4] before) => (bool d, float[4] after) {
            after = Add (before, before)
            most = ReduceMax <keepdims = 0> (after)
            limit = Constant <value_float: float = 50.0> ()
            d = Less (most, limit)
        }> }"""))  # fmt: skip
    assert operators(graph) == ["while_loop"]
    for n, go, factor in ((100, True, 32), (3, True, 8), (0, True, 1), (3, False, 1)):
        np.testing.assert_array_equal(ef.meaning(graph, X, np.int64(n), np.array(go)), X * factor)


def test_rows_of_a_number_that_data_decide_are_refused():
    with pytest.raises(TraceError, match=r"trip count of Loop.*whose number would depend on data.*input 'n'"):
        ef.from_onnx(model("main (float[4] x, int64 n) => (float[4] y, float[N, 4] all) "
                           f'{{ y, all = Loop (n, "", x) < {STEP} > }}'))  # fmt: skip


@pytest.mark.parametrize("directions", [(0, 0), (1, 1), (1, 0)])
def test_a_scan_stays_one(directions: tuple[int, int]):
    turned = f"scan_input_directions = [{directions[0]}], scan_output_directions = [{directions[1]}]"
    graph = ef.from_onnx(model(
        "main (float[4] start, float[2, 12, 4] xs) => (float[4] last, float[2, 4, 12] ys) <int64[1] axis = {0}> {"
        f"last, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1], {turned}, "
        """body = step (float[4] s, float[2, 4] x) => (float[4] t, float[2, 4] y) {
            top = ReduceSum <keepdims = 0> (x, axis)
            t = Add (s, top)
            y = Mul (x, t)
        }> (start, xs) }"""
    ))  # fmt: skip
    assert operators(graph) == ["scan"]
    xs = np.random.default_rng(0).normal(size=(2, 12, 4)).astype(F)
    s, ys = X, []
    for x in np.moveaxis(xs, 1, 0)[:: -1 if directions[0] else 1]:
        s = s + x.sum(0)
        ys.append(x * s)
    last, got = ef.meaning(graph, X, xs)
    np.testing.assert_allclose(last, s, rtol=1e-5)
    np.testing.assert_allclose(got, np.stack(ys[:: -1 if directions[1] else 1], -1), rtol=1e-4, atol=1e-5)


def layer(op: str, steps: int, direction: str, lengths: bool) -> Any:
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    rng, gates, n = np.random.default_rng(0), {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 1 + (direction == "bidirectional")
    shapes = {"w": (n, gates * 3, 2), "r": (n, gates * 3, 3), "b": (n, 2 * gates * 3)}
    arrays: dict[str, Any] = {name: rng.normal(size=shape).astype(F) for name, shape in shapes.items()}
    if lengths:
        arrays["lengths"] = rng.integers(1, steps + 1, 4).astype(np.int32)
    cell = helper.make_node(op, ["x", *arrays], ["y", "h"], hidden_size=3, direction=direction)
    results = [("y", ["a", "b", "c", "d"]), ("h", ["b", "c", "d"])]
    graph = helper.make_graph(
        [cell], "main", [helper.make_tensor_value_info("x", real, [steps, 4, 2])],
        [helper.make_tensor_value_info(name, real, shape) for name, shape in results],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_a_recurrent_layer_of_many_steps_is_a_scan(op: str, direction: str, lengths: bool, monkeypatch):
    proto = layer(op, 11, direction, lengths)
    graph = ef.from_onnx(proto)
    assert operators(graph) == ["scan"] * (1 + (direction == "bidirectional"))
    monkeypatch.setattr(recurrent, "ROLLED", 100)
    unrolled = ef.from_onnx(proto)
    assert not operators(unrolled)
    x = np.random.default_rng(1).normal(size=(11, 4, 2)).astype(F)
    for got, wanted in zip(ef.meaning(graph, x), ef.meaning(unrolled, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_a_long_recurrent_layer_is_few_kernels():
    program = ef.compile(ef.from_onnx(layer("LSTM", 64, "forward", False)), target="numpy")
    assert program.report.n_kernels <= 6
    x = np.random.default_rng(1).normal(size=(64, 4, 2)).astype(F)
    for got, wanted in zip(program(x), ef.meaning(program.plan.graph, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_a_loop_whose_steps_differ_in_what_they_make_is_unrolled():
    assert loops.ROLLED <= 9
    graph = ef.from_onnx(model("""main (float[4] x) => (float[40] y) <int64 n = {9}, bool go = {1}> {
        y = Loop (n, go, x) <
            body = step (int64 i, bool c, float[M] before) => (bool d, float[N] after) {
                d = Identity (c)
                after = Concat <axis = 0> (before, x)
            }> }"""))  # fmt: skip
    np.testing.assert_array_equal(ef.meaning(graph, X), np.tile(X, 10))
