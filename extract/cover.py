"""Covers: a choice of kernels that computes every root of a segment.

A `Cover` maps each stored class to the cut that computes it and keeps reference counts, so that a move is priced by
de-referencing what it drops and referencing what it needs. `Group` is a kernel of one or several stored classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eqfuse.extract.cuts import Cut, Grammar
from eqfuse.kinds import State
from eqfuse.plan import Price


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """One kernel of the final choice: `cuts` compute its outputs together."""

    cuts: tuple[Cut, ...]
    state: State
    leaves: dict[int, int]
    price: Price

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(c.of for c in self.cuts)


class Cover:
    """Kernels for every class that is stored. `cost` is the sum of their prices, in seconds."""

    def __init__(self, grammar: Grammar, roots: Iterable[int]) -> None:
        self.grammar = grammar
        self.roots = tuple(dict.fromkeys(r for r in roots if r not in grammar.free))
        self.choice: dict[int, Cut] = {}
        self.refs: dict[int, int] = {}
        self.cost = 0.0
        self.groups: tuple[Group, ...] = ()

    def copy(self) -> Cover:
        new = Cover(self.grammar, self.roots)
        new.choice, new.refs, new.cost = dict(self.choice), dict(self.refs), self.cost
        return new

    def take(self, choice: dict[int, Cut]) -> bool:
        """Cover the roots with `choice`; False, and empty, when a class is missing or depends on itself."""
        self.choice, self.refs, self.cost = {}, dict.fromkeys(self.roots, 1), 0.0
        finished: set[int] = set()
        for root in self.roots:
            stack: list[tuple[int, list[int]]] = []
            following: int | None = None if root in finished else root
            while following is not None or stack:
                if following is not None:
                    cut = choice.get(following)
                    if cut is None or following in self.choice:  # missing, or entered and not finished: a circle
                        self.choice, self.refs, self.cost = {}, {}, 0.0
                        return False
                    self.choice[following] = cut
                    self.cost += cut.price.seconds
                    reads = self.reads(cut)
                    for leaf in reads:
                        self.refs[leaf] = self.refs.get(leaf, 0) + 1
                    stack.append((following, reads[::-1]))
                rest = stack[-1][1]
                while rest and rest[-1] in finished:
                    rest.pop()
                following = rest.pop() if rest else None
                if following is None:
                    finished.add(stack.pop()[0])
        self.cost -= sum(self.choice[r].price.seconds for r in self.roots if self.is_alias(r))
        return True

    def is_alias(self, of: int) -> bool:
        """Is the root `of` just a view, which the caller gets without a copy, as from NumPy?"""
        return of in self.roots and self.choice[of].state.kind == "view" and self.refs[of] == 1

    def reads(self, cut: Cut) -> list[int]:
        """The computed classes that `cut` reads."""
        free = self.grammar.free
        return [c for c in cut.leaves if c not in free]

    def order(self) -> list[int]:
        """Stored classes, producers first."""
        done: dict[int, None] = {}
        stack = [(r, False) for r in reversed(self.roots)]
        while stack:
            c, ready = stack.pop()
            if c in done:
                continue
            if ready:
                done[c] = None
            else:
                stack.append((c, True))
                stack.extend((leaf, False) for leaf in reversed(self.reads(self.choice[c])) if leaf not in done)
        return list(done)

    def readers(self) -> dict[int, list[int]]:
        """The stored classes whose kernels read each class."""
        found: dict[int, list[int]] = {}
        for c in self.order():
            for leaf in self.choice[c].leaves:
                found.setdefault(leaf, []).append(c)
        return found

    def single_groups(self) -> tuple[Group, ...]:
        return tuple(self._alone(self.choice[c]) for c in self.order())

    def _alone(self, cut: Cut) -> Group:
        if self.is_alias(cut.of):
            return Group((cut,), cut.state, cut.leaves, Price(0.0, 0, 0, 0, "memory"))
        state = replace(cut.state, kind="map") if cut.state.kind == "view" else cut.state
        return Group((cut,), state, cut.leaves, cut.price)
