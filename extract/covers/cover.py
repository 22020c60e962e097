"""Covers: a choice of kernels that computes every root of a segment.

A `Cover` maps each stored class to the cut that computes it and keeps reference counts, so that a move is priced by
de-referencing what it drops and referencing what it needs. `Group` is a kernel of one or several stored classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from eqfuse.budget import ALL_LAWS
from eqfuse.cost.price import Price
from eqfuse.cost.targets import searches_schedules
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.work import set_bits
from eqfuse.kinds import State
from eqfuse.ops.types import Shape

ROUNDOFF = 1e-12  # seconds; smaller gains are rounding


@dataclass(eq=False, slots=True)
class Group:
    """One kernel of the final choice: `cuts` compute its `outputs` together, over `space` (None of a view, which merges
    with no other); `size` operators run. `set_price`: its price, where it is not that of such a kernel, and once it was
    asked for. Nothing else of it changes."""

    cuts: tuple[Cut, ...]
    state: State
    leaves: dict[int, int]
    set_price: Price | None = None
    outputs: tuple[int, ...] = field(init=False)
    space: Shape | None = field(init=False)
    size: int = field(init=False)
    _estimate: float | None = field(init=False)
    _rough: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.outputs = tuple([c.eclass for c in self.cuts])
        self.space = None if self.state.is_view else self.state.space
        self.size = sum([c.size for c in self.cuts])
        self._estimate = None if self.set_price is None else self.set_price.seconds

    @property
    def price(self) -> Price:
        """Found when it is asked for: most kernels of several outputs are none of the choice."""
        if self.set_price is None:
            first, *others = self.cuts
            self.set_price = first.prices.kernel(self.cuts, self.state, self.leaves) if others else first.price
        return self.set_price

    @property
    def estimate(self) -> float:
        """About its price, as that of a cut."""
        if self._estimate is None:
            first, *others = self.cuts
            estimate = first.prices.estimate(self.cuts, self.state, self.leaves) if others else first.estimate
            self._estimate = self.price.seconds if estimate is None else estimate
        return self._estimate

    @property
    def rough(self) -> float:
        """About its estimate, in seconds: by its state alone where the estimate is the price of its schedule."""
        if self._rough is None:
            first, *others = self.cuts
            rough = first.prices.rough(self.cuts, self.state, self.leaves) if others else first.rough
            self._rough = self.estimate if rough is None else rough
        return self._rough

    @property
    def is_new(self) -> bool:
        """Has it never been asked what it costs?"""
        return self._rough is None

    @property
    def cost(self) -> float:
        """What a cover pays for it, at this stage of the search."""
        return self.estimate if self.cuts[0].prices.goes_by_estimates else self.price.seconds

    @property
    def has_cost(self) -> bool:
        """Is its cost known without making a schedule?"""
        first = self.cuts[0]
        return first.prices.goes_by_estimates or self.set_price is not None or (len(self.cuts) == 1 and first.is_priced)

    @property
    def runs(self) -> bool:
        """Is there such a kernel on the device? Where that is taken on trust, as far as is known."""
        if self.set_price is None and self.cuts[0].prices.has_schedule(self.state):
            return self.estimate < math.inf
        return self.price.seconds < math.inf

    def by_schedule(self, grammar: Grammar) -> Group:
        """The same kernel at the price of its schedule, where the search had an estimate."""
        is_exact = searches_schedules(grammar.device)
        if is_exact or not 0 < self.price.seconds < math.inf:  # a view that is a result is free
            return self
        body, _ = grammar.body(self.cuts)
        price = grammar.prices.of_schedule(self.state.kind, body)
        return self if price in (None, self.price) else Group(self.cuts, self.state, self.leaves, price)


def producers_first(starts: Iterable[int], needs: Callable[[int], Sequence[int]]) -> list[int]:
    """`starts` and all that they need, each behind what it needs, otherwise in the order they are met."""
    done: dict[int, None] = {}
    stack = [(s, False) for s in reversed(list(starts))]
    while stack:
        number, ready = stack.pop()
        if number in done:
            continue
        if ready:
            done[number] = None
        else:
            stack.append((number, True))
            stack.extend((n, False) for n in reversed(needs(number)) if n not in done)
    return list(done)


class Cover:
    """Kernels for every class that is stored. `cost` is the sum of their prices, in seconds."""

    def __init__(self, grammar: Grammar, roots: Iterable[int]) -> None:
        self.grammar = grammar
        self.roots = tuple(dict.fromkeys(r for r in roots if r not in grammar.free))
        self._results = frozenset(self.roots)
        self.choice: dict[int, Cut] = {}
        self.refs: dict[int, int] = {}
        self.cost = 0.0
        self.groups: tuple[Group, ...] = ()
        self.bound: float | None = None  # seconds that no cover from the same candidates can beat, where that is known
        self.level = ALL_LAWS  # at which it was searched, and the limit that ended the search
        self.cut: str | None = None
        self.is_proved = False  # is it known to compute the program?
        self._undo: dict[int, Cut | None] = {}
        self._undo_refs: dict[int, int] = {}

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
                    self.cost += self.seconds(following, cut)
                    for leaf in cut.reads:
                        self.refs[leaf] = self.refs.get(leaf, 0) + 1
                    stack.append((following, list(reversed(cut.reads))))
                rest = stack[-1][1]
                while rest and rest[-1] in finished:
                    rest.pop()
                following = rest.pop() if rest else None
                if following is None:
                    finished.add(stack.pop()[0])
        return True

    def attempt(self, changed: dict[int, Cut], fresh: Callable[[int], Cut | None]) -> bool:
        """Compute the classes of `changed` by other cuts if the cover gets cheaper and stays acyclic.

        What is no longer read is dropped, and what is newly read is computed by the cut that `fresh` gives. Costs as
        much as what changes; nothing changes when the answer is False.
        """
        start = self.cost
        if self._saves_nothing(changed):
            return False
        is_cheaper = self.move(changed, fresh) and self.cost < start - ROUNDOFF and self._acyclic(self._undo)
        if is_cheaper and all(cut.runs for cut in changed.values()):
            self.keep()
            return True
        self.undo()
        self.cost = start
        return False

    def _saves_nothing(self, changed: dict[int, Cut]) -> bool:
        """Are the other cuts no cheaper, all told, with all that nothing reads then? By what is known of them without
        their schedules. What else a move changes makes it costlier."""
        saved = 0.0
        unread: list[int] = []
        for eclass, cut in changed.items():
            old = self.choice.get(eclass)
            if old is not None:
                saved += self.seconds(eclass, old) - self.about(eclass, cut)
                unread += [c for c in old.reads if c not in cut.leaves]
        fewer: dict[int, int] = {}
        while unread and saved < ROUNDOFF:  # what is left of them saves yet more
            c = unread.pop()
            fewer[c] = fewer.get(c, 0) + 1
            if fewer[c] == self.refs[c] and c in self.choice and c not in self._results:
                saved += self.seconds(c, self.choice[c])
                unread += self.choice[c].reads
        return saved < ROUNDOFF

    def move(self, changed: dict[int, Cut], fresh: Callable[[int], Cut | None]) -> bool:
        """`attempt` without the judgement, to be followed by `keep` or `undo`; False where `fresh` has no cut."""
        return all(self._swap(u, cut, fresh) for u, cut in changed.items() if u in self.choice)

    def touched(self) -> list[int]:
        """What the move changed: classes computed otherwise, stored or dropped, and results read more or less often."""
        return [*self._undo, *(c for c in self._undo_refs if c in self._results and c not in self._undo)]

    def keep(self) -> None:
        self._undo.clear()
        self._undo_refs.clear()

    def undo(self) -> None:
        for c, old in self._undo.items():
            if old is None:
                self.choice.pop(c, None)
            else:
                self.choice[c] = old
        self.refs.update(self._undo_refs)
        self.keep()

    def _set(self, eclass: int, cut: Cut | None) -> None:
        old = self.choice.get(eclass)
        self._undo.setdefault(eclass, old)
        if old is not None:
            self.cost -= self.seconds(eclass, old)
        if cut is None:
            del self.choice[eclass]
        else:
            self.cost += self.seconds(eclass, cut)
            self.choice[eclass] = cut

    def _count(self, eclass: int, by: int) -> int:
        now = self.refs.get(eclass, 0)
        self._undo_refs.setdefault(eclass, now)
        self.refs[eclass] = now + by
        return now + by

    def _swap(self, eclass: int, cut: Cut, fresh: Callable[[int], Cut | None]) -> bool:
        old = self.choice[eclass]
        self._set(eclass, cut)
        needed = list(cut.reads)
        while needed:
            c = needed.pop()
            if self._count(c, 1) > 1 or c in self.choice:
                continue
            producer = fresh(c)
            if producer is None:
                return False
            self._set(c, producer)
            needed.extend(producer.reads)
        unread = list(old.reads)
        while unread:
            c = unread.pop()
            if self._count(c, -1) == 0 and c in self.choice and c not in self._results:
                dropped = self.choice[c]
                self._set(c, None)
                unread.extend(dropped.reads)
        return True

    def _acyclic(self, touched: Iterable[int]) -> bool:
        """Does none of the classes that were changed or newly stored depend on itself?"""
        path: set[int] = set()
        done: set[int] = set()
        stack = [(c, False) for c in touched if c in self.choice]
        while stack:
            c, leave = stack.pop()
            if leave:
                path.discard(c)
                done.add(c)
            elif c in path:
                return False
            elif c not in done:
                path.add(c)
                stack.append((c, True))
                stack.extend([(read, False) for read in self.choice[c].reads if read not in done])
        return True

    def seconds(self, eclass: int, cut: Cut) -> float:
        """The price of computing class `eclass` by `cut`. A result that is a view costs nothing, as in NumPy."""
        return 0.0 if cut.state.is_view and eclass in self._results else cut.cost

    def about(self, eclass: int, cut: Cut) -> float:
        """The same, by what is known as long as the cut's schedule has not been made."""
        return 0.0 if cut.state.is_view and eclass in self._results else cut.about

    def is_alias(self, eclass: int) -> bool:
        """Is the root `eclass` just a view, and not read by another kernel, which would need it copied?"""
        return eclass in self._results and self.choice[eclass].state.is_view and self.refs[eclass] == 1

    def stored(self) -> list[int]:
        """Stored classes, producers first."""
        return producers_first(self.roots, lambda c: self.choice[c].reads)

    def readers(self) -> dict[int, list[int]]:
        """The stored classes whose kernels read each class."""
        readers: dict[int, list[int]] = {}
        for c in self.stored():
            for leaf in self.choice[c].leaves:
                readers.setdefault(leaf, []).append(c)
        return readers

    def users(self) -> dict[int, list[int]]:
        """The stored classes whose kernels compute each class, or give it."""
        users: dict[int, list[int]] = {}
        for user, cut in self.choice.items():
            for c in set_bits(cut.inside):
                users.setdefault(c, []).append(user)
        return users

    def single_groups(self) -> tuple[Group, ...]:
        return tuple(self.alone_or_alias(self.choice[c]) for c in self.stored())

    def settle(self) -> None:
        """Its groups, and its cost, at the prices of their schedules."""
        self.groups = tuple(group.by_schedule(self.grammar) for group in self.groups)
        self.cost = sum(g.price.seconds for g in self.groups)

    def alone_or_alias(self, cut: Cut) -> Group:
        if self.is_alias(cut.eclass):
            return Group((cut,), cut.state, cut.leaves, Price(0.0, 0, 0, 0, "memory"))
        return alone(cut)


def alone(cut: Cut) -> Group:
    """The kernel that computes `cut` and stores it."""
    return Group((cut,), cut.stored, cut.leaves)
