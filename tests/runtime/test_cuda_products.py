"""Products by cuBLAS: what it is told of arrays that lie in any way is their product."""

from __future__ import annotations

import ctypes
import itertools
import math
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from eqfuse.machine import cublas
from eqfuse.machine.cublas import ELEMENT_TYPES, TRANSPOSED, Products

WIDER = {n.kind: ELEMENT_TYPES[np.dtype(np.float32)].kind for dtype, n in ELEMENT_TYPES.items() if dtype.itemsize == 2}
DTYPES = {numbers.kind: dtype for dtype, numbers in ELEMENT_TYPES.items()}


class OnDevice(np.ndarray):
    """An array that tells its address as CuPy's do."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


class Library:
    """cuBLAS as its manual describes it, over NumPy's memory: matrices are counted columns first."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def cublasCreate_v2(self, _handle: Any) -> int:
        self.called.append("create")
        return 0

    def cublasSetStream_v2(self, _handle: Any, stream: int) -> int:
        self.called.append(f"stream {stream}")
        return 0

    def cublasSetWorkspace_v2(self, _handle: Any, _address: int, size: int) -> int:
        self.called.append(f"workspace {size}")
        return 0

    def cublasGemmEx(self, handle: Any, transposed_a: int, transposed_b: int, m: int, n: int, k: int, one: Any, a: int,
                     kind_a: int, lda: int, b: int, kind_b: int, ldb: int, zero: Any, c: int, kind_c: int, ldc: int,
                     sums: int, way: int) -> int:  # fmt: skip
        return self.cublasGemmStridedBatchedEx(handle, transposed_a, transposed_b, m, n, k, one, a, kind_a, lda, 0, b,
                                               kind_b, ldb, 0, zero, c, kind_c, ldc, 0, 1, sums, way)  # fmt: skip

    def cublasGemmStridedBatchedEx(
        self, _handle: Any, transposed_a: int, transposed_b: int, m: int, n: int, k: int, one: Any, a: int, kind_a: int,
        lda: int, stride_a: int, b: int, kind_b: int, ldb: int, stride_b: int, zero: Any, c: int, kind_c: int, ldc: int,
        stride_c: int, count: int, sums: int, _way: int,
    ) -> int:  # fmt: skip
        self.called.append("gemm" if count == 1 else f"{count} gemms")
        dtype = DTYPES[kind_a]
        assert kind_a == kind_b and kind_c in (kind_a, WIDER.get(kind_a)) and one[0] == 1 and zero[0] == 0
        assert sums == (cublas.SUM64 if dtype.char in "dD" else cublas.SUM32)
        left = columns_first(a, dtype, *((k, m) if transposed_a == TRANSPOSED else (m, k)), lda, stride_a, count)
        right = columns_first(b, dtype, *((n, k) if transposed_b == TRANSPOSED else (k, n)), ldb, stride_b, count)
        out = columns_first(c, DTYPES[kind_c], m, n, ldc, stride_c, count)
        left, right = (x.swapaxes(1, 2) if is_transposed else x
                       for x, is_transposed in ((left, transposed_a), (right, transposed_b)))  # fmt: skip
        out[...] = np.matmul(left, right)
        return 0


def columns_first(address: int, dtype: np.dtype, rows: int, columns: int, step: int, stride: int, count: int) -> Any:
    assert step >= rows
    one = np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(address), dtype)
    size = dtype.itemsize
    return as_strided(one, (count, rows, columns), (stride * size, size, step * size))


class Cupy:
    """What `Products` asks of CuPy."""

    cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=7),
        runtime=SimpleNamespace(getDevice=lambda: 0, getDeviceCount=lambda: 1),
    )

    def __init__(self) -> None:
        self.products = 0

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        self.products += 1
        return np.matmul(a, b, out=out)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(x, shape, subok=True)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    stand_in = Library()
    monkeypatch.setattr(cublas, "_library", lambda _cupy: stand_in)
    return stand_in


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    values = np.random.default_rng(seed).integers(-4, 5, (2, *shape))
    return (values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]).astype(dtype).view(OnDevice)


def out_of(a: Any, b: Any) -> Any:
    return np.full(np.matmul(a, b).shape, 99, a.dtype).view(OnDevice)


def lying(x: Any) -> list[Any]:
    """`x` in several places: in C order, turned, among other numbers."""
    layouts = [x]
    if x.ndim > 1:
        layouts.append(x.swapaxes(-1, -2).copy().swapaxes(-1, -2))
        layouts.append(np.concatenate([x, x], -1).view(OnDevice)[..., : x.shape[-1]])
        layouts.append(np.concatenate([x, x], -2).view(OnDevice)[..., x.shape[-2] :, :])
    return layouts


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_a_product_of_matrices_that_lie_anyhow_is_one_call(library, dtype):
    cupy = Cupy()
    products = Products(cupy)  # type: ignore[arg-type]
    for m, k, n in itertools.product((1, 5), (1, 4), (1, 3)):
        for a, b in itertools.product(lying(numbers((m, k), dtype, 0)), lying(numbers((k, n), dtype, 1))):
            out = out_of(a, b)
            products.into(a, b, out)
            np.testing.assert_array_equal(out, np.matmul(a, b))
    assert not cupy.products and set(library.called) == {"create", "stream 7", "gemm"}
    assert library.called.count("create") == 1


def test_a_batch_is_one_call_where_its_matrices_lie_at_one_distance(library):
    cupy = Cupy()
    products = Products(cupy)  # type: ignore[arg-type]
    for left, right in [((6,), (6,)), ((2, 3), (2, 3)), ((2, 3), ()), ((), (4,)), ((1, 3), (3,)), ((2, 3), (1, 1))]:
        a, b = numbers((*left, 5, 4), "f4", 0), numbers((*right, 4, 3), "f4", 1)
        for one, other in itertools.product(lying(a), lying(b)):
            out = out_of(a, b)
            products.into(one, other, out)
            np.testing.assert_array_equal(out, np.matmul(a, b))
    assert not cupy.products and "6 gemms" in library.called


def test_vectors_are_rows_on_the_left_and_columns_on_the_right(library):
    cupy = Cupy()
    products = Products(cupy)  # type: ignore[arg-type]
    x, y = numbers((4,), "f4", 0), numbers((8,), "f4", 1)[::2]
    one, many = numbers((3, 4), "f4", 2), numbers((2, 3, 4), "f4", 2)
    for a, b in [(x, one.T.copy()), (x, many.swapaxes(1, 2)), (one, y), (many, y), (x, y)]:
        out = np.full(np.matmul(a, b).shape, 99, "f4").view(OnDevice)
        products.into(a, b, out)
        np.testing.assert_array_equal(out, np.matmul(a, b))
    assert not cupy.products


ODD = {
    "integers": (numbers((5, 4), "i4", 0), numbers((4, 3), "i4", 1)),
    "nothing to add": (numbers((5, 0), "f4", 0), numbers((0, 3), "f4", 1)),
    "rows upside down": (numbers((5, 4), "f4", 0)[::-1], numbers((4, 3), "f4", 1)),
    "every other column": (numbers((5, 8), "f4", 0)[:, ::2], numbers((4, 3), "f4", 1)),
    "one axis of a batch repeated": (numbers((2, 1, 5, 4), "f4", 0), numbers((2, 3, 4, 3), "f4", 1)),
}


@pytest.mark.parametrize("case", ODD)
def test_what_cublas_does_not_take_is_left_to_cupy(library, case):
    a, b = ODD[case]
    cupy = Cupy()
    out = out_of(a, b)
    Products(cupy).into(a, b, out)  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, np.matmul(a, b))
    assert cupy.products == 1 and not library.called


@pytest.mark.parametrize("case", [case for case, (a, b) in ODD.items() if a.dtype == "f4" and a.size])
def test_a_graph_takes_copies_of_what_cublas_does_not_take(library, case):
    a, b = ODD[case]
    cupy = Cupy()
    out = out_of(a, b)
    Products(cupy).into(a, b, out, np.zeros(64, np.uint8).view(OnDevice))  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, np.matmul(a, b))
    assert not cupy.products and "workspace 64" in library.called
    assert math.prod(out.shape[:-2]) == 1 or "6 gemms" in library.called


def test_without_the_library_products_are_cupys(monkeypatch):
    monkeypatch.setattr(cublas, "_library", lambda _cupy: None)
    cupy = Cupy()
    a, b = numbers((5, 4), "f4", 0), numbers((4, 3), "f4", 1)
    out = out_of(a, b)
    Products(cupy).into(a, b, out)  # type: ignore[arg-type]
    assert cupy.products == 1


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_sums_of_16_bit_products_may_stay_float32_however_the_operands_lie(library, name):
    cupy, dtype = Cupy(), np.dtype(getattr(ml_dtypes, name, name))
    a, b = numbers((2, 5, 4), dtype, 0), numbers((2, 4, 3), dtype, 1)
    upside_down = [a[:, ::-1], np.repeat(a, 2, axis=-1)[..., ::2]]
    for one, other in itertools.product([*lying(a), *upside_down], lying(b)):
        out = np.full((2, 5, 3), 99, np.float32).view(OnDevice)
        Products(cupy).into(one, other, out)  # type: ignore[arg-type]
        np.testing.assert_array_equal(out, np.matmul(one.astype(np.float32), other.astype(np.float32)))
    assert not cupy.products


def test_without_the_library_cupy_multiplies_widened_operands_where_it_knows_no_others(monkeypatch):
    monkeypatch.setattr(cublas, "_library", lambda _cupy: None)
    a, b = numbers((5, 4), ml_dtypes.bfloat16, 0), numbers((4, 3), ml_dtypes.bfloat16, 1)
    for dtype in (np.float32, ml_dtypes.bfloat16):
        out = np.full((5, 3), 99, dtype).view(OnDevice)
        Products(Cupy()).into(a, b, out)  # type: ignore[arg-type]
        np.testing.assert_array_equal(out, np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype))


def test_only_16_bit_floats_are_widened_on_the_way_to_cupy(library):
    a, b = (np.random.default_rng(i).normal(size=(4, 4)).view(OnDevice) for i in range(2))
    out = np.zeros((4, 4), np.complex128).view(OnDevice)
    Products(Cupy()).into(a, b, out)  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, np.matmul(a, b))
