"""Every way by which a dtype comes into a program, for all of NumPy's type codes: one dtype is one object inside.

NumPy has several objects for equal dtypes: long and long long, those with metadata, those of its own comparison loops.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.dtypes import TENSORS
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
CODES = [c for c in np.typecodes["All"] if c not in "gG" or np.dtype(c).itemsize > 16] + ["g", "G", "U3", "S3", "M8[s]"]
KNOWN = set(TENSORS)


def forms(code: str) -> Iterator[np.dtype]:
    """The dtype of that code in both byte orders, with metadata, and as it comes out of a file."""
    dtype = np.dtype(code)
    yield dtype
    yield dtype.newbyteorder("<")
    yield dtype.newbyteorder(">")
    yield np.dtype(dtype, metadata={"unit": "m"})  # type: ignore[call-overload]
    yield pickle.loads(pickle.dumps(dtype))


def beside(constant: Any) -> Callable[[Any], Any]:
    return lambda x: (x, np.where(x > 0, constant, constant), constant)


ENTRANCES: dict[str, Callable[[np.dtype], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "an argument": lambda d: (lambda x: (x, x[::-1]), (np.ones(3).astype(d),)),
    "an argument beside int64": lambda d: (lambda x, n: (x, n[::-1], n + n), (np.ones(3).astype(d), np.arange(3))),
    "a NumPy scalar": lambda d: (lambda s, x: (x * s, s), (np.ones((), d)[()], np.arange(3))),
    "a constant": lambda d: (beside(np.ones(3).astype(d)), (np.arange(3),)),
    "a scalar constant": lambda d: (beside(np.ones((), d)[()]), (np.arange(3),)),
    "astype": lambda d: (lambda x: (x.astype(d), x + 1), (np.arange(3),)),
    "np.astype": lambda d: (lambda x: np.astype(x, d), (np.arange(3),)),
    "view": lambda d: (lambda x: x.view(d), (np.arange(3).astype(np.dtype(d.char)),)),
    "np.zeros": lambda d: (lambda x: (np.zeros(3, d), np.ones((3,), d), np.empty(0, d), x), (np.arange(3),)),
    "np.full": lambda d: (lambda x: (np.full(3, 1, d), np.full_like(x, 1, d), np.zeros_like(x, d)), (np.arange(3),)),
    "np.array": lambda d: (lambda x: (np.array(x, d), np.asarray([1, 0], d), np.array(1, dtype=d)), (np.arange(3),)),
    "np.arange": lambda d: (lambda x: (np.arange(3, dtype=d), np.eye(2, dtype=d), x), (np.arange(3),)),
    "np.linspace": lambda d: (lambda x: np.linspace(x[0], x[1], 3, dtype=d), (np.arange(3),)),
    "np.sum": lambda d: (lambda x: (np.sum(x, dtype=d), np.cumsum(x, dtype=d)), (np.arange(3),)),
    "np.mean": lambda d: (lambda x: np.mean(x, dtype=d), (np.arange(3),)),
    "np.var": lambda d: (lambda x: np.var(x, dtype=d), (np.arange(3.0),)),
    "a ufunc's dtype=": lambda d: (lambda x: np.add(x, x, dtype=d), (np.arange(3),)),
    "out=": lambda d: (lambda x: np.add(x, x, out=np.zeros(3, d), casting="unsafe"), (np.arange(3),)),
    "np.concatenate": lambda d: (lambda x: np.concatenate([x, x], dtype=d, casting="unsafe"), (np.arange(3),)),
    "einsum": lambda d: (lambda x: np.einsum("i,i", x, x, dtype=d, casting="unsafe"), (np.arange(3),)),
    "another's dtype": lambda d: (lambda x, y: y.astype(x.dtype), (np.ones(3).astype(d), np.arange(3))),
}


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except Exception as error:
        return error


def leaves(result: Any) -> list[np.ndarray]:
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def strangers(graph: ef.Graph) -> list[Any]:
    """The dtypes in `graph` that are not the very objects of `TENSORS`."""
    met = [n.type.dtype for n in (*graph.inputs, *graph.nodes)]
    attrs = [a for n in graph.nodes for a in n.attrs]
    met += [a for a in attrs if isinstance(a, np.dtype)] + [a.array.dtype for a in attrs if isinstance(a, Literal)]
    return [d for d in met if not any(d is known for known in TENSORS)]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_dtype_is_taken_as_numpy_takes_it_or_refused_by_name(entrance: str) -> None:
    for code in CODES:
        for dtype in forms(code):
            call = outcome(ENTRANCES[entrance], dtype)
            if isinstance(call, Exception):
                continue  # there are no such arguments
            function, args = call
            wanted, graph = outcome(function, *args), outcome(ef.trace, function, *args)
            if isinstance(graph, Exception):
                refused = isinstance(graph, ef.EqfuseError) and ("dtype" in str(graph) or dtype.name in str(graph))
                needless = not isinstance(wanted, Exception) and dtype in KNOWN
                assert (refused or type(graph) is type(wanted)) and not needless, (dtype, graph, wanted)
                continue
            assert not isinstance(wanted, Exception), (dtype, wanted)
            assert not strangers(graph), dtype
            for g, w in zip(leaves(ef.meaning(graph, *args)), leaves(wanted), strict=True):
                assert g.dtype == w.dtype and g.tobytes() == w.tobytes(), (dtype, g, w)


@pytest.mark.parametrize("code", CODES)
def test_a_spec_of_every_dtype_is_one_of_the_tensors_or_refused(code: str) -> None:
    for dtype in forms(code):
        if dtype in KNOWN:
            assert any(ef.spec((2,), dtype).dtype is known for known in TENSORS)
            assert any(ef.spec(("n",), dtype).dtype is known for known in TENSORS)
        else:
            with pytest.raises(ef.EqfuseError, match="dtype"):
                ef.spec((2,), dtype)


def test_no_tensor_has_a_dtype_that_eqfuse_does_not_know() -> None:
    for dtype in (np.dtype(object), np.dtype(">f4"), np.dtype("U3"), np.dtype(np.longdouble)):
        with pytest.raises(ef.TraceError, match="a tensor has dtype"):
            TensorType(dtype, ())
    assert TensorType(np.dtype(np.longlong), ()).dtype is np.dtype(np.int64)


def test_one_program_may_meet_both_objects_of_int64() -> None:
    """NumPy's loop that compares uint64 with signed integers is one of long long."""
    u, s, q = np.arange(3, dtype=np.uint64), np.arange(3, dtype=np.int32) - 1, np.arange(3, dtype=np.longlong)

    def f(u: Any, s: Any, q: Any) -> Any:
        return u < s, u >= s, s.astype(np.int64), np.sort(s.astype(np.longlong)), q + s, s.sum(dtype="q"), np.sort(q)

    for g, w in zip(ef.jit(f)(u, s, q), f(u, s, q), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("dtype", ["b", "i", "l", "q"])
def test_uint64_is_compared_with_signed_integers_exactly_on_every_target(dtype: str) -> None:
    u = np.array([0, 1, 5, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    s = np.array([-1, 0, 1, 5, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)

    def f(u: Any, s: Any, ops: Any = COMPARISONS) -> list[Any]:
        return [op(*pair) for op in ops for pair in ((u[:, None], s), (s[:, None], u), (u, s[0]), (s, u[3]))]

    graph = ef.trace(f, u, s)
    for op in graph.operators:
        assert len({a.dtype for a in op.args}) == 1, op
    some = COMPARISONS["bilq".index(dtype) % 2 :: 2]
    for result, ops in ((ef.meaning(graph, u, s), COMPARISONS), (ef.jit(lambda u, s: f(u, s, some))(u, s), some)):
        for g, w in zip(result, f(u, s, ops), strict=True):
            np.testing.assert_array_equal(g, w)


def test_arrays_of_equal_dtypes_share_a_program() -> None:
    f = ef.jit(lambda x: x * 2)
    for dtype in forms("l"):
        if dtype.isnative:
            np.testing.assert_array_equal(f(np.arange(3, dtype=dtype)), [0, 2, 4])
    np.testing.assert_array_equal(f(np.arange(3, dtype=np.longlong)), [0, 2, 4])
    assert "1 program" in repr(f)


BROKEN = (
    "eqfuse.frontends.numpy.tidy:cast", "eqfuse.compiler:saturated", "eqfuse.compiler:chosen_plan",
    "eqfuse.compiler:emit", "eqfuse.frontends.numpy.tracer:Tracer.assign", "eqfuse.emit.numpy.executable:emit_kernel",
    "eqfuse.frontends.numpy.trace:tree_leaves", "eqfuse.frontends.numpy.trace:Graph",
    "eqfuse.frontends.numpy.outside:reached_from", "eqfuse.runtime.disk_cache:keep_plan",
)  # fmt: skip


@pytest.mark.parametrize("place", BROKEN)
def test_an_error_inside_one_trace_leaves_the_next_as_it_was(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(4, dtype=np.uint64), np.arange(4) - 2
    constant = BROKEN.index(place) + 1000  # a program that no cache holds

    def f(x: Any, y: Any) -> Any:
        z = np.zeros(4, np.int64)
        z[1:] = y[1:] + constant
        return (x < y) + z, np.sort(z)

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("broken")

    plain, wanted = dict(vars(np)), f(x, y)
    with monkeypatch.context() as broken, pytest.raises(AssertionError, match="broken"):
        owner, _, name = place.replace(":", ":.").rpartition(".")
        broken.setattr(resolve_name(owner.replace(":.", ":")), name, fail)
        ef.jit(f)(x, y)
    assert dict(vars(np)) == plain
    for again in (f, ef.jit(f)):
        for g, w in zip(again(x, y), wanted, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g, w)
