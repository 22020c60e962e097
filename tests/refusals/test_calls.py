"""Calls and choices that do not fit: other dtypes and shapes than compiled for, and names that nothing has."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import errors
from eqfuse.cost.profiles import DEVICES
from eqfuse.errors import OptionError
from eqfuse.extract import EXTRACTORS
from eqfuse.rewrites import FAMILIES

X = np.ones((3, 4), np.float32)


def f(x: Any) -> Any:
    return np.tanh(x) + 1


@pytest.fixture(scope="module")
def program() -> ef.Program:
    return ef.compile(f, X, target="numpy")


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.bool_])
def test_another_dtype_than_compiled_for_is_refused_with_both_named(program: ef.Program, dtype: Any) -> None:
    with pytest.raises(ef.ShapeError, match=r"argument 'x' is \w+\[3, 4\].*compiled for float32\[3, 4\]"):
        program(X.astype(dtype))


@pytest.mark.parametrize("dtype", [">f4", "M8[s]", "O", "S4", "V4"])
def test_a_dtype_that_numpy_reads_differently_is_refused_too(program: ef.Program, dtype: str) -> None:
    with pytest.raises(ef.ShapeError, match="argument 'x'"):
        program(np.zeros((3, 4), dtype))


@pytest.mark.parametrize("argument", [X[:2], X[None], X.T, X[0, 0], 1.0, [1.0, 2.0], "text", None])
def test_another_shape_than_compiled_for_is_refused(program: ef.Program, argument: Any) -> None:
    with pytest.raises(ef.ShapeError):
        program(argument)


@pytest.mark.parametrize("arguments", [(), (X, X), ((X,),), ({"x": X},)])
def test_arguments_that_nest_differently_are_refused(program: ef.Program, arguments: tuple) -> None:
    with pytest.raises(ef.EqfuseError):
        program(*arguments)


def test_a_keyword_that_the_function_does_not_have_is_refused(program: ef.Program) -> None:
    with pytest.raises(ef.EqfuseError, match="do not fit"):
        program(X, y=X)


def test_a_refused_call_leaves_the_program_usable(program: ef.Program) -> None:
    with pytest.raises(ef.ShapeError):
        program(X.astype(np.float64))
    np.testing.assert_allclose(program(X), f(X), rtol=1e-6)


@pytest.mark.parametrize("target", ["gpu", "cuda:", "cuda:h999", "cuda:cpu", "CUDA", "", "numpy ", None, 3])
def test_an_unknown_target_is_refused_and_the_known_ones_listed(target: Any) -> None:
    gpus = [f"cuda:{name}" for name, device in DEVICES.items() if device.kind == "gpu"]
    with pytest.raises(ef.TargetUnavailable) as refused:
        ef.compile(f, X, target=target)
    assert all(name in str(refused.value) for name in ("numpy", "cpu", "cuda", *gpus))


@pytest.mark.parametrize("extractor", ["ilp2", "", "Flow", None, ["flow"]])
def test_an_unknown_extractor_is_refused_and_the_known_ones_listed(extractor: Any) -> None:
    with pytest.raises(ef.TargetUnavailable) as refused:
        ef.compile(f, X, target="numpy", extractor=extractor)
    assert all(name in str(refused.value) for name in EXTRACTORS)


@pytest.mark.parametrize("laws", ["algebraic", ["algebra", "nonsense"], "", 3, None, [[]]])
def test_an_unknown_law_is_refused_and_the_families_listed(laws: Any) -> None:
    with pytest.raises(ef.LawError) as refused:
        ef.compile(f, X, target="numpy", laws=laws)
    assert all(name in str(refused.value) for name in FAMILIES)


@pytest.mark.parametrize("numerics", ["fast", "", None, ["strict"]])
def test_unknown_numerics_are_refused_and_the_known_ones_listed(numerics: Any) -> None:
    with pytest.raises(ef.EqfuseError) as refused:
        ef.compile(f, X, target="numpy", numerics=numerics)
    assert all(name in str(refused.value) for name in ("strict", "reassociate", "approximate"))


@pytest.mark.parametrize("limit", ["seconds", "bytes", "nodes", "rounds", "optimum"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "10", None, True, [3], 1j, X])
def test_a_budget_of_nonsense_is_refused_by_the_name_of_its_limit(limit: str, value: Any) -> None:
    if limit == "nodes" and value is None:
        assert ef.Budget(nodes=None).nodes is None
        return
    with pytest.raises(ValueError, match=f"(?s)Budget: {limit} is .*give a") as refused:
        ef.Budget(**{limit: value})
    assert isinstance(refused.value, ef.EqfuseError)


def test_a_budget_counts_in_whole_nodes_and_rounds() -> None:
    for limit in ("bytes", "nodes", "rounds"):
        with pytest.raises(ef.EqfuseError, match="whole number"):
            ef.Budget(**{limit: 2.5})
    assert ef.Budget(np.float32(1.5), np.int64(100), 0).nodes == 100


@pytest.mark.parametrize("budget", [5, 0, 1.5, "short", {"seconds": 1}, (), ef.Budget])
def test_what_is_no_budget_is_refused(budget: Any) -> None:
    graph = ef.trace(f, X)
    for use in (
        lambda: ef.compile(f, X, target="numpy", budget=budget), lambda: ef.jit(f, budget=budget)(X),
        lambda: ef.saturate(graph, budget=budget), lambda: ef.extract(ef.saturate(graph), "numpy", budget=budget),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"ef\.Budget") as refused:
            use()
        assert isinstance(refused.value, ef.EqfuseError)


@pytest.mark.parametrize("dtype", ["floaty", 3, [1], "f4,floaty", X, "(2", ef])
def test_a_dtype_that_is_none_is_refused_for_a_spec_and_where_arrays_are_made(dtype: Any) -> None:
    for use in (
        lambda: ef.spec((3,), dtype), lambda: ef.spec(("n", 3), dtype=dtype),
        *(partial(ef.trace, make, X) for make in (
            lambda x: x + np.zeros(4, dtype), lambda x: np.zeros_like(x, dtype), lambda x: x.astype(dtype),
            lambda x: np.array(x, dtype), lambda x: x.view(dtype),
        )),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"(?s)has dtype .*such as np\.float32") as refused:
            use()
        assert isinstance(refused.value, ef.EqfuseError)


@pytest.mark.parametrize("shape", [
    None, 1.5, (1.5,), (None, 3), (2, "a b"), "", -1, (3, -1), ((2, 3),), ("n", 2.0), X,
])  # fmt: skip
def test_a_spec_of_a_shape_that_is_none_is_refused(shape: Any) -> None:
    with pytest.raises(ef.ShapeError, match="extent"):
        ef.spec(shape)


@pytest.mark.parametrize("choice", [
    {"target": "gpu"}, {"target": None}, {"extractor": "ilp2"}, {"laws": "x"}, {"laws": [3]}, {"numerics": "fast"},
    {"numerics": None}, {"budget": 3}, {"memory_limit": -1}, {"memory_limit": "1 GB"}, {"dynamic": 3},
    {"static_argnames": 3}, {"static_argnames": ["n", 3]}, {"laws": ["product_of_powers"], "numerics": "strict"},
])  # fmt: skip
def test_jit_refuses_what_an_option_does_not_have_where_it_is_given(choice: dict[str, Any]) -> None:
    with pytest.raises(ef.EqfuseError, match=r"test_calls\.py"):
        ef.jit(**choice)


def test_jit_refuses_a_static_argument_that_is_no_parameter_where_it_is_given() -> None:
    with pytest.raises(ef.TraceError, match="no parameter 'n'"):
        ef.jit(f, static_argnames="n")


def test_jit_of_what_is_no_function_is_refused() -> None:
    with pytest.raises(ef.TraceError, match="jit takes a function, not 'cuda'"):
        ef.jit("cuda")  # type: ignore[call-overload]


def test_unknown_numerics_are_a_value_that_the_option_does_not_have() -> None:
    with pytest.raises(OptionError):
        ef.compile(f, X, numerics="fast")


@pytest.mark.parametrize("size", [20, 1_000_000])
@pytest.mark.parametrize("early", [
    lambda v: v.__iadd__(1), lambda v: v.__setitem__(slice(2, 9), 7), lambda v: v.sort(),
])  # fmt: skip
def test_after_an_error_in_a_call_arguments_changed_in_place_keep_their_old_values(early: Any, size: int) -> None:
    def program(v: Any, a: Any) -> Any:
        early(v)
        inverse = np.linalg.inv(a)
        v[0] = inverse[0, 0]
        return v.sum()

    v = np.arange(size, 0.0, -1)
    before = v.copy()
    with pytest.raises(np.linalg.LinAlgError):
        ef.jit(program)(v, np.zeros((3, 3)))
    np.testing.assert_array_equal(v, before)


@pytest.mark.parametrize("size", [3, 3_000_000])
def test_compiled_programs_neither_warn_of_floating_point_errors_nor_raise_them(size: int) -> None:
    x = np.zeros(size)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert np.isinf(ef.jit(lambda x: 1 / x)(x)).all()


class _NoArray:
    """As a torch tensor that needs a gradient."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise RuntimeError("call detach() first")


def test_what_does_not_become_an_array_is_refused(program: ef.Program) -> None:
    for call in (program, ef.jit(f)):
        with pytest.raises(ef.EqfuseError, match="argument 'x' is"):
            call(_NoArray())
    with pytest.raises(ef.EqfuseError, match=r"call detach\(\) first"):
        program(_NoArray())


@pytest.mark.parametrize("error", [ValueError, BufferError, TypeError, RuntimeError])
def test_what_is_on_no_device_is_refused_by_its_type(program: ef.Program, error: type[Exception]) -> None:
    class Nowhere:
        """As a torch tensor of the device "meta"."""

        def __dlpack_device__(self) -> tuple[int, int]:
            raise error("unknown device")

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise error("nothing to copy")

    with pytest.raises(ef.TraceError, match=r"argument 'x' is a .*Nowhere"):
        ef.jit(f, target="numpy")(Nowhere())
    with pytest.raises(ef.TraceError, match="argument 'x' is not an array"):
        program(Nowhere())


def test_parts_of_a_concatenation_that_do_not_fit_are_refused_where_one_is_empty_too() -> None:
    parts = np.ones((2, 0)), np.ones((3, 2))
    with pytest.raises(ValueError, match="must match exactly"):
        np.concatenate(parts, axis=1)
    with pytest.raises(ef.ShapeError):
        ef.trace(lambda a, b: np.concatenate((a, b), axis=1), *parts)


MADE = [
    lambda: np.mgrid[0:4.0], lambda: np.fft.fftfreq(4), lambda: np.unique([1.0, 2.0, 3.0, 4.0]),
    lambda: np.vander([1.0, 2.0, 3.0, 4.0])[:, 2],
]  # fmt: skip


def sets_an_element(k: Any, x: Any) -> None:
    k[0] = x.sum()


def sets_a_slice(k: Any, x: Any) -> None:
    k[:3] = x[0, :3]


def sets_where(k: Any, x: Any) -> None:
    k[k > 1] = x.max()


def adds(k: Any, x: Any) -> None:
    k += x.sum()


def copies(k: Any, x: Any) -> None:
    np.copyto(k, x[0])


def adds_in_places(k: Any, x: Any) -> None:
    np.add.at(k, [0, 0, 2], x[0, :3])


WRITES = [sets_an_element, sets_a_slice, sets_where, adds, copies, adds_in_places]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("write", WRITES)
def test_a_traced_value_in_an_array_of_plain_numbers_is_refused_with_what_to_write(write: Any, make: Any) -> None:
    def function(x: Any) -> Any:
        k = make()
        write(k, x)
        return k

    def mended(x: Any) -> Any:
        k = np.array(make())
        write(k, x)
        return k

    with pytest.raises(ef.TraceError, match=r"np\.array\(k\)") as caught:
        ef.trace(function, X)
    assert "test_calls.py" in str(caught.value.where) and "def " not in str(caught.value.where)
    np.testing.assert_allclose(ef.jit(mended, target="numpy")(X), function(X), rtol=1e-6)


@pytest.mark.parametrize("use, instead", [
    (lambda x: min(x[0]), "np.minimum"), (lambda x: max(x[0, 0], 2.0), "np.maximum"),
    (lambda x: sorted(x[0]), "np.sort"), (lambda x: x if any(x[0]) else -x, "np.any"),
    (lambda x: x * all(v > 0 for v in x[0]), "np.all"),
])  # fmt: skip
def test_pythons_functions_that_compare_are_refused_with_numpys_named(use: Any, instead: str) -> None:
    with pytest.raises(ef.TraceError, match=instead):
        ef.trace(use, X)


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_a_loop_of_no_steps_may_read_an_axis_of_extent_0(target: str) -> None:
    def total(x: Any) -> Any:
        return ef.fori_loop(0, x.shape[0], lambda i, s: s + x[i].sum() + np.take(x, -1 - i, 0).sum(), 1.0)

    assert ef.jit(total, target=target)(np.zeros((0, 3))) == 1.0


@pytest.mark.parametrize("call, words", [
    (lambda: ef.compile(None), "takes a function or a graph, not None"),
    (lambda: ef.compile(ef.trace(f, X), X), "no example arguments beside"),
    (lambda: ef.compile(f, X, verify="yes"), "verify is 'yes'"),
    (lambda: ef.Budget(seconds=10**400), "give a finite number"),
    (lambda: ef.jit(f, dynamic={"x": 3})(X), "give a shape, as in {'x': "),
    (lambda: ef.jit(f, static_argnames="x")([X]), "has no hash"),
])  # fmt: skip
def test_odd_options_are_refused_by_name(call: Any, words: str) -> None:
    with pytest.raises(ef.EqfuseError, match=re.escape(words)):
        call()


def test_a_space_is_not_pickled_but_saved() -> None:
    space = ef.saturate(ef.trace(np.exp, np.ones(3)))
    with pytest.raises(ef.EqfuseError, match=r"space\.save\(path\)"):
        pickle.dumps(space)
    assert copy.copy(space) is copy.deepcopy(space) is space


def test_what_is_no_array_at_all_is_refused_by_its_type() -> None:
    double = ef.jit(lambda x: x * 2)
    with pytest.raises(ef.TraceError, match=r"'x' is of type eqfuse\.[\w.]*Spec, not an array"):
        double(ef.spec((3,)))
    with pytest.raises(ef.TraceError, match="is of type object, not an array"):
        ef.trace(lambda x: x + object(), np.ones(3))


def test_a_program_is_not_pickled_but_saved_and_a_traced_function_calls_the_function_instead(program: Any) -> None:
    with pytest.raises(ef.EqfuseError, match=r"program\.save\(path\)"):
        pickle.dumps(program)
    for same in (copy.copy(program), copy.deepcopy(program)):
        np.testing.assert_array_equal(same(X), program(X))
    with pytest.raises(ef.TraceError, match=r"a compiled program cannot take: .* one of ef\.jit"):
        ef.trace(lambda x: program(x) + 1, X)


@pytest.mark.parametrize("kind", [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ef.EqfuseError)
])  # fmt: skip
def test_an_error_that_went_to_another_process_says_the_same(kind: Any) -> None:
    error = kind("said", 5) if kind is ef.MemoryLimitError else kind("said")
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is kind and str(same) == str(error) and same.where == error.where
        assert vars(same) == vars(error)
