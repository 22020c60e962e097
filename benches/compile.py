"""Cold compile time of 1, 3, 6 and 12 transformer blocks, stage by stage, each in a fresh process with an empty cache.

Run: eqfuse bench compile [--rounds N] [--json FILE], or with --programs [--target NAME] [name…] in a checkout, for the
first calls of the programs of tests/programs, slowest first. Imports and the one-time estimate of the CPU's profile
stand apart: they do not grow with the program. After the blocks: the saturation of the 12 under the laws of the
default, and under the whole book: opt-in families expand without end, so there the limits end it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eqfuse.show.progress import progress

DEPTHS = (1, 3, 6, 12)
WANTED = {1: 1.0, 12: 4.0}  # seconds
WANTED_SATURATION = 1.5
WANTED_FIRST_CALL = 3.0
STAGES = ("trace", "saturate", "extract", "emit", "rest")


def one(blocks: int) -> dict[str, float]:
    """Seconds by stage in this process."""
    started = time.perf_counter()
    ef = loaded()
    from eqfuse.cost.targets import device_for

    imported = time.perf_counter()
    device_for("numpy")
    profiled = time.perf_counter()
    function, x, layers = transformer(blocks)
    begun = time.perf_counter()
    graph = ef.trace(function, x, layers)
    traced = time.perf_counter()
    program = ef.compile(graph, target="numpy")
    done = time.perf_counter()
    seconds = {"import": imported - started, "profile": profiled - imported, "trace": traced - begun}
    seconds |= program.report.seconds
    seconds["total"] = done - begun
    seconds["rest"] = seconds["total"] - sum(seconds[stage] for stage in STAGES[:-1])
    return seconds


def loaded() -> Any:
    """`eqfuse` with what it imports at first use, which is not to be counted as compile time."""
    import eqfuse as ef

    for name in ef.__all__:
        getattr(ef, name)
    return ef


def transformer(blocks: int) -> tuple[Callable[..., Any], Any, list]:
    """The function and its arguments. Every block has the same parameters, in arrays of its own."""
    import numpy as np

    from eqfuse.demo.programs import transformer

    function, (x, layers) = transformer(blocks=1).build(np.float32)
    return function, x, [
        {name: {key: array + 0 for key, array in part.items()} for name, part in layers[0].items()}
        for _ in range(blocks)
    ]  # fmt: skip


def saturations() -> dict[str, dict[str, Any]]:
    """What saturating the deepest program takes under the laws of the default and under the whole book."""
    import eqfuse as ef
    from eqfuse.rewrites import OPT_IN, book, laws_named

    function, x, layers = transformer(DEPTHS[-1])
    graph = ef.trace(function, x, layers)
    table = {}
    for laws in (["all"], ["all", *sorted(OPT_IN)]):
        count, whole = len(laws_named(laws)), len(book())
        started = time.perf_counter()
        space = ef.saturate(graph, laws=laws)
        table[f"{count} laws of {whole}: {' + '.join(laws)}"] = {
            "seconds": time.perf_counter() - started, "nodes": space.n_nodes, "stopped": space.stop_reason,
            "costliest": sorted(space.law_seconds.items(), key=lambda item: -item[1])[:3],
        }  # fmt: skip
    return table


def first_call(name: str, target: str) -> dict[str, Any]:
    """The first call of one of the programs of tests/programs at its small size: wall seconds, by stage, and those of
    processor time, compilers' among them."""
    ef = loaded()
    from eqfuse.benches.corpus.checkout import checkout_programs
    from eqfuse.cost.targets import device_for

    (program,) = [p for p in checkout_programs() if p.name == name]
    positional, named = program.arguments(program.small)
    jitted = ef.jit(program.function, static_argnames=program.static, target=target)
    device_for(target)
    started, begun = processor_seconds(), time.perf_counter()
    jitted(*positional, **named)
    total, used = time.perf_counter() - begun, processor_seconds() - started
    positional, named = program.arguments(program.small)
    compiled = jitted.program(*positional, **named)
    seconds = {stage: compiled.report.seconds.get(stage, 0.0) for stage in STAGES[1:-1]}
    kernels = {"operators": len(compiled.plan.graph.operators), "kernels": compiled.report.n_kernels}
    return {"total": total, "processor": used, **seconds, **kernels}


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def first_calls(target: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A row for each program with one of `names` in its name, slowest first."""
    from eqfuse.benches.corpus.checkout import checkout_programs

    chosen = [p.name for p in checkout_programs() if not names or any(part in p.name for part in names)]
    table = {}
    with progress(len(chosen)) as display:
        for name in chosen:
            table[name] = cold("--first-call", name, "--target", target)
            display.ended(name)
    table = dict(sorted(table.items(), key=lambda item: -item[1]["total"]))
    print(f"first calls on {target}, seconds; {os.getloadavg()[1]:.1f} processes ran at once of late")
    columns = ("total", "processor", *STAGES[1:-1])
    print(f"{'program':22}" + "".join(f"{name:>10}" for name in (*columns, "operators", "kernels")))
    for name, row in table.items():
        print(f"{name:22}" + "".join(f"{row[c]:10.2f}" for c in columns) + f"{row['operators']:10}{row['kernels']:10}")
    slow = sum(row["total"] > WANTED_FIRST_CALL for row in table.values())
    verdict = "met" if not slow else f"MISSED by {slow} of {len(table)}"
    print(f"wanted: none above {WANTED_FIRST_CALL:.0f} s: {verdict}")
    return table


def cold(*task: str) -> Any:
    """One of the functions above, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *task]
        environment = os.environ | {"EQFUSE_CACHE_DIR": folder}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench compile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--saturations", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first-call", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="processes per depth; medians are shown")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    parser.add_argument("--programs", action="store_true", help="the first calls of tests/programs instead")
    parser.add_argument("--target", default="cpu", help="of the programs; by default cpu")
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(one(options.one)))
    elif options.saturations:
        print(json.dumps(saturations()))
    elif options.first_call:
        print(json.dumps(first_call(options.first_call, options.target)))
    else:
        table: dict[str, Any]
        if options.programs or options.names:
            table = first_calls(options.target, options.names)
        else:
            table = {f"{blocks} blocks": row for blocks, row in deep(options.rounds).items()}
            saturated(options.rounds)
        if options.json:
            options.json.write_text(json.dumps(table, indent=1))


def deep(rounds: int) -> dict[int, dict[str, float]]:
    """The medians of each depth, printed as they are found."""
    print(f"{'blocks':>6}" + "".join(f"{name:>10}" for name in (*STAGES, "total", "wanted", "import", "profile")))
    table: dict[int, dict[str, float]] = {}
    for blocks in DEPTHS:
        with progress() as display:
            display.say(f"{blocks} blocks, {rounds} processes")
            runs = [cold("--one", str(blocks)) for _ in range(rounds)]
        row = table[blocks] = {name: statistics.median(r[name] for r in runs) for name in runs[0]}
        wanted = WANTED.get(blocks)
        met = "" if wanted is None else f"≤ {wanted:.0f} s " + ("met" if row["total"] <= wanted else "MISSED")
        print(
            f"{blocks:6}" + "".join(f"{row[name]:10.3f}" for name in (*STAGES, "total"))
            + f"{met:>13}{row['import']:7.2f}{row['profile']:10.2f}",
            flush=True,
        )  # fmt: skip
    first, last = DEPTHS[0], DEPTHS[-1]
    growth = table[last]["total"] / table[first]["total"]
    verdict = "no worse than linear: met" if growth <= last / first else "worse than linear: MISSED"
    print(f"{last} blocks take {growth:.1f} times as long as {first}; {verdict}")
    return table


def saturated(rounds: int) -> None:
    """What saturating the deepest program takes, printed."""
    print(f"\nsaturation of {DEPTHS[-1]} blocks")
    with progress() as display:
        display.say("saturation")
        runs = [cold("--saturations") for _ in range(rounds)]
    for laws, row in runs[0].items():
        taken = statistics.median(run[laws]["seconds"] for run in runs)
        met = "met" if taken <= WANTED_SATURATION else "MISSED"
        costliest = ", ".join(f"{law} {seconds:.3f} s" for law, seconds in row["costliest"])
        print(f"{laws}: {taken:.3f} s, wanted ≤ {WANTED_SATURATION} s {met}; {row['nodes']:,} nodes, "
              f"stopped: {row['stopped']}; costliest: {costliest}")  # fmt: skip


if __name__ == "__main__":
    main()
