"""Columns: the kernels among which `exact` chooses, and how more of several outputs are found when they would pay.

In: `Candidates` and the covers that the search met. Out: `Column`s. The candidates of every class and the kernels of
every cover are there from the start. Kernels of several outputs are too many to list, so they are made as they are
asked for: the linear relaxation puts a price on every class that is stored and on every read, and a kernel that costs
less than what it stores is worth, less what it reads, joins the columns (column generation, after Gilmore and Gomory).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eqfuse.cost.price import Price
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.covers.cover import Cover, Group, alone
from eqfuse.extract.moves.merge import merged_group
from eqfuse.extract.solver.binary import BinaryProgram, relaxed

SEEDS = 2  # kernels of one output, of each class, that are grown
OFFERED = 4  # candidates of a class by which kernels grow
RELAXATIONS = 40  # of relaxing and growing
PAIR_SECONDS = 1e-4  # what it takes to make a kernel of two: work is counted, not timed
OPERATOR_SECONDS = 5e-7  # and more for each of its operators


@dataclass(frozen=True)
class Column:
    """A kernel that may be chosen. `alias`: its output is a view that is a result, which nothing else reads."""

    group: Group
    seconds: float
    alias: bool = False


class Columns:
    """Kernels without repeats, in the order they were found, and the rows that bind them."""

    def __init__(self, candidates: Candidates, covers: Iterable[Cover], roots: Sequence[int]) -> None:
        self.candidates = candidates
        self.grammar = candidates.grammar
        self.roots = roots
        self.columns: dict[tuple, Column] = {}
        for eclass, cuts in sorted(candidates.cuts.items()):
            for cut in cuts:
                if eclass in roots and cut.state.is_view:
                    alias = Group((cut,), cut.state, cut.leaves, Price(0.0, 0, 0, 0, "memory"))
                    self.columns[mark(alias)] = Column(alias, 0.0, alias=True)
                self.add(alone(cut))
        for cover in covers:
            for met in cover.groups if cover.grammar is self.grammar else ():
                self.add(met if len(met.cuts) > 1 else alone(met.cuts[0]))

    def add(self, kernel: Group) -> bool:
        """Is the kernel new?"""
        kernel = kernel.by_schedule(self.grammar)
        present = mark(kernel) in self.columns
        if not present and kernel.price.seconds < math.inf:
            self.columns[mark(kernel)] = Column(kernel, kernel.price.seconds)
        return not present

    def places(self, groups: Iterable[Group]) -> list[int]:
        """The numbers of the columns for these kernels, of those that have one."""
        place = {key: i for i, key in enumerate(self.columns)}
        return [place[mark(g)] for g in groups if mark(g) in place]

    @property
    def all(self) -> list[Column]:
        return list(self.columns.values())

    def program(self) -> tuple[BinaryProgram, list[tuple[int | None, int]]]:
        """A root is computed; a class that a chosen kernel reads is computed, and stored. With each row: the class that
        reads, None for a result of the program, and the class that must be there."""
        columns = self.all
        program = BinaryProgram([c.seconds for c in columns])
        names: list[tuple[int | None, int]] = []
        stores: dict[int, list[int]] = {}
        results: dict[int, list[int]] = {}
        reads: dict[tuple[int, int], list[int]] = {}
        for i, c in enumerate(columns):
            for eclass in c.group.outputs:
                results.setdefault(eclass, []).append(i)
                if not c.alias:
                    stores.setdefault(eclass, []).append(i)
                for leaf in c.group.leaves:
                    if leaf not in self.grammar.free:
                        reads.setdefault((eclass, leaf), []).append(i)
        for eclass in self.roots:
            program.rows.append((dict.fromkeys(results[eclass], 1), 1, math.inf))
            names.append((None, eclass))
        for (eclass, leaf), users in reads.items():
            row = dict.fromkeys(stores.get(leaf, ()), 1)
            for i in users:
                row[i] = row.get(i, 0) - 1
            program.rows.append((row, 0, math.inf))
            names.append((eclass, leaf))
        return program, names

    def grow(self, seconds: float) -> float:
        """Add kernels of several outputs until none pays, for about so many seconds. Returns seconds spent."""
        spent = 0.0
        for _ in range(RELAXATIONS):
            program, names = self.program()
            solution = relaxed(program, seconds - spent)
            spent += solution.spent
            if solution.prices is None:
                return seconds
            prices = {name: p for name, p in zip(names, solution.prices, strict=True) if p > 0}
            before = len(self.columns)
            spent += self._grown(prices, seconds - spent)
            if len(self.columns) == before or spent >= seconds:
                break
        return spent

    def _grown(self, prices: dict[tuple[int | None, int], float], seconds: float) -> float:
        """Grow kernels from the best of every class by what adds most to their profit. Returns seconds spent."""
        worth: dict[int, float] = {}
        for (_, eclass), p in prices.items():
            worth[eclass] = worth.get(eclass, 0.0) + p

        def profit(g: Group) -> float:
            paid = sum(prices.get((eclass, leaf), 0.0) for eclass in g.outputs for leaf in g.leaves)
            return sum(worth.get(eclass, 0.0) for eclass in g.outputs) - g.price.seconds - paid

        offered: dict[int, list[Group]] = {}
        near: dict[int, dict[int, None]] = {}  # classes whose kernels read each class
        for eclass in sorted(worth):
            cuts = self.candidates.cuts.get(eclass, ())
            singles = sorted((alone(c) for c in cuts if not c.state.is_view), key=profit)
            offered[eclass] = singles[: -OFFERED - 1 : -1]
            for g in offered[eclass]:
                for leaf in g.leaves:
                    near.setdefault(leaf, {})[eclass] = None
        work = 0.0
        for singles in offered.values():
            for seed in singles[:SEEDS]:
                g, gain = seed, profit(seed)
                grown: Group | None = seed
                while grown is not None and work < seconds:
                    grown = None
                    around = {o for leaf in g.leaves for o in near.get(leaf, ())}
                    around |= {o for out in g.outputs for o in near.get(out, ())} | g.leaves.keys() & offered.keys()
                    for other in [one for o in sorted(around - set(g.outputs)) for one in offered[o]]:
                        if g.state.space != other.state.space:
                            continue
                        work += PAIR_SECONDS + OPERATOR_SECONDS * sum(c.size for c in (*g.cuts, *other.cuts))
                        for joined in self._joined(g, other):
                            value = profit(joined)
                            if value > gain:
                                gain, grown = value, joined
                    if grown is not None:
                        g = grown
                        if gain > 0:
                            self.add(g)
        return work

    def _joined(self, g: Group, other: Group) -> list[Group]:
        """The kernel of both, and the one that keeps what only the other reads to itself."""
        if any(eclass in g.leaves for eclass in other.outputs):
            g, other = other, g
        kept = [g.cuts]
        if any(eclass in other.leaves for eclass in g.outputs):
            kept.append(tuple(c for c in g.cuts if c.eclass not in other.leaves))
        kernels = [self.grammar.once(merged_group, g.cuts, other.cuts, k) for k in kept]
        return [m for m in kernels if m is not None and m.price.seconds < math.inf]


def mark(g: Group) -> tuple:
    """What makes two kernels the same column: what they store and read, and their price; a view may be an alias."""
    return (tuple(sorted(g.outputs)), tuple(sorted(g.leaves)), g.price.seconds, g.state.is_view)
