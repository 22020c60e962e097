"""Containers and callables as people nest them, as arguments and as results of `ef.jit` and `ef.compile`."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.pytree import paths, tree_leaves, unflatten

X = np.arange(6.0).reshape(2, 3)


@dataclass
class Plain:
    w: Any
    b: Any = None


@dataclass(frozen=True)
class Frozen:
    w: Any
    name: str = "f"


@dataclass(slots=True)
class Slots:
    w: Any
    inner: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    w: Any
    layers: list


@dataclass
class Scaled:
    """`__post_init__` changes what it was given, and derives a field: neither may happen again."""

    w: Any
    total: Any = field(init=False)

    def __post_init__(self) -> None:
        self.w = self.w * 2
        self.total = self.w.sum()


class Pair(NamedTuple):
    a: Any
    b: Any = None


class Doubled(NamedTuple("Doubled", [("a", Any)])):
    def twice(self) -> Any:
        return self.a * 2


Point = namedtuple("Point", "x y")

CONTAINERS = [
    Plain(X, None), Frozen(X, "g"), Slots(X, Plain(X)), Everything(w=X, layers=[Slots(X), Frozen(X)]), Scaled(X),
    Pair(X, None), Doubled(X), Point(X, [X]), OrderedDict(b=X, a=(X, None)), defaultdict(list, k=X, j=[X]),
    {"a": {"b": (X, [X, {"c": X}])}, 3: X}, [], (), {"e": None}, [Pair(Plain(X), Frozen(X))],
]  # fmt: skip


@pytest.mark.parametrize("tree", CONTAINERS, ids=lambda t: type(t).__name__)
def test_a_container_comes_back_as_it_was(tree: Any) -> None:
    leaves, structure = tree_leaves(tree)
    back = unflatten(structure, leaves)
    assert type(back) is type(tree)
    again, same = tree_leaves(back)
    assert same == structure and hash(same) == hash(structure)
    assert all(a is b for a, b in zip(leaves, again, strict=True))
    assert len(set(paths(structure, "t"))) == len(leaves)


@pytest.mark.parametrize("tree", CONTAINERS, ids=lambda t: type(t).__name__)
def test_a_container_is_an_argument_and_a_result(tree: Any) -> None:
    f = ef.jit(lambda t, s: (t, tree_leaves(t)[0][-1] + s if tree_leaves(t)[0] else s * 1))
    back, _ = f(tree, 1.0)
    assert tree_leaves(back)[1] == tree_leaves(tree)[1]
    for a, b in zip(tree_leaves(back)[0], tree_leaves(tree)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    f(tree, 2.0)
    assert len(f._versions) == 1


def test_a_dataclass_is_rebuilt_without_running_its_code_again() -> None:
    argument = Scaled(X)
    got = ef.jit(lambda s: s.w + s.total)(argument)
    np.testing.assert_array_equal(got, 2 * X + 2 * X.sum())
    result = ef.jit(lambda x: Scaled(x))(X)
    np.testing.assert_array_equal(result.w, 2 * X)
    assert result.total == 2 * X.sum()


def test_a_defaultdict_keeps_its_default() -> None:
    result = ef.jit(lambda x: defaultdict(int, x=x + 1))(X)
    assert result["missing"] == 0 and result.default_factory is int


def test_methods_of_containers_work_in_the_function() -> None:
    np.testing.assert_array_equal(ef.jit(lambda t: t.twice())(Doubled(X)), 2 * X)


def test_other_values_beside_the_arrays_have_their_own_programs() -> None:
    f = ef.jit(lambda t: t.w * (2 if t.name == "double" else 1))
    for name in ("single", "double", "single"):
        np.testing.assert_array_equal(f(Frozen(X, name)), X * (2 if name == "double" else 1))
    assert len(f._versions) == 2


def test_keyword_only_arguments_and_defaults_are_numpys() -> None:
    def f(x: Any, y: Any = 3.0, /, z: Any = None, *rest: Any, gain: Any = 2.0, **more: Any) -> Any:
        total = x * y * gain + sum(rest) + sum(more.values())
        return total if z is None else total + z

    g = ef.jit(f)
    for args, kwargs in (
        ((X,), {}), ((X, X), {}), ((X,), {"gain": X}), ((X, 2.0, X), {}), ((X, X, X, X, X), {}),
        ((X,), {"z": X, "gain": 5}), ((X,), {"a": X, "b": X}),
    ):  # fmt: skip
        np.testing.assert_array_equal(g(*args, **kwargs), f(*args, **kwargs))


def test_a_partial_function_a_callable_object_and_a_bound_method_are_functions() -> None:
    class Affine:
        def __init__(self, w: Any) -> None:
            self.w = w

        def __call__(self, x: Any, *, shift: Any = 1.0) -> Any:
            return x * self.w + shift

        def doubled(self, x: Any) -> Any:
            return 2 * self(x)

    affine = Affine(np.full(3, 3.0))
    for function in (
        functools.partial(affine, shift=5.0),
        affine,
        affine.doubled,
        functools.partial(np.add, X),
        np.tanh,
    ):
        f = ef.jit(function)
        np.testing.assert_allclose(f(X), function(X))
        np.testing.assert_allclose(f(X + 1), function(X + 1))
        assert "eqfuse.jit of" in repr(f)
    np.testing.assert_array_equal(ef.jit(functools.partial(affine, shift=5.0))(X, shift=X), affine(X, shift=X))


def test_a_class_without_fields_is_refused_by_its_name_and_the_way_out_named() -> None:
    class Model:
        w = X

    with pytest.raises(ef.TraceError, match=r"'m' is a .*Model.*static_argnames"):
        ef.jit(lambda m, x: m.w * x)(Model(), X)
    assert (ef.jit(lambda m, x: m.w * x, static_argnames="m")(Model(), X) == X * X).all()


class Colour(StrEnum):
    RED = "red"


ALIKE = [(1, True, 1.0, np.float64(1), 1 + 0j), (0.0, -0.0, 0), ("red", Colour.RED, np.str_("red")), ((1,), (True,))]


@pytest.mark.parametrize("values", ALIKE, ids=str)
def test_keys_and_other_values_that_python_calls_equal_have_programs_of_their_own(values: tuple) -> None:
    def keyed(tree: Any) -> Any:
        return {"x": [x * 2 for x in tree.values()], "key": repr([*tree])}

    for containing in (dict, OrderedDict):
        jitted = ef.jit(keyed, target="numpy")
        for value in (*values, *values):
            assert jitted(containing({value: X}))["key"] == repr([value])
    named = ef.jit(lambda x, name: {"x": x * 2, "name": repr(name)}, target="numpy")
    for value in (*values, *values):
        if isinstance(value, str):
            assert named(X, value)["name"] == repr(value)


def test_slices_of_numbers_that_python_calls_equal_have_programs_of_their_own() -> None:
    for static in ((), ("s",)):
        f = ef.jit(lambda x, s: {"x": x[s], "stop": repr(s.stop)}, static_argnames=static, target="numpy")
        for s in (slice(0, 1), slice(0, True), slice(0, 2), slice(0, 1)):
            result = f(X, s)
            np.testing.assert_array_equal(result["x"], X[s])
            assert result["stop"] == repr(s.stop)


def test_a_keyword_with_the_name_of_a_parameter_by_position_is_kept_or_refused_by_name() -> None:
    def f(n: Any, x: Any, /, y: Any = 3.0, **more: Any) -> Any:
        return x * n + y, {name: value * 2 for name, value in more.items()}

    result = ef.jit(f)(2, X, x=X, n=X)
    np.testing.assert_array_equal(result[0], f(2, X)[0])
    np.testing.assert_array_equal([*result[1].values()], [2 * X, 2 * X])
    assert [*result[1]] == ["x", "n"]
    with pytest.raises(ef.TraceError, match="'x' has the name of a parameter by position"):
        ef.jit(f, static_argnames="n")(2, X, x=X)
