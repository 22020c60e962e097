"""Why: the laws an explanation names are enough for the plan, each is needed, and each stands at its kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.profiles import profile
from eqfuse.egraph.equality import equality
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan
from eqfuse.rewrites import APPROXIMATE, REASSOCIATES, Law, admitted, laws_named, tensors
from eqfuse.show.attribution import fewest, rests_on
from eqfuse.specialise.plan_transfer import program_of, value_nodes

F = np.float32
LAWS = admitted(laws_named("all"), "reassociate")
LONG = ("G2", "G3 k=200")  # as G3 k=8, and longer


def plan_of(graph: Graph, target: str = "a100", laws: Any = "all") -> Plan:
    return ef.extract(ef.saturate(graph, laws=laws), target=profile(target))


def equal(plan: Plan, laws: list[Law]) -> bool:
    """By egglog, and not by `eqfuse.show.attribution`."""
    return equality(plan.graph, program_of(plan, value_nodes(plan)), laws, rounds=16) is not None


SUBJECTS = [(id, "a100") for id in GRAPHS if id not in LONG]
SUBJECTS += [(id, "cpu") for id in ("G8", "G11", "G18", "G20", "G25 M=1")]
EVERY = 3  # of those tried in the default run


@pytest.mark.parametrize(
    ("id", "target"),
    [pytest.param(*s, marks=() if i % EVERY == 0 else pytest.mark.slow) for i, s in enumerate(SUBJECTS[::2])],
)
def test_the_named_laws_lead_to_the_plan_and_each_of_them_is_needed(id: str, target: str) -> None:
    function, types = GRAPHS[id].program(small=False)
    graph = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    plan = plan_of(graph, target)
    rests = rests_on(plan, LAWS, seconds=60)
    named = [law for law in LAWS if law.name in rests.laws]
    assert not rests.doubt
    assert len(named) == len(rests.laws)
    assert str(plan_of(graph, target, laws=named)) == str(plan)  # a fresh search under these laws alone
    assert equal(plan, named)
    for law in named:
        assert not equal(plan, [other for other in named if other is not law]), law.name
    assert {law for kernel in rests.kernels for law in kernel} == set(rests.laws)


def rests(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> Any:
    program = ef.compile(function, *[ef.spec(s, F) for s in shapes], target=profile("a100"), **options)
    assert program.laws is not None
    return rests_on(program.plan, program.laws, seconds=60)


@pytest.mark.slow
def test_a_law_stands_at_the_kernel_that_shows_it() -> None:
    def program(x: Any, b: Any, c: Any) -> Any:
        rows = np.cumsum(np.maximum(x.T * 1.0, 0).T, axis=0)  # a library call between the two
        return np.cumsum(rows, axis=1) @ b + np.cumsum(rows, axis=1) @ c

    # long kernels, which share no launch
    basis = rests(program, (4096, 4096), (4096, 4096), (4096, 4096))
    by_law = {law: [i for i, laws in enumerate(basis.kernels) if law in laws] for law in basis.laws}
    last = len(basis.kernels) - 1
    assert by_law["common_left_factor"][-1] == last and 0 not in by_law["common_left_factor"]
    assert by_law["times_one"] == [0]
    assert () in basis.kernels  # the sums


def test_a_value_that_the_program_does_not_have_rests_on_what_makes_a_value_of_it_that_it_has() -> None:
    basis = rests(lambda x, y, z: np.cumsum(x @ y @ z, axis=1), (512, 512), (512, 512), (512, 1))
    assert basis.kernels == (("associate_products",), ("associate_products",), ())


def test_laws_that_make_a_result_without_a_kernel_are_named_for_the_program() -> None:
    basis = rests(lambda x: (x * 1.0, np.tanh(x)), (8,))
    assert basis.laws == ("times_one",) and basis.kernels == ((),)
    assert "the program: times_one" in str(basis)


def test_a_program_that_is_only_fused_needs_no_law() -> None:
    explained = ef.compile(lambda x: np.tanh(np.exp(x)), ef.spec((8,), F)).explain()
    assert explained.rests is not None and explained.rests.laws == ()
    assert "no law needed" in str(explained) and "no law needed" in explained._repr_html_()


def test_folding_constants_is_no_law() -> None:
    def program(x: Any) -> Any:
        return np.tanh(x + np.float32(2) * np.asarray(np.float32(3)))

    graph = ef.trace(program, ef.spec((8,), F))
    assert rests_on(plan_of(graph), LAWS).laws == ()


def test_kernels_and_their_laws_are_told_in_text_and_in_html() -> None:
    program = ef.compile(lambda x, y, z: x @ y + x @ z, *[ef.spec((64, 64), F)] * 3, target=profile("a100"))
    line = "kernel" + "s 0, 1: common_left_factor" if program.report.n_kernels == 2 else " 0: common_left_factor"
    assert line in str(program.explain())
    assert line in program.explain()._repr_html_()


def test_a_law_of_the_users_own_is_named() -> None:
    x, y = tensors("x y")
    mine = Law("mine", np.exp(x) * np.exp(y), np.exp(x + y), exactness=ef.rewrites.REASSOCIATES, check=False)
    basis = rests(lambda a, b: np.exp(a) * np.exp(b), (512, 512), (512, 512), laws=[mine])
    assert basis.laws == ("mine",) and basis.kernels == (("mine",),)


def product_of_sums(x: Any, y: Any, z: Any) -> Any:
    return x @ y + x @ z


def test_a_program_from_the_cache_and_one_from_a_file_know_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    graph = ef.trace(product_of_sums, *[ef.spec((64, 64), F)] * 3)
    for stage in ("saturate", "cache"):
        program = ef.compile(graph)
        assert stage in program.report.seconds
        assert program.rests_on is not None and program.rests_on.laws == ("common_left_factor",)
    program.save(tmp_path / "saved")
    assert ef.load(tmp_path / "saved").rests_on == program.rests_on


def test_a_saved_program_that_rests_on_a_law_of_the_users_own_says_that_it_is_lost(tmp_path: Path) -> None:
    x, y, z = tensors("x y z")
    own = Law("common_left_factor", x @ y + x @ z, x @ (y + z), (), REASSOCIATES, float16=APPROXIMATE)
    ef.compile(product_of_sums, *[ef.spec((64, 64), F)] * 3, laws=[own]).save(tmp_path / "saved")
    basis = ef.load(tmp_path / "saved").rests_on
    assert basis is not None and basis.laws == () and "are missing" in basis.doubt and basis.doubt in str(basis)


def test_a_plan_that_was_transferred_to_another_size_rests_on_laws_too() -> None:
    program = ef.compile(product_of_sums, *[ef.spec(("n", "n"), F)] * 3)
    assert "common_left_factor" in str(program.explain())
    assert program.at(n=90).rests_on.laws == ("common_left_factor",)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_equal_blocks_of_a_deep_program_are_looked_at_once_and_all_named() -> None:
    from eqfuse.demo.programs import transformer

    function, arguments = transformer(batch=1, tokens=8, width=12, heads=3, blocks=3).build(F)
    program = ef.compile(function, *arguments, target=profile("a100"))
    basis = rests_on(program.plan, LAWS, seconds=60)
    assert basis.laws and not basis.doubt and len(basis.kernels) == program.report.n_kernels
    assert {law for laws in basis.kernels for law in laws} == set(basis.laws)


def test_a_search_without_time_says_so() -> None:
    graph = ef.trace(product_of_sums, *[ef.spec((64, 64), F)] * 3)
    basis = rests_on(plan_of(graph), LAWS, seconds=0.0)
    assert basis.laws == () and "not proved again: the time for it ran out" in str(basis)


def test_a_search_that_is_cut_short_names_laws_that_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqfuse.show import attribution

    def no_time(*_: Any) -> None:
        raise attribution.OpenQuestion("out of time")

    def program(x: Any, y: Any, z: Any) -> Any:
        return np.cumsum(product_of_sums(x * 1.0, y, z), axis=0)

    plan = plan_of(ef.trace(program, *[ef.spec((4096, 4096), F)] * 3))
    fewest_laws = rests_on(plan, LAWS, seconds=60).laws
    assert len(fewest_laws) > 1
    monkeypatch.setattr(attribution, "_by_kernel", no_time)
    basis = rests_on(plan, LAWS, seconds=60)
    assert basis.doubt == "of these, a kernel may need fewer: out of time" and basis.doubt in str(basis)
    assert basis.laws == fewest_laws and set(basis.kernels) == {fewest_laws}
    monkeypatch.setattr(attribution, "fewest", no_time)
    basis = rests_on(plan, LAWS, seconds=60)
    assert basis.doubt == "fewer may do: out of time" and basis.doubt in str(basis)
    assert equal(plan, [law for law in LAWS if law.name in basis.laws])


@given(st.sets(st.frozensets(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_what_is_left_is_enough_and_nothing_in_it_can_go(proofs: set[frozenset[int]]) -> None:
    def enough(some: list[int]) -> bool:
        return any(proof <= set(some) for proof in proofs)

    kept: list[Any] = list(range(10))
    fewest(kept, enough)
    assert enough(kept)
    assert not any(enough([k for k in kept if k != dropped]) for dropped in kept)
