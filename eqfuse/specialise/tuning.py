"""`autotune=True`: the fastest of several programs of one graph, by the clock of this machine.

In: a graph, the options of a compile. Out: a program, whose report has the times. Prices decide within a search; here
the clock decides between what several searches chose. Which was the fastest is kept beside the plans, so that a later
compile makes that one alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eqfuse.budget import Meter, budget_of
from eqfuse.compiler import compile_graph
from eqfuse.cost.device import Device
from eqfuse.cost.targets import CPU, device_for, offloads
from eqfuse.errors import EqfuseError, MemoryLimitError, user_level
from eqfuse.ir.graph import Graph
from eqfuse.machine.files import prune, sealed, set_aside, unsealed, write_atomically
from eqfuse.machine.quiet import Watch, look_together
from eqfuse.machine.thread_limit import thread_count
from eqfuse.plan.memory import limit_of
from eqfuse.rewrites.own import usable
from eqfuse.runtime import disk_cache
from eqfuse.runtime.program import Program
from eqfuse.runtime.timing import in_turn
from eqfuse.runtime.verify import drawn_arguments, verified

OTHERS = ("fusion-only", "algebra-first", "greedy-materialise", "greedy-priority+algebra", "unfused")
HOPELESS = 2.0  # times as long as the shortest by prediction: such a program is not timed
CLEARLY_FASTER = 0.97  # of the time of the program that prices choose, below which another takes its place
CHOICE_SUFFIX, CHOICES_ON_DISK, CHOICES_BYTES = ".fastest", 1024, 1 << 22


class Contender(NamedTuple):
    """How a program is found."""

    target: str | Device
    extractor: str

    @property
    def label(self) -> str:
        on = self.target.name if isinstance(self.target, Device) else self.target
        return f"{self.extractor} on {on}"


def compiled(graph: Graph, meter: Meter | None, autotune: bool, options: dict[str, Any]) -> Program:
    """The program of `graph`: as `options` say, or the fastest of several."""
    if not autotune:
        return compile_graph(graph, meter=meter, **options)
    contenders = _contenders(options["target"], options["extractor"], options["numerics"])
    path = _path(graph, options)
    kept = _read(path, contenders) if path is not None else None
    others = options | {"verify": False}
    if kept is not None:
        contender, timed = kept
        program = compile_graph(graph, meter=meter, **(others | contender._asdict()))
    else:
        watch = Watch(partial(look_together, thread_count()))
        program, contender, timed = _fastest(graph, meter, contenders, others, watch)
        if watch.trouble is not None:
            message = f"autotune timed programs while others ran ({watch.trouble}): the next compile times them again"
            warnings.warn(message, stacklevel=user_level())
        elif path is not None:
            _write(path, contender, timed)
    program.report = replace(program.report, timed=timed)
    return verified(program) if options["verify"] else program


def _contenders(target: str | Device, extractor: str, numerics: str) -> list[Contender]:
    """The one that was asked for comes first."""
    targets: list[str | Device] = [target]
    if target == "cpu":
        first = device_for(target, numerics).target
        targets = [first, *(name for name in CPU[CPU.index(first) + 1 :])]
    every = [*(Contender(t, extractor) for t in targets), *(Contender(targets[0], e) for e in OTHERS)]
    return list(dict.fromkeys(every))


def _fastest(
    graph: Graph, meter: Meter | None, contenders: Sequence[Contender], options: dict[str, Any], watch: Watch
) -> tuple[Program, Contender, dict[str, float]]:
    """The fastest program, which of the `contenders` it is, and the times of those that were timed, under `watch`."""
    programs: dict[Contender, Program] = {}
    refused: list[MemoryLimitError] = []
    for contender in contenders:
        try:
            program = compile_graph(graph, meter=None if programs else meter, **(options | contender._asdict()))
        except MemoryLimitError as error:
            refused.append(error.with_traceback(None))
            continue
        if all(program.plan != other.plan for other in programs.values()):
            programs[contender] = program
    if not programs:
        raise min(refused, key=lambda error: error.least)
    shortest = min(p.plan.seconds for p in programs.values())
    first, *_ = programs
    likely = [c for c, p in programs.items() if c == first or p.plan.seconds <= HOPELESS * shortest]
    seconds = dict(zip(likely, _timed(graph, [programs[c] for c in likely], watch), strict=True))
    best = min(likely, key=lambda c: seconds[c])
    if best != first:  # the least of several is often so by chance
        pair = [first, best]
        seconds |= zip(pair, _timed(graph, [programs[c] for c in pair], watch), strict=True)
        best = best if seconds[best] < CLEARLY_FASTER * seconds[first] else first
    return programs[best], best, {c.label: seconds[c] for c in likely}


def _timed(graph: Graph, programs: Sequence[Program], watch: Watch) -> list[float]:
    """Median seconds of a call of each, on random arguments."""
    refused: Exception | None = None
    for arrays in drawn_arguments(graph, "autotune times programs"):
        try:
            return _in_turn(programs, arrays, watch)
        except (IndexError, ValueError, ArithmeticError) as error:
            refused = error
    raise EqfuseError(f"autotune times programs on random arguments, and they are refused ({refused})")


def _in_turn(programs: Sequence[Program], arrays: Sequence[np.ndarray], watch: Watch) -> list[float]:
    if any(offloads(p.plan.device) for p in programs):  # a call would copy the arguments there
        return [sum(p.executable.kernel_seconds(arrays)) for p in programs]
    return in_turn([partial(p.run, arrays) for p in programs], watch.look)


# ---- kept


def _path(graph: Graph, options: dict[str, Any]) -> Path | None:
    """Where it is kept which program was fastest; None where plans are not kept either."""
    numerics, limit = options["numerics"], limit_of(options["memory_limit"])
    laws, device = usable(options["laws"], numerics), device_for(options["target"], numerics)
    key = disk_cache.plan_key(graph, device, numerics, laws, options["extractor"], budget_of(options["budget"]), limit)
    return None if key.path is None else key.path.with_suffix(CHOICE_SUFFIX)


def _read(path: Path, contenders: Sequence[Contender]) -> tuple[Contender, dict[str, float]] | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        data = json.loads(unsealed(path.stem, content))
        (contender,) = [c for c in contenders if c.label == data["fastest"]]
        return contender, {str(label): float(seconds) for label, seconds in data["timed"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        set_aside(path, "file of measured times", error)
        return None


def _write(path: Path, contender: Contender, timed: dict[str, float]) -> None:
    data = json.dumps({"fastest": contender.label, "timed": timed}).encode()
    try:
        write_atomically(path, sealed(path.stem, data))
        prune(path.parent, CHOICE_SUFFIX, CHOICES_ON_DISK, CHOICES_BYTES)
    except OSError:  # they are measured again; that plans are not kept either, `disk_cache` says
        return
