"""What eqfuse makes of a random model, against what the judges make of it.

In: a `Model`. Out: how something differs, in words; empty where nothing does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.errors import UnsupportedOp
from tests.frontends.onnx_random.judges import Refused, onnxruntime, read_as
from tests.frontends.onnx_random.models import Model
from tests.frontends.onnx_random.numbers import COMPUTED, describe, room, within
from tests.frontends.onnx_random.run import Value

SHORT = ef.Budget(seconds=0.25, nodes=200, rounds=3)


def wrong(model: Model, folder: Path, numerics: str) -> str:
    """What is wrong with the model, "kind: details"; an error that is raised counts."""
    try:
        return loaded(model) or compiled(model, folder, numerics)
    except Exception as error:  # whatever eqfuse should not have raised
        return f"{type(error).__name__}: {error}"


def loaded(model: Model) -> str:
    """The graph of the model, by the evaluator."""
    graph = ef.from_onnx(model.proto, **model.sizes)
    return compare(model, quietly(lambda: ef.meaning(graph, **model.arguments)), "loaded", strict=True)


def compiled(model: Model, folder: Path, numerics: str) -> str:
    """The compiled program; saved and loaded; exported, and run by onnxruntime."""
    program = ef.compile(ef.from_onnx(model.proto, **model.sizes), numerics=numerics, budget=SHORT)
    strict = numerics == "strict"
    results = quietly(lambda: program(**model.arguments))
    wrong = compare(model, results, f"compiled, {numerics}", strict)
    if wrong:
        return wrong
    program.save(folder / "program")
    again = quietly(lambda: ef.load(folder / "program")(**model.arguments))
    for a, b in zip(_tuple(model, results), _tuple(model, again), strict=True):
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return f"saved and loaded, {numerics}: other bits"
    return exported(model, program, strict)


def exported(model: Model, program: Any, strict: bool) -> str:
    """The exported program as onnxruntime runs it."""
    try:
        proto = ef.to_onnx(program.plan)
    except UnsupportedOp:
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
    return compare(model, results, "exported", strict and not narrow, slack=4)


def quietly(run: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run()


def _tuple(model: Model, results: Any) -> Sequence[np.ndarray]:
    return results if len(model.outputs) > 1 else [results]


def compare(model: Model, results: Any, what: str, strict: bool, slack: float = 1) -> str:
    if not isinstance(results, list):
        results = _tuple(model, results)
    for output, x in zip(model.outputs, results, strict=True):
        wrong = differs(read_as(np.asarray(x), output.array), output, strict, slack)
        if wrong:
            return f"{what}: {output.name}: {wrong}"
    return ""


def differs(got: np.ndarray, output: Value, strict: bool, slack: float) -> str:
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
    at = tuple(int(i) for i in np.argwhere(~fine)[0])
    return f"{(~fine).sum()} of {fine.size} elements, {got[at]} instead of {right[at]} ± {free[at]:.2g} at {at}"


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if dtypes.kind(a.dtype) != "f":
        return np.asarray(a == b)
    return np.asarray((a == b) | (np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))))
