"""Plans as ONNX models: onnxruntime runs them to the evaluator's answers, and `from_onnx` reads them back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.benches.corpus.controls import CONTROLS
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.demo import programs
from eqfuse.emit.onnx.table import NOT_EXPORTED, ONNX_WRITERS
from eqfuse.errors import ShapeError, TargetUnavailable, UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops import TABLE as OPERATORS
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.special import SPECIAL_UFUNCS
from eqfuse.ops.types import tensor_type
from eqfuse.plan.plan import Plan
from tests.runtime.test_program import one_kernel_per_operator
from tests.support.random_graphs import random_graph

onnx = pytest.importorskip("onnx", reason="writing ONNX models needs the package onnx")
ort = pytest.importorskip("onnxruntime", reason="running ONNX models needs the package onnxruntime")
pytestmark = pytest.mark.outside

SHORT = ef.Budget(nodes=1000, rounds=6)
DTYPES = [d for d in dtypes.TENSORS if d.kind != "c" and d not in dtypes.ADDED]
EVERY = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)


def session(model: Any) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    inference = session(model)
    return inference.run(None, dict(zip([i.name for i in inference.get_inputs()], arrays, strict=True)))


def agree(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], names: Sequence[str] = (), ulps: int = 64) -> None:
    """The same dtypes and shapes; integers the same, floats up to `ulps` of the largest, NaN and infinity in place."""
    for i, (g, w) in enumerate(zip(got, wanted, strict=True)):
        name = names[i] if names else str(i)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), name
        if w.dtype.kind != "f":
            np.testing.assert_array_equal(g, w, err_msg=name)
            continue
        near = ulps * dtypes.epsilon(w.dtype)
        scale = max(1.0, float(np.abs(w[np.isfinite(w)].astype(np.float64)).max(initial=0.0)))
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), near, near * scale, err_msg=name)


def judge(graph: Graph, plan: Plan, arrays: Sequence[np.ndarray], names: Sequence[str] = (), ulps: int = 64) -> Any:
    model = ef.to_onnx(plan)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, arrays)
    agree(run(model, arrays), wanted, names, ulps)
    return model


# ---- every operator, in every dtype


def values(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small numbers, and those at which operators differ: NaN, infinities, the largest and the least."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape) > 0)
    if dtype.kind == "f":
        x = np.asarray(rng.integers(-9, 10, shape) / 2).astype(dtype)
        edges = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-3, 0.7, -0.3]
    else:
        info = np.iinfo(dtype)
        x = np.asarray(rng.integers(-5 if dtype.kind == "i" else 0, 6, shape)).astype(dtype)
        edges = [info.min, info.max, 0, -1 if dtype.kind == "i" else 1]
        edges += [2**33, 2**32 - 1] if info.bits == 64 else []
    x.reshape(-1)[: len(edges)] = edges[: x.size]
    return rng.permuted(x.reshape(-1)).reshape(shape)


def x(dtype: np.dtype, i: int = 0, shape: tuple[int, ...] = (4, 9)) -> Node:
    return input_node(f"x{i} {shape}", tensor_type(f"{dtype.name}[{', '.join(map(str, shape))}]"))


I64, BOOL = np.dtype(np.int64), np.dtype(bool)
IMAGE = (2, 4, 6, 7)
ATTRIBUTES: dict[str, list[tuple[list[Any], tuple]]] = {  # arguments, by shape or as they are, and attributes
    **{op: [([(4, 9)], ((-1,),)), ([(2, 3, 5)], ((-3, -1),)), ([(4, 9)], ((),))] for op in ("max", "min")},
    **{op: [([(4, 9)], ((-1,),)), ([(2, 3, 5)], ((-3, -1),)), ([(4, 9)], ((),)), ([(4, 0)], ((-1,),))]
       for op in ("sum", "prod")},
    **{op: [([(4, 9)], ((-2,),)), ([(4, 0)], ((-1,),)), ([(4, 9)], ((),))] for op in ("any", "all")},
    **{op: [([(4, 9)], ((-1,),)), ([(4, 9)], ((-2,),))] for op in ("argmax", "argmin")},
    "cumsum": [([(4, 9)], (-2,)), ([(4, 9)], (-1,))],
    **{op: [([(4, 9)], (-1, True)), ([(4, 9)], (-2, True))] for op in ("sort", "argsort")},
    "transpose": [([(4, 9)], ((1, 0),)), ([()], ((),))],
    "reshape": [([(4, 9)], ((2, 18),)), ([(4, 0)], ((0, 7),)), ([(1, 1)], ((),))],
    "broadcast_to": [([(4, 1)], ((3, 4, 5),)), ([()], ((2, 2),)), ([(1, 3)], ((0, 3),))],
    "slice": [([(4, 9)], (((1, 3, 1), (8, 9, 2)),)), ([(4, 9)], (((0, 4, 1), (0, 9, 1)),)),
              ([(4, 9)], (((2, 2, 1), (0, 9, 3)),))],
    "flip": [([(4, 9)], ((-1,),)), ([(4, 9)], ((-2, -1),)), ([(4, 9)], ((),))],
    "sliding_window": [([(4, 9)], (((-1, 3), (-2, 2)),)), ([(4, 9)], (((-1, 3), (-1, 2)),)), ([(4, 9)], ((),))],
    "take": [([(4, 9), const([[0, -1], [3, 3]])], (-2,)), ([(4, 9), const(-2, np.int8)], (-1,))],
    "take_along_axis": [([(4, 9), const(np.arange(-4, 4).reshape(4, 2))], (-1,))],
    "concat": [([(4, 9), (1, 9), (0, 9)], (-2,))],
    "pad": [([(4, 9), ()], (((1, 0), (0, 2)),)), ([(), ()], ((),))],
    "det": [([(2, 3, 3)], ())],
    "matmul": [([(2, 3, 4), (4, 5)], ()), ([(1, 3, 4), (6, 4, 1)], ()), ([(3, 0), (0, 2)], ())],
    "conv": [([IMAGE, (6, 2, 3, 2)], ((2, 1), ((1, 0), (0, 1)), (1, 2), 2)),
             ([(2, 3, 9), (2, 3, 4)], ((1,), ((0, 0),), (1,), 1))],
    "window_max": [([IMAGE], ((3, 2), (2, 1), ((1, 0), (0, 1)))), ([(9,)], ((4,), (3,), ((0, 0),))),
                   ([(4, 4, 4, 4)], ((2,) * 4, (1,) * 4, ((0, 0),) * 4))],
    "window_sum": [([IMAGE], ((3, 2), (2, 1), ((1, 0), (0, 1)))), ([(9,)], ((4,), (3,), ((0, 0),)))],
    "slice_scatter": [([(4, 9), (2, 3), (4, 9)], ((((0, 3, 2), (1, 9, 3)), ((0, 4, 1), (0, 9, 1))),)),
                      ([(4, 9), (4, 2), (1, 9)], ((((0, 4, 1), (3, 5, 1)), ((3, 4, 1), (0, 9, 1))),)),
                      ([(4, 9)], ((),))],
    "scatter": [([(4, 9), const([[2], [-1]]), (4, 2, 1)], (-1, "set")), ([(4, 9), const([3]), (1, 9)], (-2, "set")),
                *(([(4, 9), const([1, 1, 0]), (3, 9)], (-2, mode)) for mode in ("add", "multiply", "maximum"))],
}  # fmt: skip
MOVING = (
    "transpose", "reshape", "broadcast_to", "slice", "flip", "sliding_window", "take", "take_along_axis", "concat",
    "pad", "slice_scatter",
)  # fmt: skip
REFUSED_DTYPES = {  # where onnxruntime 1.31 has no kernel that is exact
    **dict.fromkeys(("asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"), "float64"),
    **dict.fromkeys(("det", "erf"), "float64"),
    "reciprocal": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "power": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",  # but for constant exponents
    "scatter": "float16 float32 float64",  # maximum
    **dict.fromkeys(("max", "min", "argmax", "argmin", "sort", "argsort", "window_max"), "uint64"),
}
TESTED = [op for op in OPERATORS if op in ONNX_WRITERS and op != "cast"]


def cases(op: str, dtype: np.dtype) -> Iterator[Node]:
    """Nodes of `op` over arguments of `dtype`, as far as it takes them."""
    if OPERATORS[op].role is Role.ELEMENTWISE:
        for shapes in (((4, 9),) * 3, ((), (4, 1), (9,))):
            first = BOOL if op == "where" else dtype
            args = [x(dtype if i else first, i, shapes[i]) for i in range(OPERATORS[op].arity or 2)]
            yield from _typed(op, args, ())
        if op == "power" and dtype.kind in "iu":
            yield from _typed(op, [x(dtype), const(5, dtype)], ())
    for given, attrs in ATTRIBUTES.get(op, ()):
        args = [a if isinstance(a, Node) else x(dtype, i, a) for i, a in enumerate(given)]
        yield from _typed(op, args, attrs)


def _typed(op: str, args: list[Node], attrs: tuple) -> Iterator[Node]:
    with contextlib.suppress(ShapeError):
        yield node(op, args, attrs)


def plan_of(*outputs: Node) -> tuple[Graph, Plan, list[np.ndarray]]:
    inputs = tuple(n for n in Graph((), outputs).nodes if n.op == "input")
    plan = one_kernel_per_operator(inputs, *outputs)
    return plan.graph, plan, [values(n.dtype, n.shape, i) for i, n in enumerate(inputs)]


@EVERY
def test_every_operator_of_every_dtype_is_run_to_the_evaluators_answer_or_refused(dtype: np.dtype) -> None:
    written, refused = [], set()
    for op in TESTED:
        for n in cases(op, dtype):
            try:
                ef.to_onnx(plan_of(n)[1])
                written.append(n)
            except UnsupportedOp as error:
                assert op in str(error) and dtype.name in str(error)
                refused.add(op)
    assert refused == {op for op, names in REFUSED_DTYPES.items() if dtype.name in names.split()}
    names = [f"{n.op} {n.attrs} of {[str(a.type) for a in n.args]}" for n in written]
    judge(*plan_of(*written), names)


@EVERY
def test_every_cast_is_numpys(dtype: np.dtype) -> None:
    plain = const(np.array([0, 1, 2, 100]), I64)
    outputs = [node("cast", (node("cast", (plain,), (dtype,)),), (to,)) for to in dtypes.TENSORS if to.kind != "c"]
    outputs = [node("cast", (o,), (np.dtype(np.float64),)) for o in outputs]  # onnxruntime gives no bfloat16 to NumPy
    judge(*plan_of(*outputs))


@pytest.mark.parametrize("dtype", sorted(dtypes.ADDED, key=str), ids=lambda d: d.name)
def test_narrow_floats_are_rounded_as_often_as_in_numpy(dtype: np.dtype) -> None:
    def narrow(n: Node) -> Node:
        return node("cast", (n,), (dtype,))

    a, b = narrow(x(np.dtype(np.float32))), narrow(x(np.dtype(np.float32), 1))
    nodes = [node(op, (a, b)) for op in ("add", "multiply", "divide", "maximum")]
    nodes += [node("exp", (a,)), node("max", (a,), ((-1,),)), node("where", (node("less", (a, b)), a, b))]
    nodes = [node("cast", (n,), (np.dtype(np.float32),)) for n in nodes]
    judge(*plan_of(*nodes), ulps=0 if dtype != dtypes.BFLOAT16 else 1)


@pytest.mark.parametrize("dtype", sorted(dtypes.ADDED, key=str), ids=lambda d: d.name)
def test_narrow_floats_are_moved_as_in_numpy(dtype: np.dtype) -> None:
    def narrow(n: Node) -> Node:
        return node("cast", (x(np.dtype(np.float32), n.attr("name"), n.shape),), (dtype,)) if n.dtype == dtype else n

    plain = [n for op in MOVING for n in cases(op, dtype) if n.shape and 0 not in n.shape]  # onnxruntime fails there
    nodes = [node(n.op, [narrow(a) for a in n.args], n.attrs) for n in plain]
    judge(*plan_of(*(node("cast", (n,), (np.dtype(np.float32),)) for n in nodes)), [str(n) for n in nodes])


def test_every_operator_has_a_row_or_a_reason() -> None:
    others = {"input", "const", "real", "imag", "complex", "loop_result", *LOOPS}
    unknown = set(OPERATORS) - set(ONNX_WRITERS) - set(NOT_EXPORTED) - others
    assert not unknown and not set(ONNX_WRITERS) & set(NOT_EXPORTED)
    assert {op for op in TESTED if OPERATORS[op].role is not Role.ELEMENTWISE} == set(ATTRIBUTES)


@pytest.mark.parametrize("fn, what", [
    (lambda a: np.linalg.inv(a), r"inv\(float64\[3, 3\]\).*no solvers"), (lambda a: np.fft.rfft(a).real, "complex"),
    (lambda a: np.nanmedian(a), "order statistics"), (lambda a: a + 1j, "complex numbers"),
    (lambda a: np.cumprod(a), "no scan"), (lambda a: np.copysign(a, 2), "bits"),
])  # fmt: skip
def test_what_onnx_cannot_express_is_refused_by_name(fn: Any, what: str) -> None:
    with pytest.raises(UnsupportedOp, match=what):
        ef.to_onnx(ef.compile(fn, np.eye(3)).plan)


def test_values_that_land_in_one_place_are_refused_unless_they_are_summed() -> None:
    def put(a: Any, i: Any) -> Any:
        a = a.copy()
        a[i] = np.arange(3.0)
        return a

    with pytest.raises(UnsupportedOp, match="which of several values lands"):
        ef.to_onnx(ef.compile(put, np.eye(3)[0], np.array([0, 1, 1])).plan)


def test_special_functions_are_refused() -> None:
    assert set(SPECIAL_UFUNCS) <= set(NOT_EXPORTED)


# ---- whole programs


@cache
def suite_case(name: str) -> tuple[Graph, Plan]:
    case = {**GRAPHS, **CONTROLS}[name]
    function, types = case.build(**case.small | ({"k": 60} if name == "N11" else {}))  # N11: a chain of 500
    graph = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    return graph, ef.extract(ef.saturate(graph, budget=SHORT))


def there_and_back(graph: Graph, plan: Plan, arrays: Sequence[np.ndarray]) -> None:
    model = judge(graph, plan, arrays, ulps=256)
    assert len(model.graph.node) >= len(plan.kernels)
    agree(evaluate(ef.from_onnx(model), arrays), evaluate(graph, arrays), ulps=256)


def random_arrays(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(n.shape)).astype(n.dtype) for n in graph.inputs]


@pytest.mark.parametrize("name", ["G6", "G13", "G17", "G24", "G28", "N2", "N8"])
def test_a_plan_of_the_suite_runs_elsewhere_and_comes_back(name: str) -> None:
    graph, plan = suite_case(name)
    there_and_back(graph, plan, random_arrays(graph))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GRAPHS, *CONTROLS])
def test_every_plan_of_the_suite_runs_elsewhere_and_comes_back(name: str) -> None:
    graph, plan = suite_case(name)
    there_and_back(graph, plan, random_arrays(graph))


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(s, marks=pytest.mark.slow) for s in range(10, 200, 8))])
def test_a_random_plan_runs_elsewhere_and_comes_back(seed: int) -> None:
    graph, arrays = random_graph(np.random.default_rng(seed))
    there_and_back(graph, ef.extract(ef.saturate(graph, budget=SHORT)), arrays)


@pytest.mark.parametrize("example", programs.small_programs(), ids=lambda e: e.name)
def test_a_demo_program_runs_elsewhere_and_comes_back(example: Any, tmp_path: Path) -> None:
    function, arguments = example.build(np.float32)
    program = ef.compile(function, *arguments, budget=SHORT)
    signature = program.plan.graph.signature
    arrays = signature.feed(signature.flatten(arguments, {})).arrays
    there_and_back(program.plan.graph, program.plan, arrays)
    program.to_onnx(tmp_path / "program.onnx")
    agree(run(onnx.load(tmp_path / "program.onnx"), arrays), program.run(arrays), ulps=256)


# ---- what the model looks like


def softmax_model() -> tuple[Plan, Any]:
    plan = ef.compile(lambda scores: ef.softmax(scores) * 2, ef.spec((4, 6), np.float32)).plan
    return plan, ef.to_onnx(plan)


def test_each_kernel_is_a_function_that_carries_its_price() -> None:
    plan, model = softmax_model()
    (kernel,), (function,) = plan.kernels, model.functions
    assert (function.domain, function.name) == ("eqfuse", "k0_row")
    props = {p.key: p.value for p in function.metadata_props}
    assert props["eqfuse.kind"] == "row" and float(props["eqfuse.predicted_seconds"]) == kernel.price.seconds
    (call,) = model.graph.node
    assert (call.op_type, list(call.input), list(call.output)) == ("k0_row", ["scores"], ["output0"])


def test_kernels_with_one_body_share_a_function() -> None:
    w = [np.random.default_rng(i).standard_normal((6, 6)).astype(np.float32) for i in range(3)]
    plan = ef.compile(lambda a: tuple(np.tanh(a @ v) for v in w), ef.spec((4, 6), np.float32), laws="none").plan
    model = ef.to_onnx(plan)
    assert len(model.graph.node) == len(plan.kernels) > len(model.functions)


def test_names_of_a_loaded_model_are_kept(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["": 21]>
    main (float[3, 4] b, float[3, 4] a) => (float[3, 4] difference, float[3, 4] total) {
        total = Add (a, b) difference = Sub (a, b) }"""
    program = ef.compile(ef.from_onnx(onnx.parser.parse_model(text)))
    program.to_onnx(tmp_path / "two.onnx")
    again = ef.from_onnx(tmp_path / "two.onnx")
    assert again.signature == program.plan.graph.signature


@pytest.mark.parametrize(
    "names", [("v1", "v0"), ("output0", "output1"), ("", "r0"), ("a b", "ä\n\"'"), ("k0_map", "t1")]
)
def test_any_names_of_inputs_and_any_outputs_are_told_apart(names: tuple[str, str]) -> None:
    a, b = (input_node(name, tensor_type("float32[3]")) for name in names)
    total = node("add", (a, b))
    graph = Graph((a, b), (total, a, total, const([1.0, 2.0]), node("exp", (total,))))
    arrays = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    there_and_back(graph, ef.compile(graph).plan, arrays)


def test_what_depends_on_constants_alone_is_an_initialiser() -> None:
    w = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    model = ef.to_onnx(ef.compile(lambda a: a @ (w @ w), ef.spec((4, 6), np.float32)).plan)
    (initialiser,) = model.graph.initializer
    np.testing.assert_allclose(onnx.numpy_helper.to_array(initialiser), w @ w, rtol=1e-5, atol=1e-6)


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    plan, _ = softmax_model()
    for name in ("a.onnx", "b.onnx"):
        ef.to_onnx(plan, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_plan_for_a_gpu_is_written_too() -> None:
    graph, arrays = random_graph(np.random.default_rng(3))
    there_and_back(graph, ef.extract(ef.saturate(graph, budget=SHORT), "cuda:h100"), arrays)


def test_constants_that_no_file_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.ones((6, 6), np.float32)
    plan = ef.compile(lambda a: a @ w, ef.spec((4, 6), np.float32)).plan
    monkeypatch.setattr(sys.modules["eqfuse.emit.onnx.model"], "PROTOBUF_BYTES", 100)
    with pytest.raises(ef.EqfuseError, match="more than 2 GiB"):
        ef.to_onnx(plan)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = softmax_model()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TargetUnavailable, match=r"eqfuse\[onnx\]"):
        ef.to_onnx(plan)
