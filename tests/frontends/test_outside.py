"""What lies outside of a traced function stays as it was, or the trace is refused by the name of what it would change.

Caches that the function fills hold real arrays afterwards; nothing else is left behind.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.arange(3.0)
STEP = 0
TABLE = np.array([1.0, 2.0, 3.0])
LAZY: Any = None
KEPT: list[Any] = []
BY_NAME: dict[str, Any] = {}
RECENT: deque[Any] = deque([0])
NAMES: set[Any] = set()
STATE = types.SimpleNamespace(count=0)
COUNT = itertools.count()


@functools.lru_cache
def window(n: int) -> Any:
    return np.hanning(n) + np.arange(n)


def table(n: int) -> Any:
    if str(n) not in BY_NAME:
        BY_NAME[str(n)] = np.linspace(0, 1, n) * 2
    return BY_NAME[str(n)]


class Layer:
    calls = 0

    def __init__(self) -> None:
        self.count, self.w, self.inner = 0, np.ones(3), types.SimpleNamespace(h=0.0)
        self.lazy: Any = None
        self.rng = np.random.default_rng(0)

    @functools.cached_property
    def mask(self) -> Any:
        return np.arange(3) > 0

    @functools.cache  # noqa: B019
    def spread(self, n: int) -> Any:
        return np.ones(n) / n

    def counts(self, x: Any) -> Any:
        self.count += 1
        return x + 1

    def keeps_a_constant(self, x: Any) -> Any:
        self.cache = np.zeros(3)
        return x + self.cache

    def keeps_what_it_computes(self, x: Any) -> Any:
        self.h = x * 2
        return self.h

    def keeps_deep_inside(self, x: Any) -> Any:
        self.inner.h = x.sum()
        return x

    def changes_its_array(self, x: Any) -> Any:
        self.w[0] = 5
        return x * self.w

    def changes_the_class(self, x: Any) -> Any:
        Layer.calls += 1
        return x

    def fills_caches(self, x: Any) -> Any:
        if self.lazy is None:
            self.lazy = [np.arange(3.0) * 2, (np.eye(3)[1], "text"), {"a": np.float64(2.0)}]
        return x * self.lazy[0] + self.lazy[1][0] + self.mask + self.spread(3) + self.lazy[2]["a"]


class Slotted:
    __slots__ = ("n", "unset")

    def __init__(self) -> None:
        self.n = 0


LAYER, SLOTTED = Layer(), Slotted()


def sets_a_global(x: Any) -> Any:
    global STEP
    STEP += 1
    return x + STEP


def sets_a_global_array(x: Any) -> Any:
    global TABLE
    TABLE = TABLE * 2
    return x + TABLE


def writes_into_a_global_array(x: Any) -> Any:
    global TABLE
    TABLE += 1
    return x + TABLE


def sorts_a_global_array(x: Any) -> Any:
    TABLE.sort()
    return x + TABLE


def changes_a_view_of_a_global_array(x: Any) -> Any:
    part = TABLE[1:]
    part[...] = part + 5
    return x + TABLE


def fills_a_global(x: Any) -> Any:
    global LAZY
    if LAZY is None:
        LAZY = np.arange(3.0) ** 2
    return x * LAZY


def appends(x: Any) -> Any:
    KEPT.append(len(x))
    return x


def appends_what_it_computes(x: Any) -> Any:
    KEPT.append(x * 2)
    return x


def stores_by_name(x: Any) -> Any:
    BY_NAME["x"] = x
    return x


def counts_by_name(x: Any) -> Any:
    BY_NAME["n"] = BY_NAME.get("n", 0) + 1
    return x


def remembers_the_last(x: Any) -> Any:
    RECENT[0] = x.shape
    return x


def adds_a_new_name(x: Any) -> Any:
    NAMES.add(len(NAMES))
    return x


def counts_in_a_namespace(x: Any) -> Any:
    STATE.count += 1
    return x


def counts_in_slots(x: Any) -> Any:
    SLOTTED.n += 1
    return x


def counts_itself(x: Any) -> Any:
    counts_itself.calls += 1  # type: ignore[attr-defined]
    return x


counts_itself.calls = 0  # type: ignore[attr-defined]


def has_a_default(x: Any, seen: Any = []) -> Any:  # noqa: B006
    seen.append(x)
    return x


def keeps_a_function(x: Any) -> Any:
    y = x + 1
    KEPT.append(lambda: y)
    return y


def keeps_a_generator(x: Any) -> Any:
    def rows() -> Iterator[Any]:
        yield from (x, x)

    iterator = rows()
    next(iterator)
    BY_NAME["rows"] = iterator
    return x


def nonlocal_counter() -> Callable[..., Any]:
    n = 0

    def counts(x: Any) -> Any:
        nonlocal n
        n += 1
        return x + n

    return counts


def takes_the_next(x: Any) -> Any:
    return x + next(COUNT)


REFUSED = [
    (takes_the_next, "next element of a count"),
    (sorts_a_global_array, "made outside"), (changes_a_view_of_a_global_array, "TABLE"),
    (sets_a_global, "STEP"), (sets_a_global_array, "TABLE"), (writes_into_a_global_array, "made outside"), (appends,
    "KEPT"),
    (appends_what_it_computes, "KEPT"), (stores_by_name, "BY_NAME"), (counts_by_name, "BY_NAME"),
    (remembers_the_last, "RECENT"), (adds_a_new_name, "NAMES"), (counts_in_a_namespace, "STATE.count"),
    (counts_in_slots, "SLOTTED.n"), (counts_itself, "calls"), (has_a_default, "default"),
    (keeps_a_function, "KEPT|kept"), (keeps_a_generator, "BY_NAME|kept"), (nonlocal_counter(), r"changes n\b"),
    (LAYER.counts, "self.count"), (LAYER.keeps_a_constant, "self.cache"), (LAYER.keeps_what_it_computes, "self.h"),
    (LAYER.keeps_deep_inside, "self.inner.h"), (LAYER.changes_its_array, "self.w"),
    (LAYER.changes_the_class, "Layer.calls"), (lambda x: LAYER.counts(x), "LAYER.count"),
]  # fmt: skip


def state() -> list[str]:
    """All of it, as text."""
    layer = {k: v for k, v in vars(LAYER).items() if k not in ("inner", "rng")}
    return list(map(repr, (
        STEP, TABLE, LAZY, KEPT, BY_NAME, RECENT, NAMES, STATE, SLOTTED.n, counts_itself.calls, layer, LAYER.inner,
         # type: ignore[attr-defined]
        LAYER.rng.bit_generator.state, Layer.calls, has_a_default.__defaults__,
    )))  # fmt: skip


@pytest.mark.parametrize(("fn", "name"), REFUSED, ids=lambda v: getattr(v, "__name__", ""))
def test_what_a_call_would_change_outside_is_refused_by_name_and_left_as_it_was(fn: Any, name: str) -> None:
    before, table = state(), TABLE
    for run in (ef.jit(fn), lambda x: ef.trace(fn, x)):
        with pytest.raises(ef.TraceError, match=name) as caught:
            run(X)
        assert "test_outside.py" in str(caught.value)
    assert state() == before
    assert TABLE is table
    assert type(fn(X)) is np.ndarray  # plain NumPy goes on as ever
    assert ef.jit(lambda x: x + 1)(X)[0] == 1


def test_the_line_that_stores_is_named() -> None:
    with pytest.raises(ef.TraceError, match=r"STEP \+= 1"):
        ef.jit(sets_a_global)(X)
    with pytest.raises(ef.TraceError, match=r"self\.h = x"):
        ef.jit(LAYER.keeps_what_it_computes)(X)
    with pytest.raises(ef.TraceError, match=r"self\.count \+= 1"):
        ef.jit(Layer.counts, static_argnames="self")(LAYER, X)


def arrays_in(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple, dict)):
        return [a for child in (tree.values() if isinstance(tree, dict) else tree) for a in arrays_in(child)]
    return [tree] if isinstance(tree, (np.ndarray, np.generic)) else []


def test_caches_that_a_function_fills_hold_real_arrays_afterwards() -> None:
    global LAZY
    LAZY = None
    BY_NAME.clear()
    window.cache_clear()
    layer = Layer()

    def fills(x: Any) -> Any:
        return fills_a_global(x) + window(3) * table(3) + layer.fills_caches(x) + window(3)[x.astype(int)]

    got = ef.jit(fills)(X)
    kept = arrays_in([LAZY, BY_NAME, layer.lazy, layer.mask, layer.spread(3), window(3)])
    assert len(kept) == 8
    assert {type(a) for a in kept} == {np.ndarray, np.float64}
    assert all(a.flags.writeable for a in kept if a.ndim)
    np.testing.assert_allclose(got, fills(X))
    assert window.cache_info().hits > 0
    np.testing.assert_allclose(ef.jit(fills)(2 * X[:2].repeat(2)[:3]), fills(2 * X[:2].repeat(2)[:3]))


def test_views_that_are_kept_share_memory_as_they_do_in_numpy() -> None:
    cache: dict[str, Any] = {}

    def fills(x: Any) -> Any:
        if not cache:
            whole = np.zeros((2, 3), order="F")
            cache["whole"], cache["row"] = whole, whole[1]
            whole[0] = 4
        return x + cache["row"]

    ef.jit(fills)(X)
    cache["row"][...] = 7
    np.testing.assert_array_equal(cache["whole"], [[4, 4, 4], [7, 7, 7]])
    assert cache["whole"].flags.f_contiguous


def test_a_cache_by_a_traced_value_is_refused() -> None:
    with pytest.raises(ef.TraceError, match="window remembers"):
        ef.jit(lambda x, n: x + window(n))(X, 3)


def test_a_cache_made_inside_is_the_functions_own() -> None:
    def fibonacci(x: Any) -> Any:
        @functools.cache
        def term(i: int) -> Any:
            return x if i < 2 else term(i - 1) + term(i - 2)

        return term(10)

    np.testing.assert_allclose(ef.jit(fibonacci)(X), fibonacci(X))


def test_objects_made_inside_may_be_changed() -> None:
    def makes(x: Any) -> Any:
        layer = Layer()
        seen = [x]
        layer.h = x * 2
        seen.append(layer.h)
        layer.inner.h = seen
        return layer.inner.h[1] + layer.w

    np.testing.assert_allclose(ef.jit(makes)(X), makes(X))


def test_an_error_of_the_function_leaves_what_lies_outside_as_it_was() -> None:
    def fails(x: Any) -> Any:
        KEPT.append(x)
        LAYER.h = x
        raise KeyError("inside")

    before = state()
    with pytest.raises(KeyError, match="inside"):
        ef.jit(fails)(X)
    assert state() == before
