"""One direction of a law as an e-graph rule: the pattern as egglog text, and the judge of its matches in Python.

In: `Law`. Out: `Rule`, loaded by `eqfuse.egraph.saturate`. A constructor carries the types of its arguments beside them
(``o_add tx ty x y``), so a match hands every attribute and type to one Python call, which decides guards, types
the right side, and returns what that side needs, or None. A broadcasting mistake can therefore not enter the e-graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import combinations, count
from typing import Any

from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Node
from eqfuse.ops import row
from eqfuse.ops.facts import Fact
from eqfuse.rewrites.language.law import LITERAL, VARIABLE, Attr, Guard, Law, Term, walk
from eqfuse.rewrites.language.match import (
    FAULTS,
    VariableTypes,
    construction_order,
    faulty,
    literal_matches,
    made_values,
    term_key,
)
from eqfuse.rewrites.procedures.chains import reordered
from eqfuse.rewrites.procedures.short_axes import in_slices


def constructor(op: str, arity: int) -> str:
    """Name of the e-graph's constructor of operator `op` with `arity` arguments."""
    return f"o_{op}_{arity}" if row(op).arity is None else f"o_{op}"

Operator = tuple[str, int]  # and its number of arguments
Edge = tuple[Operator, int, Operator]  # an operator, the number of one of its arguments, what gives that
Pairs = Callable[[Sequence[Node], set[Node]], list[tuple[Node, Node]]]


@dataclass(frozen=True, eq=False)
class Rule:
    """`text` is the rule, where ``{number}`` stands for its number in this process and ``{name}`` for the name under
    which egglog reads it."""

    name: str
    law: Law
    text: str
    judge: Judge
    reads: tuple[Operator, ...]  # on the left side
    makes: tuple[Operator, ...]
    grows: int  # nodes that a match makes at most
    edges: frozenset[Edge] = frozenset()  # on the left side
    pairs: Pairs | None = None  # equal nodes, for its relation
    number: int = field(default_factory=partial(next, count()), init=False)


class Judge:
    """Decides matches of one rule: given the slots of a match, the values its right side needs, or None to decline."""

    def __init__(self, law: Law, lefts: tuple[Term, ...], rights: tuple[Term, ...]) -> None:
        self.law, self.lefts, self.rights = law, lefts, rights
        # ("type", term), ("attr", (term, index)) or ("range", variable), in the order of the call
        self.slots: list[tuple[str, Any]] = []

    def __call__(self, *values: Any) -> tuple | None:
        types: VariableTypes = {}
        attributes: dict[Attr, Any] = {}
        try:
            return self._answer(values, types, attributes)
        except EqfuseError:
            raise
        except FAULTS as error:
            raise faulty(self.law, types, attributes, error) from error

    def _answer(self, values: tuple, types: VariableTypes, attributes: dict[Attr, Any]) -> tuple | None:
        of_node: dict[Term, dict[int, Any]] = {}
        ranges: dict[Term | str, Fact] = {}
        for (what, key), value in zip(self.slots, values, strict=True):
            if what == "type":
                types[term_key(key)] = value
            elif what == "range":
                ranges[key] = value
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
        roots = [
            row(left.op).type([types[term_key(a)] for a in left.args], tuple(of_node.get(left, {}).values()))
            for left in self.lefts
        ]
        for g in self.law.when:
            keys = [term_key(a) for a in g.tensors]
            if g.about_values and not g.allows(types[keys[0]].dtype, *(ranges[key] for key in keys)):
                return None
        return made_values(self.law, self.rights, types, attributes, roots)


@lru_cache(maxsize=8192)
def reads(law: Law) -> list[tuple[Operator, ...]]:
    """What each of the rules of `law` reads, for less than it takes to compile them."""
    if law.chain:
        return [((law.chain[0], 2),)]
    if law.slices:
        return [((law.slices[0], row(law.slices[0]).arity or 1),)]
    return [_signatures(lefts) for _, lefts, _ in law.directions]


@lru_cache(maxsize=8192)
def compile_law(law: Law) -> tuple[Rule, ...]:
    """The rules of `law`, one per direction."""
    if law.chain:
        return (_of_pairs(law, tuple((op, 2) for op in law.chain), partial(reordered, law)),)
    if law.slices:
        return (_of_pairs(law, _made_by_slices(law), partial(in_slices, law)),)
    return tuple([_compile(law, *direction) for direction in law.directions])


def _of_pairs(law: Law, makes: tuple[Operator, ...], pairs: Pairs) -> Rule:
    """The rule that joins what of a program a procedure finds equal, which the engine relates."""
    text = "(relation pairs{name} (Tensor Tensor))\n"
    text += '(rule ((pairs{name} px py)) ((union px py)) :ruleset law{name} :name "rule{name}")'
    return Rule(law.name, law, text, Judge(law, law.lefts, law.rights), reads(law)[0], makes, 0, pairs=pairs)


def _made_by_slices(law: Law) -> tuple[Operator, ...]:
    assert law.slices is not None
    return (law.slices[1], 2), ("multiply", 2), ("sum", 1), ("slice", 1), ("reshape", 1), ("transpose", 1)


def _compile(law: Law, name: str, lefts: tuple[Term, ...], rights: tuple[Term, ...]) -> Rule:
    judge = Judge(law, lefts, rights)
    variables: dict[Term | str | Attr, str] = {}
    call: list[str] = []

    def fresh(key: Any, prefix: str) -> str:
        return variables.setdefault(key, f"p{prefix}{len(variables)}")

    def slot(what: str, key: Any, variable: str) -> None:
        if variable not in call or what == "attr":
            call.append(variable)
            judge.slots.append((what, key))

    def variable_text(term: Term) -> str:
        return fresh(("tensor", term_key(term)), "x")

    atoms = []
    for term in walk_once(lefts):
        if term.op == VARIABLE:
            continue
        parts = []
        for index, value in enumerate(term.attrs):
            variable = fresh(value if isinstance(value, Attr) else ("attribute", term, index), "a")
            parts.append(variable)
            slot("attr", (term, index), variable)
        for arg in term.args:
            variable = fresh(("type", term_key(arg)), "t")
            parts.append(variable)
            slot("type", arg, variable)
        parts += [variable_text(arg) for arg in term.args]
        op = "o_const" if term.op == LITERAL else constructor(term.op, len(term.args))
        atoms.append(f"(= {variable_text(term)} ({' '.join([op, *parts])}))")
    atoms.reverse()
    for g in law.when:
        for fact in ("constant",) * g.constant + ("varies",) * g.varies + ("in_program",) * g.in_program:
            atoms += [f"({fact} {variable_text(a)})" for a in g.tensors]
        if g.distinct:
            atoms += [f"(!= {variable_text(a)} {variable_text(b)})" for a, b in combinations(g.tensors, 2)]
        for a in g.tensors if g.about_values else ():
            variable = fresh(("range", term_key(a)), "f")
            if variable not in call:
                atoms.append(f"(= {variable} (range {variable_text(a)}))")
                slot("range", term_key(a), variable)
    atoms += [f"(!= {variable_text(term)} {variable_text(arg)})" for term, arg in _idle(lefts)]
    if not law.everywhere:
        atoms += [f"(varies {variable_text(lhs)})" for lhs in lefts]
    for i, j in combinations(lefts, 2):
        atoms.append(f"(!= {variable_text(i)} {variable_text(j)})")
        if change_places(i, j, law.when, lefts):
            atoms.append(f"(= {variable_text(i)} (ordering-min {variable_text(i)} {variable_text(j)}))")
    atoms += ['(callback "judge" {number} pj pq pn po pm)', f"(= pc (py-call pj pq pn {' '.join(call)}))", "(!= pc po)"]
    texts = _made_texts(rights, variable_text, variables)
    unions = " ".join(f"(union {variable_text(lhs)} {text})" for lhs, text in zip(lefts, texts, strict=True))
    text = f'(rule ({" ".join(atoms)}) ({unions}) :ruleset law{{name}} :name "rule{{name}}")'
    makes, grows = _signatures(rights), len(construction_order(rights))
    return Rule(name, law, text, judge, _signatures(lefts), makes, grows, _edges(lefts))


def _idle(lefts: tuple[Term, ...]) -> list[tuple[Term, Term]]:
    """Every operator with each of its arguments. Where the two are equal, as with ``x * 1``, what a rule makes is a
    longer way to what is there already, which other rules make longer still, without end."""
    pairs = [(term, arg) for term in walk_once(lefts) for arg in term.args if arg.op != LITERAL]
    return list({(term_key(a), term_key(b)): (a, b) for a, b in pairs}.values())


def change_places(a: Term, b: Term, when: tuple[Guard, ...], lefts: tuple[Term, ...]) -> bool:
    """Whether a renaming of variables makes each of `a` and `b` the other, and leaves the rest and the guards alone."""
    renamed: dict[Any, Any] = {}
    if not (_renames(a, b, renamed) and _renames(b, a, renamed)):
        return False
    for g in when:
        keys = [v if isinstance(v, Attr) else term_key(v) for v in g.args]
        others = [renamed.get(k, k) for k in keys]
        each = g.constant or g.varies or g.in_program  # said of each of its tensors
        if others != keys and not (each and set(others) == set(keys)):
            return False
    return all(_renames(t, t, renamed) for t in lefts if t is not a and t is not b)


def _renames(a: Any, b: Any, renamed: dict[Any, Any]) -> bool:
    """Whether `a` becomes `b` by `renamed`, which is extended where it says nothing."""
    if isinstance(a, Attr):
        return isinstance(b, Attr) and renamed.setdefault(a, b) == b
    if not isinstance(a, Term):
        return bool(a == b)
    if not isinstance(b, Term) or (a.op, len(a.args)) != (b.op, len(b.args)):
        return False
    if a.op == VARIABLE:
        return bool(renamed.setdefault(term_key(a), term_key(b)) == term_key(b))
    pairs = zip((*a.args, *a.attrs), (*b.args, *b.attrs), strict=True)
    return all(_renames(x, y, renamed) for x, y in pairs)


def _signatures(side: tuple[Term, ...]) -> tuple[Operator, ...]:
    return tuple(dict.fromkeys(_operator(t) for t in walk_once(side) if t.op != VARIABLE))


def _operator(term: Term) -> Operator:
    return term.op if term.op != LITERAL else "const", len(term.args)


def _edges(side: tuple[Term, ...]) -> frozenset[Edge]:
    return frozenset(
        (_operator(term), position, _operator(arg))
        for term in walk_once(side)
        for position, arg in enumerate(term.args)
        if arg.op != VARIABLE
    )


def walk_once(side: tuple[Term, ...]) -> list[Term]:
    """`walk` of each term, shared ones once."""
    return list(dict.fromkeys(t for term in side for t in walk(term)))


def _made_texts(rights: tuple[Term, ...], variable_text: Any, variables: dict[Any, str]) -> list[str]:
    """The made terms; what the match holds already is passed on, the rest is fetched from the judge's answer."""
    position = 0
    texts: dict[Term, str] = {}
    for term in construction_order(rights):
        keys: list[Any] = [a if isinstance(a, Attr) else None for a in term.attrs]
        keys += [("type", a.name) if a.op == VARIABLE else None for a in term.args]
        fetched = [f"(py-call pm pq pc (py-from-int {position + i}))" for i in range(len(keys))]
        position += len(keys)
        parts = [text if key is None else variables[key] for key, text in zip(keys, fetched, strict=True)]
        parts += [variable_text(a) if a.op == VARIABLE else texts[a] for a in term.args]
        op = "o_const" if term.op == LITERAL else constructor(term.op, len(term.args))
        texts[term] = f"({' '.join([op, *parts])})"
    return [variable_text(rhs) if rhs.op == VARIABLE else texts[rhs] for rhs in rights]
