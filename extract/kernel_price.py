"""The price of a kernel that was not chosen by a search: one of a plan for other sizes, or of a program as written.

In: a kernel's body and a device. Out: its state and `Price`, which are those of the search.
"""

from __future__ import annotations

from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.egraph.space import ENode, as_written
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Group
from eqfuse.extract.moves.merge import group
from eqfuse.ir.graph import Graph
from eqfuse.kinds import State


def priced(body: Graph, device: Device, kind: str = "") -> tuple[State, Price] | str:
    """The state and the price of a kernel that computes `body`, or why there is no such kernel. `kind`: one that holds
    values of any spaces, where it is to be of that.

    A body that is no more than a view is priced as the copy it becomes where its result is stored.
    """
    grammar = Grammar(as_written(body), device)
    kernel = _kernel(grammar)
    if isinstance(kernel, str):
        return kernel
    if kind:
        kernel = Group(kernel.cuts, replace(kernel.state, kind=kind), kernel.leaves)
        return kernel.state, kernel.price
    return _state(kernel), kernel.by_schedule(grammar).price


def estimated(body: Graph, device: Device) -> Price | str:
    """What the search takes for the price of a kernel that computes `body`, or why there is no such kernel."""
    kernel = _kernel(Grammar(as_written(body), device))
    return kernel if isinstance(kernel, str) else kernel.price


def _kernel(grammar: Grammar) -> Group | str:
    """The kernel that computes all results of the program."""
    cuts: list[Cut] = []
    for eclass, class_ in enumerate(grammar.classes):
        (enode,) = class_.nodes
        cut = _join(grammar, eclass, enode, cuts)
        if isinstance(cut, str):
            return cut
        cuts.append(cut)
    whole = group(grammar, tuple(cuts[r] for r in grammar.segment.roots))
    return "its results do not share a kernel" if whole is None else whole


def _state(kernel: Group) -> State:
    """Its state; that of a view is that of the value, and not of the copy."""
    return kernel.cuts[0].state if len(kernel.cuts) == 1 else kernel.state


def _join(grammar: Grammar, eclass: int, enode: ENode, cuts: list[Cut]) -> Cut | str:
    if enode.op in ("input", "const"):
        return grammar.leaf(eclass)
    return grammar.join(eclass, enode, tuple(cuts[a] for a in enode.args))
