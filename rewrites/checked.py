"""What the last check of each law found: kept in the cache directory until the law, or what judges it, changes.

In: laws of the book and tempting false ones, by name. Out: a `Verdict` for each. Processes share the work.
"""

from __future__ import annotations

import hashlib
import json
import types
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from eqfuse.calibrate import thread_count
from eqfuse.errors import EqfuseError
from eqfuse.files import cache_dir, set_aside, write_atomically
from eqfuse.rewrites import book, smt
from eqfuse.rewrites.check import check
from eqfuse.rewrites.law import Attr, Computed, Law, Term, walk
from eqfuse.rewrites.refuted import REFUTED

FALSE, HOLDS, PROVED, UNTESTED = "false", "holds", "proved", "untested"
JUDGES = ("agreement", "cases", "check", "data", "exhaust", "rule", "samples", "shrink", "smt")
AT_ONCE = 4  # laws that a process takes at a time


@dataclass(frozen=True)
class Verdict:
    """`status` is "false", "holds", "proved" (it holds, and over the reals z3 proves it) or "untested"."""

    law: str
    status: str
    text: str  # the report
    remarks: tuple[str, ...]


def refuted() -> dict[str, tuple[Law, str]]:
    """The tempting false laws by name, with the reason."""
    return {law.name: (law, why) for law, why in REFUTED}


def verdicts(laws: Iterable[Law]) -> Iterator[Verdict]:
    """Check laws of the book or of `refuted`, in order, in as many processes as there are cores; keep what is found."""
    names = [law.name for law in laws]
    workers = min(thread_count(), -(-len(names) // AT_ONCE))
    found = []
    try:
        for verdict in map(_verdict, names) if workers < 2 else _in_processes(names, workers):
            found.append(verdict)
            yield verdict
    finally:  # even where it was interrupted
        keep(found)


def _in_processes(names: list[str], workers: int) -> Iterator[Verdict]:
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(_verdict, names, chunksize=AT_ONCE)


def _verdict(name: str) -> Verdict:
    law = _named(name)
    try:
        report = check(law)
    except EqfuseError as error:  # of a guard that has no answer
        return Verdict(name, UNTESTED, f"{law}\n  cannot be tested: {error}", ())
    status = HOLDS if report.ok else FALSE if report.counterexample is not None else UNTESTED
    if report.ok and report.proof is not None and report.proof.proved:
        status = PROVED
    return Verdict(name, status, str(report), tuple(report.remarks))


def _named(name: str) -> Law:
    return next((law for law in book() if law.name == name), None) or refuted()[name][0]


def kept() -> dict[str, Verdict]:
    """What is kept, by the name of the law: only what was found of the law as it is now."""
    stored = _read()
    now = {law.name: digest(law) for law in (*book(), *(law for law, _ in REFUTED))}
    return {name: stored[key] for name, key in now.items() if key in stored}


def keep(found: Iterable[Verdict]) -> None:
    """Store verdicts beside those that are there; what no law of the book has any more is forgotten."""
    verdicts = {**kept(), **{v.law: v for v in found}}
    content = {digest(_named(name)): asdict(verdict) for name, verdict in verdicts.items()}
    try:
        write_atomically(path(), json.dumps(content, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        reason = f"what was checked is not kept: {error}; EQFUSE_CACHE_DIR names another folder"
        warnings.warn(reason, stacklevel=3)


def path() -> Path:
    return cache_dir() / "laws.json"


def _read() -> dict[str, Verdict]:
    try:
        content = path().read_bytes()
    except OSError:
        return {}
    try:
        stored = json.loads(content)
        return {key: Verdict(v["law"], v["status"], v["text"], tuple(v["remarks"])) for key, v in stored.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        set_aside(path(), "list of checked laws", error)
        return {}


def digest(law: Law) -> str:
    """Names the law as it is, the code of its guards and computed values included, and what judges it."""
    found = [str(law), *(_code(f) for f in _functions(law)), _judges(), smt.available()]
    return hashlib.blake2b(repr(found).encode(), digest_size=20).hexdigest()


def _functions(law: Law) -> Iterator[Any]:
    for guard in law.when:
        yield guard.predicate
        if guard.wanted is not None:
            yield guard.wanted
    for side in (*law.lefts, *law.rights):
        yield from (a.function for t in walk(side) for a in t.attrs if isinstance(a, Computed))


@cache
def _judges() -> str:
    """Digest of the source that decides what a check finds: the meaning of operators, and the check itself."""
    import eqfuse

    root = Path(eqfuse.__path__[0])
    rewrites = Path(import_module("eqfuse.rewrites").__path__[0])
    files = [root / "meaning.py", root / "facts.py", *sorted((root / "ops").glob("*.py"))]
    files += [rewrites / f"{name}.py" for name in JUDGES]
    text = b"".join(file.read_bytes() for file in files)
    return hashlib.blake2b(text + np.__version__.encode(), digest_size=20).hexdigest()


def _code(value: Any, depth: int = 4) -> str:
    """Text that changes when a function does, or a function of ours that it calls."""
    if not isinstance(value, types.FunctionType) or depth == 0:
        return value.name if isinstance(value, Attr) else str(value) if _plain(value) else type(value).__name__
    code = value.__code__
    held = [c.cell_contents for c in value.__closure__ or ()] + list(value.__defaults__ or ())
    called = [value.__globals__.get(n) for n in code.co_names]
    ours = [f for f in called if isinstance(f, types.FunctionType) and f.__module__.startswith("eqfuse")]
    return f"{_instructions(code)} {[_code(v, depth - 1) for v in (*held, *ours)]}"


def _instructions(code: types.CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {[_constant(c) for c in code.co_consts]}"


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _instructions(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | tuple | np.dtype | Term)
