"""Cold compile time of 1, 3, 6 and 12 transformer blocks, stage by stage, each in a fresh process with an empty cache.

Run: python benches/compile.py [--rounds N] [--json FILE]. Imports and the one-time estimate of the CPU's profile stand
apart: they do not grow with the program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEPTHS = (1, 3, 6, 12)
WANTED = {1: 1.0, 12: 4.0}  # seconds
STAGES = ("trace", "saturate", "extract", "emit", "rest")


def one(blocks: int) -> dict[str, float]:
    """Seconds by stage in this process."""
    started = time.perf_counter()
    import numpy as np

    import eqfuse as ef
    from eqfuse.demo_programs import transformer
    from eqfuse.targets import device_for

    imported = time.perf_counter()
    device_for("numpy")
    profiled = time.perf_counter()
    # sizes do not matter for the search, so the parameters stay small in memory: what is traced has the published ones
    function, (x, layers) = transformer(blocks=1).build(np.float32)
    layers = [
        {name: {key: array + 0 for key, array in part.items()} for name, part in layers[0].items()}
        for _ in range(blocks)
    ]
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


def cold(blocks: int) -> dict[str, float]:
    """`one` in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", str(blocks)]
        environment = os.environ | {"EQFUSE_CACHE_DIR": folder}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="processes per depth; medians are shown")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return
    print(f"{'blocks':>6}" + "".join(f"{name:>10}" for name in (*STAGES, "total", "wanted", "import", "profile")))
    table: dict[int, dict[str, float]] = {}
    for blocks in DEPTHS:
        rounds = [cold(blocks) for _ in range(options.rounds)]
        row = table[blocks] = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
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
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
