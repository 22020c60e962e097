"""One direction of a law as an e-graph rule: the pattern as egglog text, and the judge of its matches in Python.

In: `Law`. Out: `Rule`, loaded by `eqfuse.egraph`. A constructor carries the types of its arguments beside them
(``o_add tx ty x y``), so a match hands every attribute and type to one Python call, which decides guards, types
the made side, and returns what that side needs, or None. A broadcasting mistake can therefore not enter the e-graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from eqfuse.dtypes import parts
from eqfuse.errors import ShapeError
from eqfuse.ir import Literal, Node, TensorType
from eqfuse.ops import row
from eqfuse.rewrites.chains import reordered
from eqfuse.rewrites.law import LITERAL, VARIABLE, Attr, Computed, Guard, Law, Term, walk

Types = dict[Term | str, TensorType]  # by variable name, or by term


def constructor(op: str, arity: int) -> str:
    """Name of the e-graph's constructor of operator `op` with `arity` arguments."""
    return f"o_{op}_{arity}" if row(op).arity is None else f"o_{op}"


@dataclass(frozen=True, eq=False)
class Rule:
    """`text` is the rule, where ``{number}`` stands for the number under which the engine knows `judge`."""

    name: str
    law: Law
    text: str
    judge: Judge
    reads: tuple[tuple[str, int], ...]  # (operator, number of arguments) on the matched side
    makes: tuple[tuple[str, int], ...]
    grows: int  # nodes that a match makes at most
    pairs: Callable[[Sequence[Node], set[Node]], list[tuple[Node, Node]]] | None = None  # equal nodes, for its relation


class Judge:
    """Decides matches of one rule: given the slots of a match, the values its made side needs, or None to decline."""

    def __init__(self, law: Law, lhs: Term, rhs: Term) -> None:
        self.law, self.lhs, self.rhs = law, lhs, rhs
        self.slots: list[tuple[str, Any]] = []  # ("type", term) or ("attr", (term, index)), in the order of the call

    def __call__(self, *values: Any) -> tuple | None:
        types: Types = {}
        attributes: dict[Attr, Any] = {}
        of_node: dict[Term, dict[int, Any]] = {}
        for (what, key), value in zip(self.slots, values, strict=True):
            if what == "type":
                types[_type_key(key)] = value
            else:
                term, index = key
                pattern = term.attrs[index]
                if term.op == LITERAL:
                    if not literal_matches(value, pattern):
                        return None
                elif isinstance(pattern, Attr):
                    attributes[pattern] = value
                elif pattern != value:
                    return None
                of_node.setdefault(term, {})[index] = value
        root_attrs = tuple(of_node.get(self.lhs, {}).values())
        root = row(self.lhs.op).type([types[_type_key(a)] for a in self.lhs.args], root_attrs)
        return made_values(self.law, self.rhs, types, attributes, root)


def _type_key(term: Term) -> Term | str:
    return term.attrs[0] if term.op == VARIABLE else term


def literal_matches(value: Literal, wanted: float | bool) -> bool:
    """Whether the constant `value` is the one number `wanted`, its zero's sign included."""
    if value.array.size != 1 or (value.array.dtype.kind == "b") != isinstance(wanted, bool):
        return False
    number = value.array.reshape(()).item()
    if number != wanted:
        return False
    signs = np.signbit(parts(value.array).astype(np.float64)).reshape(-1)  # of the imaginary part too: +0
    return number != 0 or value.array.dtype.kind in "iu" or signs.tolist() == [np.signbit(wanted), False][: signs.size]


def holds(when: tuple[Guard, ...], types: Types, attributes: dict[Attr, Any]) -> bool:
    """Whether every guard of `when` holds of these types and attributes."""
    return all(g.predicate(*_values(g.args, types, attributes)) for g in when)


def _values(args: tuple, types: Types, attributes: dict[Attr, Any]) -> Iterator[Any]:
    for a in args:
        yield attributes[a] if isinstance(a, Attr) else types[a.attrs[0]]


def made_values(law: Law, rhs: Term, types: Types, attributes: dict[Attr, Any], root: TensorType) -> tuple | None:
    """Per made node its attributes, then its argument types, in the order of `order`; None to decline."""
    if not holds(law.when, types, attributes):
        return None
    made = Made(types, attributes)
    try:
        if made.type(rhs) != root:
            return None
    except (ShapeError, Decline):
        return None
    met = (t.dtype for t in (root, *types.values(), *made.types.values()))
    return None if law.claims(met) is None else tuple(made.values)


class Decline(Exception):
    """A computed value said that the law does not apply."""


def number(value: float | bool, dtype: np.dtype) -> Literal:
    """`value` as a constant of `dtype`; Decline when that dtype does not have it (-1 as unsigned, 0.5 as integer)."""
    if isinstance(value, bool) != (dtype.kind == "b"):
        raise Decline
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != int(value) or not limits.min <= value <= limits.max:
            raise Decline
    return Literal(np.asarray(value).astype(dtype))


class Made:
    """Types the made side bottom-up, collecting the values its constructors take."""

    def __init__(self, types: Types, attributes: dict[Attr, Any]) -> None:
        self.known, self.attributes = types, attributes
        self.types: dict[Term, TensorType] = {}
        self.values: list[Any] = []
        self.attrs: dict[Term, tuple] = {}

    def type(self, term: Term) -> TensorType:
        if term.op == VARIABLE:
            return self.known[term.attrs[0]]
        if term in self.types:
            return self.types[term]
        dtype = None
        for at, arg in enumerate(term.args):
            if arg.op != LITERAL:
                t = self.type(arg)
                if not (term.op == "where" and at == 0):
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
        value = self.resolve(term.attrs[0])
        if dtype is None:
            raise Decline
        literal = value if isinstance(value, Literal) else number(value, dtype)
        self.types[term] = literal.type
        self.attrs[term] = (literal,)
        self.values.append(literal)

    def resolve(self, value: Any) -> Any:
        if isinstance(value, Attr):
            return self.attributes[value]
        if isinstance(value, Computed):
            result = value.function(*_values(value.args, self.known, self.attributes))
            if result is None:
                raise Decline
            return result
        return value


def order(rhs: Term) -> list[Term]:
    """The made nodes in the order in which `Made` collects their values: operators' literals before the operator."""
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

    visit(rhs)
    return done


def compile_law(law: Law) -> list[Rule]:
    """The rules of `law`, one per direction."""
    if law.chain:
        return [_of_chains(law)]
    return [_compile(law, name, lhs, rhs) for name, lhs, rhs in law.directions]


def _of_chains(law: Law) -> Rule:
    """The rule that joins every chain of a program and the same in one order, which the engine relates."""
    text = "(relation pairs{number} (Tensor Tensor))\n"
    text += f'(rule ((pairs{{number}} px py)) ((union px py)) :ruleset law{{number}} :name "{law.name}")'
    ops = tuple((op, 2) for op in law.chain or ())
    return Rule(law.name, law, text, Judge(law, law.lhs, law.rhs), ops[:1], ops, 0, partial(reordered, law))


def _compile(law: Law, name: str, lhs: Term, rhs: Term) -> Rule:
    judge = Judge(law, lhs, rhs)
    variables: dict[Term | str | Attr, str] = {}
    call: list[str] = []

    def fresh(key: Any, prefix: str) -> str:
        return variables.setdefault(key, f"p{prefix}{len(variables)}")

    def slot(what: str, key: Any, variable: str) -> None:
        if variable not in call or what == "attr":
            call.append(variable)
            judge.slots.append((what, key))

    def at(term: Term) -> str:
        return fresh(("tensor", _type_key(term)), "x")

    atoms = []
    for term in walk_once(lhs):
        if term.op == VARIABLE:
            continue
        parts = []
        for index, value in enumerate(term.attrs):
            variable = fresh(value if isinstance(value, Attr) else ("attribute", term, index), "a")
            parts.append(variable)
            slot("attr", (term, index), variable)
        for arg in term.args:
            variable = fresh(("type", _type_key(arg)), "t")
            parts.append(variable)
            slot("type", arg, variable)
        parts += [at(arg) for arg in term.args]
        op = "o_const" if term.op == LITERAL else constructor(term.op, len(term.args))
        atoms.append(f"(= {at(term)} ({' '.join([op, *parts])}))")
    atoms.reverse()
    for g in law.when:
        for fact in ("known",) * g.known + ("varies",) * g.varies:
            atoms += [f"({fact} {at(a)})" for a in g.args if isinstance(a, Term)]
    atoms.append(f"(varies {at(lhs)})")  # work that runs once, when the program is built, is left alone
    atoms += [f"(= pc (py-call $judge (py-from-int {{number}}) {' '.join(call)}))", "(!= pc (py-from-int 0))"]
    union = f"(union {at(lhs)} {_made_text(rhs, at, variables)})"
    text = f'(rule ({" ".join(atoms)}) ({union}) :ruleset law{{number}} :name "{name}")'
    return Rule(name, law, text, judge, _signatures(lhs), _signatures(rhs), len(order(rhs)))


def _signatures(side: Term) -> tuple[tuple[str, int], ...]:
    ops = ((t.op if t.op != LITERAL else "const", len(t.args)) for t in walk(side) if t.op != VARIABLE)
    return tuple(dict.fromkeys(ops))


def walk_once(term: Term) -> list[Term]:
    """`walk`, each shared term once."""
    return list(dict.fromkeys(walk(term)))


def _made_text(rhs: Term, at: Any, variables: dict[Any, str]) -> str:
    """The made side; what the match holds already is passed on, the rest is fetched from the judge's answer."""
    position = 0
    texts: dict[Term, str] = {}
    for term in order(rhs):
        keys: list[Any] = [a if isinstance(a, Attr) else None for a in term.attrs]
        keys += [("type", a.attrs[0]) if a.op == VARIABLE else None for a in term.args]
        fetched = [f"(py-call $made pc (py-from-int {position + i}))" for i in range(len(keys))]
        position += len(keys)
        parts = [text if key is None else variables[key] for key, text in zip(keys, fetched, strict=True)]
        parts += [at(a) if a.op == VARIABLE else texts[a] for a in term.args]
        op = "o_const" if term.op == LITERAL else constructor(term.op, len(term.args))
        texts[term] = f"({' '.join([op, *parts])})"
    return at(rhs) if rhs.op == VARIABLE else texts[rhs]
