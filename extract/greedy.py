"""Greedy fusion, as real systems do it: fuse a producer into all its readers, never undo, no algebra.

Promise: none. Each works on the program as it was written (one node per class), with the same kinds and prices as
`flow`. `materialise` follows NNC and Bohrium (one reader only), `duplicate` XLA's FusionMerger (pointwise producers are
cloned), `priority` XLA's priority fusion and Inductor's scores, `depth_limited` the fusion-depth thresholds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import Cut, Grammar, below
from eqfuse.extract.plain import plain
from eqfuse.hardware import Device
from eqfuse.space import Segment

Policy = Callable[[Cover, Device], None]


def unfused(segment: Segment, device: Device) -> Cover:
    """One kernel per operator; views cost nothing, as in NumPy."""
    return _run(segment, device, _nothing)


def materialise(segment: Segment, device: Device) -> Cover:
    """Fuse a producer that has one reader."""
    return _run(segment, device, _materialise)


def depth_limited(segment: Segment, device: Device) -> Cover:
    """As `materialise`, with kernels at most as deep as is customary for the device (features A6.1, A6.2)."""
    return _run(segment, device, _depth_limited)


def duplicate(segment: Segment, device: Device) -> Cover:
    """Clone pointwise producers into every reader; fuse the others where there is one reader."""
    return _run(segment, device, _duplicate)


def priority(segment: Segment, device: Device) -> Cover:
    """Repeatedly fuse the producer whose fusion into all its readers saves the most predicted time."""
    return _run(segment, device, _priority)


def every(segment: Segment, device: Device) -> list[Cover]:
    """The plans of all policies: unfused, materialise, duplicate, priority, depth-limited."""
    start = _start(Grammar(plain(segment), device))
    return [_carried_out(start.copy(), device, policy) for policy in _POLICIES]


def _run(segment: Segment, device: Device, policy: Policy) -> Cover:
    return _carried_out(_start(Grammar(plain(segment), device)), device, policy)


def _carried_out(cover: Cover, device: Device, policy: Policy) -> Cover:
    policy(cover, device)
    cover.groups = cover.single_groups()
    return cover


def _start(grammar: Grammar) -> Cover:
    """Every operator a kernel of its own, reading through views."""
    choice: dict[int, Cut] = {}
    for of in range(len(grammar.classes)):
        if of in grammar.free:
            continue
        (enode,) = grammar.classes[of].nodes
        parts = tuple(
            choice[a] if a in choice and choice[a].state.kind == "view" else grammar.leaf(a) for a in enode.args
        )
        made = grammar.join(of, enode, parts)
        if isinstance(made, str):
            made = grammar.join(of, enode, tuple(grammar.leaf(a) for a in enode.args))
        assert isinstance(made, Cut), made
        choice[of] = made
    cover = Cover(grammar, grammar.segment.roots)
    assert cover.take(choice)
    return cover


def fuse(cover: Cover, of: int, readers: list[int]) -> dict[int, Cut] | None:
    """The readers' kernels with class `of` computed inside, or None when one of them cannot hold it."""
    changed = {}
    for reader in readers:
        made = cover.grammar.inline(cover.choice[reader], {of: cover.choice[of]})
        if isinstance(made, str):
            return None
        changed[reader] = made
    return changed


class _Fusing:
    """A cover in the making: who reads what is kept up to date, so a fusion costs what it changes."""

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self.order = cover.order()
        self.readers: dict[int, dict[int, None]] = {c: {} for c in self.order}
        for c in self.order:
            self._note(c)

    def _note(self, c: int) -> None:
        for leaf in self.cover.reads(self.cover.choice[c]):
            self.readers[leaf][c] = None

    def fuse(self, of: int) -> dict[int, Cut] | None:
        """What fusing `of` into all its readers would change, or None."""
        if not self.readers[of] or self.cover.choice[of].state.at_leaf:
            return None
        return fuse(self.cover, of, list(self.readers[of]))

    def commit(self, of: int, changed: dict[int, Cut]) -> set[int]:
        """Carry the change out. Returns the classes whose own fusion now looks different."""
        choice = self.cover.choice
        for reader, cut in changed.items():
            for leaf in self.cover.reads(choice[reader]):
                self.readers[leaf].pop(reader, None)
            choice[reader] = cut
            self._note(reader)
        touched = {leaf for cut in changed.values() for leaf in self.cover.reads(cut)} | set(changed)
        if of not in self.cover.roots:
            for leaf in self.cover.reads(choice.pop(of)):
                self.readers[leaf].pop(of, None)
                touched.add(leaf)
        return touched & choice.keys()

    def finish(self) -> None:
        assert self.cover.take(self.cover.choice)


def inlined(cover: Cover) -> Cover:
    """`cover` with every pointwise value computed in all its readers, whatever it costs: a start for merging, after
    which kernels that compute the same values share them."""
    fusing = _Fusing(cover.copy())
    for of in fusing.order:
        cut = fusing.cover.choice[of]
        if cut.state.kind in ("map", "reduce", "row") or len(fusing.readers[of]) == 1:
            changed = fusing.fuse(of)
            if changed is not None:
                fusing.commit(of, changed)
    fusing.finish()
    return fusing.cover


def _nothing(cover: Cover, device: Device) -> None:
    pass


def _materialise(cover: Cover, device: Device) -> None:
    _single_reader(cover, None)


def _depth_limited(cover: Cover, device: Device) -> None:
    _single_reader(cover, device.depth[1])


def _single_reader(cover: Cover, deepest: int | None) -> None:
    fusing = _Fusing(cover)
    for of in fusing.order:
        if of in cover.roots or len(fusing.readers[of]) != 1:
            continue
        changed = fusing.fuse(of)
        if changed is not None and (deepest is None or max(map(_depth, changed.values())) <= deepest):
            fusing.commit(of, changed)
    fusing.finish()


def _depth(cut: Cut) -> int:
    depth: dict[int, int] = {}
    for c in below([cut]):
        depth[id(c)] = max((depth[id(p)] for p in c.parts), default=0) + (not c.state.at_leaf)
    return depth[id(cut)]


def _duplicate(cover: Cover, device: Device) -> None:
    fusing = _Fusing(cover)
    for of in fusing.order:
        if cover.choice[of].state.kind != "map":
            continue
        changed = fusing.fuse(of)
        if changed is not None:
            before = _traffic(cover.choice[of]) + sum(_traffic(cover.choice[c]) for c in changed)
            if before >= sum(map(_traffic, changed.values())):
                fusing.commit(of, changed)
    fusing.finish()
    _single_reader(cover, None)


def _traffic(cut: Cut) -> int:
    return cut.price.bytes_read + cut.price.bytes_written


def _priority(cover: Cover, device: Device) -> None:
    fusing = _Fusing(cover)
    queue: list[tuple[float, int, int, dict[int, Cut]]] = []
    version: dict[int, int] = {}

    def offer(of: int) -> None:
        version[of] = version.get(of, 0) + 1
        changed = fusing.fuse(of)
        if changed is not None:
            saving = sum(cover.choice[r].price.seconds - c.price.seconds for r, c in changed.items())
            saving += cover.choice[of].price.seconds if of not in cover.roots else 0.0
            if saving > 0:
                heapq.heappush(queue, (-saving, of, version[of], changed))

    for of in fusing.order:
        offer(of)
    while queue:
        _, of, made, changed = heapq.heappop(queue)
        if made != version[of] or of not in cover.choice:
            continue
        for other in sorted(fusing.commit(of, changed)):
            offer(other)
    fusing.finish()


_POLICIES: tuple[Policy, ...] = (_nothing, _materialise, _duplicate, _priority, _depth_limited)
