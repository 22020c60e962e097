"""What egglog has read before there is a node: sorts, constructors, rules of facts, laws.

In: operators and rules. Out: their texts, and an e-graph that has read some. Used by `engine`; `pool` keeps them, as it
takes longer to read rules than to saturate a small program.
Every operator is one constructor ``(o_op attributes… argument-types… arguments…)`` of sort Tensor; attributes and types
are numbers that stand for Python objects (egglog would pickle the objects themselves).
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections.abc import Collection, Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from eqfuse.egraph.callbacks import NUMBERED_OPERATORS, function_text
from eqfuse.egraph.rules import Edge, Operator, Rule, constructor
from eqfuse.ir.graph import Node
from eqfuse.ops import Role, row
from eqfuse.rewrites.language.law import MOST_ARGUMENTS

Texts = tuple[str, ...]  # commands that are read together; the first names them

_CHUNK = 32  # commands per parsed text: every span copies the whole text
# Arguments, beyond which an operator has no rules for facts, and takes its arguments as one vector: memory grows by the
# square of a table's columns and of a rule's atoms. What is known of such a node when it is inserted is computed by the
# engine.
WIDEST = MOST_ARGUMENTS

_HEADER = """
(sort Tensor)
(relation constant (Tensor))
(relation varies (Tensor))
(relation in_program (Tensor))
(function named (i64) Tensor :merge old)
(sort Tensors (Vec Tensor))
(function listed (i64) Tensors :merge old)
(function range (Tensor) PyObject :merge (py-call (py-eval "{meet}" (py-dict) (py-dict)) (py-from-int {owner}) old new))
(relation fact (Tensor PyObject))
(ruleset ranges_known)
(rule ((fact px pf)) ((set (range px) pf)) :ruleset ranges_known)
(relation callback (String i64 PyObject PyObject PyObject PyObject PyObject))
"""  # a global of egglog cannot stand in a merge

_MOST_PARSED = 4096  # texts whose commands are kept, of 8 KB each

_parsed: dict[str, tuple[Any, ...]] = {}
_numbers = itertools.count()


class Declarations:
    """An e-graph of egglog and the commands it has read. `number`: by which its callbacks find who answers."""

    def __init__(self) -> None:
        self.egraph = _bindings().EGraph()
        self.number = next(_numbers)
        self.read: dict[str, None] = {}  # the first of the texts that were read together
        self.sound = True  # no command was broken off
        self._kept: list[Texts] = []
        self._marked: dict[str, None] | None = None
        self.run_once([_HEADER.format(meet=function_text("meet"), owner=self.number)])
        self.run_once([f"(let $owner (py-from-int {self.number}))", "(let $no (py-from-int 0))"])
        for f in ("judge", "right_value", "fold", "derive", "mirror"):
            self.run_once([f'(let ${f} (py-eval "{function_text(f)}" (py-dict) (py-dict)))'])

    def require(self, *texts: str, kept: bool = False) -> None:
        """Read `texts`, unless that was done. If `kept`, also whenever a mark is set from now on."""
        if texts[0] not in self.read:
            self.read[texts[0]] = None
            self.run(*texts)
            if kept and texts not in self._kept:
                self._kept.append(texts)

    def mark(self) -> None:
        """What comes from now on is taken back by `back`."""
        for texts in self._kept:
            self.require(*texts)
        self._marked = dict(self.read)
        self.run("(push)")

    def back(self) -> None:
        """Forget all that came since the mark, nodes too."""
        assert self._marked is not None
        self.run("(pop)")
        self.read, self._marked = self._marked, None

    def run(self, *texts: str) -> list[Any]:
        """Run commands whose text recurs (rules, schedules): hardly ever parsed twice."""
        commands: list[Any] = []
        for text in texts:
            parsed = _parsed.get(text)
            if parsed is None:
                if len(_parsed) >= _MOST_PARSED:
                    _parsed.clear()
                parsed = _parsed[text] = tuple(self.egraph.parse_program(text))
            commands += parsed
        return self._send(commands)

    def run_once(self, lines: Sequence[str]) -> None:
        """Run commands whose text is this e-graph's own, in small pieces."""
        for start in range(0, len(lines), _CHUNK):
            self._send(self.egraph.parse_program("\n".join(lines[start : start + _CHUNK])))

    def holds(self, fact: str) -> bool:
        """Whether egglog finds `fact`."""
        try:
            self.egraph.run_program(*self.egraph.parse_program(f"(check {fact})"))
        except _bindings().EggSmolError:
            return False
        return True

    def _send(self, commands: Sequence[Any]) -> list[Any]:
        try:
            return self.egraph.run_program(*commands)
        except BaseException:
            self.sound = False
            raise


_EXTENSION = "egglog.bindings"
_importing = threading.Lock()
_LOGGERS = ("egglog", "egglog_bridge", "egglog_core_relations")


def _bindings() -> Any:
    """The extension module of egglog, without the package around it, whose formatter, drawings and magic commands take
    twenty times as long to import.

    It logs each command at the level INFO, thousands for a program: of these a program's own log stays free."""
    with _importing:
        if _EXTENSION not in sys.modules:
            for logger in map(logging.getLogger, _LOGGERS):
                if logger.level == logging.NOTSET:
                    logger.setLevel(logging.WARNING)
            package = find_spec("egglog")
            spec = package and PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
            if spec is None or spec.loader is None:
                raise ImportError("egglog is not installed, or has no module of that name", name=_EXTENSION)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[_EXTENSION] = module
    return sys.modules[_EXTENSION]


def expected(nodes: Collection[Node], rules: Iterable[Rule]) -> list[Rule]:
    """Those of `rules` that `nodes` most likely make use of: all that can match there, and in what rules of one
    operator each make of it. They are read before there are nodes."""
    present = {(n.op, len(n.args)) for n in nodes}
    edges: set[Edge] = {((n.op, len(n.args)), i, (a.op, len(a.args))) for n in nodes for i, a in enumerate(n.args)}
    likely = [rule for rule in rules if rule.edges <= edges]
    for rule in [rule for rule in likely if len(rule.reads) == len(rule.makes) == 1 and present.issuperset(rule.reads)]:
        present.update(rule.makes)
    return [rule for rule in likely if present.issuperset(rule.reads)]


def wanted(operators: Iterable[Operator], rules: Collection[Rule]) -> list[Texts]:
    """What is to be read for a graph of `operators` and for `rules`."""
    declared = dict.fromkeys(operators)
    if not rules:
        return [(declaration(*each),) for each in declared]
    ranges = any(g.about_values for rule in rules for g in rule.law.when)
    of_rules = [("const", 0), *[("transpose", 1)] * ranges, *(operator for rule in rules for operator in rule.makes)]
    declared.update(dict.fromkeys(of_rules))
    texts = [facts_of(*each) for each in declared] + [range_rules(*each) for each in declared if ranges]
    laws = [law_texts(rule, str(rule.number)) for rule in rules]
    return [*((declaration(*each),) for each in declared), *filter(None, texts), *laws]


def declaration(op: str, arity: int) -> str:
    """The command that declares the constructor of `op`."""
    attrs = len(row(op).attrs)
    inputs = " ".join(["PyObject"] * (attrs + arity) + ["Tensor"] * arity)
    if arity > WIDEST:  # one object for all types
        inputs = " ".join(["PyObject"] * (attrs + 1) + ["Tensors"])
    return f"(constructor {constructor(op, arity)} ({inputs}) Tensor)"


def law_texts(rule: Rule, name: str) -> Texts:
    """A ruleset of one rule, under `name`."""
    text = rule.text.replace("{number}", str(rule.number)).replace("{name}", name)
    return (f"(ruleset law{name})", _callback("judge", rule.number, "right_value"), text)


def _callback(function: str, number: int, second: str = "no") -> str:
    """The row from which rules take what they pass to Python: `function`, whom it asks, the number of a rule or of an
    operator, that of a refusal, and a second function. A number made in a rule would be pickled for each match."""
    return f'(callback "{function}" {number} ${function} $owner (py-from-int {number}) $no ${second})'


def range_rules(op: str, arity: int) -> Texts:
    """The rules that derive facts about the values of `op`; none of one with many arguments."""
    if arity > WIDEST:
        return ()
    name, n_attrs = constructor(op, arity), len(row(op).attrs)
    hidden = " ".join(f"pa{i}" for i in range(n_attrs + arity))
    args = [f"px{i}" for i in range(arity)]
    term = f"(= pr ({name} {hidden} {' '.join(args)}))"
    premises = " ".join(f"(= pf{i} (range {a}))" for i, a in enumerate(args))
    facts = " ".join(f"pf{i}" for i in range(arity))
    ruleset = f":ruleset ranges_{name}"
    number = NUMBERED_OPERATORS.index(op)
    callback = f'(callback "derive" {number} pd pq pn po pm)'
    call = f"(py-call pd pq pn {hidden} {facts})"
    rules = [_callback("derive", number, "mirror")]
    rules.append(f"(rule ({term} {premises} {callback} (= pf {call})) ((fact pr pf)) {ruleset})")
    described = row(op)
    if described.commutes and not described.either_zero:  # with its own transpose it is symmetric
        mirrored = f"(= {args[1]} (o_transpose pp pt {args[0]})) {callback} (= pf (py-call pm pq pp))"
        rules.append(f"(rule ({term} {mirrored} (!= pf po)) ((fact pr pf)) {ruleset})")
    if described.twice is not None:
        once = f"(= pr ({name} pt pt px px)) (= pf (range px))"
        number = NUMBERED_OPERATORS.index(described.twice)
        callback = f'(callback "derive" {number} pd pq pn po pm) (= pg (py-call pd pq pn pt pf))'
        rules += [_callback("derive", number, "mirror"), f"(rule ({once} {callback}) ((fact pr pg)) {ruleset})"]
    return (f"(ruleset ranges_{name})", *rules)


def facts_of(op: str, arity: int) -> Texts:
    """The rules that say whether `op` is constant or varies, and fold it; none of one with many arguments."""
    if op == "input" or arity > WIDEST:
        return ()
    name, n_attrs = constructor(op, arity), len(row(op).attrs)
    hidden = [f"pa{i}" for i in range(n_attrs + arity)]
    args = [f"px{i}" for i in range(arity)]
    constant = " ".join(f"(constant {a})" for a in args)
    term = f"(= pr ({' '.join([name, *hidden, *args])}))"
    ruleset = f":ruleset facts_{name}"
    rules = [f"(rule ({term} {constant}) ((constant pr)) {ruleset})"]
    rules += [f"(rule ({term} (varies {a})) ((varies pr)) {ruleset})" for a in args]
    if args and row(op).role in (Role.ELEMENTWISE, Role.VIEW):
        constants = " ".join(f"(= {a} (o_const pl{i}))" for i, a in enumerate(args))
        values = " ".join([*hidden[:n_attrs], *(f"pl{i}" for i in range(arity))])
        number = NUMBERED_OPERATORS.index(op)
        callback = f'(callback "fold" {number} pf pq pn po pm) (= pc (py-call pf pq pn {values})) (!= pc po)'
        rules.append(_callback("fold", number))
        rules.append(f"(rule ({term} {constants} {callback}) ((union pr (o_const pc))) {ruleset})")
    return (f"(ruleset facts_{name})", *rules)
