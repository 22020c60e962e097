"""Library calls on a GPU name only what CuPy has, for the dtypes that it has it for, and give the evaluator's results.

On the emulated device CuPy's functions are NumPy's under CuPy's names, with CuPy's parameters and dtypes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda import calls as cuda_calls
from eqfuse.emit.cuda.calls import CudaCalls, emit_calls
from eqfuse.emit.cuda.scheduling.calls import CallsSchedule, calls_schedule
from eqfuse.emit.cuda.scheduling.cupy_names import CUPY_LOOPS, SIGNATURES, VERSION
from eqfuse.emit.cuda.scheduling.host import UFUNC_NAMES
from eqfuse.errors import EqfuseError, ShapeError
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from eqfuse.ops import TABLE, loops
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.testing import emulated_gpu
from eqfuse.testing.emulated_gpu import LAUNCHES, EmulatedGpu
from tests.support import cupy_reference
from tests.support.gpu import program_on
from tests.support.kernels import PRICE, read

GPU = EmulatedGpu()
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8]
EVERY = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)


def calls(*outputs: Node) -> Plan:
    """The plan of one kernel of library calls, every value an output."""
    inputs = tuple(sorted((n for n in Graph((), outputs).nodes if n.op == "input"), key=lambda n: n.attr("name")))
    graph = Graph(inputs, outputs)
    types = tuple(n.type for n in (*inputs, *outputs))
    reads, writes = tuple(range(len(inputs))), tuple(range(len(inputs), len(types)))
    return Plan(graph, profile("a100"), types, reads, (), (), (Kernel("library", graph, reads, writes, PRICE),), writes)


def calls_of(output: Node) -> CudaCalls:
    (kernel,), h100 = calls(output).kernels, profile("h100")
    schedule = calls_schedule(kernel.body, h100)
    assert isinstance(schedule, CallsSchedule)
    return emit_calls(kernel.body, schedule)


def agree(outputs: list[Node], *arrays: np.ndarray, close: float = 1e-6) -> None:
    plan = calls(*outputs)
    with np.errstate(all="ignore"):
        wanted = ef.meaning(plan.graph, *arrays)
    program = program_on(plan, GPU)
    LAUNCHES.names.clear()
    results = program.run(list(arrays))
    schedule = kind_named("library").schedule(plan.graph, plan.device)
    assert len(LAUNCHES.names) == schedule.calls, (outputs, LAUNCHES.names)
    for n, got, want in zip(outputs, results, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, n
        if want.dtype in dtypes.ADDED:
            got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=close, atol=close, err_msg=f"{n} of {arrays}")


def numbers(dtype: np.dtype, *shape: int, seed: int = 0) -> np.ndarray:
    """Small numbers, of which many are equal."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "c":
        return (rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)).astype(dtype)
    return rng.integers(0 if dtype.kind in "bu" else -4, 2 if dtype.kind == "b" else 5, shape).astype(dtype)


def test_every_operator_of_the_table_has_a_library_call():
    missing = TABLE.keys() - cuda_calls.CUPY_CALLS.keys() - UFUNCS.keys()
    assert missing == {"input", "const", "slice", "slice_scatter", *loops.LOOPS}  # statements; the host loops


def test_an_operator_without_a_library_call_is_refused_by_name_and_target(monkeypatch):
    x = read(0, (3,))
    monkeypatch.delitem(cuda_calls.CUPY_CALLS, "sort")
    with pytest.raises(ef.UnsupportedOp, match="cuda target has no library call for sort"):
        program_on(calls(node("sort", (x,), (-1, False))))


def test_every_name_that_a_plan_may_call_is_in_the_table():
    ufuncs, functions = cupy_reference.named()
    modules = {name.rpartition(".")[0] for name in functions}
    table = "eqfuse/emit/cuda/scheduling/cupy_names.json"
    renew = f"{table}: where CuPy is installed, run python -m tests.support.cupy_reference"
    assert functions - modules == SIGNATURES.keys(), renew
    assert CUPY_LOOPS.keys() <= ufuncs, renew
    lacking = {name for name in ufuncs if name not in CUPY_LOOPS}
    assert not [name for name in lacking if not name.startswith("special.")], renew
    assert len(lacking) == 52, renew


def test_the_table_is_what_the_installed_cupy_has():
    try:
        import cupy
    except Exception as error:  # an unwritable home is an OSError
        pytest.skip(f"CuPy cannot be imported here: {error}")
    here = cupy_reference.read()
    for kind, known in (("functions", SIGNATURES), ("ufuncs", {k: " ".join(sorted(v)) for k, v in CUPY_LOOPS.items()})):
        installed = {k: " ".join(sorted(v.split())) if kind == "ufuncs" else v for k, v in here[kind].items()}
        if cupy.__version__ == VERSION:
            assert installed == known, "run python -m tests.support.cupy_reference"
        assert known.keys() <= installed.keys(), f"CuPy {cupy.__version__} lacks names that {VERSION} had"


@EVERY
def test_every_ufunc_runs_for_every_dtype_on_the_device_or_says_that_it_runs_on_the_host(dtype):
    x, y, z = (read(i, (5,), dtype) for i in range(3))
    arrays = dict(zip((x, y, z), (numbers(dtype, 5, seed=i) for i in range(3)), strict=True))
    for name, ufunc in UFUNCS.items():
        try:
            call = node(name, (x, y, z)[: ufunc.nin])
        except EqfuseError:  # NumPy has no such loop
            continue
        given = [abs(arrays[a]).astype(dtype) if name == "power" else arrays[a] for a in call.args]
        source = calls_of(call).source
        loop = f"{dtype.char * ufunc.nin}->{call.dtype.char}"
        on_device = loop in CUPY_LOOPS.get(UFUNC_NAMES[name], ())
        assert on_device != (f"on_host({name!r}, [" in source)
        agree([call], *given)


def test_a_special_function_without_a_counterpart_in_cupy_says_in_the_text_that_it_runs_on_the_host():
    import scipy.special

    x = np.linspace(0.1, 3, 50)
    program = ef.compile(lambda a: scipy.special.erfi(a * 2) + scipy.special.digamma(a), x, target="cuda:h100")
    assert "on_host('erfi', [r0], [])" in program.source() and "special.digamma(r0, out=w0)" in program.source()
    assert "On the host, by kernel, as CuPy has nothing like it: erfi (" in str(program.explain())
    got = program_on(program.plan, GPU)(x)
    np.testing.assert_allclose(got, scipy.special.erfi(x * 2) + scipy.special.digamma(x), rtol=1e-12)


def test_what_is_a_library_call_is_not_fused_with_what_is_not():
    import scipy.special

    def mixed(a: Any) -> Any:
        return np.sqrt(scipy.special.digamma(a * 2) ** 2 + 1)

    program = ef.compile(mixed, np.ones(1000), target="cuda:h100")
    assert [k.kind for k in program.plan.kernels] == ["map", "library", "map"]


@EVERY
def test_orders_searches_and_sums_of_every_dtype(dtype):
    x, line, some = read(0, (6, 5), dtype), read(1, (9,), dtype), read(2, (4,), dtype)
    arrays = [numbers(dtype, 6, 5), np.sort(numbers(dtype, 9, seed=1)), numbers(dtype, 4, seed=2)]
    outputs = [node("sort", (x,), (-2, False)), node("cumsum", (x,), (-1,)), node("cumprod", (x,), (-2,))]
    for op, args, attrs in [
        ("partition", (x,), (-1, (2,))), ("searchsorted", (line, some), ("right",)), ("isin", (x, some), ()),
        ("digitize", (some, line), (True,)), ("median", (x,), ((-2,),)), ("nanmedian", (x,), ((-2, -1),)),
        ("convolve", (line, some), ("same",)), ("correlate", (some, line), ("valid",)),
    ]:  # fmt: skip
        try:
            outputs.append(node(op, args, attrs))
        except (ShapeError, TypeError):  # NumPy has none
            continue
    needed = Graph((), tuple(outputs)).nodes
    given = [a for n, a in zip((x, line, some), arrays, strict=True) if n in needed]
    if any(n.op == "partition" for n in outputs):  # any order of the rest is right
        (position,) = (i for i, n in enumerate(outputs) if n.op == "partition")
        plan = calls(outputs.pop(position))
        got, want = program_on(plan, GPU).run([arrays[0]])[0], ef.meaning(plan.graph, arrays[0])[0]
        np.testing.assert_array_equal(np.sort(got, -1), np.sort(want, -1))
        np.testing.assert_array_equal(got[:, 2], want[:, 2])
    agree(outputs, *given, close=1e-2 if dtype.itemsize <= 2 else 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axes", [(-1,), (-2,), (-3, -1), (-3, -2, -1)])
def test_medians_of_infinities_and_nans(dtype, axes):
    rng = np.random.default_rng(0)
    values = rng.choice([np.nan, np.inf, -np.inf, 1, 2, 3, 20000], (3, 4, 5), p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.2, 0.1])
    x = read(0, (3, 4, 5), dtype)
    agree([node("nanmedian", (x,), (axes,)), node("median", (x,), (axes,))], values.astype(dtype))
    one_finite = np.where(rng.random((3, 4, 5)) < 0.1, np.nan, rng.integers(0, 9, (3, 4, 5)))
    agree([node("nanmedian", (x,), (axes,)), node("median", (x,), (axes,))], one_finite.astype(dtype))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_a_convolution_keeps_a_nan_and_a_small_number_where_they_are(mode):
    for n, m in itertools.product((1, 2, 3, 4, 7, 8), repeat=2):
        a, v = read(0, (n,), np.float64), read(1, (m,), np.float64)
        long, short = 10.0 ** np.arange(-n, n, 2.0), np.arange(1.0, m + 1)
        long[n // 2] = np.nan if n > 5 else 1e-9
        plan = calls(node("convolve", (a, v), (mode,)), node("correlate", (a, v), (mode,)))
        wanted = ef.meaning(plan.graph, long, short)
        for got, want in zip(program_on(plan, GPU).run([long, short]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14)


@EVERY
def test_equal_elements_keep_their_order(dtype):
    """CuPy sorts so by itself, NumPy where it is asked to; here along an axis long enough for NumPy not to."""
    agree([node("argsort", (read(0, (400, 2), dtype),), (-2, True))], numbers(dtype, 400, 2))


def test_equations_broadcast_as_numpys():
    rng = np.random.default_rng(0)
    for batch_a, batch_b in (((), (3,)), ((3,), ()), ((2, 1), (3,)), ((), ())):
        a, b = read(0, (*batch_a, 4, 4), np.float64), read(1, (*batch_b, 4, 2), np.float64)
        agree([node("solve", (a, b))], rng.normal(size=a.shape), rng.normal(size=b.shape), close=1e-9)


@EVERY
@pytest.mark.parametrize("mode", ["set", "add", "subtract", "maximum", "minimum", "multiply"])
def test_scattered_values_for_one_place_are_joined_as_numpy_joins_them(dtype, mode):
    if mode == "subtract" and dtype.kind == "b":
        return  # NumPy has no difference of booleans
    x, values, indices = read(0, (3, 5, 2), dtype), read(1, (3, 2, 4, 2), dtype), read(2, (2, 4), np.int8)
    places = np.array([[0, 1, 1, -1], [4, 1, 0, 2]], np.int8)
    agree([node("scatter", (x, indices, values), (-2, mode))], numbers(dtype, 3, 5, 2),
          numbers(dtype, 3, 2, 4, 2, seed=1), places)  # fmt: skip


def test_places_in_arrays_that_cupy_cannot_count_are_read_by_a_kernel_and_written_on_the_host():
    for size, counted in ((2**31 - 1, True), (2**31, False)):
        x, indices, values = read(0, (size,)), read(1, (3,), np.int64), read(2, (3,))
        taken = program_on(calls(node("take", (x, indices), (-1,)))).source()
        assert ("cupy.take(" in taken) is counted and ("eqf_place<long long>(" in taken) is not counted
        scattered = program_on(calls(node("scatter", (x, indices, values), (-1, "set")))).source()
        assert ("on_host(" in scattered) is not counted and "on_host(" not in taken


def test_scattered_nothing_changes_nothing():
    x, indices, values = read(0, (3, 5)), read(1, (0,), np.int64), read(2, (3, 0))
    agree([node("scatter", (x, indices, values), (-1, m)) for m in ("set", "add", "maximum")], numbers(x.dtype, 3, 5),
          np.zeros(0, np.int64), np.zeros((3, 0), np.float32))  # fmt: skip


def test_numpys_functions_that_calls_go_through_are_those_that_cupy_has(monkeypatch):
    seen: set[str] = set()
    array = emulated_gpu.DeviceArray
    plain = array.__array_function__

    def noted(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        seen.add(f"{func.__module__}.{func.__name__}".replace("numpy", "cupy", 1))
        return plain(self, func, types, args, kwargs)

    x, w, v = read(0, (2, 3, 6, 5)), read(1, (4, 3, 3, 3)), read(2, (2, 3, 1, 5))
    window = ((2, 2), (1, 2), ((1, 0), (0, 1)))
    outputs = [node("conv", (x, w), ((1, 2), ((1, 1), (0, 1)), (1, 1), 1)), node("window_max", (x,), window),
               node("window_sum", (x,), window), node("pad", (x, read(3, ())), (((0, 0), (0, 0), (1, 2), (0, 0)),)),
               node("slice_scatter", (x, v), ((((0, 2, 1), (0, 3, 1), (2, 3, 1), (0, 5, 1)),),))]  # fmt: skip
    plan = calls(*outputs)
    program = program_on(plan, GPU)
    arrays = [numbers(n.dtype, *n.shape) for n in plan.graph.inputs]
    monkeypatch.setattr(array, "__array_function__", noted)
    program.run(arrays)
    monkeypatch.undo()
    assert seen and seen <= SIGNATURES.keys()
    agree(outputs, *arrays)
