"""Cuts: candidate kernels, as derivations over the classes of a saturated segment.

A cut computes one class from leaves in memory. It is a derivation (a tree of joins with sharing), so different nodes
of one class may stand in it without harm, and a leaf that is read stays read even where the same value is computed.
Made by `grammar.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.egraph.space import ENode
from eqfuse.extract.candidates.prices import Prices
from eqfuse.extract.candidates.work import Works
from eqfuse.ir.graph import Node
from eqfuse.kinds import State
from eqfuse.kinds.map import stored_state


@dataclass(eq=False, slots=True)
class Cut:
    """A candidate kernel for class `eclass`: `enode` applied to the values of `parts`; a leaf when `enode` is None.

    A view of a leaf is priced as the copy it is when another kernel reads it from memory; most readers take it in.
    `leaves` maps each class read from memory to the bytes read of it, and `reads` are those of them that a kernel has
    to compute; `works` are the operators that run, `inside` the classes computed and `outside` those read (a bit each).
    Never changed once made.
    """

    eclass: int
    enode: ENode | None
    parts: tuple[Cut, ...]
    state: State
    leaves: dict[int, int]
    reads: tuple[int, ...]
    works: Works
    inside: int
    outside: int
    size: int  # operators that run
    depth: int  # operators in a chain
    prices: Prices
    moved: tuple[int, int, Work] | None = field(default=None, init=False)  # what `Prices` noted of a kernel of it alone
    _stored: State | None = field(default=None, init=False)
    _price: Price | None = field(default=None, init=False)
    _estimate: float | None = field(default=None, init=False)
    _rough: float | None = field(default=None, init=False)  # negative where there is none
    _node: Node | None = field(default=None, init=False)

    @property
    def price(self) -> Price:
        """Found when it is asked for: most cuts are steps on the way to a larger one."""
        if self._price is None:
            self._price = self.prices.kernel((self,), self.stored, self.leaves)
        return self._price

    @property
    def estimate(self) -> float:
        """About its price in seconds: what is found without its schedule; infinite where it is known to have none."""
        if self._price is not None and self._price.seconds == math.inf:
            return math.inf
        if self._estimate is None:
            estimate = self.prices.estimate((self,), self.stored, self.leaves)
            self._estimate = self.price.seconds if estimate is None else estimate
        return self._estimate

    @property
    def rough(self) -> float | None:
        """About its price in seconds, by its state, where its estimate is the price of its schedule; or None."""
        if self._rough is None:
            rough = self.prices.rough((self,), self.stored, self.leaves)
            self._rough = -1.0 if rough is None else rough
        return None if self._rough < 0 else self._rough

    @property
    def about(self) -> float:
        """Its cost, or what is known of it as long as its schedule has not been made."""
        if self.is_priced:
            return self.cost
        return self.estimate if self.rough is None else self.rough

    @property
    def is_priced(self) -> bool:
        return self._price is not None

    @property
    def seconds(self) -> float:
        """Its price, or an estimate where that is as good."""
        return self.estimate if self.prices.is_near(self.state) else self.price.seconds

    @property
    def cost(self) -> float:
        """What a cover pays for it, at this stage of the search."""
        return self.estimate if self.prices.goes_by_estimates else self.price.seconds

    @property
    def runs(self) -> bool:
        """Is there such a kernel on the device? Where that is taken on trust, as far as is known."""
        return (self.about if self.prices.has_schedule(self.state) else self.price.seconds) < math.inf

    @property
    def node(self) -> Node:
        """What it computes, over the classes that it reads."""
        stack = [self]
        while self._node is None:
            cut = stack.pop()
            missing = [p for p in cut.parts if p._node is None]
            if missing:
                stack += [cut, *missing]
            else:
                cut._node = cut.prices.node(cut.eclass, cut.enode, [p.node for p in cut.parts])
        return self._node

    @property
    def stored(self) -> State:
        """The state of the kernel that computes this alone: a view that is stored is a copy."""
        if self._stored is None:
            self._stored = stored_state(self.state)
        return self._stored

    def computes(self, eclass: int) -> bool:
        """Is class `eclass` computed inside, or the result?"""
        return bool(self.inside >> eclass & 1)

    def __repr__(self) -> str:
        reads = ", ".join(map(str, sorted(self.leaves)))
        return f"<{self.state.kind} {self.eclass} <- {reads or 'nothing'}, {self.price.seconds * 1e6:.2f} us>"


def below(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """Every cut in the derivations of `cuts`, parts first, each once."""
    done: set[int] = set()
    stack = [(c, False) for c in reversed(list(cuts))]
    while stack:
        cut, ready = stack.pop()
        if id(cut) in done:
            continue
        if ready:
            done.add(id(cut))
            yield cut
        else:
            stack.append((cut, True))
            stack.extend((p, False) for p in reversed(cut.parts) if id(p) not in done)
