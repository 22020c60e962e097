"""Proofs of pointwise laws over the reals, by the SMT solver z3 (the extra "smt").

In: `Law`. Out: `Proof`, which claims no more than z3 has shown: equality of both sides for all real numbers, where
nothing is divided by zero and no function leaves its domain. One row per operator translates it. Functions such as exp
are any functions with the facts of `FACTS`: what is proved of all of these is proved of exp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eqfuse.errors import TargetUnavailable
from eqfuse.ops.facts import LARGEST, SMALLEST, Fact
from eqfuse.rewrites.checking.cases import is_pointwise, roles
from eqfuse.rewrites.language.law import LITERAL, VARIABLE, Computation, Guard, Law, Term

Z3_EFFORT = 400_000  # of z3 on one law, in its own units, so that the answer is the same on every machine

PROVED_BY_Z3, OPEN = "proved over the reals", "not proved over the reals"


@dataclass(frozen=True)
class Proof:
    """`proved`, assuming all of `where`; or not, and why."""

    proved: bool
    where: tuple[str, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        if not self.proved:
            return f"{OPEN} ({self.why})"
        return PROVED_BY_Z3 + (f" where {' and '.join(self.where)}" if self.where else "")


class NoTranslation(Exception):
    """An operator without a row here, or a law that is not about real numbers."""


def has_z3() -> bool:
    """Is z3 installed?"""
    try:
        import z3  # noqa: F401
    except ImportError:
        return False
    return True


def prove_over_reals(law: Law) -> Proof:
    """Try to prove the pointwise `law` over the reals. TargetUnavailable where z3 is not installed."""
    try:
        import z3
    except ImportError:
        raise TargetUnavailable("proofs need the SMT solver z3: pip install 'eqfuse[smt]'") from None
    if not is_pointwise(law):
        return Proof(False, why="unsupported: it is not pointwise")
    translator = _Translator(z3, law)
    try:
        pairs = [(translator.translate(a), translator.translate(b)) for a, b in zip(law.lefts, law.rights, strict=True)]
        if any(left.sort() != right.sort() for left, right in pairs):
            raise NoTranslation("its sides are a number and a truth value")
        translator.guarded(law)
    except NoTranslation as reason:
        return Proof(False, why=f"unsupported: {reason}")
    where = _needed(z3, translator)
    solver = _solver(z3, *translator.facts, *where.values())
    if solver.check() == z3.unsat:
        return Proof(False, why=f"nothing is such that {' and '.join(where)}")
    solver = _solver(z3, *translator.facts, *where.values(), z3.Or(*(left != right for left, right in pairs)))
    answer = solver.check()
    if answer == z3.unsat:
        return Proof(True, tuple(where))
    if answer == z3.unknown:
        return Proof(False, why="out of effort")
    if translator.functions:
        return Proof(False, why=f"needs more than is known here of {', '.join(sorted(translator.functions))}")
    model = solver.model()
    point = ", ".join(f"{name} = {model.eval(v, model_completion=True)}" for name, v in translator.variables.items())
    return Proof(False, why=f"over the reals the sides differ at {point}")


def _solver(z3: Any, *facts: Any) -> Any:
    solver = z3.Solver()
    solver.set("rlimit", Z3_EFFORT)
    solver.add(*facts)
    return solver


def _needed(z3: Any, translator: _Translator) -> dict[str, Any]:
    """What is assumed, without what follows from the rest and the facts."""
    needed = dict(translator.assumed)
    for words, assumption in translator.assumed.items():
        rest = [a for w, a in needed.items() if w != words]
        if _solver(z3, *translator.facts, *rest, z3.Not(assumption)).check() == z3.unsat:
            del needed[words]
    return needed


class _Translator:
    """Terms as z3 expressions, with what must be assumed for them to have a value."""

    def __init__(self, z3: Any, law: Law) -> None:
        self.z3, self.roles = z3, roles(law)
        self.variables: dict[str, Any] = {}
        self.assumed: dict[str, Any] = {}  # by the words for it
        self.facts: list[Any] = []
        self.functions: set[str] = set()
        self.truths = {name for name, uses in self.roles.items() if "condition" in uses}

    def translate(self, term: Term) -> Any:
        if term.op == VARIABLE:
            name = term.name
            make = self.z3.Bool if name in self.truths else self.z3.Real
            return self.variables.setdefault(name, make(name))
        if term.op == LITERAL:
            return self._number(term.value)
        if term.op not in ROWS:
            raise NoTranslation(f"{term.op} has no meaning here")
        return ROWS[term.op](self, term, *map(self.translate, term.args))

    def _number(self, value: Any) -> Any:
        if isinstance(value, Computation):
            raise NoTranslation("a computed number")
        if isinstance(value, bool):
            return self.z3.BoolVal(value)
        if value != value or value in (float("inf"), -float("inf")):
            raise NoTranslation(f"{value} is no real number")
        numerator, denominator = float(value).as_integer_ratio()
        return self.z3.Q(numerator, denominator)

    def assume(self, words: str, fact: Any) -> None:
        self.assumed[words] = fact

    def guarded(self, law: Law) -> None:
        """Take what the law's guards say of values as facts."""
        for g in law.when:
            if g.wanted is not None:
                subject, *others = map(self.translate, g.tensors)
                self.facts += _above(g, subject, *others) if others else _bounds(self.z3, subject, g.wanted())

    def truth(self, value: Any) -> Any:
        """A number as NumPy's logical functions read it."""
        return value if self.z3.is_bool(value) else value != 0

    def real(self, value: Any) -> Any:
        if self.z3.is_bool(value):
            raise NoTranslation("arithmetic of truth values")
        return value


def _bounds(z3: Any, x: Any, fact: Fact) -> list[Any]:
    """What `fact` says of a real number."""
    said = [] if fact.zero else [x != 0]
    if fact.lower > -LARGEST:
        said.append(x > 0 if fact.lower == SMALLEST else x >= z3.Q(*fact.lower.as_integer_ratio()))
    if fact.upper < LARGEST:
        said.append(x < 0 if fact.upper == -SMALLEST else x <= z3.Q(*fact.upper.as_integer_ratio()))
    return said


def _above(guard: Guard, x: Any, y: Any) -> list[Any]:
    """What a guard about two tensors says: the one bounds the other, or nothing that is known here."""
    assert guard.wanted is not None
    wanted = [guard.wanted(Fact(v, v, nan=False)) for v in (3.25, -7.5)]
    if wanted == [Fact(lower=3.25), Fact(lower=-7.5)]:
        return [x >= y]
    return [x <= y] if wanted == [Fact(upper=3.25), Fact(upper=-7.5)] else []


Translation = Callable[..., Any]


def _arithmetic(function: Callable[..., Any]) -> Translation:
    def translate(to: _Translator, _term: Term, *args: Any) -> Any:
        return function(*(to.real(a) for a in args))

    return translate


def _comparison(function: Callable[..., Any]) -> Translation:
    def translate(to: _Translator, _term: Term, x: Any, y: Any) -> Any:
        if x.sort() != y.sort():
            raise NoTranslation("a comparison of a number with a truth value")
        return function(to.z3, x, y)

    return translate


def _ordered(function: Callable[..., Any]) -> Translation:
    """A function of z3 and of real numbers."""

    def translate(to: _Translator, _term: Term, *args: Any) -> Any:
        return function(to.z3, *(to.real(a) for a in args))

    return translate


def _logical(function: Callable[..., Any]) -> Translation:
    def translate(to: _Translator, _term: Term, *args: Any) -> Any:
        return function(to.z3, *(to.truth(a) for a in args))

    return translate


def _where(to: _Translator, _term: Term, condition: Any, x: Any, y: Any) -> Any:
    if x.sort() != y.sort():
        raise NoTranslation("a choice between a number and a truth value")
    return to.z3.If(to.truth(condition), x, y)


def _divide(to: _Translator, term: Term, x: Any, y: Any) -> Any:
    to.assume(f"{term.args[1]} is not 0", to.real(y) != 0)
    return to.real(x) / y


def _reciprocal(to: _Translator, term: Term, x: Any) -> Any:
    to.assume(f"{term.args[0]} is not 0", to.real(x) != 0)
    return 1 / x


def _power(to: _Translator, term: Term, x: Any, _exponent: Any) -> Any:
    exponent = term.args[1]
    n = exponent.value if exponent.op == LITERAL else None
    if n == 0.5:
        return _sqrt(to, term, x)
    if isinstance(n, bool) or not isinstance(n, int | float) or n != int(n) or abs(n) > 16:
        raise NoTranslation(f"power with the exponent {exponent}")
    product = to.z3.RealVal(1)
    for _ in range(abs(int(n))):
        product = product * to.real(x)
    if n >= 0:
        return product
    to.assume(f"{term.args[0]} is not 0", x != 0)
    return 1 / product


def _sqrt(to: _Translator, term: Term, x: Any) -> Any:
    to.assume(f"{term.args[0]} is not negative", to.real(x) >= 0)
    root = to.z3.Function("sqrt", to.z3.RealSort(), to.z3.RealSort())(x)
    to.facts.append(to.z3.Implies(x >= 0, to.z3.And(root >= 0, root * root == x)))
    return root


def _floor(to: _Translator, _term: Term, x: Any) -> Any:
    return to.z3.ToReal(to.z3.ToInt(to.real(x)))


# what is true of f(x) for every real x
FACTS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "exp": lambda f, x: [f > 0], "exp2": lambda f, x: [f > 0], "expm1": lambda f, x: [f > -1],
    "tanh": lambda f, x: [f > -1, f < 1], "erf": lambda f, x: [f > -1, f < 1], "erfc": lambda f, x: [f > 0, f < 2],
    "sin": lambda f, x: [f >= -1, f <= 1], "cos": lambda f, x: [f >= -1, f <= 1], "cosh": lambda f, x: [f >= 1],
    "atan": lambda f, x: [], "sinh": lambda f, x: [], "asinh": lambda f, x: [], "cbrt": lambda f, x: [],
}  # fmt: skip
# functions with a domain, which is assumed of their arguments
DOMAINS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "log": ("positive", lambda x: x > 0), "log2": ("positive", lambda x: x > 0),
    "log10": ("positive", lambda x: x > 0), "log1p": ("more than -1", lambda x: x > -1),
    "asin": ("in [-1, 1]", lambda x: (x >= -1) == (x <= 1)), "acos": ("in [-1, 1]", lambda x: (x >= -1) == (x <= 1)),
    "acosh": ("at least 1", lambda x: x >= 1),
}  # fmt: skip


def _function(to: _Translator, term: Term, x: Any) -> Any:
    """One value for equal arguments, and the facts about it."""
    to.functions.add(term.op)
    value = to.z3.Function(term.op, to.z3.RealSort(), to.z3.RealSort())(to.real(x))
    if term.op in DOMAINS:
        words, holds = DOMAINS[term.op]
        to.assume(f"{term.args[0]} is {words}", holds(x))
    else:
        to.facts += FACTS[term.op](value, x)
    return value


ROWS: dict[str, Translation] = {
    "add": _arithmetic(lambda x, y: x + y), "subtract": _arithmetic(lambda x, y: x - y),
    "multiply": _arithmetic(lambda x, y: x * y), "negative": _arithmetic(lambda x: -x),
    "square": _arithmetic(lambda x: x * x),
    "divide": _divide, "reciprocal": _reciprocal, "power": _power, "sqrt": _sqrt, "floor": _floor,
    "maximum": _ordered(lambda z3, x, y: z3.If(x >= y, x, y)),
    "minimum": _ordered(lambda z3, x, y: z3.If(x <= y, x, y)),
    "fmax": _ordered(lambda z3, x, y: z3.If(x >= y, x, y)),
    "fmin": _ordered(lambda z3, x, y: z3.If(x <= y, x, y)),
    "abs": _ordered(lambda z3, x: z3.If(x >= 0, x, -x)),
    "sign": _ordered(lambda z3, x: z3.If(x > 0, z3.RealVal(1), z3.If(x < 0, z3.RealVal(-1), z3.RealVal(0)))),
    "less": _ordered(lambda z3, x, y: x < y), "less_equal": _ordered(lambda z3, x, y: x <= y),
    "greater": _ordered(lambda z3, x, y: x > y), "greater_equal": _ordered(lambda z3, x, y: x >= y),
    "equal": _comparison(lambda z3, x, y: x == y), "not_equal": _comparison(lambda z3, x, y: x != y),
    "logical_and": _logical(lambda z3, x, y: z3.And(x, y)), "logical_or": _logical(lambda z3, x, y: z3.Or(x, y)),
    "logical_xor": _logical(lambda z3, x, y: z3.Xor(x, y)), "logical_not": _logical(lambda z3, x: z3.Not(x)),
    "where": _where,
    **dict.fromkeys((*FACTS, *DOMAINS), _function),
}  # fmt: skip
