"""Timelines: the kernels of a segment in the order they run, and how much memory their values hold at each step.

In: `Group`s. Out: `Timeline`, with its peak. One class may be computed by several kernels, at different times: a kernel
reads what was computed last. Next stop: `recompute.py`, which makes timelines that hold less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Group, alone
from eqfuse.extract.moves.merge import group
from eqfuse.machine.memory import ALIGNMENT
from eqfuse.plan.memory import OWN_PLACE, Needs, outside_bytes


@dataclass(eq=False, slots=True)
class Stretch:
    """A value of class `eclass`, made by step `first`, read by the steps `reads`, kept until step `last`. It occupies
    `nbytes` of the arena."""

    eclass: int
    first: int
    nbytes: int
    last: int
    reads: list[int]


@dataclass(frozen=True, eq=False, slots=True)
class TimelineStep:
    """A kernel of a timeline: the computed classes it `reads` and `writes`, and what it `needs` beside them."""

    group: Group
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    needs: Needs
    is_view: bool


class SegmentMemory:
    """What takes memory in a segment: all that is computed, but for results of the program, and the `inputs` that other
    segments compute. `needs` tells what a kernel takes beside what it reads and writes."""

    def __init__(
        self, grammar: Grammar, roots: Sequence[int], inputs: frozenset[int], results: frozenset[int],
        needs: Callable[[Group], Needs],
    ) -> None:  # fmt: skip
        self.grammar, self.roots, self.inputs, self.results = grammar, roots, inputs, results
        self.nbytes = [-(-c.type.nbytes // ALIGNMENT) * ALIGNMENT for c in grammar.classes]
        self._needs = needs
        self._steps: dict[tuple[int, ...], tuple[tuple[Cut, ...], TimelineStep | None]] = {}
        self.operators = 0  # of all kernels made so far

    def step(self, group: Group) -> TimelineStep:
        group = group.by_schedule(self.grammar)
        free = self.grammar.free - self.inputs
        reads = tuple(c for c in group.leaves if c not in free)
        return TimelineStep(group, reads, group.outputs, self._needs(group), group.state.is_view)

    def together(self, cuts: tuple[Cut, ...]) -> TimelineStep | None:
        """One kernel that computes `cuts`, if there is one."""
        key = tuple(map(id, cuts))
        if key not in self._steps:
            self.operators += sum(cut.size for cut in cuts)
            kernel = alone(cuts[0]) if len(cuts) == 1 else group(self.grammar, cuts)
            possible = kernel is not None and kernel.price.seconds < math.inf
            self._steps[key] = cuts, self.step(kernel) if kernel is not None and possible else None
        return self._steps[key][1]


class Timeline:
    """`steps` in order. ValueError where one reads what no step before it computes."""

    def __init__(self, held: SegmentMemory, steps: Sequence[TimelineStep]) -> None:
        self.held, self.steps = held, tuple(steps)
        self.seconds = sum([s.group.price.seconds for s in self.steps])
        self.stretches = self._stretches()
        change = [0] * (len(self.steps) + 2)
        small = 0
        for s in self.stretches:
            if s.nbytes > OWN_PLACE:
                change[s.first if s.first > 0 else 0] += s.nbytes
                change[s.last + 1] -= s.nbytes
            else:
                small += s.nbytes
        self.arena: list[int] = []
        for step, more in zip(self.steps, change, strict=False):
            small += more
            self.arena.append(small + step.needs.workspaces)

    def _stretches(self) -> list[Stretch]:
        nbytes, inputs = self.held.nbytes, self.held.inputs
        now: dict[int, Stretch] = {c: Stretch(c, -1, nbytes[c], 0, []) for c in sorted(inputs)}
        stretches = list(now.values())
        seen_through: dict[int, Stretch | None] = {}  # views of roots: whose memory they are
        for i, step in enumerate(self.steps):
            for c in step.reads:
                if c not in now:
                    raise ValueError(f"step {i} reads class {c}, which no step before it computes")
                read = now[c]
                read.reads.append(i)
                read.last = i
            for c in step.writes:
                stretch = now[c] = Stretch(c, i, nbytes[c], i, [])
                stretches.append(stretch)
                if step.is_view:
                    stretch.nbytes = 0
                    seen_through[c] = now[step.reads[0]] if step.reads else None
        for root in self.held.roots:
            if root in now:
                owner = seen_through.get(root) or now[root]
                if root in self.held.results:
                    owner.nbytes = 0  # the caller's, not the arena's
                owner.last = now[root].last = len(self.steps)
            elif root not in self.held.grammar.free:
                raise ValueError(f"no step computes the root {root}")
        return stretches

    @cached_property
    def outside(self) -> int:
        """Bytes outside the arena."""
        return outside_bytes([s.needs for s in self.steps])

    @cached_property
    def peak(self) -> int:
        """The most bytes held at a time, by what is known before anything is laid out."""
        return max(self.arena, default=0) + self.outside

    def excess(self, level: int) -> int:
        """By how much the steps hold more than `level`, summed over steps."""
        room = level - self.outside
        return sum([now - room for now in self.arena if now > room])

    def alive(self, step: int) -> list[Stretch]:
        """The values that take memory at `step`, those first that wait longest to be read."""
        alive = [s for s in self.stretches if s.nbytes > OWN_PLACE and s.first <= step <= s.last]
        return sorted(alive, key=lambda s: (-s.nbytes * (s.last - s.first), s.first, s.eclass))

    def without_unread(self) -> Timeline:
        """Without the outputs, and the kernels, that nobody reads."""
        unread: dict[int, set[int]] = {}
        for s in self.stretches:
            if not s.reads and s.last == s.first:
                unread.setdefault(s.first, set()).add(s.eclass)
        steps: list[TimelineStep | None] = list(self.steps)
        for i, classes in unread.items():
            kept = tuple(c for c in self.steps[i].group.cuts if c.eclass not in classes)
            steps[i] = (self.held.together(kept) or self.steps[i]) if kept else None
        if all(a is b for a, b in zip(steps, self.steps, strict=True)):
            return self
        return Timeline(self.held, [s for s in steps if s is not None]).without_unread()
