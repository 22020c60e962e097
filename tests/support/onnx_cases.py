"""ONNX's own node tests: models of one operator (or of its expansion) with inputs and expected outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx

import eqfuse as ef
from eqfuse.frontends.onnx.table import UnknownValue
from eqfuse.ir.graph import Graph


@dataclass(frozen=True)
class OnnxTest:
    """One test. `inputs` by the model's names; the expected `outputs` in its order."""

    name: str
    model: Any
    inputs: dict[str, Any]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """The operator that the test is about; its expansion is a test of the same operator."""
        return self.model.graph.node[0].op_type


@cache
def node_cases() -> dict[str, OnnxTest]:
    """All of them, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    cases = {}
    for test in tests:
        given, expected = test.data_sets[0]
        names = [i.name for i in test.model.graph.input]
        inputs = dict(zip(names, map(_array, given), strict=False))
        outputs = tuple(map(_array, expected))
        cases[test.name] = OnnxTest(test.name, test.model, inputs, outputs, test.rtol, test.atol)
    return cases


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def load(case: OnnxTest, fixed: dict[str, Any] | None = None) -> tuple[Graph, dict[str, Any]]:
    """The graph of `case`, and the inputs whose values had to be known for it (`fixed` among them)."""
    known = dict(fixed or {})
    unnamed = {
        i.name: np.shape(case.inputs[i.name])
        for i in case.model.graph.input
        if not all(d.HasField("dim_value") for d in i.type.tensor_type.shape.dim)
    }
    while True:
        try:
            sizes = {name: shape for name, shape in unnamed.items() if name not in known}
            return ef.from_onnx(case.model, known, **sizes), known
        except UnknownValue as error:
            known.update({name: case.inputs[name] for name in error.inputs})


def arguments(case: OnnxTest, known: Iterable[str]) -> list[np.ndarray]:
    """What a call of the loaded graph takes."""
    return [np.asarray(x) for name, x in case.inputs.items() if name not in known]


def assert_expected(case: OnnxTest, got: Any) -> None:
    """`got` has the dtypes, the shapes and, up to the test's tolerance, the values that `case` expects."""
    results = got if isinstance(got, tuple) else (got,)
    for g, w in zip(results, map(np.asarray, case.outputs), strict=False):
        if w.dtype == object:  # an output that the test leaves out
            continue
        assert (g.dtype, g.shape) == (w.dtype, w.shape), f"{g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
        if g.dtype.kind not in "biuc":
            g, w = g.astype(np.float64), w.astype(np.float64)
        np.testing.assert_allclose(g, w, rtol=case.rtol, atol=case.atol)
