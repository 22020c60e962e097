"""Budget: what compiling one program may take; the meter of a compile, which says what is left of it.

In: limits given by a user. Out: for each stage, whether to go on. A stage that may not completes its work by cheaper
means (`LEVELS`), and the meter records how much of the program was planned by which.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from eqfuse.errors import OptionError
from eqfuse.machine.memory import resident_bytes

# How thoroughly a part of a program is planned, from the best down.
ALL_LAWS, CHEAP_LAWS, FUSION_ONLY, AS_WRITTEN = LEVELS = ("all laws", "cheap laws", "fusion only", "as written")
LIMITS = SECONDS_LIMIT, BYTES_LIMIT = "seconds", "bytes"  # of the whole compile
_KINDS: dict[str, Any] = {"seconds": Real, "nodes": Integral, "rounds": Integral, "optimum": Real, "bytes": Integral}
_LEAST = 0.0005  # seconds that an operator is thought to take by fusion alone, until one has been seen
_LOOKS = 64  # questions between two looks at the memory, each of which takes some microseconds
_GLANCES = 8  # between two at the clock


@dataclass(frozen=True)
class Budget:
    """Limits of a compile, from the trace to the emitted program.

    `seconds` are of this thread's processor time, so that a busy machine plans as an idle one does, and those in which
    it waits for a compiler; `bytes` of memory come above what the process held at the start. When either ends, what is
    left of the program is planned by cheaper means: by the laws of a customary algebraic simplifier, by fusion alone,
    or as written, an operator a kernel. Where compiling all kernels with all optimisations would take more seconds than
    are left, those that gain least by these are compiled with fewer; where these take more than three seconds even so,
    NumPy runs those for which a compiler gains least. The report says how much was done by which means.

    `nodes` and `rounds` limit the e-graph of each distinct segment of the program. Where no number of nodes is given
    it is three times those of the segment, and 2,500 for a small one, or 1,000 where all its values take less than a
    megabyte: later matches rarely change a plan. A search ends with the round that comes near that number, which it may
    pass, never twice. Products that share an operand are merged after that, in milliseconds. `optimum`: seconds of one
    core that the extractor "exact" may take for each distinct segment, beside those of "flow" and beside `seconds`.
    """

    seconds: float = 10.0
    nodes: int | None = None
    rounds: int = 16
    optimum: float = 10.0
    bytes: int = 1 << 30

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is None and name == "nodes":
                continue
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value <= sys.float_info.max:
                what = "a whole number" if kind is Integral else "a finite number"
                raise OptionError(f"Budget: {name} is {value!r}; give {what}, 0 or more")


def worst(*levels: str) -> str:
    """The least thorough of some of `LEVELS`."""
    return max(levels, key=LEVELS.index)


def budget_of(budget: Any) -> Budget:
    """The budget that a user gave. OptionError where it is none."""
    if budget is not None and not isinstance(budget, Budget):
        raise OptionError(f"budget is {budget!r}: give limits as in ef.Budget(seconds=10), or None")
    return budget or Budget()


class CompileClock:
    """The seconds of a compile: of this thread's processor time, and those that it has `waited` for a compiler."""

    waited = 0.0

    @property
    def now(self) -> float:
        return time.thread_time() + self.waited


class Allowance:
    """What a stage may take: `until` its `clock` says so many seconds, and `most` bytes held by the process. `optimum`:
    the `Budget`'s."""

    def __init__(
        self, until: float = math.inf, most: float = math.inf, optimum: float = Budget.optimum,
        clock: CompileClock | None = None,
    ) -> None:  # fmt: skip
        self.until, self.most, self.optimum = until, most, optimum
        self.clock = clock or CompileClock()
        self._asked = itertools.count()
        self._full = self._late = False
        self._early = -math.inf  # until when some of the seconds are surely left

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.until - self.clock.now)

    def part(self, share: float) -> Allowance:
        """That share of the seconds that are left."""
        return Allowance(self.clock.now + share * self.left, self.most, self.optimum, self.clock)

    def spent(self) -> str | None:
        """The limit that is reached, "seconds" or "bytes"; None while there is some of both left."""
        asked = next(self._asked)
        if asked % _LOOKS == 0 and self.most < math.inf:
            self._full = resident_bytes() > self.most
        if self._full:
            return BYTES_LIMIT
        if asked % _GLANCES == 0 and self.until < math.inf:
            self._late = self._is_late()
        return SECONDS_LIMIT if self._late else None

    def _is_late(self) -> bool:
        """A thread uses and waits no more seconds than pass, and the clock of those is read a hundred times sooner."""
        now = time.perf_counter()
        if now < self._early:
            return False
        left = self.until - self.clock.now
        self._early = now + left
        return left <= 0


UNLIMITED = Allowance()


class Meter:
    """What one compile has taken, from the moment at which this is made, and what it may still take: its `allowance`.

    `searched`: how many operators were planned at each of `LEVELS`. `hurried`: the kernels that were compiled with
    fewer optimisations, as the seconds did not suffice for all; `uncompiled`: those that NumPy runs for that reason.
    `tell` is called with what is being done.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        clock = CompileClock()
        until, most = clock.now + self.budget.seconds, resident_bytes() + self.budget.bytes
        self.allowance = Allowance(until, most, self.budget.optimum, clock)
        self.searched: Counter[str] = Counter()
        self.hurried: set[str] = set()
        self.uncompiled: set[str] = set()
        self._reasons: list[str] = []
        self.tell: Callable[[str], None] = lambda doing: None

    def within(self, share: float) -> Meter:
        """The meter of a stage that may take that share of the seconds that are left."""
        part = copy(self)
        part.allowance = self.allowance.part(share)
        return part

    def anew(self) -> Meter:
        """The meter of another attempt, within what this one left."""
        another = self.within(1)
        another.searched, another.hurried, another.uncompiled, another._reasons = Counter(), set(), set(), []
        return another

    def say(self, doing: str) -> None:
        """Tell what is being done now."""
        self.tell(f"{doing}; {self.allowance.left:.0f} s of the budget left")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the seconds that this thread waits meanwhile for a compiler."""
        clock, passed, used = self.allowance.clock, time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            clock.waited += max(0.0, time.perf_counter() - passed - (time.thread_time() - used))

    def ended(self, reason: str | None) -> None:
        """A search was ended by `reason`."""
        if reason in LIMITS:
            self._reasons.append(reason)

    @property
    def cut(self) -> str | None:
        """The limit that ended a search before its time, if one did: the first of them."""
        return self._reasons[0] if self._reasons else None


def unmetered() -> Meter:
    """The meter of a stage that may take what it needs."""
    return Meter(Budget(seconds=sys.float_info.max))


class Pace:
    """How long the segments saturated so far took for each of their operators, by level: what the others will take.

    `operators`: of each segment.
    """

    def __init__(self, operators: Sequence[int]) -> None:
        self._operators = list(operators)
        self._left = sum(operators)
        self._seconds = dict.fromkeys(LEVELS, 0.0) | {FUSION_ONLY: _LEAST}

    def level(self, segment: int, allowance: Allowance) -> str:
        """The best level at which segment `segment` leaves enough of the time for fusion in all the others."""
        if allowance.spent():
            return AS_WRITTEN
        own, others = self._operators[segment], self._left - self._operators[segment]
        for level in (ALL_LAWS, CHEAP_LAWS):
            if self._seconds[level] * own + self._seconds[FUSION_ONLY] * others <= allowance.left:
                return level
        return FUSION_ONLY

    def share(self, segment: int) -> float:
        """Segment `segment`'s share of the operators that are left."""
        return self._operators[segment] / self._left if self._left else 1.0

    def took(self, segment: int, level: str, seconds: float) -> None:
        """Segment `segment` took so many seconds at that level."""
        self._left -= self._operators[segment]
        self._seconds[level] = max(self._seconds[level], seconds / max(1, self._operators[segment]))
