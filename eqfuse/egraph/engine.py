"""The only module that calls egglog: sorts, constructors, Python objects in and out, rounds, checks.

In: graph nodes and rules. Out: rows of the e-graph. Used by `saturate` and `proof`.
Every operator is one constructor ``(o_op attributes… argument-types… arguments…)`` of sort Tensor; attributes and types
are numbers that stand for Python objects (egglog would pickle the objects themselves).
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqfuse.egraph.callbacks import OPERATORS, Callbacks, Fold
from eqfuse.egraph.rules import Rule, constructor
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role, row
from eqfuse.ops.facts import Fact
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT

_CHUNK = 32  # commands per parsed text: every span copies the whole text
# Arguments, beyond which an operator has no rules for facts: a rule for each, of as many atoms, would be quadratic in
# memory. What is known of such a node when it is inserted is computed here.
WIDE = 16

_HEADER = """
(sort Tensor)
(relation constant (Tensor))
(relation varies (Tensor))
(relation in_program (Tensor))
(function named (i64) Tensor :merge old)
(ruleset facts)
(ruleset ranges)
"""

_RANGES = '(function range (Tensor) PyObject :merge (py-call (py-eval "{meet}" (py-dict) (py-dict)) old new))'

_parsed: dict[str, tuple[Any, ...]] = {}


@dataclass(frozen=True)
class Round:
    """What a round did: whether anything has changed, and how often each rule that matched did, by its name."""

    updated: bool
    matches: dict[str, int]


class Engine:
    """A live e-graph of tensors."""

    def __init__(self) -> None:
        from egglog import bindings  # slow to import

        self._egraph = bindings.EGraph()
        self._callbacks = Callbacks()
        self._rules = self._callbacks.rules  # that egglog has read
        self._current: dict[str, int] = {}  # the number under which each was read last
        self._waiting: list[Rule] = []
        self._rulesets: dict[str, str] = {}  # name of each combination of laws that was run
        self._names: dict[Node, str] = {}
        self._constants: set[Node] = set()
        self._bound = 0
        self.constructors: dict[str, tuple[str, int, int]] = {}  # name: (op, attributes, arguments)
        self.facts = self.ranges = False
        self._proves = False
        self.run(_HEADER)
        for f in ("judge", "made", "fold", "derive", "mirror"):
            self.run_once([f'(let ${f} (py-eval "{self._callbacks.call(f)}" (py-dict) (py-dict)))'])

    def object(self, value: Any) -> str:
        """The expression that stands for the Python object `value`."""
        return f"(py-from-int {self._callbacks.number(value)})"

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
        """Derive the facts about every tensor's values."""
        if not self.ranges:
            meet = self._callbacks.call("meet")  # a global of egglog cannot stand in a merge
            self.run_once([_RANGES.format(meet=meet)])
            self.declare("transpose", 1)
            self.ranges = True
            for name in self.constructors:
                self._range(name)
            self._set_ranges()

    def assume(self, facts: Mapping[Node, Fact]) -> None:
        """Take it as known that the values of these nodes are so."""
        self.track_ranges()
        self.run_once([f"(set (range {self._names[n]}) {self.object(fact)})" for n, fact in facts.items()])

    def _set_ranges(self) -> None:
        """What the rules would derive of the nodes inserted so far, one level of the program after another."""
        found: dict[Node, int] = {}
        for n in self._names:
            hidden = [*map(self._callbacks.number, n.attrs), *(self._callbacks.number(a.type) for a in n.args)]
            found[n] = self._callbacks.derive(OPERATORS.index(n.op), (*hidden, *(found[a] for a in n.args)))
        self.run_once([f"(set (range {self._names[n]}) (py-from-int {fact}))" for n, fact in found.items()])

    def _range(self, name: str) -> None:
        op, n_attrs, arity = self.constructors[name]
        if arity > WIDE:
            return
        hidden = " ".join(f"pa{i}" for i in range(n_attrs + arity))
        args = [f"px{i}" for i in range(arity)]
        term = f"(= pr ({name} {hidden} {' '.join(args)}))"
        given = " ".join(f"(= pf{i} (range {a}))" for i, a in enumerate(args))
        facts = " ".join(f"pf{i}" for i in range(arity))
        call = f"(py-call $derive (py-from-int {OPERATORS.index(op)}) {hidden} {facts})"
        rules = [f"(rule ({term} {given} (= pf {call})) ((set (range pr) pf)) :ruleset ranges)"]
        described = row(op)
        if described.commutes and not described.either_zero:  # with its own transpose it is symmetric
            mirrored = f"(= {args[1]} (o_transpose pp pt {args[0]})) (= pf (py-call $mirror pp))"
            rules.append(f"(rule ({term} {mirrored} (!= pf (py-from-int 0))) ((set (range pr) pf)) :ruleset ranges)")
        if described.twice is not None:
            once = f"(= pr ({name} pt pt px px)) (= pf (range px))"
            call = f"(py-call $derive (py-from-int {OPERATORS.index(described.twice)}) pt pf)"
            rules.append(f"(rule ({once} (= pg {call})) ((set (range pr) pg)) :ruleset ranges)")
        self.run(*rules)

    def _fact(self, name: str) -> None:
        op, n_attrs, arity = self.constructors[name]
        if op == "input" or arity > WIDE:
            return
        hidden = [f"pa{i}" for i in range(n_attrs + arity)]
        args = [f"px{i}" for i in range(arity)]
        constant = " ".join(f"(constant {a})" for a in args)
        term = f"(= pr ({' '.join([name, *hidden, *args])}))"
        rules = [f"(rule ({term} {constant}) ((constant pr)) :ruleset facts)"]
        rules += [f"(rule ({term} (varies {a})) ((varies pr)) :ruleset facts)" for a in args]
        if args and row(op).role in (Role.ELEMENTWISE, Role.VIEW):
            constants = " ".join(f"(= {a} (o_const pl{i}))" for i, a in enumerate(args))
            values = " ".join([*hidden[:n_attrs], *(f"pl{i}" for i in range(arity))])
            call = f"(py-call $fold (py-from-int {OPERATORS.index(op)}) {values})"
            body = f"{term} {constants} (= pc {call}) (!= pc (py-from-int 0))"
            rules.append(f"(rule ({body}) ((union pr (o_const pc))) :ruleset facts)")
        self.run(*rules)

    def add(self, nodes: Iterable[Node]) -> None:
        """Insert `nodes` (arguments first), each under the name that `name` gives."""
        lines: list[str] = []
        for n in nodes:
            if n in self._names:
                continue
            name = self._names[n] = self.bind(self.term(n, [self._names[a] for a in n.args]), lines)
            if n.is_constant_leaf or (n.args and self._constants.issuperset(n.args)):
                self._constants.add(n)
            if n.op == "input" or len(n.args) > WIDE:
                lines.append(f"({'constant' if n in self._constants else 'varies'} {name})")
            if self.ranges and len(n.args) > WIDE:
                lines.append(f"(set (range {name}) {self.object(Fact())})")
            lines.append(f"(in_program {name})")
        self.run_once(lines)

    def bind(self, term: str, lines: list[str], function: str = "named") -> str:
        """A name for `term`, a row of `function`, by the command that is added to `lines`.

        Each global of egglog would be a table, and every command takes time for all tables.
        """
        name = f"({function} {self._bound})"
        self._bound += 1
        lines.append(f"(set {name} {term})")
        return name

    def term(self, n: Node, args: Sequence[str]) -> str:
        """The expression for `n` over the expressions `args`."""
        name = self.declare(n.op, len(n.args))
        return f"({' '.join([name, *map(self.object, n.attrs), *(self.object(a.type) for a in n.args), *args])})"

    def name(self, n: Node) -> str:
        """The name bound to `n`."""
        return self._names[n]

    def load(self, rules: Sequence[Rule]) -> None:
        """Take laws, and the facts they rest on. A rule waits until there are operators that it can match: egglog takes
        longer to read one than most programs take to saturate."""
        if not rules:
            return
        self._waiting += rules
        self._callbacks.snaps |= any(rule.law.exactness > EXACT for rule in rules)
        self._callbacks.partial |= any(rule.law.exactness is APPROXIMATE for rule in rules)
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
        if not self.ranges and any(g.about_values for rule in ready for g in rule.law.when):
            self.track_ranges()
            self.run("(run-schedule (saturate (run facts) (run ranges)))")
        for rule in ready:
            at = self._read(rule)
            if rule.pairs:
                self._relate(f"pairs{at}", rule.pairs(list(self._names), self.constants()))

    def _read(self, rule: Rule) -> int:
        """Let egglog read `rule`, under the next number."""
        at = self._current[rule.name] = len(self._rules)
        self._rules.append(rule)
        self.run(f"(ruleset law{at})", rule.text.replace("{number}", str(at)))
        return at

    def _offer_again(self, resting: Collection[str]) -> None:
        """Read anew the rules that lost matches to the limits of a round, unless they are `resting`: egglog does not
        come back to what was declined."""
        for at in sorted(self._callbacks.declined):
            if self._rules[at].name not in resting:
                self._callbacks.declined.remove(at)
                self._read(self._rules[at])

    def _relate(self, relation: str, pairs: Sequence[tuple[Node, Node]]) -> None:
        """Insert the second node of every pair, and relate it to the first."""
        self.add(topological([other for _, other in pairs]))
        self.run_once([f"({relation} {self.name(n)} {self.name(other)})" for n, other in pairs])

    def constants(self) -> set[Node]:
        """The nodes inserted so far that are computed when the program is built."""
        return set(self._constants)

    def round(self, room: float = math.inf, until: float = math.inf, resting: frozenset[str] = frozenset()) -> Round:
        """Facts to their fixpoint, then one round of the rules that are not `resting`.

        Once the matches may have made more than `room` nodes, or the clock has passed `until`, the others are declined
        and `cut` says why: egglog itself cannot be interrupted. A later round offers them again, as it does what a
        resting rule misses now.

        egglog does not time its rules, so `seconds` is read off the calls of the judges, which come rule by rule: a
        rule is charged the time since the call before, for its search and its judge. The rest of the round, before the
        first call and after the last, where nodes are made and merged, is shared out by matches. Facts are no rule's.
        """
        self._callbacks.limit(room, until)
        if self.facts:
            ranges = "(run ranges)" if self.ranges and not self._callbacks.joins else ""
            self.run(f"(run-schedule (saturate (run facts) {ranges}))")
        self._offer_again(resting)
        self._wake(resting)
        self._callbacks.begun = True
        awake = " ".join(f"law{at}" for name, at in self._current.items() if name not in resting)
        if awake not in self._rulesets:
            self._rulesets[awake] = f"laws{len(self._rulesets)}"
            self.run(f"(unstable-combined-ruleset {self._rulesets[awake]} {awake})")
        self._callbacks.clear()
        started = time.thread_time()
        report = self.run(f"(run {self._rulesets[awake]} 1)")[0].report
        left = time.thread_time() - started - sum(self.seconds.values())
        numbers = {int(text.removeprefix("rule")): n for text, n in report.num_matches_per_rule.items() if n}
        matches = {self._rules[at].name: n for at, n in numbers.items()}
        for name, count in matches.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + left * count / sum(matches.values())
        return Round(report.updated, matches)

    @property
    def cut(self) -> str | None:
        """The limit at which the last round began to decline matches."""
        return self._callbacks.cut

    @property
    def seconds(self) -> dict[str, float]:
        """What the last round spent on each rule."""
        return self._callbacks.seconds

    def folds(self) -> list[Fold]:
        """The constants computed so far, in that order."""
        return self._callbacks.folds()

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
                objects[v] = self._callbacks.object(number)
            return objects[v]

        for name, (op, n_attrs, arity) in self.constructors.items():
            for r in frozen[name].rows if name in frozen else ():
                attrs = tuple(map(value, r.inputs[:n_attrs]))
                rows.append((op, attrs, tuple(r.inputs[n_attrs + arity :]), r.output))
        classes = self._classes()
        return rows, {n: classes[name] for n, name in self._names.items()}

    def _classes(self) -> dict[str, Any]:
        """The class of every name."""
        rows = self._egraph.freeze().functions["named"].rows
        return {f"(named {self._egraph.value_to_i64(r.inputs[0])})": r.output for r in rows}

    def known_values(self) -> dict[Node, Fact]:
        """What is known of the values of every inserted node, where a law asked."""
        frozen = self._egraph.freeze().functions
        numbers: dict[Any, Any] = {r.inputs[0]: self._egraph.value_to_pyobject(r.output) for r in frozen["range"].rows}
        facts = {owner: self._callbacks.object(number) for owner, number in numbers.items()}
        classes = self._classes()
        return {n: facts[classes[name]] for n, name in self._names.items()}

    def begin_proof(self, declarations: str) -> None:
        """Make `declarations`, unless an earlier proof has."""
        if not self._proves:
            self.run(declarations)
        self._proves = True

    def equal(self, a: str, b: str) -> bool:
        """Whether the two expressions stand in one class now."""
        return self.all_equal([(a, b)])

    def same(self, pairs: Iterable[tuple[str, str]]) -> list[bool]:
        """Which of the pairs of names stand in one class now: for many of them at once."""
        classes = self._classes()
        return [bool(classes[a] == classes[b]) for a, b in pairs]

    def all_equal(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether the two expressions of every pair stand in one class now."""
        from egglog import bindings

        try:
            self.run_once([f"(check {' '.join(f'(= {a} {b})' for a, b in pairs)})"])
        except bindings.EggSmolError:
            return False
        return True
