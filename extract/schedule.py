"""Schedules: the kernels of a segment in the order they run, and how much memory their values hold at each step.

In: `Group`s. Out: `Schedule`, with its peak. One class may be computed by several kernels, at different times: a kernel
reads what was computed last. Next stop: `limit.py`, which makes schedules that hold less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from eqfuse.extract.cover import Group, alone
from eqfuse.extract.cuts import Cut, Grammar
from eqfuse.extract.merge import group
from eqfuse.memory import ALIGNMENT, SMALL_BYTES, Needs, outside_bytes


@dataclass(eq=False)
class Stretch:
    """A value of class `of`, made by step `first` and read by the steps `reads`; `nbytes` of the arena are its own."""

    of: int
    first: int
    nbytes: int
    reads: list[int]
    stays: bool = False  # until the segment is done

    def last(self, steps: int) -> int:
        return steps if self.stays else self.reads[-1] if self.reads else self.first


class Held:
    """What takes memory in a segment: all that is computed, but for results of the program, and the `inputs` that other
    segments compute."""

    def __init__(
        self, grammar: Grammar, roots: Sequence[int], inputs: frozenset[int], results: frozenset[int],
        needs: Callable[[Group], Needs],
    ) -> None:  # fmt: skip
        self.grammar, self.roots, self.inputs, self.results = grammar, roots, inputs, results
        self._emitted = needs
        self._needs: dict[int, tuple[Group, Needs]] = {}

    def nbytes(self, of: int) -> int:
        return -(-self.grammar.classes[of].type.nbytes // ALIGNMENT) * ALIGNMENT

    def needs(self, group: Group) -> Needs:
        found = self._needs.get(id(group))
        if found is None:
            found = self._needs[id(group)] = group, self._emitted(group)
        return found[1]


class Schedule:
    """`steps` in order. ValueError where one reads what no step before it computes."""

    def __init__(self, held: Held, steps: Sequence[Group]) -> None:
        self.held, self.steps = held, tuple(steps)
        self.seconds = sum(g.price.seconds for g in self.steps)
        self.stretches = self._stretches()
        alive = [0] * (len(self.steps) + 1)
        for s in self.stretches:
            if s.nbytes > SMALL_BYTES:
                alive[max(s.first, 0)] += s.nbytes
                last = s.last(len(self.steps))
                if last < len(self.steps):
                    alive[last + 1] -= s.nbytes
        for i in range(1, len(alive)):
            alive[i] += alive[i - 1]
        small = sum(s.nbytes for s in self.stretches if s.nbytes <= SMALL_BYTES)
        self.arena = [small + now + held.needs(g).rooms for g, now in zip(self.steps, alive, strict=False)]

    def _stretches(self) -> list[Stretch]:
        held, free = self.held, self.held.grammar.free
        now: dict[int, Stretch] = {c: Stretch(c, -1, held.nbytes(c), []) for c in sorted(held.inputs)}
        found = list(now.values())
        seen_through: dict[int, Stretch | None] = {}  # views of roots: whose memory they are
        for i, step in enumerate(self.steps):
            for leaf in step.leaves:
                if leaf in now:
                    now[leaf].reads.append(i)
                elif leaf not in free:
                    raise ValueError(f"step {i} reads class {leaf}, which no step before it computes")
            for c in step.outputs:
                now[c] = Stretch(c, i, held.nbytes(c), [])
                if step.state.kind == "view":
                    now[c].nbytes = 0
                    (base,) = step.leaves
                    seen_through[c] = now.get(base)
                found.append(now[c])
        for root in self.held.roots:
            if root in free:
                continue
            if root not in now:
                raise ValueError(f"no step computes the root {root}")
            owner = seen_through.get(root, now[root]) or now[root]
            if root in self.held.results:
                owner.nbytes = 0  # the caller's, not the arena's
            owner.stays = now[root].stays = True
        return found

    @cached_property
    def outside(self) -> int:
        """Bytes outside the arena."""
        return outside_bytes([self.held.needs(g) for g in self.steps])

    @cached_property
    def peak(self) -> int:
        """The most bytes held at a time, by what is known before anything is laid out."""
        return max(self.arena, default=0) + self.outside

    def excess(self, level: int) -> int:
        """By how much the steps hold more than `level`, summed over steps."""
        room = level - self.outside
        return sum(now - room for now in self.arena if now > room)

    def at(self, step: int) -> list[Stretch]:
        """The values that take memory at `step`, those first that wait longest to be read."""
        n = len(self.steps)
        alive = [s for s in self.stretches if s.nbytes > SMALL_BYTES and s.first <= step <= s.last(n)]
        return sorted(alive, key=lambda s: (-s.nbytes * (s.last(n) - s.first), s.first, s.of))

    def without_unread(self) -> Schedule:
        """Without the outputs, and the kernels, that nobody reads."""
        unread = {(s.first, s.of) for s in self.stretches if not s.reads and not s.stays and s.first >= 0}
        if not unread:
            return self
        steps = []
        for i, step in enumerate(self.steps):
            kept = tuple(c for c in step.cuts if (i, c.of) not in unread)
            if len(kept) == len(step.cuts):
                steps.append(step)
            elif kept:
                steps.append(together(self.held.grammar, kept) or step)
        if len(steps) == len(self.steps) and all(a is b for a, b in zip(steps, self.steps, strict=True)):
            return self
        return Schedule(self.held, steps).without_unread()


def together(grammar: Grammar, cuts: tuple[Cut, ...]) -> Group | None:
    """One kernel that computes `cuts`, if there is one."""
    found = alone(cuts[0]) if len(cuts) == 1 else group(grammar, cuts)
    return found if found is not None and found.price.seconds < math.inf else None
