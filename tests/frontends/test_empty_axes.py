"""A reduction over no axes is each element by itself, in the dtype of the reduction: no kernel ever reduces nothing."""

from collections.abc import Callable

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import ShapeError
from eqfuse.ir.graph import input_node, node
from eqfuse.ops import Role
from eqfuse.ops.types import TensorType

BY_NAME = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "count_nonzero", "nansum", "nanprod", "nanmax",
           "nanmean", "average")  # fmt: skip
FUNCTIONS: dict[str, Callable] = {name: lambda x, name=name: getattr(np, name)(x, axis=()) for name in BY_NAME}
FUNCTIONS |= {
    "a ufunc's reduce": lambda x: np.add.reduce(x, axis=()),
    "logical_or.reduce": lambda x: np.logical_or.reduce(x, axis=()),
    "keepdims": lambda x: x.sum((), keepdims=True),
    "initial": lambda x: np.sum(x, axis=(), initial=3),
    "a dtype": lambda x: np.sum(x, axis=(), dtype=np.float32),
    "where": lambda x: np.sum(x, axis=(), where=x > 0),
    "work around it": lambda x: np.exp(np.sum(x, axis=()) * 0.125).max(),
}
DTYPES = ("bool", "uint8", "int32", "float16", "float32", "float64", "complex64")


def _refused(f: Callable, x: np.ndarray) -> bool:
    try:
        f(x)
    except TypeError:
        return True
    return False


@pytest.mark.parametrize("shape", [(2, 3), ()], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_reduction_over_no_axes_is_each_element_by_itself(name: str, shape: tuple[int, ...]) -> None:
    f = FUNCTIONS[name]
    for dtype in DTYPES:
        x = np.asarray(np.array([[-0.0, 1, 2], [3, 4, -5]]) if shape else -0.0).astype(dtype)
        if _refused(f, x):
            continue
        graph = ef.trace(f, x)
        for n in graph.operators:
            assert n.row.role is not Role.REDUCTION or n.attr("axes"), (dtype, n)
        want, got = np.asarray(f(x)), np.asarray(ef.meaning(graph, x))
        assert (got.dtype, got.shape) == (want.dtype, want.shape), dtype
        np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "float16" else 1e-6, err_msg=dtype)
        np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real), err_msg=dtype)


@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
@pytest.mark.parametrize("target", ["c", "numpy"])
def test_kernels_of_reductions_over_no_axes_compute_each_element(target: str, numerics: str) -> None:
    def program(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.sum(x, axis=()), np.sum(x > 2, axis=()), np.mean(x * 0.5, axis=()), np.prod(x, axis=()).max()

    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    for got, want in zip(ef.compile(program, x, target=target, numerics=numerics)(x), program(x), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
def test_a_graph_has_no_reduction_over_no_axes(op: str) -> None:
    with pytest.raises(ShapeError, match="a reduction over no axes is a cast"):
        node(op, (input_node("x", TensorType(np.dtype("float32"), (2, 3))),), ((),))
