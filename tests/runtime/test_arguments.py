"""Arguments of every shape that memory can take. NumPy itself is the oracle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
C = np.arange(3.0)


def chain(x: Any) -> Any:
    return np.tanh(x * 2 + 1) - x


def rows(x: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True)).sum(-1)


def product(x: Any) -> Any:
    return np.maximum(x @ x.T, 0)


def scan(x: Any) -> Any:
    return np.cumsum(np.sort(x, -1), -1), x[..., ::-1]


PROGRAMS = (chain, rows, product, scan)


def unaligned(x: np.ndarray) -> np.ndarray:
    """`x` one byte off every boundary."""
    memory = np.empty(x.nbytes + 1, np.uint8)
    array = memory[1:].view(x.dtype).reshape(x.shape)
    array[...] = x
    assert not array.flags.aligned
    return array


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


BASE = RNG.normal(size=(12, 10)).astype(np.float32)
LAYOUTS: dict[str, np.ndarray] = {
    "C order": BASE,
    "Fortran order": np.asfortranarray(BASE),
    "transposed": BASE.T.copy().T,
    "every second column": RNG.normal(size=(12, 20)).astype(np.float32)[:, ::2],
    "every third row": RNG.normal(size=(36, 10)).astype(np.float32)[::3],
    "rows backwards": BASE[::-1],
    "both axes backwards": BASE[::-1, ::-1],
    "backwards in steps": RNG.normal(size=(24, 30)).astype(np.float32)[::-2, ::-3],
    "one row broadcast": np.broadcast_to(BASE[:1], (12, 10)),
    "one column broadcast": np.broadcast_to(BASE[:, :1], (12, 10)),
    "one element broadcast": np.broadcast_to(BASE[0, 0], (12, 10)),
    "overlapping windows": np.lib.stride_tricks.sliding_window_view(BASE.ravel()[:21], 10),
    "inside a larger array": np.pad(BASE, 3)[3:-3, 3:-3],
    "a field of a structured array": np.zeros((12, 10), [("a", "f4"), ("b", "f8")])["a"],
    "one plane of an image": RNG.normal(size=(12, 10, 3)).astype(np.float32)[..., 1],
    "unaligned": unaligned(BASE),
    "read-only": read_only(BASE),
    "from a buffer": np.frombuffer(BASE.tobytes(), np.float32).reshape(12, 10),
}


@pytest.fixture(scope="module")
def compiled() -> dict[Callable, Callable]:
    return {fn: ef.jit(fn) for fn in PROGRAMS}


def assert_same(got: Any, wanted: Any) -> None:
    several = isinstance(wanted, tuple)
    for g, w in zip(got if several else (got,), wanted if several else (wanted,), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_any_layout_of_memory_gives_what_numpy_gives(compiled: dict, fn: Callable, layout: str) -> None:
    x = LAYOUTS[layout]
    before = x.copy()
    assert_same(compiled[fn](x), fn(x))
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (1, 1), (2, 0, 4), (1, 3, 1), (7,)])
def test_shapes_without_elements_or_axes_give_what_numpy_gives(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    assert_same(ef.jit(chain)(x), np.asarray(chain(x)))
    assert_same(ef.jit(lambda x: (x.sum(), x.prod(-1) if x.ndim else x, x.T, x.ravel()))(x),
                (x.sum(), x.prod(-1) if x.ndim else x, x.T, x.ravel()))  # fmt: skip
    if shape and shape[-1]:
        assert_same(ef.jit(rows)(x), rows(x))


def test_the_maximum_of_nothing_is_refused_as_in_numpy() -> None:
    with pytest.raises((ef.EqfuseError, ValueError)):
        ef.jit(rows)(np.ones((3, 0)))


def test_a_large_strided_argument_goes_through_tiles() -> None:
    x = np.asfortranarray(RNG.normal(size=(1500, 700)))[::-1, ::2]
    for fn in (chain, rows):
        assert_same(ef.jit(fn)(x), fn(x))


def test_a_memory_mapped_file_is_an_array(tmp_path: Path) -> None:
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(40, 5))
    x[...] = RNG.normal(size=x.shape)
    for view in (x, x[::2], np.memmap(tmp_path / "x", np.float64, "r", shape=(40, 5))):
        result = ef.jit(chain)(view)
        assert type(result) is np.ndarray
        assert_same(result, chain(np.asarray(view)))


@pytest.mark.parametrize("scalar", [
    np.float32(1.5), np.float64(-2), np.int8(3), np.uint16(9), np.bool_(True), 2, 0.25, True, float("nan"), -0.0,
])  # fmt: skip
def test_scalars_promote_as_numpy_promotes_them(scalar: Any) -> None:
    def f(x: Any, s: Any) -> Any:
        return x * s + s

    for x in (np.ones(3, np.float16), np.arange(4, dtype=np.uint8), np.float32(2)):
        assert_same(np.asarray(ef.jit(f)(x, scalar)), np.asarray(f(x, scalar)))


class Sub(np.ndarray):
    pass


SUBCLASSES = {
    "numpy.ma.MaskedArray": np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
    "numpy.matrix": np.asmatrix([1.0, 2.0, 3.0]),
    "numpy.rec.recarray": np.rec.array([(1.0, 2)] * 3, dtype=[("a", "f8"), ("b", "i4")]),
    "Sub": np.ones(3).view(Sub),
    "chararray": np.char.array(["a", "b", "c"]),
}


@pytest.mark.parametrize("name", SUBCLASSES)
def test_a_subclass_is_refused_by_name(name: str) -> None:
    x = SUBCLASSES[name]
    with pytest.raises(ef.TraceError, match=rf"argument 'x' is a .*{name}.*np\.asarray"):
        ef.jit(chain)(x)
    with pytest.raises(ef.TraceError, match=f"argument 'x' is a .*{name}"):
        ef.compile(chain, ef.spec(x.shape), target="numpy")(x)
    with pytest.raises(ef.TraceError, match=f"argument 'x' is a .*{name}"):
        ef.meaning(ef.trace(chain, ef.spec(x.shape)), x)
    with pytest.raises(ef.TraceError, match=name):
        ef.trace(lambda y: y + x, ef.spec(x.shape))


DTYPES = {
    "object": np.array([1.5, None, 2]),
    "<U1": np.array(["a", "b", "c"]),
    "|S1": np.array([b"a", b"b", b"c"]),
    "StringDType": np.array(["a", "b", "c"], np.dtypes.StringDType()),
    "datetime64": np.array(["2020", "2021", "2022"], "M8[Y]"),
    "timedelta64": np.array([1, 2, 3], "m8[s]"),
    "'f0'": np.zeros(3, "i4,f8"),
    "V3": np.zeros(3, "V3"),
    ">f8": np.ones(3, ">f8"),
    ">i2": np.ones(3, ">i2"),
    "float128|longdouble": np.ones(3, np.longdouble),
}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_that_is_no_tensors_is_refused_by_name(name: str) -> None:
    x = DTYPES[name]
    if name.startswith("float128") and np.longdouble == np.float64:
        pytest.skip("long double is double here")
    with pytest.raises(ef.TraceError, match=rf"argument 'x' has dtype .*({name}).*\.astype"):
        ef.jit(chain)(x)
    with pytest.raises(ef.ShapeError, match="argument 'x' is"):
        ef.compile(chain, np.ones(3), target="numpy")(x)


def test_another_byte_order_is_told_from_the_native_one() -> None:
    program = ef.compile(chain, np.ones(3), target="numpy")
    with pytest.raises(ef.ShapeError, match=r"byte order.*>f8"):
        program(np.ones(3, ">f8"))


@pytest.mark.parametrize("x", [
    range(3), {1.0}, memoryview(b"abc"), (v for v in (1.0, 2.0)), len, object(), 1 << 70, b"abc".__class__,
], ids=lambda x: type(x).__name__)  # fmt: skip
def test_what_is_no_array_is_refused_by_name(x: Any) -> None:
    with pytest.raises((ef.EqfuseError, TypeError)):
        ef.jit(chain)(x)


# ---- programs of unusual form


@pytest.mark.parametrize("fn", [
    lambda x: x, lambda x: (x, x), lambda x: (), lambda x: None, lambda x: C, lambda x: {"a": [x], "b": None, "c": "d"},
    lambda x: x.shape, lambda x: (x.dtype, x.ndim, True, slice(1, 2)), lambda x: np.float32(3),
])  # fmt: skip
def test_a_program_without_operators(fn: Callable) -> None:
    x = np.ones((2, 3))
    np.testing.assert_equal(ef.jit(fn)(x), fn(x))
    np.testing.assert_equal(ef.compile(fn, x)(x), fn(x))


def test_a_program_without_inputs() -> None:
    for fn in (lambda: C * 2, lambda: (C, 3), lambda: None):
        np.testing.assert_equal(ef.jit(fn)(), fn())
        np.testing.assert_equal(ef.compile(fn)(), fn())


@pytest.mark.slow
def test_a_program_with_two_hundred_outputs_and_one_with_two_hundred_inputs() -> None:
    x = RNG.normal(size=7)
    many = ef.jit(lambda x: [np.sin(x * i) for i in range(200)])(x)
    np.testing.assert_allclose(many, [np.sin(x * i) for i in range(200)])
    arrays = list(RNG.normal(size=(200, 7)))
    np.testing.assert_allclose(ef.jit(lambda *xs: sum(np.cos(x) for x in xs))(*arrays), np.cos(arrays).sum(0))


def test_more_arrays_are_put_together_than_a_fused_kernel_may_read() -> None:
    arrays = list(RNG.normal(size=(130, 7)))
    np.testing.assert_array_equal(ef.jit(lambda *xs: np.concatenate(xs) + 1)(*arrays), np.concatenate(arrays) + 1)
    np.testing.assert_allclose(ef.jit(lambda *xs: np.stack(xs).sum(0))(*arrays), np.sum(arrays, 0))


def test_arguments_that_nothing_reads_are_still_checked() -> None:
    program = ef.compile(lambda x, y: x + 1, np.ones(3), np.ones(4), target="numpy")
    np.testing.assert_array_equal(program(np.ones(3), np.ones(4)), np.full(3, 2.0))
    with pytest.raises(ef.ShapeError, match="'y'"):
        program(np.ones(3), np.ones(5))


def test_a_generator_inside_is_unrolled_and_a_generator_as_result_is_refused() -> None:
    x = RNG.normal(size=(3, 4))
    np.testing.assert_allclose(ef.jit(lambda x: sum(row * 2 for row in x))(x), 2 * x.sum(0))

    def lazy_rows(x: Any) -> Any:
        yield from x

    with pytest.raises(ef.TraceError, match="generator"):
        ef.jit(lazy_rows)(x)


# ---- calls within calls


def test_a_function_may_call_itself_and_others_that_are_jitted() -> None:
    @ef.jit(static_argnames="n")
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else power(x, n - 1) * x

    @ef.jit
    def outer(x: Any) -> Any:
        return power(x, 3) + power(x, n=2) + power(C, 2)[0]

    x = RNG.normal(size=4)
    np.testing.assert_allclose(power(x, 5), x**5)
    np.testing.assert_allclose(outer(x), x**3 + x**2 + C[0])


def test_endless_recursion_ends_as_in_python_and_leaves_the_thread_usable() -> None:
    @ef.jit
    def forever(x: Any) -> Any:
        return forever(x + 1)

    with pytest.raises((RecursionError, ef.EqfuseError)):
        forever(np.ones(2))
    np.testing.assert_array_equal(ef.jit(lambda x: x + 1)(np.ones(2)), [2, 2])


def test_an_exception_inside_leaves_no_state() -> None:
    kept: list[Any] = []

    @ef.jit
    def fails(x: Any, flag: Any) -> Any:
        y = x + 1
        kept.append(y)
        raise KeyError("inside")

    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            fails(np.ones(2), 1)
    assert not kept
    np.testing.assert_array_equal(ef.jit(lambda x: x + 1)(np.ones(2)), [2, 2])


def test_a_call_that_is_refused_leaves_the_program_usable() -> None:
    program = ef.compile(chain, np.ones((3, 4)), target="numpy")
    x = RNG.normal(size=(3, 4))
    for wrong in (np.ones(3), np.ma.masked_array(x), x.astype(">f8"), None):
        with pytest.raises(ef.EqfuseError):
            program(wrong)
        np.testing.assert_allclose(program(x), chain(x))


@pytest.mark.slow
def test_threads_may_trace_compile_and_run_at_once() -> None:
    f = ef.jit(lambda x: np.exp(x).sum(0))
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            own = ef.jit(lambda x: np.tanh(x) * i)
            for n in range(1, 6):
                x = np.full((n, 3), float(i))
                np.testing.assert_allclose(f(x), np.exp(x).sum(0))
                np.testing.assert_allclose(own(x), np.tanh(x) * i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_traced_array_does_not_pass_to_another_thread() -> None:
    def f(x: Any) -> Any:
        seen: list[type] = []

        def other() -> None:
            try:
                x + 1
            except BaseException as error:
                seen.append(type(error))

        t = threading.Thread(target=other)
        t.start()
        t.join()
        assert seen == [ef.TraceError]
        return x

    ef.jit(f)(np.ones(2))


# ---- huge shapes cost no memory


@pytest.mark.parametrize("fn, shapes", [
    (lambda x: (np.exp(x) + 1).sum(), [(10**12,)]),
    (lambda x: x.T[::2] - x.mean(), [(10**6, 10**6)]),
    (lambda x, y: np.maximum(x @ y, 0), [(10**6, 10**6), (10**6, 10**6)]),
    (lambda x: ef.softmax(x), [(10**6, 10**6)]),
    (lambda x: np.zeros_like(x) - np.cumsum(x), [(10**12,)]),
    (lambda x, y: x[:, None] * y, [(10**6,), (10**6,)]),
], ids=["sum", "views", "product", "softmax", "scan", "outer"])  # fmt: skip
def test_a_huge_spec_traces_and_compiles_without_memory(fn: Callable, shapes: list) -> None:
    import tracemalloc

    specs = [ef.spec(shape, np.float32) for shape in shapes]
    tracemalloc.start()
    try:
        program = ef.compile(fn, *specs, target="numpy")
        assert "kernel 0" in program.source()
        assert program.report.bytes_moved >= 4 * 10**12
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
