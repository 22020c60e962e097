"""Workloads on this GPU: eqfuse against plain CuPy, and torch and JAX where these are installed.

Run: eqfuse bench cuda [--dry-run] [--limit SECONDS] [--compile] [--json FILE] [name…]. First what a copy and an empty
launch take; then each case: answers are compared with a float64 run of CuPy, contenders take turns, the program as one
CUDA graph among them. The table comes last. What is not begun within the limit is left out, and named. `--dry-run`:
small cases on the emulator, whose times say nothing. `--compile` adds torch.compile, which takes minutes more. The exit
status is 1 where an answer of eqfuse is wrong, or a case fails.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.gpu_cases import DRY, FULL, GpuCase, cases
from eqfuse.benches.gpu_peers import GPU_PEERS, SLOW_PEERS, PeerRun, cupy_function, narrowed
from eqfuse.benches.limits import flag
from eqfuse.emit.cuda.executable import CudaExecutable
from eqfuse.ir.pytree import tree_leaves
from eqfuse.machine.gpu import CupyGpu, cupy_gpu
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program
from eqfuse.show.progress import progress
from eqfuse.testing.emulated_gpu import EmulatedGpu

OURS, GRAPHS = "eqfuse", "with graphs"
LIMIT = 420.0  # seconds within which the last case begins
ROUNDS = 5
BATCH = 2e-3  # seconds of calls that are timed at once
WORSE, UNITS = 3, 8  # times the error of CuPy, and units in the last place of the largest value, an answer may be off
EMPTY = 'extern "C" __global__ void empty() {}\n'


@dataclass(frozen=True)
class Bench:
    """Where cases run. `copy`: bytes read and written a second; `launch`: seconds of an empty kernel."""

    gpu: Any
    target: str
    copy: float
    launch: float


def bench_on(gpu: Any, target: str, nbytes: int) -> Bench:
    a, b = (gpu.empty((nbytes // 4,), np.dtype(np.float32)) for _ in range(2))
    empty = gpu.function(gpu.module(EMPTY, False), "empty")
    copy, launch = partial(b.__setitem__, slice(None), a), partial(empty, (1,), (32,), ())
    taken = turns([PeerRun(copy, gpu.finish), PeerRun(launch, gpu.finish)])
    return Bench(gpu, target, 2 * nbytes / taken[0], taken[1])


def turns(runs: Sequence[PeerRun]) -> list[float]:
    """Median seconds of a call of each of `runs`, in batches that take turns."""
    batches = []
    for run in runs:
        _batch(run, 2)
        batches.append(max(1, min(200, int(BATCH / _batch(run, 1)))))
    taken = [[_batch(run, batch) for run, batch in zip(runs, batches, strict=True)] for _ in range(ROUNDS)]
    return [statistics.median(seconds) for seconds in zip(*taken, strict=True)]


def _batch(run: PeerRun, count: int) -> float:
    """Seconds of a call, over `count` of them."""
    run.finish()
    started = time.perf_counter()
    for _ in range(count):
        run.call()
    run.finish()
    return max((time.perf_counter() - started) / count, 1e-9)


def measure(case: GpuCase, bench: Bench, peers: dict[str, Any]) -> dict[str, Any]:
    """What the case takes on the device, by contender, and how far its price and its answer are off."""
    gpu, wide = bench.gpu, _drawn(case, bench.gpu)
    arrays = [a.astype(_dtype(case)) for a in wide]
    exact = _results(gpu, cupy_function(case, gpu)(*[a.astype(np.float64) for a in arrays]))
    graph = ef.trace(narrowed(case.function), *[ef.spec(s, _dtype(case)) for s in case.shapes])
    plan = ef.extract(ef.saturate(graph), target=bench.target)
    executable = CudaExecutable(plan, gpu)
    program = Program(plan, executable)
    runs, aside, errors = {OURS: PeerRun(lambda: program(*arrays), gpu.finish)}, {}, {}
    errors[OURS] = _error(_results(gpu, program(*arrays)), exact)
    for name, prepare in ({GRAPHS: partial(as_graph, plan)} | peers).items():
        try:
            runs[name] = prepare(case, gpu, arrays, wide)
            answer = runs[name].call()
            errors |= {name: _error(_results(gpu, answer), exact)} if name == "CuPy" else {}
        except Exception as error:  # of any library, in any way
            runs.pop(name, None)
            aside[name] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    bound = max(WORSE * errors.get("CuPy", 0.0), UNITS * float(ml_dtypes.finfo(_dtype(case)).eps))
    kernels = executable.kernel_seconds(arrays)
    return {
        "seconds": dict(zip(runs, turns(list(runs.values())), strict=True)), "aside": aside, "kernels": len(kernels),
        "device": sum(kernels), "priced": sum(k.price.seconds for k in plan.kernels), "error": errors[OURS],
        "wrong": not errors[OURS] <= bound, "bytes": sum(a.nbytes for a in arrays) + _written(graph),
        "flops": case.flops, "peak": plan.device.contraction_flops(case.dtype) if case.flops else 0.0,
    }  # fmt: skip


def as_graph(plan: Plan, case: GpuCase, gpu: Any, arrays: Sequence[Any], wide: Sequence[Any]) -> PeerRun:
    """The same program as one CUDA graph."""
    executable = CudaExecutable(plan, gpu)
    executable.use_graphs()
    program = Program(plan, executable)
    program(*arrays)  # which brings what a graph needs
    return PeerRun(lambda: program(*arrays), gpu.finish)


def _dtype(case: GpuCase) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, case.dtype, None) or case.dtype)


def _drawn(case: GpuCase, gpu: Any) -> list[Any]:
    """The arguments on the device, as float32."""
    rng = np.random.default_rng(0)
    draw = rng.random if case.positive else rng.standard_normal
    scales = [s[0] ** -0.5 if len(s) == 2 and case.flops and i else 1.0 for i, s in enumerate(case.shapes)]
    return [gpu.upload(draw(s, np.float32) * np.float32(c)) for s, c in zip(case.shapes, scales, strict=True)]


def _results(gpu: Any, results: Any) -> list[np.ndarray]:
    return [np.asarray(gpu.download(part), np.float64) for part in tree_leaves(results)[0]]


def _written(graph: Any) -> int:
    return sum(o.type.nbytes for o in graph.outputs)


def _error(computed: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """The largest, as a share of the largest value."""
    pairs = zip(computed, exact, strict=True)
    return max(float(np.abs(got - wanted).max() / np.abs(wanted).max()) for got, wanted in pairs)


def show(rows: Sequence[dict[str, Any]], bench: Bench) -> None:
    """The table; below it, prices that are off, and what stands aside."""
    names = [name for name in (GRAPHS, *GPU_PEERS, *SLOW_PEERS) if any(name in r.get("seconds", {}) for r in rows)]
    print(f"{_name(bench.gpu)}: copy {bench.copy / 1e9:,.0f} GB/s, empty launch {bench.launch * 1e6:.1f} µs")
    heads = "".join(f"{name:>14}" for name in names)
    print(f"{'case':24}{'shape':>16} {'dtype':9}{'kernels':>8}{'µs':>9}{'a call':>9}{'':>17}{'share':>6}"
          f"{'price':>7}{'error':>9}{heads}   times eqfuse's")  # fmt: skip
    for r in rows:
        start = f"{r['name']:24}{r['shape']:>16} {r['dtype']:9}"
        print(start + (f"  {r['failed']}" if "failed" in r else _figures(r, bench, names)))
    for name, why in sorted({pair for r in rows for pair in r.get("aside", {}).items()}):
        print(f"{name} stands aside: {why}")
    if leads := [lead for r in rows if (lead := _lead(r))]:
        mean = math.exp(statistics.mean(map(math.log, leads)))
        print(f"{mean:.2f} times as fast as the best peer, least {min(leads):.2f}")


def _name(gpu: Any) -> str:
    return gpu.name if isinstance(gpu, CupyGpu) else "the emulator"


def _figures(r: dict[str, Any], bench: Bench, names: Sequence[str]) -> str:
    rate, unit = (r["flops"], "TFLOP/s") if r["flops"] else (r["bytes"], "GB/s")
    rate /= r["device"]
    share = rate / (r["peak"] or bench.copy)
    figure = f"{rate / (1e12 if r['flops'] else 1e9):9.1f} {unit:7}"
    price = r["priced"] / r["device"]
    mark = flag(price) or " "
    taken = r["seconds"]
    cells = "".join(f"{taken[n] / taken[OURS]:14.2f}" if n in taken else f"{'':14}" for n in names)
    wrong = "   WRONG" if r["wrong"] else ""
    return (f"{r['kernels']:8}{r['device'] * 1e6:9.1f}{taken[OURS] * 1e6:9.1f}{figure}{share:6.0%}{price:6.2f}{mark}"
            f"{r['error']:9.1e}{cells}{wrong}")  # fmt: skip


def _lead(r: dict[str, Any]) -> float:
    """How many times the fastest peer takes what eqfuse takes; 0 where there is none."""
    taken = r.get("seconds", {})
    peers = [seconds for name, seconds in taken.items() if name not in (OURS, GRAPHS)]
    return min(peers) / taken[OURS] if peers else 0.0


def run(chosen: Sequence[GpuCase], bench: Bench, peers: dict[str, Any], limit: float) -> list[dict[str, Any]]:
    """The rows of the table; a case that fails says why."""
    begun, rows = time.monotonic(), []
    with progress(len(chosen)) as display:
        for case in chosen:
            shape = "x".join(map(str, case.shapes[0]))
            about: dict[str, Any] = {"name": case.name, "shape": shape, "dtype": case.dtype}
            display.step(f"{case.name} {shape} {case.dtype}")
            if time.monotonic() - begun > limit:
                rows.append(about | {"failed": f"not begun within {limit:.0f} s", "late": True})
                continue
            try:
                rows.append(about | measure(case, bench, peers))
            except Exception as error:  # the rest of the table is wanted all the same
                rows.append(about | {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:100]})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="eqfuse bench cuda", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="small cases on the emulator")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds within which the last case begins")
    parser.add_argument("--compile", action="store_true", help="also against torch.compile")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("names", nargs="*", help="only cases with one of these in their name")
    options = parser.parse_args(arguments)
    sizes = DRY if options.dry_run else FULL
    gpu: Any
    gpu, target = (EmulatedGpu(), "cuda:h100") if options.dry_run else (cupy_gpu(), "cuda")
    bench = bench_on(gpu, target, sizes.elements * 16)
    chosen = [c for c in cases(sizes) if not options.names or any(part in c.name for part in options.names)]
    rows = run(chosen, bench, GPU_PEERS | (SLOW_PEERS if options.compile else {}), options.limit)
    if options.json:
        about = {"device": _name(gpu), "copy": bench.copy, "launch": bench.launch}
        options.json.write_text(json.dumps(about | {"rows": rows}, indent=1))
    show(rows, bench)
    return 1 if any(r.get("wrong") or ("failed" in r and "late" not in r) for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
