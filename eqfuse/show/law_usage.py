"""Of how many benchmark programs a plan rests on each law: the table that is kept beside the book.

In: the book. Out: counts by law. `benches/law_usage.py` computes the table anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from eqfuse.rewrites import book


def decided() -> dict[str, int] | None:
    """Of how many benchmark programs a plan rests on each law of the book. None where the table is of another book."""
    table = read()
    if table is None:
        return None
    by_program = [{law for laws in found.values() for law in laws} for found in table.values()]
    return {law.name: sum(law.name in laws for laws in by_program) for law in book()}


def read() -> dict[str, dict[str, list[str]]] | None:
    """The kept table: laws by program and circumstances. None where it was made of another book."""
    kept = json.loads(path().read_text())
    found: dict[str, dict[str, list[str]]] = kept["programs"]
    return found if kept["book"] == digest() else None


def keep(found: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Store the table."""
    path().write_text(json.dumps({"book": digest(), "programs": found}, indent=1, ensure_ascii=False) + "\n")


def path() -> Path:
    """Where the table is kept."""
    return Path(import_module("eqfuse.rewrites").__path__[0]) / "decided.json"


def digest() -> str:
    """Names this book: its laws as they are printed, guards and exactness included."""
    text = "\n".join(f"{law.family} {law}" for law in book())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
