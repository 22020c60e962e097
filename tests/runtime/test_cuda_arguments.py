"""Arguments of other libraries for programs on a GPU: read where they lie, with results of the same library.

torch's and JAX's arrays of the host pass here for arrays of the emulated device, by what they say of where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.cuda import executable
from eqfuse.machine import device_arrays
from eqfuse.machine.gpu import CupyGpu
from eqfuse.runtime.program import Program
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import DeviceArray, EmulatedGpu
from tests.support.gpu import program_on

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")

GPU = EmulatedGpu()
ROWS = np.random.default_rng(1).normal(size=(12, 40)).astype(np.float32)
OPENCL, METAL = 4, 8


class Shared:
    """An array of a library that shares its arrays by DLPack. `streams`: those that were made to wait for it."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (2, 0)) -> None:
        self.array, self.shape, self.strides, self.dtype = array, array.shape, array.strides, array.dtype
        self.device, self.streams = device, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: Any = None, max_version: Any = None, copy: Any = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__()

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda other: Shared(np.from_dlpack(other.view(np.ndarray))))

    def __setitem__(self, key: Any, value: Shared) -> None:
        self.array[key] = value.array


class Told:
    """An array that tells of itself by CUDA's interface alone, as Numba's do."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.__cuda_array_interface__ = array.__array_interface__ | {"kept": array}


class Devices(EmulatedGpu):
    """Two devices, of which one is current. `by_address`: on which arrays lie; elsewhere on the first."""

    devices = 2

    def __init__(self) -> None:
        self.current, self.ran = 0, list[int]()
        self.by_address: dict[int, int] = {}

    def current_stream(self) -> tuple[int, int]:
        self.ran.append(self.current)
        return self.current, 0

    def device_of(self, array: DeviceArray) -> int:
        return self.by_address.get(self.address(array), 0)

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        before, self.current = self.current, device
        yield
        self.current = before


def scaled(x: Any, y: Any) -> Any:
    return np.tanh(x) * y, y.sum(axis=1)


def step(x: Any, y: Any) -> Any:
    x += y
    return y * 2, x


def program_of(function: Callable[..., Any], gpu: EmulatedGpu = GPU) -> Program:
    return program_on(ef.compile(function, ROWS, ROWS, target="cuda:h100").plan, gpu)


@pytest.fixture
def on_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for a GPU run on the emulated one."""
    monkeypatch.setattr(executable, "cupy_gpu", lambda: GPU)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """torch, whose tensors say that they lie on a GPU."""
    library = pytest.importorskip("torch")
    share = library.Tensor.__dlpack__
    monkeypatch.setattr(library.Tensor, "__dlpack_device__", lambda _: (2, 0))
    monkeypatch.setattr(library.Tensor, "__dlpack__", lambda tensor, stream=None: share(tensor))
    return library


@pytest.mark.outside
@emulated
def test_arrays_of_torch_and_jax_give_results_of_the_same_library(torch, monkeypatch):
    wanted = scaled(ROWS, ROWS + 3)
    program = program_of(scaled)
    for got, want in zip(program(torch.tensor(ROWS), torch.tensor(ROWS + 3)), wanted, strict=True):
        assert type(got) is torch.Tensor
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(ROWS)
    monkeypatch.setattr(device_arrays, "_HOST", frozenset())
    monkeypatch.setattr(device_arrays, "_CUDA", frozenset({1, 2}))
    share = type(x).__dlpack__
    monkeypatch.setattr(type(x), "__dlpack__", lambda array, stream=None: share(array))
    for got, want in zip(program(x, x + 3), wanted, strict=True):
        assert isinstance(got, jax.Array)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)


@pytest.mark.outside
@emulated
@pytest.mark.usefixtures("on_emulator")
def test_a_jitted_function_takes_arrays_of_torch_in_any_layout(torch):
    f = ef.jit(lambda x: (x.reshape(-1), np.exp(x)), target="cuda:h100")
    for x in (torch.tensor(ROWS), torch.tensor(ROWS.T.copy()).T, torch.tensor(ROWS)[:, ::2]):
        flat, exponential = f(x)
        assert type(flat) is type(exponential) is torch.Tensor
        np.testing.assert_array_equal(flat.numpy(), x.numpy().reshape(-1))
        np.testing.assert_allclose(exponential.numpy(), np.exp(x.numpy()), rtol=1e-5)
    assert f.program(torch.ones(3)).plan.graph.inputs[0].dtype == np.float32


@emulated
def test_results_are_of_the_library_of_the_first_argument_on_the_device():
    program, own = program_of(scaled), GPU.upload(ROWS)
    for first, second, kind in (
        (Shared(ROWS), own, Shared), (own, Shared(ROWS), DeviceArray), (ROWS, Shared(ROWS), Shared),
        (Told(ROWS), Shared(ROWS), DeviceArray), (ROWS, ROWS, np.ndarray),
    ):  # fmt: skip
        assert {type(result) for result in program(first, second)} == {kind}


@emulated
def test_the_stream_of_a_program_waits_for_what_writes_its_arguments():
    x, y = Shared(ROWS), Shared(ROWS + 1)
    program_of(scaled)(x, y)
    assert x.streams == y.streams == [1]  # the legacy default stream, on which the emulator runs


@emulated
def test_an_argument_of_another_library_is_changed_in_place():
    upload = GPU.upload
    for mine, other, kind in (
        (Shared, Shared, Shared), (Shared, upload, Shared), (np.array, Shared, Shared), (upload, Shared, DeviceArray),
    ):  # fmt: skip
        x, y = mine(ROWS.copy()), other(ROWS + 3)
        doubled, result = program_of(step)(x, y)
        assert result is x and type(doubled) is kind
        np.testing.assert_allclose(x.array if mine is Shared else np.asarray(x), ROWS + (ROWS + 3), rtol=1e-6)


def test_arguments_of_another_library_that_share_memory_are_refused_where_one_is_changed():
    whole = np.zeros((20, 8), np.float32)
    signature = ef.trace(step, whole[:10], whole[10:]).signature
    assert signature is not None
    for kind in (Shared, Told):
        for other in (whole[9:19], whole[::2], whole[:10]):
            with pytest.raises(ef.ShapeError, match=r"changes the argument 'x'.*shares: 'y'"):
                signature.feed([Shared(whole[:10]), kind(other)])
        signature.feed([Shared(whole[:10]), kind(whole[10:])])


def test_an_array_of_torch_is_known_by_its_bounds_and_strides(torch):
    x = torch.tensor(ROWS)
    for view in (x, x[::2], x[:, 3:], x.T, x[:0], x[2, 5]):
        array = view.numpy()
        strides = device_arrays.byte_strides(view)
        assert strides == (None if array.flags.c_contiguous else array.strides)
        assert not array.size or device_arrays.bounds(view) == np.lib.array_utils.byte_bounds(array)
    names = ("bfloat16", "bool", "complex64", "float64", "uint8", "int16")
    assert all(device_arrays.array_dtype(torch.ones(3, dtype=getattr(torch, name))).name == name for name in names)
    with pytest.raises(ef.TraceError, match=r"dtype torch\.bits8, which NumPy has not"):
        device_arrays.array_dtype(SimpleNamespace(dtype="torch.bits8"))


@emulated
def test_a_library_that_lets_nothing_be_changed_says_so():
    class Frozen(Shared):
        def __setitem__(self, key: Any, value: Any) -> None:
            raise TypeError("arrays of it are immutable")

    with pytest.raises(ef.TraceError, match=r"changes the argument 'x' in place, which .* refuses: .*immutable"):
        program_of(step)(Frozen(ROWS.copy()), ROWS)


@emulated
def test_an_array_on_another_kind_of_device_is_refused_by_name():
    for kind, name in ((OPENCL, "opencl:1"), (METAL, "metal:1"), (77, "DLPack's device 77:1")):
        with pytest.raises(ef.TargetUnavailable, match=f"the argument 'y' lies on {name}, .*on a CUDA device"):
            program_of(scaled)(ROWS, Shared(ROWS, (kind, 1)))


@pytest.mark.outside
@emulated
def test_a_library_that_does_not_share_an_array_is_quoted(torch):
    x = torch.tensor(ROWS, requires_grad=True)
    with pytest.raises(ef.TraceError, match=r"'x' cannot be read where it lies: .*require.* grad.*detach"):
        program_of(scaled)(x, ROWS)


@emulated
def test_wrong_types_of_another_librarys_arrays_are_refused():
    program = program_of(scaled)
    with pytest.raises(ef.ShapeError, match=r"argument 'x' is float64\[12, 40\].*compiled for float32"):
        program(Shared(ROWS.astype(np.float64)), ROWS)
    with pytest.raises(ef.ShapeError, match=r"argument 'y' is float32\[40, 12\]"):
        program(ROWS, Shared(ROWS.T.copy()))


@emulated
def test_a_program_runs_on_the_device_of_its_arguments():
    gpu = Devices()
    program = program_of(scaled, gpu)
    x, y, z = (gpu.upload(ROWS + i) for i in range(3))
    gpu.by_address = {gpu.address(x): 1, gpu.address(y): 1}
    shared = Shared(ROWS, (2, 1))
    for first, second, device in ((x, y, 1), (ROWS, x, 1), (shared, ROWS, 1), (z, ROWS, 0), (ROWS, ROWS, 0)):
        gpu.ran.clear()
        program(first, second)
        assert gpu.ran[-1] == device and gpu.current == 0
    with pytest.raises(ef.TargetUnavailable, match=r"'x' lies on cuda:1, 'y' on cuda:0: copy one of them"):
        program(x, z)


def test_cupy_reads_arrays_of_others_by_dlpack_where_they_have_it():
    read: list[str] = []
    cupy = SimpleNamespace(from_dlpack=lambda a: read.append("dlpack"), asarray=lambda a: read.append("interface"))
    gpu = CupyGpu(cupy, None)  # type: ignore[arg-type]
    gpu.adopt(Shared(ROWS))
    gpu.adopt(Told(ROWS))
    assert read == ["dlpack", "interface"]
