"""What numerics="reassociate" promises of a program, as README.md says it, asked of results.

In: a `Graph` as the program is written, arrays, results. Out: where a result breaks the promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eqfuse.dtypes import epsilon, kind
from eqfuse.ir.graph import Graph
from eqfuse.ir.running_errors import running_errors
from eqfuse.ops.approximation import SAFE

CONSTANT = 8.0  # the small constant of the promise
COARSE = replace(SAFE, coarseness=CONSTANT)


def broken(graph: Graph, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[str]:
    """What is wrong with `results`, if anything: nothing is said of elements on whose way all was not in range."""
    said = running_errors(graph, arrays, COARSE)
    faults = []
    for output, result in zip(graph.outputs, results, strict=True):
        wanted = said[output]
        if (result.dtype, result.shape) != (wanted.value.dtype, wanted.value.shape):
            faults.append(f"{output}: {result.dtype}{result.shape}")
            continue
        with np.errstate(all="ignore"):
            got = np.asarray(result).astype(wanted.wide.dtype)
            own = CONSTANT * epsilon(output.dtype) / 2 * wanted.magnitude if kind(output.dtype) in "fc" else 0.0
            apart = np.abs(got - wanted.wide)
            near = (apart <= wanted.error + own) | (np.isnan(got) & np.isnan(wanted.wide))
            wrong = np.isfinite(wanted.error) & ~near
        if wrong.any():
            index = tuple(np.argwhere(wrong)[0])
            what = f"{got[index]} instead of {wanted.wide[index]}"
            faults.append(f"{output} at {index}: {what}, whose error bound is {wanted.error[index]:.3g}")
    return faults
