"""Compile time and memory of programs written with Python loops of growing length, each in a fresh process.

Run: eqfuse bench loops [--target T] [--seconds N] [--gigabytes N] [--json FILE] [name…]. Each process has that much
time and address space at most, and an empty cache; what exceeds them is said in its row. Seconds are wall time after
the import, `own` the processor time of the thread that compiles; the answer of the compiled program is compared with
NumPy's, and `speed` is NumPy's time of a call over its, medians in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eqfuse.benches.compile import loaded
from eqfuse.benches.corpus.loops import PROGRAMS
from eqfuse.show.progress import progress

STAGES = ("trace", "saturate", "extract", "steps", "emit", "total", "own")
CALLS = 21  # of the compiled program and of NumPy, in turn
SECONDS, GIGABYTES, GROWTH = 5.0, 1.0, 1.2  # wanted at most: of a whole compile, above the start, exponent of steps


def one(name: str, steps: int, gigabytes: float, target: str) -> dict[str, Any]:
    """Seconds by stage in this process, with that much address space, and its largest memory."""
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)
    ef = loaded()
    from eqfuse.cost.targets import device_for

    device_for(target)
    build, _ = PROGRAMS[name]
    function, arguments = build(steps)
    before, begun, used = _peak(), time.perf_counter(), time.thread_time()
    graph = ef.trace(function, *arguments)
    traced = time.perf_counter()
    program = ef.compile(graph, target=target)
    done, own = time.perf_counter(), time.thread_time() - used
    held = _peak() - before
    np.testing.assert_allclose(program(*arguments), function(*arguments), rtol=1e-6, atol=1e-9)
    return program.report.seconds | {
        "trace": traced - begun, "total": done - begun, "own": own, "gigabytes": held,
        "operators": len(graph.operators), "kernels": len(program.plan.kernels),
        "speed": _speed(program, function, arguments),
    }  # fmt: skip


def _speed(program: Any, function: Any, arguments: Sequence[Any]) -> float:
    """How many times as fast as `function` the program is."""
    rounds = [(_seconds(function, arguments), _seconds(program, arguments)) for _ in range(CALLS)]
    numpy, ours = (statistics.median(times) for times in zip(*rounds, strict=True))
    return numpy / ours


def _seconds(function: Any, arguments: Sequence[Any]) -> float:
    begun = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begun


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def cold(name: str, steps: int, seconds: float, gigabytes: float, target: str) -> dict[str, Any]:
    """`one` in a fresh process; where it did not end, why."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "eqfuse.benches.loops", "--one", str(steps), "--gigabytes", str(gigabytes)]
        command += ["--target", target]
        environment = os.environ | {"EQFUSE_CACHE_DIR": folder}
        try:
            done = subprocess.run([*command, name], env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {seconds:.0f} s"}
    if done.returncode == 0:
        row: dict[str, Any] = json.loads(done.stdout)
        return row
    why = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
    return {"failed": why[:100]}


def growth(rows: dict[int, dict[str, Any]]) -> float:
    """The exponent of the steps by which the total grows, between the two largest programs."""
    (few, before), (many, after) = sorted(rows.items())[-2:]
    if "failed" in before or "failed" in after:
        return math.inf
    return math.log(after["total"] / before["total"]) / math.log(many / few)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench loops", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--target", default="numpy", help="which to compile for")
    parser.add_argument("--seconds", type=float, default=120, help="of each process at most")
    parser.add_argument("--gigabytes", type=float, default=6, help="of address space of each process")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    parser.add_argument("names", nargs="*", help=f"only those with one of these in their name: {', '.join(PROGRAMS)}")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(one(options.names[0], options.one, options.gigabytes, options.target)))
        return
    names = [name for name in PROGRAMS if not options.names or any(part in name for part in options.names)]
    heads = "".join(f"{stage:>10}" for stage in (*STAGES, "gigabytes", "speed"))
    print(f"{'program':14}{'steps':>6}{'operators':>10}{'kernels':>9}{heads}")
    table: dict[str, dict[int, dict[str, Any]]] = {}
    with progress(sum(len(PROGRAMS[name][1]) for name in names)) as display:
        for name in names:
            rows = table[name] = {}
            for steps in PROGRAMS[name][1]:
                display.step(f"{name}, {steps} steps")
                rows[steps] = cold(name, steps, options.seconds, options.gigabytes, options.target)
                print(f"{name:14}{steps:6}{_line(rows[steps])}", flush=True)
            print(f"{'':14}growth: steps ** {growth(rows):.2f}, wanted ≤ {GROWTH}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"  {row['failed']}"
    numbers = "".join(f"{row[stage]:10.2f}" for stage in (*STAGES, "gigabytes", "speed"))
    met = row["total"] <= SECONDS and row["gigabytes"] <= GIGABYTES
    return f"{row['operators']:10}{row['kernels']:9}{numbers}" + ("" if met else "  MISSED")


if __name__ == "__main__":
    main()
