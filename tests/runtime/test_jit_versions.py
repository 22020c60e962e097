"""`ef.jit` keeps a bounded number of programs and says what keeps changing; `dynamic=` shares plans between sizes."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.numpy import kernels as emitted
from eqfuse.specialise.jit import CALLS_KEPT, KEPT_SIZES, MANY_PROGRAMS
from eqfuse.specialise.versions import Version, Versions

RNG = np.random.default_rng(0)
FEW = 4
QUICK: dict[str, Any] = {"budget": ef.Budget(nodes=300, rounds=4)}


def warned(run: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run()
    return told


def scale(x: Any, gain: Any = 2.0) -> Any:
    return x * gain + 1


def centred(x: Any) -> Any:
    return x - x.mean(0)


# ---- without dynamic


@pytest.mark.slow
def test_no_warning_up_to_the_limit_and_one_beyond_it() -> None:
    f = ef.jit(lambda x: x + 1, **QUICK)

    def run(sizes: range) -> None:
        for n in sizes:
            np.testing.assert_array_equal(f(np.ones(n)), np.full(n, 2.0))

    assert not warned(lambda: run(range(MANY_PROGRAMS)))
    (warning,) = warned(lambda: run(range(MANY_PROGRAMS, CALLS_KEPT + MANY_PROGRAMS)))
    assert "the extent of 'x' along axis 0 (" in str(warning.message)
    assert "dynamic=True" in str(warning.message) and "dynamic={'x': ('n',)}" in str(warning.message)
    assert warning.filename == __file__
    assert len(f._versions) == CALLS_KEPT == len(f._by_arrays)


def test_the_axis_that_changes_is_named_among_those_that_do_not() -> None:
    f = ef.jit(lambda x, w, b: x @ w + b, **QUICK)

    def run() -> None:
        for n in range(2, 12):
            f(np.ones((3, 4)), w=np.ones((4, n)), b=np.ones(n) if n % 2 else np.ones(1))

    (warning,) = warned(run)
    assert "'w' along axis 1" in str(warning.message) and "{'w': (None, 'n')}" in str(warning.message)


def test_a_static_argument_that_changes_is_named() -> None:
    f = ef.jit(lambda x, power: x**power, static_argnames="power", **QUICK)
    (warning,) = warned(lambda: [f(np.ones(3), power) for power in range(10)])
    assert "the static argument 'power' keeps changing" in str(warning.message)
    assert "dynamic" not in str(warning.message)


def test_arguments_that_nest_differently_each_time_are_named() -> None:
    f = ef.jit(lambda xs: sum(xs[1:], xs[0]), **QUICK)
    (warning,) = warned(lambda: [f([np.ones(3)] * n) for n in range(1, 11)])
    assert "the nesting of the arguments keeps changing" in str(warning.message)


def test_the_least_recently_used_program_goes_first() -> None:
    f = ef.jit(scale, **QUICK)
    f._versions.limit = FEW
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = [f.program(np.ones(n)) for n in range(FEW)]
        f(np.ones(0))
        f(np.ones(FEW))
        assert f.program(np.ones(0)) is programs[0]
        assert f.program(np.ones(1)) is not programs[1]


def test_a_dropped_program_is_freed() -> None:
    f = ef.jit(scale, **QUICK)
    f._versions.limit = FEW
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(np.ones(1000))
        gone = weakref.ref(f.program(np.ones(1000)))
        for n in range(1, FEW + 1):
            f(np.ones(n))
    gc.collect()
    assert gone() is None


def test_kernels_that_programs_share_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitted, "KERNELS_KEPT", 5)
    monkeypatch.setattr(emitted, "_emitted", {})  # else there may be none that is new, and nothing is looked at
    f = ef.jit(scale, dynamic=True, **QUICK)
    for n in range(20):
        f(np.ones(n))
    assert len(emitted._emitted) == 5


def test_versions_are_dropped_in_the_order_of_last_use() -> None:
    kept = Versions(2)
    a, b, c = (Version(name, None, "") for name in "abc")
    assert kept.keep("a", a) is None and kept.keep("b", b) is None
    assert kept.get("a") is a
    assert kept.keep("c", c) is b
    assert kept.get("b") is None and kept.get("a") is a and len(kept) == 2


@pytest.mark.slow
def test_threads_over_more_sizes_than_are_kept_get_numpys_answers() -> None:
    f = ef.jit(centred, **QUICK)
    f._versions.limit = FEW
    g = ef.jit(centred, dynamic=True, **QUICK)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for n in rng.integers(1, 14, 20):
                x = rng.random((n, 3))
                np.testing.assert_allclose(f(x), centred(x), atol=1e-12)
                np.testing.assert_allclose(g(x=x), centred(x), atol=1e-12)
        except BaseException as error:
            failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            sys.setswitchinterval(interval)
    assert not failures
    assert len(f._versions) <= FEW and len(f._by_arrays) <= FEW


# ---- with dynamic


def families(f: Any) -> list[Any]:
    return [family for group in f._groups for family in group.program._families]


def test_extents_that_change_become_symbols_by_themselves() -> None:
    f = ef.jit(lambda x, w: (x - x.mean(0)) @ w, dynamic=True, **QUICK)
    w = RNG.random((4, 3))

    def run() -> None:
        for n in (100, 120, 7, 1, 50, 300, 64, 3, 9, 10, 11):
            x = RNG.random((n, 4))
            np.testing.assert_allclose(f(x, w), (x - x.mean(0)) @ w, atol=1e-12)

    assert not warned(run)
    (family,) = families(f)
    assert str(family.pattern) == "n = x.shape[0]"
    assert family.transferred == 10 and family.anew == 0
    assert [p.sizes for p in family.plans] == [(100,)]
    assert "n = x.shape[0]" in repr(f)


def test_extents_that_change_together_are_one_symbol_until_they_do_not() -> None:
    f = ef.jit(lambda x, y: x * y, dynamic=True, **QUICK)
    for n, m in ((100, 100), (70, 70), (60, 60)):
        f(np.ones((n, 2)), np.ones((m, 2)))
    assert [str(p.pattern) for p in families(f)] == ["n = x.shape[0] = y.shape[0]"]
    for n, m in ((5, 1), (1, 6), (7, 7)):
        np.testing.assert_array_equal(f(np.ones((n, 2)), np.ones((m, 2))), np.ones((max(n, m), 2)))
    assert [str(p.pattern) for p in families(f)] == ["n = x.shape[0], m = y.shape[0]"]


def test_a_call_that_fails_teaches_nothing() -> None:
    f = ef.jit(lambda x, y: x + y, dynamic=True, **QUICK)
    f(np.ones(4), np.ones(4))
    with pytest.raises(ef.ShapeError):
        f(np.ones(5), np.ones(6))
    f(np.ones(7), np.ones(7))
    assert [str(p.pattern) for p in families(f)] == ["n = x.shape[0] = y.shape[0]"]


def test_named_extents_are_symbols_from_the_first_call_on() -> None:
    f = ef.jit(scale, dynamic={"x": ("n", None)}, **QUICK)
    for n, k in ((100, 3), (20, 3), (9, 3), (9, 5)):
        np.testing.assert_array_equal(f(np.ones((n, k))), scale(np.ones((n, k))))
    assert [str(p.pattern.specs[0]) for p in families(f)] == ["float64[n, 3]", "float64[n, 5]"]


def test_parts_of_containers_are_named_as_they_are_written() -> None:
    f = ef.jit(
        lambda batch: batch["x"] * batch["y"][0], dynamic={"batch['x']": ("n",), "batch['y'][0]": ("n",)}, **QUICK
    )
    for n in (50, 4, 5):
        f({"x": np.ones(n), "y": [np.ones(n)]})
    assert [str(p.pattern) for p in families(f)] == ["n = batch['x'].shape[0] = batch['y'][0].shape[0]"]


def test_dtypes_numbers_and_statics_have_plans_of_their_own() -> None:
    f = ef.jit(lambda x, gain, power: (x * gain) ** power, dynamic=True, static_argnames="power", **QUICK)
    for n in (50, 6, 7):
        for dtype in (np.float32, np.float64):
            for power in (2, 3):
                got = f(np.full(n, 2, dtype), 0.5 if power == 2 else 1, power)
                assert got.dtype == dtype and got.shape == (n,) and (got == 1 if power == 2 else got == 8).all()
    assert len(families(f)) == 4
    assert all(family.transferred == 2 for family in families(f))


def test_a_dynamic_function_keeps_a_bounded_number_of_sizes_without_a_word() -> None:
    f = ef.jit(scale, dynamic=True, **QUICK)
    assert not warned(lambda: [f(np.ones(n)) for n in range(KEPT_SIZES + 20)])
    assert len(f._versions) == KEPT_SIZES == len(f._by_arrays)


@pytest.mark.slow
def test_a_dynamic_function_whose_plan_depends_on_the_size_warns_with_the_reason() -> None:
    def rows(x: Any) -> Any:
        return sum((x[i] for i in range(1, len(x))), x[0])

    f = ef.jit(rows, dynamic=True, **QUICK)
    (warning,) = warned(lambda: [f(np.ones((n, 2))) for n in range(1, 11)])
    assert "compiled anew for every size of n = x.shape[0], because the function computes" in str(warning.message)


def test_the_report_of_a_size_says_where_its_plan_came_from() -> None:
    f = ef.jit(centred, dynamic=True, **QUICK)
    for n in (100, 110, 90):
        f(np.ones((n, 3)))
    assert f.program(np.ones((90, 3))).report.sizes.startswith("n = 90, transferred from n = 100: ")
    assert "Sizes: n = 90, transferred from n = 100" in str(f.program(np.ones((90, 3))).explain())


def test_a_jitted_method_may_be_dynamic() -> None:
    class Model:
        gain = 3.0

        @ef.jit(static_argnames="self", dynamic={"x": ("n",)}, **QUICK)
        def __call__(self, x: Any) -> Any:
            return x * self.gain

    model = Model()
    for n in (50, 3, 4):
        np.testing.assert_array_equal(model(np.ones(n)), np.full(n, 3.0))


@ef.jit
def doubled(x: np.ndarray) -> np.ndarray:
    return 2 * x


def test_a_jitted_function_is_pickled_and_copied_by_name_as_functions_are() -> None:
    assert copy.copy(doubled) is doubled and copy.deepcopy(doubled) is doubled
    name = pickle.dumps(doubled)
    assert b"doubled" in name and len(name) < 200
    with pytest.raises((pickle.PicklingError, AttributeError)):  # no name leads to it
        pickle.dumps(ef.jit(lambda x: 2 * x))
