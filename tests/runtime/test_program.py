"""Programs: memory, arguments, results, threads, source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.plan.memory import results
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.runtime.program import Program
from tests.support.kernels import CPU, PRICE, add, gelu, mul, number, read, reduced, softmax


def one_kernel_per_operator(inputs: Sequence[Node], *outputs: Node) -> Plan:
    """The plan that stores every value."""
    graph = Graph(tuple(inputs), outputs)
    number_of = {n: i for i, n in enumerate(graph.inputs)}
    constants, kernels = [], []
    for n in graph.nodes:
        if n in number_of:
            continue
        number_of[n] = len(number_of)
        if n.op == "const":
            constants.append((number_of[n], n.literal))
            continue
        args = list(dict.fromkeys(n.args))
        reads = {a: read(i, a.shape, a.dtype) for i, a in enumerate(args)}
        body = Graph(tuple(reads.values()), (node(n.op, (reads[a] for a in n.args), n.attrs),))
        kind = "view" if n.op in ("transpose", "reshape", "slice") else "library"
        kernels.append(Kernel(kind, body, tuple(number_of[a] for a in args), (number_of[n],), PRICE))
    types = tuple(n.type for n in number_of)
    values = tuple(number_of[n] for n in graph.inputs)
    return Plan(graph, CPU, types, values, tuple(constants), (), tuple(kernels), tuple(number_of[o] for o in outputs))


def test_a_program_gives_what_the_evaluator_gives():
    x, y = read(0, (30, 40)), read(1, (40,))
    plan = one_kernel_per_operator([x, y], softmax(add(x, y)), gelu(x), reduced("sum", y))
    program = Program(plan)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=n.shape).astype(np.float32) for n in plan.graph.inputs]
    for got, wanted in zip(program(*arrays), ef.meaning(plan.graph, *arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_intermediates_share_memory_when_they_are_never_alive_together():
    x = read(0, (1000,))
    y = x
    for _ in range(10):
        y = node("exp", (y,))
    program = Program(one_kernel_per_operator([x], y))
    assert program.peak_bytes <= 2 * 4032


def test_results_belong_to_the_caller():
    x = read(0, (50, 60))
    t = node("transpose", (x,), ((1, 0),))
    e = node("exp", (x,))
    program = Program(one_kernel_per_operator([x], x, t, e, node("transpose", (e,), ((1, 0),)), number(3), e))
    a = np.ones((50, 60), np.float32)
    first = program(a)
    kept = [r.copy() for r in first]
    for i, r in enumerate(first):
        assert not np.shares_memory(r, a)
        assert not any(np.shares_memory(r, s) for s in first[:i])
        r[...] = 9
    for r, k in zip(program(a), kept, strict=True):
        np.testing.assert_array_equal(r, k)


def test_wrong_arguments_are_refused_by_name_and_type():
    program = Program(one_kernel_per_operator([x := read(0, (3, 4))], node("exp", (x,))))
    with pytest.raises(ef.ShapeError, match=r"'r0' is float64\[3, 4\].*compiled for float32\[3, 4\]"):
        program(np.ones((3, 4)))
    with pytest.raises(ef.ShapeError, match=r"float32\[4, 3\]"):
        program(np.ones((4, 3), np.float32))
    with pytest.raises(ef.ShapeError, match="1 inputs, 2 arrays"):
        program(np.ones((3, 4), np.float32), 1)


def test_several_threads_may_call_one_program():
    x = read(0, (400, 500))
    program = Program(one_kernel_per_operator([x], gelu(x)))
    arrays = [np.full((400, 500), v, np.float32) for v in range(8)]
    wanted = [program(a)[0] for a in arrays]
    results: dict[int, np.ndarray] = {}

    def call(i: int) -> None:
        for _ in range(5):
            results[i] = program(arrays[i])[0]

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(8):
        np.testing.assert_array_equal(results[i], wanted[i])


def test_overflow_warns_no_one(recwarn):
    program = Program(one_kernel_per_operator([x := read(0, (3,))], node("exp", (mul(x, number(1e30)),))))
    program(np.ones(3, np.float32))
    assert not recwarn.list


def test_source_names_every_kernel():
    program = Program(
        one_kernel_per_operator([x := read(0, (3, 4))], node("transpose", (node("exp", (x,)),), ((1, 0),)))
    )
    assert "# kernel 0, library: v1 = exp of v0" in program.source()
    assert "exp(v0, v1)" in program.source()
    assert "transpose of v1: no data moves" in program.source()


def test_memory_of_a_result_is_used_again_only_when_nobody_holds_it_or_a_view():
    program = Program(one_kernel_per_operator([x := read(0, (100, 200))], node("exp", (x,))))
    zeros, ones = np.zeros((100, 200), np.float32), np.ones((100, 200), np.float32)
    held = program(zeros)[0]
    row = program(zeros)[0][5]
    for _ in range(20):
        program(ones)
    assert (held == 1).all() and (row == 1).all()
    results.forget()
    address = program(zeros)[0].ctypes.data
    assert program(ones)[0].ctypes.data == address


def test_a_result_that_is_held_is_not_written_by_other_threads():
    program = Program(one_kernel_per_operator([x := read(0, (100, 200))], node("negative", (x,))))
    wrong = []

    def call(i: int) -> None:
        array = np.full((100, 200), i, np.float32)
        kept = [program(array)[0] for _ in range(30)]
        wrong.extend(k for k in kept if (k != -i).any())

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def scattered(x: Node, value: Node, start: int) -> Node:
    """`x` with `value` from `start` on."""
    return node("slice_scatter", (x, value), ((((start, start + value.shape[0], 1),),),))


def part(x: Node, start: int, stop: int) -> Node:
    return node("slice", (x,), (((start, stop, 1),),))


def test_what_is_only_copied_into_a_slice_is_written_there():
    x = read(0, (50,))
    e = node("exp", (x,))
    shifted = add(part(e, 0, 40), part(e, 3, 43))  # reads what it overwrites, three elements away
    plan = one_kernel_per_operator([x], node("negative", (scattered(e, shifted, 2),)))
    program = Program(plan)
    assert ", into v1" in program.source()
    a = np.linspace(-1, 1, 50, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(program(a)[0], ef.meaning(plan.graph, a)[0])


def test_an_array_that_is_read_meanwhile_is_not_overwritten():
    x = read(0, (50,))
    e = node("exp", (x,))
    new = node("negative", (part(x, 0, 10),))
    later = node("sqrt", (e,))
    written = scattered(e, new, 5)
    plan = one_kernel_per_operator([x], add(written, later), later)
    a = np.linspace(-1, 1, 50, dtype=np.float32)
    for got, wanted in zip(Program(plan)(a), ef.meaning(plan.graph, a), strict=True):
        np.testing.assert_array_equal(got, wanted)


ANSWERS = sorted(name for name in dir(Program) if not name.startswith("_"))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_made_of_a_plan_alone_answers_or_says_that_it_cannot(name: str, tmp_path: Path) -> None:
    arguments = {"call": [[np.ones(3)]], "run": [[np.ones(3)]], "kernel_seconds": [np.ones(3)]}
    arguments |= {"save": [tmp_path / "program"], "to_onnx": [tmp_path / "program"]}
    program = ef.emit(ef.extract(ef.saturate(ef.trace(np.exp, np.ones(3))), "numpy"))
    with suppress(ef.EqfuseError):
        answer = getattr(program, name)
        if callable(answer):
            answer(*arguments.get(name, []))
