"""An update of many slices is a kernel in C however many pieces it joins: where loops refuse them, it is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.graph import node
from eqfuse.kinds import kind_named
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.kernels import body, read


@needs_compiler
@pytest.mark.parametrize("extractor", ["unfused", "flow"])
@pytest.mark.parametrize("rows", [2, 5, 12])
def test_an_array_written_place_by_place_is_a_kernel(rows: int, extractor: str) -> None:
    places = [*np.ndindex(rows, rows)]
    whole, *parts = read(0, (2, rows, rows, 6)), *[read(1 + k, (2, 1, 1, 6)) for k in range(len(places))]
    ranges = tuple([((0, 2, 1), (i, i + 1, 1), (j, j + 1, 1), (0, 6, 1)) for i, j in places])
    graph = body([whole, *parts], node("slice_scatter", (whole, *parts), (ranges,)))
    for kind in ("map", "library"):
        assert np.isfinite(kind_named(kind).schedule(graph, C).price(C).seconds)
    rng = np.random.default_rng(rows)
    arrays = [rng.normal(size=n.shape).astype(n.dtype) for n in graph.inputs]
    program = ef.compile(graph, target=C, extractor=extractor)
    for got, wanted in zip(program.run(arrays), ef.meaning(graph, *arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)
