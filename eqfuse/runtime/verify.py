"""One run of a program on random inputs, against the evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eqfuse.dtypes import epsilon, kind, real_parts
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Body, Graph
from eqfuse.runtime.program import Program

INTEGERS = (10, 2, 1)  # below which integers are drawn: as long as they are indices of elements that are not there


def verified(program: Program) -> Program:
    """`program` itself, after one run on random inputs that agrees with the evaluator; EqfuseError otherwise, and where
    the evaluator refuses all that were tried."""
    graph = program.plan.graph
    refused: Exception | None = None
    for arrays in drawn_arguments(graph, "verify runs the program"):
        try:
            wanted = evaluate(graph, arrays)
        except (IndexError, ValueError, ArithmeticError) as error:
            refused = error
            continue
        _compare(program.run(arrays), wanted)
        return program
    raise EqfuseError(
        f"verify runs the program on random inputs, and they are refused ({refused}): compare its results with "
        "ef.meaning(graph, *args) on arguments of yours"
    )


def drawn_arguments(graph: Graph, what: str) -> Iterator[list[np.ndarray]]:
    """Random arrays for the inputs of `graph`, with ever smaller integers. EqfuseError, about `what` is done, where a
    loop may not end."""
    if _may_not_end(graph):
        raise EqfuseError(
            f"{what} on random inputs, for which a while loop may never end: compare programs on arguments of yours"
        )
    rng = np.random.default_rng(0)
    for integers in INTEGERS:
        yield [_random(rng, n.dtype, n.shape, integers) for n in graph.inputs]


def _may_not_end(graph: Graph) -> bool:
    bodies = [a.graph for n in graph.nodes for a in n.attrs if isinstance(a, Body)]
    return any(n.op == "while_loop" for n in graph.nodes) or any(map(_may_not_end, bodies))


def _random(rng: np.random.Generator, dtype: np.dtype, shape: Sequence[int], integers: int) -> np.ndarray:
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if kind(dtype) == "f":
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else integers, size=shape)).astype(dtype)


def _compare(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            raise EqfuseError(f"verify: output {i} is {a.dtype}{a.shape}, the evaluator gives {b.dtype}{b.shape}")
        if kind(b.dtype) in "fc":
            finite = np.isfinite(b)  # a complex number is finite in both its parts
            a64, b64 = (real_parts(v[finite]).astype(np.float64) for v in (a, b))
            scale = max(1.0, float(np.abs(b64).max(initial=0.0)))
            agree = bool((np.isfinite(a) == finite).all())
            agree = agree and bool((np.abs(a64 - b64) <= 1e3 * epsilon(b.dtype) * scale).all())
        else:
            agree = bool((a == b).all())
        if not agree:
            raise EqfuseError(f"verify: output {i} differs from the evaluator; please report the graph it came from")
