"""What the sides of a law are made of: terms over tensor variables, written as NumPy is.

In: Python expressions over `tensors(...)`. Out: `Term`, of which a `Law` has two sides. Python's operators stand for
operators of the table, NumPy's functions and the methods of arrays for what `notation` says. What a term cannot say is
a LawError at the line that asks for it: nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from eqfuse.errors import LawError
from eqfuse.ops import TABLE
from eqfuse.rewrites.language import numpy_calls

VARIABLE, LITERAL = "variable", "literal"


@dataclass(frozen=True)
class Attr:
    """A variable that stands for an attribute: axes, a permutation, a shape, a dtype."""

    name: str


@dataclass(frozen=True, eq=False)
class Computation:
    """An attribute or scalar of the right side, computed from attributes (their values) and tensors (their types)."""

    function: Callable[..., Any]
    args: tuple[Attr | Term, ...]


def _binary(op: str) -> tuple[Callable[[Any, Any], Term], Callable[[Any, Any], Term]]:
    """A Python operator between a term and something else, and its reflection."""
    return lambda self, other: apply(op, self, other), lambda self, other: apply(op, other, self)


def _compared(op: str) -> Callable[[Any, Any], Term]:
    return lambda self, other: apply(op, self, other)


def _unary(op: str) -> Callable[[Any], Term]:
    return lambda self: apply(op, self)


def _no(what: str, instead: str) -> Callable[..., Any]:
    """What Python asks of a value, which no term has."""

    def call(self: Term, *_: Any, **__: Any) -> NoReturn:
        raise LawError(f"{what} {self}: a law is about arrays of any type and value. {instead}")

    return call


@dataclass(frozen=True, eq=False)
class Term:
    """A pattern: a tensor variable, a scalar literal, or an operator of the table over terms.

    ``x == y`` is a term too, so terms are told apart by ``is``, and as keys of dicts and members of sets.
    """

    op: str
    args: tuple[Term, ...] = ()
    attrs: tuple[Any, ...] = ()

    __hash__ = object.__hash__

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __matmul__, __rmatmul__ = _binary("matmul")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __lt__, __le__ = _compared("less"), _compared("less_equal")
    __gt__, __ge__ = _compared("greater"), _compared("greater_equal")
    __eq__, __ne__ = _compared("equal"), _compared("not_equal")  # type: ignore[assignment]
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("bitwise_invert")

    def __pos__(self) -> Term:
        return self

    def __pow__(self, exponent: Any, modulo: Any = None) -> Term:
        """With the operators that NumPy's ``**`` itself takes for some exponents. (Its reciprocal has no remainder.)"""
        if modulo is not None:
            raise LawError(f"pow({self}, {exponent}, {modulo}) is no operator of the table; write (x ** y) % z")
        if type(exponent) in (int, float) and exponent in _POWERS:
            return _POWERS[exponent](self)
        return apply("power", self, exponent)

    def __rpow__(self, base: Any) -> Term:
        return apply("power", base, self)

    def __divmod__(self, other: Any) -> tuple[Term, Term]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Term, Term]:
        return other // self, other % self

    __bool__ = _no("truth value of", "A choice is np.where(c, x, y); 0 < x < 1 is (0 < x) & (x < 1), and not c is ~c")
    __float__ = _no("float() of", "Write np.sqrt, not math.sqrt, and x.astype(d), not float(x)")
    __int__ = _no("int() of", "Write np.trunc, or x.astype(d) with (d,) = attrs('d')")
    __complex__ = _no("complex() of", "Write x.astype(d) with (d,) = attrs('d')")
    __index__ = _no("use as an index of", "Write x.take(i, a), where i is a tensor and (a,) = attrs('a')")
    __array__ = _no("an array with", "Write tensors, numbers and operators; np.concatenate((x, y), -1) joins")
    __len__ = _no("length of", "`computed` and `guard` see the types of tensors: guard('x has 2 rows', …, x)")
    __iter__ = _no("iteration over", "Write x.slice(r) for a part, with (r,) = attrs('r')")
    __contains__ = _no("search in", "Write the comparison as a term: (x == y).any(p)")
    __getitem__ = _no("indexing of", "Write x.slice(r) with (r,) = attrs('r') and a guard about r, or x.take(i, a)")
    __setitem__ = _no("assignment to", "Write apply('slice_scatter', x, y, attrs=(r,)), or apply('scatter', …)")
    __round__ = _no("round() of", "Write np.round(x)")
    __floor__ = _no("math.floor() of", "Write np.floor(x)")
    __ceil__ = _no("math.ceil() of", "Write np.ceil(x)")
    __trunc__ = _no("math.trunc() of", "Write np.trunc(x)")

    # operators that are no methods of arrays

    @property
    def name(self) -> str:
        """Of a variable."""
        return self.attrs[0]

    @property
    def value(self) -> Any:
        """Of a literal: a number, or what is computed to one."""
        return self.attrs[0]

    def slice(self, ranges: Any) -> Term:
        return apply("slice", self, attrs=(ranges,))

    def flip(self, axes: Any) -> Term:
        return apply("flip", self, attrs=(axes,))

    def broadcast_to(self, shape: Any) -> Term:
        return apply("broadcast_to", self, attrs=(shape,))

    def cast(self, dtype: Any) -> Term:
        return apply("cast", self, attrs=(dtype,))

    # what arrays do

    def __getattr__(self, name: str) -> Any:
        return numpy_calls.attribute(self, name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        return numpy_calls.ufunc(ufunc, method, args, kwargs)

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        return numpy_calls.numpy_function(function, args, kwargs)

    @staticmethod
    def __eqfuse_apply__(op: str, args: Any, attrs: Any = ()) -> Term:
        """Called by the functions of `eqfuse.functions` when an argument is a term."""
        return apply(op, *args, attrs=tuple(attrs))

    def __str__(self) -> str:
        if self.op in (VARIABLE, LITERAL):
            return _text(self.value)
        if self.op in _SIGNS:
            return f"({f' {_SIGNS[self.op]} '.join(map(str, self.args))})"
        return f"{self.op}({', '.join([*map(str, self.args), *map(_text, self.attrs)])})"

    __repr__ = __str__


_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"}
_POWERS: dict[float, Callable[[Term], Term]] = {2: _unary("square"), 0.5: _unary("sqrt"), -1: lambda x: 1.0 / x}


def _text(value: Any) -> str:
    if isinstance(value, Attr):
        return value.name
    return f"<{value.function.__name__}>" if isinstance(value, Computation) else str(value)


def apply(op: str, *args: Any, attrs: tuple[Any, ...] = ()) -> Term:
    """The term `op(*args, *attrs)`. Python numbers and `computed` scalars take the dtype of the other arguments."""
    row = TABLE.get(op)
    if row is None:
        raise LawError(f"the operator table has no {op!r}")
    if (row.arity is not None and len(args) != row.arity) or len(attrs) != len(row.attrs):
        raise LawError(f"{op} takes {row.arity} tensor(s) and the attributes {row.attrs}")
    return Term(op, tuple(map(_term, args)), attrs)


def _term(value: Any) -> Term:
    if isinstance(value, Term):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | Computation):
        raise LawError(f"{value!r} cannot stand in a law: write a tensor variable, an operator or a number")
    return Term(LITERAL, (), (value,))


def tensors(names: str) -> tuple[Term, ...]:
    """One tensor variable per name: ``x, y = tensors("x y")``."""
    return tuple(Term(VARIABLE, (), (name,)) for name in _names(names))


def attrs(names: str) -> tuple[Attr, ...]:
    """One attribute variable per name: ``p, q = attrs("p q")``."""
    return tuple(Attr(name) for name in _names(names))


def _names(names: str) -> list[str]:
    words = names.split() if isinstance(names, str) else []
    if not words or not all(name.isidentifier() for name in words):
        raise LawError(f"{names!r} names no variables: write their names with spaces between, \"x y\"")
    return words


def computed(function: Callable[..., Any], *args: Attr | Term) -> Any:
    """`function` of attribute values and tensor types, as an attribute or scalar of a right side.

    When `function` returns None the law does not apply.
    """
    if not callable(function):
        raise LawError(f"computed({function!r}, …): write the function first, then the variables that it takes")
    return Computation(function, about(args, "computed(…)"))


def about(args: tuple, what: str) -> tuple[Attr | Term, ...]:
    """`args`, all of which are variables. LawError that begins with `what`."""
    for a in args:
        if not isinstance(a, Attr) and not (isinstance(a, Term) and a.op == VARIABLE):
            raise LawError(f"{what} is about {a!r}: write variables, which tensors(…) and attrs(…) make")
    return args


def variable_key(value: Attr | Term) -> tuple[str, str]:
    """(kind, name) of a variable."""
    return ("attribute", value.name) if isinstance(value, Attr) else (VARIABLE, value.name)


def walk(term: Term) -> list[Term]:
    """`term` and all below it, arguments first."""
    terms, stack = [], [term]
    while stack:
        terms.append(stack.pop())
        stack += terms[-1].args
    return terms[::-1]


def names(term: Term) -> Iterator[tuple[str, str]]:
    """(kind, name) of every variable in `term`, those that computed values use included."""
    for t in walk(term):
        if t.op == VARIABLE:
            yield variable_key(t)
        else:
            for value in t.attrs:
                if isinstance(value, Attr):
                    yield variable_key(value)
                elif isinstance(value, Computation):
                    yield from map(variable_key, value.args)
