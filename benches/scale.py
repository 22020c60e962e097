"""Compile time and memory of large programs, each in a fresh process with an empty cache, and what cutting them costs.

Run: eqfuse bench scale [--rounds N] [--json FILE]. Seconds are of the CPU, of all threads; wall seconds stand beside.
Then the predicted time of programs cut into segments over that of the same programs searched whole: 1 loses nothing.
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

import numpy as np

from eqfuse.benches.compile import loaded
from eqfuse.show.progress import progress

STAGES = ("trace", "saturate", "extract", "emit", "rest")
PROGRAMS = ("blocks 12", "blocks 96", "chain 5000", "irregular 5000 0", "irregular 5000 1", "irregular 5000 2")
SECONDS, GIGABYTES, GROWTH, EXTRACTION, LOST = 30.0, 2.0, 1.5, 0.5, 1.001  # wanted at most
STACKS = ("blocks 2", "blocks 4", "irregular 300 0", "irregular 300 1")
DEVICES = ("cpu", "a100")


def graph_of(program: str) -> Any:
    """``blocks N``, ``chain N`` or ``irregular N SEED``, traced."""
    import eqfuse as ef
    from eqfuse.benches.compile import transformer
    from eqfuse.benches.corpus.controls import CONTROLS
    from eqfuse.benches.corpus.random_graphs import irregular_graph

    kind, count, *seed = program.split()
    if kind == "irregular":
        return irregular_graph(np.random.default_rng(int(seed[0])), int(count))
    if kind == "chain":
        function, types = CONTROLS["N11"].build(n=1 << 20, k=int(count))
        return ef.trace(function, *(ef.spec(t.shape, t.dtype) for t in types))
    function, x, layers = transformer(1)
    spec = {name: {key: ef.spec(a.shape, a.dtype) for key, a in part.items()} for name, part in layers[0].items()}
    return ef.trace(function, ef.spec(x.shape, x.dtype), [spec] * int(count))


def one(program: str) -> dict[str, Any]:
    """CPU seconds by stage in this process, and its largest memory."""
    ef = loaded()
    from eqfuse.budget import Meter
    from eqfuse.cost.targets import device_for
    from eqfuse.extract import chosen_plan
    from eqfuse.plan.report import make_report
    from eqfuse.runtime.program import emit

    device, seconds = device_for("numpy"), {}
    begun, before = time.perf_counter(), time.process_time()

    def lap(stage: str) -> None:
        nonlocal before
        now = time.process_time()
        seconds[stage], before = now - before, now

    graph = graph_of(program)
    lap("trace")
    space = ef.saturate(graph)
    lap("saturate")
    plan = chosen_plan(space, device)
    lap("extract")
    emitted = emit(plan)
    lap("emit")
    make_report(plan, chosen_plan(space, device, "unfused", proved=False), space, {}, emitted.peak_bytes, Meter())
    lap("rest")
    return seconds | {
        "cpu": sum(seconds.values()), "wall": time.perf_counter() - begun, "stopped": space.stop_reason,
        "operators": len(graph.operators), "segments": f"{len(space.uses)}/{len(space.segments)}",
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def lost(program: str) -> dict[str, float]:
    """The predicted time of the program in segments over that of the whole, by device."""
    import eqfuse as ef
    from eqfuse.cost.profiles import DEVICES as PROFILES
    from eqfuse.egraph.saturate import saturate_segment
    from eqfuse.egraph.segments import one_segment, segments
    from eqfuse.egraph.space import Space
    from eqfuse.extract import chosen_plan
    from eqfuse.rewrites import admitted, laws_named

    graph, laws, budget = graph_of(program), admitted(laws_named("all"), "reassociate"), ef.Budget(60, 10_000, 12)

    def seconds(cut: Callable[[Any], tuple], device: str) -> float:
        pieces, uses = cut(graph)
        space = Space(graph, tuple(saturate_segment(p, laws, budget) for p in pieces), tuple(uses))
        return chosen_plan(space, PROFILES[device]).seconds

    return {device: seconds(segments, device) / seconds(one_segment, device) for device in DEVICES}


def cold(*task: str) -> Any:
    """One of the functions above, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "eqfuse.benches.scale", *task]
        environment = os.environ | {"EQFUSE_CACHE_DIR": folder}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--lost", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="processes per program; medians are shown")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    options = parser.parse_args(arguments)
    if options.one or options.lost:
        print(json.dumps(one(options.one) if options.one else lost(options.lost)))
        return
    heads = (*STAGES, "cpu", "wall", "gigabytes")
    print(f"{'program':18}{'operators':>10}{'segments':>10}" + "".join(f"{name:>10}" for name in heads) + "  stopped")
    table: dict[str, dict[str, Any]] = {}
    with progress(len(PROGRAMS)) as display:
        for program in PROGRAMS:
            display.step(program)
            rounds = [cold("--one", program) for _ in range(options.rounds)]
            row = table[program] = rounds[0] | {name: statistics.median(r[name] for r in rounds) for name in heads}
            numbers = "".join(f"{row[name]:10.2f}" for name in heads)
            print(f"{program:18}{row['operators']:10}{row['segments']:>10}{numbers}  {row['stopped']}", flush=True)
    few, many = (table[f"blocks {n}"] for n in (12, 96))
    growth = (many["saturate"] + many["extract"]) / (few["saturate"] + few["extract"])
    _judge(f"96 blocks take {growth:.2f} times as long as 12 to saturate and extract", GROWTH, growth)
    _judge(f"12 blocks take {few['extract']:.2f} s to extract", EXTRACTION, few["extract"])
    slowest = max(table[p]["wall"] for p in PROGRAMS if p.startswith("irregular"))
    _judge(f"irregular programs take {slowest:.1f} s at most from trace to report", SECONDS, slowest)
    largest = max(row["gigabytes"] for row in table.values())
    _judge(f"no process holds more than {largest:.2f} GB", GIGABYTES, largest)
    with progress(len(STACKS)) as display:
        for program in STACKS:
            display.step(f"{program}, in segments and whole")
            ratios = table[f"lost: {program}"] = cold("--lost", program)
            for device, ratio in ratios.items():
                _judge(f"{program} in segments takes {ratio:.5f} of the whole on {device}", LOST, ratio)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


def _judge(what: str, wanted: float, got: float) -> None:
    print(f"{what}; wanted ≤ {wanted:g}: {'met' if got <= wanted else 'MISSED'}", flush=True)


if __name__ == "__main__":
    main()
