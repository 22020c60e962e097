"""Loop fission around scans: what is computed before and after a step that needs the one before it stays in vectors.

In: the lines of one loop, and which of them are steps of scans. Out: the loops that run one after another over a strip
of elements, and the values that are kept from one to the next.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

_DEFINITION = re.compile(r"const (?P<type>.+?) (?P<name>\w+) = ")


@dataclass(frozen=True)
class LoopLines:
    """Lines of one of the loops; `is_scan`: its turns need one another."""

    lines: list[str]
    is_scan: bool


def fission(lines: Sequence[str], steps: Collection[str], place: str) -> tuple[list[LoopLines], dict[str, str]]:
    """The loops, and by name the types of the arrays that keep values, of which an element is at `place`."""
    groups = [(is_scan, [*group]) for is_scan, group in groupby(lines, key=lambda line: line in steps)]
    words = [set(re.findall(r"\w+", "\n".join(group))) for _, group in groups]
    defined: dict[str, str] = {}
    kept: dict[str, str] = {}
    pieces = []
    for i, (is_scan, group) in enumerate(groups):
        taken = [f"const {defined[name]} {name} = {name}_strip[{place}];" for name in sorted(words[i] & {*defined})]
        new = {m["name"]: m["type"] for line in group if (m := _DEFINITION.match(line))}
        later = set().union(*words[i + 1 :]) & {*new}
        kept |= {f"{name}_strip": new[name] for name in sorted(later)}
        stores = [f"{name}_strip[{place}] = {name};" for name in sorted(later)]
        pieces.append(LoopLines([*taken, *group, *stores], is_scan))
        defined |= new
    return pieces, kept
