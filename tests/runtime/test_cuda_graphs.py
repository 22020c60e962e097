"""CUDA graphs: the same answers as without, whatever arrays a call brings, and nothing of another call's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.cuda import executable, graphs
from eqfuse.errors import OptionError
from eqfuse.ir.accepted import ARRAY_TYPES
from eqfuse.ir.pytree import tree_leaves
from eqfuse.machine.gpu import CupyGpu
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import LAUNCHES, DeviceArray, EmulatedGpu
from tests.support.gpu import program_on

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")

ROWS = np.random.default_rng(1).normal(size=(12, 40)).astype(np.float32)


class Streams(EmulatedGpu):
    """Each thread has a stream of its own."""

    def current_stream(self) -> tuple[int, int]:
        return 0, threading.get_ident()


class Reusing(EmulatedGpu):
    """Memory for a shape is always the same, as that of a result which is given up at once."""

    def __init__(self) -> None:
        self.memory: dict[tuple, DeviceArray] = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return self.memory.setdefault((shape, dtype), super().empty(shape, dtype))


GPU = EmulatedGpu()


def steps(x: Any) -> Any:
    """Several kernels."""
    for i in range(3):
        x = np.exp(x - x.max(axis=i % 2, keepdims=True))
    return x


def products(x: Any) -> Any:
    """With library calls between CUDA functions."""
    return np.tanh(ef.softmax(x @ x.T) @ x) @ x.T


def two_results(x: Any, y: Any) -> Any:
    for i in range(4):
        x = np.exp(x - (x + y).max(axis=i % 2, keepdims=True))
    total = (x * y).sum(axis=1, keepdims=True)
    return np.tanh(x / total), (y - total).max(axis=0), y.T


def plan_of(function: Callable[..., Any], *arrays: Any) -> Plan:
    return ef.compile(function, *arrays, target="cuda:h100").plan


def with_graphs(plan: Plan, gpu: EmulatedGpu = GPU) -> Program:
    program = program_on(plan, gpu)
    program.executable.use_graphs()
    return program


def launched() -> list[str]:
    """What this thread has started since it was last asked."""
    names = LAUNCHES.names.copy()
    LAUNCHES.names.clear()
    return names


def captures(gpu: EmulatedGpu, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every graph."""
    captured: list[int] = []
    capture = gpu.capture
    monkeypatch.setattr(gpu, "capture", lambda work: captured.append(1) or capture(work), raising=False)
    return captured


@pytest.mark.slow
@emulated
def test_a_program_gives_the_same_bits_with_graphs():
    for f, given in ((products, (ROWS,)), (steps, (ROWS,)), (two_results, (ROWS, ROWS + 3))):
        plan = plan_of(f, *given)
        program = with_graphs(plan)
        wanted = tree_leaves(program_on(plan, GPU)(*given))[0]
        for _ in range(4):
            results = tree_leaves(program(*given))[0]
            for got, want in zip(results, wanted, strict=True):
                np.testing.assert_array_equal(got, want)


@emulated
def test_kernels_are_started_by_one_graph_from_the_second_call_on():
    plan = plan_of(steps, ROWS)
    program, x = with_graphs(plan), GPU.upload(ROWS)
    program(x)
    launched()
    result = program(x)
    assert launched() == ["graph"]
    np.testing.assert_array_equal(np.asarray(result), program_on(plan, GPU)(ROWS))


@emulated
def test_results_of_consecutive_calls_are_independent():
    program = with_graphs(plan_of(steps, ROWS))
    arguments = [GPU.upload(ROWS * i) for i in range(3)]
    results = [program(arguments[i % 3]) for i in range(50)]  # none is given up
    for i, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(result), np.asarray(results[i % 3]))
        assert not any(np.shares_memory(result, other) for other in (*arguments, *results[:i]))
    for x, i in zip(arguments, range(3), strict=True):
        np.testing.assert_array_equal(np.asarray(x), ROWS * i)


@emulated
def test_an_argument_may_be_changed_between_calls():
    plan = plan_of(steps, ROWS)
    program, plain, x = with_graphs(plan), program_on(plan, GPU), GPU.upload(ROWS)
    for i in range(5):
        x[...] = GPU.upload(ROWS * i)
        np.testing.assert_array_equal(np.asarray(program(x)), plain(ROWS * i))


@emulated
def test_arrays_that_come_again_need_no_new_graph_and_no_copy(monkeypatch):
    gpu = Reusing()
    program, captured = with_graphs(plan_of(two_results, ROWS, ROWS), gpu), captures(gpu, monkeypatch)
    x, y = gpu.upload(ROWS), gpu.upload(ROWS + 3)
    for _ in range(5):
        program(x, y)
    assert len(captured) == 1
    launched()
    program(x, y)
    assert launched() == ["graph", "copy"]  # of a view of an argument, without graphs too
    program(gpu.upload(ROWS), y)
    assert len(captured) == 2


@emulated
def test_arrays_at_ever_new_addresses_are_copied_and_those_that_stay_are_not(monkeypatch):
    gpu = EmulatedGpu()
    plan = plan_of(two_results, ROWS, ROWS)
    program, captured, copied = with_graphs(plan, gpu), captures(gpu, monkeypatch), list[int]()
    copy = gpu.copy
    monkeypatch.setattr(gpu, "copy", lambda a, b: copied.append(gpu.address(b)) or copy(a, b), raising=False)
    y, kept = gpu.upload(ROWS + 3), []
    for i in range(3 * graphs.GRAPHS_KEPT):
        x = gpu.upload(ROWS * i)
        kept.append((x, program(x, y)))
    assert len(captured) == graphs.GRAPHS_KEPT + 1
    assert gpu.address(y) not in copied and gpu.address(kept[-1][0]) in copied
    plain = program_on(plan, gpu)
    for x, results in kept:
        for got, want in zip(results, plain(x, y), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@emulated
def test_a_program_with_no_more_kernels_than_copies_is_run_without_graphs():
    plan = plan_of(lambda x: np.exp(x) + 1, ROWS)
    program, x = with_graphs(plan), GPU.upload(ROWS)
    kept = [program(x)]
    launched()
    for _ in range(2 * graphs.GRAPHS_KEPT):
        kept.append(program(x))
    assert launched() == ["graph"] * graphs.GRAPHS_KEPT
    for result in kept:
        np.testing.assert_array_equal(np.asarray(result), np.asarray(kept[0]))
    assert len({r.ctypes.data for r in kept}) == len(kept)


@emulated
def test_every_argument_may_have_other_addresses_in_turn():
    plan = plan_of(two_results, ROWS, ROWS)
    program, plain = with_graphs(plan), program_on(plan, GPU)
    kept = []
    y = GPU.upload(ROWS)
    for i in range(5 * graphs.GRAPHS_KEPT):
        x = GPU.upload(ROWS * i) if i < 2 * graphs.GRAPHS_KEPT else kept[-1][0]
        y = y if i < 2 * graphs.GRAPHS_KEPT else GPU.upload(ROWS + i)
        kept.append((x, y, program(x, y)))
    for x, y, results in kept:
        for got, want in zip(results, plain(x, y), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@emulated
def test_arguments_on_the_host_and_in_any_order_are_taken():
    plan = plan_of(steps, ROWS)
    program, wanted = with_graphs(plan), program_on(plan, GPU)(ROWS)
    for _ in range(3):
        for array in (ROWS, np.asfortranarray(ROWS), GPU.upload(ROWS.T.copy()).T):
            np.testing.assert_array_equal(np.asarray(program(array)), wanted)


@emulated
@pytest.mark.parametrize("gpu", [EmulatedGpu(), Streams()], ids=["one stream", "a stream each"])
def test_threads_have_graphs_of_their_own_or_wait(gpu):
    plan = plan_of(steps, ROWS)
    program, plain = with_graphs(plan, gpu), program_on(plan, gpu)
    wanted = [plain(ROWS + i) for i in range(4)]
    wrong: list[int] = []

    def call(i: int) -> None:
        x = gpu.upload(ROWS + i)
        for _ in range(6):
            if not np.array_equal(np.asarray(program(x)), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@emulated
def test_an_error_while_a_graph_is_captured_leaves_nothing_behind(monkeypatch):
    plan = plan_of(steps, ROWS)
    gpu = EmulatedGpu()
    program, x = with_graphs(plan, gpu), gpu.upload(ROWS)
    wanted = np.asarray(program(x))
    capture = gpu.capture

    def failing(work: Callable[[], None]) -> Callable[[], None]:
        def half() -> None:
            work()
            gpu.finish()

        return capture(half)

    monkeypatch.setattr(gpu, "capture", failing, raising=False)
    for _ in range(2):
        with pytest.raises(ef.EqfuseError, match=r"cannot be captured.*leave out graphs=True.*not permitted"):
            program(x)
    monkeypatch.undo()
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(program(x)), wanted)
    assert LAUNCHES.captured is None


@pytest.fixture
def on_emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs for a GPU run on the emulated one, whose arrays are traced as CuPy's are."""
    monkeypatch.setattr(executable, "cupy_gpu", lambda: GPU)
    monkeypatch.setattr(DeviceArray, "__cuda_array_interface__", property(lambda _: {}), raising=False)
    ARRAY_TYPES.add(DeviceArray)
    yield
    ARRAY_TYPES.remove(DeviceArray)


@emulated
@pytest.mark.usefixtures("on_emulator")
def test_sizes_that_change_have_graphs_each():
    f = ef.jit(steps, target="cuda:h100", dynamic=True, graphs=True)
    plain = ef.jit(steps, target="cuda:h100", dynamic=True)
    for again in range(3):
        for n in (9, 12, 30):
            x = GPU.upload(np.resize(ROWS, (n, 40)))
            launched()
            result = f(x)
            assert ("graph" in launched()) == (again > 0)
            np.testing.assert_array_equal(np.asarray(result), np.asarray(plain(x)))


@emulated
@pytest.mark.usefixtures("on_emulator")
def test_a_jitted_function_finds_its_program_by_arrays_of_the_gpu(monkeypatch):
    f = ef.jit(two_results, target="cuda:h100")
    x, y = GPU.upload(ROWS), GPU.upload(ROWS + 3)
    f(x, y)
    monkeypatch.setattr(f, "_find", None)  # nothing is looked for any more
    assert isinstance(f(x, y)[0], DeviceArray)


@emulated
def test_a_saved_program_may_be_loaded_to_run_graphs(tmp_path, monkeypatch):
    monkeypatch.setattr(executable, "cupy_gpu", lambda: GPU)
    program = ef.compile(steps, ROWS, target="cuda:h100", graphs=True)
    program.save(tmp_path / "program")
    loaded, plain = ef.load(tmp_path / "program", graphs=True), ef.load(tmp_path / "program")
    for other, names in ((loaded, ["graph"]), (plain, [])):  # CUDA functions are not noted
        np.testing.assert_array_equal(other(ROWS), program(ROWS))
        launched()
        other(ROWS)
        assert launched() == names


REFUSED = {
    "a loop": (lambda x: ef.fori_loop(0, 3, lambda i, a: np.exp(-a), x), r"loop.*host starts its steps.*leave out"),
    "a sort": (lambda x: np.sort(x), r"sort.*may wait.*leave out graphs=True"),
    "an operator of the host": (lambda x: np.nanquantile(x, 0.3, axis=0), r"nanquantile.*on the host.*leave out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_captured_is_refused_when_it_is_compiled(case):
    function, words = REFUSED[case]
    with pytest.raises(ef.EqfuseError, match=words):
        ef.compile(function, ef.spec((8, 16), np.float32), target="cuda:h100", graphs=True)
    ef.compile(function, ef.spec((8, 16), np.float32), target="cuda:h100")


def test_an_explanation_says_that_kernels_start_as_a_graph():
    assert "as a CUDA graph" in str(ef.compile(steps, ROWS, target="cuda:h100", graphs=True).explain())


def test_graphs_are_an_option_of_gpus_alone():
    with pytest.raises(OptionError, match=r"graphs=True is for programs on a GPU.*target is numpy"):
        ef.compile(steps, ROWS, target="numpy", graphs=True)
    with pytest.raises(OptionError, match="graphs is 1: it takes True or False"):
        ef.jit(steps, target="cuda:h100", graphs=1)


class FakeStream:
    def __init__(self, log: list[str], fails: bool) -> None:
        self.log, self.fails, self.ptr = log, fails, 5

    def __enter__(self) -> None:
        self.log.append("use")

    def __exit__(self, *_: object) -> None:
        self.log.append("back")

    def begin_capture(self) -> None:
        self.log.append("begin")

    def end_capture(self) -> Any:
        self.log.append("end")
        if self.fails:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return SimpleNamespace(launch=lambda: self.log.append("launch"))


def cupy_gpu(log: list[str], fails: bool) -> CupyGpu:
    @contextmanager
    def using_allocator(_allocator: Any) -> Iterator[None]:
        log.append("own memory")
        yield
        log.append("usual memory")

    cuda = SimpleNamespace(
        MemoryPool=lambda: SimpleNamespace(malloc=None), Stream=lambda non_blocking: FakeStream(log, fails),
        using_allocator=using_allocator, get_current_stream=lambda: SimpleNamespace(ptr=0),
        runtime=SimpleNamespace(getDeviceCount=lambda: 1, streamPerThread=2),
    )  # fmt: skip
    return CupyGpu(SimpleNamespace(cuda=cuda), None)  # type: ignore[arg-type]


def test_cupy_captures_on_a_stream_and_in_memory_of_the_graphs_own():
    log: list[str] = []
    launch = cupy_gpu(log, False).capture(lambda: log.append("work"))
    assert log == ["own memory", "use", "begin", "work", "end", "back", "usual memory"]
    launch()
    assert log[-1] == "launch"


def test_cupy_ends_a_capture_in_which_something_fails():
    log: list[str] = []

    def work() -> None:
        raise ValueError("something fails")

    with pytest.raises(ValueError, match="something fails"):
        cupy_gpu(log, True).capture(work)
    assert log == ["own memory", "use", "begin", "end", "back"]
