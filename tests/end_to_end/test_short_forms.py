"""What a REPL and a notebook show: short forms of one screen, long forms when printed, and names that stay names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.ir.graph import Graph, const, input_node, node
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import book
from eqfuse.summary import Summary

LINES, COLUMNS = 24, 120
ARGUMENTS = ef.spec((4, 8), np.float32), ef.spec((8, 16), np.float32), ef.spec(16, np.float32)


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def sorts(x: Any) -> Any:
    for _ in range(40):
        x = np.sort(x * 2) + 1
    return x


def chain(operators: int) -> Graph:
    x = input_node("x", TensorType(np.dtype(np.float32), (3,)))
    value, one = x, const(1, np.dtype(np.float32))
    for _ in range(operators):
        value = node("add", (value, one))
    return Graph((x,), (value,))


def is_short(value: object) -> bool:
    lines = repr(value).splitlines()
    return len(lines) <= LINES and all(len(line) <= COLUMNS for line in lines)


@pytest.fixture(scope="module")
def program() -> ef.Program:
    return ef.compile(layer, *ARGUMENTS)


def test_a_program_shows_its_arguments_results_and_kernels(program: ef.Program) -> None:
    signature, total, kernel = repr(program).splitlines()
    assert signature == "Program (x float32[4, 8], w float32[8, 16], b float32[16]) -> float32[4, 16]"
    assert total.startswith("1 kernel for ") and total.endswith("960 B moved, 512 B of temporaries")
    assert kernel.split()[:6] == ["0", "contract", "matmul", "add", "maximum", "960"]


def test_a_plan_shows_its_kernels_and_prints_its_values(program: ef.Program) -> None:
    assert repr(program.plan).startswith("Plan: 1 kernel for ")
    assert "v3 = contract(v0, v1, v2)" in str(program.plan)


def test_a_graph_shows_its_sizes_and_prints_the_text_that_rebuilds_it() -> None:
    graph = ef.trace(layer, *ARGUMENTS)
    assert repr(graph).startswith("Graph: 3 operators, (x float32[4, 8], w float32[8, 16], b float32[16]) -> float32[4")
    assert ef.parse(str(graph)) == graph


def test_a_space_shows_why_the_search_stopped_and_the_laws_that_fired() -> None:
    shown = repr(ef.saturate(ef.trace(layer, *ARGUMENTS)))
    assert shown.startswith("Space: 7 nodes of 3 operators; stopped: saturated") and "add_commutes" in shown


def test_a_report_and_an_explanation_show_totals(program: ef.Program) -> None:
    assert repr(program.report).startswith("Report: 1 kernel, ")
    assert "faster than one kernel per operator" in repr(program.explain())
    assert "Against one kernel per operator:" in str(program.explain())


def test_a_device_shows_its_speed_and_prints_its_profile() -> None:
    a100 = datasheet("a100")
    assert repr(a100).startswith("Device: a100, gpu sm_80, 2.04 TB/s")
    assert "ns per float32 element" in str(a100)


def test_a_jitted_function_shows_what_it_has_compiled() -> None:
    jitted = ef.jit(layer, target=DEVICES["cpu"])  # this machine's own name may be so long that the signature is cut
    assert repr(jitted) == "<eqfuse.jit of layer, 0 program(s), 0 dropped>"
    jitted(*(np.ones(a.shape, a.dtype) for a in ARGUMENTS))
    title, version = repr(jitted).splitlines()
    assert title == "<eqfuse.jit of layer, 1 program(s), 0 dropped>"
    assert version.startswith("  (x float32[4, 8], w float32[8, 16], b float32[16]) -> float32[4, 16]  1 kernel for ")


def test_every_law_of_the_book_is_shown_on_one_line() -> None:
    assert all(len(repr(law).splitlines()) == 1 and is_short(law) for law in book())


def test_a_graph_of_5000_operators_is_short_and_prints_whole() -> None:
    graph = chain(5000)
    assert repr(graph) == "Graph: 5,000 operators, (x float32[3]) -> float32[3]\n  add  ×5,000"
    assert len(str(graph).splitlines()) > 5000


def test_a_long_program_shows_its_longest_kernels_in_order() -> None:
    program = ef.compile(sorts, ef.spec((64, 64)))
    assert program.report.n_kernels > 40
    for value in (program, program.plan, program.report, program.explain(), program.plan.kernels[0]):
        assert is_short(value)
    numbers = [int(line.split()[0]) for line in repr(program).splitlines()[2:-1]]
    assert len(numbers) == 8 and numbers == sorted(numbers)
    assert repr(program).endswith(f"and {program.report.n_kernels - 8} shorter kernels")


def test_a_kernel_of_many_operators_takes_one_line() -> None:
    plan = ef.compile(lambda x: x, ef.spec(3)).plan
    body, price = chain(2000), ef.compile(layer, *ARGUMENTS).plan.kernels[0].price
    kernel = replace(ef.compile(layer, *ARGUMENTS).plan.kernels[0], body=body, price=price)
    assert is_short(kernel) and is_short(replace(plan, kernels=(kernel,) * 100))


def test_many_long_arguments_take_one_line() -> None:
    names = {f"{'argument' * 20}_{i}": ef.spec((3, 4)) for i in range(100)}
    program = ef.compile(lambda **arrays: sum(arrays.values()), **names)
    assert is_short(program) and is_short(program.plan.graph)


def test_a_function_called_at_many_sizes_is_short() -> None:
    fixed, dynamic = ef.jit(lambda x: x + 1), ef.jit(lambda x: x + 1, dynamic=True)
    for n in range(1, 21):
        dynamic(np.ones(n * n))
    with pytest.warns(UserWarning, match="compiled again and again"):
        for n in range(1, 21):
            fixed(np.ones(n * n))
    assert is_short(fixed) and is_short(dynamic)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ef.compile(lambda x: x, ef.spec(3)),
        lambda: ef.compile(lambda: np.arange(3.0)),
        lambda: ef.compile(lambda x: (), ef.spec(3)),
        lambda: ef.compile(lambda x: x + 1, ef.spec((0, 3))),
        lambda: ef.compile(lambda x: x + 1, ef.spec(("n", 3))),
        lambda: ef.compile(lambda n: n + 1, 3),
        lambda: ef.compile(layer, *ARGUMENTS, target="cuda:a100"),
    ],
    ids=["no kernel", "no input", "no result", "no element", "symbolic", "a number alone", "a GPU elsewhere"],
)  # fmt: skip
def test_an_odd_program_is_shown_too(make: Callable[[], ef.Program]) -> None:
    program = make()
    space = ef.saturate(program.plan.graph)
    for value in (program, program.plan, program.report, program.plan.graph, space, *space.segments):
        assert is_short(value) and value._repr_html_().startswith("<p>")


def test_a_notebook_shows_a_table_and_a_drawing_of_few_kernels(program: ef.Program) -> None:
    html = program._repr_html_()
    assert "<td style='text-align:left'>contract</td>" in html and "<svg" in html
    assert "<svg" not in ef.compile(sorts, ef.spec((64, 64)))._repr_html_()
    assert "<svg" not in program.plan._repr_html_()


def test_names_are_escaped_in_html_and_stay_on_their_line() -> None:
    text = "def graph(a0: '<script>x\\n</script>' = \"float32[3]\"):\n    t0 = exp(a0)\n    return (t0, )"
    program = ef.compile(ef.parse(text))
    assert repr(program).startswith("Program (<script>x </script> float32[3]) -> float32[3]\n1 kernel")
    for value in (program, program.plan, program.plan.graph):
        assert "<script>" not in value._repr_html_()


def test_cells_are_cut_where_the_widest_one_would_pass_the_last_column() -> None:
    shown = str(Summary("title", [["1", "a " * 200, "end"], ["22", "b", "end"]]))
    first, second = shown.splitlines()[1:]
    assert len(first) == COLUMNS and first.endswith("…  end") and second.endswith("   end")
