"""C kernels that scan: bits, bytes, which loops are vectors, and which bodies one kernel holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.scans import SCANS
from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.fission import fission
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import State, classify, kind_named
from tests.kernels.test_c_emit import counted
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, run_all
from tests.support.kernels import add, body, data, distribution, mul, number, read, reduced, scanned

X, COLUMN = read(0, (70, 1300)), read(1, (70, 1))
LONG = read(0, (1 << 18,))


def returns(x: Node, axis: int) -> Node:
    return add(scanned("cumprod", add(mul(x, number(0.01)), number(1.0)), axis), number(-1.0))


def drawdown(x: Node, axis: int) -> Node:
    value = returns(x, axis)
    return reduced("max", node("subtract", (scanned("maximum", value, axis), value)), axis)


CASES: dict[str, Graph] = {
    f"{what.__name__} along {'rows' if axis == -1 else 'columns'}": body([X], what(X, axis))
    for what in (returns, drawdown, distribution) for axis in (-1, -2)
} | {
    "a long row": body([LONG], scanned("cumsum", mul(LONG, LONG))),
    "what is the same along a row": body([X, COLUMN], mul(X, scanned("cumsum", add(COLUMN, mul(X, number(0.0)))))),
    "log of sums": body([X], scanned("logaddexp", mul(X, number(2.0)), -2)),
    "backwards": body([X], scanned("minimum", node("flip", (X,), ((-1,),)))),
}  # fmt: skip


@needs_compiler
def test_scans_have_the_bits_of_numpy_where_what_they_scan_has() -> None:
    arrays = [data(graph) for graph in CASES.values()]
    results = run_all([emitted("scan", graph) for graph in CASES.values()], arrays)
    for (name, graph), given, got in zip(CASES.items(), arrays, results, strict=True):
        inexact = any(n.op in ("exp", "sum") or "logaddexp" in n.attrs for n in graph.nodes)
        for ours, wanted in zip(got, evaluate(graph, given), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=2e-6 if inexact else 0, err_msg=name)


@needs_compiler
@pytest.mark.parametrize("case", ["returns along rows", "returns along columns", "distribution along rows"])
def test_bytes_priced_are_bytes_that_the_text_reads_and_writes(case: str) -> None:
    kernel = emitted("scan", CASES[case], replace(C, threads=1))
    counts = counted(kernel)
    assert counts["r0"][0] * X.dtype.itemsize == kernel.schedule.reads[0] == X.type.nbytes
    assert counts["w0"] == (kernel.schedule.writes[0] // X.dtype.itemsize,) * 2


def test_only_steps_of_scans_stand_in_loops_without_vectors() -> None:
    kernel = emitted("scan", body([X], mul(node("exp", (X,)), node("exp", (scanned("cumsum", node("exp", (X,))),)))))
    text = kernel.text.source
    alone = [part for part in text.split("for (long j")[1:] if "s0 = s0 +" in part]
    assert text.count("#pragma omp simd") == 2 and len(alone) == 1 and "exp" not in alone[0].split("}")[0]


def test_fission_keeps_what_later_loops_read_and_nothing_else() -> None:
    lines = ["const float a = x[i];", "const float b = a * 2;", "const float c = (s = s + b);", "y[i] = c + a;"]
    pieces, kept = fission(lines, {lines[2]}, "i")
    assert [piece.is_scan for piece in pieces] == [False, True, False]
    assert kept == {"a_strip": "float", "b_strip": "float", "c_strip": "float"}
    assert pieces[1].lines == ["const float b = b_strip[i];", lines[2], "c_strip[i] = c;"]


@pytest.mark.parametrize("after", [
    lambda s: reduced("sum", s, -2), lambda s: scanned("cumsum", s, -2), lambda s: reduced("sum", s, -2, -1),
    lambda s: node("exp", (node("transpose", (s,), ((1, 0),)),)), lambda s: node("sort", (s,), (-1, False)),
])  # fmt: skip
def test_a_scan_ends_the_kernel_where_a_reader_goes_another_way(after) -> None:
    graph = body([X], after(mul(scanned("cumsum", X), X)))
    assert isinstance(classify(graph, C), str)


def test_a_scan_is_no_operand_of_a_product_in_one_kernel() -> None:
    w = read(1, (1300, 8))
    assert "stored" in str(classify(body([X, w], node("matmul", (scanned("cumsum", X), w))), C))
    state = classify(body([X], scanned("cumsum", mul(X, X))), C)
    assert isinstance(state, State) and state.kind == "scan"


def test_scans_without_a_row_are_left_to_numpy() -> None:
    whole = read(0, (7, 30), np.int32)
    for graph in (body([whole], scanned("gcd", whole)), body([COLUMN], scanned("cumsum", COLUMN))):
        assert isinstance(kind_named("scan").schedule(graph, C), CallsSchedule)


@needs_compiler
@pytest.mark.parametrize("case", ["S1", "S2", "S3", "S4", "S5"])
def test_programs_that_scan_are_one_kernel_for_each_axis(case: str) -> None:
    program, types = SCANS[case].build(**{name: min(n, 300) for name, n in SCANS[case].full.items()})
    arrays = [np.random.default_rng(0).normal(size=t.shape).astype(t.dtype) for t in types]
    compiled = ef.compile(program, *arrays, target="c")
    assert compiled.report.n_kernels == (2 if case == "S4" else 1)
    np.testing.assert_allclose(compiled(*arrays), program(*arrays), rtol=1e-5)
