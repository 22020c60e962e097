"""Brief C kernels that differ in integers alone are one function; others stay as they are."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from eqfuse.emit.c.kernels import CKernel, loaded, module_text, modules
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, node
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted
from tests.support.kernels import add, body, data, gelu, mul, read, reduced


def shifted(n: int, m: int) -> Graph:
    """The rows of a matrix without its first column, of which the exponentials are added to a vector."""
    x, y = read(0, (n, m + 1)), read(1, (m,))
    return body([x, y], add(node("exp", (node("slice", (x,), (((0, n, 1), (1, m + 1, 1)),)),)), y))


def of_rows(op: str, n: int, m: int) -> Graph:
    x = read(0, (n, m))
    return body([x], reduced(op, mul(x, x)))


def joined(n: int, m: int) -> Graph:
    """The squares of what is joined of two matrices: the places of the seam stand in a table."""
    parts = read(0, (n, m)), read(1, (n, m + 2))
    both = node("concat", parts, (-1,))
    return body(parts, mul(both, both))


ALIKE = {
    "map": (shifted, [(3, 17), (5, 16), (5, 40)]),
    "reduce": (partial(of_rows, "max"), [(4, 33), (6, 20), (9, 9)]),
}
APART = {
    "long kernels": ("map", [shifted(3000, 500), shifted(3000, 501)]),
    "tables of cells": ("map", [joined(4, 20), joined(5, 30)]),
    "sums": ("reduce", [of_rows("sum", 4, 33), of_rows("sum", 6, 20)]),
    "other operators": ("map", [body([read(0, (9,))], gelu(read(0, (9,)))), shifted(1, 9)]),
}


def kernels_of(kind: str, bodies: list[Graph]) -> list[CKernel]:
    kernels = [emitted(kind, each) for each in bodies]
    assert all(isinstance(kernel, CKernel) for kernel in kernels)
    return kernels


@needs_compiler
@pytest.mark.parametrize("kind", ALIKE)
def test_brief_kernels_that_differ_in_integers_share_one_function(kind: str) -> None:
    make, extents = ALIKE[kind]
    bodies = [make(*each) for each in extents]
    kernels = kernels_of(kind, bodies)
    (module,) = modules(kernels)
    assert module.text.count("_chunk(void *const *arrays") == 1 and module.kernels == kernels
    functions = loaded([module])
    for kernel, each in zip(kernels, bodies, strict=True):
        given, (want,) = data(each), evaluate(each, data(each))
        got = np.zeros_like(want)
        functions[kernel.name](*given, got)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("case", APART)
def test_other_kernels_share_none(case: str) -> None:
    kernels = kernels_of(*APART[case])
    text = module_text(kernels)
    assert all(kernel.text.source in text for kernel in kernels)
