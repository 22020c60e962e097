"""The algebraic pass of other systems: laws of the book in a fixed order, each wherever it matches, never undone.

In: a saturated `Segment`. Out: the same with another `graph`, which the e-graph has found equal; fusers then fuse that.
Common subexpressions are one node already, and constants are folded when the program is built. Next stop: `greedy`.
"""

from __future__ import annotations

from eqfuse.extract.plain import rewritten
from eqfuse.proof import Steps
from eqfuse.rewrites.replacement import Written, replaceable, replaced, replacements
from eqfuse.space import Segment

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
    "subtract_known", "divide_by_known", "known_factors_meet", "known_terms_meet", "known_factor_meets_divisor",
    # reductions: algebraic_simplifier.cc (HandleReduce: of one element, of a reduction)
    "sum_over_one", "max_over_one", "min_over_one", "prod_over_one", "sum_of_sum", "max_of_max", "min_of_min",
    "prod_of_prod",
    # scales into weights: ONNX Runtime's ConvMulFusion, ConvBNFusion, MatmulBNFusion; Inductor's binary_folding.py and
    # efficient_conv_bn_eval.py
    "known_scale_of_shifted_conv", "channel_scale_into_conv", "known_scale_of_shifted_product",
    "column_scale_through~",
    # products: algebraic_simplifier.cc (AssociativeReorderNestedDot, where it saves flops), Inductor's
    # reassociate_matmul.py, ONNX Runtime's MatmulTransposeFusion. A~ is A read from right to left.
    "transpose_of_product", "associate_products", "associate_products~",
)
_NAMES = frozenset(name.removesuffix("~") for name in PASS)


def simplified(segment: Segment) -> Segment:
    """`segment` with its program rewritten by the laws of `PASS` that were admitted when it was saturated.

    A step that the e-graph does not find equal, because its budget ended before, is not taken.
    """
    laws = {law.name: law for law in segment.laws if law.name in _NAMES and replaceable(law)}
    chosen = [(law, name.endswith("~")) for name in PASS if (law := laws.get(name.removesuffix("~"))) is not None]
    if not chosen:
        return segment
    commutes = {law.name.removesuffix("_commutes") for law in segment.laws if law.name.endswith("_commutes")}
    steps: Steps | None = None
    written = Written(segment.graph)
    for _ in range(SWEEPS):
        before = written
        for law, backwards in chosen:
            found = list(replacements(written, law, commutes, backwards).items())
            if not found:
                continue
            steps = steps or Steps(segment)
            held = steps.hold(found, by={law.name, *(f"{op}_commutes" for op in commutes)})
            taken = {old: made for (old, made), holds in zip(found, held, strict=True) if holds}
            if taken:
                graph, new = replaced(written.graph, taken)
                steps.take(new)
                written = Written(graph)
        if written is before:
            break
    return segment if written.graph is segment.graph else rewritten(segment, written.graph)
