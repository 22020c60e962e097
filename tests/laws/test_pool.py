"""What egglog has read is kept for the next program, which is searched as if it were the first."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqfuse.egraph import declarations, pool
from eqfuse.egraph.callbacks import Callbacks
from eqfuse.egraph.declarations import Declarations
from eqfuse.egraph.saturate import Budget, saturate
from eqfuse.egraph.space import Space
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import relu, softmax
from eqfuse.ir.graph import Graph
from eqfuse.rewrites import Law, tensors
from tests.programs.every import PROGRAMS

F = np.float32


def _graphs() -> list[Graph]:
    x, w, v = spec((20, 30), F), spec((30, 8), F), spec((30,), F)

    def normalised(x: Any, g: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * g

    return [
        trace(softmax, x),
        trace(normalised, x, v),
        trace(lambda x: (x**2).mean() - x.mean() ** 2, v),
        trace(lambda x, w: relu(x @ w * F(2.0) + F(1.0)), x, w),
        trace(lambda x, y: ((x - y) * (x + y) / F(3.0)).sum(0), x, x),
        trace(lambda x: F(0.5) * x * (F(1.0) + np.tanh(x + F(0.04) * x * x * x)), x),
    ]


def _contents(space: Space) -> list[tuple]:
    return [(s.classes, s.roots, s.stop_reason, s.nodes_per_round, s.laws_fired) for s in space.segments]


def _apart(run: Callable[[], Any]) -> Any:
    """What `run` returns in a thread of its own, for which egglog has read nothing yet."""
    returned: list[Any] = []
    thread = threading.Thread(target=lambda: returned.append(run()))
    thread.start()
    thread.join()
    return returned[0]


@pytest.mark.parametrize("nodes", [None, 25], ids=["whole", "cut"])
def test_a_space_does_not_depend_on_what_was_searched_before(nodes: int | None) -> None:
    graphs = _graphs()

    def search(order: list[Graph]) -> list[list[tuple]]:
        return [_contents(saturate(graph, budget=Budget(seconds=60, nodes=nodes))) for graph in order]

    alone = [_apart(lambda graph=graph: search([graph]))[0] for graph in graphs]
    assert _apart(lambda: search([*graphs, *graphs[::-1]])) == [*alone, *alone[::-1]]
    assert nodes is None or any(reason == "nodes" for spaces in alone for _, _, reason, *_ in spaces)


@pytest.mark.slow
def test_a_space_that_a_limit_ends_does_not_depend_on_a_large_program_before() -> None:
    def search(name: str) -> list[tuple]:
        program = next(p for p in PROGRAMS if p.name == name)
        arguments, named = program.arguments(program.small)
        graph = trace(program.function, *arguments, static_argnames=program.static, **named)
        return _contents(saturate(graph, budget=Budget(seconds=60, nodes=600)))

    alone = _apart(lambda: search("regression"))
    assert {reason for _, _, reason, *_ in alone} == {"nodes"}
    assert alone == _apart(lambda: [search("heat"), search("regression")])[1]


def test_what_a_process_has_parsed_is_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_MOST_PARSED", 20)
    monkeypatch.setattr(declarations, "_parsed", {})
    for graph in _graphs():
        assert _contents(saturate(graph)) and 0 < len(declarations._parsed) <= 20


@pytest.mark.slow
def test_rules_that_match_the_program_itself_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of what laws make of it have names of their own, and are read for each program."""
    read: list[str] = []
    run = Declarations.run

    def recorded(self: Declarations, *texts: str) -> list[Any]:
        read.extend(text for text in texts if text.startswith("(rule ") and not re.search(r'"rule\d+x', text))
        return run(self, *texts)

    monkeypatch.setattr(Declarations, "run", recorded)

    def search() -> list[int]:
        counts = []
        for _ in range(4):
            for graph in _graphs():
                saturate(graph)
            counts.append(len(read))
        return counts

    once, *_, before, after = _apart(search)
    assert once and before == after


def test_nothing_of_a_program_stays() -> None:
    def search() -> tuple[weakref.ref[Callbacks], list[int]]:
        (segment,) = saturate(_graphs()[2]).segments
        assert segment._engine is not None
        callbacks = weakref.ref(segment._engine._callbacks)
        del segment
        gc.collect()
        kept = pool._pool().kept
        functions = [each for d in kept for each in d.egraph.freeze().functions.items()]
        assert functions
        declared = ("$", "callback")  # what rules pass to Python
        return callbacks, [len(function.rows) for name, function in functions if not name.startswith(declared)]

    callbacks, rows = _apart(search)
    assert callbacks() is None and not any(rows)


def test_only_so_many_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TEXTS_READ", 150)

    def search() -> int:
        for graph in _graphs():
            saturate(graph)
        return sum(len(d.read) for d in pool._pool().kept)

    assert 0 < _apart(search) <= 150


@pytest.mark.slow
def test_threads_that_search_at_once_have_e_graphs_of_their_own() -> None:
    graphs = _graphs()
    alone = [_contents(saturate(g)) for g in graphs]
    meet = threading.Barrier(2)
    contents: list[list[list[tuple]]] = []
    used: list[set[int]] = []

    def search() -> None:
        spaces = []
        for g in graphs:
            meet.wait()
            spaces.append(saturate(g))
        used.append({s._engine._declarations.number for space in spaces for s in space.segments if s._engine})
        contents.append([_contents(space) for space in spaces])

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents == [alone, alone] and used[0].isdisjoint(used[1])


def test_an_e_graph_that_another_thread_lets_go_of_returns_to_its_own() -> None:
    graph = _graphs()[0]
    spaces = [saturate(graph)]
    (segment,) = spaces[0].segments
    assert segment._engine is not None
    declarations = segment._engine._declarations
    del segment
    _apart(spaces.clear)
    assert declarations not in pool._pool().kept
    saturate(graph)
    assert declarations in pool._pool().kept


def test_an_e_graph_whose_search_was_broken_off_is_not_kept() -> None:
    x, y = tensors("x y")

    def raises(*_: Any) -> bool:
        raise KeyboardInterrupt

    graph = trace(lambda a, b: a + b, *[spec((4,), F)] * 2)
    law = Law("interrupted", x + y, y + x, check=False)

    def search() -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Callbacks, "judge", raises)
            with pytest.raises(KeyboardInterrupt):
                saturate(graph, laws=[law])
        gc.collect()
        return len(pool._pool().kept)

    assert _apart(search) == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_the_first_program_of_a_process_does_not_stay_either_and_a_forked_one_reads_for_itself_and_ends() -> None:
    """egglog keeps the frames of who imports it."""
    code = """
import os, sys, weakref
from eqfuse.egraph import declarations, pool
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
segments = saturate(trace(lambda x: x + x, spec((4,), "f4"))).segments
engine = weakref.ref(segments[0]._engine)
del segments
assert engine() is None
graph = trace(lambda x: x + x, spec((4,), "f4"))
space = saturate(graph)
saturate(graph)
here = pool._pool().kept
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert here and pool._pool().kept == []
for _ in range(2):
    assert saturate(graph).segments[0].classes == space.segments[0].classes
del space, here
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
