"""The reference section of the README: which of NumPy's overridable functions can be traced, and why the others cannot.

In: NumPy's own lists and the tables of this package. Out: Markdown. ``python -m eqfuse.frontends.numpy.reference``
writes it between the markers of ./README.md; with ``--check`` it only says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy.char
import numpy.fft
import numpy.polynomial
import numpy.strings  # noqa: F401  (NumPy's list grows when these are imported)
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import eqfuse.frontends.numpy.trace  # noqa: F401  (fills the tables of what can be traced)
from eqfuse.frontends.numpy.refused import REFUSALS, Refusal, refusal
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_UFUNCS
from eqfuse.ops.numpy_names import title

LATER = ("np.char.", "np.fft.", "np.polynomial.", "np.strings.")
MARKERS = ("<!-- reference -->\n", "<!-- /reference -->\n")


class Listing(NamedTuple):
    """Names by what becomes of them; a name stands twice when NumPy lists its ``like=`` form apart."""

    supported: list[str]
    refused: list[tuple[str, Refusal]]

    @property
    def total(self) -> int:
        return len(self.supported) + len(self.refused)


def _listing(listed: Iterable[Any], traced: Iterable[Any]) -> Listing:
    names = {title(f) for f in traced}
    ordered = sorted(listed, key=title)
    refused = [(title(f), row) for f in ordered if (row := refusal(title(f))) is not None]
    return Listing([title(f) for f in ordered if title(f) in names], refused)


def ufuncs() -> Listing:
    return _listing(get_overridable_numpy_ufuncs(), TRACED_UFUNCS)


def functions() -> Listing:
    """Those of NumPy itself, without the modules that it loads when they are used."""
    every = get_overridable_numpy_array_functions()
    return _listing((f for f in every if not title(f).startswith(LATER)), TRACED_FUNCTIONS)


def functions_loaded_later() -> Listing:
    every = get_overridable_numpy_array_functions()
    return _listing((f for f in every if title(f).startswith(LATER)), TRACED_FUNCTIONS)


def section() -> str:
    """The section, as Markdown."""
    u, f, later = ufuncs(), functions(), functions_loaded_later()
    refused = {name: row for listing in (u, f, later) for name, row in listing.refused}
    lines = [
        "Of NumPy's own lists of what can be overridden (`numpy.testing.overrides`),",
        f"**{len(u.supported)} of {u.total} ufuncs and {len(f.supported)} of {f.total} functions** can be traced, and",
        f"{len(later.supported)} of the {later.total} functions that np.fft, np.strings, np.char, np.polynomial add.",
        "The others work on strings, dates or files, or the shape of their result depends on data: they raise an error",
        "that says so, and what to write instead. `python -m eqfuse.frontends.numpy.reference` writes this section.",
        "",
        *_folded("Ufuncs", _code(u.supported)),
        *_folded("Functions", _code({*f.supported, *later.supported})),
        *_folded("Refused", ["| | why | instead |", "|---|---|---|", *_rows(refused)]),
    ]
    return "\n".join(lines)


def _folded(summary: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>"]


def _code(names: Iterable[str]) -> list[str]:
    """One paragraph for each module."""
    modules: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        module, _, short = name.rpartition(".")
        modules.setdefault(module, []).append(short)
    return ["<br>\n".join(f"**{module}** {' '.join(f'`{n}`' for n in short)}" for module, short in modules.items())]


def _rows(refused: dict[str, Refusal]) -> list[str]:
    lines = []
    for row in REFUSALS:
        names = [name for name in row.names.split() if name.endswith("*") or name in refused]
        lines.append(f"| {' '.join(f'`{name}`' for name in names)} | {row.why} | {row.instead} |")
    return lines


def main(arguments: list[str]) -> int:
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(MARKERS[0])
    _, after = rest.split(MARKERS[1])
    wanted = f"{before}{MARKERS[0]}\n{section()}\n\n{MARKERS[1]}{after}"
    if "--check" in arguments:
        return int(text != wanted)
    readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
