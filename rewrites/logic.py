"""Laws of choices, comparisons and logic, of bools and of bit patterns.

In: nothing. Out: `LAWS`. Every comparison with a NaN but `!=` is false: the opposite of `<` is not `>=`.
"""

from __future__ import annotations

from eqfuse.dtypes import kind
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    apply,
    floating,
    guard,
    is_constant,
    over_complex,
    tensors,
)
from eqfuse.rewrites.language.words import (
    equal,
    function,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    where,
)

x, y, z, w, c, d, a, b = tensors("x y z w c d a b")

# what is worth one evaluation rather than two
COSTLY = ("exp", "log", "sqrt", "tanh", "sin", "cos", "erf", "expm1", "log1p")
OPPOSITE = {"less": "less_equal", "less_equal": "less"}  # of the two the other way round, where neither is NaN
MIRRORED = {"greater": "less", "greater_equal": "less_equal"}
CONNECTIVES = (("logical_and", "logical_or", "logical_not"), ("bitwise_and", "bitwise_or", "bitwise_invert"))
COMMUTATIVE_LOGIC = ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal",
               "not_equal")  # fmt: skip

whole = guard("x, y whole", lambda *types: all(kind(t.dtype) in "biu" for t in types), x, y)


def _laws_of_connectives(conjunction: str, disjunction: str, negation: str) -> list[Law]:
    """Boolean algebra. The type of a side declines what is true of bools alone."""
    meet, join, opposite = map(function, (conjunction, disjunction, negation))
    laws = []
    for name, other, f, g in ((conjunction, disjunction, meet, join), (disjunction, conjunction, join, meet)):
        laws += [
            Law(f"{name}_of_itself", f(x, x), x, exactness=EXACT),
            Law(f"{name}_twice", f(f(x, y), y), f(x, y), exactness=EXACT),
            Law(f"{name}_absorbs", f(x, g(x, y)), x, exactness=EXACT),
            Law(f"factor_of_{other}", g(f(x, y), f(x, z)), f(x, g(y, z)), exactness=EXACT),
            Law(f"{name}_of_negations", f(opposite(x), opposite(y)), opposite(g(x, y)), exactness=EXACT),
        ]
    return [*laws, Law(f"{negation}_twice", opposite(opposite(x)), x, exactness=EXACT)]


def _laws_of_order(op: str) -> list[Law]:
    """How `x op y` looks at negated values, and inverted. (`ranges` has negations.)"""
    f = function(op)
    return [
        Law(f"{op}_of_negatives", f(-x, -y), f(y, x), (floating(x),), EXACT),
        Law(f"inverted_{op}", apply("bitwise_invert", f(x, y)), function(OPPOSITE[op])(y, x), (whole,), EXACT),
    ]


def _laws_of_difference(op: str) -> list[Law]:
    """What is compared with zero. Undefined of two infinities."""
    f = function(op)
    return [
        Law(f"{op}_of_difference", f(x - y, 0.0), f(x, y), (floating(x),), REASSOCIATES),
        Law(f"{op}_of_difference_right", f(0.0, x - y), f(y, x), (floating(x),), REASSOCIATES),
    ]


def _laws_of_bounds(conjunction: str) -> list[Law]:
    """Two bounds of one value are one bound, and one bound of two values is a bound of the worse. A NaN is in none."""
    meet = function(conjunction)
    return [
        Law(f"{conjunction}_of_lower_closed_bounds", meet(a <= x, b <= x), maximum(a, b) <= x,
            (is_constant(a, b),), EXACT),
        Law(f"{conjunction}_of_upper_closed_bounds", meet(x <= a, x <= b), x <= minimum(a, b),
            (is_constant(a, b),), EXACT),
        Law(f"{conjunction}_above_one_bound", meet(z < x, z < y), z < minimum(x, y), exactness=EXACT),
        Law(f"{conjunction}_below_one_bound", meet(x < z, y < z), maximum(x, y) < z, exactness=EXACT),
    ]


def _laws_of_choice(op: str) -> list[Law]:
    """What both branches of a choice do alike is done once, after it."""
    f = function(op)
    return [
        Law(f"where_of_{op}", where(c, f(x, z), f(y, z)), f(where(c, x, y), z), exactness=EXACT),
        Law(f"where_of_{op}_right", where(c, f(z, x), f(z, y)), f(z, where(c, x, y)), exactness=EXACT),
    ]


_OF_ALL = [
    *(Law(f"{op}_commutes", apply(op, x, y), apply(op, y, x), exactness=EXACT)
      for op in COMMUTATIVE_LOGIC if not op.startswith("bitwise")),
    # choices
    Law("where_same", where(c, x, x), x, exactness=EXACT),
    Law("where_not", where(logical_not(c), x, y), where(c, y, x), exactness=EXACT),
    Law("where_inverted", where(apply("bitwise_invert", c), x, y), where(c, y, x), exactness=EXACT),
    Law("where_again_true", where(c, where(c, x, y), z), where(c, x, z), exactness=EXACT),
    Law("where_again_false", where(c, x, where(c, y, z)), where(c, x, z), exactness=EXACT),
    Law("where_either", where(c, x, where(d, x, y)), where(logical_or(c, d), x, y), exactness=EXACT),
    Law("where_both", where(c, where(d, x, y), y), where(logical_and(c, d), x, y), exactness=EXACT),
    Law("where_of_sums", where(c, x + z, y + z), where(c, x, y) + z, exactness=EXACT),
    Law("where_of_products", where(c, x * z, y * z), where(c, x, y) * z, exactness=EXACT),
    *(law for op in ("subtract", "divide") for law in _laws_of_choice(op)),
    *(Law(f"where_of_{f}", where(c, function(f)(x), function(f)(y)), function(f)(where(c, x, y)), exactness=EXACT)
      for f in COSTLY),
    Law("where_scaled", where(c, x, x * z), x * where(c, 1.0, z), exactness=EXACT),
    Law("where_of_sums_by_one_condition", where(c, x, y) + where(c, z, w), where(c, x + z, y + w), exactness=EXACT),
    Law("where_of_products_by_one_condition", where(c, x, y) * where(c, z, w), where(c, x * z, y * w),
        exactness=EXACT),
    # comparisons
    *(Law(f"{op}_is_{other}", apply(op, x, y), apply(other, y, x), exactness=EXACT) for op, other in MIRRORED.items()),
    Law("not_of_equal", logical_not(equal(x, y)), not_equal(x, y), exactness=EXACT),
    Law("not_of_not_equal", logical_not(not_equal(x, y)), equal(x, y), exactness=EXACT),
    Law("inverted_equal", apply("bitwise_invert", equal(x, y)), not_equal(x, y), exactness=EXACT),
    Law("inverted_not_equal", apply("bitwise_invert", not_equal(x, y)), equal(x, y), exactness=EXACT),
    Law("equal_of_abs", equal(abs(x), 0.0), equal(x, 0.0), exactness=EXACT),
    # what a number is
    Law("neither_nan_nor_infinite", logical_or(isnan(x), isinf(x)), logical_not(isfinite(x)), exactness=EXACT),
    *(Law(f"{f}_of_negative", apply(f, -x), apply(f, x), exactness=EXACT) for f in ("isnan", "isinf", "isfinite")),
]  # fmt: skip

_OF_REALS = [
    *(Law(f"{op}_commutes", apply(op, x, y), apply(op, y, x), exactness=EXACT)
      for op in COMMUTATIVE_LOGIC if op.startswith("bitwise")),
    # logic
    *(law for names in CONNECTIVES for law in _laws_of_connectives(*names)),
    Law("xor_of_itself_undone", apply("bitwise_xor", apply("bitwise_xor", x, y), y), x, exactness=EXACT),
    Law("logical_xor_undone", apply("logical_xor", apply("logical_xor", x, y), y), x, exactness=EXACT),
    # what a number is
    Law("differs_from_itself", not_equal(x, x), isnan(x), exactness=EXACT),
    Law("equals_itself", equal(x, x), logical_not(isnan(x)), exactness=EXACT),
    *(Law(f"{f}_of_abs", apply(f, abs(x)), apply(f, x), exactness=EXACT) for f in ("isnan", "isinf", "isfinite")),
    # choices by order
    Law("where_less", where(x < y, x, y), minimum(x, y), exactness=APPROXIMATE),
    Law("where_less_other", where(x < y, y, x), maximum(x, y), exactness=APPROXIMATE),
    Law("where_equal", where(equal(x, y), x, y), y, exactness=REASSOCIATES),  # 0 == -0
    Law("where_not_equal", where(not_equal(x, y), x, y), x, exactness=REASSOCIATES),
    # of a NaN the other branch
    Law("where_turned", where(x < y, z, w), where(y <= x, w, z), exactness=APPROXIMATE),
    Law("where_not_turned", where(x <= y, z, w), where(y < x, w, z), exactness=APPROXIMATE),
    Law("where_positive", where(less(0.0, x), x, -x), abs(x), exactness=REASSOCIATES),
    Law("where_not_negative", where(less_equal(0.0, x), x, -x), abs(x), exactness=REASSOCIATES),
    Law("where_negative", where(x < 0.0, -x, x), abs(x), exactness=REASSOCIATES),
    # comparisons
    *(law for op in OPPOSITE for law in _laws_of_order(op)),
    *(law for op in OPPOSITE for law in _laws_of_difference(op)),
    *(Law(f"{op}_of_difference", apply(op, x - y, 0.0), apply(op, x, y), exactness=REASSOCIATES)
      for op in ("equal", "not_equal")),
    Law("less_or_equal", logical_or(x < y, equal(x, y)), x <= y, exactness=EXACT),
    *(law for op in ("logical_and", "bitwise_and") for law in _laws_of_bounds(op)),
]  # fmt: skip

# complex numbers have no order that arithmetic respects
LAWS = [*over_complex(_OF_ALL, EXACT, where_scaled=REASSOCIATES), *_OF_REALS]
