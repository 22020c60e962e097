"""The laws that a search may use: those of the book, and a user's own once they were checked.

In: what a user asks for (`laws=`, `numerics=`). Out: laws in book order. A law of the user's own is checked when it is
first used: true ones are known by their text, in this process and in the cache directory, until the law or what judges
it changes; a false one is a LawError. ``Law(…, check=False)`` says that its author vouches for it.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

from eqfuse.errors import LawError
from eqfuse.machine.files import cache_dir, write_atomically
from eqfuse.rewrites import FAMILIES, admitted, laws_named
from eqfuse.rewrites.language.law import Law

_VOUCH = "Law(…, check=False) says that you vouch for it"
_true: weakref.WeakSet[Law] = weakref.WeakSet()


def usable(laws: Any, numerics: str) -> tuple[Law, ...]:
    """The laws that `laws` names, as far as `numerics` allows them.

    LawError names one of the user's own that is false, or that no check can tell anything of.
    """
    chosen = allowed(laws, numerics)
    for law in _asked_for(laws):
        if law.check and not law.family and law not in _true:
            _check(law)
            _true.add(law)
    return chosen


def allowed(laws: Any, numerics: str) -> tuple[Law, ...]:
    """As `usable`, before any law is checked. LawError names one that is asked for by itself and not allowed."""
    chosen = admitted(laws_named(laws), numerics)
    asked = _asked_for(laws)
    names = {law.name for law in chosen} if asked else set()
    for law in asked:
        if law.name not in names:
            raise LawError(
                f"numerics={numerics!r} does not allow the law {law.name!r}, which is {law.exactness.name}; leave it "
                "out, or ask for numerics that allow it"
            )
    return chosen


def _asked_for(laws: Any) -> list[Law]:
    """The laws that are named one by one, by their names or themselves, and not by a set or family."""
    items = laws if isinstance(laws, list | tuple) else [laws]
    single = [item for item in items if isinstance(item, Law) or item not in ("all", "none", *FAMILIES)]
    return [law for item in single for law in laws_named(item) if law is item or law.name == item]


def _check(law: Law) -> None:
    from eqfuse.rewrites.checking.check import check  # which takes a moment to import

    path = _path(law)
    if path is not None and path.exists():
        return
    report = check(law)
    if report.counterexample is not None:
        raise LawError(f"the law {report}\n{_VOUCH}")
    if not report.ok:
        raise LawError(f"the law {report}: {_VOUCH}")
    if path is not None:
        try:
            write_atomically(path, str(report).encode())
        except OSError:
            return  # it will be checked again


def _path(law: Law) -> Path | None:
    """The file that says that a law of this text is true; None where its text does not tell all of it."""
    from eqfuse.rewrites.checking.checked import law_digest

    name = law_digest(law)
    return None if name is None else cache_dir() / "laws" / f"{name}.txt"
