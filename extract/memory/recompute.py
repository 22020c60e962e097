"""A cover's kernels in an order, and with recomputation, that hold less memory at a time.

In: a `Timeline`. Out: timelines of ever smaller peaks, each with the least added time that was found. At the step that
holds most, every value that waits may be computed again when it is read (checkpointing), or inside the kernels that
read it, or be made later, or used up earlier; the move that frees most per second added is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from eqfuse.budget import Allowance
from eqfuse.extract.candidates.cuts import Cut, below
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.memory.timeline import SegmentMemory, Stretch, Timeline, TimelineStep

FINER = (0.95, 0.98)  # shares of the peak of one timeline that the next one's is to have, in descents of their own
WAITING = 12  # values at the fullest step that are tried
VALUES_AGAIN = 6  # values computed again for one that is
INSTANT = 1e-9  # seconds; less is no time
STEPS_TRIED = 2_000_000  # steps of the timelines tried, after which no smaller peak is looked for
OPERATOR = 20  # steps that are tried while a kernel is made, for each of its operators


class _Effort:
    """What a descent may take: so many `steps`, among which new kernels count by their operators, and what is left of
    the `allowance`."""

    def __init__(self, steps: int, held: SegmentMemory, allowance: Allowance) -> None:
        self._left, self._held, self._allowance = steps, held, allowance
        self._operators = held.operators

    def take(self, steps: int) -> None:
        self._left -= steps + OPERATOR * (self._held.operators - self._operators)
        self._operators = self._held.operators

    @property
    def spent(self) -> bool:
        return self._left <= 0 or self._allowance.spent() is not None


def timelines(start: Timeline, candidates: Candidates, allowance: Allowance) -> list[Timeline]:
    """Of `start` and others, down to the least peak that was found, those than which none holds less and takes no more
    time. By several descents: storing what results are computed from costs least at first, and then stands in the way
    of smaller peaks; and of small steps and large ones, neither is always better."""
    falling = [start]
    ways = list(product(FINER, (True, False)))
    for finer, before in ways:
        falling += _descent(start, candidates, finer, before, _Effort(STEPS_TRIED // len(ways), start.held, allowance))
    best: list[Timeline] = []
    for timeline in sorted(falling, key=lambda t: (t.peak, t.seconds)):
        if not best or timeline.seconds < best[-1].seconds:
            best.append(timeline)
    return best


def _descent(start: Timeline, candidates: Candidates, finer: float, before: bool, effort: _Effort) -> list[Timeline]:
    """Timelines of falling peaks, each `finer` times the one before, and those on the way. `before`: with moves that
    store what results are computed from."""
    met: list[Timeline] = []
    now = start
    while now.peak and not effort.spent:
        level = int(now.peak * finer)
        lower = _lowered(now, level, candidates, before, effort, met)
        if lower.peak >= now.peak:
            break
        now = _cheaper(lower, max(level, lower.peak))
        met.append(now)
    return met


def _lowered(
    now: Timeline, level: int, candidates: Candidates, before: bool, effort: _Effort, met: list[Timeline]
) -> Timeline:
    """`now` with moves until it holds no more than `level`, or none lessens the excess, or the `effort` is spent. Those
    on the way join what is `met`."""
    excess = now.excess(level)
    while excess:
        best, best_rate, best_excess = None, 0.0, excess
        for steps in _moves(now, candidates, before):
            effort.take(len(steps))
            if effort.spent:
                return now
            try:
                moved = Timeline(now.held, steps).without_unread()
            except ValueError:  # a step would read what is not computed by then
                continue
            left = moved.excess(level)
            rate = (excess - left) / max(moved.seconds - now.seconds, INSTANT)
            if rate > best_rate:
                best, best_rate, best_excess = moved, rate, left
        if best is None:
            break
        now, excess = best, best_excess
        met.append(now)
    return now


def _cheaper(now: Timeline, level: int) -> Timeline:
    """`now` without the recomputation that `level` does not need after all, costliest first."""
    computations = Counter(c for step in now.steps for c in step.writes)
    twice = [step for step in now.steps if any(computations[c] > 1 for c in step.writes)]
    for step in sorted(twice, key=lambda step: -step.group.price.seconds):
        if step not in now.steps:
            continue
        position = now.steps.index(step)
        try:
            less = Timeline(now.held, now.steps[:position] + now.steps[position + 1 :]).without_unread()
        except ValueError:  # it is read before it is computed again
            continue
        if less.peak <= level:
            now = less
    return now


def _moves(now: Timeline, candidates: Candidates, before: bool) -> Iterator[list[TimelineStep]]:
    """Other steps, each by one move: with values at the first and the last step that hold most, with their kernels, and
    with the kernel that takes most beside the arena."""
    full = [i for i, held in enumerate(now.arena) if held == max(now.arena)]
    for step in dict.fromkeys((full[0], full[-1])):
        yield from _moves_of_step(now, candidates, before, step)
    outside = [s.needs.scratch * s.needs.threads + s.needs.passing + s.needs.held for s in now.steps]
    greedy = max(range(len(outside)), key=lambda i: (outside[i], -i))
    if outside[greedy] and greedy not in (full[0], full[-1]):
        yield from _otherwise(now, candidates, greedy)


def _moves_of_step(now: Timeline, candidates: Candidates, before: bool, full: int) -> Iterator[list[TimelineStep]]:
    """With the values at step `full`, and with its kernel."""
    alive = now.alive(full)
    here = {s.eclass for s in alive}
    for value in alive[:WAITING]:
        yield from _of_value(now, candidates, value, full, here)
        if before and value.first >= 0:
            yield from _stored_before(now, value, full)
    for value in alive:
        yield from _others_stored(now, candidates, value)
    yield from _otherwise(now, candidates, full)


def _of_value(
    now: Timeline, candidates: Candidates, value: Stretch, full: int, here: set[int]
) -> Iterator[list[TimelineStep]]:
    """Moves that keep `value` from step `full`."""
    later = [i for i in value.reads if i > full]
    waits = full not in value.reads and value.first != full
    if waits and value.first >= 0:
        yield from _made_later(now, value)
    if waits and later:
        yield from _read_earlier(now, later[0])
    if value.first < 0:
        return
    if later and full not in value.reads:
        yield from _again(now, candidates, value, later, here)
    yield from _inside(now, candidates, value, [i for i in value.reads if i >= full], here)


def _made_later(now: Timeline, value: Stretch) -> Iterator[list[TimelineStep]]:
    """The kernel of `value` right before the first that reads what it makes."""
    first = min((s.reads[0] for s in now.stretches if s.first == value.first and s.reads), default=len(now.steps))
    steps = list(now.steps)
    if first > value.first + 1:
        yield [*steps[: value.first], *steps[value.first + 1 : first], steps[value.first], *steps[first:]]


def _read_earlier(now: Timeline, reader: int) -> Iterator[list[TimelineStep]]:
    """The kernel `reader` as early as its operands allow."""
    ready = 1 + max((s.first for s in now.stretches if reader in s.reads), default=-1)
    steps = list(now.steps)
    if ready < reader:
        yield [*steps[:ready], steps[reader], *steps[ready:reader], *steps[reader + 1 :]]


def _again(
    now: Timeline, candidates: Candidates, value: Stretch, later: Sequence[int], here: set[int]
) -> Iterator[list[TimelineStep]]:
    """`value` computed again right before it is read next, by several cuts."""
    steps = list(now.steps)
    for groups in _derivations(now, candidates, value, later[0], here):
        yield [*steps[: later[0]], *groups, *steps[later[0] :]]


def _stored_before(now: Timeline, value: Stretch, full: int) -> Iterator[list[TimelineStep]]:
    """What `value` and others of its kernel are computed from is stored instead of them: of the outputs of a product
    and its epilogue, the product. They are computed from it again when they are read next, or by every kernel that
    reads them, where that costs less."""
    if full in value.reads:
        return
    step = now.steps[value.first]
    of_kernel = [s for s in now.stretches if s.first == value.first and full not in s.reads]
    waiting = {s.eclass: s for s in of_kernel if s.reads and s.reads[-1] > full}
    for anchor in below(c for c in step.group.cuts if c.eclass == value.eclass):
        if anchor.enode is None or anchor.eclass in step.writes or anchor.state.pointwise:
            continue
        if not all(part.state.pointwise for part in anchor.parts):
            continue
        for within in (False, True):
            yield from _from_anchor(now, anchor, waiting, value.first, full, within)


def _from_anchor(
    now: Timeline, anchor: Cut, waiting: dict[int, Stretch], first: int, full: int, within: bool
) -> Iterator[list[TimelineStep]]:
    """The kernel `first` stores `anchor` too, and those of its values that are `waiting` behind step `full` are
    computed from it when they are read next; or `within` the kernels that read them, where that costs less."""
    held, grammar = now.held, now.held.grammar
    steps, inserted = list(now.steps), dict[int, list[TimelineStep]]()
    for cut in now.steps[first].group.cuts:
        if cut.eclass not in waiting or all(part.eclass != anchor.eclass for part in below([cut])):
            continue
        rest = grammar.reading(cut, anchor.eclass)
        again = None if isinstance(rest, str) else held.together((rest,))
        if isinstance(rest, str) or again is None:
            continue
        for i in waiting[cut.eclass].reads:
            inside = _computing_inside(held, steps[i], rest) if within else None
            more = math.inf if inside is None else inside.group.price.seconds - steps[i].group.price.seconds
            if inside is not None and more < again.group.price.seconds:
                steps[i] = inside
            elif i > full:
                inserted.setdefault(i, []).append(again)
                break
    whole = held.together((*now.steps[first].group.cuts, anchor))
    if whole is not None and (inserted or within):
        steps[first] = whole
        yield [s for i, s in enumerate(steps) for s in (*inserted.get(i, ()), s)]


def _others_stored(now: Timeline, candidates: Candidates, value: Stretch) -> Iterator[list[TimelineStep]]:
    """What the one reader of `value` may read in its place is stored by the kernel that makes it: the sums of rows, and
    not what is summed up."""
    if value.first < 0 or len(value.reads) != 1 or now.steps[value.reads[0]].is_view:
        return
    (reader,), held = value.reads, now.held
    kept = tuple(c for c in now.steps[value.first].group.cuts if c.eclass != value.eclass)
    cuts = now.steps[reader].group.cuts
    done = {c for step in now.steps[:reader] for c in step.writes} | held.grammar.free
    for other in candidates.cuts.get(cuts[0].eclass, ()) if len(cuts) == 1 and kept else ():
        missing = [c for c in other.leaves if c not in done]
        if len(missing) != 1 or value.eclass in other.leaves:
            continue
        after = held.together((other,))
        for producer in candidates.cuts.get(missing[0], ()) if after is not None else ():
            whole = held.together((*kept, producer))
            if whole is not None and after is not None:
                steps = list(now.steps)
                steps[value.first], steps[reader] = whole, after
                yield steps


def _computing_inside(held: SegmentMemory, step: TimelineStep, cut: Cut) -> TimelineStep | None:
    """The kernel `step` that computes `cut` instead of reading its class, if there is one."""
    inlined = [held.grammar.inline(c, {cut.eclass: cut}) if cut.eclass in c.leaves else c for c in step.group.cuts]
    cuts = tuple(c for c in inlined if not isinstance(c, str))
    return held.together(cuts) if len(cuts) == len(inlined) and not step.is_view else None


def _inside(
    now: Timeline, candidates: Candidates, value: Stretch, readers: Sequence[int], here: set[int]
) -> Iterator[list[TimelineStep]]:
    """`value` computed inside the kernels that read it."""
    if not readers:
        return
    for groups in _derivations(now, candidates, value, readers[0], here):
        (cut,) = groups[-1].group.cuts
        steps = list(now.steps)
        for i in readers:
            whole = _computing_inside(now.held, steps[i], cut)
            if whole is None:
                break
            steps[i] = whole
        else:
            yield [*steps[: readers[0]], *groups[:-1], *steps[readers[0] :]]


def _otherwise(now: Timeline, candidates: Candidates, full: int) -> Iterator[list[TimelineStep]]:
    """The kernel that holds most, in parts, or by other cuts."""
    step = now.steps[full]
    steps = list(now.steps)
    if len(step.group.cuts) > 1:
        parts = [now.held.together((c,)) for c in step.group.cuts]
        if all(parts):
            yield [*steps[:full], *(p for p in parts if p), *steps[full + 1 :]]
        return
    (cut,) = step.group.cuts
    for other in candidates.cuts.get(cut.eclass, ()):
        whole = now.held.together((other,)) if not step.is_view else None
        if other is not cut and whole is not None:
            yield [*steps[:full], *_missing(now, candidates, full, other), whole, *steps[full + 1 :]]


def _missing(now: Timeline, candidates: Candidates, before: int, cut: Cut) -> list[TimelineStep]:
    """Kernels that compute what `cut` reads and no step `before` it computes; none where they would read each other."""
    done = {c for step in now.steps[:before] for c in step.writes} | now.held.grammar.free
    groups: list[TimelineStep] = []
    waiting: set[int] = set()  # what is computed when all that its kernel reads is
    wanted = [c for c in cut.leaves if c not in done]
    while wanted and len(groups) < VALUES_AGAIN:
        producer = candidates.cheapest(wanted[-1])
        whole = now.held.together((producer,)) if producer is not None else None
        if whole is None:
            return []
        missing = [c for c in whole.group.leaves if c not in done]
        if missing:
            if wanted[-1] in waiting:
                return []
            waiting.add(wanted[-1])
            wanted += missing
        else:
            groups.append(whole)
            done.add(wanted.pop())
            wanted = [c for c in wanted if c not in done]
    return groups


def _derivations(
    now: Timeline, candidates: Candidates, value: Stretch, before: int, here: set[int]
) -> Iterator[list[TimelineStep]]:
    """Kernels that compute `value`, in order, from what is computed `before` a step; the last one computes it alone.

    The first derivation reads what is alive anyway (classes `here`), and computes again what is not.
    """
    done = {c for step in now.steps[:before] for c in step.writes} | now.held.grammar.free
    own = _cut_of(now, value.eclass, before)
    cuts = [own] if own is not None else []
    chain = _chain(now, value.eclass, before, here, set(), VALUES_AGAIN)
    if chain:
        yield chain
    for cut in [*cuts, *candidates.cuts.get(value.eclass, ())]:
        if done.issuperset(cut.leaves) and value.eclass not in cut.leaves:
            whole = now.held.together((cut,))
            if whole is not None:
                yield [whole]


def _cut_of(now: Timeline, eclass: int, before: int) -> Cut | None:
    """How the steps `before` one compute class `eclass`, the last time."""
    for step in reversed(now.steps[:before]):
        for cut in step.group.cuts:
            if cut.eclass == eclass:
                return cut
    return None


def _chain(
    now: Timeline, eclass: int, before: int, here: set[int], on_the_way: set[int], deep: int
) -> list[TimelineStep]:
    """Kernels that compute class `eclass` from what is alive `here`; fused where that costs no time. Empty: no way, or
    none of so few kernels that at most `deep` of them come one behind the other before the last."""
    if deep < 0:
        return []
    grammar = now.held.grammar
    cut = _cut_of(now, eclass, before)
    groups: list[TimelineStep] = []
    while cut is not None and len(groups) < VALUES_AGAIN:
        dead = [c for c in cut.leaves if c not in grammar.free and c not in here and c not in on_the_way]
        if not dead:
            break
        own = _cut_of(now, dead[0], before)
        if own is None:
            return []
        fused = grammar.inline(cut, {dead[0]: own})
        if not isinstance(fused, str) and fused.price.seconds <= cut.price.seconds + own.price.seconds:
            cut = fused
            continue
        more = _chain(now, dead[0], before, here, on_the_way, deep - 1)
        if not more or len(groups) + len(more) > VALUES_AGAIN:
            return []
        groups += more
        on_the_way |= {c for g in more for c in g.writes}
    whole = now.held.together((cut,)) if cut is not None and cut.price.seconds < math.inf else None
    return [*groups, whole] if whole is not None else []
