"""The algebraic pass of other systems: laws of the book in a fixed order, each wherever it matches, never undone.

In: a saturated `Segment`. Out: the same with another `graph`, which the e-graph has found equal; fusers then fuse that.
Last, XLA's DotMerger: products of one operand become one, if they are independent and small.
Common subexpressions are one node already, and constants are folded when the program is built. Next stop: `greedy`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eqfuse.egraph.proof import Steps
from eqfuse.egraph.space import Segment
from eqfuse.extract.programs.as_written import rewritten
from eqfuse.extract.programs.replacement import Written, replaceable, replaced, replacements
from eqfuse.ir.graph import Node
from eqfuse.rewrites.procedures.side_by_side import PARTS, parts

SWEEPS = 25  # over the whole list; hlo_pass_fix.h stops there too
PASS = (
    # no-ops: XLA's algebraic_simplifier.cc (A*1, A+0, A/1, pow(A, 1) => A, -(-A) => A); Inductor's joint_graph.py
    # (remove_no_ops); ONNX Runtime's NoopElimination, CastElimination, CastChainElimination
    "times_one", "over_one", "minus_zero", "plus_zero", "plus_minus_zero", "negative_of_negative", "power_one",
    "cast_to_own_dtype", "cast_of_widened", "maximum_of_itself", "minimum_of_itself", "where_same",
    # views cancel and compose: algebraic_simplifier.cc (HandleTranspose, HandleReshape, HandleSlice, HandleBroadcast,
    # HandleReverse); Inductor's pointless_view, pointless_permute_pair; ONNX Runtime's ReshapeFusion, EliminateSlice
    "transpose_of_transpose", "transpose_identity", "reshape_of_reshape", "reshape_identity",
    "broadcast_of_broadcast", "broadcast_identity", "slice_of_slice", "slice_identity", "flip_of_flip",
    "slice_of_broadcast", "slice_of_transpose",
    # signs, powers, quotients: algebraic_simplifier.cc (HandleSubtract, HandlePower, HandleDivide, HandleMultiply,
    # HandleLog, HandleSqrt)
    "plus_negative", "minus_negative", "times_minus_one", "negatives_in_product", "power_two", "power_three",
    "power_half", "power_minus_one", "power_minus_half", "times_reciprocal", "quotient_of_quotient",
    "over_quotient", "product_of_exp", "log_of_exp", "log_of_power",
    # constants meet: algebraic_simplifier.cc ((A*C1)*C2, (A+C1)+C2, A-C => A+(-C), A/C => A*(1/C))
    "subtract_known", "divide_by_known", "known_factors_meet", "known_divisors_meet", "known_terms_meet",
    "known_factor_meets_divisor", "times_rounded_reciprocal", "rounded_factors_meet", "rounded_divisors_meet",
    "rounded_factor_meets_divisor",
    # reductions: algebraic_simplifier.cc (HandleReduce: of one element, of a reduction)
    "sum_over_one", "max_over_one", "min_over_one", "prod_over_one", "sum_of_sum", "max_of_max", "min_of_min",
    "prod_of_prod",
    # scales into weights: ONNX Runtime's ConvMulFusion, ConvBNFusion, MatmulBNFusion; Inductor's binary_folding.py and
    # efficient_conv_bn_eval.py
    "known_scale_of_shifted_conv", "known_divisor_of_shifted_conv", "channel_scale_into_conv",
    "channel_divisor_into_conv", "known_scale_of_shifted_product", "known_divisor_of_shifted_product",
    "column_scale_through~", "known_shifts_of_conv_meet", "known_shifts_of_conv_meet_in_difference",
    "known_shifts_of_product_meet", "known_shifts_of_product_meet_in_difference",
    # products: algebraic_simplifier.cc (AssociativeReorderNestedDot, where it saves flops), Inductor's
    # reassociate_matmul.py, ONNX Runtime's MatmulTransposeFusion. A~ is A read from right to left.
    "transpose_of_product", "associate_products", "associate_products~",
)
_NAMES = frozenset(name.removesuffix("~") for name in PASS)
MERGED = 32 << 20  # bytes of a product that XLA's DotMerger merges with others of one operand (its default)


def simplified(segment: Segment) -> Segment:
    """`segment` with its program rewritten by the laws of `PASS` that were admitted when it was saturated, and then
    with products that share an operand merged.

    A step that the e-graph does not find equal, because its budget ended before, is not taken.
    """
    laws = {law.name: law for law in segment.laws if law.name in _NAMES and replaceable(law)}
    chosen = [(law, name.endswith("~")) for name in PASS if (law := laws.get(name.removesuffix("~"))) is not None]
    if not chosen:
        return segment
    commutes = {law.name.removesuffix("_commutes") for law in segment.laws if law.name.endswith("_commutes")}
    program = _Program(segment)
    for _ in range(SWEEPS):
        before = program.written
        for law, backwards in chosen:
            found = replacements(program.written, law, commutes, backwards)
            program.take(found, {law.name, *(f"{op}_commutes" for op in commutes)})
        if program.written is before:
            break
    merged: dict[Node, Node] = {}
    for group in parts(program.written.graph.nodes, program.written.constants):
        if merged.keys().isdisjoint(group) and all(_bytes(n) <= MERGED for n in group):
            merged |= group
    program.take(merged, PARTS)
    graph = program.written.graph
    return segment if graph is segment.graph else rewritten(segment, graph)


class _Program:
    """A program that is rewritten step by step."""

    def __init__(self, segment: Segment) -> None:
        self.written = Written(segment.graph)
        self._segment = segment
        self._steps: Steps | None = None

    def take(self, found: Mapping[Node, Node], by: Collection[str]) -> None:
        """Replace nodes by what was `found` for them, where the laws `by` hold it equal."""
        if not found:
            return
        self._steps = self._steps or Steps(self._segment)
        held = self._steps.hold(list(found.items()), by)
        taken = {old: made for (old, made), holds in zip(found.items(), held, strict=True) if holds}
        if taken:
            graph, new = replaced(self.written.graph, taken)
            self._steps.take(new)
            self.written = Written(graph)


def _bytes(n: Node) -> int:
    return n.type.nbytes + sum(a.type.nbytes for a in n.args)
