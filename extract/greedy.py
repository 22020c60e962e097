"""Greedy fusion, as real systems do it: fuse a producer into all its readers, never undo, no algebra.

Promise: none. Each works on the program as it was written (one node per class), with the same kinds and prices as
`flow`. `materialise` follows NNC and Bohrium (one reader only), `duplicate` XLA's FusionMerger (pointwise producers are
cloned), `priority` XLA's priority fusion and Inductor's scores, `depth_limited` the fusion-depth thresholds.
"""

from __future__ import annotations

from collections.abc import Callable

from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import Cut, Grammar, below
from eqfuse.extract.plain import plain
from eqfuse.hardware import Device
from eqfuse.space import Segment

Policy = Callable[[Cover, Device], None]


def unfused(segment: Segment, device: Device) -> Cover:
    """One kernel per operator; views cost nothing, as in NumPy."""
    return _run(segment, device, lambda cover, device: None)


def materialise(segment: Segment, device: Device) -> Cover:
    """Fuse a producer that has one reader."""
    return _run(segment, device, lambda cover, device: _single_reader(cover, None))


def depth_limited(segment: Segment, device: Device) -> Cover:
    """As `materialise`, with kernels at most as deep as is customary for the device (features A6.1, A6.2)."""
    return _run(segment, device, lambda cover, device: _single_reader(cover, device.depth[1]))


def duplicate(segment: Segment, device: Device) -> Cover:
    """Clone pointwise producers into every reader; fuse the others where there is one reader."""
    return _run(segment, device, _duplicate)


def priority(segment: Segment, device: Device) -> Cover:
    """Repeatedly fuse the producer whose fusion into all its readers saves the most predicted time."""
    return _run(segment, device, _priority)


POLICIES = (unfused, materialise, duplicate, priority, depth_limited)


def _run(segment: Segment, device: Device, policy: Policy) -> Cover:
    grammar = Grammar(plain(segment), device)
    cover = _start(grammar)
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


def inlined(cover: Cover) -> Cover:
    """`cover` with every pointwise value computed in all its readers, whatever it costs: a start for merging, after
    which kernels that compute the same values share them."""
    new = cover.copy()
    for of in new.order():
        readers = new.readers().get(of, [])
        if readers and (new.choice[of].state.kind in ("map", "reduce", "row") or len(readers) == 1):
            changed = fuse(new, of, readers)
            if changed is not None:
                _commit(new, of, changed)
    return new


def _commit(cover: Cover, of: int, changed: dict[int, Cut]) -> None:
    choice = cover.choice | changed
    if of not in cover.roots:
        del choice[of]
    assert cover.take(choice)


def _single_reader(cover: Cover, deepest: int | None) -> None:
    for of in cover.order():
        readers = cover.readers().get(of, [])
        if of in cover.roots or len(readers) != 1 or cover.choice[of].state.at_leaf:
            continue
        changed = fuse(cover, of, readers)
        if changed is None or (deepest is not None and max(map(_depth, changed.values())) > deepest):
            continue
        _commit(cover, of, changed)


def _depth(cut: Cut) -> int:
    depth: dict[int, int] = {}
    for c in below([cut]):
        depth[id(c)] = max((depth[id(p)] for p in c.parts), default=0) + (not c.state.at_leaf)
    return depth[id(cut)]


def _duplicate(cover: Cover, device: Device) -> None:
    for of in cover.order():
        readers = cover.readers().get(of, [])
        if not readers or cover.choice[of].state.kind != "map":
            continue
        changed = fuse(cover, of, readers)
        if changed is not None and _bytes(cover, [*readers, of]) >= sum(_traffic(c) for c in changed.values()):
            _commit(cover, of, changed)
    _single_reader(cover, None)


def _traffic(cut: Cut) -> int:
    return cut.price.bytes_read + cut.price.bytes_written


def _bytes(cover: Cover, classes: list[int]) -> int:
    return sum(_traffic(cover.choice[c]) for c in classes)


def _priority(cover: Cover, device: Device) -> None:
    while True:
        readers = cover.readers()
        best, best_saving, best_change = -1, 0.0, {}
        for of in cover.order():
            if of not in readers or cover.choice[of].state.at_leaf:
                continue
            changed = fuse(cover, of, readers[of])
            if changed is None:
                continue
            saving = sum(cover.choice[r].price.seconds - c.price.seconds for r, c in changed.items())
            saving += cover.choice[of].price.seconds if of not in cover.roots else 0.0
            if saving > best_saving:
                best, best_saving, best_change = of, saving, changed
        if best < 0:
            return
        _commit(cover, best, best_change)
