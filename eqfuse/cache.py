"""Plans that were chosen before: in memory, and on disk across processes.

In: everything a plan depends on. Out: the plan and its report, or None. Entries are data (no code, no pickle), so a
foreign file can do no more than be refused; a damaged one is set aside; an unwritable folder costs only the cache.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from eqfuse.errors import EqfuseError
from eqfuse.files import cache_dir, set_aside, write_atomically
from eqfuse.hardware import Device
from eqfuse.ir import Graph
from eqfuse.plan import Plan
from eqfuse.plan_text import read, write
from eqfuse.report import KernelReport, Report
from eqfuse.rewrites import Law, book

IN_MEMORY = 256  # plans
ON_DISK = 1024  # files; the oldest go first

_memory: dict[tuple, tuple[Plan, Report]] = {}


@dataclass(frozen=True)
class Key:
    """Names a plan. `path` is None where a user's own law takes part: code has no name that outlives the process."""

    values: tuple
    path: Path | None


def key(graph: Graph, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, budget: Any) -> Key:
    """The key of the plan that these choices lead to."""
    names = tuple(law.name for law in laws)
    path = None
    if set(laws) <= set(book()):
        text = repr((_code(), graph.key, device.to_json(), numerics, names, extractor, budget))
        path = cache_dir() / "plans" / f"{hashlib.blake2b(text.encode(), digest_size=20).hexdigest()}.json"
    return Key((graph.key, device, numerics, laws, extractor, budget), path)


@cache
def _code() -> str:
    """Digest of eqfuse's own source: a plan of another version is never found."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("eqfuse", "eqfuse.rewrites", "eqfuse.extract"):  # by import_module: `ef.extract` is a function
        for path in sorted(Path(import_module(name).__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def find(key: Key, graph: Graph) -> tuple[Plan, Report] | None:
    """The plan of `key` for `graph`, and its report."""
    found = _memory.get(key.values)
    if found is not None:
        return found
    if key.path is None:
        return None
    try:
        text = key.path.read_text()
    except OSError:
        return None
    except UnicodeDecodeError as error:
        set_aside(key.path, "cached plan", error)
        return None
    try:
        data = json.loads(text)
        plan, report = read(data["plan"], graph), _report(data["report"])
    except (EqfuseError, ValueError, KeyError, TypeError) as error:
        set_aside(key.path, "cached plan", error)
        return None
    _remember(key, plan, report)
    return plan, report


def keep(key: Key, plan: Plan, report: Report) -> None:
    """Store a plan and its report."""
    _remember(key, plan, report)
    if key.path is None:
        return
    data = json.dumps({"plan": write(plan), "report": asdict(report)})
    try:
        write_atomically(key.path, data.encode())
        _prune(key.path.parent)
    except OSError as error:
        _warn_unwritable(str(error))


@cache
def _warn_unwritable(error: str) -> None:
    warnings.warn(f"plans are not kept across processes: {error}; EQFUSE_CACHE_DIR names another folder", stacklevel=4)


def _remember(key: Key, plan: Plan, report: Report) -> None:
    _memory[key.values] = (plan, report)
    while len(_memory) > IN_MEMORY:
        del _memory[next(iter(_memory))]


def _prune(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) > ON_DISK:
        files.sort(key=lambda path: path.stat().st_mtime)
        for path in files[: len(files) - ON_DISK]:
            path.unlink(missing_ok=True)


def _report(data: dict[str, Any]) -> Report:
    kernels = tuple(KernelReport(**(k | {"ops": tuple(k["ops"])})) for k in data["kernels"])
    return Report(**(data | {"kernels": kernels}))
