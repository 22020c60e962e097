"""What a memory limit costs: steps of training under ever tighter limits, results checked first, then timed in turn.

Run: eqfuse bench memory [--quick] [--partitions] [--json FILE] [name…]. Memory is what a call holds beside its
arguments and results, as tracemalloc sees it, and for plain NumPy too. The programs are steps written by hand, value
and gradient of the losses of `eqfuse bench training`, and of what papers on checkpointing train. `--partitions`
compares, for these losses, what others let a backward pass in a program of its own keep of the forward pass (see
`ef.split_vjp`): bytes between both programs, and the seconds of both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.checkpointing import chain, residual, u_net
from eqfuse.benches.corpus.losses import TRAINING, Training
from eqfuse.benches.corpus.training_steps import TrainingStep, attention_block, perceptron
from eqfuse.benches.timing import machine, medians, with_temporaries
from eqfuse.benches.traced_memory import call_bytes
from eqfuse.benches.training import loss_of
from eqfuse.ir.pytree import tree_leaves
from eqfuse.runtime.program import Program
from eqfuse.show.progress import progress

T = TypeVar("T")
SHARES = (0.9, 0.8, 0.5, 0.25, 0.1)
PARTITIONS = ("store_all", "recompute_all", "min_cut", "price")
QUICK: dict[str, Callable[[], TrainingStep]] = {"perceptron": perceptron, "attention block": attention_block}


def gradient_of(training: Training) -> TrainingStep:
    return ef.value_and_grad(loss_of(training), tuple(range(training.count))), tuple(training.arguments())


FULL: dict[str, Callable[[], TrainingStep]] = {
    "perceptron": lambda: perceptron(layers=8, rows=2048, width=256),
    "attention block": lambda: attention_block(batch=4, length=256, width=256, heads=4),
    "chain of 16 layers": chain, "24 residual blocks": lambda: residual(24), "U-Net": u_net,
    **{training.name: partial(gradient_of, training) for training in TRAINING},
}
TOLERANCE = 1e-3  # of the largest element


@dataclass(frozen=True)
class MemoryRow:
    """One program. Bytes as measured; `predicted` seconds."""

    name: str
    limit: str
    held: int
    reported: int
    kernels: int
    predicted: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.name:24}{self.limit:>12}{self.held / 1e6:10.2f}{self.reported / 1e6:10.2f}{self.kernels:9}"
            f"{self.predicted * 1e3:11.2f}{self.seconds * 1e3:11.2f}"
        )


HEADING = f"{'program':24}{'limit':>12}{'MB held':>10}{'reported':>10}{'kernels':>9}{'predicted':>11}{'ms':>11}"


def rows_of(name: str, build: Callable[[], TrainingStep], seconds: float) -> list[MemoryRow]:
    """Plain NumPy, the program without a limit, and under every limit that can be had."""
    function, arguments = build()
    free = ef.compile(function, *arguments)
    programs: list[tuple[str, Program]] = [("none", free)]
    for share in SHARES:
        try:
            limited = ef.compile(function, *arguments, memory_limit=share * free.peak_bytes)
        except ef.MemoryLimitError as error:
            least = ef.compile(function, *arguments, memory_limit=error.least)
            programs.append((f"least {error.least / free.peak_bytes:.2f}", least))
            break
        programs.append((f"{share:g}", limited))
    wanted, numpy_bytes = with_temporaries(lambda: function(*arguments))
    for limit, program in programs:
        _check(f"{name}, limit {limit}", program(*arguments), wanted)
    taken = medians([lambda p=p: p(*arguments) for _, p in programs], seconds, least=3)  # type: ignore[misc]
    baseline = medians([lambda: function(*arguments)], seconds / len(programs), least=3)[0]
    rows = [MemoryRow(name, "NumPy", numpy_bytes, numpy_bytes, 0, 0.0, baseline)]
    for (limit, program), took in zip(programs, taken, strict=True):
        held, report = call_bytes(program, arguments), program.report
        rows.append(MemoryRow(name, limit, held, report.peak_bytes, report.n_kernels, report.predicted_seconds, took))
    return rows


def partitions_of(training: Training, seconds: float) -> list[str]:
    """A line for each partition of `training`."""
    arguments, lines = training.arguments(), []
    splits = {
        p: ef.split_vjp(loss_of(training), *arguments, argnums=tuple(range(training.count)), partition=p)
        for p in PARTITIONS
    }

    def call(split: Any) -> object:
        value, residuals = split.forward(*arguments)
        return split.backward(residuals, np.ones_like(value))

    taken = medians([partial(call, split) for split in splits.values()], seconds, least=3)
    for (name, split), took in zip(splits.items(), taken, strict=True):
        predicted = sum(p.report.predicted_seconds for p in split.programs)
        lines.append(
            f"{training.name:24}{name:>14}{split.residual_bytes / 1e6:10.2f}{predicted * 1e3:11.2f}{took * 1e3:11.2f}"
        )
    return lines


def _check(name: str, got: object, wanted: object) -> None:
    for g, w in zip(tree_leaves(got)[0], tree_leaves(wanted)[0], strict=True):
        if np.abs(g - w).max() > TOLERANCE * np.abs(w).max():
            raise SystemExit(f"{name}: the results are not NumPy's")


def _named(every: Sequence[T], parts: Sequence[str], name: Callable[[T], str]) -> list[T]:
    return [x for x in every if not parts or any(part in name(x) for part in parts)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small networks")
    parser.add_argument("--partitions", action="store_true", help="instead: what a backward pass of its own keeps")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    options = parser.parse_args(arguments)
    print(machine())
    if options.partitions:
        print(f"{'loss':24}{'partition':>14}{'MB kept':>10}{'predicted':>11}{'ms':>11}")
        for training in _named(TRAINING, options.names, lambda t: t.name):
            print(*partitions_of(training, 4.0), sep="\n", flush=True)
        return
    print(HEADING)
    rows = []
    every = QUICK if options.quick else FULL
    networks = {name: every[name] for name in _named([*every], options.names, str)}
    with progress(len(networks)) as display:
        for name, build in networks.items():
            display.step(name)
            for row in rows_of(name, build, 2.0 if options.quick else 20.0):
                rows.append(row)
                print(row, flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
