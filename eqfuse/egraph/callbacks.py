"""Python callbacks of egglog: whether a law applies, the value of a folded constant, the facts about a value.

In: numbers, which stand for Python objects (egglog would pickle the objects themselves). Out: numbers, 0 to decline.
Used by `eqfuse.egraph.engine`. Results are memoised.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.budget import Allowance
from eqfuse.dtypes import epsilon, inexact, kind
from eqfuse.egraph.constants import Constants
from eqfuse.egraph.rules import Rule
from eqfuse.ops import TABLE, row
from eqfuse.ops.facts import Fact
from eqfuse.ops.literal import Literal
from eqfuse.ops.ranges import exchanges, range_of
from eqfuse.ops.types import TensorType

_instances: weakref.WeakValueDictionary[int, Callbacks] = weakref.WeakValueDictionary()
NUMBERED_OPERATORS = list(TABLE)  # by the number that stands for each
_LARGEST_FOLDED = 4096  # elements of a constant that is computed here rather than when the program is built
# Constants that laws lead to, of small programs, which have a dozen; of others, one for so many nodes. A value that
# equals itself and a constant, as `(x - x + a) - a` does, makes ever more of them before a round ends: 2 a, 3 a.
_MOST_MADE, _NODES_EACH = 100, 8
_SLACK = 2  # units in the last place between constants that are taken to be one

Fold = tuple[str, tuple[Any, ...], tuple[Literal, ...], Literal]  # operator, attributes, arguments, their value


def _computed(name: str, arrays: Sequence[np.ndarray], attrs: Sequence[Any]) -> np.ndarray | None:
    """What an operator makes of constants; None where it raises, as 2 to the power of -1 does."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(row(name).meaning(*arrays, *attrs))
    except (ValueError, ArithmeticError, IndexError):
        return None


def _is_exact(op: str, arrays: Sequence[np.ndarray], result: np.ndarray) -> bool:
    """Is the result of an operation of arithmetic what it is over the reals? Also where no wider dtype can tell."""
    if not inexact(result.dtype):
        return True
    wider = np.clongdouble if result.dtype.kind == "c" else np.longdouble
    with np.errstate(all="ignore"):
        return bool((row(op).meaning(*(a.astype(wider) for a in arrays)) == result.astype(wider)).all())


def function_text(function: str) -> str:
    """The Python text of `function` of this module, which egglog pickles for each call."""
    return f"__import__('eqfuse.egraph.callbacks', fromlist=['judge']).{function}"


def judge(owner: int, *match: int) -> int:
    """Called by a match of a law, whose rule comes first: the number of the judge's answer, 0 to decline."""
    return _instances[owner].judge(match)


def fold(owner: int, op: int, *values: int) -> int:
    """Called by an operator over constants: the number of the constant it makes, 0 to leave it."""
    return _instances[owner].fold(op, values)


def right_value(owner: int, answer: int, position: int) -> int:
    """Called by a match of a law: the number of one value of an answer."""
    return _instances[owner].right_values[answer][position]


def derive(owner: int, op: int, *values: int) -> int:
    """Called by an operator: the number of the fact about its values, given those about its arguments."""
    return _instances[owner].derive(op, values)


class _Meet:
    """Called when a class has two facts: the number of the fact that both make. An object with a name, which is
    pickled in a tenth of the time of a function; egglog does so each time, as a merge may name no global."""

    def __call__(self, owner: int, old: int, new: int) -> int:
        return _instances[owner].meet(old, new)

    def __reduce__(self) -> str:
        return "meet"


meet = _Meet()


def mirror(owner: int, axes: int) -> int:
    """Called by ``x + x.transpose(axes)`` and the like: the number of the fact that it is symmetric, or 0."""
    return _instances[owner].mirror(axes)


class Callbacks:
    """Python objects by number, and the memoised results of the callbacks of one e-graph, which asks by `number`.

    `rules`: those that are run, by number. Limits of a round: `room`, the number of nodes that it may still make,
    and its `allowance`.
    """

    def __init__(self, number: int) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self.number(None)  # 0 says no
        self.rules: dict[int, Rule] = {}
        self.right_values: list[tuple[int, ...]] = [()]  # what the right side of each match needs
        self.snaps = False
        self.partial = self.begun = False  # whether there are laws of class APPROXIMATE, and whether laws were applied
        self.cut: str | None = None  # the limit at which the last round began to decline matches
        self.declined: set[int] = set()  # the rules that lost matches to a limit
        self.seconds: dict[int, float] = {}  # what the last round spent on each rule, until its last judge answered
        self._room: float = 0
        self._again: float = 0  # nodes of the round that may be taken for those of matches that are offered again
        self._charged: Counter[int] = Counter()  # nodes that each rule was charged for, of all rounds
        self._paid: Counter[int] = Counter()  # of them, those for matches that are offered again
        self._new_constants = 0  # constants that laws have led to
        self._size = 0  # nodes, when the last round began
        self._allowance = Allowance()
        self._clock: float | None = None  # when a judge last answered in this round
        self._judged: dict[tuple[int, ...], int] = {}
        self._derived: dict[tuple[int, ...], int] = {}
        self._constants: defaultdict[TensorType, Constants] = defaultdict(Constants)
        _instances[number] = self

    @property
    def numbers(self) -> int:
        """How many numbers stand for something, or more."""
        return len(self._objects) + len(self.right_values)

    def limit(self, room: float, size: int, allowance: Allowance) -> None:
        """Set the limits of the round that begins with `size` nodes."""
        self._room, self._again, self._size = room, room + size, size
        self._allowance, self.cut = allowance, None

    def clear(self) -> None:
        """Reset the seconds spent on each rule."""
        self.seconds, self._clock = {}, None

    def object(self, number: int) -> Any:
        """The object that `number` stands for."""
        return self._objects[number]

    def number(self, value: Any) -> int:
        """The number that stands for the Python object `value` in this e-graph."""
        key = (type(value), value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._objects)
            self._objects.append(value)
        return number

    def judge(self, match: tuple[int, ...]) -> int:
        before = self._clock or time.perf_counter()
        answer = self._judged.get(match)
        if answer is None:
            answer = self._judged[match] = self._answer(*match)
        rule = match[0]
        self._clock = time.perf_counter()
        self.seconds[rule] = self.seconds.get(rule, 0.0) + self._clock - before
        if answer and not self._admits(rule):
            self.declined.add(rule)
            return 0
        return answer

    def _answer(self, rule: int, *values: int) -> int:
        """The number of what `rule` makes of a match; 0 where it declines."""
        values_made = self.rules[rule].judge(*[self._objects[v] for v in values])
        if values_made is None:
            return 0
        self.right_values.append(tuple(map(self.number, values_made)))
        return len(self.right_values) - 1

    def offer_again(self, rule: int) -> None:
        """Let all matches of a rule be tried anew: those that it was charged for are not charged again."""
        self.declined.remove(rule)
        self._paid[rule] = self._charged[rule]

    def _admits(self, rule: int) -> bool:
        """Whether the round still has room and time for a match of `rule`, which is charged the most that it makes."""
        if self.cut is None:
            grows = self.rules[rule].grows
            if min(self._paid[rule], self._again) >= grows:
                self._paid[rule] -= grows
                self._again -= grows
            else:
                self._charged[rule] += grows
                self._room -= grows
            self.cut = "nodes" if self._room < 0 else self._allowance.spent()
        return self.cut is None

    def _applied(self, op: int, values: Sequence[int]) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
        """The name of an operator, and of the objects of `values` its attributes and the others."""
        name, objects = NUMBERED_OPERATORS[op], tuple([self._objects[v] for v in values])
        n_attrs = len(row(name).attrs)
        return name, objects[:n_attrs], objects[n_attrs:]

    def fold(self, op: int, values: tuple[int, ...]) -> int:
        """Compute a small constant. One that a law has made, and that is rounded, becomes an earlier one that it equals
        up to rounding, so that constants reached in different orders do not multiply. What raises is left to raise
        when the program runs, if it ever does."""
        key = (-1 - op, *values)
        answer = self._judged.get(key)
        if answer is None:
            name, attrs, literals = self._applied(op, values)
            answer = 0
            if row(name).type([v.type for v in literals], attrs).size <= _LARGEST_FOLDED:
                arrays = [v.array for v in literals]
                array = _computed(name, arrays, attrs)
                if array is not None and (kind(array.dtype) not in "fc" or np.isfinite(array).all()):
                    rounded = self.snaps and self.begun and row(name).is_arithmetic
                    rounded = rounded and not _is_exact(name, arrays, array)
                    answer = self._folded(self._snapped(Literal(array), rounded))
            self._judged[key] = answer
        return answer

    def _folded(self, literal: Literal) -> int:
        """The number of a constant that was computed; 0 where it is new, and laws have made too many."""
        if self.begun and (Literal, literal) not in self._numbers:
            if self._new_constants >= max(_MOST_MADE, self._size // _NODES_EACH):
                return 0
            self._new_constants += 1
        return self.number(literal)

    def folds(self) -> list[Fold]:
        """The constants computed so far, in that order."""
        folds: list[Fold] = []
        for (op, *values), answer in self._judged.items():
            if op < 0 and answer:
                folds.append((*self._applied(-1 - op, values), self._objects[answer]))
        return folds

    def _snapped(self, literal: Literal, rounded: bool) -> Literal:
        same_type = self._constants[literal.type]
        earlier = same_type.near(literal, _SLACK * epsilon(literal.array.dtype)) if rounded else None
        return earlier or same_type.keep(literal)

    def derive(self, op: int, values: tuple[int, ...]) -> int:
        key = (op, *values)
        answer = self._derived.get(key)
        if answer is None:
            name, attrs, others = self._applied(op, values)
            arity = len(others) // 2
            answer = self._derived[key] = self.number(range_of(name, attrs, others[:arity], others[arity:]))
        return answer

    @property
    def joins(self) -> bool:
        """Whether what a law calls equal may be NaN on one side."""
        return self.partial and self.begun

    def meet(self, old: int, new: int) -> int:
        """Of equal values both facts hold. What a law of class APPROXIMATE calls equal may be NaN on one side, where a
        fact says nothing: once such laws have begun, only what both facts say is kept, and no more is derived."""
        return self.number((Fact.join if self.joins else Fact.meet)(self._objects[old], self._objects[new]))

    def mirror(self, axes: int) -> int:
        return self.number(Fact(symmetric=True)) if exchanges(self._objects[axes]) else 0
