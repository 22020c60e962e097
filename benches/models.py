"""Models of torch with random weights, as ONNX files: eqfuse against onnxruntime and torch, on equal threads.

Run: eqfuse bench cpu --models [--threads N] [--seconds N] [--json FILE] [name…]. One input and eight, one thread and N.
Each case has a process of its own, in which contenders take turns after their answers are compared; on one thread,
times are of the processor, which other programs on the machine disturb less. Memory is the most that is resident while
a saved program, or a session, is called in a fresh process, beyond what the library itself takes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import eqfuse as ef
from eqfuse.benches.peers import limit_threads
from eqfuse.benches.processes import last_row
from eqfuse.benches.timing import machine, medians
from eqfuse.errors import EqfuseError
from eqfuse.show.progress import progress

BATCHES = (1, 8)
OURS, SESSION, EAGER = "eqfuse", "onnxruntime", "torch"
CLOSE = 1e-4  # of the largest value, that answers may differ
LIBRARIES = {OURS: ("eqfuse.runtime.load", "eqfuse.emit.c"), SESSION: ("onnxruntime",)}
_REFERENCES = Path("/proc/self/clear_refs")  # of Linux
CALLS = 3  # of which the memory is that of the dearest


def session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else it takes cores from the others
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure(name: str, batch: int, threads: int, seconds: float) -> dict[str, Any]:
    """Seconds of a call and bytes by contender, and seconds of the compile; ValueError where answers differ."""
    import torch

    from eqfuse.benches.corpus.torch_models import MODELS, drawn

    torch.set_num_threads(threads)
    (model,) = [m for m in MODELS if m.name == name]
    module, x = drawn(model), model.example(batch)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path, saved, inputs = Path(folder, "model.onnx"), Path(folder, "program"), Path(folder, "x.npy")
        torch.onnx.export(module, (x,), str(path), dynamo=False, input_names=["x"], opset_version=18)
        array = x.numpy()
        np.save(inputs, array)
        begun = time.perf_counter()
        program = ef.compile(ef.from_onnx(path))
        first = time.perf_counter() - begun
        program.save(saved)
        runs = session(path, threads)
        calls: dict[str, Callable[[], Any]] = {
            OURS: lambda: program(array), SESSION: lambda: runs.run(None, {"x": array})[0], EAGER: lambda: module(x),
        }  # fmt: skip
        wanted = calls[EAGER]().numpy()
        off = float(np.abs(np.asarray(calls[OURS]()) - wanted).max() / np.abs(wanted).max())
        if off > CLOSE:
            raise ValueError(f"the answer is off by {off:.1e} of the largest value")
        clock = time.process_time if threads == 1 else time.perf_counter
        taken = medians(list(calls.values()), seconds * len(calls), clock=clock)
        files = {OURS: saved, SESSION: path}
        bytes_held = {n: _apart(["--held", n, str(f), str(inputs)], threads)["bytes"] for n, f in files.items()}
    return {"seconds": dict(zip(calls, taken, strict=True)), "bytes": bytes_held, "compile": first, "error": off}


def held(contender: str, path: Path, inputs: Path, threads: int) -> int:
    """The most bytes resident during a call of what `path` holds, beyond those of the process with its library
    imported; 0 where the machine does not say."""
    if not _REFERENCES.exists():
        return 0
    array = np.load(inputs)
    for library in LIBRARIES[contender]:
        import_module(library)
    before = _resident("VmRSS")
    if contender == OURS:
        program = ef.load(path)
        call: Callable[[], Any] = lambda: program(array)  # noqa: E731
    else:
        runs = session(path, threads)
        call = lambda: runs.run(None, {"x": array})  # noqa: E731
    call()
    _REFERENCES.write_text("5")  # the highest so far is what there is now
    for _ in range(CALLS):
        call()
    return _resident("VmHWM") - before


def _resident(what: str) -> int:
    """In bytes, as Linux counts."""
    (line,) = [text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith(f"{what}:")]
    return int(line.split()[1]) << 10


def _apart(arguments: Sequence[str], threads: int) -> dict[str, Any]:
    return last_row([sys.executable, "-m", "eqfuse.benches.models", "--threads", str(threads), *arguments])


def ratio(row: dict[str, Any], peer: str) -> float:
    """How many times `peer` takes what eqfuse takes; 0 where eqfuse has no answer."""
    return row["seconds"][peer] / row["seconds"][OURS] if "seconds" in row else 0.0


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table, losses first, and geometric means."""
    heads = "".join(f"{name:>14}" for name in (OURS, SESSION, EAGER))
    ends = f"{SESSION:>13}{EAGER:>7}   MB: {OURS} {SESSION}  compile"
    print(f"{'model':14}{'inputs':>8}{'threads':>9}{heads}{ends}")
    for row in sorted(rows, key=lambda row: ratio(row, SESSION)):
        start = f"{row['name']:14}{row['batch']:8}{row['threads']:9}"
        if "failed" in row:
            print(f"{start}  {row['failed']}")
            continue
        cells = "".join(f"{row['seconds'][name] * 1e3:14.2f}" for name in (OURS, SESSION, EAGER))
        memory = "".join(f"{row['bytes'][name] / 1e6:{width}.0f}" for name, width in ((OURS, 13), (SESSION, 12)))
        ratios = f"{ratio(row, SESSION):13.2f}{ratio(row, EAGER):7.2f}"
        print(f"{start}{cells}{ratios}{memory}{row['compile']:8.1f} s")
    for peer in (SESSION, EAGER):
        leads = [ratio(row, peer) for row in rows if "seconds" in row]
        if leads:
            mean = math.exp(statistics.mean(map(math.log, leads)))
            print(f"{mean:.2f} times as fast as {peer} in geometric mean, least {min(leads):.2f}")


def run(names: Sequence[str], threads: int, seconds: float, file: Path | None) -> int:
    """Prints the table; the exit status is 1 where a model has no answer or another."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

        from eqfuse.benches.corpus.torch_models import MODELS
    except ImportError as error:
        raise EqfuseError("models need torch, onnx and onnxruntime: pip install 'eqfuse[bench]'") from error

    chosen = [m.name for m in MODELS if not names or any(part in m.name for part in names)]
    cases = [(name, batch, n) for name in chosen for batch in BATCHES for n in sorted({1, threads})]
    print(machine())
    rows = []
    with progress(len(cases)) as display:
        for name, batch, n in cases:
            display.step(f"{name}, {batch}, {n} threads")
            figures = _apart(["--one", name, str(batch), str(seconds)], n)
            rows.append({"name": name, "batch": batch, "threads": n} | figures)
            if file:
                file.write_text(json.dumps(rows, indent=1))
    show(rows)
    return int(any("failed" in row for row in rows))


def case(arguments: Sequence[str] | None = None) -> int:
    """One case, or the memory of one contender, in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--one", nargs=3)
    parser.add_argument("--held", nargs=3)
    options = parser.parse_args(arguments)
    os.environ["OMP_WAIT_POLICY"] = "passive"  # threads of torch that spin would take a core from ours
    limit_threads(options.threads)
    threadpool_limits(options.threads)  # BLAS was loaded before
    warnings.simplefilter("ignore")
    if options.one:
        name, batch, seconds = options.one
        print(json.dumps(measure(name, int(batch), options.threads, float(seconds))))
    else:
        contender, path, inputs = options.held
        print(json.dumps({"bytes": held(contender, Path(path), Path(inputs), options.threads)}))
    return 0


if __name__ == "__main__":
    sys.exit(case())
