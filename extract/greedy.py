"""Greedy fusion, as real systems do it: fuse a producer into all its readers, never undo, no algebra.

Promise: none. Each works on the program as it is written (one node per class), with the prices and emitters of `flow`.
What it is a copy of is said where it is defined; the sources are those of the file named or of the system's own pages.

    name          fuses                                  reductions in a kernel   several outputs
    materialise   what one kernel reads                  one level                pointwise kernels of one shape
    duplicate     pointwise work into every reader       one level                whatever shares a read or an edge
    priority      what saves most, into every reader     rows of several passes   whatever shares a read or an edge
    depth         as materialise, no deeper than K       one level                as materialise

A report against greedy fusion is a report against the cheapest of the four, and against each. Results of the program
are kept out of other kernels, unless as one of several outputs: XLA's root tuple and Inductor's realised buffers do so.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.grammars import OneReduction
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.covers.cover import Cover, Group
from eqfuse.extract.moves.merge import merge_groups
from eqfuse.extract.programs.as_written import without_laws
from eqfuse.extract.unfused import unfused_cover

BY_SAVING = 3  # which of `starts` is `priority`
PRICED_FUSIONS = 100  # kernels, up to which each fusion that may save something is priced before one is chosen
GREEDY = ("greedy-materialise", "greedy-duplicate", "greedy-priority", "greedy-depth")  # as `extract` calls them


def materialise(segment: Segment, device: Device) -> Cover:
    """Fuse a producer that one kernel reads; what several read is stored, at best as one more output.

    After NNC (tensorexpr_fuser.cpp: what others use too leaves its group as an extra output), Bohrium (fuser.cpp:
    nothing is computed twice, instructions of one shape share a block).
    """
    return _materialise(_unfused(segment, device))


def duplicate(segment: Segment, device: Device) -> Cover:
    """Clone pointwise producers into all readers where no more bytes move; fuse the others where one kernel reads.

    After XLA before priority fusion: FusionMerger (into all users or none, bytes must not grow), instruction fusion,
    then multi-output fusion of siblings and of a producer with its consumer.
    """
    return _duplicate(_unfused(segment, device))


def priority(segment: Segment, device: Device) -> Cover:
    """Repeatedly fuse the producer whose fusion into all its readers saves the most predicted time.

    After XLA's priority_fusion.cc (time unfused less time fused over all users, never where that is negative), with
    what Inductor's kernels may hold: persistent reductions, prologues and epilogues of products. Then several outputs,
    as in XLA's multi-output fusion and Inductor's scores of shared reads.
    """
    return _merged(_fused(unfused_cover(Grammar(without_laws(segment), device)), _by_saving))


def depth_limited(segment: Segment, device: Device) -> Cover:
    """As `materialise`, with kernels of at most `device.depth` operators in a chain: a customary limit of fusers."""
    return _depth_limited(_unfused(segment, device))


FUSERS = (materialise, duplicate, priority, depth_limited)


def plans(segment: Segment, device: Device) -> list[Cover]:
    """The plans of the fusers, in the order of `GREEDY`."""
    covers = [fuser(segment, device) for fuser in FUSERS]
    for cover in covers:
        cover.settle()
    return covers


def starts(unfused: Cover) -> list[Cover]:
    """What the policies make of kernels that may hold all that the emitters can, before several outputs."""
    return [unfused.copy(), *(_fused(unfused, policy) for policy in (_single_reader, _cloning, _by_saving))]


def _fused(unfused: Cover, policy: Callable[[Cover], None]) -> Cover:
    """What `policy` makes of a copy of `unfused`."""

    def fused() -> Cover:
        cover = unfused.copy()
        policy(cover)
        return cover

    return trusted(unfused.grammar.prices, fused, lambda cover: cover.choice.values(), policy is _by_saving)


def one_level(unfused: Sequence[Cover]) -> list[Cover]:
    """The plans of the fusers that `starts`, when merged, do not give: materialise, duplicate, depth-limited.

    `unfused`: programs of the same classes.
    """
    fewer = OneReduction(unfused[0].grammar)
    covers = []
    for cover in unfused:
        for fuser in (_materialise, _duplicate, _depth_limited):
            new = Cover(fewer.for_segment(cover.grammar.segment), cover.roots)
            assert new.take(cover.choice)
            covers.append(fuser(new))
    return covers


def _unfused(segment: Segment, device: Device) -> Cover:
    return unfused_cover(OneReduction(Grammar(without_laws(segment), device)))


def _materialise(unfused: Cover) -> Cover:
    return _merged(_fused(unfused, _single_reader), _pointwise)


def _duplicate(unfused: Cover) -> Cover:
    return _merged(_fused(unfused, _cloning))


def _depth_limited(unfused: Cover) -> Cover:
    deepest = unfused.grammar.device.depth[1]
    cover = _fused(unfused, lambda cover: _single_reader(cover, deepest))
    return _merged(cover, lambda group: _pointwise(group) and max([cut.depth for cut in group.cuts]) <= deepest)


def _pointwise(group: Group) -> bool:
    return group.state.template.pointwise


def _merged(cover: Cover, allowed: Callable[[Group], bool] = lambda group: True) -> Cover:
    merge_groups(cover, allowed)
    return cover


def fuse(cover: Cover, eclass: int, readers: list[int]) -> dict[int, Cut] | None:
    """The readers' kernels with class `eclass` computed inside, or None when one of them cannot hold it."""
    changed = {}
    for reader in readers:
        cut = cover.grammar.inline(cover.choice[reader], {eclass: cover.choice[eclass]})
        if isinstance(cut, str):
            return None
        changed[reader] = cut
    return changed


class _Fusing:
    """A cover in the making: who reads what is kept up to date, so a fusion costs what it changes."""

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self.classes = cover.stored()
        self.readers: dict[int, dict[int, None]] = {c: {} for c in self.classes}
        for c in self.classes:
            self._note(c)

    def _note(self, c: int) -> None:
        for leaf in self.cover.choice[c].reads:
            self.readers[leaf][c] = None

    def fuse(self, eclass: int) -> dict[int, Cut] | None:
        """What fusing `eclass` into all its readers changes; None where a kernel or the device cannot hold it, and when
        the allowance is spent."""
        changed = self.fused(eclass)
        return changed if changed is not None and all(cut.runs for cut in changed.values()) else None

    def fused(self, eclass: int) -> dict[int, Cut] | None:
        """The same, whatever the device can hold."""
        cover = self.cover
        if not self.readers[eclass] or cover.choice[eclass].state.at_leaf or cover.grammar.allowance.spent():
            return None
        changed = fuse(cover, eclass, list(self.readers[eclass]))
        return None if changed and any(cut.state.unfinished for cut in changed.values()) else changed

    def commit(self, eclass: int, changed: dict[int, Cut]) -> set[int]:
        """Carry the change out. Returns the classes whose own fusion now looks different."""
        choice = self.cover.choice
        for reader, cut in changed.items():
            for leaf in choice[reader].reads:
                self.readers[leaf].pop(reader, None)
            choice[reader] = cut
            self._note(reader)
        touched = {leaf for cut in changed.values() for leaf in cut.reads} | set(changed)
        if eclass not in self.cover.roots:
            for leaf in choice.pop(eclass).reads:
                self.readers[leaf].pop(eclass, None)
                touched.add(leaf)
        return touched & choice.keys()

    def finish(self) -> None:
        assert self.cover.take(self.cover.choice)


def pointwise_inlined(cover: Cover) -> Cover:
    """`cover` with every pointwise value computed in all its readers, whatever it costs: a start for merging, after
    which kernels that compute the same values share them."""
    all_at_once = _inlined(cover, lambda cut: True)
    if all(cut.runs for cut in all_at_once.choice.values()):
        return all_at_once
    return _inlined(cover, lambda cut: cut.runs)


def _inlined(cover: Cover, runs: Callable[[Cut], bool]) -> Cover:
    """`pointwise_inlined`, step by step, where all kernels of a step are `runs`."""
    fusing = _Fusing(cover.copy())
    for eclass in fusing.classes:
        kind = fusing.cover.choice[eclass].state.template
        if kind.pointwise or kind.reduces or len(fusing.readers[eclass]) == 1:
            changed = fusing.fused(eclass)
            if changed is not None and all(map(runs, changed.values())):
                fusing.commit(eclass, changed)
    fusing.finish()
    return fusing.cover


def _single_reader(cover: Cover, deepest: int | None = None) -> None:
    fusing = _Fusing(cover)
    for eclass in fusing.classes:
        if eclass in cover.roots or len(fusing.readers[eclass]) != 1:
            continue
        changed = fusing.fuse(eclass)
        if changed is not None and (deepest is None or max([cut.depth for cut in changed.values()]) <= deepest):
            fusing.commit(eclass, changed)
    fusing.finish()


def _cloning(cover: Cover) -> None:
    fusing = _Fusing(cover)
    for eclass in fusing.classes:
        if eclass in cover.roots or not cover.choice[eclass].state.template.pointwise:
            continue
        if any(cover.choice[r].state.is_view for r in fusing.readers[eclass]):
            continue  # XLA: the consumer is a lone bitcast
        changed = fusing.fused(eclass)
        if changed is not None:
            before = _traffic(cover.choice[eclass]) + sum(_traffic(cover.choice[c]) for c in changed)
            if before >= sum(map(_traffic, changed.values())) and all(cut.runs for cut in changed.values()):
                fusing.commit(eclass, changed)
    fusing.finish()
    _single_reader(cover)


def _traffic(cut: Cut) -> int:
    return cut.prices.traffic(cut)


def _by_saving(cover: Cover) -> None:
    fusing = _Fusing(cover)
    # where as much is saved, what comes first goes first
    place = {eclass: i for i, eclass in enumerate(fusing.classes)}
    queue: list[tuple[float, int, int, bool, dict[int, Cut]]] = []  # savings, by prices or roughly
    version: dict[int, int] = {}

    def saving(eclass: int, changed: dict[int, Cut], seconds: Callable[[Cut], float]) -> float:
        before = seconds(cover.choice[eclass])
        return before + sum(seconds(cover.choice[r]) - seconds(c) for r, c in changed.items())

    about = _seconds if len(fusing.classes) <= PRICED_FUSIONS else _roughly

    def offer(eclass: int) -> None:
        version[eclass] = version.get(eclass, 0) + 1
        changed = None if eclass in cover.roots else fusing.fused(eclass)
        if changed is not None and (saved := saving(eclass, changed, about)) > 0:
            heapq.heappush(queue, (-saved, place[eclass], version[eclass], False, changed))

    for eclass in fusing.classes:
        offer(eclass)
    while queue:
        _, i, stamp, is_priced, changed = heapq.heappop(queue)
        eclass = fusing.classes[i]
        if stamp != version[eclass] or eclass not in cover.choice:
            continue
        if not is_priced:
            saved = saving(eclass, changed, _seconds)
            if saved > 0 and all(cut.runs for cut in changed.values()):
                heapq.heappush(queue, (-saved, i, stamp, True, changed))
            continue
        for other in sorted(fusing.commit(eclass, changed)):
            offer(other)
    fusing.finish()


def _seconds(cut: Cut) -> float:
    return cut.seconds


def _roughly(cut: Cut) -> float:
    """About its price in seconds, without its schedule where that is known."""
    return cut.estimate if cut.rough is None else cut.rough
