"""What a function can reach by name: the functions, classes, objects and containers of the user's own code.

In: functions and objects. Out: `ReachableState`, the names that their code uses and the objects behind them. Used by
`frontends.stand_ins`, which puts its own behind some names, and by `outside`, which sees what changes.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from eqfuse.errors import is_librarys_file

Namespace = Any  # what holds a value by a name: globals, a cell, a class, a container, an object with attributes
Name = tuple[Namespace, Any, Any]  # a namespace, a name in it (an attribute, a key, a place), and its value

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
CACHED = type(functools.lru_cache(lambda: None))
OPEN_CONTAINERS = (list, dict, set, deque)
MOST_ELEMENTS = 10_000  # elements of one container that are looked into

_LIBRARIES = {"numpy", "scipy", "eqfuse", *sys.stdlib_module_names} - {"__main__"}
_BEHIND = ("__func__", "func", "fget", "fset", "__wrapped__", "__self__", "args", "keywords")
_WRAPPERS = (
    types.MethodType, staticmethod, classmethod, property, functools.partial, functools.partialmethod,
    functools.cached_property,
)  # fmt: skip
_REPLACED = (*GENERATORS, Iterator, tuple, staticmethod, classmethod)
_IDLE = (str, bytes, int, float, complex, bool, type(None), types.BuiltinFunctionType, types.MethodDescriptorType)


class Builtin(NamedTuple):
    """What Python has for a name that a namespace has not."""

    value: Any


class ReachableState(NamedTuple):
    """`names`: those that code uses, with their values, and those by which containers and objects hold functions and
    generators. `used`: by the identity of a dict of globals, it and all names that code uses of it, whether or not they
    are there. `objects`: what can change, by how code comes there. `code`: that of the functions."""

    names: list[Name]
    used: dict[int, tuple[dict[str, Any], set[str]]]
    objects: list[tuple[str, Any]]
    code: list[types.CodeType]


def reach(roots: Mapping[str, Any], value_of: Callable[[Namespace, str], Any]) -> ReachableState:
    """What `roots` can reach. `value_of` reads names.

    Of installed packages only the roots' own are searched: others are large, and take what they are given.
    """
    walk = _ReachWalk(roots, value_of)
    while walk.stack:
        walk.visit(*walk.stack.pop())
    return walk.reached


class _ReachWalk:
    def __init__(self, roots: Mapping[str, Any], value_of: Callable[[Namespace, str], Any]) -> None:
        self.value_of = value_of
        self.reached = ReachableState([], {}, [], [])
        self.stack = list(roots.items())
        self.seen: dict[Any, Any] = {}  # by identity, kept so that no other object takes it
        self.own = {top_package(module_of(root)) for root in roots.values()} - _LIBRARIES

    def visit(self, path: str, value: Any) -> None:
        if isinstance(value, _IDLE) or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            self.function(path, value)
        elif isinstance(value, type):
            self.type(value)
        elif isinstance(value, CACHED):
            return
        elif isinstance(value, _WRAPPERS) or "__wrapped__" in _vars(value):
            wrapped = {name: getattr(value, name) for name in _BEHIND if hasattr(value, name)}
            self.stack += [("self" if name == "__self__" else path, behind) for name, behind in wrapped.items()]
            if isinstance(value, functools.partial):
                self.reached.names.extend([(value, name, self.value_of(value, name)) for name in ("func", "args")])
        elif isinstance(value, (*OPEN_CONTAINERS, tuple, frozenset)):
            self.container(path, value)
        elif type(value) is np.ndarray or isinstance(value, GENERATORS):
            self.reached.objects.append((path, value))
        elif not isinstance(value, types.ModuleType):
            self.instance(path, value)

    def function(self, path: str, function: types.FunctionType) -> None:
        if self.foreign(function.__module__):
            return
        code = list(_nested(function.__code__))
        self.reached.code.extend(code)
        used = {name for c in code for name in c.co_names}
        self.globals(function.__globals__, used)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.reached.objects.append((name, cell))
            if cell != types.CellType():
                self.name(cell, name, used)
        defaults = self.value_of(function, "__defaults__") or ()
        self.reached.names.append((function, "__defaults__", defaults))
        of_names = function.__kwdefaults__ or {}
        values = [*defaults, *(self.held(of_names, name) for name in of_names)]
        self.stack += [(f"the default of a parameter of {function.__name__}", value) for value in values]
        self.attributes(function.__name__ if "<" not in function.__name__ else path, function)

    def globals(self, namespace: dict[str, Any], used: set[str]) -> None:
        earlier_names = self.reached.used.setdefault(id(namespace), (namespace, set()))[1]
        for name in used - earlier_names:
            earlier_names.add(name)
            if name in namespace and not isinstance(self.value_of(namespace, name), Builtin):
                self.name(namespace, name, used)
            elif name == type.__name__:
                self.reached.names.append((namespace, name, Builtin(type)))

    def name(self, namespace: Namespace, name: str, used: set[str]) -> None:
        value = self.value_of(namespace, name)
        self.reached.names.append((namespace, name, value))
        if isinstance(value, types.ModuleType):
            if not self.foreign(value.__name__):
                self.globals(vars(value), used)
        else:
            self.stack.append((name, value))

    def type(self, kind: type) -> None:
        for base in kind.__mro__:
            if not self.foreign(base.__module__):
                self.reached.objects.append((base.__name__, base))
                for name in vars(base):
                    value = self.held(base, name)
                    if name not in ("__dict__", "__weakref__", "__module__", "__doc__"):
                        self.stack.append((f"{base.__name__}.{name}", value))

    def container(self, path: str, value: Any) -> None:
        if isinstance(value, OPEN_CONTAINERS):
            self.reached.objects.append((path, value))
        if len(value) <= MOST_ELEMENTS:
            fixed = isinstance(value, (set, frozenset, tuple))
            pairs = enumerate(value) if fixed else [(key, self.held(value, key)) for key in _keys(value)]
            self.stack += [(f"{path}[{key!r}]", child) for key, child in pairs]

    def held(self, holder: Any, name: Any) -> Any:
        """What `holder` has by that name, key or place; noted where something may stand in for it."""
        value = self.value_of(holder, name)
        if isinstance(value, _REPLACED) or callable(value):
            self.reached.names.append((holder, name, value))
        return value

    def instance(self, path: str, value: Any) -> None:
        kind = type(value)
        if kind is types.SimpleNamespace or not self.foreign(kind.__module__):
            self.attributes(path, value)
            self.stack.append((kind.__name__, kind))

    def attributes(self, path: str, value: Any) -> None:
        self.reached.objects.append((path, value))
        names = [name for name in attributes(value) if name != "__wrapped__"]
        self.stack += [(f"{path}.{name}", self.held(value, name)) for name in names]

    def foreign(self, module: Any) -> bool:
        return of_library(str(module)) or (top_package(module) not in self.own and _installed(top_package(module)))


def _keys(value: Any) -> Iterable[Any]:
    """Of a dict, its keys; of a list, its places."""
    return list(value) if isinstance(value, dict) else range(len(value))


def attributes(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own."""
    attrs = dict(_vars(value))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attrs[name] = getattr(value, name)
    return attrs


def _vars(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})


def module_of(root: Any) -> Any:
    """The module of a function, or of the function behind methods, partial applications and wrappers."""
    for name in _BEHIND[:5]:
        behind = getattr(root, name, None)
        if behind is not None and not isinstance(root, type):
            return module_of(behind)
    return getattr(root, "__module__", "")


@functools.cache
def of_library(module: str) -> bool:  # what ef.xp calls, its user calls
    return top_package(module) in _LIBRARIES and not module.startswith("eqfuse.xp")


def top_package(module: Any) -> str:
    return str(module).partition(".")[0]


@functools.cache
def _installed(package: str) -> bool:
    """Is `package` a distribution that was installed, rather than the user's own code?"""
    return is_librarys_file(getattr(sys.modules.get(package), "__file__", None) or "")


def _nested(code: types.CodeType) -> Iterable[types.CodeType]:
    """`code`, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
