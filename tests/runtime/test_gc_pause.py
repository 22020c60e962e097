"""The cyclic garbage collector is paused while a program is compiled, and afterwards is as it was."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import compiler
from eqfuse.egraph.engine import Engine
from eqfuse.errors import EqfuseError
from eqfuse.machine.gc_pause import gc_paused
from tests.support.kernels import CPU


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_wait_and_are_then_as_before(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_a_refused_search_does_not_leave_them_off() -> None:
    gc.enable()
    space = ef.saturate(ef.trace(np.tanh, ef.spec(3, np.float32)))
    with pytest.raises(EqfuseError, match="no extractor"):
        ef.extract(space, extractor="slow")
    assert gc.isenabled()


def test_of_several_threads_the_last_one_lets_them_go_on() -> None:
    gc.enable()
    entered, leave = threading.Event(), threading.Event()

    def search() -> None:
        with gc_paused():
            entered.set()
            leave.wait()

    other = threading.Thread(target=search)
    with gc_paused():
        other.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()


def test_none_runs_between_the_stages_of_a_compile_as_each_would_visit_all_that_the_stages_before_have_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.enable()
    enabled: list[bool] = []
    for stage in ("saturated", "chosen_plan", "with_inner", "emit", "make_report"):
        run = getattr(compiler, stage)
        noted = lambda *args, run=run, **named: enabled.append(gc.isenabled()) or run(*args, **named)  # noqa: E731
        monkeypatch.setattr(compiler, stage, noted)
    ef.compile(lambda x: np.tanh(x) * 3, np.ones(7, np.float32), target=CPU)
    assert len(enabled) >= 5 and not any(enabled)
    assert gc.isenabled()


def step(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(0) * 2 / 8)
    for _ in range(2):
        e = np.cumsum(e, axis=0) * 0.5 + x
    return e / e.sum(0) @ np.ones((4, 4))


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    {}, {"extractor": "exact"}, {"memory_limit": 1 << 20}, {"target": "cuda:a100"}, {"extractor": "unfused"},
], ids=str)  # fmt: skip
def test_an_e_graph_goes_when_its_program_is_made(options: dict, tmp_path: Path) -> None:
    """Not with the next collection, which may come in another thread: there egglog cannot drop it."""
    alive: weakref.WeakSet[Engine] = weakref.WeakSet()
    count = 0
    before = Engine.__init__

    def counted(self: Engine, *arguments: Any) -> None:
        nonlocal count
        count += 1
        before(self, *arguments)
        alive.add(self)

    gc.disable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", counted)
        patch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
        graph = ef.trace(step, np.ones((6, 4)))
        ef.compile(graph, budget=ef.Budget(nodes=1000), **options).explain()
    assert count and not alive
