"""One match of a law: what its variables and attributes stand for, whether its guards hold, what its right side is.

In: types of variables and values of attributes. Out: the values that the right side's operators take, or None. The
e-graph's rules and the generated cases decide with the same functions, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.dtypes import real_parts
from eqfuse.errors import LawError, ShapeError
from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.guards import Guard
from eqfuse.rewrites.language.term import LITERAL, VARIABLE, Attr, Computation, Term

if TYPE_CHECKING:
    from eqfuse.rewrites.language.law import Law

VariableTypes = dict[Term | str, TensorType]  # by variable name, or by term
FAULTS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)  # of guards and computed values


def term_key(term: Term) -> Term | str:
    return term.name if term.op == VARIABLE else term


def literal_matches(value: Literal, wanted: float | bool) -> bool:
    """Whether the constant `value` is the one number `wanted`, its zero's sign included."""
    if value.array.size != 1 or (value.array.dtype.kind == "b") != isinstance(wanted, bool):
        return False
    number = value.array.reshape(()).item()
    if number != wanted and (number == number or wanted == wanted):
        return False
    signs = np.signbit(real_parts(value.array).astype(np.float64)).reshape(-1)  # of the imaginary part too: +0
    return number != 0 or value.array.dtype.kind in "iu" or signs.tolist() == [np.signbit(wanted), False][: signs.size]


def faulty(law: Law, types: Mapping[Any, TensorType], attributes: Mapping[Attr, Any], error: Exception) -> LawError:
    """What to tell the author of a guard or computed value that has no answer for something that the law matches."""
    pairs = [f"{name} = {t}" for name, t in types.items() if isinstance(name, str)]
    pairs += [f"{a.name} = {value}" for a, value in attributes.items()]
    return LawError(
        f"law {law.name!r}: a guard or a computed value raises {type(error).__name__}: {error} for {', '.join(pairs)}; "
        "let the guard before it rule that out, or return None"
    )


def holds(when: tuple[Guard, ...], types: VariableTypes, attributes: dict[Attr, Any]) -> bool:
    """Whether every guard of `when` holds of these types and attributes."""
    return all(_says(g, g.predicate(*_values(g.args, types, attributes))) for g in when)


def _says(guard: Guard, answer: Any) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise TypeError(f"the guard that {guard.sentence} says {answer!r}, neither True nor False")
    return bool(answer)


def _values(args: tuple, types: VariableTypes, attributes: dict[Attr, Any]) -> Iterator[Any]:
    for a in args:
        yield attributes[a] if isinstance(a, Attr) else types[a.name]


def made_values(
    law: Law, rights: tuple[Term, ...], types: VariableTypes, attributes: dict[Attr, Any], roots: list[TensorType]
) -> tuple | None:
    """Per made node its attributes, then its argument types, in the order of `order`; None to decline."""
    if not holds(law.when, types, attributes):
        return None
    right = RightSide(types, attributes)
    try:
        if [right.type(rhs) for rhs in rights] != roots:
            return None
    except (ShapeError, Decline):
        return None
    met = (t.dtype for t in (*roots, *types.values(), *right.types.values()))
    return None if law.claims(met) is None else tuple(right.values)


class Decline(Exception):
    """A computed value said that the law does not apply."""


def literal_of(value: float | bool, dtype: np.dtype) -> Literal:
    """`value` as a constant of `dtype`; Decline when that dtype does not have it (-1 as unsigned, 0.5 as integer)."""
    if isinstance(value, bool) != (dtype.kind == "b"):
        raise Decline
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not float(value).is_integer() or not limits.min <= value <= limits.max:
            raise Decline
    return Literal(np.asarray(value).astype(dtype))


class RightSide:
    """Types the right side bottom-up, collecting the values its constructors take."""

    def __init__(self, types: VariableTypes, attributes: dict[Attr, Any]) -> None:
        self.variables, self.attributes = types, attributes
        self.types: dict[Term, TensorType] = {}
        self.values: list[Any] = []
        self.attrs: dict[Term, tuple] = {}

    def type(self, term: Term) -> TensorType:
        if term.op == VARIABLE:
            return self.variables[term.name]
        if term in self.types:
            return self.types[term]
        dtype, own_dtype = None, row(term.op).own_dtype
        for i, arg in enumerate(term.args):
            if arg.op != LITERAL:
                t = self.type(arg)
                if own_dtype(i) is None:
                    dtype = t.dtype
        for arg in term.args:
            if arg.op == LITERAL and arg not in self.types:
                self._literal(arg, dtype)
        attrs = tuple(self.resolve(a) for a in term.attrs)
        arg_types = tuple(self.type(a) for a in term.args)
        self.types[term] = row(term.op).type(arg_types, attrs)
        self.attrs[term] = attrs
        self.values += [*attrs, *arg_types]
        return self.types[term]

    def _literal(self, term: Term, dtype: np.dtype | None) -> None:
        value = self.resolve(term.value)
        if dtype is None:
            raise Decline
        literal = value if isinstance(value, Literal) else literal_of(value, dtype)
        self.types[term] = literal.type
        self.attrs[term] = (literal,)
        self.values.append(literal)

    def resolve(self, value: Any) -> Any:
        if isinstance(value, Attr):
            return self.attributes[value]
        if isinstance(value, Computation):
            result = value.function(*_values(value.args, self.variables, self.attributes))
            if result is None:
                raise Decline
            return result
        return value


def construction_order(rights: tuple[Term, ...]) -> list[Term]:
    """The nodes of right sides as `RightSide` collects their values: operators' literals before the operator."""
    done: list[Term] = []

    def visit(term: Term) -> None:
        if term.op in (VARIABLE, LITERAL) or any(term is d for d in done):
            return
        for arg in term.args:
            visit(arg)
        for arg in term.args:
            if arg.op == LITERAL and not any(arg is d for d in done):
                done.append(arg)
        done.append(term)

    for rhs in rights:
        visit(rhs)
    return done
