"""The laws of a customary algebraic simplifier, by name, in the order in which such a pass applies them.

In: nothing. Out: `PASS`, which the greedy plans "+algebra" apply one by one, and `SIMPLIFIER`, to which a search is
limited when it runs out of time: none of them makes programs grow.
"""

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
    "known_factor_meets_divisor", "times_rounded_reciprocal", "rounded_factors_meet",
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
SIMPLIFIER = frozenset(name.removesuffix("~") for name in PASS)
