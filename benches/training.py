"""Loss and gradients: eqfuse beside JAX, torch and HIPS autograd, where they are installed; answers checked first.

Run: eqfuse bench training [--threads N] [--seconds N] [--contenders A,B] [--json FILE] [name…]. Each loss runs in a
process of its own: all contenders in turn, medians; the first call with its tracing and compiling; memory as
`peak_bytes` says, of JAX, as XLA's own analysis of temporaries, results added to both, and of torch, the most that its
profiler saw, results among it. *price* is that of value and gradient over that of the loss alone.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from eqfuse.benches.corpus.losses import TRAINING, Library, Training
from eqfuse.benches.peers import OURS, PeerCall, limit_threads
from eqfuse.benches.processes import last_row
from eqfuse.benches.timing import machine, medians
from eqfuse.machine.thread_limit import thread_count
from eqfuse.show.progress import progress

PATIENCE = 400  # seconds for a loss, all contenders together
TOLERANCE = 2e-3  # of the largest element of a gradient


def eqfuse(training: Training, arrays: Sequence[np.ndarray], about: dict[str, Any]) -> PeerCall:
    import eqfuse as ef

    program = ef.compile(ef.value_and_grad(loss_of(training), tuple(range(training.count))), *arrays)
    loss = ef.compile(loss_of(training), *arrays)
    about["price"] = program.report.predicted_seconds / loss.report.predicted_seconds
    about["kernels"], about["bytes"] = program.report.n_kernels, {OURS: program.peak_bytes + _results(training, arrays)}
    return lambda: program(*arrays)


def loss_of(training: Training) -> Callable[..., Any]:
    import eqfuse as ef

    lib = Library(
        np, lambda x: np.maximum(x, 0), lambda x: x.max(-1, keepdims=True), lambda x: np.swapaxes(x, -1, -2), ef.erf,
        lambda x, w: ef.conv(x, w, padding=1), lambda x: ef.max_pool(x, 2),
    )  # fmt: skip
    return lambda *args: training.loss(lib, *args)


def _jax(training: Training, arrays: Sequence[np.ndarray], about: dict[str, Any], name: str, remat: bool) -> PeerCall:
    import jax
    import jax.numpy as jnp

    lib = Library(
        jnp, lambda x: jnp.maximum(x, 0), lambda x: x.max(-1, keepdims=True), lambda x: jnp.swapaxes(x, -1, -2),
        jax.scipy.special.erf, lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    )  # fmt: skip

    def loss(*args: Any) -> Any:
        return training.loss(lib, *args)

    moved = [jnp.asarray(a) for a in arrays]
    with_gradients = jax.value_and_grad(jax.checkpoint(loss) if remat else loss, tuple(range(training.count)))
    run = jax.jit(with_gradients).lower(*moved).compile()
    memory = run.memory_analysis()
    if memory is not None:
        about["bytes"][name] = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return lambda: jax.block_until_ready(run(*moved))


def jax_plain(training: Training, arrays: Sequence[np.ndarray], about: dict[str, Any]) -> PeerCall:
    return _jax(training, arrays, about, "JAX", False)


def jax_checkpoint(training: Training, arrays: Sequence[np.ndarray], about: dict[str, Any]) -> PeerCall:
    return _jax(training, arrays, about, "checkpoint", True)


def _torch(training: Training, arrays: Sequence[np.ndarray], compiled: bool) -> PeerCall:
    import os

    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    lib = Library(
        torch, torch.relu, lambda x: torch.amax(x, -1, keepdim=True), lambda x: x.transpose(-1, -2),
        torch.special.erf, lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
        lambda x: torch.nn.functional.max_pool2d(x, 2),
    )  # fmt: skip

    def loss(*args: Any) -> Any:
        return training.loss(lib, *args)

    run = torch.compile(loss) if compiled else loss
    moved = [torch.as_tensor(a).requires_grad_(i < training.count) for i, a in enumerate(arrays)]

    def call() -> Any:
        value = run(*moved)
        return value.detach(), torch.autograd.grad(value, moved[: training.count])

    return call


def torch_eager(training: Training, arrays: Sequence[np.ndarray], about: dict[str, Any]) -> PeerCall:
    call = _torch(training, arrays, False)
    about["bytes"]["torch"] = _most_held(call)
    return call


def _results(training: Training, arrays: Sequence[np.ndarray]) -> int:
    """The bytes of all gradients."""
    return sum(a.nbytes for a in arrays[: training.count])


def _most_held(call: PeerCall) -> int:
    """The most bytes of tensors that `call` of torch makes that are held at once, results too."""
    from torch.profiler import ProfilerActivity, profile

    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    return max(accumulate(e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())))


def torch_compile(training: Training, arrays: Sequence[np.ndarray], _about: dict[str, Any]) -> PeerCall:
    return _torch(training, arrays, True)


def hips(training: Training, arrays: Sequence[np.ndarray], _about: dict[str, Any]) -> PeerCall:
    import autograd
    import autograd.numpy as anp
    import autograd.scipy.special as special

    if training.loss.__name__ == "convolution":
        raise NotImplementedError("no convolution of images")
    lib = Library(
        anp, lambda x: anp.maximum(x, 0), lambda x: anp.max(x, axis=-1, keepdims=True),
        lambda x: anp.swapaxes(x, -1, -2), special.erf,
    )  # fmt: skip

    def loss(params: Any, rest: Any) -> Any:
        return training.loss(lib, *params, *rest)

    with_gradients = autograd.value_and_grad(loss)
    arguments = tuple(arrays[: training.count]), tuple(arrays[training.count :])
    return lambda: with_gradients(*arguments)


CONTENDERS: dict[str, Callable[[Training, Sequence[np.ndarray], dict[str, Any]], PeerCall]] = {
    OURS: eqfuse, "JAX": jax_plain, "checkpoint": jax_checkpoint, "torch": torch_eager, "torch.compile": torch_compile,
    "autograd": hips,
}  # fmt: skip


def measure(training: Training, seconds: float, names: Sequence[str]) -> dict[str, Any]:
    """Median and first seconds of each contender here; why others have none."""
    arrays = training.arguments()
    wanted = _gradients(training, [a.astype(np.float64) for a in arrays])
    about: dict[str, Any] = {"bytes": {}, "aside": {}, "first": {}}
    calls: dict[str, PeerCall] = {}
    for name in names:
        begun = time.perf_counter()
        try:
            call = CONTENDERS[name](training, arrays, about)
            answer = call()
        except Exception as error:
            about["aside"][name] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
            continue
        about["first"][name] = time.perf_counter() - begun
        off = _error([answer[0], *answer[1]], wanted)
        if off > TOLERANCE:
            about["aside"][name] = f"wrong: an error of {off:.1e}"
            continue
        calls[name] = call
    taken = medians(list(calls.values()), seconds * len(calls))
    return about | {"seconds": dict(zip(calls, taken, strict=True))}


def _gradients(training: Training, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Loss and gradients in double precision, by the evaluator."""
    import eqfuse as ef

    value, gradients = ef.value_and_grad(loss_of(training), tuple(range(training.count)))(*arrays)
    return [value, *gradients]


def _error(computed: Sequence[Any], wanted: Sequence[np.ndarray]) -> float:
    return max(
        float(np.abs(np.asarray(c) - w).max() / max(np.abs(w).max(), 1e-30))
        for c, w in zip(computed, wanted, strict=True)
    )


def show(rows: Sequence[dict[str, Any]]) -> None:
    heads = "".join(f"{name:>14}" for name in CONTENDERS)
    print(f"{'loss':22}{heads}{'best peer':>11}{'price':>7}{'kernels':>9}{'first s':>9}   ms; times eqfuse's")
    leads = []
    for row in rows:
        if "failed" in row:
            print(f"{row['name']:22}  {row['failed']}")
            continue
        taken = row["seconds"]
        cells = "".join(f"{taken[n] * 1e3:14.2f}" if n in taken else f"{'':14}" for n in CONTENDERS)
        peers = [taken[n] for n in taken if n != OURS]
        if OURS in taken and peers:
            leads.append(min(peers) / taken[OURS])
            cells += f"{leads[-1]:11.2f}{row['price']:7.2f}{row['kernels']:9}{row['first'][OURS]:9.1f}"
        print(f"{row['name']:22}{cells}")
        print(f"{'':22}  MB: {', '.join(f'{n} {b / 1e6:.1f}' for n, b in row['bytes'].items())}")
        for name, why in row["aside"].items():
            print(f"{'':22}  {name}: {why}")
    held = [row["bytes"] for row in rows if {OURS, "torch"} <= row.get("bytes", {}).keys()]
    shares = [each[OURS] / each["torch"] for each in held]
    if shares:
        print(f"at most {max(shares):.2f} times the memory of torch")
    if leads:
        mean = math.exp(statistics.mean(map(math.log, leads)))
        print(f"{mean:.2f} times as fast as the best peer, least {min(leads):.2f}")


def _apart(name: str, threads: int, seconds: float, contenders: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "eqfuse.benches.training", "--one", "--threads", str(threads)]
    command += ["--seconds", str(seconds), "--contenders", contenders, name]
    return last_row(command, PATIENCE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="eqfuse bench training", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=thread_count(), help="of each contender")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contender's turns")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="only these")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("names", nargs="*", help="only losses with one of these in their name")
    options = parser.parse_args(arguments)
    if options.one:
        limit_threads(options.threads)
        warnings.simplefilter("ignore")
        (training,) = [t for t in TRAINING if t.name == options.names[0]]
        print(json.dumps(measure(training, options.seconds, options.contenders.split(","))))
        return 0
    chosen = [t.name for t in TRAINING if not options.names or any(part in t.name for part in options.names)]
    print(machine())
    rows = []
    with progress(len(chosen)) as display:
        for name in chosen:
            display.step(name)
            rows.append({"name": name} | _apart(name, options.threads, options.seconds, options.contenders))
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    show(rows)
    return 1 if any("failed" in row or OURS in row["aside"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
