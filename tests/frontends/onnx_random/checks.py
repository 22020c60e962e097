"""What eqfuse makes of a random model, against what the judges make of it.

In: a `Model`. Out: how something differs, in words; empty where nothing does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from tests.frontends.onnx_random.judges import Refused, onnxruntime, read_as
from tests.frontends.onnx_random.models import Model
from tests.frontends.onnx_random.numbers import COMPUTED, describe, room, within
from tests.frontends.onnx_random.run import DrawnValue

SHORT = ef.Budget(nodes=200, rounds=3)


def wrong(model: Model, folder: Path, numerics: str, laws: str = "all") -> str:
    """What is wrong with the model, "kind: details"; an error that is raised counts."""
    try:
        return loaded(model) or compiled(model, folder, numerics, laws)
    except Exception as error:  # whatever eqfuse should not have raised
        return f"{type(error).__name__}: {error}"


def loaded(model: Model) -> str:
    """The graph of the model, by the evaluator."""
    graph = ef.from_onnx(model.proto, **model.sizes)
    results = _tuple(model, quietly(lambda: ef.meaning(graph, **model.arguments)))
    return compare(model.outputs, results, "loaded", strict=True)


def compiled(model: Model, folder: Path, numerics: str, laws: str = "all") -> str:
    """The compiled program; saved and loaded; exported, and run by onnxruntime."""
    program = ef.compile(ef.from_onnx(model.proto, **model.sizes), numerics=numerics, laws=laws, budget=SHORT)
    results = _tuple(model, quietly(lambda: program(**model.arguments)))
    wrong = compare(model.outputs, results, f"compiled, {numerics}", numerics == "strict")
    if wrong:
        return wrong
    program.save(folder / "program")
    again = _tuple(model, quietly(lambda: ef.load(folder / "program")(**model.arguments)))
    for a, b in zip(results, again, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return f"saved and loaded, {numerics}: other bits"
    return exported(model, program, numerics)


def exported(model: Model, program: Any, numerics: str) -> str:
    """The exported program as onnxruntime runs it; where it is refused, one of the outputs that can be written."""
    outputs = model.outputs
    proto = written(program)
    if proto is None:
        graph = program.plan.graph
        parts = [ef.compile(Graph(graph.inputs, (o,)), laws="none", extractor="unfused") for o in graph.outputs]
        places = [place for place, part in enumerate(parts) if written(part) is not None]
        outputs = [outputs[place] for place in places]
        rest = Graph(graph.inputs, tuple([graph.outputs[place] for place in places]))
        proto = written(ef.compile(rest, numerics=numerics, laws="none", extractor="unfused")) if places else None
    if proto is None:
        return ""
    try:
        names = [i.name for i in proto.graph.input]
        results = onnxruntime(proto)(dict(zip(names, model.arguments.values(), strict=True)))
    except Refused as error:
        if any(v.is_tensor and v.dtype in dtypes.ADDED for v in model.run.values.values()):
            return ""  # onnxruntime's Python has no such arrays
        return f"exported: {error}"
    # onnxruntime computes float16 in float32, where nothing overflows, and casts back only where a chain ends
    narrow = any(n.dtype == np.float16 for n in program.plan.graph.nodes)
    return compare(outputs, results, "exported", numerics == "strict" and not narrow, slack=4)


def written(program: Any) -> onnx.ModelProto | None:
    """The program as an ONNX model; None where an operator is refused by name."""
    try:
        return ef.to_onnx(program.plan)
    except UnsupportedOp:
        return None


def quietly(run: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run()


def _tuple(model: Model, results: Any) -> Sequence[np.ndarray]:
    return results if len(model.outputs) > 1 else [results]


def compare(outputs: Sequence[DrawnValue], results: Sequence[Any], what: str, strict: bool, slack: float = 1) -> str:
    for output, x in zip(outputs, results, strict=True):
        wrong = differs(read_as(np.asarray(x), output.array), output, strict, slack)
        if wrong:
            return f"{what}: {output.name}: {wrong}"
    return ""


def differs(got: np.ndarray, output: DrawnValue, strict: bool, slack: float) -> str:
    """How `got` is not the output. Unless `strict`, anything may stand where products and sums may not be finite."""
    right = output.array
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"{describe(got)} instead of {describe(right)}"
    free = room(right, output.disturbed, COMPUTED) * slack
    fine = within(got, right, free)
    if not strict:
        doubted = output.cautious
        if doubted is None or doubted.shape != right.shape:
            return ""
        fine |= ~same_bits(doubted, right)
    if fine.all():
        return ""
    key = tuple(int(i) for i in np.argwhere(~fine)[0])
    return f"{(~fine).sum()} of {fine.size} elements, {got[key]} instead of {right[key]} ± {free[key]:.2g} at {key}"


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if dtypes.kind(a.dtype) != "f":
        return np.asarray(a == b)
    return np.asarray((a == b) | (np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))))
