"""What shares memory in NumPy does so in a trace, and nothing else does, however the arguments lie in memory.

Every use of every function: what it gives is written to, and what it was given; then both are looked at. A trace may
refuse, by a message about the layout, where it does not know how NumPy laid out a computed array.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.pytree import tree_leaves
from tests.frontends import memory_cases, numpy_cases, numpy_library_cases
from tests.frontends.numpy_cases import Case
from tests.support.some import some

CASES = {
    **numpy_cases.MOVES, **numpy_cases.LIKE, **numpy_cases.NUMBERS, **numpy_library_cases.PLACES,
    **numpy_library_cases.NUMBERS, **{f"{name} (memory)": cases for name, cases in memory_cases.COPIES.items()},
}  # fmt: skip
LAYOUTS: dict[str, Case] = {
    "C order": lambda a: a.copy(),
    "Fortran order": lambda a: a.copy("F"),
    "every other row": lambda a: a.repeat(2, 0)[::2],
    "every other column": lambda a: a.repeat(2, -1)[..., ::2],
    "rows reversed": lambda a: a[::-1].copy()[::-1],
    "columns first, with gaps": lambda a: a.repeat(2, 0).copy("F")[::2],
}
REASONS = (
    "how NumPy laid out", "lies in memory is not known", "cannot be traced", "depend on data", "depends on data",
    "traced value",
)  # fmt: skip
REFUSALS = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, OverflowError, ZeroDivisionError, AttributeError)


def arrays_of(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree)[0] if isinstance(leaf, np.ndarray)]


def written(array: Any) -> bool:
    """Whether the array let itself be written to."""
    try:
        array[...] = 1
    except (ValueError, ef.TraceError) as refusal:
        if "read-only" not in str(refusal):
            raise
        return False
    return True


def result_is_written(f: Case, x: Any) -> Any:
    results = arrays_of(f(x))
    return results, [written(array) for array in results]


def argument_is_written(f: Case, x: Any) -> Any:
    results = arrays_of(f(x))
    x[...] = 1
    return results, []


def result_is_reshaped_and_written(f: Case, x: Any) -> Any:
    results = arrays_of(f(x))
    return results, [written(array.reshape(-1)[:1]) for array in results]


def result_is_read_as_it_lies(f: Case, x: Any) -> Any:
    return [array.ravel("K") for array in arrays_of(f(x))], []


USES = (result_is_written, argument_is_written, result_is_reshaped_and_written, result_is_read_as_it_lies)


def traced(program: Callable[..., Any], x: np.ndarray) -> Any:
    """As a call of the compiled program does it: `x` is changed."""
    graph = ef.trace(program, x)
    signature: Any = graph.signature
    fed = signature.feed([x])
    return signature.rebuild(signature.settle(fed, evaluate(graph, [a.copy() for a in fed.arrays])))


def outcome(use: Callable[..., Any], f: Case, x: np.ndarray, lay: Case) -> str:
    """"agrees", "refused", or "NumPy refuses"; AssertionError where the trace does anything else than NumPy."""
    given, changed = lay(x), lay(x)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted, wrote = use(f, given)
        except REFUSALS:
            return "NumPy refuses"
        try:
            got, writes = traced(lambda x: use(f, x), changed)
        except EqfuseError as refusal:
            assert any(reason in str(refusal) for reason in REASONS), refusal
            return "refused"
    if writes != wrote:
        assert [w and not t for w, t in zip(wrote, writes, strict=True) if w != t], "written where NumPy refuses"
        return "refused"
    for w, g in zip([*wanted, given], [*got, changed], strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
    return "agrees"


X = np.array([[-1.5, 2, 1, 0.5], [2, 0.5, -2, 3], [1, -0.5, 0, 1]])
ARRAYS = {
    "rank 2": X, "integers": (2 * X).astype(np.int32), "rank 3": np.stack([X, X + 1]), "complex": X + 1j * X[::-1],
}  # fmt: skip
FEW = ("C order", "columns first, with gaps")  # of other dtypes: which of them views are is not in where they lie


def sharing(name: str, x: np.ndarray, layouts: Iterable[str]) -> list[str]:
    return [outcome(use, f, x, LAYOUTS[lay]) for f in CASES[name] for lay in layouts for use in USES]


@pytest.mark.parametrize("name", some(CASES, 2))
def test_what_a_function_gives_shares_the_memory_that_it_does_in_numpy(name: str) -> None:
    """Of arrays in C order, and in one of two others by turns."""
    others = ("Fortran order", "every other column")
    answers = sharing(name, X, ("C order", others[list(CASES).index(name) % 2]))
    assert answers.count("refused") <= len(answers) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name, kind", list(product(CASES, ARRAYS))[::9])
def test_so_does_what_it_gives_of_arrays_of_every_kind_and_layout(name: str, kind: str) -> None:
    sharing(name, ARRAYS[kind], LAYOUTS if kind.startswith("rank") else FEW)


@pytest.mark.parametrize("requirements", ["fortran", ["FOO"], ["C", "columns"]])
def test_what_numpy_does_not_know_as_a_requirement_is_refused_by_its_name(requirements: Any) -> None:
    with pytest.raises(KeyError) as wanted:
        np.require(np.ones((2, 3)), requirements=requirements)
    with pytest.raises(ef.TraceError, match=f"no requirement {wanted.value}"):
        ef.trace(lambda x: np.require(x, requirements=requirements), ef.spec((2, 3), "f8"))


@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
@settings(max_examples=60)
def test_what_is_read_after_many_writes_is_the_last_that_was_written(seed: int, writes: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 4, 3)[: rng.integers(1, 4)]

    def along(n: int) -> int | slice:
        one = int(rng.integers(-n, n))
        return one if rng.random() < 0.5 else slice(*sorted(rng.integers(0, n + 1, 2)), rng.integers(1, 3))

    def somewhere() -> tuple[int | slice, ...]:
        return tuple([along(n) for n in shape])

    turns = [(somewhere(), somewhere()) for _ in range(writes)]

    def f(x: Any) -> Any:
        a, seen = x.copy(), []
        for i, (written, read) in enumerate(turns):
            a[written] = x[written] * 0 + i
            seen.append(a[read].sum())
        return a, seen

    x = np.arange(float(np.prod(shape))).reshape(shape)
    got, wanted = ef.meaning(ef.trace(f, x), x), f(x)
    for g, w in zip((got[0], *got[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_array_equal(g, w)
