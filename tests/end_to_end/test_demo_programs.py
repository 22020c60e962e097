"""The demo's three programs, at small sizes: the answers are NumPy's, and the graphs shrink as promised."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.demo import programs
from eqfuse.demo.comparison import best_greedy, compare_example
from eqfuse.demo.html import page
from eqfuse.demo.programs import Example
from eqfuse.ir.pytree import tree_leaves
from eqfuse.kinds import KINDS, Kind
from eqfuse.show.draw import draw_graph, draw_plan

TINY = [
    programs.transformer(batch=2, tokens=6, width=8, heads=2),
    programs.transformer(batch=1, tokens=4, width=8, heads=2, blocks=3),
    programs.options(count=37),
    programs.convolution(batch=2, channels=3, filters=4, size=6),
]
example = pytest.mark.parametrize("example", TINY, ids=lambda e: e.name)


@example
def test_a_demo_program_gives_numpys_answer(example: Example) -> None:
    function, arguments = example.build(np.float32)
    got, structure = tree_leaves(ef.compile(function, *arguments)(*arguments))
    wanted, wanted_structure = tree_leaves(function(*arguments))
    assert structure == wanted_structure
    for g, w, exact in zip(got, wanted, tree_leaves(example.precise())[0], strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        scale = np.abs(exact).max()
        assert np.abs(g - exact).max() <= 4 * np.abs(w - exact).max() + 1e-6 * scale


@example
def test_a_demo_program_is_predicted_no_costlier_than_by_the_best_greedy_fuser(example: Example) -> None:
    function, arguments = example.build(np.float32)
    graph = ef.trace(function, *arguments)
    _, greedy = best_greedy(graph)
    assert ef.compile(graph).report.predicted_seconds <= greedy.report.predicted_seconds * (1 + 1e-9)


def test_black_scholes_becomes_one_kernel_at_full_size() -> None:
    function, _ = programs.options(count=1).build(np.float32)
    program = ef.compile(function, *[ef.spec(4_000_000, np.float32)] * 5, target=DEVICES["cpu"])
    assert program.report.n_kernels == 1
    assert program.report.fusion_rate == 1.0


def test_batch_norm_folds_into_the_convolution() -> None:
    """The statistics are constants, so nothing of them is left at run time."""
    function, _ = programs.convolution().build(np.float32)
    program = ef.compile(function, ef.spec((64, 32, 56, 56), np.float32))
    ops = [op for kernel in program.report.kernels for op in kernel.ops]
    assert "sqrt" not in ops and "divide" not in ops
    assert sorted(ops) == ["add", "conv", "maximum", "window_max"]


def test_the_drawings_have_one_box_per_kernel_and_escape_names() -> None:
    def program(**values: np.ndarray) -> np.ndarray:
        return np.exp(values["<x>"]) + 1

    compiled = ef.compile(ef.trace(program, **{"<x>": np.ones(3)}))  # type: ignore[arg-type]
    before, after = map(ElementTree.fromstring, (draw_graph(compiled.plan.graph), draw_plan(compiled.plan)))
    assert [len(svg.findall("{http://www.w3.org/2000/svg}rect")) for svg in (before, after)] == [3, 2]


def test_a_kernel_of_a_registered_kind_is_drawn_in_the_colour_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ef.compile(np.exp, np.ones(3)).plan
    monkeypatch.setitem(KINDS, "scan", Kind("scan", lambda call: None, colour="#123456"))
    assert "#123456" in draw_plan(replace(plan, kernels=tuple(replace(k, kind="scan") for k in plan.kernels)))


def test_the_page_holds_tables_and_two_drawings_per_program(tmp_path: Path) -> None:
    steps = io.StringIO()
    comparison = compare_example(TINY[2], lambda step: print(step, file=steps))
    text = page([comparison])
    assert text.count("<svg") == 2 and text.count("<tr>") == 4
    assert "timing, round 3" in steps.getvalue()
    assert [v.name.split(",")[0] for v in comparison.versions] == ["plain NumPy", "greedy", "eqfuse"]
    assert all(v.error < 1e-4 for v in comparison.versions)
