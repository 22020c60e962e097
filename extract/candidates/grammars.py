"""Smaller grammars: what one kernel may hold in other systems, and where nothing is fused.

In: a `Grammar`. Out: fewer of its `Cut`s, priced alike.
"""

from __future__ import annotations

from eqfuse.egraph.space import ENode
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.ops import Role


class _Restriction(Grammar):
    """A grammar that refuses some of what another makes."""

    def __init__(self, grammar: Grammar) -> None:
        vars(self).update(vars(grammar))  # joins made once serve both
        self._once, self._inlined, self._reading = {}, {}, {}


class OneReduction(_Restriction):
    """Kernels with one level of reductions or one product, and pointwise work around it.

    What a reduction gives may be finished in its own shape; what reads it at full size is another kernel. A product
    takes no prologue, and no reduction follows it in its kernel. So do XLA (priority_fusion.cc: no reduction of a
    reduction, none that its consumer would turn into a loop), TVM (fuse_ops.cc: a reduction never takes in its
    consumer), Bohrium (nothing reads a sweep's output in the same block) and tinygrad (a REDUCE that feeds a broadcast
    is realised).
    """

    def join(self, eclass: int, enode: ENode, parts: tuple[Cut, ...]) -> Cut | str:
        cut = super().join(eclass, enode, parts)
        if isinstance(cut, str):
            return cut
        state = cut.state
        if enode.row.role is Role.SCAN:
            return cut if all(p.state.at_leaf for p in parts) else "a scan is a kernel of its own here"
        if state.template.has_levels or (state.products and state.axes):
            return "a kernel has one level of reductions here"
        if enode.row.role is Role.CONTRACTION and not all(p.state.at_leaf for p in parts):
            return "the operands of a product are stored here"
        return cut


class OneOperator(_Restriction):
    """Kernels of one operator; views of what they read cost nothing."""

    def takes(self, cut: Cut) -> bool:
        return cut.state.at_leaf

    def join(self, eclass: int, enode: ENode, parts: tuple[Cut, ...]) -> Cut | str:
        if not all(map(self.takes, parts)):
            return "a kernel has one operator here"
        return super().join(eclass, enode, parts)
