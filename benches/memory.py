"""What a memory limit costs: steps of training under ever tighter limits, results checked first, then timed in turn.

Run: eqfuse bench memory [--quick] [--json FILE]. Memory is what a call holds beside its arguments and results, as
tracemalloc sees it, and for plain NumPy too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.training_steps import Network, attention_block, perceptron
from eqfuse.benches.timing import machine, medians, with_temporaries
from eqfuse.benches.traced_memory import call_bytes
from eqfuse.ir.pytree import flatten
from eqfuse.runtime.program import Program
from eqfuse.show.progress import progress

SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
QUICK: dict[str, Callable[[], Network]] = {"perceptron": perceptron, "attention block": attention_block}
FULL: dict[str, Callable[[], Network]] = {
    "perceptron": lambda: perceptron(layers=8, rows=2048, width=256),
    "attention block": lambda: attention_block(batch=4, length=256, width=256, heads=4),
}
TOLERANCE = 1e-3  # of the largest element


@dataclass(frozen=True)
class Row:
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
            f"{self.name:18}{self.limit:>12}{self.held / 1e6:10.2f}{self.reported / 1e6:10.2f}{self.kernels:9}"
            f"{self.predicted * 1e3:11.2f}{self.seconds * 1e3:11.2f}"
        )


HEADING = f"{'program':18}{'limit':>12}{'MB held':>10}{'reported':>10}{'kernels':>9}{'predicted':>11}{'ms':>11}"


def rows_of(name: str, build: Callable[[], Network], seconds: float) -> list[Row]:
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
        programs.append((f"{share:.1f}", limited))
    wanted, numpy_bytes = with_temporaries(lambda: function(*arguments))
    for limit, program in programs:
        _check(f"{name}, limit {limit}", program(*arguments), wanted)
    taken = medians([lambda p=p: p(*arguments) for _, p in programs], seconds, least=3)  # type: ignore[misc]
    plain = medians([lambda: function(*arguments)], seconds / len(programs), least=3)[0]
    found = [Row(name, "NumPy", numpy_bytes, numpy_bytes, 0, 0.0, plain)]
    for (limit, program), took in zip(programs, taken, strict=True):
        held, report = call_bytes(program, arguments), program.report
        found.append(Row(name, limit, held, report.peak_bytes, report.n_kernels, report.predicted_seconds, took))
    return found


def _check(name: str, got: object, wanted: object) -> None:
    for g, w in zip(flatten(got)[0], flatten(wanted)[0], strict=True):
        if np.abs(g - w).max() > TOLERANCE * np.abs(w).max():
            raise SystemExit(f"{name}: the results are not NumPy's")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small networks")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    print(f"{machine()}\n{HEADING}")
    rows = []
    networks = QUICK if options.quick else FULL
    with progress(len(networks)) as at:
        for name, build in networks.items():
            at.step(name)
            for row in rows_of(name, build, 2.0 if options.quick else 20.0):
                rows.append(row)
                print(row, flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
