"""Laws that are ill-formed: refused where they are written, at the user's own line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import eqfuse as ef
from eqfuse.rewrites import EXACT, Law, attrs, computed, guard, tensors
from eqfuse.rewrites.language.term import apply

x, y = tensors("x y")
(p,) = attrs("p")

ILL_FORMED: dict[str, Callable[[], Any]] = {
    "a side that is no term": lambda: Law("law", x + y, 3),
    "a side that matches every tensor": lambda: Law("law", x, x + y),
    "a variable that is not bound": lambda: Law("law", x + x, x + y),
    "a computed value on the left side": lambda: Law("law", x.reshape(computed(len, p)), x + x),
    "sides of several lengths": lambda: Law("law", (x + y, x * y), x + y),
    "a guard about what is not matched": lambda: Law("law", x + x, x * x, (guard("so", bool, y),)),
    "an exactness in the place of guards": lambda: Law("law", x + y, y + x, EXACT),
    "guards that are none": lambda: Law("law", x + y, y + x, (bool,)),
    "a law that grows unsaid": lambda: Law("law", x + y, (x + y) + (x + y)),
    "a name that is none": lambda: Law(3, x + y, y + x),
    "a guard whose predicate comes first": lambda: guard(bool, "so", x),
    "a guard about a number": lambda: guard("so", bool, 3),
    "a computed value without a function": lambda: computed(p, len),
    "variables without names": lambda: tensors(""),
    "attributes without names": lambda: attrs(3),
    "a term of what is no tensor": lambda: x + "y",
    "a comparison as a condition": lambda: bool(x),
    "a power to a modulus": lambda: pow(x, 2, 3),
    "an operator of very many arguments": lambda: Law("law", apply("concat", *[x] * 17, attrs=(-1,)), x),
    "an axis that counts from the front": lambda: x.sum(0),
}


@pytest.mark.parametrize("case", ILL_FORMED)
def test_a_law_that_is_ill_formed_is_refused_at_the_line_that_writes_it(case: str) -> None:
    written = ILL_FORMED[case]
    line = inspect.getsourcelines(written)[1]
    with pytest.raises(ef.LawError) as refused:
        written()
    assert f"{__file__}:{line}" in str(refused.value)


def test_a_program_without_a_file_has_its_own_line_named() -> None:
    with pytest.raises(ef.LawError, match="at <string>:2"):
        exec("def law(): return 0\nLaw('law', x, y)\n", {"Law": Law, "x": x, "y": y})
