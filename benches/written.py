"""Plans against the program as written: scales and divisors around products, in plain NumPy, by no law, and by all.

Run: eqfuse bench written [--programs N] [--seed S]. The exit status tells whether every answer was right.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.scaled_products import arguments, random_products
from eqfuse.benches.timing import machine, medians
from eqfuse.show.progress import progress

SHAPES = ((100_000, 20), (10_000, 300), (4096, 1024), (2000, 50), (500_000, 3))


def measure(rng: np.random.Generator, n: int, m: int) -> str:
    """One line: what a program drawn takes in plain NumPy, and how many times that without laws and with them."""
    text, function = random_products(rng)
    values = arguments(rng, n, m)
    written, ours = (ef.compile(function, *values, laws=laws) for laws in ("none", "all"))
    wanted = function(*values)
    for program in (written, ours):
        error = np.abs(program(*values) - wanted).max() / np.abs(wanted).max()
        if not error < 1e-8:
            raise SystemExit(f"{text}: the relative error is {error:.1e}")
    numpy, fused, chosen = medians([lambda: function(*values), lambda: written(*values), lambda: ours(*values)], 0.5)
    predicted = ours.report.predicted_seconds / written.report.predicted_seconds
    return f"{n:>7}x{m:<5}{numpy * 1e3:9.3f} ms{fused / numpy:8.2f}{chosen / fused:8.2f}{predicted:11.2f}   {text}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench written", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=5, help="of each shape")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    print(f"{machine()}\n{'X':13}{'NumPy':>12}{'no law':>8}{'laws':>8}{'predicted':>11}   program")
    print("no law: over NumPy; laws, and what was predicted of them: over no law")
    with progress(len(SHAPES) * options.programs) as display:
        for n, m in SHAPES:
            for i in range(options.programs):
                display.step(f"{n} x {m}, program {i + 1}")
                print(measure(rng, n, m), flush=True)


if __name__ == "__main__":
    main()
