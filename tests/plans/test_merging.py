"""Merging costs what it changes: the order that keeps kernels out of circles, and the effort that regrouping spends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import as_written
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.moves.merge import MergeState, merge_groups
from eqfuse.extract.moves.regroup import EFFORT_OF_CALLS, REGROUP_EFFORT, _Grouping
from eqfuse.extract.unfused import unfused_cover
from tests.support.c_target import C

CPU = DEVICES["cpu"]


def cover_of(function: Any, *shapes: tuple[int, ...], device: Device = CPU) -> Cover:
    graph = ef.trace(function, *[ef.spec(s, np.float32) for s in shapes])
    return unfused_cover(Grammar(as_written(graph), device))


def pool_of(cover: Cover) -> MergeState:
    return MergeState(cover.grammar, cover.roots, cover.single_groups())


def chains(count: int) -> Any:
    """As many results of two operators each, one chain apart from the next."""
    return lambda *xs: tuple([np.exp(np.tanh(x)) for x in xs[:count]])


def makers_visited(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often merging asks which kernels another needs, for `count` chains apart from one another."""
    cover, asked = cover_of(chains(count), *[(64, 64 + i) for i in range(count)]), []
    own = MergeState._makers
    with monkeypatch.context() as patched:
        patched.setattr(MergeState, "_makers", lambda pool, number: asked.append(number) or own(pool, number))
        merge_groups(cover)
    assert len(cover.groups) == count
    return len(asked)


def test_merging_twice_as_many_kernels_visits_twice_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = makers_visited(20, monkeypatch), makers_visited(40, monkeypatch)
    assert many <= 2.2 * few


def test_a_path_through_a_third_kernel_is_found_and_one_through_none_is_not() -> None:
    pool = pool_of(cover_of(lambda x: (a := np.tanh(x), b := np.exp(a), a * b)[2], (8, 8)))
    first, second, last = sorted(pool.alive, key=pool._place.__getitem__)
    assert pool._direct(first, second) and pool._direct(second, last)
    assert not pool._direct(first, last)
    assert not pool._direct(last, first)


def test_places_follow_the_order_whatever_is_merged_and_come_back_when_it_is_undone() -> None:
    pool = pool_of(cover_of(lambda x, y: np.tanh(np.exp(x) + np.exp(y)) * np.exp(x) + np.sin(x), (8, 8), (8, 8)))
    before, alive = dict(pool._place), dict(pool.alive)
    pool.settle(list(pool.alive))
    assert len(pool.alive) < len(alive) and not pool.is_circular
    for number in pool.alive:
        assert all(pool._place[m] < pool._place[number] for m in pool._makers(number))
    pool.undo()
    assert pool.alive == alive and {n: pool._place[n] for n in alive} == before


def test_a_circle_is_noticed_when_the_kernel_that_closes_it_is_added() -> None:
    cover = cover_of(lambda x: np.tanh(np.exp(x)), (8, 8))
    pool = pool_of(cover)
    (inner,) = [c for c in cover.choice if c not in cover.roots]
    (root,) = cover.roots
    pool.drop(pool.maker[inner])
    around = cover.grammar.join(inner, cover.choice[inner].enode, (cover.grammar.leaf(root),))
    assert not isinstance(around, str)
    pool.add(cover.alone_or_alias(around))
    assert pool.is_circular
    pool.undo()
    assert not pool.is_circular


@pytest.mark.parametrize("device, rows", [(CPU, 8), (C, 8), (C, 100_000)], ids=["calls", "estimates", "schedules"])
def test_what_merging_has_made_is_counted_at_what_it_costs(device: Device, rows: int) -> None:
    pool = pool_of(cover_of(lambda x: (np.tanh(x) + x, np.exp(x)), (rows, 64), device=device))
    apart = len(pool.alive)
    trusted(pool.grammar.prices, lambda: pool.settle(list(pool.alive)), lambda _: ())
    assert len(pool.alive) < apart
    assert pool.seconds == pytest.approx(sum(group.cost for group in pool.alive.values()), rel=1e-9)


def test_kernels_of_short_calls_are_regrouped_no_longer_than_many_calls_take() -> None:
    def effort(size: int) -> tuple[int, float]:
        cover = cover_of(chains(4), *[(size,)] * 4, device=C)
        cover.groups = cover.single_groups()
        return _Grouping(cover, Candidates(cover.grammar, {})).left, sum(g.cost for g in cover.groups)

    few, seconds = effort(64)
    assert few == round(EFFORT_OF_CALLS * seconds) < REGROUP_EFFORT * 8
    many, _ = effort(1 << 20)
    assert many == REGROUP_EFFORT * 8
