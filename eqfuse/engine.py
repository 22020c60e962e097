"""The one place that talks to egglog: sorts, constructors, Python objects in and out, rounds, checks.

In: graph nodes and rules. Out: rows of the e-graph. Used by `eqfuse.egraph` (saturation) and `eqfuse.proof`.
Every operator is one constructor ``(o_op attributes… argument-types… arguments…)`` of sort Tensor; attributes and types
are numbers that stand for Python objects (egglog would pickle the objects themselves).
"""

from __future__ import annotations

import itertools
import math
import time
import weakref
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from egglog import bindings

from eqfuse.dtypes import epsilon, inexact, kind
from eqfuse.facts import Fact
from eqfuse.ir import Literal, Node, TensorType, topological
from eqfuse.ops import TABLE, Role, row
from eqfuse.ops.ranges import COMMUTE, TWICE, exchanges, range_of
from eqfuse.rewrites.law import APPROXIMATE, EXACT
from eqfuse.rewrites.rule import Rule, constructor

_engines: weakref.WeakValueDictionary[int, Engine] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_LARGEST_FOLDED = 4096  # elements of a constant that is computed here rather than when the program is built
_OPERATORS = list(TABLE)
_CHUNK = 32  # commands per parsed text: every span copies the whole text

_HEADER = """
(sort Tensor)
(relation known (Tensor))
(relation varies (Tensor))
(relation given (Tensor))
(ruleset facts)
(ruleset ranges)
"""

_CALLED = "__import__('functools').partial(__import__('eqfuse.engine', fromlist=['judge']).{function}, {engine})"
_RANGES = '(function range (Tensor) PyObject :merge (py-call (py-eval "{meet}" (py-dict) (py-dict)) old new))'

_parsed: dict[str, tuple[Any, ...]] = {}

Fold = tuple[str, tuple[Any, ...], tuple[Literal, ...], Literal]  # operator, attributes, arguments, their value


def judge(engine: int, rule: int, *values: int) -> int:
    """Called by a match of a law: the number of the judge's answer, 0 to decline."""
    return _engines[engine].judge(rule, values)


def fold(engine: int, op: int, *values: int) -> int:
    """Called by an operator over constants: the number of the constant it makes, 0 to leave it."""
    return _engines[engine].fold(op, values)


def made(engine: int, answer: int, position: int) -> int:
    """Called by a match of a law: the number of one value of an answer."""
    return _engines[engine].answers[answer][position]


def derive(engine: int, op: int, *values: int) -> int:
    """Called by an operator: the number of what is known of its values, given what is known of its arguments'."""
    return _engines[engine].derive(op, values)


def meet(engine: int, old: int, new: int) -> int:
    """Called by two facts about one class: the number of what is known of it then."""
    return _engines[engine].meet(old, new)


def mirror(engine: int, axes: int) -> int:
    """Called by ``x + x.transpose(axes)`` and the like: the number of the fact that it is symmetric, or 0."""
    return _engines[engine].mirror(axes)


class Engine:
    """A live e-graph of tensors."""

    def __init__(self) -> None:
        self._egraph = bindings.EGraph()
        self._objects: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._constants: dict[TensorType, list[Literal]] = {}
        self._snaps = False
        self.number(None)  # 0 says no
        self._rules: list[Rule] = []
        self._waiting: list[Rule] = []
        self._rulesets: dict[str, str] = {}  # name of each combination of laws that was run
        self._room: float = 0
        self._until = 0.0
        self.cut: str | None = None  # the limit at which the last round began to decline matches
        self.seconds: dict[str, float] = {}  # what the last round spent on each rule
        self._clock: float | None = None  # when a judge last answered in this round
        self._judged: dict[tuple[int, ...], int] = {}
        self.answers: list[tuple[int, ...]] = [()]
        self._derived: dict[tuple[int, ...], int] = {}
        self._names: dict[Node, str] = {}
        self.constructors: dict[str, tuple[str, int, int]] = {}  # name: (op, attributes, arguments)
        self._proofs = 0
        self.facts = self.ranges = False
        self._begun = self._partial = False
        self._number = next(_numbers)
        _engines[self._number] = self
        self.run(_HEADER)
        for f in ("judge", "made", "fold", "derive", "mirror"):
            self.run_once([f'(let ${f} (py-eval "{self._called(f)}" (py-dict) (py-dict)))'])

    def _called(self, function: str) -> str:
        """The Python text of `function` of this module, of this engine."""
        return _CALLED.format(function=function, engine=self._number)

    def judge(self, rule: int, values: tuple[int, ...]) -> int:
        before = self._clock or time.thread_time()
        key = (rule, *values)
        answer = self._judged.get(key)
        if answer is None:
            values_made = self._rules[rule].judge(*(self._objects[v] for v in values))
            answer = 0
            if values_made is not None:
                answer = len(self.answers)
                self.answers.append(tuple(map(self.number, values_made)))
            self._judged[key] = answer
        now = self._clock = time.thread_time()
        name = self._rules[rule].name
        self.seconds[name] = self.seconds.get(name, 0.0) + now - before
        return answer if answer and self._admits(self._rules[rule].grows, now) else 0

    def _admits(self, grows: int, now: float) -> bool:
        """Whether the round still has room and time for a match that makes `grows` nodes."""
        if self.cut is None:
            self._room -= grows
            if self._room < 0:
                self.cut = "nodes"
            elif now > self._until:
                self.cut = "seconds"
        return self.cut is None

    def fold(self, op: int, values: tuple[int, ...]) -> int:
        """Compute a small constant. One that an earlier constant equals up to rounding becomes that one, so that
        constants reached in different orders do not multiply."""
        key = (-1 - op, *values)
        answer = self._judged.get(key)
        if answer is None:
            name = _OPERATORS[op]
            given, n_attrs = [self._objects[v] for v in values], len(row(name).attrs)
            types, attrs = [v.type for v in given[n_attrs:]], given[:n_attrs]
            answer = 0
            if row(name).type(types, tuple(attrs)).size <= _LARGEST_FOLDED:
                with np.errstate(all="ignore"):
                    array = np.asarray(row(name).meaning(*(v.array for v in given[n_attrs:]), *attrs))
                if kind(array.dtype) not in "fc" or np.isfinite(array).all():
                    answer = self.number(self._snapped(Literal(array)))
            self._judged[key] = answer
        return answer

    def folds(self) -> list[Fold]:
        """The constants computed so far, in that order."""
        found: list[Fold] = []
        for (op, *values), answer in self._judged.items():
            if op < 0 and answer:
                name = _OPERATORS[-1 - op]
                given, n_attrs = [self._objects[v] for v in values], len(row(name).attrs)
                found.append((name, tuple(given[:n_attrs]), tuple(given[n_attrs:]), self._objects[answer]))
        return found

    def _snapped(self, literal: Literal) -> Literal:
        same_type = self._constants.setdefault(literal.type, [])
        if self._snaps and inexact(literal.array.dtype):
            slack = 16 * epsilon(literal.array.dtype)
            for other in same_type:
                if np.allclose(other.array, literal.array, rtol=slack, atol=0):
                    return other
        if literal not in same_type:
            same_type.append(literal)
        return literal

    def derive(self, op: int, values: tuple[int, ...]) -> int:
        key = (op, *values)
        answer = self._derived.get(key)
        if answer is None:
            name = _OPERATORS[op]
            n_attrs = len(row(name).attrs)
            given = [self._objects[v] for v in values]
            arity = (len(given) - n_attrs) // 2
            attrs, types, facts = tuple(given[:n_attrs]), given[n_attrs : n_attrs + arity], given[n_attrs + arity :]
            answer = self._derived[key] = self.number(range_of(name, attrs, types, facts))
        return answer

    def meet(self, old: int, new: int) -> int:
        """Of equal values both facts hold. What a law of class APPROXIMATE calls equal may be NaN on one side, where a
        fact says nothing: once such laws have begun, only what both facts say is kept, and no more is derived."""
        join = self._partial and self._begun
        return self.number((Fact.join if join else Fact.meet)(self._objects[old], self._objects[new]))

    def mirror(self, axes: int) -> int:
        return self.number(Fact(symmetric=True)) if exchanges(self._objects[axes]) else 0

    def number(self, value: Any) -> int:
        """The number that stands for the Python object `value` in this e-graph."""
        key = (type(value), value)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._objects)
            self._objects.append(value)
        return found

    def object(self, value: Any) -> str:
        """The expression that stands for the Python object `value`."""
        return f"(py-from-int {self.number(value)})"

    def run(self, *texts: str) -> list[Any]:
        """Run commands whose text recurs (rules, schedules): parsed once per process."""
        commands: list[Any] = []
        for text in texts:
            parsed = _parsed.get(text)
            if parsed is None:
                parsed = _parsed[text] = tuple(self._egraph.parse_program(text))
            commands += parsed
        return self._egraph.run_program(*commands)

    def run_once(self, lines: Sequence[str]) -> None:
        """Run commands whose text is this e-graph's own, in small pieces."""
        for start in range(0, len(lines), _CHUNK):
            self._egraph.run_program(*self._egraph.parse_program("\n".join(lines[start : start + _CHUNK])))

    def declare(self, op: str, arity: int) -> str:
        """The constructor of `op`, declared on first need."""
        name = constructor(op, arity)
        if name not in self.constructors:
            n_attrs = len(row(op).attrs)
            self.constructors[name] = (op, n_attrs, arity)
            inputs = " ".join(["PyObject"] * (n_attrs + arity) + ["Tensor"] * arity)
            self.run(f"(constructor {name} ({inputs}) Tensor)")
            if self.facts:
                self._fact(name)
            if self.ranges:
                self._range(name)
        return name

    def fold_constants(self) -> None:
        """Derive which tensors are computable when the program is built, and which vary; compute small constants."""
        if self.facts:
            return
        self.declare("const", 0)
        self.facts = True
        for name in self.constructors:
            self._fact(name)

    def settle(self) -> None:
        """Fold constants, and merge what is equal because its arguments are, after nodes were added."""
        if self.facts:
            self.run("(run-schedule (saturate (run facts)))")

    def track_ranges(self) -> None:
        """Derive what is known of every tensor's values."""
        if not self.ranges:
            self.run_once([_RANGES.format(meet=self._called("meet"))])  # a global of egglog cannot stand in a merge
            self.declare("transpose", 1)
            self.ranges = True
            for name in self.constructors:
                self._range(name)

    def _range(self, name: str) -> None:
        op, n_attrs, arity = self.constructors[name]
        hidden = " ".join(f"pa{i}" for i in range(n_attrs + arity))
        args = [f"px{i}" for i in range(arity)]
        term = f"(= pr ({name} {hidden} {' '.join(args)}))"
        given = " ".join(f"(= pf{i} (range {a}))" for i, a in enumerate(args))
        facts = " ".join(f"pf{i}" for i in range(arity))
        call = f"(py-call $derive (py-from-int {_OPERATORS.index(op)}) {hidden} {facts})"
        rules = [f"(rule ({term} {given} (= pf {call})) ((set (range pr) pf)) :ruleset ranges)"]
        if op in COMMUTE:  # with its own transpose it is symmetric
            mirrored = f"(= {args[1]} (o_transpose pp pt {args[0]})) (= pf (py-call $mirror pp))"
            rules.append(f"(rule ({term} {mirrored} (!= pf (py-from-int 0))) ((set (range pr) pf)) :ruleset ranges)")
        if op in TWICE:
            once = f"(= pr ({name} pt pt px px)) (= pf (range px))"
            call = f"(py-call $derive (py-from-int {_OPERATORS.index(TWICE[op])}) pt pf)"
            rules.append(f"(rule ({once} (= pg {call})) ((set (range pr) pg)) :ruleset ranges)")
        self.run(*rules)

    def _fact(self, name: str) -> None:
        op, n_attrs, arity = self.constructors[name]
        if op == "input":
            return
        hidden = [f"pa{i}" for i in range(n_attrs + arity)]
        args = [f"px{i}" for i in range(arity)]
        knowns = " ".join(f"(known {a})" for a in args)
        term = f"(= pr ({' '.join([name, *hidden, *args])}))"
        rules = [f"(rule ({term} {knowns}) ((known pr)) :ruleset facts)"]
        rules += [f"(rule ({term} (varies {a})) ((varies pr)) :ruleset facts)" for a in args]
        if args and row(op).role in (Role.ELEMENTWISE, Role.VIEW):
            constants = " ".join(f"(= {a} (o_const pl{i}))" for i, a in enumerate(args))
            values = " ".join([*hidden[:n_attrs], *(f"pl{i}" for i in range(arity))])
            call = f"(py-call $fold (py-from-int {_OPERATORS.index(op)}) {values})"
            body = f"{term} {constants} (= pc {call}) (!= pc (py-from-int 0))"
            rules.append(f"(rule ({body}) ((union pr (o_const pc))) :ruleset facts)")
        self.run(*rules)

    def add(self, nodes: Iterable[Node]) -> None:
        """Insert `nodes` (arguments first), each bound to the global that `name` gives.

        No global's name ends in a digit: egglog 13.2 makes names of its own by appending digits, and in a large e-graph
        read the global ``$x17`` as ``$x171``.
        """
        lines = []
        for n in nodes:
            if n in self._names:
                continue
            term = self.term(n, [self._names[a] for a in n.args])
            name = self._names[n] = f"$node{len(self._names)}_"
            lines.append(f"(let {name} {term})")
            if n.op == "input":
                lines.append(f"({'known' if n.attrs[2] else 'varies'} {name})")
            lines.append(f"(given {name})")
        self.run_once(lines)

    def term(self, n: Node, args: Sequence[str]) -> str:
        """The expression for `n` over the expressions `args`."""
        name = self.declare(n.op, len(n.args))
        return f"({' '.join([name, *map(self.object, n.attrs), *(self.object(a.type) for a in n.args), *args])})"

    def name(self, n: Node) -> str:
        """The global bound to `n`."""
        return self._names[n]

    def load(self, rules: Sequence[Rule]) -> None:
        """Take laws, and the facts they rest on. A rule waits until there are operators that it can match: egglog takes
        longer to read one than most programs take to saturate."""
        if not rules:
            return
        self._waiting += rules
        self._snaps |= any(rule.law.exactness > EXACT for rule in rules)
        self._partial |= any(rule.law.exactness is APPROXIMATE for rule in rules)
        self.declare("const", 0)
        self.fold_constants()

    @property
    def laws(self) -> list[str]:
        """Names of the laws that were loaded."""
        return list(dict.fromkeys(rule.law.name for rule in (*self._rules, *self._waiting)))

    def others(self, laws: Collection[str]) -> frozenset[str]:
        """Names of the rules of all laws but `laws`."""
        return frozenset(rule.name for rule in (*self._rules, *self._waiting) if rule.law.name not in laws)

    def _wake(self, resting: Collection[str]) -> None:
        """Read the rules whose operators have come up, unless they are `resting`."""
        functions = self._egraph.freeze().functions
        present = {
            (op, n) for name, (op, _, n) in self.constructors.items() if name in functions and functions[name].rows
        }
        ready = [rule for rule in self._waiting if rule.name not in resting and present.issuperset(rule.reads)]
        if not ready:
            return
        self._waiting = [rule for rule in self._waiting if rule not in ready]
        for rule in ready:
            for op, arity in rule.makes:
                self.declare(op, arity)
        if not self.ranges and any(g.wanted for rule in ready for g in rule.law.when):
            self.track_ranges()
            self.run("(run-schedule (saturate (run facts) (run ranges)))")
        for rule in ready:
            at = len(self._rules)
            self._rules.append(rule)
            self.run(f"(ruleset law{at})", rule.text.replace("{number}", str(at)))
            if rule.pairs:
                self._relate(f"pairs{at}", rule.pairs(list(self._names), self.known()))

    def _relate(self, relation: str, pairs: Sequence[tuple[Node, Node]]) -> None:
        """Insert the second node of every pair, and relate it to the first."""
        self.add(topological([other for _, other in pairs]))
        self.run_once([f"({relation} {self.name(n)} {self.name(other)})" for n, other in pairs])

    def known(self) -> set[Node]:
        """The nodes inserted so far that are computed when the program is built."""
        known: set[Node] = set()
        for n in self._names:
            if n.op == "const" or (n.op == "input" and n.attrs[2]) or (n.args and known.issuperset(n.args)):
                known.add(n)
        return known

    def round(self, room: float = math.inf, until: float = math.inf, resting: frozenset[str] = frozenset()) -> Any:
        """Facts to their fixpoint, then one round of the rules that are not `resting`. The run report.

        Once the matches may have made more than `room` nodes, or the clock has passed `until`, the others are declined
        and `cut` says why: egglog itself cannot be interrupted. What a resting rule misses now it matches later.

        egglog does not time its rules, so `seconds` is read off the calls of the judges, which come rule by rule: a
        rule is charged the time since the call before, for its search and its judge. The rest of the round, before the
        first call and after the last, where nodes are made and merged, is shared out by matches. Facts are no rule's.
        """
        self._room, self._until, self.cut = room, until, None
        if self.facts:
            ranges = "(run ranges)" if self.ranges and not (self._partial and self._begun) else ""
            self.run(f"(run-schedule (saturate (run facts) {ranges}))")
        self._wake(resting)
        self._begun = True
        awake = " ".join(f"law{at}" for at, rule in enumerate(self._rules) if rule.name not in resting)
        if awake not in self._rulesets:
            self._rulesets[awake] = f"laws{len(self._rulesets)}"
            self.run(f"(unstable-combined-ruleset {self._rulesets[awake]} {awake})")
        self.seconds, self._clock, started = {}, None, time.thread_time()
        report = self.run(f"(run {self._rulesets[awake]} 1)")[0].report
        left = time.thread_time() - started - sum(self.seconds.values())
        matches = sum(report.num_matches_per_rule.values())
        for name, count in report.num_matches_per_rule.items():
            if count:
                self.seconds[name] = self.seconds.get(name, 0.0) + left * count / matches
        return report

    @property
    def size(self) -> int:
        """Number of operator nodes."""
        functions = self._egraph.freeze().functions
        return sum(len(functions[name].rows) for name in self.constructors if name in functions)

    def rows(self) -> tuple[list[tuple[str, tuple, tuple, Any]], dict[Node, Any]]:
        """((op, attributes, argument classes, class) of every node, class of every inserted node).

        Classes are opaque values.
        """
        frozen = self._egraph.freeze().functions
        objects: dict[Any, Any] = {}
        rows = []

        def value(v: Any) -> Any:
            if v not in objects:
                number: Any = self._egraph.value_to_pyobject(v)
                objects[v] = self._objects[number]
            return objects[v]

        for name, (op, n_attrs, arity) in self.constructors.items():
            for r in frozen[name].rows if name in frozen else ():
                attrs = tuple(map(value, r.inputs[:n_attrs]))
                rows.append((op, attrs, tuple(r.inputs[n_attrs + arity :]), r.output))
        return rows, {n: frozen[name].rows[0].output for n, name in self._names.items()}

    def known_values(self) -> dict[Node, Fact]:
        """What is known of the values of every inserted node, where a law asked."""
        frozen = self._egraph.freeze().functions
        numbers: dict[Any, Any] = {r.inputs[0]: self._egraph.value_to_pyobject(r.output) for r in frozen["range"].rows}
        facts = {owner: self._objects[number] for owner, number in numbers.items()}
        return {n: facts[frozen[name].rows[0].output] for n, name in self._names.items()}

    def begin_proof(self, declarations: str) -> int:
        """The number of a new proof; the first one makes `declarations`."""
        if not self._proofs:
            self.run(declarations)
        self._proofs += 1
        return self._proofs

    def equal(self, a: str, b: str) -> bool:
        """Whether the two expressions stand in one class now."""
        return self.all_equal([(a, b)])

    def same(self, pairs: Iterable[tuple[str, str]]) -> list[bool]:
        """Which of the pairs of globals stand in one class now: for many of them at once."""
        frozen = self._egraph.freeze().functions
        return [bool(frozen[a].rows[0].output == frozen[b].rows[0].output) for a, b in pairs]

    def all_equal(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether the two expressions of every pair stand in one class now."""
        try:
            self.run_once([f"(check {' '.join(f'(= {a} {b})' for a, b in pairs)})"])
        except bindings.EggSmolError:
            return False
        return True
