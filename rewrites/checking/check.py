"""The test of a law: both sides on made-up arrays, compared as its exactness class demands.

In: `Law`. Out: `CheckReport`, with the smallest counterexample. Cases (`cases`) have rank 0-4 with extents 0 and 1 and
every dtype that the law is about; data (`data`) are half-integers, special values and any bits, contiguous and strided.
Pointwise laws meet every float16 (`exhaust`) and a prover (`smt`), others as many cases of it as of all. Each guard is
dropped in turn: it must be needed.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from eqfuse.dtypes import FLOAT16
from eqfuse.errors import LawError
from eqfuse.rewrites.checking import smt
from eqfuse.rewrites.checking.agreement import Comparison, Counterexample, compare_sides
from eqfuse.rewrites.checking.cases import LawCase, drawn, is_pointwise
from eqfuse.rewrites.checking.coverage import Coverage
from eqfuse.rewrites.checking.data import SPREAD, STYLES, arrays, cancelling, styles_of
from eqfuse.rewrites.checking.exhaust import Sweep, sweeps
from eqfuse.rewrites.checking.shrink import smallest
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, Exactness, Guard, Law

CASES, TRIES = 40, 6000
RANKS = 5
LACKING, DATA = 200, 4  # cases that lack a guard, and choices of data for each: some guards leave out little
CANCELLED = 4  # choices of data in which something cancels, for each case
NEEDED, UNNEEDED, BOUND = "needed", "idle", "bounds growth"


@dataclass(frozen=True)
class GuardReport:
    """Is a guard "needed"? Then `counterexample` fails without it, unless what the law computes needs the guard too.

    "idle": none was found. "bounds growth": the author says that the law is true without it.
    """

    sentence: str
    status: str
    counterexample: Counterexample | None = None

    def __str__(self) -> str:
        return f"{self.sentence}: {self.status}"


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What `check` did. `measured` is the strictest exactness class that every case satisfied; None if none did.

    `measured_complex` is the same of the `complex_cases` among them, `measured_float16` of those with float16; all
    other cases count for `measured`.
    """

    law: Law
    cases: int
    complex_cases: int
    tries: int
    measured: Exactness | None
    measured_complex: Exactness | None
    measured_float16: Exactness | None
    counterexample: Counterexample | None
    coverage: Coverage = field(default_factory=Coverage)
    sweeps: tuple[Sweep, ...] = ()
    guards: tuple[GuardReport, ...] = ()
    proof: smt.Proof | None = None  # None: the law is not pointwise
    by_layout: bool = False  # bits differed, only because NumPy rounds a function otherwise in another memory layout

    @property
    def ok(self) -> bool:
        return self.counterexample is None and self.cases > 0

    @property
    def remarks(self) -> list[str]:
        """What the author may want to change in a law that holds."""
        said = []
        for over, claimed, measured in (
            ("", self.law.exactness, self.measured),
            ("complex ", self.law.complex, self.measured_complex),
            ("float16 ", self.law.float16, self.measured_float16),
        ):
            if self.ok and claimed is not None and measured is not None and measured < claimed and not self.by_layout:
                said.append(f"claims {over}{claimed.name}, measured {measured.name}")
        said += self.coverage.remarks(self.law) if self.ok else []
        said += [f"no counterexample without the guard that {g.sentence}" for g in self.guards if g.status == UNNEEDED]
        return said

    @property
    def _only_float16(self) -> bool:
        others = self.measured is not None and self.measured <= self.law.exactness
        return others and self.measured_float16 == APPROXIMATE

    def __str__(self) -> str:
        if self.counterexample is not None:
            false = "is false" if not self._only_float16 else "is false of float16 alone: float16=APPROXIMATE says so"
            return f"{self.law}\n  {false}:\n{self.counterexample}\n\n{self.counterexample.snippet}"
        if not self.cases:
            return f"{self.law}\n  was not tested: none of {self.tries} generated arguments fits its sides and guards"
        half = self.measured_float16 if self.measured_float16 != self.measured else None
        over = {"": self.measured, "complex ": self.measured_complex, "float16 ": half}
        measured = [what + class_.name for what, class_ in over.items() if class_ is not None]
        lines = [f"{self.law}", f"  holds on {self.cases} generated cases; measured {', '.join(measured)}"]
        lines.append(f"  applied to {self.cases} of {self.tries:,} draws: {self.coverage}")
        for complete, word in ((True, "all"), (False, "a dense sample of")):
            swept = [s.dtype.name for s in self.sweeps if s.all == complete]
            if swept:
                lines.append(f"  holds on {word} the values of {', '.join(dict.fromkeys(swept))}")
        if self.by_layout:
            lines.append("  up to functions that NumPy itself rounds otherwise in another memory layout")
        lines += [f"  {self.proof}"] * (self.proof is not None)
        lines += [f"  guard {g}" for g in self.guards]
        return "\n".join([*lines, *(f"  note: {r}" for r in self.remarks)])

    __repr__ = __str__


def check(law: Law, seed: int = 0, cases: int = CASES) -> CheckReport:
    """Test `law`: a counterexample with shapes and values, or what was checked. Deterministic for a `seed`.

    Prints as text. `report.ok`: does it hold? `report.measured`: how exact is it? `report.guards`: is each needed?
    """
    rng = random.Random(zlib.crc32(law.name.encode()) + seed)
    tally = _Tally()
    tries = _added(tally, _cases(law, cases, rng, tally), rng)
    swept = tuple(sweeps(law)) if tally.cases else ()
    for s in swept:
        tally.measure("float16" if s.dtype == s.computed == FLOAT16 else "", s.reached)
        if s.failure is not None:
            tally.failures.append(s.failure)
    if tally.cases and not any(s.dtype == s.computed == FLOAT16 for s in swept):
        halves = _more(lambda: drawn(law, rng, dtype=FLOAT16), lambda: tally.halves, cases)
        tries += _added(tally, halves, rng)
    worst = min(tally.failures, key=_simplicity, default=None)
    return CheckReport(
        law, tally.cases, tally.complex_cases, tries,
        tally.measured.get(""), tally.measured.get("complex"), tally.measured.get("float16"),
        smallest(worst).counterexample if worst is not None else None, tally.coverage,
        swept, _guards(law, seed) if worst is None else (), _proof(law),
        tally.by_layout,
    )  # fmt: skip


def _proof(law: Law) -> smt.Proof | None:
    if not is_pointwise(law):
        return None
    if not smt.has_z3():
        return smt.Proof(False, why="not tried: pip install 'eqfuse[smt]'")
    return smt.prove_over_reals(law)


def without_guard(law: Law, index: int) -> Law:
    """`law` with one guard dropped: it must then have a counterexample, or the guard is idle."""
    return replace(law, when=law.when[:index] + law.when[index + 1 :], grows=True)  # it is not used


def _added(tally: _Tally, draws: Iterable[LawCase | None], rng: random.Random) -> int:
    """Compare what was drawn and count it; how many draws there were."""
    tries = 0
    for case in draws:
        tries += 1
        if case is not None:
            tally.add(case, _compared(case, rng))
    return tries


def _cases(law: Law, cases: int, rng: random.Random, tally: _Tally) -> Iterator[LawCase | None]:
    """What is drawn until there are `cases`, then until a quarter as many have each rank; None: it did not fit."""
    for _ in range(TRIES):
        if tally.cases == cases:
            break
        yield drawn(law, rng)
    if not tally.cases:
        return
    for rank in range(RANKS):
        yield from _more(lambda: _of_rank(law, rng, rank), lambda: tally.coverage.ranks.get(rank, 0), cases // 4)  # noqa: B023


def _more(draw: Callable[[], LawCase | None], count: Callable[[], int], wanted: int) -> Iterator[LawCase | None]:
    """What `draw` gives until what is `count` is as `wanted`, or nothing seems to be there."""
    for tries in range(TRIES // 4):
        if count() >= wanted or (tries == TRIES // 20 and not count()):
            break
        yield draw()


def _of_rank(law: Law, rng: random.Random, rank: int) -> LawCase | None:
    case = drawn(law, rng, rank=rank)
    return case if case is not None and case.rank == rank else None


def _compared(case: LawCase, rng: random.Random) -> Iterator[Comparison]:
    styles = styles_of(case)
    for style in STYLES:
        seed = rng.randrange(2**32)  # of a style left out too: later cases stay what they are
        if style not in styles:
            continue
        draw = np.random.default_rng(seed)
        data = arrays(case, style, draw)
        for again in range(1 + CANCELLED * (style == SPREAD and case.claimed != EXACT)):
            if again:
                data = cancelling(case, arrays(case, style, draw) if draw.random() < 0.3 else data, draw)
            compared = compare_sides(case, data)
            if compared is None:
                break
            yield compared


def _simplicity(failure: Comparison) -> tuple[bool, int]:
    """Orders failures from the easiest to read."""
    return all(a.dtype.kind not in "f" for a in failure.arrays.values()), failure.counterexample.size


class _Tally:
    """What the cases so far have shown."""

    def __init__(self) -> None:
        self.cases = self.complex_cases = self.halves = 0
        self.measured: dict[str, Exactness | None] = {}  # of complex numbers, of float16, of all others
        self.coverage = Coverage()
        self.failures: list[Comparison] = []
        self.by_layout = False

    def add(self, case: LawCase, compared: Iterator[Comparison]) -> None:
        self.cases += 1
        self.complex_cases += case.complex
        self.halves += case.over == "float16"
        self.coverage.add(case)
        for comparison in compared:
            self.measure(case.over, comparison.reached)
            self.by_layout |= comparison.by_layout
            if not comparison.holds:
                self.failures.append(comparison)

    def measure(self, over: str, reached: Exactness | None) -> None:
        before = self.measured.get(over, EXACT)
        self.measured[over] = None if before is None or reached is None else max(before, reached)


def _guards(law: Law, seed: int) -> tuple[GuardReport, ...]:
    return tuple(_guard(law, g, random.Random(seed)) for g in law.when)


def _guard(law: Law, guard: Guard, rng: random.Random) -> GuardReport:
    """Look for a counterexample among the cases in which `guard` alone fails."""
    if guard.bound:
        return GuardReport(guard.sentence, BOUND)
    lacking = 0
    for _ in range(2 * TRIES):
        try:
            case = drawn(law, rng, guard)
        except LawError:  # a computed value asks for what the guard promised
            return GuardReport(guard.sentence, NEEDED)
        if case is None:
            continue
        for _ in range(DATA):
            for comparison in _compared(case, rng):
                if not comparison.holds:
                    return GuardReport(guard.sentence, NEEDED, comparison.counterexample)
        lacking += 1
        if lacking == LACKING:
            break
    return GuardReport(guard.sentence, UNNEEDED)


__all__ = ["CheckReport", "Counterexample", "GuardReport", "check", "without_guard"]
