"""Measures how fast this GPU multiplies by `wgmma`, once it has shown that it does so rightly, and how fast by
`mma.sync`, which the former is to be compared with; and keeps that.

In: a GPU, its profile. Out: the profile with the rates that were measured, as JSON in the cache directory; nobody plans
`wgmma` for a device that has none. Next stop: `kinds/product.py`, which prices with them.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.dtypes import BFLOAT16, FLOAT16, FLOAT32
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.contract import product_schedule
from eqfuse.errors import EqfuseError, TargetUnavailable, user_level
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, input_node, node
from eqfuse.kinds.product import TILES
from eqfuse.machine.files import cache_dir, set_aside, write_atomically
from eqfuse.machine.gpu import Gpu
from eqfuse.ops.types import TensorType

WGMMA_CAPABILITY = 90  # that has wgmma; later ones have other instructions
MULTIPLIED = (FLOAT16, BFLOAT16)
TIMED_WAVES, TIMED_DEPTH = 8, 4096  # of the product that is timed: tiles of each multiprocessor, and terms
TIMED_LAUNCHES = 20  # that it is launched in a row


@dataclass(frozen=True)
class Trial:
    """A product of whole numbers, which float32 sums exactly, by a kernel as programs have them."""

    body: Graph
    kernel: CudaKernel


def calibrate(gpu: Gpu, profile: Device) -> Device:
    """Measure `gpu`, of this profile, and keep the result in place of an earlier one. What is wrong, or does not
    compile, has no rate by `wgmma`, and by `mma.sync` that of the profile; there is a warning."""
    if not has_wgmma(profile):
        return profile
    by_wgmma, by_mma = (
        {dtype.name: rate for dtype in MULTIPLIED if (rate := _rate(gpu, _forced(profile, wgmma), dtype))}
        for wgmma in (True, False)
    )
    measured = replace(
        profile, wgmma_flops=tuple(by_wgmma.items()), tiled_flops=tuple((dict(profile.tiled_flops) | by_mma).items()),
        reads=f"{profile.reads}; products of 16-bit floats measured {date.today()}",
    )  # fmt: skip
    write_atomically(profile_path(profile), measured.to_json().encode())
    return measured


def calibrated(profile: Device) -> Device:
    """What was measured of this GPU; its profile alone where nothing was."""
    if not has_wgmma(profile):
        return profile
    path = profile_path(profile)
    try:
        return Device.from_json(path.read_text())
    except OSError:
        return profile
    except (TargetUnavailable, UnicodeDecodeError) as error:
        set_aside(path, "device profile", error)
        return profile


def has_wgmma(profile: Device) -> bool:
    return profile.compute_capability == WGMMA_CAPABILITY


def profile_path(profile: Device) -> Path:
    """Where what is measured of a GPU lives. The name changes with its profile, and with the text that was tried."""
    forced = _forced(profile, True)
    trials = [trial for dtype in MULTIPLIED for trial in (*_checks(forced, dtype), _timed(forced, dtype))]
    key = "\0".join((profile.digest, module_source([trial.kernel.source for trial in trials])))
    return cache_dir() / "devices" / f"gpu-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def _forced(profile: Device, wgmma: bool) -> Device:
    """A device for which `wgmma`, or `mma.sync`, multiplies fastest."""
    if not wgmma:
        return replace(profile, wgmma_flops=())
    slow = tuple((dtype, 1.0) for dtype, _ in profile.tiled_flops)
    return replace(profile, tiled_flops=slow, wgmma_flops=tuple((dtype.name, 1e15) for dtype in MULTIPLIED))


def _rate(gpu: Gpu, forced: Device, dtype: np.dtype) -> float:
    """Multiplications and additions a second in whole waves of tiles; 0 where a product is not as it should be."""
    try:
        for trial in _checks(forced, dtype) if forced.wgmma_flops else ():
            _seconds(gpu, trial, times=1)
        timed = _timed(forced, dtype)
        seconds = _seconds(gpu, timed, TIMED_LAUNCHES)
    except Exception as error:  # of the driver's, where a kernel goes wrong
        instruction = "wgmma" if forced.wgmma_flops else "mma.sync"
        message = f"products of {dtype} by {instruction} have no rate that was measured here: {error}"
        warnings.warn(message, stacklevel=user_level())
        return 0.0
    (result,) = timed.body.outputs
    return 2 * result.type.size * TIMED_DEPTH / seconds


def _checks(forced: Device, dtype: np.dtype) -> Iterator[Trial]:
    """Of rows, columns and terms that tiles do not divide: with operands that lie either way, and with so many terms
    that blocks share them."""
    for left in (False, True):
        for right in (False, True):
            yield _trial(forced, dtype, 136, 472, 264, left, right)
    yield _trial(forced, dtype, 136, 2008, 264, False, False)


def _timed(forced: Device, dtype: np.dtype) -> Trial:
    """Of as many tiles as the multiprocessors compute in whole waves: the largest tiles of both are as large."""
    tile = TILES["tensor"][0]
    rows, columns = forced.multiprocessors * tile.rows, TIMED_WAVES * tile.columns
    return _trial(forced, dtype, rows, TIMED_DEPTH, columns, False, False)


def _trial(forced: Device, dtype: np.dtype, rows: int, depth: int, columns: int, *turned: bool) -> Trial:
    """`turned`: which operands lie in memory with their axes exchanged."""
    leaves = [input_node(name, TensorType(dtype, shape[::-1] if t else shape))
              for name, shape, t in zip("ab", ((rows, depth), (depth, columns)), turned, strict=True)]  # fmt: skip
    operands = [node("transpose", (x,), ((1, 0),)) if t else x for x, t in zip(leaves, turned, strict=True)]
    product = node("matmul", tuple([node("cast", (x,), (FLOAT32,)) for x in operands]))
    body = Graph(tuple(leaves), (product,))
    schedule = product_schedule(body, forced)
    name = "_".join(("product", dtype.name, *map(str, (rows, depth, columns)), *(f"{int(t)}" for t in turned)))
    kernel = source_of(body, schedule, name)
    assert isinstance(kernel, CudaKernel) and schedule.tile.by_wgmma == bool(forced.wgmma_flops)
    return Trial(body, kernel)


def _seconds(gpu: Gpu, trial: Trial, times: int) -> float:
    """What a launch takes, on average over so many. EqfuseError where the product is wrong."""
    kernel, (result,), rng = trial.kernel, trial.body.outputs, np.random.default_rng(0)
    operands = [rng.integers(-4, 5, x.shape, np.int8).astype(x.dtype) for x in trial.body.inputs]
    module = gpu.module(module_source([kernel.source]), False, kernel.schedule.architecture_specific)
    function = gpu.function(module, kernel.name, kernel.shared_bytes)
    arrays, out = [*map(gpu.upload, operands)], gpu.empty(result.shape, result.dtype)
    workspace = [gpu.upload(np.zeros(n, dtype)) for dtype, n in kernel.workspace]
    launch = partial(function, kernel.grid, kernel.block, kernel.arguments([out], arrays, (), workspace))
    launch()
    (wanted,) = evaluate(trial.body, operands)
    wrong = np.argwhere(gpu.download(out) != wanted)
    if wrong.size:
        raise EqfuseError(
            f"{kernel.name} is wrong, at {len(wrong):,} of {wanted.size:,} elements, the first of them "
            f"{tuple(wrong[0].tolist())}: please report this with the name of the GPU and the version of CUDA"
        )
    return gpu.seconds(launch, times)

