"""Law usage: on which laws of the book the plans of the benchmark programs rest, as a table kept beside the book.

In: the table, which ``eqfuse bench laws --keep`` computes. Out: counts by law. A law that no plan rests on goes where
others derive it (``--redundant``); where none do, it stays for programs of users (the README says at what cost).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from eqfuse.rewrites import book

Usage = Mapping[str, Mapping[str, Sequence[str]]]  # laws by program and circumstances
_TABLE = Path(__file__).with_suffix(".json")


def counts() -> dict[str, int] | None:
    """Of how many benchmark programs a plan rests on each law of the book. None where the table is of another book."""
    usage = kept_usage()
    if usage is None:
        return None
    by_program = [{law for laws in by_circumstances.values() for law in laws} for by_circumstances in usage.values()]
    return {law.name: sum(law.name in laws for laws in by_program) for law in book()}


def kept_usage() -> dict[str, dict[str, list[str]]] | None:
    """The kept table. None where it was made of another book."""
    kept = json.loads(_TABLE.read_text())
    usage: dict[str, dict[str, list[str]]] = kept["programs"]
    return usage if kept["book"] == book_digest() else None


def keep_usage(usage: Usage) -> None:
    """Store the table."""
    _TABLE.write_text(json.dumps({"book": book_digest(), "programs": usage}, indent=1, ensure_ascii=False) + "\n")


def book_digest() -> str:
    """Names this book: its laws as they are printed, guards and exactness included."""
    text = "\n".join(f"{law.family} {law}" for law in book())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
