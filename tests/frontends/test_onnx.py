"""What `ef.from_onnx` makes of a model: inputs, sizes, constants, functions, control flow; and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError, ShapeError, TargetUnavailable, TraceError, UnsupportedOp

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
pytestmark = pytest.mark.outside

F = np.float32
X = np.arange(12, dtype=F).reshape(3, 4) / 4 - 1


def model(graph: str, functions: str = "", opset: int = 21) -> Any:
    """A model in ONNX's own text, ``main (float[3, 4] x) => (float[3, 4] y) { … }``."""
    imports = f'"": {opset}' + (', "local": 1' if functions else "")
    return onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> {graph} {functions}")


SOFTMAX = "main (float[3, 4] x) => (float[3, 4] y) { y = Softmax <axis = -1> (x) }"


# ---- one model, many ways in and out


def test_a_compound_operator_is_the_same_graph_as_the_function_of_that_name() -> None:
    traced = ef.trace(ef.softmax, ef.spec((3, 4), F))
    assert ef.from_onnx(model(SOFTMAX)).outputs == traced.outputs


def test_a_path_and_a_model_give_the_same_graph(tmp_path: Path) -> None:
    onnx.save(model(SOFTMAX), tmp_path / "softmax.onnx")
    graph = ef.from_onnx(model(SOFTMAX))
    assert ef.from_onnx(tmp_path / "softmax.onnx") == ef.from_onnx(str(tmp_path / "softmax.onnx")) == graph


def test_a_loaded_model_compiles_and_saves(tmp_path: Path) -> None:
    program = ef.compile(ef.from_onnx(model(SOFTMAX)))
    program.save(tmp_path / "program")
    for version in (program, ef.load(tmp_path / "program")):
        np.testing.assert_allclose(version(X), np.exp(X) / np.exp(X).sum(-1, keepdims=True), rtol=1e-6)
        np.testing.assert_array_equal(version(x=X), version(X))


TWO = "main (float[3, 4] b, float[3, 4] a) => (float[3, 4] difference, float[3, 4] total) { total = Add (a, b) \
    difference = Sub (a, b) }"


def test_inputs_and_outputs_keep_the_models_order_and_names(tmp_path: Path) -> None:
    graph = ef.from_onnx(model(TWO))
    program = ef.compile(graph)
    program.save(tmp_path / "program")
    for call in (lambda *a, **k: ef.meaning(graph, *a, **k), program, ef.load(tmp_path / "program")):
        difference, total = call(X, 2 * X)
        np.testing.assert_array_equal(difference, X)
        np.testing.assert_array_equal(call(a=2 * X, b=X).total, total)
        np.testing.assert_array_equal(call(X, a=2 * X).difference, difference)


@pytest.mark.parametrize("args, kwargs", [((X,), {}), ((X, X, X), {}), ((X,), {"b": X}), ((X, X), {"c": X})])
def test_arguments_that_do_not_fit_the_inputs_are_refused(args: tuple, kwargs: dict) -> None:
    with pytest.raises(ShapeError, match="'b', 'a'"):
        ef.meaning(ef.from_onnx(model(TWO)), *args, **kwargs)


def test_initialisers_become_constants() -> None:
    weighted = "main (float[3, 4] x) => (float[3, 4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul (x, w) }"
    graph = ef.from_onnx(model(weighted))
    assert [n.attr("name") for n in graph.inputs] == ["x"]
    np.testing.assert_array_equal(ef.meaning(graph, X), X * np.array([1, 2, 3, 4], F))


def test_data_in_other_files_is_read(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.arange(4, dtype=F), "w")
    proto = model("main (float[3, 4] x, float[4] w) => (float[3, 4] y) { y = Mul (x, w) }")
    del proto.graph.input[1]
    proto.graph.initializer.append(weights)
    path = tmp_path / "large.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="large.data", size_threshold=0)
    np.testing.assert_array_equal(ef.meaning(ef.from_onnx(path), X), X * np.arange(4, dtype=F))
    (tmp_path / "large.data").unlink()
    with pytest.raises(EqfuseError, match=r"large\.onnx"):
        ef.from_onnx(path)


# ---- sizes and values

SYMBOLIC = "main (float[batch, seq, 4] x) => (float[batch, N] y) { y = Flatten (x) }"


def test_symbolic_sizes_take_numbers_by_name() -> None:
    graph = ef.from_onnx(model(SYMBOLIC), batch=2, seq=3)
    assert graph.inputs[0].shape == (2, 3, 4) and graph.outputs[0].shape == (2, 12)


def test_a_shape_may_be_given_as_a_whole() -> None:
    assert ef.from_onnx(model(SYMBOLIC), x=(5, 1, 4)).inputs[0].shape == (5, 1, 4)


def test_missing_and_unknown_sizes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"'seq' of 'x'"):
        ef.from_onnx(model(SYMBOLIC), batch=2)
    with pytest.raises(ShapeError, match=r"no symbolic size 'sequence'; it has 'batch', 'seq'"):
        ef.from_onnx(model(SYMBOLIC), batch=2, sequence=3)


def test_shapes_computed_in_the_model_are_known() -> None:
    graph = ef.from_onnx(model("""main (float[batch, 3, 4] x) => (float[batch, N] y) <int64[1] rest = {-1}> {
        shape = Shape (x)
        zero = Constant <value_ints = [0]> ()
        first = Gather (shape, zero)
        wanted = Concat <axis = 0> (first, rest)
        y = Reshape (x, wanted)
    }"""), batch=2)  # fmt: skip
    assert [n.op for n in graph.nodes] == ["input", "reshape"] and graph.outputs[0].shape == (2, 12)


RESHAPED = "main (float[3, 4] x, int64[2] shape) => (float[M, N] y) { y = Reshape (x, shape) }"


def test_a_shape_that_is_an_input_is_named_and_may_be_fixed() -> None:
    with pytest.raises(TraceError, match=r"the Reshape node that makes 'y'.*'shape'.*from_onnx\(model, \{'shape'"):
        ef.from_onnx(model(RESHAPED))
    graph = ef.from_onnx(model(RESHAPED), {"shape": [2, 6]})
    assert [n.attr("name") for n in graph.inputs] == ["x"] and graph.outputs[0].shape == (2, 6)


@pytest.mark.parametrize("value", [[2.0, 6.0, 1.0], np.zeros(2, F), np.zeros((2, 1), np.int64)])
def test_a_fixed_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(ShapeError, match="'shape'"):
        ef.from_onnx(model(RESHAPED), {"shape": value})


# ---- functions and control flow


def test_the_models_own_functions_are_inlined_with_their_attributes() -> None:
    graph = ef.from_onnx(model(
        "main (float[3, 4] x) => (float[3, 4] y) { y = local.leaky <slope = 0.5> (x) }",
        """<domain: "local", opset_import: ["": 21]>
        leaky <slope> (a) => (b) { b = LeakyRelu <alpha: float = @slope> (a) }""",
    ))  # fmt: skip
    np.testing.assert_array_equal(ef.meaning(graph, X), np.where(X > 0, X, X / 2))


BRANCH = """main ({inputs}) => (float[3, 4] y) {extra} {{ y = If (c) <
    then_branch = yes () => (float[3, 4] a) {{ a = Neg (x) }},
    else_branch = no () => (float[3, 4] b) {{ b = Exp (x) }}
> }}"""


def test_a_branch_on_a_known_condition_is_taken() -> None:
    graph = ef.from_onnx(model(BRANCH.format(inputs="float[3, 4] x", extra="<bool c = {1}>")))
    np.testing.assert_array_equal(ef.meaning(graph, X), -X)


def test_a_loop_of_few_known_steps_is_unrolled() -> None:
    graph = ef.from_onnx(model("""main (float[4] x) => (float[4] y, float[3, 4] all)
        <int64 n = {3}, bool go = {1}> { y, all = Loop (n, go, x) <
        body = step (int64 i, bool c, float[4] before) => (bool d, float[4] after, float[4] shown) {
            d = Identity (c)
            after = Add (before, before)
            shown = Identity (after)
        }> }"""))  # fmt: skip
    y, every = ef.meaning(graph, X[0])
    np.testing.assert_array_equal(y, 8 * X[0])
    np.testing.assert_array_equal(every, np.stack([2 * X[0], 4 * X[0], 8 * X[0]]))


# ---- refusals


def test_an_operator_that_is_not_in_the_table_is_named_with_its_node_and_model() -> None:
    with pytest.raises(UnsupportedOp, match=r"model 'main'.*the NonZero node that makes 'y'.*depends on data"):
        ef.from_onnx(model("main (float[3, 4] x) => (int64[2, N] y) { y = NonZero (x) }"))
    custom = model("main (float[3, 4] x) => (float[3, 4] y) { y = Neg (x) }")
    custom.graph.node[0].op_type, custom.graph.node[0].domain = "Mystery", "local"
    custom.opset_import.add(domain="local", version=1)
    with pytest.raises(UnsupportedOp, match=r"local\.Mystery cannot be loaded"):
        ef.from_onnx(custom)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("this is no model")
    for wrong in (tmp_path / "missing.onnx", tmp_path / "text.onnx", tmp_path, 3):
        with pytest.raises(EqfuseError):
            ef.from_onnx(wrong)


def test_an_invalid_model_is_refused_by_the_checker() -> None:
    invalid = model(SOFTMAX)
    invalid.graph.node[0].input[0] = "nothing"
    with pytest.raises(EqfuseError, match="nothing"):
        ef.from_onnx(invalid)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    with pytest.raises(ShapeError, match=r"the MatMul node that makes 'y'"):
        ef.from_onnx(model("main (float[3, 4] x) => (float[3, 4] y) { y = MatMul (x, x) }"))


def test_an_element_type_without_a_tensor_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match=r"the input 'x' has dtype object"):
        ef.from_onnx(model("main (string[3] x) => (string[3] y) { y = Identity (x) }"))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TargetUnavailable, match=r"eqfuse\[onnx\]"):
        ef.from_onnx("model.onnx")


def test_a_transposed_convolution_of_steps_multiplies_no_zeros_between_elements() -> None:
    graph = ef.from_onnx(model("""main (float[1, 4, 5, 6] x, float[4, 3, 2, 2] w) => (float[1, 3, 10, 12] y) {
        y = ConvTranspose <strides = [2, 2]> (x, w) }"""))  # fmt: skip
    (conv,) = [n for n in graph.nodes if n.op == "conv"]
    assert conv.shape == (1, 12, 5, 6) and conv.args[1].shape == (12, 4, 1, 1)
    x, w = (np.random.default_rng(0).standard_normal(n.shape).astype(np.float32) for n in graph.inputs)
    wanted = np.einsum("ncij,cfab->nfiajb", x, w).reshape(1, 3, 10, 12)
    np.testing.assert_allclose(ef.meaning(graph, x, w), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("declared", ["5, 3", "N, 4", "6"])
def test_an_output_of_another_shape_than_the_model_declares_is_told_of(declared: str) -> None:
    text = f'<ir_version: 10, opset_import: ["": 21]> main (float[N, 3] x) => (float[{declared}] y) {{ y = Relu (x) }}'
    with pytest.warns(UserWarning, match=r"'y' has the shape \(2, 3\), and is declared as") as told:
        ef.from_onnx(onnx.parser.parse_model(text), N=2)
    assert told[0].filename == __file__
