"""Programs of short calls, on C: kernels are judged by estimates, and schedules are made of those that are chosen.

Where pieces of joined arrays meet is part of an estimate: it is compared with the cells of schedules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.space import Segment
from eqfuse.emit.c.forms import forms_of
from eqfuse.emit.c.loops import pushed
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST
from eqfuse.extract.greedy import GREEDY
from eqfuse.extract.unfused import unfused_cover
from eqfuse.kinds import State, classify, kind_named
from tests.kernels.test_pieces import of_pieces
from tests.programs.every import PROGRAMS
from tests.programs.program import ExampleProgram
from tests.support.c_target import C

SHORT = [p for p in PROGRAMS if p.name in ("k_means", "lstm", "multi_head_attention")]
LONGER = [pytest.param(p, marks=pytest.mark.slow) for p in PROGRAMS if p.name in ("gaussian_blur", "losses")]


def smoothed(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return (np.roll(e, 1, 0) + e) / e.sum(axis=1, keepdims=True)


def segment(rows: int) -> Segment:
    (only,) = ef.saturate(ef.trace(smoothed, ef.spec((rows, 64), np.float32))).segments
    return only


def space_of(program: ExampleProgram) -> ef.Space:
    positional, named = program.arguments(program.small)
    return ef.saturate(ef.trace(program.function, *positional, static_argnames=program.static, **named))


@pytest.mark.parametrize("rows, short", [(8, True), (100_000, False)])
def test_kernels_of_short_calls_are_judged_by_estimates(rows: int, short: bool) -> None:
    grammar = Grammar(segment(rows), C)
    unfused_cover(grammar)
    assert grammar.prices.goes_by_estimates == short


@pytest.mark.slow
@pytest.mark.parametrize("program", [*SHORT, *LONGER], ids=lambda p: p.name)
def test_a_plan_found_by_estimates_has_the_prices_of_schedules_and_is_no_costlier_than_greedy(
    program: ExampleProgram,
) -> None:
    space = space_of(program)
    plan = ef.extract(space, target=C)
    for k in plan.kernels:
        price = kind_named(k.kind).schedule(k.body, C).price(C) if k.price.seconds else k.price
        assert price == k.price, k
    greedy = min(ef.extract(space, target=C, extractor=name).seconds for name in GREEDY)
    assert plan.seconds <= (1 + ABOVE_CHEAPEST) * greedy


def test_pieces_meet_where_the_cells_of_a_schedule_begin() -> None:
    met = 0
    for _, graph, _ in of_pieces(7, 60):
        state = classify(graph, C)
        if not isinstance(state, State) or {o.shape for o in graph.outputs} != {state.space}:
            continue
        try:
            forms = forms_of(pushed(graph), state.space)
        except UnsupportedOp:
            continue
        boxes = [box for form in forms for box in form.boxes]
        begins = {(axis - len(box), low) for box in boxes for axis, (low, _) in enumerate(box) if low}
        assert begins <= state.seams, graph
        met += len(begins)
    assert met > 20
