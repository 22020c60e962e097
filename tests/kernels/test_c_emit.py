"""C kernels: how they read, what they move, how exact their sums are, and that threads change no bit."""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c import executable
from eqfuse.emit.c import kernels as c_kernels
from eqfuse.emit.c import schedule as scheduling
from eqfuse.emit.c.haste import are_too_many, hurried, left_to_numpy
from eqfuse.emit.c.kernels import BRIEF, CKernel, Module, emit_by_numpy, loaded, module_text, modules
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, node
from eqfuse.kinds import kind_named
from eqfuse.machine.c_objects import load_all
from eqfuse.plan.plan import Kernel
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, judge, run_all
from tests.support.kernels import add, body, data, gelu, layer_norm, mul, number, read, reduced, softmax

X = read(0, (300, 1000))
LONG = read(0, (1 << 20,))


def transposed(shape: tuple[int, ...]) -> Graph:
    x, y = read(0, shape), read(1, shape[::-1])
    return body([x, y], add(node("transpose", (x,), ((1, 0),)), y))


def sliced() -> Graph:
    part = node("slice", (X,), (((0, 300, 3), (7, 1000, 1)),))
    return body([X], mul(part, node("exp", (part,))))


def paired(op: str, step: int = 1) -> Graph:
    """A reduction over pairs of an element of each of two arrays, which lie `step` apart."""
    x, y = read(0, (300, step)), read(1, (1000, step))
    a, b = (node("slice", (n,), (((0, n.shape[0], 1), (0, 1, 1)),)) for n in (x, y))
    distance = node("abs", (node("subtract", (a, node("reshape", (b,), ((1, 1000),)))),))
    return body([x, y], reduced(op, distance))


CASES: dict[str, tuple[str, Graph]] = {
    "gelu": ("map", body([X], gelu(X))),
    "softmax of rows": ("row", body([X], softmax(X))),
    "softmax of columns": ("row", body([X], softmax(X, -2))),
    "layer norm": ("row", body([X, read(1, (1000,))], mul(layer_norm(X), read(1, (1000,))))),
    "sums of columns": ("reduce", body([X], reduced("sum", X, -2))),
    "squares and their sum": ("row", body([LONG], mul(LONG, LONG), reduced("sum", mul(LONG, LONG)))),
    "mean of all": ("reduce", body([LONG], node("divide", (reduced("sum", mul(LONG, LONG)), number(1 << 20))))),
    "sums over pairs": ("reduce", paired("sum")),
    "nearest in pairs": ("reduce", paired("argmin")),
    "places in columns": ("reduce", body([X], reduced("argmax", X, -2))),
    "a transpose and a sum": ("map", transposed((200, 300))),
    "triples": ("reduce", body([read(0, (5000, 3))], reduced("max", read(0, (5000, 3))))),
    "every third row of a part": ("map", sliced()),
}


@pytest.mark.parametrize("case", ["gelu", "softmax of rows", "softmax of columns", "mean of all"])
def test_the_text_reads_as_kept(case: str, golden: Callable[[str, str], None]) -> None:
    golden(case.replace(" ", "_") + ".c", emitted(*CASES[case]).text.source)


@pytest.mark.slow
@needs_compiler
def test_kernels_compute_their_bodies() -> None:
    arrays = [data(graph) for _, graph in CASES.values()]
    results = run_all([emitted(*case) for case in CASES.values()], arrays)
    for (case, (_, graph)), given, outputs in zip(CASES.items(), arrays, results, strict=True):
        for got, want in zip(outputs, evaluate(graph, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * np.abs(want).max(), err_msg=case)


def counted(kernel: CKernel) -> dict[str, tuple[int, int]]:
    """Of each array: how many of its elements the kernel reads or writes, and how often in all."""
    parameters = kernel.text.parameters
    sizes = {f"r{i}": parameters.body.inputs[i].type.size for i in parameters.read_numbers()}
    sizes |= {f"w{j}": o.type.size for j, o in enumerate(parameters.body.outputs)}
    text = module_text([kernel])
    for name in sizes:
        text = re.sub(rf"\b{name}\[([^\[\]]*)\]", rf"{name}[times_{name}[\1]++, \1]", text)
    counters = "".join(f"int times_{name}[{size}];\n" for name, size in sizes.items())
    text = counters + text.replace("#pragma omp simd", "//")
    (library,) = load_all([text])
    function = loaded([Module(text, [kernel])])[kernel.name]
    constants = [c.array for c in parameters.constants]
    workspaces = [np.zeros(t.shape, t.dtype) for t in kernel.schedule.workspaces]
    reads = [a for i, a in enumerate(data(parameters.body)) if i in parameters.read_numbers()]
    writes = [np.zeros(o.shape, o.dtype) for o in parameters.body.outputs]
    counts = {name: (ctypes.c_int * size).in_dll(library, f"times_{name}") for name, size in sizes.items()}
    for counter in counts.values():
        ctypes.memset(counter, 0, ctypes.sizeof(counter))  # equal texts are one library
    function(*reads, *constants, *writes, *workspaces)
    times = {name: np.frombuffer(counter, np.int32) for name, counter in counts.items()}
    return {name: (int(np.count_nonzero(n)), int(n.sum())) for name, n in times.items()}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_bytes_priced_are_bytes_that_the_text_reads_and_writes(case: str) -> None:
    kind, graph = CASES[case]
    kernel = emitted(kind, graph, replace(C, threads=1))
    counts = counted(kernel)
    for i, nbytes in enumerate(kernel.schedule.reads):
        assert counts[f"r{i}"][0] * graph.inputs[i].dtype.itemsize == nbytes
    for j, nbytes in enumerate(kernel.schedule.writes):
        assert counts[f"w{j}"] == (nbytes // graph.outputs[j].dtype.itemsize,) * 2


@needs_compiler
def test_rows_too_long_for_a_cache_are_priced_as_often_as_they_are_read() -> None:
    small = replace(C, l2_bytes=1 << 10, threads=1)
    graph = body([X], softmax(X))
    kernel = emitted("row", graph, small)
    assert counted(kernel)["r0"][1] * 4 == kernel.schedule.reads[0] == 2 * X.type.nbytes
    assert kernel.schedule.price(small).bytes_read == 2 * X.type.nbytes


@needs_compiler
def test_sums_are_as_exact_as_numpys() -> None:
    cases = [(dtype, *lying) for dtype in (np.float32, np.float64)
             for lying in (((1 << 20,), -1), ((7, 100_003), -1), ((50_000, 8), -2), ((3, 5, 4001), -1))]  # fmt: skip
    arrays = [(np.random.default_rng(0).random(shape) + 0.5).astype(dtype) for dtype, shape, _ in cases]
    kernels = [emitted("reduce", body([x], reduced("sum", x, axis)))
            for dtype, shape, axis in cases for x in (read(0, shape, dtype),)]  # fmt: skip
    for case, array, (got,) in zip(cases, arrays, run_all(kernels, [[a] for a in arrays]), strict=True):
        dtype, _, axis = case
        exact = array.astype(np.longdouble).sum(axis, keepdims=True)
        ours, numpys = (np.abs(a - exact).max() / np.abs(exact).max() for a in (got, array.sum(axis, keepdims=True)))
        assert ours <= max(2 * numpys, 4 * np.finfo(dtype).eps), case


@needs_compiler
@pytest.mark.parametrize(
    "case", ["softmax of rows", "sums of columns", "squares and their sum", "mean of all", "a transpose and a sum"]
)
def test_the_number_of_threads_changes_no_bit(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, graph = CASES[case]
    monkeypatch.setattr(scheduling, "SHARED_FROM", 0.0)
    monkeypatch.setattr(scheduling, "HANDED", 0.0)
    monkeypatch.setattr(scheduling, "CHUNK_SECONDS", 2e-6)
    arrays = data(graph)
    kernels = [emitted(kind, graph, replace(C, threads=threads)) for threads in (1, 16)]
    assert {k.schedule.threads for k in kernels} == {1, 16}
    first, *others = [[a.tobytes() for a in run_all([k], [arrays])[0]] for k in kernels]
    assert all(other == first for other in others)


@needs_compiler
def test_the_largest_and_the_smallest_are_a_nan_anywhere_and_lie_there() -> None:
    kernels, arrays, wanted = [], [], []
    for shape, axis in (((3, 70), -1), ((70, 3), -2), ((70, 40), -2), ((100_000,), -1)):
        x = read(0, shape)
        for op, place in itertools.product(["max", "min", "argmax", "argmin"], (0, 1, 17, 69, x.type.size - 1)):
            array = np.random.default_rng(place).random(shape).astype(np.float32)
            array.reshape(-1)[place] = np.nan
            kernels.append(emitted("reduce", body([x], reduced(op, x, axis))))
            arrays.append([array])
            wanted.append((f"{op} of {shape}, NaN at {place}", getattr(np, op)(array, axis=axis, keepdims=True)))
    for (text, want), (got,) in zip(wanted, run_all(kernels, arrays), strict=True):
        np.testing.assert_array_equal(got, want, text)


@pytest.mark.slow
@needs_compiler
def test_of_equal_values_the_first_is_found() -> None:
    array = np.zeros((4, 3000))
    array[1, 700:] = array[2, 2999] = 1
    array[3] = np.arange(3000) // 700 % 2 == 0
    kernels, data = [], []
    for dtype in ("bool", "int8", "uint64", "float16", "float64"):
        x = read(0, array.shape, dtype)
        kernels += [emitted("reduce", body([x], reduced(op, x, axis)))
                    for op in ("argmax", "argmin") for axis in (-1, -2)]  # fmt: skip
        data += [[array.astype(dtype)]] * 4
    for kernel, arrays, (got,) in zip(kernels, data, run_all(kernels, data), strict=True):
        np.testing.assert_array_equal(got, evaluate(kernel.schedule.body, arrays)[0], str(kernel.schedule.body))


def test_loops_over_pairs_run_along_what_is_reduced_and_are_priced_as_often_as_they_load() -> None:
    near, apart = (emitted("reduce", paired("sum", step), replace(C, threads=1)).schedule for step in (1, 3))
    for schedule in (near, apart):
        assert schedule.nest.runs.reduced and not schedule.workspaces
    assert apart.compute > 1.5 * near.compute


def test_small_kernels_stay_on_one_thread_and_large_ones_do_not() -> None:
    many = replace(C, threads=8)
    for n, threads in ((1000, 1), (4_000_000, 8)):
        x = read(0, (n,))
        assert emitted("map", body([x], gelu(x)), many).schedule.threads == threads


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_price_counts_the_units_of_the_thread_that_has_the_most(threads: int) -> None:
    for units, chunk in itertools.product(range(1, 40), range(1, 9)):
        left = [0] * threads
        sizes = [min(chunk, units - first) for first in range(0, units, chunk)]
        for size in [sizes[-1], *sizes[:-1]]:  # a worker takes the last one first
            left[left.index(min(left))] += size
        counted = scheduling._most_units(units, chunk, threads)
        assert counted == max(left) if len(sizes) > 1 else counted in (chunk, units)


def test_equal_bodies_have_equal_text_and_numbers_of_the_program_are_not_in_it() -> None:
    x = read(0, (10, 20))
    texts = [emitted("map", body([x], mul(x, number(value)))).text.source for value in (0.12345, 0.12345, 7.0)]
    assert texts[0] == texts[1] and "12345" not in texts[0]
    assert re.sub(r"map_[0-9a-f]+", "", texts[0]) == re.sub(r"map_[0-9a-f]+", "", texts[2])


@pytest.mark.parametrize("case", CASES)
def test_a_schedule_says_how_it_runs_and_has_a_price(case: str) -> None:
    kind, graph = CASES[case]
    schedule = kind_named(kind).schedule(graph, C)
    assert str(schedule).startswith("loops over ")
    price = schedule.price(C)
    assert price is not None and price.seconds > C.launch_seconds and price.flops >= 0


@pytest.mark.slow
@needs_compiler
def test_any_and_all_are_found_wherever_the_element_that_decides_stands() -> None:
    kernels, arrays, wanted = [], [], []
    for shape, dtype in itertools.product([(100_000,), (3, 5000), (5000, 3)], (np.bool_, np.int8, np.float16, "f8")):
        for axis in (-1, -2)[: len(shape)]:
            x = read(0, shape, dtype)
            kernel = emitted("reduce", body([x], reduced("any", x, axis), reduced("all", x, axis)))
            for place in (0, 2047, 2048, int(np.prod(shape)) - 1, None):
                for value in (0, 1):
                    array = np.full(shape, value, dtype)
                    if place is not None:
                        array.flat[place] = 1 - value
                    kernels, arrays = [*kernels, kernel], [*arrays, [array]]
                    wanted.append([f(array, axis=axis, keepdims=True) for f in (np.any, np.all)])
    for got, right in zip(run_all(kernels, arrays), wanted, strict=True):
        np.testing.assert_array_equal(got[0], right[0])
        np.testing.assert_array_equal(got[1], right[1])


def test_vectors_run_along_the_dimension_that_most_bytes_lie_along_however_wide_the_results_are() -> None:
    x = read(0, (64, 1024), np.int8)
    nest = emitted("reduce", body([x], reduced("sum", x))).schedule.nest
    assert nest.runs.reduced


@pytest.mark.parametrize("columns", [16, 20, 48, 64, 300])
@pytest.mark.parametrize("operands", [1, 3])
def test_vectors_of_a_map_lie_along_its_result_and_operands_that_lie_across_are_copied_by_blocks(
    columns: int, operands: int
) -> None:
    arrays = [read(i, (4096, columns)) for i in range(operands)]
    first, *others = [node("transpose", (x,), ((1, 0),)) for x in arrays]
    graph = body(arrays, reduce(add, others, mul(first, first)))
    kernel = emitted("map", graph)
    nest, (written,) = kernel.schedule.nest, kernel.schedule.written
    assert nest.runs.step(written) == 1
    pitches = {int(pitch) for pitch in re.findall(r"b\d+\[(\d+) \* \(j - j_begin\)", kernel.text.source)}
    assert pitches and all(4 * pitch % 128 == 64 for pitch in pitches)  # an odd number of cache lines
    judge([kernel], [graph], [data(graph)])


def test_kernels_that_take_long_let_other_threads_of_python_work() -> None:
    for size, released in ((10, False), (1 << 24, True)):
        kernel = emitted("map", body([read(0, (size,))], gelu(read(0, (size,)))))
        assert ("eqf_python.release()" in kernel.text.source) is released


@needs_compiler
def test_a_call_of_a_kernel_keeps_no_reference() -> None:
    kernel = emitted("map", body([X], mul(X, X)))
    function = loaded(modules([kernel]))[kernel.name]
    arrays = [np.ones(X.shape, X.dtype) for _ in range(2)]
    before = [sys.getrefcount(array) for array in arrays]
    assert [function(*arrays) for _ in range(100)] == [None] * 100
    assert [sys.getrefcount(array) for array in arrays] == before


def test_many_kernels_are_compiled_as_several_texts_each_in_one() -> None:
    value, kernels = read(0, (10,)), []
    for _ in range(30):
        value = gelu(value)
        kernels.append(emitted("map", body([read(0, (10,))], value)))
    texts = modules([*kernels, kernels[0]])
    assert 4 < len(texts) < len(kernels)
    assert [k for module in texts for k in module.kernels] == kernels


def test_short_texts_are_as_many_as_threads_compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = read(0, (10,))
    values = itertools.accumulate([x] * 8, lambda value, _: gelu(value))
    kernels = [emitted("map", body([x], value)) for value in [*values][1:]]
    counts = {}
    for threads in (1, 2, 16):
        monkeypatch.setattr(c_kernels, "thread_count", lambda threads=threads: threads)
        counts[threads] = len(modules(kernels))
    assert counts[1] < counts[2] == 2 < counts[16] < len(kernels)


def test_equal_kernels_of_a_program_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [ef.spec((300, 400), np.float32) for _ in range(5)]
    graph = ef.trace(lambda *xs: [np.sort(np.exp(x) / np.exp(x).sum(-1, keepdims=True)) for x in xs], *rows)
    plan = ef.extract(ef.saturate(graph), target=C)
    bodies: list[Graph] = []
    emit = executable.emit_kernel

    def noted(kernel: Kernel, *rest: Any, **named: Any) -> Any:
        bodies.append(kernel.body)
        return emit(kernel, *rest, **named)

    monkeypatch.setattr(executable, "emit_kernel", noted)
    program = ef.emit(plan)
    rows_of_softmax = [k.body for k in plan.kernels if k.kind == "row"]
    assert len(rows_of_softmax) == 5 and sum(b in rows_of_softmax for b in bodies) == 1
    arrays = data(graph)
    for got, wanted in zip(program(*arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def square(n: int) -> CKernel:
    """A product of two matrices with `n` rows and columns."""
    x, y = read(0, (n, n)), read(1, (n, n))
    return emitted("contract", body([x, y], node("matmul", (x, y))))


def test_texts_of_loops_and_of_brief_kernels_are_compiled_in_little_time_and_apart_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = read(0, (1 << 20,))
    kernels = [square(9), square(600), emitted("map", body([x], gelu(x)))]
    assert [k.schedule.seconds < BRIEF for k in kernels] == [True, False, False]
    brief, long = texts = modules(kernels)
    assert brief.kernels == [kernels[0], kernels[2]] and long.kernels == [kernels[1]]
    asked: list[tuple[list[str], list[str]]] = []
    monkeypatch.setattr(c_kernels, "load_all", lambda texts, quick: asked.append((texts, quick)) or [])  # type: ignore[func-returns-value]
    with pytest.raises(ValueError):
        loaded(texts)
    assert asked == [([brief.text, long.text], [brief.text])]


def test_where_the_seconds_do_not_suffice_the_longest_kernels_are_compiled_with_all_optimisations() -> None:
    kernels = [square(n) for n in (9, 300, 900, 600)]
    names = [k.name for k in kernels]
    assert hurried(kernels, math.inf) == hurried(kernels, 1e9) == set()
    fewer = [hurried(kernels, seconds) for seconds in np.linspace(0, 1, 500)]
    distinct = [names for i, names in enumerate(fewer) if names not in fewer[:i]]
    assert distinct == [{*names[1:]}, {names[1], names[3]}, {names[1]}, set()]
    quick, careful = modules(kernels, distinct[1])
    assert quick.is_quick and [k.name for k in quick.kernels] == [names[0], names[1], names[3]]
    assert not careful.is_quick and [k.name for k in careful.kernels] == [names[2]]


def test_where_the_compiler_has_no_time_at_all_numpy_runs_the_kernels_that_it_makes_least_faster() -> None:
    x = read(0, (1 << 16,))
    bodies = [body([x], gelu(x)), body([x], mul(x, x)), body([x], gelu(gelu(x)))]
    often, once, long = each = [emitted("map", b) for b in bodies]
    kernels = [often] * 8 + each
    by_numpy = {k.name: emit_by_numpy(b) for k, b in zip(each, bodies, strict=True)}
    parts = [left_to_numpy(kernels, by_numpy, C, seconds) for seconds in np.linspace(0, 1, 500)]
    distinct = [names for i, names in enumerate(parts) if names not in parts[:i]]
    assert distinct == [{often.name, once.name, long.name}, {once.name, long.name}, {once.name}, set()]
    assert [are_too_many(kernels, seconds) for seconds in np.linspace(0, 1, 500)] == [bool(names) for names in parts]
    assert left_to_numpy(kernels, {once.name: by_numpy[once.name]}, C, 0) == {once.name}  # it alone has another form


def test_a_chunk_of_one_unit_is_no_loop_since_compilers_unroll_it_before_they_make_vectors() -> None:
    x, y = read(0, (4096, 1)), read(1, (1, 4096))
    distance = node("sqrt", (add(mul(x, y), number(1.0)),))
    kernel = emitted("reduce", body([x, y], reduced("sum", distance, -2, -1)))
    assert kernel.schedule.chunks == kernel.schedule.units > 1
    assert "const long part = chunk;" in kernel.text.source and "for (long part = first" not in kernel.text.source


@needs_compiler
def test_many_columns_of_an_array_that_lie_far_apart_are_compiled_in_time() -> None:
    """gcc 12 does not end where it knows how far apart they lie."""
    x = read(0, (512, 2048))
    columns = [node("slice", (x,), (((0, 512, 1), (j, j + 1, 1)),)) for j in range(12)]
    sums = [columns[0]]
    for column in columns[1:]:
        sums.append(add(mul(sums[-1], number(0.5)), column))
    graph = body([x], *sums[1:])
    arrays = data(graph)
    (results,) = run_all([emitted("map", graph)], [arrays])
    for got, want in zip(results, evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
