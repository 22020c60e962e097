"""Kernels whose statements often call elementary functions call functions of vectors, which are compiled once: the bits
are those of pasting each in, and loops stay vectors."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from eqfuse.emit.c import functions
from eqfuse.emit.c.kernels import CKernel, module_text
from eqfuse.emit.c.vector_math import ARGUMENTS
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine.c_compiler import find_compiler
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, run_all
from tests.support.kernels import add, body, data, mul, number, read, reduced
from tests.support.some import some

EVERY = sorted({*ARGUMENTS} - {"sigmoid", "rsqrt"})  # those that are operators
MANY, FEW = 12, 1  # steps: more than are pasted in, and as many as a compiler soon pastes
SHAPE = (9, 403)  # vectors, and what is left of them


def step(x: Node, mask: Node, k: int) -> Node:
    """Four elementary functions, which one of depends on the mask."""
    near = node("erf", (mul(x, number(0.5 + k, x.dtype)),))
    far = node("exp", (node("negative", (mul(x, x),)),))
    return node("power", (node("add", (node("where", (mask, near, far)), number(2, x.dtype))), node("tanh", (x,))))


def steps(dtype: str, masked: str, count: int) -> tuple[list[Node], Node]:
    x, mask = read(0, SHAPE, dtype), read(1, SHAPE, masked)
    where = mask if masked == "bool" else node("less", (mask, number(0, masked)))
    value = x
    for k in range(count):
        value = step(value, where, k)
    return [x, mask], value


def mapped(dtype: str, masked: str, count: int) -> tuple[str, Graph]:
    reads, value = steps(dtype, masked, count)
    return "map", body(reads, value)


def summed(dtype: str, masked: str, count: int) -> tuple[str, Graph]:
    reads, value = steps(dtype, masked, count)
    return "row", body(reads, node("divide", (value, reduced("sum", value, -1))))


# both kinds of loop, with masks as wide as the numbers, narrower and wider
CASES = {
    (make.__name__, dtype, masked): partial(make, dtype, masked)
    for make, dtype, masked in [
        (mapped, "float32", "bool"), (summed, "float32", "float64"), (mapped, "float32", "int32"),
        (summed, "float64", "bool"), (mapped, "float64", "float64"), (summed, "float64", "int32"),
    ]
}  # fmt: skip


def results(kernels: Sequence[CKernel], graphs: Sequence[Graph]) -> list[list[bytes]]:
    return [[out.tobytes() for out in outs] for outs in run_all(kernels, [data(graph) for graph in graphs])]


@pytest.mark.slow
@needs_compiler
def test_what_is_computed_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [make(FEW) for make in CASES.values()]
    kernels, graphs = [emitted(*case) for case in cases], [graph for _, graph in cases]
    monkeypatch.setattr(functions, "MANY_LINES", 1)
    called = results(kernels, graphs)
    assert all("each_power" in module_text([kernel]) for kernel in kernels)
    monkeypatch.setattr(functions, "MANY_LINES", 1 << 30)
    assert not any("each_" in module_text([kernel]) for kernel in kernels)
    for case, one, other in zip(CASES, called, results(kernels, graphs), strict=True):
        assert one == other, case


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_so_has_every_function_which_gives_no_number_for_none(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, given = read(0, (2000,), dtype), np.random.default_rng(0).standard_normal(2000).astype(dtype)
    given[1000:1064] = np.nan
    used = EVERY[dtype == "float64" :: 2]
    nodes = [node(op, (add(x, number(0.25, dtype)), x)[: ARGUMENTS[op]]) for op in used]
    graph = body([x], *nodes)
    kernel = emitted("map", graph)
    monkeypatch.setattr(functions, "MANY_LINES", 1)
    (called,), text = run_all([kernel], [[given]]), module_text([kernel])
    assert all(np.isnan(array[1000:1064]).all() for array in called)
    monkeypatch.setattr(functions, "MANY_LINES", 1 << 30)
    (pasted,) = run_all([kernel], [[given]])
    assert [array.tobytes() for array in pasted] == [array.tobytes() for array in called]
    assert {*re.findall(r"\beach_(\w+)_f\d\d\(", text)} == {*used} - {"sqrt"}  # which is one instruction


@needs_compiler
@pytest.mark.parametrize("case", some(reversed(CASES), 3), ids=" ".join)
def test_loops_call_functions_of_vectors(case: tuple[str, str, str], in_assembler: Callable[[str], str]) -> None:
    assembler = in_assembler(module_text([emitted(*CASES[case](MANY))]))
    calls = re.findall(r"\b(?:call|bl)\w*\s+(?:_ZGV\w+?_)?each_(\w+)", assembler)
    vectors = re.findall(r"\b(?:call|bl)\w*\s+_ZGV\w+?_each_(\w+)", assembler)
    assert len({*vectors}) == 4 and len(vectors) >= 4 * MANY
    assert len(calls) - len(vectors) <= len(vectors)  # those of the last elements


@needs_compiler
def test_few_calls_are_pasted_in() -> None:
    reads, _ = steps("float32", "bool", 0)
    graph = body(reads, step(step(*reads, 0), reads[1], 1))
    assert "each_" not in module_text([emitted("map", graph)])


@pytest.fixture
def in_assembler() -> Callable[[str], str]:
    """What the compiler makes of a text, as assembler."""
    compiler = find_compiler()
    if "clang" in compiler.version or "zig" in compiler.version:
        pytest.skip("clang has no functions of vectors: all are pasted in")

    def assembler(text: str) -> str:
        command = [*compiler.command, *compiler.flags, "-S", "-x", "c", "-", "-o", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    return assembler
