"""Branches: what a map or a reduction computes only for elements that ask for it, as each choice asks for one value.

In: the form of a body, and its nest. Out: its `Branch`es. Next stop: `branch_lines.py`.
`np.where(m, f(x), g(x))` and `y[m] = f(x[m])` ask for `f` where `m` is true. Loops look, a block of elements after
another, which ask: where many do, all are computed, as without branches; where few do, they are computed side by side;
where none does, nothing is. Each value has the same bits. A kernel is priced as if all asked: nobody knows how many do.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Nest
from eqfuse.emit.c.passes import Branch, is_load, is_scan, needed
from eqfuse.emit.c.rates import additions, worked_on
from eqfuse.emit.choices import Conditions, asked_for, in_order
from eqfuse.ir.graph import Node

LANES = 256  # elements of a block
MOST_BRANCHES = 4  # of a kernel: each has loops of its own
# In additions of float32, fitted to where maps of a million elements, of which some ask at random, take as long one way
# as the other, on a Zen 5; processors foresee the branches of shorter ones that run again and again.
LOOKED = 2  # of an element that is asked, beside its conditions
SELDOM, OFTEN = 13, 40  # of one of a block of which `RARE` at most ask, and more: places are found, values read again
RARE = LANES // 64
LANE = 20  # of an element that is computed alone
LANE_READ = 20  # more for each array that it reads
APART = 10  # of an element of which another branch is computed, too: it is stored, and read again
LOOK_SHARE = 1 / 6  # of the work of a branch that it may cost to look, at most
LEAST_GAIN = 1e-6  # seconds of a branch for all elements, at least: its loops take a compiler longer


def with_branches(form: Form, nest: Nest, device: Device) -> Form:
    """`form` with those of its branches that are dear, if one loop computes all that differs by element."""
    if nest.inside or nest.by_columns or form.strips or form.gathered or not form.passes:
        return form
    first, *later = form.passes
    again = any(nest.vector in form.varying[n] for p in later for n in p.nodes) or first.held
    if again or any(is_scan(n) for n in form.body.nodes):
        return form
    return replace(form, branches=tuple(_Choices(form, nest, device).branches()))


class _Choices:
    """`asked`: the conditions under which each value is asked for."""

    def __init__(self, form: Form, nest: Nest, device: Device) -> None:
        self.form, self.nest, self.device = form, nest, device
        self.asked = asked_for(form.body, {n for n, along in form.varying.items() if nest.vector in along})

    def branches(self) -> list[Branch]:
        """The dear ones; what is asked for under more conditions than another's is part of that."""
        chosen: dict[Conditions, Branch] = {}
        looked: set[Node] = set()  # what is computed to see who asks for those
        for conditions in sorted(dict.fromkeys(self.asked.values()), key=len):
            if conditions and not any(conditions > other for other in chosen) and len(chosen) < MOST_BRANCHES:
                cost = self._cost([n for n, asked in self.asked.items() if asked == conditions])
                brief = cost * self.nest.elements < LEAST_GAIN
                if brief or cost * LOOK_SHARE < self._look(conditions, looked):
                    continue
                chosen[conditions] = self._branch(conditions)
                looked.update(needed(self.form.body, [n for n, _ in conditions], looked)[0])
        return list(chosen.values())

    def _branch(self, conditions: Conditions) -> Branch:
        body = self.form.body
        inside = {n for n, asked in self.asked.items() if asked >= conditions and not is_load(n)}
        read = inside.intersection(a for n in body.nodes if n not in inside for a in n.args)
        results = tuple(n for n in body.nodes if n in read)
        nodes, _ = needed(body, results, set())
        unit, cost = self._additions(1), self._cost(inside)
        lane = self._cost(nodes) / unit + LANE + LANE_READ * sum(n in self.form.arrays for n in nodes)
        few = max(RARE, int(LANES * (cost / unit - OFTEN) / lane))
        return Branch(in_order(conditions, body), results, nodes, few, int(LANES * (cost / unit - SELDOM)), int(lane))

    def _look(self, conditions: Conditions, looked: Set[Node]) -> float:
        """What it costs more for an element to look whether it asks than what is `looked` at."""
        nodes, _ = needed(self.form.body, [n for n, _ in conditions], looked)
        loads = sum(n.dtype.itemsize / 4 for n in nodes if n in self.form.arrays)
        return self._cost(nodes) + self._additions(LOOKED + loads)

    def _cost(self, nodes: Iterable[Node]) -> float:
        """Seconds of a thread to compute an element of each."""
        varying, seconds = self.form.varying, 0.0
        for n in nodes:
            if not is_load(n) and self.nest.vector in varying[n]:
                times, base = additions(n.op, worked_on(n), not varying[n.args[-1]])
                seconds += times * self.device.threads / self.device.scalar_rate(base)
        return seconds

    def _additions(self, count: float) -> float:
        return count * self.device.threads / self.device.scalar_rate("float32")
