"""exact: the optimum over the candidates of `flow`, by integer programming, or how far from it the result is at most.

Promise: never worse than `flow`; `Cover.bound` is a price that no choice among the candidates can beat. The cover is
the cheapest that was found, or one within `nearest.ABOVE_CHEAPEST` of it that is nearer to the program as written.
Candidates are the same whatever the budget, and more of it never makes the plan costlier or the bound worse; a budget
that is spent before they are found gives the plan of `flow` without a bound.
In: a saturated `Segment`, a `Device`. Out: a `Cover`. A column is a candidate kernel of one or several outputs. A class
that a chosen kernel reads is computed by one; one row says so for every (class that is computed, class it reads), which
is far stronger than one for every kernel. Circles are refused as they are met, for classes, not for kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqfuse.budget import AS_WRITTEN, FUSION_ONLY, UNLIMITED, Allowance
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment
from eqfuse.extract import flow
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Cover, producers_first
from eqfuse.extract.covers.nearest import nearest
from eqfuse.extract.solver.binary import minimise
from eqfuse.extract.solver.columns import Column, Columns

GROWING = 4.0  # of them, at most, for finding more kernels
CIRCLES_REFUSED = 200  # of refusing circles


def extract(segment: Segment, device: Device, allowance: Allowance = UNLIMITED) -> Cover:
    """The cheapest cover, or one about as cheap that is nearer to the program as written, with a bound on what any can
    cost."""
    if segment.level == AS_WRITTEN or allowance.spent():
        return flow.extract(segment, device, allowance)
    best, covers = optimum(segment, device, allowance)
    chosen = nearest([best, *covers], segment)
    chosen.bound = best.bound
    return flow.noted(chosen, FUSION_ONLY if best.bound is None else segment.level, allowance)


def optimum(segment: Segment, device: Device, allowance: Allowance = UNLIMITED) -> tuple[Cover, list[Cover]]:
    """The cheapest cover, or the best of the search and `flow`, with a bound; and the others that were met. Where the
    `allowance` ends before there are candidates, what `flow` has by then, without a bound."""
    best, candidates, covers = flow.search(segment, device, allowance)
    if candidates is None:
        return best, covers
    grammar = candidates.grammar
    roots = Cover(grammar, grammar.segment.roots).roots
    pool = Columns(candidates, covers, roots)
    seconds = allowance.optimum
    left, bound = seconds - pool.grow(min(seconds, GROWING)), 0.0
    columns = pool.all
    program, _ = pool.program()
    start = min((c for c in covers if c.grammar is grammar), key=lambda c: c.cost, default=None)
    hint = pool.places(start.groups if start else ())
    while left > 0:
        solution = minimise(program, hint, left)
        left -= max(solution.spent, seconds / CIRCLES_REFUSED)
        bound = max(bound, solution.bound)
        if solution.chosen is None:
            break
        chosen = [columns[i] for i in solution.chosen]
        circle = _circle(chosen, grammar)
        if not circle:
            best = min(best, _cover(chosen, grammar, roots), key=lambda c: c.cost)
            break
        program.rows.append(_refused(circle, columns))
    best.bound = min(bound, best.cost)
    return best, covers


def _circle(chosen: Sequence[Column], grammar: Grammar) -> list[int]:
    """Classes of which each is computed from the next, and the last from the first; none where there is no circle."""
    needs: dict[int, dict[int, None]] = {}
    for c in chosen:
        for eclass in c.group.outputs:
            computed = (leaf for leaf in c.group.leaves if leaf not in grammar.free)
            needs.setdefault(eclass, {}).update(dict.fromkeys(computed))
    done: set[int] = set()
    for start in needs:
        path: dict[int, None] = {}
        stack: list[tuple[int, bool]] = [(start, False)]
        while stack:
            eclass, leave = stack.pop()
            if leave:
                del path[eclass]
                done.add(eclass)
            elif eclass in path:
                return list(path)[list(path).index(eclass) :]
            elif eclass not in done:
                path[eclass] = None
                stack.append((eclass, True))
                stack += [(leaf, False) for leaf in needs.get(eclass, ())]
    return []


def _refused(circle: list[int], columns: Sequence[Column]) -> tuple[dict[int, int], float, float]:
    """The row that keeps at least one class of `circle` from being computed from the next."""
    row: dict[int, int] = {}
    for eclass, following in zip(circle, [*circle[1:], circle[0]], strict=True):
        for i, c in enumerate(columns):
            if eclass in c.group.outputs and following in c.group.leaves:
                row[i] = row.get(i, 0) + 1
    return row, -math.inf, len(circle) - 1


def _cover(chosen: Sequence[Column], grammar: Grammar, roots: tuple[int, ...]) -> Cover:
    """The chosen kernels as a cover, without those that nothing reads."""
    maker = {eclass: c for c in reversed(chosen) for eclass in c.group.outputs}
    cover = Cover(grammar, roots)
    order = producers_first(roots, lambda c: [leaf for leaf in maker[c].group.leaves if leaf not in grammar.free])
    cover.groups = tuple(dict.fromkeys(maker[eclass].group for eclass in order))
    cover.cost = sum(g.price.seconds for g in cover.groups)
    return cover
