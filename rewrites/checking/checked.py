"""What the last check of each law found: kept in the cache directory until the law, or what judges it, changes.

In: laws of the book and tempting false ones, by name. Out: a `Verdict` for each. Processes share the work.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from eqfuse import ops
from eqfuse.errors import EqfuseError
from eqfuse.ir import evaluate, running_errors
from eqfuse.machine.files import cache_dir, set_aside, write_atomically
from eqfuse.machine.thread_limit import thread_count
from eqfuse.rewrites import book
from eqfuse.rewrites.checking import smt
from eqfuse.rewrites.checking.check import check
from eqfuse.rewrites.checking.fingerprint import fingerprint
from eqfuse.rewrites.language import match, samples
from eqfuse.rewrites.language.law import Law
from eqfuse.rewrites.refuted import REFUTED

FALSE, HOLDS, PROVED, UNTESTED = "false", "holds", "proved", "untested"
LAWS_OF_A_PROCESS = 4  # laws that a process takes at a time


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
    workers = min(thread_count(), -(-len(names) // LAWS_OF_A_PROCESS))
    judgements = []
    try:
        for verdict in map(_verdict, names) if workers < 2 else _in_processes(names, workers):
            judgements.append(verdict)
            yield verdict
    finally:  # even where it was interrupted
        keep_verdicts(judgements)


def _in_processes(names: list[str], workers: int) -> Iterator[Verdict]:
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(_verdict, names, chunksize=LAWS_OF_A_PROCESS)


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


def stored_verdicts() -> dict[str, Verdict]:
    """What is kept, by the name of the law: only what was found of the law as it is now."""
    stored = _read()
    now = {law.name: law_digest(law) for law in (*book(), *(law for law, _ in REFUTED))}
    return {name: stored[key] for name, key in now.items() if key is not None and key in stored}


def keep_verdicts(new: Iterable[Verdict]) -> None:
    """Store verdicts beside those that are there; what no law of the book has any more is forgotten."""
    verdicts = {**stored_verdicts(), **{v.law: v for v in new}}
    content = {law_digest(_named(name)): asdict(verdict) for name, verdict in verdicts.items()}
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


def law_digest(law: Law) -> str | None:
    """Names the law as it is and what judges it; None where no text tells what its guards and computed values do."""
    text = fingerprint(law)
    if text is None:
        return None
    return hashlib.blake2b(repr((text, _judges(), smt.has_z3())).encode(), digest_size=20).hexdigest()


@cache
def _judges() -> str:
    """Digest of the source that decides what a check finds: the meaning of operators, and the check itself."""
    files = [Path(inspect.getfile(module)) for module in (evaluate, running_errors, match, samples)]
    folders = Path(ops.__path__[0]), Path(__file__).parent
    files += [file for folder in folders for file in sorted(folder.glob("*.py"))]
    text = b"".join(file.read_bytes() for file in files)
    return hashlib.blake2b(text + np.__version__.encode(), digest_size=20).hexdigest()
