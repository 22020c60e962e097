"""Priority cuts: a few candidate kernels for every class, as technology mapping keeps them.

In: a `Grammar` and how often each class is read. Out: candidates per class, cheapest first by area flow.
After ABC's `if` mapper (Mishchenko, Chatterjee, Brayton, TCAD 2007): area flow of a class is the price of its best cut
plus the flows of what it reads, shared among its readers. Two rankings are kept: by flow, and by the kernel's own price
(as if its leaves were free); one ranking alone loses candidates that pay only when their leaves are stored anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice, product

from eqfuse.egraph.space import ENode
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar

MOST_JOINS = 625  # combinations of arguments' cuts that one node tries: all of four arguments
MOST_JOINS_OF_PIECES = 64  # the same where each element is an argument's: most are of small pieces, as borders are
PROMISING = 5  # of a kind and a class, by each of two rankings, whose schedules are made, and exist


@dataclass(frozen=True)
class Effort:
    """Limits of the search: cuts kept per class, cuts of an argument that a parent tries besides reading it, and sweeps
    over all classes (later ones find derivations through later classes)."""

    cuts_kept: int
    offered: int
    sweeps: int


def effort(classes: int, by_estimates: bool = False) -> Effort:
    """The effort that keeps the search for a segment of so many classes within seconds. Where kernels are judged
    `by_estimates`, more finds no cheaper plans: those that are regrouped by prices come out as cheap."""
    if classes <= 500:
        return Effort(4, 2, 2) if by_estimates else Effort(8, 4, 3)
    return Effort(5, 2, 1) if classes <= 2000 else Effort(3, 1, 1)


class _Flows(dict[int, float]):
    """Area flows; a class that cannot be computed costs infinity."""

    def __missing__(self, eclass: int) -> float:
        return math.inf


class Candidates:
    """The cuts of every class and their area flows, in seconds. `before`: the pass before, over the same grammar."""

    def __init__(self, grammar: Grammar, references: dict[int, int], before: Candidates | None = None) -> None:
        self.grammar = grammar
        self.references = references
        self.cuts: dict[int, list[Cut]] = {}
        self.flow: dict[int, float] = _Flows.fromkeys(grammar.free, 0.0)
        self._cheapest: dict[int, Cut | None] = {}  # flows no longer change when it is asked for
        self._by_estimates = grammar.prices.goes_by_estimates
        self.effort = effort(len(grammar.classes), self._by_estimates)
        self._leaves_first: list[int] = before._leaves_first if before else _leaf_up(grammar)
        self._base: list[int] = before._base if before else _reshaped(grammar)
        self._marks: dict[Cut, tuple] = before._marks if before else {}  # by which cuts are alike
        self._joined: dict[tuple, list[Cut]] = before._joined if before else {}  # of the cuts that are offered
        self._offering: dict[int, list[Cut]] = {}  # of classes that have not changed since
        self._now = 0  # classes that were looked at
        self._changed: dict[int, int] = dict.fromkeys(range(len(grammar.classes)), 0)  # when each did last
        self._settled: dict[int, tuple[int, set[int]]] = {}  # when each was, and from which other classes
        for _ in range(self.effort.sweeps):
            changed = [self._settle(eclass) for eclass in self._leaves_first]
            if not any(changed):
                break

    def total(self, cut: Cut) -> float:
        """What the cut costs, plus the flows of what it reads."""
        cost = cut.estimate if self._by_estimates else cut.price.seconds  # as when the candidates were chosen
        return cost + self.read(cut)

    def read(self, cut: Cut) -> float:
        """The flows of what the cut reads."""
        return sum(map(self.flow.__getitem__, cut.reads))

    def cheapest(self, eclass: int) -> Cut | None:
        """The cut of class `eclass` with the smallest total, if it has any."""
        if eclass not in self._cheapest:
            self._cheapest[eclass] = self.best(self.cuts.get(eclass, ()))
        return self._cheapest[eclass]

    def best(self, cuts: Iterable[Cut]) -> Cut | None:
        """The one of `cuts` with the smallest total, if one runs."""
        about = self.total if self._by_estimates else lambda cut: cut.about + self.read(cut)
        return least(cuts, about, self.total)

    def add(self, cut: Cut) -> None:
        """Offer a cut from elsewhere (a greedy plan's kernel)."""
        kept = self.cuts.setdefault(cut.eclass, [])
        if not any(_same(cut, c) for c in kept):
            kept.append(cut)
            self._cheapest.pop(cut.eclass, None)

    @cached_property
    def parts(self) -> dict[int, dict[int, Cut]]:
        """Computed classes of which several others are views, not all of them whole, and the cuts that are those
        views."""
        views: dict[int, dict[int, Cut]] = {}
        for eclass, cuts in sorted(self.cuts.items()):
            for cut in cuts:
                if cut.state.is_view and self.grammar.free.isdisjoint(cut.leaves):
                    for whole in cut.leaves:
                        views.setdefault(whole, {})[eclass] = cut
        sizes = self.grammar.prices.sizes
        return {w: cuts for w, cuts in views.items() if len(cuts) > 1 and any(sizes[c] < sizes[w] for c in cuts)}

    def untangled(self) -> dict[int, int]:
        """Settle the flows one after another, the least first (Dijkstra, 1959), and give each class's place in
        that order: no flow rests upon itself then, as it may where equal classes are computed from each other."""
        flow: dict[int, float] = _Flows.fromkeys(self.grammar.free, 0.0)
        rank: dict[int, int] = {}
        cuts = [cut for kept in self.cuts.values() for cut in kept]
        missing = [sum(c not in flow for c in cut.leaves) for cut in cuts]
        readers: dict[int, list[int]] = {}
        for i, cut in enumerate(cuts):
            for c in cut.leaves:
                readers.setdefault(c, []).append(i)
        ready = [i for i, n in enumerate(missing) if n == 0]
        queue: list[tuple[float, int]] = []
        while ready or queue:
            for i in ready:
                cut = cuts[i]
                total = cut.estimate + sum(flow[c] for c in cut.leaves)
                heappush(queue, (total / max(1, self.references.get(cut.eclass, 1)), cut.eclass))
            ready = []
            settled, eclass = heappop(queue)
            if eclass in flow:
                continue
            flow[eclass], rank[eclass] = settled, len(rank)
            for i in readers.get(eclass, ()):
                missing[i] -= 1
                if missing[i] == 0:
                    ready.append(i)
        self.flow = flow
        self._cheapest.clear()
        return rank

    def _settle(self, eclass: int) -> bool:
        """Choose the cuts of a class anew, if what they are made from has changed. Is anything about it different?"""
        self._now += 1
        if eclass in self._settled:
            moment, others = self._settled[eclass]
            if max(map(self._changed.__getitem__, others), default=0) < moment:
                return False
        cuts = list(self.cuts.get(eclass, ()))
        others = set()
        for enode in self.grammar.classes[eclass].nodes:
            if enode.args and eclass not in enode.args:
                others.update(enode.args)
                offers = self._offered(enode)
                key = (eclass, id(enode), offers)
                if key not in self._joined:
                    self._joined[key] = self._joins(eclass, enode, offers)
                cuts += self._joined[key]
        cuts = [cut for cut in self._promising(cuts) if cut.estimate < math.inf]
        self._settled[eclass] = self._now, others.union(*[cut.leaves for cut in cuts])
        different = bool(cuts) and self._keep(eclass, cuts)
        if different:
            self._changed[eclass] = self._now
            self._offering.pop(eclass, None)
        return different

    def _offered(self, enode: ENode) -> tuple[tuple[Cut, ...], ...]:
        """Cuts of each argument of `enode`, few enough that all can be joined with one another."""
        offers = {a: [*self._offers(a)] for a in enode.args}
        most = MOST_JOINS_OF_PIECES if enode.row.pieces is not None else MOST_JOINS
        while math.prod(map(len, offers.values())) > most:
            max(offers.values(), key=len).pop()  # the one whose flow is worst, of the argument with the most
        return tuple([tuple(offered) for offered in offers.values()])

    def _joins(self, eclass: int, enode: ENode, offers: tuple[tuple[Cut, ...], ...]) -> list[Cut]:
        """The cuts that `enode` makes of those offered for its arguments."""
        distinct = tuple(dict.fromkeys(enode.args))
        places = [distinct.index(a) for a in enode.args]
        joined = (self.grammar.join(eclass, enode, tuple([chosen[i] for i in places])) for chosen in product(*offers))
        return [cut for cut in joined if isinstance(cut, Cut)]

    def _promising(self, cuts: list[Cut]) -> list[Cut]:
        """`cuts` of a class without those that by their states are dearer than others of their kind, with and without
        what they read: their schedules would take long to make."""
        by_kind: dict[str, list[tuple[float, float, int]]] = {}
        for i, cut in enumerate(cuts):
            rough = cut.rough
            if rough is not None and not cut.state.unfinished:
                total = rough + sum(map(self.flow.__getitem__, cut.reads))
                by_kind.setdefault(cut.state.kind, []).append((total, rough, i))
        dropped: set[int] = set()
        for ranked in by_kind.values():
            orders = sorted(ranked), sorted(ranked, key=lambda each: each[1:])
            running = [(i for *_, i in order if cuts[i].estimate < math.inf) for order in orders]
            best = {i for numbers in running for i in islice(numbers, PROMISING)}
            dropped.update([i for *_, i in ranked if i not in best])
        return [cut for i, cut in enumerate(cuts) if i not in dropped or cut.is_priced]

    def _offers(self, eclass: int) -> list[Cut]:
        readable = eclass in self.flow or eclass in self.grammar.scalars
        read = [self.grammar.leaf(eclass)] if readable else []
        if eclass in self.grammar.free or eclass in self.grammar.scalars or self.grammar.allowance.spent():
            return read
        if eclass in self._offering:
            return self._offering[eclass]
        ranked, few = self.cuts.get(eclass, []), self.effort.offered
        unfinished = [cut for cut in ranked if cut.state.unfinished]  # cheap it is within a larger one
        within = sorted(unfinished, key=self._within)[:1]
        offers = read + ranked[:few] + [cut for cut in within if cut not in ranked[:few]]
        offers = self._offering[eclass] = [cut for cut in offers if self.grammar.takes(cut)]
        return offers

    def _within(self, cut: Cut) -> tuple[int, str]:
        """The rank of an unfinished cut: by the bytes that it reads, then by its product, which its readers share."""
        return sum(self.grammar.classes[c].type.nbytes for c in cut.leaves), repr(cut.state.products)

    def _keep(self, eclass: int, cuts: list[Cut]) -> bool:
        """The best of each kind, then the best by flow and by own price in turn; of those alike the first alone.

        Are they others than before, or is their flow another?
        """
        price = {c: c.estimate for c in cuts}
        totals = {c: own + sum(map(self.flow.__getitem__, c.reads)) for c, own in price.items()}
        by_flow = sorted(price, key=lambda c: (totals[c], price[c], len(c.leaves)))
        by_price = sorted(by_flow, key=price.__getitem__)
        kept: list[Cut] = []
        seen: set[tuple] = set()

        def take(cut: Cut) -> bool:
            mark = self._marks.get(cut)
            if mark is None:
                leaves = tuple(map(self._base.__getitem__, cut.leaves))
                mark = self._marks[cut] = (cut.state.kind, cut.state.space, leaves)
            if mark in seen or totals[cut] == math.inf:
                return False
            seen.add(mark)
            kept.append(cut)
            return True

        kinds: set[tuple[str, bool]] = set()
        unfinished = sorted((c for c in by_flow if c.state.unfinished), key=self._within)
        for cut in (*unfinished, *by_flow):
            kind = cut.state.kind, cut.state.unfinished
            if kind not in kinds and take(cut):
                kinds.add(kind)
        ranked = [iter(by_flow), iter(by_price)]
        while ranked and len(kept) < self.effort.cuts_kept:
            for ranking in list(ranked):
                if not any(take(c) for c in ranking):  # `any` stops at the first one taken
                    ranked.remove(ranking)
        before = self.cuts.get(eclass), self.flow.get(eclass)
        self.cuts[eclass] = sorted(kept, key=lambda c: totals[c])
        self.flow[eclass] = totals[self.cuts[eclass][0]] / max(1, self.references.get(eclass, 1))
        return before != (self.cuts[eclass], self.flow[eclass])


def least(cuts: Iterable[Cut], about: Callable[[Cut], float], total: Callable[[Cut], float]) -> Cut | None:
    """The one of `cuts` with the least `total`, if one runs. No schedule is made of those that cost more by what they
    are known to cost `about`."""
    best, cheapest = math.inf, None
    for roughly, _, cut in sorted([(about(cut), i, cut) for i, cut in enumerate(cuts)]):
        if roughly >= best:
            break
        seconds = total(cut)
        if seconds < best and cut.runs:
            best, cheapest = seconds, cut
    return cheapest


def _same(a: Cut, b: Cut) -> bool:
    return a.leaves == b.leaves and a.works == b.works


def _reshaped(grammar: Grammar) -> list[int]:
    """Of every class the first of those that hold the same elements in the same order."""
    base = list(range(len(grammar.classes)))

    def find(c: int) -> int:
        while base[c] != c:
            c = base[c]
        return c

    for eclass, class_ in enumerate(grammar.classes):
        for enode in class_.nodes:
            if enode.op == "reshape":
                first, second = sorted((find(eclass), find(enode.args[0])))
                base[second] = first
    return [find(c) for c in base]


def _leaf_up(grammar: Grammar) -> list[int]:
    """Classes in an order in which, for at least one node of each, the arguments come first."""
    classes = grammar.classes
    rank: dict[int, int] = dict.fromkeys([*grammar.free, *grammar.scalars], 0)
    nodes = [(i, n) for i, c in enumerate(classes) for n in c.nodes if n.args]
    missing = [len(set(n.args)) for _, n in nodes]
    waiting: dict[int, list[int]] = {}
    for index, (_, enode) in enumerate(nodes):
        for a in dict.fromkeys(enode.args):
            waiting.setdefault(a, []).append(index)
    queue = sorted(rank)
    while queue:
        later = []
        for a in queue:
            for index in waiting.get(a, ()):
                missing[index] -= 1
                i, enode = nodes[index]
                if missing[index] == 0 and i not in rank:
                    rank[i] = 1 + max(rank[x] for x in enode.args)
                    later.append(i)
        queue = sorted(later)
    computed = [i for i in rank if i not in grammar.free and i not in grammar.scalars]
    return sorted(computed, key=lambda i: (rank[i], i))
