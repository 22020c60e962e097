"""The live e-graph: nodes in and out, facts, rounds of laws, checks.

In: graph nodes and rules. Out: rows of the e-graph. Used by `saturate` and `proof`. What egglog reads before there are
nodes is in `declarations`.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.egraph import pool
from eqfuse.egraph.callbacks import NUMBERED_OPERATORS, Callbacks, Fold
from eqfuse.egraph.declarations import WIDEST, declaration, expected, facts_of, law_texts, range_rules, wanted
from eqfuse.egraph.rules import Edge, Operator, Rule, constructor
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import row
from eqfuse.ops.facts import Fact
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT


@dataclass(frozen=True)
class Round:
    """What a round did: whether anything has changed, and how often each rule that matched did, by its name."""

    updated: bool
    matches: dict[str, int]


class Engine:
    """A live e-graph of tensors."""

    def __init__(self, nodes: Iterable[Node] = (), rules: Collection[Rule] = ()) -> None:
        """`nodes` and `rules`: what will be inserted and matched, as far as is known."""
        nodes = list(nodes)
        operators = dict.fromkeys((n.op, len(n.args)) for n in nodes)
        self._expected = dict.fromkeys(expected(nodes, rules))
        self._declarations = pool.lend(wanted(operators, self._expected))
        self._egraph = self._declarations.egraph
        self._callbacks = Callbacks(self._declarations.number)
        weakref.finalize(self, pool.give_back, self._declarations, pool.home(), self._callbacks).atexit = False
        self._read: dict[str, Rule] = {}  # the laws that are run, by the names under which egglog has read them
        self._current: dict[Rule, str] = {}  # the name under which each was read last
        self._waiting: list[Rule] = []
        self._order: dict[Rule, int] = {}  # by when there were first all operators of a rule
        self._rulesets: dict[str, str] = {}  # name of each combination of rulesets that was run
        self._names: dict[Node, str] = {}
        self._constants: set[Node] = set()
        self._bound = 0
        self.constructors: dict[str, tuple[str, int, int]] = {}  # of this program, name: (op, attributes, arguments)
        self.facts = self.ranges = False
        self.seconds: dict[str, float] = {}  # what the last round spent on each rule
        self._facts: dict[str, str] = {}  # the rulesets that derive them, by constructor
        self._ranges: dict[str, str] = {"range": "ranges_known"}

    def object(self, value: Any) -> str:
        """The expression that stands for the Python object `value`."""
        return f"(py-from-int {self._callbacks.number(value)})"

    def run(self, *texts: str) -> list[Any]:
        """Run commands whose text recurs (schedules): parsed once per process."""
        return self._declarations.run(*texts)

    def run_once(self, lines: Sequence[str]) -> None:
        """Run commands whose text is this e-graph's own, in small pieces."""
        self._declarations.run_once(lines)

    def declare(self, op: str, arity: int) -> str:
        """The constructor of `op`, declared on first need."""
        name = constructor(op, arity)
        if name not in self.constructors:
            self._declarations.require(declaration(op, arity))
            self.constructors[name] = (op, len(row(op).attrs), arity)
            self._derive_of(name)
        return name

    def _derive_of(self, name: str) -> None:
        """Read the rules for the facts of a constructor."""
        op, _, arity = self.constructors[name]
        for asked, rulesets, rules in ((self.facts, self._facts, facts_of), (self.ranges, self._ranges, range_rules)):
            if asked and name not in rulesets and (texts := rules(op, arity)):
                self._declarations.require(*texts)
                rulesets[name] = texts[0].split()[1].rstrip(")")

    def fold_constants(self) -> None:
        """Derive which tensors are computable when the program is built, and which vary; compute small constants."""
        if self.facts:
            return
        self.declare("const", 0)
        self.facts = True
        for name in self.constructors:
            self._derive_of(name)

    def settle(self) -> None:
        """Fold constants, and merge what is equal because its arguments are, after nodes were added."""
        self._derive(ranges=False)

    def _derive(self, ranges: bool) -> None:
        """Facts to their fixpoint: by the rules for this program's operators alone, in the order in which it came to
        them."""
        wanted = [self._facts, self._ranges] if ranges else [self._facts]
        rulesets = [self._combined(each.values()) for each in wanted if each]
        if rulesets:
            self.run(f"(run-schedule (saturate {' '.join(f'(run {name})' for name in rulesets)}))")

    def _combined(self, rulesets: Iterable[str]) -> str:
        """One ruleset that runs `rulesets` in this order."""
        key = " ".join(rulesets)
        if key not in self._rulesets:
            self._rulesets[key] = f"rulesets{len(self._rulesets)}"
            self.run(f"(unstable-combined-ruleset {self._rulesets[key]} {key})")
        return self._rulesets[key]

    def track_ranges(self) -> None:
        """Derive the facts about every tensor's values."""
        if not self.ranges:
            self.declare("transpose", 1)
            self.ranges = True
            for name in self.constructors:
                self._derive_of(name)
            self._set_ranges()

    def assume(self, facts: Mapping[Node, Fact]) -> None:
        """Take it as known that the values of these nodes are so."""
        self.track_ranges()
        self.run_once([f"(set (range {self._names[n]}) {self.object(fact)})" for n, fact in facts.items()])

    def _set_ranges(self) -> None:
        """What the rules would derive of the nodes inserted so far, one level of the program after another."""
        facts: dict[Node, int] = {}
        for n in self._names:
            hidden = [*map(self._callbacks.number, n.attrs), *(self._callbacks.number(a.type) for a in n.args)]
            facts[n] = self._callbacks.derive(NUMBERED_OPERATORS.index(n.op), (*hidden, *(facts[a] for a in n.args)))
        self.run_once([f"(set (range {self._names[n]}) (py-from-int {fact}))" for n, fact in facts.items()])

    def add(self, nodes: Iterable[Node]) -> None:
        """Insert `nodes` (arguments first), each under the name that `name` gives."""
        lines: list[str] = []
        for n in nodes:
            if n in self._names:
                continue
            name = self._names[n] = self.bind(self.term(n, [self._names[a] for a in n.args], lines), lines)
            if n.is_constant_leaf or (n.args and self._constants.issuperset(n.args)):
                self._constants.add(n)
            if n.op == "input" or len(n.args) > WIDEST:
                lines.append(f"({'constant' if n in self._constants else 'varies'} {name})")
            if self.ranges and len(n.args) > WIDEST:
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

    def term(self, n: Node, args: Sequence[str], lines: list[str]) -> str:
        """The expression for `n` over the expressions `args`, once the commands that are added to `lines` were run."""
        name = self.declare(n.op, len(n.args))
        types: list[Any] = [a.type for a in n.args]
        if len(args) > WIDEST:
            types, args = [tuple(types)], [self._vector(args, lines)]
        return f"({' '.join([name, *map(self.object, n.attrs), *map(self.object, types), *args])})"

    def _vector(self, elements: Sequence[str], lines: list[str]) -> str:
        """The vector of many `elements`, joined from short ones: a command takes memory by the square of its length."""
        head, parts = "vec-of", list(elements)
        while len(parts) > WIDEST:
            joined = [f"({head} {' '.join(parts[start : start + WIDEST])})" for start in range(0, len(parts), WIDEST)]
            head, parts = "vec-append", [self.bind(vector, lines, "listed") for vector in joined]
        return f"({head} {' '.join(parts)})"

    def name(self, n: Node) -> str:
        """The name bound to `n`."""
        return self._names[n]

    def load(self, rules: Sequence[Rule]) -> None:
        """Take laws, and the facts they rest on. A rule waits until there are operators that it can match, and read one
        another as in its left side: egglog takes longer to read one than most programs take to saturate."""
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
        return list(dict.fromkeys(rule.law.name for rule in (*self._current, *self._waiting)))

    def others(self, laws: Collection[str]) -> frozenset[str]:
        """Names of the rules of all laws but `laws`."""
        return frozenset(rule.name for rule in (*self._current, *self._waiting) if rule.law.name not in laws)

    def _wake(self, sizes: Mapping[str, int], resting: Collection[str]) -> None:
        """Read the rules whose left sides may have come up, unless they are `resting`. `sizes`: of everything."""
        present = {(op, n) for name, (op, _, n) in self.constructors.items() if sizes.get(name)}
        ready = [rule for rule in self._waiting if rule.name not in resting and present.issuperset(rule.reads)]
        for rule in ready:
            self._order.setdefault(rule, len(self._order))
        edges = self._edges() if any(rule.edges for rule in ready) else frozenset()
        ready = [rule for rule in ready if rule.edges <= edges]
        if not ready:
            return
        read = set(ready)
        self._waiting = [rule for rule in self._waiting if rule not in read]
        for rule in ready:
            for op, arity in rule.makes:
                self.declare(op, arity)
        if not self.ranges and any(g.about_values for rule in ready for g in rule.law.when):
            self.track_ranges()
            self._derive(ranges=True)
        for rule in ready:
            name = self._reads(rule, rule in self._expected)
            if rule.pairs:
                self._relate(f"pairs{name}", rule.pairs(list(self._names), self.constants()))

    def _edges(self) -> Set[Edge]:
        """Which operators read which, by their number of arguments, in any choice of nodes from the classes."""
        frozen = self._egraph.freeze().functions
        heads: dict[Any, set[Operator]] = {}
        read: dict[tuple[Operator, int], set[Any]] = {}
        for name, (op, n_attrs, arity) in self.constructors.items():
            operator = op, arity
            for r in frozen[name].rows if name in frozen else ():
                heads.setdefault(r.output, set()).add(operator)
                for position, arg in enumerate(r.inputs[n_attrs + arity :] if arity <= WIDEST else ()):
                    read.setdefault((operator, position), set()).add(arg)
        return {(*place, head) for place, args in read.items() for a in args for head in heads.get(a, ())}

    def _reads(self, rule: Rule, before: bool = False) -> str:
        """Let egglog read `rule`, under a name of its own unless it was read `before` there were nodes: how egglog goes
        about its search is decided then."""
        name = str(rule.number) if before else f"{rule.number}x{len(self._read)}"
        self._declarations.require(*law_texts(rule, name))
        self._read[name], self._current[rule] = rule, name
        self._callbacks.rules[rule.number] = rule
        return name

    def _offer_again(self, resting: Collection[str]) -> None:
        """Read anew the rules that lost matches to the limits of a round, unless they are `resting`: egglog does not
        come back to what was declined."""
        for rule in [rule for rule in self._current if rule.number in self._callbacks.declined]:
            if rule.name not in resting:
                self._callbacks.offer_again(rule.number)
                self._reads(rule)

    def _relate(self, relation: str, pairs: Sequence[tuple[Node, Node]]) -> None:
        """Insert the second node of every pair, and relate it to the first."""
        self.add(topological([other for _, other in pairs]))
        self.run_once([f"({relation} {self.name(n)} {self.name(other)})" for n, other in pairs])

    def constants(self) -> set[Node]:
        """The nodes inserted so far that are computed when the program is built."""
        return set(self._constants)

    def round(
        self, room: float = math.inf, allowance: Allowance = UNLIMITED, resting: frozenset[str] = frozenset()
    ) -> Round:
        """Facts to their fixpoint, then one round of the rules that are not `resting`.

        Once the matches may have made more than `room` nodes, or the `allowance` is spent, the others are declined and
        `cut` says why: egglog itself cannot be interrupted. A later round offers them again, with those before them,
        which make nothing new and are not charged again; and what a resting rule misses now.

        egglog does not time its rules, so `seconds` is read off the calls of the judges, which come rule by rule: a
        rule is charged the time since the call before, for its search and its judge. The rest of the round, before the
        first call and after the last, where nodes are made and merged, is shared out by matches. Facts are no rule's.
        """
        self._derive(ranges=not self._callbacks.joins)
        self._offer_again(resting)
        sizes = self._sizes()
        self._wake(sizes, resting)
        self._callbacks.limit(room, self._nodes(sizes), allowance)
        self._callbacks.begun = True
        rules = sorted((rule for rule in self._current if rule.name not in resting), key=self._order.__getitem__)
        awake = self._combined(f"law{self._current[rule]}" for rule in rules)
        self._callbacks.clear()
        started = time.perf_counter()
        report = self.run(f"(run {awake} 1)")[0].report
        took = time.perf_counter() - started
        counts = {text.removeprefix("rule"): n for text, n in report.num_matches_per_rule.items() if n}
        matches = {self._read[name].name: n for name, n in counts.items()}
        self._share_out(took, matches)
        return Round(report.updated, matches)

    def _share_out(self, took: float, matches: Mapping[str, int]) -> None:
        """What a round spent on each rule, of the seconds that it `took`."""
        self.seconds = {}
        for number, spent in self._callbacks.seconds.items():
            name = self._callbacks.rules[number].name
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        left = took - sum(self.seconds.values())
        for name, count in matches.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + left * count / sum(matches.values())

    @property
    def cut(self) -> str | None:
        """The limit at which the last round began to decline matches."""
        return self._callbacks.cut

    def folds(self) -> list[Fold]:
        """The constants computed so far, in that order."""
        return self._callbacks.folds()

    @property
    def size(self) -> int:
        """Number of operator nodes."""
        return self._nodes(self._sizes())

    def _nodes(self, sizes: Mapping[str, int]) -> int:
        return sum(sizes.get(name, 0) for name in self.constructors)

    def _sizes(self) -> dict[str, int]:
        """The number of rows of everything that is declared."""
        return dict(self.run("(print-size)")[0].sizes)

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
                attrs, arguments = tuple(map(value, r.inputs[:n_attrs])), r.inputs[n_attrs + arity :]
                if arity > WIDEST:
                    arguments = self._egraph.value_to_vec(r.inputs[-1])
                rows.append((op, attrs, tuple(arguments), r.output))
        classes = self._classes()
        return rows, {n: classes[name] for n, name in self._names.items()}

    def _classes(self) -> dict[str, Any]:
        """The class of every name."""
        rows = self._egraph.freeze().functions["named"].rows
        return {f"(named {self._egraph.value_to_i64(r.inputs[0])})": r.output for r in rows}

    def value_facts(self) -> dict[Node, Fact]:
        """What is known of the values of every inserted node, where a law asked."""
        frozen = self._egraph.freeze().functions
        numbers: dict[Any, Any] = {r.inputs[0]: self._egraph.value_to_pyobject(r.output) for r in frozen["range"].rows}
        facts = {owner: self._callbacks.object(number) for owner, number in numbers.items()}
        classes = self._classes()
        return {n: facts[classes[name]] for n, name in self._names.items()}

    def begin_proof(self, text: str) -> None:
        """Make declarations, unless an earlier proof has."""
        self._declarations.require(text, kept=True)

    def equal(self, a: str, b: str) -> bool:
        """Whether the two expressions stand in one class now."""
        return self.all_equal([(a, b)])

    def same(self, pairs: Iterable[tuple[str, str]]) -> list[bool]:
        """Which of the pairs of names stand in one class now: for many of them at once."""
        classes = self._classes()
        return [bool(classes[a] == classes[b]) for a, b in pairs]

    def all_equal(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether the two expressions of every pair stand in one class now."""
        return self._declarations.holds(" ".join(f"(= {a} {b})" for a, b in pairs))
