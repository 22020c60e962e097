"""`autotune=True` keeps the program that is fastest by the clock, and makes it alone from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine.quiet import WORKED, Look
from eqfuse.runtime.program import Program
from eqfuse.specialise import tuning
from eqfuse.specialise.tuning import Contender

X = np.random.default_rng(0).normal(size=(200, 300))


def norm(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) * 2


class Clock:
    """A clock by which a program takes what `seconds` says of its plan. It notes the `searches`, by extractor."""

    def __init__(self) -> None:
        self.seconds: Callable[[Program], float] = lambda program: program.plan.seconds
        self.searches: list[str] = []
        self.look = Look(0.01, 1.0)

    def in_turn(self, calls: list[Any], look: Callable[[], None]) -> list[float]:
        look()
        return [self.seconds(call.func.__self__) for call in calls]


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    stand_in = Clock()
    search = tuning.compile_graph

    def noted(graph: Any, **options: Any) -> Program:
        stand_in.searches.append(options["extractor"])
        return search(graph, **options)

    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "compile_graph", noted)
    monkeypatch.setattr(tuning, "in_turn", stand_in.in_turn)
    monkeypatch.setattr(tuning, "look_together", lambda threads: stand_in.look)
    yield stand_in


def most_kernels(program: Program) -> float:
    return 1.0 / program.report.n_kernels


def fewest_kernels(program: Program) -> float:
    return float(program.report.n_kernels)


def tuned(**options: Any) -> Program:
    return ef.compile(norm, X, target="numpy", autotune=True, **options)


def test_the_clock_decides_and_not_the_price(clock: Clock) -> None:
    assert tuned().report.n_kernels == 1
    clock.seconds = most_kernels
    program = tuned(extractor="greedy-priority")  # another key: the first answer stands
    assert program.report.n_kernels > 1
    assert min(program.report.timed, key=program.report.timed.__getitem__) in str(program.explain())
    np.testing.assert_allclose(program(X), norm(X), rtol=1e-12)


def test_the_answer_is_kept_for_later_processes(clock: Clock) -> None:
    clock.seconds = most_kernels
    first = tuned()
    tried, clock.seconds, clock.searches = len(clock.searches), fewest_kernels, []
    second = tuned()
    assert tried > 3 and len(clock.searches) == 1
    assert second.plan == first.plan and second.report.timed == first.report.timed


def test_what_was_faster_by_chance_alone_is_not_chosen(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([most_kernels, fewest_kernels])

    def drifting(calls: list[Any], look: Callable[[], None]) -> list[float]:
        clock.seconds = next(rounds)
        return clock.in_turn(calls, look)

    monkeypatch.setattr(tuning, "in_turn", drifting)
    assert tuned().report.n_kernels == 1


def test_nearly_as_fast_is_not_faster(clock: Clock) -> None:
    clock.seconds = lambda program: 1.0 if program.report.n_kernels == 1 else 0.99
    assert tuned().report.n_kernels == 1


def test_what_is_measured_on_a_busy_machine_is_not_kept(clock: Clock) -> None:
    clock.look = Look(0.01, WORKED - 0.1)
    for _ in range(2):
        clock.searches = []
        with pytest.warns(UserWarning, match="while others ran"):
            tuned()
        assert len(clock.searches) > 3


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_a_damaged_file_is_set_aside_with_a_warning(damage: bytes | None, clock: Clock, tmp_path: Path) -> None:
    tuned()
    (path,) = tmp_path.rglob(f"*{tuning.CHOICE_SUFFIX}")
    path.write_bytes(path.read_bytes().replace(b"flow", b"fxow") if damage is None else damage)
    with pytest.warns(UserWarning, match="measured times .* is damaged"):
        assert tuned().report.timed
    assert path.exists() and path.with_suffix(".corrupt").exists()


def test_where_own_laws_take_part_nothing_is_kept(clock: Clock, tmp_path: Path) -> None:
    law = ef.rewrites.Law("exp_of_sum", *_exp_of_sum(), (), ef.rewrites.APPROXIMATE, check=False)
    ef.compile(norm, X, target="numpy", autotune=True, laws=[law], numerics="approximate")
    assert not list(tmp_path.rglob(f"*{tuning.CHOICE_SUFFIX}"))


def _exp_of_sum() -> tuple[Any, Any]:
    x, y = ef.rewrites.tensors("x y")
    return ef.exp(x + y), ef.exp(x) * ef.exp(y)


def test_on_a_cpu_both_of_its_targets_are_tried() -> None:
    names = [c.target for c in tuning._contenders("cpu", "flow", "reassociate")]
    assert names[0] in ("c", "numpy") and names[0] == names[-1]
    assert names[0] == "numpy" or Contender("numpy", "flow") in tuning._contenders("cpu", "flow", "reassociate")


def test_a_jitted_function_is_tuned_and_right() -> None:
    f = ef.jit(autotune=True, verify=True)(norm)
    np.testing.assert_allclose(f(X[:20, :30]), norm(X[:20, :30]), rtol=1e-12)
    assert f.program(X[:20, :30]).report.timed


def test_where_no_program_keeps_a_limit_of_memory_the_least_is_named(clock: Clock) -> None:
    with pytest.raises(ef.MemoryLimitError, match="the least is"):
        ef.compile(lambda x: np.sort(np.sort(x, axis=0), axis=1), X, target="numpy", autotune=True, memory_limit=8)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a device that is not here": (lambda: ef.compile(norm, X, target="cuda:a100", autotune=True), "GPU"),
    "sizes that change": (lambda: ef.jit(norm, dynamic=True, autotune=True), "one size"),
    "symbolic sizes": (lambda: ef.compile(norm, ef.spec(("n", 3)), autotune=True), "one size"),
    "a program that is not waited for": (lambda: ef.jit(norm, autotune=True, wait=False), "leave out one"),
    "no bool": (lambda: ef.jit(norm, autotune="max"), "True or False"),  # type: ignore[call-overload]
    "a loop that may not end": (
        lambda: ef.compile(lambda x: ef.while_loop(lambda c: c.sum() > 1, np.tanh, x), X, autotune=True), "never end"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_timed_is_refused(case: str) -> None:
    call, text = REFUSED[case]
    with pytest.raises(ef.EqfuseError, match=text):
        call()
