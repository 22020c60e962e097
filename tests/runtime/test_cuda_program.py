"""Programs for a GPU: on the emulated device, through NVRTC, on a GPU where there is one, and refused where not."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.demo.programs import convolution, layer_norm, options, softmax, transformer
from eqfuse.emit.cuda import executable
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.machine import nvrtc
from eqfuse.machine.gpu import cupy_gpu
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import DeviceArray, EmulatedGpu
from tests.support.gpu import program_on
from tests.support.kernels import PRICE, read

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")

GPU = EmulatedGpu()
ROWS = np.random.default_rng(1).normal(size=(37, 70)).astype(np.float32)
COLUMN = np.arange(70, dtype=np.float32) / 70


def mean_squared_error(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).mean()


def library_calls(x: Any, rows: Any) -> Any:
    """Operators that run between CUDA functions, one library call each."""
    padded = np.pad(np.cumsum(np.exp(-np.abs(x)), axis=1), ((1, 2), (0, 3)), constant_values=0.5)
    largest = np.argmax(np.sort(padded * 2, axis=0), axis=1)
    return np.concatenate([padded, np.take(padded, rows, axis=0)], axis=0) + 1, largest


def waves(z: Any, x: Any) -> Any:
    rotated = z * np.exp(1j * x) / (z + 2) + z.conj()
    scaled = rotated / rotated.sum(axis=-1, keepdims=True)
    flat = np.where(scaled == 0, z, scaled).astype(np.complex128).prod(axis=0)
    return scaled, np.abs(rotated) * x, np.nan_to_num(z @ z.T), rotated.real - rotated.imag, flat, rotated.sum()


def views_among_the_results(x: Any) -> Any:
    y = np.tanh(x)
    return y, y.T, x, x[::2, 1:], np.float32(3)


def two_layers(x: Any, w: Any) -> Any:
    for _ in range(2):
        x = softmax(np.tanh(x @ w)) @ w.T
    return x


CASES: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "transformer": lambda: transformer(batch=1, tokens=6, width=16, heads=2).build(np.float32),
    "two layers": lambda: (two_layers, (ROWS, ROWS.T)),
    "black-scholes": lambda: options(count=501).build(np.float32),
    "softmax": lambda: (softmax, (ROWS,)),
    "layer norm": lambda: (layer_norm, (ROWS, COLUMN, COLUMN)),
    "mean squared error, split over blocks": lambda: (mean_squared_error, (np.tile(ROWS, (9, 3)), np.ones(210, "f4"))),
    "convolution": lambda: convolution(batch=2, channels=3, filters=4, size=8).build(np.float32),
    "library calls": lambda: (library_calls, (ROWS, np.array([3, -1, 0]))),
    "views among the results": lambda: (views_among_the_results, (ROWS,)),
    "a product of views": lambda: (lambda x: x[:, 1::3].T @ x[:, ::3], (ROWS.astype(np.float16),)),
    "complex numbers": lambda: (waves, (ROWS.astype(np.complex64) * (1 + 2j), ROWS)),
    "nothing to compute": lambda: (lambda x: np.exp(x) + 1, (np.ones((0, 5), np.float32),)),
}


ALL = pytest.mark.parametrize("case", CASES)


@functools.cache
def planned(case: str, target: str = "cuda:h100") -> tuple[Plan, tuple[Any, ...]]:
    function, arguments = CASES[case]()
    return ef.extract(ef.saturate(ef.trace(function, *arguments)), target=target), arguments


def judge(got: Any, plan: Plan, arguments: Sequence[Any]) -> None:
    assert plan.graph.signature is not None
    wanted = ef.meaning(Graph(plan.graph.inputs, plan.graph.outputs), *plan.graph.signature.flatten(tuple(arguments)))
    for leaf, want in zip(leaves(got), wanted, strict=True):
        assert isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype == want.dtype and leaf.shape == want.shape
        if want.dtype.kind in "fc":
            close = {2: 4e-3, 4: 2e-5, 8: 1e-12}[want.real.dtype.itemsize]
            np.testing.assert_allclose(leaf, want, rtol=close, atol=close * max(1.0, np.abs(want).max(initial=0)))
        else:
            np.testing.assert_array_equal(leaf, want)


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list, dict)):
        return [leaf for child in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(child)]
    return [tree]


def one_kernel(kind: str, *outputs: Node) -> Plan:
    """The plan of one kernel, every result an output."""
    inputs = tuple(n for n in Graph((), outputs).nodes if n.op == "input")
    graph = Graph(inputs, outputs)
    types = tuple(n.type for n in (*inputs, *outputs))
    reads, writes = tuple(range(len(inputs))), tuple(range(len(inputs), len(types)))
    return Plan(graph, profile("a100"), types, reads, (), (), (Kernel(kind, graph, reads, writes, PRICE),), writes)


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("case_and_target", product(CASES, ["cuda:a100", "cuda:h100"]), ids=", ".join)
def test_a_program_for_a_gpu_agrees_with_numpy(case_and_target):
    plan, arguments = planned(*case_and_target)
    program = program_on(plan, GPU)
    for _ in range(2):  # the second call meets the memory that the first one left
        judge(program(*arguments), plan, arguments)


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_source_of_every_program_compiles_without_spilling(arch):
    for case in CASES:
        source = program_on(planned(case)[0]).source()
        for name, uses in nvrtc.compile_cuda(source, arch).resources.items():
            assert uses.spill_bytes == 0, (case, name, uses)


@pytest.mark.gpu
@ALL
def test_a_program_on_a_gpu_agrees_with_numpy(case):
    cupy = pytest.importorskip("cupy")
    plan, arguments = planned(case)
    program = program_on(plan)
    for _ in range(2):
        judge(program(*arguments), plan, arguments)
    assert plan.graph.signature is not None
    arrays = [cupy.asarray(a) for a in plan.graph.signature.flatten(arguments)]
    results = program.run(arrays)
    assert all(isinstance(r, cupy.ndarray) for r in results)
    judge([cupy.asnumpy(r) for r in results], plan, arguments)
    assert all(s >= 0 for s in program.kernel_seconds(*arguments))


def test_without_a_gpu_everything_but_a_call_works():
    if gpu_here():
        pytest.skip("there is a GPU here")
    program = ef.compile(softmax, ROWS, target="cuda:h100")
    assert isinstance(program.executable, executable.CudaExecutable)
    assert "__global__" in program.source() and program.report.n_kernels == 1 and program.plan.device.name == "h100"
    assert program.peak_bytes == program.report.peak_bytes
    with pytest.raises(ef.TargetUnavailable, match=r"eqfuse\[cuda13\] or eqfuse\[cuda12\]"):
        program(ROWS)


def test_a_broken_cupy_is_reported_with_its_own_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cupy_gpu.cache_clear()
    with pytest.raises(ef.TargetUnavailable, match=r"import of cupy halted.*eqfuse\[cuda13\]"):
        cupy_gpu()


def gpu_here() -> bool:
    try:
        cupy_gpu()
    except ef.TargetUnavailable:
        return False
    return True


@emulated
def test_arrays_on_the_device_give_results_on_the_device():
    program = program_on(planned("layer norm")[0], GPU)
    on_device = [GPU.upload(a) for a in (ROWS, COLUMN, COLUMN)]
    result = program(*on_device)
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(GPU.download(result), program(ROWS, COLUMN, COLUMN))
    assert isinstance(program(on_device[0], COLUMN, COLUMN), DeviceArray)


@emulated
@pytest.mark.parametrize("where", [(a, b) for a in (np.ndarray, DeviceArray) for b in (np.ndarray, DeviceArray)])
def test_arguments_are_changed_in_place_where_they_lie(where, monkeypatch):
    def step(x: Any, y: Any) -> Any:
        x += 1
        x[::2] *= y[::2]
        return x.sum(axis=0), x

    x, y = ROWS[:6].astype(np.float64), ROWS[6:12].astype(np.float64)
    program = program_on(ef.extract(ef.saturate(ef.trace(step, x, y)), target="cuda:h100"), GPU)
    mine, other = (a.copy().view(kind) for a, kind in zip((x, y), where, strict=True))
    fetched: list[DeviceArray] = []
    get = DeviceArray.get
    monkeypatch.setattr(DeviceArray, "get", lambda array: fetched.append(array) or get(array))
    total, result = program(mine, other)
    assert bool(fetched) == (where[0] is np.ndarray)  # CuPy's arrays are not converted to NumPy's unasked
    wanted, changed = step(x, y)
    assert result is mine and isinstance(total, DeviceArray if DeviceArray in where else np.ndarray)
    np.testing.assert_allclose(mine.view(np.ndarray), changed)
    np.testing.assert_allclose(total.view(np.ndarray), wanted)


class OnAGpu:
    """What CuPy's arrays tell of themselves: flags without `writeable`, an address."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape, self.strides, self.dtype, self.size = array.shape, array.strides, array.dtype, array.size
        self.flags = SimpleNamespace(c_contiguous=array.flags.c_contiguous)
        self.data = SimpleNamespace(ptr=array.ctypes.data)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_arrays_on_a_gpu_are_refused_where_one_that_is_changed_shares_memory_with_another():
    def step(x: Any, y: Any) -> Any:
        x += y
        return x

    a = np.zeros((20, 8))
    signature = ef.trace(step, a[:10], a[10:]).signature
    assert signature is not None
    signature.feed([OnAGpu(a[:10]), OnAGpu(a[10:])])
    signature.feed([OnAGpu(a[9::-1]), OnAGpu(a[:9:-1])])
    for other in (a[9:19], a[::2], a[:10]):
        with pytest.raises(ef.ShapeError, match="shares"):
            signature.feed([OnAGpu(a[:10]), OnAGpu(other)])


@emulated
def test_arguments_in_any_memory_order_give_the_same_bits():
    program = program_on(planned("softmax")[0], GPU)
    wanted = program(ROWS)
    odd = GPU.empty((4 * ROWS.size + 4,), np.dtype(np.uint8))[4:].view(np.float32).reshape(ROWS.shape)  # not 16 bytes
    odd[...] = ROWS
    turned = GPU.upload(ROWS.T.copy()).T
    for array in (np.asfortranarray(ROWS), np.repeat(ROWS, 2, axis=1)[:, ::2], odd, turned):
        np.testing.assert_array_equal(np.asarray(program(array)), wanted)


@emulated
def test_results_are_new_arrays_and_arguments_stay_as_they_were():
    program = program_on(planned("views among the results")[0], GPU)
    x = GPU.upload(ROWS)
    first, second = program(x), program(x)
    arrays = [*first, *second]
    for i, r in enumerate(arrays):
        assert not any(np.shares_memory(r, other) for other in (x, *arrays[:i]))
    np.testing.assert_array_equal(np.asarray(x), ROWS)


@emulated
def test_wrong_arguments_are_refused_before_anything_runs():
    program = program_on(planned("softmax")[0], GPU)
    with pytest.raises(ef.ShapeError, match=r"float64\[37, 70\].*compiled for float32\[37, 70\]"):
        program.run([ROWS.astype(np.float64)])
    with pytest.raises(ef.ShapeError, match=r"float32\[70, 37\]"):
        program.run([GPU.upload(ROWS).T])
    with pytest.raises(ef.ShapeError, match="1 inputs, 2 arrays"):
        program.run([ROWS, ROWS])


@emulated
def test_several_threads_may_call_one_program():
    plan, (x, y) = planned("mean squared error, split over blocks")
    program = program_on(plan, GPU)
    wanted = [program(x + i, y) for i in range(4)]
    results: dict[int, np.ndarray] = {}

    def call(i: int) -> None:
        for _ in range(3):
            results[i] = program(x + i, y)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [results[i] for i in range(4)] == wanted


@emulated
def test_each_kernel_that_moves_data_can_be_timed():
    plan, arguments = planned("library calls")
    program = program_on(plan, GPU)
    seconds = program.kernel_seconds(*arguments)
    assert len(seconds) == sum(not k.is_view for k in plan.kernels) and all(s > 0 for s in seconds)


@emulated
def test_a_large_arena_is_given_back_after_each_call(monkeypatch):
    plan, arguments = planned("library calls")
    monkeypatch.setattr(executable, "GPU_ARENA_KEPT", 0)
    program = program_on(plan, GPU)
    judge(program(*arguments), plan, arguments)
    assert program.peak_bytes > 0


@emulated
def test_work_on_constants_alone_is_done_once_on_the_host():
    x, c = read(0, (3, 4)), const(np.arange(4, dtype=np.float32))
    r0, r1 = read(0, (4,)), read(1, (4,))
    once, every = Graph((r0,), (node("exp", (r0,)),)), Graph((x, r1), (node("add", (x, r1)),))
    out = node("add", (x, node("exp", (c,))))
    plan = Plan(
        graph=Graph((x,), (out,)),
        device=profile("h100"),
        types=(x.type, c.type, c.type, x.type),
        inputs=(0,),
        constants=((1, c.literal),),
        setup=(Kernel("setup", once, (1,), (2,), PRICE),),
        kernels=(Kernel("map", every, (0, 2), (3,), PRICE),),
        outputs=(3,),
    )
    program = program_on(plan, GPU)
    assert "exp" not in program.source().split("// kernel 0")[1]
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(program.run([ones])[0], np.broadcast_to(1 + np.exp(c.literal.array), (3, 4)))


@emulated
def test_a_function_that_reads_a_view_is_given_its_elements_in_order():
    x, t = read(0, (3, 5)), read(0, (5, 3))
    turned, squared = Graph((x,), (node("transpose", (x,), ((1, 0),)),)), Graph((t,), (node("square", (t,)),))
    plan = Plan(
        graph=Graph((x,), (node("square", turned.outputs),)),
        device=profile("h100"),
        types=(x.type, t.type, t.type),
        inputs=(0,),
        constants=(),
        setup=(),
        kernels=(Kernel("view", turned, (0,), (1,), PRICE), Kernel("map", squared, (1,), (2,), PRICE)),
        outputs=(2,),
    )
    (got,) = program_on(plan, GPU).run([ROWS[:3, :5]])
    np.testing.assert_array_equal(got, np.square(ROWS[:3, :5].T))


@emulated
def test_a_kernel_of_library_calls_takes_every_operator_that_cuda_functions_do_not():
    x, y = read(0, (5, 6)), read(1, (5, 6))
    masked = node("where", (node("less", (x, y)), node("erf", (x,)), node("flip", (y,), ((-1,),))))
    small = node("cast", (node("slice", (masked,), (((0, 5, 2), (1, 6, 1)),)),), (np.dtype(np.float16),))
    both = node("concat", (masked, node("broadcast_to", (node("sum", (x,), ((-1,),)),), ((5, 6),))), (-1,))
    places = node("argmin", (both,), ((-1,),))
    plan = one_kernel("library", masked, small, both, places, node("take_along_axis", (both, places), (-1,)))
    arrays = [ROWS[:5, :6], ROWS[5:10, 6:12]]
    for got, wanted in zip(program_on(plan, GPU).run(arrays), ef.meaning(plan.graph, *arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_the_source_shows_functions_once_and_library_calls_as_comments():
    source = program_on(planned("two layers")[0]).source()
    assert source.count("__global__") < source.count("// kernel ")
    assert "(above)" in source and "//     product(r0, r1, w0)" in source
    anew = program_on(planned.__wrapped__("library calls")[0]).source()
    assert anew == program_on(planned("library calls")[0]).source()
