"""exact: the optimum over the candidates of `flow`, by integer programming, or how far from it the result is at most.

Promise: never worse than `flow`; `Cover.bound` is a price that no choice among the candidates can beat.
In: a saturated `Segment`, a `Device`. Out: a `Cover`. A column is a candidate kernel of one or several outputs. A class
that a chosen kernel reads is computed by one; one row says so for every (class that is computed, class it reads), which
is far stronger than one for every kernel. Circles are refused as they are met, for classes, not for kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eqfuse.extract.binary import BinaryProgram, minimise
from eqfuse.extract.cover import Cover, Group, alone, producers_first
from eqfuse.extract.cuts import Cut, Grammar
from eqfuse.extract.enumerate import Candidates
from eqfuse.extract.flow import search
from eqfuse.extract.merge import group
from eqfuse.hardware import Device
from eqfuse.plan import Price
from eqfuse.space import Segment

SECONDS = 10.0  # of one core, for one distinct segment
OFFERED = 4  # candidates of a class that are tried in pairs
PAIRS = 4000  # pairs of candidates that are tried as one kernel of two outputs
ROUNDS = 200  # of refusing circles


@dataclass(frozen=True)
class Column:
    """A kernel that may be chosen. `alias`: its output is a view that is a result, which nothing else reads."""

    group: Group
    seconds: float
    alias: bool = False


def extract(segment: Segment, device: Device) -> Cover:
    """The cheapest cover, or the best of the search and `flow`, with a bound."""
    best, candidates, covers = search(segment, device)
    grammar = candidates.grammar
    columns = _columns(candidates, covers)
    roots = Cover(grammar, grammar.segment.roots).roots
    program = _program(columns, grammar, roots)
    index = {_mark(c.group): i for i, c in enumerate(columns) if not c.alias}
    start = min((c for c in covers if c.grammar is grammar), key=lambda c: c.cost, default=None)
    hint = [index[mark] for g in (start.groups if start else ()) if (mark := _mark(g)) in index]
    left, bound = SECONDS, 0.0
    while left > 0:
        solution = minimise(program, hint, left)
        left -= max(solution.spent, SECONDS / ROUNDS)
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
    return best


def _columns(candidates: Candidates, covers: Iterable[Cover]) -> list[Column]:
    """Every candidate cut as a kernel, pairs of them as one kernel of two outputs, and the kernels of other covers."""
    grammar = candidates.grammar
    roots = set(grammar.segment.roots)
    found: dict[tuple, Column] = {}
    for of, cuts in sorted(candidates.cuts.items()):
        for cut in cuts:
            if of in roots and cut.state.kind == "view":
                alias = Group((cut,), cut.state, cut.leaves, Price(0.0, 0, 0, 0, "memory"))
                found[("alias", *_mark(alias))] = Column(alias, 0.0, alias=True)
            stored = alone(cut)
            if stored.price.seconds < math.inf:
                found.setdefault(_mark(stored), Column(stored, stored.price.seconds))
    made = [g for cover in covers if cover.grammar is grammar for g in cover.groups if len(g.cuts) > 1]
    for g in (*made, *_pairs(candidates)):
        found.setdefault(_mark(g), Column(g, g.price.seconds))
    return list(found.values())


def _mark(g: Group) -> tuple:
    """What makes two kernels the same column: their outputs, reads and price."""
    return (g.outputs, tuple(sorted(g.leaves)), g.price.seconds)


def _pairs(candidates: Candidates) -> list[Group]:
    """Two candidates as one kernel, where they share a read or one feeds the other and that saves something."""
    grammar = candidates.grammar
    shown = {of: sorted(cuts, key=candidates.total)[:OFFERED] for of, cuts in sorted(candidates.cuts.items())}
    readers: dict[int, list[Cut]] = {}
    for cuts in shown.values():
        for cut in cuts:
            for leaf in cut.leaves:
                readers.setdefault(leaf, []).append(cut)
    tried = 0
    groups: list[Group] = []
    for leaf, near in sorted(readers.items()):
        for b in near:
            for a in (*shown.get(leaf, ()), *near):
                feeds = a.of == leaf
                if a is b or a.of == b.of or a.state.space != b.state.space or (not feeds and a.of > b.of):
                    continue
                tried += 1
                if tried > PAIRS:
                    return groups
                second = grammar.inline(b, {a.of: a}) if a.of in b.leaves else b
                g = None if isinstance(second, str) or b.of in a.leaves else group(grammar, (a, second))
                if g is not None and g.price.seconds < a.price.seconds + b.price.seconds:
                    groups.append(g)
    return groups


def _program(columns: Sequence[Column], grammar: Grammar, roots: Iterable[int]) -> BinaryProgram:
    """A root is computed; a class that a chosen kernel reads is computed, and stored."""
    program = BinaryProgram([c.seconds for c in columns])
    stores: dict[int, list[int]] = {}
    results: dict[int, list[int]] = {}
    reads: dict[tuple[int, int], list[int]] = {}
    for i, c in enumerate(columns):
        for of in c.group.outputs:
            results.setdefault(of, []).append(i)
            if not c.alias:
                stores.setdefault(of, []).append(i)
            for leaf in c.group.leaves:
                if leaf not in grammar.free:
                    reads.setdefault((of, leaf), []).append(i)
    for of in roots:
        program.rows.append((dict.fromkeys(results[of], 1), 1, math.inf))
    for (_, leaf), users in reads.items():
        row = dict.fromkeys(users, 1)
        for i in stores.get(leaf, ()):
            row[i] = row.get(i, 0) - 1
        program.rows.append((row, -math.inf, 0))
    return program


def _circle(chosen: Sequence[Column], grammar: Grammar) -> list[int]:
    """Classes of which each is computed from the next, and the last from the first; none where there is no circle."""
    needs: dict[int, dict[int, None]] = {}
    for c in chosen:
        for of in c.group.outputs:
            needs.setdefault(of, {}).update(dict.fromkeys(leaf for leaf in c.group.leaves if leaf not in grammar.free))
    done: set[int] = set()
    for start in needs:
        path: dict[int, None] = {}
        stack: list[tuple[int, bool]] = [(start, False)]
        while stack:
            of, leave = stack.pop()
            if leave:
                del path[of]
                done.add(of)
            elif of in path:
                return list(path)[list(path).index(of) :]
            elif of not in done:
                path[of] = None
                stack.append((of, True))
                stack += [(leaf, False) for leaf in needs.get(of, ())]
    return []


def _refused(circle: list[int], columns: Sequence[Column]) -> tuple[dict[int, int], float, float]:
    """The row that keeps at least one class of `circle` from being computed from the next."""
    row: dict[int, int] = {}
    for of, following in zip(circle, [*circle[1:], circle[0]], strict=True):
        for i, c in enumerate(columns):
            if of in c.group.outputs and following in c.group.leaves:
                row[i] = row.get(i, 0) + 1
    return row, -math.inf, len(circle) - 1


def _cover(chosen: Sequence[Column], grammar: Grammar, roots: tuple[int, ...]) -> Cover:
    """The chosen kernels as a cover, without those that nothing reads."""
    maker = {of: c for c in reversed(chosen) for of in c.group.outputs}
    cover = Cover(grammar, roots)
    order = producers_first(roots, lambda of: [leaf for leaf in maker[of].group.leaves if leaf not in grammar.free])
    cover.groups = tuple(dict.fromkeys(maker[of].group for of in order))
    cover.cost = sum(g.price.seconds for g in cover.groups)
    return cover
