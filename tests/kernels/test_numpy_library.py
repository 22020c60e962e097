"""Every library operator: its NumPy kernel and the calls it makes on a GPU do what its row means."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.calls import emit_calls
from eqfuse.emit.cuda.scheduling.calls import calls_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, const, node
from eqfuse.ops import TABLE, Role
from eqfuse.ops.host_function import HostFunction
from eqfuse.ops.loops import LOOPS
from eqfuse.testing.cupy_stand_in import StandInModule
from tests.support.kernels import judge, read

V, W = read(0, (12,), np.float64), read(1, (12,), np.float64)
X, A, B = read(0, (3, 4, 5), np.float64), read(0, (2, 3, 3), np.float64), read(1, (2, 3, 2), np.float64)
T, I, Q = read(0, (5, 3), np.float64), read(1, (12,), np.int64), const([0.25, 0.5])  # noqa: E741
SUM = HostFunction(lambda a: [a[0] + a[1]], sum, "sum", ())
BOTH = HostFunction(lambda a: [a[0] + a[1], a[0] - a[1]], max, "both", ())
RANGE = (-2.0, 2.0)
CASES = {
    "bitcast": [((X,), (np.dtype(np.int64),))],
    "slice_scatter": [((X, read(0, X.shape, X.dtype)), ((tuple((0, n, 1) for n in X.shape),),))],
    "scatter": [((V, const([n, 1]), read(0, (2,), V.dtype)), (-1, mode)) for n, mode in ((0, "set"), (1, "add"))]
    + [((T, const([4, 1, 4]), read(0, (3, 3), T.dtype)), (-2, mode)) for mode in ("add", "maximum")],
    "cumsum": [((X,), (-2,))], "cumprod": [((X,), (-1,))],
    "accumulate": [((X,), ("maximum", -2))], "reduceat": [((V, const([0, 5, 2])), ("add", -1))],
    "fold": [((X,), ("fmax", (-3, -1))), ((X,), ("subtract", (-1,)))],
    "sort": [((X,), (-2, False)), ((X,), (-1, True))], "argsort": [((X,), (-1, True))],
    "partition": [((X,), (-1, (2,)))], "argpartition": [((V,), (-1, (0, 3)))], "lexsort": [((I, V), (-1,))],
    "searchsorted": [((const(np.arange(-2.0, 3)), V), ("right",))],
    "digitize": [((V, const(np.arange(-2.0, 3))), (True,))], "isin": [((I, const([1, 2, 8])), ())],
    "median": [((X,), ((-2,),))], "nanmedian": [((X,), ((-3, -1),))],
    **{name: [((X, Q), ((-1,), "linear"))] for name in ("quantile", "nanquantile")},
    **{name: [((X, Q), ((-1,), "nearest"))] for name in ("percentile", "nanpercentile")},
    "nanargmax": [((X,), ((-1,),))], "nanargmin": [((X,), ((-2,),))],
    "histogram": [((V,), ((5,), (None,), False, False)), ((V, W), ((4,), (RANGE,), True, True)),
                  ((X, const(np.arange(3.0))), ((None,), (None,), False, False))],
    "histogram_bin_edges": [((V,), (5, RANGE))], "bincount": [((I,), (9,))],
    "convolve": [((V, const([1.0, 2.0])), ("same",))], "correlate": [((V, const([1.0, 2.0])), ("full",))],
    "interp": [((V, const(np.arange(-2.0, 3)), const(np.arange(5.0))), (None,)), ((V, W, I), (1.5,))],
    **{name: [((A,), ())] for name in ("inv", "det", "slogdet", "svdvals", "inv_slogdet")}, "solve": [((A, B), ())],
    "cofactors": [((A, A, const([2.0, 0.0])), ())], "pinv": [((T, const(1e-9)), ())],
    "inv_triangular": [((A,), ())],
    **{op: [((A, read(1, A.shape, A.dtype)), ())] for op in ("cholesky_change", "cholesky_cotangent")},
    "cholesky": [((const(np.eye(3) + 1.0),), (False,)), ((const(np.eye(3) + 1.0),), (True,))],
    "eigh": [((A,), ("L",))], "eigvalsh": [((A,), ("U",))], "svd": [((T,), (True,)), ((T,), (False,))],
    "eig": [((const(np.eye(3) + 1j),), ())], "eigvals": [((const(np.eye(3) + 1j),), ())],
    "qr": [((T,), (mode,)) for mode in ("reduced", "complete", "raw")], "cond": [((A,), ("1",)), ((A,), ("inf",))],
    "lstsq": [((T, const(np.ones((5, 2))), const(1e-9)), ())], "full_rank": [((V, const(3, np.int32)), (3,))],
    "fft": [((X,), (5, -1, None)), ((X,), (6, -2, "ortho"))], "ifft": [((X,), (3, -1, None))],
    "rfft": [((X,), (5, -1, None))], "irfft": [((node("fft", (X,), (5, -1, None)),), (8, -1, "forward"))],
    "loop_result": [((read(0, (256,), np.uint8),), (64, "float64[3, 4]"))],
    "pure_callback": [((V, W), (SUM, (("float64", (12,)),))), ((V, W), (BOTH, (("float64", (12,)),) * 2))],
    "concat": [((X, X), (-2,))], "pad": [((X, const(1.5)), (((1, 0), (0, 2), (0, 0)),))],
}  # fmt: skip


def graphs():
    for op, cases in CASES.items():
        for i, (args, attrs) in enumerate(cases):
            yield pytest.param(op, args, attrs, id=f"{op}-{i}")


def test_every_library_operator_is_tested_here():
    described = {name for name, op in TABLE.items() if op.role in (Role.LIBRARY, Role.SCAN, Role.PIECES, Role.UPDATE)}
    assert CASES.keys() == described - LOOPS  # those run programs of their own: tests/end_to_end/test_loops.py


def body(op, args, attrs):
    """A kernel of one operator: what computes an argument becomes an array it reads."""
    leaves = []
    for a in args:
        given = a if a.op in ("input", "const") else read(0, a.shape, a.dtype)
        leaves.append(read(len(leaves), given.shape, given.dtype) if given.op == "input" else given)
    inputs = dict.fromkeys(a for a in leaves if a.op == "input")
    return Graph(tuple(inputs), (node(op, leaves, attrs),))


def arrays(graph):
    random = np.random.default_rng(0)
    given = []
    for n in graph.inputs:
        if n.dtype.kind in "iu":
            given.append(random.integers(0, 9, n.shape, n.dtype))
        else:
            values = random.normal(size=n.shape)
            given.append((values + 1j * random.normal(size=n.shape) if n.dtype.kind == "c" else values).astype(n.dtype))
    return given


@pytest.mark.parametrize("op, args, attrs", list(graphs()))
def test_the_numpy_kernel_of_a_library_operator_does_what_it_means(op, args, attrs):
    graph = body(op, args, attrs)
    judge("library", graph, arrays(graph))


def same(x):
    return x


@pytest.mark.parametrize("op, args, attrs", list(graphs()))
def test_the_calls_of_a_library_operator_on_a_gpu_do_what_it_means(op, args, attrs):
    graph = body(op, args, attrs)
    given = arrays(graph)
    calls = emit_calls(graph, calls_schedule(graph, profile("a100")))
    out = np.zeros(graph.outputs[0].shape, graph.outputs[0].dtype)
    modules = (("cupy", np), ("cupyx.scipy.special", scipy.special))
    cupy, special = (StandInModule(name, real, same, lambda _, work: work()) for name, real in modules)
    calls.bind(cupy, special)(*given, *calls.constants, out)
    wanted = evaluate(graph, given)[0]
    if op == "argpartition":  # CuPy sorts, NumPy leaves both sides as they come
        axis, kth = attrs
        out, wanted = (np.take(np.take_along_axis(given[0], indices, axis), kth, axis) for indices in (out, wanted))
    np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)


PLACES = {
    "reflected": [2, 1, 0, 1, 2, 3, 2], "wrapped": [3, 0, 1, 2, 3, 0], "repeated": [0, 0, 0, 1, 2, 3, 3], "one": [2],
    "negative": [-1, -2, -3], "stepping": [0, 2, 3, 1], "mixed": [0, 3, 1, 0, 2, 0, 3, 3, 1],
}  # fmt: skip


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("name", PLACES)
def test_known_places_are_taken_whether_they_are_slices_or_not(name, axis):
    x = read(0, (4, 4, 4), np.float64)
    source = judge("library", Graph((x,), (node("take", (x, const(PLACES[name])), (axis,)),)))
    assert "take(" not in source


def test_functions_named_like_the_emitters_own_names_are_called() -> None:
    """Bessel's k0 and k1 stand beside the constants of a kernel and of a program."""
    x, c = np.linspace(0.1, 3, 20), np.arange(20.0)
    for f in (scipy.special.k0, lambda x: scipy.special.k1(x) * c + scipy.special.k0(x) * 2.5 + np.sin(x) * c):
        np.testing.assert_allclose(ef.compile(f, x)(x), f(x), rtol=1e-12)


@pytest.mark.parametrize("shapes", [((17, 1), (1, 1)), ((1, 1), (1, 5)), ((2, 3, 1), (1, 1)), ((1, 1), (1, 1))])
def test_a_product_with_a_single_number_keeps_nan(shapes):
    for values in ((np.inf, 0.0), (0.0, np.inf), (np.nan, 0.0), (0.0, np.nan)):
        arrays = [np.full(shape, value) for shape, value in zip(shapes, values, strict=True)]
        with np.errstate(all="ignore"):
            assert np.isnan(ef.compile(np.matmul, *arrays)(*arrays)).all()
