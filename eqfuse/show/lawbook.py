"""`eqfuse laws`: the law book as a table, one law whole, and the check of every law.

In: names of laws and families. Out: text on the terminal, and an exit code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eqfuse.rewrites import FAMILIES, Law, book, law_usage, laws_named
from eqfuse.rewrites.checking import checked
from eqfuse.rewrites.checking.checked import FALSE, HOLDS, PROVED, UNTESTED, Verdict, refuted
from eqfuse.show.progress import progress

VERDICT_STYLES = {FALSE: "bold red", HOLDS: "green", PROVED: "bold green", UNTESTED: "yellow"}
LAWS_LEGEND = (
    "checked: what the last `eqfuse laws check` found; proved: over the reals, by z3, and it holds on arrays; "
    "plans: benchmark programs whose plan rests on the law"
)


def print_laws() -> int:
    """Print every law of the book in a line: what it says, how exact it is, how its check went, where it mattered."""
    console = _console()
    verdicts, counts = checked.stored_verdicts(), law_usage.counts()
    shown = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for heading in ("family", "class", "checked"):
        shown.add_column(heading, no_wrap=True)
    shown.add_column("plans", justify="right", no_wrap=True)
    shown.add_column("law", overflow="fold")
    for family, laws in FAMILIES.items():
        for law in laws:
            count = "" if counts is None else str(counts.get(law.name, 0))
            status = Text(*_status(verdicts.get(law.name)))
            name = Text.assemble((law.name, "bold"), str(law).removeprefix(law.name).rpartition("  [")[0])
            shown.add_row(family, law.exactness.name.lower(), status, count, name)
        shown.add_section()
    console.print(shown)
    console.print(Text(f"{len(book())} laws. {LAWS_LEGEND}; {_idle(counts)}", style="dim"))
    return 0


def _idle(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "not counted for this book (eqfuse bench laws --keep)"
    idle = sum(not n for n in counts.values())
    return f"on {idle} no plan rests; they serve other programs, and cost little where they do not match"


def _status(verdict: Verdict | None) -> tuple[str, str]:
    return ("", "") if verdict is None else (verdict.status, VERDICT_STYLES[verdict.status])


def show(names: Sequence[str]) -> int:
    """Print laws and families whole: equation, guards, class, and what their check found."""
    console = _console()
    verdicts, reasons = checked.stored_verdicts(), refuted()
    for law in _chosen(names):
        verdict = verdicts.get(law.name)
        lines = [f"{law.name}  ({law.family or 'refuted'})"]
        sign = "==" if law.both else "->"
        lines += [f"  {left} {sign} {right}" for left, right in zip(law.lefts, law.rights, strict=True)]
        lines += [f"  when {g.sentence}{' (bounds growth)' if g.bound else ''}" for g in law.when]
        over = "" if law.complex is None else f"; over complex numbers {law.complex.name}"
        lines.append(f"  {law.exactness.name}{over}")
        if law.name in reasons:
            lines.append(f"  tempting and false: {reasons[law.name][1]}")
        lines += verdict.text.splitlines()[1:] if verdict else ["  not checked: eqfuse laws check " + law.name]
        console.print(Text("\n".join(lines)), "")
    return 0


def check_laws(names: Sequence[str]) -> int:
    """Check laws (by default all, and the tempting false ones): 1 where one is false, or is not tested."""
    laws = _chosen(names) if names else (*book(), *(law for law, _ in refuted().values()))
    false = refuted()
    console, start = _console(), time.perf_counter()
    counts: Counter[str] = Counter()
    bad = 0
    with progress(len(laws)) as bar:
        for verdict in checked.verdicts(laws):
            expected = verdict.law in false
            if expected != (verdict.status == FALSE) or verdict.status == UNTESTED:
                bad += 1
                surprise = "  but it stands among the refuted laws\n" if expected else ""
                console.print(Text(f"{verdict.text}\n{surprise}"))
            elif names:
                console.print(Text(f"{verdict.text}\n"))
            else:
                for remark in verdict.remarks:
                    console.print(Text(f"{verdict.law}: {remark}"))
            counts["refuted as before" if expected else verdict.status] += 1
            bar.ended(verdict.law)
    counts[HOLDS] += counts[PROVED]
    console.print(Text(_summary(counts, len(laws), time.perf_counter() - start)))
    return 1 if bad else 0


def _summary(counts: Counter[str], laws: int, seconds: float) -> str:
    said = [f"{counts[HOLDS]} hold ({counts[PROVED]} of them proved over the reals)"]
    said += [f"{counts[status]} {status}" for status in (FALSE, UNTESTED, "refuted as before") if counts[status]]
    return f"{laws} law{'s' * (laws != 1)} checked in {seconds:.1f} s: {', '.join(said)}"


def _chosen(names: Sequence[str]) -> tuple[Law, ...]:
    """Laws by their names, families, and "refuted" or the names of refuted laws. LawError for other names."""
    false = refuted()
    laws: dict[str, Law] = {}
    for name in names:
        if name == "refuted":
            laws |= {n: law for n, (law, _) in false.items()}
        elif name in false:
            laws[name] = false[name][0]
        else:
            laws |= {law.name: law for law in laws_named(name)}
    return tuple(laws.values())


def _console() -> Console:
    """The terminal; lines of what is piped elsewhere are not broken."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=10_000)
