"""Branches in C: computed for those elements alone that a choice asks for, with the bits of all computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.device import Device
from eqfuse.emit.c import branches
from eqfuse.emit.c import schedule as schedules
from eqfuse.emit.c.branches import LANES
from eqfuse.emit.c.kernels import CKernel
from eqfuse.emit.c.schedule import LoopsSchedule, loops_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from tests.kernels.test_c_streaming import NEAR
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, judge, run_all
from tests.support.some import some

SHARES = (0, 0.003, 0.1, 0.3, 0.6, 0.95, 1)  # of the elements for which a mask is true


@pytest.fixture(autouse=True)
def long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches of few elements are worth their loops, so that tests are brief."""
    monkeypatch.setattr(branches, "LEAST_GAIN", 0.0)


def dear(x: Any) -> Any:
    return np.exp(-(x * x * 0.3 + 0.2 * x) * x) * np.exp(x) + x


def assigned(x: Any, m: Any) -> Any:
    y = x.copy()
    y[m] = dear(x[m])
    return y


def one_or_other(x: Any, m: Any) -> Any:
    return np.where(m, dear(x), np.exp(x * x) * np.exp(-x))


def selected(x: Any, m: Any) -> Any:
    return np.select([m, x > 1, x > 0.5], [dear(x), np.atan(x), np.expm1(x)], np.log(x))


def by_pieces(x: Any, m: Any) -> Any:
    return np.piecewise(x, [m, x < -1], [dear, np.sin, np.exp2])


def choice_in_a_branch(x: Any, m: Any) -> Any:
    return np.where(m, dear(np.where(x > 0, x, np.log(x) / x)), x)


def two_results(x: Any, m: Any) -> Any:
    z = dear(x)
    return np.where(m, z, 0), np.where(m, z * 2, x), m


def results_that_share(x: Any, m: Any) -> Any:
    z = dear(x)
    return np.where(m, z, x), np.where(m, np.exp(-z), 1) > 0.5


def of_rows(x: Any, m: Any) -> Any:
    return np.where(m & (x[:, :1] > 0), dear(x) * x[:1], x[:, ::-1])


def joined(x: Any, m: Any) -> Any:
    both = np.concatenate([x, x * 2], 1)
    return np.where(np.concatenate([m, ~m], 1), dear(both), both)


PROGRAMS: dict[Callable[..., Any], tuple[int, ...]] = {
    assigned: (5 * LANES + 77,), one_or_other: (20 * LANES,), selected: (3000,), by_pieces: (LANES - 1,),
    choice_in_a_branch: (9000,), two_results: (4001,), results_that_share: (2048,), of_rows: (7, 700), joined: (5, 999),
}  # fmt: skip


def arrays_of(shape: tuple[int, ...], dtype: str, share: float, in_one_run: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(shape) + shape[-1])
    x = rng.normal(size=shape)
    x.flat[::97], x.flat[1::101], x.flat[2::103], x.flat[3::107] = np.nan, np.inf, -np.inf, -0.0
    places = np.arange(x.size) / x.size if in_one_run else rng.random(x.size)
    return x.astype(dtype), (places < share).reshape(shape)


def all_computed(graph: Graph, device: Device) -> CKernel:
    """The kernel without branches."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schedules, "with_branches", lambda form, nest, device: form)
        return emitted("map", graph, device)


@needs_compiler
@pytest.mark.parametrize("case", some([("float32", NEAR), ("float64", C), ("float16", NEAR)], 3))
def test_a_branch_has_the_bits_of_all_computed_whoever_asks_for_it(case: tuple[str, Device]) -> None:
    dtype, device = case
    kernels, plain, given, graphs = [], [], [], []
    for function, shape in PROGRAMS.items():
        graph = ef.trace(function, ef.spec(shape, dtype), ef.spec(shape, bool))
        arrays = [arrays_of(shape, dtype, share, in_one_run) for share in SHARES for in_one_run in (False, True)]
        kernel = emitted("map", graph, device)
        assert "computed where a choice asks for it" in str(kernel.schedule)
        kernels += [kernel] * len(arrays)
        plain += [all_computed(graph, device)] * len(arrays)
        given += arrays
        graphs += [graph] * len(arrays)
    for one, other, read, graph in zip(run_all(kernels, given), run_all(plain, given), given, graphs, strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, read)
        for a, b, want in zip(one, other, wanted, strict=True):
            for each in (a, b, want):
                each[each != each] = np.nan  # of either sign
            assert a.tobytes() == b.tobytes()
            np.testing.assert_array_equal(a != a, want != want)


def sum_of_chosen(x: Any, m: Any) -> Any:
    return np.sum(dear(x), -1, where=m, keepdims=True)


def sum_of_selection(x: Any, m: Any) -> Any:
    return np.sum(np.where(m, dear(x) * 2, 0), (0, 1), keepdims=True)


def several_of_rows(x: Any, m: Any) -> Any:
    chosen = np.where(m, dear(x), x)
    largest = chosen.max(-1, keepdims=True)
    return largest, chosen.argmin(-1, keepdims=True), np.where(m, np.exp(x), 1).sum(-1, keepdims=True)


def also_whole(x: Any, m: Any) -> Any:
    chosen = np.where(m, dear(x), x)
    return chosen, chosen.sum(-1, keepdims=True)


@needs_compiler
@pytest.mark.parametrize(
    "case", some([((40, 301), "float32"), ((3, 30_000), "float16"), ((70, 90), "float64"), ((3, 30_000), "float32")], 4)
)
def test_reductions_of_choices_are_right_whoever_asks(case: tuple[tuple[int, int], str]) -> None:
    """And have the same bits on one thread and on several."""
    shape, dtype = case
    kernels, alone, given, graphs = [], [], [], []
    for function in (sum_of_chosen, sum_of_selection, several_of_rows, also_whole):
        graph = ef.trace(function, ef.spec(shape, dtype), ef.spec(shape, bool))
        kernel, same = (emitted("row", graph, device) for device in (C, C.single))
        assert isinstance(kernel.schedule, LoopsSchedule)
        assert kernel.schedule.forms[0].branches or kernel.schedule.nest.inside
        kernels += [kernel] * len(SHARES)
        alone += [same] * len(SHARES)
        given += [arrays_of(shape, dtype, share, False) for share in SHARES]
        graphs += [graph] * len(SHARES)
    given = [(np.nan_to_num(x, posinf=2, neginf=-2), m) for x, m in given]
    with np.errstate(all="ignore"):
        judge(kernels, graphs, given)
    for one, other in zip(run_all(kernels, given), run_all(alone, given), strict=True):
        assert [a.tobytes() for a in one] == [b.tobytes() for b in other]


@needs_compiler
def test_of_a_branch_only_the_elements_that_ask_are_computed() -> None:
    """Those of the others may be so far that the quick sine would not do: then all would be computed once more."""
    graph = ef.trace(lambda x, m: np.where(m, np.sin(x) * dear(x), x), ef.spec(2000), ef.spec(2000, bool))
    text = emitted("map", graph).text.source
    quick = text[text.index("_quick(") : text.index("_chunk(")]
    assert "far |=" in quick
    few, _, rest = quick.rpartition("at[lane]")
    assert "eqf_sin" in few and "eqf_sin" not in rest and "eqf_exp" not in rest


def test_each_branch_of_a_choice_of_several_is_one_of_its_own() -> None:
    schedule = loops_schedule(ef.trace(selected, ef.spec(3000), ef.spec(3000, bool)), C)
    assert isinstance(schedule, LoopsSchedule)
    functions = [{"exp", "atan", "expm1", "log"} & {n.op for n in b.nodes} for b in schedule.forms[0].branches]
    assert functions == [{"exp"}, {"atan"}, {"expm1"}, {"log"}]


CHEAP: dict[str, Callable[[Any, Any], Any]] = {
    "cheap": lambda x, m: np.where(m, x * 2 + 1, x),
    "read by others too": lambda x, m: np.where(m, np.exp(x), x) + np.exp(x),
    "both the same": lambda x, m: np.where(m, np.exp(x), np.exp(x)),
    "asked by what is dear itself": lambda x, m: np.where(np.tanh(np.sinh(x)) > 0.5, np.exp(x), x),
    "asked by one number": lambda x, m: np.where(m[0], np.exp(x), x),
}


@pytest.mark.parametrize("name", CHEAP)
def test_what_is_not_worth_a_look_is_no_branch(name: str) -> None:
    graph = ef.trace(CHEAP[name], ef.spec((5000,)), ef.spec((5000,), bool))
    assert "asks for it" not in str(loops_schedule(graph, C))
