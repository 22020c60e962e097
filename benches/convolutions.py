"""Convolutions of ResNet-18 and MobileNetV2, with a bias and a clamp, against torch (oneDNN), on equal threads.

Both run in this process and take turns after their answers are compared. Run: eqfuse bench cpu --convolutions
[--threads N] [--seconds N] [name…].
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import eqfuse as ef
from eqfuse import functions
from eqfuse.benches.timing import machine, medians
from eqfuse.show.progress import progress

BATCHES = (1, 8)
CLOSE = 1e-4  # of the largest value, that answers may differ


@dataclass(frozen=True)
class Conv:
    """A convolution of images of `extent` rows and columns."""

    name: str
    channels: int
    filters: int
    extent: int
    window: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.window // 2


CASES = [
    Conv("7 x 7, stride 2", 3, 64, 224, 7, 2), Conv("3 x 3", 64, 64, 56, 3), Conv("3 x 3", 128, 128, 28, 3),
    Conv("3 x 3", 256, 256, 14, 3), Conv("3 x 3", 512, 512, 7, 3), Conv("3 x 3, stride 2", 64, 128, 56, 3, 2),
    Conv("1 x 1, stride 2", 64, 128, 56, 1, 2), Conv("1 x 1", 32, 192, 56, 1), Conv("1 x 1", 96, 24, 56, 1),
    Conv("1 x 1", 256, 256, 14, 1), Conv("1 x 1", 320, 1280, 7, 1),
    Conv("depthwise 3 x 3", 144, 144, 56, 3, 1, 144), Conv("depthwise 3 x 3", 576, 576, 14, 3, 1, 576),
    Conv("depthwise 3 x 3", 960, 960, 7, 3, 1, 960), Conv("depthwise 3 x 3, stride 2", 96, 96, 112, 3, 2, 96),
    Conv("3 x 3, 32 groups", 128, 128, 28, 3, 1, 32), Conv("3 x 3, 4 groups", 128, 128, 28, 3, 1, 4),
]  # fmt: skip


def calls(case: Conv, batch: int, threads: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Ours and torch's; ValueError where their answers differ."""
    import torch

    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    shape = (case.filters, case.channels // case.groups, case.window, case.window)
    shapes = [(batch, case.channels, case.extent, case.extent), shape, (case.filters,)]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    def function(x: Any, w: Any, b: Any) -> Any:
        y = functions.conv(x, w, b, stride=case.stride, padding=case.padding, groups=case.groups)
        return np.maximum(y, np.float32(0))

    program = ef.compile(function, *arrays)
    x, w, b = (torch.from_numpy(a) for a in arrays)

    def theirs() -> Any:
        with torch.no_grad():
            return torch.relu_(torch.conv2d(x, w, b, case.stride, case.padding, groups=case.groups))

    wanted = theirs().numpy()
    off = float(np.abs(program(*arrays) - wanted).max() / np.abs(wanted).max())
    if off > CLOSE:
        raise ValueError(f"the answer is off by {off:.1e} of the largest value")
    return lambda: program(*arrays), theirs


def run(names: Sequence[str], threads: int, seconds: float) -> int:
    """Prints the table; the exit status is 1 where an answer is wrong."""
    os.environ["OMP_WAIT_POLICY"] = "passive"  # threads of torch that spin would take a core from ours
    threadpool_limits(threads)  # BLAS was loaded before
    chosen = [(c, n) for c in CASES for n in BATCHES if not names or any(part in c.name for part in names)]
    print(machine())
    heads = f"{'convolution':28}{'channels':>12}{'extent':>8}{'images':>8}"
    print(f"{heads}{'eqfuse ms':>11}{'torch ms':>10}{'Gflop/s':>9}{'ratio':>7}")
    ratios, wrong = [], False
    with progress(len(chosen)) as display:
        for case, batch in chosen:
            display.step(f"{case.name}, {batch} images")
            channels = f"{case.channels} → {case.filters}"
            start = f"{case.name:28}{channels:>12}{case.extent:>8}{batch:>8}"
            try:
                ours, theirs = medians(calls(case, batch, threads), 2 * seconds)
            except ImportError as error:
                raise SystemExit(f"torch cannot be imported: {error}") from None
            except ValueError as error:
                wrong = True
                print(f"{start}  {error}")
                continue
            places = batch * case.filters * math.ceil(case.extent / case.stride) ** 2
            rate = 2 * places * case.channels // case.groups * case.window**2 / ours / 1e9
            ratios.append(theirs / ours)
            print(f"{start}{ours * 1e3:11.3f}{theirs * 1e3:10.3f}{rate:9.0f}{ratios[-1]:7.2f}", flush=True)
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{mean:.2f} times as fast as torch in geometric mean, least {min(ratios):.2f}")
    return int(wrong)
