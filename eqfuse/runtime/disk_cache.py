"""Plans that were chosen before: in memory, and on disk across processes.

In: everything a plan depends on. Out: the plan and its report, or None. Entries are data (no code, no pickle), so a
foreign file can do no more than be refused; a damaged one is set aside; an unwritable folder costs only the cache.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.targets import OUR_TARGETS
from eqfuse.errors import EqfuseError, user_level
from eqfuse.ir.graph import Graph
from eqfuse.kinds import registered
from eqfuse.machine.files import cache_dir, prune, sealed, set_aside, unsealed, write_atomically
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import Report
from eqfuse.plan.text import plan_of_text, plan_text, report_of_text, report_text
from eqfuse.rewrites import Law, admitted, book

IN_MEMORY = 256  # plans
PLANS_ON_DISK, PLANS_BYTES = 1024, 1 << 30  # files; the oldest go first
LOOK = 20  # plans written between two looks at how many there are
PLAN_SUFFIX = ".plan"  # a digest, a line's end, and JSON

_memory: dict[tuple, tuple[Plan, Report]] = {}
_lock = threading.RLock()
_written = itertools.count()


@dataclass(frozen=True)
class PlanKey:
    """Names a plan. `path` is None where a user's own law, kind, target or function takes part: code has no
    name that outlives the process."""

    values: tuple
    path: Path | None
    device: Device


def plan_key(
    graph: Graph, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, budget: Any,
    memory_limit: int | None, uncut: bool = False,
) -> PlanKey:  # fmt: skip
    """The key of the plan that these choices lead to. `uncut`: of a search that did not cut the graph."""
    names = tuple(law.name for law in laws)
    path = None
    kinds = registered()
    ours = not kinds and device.target in OUR_TARGETS and set(laws) <= set(admitted(book(), numerics))
    if ours and not graph.calls_python:
        text = repr((_code(), graph.key, device.digest, numerics, names, extractor, budget, memory_limit, uncut))
        path = cache_dir() / "plans" / f"{hashlib.blake2b(text.encode(), digest_size=20).hexdigest()}{PLAN_SUFFIX}"
    return PlanKey((graph.key, device, numerics, laws, kinds, extractor, budget, memory_limit, uncut), path, device)


@cache
def _code() -> str:
    """Digest of eqfuse's own source: a plan of another version is never found."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("eqfuse", "eqfuse.rewrites", "eqfuse.extract"):  # by import_module: `ef.extract` is a function
        for path in sorted(Path(import_module(name).__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def find(key: PlanKey, graph: Graph) -> tuple[Plan, Report] | None:
    """The plan of `key` for `graph`, and its report."""
    entry = _memory.get(key.values)
    if entry is not None:
        return entry
    if key.path is None:
        return None
    try:
        text = key.path.read_bytes()
    except OSError:
        return None
    try:
        plan, report = _opened(text, key.path.stem, graph, key.device)
    except (EqfuseError, ValueError, KeyError, TypeError, RecursionError) as error:
        set_aside(key.path, "cached plan", error)
        return None
    _remember(key, plan, report)
    return plan, report


def keep_plan(key: PlanKey, plan: Plan, report: Report) -> None:
    """Store a plan and its report."""
    _remember(key, plan, report)
    if key.path is None:
        return
    try:
        write_atomically(key.path, _sealed(key.path.stem, plan, report))
        if next(_written) % LOOK == 0:
            prune(key.path.parent, PLAN_SUFFIX, PLANS_ON_DISK, PLANS_BYTES)
    except OSError as error:
        _warn_unwritable(str(error))


def _sealed(name: str, plan: Plan, report: Report) -> bytes:
    """The content of the file `name`."""
    return sealed(name, json.dumps({"plan": plan_text(plan), "report": report_text(report)}).encode())


def _opened(data: bytes, name: str, graph: Graph, device: Device) -> tuple[Plan, Report]:
    """What `_sealed` put in. EqfuseError or ValueError when a byte has changed, or the file had another name."""
    content = json.loads(unsealed(name, data))
    return plan_of_text(content["plan"], graph, device), report_of_text(content["report"])


@cache
def _warn_unwritable(error: str) -> None:
    message = f"plans are not kept across processes: {error}; EQFUSE_CACHE_DIR names another folder"
    warnings.warn(message, stacklevel=user_level())


def _remember(key: PlanKey, plan: Plan, report: Report) -> None:
    with _lock:
        _memory[key.values] = (plan, report)
        while len(_memory) > IN_MEMORY:
            del _memory[next(iter(_memory))]
