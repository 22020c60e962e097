"""Plans with loops as ONNX models: onnxruntime runs them to the evaluator's answers, and `from_onnx` reads them."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.onnx.model import to_onnx
from eqfuse.ir.evaluate import evaluate
from eqfuse.ops.loops import LOOPS
from tests.support.loops import LOOPED

pytest.importorskip("onnx", reason="writing ONNX models needs the package onnx")
ort = pytest.importorskip("onnxruntime", reason="running ONNX models needs the package onnxruntime")
pytestmark = pytest.mark.outside

COMPLEX = ("mixed", "mixed, no trips")


@pytest.mark.parametrize("name", [name for name in LOOPED if name not in COMPLEX])
def test_a_plan_with_loops_runs_elsewhere_and_comes_back(name: str) -> None:
    fn, _, args, _ = LOOPED[name]
    graph = ef.trace(fn, *args)
    assert graph.signature is not None
    arrays = graph.signature.feed(graph.signature.flatten(args, {})).arrays
    model = to_onnx(ef.compile(graph, target="numpy").plan)
    session = ort.InferenceSession(model.SerializeToString())
    fed = {i.name: np.asarray(a) for i, a in zip(session.get_inputs(), arrays, strict=True)}
    wanted, read = evaluate(graph, arrays), ef.from_onnx(model)
    for results in (session.run(None, fed), evaluate(read, arrays)):
        for a, b in zip(results, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_loop_is_a_loop_in_the_model_and_when_read() -> None:
    fn, _, args, _ = LOOPED["newton"]
    model = to_onnx(ef.compile(fn, *args, target="numpy").plan)
    assert [n.op_type for f in model.functions for n in f.node].count("Loop") == 1
    assert [n.op for n in ef.from_onnx(model).nodes if n.op in LOOPS] == ["while_loop"]


@pytest.mark.parametrize("name", COMPLEX)
def test_loops_over_complex_numbers_are_refused(name: str) -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"(scan|fori_loop) of complex numbers"):
        to_onnx(ef.compile(LOOPED[name].fn, *LOOPED[name].args, target="numpy").plan)
