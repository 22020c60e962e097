"""Workloads on this CPU: eqfuse against NumPy, JAX, PyTorch, numexpr and numba, in one process on equal threads.

Run: eqfuse bench cpu [--sizes L2,L3,memory] [--dtypes float32,float64] [--threads N] [--mixed] [--seconds N]
[--json FILE] [--plot FILE] [name…]; with --convolutions, single ones against torch; with --products, against NumPy;
with --models, whole ones against onnxruntime and torch. Each workload has a process of its own, in which contenders
take turns after their answers are compared with a float64 run of NumPy; one that is not installed, cannot run it, or is
less exact, stands aside. Losses come first. The exit status is 1 where an answer of eqfuse is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.benches import convolutions, models, products
from eqfuse.benches.corpus.workloads import WORKLOADS, Workload, arguments
from eqfuse.benches.limits import OFF, draw, flag, new_figure, roofline_of
from eqfuse.benches.peers import CONTENDERS, OURS, PEERS, PLAIN, limit_threads, results
from eqfuse.benches.processes import last_row
from eqfuse.benches.timing import machine, medians, uses_blas
from eqfuse.cost.targets import device_for
from eqfuse.machine.thread_limit import thread_count
from eqfuse.show.progress import progress

SIZES = {"L2": 1 << 17, "L3": 1 << 20, "memory": 1 << 23}  # elements of all arguments together, of 4 bytes
PRODUCT = 512  # rows and columns of the product that a call follows in mixed use
WORSE = 3  # times the largest error of NumPy, and
LEAST = 1e-5  # of the largest value, that an answer may be off


def measure(workload: Workload, size: str, dtype: str, seconds: float, mixed: bool = False) -> dict[str, Any]:
    """Seconds of a call by contender, why others stood aside, and eqfuse's price and limit, in this process.

    `mixed`: each call follows a product of NumPy's, whose threads still spin.
    """
    elements = SIZES[size] * 4 // np.dtype(dtype).itemsize
    arrays = arguments(workload, elements, dtype)
    exact = results(workload.function(*[a.astype(np.float64) for a in arrays]))
    bound = WORSE * _error(results(workload.function(*arrays)), exact) + LEAST
    calls, aside = {}, {}
    for name, prepare in CONTENDERS.items():
        try:
            call = prepare(workload, arrays)
            off = _error(results(call()), exact)
        except Exception as error:  # of any library, in any way
            aside[name] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
            continue
        if off <= bound:
            calls[name] = call
        else:
            aside[name] = f"wrong by {off:.1e} of the largest value"
    plan = ef.compile(workload.function, *arrays).plan
    square = np.ones((PRODUCT, PRODUCT), np.float32)
    before = (lambda: square @ square) if mixed else None
    times = medians([*calls.values()], seconds * len(calls), before=before, rested=uses_blas(plan.graph))
    taken = dict(zip(calls, times, strict=True))
    limit = roofline_of(plan)
    figures = {"priced": plan.seconds, "limit": limit.seconds, "bytes": limit.bytes, "flops": limit.flops}
    return {"seconds": taken, "aside": aside} | figures


def _error(computed: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """The largest, as a share of the largest value; of indices, the share that differs."""
    worst = 0.0
    for got, wanted in zip(computed, exact, strict=True):
        if wanted.dtype.kind == "i":
            worst = max(worst, float(np.mean(got != wanted)) / 1e3)
        else:
            worst = max(worst, float(np.abs(got - wanted).max() / np.abs(wanted).max()))
    return worst


def apart(workload: Workload, size: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """`measure` in a process of its own; where it did not end, why."""
    command = [sys.executable, "-m", "eqfuse.benches.cpu", "--one", f"{size},{dtype}"]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    return last_row([*command, *["--mixed"] * options.mixed, workload.name])


def lead(row: dict[str, Any]) -> float:
    """How many times the fastest peer takes what eqfuse takes; 0 where eqfuse has no answer."""
    taken = row.get("seconds", {})
    return min(taken[name] for name in PEERS if name in taken) / taken[OURS] if OURS in taken else 0.0


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table, losses first, and geometric means by size."""
    heads = "".join(f"{name:>14}" for name in CONTENDERS)
    print(f"{'workload':26}{'size':>8}{'dtype':>9}{heads}{'best peer':>11}{'NumPy':>8}{'limit':>7}{'price':>6}   "
          "ms; times eqfuse's")  # fmt: skip
    for row in sorted(rows, key=lead):
        start = f"{row['name']:26}{row['size']:>8}{row['dtype']:>9}"
        if "failed" in row:
            print(f"{start}  {row['failed']}")
            continue
        taken = row["seconds"]
        cells = "".join(f"{taken[name] * 1e3:14.3f}" if name in taken else f"{'':14}" for name in CONTENDERS)
        if OURS in taken:
            share, price = row["limit"] / taken[OURS], row["priced"] / taken[OURS]
            cells += f"{lead(row):11.2f}{taken[PLAIN] / taken[OURS]:8.2f}{share:7.0%}{price:6.2f}{flag(price)}"
        print(f"{start}{cells}")
        if OURS in row["aside"]:
            print(f"    {OURS}: {row['aside'][OURS]}")
    for size in SIZES:
        for dtype in sorted({row["dtype"] for row in rows}):
            leads = [lead(row) for row in rows if (row["size"], row["dtype"]) == (size, dtype) and lead(row)]
            if leads:
                mean = math.exp(statistics.mean(map(math.log, leads)))
                print(f"{size}, {dtype}: {mean:.2f} times as fast as the best peer, least {min(leads):.2f}")
    ours = [row for row in rows if OURS in row.get("seconds", {})]
    if len(ours) > 2:
        from scipy.stats import spearmanr  # takes seconds to import

        priced, taken = [row["priced"] for row in ours], [row["seconds"][OURS] for row in ours]
        off = sum(bool(flag(p / t)) for p, t in zip(priced, taken, strict=True))
        print(f"prices of {len(ours)}: Spearman {spearmanr(priced, taken).statistic:.3f}, {off} off by more than {OFF}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="eqfuse bench cpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="memory", help=f"of {','.join(SIZES)}")
    parser.add_argument("--dtypes", default="float32", help="of float32,float64")
    parser.add_argument("--threads", type=int, default=thread_count(), help="of each contender")
    parser.add_argument("--mixed", action="store_true", help="each call behind a product of NumPy's, without a pause")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contender's turns")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--plot", type=Path, help="draw a roofline of this CPU with all workloads on it (extra `plot`)")
    parser.add_argument("--convolutions", action="store_true", help="single ones against torch")
    parser.add_argument("--products", action="store_true", help="single ones against NumPy and BLAS")
    parser.add_argument("--models", action="store_true", help="ONNX models against onnxruntime and torch")
    parser.add_argument("names", nargs="*", help="only workloads with one of these in their name")
    options = parser.parse_args(arguments)
    if options.one:
        (workload,) = [w for w in WORKLOADS if w.name == options.names[0]]
        limit_threads(options.threads)
        warnings.simplefilter("ignore")
        size, dtype = options.one.split(",")
        print(json.dumps(measure(workload, size, dtype, options.seconds, options.mixed)))
        return 0
    if options.convolutions or options.products:
        limit_threads(options.threads)
    if options.convolutions:
        return convolutions.run(options.names, options.threads, options.seconds)
    if options.products:
        return products.run(options.names, options.threads, options.seconds)
    if options.models:
        return models.run(options.names, options.threads, options.seconds, options.json)
    chosen = [w for w in WORKLOADS if not options.names or any(part in w.name for part in options.names)]
    cases = [(w, s, d) for w in chosen for s in options.sizes.split(",") for d in options.dtypes.split(",")]
    figure = new_figure(11, 7) if options.plot else None
    print(machine())
    rows = []
    with progress(len(cases)) as display:
        for workload, size, dtype in cases:
            display.step(f"{workload.name}, {size}, {dtype}")
            figures = apart(workload, size, dtype, options)
            rows.append({"name": workload.name, "size": size, "dtype": dtype} | figures)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    show(rows)
    if figure:
        measured = [row | {"taken": row["seconds"][OURS]} for row in rows if OURS in row.get("seconds", {})]
        draw(figure, options.plot, device_for("cpu"), measured)
        print(f"drawn: {options.plot}")
    return 1 if any("failed" in row or "wrong" in row["aside"].get(OURS, "") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
